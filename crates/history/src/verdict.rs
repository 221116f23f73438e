//! What the judge found.

use std::collections::BTreeMap;
use std::fmt;

/// What is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// A request that is sent after a grant was answered gets a greater token, over all locks; no two grants
    /// have the same.
    Tokens,
    /// No two clients believe in what they cannot both hold: exclusive, shared, and permits by their number.
    Holders,
    /// No two commands run beside each other under locks that they cannot both hold.
    Beside,
    /// A grant that is answered while an earlier one conflicts with it follows what ended that: a release, the end of
    /// its session, or force.
    Order,
    /// What waits, seen in the queue, is granted before what is asked for later.
    Fifo,
    /// A request has one token, however often it is repeated; and a repetition is not refused for being one.
    Once,
    /// A session is not ended while its client's lease lasts, nor is a lock taken from it.
    Early,
    /// What was granted and not released is still held, over restarts, too.
    Durable,
    /// What was released or closed, and confirmed, is not held.
    Ghost,
    /// What a client that is gone held, and its wait, is gone after its time-to-live and a generous bound, not
    /// counting the time of faults.
    Late,
    /// Commands end with documented exit codes, which say what happened.
    Exit,
    /// The node goes on unless it is told to end, and ends as it is told.
    Node,
    /// Without faults everything that was asked is answered, and every process ends.
    Progress,
}

impl Rule {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Tokens,
        Self::Holders,
        Self::Beside,
        Self::Order,
        Self::Fifo,
        Self::Once,
        Self::Early,
        Self::Durable,
        Self::Ghost,
        Self::Late,
        Self::Exit,
        Self::Node,
        Self::Progress,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tokens => "tokens",
            Self::Holders => "holders",
            Self::Beside => "beside",
            Self::Order => "order",
            Self::Fifo => "fifo",
            Self::Once => "once",
            Self::Early => "early",
            Self::Durable => "durable",
            Self::Ghost => "ghost",
            Self::Late => "late",
            Self::Exit => "exit",
            Self::Node => "node",
            Self::Progress => "progress",
        }
    }

    /// What it says.
    pub fn says(self) -> &'static str {
        match self {
            Self::Tokens => "tokens rise",
            Self::Holders => "no two believe in what they cannot both hold",
            Self::Beside => "no two commands run beside each other",
            Self::Order => "a grant follows the end of what it conflicts with",
            Self::Fifo => "first come, first served",
            Self::Once => "one token for a request, however often repeated",
            Self::Early => "no session and no lock ends while its lease lasts",
            Self::Durable => "what was granted is held, after restarts too",
            Self::Ghost => "what was released is not held",
            Self::Late => "what the dead held is freed",
            Self::Exit => "exit codes say what happened",
            Self::Node => "the node ends as it is told, and only then",
            Self::Progress => "everything ends when faults have ended",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which rule.
    pub rule: Rule,
    /// What happened.
    pub says: String,
    /// The events that show it: places in the history, in the order of time.
    pub shown_by: Vec<usize>,
}

/// How often a rule was applied, and what it found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How often it was applied.
    pub judged: u64,
    /// How often it could not be, and why.
    pub not_judged: BTreeMap<&'static str, u64>,
}

/// What came of a history.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// Of each rule.
    pub tallies: BTreeMap<Rule, Tally>,
    /// What was found, in the order of the rules.
    pub violations: Vec<Violation>,
}

impl Verdict {
    /// Whether nothing was found.
    pub fn holds(&self) -> bool {
        self.violations.is_empty()
    }

    pub(crate) fn judged(&mut self, rule: Rule, count: u64) {
        self.tallies.entry(rule).or_default().judged += count;
    }

    pub(crate) fn not_judged(&mut self, rule: Rule, why: &'static str) {
        *self.tallies.entry(rule).or_default().not_judged.entry(why).or_default() += 1;
    }

    pub(crate) fn violated(&mut self, rule: Rule, says: String, mut shown_by: Vec<usize>) {
        shown_by.sort_unstable();
        shown_by.dedup();
        self.violations.push(Violation { rule, says, shown_by });
    }
}

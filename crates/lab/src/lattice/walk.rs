//! All consistent cuts of a run, level by level.

use conclave_protocol::NodeId;
use serde::Serialize;

use super::fact::Asked;
use super::level::{Full, Level, Origin};
use super::{Computation, Fact, Status};

/// How much memory a walk takes that is not told otherwise.
pub const MEMORY: u64 = 2 << 30;

/// What to find out, and with how much memory.
#[derive(Clone, Debug)]
pub struct Questions {
    /// Whether this is so in some consistent cut.
    pub possibly: Option<Fact>,
    /// Whether every run in which the same happened passes through a cut in which this is so.
    pub definitely: Option<Fact>,
    /// How many bytes the cuts may take.
    pub memory: u64,
}

/// Why a walk ended before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stop {
    /// The memory was used up.
    Memory,
    /// It was told to.
    Told,
}

/// What a walk has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Walked {
    /// How many consistent cuts there are of each size, as far as the walk came.
    pub levels: Vec<u64>,
    /// In how many orders all of it could have happened, if the walk came to its end: `u128::MAX` may
    /// stand for more.
    pub linearizations: Option<u128>,
    /// Whether there are more linearizations than 2^128 − 1.
    pub capped: bool,
    /// Where the first fact is so: the first such cut. `None` if it was not asked about or is so
    /// nowhere that the walk came.
    pub possibly: Option<Vec<u32>>,
    /// What became of the second.
    pub definitely: Option<Definitely>,
    /// Why it ended, if that was before its end.
    pub stopped: Option<Stop>,
    /// How many bytes the cuts took at most.
    pub bytes: u64,
}

/// Whether every run passes through a cut with the fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Definitely {
    /// Every run has done so when so many events have happened.
    By(usize),
    /// There is one that does not: whose events come one after the other in it. `None` if there was
    /// no memory left to keep them.
    Refuted(Option<Vec<NodeId>>),
}

/// Sees what a walk finds.
pub trait Visitor {
    /// A level is whole: so many events, these cuts, and in how many ways each is reached.
    fn level(&mut self, size: usize, cuts: &mut dyn Iterator<Item = (&[u32], u128)>);

    /// Asked now and then, while the cuts with so many events are looked for, so many of which have
    /// been found: whether to go on.
    fn goes_on(&mut self, size: usize, found: u64) -> bool;
}

/// Between two such questions there are so many cuts.
const OFTEN: usize = 1 << 14;

/// Walks through all consistent cuts of a run.
pub fn walk(
    run: &Computation,
    statuses: &[Vec<Status>],
    questions: &Questions,
    visitor: &mut dyn Visitor,
) -> Walked {
    let asked = |fact| Asked::new(fact, run, statuses);
    let possibly = questions.possibly.as_ref().map(asked);
    let definitely = questions.definitely.as_ref().map(asked);
    let mut walk = Walk {
        run,
        needs: needs(run),
        lengths: run.lengths(),
        possibly,
        definitely,
        memory: questions.memory,
        trail: Some(Vec::new()),
        trail_bytes: 0,
        found: Walked {
            levels: Vec::new(),
            linearizations: None,
            capped: false,
            possibly: None,
            definitely: None,
            stopped: None,
            bytes: 0,
        },
    };
    walk.go(visitor);
    walk.found
}

struct Walk<'a> {
    run: &'a Computation,
    /// Of each node, by the number of its events so far: which events of which node its next event
    /// comes after.
    needs: Vec<Vec<Option<(usize, u32)>>>,
    lengths: Vec<u32>,
    possibly: Option<Asked<'a>>,
    definitely: Option<Asked<'a>>,
    memory: u64,
    /// Of each level, from where each free cut comes; none if that took too much memory.
    trail: Option<Vec<Vec<Origin>>>,
    trail_bytes: u64,
    found: Walked,
}

fn needs(run: &Computation) -> Vec<Vec<Option<(usize, u32)>>> {
    let of = |node: usize| {
        let numbers = 1..=run.events[node].len() as u32;
        numbers.map(|number| run.needs(node, number)).collect()
    };
    (0..run.nodes()).map(of).collect()
}

impl Walk<'_> {
    fn go(&mut self, visitor: &mut dyn Visitor) {
        let nodes = self.run.nodes();
        let events: usize = self.lengths.iter().map(|length| *length as usize).sum();
        let (mut now, mut next) = (Level::new(nodes), Level::new(nodes));
        if now.add(&vec![0; nodes], 1, true, (0, 0), self.memory).is_err() {
            self.found.stopped = Some(Stop::Memory);
            return;
        }
        for size in 0..=events {
            self.look(&mut now, size);
            self.found.levels.push(now.len() as u64);
            let mut cuts = (0..now.len()).map(|place| (now.cut(place), now.paths(place)));
            visitor.level(size, &mut cuts);
            if size == events {
                break;
            }
            next.clear();
            if let Err(stop) = self.advance(&now, &mut next, size + 1, visitor) {
                self.found.stopped = Some(stop);
                return;
            }
            std::mem::swap(&mut now, &mut next);
        }
        self.found.linearizations = Some(now.paths(0));
        if self.definitely.is_some() && self.found.definitely.is_none() {
            self.found.definitely = Some(Definitely::Refuted(self.free_run()));
        }
    }

    /// Asks about each cut of a level.
    fn look(&mut self, level: &mut Level, size: usize) {
        if let (Some(asked), None) = (&self.possibly, &self.found.possibly) {
            // The greatest, so that what is found does not depend on the order of the walk.
            let found = level.cuts().filter(|cut| asked.holds(cut)).max();
            self.found.possibly = found.map(<[u32]>::to_vec);
        }
        let (Some(asked), None) = (&self.definitely, &self.found.definitely) else { return };
        let mut free = 0u64;
        for place in 0..level.len() {
            let avoids = level.is_free(place) && !asked.holds(level.cut(place));
            level.set_free(place, avoids);
            free += u64::from(avoids);
        }
        if free == 0 {
            self.found.definitely = Some(Definitely::By(size));
            self.trail = None;
        }
        if let Some(trail) = &mut self.trail {
            trail.push(level.origins().to_vec());
            self.trail_bytes += 8 * level.len() as u64;
            // The walk itself comes first.
            if self.trail_bytes > self.memory / 4 {
                self.trail = None;
            }
        }
        if self.trail.is_none() {
            self.trail_bytes = 0;
        }
    }

    /// The cuts with one event more.
    fn advance(
        &mut self,
        now: &Level,
        next: &mut Level,
        size: usize,
        visitor: &mut dyn Visitor,
    ) -> Result<(), Stop> {
        let mut cut = vec![0; self.lengths.len()];
        let room = self.memory.saturating_sub(now.bytes() + self.trail_bytes);
        for place in 0..now.len() {
            if place % OFTEN == 0 && !visitor.goes_on(size, next.len() as u64) {
                return Err(Stop::Told);
            }
            cut.copy_from_slice(now.cut(place));
            let (paths, free) = (now.paths(place), now.is_free(place));
            for node in 0..cut.len() {
                if cut[node] == self.lengths[node] {
                    continue;
                }
                let needs = self.needs[node][cut[node] as usize];
                if needs.is_some_and(|(from, sent)| cut[from] < sent) {
                    continue;
                }
                cut[node] += 1;
                let origin = (place as u32, node as u32);
                match next.add(&cut, paths, free, origin, room) {
                    Ok(over) => self.found.capped |= over,
                    Err(Full) => return Err(Stop::Memory),
                }
                cut[node] -= 1;
            }
        }
        let bytes = now.bytes() + next.bytes() + self.trail_bytes;
        self.found.bytes = self.found.bytes.max(bytes);
        Ok(())
    }

    /// Whose events come one after the other in a run that avoids the fact.
    fn free_run(&self) -> Option<Vec<NodeId>> {
        let mut place = 0;
        let back = self.trail.as_ref()?[1..].iter().rev().map(|origins| {
            let (from, node) = origins[place as usize];
            place = from;
            NodeId(node)
        });
        let mut run: Vec<NodeId> = back.collect();
        run.reverse();
        Some(run)
    }
}

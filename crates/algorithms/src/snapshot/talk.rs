//! Processes that talk: each works for a while, says a word to another, rests until a process speaks to
//! it, or waits for a word from all of some others, or from any of them.
//!
//! What the processes do is drawn by chance, or written down: `--set talk=0>1,1?0+2,2?0|1,2-` has p0
//! say a word to p1, p1 wait for p0 and p2, and p2 wait for p0 or p1 and then rest. Who has done what
//! is written rests. Words that come before a process waits for them are kept.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use conclave_protocol::family::reports::{DEADLOCKED, STRANDED, TERMINATED};
use conclave_protocol::{Ctx, Never, NodeId, NodeSet, Opt, Protocol, Setup, Unfit, Whole, names};
use serde::{Deserialize, Serialize};

use super::app::Application;

/// What can be set.
pub const TALK: Opt = Opt {
    name: "talk",
    default: "random",
    help: "what processes do: N>M says, N?A+B waits for all, N?A|B for any, N- rests, with commas",
};

/// The state of a process.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Talk {
    /// What it is doing.
    pub phase: Phase,
    /// Who has said something that it has not waited for yet.
    heard: NodeSet,
    /// How much it has done.
    done: u32,
}

/// What a process is doing.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Phase {
    /// It works, and does something soon.
    Active,
    /// It waits for nothing, and goes on when another speaks to it.
    Resting,
    /// It goes on when all of these have spoken to it, or any.
    Waiting {
        /// Who has not spoken.
        missing: NodeSet,
        /// Whether all have to.
        all: bool,
    },
}

/// What never changes.
#[derive(Clone, Debug)]
pub struct Config {
    /// What each process does, if that is written down.
    script: Option<Arc<[Vec<Act>]>>,
    /// How much each does, if it is drawn.
    acts: u32,
    /// How long it works before it does something.
    every: Duration,
}

/// What a process does.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Act {
    Say(NodeId),
    Wait { whom: NodeSet, all: bool },
    Rest,
}

/// What processes send each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Msg {
    /// A word.
    Word,
}

/// The timer of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Timer {
    /// It is time to do something.
    Act,
}

impl Protocol for Talk {
    type Config = Config;
    type Request = Never;
    type Notice = Never;
    type Msg = Msg;
    type Timer = Timer;
    type Stable = Never;

    fn start(_: Option<Never>, ctx: &mut Ctx<Self>) -> Self {
        ctx.set_timer(Timer::Act, ctx.config.every);
        Self { phase: Phase::Active, heard: NodeSet::new(), done: 0 }
    }

    fn on_request(&mut self, request: Never, _: &mut Ctx<Self>) {
        match request {}
    }

    fn on_message(&mut self, from: NodeId, Msg::Word: Msg, ctx: &mut Ctx<Self>) {
        match &mut self.phase {
            Phase::Waiting { missing, all } if missing.contains(from) => {
                missing.remove(from);
                if !*all || missing.is_empty() {
                    self.go_on(ctx);
                }
            }
            Phase::Resting => {
                self.heard.insert(from);
                self.go_on(ctx);
            }
            Phase::Active | Phase::Waiting { .. } => {
                self.heard.insert(from);
            }
        }
    }

    fn on_timer(&mut self, Timer::Act: Timer, ctx: &mut Ctx<Self>) {
        let act = self.next(ctx).unwrap_or(Act::Rest);
        self.done += 1;
        self.phase = match act {
            Act::Say(to) => {
                ctx.send(to, Msg::Word);
                Phase::Active
            }
            Act::Rest => Phase::Resting,
            Act::Wait { whom, all } => {
                let came = whom.intersection(&self.heard);
                let missing: NodeSet = whom.iter().filter(|node| !came.contains(*node)).collect();
                for node in came.iter() {
                    self.heard.remove(node);
                }
                let enough = if all { missing.is_empty() } else { !came.is_empty() };
                if enough { Phase::Active } else { Phase::Waiting { missing, all } }
            }
        };
        if self.phase == Phase::Active {
            ctx.set_timer(Timer::Act, ctx.config.every);
        }
    }

    fn waits_for(&self, _: NodeId, _: &Config) -> NodeSet {
        match &self.phase {
            Phase::Waiting { missing, .. } => missing.clone(),
            Phase::Active | Phase::Resting => NodeSet::new(),
        }
    }
}

impl Talk {
    fn go_on(&mut self, ctx: &mut Ctx<Self>) {
        self.phase = Phase::Active;
        ctx.set_timer(Timer::Act, ctx.config.every);
    }

    /// What it does next, if anything.
    fn next(&self, ctx: &mut Ctx<Self>) -> Option<Act> {
        let Config { script, acts, .. } = ctx.config;
        if let Some(script) = script {
            return script.get(ctx.me.index())?.get(self.done as usize).cloned();
        }
        let others: Vec<NodeId> = ctx.neighbors().collect();
        if self.done >= *acts || others.is_empty() {
            return None;
        }
        let many = others.len() as u32;
        let chosen = ctx.choose(2 * many + 3);
        let one = others[(chosen % many) as usize];
        Some(match chosen {
            it if it < many => Act::Say(one),
            it if it < 2 * many => Act::Wait { whom: [one].into_iter().collect(), all: true },
            it if it == 2 * many => Act::Rest,
            it => Act::Wait { whom: others.into_iter().collect(), all: it == 2 * many + 1 },
        })
    }
}

/// The processes by what can become of them, messages on their way included.
struct Prospects {
    /// Some have something to do now.
    active: bool,
    /// Some wait.
    waiting: bool,
    /// Some wait for each other and for no process that could release them.
    deadlocked: bool,
    /// Some wait for one that will never do anything again.
    stranded: bool,
}

impl Prospects {
    fn of(whole: &Whole<'_, Talk>) -> Self {
        let nodes: Vec<NodeId> = (0..whole.nodes.len() as u32).map(NodeId).collect();
        // A process that is down will never do anything again.
        let phase = |node: NodeId| whole.nodes[node.index()].map(|talk| &talk.phase);
        let spoken = |from: NodeId, to: NodeId| {
            whole.messages.iter().any(|(sender, receiver, _)| (*sender, *receiver) == (from, to))
        };
        let wakes = |to: NodeId| whole.messages.iter().any(|(_, receiver, _)| *receiver == to);

        // Who could ever do something again: more and more, until that is all. Who rests could be
        // spoken to by anybody who could.
        let mut live = NodeSet::new();
        loop {
            let more: Vec<NodeId> = nodes
                .iter()
                .copied()
                .filter(|&node| !live.contains(node))
                .filter(|&node| match phase(node) {
                    Some(Phase::Active) => true,
                    Some(Phase::Resting) => wakes(node) || !live.is_empty(),
                    Some(Phase::Waiting { missing, all }) => {
                        let comes = |from| spoken(from, node) || live.contains(from);
                        if *all { missing.iter().all(comes) } else { missing.iter().any(comes) }
                    }
                    None => false,
                })
                .collect();
            if more.is_empty() {
                break;
            }
            live.extend(more);
        }

        // Who waits for each other: fewer and fewer, until that is all.
        let waits = |node: &NodeId| matches!(phase(*node), Some(Phase::Waiting { .. }));
        let mut dead: NodeSet = nodes.iter().copied().filter(waits).collect();
        loop {
            let fewer: NodeSet = dead
                .iter()
                .filter(|&node| match phase(node) {
                    Some(Phase::Waiting { missing, all }) => {
                        let stays = |from| dead.contains(from) && !spoken(from, node);
                        if *all { missing.iter().any(stays) } else { missing.iter().all(stays) }
                    }
                    _ => false,
                })
                .collect();
            if fewer == dead {
                break;
            }
            dead = fewer;
        }

        let over = |node: NodeId| !live.contains(node) && !waits(&node);
        let stranded = |node: &NodeId| match phase(*node) {
            Some(Phase::Waiting { missing, .. }) if !live.contains(*node) => {
                missing.iter().any(|from| over(from) && !spoken(from, *node))
            }
            _ => false,
        };
        Self {
            active: nodes.iter().any(|node| phase(*node) == Some(&Phase::Active)),
            waiting: nodes.iter().any(waits),
            deadlocked: !dead.is_empty(),
            stranded: nodes.iter().any(stranded),
        }
    }
}

impl Application for Talk {
    const NAME: &'static str = "talk";

    fn constants(setup: &Setup) -> Result<Config, Unfit> {
        let text: String = setup.option(TALK.name, TALK.default.to_owned())?;
        let script = match text == TALK.default {
            true => None,
            false => Some(script(&text, setup)?),
        };
        Ok(Config { script, acts: setup.option("rounds", 2)?, every: setup.delay / 2 })
    }

    fn lasting(_: &Config) -> u64 {
        TERMINATED | DEADLOCKED | STRANDED
    }

    fn stable(whole: &Whole<'_, Self>) -> u64 {
        let Prospects { active, waiting, deadlocked, stranded } = Prospects::of(whole);
        let terminated = !active && !waiting && whole.messages.is_empty();
        let bit = |is: bool, bit| if is { bit } else { 0 };
        bit(terminated, TERMINATED) | bit(deadlocked, DEADLOCKED) | bit(stranded, STRANDED)
    }

    fn is_active(&self) -> bool {
        self.phase == Phase::Active
    }

    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.phase {
            Phase::Active => f.write_str("active"),
            Phase::Resting => f.write_str("resting"),
            Phase::Waiting { missing, all } => {
                let how = if *all && missing.len() > 1 { "all of " } else { "" };
                let how = if !*all && missing.len() > 1 { "any of " } else { how };
                write!(f, "waiting for {how}{}", names(missing.iter()))
            }
        }
    }

    fn show_msg(Msg::Word: &Msg, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("word")
    }
}

/// What each process does, as it is written down.
fn script(text: &str, setup: &Setup) -> Result<Arc<[Vec<Act>]>, Unfit> {
    let mut acts = vec![Vec::new(); setup.n() as usize];
    for part in text.split(',') {
        let wrong = |why: &str| {
            let form = "should look like 0>1, 0?1+2, 0?1|2 or 0-";
            Unfit::new(format!("talk={text}: {part:?} {why}; it {form}"))
        };
        let node = |text: &str| {
            let id = text.trim().parse().ok().map(NodeId).filter(|id| id.0 < setup.n());
            id.ok_or_else(|| wrong("names no node of the system"))
        };
        let (who, act) = match part.find(['>', '?', '-']) {
            Some(place) => part.split_at(place),
            None => return Err(wrong("says nothing")),
        };
        let (who, rest) = (node(who)?, &act[1..]);
        let act = match &act[..1] {
            "-" if rest.trim().is_empty() => Act::Rest,
            "-" => return Err(wrong("goes on after the rest")),
            ">" => {
                let to = node(rest)?;
                if !setup.topology.linked(who, to) {
                    return Err(wrong("needs a link"));
                }
                Act::Say(to)
            }
            _ => {
                let all = !rest.contains('|');
                let whom = rest.split(if all { '+' } else { '|' }).map(node);
                let whom = whom.collect::<Result<NodeSet, _>>()?;
                if whom.contains(who) {
                    return Err(wrong("waits for itself"));
                }
                Act::Wait { whom, all }
            }
        };
        acts[who.index()].push(act);
    }
    Ok(acts.into())
}

#[cfg(test)]
mod tests {
    use conclave_protocol::Topology;

    use super::*;

    fn setup(script: &str) -> Setup {
        Setup::new(Topology::complete(3)).with("talk", script)
    }

    fn waiting(whom: &[u32], all: bool) -> Phase {
        let missing = whom.iter().copied().map(NodeId).collect();
        Phase::Waiting { missing, all }
    }

    fn what(phases: [Phase; 3], words: &[(u32, u32)]) -> u64 {
        let config = Talk::constants(&setup("random")).expect("it fits");
        let nodes = phases.map(|phase| Talk { phase, heard: NodeSet::new(), done: 0 });
        let word = |&(from, to)| (NodeId(from), NodeId(to), &Msg::Word);
        Talk::stable(&Whole {
            config: &config,
            nodes: nodes.iter().map(Some).collect(),
            messages: words.iter().map(word).collect(),
        })
    }

    #[test]
    fn a_word_on_its_way_may_release_some_and_then_others() {
        use Phase::{Active, Resting};
        let ring = || [waiting(&[1], true), waiting(&[2], true), waiting(&[0], true)];
        assert_eq!(what(ring(), &[]), DEADLOCKED);
        assert_eq!(what(ring(), &[(1, 0)]), 0, "p0 goes on, and may speak to p2");
        assert_eq!(what(ring(), &[(2, 0)]), DEADLOCKED, "no process waits for that word");
        // An OR-waiter is dead only if all it waits for are.
        let or = |other| [waiting(&[1, 2], false), waiting(&[0], true), other];
        assert_eq!(what(or(Active), &[]), 0);
        assert_eq!(what(or(waiting(&[0, 1], true)), &[]), DEADLOCKED);
        assert_eq!(what(or(Resting), &[]), STRANDED, "p2 rests for ever");
        assert_eq!(what([Resting, Resting, Resting], &[]), TERMINATED);
        assert_eq!(what([Resting, Resting, Resting], &[(0, 1)]), 0, "p1 is woken");
        assert_eq!(what([waiting(&[1], true), Resting, Resting], &[]), STRANDED);
        assert_eq!(what([waiting(&[1], true), Resting, Active], &[]), 0, "p2 may wake p1");
    }

    #[test]
    fn a_script_that_cannot_be_carried_out_is_refused_with_what_would_do() {
        for (text, why) in [
            ("0>7", "names no node"),
            ("0", "says nothing"),
            ("0?0", "waits for itself"),
            ("0-1", "goes on after the rest"),
        ] {
            let refused = Talk::constants(&setup(text)).expect_err("it makes no sense");
            assert!(refused.to_string().contains(why), "{text}: {refused}");
            assert!(refused.to_string().contains("0?1+2"), "{refused}");
        }
        assert!(Talk::constants(&setup("0>1,1?0+2,2?0|1,2-")).is_ok());
    }
}

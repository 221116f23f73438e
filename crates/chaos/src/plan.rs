//! Which faults are made when: a function of the seed.

use std::time::Duration;

/// What is done to the node, to the network, to the disk, or by an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// SIGKILL, and a start after a while.
    KillNode,
    /// SIGSTOP, and SIGCONT after a while.
    StopNode,
    /// SIGSTOP for a moment, many times.
    StutterNode,
    /// SIGTERM, and a start after a while.
    TerminateNode,
    /// The proxy closes all connections and refuses new ones.
    Cut,
    /// The proxy resets all connections.
    Reset,
    /// The proxy is slow.
    Delay,
    /// The node hears its clients, which do not hear it.
    HalfOpen,
    /// Nothing passes, and no connection is closed.
    Silence,
    /// The disk has hardly any room.
    FullDisk,
    /// The disk has no room at all.
    NoRoom,
    /// An operator takes a lock by force.
    Force,
    /// An operator ends a leadership by force.
    Depose,
}

impl Fault {
    pub(crate) const ALL: [Self; 13] = [
        Self::KillNode,
        Self::StopNode,
        Self::StutterNode,
        Self::TerminateNode,
        Self::Cut,
        Self::Reset,
        Self::Delay,
        Self::HalfOpen,
        Self::Silence,
        Self::FullDisk,
        Self::NoRoom,
        Self::Force,
        Self::Depose,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::KillNode => "kill-node",
            Self::StopNode => "stop-node",
            Self::StutterNode => "stutter-node",
            Self::TerminateNode => "terminate-node",
            Self::Cut => "cut",
            Self::Reset => "reset",
            Self::Delay => "delay",
            Self::HalfOpen => "half-open",
            Self::Silence => "silence",
            Self::FullDisk => "full-disk",
            Self::NoRoom => "no-room",
            Self::Force => "force",
            Self::Depose => "depose",
        }
    }

    pub(crate) fn needs_small_disk(self) -> bool {
        matches!(self, Self::FullDisk | Self::NoRoom)
    }
}

/// A fault, how long after the one before it begins, and how long it lasts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) after: Duration,
    pub(crate) fault: Fault,
    pub(crate) length: Duration,
    /// What is drawn besides: which lock, how slow.
    pub(crate) detail: u64,
}

/// All kinds in turn, in an order that is new in each round.
pub(crate) struct Plan {
    chance: fastrand::Rng,
    kinds: Vec<Fault>,
    round: Vec<Fault>,
}

impl Plan {
    pub(crate) fn new(seed: u64, kinds: Vec<Fault>) -> Self {
        Self { chance: fastrand::Rng::with_seed(seed), kinds, round: Vec::new() }
    }
}

impl Iterator for Plan {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        if self.round.is_empty() {
            self.round.clone_from(&self.kinds);
            // A node that stumbles is what most of what is around the lock manager has to withstand.
            let stumbles = self.kinds.contains(&Fault::StutterNode);
            self.round.extend(stumbles.then_some(Fault::StutterNode));
            self.chance.shuffle(&mut self.round);
        }
        let fault = self.round.pop()?;
        let chance = &mut self.chance;
        let after = Duration::from_millis(chance.u64(200..2_500));
        // Mostly shorter than a lease, sometimes longer.
        let most = if chance.u8(..4) == 0 { 6_000 } else { 1_200 };
        let length = Duration::from_millis(chance.u64(20..most));
        Some(Step { after, fault, length, detail: chance.u64(..) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_draws_the_same_faults_and_each_round_has_all_kinds() {
        let draw = |seed| Plan::new(seed, Fault::ALL.to_vec()).take(28).collect::<Vec<_>>();
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        for round in draw(7).chunks(Fault::ALL.len() + 1) {
            let mut kinds: Vec<Fault> = round.iter().map(|step| step.fault).collect();
            kinds.sort_unstable();
            kinds.dedup();
            assert_eq!(kinds, Fault::ALL);
        }
    }
}

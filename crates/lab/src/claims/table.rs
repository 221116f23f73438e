//! The table: one line per check.

mod rings;
mod superpeers;

use conclave_protocol::Channels;
use conclave_protocol::Property::{
    self, Accuracy, BestLeads, Completeness, Exclusion, FcfsHappenedBefore, FcfsTimestamp,
    FenceOrder, LeaderKnown, NoDeadlock, NoStarvation, OneLeader, OneLeaderPerEpoch,
};

use super::{Check, Claims};

/// What most algorithms promise.
const LOCK: &[Property] = &[Exclusion, NoDeadlock, NoStarvation, FenceOrder];
/// And those that grant in the order of timestamps.
const STAMPED: &[Property] = &[Exclusion, NoDeadlock, NoStarvation, FcfsTimestamp, FenceOrder];
/// And in the order of cause and effect.
const ORDERED: &[Property] =
    &[Exclusion, NoDeadlock, NoStarvation, FcfsHappenedBefore, FcfsTimestamp, FenceOrder];
const SAFE: &[Property] = &[Exclusion, FenceOrder];
const FREE: &[Property] = &[Exclusion, NoDeadlock, FenceOrder];
const LIVE: &[Property] = &[NoDeadlock, NoStarvation];
const ME: &[Property] = &[Exclusion];
const ND: &[Property] = &[NoDeadlock];
const NS: &[Property] = &[NoStarvation];
const FENCE: &[Property] = &[FenceOrder];
const CAUSAL: &[Property] = &[FcfsHappenedBefore];
const STAMPS: &[Property] = &[FcfsTimestamp];
const WATCH: &[Property] = &[Completeness];
const LEADER: &[Property] = &[OneLeader, LeaderKnown, BestLeads];
/// And never two leaders in an epoch.
const LEADERS: &[Property] = &[OneLeader, OneLeaderPerEpoch, LeaderKnown, BestLeads];
const L1: &[Property] = &[OneLeader];
const L1Q: &[Property] = &[OneLeaderPerEpoch];
const L2: &[Property] = &[LeaderKnown];
const L3: &[Property] = &[BestLeads];
/// No random delays: where timers run out at any moment, they make no difference.
const NO_SPREAD: &[(&str, &str)] = &[("spread", "1")];
const DEFER: &[(&str, &str)] = &[("mode", "defer")];

/// Why the order of timestamps is not checked where tokens are something else.
const NO_STAMPS: &str =
    "its tokens are no timestamps, and a checker sees nothing else of a request";
/// Fencing tokens all alike, so that a run may come back to where it was.
const ALIKE: &[(&str, &str)] = &[("wrap", "1")];
/// Clients that meet again and again. They wait for all replies to an attempt before the next, so
/// that on FIFO links no more than two attempts are under way, which three numbers tell apart.
const MEETING: &[(&str, &str)] = &[("wrap", "3"), ("timeout", "0"), ("backoff", "constant")];
/// The same with the numbers of the catalogue's story.
const MEETING_FOUR: &[(&str, &str)] = &[
    ("wrap", "3"),
    ("timeout", "0"),
    ("backoff", "constant"),
    ("coordinators", "4"),
    ("mode", "ask-all"),
];
/// Clients that draw by lot how long to wait.
const DRAWING: &[(&str, &str)] = &[("wrap", "3"), ("timeout", "0"), ("base", "1")];

/// Every claim of the catalogue about mutual exclusion, elections and failure detectors.
pub static TABLE: &[Claims] = &[
    // Shared memory.
    Claims {
        id: "mutex/dijkstra-1965",
        checks: &[
            Check::new(3, FREE).requests(2),
            Check::new(4, FREE),
            Check::new(3, ND).endless().set(ALIKE),
            Check::new(3, NS).endless().set(ALIKE).loops(50, 26),
            Check::new(3, CAUSAL).requests(2).fails(33),
        ],
        deep: &[Check::new(4, FREE).requests(2)],
    },
    Claims {
        id: "mutex/bakery",
        checks: &[Check::new(3, LOCK).requests(2), Check::new(3, CAUSAL).requests(2).fails(69)],
        deep: &[Check::new(4, SAFE)],
    },
    Claims { id: "mutex/bakery-no-choosing", checks: &[Check::new(3, ME).fails(38)], deep: &[] },
    Claims {
        id: "mutex/bakery-message-passing",
        checks: &[
            Check::new(2, SAFE).requests(2).timers(6),
            // Polls are numbered, so that there is no end to the states.
            Check::new(2, LIVE).bounded(60),
            Check::new(2, CAUSAL).fails(10),
        ],
        deep: &[Check::new(3, SAFE).timers(0)],
    },
    Claims {
        id: "mutex/bakery-message-passing-cooperative",
        checks: &[Check::new(2, LOCK).requests(2), Check::new(2, CAUSAL).fails(10)],
        deep: &[Check::new(3, LOCK)],
    },
    // One coordinator or several.
    Claims {
        id: "mutex/centralized",
        checks: &[
            Check::new(3, LOCK).requests(2),
            Check::new(4, LOCK).requests(2),
            Check::new(3, CAUSAL).talking().fails(5),
        ],
        deep: &[Check::new(5, LOCK).requests(2)],
    },
    Claims {
        id: "mutex/centralized-deny",
        checks: &[
            Check::new(3, LOCK).requests(2).timers(3),
            Check::new(4, LOCK).timers(2),
            Check::new(3, CAUSAL).requests(2).fails(11),
        ],
        deep: &[Check::new(4, LOCK).timers(4)],
    },
    Claims {
        id: "mutex/centralized-token",
        checks: &[
            Check::new(3, LOCK).requests(2),
            Check::new(4, LOCK).requests(2),
            Check::new(3, CAUSAL).talking().fails(5),
        ],
        deep: &[Check::new(5, LOCK).requests(2)],
    },
    Claims {
        id: "mutex/centralized-timestamped",
        checks: &[
            Check::new(3, LOCK).requests(2),
            Check::new(4, LOCK).requests(2),
            Check::new(3, CAUSAL).talking().fails(5),
            Check::unchecked(STAMPS, NO_STAMPS),
        ],
        deep: &[Check::new(5, LOCK).requests(2)],
    },
    Claims {
        id: "mutex/centralized-failover",
        // Clocks are read, so that there is no end to the states.
        checks: &[
            Check::new(2, LOCK).crashes(1).recoveries(1).bounded(36),
            Check::new(3, LOCK).crashes(1).bounded(16),
            Check::new(3, CAUSAL).crashes(1).fails(10),
        ],
        deep: &[Check::new(3, LOCK).crashes(1).recoveries(1).bounded(16)],
    },
    Claims {
        id: "mutex/centralized-failover-no-lease",
        checks: &[
            Check::new(2, LOCK).crashes(1).bounded(60),
            Check::new(3, LOCK).crashes(1).bounded(20),
            Check::new(3, CAUSAL).crashes(1).fails(9),
        ],
        deep: &[Check::new(3, LOCK).crashes(1).bounded(40)],
    },
    Claims {
        id: "mutex/centralized-failover-quorum",
        checks: &[
            Check::new(2, SAFE).set(NO_SPREAD).crashes(1).recoveries(1).bounded(22),
            Check::new(3, SAFE).set(NO_SPREAD).clients(0, 1).partitions(1).bounded(18),
            Check::new(3, ND).set(NO_SPREAD).crashes(2).timers(0).fails(3),
            Check::new(3, NS).set(NO_SPREAD).crashes(2).timers(0).fails(3),
            Check::new(3, CAUSAL).set(NO_SPREAD).fails(13),
        ],
        deep: &[Check::new(3, SAFE).set(NO_SPREAD).partitions(1).bounded(12)],
    },
    Claims {
        id: "mutex/replicated-coordinator",
        checks: &[
            Check::new(3, SAFE).timers(4),
            Check::new(5, SAFE).set(&[("coordinators", "3")]).timers(1),
            Check::new(4, ND).channels(Channels::Fifo).set(MEETING).loops(37, 2),
            Check::new(4, ND).channels(Channels::Fifo).set(DRAWING).loops(99, 64),
            // Here somebody always enters, but not everybody.
            Check::new(3, NS).channels(Channels::Fifo).endless().set(MEETING).loops(40, 16),
            Check::new(3, NS).channels(Channels::Fifo).endless().set(DRAWING).loops(59, 35),
            Check::new(3, CAUSAL).requests(2).fails(10),
        ],
        deep: &[
            Check::new(4, SAFE).timers(2),
            Check::new(6, ND).channels(Channels::Fifo).set(MEETING_FOUR).loops(66, 2),
        ],
    },
    Claims {
        id: "mutex/replicated-coordinator-persistent",
        checks: &[
            Check::new(3, SAFE).crashes(1).recoveries(1).timers(3),
            Check::new(5, SAFE).set(&[("coordinators", "3")]).crashes(1).recoveries(1).timers(0),
            Check::new(4, ND).channels(Channels::Fifo).set(MEETING).loops(38, 4),
            Check::new(4, ND).channels(Channels::Fifo).set(DRAWING).loops(99, 64),
            // Here somebody always enters, but not everybody.
            Check::new(3, NS).channels(Channels::Fifo).endless().set(MEETING).loops(40, 16),
            Check::new(3, NS).channels(Channels::Fifo).endless().set(DRAWING).loops(59, 35),
            Check::new(3, CAUSAL).requests(2).fails(10),
        ],
        deep: &[],
    },
    Claims {
        id: "mutex/lin-sigma",
        // Clocks are read, so that there is no end to the states.
        checks: &[
            Check::new(3, LOCK).bounded(60),
            Check::new(4, LOCK).set(&[("coordinators", "2")]).bounded(40),
            Check::new(5, CAUSAL)
                .set(&[("coordinators", "3"), ("lease", "0")])
                .requests(2)
                .fails(17),
        ],
        deep: &[Check::new(5, LOCK).set(&[("coordinators", "3")]).bounded(30)],
    },
    // Permission of all.
    Claims {
        id: "mutex/lamport",
        checks: &[Check::new(3, ORDERED), Check::new(2, ORDERED).requests(2)],
        deep: &[Check::new(3, SAFE).requests(2).bounded(26)],
    },
    Claims {
        id: "mutex/lamport-ack-suppression",
        checks: &[Check::new(3, ORDERED), Check::new(2, ORDERED).requests(2)],
        deep: &[Check::new(3, SAFE).requests(2).bounded(26)],
    },
    Claims {
        id: "mutex/ricart-agrawala",
        checks: &[Check::new(3, ORDERED).requests(2)],
        deep: &[Check::new(4, SAFE)],
    },
    Claims {
        id: "mutex/ricart-agrawala-multicast",
        checks: &[Check::new(3, ORDERED)],
        deep: &[Check::new(3, ORDERED).requests(2)],
    },
    Claims {
        id: "mutex/ricart-agrawala-bare-reply",
        checks: &[Check::new(3, STAMPED).requests(2), Check::new(3, CAUSAL).requests(2).fails(13)],
        deep: &[Check::new(4, SAFE)],
    },
    Claims {
        id: "mutex/ricart-agrawala-fd",
        checks: &[Check::new(3, ORDERED).crashes(1)],
        deep: &[Check::new(3, ORDERED).crashes(2)],
    },
    Claims {
        id: "mutex/ra-notify-one",
        checks: &[Check::new(3, ME).requests(2), Check::new(3, ND).fails(14)],
        deep: &[],
    },
    Claims {
        id: "mutex/ra-no-tie-break",
        checks: &[Check::new(2, ME).fails(6), Check::new(3, ME).fails(10)],
        deep: &[Check::new(4, ME).requests(2).fails(14)],
    },
    Claims {
        id: "mutex/ricart-agrawala-queued",
        checks: &[Check::new(3, ORDERED).timers(1), Check::new(2, ORDERED)],
        deep: &[Check::new(3, ORDERED).timers(2)],
    },
    Claims {
        id: "mutex/ricart-agrawala-membership",
        checks: &[
            Check::new(3, LOCK).requests(2),
            Check::new(3, LOCK).set(&[("members", "2")]).joins(1),
            // Who is no member waits until it is one, which it may never ask to be.
            Check::new(3, SAFE).set(&[("members", "2")]).clients(0, 3).joins(1),
            Check::new(3, SAFE).leaves(1),
            Check::new(3, CAUSAL).set(&[("members", "2")]).clients(0, 3).joins(1).fails(14),
        ],
        deep: &[Check::new(3, SAFE).set(&[("members", "2")]).clients(0, 3).joins(1).leaves(1)],
    },
    Claims {
        id: "mutex/ricart-agrawala-membership-no-cs",
        checks: &[
            Check::new(3, ME).set(&[("members", "2")]).clients(0, 3).joins(1).fails(11),
            Check::new(3, CAUSAL).set(&[("members", "2")]).clients(0, 3).joins(1).fails(8),
        ],
        deep: &[],
    },
    Claims {
        id: "mutex/physical-clock-order",
        checks: &[Check::new(3, STAMPED).requests(2), Check::new(3, CAUSAL).talking().fails(9)],
        deep: &[Check::new(4, SAFE)],
    },
    Claims {
        id: "mutex/physical-clock-order-literal",
        checks: &[Check::new(2, ME).fails(8), Check::new(3, CAUSAL).talking().fails(7)],
        deep: &[],
    },
    Claims {
        id: "mutex/roucairol-carvalho",
        checks: &[
            Check::new(3, LOCK).requests(2),
            Check::new(4, LOCK),
            Check::new(3, CAUSAL).requests(2).fails(7),
            Check::unchecked(STAMPS, NO_STAMPS),
        ],
        deep: &[Check::new(4, SAFE).requests(2)],
    },
    Claims {
        id: "mutex/ricart-agrawala-token",
        checks: &[
            Check::new(3, LOCK),
            Check::new(2, LOCK).requests(2),
            Check::new(3, CAUSAL).fails(5),
        ],
        deep: &[Check::new(3, LOCK).requests(2)],
    },
    // Quorums.
    Claims {
        id: "mutex/majority-permission",
        checks: &[
            Check::new(3, LOCK).requests(2),
            Check::new(3, CAUSAL).requests(2).fails(16),
            Check::unchecked(STAMPS, NO_STAMPS),
        ],
        deep: &[Check::new(4, LOCK)],
    },
    Claims {
        id: "mutex/majority-permission-any",
        checks: &[
            Check::new(3, LOCK),
            Check::new(3, CAUSAL).fails(14),
            Check::unchecked(STAMPS, NO_STAMPS),
        ],
        deep: &[],
    },
    Claims {
        id: "mutex/maekawa",
        checks: &[
            Check::new(3, SAFE).requests(2),
            Check::new(4, SAFE),
            Check::new(3, ND).fails(6),
            Check::new(3, NS).fails(6),
            Check::new(4, CAUSAL).fails(21),
            Check::unchecked(STAMPS, NO_STAMPS),
        ],
        deep: &[],
    },
    Claims {
        id: "mutex/maekawa-literal-003",
        checks: &[
            Check::new(2, ME).fails(6),
            Check::new(3, ND).fails(7),
            Check::new(3, NS).fails(7),
            Check::new(3, CAUSAL).fails(5),
            Check::unchecked(STAMPS, NO_STAMPS),
        ],
        deep: &[],
    },
    Claims {
        id: "mutex/maekawa-ts-queue",
        checks: &[
            Check::new(3, SAFE).requests(2),
            Check::new(4, SAFE),
            Check::new(3, ND).fails(6),
            Check::new(3, NS).fails(6),
            Check::new(4, CAUSAL).fails(15),
            Check::unchecked(STAMPS, NO_STAMPS),
        ],
        deep: &[],
    },
    Claims {
        id: "mutex/maekawa-sanders",
        checks: &[
            Check::new(3, LOCK).requests(2),
            Check::new(3, CAUSAL).requests(2).fails(16),
            Check::unchecked(STAMPS, NO_STAMPS),
        ],
        deep: &[Check::new(4, LOCK)],
    },
    Claims {
        id: "mutex/maekawa-sanders-numbered",
        checks: &[
            Check::new(3, LOCK).requests(2),
            Check::new(3, CAUSAL).requests(2).fails(15),
            Check::unchecked(STAMPS, NO_STAMPS),
        ],
        deep: &[Check::new(4, LOCK)],
    },
    Claims {
        id: "mutex/maekawa-sanders-one-fail",
        checks: &[
            Check::new(3, SAFE).requests(2),
            Check::new(4, ND).fails(13),
            Check::new(3, CAUSAL).requests(2).fails(16),
            Check::unchecked(STAMPS, NO_STAMPS),
        ],
        deep: &[],
    },
    // Several units.
    Claims {
        id: "mutex/raymond-k",
        checks: &[
            Check::new(3, &[Exclusion, NoDeadlock, NoStarvation]),
            Check::new(2, &[Exclusion, NoDeadlock, NoStarvation])
                .set(&[("units", "1")])
                .requests(2),
            Check::new(3, FENCE).fails(6),
            Check::new(3, CAUSAL).fails(5),
        ],
        deep: &[Check::new(3, ME).requests(2)],
    },
    Claims {
        id: "mutex/raymond-k-naive",
        checks: &[
            Check::new(3, ME).requests(2).fails(13),
            Check::new(3, FENCE).fails(6),
            Check::new(3, CAUSAL).fails(5),
        ],
        deep: &[],
    },
    // Tokens on a ring.
    Claims {
        id: "mutex/token-ring",
        checks: &[
            Check::new(3, LOCK).requests(2),
            Check::new(4, LOCK).requests(2),
            Check::new(4, CAUSAL).talking().fails(4),
        ],
        deep: &[Check::new(5, LOCK).requests(2)],
    },
    Claims {
        id: "mutex/token-ring-bidirectional",
        checks: &[
            Check::new(3, SAFE).requests(2),
            Check::new(4, SAFE).requests(2),
            Check::new(3, NS).loops(3, 1),
        ],
        deep: &[],
    },
    Claims {
        id: "mutex/token-ring-on-demand",
        checks: &[
            Check::new(3, LOCK).requests(2),
            Check::new(4, LOCK),
            Check::new(4, CAUSAL).talking().fails(3),
        ],
        deep: &[Check::new(4, LOCK).requests(2)],
    },
    Claims {
        id: "mutex/token-ring-handler",
        checks: &[
            Check::new(3, LOCK).requests(2),
            Check::new(4, LOCK).requests(2),
            Check::new(4, CAUSAL).talking().fails(4),
        ],
        deep: &[Check::new(5, LOCK).requests(2)],
    },
    Claims {
        id: "mutex/token-ring-polled",
        checks: &[
            Check::new(3, SAFE).requests(2),
            Check::new(2, ND).fails(2),
            Check::new(3, ND).fails(2),
        ],
        deep: &[],
    },
    Claims {
        id: "mutex/token-ring-loss-probe",
        checks: &[
            Check::new(3, LOCK).timers(3),
            Check::new(2, LOCK).requests(2).timers(3),
            Check::new(3, SAFE).timers(3).losses(1).beyond(),
            Check::new(4, CAUSAL).timers(0).talking().fails(4),
        ],
        deep: &[Check::new(4, LOCK).timers(4)],
    },
    Claims {
        id: "mutex/token-ring-misra",
        // The tokens count their meetings, so that there is no end to the states.
        checks: &[
            Check::new(3, LOCK).bounded(100),
            Check::new(3, LOCK).requests(2).bounded(50),
            Check::new(3, SAFE).losses(1).beyond().bounded(40),
            Check::new(4, CAUSAL).talking().fails(4),
        ],
        deep: &[Check::new(4, LOCK).bounded(60)],
    },
    Claims {
        id: "mutex/token-ring-ft",
        // The token counts its hand-overs, so that there is no end to the states.
        checks: &[
            Check::new(3, LOCK).bounded(20),
            Check::new(3, LOCK).crashes(1).bounded(16),
            Check::new(2, LOCK).crashes(1).recoveries(1).bounded(30),
            Check::new(4, CAUSAL).talking().fails(4),
        ],
        deep: &[Check::new(3, SAFE).crashes(1).recoveries(1).bounded(14)],
    },
    Claims {
        id: "mutex/dijkstra-self-stabilizing-ring",
        checks: &[
            Check::new(3, LIVE).timers(2),
            Check::new(3, LIVE).set(&[("x", "1,2,3")]).timers(1),
            Check::new(4, ME).set(&[("x", "3,1,4,1")]).timers(2).fails(4),
            Check::new(2, FENCE).fails(6),
            Check::new(4, CAUSAL).timers(0).talking().fails(4),
        ],
        deep: &[Check::new(3, LIVE).set(&[("x", "1,2,3")]).timers(2)],
    },
    Claims {
        id: "mutex/dijkstra-self-stabilizing-ring-settled",
        checks: &[
            Check::new(3, &[Exclusion, NoDeadlock, NoStarvation]).timers(2),
            Check::new(3, &[Exclusion, NoDeadlock, NoStarvation]).requests(2).timers(1),
            Check::new(2, FENCE).fails(6),
            Check::new(4, CAUSAL).timers(0).talking().fails(4),
        ],
        deep: &[Check::new(3, &[Exclusion, NoDeadlock, NoStarvation]).timers(3)],
    },
    // Tokens by broadcast and on trees.
    Claims {
        id: "mutex/suzuki-kasami",
        checks: &[Check::new(3, LOCK).requests(2), Check::new(3, CAUSAL).fails(5)],
        deep: &[Check::new(4, LOCK)],
    },
    Claims {
        id: "mutex/raymond-tree",
        checks: &[
            Check::new(3, LOCK).requests(2),
            Check::new(4, LOCK),
            Check::new(4, LOCK).shape("line"),
            Check::new(4, LIVE).shape("line").endless().set(ALIKE),
            Check::new(3, CAUSAL).requests(2).fails(9),
        ],
        deep: &[Check::new(4, LOCK).requests(2)],
    },
    Claims {
        id: "mutex/raymond-tree-restart",
        checks: &[
            Check::new(3, LOCK).requests(2),
            Check::new(4, LOCK),
            Check::new(4, LOCK).shape("line"),
            Check::new(4, LIVE).shape("line").endless().set(ALIKE),
            Check::new(3, CAUSAL).requests(2).fails(9),
        ],
        deep: &[Check::new(4, LOCK).requests(2)],
    },
    Claims {
        id: "mutex/tree-greedy",
        checks: &[
            Check::new(3, FREE).requests(2),
            Check::new(4, FREE),
            Check::new(4, ND).shape("line").endless().set(ALIKE),
            Check::new(3, NS)
                .shape("line")
                .channels(Channels::Fifo)
                .endless()
                .set(ALIKE)
                .loops(17, 9),
            // A single one that asks again is enough if its request overtakes the token.
            Check::new(3, NS).shape("line").endless().set(ALIKE).loops(15, 9),
        ],
        deep: &[Check::new(4, FREE).requests(2)],
    },
    Claims {
        id: "mutex/tree-token-fair",
        checks: &[
            Check::new(3, LOCK).requests(2),
            Check::new(4, LOCK),
            Check::new(4, LOCK).shape("line"),
            Check::new(4, CAUSAL).shape("line").fails(15),
        ],
        deep: &[Check::new(4, LOCK).requests(2).bounded(25)],
    },
    Claims {
        id: "mutex/naimi-trehel",
        checks: &[
            Check::new(3, LOCK).requests(2),
            Check::new(4, LOCK).requests(2),
            Check::new(3, CAUSAL).requests(2).fails(9),
        ],
        deep: &[Check::new(5, LOCK)],
    },
    // Election.
    Claims {
        id: "election/bully",
        checks: &[
            Check::new(3, LEADER).crashes(1),
            Check::new(3, LEADER).set(&[("mode", "known-dead")]).crashes(1),
            Check::new(2, LEADER).crashes(1).recoveries(1),
            Check::new(3, LEADER).crashes(1).recoveries(1).bounded(11),
            Check::new(3, &[OneLeaderPerEpoch]).partitions(1).fails(4),
        ],
        deep: &[Check::new(3, LEADER).crashes(1).recoveries(1).bounded(20)],
    },
    Claims {
        id: "election/bully-immediate",
        checks: &[
            Check::new(3, LEADER).crashes(1),
            Check::new(2, LEADER).crashes(1).recoveries(1),
            Check::new(3, LEADER).crashes(1).recoveries(1).bounded(11),
            Check::new(3, L1Q).partitions(1).fails(4),
        ],
        deep: &[Check::new(3, LEADER).crashes(1).recoveries(1).bounded(20)],
    },
    Claims {
        id: "election/bully-recovery",
        checks: &[
            Check::new(3, LEADER).crashes(1),
            Check::new(2, LEADER).crashes(1).recoveries(1),
            Check::new(3, LEADER).crashes(1).recoveries(1).bounded(11),
            Check::new(2, &[OneLeader, LeaderKnown]).set(DEFER).crashes(1).recoveries(1),
            Check::new(3, LEADER).set(DEFER).crashes(1).recoveries(1).bounded(11),
            Check::new(2, L3).set(DEFER).crashes(1).recoveries(1).fails(11),
            Check::new(3, L1Q).partitions(1).fails(4),
        ],
        deep: &[Check::new(3, LEADER).set(DEFER).crashes(1).recoveries(1).bounded(20)],
    },
    Claims {
        id: "election/quorum-epoch",
        // Each timer that runs out may be another candidacy, and without end of them there is no
        // end to epochs.
        checks: &[
            Check::new(3, L1Q).set(NO_SPREAD).timers(0).crashes(1).recoveries(1),
            Check::new(3, L1Q).set(NO_SPREAD).timers(0).partitions(1),
            Check::new(3, L1Q).set(NO_SPREAD).timers(0).losses(1),
            Check::new(3, L1Q).set(NO_SPREAD).timers(0).repeats(1),
            Check::new(3, L1Q).set(NO_SPREAD).clients(2, 3).timers(1).crashes(1).recoveries(1),
            Check::new(3, L1Q).set(NO_SPREAD).clients(2, 3).timers(1).partitions(1),
            Check::new(3, L1Q).set(NO_SPREAD).clients(2, 3).timers(2),
            Check::new(3, L1Q)
                .set(NO_SPREAD)
                .timers(2)
                .crashes(1)
                .recoveries(1)
                .partitions(1)
                .losses(1)
                .repeats(1)
                .bounded(7),
            Check::new(4, L1Q).set(NO_SPREAD).clients(2, 4).timers(0),
            Check::new(2, L1).set(NO_SPREAD).timers(3).crashes(1).recoveries(1),
            Check::new(3, L1).set(NO_SPREAD).clients(2, 3).timers(1),
            Check::new(3, L2).set(NO_SPREAD).timers(0).crashes(2).fails(3),
            Check::new(3, L3).set(NO_SPREAD).timers(0).fails(9),
            // Who forgets its vote votes again.
            Check::new(3, L1Q).set(NO_SPREAD).timers(0).crashes(1).amnesias(1).fails(8),
        ],
        deep: &[
            Check::new(3, L1Q).set(NO_SPREAD).timers(1),
            Check::new(3, L1).set(NO_SPREAD).timers(1),
            Check::new(3, L1Q)
                .set(NO_SPREAD)
                .timers(3)
                .crashes(1)
                .recoveries(1)
                .partitions(1)
                .bounded(10),
        ],
    },
    Claims {
        id: "election/wireless-tree",
        checks: &[
            Check::new(3, LEADERS),
            Check::new(3, LEADERS).shape("complete"),
            Check::new(4, LEADERS).shape("line"),
            // A triangle without a corner is connected, and a line without its middle is not.
            Check::new(3, LEADERS).shape("complete").crashes(1).beyond(),
            Check::new(3, L1).shape("line").crashes(1).fails(5),
        ],
        deep: &[Check::new(4, LEADERS)],
    },
    Claims {
        id: "election/tree-mattern",
        checks: &[
            Check::new(3, LEADERS).requests(2),
            Check::new(4, LEADERS),
            Check::new(4, LEADERS).shape("star"),
            Check::new(3, LEADERS).channels(Channels::Reliable).beyond(),
            Check::new(3, L2).crashes(1).fails(3),
            Check::new(3, L2).losses(1).fails(8),
        ],
        deep: &[Check::new(5, LEADERS)],
    },
    // Election on a ring.
    rings::LE_LANN,
    rings::CHANG_ROBERTS,
    rings::CHANG_ROBERTS_REPAIRED,
    rings::BY_ATTRIBUTE,
    rings::BY_ATTRIBUTE_BARE,
    rings::FREDERICKSON_LYNCH,
    rings::RING_LIST,
    rings::RING_LIST_INITIATOR,
    rings::RING_INQUIRY,
    rings::RING_MODIFIED,
    rings::RING_WATCHDOG,
    rings::RING_RECONFIGURATION,
    superpeers::DHT,
    superpeers::TOKENS,
    // Failure detection.
    Claims {
        id: "fd/heartbeat",
        checks: &[
            // Beats that nobody waits for pile up without end.
            Check::new(2, WATCH).crashes(1).amnesias(1).losses(1).repeats(1).bounded(16),
            Check::new(3, WATCH).timely().crashes(1).amnesias(1).losses(1).repeats(1),
            Check::new(2, &[Accuracy]).fails(1),
        ],
        deep: &[],
    },
    Claims {
        id: "fd/heartbeat-ring",
        checks: &[
            Check::new(2, WATCH).crashes(1).amnesias(1).bounded(10),
            Check::new(3, WATCH).timely().crashes(2).amnesias(1),
            Check::new(2, &[Accuracy]).fails(1),
        ],
        deep: &[Check::new(4, WATCH).timely().crashes(1).amnesias(1).bounded(28)],
    },
    Claims {
        id: "fd/phi-accrual",
        checks: &[
            // Beats pile up, and where time passes no state comes twice.
            Check::new(2, WATCH).crashes(1).amnesias(1).losses(1).repeats(1).bounded(16),
            Check::new(3, WATCH).timely().crashes(1).amnesias(1).bounded(30),
            Check::new(2, &[Accuracy]).fails(1),
        ],
        deep: &[],
    },
    Claims {
        id: "fd/timeout-sync",
        // Questions are numbered, so that there is no end to the states.
        checks: &[Check::new(3, &[Completeness, Accuracy]).crashes(1).bounded(100)],
        deep: &[Check::new(4, &[Completeness, Accuracy]).crashes(1).bounded(100)],
    },
    Claims {
        id: "fd/busy-or-dead",
        checks: &[Check::new(3, &[Completeness, Accuracy]).crashes(1).bounded(60)],
        deep: &[Check::new(4, &[Completeness, Accuracy]).crashes(1).bounded(60)],
    },
    Claims {
        id: "fd/busy-or-dead-silent",
        checks: &[Check::new(3, WATCH).crashes(1).bounded(60), Check::new(2, &[Accuracy]).fails(5)],
        deep: &[],
    },
];

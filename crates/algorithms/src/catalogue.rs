//! Every algorithm, by id.

use conclave_protocol::{Algorithm, Info};

use crate::{base, detector, election, mutex, snapshot, stable, termination};

/// Everything that can be run, in the order of the catalogue.
pub static ALL: &[&dyn Algorithm] = &[
    // Clocks.
    &base::physical_clock::PLAIN,
    // Shared memory.
    &mutex::dijkstra_1965::PLAIN,
    &mutex::bakery::PLAIN,
    &mutex::bakery::NO_CHOOSING,
    &mutex::bakery_message_passing::PLAIN,
    &mutex::bakery_message_passing::COOPERATIVE,
    // One coordinator or several.
    &mutex::centralized::PLAIN,
    &mutex::centralized::DENY,
    &mutex::centralized::TOKEN,
    &mutex::centralized::TIMESTAMPED,
    &mutex::centralized_failover::PLAIN,
    &mutex::centralized_failover::NO_LEASE,
    &mutex::centralized_failover::QUORUM,
    &mutex::replicated_coordinator::PLAIN,
    &mutex::replicated_coordinator::PERSISTENT,
    &mutex::lin_sigma::PLAIN,
    // Permission of all.
    &mutex::lamport::PLAIN,
    &mutex::lamport::ACK_SUPPRESSION,
    &mutex::ricart_agrawala::PLAIN,
    &mutex::ricart_agrawala::MULTICAST,
    &mutex::ricart_agrawala::BARE_REPLY,
    &mutex::ricart_agrawala::FD,
    &mutex::ricart_agrawala::NOTIFY_ONE,
    &mutex::ricart_agrawala::NO_TIE_BREAK,
    &mutex::ricart_agrawala_queued::PLAIN,
    &mutex::ricart_agrawala_membership::PLAIN,
    &mutex::ricart_agrawala_membership::NO_CS,
    &mutex::physical_clock_order::PLAIN,
    &mutex::physical_clock_order::LITERAL,
    &mutex::roucairol_carvalho::PLAIN,
    &mutex::ricart_agrawala_token::PLAIN,
    // Quorums.
    &mutex::majority_permission::FIXED,
    &mutex::majority_permission::ANY,
    &mutex::maekawa::PLAIN,
    &mutex::maekawa::LITERAL_003,
    &mutex::maekawa::TS_QUEUE,
    &mutex::maekawa_sanders::PLAIN,
    &mutex::maekawa_sanders::NUMBERED_VOTES,
    &mutex::maekawa_sanders::ONE_FAIL,
    // Several units.
    &mutex::raymond_k::PLAIN,
    &mutex::raymond_k::NAIVE,
    // Tokens on a ring.
    &mutex::token_ring::PLAIN,
    &mutex::token_ring::BIDIRECTIONAL,
    &mutex::token_ring_on_demand::PLAIN,
    &mutex::token_ring_handler::HANDLER,
    &mutex::token_ring_handler::POLLED,
    &mutex::token_ring_loss_probe::PLAIN,
    &mutex::token_ring_misra::PLAIN,
    &mutex::token_ring_ft::PLAIN,
    &mutex::dijkstra_self_stabilizing_ring::PLAIN,
    &mutex::dijkstra_self_stabilizing_ring::SETTLED,
    // Tokens by broadcast and on trees.
    &mutex::suzuki_kasami::PLAIN,
    &mutex::raymond_tree::PLAIN,
    &mutex::raymond_tree::RESTART,
    &mutex::raymond_tree::GREEDY,
    &mutex::tree_token_fair::PLAIN,
    &mutex::naimi_trehel::PLAIN,
    // Election.
    &election::bully::PLAIN,
    &election::bully::IMMEDIATE,
    &election::bully::RECOVERY,
    &election::quorum_epoch::PLAIN,
    &election::wireless_tree::PLAIN,
    &election::tree_mattern::PLAIN,
    // Election on a ring.
    &election::le_lann::PLAIN,
    &election::chang_roberts::PLAIN,
    &election::chang_roberts::REPAIRED,
    &election::chang_roberts::BY_ATTRIBUTE,
    &election::chang_roberts::BARE,
    &election::frederickson_lynch::PLAIN,
    &election::ring_list::PLAIN,
    &election::ring_list::INITIATOR,
    &election::ring_inquiry::PLAIN,
    &election::ring_modified::PLAIN,
    &election::ring_watchdog::PLAIN,
    &election::ring_reconfiguration::PLAIN,
    // Superpeers.
    &election::superpeer_dht::PLAIN,
    &election::superpeer_tokens::PLAIN,
    // Failure detection.
    &detector::timeout_sync::PLAIN,
    &detector::heartbeat::PLAIN,
    &detector::heartbeat_ring::PLAIN,
    &detector::phi_accrual::PLAIN,
    &detector::busy_or_dead::PLAIN,
    &detector::busy_or_dead::SILENT,
    // Snapshots.
    &snapshot::consistent_cut::PLAIN,
    &snapshot::lattice::PLAIN,
    &snapshot::producer_consumer::PLAIN,
    &snapshot::chandy_lamport::PLAIN,
    &snapshot::chandy_lamport::COLLECT,
    &snapshot::chandy_lamport::CONCURRENT,
    &snapshot::chandy_lamport::UNORDERED,
    &snapshot::chandy_lamport::OTHER_CHANNELS,
    &snapshot::chandy_lamport::LATE_MARKERS,
    &snapshot::chandy_lamport::ONE_MARKER,
    &snapshot::chandy_lamport::NAIVE,
    &snapshot::lai_yang::PLAIN,
    &snapshot::lai_yang::DELIVER_FIRST,
    &snapshot::mattern::PLAIN,
    &snapshot::mattern::UNAWAITED,
    &snapshot::mattern::HASTY,
    &snapshot::mattern_vector::PLAIN,
    &snapshot::mattern_vector::UNANSWERED,
    // Coming back after a crash.
    &snapshot::checkpoint_restart::PLAIN,
    &snapshot::checkpoint_restart::MIXED,
    &snapshot::publishing::PLAIN,
    &snapshot::publishing::DRAWING,
    &snapshot::publishing::UNSUPPRESSED,
    &snapshot::publishing::EARLY,
    // Stable properties.
    &stable::detector::PLAIN,
    &stable::detector::NAIVE,
    &stable::classifier::PLAIN,
    &stable::classifier::NAIVE,
    &stable::deadlock::PLAIN,
    &stable::termination::PLAIN,
    &stable::token_loss::PLAIN,
    &stable::token_loss::NAIVE,
    &stable::garbage::PLAIN,
    &stable::garbage::NAIVE,
    // Termination.
    &termination::dijkstra_scholten::PLAIN,
    &termination::dijkstra_scholten::EAGER,
    &termination::safra::PLAIN,
    &termination::safra::WHITE,
    &termination::safra::UNCOUNTED,
];

/// Something that is explained but not run: a notion that the algorithms build on.
#[derive(Clone, Copy, Debug)]
pub struct Topic {
    /// As typed on the command line.
    pub id: &'static str,
    /// As printed.
    pub title: &'static str,
    /// One line for a list.
    pub summary: &'static str,
    /// The explanation, in Markdown.
    pub text: &'static str,
}

/// Everything that is explained but not run.
pub static TOPICS: &[Topic] = &[
    Topic {
        id: "base/happened-before",
        title: "Happened before",
        summary: "the order of cause and effect",
        text: include_str!("topics/happened_before.md"),
    },
    Topic {
        id: "base/lamport-clock",
        title: "Lamport clock",
        summary: "a counter that never contradicts cause and effect",
        text: include_str!("topics/lamport_clock.md"),
    },
    Topic {
        id: "base/vector-clock",
        title: "Vector clock",
        summary: "a counter per node, which tells order from concurrency",
        text: include_str!("topics/vector_clock.md"),
    },
    Topic {
        id: "mutex/local-mechanisms",
        title: "Mutual exclusion on one machine",
        summary: "what shared memory offers, and why it does not travel",
        text: include_str!("topics/local_mechanisms.md"),
    },
    Topic {
        id: "quorum/conditions",
        title: "Voting sets",
        summary: "what sets of voters must satisfy, and how small they can be",
        text: include_str!("topics/quorum_conditions.md"),
    },
    Topic {
        id: "quorum/projective-plane",
        title: "Voting sets from a projective plane",
        summary: "the smallest sets: any two share exactly one voter",
        text: include_str!("topics/quorum_projective_plane.md"),
    },
    Topic {
        id: "quorum/cyclic-cover",
        title: "Voting sets from a cyclic cover",
        summary: "one set shifted round the ring, for any number of nodes",
        text: include_str!("topics/quorum_cyclic_cover.md"),
    },
    Topic {
        id: "quorum/grid",
        title: "Voting sets from a grid",
        summary: "a row and a column of a square",
        text: include_str!("topics/quorum_grid.md"),
    },
    Topic {
        id: "quorum/majority",
        title: "Majorities as voting sets",
        summary: "more than half of the nodes",
        text: include_str!("topics/quorum_majority.md"),
    },
    Topic {
        id: "snapshot/global-state",
        title: "Global state",
        summary: "why no node can see the state of the whole system, and what can be had instead",
        text: include_str!("topics/global_state.md"),
    },
    Topic {
        id: "snapshot/local-state",
        title: "Local state",
        summary: "what the state of a node consists of, and what is not part of it",
        text: include_str!("topics/local_state.md"),
    },
    Topic {
        id: "snapshot/feasible-states",
        title: "Feasible and actual states",
        summary: "the states that a system goes through, and those that it could have",
        text: include_str!("topics/feasible_states.md"),
    },
    Topic {
        id: "snapshot/deterministic",
        title: "Deterministic computations",
        summary: "where only one event can be next, and where chance comes in",
        text: include_str!("topics/deterministic.md"),
    },
];

/// The topic called `id`.
pub fn topic(id: &str) -> Option<&'static Topic> {
    TOPICS.iter().find(|topic| topic.id == id)
}

/// The algorithm called `id`.
pub fn algorithm(id: &str) -> Option<&'static dyn Algorithm> {
    ALL.iter().copied().find(|algorithm| algorithm.info().id == id)
}

/// What is said about the algorithm called `id`.
pub fn find(id: &str) -> Option<&'static Info> {
    algorithm(id).map(|algorithm| algorithm.info())
}

/// What is said about each algorithm, in the order of the catalogue.
pub fn infos() -> impl Iterator<Item = &'static Info> {
    ALL.iter().map(|algorithm| algorithm.info())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_algorithm_is_found_under_its_id_and_explains_itself() {
        for info in infos() {
            let found = find(info.id).map(|found| found.title);
            assert_eq!(found, Some(info.title), "two entries have one id");
            let explanation = info.explanation();
            assert!(explanation.contains("# Rules\n"), "{} has no rules", info.id);
            if info.family() != "base" {
                assert!(explanation.contains("# Cost\n"), "{} does not say its cost", info.id);
            }
            assert!(
                info.mutant.is_some()
                    || !info.holds.is_empty()
                    || !info.fails.is_empty()
                    || info.family() == "base",
                "{} neither promises nor disclaims anything",
                info.id
            );
        }
        assert!(find("mutex/no-such").is_none());
    }

    #[test]
    fn nothing_is_both_promised_and_disclaimed() {
        for info in infos() {
            let disclaimed = |property| info.fails.iter().any(|&(fails, _)| fails == property);
            for &property in info.holds {
                assert!(!disclaimed(property), "{} promises and disclaims {property}", info.id);
            }
            if let Some(mutant) = info.mutant {
                assert!(!info.holds.contains(&mutant.breaks), "{} breaks it", info.id);
            }
        }
    }

    #[test]
    fn topics_have_ids_of_their_own() {
        for (i, topic) in TOPICS.iter().enumerate() {
            assert!(find(topic.id).is_none(), "{} is an algorithm", topic.id);
            assert!(TOPICS[..i].iter().all(|earlier| earlier.id != topic.id), "{}", topic.id);
            assert_eq!(super::topic(topic.id).map(|found| found.title), Some(topic.title));
        }
    }
}

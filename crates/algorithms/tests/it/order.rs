//! First come, first served: every entry that disclaims it by cause and effect, and a run of it that
//! breaks it.
//!
//! Some break it among their own messages. Others do only when applications talk to each other
//! beside the algorithm, which they are made to do here.

use crate::support::talk::talkative;
use crate::support::{T, random_spec, simulate, topology, verdict};
use conclave_algorithms::catalogue;
use conclave_algorithms::mutex::{
    self, centralized, dijkstra_self_stabilizing_ring as registers, maekawa, majority_permission,
    naimi_trehel, physical_clock_order as clock, ricart_agrawala, roucairol_carvalho, token_ring,
    token_ring_ft, token_ring_handler, token_ring_loss_probe, token_ring_misra,
    token_ring_on_demand,
};
use conclave_protocol::{Algorithm, Entry, Property, Setup, Timing, Topology};
use conclave_sim::Delay;

const ORDER: Property = Property::FcfsHappenedBefore;
const SEEDS: u64 = 400;

/// Whether the run with this seed breaks the order.
fn breaks(entry: &dyn Algorithm, seed: u64) -> bool {
    let setup = Setup::new(topology(entry, 3 + (seed % 7) as u32, seed));
    if entry.clients(&setup).is_err() {
        return false;
    }
    let outcome = simulate(entry, &random_spec(entry, setup, seed));
    verdict(ORDER, &outcome, 1).is_violated()
}

/// The same when a node that asks tells all others, and none talks along the edges of a ring.
fn breaks_in_talk<P: mutex::Algorithm>(entry: &Entry<P>, seed: u64) -> bool {
    let setup = Setup::new(Topology::complete(3 + (seed % 7) as u32));
    let mut spec = random_spec(entry, setup, seed);
    // Word of a request may be much quicker than the request.
    if entry.info.model.timing == Timing::Asynchronous {
        spec.delays = Delay::Uniform(T / 50, T * 8).into();
    }
    let outcome = talkative(entry, &spec);
    verdict(ORDER, &outcome, 1).is_violated()
}

/// Those that break it only in talk, or hardly ever otherwise.
fn in_talk(id: &str, seed: u64) -> Option<bool> {
    macro_rules! talk {
        ($($entry:path),+ $(,)?) => {
            $(if id == $entry.info.id {
                return Some(breaks_in_talk(&$entry, seed));
            })+
        };
    }
    talk!(
        centralized::PLAIN,
        centralized::DENY,
        centralized::TOKEN,
        centralized::TIMESTAMPED,
        clock::PLAIN,
        clock::LITERAL,
        ricart_agrawala::BARE_REPLY,
        roucairol_carvalho::PLAIN,
        majority_permission::ANY,
        maekawa::PLAIN,
        naimi_trehel::PLAIN,
        token_ring::PLAIN,
        token_ring_on_demand::PLAIN,
        token_ring_handler::HANDLER,
        token_ring_loss_probe::PLAIN,
        token_ring_misra::PLAIN,
        token_ring_ft::PLAIN,
        registers::PLAIN,
        registers::SETTLED,
    );
    None
}

#[test]
fn whoever_disclaims_order_breaks_it() {
    let mut kept = Vec::new();
    for &entry in catalogue::ALL {
        let info = entry.info();
        if !info.fails.iter().any(|f| f.0 == ORDER) {
            continue;
        }
        let breaks = |seed| in_talk(info.id, seed).unwrap_or_else(|| breaks(entry, seed));
        if !(0..SEEDS).any(breaks) {
            kept.push(info.id);
        }
    }
    assert!(kept.is_empty(), "no run shows it: {kept:?}");
}

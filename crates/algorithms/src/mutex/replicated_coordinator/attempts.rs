//! The cases of theory in which a client tries several times.

use conclave_protocol::theory::{
    About, Ask, Asks, Experiment, Fits, Further, Given, Provided, Scope, T,
};
use conclave_protocol::{NodeId, Setup, Time, Topology};

/// A client that is no coordinator asks a majority.
pub(super) const ASKING_A_MAJORITY: Fits = Fits {
    about: About::Lone,
    when: |seen| {
        let all = seen.option("mode") == Some("ask-all");
        seen.lone_client().filter(|_| !all).map(|_| Vec::new())
    },
};
/// Majorities and attempts of a client whose attempts collect no grants but for the last.
pub(super) const ATTEMPTS: Further =
    &[&[("m", 2), ("k", 1)], &[("m", 2), ("k", 4)], &[("m", 3), ("k", 2)], &[("m", 4), ("k", 3)]];
/// The same, with g grants that had to be given back.
pub(super) const PARTIAL_ATTEMPTS: Further = &[
    &[("m", 2), ("k", 3), ("g", 1)],
    &[("m", 2), ("k", 3), ("g", 2)],
    &[("m", 3), ("k", 2), ("g", 1)],
    &[("m", 3), ("k", 2), ("g", 2)],
];

/// A client holds the coordinators for so long that another has to try several times. When it
/// tries, and whom it asks, is up to chance.
pub(super) fn attempts(given: &Given) -> Vec<Experiment> {
    let (m, k) = (given.n("m"), given.n("k"));
    let g = given.optional("g").unwrap_or(0);
    let n = 2 * m - 1;
    let (holder, node) = (n, n + 1);
    let setup = Setup::new(Topology::complete(n + 2));
    // Grants that fail are those of coordinators that the holder has not asked.
    let targets = if g == 0 { "fixed" } else { "random" };
    let setup = setup.with("coordinators", n).with("majority", m).with("targets", targets);
    let mut attempts = given.together(setup, &[(node, 10)]);
    let run = attempts.runs.remove(0);
    for seed in 0..4000_u32 {
        let mut run = run.clone();
        run.seed = u64::from(seed);
        if let Asks::Planned(asks) = &mut run.asks
            && k > 1
        {
            let hold = Some(T * (8 + 3 * (seed % 10)));
            asks.push(Ask { node: NodeId(holder), at: Time::ZERO, hold });
        }
        attempts.runs.push(run);
    }
    // It got in at attempt number k, having collected the grants of a majority and g in vain.
    let node = NodeId(node);
    let (sent, received) = (("Req", u64::from(m * k)), ("Grant", u64::from(m + g)));
    attempts.provided = Provided::Messages { node, sent, received };
    vec![attempts.about(Scope::Node(node))]
}

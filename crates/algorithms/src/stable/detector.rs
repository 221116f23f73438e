//! Something that stays so once it is so, of the whole system, is found by looking again and again:
//! take a snapshot, see whether it is so in the state that was recorded, and take the next one after a
//! while if it is not.
//!
//! It is never reported wrongly: the state that was recorded leads to the one that there is now, and
//! what was so there stays so. It is always reported: the state in which a snapshot was started leads to
//! the one that it records, so the first snapshot that is started when it is so shows it.
//!
//! This looks at any application of which something can become so for good: `--set app=diffusing`
//! may have terminated, `talk` may have terminated or be deadlocked, `ring` may have lost its token,
//! `objects` may have garbage. `--ask 0@3` begins to look.
//!
//! # Rules
//!
//! 1. Asked to look, and not looking: take a snapshot, by Chandy and Lamport's algorithm; the parts are
//!    collected at this node.
//! 2. The parts are there: see what is so in the state that they make up, and report what of it has not
//!    been reported.
//! 3. If there is more that could become so, and something can still happen in that state, take the
//!    next snapshot after a while. Otherwise look no more: what is so then stays so, and what is
//!    not will never be.
//!
//! # Cost
//!
//! That of a snapshot for each time: N(N − 1) markers and N − 1 reports among N nodes that are all
//! linked. When it has become so, at most one more snapshot is started.
//!
//! # Known failures
//!
//! What may cease to be so, such as that all nodes are passive, may be reported when it is not so any
//! more. What snapshots need, this needs: channels that keep the order, and no crash.
//!
//! `stable/detector-naive` looks at naive snapshots: what was on its way is in no part, and what looks
//! terminated goes on when it arrives.

use conclave_protocol::claims::Check;
use conclave_protocol::{Entry, Links, Model, Opt, Property, Setup, Topology, Unfit};

use super::looks::{Config, Looks};
use super::{PROMISED, SOUND};
use crate::snapshot::app::{self, App};
use crate::snapshot::{chandy_lamport, diffusing, objects, ring, talk};

/// After how many snapshots their numbers begin again.
pub(super) const WRAP: Opt = Opt {
    name: "wrap",
    default: "0",
    help: "after how many snapshots their numbers begin again; 0 for never",
};

/// Looks at an application with these constants for everything that can become so of it.
pub(super) fn around(app: app::Config, setup: &Setup) -> Result<Config<App>, Unfit> {
    let sought = app.lasting();
    if sought == 0 {
        let some = "diffusing, talk, ring and objects";
        return Err(Unfit::new(format!(
            "nothing becomes so for good of this application; of {some} something does"
        )));
    }
    let snapshots = chandy_lamport::Config::new(app, None).collecting();
    let snapshots = match setup.option(WRAP.name, 0)? {
        0 => snapshots,
        1 => return Err(Unfit::new("wrap=1: two snapshots need different numbers")),
        many if fits(&setup.topology) => snapshots.numbered(many),
        _ => return Err(Unfit::new("wrap needs links that lead both ways")),
    };
    let pause = setup.delay * 4;
    Ok(Config { snapshots, sought, so: App::stable, active: App::is_active, pause })
}

/// Whether parts are reported by one way only, so that none comes late and is taken for one of another
/// snapshot.
fn fits(topology: &Topology) -> bool {
    let back = |node, peer| topology.linked(peer, node);
    topology.nodes().all(|node| topology.neighbors(node).all(|peer| back(node, peer)))
}

/// The same with naive snapshots.
pub(super) fn naive(config: Config<App>) -> Config<App> {
    Config { snapshots: config.snapshots.naive(), ..config }
}

fn config(setup: &Setup) -> Result<Config<App>, Unfit> {
    around(app::chosen(setup, "diffusing")?, setup)
}

/// Looks at any application.
pub static PLAIN: Entry<Looks<App>> =
    Entry::new("stable/detector", "Detector of stable properties", config)
        .summary("takes snapshots until one shows that it is so")
        .source(
            "Chandy, Lamport. Distributed snapshots: determining global states of distributed \
             systems. TOCS 3(1), 1985",
        )
        .text(include_str!("detector.rs"))
        .model(Model { links: Links::Directed, ..Model::FIFO })
        .holds(PROMISED)
        .clients(|_, _| 0..1)
        .options(&[
            Opt {
                name: "app",
                default: "diffusing",
                help: "what goes on: diffusing, talk, ring or objects",
            },
            WRAP,
            diffusing::WORK,
            diffusing::BUSY,
            talk::TALK,
            Opt { default: "none", ..ring::LOSES },
            objects::OBJECTS,
            Opt { name: "rounds", default: "2", help: "how much each node does" },
        ])
        .claims(&[
            Check::new(2, PROMISED).set(&[("wrap", "2"), ("work", "2")]),
            Check::new(3, PROMISED).set(&[("wrap", "2"), ("work", "1")]),
        ]);

/// Looks at naive snapshots.
pub static NAIVE: Entry<Looks<App>> = PLAIN
    .variant("stable/detector-naive", "Detector over naive snapshots")
    .summary("what was on its way is in no part of a naive snapshot")
    .mutant(
        "stable/detector",
        "each node records when it first hears of the snapshot, and channels are not recorded",
        Property::Sound,
    )
    .config(|setup| Ok(naive(config(setup)?)))
    .claims(&[Check::new(2, SOUND).set(&[("wrap", "2"), ("work", "2")]).fails(9)]);

#[cfg(test)]
mod tests {
    use conclave_protocol::family::reports::TERMINATED;
    use conclave_protocol::{Bench, Effect, NodeId};

    use super::super::looks::Timer;
    use super::super::{Notice, Outcome, Request};
    use super::*;
    use crate::snapshot::Sid;
    use crate::snapshot::chandy_lamport::Msg;

    const FIRST: Sid = Sid(0);

    type Effects = Vec<Effect<Looks<App>>>;

    /// Hands on every message between two nodes, first sent first, until none is left.
    fn deliver(bench: &mut Bench<Looks<App>>, from: u32, effects: Effects) -> Effects {
        let mut told = Vec::new();
        let mut waiting: Vec<_> = effects.into_iter().map(|effect| (from, effect)).collect();
        while !waiting.is_empty() {
            match waiting.remove(0) {
                (from, Effect::Send { to: NodeId(to), msg }) => {
                    let more = bench.at(to).message(from, msg);
                    waiting.extend(more.into_iter().map(|effect| (to, effect)));
                }
                (_, effect) => told.push(effect),
            }
        }
        told
    }

    #[test]
    fn it_looks_until_it_is_so_and_reports_it_once() {
        let setup = Setup::new(Topology::complete(2)).with("work", 0);
        let mut bench = Bench::new(&PLAIN, &setup);
        let started = bench.at(0).request(Request::Look);
        assert!(started.contains(&Effect::Notify(Notice::Recorded(FIRST))));
        assert_eq!(bench.at(0).request(Request::Look), [], "it is looking");
        let told = deliver(&mut bench, 0, started);
        assert!(told.contains(&Effect::Notify(Notice::Sees(FIRST, Outcome::Running))), "{told:?}");
        let again = |it: &Effect<_>| matches!(it, Effect::SetTimer { timer: Timer::Again, .. });
        assert!(told.iter().any(again), "p0 is active");
        bench.at(0).timer(Timer::App(app::Timer::Diffusing(diffusing::Timer::Done)));
        let second = bench.at(0).timer(Timer::Again);
        assert!(second.iter().any(|it| matches!(it, Effect::Send { msg: Msg::Marker(_), .. })));
        let told = deliver(&mut bench, 0, second);
        assert!(told.contains(&Effect::Notify(Notice::Reports(TERMINATED))), "{told:?}");
        assert!(told.contains(&Effect::Notify(Notice::Rests)));
    }

    #[test]
    fn an_application_of_which_nothing_becomes_so_is_refused() {
        let bank = Setup::new(Topology::complete(2)).with("app", "bank");
        let refused = config(&bank).expect_err("money never stops");
        assert!(refused.to_string().contains("diffusing, talk, ring and objects"));
    }
}

//! Of each process take what it has done up to some moment: that is a cut. Its frontier are the last
//! events in it. It is consistent if with each event it has all that happened before that; or, what
//! comes to the same, if no message is received in it that was sent outside.
//!
//! To a consistent cut belongs a consistent global state: the state of each process after its events in
//! the cut, and in each channel what was sent in the cut and received outside. It need not have
//! occurred, since the events of different processes need not have happened in that order; but it could
//! have, and no process could tell. A snapshot algorithm finds such a state while the processes go on.
//!
//! For each message sent in p's event a and received in q's event b: a cut with b events of q or more has
//! a events of p or more. With vector clocks, no frontier event knows more of a process than that
//! process's own frontier event does.
//!
//! This is an application by itself, of which no snapshot is taken. `--set app=script` is what
//! processes do that have their events written down: `--set script=p1>q2,p2` has the first event of
//! process p, which is node 0, send a message that the second event of q receives. Any other
//! application goes, too.
//!
//! # Rules
//!
//! Those of the processes of a script; each counts its events, and has one after the other.
//!
//! 1. An event that concerns no other process.
//! 2. An event that sends a message.
//! 3. An event that receives a message. One that comes before its turn waits until what comes first has
//!    happened.
//!
//! # Cost
//!
//! None beyond the application's own messages. There are as many cuts as the product of each process's
//! number of events plus one; how many of them are consistent depends on the messages: of the script
//! p1>q2,p2 there are 9, and 8 are consistent.

use conclave_protocol::claims::Check;
use conclave_protocol::theory::{Case, Experiment, Given};
use conclave_protocol::{Asking, Entry, Links, Model, Opt, Property, Setup, Topology};

use super::app::{self, App};

/// Processes with a script, if nothing else is said.
pub const OPTIONS: &[Opt] = &app::options("script");

/// Processes with a script, by themselves.
pub static PLAIN: Entry<App> =
    Entry::new("snapshot/consistent-cut", "Consistent cut", |setup| app::chosen(setup, "script"))
        .summary("which moments of several processes fit together")
        .source(
            "Chandy, Lamport. Distributed snapshots: determining global states of distributed \
             systems. TOCS 3(1), 1985",
        )
        .text(include_str!("consistent_cut.rs"))
        .model(Model { links: Links::Directed, ..Model::FIFO })
        .holds(&[Property::Conserved])
        .asking(Asking::None)
        .options(OPTIONS)
        .claims(&[
            Check::new(2, &[Property::Conserved]),
            Check::new(3, &[Property::Conserved]).set(&[("script", "p1>q1,q2>r1,r2>q3,p2")]),
            Check::new(3, &[Property::Conserved]).set(&[("app", "bank"), ("transfers", "2")]),
        ])
        .cases(&[
            Case::new("lattice-2x2", &[], |given| by_script(given, 2, "p1>q2,p2")),
            Case::new("lattice-2-3-2", &[], |given| by_script(given, 3, "p1>q1,q2>r1,r2>q3,p2")),
        ]);

/// A run of so many processes with this script.
fn by_script(given: &Given, processes: u32, script: &str) -> Vec<Experiment> {
    let setup = Setup::new(Topology::complete(processes)).with("script", script);
    vec![given.until_quiet(setup, &[])]
}

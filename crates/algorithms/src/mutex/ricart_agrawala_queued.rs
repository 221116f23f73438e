//! Ricart–Agrawala in which a refusal is not silent: a node that defers a request says so. Then
//! silence means something: a node that has answered neither yes nor "queued" after a round trip
//! has probably crashed, and is reported. A node that has said "queued" is asked again from time to
//! time, since it may crash later.
//!
//! It is as safe as Ricart–Agrawala, whatever the suspicions: they are only reported. A request may
//! be sent twice, so a reply names the request it answers; a second reply to an old request must
//! not pass for consent to a new one.
//!
//! # Rules
//!
//! 1. Acquire: tick the clock, take its time as the request's timestamp, send `Request` to all;
//!    expect an answer from each within 2T + Tproc.
//! 2. `Request` from j: merge its time into the clock. Inside, or waiting with an older request:
//!    defer j, and send it `Queued`. Otherwise send `Reply` to j.
//! 3. `Queued`, `Reply`: merge the time into the clock. `Queued` says that its sender is alive.
//!    After `Reply`, enter when none is missing.
//! 4. The time for answers is up: report the nodes that are still silent.
//! 5. The time to probe has come: send the same `Request` again to all that said `Queued`; expect
//!    an answer from each within 2T + Tproc.
//! 6. Release: send `Reply` to all deferred nodes.
//!
//! # Cost
//!
//! As Ricart–Agrawala, and one message for each deferral: at most 3(N − 1) an entry, and 2N(N − 1)
//! + N(N − 1)/2 if all N ask at once. Probes come on top in long waits.
//!
//! # Known failures
//!
//! A crash still stops all nodes; now they know which node has crashed. Where messages may take
//! longer than T, the suspicion may be wrong; it is taken back when an answer comes.

use std::collections::BTreeMap;
use std::time::Duration;

use conclave_protocol::claims::Check;
use conclave_protocol::theory::{About, Case, Fits, SIZES};
use conclave_protocol::{
    Charge, Ctx, Entry, Lamport, Model, Never, NodeId, Opt, Protocol, Setup, Stamp, Unfit,
};
use serde::{Deserialize, Serialize};

use super::{Notice, ORDERED, Request};

/// The state of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RicartAgrawalaQueued {
    clock: Lamport,
    phase: Phase,
    /// Nodes that get their reply when we leave, each with its latest request.
    deferred: BTreeMap<NodeId, Stamp>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Phase {
    Outside,
    /// These replies are missing.
    Waiting {
        asked: Stamp,
        missing: BTreeMap<NodeId, Standing>,
    },
    Inside,
}

/// What a node whose reply is missing has said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Standing {
    /// Nothing yet.
    Silent,
    /// That we have to wait.
    Queued,
    /// Nothing, and it should have.
    Suspected,
}

/// What nodes send each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Msg {
    /// May I? I asked at this time.
    Request(Stamp),
    /// Your request has to wait for mine.
    Queued(Answer),
    /// Your request has my consent.
    Reply(Answer),
}

/// An answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Answer {
    /// The request, by its time.
    to: Stamp,
    /// The clock of the node that answers.
    clock: Stamp,
}

/// What a node waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Timer {
    /// An answer should be here.
    Answer,
    /// It is time to ask again.
    Probe,
}

/// How long to wait.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// For an answer.
    answer: Duration,
    /// Before a queued request is sent again; for ever if not set.
    probe: Option<Duration>,
}

impl Protocol for RicartAgrawalaQueued {
    type Config = Config;
    type Request = Request;
    type Notice = Notice;
    type Msg = Msg;
    type Timer = Timer;
    type Stable = Never;

    fn start(_: Option<Never>, _: &mut Ctx<Self>) -> Self {
        Self { clock: Lamport::default(), phase: Phase::Outside, deferred: BTreeMap::new() }
    }

    fn on_request(&mut self, request: Request, ctx: &mut Ctx<Self>) {
        match request {
            // Rule 1.
            Request::Acquire => {
                ctx.rule(1);
                let asked = self.clock.tick(ctx.me);
                let missing = ctx.peers().map(|peer| (peer, Standing::Silent)).collect();
                self.phase = Phase::Waiting { asked, missing };
                ctx.broadcast(Msg::Request(asked));
                ctx.set_timer(Timer::Answer, ctx.config.answer);
                self.set_probe(ctx);
                self.enter_if_all_replied(ctx);
            }
            // Rule 6.
            Request::Release => {
                ctx.rule(6);
                self.phase = Phase::Outside;
                for (peer, theirs) in std::mem::take(&mut self.deferred) {
                    ctx.send(peer, Msg::Reply(self.answer(theirs, ctx)));
                }
            }
        }
    }

    fn on_message(&mut self, from: NodeId, msg: Msg, ctx: &mut Ctx<Self>) {
        match msg {
            // Rule 2.
            Msg::Request(theirs) => {
                ctx.rule(2);
                self.clock.observe(theirs);
                let defer = match self.phase {
                    Phase::Outside => false,
                    Phase::Waiting { asked, .. } => asked < theirs,
                    Phase::Inside => true,
                };
                if defer {
                    // A probe may arrive after the request that followed it.
                    let latest = self.deferred.entry(from).or_insert(theirs);
                    *latest = theirs.max(*latest);
                    ctx.send(from, Msg::Queued(self.answer(theirs, ctx)));
                } else {
                    ctx.send(from, Msg::Reply(self.answer(theirs, ctx)));
                }
            }
            // Rule 3.
            Msg::Queued(answer) => self.on_answer(from, answer, Some(Standing::Queued), ctx),
            Msg::Reply(answer) => self.on_answer(from, answer, None, ctx),
        }
    }

    fn on_timer(&mut self, timer: Timer, ctx: &mut Ctx<Self>) {
        let Phase::Waiting { asked, missing } = &mut self.phase else { return };
        match timer {
            // Rule 4.
            Timer::Answer => {
                ctx.rule(4);
                for (&peer, standing) in missing.iter_mut() {
                    if *standing == Standing::Silent {
                        *standing = Standing::Suspected;
                        ctx.notify(Notice::Suspects(peer));
                    }
                }
            }
            // Rule 5.
            Timer::Probe => {
                ctx.rule(5);
                for (&peer, standing) in missing.iter_mut() {
                    if *standing == Standing::Queued {
                        *standing = Standing::Silent;
                        ctx.send(peer, Msg::Request(*asked));
                    }
                }
                ctx.set_timer(Timer::Answer, ctx.config.answer);
                self.set_probe(ctx);
            }
        }
    }

    fn charge(msg: &Msg, _: NodeId, _: NodeId) -> Charge {
        match msg {
            Msg::Request(_) => Charge::Sender,
            Msg::Queued(_) | Msg::Reply(_) => Charge::Receiver,
        }
    }
}

impl RicartAgrawalaQueued {
    fn answer(&self, to: Stamp, ctx: &Ctx<Self>) -> Answer {
        Answer { to, clock: self.clock.now(ctx.me) }
    }

    /// Rule 3: `from` has answered, with a new standing or with its consent.
    fn on_answer(
        &mut self,
        from: NodeId,
        answer: Answer,
        standing: Option<Standing>,
        ctx: &mut Ctx<Self>,
    ) {
        ctx.rule(3);
        self.clock.observe(answer.clock);
        let Phase::Waiting { asked, missing } = &mut self.phase else { return };
        if answer.to != *asked || !missing.contains_key(&from) {
            return;
        }
        let before = match standing {
            Some(standing) => missing.insert(from, standing),
            None => missing.remove(&from),
        };
        if before == Some(Standing::Suspected) {
            ctx.notify(Notice::Trusts(from));
        }
        self.enter_if_all_replied(ctx);
    }

    fn set_probe(&self, ctx: &mut Ctx<Self>) {
        if let Some(probe) = ctx.config.probe {
            ctx.set_timer(Timer::Probe, probe);
        }
    }

    fn enter_if_all_replied(&mut self, ctx: &mut Ctx<Self>) {
        if let Phase::Waiting { asked, missing } = &self.phase
            && missing.is_empty()
        {
            let token = asked.token();
            self.phase = Phase::Inside;
            ctx.cancel_timer(Timer::Answer);
            ctx.cancel_timer(Timer::Probe);
            ctx.notify(Notice::Acquired { token });
        }
    }
}

/// A client that asks again, or is sent to the queue more than once, costs more.
const UNPROBED: Fits = Fits {
    about: About::Burst,
    when: |seen| seen.burst().filter(|_| seen.option("probe") == Some("0")),
};

/// The algorithm with `Queued` and probes.
pub static PLAIN: Entry<RicartAgrawalaQueued> =
    Entry::new("mutex/ricart-agrawala-queued", "Ricart–Agrawala with Queued", config)
        .summary("who defers a request says so, so that silence is suspicious")
        .source("Ricart–Agrawala with negative answers")
        .text(include_str!("ricart_agrawala_queued.rs"))
        .model(Model::RELIABLE)
        .holds(ORDERED)
        .options(&[Opt {
            name: "probe",
            default: "1000",
            help: "how many T between two probes of a queued request; 0 for no probes",
        }])
        .claims(&[Check::new(3, ORDERED).timers(1), Check::new(2, ORDERED)])
        .deep(&[Check::new(3, ORDERED).timers(2)])
        .cases(&[
            // Only deferrals are announced; no client asks again whether it is still in the queue.
            Case::new("burst", SIZES, |given| given.burst(given.complete().with("probe", 0)))
                .fits(&[UNPROBED]),
        ]);

fn config(setup: &Setup) -> Result<Config, Unfit> {
    let answer = setup.delay * 2 + setup.processing;
    let probe: u32 = setup.option("probe", 1000)?;
    // The answers to one probe are due before the next.
    let probe = (probe > 0).then(|| answer.max(setup.delay * probe));
    Ok(Config { answer, probe })
}

#[cfg(test)]
mod tests {
    use conclave_protocol::{Bench, Effect};

    use super::*;

    #[test]
    fn a_node_that_says_queued_is_not_suspected_until_a_probe_of_it_stays_unanswered() {
        let mut bench = Bench::complete(&PLAIN, 2);
        let stamp = |time, node| Stamp { time, node: NodeId(node) };
        let asked = stamp(1, 0);
        bench.at(0).request(Request::Acquire);
        let queued = Msg::Queued(Answer { to: asked, clock: stamp(1, 1) });
        assert_eq!(bench.at(0).message(1, queued), []);
        assert_eq!(bench.at(0).timer(Timer::Answer), []);
        let probed = bench.at(0).timer(Timer::Probe);
        assert_eq!(probed[0], Effect::Send { to: NodeId(1), msg: Msg::Request(asked) });
        let silent = bench.at(0).timer(Timer::Answer);
        assert_eq!(silent, [Effect::Notify(Notice::Suspects(NodeId(1)))]);
        assert_eq!(bench.at(0).rules(), [4]);
    }
}

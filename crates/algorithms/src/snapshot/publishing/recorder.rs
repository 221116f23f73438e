//! What the recorder keeps, and what it makes of it.

use std::collections::{BTreeMap, VecDeque};

use conclave_protocol::{Ctx, Input, NodeId, Protocol, Time};
use serde::{Deserialize, Serialize};

use super::process::{Process, Receipt, Stage};
use super::{Config, Msg, Publishing, Replay, Stable};
use crate::snapshot::chandy_lamport::Worth;
use crate::snapshot::{GlobalState, Notice, Share, Sid};

/// The state of the recorder.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Recorder<P: Protocol> {
    /// What is recorded of each process.
    pub records: BTreeMap<NodeId, Recorded<P>>,
    /// How many global states it has been asked for.
    pub asked: u32,
}

/// What is recorded of a process.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Recorded<P: Protocol> {
    /// Its latest checkpoint.
    pub checkpoint: Option<Box<Process<P>>>,
    /// Its inputs since.
    pub log: VecDeque<Receipt<P>>,
    /// How many messages of each process are among all its inputs.
    pub heard: BTreeMap<NodeId, u32>,
}

impl<P: Protocol> Default for Recorded<P> {
    fn default() -> Self {
        Self { checkpoint: None, log: VecDeque::new(), heard: BTreeMap::new() }
    }
}

impl<P: Protocol> Recorded<P> {
    /// How many inputs the checkpoint covers.
    pub fn covered(&self) -> u32 {
        self.checkpoint.as_ref().map_or(0, |process| process.used)
    }

    /// How many inputs are recorded.
    pub fn count(&self) -> u32 {
        self.covered() + self.log.len() as u32
    }

    /// One more input.
    pub fn add(&mut self, receipt: Receipt<P>) {
        if let Input::Message { from, .. } = receipt.input {
            self.heard.insert(from, receipt.number);
        }
        self.log.push_back(receipt);
    }

    /// A later checkpoint makes the inputs superfluous that it covers.
    pub fn replace(&mut self, checkpoint: Box<Process<P>>) {
        let more = checkpoint.used.saturating_sub(self.covered()) as usize;
        if more > 0 {
            self.log.drain(..more.min(self.log.len()));
            self.checkpoint = Some(checkpoint);
        }
    }

    /// The process, its log used on its checkpoint.
    pub fn replayed(&self, me: NodeId, config: &Config<P>) -> Process<P> {
        let mut stage = Stage { me, config, now: Time::ZERO, lots: None, looked: false };
        let mut process = match &self.checkpoint {
            Some(checkpoint) => (**checkpoint).clone(),
            None => Process::boot(&mut stage).0,
        };
        for receipt in &self.log {
            process.use_up(receipt.clone(), &mut stage);
        }
        process
    }
}

impl<P: Protocol> Recorder<P> {
    /// How many messages of `from` are recorded with each process.
    pub fn recorded_of(&self, from: NodeId) -> BTreeMap<NodeId, u32> {
        let heard = |record: &Recorded<P>| record.heard.get(&from).copied();
        self.records.iter().filter_map(|(to, it)| heard(it).map(|count| (*to, count))).collect()
    }
}

impl<P: Protocol> Recorder<P> {
    pub(super) fn on_message(&mut self, from: NodeId, msg: Msg<P>, ctx: &mut Ctx<Publishing<P>>) {
        if from.0 >= ctx.config.topology.len() {
            return;
        }
        match msg {
            // Rule 2.
            Msg::Publish(number, receipt) => {
                let record = self.records.entry(from).or_default();
                if number != record.count() + 1 {
                    return;
                }
                ctx.rule(2);
                record.add(*receipt);
                ctx.save(Stable::Records(self.clone()));
                ctx.send(from, Msg::Recorded(number));
            }
            // Rule 4.
            Msg::Checkpoint(process) => {
                ctx.rule(4);
                self.records.entry(from).or_default().replace(process);
                ctx.save(Stable::Records(self.clone()));
                ctx.send(from, Msg::Forget(self.recorded_of(from)));
            }
            // Rule 5.
            Msg::Recover(boots) => {
                ctx.rule(5);
                let recorded = self.recorded_of(from);
                let record = self.records.entry(from).or_default();
                let (checkpoint, log) = (record.checkpoint.clone(), record.log.clone());
                let replay = Replay { boots, checkpoint, log, recorded };
                ctx.send(from, Msg::Replay(Box::new(replay)));
            }
            Msg::Ask => self.read(ctx),
            _ => {}
        }
    }

    /// Rule 8.
    pub(super) fn read(&mut self, ctx: &mut Ctx<Publishing<P>>) {
        let Some(sid) = Sid::new(ctx.me, self.asked, ctx.n()) else { return };
        ctx.rule(8);
        self.asked += 1;
        ctx.save(Stable::Records(self.clone()));
        let shares = self.shares(sid, ctx.config);
        let worth = ctx.config.worth.map_or(0, |worth| {
            shares.values().map(|share| worth_of(share, worth)).fold(0, u64::wrapping_add)
        });
        ctx.notify(Notice::Collected(Box::new(GlobalState { sid, shares }), worth));
    }

    /// What all processes and channels hold, as far as it is recorded.
    fn shares(&self, sid: Sid, config: &Config<P>) -> BTreeMap<NodeId, Share<P>> {
        let nothing = Recorded::default();
        let replayed = |node| {
            let record = self.records.get(&node).unwrap_or(&nothing);
            (node, record.replayed(node, config))
        };
        let processes: BTreeMap<_, _> = config.topology.nodes().map(replayed).collect();
        let shares = processes.iter().map(|(&node, process)| {
            let channel = |(from, sender): (&NodeId, &Process<P>)| {
                let heard = process.heard.get(from).copied().unwrap_or(0);
                let sent = sender.sent.get(&node).into_iter().flat_map(|it| it.numbered());
                let sent = sent.filter(|(number, _)| *number > heard);
                let messages: Vec<_> = sent.map(|(_, msg)| msg.clone()).collect();
                (!messages.is_empty()).then_some((*from, messages))
            };
            let channels = processes.iter().filter_map(channel).collect();
            let timers = process.timers.iter().map(|it| (it.timer, it.after)).collect();
            (node, Share { sid, state: process.app.clone(), timers, channels })
        });
        shares.collect()
    }
}

/// What a part holds.
fn worth_of<P: Protocol>(share: &Share<P>, (state, message): Worth<P>) -> u64 {
    let messages = share.channels.values().flatten().map(message);
    messages.fold(state(&share.state), u64::wrapping_add)
}

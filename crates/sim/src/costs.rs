use std::collections::BTreeMap;
use std::time::Duration;

use conclave_protocol::{NodeId, Observation, Time};
use serde::Serialize;

use crate::{Event, Owner, Record, Trace};

/// What a run cost, by the catalogue's rules for counting.
///
/// A message is one unicast between two different nodes, counted when it is sent, and belongs to
/// exactly one entry into the critical section.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Costs {
    /// Every entry that was asked for, in the order of asking.
    pub entries: Vec<EntryCost>,
    /// Messages sent, each copy of a broadcast counted.
    pub messages: u64,
    /// Transmissions, where a broadcast is one.
    pub transmissions: u64,
    /// Messages that never arrived.
    pub lost: u64,
    /// Bytes sent, if sizes were measured.
    pub bytes: u64,
    /// Messages that belong to no entry.
    pub overhead: u64,
    /// Bytes of messages that belong to no entry.
    pub overhead_bytes: u64,
    /// Messages by name.
    pub by_label: BTreeMap<String, u64>,
    /// For each hand-over to a waiting node: when the last node left and how long until the next
    /// entered.
    pub handovers: Vec<Handover>,
    /// The time from the first request to the last event.
    #[serde(skip)]
    pub span: Duration,
}

/// What one entry cost.
#[derive(Clone, Debug, Serialize)]
pub struct EntryCost {
    /// Who entered.
    pub node: NodeId,
    /// When it asked.
    pub asked: Time,
    /// When it was due to ask: earlier if, in an open loop, the node was not done with the request
    /// before.
    #[serde(skip)]
    pub due: Time,
    /// When it entered, if it did.
    pub entered: Option<Time>,
    /// When it left, if it did.
    pub left: Option<Time>,
    /// The fencing token.
    pub token: Option<u64>,
    /// Messages that asked for and granted it.
    pub messages_entry: u64,
    /// Messages that released it.
    pub messages_exit: u64,
    /// Transmissions, where a broadcast is one.
    pub transmissions: u64,
    #[serde(skip)]
    asked_record: usize,
    #[serde(skip)]
    entered_record: usize,
}

/// The critical section passing from one node to the next.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Handover {
    /// Who left.
    pub from: NodeId,
    /// Who entered.
    pub to: NodeId,
    /// How long it took.
    pub delay: Duration,
    #[serde(skip)]
    left_record: usize,
    #[serde(skip)]
    entered_record: usize,
}

/// A few values of a distribution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Percentiles {
    /// Half are no longer.
    pub p50: Duration,
    /// Nine of ten are no longer.
    pub p90: Duration,
    /// Ninety-nine of a hundred are no longer.
    pub p99: Duration,
    /// None is longer.
    pub max: Duration,
    /// The arithmetic mean.
    pub mean: Duration,
}

impl Percentiles {
    /// Of the given durations; all zero if there are none.
    pub fn of(mut durations: Vec<Duration>) -> Self {
        if durations.is_empty() {
            return Self::default();
        }
        durations.sort_unstable();
        let n = durations.len();
        let at = |percent: usize| durations[(n * percent).div_ceil(100).max(1) - 1];
        let mean = durations.iter().sum::<Duration>() / n as u32;
        Self { p50: at(50), p90: at(90), p99: at(99), max: at(100), mean }
    }
}

impl Costs {
    /// Counts what a run cost.
    pub fn of(trace: &Trace) -> Self {
        let mut meter = Meter::new(trace);
        for (number, record) in trace.records.iter().enumerate() {
            meter.see(number, record, record.event());
        }
        meter.costs(trace)
    }

    /// The entries that happened.
    pub fn entered(&self) -> impl Iterator<Item = &EntryCost> {
        self.entries.iter().filter(|entry| entry.entered.is_some())
    }

    /// Mean number of messages per entry, without those counted for no entry.
    pub fn messages_per_entry(&self) -> Option<f64> {
        let entered = self.entered().count();
        (entered > 0).then(|| (self.messages - self.overhead) as f64 / entered as f64)
    }

    /// Mean number of bytes per entry, without those counted for no entry.
    pub fn bytes_per_entry(&self) -> Option<f64> {
        let entered = self.entered().count();
        let bytes = self.bytes - self.overhead_bytes;
        (entered > 0 && self.bytes > 0).then(|| bytes as f64 / entered as f64)
    }

    /// How long requests waited, from when they were due to entering.
    pub fn waiting(&self) -> Percentiles {
        Percentiles::of(self.entered().map(|e| e.entered.unwrap_or(e.due) - e.due).collect())
    }

    /// How long requests took, from when they were due to having left.
    pub fn turnaround(&self) -> Percentiles {
        let left = self.entries.iter().filter_map(|e| e.left.map(|left| left - e.due));
        Percentiles::of(left.collect())
    }

    /// How long the critical section stood empty between two users, the second waiting.
    pub fn synchronization(&self) -> Percentiles {
        Percentiles::of(self.handovers.iter().map(|handover| handover.delay).collect())
    }

    /// Entries per second of virtual time, from the first entry to the last.
    pub fn throughput(&self) -> Option<f64> {
        let times: Vec<Time> = self.entered().filter_map(|entry| entry.entered).collect();
        let (first, last) = (times.iter().min()?, times.iter().max()?);
        let span = (*last - *first).as_secs_f64();
        (span > 0.0).then(|| (times.len() - 1) as f64 / span)
    }

    /// Jain's index over the entries of each node that asked: 1 when all got the same.
    pub fn fairness(&self) -> Option<f64> {
        let mut by_node: BTreeMap<NodeId, f64> = BTreeMap::new();
        for entry in &self.entries {
            *by_node.entry(entry.node).or_default() += f64::from(u8::from(entry.entered.is_some()));
        }
        let sum: f64 = by_node.values().sum();
        let squares: f64 = by_node.values().map(|x| x * x).sum();
        (squares > 0.0).then(|| sum * sum / (by_node.len() as f64 * squares))
    }

    /// The most entries of others between a request and its grant.
    pub fn overtaking(&self) -> u64 {
        let mut times: Vec<Time> = self.entered().filter_map(|entry| entry.entered).collect();
        times.sort_unstable();
        let between = |entry: &EntryCost| {
            let entered = entry.entered.unwrap_or(entry.asked);
            let (from, to) = (
                times.partition_point(|&t| t <= entry.asked),
                times.partition_point(|&t| t < entered),
            );
            to.saturating_sub(from) as u64
        };
        self.entered().map(between).max().unwrap_or(0)
    }

    /// The longest causal chain of messages from asking to entering.
    pub fn entry_hops(&self, trace: &Trace, entry: &EntryCost) -> Option<u32> {
        entry.entered?;
        longest_chain(trace, entry.asked_record, entry.entered_record)
    }

    /// The longest causal chain of messages from one leaving to the next, waiting, entering.
    pub fn handover_hops(&self, trace: &Trace, handover: &Handover) -> Option<u32> {
        longest_chain(trace, handover.left_record, handover.entered_record)
    }
}

/// Counts as a trace is walked over.
pub(crate) struct Meter {
    costs: Costs,
    by_label: [u64; 256],
    /// The latest entry of each node.
    latest: BTreeMap<NodeId, usize>,
    /// Messages counted for the next node to enter.
    ahead: u64,
    ahead_transmissions: u64,
    ahead_bytes: u64,
    last_left: Option<(usize, NodeId, Time)>,
}

impl Meter {
    pub(crate) fn new(trace: &Trace) -> Self {
        let mut by_label = [0; 256];
        by_label[..trace.counts.len()].copy_from_slice(&trace.counts);
        let messages = trace.counts.iter().sum();
        Self {
            costs: Costs { messages, transmissions: messages, ..Costs::default() },
            by_label,
            latest: BTreeMap::new(),
            ahead: 0,
            ahead_transmissions: 0,
            ahead_bytes: 0,
            last_left: None,
        }
    }

    /// The next event.
    pub(crate) fn see(&mut self, number: usize, record: &Record, event: Event) {
        match event {
            Event::Send { label, owner, bytes, copy, .. } => {
                self.costs.messages += 1;
                let transmission = u64::from(!copy);
                self.costs.transmissions += transmission;
                let bytes = u64::from(bytes);
                self.costs.bytes += bytes;
                self.by_label[usize::from(label)] += 1;
                match owner {
                    Owner::Nobody => {
                        self.costs.overhead += 1;
                        self.costs.overhead_bytes += bytes;
                    }
                    Owner::Next => {
                        self.ahead += 1;
                        self.ahead_transmissions += transmission;
                        self.ahead_bytes += bytes;
                    }
                    Owner::Node(node) => match self.latest.get(&node) {
                        Some(&entry) => {
                            let entry = &mut self.costs.entries[entry];
                            entry.transmissions += transmission;
                            if entry.left.is_none() {
                                entry.messages_entry += 1;
                            } else {
                                entry.messages_exit += 1;
                            }
                        }
                        None => {
                            self.costs.overhead += 1;
                            self.costs.overhead_bytes += bytes;
                        }
                    },
                }
            }
            Event::Lose { .. } => self.costs.lost += 1,
            Event::Request(Observation::Asked) | Event::Notice(Observation::Asked) => {
                self.latest.insert(record.node, self.costs.entries.len());
                self.costs.entries.push(EntryCost {
                    node: record.node,
                    asked: record.at,
                    due: record.due(),
                    entered: None,
                    left: None,
                    token: None,
                    messages_entry: 0,
                    messages_exit: 0,
                    transmissions: 0,
                    asked_record: number,
                    entered_record: 0,
                });
            }
            Event::Notice(Observation::Entered { token }) => {
                let Some(&entry) = self.latest.get(&record.node) else { return };
                let entry = &mut self.costs.entries[entry];
                entry.entered = Some(record.at);
                entry.token = Some(token);
                entry.entered_record = number;
                entry.messages_entry += std::mem::take(&mut self.ahead);
                entry.transmissions += std::mem::take(&mut self.ahead_transmissions);
                self.ahead_bytes = 0;
                if let Some((left_record, from, left)) = self.last_left.take()
                    && entry.asked_record < left_record
                {
                    self.costs.handovers.push(Handover {
                        from,
                        to: record.node,
                        delay: record.at - left,
                        left_record,
                        entered_record: number,
                    });
                }
            }
            Event::Request(Observation::Left) | Event::Notice(Observation::Left) => {
                if let Some(&entry) = self.latest.get(&record.node) {
                    self.costs.entries[entry].left = Some(record.at);
                }
                self.last_left = Some((number, record.node, record.at));
            }
            _ => {}
        }
    }

    /// What all of it cost.
    pub(crate) fn costs(self, trace: &Trace) -> Costs {
        let Self { mut costs, by_label, ahead, ahead_bytes, .. } = self;
        costs.overhead += ahead;
        costs.overhead_bytes += ahead_bytes;
        let names = trace.labels.iter().map(ToString::to_string);
        costs.by_label = names.zip(by_label).filter(|(_, count)| *count > 0).collect();
        let first = costs.entries.first().map_or(Time::ZERO, |entry| entry.asked);
        costs.span = trace.records.last().map_or(Duration::ZERO, |last| last.at.max(first) - first);
        costs
    }
}

/// The number of messages in the longest causal chain from one event to another; `None` if the
/// first did not happen before the second.
fn longest_chain(trace: &Trace, from: usize, to: usize) -> Option<u32> {
    let mut at_node: BTreeMap<NodeId, u32> = BTreeMap::new();
    let mut under_way: BTreeMap<u32, u32> = BTreeMap::new();
    at_node.insert(trace.records[from].node, 0);
    for record in trace.records.iter_from(from + 1).take(to.checked_sub(from)?) {
        match record.event() {
            Event::Send { serial, .. } => {
                if let Some(&hops) = at_node.get(&record.node) {
                    under_way.insert(serial, hops + 1);
                }
            }
            Event::Deliver { serial, .. } => {
                if let Some(&hops) = under_way.get(&serial) {
                    let here = at_node.entry(record.node).or_default();
                    *here = hops.max(*here);
                }
            }
            _ => {}
        }
    }
    at_node.get(&trace.records[to].node).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASK: Event = Event::Request(Observation::Asked);
    const LEAVE: Event = Event::Request(Observation::Left);

    fn enter(token: u64) -> Event {
        Event::Notice(Observation::Entered { token })
    }

    fn send(to: u32, serial: u32, owner: Owner, bytes: u32) -> Event {
        Event::Send { to: NodeId(to), serial, label: 0, owner, bytes, copy: false, control: false }
    }

    fn deliver(from: u32, serial: u32) -> Event {
        Event::Deliver { from: NodeId(from), serial, label: 0 }
    }

    /// Of `(when in ms, where, what)`.
    fn trace(events: &[(u64, u32, Event)]) -> Trace {
        let record = |&(ms, node, event): &(u64, u32, Event)| {
            Record::new(Time::from_nanos(ms * 1_000_000), NodeId(node), 0, event)
        };
        let (labels, records) = (vec!["Msg".into()], events.iter().map(record).collect());
        Trace { nodes: 3, records, labels, ..Trace::default() }
    }

    #[test]
    fn messages_and_bytes_belong_to_the_entry_they_serve_or_to_nobody() {
        let own = Owner::Node(NodeId(0));
        let costs = Costs::of(&trace(&[
            (0, 2, send(0, 0, Owner::Nobody, 100)),
            (1, 0, ASK),
            (1, 0, send(1, 1, own, 70_000)),
            (2, 1, deliver(0, 1)),
            (2, 1, send(0, 2, Owner::Next, 10)),
            (3, 0, deliver(1, 2)),
            (3, 0, enter(1)),
            (5, 0, LEAVE),
            (5, 0, send(1, 3, own, 5)),
            (5, 1, send(2, 4, Owner::Next, 10)),
        ]));
        let [entry] = costs.entries.as_slice() else { panic!("one entry: {costs:?}") };
        assert_eq!((entry.messages_entry, entry.messages_exit), (2, 1));
        assert_eq!((costs.messages, costs.overhead), (5, 2));
        assert_eq!((costs.bytes, costs.overhead_bytes), (70_125, 110));
        assert_eq!(costs.messages_per_entry(), Some(3.0));
        assert_eq!(costs.bytes_per_entry(), Some(70_015.0));
        assert_eq!(costs.waiting().max, Duration::from_millis(2));
        assert_eq!(costs.turnaround().max, Duration::from_millis(4));
        assert_eq!(costs.by_label, BTreeMap::from([("Msg".to_owned(), 5)]));
    }

    #[test]
    fn a_hand_over_is_to_somebody_who_waited() {
        let own = Owner::Node(NodeId(1));
        let events = [
            (0, 0, ASK),
            (0, 0, enter(1)),
            (1, 1, ASK),
            (1, 1, send(0, 0, own, 0)),
            (2, 0, deliver(1, 0)),
            (5, 0, LEAVE),
            (5, 0, send(1, 1, own, 0)),
            (6, 1, deliver(0, 1)),
            (6, 1, enter(2)),
            (7, 1, LEAVE),
            (8, 2, ASK),
            (9, 2, enter(3)),
        ];
        let trace = trace(&events);
        let costs = Costs::of(&trace);
        let [handover] = costs.handovers.as_slice() else { panic!("one hand-over: {costs:?}") };
        assert_eq!((handover.from, handover.to), (NodeId(0), NodeId(1)));
        assert_eq!(handover.delay, Duration::from_millis(1));
        assert_eq!(costs.handover_hops(&trace, handover), Some(1));
        assert_eq!(costs.entry_hops(&trace, &costs.entries[1]), Some(2));
        assert_eq!(costs.fairness(), Some(1.0));
    }

    #[test]
    fn a_request_that_came_late_has_waited_since_it_was_due() {
        let mut trace = trace(&[(4, 0, ASK), (5, 0, enter(1)), (7, 0, LEAVE)]);
        trace.records.change(0, |asked| asked.overdue(Time::from_nanos(1_000_000)));
        let costs = Costs::of(&trace);
        assert_eq!(costs.waiting().max, Duration::from_millis(4));
        assert_eq!(costs.turnaround().max, Duration::from_millis(6));
    }
}

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use conclave_protocol::{NodeId, Observation, Time};
use serde::Serialize;

use crate::{Event, Percentiles, Trace};

/// How good a failure detector was in a run: how soon it found crashes, how often it was wrong, and
/// what it cost.
#[derive(Clone, Debug, Default, Serialize)]
pub struct DetectorMetrics {
    /// How many nodes there were.
    pub nodes: u32,
    /// How long the run took.
    pub span: Duration,
    /// For every crash, and every node that was up from then on until the run or the crash was over,
    /// whether and when it noticed.
    pub detections: Vec<Detection>,
    /// Every suspicion of a node that was up.
    pub mistakes: Vec<Mistake>,
    /// The pauses from the beginning of a mistake to that of the next, of the same node about the
    /// same peer.
    pub recurrences: Vec<Duration>,
    /// For how long nodes were mistaken: the sum over all pairs.
    pub mistaken: Duration,
    /// For how long they could have been: the sum, over all pairs, of the time that both were up.
    pub exposure: Duration,
    /// Messages sent.
    pub messages: u64,
    /// Bytes sent, if sizes were recorded.
    pub bytes: u64,
}

/// A crash, seen from one other node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Detection {
    /// Who crashed.
    pub crashed: NodeId,
    /// When.
    pub at: Time,
    /// Who was to notice.
    pub observer: NodeId,
    /// How long it took until it suspected the node for good; `None` if it never did.
    pub after: Option<Duration>,
    /// Whether it suspected it already, by mistake: then there was nothing to notice.
    pub guessed: bool,
}

/// A suspicion of a node that was up when it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Mistake {
    /// Who was wrong.
    pub observer: NodeId,
    /// About whom.
    pub peer: NodeId,
    /// When it began.
    pub at: Time,
    /// How long it lasted: until it was taken back, or came true, or the observer crashed; `None` if
    /// it outlasted the run.
    pub lasted: Option<Duration>,
}

impl DetectorMetrics {
    /// Of a run, as its trace tells.
    pub fn of(trace: &Trace) -> Self {
        let end = trace.ended;
        let mut watch = Watch {
            detector_metrics: Self {
                nodes: trace.nodes,
                span: end - Time::ZERO,
                ..Self::default()
            },
            up: (0..trace.nodes).map(NodeId).collect(),
            down: BTreeMap::new(),
            suspects: BTreeMap::new(),
            seen: Time::ZERO,
        };
        for record in &trace.records {
            let (node, now) = (record.node, record.at);
            match record.event() {
                Event::Send { bytes, .. } => {
                    watch.detector_metrics.messages += 1;
                    watch.detector_metrics.bytes += u64::from(bytes);
                }
                Event::Notice(Observation::Suspects(peer)) => watch.suspect(node, peer, now),
                Event::Notice(Observation::Trusts(peer)) => watch.drop_suspicion(node, peer, now),
                Event::Crash => watch.crash(node, now),
                Event::Recover | Event::RecoverEmpty => watch.recover(node, now),
                _ => {}
            }
        }
        watch.end(end)
    }

    /// How long crashes took to be noticed, by those who had trusted the node until then.
    pub fn detection(&self) -> Percentiles {
        Percentiles::of(self.noticed().collect())
    }

    /// How soon a crash was noticed at best.
    pub fn quickest(&self) -> Option<Duration> {
        self.noticed().min()
    }

    /// How often a crash was not noticed in the run.
    pub fn missed(&self) -> usize {
        self.detections.iter().filter(|detection| detection.after.is_none()).count()
    }

    fn noticed(&self) -> impl Iterator<Item = Duration> + '_ {
        let news = self.detections.iter().filter(|detection| !detection.guessed);
        news.filter_map(|detection| detection.after)
    }

    /// How often a node suspects a live peer, per pair and `unit` of time that both are up.
    pub fn mistake_rate(&self, unit: Duration) -> Option<f64> {
        let exposure = self.exposure.div_duration_f64(unit);
        (exposure > 0.0).then(|| self.mistakes.len() as f64 / exposure)
    }

    /// The same per `unit` of time that one trusts the other: fair to detectors that never take a
    /// suspicion back, and so have no occasion for a second mistake.
    pub fn mistake_hazard(&self, unit: Duration) -> Option<f64> {
        let trust = self.exposure.saturating_sub(self.mistaken);
        let rate = || self.mistakes.len() as f64 / trust.div_duration_f64(unit);
        (!trust.is_zero()).then(rate)
    }

    /// How long mistakes last, of those that ended.
    pub fn mistake_duration(&self) -> Percentiles {
        Percentiles::of(self.mistakes.iter().filter_map(|mistake| mistake.lasted).collect())
    }

    /// How much time passes from the beginning of a mistake to that of the next of the same node
    /// about the same peer.
    pub fn mistake_recurrence(&self) -> Percentiles {
        Percentiles::of(self.recurrences.clone())
    }

    /// The share of the time that both are up in which a node suspects its peer.
    pub fn mistaken_share(&self) -> Option<f64> {
        (!self.exposure.is_zero()).then(|| self.mistaken.div_duration_f64(self.exposure))
    }

    /// How many messages a node sends per `unit` of time.
    pub fn messages_per_node(&self, unit: Duration) -> Option<f64> {
        self.per_node(self.messages, unit)
    }

    /// How many bytes a node sends per `unit` of time, if sizes were recorded.
    pub fn bytes_per_node(&self, unit: Duration) -> Option<f64> {
        self.per_node(self.bytes, unit).filter(|_| self.bytes > 0)
    }

    fn per_node(&self, count: u64, unit: Duration) -> Option<f64> {
        let time = self.span.div_duration_f64(unit) * f64::from(self.nodes);
        (time > 0.0).then(|| count as f64 / time)
    }

    /// This run and another of the same system, taken together.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.nodes = self.nodes.max(other.nodes);
        self.span += other.span;
        self.detections.extend(other.detections);
        self.mistakes.extend(other.mistakes);
        self.recurrences.extend(other.recurrences);
        self.mistaken += other.mistaken;
        self.exposure += other.exposure;
        self.messages += other.messages;
        self.bytes += other.bytes;
        self
    }
}

/// What is so at a moment of the run.
struct Watch {
    detector_metrics: DetectorMetrics,
    /// Who is up.
    up: BTreeSet<NodeId>,
    /// Since when nodes are not, and who was up then and has been since.
    down: BTreeMap<NodeId, (Time, BTreeSet<NodeId>)>,
    /// Who suspects whom: since when, and, if it is a mistake, its number.
    suspects: BTreeMap<(NodeId, NodeId), (Time, Option<usize>)>,
    /// Until when the time that pairs were up has been counted.
    seen: Time,
}

impl Watch {
    fn suspect(&mut self, observer: NodeId, peer: NodeId, now: Time) {
        if self.suspects.contains_key(&(observer, peer)) {
            return;
        }
        let mistake = self.up.contains(&peer).then(|| {
            self.detector_metrics.mistakes.push(Mistake { observer, peer, at: now, lasted: None });
            self.detector_metrics.mistakes.len() - 1
        });
        self.suspects.insert((observer, peer), (now, mistake));
    }

    fn drop_suspicion(&mut self, observer: NodeId, peer: NodeId, now: Time) {
        if let Some((since, Some(mistake))) = self.suspects.remove(&(observer, peer)) {
            self.detector_metrics.mistakes[mistake].lasted = Some(now - since);
        }
    }

    fn crash(&mut self, node: NodeId, now: Time) {
        self.count_exposure(now);
        if !self.up.remove(&node) {
            return;
        }
        // What the node thought is gone, and what was thought of it is true.
        let own: Vec<_> =
            self.suspects.keys().filter(|(observer, _)| *observer == node).copied().collect();
        for (observer, peer) in own {
            self.drop_suspicion(observer, peer, now);
        }
        for ((_, peer), (since, mistake)) in &mut self.suspects {
            if *peer == node
                && let Some(mistake) = mistake.take()
            {
                self.detector_metrics.mistakes[mistake].lasted = Some(now - *since);
            }
        }
        for (_, witnesses) in self.down.values_mut() {
            witnesses.remove(&node);
        }
        let witnesses = self.up.clone();
        self.down.insert(node, (now, witnesses));
    }

    fn recover(&mut self, node: NodeId, now: Time) {
        self.count_exposure(now);
        self.account(node, now, false);
        self.up.insert(node);
    }

    fn count_exposure(&mut self, now: Time) {
        let pairs = self.up.len() * self.up.len().saturating_sub(1);
        self.detector_metrics.exposure += (now.max(self.seen) - self.seen) * pairs as u32;
        self.seen = now;
    }

    /// The crash of a node is over, or the run is. Who had not noticed until the node came back had
    /// no time to, which says nothing.
    fn account(&mut self, node: NodeId, now: Time, over: bool) {
        let Some((at, witnesses)) = self.down.remove(&node) else { return };
        for observer in witnesses {
            let since = self.suspects.get(&(observer, node)).map(|(since, _)| *since);
            if since.is_some() || over {
                let after = since.map(|since| since.clamp(at, now) - at);
                let guessed = since.is_some_and(|since| since < at);
                let detection = Detection { crashed: node, at, observer, after, guessed };
                self.detector_metrics.detections.push(detection);
            }
        }
    }

    fn end(mut self, end: Time) -> DetectorMetrics {
        self.count_exposure(end);
        for node in self.down.keys().copied().collect::<Vec<_>>() {
            self.account(node, end, true);
        }
        let mut detector_metrics = self.detector_metrics;
        detector_metrics.detections.sort_by_key(|detection| (detection.at, detection.crashed));
        let mut last: BTreeMap<(NodeId, NodeId), Time> = BTreeMap::new();
        for mistake in &detector_metrics.mistakes {
            detector_metrics.mistaken += mistake.lasted.unwrap_or_else(|| end - mistake.at);
            if let Some(before) = last.insert((mistake.observer, mistake.peer), mistake.at) {
                detector_metrics.recurrences.push(mistake.at - before);
            }
        }
        detector_metrics
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Owner, Record};

    const MS: Duration = Duration::from_millis(1);

    fn ms(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    fn suspects(peer: u32) -> Event {
        Event::Notice(Observation::Suspects(NodeId(peer)))
    }

    fn trusts(peer: u32) -> Event {
        Event::Notice(Observation::Trusts(NodeId(peer)))
    }

    fn send(to: u32, bytes: u32) -> Event {
        let (to, owner) = (NodeId(to), Owner::Nobody);
        Event::Send { to, serial: 0, label: 0, owner, bytes, copy: false, control: false }
    }

    /// Of `(when in ms, where, what)`, until 100 ms.
    fn detector_metrics(nodes: u32, events: &[(u64, u32, Event)]) -> DetectorMetrics {
        let record =
            |&(at, node, event): &(u64, u32, Event)| Record::new(ms(at), NodeId(node), 0, event);
        let trace = Trace {
            nodes,
            records: events.iter().map(record).collect(),
            ended: ms(100),
            ..Trace::default()
        };
        DetectorMetrics::of(&trace)
    }

    #[test]
    fn a_crash_is_noticed_when_it_is_suspected_for_good() {
        let detector_metrics = detector_metrics(
            4,
            &[
                (10, 0, Event::Crash),
                (15, 1, suspects(0)),
                // A beat from before the crash.
                (16, 1, trusts(0)),
                (20, 1, suspects(0)),
                (14, 2, suspects(0)),
            ],
        );
        let after: Vec<_> =
            detector_metrics.detections.iter().map(|d| (d.observer.0, d.after)).collect();
        assert_eq!(after, [(1, Some(MS * 10)), (2, Some(MS * 4)), (3, None)]);
        assert_eq!(detector_metrics.missed(), 1);
        assert_eq!(detector_metrics.quickest(), Some(MS * 4));
        let detection = detector_metrics.detection();
        assert_eq!((detection.mean, detection.max, detection.p99), (MS * 7, MS * 10, MS * 10));
        assert_eq!(detector_metrics.mistakes, []);
    }

    #[test]
    fn a_suspicion_that_came_true_was_a_mistake_until_then_and_is_no_discovery() {
        let detector_metrics = detector_metrics(2, &[(10, 1, suspects(0)), (30, 0, Event::Crash)]);
        assert_eq!(detector_metrics.detections[0].after, Some(Duration::ZERO));
        assert!(detector_metrics.detections[0].guessed);
        assert_eq!((detector_metrics.quickest(), detector_metrics.missed()), (None, 0));
        assert_eq!(detector_metrics.mistakes[0].lasted, Some(MS * 20));
        assert_eq!(detector_metrics.mistaken, MS * 20);
    }

    #[test]
    fn who_is_back_before_it_was_noticed_says_nothing_about_the_detector() {
        let back = [(10, 0, Event::Crash), (12, 0, Event::Recover), (13, 1, suspects(0))];
        let detector_metrics = detector_metrics(2, &back);
        assert_eq!(detector_metrics.detections, []);
        assert_eq!(detector_metrics.mistakes.len(), 1, "it is up by then");
    }

    #[test]
    fn only_who_was_up_all_the_time_is_asked_whether_it_noticed() {
        let detector_metrics = detector_metrics(
            4,
            &[
                (5, 3, Event::Crash),
                (6, 3, Event::RecoverEmpty),
                (10, 0, Event::Crash),
                (11, 1, suspects(0)),
                (12, 1, Event::Crash),
                (13, 1, Event::Recover),
                (20, 2, suspects(0)),
                (30, 0, Event::Recover),
            ],
        );
        let of_p0 = detector_metrics.detections.iter().filter(|d| d.crashed == NodeId(0));
        assert!(of_p0.map(|d| (d.observer, d.after)).eq([(NodeId(2), Some(MS * 10))]));
    }

    #[test]
    fn mistakes_have_a_rate_a_duration_and_a_recurrence() {
        let detector_metrics = detector_metrics(
            2,
            &[
                (10, 0, suspects(1)),
                (12, 0, trusts(1)),
                (50, 0, suspects(1)),
                (50, 0, suspects(1)),
                (56, 0, trusts(1)),
                (90, 1, suspects(0)),
            ],
        );
        assert_eq!(detector_metrics.mistakes.len(), 3, "a suspicion that is told twice is one");
        assert_eq!(detector_metrics.mistakes[2].lasted, None);
        assert_eq!(detector_metrics.mistake_duration().mean, MS * 4);
        assert_eq!(detector_metrics.mistake_recurrence().mean, MS * 40);
        // Two pairs of 100 ms.
        assert_eq!(detector_metrics.exposure, MS * 200);
        assert_eq!(detector_metrics.mistake_rate(MS * 100), Some(1.5));
        assert_eq!(detector_metrics.mistaken_share(), Some(18.0 / 200.0));
        assert_eq!(detector_metrics.mistake_hazard(MS * 182), Some(3.0));
        let twice = detector_metrics.clone().and(detector_metrics);
        assert_eq!(twice.mistake_rate(MS * 100), Some(1.5));
        assert_eq!(twice.mistake_recurrence().mean, MS * 40);
    }

    #[test]
    fn pairs_count_while_both_are_up() {
        let detector_metrics =
            detector_metrics(3, &[(20, 0, Event::Crash), (70, 0, Event::Recover)]);
        assert_eq!(detector_metrics.exposure, MS * (6 * 20 + 2 * 50 + 6 * 30));
    }

    #[test]
    fn what_is_sent_is_counted_per_node_and_time() {
        let detector_metrics =
            detector_metrics(2, &[(1, 0, send(1, 10)), (2, 1, send(0, 30)), (3, 0, send(1, 20))]);
        assert_eq!(detector_metrics.messages_per_node(MS * 100), Some(1.5));
        assert_eq!(detector_metrics.bytes_per_node(MS * 100), Some(30.0));
    }
}

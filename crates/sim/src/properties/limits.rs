use std::collections::BTreeMap;
use std::time::Duration;

use conclave_protocol::{Family, Info, NodeId, Observation, Tempo, Time};

use super::Survey;
use crate::{End, Event, Record, RunSpec, Trace};

/// What a judge has to know beside the trace.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How many may be inside at once.
    pub places: u32,
    /// How long a request may wait, or the system may take to settle, before a run that was cut
    /// off shows that it never will.
    pub patience: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { places: 1, patience: Duration::from_secs(10) }
    }
}

impl Limits {
    /// As many places as the algorithm's option `units` says, and more patience than any run needs
    /// whose messages, timers and stays inside took as long as those of this one.
    pub fn of(info: &Info, spec: &RunSpec, trace: &Trace) -> Self {
        Self::surveyed(info, spec, trace, &Survey::new(trace, &[], 1))
    }

    /// The same, of a run that has been surveyed.
    pub fn surveyed(info: &Info, spec: &RunSpec, trace: &Trace, survey: &Survey<'_>) -> Self {
        let places = info.places(&spec.setup);
        if matches!(trace.end, End::Quiet | End::Served) {
            return Self { places, ..Self::default() };
        }
        let seen = &survey.longest;
        let hop = spec.setup.delay.max(spec.delays.typical()).max(seen.flight);
        let lost = f64::from(spec.faults.loss.min(999_999)) / 1e6;
        let mut hop = hop + spec.setup.processing;
        if spec.faults.loss > 0 {
            // Sent again and again, in vain with less than one chance in a billion.
            let tries = (1e-9_f64.ln() / lost.ln()).ceil().max(1.0);
            hop = hop.saturating_mul(3).saturating_mul(tries as u32);
        }
        let tempo = Tempo { nodes: spec.setup.n(), hop, stay: seen.stay, timer: seen.timer };
        Self { places, patience: (Family::of(info).patience)(&tempo) }
    }
}

/// The longest that things took in a run, those included that were not over at its end.
#[derive(Default)]
pub(super) struct Longest {
    /// A message on its way.
    flight: Duration,
    /// A stay in the critical section.
    stay: Duration,
    /// From one timer of a node to the next.
    timer: Duration,
    sent: BTreeMap<u32, Time>,
    entered: BTreeMap<NodeId, Time>,
    rang: BTreeMap<NodeId, Time>,
}

impl Longest {
    pub(super) fn see(&mut self, record: &Record, event: Event) {
        let since = |start: Option<Time>, now: Time| start.map_or(Duration::ZERO, |it| now - it);
        let (node, now) = (record.node, record.at);
        match event {
            Event::Send { serial, .. } => {
                self.sent.insert(serial, now);
            }
            Event::Deliver { serial, .. } => {
                self.flight = self.flight.max(since(self.sent.remove(&serial), now));
            }
            Event::Lose { serial, .. } => {
                self.sent.remove(&serial);
            }
            Event::Timer { .. } => {
                self.timer = self.timer.max(since(self.rang.insert(node, now), now));
            }
            Event::Notice(Observation::Entered { .. }) => {
                self.entered.insert(node, now);
            }
            Event::Request(Observation::Left)
            | Event::Notice(Observation::Left | Observation::Lost)
            | Event::Crash => {
                self.stay = self.stay.max(since(self.entered.remove(&node), now));
            }
            _ => {}
        }
    }

    pub(super) fn end(&mut self, end: Time) {
        for start in std::mem::take(&mut self.sent).into_values() {
            self.flight = self.flight.max(end.max(start) - start);
        }
        for start in std::mem::take(&mut self.entered).into_values() {
            self.stay = self.stay.max(end.max(start) - start);
        }
    }
}

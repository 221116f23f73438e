use std::collections::BTreeMap;
use std::time::Duration;

use conclave_protocol::{Info, Mark, NodeId, Time};

use crate::{End, Event, RunSpec, Trace};

/// What a judge has to know beside the trace.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How many may be inside at once.
    pub places: u32,
    /// How long somebody may wait, or things may take to settle, before a run that was cut off
    /// shows that they never will.
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
    ///
    /// A request has at most everybody else's before it, and perhaps all of them once more by
    /// overtaking; with each, a stay inside and several messages to and from everybody in turn.
    pub fn of(info: &Info, spec: &RunSpec, trace: &Trace) -> Self {
        let units = info.options.iter().find(|option| option.name == "units");
        let set = spec.setup.options.get("units").map(String::as_str);
        let units = set.or_else(|| units.map(|option| option.default));
        let places = units.and_then(|text| text.parse().ok()).unwrap_or(1);
        if matches!(trace.end, End::Quiet | End::Served) {
            return Self { places, ..Self::default() };
        }
        let seen = Longest::of(trace, trace.ended);
        let hop = spec.setup.delay.max(spec.delays.typical()).max(seen.flight);
        let lost = f64::from(spec.faults.loss.min(999_999)) / 1e6;
        let mut hop = hop + spec.setup.processing;
        if spec.faults.loss > 0 {
            // Sent again and again, in vain with less than one chance in a billion.
            let tries = (1e-9_f64.ln() / lost.ln()).ceil().max(1.0);
            hop = hop.saturating_mul(3).saturating_mul(tries as u32);
        }
        let n = spec.setup.n();
        let patience = if info.family() == "mutex" {
            let service = seen.stay.saturating_add(hop.saturating_mul(n.saturating_mul(8) + 16));
            service.saturating_mul(n.saturating_mul(2))
        } else {
            hop.max(seen.timer).saturating_mul(20)
        };
        Self { places, patience }
    }
}

/// The longest that things took in a run, those included that were not over at its end.
#[derive(Default)]
struct Longest {
    /// A message on its way.
    flight: Duration,
    /// Somebody inside.
    stay: Duration,
    /// From one timer of a node to the next.
    timer: Duration,
}

impl Longest {
    fn of(trace: &Trace, end: Time) -> Self {
        let mut longest = Self::default();
        let mut sent: BTreeMap<u32, Time> = BTreeMap::new();
        let mut entered: BTreeMap<NodeId, Time> = BTreeMap::new();
        let mut timer: BTreeMap<NodeId, Time> = BTreeMap::new();
        let since = |start: Option<Time>, now: Time| start.map_or(Duration::ZERO, |it| now - it);
        for record in &trace.records {
            let (node, now) = (record.node, record.at);
            match record.event() {
                Event::Send { serial, .. } => {
                    sent.insert(serial, now);
                }
                Event::Deliver { serial, .. } => {
                    longest.flight = longest.flight.max(since(sent.remove(&serial), now));
                }
                Event::Lose { serial, .. } => {
                    sent.remove(&serial);
                }
                Event::Timer { .. } => {
                    longest.timer = longest.timer.max(since(timer.insert(node, now), now));
                }
                Event::Notice(Mark::Entered { .. }) => {
                    entered.insert(node, now);
                }
                Event::Request(Mark::Left) | Event::Notice(Mark::Lost) | Event::Crash => {
                    longest.stay = longest.stay.max(since(entered.remove(&node), now));
                }
                _ => {}
            }
        }
        for start in sent.into_values() {
            longest.flight = longest.flight.max(end.max(start) - start);
        }
        for start in entered.into_values() {
            longest.stay = longest.stay.max(end.max(start) - start);
        }
        longest
    }
}

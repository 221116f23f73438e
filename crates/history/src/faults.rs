//! When the server was to be relied upon, and when not.

use crate::{Event, Time};

/// Faults of these kinds are orders of an operator; the server goes on.
const ORDERS: [&str; 2] = ["force", "depose"];

/// When there were faults, so that a node may not answer, or may answer that it cannot: its disk is full, or it stops.
pub(crate) struct Faults(Vec<(Time, Time)>);

impl Faults {
    pub(crate) fn new(events: &[Event]) -> Self {
        let mut edges: Vec<(Time, i32)> = Vec::new();
        for event in events {
            match event {
                Event::FaultBegan { kind, at } if !ORDERS.contains(&kind.as_str()) => {
                    edges.push((*at, 1));
                }
                Event::FaultEnded { kind, at } if !ORDERS.contains(&kind.as_str()) => {
                    edges.push((*at, -1));
                }
                _ => {}
            }
        }
        edges.sort_unstable();
        let (mut spans, mut lasting, mut since) = (Vec::new(), 0, 0);
        for (at, change) in edges {
            if lasting == 0 {
                since = at;
            }
            lasting += change;
            if lasting == 0 {
                spans.push((since, at));
            }
        }
        if lasting > 0 {
            spans.push((since, Time::MAX));
        }
        Self(spans)
    }

    /// Whether there was a fault between two moments.
    pub(crate) fn within(&self, from: Time, to: Time) -> bool {
        self.0.iter().any(|(began, ended)| *began < to && *ended > from)
    }
}

/// When there were no faults.
pub(crate) struct Calm {
    /// Where a calm begins, and how much calm there was before; then where it ends.
    spans: Vec<(Time, Time, u64)>,
}

impl Calm {
    pub(crate) fn new(events: &[Event]) -> Self {
        let mut edges: Vec<(Time, i32)> = Vec::new();
        for event in events {
            match event {
                Event::FaultBegan { at, .. } => edges.push((*at, 1)),
                Event::FaultEnded { at, .. } => edges.push((*at, -1)),
                _ => {}
            }
        }
        edges.sort_unstable();
        let (mut spans, mut faults, mut since, mut sum) = (Vec::new(), 0, 0, 0);
        for (at, change) in edges {
            if faults == 0 {
                spans.push((since, at, sum));
                sum += at - since;
            }
            faults += change;
            since = at;
        }
        if faults == 0 {
            spans.push((since, Time::MAX, sum));
        }
        Self { spans }
    }

    /// How much calm there was before a moment.
    pub(crate) fn before(&self, at: Time) -> u64 {
        let next = self.spans.partition_point(|(from, ..)| *from <= at);
        let Some((from, to, sum)) = next.checked_sub(1).map(|place| self.spans[place]) else {
            return 0;
        };
        sum + at.min(to) - from
    }
}

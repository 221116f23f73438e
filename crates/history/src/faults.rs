//! When faults were being made, and so less was promised.

use crate::{Event, Time};

/// Faults of these kinds are orders of an operator; the server goes on.
const ORDERS: [&str; 2] = ["force", "depose"];

/// When there were faults, so that a node may not answer, or may answer that it cannot: its disk is full, or it stops.
pub(crate) struct Faults(Vec<(Time, Time)>);

impl Faults {
    pub(crate) fn new(events: &[Event]) -> Self {
        Self(spans(events, |kind| !ORDERS.contains(&kind)))
    }

    /// Whether there was a fault between two moments.
    pub(crate) fn within(&self, from: Time, to: Time) -> bool {
        self.0.iter().any(|(began, ended)| *began < to && *ended > from)
    }
}

/// When there were faults of these kinds, each span from the first of several to the end of the last.
fn spans(events: &[Event], counts: impl Fn(&str) -> bool) -> Vec<(Time, Time)> {
    let mut edges: Vec<(Time, i32)> = Vec::new();
    for event in events {
        match event {
            Event::FaultBegan { kind, at } if counts(kind) => edges.push((*at, 1)),
            Event::FaultEnded { kind, at } if counts(kind) => edges.push((*at, -1)),
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
    spans
}

/// When there were no faults.
pub(crate) struct Calm {
    /// Where a calm begins, and how much calm there was before; then where it ends.
    spans: Vec<(Time, Time, u64)>,
}

impl Calm {
    pub(crate) fn new(events: &[Event]) -> Self {
        let (mut calm, mut since, mut sum) = (Vec::new(), 0, 0);
        for (began, ended) in spans(events, |_| true) {
            calm.push((since, began, sum));
            sum += began - since;
            since = ended;
        }
        if since < Time::MAX {
            calm.push((since, Time::MAX, sum));
        }
        Self { spans: calm }
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

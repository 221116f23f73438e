//! What operators took by force.

use std::collections::BTreeMap;

use crate::{Event, Taken, Time, Want};

/// An order of an operator.
#[derive(Clone, Debug)]
pub(crate) struct Force<'a> {
    /// It was carried out here or later.
    pub(crate) sent: Time,
    /// It was carried out before this, and took these grants; nothing if there was no answer.
    outcome: Option<(Time, &'a [Taken])>,
    /// The event that shows it.
    place: usize,
}

impl Force<'_> {
    /// Whether it can have been carried out after a moment.
    pub(crate) fn answered_after(&self, at: Time) -> bool {
        self.outcome.is_none_or(|(answered, _)| answered > at)
    }

    /// Whether it took something from a session, as far as that is known.
    pub(crate) fn took_from(&self, session: u64) -> Option<bool> {
        self.outcome.map(|(_, taken)| taken.iter().any(|taken| taken.session == session))
    }
}

/// A lock that an operator took from its holder, or may have taken.
#[derive(Clone, Debug)]
pub(crate) struct Loss<'a> {
    pub(crate) lock: &'a str,
    /// Not before this.
    pub(crate) at: Time,
    /// The server has named this grant.
    pub(crate) certain: bool,
    /// The event that shows it.
    pub(crate) place: usize,
}

/// All orders, by lock and in the order of time.
pub(crate) struct Forces<'a>(BTreeMap<&'a str, Vec<Force<'a>>>);

impl<'a> Forces<'a> {
    pub(crate) fn new(events: &'a [Event]) -> Self {
        let mut outcomes: BTreeMap<(&str, Time), (Time, &[Taken], usize)> = BTreeMap::new();
        for (place, event) in events.iter().enumerate() {
            if let Event::Forced { lock, taken, sent, answered } = event {
                outcomes.insert((lock, *sent), (*answered, taken, place));
            }
        }
        let mut forces: BTreeMap<&str, Vec<Force<'_>>> = BTreeMap::new();
        for (place, event) in events.iter().enumerate() {
            let Event::Forcing { lock, at } = event else { continue };
            let known = outcomes.get(&(lock.as_str(), *at)).copied();
            let outcome = known.map(|(answered, taken, _)| (answered, taken));
            let place = known.map_or(place, |(.., place)| place);
            forces.entry(lock).or_default().push(Force { sent: *at, outcome, place });
        }
        for list in forces.values_mut() {
            list.sort_by_key(|force| force.sent);
        }
        Self(forces)
    }

    /// The orders concerning a lock.
    pub(crate) fn of(&self, lock: &str) -> &[Force<'a>] {
        self.0.get(lock).map_or(&[], |list| list)
    }

    /// What operators took of a grant, or may have taken, since they had no answer. What was asked for after the
    /// answer to an order was not taken by it.
    pub(crate) fn losses(
        &self,
        wants: &'a [Want],
        (session, token): (u64, u64),
        asked: Time,
    ) -> Vec<Loss<'a>> {
        let mut losses = Vec::new();
        for Want { lock, .. } in wants {
            for force in self.of(lock) {
                let certain = match force.outcome {
                    None => false,
                    Some((answered, taken)) => {
                        if answered < asked || !taken.contains(&Taken { session, token }) {
                            continue;
                        }
                        true
                    }
                };
                losses.push(Loss { lock, at: force.sent, certain, place: force.place });
            }
        }
        losses
    }
}

//! One walk over a trace, which every property is judged by.

use std::time::Duration;

use conclave_protocol::{
    Family, Lasting, Law, Observation, Owed, Promise, Property, Says, Time, names,
};

use super::limits::Longest;
use super::scene::Scene;
use super::{Verdict, open, violated};
use crate::costs::Meter;
use crate::{Costs, End, Event, Record, Trace, Tracing};

/// A vector clock for every message takes too much memory beyond so many components.
const COMPARABLE: usize = 20_000_000;

/// What one walk over a trace has found out: about the properties that were asked for, and what the
/// run cost.
pub struct Survey<'a> {
    trace: &'a Trace,
    scene: Scene<'a>,
    cases: Vec<Case>,
    /// Whether the order of requests is known.
    ordered: bool,
    /// When something was last done to the system …
    disturbed: Time,
    /// … or asked of it.
    asked: Time,
    pub(super) longest: Longest,
    costs: Costs,
}

/// A property that is judged, and what is known about it so far.
struct Case {
    promise: &'static Promise,
    /// Of what must be so at all times: when it first was not, and why.
    found: Option<(usize, String)>,
    /// Of what must not last: since when it has.
    since: Option<Time>,
    /// Whether there was anything that it speaks of.
    about: bool,
    /// Whether something has changed since it was looked at.
    changed: bool,
}

impl<'a> Survey<'a> {
    /// Walks over the trace with an eye to these properties, so many being allowed inside at once.
    pub fn new(trace: &'a Trace, properties: &[Property], places: u32) -> Self {
        let ordered = properties.contains(&Property::FcfsHappenedBefore);
        let size = trace.records.len().saturating_mul(trace.nodes as usize);
        let ordered = ordered && size <= COMPARABLE;
        let case = |&property| {
            let promise = Promise::of(property);
            let about = promise.about.is_none();
            Case { promise, found: None, since: None, about, changed: false }
        };
        let watch = properties.iter().find_map(|property| Family::watch_of(*property));
        let traffic = properties.iter().any(|property| Promise::of(*property).traffic);
        let mut survey = Self {
            trace,
            scene: Scene::new(trace, places, ordered, watch, traffic),
            cases: properties.iter().map(case).collect(),
            ordered,
            disturbed: Time::ZERO,
            asked: Time::ZERO,
            longest: Longest::default(),
            costs: Costs::default(),
        };
        // How long things took matters only of a run that was cut off.
        let lasts = !matches!(trace.end, End::Quiet | End::Served);
        let mut meter = Meter::new(trace);
        let mut records = trace.records.iter().enumerate().peekable();
        // Whether something that has changed is still to be looked at.
        let mut pending = false;
        while let Some((number, record)) = records.next() {
            let event = record.event();
            meter.see(number, record, event);
            if lasts {
                survey.longest.see(record, event);
            }
            if event.disturbs() {
                survey.disturbed = record.at;
            } else if matches!(event, Event::Request(_)) {
                survey.asked = record.at;
            }
            if let Event::Request(mark) | Event::Notice(mark) = event {
                survey.cases.iter_mut().for_each(|it| it.hear(&mark));
            }
            let mut changed = survey.scene.see(record, event);
            let goes_on = |next: &Record| {
                let effect = matches!(
                    next.event(),
                    Event::Send { .. } | Event::Notice(_) | Event::Lose { .. }
                );
                effect && next.node == record.node
            };
            if watch.is_some() && !records.peek().is_some_and(|(_, next)| goes_on(next)) {
                changed |= survey.scene.end_step();
            }
            if changed || pending {
                // What is true of the whole system stands at the end of the step that made it so.
                let settled = !records.peek().is_some_and(|(_, next)| {
                    goes_on(next) || matches!(next.event(), Event::Facts(_))
                });
                pending = false;
                for case in survey.cases.iter_mut().filter(|it| ordered || !it.is_of_order()) {
                    case.changed |= changed;
                    if case.changed && (settled || !case.promise.facts) {
                        case.changed = false;
                        case.look(&survey.scene, number, record.at);
                    }
                    pending |= case.changed;
                }
            }
        }
        for record in trace.latest.iter().flatten().chain(&trace.network) {
            survey.scene.see(record, record.event());
            if let Event::Notice(mark) = record.event() {
                survey.cases.iter_mut().for_each(|it| it.hear(&mark));
            }
        }
        survey.longest.end(trace.ended);
        survey.costs = meter.costs(trace);
        survey
    }

    /// What the run cost.
    pub fn costs(&self) -> &Costs {
        &self.costs
    }

    /// The same, for those who need nothing else any more.
    pub fn into_costs(self) -> Costs {
        self.costs
    }

    /// What the run says about a property that was asked for.
    ///
    /// What is said of the end of things is judged only where the run shows it: a run that came to
    /// its end by itself, or one that was cut off after more than the patience that any run within
    /// the model needs, nothing having been done to the system meanwhile.
    pub fn verdict(&self, property: Property, patience: Duration) -> Verdict {
        let case = self.cases.iter().find(|case| case.promise.property == property);
        let Some(case) = case else { return open("the run was not judged by it") };
        match (self.judged(case, patience), case.promise.about) {
            (Verdict::Held, Some((_, why))) if !case.about => Verdict::Vacuous { why: why.into() },
            (verdict, _) => verdict,
        }
    }

    fn judged(&self, case: &Case, patience: Duration) -> Verdict {
        let Case { promise, found, since, .. } = case;
        if self.trace.tracing < Tracing::Events && !promise.counted {
            return open("the run was not recorded");
        }
        if promise.facts && !self.scene.has_facts() {
            return open("the trace does not say what is true of the whole system");
        }
        if promise.traffic && case.about && !self.scene.knows_messages() {
            return open("the trace does not say what is in the messages of the application");
        }
        // Decisions that come to an end say nothing about those that could have followed.
        let patience = if self.trace.end == End::Decisions { Duration::MAX } else { patience };
        match &promise.says {
            Says::Always(_) if case.is_of_order() && !self.ordered => {
                open("the run is too large to compare all its requests")
            }
            Says::Always(_) => match found {
                Some((record, why)) => violated(*record, why),
                None => Verdict::Held,
            },
            Says::AtRest(law) => self.at_rest(law, promise.stays, patience),
            Says::InTheEnd(owed) => self.in_the_end(owed, *since, patience),
        }
    }

    fn at_rest(&self, law: &Law, stays: bool, patience: Duration) -> Verdict {
        let rests = matches!(self.trace.end, End::Quiet | End::Served)
            || self.trace.tracing >= Tracing::Events
                && self.trace.ended - self.disturbed.max(self.asked) > patience;
        let cut_off = "the run was cut off too soon, and this is said of a system at rest";
        if !rests && !stays {
            return open(cut_off);
        }
        match (law.broken)(&self.scene) {
            None => Verdict::Held,
            Some(_) if !rests => open(cut_off),
            Some(fault) => violated(self.last(), (law.words)(&self.scene, fault)),
        }
    }

    /// What can be said of those who wait, if anything can: that nothing is left to happen, or that
    /// they have waited longer than anybody need.
    fn in_the_end(&self, owed: &Owed, since: Option<Time>, patience: Duration) -> Verdict {
        let (end, ended) = (self.trace.end, self.trace.ended);
        let those = (owed.to)(&self.scene);
        let mut who = those.all();
        let alone = || who.iter().filter_map(|node| those.since(*node)).min();
        let first = if owed.each { alone() } else { since };
        let Some(since) = first.map(|first| first.max(self.disturbed)) else {
            return Verdict::Held;
        };
        if !self.scene.paused.is_empty() {
            let who = names(self.scene.paused.iter().copied());
            return open(format!("the run ended while {who} paused"));
        }
        let waited = ended.max(since) - since;
        if end != End::Quiet && waited <= patience {
            return open(format!("the run ended while {} still waited", names(those.all())));
        }
        if owed.each && end != End::Quiet {
            let span = |since: Time| ended - since.max(self.disturbed);
            who.retain(|node| those.since(*node).is_some_and(|it| span(it) > patience));
        }
        let lasting = if end == End::Quiet { Lasting::ForEver } else { Lasting::Span(waited) };
        violated(self.last(), (owed.words)(&who, lasting))
    }

    /// The record that stands for something that did not happen: the last one.
    fn last(&self) -> usize {
        self.trace.records.len().saturating_sub(1)
    }
}

impl Case {
    /// Whether it takes the order of requests to judge it.
    fn is_of_order(&self) -> bool {
        self.promise.property == Property::FcfsHappenedBefore
    }

    /// An application has said or heard something.
    fn hear(&mut self, mark: &Observation) {
        self.about |= self.promise.about.is_some_and(|(which, _)| which(mark));
    }

    /// Something has changed.
    fn look(&mut self, scene: &Scene<'_>, record: usize, at: Time) {
        match &self.promise.says {
            Says::Always(law) if self.found.is_none() => {
                let fault = (law.broken)(scene);
                self.found = fault.map(|fault| (record, (law.words)(scene, fault)));
            }
            Says::InTheEnd(owed) if !owed.each => {
                let stuck = !(owed.to)(scene).is_empty();
                self.since = if stuck { self.since.or(Some(at)) } else { None };
            }
            Says::Always(_) | Says::AtRest(_) | Says::InTheEnd(_) => {}
        }
    }
}

impl std::fmt::Debug for Survey<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Survey").finish_non_exhaustive()
    }
}

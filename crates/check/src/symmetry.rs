//! States that differ only in the nodes' names, explored once.
//!
//! A renaming of the nodes may be used if it makes no difference to the rules: whatever happens at
//! a node, the renamed event at the renamed node has the renamed outcome. The checker tests that
//! instead of trusting a declaration: steps are pure, and each is computed once; so when one is,
//! what all renamings make of it is computed, too, and compared. Where ids break ties, a renaming is caught at it, with the step
//! as the reason.
//!
//! The renamings that are tried form a group. Those that pass all tests need not, when only some
//! steps are seen; so when a step fails, it is asked of all its renamings which of them agree, and
//! those renamings are kept that never lead from one to another that does not. They form a group,
//! the search starts anew with it, and if nothing is left in it the check is refused.
//!
//! Then of all states that are renamings of each other one stands for all: that with the least
//! numbers. Each state that can be reached is a renaming of one that is found, and each that is
//! found of one that can be reached in as many steps: by induction, with what was tested on every
//! step taken. So a shortest run to a violation stays one. The first state need not look the same
//! under all names. What is checked must not depend on names; and of endless runs, in which each
//! node has to be treated fairly, names matter: only if there are none can anything be said about
//! how runs end.

mod canon;
mod images;
pub(crate) mod rename;
#[cfg(test)]
mod tests;
mod words;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use conclave_protocol::{Family, NodeId, Observation, Promise, Property, Topology};
use rustc_hash::{FxHashMap, FxHashSet};

pub(crate) use self::canon::Canon;
use self::words::change;
use crate::space::{Kind, LocalEvent, Space, Step};
use crate::{CheckError, CheckSpec, Requests};

/// With more renamings than this, telling which states are the same would take longer than it
/// saves.
const MOST_RENAMINGS: usize = 720;

/// Renamings of the nodes: with any two, one after the other is another of them.
#[derive(Debug)]
pub(crate) struct Group {
    /// Node `i` gets the name `members[..][i]`. The first changes nothing.
    members: Vec<Vec<NodeId>>,
    /// For each the one that takes it back.
    inverse: Vec<usize>,
    /// Whether a step was found that tells names apart.
    fails: AtomicBool,
}

impl Group {
    /// The renamings that keep the links and the set of those who ask.
    pub(crate) fn of(spec: &CheckSpec) -> Result<Self, CheckError> {
        let nameless = |it: &&Property| **it == Property::BestLeads;
        let no = |why: String| Err(CheckError::Contradiction(why));
        if let Some(property) = spec.properties.iter().find(nameless) {
            return no(format!("{property:?} is about names, which symmetry takes no notice of"));
        }
        let remembers =
            |it: &&Property| Family::watch_of(**it).is_some() || Promise::of(**it).facts;
        if let Some(property) = spec.properties.iter().find(remembers) {
            return no(format!(
                "what {property} speaks of is remembered by name, which symmetry would mix up"
            ));
        }
        if !spec.setup.attributes.is_empty() {
            return no("nodes have attributes, by which they differ".to_owned());
        }
        if spec.mortal.len() < spec.setup.n() as usize {
            return no("only some nodes may crash, by which they differ".to_owned());
        }
        if spec.count {
            return no("messages are counted for each node, and symmetry mixes them up".to_owned());
        }
        let topology = &spec.setup.topology;
        for fixed in 0..topology.len() {
            if let Some(members) =
                automorphisms(topology, |node| spec.clients.contains(&node), fixed)
            {
                if members.len() == 1 {
                    break;
                }
                return Ok(Self::new(members));
            }
        }
        let why = format!("its links and who asks tell all nodes apart ({topology})");
        Err(CheckError::NotSymmetric { algorithm: spec.algorithm.clone(), why })
    }

    fn new(mut members: Vec<Vec<NodeId>>) -> Self {
        members.sort();
        let places: BTreeMap<&[NodeId], usize> =
            members.iter().enumerate().map(|(place, it)| (&it[..], place)).collect();
        let inverse = members.iter().map(|names| {
            let mut back = names.clone();
            for (node, name) in (0..).map(NodeId).zip(names) {
                back[name.index()] = node;
            }
            places[&back[..]]
        });
        let inverse = inverse.collect();
        Self { members, inverse, fails: AtomicBool::new(false) }
    }

    /// How many there are.
    pub(crate) fn order(&self) -> usize {
        self.members.len()
    }

    /// Whether the search is in vain.
    pub(crate) fn fails(&self) -> bool {
        self.fails.load(Ordering::Relaxed)
    }

    /// The place of the renaming that does `first` and then `second`.
    fn then(&self, first: usize, second: usize) -> usize {
        let second = &self.members[second];
        let both: Vec<NodeId> =
            self.members[first].iter().map(|name| second[name.index()]).collect();
        self.members.binary_search(&both).expect("a group is closed")
    }
}

/// All renamings that keep the links and who asks, and the names of the first `fixed` nodes;
/// `None` if there are too many.
fn automorphisms(
    topology: &Topology,
    asks: impl Fn(u32) -> bool,
    fixed: u32,
) -> Option<Vec<Vec<NodeId>>> {
    let n = topology.len();
    let mut partial: Vec<Vec<NodeId>> = vec![Vec::new()];
    for node in topology.nodes() {
        let mut longer = Vec::new();
        for names in &partial {
            for name in topology.nodes() {
                let alike = |(other, &its): (NodeId, &NodeId)| {
                    topology.linked(node, other) == topology.linked(name, its)
                        && topology.linked(other, node) == topology.linked(its, name)
                };
                if (node.0 >= fixed || name == node)
                    && !names.contains(&name)
                    && asks(node.0) == asks(name.0)
                    && (0..n).map(NodeId).zip(names).all(alike)
                {
                    let mut names = names.clone();
                    names.push(name);
                    longer.push(names);
                }
            }
        }
        partial = longer;
        // Some may yet turn out to be none, but few do.
        if partial.len() > MOST_RENAMINGS {
            return None;
        }
    }
    Some(partial)
}

/// The image of a part by its number and that of the renaming.
type Images = FxHashMap<(u32, u16), u32>;

/// What the space keeps to rename its parts and to test renamings.
#[derive(Debug)]
pub(crate) struct Renamings {
    pub(crate) group: Arc<Group>,
    /// Whether a node may crash between two messages of a step, so that their order matters.
    mid_step: bool,
    locals: Images,
    envelopes: Images,
    tested: FxHashSet<(u32, LocalEvent)>,
    offered: FxHashSet<u32>,
    /// Those members of the group that no step has told from doing nothing.
    good: Vec<bool>,
    /// What told the first of the others.
    why: Option<String>,
}

/// What becomes of a step, as far as the future depends on it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Outcome {
    local: u32,
    sends: Vec<(NodeId, u32)>,
    entered: Vec<u64>,
    follows: Vec<(NodeId, u64)>,
}

impl Renamings {
    pub(crate) fn new(group: Arc<Group>, spec: &CheckSpec) -> Self {
        let good = vec![true; group.order()];
        let mid_step = spec.budgets.mid_step && spec.budgets.crashes > 0;
        Self {
            group,
            mid_step,
            locals: Images::default(),
            envelopes: Images::default(),
            tested: FxHashSet::default(),
            offered: FxHashSet::default(),
            good,
            why: None,
        }
    }

    /// If a renaming was found to make a difference: the group of the others, and why.
    fn verdict(&self) -> Option<(Group, String)> {
        let why = self.why.clone()?;
        let members = self.group.members.iter().zip(&self.good);
        let members = members.filter(|(_, good)| **good).map(|(names, _)| names.clone());
        Some((Group::new(members.collect()), why))
    }

    /// A renaming is no good for a reason that speaks against all.
    fn refuse(&mut self, why: String) {
        self.good[1..].fill(false);
        self.fail(why);
    }

    fn fail(&mut self, why: String) {
        self.why.get_or_insert(why);
        self.group.fails.store(true, Ordering::Relaxed);
    }

    /// Keeps the renamings that lead from no member of the group to one of another class, given
    /// the class of each member, in the first member's names. Returns one that does so from the
    /// first, moving as few nodes as can be.
    fn sift<T: PartialEq>(&mut self, classes: &[T]) -> Option<usize> {
        if classes.iter().all(|class| *class == classes[0]) {
            return None;
        }
        let group = Arc::clone(&self.group);
        for by in 0..group.order() {
            let keeps = |from: usize| classes[group.then(from, by)] == classes[from];
            self.good[by] &= (0..group.order()).all(keeps);
        }
        let moved = |by: &usize| {
            let names = (0..).map(NodeId).zip(&group.members[*by]);
            names.filter(|(node, name)| node != *name).count()
        };
        (0..group.order()).filter(|&by| classes[by] != classes[0]).min_by_key(moved)
    }
}

impl Space {
    /// Renames from now on. Steps that were computed before are to be tested when they come up.
    pub(crate) fn rename_by(&mut self, mut renamings: Renamings) {
        let group = Arc::clone(&renamings.group);
        for (by, names) in group.members.iter().enumerate() {
            let off = self.nodes.off(NodeId(0), Requests::AtMost(0));
            let image = self.nodes.off(names[0], Requests::AtMost(0));
            if self.image_of_local(&mut renamings, off, by) != image {
                renamings.refuse("applications begin with names in mind".to_owned());
            }
        }
        self.forget_steps();
        self.renamings = Some(Box::new(renamings));
    }

    /// If names were found to matter: the renamings that may be used all the same, and why others
    /// may not.
    pub(crate) fn told_apart(&self) -> Option<(Group, String)> {
        self.renamings.as_ref()?.verdict()
    }

    /// Tests whether all renamings of the step have the renamed outcomes.
    #[cold]
    pub(crate) fn test_step(&mut self, local: u32, event: LocalEvent) {
        let Some(mut renamings) = self.renamings.take() else { return };
        if renamings.tested.insert((local, event)) {
            let group = Arc::clone(&renamings.group);
            let mut classes = Vec::with_capacity(group.order());
            for by in 0..group.order() {
                let place = self.image_of_local(&mut renamings, local, by);
                let image = self.image_of_event(&mut renamings, event, by);
                renamings.tested.insert((place, image));
                let mut outcomes = Vec::new();
                for step in self.nodes.react(place, image) {
                    outcomes.push(self.outcome(&mut renamings, &step, group.inverse[by]));
                }
                outcomes.sort_unstable();
                outcomes.dedup();
                classes.push(outcomes);
            }
            if let Some(by) = renamings.sift(&classes) {
                let why = self.explain_step(&mut renamings, local, event, by);
                renamings.fail(why);
            }
        }
        self.renamings = Some(renamings);
    }

    /// Tests whether renamed nodes may by themselves do the renamed things.
    #[cold]
    pub(crate) fn test_offer(&mut self, local: u32) {
        let Some(mut renamings) = self.renamings.take() else { return };
        if renamings.offered.insert(local) {
            let group = Arc::clone(&renamings.group);
            let mut classes = Vec::with_capacity(group.order());
            for by in 0..group.order() {
                let place = self.image_of_local(&mut renamings, local, by);
                renamings.offered.insert(place);
                let mut offers = Vec::new();
                for can in self.nodes.spontaneous(place) {
                    let back = group.inverse[by];
                    let event = self.image_of_event(&mut renamings, can.event, back);
                    offers.push((event, can.kind == Kind::Release, can.after));
                }
                offers.sort_unstable();
                classes.push(offers);
            }
            if let Some(by) = renamings.sift(&classes) {
                let (node, swap) = (self.nodes.view(local).node, change(&group.members[by]));
                renamings.fail(format!("what {node} may do by itself is not the same with {swap}"));
            }
        }
        self.renamings = Some(renamings);
    }

    fn outcome(&mut self, renamings: &mut Renamings, step: &Step, by: usize) -> Outcome {
        let group = Arc::clone(&renamings.group);
        let names = &group.members[by];
        let local = self.image_of_local(renamings, step.local, by);
        let mut sends = Vec::new();
        for &(to, envelope) in &step.sends {
            sends.push((names[to.index()], self.image_of_envelope(renamings, envelope, by)));
        }
        if !renamings.mid_step {
            match self.ordered {
                true => sends.sort_by_key(|(to, _)| *to),
                false => sends.sort_unstable(),
            }
        }
        let mut outcome = Outcome { local, sends, entered: Vec::new(), follows: Vec::new() };
        for mark in &step.marks {
            match *mark {
                Observation::Entered { token } if self.watch.tokens => outcome.entered.push(token),
                Observation::Follows { leader, epoch } if self.watch.epochs => {
                    outcome.follows.push((names[leader.index()], epoch));
                }
                _ => {}
            }
        }
        outcome
    }
}

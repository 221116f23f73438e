use std::sync::Mutex;

use conclave_algorithms::mutex::{naimi_trehel, ricart_agrawala, token_ring};
use conclave_protocol::{Algorithm, Setup};

use super::*;
use crate::check::begin;
use crate::local::Watch;
use crate::shape::SystemShape;
use crate::worker::{Worker, fingerprint};
use crate::{Budgets, Progress, check};

fn order(topology: Topology, clients: std::ops::Range<u32>) -> Option<usize> {
    let setup = Setup::new(topology);
    let mut spec = CheckSpec::new(&token_ring::PLAIN.info, setup, clients);
    spec.properties.clear();
    Group::of(&spec).ok().map(|group| group.order())
}

#[test]
fn renamings_keep_links_and_who_asks() {
    assert_eq!(order(Topology::complete(4), 0..4), Some(24));
    assert_eq!(order(Topology::complete(4), 1..4), Some(6));
    assert_eq!(order(Topology::complete(4), 0..2), Some(4));
    assert_eq!(order(Topology::ring(5), 0..5), Some(5));
    assert_eq!(order(Topology::star(4), 0..4), Some(6));
    assert_eq!(order(Topology::line(4), 0..4), Some(2));
    assert_eq!(order(Topology::line(4), 1..4), None);
    // Of more than can be tried, those that leave the first nodes as they are.
    assert_eq!(order(Topology::complete(8), 0..8), Some(720));
}

#[test]
fn renamings_kept_form_a_group() {
    // Four nodes around a table, and a step that is the same for neighbours.
    let spec = CheckSpec::new(&token_ring::PLAIN.info, Setup::new(Topology::complete(4)), 0..4);
    let group = Arc::new(
        Group::of(&CheckSpec { properties: Vec::new(), ..spec.clone() }).expect("all are alike"),
    );
    let mut renamings = Renamings::new(Arc::clone(&group), &spec);
    let next_to = |names: &Vec<NodeId>| names[0].0.abs_diff(names[1].0) % 2 == 1;
    let classes: Vec<bool> = group.members.iter().map(next_to).collect();
    let by = renamings.sift(&classes).expect("not all are neighbours");
    assert_eq!(change(&group.members[by]), "p1 and p2 exchanged");
    renamings.fail("they are not".to_owned());
    let (kept, _) = renamings.verdict().expect("it has failed");
    assert_eq!(kept.order(), 8);
    for (first, second) in (0..8).flat_map(|a| (0..8).map(move |b| (a, b))) {
        kept.then(first, second);
    }
}

/// How many states there are of which none is a renaming of another, found the long way.
fn orbits(entry: &dyn Algorithm, spec: &CheckSpec) -> usize {
    let watch = Watch::of(spec);
    let mut group = Arc::new(Group::of(spec).expect("some nodes are alike"));
    loop {
        let mut shape = SystemShape::new(spec, watch);
        shape.compare = false;
        let (mut space, start) = begin(entry, spec, watch).expect("it runs");
        space.rename_by(Renamings::new(Arc::clone(&group), spec));
        let space = Mutex::new(space);
        let mut canon = Canon::new(&group, &shape);
        let mut worker = Worker::new(&space, &shape);
        let mut seen = FxHashSet::from_iter([start.state.clone()]);
        let mut queue = vec![start.state];
        let mut orbits = FxHashSet::default();
        while let Some(state) = queue.pop() {
            orbits.insert(canon.settle(&space, &mut state.clone()));
            worker.candidates.clear();
            worker.changes.clear();
            worker.expand(&state, fingerprint(&state), 0, 0);
            for at in 0..worker.candidates.len() {
                let next = worker.led_to(at, &state);
                if seen.insert(next.clone()) {
                    queue.push(next);
                }
            }
        }
        let told_apart = space.lock().expect("no thread has failed").told_apart();
        match told_apart {
            Some((smaller, _)) => group = Arc::new(smaller),
            None => return orbits.len(),
        }
    }
}

fn finds_all(entry: &dyn Algorithm, topology: Topology, budgets: Budgets) {
    let clients = 0..topology.len();
    let mut spec = CheckSpec::new(entry.info(), Setup::new(topology), clients);
    // Never violated by states, so that nothing ends the search.
    spec.properties = vec![Property::Accuracy];
    (spec.symmetry, spec.budgets) = (true, budgets);
    let found = check(entry, &spec, &Progress::default()).expect("it is symmetric");
    assert_eq!(found.coverage.states as usize, orbits(entry, &spec));
}

#[test]
fn the_search_finds_one_of_all_states_that_differ_in_names() {
    let faults = [
        Budgets::default(),
        Budgets { crashes: 1, losses: 1, ..Budgets::default() },
        Budgets { partitions: 1, ..Budgets::default() },
    ];
    for budgets in faults {
        let all = Topology::complete(3);
        finds_all(&naimi_trehel::PLAIN, all.clone(), budgets);
        finds_all(&ricart_agrawala::NO_TIE_BREAK, all, budgets);
        finds_all(&token_ring::PLAIN, Topology::ring(4), budgets);
    }
}

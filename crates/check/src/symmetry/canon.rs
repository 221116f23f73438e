//! The states that stand for all that differ from them in names only.

use std::sync::Mutex;

use rustc_hash::FxHashMap;

use super::Group;
use super::images::Part;
use crate::shape::SystemShape;
use crate::space::Space;
use crate::worker::{Worker, fingerprint};

/// One thread's way to find, of all states that differ in names only, the one that stands for
/// them.
#[derive(Debug)]
pub(crate) struct Canon {
    order: usize,
    n: usize,
    /// For each renaming and each slot, the slot whose content comes there.
    from: Vec<Vec<u16>>,
    /// The renamed locals, a row for each.
    locals: Vec<u32>,
    links: FxHashMap<(u32, u16), u32>,
    globals: FxHashMap<(u32, u16), u32>,
    /// The renamings that lead to the least state, as far as it is known.
    least: Vec<u16>,
    next: Vec<(u16, u32)>,
}

/// No part has been renamed to this yet.
const UNKNOWN: u32 = u32::MAX;

impl Canon {
    pub(crate) fn new(group: &Group, shape: &SystemShape) -> Self {
        let n = shape.n;
        let from = group.members.iter().map(|names| {
            let mut from = vec![0; shape.slots()];
            from[shape.slots() - 1] = shape.slots() as u16 - 1;
            for (node, name) in names.iter().enumerate() {
                from[name.index()] = node as u16;
                for (other, its) in names.iter().enumerate().filter(|(other, _)| *other != node) {
                    from[shape.slot(name.index(), its.index())] = shape.slot(node, other) as u16;
                }
            }
            from
        });
        Self {
            order: group.order(),
            n,
            from: from.collect(),
            locals: Vec::new(),
            links: FxHashMap::default(),
            globals: FxHashMap::default(),
            least: Vec::new(),
            next: Vec::new(),
        }
    }

    /// The bytes that its memory of renamed parts takes, about.
    pub(crate) fn bytes(&self) -> usize {
        self.locals.capacity() * 4 + (self.links.capacity() + self.globals.capacity()) * 14
    }

    /// Turns the state into the one that stands for it, and returns its fingerprint.
    pub(crate) fn settle(&mut self, space: &Mutex<Space>, state: &mut [u32]) -> u64 {
        let mut least = std::mem::take(&mut self.least);
        let mut next = std::mem::take(&mut self.next);
        let source = state.to_vec();
        least.clear();
        least.extend(0..self.order as u16);
        for (slot, there) in state.iter_mut().enumerate() {
            next.clear();
            for &by in &least {
                let from = usize::from(self.from[usize::from(by)][slot]);
                next.push((by, self.image(space, from, source[from], by)));
            }
            let best = next.iter().map(|(_, image)| *image).min();
            *there = best.expect("a group has members");
            least.clear();
            least.extend(next.iter().filter(|(_, image)| image == there).map(|(by, _)| *by));
        }
        (self.least, self.next) = (least, next);
        fingerprint(state).max(1)
    }

    fn image(&mut self, space: &Mutex<Space>, slot: usize, id: u32, by: u16) -> u32 {
        let find = |part| {
            let mut space = space.lock().expect("no thread has failed");
            space.image(part, id, usize::from(by))
        };
        if slot < self.n {
            let place = id as usize * self.order + usize::from(by);
            if self.locals.len() <= place {
                self.locals.resize((id as usize + 1) * self.order, UNKNOWN);
            }
            if self.locals[place] == UNKNOWN {
                self.locals[place] = find(Part::Local);
            }
            return self.locals[place];
        }
        if slot < self.n * self.n {
            if id == 0 {
                return 0;
            }
            return *self.links.entry((id, by)).or_insert_with(|| find(Part::Link));
        }
        *self.globals.entry((id, by)).or_insert_with(|| find(Part::Global))
    }

    /// Lets the candidate lead to the state that stands for the one it leads to.
    pub(crate) fn fold(&mut self, worker: &mut Worker<'_>, at: usize, source: &[u32]) {
        let mut state = worker.led_to(at, source);
        let print = self.settle(worker.space, &mut state);
        let first_change = worker.changes.len();
        for (slot, (new, old)) in state.iter().zip(source).enumerate() {
            if new != old {
                worker.changes.push((slot as u16, *new));
            }
        }
        let candidate = &mut worker.candidates[at];
        candidate.print = print;
        candidate.first_change = first_change as u32;
        let changes = worker.changes.len() - first_change;
        candidate.changes = u8::try_from(changes).expect("fewer than 16 nodes change places");
    }

    /// The fingerprint of the state that stands for the one that the candidate leads to.
    pub(crate) fn print_of(&mut self, worker: &Worker<'_>, at: usize, source: &[u32]) -> u64 {
        let mut state = worker.led_to(at, source);
        self.settle(worker.space, &mut state)
    }
}

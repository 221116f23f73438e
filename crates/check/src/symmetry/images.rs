//! The parts of states under other names, by their numbers.

use std::sync::Arc;

use conclave_protocol::{Input, NodeId};

use super::rename::mask;
use super::{Images, Renamings};
use crate::nodes::Nodes;
use crate::space::{Global, LocalEvent, Space};

/// What stands in a slot of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Local,
    Link,
    Global,
}

impl Space {
    pub(super) fn image_of_local(&mut self, renamings: &mut Renamings, id: u32, by: usize) -> u32 {
        let refused = |_: &Nodes, _| "the state of a node cannot be renamed".to_owned();
        self.image_of(renamings, |it| &mut it.locals, Nodes::rename_local, refused, id, by)
    }

    pub(super) fn image_of_envelope(
        &mut self,
        renamings: &mut Renamings,
        id: u32,
        by: usize,
    ) -> u32 {
        let refused =
            |nodes: &Nodes, id| format!("a message {} cannot be renamed", nodes.message(id));
        self.image_of(renamings, |it| &mut it.envelopes, Nodes::rename_message, refused, id, by)
    }

    /// The part that `rename` makes of one, if that can be taken back; remembered in `known`.
    fn image_of(
        &mut self,
        renamings: &mut Renamings,
        known: impl Fn(&mut Renamings) -> &mut Images,
        rename: impl Fn(&mut Nodes, u32, &[NodeId]) -> Option<u32>,
        refused: impl Fn(&Nodes, u32) -> String,
        id: u32,
        by: usize,
    ) -> u32 {
        if let Some(&known) = known(renamings).get(&(id, by as u16)) {
            return known;
        }
        let group = Arc::clone(&renamings.group);
        let (names, back) = (&group.members[by], &group.members[group.inverse[by]]);
        let image = rename(&mut self.nodes, id, names);
        let image = image.filter(|&it| rename(&mut self.nodes, it, back) == Some(id));
        let Some(image) = image else {
            renamings.refuse(refused(&self.nodes, id));
            return id;
        };
        let known = known(renamings);
        known.insert((id, by as u16), image);
        known.insert((image, group.inverse[by] as u16), id);
        image
    }

    pub(super) fn image_of_event(
        &mut self,
        renamings: &mut Renamings,
        event: LocalEvent,
        by: usize,
    ) -> LocalEvent {
        let group = Arc::clone(&renamings.group);
        let names = &group.members[by];
        if let LocalEvent::Input(Input::Message { from, msg }) = event {
            let msg = self.image_of_envelope(renamings, msg, by);
            return LocalEvent::Input(Input::Message { from: names[from.index()], msg });
        }
        self.nodes.rename_event(event, names).unwrap_or_else(|| {
            renamings.refuse("its requests or timers cannot be renamed".to_owned());
            event
        })
    }

    fn image_of_link(&mut self, renamings: &mut Renamings, id: u32, by: usize) -> u32 {
        let mut content = self.link(id).to_vec();
        for envelope in &mut content {
            *envelope = self.image_of_envelope(renamings, *envelope, by);
        }
        if !self.ordered {
            content.sort_unstable();
        }
        self.add_link(content)
    }

    fn image_of_global(&mut self, renamings: &Renamings, id: u32, by: usize) -> u32 {
        let names = &renamings.group.members[by];
        let global = self.global(id);
        let mut apart = mask(global.apart, names);
        // The group without the last node is the one that is named.
        if apart >> (names.len() - 1) & 1 == 1 {
            apart ^= (1 << names.len()) - 1;
        }
        let leaders = global.leaders.iter();
        let leaders = leaders.map(|&(epoch, leader)| (epoch, names[leader.index()])).collect();
        let image = Global { apart, leaders, ..global.clone() };
        self.add_global(image)
    }

    /// The number of what stands in a slot for a state in which the nodes have other names.
    pub(super) fn image(&mut self, part: Part, id: u32, by: usize) -> u32 {
        let mut renamings = self.renamings.take().expect("renaming was asked for");
        let image = match part {
            Part::Local => self.image_of_local(&mut renamings, id, by),
            Part::Link => self.image_of_link(&mut renamings, id, by),
            Part::Global => self.image_of_global(&renamings, id, by),
        };
        self.renamings = Some(renamings);
        image
    }
}

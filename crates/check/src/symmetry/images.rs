//! The parts of states under other names, by their numbers.

use std::sync::Arc;

use conclave_protocol::Input;

use super::Renamings;
use super::rename::mask;
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
        if let Some(&known) = renamings.locals.get(&(id, by as u16)) {
            return known;
        }
        let group = Arc::clone(&renamings.group);
        let (names, back) = (&group.members[by], &group.members[group.inverse[by]]);
        let image = self.nodes.rename_local(id, names);
        let image = image.filter(|&it| self.nodes.rename_local(it, back) == Some(id));
        let Some(image) = image else {
            renamings.refuse("the state of a node cannot be renamed".to_owned());
            return id;
        };
        renamings.locals.insert((id, by as u16), image);
        renamings.locals.insert((image, group.inverse[by] as u16), id);
        image
    }

    pub(super) fn image_of_envelope(
        &mut self,
        renamings: &mut Renamings,
        id: u32,
        by: usize,
    ) -> u32 {
        if let Some(&known) = renamings.envelopes.get(&(id, by as u16)) {
            return known;
        }
        let group = Arc::clone(&renamings.group);
        let (names, back) = (&group.members[by], &group.members[group.inverse[by]]);
        let image = self.nodes.rename_message(id, names);
        let image = image.filter(|&it| self.nodes.rename_message(it, back) == Some(id));
        let Some(image) = image else {
            let what = self.nodes.message(id);
            renamings.refuse(format!("a message {what} cannot be renamed"));
            return id;
        };
        renamings.envelopes.insert((id, by as u16), image);
        renamings.envelopes.insert((image, group.inverse[by] as u16), id);
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

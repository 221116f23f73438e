//! What names decide, in words.

use std::sync::Arc;

use conclave_protocol::{NodeId, Observation, names};

use super::Renamings;
use crate::space::{LocalEvent, Space};

impl Space {
    /// What the node does, and what it does under other names.
    pub(super) fn explain_step(
        &mut self,
        renamings: &mut Renamings,
        local: u32,
        event: LocalEvent,
        by: usize,
    ) -> String {
        let group = Arc::clone(&renamings.group);
        let other = self.image_of_local(renamings, local, by);
        let image = self.image_of_event(renamings, event, by);
        let names = &group.members[by];
        let own = &group.members[0];
        let does = self.does(local, event, own);
        let should = self.does(local, event, names);
        let instead = self.does(other, image, own);
        let (who, swapped) = (self.scene(local, event), self.scene(other, image));
        let change = change(names);
        if should == instead {
            format!(
                "{who} {does}; with {change}, {swapped} does so, too, and is then in another state"
            )
        } else {
            format!("{who} {does}; with {change}, {swapped} {instead}")
        }
    }

    /// Who stands how, when what happens.
    fn scene(&self, local: u32, event: LocalEvent) -> String {
        let view = self.nodes.view(local);
        let standing = match (view.inside, view.waiting) {
            (true, _) => ", inside,",
            (_, true) => ", waiting,",
            _ => "",
        };
        format!("{}{standing} {}", view.node, self.nodes.event(event))
    }

    /// What the node then does that others see, in the given names.
    fn does(&mut self, local: u32, event: LocalEvent, names: &[NodeId]) -> String {
        let mut ways = Vec::new();
        for step in self.nodes.react(local, event) {
            let mut does = Vec::new();
            let mut sends: Vec<(&str, Vec<NodeId>)> = Vec::new();
            for (to, envelope) in &step.sends {
                let (what, to) = (self.nodes.message(*envelope), names[to.index()]);
                match sends.iter_mut().find(|(it, _)| *it == what) {
                    Some((_, all)) => all.push(to),
                    None => sends.push((what, vec![to])),
                }
            }
            for (what, mut to) in sends {
                to.sort_unstable();
                does.push(format!("sends {what} to {}", self::names(to)));
            }
            for mark in &step.marks {
                match mark {
                    Observation::Entered { token } if self.watch.tokens => {
                        does.push(format!("enters with token {token}"));
                    }
                    Observation::Entered { .. } => does.push("enters".to_owned()),
                    Observation::Follows { leader, epoch } => {
                        let leader = names[leader.index()];
                        does.push(format!("follows {leader} in epoch {epoch}"));
                    }
                    _ => {}
                }
            }
            ways.push(if does.is_empty() { "sends nothing".to_owned() } else { does.join(", ") });
        }
        ways.sort();
        ways.dedup();
        ways.join(" or ")
    }
}

/// "p0 and p1 exchanged".
pub(super) fn change(names: &[NodeId]) -> String {
    let moved = (0..).map(NodeId).zip(names).filter(|(node, name)| node != *name);
    let moved: Vec<(NodeId, NodeId)> = moved.map(|(node, name)| (node, *name)).collect();
    match &moved[..] {
        [(a, b), _] => format!("{a} and {b} exchanged"),
        _ => {
            let each = moved.iter().map(|(node, name)| format!("{node} called {name}"));
            each.collect::<Vec<String>>().join(", ")
        }
    }
}

//! What is true of a whole system, as no node can see it.

use std::collections::BTreeMap;

use conclave_protocol::{Input, NodeId, Protocol, Whole};

use super::process::Process;
use super::{Msg, Publisher, Publishing};

/// The facts of the application, of what will be used: a process that is down, or not restored yet, is
/// what it can be restored to, and a message is on its way from when it is first sent until it is
/// used.
pub(super) fn facts<P: Protocol>(whole: &Whole<'_, Publishing<P>>) -> u64 {
    let Some(processes) = processes(whole) else {
        // It cannot be restored without the recorder, so that there is nothing to judge.
        return 1;
    };
    let mut messages = BTreeMap::new();
    for (from, process) in &processes {
        for (to, outbox) in &process.sent {
            messages.extend(outbox.numbered().map(|(number, msg)| ((from, to, number), msg)));
        }
    }
    // What its sender no longer keeps is recorded, and may wait to be used.
    for (to, node) in whole.nodes.iter().enumerate() {
        let Some(Publishing::Publisher(publisher)) = node else { continue };
        let Some((to, _)) = processes.get_key_value(&NodeId(to as u32)) else { continue };
        for receipt in publisher.waiting.iter().filter(|_| publisher.process.is_some()) {
            if let Input::Message { from, msg } = &receipt.input {
                messages.insert((from, to, receipt.number), msg);
            }
        }
    }
    let heard = |from, to| processes[to].heard.get(from).copied().unwrap_or(0);
    messages.retain(|(from, to, number), _| *number > heard(from, to));
    P::facts(&Whole {
        config: &whole.config.app,
        nodes: processes.values().map(|process| Some(&process.app)).collect(),
        messages: messages.into_iter().map(|((&from, &to, _), msg)| (from, to, msg)).collect(),
    })
}

/// Each process as it is, or as it can be restored: what is on its way to the recorder will be
/// recorded. `None` if that takes a recorder, and there is none.
fn processes<P: Protocol>(
    whole: &Whole<'_, Publishing<P>>,
) -> Option<BTreeMap<NodeId, Process<P>>> {
    let (last, nodes) = whole.nodes.split_last()?;
    let mut all = BTreeMap::new();
    for (node, id) in nodes.iter().zip((0..).map(NodeId)) {
        if let Some(Publishing::Publisher(Publisher { process: Some(process), .. })) = node {
            all.insert(id, process.clone());
            continue;
        }
        let Some(Publishing::Recorder(recorder)) = last else { return None };
        let mut recorded = recorder.records.get(&id).cloned().unwrap_or_default();
        let mut published: Vec<_> = whole.messages.iter().collect();
        published.retain(|(from, _, _)| *from == id);
        let published = published.into_iter().filter_map(|(_, _, msg)| match msg {
            Msg::Publish(number, receipt) => Some((*number, receipt)),
            _ => None,
        });
        let published: BTreeMap<_, _> = published.collect();
        for (number, receipt) in published {
            if number == recorded.count() + 1 {
                recorded.add((**receipt).clone());
            }
        }
        all.insert(id, recorded.replayed(id, whole.config));
    }
    Some(all)
}

//! Commands on their way into the log. Whatever has come while the last were being written goes into
//! one entry, so that many clients share one flush to disk.

use std::sync::Arc;
use std::time::Instant;

use conclave_machine::Command;
use openraft::Raft;
use tokio::sync::{Semaphore, mpsc};

use crate::clock::Clock;
use crate::hub::{Target, refuse};
use crate::state::State;
use crate::{Batch, Types, metrics};

/// How many entries may be on their way at once: one is being flushed while the next is gathered.
const PIPELINE: usize = 2;
/// How many commands an entry may have.
const LARGEST: usize = 1024;

/// The way into the log. Clones are the same way.
#[derive(Clone)]
pub(crate) struct Proposer(mpsc::UnboundedSender<Proposal>);

/// A command, who is to be told what comes of it, and when it was received.
type Proposal = (Command, (Target, Instant));

impl Proposer {
    pub(crate) fn new(raft: Raft<Types, State>, state: State, clock: Arc<Clock>) -> Self {
        let (queue, proposals) = mpsc::unbounded_channel();
        tokio::spawn(propose(raft, state, clock, proposals));
        Self(queue)
    }

    /// Has a command written and carried out, and its target told what came of it.
    pub(crate) fn submit(&self, command: Command, target: Target) {
        let proposal = (command, (target, metrics::now()));
        if let Err(mpsc::error::SendError((_, (target, _)))) = self.0.send(proposal) {
            refuse(target, "the node has stopped");
        }
    }
}

async fn propose(
    raft: Raft<Types, State>,
    state: State,
    clock: Arc<Clock>,
    mut proposals: mpsc::UnboundedReceiver<Proposal>,
) {
    let pipeline = Arc::new(Semaphore::new(PIPELINE));
    let mut gathered = Vec::new();
    // Others write to the same log; none of theirs is to be taken for one of ours.
    let mut number: u64 = crate::chance();
    loop {
        number = number.wrapping_add(1);
        if proposals.recv_many(&mut gathered, LARGEST).await == 0 {
            return;
        }
        let place = pipeline.clone().acquire_owned().await.expect("it is never closed");
        while gathered.len() < LARGEST {
            let Ok(more) = proposals.try_recv() else { break };
            gathered.push(more);
        }
        let (commands, targets) = gathered.drain(..).unzip();
        state.with_hub(|hub| hub.expect(number, targets));
        let batch = Batch { number, at: clock.now(), commands };
        let (raft, state) = (raft.clone(), state.clone());
        tokio::spawn(async move {
            if let Err(error) = raft.client_write(batch).await {
                state
                    .with_hub(|hub| hub.give_up(number, &format!("the node has stopped: {error}")));
            }
            drop(place);
        });
    }
}

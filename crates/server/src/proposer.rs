//! Gathers commands into entries of the log. Commands that arrive while an entry is being written go into the next
//! together, so that many clients share one flush.

use std::sync::Arc;
use std::time::{Duration, Instant};

use conclave_machine::Command;
use openraft::Raft;
use tokio::sync::mpsc;

use crate::clock::{Clock, Moment};
use crate::dispatch::{Target, refuse};
use crate::idle_spinner::IdleSpinner;
use crate::node::ID;
use crate::state::State;
use crate::{Batch, Part, Types, metrics};

/// How often all other tasks have their turn before commands are written, when there are many: whatever has
/// reached the machine passes through several tasks on its way here, and can be written, too.
const TURNS: u32 = 5;
/// How many are not many.
const FEW: usize = 4;
/// How many commands an entry may have.
const LARGEST: usize = 1024;

/// The way into the log. Clones are the same way.
#[derive(Clone)]
pub(crate) struct Proposer {
    queue: mpsc::UnboundedSender<Proposal>,
    spinner: Option<Arc<IdleSpinner>>,
}

/// Something that is to be written.
struct Proposal {
    command: Command,
    /// Where its answer goes.
    target: Target,
    received: Instant,
    haste: Haste,
}

/// Whether a command may wait for others to be written with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Haste {
    /// At once.
    Urgent,
    /// For a moment. A request that must queue anyway is not latency-critical: delayed, it shares the flush of the next
    /// release, which would otherwise wait for this flush and for its own.
    Patient,
}

/// How long what is patient waits for something urgent.
const MOMENT: Duration = Duration::from_millis(2);

impl Proposer {
    pub(crate) fn new(
        raft: Raft<Types, State>,
        state: State,
        clock: Arc<Clock>,
        spinner: Option<IdleSpinner>,
    ) -> Self {
        let (queue, proposals) = mpsc::unbounded_channel();
        tokio::spawn(propose(raft, state, clock, proposals));
        Self { queue, spinner: spinner.map(Arc::new) }
    }

    /// Has a command committed and applied, and its answer sent to the target.
    pub(crate) fn submit(&self, command: Command, target: Target, haste: Haste) {
        let received = metrics::now();
        if let Some(spinner) = &self.spinner
            && haste == Haste::Urgent
        {
            spinner.stir(received);
        }
        let proposal = Proposal { command, target, received, haste };
        if let Err(mpsc::error::SendError(proposal)) = self.queue.send(proposal) {
            refuse(proposal.target, "the node has stopped");
        }
    }
}

/// Gathers what is to be written together, from when there is something urgent or what is patient has
/// waited for long enough. Says whether there will ever be anything.
async fn gather(
    proposals: &mut mpsc::UnboundedReceiver<Proposal>,
    gathered: &mut Vec<Proposal>,
) -> bool {
    let mut looked_at = 0;
    let mut moment = std::pin::pin!(tokio::time::sleep(MOMENT));
    loop {
        let more = tokio::select! {
            biased;
            more = proposals.recv_many(gathered, LARGEST) => more,
            () = &mut moment, if looked_at > 0 => return true,
        };
        if more == 0 {
            return looked_at > 0;
        }
        if looked_at == 0 {
            moment.as_mut().reset(tokio::time::Instant::now() + MOMENT);
        }
        let urgent = |proposal: &Proposal| proposal.haste == Haste::Urgent;
        if gathered[looked_at..].iter().any(urgent) || gathered.len() >= LARGEST {
            return true;
        }
        looked_at = gathered.len();
    }
}

async fn propose(
    raft: Raft<Types, State>,
    state: State,
    clock: Arc<Clock>,
    mut proposals: mpsc::UnboundedReceiver<Proposal>,
) {
    let mut gathered = Vec::new();
    // Whether the last entry had many commands.
    let mut many = false;
    // Others write to the same log; none of theirs is to be taken for one of ours.
    let mut number: u64 = crate::random();
    while gather(&mut proposals, &mut gathered).await {
        if many {
            for _ in 0..TURNS {
                tokio::task::yield_now().await;
            }
        }
        while gathered.len() < LARGEST {
            let Ok(more) = proposals.try_recv() else { break };
            gathered.push(more);
        }
        number = number.wrapping_add(1);
        many = gathered.len() > FEW;
        let operators = (0..).zip(&gathered).filter_map(|(nth, proposal)| match &proposal.target {
            Target::Operator(name, _) => Some((nth, name.clone())),
            _ => None,
        });
        let operators = operators.collect();
        let parts = |proposal: Proposal| (proposal.command, (proposal.target, proposal.received));
        let (commands, targets) = gathered.drain(..).map(parts).unzip();
        state.with_dispatch(|dispatch| dispatch.expect(number, targets));
        let part = Part { origin: ID, number, commands, operators };
        let Moment { now: at, day } = clock.moment();
        let batch = Batch { at, day, parts: vec![part] };
        if let Err(error) = raft.client_write(batch).await {
            state.with_dispatch(|dispatch| {
                dispatch.give_up(number, &format!("the node has stopped: {error}"));
            });
        }
    }
}

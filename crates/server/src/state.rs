//! The machine behind the log: committed entries are applied in order; from time to time a snapshot is written so that
//! the log can be cut.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use conclave_machine::{
    Command, Config, ElectionView, Machine, Name, RequestId, Snapshot, Tenure, Time, Token, Who,
};
use futures_util::{Stream, TryStreamExt};
use openraft::alias::{LogIdOf, SnapshotMetaOf, SnapshotOf, StoredMembershipOf};
use openraft::storage::{EntryResponder, RaftStateMachine};
use openraft::{EntryPayload, OptionalSend, RaftSnapshotBuilder};

use crate::calendar::{Calendar, TimeOfDay};
use crate::clock::Moment;
use crate::dispatch::Dispatch;
use crate::format::snapshot::{Saved, Settings, read, write};
use crate::metrics::{Meter, Metrics};
use crate::node::ID;
use crate::operator_log::Before;
use crate::{Batch, Carried, Part, Types};

/// The machine of a node. Clones are the same machine.
#[derive(Clone)]
pub(crate) struct State {
    inner: Arc<Mutex<Inner>>,
    file: Arc<PathBuf>,
}

struct Inner {
    machine: Machine,
    calendar: Calendar,
    applied: Option<LogIdOf<Types>>,
    membership: StoredMembershipOf<Types>,
    settings: Settings,
    /// How many commands were carried out since the last snapshot that is on disk.
    since: u64,
    /// A snapshot that is on disk, which the log has not been told of.
    written: Option<Saved>,
    dispatch: Dispatch,
    meter: Option<Meter>,
}

impl State {
    /// The machine of a snapshot; the next goes to this file.
    pub(crate) fn open(file: &Path, saved: &Saved) -> io::Result<Self> {
        let inner = Inner::restore(saved)?;
        Ok(Self { inner: Arc::new(Mutex::new(inner)), file: Arc::new(file.to_owned()) })
    }

    /// Before which moment nothing is granted.
    pub(crate) fn grants_from(&self) -> Option<Time> {
        self.lock().settings.grants_from
    }

    /// How many commands were carried out since the last snapshot.
    pub(crate) fn since_snapshot(&self) -> u64 {
        self.lock().since
    }

    /// Writes down the whole state as it is. When the disk is full, all is as before, and can be tried again.
    pub(crate) async fn write_snapshot(&self) -> io::Result<()> {
        let (present, since) = {
            let state = self.lock();
            (state.present(), state.since)
        };
        let file = self.file.clone();
        let written = tokio::task::spawn_blocking(move || {
            let saved = present.build();
            write(&file, &saved.to_file()).map(|()| saved)
        });
        let saved = written.await.map_err(io::Error::other)??;
        let mut state = self.lock();
        state.since = state.since.saturating_sub(since);
        state.written = Some(saved);
        Ok(())
    }

    /// The whole state as it is.
    pub(crate) fn present(&self) -> Present {
        self.lock().present()
    }

    /// The last entry that was carried out.
    pub(crate) fn applied(&self) -> Option<LogIdOf<Types>> {
        self.lock().applied
    }

    /// Looks at the machine as it is.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Machine) -> T) -> T {
        look(&self.lock().machine)
    }

    /// Looks at the machine as clients see it at a moment, with the registrations of clients.
    pub(crate) fn see<T>(
        &self,
        moment: Moment,
        see: impl FnOnce(&mut Dispatch, MachineAt<'_>) -> T,
    ) -> T {
        let Inner { dispatch, machine, calendar, .. } = &mut *self.lock();
        see(dispatch, MachineAt::new(machine, calendar, moment))
    }

    /// From now on, what is carried out is counted.
    pub(crate) fn measure(&self, metrics: Arc<Metrics>) {
        self.lock().meter = Some(Meter::new(metrics));
    }

    /// Works with the registrations of clients.
    pub(crate) fn with_dispatch<T>(&self, work: impl FnOnce(&mut Dispatch) -> T) -> T {
        work(&mut self.lock().dispatch)
    }

    /// Works with the registrations of clients and the machine, between two commands.
    pub(crate) fn with_both<T>(&self, work: impl FnOnce(&mut Dispatch, &Machine) -> T) -> T {
        let inner = &mut *self.lock();
        work(&mut inner.dispatch, &inner.machine)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("a command never panics")
    }
}

/// The machine as it is seen at a moment, which may be later than its last command.
#[derive(Clone, Copy)]
pub(crate) struct MachineAt<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) now: Time,
    calendar: &'a Calendar,
    day: TimeOfDay,
}

/// The leader of an election, as it is seen at a moment.
pub(crate) struct Leader {
    pub(crate) election: Name,
    /// None while the election has no leader.
    pub(crate) leadership: Option<LeadershipAt>,
}

/// A leadership, with spans of time instead of times.
pub(crate) struct LeadershipAt {
    pub(crate) who: Who,
    pub(crate) term: Token,
    pub(crate) value: Vec<u8>,
    /// For how long it has lasted.
    pub(crate) lasts: Duration,
    pub(crate) tenure: Tenure,
}

impl<'a> MachineAt<'a> {
    fn new(machine: &'a Machine, calendar: &'a Calendar, moment: Moment) -> Self {
        Self { machine, now: moment.now.max(machine.now()), calendar, day: moment.day }
    }

    /// How much real time has passed since, also while the node was down.
    pub(crate) fn ago(self, since: Time) -> Duration {
        self.calendar.passed(since, self.now, self.day)
    }

    /// What is left of a span that was measured at the last command.
    pub(crate) fn left(self, span: Duration) -> Duration {
        span.saturating_sub(self.now.since(self.machine.now()))
    }

    /// The leader of an election.
    pub(crate) fn leader(self, election: &str) -> Leader {
        let mut view = self.machine.election(election);
        let leadership = view.as_mut().and_then(|view| self.leadership(view));
        Leader { election: election.into(), leadership }
    }

    /// Takes the leadership out of the view of an election.
    pub(crate) fn leadership(self, election: &mut ElectionView) -> Option<LeadershipAt> {
        let tenure = match election.tenure {
            Tenure::Unquestioned => Tenure::Unquestioned,
            Tenure::Yields { left } => Tenure::Yields { left: self.left(left) },
            Tenure::Deposed { cause, left } => Tenure::Deposed { cause, left: self.left(left) },
        };
        let (leader, (who, since)) = election.leader.take().zip(election.who.take())?;
        let (term, value, lasts) = (leader.term, leader.value, self.ago(since));
        Some(LeadershipAt { who, term, value, lasts, tenure })
    }
}

/// What the first snapshot of a directory says: nothing has happened yet.
pub(crate) fn first_snapshot(config: Config) -> Saved {
    let meta = SnapshotMetaOf::<Types>::default();
    Saved::new(Settings::new(), &meta, &Machine::new(config).snapshot(), Calendar::default())
}

impl Inner {
    fn restore(saved: &Saved) -> io::Result<Self> {
        let meta = saved.meta()?;
        Ok(Self {
            machine: saved.machine()?,
            calendar: saved.calendar.clone().unwrap_or_default(),
            applied: meta.last_log_id,
            membership: meta.last_membership,
            settings: saved.settings.clone(),
            since: 0,
            written: None,
            dispatch: Dispatch::default(),
            meter: None,
        })
    }

    fn present(&self) -> Present {
        let (last_log_id, last_membership) = (self.applied, self.membership.clone());
        Present {
            meta: SnapshotMetaOf::<Types> { last_log_id, last_membership },
            settings: self.settings.clone(),
            machine: self.machine.snapshot(),
            calendar: self.calendar.clone(),
        }
    }

    fn carry_out(&mut self, batch: Batch) {
        let Batch { at, day, parts } = batch;
        self.calendar.note(self.machine.now(), at, day);
        for part in parts {
            self.carry_out_part(Moment { now: at, day }, part);
        }
    }

    fn carry_out_part(&mut self, moment: Moment, part: Part) {
        let Self { machine, calendar, dispatch, meter, since, .. } = self;
        let at = moment.now;
        *since += part.commands.len() as u64;
        if let Some(meter) = meter {
            meter.entry(part.commands.len());
        }
        // What came in at another node is answered there.
        let mut targets = if part.origin == ID { dispatch.expected(part.number) } else { None };
        let mut operators = part.operators.iter().peekable();
        for (nth, command) in (0..).zip(part.commands) {
            let asked = match command {
                Command::Request { session, request: RequestId(0), .. } => {
                    machine.next_allotted(session).map(|request| (session, request))
                }
                Command::Request { session, request, .. } => Some((session, request)),
                _ => None,
            };
            // While the log is read again after a restart, no client waits for answers.
            let (target, received) = targets.as_mut().and_then(Iterator::next).unzip();
            let by = operators.next_if(|(order, _)| *order == nth).map(|(_, name)| name.as_str());
            // Nothing is logged again while the log is read after a restart.
            let before = meter.as_ref().map(|_| Before::of(at, &command, by, machine));
            let mut events = Vec::new();
            let answer = machine.apply(at, command, &mut events);
            if let Some(before) = before {
                before.log(&events, machine);
            }
            if let Some(meter) = meter {
                meter.carried(asked, received, &answer, &events);
            }
            // First the client that waited for a lock, since it can go on only now; then the one that released it.
            let seen = MachineAt::new(machine, calendar, moment);
            dispatch.announce_answers(&mut events, seen);
            if let Some(target) = target {
                dispatch.answer(target, asked, answer, machine);
            }
            dispatch.announce(events, seen);
        }
    }
}

impl RaftStateMachine<Types> for State {
    type SnapshotData = Vec<u8>;
    type SnapshotBuilder = Builder;

    async fn applied_state(
        &mut self,
    ) -> io::Result<(Option<LogIdOf<Types>>, StoredMembershipOf<Types>)> {
        let inner = self.lock();
        Ok((inner.applied, inner.membership.clone()))
    }

    async fn apply<S>(&mut self, mut entries: S) -> io::Result<()>
    where
        S: Stream<Item = io::Result<EntryResponder<Types>>> + Unpin + OptionalSend,
    {
        while let Some((entry, responder)) = entries.try_next().await? {
            let mut inner = self.lock();
            inner.applied = Some(entry.log_id);
            match entry.payload {
                EntryPayload::Blank => {}
                EntryPayload::Normal(batch) => inner.carry_out(batch),
                EntryPayload::Membership(members) => {
                    let membership = StoredMembershipOf::<Types>::new(inner.applied, members);
                    inner.membership = membership;
                }
            }
            drop(inner);
            if let Some(responder) = responder {
                responder.send(Carried);
            }
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Builder {
        let mut inner = self.lock();
        match inner.written.take() {
            Some(saved) => Builder::Written(Some(saved)),
            None => Builder::Present(Arc::new(inner.present()), self.file.clone()),
        }
    }

    async fn install_snapshot(
        &mut self,
        _: &SnapshotMetaOf<Types>,
        file: Vec<u8>,
    ) -> io::Result<()> {
        let inner = Inner::restore(&Saved::from_file(&file)?)?;
        write(&self.file, &file)?;
        let mut present = self.lock();
        let (dispatch, meter) = (std::mem::take(&mut present.dispatch), present.meter.take());
        *present = Inner { dispatch, meter, ..inner };
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<SnapshotOf<Types, Vec<u8>>>> {
        let saved = read(&self.file)?.filter(|saved| saved.applied.is_some());
        saved.map(|saved| of_openraft(&saved)).transpose()
    }
}

fn of_openraft(saved: &Saved) -> io::Result<SnapshotOf<Types, Vec<u8>>> {
    Ok(SnapshotOf::<Types, Vec<u8>> { meta: saved.meta()?, snapshot: saved.to_file() })
}

/// The state at one moment, which can be written down while the machine goes on.
#[derive(Clone)]
pub(crate) struct Present {
    meta: SnapshotMetaOf<Types>,
    settings: Settings,
    machine: Snapshot,
    calendar: Calendar,
}

impl Present {
    /// As a file has it.
    pub(crate) fn to_file(&self) -> Vec<u8> {
        self.build().to_file()
    }

    fn build(&self) -> Saved {
        Saved::new(self.settings.clone(), &self.meta, &self.machine, self.calendar.clone())
    }
}

/// Tells the log of a snapshot.
pub(crate) enum Builder {
    /// It is on disk. If it were written here and could not be, that would be the end of the node.
    Written(Option<Saved>),
    /// It was not asked for by this node, and is yet to be written.
    Present(Arc<Present>, Arc<PathBuf>),
}

impl RaftSnapshotBuilder<Types> for Builder {
    type SnapshotData = Vec<u8>;

    async fn build_snapshot(&mut self) -> io::Result<SnapshotOf<Types, Vec<u8>>> {
        let saved = match self {
            Self::Written(saved) => saved.take().ok_or_else(|| io::Error::other("it was built"))?,
            Self::Present(present, file) => {
                let (present, file) = (present.clone(), file.clone());
                let written = tokio::task::spawn_blocking(move || {
                    let saved = present.build();
                    write(&file, &saved.to_file()).map(|()| saved)
                });
                written.await.map_err(io::Error::other)??
            }
        };
        of_openraft(&saved)
    }
}

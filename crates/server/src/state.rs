//! The machine behind the log: what is committed is carried out, in order, and now and then the whole
//! is written to a file so that the log can be cut.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use conclave_machine::{Command, Config, Machine, RequestId, Snapshot};
use futures_util::{Stream, TryStreamExt};
use openraft::alias::{LogIdOf, SnapshotMetaOf, SnapshotOf, StoredMembershipOf};
use openraft::storage::{EntryResponder, RaftStateMachine};
use openraft::{EntryPayload, OptionalSend, RaftSnapshotBuilder};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::hub::{Hub, Target};
use crate::metrics::{Meter, Metrics};
use crate::operator_log::Before;
use crate::{Batch, Carried, Types};

/// The machine of a node. Clones are the same machine.
#[derive(Clone)]
pub(crate) struct State {
    inner: Arc<Mutex<Inner>>,
    file: Arc<PathBuf>,
}

struct Inner {
    machine: Machine,
    applied: Option<LogIdOf<Types>>,
    membership: StoredMembershipOf<Types>,
    hub: Hub,
    meter: Option<Meter>,
}

/// What a snapshot file contains.
#[derive(Serialize, Deserialize)]
struct Saved {
    meta: SnapshotMetaOf<Types>,
    machine: Vec<u8>,
}

/// How a file begins: what it is, and in which format.
const MAGIC: &[u8; 8] = b"conclav1";

impl State {
    /// The machine of the last snapshot in a directory, or a new one.
    pub(crate) fn open(directory: &Path, config: Config) -> io::Result<Self> {
        let file = directory.join("snapshot");
        let inner = match read::<Saved>(&file)? {
            Some(saved) => Inner::restore(&saved.meta, &saved.machine)?,
            None => Inner {
                machine: Machine::new(first_config(directory, config)?),
                applied: None,
                membership: StoredMembershipOf::<Types>::default(),
                hub: Hub::default(),
                meter: None,
            },
        };
        Ok(Self { inner: Arc::new(Mutex::new(inner)), file: Arc::new(file) })
    }

    /// The last entry that was carried out.
    pub(crate) fn applied(&self) -> Option<LogIdOf<Types>> {
        self.lock().applied
    }

    /// Looks at the machine as it is.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Machine) -> T) -> T {
        look(&self.lock().machine)
    }

    /// From now on, what is carried out is counted.
    pub(crate) fn measure(&self, metrics: Arc<Metrics>) {
        self.lock().meter = Some(Meter::new(metrics));
    }

    /// Changes who is told what.
    pub(crate) fn with_hub<T>(&self, work: impl FnOnce(&mut Hub) -> T) -> T {
        work(&mut self.lock().hub)
    }

    /// Changes who is told what, with a look at the machine in between two commands.
    pub(crate) fn with_both<T>(&self, work: impl FnOnce(&mut Hub, &Machine) -> T) -> T {
        let inner = &mut *self.lock();
        work(&mut inner.hub, &inner.machine)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("a command never panics")
    }
}

/// What the machine was made with when the log was begun. To read the log again with anything else would come to
/// another state.
fn first_config(directory: &Path, wanted: Config) -> io::Result<Config> {
    let file = directory.join("config");
    if let Some(first) = read(&file)? {
        return Ok(first);
    }
    write(&file, &wanted)?;
    Ok(wanted)
}

impl Inner {
    fn restore(meta: &SnapshotMetaOf<Types>, machine: &[u8]) -> io::Result<Self> {
        let snapshot: Snapshot = postcard::from_bytes(machine).map_err(damaged)?;
        Ok(Self {
            machine: Machine::restore(snapshot).map_err(damaged)?,
            applied: meta.last_log_id,
            membership: meta.last_membership.clone(),
            hub: Hub::default(),
            meter: None,
        })
    }

    fn carry_out(&mut self, batch: Batch) {
        let Self { machine, hub, meter, .. } = self;
        if let Some(meter) = meter {
            meter.entry(batch.commands.len());
        }
        let mut targets = hub.expected(batch.number);
        for command in batch.commands {
            let asked = match command {
                Command::Request { session, request: RequestId(0), .. } => {
                    machine.next_allotted(session).map(|request| (session, request))
                }
                Command::Request { session, request, .. } => Some((session, request)),
                _ => None,
            };
            // Nobody waits while the log is read again after a restart.
            let (target, received) = targets.next().unzip();
            let by = match &target {
                Some(Target::Operator(name, _)) => Some(name.as_str()),
                _ => None,
            };
            // Nothing is logged again while the log is read after a restart.
            let before = meter.as_ref().map(|_| Before::of(batch.at, &command, by, machine));
            let mut events = Vec::new();
            let answer = machine.apply(batch.at, command, &mut events);
            if let Some(before) = before {
                before.log(&events, machine);
            }
            if let Some(meter) = meter {
                meter.carried(asked, received, &answer, &events);
            }
            // Who has waited for a lock is in more of a hurry than who has given it back.
            hub.announce_answers(&mut events, machine);
            if let Some(target) = target {
                hub.answer(target, asked, answer, machine);
            }
            hub.announce(events, machine);
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
        let inner = self.lock();
        Builder {
            meta: SnapshotMetaOf::<Types> {
                last_log_id: inner.applied,
                last_membership: inner.membership.clone(),
            },
            snapshot: Arc::new(inner.machine.snapshot()),
            file: self.file.clone(),
        }
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMetaOf<Types>,
        machine: Vec<u8>,
    ) -> io::Result<()> {
        let inner = Inner::restore(meta, &machine)?;
        write(&self.file, &Saved { meta: meta.clone(), machine })?;
        let mut present = self.lock();
        let (hub, meter) = (std::mem::take(&mut present.hub), present.meter.take());
        *present = Inner { hub, meter, ..inner };
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<SnapshotOf<Types, Vec<u8>>>> {
        let saved: Option<Saved> = read(&self.file)?;
        Ok(saved.map(|saved| SnapshotOf::<Types, Vec<u8>> {
            meta: saved.meta,
            snapshot: saved.machine,
        }))
    }
}

/// Writes down a machine as it was when this was made, while that goes on.
pub(crate) struct Builder {
    meta: SnapshotMetaOf<Types>,
    snapshot: Arc<Snapshot>,
    file: Arc<PathBuf>,
}

impl RaftSnapshotBuilder<Types> for Builder {
    type SnapshotData = Vec<u8>;

    async fn build_snapshot(&mut self) -> io::Result<SnapshotOf<Types, Vec<u8>>> {
        let (meta, snapshot, file) = (self.meta.clone(), self.snapshot.clone(), self.file.clone());
        let written = tokio::task::spawn_blocking(move || {
            let machine = postcard::to_allocvec(&*snapshot).map_err(damaged)?;
            let saved = Saved { meta, machine };
            write(&file, &saved).map(|()| saved)
        });
        let Saved { meta, machine } = written.await.map_err(io::Error::other)??;
        Ok(SnapshotOf::<Types, Vec<u8>> { meta, snapshot: machine })
    }
}

/// Replaces the file by one that is complete, or leaves it as it is.
fn write(file: &Path, saved: &impl Serialize) -> io::Result<()> {
    let body = postcard::to_allocvec(saved).map_err(damaged)?;
    let fresh = file.with_extension("new");
    let mut out = File::create(&fresh)?;
    out.write_all(MAGIC)?;
    out.write_all(&crc32fast::hash(&body).to_be_bytes())?;
    out.write_all(&body)?;
    out.sync_all()?;
    fs::rename(&fresh, file)?;
    let directory = file.parent().expect("the file is in a directory");
    File::open(directory)?.sync_all()
}

fn read<T: DeserializeOwned>(file: &Path) -> io::Result<Option<T>> {
    let bytes = match fs::read(file) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let body = bytes.strip_prefix(MAGIC).ok_or_else(|| damaged("it is none of ours"))?;
    let (sum, body) = body.split_first_chunk().ok_or_else(|| damaged("it is cut off"))?;
    if crc32fast::hash(body) != u32::from_be_bytes(*sum) {
        return Err(damaged("its checksum is wrong"));
    }
    postcard::from_bytes(body).map(Some).map_err(damaged)
}

fn damaged(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

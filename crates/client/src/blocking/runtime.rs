use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::JoinHandle as Task;

use crate::Error;

/// How long dropping the client may take, so that the server hears that its sessions are closed.
const FAREWELL: Duration = Duration::from_secs(1);

/// The thread that the client runs on.
#[derive(Debug)]
pub(super) struct Runtime {
    handle: Handle,
    /// What is to be finished, and the way to say that nothing else comes.
    task: Option<Task<()>>,
    stop: Option<oneshot::Sender<Option<Task<()>>>>,
    thread: Option<JoinHandle<()>>,
}

impl Runtime {
    pub(super) fn start() -> Result<Self, Error> {
        let failed = |error: std::io::Error| Error::BadOptions(format!("no thread: {error}"));
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<Option<Task<()>>>();
        let thread = std::thread::Builder::new().name("conclave-client".to_owned());
        let thread = thread.spawn(move || {
            runtime.block_on(async {
                if let Ok(Some(task)) = stopped.await {
                    let _ = tokio::time::timeout(FAREWELL, task).await;
                }
            });
        });
        Ok(Self { handle, task: None, stop: Some(stop), thread: Some(thread.map_err(failed)?) })
    }

    /// Before the thread ends, this task should.
    pub(super) fn finish_with(&mut self, task: Task<()>) {
        self.task = Some(task);
    }

    pub(super) fn run<T>(&self, future: impl Future<Output = T>) -> T {
        self.handle.block_on(future)
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(self.task.take());
        }
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
    }
}

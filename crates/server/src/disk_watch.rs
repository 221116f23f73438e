//! Watches the free space of the disk. While there is too little, the node grants nothing, but releases and renews.

use std::path::PathBuf;
use std::sync::Mutex;

/// Whether there is enough free space on the disk.
pub(crate) struct DiskWatch {
    directory: PathBuf,
    trouble: Mutex<Option<String>>,
}

/// Reserved so that locks can be released and leases renewed while nothing is granted.
const RESERVE: u64 = 16 << 20;

impl DiskWatch {
    pub(crate) fn new(directory: PathBuf) -> Self {
        let watch = Self { directory, trouble: Mutex::new(None) };
        watch.check();
        watch
    }

    /// Why nothing may be granted, if so.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.trouble.lock().expect("no code panics while it holds the lock").clone()
    }

    /// How many bytes are free, and how many of them are reserved.
    pub(crate) fn space(&self) -> (u64, u64) {
        let free = rustix::fs::statvfs(&self.directory);
        (free.map_or(0, |disk| disk.f_bavail.saturating_mul(disk.f_frsize)), RESERVE)
    }

    /// Looks at the disk.
    pub(crate) fn check(&self) {
        let trouble = match rustix::fs::statvfs(&self.directory) {
            Ok(disk) if disk.f_bavail.saturating_mul(disk.f_frsize) >= RESERVE => None,
            Ok(disk) => Some(format!(
                "the disk is full: {} KiB are free in {}, and {} KiB are needed to grant anything; \
                 make room, and it goes on by itself",
                disk.f_bavail.saturating_mul(disk.f_frsize) >> 10,
                self.directory.display(),
                RESERVE >> 10,
            )),
            Err(error) => Some(format!("cannot look at {}: {error}", self.directory.display())),
        };
        *self.trouble.lock().expect("no code panics while it holds the lock") = trouble;
    }
}

//! A small file system of its own, so that a disk can be filled without harm.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Set where the small file system is mounted.
const DISK: &str = "CONCLAVE_CHAOS_DISK";

/// Where the node's directory is.
#[derive(Clone, Debug)]
pub(crate) struct Disk {
    pub(crate) path: PathBuf,
    /// It is a file system of its own, which may be filled.
    pub(crate) small: bool,
}

impl Disk {
    /// Where a small file system may be mounted, this program starts itself again there and does not return; its
    /// mounts end with it.
    pub(crate) fn prepare(output: &Path) -> std::io::Result<Self> {
        if let Some(path) = std::env::var_os(DISK) {
            return Ok(Self { path: path.into(), small: true });
        }
        let path = output.join("disk");
        fs::create_dir_all(&path)?;
        let path = path.canonicalize()?;
        let script = r#"mount -t tmpfs -o size=64m conclave-chaos "$0" && exec "$@""#;
        let mounting = || {
            let mut command = Command::new("unshare");
            command.args(["--map-root-user", "--mount", "sh", "-c", script]).arg(&path);
            command
        };
        let probe = mounting().arg("true").stderr(Stdio::null()).status();
        if probe.is_ok_and(|status| status.success()) {
            let error = mounting()
                .arg(std::env::current_exe()?)
                .args(std::env::args_os().skip(1))
                .env(DISK, &path)
                .exec();
            return Err(error);
        }
        Ok(Self { path, small: false })
    }

    /// Leaves so much room, as well as can be.
    pub(crate) fn fill(&self, leave: u64) {
        let free =
            || rustix::fs::statvfs(&self.path).map_or(0, |disk| disk.f_bavail * disk.f_frsize);
        let Ok(mut file) = File::options().append(true).create(true).open(self.filler()) else {
            return;
        };
        while free() > leave {
            let bytes = (free() - leave).min(64 << 10);
            if file.write_all(&vec![7; bytes as usize]).is_err() {
                return;
            }
        }
    }

    pub(crate) fn make_room(&self) {
        let _ = fs::remove_file(self.filler());
    }

    fn filler(&self) -> PathBuf {
        self.path.join("filler")
    }
}

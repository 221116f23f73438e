//! Processes that a test has caused, also by way of others: each is known by a variable in its environment, which those
//! that it starts inherit.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};

use crate::until;

/// The variable. What it says is a folder that the test has for itself.
pub const MARK: &str = "TEST_FOLDER";

/// The processes that have this mark and have not ended.
pub fn marked(folder: &Path) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(|&number| has_mark(number, folder.as_os_str()) && is_alive(number)).collect()
}

/// Kills them, and those that they start meanwhile.
///
/// # Panics
///
/// If there is no end to them.
pub fn end_marked(folder: &Path) {
    until("the end of what was started for a test", || {
        let all = marked(folder);
        for pid in all.iter().filter_map(|&number| Pid::from_raw(number.try_into().ok()?)) {
            // It may have ended by now.
            let _ = kill_process(pid, Signal::KILL);
        }
        all.is_empty()
    });
}

fn has_mark(number: u32, mark: &OsStr) -> bool {
    let Ok(variables) = fs::read(format!("/proc/{number}/environ")) else { return false };
    variables.split(|&byte| byte == 0).any(|variable| {
        let value = variable.strip_prefix(MARK.as_bytes()).and_then(|it| it.strip_prefix(b"="));
        value == Some(mark.as_encoded_bytes())
    })
}

fn is_alive(number: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
    // The name may have parentheses in it.
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn what_a_process_has_left_behind_is_found_and_ended() {
        let (folder, other) = (Path::new("/a/folder/of/this/test"), Path::new("/another"));
        let mut shell = Command::new("sh");
        // The shell ends, and what it has started goes on in a session of its own.
        shell.args(["-c", "setsid sleep 100000 & sleep 100000 &"]).env(MARK, folder);
        shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        assert!(shell.status().expect("there is a shell").success());
        until("two processes", || marked(folder).len() == 2);
        assert_eq!(marked(other), Vec::<u32>::new());
        end_marked(other);
        assert_eq!(marked(folder).len(), 2);
        end_marked(folder);
        assert_eq!(marked(folder), Vec::<u32>::new());
    }
}

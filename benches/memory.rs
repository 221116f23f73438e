//! What Linux says about the memory of this process.

/// The figure after `name` in the process's status, in KiB: `VmHWM:` is the most it has had, `VmRSS:`
/// what it has.
pub(crate) fn kib(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find(|line| line.starts_with(name)).expect("it is there");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("a number")
}

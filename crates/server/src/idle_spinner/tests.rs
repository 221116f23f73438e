//! Which groups share out processors. What the second process does is a test of its own (`tests/it/idle_spinner.rs`).

use super::*;

#[test]
fn a_share_is_looked_for_in_all_groups_that_a_process_is_part_of() {
    let paths = |listed| -> Vec<String> {
        groups_of(listed).iter().map(|path| path.display().to_string()).collect()
    };
    assert_eq!(paths("0::/a/b\n"), ["/sys/fs/cgroup/a/b", "/sys/fs/cgroup/a", "/sys/fs/cgroup/"]);
    assert_eq!(
        paths("9:name=systemd:/x\n4:cpuset:/y\n3:cpu,cpuacct:/z\nnonsense\n"),
        ["/sys/fs/cgroup/cpu/z", "/sys/fs/cgroup/cpu/"]
    );
}

#[test]
fn the_group_of_all_processes_has_no_share() {
    let directory = tempfile::tempdir().expect("a directory");
    let group = directory.path();
    assert!(!has_share(group), "nothing is said of processors");
    fs::write(group.join("cpu.shares"), "1024").expect("it can be written");
    assert!(has_share(group), "a group of the first version");
    fs::write(group.join("release_agent"), "").expect("it can be written");
    assert!(!has_share(group), "all processes");
    fs::write(group.join("cpu.max"), "max 100000").expect("it can be written");
    assert!(has_share(group), "a group of the second version");
}

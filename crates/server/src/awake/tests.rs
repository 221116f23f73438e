//! It runs when it is to, sleeps otherwise, and is the last of all.

use conclave_testing::{skipped, until};

use super::*;

/// The states of the threads of a process that come after all others.
fn last_of(process: u32) -> Vec<String> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{process}/task")) else { return Vec::new() };
    let state = |task: fs::DirEntry| {
        let stat = fs::read_to_string(task.path().join("stat")).ok()?;
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        // The fields are counted from the third on here; the policy is the 41st, and 5 is SCHED_IDLE.
        (fields[38] == "5").then(|| fields[0].to_owned())
    };
    tasks.filter_map(Result::ok).filter_map(state).collect()
}

/// What this program is when it is started again by the next.
#[test]
fn the_second_process() {
    // With nothing but this name: a run of all tests has other things on its standard input.
    if std::env::args().nth(1).as_deref() == Some("awake::tests::the_second_process") {
        keep_awake().expect("it can be the last of all");
    }
}

#[test]
fn it_runs_after_commands_sleeps_otherwise_and_ends_with_the_first_process() {
    let Some(awake) = Awake::new("awake::tests::the_second_process") else {
        assert!(is_rationed(), "there is no other reason");
        skipped("awake", "control groups share out the time of processors here");
        return;
    };
    let process = awake.process;
    for _ in 0..3 {
        until("sleep", || last_of(process) == ["S"]);
        until("waking", || {
            awake.stir(metrics::now());
            last_of(process) == ["R"]
        });
    }
    drop(awake);
    until("the end", || !Path::new(&format!("/proc/{process}")).exists());
}

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

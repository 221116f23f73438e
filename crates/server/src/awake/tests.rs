//! It runs when it is to, sleeps otherwise, and is the last of all.

use super::*;

/// Waits until something is so.
#[expect(clippy::disallowed_methods, reason = "it waits for another thread")]
fn until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..60_000 {
        if is_so() {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
    panic!("{what} does not come");
}

/// The state and the policy of the thread of this name, as the system has them.
fn thread_of(name: &str) -> Option<(String, String)> {
    let tasks = fs::read_dir("/proc/self/task").expect("it is there");
    tasks.filter_map(Result::ok).find_map(|task| {
        let stat = fs::read_to_string(task.path().join("stat")).ok()?;
        let (begin, rest) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        // The fields are counted from the third on here; the policy is the 41st.
        let of_name = begin.ends_with(&format!("({name}"));
        of_name.then(|| (fields[0].to_owned(), fields[38].to_owned()))
    })
}

#[test]
fn it_runs_for_a_moment_after_each_command_and_sleeps_otherwise() {
    let Some(awake) = Awake::new() else {
        assert!(is_rationed(), "there is no other reason");
        return;
    };
    let sleeps = || thread_of("awake").is_some_and(|(state, _)| state == "S");
    until("sleep", || awake.state.asleep.load(Ordering::SeqCst) && sleeps());
    let (_, policy) = thread_of("awake").expect("it is there");
    assert_eq!(policy, "5", "SCHED_IDLE");
    for _ in 0..3 {
        // As if there were always something to do.
        awake.stir(metrics::now() + Duration::from_secs(3600));
        until("waking", || !awake.state.asleep.load(Ordering::SeqCst));
        awake.stir(metrics::now());
        until("sleep", || awake.state.asleep.load(Ordering::SeqCst) && sleeps());
    }
    drop(awake);
    until("the end", || thread_of("awake").is_none());
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

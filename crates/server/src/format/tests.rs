//! What is written is read again, what a newer version wrote is refused by name, and nothing makes a reader panic.

use std::collections::{BTreeMap, BTreeSet};

use conclave_machine::{
    Acquire, Call, Command, Config, Machine, Open, RequestId, SessionId, Time, Via,
};
use conclave_record::{Value, put_nested};
use openraft::alias::{EntryOf, LogIdOf};
use openraft::vote::RaftLeaderId;
use openraft::{EntryPayload, Membership, RaftTypeConfig, Vote};

use super::log::{Change, decode, encode};
use super::snapshot::Saved;
use super::*;
use crate::Types;
use crate::state::first_snapshot;

fn id(term: u64, index: u64) -> LogIdOf<Types> {
    let leader = <Types as RaftTypeConfig>::LeaderId::new(term, 7);
    LogIdOf::<Types>::new(leader.to_committed(), index)
}

fn change() -> Change {
    let member = |name: &str| Member { name: name.into(), level: 2, ..Member::default() };
    let members = BTreeMap::from([(1, member("a")), (65_541, member("b"))]);
    let voters = vec![BTreeSet::from([1]), BTreeSet::from([1, 65_541])];
    let membership = Membership::new(voters, members).expect("all voters are members");
    let request = Command::Request {
        session: SessionId(3),
        request: RequestId(0),
        received: RequestId(2),
        via: Via::Stream,
        call: Call::Acquire(Acquire::permit("pool", 9)),
    };
    let expel = Command::Expel { session: SessionId(4), reason: "it hangs".into() };
    let open = Command::Open(Open { name: "one".into(), ..Open::default() });
    let part = Part {
        origin: 65_541,
        number: u64::MAX,
        commands: vec![open, request, expel, Command::Tick],
        operators: vec![(2, "ann".to_owned())],
    };
    let batch = Batch {
        at: Time::from_millis(77),
        day: 1_800_000_000_000,
        parts: vec![part.clone(), part],
    };
    let entries =
        [EntryPayload::Blank, EntryPayload::Normal(batch), EntryPayload::Membership(membership)];
    let entries = (5..)
        .zip(entries)
        .map(|(index, payload)| EntryOf::<Types> { log_id: id(3, index), payload });
    Change {
        vote: Some(Vote::new_committed(3, 7)),
        purged: Some(id(2, 4)),
        void_from: Some(0),
        entries: entries.collect(),
    }
}

#[test]
fn a_change_of_the_log_is_read_as_it_was_written() {
    for change in [change(), Change::default()] {
        let mut bytes = Vec::new();
        encode(&change, &mut bytes);
        assert_eq!(decode(&bytes).expect("it was written"), change);
    }
}

#[test]
fn no_bytes_make_a_reader_panic() {
    let mut good = Vec::new();
    encode(&change(), &mut good);
    let file = first_snapshot(Config::default()).to_file();
    let mut chance = fastrand::Rng::with_seed(14);
    for _ in 0..50_000 {
        for good in [&good, &file] {
            let mut bad = good.clone();
            for _ in 0..chance.u32(1..4) {
                let at = chance.usize(..bad.len());
                bad[at] = chance.u8(..);
            }
            if chance.u32(..4) == 0 {
                bad.truncate(chance.usize(..bad.len()));
            }
            // Whatever it says, it says it.
            let _ = decode(&bad);
            let _ = Saved::from_file(&bad);
        }
    }
}

#[test]
fn what_a_newer_version_wrote_is_refused_and_never_skipped() {
    let newer = |version, level| check(Stamp { version, level }).expect_err("it is newer");
    for error in [newer(VERSION, LEVEL + 1), newer(VERSION + 1, 0)] {
        assert!(error.to_string().contains("needs a version of conclave"), "{error}");
    }
    check(STAMP).expect("this version wrote it");
    // A command that this version does not know, in an entry like any other.
    let mut bytes = Vec::new();
    conclave_record::put_key(4, conclave_record::Wire::Bytes, &mut bytes);
    put_nested(&mut bytes, |out| {
        super::log::Id { term: 1, node: 1, index: 1 }.put(1, out);
        conclave_record::put_key(3, conclave_record::Wire::Bytes, out);
        put_nested(out, |out| {
            conclave_record::put_key(2, conclave_record::Wire::Bytes, out);
            put_nested(out, |out| {
                conclave_record::put_key(3, conclave_record::Wire::Bytes, out);
                put_nested(out, |out| 7_u64.put(999, out));
            });
        });
    });
    let error = decode(&bytes).expect_err("the command is unknown");
    assert!(error.to_string().contains("newer version of conclave"), "{error}");
    // A kind of entry, and a kind of change.
    for tag in [9, 77] {
        let mut bytes = Vec::new();
        7_u64.put(tag, &mut bytes);
        assert!(decode(&bytes).is_err());
    }
    let mut file = first_snapshot(Config::default()).to_file();
    file[11] += 1;
    let error = Saved::from_file(&file).expect_err("it is of a higher level");
    assert!(error.to_string().contains("needs a version of conclave"), "{error}");
    file[7] = b'3';
    let error = Saved::from_file(&file).expect_err("it is of a newer format");
    assert!(error.to_string().contains("newer version"), "{error}");
}

#[test]
fn a_snapshot_is_read_as_it_was_written_and_any_flipped_bit_is_noticed() {
    let saved = first_snapshot(Config::default());
    let file = saved.to_file();
    assert_eq!(Saved::from_file(&file).expect("it was written"), saved);
    let machine = saved.machine().expect("it was written");
    assert_eq!(machine.snapshot(), Machine::new(Config::default()).snapshot());
    for at in 0..file.len() {
        let mut bad = file.clone();
        for bit in 0..8 {
            bad[at] = file[at] ^ 1 << bit;
            assert!(Saved::from_file(&bad).is_err(), "bit {bit} of byte {at}");
        }
    }
}

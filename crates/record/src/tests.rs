use std::time::Duration;

use super::*;

#[derive(Clone, Debug, PartialEq)]
struct Many {
    whole: u64,
    signed: i64,
    small: i32,
    flag: bool,
    text: String,
    bytes: Vec<u8>,
    span: Option<Duration>,
    list: Vec<u64>,
    pairs: Vec<(String, Option<u32>)>,
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    Nothing,
    Number(u64),
    Boxed(Box<Self>),
    Named { one: u32, two: Vec<Colour> },
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Colour {
    Red,
    Blue,
}

record!(Many {
    1 whole, 2 signed, 3 small, 4 flag, 5 text, 6 bytes, 7 span, 8 list, 9 pairs, 10 kind,
});
choice!(Kind;
    unit { 1 Nothing }
    one { 2 Number, 3 Boxed }
    fields { 4 Named { 1 one, 2 two } }
);
codes!(Colour { 1 Red, 7 Blue });

fn many() -> Many {
    Many {
        whole: u64::MAX,
        signed: i64::MIN,
        small: -3,
        flag: true,
        text: "größer".repeat(40),
        bytes: vec![0; 200],
        span: Some(Duration::MAX),
        list: vec![0, 1, 127, 128, 1 << 63],
        pairs: vec![("a".into(), Some(0)), (String::new(), None)],
        kind: Kind::Boxed(Box::new(Kind::Named { one: 0, two: vec![Colour::Blue, Colour::Red] })),
    }
}

#[test]
fn what_was_written_is_read_again() {
    let empty = Many {
        whole: 0,
        signed: 0,
        small: 0,
        flag: false,
        text: String::new(),
        bytes: Vec::new(),
        span: None,
        list: Vec::new(),
        pairs: Vec::new(),
        kind: Kind::Nothing,
    };
    let zero = Many { span: Some(Duration::ZERO), kind: Kind::Number(0), ..empty.clone() };
    for value in [empty, zero, many()] {
        assert_eq!(decode(&encode(&value)), Ok(value));
    }
}

#[test]
fn it_is_what_other_readers_of_protocol_buffers_expect() {
    let mut out = Vec::new();
    150_u64.put(1, &mut out);
    assert_eq!(out, [0x08, 0x96, 0x01]);
    out.clear();
    "testing".to_owned().put(2, &mut out);
    assert_eq!(out, [0x12, 0x07, 0x74, 0x65, 0x73, 0x74, 0x69, 0x6e, 0x67]);
    out.clear();
    (-2_i32).put(3, &mut out);
    assert_eq!(out, [0x18, 0x03]);
}

#[test]
fn a_field_of_a_newer_version_is_passed_over_and_a_variant_is_not() {
    let mut newer = Vec::new();
    put_nested(&mut newer, |out| {
        Kind::Nothing.put(10, out);
        "new".to_owned().put(77, out);
        7_u64.put(78, out);
        put_key(79, Wire::Eight, out);
        out.extend([1; 8]);
        put_key(80, Wire::Four, out);
        out.extend([1; 4]);
    });
    assert_eq!(decode::<Many>(&newer).map(|many| many.kind), Ok(Kind::Nothing));
    let mut newer = Vec::new();
    put_nested(&mut newer, |out| 7_u64.put(5, out));
    let unknown = decode::<Kind>(&newer).expect_err("the tag is unknown");
    assert_eq!(unknown, Unreadable::Unknown { of: "Kind", tag: 5 });
    assert!(unknown.to_string().contains("newer version"));
    assert_eq!(decode::<Colour>(&[3]), Err(Unreadable::Unknown { of: "Colour", tag: 3 }));
}

#[test]
fn a_field_that_makes_no_sense_is_not_made_up() {
    assert_eq!(decode::<Many>(&[0]), Err(Unreadable::Missing("kind")));
    assert_eq!(decode::<u32>(&[0xff; 5]), Err(Unreadable::Cut));
    assert_eq!(decode::<u64>(&[0xff; 12]), Err(Unreadable::Bad("number")));
    assert_eq!(decode::<u32>(&encode(&(1_u64 << 32))), Err(Unreadable::Bad("number of 32 bits")));
    assert_eq!(decode::<bool>(&[2]), Err(Unreadable::Bad("yes or no")));
    assert_eq!(decode::<String>(&[1, 0xff]), Err(Unreadable::Bad("text")));
}

#[test]
fn no_bytes_make_a_reader_panic() {
    let good = encode(&many());
    for length in 0..good.len() {
        assert!(decode::<Many>(&good[..length]).is_err(), "cut after {length} bytes");
    }
    // A fixed generator: the same bytes in every run.
    let mut chance = 0x9e37_79b9_7f4a_7c15_u64;
    let mut draw = |below: usize| {
        chance ^= chance << 13;
        chance ^= chance >> 7;
        chance ^= chance << 17;
        (chance % below as u64) as usize
    };
    for _ in 0..20_000 {
        let mut bad = good.clone();
        for _ in 0..=draw(4) {
            let at = draw(bad.len());
            bad[at] = draw(256) as u8;
        }
        if draw(4) == 0 {
            bad.drain(draw(good.len() / 2)..);
        }
        // Whatever it says, it says it.
        let _ = decode::<Many>(&bad);
        let _ = decode::<Kind>(&bad);
    }
}

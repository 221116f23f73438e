//! The framing of the stream without gRPC: length-prefixed messages.

use std::io;
use std::marker::PhantomData;

use prost::Message;
use prost::bytes::{Buf, BytesMut};
use tokio_util::codec::{Decoder, Encoder};

/// What a connection that begins as HTTP/1.1 is upgraded to, so that both sides say messages as they are.
pub const PLAIN: &str = "conclave.v1";

/// Messages in both directions, each behind its length, which is written as protobuf writes numbers.
#[derive(Debug)]
pub struct Delimited<Said, Heard> {
    longest: usize,
    /// Whether the last that was said or heard took much room, which is not kept.
    said_much: bool,
    heard_much: bool,
    messages: PhantomData<fn(Said) -> Heard>,
}

impl<Said, Heard> Delimited<Said, Heard> {
    /// Nothing that is longer is listened to.
    pub fn up_to(longest: usize) -> Self {
        Self { longest, said_much: false, heard_much: false, messages: PhantomData }
    }
}

/// A message of so many bytes is long.
const MUCH: usize = 64 << 10;

/// So many bytes a number has at most.
const LONGEST_NUMBER: usize = 10;

impl<Said, Heard: Message + Default> Decoder for Delimited<Said, Heard> {
    type Item = Heard;
    type Error = io::Error;

    fn decode(&mut self, bytes: &mut BytesMut) -> io::Result<Option<Heard>> {
        let ends = bytes.iter().take(LONGEST_NUMBER).any(|byte| byte & 0x80 == 0);
        if !ends && bytes.len() < LONGEST_NUMBER {
            return Ok(None);
        }
        let mut rest = &bytes[..];
        let length = prost::decode_length_delimiter(&mut rest).map_err(bad)?;
        if length > self.longest {
            return Err(bad(format!("{length} bytes are too many for a message")));
        }
        let Some(message) = rest.get(..length) else { return Ok(None) };
        let message = Heard::decode(message).map_err(bad)?;
        let all = bytes.len() - rest.len() + length;
        bytes.advance(all);
        self.heard_much |= length > MUCH;
        make_small(bytes, &mut self.heard_much);
        Ok(Some(message))
    }
}

impl<Said: Message, Heard> Encoder<Said> for Delimited<Said, Heard> {
    type Error = io::Error;

    fn encode(&mut self, message: Said, bytes: &mut BytesMut) -> io::Result<()> {
        make_small(bytes, &mut self.said_much);
        let before = bytes.len();
        message.encode_length_delimited(bytes).map_err(bad)?;
        self.said_much |= bytes.len() - before > MUCH;
        Ok(())
    }
}

/// Gives room back that was needed once.
fn make_small(bytes: &mut BytesMut, much: &mut bool) {
    if *much && bytes.is_empty() {
        (*bytes, *much) = (BytesMut::new(), false);
    }
}

fn bad(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::{Ask, Echo, ask::What};

    fn ask(id: u64, length: usize) -> Ask {
        let what = Some(What::Echo(Echo { body: vec![7; length] }));
        Ask { id, what, ..Ask::default() }
    }

    fn codec() -> Delimited<Ask, Ask> {
        Delimited::up_to(1000)
    }

    #[test]
    fn what_was_said_is_heard_however_it_was_cut() {
        let said: Vec<Ask> = [(1, 0), (2, 900), (3, 5)].map(|(id, length)| ask(id, length)).into();
        let mut bytes = BytesMut::new();
        for message in &said {
            codec().encode(message.clone(), &mut bytes).expect("it fits");
        }
        for step in 1..bytes.len() {
            let (mut arrived, mut heard) = (BytesMut::new(), Vec::new());
            for piece in bytes.chunks(step) {
                arrived.extend_from_slice(piece);
                while let Some(message) = codec().decode(&mut arrived).expect("it is well-formed") {
                    heard.push(message);
                }
            }
            assert!(heard == said && arrived.is_empty(), "in pieces of {step}");
        }
    }

    #[test]
    fn room_for_a_long_message_is_not_kept() {
        let mut codec: Delimited<Ask, Ask> = Delimited::up_to(1 << 20);
        let (mut said, mut heard) = (BytesMut::new(), BytesMut::new());
        codec.encode(ask(1, 1 << 19), &mut said).expect("it fits");
        heard.extend_from_slice(&said.split());
        assert!(codec.decode(&mut heard).expect("it is well-formed").is_some());
        codec.encode(ask(2, 10), &mut said).expect("it fits");
        heard.reserve(1);
        assert!(heard.capacity() < 1000 && said.capacity() < 1000);
    }

    #[test]
    fn what_is_too_long_or_makes_no_sense_is_refused_at_once() {
        let mut bytes = BytesMut::new();
        codec().encode(ask(1, 1000), &mut bytes).expect("there is room");
        // Its length says it all.
        bytes.truncate(2);
        assert!(codec().decode(&mut bytes).is_err());
        for bad in [&[0x80; 10][..], &[0xff; 11], &[2, 0xff, 0xff]] {
            assert!(codec().decode(&mut BytesMut::from(bad)).is_err(), "{bad:?}");
        }
        assert_eq!(
            codec().decode(&mut BytesMut::from(&[0x80; 9][..])).expect("it may go on"),
            None
        );
    }
}

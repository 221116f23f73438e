//! `Debug` of messages that contain the key of a session: without the key.

use std::fmt;

use crate::v1::{Ask, Open, Opened};

/// Stands for a key.
struct Hidden;

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

// Each field is named, so that one that is added is not forgotten.
impl fmt::Debug for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { session, id, received, key: _, what } = self;
        let mut shown = f.debug_struct("Ask");
        shown.field("session", session).field("id", id).field("received", received);
        shown.field("key", &Hidden).field("what", what).finish()
    }
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { session, key: _, ttl_ms, window, deposed } = self;
        let mut shown = f.debug_struct("Opened");
        shown.field("session", session).field("key", &Hidden).field("ttl_ms", ttl_ms);
        shown.field("window", window).field("deposed", deposed).finish()
    }
}

impl fmt::Debug for Open {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, host, ttl_ms, priority, nonce: _ } = self;
        let mut shown = f.debug_struct("Open");
        shown.field("name", name).field("host", host).field("ttl_ms", ttl_ms);
        shown.field("priority", priority).field("nonce", &Hidden).finish()
    }
}

#[cfg(test)]
mod tests {
    use crate::v1::{self, ask, tell};

    const KEY: u64 = 0xfeed_beef_cafe_f00d;

    fn opened() -> v1::Opened {
        v1::Opened { session: 7, key: KEY, ttl_ms: 15_000, window: 32, deposed: Vec::new() }
    }

    #[test]
    fn the_key_of_a_session_is_never_shown() {
        let what = Some(ask::What::Attach(v1::Attach {}));
        let ask = v1::Ask { session: 7, id: 2, received: 1, key: KEY, what };
        let opened = opened();
        let what = Some(tell::What::Opened(opened.clone()));
        let tell = v1::Tell { session: 0, id: 1, what };
        let shown = [format!("{ask:?}"), format!("{ask:#?}"), format!("{opened:?}")];
        for shown in shown.into_iter().chain([format!("{tell:?}"), format!("{tell:#?}")]) {
            assert!(shown.contains("key: ***") && shown.contains("session: 7"), "{shown}");
            for key in [format!("{KEY}"), format!("{KEY:x}"), format!("{KEY:X}")] {
                assert!(!shown.contains(&key), "{shown}");
            }
        }
    }

    #[test]
    fn all_else_is_shown() {
        let opened = opened();
        let shown = "Opened { session: 7, key: ***, ttl_ms: 15000, window: 32, deposed: [] }";
        assert_eq!(format!("{opened:?}"), shown);
        let open = v1::Open { name: "a".into(), nonce: KEY, ..v1::Open::default() };
        let shown = "Open { name: \"a\", host: \"\", ttl_ms: 0, priority: 0, nonce: *** }";
        assert_eq!(format!("{open:?}"), shown);
        let ask = v1::Ask { session: 7, id: 2, received: 1, key: KEY, what: None };
        let shown = "Ask { session: 7, id: 2, received: 1, key: ***, what: None }";
        assert_eq!(format!("{ask:?}"), shown);
    }
}

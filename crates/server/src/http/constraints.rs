//! Constraints on the fields of requests that the .proto file cannot express: length, range, presence. They are part of
//! the description of the interface, so that a client generated from it sends no request that is refused for its form.

use std::time::Duration;

use conclave_machine::Limits;
use serde_json::{Value, json};

use crate::codec::millis;
use crate::sizes::{LABEL, NAME, VALUE};

/// The last number that a client may give a request; those after it are allotted by the machine.
pub(super) const LAST_NUMBER: u64 = u64::MAX >> 1;

/// The fields without which a message makes no sense.
pub(super) fn required(message: &str) -> &'static [&'static str] {
    match message {
        "Want" | "Release" | "Upgrade" | "Downgrade" => &["lock"],
        "Acquire" => &["wants"],
        "Campaign" | "Proclaim" | "Resign" | "ObserveElection" => &["election"],
        "Cancel" => &["request"],
        "Named" => &["name"],
        "TakeLock" => &["lock", "reason"],
        "EndSession" => &["session", "reason"],
        "EndSessions" => &["reason"],
        "EndLeadership" => &["election", "reason"],
        _ => &[],
    }
}

/// A whole number.
pub(super) fn number(least: impl Into<Value>, most: impl Into<Value>) -> Value {
    json!({ "type": "integer", "minimum": least.into(), "maximum": most.into() })
}

/// A field of a message, with its bounds.
pub(super) fn constrain(message: &str, field: &str, schema: Value) -> Value {
    let Limits { shortest_ttl, longest_ttl, longest_grace, locks_per_request, .. } =
        Limits::default();
    let text = |least: usize, most: usize| json!({ "type": "string", "minLength": least, "maxLength": most });
    let span = |span: Duration| millis(span);
    match (message, field) {
        ("Named", "name") => json!({ "type": "string", "minLength": 1 }),
        ("Open", "name" | "host") => text(0, LABEL),
        // Nothing means the usual.
        ("Open", "ttl_ms") => json!({ "anyOf": [
            { "const": 0 },
            number(span(shortest_ttl), span(longest_ttl)),
        ] }),
        ("Campaign", "grace_ms") => number(0, span(longest_grace)),
        ("Campaign" | "Proclaim", "value") => text(0, VALUE),
        ("Cancel", "request") => number(1, LAST_NUMBER),
        ("EndSessions", "opened_by" | "host" | "address") => {
            json!({ "type": "string", "minLength": 1 })
        }
        ("Acquire", "wants") => {
            let mut wants = schema;
            wants["minItems"] = json!(1);
            wants["maxItems"] = json!(locks_per_request);
            wants
        }
        ("Want" | "Release" | "Upgrade" | "Downgrade" | "TakeLock", "lock")
        | ("Campaign" | "Proclaim" | "Resign" | "ObserveElection" | "EndLeadership", "election") => {
            text(1, NAME)
        }
        ("TakeLock" | "EndSession" | "EndSessions" | "EndLeadership", "reason") => {
            let mut reason = text(1, LABEL);
            reason["pattern"] = json!("\\S");
            reason
        }
        _ => schema,
    }
}

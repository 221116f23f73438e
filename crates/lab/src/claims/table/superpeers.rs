//! Elections of several, to serve the rest.

use conclave_protocol::Property::{BestLeads, LeaderKnown, OneLeader, OneLeaderPerEpoch};

use super::super::{Check, Claims};

/// Two groups of keys, so that some have to look for their superpeer.
const TWO_GROUPS: &[(&str, &str)] = &[("prefix", "1")];
/// A token that makes a superpeer at once, and time enough for everybody to hear of it.
const ONE_TOKEN: &[(&str, &str)] = &[("tokens", "1"), ("hold", "1"), ("periods", "4")];
const TWO_TOKENS: &[(&str, &str)] = &[("tokens", "2"), ("hold", "1"), ("periods", "2")];

pub(super) const DHT: Claims = Claims {
    id: "election/superpeer-dht",
    checks: &[
        Check::new(3, &[LeaderKnown]).set(TWO_GROUPS).crashes(1).recoveries(1),
        Check::new(4, &[LeaderKnown]).set(TWO_GROUPS),
        Check::new(3, &[OneLeader, BestLeads]).set(TWO_GROUPS).fails(9),
        Check::new(4, &[OneLeaderPerEpoch]).set(TWO_GROUPS).fails(6),
    ],
    deep: &[Check::new(4, &[LeaderKnown]).set(TWO_GROUPS).crashes(1)],
};

pub(super) const TOKENS: Claims = Claims {
    id: "election/superpeer-tokens",
    checks: &[
        Check::new(3, &[LeaderKnown]).set(ONE_TOKEN),
        Check::new(3, &[OneLeader, BestLeads]).set(TWO_TOKENS).fails(16),
        Check::new(3, &[OneLeaderPerEpoch]).set(TWO_TOKENS).fails(3),
    ],
    deep: &[],
};

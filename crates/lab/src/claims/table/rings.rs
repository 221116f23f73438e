//! Elections on a ring.

use conclave_protocol::Property::{BestLeads, LeaderKnown, OneLeader, OneLeaderPerEpoch};

use super::super::{Check, Claims};
use super::{L1, L1Q, L2, L3, LEADER, LEADERS};

pub(super) const LE_LANN: Claims = Claims {
    id: "election/le-lann",
    checks: &[Check::new(3, LEADERS), Check::new(4, LEADERS)],
    deep: &[Check::new(3, LEADERS).requests(2), Check::new(5, LEADERS)],
};

pub(super) const CHANG_ROBERTS: Claims = Claims {
    id: "election/chang-roberts",
    checks: &[
        Check::new(3, LEADERS),
        Check::new(4, LEADERS),
        // Beyond its model: the best node dies, and its id with it.
        Check::new(3, L2).crashes(1).fails(4),
    ],
    deep: &[Check::new(3, LEADERS).requests(2), Check::new(5, LEADERS)],
};

pub(super) const CHANG_ROBERTS_REPAIRED: Claims = Claims {
    id: "election/chang-roberts-repaired",
    checks: &[
        Check::new(3, &[OneLeader, OneLeaderPerEpoch]).crashes(1),
        Check::new(3, LEADER),
        Check::new(3, L2).crashes(1).fails(6),
        Check::new(3, L3).crashes(1).fails(11),
    ],
    deep: &[Check::new(4, &[OneLeader, OneLeaderPerEpoch]).crashes(1)],
};

pub(super) const BY_ATTRIBUTE: Claims = Claims {
    id: "election/by-attribute",
    checks: &[Check::new(3, LEADERS), Check::new(4, LEADERS)],
    deep: &[],
};

pub(super) const BY_ATTRIBUTE_BARE: Claims = Claims {
    id: "election/by-attribute-bare",
    checks: &[Check::new(2, L1).fails(6), Check::new(3, L1).fails(9)],
    deep: &[],
};

pub(super) const FREDERICKSON_LYNCH: Claims = Claims {
    id: "election/frederickson-lynch",
    checks: &[
        Check::new(3, &[OneLeader, OneLeaderPerEpoch, LeaderKnown]),
        Check::new(4, &[OneLeader, OneLeaderPerEpoch, LeaderKnown]),
        Check::new(3, L3).fails(15),
    ],
    deep: &[],
};

pub(super) const RING_LIST: Claims = Claims {
    id: "election/ring-list",
    checks: &[
        Check::new(3, L1).crashes(1),
        Check::new(3, LEADER),
        Check::new(2, LEADER).set(&[("suppression", "true")]),
        Check::new(2, &[LeaderKnown, BestLeads]).crashes(1).fails(7),
        Check::new(3, &[LeaderKnown, BestLeads]).crashes(1).fails(33),
        Check::new(3, L1Q).crashes(1).fails(13),
    ],
    deep: &[
        Check::new(3, L1).crashes(2),
        Check::new(3, LEADER).set(&[("suppression", "true")]),
        Check::new(4, LEADER).clients(0, 2),
    ],
};

pub(super) const RING_LIST_INITIATOR: Claims = Claims {
    id: "election/ring-list-initiator",
    checks: &[
        Check::new(3, L1).crashes(1),
        Check::new(3, LEADER),
        Check::new(2, L2).crashes(1).loops(5, 4),
        Check::new(3, L2).crashes(1).loops(12, 7),
        Check::new(3, L3).crashes(2).fails(14),
        Check::new(3, L1Q).crashes(1).fails(14),
    ],
    deep: &[Check::new(3, L1).crashes(2)],
};

pub(super) const RING_INQUIRY: Claims = Claims {
    id: "election/ring-inquiry",
    checks: &[
        Check::new(3, L1).crashes(1),
        Check::new(2, L1).crashes(1).recoveries(1),
        Check::new(3, L1).crashes(1).recoveries(1).bounded(14),
        Check::new(3, LEADER),
        Check::new(2, &[LeaderKnown, BestLeads]).crashes(1).fails(7),
        Check::new(3, L1Q).crashes(1).fails(13),
    ],
    deep: &[Check::new(3, L1).crashes(1).recoveries(1).bounded(24)],
};

pub(super) const RING_MODIFIED: Claims = Claims {
    id: "election/ring-modified",
    checks: &[
        Check::new(3, L1).crashes(1),
        Check::new(3, LEADER),
        Check::new(2, L2).crashes(1).loops(5, 4),
        Check::new(3, L2).crashes(1).loops(12, 7),
        Check::new(3, L3).crashes(2).fails(11),
        Check::new(3, L1Q).crashes(1).fails(14),
    ],
    deep: &[Check::new(3, L1).crashes(2)],
};

pub(super) const RING_WATCHDOG: Claims = Claims {
    id: "election/ring-watchdog",
    checks: &[
        Check::new(3, LEADER).crashes(1),
        Check::new(3, LEADER).crashes(2),
        Check::new(4, LEADER).clients(0, 1),
        Check::new(3, L1Q).crashes(1).fails(14),
    ],
    deep: &[Check::new(4, LEADER).clients(0, 2)],
};

pub(super) const RING_RECONFIGURATION: Claims = Claims {
    id: "election/ring-reconfiguration",
    checks: &[
        Check::new(3, LEADER).crashes(1),
        Check::new(3, LEADER).crashes(2),
        Check::new(2, LEADER).crashes(1).recoveries(1),
        Check::new(3, LEADER).crashes(1).recoveries(1).bounded(14),
        Check::new(3, L1Q).crashes(1).fails(13),
    ],
    deep: &[Check::new(3, LEADER).crashes(1).recoveries(1).bounded(24)],
};

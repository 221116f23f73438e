//! All rules, one after the other.

use crate::index::Index;
use crate::{Event, Rule, Verdict, rules};

/// Looks for broken promises in a history. The events may be in any order.
pub fn judge(events: &[Event]) -> Verdict {
    let index = Index::new(events);
    let mut verdict = Verdict::default();
    for rule in Rule::ALL {
        verdict.judged(rule, 0);
    }
    rules::tokens::judge(&index, &mut verdict);
    rules::holders::judge(&index, &mut verdict);
    rules::queue::judge(&index, &mut verdict);
    rules::leases::judge(&index, &mut verdict);
    rules::state::judge(&index, &mut verdict);
    rules::processes::judge(&index, &mut verdict);
    verdict.violations.sort_by(|a, b| (a.rule, &a.shown_by).cmp(&(b.rule, &b.shown_by)));
    verdict
}

//! Formats names, times and waits for people.

use std::time::Duration;

use conclave_client::view::{Edge, Leadership, Link, Mode, Who};

/// A span as people say it, no more exact than they care.
pub(crate) fn age(span: Duration) -> String {
    let seconds = span.as_secs();
    match (seconds, span.as_millis()) {
        (0, millis) => format!("{millis}ms"),
        (1..10, millis) => format!("{}.{}s", millis / 1000, millis % 1000 / 100),
        (10..60, _) => format!("{seconds}s"),
        (60..3600, _) => format!("{}m{:02}s", seconds / 60, seconds % 60),
        (3600..86_400, _) => format!("{}h{:02}m", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

/// The same of milliseconds.
pub(crate) fn age_ms(millis: u64) -> String {
    age(Duration::from_millis(millis))
}

/// A thread of control with the names of its session.
pub(crate) fn who(who: Option<&Who>) -> String {
    let Some(Who { session, owner, name, host }) = who else { return "a session".to_owned() };
    let thread = if *owner == 0 { String::new() } else { format!(", thread {owner}") };
    format!("{}@{} (session {session}{thread})", text(name), text(host))
}

/// Text that others have chosen, as far as a terminal should see it.
pub(crate) fn text(text: &str) -> String {
    if text.is_empty() {
        return "?".to_owned();
    }
    text.chars()
        .flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] })
        .collect()
}

/// How a lock is held or wanted.
pub(crate) fn mode(mode: Mode, permits: u32, of: u32) -> String {
    match mode {
        Mode::Exclusive => "exclusive".to_owned(),
        Mode::Shared => "shared".to_owned(),
        Mode::Permits if of == 0 => plural(u64::from(permits), "permit"),
        Mode::Permits => format!("{permits} of {of} permits"),
    }
}

/// So many of something.
pub(crate) fn plural(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// A wait in words.
pub(crate) fn label(edge: &Edge) -> String {
    let Edge { waiter, lock, on, holds, election } = edge;
    let how = match (*holds, *election) {
        (true, false) => "held by",
        (true, true) => "led by",
        (false, _) => "and is behind",
    };
    let (waiter, wants, on) = (who(waiter.as_ref()), wants(*election), who(on.as_ref()));
    format!("{waiter} waits {wants} {}, {how} {on}", text(lock))
}

/// A cycle in words, a line for each who waits.
pub(crate) fn chain(cycle: &[Link]) -> impl Iterator<Item = String> {
    let next = cycle.iter().cycle().skip(1);
    cycle.iter().zip(next).map(|(link, next)| {
        let (waiter, on) = (who(link.waiter.as_ref()), who(next.waiter.as_ref()));
        let lock = match link.lock.as_str() {
            "" => "a lock that this token may not see".to_owned(),
            lock => text(lock),
        };
        format!("{waiter} waits {} {lock} because of {on}", wants(link.election))
    })
}

fn wants(election: bool) -> &'static str {
    if election { "to lead" } else { "for" }
}

/// Whether a leader leads on, if that is in question.
pub(crate) fn tenure(leads: &Leadership) -> Option<String> {
    if let Some(left) = leads.deposed_ms {
        let left = age_ms(left);
        return Some(format!("was deposed and has not confirmed it; its lease lasts {left} more"));
    }
    let left = age_ms(leads.yields_ms?);
    Some(format!("was asked to yield within {left}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_no_more_exact_than_people_care() {
        let ages = [7, 1234, 59_999, 61_000, 3_661_000, 90_000_000].map(age_ms);
        assert_eq!(ages, ["7ms", "1.2s", "59s", "1m01s", "1h01m", "1d01h"]);
    }

    #[test]
    fn names_cannot_play_with_the_terminal() {
        assert_eq!(text("a\u{1b}[31mb\nc"), "a\\u{1b}[31mb\\nc");
        let odd = Who { session: 3, owner: 2, name: String::new(), host: "h".into() };
        assert_eq!(who(Some(&odd)), "?@h (session 3, thread 2)");
    }
}

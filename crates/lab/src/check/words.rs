//! Checks in words.

use conclave_check::{Budgets, CheckSpec, Requests, Timers};
use conclave_protocol::{Asking, Channels, Info};

use crate::report::shape;

/// What is checked, in one line.
pub fn describe(info: &Info, spec: &CheckSpec) -> String {
    let n = u64::from(spec.setup.n());
    let shape = shape(&spec.setup.topology);
    let mut parts = vec![format!("({}), {}, {shape}", info.id, counted(n, "node"))];
    if info.asking() != Asking::None {
        let often = match spec.requests {
            Requests::AtMost(1) => "once".to_owned(),
            Requests::AtMost(often) => format!("{often} times"),
            Requests::Endless => "again and again".to_owned(),
        };
        let who = counted(spec.clients.len() as u64, "node");
        let verb = if spec.clients.len() == 1 { "asks" } else { "ask" };
        parts.push(format!("{who} {verb} {often}"));
    }
    parts.push(match spec.channels {
        Channels::Fifo => "messages keep their order".to_owned(),
        _ => "messages may overtake each other".to_owned(),
    });
    if spec.timers == Timers::Quiet {
        parts.push("time-outs are longer than messages take".to_owned());
    }
    parts.extend(faults(&spec.budgets));
    for (name, value) in &spec.setup.options {
        parts.push(format!("{name}={value}"));
    }
    parts.join("; ")
}

/// What may go wrong, in words.
pub fn faults(budgets: &Budgets) -> Option<String> {
    let kinds = [
        (budgets.crashes, "crash", "crashes"),
        (budgets.recoveries, "recovery", "recoveries"),
        (budgets.amnesias, "recovery without memory", "recoveries without memory"),
        (budgets.losses, "lost message", "lost messages"),
        (budgets.repeats, "repeated message", "repeated messages"),
        (budgets.partitions, "partition", "partitions"),
        (budgets.suspicions, "wrong suspicion", "wrong suspicions"),
        (budgets.joins, "newcomer", "newcomers"),
        (budgets.leaves, "departure", "departures"),
        (budgets.timers.unwrap_or(0), "time-out", "time-outs"),
    ];
    let named = kinds.into_iter().filter(|(most, ..)| *most > 0).map(|(most, one, many)| {
        let what = if most == 1 { one } else { many };
        format!("{most} {what}")
    });
    let mut named: Vec<String> = named.collect();
    if budgets.mid_step {
        named.push("even in the middle of a step".to_owned());
    }
    (!named.is_empty()).then(|| format!("at most {}", named.join(", ")))
}

/// A whole number with its thousands apart.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A large number in a few characters.
pub fn short(number: f64) -> String {
    match number {
        1e9.. => format!("{:.1} billion", number / 1e9),
        1e6.. => format!("{:.1} million", number / 1e6),
        1e4.. => format!("{:.0} thousand", number / 1e3),
        _ => format!("{number:.0}"),
    }
}

/// So many of something.
pub fn counted(number: u64, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {what}{plural}", grouped(number))
}

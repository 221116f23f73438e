//! The report about a run, in words.

use std::collections::BTreeMap;

use conclave_history::{Ending, Event, Rule, Violation, judge};

/// How many violations of one rule are shown in full.
const SHOWN: usize = 5;

/// Judges a history, says what was done and found, and whether nothing was.
pub(crate) fn print(events: &[Event]) -> bool {
    let verdict = judge(events);
    let mut faults: BTreeMap<String, u64> = BTreeMap::new();
    let mut done: BTreeMap<String, u64> = BTreeMap::new();
    let mut begun = Vec::new();
    for event in events {
        match event {
            Event::FaultBegan { kind, at } => {
                *faults.entry(kind.clone()).or_default() += u64::from(kind != "end");
                begun.push(*at);
            }
            Event::Struck { how, .. } => *faults.entry(how.clone()).or_default() += 1,
            _ => {}
        }
        if let Some(what) = operation(event) {
            *done.entry(what).or_default() += 1;
        }
    }
    faults.retain(|_, count| *count > 0);
    let span = |list: &mut dyn Iterator<Item = u64>| {
        let list: Vec<u64> = list.collect();
        list.iter().max().zip(list.iter().min()).map_or(0.0, |(a, b)| (a - b) as f64 / 1e9)
    };
    println!("\n{} events in {:.0} s", events.len(), span(&mut events.iter().map(Event::at)));
    println!("\nfaults: {}", faults.values().sum::<u64>());
    columns(&faults);
    println!("\noperations and outcomes:");
    columns(&done);
    println!("\n{:<10} {:>9} {:>10} {:>11}  rule", "", "judged", "violations", "not judged");
    for (rule, tally) in &verdict.tallies {
        let found = verdict.violations.iter().filter(|found| found.rule == *rule).count();
        let open: u64 = tally.not_judged.values().sum();
        println!(
            "{:<10} {:>9} {:>10} {:>11}  {}",
            rule.name(),
            tally.judged,
            found,
            open,
            rule.says()
        );
        for (why, count) in &tally.not_judged {
            println!("{:<32} {count:>10}  not judged: {why}", "");
        }
    }
    for rule in Rule::ALL {
        let found: Vec<&Violation> =
            verdict.violations.iter().filter(|found| found.rule == rule).collect();
        for violation in found.iter().take(SHOWN) {
            println!("\n{}: {}", rule.name().to_uppercase(), violation.says);
            for place in violation.shown_by.iter().take(12) {
                println!("    {}", excerpt(&events[*place]));
            }
        }
        if found.len() > SHOWN {
            println!("\n{}: and {} more", rule.name().to_uppercase(), found.len() - SHOWN);
        }
    }
    let count = verdict.violations.len();
    println!(
        "\n{}",
        if count == 0 { "no violation".to_owned() } else { format!("{count} violations") }
    );
    verdict.holds()
}

/// An event as a line that is not too long.
fn excerpt(event: &Event) -> String {
    let line = serde_json::to_string(event).unwrap_or_default();
    match line.char_indices().nth(400) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// What is counted as done.
fn operation(event: &Event) -> Option<String> {
    let of = |what: &str, how: &str| Some(format!("{what}: {how}"));
    match event {
        Event::Opened { .. } => of("session", "opened"),
        Event::Renewed { .. } => of("renewal", "confirmed"),
        Event::Unknown { code, .. } => of("renewal", code),
        Event::Closed { .. } => of("session", "closed"),
        Event::Asked { .. } => of("request", "sent"),
        Event::Granted { .. } => of("request", "granted"),
        Event::Refused { code, .. } => of("request", code),
        Event::Dropped { .. } => of("request", "no answer"),
        Event::Released { .. } => of("release", "confirmed"),
        Event::ReleaseRefused { code, .. } => of("release", code),
        Event::Lost { why, .. } => of("loss", why),
        Event::Started { kind, .. } => of("process", &format!("{kind:?}").to_lowercase()),
        Event::Ran { .. } => of("command", "ran"),
        Event::Looked { .. } => of("list", "read"),
        Event::Exited { ending, .. } => match ending {
            Ending::Code(code) => of("exit code", &code.to_string()),
            Ending::Signal(signal) => of("ended by signal", &signal.to_string()),
        },
        _ => None,
    }
}

fn columns(counts: &BTreeMap<String, u64>) {
    let cells: Vec<String> =
        counts.iter().map(|(what, count)| format!("{count:>7} {what:<28}")).collect();
    for row in cells.chunks(3) {
        println!("  {}", row.join("").trim_end());
    }
}

//! Processes whose events are written down: what each does, in its own order, and which of its events
//! are a message's sending or its receipt. How the events of different processes mix is left to the
//! run.
//!
//! Processes are called p, q, r and so on, and their events count from 1: `p1>q2,r1` has p's first
//! event send a message that q's second receives; q's first event and r's only one are of no message.
//! A message that is there before the events that come first waits.
//!
//! Its rules have the numbers of those in `snapshot/consistent-cut`: an event of its own is 1, a sending
//! is 2 and a receipt is 3. Each message has a weight of its own, which its sender owns before, and its receiver afterwards.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use conclave_protocol::{Ctx, Never, NodeId, Protocol, Setup, Topology, Unfit, Whole};
use serde::{Deserialize, Serialize};

use super::app::Application;

/// What processes do if nothing else is said.
pub const USUAL: &str = "p1>q2,p2";

/// The letters of processes.
const LETTERS: &str = "pqrstuvwxyz";
/// More messages than this have weights too heavy to be added up.
const MOST_MESSAGES: usize = 31;
/// More events than this of one process are taken for a slip.
const MOST_EVENTS: u32 = 1_000;

/// The state of a process.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Script {
    /// How many of its events have happened.
    pub done: u32,
    /// The messages that came before their turn, ascending.
    early: Vec<u8>,
    /// What it has received and has still to send, added up.
    owns: u64,
}

/// What happens in an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    /// Nothing that concerns others.
    Own,
    /// A message leaves for this process.
    Send(u8, NodeId),
    /// A message is taken.
    Take(u8),
}

/// What never changes.
#[derive(Clone, Debug)]
pub struct Config {
    /// The events of each process, in order.
    events: Arc<[Vec<Event>]>,
    /// How long from one event to the next, if that waits for nothing.
    every: Duration,
}

/// What processes send each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Msg {
    /// The message with this number, counted as the script names them.
    Word(u8),
}

/// The timer of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Timer {
    /// It is time for the next event.
    Step,
}

impl Protocol for Script {
    type Config = Config;
    type Request = Never;
    type Notice = Never;
    type Msg = Msg;
    type Timer = Timer;
    type Stable = Never;

    fn start(_: Option<Never>, ctx: &mut Ctx<Self>) -> Self {
        let owns = ctx.config.events[ctx.me.index()].iter().map(|event| match event {
            Event::Send(word, _) => weight(*word),
            Event::Own | Event::Take(_) => 0,
        });
        let script = Self { done: 0, early: Vec::new(), owns: owns.sum() };
        script.go_on(ctx);
        script
    }

    fn on_request(&mut self, request: Never, _: &mut Ctx<Self>) {
        match request {}
    }

    fn on_message(&mut self, _: NodeId, Msg::Word(word): Msg, ctx: &mut Ctx<Self>) {
        if word as usize >= MOST_MESSAGES {
            return;
        }
        self.owns += weight(word);
        ctx.rule(3);
        if self.next(ctx) == Some(Event::Take(word)) {
            self.done += 1;
            self.go_on(ctx);
        } else if let Err(place) = self.early.binary_search(&word) {
            self.early.insert(place, word);
        }
    }

    fn on_timer(&mut self, Timer::Step: Timer, ctx: &mut Ctx<Self>) {
        match self.next(ctx) {
            Some(Event::Own) => ctx.rule(1),
            Some(Event::Send(word, to)) => {
                ctx.rule(2);
                self.owns -= weight(word);
                ctx.send(to, Msg::Word(word));
            }
            Some(Event::Take(word)) => {
                let Ok(place) = self.early.binary_search(&word) else { return };
                ctx.rule(3);
                self.early.remove(place);
            }
            None => return,
        }
        self.done += 1;
        self.go_on(ctx);
    }

    const FACTS: bool = true;

    /// Bit 0: each message is with its sender, on its way or with its receiver, and only there.
    fn facts(whole: &Whole<'_, Self>) -> u64 {
        let processes = whole.nodes.iter().flatten().map(|script| script.owns);
        let channels = whole.messages.iter().map(|(_, _, Msg::Word(word))| weight(*word));
        let there = processes.chain(channels).fold(0, u64::wrapping_add);
        let all = whole.config.events.iter().flatten().map(|event| match event {
            Event::Send(word, _) => weight(*word),
            Event::Own | Event::Take(_) => 0,
        });
        u64::from(there == all.fold(0, u64::wrapping_add))
    }
}

impl Script {
    fn next(&self, ctx: &Ctx<Self>) -> Option<Event> {
        ctx.config.events[ctx.me.index()].get(self.done as usize).copied()
    }

    /// Sets out for the next event, unless that is the receipt of a message that is not there.
    fn go_on(&self, ctx: &mut Ctx<Self>) {
        match self.next(ctx) {
            None => {}
            Some(Event::Take(word)) if self.early.binary_search(&word).is_err() => {}
            Some(_) => ctx.set_timer(Timer::Step, ctx.config.every),
        }
    }
}

impl Application for Script {
    const NAME: &'static str = "script";

    fn constants(setup: &Setup) -> Result<Config, Unfit> {
        let text: String = setup.option("script", USUAL.to_owned())?;
        let wrong = |why: String| Unfit::new(format!("script={text}: {why}"));
        let events = read(&text).map_err(wrong)?;
        fits(&events, &setup.topology).map_err(wrong)?;
        let all = setup.topology.nodes().map(|node| events.get(&node).cloned().unwrap_or_default());
        Ok(Config { events: all.collect(), every: setup.delay / 2 })
    }

    const ADDS_UP: bool = true;

    fn worth(&self) -> u64 {
        self.owns
    }

    fn worth_of(Msg::Word(word): &Msg) -> u64 {
        weight(*word)
    }

    fn show(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.done {
            0 => f.write_str("at the beginning"),
            done => write!(f, "after event {done}"),
        }
    }

    fn show_msg(Msg::Word(word): &Msg, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "m{}", word + 1)
    }
}

fn weight(word: u8) -> u64 {
    1_u64.checked_shl(2 * u32::from(word)).unwrap_or(0)
}

/// The name of a process.
fn letter(NodeId(process): NodeId) -> char {
    LETTERS.chars().nth(process as usize).unwrap_or('?')
}

/// The events of each process, in order.
fn read(text: &str) -> Result<BTreeMap<NodeId, Vec<Event>>, String> {
    let mut events: BTreeMap<NodeId, Vec<Event>> = BTreeMap::new();
    let mut add = |name: &str, what: Event| {
        let (process, number) = event(name)?;
        let known = events.entry(process).or_default();
        known.resize(known.len().max(number), Event::Own);
        match &mut known[number - 1] {
            place @ Event::Own => *place = what,
            _ if what == Event::Own => {}
            _ => return Err(format!("{name} is in two messages, and an event is in one at most")),
        }
        Ok(process)
    };
    let mut words = 0..;
    for part in text.split(',').map(str::trim) {
        let Some((from, to)) = part.split_once('>') else {
            add(part, Event::Own)?;
            continue;
        };
        let word = words.next().filter(|word| (*word as usize) < MOST_MESSAGES);
        let word = word.ok_or_else(|| format!("there may be {MOST_MESSAGES} messages"))?;
        let (from, to) = (from.trim(), to.trim());
        let receiver = add(to, Event::Take(word))?;
        if add(from, Event::Send(word, receiver))? == receiver {
            return Err(format!("{part} stays where it is, and a message goes to another"));
        }
    }
    Ok(events)
}

/// `q2` is the second event of the second process.
fn event(name: &str) -> Result<(NodeId, usize), String> {
    let mut letters = name.chars();
    let process = letters.next().and_then(|letter| LETTERS.find(letter));
    let number = letters.as_str().parse().ok().filter(|number| (1..=MOST_EVENTS).contains(number));
    match (process, number) {
        (Some(process), Some(number)) => Ok((NodeId(process as u32), number as usize)),
        _ => Err(format!(
            "{name:?} is no event; there are p1, p2, … up to {MOST_EVENTS}, the same of q to z, and \
             messages such as p1>q2"
        )),
    }
}

/// Whether the events can happen at all, among these nodes.
fn fits(events: &BTreeMap<NodeId, Vec<Event>>, topology: &Topology) -> Result<(), String> {
    if let Some((&last, _)) = events.last_key_value()
        && last.0 >= topology.len()
    {
        let (nodes, process) = (last.0 + 1, letter(last));
        return Err(format!("process {process} needs {nodes} nodes"));
    }
    for (&from, events) in events {
        for event in events {
            if let Event::Send(_, to) = *event
                && !topology.linked(from, to)
            {
                let (from, to) = (letter(from), letter(to));
                return Err(format!("there is no link from {from} to {to}"));
            }
        }
    }
    // Whatever can happen does, until nothing can.
    let (mut done, mut sent) = (BTreeMap::<NodeId, usize>::new(), Vec::new());
    loop {
        let mut idle = true;
        for (&process, events) in events {
            let done = done.entry(process).or_default();
            while let Some(&event) = events.get(*done) {
                match event {
                    Event::Take(word) if !sent.contains(&word) => break,
                    Event::Send(word, _) => sent.push(word),
                    Event::Take(_) | Event::Own => {}
                }
                *done += 1;
                idle = false;
            }
        }
        if idle {
            let stuck = done.iter().find(|(process, done)| **done < events[process].len());
            return stuck.map_or(Ok(()), |(process, done)| {
                let (process, number) = (letter(*process), done + 1);
                Err(format!("{process}{number} receives what is sent only after it"))
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use conclave_protocol::{Effect, Time};

    use super::*;

    fn refused(text: &str) -> String {
        let setup = Setup::new(Topology::line(3)).with("script", text);
        Script::constants(&setup).expect_err("it is refused").to_string()
    }

    #[test]
    fn a_script_that_cannot_happen_is_refused_with_the_reason() {
        for (text, why) in [
            ("", "is no event"),
            ("p1>", "is no event"),
            ("a1", "is no event"),
            ("p0", "is no event"),
            ("p1>p2", "goes to another"),
            ("p1>q1,p1>q2", "p1 is in two messages"),
            ("p1>r1", "no link from p to r"),
            ("t1", "process t needs 5 nodes"),
            ("p2>q1,q2>p1", "p1 receives what is sent only after it"),
        ] {
            let refusal = refused(text);
            assert!(refusal.contains(why), "{text}: {refusal}");
            assert!(!refusal.contains('\n'));
        }
    }

    #[test]
    fn events_happen_in_their_order_and_a_message_that_is_early_waits() {
        let setup = Setup::new(Topology::complete(2)).with("script", "p1>q2, p2 >q3");
        let config = Script::constants(&setup).expect("it makes sense");
        let mut effects: Vec<Effect<Script>> = Vec::new();
        let mut ctx = Ctx::new(NodeId(1), &setup.topology, &config, Time::ZERO, &mut effects);
        let mut q = Script::start(None, &mut ctx);
        q.on_message(NodeId(0), Msg::Word(0), &mut ctx);
        assert_eq!((q.done, q.owns), (0, 1), "q1 comes first");
        q.on_timer(Timer::Step, &mut ctx);
        q.on_timer(Timer::Step, &mut ctx);
        assert_eq!(q.done, 2);
        q.on_timer(Timer::Step, &mut ctx);
        assert_eq!(q.done, 2, "there is nothing to receive");
        q.on_message(NodeId(0), Msg::Word(1), &mut ctx);
        assert_eq!((q.done, q.owns), (3, 5));
    }
}

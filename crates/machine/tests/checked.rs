//! The machine as a server among clients, in the model checker: messages in any order, clients and the
//! server crash at any moment, and the server comes back with what it had written.
//!
//! Node 0 is the server; the others are clients that enter the critical section when they hold two
//! locks. One asks for both at once, one for the first and then for the second, one the other way round;
//! the last two run into deadlocks, and a client that is told so releases what it holds and begins again.

use std::time::Duration;

use conclave_check::{Budgets, CheckSpec, Limits, Progress, Report, Verdict, check};
use conclave_machine::{
    Acquire, Call, Command, Config, Event, Machine, Mode, Open, Reply, RequestId, SessionId,
    Snapshot, Time, Token, Via, Want,
};
use conclave_protocol::{
    Client, Crashes, Ctx, Detector, Entry, HeardBy, Info, Model, Never, NodeId, Observable,
    Observation, Property, Protocol, Setup, Topology,
};
use serde::{Deserialize, Serialize};

#[test]
fn three_clients_of_a_server_exclude_each_other_and_all_get_in() {
    let properties =
        [Property::Exclusion, Property::NoDeadlock, Property::NoStarvation, Property::FenceOrder];
    let report = run(4, 2, Budgets::default(), &properties);
    for property in properties {
        assert_eq!(report.verdict(property), Some(&Verdict::Holds), "{property}");
    }
    assert_eq!(report.coverage.states, 102_550);
}

#[test]
fn two_clients_come_back_again_and_again() {
    let properties = [Property::Exclusion, Property::NoStarvation, Property::FenceOrder];
    let report = run(3, 3, Budgets::default(), &properties);
    for property in properties {
        assert_eq!(report.verdict(property), Some(&Verdict::Holds), "{property}");
    }
    assert_eq!(report.coverage.states, 4816);
}

#[test]
fn crashes_of_clients_and_of_the_server_never_let_two_clients_in() {
    let properties = [Property::Exclusion, Property::FenceOrder];
    let budgets = Budgets { crashes: 2, recoveries: 1, ..Budgets::default() };
    let report = run(3, 2, budgets, &properties);
    for property in properties {
        assert_eq!(report.verdict(property), Some(&Verdict::Holds), "{property}");
    }
    assert_eq!(report.coverage.states, 715_176);
}

fn run(nodes: u32, requests: u32, budgets: Budgets, properties: &[Property]) -> Report {
    let setup = Setup::new(Topology::complete(nodes));
    let mut spec = CheckSpec::new(&SERVICE.info, setup, 1..nodes);
    spec.requests = requests.into();
    spec.budgets = budgets;
    spec.properties = properties.to_vec();
    spec.limits = Limits { memory: 1 << 30, ..Limits::default() };
    check(&SERVICE, &spec, &Progress::default()).expect("the check makes sense")
}

static SERVICE: Entry<Node> = Entry {
    info: Info {
        id: "mutex/service",
        title: "The lock service",
        summary: "clients of one server that keeps locks",
        source: "",
        text: "",
        model: Model { crashes: Crashes::Recover, detector: Detector::Perfect, ..Model::FIFO },
        holds: &[],
        fails: &[],
        options: &[],
        mutant: None,
        ..Info::EMPTY
    },
    config: |_| Ok(()),
    clients: |(), n| 1..n,
};

const SERVER: NodeId = NodeId(0);
const LOCKS: [&str; 2] = ["a", "b"];

/// A node: the server, or a client.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Node {
    /// The machine, as it is written to disk.
    Server(Vec<u8>),
    Client {
        phase: Phase,
        requests: u64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Phase {
    Outside,
    /// Asks for both at once.
    Both,
    /// Asks for one, holding nothing.
    First,
    /// Holds one, and asks for the other.
    Second(Token),
    Inside([Token; 2]),
    /// Has crashed and come back. Its session was that of its former life, and it opens no other.
    Over,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Msg {
    /// A request with its number, for these locks.
    Acquire(u64, Vec<String>),
    Release(u64, String, Token),
    /// The answer to the request of this number.
    Granted(u64, Token),
    Deadlock(u64),
}

impl Protocol for Node {
    type Config = ();
    type Request = Ask;
    type Notice = Told;
    type Msg = Msg;
    type Timer = Never;
    type Stable = Vec<u8>;

    fn start(saved: Option<Vec<u8>>, ctx: &mut Ctx<Self>) -> Self {
        if ctx.me != SERVER {
            let phase = if saved.is_some() { Phase::Over } else { Phase::Outside };
            ctx.save(Vec::new());
            return Self::Client { phase, requests: 0 };
        }
        if let Some(bytes) = saved {
            return Self::Server(bytes);
        }
        // Client i has session i.
        let mut machine = Machine::new(Config::default());
        for _ in ctx.peers() {
            let (name, host, ttl) = ("client".into(), "host".into(), Duration::from_secs(10));
            let open = Command::Open(Open { name, host, ttl, ..Open::default() });
            machine.apply(Time::ZERO, open, &mut Vec::new()).expect("there is room");
        }
        let bytes = write(&machine);
        ctx.save(bytes.clone());
        Self::Server(bytes)
    }

    fn on_request(&mut self, request: Ask, ctx: &mut Ctx<Self>) {
        let order = order(ctx.me);
        let Self::Client { phase, .. } = self else { return };
        match (request, *phase) {
            (_, Phase::Over) => {}
            (Ask::Enter, _) => self.begin(ctx),
            (Ask::Leave, Phase::Inside(tokens)) => {
                *phase = Phase::Outside;
                for (lock, token) in order.into_iter().zip(tokens) {
                    self.release(lock, token, ctx);
                }
            }
            (Ask::Leave, _) => {}
        }
    }

    fn on_message(&mut self, from: NodeId, msg: Msg, ctx: &mut Ctx<Self>) {
        match msg {
            Msg::Acquire(number, locks) => {
                let want = |lock: String| Want { lock: lock.into(), mode: Mode::Exclusive };
                let acquire = Acquire::all(locks.into_iter().map(want));
                self.serve(
                    command(from, number, Call::Acquire(acquire)),
                    Some((from, number)),
                    ctx,
                );
            }
            Msg::Release(number, lock, token) => {
                let release = Call::Release { lock: lock.into(), token, to: None };
                self.serve(command(from, number, release), None, ctx);
            }
            Msg::Granted(number, token) => self.on_granted(number, token, ctx),
            Msg::Deadlock(number) => {
                let Self::Client { phase, requests } = self else { return };
                if number == *requests {
                    if let Phase::Second(held) = *phase {
                        self.release(order(ctx.me)[0], held, ctx);
                    }
                    self.begin(ctx);
                }
            }
        }
    }

    fn on_suspect(&mut self, peer: NodeId, ctx: &mut Ctx<Self>) {
        if peer != SERVER {
            self.serve(Command::Close { session: session(peer) }, None, ctx);
        }
    }
}

impl Node {
    /// The server carries out a command, writes down what has become of it, and only then answers.
    fn serve(&mut self, command: Command, asked: Option<(NodeId, u64)>, ctx: &mut Ctx<Self>) {
        let Self::Server(bytes) = self else { return };
        let mut machine = read(bytes);
        let mut events = Vec::new();
        let reply = machine.apply(Time::ZERO, command, &mut events);
        *bytes = write(&machine);
        ctx.save(bytes.clone());
        let answered = events.into_iter().filter_map(|event| match event {
            Event::Answered { session, request, answer } => {
                Some(((node(session), request.0), answer))
            }
            _ => None,
        });
        for ((to, number), answer) in asked.map(|asked| (asked, reply)).into_iter().chain(answered)
        {
            match answer {
                Ok(Reply::Granted { token, .. }) => ctx.send(to, Msg::Granted(number, token)),
                Err(conclave_machine::Error::Deadlock { .. }) => {
                    ctx.send(to, Msg::Deadlock(number));
                }
                // A client that has come back is not known any more, and waits.
                Ok(_) | Err(_) => {}
            }
        }
    }

    /// A client asks for what it asks for first.
    fn begin(&mut self, ctx: &mut Ctx<Self>) {
        let Self::Client { phase, .. } = self else { return };
        let both = ctx.me == NodeId(3);
        *phase = if both { Phase::Both } else { Phase::First };
        let order = order(ctx.me);
        self.acquire(if both { &order } else { &order[..1] }, ctx);
    }

    fn acquire(&mut self, locks: &[&str], ctx: &mut Ctx<Self>) {
        let locks = locks.iter().map(|&lock| lock.to_owned()).collect();
        let number = self.number();
        ctx.send(SERVER, Msg::Acquire(number, locks));
    }

    fn release(&mut self, lock: &str, token: Token, ctx: &mut Ctx<Self>) {
        let number = self.number();
        ctx.send(SERVER, Msg::Release(number, lock.to_owned(), token));
    }

    fn number(&mut self) -> u64 {
        let Self::Client { requests, .. } = self else { return 0 };
        *requests += 1;
        *requests
    }

    fn on_granted(&mut self, number: u64, token: Token, ctx: &mut Ctx<Self>) {
        let Self::Client { phase, requests } = self else { return };
        if number != *requests {
            return;
        }
        match *phase {
            Phase::First => {
                *phase = Phase::Second(token);
                self.acquire(&order(ctx.me)[1..], ctx);
            }
            Phase::Second(first) => {
                *phase = Phase::Inside([first, token]);
                ctx.notify(Told::Inside(token));
            }
            Phase::Both => {
                *phase = Phase::Inside([token, token]);
                ctx.notify(Told::Inside(token));
            }
            Phase::Outside | Phase::Inside(_) | Phase::Over => {}
        }
    }
}

/// The order in which a client asks for the locks.
fn order(client: NodeId) -> [&'static str; 2] {
    let [a, b] = LOCKS;
    if client == NodeId(2) { [b, a] } else { [a, b] }
}

fn command(client: NodeId, number: u64, call: Call) -> Command {
    let (request, received) = (RequestId(number), RequestId(number - 1));
    Command::Request { session: session(client), request, received, via: Via::Stream, call }
}

fn session(client: NodeId) -> SessionId {
    SessionId(u64::from(client.0))
}

fn node(session: SessionId) -> NodeId {
    NodeId(u32::try_from(session.0).expect("there are few"))
}

fn write(machine: &Machine) -> Vec<u8> {
    postcard::to_allocvec(&machine.snapshot()).expect("a snapshot can be written")
}

fn read(bytes: &[u8]) -> Machine {
    let snapshot: Snapshot = postcard::from_bytes(bytes).expect("it was written");
    Machine::restore(snapshot).expect("it is whole")
}

/// What the application asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Ask {
    Enter,
    Leave,
}

/// What it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Told {
    Inside(Token),
}

impl Observable for Ask {
    fn observation(&self) -> Observation {
        match self {
            Self::Enter => Observation::Asked,
            Self::Leave => Observation::Left,
        }
    }
}

impl HeardBy for Told {
    type Client = App;
}

impl Observable for Told {
    fn observation(&self) -> Observation {
        let Self::Inside(token) = self;
        Observation::Entered { token: token.0 }
    }
}

/// An application that enters and leaves.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum App {
    #[default]
    Outside,
    Waiting,
    Inside,
}

impl Client<Node> for App {
    fn requests(&self) -> impl IntoIterator<Item = Ask> {
        match self {
            Self::Outside => Some(Ask::Enter),
            Self::Waiting => None,
            Self::Inside => Some(Ask::Leave),
        }
    }

    fn on_request(&mut self, request: &Ask) {
        *self = match request {
            Ask::Enter => Self::Waiting,
            Ask::Leave => Self::Outside,
        };
    }

    fn on_notice(&mut self, _: &Told) {
        *self = Self::Inside;
    }
}

//! Messages per second between twenty hosts that play ping-pong in pairs, in this simulator and in
//! madsim's, measured in turn within one run.
//!
//! `cd benches/madsim && cargo run --release`

use std::hint::black_box;
use std::net::SocketAddr;
use std::time::Duration;

use conclave_protocol::{
    Channels, Client, Crashes, Ctx, Detector, Hosted, Info, Links, Model, Never, NodeId, Protocol, Setup,
    Timing, Topology,
};
use conclave_sim::{Delay, RunSpec, Tracing, World};
use madsim::net::Endpoint;
use madsim::runtime::Runtime;
use serde::{Deserialize, Serialize};

const HOSTS: u32 = 20;
const ROUNDS: usize = 5;
/// Messages in each measurement of this simulator and of madsim.
const OURS: u64 = 4_000_000;
const THEIRS: u64 = 400_000;

fn main() {
    let (mut off, mut traced, mut theirs) = (0.0_f64, 0.0_f64, 0.0_f64);
    for _ in 0..ROUNDS {
        off = off.max(ours(Tracing::Off));
        traced = traced.max(ours(Tracing::Events));
        theirs = theirs.max(madsim_rate());
    }
    println!("ping-pong between {HOSTS} hosts, best of {ROUNDS} alternating rounds\n");
    println!("  madsim 0.2.34         {:7.2} M messages/s", theirs / 1e6);
    println!("  conclave, no trace    {:7.2} M messages/s   ratio {:.1}", off / 1e6, off / theirs);
    println!("  conclave, traced      {:7.2} M messages/s   ratio {:.1}", traced / 1e6, traced / theirs);
}

/// CPU time of this thread, so that other programs on the machine do not count.
fn seconds(work: impl FnOnce()) -> f64 {
    let cpu = || {
        let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux has it");
        let nanos = stat.split_whitespace().next().and_then(|text| text.parse::<u64>().ok());
        nanos.expect("its first field is the time on the CPU") as f64 / 1e9
    };
    let start = cpu();
    work();
    cpu() - start
}

/// Answers every message with one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct PingPong;

/// Sixteen bytes, as in the other simulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Ball(u64, u64);

impl Protocol for PingPong {
    type Config = ();
    type Request = Never;
    type Notice = Never;
    type Msg = Ball;
    type Timer = Never;
    type Stable = Never;

    fn start(_: Option<Never>, ctx: &mut Ctx<Self>) -> Self {
        if ctx.me.0 % 2 == 0 {
            ctx.send(NodeId(ctx.me.0 + 1), Ball(0, 0));
        }
        Self
    }

    fn on_request(&mut self, request: Never, _: &mut Ctx<Self>) {
        match request {}
    }

    fn on_message(&mut self, from: NodeId, Ball(bounces, data): Ball, ctx: &mut Ctx<Self>) {
        ctx.send(from, Ball(bounces + 1, data));
    }
}

/// Nobody asks for anything.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Nobody;

impl Client<PingPong> for Nobody {
    fn requests(&self) -> impl IntoIterator<Item = Never> {
        None
    }

    fn on_request(&mut self, request: &Never) {
        match *request {}
    }

    fn on_notice(&mut self, notice: &Never) {
        match *notice {}
    }
}

const INFO: Info = Info {
    id: "bench/ping-pong",
    title: "Ping-pong",
    summary: "",
    source: "",
    text: "",
    model: Model {
        channels: Channels::Reliable,
        timing: Timing::Asynchronous,
        crashes: Crashes::None,
        partitions: false,
        detector: Detector::None,
        links: Links::Complete,
    },
    holds: &[],
    fails: &[],
    options: &[],
    mutant: None,
    ..Info::EMPTY
};

fn ours(tracing: Tracing) -> f64 {
    let mut spec = RunSpec::new(&INFO, Setup::new(Topology::complete(HOSTS)));
    // The delays of the other simulator.
    spec.delays = Delay::Uniform(Duration::from_millis(1), Duration::from_millis(10)).into();
    (spec.events, spec.tracing, spec.linger) = (OURS / 4, tracing, None);
    let took = seconds(|| {
        for seed in 0..4 {
            spec.seed = seed;
            let host = Hosted::<PingPong, Nobody>::new((), HOSTS);
            let mut world = World::new(Box::new(host), &spec);
            while world.step().is_none() {}
            black_box(world.stats());
        }
    });
    OURS as f64 / took
}

fn madsim_rate() -> f64 {
    let each = THEIRS / u64::from(HOSTS) / 2;
    let took = seconds(|| {
        let runtime = Runtime::new();
        let address = |host: u32| -> SocketAddr {
            format!("10.0.0.{}:1", host + 1).parse().expect("an address")
        };
        let mut players = Vec::new();
        for host in 0..HOSTS {
            let node = runtime.create_node().ip(address(host).ip()).build();
            let (me, peer, first) = (address(host), address(host ^ 1), host % 2 == 0);
            players.push(node.spawn(async move {
                let endpoint = Endpoint::bind(me).await.expect("bound");
                madsim::time::sleep(Duration::from_millis(1)).await;
                let mut ball = [0; 16];
                for _ in 0..2 * each {
                    if first {
                        endpoint.send_to(peer, 1, &ball).await.expect("sent");
                    }
                    endpoint.recv_from(1, &mut ball).await.expect("received");
                    if !first {
                        endpoint.send_to(peer, 1, &ball).await.expect("sent");
                    }
                }
            }));
        }
        runtime.block_on(async move {
            for player in players {
                player.await.expect("the player ends");
            }
        });
    });
    // Each pair sends two messages a bounce.
    (each * 2 * u64::from(HOSTS)) as f64 / took
}

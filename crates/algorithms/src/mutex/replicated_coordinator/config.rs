//! How many coordinators there are, which of them a client asks, and how long it waits.

use std::time::Duration;

use conclave_protocol::{BoundedCounter, Opt, Setup, Unfit};

/// How many coordinators there are, which of them a client asks, and how long it waits.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    pub(super) coordinators: u32,
    pub(super) majority: u32,
    pub(super) targets: Targets,
    pub(super) backoff: Backoff,
    /// `T`, the unit of the times.
    pub(super) unit: Duration,
    /// The limit of the first random back-off, or every constant one, in units.
    pub(super) base: u32,
    /// None if it waits for replies for ever.
    pub(super) timeout: Option<Duration>,
    pub(super) lease: Option<Duration>,
    pub(super) persist: bool,
    /// How attempts and fencing tokens are counted.
    pub(super) wrap: BoundedCounter,
}

/// The coordinators that an attempt asks.
#[derive(Clone, Copy, Debug)]
pub(super) enum Targets {
    All,
    /// m of them: at random.
    Random,
    /// Those from `first` on, one further with every client and every attempt.
    Rotate {
        first: u32,
    },
    /// Always those from `first` on.
    Fixed {
        first: u32,
    },
}

/// How long a back-off is: always the same, or drawn by lot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Backoff {
    Constant,
    Random,
}

pub(in super::super) const COORDINATORS: Opt = Opt {
    name: "coordinators",
    default: "half the nodes",
    help: "how many of the nodes, from 0 on, keep the lock",
};
pub(in super::super) const MAJORITY: Opt = Opt {
    name: "majority",
    default: "more than half of them",
    help: "how many of these must agree",
};

/// The options `coordinators` and `majority`.
pub(in super::super) fn group(setup: &Setup) -> Result<(u32, u32), Unfit> {
    let nodes = setup.n();
    let n: u32 = setup.option("coordinators", nodes / 2)?;
    if n == 0 || n >= nodes {
        let reason =
            format!("{n} of {nodes} nodes as coordinators: there must be one, and a client");
        return Err(Unfit::new(reason));
    }
    let m: u32 = setup.option("majority", n / 2 + 1)?;
    if m <= n / 2 || m > n {
        let least = n / 2 + 1;
        return Err(Unfit::new(format!("majority={m}, but for {n} it must be {least} to {n}")));
    }
    Ok((n, m))
}

/// Everything that can be set.
pub(super) const OPTIONS: &[Opt] = &[
    COORDINATORS,
    MAJORITY,
    Opt { name: "mode", default: "ask-m", help: "ask a majority (ask-m) or all (ask-all)" },
    Opt {
        name: "targets",
        default: "random",
        help: "which m to ask: random, rotate (one further each time) or fixed",
    },
    Opt { name: "first", default: "0", help: "the coordinator to rotate from" },
    Opt { name: "backoff", default: "random", help: "random or constant" },
    Opt { name: "base", default: "4", help: "longest first back-off, in T" },
    Opt { name: "timeout", default: "50", help: "longest wait for a reply, in T; 0 for ever" },
    Opt { name: "lease", default: "0", help: "how long a grant is good, in T; 0 for ever" },
    BoundedCounter::OPTION,
];

/// The constants for a system, `persist` being whether coordinators write down what they grant.
pub(super) fn config(setup: &Setup, persist: bool) -> Result<Config, Unfit> {
    let (coordinators, majority) = group(setup)?;
    let word = |name: &str, default: &str| setup.option(name, default.to_owned());
    let unknown = |name: &str, word: &str, known: &str| {
        Err(Unfit::new(format!("{name}={word} means nothing; there are {known}")))
    };
    let first = setup.option("first", 0)?;
    let targets = match (word("mode", "ask-m")?.as_str(), word("targets", "random")?.as_str()) {
        ("ask-all", _) => Targets::All,
        ("ask-m", "random") => Targets::Random,
        ("ask-m", "rotate") => Targets::Rotate { first },
        ("ask-m", "fixed") => Targets::Fixed { first },
        ("ask-m", targets) => return unknown("targets", targets, "random, rotate and fixed"),
        (mode, _) => return unknown("mode", mode, "ask-m and ask-all"),
    };
    let backoff = match word("backoff", "random")?.as_str() {
        "random" => Backoff::Random,
        "constant" => Backoff::Constant,
        other => return unknown("backoff", other, "random and constant"),
    };
    let (timeout, lease): (u32, u32) = (setup.option("timeout", 50)?, setup.option("lease", 0)?);
    Ok(Config {
        coordinators,
        majority,
        targets,
        backoff,
        unit: setup.delay,
        base: setup.option("base", 4_u32)?.max(1),
        timeout: (timeout > 0).then(|| setup.delay * timeout),
        lease: (lease > 0).then(|| setup.delay * lease),
        persist,
        wrap: BoundedCounter::of(setup)?,
    })
}

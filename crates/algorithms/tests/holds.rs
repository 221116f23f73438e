//! Every property an algorithm promises holds over many seeds and sizes; every mutant is refuted.
//!
//! One test per entry of the catalogue: `cargo test -p conclave-algorithms --test holds lamport`.

mod support;

use std::ops::RangeInclusive;

use conclave_algorithms::catalogue::{self, Visitor};
use conclave_protocol::{Channels, Client, Entry, Info, Protocol, Reliable, Setup};
use conclave_sim::run;
use libtest_mimic::{Arguments, Failed, Trial};
use support::{places, random_election, random_spec, random_watch, topology, verdict};

/// How many seeds each entry is run with, spread over the sizes.
const SEEDS: u64 = 240;
const SIZES: RangeInclusive<u32> = 2..=9;

fn main() {
    let trials = catalogue::ALL.iter().map(|info| {
        Trial::test(info.id, || {
            catalogue::visit(info.id, Check(info)).expect("it is in the catalogue")
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit();
}

struct Check(&'static Info);

impl Visitor for Check {
    type Output = Result<(), Failed>;

    fn visit<P, C>(self, entry: &'static Entry<P>) -> Result<(), Failed>
    where
        P: Protocol,
        C: Client<P> + Client<Reliable<P>>,
    {
        let Self(info) = self;
        let (mut runs, mut events, mut refuted) = (0_u64, 0_u64, 0_u64);
        for seed in 0..SEEDS {
            let span = u64::from(SIZES.end() - SIZES.start() + 1);
            let n = SIZES.start() + (seed % span) as u32;
            let setup = Setup::new(topology(entry, n, seed));
            // Some algorithms need a certain number of nodes.
            if (entry.config)(&setup).is_err() {
                continue;
            }
            let places = places(info, &setup)?;
            let mut spec = match info.family() {
                "election" => random_election(entry, setup, seed),
                "fd" => random_watch(entry, setup, seed),
                _ => random_spec(entry, setup, seed),
            };
            // An algorithm that allows reordering gets it every other time.
            if spec.channels == Channels::Reliable && seed % 2 == 0 {
                spec.channels = Channels::Fifo;
            }
            assert_eq!(spec.beyond(info), [], "the run keeps the model");
            let outcome = run::<P, C>(entry, &spec)?;
            runs += 1;
            events += outcome.stats.events;
            for &property in info.holds {
                let verdict = verdict(property, &outcome, places);
                if !verdict.held() {
                    let id = info.id;
                    return Err(format!("{id}: {property} n={n} seed={seed}: {verdict:?}").into());
                }
            }
            if let Some(mutant) = info.mutant {
                refuted += u64::from(verdict(mutant.breaks, &outcome, places).is_violated());
            }
        }
        println!("{}: {runs} runs, {events} events, {refuted} refutations", info.id);
        if runs < 200 / 8 {
            return Err(format!("only {runs} runs").into());
        }
        match info.mutant {
            Some(mutant) if refuted == 0 => {
                Err(format!("{} never breaks {}", info.id, mutant.breaks).into())
            }
            _ => Ok(()),
        }
    }
}

//! Every algorithm the laboratory knows: those of the catalogue, and those that a program adds.

use std::sync::OnceLock;

use conclave_algorithms::catalogue::ALL;
pub use conclave_algorithms::catalogue::{TOPICS, Topic, topic};
use conclave_protocol::{Algorithm, Info};

/// What a program has added, and how users call that program.
static OWN: OnceLock<(&'static str, &'static [&'static dyn Algorithm])> = OnceLock::new();

/// Adds the algorithms of a program that users call `program` to those of the catalogue: once, and
/// before anything else is asked for. Refuses ids that there are already, and ids without a family.
pub fn add(program: &'static str, own: &'static [&'static dyn Algorithm]) -> Result<(), String> {
    for (place, algorithm) in own.iter().enumerate() {
        let id = algorithm.info().id;
        if !id.split_once('/').is_some_and(|(family, name)| !family.is_empty() && !name.is_empty())
        {
            return Err(format!("{id} should be a family and a name: mine/{id}"));
        }
        let before = ALL.iter().chain(&own[..place]);
        if before.map(|known| known.info().id).any(|known| known == id) {
            return Err(format!("there is an algorithm called {id} already"));
        }
    }
    OWN.set((program, own)).map_err(|_| "algorithms were added before".to_owned())
}

/// How users call the program: commands that are printed begin with it.
pub fn program() -> &'static str {
    OWN.get().map_or("conclave", |(program, _)| program)
}

/// Everything that can be run: the catalogue in its order, then what was added.
pub fn all() -> impl Iterator<Item = &'static dyn Algorithm> {
    let own = OWN.get().map_or(&[][..], |(_, own)| own);
    ALL.iter().chain(own).copied()
}

/// The algorithm called `id`.
pub fn algorithm(id: &str) -> Option<&'static dyn Algorithm> {
    all().find(|algorithm| algorithm.info().id == id)
}

/// What is said about every algorithm.
pub fn infos() -> impl Iterator<Item = &'static Info> {
    all().map(Algorithm::info)
}

/// What is said about the algorithm called `id`.
pub fn find(id: &str) -> Option<&'static Info> {
    algorithm(id).map(Algorithm::info)
}

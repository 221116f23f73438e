//! What the catalogue claims, as checks that show it.
//!
//! The claims stand beside the entries, in [`Info::claims`] and, for larger systems that take
//! long, in [`Info::deep`].

use crate::catalogue;
use conclave_check::CheckSpec;
pub use conclave_protocol::claims::{Check, Expected, Size};
use conclave_protocol::{Family, Info, Property, Setup, Topology, Unfit};

/// The check of the entry that `info` describes; `None` if the checker cannot tell.
pub fn spec(check: &Check, info: &Info) -> Option<Result<CheckSpec, Unfit>> {
    if matches!(check.expected, Expected::Unchecked(_)) {
        return None;
    }
    let setup = setup(check, info);
    let clients = match check.clients {
        Some((first, end)) => Ok(first..end),
        None => crate::clients(info.id, &setup)?,
    };
    let clients = match clients {
        Ok(clients) => clients,
        Err(unfit) => return Some(Err(unfit)),
    };
    let mut spec = CheckSpec::new(info, setup, clients);
    spec.requests = check.requests;
    spec.channels = check.channels.unwrap_or(spec.channels);
    spec.timers = check.timers.unwrap_or(spec.timers);
    spec.budgets = check.budgets;
    if let Some((first, end)) = check.mortal {
        spec.mortal = first..end;
    }
    spec.properties = check.properties.to_vec();
    if let Size::Bounded(depth) = check.size {
        spec.limits.depth = Some(depth);
    }
    Some(Ok(spec))
}

/// The make-up of the system.
fn setup(check: &Check, info: &Info) -> Setup {
    let topology = match (check.shape, info.model.links) {
        (Some(name), _) => Topology::named(name, check.nodes).expect("claims name shapes"),
        (None, links) => Topology::of(links, check.nodes),
    };
    let setup = Setup::new(topology);
    check.options.iter().fold(setup, |setup, (name, value)| setup.with(name, value))
}

/// The entries of the families that properties are stated for, and of their properties those that
/// they promise, disclaim or, as mutants, break.
pub fn owed() -> impl Iterator<Item = (&'static Info, Vec<Property>, Vec<Property>)> {
    let checked = |info: &&Info| !Family::of(info).promises.is_empty();
    catalogue::infos().filter(checked).map(|info| {
        let mut fails: Vec<Property> = info.fails.iter().map(|(property, _)| *property).collect();
        fails.extend(info.mutant.map(|mutant| mutant.breaks));
        fails.sort_unstable();
        fails.dedup();
        (info, info.holds.to_vec(), fails)
    })
}

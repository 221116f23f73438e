//! How good the superpeers are that a run ends with.

use std::collections::BTreeMap;

use conclave_protocol::{NodeId, Point, Topology};
use serde::Serialize;

use crate::{Leaders, Rng};

/// What is asked of superpeers, and what came out.
#[derive(Clone, Debug, Serialize)]
pub struct Superpeers {
    /// How many there are.
    pub count: usize,
    /// Live nodes that no live superpeer serves.
    pub unserved: usize,
    /// How many nodes a superpeer serves on average.
    pub load_mean: f64,
    /// And at most.
    pub load_most: usize,
    /// If nodes have places: how far things are.
    pub space: Option<Spacing>,
}

/// How superpeers lie, in units of length; there is about one node to a unit square or cube.
#[derive(Clone, Debug, Serialize)]
pub struct Spacing {
    /// From a node to its superpeer, on average.
    pub reach_mean: f64,
    /// And at most.
    pub reach_most: f64,
    /// From a superpeer to the nearest other.
    pub gap: Gap,
    /// The same if as many nodes are picked at random.
    pub random: Gap,
    /// The same on a regular grid, where all gaps are equal.
    pub grid: f64,
}

/// Distances from each of some points to the nearest other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Gap {
    /// The least.
    pub least: f64,
    /// The mean.
    pub mean: f64,
}

/// Random placements are averaged over so many draws.
const DRAWS: u32 = 20;

impl Superpeers {
    /// Looks at who serves whom when a run is over.
    pub fn of(leaders: &Leaders, topology: &Topology) -> Self {
        let mut load: BTreeMap<NodeId, usize> = leaders.leaders().map(|node| (node, 0)).collect();
        let mut unserved = 0;
        let mut reach = Vec::new();
        for node in leaders.live() {
            let served = leaders.leader_of(node).and_then(|(by, _)| Some((by, load.get_mut(&by)?)));
            let Some((by, load)) = served else {
                unserved += 1;
                continue;
            };
            *load += 1;
            reach.extend(topology.point(node).zip(topology.point(by)).map(|(a, b)| a.distance(b)));
        }
        let count = load.len();
        let served: usize = load.values().sum();
        let places: Vec<Point> = load.keys().filter_map(|node| topology.point(*node)).collect();
        let space = (!reach.is_empty()).then(|| Spacing {
            reach_mean: reach.iter().sum::<f64>() / reach.len() as f64,
            reach_most: reach.iter().copied().fold(0.0, f64::max),
            gap: Gap::of(&places),
            random: random(topology, count),
            grid: topology.even_spacing(count as u32),
        });
        Self {
            count,
            unserved,
            load_mean: if count == 0 { 0.0 } else { served as f64 / count as f64 },
            load_most: load.into_values().max().unwrap_or(0),
            space,
        }
    }

    /// The four things that are asked of superpeers, each with whether it is so: that they are near,
    /// that they are spread evenly, that there are as many as wanted, and that none has too much to
    /// do.
    pub fn judged(&self, wanted: f64) -> [(bool, String); 4] {
        let Self { count, load_mean, load_most, .. } = self;
        let near = match &self.space {
            // The corner of a grid cell is 0.7 of its side away, that of a cube 0.87.
            Some(Spacing { reach_mean, reach_most, grid, .. }) => {
                let most = 2.0 * grid;
                let text = format!(
                    "near: {reach_most:.1} away at most, {reach_mean:.1} on average (at most {most:.1})"
                );
                (*reach_most <= most, text)
            }
            None => (self.unserved == 0, "near: one lookup away, for everybody".to_owned()),
        };
        let spread = match &self.space {
            Some(Spacing { gap, random, grid, .. }) => {
                let text = format!(
                    "spread: nearest two {:.1} apart, {:.1} on average; at random {:.1} and {:.1}, on a \
                     grid {grid:.1}",
                    gap.least, gap.mean, random.least, random.mean
                );
                (gap.least > random.least && gap.mean > random.mean, text)
            }
            None => {
                let even = *load_most as f64 <= 4.0 * load_mean;
                (even, format!("spread: one to each group of keys, {count} in all"))
            }
        };
        let tolerance = (wanted * 0.05).max(1.0);
        let share = (
            (*count as f64 - wanted).abs() <= tolerance,
            format!("share: {count}, wanted {wanted:.1} give or take {tolerance:.1}"),
        );
        let most = 4.0 * load_mean;
        let load = (
            *load_most as f64 <= most,
            format!("load: {load_most} at most, {load_mean:.1} on average (at most {most:.1})"),
        );
        [near, spread, share, load]
    }
}

impl Gap {
    /// Of these points; nothing, if there are fewer than two.
    pub fn of(points: &[Point]) -> Self {
        let nearest = |(i, a): (usize, &Point)| {
            let others = points.iter().enumerate().filter(|(j, _)| *j != i);
            others.map(|(_, b)| a.distance_squared(*b)).min()
        };
        let nearest: Vec<f64> = points
            .iter()
            .enumerate()
            .filter_map(nearest)
            .map(|squared| (squared as f64).sqrt() / f64::from(Point::UNIT))
            .collect();
        if nearest.is_empty() {
            return Self::default();
        }
        let mean = nearest.iter().sum::<f64>() / nearest.len() as f64;
        Self { least: nearest.into_iter().fold(f64::MAX, f64::min), mean }
    }
}

/// The gaps of nodes picked at random, averaged over several draws.
fn random(topology: &Topology, count: usize) -> Gap {
    let mut rng = Rng::new(0).fork(7);
    let mut sum = Gap::default();
    for _ in 0..DRAWS {
        let mut nodes: Vec<NodeId> = topology.nodes().collect();
        rng.shuffle(&mut nodes);
        let picked = nodes.iter().take(count).filter_map(|node| topology.point(*node));
        let gap = Gap::of(&picked.collect::<Vec<_>>());
        sum.least += gap.least / f64::from(DRAWS);
        sum.mean += gap.mean / f64::from(DRAWS);
    }
    sum
}

#[cfg(test)]
mod tests {
    use conclave_protocol::{Observation, Time};

    use super::*;
    use crate::{Event, Record, Trace};

    #[test]
    fn superpeers_are_counted_and_measured() {
        // 0 1 2
        // 3 4 5
        // 6 7 8
        let grid = Topology::grid(9);
        // A node whose leader is no superpeer, like p6, is not served.
        let follows = [(0, 0), (1, 0), (2, 0), (3, 0), (4, 8), (5, 8), (6, 3), (7, 8), (8, 8)];
        let record = |(node, by)| {
            let mark = Observation::Follows { leader: NodeId(by), epoch: 1 };
            Record::new(Time::ZERO, NodeId(node), 0, Event::Notice(mark))
        };
        let records = follows.into_iter().map(record).collect();
        let leaders = Trace { nodes: 9, records, ..Trace::default() }.leaders();
        let found = Superpeers::of(&leaders, &grid);
        assert_eq!((found.count, found.unserved, found.load_most), (2, 1, 4));
        let space = found.space.as_ref().unwrap();
        assert_eq!(space.reach_most, 2.0);
        assert_eq!(space.gap, Gap { least: 8_f64.sqrt(), mean: 8_f64.sqrt() });
        assert!(space.random.least < space.gap.least);
        let judged = found.judged(2.0);
        assert!(judged.iter().all(|(well, _)| *well), "{judged:?}");
        assert!(!found.judged(5.0)[2].0, "there are too few");
    }
}

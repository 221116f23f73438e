//! Topologies drawn at random.

use std::collections::BTreeMap;

use conclave_protocol::{NodeId, Point, Topology, TopologyError};

use crate::Rng;

/// The shapes that [`shape`] draws, with a word on each.
pub const DRAWN: [(&str, &str); 4] = [
    ("tree", "a random tree: each node hangs on an earlier one"),
    ("geometric", "random places in a square, linked with those nearby, as by radio"),
    ("geometric3", "likewise in a cube"),
    ("dht", "random keys of 64 bits on a ring"),
];

/// The topology called `name`, of `n` nodes: a [regular](Topology::SHAPES) one, or one
/// [drawn](DRAWN) by `seed`.
pub fn shape(name: &str, n: u32, seed: u64) -> Result<Topology, TopologyError> {
    // Nothing is drawn before it is known to fit.
    Topology::named("line", n)?;
    let mut rng = Rng::new(seed).fork(5);
    match name {
        "tree" => tree(n, &mut rng),
        "geometric" => geometric(n, 2, &mut rng),
        "geometric3" => geometric(n, 3, &mut rng),
        "dht" => Topology::dht(64, keys(n, 64, &mut rng)),
        _ => Topology::named(name, n),
    }
}

fn tree(n: u32, rng: &mut Rng) -> Result<Topology, TopologyError> {
    let parent = |child: u32| NodeId(rng.below(u64::from(child)) as u32);
    Topology::tree((1..n).map(parent).collect())
}

/// So many different keys, ascending.
pub(crate) fn keys(n: u32, bits: u32, rng: &mut Rng) -> Vec<u64> {
    let mut keys: Vec<u64> = Vec::new();
    while keys.len() < n as usize {
        let missing = n as usize - keys.len();
        keys.extend((0..missing).map(|_| rng.bits() >> (64 - bits)));
        keys.sort_unstable();
        keys.dedup();
    }
    keys
}

/// Nodes at random places, one to a unit of space, linked with all that are near enough for the
/// graph to be connected but for a few stragglers; those are linked with whom they are nearest to.
fn geometric(n: u32, dimensions: usize, rng: &mut Rng) -> Result<Topology, TopologyError> {
    let side = f64::from(n).powf(1.0 / dimensions as f64);
    let span = (side * f64::from(Point::UNIT)).ceil().max(1.0) as u64;
    let mut place = || {
        let mut point = Point::default();
        point.0[..dimensions].fill_with(|| rng.below(span) as i32);
        point
    };
    let points: Vec<Point> = (0..n).map(|_| place()).collect();
    // So many neighbours on average leave hardly anybody alone. Machines may disagree about the
    // last digit of a logarithm; a run's specification holds the links themselves.
    let degree = 1.5 * f64::from(n).ln() + 3.0;
    let volume =
        if dimensions == 2 { std::f64::consts::PI } else { 4.0 / 3.0 * std::f64::consts::PI };
    let radius = (degree / volume).powf(1.0 / dimensions as f64);
    let cells = Cells::new(&points, (radius * f64::from(Point::UNIT)) as i32 + 1);
    let reach = (radius * f64::from(Point::UNIT)).powi(2) as u64;
    let mut links = Vec::new();
    let mut groups = Groups::new(n);
    for (a, &here) in (0..n).zip(&points) {
        for b in cells.around(here, 1) {
            if b > a && here.distance_squared(points[b as usize]) <= reach {
                links.push((NodeId(a), NodeId(b)));
                groups.join(a, b);
            }
        }
    }
    // The representative of a group without node 0 searches in ever larger distances.
    for a in 1..n {
        while groups.of(a) == a {
            let here = points[a as usize];
            let near = |rings: i32| {
                let others = cells.around(here, rings).filter(|&b| groups.root(b) != a);
                others.min_by_key(|&b| (here.distance_squared(points[b as usize]), b))
            };
            let b = (2..).find_map(near).expect("node 0 is in another group");
            links.push((NodeId(a), NodeId(b)));
            groups.join(a, b);
        }
    }
    Topology::graph(n, &links)?.placed(points)
}

/// Points by the cube they are in.
struct Cells {
    size: i32,
    members: BTreeMap<[i32; 3], Vec<u32>>,
}

impl Cells {
    fn new(points: &[Point], size: i32) -> Self {
        let mut members: BTreeMap<_, Vec<u32>> = BTreeMap::new();
        for (i, point) in (0..).zip(points) {
            members.entry(point.0.map(|x| x / size)).or_default().push(i);
        }
        Self { size, members }
    }

    /// Everybody at most so many cells away.
    fn around(&self, point: Point, rings: i32) -> impl Iterator<Item = u32> + '_ {
        let [x, y, z] = point.0.map(|x| x / self.size);
        let near = move |at: i32| at - rings..=at + rings;
        let cells =
            near(x).flat_map(move |x| near(y).flat_map(move |y| near(z).map(move |z| [x, y, z])));
        cells.filter_map(|cell| self.members.get(&cell)).flatten().copied()
    }
}

/// Which nodes are linked, directly or not.
struct Groups(Vec<u32>);

impl Groups {
    fn new(n: u32) -> Self {
        Self((0..n).collect())
    }

    /// The node that stands for the group of `a`.
    fn root(&self, mut a: u32) -> u32 {
        while self.0[a as usize] != a {
            a = self.0[a as usize];
        }
        a
    }

    /// Likewise, and makes the next search shorter.
    fn of(&mut self, mut a: u32) -> u32 {
        while self.0[a as usize] != a {
            self.0[a as usize] = self.0[self.0[a as usize] as usize];
            a = self.0[a as usize];
        }
        a
    }

    fn join(&mut self, a: u32, b: u32) {
        let (a, b) = (self.of(a), self.of(b));
        self.0[a.max(b) as usize] = a.min(b);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_is_connected_and_the_same_for_the_same_seed() {
        for (name, _) in Topology::SHAPES.into_iter().chain(DRAWN) {
            for n in [1, 2, 3, 10, 500] {
                let drawn = shape(name, n, 7).unwrap();
                assert_eq!((drawn.len(), drawn == shape(name, n, 7).unwrap()), (n, true), "{name}");
                assert!(drawn.distances(NodeId(0)).iter().all(|&d| d != u32::MAX), "{name} {n}");
            }
        }
        assert_ne!(shape("geometric", 50, 1), shape("geometric", 50, 2));
        assert!(matches!(shape("blob", 5, 0), Err(TopologyError::UnknownShape(_))));
        assert!(matches!(shape("geometric", 0, 0), Err(TopologyError::Empty)));
    }

    #[test]
    fn stragglers_are_linked_with_whom_they_are_nearest_to() {
        // At this size some seeds leave groups apart, which would make the graph an error.
        for seed in 0..300 {
            for dimensions in [2, 3] {
                let mut rng = Rng::new(seed);
                assert!(geometric(12, dimensions, &mut rng).is_ok(), "seed {seed}");
            }
        }
    }

    #[test]
    fn places_are_one_to_a_unit_of_space() {
        let drawn = shape("geometric3", 8_000, 3).unwrap();
        let most = drawn.nodes().flat_map(|node| drawn.point(node).unwrap().0).max().unwrap();
        assert!((19 * Point::UNIT..=20 * Point::UNIT).contains(&most), "{most}");
        let degree = 2.0 * drawn.links() as f64 / 8_000.0;
        assert!((10.0..20.0).contains(&degree), "{degree}");
    }
}

//! Voting sets: sizes, loads, intersections, and for which numbers of nodes there are any.

use conclave_algorithms::mutex::maekawa;
use conclave_algorithms::quorum::{Construction, Quorums, least_size};
use conclave_protocol::{NodeId, NodeSet, Setup, Topology};

use Construction::{Best, CyclicCover, Grid, Majority, ProjectivePlane};

fn family(construction: Construction, n: u32) -> Quorums {
    let quorums = Quorums::new(construction, n).unwrap_or_else(|unfit| panic!("{unfit}"));
    // All pairs, whatever the construction itself thought enough to check.
    quorums.check().unwrap_or_else(|why| panic!("{construction} of {n}: {why}"));
    quorums
}

fn ids(set: &NodeSet) -> Vec<u32> {
    set.iter().map(|node| node.0).collect()
}

fn sets(quorums: &Quorums) -> Vec<Vec<u32>> {
    quorums.iter().map(|(_, set)| ids(&set)).collect()
}

/// How many voters each pair of sets shares, over all pairs.
fn overlaps(quorums: &Quorums) -> Vec<usize> {
    let all: Vec<NodeSet> = quorums.iter().map(|(_, set)| set).collect();
    let mut shared = Vec::new();
    for (i, a) in all.iter().enumerate() {
        shared.extend(all[..i].iter().map(|b| a.intersection(b).len()));
    }
    shared
}

fn refusal(construction: Construction, n: u32) -> String {
    Quorums::new(construction, n).expect_err("there is none").to_string()
}

#[test]
fn the_planes_of_three_and_seven_are_those_of_the_textbooks() {
    assert_eq!(sets(&family(ProjectivePlane, 3)), [[0, 1], [1, 2], [0, 2]]);
    assert_eq!(
        sets(&family(ProjectivePlane, 7)),
        [[0, 1, 2], [1, 3, 5], [2, 4, 5], [0, 3, 4], [1, 4, 6], [0, 5, 6], [2, 3, 6]]
    );
}

#[test]
fn in_a_projective_plane_any_two_sets_share_exactly_one_voter() {
    for order in [1, 2, 3, 4, 5, 7, 8, 9, 11, 13, 16] {
        let n = order * order + order + 1;
        let plane = family(ProjectivePlane, n);
        assert_eq!(plane.size(), order as usize + 1);
        assert_eq!(plane.size(), least_size(n) as usize);
        assert!(overlaps(&plane).iter().all(|&shared| shared == 1), "order {order}");
    }
}

#[test]
fn where_there_is_no_plane_the_error_says_what_would_do() {
    assert_eq!(
        refusal(ProjectivePlane, 8),
        "there is no projective plane for 8 nodes; 7 and 13 have one; \
         cyclic-cover works for any number"
    );
    // 43 = 6·7 + 1 and 111 = 10·11 + 1, but neither 6 nor 10 is a power of a prime.
    assert!(refusal(ProjectivePlane, 43).contains("31 and 57 have one"));
    assert!(refusal(ProjectivePlane, 111).contains("91 and 133 have one"));
    assert!(refusal(ProjectivePlane, 2).contains("for 2 nodes; 3 nodes have one"));
    assert_eq!(
        refusal(Grid, 8),
        "8 nodes do not fill a square grid; 4 and 9 do; cyclic-cover works for any number"
    );
}

#[test]
fn a_cyclic_cover_exists_for_every_number_of_nodes() {
    for n in 1..400 {
        let cover = family(CyclicCover, n);
        let root = (1..).find(|b| b * b >= n).expect("every number has a root") as usize;
        assert!(cover.size() <= 2 * root, "{n}: {}", cover.size());
        assert!(cover.size() >= least_size(n) as usize);
    }
    assert_eq!(ids(&family(CyclicCover, 9).of(NodeId(8))), [0, 1, 3, 8]);
}

/// Whether some `size` numbers, 0 among them, have differences that come to all of `n`.
fn some_set_covers(n: u32, size: u32) -> bool {
    fn extend(n: u32, left: u32, from: u32, chosen: &mut Vec<u32>) -> bool {
        if left == 0 {
            let mut met = vec![false; n as usize];
            for a in chosen.iter() {
                chosen.iter().for_each(|b| met[((a + n - b) % n) as usize] = true);
            }
            return met.into_iter().all(|met| met);
        }
        (from..n).any(|d| {
            chosen.push(d);
            let covers = extend(n, left - 1, d + 1, chosen);
            chosen.pop();
            covers
        })
    }
    extend(n, size - 1, 1, &mut vec![0])
}

#[test]
fn up_to_31_nodes_no_smaller_set_covers() {
    for n in 2..=31 {
        let size = family(CyclicCover, n).size() as u32;
        assert!(!some_set_covers(n, size - 1), "{n}");
        // By counting alone, these could do with one voter less.
        let more = u32::from([20, 29, 30].contains(&n));
        assert_eq!(size, least_size(n) + more, "{n}");
    }
}

#[test]
fn the_root_rounded_up_is_too_small_for_a_third_of_the_numbers() {
    let root = |n: u32| (1..).find(|b| b * b >= n).expect("every number has a root");
    let wrong: Vec<u32> = (2..=31).filter(|&n| least_size(n) != root(n)).collect();
    assert_eq!(wrong, [4, 8, 9, 14, 15, 16, 22, 23, 24, 25]);
    assert!(wrong.iter().all(|&n| least_size(n) == root(n) + 1));
}

#[test]
fn large_families_are_built_without_listing_their_sets() {
    for (n, size) in [(10_303, 102), (65_793, 257), (995_007, 998)] {
        let plane = Quorums::new(Best, n).expect("it exists");
        assert_eq!(plane.size(), size);
        let (a, b) = (plane.of(NodeId(1)), plane.of(NodeId(n - 1)));
        assert_eq!(a.intersection(&b).len(), 1);
    }
    assert!(Quorums::new(Best, 1_000_000).expect("there is a cover").size() <= 2_000);
}

#[test]
fn in_a_grid_sets_share_two_voters_or_a_whole_line() {
    for side in 1..=8 {
        let grid = family(Grid, side * side);
        assert_eq!(grid.size(), 2 * side as usize - 1);
        let lines = [2, side as usize];
        assert!(overlaps(&grid).iter().all(|shared| lines.contains(shared)), "{side}");
    }
    let nine = family(Grid, 9);
    assert_eq!(ids(&nine.of(NodeId(0))), [0, 1, 2, 3, 6]);
    assert_eq!(ids(&nine.of(NodeId(4))), [1, 3, 4, 5, 7]);
}

#[test]
fn a_majority_is_one_more_than_half() {
    for n in 1..=40 {
        assert_eq!(family(Majority, n).size(), n as usize / 2 + 1);
    }
    assert_eq!(ids(&family(Majority, 5).of(NodeId(3))), [0, 3, 4]);
}

#[test]
fn the_best_family_is_a_plane_if_there_is_one() {
    for n in 1..=100 {
        let plane = Quorums::new(ProjectivePlane, n);
        let best = family(Best, n);
        assert_eq!(best, plane.unwrap_or_else(|_| family(CyclicCover, n)));
    }
}

#[test]
fn the_option_names_a_family_or_lists_them() {
    let setup = |name: &str| Setup::new(Topology::complete(9)).with("quorum", name);
    for (name, construction) in Construction::ALL {
        assert_eq!(name.parse(), Ok(construction));
        assert_eq!(construction.to_string(), name);
        let fits = (maekawa::PLAIN.config)(&setup(name)).is_ok();
        assert_eq!(fits, construction != ProjectivePlane);
    }
    let unknown = (maekawa::PLAIN.config)(&setup("tree")).expect_err("there is none");
    assert_eq!(
        unknown.to_string(),
        "quorum=tree cannot be read: there are best, projective-plane, cyclic-cover, grid, majority"
    );
}

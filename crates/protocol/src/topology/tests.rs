use super::*;

fn neighbors(topology: &Topology, node: u32) -> Vec<u32> {
    topology.neighbors(NodeId(node)).map(|node| node.0).collect()
}

#[test]
fn shapes_have_the_neighbours_one_expects() {
    assert_eq!(neighbors(&Topology::complete(4), 1), [0, 2, 3]);
    assert_eq!(neighbors(&Topology::ring(4), 3), [0]);
    assert_eq!(neighbors(&Topology::line(4), 0), [1]);
    assert_eq!(neighbors(&Topology::line(4), 2), [1, 3]);
    assert_eq!(neighbors(&Topology::star(4), 0), [1, 2, 3]);
    assert_eq!(neighbors(&Topology::star(4), 3), [0]);
    assert_eq!(neighbors(&Topology::binary(6), 2), [0, 5]);
    let tree = Topology::tree([0, 0, 2, 2].map(NodeId).to_vec()).unwrap();
    assert_eq!(neighbors(&tree, 2), [0, 3, 4]);
    let graph = Topology::graph(3, &[(NodeId(0), NodeId(2)), (NodeId(2), NodeId(1))]).unwrap();
    assert_eq!(neighbors(&graph, 2), [0, 1]);
}

#[test]
fn links_are_those_between_neighbours() {
    let tree = Topology::tree([0, 0, 2, 2].map(NodeId).to_vec()).unwrap();
    let graph = Topology::graph(3, &[(NodeId(0), NodeId(2)), (NodeId(2), NodeId(1))]).unwrap();
    let one_way = [(0, 1), (1, 2), (2, 0), (0, 2)].map(|(a, b)| (NodeId(a), NodeId(b)));
    let digraph = Topology::digraph(3, &one_way).unwrap();
    let shapes =
        [Topology::complete(5), Topology::ring(5), Topology::binary(7), tree, graph, digraph];
    for shape in shapes.iter().chain(&[Topology::line(5), Topology::star(5)]) {
        for a in shape.nodes() {
            let linked = shape.nodes().filter(|&b| a != b && shape.linked(a, b));
            assert!(linked.eq(shape.neighbors(a)), "{shape} at {a}");
            let sources = shape.nodes().filter(|&b| a != b && shape.linked(b, a));
            assert!(sources.eq(shape.sources(a)), "{shape} to {a}");
        }
        let each = shape.nodes().map(|node| shape.neighbors(node).count() as u64);
        assert_eq!(shape.channels(), each.sum::<u64>(), "{shape}");
    }
}

#[test]
fn next_hops_lead_along_the_tree() {
    for tree in [Topology::line(9), Topology::star(9), Topology::binary(9)] {
        for from in tree.nodes() {
            let distances = tree.distances(from);
            for to in tree.nodes() {
                let (mut at, mut hops) = (from, 0);
                while let Some(next) = tree.next_hop(at, to) {
                    assert!(tree.linked(at, next));
                    (at, hops) = (next, hops + 1);
                }
                assert_eq!((at, hops), (to, distances[to.index()]));
            }
        }
    }
}

#[test]
fn impossible_topologies_are_refused() {
    assert_eq!(Topology::named("ring", 0), Err(TopologyError::Empty));
    let many = Topology::MOST_NODES + 1;
    assert_eq!(Topology::named("ring", many), Err(TopologyError::TooLarge(many)));
    assert!(Topology::named("torus", 3).unwrap_err().to_string().contains("complete, ring"));
    assert_eq!(Topology::tree(vec![NodeId(1)]), Err(TopologyError::BadParent(NodeId(1))));
    let lonely = Topology::graph(3, &[(NodeId(0), NodeId(1))]);
    assert_eq!(lonely, Err(TopologyError::Disconnected(NodeId(2))));
    let loose = Topology::graph(2, &[(NodeId(0), NodeId(7))]);
    assert_eq!(loose, Err(TopologyError::BadLink(NodeId(0), NodeId(7))));
}

#[test]
fn what_is_read_is_checked() {
    let read = |n, shape| Topology::try_from(Written { n, shape, points: Vec::new() });
    let parents =
        |ids: &[u32]| Shape::Tree(ids.iter().copied().map(NodeId).collect::<Vec<_>>().into());
    assert_eq!(read(3, parents(&[0, 1])), Topology::tree(vec![NodeId(0), NodeId(1)]));
    assert_eq!(read(3, parents(&[5, 9])), Err(TopologyError::BadParent(NodeId(1))));
    assert_eq!(read(4, parents(&[0, 1])), Err(TopologyError::Contradictory));
    assert_eq!(read(0, Shape::Ring), Err(TopologyError::Empty));
    assert_eq!(read(u32::MAX, Shape::Line), Err(TopologyError::TooLarge(u32::MAX)));
    let pair = Shape::Graph(vec![vec![NodeId(1)], vec![NodeId(0)]]);
    assert_eq!(read(2, pair), Topology::graph(2, &[(NodeId(0), NodeId(1))]));
    let one_way = Shape::Graph(vec![vec![NodeId(1)], vec![]]);
    assert_eq!(read(2, one_way), Err(TopologyError::Contradictory));
    let loose = Shape::Graph(vec![vec![NodeId(7)], vec![]]);
    assert_eq!(read(2, loose), Err(TopologyError::BadLink(NodeId(0), NodeId(7))));
}

#[test]
fn a_grid_is_as_square_as_it_can_be() {
    let grid = Topology::grid(7);
    // 0 1 2
    // 3 4 5
    // 6
    assert_eq!(neighbors(&grid, 4), [1, 3, 5]);
    assert_eq!(neighbors(&grid, 6), [3]);
    assert_eq!(neighbors(&grid, 2), [1, 5]);
    assert_eq!(grid.links(), 8);
    assert!(grid.distances(NodeId(0)).iter().all(|&d| d < 5));
    assert_eq!(
        grid.point(NodeId(5)).unwrap().distance(grid.point(NodeId(0)).unwrap()),
        5_f64.sqrt()
    );
    for (a, b) in [(0, 1), (1, 4), (4, 1), (2, 3), (0, 4)] {
        let linked = neighbors(&grid, a).contains(&b);
        assert_eq!(grid.linked(NodeId(a), NodeId(b)), linked, "{a} {b}");
    }
}

#[test]
fn a_key_is_owned_by_the_first_node_that_is_not_before_it() {
    let dht = Topology::dht(8, vec![0x05, 0x2A, 0xE0]).unwrap();
    let owner = |key| dht.key_space().unwrap().owner(key).0;
    assert_eq!([0, 5, 6, 0x2A, 0xDF, 0xE0, 0xE1].map(owner), [0, 0, 1, 1, 2, 2, 0]);
    assert_eq!(Topology::dht(8, vec![5, 5]), Err(TopologyError::BadKeys));
    assert_eq!(Topology::dht(8, vec![0x100]), Err(TopologyError::BadKeys));
    assert_eq!(Topology::dht(8, vec![]), Err(TopologyError::Empty));
}

#[test]
fn algorithms_are_told_what_they_need() {
    for links in
        [Links::Complete, Links::Ring, Links::Tree, Links::Graph, Links::Space, Links::Keys]
    {
        assert_eq!(Topology::of(links, 9).suits(links), Ok(()), "{links:?}");
    }
    assert!(Topology::grid(9).suits(Links::Tree).is_err());
    assert!(Topology::ring(9).suits(Links::Graph).is_err());
    assert!(Topology::complete(9).suits(Links::Space).is_err());
    assert!(Topology::complete(9).suits(Links::Keys).is_err());
}

#[test]
fn links_of_a_digraph_lead_one_way() {
    let links = [(0, 1), (1, 2), (2, 0), (0, 2)].map(|(a, b)| (NodeId(a), NodeId(b)));
    let digraph = Topology::digraph(3, &links).unwrap();
    assert_eq!([0, 1, 2].map(|node| neighbors(&digraph, node)), [vec![1, 2], vec![2], vec![0]]);
    assert!(digraph.linked(NodeId(0), NodeId(1)) && !digraph.linked(NodeId(1), NodeId(0)));
    assert_eq!((digraph.links(), digraph.shape(), digraph.is_tree()), (4, "digraph", false));
    assert!(digraph.suits(Links::Graph).is_err() && digraph.suits(Links::Complete).is_err());
    assert_eq!(digraph.distances(NodeId(1)), [2, 0, 1]);
    let chain = Topology::named("chain", 3).unwrap();
    assert_eq!([0, 1, 2].map(|node| neighbors(&chain, node)), [vec![1], vec![2], vec![]]);
    assert!(digraph.is_strongly_connected() && !chain.is_strongly_connected());
    let apart = Topology::digraph(3, &links[..1]);
    assert_eq!(apart, Err(TopologyError::Disconnected(NodeId(2))));
}

#[test]
fn a_digraph_is_strongly_connected_if_all_reach_all() {
    let strongly = |links: &[(u32, u32)]| {
        let links: Vec<_> = links.iter().map(|&(a, b)| (NodeId(a), NodeId(b))).collect();
        Topology::digraph(3, &links).unwrap().is_strongly_connected()
    };
    assert!(strongly(&[(0, 1), (1, 2), (2, 0)]));
    assert!(!strongly(&[(0, 1), (1, 2), (0, 2)]), "node 0 cannot be reached");
    assert!(!strongly(&[(1, 0), (2, 1), (2, 0)]), "node 0 reaches none");
    assert!(!strongly(&[(0, 1), (1, 0), (2, 0)]), "node 2 cannot be reached");
    assert!(Topology::ring(4).is_strongly_connected() && Topology::line(4).is_strongly_connected());
}

#[test]
fn a_digraph_is_read_as_it_was_written_and_checked() {
    let read = |shape| Topology::try_from(Written { n: 2, shape, points: Vec::new() });
    let one_way = Topology::digraph(2, &[(NodeId(0), NodeId(1))]).unwrap();
    assert_eq!(read(one_way.shape.clone()), Ok(one_way));
    let loose = Shape::Digraph(vec![vec![NodeId(7)], vec![]]);
    assert_eq!(read(loose), Err(TopologyError::BadLink(NodeId(0), NodeId(7))));
    let twice = Shape::Digraph(vec![vec![NodeId(1), NodeId(1)], vec![]]);
    assert_eq!(read(twice), Err(TopologyError::Contradictory));
}

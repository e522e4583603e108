//! Vertex orders on graphs whose answer is known, and on random ones.
use std::time::Instant;

use eciton_graph::adjacency::{Graph, Options};
use eciton_graph::corrections::{Correction, Corrections};
use eciton_graph::dataset::{Dataset, EdgeFeatures, Features, Labels, Split};
use eciton_graph::order::{Order, Permutation, bandwidth, permute_dataset, permute_graph};
use eciton_graph::random::SplitMix64;

const UNDIRECTED: Options = Options { symmetric: true, keep_self_loops: false };

fn graph(vertices: u64, edges: &[(u32, u32)]) -> Graph {
    Graph::from_edges(vertices, edges.iter().copied(), UNDIRECTED).unwrap()
}

/// The graph with its ids shuffled.
fn shuffled(graph: &Graph, seed: u64) -> Graph {
    let mut ids: Vec<u32> = (0..graph.vertices()).collect();
    SplitMix64::new(seed).shuffle(&mut ids);
    permute_graph(graph, &Permutation::from_new_of_old(ids).unwrap()).unwrap()
}

fn grid(rows: u32, columns: u32) -> Graph {
    let at = move |r: u32, c: u32| r * columns + c;
    let right = (0..rows).flat_map(move |r| (1..columns).map(move |c| (at(r, c - 1), at(r, c))));
    let down = (1..rows).flat_map(move |r| (0..columns).map(move |c| (at(r - 1, c), at(r, c))));
    let edges: Vec<_> = right.chain(down).collect();
    graph(u64::from(rows * columns), &edges)
}

/// Checks that `order` is a bijection and that the graph it makes is the same one.
fn check(graph: &Graph, order: Order, what: &str) -> Graph {
    let permutation = Permutation::compute(graph, order);
    let n = graph.vertices();
    assert_eq!(permutation.len(), n as usize, "{what}, {order}");
    // from_old_of_new refuses all that is no bijection.
    let again = Permutation::from_old_of_new(permutation.old_of_new().to_vec()).unwrap();
    assert_eq!(again, permutation, "{what}, {order}");
    let made = permute_graph(graph, &permutation).unwrap();
    assert_eq!(made.symmetric(), graph.symmetric(), "{what}, {order}");
    let old = permutation.old_of_new();
    let mut edges: Vec<_> = made.edge_list().map(|(s, t)| (old[t as usize], old[s as usize])).collect();
    edges.sort_unstable();
    assert!(edges.into_iter().eq(graph.edge_list().map(|(s, t)| (t, s))), "{what}, {order}");
    for v in 0..n {
        for list in [made.in_neighbours(v), made.out_neighbours(v)] {
            assert!(list.is_sorted_by(|a, b| a < b), "{what}, {order}");
        }
        assert_eq!(made.out_neighbours(v).len(), graph.out_neighbours(old[v as usize]).len());
    }
    assert_eq!(Permutation::compute(graph, order), permutation, "{what}, {order}: the same every time");
    made
}

#[test]
fn random_graphs_stay_the_same_graph() {
    for seed in 0..200u64 {
        let mut random = SplitMix64::new(seed);
        let vertices = 1 + random.below(60);
        let count = random.below(4 * vertices);
        let edges: Vec<_> =
            (0..count).map(|_| (random.below(vertices) as u32, random.below(vertices) as u32)).collect();
        let options = Options { symmetric: seed % 2 == 0, keep_self_loops: seed % 3 == 0 };
        let graph = Graph::from_edges(vertices, edges.into_iter(), options).unwrap();
        for order in Order::ALL {
            check(&graph, order, &format!("seed {seed}"));
        }
    }
}

#[test]
fn small_and_odd_graphs() {
    let complete: Vec<_> = (0..20).flat_map(|u| (0..u).map(move |v| (u, v))).collect();
    type Case<'a> = (&'a str, u64, &'a [(u32, u32)]);
    let cases: [Case<'_>; 6] = [
        ("one vertex", 1, &[]),
        ("no edges", 9, &[]),
        ("a loop", 2, &[(1, 1)]),
        ("one edge among lone vertices", 7, &[(5, 2)]),
        ("two components", 6, &[(0, 3), (3, 5), (1, 4)]),
        ("a complete graph", 20, &complete),
    ];
    for (what, vertices, edges) in cases {
        for symmetric in [true, false] {
            let options = Options { symmetric, keep_self_loops: true };
            let graph = Graph::from_edges(vertices, edges.iter().copied(), options).unwrap();
            for order in Order::ALL {
                check(&graph, order, what);
            }
        }
    }
}

#[test]
fn directions_do_not_matter_to_an_order() {
    let seed = 5;
    println!("seed {seed}");
    let mut random = SplitMix64::new(seed);
    let edges: Vec<_> = (0..600).map(|_| (random.below(150) as u32, random.below(150) as u32)).collect();
    let directed = Options { symmetric: false, ..UNDIRECTED };
    let directed = Graph::from_edges(150, edges.iter().copied(), directed).unwrap();
    let both = graph(150, &edges);
    assert!(!directed.symmetric());
    for order in Order::ALL {
        assert_eq!(Permutation::compute(&directed, order), Permutation::compute(&both, order), "{order}");
    }
}

#[test]
fn reverse_cuthill_mckee_reaches_the_known_bandwidth() {
    for seed in 0..4 {
        println!("seed {seed}");
        let path: Vec<_> = (1..5000).map(|v| (v - 1, v)).collect();
        let path = shuffled(&graph(5000, &path), seed);
        assert!(bandwidth(&path) > 1000);
        assert_eq!(bandwidth(&check(&path, Order::ReverseCuthillMckee, "path")), 1);
        // A grid of a x b has bandwidth min(a, b) (Chvatalova 1975). From a corner the levels are
        // diagonals, of which each vertex lies below or above its follower in the next: by which end
        // of a diagonal is numbered first, that is what comes out, or one more.
        for (rows, columns) in [(10, 10), (7, 90), (40, 25)] {
            let grid = shuffled(&grid(rows, columns), seed);
            let made = check(&grid, Order::ReverseCuthillMckee, "grid");
            let (least, found) = (rows.min(columns), bandwidth(&made));
            assert!(found == least || found == least + 1, "{rows} x {columns}: {found}");
        }
    }
}

/// `blocks` of `size` vertices, ids shuffled: `within` neighbours in the block a vertex on average
/// and `between` outside it.
fn block_model(blocks: u32, size: u32, within: u32, between: u32, seed: u64) -> (Graph, Vec<u32>) {
    let mut random = SplitMix64::new(seed);
    let vertices = blocks * size;
    let mut ids: Vec<u32> = (0..vertices).collect();
    random.shuffle(&mut ids);
    let mut edges = Vec::new();
    for v in 0..vertices {
        for draw in 0..(within + between) / 2 {
            let u = if draw < within / 2 {
                v / size * size + random.below(u64::from(size)) as u32
            } else {
                random.below(u64::from(vertices)) as u32
            };
            edges.push((ids[v as usize], ids[u as usize]));
        }
    }
    let mut block = vec![0; vertices as usize];
    (0..vertices).for_each(|v| block[ids[v as usize] as usize] = v / size);
    (graph(u64::from(vertices), &edges), block)
}

#[test]
fn rabbit_finds_planted_communities() {
    for seed in 0..3 {
        println!("seed {seed}");
        let (blocks, size) = (50, 200);
        let (graph, block) = block_model(blocks, size, 16, 4, seed);
        let short = |g: &Graph| {
            let count = g.edge_list().filter(|&(s, t)| s.abs_diff(t) < size).count();
            count as f64 / g.edges() as f64
        };
        assert!(short(&graph) < 0.06);
        let made = check(&graph, Order::Rabbit, "block model");
        // 80 % of the edges are within blocks, and none could be longer if each were one range.
        assert!(short(&made) > 0.6, "{}", short(&made));
        // Vertices side by side are of one block, as 2 % were before. One in ten joins a wrong block
        // early, when all its neighbours are still alone; nothing takes it back.
        let permutation = Permutation::compute(&graph, Order::Rabbit);
        let pairs = permutation.old_of_new().windows(2);
        let alike = pairs.filter(|w| block[w[0] as usize] == block[w[1] as usize]).count();
        assert!(alike as f64 > 0.8 * block.len() as f64, "{alike} of {}", block.len());
    }
}

#[test]
fn a_star_of_a_million_leaves_and_a_long_path() {
    let leaves = 1_000_000u32;
    let star: Vec<_> = (0..leaves).map(|v| (leaves, v)).collect();
    let star = graph(u64::from(leaves) + 1, &star);
    let path: Vec<_> = (1..leaves).map(|v| (v - 1, v)).collect();
    let path = shuffled(&graph(u64::from(leaves), &path), 3);
    for (what, graph) in [("star", star), ("path", path)] {
        for order in Order::ALL {
            let began = Instant::now();
            let permutation = Permutation::compute(&graph, order);
            let made = permute_graph(&graph, &permutation).unwrap();
            println!("{what}, {order}: {:?}", began.elapsed());
            assert_eq!((made.vertices(), made.edges()), (graph.vertices(), graph.edges()));
            match (what, order) {
                ("star", Order::Degree | Order::Rabbit) => assert_eq!(permutation.old_of_new()[0], leaves),
                ("path", Order::ReverseCuthillMckee) => assert_eq!(bandwidth(&made), 1),
                ("path", Order::Rabbit) => {
                    let near = made.edge_list().filter(|&(s, t)| s.abs_diff(t) <= 16).count() as u64;
                    assert!(near > made.edges() / 2, "{near} of {} edges", made.edges());
                }
                _ => {}
            }
        }
    }
}

#[test]
fn edges_keep_their_features() {
    let seed = 83;
    println!("seed {seed}");
    let mut random = SplitMix64::new(seed);
    for case in 0..60 {
        let vertices = 1 + random.below(50) as u32;
        let mut edge = || (random.below(vertices.into()) as u32, random.below(vertices.into()) as u32);
        let edges: Vec<(u32, u32)> = (0..case * 5).map(|_| edge()).collect();
        let options = Options { symmetric: case % 2 == 0, keep_self_loops: case % 3 == 0 };
        let graph = Graph::from_edges(vertices.into(), edges.into_iter(), options).unwrap();
        // A row says which edge it is of.
        let rows: Vec<f32> = graph.edge_list().flat_map(|(s, t)| [s as f32, t as f32]).collect();
        let labels = Labels::none(vertices);
        // A correction names its vertex.
        let correction = |row: u32| Correction { row, column: row, residual: f64::from(row) + 0.5 };
        let corrections = Corrections::new((0..vertices).step_by(3).map(correction).collect());
        let features = Features::identity(vertices).with_corrections(corrections);
        let dataset = Dataset {
            edge_features: Some(EdgeFeatures::new(2, rows).unwrap()),
            ..Dataset::new("random".to_owned(), graph, features, labels, Split::default())
        };
        dataset.validate().unwrap();
        let mut ids: Vec<u32> = (0..vertices).collect();
        random.shuffle(&mut ids);
        let permutation = Permutation::from_new_of_old(ids).unwrap();
        let there = permute_dataset(dataset.clone(), permutation.clone()).unwrap().dataset;
        there.validate().unwrap();
        let old = permutation.old_of_new();
        let rows = there.edge_features.as_ref().unwrap().values().chunks_exact(2);
        for ((source, target), row) in there.graph.edge_list().zip(rows) {
            assert_eq!(row, [old[source as usize] as f32, old[target as usize] as f32], "case {case}");
        }
        for correction in there.features.corrections().entries() {
            let vertex = old[correction.row as usize];
            assert_eq!((correction.column, correction.residual), (vertex, f64::from(vertex) + 0.5));
        }
        assert_eq!(there.features.corrections().entries().len(), (vertices as usize).div_ceil(3));
        let back = permute_dataset(there, permutation.inverse()).unwrap().dataset;
        assert_eq!(back.features, dataset.features);
        assert_eq!((back.graph, back.edge_features), (dataset.graph, dataset.edge_features));
    }
}

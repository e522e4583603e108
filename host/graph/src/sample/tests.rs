#![allow(clippy::unwrap_used)]
mod estimator;
pub(super) mod graphs;
mod marginals;
mod reference;

use super::*;
use graphs::{check, check_lists, random_graph};

fn key(seed: u64, round: u32) -> SampleKey {
    SampleKey { seed, round, interval: 7 }
}

fn methods() -> [Method; 9] {
    [
        Method::Vertex(VertexWeight::ColumnNorm),
        Method::Vertex(VertexWeight::Degree),
        Method::Vertex(VertexWeight::Uniform),
        Method::Edge,
        Method::Walk { length: 2 },
        Method::Frontier { frontier: 3 },
        Method::Neighbours { fan_out: vec![3, 2], replace: false },
        Method::Neighbours { fan_out: vec![3, 2], replace: true },
        Method::ShadowKhop { fan_out: vec![2, 3] },
    ]
}

#[test]
fn subgraphs_hold_what_they_promise() {
    let seed = 5;
    println!("seed {seed}");
    let mut random = SplitMix64::new(seed);
    let mut used = Room::default();
    for case in 0..300u32 {
        let (vertices, edges) = (1 + random.below(80), 1 + random.below(600));
        let graph = random_graph(&mut random, vertices, edges, case & 1 == 0, case & 2 == 0);
        let mut below = |least: u64, most: u64| (least + random.below(most - least + 1)) as u32;
        let roots: Arc<[u32]> = (0..below(1, 9)).map(|_| below(0, vertices - 1)).collect();
        let rows = below(6, 70);
        // Some of which are no vertices, and some of which repeat.
        let targets: Vec<u32> = (0..below(0, 12)).map(|_| below(0, vertices + 1)).collect();
        let known = targets.iter().filter(|&&target| u64::from(target) < vertices);
        for method in methods() {
            let sampler = Sampler::new(&graph, method.clone(), roots.clone(), rows).unwrap();
            let drawn = sampler.sample(&graph, key(1, case), &targets, &mut used);
            match method {
                Method::Neighbours { replace: true, .. } => check_lists(&graph, &drawn),
                _ => check(&graph, &drawn),
            }
            assert!(drawn.ids.len() as u32 <= sampler.capacity(targets.len() as u32), "case {case}");
            // A room that was never used, on another thread.
            let other = std::thread::scope(|scope| {
                let again = || sampler.sample(&graph, key(1, case), &targets, &mut Room::default());
                scope.spawn(again).join().unwrap()
            });
            assert_eq!(drawn, other, "case {case}");
            match method {
                Method::Neighbours { fan_out, replace } => {
                    neighbours_hold(&graph, (&fan_out, replace), &drawn, known.clone());
                }
                Method::ShadowKhop { .. } => {
                    let places = drawn.targets.as_ref().unwrap();
                    assert!(places.iter().map(|&at| &drawn.ids[at as usize]).eq(known.clone()));
                    // Each target's subgraph is what it is alone, and induced.
                    let (mut ids, mut edges) = (Vec::new(), Vec::new());
                    for &target in known.clone() {
                        let alone = sampler.sample(&graph, key(1, case), &[target], &mut used);
                        let induced = Subgraph::induced(&graph, alone.ids.clone(), &mut used).unwrap();
                        assert_eq!(alone.incoming, induced.incoming);
                        ids.extend(alone.ids);
                        edges.extend(alone.edges);
                    }
                    assert_eq!((ids, edges), (drawn.ids, drawn.edges), "case {case}");
                }
                _ => {
                    assert_eq!((drawn.hops.len(), &drawn.targets), (1, &None));
                    let induced = Subgraph::induced(&graph, drawn.ids.clone(), &mut used).unwrap();
                    assert_eq!(drawn, induced, "case {case}");
                    let has = |row: &u32| drawn.ids.binary_search(row).is_ok();
                    let between = graph.edge_list().filter(|(s, t)| has(s) && has(t)).count();
                    assert_eq!(drawn.edges.len(), between);
                }
            }
        }
    }
}

/// Asserts the invariants of sampled neighbours of `targets`.
fn neighbours_hold<'a>(
    graph: &Graph,
    (fan_out, replace): (&[u32], bool),
    drawn: &Subgraph,
    targets: impl Iterator<Item = &'a u32>,
) {
    let first = drawn.hops[0] as usize;
    let mut once: Vec<u32> = Vec::new();
    for &target in targets {
        if !once.contains(&target) {
            once.push(target);
        }
    }
    assert_eq!(once, drawn.ids[..first]);
    assert_eq!(drawn.hops.len(), fan_out.len() + 1);
    assert!(drawn.targets.iter().flatten().copied().eq(0..first as u32));
    let mut ids = drawn.ids.clone();
    ids.sort_unstable();
    assert!(ids.is_sorted_by(|a, b| a < b), "each row once");
    let hop = |local: u32| drawn.hops.partition_point(|&end| end <= local);
    for local in 0..drawn.ids.len() as u32 {
        let list = drawn.incoming.neighbours_of(local);
        let degree = graph.in_degree(drawn.ids[local as usize]);
        let count = fan_out
            .get(hop(local))
            .map_or(0, |&count| if replace && degree > 0 { count } else { count.min(degree) });
        assert_eq!(list.len() as u32, count);
        // A source is at most one hop further, and a row is as near as its nearest reader says.
        assert!(list.iter().all(|&source| hop(source) <= hop(local) + 1));
        if hop(local) > 0 {
            let readers = (0..local).filter(|&row| drawn.incoming.neighbours_of(row).contains(&local));
            assert_eq!(readers.map(hop).min().map(|nearest| nearest + 1), Some(hop(local)));
        }
    }
}

#[test]
fn a_row_draws_the_same_neighbours_among_any_targets() {
    let graph = random_graph(&mut SplitMix64::new(8), 60, 900, true, false);
    let sampler =
        Sampler::new(&graph, Method::Neighbours { fan_out: vec![4], replace: false }, [].into(), 0).unwrap();
    let mut room = Room::default();
    let many = sampler.sample(&graph, key(2, 0), &[9, 3, 50, 9, 4], &mut room);
    assert_eq!((&many.ids[..4], many.hops[0]), (&[9, 3, 50, 4][..], 4));
    for (target, local) in many.ids[..4].iter().zip(0..) {
        let alone = sampler.sample(&graph, key(2, 0), &[*target], &mut room);
        let of = |drawn: &Subgraph, local: usize| {
            let list = drawn.incoming.offsets()[local] as usize..drawn.incoming.offsets()[local + 1] as usize;
            let mut edges = drawn.edges[list].to_vec();
            edges.sort_unstable();
            edges
        };
        assert_eq!(of(&alone, 0), of(&many, local));
    }
}

#[test]
fn keys_differ_by_each_of_their_parts() {
    let graph = random_graph(&mut SplitMix64::new(8), 60, 300, true, false);
    let base = SampleKey { seed: 1, round: 2, interval: 3 };
    let others =
        [SampleKey { seed: 2, ..base }, SampleKey { round: 3, ..base }, SampleKey { interval: 2, ..base }];
    for method in methods() {
        let sampler = Sampler::new(&graph, method, (0..60).collect(), 30).unwrap();
        let draw = |key| sampler.sample(&graph, key, &[1, 2, 3, 4], &mut Room::default());
        for other in others {
            assert_ne!(draw(base), draw(other));
        }
    }
}

#[test]
fn all_rows_are_the_graph() {
    let graph = random_graph(&mut SplitMix64::new(8), 70, 300, false, true);
    let whole = Subgraph::whole(&graph);
    check(&graph, &whole);
    assert_eq!(&whole.incoming, graph.incoming());
    let induced = Subgraph::induced(&graph, (0..70).collect(), &mut Room::default()).unwrap();
    assert_eq!(induced, whole);
    // Fan-outs beyond every degree, and all vertices as targets.
    let all: Vec<u32> = (0..70).collect();
    let sampler =
        Sampler::new(&graph, Method::Neighbours { fan_out: vec![900], replace: false }, [].into(), 0)
            .unwrap();
    let drawn = sampler.sample(&graph, key(1, 1), &all, &mut Room::default());
    assert_eq!((drawn.ids, drawn.incoming, drawn.edges), (whole.ids, whole.incoming, whole.edges));
}

#[test]
fn rows_are_looked_up_in_the_lists_of_hubs() {
    let seed = 15;
    println!("seed {seed}");
    let mut random = SplitMix64::new(seed);
    for case in 0..40u32 {
        // Lists that are much longer than the subgraph, with and without parallel edges.
        let vertices = if case & 1 == 0 { 40 } else { 2000 };
        let edges = if case & 1 == 0 { 8_000 } else { 100_000 };
        let graph = random_graph(&mut random, vertices, edges, case & 4 == 0, case & 1 == 0);
        let mut ids: Vec<u32> = (0..1 + random.below(5)).map(|_| random.below(vertices) as u32).collect();
        ids.sort_unstable();
        ids.dedup();
        let induced = Subgraph::induced(&graph, ids.clone(), &mut Room::default()).unwrap();
        check(&graph, &induced);
        let rows = ids.iter().map(|&id| graph.in_neighbours(id));
        let expected = rows.flatten().filter_map(|source| ids.binary_search(source).ok());
        assert!(
            expected.eq(induced.incoming.neighbours().iter().map(|&local| local as usize)),
            "case {case}"
        );
    }
}

#[test]
fn capacities_saturate() {
    let graph = random_graph(&mut SplitMix64::new(8), 1000, 300, true, false);
    let capacity = |method, targets| Sampler::new(&graph, method, [1].into(), 11).unwrap().capacity(targets);
    assert_eq!(capacity(Method::Walk { length: 3 }, 9), 8);
    assert_eq!((capacity(Method::Edge, 9), capacity(Method::Vertex(VertexWeight::Degree), 9)), (10, 11));
    assert_eq!(capacity(Method::Neighbours { fan_out: vec![2, 3], replace: false }, 5), 5 + 10 + 30);
    assert_eq!(capacity(Method::Neighbours { fan_out: vec![2, u32::MAX], replace: false }, 5), 1000);
    assert_eq!(capacity(Method::ShadowKhop { fan_out: vec![2, 3] }, 500), 9 * 500);
    assert_eq!(capacity(Method::ShadowKhop { fan_out: vec![u32::MAX] }, u32::MAX), u32::MAX);
}

#[test]
fn refusals_say_what_may_be() {
    let graph = random_graph(&mut SplitMix64::new(8), 10, 30, true, false);
    let bare = Graph::from_edges(3, std::iter::empty(), crate::adjacency::Options::default()).unwrap();
    let says = |graph: &Graph, method, roots: &[u32], rows| {
        Sampler::new(graph, method, roots.into(), rows).unwrap_err().to_string()
    };
    let all: Vec<u32> = (0..10).collect();
    for method in methods().into_iter().take(4) {
        let none = says(&graph, method.clone(), &[], 9);
        assert_eq!(none, "the number of training rows to sample from is 0, but must be at least 1");
        let none = says(&graph, method.clone(), &all, 0);
        assert_eq!(none, "the row budget of a subgraph is 0, but must be at least 1");
        let beyond = says(&graph, method, &[3, 10], 9);
        let expected = "a training row to sample from is 10, but must be below 10, the number of vertices";
        assert_eq!(beyond, expected);
    }
    for (method, rows, expected) in [
        (
            Method::Edge,
            1,
            "the row budget of sampled edges is 1, but must be at least 2, the two ends of an edge",
        ),
        (
            Method::Walk { length: 0 },
            9,
            "the walk length is 0, but must be 1 to 8, one less than the row budget",
        ),
        (
            Method::Walk { length: 9 },
            9,
            "the walk length is 9, but must be 1 to 8, one less than the row budget",
        ),
        (Method::Frontier { frontier: 0 }, 9, "the frontier size is 0, but must be 1 to 9, the row budget"),
        (Method::Frontier { frontier: 10 }, 9, "the frontier size is 10, but must be 1 to 9, the row budget"),
        (
            Method::Neighbours { fan_out: vec![], replace: false },
            0,
            "the number of fan-outs is 0, but must be at least 1, one per hop",
        ),
        (Method::ShadowKhop { fan_out: vec![3, 0] }, 0, "a fan-out is 0, but must be at least 1"),
    ] {
        assert_eq!(says(&graph, method, &all, rows), expected);
    }
    assert_eq!(
        says(&bare, Method::Edge, &[1], 9),
        "the number of edges to sample is 0, but must be at least 1"
    );
    // Without an edge the others draw roots alone.
    let walks = Sampler::new(&bare, Method::Frontier { frontier: 2 }, [1].into(), 9).unwrap();
    assert_eq!(walks.sample(&bare, key(1, 1), &[], &mut Room::default()).ids, [1]);
    let room = &mut Room::default();
    let repeats = Subgraph::induced(&graph, vec![1, 3, 3], room).unwrap_err().to_string();
    assert!(
        repeats.starts_with("rows of a subgraph, row 2: expected ascending rows, each once"),
        "{repeats}"
    );
    let beyond = Subgraph::induced(&graph, vec![1, 10], room).unwrap_err().to_string();
    assert!(beyond.contains("row 1") && beyond.contains("vertices are 0..10"), "{beyond}");
}

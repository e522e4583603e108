#![allow(clippy::unwrap_used)]
use super::*;
use crate::random::SplitMix64;
use crate::sample::tests::graphs::{check, random_graph};

#[test]
fn each_edge_once_with_its_reverse_and_weights_of_a_vertex_sum_to_one() {
    let seed = 41;
    println!("seed {seed}");
    let mut random = SplitMix64::new(seed);
    for case in 0..120 {
        let (vertices, edges) = (1 + random.below(60), random.below(400));
        let graph = random_graph(&mut random, vertices, edges, case & 1 == 0, case & 2 == 0);
        let count = 1 + random.below(9) as u32;
        let parts = Parts::new(&graph, count, case).unwrap();
        assert_eq!(parts.as_slice().len(), count as usize);
        let mut sums = vec![0.0; vertices as usize];
        let mut times = vec![0; vertices as usize];
        let mut places = Vec::new();
        let mut homes = std::collections::BTreeMap::new();
        for (part, number) in parts.as_slice().iter().zip(0..) {
            check(&graph, &part.subgraph);
            assert!(part.subgraph.ids.is_sorted_by(|a, b| a < b));
            for (&id, &weight) in part.subgraph.ids.iter().zip(&part.weights) {
                sums[id as usize] += f64::from(weight);
                times[id as usize] += 1;
            }
            places.extend_from_slice(&part.subgraph.edges);
            for (&id, local) in part.subgraph.ids.iter().zip(0..) {
                for &source in part.subgraph.incoming.neighbours_of(local) {
                    let source = part.subgraph.ids[source as usize];
                    let home = homes.entry((id.min(source), id.max(source))).or_insert(number);
                    assert_eq!(*home, number, "case {case}: both directions in one part");
                }
            }
        }
        places.sort_unstable();
        assert!(places.iter().copied().eq(0..graph.edges()), "case {case}: each entry once");
        assert!(sums.iter().all(|sum: &f64| (sum - 1.0).abs() < 1e-5), "case {case}: {sums:?}");
        let alone = |v: u32| graph.in_neighbours(v).is_empty() && graph.out_neighbours(v).is_empty();
        assert!((0..graph.vertices()).all(|v| !alone(v) || times[v as usize] == 1));
        let rows: u32 = times.iter().sum();
        assert_eq!(parts.replication(), f64::from(rows) / vertices as f64);
    }
}

#[test]
fn one_part_is_the_whole_graph() {
    let graph = random_graph(&mut SplitMix64::new(2), 40, 90, true, false);
    let parts = Parts::new(&graph, 1, 5).unwrap();
    assert_eq!((&parts.as_slice()[0].subgraph, parts.replication()), (&Subgraph::whole(&graph), 1.0));
}

#[test]
fn hubs_are_cut_and_leaves_are_not() {
    // A star: each edge goes by its leaf, so that a leaf is in one part and the hub in all.
    let edges = (1..1000).map(|leaf| (0, leaf));
    let star = Graph::from_edges(1000, edges, crate::adjacency::Options::default()).unwrap();
    let parts = Parts::new(&star, 8, 3).unwrap();
    assert_eq!(parts.replication(), (999.0 + 8.0) / 1000.0);
    // 125 leaves a part on the average, with a standard deviation of 10.5.
    assert!(parts.as_slice().iter().all(|part| (80..170).contains(&part.subgraph.ids.len())));
}

#[test]
fn masks_drop_edges_with_their_reverse_at_the_rate() {
    let seed = 43;
    println!("seed {seed}");
    let graph = random_graph(&mut SplitMix64::new(seed), 300, 4_000, true, false);
    let mut parts = Parts::new(&graph, 2, 1).unwrap();
    let plain = parts.clone();
    parts.drop_edges(5, 0.3, 9).unwrap();
    let (mut kept, mut all) = (0, 0);
    for (part, plain) in parts.as_slice().iter().zip(plain.as_slice()) {
        assert_eq!((part.masks(), plain.masks(), plain.dropped(0)), (5, 0, plain.subgraph.clone()));
        let masked: Vec<Subgraph> = (0..5).map(|mask| part.dropped(mask)).collect();
        for less in &masked {
            check(&graph, less);
            assert_eq!(less.ids, part.subgraph.ids);
            // Symmetric as before.
            let has =
                |target: u32, source: u32| less.incoming.neighbours_of(target).binary_search(&source).is_ok();
            assert!(
                (0..less.ids.len() as u32).all(|t| less.incoming.neighbours_of(t).iter().all(|&s| has(s, t)))
            );
            kept += less.edges.len();
            all += part.subgraph.edges.len();
        }
        assert!(masked.windows(2).all(|pair| pair[0] != pair[1]), "masks differ");
        assert_eq!(part.dropped(99), part.subgraph);
    }
    // Entries go by twos: so many standard deviations of a share of half as many draws.
    let spread = (0.7 * 0.3 / (all as f64 / 2.0)).sqrt();
    assert!((kept as f64 / all as f64 - 0.7).abs() < 4.0 * spread, "{kept} of {all}");
    let mut times = [0; 5];
    for round in 0..500 {
        let key = SampleKey { seed: 3, round, interval: 1 };
        times[parts.as_slice()[1].mask(key) as usize] += 1;
    }
    assert!(times.iter().all(|n| (60..140).contains(n)), "{times:?}");
}

#[test]
fn refusals_say_what_may_be() {
    let graph = random_graph(&mut SplitMix64::new(2), 10, 20, true, false);
    let says = |error: crate::error::Error| error.to_string();
    let none = says(Parts::new(&graph, 0, 1).unwrap_err());
    assert_eq!(none, "the number of parts is 0, but must be 1 to 65536");
    assert!(Parts::new(&graph, MOST_PARTS + 1, 1).is_err());
    let mut parts = Parts::new(&graph, 2, 1).unwrap();
    let none = says(parts.drop_edges(0, 0.5, 1).unwrap_err());
    assert_eq!(none, "the number of masks of dropped edges is 0, but must be 1 to 65536");
    for rate in [1.0, -0.1, f32::NAN] {
        let wrong = says(parts.drop_edges(1, rate, 1).unwrap_err());
        assert_eq!(
            wrong,
            format!("the fraction of edges to drop is {rate}, but must be at least 0 and below 1")
        );
    }
}

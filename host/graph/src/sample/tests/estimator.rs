//! Tests that GraphSAINT's weights correct the bias of sampling.

use super::graphs::skewed;
use super::*;
use crate::sample::normalise::{COUNTED_ROUND, Counts, MOST, UNSEEN};

const SAMPLES: u32 = 20_000;

/// Mean and standard deviation of the values that were added.
#[derive(Default, Clone)]
struct Mean {
    count: f64,
    sum: f64,
    squares: f64,
}

impl Mean {
    fn add(&mut self, value: f64) {
        self.count += 1.0;
        self.sum += value;
        self.squares += value * value;
    }

    /// Returns the distance of the mean from `truth` in standard deviations. The weights come from
    /// `counted` samples. To first order, their error equals that of `counted` further samples.
    fn away(&self, truth: f64, counted: f64) -> f64 {
        let mean = self.sum / self.count;
        let variance = (self.squares / self.count - mean * mean).max(1e-12);
        (mean - truth).abs() / (variance * (1.0 / self.count + 1.0 / counted)).sqrt()
    }
}

/// Returns the bias of the loss over all rows and of the worst row's aggregate, in standard
/// deviations from the full graph's values.
fn bias(graph: &Graph, method: Method, weighted: bool, seed: u64) -> (f64, f64) {
    let rows = graph.vertices();
    let sampler = Sampler::new(graph, method, (0..rows).collect(), 8).unwrap();
    let mut room = Room::default();
    let counts = Counts::from_sampler(&sampler, graph, seed, (u32::MAX, rows, SAMPLES), 2);
    assert_eq!(counts.subgraphs, SAMPLES);
    let value = |v: u32| f64::from(v * v % 7) + 0.5;
    let (mut loss, mut each) = (Mean::default(), vec![Mean::default(); rows as usize]);
    for round in 0..SAMPLES {
        let drawn = sampler.sample(graph, key(seed, round), &[], &mut room);
        let (mut factors, weights) = (counts.edge_factors(&drawn), counts.loss_weights(&drawn, rows));
        if !weighted {
            factors.fill(1.0);
        }
        let mut total = 0.0;
        for (&id, local) in drawn.ids.iter().zip(0..) {
            let from = drawn.incoming.offsets()[local as usize] as usize;
            let terms = drawn.incoming.neighbours_of(local).iter().zip(&factors[from..]);
            let sum: f64 = terms.map(|(&u, &f)| f64::from(f) * value(drawn.ids[u as usize])).sum();
            let aggregate = sum / f64::from(graph.in_degree(id).max(1));
            each[id as usize].add(aggregate);
            total += f64::from(weights[local as usize]) * aggregate;
        }
        loss.add(total);
    }
    let full = |v: u32| {
        let sum: f64 = graph.in_neighbours(v).iter().map(|&u| value(u)).sum();
        sum / f64::from(graph.in_degree(v).max(1))
    };
    let truth = (0..rows).map(full).sum::<f64>() / f64::from(rows);
    let row = |v: u32| each[v as usize].away(full(v), f64::from(counts.vertices[v as usize]));
    (loss.away(truth, f64::from(SAMPLES)), (0..rows).map(row).fold(0.0, f64::max))
}

#[test]
fn weighted_aggregates_and_losses_have_the_full_graphs_mean() {
    let seed = 21;
    println!("seed {seed}");
    let graph = skewed(20, 45, true, seed);
    for method in methods().into_iter().take(4) {
        let (loss, row) = bias(&graph, method.clone(), true, seed);
        println!("{method:?}: the loss {loss:.2}, the worst of 20 rows {row:.2} standard deviations");
        assert!(loss < 3.0, "{method:?}: {loss}");
        // The worst of 20 rows strays by four once in a thousand seeds.
        assert!(row < 4.0, "{method:?}: {row}");
        let (loss, row) = bias(&graph, method.clone(), false, seed);
        assert!(loss > 30.0 && row > 30.0, "without weights {method:?} passes: {loss}, {row}");
    }
}

#[test]
fn counts_do_not_depend_on_threads() {
    let graph = skewed(200, 900, true, 3);
    let roots: Arc<[u32]> = (0..200).collect();
    let sampler = Sampler::new(&graph, Method::Walk { length: 3 }, roots, 40).unwrap();
    let count = |threads| Counts::from_sampler(&sampler, &graph, 9, (50, 200, u32::MAX), threads);
    let all = count(1);
    let rows: u32 = all.vertices.iter().sum();
    // The first number of subgraphs with more rows than fifty times the training rows.
    assert!(all.covers(50, 200) && (10_001..10_041).contains(&rows), "{rows}");
    let (mut vertices, mut edges, mut room) = (vec![0; 200], vec![0; all.edges.len()], Room::default());
    for interval in 0..all.subgraphs {
        let drawn =
            sampler.sample(&graph, SampleKey { seed: 9, round: COUNTED_ROUND, interval }, &[], &mut room);
        drawn.ids.iter().for_each(|&id| vertices[id as usize] += 1);
        drawn.edges.iter().for_each(|&edge| edges[edge as usize] += 1);
    }
    assert_eq!((&all.vertices, &all.edges), (&vertices, &edges));
    for threads in [2, 3, 7] {
        assert_eq!(count(threads), all, "{threads} threads");
    }
}

#[test]
fn factors_are_clipped_and_what_was_never_seen_has_the_published_ones() {
    let graph = Graph::from_edges(3, [(0, 1), (1, 2)].into_iter(), Default::default()).unwrap();
    let mut counts = Counts::default();
    // The entries are 1 -> 0, 0 -> 1, 2 -> 1, 1 -> 2.
    counts.vertices = vec![30_000, 6, 0];
    counts.edges = vec![1, 3, 0, 0];
    counts.subgraphs = 60_000;
    let whole = Subgraph::whole(&graph);
    assert_eq!(counts.edge_factors(&whole), [MOST, 2.0, UNSEEN, UNSEEN]);
    assert_eq!(counts.loss_weights(&whole, 2), [1.0, 5_000.0, 300_000.0]);
}

//! Samplers by their definition: dense matrices, scans and sets, with separate random numbers.

use std::collections::BTreeSet;

use crate::adjacency::Graph;
use crate::random::SplitMix64;
use crate::sample::{Method, VertexWeight};

/// Rows of a sample, which may repeat, and its edges (source, target).
pub(super) type Drawn = (Vec<u32>, Vec<(u32, u32)>);

fn by_weight(random: &mut SplitMix64, weights: &[f64]) -> usize {
    let total: f64 = weights.iter().sum();
    let mut left = (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64 * total;
    for (at, weight) in weights.iter().enumerate() {
        left -= weight;
        if left < 0.0 {
            return at;
        }
    }
    weights.len() - 1
}

fn one(random: &mut SplitMix64, of: &[u32]) -> u32 {
    of[random.below(of.len() as u64) as usize]
}

/// Returns the graph's adjacency matrix. The entry [target, source] is true if the graph has the
/// edge.
fn dense(graph: &Graph) -> Vec<Vec<bool>> {
    let n = graph.vertices() as usize;
    let mut matrix = vec![vec![false; n]; n];
    graph.edge_list().for_each(|(s, t)| matrix[t as usize][s as usize] = true);
    matrix
}

fn between(graph: &Graph, rows: BTreeSet<u32>) -> Drawn {
    let edges = graph.edge_list().filter(|(s, t)| rows.contains(s) && rows.contains(t)).collect();
    (rows.into_iter().collect(), edges)
}

/// Returns the squared norms of the columns of (D + I)^-1 (A + I).
pub(super) fn norms(graph: &Graph) -> Vec<f64> {
    let matrix = dense(graph);
    let n = matrix.len();
    let degree = |t: usize| matrix[t].iter().filter(|&&one| one).count() as f64;
    let entry = |t: usize, s: usize| f64::from(u8::from(matrix[t][s]) + u8::from(t == s)) / (degree(t) + 1.0);
    (0..n).map(|s| (0..n).map(|t| entry(t, s).powi(2)).sum()).collect()
}

/// Draws one sample by `method` from a graph without self-loops.
pub(super) fn sample(
    graph: &Graph,
    method: &Method,
    (roots, budget): (&[u32], usize),
    targets: &[u32],
    random: &mut SplitMix64,
) -> Drawn {
    let mut rows = BTreeSet::new();
    match method {
        Method::Vertex(by) => {
            let weights = match by {
                VertexWeight::ColumnNorm => norms(graph),
                VertexWeight::Degree => {
                    (0..graph.vertices()).map(|v| graph.in_neighbours(v).len() as f64 + 1.0).collect()
                }
                VertexWeight::Uniform => vec![1.0; graph.vertices() as usize],
            };
            rows.extend((0..budget).map(|_| by_weight(random, &weights) as u32));
        }
        Method::Edge => {
            let edges: Vec<_> = graph.edge_list().filter(|(s, t)| !graph.symmetric() || s < t).collect();
            let share = |degree: usize| 1.0 / degree as f64;
            let weight = |&(s, t): &(u32, u32)| {
                share(graph.out_neighbours(s).len()) + share(graph.in_neighbours(t).len())
            };
            let weights: Vec<f64> = edges.iter().map(weight).collect();
            for _ in 0..budget / 2 {
                let (s, t) = edges[by_weight(random, &weights)];
                rows.extend([s, t]);
            }
        }
        Method::Walk { length } => {
            for _ in 0..budget / (*length as usize + 1) {
                let mut at = Some(one(random, roots));
                for _ in 0..=*length {
                    rows.extend(at);
                    let list = at.map_or(&[][..], |row| graph.in_neighbours(row));
                    at = (!list.is_empty()).then(|| one(random, list));
                }
            }
        }
        Method::Frontier { frontier } => {
            let mut moving: Vec<u32> = (0..*frontier).map(|_| one(random, roots)).collect();
            rows.extend(&moving);
            for _ in *frontier as usize..budget {
                let weight = |&v: &u32| graph.in_neighbours(v).len().max(1) as f64;
                let weights: Vec<f64> = moving.iter().map(weight).collect();
                let at = by_weight(random, &weights);
                let list = graph.in_neighbours(moving[at]);
                moving[at] = one(random, if list.is_empty() { roots } else { list });
                rows.insert(moving[at]);
            }
        }
        Method::Neighbours { fan_out, replace } => {
            let mut edges = Vec::new();
            hops(graph, (fan_out, *replace), targets, random, &mut rows, &mut edges);
            return (rows.into_iter().collect(), edges);
        }
        Method::ShadowKhop { fan_out } => {
            let mut all = Drawn::default();
            for &target in targets {
                let mut own = BTreeSet::new();
                hops(graph, (fan_out, false), &[target], random, &mut own, &mut Vec::new());
                let (rows, edges) = between(graph, own);
                all.0.extend(rows);
                all.1.extend(edges);
            }
            return all;
        }
    }
    between(graph, rows)
}

/// Adds the sampled neighbours of each hop, which are chosen with shuffles.
fn hops(
    graph: &Graph,
    (fan_out, replace): (&[u32], bool),
    targets: &[u32],
    random: &mut SplitMix64,
    rows: &mut BTreeSet<u32>,
    edges: &mut Vec<(u32, u32)>,
) {
    rows.extend(targets);
    let mut ring: Vec<u32> = targets.to_vec();
    for &count in fan_out {
        let mut next = Vec::new();
        for row in ring {
            let mut list = graph.in_neighbours(row).to_vec();
            if replace && !list.is_empty() {
                list = (0..count).map(|_| list[random.below(list.len() as u64) as usize]).collect();
            } else {
                random.shuffle(&mut list);
                list.truncate(count as usize);
            }
            edges.extend(list.iter().map(|&source| (source, row)));
            next.extend(list.into_iter().filter(|&source| rows.insert(source)));
        }
        ring = next;
    }
}

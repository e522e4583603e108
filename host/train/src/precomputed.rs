//! Gathered features. The first layer's gather of features (sum over neighbours) is computed once,
//! before the first epoch.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use eciton_gather::{EdgeWeights, Gather, Reduce};
use eciton_graph::adjacency::Graph;
use eciton_recipe::FeatureGather;
use eciton_tensor::{Buffer, Matrix, SparseRows};

use crate::error::{Error, Result, at};

/// Kind of sum over in-neighbours that a gather computes. In the formulas, A is the adjacency
/// matrix and X has the features.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Sums<'a> {
    /// N X, where N is the symmetrically normalised A. The slice has the normalisation factor of
    /// each vertex.
    Symmetric(&'a [f32]),
    /// A X + f X, with this factor f.
    WithOwn(f32),
    /// `D^-1 A X`, the mean over in-neighbours. The slice has the inverse in-degree of each vertex.
    Mean(&'a [f32]),
}

/// Returns the sums of the features over in-neighbours, computed by `threads` threads. The result
/// does not depend on the number of threads. The result has the rows of `ranges`, which are consecutive. `weights` are edge weights in the order of the
/// in-lists. If it is `None`, each edge has weight 1.
///
/// # Errors
/// Returns [`Error::Tensor`] if a matrix of this size cannot be allocated.
pub(crate) fn gather_features(
    graph: &Graph,
    weights: Option<&[f32]>,
    sums: Sums<'_>,
    features: &Matrix,
    (ranges, threads): (&[Range<usize>], u32),
) -> Result<Matrix> {
    match features {
        Matrix::Dense(dense) => {
            let bounds =
                ranges.first().map_or(0, |first| first.start)..ranges.last().map_or(0, |last| last.end);
            let out = Buffer::zeroed(bounds.len(), features.columns()).map_err(at("gathered features"))?;
            let held = dense.hold(None).map_err(at("features"))?;
            each_range(ranges, threads, |rows| {
                let here = rows.start - bounds.start..rows.end - bounds.start;
                let mut to = out.write(here).map_err(at("gathered features"))?;
                let lists = graph.incoming();
                let mut gather = match sums {
                    Sums::Symmetric(scale) => {
                        Gather::new(lists, Reduce::Sum).weighted(EdgeWeights::Symmetric(scale)).with_self()
                    }
                    Sums::WithOwn(_) => Gather::new(lists, Reduce::Sum),
                    Sums::Mean(_) => Gather::new(lists, Reduce::Mean),
                };
                if let Some(values) = weights {
                    gather = gather.weighted(EdgeWeights::Values(values, None));
                }
                let mut to = to.view_mut();
                gather.run(held.view(), rows.clone(), &mut to);
                if let Sums::WithOwn(factor) = sums {
                    for (at, v) in rows.enumerate() {
                        let own = held.view().row(v);
                        to.row_mut(at).iter_mut().zip(own).for_each(|(sum, own)| *sum += factor * own);
                    }
                }
                Ok(())
            })?;
            Ok(Matrix::from(out.read(0..out.rows()).map_err(at("gathered features"))?))
        }
        Matrix::Sparse(sparse) => {
            let parts = each_range(ranges, threads, |rows| {
                Ok(sparse_rows((graph, weights), sums, &sparse.data, rows))
            })?;
            let (mut offsets, mut indices, mut values) = (vec![0u64], Vec::new(), Vec::new());
            for part in parts {
                let before = indices.len() as u64;
                offsets.extend(part.ends.iter().map(|end| before + end));
                indices.extend(part.indices);
                values.extend(part.values);
            }
            let columns = sparse.data.columns() as u32;
            let rows = SparseRows::new(columns, offsets, indices, values).map_err(at("gathered features"))?;
            Ok(Matrix::from(Arc::new(rows)))
        }
    }
}

/// Returns an upper bound for the number of stored values after `gather` has summed sparse
/// features.
pub(crate) fn stored_at_most(graph: &Graph, features: &SparseRows, gather: FeatureGather) -> u64 {
    let (columns, vertices) = (features.columns() as u64, graph.vertices());
    let mut stored: Vec<u64> = (0..vertices).map(|v| features.row(v as usize).0.len() as u64).collect();
    let (times, own) = match gather {
        FeatureGather::Hops(hops) => (hops.max(1), true),
        FeatureGather::WithOwn(_) => (1, true),
        FeatureGather::Beside => (1, false),
    };
    for _ in 0..times {
        let of = |v: u32| {
            let all: u64 = graph.in_neighbours(v).iter().map(|&u| stored[u as usize]).sum();
            (all + if own { stored[v as usize] } else { 0 }).min(columns)
        };
        stored = (0..vertices).map(of).collect();
    }
    stored.iter().sum()
}

/// Runs `work` on each range of rows, and returns the results in the order of the ranges.
fn each_range<T: Send>(
    ranges: &[Range<usize>],
    threads: u32,
    work: impl Fn(Range<usize>) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let next = AtomicUsize::new(0);
    let run = || -> Result<Vec<(usize, T)>> {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(rows) = ranges.get(at) else { return Ok(done) };
            done.push((at, work(rows.clone())?));
        }
    };
    let mut all = std::thread::scope(|scope| {
        let others: Vec<_> =
            (1..threads.min(ranges.len() as u32)).map(|_| eciton_input::threads::spawn(scope, run)).collect();
        let mut all = run()?;
        for other in others {
            let panicked = |_| Error::Internal("a thread that gathers the features panicked".to_owned());
            all.extend(other.join().map_err(panicked)??);
        }
        Ok::<_, Error>(all)
    })?;
    all.sort_unstable_by_key(|(at, _)| *at);
    Ok(all.into_iter().map(|(_, made)| made).collect())
}

/// Sparse sums for a range of rows.
#[derive(Default)]
struct Part {
    /// End of each row in `indices` and `values`.
    ends: Vec<u64>,
    indices: Vec<u32>,
    values: Vec<f32>,
}

/// Sums sparse features over in-neighbours, for a range of rows. Values are added in the same order
/// as for dense features, so the results are the same.
fn sparse_rows(
    (graph, weights): (&Graph, Option<&[f32]>),
    of: Sums<'_>,
    features: &SparseRows,
    rows: Range<usize>,
) -> Part {
    let mut sums = vec![0.0f32; features.columns()];
    let mut seen = vec![false; features.columns()];
    let mut part = Part::default();
    let mut touched: Vec<u32> = Vec::new();
    for v in rows {
        let itself = u32::try_from(v).unwrap_or(u32::MAX);
        let mut add = |u: usize, factor: f32| {
            let (columns, values) = features.row(u);
            for (&column, &value) in columns.iter().zip(values) {
                let at = column as usize;
                if !std::mem::replace(&mut seen[at], true) {
                    touched.push(column);
                }
                sums[at] += factor * value;
            }
        };
        let first = graph.offsets()[v] as usize;
        for (edge, &u) in (first..).zip(graph.in_neighbours(itself)) {
            let weight = weights.map_or(1.0, |weights| weights[edge]);
            add(u as usize, weight * if let Sums::Symmetric(scale) = of { scale[u as usize] } else { 1.0 });
        }
        let divided = match of {
            Sums::Symmetric(scale) => {
                add(v, scale[v]);
                scale[v]
            }
            Sums::WithOwn(factor) => {
                add(v, factor);
                1.0
            }
            Sums::Mean(inverse) => inverse[v],
        };
        touched.sort_unstable();
        for column in touched.drain(..) {
            let at = column as usize;
            seen[at] = false;
            part.indices.push(column);
            part.values.push(divided * std::mem::take(&mut sums[at]));
        }
        part.ends.push(part.indices.len() as u64);
    }
    part
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use eciton_gather::{inverse_degrees, symmetric_scale};
    use eciton_graph::random::SplitMix64;

    #[test]
    fn sparse_and_dense_features_gather_alike() {
        let seed = 5;
        println!("seed {seed}");
        let mut random = SplitMix64::new(seed);
        for round in 0..20u64 {
            let vertices = 1 + random.below(300);
            let edges: Vec<(u32, u32)> = (0..random.below(900))
                .map(|_| (random.below(vertices) as u32, random.below(vertices) as u32))
                .collect();
            let options =
                eciton_graph::adjacency::Options { symmetric: round % 2 == 0, ..Default::default() };
            let graph = Graph::from_edges(vertices, edges.iter().copied(), options).unwrap();
            let columns = 1 + random.below(70) as usize;
            let (rows, mut values) = (vertices as usize, Vec::new());
            let (mut offsets, mut indices, mut stored) = (vec![0u64], Vec::new(), Vec::new());
            for _ in 0..rows {
                for column in 0..columns {
                    let value = if random.below(5) == 0 { random.below(9) as f32 + 1.0 } else { 0.0 };
                    values.push(value);
                    if value != 0.0 {
                        indices.push(column as u32);
                        stored.push(value);
                    }
                }
                offsets.push(indices.len() as u64);
            }
            let dense = Buffer::from_rows(rows, columns, &values).unwrap();
            let dense = Matrix::from(dense.read(0..rows).unwrap());
            let sparse = SparseRows::new(columns as u32, offsets, indices, stored).unwrap();
            let rows_of = Arc::new(sparse);
            let sparse = Matrix::from(rows_of.clone());
            let atoms = eciton_types::Atoms::new(graph.offsets()).unwrap();
            let range = |atom: u32| atoms.row_range(atom..atom + 1);
            let ranges: Vec<_> =
                (0..atoms.count()).map(range).map(|r| r.start as usize..r.end as usize).collect();
            let scale = symmetric_scale(graph.offsets());
            let inverse = inverse_degrees(graph.offsets(), false);
            let weights: Vec<f32> = (0..graph.edges()).map(|edge| (edge % 5) as f32 * 0.5).collect();
            let weights = (round % 3 == 0).then_some(&weights[..]);
            let (of, gather) = match round % 4 {
                0 => (Sums::WithOwn(1.5), FeatureGather::WithOwn(1.5)),
                1 => (Sums::Mean(&inverse), FeatureGather::Beside),
                _ => (Sums::Symmetric(&scale), FeatureGather::Hops(1)),
            };
            let gathered = gather_features(&graph, weights, of, &dense, (&ranges, 1)).unwrap();
            let again = gather_features(&graph, weights, of, &sparse, (&ranges, 3)).unwrap();
            let Matrix::Sparse(found) = &again else { panic!("{again:?}") };
            let at_most = |gather| stored_at_most(&graph, &rows_of, gather);
            assert!(found.data.stored() as u64 <= at_most(gather));
            assert!(at_most(gather) <= at_most(FeatureGather::Hops(1)));
            assert!(at_most(FeatureGather::Hops(1)) <= at_most(FeatureGather::Hops(2)));
            let Matrix::Dense(gathered) = gathered else { panic!("{gathered:?}") };
            let held = gathered.hold(None).unwrap();
            for v in 0..rows {
                let (columns, values) = found.data.row(v);
                let mut row = vec![0.0f32; held.view().columns()];
                for (&column, &value) in columns.iter().zip(values) {
                    row[column as usize] = value;
                }
                for (a, b) in held.view().row(v).iter().zip(&row) {
                    assert!((a - b).abs() <= 1e-5 * a.abs().max(1.0), "seed {seed}, round {round}, row {v}");
                }
            }
        }
    }
}

//! Measurement of vertex orders, which determines the gain of each order on one graph.

use std::ops::Range;
use std::time::Instant;

use eciton_tensor::Buffer;

use super::lists::{permute_lists, shares};
use super::{Order, Permutation};
use crate::adjacency::{Adjacency, Graph};
use crate::error::{Error, Result};
use crate::links::Links;
use crate::random::SplitMix64;
use eciton_gather::gather_symmetric;
use eciton_input::threads::{on_threads, threads_for};

/// Numbers of values per row for which gathers are timed.
pub const SURVEY_WIDTHS: [usize; 2] = [16, 48];
/// Maximum number of edges from which orders are computed. For a larger graph a random sample of
/// edges is used.
const MAX_ORDERED: u64 = 32 << 20;
/// Approximate maximum number of edges that are gathered. For a larger graph only some ranges of
/// rows are gathered.
const MAX_GATHERED: u64 = 8 << 20;
/// Number of ranges of adjacent rows that are gathered from a large graph.
const PIECES: u64 = 8;
/// Minimum and maximum number of timed rounds. One round that is not timed comes first. The minimum
/// always runs, because one round is not reliable on a busy machine. Further rounds run until the
/// time limit is reached.
const ROUNDS: std::ops::RangeInclusive<usize> = 5..=201;
/// Time limit for the rounds of one row width, in seconds. The minimum number of rounds runs in any
/// case.
const ROUNDS_SECONDS: f64 = 1.0;

/// Measured effect of one vertex order on a graph.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gain {
    /// Vertex order that was measured.
    pub order: Order,
    /// Time to compute the order from [`Survey::edges_ordered`] edges, in seconds.
    pub seconds: f64,
    /// Mean of |u - v| over the gathered edges (u, v).
    pub mean_distance: f64,
    /// Mean of log2(1 + d) over neighbours, where d is the distance from the previous neighbour in
    /// the list. For the first neighbour, it is the distance from the vertex. A compressed
    /// adjacency takes about this number of bits per neighbour.
    pub bits_per_gap: f64,
    /// Median time of a gather for each width in [`SURVEY_WIDTHS`], in seconds.
    pub gather_seconds: [f64; 2],
    /// Speedup of gathers over the natural order, for each width in [`SURVEY_WIDTHS`]. It is the
    /// median over rounds of the natural order's time divided by this order's time.
    pub speedup: [f64; 2],
}

/// Measured effect of all vertex orders on one graph.
#[derive(Debug, Clone, PartialEq)]
pub struct Survey {
    /// Number of directed edges from which orders were computed, which are all edges or a random
    /// sample.
    pub edges_ordered: u64,
    /// Number of directed edges that each gather read, which are all edges or about 2^23 of them.
    pub edges_gathered: u64,
    /// Number of threads of the gathers. Orders are computed by one thread.
    pub threads: usize,
    /// Results for the orders in [`Order::ALL`], of which the natural one is the first.
    pub gains: Vec<Gain>,
}

impl Survey {
    /// Measures all orders. It takes about 20 s on graphs with 50 million edges or more. The memory
    /// is that of the orders, 4 x 4 bytes for each gathered edge, and rows of 48 values for every
    /// vertex.
    ///
    /// # Errors
    /// Returns [`Error::Memory`] if the rows do not fit in memory.
    pub fn measure(graph: &Graph) -> Result<Self> {
        let sparse = (graph.edges() > MAX_ORDERED).then(|| thinned(graph, MAX_ORDERED)).transpose()?;
        let ordered = sparse.as_ref().unwrap_or(graph);
        let mut samples = Vec::new();
        for order in Order::ALL {
            let began = Instant::now();
            let permutation = Permutation::compute(ordered, order);
            let seconds = began.elapsed().as_secs_f64();
            samples.push(Sample::new(graph, order, &permutation, seconds)?);
        }
        let edges_ordered = ordered.edges();
        drop(sparse);
        let mut gathers = [Vec::new(), Vec::new()];
        for (width, medians) in SURVEY_WIDTHS.into_iter().zip(&mut gathers) {
            *medians = gather_in_turns(&samples, width)?;
        }
        let gains = samples.iter().enumerate().map(|(at, sample)| Gain {
            gather_seconds: [gathers[0][at].0, gathers[1][at].0],
            speedup: [gathers[0][at].1, gathers[1][at].1],
            ..sample.gain
        });
        Ok(Self {
            edges_ordered,
            edges_gathered: samples[0].lists.neighbours().len() as u64,
            threads: threads_for(samples[0].lists.neighbours().len() as u64),
            gains: gains.collect(),
        })
    }
}

/// Returns a graph with a random sample of about `most` edges, without directions. The choice of an
/// edge depends only on the vertices that it joins.
fn thinned(graph: &Graph, most: u64) -> Result<Graph> {
    let view = Links::new(graph);
    let both = if graph.symmetric() { 1 } else { 2 };
    // The fraction is below 1, because this function is called only above the limit.
    let share = most as f64 / (graph.edges().max(1) * both) as f64;
    let limit = (share * u64::MAX as f64) as u64;
    let stays =
        |u: u32, v: u32| SplitMix64::new(u64::from(u.min(v)) << 32 | u64::from(u.max(v))).next_u64() < limit;
    let mut offsets = Vec::with_capacity(graph.vertices() as usize + 1);
    offsets.push(0u64);
    let mut neighbours = Vec::new();
    for v in 0..graph.vertices() {
        view.partners(v).for_each(|u| {
            if stays(u, v) {
                neighbours.push(u);
            }
        });
        offsets.push(neighbours.len() as u64);
    }
    Ok(Graph::from_parts(Adjacency::from_parts(offsets, neighbours)?, None)?)
}

/// Adjacency lists that are gathered under one vertex order, with the order's results.
struct Sample {
    lists: Adjacency,
    ranges: Vec<Range<usize>>,
    /// Results of the order, in which the gather times are still missing.
    gain: Gain,
}

impl Sample {
    fn new(graph: &Graph, order: Order, permutation: &Permutation, seconds: f64) -> Result<Self> {
        let ranges = pieces(graph, permutation, MAX_GATHERED);
        let lists = permute_lists(graph.incoming(), permutation, &ranges, threads_for(graph.edges()))?;
        let (mean_distance, bits_per_gap) = distances(&lists);
        let (gather_seconds, speedup) = ([0.0; 2], [1.0; 2]);
        let gain = Gain { order, seconds, mean_distance, bits_per_gap, gather_seconds, speedup };
        Ok(Self { lists, ranges, gain })
    }

    /// Gathers the sampled rows once. The first row of each range is written to row 0 of `out`.
    fn gather(&self, scale: &[f32], input: &Buffer, out: &Buffer) -> Result<()> {
        let threads = threads_for(self.lists.neighbours().len() as u64);
        let failed = || Error::memory("rows of the survey");
        let input = input.read(0..input.rows()).map_err(failed())?;
        for range in &self.ranges {
            let one = |rows: Range<usize>| -> Result<()> {
                let local = rows.start - range.start..rows.end - range.start;
                let mut lease = out.write(local).map_err(failed())?;
                gather_symmetric(&self.lists, scale, input.view(), rows, &mut lease.view_mut());
                Ok(())
            };
            let parts = shares(self.lists.offsets(), range.clone(), threads);
            on_threads(parts, one).into_iter().collect::<Result<()>>()?;
        }
        Ok(())
    }
}

/// Returns the ranges of new vertices that are gathered. On a large graph, they have about `most`
/// edges in total and are spread evenly over the edges.
fn pieces(graph: &Graph, permutation: &Permutation, most: u64) -> Vec<Range<usize>> {
    let old = permutation.old_of_new();
    if graph.edges() <= most {
        return std::iter::once(0..old.len()).collect();
    }
    let mut ranges = Vec::new();
    let (mut seen, mut start) = (0u64, None);
    let piece = |edges: u64| edges as u128 * u128::from(PIECES);
    for (new, &v) in old.iter().enumerate() {
        let at = piece(seen) / u128::from(graph.edges());
        // A range extends from the start of its share of the edges until it has its part of `most`
        // edges.
        let within = piece(seen) - at * u128::from(graph.edges()) < u128::from(most);
        match (within, start) {
            (true, None) => start = Some(new),
            (false, Some(from)) => {
                ranges.push(from..new);
                start = None;
            }
            _ => {}
        }
        seen += graph.in_neighbours(v).len() as u64;
    }
    ranges.extend(start.map(|from| from..old.len()));
    ranges
}

/// Returns the mean distance between the ends of edges, and the mean of log2(1 + gap) in the lists.
fn distances(lists: &Adjacency) -> (f64, f64) {
    let (mut sum, mut bits) = (0u64, 0.0);
    for v in 0..lists.vertices() {
        let mut last = v;
        for &u in lists.neighbours_of(v) {
            sum += u64::from(u.abs_diff(v));
            bits += (1.0 + f64::from(u.abs_diff(last))).log2();
            last = u;
        }
    }
    let count = lists.neighbours().len().max(1) as f64;
    (sum as f64 / count, bits / count)
}

/// Returns for each sample the median time of a gather of rows with `width` values. Also returns
/// the median over rounds of the first sample's time divided by this sample's time.
fn gather_in_turns(samples: &[Sample], width: usize) -> Result<Vec<(f64, f64)>> {
    let failed = || Error::memory("rows of the survey");
    let vertices = samples.first().map_or(0, |s| s.lists.vertices() as usize);
    let longest = samples.iter().flat_map(|s| &s.ranges).map(|r| r.len()).max().unwrap_or(0);
    let input = Buffer::zeroed(vertices, width).map_err(failed())?;
    {
        // The rows are written, so that every page has memory of its own.
        let mut lease = input.write(0..vertices).map_err(failed())?;
        lease.view_mut().data_mut().fill(0.5);
    }
    let out = Buffer::zeroed(longest, width).map_err(failed())?;
    let scale = vec![0.5; vertices];
    let round = || -> Result<Vec<f64>> {
        let timed = |sample: &Sample| {
            let began = Instant::now();
            sample.gather(&scale, &input, &out)?;
            // No clock is fine enough for a time of 0. A minimum of 1 ns keeps ratios finite in any
            // case.
            Ok(began.elapsed().as_secs_f64().max(1e-9))
        };
        samples.iter().map(timed).collect()
    };
    let first: f64 = round()?.iter().sum();
    let count = ((ROUNDS_SECONDS / first) as usize).clamp(*ROUNDS.start(), *ROUNDS.end());
    let rounds = (0..count).map(|_| round()).collect::<Result<Vec<_>>>()?;
    let median = |of: &dyn Fn(&Vec<f64>) -> f64| {
        let mut values: Vec<f64> = rounds.iter().map(of).collect();
        values.sort_unstable_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let each = |at: usize| (median(&|times| times[at]), median(&|times| times[0] / times[at]));
    Ok((0..samples.len()).map(each).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::adjacency::Options;

    fn ring(vertices: u32) -> Graph {
        let edges = (0..vertices).map(move |v| (v, (v + 1) % vertices));
        Graph::from_edges(vertices.into(), edges, Options::default()).unwrap()
    }

    #[test]
    fn every_order_is_measured() {
        let survey = Survey::measure(&ring(50)).unwrap();
        assert_eq!((survey.edges_ordered, survey.edges_gathered, survey.threads), (100, 100, 1));
        assert_eq!(survey.gains.iter().map(|g| g.order).collect::<Vec<_>>(), Order::ALL);
        for gain in &survey.gains {
            assert!(gain.gather_seconds.iter().chain(&gain.speedup).all(|&s| s > 0.0) && gain.seconds >= 0.0);
        }
        assert_eq!(survey.gains[0].speedup, [1.0; 2]);
        // 98 edges of distance 1, two of 49.
        assert_eq!(survey.gains[0].mean_distance, (98.0 + 98.0) / 100.0);
    }

    #[test]
    fn gaps_are_counted_as_defined() {
        // Lists 0: 3, 7 and 1: -, ..., 3: 0, 7: 0.
        let graph = Graph::from_edges(8, [(0, 3), (0, 7)].into_iter(), Options::default()).unwrap();
        let (mean, bits) = distances(graph.incoming());
        assert_eq!(mean, 20.0 / 4.0);
        // Gaps 3, 4, 3, 7.
        assert!((bits - (2.0 + 5f64.log2() + 2.0 + 3.0) / 4.0).abs() < 1e-12);
    }

    #[test]
    fn pieces_hold_about_the_share_and_are_spread() {
        let graph = ring(8000);
        let same = Permutation::identity(8000).unwrap();
        let ranges = pieces(&graph, &same, 1600);
        assert_eq!(ranges.len(), PIECES as usize);
        assert_eq!(ranges[0], 0..100);
        assert_eq!(ranges[7], 7000..7100);
        let sample = permute_lists(graph.incoming(), &same, &ranges, 2).unwrap();
        assert_eq!(sample.neighbours().len(), 1600);
        assert_eq!(sample.neighbours_of(7000), graph.in_neighbours(7000));
        assert_eq!(sample.neighbours_of(6999), [] as [u32; 0]);
        assert_eq!(pieces(&graph, &same, 16_000), std::iter::once(0..8000).collect::<Vec<_>>());
    }

    #[test]
    fn a_thinned_graph_has_about_the_share_and_both_directions() {
        for symmetric in [true, false] {
            let options = Options { symmetric, ..Options::default() };
            let edges = (0..4000u32).flat_map(|v| (1..6).map(move |d| (v, (v + d) % 4000)));
            let graph = Graph::from_edges(4000, edges, options).unwrap();
            let thin = thinned(&graph, 8000).unwrap();
            assert!(thin.symmetric() && (7000..9000).contains(&thin.edges()), "{}", thin.edges());
            for (s, t) in thin.edge_list() {
                assert!(thin.in_neighbours(s).contains(&t));
                assert!(graph.in_neighbours(s).contains(&t) || graph.in_neighbours(t).contains(&s));
            }
        }
    }
}

//! Splits a chain of convolutions and poolings by image rows, so that each worker computes one
//! strip.
//!
//! Rows `[a, b)` of a layer's output need rows `[a s - p, (b - 1) s - p + r)` of its input, within
//! the image. s is the stride, p the padding, and r = dilation (kernel - 1) + 1. For a *block* of
//! layers, this rule is applied from the last layer to the first. Each worker computes a share of
//! the rows of the block's last layer, in proportion to its speed, and all rows that this share
//! needs. Rows at the borders between strips are therefore computed twice. Between blocks, a worker
//! receives *halos*: rows that the next block needs and that other workers computed. The values do
//! not depend on where blocks end.
//!
//! Fewer blocks exchange less often and compute more rows twice. [`fuse`] finds the fastest
//! division:
//!
//! ```text
//! F(j) = min over i < j of F(i) + transfer(rows that i+1..j need) + max over workers of compute(i+1..j)
//! ```
//!
//! Source: Li, Iosifidis and Zhang 2022, "Receptive field-based segmentation for distributed CNN
//! inference acceleration in collaborative edge computing" (ICC: DPFP). [`each`] makes every layer
//! a block of its own, like MoDNN (Mao et al. 2017).
//!
//! ```
//! use eciton_program::receptive::{self, Chain, Workers};
//! let (vgg, workers) = (receptive::vgg16(), Workers::alike(4, 1e11, 1.25e8));
//! let fused = receptive::fuse(&vgg, &workers);
//! assert!(fused.seconds < receptive::each(&vgg, &workers).seconds);
//! assert!(fused.seconds < 0.35 * receptive::alone(&vgg, &workers));
//! # Ok::<(), eciton_program::Error>(())
//! ```

mod chain;
mod strips;
#[cfg(test)]
mod tests;

pub use chain::{Chain, Step, vgg16};
pub use strips::{Splittable, Strips};

use std::ops::Range;

/// Workers that share the rows of a chain of convolutions, and the network between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Workers {
    /// Floating-point operations per second of each worker. The first worker has the image and
    /// receives the result.
    pub flops_per_s: Vec<f64>,
    /// Bandwidth of each worker in each direction, in bytes per second. A worker sends and receives
    /// at the same time.
    pub bytes_per_s: f64,
    /// Fixed time of each exchange of rows, in seconds.
    pub latency_s: f64,
    /// True if every worker has the whole image and keeps its rows of the result, so that only
    /// halos are exchanged.
    pub share_image: bool,
}

impl Workers {
    /// Returns `count` workers of the same speed and bandwidth. Exchanges take no fixed time, and
    /// only the first worker has the image.
    #[must_use]
    pub fn alike(count: usize, flops_per_s: f64, bytes_per_s: f64) -> Self {
        Self { flops_per_s: vec![flops_per_s; count], bytes_per_s, latency_s: 0.0, share_image: false }
    }

    /// Returns the number of workers.
    #[must_use]
    pub fn count(&self) -> usize {
        self.flops_per_s.len()
    }

    /// Divides `rows` image rows among the workers, in proportion to their speeds. Returns one
    /// range per worker. The ranges are consecutive, and some may be empty.
    #[must_use]
    pub fn shares(&self, rows: u32) -> Vec<Range<u32>> {
        let all: f64 = self.flops_per_s.iter().sum();
        let (mut sum, mut from) = (0.0, 0);
        let last = self.count().saturating_sub(1);
        let share = |(at, speed): (usize, &f64)| {
            sum += speed;
            let share = (f64::from(rows) * sum / all).round() as u32;
            let to = if at == last { rows } else { share.clamp(from, rows) };
            std::mem::replace(&mut from, to)..to
        };
        self.flops_per_s.iter().enumerate().map(share).collect()
    }
}

/// Rows that one worker sends to another between two blocks of layers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Index of the worker that sends the rows.
    pub from: usize,
    /// Index of the worker that receives the rows.
    pub to: usize,
    /// Range of the rows in the image.
    pub rows: Range<u32>,
    /// Size of the rows in f32, in bytes.
    pub bytes: u64,
}

/// Division of a chain of layers into blocks, with its estimated cost. Workers exchange rows
/// between blocks only.
#[derive(Clone, Debug, PartialEq)]
pub struct Cut {
    /// Range of layers of each block, in order.
    pub blocks: Vec<Range<usize>>,
    /// Estimated time from the image on the first worker to the result on the first worker, in
    /// seconds.
    pub seconds: f64,
    /// Time that the slowest worker of each block computes, summed over all blocks, in seconds. It
    /// is part of `seconds`.
    pub compute_s: f64,
    /// Bytes of the halos, which are the rows that workers exchange between blocks.
    pub halo_bytes: u64,
    /// Bytes of the image rows and result rows that are sent between workers.
    pub ends_bytes: u64,
}

/// Returns the rows that workers exchange before a block of layers. Each worker has its share of
/// the previous layer's rows. Before the first block, the first worker has the whole image.
#[must_use]
pub fn exchange(chain: &Chain, workers: &Workers, block: &Range<usize>) -> Vec<Transfer> {
    let rows = chain.rows(block.start);
    let have = match block.start {
        0 if workers.share_image => return Vec::new(),
        0 => at_first(workers.count(), rows),
        _ => workers.shares(rows),
    };
    let need = workers.shares(chain.rows(block.end)).into_iter().map(|share| chain.needs(block, share));
    transfers(&have, need, chain.row_bytes(block.start))
}

/// Returns the transfers that bring the result to the first worker. There are none if the workers
/// keep their rows.
#[must_use]
pub fn collect(chain: &Chain, workers: &Workers) -> Vec<Transfer> {
    if workers.share_image {
        return Vec::new();
    }
    let (end, count) = (chain.len(), workers.count());
    let rows = chain.rows(end);
    transfers(&workers.shares(rows), at_first(count, rows).into_iter(), chain.row_bytes(end))
}

/// Returns one range per worker, of which the first contains all rows and the others are empty.
fn at_first(count: usize, rows: u32) -> Vec<Range<u32>> {
    (0..count).map(|worker| if worker == 0 { 0..rows } else { rows..rows }).collect()
}

fn transfers(have: &[Range<u32>], need: impl Iterator<Item = Range<u32>>, row_bytes: u64) -> Vec<Transfer> {
    let mut all = Vec::new();
    for (to, need) in need.enumerate() {
        for (from, have) in have.iter().enumerate().filter(|(from, _)| *from != to) {
            let rows = need.start.max(have.start)..need.end.min(have.end);
            if !rows.is_empty() {
                let bytes = u64::from(rows.end - rows.start) * row_bytes;
                all.push(Transfer { from, to, rows, bytes });
            }
        }
    }
    all
}

/// Returns the time of an exchange, in seconds. It depends on the largest number of bytes that any
/// worker sends or receives.
fn exchange_s(workers: &Workers, transfers: &[Transfer]) -> f64 {
    if transfers.is_empty() {
        return 0.0;
    }
    let busiest = (0..workers.count()).map(|worker| {
        let of = |end: fn(&Transfer) -> usize| {
            transfers.iter().filter(|t| end(t) == worker).map(|t| t.bytes).sum::<u64>()
        };
        of(|t| t.from).max(of(|t| t.to))
    });
    workers.latency_s + busiest.max().unwrap_or(0) as f64 / workers.bytes_per_s
}

/// Returns the time that the slowest worker computes in a block, in seconds.
fn compute_s(chain: &Chain, workers: &Workers, block: &Range<usize>) -> f64 {
    let shares = workers.shares(chain.rows(block.end));
    let of = |(share, speed): (Range<u32>, &f64)| chain.flops(block, share) / speed;
    shares.into_iter().zip(&workers.flops_per_s).map(of).fold(0.0, f64::max)
}

fn bytes(transfers: &[Transfer]) -> u64 {
    transfers.iter().map(|transfer| transfer.bytes).sum()
}

/// Returns the division of a chain into the given blocks, with its estimated cost.
#[must_use]
pub fn timed(chain: &Chain, workers: &Workers, blocks: Vec<Range<usize>>) -> Cut {
    let end = collect(chain, workers);
    let mut cut = Cut {
        seconds: exchange_s(workers, &end),
        compute_s: 0.0,
        halo_bytes: 0,
        ends_bytes: bytes(&end),
        blocks: Vec::new(),
    };
    for block in &blocks {
        let before = exchange(chain, workers, block);
        let computed = compute_s(chain, workers, block);
        cut.seconds += exchange_s(workers, &before) + computed;
        cut.compute_s += computed;
        *(if block.start == 0 { &mut cut.ends_bytes } else { &mut cut.halo_bytes }) += bytes(&before);
    }
    Cut { blocks, ..cut }
}

/// Returns the fastest division of a chain into blocks, found by dynamic programming. Of equally
/// fast divisions, it returns the one with the earliest borders.
#[must_use]
pub fn fuse(chain: &Chain, workers: &Workers) -> Cut {
    let count = chain.len();
    // Time of the fastest cut up to the output of each layer, and the start of its last block.
    let mut best = vec![(0.0, 0); count + 1];
    for to in 1..=count {
        let ways = (0..to).map(|from| {
            let block = from..to;
            let before = exchange_s(workers, &exchange(chain, workers, &block));
            (best[from].0 + before + compute_s(chain, workers, &block), from)
        });
        best[to] = ways.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or_default();
    }
    let mut blocks = Vec::new();
    let mut to = count;
    while to > 0 {
        let from = best[to].1;
        blocks.push(from..to);
        to = from;
    }
    blocks.reverse();
    timed(chain, workers, blocks)
}

/// Returns the division of a chain in which every layer is its own block, with its estimated cost.
#[must_use]
pub fn each(chain: &Chain, workers: &Workers) -> Cut {
    timed(chain, workers, (0..chain.len()).map(|at| at..at + 1).collect())
}

/// Returns the estimated time in which the first worker computes the whole chain alone, in seconds.
#[must_use]
pub fn alone(chain: &Chain, workers: &Workers) -> f64 {
    let all = 0..chain.len();
    let speed = workers.flops_per_s.first().copied().unwrap_or(1.0);
    chain.flops(&all, 0..chain.rows(all.end)) / speed
}

//! Splitting a chain of convolutions and poolings by rows of the image, for workers that hold a
//! strip each.
//!
//! Rows `[a, b)` of a layer's output need rows `[a s - p, (b - 1) s - p + r)` of its input, within
//! the image, with stride s, padding p and r = dilation (kernel - 1) + 1. Through a *block* of
//! layers this is applied from the last one to the first. Each worker makes a share of the rows of
//! a block's last layer, by its speed, and computes what that needs: rows at the borders are
//! computed twice. Between blocks a worker gets the rows that the next block needs and that others
//! made: *halos*. Wherever blocks end, the values are the same.
//!
//! Fewer blocks exchange less often and compute more rows twice. [`fuse`] finds the quickest cut:
//!
//! ```text
//! F(j) = min over i < j of F(i) + transfer(rows that i+1..j need) + max over workers of compute(i+1..j)
//! ```
//!
//! Source: Li, Iosifidis and Zhang 2022, "Receptive field-based segmentation for distributed CNN
//! inference acceleration in collaborative edge computing" (ICC: DPFP). [`each`] is every layer a
//! block of its own, as MoDNN has it (Mao et al. 2017).
//!
//! ```
//! use eciton_plan::receptive::{self, Chain, Workers};
//! let (vgg, workers) = (receptive::vgg16(), Workers::alike(4, 1e11, 1.25e8));
//! let fused = receptive::fuse(&vgg, &workers);
//! assert!(fused.seconds < receptive::each(&vgg, &workers).seconds);
//! assert!(fused.seconds < 0.35 * receptive::alone(&vgg, &workers));
//! # Ok::<(), eciton_plan::Error>(())
//! ```

mod chain;
mod strips;
#[cfg(test)]
mod tests;

pub use chain::{Chain, Step, vgg16};
pub use strips::{Splittable, Strips};

use std::ops::Range;

/// Who computes a chain, and what lies between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Workers {
    /// Floating-point operations a second of each; the first has the image and takes the result.
    pub flops_per_s: Vec<f64>,
    /// Bytes a second into a worker, and as many out of it at once.
    pub bytes_per_s: f64,
    /// Seconds that an exchange takes besides.
    pub latency_s: f64,
    /// True if every worker has the whole image, and the result is not collected.
    pub share_image: bool,
}

impl Workers {
    /// So many of one speed.
    #[must_use]
    pub fn alike(count: usize, flops_per_s: f64, bytes_per_s: f64) -> Self {
        Self { flops_per_s: vec![flops_per_s; count], bytes_per_s, latency_s: 0.0, share_image: false }
    }

    /// How many.
    #[must_use]
    pub fn count(&self) -> usize {
        self.flops_per_s.len()
    }

    /// The rows that each makes of so many: runs in order, as long as its speed says; some may be
    /// empty.
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

/// Rows that one worker has and another needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Who has them.
    pub from: usize,
    /// Who needs them.
    pub to: usize,
    /// Which rows.
    pub rows: Range<u32>,
    /// Their bytes, f32.
    pub bytes: u64,
}

/// A cut of a chain into blocks, and what it takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Cut {
    /// The blocks in order: layers of each.
    pub blocks: Vec<Range<usize>>,
    /// From the image at the first worker to the result there.
    pub seconds: f64,
    /// Of these, the slowest worker's computing in each block.
    pub compute_s: f64,
    /// Bytes of halos between blocks.
    pub halo_bytes: u64,
    /// Bytes of the image and of the result that travel.
    pub ends_bytes: u64,
}

/// What rows are exchanged before a block, by who has them: workers' shares of the layer before, or
/// the image.
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

/// What the first worker is sent at the end.
#[must_use]
pub fn collect(chain: &Chain, workers: &Workers) -> Vec<Transfer> {
    if workers.share_image {
        return Vec::new();
    }
    let (end, count) = (chain.len(), workers.count());
    let rows = chain.rows(end);
    transfers(&workers.shares(rows), at_first(count, rows).into_iter(), chain.row_bytes(end))
}

/// All rows with the first worker.
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

/// Seconds of an exchange: the busiest worker's bytes, in or out.
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

/// Seconds of the slowest worker in a block.
fn compute_s(chain: &Chain, workers: &Workers, block: &Range<usize>) -> f64 {
    let shares = workers.shares(chain.rows(block.end));
    let of = |(share, speed): (Range<u32>, &f64)| chain.flops(block, share) / speed;
    shares.into_iter().zip(&workers.flops_per_s).map(of).fold(0.0, f64::max)
}

fn bytes(transfers: &[Transfer]) -> u64 {
    transfers.iter().map(|transfer| transfer.bytes).sum()
}

/// What a cut takes.
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

/// The quickest cut, by dynamic programming; of equal ones that with the earliest borders.
#[must_use]
pub fn fuse(chain: &Chain, workers: &Workers) -> Cut {
    let count = chain.len();
    // The quickest way to the output of each layer, and where its last block begins.
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

/// Every layer a block of its own.
#[must_use]
pub fn each(chain: &Chain, workers: &Workers) -> Cut {
    timed(chain, workers, (0..chain.len()).map(|at| at..at + 1).collect())
}

/// Seconds of the first worker by itself.
#[must_use]
pub fn alone(chain: &Chain, workers: &Workers) -> f64 {
    let all = 0..chain.len();
    let speed = workers.flops_per_s.first().copied().unwrap_or(1.0);
    chain.flops(&all, 0..chain.rows(all.end)) / speed
}

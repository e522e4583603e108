//! GraphSAINT's normalisation (Zeng et al., ICLR 2020, section 3.2). It counts beforehand how often
//! samples contain each row and edge, and computes weights that correct the sampling bias.
//!
//! C_v and C_e are the numbers of N subgraphs that contain row v and edge e. An edge e of v's list
//! has the weight `C_v / C_e`, so that the expected aggregate of v is that of the full graph. The
//! loss of v has the weight `N / (C_v R)`, with R the number of training rows, so that the expected
//! loss is the mean over all training rows.

use std::sync::atomic::{AtomicU32, Ordering};

use eciton_input::threads::{on_threads, shares as shares_of};

use super::{Room, SampleKey, Sampler, Subgraph};
use crate::adjacency::Graph;

/// Maximum weight of an edge, as published for GraphSAINT.
pub const MOST: f32 = 1e4;
/// Weight of an edge that no counted subgraph contains, and count of a row that none contains, as
/// published for GraphSAINT.
pub const UNSEEN: f32 = 0.1;
/// Round in the keys of counted subgraphs. No round of training has this index.
pub const COUNTED_ROUND: u32 = u32::MAX;

/// Number of subgraphs that a thread samples before they are counted.
const SUBGRAPHS_A_THREAD: u32 = 2;

/// Numbers of counted subgraphs that contain each row and each edge of a graph.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of counted subgraphs that contain each row.
    pub vertices: Vec<u32>,
    /// Number of counted subgraphs that contain each edge, in the order of the incoming lists.
    pub edges: Vec<u32>,
    /// Number of counted subgraphs.
    pub subgraphs: u32,
    /// Total number of rows in the counted subgraphs.
    rows: u64,
}

impl Counts {
    /// Counts the subgraphs 0, 1, ... of round [`COUNTED_ROUND`]. It stops when their total number
    /// of rows exceeds `coverage` times `roots`, the number of training rows. At most `most`
    /// subgraphs are counted. The counts do not depend on the number of `threads`.
    pub fn from_sampler(
        sampler: &Sampler,
        graph: &Graph,
        seed: u64,
        (coverage, roots, most): (u32, u32, u32),
        threads: usize,
    ) -> Self {
        let zeros = |count: usize| (0..count).map(|_| AtomicU32::new(0)).collect::<Vec<_>>();
        let (vertices, edges) = (zeros(graph.vertices() as usize), zeros(graph.edges() as usize));
        let mut counts = Self::default();
        let mut rooms: Vec<Room> = (0..threads.max(1)).map(|_| Room::default()).collect();
        let mut next = 0;
        while next < most && !counts.covers(coverage, roots) {
            let first = next;
            let shares = rooms.drain(..).map(|room| {
                let share = next..next.saturating_add(SUBGRAPHS_A_THREAD).min(most);
                next = share.end;
                (share, room)
            });
            let sampled = on_threads(shares.collect(), |(share, mut room)| {
                let key = |interval| SampleKey { seed, round: COUNTED_ROUND, interval };
                let sample = |interval| sampler.sample(graph, key(interval), &[], &mut room);
                let sampled: Vec<Subgraph> = share.map(sample).collect();
                (sampled, room)
            });
            let mut all = Vec::with_capacity((next - first) as usize);
            for (sampled, room) in sampled {
                all.extend(sampled);
                rooms.push(room);
            }
            // Subgraphs count in their order, so that further ones of the last share are left out.
            let mut counted = 0;
            while let Some(subgraph) = all.get(counted).filter(|_| !counts.covers(coverage, roots)) {
                counts.rows += subgraph.ids.len() as u64;
                counted += 1;
            }
            counts.subgraphs += counted as u32;
            on_threads(shares_of(counted, rooms.len()), |share| {
                for subgraph in &all[share] {
                    let add = |to: &AtomicU32| {
                        to.fetch_add(1, Ordering::Relaxed);
                    };
                    subgraph.ids.iter().for_each(|&id| add(&vertices[id as usize]));
                    subgraph.edges.iter().for_each(|&edge| add(&edges[edge as usize]));
                }
            });
        }
        let plain = |counts: Vec<AtomicU32>| counts.into_iter().map(AtomicU32::into_inner).collect();
        Self { vertices: plain(vertices), edges: plain(edges), ..counts }
    }

    /// Returns true if the total number of rows in the counted subgraphs exceeds `coverage` times
    /// `roots`.
    pub fn covers(&self, coverage: u32, roots: u32) -> bool {
        self.rows > u64::from(coverage) * u64::from(roots)
    }

    /// Returns the effective number of the rows `training` in a subgraph. It is 1 / CV^2, where CV is
    /// the coefficient of variation of their total loss weight ([`Counts::loss_weights`]) over
    /// subgraphs, if rows are drawn independently of each other. With equal weights and few rows per
    /// subgraph, it is their mean number. It is at most the number of the rows.
    ///
    /// # Panics
    /// Panics if the graph does not have all of the rows.
    pub fn effective_rows(&self, training: &[u32]) -> f64 {
        let (subgraphs, rows) = (f64::from(self.subgraphs), training.len() as f64);
        let variance = |&row: &u32| {
            let count = self.vertices[row as usize];
            subgraphs / if count == 0 { f64::from(UNSEEN) } else { f64::from(count) } - 1.0
        };
        let variance: f64 = training.iter().map(variance).sum();
        (rows * rows / variance.max(0.0)).min(rows)
    }

    /// Returns the weight of each entry of the subgraph's lists, which is `C_v / C_e`. The weight
    /// is at most [`MOST`], and [`UNSEEN`] if C_e is 0.
    ///
    /// # Panics
    /// Panics if the subgraph has rows or edges that the graph does not have.
    pub fn edge_factors(&self, subgraph: &Subgraph) -> Vec<f32> {
        let mut factors = Vec::with_capacity(subgraph.edges.len());
        for (&id, list) in subgraph.ids.iter().zip(subgraph.incoming.offsets().windows(2)) {
            let row = self.vertices[id as usize] as f32;
            factors.extend(subgraph.edges[list[0] as usize..list[1] as usize].iter().map(|&edge| {
                match self.edges[edge as usize] {
                    0 => UNSEEN,
                    count => (row / count as f32).min(MOST),
                }
            }));
        }
        factors
    }

    /// Returns the loss weight of each row of the subgraph, which is `N / (C_v roots)`. A row that
    /// was never counted has the count [`UNSEEN`].
    ///
    /// # Panics
    /// Panics if the subgraph has rows or edges that the graph does not have.
    pub fn loss_weights(&self, subgraph: &Subgraph, roots: u32) -> Vec<f32> {
        let scale = f64::from(self.subgraphs) / f64::from(roots.max(1));
        let weight = |&id: &u32| match self.vertices[id as usize] {
            0 => (scale / f64::from(UNSEEN)) as f32,
            count => (scale / f64::from(count)) as f32,
        };
        subgraph.ids.iter().map(weight).collect()
    }
}

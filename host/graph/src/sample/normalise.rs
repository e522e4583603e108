//! GraphSAINT's normalisation (Zeng et al., ICLR 2020, section 3.2). It counts beforehand how often
//! samples contain each row and edge, and computes weights that correct the sampling bias.
//!
//! C_v and C_e are the numbers of N subgraphs that contain row v and edge e. An edge e of v's list
//! has the weight `C_v / C_e`, so that the expected aggregate of v is that of the full graph. The
//! loss of v has the weight `N / (C_v R)`, with R the number of training rows, so that the expected
//! loss is the mean over all training rows.

use super::{Room, SampleKey, Sampler, Subgraph};
use crate::adjacency::Graph;

/// Maximum weight of an edge, as published for GraphSAINT.
pub const MOST: f32 = 1e4;
/// Weight of an edge that no counted subgraph contains, and count of a row that none contains, as
/// published for GraphSAINT.
pub const UNSEEN: f32 = 0.1;
/// Round in the keys of counted subgraphs. No round of training has this index.
pub const COUNTED_ROUND: u32 = u32::MAX;

/// Numbers of counted subgraphs that contain each row and each edge of a graph.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// Creates counts without any subgraph. They take 4 bytes per vertex and 4 bytes per edge.
    pub fn new(graph: &Graph) -> Self {
        let (vertices, edges) = (graph.vertices() as usize, graph.edges() as usize);
        Self { vertices: vec![0; vertices], edges: vec![0; edges], subgraphs: 0, rows: 0 }
    }

    /// Counts the subgraphs 0, 1, ... of round [`COUNTED_ROUND`]. It stops when their total number
    /// of rows exceeds `coverage` times `roots`, the number of training rows. At most `most`
    /// subgraphs are counted.
    pub fn from_sampler(
        sampler: &Sampler,
        graph: &Graph,
        seed: u64,
        (coverage, roots, most): (u32, u32, u32),
        room: &mut Room,
    ) -> Self {
        let mut counts = Self::new(graph);
        for interval in 0..most {
            if counts.covers(coverage, roots) {
                break;
            }
            counts.add(&sampler.sample(graph, SampleKey { seed, round: COUNTED_ROUND, interval }, &[], room));
        }
        counts
    }

    /// Returns true if the total number of rows in the counted subgraphs exceeds `coverage` times
    /// `roots`.
    pub fn covers(&self, coverage: u32, roots: u32) -> bool {
        self.rows > u64::from(coverage) * u64::from(roots)
    }

    /// Adds a subgraph to the counts.
    ///
    /// # Panics
    /// Panics if the subgraph has rows or edges that the graph does not have.
    pub fn add(&mut self, subgraph: &Subgraph) {
        subgraph.ids.iter().for_each(|&id| self.vertices[id as usize] += 1);
        subgraph.edges.iter().for_each(|&edge| self.edges[edge as usize] += 1);
        self.subgraphs += 1;
        self.rows += subgraph.ids.len() as u64;
    }

    /// Adds the counts that another thread has made for the same graph. The sums do not depend on
    /// the order of the calls.
    pub fn merge(&mut self, other: &Self) {
        self.vertices.iter_mut().zip(&other.vertices).for_each(|(own, count)| *own += count);
        self.edges.iter_mut().zip(&other.edges).for_each(|(own, count)| *own += count);
        self.subgraphs += other.subgraphs;
        self.rows += other.rows;
    }

    /// Returns the weight of each entry of the subgraph's lists, which is `C_v / C_e`. The weight
    /// is at most [`MOST`], and [`UNSEEN`] if C_e is 0.
    ///
    /// # Panics
    /// Panics under the conditions of [`Counts::add`].
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
    /// Panics under the conditions of [`Counts::add`].
    pub fn loss_weights(&self, subgraph: &Subgraph, roots: u32) -> Vec<f32> {
        let scale = f64::from(self.subgraphs) / f64::from(roots.max(1));
        let weight = |&id: &u32| match self.vertices[id as usize] {
            0 => (scale / f64::from(UNSEEN)) as f32,
            count => (scale / f64::from(count)) as f32,
        };
        subgraph.ids.iter().map(weight).collect()
    }
}

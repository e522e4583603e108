//! GraphSAINT's normalisation (Zeng et al., ICLR 2020, section 3.2): how often samples hold a row
//! or an edge, counted beforehand, and the weights that make up for it.
//!
//! With C_v and C_e of N subgraphs, an edge e of v's list weighs `C_v / C_e`, so that v's aggregate
//! has the full graph's mean wherever v is drawn; v's loss weighs `N / (C_v R)`, R the number of
//! training rows, so that the loss has the mean over all of them.

use super::{Room, SampleKey, Sampler, Subgraph};
use crate::adjacency::Graph;

/// Maximum weight of an edge, as published.
pub const MOST: f32 = 1e4;
/// Weight of an edge that no counted subgraph held, and count of a row that none held, as
/// published.
pub const UNSEEN: f32 = 0.1;
/// The round of the keys of counted subgraphs: no round of training has it.
pub const COUNTED_ROUND: u32 = u32::MAX;

/// Number of counted subgraphs that hold each row and each edge of a graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counts {
    /// Counts of the rows, `[V]`.
    pub vertices: Vec<u32>,
    /// Counts of the edges, `[E]`, in the order of incoming entries.
    pub edges: Vec<u32>,
    /// Number of counted subgraphs.
    pub subgraphs: u32,
    /// Total number of rows of the counted subgraphs.
    rows: u64,
}

impl Counts {
    /// Counts of no subgraph: 4 bytes a vertex and 4 an edge.
    pub fn new(graph: &Graph) -> Self {
        let (vertices, edges) = (graph.vertices() as usize, graph.edges() as usize);
        Self { vertices: vec![0; vertices], edges: vec![0; edges], subgraphs: 0, rows: 0 }
    }

    /// The counts of the subgraphs 0, 1, ... of round [`COUNTED_ROUND`], as many as have more rows
    /// together than `coverage` times `roots`, the number of training rows; at most `most`.
    pub fn of(
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

    /// Returns whether the subgraphs have more rows together than `coverage` times `roots`.
    pub fn covers(&self, coverage: u32, roots: u32) -> bool {
        self.rows > u64::from(coverage) * u64::from(roots)
    }

    /// Counts a subgraph of the graph.
    ///
    /// # Panics
    /// If it has rows or edges that the graph has not; both come from one program.
    pub fn add(&mut self, subgraph: &Subgraph) {
        subgraph.ids.iter().for_each(|&id| self.vertices[id as usize] += 1);
        subgraph.edges.iter().for_each(|&edge| self.edges[edge as usize] += 1);
        self.subgraphs += 1;
        self.rows += subgraph.ids.len() as u64;
    }

    /// Adds what another thread counted, of the same graph. In whichever order, the sums are the
    /// same.
    pub fn merge(&mut self, other: &Self) {
        self.vertices.iter_mut().zip(&other.vertices).for_each(|(own, count)| *own += count);
        self.edges.iter_mut().zip(&other.edges).for_each(|(own, count)| *own += count);
        self.subgraphs += other.subgraphs;
        self.rows += other.rows;
    }

    /// `[edges]` of the subgraph: what each entry of its lists weighs, `C_v / C_e` up to [`MOST`],
    /// or [`UNSEEN`] where C_e is 0.
    ///
    /// # Panics
    /// As [`Counts::add`].
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

    /// `[rows]` of the subgraph: what the loss of each row weighs, `N / (C_v roots)`; a row that
    /// was never counted is counted as [`UNSEEN`].
    ///
    /// # Panics
    /// As [`Counts::add`].
    pub fn loss_weights(&self, subgraph: &Subgraph, roots: u32) -> Vec<f32> {
        let scale = f64::from(self.subgraphs) / f64::from(roots.max(1));
        let weight = |&id: &u32| match self.vertices[id as usize] {
            0 => (scale / f64::from(UNSEEN)) as f32,
            count => (scale / f64::from(count)) as f32,
        };
        subgraph.ids.iter().map(weight).collect()
    }
}

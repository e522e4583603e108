//! Fixed partition of a graph by a vertex cut, for training without messages between parts
//! (CoFree-GNN: Cao et al., "Communication-Free Distributed GNN Training with Vertex Cut", 2023).
//!
//! Each edge is in one part, and a vertex is in every part that has one of its edges. The part is a
//! hash of the edge's end with the lower degree (degree-based hashing: Xie et al., NeurIPS 2014),
//! so that hubs are cut. In each part, the loss of a vertex is weighted by its local degree divided
//! by its degree, so that its weights sum to 1. With DropEdge-K, each part has K masks of dropped
//! edges, drawn once, and each round uses one of them.

#[cfg(test)]
mod tests;

use eciton_tensor::random::{Dropout, Key, Purpose};

use super::room::Room;
use super::{SampleKey, Subgraph, refused};
use crate::adjacency::Graph;
use crate::error::Result;

/// Maximum number of parts of a graph, and of masks of a part.
pub const MOST_PARTS: u32 = 1 << 16;
/// Round in the keys by which edges are assigned to parts. The next constant is the round for
/// masks. No round of training has these indices.
const PART_ROUND: u32 = u32::MAX - 1;
const MASK_ROUND: u32 = u32::MAX - 2;

/// Part of a partitioned graph, with loss weights and masks of dropped edges.
#[derive(Debug, Clone)]
pub struct Part {
    /// Subgraph of the part, whose rows ascend. All training rows count in the loss.
    pub subgraph: Subgraph,
    /// Loss weight of each row. It is the row's degree in the part divided by its degree in the
    /// graph, or 1 for a vertex without edges.
    pub weights: Vec<f32>,
    /// Masks of dropped edges, with one bit per list entry. The bit is set if the mask keeps the
    /// entry.
    masks: Vec<Vec<u64>>,
}

/// Partition of a graph into parts that have no edge in common.
#[derive(Debug, Clone)]
pub struct Parts {
    parts: Vec<Part>,
    vertices: u32,
}

impl Parts {
    /// Divides a graph into `count` parts by hashes with the seed `seed`. The parts have no masks.
    /// An edge and its reverse are in the same part. A vertex without edges is in one part.
    ///
    /// # Errors
    /// Returns [`Error::Parameter`](crate::error::Error::Parameter) if `count` is 0 or above
    /// [`MOST_PARTS`].
    pub fn new(graph: &Graph, count: u32, seed: u64) -> Result<Self> {
        if !(1..=MOST_PARTS).contains(&count) {
            return Err(refused("the number of parts", count, format!("1 to {MOST_PARTS}")));
        }
        let key = Key::new(seed, Purpose::Sampling, PART_ROUND, 0, 0);
        let part_of = |vertex: u32| {
            let (bits, _) = key.row(u64::from(vertex));
            ((u64::from(bits) * u64::from(count)) >> 32) as usize
        };
        let degrees = Degrees(graph);
        let mut made: Vec<_> = (0..count).map(|_| Building::default()).collect();
        let mut edge = 0;
        for target in 0..graph.vertices() {
            let degree = degrees.degree(target);
            if degree == 0 {
                made[part_of(target)].rows.push((target, 0));
            }
            for &source in graph.in_neighbours(target) {
                let end = (degree, target).min((degrees.degree(source), source)).1;
                made[part_of(end)].push(source, target, edge);
                edge += 1;
            }
        }
        let mut room = Room::default();
        room.fit(graph);
        let parts = made.into_iter().map(|part| part.finish(&degrees, &mut room)).collect();
        Ok(Self { parts, vertices: graph.vertices() })
    }

    /// Draws `count` masks for each part, which replace earlier masks. On average, each mask drops
    /// a fraction `rate` of the part's edges. An edge and its reverse are dropped together.
    ///
    /// # Errors
    /// Returns [`Error::Parameter`](crate::error::Error::Parameter) if `count` is 0 or above
    /// [`MOST_PARTS`], or if `rate` is not at least 0 and below 1.
    pub fn drop_edges(&mut self, count: u32, rate: f32, seed: u64) -> Result<()> {
        if !(1..=MOST_PARTS).contains(&count) {
            return Err(refused("the number of masks of dropped edges", count, format!("1 to {MOST_PARTS}")));
        }
        for (part, number) in self.parts.iter_mut().zip(0..) {
            let mut masks = Vec::with_capacity(count as usize);
            for mask in 0..count {
                let key = Key::new(seed, Purpose::Sampling, MASK_ROUND, number, mask);
                let Some(dropout) = Dropout::new(key, rate) else {
                    return Err(refused("the fraction of edges to drop", rate, "at least 0 and below 1"));
                };
                masks.push(mask_of(&part.subgraph, dropout));
            }
            part.masks = masks;
        }
        Ok(())
    }

    /// Returns the parts, in the order of their indices.
    pub fn as_slice(&self) -> &[Part] {
        &self.parts
    }

    /// Returns the average number of parts that contain a vertex, which is at least 1.
    pub fn replication(&self) -> f64 {
        let rows: usize = self.parts.iter().map(|part| part.subgraph.ids.len()).sum();
        rows as f64 / f64::from(self.vertices)
    }
}

impl Part {
    /// Returns the number of masks of dropped edges.
    pub fn masks(&self) -> u32 {
        self.masks.len() as u32
    }

    /// Draws a mask for a round uniformly, and returns its index. The interval of `key` is the
    /// index of the part. Without masks the index is 0.
    pub fn mask(&self, key: SampleKey) -> u32 {
        key.stream().below(self.masks.len() as u64) as u32
    }

    /// Returns the part's subgraph without the edges that a mask drops. All rows remain. A mask
    /// that does not exist drops nothing.
    pub fn dropped(&self, mask: u32) -> Subgraph {
        let Some(mask) = self.masks.get(mask as usize) else { return self.subgraph.clone() };
        let Subgraph { ids, hops, incoming, edges, .. } = &self.subgraph;
        let kept: u32 = mask.iter().map(|word| word.count_ones()).sum();
        let mut offsets = Vec::with_capacity(ids.len() + 1);
        let mut sources = Vec::with_capacity(kept as usize);
        let mut places = Vec::with_capacity(kept as usize);
        offsets.push(0);
        for list in incoming.offsets().windows(2) {
            for at in list[0] as usize..list[1] as usize {
                if mask[at / 64] >> (at % 64) & 1 != 0 {
                    sources.push(incoming.neighbours()[at]);
                    places.push(edges[at]);
                }
            }
            offsets.push(sources.len() as u64);
        }
        let incoming = crate::build::trusted(offsets, sources);
        Subgraph { ids: ids.clone(), hops: hops.clone(), incoming, edges: places, targets: None }
    }
}

/// Returns a mask with one bit per list entry, which is set if the entry is kept. The random number
/// of an entry is addressed by its two vertices, of which the smaller one is the row.
fn mask_of(subgraph: &Subgraph, dropout: Dropout) -> Vec<u64> {
    let mut mask = vec![0; subgraph.edges.len().div_ceil(64)];
    let mut at = 0;
    for (&target, local) in subgraph.ids.iter().zip(0..) {
        for &source in subgraph.incoming.neighbours_of(local) {
            let source = subgraph.ids[source as usize];
            let key = dropout.key.row(u64::from(source.min(target)));
            let kept = dropout.factor(key, source.max(target)) != 0.0;
            mask[at / 64] |= u64::from(kept) << (at % 64);
            at += 1;
        }
    }
    mask
}

/// Degrees of a graph's vertices, which count the edges of both directions. In a symmetric graph an
/// edge and its reverse count as one.
struct Degrees<'a>(&'a Graph);

impl Degrees<'_> {
    fn degree(&self, vertex: u32) -> u64 {
        let out = self.0.transpose().map_or(0, |lists| lists.neighbours_of(vertex).len() as u64);
        self.0.in_neighbours(vertex).len() as u64 + out
    }
}

/// Part under construction, which receives list entries in ascending order of their targets.
#[derive(Default)]
struct Building {
    /// Targets with their numbers of list entries, including vertices without edges.
    rows: Vec<(u32, u64)>,
    sources: Vec<u32>,
    edges: Vec<u64>,
}

impl Building {
    fn push(&mut self, source: u32, target: u32, edge: u64) {
        match self.rows.last_mut() {
            Some((last, count)) if *last == target => *count += 1,
            _ => self.rows.push((target, 1)),
        }
        self.sources.push(source);
        self.edges.push(edge);
    }

    fn finish(self, degrees: &Degrees<'_>, room: &mut Room) -> Part {
        let Self { rows, mut sources, edges } = self;
        let all = rows.iter().map(|&(row, _)| row).chain(sources.iter().copied());
        let mut ids: Vec<u32> = all.filter(|&row| room.enter(row)).collect();
        ids.sort_unstable();
        room.leave(&ids);
        for (&id, local) in ids.iter().zip(0..) {
            room.place(id, local);
        }
        sources.iter_mut().for_each(|source| *source = room.place(*source, 0));
        room.leave(&ids);
        let (mut offsets, mut end) = (Vec::with_capacity(ids.len() + 1), 0);
        offsets.push(0);
        let mut rows = rows.into_iter().peekable();
        for &id in &ids {
            end += rows.next_if(|&(row, _)| row == id).map_or(0, |(_, count)| count);
            offsets.push(end);
        }
        let mut local: Vec<u64> = offsets.windows(2).map(|list| list[1] - list[0]).collect();
        if degrees.0.transpose().is_some() {
            sources.iter().for_each(|&source| local[source as usize] += 1);
        }
        let weight = |(&id, &local): (&u32, &u64)| match degrees.degree(id) {
            0 => 1.0,
            degree => (local as f64 / degree as f64) as f32,
        };
        let weights = ids.iter().zip(&local).map(weight).collect();
        let (hops, incoming) = (vec![ids.len() as u32], crate::build::trusted(offsets, sources));
        let subgraph = Subgraph { ids, hops, incoming, edges, targets: None };
        Part { subgraph, weights, masks: Vec::new() }
    }
}

//! Sizes of micro-batches for the memory plan. Where a sampler decides them, they are those of trial
//! samples, because the bound in which all drawn neighbours differ is far from them.

use eciton_graph::sample::parts::Parts;
use eciton_graph::sample::{Room, SampleKey, Sampler, Subgraph};
use eciton_types::{IntervalId, Round};

use super::rows::RowBatches;
use super::source::{DATA_SEED, ends_of};
use crate::data::Inputs;

/// Maximum number of trial samples.
const TRIALS: u32 = 4;
/// Rows of a sample may exceed those of all trial samples by one part in this many.
const MARGIN: u64 = 20;
/// Bytes of a micro-batch for each row of a level: the offsets of its lists in both directions, its
/// scale, its number and its label.
const ROW_BYTES: u64 = 48;
/// Bytes of a micro-batch for each edge of a level: the edge in the lists of both directions, and its
/// factors in sums and in means.
const EDGE_BYTES: u64 = 24;

/// Estimated maximum sizes of a micro-batch.
#[derive(Debug, Default)]
pub(crate) struct PartSizes {
    /// Number of vertices within h hops of the targets, for each h. The last value also serves all
    /// larger numbers of hops.
    rows: Vec<u64>,
    /// Size in bytes of the lists of neighbours.
    pub lists: u64,
    /// True if samples are drawn.
    is_drawn: bool,
    /// True if all rounds have the same micro-batches, which are made once.
    pub is_made_once: bool,
}

impl PartSizes {
    /// Returns the sizes of micro-batches of at most `rows` vertices, if nothing else is known.
    /// `has_edges` is true if they have the edges between their vertices.
    pub(super) fn at_most(rows: u32, has_edges: bool, inputs: &Inputs) -> Self {
        let (rows, vertices) = (u64::from(rows), u64::from(inputs.shape.rows).max(1));
        let edges = if has_edges { inputs.dataset.edges().div_ceil(vertices) * rows } else { 0 };
        let lists = rows * ROW_BYTES + edges * EDGE_BYTES;
        Self { rows: vec![rows], lists, ..Self::default() }
    }

    /// Returns the sizes of the parts of a vertex cut.
    pub(super) fn of_parts(parts: &Parts) -> Self {
        let is_made_once = parts.as_slice().iter().all(|part| part.masks() == 0);
        let mut most = Self { is_made_once, ..Self::default() };
        parts.as_slice().iter().for_each(|part| most.include(&part.subgraph));
        most
    }

    /// Estimates the sizes of the samples that `sampler` draws for `batches`, which have at most
    /// `capacity` vertices.
    pub(crate) fn of_samples(
        sampler: &Sampler,
        inputs: &Inputs,
        batches: &RowBatches,
        capacity: u32,
    ) -> Self {
        let (dataset, mut room) = (&inputs.dataset, Room::default());
        let mut most = Self { is_drawn: true, ..Self::default() };
        for trial in 0..TRIALS {
            let round = 1 + (u64::from(trial) * u64::from(batches.count()) / u64::from(TRIALS)) as u32;
            let interval = trial % batches.micro();
            let targets = batches.targets(DATA_SEED, Round(round), IntervalId(interval));
            let begins = match (&inputs.links, &inputs.readout) {
                (Some(links), _) => {
                    let (links, others) = links.of_batch(dataset, (DATA_SEED, 0), &targets);
                    ends_of(&[links, others].concat())
                }
                (None, Some(readout)) => {
                    ends_of(&targets.iter().filter_map(|&edge| readout.ends(edge)).collect::<Vec<_>>())
                }
                (None, None) => targets,
            };
            let key = SampleKey { seed: DATA_SEED, round, interval };
            most.include(&sampler.sample(&dataset.graph, key, &begins, &mut room));
            if most.all() >= u64::from(capacity) {
                break;
            }
        }
        let larger = |size: u64| size + size.div_ceil(MARGIN);
        most.rows.iter_mut().for_each(|rows| *rows = larger(*rows).min(capacity.into()));
        most.lists = larger(most.lists);
        most
    }

    /// Increases the sizes to those of `sub`.
    fn include(&mut self, sub: &Subgraph) {
        self.rows.resize(self.rows.len().max(sub.hops.len()), 0);
        let (offsets, mut lists) = (sub.incoming.offsets(), 0);
        for (hop, &rows) in sub.hops.iter().enumerate() {
            self.rows[hop] = self.rows[hop].max(rows.into());
            lists += u64::from(rows) * ROW_BYTES + offsets[rows as usize] * EDGE_BYTES;
        }
        self.lists = self.lists.max(lists);
    }

    /// Returns the number of vertices within `hops` hops of the targets.
    pub(crate) fn rows(&self, hops: usize) -> u64 {
        self.rows.get(hops).or(self.rows.last()).copied().unwrap_or(0)
    }

    /// Returns the number of all vertices.
    pub(crate) fn all(&self) -> u64 {
        self.rows.last().copied().unwrap_or(0)
    }

    /// Returns the working memory in bytes with which a thread draws samples.
    pub(crate) fn draws_bytes(&self, inputs: &Inputs) -> u64 {
        if self.is_drawn { Room::bytes(&inputs.dataset.graph) } else { 0 }
    }
}

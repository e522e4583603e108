//! The method that chooses the rows of each micro-batch.

use std::sync::{Arc, OnceLock};

use eciton_graph::sample::parts::Parts;
use eciton_graph::sample::{Method, Sampler, VertexWeight as Weight};
use eciton_program::{Hops, Over, Program};
use eciton_recipe::{Batch as Settings, FeatureGather, Sampler as Drawn, VertexWeight};

use super::part::Part;
use super::rows::RowBatches;
use super::sizes::PartSizes;
use super::source::DATA_SEED;
use crate::data::Inputs;
use crate::error::{Error, Result};

/// Method that chooses the rows of a micro-batch, which is a part of a batch that is scheduled as
/// one unit.
#[derive(Debug)]
pub(crate) enum Chooser {
    /// Shuffled training rows without adjacency lists, for models that need no neighbours during
    /// training.
    Rows,
    /// Shuffled training graphs of a data set of many graphs.
    Graphs,
    /// Shuffled labelled edges or training links, with samples that begin at the vertices of the edges,
    /// or of the links and their negative pairs. `None` for models that need no neighbours during
    /// training.
    Ends(Option<Sampler>),
    /// Subgraphs that a sampler draws anew for each round.
    Sampler(Sampler),
    /// Subgraphs of a vertex cut, which assigns each edge of the graph to one part. `made` caches
    /// the micro-batch of each part, because it is the same in every round.
    Parts { parts: Parts, made: Vec<OnceLock<Arc<Part>>> },
}

impl Chooser {
    /// Returns true if rows of the same micro-batch can have different weights in the loss.
    pub(crate) fn weighs_rows(&self, settings: &Settings, inputs: &Inputs) -> bool {
        match self {
            Self::Rows | Self::Graphs | Self::Ends(_) => false,
            Self::Sampler(_) => {
                settings.is_corrected(inputs.shape.rows, inputs.dataset.split.train.len() as u32)
            }
            Self::Parts { .. } => true,
        }
    }

    /// Returns the division into batches of rows if micro-batches have no adjacency lists.
    /// Otherwise returns `None`.
    pub(crate) fn batches(&self, settings: &Settings, inputs: &Inputs) -> Option<RowBatches> {
        matches!(self, Self::Rows).then(|| RowBatches::new(settings, inputs))
    }

    /// Returns the number of micro-batches per batch. It is the configured number, reduced if some
    /// micro-batches could never have a row.
    pub(crate) fn parts(&self, settings: &Settings, inputs: &Inputs) -> u32 {
        match self {
            Self::Rows => RowBatches::new(settings, inputs).parts(),
            Self::Graphs | Self::Ends(_) | Self::Sampler(_) | Self::Parts { .. } => settings.micro,
        }
    }

    /// Returns the maximum numbers of vertices, and of graphs or labelled edges, per micro-batch. The
    /// latter is 0 if the model learns labels of vertices.
    pub(crate) fn capacity(&self, settings: &Settings, inputs: &Inputs) -> (u32, u32) {
        let train = &inputs.learnt().1.train;
        let training = train.len() as u32;
        let targets = settings.rows.unwrap_or(training).min(training).div_ceil(settings.micro);
        let vertices = match self {
            Self::Rows => RowBatches::new(settings, inputs).capacity(),
            Self::Graphs => {
                let lists = inputs.readout.as_ref().and_then(|readout| readout.lists(Over::Graphs));
                let size = |&graph: &u32| lists.map_or(0, |lists| lists.in_degree(graph));
                let mut sizes: Vec<u32> = train.iter().map(size).collect();
                sizes.sort_unstable_by(|a, b| b.cmp(a));
                sizes.iter().take(targets as usize).sum()
            }
            Self::Ends(sampler) => {
                let ends = match &inputs.links {
                    None => targets.saturating_mul(2),
                    Some(links) => {
                        let all = u32::try_from(links.trained).unwrap_or(u32::MAX);
                        links.ends(settings.rows.unwrap_or(all).min(all).div_ceil(settings.micro))
                    }
                };
                let ends = ends.min(inputs.shape.rows);
                sampler.as_ref().map_or(ends, |sampler| sampler.capacity(ends))
            }
            Self::Sampler(sampler) => sampler.capacity(targets),
            Self::Parts { parts, .. } => {
                let rows = parts.as_slice().iter().map(|part| part.subgraph.ids.len());
                rows.max().unwrap_or(0) as u32
            }
        };
        (vertices, if inputs.of_read_out.is_some() { targets } else { 0 })
    }

    /// Estimates the sizes of micro-batches for the memory plan.
    pub(crate) fn sizes(&self, settings: &Settings, inputs: &Inputs) -> PartSizes {
        let capacity = self.capacity(settings, inputs).0;
        match self {
            Self::Sampler(sampler) | Self::Ends(Some(sampler)) => {
                PartSizes::of_samples(sampler, inputs, &RowBatches::new(settings, inputs), capacity)
            }
            Self::Rows | Self::Ends(None) => PartSizes::at_most(capacity, false, inputs),
            Self::Graphs => PartSizes::at_most(capacity, true, inputs),
            Self::Parts { parts, .. } => PartSizes::of_parts(parts),
        }
    }

    /// Creates the method that `settings` select, and checks that it suits the data and the
    /// program.
    ///
    /// # Errors
    /// Returns [`Error::Data`] for settings that a sampler cannot use. Returns [`Error::Batch`] for
    /// a data set of many graphs, and for a program with gathers if no sampler is set.
    pub(crate) fn new(settings: &Settings, inputs: &Inputs, program: &Program) -> Result<Self> {
        let graph = &inputs.dataset.graph;
        let hops = Hops::from_program(program).most();
        let saved = match program.model.constant_gather().filter(|_| program.rewrites.gathered_features) {
            Some(FeatureGather::Hops(saved)) => saved as usize,
            saved => usize::from(saved.is_some()),
        };
        let refuse = |found: &str, remedy: &'static str| {
            Err(Error::Batch { sampler: settings.sampler.name(), found: found.to_owned(), remedy })
        };
        if inputs.dataset.graphs.is_some() {
            return match settings.sampler {
                Drawn::None => Ok(Self::Graphs),
                _ => refuse(
                    "a data set of many graphs",
                    "remove batch.sampler: batch.rows (--batch) is the number of graphs of an update",
                ),
            };
        }
        let is_of_edges = inputs.readout.is_some();
        let has_ends = is_of_edges || inputs.links.is_some();
        if is_of_edges && !settings.sampler.has_targets() {
            return refuse(
                "labels of edges",
                "set batch.sampler = \"neighbours\" (--sampler neighbours) or \"shadow-khop\"",
            );
        }
        if inputs.links.as_ref().is_some_and(|links| u32::try_from(links.trained).is_err()) {
            return refuse(
                "more than 4,294,967,295 training links",
                "hold out more links, or remove [batch]",
            );
        }
        if hops == 0 && settings.sampler.has_targets() {
            // The program has no gathers during training, so no neighbours need to be sampled.
            return Ok(if has_ends { Self::Ends(None) } else { Self::Rows });
        }
        if settings.sampler == Drawn::None {
            return refuse(
                "a model that gathers rows of neighbours",
                "set another sampler, for instance batch.sampler = \"neighbours\" (--sampler neighbours)",
            );
        }
        let roots: Arc<[u32]> = inputs.dataset.split.train[..].into();
        let rows = settings.rows.unwrap_or(0).div_ceil(settings.micro.max(1));
        let method = match settings.sampler {
            Drawn::Parts => {
                let mut parts = Parts::new(graph, settings.micro, DATA_SEED)?;
                if settings.drop_edges > 0.0 {
                    parts.drop_edges(settings.masks, settings.drop_edges as f32, DATA_SEED)?;
                }
                let made = (0..settings.micro).map(|_| OnceLock::new()).collect();
                return Ok(Self::Parts { parts, made });
            }
            Drawn::Vertex | Drawn::None => Method::Vertex(match settings.vertex_weight {
                VertexWeight::ColumnNorm => Weight::ColumnNorm,
                VertexWeight::Degree => Weight::Degree,
                VertexWeight::Uniform => Weight::Uniform,
            }),
            Drawn::Edge => Method::Edge,
            Drawn::Walk => Method::Walk { length: settings.walk_length },
            Drawn::Frontier => Method::Frontier { frontier: settings.frontier.unwrap_or(rows / 3).max(1) },
            Drawn::Neighbours => {
                Method::Neighbours { fan_out: settings.fan_outs(hops, saved)?, replace: settings.replace }
            }
            Drawn::ShadowKhop => Method::ShadowKhop { fan_out: settings.fan_outs(hops, saved)? },
        };
        let sampler = Sampler::new(graph, method, roots, rows)?;
        let sampler = match (settings.by_weight, &inputs.edges.weights) {
            (false, _) => sampler,
            (true, Some(weights)) => sampler.by_weight(weights.along(false).clone())?,
            (true, None) => {
                return refuse(
                    "batch.by_weight without edge weights",
                    "set model.edge_weights to the column of the weights, or remove batch.by_weight",
                );
            }
        };
        Ok(if has_ends { Self::Ends(Some(sampler)) } else { Self::Sampler(sampler) })
    }
}

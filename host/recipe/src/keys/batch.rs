//! The keys of `[batch]`.

use super::key::{Bounds, Group, Key, Kind, key, names, value};
use crate::batch::{Batch, Correction, MAX_FAN_OUT, MAX_MICRO, MAX_PREFETCH, Sampler, VertexWeight};
use crate::document::Field;

/// Maximum number of rows of a batch.
const MAX_ROWS: u64 = 1 << 31;

type To = Batch;

pub(super) const BATCH: &[Key<Batch>] = &[
    key("rows", "Number of rows of an update: training rows, or vertices if the sampler draws vertices", value!(some integer32(1, MAX_ROWS) => rows))
        .also(&["size", "batch_size"])
        .absent("all rows")
        .flag("batch", "N", Group::Batches),
    key("micro", "Number of micro-batches of an update, which are computed in parallel. With the sampler parts it is the number of all parts", value!(integer32(1, MAX_MICRO) => micro))
        .also(&["micro_batches", "accumulate", "subgraphs"])
        .flag("micro", "N", Group::Batches),
    key("sampler", "Sampler that chooses the rows of a micro-batch", value!(choice(Sampler::ALL) => sampler))
        .values_formerly(&[("shadow", "shadow-khop")]).also(&["sampling"])
        .flag("sampler", "NAME", Group::Batches),
    key("fan_out", "Number of neighbours sampled per hop, starting at the output layer, or one number for all hops. -1: all neighbours", value!(fan_outs(MAX_FAN_OUT) => fan_out))
        .also(&["fanouts", "num_neighbors", "neighbours"])
        .flag("fan-out", "N,N,...", Group::Batches),
    key("replace", "Draw neighbours with replacement, with the sampler neighbours", value!(flag => replace))
        .also(&["replacement", "with_replacement"]),
    key("by_weight", "Draw neighbours in proportion to model.edge_weights, with the sampler neighbours", value!(flag => by_weight))
        .also(&["weighted", "weight_attr", "prob"]),
    key("drop_last", "Leave out the last batch of an epoch if it has fewer rows than the others", value!(flag => drop_last)),
    key("vertex_weight", "Weight to which the sampler vertex draws vertices in proportion", value!(choice(VertexWeight::ALL) => vertex_weight)),
    key("frontier", "Number of vertices of the frontier sampler's frontier, at most the rows of a micro-batch", value!(some integer32(1, MAX_ROWS) => frontier))
        .also(&["frontier_size"])
        .absent("a third of the rows"),
    key("walk_length", "Number of steps of a random walk", value!(integer32(1, 1000) => walk_length)).also(&["length"]),
    key("normalise", "Correction of sampled sums and losses, for samplers that draw vertices", value!(choice(Correction::ALL) => normalise))
        .values_formerly(&[("true", "unbiased"), ("false", "none")]).also(&["normalize"]),
    key("coverage", "Average number of times that a vertex is sampled to estimate the correction", value!(integer32(1, 10_000) => coverage))
        .also(&["sample_coverage"]),
    key("drop_edges", "Share of edges that a round leaves out, with the sampler parts", value!(number(Bounds::SHARE_BELOW_1) => drop_edges))
        .also(&["drop_edge"]),
    key("masks", "Number of different sets of edges that drop_edges leaves out", value!(integer32(1, 1000) => masks)),
    key("prefetch", "Number of rounds that are sampled in advance. It changes no result", value!(integer32(0, MAX_PREFETCH) => prefetch))
        .also(&["prefetch_depth"]),
];

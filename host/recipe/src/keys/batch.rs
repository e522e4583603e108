//! The keys of `[batch]`.

use super::{Key, key};
use crate::batch::{Batch, MAX_FAN_OUT, MAX_MICRO, MAX_PREFETCH, Sampler};

pub(super) const BATCH: &[Key<Batch>] = &[
    key(
        "rows",
        &["size", "batch_size"],
        "training rows of an update, or vertices where the sampler draws them: 1 to 2^31; left out: all",
        |batch, field| {
            batch.rows = Some(field.integer32(1..=1 << 31)?);
            Ok(())
        },
    ),
    key(
        "micro",
        &["micro_batches", "accumulate", "subgraphs"],
        "parts of an update, worked on side by side; with sampler \"parts\" all there are: 1 to 4,096",
        |batch, field| {
            batch.micro = field.integer32(1..=MAX_MICRO)?;
            Ok(())
        },
    ),
    key(
        "sampler",
        &["sampling"],
        "how a part's rows are chosen: none, vertex, edge, walk, frontier, neighbours, shadow, parts",
        |batch, field| {
            batch.sampler = field.choice(&Sampler::ALL)?;
            Ok(())
        },
    ),
    key(
        "fan_out",
        &["fanouts", "num_neighbors", "neighbours"],
        "most neighbours of a row, hop by hop from the loss on, or one number for all: 1 to 65,536",
        |batch, field| {
            batch.fan_out = field.integers32(1..=MAX_FAN_OUT)?;
            Ok(())
        },
    ),
    key(
        "frontier",
        &["frontier_size"],
        "vertices of a frontier: 1 to a part's rows; left out: a third of them",
        |batch, field| {
            batch.frontier = Some(field.integer32(1..=1 << 31)?);
            Ok(())
        },
    ),
    key("walk_length", &["length"], "steps of a random walk: 1 to 1000", |batch, field| {
        batch.walk_length = field.integer32(1..=1000)?;
        Ok(())
    }),
    key(
        "normalise",
        &["normalize"],
        "whether sampled sums and losses are made unbiased, of samplers that draw vertices: true or false",
        |batch, field| {
            batch.normalise = field.flag()?;
            Ok(())
        },
    ),
    key(
        "coverage",
        &["sample_coverage"],
        "how often a vertex is sampled, on average, before that is known: 1 to 10,000",
        |batch, field| {
            batch.coverage = field.integer32(1..=10_000)?;
            Ok(())
        },
    ),
    key(
        "drop_edges",
        &["drop_edge"],
        "the share of edges that a round leaves out, with sampler \"parts\": 0 <= share < 1",
        |batch, field| {
            batch.drop_edges = field.number("a share: 0 <= share < 1", |v| (0.0..1.0).contains(&v))?;
            Ok(())
        },
    ),
    key("masks", &[], "how many such choices of edges there are: 1 to 1000", |batch, field| {
        batch.masks = field.integer32(1..=1000)?;
        Ok(())
    }),
    key(
        "prefetch",
        &["prefetch_depth"],
        "rounds that are sampled ahead of need, which changes no result: 0 to 64",
        |batch, field| {
            batch.prefetch = field.integer32(0..=MAX_PREFETCH)?;
            Ok(())
        },
    ),
];

//! The keys of `[lanes]`.

use super::{Key, key};
use crate::lanes::Order;
use crate::lanes::{LaneSettings, MAX_LANES};
use crate::model::MAX_LAYERS;

pub(super) const LANES: &[Key<LaneSettings>] = &[
    key(
        "count",
        &["lanes", "stages", "devices"],
        "lanes, each of which does some of the model's layers, one step at a time: 0 (none) to 4,096",
        |lanes, field| {
            lanes.lanes.count = field.integer32(0..=MAX_LANES)?;
            Ok(())
        },
    ),
    key(
        "width",
        &["replicas", "data_parallel"],
        "replicas of the pipeline, which share the parts of a batch: a divisor of the count",
        |lanes, field| {
            lanes.lanes.width = field.integer32(1..=MAX_LANES)?;
            Ok(())
        },
    ),
    key(
        "order",
        &["schedule"],
        "what a lane does first: forward-first (GPipe), backward-first (1F1B), interleaved (1F1B, several chunks a lane)",
        |lanes, field| {
            lanes.lanes.order = field.choice(&Order::ALL)?;
            Ok(())
        },
    ),
    key(
        "cap",
        &["in_flight"],
        "most parts of a batch on a lane at once: 1 to 2^20; left out: by the order",
        |lanes, field| {
            lanes.lanes.cap = Some(field.integer32(1..=1 << 20)?);
            Ok(())
        },
    ),
    key(
        "chunks",
        &["virtual_stages", "model_chunks", "interleave"],
        "runs of stages of a lane, for lanes.order = \"interleaved\": 2 to 64; left out: 2",
        |lanes, field| {
            lanes.lanes.chunks = Some(field.integer32(1..=64)?);
            Ok(())
        },
    ),
    key(
        "cut",
        &["split", "balance", "partition"],
        "the first layer of each run of stages of a replica, from 0; left out: so that all take as long",
        |lanes, field| {
            lanes.cut = field.integers32(0..=MAX_LAYERS)?;
            Ok(())
        },
    ),
    key(
        "recompute",
        &["checkpoint_activations", "activation_checkpointing", "remat"],
        "lanes of a replica, from 0, that compute forward rows again in their backward steps; left out: none",
        |lanes, field| {
            lanes.recompute = field.integers32(0..=MAX_LANES - 1)?;
            Ok(())
        },
    ),
    key(
        "profile",
        &["measured", "costs"],
        "the path of a task profile (eciton profile), by which stages are planned; left out: by operations",
        |lanes, field| {
            lanes.profile = Some(field.text("the path of a task profile")?);
            Ok(())
        },
    ),
    key(
        "link_mbits",
        &["bandwidth", "network_mbits"],
        "megabits a second of a lane's link, by which stages are planned: 1 to 10^6; left out: one machine's",
        |lanes, field| {
            lanes.link_mbits = Some(field.integer32(1..=1_000_000)?);
            Ok(())
        },
    ),
];

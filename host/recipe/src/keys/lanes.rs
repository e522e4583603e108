//! The keys of `[lanes]`.

use super::key::{Group, Key, Kind, key, names, value};
use crate::document::Field;
use crate::lanes::Order;
use crate::lanes::{LaneSettings, MAX_LANES};
use crate::model::MAX_LAYERS;

type To = LaneSettings;

pub(super) const LANES: &[Key<LaneSettings>] = &[
    key("count", "Number of pipeline lanes, each of which runs some layers of a model without a graph; 0: none", value!(integer32(0, MAX_LANES) => lanes.count))
        .also(&["lanes", "stages", "devices"])
        .flag("lanes", "N", Group::Pipeline),
    key("width", "Number of replicas of the pipeline, which share the micro-batches of an update. It divides the number of lanes", value!(integer32(1, MAX_LANES) => lanes.width))
        .also(&["replicas", "data_parallel"])
        .flag("width", "N", Group::Pipeline),
    key("order", "Order of a lane's steps: forward-first (GPipe), backward-first (1F1B), interleaved (1F1B with several chunks per lane)", value!(choice(Order::ALL) => lanes.order))
        .also(&["schedule"]),
    key("cap", "Maximum number of micro-batches in flight on a lane", value!(some integer32(1, 1 << 20) => lanes.cap))
        .also(&["in_flight"])
        .absent("by the order"),
    key("chunks", "Number of chunks, which are runs of stages, of a lane with the order interleaved", value!(some integer32(1, 64) => lanes.chunks))
        .also(&["virtual_stages", "model_chunks", "interleave"])
        .absent("2 with the order interleaved, else 1")
        .flag("chunks", "V", Group::Pipeline),
    key("cut", "First layer of each run of stages of a replica", value!(integers(0, MAX_LAYERS) => cut))
        .also(&["split", "balance", "partition"])
        .absent("runs of equal computing time"),
    key("recompute", "Lanes of a replica that recompute forward rows in their backward steps", value!(integers(0, MAX_LANES - 1) => recompute))
        .also(&["checkpoint_activations", "activation_checkpointing", "remat"])
        .absent("none"),
    key("batches", "Batch sizes from which eciton plan chooses the fastest one, with a task profile", value!(integers(1, u32::MAX) => batches))
        .also(&["batch_sizes"])
        .absent("the batch of the run"),
    key("profile", "Path of a task profile (eciton profile) by which stages are assigned to lanes", value!(some text("the path of a task profile") => profile))
        .also(&["measured", "costs"])
        .absent("by numbers of operations")
        .flag("measured", "FILE", Group::Pipeline),
];

//! The keys of `[pipeline]`.

use super::key::{Bounds, Group, Key, Kind, key, names, value};
use crate::document::Field;
use crate::pipeline::{MAX_STALENESS, Mode, Pipeline, WeightVersions};

type To = Pipeline;

pub(super) const PIPELINE: &[Key<Pipeline>] = &[
    key("mode", "Synchronisation of intervals. sync: stage by stage; pipe: a gather waits for all intervals; async: a gather reads neighbours' rows of earlier epochs", value!(choice(Mode::ALL) => mode))
        .also(&["schedule"])
        .flag("mode", "MODE", Group::Training),
    key("staleness", "Maximum number of epochs that an interval may be ahead of the slowest, in the mode async. auto: trials of a few epochs choose mode and staleness", (
        Kind::IntegerOrAuto(0, MAX_STALENESS as u64),
        |pipeline: &mut To, field: &Field, kind: &Kind| {
            let found = kind.auto(field)?;
            (pipeline.staleness, pipeline.auto) = (found.unwrap_or(0), found.is_none());
            Ok(())
        },
    ))
    .also(&["s", "bound"])
    .flag("staleness", "S|auto", Group::Training),
    key("auto", "Choice of mode and staleness by trials, equal to staleness = \"auto\"", value!(flag => auto))
        .also(&["auto_staleness"]).absent("false"),
    key("weights", "Versions of the weights that an epoch reads. stash: in the mode async; newest: those of each step, which has no defined gradient", value!(some choice(WeightVersions::ALL) => weights))
        .also(&["weight_versions"])
        .absent("by the mode"),
    key("in_flight", "Maximum number of steps in flight, in the mode async and for local batches; 0: no limit", value!(some integer32(0, 1_000_000) => in_flight))
        .also(&["outstanding"])
        .absent("two per compute thread"),
    key("synchronous_last", "Number of last epochs that read no rows of earlier epochs, in the mode async", value!(integer32(0, 1_000_000_000) => synchronous_last))
        .also(&["sync_last"]),
    key("synchronous_at", "Validation metric from which on epochs read no rows of earlier epochs, in the mode async", value!(some number(Bounds::POSITIVE) => synchronous_at))
        .also(&["sync_at", "target"])
        .absent("none"),
];

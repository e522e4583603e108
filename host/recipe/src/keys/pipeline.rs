//! The keys of `[pipeline]`.

use super::{Key, key};
use crate::pipeline::{MAX_STALENESS, Mode, Pipeline, WeightVersions};

pub(super) const PIPELINE: &[Key<Pipeline>] = &[
    key(
        "mode",
        &["schedule"],
        "sync: stage by stage; pipe: a gather waits for all intervals; async: it takes older rows",
        |pipeline, field| {
            pipeline.mode = field.choice(&Mode::ALL)?;
            Ok(())
        },
    ),
    key(
        "staleness",
        &["s", "bound"],
        "how many epochs an interval may be ahead of the slowest, in async: 0 to 62; auto: mode and staleness as trials before the run say",
        |pipeline, field| {
            let found = field.integer32_or_auto(0..=MAX_STALENESS)?;
            (pipeline.staleness, pipeline.auto) = (found.unwrap_or(0), found.is_none());
            Ok(())
        },
    ),
    key("auto", &["auto_staleness"], "the same as staleness = \"auto\": true or false", |pipeline, field| {
        pipeline.auto = field.flag()?;
        Ok(())
    }),
    key(
        "weights",
        &["weight_versions"],
        "which weights an epoch reads: latest, stash (in async), 2bw, newest (of each step; a bad example); left out: by the mode",
        |pipeline, field| {
            pipeline.weights = Some(field.choice(&WeightVersions::ALL)?);
            Ok(())
        },
    ),
    key(
        "in_flight",
        &["outstanding"],
        "steps handed out at once in async and of batches here, 0: no limit; left out: two for each compute thread",
        |pipeline, field| {
            pipeline.in_flight = Some(field.integer32(0..=1_000_000)?);
            Ok(())
        },
    ),
    key(
        "synchronous_last",
        &["sync_last"],
        "so many of the last epochs read no older rows, in async: 0 to 10^9",
        |pipeline, field| {
            pipeline.synchronous_last = field.integer32(0..=1_000_000_000)?;
            Ok(())
        },
    ),
    key(
        "synchronous_at",
        &["sync_at", "target"],
        "the validation metric from which on epochs read no older rows, in async: a share, or an error, above 0",
        |pipeline, field| {
            let wanted = "a number above 0";
            pipeline.synchronous_at = Some(field.number(wanted, |v| v > 0.0 && v.is_finite())?);
            Ok(())
        },
    ),
];

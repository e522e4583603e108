//! The keys of `[checkpoint]`.

use super::{Key, key};
use crate::checkpoint::Checkpoint;

pub(super) const CHECKPOINT: &[Key<Checkpoint>] = &[
    key(
        "every",
        &["every_epochs"],
        "after so many epochs: 1 to 10^9; 0: by time only",
        |checkpoint, field| {
            checkpoint.every = field.integer32(0..=1_000_000_000)?;
            Ok(())
        },
    ),
    key(
        "seconds",
        &["interval", "every_seconds"],
        "at the first end of an epoch after so many seconds: 1 to 10^6; 0: by epochs only",
        |checkpoint, field| {
            checkpoint.seconds = field.integer32(0..=1_000_000)?;
            Ok(())
        },
    ),
    key("keep", &["keep_last"], "how many of the newest are kept: 1 to 1000", |checkpoint, field| {
        checkpoint.keep = field.integer32(1..=1000)?;
        Ok(())
    }),
    key(
        "keep_after",
        &[],
        "whether they stay when the run has finished: true or false",
        |checkpoint, field| {
            checkpoint.keep_after = field.flag()?;
            Ok(())
        },
    ),
];

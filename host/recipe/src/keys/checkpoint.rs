//! The keys of `[checkpoint]`.

use super::key::{Key, Kind, key, value};
use crate::checkpoint::Checkpoint;
use crate::document::Field;

type To = Checkpoint;

pub(super) const CHECKPOINT: &[Key<Checkpoint>] = &[
    key(
        "every",
        "Number of epochs between checkpoints; 0: by time only",
        value!(integer32(0, 1_000_000_000) => every),
    )
    .also(&["every_epochs"]),
    key(
        "seconds",
        "Number of seconds after which the next end of an epoch writes a checkpoint; 0: by epochs only",
        value!(integer32(0, 1_000_000) => seconds),
    )
    .also(&["interval", "every_seconds"]),
    key("keep", "Number of the newest checkpoints that are kept", value!(integer32(1, 1000) => keep))
        .also(&["keep_last"]),
    key("keep_after", "Keeping of checkpoints after the run has finished", value!(flag => keep_after)),
];

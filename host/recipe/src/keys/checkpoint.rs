//! The keys of `[checkpoint]`.

use super::key::{Key, Kind, Write, key, value};
use crate::checkpoint::Checkpoint;
use crate::document::Field;
use crate::every::Every;

type To = Checkpoint;

pub(super) const CHECKPOINT: &[Key<Checkpoint>] = &[
    key("every", "Number of epochs or steps between checkpoints; 0: by time only", EVERY)
        .also(&["every_epochs", "save_steps"]),
    key(
        "seconds",
        "Number of seconds after which the next step writes a checkpoint; 0: by epochs or steps only",
        value!(integer32(0, 1_000_000) => seconds),
    )
    .also(&["interval", "every_seconds"]),
    key("keep", "Number of the newest checkpoints that are kept", value!(integer32(1, 1000) => keep))
        .also(&["keep_last"]),
    key("keep_after", "Keeping of checkpoints after the run has finished", value!(flag => keep_after)),
];

const EVERY: (Kind, Write<Checkpoint>) =
    (Kind::Other("a whole number of epochs, or a text such as \"500 steps\""), |checkpoint, field, kind| {
        let every = field.every()?;
        if matches!(every, Every::Seconds(_)) {
            return Err(
                field.refuse(format!("{} (checkpoint.seconds counts seconds)", kind.text(&field.name)))
            );
        }
        checkpoint.every = every;
        Ok(())
    });

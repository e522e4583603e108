//! Names of classes: what labels were called in the files that a thread read last. A data set has their numbers.
//!
//! Readers of labels that are words leave the names here, as readers leave [notes](eciton_input::notes).
//!
//! ```
//! let folder = tempfile::tempdir()?;
//! std::fs::write(folder.path().join("edges.csv"), "a,b\nb,c\n")?;
//! std::fs::write(folder.path().join("labels.csv"), "a,wasp\nb,ant\nc,wasp\n")?;
//! eciton_formats::open(folder.path(), None)?;
//! assert_eq!(eciton_formats::class_names::take(), ["ant", "wasp"]);
//! assert!(eciton_formats::class_names::take().is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::cell::RefCell;

thread_local! {
    static NAMES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Leaves the names of classes 0, 1, ...
pub(crate) fn leave(names: Vec<String>) {
    NAMES.set(names);
}

/// The names of the classes of the data set that this thread opened last, in the order of their numbers. None where
/// classes were numbers, and after the first call.
pub fn take() -> Vec<String> {
    NAMES.take()
}

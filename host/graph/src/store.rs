//! Eciton's own format on disk: a folder of plain arrays that are read by mapping them.
//!
//! `store.json` names version, extents and each array's file, length and checksum; the arrays are
//! little-endian numbers without a header (`docs/reference/store-format.md` has the details). [`Writer`] streams a
//! store, so that it may be larger than memory; [`open`] maps one, features included, after it has
//! checked every length, checksum and id. A store appears complete or not at all: it is written
//! under another name and renamed.
//!
//! ```
//! use eciton_graph::generate::ManyGraphs;
//! use eciton_graph::store;
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("made");
//! let shape = ManyGraphs { graphs: 30, ..ManyGraphs::default() };
//! let made = shape.generate()?.dataset("made", 1)?;
//! store::write(&path, &made)?;
//! assert_eq!(store::open(&path)?, made);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod description;
mod partial;
mod reader;
pub(crate) mod section;
pub(crate) mod writer;

use std::path::Path;

use crate::dataset::Dataset;
use crate::error::Result;

pub use reader::{has_no_edges, open};
pub use section::Section;
pub use writer::{RowsWriter, Writer};

/// Name of the file that makes a folder a store.
pub const DESCRIPTION: &str = "store.json";
/// Name of the format in `store.json`.
pub const FORMAT: &str = "eciton-store";
/// The latest version that is read. A store is written as the first version that can hold it, which
/// programs that know no later one read as well: 1 for classes, 2 for other labels, 3 for features of
/// edges, 4 for many graphs, 5 for corrections of features.
pub const VERSION: u64 = 5;
/// Maximum number of bytes of the names of classes and columns that a store holds, as JSON.
pub const MAX_NAMES_BYTES: usize = 1 << 19;

/// Writes a whole data set as a store at `path`, where nothing may lie yet.
///
/// # Errors
/// As [`Writer`]; [`Dataset::validate`]'s for a data set that could not be read back.
pub fn write(path: &Path, data: &Dataset) -> Result<()> {
    data.validate()?;
    let mut writer = Writer::create(path)?;
    writer.graph(&data.graph)?;
    writer.features(&data.features)?;
    if let Some(rows) = &data.edge_features {
        writer.edge_features(rows)?;
    }
    writer.labels(&data.labels)?;
    writer.split(&data.split)?;
    if let Some(graphs) = &data.graphs {
        writer.graphs(graphs)?;
    }
    writer.ids(&data.ids)?;
    writer.names(&data.names);
    writer.finish(&data.name)
}

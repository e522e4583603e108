//! Store: Eciton's own data set format, a folder of plain arrays that are memory-mapped.
//!
//! `store.json` contains the version, the dimensions, and the file, length and checksum of each
//! array. The arrays are little-endian numbers without a header (`docs/reference/store-format.md`
//! has the details). [`Writer`] streams a store, so that it may be larger than memory. [`open`]
//! maps a store, features included, after it has checked every length, checksum and id. A store is
//! written under another name and renamed when it is complete, so that no incomplete store appears.
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

pub use description::{DESCRIPTION, FORMAT, MAX_NAMES_BYTES, VERSION};
pub use reader::{has_no_edges, open};
pub use section::Section;
pub use writer::{RowsWriter, Writer};

/// Writes a whole data set as a store at `path`, which must not exist.
///
/// # Errors
/// Returns the errors of [`Writer`], and those of [`Dataset::validate`] for a data set that could
/// not be read back.
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

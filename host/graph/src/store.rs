//! Store, Eciton's own data set format. It is a folder of plain arrays that are memory-mapped.

mod description;
mod partial;
mod partition;
mod reader;
pub(crate) mod section;
mod source;
pub(crate) mod writer;

use std::path::Path;

use crate::dataset::Dataset;
use crate::error::{Error, Place, Result};

pub use description::{DESCRIPTION, FORMAT, MAX_DESCRIPTION_BYTES, MAX_NAMES_BYTES, VERSION};
pub use partition::{PartSize, Partition};
pub use reader::{Outline, has_no_edges, open, open_from, open_rows};
pub use section::Section;
pub use source::Source;
pub use writer::{RowsWriter, Writer};

/// Writes a whole data set as a store to the folder `path`, which must not exist.
///
/// # Errors
/// Returns the errors of [`Writer`], and those of [`Dataset::validate`] for a data set that could
/// not be read back.
pub fn write(path: &Path, data: &Dataset) -> Result<()> {
    data.validate()?;
    if data.labelled_edges.is_some() {
        return Err(Error::Malformed {
            place: Place::whole(&data.name),
            expected: "labels of vertices or graphs, which a store has".to_owned(),
            found: "labels of edges".to_owned(),
            remedy: "keep the edge table, and train on it with its label column",
        });
    }
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

//! Columns of a table, chosen by the names that a trained model expects.

use eciton_graph::error::{Error, Place, Result};
use eciton_graph::names::column;
use eciton_input::text::listed;

/// Positions of the columns `wanted` among `found`: a name as it is written, else in any case.
///
/// # Errors
/// [`Error::Malformed`] that lists missing and found columns.
pub(crate) fn matched(file: &str, kind: &str, wanted: &[String], found: &[String]) -> Result<Vec<usize>> {
    let at: Vec<Option<u32>> = wanted.iter().map(|name| column(found, name)).collect();
    let missing: Vec<&String> =
        wanted.iter().zip(&at).filter(|(_, at)| at.is_none()).map(|(name, _)| name).collect();
    if !missing.is_empty() {
        return Err(Error::Malformed {
            place: Place::whole(file),
            expected: format!("the {} {kind} that the model was trained on", wanted.len()),
            found: format!(
                "no single column {} among the columns {}",
                listed(&missing),
                if found.is_empty() { "(none)".to_owned() } else { listed(found) }
            ),
            remedy: "add the missing columns, or rename the columns that hold them",
        });
    }
    Ok(at.into_iter().flatten().map(|at| at as usize).collect())
}

/// Line of the reading report about columns that were not read.
pub(crate) fn unused(file: &str, why: &str, names: &[String]) -> String {
    let columns = if names.len() == 1 { "column" } else { "columns" };
    format!("{file}: {columns} not used ({why}): {}", listed(names))
}

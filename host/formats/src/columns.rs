//! Lookup of table columns by the names that a trained model expects.

use eciton_graph::error::{Error, Place, Result};
use eciton_graph::names::column;
use eciton_input::text::listed;

/// Returns the positions of the columns `wanted` among the names `found`. Names that match exactly
/// are preferred to names that match only if case is ignored.
///
/// # Errors
/// Returns [`Error::Malformed`] with the missing names and the available columns.
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
            remedy: "add the missing columns, or rename the columns that contain them",
        });
    }
    Ok(at.into_iter().flatten().map(|at| at as usize).collect())
}

/// Returns a line for the reading report about columns that are not used. `why` is the reason.
pub(crate) fn unused(file: &str, why: &str, names: &[String]) -> String {
    let columns = if names.len() == 1 { "column" } else { "columns" };
    format!("{file}: {columns} not used ({why}): {}", listed(names))
}

//! Ids of the tables of a folder that occur in its edges, for the reading report.

use eciton_graph::error::{Error, Place, Result};

use super::ids::Ids;
use super::likeness;
use crate::table::Table;

/// Counts ids of `table` that occur in edges. `linked` says of each vertex whether it has an edge.
///
/// # Errors
/// [`Error::Malformed`] if ids of the table make vertices (`sole`) and none of them occurs in an edge.
pub(super) fn check(table: &Table, edges: &Table, ids: &Ids, linked: &[bool], sole: bool) -> Result<()> {
    let (mut total, mut joined) = (0u64, 0u64);
    let mut apart: Vec<String> = Vec::new();
    table.each(2, |row| {
        total += 1;
        let word = row.get(0);
        match ids.position(word).and_then(|vertex| linked.get(vertex as usize)) {
            Some(true) => joined += 1,
            _ if apart.len() < likeness::SAMPLE => apart.push(word.to_owned()),
            _ => {}
        }
        Ok(())
    })?;
    let (file, edge_file) = (&table.file, &edges.file);
    eciton_input::notes::fact(format!("{file}: {total} ids, of which {joined} are in {edge_file}"));
    if joined == total || total == 0 {
        return Ok(());
    }
    let mut ends = Vec::new();
    let mut rows = edges.rows(2)?;
    while let Some(row) = rows.next()?
        && ends.len() < likeness::SAMPLE
    {
        ends.extend([row.get(0).to_owned(), row.get(1).to_owned()]);
    }
    // An example of ids that are alike is worth most.
    let alike = likeness::alike(&apart, &ends);
    let shown = |words: &[String]| {
        words.iter().take(2).map(|word| format!("{word:.40?}")).collect::<Vec<_>>().join(", ")
    };
    let hint = alike.map(|alike| format!("; {alike}")).unwrap_or_default();
    if joined == 0 && sole {
        return Err(Error::Malformed {
            place: Place::whole(file),
            expected: format!("ids of {edge_file}, for instance {}", shown(&ends)),
            found: format!("{total} ids of which none is there, for instance {}{hint}", shown(&apart)),
            remedy: "write ids in the same way in both files",
        });
    }
    let text = format!(
        "{file}: {} of {total} ids are in no edge, for instance {}; {edge_file} has for instance {}{hint}",
        total - joined,
        shown(&apart),
        shown(&ends)
    );
    match sole || joined == 0 {
        true => eciton_input::notes::warn(text),
        false => eciton_input::notes::fact(text),
    }
    Ok(())
}

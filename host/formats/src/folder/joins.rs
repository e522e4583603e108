//! Reading report about the ids of tables that occur in the edges.

use eciton_graph::error::{Error, Place, Result};

use super::ids::Ids;
use super::likeness;
use super::parts::{Part, Parts};
use crate::edge_text::{OtherEdges, report_counts};
use crate::table::Table;

/// Adds the number of edges and the number of ids with an edge to the reading report.
///
/// # Errors
/// Returns [`Error::Malformed`] if none of the ids of a table occurs in an edge.
pub(super) fn report(edges: &Table, pairs: &[(u32, u32)], parts: &Parts, ids: &Ids) -> Result<()> {
    if pairs.is_empty() {
        return Ok(());
    }
    let mut linked = vec![false; ids.len() as usize];
    let mut marked = 0u64;
    let mut mark = |&(source, target): &(u32, u32)| {
        for end in [source, target] {
            if let Some(slot) = linked.get_mut(end as usize) {
                marked += u64::from(!std::mem::replace(slot, true));
            }
        }
    };
    pairs.iter().skip(1).for_each(&mut mark);
    let first = pairs[0];
    let name = |vertex: u32| ids.names.name(vertex).parse::<u64>().ok();
    let plain = !edges.header.get() && edges.first(2)?.len() == 2;
    if let (true, Some(a), Some(b)) = (plain, name(first.0), name(first.1)) {
        mark(&first);
        // Counts without the ids that occur only in the first edge.
        let others = OtherEdges { edges: pairs.len() as u64 - 1, ..others(pairs, ids.len()) };
        report_counts(&edges.file, (a, b), &others);
    } else {
        mark(&first);
    }
    eciton_input::notes::fact(format!(
        "{}: {} records with an edge, {marked} distinct ids; {} vertices without an edge",
        edges.file,
        pairs.len(),
        ids.len() - marked
    ));
    // If no other table defines the vertices, an id of the labels that is in no edge creates a
    // vertex.
    let sole = matches!(parts.features, Part::None) && parts.graphs.is_none();
    match (&parts.labels, &parts.graphs) {
        (Part::Table(labels), None) => check(labels, edges, ids, &linked, sole),
        _ => Ok(()),
    }
}

/// Returns the counts of distinct ids among all edges except the first one.
fn others(pairs: &[(u32, u32)], vertices: u64) -> OtherEdges {
    let mut seen = vec![false; vertices as usize];
    let mut count = 0;
    for &(source, target) in pairs.iter().skip(1) {
        for end in [source, target] {
            if let Some(slot) = seen.get_mut(end as usize) {
                count += u64::from(!std::mem::replace(slot, true));
            }
        }
    }
    OtherEdges { vertices: count, ..OtherEdges::default() }
}

/// Reports how many ids of `table` occur in edges. `linked` is true for each vertex that has an
/// edge.
///
/// # Errors
/// Returns [`Error::Malformed`] if no id of the table occurs in an edge, and `sole` is true. `sole`
/// states that only this table and the edges define the vertices.
fn check(table: &Table, edges: &Table, ids: &Ids, linked: &[bool], sole: bool) -> Result<()> {
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
    // An example of similar ids is the most useful one.
    let alike = likeness::alike(&apart, &ends);
    let shown = |words: &[String]| {
        words.iter().take(2).map(|word| format!("{word:.40?}")).collect::<Vec<_>>().join(", ")
    };
    let hint = alike.map(|alike| format!("; {alike}")).unwrap_or_default();
    if joined == 0 && sole {
        return Err(Error::Malformed {
            place: Place::whole(file),
            expected: format!("ids of {edge_file}, for instance {}", shown(&ends)),
            found: format!("{total} ids, none of which occurs there, for instance {}{hint}", shown(&apart)),
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

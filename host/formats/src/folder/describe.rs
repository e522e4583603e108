//! Generation of the text of `data.toml`, which lists how each column of the tables is used.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use eciton_graph::error::{Error, Result};

use super::edges::ordered;
use super::nodes::{Nodes, Others};
use super::roles::{self, Roles};
use crate::numbers::exact;
use crate::request::Request;
use crate::settings::FILE;
use crate::table::{Table, named};
use crate::{file, kinds, rows};

/// Use of each column, as pairs of column name and word in `data.toml`.
type Uses = Vec<(String, &'static str)>;

/// Returns the path and the text of a `data.toml` for a folder of tables or for a single table. The
/// text states the uses that reading without `data.toml` infers.
///
/// # Errors
/// Returns [`Error::UnknownLayout`] if the path has no tables. Also returns the errors of the
/// readers.
pub fn describe(path: &Path, request: Request<'_>) -> Result<(PathBuf, String)> {
    let mut text = "# Uses of the columns of the tables. Columns without a line are read by their content.\n\
                    # nodes: id, label, split, number, boolean, date, category, hashed, ignore\n\
                    # edges: source, target, number, ignore\n"
        .to_owned();
    if !path.is_dir() {
        let table = Table::open(path)?;
        let uses = rows::text::uses(&table, request)?;
        section(&mut text, "nodes", path, &uses);
        return Ok((file::parent(path).join(FILE), text));
    }
    let roles = Roles::found(path)?;
    if roles.nodes.is_none() && roles.edges.is_none() {
        return Err(Error::UnknownLayout {
            path: path.to_owned(),
            found: file::list(path)?.into_iter().take(20).collect(),
            known: "a folder with a table of nodes or of edges (.csv, .tsv), or such a table",
        });
    }
    if let Some(nodes) = &roles.nodes {
        section(&mut text, "nodes", nodes, &of_nodes(nodes, &roles, path, request)?);
    }
    if let Some(edges) = &roles.edges {
        section(&mut text, "edges", edges, &of_edges(edges, &roles)?);
    }
    Ok((path.join(FILE), text))
}

fn section(text: &mut String, name: &str, path: &Path, uses: &Uses) {
    let quoted = |word: &str| toml::Value::String(word.to_owned()).to_string();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "\n[{name}]\nfile = {}", quoted(&file_name(path)));
    let _ = writeln!(text, "\n[{name}.columns]");
    for (column, how) in uses {
        let _ = writeln!(text, "{} = \"{how}\"", quoted(column));
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn of_nodes(path: &Path, roles: &Roles, folder: &Path, request: Request<'_>) -> Result<Uses> {
    let table = Table::open(path)?;
    let settings = roles.settings.nodes_in(path);
    let array = |name: &str| eciton_input::file::present(&folder.join(format!("{name}.npy")));
    let others = Others { labels: roles.labels.is_some() || array("labels"), split: roles.split.is_some() };
    if roles::is_features(path) && settings.columns.is_empty() {
        table.find_header_of_numbers()?;
        let names = kinds::names(&table)?;
        let features: Vec<usize> = (1..names.len()).collect();
        let mut uses = kinds::uses(&table, &names, &features, &settings)?;
        uses.extend(names.first().map(|id| (id.clone(), "id")));
        return Ok(in_order(&names, uses));
    }
    let found = Nodes::from_table(&table, request, &settings, others)?;
    let names = kinds::names(&table)?;
    let role = |table: &Option<Table>, role| {
        let first = table.as_ref().map(|table| table.first(2)).transpose()?;
        Ok::<_, Error>(first.map(|first| (named(first.get(1)), role)))
    };
    let mut uses: Uses =
        role(&found.labels, "label")?.into_iter().chain(role(&found.split, "split")?).collect();
    let Some(view) = found.features.or(found.ids) else { return Ok(uses) };
    let of_view = kinds::names(&view)?;
    uses.extend(of_view.first().map(|id| (id.clone(), "id")));
    let features: Vec<usize> = (1..of_view.len()).filter(|&at| of_view[at] != of_view[0]).collect();
    uses.extend(kinds::uses(&view, &of_view, &features, &settings)?);
    Ok(in_order(&names, uses))
}

fn of_edges(path: &Path, roles: &Roles) -> Result<Uses> {
    let table = ordered(Table::open(path)?, roles)?;
    if !table.is_settled() && !table.find_header(2)? {
        // A record of words alone, followed by one with a number, is a header.
        let mut rows = table.records(2)?;
        let mut has_number = || {
            let row = rows.next()?;
            Ok::<_, Error>(row.map(|row| row.fields().any(|field| exact(field).is_some())))
        };
        let header = has_number()? == Some(false) && has_number()? == Some(true);
        table.set_header(header);
    }
    if !table.header.get() {
        return Ok(Vec::new());
    }
    let names = kinds::names(&table)?;
    let mut uses: Uses = names.iter().cloned().zip(["source", "target"]).collect();
    let further: Vec<usize> = (2..names.len()).collect();
    for (name, how) in kinds::uses(&table, &names, &further, &roles.settings.edges)? {
        uses.push((name, if how == "number" { "number" } else { "ignore" }));
    }
    let all = kinds::names(&Table::open(path)?)?;
    Ok(if all.len() == names.len() { in_order(&all, uses) } else { uses })
}

/// Sorts the uses by the order of the columns.
fn in_order(names: &[String], mut uses: Uses) -> Uses {
    let positions: HashMap<&str, usize> = names.iter().map(String::as_str).zip(0..).collect();
    uses.sort_by_key(|(name, _)| positions.get(name.as_str()).copied());
    uses
}

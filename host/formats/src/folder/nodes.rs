//! Reader for node tables, which are divided into tables of ids, features, and possibly labels and
//! split.
//!
//! | column | is |
//! | --- | --- |
//! | `id`, `node`, `node_id`, `vertex`, `vertex_id`, else the first one | the id |
//! | the one that the request or `data.toml` names; `label`, `target`, `class` or `y`; else the last one, if it has few values | the labels, unless another table has them |
//! | `split` | the split, unless another table has it |
//! | `train_mask`, `val_mask` and `test_mask` | the split as booleans, if there is no column `split` |
//! | all others | features |
//!
//! If a trained model is given, the labels are in the column that contained them in training, if
//! the table has that column.

use std::collections::HashSet;

use eciton_graph::error::Result;
use eciton_graph::names::column;
use eciton_input::notes;

use crate::column_names::LABELS;
use crate::kinds;
use crate::missing::is_missing;
use crate::numbers::{number, whole};
use crate::request::Request;
use crate::rows::text::{is_header, label_column};
use crate::settings::{TableSettings, Use};
use crate::table::Table;

/// Names of id columns, in lower case.
const IDS: [&str; 8] = ["id", "node", "node_id", "vertex", "vertex_id", "nodeid", "vertexid", "id:id"];
/// Names of the Boolean columns that mark training, validation and test vertices.
pub(super) const MASKS: [&[&str]; 3] =
    [&["train_mask"], &["val_mask", "valid_mask", "validation_mask"], &["test_mask"]];
/// Maximum number of distinct values in a last column that is read as labels although its name does
/// not say so.
const MAX_VALUES: usize = 100;

/// Tables into which a node table is divided. The first column of each table contains the ids.
pub(super) struct Nodes {
    pub(super) features: Option<Table>,
    pub(super) labels: Option<Table>,
    pub(super) split: Option<Table>,
    /// Table of the ids if no column is a feature. Both of its columns contain the ids.
    pub(super) ids: Option<Table>,
}

/// Presence of separate label and split tables in the folder. If they exist, the node table need
/// not have these columns.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Others {
    pub(super) labels: bool,
    pub(super) split: bool,
}

impl Nodes {
    /// Divides a node table by assigning its columns to their uses.
    ///
    /// # Errors
    /// Returns [`eciton_graph::error::Error::Malformed`] if the request or `data.toml` names a
    /// column that does not exist. Also returns the errors of reading the table.
    pub(super) fn from_table(
        table: &Table,
        request: Request<'_>,
        settings: &TableSettings,
        others: Others,
    ) -> Result<Self> {
        let first = table.first(1)?;
        let lower: Vec<String> = first.fields().map(str::to_ascii_lowercase).collect();
        if !table.is_settled() {
            table.settle(is_header(table, &lower)?);
        }
        table.refuse_index()?;
        let all: Vec<usize> = (0..first.len()).collect();
        if !table.header.get() {
            return Ok(Self { features: Some(table.view(&all)), labels: None, split: None, ids: None });
        }
        let names = kinds::names(table)?;
        settings.check(&names, &table.file)?;
        let set = |how| settings.position(how, &names, &table.file);
        let free = |at: &usize| names.get(*at).is_none_or(|name| settings.column(name).is_none());
        let by_name = |known: &str| column(&names, known).map(|at| at as usize).filter(free);
        let id = set(Use::Id)?.or_else(|| IDS.iter().find_map(|name| by_name(name))).unwrap_or(0);
        let split = match set(Use::Split)? {
            None if !others.split => by_name("split").filter(|&at| at != id),
            found => found,
        };
        let mask = |names: &&[&str]| names.iter().find_map(|name| by_name(name)).filter(|&at| at != id);
        let masks: Vec<usize> = match split {
            None if !others.split => MASKS.iter().filter_map(mask).collect(),
            _ => Vec::new(),
        };
        let parts: Vec<usize> = split.into_iter().chain(masks).collect();
        let left = |at: &usize| *at != id && !parts.contains(at);
        let found = match (request.label, request.expected) {
            (_, Some(expected)) => {
                let target = expected.target.first().map(String::as_str);
                let read = |at: &usize| {
                    !expected.encoders.iter().any(|encoder| encoder.name == names[*at])
                        && !expected.features.contains(&names[*at])
                };
                let known = target.into_iter().chain(LABELS);
                known.filter_map(by_name).find(|at| Some(names[*at].as_str()) == target || read(at))
            }
            // Another table may have the column.
            (Some(label), None) if others.labels => column(&names, label).map(|at| at as usize),
            (Some(label), None) => Some(label_column(&names, label, &table.file)?),
            (None, None) => match set(Use::Label)? {
                None if others.labels => None,
                None => match named(table, LABELS.iter().filter_map(|name| by_name(name)).find(left))? {
                    None if !request.links => last(table, &names, settings, &parts)?,
                    found => found,
                },
                found => found,
            },
        };
        let label = found.filter(left);
        let mut features: Vec<usize> = all.into_iter().filter(|at| left(at) && Some(*at) != label).collect();
        let report = |role: &str, at: Option<usize>| {
            if let Some(name) = at.and_then(|at| names.get(at)) {
                notes::fact(format!("{}: column {name:.40}: {role}", table.file));
            }
        };
        report("id", Some(id));
        report("label", label);
        parts.iter().for_each(|&at| report("split", Some(at)));
        features.insert(0, id);
        Ok(Self {
            ids: (features.len() == 1).then(|| table.view(&[id, id])),
            features: (features.len() > 1).then(|| table.view(&features)),
            labels: label.map(|label| table.view(&[id, label])),
            split: (!parts.is_empty()).then(|| table.view(&[&[id], &parts[..]].concat())),
        })
    }
}

/// Returns the position of a column with a label name. Returns `None` if it has a different word
/// for every node, as the names of nodes in Gephi documents do.
fn named(table: &Table, at: Option<usize>) -> Result<Option<usize>> {
    match at {
        Some(at) if kinds::are_distinct_words(table, at)? => Ok(None),
        at => Ok(at),
    }
}

/// Returns the position of the last column that is not one of `parts`, because labels are usually
/// there. Returns `None` if the column has many distinct values or a use in `data.toml`.
fn last(table: &Table, names: &[String], settings: &TableSettings, parts: &[usize]) -> Result<Option<usize>> {
    let Some(at) = (1..names.len()).rev().find(|at| !parts.contains(at)) else { return Ok(None) };
    if settings.column(&names[at]).is_some() {
        return Ok(None);
    }
    let (mut values, mut known) = (HashSet::new(), 0usize);
    let mut rows = table.rows(1)?;
    while let Some(row) = rows.next()? {
        let field = row.get(at);
        if is_missing(field) {
            continue;
        }
        known += 1;
        if number(field).is_some() && whole(field).is_none() {
            return Ok(none(table));
        }
        if !values.contains(field) {
            values.insert(field.to_owned());
        }
        if values.len() > MAX_VALUES {
            return Ok(none(table));
        }
    }
    if values.len() < 2 || known < 2 * values.len() {
        return Ok(none(table));
    }
    notes::add(format!(
        "{}: the last column, {:.40}, was read as the labels, because no column is called label, target, class or \
         y; --label COLUMN names another one",
        table.file, names[at]
    ));
    Ok(Some(at))
}

/// Adds a note to the reading report that no column was read as labels. Returns `None`.
fn none(table: &Table) -> Option<usize> {
    notes::add(format!(
        "{}: no column was read as the labels: none is called label, target, class or y, and the last one does not \
         have few values; --label COLUMN names one",
        table.file
    ));
    None
}

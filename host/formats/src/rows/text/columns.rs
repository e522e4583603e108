//! Uses of the columns of a table of rows without a graph.

use eciton_graph::error::{Error, Place, Result};
use eciton_graph::expected::Expected;
use eciton_graph::names::column;
use eciton_input::notes;

use crate::column_names::{LABELS, SOURCES, TARGETS};
use crate::file::parent;
use crate::header::{Below, counting, doubt};
use crate::numbers::{canonical, number};
use crate::request::Request;
use crate::settings::{Settings, TableSettings, Use};
use crate::table::{Table, is_unnamed};
use crate::{columns, kinds};

/// Returns whether the column names belong to an edge table without a label column.
fn names_edges(names: &[String]) -> bool {
    let is = |at: usize, known: &[&str]| names.get(at).is_some_and(|name| known.contains(&name.as_str()));
    let labels = (2..names.len()).any(|at| is(at, &LABELS));
    is(0, &SOURCES) && is(1, &TARGETS) && !labels
}

/// Uses of the columns of a table of rows, given by column positions.
pub(super) struct Columns {
    pub(super) count: usize,
    /// Feature columns. For a trained model, they are in the order of the model.
    pub(super) features: Vec<usize>,
    /// Label column. `None` if there are no labels, which is only allowed for a trained model.
    pub(super) label: Option<usize>,
    pub(super) id: Option<usize>,
    pub(super) split: Option<usize>,
    /// Names of the columns in their original case. The list is empty if there is no header.
    pub(super) names: Vec<String>,
    /// Uses that `data.toml` sets.
    pub(super) settings: TableSettings,
}

impl Columns {
    pub(super) fn assign(table: &Table, request: Request<'_>) -> Result<Self> {
        let expected = request.expected;
        let first = table.first(if expected.is_some() { 1 } else { 2 })?;
        let names: Vec<String> = first.fields().map(str::to_owned).collect();
        let lower: Vec<String> = names.iter().map(|name| name.to_ascii_lowercase()).collect();
        let wanted = expected.map(|expected| &expected.features[..]).unwrap_or_default();
        let all_named = !wanted.is_empty() && wanted.iter().all(|name| column(&names, name).is_some());
        let header = all_named || is_header(table, &lower)?;
        if header && expected.is_none() && names_edges(&lower) {
            return Err(Error::Malformed {
                place: Place::line(&table.file, first.line()),
                expected: "a row of features and a label".to_owned(),
                found: format!("the header of a table of edges: {:.60?}", lower.join(", ")),
                remedy: "for a graph, rename the table to edges.csv and give its folder; for rows, name the label column label",
            });
        }
        table.settle(header);
        table.refuse_index()?;
        let count = first.len();
        let names = if header { names } else { Vec::new() };
        let settings = Settings::read(parent(table.path()))?.nodes_in(table.path());
        settings.check(&names, &table.file)?;
        let made = Self { count, features: Vec::new(), label: None, id: None, split: None, names, settings };
        let made = match expected {
            Some(expected) => made.expected(table, expected)?,
            None => made.plain(table, request)?,
        };
        if made.features.is_empty() {
            return Err(table.wrong(first.line(), "a column of features in addition to the label", "none"));
        }
        Ok(made)
    }

    /// Returns the position of the first column called `name`, ignoring case. Returns `None` if
    /// that column is a feature.
    fn named(&self, name: &str) -> Option<usize> {
        let found = self.names.iter().position(|known| known.eq_ignore_ascii_case(name))?;
        (!self.features.contains(&found)).then_some(found)
    }

    /// Returns the position of the id column. It is a column called `id`, or a first column without
    /// a name.
    fn ids(&self) -> Option<usize> {
        let unnamed = || self.names.first().is_some_and(|name| is_unnamed(name)).then_some(0);
        self.named("id").or_else(unnamed)
    }

    /// Assigns uses to the columns of a table for training.
    fn plain(mut self, table: &Table, request: Request<'_>) -> Result<Self> {
        let set = |how| self.settings.position(how, &self.names, &table.file);
        let (id, split) = (set(Use::Id)?, set(Use::Split)?);
        let label = match request.label {
            Some(label) => Some(label_column(&self.names, label, &table.file)?),
            None => set(Use::Label)?,
        };
        self.label =
            label.or_else(|| LABELS.iter().find_map(|name| self.named(name))).or(self.count.checked_sub(1));
        let unset = |at: &usize| self.names.get(*at).is_none_or(|name| self.settings.column(name).is_none());
        let not_label = |at: &usize| Some(*at) != self.label && unset(at);
        (self.id, self.split) =
            (id.or(self.ids().filter(not_label)), split.or(self.named("split").filter(not_label)));
        let others = [self.label, self.id, self.split];
        self.features = (0..self.count).filter(|&column| !others.contains(&Some(column))).collect();
        Ok(self)
    }

    /// Uses the first column as the id column if it has a different word in every row. It must not
    /// have another use, and no model may read it.
    pub(super) fn take_first_as_id(&mut self, table: &Table, expected: Option<&Expected>) -> Result<()> {
        let Some(name) = self.names.first() else { return Ok(()) };
        let read =
            expected.is_some_and(|expected| expected.encoders.iter().any(|encoder| encoder.name == *name));
        let used = self.label == Some(0) || self.split == Some(0) || self.settings.column(name).is_some();
        if self.id.is_some() || read || used || !kinds::are_distinct_words(table, 0)? {
            return Ok(());
        }
        self.id = Some(0);
        self.features.retain(|&at| at != 0);
        Ok(())
    }

    /// Returns whether `data.toml` sets the kinds of some columns. Otherwise the content determines
    /// all kinds.
    pub(super) fn has_kinds(&self) -> bool {
        self.settings.columns.iter().any(|(_, how)| matches!(how, Use::Feature(_)))
    }

    /// Assigns uses to the columns of a table that a trained model reads.
    fn expected(mut self, table: &Table, expected: &Expected) -> Result<Self> {
        if !expected.encoders.is_empty() {
            // The columns that encoders read are found by their names and read by `typed`.
            let target = expected.target.first().map(String::as_str);
            self.label = target.into_iter().chain(LABELS).find_map(|name| self.named(name));
            (self.id, self.split) = (self.ids(), self.named("split"));
            let read = |at: &usize| {
                let name = self.names.get(*at).map_or("", String::as_str);
                !expected.encoders.iter().any(|encoder| encoder.name == name)
            };
            let target_is = |at: &usize| read(at) || self.names.get(*at).map(String::as_str) == target;
            (self.label, self.id, self.split) =
                (self.label.filter(target_is), self.id.filter(read), self.split.filter(read));
            self.features = (0..self.count).collect();
            return Ok(self);
        }
        let by_name = !expected.features.is_empty() && !self.names.is_empty();
        if by_name {
            self.features =
                columns::matched(&table.file, "feature columns", &expected.features, &self.names)?;
        }
        let target = expected.target.first().map(String::as_str);
        self.label = target.into_iter().chain(LABELS).find_map(|name| self.named(name));
        (self.id, self.split) = (self.ids(), self.named("split"));
        let others = [self.label, self.id, self.split];
        let rest: Vec<usize> = (0..self.count)
            .filter(|column| !others.contains(&Some(*column)) && !self.features.contains(column))
            .collect();
        if by_name {
            let unused: Vec<String> =
                rest.iter().filter_map(|&column| self.names.get(column).cloned()).collect();
            if !unused.is_empty() {
                let why = "the model was not trained on them";
                notes::add(columns::unused(&table.file, why, &unused));
            }
            return Ok(self);
        }
        let wanted = expected.feature_count as usize;
        self.features = rest;
        if self.label.is_none() && self.features.len() == wanted + 1 {
            self.label = self.features.pop();
        }
        match self.features.len() {
            found if found == wanted => Ok(self),
            found => Err(Error::Malformed {
                place: Place::whole(&table.file),
                expected: format!("the {wanted} feature columns of the model, and optionally a label column"),
                found: format!("{found} feature columns"),
                remedy: "give the columns that the model was trained on, in their order",
            }),
        }
    }

    pub(super) fn name(&self, column: usize) -> String {
        match self.names.get(column) {
            Some(name) => format!("column {name:.40}"),
            None => format!("column {}", column + 1),
        }
    }
}

/// Decides whether the first record of a table is a header. `first` are its fields in lower case.
pub(crate) fn is_header(table: &Table, first: &[String]) -> Result<bool> {
    let fields = || first.iter().map(String::as_str);
    let words = fields().filter(|field| is_word(field)).count();
    let numbers = fields().filter(|field| !field.is_empty() && !is_word(field)).count();
    if numbers == 0 {
        return Ok(words > 0);
    }
    // The columns may have been reordered, so the numbers may count in any order.
    let mut values: Vec<&str> = fields().filter(|field| !field.is_empty() && !is_word(field)).collect();
    values.sort_by_key(|field| canonical(field));
    let whole = values.iter().all(|field| canonical(field).is_some())
        && !values.windows(2).any(|two| two[0] == two[1]);
    let counts = counting(values.iter().copied()).is_some();
    let names_label = fields().any(|field| ["label", "target", "class", "id", "split"].contains(&field));
    if !(counts || (whole && names_label)) {
        return Ok(false);
    }
    let below = Below::from_table(table)?;
    if below.rows == 0 {
        return Ok(false);
    }
    let columns = || first.iter().enumerate().map(|(at, field)| (at, field.as_str()));
    let own_word = |known: &[&str]| columns().any(|(at, field)| known.contains(&field) && !below.again[at]);
    let above_numbers = columns().any(|(at, field)| is_word(field) && below.numbers[at]);
    // The last column may contain labels.
    let last = if words == 0 { first.len() - 1 } else { first.len() };
    let counted: Vec<usize> = columns()
        .filter(|(at, field)| number(field).is_some() && !field.is_empty() && *at < last)
        .map(|(at, _)| at)
        .collect();
    let fractions = counted.iter().filter(|&&at| below.fractions[at]).count();
    let unnamed = first.first().is_some_and(String::is_empty) && below.numbers[0];
    let why = if own_word(&LABELS) || own_word(&["id", "split"]) {
        "a field is the name of a column, and occurs nowhere below it"
    } else if !counts {
        return Ok(false);
    } else if above_numbers {
        "a word stands above a column of numbers"
    } else if unnamed {
        "its first field is empty above numbers"
    } else if counted.len() >= 2 && 2 * fractions > counted.len() {
        "its numbers count like column names above fractions"
    } else {
        if numbers >= 3 || (words > 0 && numbers >= 2) {
            doubt(table);
        }
        return Ok(false);
    };
    table.note(true, why);
    Ok(true)
}

/// Returns whether a field is neither a number nor empty.
fn is_word(field: &str) -> bool {
    !field.is_empty() && number(field).is_none()
}

/// Returns the position of the label column that a request names.
///
/// # Errors
/// Returns [`Error::Malformed`] with the available columns if there is no such column.
pub(crate) fn label_column(names: &[String], label: &str, file: &str) -> Result<usize> {
    column(names, label).map(|at| at as usize).ok_or_else(|| Error::Malformed {
        place: Place::whole(file),
        expected: format!("a label column {label:.40?}"),
        found: match names.is_empty() {
            true => "no header, so that no column has a name".to_owned(),
            false => format!("the columns {}", eciton_input::text::listed(names)),
        },
        remedy: "name one of the columns with --label (data.label)",
    })
}

//! Reader for a table of rows without a graph. It has one record per row, one column per feature,
//! and a label column.
//!
//! * The first record is a header if none of its fields is a number and at least one is not empty.
//!   It is also a header if its numbers count like column names and the other records confirm it
//!   ([`crate::header`]).
//! * The label column is called `label`, `target`, `class` or `y`, in any case. Without such a name
//!   or without a header, it is the last column.
//! * A column called `id` contains the ids of the rows. A column called `split` contains `train`,
//!   `val`, `test` or nothing. A first column without a name that counts the rows is refused; if
//!   its values are distinct in another way, they are ids. All other columns are features.
//! * If every feature is a finite number in every record, the rows are read in one pass. Otherwise
//!   the content of each column decides its kind ([`crate::kinds`]), and the features are encoded.
//! * A request can name the label column, and a `data.toml` next to the table can set the use of
//!   any column.
//! * Labels are classes if all are whole numbers from 0 or words (in alphabetical order). They are
//!   numbers if one of them has a fraction or an exponent, or is negative and not -1. An empty
//!   field or a word for a missing value means no label. -1 also means no label, unless all labels
//!   are -1 or 1.
//!
//! For a trained model, the features are the columns with the model's names, in its order, and
//! labels may be missing.

mod columns;

use std::path::Path;

use csv::StringRecord;
use eciton_graph::adjacency::check_vertices;
use eciton_graph::corrections::{Collector, Number};
use eciton_graph::dataset::{Dataset, Encoded, Names, VertexIds};
use eciton_graph::encoding;
use eciton_graph::error::{Error, Place, Result};
use eciton_graph::expected::Expected;
use eciton_graph::features::Features;
use eciton_graph::labels::{Labels, Values};
use eciton_graph::names::DRAWN;
use eciton_graph::split::{NO_LABEL, Split};
use eciton_input::budget::Charge;
use eciton_input::notes;

use self::columns::Columns;
use crate::column_names::{LABELS, SOURCES, TARGETS};
use crate::dictionary::Codes;
use crate::labels::{MISSING, Named};
use crate::missing::{MissingWords, is_missing};
use crate::numbers::{canonical, exact, number, whole};
use crate::request::Request;
use crate::table::{Records, Row, Table, is_unnamed};
use crate::{file, kinds, labels};

pub(crate) use columns::{is_header, label_column};

/// Returns whether the first record of a file has a label name, apart from the source and target
/// columns of an edge table.
pub(crate) fn names_labels(path: &Path) -> bool {
    let first = Table::open(path).and_then(|table| table.first(2));
    first.is_ok_and(|first| {
        let names: Vec<String> = first.fields().map(str::to_ascii_lowercase).collect();
        let edges = SOURCES.contains(&names[0].as_str()) && TARGETS.contains(&names[1].as_str());
        names.iter().skip(if edges { 2 } else { 0 }).any(|name| LABELS.contains(&name.as_str()))
    })
}

/// Returns the use of each column of a table of rows, as pairs of column name and word for
/// `data.toml`.
///
/// # Errors
/// Returns the errors of [`open`].
pub(crate) fn uses(table: &Table, request: Request<'_>) -> Result<Vec<(String, &'static str)>> {
    let mut columns = Columns::assign(table, request)?;
    columns.take_first_as_id(table, None)?;
    let names = kinds::names(table)?;
    let mut uses = kinds::uses(table, &names, &columns.features, &columns.settings)?;
    let roles = [(columns.id, "id"), (columns.label, "label"), (columns.split, "split")];
    uses.extend(roles.into_iter().filter_map(|(at, role)| Some((names.get(at?)?.clone(), role))));
    uses.sort_by_key(|(name, _)| names.iter().position(|known| known == name));
    Ok(uses)
}

/// Reads a table of rows.
///
/// # Errors
/// Returns [`Error::Malformed`] with line and column if a field does not fit its column, or if a
/// record has the wrong number of fields.
pub(crate) fn open(path: &Path, request: Request<'_>) -> Result<Dataset> {
    let expected = request.expected;
    let table = Table::open(path)?;
    let mut columns = Columns::assign(&table, request)?;
    let encoded = expected.is_some_and(|expected| !expected.encoders.is_empty());
    let typed = encoded || (expected.is_none() && columns.has_kinds());
    let read = match typed {
        true => None,
        false => numbers(&table, &columns, expected)?,
    };
    let (features, found) = match read {
        Some((features, found)) => (Read::Numbers(features), found),
        None => {
            let mut found = Found::default();
            columns.take_first_as_id(&table, expected)?;
            let features = self::typed(&table, &columns, expected, &mut found)?;
            (Read::Typed(features), found)
        }
    };
    let rows = u64::from(found.rows);
    check_vertices(rows, || Place::whole(&table.file))?;
    let (labels, classes, split, ids) = found.finish(&table, &columns, expected)?;
    let target: Vec<String> =
        columns.label.and_then(|at| columns.names.get(at).cloned()).into_iter().collect();
    let of_labels = match &labels {
        Labels::Classes { .. } => classes,
        _ => target.clone(),
    };
    if columns.id == Some(0) && columns.names.first().is_some_and(|name| is_unnamed(name)) {
        notes::add(format!(
            "{}: the first column has no name, and was read as the ids of the rows",
            table.file
        ));
    }
    report_roles(&table.file, &columns);
    table.report_header(&[]);
    let mut names = Names { labels: of_labels, target, ..Names::default() };
    if split.is_none() {
        names.split = DRAWN.to_owned();
    }
    let split = split.unwrap_or_else(|| Split::random(&labels, [0.6, 0.2], 0));
    let (features, encoded) = match features {
        Read::Numbers(features) => {
            let all = table.names(0)?;
            let of: Option<Vec<String>> = columns.features.iter().map(|&at| all.get(at).cloned()).collect();
            names.features = of.unwrap_or_default();
            (features, None)
        }
        Read::Typed(table) => {
            let of_training = split.training_rows(None, table.rows);
            let encoders = expected.map(|expected| &expected.encoders[..]).unwrap_or_default();
            let (encoded, features, of) = Encoded::new(table.into(), &of_training, encoders)?;
            names.features = of;
            (features, Some(encoded))
        }
    };
    let made = super::dataset(file::stem(path), features, labels, Some(split), ids, names)?;
    Ok(Dataset { encoded, ..made })
}

/// Features of the rows, either as numbers or as a typed table.
enum Read {
    Numbers(Features),
    Typed(encoding::Table),
}

/// Adds the uses of the label, id and split columns to the reading report.
fn report_roles(file: &str, columns: &Columns) {
    let roles = [("labels", columns.label), ("ids", columns.id), ("split", columns.split)];
    for (role, at) in roles {
        if let Some(at) = at.filter(|_| !columns.names.is_empty()) {
            notes::fact(format!("{file}: {}: {role}", columns.name(at)));
        }
    }
}

/// Reads the features in one pass if all are finite numbers. Otherwise returns `None`, or an error
/// if a trained model requires numbers.
fn numbers(
    table: &Table,
    columns: &Columns,
    expected: Option<&Expected>,
) -> Result<Option<(Features, Found)>> {
    let width = columns.features.len();
    let mut values = file::Grown::new(&table.file);
    let mut found = Found::default();
    let mut counters = vec![true; width];
    let mut corrections = Collector::dense(&table.file);
    let mut all = true;
    let block = |rows: &mut Records<'_>| {
        let (mut numbers, mut found) = (Vec::new(), Found::default());
        while let Some(row) = rows.next()? {
            for &column in &columns.features {
                match feature(table, row, column, columns) {
                    Err(_) if expected.is_none() => return Ok(None),
                    value => numbers.push(value?),
                }
            }
            found.add(table, row, columns)?;
        }
        Ok(Some((numbers, found)))
    };
    table.blocks(1, block, |block| {
        let Some((numbers, of)) = block else {
            all = false;
            return Ok(false);
        };
        let room: &mut Vec<f32> = values.room(numbers.len())?;
        for (row, numbers) in (found.rows..).zip(numbers.chunks(width)) {
            for ((at, &value), counts) in (0u32..).zip(numbers).zip(&mut counters) {
                *counts &= value.rounded == row as f32;
                room.push(corrections.push(row, at, value));
            }
        }
        found.append(of, &table.file).map(|()| true)
    })?;
    if !all {
        return Ok(None);
    }
    let values = values.finish();
    let rows = (values.len() / width) as u64;
    if rows == 0 {
        return Err(table.empty("at least one row of features and a label"));
    }
    for (&column, _) in columns.features.iter().zip(counters).filter(|(_, counts)| rows > 2 && *counts) {
        notes::warn(format!(
            "{}: feature {} counts the rows from 0; if it is an index, remove it or rename it to id",
            table.file,
            columns.name(column)
        ));
    }
    let named: Vec<String> =
        columns.features.iter().filter_map(|&at| columns.names.get(at).cloned()).collect();
    if !named.is_empty() {
        notes::fact(format!("{}: columns of numbers: {}", table.file, eciton_input::text::listed(&named)));
    }
    let columns_of = u32::try_from(width).unwrap_or(u32::MAX);
    let features = Features::from_dense(columns_of, &values)?.with_corrections(corrections.finish());
    Ok(Some((features, found)))
}

/// Reads the features as columns of different kinds.
fn typed(
    table: &Table,
    columns: &Columns,
    expected: Option<&Expected>,
    found: &mut Found,
) -> Result<encoding::Table> {
    let names = kinds::names(table)?;
    let read = match expected {
        Some(expected) => {
            let others = [columns.label, columns.id, columns.split];
            kinds::Columns::expected(table, &expected.encoders, &names, &others)?
        }
        None => {
            let wanted = |&at: &usize| {
                let name = names.get(at).cloned().unwrap_or_default();
                kinds::Wanted { at, kind: columns.settings.kind(&name), name }
            };
            kinds::Columns::new(table, columns.features.iter().map(wanted).collect())
        }
    };
    let see = |found: &mut Found, row: &Row| found.add(table, row, columns);
    let made = read.read(None, see, |of, count| {
        let mut rows = found.rows;
        found.append(of, &table.file)?;
        Ok(kinds::following(&mut rows, count))
    })?;
    match made.has_features() {
        true => Ok(made),
        false => Err(kinds::no_feature(table, &made)),
    }
}

fn feature(table: &Table, row: &Row, column: usize, columns: &Columns) -> Result<Number> {
    let field = row.get(column);
    exact(field).filter(|value| value.rounded.is_finite()).ok_or_else(|| {
        let wanted = format!("a finite number in {}, a feature", columns.name(column));
        table.wrong(row.line(), &wanted, field)
    })
}

/// Values of the label, id and split columns.
#[derive(Default)]
struct Found {
    labels: StringRecord,
    ids: StringRecord,
    split: Split,
    rows: u32,
    charge: Charge,
}

impl Found {
    fn add(&mut self, table: &Table, row: &Row, columns: &Columns) -> Result<()> {
        if let Some(label) = columns.label {
            self.labels.push_field(row.get(label));
        }
        if let Some(id) = columns.id {
            self.ids.push_field(row.id(table, id)?);
        }
        if let Some(split) = columns.split {
            match row.get(split).to_lowercase().as_str() {
                "" => {}
                "train" | "training" => self.split.train.push(self.rows),
                "val" | "valid" | "validation" => self.split.validation.push(self.rows),
                "test" => self.split.test.push(self.rows),
                other => return Err(table.wrong(row.line(), "train, val, test or an empty field", other)),
            }
        }
        self.rows = self.rows.saturating_add(1);
        Ok(())
    }

    /// Appends the values of the next block. `file` is the name for error messages.
    fn append(&mut self, next: Self, file: &str) -> Result<()> {
        self.labels.extend(&next.labels);
        self.ids.extend(&next.ids);
        let first = self.rows;
        let parts = [&mut self.split.train, &mut self.split.validation, &mut self.split.test];
        for (part, of) in parts.into_iter().zip([next.split.train, next.split.validation, next.split.test]) {
            part.extend(of.into_iter().map(|row| first.saturating_add(row)));
        }
        self.rows = first.saturating_add(next.rows);
        // At worst half of a list's capacity is unused. A field has its text and its end position.
        let bytes = |fields: &StringRecord| 2 * (fields.as_slice().len() + 8 * fields.len()) as u64;
        let all = bytes(&self.labels) + bytes(&self.ids);
        self.charge.grow_to(all).map_err(|exceeded| file::exceeded(file, exceeded))
    }

    /// Returns the labels, the names of their classes, the split and the ids.
    fn finish(
        self,
        table: &Table,
        columns: &Columns,
        expected: Option<&Expected>,
    ) -> Result<(Labels, Vec<String>, Option<Split>, VertexIds)> {
        let (labels, classes) = match columns.label {
            None => (Labels::none(self.rows), Vec::new()),
            Some(label) => {
                let place = format!("{}, {}", table.file, columns.name(label));
                labels_of(&place, &self.labels, expected)?
            }
        };
        let ids = match columns.id {
            None => VertexIds::Dense,
            Some(_) if (0u64..).zip(&self.ids).all(|(row, id)| canonical(id) == Some(row)) => {
                VertexIds::Dense
            }
            Some(_) => VertexIds::Words(unique(table, &self.ids)?),
        };
        Ok((labels, classes, columns.split.map(|_| self.split), ids))
    }
}

/// Returns the ids after checking that they are distinct.
fn unique(table: &Table, ids: &StringRecord) -> Result<Vec<String>> {
    let mut sorted: Vec<&str> = ids.iter().collect();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        None => Ok(ids.iter().map(str::to_owned).collect()),
        Some(pair) => {
            let found = format!("{:.60?} twice", pair[0]);
            Err(Error::malformed(Place::whole(&table.file), "another id in each row", found))
        }
    }
}

/// Converts the fields of a label column to labels. `place` is the name of the column in messages.
fn labels_of(place: &str, fields: &StringRecord, expected: Option<&Expected>) -> Result<Named> {
    let known = || fields.iter().filter(|field| !is_missing(field));
    let mut missing = MissingWords::default();
    fields.iter().for_each(|field| missing.see(field));
    missing.report(place);
    let value = |field: &str| if is_missing(field) { f32::NAN } else { number(field).unwrap_or(f32::NAN) };
    let numbers = || Values::named(1, fields.iter().map(value).collect(), place).map(Labels::Numbers);
    let is_whole = known().all(|field| whole(field).is_some());
    let is_number = || known().all(|field| number(field).is_some());
    match expected {
        Some(expected) if !expected.classification => {
            if let Some(field) = known().find(|field| number(field).is_none()) {
                return Err(Error::Malformed {
                    place: Place::whole(place),
                    expected: "a number as label, or an empty field if it is unknown".to_owned(),
                    found: format!("{field:.60?}"),
                    remedy: "correct the labels, or remove them, because predictions need no labels",
                });
            }
            return Ok((numbers()?, Vec::new()));
        }
        _ if is_whole => {
            let whole =
                |field: &str| if is_missing(field) { MISSING } else { whole(field).unwrap_or(MISSING) };
            let all: Vec<i64> = fields.iter().map(whole).collect();
            if let Some(expected) = expected {
                return labels::expected_classes(&all, expected, place);
            }
            if all.iter().any(|&number| number < -1 && number != MISSING) {
                return Ok((numbers()?, Vec::new()));
            }
            return labels::from_numbers(&all, place);
        }
        None if is_number() => return Ok((numbers()?, Vec::new())),
        _ => {}
    }
    let minus_one = expected.is_some_and(|expected| expected.classes.iter().any(|name| name == "-1"));
    let none = |field: &str| is_missing(field) || (field == "-1" && !minus_one);
    let mut codes: Codes<&str> = fields.iter().filter(|field| !none(field)).map(|field| (field, 0)).collect();
    let mut words: Vec<&str> = codes.keys().copied().collect();
    words.sort_unstable();
    for (class, word) in (0..).zip(&words) {
        codes.insert(word, class);
    }
    let class = |field: &str| codes.get(field).copied().unwrap_or(NO_LABEL);
    let labels = Labels::classes(fields.iter().map(class).collect(), words.len() as u32);
    Ok((labels, words.into_iter().map(str::to_owned).collect()))
}

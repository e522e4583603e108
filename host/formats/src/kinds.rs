//! Inference of the kinds of a table's columns from their content, and reading of typed columns.
//!
//! [`Columns`] reads a table in blocks on all processors, and fills an
//! [`eciton_graph::encoding::Table`] while it determines the kind of each column. A column that
//! turns out to mix numbers and words is read a second time. Reading needs 16 bytes per number, 4
//! bytes per word, and memory for the distinct words.
//!
//! | every known field is | kind |
//! | --- | --- |
//! | a finite number | number |
//! | `true` or `false`, `yes` or `no`, in any case | boolean |
//! | a date `YYYY-MM-DD`, `YYYY/MM/DD` or `DD.MM.YYYY`, optionally with a time | date |
//! | a word; at most [`MAX_CATEGORIES`] distinct words | category |
//! | a word; at most half as many distinct words as rows | hashed |
//! | a word; more distinct words, as in names and texts | ignored, with a note |
//!
//! In every kind, empty fields and words such as `nan` are missing values. If at least half of the
//! known fields are numbers or dates, all other fields are treated as mistakes. The first of them
//! is reported as an error with its line.

mod cells;
mod date;
mod survey;

use std::collections::HashSet;

use eciton_graph::corrections::Number;
use eciton_graph::encoding::{self, Cells, Encoder, Kind, MAX_CATEGORIES, MAX_SET_CATEGORIES};
use eciton_graph::error::{Error, Place, Result};
use eciton_input::budget::Charge;
use eciton_input::notes;
use eciton_input::text::{cut, listed};

use self::cells::Column;
use crate::missing::is_missing;
use crate::numbers::exact;
use crate::settings::TableSettings;
use crate::table::{Records, Row, Table, named};
use crate::{columns, file};

/// Maximum number of columns that the reading report lists individually.
const MAX_REPORTED: usize = 40;

/// Column of a table that is to be read.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    /// Position of the column in a record.
    pub(crate) at: usize,
    pub(crate) name: String,
    /// Kind that the user or a trained model has set. If `None`, the content determines the kind.
    pub(crate) kind: Option<Kind>,
}

/// Feature columns of a table that are to be read, with their kinds.
pub(crate) struct Columns<'a> {
    table: &'a Table,
    wanted: Vec<Wanted>,
    /// True if the kinds come from a trained model instead of the content.
    given: bool,
}

impl<'a> Columns<'a> {
    /// Creates a selection of the columns `wanted`.
    pub(crate) fn new(table: &'a Table, wanted: Vec<Wanted>) -> Self {
        Self { table, wanted, given: false }
    }

    /// Selects the columns that the encoders of a trained model read. They are matched by name,
    /// ignoring case. `found` are the column names of the table, and `others` are the positions of
    /// columns with another use.
    ///
    /// # Errors
    /// Returns [`Error::Malformed`] with the missing columns if the table lacks some.
    pub(crate) fn expected(
        table: &'a Table,
        encoders: &[Encoder],
        found: &[String],
        others: &[Option<usize>],
    ) -> Result<Self> {
        let wanted: Vec<String> = encoders.iter().map(|encoder| encoder.name.clone()).collect();
        let at = columns::matched(&table.file, "columns", &wanted, found)?;
        let known: HashSet<usize> = at.iter().copied().collect();
        let unused: Vec<String> = (0..)
            .zip(found)
            .filter(|(column, _)| !known.contains(column) && !others.contains(&Some(*column)))
            .map(|(_, name)| name.clone())
            .collect();
        if !unused.is_empty() {
            let why = "the model was not trained on them";
            notes::add(columns::unused(&table.file, why, &unused));
        }
        let wanted = encoders.iter().zip(at).map(|(encoder, at)| Wanted {
            at,
            name: encoder.name.clone(),
            kind: Some(encoder.kind),
        });
        Ok(Self { given: true, ..Self::new(table, wanted.collect()) })
    }

    /// Reads the cells of the selected columns. `rows` is the number of rows, or `None` if it is
    /// not known.
    ///
    /// `see` is called with every record of a block, and collects data for the caller. `place`
    /// receives this data with the number of records, and returns the row of each record. No row
    /// may occur twice.
    /// row once.
    ///
    /// # Errors
    /// Returns the errors of `see` and `place`. Returns [`Error::Malformed`] with the line if a
    /// field does not fit its column.
    pub(crate) fn read<S: Default + Send>(
        self,
        rows: Option<usize>,
        see: impl Fn(&mut S, &Row) -> Result<()> + Sync,
        mut place: impl FnMut(S, usize) -> Result<Vec<u32>>,
    ) -> Result<encoding::Table> {
        let Self { table, wanted, given } = self;
        let new = || wanted.iter().map(|wanted| Column::new(wanted.kind)).collect::<Vec<_>>();
        let (mut columns, mut places, mut charge) = (new(), Vec::new(), Charge::default());
        let block = |records: &mut Records<'_>| {
            let (mut columns, mut seen, mut count) = (new(), S::default(), 0);
            while let Some(row) = records.next()? {
                see(&mut seen, row)?;
                count += 1;
                for (wanted, column) in wanted.iter().zip(&mut columns) {
                    let field = row.get(wanted.at);
                    if !column.push(field, row.line()) {
                        return Err(unlike(table, row.line(), wanted, field));
                    }
                }
            }
            Ok((columns, seen, count))
        };
        table.blocks(1, block, |(of, seen, count)| {
            let to = place(seen, count)?;
            columns.iter_mut().zip(of).for_each(|(column, of)| column.put(&to, of));
            places.extend(to);
            // Memory for the cells, and for the encoded features.
            let encoded = 8 * (columns.len() * places.len()) as u64;
            let bytes = encoded + columns.iter().map(Column::bytes).sum::<u64>();
            charge.grow_to(bytes).map_err(|exceeded| file::exceeded(&table.file, exceeded)).map(|()| true)
        })?;
        charge.keep();
        if places.is_empty() {
            return Err(table.empty("at least one row of features"));
        }
        let rows = rows.unwrap_or(places.len());
        for (wanted, column) in wanted.iter().zip(&columns).filter(|(wanted, _)| wanted.kind.is_none()) {
            column.survey.check(table, &wanted.name)?;
        }
        let kinds: Vec<Kind> = wanted
            .iter()
            .zip(&columns)
            .map(|(wanted, column)| wanted.kind.unwrap_or_else(|| column.survey.kind()))
            .collect();
        let mut cells: Vec<Option<Cells>> =
            columns.into_iter().zip(&kinds).map(|(column, kind)| column.finish(*kind, rows)).collect();
        read_again(table, &wanted, &places, rows, &mut cells)?;
        drop(places);
        let mut read = encoding::Table { file: table.file.clone(), rows, columns: Vec::new() };
        let mut report = Vec::new();
        for ((wanted, kind), cells) in wanted.into_iter().zip(kinds).zip(cells) {
            let cells = cells.unwrap_or(Cells::Numbers(Vec::new()));
            let (kind, why) = settled(&wanted, kind, &cells, rows);
            refuse_too_many(table, &wanted, kind, &cells)?;
            doubt_header(table, &wanted.name, &cells);
            report.push(line(&wanted.name, kind, &cells, why));
            // The cells of a column that is not a feature are not needed.
            let cells = if kind == Kind::Ignored { Cells::Numbers(Vec::new()) } else { cells };
            read.columns.push(encoding::Column { name: wanted.name, kind, cells });
        }
        if !given {
            report_kinds(&table.file, report);
        }
        Ok(read)
    }
}

/// Reads the columns whose cells were not stored again, as words. `places` are the rows of the
/// records.
fn read_again(
    table: &Table,
    wanted: &[Wanted],
    mut places: &[u32],
    rows: usize,
    cells: &mut [Option<Cells>],
) -> Result<()> {
    let open: Vec<usize> =
        (0..).zip(&*cells).filter(|(_, cells)| cells.is_none()).map(|(at, _)| at).collect();
    if open.is_empty() {
        return Ok(());
    }
    let new = || open.iter().map(|_| Column::new(Some(Kind::Category))).collect::<Vec<_>>();
    let (mut columns, mut charge) = (new(), Charge::default());
    let block = |records: &mut Records<'_>| {
        let (mut columns, mut count) = (new(), 0);
        while let Some(row) = records.next()? {
            count += 1;
            for (column, &at) in columns.iter_mut().zip(&open) {
                column.push(wanted.get(at).map_or("", |wanted| row.get(wanted.at)), row.line());
            }
        }
        Ok((columns, count))
    };
    table.blocks(1, block, |(of, count): (Vec<Column>, usize)| {
        let to;
        (to, places) = places.split_at(places.len().min(count));
        columns.iter_mut().zip(of).for_each(|(column, of)| column.put(to, of));
        let bytes = columns.iter().map(Column::bytes).sum();
        charge.grow_to(bytes).map_err(|exceeded| file::exceeded(&table.file, exceeded)).map(|()| true)
    })?;
    charge.keep();
    for (at, column) in open.into_iter().zip(columns) {
        if let Some(cells) = cells.get_mut(at) {
            *cells = column.finish(Kind::Category, rows);
        }
    }
    Ok(())
}

/// Parses a finite number that is written in digits.
fn finite(field: &str) -> Option<Number> {
    exact(field).filter(|number| number.rounded.is_finite())
}

/// Converts a field of a numeric kind to a number. Booleans become 0 or 1, and dates become days.
/// Returns `None` if the field does not fit the kind.
fn parse(kind: Kind, field: &str) -> Option<Number> {
    match kind {
        Kind::Boolean => boolean(field).map(|value| f64::from(u8::from(value)).into()),
        Kind::Date => date::days(field).map(Number::from),
        _ => finite(field),
    }
}

/// Parses a Boolean, for instance `true`, `no` or `1`. Returns `None` for other fields.
pub(crate) fn boolean(field: &str) -> Option<bool> {
    let is = |words: [&str; 3]| words.iter().any(|word| field.eq_ignore_ascii_case(word));
    match () {
        () if is(["true", "yes", "1"]) => Some(true),
        () if is(["false", "no", "0"]) => Some(false),
        () => None,
    }
}

/// Returns the error for a field that does not fit the kind of its column.
fn unlike(table: &Table, line: u64, wanted: &Wanted, field: &str) -> Error {
    let (expected, remedy) = match wanted.kind {
        Some(Kind::Boolean) => {
            ("true or false", "write true, false, yes, no, 1 or 0, or leave the field empty")
        }
        Some(Kind::Date) => (
            "a date",
            "write dates as YYYY-MM-DD, perhaps with a time (YYYY-MM-DDTHH:MM:SS), or leave the field empty",
        ),
        _ => ("a finite number", "write a number, or leave the field empty if it is unknown"),
    };
    Error::Malformed {
        place: Place::line(&table.file, line),
        expected: format!("{expected} in column {:.40}", wanted.name),
        found: format!("{field:.60?}"),
        remedy,
    }
}

/// Returns the final kind of a column. A column of words is a category, hashed or ignored,
/// depending on its number of distinct words. The second value is the reason if the kind was set or
/// the column is ignored.
fn settled(wanted: &Wanted, kind: Kind, cells: &Cells, rows: usize) -> (Kind, &'static str) {
    let Cells::Words { words, .. } = cells else { return (kind, "") };
    let known = rows - cells.missing();
    match wanted.kind {
        Some(kind) => (kind, "set"),
        None if kind == Kind::Ignored => (kind, "all its fields are missing"),
        None if words.len() <= MAX_CATEGORIES => (Kind::Category, ""),
        None if words.len() * 2 <= known => (Kind::Hashed, ""),
        None => (Kind::Ignored, "most rows have a distinct value, as in names and texts"),
    }
}

/// Returns an error if a category column has too many values. This only happens if the user has set
/// the kind.
fn refuse_too_many(table: &Table, wanted: &Wanted, kind: Kind, cells: &Cells) -> Result<()> {
    match cells {
        Cells::Words { words, .. } if kind == Kind::Category && words.len() > MAX_SET_CATEGORIES => {
            Err(Error::Limit {
                place: Place::whole(format!("{}, column {:.40}", table.file, wanted.name)),
                limit: "category",
                unit: "values",
                allowed: MAX_SET_CATEGORIES as u64,
                found: words.len() as u64,
                remedy: "set the kind of the column to \"hashed\" in data.toml",
            })
        }
        _ => Ok(()),
    }
}

/// Adds a warning to the reading report if the name of a column is also one of its values. The
/// first record is then probably data and not a header.
fn doubt_header(table: &Table, name: &str, cells: &Cells) {
    let Cells::Words { words, .. } = cells else { return };
    if table.header.get() && words.iter().any(|word| word == name) {
        notes::warn(format!(
            "{}: the first record was read as a header, but {name:.40?} is also a value of its column; if the first \
             record is data, write a line with the names of the columns above it",
            table.file
        ));
    }
}

/// Returns the line of the reading report about one column, with its kind.
fn line(name: &str, kind: Kind, cells: &Cells, why: &str) -> (Kind, String) {
    let mut text = format!("column {}: {}", cut(name, 40), kind.name());
    match (kind, cells) {
        (Kind::Category | Kind::Hashed, Cells::Words { words, .. }) => {
            let first: Vec<&str> = words.iter().take(3).map(String::as_str).collect();
            let more = if words.len() > 3 { ", ..." } else { "" };
            let values = if words.len() == 1 { "value" } else { "values" };
            text += &format!(", {} {values} ({}{more})", words.len(), listed(&first));
        }
        (Kind::Ignored, _) => text += &format!(": {why}"),
        _ => {}
    }
    let missing = cells.missing();
    if missing > 0 && kind != Kind::Ignored {
        text += &format!(", {missing} missing");
    }
    (kind, text)
}

/// Adds the kinds of all columns to the reading report. Ignored columns are reported as notes, and
/// all others as facts.
fn report_kinds(file: &str, report: Vec<(Kind, String)>) {
    let (mut shown, total) = (0, report.len());
    for (kind, text) in report {
        match kind {
            Kind::Ignored => notes::add(format!(
                "{file}: {text}; `eciton data init` writes a data.toml that can set another kind"
            )),
            _ if shown < MAX_REPORTED => {
                shown += 1;
                notes::fact(format!("{file}: {text}"));
            }
            _ => {}
        }
    }
    if total > MAX_REPORTED {
        notes::fact(format!("{file}: {total} columns; those after the first {MAX_REPORTED} are not listed"));
    }
}

/// Returns the kinds of the given columns as pairs of name and word for `data.toml`.
///
/// # Errors
/// Returns the errors of [`Columns::read`].
pub(crate) fn uses(
    table: &Table,
    names: &[String],
    columns: &[usize],
    settings: &TableSettings,
) -> Result<Vec<(String, &'static str)>> {
    let wanted = |&at: &usize| Wanted { at, name: names[at].clone(), kind: settings.kind(&names[at]) };
    let mut rows = 0;
    let found = Columns::new(table, columns.iter().map(wanted).collect());
    let read = found.read(None, |(), _| Ok(()), |(), count| Ok(following(&mut rows, count)))?;
    Ok(read.columns.into_iter().map(|column| (column.name, column.kind.name())).collect())
}

/// Returns the error for a table in which every column is [`Kind::Ignored`].
pub(crate) fn no_feature(table: &Table, read: &encoding::Table) -> Error {
    let names: Vec<String> = read.columns.iter().map(|column| cut(&column.name, 40)).collect();
    Error::Malformed {
        place: Place::whole(&table.file),
        expected:
            "a column that can be a feature: numbers, dates, booleans, or words that occur in several rows"
                .to_owned(),
        found: format!("only {}, whose fields are missing, or different in most rows", listed(&names)),
        remedy: "set the kind of a column to \"category\" or \"hashed\" in a data.toml (`eciton data init`), or remove \
                 the columns and attributes: without any, each vertex of a graph gets its own one-hot feature",
    }
}

/// Returns the indices of the next `count` rows, and advances `rows` by `count`.
pub(crate) fn following(rows: &mut u32, count: usize) -> Vec<u32> {
    let first = *rows;
    *rows = rows.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
    (first..*rows).collect()
}

/// Returns whether a column has a different word in every record, none of which is a number, a date
/// or a Boolean.
///
/// # Errors
/// Returns the errors of reading the table, or an error if the words exceed the memory budget.
pub(crate) fn are_distinct_words(table: &Table, at: usize) -> Result<bool> {
    let _charge = file::charge(&table.file, 2 * table.bytes()?)?;
    let mut seen = HashSet::new();
    let mut rows = table.rows(1)?;
    while let Some(row) = rows.next()? {
        let field = row.get(at);
        let is_word = !is_missing(field)
            && exact(field).is_none()
            && date::days(field).is_none()
            && boolean(field).is_none();
        if !is_word || !seen.insert(field.to_owned()) {
            return Ok(false);
        }
    }
    Ok(!seen.is_empty())
}

/// Returns the fields of the first record, which are the column names if the record is a header.
///
/// # Errors
/// Returns the errors of reading the first record.
pub(crate) fn names_of_header(table: &Table) -> Result<Vec<String>> {
    Ok(table.first(0)?.fields().map(named).collect())
}

/// Returns a name for each column of a table. It is the name in the header, or `column N` if the
/// header has no name or repeats an earlier one.
///
/// # Errors
/// Returns the errors of reading the first record.
pub(crate) fn names(table: &Table) -> Result<Vec<String>> {
    let first = table.first(0)?;
    let (mut names, mut seen) = (Vec::new(), HashSet::new());
    for (at, field) in (1..).zip(first.fields()) {
        let name = named(field);
        names.push(match table.header.get() && !name.is_empty() && seen.insert(name.clone()) {
            true => name,
            false => format!("column {at}"),
        });
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use eciton_graph::random::SplitMix64;

    use super::*;

    fn read(table: &Table, kinds: &[Option<Kind>]) -> Result<encoding::Table> {
        let wanted = |(at, kind): (usize, &Option<Kind>)| Wanted { at, name: format!("c{at}"), kind: *kind };
        let mut rows = 0;
        Columns::new(table, kinds.iter().enumerate().map(wanted).collect()).read(
            None,
            |(), _| Ok(()),
            |(), count| Ok(following(&mut rows, count)),
        )
    }

    /// Tests that blocks of any size give the same columns, and that the columns contain the
    /// fields.
    #[test]
    fn columns_do_not_depend_on_blocks() {
        let seed = 46_003;
        println!("seed {seed}");
        let mut random = SplitMix64::new(seed);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        let fields: [&[&str]; 6] = [
            &["1", "2.5", "-7", "1e3", "16777217"],
            &["red", "green", "blue"],
            &["yes", "No", "TRUE"],
            &["2001-01-01", "2024-02-29T12:00", "1.2.1999"],
            // Most are words, so that numbers are words too.
            &["12A", "B7", "C", "34", "5.0"],
            &[""],
        ];
        for case in 0..80 {
            let columns: Vec<&[&str]> =
                (0..1 + random.below(5)).map(|_| fields[random.below(6) as usize]).collect();
            let set = case % 4 == 3;
            let kinds: Vec<Option<Kind>> =
                columns.iter().map(|_| (set && random.below(2) == 0).then_some(Kind::Category)).collect();
            let rows: Vec<Vec<&str>> = (0..20 + random.below(60))
                .map(|_| {
                    let field = |of: &&[&'static str]| match random.below(6) {
                        0 => ["", "NA", "nan"][random.below(3) as usize],
                        _ => of[random.below(of.len() as u64) as usize],
                    };
                    columns.iter().map(field).collect()
                })
                .collect();
            let text: String = rows.iter().map(|row| format!("{}\n", row.join(",") + ",end")).collect();
            std::fs::write(&path, text).unwrap();
            let table = Table::open(&path).unwrap();
            let Ok(whole) = read(&table, &kinds) else { continue };
            for (at, column) in whole.columns.iter().enumerate() {
                for (row, fields) in rows.iter().enumerate() {
                    let field = fields[at];
                    assert_eq!(
                        column.cells.is_missing(row),
                        is_missing(field) || column.kind == Kind::Ignored
                    );
                    match &column.cells {
                        Cells::Numbers(numbers) if !is_missing(field) && column.kind != Kind::Ignored => {
                            assert_eq!(Some(numbers[row]), parse(column.kind, field));
                        }
                        Cells::Words { codes, words } if !is_missing(field) => {
                            assert_eq!(words[codes[row] as usize], field);
                        }
                        _ => {}
                    }
                }
            }
            for bytes in [1, 5, 30, 200] {
                let found = read(&table.in_blocks(bytes), &kinds).unwrap();
                // NaN differs from itself.
                assert_eq!(
                    format!("{found:?}"),
                    format!("{whole:?}"),
                    "case {case}, blocks of {bytes} bytes"
                );
            }
        }
    }
}

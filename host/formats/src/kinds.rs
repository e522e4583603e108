//! Kinds of the columns of a table, found by their content, and the typed columns that they become.
//!
//! [`Columns`] reads a table twice: once to find the kind of each column, and once to fill the cells of an
//! [`eciton_graph::encoding::Table`]. Both passes stream. Memory is 16 bytes per number, 4 bytes per word,
//! and the distinct words.
//!
//! | every known field is | kind |
//! | --- | --- |
//! | a finite number | number |
//! | `true` or `false`, `yes` or `no`, in any case | boolean |
//! | a date `YYYY-MM-DD`, `YYYY/MM/DD` or `DD.MM.YYYY`, perhaps with a time | date |
//! | a word; at most [`MAX_CATEGORIES`] distinct ones | category |
//! | a word; at most half of the rows have distinct ones | hashed |
//! | a word; more distinct ones, as names and texts have | ignored, with a note |
//!
//! Empty fields and words for a missing value are missing in every kind. If half of the known fields or more
//! are numbers, or dates, the others are taken for mistakes: the first one is an error with its line.

mod date;
mod survey;

use std::collections::{HashMap, HashSet};

use eciton_graph::corrections::Number;
use eciton_graph::encoding::{self, Cells, Encoder, Kind, MAX_CATEGORIES, MAX_SET_CATEGORIES, MISSING};
use eciton_graph::error::{Error, Place, Result};
use eciton_input::budget::Charge;
use eciton_input::notes;
use eciton_input::text::{cut, listed};

use self::survey::Survey;
use crate::folder::exact;
use crate::missing::is_missing;
use crate::settings::TableSettings;
use crate::table::{Row, Table, named};
use crate::{columns, file};

/// Maximum number of columns whose kind the reading report lists one by one.
const MAX_REPORTED: usize = 40;

/// Missing number.
const UNKNOWN: Number = Number { rounded: f32::NAN, residual: 0.0 };

/// One column of a table that is to be read.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    /// Field of the record.
    pub(crate) at: usize,
    pub(crate) name: String,
    /// Kind that the user or a trained model has set. `None`: the content decides.
    pub(crate) kind: Option<Kind>,
}

/// Columns of a table that are features, with their kinds.
pub(crate) struct Columns<'a> {
    table: &'a Table,
    wanted: Vec<Wanted>,
    /// True if a trained model has set the kinds.
    given: bool,
    /// Number of records.
    records: usize,
    surveys: Vec<Survey>,
}

impl<'a> Columns<'a> {
    /// Finds the kinds of columns, of which `wanted` may set some.
    ///
    /// # Errors
    /// [`Error::Malformed`] with the line of a field that does not fit its column.
    pub(crate) fn of(table: &'a Table, wanted: Vec<Wanted>) -> Result<Self> {
        let mut surveys: Vec<Survey> = wanted.iter().map(|_| Survey::default()).collect();
        let mut records = 0;
        table.each(1, |row| {
            records += 1;
            for (wanted, survey) in
                wanted.iter().zip(&mut surveys).filter(|(wanted, _)| wanted.kind.is_none())
            {
                survey.see(row.get(wanted.at), row.line());
            }
            Ok(())
        })?;
        if records == 0 {
            return Err(table.empty("a row of features at least"));
        }
        for (wanted, survey) in wanted.iter().zip(&surveys).filter(|(wanted, _)| wanted.kind.is_none()) {
            survey.check(table, &wanted.name)?;
        }
        Ok(Self { table, wanted, given: false, records, surveys })
    }

    /// Finds the columns that the encoders of a trained model read, by their names in any case.
    ///
    /// # Errors
    /// [`Error::Malformed`] that lists missing columns; as [`Columns::of`].
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
        Ok(Self { given: true, ..Self::of(table, wanted.collect())? })
    }

    /// Number of records of the table.
    pub(crate) fn records(&self) -> usize {
        self.records
    }

    /// Reads the cells of `rows` rows. `place` returns the row of a record, each once.
    ///
    /// # Errors
    /// Those of `place`, and [`Error::Malformed`] with the line of a field that does not fit a set kind.
    pub(crate) fn read(
        self,
        rows: usize,
        mut place: impl FnMut(&Row) -> Result<u32>,
    ) -> Result<encoding::Table> {
        let Self { table, wanted, given, surveys, .. } = self;
        let kinds: Vec<Kind> = wanted
            .iter()
            .zip(&surveys)
            .map(|(wanted, survey)| wanted.kind.unwrap_or_else(|| survey.kind()))
            .collect();
        let bytes = |kind: &Kind| if kind.is_numeric() { 16 } else { 4 };
        let cell_bytes: u64 = kinds.iter().map(bytes).sum();
        // The cells, and what is encoded of them.
        let charge = file::charge(&table.file, (cell_bytes + 8 * kinds.len() as u64) * rows as u64)?;
        let mut cells: Vec<Filling> =
            kinds.iter().map(|kind| Filling::new(*kind, rows, &table.file)).collect();
        table.each(1, |row| {
            let to = place(row)? as usize;
            for ((wanted, kind), cells) in wanted.iter().zip(&kinds).zip(&mut cells) {
                let field = row.get(wanted.at);
                if is_missing(field) || *kind == Kind::Ignored {
                    continue;
                }
                match cells {
                    Filling::Numbers(numbers) => {
                        let number = parse(*kind, field)
                            .ok_or_else(|| unlike(table, row.line(), wanted, *kind, field))?;
                        if let Some(slot) = numbers.get_mut(to) {
                            *slot = number;
                        }
                    }
                    Filling::Words(words) => words.set(to, field)?,
                }
            }
            Ok(())
        })?;
        charge.keep();
        let mut read = encoding::Table { file: table.file.clone(), rows, columns: Vec::new() };
        let mut report = Vec::new();
        for ((wanted, kind), cells) in wanted.into_iter().zip(kinds).zip(cells) {
            let cells = cells.finish();
            let (kind, why) = settled(&wanted, kind, &cells, rows);
            refuse_too_many(table, &wanted, kind, &cells)?;
            doubt_header(table, &wanted.name, &cells);
            report.push(line(&wanted.name, kind, &cells, why));
            // Cells of a column that is no feature are of no use.
            let cells = if kind == Kind::Ignored { Cells::Numbers(Vec::new()) } else { cells };
            read.columns.push(encoding::Column { name: wanted.name, kind, cells });
        }
        if !given {
            report_kinds(&table.file, report);
        }
        Ok(read)
    }
}

/// The number that a field of a numeric kind stands for.
fn parse(kind: Kind, field: &str) -> Option<Number> {
    match kind {
        Kind::Boolean => boolean(field).map(|value| f64::from(u8::from(value)).into()),
        Kind::Date => date::days(field).map(Number::from),
        _ => exact(field).filter(|number| number.rounded.is_finite()),
    }
}

/// Returns the truth value of a field.
fn boolean(field: &str) -> Option<bool> {
    let is = |words: [&str; 3]| words.iter().any(|word| field.eq_ignore_ascii_case(word));
    match () {
        () if is(["true", "yes", "1"]) => Some(true),
        () if is(["false", "no", "0"]) => Some(false),
        () => None,
    }
}

/// The error of a field that does not fit a kind that was set.
fn unlike(table: &Table, line: u64, wanted: &Wanted, kind: Kind, field: &str) -> Error {
    let (expected, remedy) = match kind {
        Kind::Boolean => ("true or false", "write true, false, yes, no, 1 or 0, or leave the field empty"),
        Kind::Date => (
            "a date",
            "write dates as YYYY-MM-DD, perhaps with a time (YYYY-MM-DDTHH:MM:SS), or leave the field empty",
        ),
        _ => ("a finite number", "write a number, or leave the field empty where it is unknown"),
    };
    Error::Malformed {
        place: Place::line(&table.file, line),
        expected: format!("{expected} in column {:.40}", wanted.name),
        found: format!("{field:.60?}"),
        remedy,
    }
}

/// Returns the kind of a column of words by the number of distinct ones, and why it is no feature.
fn settled(wanted: &Wanted, kind: Kind, cells: &Cells, rows: usize) -> (Kind, &'static str) {
    let Cells::Words { words, .. } = cells else { return (kind, "") };
    let known = rows - cells.missing();
    match wanted.kind {
        Some(kind) => (kind, "set"),
        None if kind == Kind::Ignored => (kind, "all its fields are missing"),
        None if words.len() <= MAX_CATEGORIES => (Kind::Category, ""),
        None if words.len() * 2 <= known => (Kind::Hashed, ""),
        None => (Kind::Ignored, "most rows have a value of their own, as names and texts have"),
    }
}

/// Refuses a category with too many values, which only a set kind can have.
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

/// Warns of a column whose name is one of its values: then the first record is probably data.
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

/// One line of the reading report.
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

/// Adds the kinds of all columns to the reading report: columns that are no features as notes.
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

/// Cells that are being read.
enum Filling {
    Numbers(Vec<Number>),
    Words(Words),
}

impl Filling {
    fn new(kind: Kind, rows: usize, file: &str) -> Self {
        match kind.is_numeric() {
            true => Self::Numbers(vec![UNKNOWN; rows]),
            false => Self::Words(Words {
                codes: vec![MISSING; rows],
                words: Vec::new(),
                positions: HashMap::new(),
                bytes: 0,
                charge: Charge::default(),
                file: file.to_owned(),
            }),
        }
    }

    fn finish(self) -> Cells {
        match self {
            Self::Numbers(numbers) => Cells::Numbers(numbers),
            Self::Words(Words { codes, words, charge, .. }) => {
                charge.keep();
                Cells::Words { codes, words }
            }
        }
    }
}

/// Words of a column, each with a code.
struct Words {
    codes: Vec<u32>,
    words: Vec<String>,
    positions: HashMap<Box<str>, u32>,
    bytes: u64,
    charge: Charge,
    file: String,
}

impl Words {
    fn set(&mut self, row: usize, word: &str) -> Result<()> {
        let code = match self.positions.get(word) {
            Some(&code) => code,
            None => {
                let code = self.words.len() as u32;
                // A word and a key, each with its text; slots of the map are half empty at worst.
                self.bytes += 2 * word.len() as u64 + 96;
                self.charge.grow_to(self.bytes).map_err(|exceeded| file::exceeded(&self.file, exceeded))?;
                self.words.push(word.to_owned());
                self.positions.insert(word.into(), code);
                code
            }
        };
        if let Some(slot) = self.codes.get_mut(row) {
            *slot = code;
        }
        Ok(())
    }
}

/// Returns the kind of each of some columns, as `data.toml` writes it.
///
/// # Errors
/// As [`Columns::of`] and [`Columns::read`].
pub(crate) fn uses(
    table: &Table,
    names: &[String],
    columns: &[usize],
    settings: &TableSettings,
) -> Result<Vec<(String, &'static str)>> {
    let wanted = |&at: &usize| Wanted { at, name: names[at].clone(), kind: settings.kind(&names[at]) };
    let found = Columns::of(table, columns.iter().map(wanted).collect())?;
    let mut rows = 0;
    let records = found.records();
    let read = found.read(records, |_| {
        rows += 1;
        Ok(rows - 1)
    })?;
    Ok(read.columns.into_iter().map(|column| (column.name, column.kind.name())).collect())
}

/// Returns whether every record has a word of its own in a column, and none is a number, a date or a truth
/// value.
///
/// # Errors
/// Those of reading the table, and of memory for the words.
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

/// Returns the fields of the first record, which are names if it is a header.
///
/// # Errors
/// Those of reading the first record.
pub(crate) fn names_of_header(table: &Table) -> Result<Vec<String>> {
    Ok(table.first(0)?.fields().map(named).collect())
}

/// Returns a name for each column of a table: that of the header, or `column N` where the header has none or
/// gives it to a column before.
///
/// # Errors
/// Those of reading the first record.
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

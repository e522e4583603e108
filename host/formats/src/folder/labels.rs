//! Reader for `labels.csv`, whose content determines whether the labels are classes, numbers or
//! Boolean labels.

use eciton_graph::error::{Error, Place, Result};
use eciton_graph::expected::Expected;
use eciton_graph::labels::{Labels, MAX_CLASSES, Values};
use eciton_graph::split::NO_LABEL;

use super::ids::{Ids, Placed, Words};
use crate::column_names::LABELS;
use crate::labels::{MISSING, Named};
use crate::missing::{MissingWords, is_missing};
use crate::numbers::{is_infinite, number, whole};
use crate::table::Table;
use crate::{columns, file, labels};

/// Returns the number in a label field, or NaN if the label is missing.
fn value(table: &Table, line: u64, column: usize, field: &str) -> Result<f32> {
    if is_missing(field) {
        return Ok(f32::NAN);
    }
    number(field).filter(|value| value.is_finite()).ok_or_else(|| Error::Malformed {
        place: Place::line(&table.file, line),
        expected: format!("a finite number as label {column}, or an empty field if it is unknown"),
        found: format!("{field:.60?}"),
        remedy: "write 0 and 1 or numbers; only a single column may have words, as classes",
    })
}

/// Summary of the kinds of fields in a label table.
#[derive(Default)]
struct Survey {
    /// Number of label columns in the first row.
    width: usize,
    /// True if the examined column has a number in some row. `words` and `infinite` are the same
    /// for words and for infinite numbers.
    numbers: bool,
    words: bool,
    infinite: bool,
    /// True if some number cannot be a class, for instance because it has a fraction.
    measured: bool,
    /// True if some field after the first label column is a number.
    further: bool,
    /// True if all known labels of the examined column are 64-bit integers.
    whole: bool,
    /// True if some label is an integer with more than 64 bits.
    huge: bool,
    missing: MissingWords,
}

impl Survey {
    /// Examines the label column at position `at`. Position 0 is the column of ids.
    fn of_column(table: &Table, at: usize) -> Result<Self> {
        let mut found = Self { whole: true, ..Self::default() };
        table.each(2, |row| {
            if found.width == 0 {
                found.width = row.len() - 1;
            }
            let field = row.get(at);
            found.missing.see(field);
            if !is_missing(field) {
                match number(field) {
                    Some(value) => {
                        found.numbers = true;
                        found.measured |= field.contains(['e', 'E']) || labels::is_measured(value);
                    }
                    None if is_infinite(field) => found.infinite = true,
                    None => found.words = true,
                }
                let whole = whole(field).is_some();
                found.whole &= whole;
                found.huge |=
                    !whole && field.trim_start_matches(['+', '-']).bytes().all(|b| b.is_ascii_digit());
            }
            found.further |= row.fields().skip(2).any(|field| !field.is_empty() && number(field).is_some());
            Ok(())
        })?;
        match found.width {
            0 => Err(table.empty("at least one label: id, label")),
            _ => Ok(found),
        }
    }
}

/// Returns the position of the column that contains the labels for a trained model. Position 0 is
/// the column of ids.
fn expected_column(table: &Table, expected: &Expected, names: &[String]) -> usize {
    let target = expected.target.first();
    let wanted = target.map(String::as_str).into_iter().chain(LABELS);
    let found = wanted.filter_map(|name| eciton_graph::names::column(names, name)).next();
    let at = found.map_or(1, |at| at as usize + 1);
    let unused: Vec<String> =
        (1..).zip(names).filter(|(column, _)| *column != at).map(|(_, name)| name.clone()).collect();
    if !unused.is_empty() {
        eciton_input::notes::add(columns::unused(&table.file, "they are not labels of the model", &unused));
    }
    at
}

/// Reads the labels of a table for a trained model. Returns `None` if the content must determine
/// the kind of the labels.
fn expected_labels(table: &Table, ids: &Ids, expected: &Expected) -> Result<Option<Named>> {
    let names = table.names(1)?;
    if !expected.classification && expected.target.len() > 1 {
        let width = table.first(2)?.len() - 1;
        let at: Vec<usize> = match names.is_empty() {
            true if width == expected.target.len() => (1..=width).collect(),
            _ => columns::matched(&table.file, "label columns", &expected.target, &names)?
                .into_iter()
                .map(|at| at + 1)
                .collect(),
        };
        return Ok(Some((values(table, ids, &at)?, expected.target.clone())));
    }
    let at = expected_column(table, expected, &names);
    let found = Survey::of_column(table, at)?;
    let whole = !found.words && !found.infinite && !found.measured;
    if !expected.classification {
        let several = names.is_empty() && found.width > 1;
        return Ok(match several {
            true => None,
            false => {
                let (labels, names) = numbers(table, ids, at)?;
                Some((labels, names))
            }
        });
    }
    if !whole {
        return named_classes(table, ids, at, expected).map(Some);
    }
    labels::expected_classes(&whole_numbers(table, ids, at)?, expected, &table.file).map(Some)
}

/// Returns the names of the label columns at these positions. The list is empty if the table has no
/// header.
fn target(table: &Table, columns: &[usize]) -> Result<Vec<String>> {
    let names = table.names(1)?;
    let of: Option<Vec<String>> = columns.iter().map(|at| names.get(at - 1).cloned()).collect();
    Ok(of.unwrap_or_default())
}

/// Labels of a table with their names.
pub(super) struct Read {
    pub(super) labels: Labels,
    /// Names of the classes. For other kinds of labels, they are the names of the label columns.
    pub(super) names: Vec<String>,
    /// Names of the label columns in the table. The list is empty if the table has no header.
    pub(super) target: Vec<String>,
}

/// Reads the labels of a table. All columns after the ids are labels if any column after the first
/// label is numeric. If the first label column has only words, it is the only one. A trained model
/// overrides the kind of the labels.
pub(super) fn label_table(table: &Table, ids: &Ids, expected: Option<&Expected>) -> Result<Read> {
    if let Some(expected) = expected
        && let Some((labels, names)) = expected_labels(table, ids, expected)?
    {
        let target = expected.target.clone();
        return Ok(Read { labels, names, target });
    }
    let found = Survey::of_column(table, 1)?;
    found.missing.report(&table.file);
    if found.infinite && !found.words {
        let mut rows = table.rows(2)?;
        while let Some(row) = rows.next()? {
            if is_infinite(row.get(1)) {
                return Err(Error::Malformed {
                    place: Place::line(&table.file, row.line()),
                    expected: "a finite number as label 1, or an empty field if it is unknown".to_owned(),
                    found: format!("{:.60?}", row.get(1)),
                    remedy: "correct the label, or leave it empty",
                });
            }
        }
    }
    let words = found.words && !found.numbers;
    if !words && found.further {
        let all: Vec<usize> = (1..=found.width).collect();
        let target = target(table, &all)?;
        return Ok(Read { labels: values(table, ids, &all)?, names: target.clone(), target });
    }
    let target = target(table, &[1])?;
    let unused: Vec<String> = (2..=found.width)
        .map(|at| {
            table.names(1).ok().and_then(|names| names.get(at - 1).cloned()).unwrap_or((at + 1).to_string())
        })
        .collect();
    if !unused.is_empty() {
        eciton_input::notes::add(columns::unused(
            &table.file,
            "the second column contains the labels",
            &unused,
        ));
    }
    let (labels, names) = if found.measured && !found.words {
        if found.width == 1 {
            eciton_input::notes::add(format!(
                "{}: labels were read as numbers to predict, because one has a fraction, an exponent or a sign; \
                 data.task = \"classification\" says otherwise",
                table.file
            ));
        }
        numbers(table, ids, 1)?
    } else if found.whole || (found.huge && !found.words) {
        labels::from_numbers(&whole_numbers(table, ids, 1)?, &table.file)?
    } else {
        named_classes(table, ids, 1, &Expected::default())?
    };
    Ok(Read { labels, names, target })
}

/// Reads a label column of numbers. Returns the labels with the name of the column. Position 0 is
/// the column of ids.
fn numbers(table: &Table, ids: &Ids, at: usize) -> Result<Named> {
    let mut of = vec![f32::NAN; ids.len() as usize];
    let mut placed = Placed::new(ids);
    table.each(2, |row| {
        let vertex = placed.place(table, row, ids)? as usize;
        if let Some(slot) = of.get_mut(vertex) {
            *slot = value(table, row.line(), at, row.get(at))?;
        }
        Ok(())
    })?;
    Ok((Labels::Numbers(Values::named(1, of, &table.file)?), target(table, &[at])?))
}

/// Reads several label columns. Position 0 is the column of ids.
fn values(table: &Table, ids: &Ids, columns: &[usize]) -> Result<Labels> {
    let width = columns.len();
    let cells = ids.len().saturating_mul(width as u64);
    let _charge = file::charge(&table.file, cells.saturating_mul(4))?;
    let (mut values, mut placed) = (vec![f32::NAN; cells as usize], Placed::new(ids));
    table.each(2, |row| {
        let vertex = placed.place(table, row, ids)? as usize;
        let slots = values.get_mut(vertex * width..(vertex + 1) * width).unwrap_or_default();
        for (&column, slot) in columns.iter().zip(slots) {
            *slot = value(table, row.line(), column, row.get(column))?;
        }
        Ok(())
    })?;
    labels::from_columns(u32::try_from(width).unwrap_or(u32::MAX), values, &table.file)
}

/// Reads a column of integers, ordered by vertex. [`MISSING`] means that a vertex has no label.
/// Position 0 is the column of ids.
fn whole_numbers(table: &Table, ids: &Ids, at: usize) -> Result<Vec<i64>> {
    let (mut of, mut placed) = (vec![MISSING; ids.len() as usize], Placed::new(ids));
    table.each(2, |row| {
        let (vertex, field) = (placed.place(table, row, ids)? as usize, row.get(at));
        if is_missing(field) {
            return Ok(());
        }
        let Some(number) = whole(field) else {
            return Err(Error::Malformed {
                place: Place::line(&table.file, row.line()),
                expected: format!("a class below {MAX_CLASSES}"),
                found: format!("{field:.60?}"),
                remedy: "number the classes from 0, or use words as classes",
            });
        };
        if number < -1 {
            return Err(Error::LabelRange {
                place: Place::line(&table.file, row.line()),
                label: number,
                classes: u64::from(MAX_CLASSES),
            });
        }
        if let Some(slot) = of.get_mut(vertex) {
            *slot = number;
        }
        Ok(())
    })?;
    Ok(of)
}

/// Reads a column of words as classes, which are numbered in alphabetical order. The word -1 means
/// that there is no label, unless the trained model has a class of that name.
fn named_classes(table: &Table, ids: &Ids, at: usize, expected: &Expected) -> Result<Named> {
    let minus_one = expected.classes.iter().any(|name| name == "-1");
    let (mut of, mut placed) = (vec![NO_LABEL; ids.len() as usize], Placed::new(ids));
    let mut words = Words::new(&table.file);
    table.each(2, |row| {
        let (vertex, field) = (placed.place(table, row, ids)? as usize, row.get(at));
        let none = is_missing(field) || (field == "-1" && !minus_one);
        if !none && let Some(slot) = of.get_mut(vertex) {
            *slot = words.add(field)?;
        }
        Ok(())
    })?;
    let mut order: Vec<u32> = (0..words.names.len() as u32).collect();
    order.sort_unstable_by_key(|&word| &words.names[word as usize]);
    let mut class = vec![0; order.len()];
    for (at, &word) in (0..).zip(&order) {
        class[word as usize] = at;
    }
    for label in of.iter_mut().filter(|label| **label != NO_LABEL) {
        *label = class[*label as usize];
    }
    let names = order.iter().filter_map(|&word| words.names.get(word as usize).cloned()).collect();
    Ok((Labels::classes(of, order.len() as u32), names))
}

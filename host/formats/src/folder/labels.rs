//! `labels.csv`: classes, numbers or flags, by what its rows hold.

use eciton_graph::error::{Error, Place, Result};
use eciton_graph::labels::{Labels, MAX_CLASSES, Values};
use eciton_graph::split::NO_LABEL;

use super::ids::{Ids, Placed, Words};
use crate::table::Table;
use crate::{file, labels};

/// A number in digits. Words that mean numbers (`nan`, `inf`) may be names.
pub(crate) fn number(field: &str) -> Option<f32> {
    let digits = |b: u8| b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.' | b'e' | b'E');
    if field.bytes().all(digits) { field.parse().ok() } else { None }
}

/// A whole number, also one that is written as `1.0`, as pandas does beside a NaN.
pub(crate) fn whole(field: &str) -> Option<i64> {
    let plain =
        field.split_once('.').filter(|(_, rest)| rest.bytes().all(|b| b == b'0')).map(|(whole, _)| whole);
    plain.unwrap_or(field).parse().ok()
}

/// Whether a field says that a label is not known.
pub(super) fn is_unknown(field: &str) -> bool {
    field.is_empty() || field.eq_ignore_ascii_case("nan")
}

/// Whether a field is a word for infinity.
fn is_infinite(field: &str) -> bool {
    let word = field.trim_start_matches(['+', '-']);
    word.eq_ignore_ascii_case("inf") || word.eq_ignore_ascii_case("infinity")
}

/// The value of one label; NaN where it is not known.
fn value(table: &Table, line: u64, column: usize, field: &str) -> Result<f32> {
    if is_unknown(field) {
        return Ok(f32::NAN);
    }
    number(field).filter(|value| value.is_finite()).ok_or_else(|| Error::Malformed {
        place: Place::line(&table.file, line),
        expected: format!("a finite number as label {column}, or nothing where it is unknown"),
        found: format!("{field:.60?}"),
        remedy: "write 0 and 1 or numbers; only a single column may have words, as classes",
    })
}

/// The kinds of fields in a table of labels, over all its rows.
#[derive(Default)]
struct Survey {
    /// Labels of the first row.
    width: usize,
    /// Whether the first label is a number in some rows, a word in some, infinite in some.
    numbers: bool,
    words: bool,
    infinite: bool,
    /// Whether one of the numbers is no class.
    measured: bool,
    /// Whether a number stands in a column behind the first label.
    further: bool,
    /// Whether all first labels are whole numbers of 64 bits, or words for none.
    whole: bool,
    /// Whether one of them has more digits than that.
    huge: bool,
}

impl Survey {
    fn of(table: &Table) -> Result<Self> {
        let mut found = Self { whole: true, ..Self::default() };
        table.each(2, |row| {
            if found.width == 0 {
                found.width = row.len() - 1;
            }
            let field = row.get(1);
            if !is_unknown(field) {
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
            found.further |= row.fields().skip(2).any(|field| number(field).is_some());
            Ok(())
        })?;
        match found.width {
            0 => Err(table.empty("a label at least: id, label")),
            _ => Ok(found),
        }
    }
}

/// The labels of a table: classes, numbers or flags, by what its rows hold; and names of the classes or columns.
///
/// Several columns are labels where a number stands behind the first one, if that is not of words alone.
pub(super) fn label_table(table: &Table, ids: &Ids) -> Result<(Labels, Vec<String>)> {
    let found = Survey::of(table)?;
    if found.infinite && !found.words {
        let mut rows = table.rows(2)?;
        while let Some(row) = rows.next()? {
            if is_infinite(row.get(1)) {
                return Err(Error::Malformed {
                    place: Place::line(&table.file, row.line()),
                    expected: "a finite number as label 1, or nothing where it is unknown".to_owned(),
                    found: format!("{:.60?}", row.get(1)),
                    remedy: "correct the label, or leave it empty",
                });
            }
        }
    }
    let words = found.words && !found.numbers;
    if !words && found.further {
        let names = table.names(1)?;
        let names = if names.len() == found.width { names } else { Vec::new() };
        return Ok((values(table, ids, found.width)?, names));
    }
    if found.measured && !found.words {
        let mut of = vec![f32::NAN; ids.len() as usize];
        let mut placed = Placed::new(ids);
        table.each(2, |row| {
            let vertex = placed.place(table, row, ids)? as usize;
            if let Some(slot) = of.get_mut(vertex) {
                *slot = value(table, row.line(), 1, row.get(1))?;
            }
            Ok(())
        })?;
        if found.width == 1 {
            eciton_input::notes::add(format!(
                "{}: labels were read as numbers to be predicted, for one has a fraction, an exponent or a sign; \
                 data.task = \"classification\" says otherwise",
                table.file
            ));
        }
        let names = table.names(1)?.into_iter().take(1).collect();
        return Ok((Labels::Numbers(Values::named(1, of, &table.file)?), names));
    }
    match found.whole || (found.huge && !found.words) {
        true => Ok((numbered_classes(table, ids)?, Vec::new())),
        false => named_classes(table, ids),
    }
}

/// Labels of several columns.
fn values(table: &Table, ids: &Ids, width: usize) -> Result<Labels> {
    let cells = ids.len().saturating_mul(width as u64);
    let _charge = file::charge(&table.file, cells.saturating_mul(4))?;
    let (mut values, mut placed) = (vec![f32::NAN; cells as usize], Placed::new(ids));
    table.each(2, |row| {
        let vertex = placed.place(table, row, ids)? as usize;
        if row.len() != width + 1 {
            let found = format!("{} fields", row.len());
            return Err(table.wrong(row.line(), &format!("an id and {width} labels"), &found));
        }
        let slots = values.get_mut(vertex * width..(vertex + 1) * width).unwrap_or_default();
        for ((column, field), slot) in (1..).zip(row.fields().skip(1)).zip(slots) {
            *slot = value(table, row.line(), column, field)?;
        }
        Ok(())
    })?;
    labels::from_columns(u32::try_from(width).unwrap_or(u32::MAX), values, &table.file)
}

/// Whether a field stands for no class.
fn is_none(field: &str) -> bool {
    field.is_empty() || field == "-1"
}

/// Classes that are whole numbers.
fn numbered_classes(table: &Table, ids: &Ids) -> Result<Labels> {
    let (mut of, mut placed) = (vec![-1i64; ids.len() as usize], Placed::new(ids));
    table.each(2, |row| {
        let (vertex, field) = (placed.place(table, row, ids)? as usize, row.get(1));
        if is_none(field) || is_unknown(field) {
            return Ok(());
        }
        let Some(number) = whole(field) else {
            return Err(Error::Malformed {
                place: Place::line(&table.file, row.line()),
                expected: format!("a class below {}", MAX_CLASSES),
                found: format!("{field:.60?}"),
                remedy: "number the classes from 0, or call them by words",
            });
        };
        if number == -1 {
            return Ok(());
        }
        if !(0..i64::from(MAX_CLASSES)).contains(&number) {
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
    labels::from_numbers(&of, &table.file)
}

/// Classes that are words, in alphabetical order.
fn named_classes(table: &Table, ids: &Ids) -> Result<(Labels, Vec<String>)> {
    let (mut of, mut placed) = (vec![NO_LABEL; ids.len() as usize], Placed::new(ids));
    let mut words = Words::new(&table.file);
    table.each(2, |row| {
        let (vertex, field) = (placed.place(table, row, ids)? as usize, row.get(1));
        if !is_none(field)
            && let Some(slot) = of.get_mut(vertex)
        {
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

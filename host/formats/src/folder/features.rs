//! Reader for `features.csv`, whose columns are either all numbers or of several kinds.

use eciton_graph::corrections::{Collector, Number};
use eciton_graph::encoding;
use eciton_graph::error::{Error, Place, Result};
use eciton_graph::expected::Expected;
use eciton_graph::features::Features;

use super::ids::{Ids, Placed};
use crate::settings::TableSettings;
use crate::table::{Row, Table};
use crate::{columns, file, kinds};

/// Contents of a feature table.
pub(super) enum Read {
    /// Numeric features, with the names of the columns.
    Numbers(Features, Vec<String>),
    Typed(encoding::Table),
}

/// Reads a feature table, whose first column contains the ids. If all columns are finite numbers,
/// one pass suffices. Otherwise `settings`, a trained model or the content determines the kind of
/// each column.
pub(super) fn read(
    table: &Table,
    ids: &Ids,
    settings: &TableSettings,
    expected: Option<&Expected>,
) -> Result<Read> {
    let names = kinds::names(table)?;
    let encoders = expected.map(|expected| &expected.encoders[..]).unwrap_or_default();
    let set = expected.is_none() && names.iter().any(|name| settings.kind(name).is_some());
    if encoders.is_empty() && !set {
        let all = table.names(1)?;
        let chosen = feature_columns(table, &all, expected)?;
        let named: Option<Vec<String>> = chosen.iter().map(|&at| all.get(at - 1).cloned()).collect();
        let named = named.unwrap_or_default();
        if let Some(features) = numbers(table, ids, &chosen, expected.is_some())? {
            if !named.is_empty() {
                let listed = eciton_input::text::listed(&named);
                eciton_input::notes::fact(format!("{}: columns of numbers: {listed}", table.file));
            }
            return Ok(Read::Numbers(features, named));
        }
    }
    let read = match encoders {
        [] => {
            let wanted = |(at, name): (usize, &String)| kinds::Wanted {
                at,
                kind: settings.kind(name),
                name: name.clone(),
            };
            kinds::Columns::new(table, names.iter().enumerate().skip(1).map(wanted).collect())
        }
        encoders => kinds::Columns::expected(table, encoders, &names, &[Some(0)])?,
    };
    let mut placed = Placed::new(ids);
    let see = |found: &mut Vec<(u32, u64)>, row: &Row| {
        found.push((ids.find(table, row.line(), row.get(0))?, row.line()));
        Ok(())
    };
    let read = read.read(Some(ids.len() as usize), see, |found, _| placed.all(table, &found, ids))?;
    complete(table, ids, &placed)?;
    match read.has_features() {
        true => Ok(Read::Typed(read)),
        false => Err(kinds::no_feature(table, &read)),
    }
}

/// Returns an error if a vertex has no row in the table.
fn complete(table: &Table, ids: &Ids, placed: &Placed) -> Result<()> {
    match placed.first_missing() {
        None => Ok(()),
        Some(vertex) => {
            let expected = format!("a row for each of {} vertices", ids.len());
            let found = format!("none for vertex {}", ids.names.name(vertex));
            Err(Error::malformed(Place::whole(&table.file), expected, found))
        }
    }
}

/// Returns the positions of the feature columns, where 0 is the column of ids. They are all other
/// columns, or those that a model was trained on.
fn feature_columns(table: &Table, names: &[String], expected: Option<&Expected>) -> Result<Vec<usize>> {
    let all = (1..table.first(2)?.len()).collect();
    let Some(expected) = expected.filter(|expected| !expected.features.is_empty() && !names.is_empty())
    else {
        return Ok(all);
    };
    let at = columns::matched(&table.file, "feature columns", &expected.features, names)?;
    let unused: Vec<String> =
        (0..).zip(names).filter(|(column, _)| !at.contains(column)).map(|(_, name)| name.clone()).collect();
    if !unused.is_empty() {
        let why = "the model was not trained on them";
        eciton_input::notes::add(columns::unused(&table.file, why, &unused));
    }
    Ok(at.into_iter().map(|at| at + 1).collect())
}

/// Reads the columns `chosen` as finite numbers in one pass. Column 0 contains the ids. Returns
/// `None` if a field is not a finite number, or an error if `strict` is true.
fn numbers(table: &Table, ids: &Ids, chosen: &[usize], strict: bool) -> Result<Option<Features>> {
    if table.rows(2)?.next()?.is_none() {
        return Err(table.empty("at least one row of features"));
    }
    let columns = chosen.len();
    let cells = ids.len().saturating_mul(columns as u64);
    // Memory for the values, and for their copy in the data set.
    let _charge = file::charge(&table.file, cells.saturating_mul(8))?;
    let (mut values, mut placed) = (vec![0f32; cells as usize], Placed::new(ids));
    let mut corrections = Collector::dense(&table.file);
    let mut rows = table.rows(2)?;
    while let Some(row) = rows.next()? {
        let number = placed.place(table, row, ids)?;
        let vertex = number as usize;
        let slots = values.get_mut(vertex * columns..(vertex + 1) * columns).unwrap_or_default();
        for ((column, field), slot) in (0u32..).zip(chosen.iter().map(|&at| row.get(at))).zip(slots) {
            match Number::parse(field) {
                Some(value) if value.rounded.is_finite() => {
                    *slot = corrections.push(number, column, value);
                }
                _ if !strict => return Ok(None),
                Some(Number { rounded: value, .. }) => {
                    return Err(Error::NotFinite {
                        place: Place::line(&table.file, row.line()),
                        column: column.into(),
                        value,
                    });
                }
                None => return Err(table.wrong(row.line(), "a number", field)),
            }
        }
    }
    complete(table, ids, &placed)?;
    Ok(Some(Features::from_dense(columns as u32, &values)?.with_corrections(corrections.finish())))
}

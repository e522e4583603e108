//! Labels as files write them: classes, flags or numbers.

use eciton_graph::error::{Error, Place, Result};
use eciton_graph::labels::{Labels, MAX_CLASSES, Values};
use eciton_graph::split::NO_LABEL;

use super::array::{Array, Element};

/// Labels from whole numbers: -1 is none, the number of classes is one more than the highest.
///
/// # Errors
/// [`Error::LabelRange`] with the row for any other negative number or one of [`MAX_CLASSES`] or more.
pub(crate) fn from_numbers(numbers: &[i64], file: &str) -> Result<Labels> {
    let mut labels = Vec::with_capacity(numbers.len());
    for (row, &number) in numbers.iter().enumerate() {
        labels.push(match number {
            -1 => NO_LABEL,
            0.. if number < i64::from(MAX_CLASSES) => number as u32,
            _ => {
                return Err(Error::LabelRange {
                    place: Place::row(file, row as u64),
                    label: number,
                    classes: u64::from(MAX_CLASSES),
                });
            }
        });
    }
    let classes = labels.iter().filter(|&&l| l != NO_LABEL).max().map_or(0, |&l| l + 1);
    Ok(Labels::classes(labels, classes))
}

/// Labels from an array: of whole numbers as [`from_numbers`], of floats as [`from_floats`]; of several
/// columns as [`from_columns`].
///
/// # Errors
/// [`Error::Malformed`] and [`Error::LabelRange`] with the row.
pub(crate) fn from_array(array: &Array<'_>) -> Result<Labels> {
    match (array.columns(), array.element) {
        (1, Element::Float(_)) => from_floats(array.to_f32()?, &array.file),
        (1, _) => from_numbers(&array.to_i64()?, &array.file),
        // More columns than fit are too many in any case.
        (columns, _) => {
            from_columns(u32::try_from(columns).unwrap_or(u32::MAX), array.to_f32()?, &array.file)
        }
    }
}

/// Labels from one column of floats: classes as [`from_numbers`] has them where all are whole and none is
/// negative but -1, else numbers. NaN is unknown.
pub(crate) fn from_floats(values: Vec<f32>, file: &str) -> Result<Labels> {
    if values.iter().any(|&value| is_measured(value) || value.is_infinite()) {
        return Ok(Labels::Numbers(Values::named(1, values, file)?));
    }
    let class = |&value: &f32| if value.is_nan() { -1 } else { value as i64 };
    from_numbers(&values.iter().map(class).collect::<Vec<_>>(), file)
}

/// Labels from several columns: flags where all are 0, 1 or NaN, else numbers.
pub(crate) fn from_columns(columns: u32, values: Vec<f32>, file: &str) -> Result<Labels> {
    Ok(Labels::of_values(Values::named(columns, values, file)?))
}

/// Whether a number can be no class: it has a fraction, or is negative and not -1.
pub(crate) fn is_measured(value: f32) -> bool {
    value.is_finite() && (value.fract() != 0.0 || (value < 0.0 && value != -1.0))
}

/// Labels from whole numbers whose values are names only: classes are the distinct numbers in
/// ascending order; -1 is none.
pub(crate) fn from_distinct(numbers: &[i64], file: &str) -> Result<Labels> {
    let mut known: Vec<i64> = numbers.iter().copied().filter(|&n| n != -1).collect();
    known.sort_unstable();
    known.dedup();
    if known.len() as u64 > u64::from(MAX_CLASSES) {
        return Err(Error::Limit {
            place: Place::whole(file),
            limit: "classes",
            unit: "classes",
            allowed: u64::from(MAX_CLASSES),
            found: known.len() as u64,
            remedy: "these look like ids or measurements, not classes",
        });
    }
    let label = |n: &i64| known.binary_search(n).map_or(NO_LABEL, |at| at as u32);
    Ok(Labels::classes(numbers.iter().map(label).collect(), known.len() as u32))
}

/// The class of each row of `columns` scores: the first highest, as NumPy's argmax; a row of zeros
/// is class 0, as the published loaders have it.
pub(crate) fn from_one_hot(rows: &[f32], columns: usize) -> Vec<u32> {
    let class = |row: &[f32]| eciton_graph::metrics::best(row).unwrap_or(0) as u32;
    rows.chunks_exact(columns.max(1)).map(class).collect()
}

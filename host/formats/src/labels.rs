//! Conversion of label values to classes, Boolean labels or numbers.

use eciton_graph::error::{Error, Place, Result};
use eciton_graph::expected::Expected;
use eciton_graph::labels::{Labels, MAX_CLASSES, SIGN_CLASSES, Values};
use eciton_graph::split::NO_LABEL;

use super::array::{Array, Element};

/// Marker of a missing label in a list of integers.
pub(crate) const MISSING: i64 = i64::MIN;

/// Labels with the names of their classes. The list of names is empty if the classes have none.
pub(crate) type Named = (Labels, Vec<String>);

/// Converts integers to labels. Integers that are all -1 or 1 become two classes. Otherwise each
/// integer is the index of a class, and -1 means that there is no label. If an integer is
/// [`MAX_CLASSES`] or more, all labels are numbers to predict instead of classes.
///
/// # Errors
/// Returns [`Error::LabelRange`] with the row if there is another negative integer.
pub(crate) fn from_numbers(numbers: &[i64], file: &str) -> Result<Named> {
    if let Some(signs) = signs(numbers, file) {
        return Ok(signs);
    }
    if let Some(&most) = numbers.iter().max().filter(|&&most| most >= i64::from(MAX_CLASSES)) {
        eciton_input::notes::warn(format!(
            "{file}: labels were read as numbers to be predicted, for {most} is above the limit of {MAX_CLASSES} \
             classes; write classes as words, or number them from 0"
        ));
        let value = |&number: &i64| if number == MISSING { f32::NAN } else { number as f32 };
        let values = numbers.iter().map(value).collect();
        return Ok((Labels::Numbers(Values::named(1, values, file)?), Vec::new()));
    }
    Ok((numbered(numbers, file)?, Vec::new()))
}

/// Converts integers to classes with the same indices. -1 means that there is no label.
///
/// # Errors
/// Returns [`Error::LabelRange`] with the row for other negative integers, and for integers of
/// [`MAX_CLASSES`] or more.
pub(crate) fn numbered(numbers: &[i64], file: &str) -> Result<Labels> {
    let mut labels = Vec::with_capacity(numbers.len());
    for (row, &number) in numbers.iter().enumerate() {
        labels.push(match number {
            -1 | MISSING => NO_LABEL,
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
    report_minus_one(numbers, file);
    let classes = labels.iter().filter(|&&l| l != NO_LABEL).max().map_or(0, |&l| l + 1);
    Ok(Labels::classes(labels, classes))
}

/// Adds the number of labels that are -1 to the reading report.
fn report_minus_one(numbers: &[i64], file: &str) {
    let count = numbers.iter().filter(|&&number| number == -1).count();
    if count > 0 {
        eciton_input::notes::fact(format!("{file}: {count} labels are -1, which means no label"));
    }
}

/// Converts labels that are all -1 or 1 to the two classes `-1` and `1`. Returns `None` for other
/// labels.
fn signs(numbers: &[i64], file: &str) -> Option<Named> {
    let known = numbers.iter().map(|&number| (number != MISSING).then_some(number));
    let labels = Labels::from_signs(known)?;
    eciton_input::notes::add(format!(
        "{file}: labels that are all -1 or 1 were read as two classes; leave rows without a label empty, or \
         write classes from 0, if -1 means no label"
    ));
    Some((labels, SIGN_CLASSES.map(str::to_owned).to_vec()))
}

/// Converts an array to labels. A single column of integers is converted by [`from_numbers`] and of
/// floats by [`from_floats`]. Several columns are converted by [`from_columns`].
///
/// # Errors
/// Returns [`Error::Malformed`] or [`Error::LabelRange`] with the row of an invalid label.
pub(crate) fn from_array(array: &Array<'_>) -> Result<Named> {
    match (array.columns(), array.element) {
        (1, Element::Float(_)) => from_floats(array.to_f32()?, &array.file),
        (1, _) => from_numbers(&array.to_i64()?, &array.file),
        // A number of columns that does not fit u32 is too large in any case.
        (columns, _) => {
            let columns = u32::try_from(columns).unwrap_or(u32::MAX);
            Ok((from_columns(columns, array.to_f32()?, &array.file)?, Vec::new()))
        }
    }
}

/// Converts an array to labels like [`from_array`], but as a trained model expects them. For
/// classification, integers keep their class indices. For other tasks, labels are always numbers.
///
/// # Errors
/// Returns the errors of [`from_array`].
pub(crate) fn from_array_expecting(array: &Array<'_>, expected: Option<&Expected>) -> Result<Named> {
    match expected {
        Some(expected) if expected.classification && array.columns() == 1 => {
            let numbers = match array.element {
                Element::Float(_) => {
                    let values = array.to_f32()?;
                    if values.iter().any(|&value| is_measured(value)) {
                        return from_array(array);
                    }
                    values.iter().map(|&value| if value.is_nan() { MISSING } else { value as i64 }).collect()
                }
                _ => array.to_i64()?,
            };
            expected_classes(&numbers, expected, &array.file)
        }
        Some(expected) if !expected.classification => {
            let columns = u32::try_from(array.columns()).unwrap_or(u32::MAX);
            let values = array.to_f32()?;
            Ok(match columns {
                1 => (Labels::Numbers(Values::named(1, values, &array.file)?), Vec::new()),
                _ => (from_columns(columns, values, &array.file)?, Vec::new()),
            })
        }
        _ => from_array(array),
    }
}

/// Converts integers to the classes of a trained model. If the classes of the model have names, the
/// integers are such names. Otherwise they are class indices.
pub(crate) fn expected_classes(numbers: &[i64], expected: &Expected, file: &str) -> Result<Named> {
    if expected.numbered_classes() {
        return Ok((numbered(numbers, file)?, Vec::new()));
    }
    let minus_one = expected.classes.iter().any(|name| name == "-1");
    let known = |number: i64| number != MISSING && (number != -1 || minus_one);
    let mut distinct: Vec<i64> = numbers.iter().copied().filter(|&number| known(number)).collect();
    distinct.sort_unstable();
    distinct.dedup();
    check_count(distinct.len(), file)?;
    let class = |&number: &i64| match known(number) {
        true => distinct.binary_search(&number).map_or(NO_LABEL, |at| at as u32),
        false => NO_LABEL,
    };
    let labels = Labels::classes(numbers.iter().map(class).collect(), distinct.len() as u32);
    Ok((labels, distinct.iter().map(i64::to_string).collect()))
}

/// Converts a column of floats to labels. They are classes, converted by [`from_numbers`], if all
/// are integral and none is negative except -1. Otherwise they are numbers. NaN means that there is
/// no label.
pub(crate) fn from_floats(values: Vec<f32>, file: &str) -> Result<Named> {
    if values.iter().any(|&value| is_measured(value) || value.is_infinite()) {
        return Ok((Labels::Numbers(Values::named(1, values, file)?), Vec::new()));
    }
    let class = |&value: &f32| if value.is_nan() { MISSING } else { value as i64 };
    from_numbers(&values.iter().map(class).collect::<Vec<_>>(), file)
}

/// Converts several columns to labels. They are Boolean labels if all values are 0, 1 or NaN, and
/// numbers otherwise.
pub(crate) fn from_columns(columns: u32, values: Vec<f32>, file: &str) -> Result<Labels> {
    Ok(Labels::of_values(Values::named(columns, values, file)?))
}

/// Returns whether a number cannot be a class, because it has a fraction, or is negative and not
/// -1.
pub(crate) fn is_measured(value: f32) -> bool {
    value.is_finite() && (value.fract() != 0.0 || (value < 0.0 && value != -1.0))
}

/// Converts integers that are arbitrary names to classes, which are numbered in ascending order. -1
/// means that there is no label, unless all labels are -1 or 1.
pub(crate) fn from_distinct(numbers: &[i64], file: &str) -> Result<Named> {
    if let Some(signs) = signs(numbers, file) {
        return Ok(signs);
    }
    let mut known: Vec<i64> = numbers.iter().copied().filter(|&n| n != -1).collect();
    known.sort_unstable();
    known.dedup();
    check_count(known.len(), file)?;
    report_minus_one(numbers, file);
    let label = |n: &i64| known.binary_search(n).map_or(NO_LABEL, |at| at as u32);
    Ok((Labels::classes(numbers.iter().map(label).collect(), known.len() as u32), Vec::new()))
}

/// Checks that the number of classes is at most [`MAX_CLASSES`].
fn check_count(classes: usize, file: &str) -> Result<()> {
    if classes as u64 <= u64::from(MAX_CLASSES) {
        return Ok(());
    }
    Err(Error::Limit {
        place: Place::whole(file),
        limit: "classes",
        unit: "classes",
        allowed: u64::from(MAX_CLASSES),
        found: classes as u64,
        remedy: "these look like ids or measurements, not classes",
    })
}

/// Returns the class of each row of `columns` scores, which is the index of the first maximum, as
/// in NumPy's argmax. A row of zeros is class 0, as in the loaders of the publications.
pub(crate) fn from_one_hot(rows: &[f32], columns: usize) -> Vec<u32> {
    let class = |row: &[f32]| eciton_graph::metrics::best(row).unwrap_or(0) as u32;
    rows.chunks_exact(columns.max(1)).map(class).collect()
}

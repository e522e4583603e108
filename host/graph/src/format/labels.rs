//! Labels as files write them, turned into classes.

use crate::error::{Error, Place, Result};
use crate::split::NO_LABEL;

/// The most classes of a data set.
pub const MAX_CLASSES: u32 = 1 << 20;

/// Labels from whole numbers: -1 is none, the number of classes is one more than the highest.
///
/// # Errors
/// [`Error::LabelRange`] with the row for any other negative number or one of [`MAX_CLASSES`] or more.
pub(crate) fn from_numbers(numbers: &[i64], file: &str) -> Result<(Vec<u32>, u32)> {
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
    Ok((labels, classes))
}

/// Labels from whole numbers whose values are names only: classes are the distinct numbers in
/// ascending order; -1 is none.
pub(crate) fn from_distinct(numbers: &[i64], file: &str) -> Result<(Vec<u32>, u32)> {
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
    Ok((numbers.iter().map(label).collect(), known.len() as u32))
}

/// The class of each row of `columns` scores: the first highest, as NumPy's argmax; a row of zeros
/// is class 0, as the published loaders have it.
pub(crate) fn from_one_hot(rows: &[f32], columns: usize) -> Vec<u32> {
    let class = |row: &[f32]| crate::metrics::best(row).unwrap_or(0) as u32;
    rows.chunks_exact(columns.max(1)).map(class).collect()
}

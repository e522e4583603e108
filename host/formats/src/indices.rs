//! Arrays that select the rows of one part of a split, as row numbers or as a Boolean mask.

use eciton_graph::error::{Error, Place, Result};

use crate::array::{Array, Element};

/// Returns the row numbers of one part of a split. The array contains these numbers, or is a
/// Boolean mask over all `rows` rows.
///
/// # Errors
/// Returns [`Error::Malformed`] if the array is a mask of 0 and 1 that is not Boolean. Returns
/// [`Error::Mismatch`] if a mask has the wrong length.
pub(crate) fn rows_of(array: &Array<'_>, rows: usize) -> Result<Vec<u32>> {
    array.expect_axes(1, "row numbers, or a mask of booleans [rows]")?;
    if array.element != Element::Bool {
        let numbers = array.to_u32()?;
        refuse_mask(&numbers, rows, &array.file)?;
        eciton_input::notes::fact(format!("{}: {} row numbers", array.file, numbers.len()));
        return Ok(numbers);
    }
    let flags = array.to_bool()?;
    if flags.len() != rows {
        return Err(Error::Mismatch {
            place: Place::whole(&array.file),
            what: "flags of a mask",
            found: flags.len() as u64,
            expected: rows as u64,
            other: "the labels".to_owned(),
        });
    }
    let count = flags.iter().filter(|holds| **holds).count();
    eciton_input::notes::fact(format!(
        "{}: a mask of booleans that holds for {count} of {rows} rows",
        array.file
    ));
    Ok((0..).zip(flags).filter_map(|(row, holds)| holds.then_some(row)).collect())
}

/// Checks that an array of row numbers is not actually a mask of 0 and 1.
///
/// # Errors
/// Returns [`Error::Malformed`] if all numbers are 0 or 1 and some of them repeat. Row numbers
/// never repeat.
pub(crate) fn refuse_mask(numbers: &[u32], rows: usize, file: &str) -> Result<()> {
    let ones = numbers.iter().filter(|&&number| number == 1).count();
    let zeros = numbers.iter().filter(|&&number| number == 0).count();
    if zeros + ones < numbers.len() || (zeros <= 1 && ones <= usize::from(rows > 1)) {
        return Ok(());
    }
    let length = if numbers.len() == rows { ", one value per row" } else { "" };
    Err(Error::Malformed {
        place: Place::whole(file),
        expected: "the row numbers of this part of the split, each once".to_owned(),
        found: format!("a mask: {zeros} times 0 and {ones} times 1{length}"),
        remedy: "write numpy.flatnonzero(mask), or the mask as booleans: mask.astype(bool)",
    })
}

#[cfg(test)]
mod tests {
    use eciton_graph::random::SplitMix64;

    use super::*;

    #[test]
    fn a_mask_is_told_from_row_numbers() {
        for (numbers, rows, mask) in [
            (&[0, 1][..], 2, false),
            (&[1, 0], 9, false),
            (&[0], 1, false),
            (&[1], 1, true),
            (&[1], 2, false),
            (&[0, 0], 2, true),
            (&[1, 1], 2, true),
            (&[], 3, false),
            (&[0, 1, 2], 3, false),
            (&[0, 0, 1], 3, true),
            (&[0, 0, 1], 30, true),
        ] {
            assert_eq!(refuse_mask(numbers, rows, "train.npy").is_err(), mask, "{numbers:?} of {rows}");
        }
    }

    #[test]
    fn random_masks_are_refused_and_their_row_numbers_are_not() {
        let seed = 43;
        println!("seed {seed}");
        let mut random = SplitMix64::new(seed);
        for _ in 0..200 {
            let rows = 3 + random.below(40) as usize;
            let mask: Vec<u32> = (0..rows).map(|_| random.below(2) as u32).collect();
            assert!(refuse_mask(&mask, rows, "train.npy").is_err(), "{mask:?}");
            let numbers: Vec<u32> =
                (0..).zip(&mask).filter(|(_, flag)| **flag == 1).map(|(row, _)| row).collect();
            assert!(refuse_mask(&numbers, rows, "train.npy").is_ok(), "{numbers:?}");
        }
    }
}

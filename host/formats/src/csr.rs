//! SciPy's compressed sparse rows (CSR), which several layouts store as three arrays and a shape.

use eciton_graph::adjacency::offsets_fault;
use eciton_graph::error::{Error, Place, Result};
use eciton_graph::features::SparseRows;

use super::array::Array;

/// Compressed sparse rows (CSR) as stored in a file. Columns may be unsorted and repeated, and
/// values may be 0.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) columns: u32,
    pub(crate) offsets: Vec<u64>,
    pub(crate) indices: Vec<u32>,
    pub(crate) values: Vec<f32>,
    /// Rounding error of each value's conversion to f32. `None` if f32 represents all values
    /// exactly.
    residuals: Option<Vec<f64>>,
    /// Name of the file for error messages.
    file: String,
}

impl Stored {
    /// Returns the number of rows of the sparse matrix.
    pub(crate) fn rows(&self) -> u64 {
        self.offsets.len() as u64 - 1
    }

    /// Returns the row and column of every stored entry, in the order of the values.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (u32, u32)> + Clone + '_ {
        let rows = (0u32..).zip(self.offsets.windows(2));
        rows.flat_map(|(row, span)| {
            let columns = self.indices.get(span[0] as usize..span[1] as usize).unwrap_or_default();
            columns.iter().map(move |&column| (row, column))
        })
    }

    /// Returns the rows with sorted columns. Repeated entries are added up, and zeros are removed.
    pub(crate) fn sorted(self) -> SparseRows {
        let Self { columns, offsets, indices, values, residuals, file } = &self;
        match residuals {
            None => SparseRows::from_unsorted(*columns, offsets, indices, values),
            Some(residuals) => {
                SparseRows::from_unsorted_exact(*columns, offsets, indices, (values, residuals), file)
            }
        }
    }
}

/// Creates compressed sparse rows from the arrays of a file, after checking that the arrays are
/// consistent.
///
/// # Errors
/// Returns [`Error::Malformed`] if the offsets do not ascend to the number of stored values, or if
/// a column index is out of range.
pub(crate) fn stored(
    file: &str,
    shape: &[i64],
    indptr: &Array<'_>,
    indices: &Array<'_>,
    data: &Array<'_>,
) -> Result<Stored> {
    let wrong = |expected: String, found: String| Error::malformed(Place::whole(file), expected, found);
    let (&[rows, columns], Ok(columns_fit)) = (shape, u32::try_from(shape.get(1).copied().unwrap_or(-1)))
    else {
        return Err(wrong("a shape of two extents below 2^32".into(), format!("{shape:?}")));
    };
    for (array, axes) in [(indptr, "row offsets [rows + 1]"), (indices, "columns [E]"), (data, "values [E]")]
    {
        array.expect_axes(1, axes)?;
    }
    let offsets = indptr.to_u64()?;
    let stored = indices.rows() as u64;
    if rows < 0 || offsets.len() as u64 != rows as u64 + 1 {
        return Err(wrong(format!("{rows} + 1 row offsets"), format!("{}", offsets.len())));
    }
    if let Some(found) = offsets_fault(&offsets, stored) {
        return Err(wrong(format!("row offsets that ascend from 0 to {stored}"), found));
    }
    let (indices, values) = (indices.to_u32()?, data.to_f32()?);
    if values.len() != indices.len() {
        return Err(wrong(format!("{} values", indices.len()), format!("{}", values.len())));
    }
    if let Some(at) = indices.iter().position(|&c| i64::from(c) >= columns) {
        let row = offsets.partition_point(|&o| o <= at as u64).saturating_sub(1);
        return Err(Error::malformed(
            Place::row(file, row as u64),
            format!("columns below {columns}"),
            format!("column {}", indices[at]),
        ));
    }
    let residuals = data.residuals()?;
    Ok(Stored { columns: columns_fit, offsets, indices, values, residuals, file: file.to_owned() })
}

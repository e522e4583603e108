//! Source rows of a gather, in one or more pieces of memory.

use std::ops::Range;

use eciton_tensor::View;
use eciton_tensor::half::HalfView;

use crate::error::{Error, Place, Result};

/// Maximum number of pieces that the source rows of a gather may have.
pub const MAX_PIECES: usize = 4096;

/// Read-only rows in one piece of memory, which are f32 or bfloat16.
#[derive(Debug, Clone, Copy)]
pub enum Rows<'a> {
    /// Rows of f32 values.
    F32(View<'a>),
    /// Rows of bfloat16 values, which are converted to f32 when they are read.
    Bf16(HalfView<'a>),
}

impl<'a> From<View<'a>> for Rows<'a> {
    fn from(rows: View<'a>) -> Self {
        Self::F32(rows)
    }
}

impl<'a> From<HalfView<'a>> for Rows<'a> {
    fn from(rows: HalfView<'a>) -> Self {
        Self::Bf16(rows)
    }
}

/// Dimensions of rows in memory, in units of values unless stated otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extents {
    pub rows: usize,
    pub columns: usize,
    /// Number of values between the starts of consecutive rows.
    pub stride: usize,
    /// Number of readable values per row. It includes padding if all rows have it.
    pub read: usize,
    pub value_bytes: usize,
}

impl Rows<'_> {
    pub(super) fn extents(&self) -> Extents {
        let (rows, columns, stride, len, value_bytes) = match self {
            Self::F32(x) => (x.rows(), x.columns(), x.stride(), x.data().len(), 4),
            Self::Bf16(x) => (x.rows(), x.columns(), x.stride(), x.data().len(), 2),
        };
        Extents { rows, columns, stride, read: readable(rows, columns, stride, len), value_bytes }
    }
}

/// Returns the number of readable values per row, for `rows` rows in a slice of `len` values. It is
/// the stride if the last row has padding too, and otherwise the number of columns.
pub(super) fn readable(rows: usize, columns: usize, stride: usize, len: usize) -> usize {
    assert!(rows == 0 || columns <= stride && (rows - 1) * stride + columns <= len, "rows end early");
    if len >= rows * stride { stride } else { columns }
}

/// All source rows of a gather. They are in one piece ([`Rows`], a [`View`], a [`HalfView`]) or in
/// several pieces.
///
/// ```
/// use eciton_gather::Sources;
/// use eciton_tensor::View;
/// let (old, new) = ([1.0, 2.0], [3.0]);
/// let pieces = [(0..2, View::new(&old, 2, 1).into()), (2..3, View::new(&new, 1, 1).into())];
/// let sources = Sources::pieces(3, &pieces)?;
/// # Ok::<(), eciton_gather::error::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Sources<'a> {
    pub(super) held: Held<'a>,
    /// Dimensions of all rows. Padding counts as readable if the rows of all pieces have it.
    pub(super) extents: Extents,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Held<'a> {
    One(Rows<'a>),
    /// At least two pieces, whose ranges and dimensions have been checked.
    Pieces(&'a [(Range<usize>, Rows<'a>)]),
}

impl<'a, R: Into<Rows<'a>>> From<R> for Sources<'a> {
    fn from(rows: R) -> Self {
        let rows = rows.into();
        Self { held: Held::One(rows), extents: rows.extents() }
    }
}

impl<'a> Sources<'a> {
    /// Creates the source rows `0..vertices` from pieces. Each piece is a range of rows and the
    /// memory that contains them, which starts with the first row of the range. There are at most
    /// [`MAX_PIECES`] pieces, and fewer are faster. Adjacent ranges in one buffer should be one
    /// piece.
    ///
    /// # Errors
    /// Returns [`Error::Limit`] for too many pieces. Returns [`Error::Malformed`] if there is no
    /// piece, or if ranges leave a gap, overlap or end elsewhere than at `vertices`. Returns
    /// [`Error::Mismatch`] if a piece has another number of rows than its range, or other columns,
    /// stride or type than the first piece.
    pub fn pieces(vertices: usize, pieces: &'a [(Range<usize>, Rows<'a>)]) -> Result<Self> {
        const WHAT: &str = "pieces of source rows";
        if pieces.len() > MAX_PIECES {
            return Err(Error::Limit {
                place: Place::whole(WHAT),
                limit: "MAX_PIECES",
                unit: "pieces",
                allowed: MAX_PIECES as u64,
                found: pieces.len() as u64,
                remedy: "copy the rows into fewer buffers",
            });
        }
        let uncovered = |expected: String, found: String, at: usize| Error::Malformed {
            place: Place::row(WHAT, at as u64),
            expected,
            found,
            remedy: "give ranges that cover all rows in order, without gaps",
        };
        let Some((_, first)) = pieces.first() else {
            return Err(uncovered("at least one piece".to_owned(), "none".to_owned(), 0));
        };
        let expected = first.extents();
        let mut read = expected.read;
        let mut next = 0;
        for (range, rows) in pieces {
            if range.start != next || range.end < range.start || range.end > vertices {
                let expected = format!("a range from {next} to at most {vertices}");
                return Err(uncovered(expected, format!("{range:?}"), next));
            }
            let found = rows.extents();
            let mismatch = |what, found: usize, expected: usize, other: &str| match found == expected {
                true => Ok(()),
                false => Err(Error::Mismatch {
                    place: Place::row(WHAT, range.start as u64),
                    what,
                    found: found as u64,
                    expected: expected as u64,
                    other: other.to_owned(),
                }),
            };
            mismatch("rows", found.rows, range.len(), "the range")?;
            mismatch("columns", found.columns, expected.columns, "the first piece")?;
            mismatch("values of stride", found.stride, expected.stride, "the first piece")?;
            mismatch("bytes of a value", found.value_bytes, expected.value_bytes, "the first piece")?;
            next = range.end;
            read = read.min(found.read);
        }
        if next != vertices {
            return Err(uncovered(format!("rows up to {vertices}"), format!("an end at {next}"), next));
        }
        let held = match pieces {
            [(_, all)] => Held::One(*all),
            _ => Held::Pieces(pieces),
        };
        Ok(Self { held, extents: Extents { rows: vertices, read, ..expected } })
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.extents.rows
    }

    /// Returns the number of values per row.
    pub fn columns(&self) -> usize {
        self.extents.columns
    }

    /// Returns true if the values are f32, false if they are bfloat16.
    pub fn is_f32(&self) -> bool {
        self.extents.value_bytes == 4
    }

    /// Returns the f32 row with index `at`, or an empty slice if the rows are bfloat16.
    #[inline(always)]
    pub fn row(&self, at: usize) -> &'a [f32] {
        let found = match self.held {
            Held::One(Rows::F32(x)) => Some(x.row(at)),
            Held::Pieces(all) => {
                let piece = all.get(all.partition_point(|(range, _)| range.end <= at));
                piece.and_then(|(range, rows)| match rows {
                    Rows::F32(x) => Some(x.row(at - range.start)),
                    Rows::Bf16(_) => None,
                })
            }
            Held::One(Rows::Bf16(_)) => None,
        };
        found.unwrap_or(&[])
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;
    use eciton_tensor::Buffer;
    use eciton_tensor::half::HalfBuffer;

    fn piece(range: Range<usize>, data: &[f32], columns: usize) -> (Range<usize>, Rows<'_>) {
        let rows = range.len();
        (range, View::new(data, rows, columns).into())
    }

    #[test]
    fn pieces_that_do_not_cover_all_rows_in_order_are_refused() {
        let data = [0.0; 20];
        let piece = |range| piece(range, &data, 2);
        assert!(Sources::pieces(5, &[piece(0..3), piece(3..3), piece(3..5)]).is_ok());
        assert!(matches!(Sources::pieces(5, &[piece(0..5)]).unwrap().held, Held::One(_)));
        assert!(Sources::pieces(0, &[piece(0..0)]).is_ok());
        let gap = [piece(0..2), piece(3..5)];
        let overlap = [piece(0..3), piece(2..5)];
        let disorder = [piece(2..5), piece(0..2)];
        let (short, long) = ([piece(0..2), piece(2..4)], [piece(0..2), piece(2..6)]);
        for wrong in [&[][..], &gap, &overlap, &disorder, &short, &long] {
            let error = Sources::pieces(5, wrong).unwrap_err();
            assert!(matches!(error, Error::Malformed { .. }), "{error}");
        }
    }

    #[test]
    #[allow(clippy::reversed_empty_ranges)]
    fn pieces_that_differ_from_their_range_or_the_first_are_refused() {
        let data = [0.0; 20];
        let rows = |rows, columns| View::new(&data, rows, columns).into();
        let padded = Buffer::zeroed(3, 2).unwrap();
        let padded = padded.read(0..3).unwrap();
        for wrong in [(2..5, rows(2, 2)), (2..5, rows(3, 3)), (2..5, padded.view().into())] {
            let error = Sources::pieces(5, &[(0..2, rows(2, 2)), wrong]).unwrap_err();
            assert!(matches!(error, Error::Mismatch { .. }), "{error}");
        }
        let (wide, half) = (Buffer::zeroed(2, 32).unwrap(), HalfBuffer::zeroed(3, 32).unwrap());
        let (wide, half) = (wide.read(0..2).unwrap(), half.read(0..3).unwrap());
        let mixed = [(0..2, wide.view().into()), (2..5, half.view().into())];
        let error = Sources::pieces(5, &mixed);
        assert!(matches!(error, Err(Error::Mismatch { what: "bytes of a value", .. })), "{error:?}");
        let backwards = [(0..2, rows(2, 2)), (2..1, rows(0, 2)), (1..5, rows(4, 2))];
        assert!(matches!(Sources::pieces(5, &backwards), Err(Error::Malformed { .. })));
    }

    #[test]
    fn as_many_pieces_as_the_limit_and_no_more() {
        let data = [0.0];
        let pieces: Vec<_> = (0..=MAX_PIECES).map(|at| piece(at..at + 1, &data, 1)).collect();
        assert!(Sources::pieces(MAX_PIECES, &pieces[..MAX_PIECES]).is_ok());
        let error = Sources::pieces(MAX_PIECES + 1, &pieces).unwrap_err();
        assert!(matches!(error, Error::Limit { found: 4097, allowed: 4096, .. }), "{error}");
    }

    #[test]
    fn padding_is_read_where_every_piece_has_it() {
        let data = [0.0; 64];
        let whole = Buffer::zeroed(3, 5).unwrap();
        let whole = whole.read(0..3).unwrap();
        let stride = whole.view().stride();
        let cut = whole.view().columns_from(0, 3);
        // The last row of a view of later columns lacks padding.
        let late = whole.view().columns_from(2, 3);
        let read = |pieces: &[(Range<usize>, Rows<'_>)]| Sources::pieces(6, pieces).unwrap().extents.read;
        assert_eq!(read(&[(0..3, cut.into()), (3..6, cut.into())]), stride);
        assert_eq!(read(&[(0..3, cut.into()), (3..6, late.into())]), 3);
        assert_eq!(read(&[piece(0..3, &data, 3), piece(3..6, &data, 3)]), 3);
    }
}

//! Output buffers of a task, with records of the rows that the kernel has written.

use std::ops::Range;

use eciton_tensor::half::WriteHalf;
use eciton_tensor::{Buffer, ViewMut, WriteRows};

/// Set of rows that have been written, as sorted and disjoint ranges.
#[derive(Debug, Default, Clone)]
pub(crate) struct Coverage(Vec<Range<usize>>);

impl Coverage {
    /// Adds a range of rows to the set.
    pub(crate) fn add(&mut self, rows: Range<usize>) {
        if rows.is_empty() {
            return;
        }
        let first = self.0.partition_point(|r| r.end < rows.start);
        let last = self.0.partition_point(|r| r.start <= rows.end);
        let mut merged = rows;
        if first < last {
            merged.start = merged.start.min(self.0[first].start);
            merged.end = merged.end.max(self.0[last - 1].end);
        }
        self.0.splice(first..last, [merged]);
    }

    /// Returns the first range among the first `count` rows that has not been written, or `None`.
    pub(crate) fn missing(&self, count: usize) -> Option<Range<usize>> {
        let mut next = 0;
        for r in &self.0 {
            if r.start > next {
                return Some(next..r.start);
            }
            next = r.end;
        }
        (next < count).then_some(next..count)
    }
}

/// Layout in which a kernel sees the rows of an output. The view may have longer or shorter rows
/// than the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Laid {
    AsTheyAre,
    /// Each row is split into N rows of the view.
    Split(u32),
    /// N consecutive rows form one row of the view.
    Grouped(u32),
}

impl Laid {
    /// Returns the number of rows and columns of the view, for a buffer with `rows` and `columns`.
    pub(crate) fn extents(self, rows: usize, columns: usize) -> (usize, usize) {
        match self {
            Self::AsTheyAre => (rows, columns),
            Self::Split(t) => (rows * t as usize, columns / t.max(1) as usize),
            Self::Grouped(t) => (rows / t.max(1) as usize, columns * t as usize),
        }
    }

    /// Returns a view of `rows` in this layout. If the rows are not contiguous in memory, the view
    /// shows a copy in `copy`, which the caller writes back with [`put_back`].
    pub(crate) fn seen<'a>(self, rows: &'a mut ViewMut<'_>, copy: &'a mut Option<Vec<f32>>) -> ViewMut<'a> {
        let (count, columns) = self.extents(rows.rows(), rows.columns());
        let view = rows.as_view();
        if self == Self::AsTheyAre || view.relaid(count, columns).is_some() {
            return match self {
                Self::AsTheyAre => rows.slice(0, count),
                _ => ViewMut::new(rows.data_mut(), count, columns),
            };
        }
        let values = (0..view.rows()).flat_map(|i| view.row(i)).copied().collect();
        ViewMut::new(copy.insert(values), count, columns)
    }

    /// Calls `work` with a view of `rows` in this layout.
    pub(crate) fn with<T>(self, rows: &mut ViewMut<'_>, work: impl FnOnce(&mut ViewMut<'_>) -> T) -> T {
        let mut copy = None;
        let result = work(&mut self.seen(rows, &mut copy));
        put_back(copy, rows);
        result
    }
}

/// Copies the values of `copy` back to `rows`, the rows from which they were copied.
pub(crate) fn put_back(copy: Option<Vec<f32>>, rows: &mut ViewMut<'_>) {
    let width = rows.columns().max(1);
    for (i, values) in copy.iter().flat_map(|values| values.chunks_exact(width)).enumerate() {
        rows.row_mut(i).copy_from_slice(values);
    }
}

/// Output buffer of a task, which the kernel writes.
#[derive(Debug)]
pub(crate) enum Place {
    /// Rows of the interval (a contiguous range of vertices), or a scratch matrix.
    Rows {
        rows: WriteRows,
        count: usize,
        extents: Vec<u32>,
        written: Coverage,
        scratch: Option<Buffer>,
        /// Buffer that receives the rows rounded to bfloat16 at the end of the task.
        rounds: Option<WriteHalf>,
    },
    /// Sum over rows, with one buffer per part of the grid.
    Sums { parts: Vec<WriteRows>, shape: Vec<u32>, written: bool },
}

impl Place {
    /// Returns the extents of the output. For rows, the first extent is the number of rows.
    pub(crate) fn shape(&self) -> Vec<u32> {
        match self {
            Self::Rows { count, extents, .. } => {
                std::iter::once(*count as u32).chain(extents.iter().copied()).collect()
            }
            Self::Sums { shape, .. } => shape.clone(),
        }
    }

    /// Returns a description of the values that the kernel did not write, or `None` if it wrote all
    /// of them.
    pub(crate) fn unwritten(&self) -> Option<String> {
        match self {
            Self::Rows { written, count, .. } => written
                .missing(*count)
                .map(|r| format!("rows {}..{} of {count} were never written", r.start, r.end)),
            Self::Sums { written, .. } => (!written).then(|| "it was never written".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_seen_as_others_are_written_in_place_or_put_back() {
        // Rows of 16 values have no padding. Rows of 6 values have padding.
        for columns in [16, 6] {
            let buffer = Buffer::zeroed(4, columns).unwrap();
            let mut lease = buffer.write(0..4).unwrap();
            let mut rows = lease.view_mut();
            Laid::Split(2).with(&mut rows, |seen| {
                assert_eq!((seen.rows(), seen.columns()), (8, columns / 2));
                seen.row_mut(3)[1] = 1.0;
            });
            Laid::Grouped(2).with(&mut rows, |seen| {
                assert_eq!((seen.rows(), seen.columns()), (2, 2 * columns));
                seen.row_mut(1)[columns] = 2.0;
            });
            drop(lease);
            let mut wanted = vec![0.0; 4 * columns];
            (wanted[columns + columns / 2 + 1], wanted[3 * columns]) = (1.0, 2.0);
            assert_eq!(buffer.to_vec().unwrap(), wanted);
        }
    }

    #[test]
    fn coverage_merges() {
        let mut c = Coverage::default();
        for r in [5..7, 0..2, 3..4, 2..3, 9..10] {
            c.add(r);
        }
        assert_eq!(c.missing(10), Some(4..5));
        c.add(1..9);
        assert_eq!(c.missing(10), None);
        assert_eq!(c.missing(11), Some(10..11));
    }
}

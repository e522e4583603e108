//! Places to write, and which of their rows have been written.

use std::ops::Range;

use eciton_tensor::half::WriteHalf;
use eciton_tensor::{Buffer, WriteRows};

/// Rows that have been written, as sorted ranges that do not touch.
#[derive(Debug, Default, Clone)]
pub(crate) struct Coverage(Vec<Range<usize>>);

impl Coverage {
    /// Adds rows.
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

    /// The first rows of `count` that are missing.
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

/// One place to write.
#[derive(Debug)]
pub(crate) enum Place {
    /// Rows of the interval, or scratch.
    Rows {
        rows: WriteRows,
        count: usize,
        extents: Vec<u32>,
        written: Coverage,
        scratch: Option<Buffer>,
        /// Where they go at the end, rounded.
        rounds: Option<WriteHalf>,
    },
    /// A sum over rows.
    Sums { parts: Vec<WriteRows>, shape: Vec<u32>, written: bool },
}

impl Place {
    /// Extents, rows first.
    pub(crate) fn shape(&self) -> Vec<u32> {
        match self {
            Self::Rows { count, extents, .. } => {
                std::iter::once(*count as u32).chain(extents.iter().copied()).collect()
            }
            Self::Sums { shape, .. } => shape.clone(),
        }
    }

    /// What is missing, in words.
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

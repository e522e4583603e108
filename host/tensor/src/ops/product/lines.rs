//! Memory that starts with a cache line.

/// Number of f32 values in a cache line.
const LINE: usize = 16;

/// Memory for f32 values, of which the first one is at the start of a cache line. A register of 16
/// values at a multiple of 16 is then never in two lines, which would take twice the time.
#[derive(Debug, Default)]
pub(crate) struct Lines(Vec<f32>);

impl Lines {
    /// Returns true if there is memory for `len` values.
    pub(super) fn has_space(&self, len: usize) -> bool {
        self.0.len() >= len + LINE
    }

    /// Returns `len` values, whose content is undefined.
    pub(super) fn take(&mut self, len: usize) -> &mut [f32] {
        if !self.has_space(len) {
            // The old values need not be copied.
            self.0 = vec![0.0; len + LINE];
        }
        let first = self.0.as_ptr().align_offset(LINE * size_of::<f32>()).min(LINE);
        &mut self.0[first..first + len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_start_with_a_line_and_are_kept() {
        let mut lines = Lines::default();
        for len in [0, 1, 40, 3, 100_000, 7] {
            let values = lines.take(len);
            assert_eq!((values.len(), values.as_ptr().addr() % 64), (len, 0));
            values.fill(1.0);
            assert!(lines.has_space(len) && lines.take(len).iter().all(|value| *value == 1.0));
        }
    }
}

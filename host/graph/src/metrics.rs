//! How good predictions are.

use crate::split::NO_LABEL;

/// The share of `ids` whose highest score is at their label; 0 where none of them has one.
///
/// `scores` is row-major, row v at `v * stride`, its first `classes` values count (`stride` may be
/// larger than that, for padding). The first of equal scores wins and NaN never does. Vertices
/// without a label are left out; vertices beyond `scores` count as wrong.
pub fn accuracy(scores: &[f32], stride: usize, classes: usize, labels: &[u32], ids: &[u32]) -> f64 {
    let (mut right, mut counted) = (0u64, 0u64);
    for &id in ids {
        let label = labels.get(id as usize).copied().unwrap_or(NO_LABEL);
        if label == NO_LABEL {
            continue;
        }
        counted += 1;
        let from = (id as usize).saturating_mul(stride);
        if let Some(row) = scores.get(from..from.saturating_add(classes)) {
            right += u64::from(best(row) == Some(label as usize));
        }
    }
    if counted == 0 { 0.0 } else { right as f64 / counted as f64 }
}

/// The position of the highest value: the first of equal ones; none where all are NaN.
pub fn best(row: &[f32]) -> Option<usize> {
    let mut found: Option<(usize, f32)> = None;
    for (at, &value) in row.iter().enumerate() {
        if !value.is_nan() && found.is_none_or(|(_, most)| value > most) {
            found = Some((at, value));
        }
    }
    found.map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_the_labelled_rows_only() {
        let scores = [0.1, 0.9, 9.0, 0.8, 0.2, 9.0, 0.5, 0.5, 9.0];
        let labels = [1, 1, 0, NO_LABEL];
        assert_eq!(accuracy(&scores, 3, 2, &labels, &[0, 1, 2, 3]), 2.0 / 3.0);
        assert_eq!(accuracy(&scores, 3, 2, &labels, &[3, 77]), 0.0);
        assert_eq!(accuracy(&scores, 3, 2, &labels, &[]), 0.0);
        assert_eq!(accuracy(&scores[..2], 3, 2, &labels, &[0, 1]), 0.5);
        assert_eq!(accuracy(&scores, usize::MAX, 2, &labels, &[0, 1]), 0.5);
    }

    #[test]
    fn nan_never_wins() {
        assert_eq!(best(&[f32::NAN, -1.0, f32::NEG_INFINITY]), Some(1));
        assert_eq!(best(&[f32::NAN]), None);
    }
}

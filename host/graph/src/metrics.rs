//! Metrics that measure the quality of predicted classes, flags and numbers.

mod tally;
mod terms;

pub use self::tally::{MAX_MATRIX_CLASSES, Tally};
pub use self::terms::{Folded, Terms};
use self::terms::{is_right, overlap};
use crate::labels::{Labels, Values};
pub use crate::links::metrics::{hits_at, mean_reciprocal_rank, pair_area, pair_precision, pair_scores};
use crate::split::NO_LABEL;

/// Returns the fraction of the vertices `ids` whose highest score is that of their label. Returns 0
/// if none of them has a label.
///
/// `scores` is stored row by row. Row v begins at `v * stride`, and its first `classes` values are
/// used. `stride` may be larger because of padding. Of equal scores the first is the highest, and
/// NaN is never the highest. Vertices without a label are left out. Vertices without a row in
/// `scores` count as wrong.
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

/// Returns the index of the highest value, or of the first one if several are equal. Returns `None`
/// if all values are NaN.
pub fn best(row: &[f32]) -> Option<usize> {
    let mut found: Option<(usize, f32)> = None;
    for (at, &value) in row.iter().enumerate() {
        if !value.is_nan() && found.is_none_or(|(_, most)| value > most) {
            found = Some((at, value));
        }
    }
    found.map(|(at, _)| at)
}

/// Returns the fraction of labels that are predicted correctly. For classes it is [`accuracy`]. For
/// flags, a known value is correct if `score > 0` for a true flag, or `score <= 0` for a false one.
/// Scores are logits, and NaN is never correct. Returns `None` for numbers, and if no label of
/// `ids` is known.
///
/// `scores` is stored row by row. Row v begins at `v * stride`, and its first [`Labels::width`]
/// values are used. Rows that are not in `scores` count as NaN.
pub fn accuracy_of(scores: &[f32], stride: usize, labels: &Labels, ids: &[u32]) -> Option<f64> {
    match labels {
        Labels::Classes { of, count } => {
            let known = ids.iter().any(|&id| labels.known(id as usize));
            known.then(|| accuracy(scores, stride, *count as usize, of, ids))
        }
        Labels::Flags(values) => {
            let (mut right, mut known) = (0u64, 0u64);
            each_known(scores, stride, values, ids, |_, score, flag| {
                known += 1;
                right += u64::from(is_right(score, flag));
            });
            (known > 0).then(|| right as f64 / known as f64)
        }
        Labels::Numbers(_) => None,
    }
}

/// Returns the area under the ROC curve. It is the probability that a vertex with a label scores
/// higher than one without it, where equal scores count half. The result is the mean over all
/// columns of flags whose known values include both 0 and 1. For two classes the score is that of
/// the second class minus that of the first. Returns `None` if no column has both values, for any
/// other number of classes, and for numbers.
///
/// `scores` and `ids` are as in [`accuracy_of`], and NaN is the lowest score. This is `rocauc` of
/// the Open Graph Benchmark's evaluators (Hu et al. 2020), the metric of ogbn-proteins. It equals
/// the mean over tasks of scikit-learn's `roc_auc_score`, without unknown labels and without tasks
/// that have only one kind of label.
pub fn roc_auc(scores: &[f32], stride: usize, labels: &Labels, ids: &[u32]) -> Option<f64> {
    ranked(scores, stride, labels, ids, area)
}

/// Returns the average precision, `sum over thresholds n of (R_n - R_(n-1)) P_n`. P and R are the
/// precision and recall of all vertices whose score is at least the n-th highest. Columns, classes
/// and `None` are as in [`roc_auc`].
///
/// This is the mean over columns of scikit-learn's `average_precision_score`, and `ap` of the Open
/// Graph Benchmark's evaluators.
pub fn average_precision(scores: &[f32], stride: usize, labels: &Labels, ids: &[u32]) -> Option<f64> {
    ranked(scores, stride, labels, ids, precision)
}

/// Returns the mean of a ranking metric over all columns of flags, or its value for two classes.
/// The function `measure` computes the metric from pairs of a score's rank key and a flag. The flag
/// is true for positive labels.
fn ranked(
    scores: &[f32],
    stride: usize,
    labels: &Labels,
    ids: &[u32],
    measure: fn(&mut [(u64, bool)]) -> Option<f64>,
) -> Option<f64> {
    let mut ranked = Vec::with_capacity(ids.len());
    match labels {
        Labels::Classes { of, count: 2 } => {
            for &id in ids {
                let class = of.get(id as usize).copied().unwrap_or(NO_LABEL);
                if class != NO_LABEL {
                    let score = |column| f64::from(score_at(scores, stride, id, column));
                    ranked.push((rank_key(score(1) - score(0)), class == 1));
                }
            }
            measure(&mut ranked)
        }
        Labels::Flags(values) => {
            let (mut sum, mut columns) = (0.0, 0u32);
            for column in 0..values.columns() as usize {
                ranked.clear();
                for &id in ids.iter().filter(|&&id| (id as usize) < values.rows()) {
                    let flag = values.row(id as usize)[column];
                    if !flag.is_nan() {
                        let score = score_at(scores, stride, id, column);
                        ranked.push((rank_key(f64::from(score)), flag == 1.0));
                    }
                }
                if let Some(found) = measure(&mut ranked) {
                    sum += found;
                    columns += 1;
                }
            }
            (columns > 0).then(|| sum / f64::from(columns))
        }
        Labels::Classes { .. } | Labels::Numbers(_) => None,
    }
}

/// Returns the micro-averaged F1 score, `2 TP / (2 TP + FP + FN)` over all known values of all
/// columns. A flag is predicted if its logit is above 0. The score is 0 if no flag is true and none
/// is predicted. For classes it equals [`accuracy`]. Returns `None` for numbers, and if no label of
/// `ids` is known.
///
/// `scores` and `ids` are as in [`accuracy_of`]. This is scikit-learn's `f1_score(average="micro",
/// zero_division=0)`, the usual metric of PPI (Hamilton et al. 2017).
pub fn f1_micro(scores: &[f32], stride: usize, labels: &Labels, ids: &[u32]) -> Option<f64> {
    match labels {
        Labels::Classes { .. } => accuracy_of(scores, stride, labels, ids),
        Labels::Flags(values) => {
            let (mut known, mut both, mut either) = (false, 0u64, 0u64);
            each_known(scores, stride, values, ids, |_, score, flag| {
                let [twice, sum] = overlap(score, flag);
                known = true;
                both += u64::from(twice);
                either += u64::from(sum);
            });
            known.then(|| if either == 0 { 0.0 } else { both as f64 / either as f64 })
        }
        Labels::Numbers(_) => None,
    }
}

/// Returns the cross-entropy in nats, which is the mean of `-log softmax(scores)[label]` over the
/// labelled vertices. It is NaN if a score is NaN. Returns `None` if labels are not classes, or if
/// no label of `ids` is known. `scores` and `ids` are as in [`accuracy_of`]. Rows that are not in
/// `scores` count as NaN.
pub fn cross_entropy(scores: &[f32], stride: usize, labels: &Labels, ids: &[u32]) -> Option<f64> {
    let Labels::Classes { of, count } = labels else { return None };
    let (mut sum, mut counted) = (0.0, 0u64);
    for &id in ids {
        let label = of.get(id as usize).copied().filter(|&label| label != NO_LABEL);
        let Some(label) = label else { continue };
        counted += 1;
        let from = (id as usize).saturating_mul(stride);
        let row = scores.get(from..from.saturating_add(*count as usize)).unwrap_or_default();
        sum += f64::from(loss(row, label));
    }
    (counted > 0).then(|| sum / counted as f64)
}

/// Returns the loss `-log softmax(row)[label]` in nats. It is NaN if a score is NaN or if the row
/// has no score for the label.
fn loss(row: &[f32], label: u32) -> f32 {
    let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let total: f32 = row.iter().map(|&score| (score - most).exp()).sum();
    let own = row.get(label as usize).map_or(f32::NAN, |&score| score - most);
    total.ln() - own
}

/// Returns the mean absolute error of scores over all known numbers of all columns. It is NaN if a
/// score is NaN. Returns `None` if labels are not numbers, or if no value of `ids` is known.
/// `scores` and `ids` are as in [`accuracy_of`].
pub fn mean_absolute_error(scores: &[f32], stride: usize, labels: &Labels, ids: &[u32]) -> Option<f64> {
    mean_of(scores, stride, labels, ids, f64::abs)
}

/// Returns the root mean squared error of scores over all known numbers of all columns. It is NaN
/// if a score is NaN. Returns `None` if labels are not numbers, or if no value of `ids` is known.
/// `scores` and `ids` are as in [`accuracy_of`].
pub fn root_mean_squared_error(scores: &[f32], stride: usize, labels: &Labels, ids: &[u32]) -> Option<f64> {
    mean_of(scores, stride, labels, ids, |difference| difference * difference).map(f64::sqrt)
}

/// Returns the mean of `of(difference)` over the differences between scores and known numbers.
/// Returns `None` if labels are not numbers, or if no value of `ids` is known.
fn mean_of(
    scores: &[f32],
    stride: usize,
    labels: &Labels,
    ids: &[u32],
    of: impl Fn(f64) -> f64,
) -> Option<f64> {
    let Labels::Numbers(values) = labels else { return None };
    let (mut sum, mut known) = (0.0, 0u64);
    each_known(scores, stride, values, ids, |_, score, number| {
        known += 1;
        sum += of(f64::from(score) - f64::from(number));
    });
    (known > 0).then(|| sum / known as f64)
}

/// Returns the F1 score averaged over classes, as defined by [`Tally::f1_macro`]. `scores` and
/// `ids` are as in [`accuracy_of`].
pub fn f1_macro(scores: &[f32], stride: usize, labels: &Labels, ids: &[u32]) -> Option<f64> {
    Tally::from_scores(scores, stride, labels, ids)?.f1_macro()
}

/// Returns the recall averaged over classes, as defined by [`Tally::balanced_accuracy`]. `scores`
/// and `ids` are as in [`accuracy_of`].
pub fn balanced_accuracy(scores: &[f32], stride: usize, labels: &Labels, ids: &[u32]) -> Option<f64> {
    Tally::from_scores(scores, stride, labels, ids)?.balanced_accuracy()
}

/// Calls `each` with the column, score and value of every known label value of the vertices `ids`.
fn each_known(
    scores: &[f32],
    stride: usize,
    values: &Values,
    ids: &[u32],
    mut each: impl FnMut(usize, f32, f32),
) {
    for &id in ids.iter().filter(|&&id| (id as usize) < values.rows()) {
        for (column, &value) in values.row(id as usize).iter().enumerate() {
            if !value.is_nan() {
                each(column, score_at(scores, stride, id, column), value);
            }
        }
    }
}

/// Returns the score of the vertex `id` in a column, or NaN if `scores` does not contain it.
fn score_at(scores: &[f32], stride: usize, id: u32, column: usize) -> f32 {
    let at = (id as usize).saturating_mul(stride).saturating_add(column);
    scores.get(at).copied().unwrap_or(f32::NAN)
}

/// Maps a score to an integer with the same order. NaN becomes the lowest one, and both zeros are
/// equal.
pub(crate) fn rank_key(score: f64) -> u64 {
    if score.is_nan() {
        return 0;
    }
    let bits = (score + 0.0).to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

/// Returns the area under the ROC curve. `ranked` contains rank keys with true for positive
/// entries. Equal ranks count half. Returns `None` without positive or without negative entries.
pub(crate) fn area(ranked: &mut [(u64, bool)]) -> Option<f64> {
    ranked.sort_unstable_by_key(|&(key, _)| key);
    // Counts halves of pairs, so that all sums are exact.
    let (mut halves, mut below, mut positives) = (0u128, 0u64, 0u64);
    for equal in ranked.chunk_by(|a, b| a.0 == b.0) {
        let holds = equal.iter().filter(|(_, holds)| *holds).count() as u64;
        let not = equal.len() as u64 - holds;
        halves += u128::from(holds) * u128::from(2 * below + not);
        below += not;
        positives += holds;
    }
    let pairs = u128::from(positives) * u128::from(below);
    (pairs > 0).then(|| halves as f64 / 2.0 / pairs as f64)
}

/// Returns the average precision. `ranked` contains rank keys with true for positive entries. Equal
/// ranks share a threshold. Returns `None` without positive or without negative entries.
pub(crate) fn precision(ranked: &mut [(u64, bool)]) -> Option<f64> {
    ranked.sort_unstable_by_key(|&(key, _)| std::cmp::Reverse(key));
    let (mut sum, mut above, mut positives) = (0.0, 0usize, 0usize);
    for equal in ranked.chunk_by(|a, b| a.0 == b.0) {
        let holds = equal.iter().filter(|(_, holds)| *holds).count();
        above += equal.len();
        positives += holds;
        sum += holds as f64 * positives as f64 / above as f64;
    }
    (positives > 0 && positives < above).then(|| sum / positives as f64)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::random::SplitMix64;

    const NAN: f32 = f32::NAN;

    fn flags(columns: u32, of: &[f32]) -> Labels {
        Labels::Flags(Values::new(columns, of.to_vec()).unwrap())
    }

    fn numbers(columns: u32, of: &[f32]) -> Labels {
        Labels::Numbers(Values::new(columns, of.to_vec()).unwrap())
    }

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

    /// Computes the area under the ROC curve by its definition, over all pairs.
    fn area_by_pairs(scores: &[f64], holds: &[bool]) -> Option<f64> {
        let (mut sum, mut pairs) = (0.0, 0u64);
        for (a, _) in scores.iter().zip(holds).filter(|(_, holds)| **holds) {
            for (b, _) in scores.iter().zip(holds).filter(|(_, holds)| !**holds) {
                pairs += 1;
                sum += match (a.is_nan(), b.is_nan()) {
                    (true, true) => 0.5,
                    (true, false) => 0.0,
                    (false, true) => 1.0,
                    _ if a == b => 0.5,
                    _ => f64::from(u8::from(a > b)),
                };
            }
        }
        (pairs > 0).then(|| sum / pairs as f64)
    }

    #[test]
    fn areas_are_those_of_all_pairs() {
        let seed = 61;
        println!("seed {seed}");
        let mut random = SplitMix64::new(seed);
        let few = [NAN, f32::NEG_INFINITY, -1.5, -0.0, 0.0, f32::MIN_POSITIVE, 2.0, f32::INFINITY];
        for case in 0..300 {
            let vertices = 1 + random.below(80) as usize;
            let columns = 1 + random.below(4) as usize;
            let stride = columns + random.below(3) as usize;
            let many = case % 3 == 0;
            let scores: Vec<f32> = (0..vertices * stride)
                .map(|_| match many {
                    true => random.below(1 << 24) as f32 - 8e6,
                    false => few[random.below(8) as usize],
                })
                .collect();
            let value = [0.0, 1.0, NAN];
            let truth: Vec<f32> = (0..vertices * columns).map(|_| value[random.below(3) as usize]).collect();
            let ids: Vec<u32> = (0..vertices as u32).filter(|_| random.below(4) > 0).collect();
            let areas: Vec<f64> = (0..columns)
                .filter_map(|column| {
                    let known: Vec<usize> = ids.iter().map(|&v| v as usize).collect();
                    let known: Vec<usize> =
                        known.into_iter().filter(|v| !truth[v * columns + column].is_nan()).collect();
                    let of: Vec<f64> = known.iter().map(|v| f64::from(scores[v * stride + column])).collect();
                    let holds: Vec<bool> = known.iter().map(|v| truth[v * columns + column] == 1.0).collect();
                    area_by_pairs(&of, &holds)
                })
                .collect();
            let expected = (!areas.is_empty()).then(|| areas.iter().sum::<f64>() / areas.len() as f64);
            let found = roc_auc(&scores, stride, &flags(columns as u32, &truth), &ids);
            let near = match (found, expected) {
                (Some(found), Some(expected)) => (found - expected).abs() < 1e-12,
                (found, expected) => found == expected,
            };
            assert!(near, "case {case}: {found:?}, but {expected:?}");
            // Two classes are one column: the second score less the first.
            let stride = 2 + random.below(2) as usize;
            let scores: Vec<f32> = (0..vertices * stride).map(|_| few[random.below(8) as usize]).collect();
            let of: Vec<u32> = (0..vertices).map(|_| [0, 1, NO_LABEL][random.below(3) as usize]).collect();
            let known: Vec<usize> = (0..vertices).filter(|&v| of[v] != NO_LABEL).collect();
            let score = |&v: &usize| f64::from(scores[v * stride + 1]) - f64::from(scores[v * stride]);
            let holds: Vec<bool> = known.iter().map(|&v| of[v] == 1).collect();
            let expected = area_by_pairs(&known.iter().map(score).collect::<Vec<_>>(), &holds);
            let all: Vec<u32> = (0..vertices as u32).collect();
            assert_eq!(roc_auc(&scores, stride, &Labels::classes(of, 2), &all), expected, "case {case}");
        }
    }

    #[test]
    fn areas_worked_by_hand() {
        // scikit-learn's own example: 0.75.
        let scores = [0.1, 0.4, 0.35, 0.8];
        assert_eq!(roc_auc(&scores, 1, &flags(1, &[0.0, 0.0, 1.0, 1.0]), &[0, 1, 2, 3]), Some(0.75));
        // A tie in one of two pairs.
        assert_eq!(roc_auc(&[1.0, 1.0, 0.0], 1, &flags(1, &[1.0, 0.0, 0.0]), &[0, 1, 2]), Some(0.75));
        // The second column has one kind only and does not count; the third is the wrong way round.
        let truth = flags(3, &[0.0, 1.0, 0.0, 1.0, 1.0, 1.0]);
        let scores = [0.0, 0.0, 5.0, 1.0, 9.0, 4.0];
        assert_eq!(roc_auc(&scores, 3, &truth, &[0, 1]), Some(0.5));
        assert_eq!(roc_auc(&scores, 3, &truth, &[0]), None);
        assert_eq!(roc_auc(&scores, 3, &truth, &[]), None);
        // Vertices that do not exist have no label; rows that do not exist have the lowest score.
        assert_eq!(roc_auc(&scores, 3, &truth, &[0, 1, 9]), Some(0.5));
        assert_eq!(roc_auc(&scores[..3], 3, &truth, &[0, 1]), Some(0.0));
        assert_eq!(roc_auc(&scores, 3, &Labels::classes(vec![0, 1], 3), &[0, 1]), None);
        assert_eq!(roc_auc(&scores, 3, &numbers(1, &[0.0, 1.0]), &[0, 1]), None);
    }

    /// Computes the average precision by its definition, with a new count for each threshold.
    fn precision_by_thresholds(scores: &[f64], holds: &[bool]) -> f64 {
        let all = holds.iter().filter(|&&h| h).count() as f64;
        let mut thresholds = scores.to_vec();
        thresholds.sort_by(|a, b| b.total_cmp(a));
        thresholds.dedup();
        let (mut sum, mut recall) = (0.0, 0.0);
        for threshold in thresholds {
            let chosen = scores.iter().zip(holds).filter(|(score, _)| **score >= threshold);
            let (count, right) =
                chosen.fold((0.0, 0.0), |(c, r), (_, &h)| (c + 1.0, r + f64::from(u8::from(h))));
            sum += (right / all - recall) * right / count;
            recall = right / all;
        }
        sum
    }

    #[test]
    fn average_precision_is_that_of_all_thresholds() {
        // scikit-learn's own example.
        let found =
            average_precision(&[0.1, 0.4, 0.35, 0.8], 1, &flags(1, &[0.0, 0.0, 1.0, 1.0]), &[0, 1, 2, 3]);
        assert!((found.unwrap() - 5.0 / 6.0).abs() < 1e-12);
        let seed = 62;
        println!("seed {seed}");
        let mut random = SplitMix64::new(seed);
        for case in 0..200 {
            let (rows, kinds) = (2 + random.below(60), 1 + random.below(30));
            let scores: Vec<f32> = (0..rows).map(|_| random.below(kinds) as f32).collect();
            let mut holds: Vec<bool> = (0..rows).map(|_| random.below(3) == 0).collect();
            (holds[0], holds[1]) = (true, false);
            let expected =
                precision_by_thresholds(&scores.iter().map(|&s| s.into()).collect::<Vec<_>>(), &holds);
            let ids: Vec<u32> = (0..rows as u32).collect();
            let truth: Vec<f32> = holds.iter().map(|&h| f32::from(u8::from(h))).collect();
            let found = average_precision(&scores, 1, &flags(1, &truth), &ids).unwrap();
            assert!((found - expected).abs() < 1e-12, "case {case}: {found}, but {expected}");
            // Two classes: the second score less the first.
            let two: Vec<f32> = scores.iter().flat_map(|&s| [1.0, s + 1.0]).collect();
            let classes = Labels::classes(holds.iter().map(|&h| u32::from(h)).collect(), 2);
            assert_eq!(average_precision(&two, 2, &classes, &ids), Some(found), "case {case}");
        }
        assert_eq!(average_precision(&[1.0, 2.0], 1, &flags(1, &[1.0, 1.0]), &[0, 1]), None);
        assert_eq!(average_precision(&[1.0, 2.0], 1, &numbers(1, &[1.0, 0.0]), &[0, 1]), None);
    }

    #[test]
    fn f1_and_accuracy_of_flags() {
        // True positives 2, false positives 1, false negatives 1, true negatives 1, one unknown.
        let truth = flags(3, &[1.0, 1.0, 0.0, 1.0, 0.0, NAN]);
        let scores = [0.5, -0.5, 0.1, 9.0, -1.0, 3.0];
        assert_eq!(f1_micro(&scores, 3, &truth, &[0, 1]), Some(4.0 / 6.0));
        assert_eq!(accuracy_of(&scores, 3, &truth, &[0, 1]), Some(3.0 / 5.0));
        // 0 is no prediction; NaN is none either, and never right.
        let none = flags(2, &[0.0, 0.0]);
        assert_eq!(f1_micro(&[0.0, NAN], 2, &none, &[0]), Some(0.0));
        assert_eq!(accuracy_of(&[0.0, NAN], 2, &none, &[0]), Some(0.5));
        assert_eq!(accuracy_of(&[], 2, &none, &[0]), Some(0.0));
        let unknown = flags(2, &[NAN, NAN]);
        assert_eq!(f1_micro(&[1.0, 1.0], 2, &unknown, &[0, 5]), None);
        assert_eq!(accuracy_of(&[1.0, 1.0], 2, &unknown, &[0, 5]), None);
    }

    #[test]
    fn measures_of_classes_and_numbers() {
        let scores = [0.1, 0.9, 9.0, 0.8, 0.2, 9.0, 0.5, 0.5, 9.0];
        let classes = Labels::classes(vec![1, 1, 0, NO_LABEL], 2);
        for measure in [f1_micro, accuracy_of] {
            assert_eq!(measure(&scores, 3, &classes, &[0, 1, 2, 3]), Some(2.0 / 3.0));
            assert_eq!(measure(&scores, 3, &classes, &[3, 77]), None);
            assert_eq!(measure(&scores, 3, &numbers(1, &[1.0]), &[0]), None);
        }
        // Differences 1, -3 and 2; one number is unknown.
        let truth = numbers(2, &[1.0, 5.0, NAN, -2.0]);
        let scores = [2.0, 2.0, 0.0, 7.0, 0.0, 0.0];
        assert_eq!(mean_absolute_error(&scores, 3, &truth, &[0, 1]), Some((1.0 + 3.0 + 2.0) / 3.0));
        let squares = (1.0 + 9.0 + 4.0) / 3.0f64;
        assert_eq!(root_mean_squared_error(&scores, 3, &truth, &[0, 1]), Some(squares.sqrt()));
        for measure in [mean_absolute_error, root_mean_squared_error] {
            assert!(measure(&[NAN; 6], 3, &truth, &[0, 1]).unwrap().is_nan());
            assert!(measure(&[], 3, &truth, &[0, 1]).unwrap().is_nan());
            assert_eq!(measure(&scores, 3, &truth, &[7]), None);
            assert_eq!(measure(&scores, 3, &classes, &[0]), None);
            assert_eq!(measure(&scores, 3, &flags(1, &[1.0]), &[0]), None);
        }
    }
}

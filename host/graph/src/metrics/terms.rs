//! Terms of metrics that are sums over rows. A term is computed from the scores of a row, which
//! then need not be stored.
//!
//! A row's term takes 4 or 8 bytes for any number of scores. Terms may be computed in any order of
//! rows. Sums are taken over them in the order of the ids, as [`accuracy_of`], [`f1_micro`] and
//! [`cross_entropy`] do with scores, and give the same bits. The area under a curve ranks scores
//! and is not a sum. Errors of numbers are sums too, but their terms would take the same memory as
//! the scores.

use std::ops::Range;

use super::{Tally, best, loss};
#[cfg(doc)]
use super::{accuracy_of, balanced_accuracy, cross_entropy, f1_macro, f1_micro};
use crate::labels::{Labels, Values};

/// Metric that can be computed from one small term per row, without the scores of all rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Folded {
    /// The metric of [`accuracy_of`].
    Accuracy,
    /// The metric of [`f1_micro`].
    F1Micro,
    /// The metric of [`cross_entropy`].
    CrossEntropy,
    /// The metric of [`f1_macro`], for class labels only.
    F1Macro,
    /// The metric of [`balanced_accuracy`], for class labels only.
    BalancedAccuracy,
}

/// Contribution of each row to a metric, which is stored in place of the row's scores.
#[derive(Debug, Clone, PartialEq)]
pub struct Terms {
    metric: Folded,
    of: Of,
}

/// Marker for a row without a predicted class.
const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, PartialEq)]
enum Of {
    /// Predicted class of each row, or [`NONE`].
    Predicted(Vec<u32>),
    /// Number of each row's labels that are predicted correctly.
    Right(Vec<u32>),
    /// `2 TP` and `2 TP + FP + FN` of the flags of each row.
    Overlaps(Vec<[u32; 2]>),
    /// Loss of each row's class, in nats.
    Losses(Vec<f32>),
}

impl Terms {
    /// Creates the terms of `rows` rows for which no scores are known yet. Returns `None` if the
    /// metric is not defined for this kind of labels.
    #[must_use]
    pub fn new(metric: Folded, labels: &Labels, rows: usize) -> Option<Self> {
        let of = match (metric, labels) {
            (Folded::CrossEntropy, Labels::Classes { .. }) => Of::Losses(vec![f32::NAN; rows]),
            (Folded::F1Micro, Labels::Flags(_)) => {
                Of::Overlaps((0..rows).map(|row| overlaps(labels, row, &[])).collect())
            }
            (_, Labels::Classes { .. }) => Of::Predicted(vec![NONE; rows]),
            (Folded::Accuracy, Labels::Flags(_)) => Of::Right(vec![0; rows]),
            (_, Labels::Numbers(_) | Labels::Flags(_)) => return None,
        };
        Some(Self { metric, of })
    }

    /// Returns the counts per class for the rows `ids`. Returns `None` if the metric's terms are
    /// not predicted classes, or if no label of `ids` is known.
    #[must_use]
    pub fn tally(&self, labels: &Labels, ids: &[u32]) -> Option<Tally> {
        let (Of::Predicted(told), Labels::Classes { of, count }) = (&self.of, labels) else { return None };
        let class =
            |id: u32| told.get(id as usize).filter(|&&class| class != NONE).map(|&class| class as usize);
        Tally::of_classes(of, *count, ids, class)
    }

    /// Returns the size of a row's term, in bytes.
    #[must_use]
    pub fn row_bytes(&self) -> u64 {
        match self.of {
            Of::Predicted(_) | Of::Right(_) | Of::Losses(_) => 4,
            Of::Overlaps(_) => 8,
        }
    }

    /// Computes the terms of the rows in `rows` from their scores. The scores of the first of these
    /// rows begin at index 0, and those of each further row `stride` values later.
    pub fn take(&mut self, labels: &Labels, rows: Range<usize>, scores: &[f32], stride: usize) {
        for (at, row) in rows.enumerate() {
            let own = scores.get(at.saturating_mul(stride)..).unwrap_or_default();
            match &mut self.of {
                Of::Predicted(all) => put(all, row, told(labels, own)),
                Of::Right(all) => put(all, row, right(labels, row, own)),
                Of::Overlaps(all) => put(all, row, overlaps(labels, row, own)),
                Of::Losses(all) => put(all, row, loss_of(labels, row, own)),
            }
        }
    }

    /// Returns the metric over the rows `ids`, or `None` if none of their labels is known. Rows
    /// without terms count like rows that are missing in `scores`.
    #[must_use]
    pub fn metric(&self, labels: &Labels, ids: &[u32]) -> Option<f64> {
        if let Of::Predicted(_) = &self.of {
            let tally = self.tally(labels, ids)?;
            return match self.metric {
                Folded::F1Macro => tally.f1_macro(),
                Folded::BalancedAccuracy => tally.balanced_accuracy(),
                _ => tally.accuracy(),
            };
        }
        let known = || ids.iter().filter(|&&id| labels.known(id as usize));
        let count: u64 = known().map(|&id| values(labels, id as usize)).sum();
        if count == 0 {
            return None;
        }
        Some(match &self.of {
            Of::Predicted(_) => return None,
            Of::Right(all) => known().map(|&id| u64::from(at(all, id, 0))).sum::<u64>() as f64 / count as f64,
            Of::Overlaps(all) => {
                let add = |sum: [u64; 2], [both, either]: [u32; 2]| {
                    [sum[0] + u64::from(both), sum[1] + u64::from(either)]
                };
                let missing = |id: u32| overlaps(labels, id as usize, &[]);
                let of = |&id: &u32| all.get(id as usize).copied().unwrap_or_else(|| missing(id));
                let [both, either] = known().map(of).fold([0; 2], add);
                if either == 0 { 0.0 } else { both as f64 / either as f64 }
            }
            Of::Losses(all) => {
                let add = |sum: f64, &id: &u32| sum + f64::from(at(all, id, f32::NAN));
                known().fold(0.0, add) / count as f64
            }
        })
    }
}

fn put<T>(all: &mut [T], row: usize, term: T) {
    if let Some(place) = all.get_mut(row) {
        *place = term;
    }
}

fn at<T: Copy>(all: &[T], id: u32, missing: T) -> T {
    all.get(id as usize).copied().unwrap_or(missing)
}

/// Returns the number of known label values of a row.
fn values(labels: &Labels, row: usize) -> u64 {
    match labels.as_values() {
        None => u64::from(labels.known(row)),
        Some(values) if row < values.rows() => {
            values.row(row).iter().filter(|value| !value.is_nan()).count() as u64
        }
        Some(_) => 0,
    }
}

/// Returns true if a logit predicts a flag correctly. NaN is never correct.
pub(super) fn is_right(score: f32, flag: f32) -> bool {
    if flag == 1.0 { score > 0.0 } else { score <= 0.0 }
}

/// Returns `2 TP` and `2 TP + FP + FN` of one flag, which are the terms of its F1 score.
pub(super) fn overlap(score: f32, flag: f32) -> [u8; 2] {
    let (holds, predicted) = (flag == 1.0, score > 0.0);
    [2 * u8::from(holds && predicted), u8::from(holds) + u8::from(predicted)]
}

/// Returns the class that the scores of a row predict. `scores` begins with the scores of this row.
fn told(labels: &Labels, scores: &[f32]) -> u32 {
    let scores = scores.get(..labels.width() as usize).unwrap_or_default();
    best(scores).map_or(NONE, |class| class as u32)
}

/// Returns the number of flags of a row that are predicted correctly. `scores` begins with the
/// scores of this row.
fn right(labels: &Labels, row: usize, scores: &[f32]) -> u32 {
    let Labels::Flags(flags) = labels else { return 0 };
    each(flags, row, scores).map(|(s, flag)| u32::from(is_right(s, flag))).sum()
}

/// Returns `2 TP` and `2 TP + FP + FN` of the flags of a row. `scores` begins with the scores of
/// this row.
fn overlaps(labels: &Labels, row: usize, scores: &[f32]) -> [u32; 2] {
    let Labels::Flags(flags) = labels else { return [0; 2] };
    each(flags, row, scores).fold([0; 2], |[both, either], (score, flag)| {
        let [twice, sum] = overlap(score, flag);
        [both + u32::from(twice), either + u32::from(sum)]
    })
}

/// Returns the loss of a row's class, in nats. `scores` begins with the scores of this row.
fn loss_of(labels: &Labels, row: usize, scores: &[f32]) -> f32 {
    let Labels::Classes { of, count } = labels else { return f32::NAN };
    let scores = scores.get(..*count as usize).unwrap_or_default();
    of.get(row).map_or(f32::NAN, |&label| loss(scores, label))
}

/// Returns the score and the value of each known flag of a row.
fn each<'a>(flags: &'a Values, row: usize, scores: &'a [f32]) -> impl Iterator<Item = (f32, f32)> + 'a {
    let known = if row < flags.rows() { flags.row(row) } else { &[] };
    let score = |column: usize| scores.get(column).copied().unwrap_or(f32::NAN);
    known.iter().enumerate().filter(|(_, flag)| !flag.is_nan()).map(move |(at, &flag)| (score(at), flag))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::{accuracy_of, balanced_accuracy, cross_entropy, f1_macro, f1_micro};
    use super::*;
    use crate::random::SplitMix64;
    use crate::split::NO_LABEL;

    fn labels(random: &mut SplitMix64, rows: usize, columns: u32) -> Labels {
        match random.below(2) {
            0 => {
                let mut label =
                    || [random.below(columns.into()) as u32, NO_LABEL][usize::from(random.below(5) == 0)];
                Labels::Classes { of: (0..rows).map(|_| label()).collect(), count: columns }
            }
            _ => {
                let flags =
                    (0..rows * columns as usize).map(|_| [0.0, 1.0, f32::NAN][random.below(3) as usize]);
                Labels::Flags(Values::new(columns, flags.collect()).unwrap())
            }
        }
    }

    #[test]
    fn sums_over_terms_are_those_over_scores_bit_for_bit() {
        let seed = 83;
        println!("seed {seed}");
        let mut random = SplitMix64::new(seed);
        let mut compared = [0; 5];
        for case in 0..600 {
            let (rows, columns) = (1 + random.below(60) as usize, 1 + random.below(5) as u32);
            let labels = labels(&mut random, rows, columns);
            let stride = columns as usize + random.below(4) as usize;
            let few = [f32::NAN, f32::NEG_INFINITY, -2.5, -0.0, 0.0, 3.0, f32::INFINITY];
            let scores: Vec<f32> = (0..rows * stride)
                .map(|_| match random.below(9) {
                    0 => few[random.below(7) as usize],
                    _ => random.below(1 << 20) as f32 * 1e-4 - 50.0,
                })
                .collect();
            // In any order, some twice, some beyond all rows.
            let ids: Vec<u32> = (0..random.below(90)).map(|_| random.below(rows as u64 + 2) as u32).collect();
            let all = [
                Folded::Accuracy,
                Folded::F1Micro,
                Folded::CrossEntropy,
                Folded::F1Macro,
                Folded::BalancedAccuracy,
            ];
            for (at, metric) in all.into_iter().enumerate() {
                let Some(mut terms) = Terms::new(metric, &labels, rows) else { continue };
                // Pieces of rows come in any order.
                let mut pieces: Vec<Range<usize>> = Vec::new();
                while pieces.last().map_or(0, |last| last.end) < rows {
                    let from = pieces.last().map_or(0, |last| last.end);
                    pieces.push(from..(from + 1 + random.below(20) as usize).min(rows));
                }
                while !pieces.is_empty() {
                    let piece = pieces.swap_remove(random.below(pieces.len() as u64) as usize);
                    let own = &scores[piece.start * stride..piece.end * stride];
                    terms.take(&labels, piece, own, stride);
                }
                let by = [accuracy_of, f1_micro, cross_entropy, f1_macro, balanced_accuracy][at];
                let (folded, wanted) = (terms.metric(&labels, &ids), by(&scores, stride, &labels, &ids));
                assert_eq!(
                    folded.map(f64::to_bits),
                    wanted.map(f64::to_bits),
                    "seed {seed}, case {case}, {metric:?}"
                );
                compared[at] += usize::from(wanted.is_some_and(|metric| !metric.is_nan()));
            }
        }
        assert!(compared.iter().all(|&count| count > 50), "{compared:?}");
    }

    #[test]
    fn rows_that_have_not_come_count_as_wrong() {
        let classes = Labels::classes(vec![1, 0, 1], 2);
        let mut terms = Terms::new(Folded::Accuracy, &classes, 3).unwrap();
        terms.take(&classes, 1..2, &[2.0, 1.0], 2);
        assert_eq!(terms.metric(&classes, &[0, 1]), Some(0.5));
        assert_eq!((terms.metric(&classes, &[]), terms.metric(&classes, &[9])), (None, None));
        let losses = Terms::new(Folded::CrossEntropy, &classes, 3).unwrap();
        assert!(losses.metric(&classes, &[2]).unwrap().is_nan());
        let flags = Labels::Flags(Values::new(2, vec![1.0, 0.0]).unwrap());
        let overlaps = Terms::new(Folded::F1Micro, &flags, 1).unwrap();
        assert_eq!(overlaps.metric(&flags, &[0]), Some(0.0));
        let numbers = Labels::Numbers(Values::new(1, vec![1.0]).unwrap());
        assert_eq!(Terms::new(Folded::Accuracy, &numbers, 1), None);
        assert_eq!(Terms::new(Folded::CrossEntropy, &flags, 1), None);
    }
}

//! Counts of labels and predictions per class, from which precision, recall, F1 and a confusion
//! matrix are computed.
//!
//! The precision of a class is `TP / (TP + FP)`, and its recall is `TP / (TP + FN)`. Its F1 score
//! is `2 TP / (2 TP + FP + FN)`. Each of them is 0 if its denominator is 0, as in scikit-learn with
//! `zero_division=0`. If labels are flags, each column counts as a class, and unknown flags are
//! left out.

use super::{best, each_known};
use crate::labels::Labels;
use crate::split::NO_LABEL;

/// Maximum number of classes for which a confusion matrix is computed.
pub const MAX_MATRIX_CLASSES: usize = 64;

/// Numbers of labels and predictions per class, for the rows of a training, validation or test set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of rows whose class is known. For flags, it is the number of known values.
    pub known: u64,
    /// Number of rows of each class, which is TP + FN.
    pub support: Vec<u64>,
    /// Number of rows that are predicted as each class, which is TP + FP.
    pub predicted: Vec<u64>,
    /// Number of rows of each class that are predicted correctly, which is TP.
    pub right: Vec<u64>,
    /// Confusion matrix, stored row by row. Its rows are labels and its columns are predictions. It
    /// is empty for flags, and for more than [`MAX_MATRIX_CLASSES`] classes.
    pub matrix: Vec<u64>,
    /// True for classes, which exclude each other. False for flags.
    exclusive: bool,
    /// Number of known values in each column of flags. Empty for classes.
    flags: Vec<u64>,
}

impl Tally {
    fn new(classes: usize, exclusive: bool) -> Self {
        let none = || vec![0; classes];
        let matrix = if exclusive && classes <= MAX_MATRIX_CLASSES { classes * classes } else { 0 };
        Self {
            known: 0,
            support: none(),
            predicted: none(),
            right: none(),
            matrix: vec![0; matrix],
            exclusive,
            flags: if exclusive { Vec::new() } else { none() },
        }
    }

    /// Counts the predictions that the scores of the rows `ids` give. `scores` is as in
    /// [`accuracy_of`](super::accuracy_of). Returns `None` for numbers, and if no label of `ids` is
    /// known.
    #[must_use]
    pub fn from_scores(scores: &[f32], stride: usize, labels: &Labels, ids: &[u32]) -> Option<Self> {
        match labels {
            Labels::Classes { of, count } => {
                let class = |id: u32| {
                    let from = (id as usize).saturating_mul(stride);
                    best(scores.get(from..from.saturating_add(*count as usize))?)
                };
                Self::of_classes(of, *count, ids, class)
            }
            Labels::Flags(values) => {
                let mut tally = Self::new(values.columns() as usize, false);
                each_known(scores, stride, values, ids, |column, score, flag| {
                    tally.add_flag(column, flag == 1.0, score > 0.0);
                });
                (tally.known > 0).then_some(tally)
            }
            Labels::Numbers(_) => None,
        }
    }

    /// Counts predicted classes, which `predicted` returns for each vertex of `ids`. Returns `None`
    /// if none of these vertices has a class.
    #[must_use]
    pub fn of_classes(
        labels: &[u32],
        classes: u32,
        ids: &[u32],
        predicted: impl Fn(u32) -> Option<usize>,
    ) -> Option<Self> {
        let classes = classes as usize;
        let mut tally = Self::new(classes, true);
        for &id in ids {
            let Some(&label) = labels.get(id as usize).filter(|&&label| label != NO_LABEL) else { continue };
            let label = label as usize;
            tally.known += 1;
            count(&mut tally.support, label);
            let Some(found) = predicted(id) else { continue };
            count(&mut tally.predicted, found);
            if found == label {
                count(&mut tally.right, label);
            }
            if found < classes {
                count(&mut tally.matrix, label * classes + found);
            }
        }
        (tally.known > 0).then_some(tally)
    }

    fn add_flag(&mut self, column: usize, holds: bool, predicted: bool) {
        self.known += 1;
        count(&mut self.flags, column);
        if holds {
            count(&mut self.support, column);
        }
        if predicted {
            count(&mut self.predicted, column);
        }
        if holds && predicted {
            count(&mut self.right, column);
        }
    }

    /// Returns the number of classes, or of columns if labels are flags.
    #[must_use]
    pub fn classes(&self) -> usize {
        self.support.len()
    }

    fn at(of: &[u64], class: usize) -> f64 {
        of.get(class).copied().unwrap_or(0) as f64
    }

    /// Returns the precision, the recall and the F1 score of the class `class`.
    #[must_use]
    pub fn scores(&self, class: usize) -> [f64; 3] {
        let (right, told, all) =
            (Self::at(&self.right, class), Self::at(&self.predicted, class), Self::at(&self.support, class));
        let share = |below: f64, above: f64| if below > 0.0 { above / below } else { 0.0 };
        [share(told, right), share(all, right), share(told + all, 2.0 * right)]
    }

    /// Returns the class with the most rows, and its fraction of all rows. The fraction is the
    /// accuracy of a model that always predicts this class. Returns `None` for flags. If several
    /// classes have the most rows, the first one is returned.
    #[must_use]
    pub fn majority(&self) -> Option<(usize, f64)> {
        let most = self.support.iter().copied().max().filter(|_| self.exclusive && self.known > 0)?;
        let class = self.support.iter().position(|&rows| rows == most)?;
        Some((class, most as f64 / self.known as f64))
    }

    /// Returns the fraction of rows whose class is predicted correctly, or `None` for flags.
    #[must_use]
    pub fn accuracy(&self) -> Option<f64> {
        let right: u64 = self.right.iter().sum();
        (self.exclusive && self.known > 0).then(|| right as f64 / self.known as f64)
    }

    /// Returns the mean F1 score of the classes that occur as a label or a prediction
    /// (scikit-learn's `f1_score(average="macro", zero_division=0)`). For flags it is the mean over
    /// the columns with a known value. A flag that is never true and never predicted counts as 0,
    /// as in scikit-learn.
    #[must_use]
    pub fn f1_macro(&self) -> Option<f64> {
        let counts = |class: &usize| match self.exclusive {
            true => Self::at(&self.support, *class) + Self::at(&self.predicted, *class) > 0.0,
            false => Self::at(&self.flags, *class) > 0.0,
        };
        mean((0..self.classes()).filter(counts).map(|class| self.scores(class)[2]))
    }

    /// Returns the mean recall of the classes that occur as a label (scikit-learn's
    /// `balanced_accuracy_score`). Returns `None` for flags.
    #[must_use]
    pub fn balanced_accuracy(&self) -> Option<f64> {
        let has = |class: &usize| Self::at(&self.support, *class) > 0.0;
        let recalls = (0..self.classes()).filter(has).map(|class| self.scores(class)[1]);
        if self.exclusive { mean(recalls) } else { None }
    }
}

fn count(of: &mut [u64], at: usize) {
    if let Some(slot) = of.get_mut(at) {
        *slot += 1;
    }
}

fn mean(of: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = of.fold((0.0, 0u64), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / count as f64)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::labels::Values;

    fn tally(labels: &[u32], told: &[usize], classes: u32) -> Tally {
        let ids: Vec<u32> = (0..labels.len() as u32).collect();
        Tally::of_classes(labels, classes, &ids, |id| told.get(id as usize).copied()).unwrap()
    }

    #[test]
    fn figures_are_those_of_scikit_learn() {
        // f1_score, balanced_accuracy_score and confusion_matrix of scikit-learn 1.5 on these
        // lists.
        let found = tally(&[0, 0, 0, 1, 1, 2, NO_LABEL], &[0, 1, 0, 1, 0, 1, 2], 4);
        assert_eq!((found.known, found.majority()), (6, Some((0, 0.5))));
        assert_eq!(found.matrix, [2, 1, 0, 0, 1, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
        let close = |found: Option<f64>, wanted: f64| (found.unwrap() - wanted).abs() < 1e-12;
        assert!(close(found.accuracy(), 0.5));
        // Class 3 occurs nowhere; class 2 is never told.
        assert!(close(found.f1_macro(), (2.0 / 3.0 + 0.4 + 0.0) / 3.0));
        assert!(close(found.balanced_accuracy(), (2.0 / 3.0 + 0.5 + 0.0) / 3.0));
        assert_eq!(found.scores(2), [0.0; 3]);
    }

    #[test]
    fn rows_that_are_told_nothing_are_wrong() {
        let found = tally(&[1, 1], &[1], 2);
        assert_eq!((found.accuracy(), found.predicted), (Some(0.5), vec![0, 1]));
        assert_eq!(Tally::of_classes(&[NO_LABEL], 2, &[0, 9], |_| Some(0)), None);
    }

    #[test]
    fn of_scores_the_first_highest_counts_and_nan_never() {
        let labels = Labels::classes(vec![0, 1, 1], 2);
        let found =
            Tally::from_scores(&[1.0, 1.0, f32::NAN, 0.0, f32::NAN, f32::NAN], 2, &labels, &[0, 1, 2])
                .unwrap();
        assert_eq!((found.right.clone(), found.predicted.clone()), (vec![1, 1], vec![1, 1]));
        assert_eq!(found.accuracy(), Some(2.0 / 3.0));
    }

    #[test]
    fn columns_of_flags_are_counted_by_themselves() {
        let labels = Labels::Flags(Values::new(2, vec![1.0, 0.0, 1.0, f32::NAN, 0.0, 1.0]).unwrap());
        let found = Tally::from_scores(&[2.0, 1.0, -1.0, 1.0, -1.0, 0.5], 2, &labels, &[0, 1, 2]).unwrap();
        assert_eq!((found.known, &found.support[..], &found.right[..]), (5, &[2, 1][..], &[1, 1][..]));
        // Columns: 2/3 and 2/3.
        assert!((found.f1_macro().unwrap() - 2.0 / 3.0).abs() < 1e-12);
        assert_eq!((found.majority(), found.accuracy(), found.balanced_accuracy()), (None, None, None));
    }

    /// Test case: number of classes, labels, predictions, [macro F1, micro F1, balanced accuracy],
    /// [precision, recall, F1] of each class, and number of rows of each class.
    type Case = (u32, &'static [u32], &'static [usize], [f64; 3], &'static [[f64; 3]], &'static [u64]);

    /// Results of `precision_recall_fscore_support`, `f1_score` and `balanced_accuracy_score` of
    /// scikit-learn 1.9.1 with `zero_division=0`. Some classes have no row, and some are never
    /// predicted.
    const SCIKIT_LEARN: [Case; 10] = [
        (
            4,
            &[3, 3, 3, 3, 3, 3, 3],
            &[1, 2, 2, 2, 1, 2, 2],
            [0.0, 0.0, 0.0],
            &[[0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]],
            &[0, 0, 0, 7],
        ),
        (2, &[0], &[1], [0.0, 0.0, 0.0], &[[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]], &[1, 0]),
        (
            2,
            &[0, 0, 0],
            &[1, 1, 0],
            [0.25, 0.3333333333333333, 0.3333333333333333],
            &[[1.0, 0.3333333333333333, 0.5], [0.0, 0.0, 0.0]],
            &[3, 0],
        ),
        (
            3,
            &[2, 2, 1, 1, 2, 1],
            &[2, 2, 2, 2, 2, 2],
            [0.3333333333333333, 0.5, 0.5],
            &[[0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.5, 1.0, 0.6666666666666666]],
            &[0, 3, 3],
        ),
        (2, &[1, 1, 1], &[0, 0, 0], [0.0, 0.0, 0.0], &[[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]], &[0, 3]),
        (
            5,
            &[3, 3, 3],
            &[1, 2, 3],
            [0.16666666666666666, 0.3333333333333333, 0.3333333333333333],
            &[
                [0.0, 0.0, 0.0],
                [0.0, 0.0, 0.0],
                [0.0, 0.0, 0.0],
                [1.0, 0.3333333333333333, 0.5],
                [0.0, 0.0, 0.0],
            ],
            &[0, 0, 0, 3, 0],
        ),
        (
            3,
            &[0, 0, 0, 0, 0, 0, 0],
            &[0, 0, 0, 0, 0, 0, 0],
            [1.0, 1.0, 1.0],
            &[[1.0, 1.0, 1.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]],
            &[7, 0, 0],
        ),
        (
            3,
            &[2, 2, 2, 0, 2, 2],
            &[1, 0, 1, 1, 0, 0],
            [0.0, 0.0, 0.0],
            &[[0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]],
            &[1, 0, 5],
        ),
        (
            2,
            &[1, 1, 0, 1, 0, 0, 1],
            &[0, 1, 0, 1, 1, 1, 1],
            [0.5333333333333333, 0.5714285714285714, 0.5416666666666666],
            &[[0.5, 0.3333333333333333, 0.4], [0.6, 0.75, 0.6666666666666666]],
            &[3, 4],
        ),
        (
            3,
            &[1, 1, 1, 1, 1, 1, 1, 1],
            &[1, 1, 1, 1, 0, 0, 1, 0],
            [0.38461538461538464, 0.625, 0.625],
            &[[0.0, 0.0, 0.0], [1.0, 0.625, 0.7692307692307693], [0.0, 0.0, 0.0]],
            &[0, 8, 0],
        ),
    ];

    #[test]
    fn classes_that_are_absent_count_as_in_scikit_learn() {
        let close = |found: f64, wanted: f64| (found - wanted).abs() < 1e-12;
        for (at, (classes, labels, told, all, each, support)) in SCIKIT_LEARN.into_iter().enumerate() {
            let found = tally(labels, told, classes);
            let averages =
                [found.f1_macro(), found.accuracy(), found.balanced_accuracy()].map(Option::unwrap);
            assert!(
                averages.iter().zip(all).all(|(&found, wanted)| close(found, wanted)),
                "case {at}: {averages:?}"
            );
            assert_eq!(found.support, support, "case {at}");
            for (class, wanted) in each.iter().enumerate() {
                let found = found.scores(class);
                assert!(
                    found.iter().zip(wanted).all(|(&a, &b)| close(a, b)),
                    "case {at}, {class}: {found:?}"
                );
            }
        }
    }

    #[test]
    fn labels_that_never_hold_count_as_in_scikit_learn() {
        // Columns, flags, predictions; f1_score(average="macro") and (average="micro") of indicator
        // matrices.
        type Case<'a> = (u32, &'a [u8], &'a [u8], f64, f64);
        let cases: [Case<'_>; 5] = [
            (
                4,
                &[0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 1, 0, 0, 0, 1, 0, 0, 0],
                &[1, 0, 0, 1, 0, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 0, 0, 1, 0],
                0.1,
                1.0 / 6.0,
            ),
            (4, &[0, 1, 0, 0, 0, 0, 0, 1], &[0, 1, 1, 0, 0, 0, 0, 0], 0.25, 0.5),
            (3, &[0, 0, 0], &[0, 1, 0], 0.0, 0.0),
            (
                3,
                &[0, 0, 1, 1, 0, 1, 0, 1, 1, 0, 0, 0, 0, 0, 1, 0, 1, 1],
                &[0, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0],
                2.0 / 15.0,
                2.0 / 11.0,
            ),
            (2, &[0, 0], &[0, 1], 0.0, 0.0),
        ];
        for (columns, flags, told, expected, micro) in cases {
            let values = |of: &[u8]| of.iter().map(|&one| f32::from(one)).collect::<Vec<f32>>();
            let labels = Labels::Flags(Values::new(columns, values(flags)).unwrap());
            let scores: Vec<f32> = values(told).iter().map(|one| one - 0.5).collect();
            let ids: Vec<u32> = (0..flags.len() as u32 / columns).collect();
            let found =
                Tally::from_scores(&scores, columns as usize, &labels, &ids).unwrap().f1_macro().unwrap();
            assert!((found - expected).abs() < 1e-12, "{flags:?}: {found}, {expected}");
            let found = super::super::f1_micro(&scores, columns as usize, &labels, &ids).unwrap();
            assert!((found - micro).abs() < 1e-12, "{flags:?}: {found}, {micro}");
        }
        // A column of which nothing is known is no label of these rows.
        let labels = Labels::Flags(Values::new(2, vec![1.0, f32::NAN, 1.0, f32::NAN]).unwrap());
        let found = Tally::from_scores(&[1.0, 1.0, 1.0, -1.0], 2, &labels, &[0, 1]).unwrap();
        assert_eq!(found.f1_macro(), Some(1.0));
    }

    #[test]
    fn many_classes_have_no_matrix() {
        let most = MAX_MATRIX_CLASSES as u32;
        assert_eq!(tally(&[0], &[0], most).matrix.len(), MAX_MATRIX_CLASSES * MAX_MATRIX_CLASSES);
        let more = tally(&[most], &[most as usize], most + 1);
        assert!(more.matrix.is_empty() && more.accuracy() == Some(1.0));
    }
}

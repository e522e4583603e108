//! Predictions that follow from the scores of a model, and the known labels to compare them with.
//!
//! For classification, the probabilities are the softmax of a row's scores, and the predicted class
//! is the first one with the highest score. For multi-label tasks, the probability of each label is
//! the sigmoid of its score, and a label is predicted if its score is above 0. For regression, the
//! scores are the predicted values.

use eciton_graph::dataset::VertexIds;
use eciton_graph::metrics::best;
use eciton_recipe::TaskType;

/// Names of the parts of a data set, indexed by the part numbers in [`Known::parts`]. Number 0
/// stands for no part.
const PARTS: [&str; 4] = ["", "train", "val", "test"];

/// Known labels of the rows of a data set, and the part (training, validation or test) to which
/// each row belongs. Rows are in the order of the data set.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Known {
    /// Names of the classes or label columns, by index. Empty if the data set does not name them.
    pub names: Vec<String>,
    /// Known labels as a row-major matrix `[rows, columns]`. A value is a class (one column), a 0/1
    /// flag per label, or a regression target. Unknown values are NaN, and the matrix is empty if
    /// no label is known.
    pub labels: Vec<f32>,
    /// Part number of each row: 1 for training, 2 for validation, 3 for test, and 0 for none.
    /// [`Known::part`] returns the name. Empty if no row belongs to a part.
    pub parts: Vec<u8>,
    /// Ids in the user's data of the source and of the target of each row, if rows are edges.
    pub ends: Option<[VertexIds; 2]>,
}

impl Known {
    /// Returns the name of the class or label column with index `at`, or the index as text if it
    /// has no name.
    #[must_use]
    pub fn name(&self, at: usize) -> String {
        self.names.get(at).cloned().unwrap_or_else(|| at.to_string())
    }

    /// Returns the labels of a row. `columns` is the number of labels per row, which is 1 for
    /// classification. Returns an empty slice if no labels are known.
    #[must_use]
    pub fn row(&self, row: usize, columns: usize) -> &[f32] {
        self.labels.get(row * columns..(row + 1) * columns).unwrap_or_default()
    }

    /// Returns the known class of a row. Returns `None` if the class is unknown.
    #[must_use]
    pub fn class(&self, row: usize) -> Option<usize> {
        self.labels.get(row).filter(|class| class.is_finite()).map(|&class| class as usize)
    }

    /// Returns the part of the data set that a row belongs to: `train`, `val` or `test`. Returns an
    /// empty string for a row that belongs to no part.
    #[must_use]
    pub fn part(&self, row: usize) -> &'static str {
        let part = self.parts.get(row).copied().unwrap_or(0);
        PARTS.get(usize::from(part)).copied().unwrap_or_default()
    }
}

/// Returns the index of the highest score, which is the predicted class. Of equal scores, the first
/// wins. Returns `None` if no score is a number.
#[must_use]
pub fn class(scores: &[f32]) -> Option<usize> {
    best(scores)
}

/// Returns true if a label with this score is predicted. The limit is 0, where the sigmoid is 0.5.
#[must_use]
pub fn holds(score: f32) -> bool {
    score > 0.0
}

/// Replaces the content of `into` by the probabilities of a row's scores. Regression and link
/// prediction have no probabilities, so `into` is then empty. A probability is NaN if the scores
/// are not numbers.
pub fn probabilities(task: TaskType, scores: &[f32], into: &mut Vec<f32>) {
    into.clear();
    match task {
        TaskType::Classification => {
            let most = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let power = |&score: &f32| (f64::from(score) - f64::from(most)).exp();
            let total: f64 = scores.iter().map(power).sum();
            into.extend(scores.iter().map(|score| (power(score) / total) as f32));
        }
        TaskType::MultiLabel => {
            // This form of the sigmoid does not overflow.
            into.extend(scores.iter().map(|&s| (0.5 * (1.0 + (0.5 * f64::from(s)).tanh())) as f32));
        }
        TaskType::Regression | TaskType::LinkPrediction => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_add_up_and_do_not_overflow() {
        let mut found = Vec::new();
        probabilities(TaskType::Classification, &[1e30, 1e30, -3.0], &mut found);
        assert_eq!(found, [0.5, 0.5, 0.0]);
        probabilities(TaskType::Classification, &[2.0, 1.0], &mut found);
        assert!((f64::from(found[0]) - 1.0 / (1.0 + (-1.0f64).exp())).abs() < 1e-7);
        probabilities(TaskType::MultiLabel, &[0.0, -1e30, 1e30], &mut found);
        assert_eq!(found, [0.5, 0.0, 1.0]);
        probabilities(TaskType::Regression, &[7.0], &mut found);
        assert!(found.is_empty());
        assert_eq!((class(&[0.5, 0.5]), class(&[f32::NAN]), holds(0.0)), (Some(0), None, false));
    }

    #[test]
    fn rows_beyond_what_is_known_have_nothing() {
        let (names, labels, parts) = (vec!["ant".to_owned()], vec![0.0, f32::NAN], vec![1, 9]);
        let known = Known { names, labels, parts, ends: None };
        assert_eq!((known.class(0), known.class(1), known.class(2)), (Some(0), None, None));
        assert_eq!((known.part(0), known.part(1), known.part(2)), ("train", "", ""));
        assert_eq!((known.name(0), known.name(1)), ("ant".to_owned(), "1".to_owned()));
        assert_eq!((known.row(0, 2).len(), known.row(1, 2).len()), (2, 0));
    }
}

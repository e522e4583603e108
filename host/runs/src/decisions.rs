//! Decisions, which are the predictions that follow from a row's scores, and the known labels of
//! the rows.
//!
//! For classes, the probabilities are the softmax of a row's scores, and the decision is the first
//! class with the highest score. For several labels, each probability is the sigmoid of a score,
//! and a label is predicted if its score is above 0. For regression, the scores are the predicted
//! numbers.

use eciton_graph::metrics::best;
use eciton_recipe::TaskType;

/// Names of the parts of a data set, by their number in [`Known::parts`]. Number 0 means no part.
const PARTS: [&str; 4] = ["", "train", "val", "test"];

/// Known labels of the predicted rows, and the part of the data set (training, validation, test) of
/// each row. The rows are in the data set's order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Known {
    /// Names of the classes or label columns. Empty if they have numbers only.
    pub names: Vec<String>,
    /// Known labels as a matrix `[rows, columns]`: classes (one column), flags or numbers. A value
    /// is NaN if it is unknown. Empty if no label of any row is known.
    pub labels: Vec<f32>,
    /// Number of the part of each row: 1 for training, 2 for validation, 3 for test, 0 for none.
    /// [`Known::part`] returns its name. Empty if no row is in a part.
    pub parts: Vec<u8>,
}

impl Known {
    /// Returns the name of a class or of a label column, or its number if there are no names.
    #[must_use]
    pub fn name(&self, at: usize) -> String {
        self.names.get(at).cloned().unwrap_or_else(|| at.to_string())
    }

    /// Returns the labels of a row. `columns` is their number per row, which is 1 for classes.
    /// Returns an empty slice if nothing is known.
    #[must_use]
    pub fn row(&self, row: usize, columns: usize) -> &[f32] {
        self.labels.get(row * columns..(row + 1) * columns).unwrap_or_default()
    }

    /// Returns the class of a row. Returns `None` if it is unknown.
    #[must_use]
    pub fn class(&self, row: usize) -> Option<usize> {
        self.labels.get(row).filter(|class| class.is_finite()).map(|&class| class as usize)
    }

    /// Returns the name of a row's part: `train`, `val` or `test`. Returns an empty text for a row
    /// in no part.
    #[must_use]
    pub fn part(&self, row: usize) -> &'static str {
        let part = self.parts.get(row).copied().unwrap_or(0);
        PARTS.get(usize::from(part)).copied().unwrap_or_default()
    }
}

/// Returns the first class with the highest score. Returns `None` if no score is a number.
#[must_use]
pub fn class(scores: &[f32]) -> Option<usize> {
    best(scores)
}

/// Returns whether a label with this score is predicted, which is so for scores above 0.
#[must_use]
pub fn holds(score: f32) -> bool {
    score > 0.0
}

/// Writes the probabilities of a row's scores to `into`. Writes none for regression and link
/// prediction. A probability is NaN if scores are not numbers.
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
        let known = Known { names: vec!["ant".to_owned()], labels: vec![0.0, f32::NAN], parts: vec![1, 9] };
        assert_eq!((known.class(0), known.class(1), known.class(2)), (Some(0), None, None));
        assert_eq!((known.part(0), known.part(1), known.part(2)), ("train", "", ""));
        assert_eq!((known.name(0), known.name(1)), ("ant".to_owned(), "1".to_owned()));
        assert_eq!((known.row(0, 2).len(), known.row(1, 2).len()), (2, 0));
    }
}

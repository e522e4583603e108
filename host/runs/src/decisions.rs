//! Decisions from the scores of rows, and the known labels of these rows.
//!
//! For classes, the probabilities are the softmax of the scores of a row. The decision is the first
//! class with the highest score. For several labels, the probabilities are the sigmoids of the
//! scores. A label is predicted if its score is above 0. For regression, scores are the decisions.

use eciton_graph::metrics::best;
use eciton_recipe::TaskType;

/// Parts of a data set, by the number that [`Known::parts`] has; 0 is none.
const PARTS: [&str; 4] = ["", "train", "val", "test"];

/// Known labels and parts of the rows that are predicted, in the data set's order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Known {
    /// Names of classes or of columns of labels; empty where they are numbers.
    pub names: Vec<String>,
    /// `[rows, columns]`: class, flags or numbers, NaN where unknown; one column of classes. Empty
    /// where nothing is known of any row.
    pub labels: Vec<f32>,
    /// Part of each row, as [`Known::part`] tells it; empty where rows are in no part.
    pub parts: Vec<u8>,
}

impl Known {
    /// Name of a class or of a column.
    #[must_use]
    pub fn name(&self, at: usize) -> String {
        self.names.get(at).cloned().unwrap_or_else(|| at.to_string())
    }

    /// Labels of a row of so many columns: one of classes. Empty where nothing is known.
    #[must_use]
    pub fn row(&self, row: usize, columns: usize) -> &[f32] {
        self.labels.get(row * columns..(row + 1) * columns).unwrap_or_default()
    }

    /// Class of a row, where it has one.
    #[must_use]
    pub fn class(&self, row: usize) -> Option<usize> {
        self.labels.get(row).filter(|class| class.is_finite()).map(|&class| class as usize)
    }

    /// Part of a row: `train`, `val`, `test`, or nothing.
    #[must_use]
    pub fn part(&self, row: usize) -> &'static str {
        let part = self.parts.get(row).copied().unwrap_or(0);
        PARTS.get(usize::from(part)).copied().unwrap_or_default()
    }
}

/// Class of the first highest score; `None` where no score is a number.
#[must_use]
pub fn class(scores: &[f32]) -> Option<usize> {
    best(scores)
}

/// Returns whether a label is told to hold.
#[must_use]
pub fn holds(score: f32) -> bool {
    score > 0.0
}

/// Probabilities of a row's scores; nothing for numbers and links. NaN where scores are no numbers.
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
            // Without an overflow.
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

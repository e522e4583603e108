//! Quality of a model on one part of the data, beyond the metric of the run. It contains scores per
//! class, the accuracy of the majority class, and the confusion matrix.

use eciton_graph::dataset::Names;
use eciton_graph::metrics::Tally;
use serde::{Deserialize, Serialize};

/// Maximum number of classes for which scores per class are recorded.
const MAX_CLASSES: usize = 1024;

/// Quality of the written model on one part of the data.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Quality {
    /// Part of the data on which all scores are computed: `test`, or `validation` if there are no
    /// test rows.
    pub part: String,
    /// Number of rows with a known class. For multi-label tasks, the number of known label values.
    /// For link prediction, the number of held-out links.
    pub known: u64,
    /// The most frequent class of the part, and the accuracy of always predicting it. `None` unless
    /// the task is classification.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub majority: Option<Majority>,
    /// Share of the rows whose class is predicted correctly. `None` unless the task is
    /// classification.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// Mean recall over the classes. `None` unless the task is classification.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub balanced_accuracy: Option<f64>,
    /// Mean F1 score over the classes or labels. `None` for link prediction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub f1_macro: Option<f64>,
    /// Area under the ROC curve. `None` unless the task is link prediction, multi-label, or has two
    /// classes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roc_auc: Option<f64>,
    /// Average precision, the area under the precision-recall curve. `None` unless the task is link
    /// prediction, multi-label, or has two classes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub average_precision: Option<f64>,
    /// Precision, recall and F1 score of each class or label. Empty if there are more than
    /// [`MAX_CLASSES`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClassQuality>,
    /// Confusion matrix. Entry `[true][predicted]` is the number of rows with this true and this
    /// predicted class, in the order of `classes`. Empty above
    /// [`MAX_MATRIX_CLASSES`](eciton_graph::metrics::MAX_MATRIX_CLASSES).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub confusion: Vec<Vec<u64>>,
}

/// One cell of the confusion matrix off the diagonal: rows of one class for which another class is
/// predicted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mistake {
    /// True class of the rows, as an index into [`Quality::classes`].
    pub class: usize,
    /// Class predicted for the rows, as an index into [`Quality::classes`].
    pub predicted: usize,
    /// Number of rows with this true and this predicted class.
    pub rows: u64,
    /// Share of these rows among all rows of the true class, from 0 to 1.
    pub share: f64,
}

/// The most frequent class of a part of the data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Majority {
    /// Name of the class, or its number if it has no name.
    pub class: String,
    /// Share of the rows that have this class. It is the accuracy of always predicting the class.
    pub share: f64,
}

/// Precision, recall and F1 score of one class or label.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClassQuality {
    /// Name of the class or label, or its number if it has no name.
    pub class: String,
    /// Share of correct predictions among the rows that are predicted as this class.
    pub precision: f64,
    /// Share of the rows of this class that are predicted as this class.
    pub recall: f64,
    /// F1 score, the harmonic mean of precision and recall.
    pub f1: f64,
    /// Number of rows whose true class is this one.
    pub support: u64,
}

impl Quality {
    /// Computes the quality from the tally of a part of the data.
    pub fn from_tally(part: &str, tally: &Tally, names: &Names) -> Self {
        let class = |class: usize| {
            let [precision, recall, f1] = tally.scores(class);
            let support = tally.support.get(class).copied().unwrap_or(0);
            ClassQuality { class: names.label(class), precision, recall, f1, support }
        };
        let count = tally.classes();
        let each = if count <= MAX_CLASSES { count } else { 0 };
        Self {
            part: part.to_owned(),
            known: tally.known,
            majority: tally.majority().map(|(class, share)| Majority { class: names.label(class), share }),
            accuracy: tally.accuracy(),
            balanced_accuracy: tally.balanced_accuracy(),
            f1_macro: tally.f1_macro(),
            roc_auc: None,
            average_precision: None,
            classes: (0..each).map(class).collect(),
            confusion: tally.matrix.chunks(count.max(1)).map(<[u64]>::to_vec).collect(),
        }
    }

    /// Returns the name of the class with index `class`, or the index as text if no names are
    /// recorded.
    #[must_use]
    pub fn class_name(&self, class: usize) -> String {
        self.classes.get(class).map_or_else(|| class.to_string(), |found| found.class.clone())
    }

    /// Returns the cells of the confusion matrix off the diagonal that are not 0, in descending
    /// order of their counts.
    #[must_use]
    pub fn mistakes(&self) -> Vec<Mistake> {
        let mut found = Vec::new();
        for (class, counts) in self.confusion.iter().enumerate() {
            let all = counts.iter().sum::<u64>() as f64;
            let wrong =
                counts.iter().enumerate().filter(|(predicted, rows)| *predicted != class && **rows > 0);
            found.extend(wrong.map(|(predicted, &rows)| Mistake {
                class,
                predicted,
                rows,
                share: rows as f64 / all,
            }));
        }
        found.sort_by_key(|mistake| std::cmp::Reverse(mistake.rows));
        found
    }

    /// Creates the quality of link prediction on `part` from scores of its `links` held-out links.
    pub fn of_links(part: &str, links: u64, roc_auc: Option<f64>, average_precision: Option<f64>) -> Self {
        Self { part: part.to_owned(), known: links, roc_auc, average_precision, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn classes_have_their_names() {
        let names = Names { labels: vec!["ant".to_owned(), "wasp".to_owned()], ..Names::default() };
        let tally = Tally::of_classes(&[0, 0, 0, 1], 2, &[0, 1, 2, 3], |_| Some(0)).unwrap();
        let found = Quality::from_tally("test", &tally, &names);
        assert_eq!(found.majority, Some(Majority { class: "ant".to_owned(), share: 0.75 }));
        assert_eq!(found.accuracy, Some(0.75), "no better than the majority");
        assert_eq!(found.classes.iter().map(|of| &of.class[..]).collect::<Vec<_>>(), ["ant", "wasp"]);
        assert_eq!(
            (found.confusion.clone(), found.balanced_accuracy),
            (vec![vec![3, 0], vec![1, 0]], Some(0.5))
        );
        assert_eq!(found.mistakes(), [Mistake { class: 1, predicted: 0, rows: 1, share: 1.0 }]);
        assert_eq!((found.class_name(1), found.class_name(7)), ("wasp".to_owned(), "7".to_owned()));
        let text = serde_json::to_string(&found).unwrap();
        assert!(!text.contains("roc_auc"), "{text}");
        assert_eq!(serde_json::from_str::<Quality>(&text).unwrap(), found);
    }
}

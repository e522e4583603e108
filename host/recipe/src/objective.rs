//! Learning task, loss and metric of a run.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use eciton_types::signature::TargetKind;

/// Learning task, which is the kind of targets that the model predicts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TaskType {
    /// One class per vertex.
    #[default]
    Classification,
    /// Several labels per vertex, each of which is true or false.
    MultiLabel,
    /// One or more real numbers per vertex.
    Regression,
    /// Links between vertices, predicted from the features of the vertices and the other links.
    LinkPrediction,
}

impl TaskType {
    /// All learning tasks, with their names in recipes.
    pub const ALL: [(&'static str, Self); 4] = [
        ("classification", Self::Classification),
        ("multi-label", Self::MultiLabel),
        ("regression", Self::Regression),
        ("link-prediction", Self::LinkPrediction),
    ];

    /// Returns the name of the learning task in recipes, for instance `multi-label`.
    #[must_use]
    pub fn name(self) -> &'static str {
        name(&Self::ALL, self)
    }

    /// Returns the word for the columns of the scores, for instance `classes`, for messages.
    #[must_use]
    pub const fn columns(self) -> &'static str {
        match self {
            Self::Classification => "classes",
            Self::MultiLabel => "labels",
            Self::Regression => "numbers",
            Self::LinkPrediction => "dimensions",
        }
    }
}

/// Loss that training minimises. It is a mean over all known targets of the training vertices, or
/// over pairs of vertices in link prediction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Loss {
    /// Cross-entropy of the softmax over classes, for one class per vertex.
    #[default]
    CrossEntropy,
    /// Binary cross-entropy of the sigmoid of each score. In link prediction, the score is the
    /// inner product of two rows.
    BinaryCrossEntropy,
    /// Squared difference between the predicted and the known number.
    SquaredError,
    /// Absolute difference between the predicted and the known number.
    AbsoluteError,
}

impl Loss {
    /// All losses, with their names in recipes and in the kernel `head`.
    pub const ALL: [(&'static str, Self); 4] = [
        ("cross-entropy", Self::CrossEntropy),
        ("binary-cross-entropy", Self::BinaryCrossEntropy),
        ("squared-error", Self::SquaredError),
        ("absolute-error", Self::AbsoluteError),
    ];

    /// Returns the name of the loss function in recipes.
    #[must_use]
    pub fn name(self) -> &'static str {
        name(&Self::ALL, self)
    }

    /// Returns the kind of targets that the loss compares scores with.
    #[must_use]
    pub const fn targets(self) -> TargetKind {
        match self {
            Self::CrossEntropy => TargetKind::Classes,
            Self::BinaryCrossEntropy | Self::SquaredError | Self::AbsoluteError => TargetKind::Values,
        }
    }

    /// Returns the losses that a task supports, with the default first.
    #[must_use]
    pub const fn for_task(task: TaskType) -> &'static [Self] {
        match task {
            TaskType::Classification => &[Self::CrossEntropy],
            TaskType::MultiLabel | TaskType::LinkPrediction => &[Self::BinaryCrossEntropy],
            TaskType::Regression => &[Self::SquaredError, Self::AbsoluteError],
        }
    }

    /// Returns `wanted`, or the default loss of the task if it is `None`.
    ///
    /// # Errors
    /// Returns [`Error::Objective`] if the task does not support `wanted`.
    pub fn choose(wanted: Option<Self>, task: TaskType) -> Result<Self> {
        choose("model.loss", wanted, Self::for_task(task), task.name(), Self::name)
    }
}

/// Metric that measures the quality of a model on a part of the split. In link prediction, it is
/// computed on held-out links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Share of the vertices whose class is predicted correctly. In multi-label tasks, it is the
    /// share of correctly predicted labels.
    #[default]
    Accuracy,
    /// Area under the receiver operating characteristic curve. In multi-label tasks, it is the mean
    /// over labels.
    RocAuc,
    /// Average precision, which estimates the area under the precision-recall curve. In multi-label
    /// tasks, it is the mean over labels.
    AveragePrecision,
    /// Micro-averaged F1 score, computed from the total counts over all labels.
    F1Micro,
    /// Macro-averaged F1 score, which is the unweighted mean over all classes or labels.
    F1Macro,
    /// Balanced accuracy, which is the mean over classes of the share of correctly predicted
    /// vertices.
    BalancedAccuracy,
    /// Mean of `-log p` in nats, where `p` is the predicted probability of the true class. Its
    /// exponential is the perplexity.
    CrossEntropy,
    /// Mean absolute difference between predicted and known numbers.
    MeanAbsoluteError,
    /// Root of the mean squared difference between predicted and known numbers.
    RootMeanSquaredError,
    /// Hits@10, which is the share of held-out links that score higher than the 10th best pair
    /// without a link (Hu et al. 2020, "Open graph benchmark").
    #[serde(rename = "hits@10")]
    Hits10,
    /// Hits@20, which is the share of held-out links that score higher than the 20th best pair
    /// without a link.
    #[serde(rename = "hits@20")]
    Hits20,
    /// Hits@50, which is the share of held-out links that score higher than the 50th best pair
    /// without a link.
    #[serde(rename = "hits@50")]
    Hits50,
    /// Hits@100, which is the share of held-out links that score higher than the 100th best pair
    /// without a link.
    #[serde(rename = "hits@100")]
    Hits100,
    /// Mean reciprocal rank (MRR) of held-out links. Each link is ranked among pairs without a link
    /// that share one of its ends (Hu et al. 2020).
    MeanReciprocalRank,
}

impl Metric {
    /// All metrics, with their names in recipes, for instance `roc-auc`.
    pub const ALL: [(&'static str, Self); 14] = [
        ("accuracy", Self::Accuracy),
        ("roc-auc", Self::RocAuc),
        ("average-precision", Self::AveragePrecision),
        ("f1-micro", Self::F1Micro),
        ("f1-macro", Self::F1Macro),
        ("balanced-accuracy", Self::BalancedAccuracy),
        ("cross-entropy", Self::CrossEntropy),
        ("mean-absolute-error", Self::MeanAbsoluteError),
        ("root-mean-squared-error", Self::RootMeanSquaredError),
        ("hits@10", Self::Hits10),
        ("hits@20", Self::Hits20),
        ("hits@50", Self::Hits50),
        ("hits@100", Self::Hits100),
        ("mean-reciprocal-rank", Self::MeanReciprocalRank),
    ];

    /// Returns the name of the metric in recipes, for instance `roc-auc`.
    #[must_use]
    pub fn name(self) -> &'static str {
        name(&Self::ALL, self)
    }

    /// Returns true if the metric is a share between 0 and 1, for which higher is better. All other
    /// metrics are errors, for which lower is better.
    #[must_use]
    pub const fn is_share(self) -> bool {
        !matches!(self, Self::CrossEntropy | Self::MeanAbsoluteError | Self::RootMeanSquaredError)
    }

    /// Returns a value of the metric, negated if lower is better. The result is always better if it
    /// is higher.
    #[must_use]
    pub fn goodness(self, found: f64) -> f64 {
        if self.is_share() { found } else { -found }
    }

    /// Returns `wanted`, or the default metric of the task and number of classes if it is `None`.
    ///
    /// # Errors
    /// Returns [`Error::Objective`] if the task does not support `wanted`.
    pub fn choose(wanted: Option<Self>, task: TaskType, classes: u32) -> Result<Self> {
        let all: &[Self] = match task {
            TaskType::Classification if classes == 2 => &[
                Self::Accuracy,
                Self::BalancedAccuracy,
                Self::F1Macro,
                Self::F1Micro,
                Self::RocAuc,
                Self::AveragePrecision,
                Self::CrossEntropy,
            ],
            TaskType::Classification => {
                &[Self::Accuracy, Self::BalancedAccuracy, Self::F1Macro, Self::F1Micro, Self::CrossEntropy]
            }
            TaskType::MultiLabel => {
                &[Self::RocAuc, Self::AveragePrecision, Self::F1Micro, Self::F1Macro, Self::Accuracy]
            }
            TaskType::Regression => &[Self::MeanAbsoluteError, Self::RootMeanSquaredError],
            TaskType::LinkPrediction => &[
                Self::RocAuc,
                Self::AveragePrecision,
                Self::Hits10,
                Self::Hits20,
                Self::Hits50,
                Self::Hits100,
                Self::MeanReciprocalRank,
            ],
        };
        let task = match task {
            TaskType::Classification => format!("classification of {classes} classes"),
            other => other.name().to_owned(),
        };
        choose("run.metric", wanted, all, &task, Self::name)
    }
}

fn name<T: PartialEq>(all: &[(&'static str, T)], of: T) -> &'static str {
    all.iter().find(|(_, one)| *one == of).map_or("", |(name, _)| name)
}

fn choose<T: Copy + PartialEq + Default>(
    key: &'static str,
    wanted: Option<T>,
    all: &[T],
    task: &str,
    name: fn(T) -> &'static str,
) -> Result<T> {
    match wanted {
        None => Ok(all.first().copied().unwrap_or_default()),
        Some(wanted) if all.contains(&wanted) => Ok(wanted),
        Some(wanted) => Err(Error::Objective {
            key,
            found: name(wanted),
            task: task.to_owned(),
            allowed: all.iter().map(|&one| name(one)).collect::<Vec<_>>().join(" or "),
        }),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_task_brings_its_loss_and_metric() {
        let of = |task, classes| {
            let loss = Loss::choose(None, task).unwrap();
            (loss.name(), loss.targets(), Metric::choose(None, task, classes).unwrap().name())
        };
        assert_eq!(of(TaskType::Classification, 7), ("cross-entropy", TargetKind::Classes, "accuracy"));
        assert_eq!(of(TaskType::MultiLabel, 7), ("binary-cross-entropy", TargetKind::Values, "roc-auc"));
        assert_eq!(of(TaskType::Regression, 1), ("squared-error", TargetKind::Values, "mean-absolute-error"));
        assert_eq!(of(TaskType::LinkPrediction, 16), ("binary-cross-entropy", TargetKind::Values, "roc-auc"));
    }

    #[test]
    fn what_a_task_does_not_take_is_refused() {
        let text = Loss::choose(Some(Loss::SquaredError), TaskType::MultiLabel).unwrap_err().to_string();
        assert_eq!(
            text,
            "`model.loss` is squared-error, but the task is multi-label: use binary-cross-entropy"
        );
        let auc = |classes| Metric::choose(Some(Metric::RocAuc), TaskType::Classification, classes);
        assert_eq!(auc(2).unwrap(), Metric::RocAuc);
        let text = auc(3).unwrap_err().to_string();
        assert!(
            text.contains("classification of 3 classes")
                && text.contains("accuracy or balanced-accuracy or f1-macro or f1-micro"),
            "{text}"
        );
        let text = Metric::choose(Some(Metric::Accuracy), TaskType::Regression, 1).unwrap_err().to_string();
        assert!(text.contains("mean-absolute-error or root-mean-squared-error"), "{text}");
    }

    #[test]
    fn more_is_better() {
        assert!(Metric::Accuracy.goodness(0.9) > Metric::Accuracy.goodness(0.8));
        assert!(Metric::MeanAbsoluteError.goodness(0.8) > Metric::MeanAbsoluteError.goodness(0.9));
    }
}

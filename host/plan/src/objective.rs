//! What is to be learnt, how far off a model is, and how good it is.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::signature::TargetKind;

/// What is known of the data's vertices, and to be predicted of others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TaskType {
    /// One class a vertex.
    #[default]
    Classification,
    /// Labels, each of which holds or not.
    MultiLabel,
    /// Numbers.
    Regression,
    /// Which vertices are linked: nothing is known of a vertex but its features.
    LinkPrediction,
}

impl TaskType {
    /// All, with their names.
    pub const ALL: [(&'static str, Self); 4] = [
        ("classification", Self::Classification),
        ("multi-label", Self::MultiLabel),
        ("regression", Self::Regression),
        ("link-prediction", Self::LinkPrediction),
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        name(&Self::ALL, self)
    }

    /// What its scores' columns are, for messages.
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

/// What training makes small: a mean over the training vertices, of every value that is known of
/// them; of links a mean over pairs of vertices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Loss {
    /// Of the softmax over classes.
    #[default]
    CrossEntropy,
    /// Of each label's sigmoid; of links that of the inner product of two rows.
    BinaryCrossEntropy,
    /// The square of what a number is off by.
    SquaredError,
    /// What a number is off by.
    AbsoluteError,
}

impl Loss {
    /// All, with their names, which kernel `head` takes.
    pub const ALL: [(&'static str, Self); 4] = [
        ("cross-entropy", Self::CrossEntropy),
        ("binary-cross-entropy", Self::BinaryCrossEntropy),
        ("squared-error", Self::SquaredError),
        ("absolute-error", Self::AbsoluteError),
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        name(&Self::ALL, self)
    }

    /// What scores are compared with.
    #[must_use]
    pub const fn targets(self) -> TargetKind {
        match self {
            Self::CrossEntropy => TargetKind::Classes,
            Self::BinaryCrossEntropy | Self::SquaredError | Self::AbsoluteError => TargetKind::Values,
        }
    }

    /// Those that a task takes, the first where none is asked for.
    #[must_use]
    pub const fn of(task: TaskType) -> &'static [Self] {
        match task {
            TaskType::Classification => &[Self::CrossEntropy],
            TaskType::MultiLabel | TaskType::LinkPrediction => &[Self::BinaryCrossEntropy],
            TaskType::Regression => &[Self::SquaredError, Self::AbsoluteError],
        }
    }

    /// The one for a task.
    ///
    /// # Errors
    /// [`Error::Objective`] where the task does not take what is wanted.
    pub fn choose(wanted: Option<Self>, task: TaskType) -> Result<Self> {
        choose("model.loss", wanted, Self::of(task), task.name(), Self::name)
    }
}

/// How good a model is, over the vertices of a split; of links over those that were held out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// The share of vertices whose class is predicted; of all known labels that are, where there
    /// are several.
    #[default]
    Accuracy,
    /// The area under the receiver operating characteristic; its mean over labels.
    RocAuc,
    /// The average precision, which the area under the precision-recall curve is estimated by; its
    /// mean over labels.
    AveragePrecision,
    /// F1 of all labels together.
    F1Micro,
    /// The mean over classes of their F1, whatever their sizes; of several labels the mean over
    /// labels.
    F1Macro,
    /// The mean over classes of the share of their vertices that is told.
    BalancedAccuracy,
    /// The mean of `-log p` of each row's class, in nats; its exponential is the perplexity.
    CrossEntropy,
    /// The mean of what numbers are off by.
    MeanAbsoluteError,
    /// The root of the mean square of that.
    RootMeanSquaredError,
    /// The share of held-out links that score above all pairs without a link but 9 (Hu et al. 2020,
    /// "Open graph benchmark": Hits@K).
    #[serde(rename = "hits@10")]
    Hits10,
    /// The same but 19.
    #[serde(rename = "hits@20")]
    Hits20,
    /// The same but 49.
    #[serde(rename = "hits@50")]
    Hits50,
    /// The same but 99.
    #[serde(rename = "hits@100")]
    Hits100,
    /// The mean of 1 / rank of a held-out link among pairs of one of its ends (the same, MRR).
    MeanReciprocalRank,
}

impl Metric {
    /// All, with their names.
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

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        name(&Self::ALL, self)
    }

    /// Returns whether it is a share of 1, and the higher the better; else the lower.
    #[must_use]
    pub const fn is_share(self) -> bool {
        !matches!(self, Self::CrossEntropy | Self::MeanAbsoluteError | Self::RootMeanSquaredError)
    }

    /// `found`, so that more is better.
    #[must_use]
    pub fn goodness(self, found: f64) -> f64 {
        if self.is_share() { found } else { -found }
    }

    /// The one for a task over so many classes.
    ///
    /// # Errors
    /// [`Error::Objective`] where the task does not take what is wanted.
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
            "`model.loss` is squared-error, but the task is multi-label: take binary-cross-entropy"
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

//! Types of tasks, from labels and from losses.

use eciton_graph::dataset::Labels;
use eciton_recipe::{Loss, TaskType};

/// Returns the type of task that the labels define.
#[must_use]
pub fn task(labels: &Labels) -> TaskType {
    match labels {
        Labels::Classes { .. } => TaskType::Classification,
        Labels::Flags(_) => TaskType::MultiLabel,
        Labels::Numbers(_) => TaskType::Regression,
    }
}

/// Returns the task that a loss is for.
pub(crate) fn task_of_loss(loss: Loss) -> TaskType {
    match loss {
        Loss::CrossEntropy => TaskType::Classification,
        Loss::BinaryCrossEntropy => TaskType::MultiLabel,
        Loss::SquaredError | Loss::AbsoluteError => TaskType::Regression,
    }
}

//! Types of learning tasks, as determined by labels and by losses.

use eciton_graph::dataset::Labels;
use eciton_recipe::{Loss, TaskType};

/// Returns the learning task for labels of this type.
#[must_use]
pub fn task(labels: &Labels) -> TaskType {
    match labels {
        Labels::Classes { .. } => TaskType::Classification,
        Labels::Flags(_) => TaskType::MultiLabel,
        Labels::Numbers(_) => TaskType::Regression,
    }
}

/// Returns the learning task for which a loss is defined.
pub(crate) fn task_of_loss(loss: Loss) -> TaskType {
    match loss {
        Loss::CrossEntropy => TaskType::Classification,
        Loss::BinaryCrossEntropy => TaskType::MultiLabel,
        Loss::SquaredError | Loss::AbsoluteError => TaskType::Regression,
    }
}

//! Learning tasks that labels and loss functions imply.

use eciton_graph::dataset::Labels;
use eciton_recipe::{Loss, TaskType};

/// Returns the learning task that labels of this form are for.
#[must_use]
pub fn task(labels: &Labels) -> TaskType {
    match labels {
        Labels::Classes { .. } => TaskType::Classification,
        Labels::Flags(_) => TaskType::MultiLabel,
        Labels::Numbers(_) => TaskType::Regression,
    }
}

/// Returns the learning task that a loss function is for.
pub(crate) fn task_of_loss(loss: Loss) -> TaskType {
    match loss {
        Loss::CrossEntropy => TaskType::Classification,
        Loss::BinaryCrossEntropy => TaskType::MultiLabel,
        Loss::SquaredError | Loss::AbsoluteError => TaskType::Regression,
    }
}

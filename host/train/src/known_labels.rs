//! Known labels of a run's rows, in the order of the data set.

use eciton_graph::dataset::{Labels, NO_LABEL};
use eciton_runs::decisions::Known;

use crate::data::Inputs;
use crate::error::Result;

/// Returns the known labels of all rows, and the part of the split that each row belongs to. Both
/// are in the order of the data set.
pub(crate) fn known_labels(inputs: &Inputs) -> Result<Known> {
    if inputs.links.is_some() {
        return Ok(Known::default());
    }
    let (labels, split) = inputs.learnt();
    let rows = labels.rows();
    let (width, values) = match labels {
        Labels::Classes { of, .. } => {
            let class = |&class: &u32| if class == NO_LABEL { f32::NAN } else { class as f32 };
            (1, of.iter().map(class).collect::<Vec<f32>>())
        }
        Labels::Flags(values) | Labels::Numbers(values) => {
            (values.columns() as usize, values.as_slice().to_vec())
        }
    };
    let mut parts = vec![0.0; rows];
    for (number, part) in [(1.0, &split.train), (2.0, &split.validation), (3.0, &split.test)] {
        for slot in part.iter() {
            if let Some(slot) = parts.get_mut(*slot as usize) {
                *slot = number;
            }
        }
    }
    // All results of a run are returned in the order of the data set.
    let labels = inputs.vertices.rows_back(values, width)?;
    let parts = inputs.vertices.rows_back(parts, 1)?.into_iter().map(|part| part as u8).collect();
    let ends = inputs.vertices.ends();
    Ok(Known { names: inputs.dataset.names.labels.clone(), labels, parts, ends })
}

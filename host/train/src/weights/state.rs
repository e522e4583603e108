//! The state of the weights between two epochs: what the next step depends on besides gradients.

use eciton_plan::Version;
use eciton_tensor::stride_for;

use super::{Weight, Weights, version};
use crate::error::{Error, Result, at};

/// Of each parameter its values and the optimiser's moments (all row-major without padding), and the
/// steps taken. Random numbers are functions of seed, purpose and epoch, so no generator has a state.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct WeightState {
    /// Optimiser steps taken: what Adam's bias correction counts.
    pub steps: u32,
    pub values: Vec<Vec<f32>>,
    /// The values before the last step, where the next round reads these (`2bw`).
    pub before: Option<Vec<Vec<f32>>>,
    /// Means of gradients, or momenta.
    pub first: Vec<Vec<f32>>,
    /// Means of their squares; zeros where the optimiser has none.
    pub second: Vec<Vec<f32>>,
}

impl Weights {
    /// The state after the last step.
    pub(crate) fn state(&self) -> Result<WeightState> {
        let (values, steps) = (self.all_values()?, self.steps);
        let first = self.all.iter().map(|weight| packed(weight.columns(), &weight.first)).collect();
        let second = self.all.iter().map(|weight| packed(weight.columns(), &weight.second)).collect();
        let earlier = self.newest.0.checked_sub(1).map(Version).filter(|_| self.delayed);
        let earlier = earlier.and_then(|version| self.find(version).ok());
        let earlier = earlier.map(|(place, _)| self.values_at(place)).transpose()?;
        Ok(WeightState { steps, values, before: earlier, first, second })
    }

    /// Whether the values before the newest are there for the next round.
    pub(crate) fn has_before(&self) -> bool {
        let earlier = self.newest.0.checked_sub(1).map(Version);
        self.delayed && earlier.is_some_and(|version| self.find(version).is_ok())
    }

    fn values_at(&self, place: usize) -> Result<Vec<Vec<f32>>> {
        let values = |weight: &Weight| version(&weight.values, place)?.to_vec().map_err(at("parameters"));
        self.all.iter().map(values).collect()
    }

    /// Goes on from a state. Parameters must be as many, each of as many values.
    pub(crate) fn restore(&mut self, state: &WeightState) -> Result<()> {
        // An epoch is a step, and a step a version.
        self.begin(Version(u64::from(state.steps)));
        for (parameter, values) in state.values.iter().enumerate() {
            self.set(parameter, values)?;
        }
        if let (Some(before), Some(earlier)) = (&state.before, self.newest.0.checked_sub(1).map(Version)) {
            let place = self.place(earlier);
            for (parameter, values) in before.iter().enumerate() {
                self.write(parameter, place, values)?;
            }
            self.hold(earlier);
        }
        for ((weight, first), second) in self.all.iter_mut().zip(&state.first).zip(&state.second) {
            weight.first = padded(weight, first)?;
            weight.second = padded(weight, second)?;
        }
        self.steps = state.steps;
        Ok(())
    }
}

/// Rows without their padding.
pub(super) fn packed(columns: usize, padded: &[f32]) -> Vec<f32> {
    padded.chunks(stride_for(columns).max(1)).flat_map(|row| row.iter().take(columns).copied()).collect()
}

/// Rows with padding, as a parameter's values have it.
fn padded(weight: &Weight, packed: &[f32]) -> Result<Vec<f32>> {
    let (rows, columns) = weight.values.first().map_or((0, 0), |values| (values.rows(), values.columns()));
    if packed.len() != rows * columns {
        return Err(Error::Internal(format!("{} moments for {rows} x {columns} values", packed.len())));
    }
    let mut padded = vec![0.0; rows * stride_for(columns)];
    let places = padded.chunks_mut(stride_for(columns).max(1));
    for (place, row) in places.zip(packed.chunks(columns.max(1))) {
        place[..row.len()].copy_from_slice(row);
    }
    Ok(padded)
}

//! State of the weights and the optimiser between two epochs. Training continues from it with the
//! same results.

use std::borrow::Cow;

use eciton_tensor::Buffer;
use eciton_types::Version;

use super::{Parameter, Weights, internal};
use crate::error::{Result, at};

/// Values and optimiser moments of all parameters, row-major and without padding. Random numbers
/// are functions of seed, purpose and epoch, so no generator state is needed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct WeightState {
    /// Number of optimiser steps so far. The bias correction of Adam depends on it.
    pub steps: u32,
    /// Values of each parameter after the last step.
    pub values: Vec<Vec<f32>>,
    /// Values of each parameter before the last step, if the next round reads them (schedule
    /// `2bw`).
    pub before: Option<Vec<Vec<f32>>>,
    /// First optimiser moment of each parameter, which is the running mean of gradients (Adam) or
    /// the momentum (SGD).
    pub first: Vec<Vec<f32>>,
    /// Second optimiser moment of each parameter, which is the running mean of squared gradients.
    /// Zeros if the optimiser has no second moment.
    pub second: Vec<Vec<f32>>,
}

impl Weights {
    /// Returns the state after the last optimiser step.
    pub(crate) fn state(&self) -> Result<WeightState> {
        let (values, steps) = (self.all_values()?, self.steps());
        let [first, second] = [0, 1].map(|moment| self.moments(moment));
        let before = self.before().map(|version| self.all_values_of(version)).transpose()?;
        Ok(WeightState { steps, values, before, first: first?, second: second? })
    }

    /// Returns true if the next round reads the version before the newest one, and this version is
    /// available.
    pub(crate) fn has_before(&self) -> bool {
        self.before().is_some()
    }

    /// Returns the version before the newest one, if rounds read it and it is available.
    pub(super) fn before(&self) -> Option<Version> {
        let before = self.newest.0.checked_sub(1).map(Version).filter(|_| self.delayed);
        before.filter(|version| self.held.contains_key(version))
    }

    /// Returns one optimiser moment of all parameters, row-major and without padding. All values
    /// are 0 if the algorithm does not have this moment.
    fn moments(&self, moment: usize) -> Result<Vec<Vec<f32>>> {
        let of = |parameter: &Parameter| match parameter.moments().get(moment) {
            Some(moment) => moment.to_vec().map_err(at("parameters")),
            None => Ok(vec![0.0; parameter.shape().0 * parameter.shape().1]),
        };
        self.parameters.iter().map(|(_, parameter)| of(parameter)).collect()
    }

    /// Restores a state. It must have the parameters of the program, each with the same number of
    /// values.
    pub(crate) fn restore(&mut self, state: &WeightState) -> Result<()> {
        let all = [Some(&state.values), Some(&state.first), Some(&state.second), state.before.as_ref()];
        let values = |kind: usize, parameter: usize| {
            let all = all.get(kind).copied().flatten();
            Cow::from(all.and_then(|all| all.get(parameter)).map_or(&[][..], |values| values))
        };
        self.restore_each((state.steps, state.before.is_some()), &values)
    }

    /// Restores the state after `steps` optimiser steps, one matrix at a time. `values` returns a
    /// matrix of a parameter by kind: the values, the two moments, and the values before the last
    /// step if `has_before` is true.
    pub(crate) fn restore_each<'a>(
        &mut self,
        (steps, has_before): (u32, bool),
        values: &dyn Fn(usize, usize) -> Cow<'a, [f32]>,
    ) -> Result<()> {
        // Each optimiser step makes one version.
        let version = Version(u64::from(steps));
        self.begin(version)?;
        let before = version.0.checked_sub(1).map(Version).filter(|_| has_before);
        before.into_iter().for_each(|before| self.hold(before));
        for (number, parameter) in self.parameters.iter_mut().enumerate() {
            let (rows, columns) = parameter.shape();
            let buffer = |kind: usize| {
                Buffer::from_rows(rows, columns, &values(kind, number)).map_err(at("parameters"))
            };
            if let Some(before) = before {
                parameter.take(before.0, buffer(3)?, self.versions).map_err(internal)?;
            }
            parameter.take(version.0, buffer(0)?, self.versions).map_err(internal)?;
            for moment in 1..=self.algorithm.moments() {
                parameter.take_moment(buffer(moment)?).map_err(internal)?;
            }
        }
        Ok(())
    }
}

//! The parameters that one process (the host or a worker) stores: values by version, optimiser
//! moments, and updates.
//!
//! Gradients are clipped before weight decay is added. First, all gradients are multiplied by
//! `clip_norm / (norm + 1e-6)` if this factor is below 1, as in `torch.nn.utils.clip_grad_norm_`.
//! `norm` is the L2 norm over the gradients of all parameters. Then each value is limited to
//! [-`clip_value`, `clip_value`], as in `torch.nn.utils.clip_grad_value_`.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use eciton_recipe::{Algorithm, Optimiser};
use eciton_tensor::{Buffer, Matrix, bytes_of, parallel, stride_for};

use super::rule::Rule;
use super::summing::GradientSums;

/// Number of parameter values that are updated at a time. The values, moments and gradients of a
/// block fit into the first-level cache.
const BLOCK: usize = 2048;
/// Number of multiply-adds that take the time of updating a value, which is read from memory.
const WORK: usize = 16;
/// Constant that is added to the gradient norm, so that a norm of 0 causes no division by zero.
const EPSILON: f64 = 1e-6;

type Result<T> = std::result::Result<T, String>;

fn said(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Reason why an optimiser step was not taken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Refused {
    /// The norm of all gradients, which is needed for clipping, is not finite. The value is this
    /// norm.
    Norm(f64),
    /// The gradient of a parameter is not finite. The value is the number of the parameter.
    Gradient(usize),
}

/// One optimiser step, which updates all parameters from version `to - 1` to version `to`.
pub(crate) struct Step {
    /// Version after the step, which is also the number of the step, counted from 1.
    to: u64,
    rule: Rule,
    /// Number of moments that the algorithm stores per value.
    moments: usize,
    /// Factor that gradients are multiplied by to clip their norm. `None` if the norm is not
    /// clipped.
    factor: Option<f32>,
    /// Maximum absolute value that each element of a gradient is clipped to. `None` if elements are
    /// not clipped.
    most: Option<f32>,
}

impl Step {
    /// Creates the step of `algorithm` to version `to` with the learning rate `rate`. Gradients are
    /// multiplied by `factor`, and their elements are then clipped to [-`most`, `most`].
    ///
    /// # Errors
    /// Returns a message if the version is 2^32 or above, because steps have 32-bit numbers.
    pub(crate) fn new(
        (algorithm, rate): (Algorithm, f64),
        to: u64,
        (factor, most): (Option<f32>, Option<f32>),
    ) -> Result<Self> {
        let number = u32::try_from(to).map_err(said)?;
        Ok(Self { to, rule: Rule::new(algorithm, rate, number), moments: algorithm.moments(), factor, most })
    }

    /// Returns the version of the values after the step.
    pub(crate) fn to(&self) -> u64 {
        self.to
    }

    /// Updates a parameter's values and optimiser moments in place. A moment that the algorithm
    /// does not have must be empty. Returns false if the gradient is not finite. The update then
    /// ends before the first block in which it is not.
    fn apply(
        &self,
        decay: f32,
        values: &mut [f32],
        gradient: &[f32],
        [first, second]: [&mut [f32]; 2],
    ) -> bool {
        let mut clipped = [0.0; BLOCK];
        for (at, gradient) in (0..).step_by(BLOCK).zip(gradient.chunks(BLOCK)) {
            let block = at..at + gradient.len();
            let gradient = match (self.factor, self.most) {
                (None, None) => gradient,
                (factor, most) => {
                    for (to, value) in clipped.iter_mut().zip(gradient) {
                        let scaled = factor.map_or(*value, |factor| value * factor);
                        *to = most.map_or(scaled, |most| scaled.clamp(-most, most));
                    }
                    &clipped[..gradient.len()]
                }
            };
            if !is_finite(gradient) {
                return false;
            }
            let [values, first, second] = [&mut *values, &mut *first, &mut *second]
                .map(|all: &mut [f32]| all.get_mut(block.clone()).unwrap_or_default());
            self.rule.step(decay, values, gradient, first, second);
        }
        true
    }
}

/// Returns true if all values are finite. The loop has no branch, so that the compiler can
/// vectorise it.
fn is_finite(values: &[f32]) -> bool {
    values.iter().fold(true, |all, value| all & value.is_finite())
}

/// A parameter with its values by version and its optimiser moments.
#[derive(Debug)]
pub(crate) struct Parameter {
    shape: (usize, usize),
    extents: Vec<u32>,
    uses: Vec<u32>,
    decay: Option<f32>,
    values: BTreeMap<u64, Buffer>,
    moments: Vec<Buffer>,
}

impl Parameter {
    /// Creates a parameter of `shape` (rows, columns) without values. `extents` are the extents of
    /// one row. `uses` are the numbers of all uses of the parameter, of which the first is its own
    /// number. `decay` is the weight decay. If it is `None`, the parameter is frozen.
    pub(crate) fn new(shape: (usize, usize), extents: Vec<u32>, uses: Vec<u32>, decay: Option<f32>) -> Self {
        Self { shape, extents, uses, decay, values: BTreeMap::new(), moments: Vec::new() }
    }

    /// Returns the number of rows and columns of the parameter.
    pub(crate) fn shape(&self) -> (usize, usize) {
        self.shape
    }

    /// Returns the numbers of all uses of the parameter. The first one is the number of the
    /// parameter itself.
    pub(crate) fn uses(&self) -> &[u32] {
        &self.uses
    }

    /// Returns the extents of one row of the parameter.
    pub(crate) fn extents(&self) -> &[u32] {
        &self.extents
    }

    /// Returns the weight decay of the parameter. Returns `None` if the parameter is frozen.
    pub(crate) fn decay(&self) -> Option<f32> {
        self.decay
    }

    /// Returns true if the parameter is frozen, which means that optimiser steps do not change it.
    pub(crate) fn is_frozen(&self) -> bool {
        self.decay.is_none()
    }

    /// Returns the newest version that has values. Returns `None` if no version has any.
    pub(crate) fn newest(&self) -> Option<u64> {
        self.values.last_key_value().map(|(version, _)| *version)
    }

    /// Returns the number of versions that have values.
    pub(crate) fn versions(&self) -> usize {
        self.values.len()
    }

    /// Returns the values of the parameter at `version`. Returns `None` if they are not stored.
    pub(crate) fn values(&self, version: u64) -> Option<&Buffer> {
        self.values.get(&version)
    }

    /// Returns the optimiser moments at the newest version: the first moment, followed by the
    /// second one if the algorithm has it.
    pub(crate) fn moments(&self) -> &[Buffer] {
        &self.moments
    }

    /// Returns the values of the parameter at `version`, as the matrix that kernels read.
    pub(crate) fn matrix(&self, version: u64) -> Result<Matrix> {
        let values = self.values.get(&version).ok_or_else(|| format!("no values of version {version}"))?;
        let lease = values.read(0..values.rows()).map_err(said)?;
        Matrix::from(lease).with_extents(&self.extents).map_err(said)
    }

    /// Makes `version` the only version, and returns its values. If it has no values, it gets those
    /// of the newest version, or zeros if there are none.
    pub(crate) fn begin(&mut self, version: u64) -> Result<&Buffer> {
        let mut values = std::mem::take(&mut self.values);
        let known = values.remove(&version).or_else(|| values.pop_last().map(|(_, buffer)| buffer));
        let buffer = known.map_or_else(|| self.buffer(), Ok)?;
        Ok(self.values.entry(version).or_insert(buffer))
    }

    /// Sets the values of `version`, and removes the optimiser moments. Values of other versions
    /// are removed. If `kept` is above 1, those of the version before remain.
    pub(crate) fn take(&mut self, version: u64, values: Buffer, kept: usize) -> Result<()> {
        self.fits(&values)?;
        self.values.retain(|of, _| kept > 1 && *of + 1 == version);
        self.values.insert(version, values);
        self.moments.clear();
        Ok(())
    }

    /// Appends an optimiser moment. The first moment must be appended before the second.
    pub(crate) fn take_moment(&mut self, moment: Buffer) -> Result<()> {
        self.fits(&moment)?;
        self.moments.push(moment);
        Ok(())
    }

    /// Sets all optimiser moments of `algorithm` to zero.
    pub(crate) fn clear_moments(&mut self, algorithm: Algorithm) -> Result<()> {
        self.moments = (0..algorithm.moments()).map(|_| self.buffer()).collect::<Result<_>>()?;
        Ok(())
    }

    /// Returns the CRC-32 over the newest values and the optimiser moments. The host compares it
    /// between workers with replicas.
    pub(crate) fn digest(&self) -> Result<u32> {
        let newest = self.newest().and_then(|version| self.values(version)).ok_or("it has no values")?;
        let mut hasher = crc32fast::Hasher::new();
        for matrix in std::iter::once(newest).chain(self.moments()) {
            let rows = matrix.read(0..matrix.rows()).map_err(said)?;
            let view = rows.view();
            (0..view.rows()).for_each(|row| hasher.update(bytes_of(view.row(row))));
        }
        Ok(hasher.finalize())
    }

    /// Returns a new buffer of zeros with the shape of the parameter.
    pub(crate) fn buffer(&self) -> Result<Buffer> {
        Buffer::zeroed(self.shape.0, self.shape.1).map_err(said)
    }

    fn fits(&self, values: &Buffer) -> Result<()> {
        let ((rows, columns), found) = (self.shape, (values.rows(), values.columns()));
        if found != self.shape {
            return Err(format!("found {} x {} values, expected {rows} x {columns}", found.0, found.1));
        }
        Ok(())
    }

    /// Updates the values to version `step.to`, unless they have this version already. `kept` is
    /// the number of versions to store. Returns false if the gradient is not finite. The values
    /// before the update then remain if `kept` is above 1.
    fn update(&mut self, step: &Step, gradient: Option<&[f32]>, kept: usize) -> Result<bool> {
        let newest = self.newest().ok_or("it has no values")?;
        if newest == step.to {
            return Ok(true);
        }
        if newest + 1 != step.to {
            return Err(format!("an update to version {} cannot use values of version {newest}", step.to));
        }
        if kept > 1 {
            let next = self.next(newest, kept)?;
            self.values.insert(step.to, next);
        }
        let finite = gradient.map_or(Ok(true), |gradient| self.apply(step, gradient))?;
        match (kept > 1, finite) {
            (true, true) | (false, false) => {}
            (true, false) => drop(self.values.remove(&step.to)),
            (false, true) => drop(self.begin(step.to)?),
        }
        Ok(finite)
    }

    /// Updates the values with the gradient sum of `round`. A frozen parameter keeps its values.
    /// Returns false if the gradient is not finite.
    fn update_with(
        &mut self,
        sums: Option<&GradientSums>,
        round: u32,
        step: &Step,
        kept: usize,
    ) -> Result<bool> {
        let Some(sums) = sums.filter(|_| !self.is_frozen()) else { return self.update(step, None, kept) };
        let uses = std::mem::take(&mut self.uses);
        let updated = sums.whole(round, &uses, |gradient| self.update(step, Some(gradient), kept));
        self.uses = uses;
        updated?
    }

    /// Returns a copy of the values of version `newest`. If `kept` versions are stored already, it
    /// reuses the buffer of the oldest one.
    fn next(&mut self, newest: u64, kept: usize) -> Result<Buffer> {
        let oldest = if self.values.len() < kept { None } else { self.values.pop_first() };
        let next = oldest.map_or_else(|| self.buffer(), |(_, buffer)| Ok(buffer))?;
        let newest = self.values.get(&newest).ok_or("it has no values")?;
        let from = newest.read(0..newest.rows()).map_err(said)?;
        let mut to = next.write(0..next.rows()).map_err(said)?;
        to.view_mut().data_mut().copy_from_slice(from.view().data());
        drop(to);
        Ok(next)
    }

    /// Applies a step to the newest values in place. Returns false if the gradient is not finite.
    fn apply(&self, step: &Step, gradient: &[f32]) -> Result<bool> {
        let Some(decay) = self.decay else { return Ok(true) };
        if self.moments.len() != step.moments {
            return Err(format!("found {} moments, expected {}", self.moments.len(), step.moments));
        }
        let values = self.values.last_key_value().map(|(_, values)| values).ok_or("it has no values")?;
        let mut values = values.write(0..values.rows()).map_err(said)?;
        let mut moments = self.moments.iter().map(|moment| moment.write(0..moment.rows()));
        let mut moment = || moments.next().transpose().map_err(said);
        let (mut first, mut second) = (moment()?, moment()?);
        let mut views =
            (values.view_mut(), first.as_mut().map(|m| m.view_mut()), second.as_mut().map(|m| m.view_mut()));
        let first = views.1.as_mut().map_or(&mut [][..], |view| view.data_mut());
        let second = views.2.as_mut().map_or(&mut [][..], |view| view.data_mut());
        Ok(step.apply(decay, views.0.data_mut(), gradient, [first, second]))
    }

    fn bytes(&self) -> u64 {
        self.values.values().chain(&self.moments).map(|buffer| buffer.bytes() as u64).sum()
    }
}

/// The parameters that one process (the host or a worker) stores, by number.
#[derive(Debug, Default)]
pub(crate) struct Parameters {
    /// Number of versions of each parameter that are stored.
    kept: usize,
    all: BTreeMap<u32, Parameter>,
}

impl Parameters {
    /// Creates an empty set of parameters, which stores `kept` versions of each.
    pub(crate) fn new(kept: usize) -> Self {
        Self { kept, all: BTreeMap::new() }
    }

    /// Sets the number of versions of each parameter that are stored.
    pub(crate) fn keep(&mut self, kept: usize) {
        self.kept = kept;
    }

    /// Returns the number of parameters that this process stores.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns an iterator over all parameters, with their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Parameter)> {
        self.all.iter().map(|(number, parameter)| (*number, parameter))
    }

    /// Returns an iterator over mutable references to all parameters, by ascending number.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Parameter> {
        self.all.values_mut()
    }

    /// Returns the parameter with the number `number`. Fails if this process does not store it.
    pub(crate) fn get(&self, number: u32) -> Result<&Parameter> {
        self.all.get(&number).ok_or_else(|| missing(number))
    }

    /// Returns a mutable reference to the parameter with the number `number`. Fails if this process
    /// does not store it.
    pub(crate) fn get_mut(&mut self, number: u32) -> Result<&mut Parameter> {
        self.all.get_mut(&number).ok_or_else(|| missing(number))
    }

    /// Returns the parameter that the use `number` reads. Fails if this process does not store it.
    pub(crate) fn of_use(&self, number: u32) -> Result<&Parameter> {
        self.all.values().find(|parameter| parameter.uses.contains(&number)).ok_or_else(|| missing(number))
    }

    /// Adds a parameter under `number`, or replaces the existing one.
    pub(crate) fn insert(&mut self, number: u32, parameter: Parameter) {
        self.all.insert(number, parameter);
    }

    /// Sets the values of a parameter at `version`. The parameter is added if this process does not
    /// store it yet.
    pub(crate) fn take(
        &mut self,
        number: u32,
        parameter: Parameter,
        version: u64,
        values: Buffer,
    ) -> Result<()> {
        let known = self.all.remove(&number).filter(|known| known.shape == parameter.shape);
        let mut parameter =
            Parameter { values: known.map(|known| known.values).unwrap_or_default(), ..parameter };
        parameter.take(version, values, self.kept)?;
        self.all.insert(number, parameter);
        Ok(())
    }

    /// Removes all parameters except those whose numbers are in `stay`.
    pub(crate) fn retain(&mut self, stay: &[u32]) {
        self.all.retain(|number, _| stay.contains(number));
    }

    /// Adds the squared gradients of the parameters `numbers` in `round` to `sum`. They are added
    /// in f64, row by row, so that the result does not depend on the number of threads and
    /// intervals.
    pub(crate) fn squares(&self, sums: &GradientSums, round: u32, numbers: &[u32], sum: f64) -> Result<f64> {
        numbers.iter().try_fold(sum, |sum, &number| {
            let parameter = self.get(number)?;
            sums.whole(round, &parameter.uses, |gradient| squares(sum, gradient, parameter.shape.1))
        })
    }

    /// Updates the parameters `numbers` with their gradient sums of `round`. Threads without a task
    /// help. Without `sums`, values and moments remain, as in a round without training rows. `pass`
    /// is called before the parameter with an index is updated. Returns the first parameter whose
    /// gradient is not finite. Others may have been updated then.
    pub(crate) fn update(
        &mut self,
        sums: Option<&GradientSums>,
        round: u32,
        numbers: &[u32],
        step: &Step,
        pass: &(dyn Fn(usize) + Sync),
    ) -> Result<Option<u32>> {
        let kept = self.kept;
        let chosen: Vec<(u32, &mut Parameter)> = self
            .all
            .iter_mut()
            .filter(|(number, _)| numbers.contains(number))
            .map(|(n, p)| (*n, p))
            .collect();
        if let Some(&number) = numbers.iter().find(|number| !chosen.iter().any(|(of, _)| of == *number)) {
            return Err(missing(number));
        }
        let values: usize = chosen.iter().map(|(_, parameter)| parameter.shape.0 * parameter.shape.1).sum();
        let refused = Mutex::new(Ok(None));
        let pieces: Vec<_> = chosen.into_iter().map(Mutex::new).collect();
        parallel::for_each(pieces.len(), values * WORK, &|index| {
            let (number, parameter) = &mut *pieces[index].lock().unwrap_or_else(PoisonError::into_inner);
            pass(index);
            let updated = parameter.update_with(sums, round, step, kept);
            let mut refused = refused.lock().unwrap_or_else(PoisonError::into_inner);
            match (updated, &*refused) {
                (Err(error), Ok(_)) => *refused = Err(error),
                (Ok(false), Ok(first)) => *refused = Ok(Some(first.unwrap_or(*number).min(*number))),
                _ => {}
            }
        });
        refused.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the size of all values and optimiser moments, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.all.values().map(Parameter::bytes).sum()
    }
}

fn missing(number: u32) -> String {
    format!("there is no parameter {number}")
}

/// Adds the squared values of a gradient to `sum`, row by row and without padding. The square of an
/// f32 is exact in f64 and cannot overflow. The values of a row are added in 16 lanes.
fn squares(sum: f64, gradient: &[f32], columns: usize) -> f64 {
    gradient.chunks(stride_for(columns).max(1)).fold(sum, |sum, row| {
        let mut lanes = [0.0; 16];
        for values in row[..columns.min(row.len())].chunks(lanes.len()) {
            for (lane, &value) in lanes.iter_mut().zip(values) {
                *lane += f64::from(value) * f64::from(value);
            }
        }
        sum + lanes.iter().sum::<f64>()
    })
}

/// Returns the factor that scales gradients with the L2 norm `norm` down to `clip_norm`. Returns
/// `None` if the norm is not clipped.
pub(crate) fn clip_factor(optimiser: &Optimiser, norm: Option<f64>) -> Option<f32> {
    let factor = optimiser.clip_norm? / (norm? + EPSILON);
    (factor < 1.0).then_some(factor as f32)
}

/// Copies rows of `columns` values without the padding between them.
pub(super) fn packed(columns: usize, padded: &[f32]) -> Vec<f32> {
    padded.chunks(stride_for(columns).max(1)).flat_map(|row| row.iter().take(columns).copied()).collect()
}

/// Converts the number of a use to `u32`. A program has fewer than 2^32 uses.
pub(super) fn use_number(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use eciton_types::{IntervalId, Node, Tree};

    /// Gradients of round 1 and parameters of their shapes, all zero at version 4, with as many
    /// kept versions.
    fn with(gradients: &[(usize, usize, &[f32])], kept: usize) -> (Parameters, GradientSums) {
        let mut parameters = Parameters::new(kept);
        let mut sums = GradientSums::new(Tree::new(1), &[vec![Node::atom(0)]], &[Node::atom(0)]).unwrap();
        for (number, &(rows, columns, gradient)) in (0..).zip(gradients) {
            let mut parameter = Parameter::new((rows, columns), vec![], vec![number], Some(0.0));
            parameter.begin(4).unwrap();
            parameter.clear_moments(Algorithm::sgd()).unwrap();
            parameters.insert(number, parameter);
            let gradient = Buffer::from_rows(rows, columns, gradient).unwrap();
            sums.add((1, number), IntervalId(0), vec![gradient]).unwrap();
        }
        (parameters, sums)
    }

    /// Clips gradients and returns their norm, if it is asked for, and the gradients that the rule
    /// gets.
    fn clipped(
        gradients: &[(usize, usize, &[f32])],
        norm: Option<f64>,
        value: Option<f64>,
    ) -> (Option<f64>, Vec<f32>) {
        let (mut parameters, sums) = with(gradients, 1);
        let numbers: Vec<u32> = parameters.iter().map(|(number, _)| number).collect();
        let found = norm.map(|_| parameters.squares(&sums, 1, &numbers, 0.0).unwrap().sqrt());
        let optimiser = Optimiser { clip_norm: norm, clip_value: value, ..Optimiser::default() };
        let clip = (clip_factor(&optimiser, found), value.map(|most| most as f32));
        let step = Step::new((Algorithm::sgd(), 1.0), 5, clip).unwrap();
        let values = |(number, parameters): (u32, &mut Parameters)| {
            assert_eq!(parameters.update(Some(&sums), 1, &[number], &step, &|_| {}), Ok(None));
            parameters.get(number).unwrap().values(5).unwrap().to_vec().unwrap()
        };
        let all = numbers.into_iter().flat_map(|number| values((number, &mut parameters)));
        (found, all.map(|value| -value).collect())
    }

    const TALL: (usize, usize, &[f32]) = (2, 1, &[1.0, -2.0]);
    const WIDE: (usize, usize, &[f32]) = (1, 2, &[2.0, 4.0]);

    #[test]
    fn a_long_gradient_is_scaled_and_a_short_one_is_not() {
        let plain = vec![1.0, -2.0, 2.0, 4.0];
        assert_eq!(clipped(&[TALL, WIDE], None, None), (None, plain.clone()));
        // The norm is sqrt(1 + 4 + 4 + 16) = 5. At 5 the factor is 5 / 5.000001; above it nothing
        // changes.
        for (most, changed) in [(1.0, true), (5.0, true), (5.000_001, false), (1e9, false)] {
            let factor = if changed { (most / (5.0 + 1e-6)) as f32 } else { 1.0 };
            let wanted = plain.iter().map(|value| value * factor).collect();
            assert_eq!(clipped(&[TALL, WIDE], Some(most), None), (Some(5.0), wanted), "{most}");
        }
    }

    #[test]
    fn values_are_clipped_after_the_norm() {
        assert_eq!(clipped(&[TALL, WIDE], None, Some(1.5)), (None, vec![1.0, -1.5, 1.5, 1.5]));
        let half = (2.5 / (5.0 + 1e-6)) as f32;
        let wanted = vec![half, -2.0 * half, 2.0 * half, 1.5];
        assert_eq!(clipped(&[TALL, WIDE], Some(2.5), Some(1.5)), (Some(5.0), wanted));
        // An infinite value is clipped like any large value, as in PyTorch.
        let wanted = (None, vec![1.5, -1.5]);
        assert_eq!(clipped(&[(1, 2, &[f32::INFINITY, f32::NEG_INFINITY])], None, Some(1.5)), wanted);
    }

    #[test]
    fn the_ends_of_f32() {
        assert_eq!(clipped(&[(1, 4, &[0.0; 4])], Some(1e-30), None), (Some(0.0), vec![0.0; 4]));
        // A sum of squares far above the range of f32 still gives a norm.
        let (norm, large) = clipped(&[(1, 1, &[f32::MAX]), (1, 1, &[f32::MAX])], Some(1.0), None);
        assert!((norm.unwrap() / (f64::from(f32::MAX) * std::f64::consts::SQRT_2) - 1.0).abs() < 1e-15);
        assert!(large.iter().all(|v| (v - std::f32::consts::FRAC_1_SQRT_2).abs() < 1e-6), "{large:?}");
        for bad in [f32::NAN, f32::INFINITY] {
            let (parameters, sums) = with(&[(1, 2, &[1.0, bad])], 1);
            assert!(!parameters.squares(&sums, 1, &[0], 0.0).unwrap().is_finite());
        }
    }

    #[test]
    fn an_update_is_made_once_and_of_the_version_before_alone() {
        for kept in [1, 2] {
            let (mut parameters, sums) = with(&[TALL], kept);
            let step = |to| Step::new((Algorithm::sgd(), 1.0), to, (None, None)).unwrap();
            let refused = parameters.update(Some(&sums), 1, &[0], &step(6), &|_| {}).unwrap_err();
            assert!(refused.contains("version 4"), "{refused}");
            for _ in 0..2 {
                assert_eq!(parameters.update(Some(&sums), 1, &[0], &step(5), &|_| {}), Ok(None));
                let parameter = parameters.get(0).unwrap();
                assert_eq!(parameter.values(5).unwrap().to_vec().unwrap(), [-1.0, 2.0]);
                let before = parameter.values(4).map(|values| values.to_vec().unwrap());
                assert_eq!(before, (kept > 1).then(|| vec![0.0; 2]), "{kept} versions");
            }
            assert_eq!(parameters.update(Some(&sums), 1, &[0], &step(6), &|_| {}), Ok(None));
            assert_eq!(parameters.get(0).unwrap().versions(), kept);
        }
    }

    #[test]
    fn a_gradient_that_is_not_finite_leaves_the_version_before() {
        let mut long = vec![1.0; 2 * BLOCK];
        long[BLOCK] = f32::NAN;
        let (mut parameters, sums) = with(&[(1, 2 * BLOCK, &long)], 2);
        let step = Step::new((Algorithm::sgd(), 1.0), 5, (None, None)).unwrap();
        assert_eq!(parameters.update(Some(&sums), 1, &[0], &step, &|_| {}), Ok(Some(0)));
        let parameter = parameters.get(0).unwrap();
        assert_eq!(parameter.newest(), Some(4));
        assert_eq!(parameter.values(4).unwrap().to_vec().unwrap(), vec![0.0; 2 * BLOCK]);
    }
}

//! Comparison of a kernel's results with the requirements of the contract.

use eciton_tensor::{View, signs};

use super::{IDS, Numbers, Outcome, Trial, Values, Way, width};
use crate::error::Result;
use crate::instance::Instance;

/// Step sizes of the finite differences, for values between -1 and 1. A smaller step reduces the
/// error from curvature and increases that from f32 rounding.
const STEPS: [f32; 3] = [0.02, 0.006, 0.002];
/// Maximum relative difference between a gradient and the closest of the finite differences.
const ALLOWED: f64 = 0.02;
/// Smallest derivative that is compared, as a fraction of the sum of its absolute terms. Smaller
/// derivatives are too inexact in f32.
const SMALL: f64 = 0.02;
/// Smallest derivative that is compared, as a fraction of the function's value. With a single edge,
/// for instance, softmax weights are always 1, and differences show only rounding.
const VANISHING: f64 = 1e-4;
/// Magnitudes of the large and the tiny values that a kernel is tested with. The squares of the
/// large values are still finite. The squares of the tiny ones are zero.
const EXTREMES: [f32; 2] = [1e4, 1e-30];
/// Maximum relative difference between a weighted loss and its expected value. It allows for
/// rounding.
const WEIGHED: f64 = 1e-4;

/// Property of a kernel that a check tests, for instance that its gradients are correct.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// A fresh instance and a reused instance give the same bits.
    Repeats,
    /// A vertex kernel gives the same bits for rows that arrive in batches and for rows that have
    /// all arrived.
    Streams,
    /// Finite inputs give finite outputs.
    Finite,
    /// Outputs are finite if every other input row is all zeros, as it may be after a ReLU.
    Zeros,
    /// Outputs contain no NaN if input rows are large or tiny. They may be infinite if values are
    /// too large for f32.
    Extremes,
    /// Gradients agree with finite differences of the function.
    Gradient,
    /// The loss applies row weights. Weights of 1 change nothing, weights of 2 double all results,
    /// and a row of weight 0 does not count.
    Weights,
    /// A layer that declares that it reads only signs and scales gives the same bits for other
    /// values with the same signs and scales.
    Signs,
}

impl Found {
    /// Returns the name of the property as it is printed, for instance `finite values`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Repeats => "the same bits from fresh and warm instances",
            Self::Streams => "the same bits from rows that arrive in pieces",
            Self::Finite => "finite values",
            Self::Zeros => "finite values for rows of zeros",
            Self::Extremes => "no NaN for large and tiny rows",
            Self::Gradient => "gradients against finite differences",
            Self::Weights => "loss with row weights",
            Self::Signs => "the same bits from signs and scales",
        }
    }
}

/// Result of one check of a kernel, with the tensor that shows the largest difference.
#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    /// Property that was tested.
    pub of: Found,
    /// Name of the tensor with the largest difference, for instance ``parameter `weight` ``.
    pub place: String,
    /// Largest difference, from 0 to 1. For [`Found::Gradient`] and [`Found::Weights`] it is
    /// relative to the larger of both values. For the other checks it is the fraction of values
    /// that differ.
    pub figure: f64,
    /// True if the kernel has the property.
    pub holds: bool,
}

fn run(trial: &Trial, instance: &mut Instance, way: Way) -> Result<Outcome> {
    trial.run(instance, way, true, &mut |_, call| call().map(drop))
}

/// Returns the terms of the sum whose derivative is checked. They are the outputs times their
/// weights, or the values of the loss.
fn terms(trial: &Trial, way: Way, outcome: &Outcome) -> impl Iterator<Item = f64> {
    let of = move |(at, o): (usize, &Values)| {
        let up = (way == Way::Passes).then(|| &trial.up[at].values);
        let weight = move |i: usize| up.map_or(1.0, |up| f64::from(up[i]));
        o.values.iter().enumerate().map(move |(i, &v)| f64::from(v) * weight(i)).collect::<Vec<_>>()
    };
    outcome.outputs.iter().enumerate().flat_map(of)
}

fn inner(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
}

impl Trial {
    /// Checks the layer on the values of the trial. Every call also checks that the kernel writes
    /// all rows and drops all handles.
    ///
    /// Each gradient of an input or parameter is compared along one random direction, in which the
    /// function tends to increase. In f32 the difference of a single value would be mostly
    /// rounding.
    ///
    /// # Errors
    /// Returns the error of the kernel, also if it breaks a promise of its signature.
    pub fn check(&self) -> Result<Vec<Judgement>> {
        let mut found = Vec::new();
        for way in self.ways() {
            let mut instance = Instance::new(self.layer.kernel())?;
            // All outputs must be written in evaluation as well.
            if way == Way::Passes {
                self.run(&mut instance, way, false, &mut |_, call| call().map(drop))?;
            }
            let first = run(self, &mut instance, way)?;
            let again = run(self, &mut instance, way)?;
            let fresh = run(self, &mut Instance::new(self.layer.kernel())?, way)?;
            found.push(same(Found::Repeats, &first, &[again, fresh]));
            if !self.is_edges() {
                let arriving = Self { pieces: true, ..self.clone() };
                found.push(same(Found::Streams, &first, &[run(&arriving, &mut instance, way)?]));
            }
            found.push(strange(Found::Finite, &first, f32::is_finite));
            found.extend(self.corners(&mut instance, way));
            if let Some(judged) = self.by_signs(&mut instance, way)? {
                found.push(judged);
            }
            let inputs = &self.layer.signature().inputs;
            let has_derivative = |&at: &usize| inputs.get(at).is_none_or(|input| input.name != IDS);
            for at in (0..first.gradients.len()).filter(has_derivative) {
                found.push(self.along(&mut instance, way, &first, at)?);
            }
            if way == Way::Loss && self.row_weights.is_some() {
                found.push(self.weighed(&mut instance)?);
            }
        }
        Ok(found)
    }

    /// Checks that the layer gives the same bits for values with the same signs and scales. Returns
    /// `None` if the layer reads more than signs and scales. The rows contain zeros, and values
    /// above and below 1.
    fn by_signs(&self, instance: &mut Instance, way: Way) -> Result<Option<Judgement>> {
        let mut given = self.clone();
        let signature = self.layer.signature();
        let inputs = signature.inputs.iter().map(|input| self.layer.reads_signs(&input.name));
        let read: Vec<bool> = inputs.collect();
        for (values, _) in given.inputs.iter_mut().zip(&read).filter(|(_, read)| **read) {
            values
                .values
                .iter_mut()
                .enumerate()
                .for_each(|(at, v)| *v *= if at % 7 == 3 { 0.0 } else { 2.0 });
        }
        let mut packed = given.clone();
        let mut any = false;
        for (values, _) in packed.inputs.iter_mut().zip(&read).filter(|(_, read)| **read) {
            let rows = View::new(&values.values, values.rows, width(&values.extents));
            if let Some(alike) = signs::alike(rows, true) {
                (values.values, any) = (alike, true);
            }
        }
        for (values, parameter) in packed.parameters.iter_mut().zip(&signature.parameters) {
            if !self.layer.reads_signs(&parameter.name) {
                continue;
            }
            if let Some(columns) = signs::Columns::pack(&values.values, width(&values.extents)) {
                (values.values, any) = (columns.values(), true);
            }
        }
        if !any {
            return Ok(None);
        }
        let first = run(&given, instance, way)?;
        Ok(Some(same(Found::Signs, &first, &[run(&packed, instance, way)?])))
    }

    /// Checks input rows that do not occur among random values. One check uses rows of zeros, and
    /// the other uses large and tiny values.
    fn corners(&self, instance: &mut Instance, way: Way) -> [Judgement; 2] {
        let mut judge = |of: Found, value: &dyn Fn(usize, f32) -> f32, is_good: fn(f32) -> bool| {
            let mut trial = self.clone();
            let specs = &self.layer.signature().inputs;
            for (input, _) in trial.inputs.iter_mut().zip(specs).filter(|(_, spec)| spec.name != IDS) {
                let width = super::width(&input.extents).max(1);
                let rows = input.values.chunks_mut(width).enumerate();
                rows.for_each(|(row, values)| values.iter_mut().for_each(|v| *v = value(row, *v)));
            }
            match run(&trial, instance, way) {
                Ok(outcome) => strange(of, &outcome, is_good),
                Err(error) => Judgement { of, place: error.to_string(), figure: 1.0, holds: false },
            }
        };
        let zeros = judge(Found::Zeros, &|row, v| if row % 2 == 0 { 0.0 } else { v }, f32::is_finite);
        let extremes = |row: usize, v: f32| v * EXTREMES[row % EXTREMES.len()];
        [zeros, judge(Found::Extremes, &extremes, |v| !v.is_nan())]
    }

    /// Checks the loss with row weights whose effect is known. The weights are all 1, all 2, or 0
    /// for every other row.
    fn weighed(&self, instance: &mut Instance) -> Result<Judgement> {
        let of = |weight: &dyn Fn(usize) -> f32| {
            let mut trial = self.clone();
            if let Some(weights) = &mut trial.row_weights {
                weights.values = (0..self.rows).map(weight).collect();
            }
            trial
        };
        let plain = Self { row_weights: None, ..self.clone() };
        let odd: Vec<u32> = (0..self.rows as u32).filter(|row| row % 2 == 1).collect();
        let fewer = Self { counting: odd.into(), ..plain.clone() };
        let mut worst = (0.0, "everywhere".to_owned());
        for (what, trial, as_in, times) in [
            ("weights of 1", of(&|_| 1.0), &plain, 1.0),
            ("weights of 2", of(&|_| 2.0), &plain, 2.0),
            ("weights of 0 in every other row", of(&|row| (row % 2) as f32), &fewer, 1.0),
        ] {
            let found = run(&trial, instance, Way::Loss)?;
            let expected = run(as_in, instance, Way::Loss)?;
            for (found, expected) in all(&found).zip(all(&expected)) {
                let apart = apart(&found.values, &expected.values, times);
                if apart > worst.0 {
                    worst = (apart, format!("{what}, {}", found.name));
                }
            }
        }
        Ok(Judgement { of: Found::Weights, figure: worst.0, holds: worst.0 <= WEIGHED, place: worst.1 })
    }

    /// Compares a gradient with finite differences along a random direction. `at` is the index of
    /// the tensor among the inputs and parameters.
    fn along(&self, instance: &mut Instance, way: Way, first: &Outcome, at: usize) -> Result<Judgement> {
        let values = |trial: &Self| -> Values {
            let mut all = trial.inputs.iter().chain(&trial.parameters);
            all.nth(at).cloned().unwrap_or_else(|| trial.inputs[0].clone())
        };
        let point = values(self);
        let mut numbers = Numbers(self.seed ^ at as u64);
        let gradient = &first.gradients[at].values;
        // The direction has an uphill tendency. Otherwise the terms would cancel, and mostly
        // rounding would remain.
        let direction: Vec<f32> = gradient.iter().map(|g| numbers.value() + 0.5 * g.signum()).collect();
        let expected = inner(gradient, &direction);
        // Value of the derivative if all its terms had the same sign.
        let size: f64 = gradient.iter().zip(&direction).map(|(&g, &d)| f64::from((g * d).abs())).sum();
        let given: f64 = terms(self, way, first).map(f64::abs).sum();
        let mut nearest = f64::INFINITY;
        for step in STEPS {
            let mut moved = |by: f32| -> Result<(f64, f64)> {
                let mut trial = self.clone();
                let inputs = trial.inputs.len();
                let to = match at.checked_sub(inputs) {
                    None => &mut trial.inputs[at],
                    Some(parameter) => &mut trial.parameters[parameter],
                };
                let mut along = 0.0;
                for ((to, &from), &d) in to.values.iter_mut().zip(&point.values).zip(&direction) {
                    *to = from + by * d;
                    along += f64::from(*to - from) * f64::from(d);
                }
                let outcome = run(&trial, instance, way)?;
                Ok((terms(self, way, &outcome).sum::<f64>(), along))
            };
            let ((up, up_by), (down, down_by)) = (moved(step)?, moved(-step)?);
            // Actual length of the step after rounding, in units of the direction.
            let length: f64 = inner(&direction, &direction);
            let difference = (up - down) / ((up_by - down_by) / length).max(f64::MIN_POSITIVE);
            let least = (SMALL * size).max(VANISHING * given).max(f64::MIN_POSITIVE);
            let scale = expected.abs().max(difference.abs()).max(least);
            nearest = nearest.min((expected - difference).abs() / scale);
        }
        let nearest = if nearest.is_finite() { nearest } else { 1.0 };
        let what = if way == Way::Loss { "loss, " } else { "" };
        let place = format!("{what}{}", point.name);
        Ok(Judgement { of: Found::Gradient, place, figure: nearest, holds: nearest <= ALLOWED })
    }
}

/// Returns the relative difference `|a - times b| / max(|a|, |times b|)` in the Euclidean norm. It
/// is 0 if both vectors are zero, and 1 if one contains NaN.
fn apart(a: &[f32], b: &[f32], times: f64) -> f64 {
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>().sqrt();
    let (a, b) = (a.iter().map(|&v| f64::from(v)), b.iter().map(|&v| times * f64::from(v)));
    let size = norm(&mut a.clone()).max(norm(&mut b.clone()));
    let relative = norm(&mut a.zip(b).map(|(a, b)| a - b)) / size.max(f64::MIN_POSITIVE);
    if relative.is_finite() { relative } else { 1.0 }
}

fn all(outcome: &Outcome) -> impl Iterator<Item = &Values> {
    outcome.outputs.iter().chain(&outcome.gradients)
}

/// Checks that all outcomes in `others` have the same bits as `first`.
fn same(of: Found, first: &Outcome, others: &[Outcome]) -> Judgement {
    for other in others {
        for (a, b) in all(first).zip(all(other)) {
            let apart = a.bits().zip(b.bits()).filter(|(a, b)| a != b).count();
            if apart > 0 {
                let (place, figure) = (a.name.clone(), apart as f64 / a.values.len().max(1) as f64);
                return Judgement { of, place, figure, holds: false };
            }
        }
    }
    Judgement { of, place: "everywhere".to_owned(), figure: 0.0, holds: true }
}

/// Checks that all values of an outcome satisfy `is_good`, and reports the first tensor with a
/// value that does not.
fn strange(of: Found, outcome: &Outcome, is_good: fn(f32) -> bool) -> Judgement {
    let first = |values: &Values| values.values.iter().position(|&value| !is_good(value));
    let Some((values, at)) = all(outcome).find_map(|values| Some((values, first(values)?))) else {
        return Judgement { of, place: "everywhere".to_owned(), figure: 0.0, holds: true };
    };
    let count = values.values.iter().filter(|&&value| !is_good(value)).count();
    let row = at / super::width(&values.extents).max(1);
    let figure = count as f64 / values.values.len().max(1) as f64;
    Judgement { of, place: format!("{}, row {row}", values.name), figure, holds: false }
}

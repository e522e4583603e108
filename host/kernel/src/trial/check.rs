//! Compares the results of a kernel with the requirements of the contract.

use eciton_tensor::{View, signs};

use super::{IDS, Numbers, Outcome, Trial, Values, Way, width};
use crate::error::Result;
use crate::instance::Instance;

/// Steps of a difference, relative to values in (-1, 1): the smaller, the less a curve matters, the
/// more f32's rounding does.
const STEPS: [f32; 3] = [0.02, 0.006, 0.002];
/// Maximum relative distance between a gradient and the nearest finite difference.
const ALLOWED: f64 = 0.02;
/// A derivative smaller than this share of its terms' size says nothing in f32.
const SMALL: f64 = 0.02;
/// A derivative below this share of the function's value is not compared either. With one edge,
/// softmax weights are always 1, and the differences show only rounding.
const VANISHING: f64 = 1e-4;
/// Magnitudes of values that are large, and tiny, where a kernel is tried on such: those of a
/// network that has lost its scale, whose squares are still finite, and those whose squares are
/// zero.
const EXTREMES: [f32; 2] = [1e4, 1e-30];
/// Maximum relative distance between a weighted loss and its expected value, for rounding.
const WEIGHED: f64 = 1e-4;

/// Property of a kernel that a check tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// The same bits from a fresh instance and from one that has run before.
    Repeats,
    /// A vertex kernel gives the same bits for rows that arrive in pieces and for complete rows.
    Streams,
    /// Finite values from finite values.
    Finite,
    /// Finite values where every other row of the inputs is all zeros, as behind a ReLU.
    Zeros,
    /// No NaN where rows of the inputs are large and tiny. What is too large for f32 may be
    /// infinite.
    Extremes,
    /// A gradient against differences of the function itself.
    Gradient,
    /// A loss that asks for its rows' weights: of 1 they change nothing, of 2 they double all that
    /// it gives, and a row of 0 is as one that does not count.
    Weights,
    /// A layer that says that it reads signs and scales alone gives the same bits from values that
    /// have these in common with the given ones.
    Signs,
}

impl Found {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Repeats => "the same bits from fresh and warm instances",
            Self::Streams => "the same bits from rows that arrive in pieces",
            Self::Finite => "finite values",
            Self::Zeros => "finite values of rows of zeros",
            Self::Extremes => "no NaN of large and tiny rows",
            Self::Gradient => "gradients against differences",
            Self::Weights => "a loss by its rows' weights",
            Self::Signs => "the same bits from signs and scales",
        }
    }
}

/// One check.
#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    /// The tested property.
    pub of: Found,
    /// The tensor with the largest difference, for instance ``parameter `weight` ``.
    pub place: String,
    /// Difference, 0 to 1. For [`Found::Gradient`] and [`Found::Weights`] it is relative to the
    /// larger of both values.
    pub figure: f64,
    /// True if that is as it should be.
    pub holds: bool,
}

fn run(trial: &Trial, instance: &mut Instance, way: Way) -> Result<Outcome> {
    trial.run(instance, way, true, &mut |_, call| call().map(drop))
}

/// Returns the terms of the sum that is differentiated: outputs times their weights, or the loss.
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
    /// Checks the layer on the trial's values. That all rows are written, and no handle kept, every
    /// call checks by itself.
    ///
    /// A gradient is compared along one direction for each input and parameter, a random one that
    /// tends uphill: in f32 a difference of one value is mostly rounding.
    ///
    /// # Errors
    /// What the kernel answers, and broken promises.
    pub fn check(&self) -> Result<Vec<Judgement>> {
        let mut found = Vec::new();
        for way in self.ways() {
            let mut instance = Instance::new(self.layer.kernel())?;
            // In evaluation everything must be written as well.
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

    /// The judgement of values with the same signs and scales, where the layer says that it reads
    /// no more; `None` where it does not. Rows have zeros, and values on both sides of 1.
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

    /// Judgements of rows that training meets seldom, and random values never.
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

    /// Checks the loss with row weights of known effect: all 1, all 2, and 0 for some rows.
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

    /// The derivative along a random direction of one tensor, by the gradient and by differences.
    fn along(&self, instance: &mut Instance, way: Way, first: &Outcome, at: usize) -> Result<Judgement> {
        let values = |trial: &Self| -> Values {
            let mut all = trial.inputs.iter().chain(&trial.parameters);
            all.nth(at).cloned().unwrap_or_else(|| trial.inputs[0].clone())
        };
        let point = values(self);
        let mut numbers = Numbers(self.seed ^ at as u64);
        let gradient = &first.gradients[at].values;
        // Uphill more than down, or terms that cancel would leave little but rounding.
        let direction: Vec<f32> = gradient.iter().map(|g| numbers.value() + 0.5 * g.signum()).collect();
        let expected = inner(gradient, &direction);
        // What the derivative would be if all its terms had one sign.
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
            // How far it truly went, in units of the direction.
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

/// |a - times b| / max(|a|, |times b|), by Euclidean norm; 0 where both are, 1 where one is no number.
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

/// Checks that all outcomes have the same bits.
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

/// Returns whether all values are good, and where the first is that is not.
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

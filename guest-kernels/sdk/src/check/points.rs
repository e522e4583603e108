//! Random tensors, how far two are apart, and central differences.

use super::{KINK, Report, SMALL, STEP, broken};
use crate::reference::Reference;
use crate::types::Result;
use crate::{Matrix, Out};

/// Named values, row-major.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tensor {
    pub(super) name: String,
    pub(super) shape: Vec<u32>,
    pub(super) values: Vec<f64>,
}

impl Tensor {
    pub(super) fn new(name: &str, shape: Vec<u32>, values: Vec<f64>) -> Self {
        Self { name: name.to_owned(), shape, values }
    }

    pub(super) fn rows(&self, start: u32, count: u32) -> Self {
        let mut shape = self.shape.clone();
        shape[0] = count;
        let columns = shape[1..].iter().map(|&e| e as usize).product::<usize>();
        let values = self.values[start as usize * columns..(start + count) as usize * columns].to_vec();
        Self { name: self.name.clone(), shape, values }
    }

    /// The rows of `ids`, in their order.
    pub(super) fn gathered(&self, ids: &[u32]) -> Self {
        let mut shape = self.shape.clone();
        shape[0] = ids.len() as u32;
        let values = ids.iter().flat_map(|&id| self.rows(id, 1).values).collect();
        Self { name: self.name.clone(), shape, values }
    }

    /// Adds another one's values.
    pub(super) fn add(&mut self, other: &Self) {
        self.values.iter_mut().zip(&other.values).for_each(|(sum, part)| *sum += part);
    }
}

pub(super) fn sliced(tensors: &[Tensor], start: u32, count: u32) -> Vec<Tensor> {
    tensors.iter().map(|t| t.rows(start, count)).collect()
}

/// |a - b| / max(|a|, |b|) by Euclidean norm; infinite where there is a NaN or an infinity.
pub(super) fn difference(a: &[f64], b: &[f64]) -> f64 {
    let norm = |v: &mut dyn Iterator<Item = f64>| v.map(|v| v * v).sum::<f64>().sqrt();
    let apart = norm(&mut a.iter().zip(b).map(|(a, b)| a - b));
    let small = SMALL * (a.len() as f64).sqrt();
    let size = norm(&mut a.iter().copied()).max(norm(&mut b.iter().copied())).max(small);
    let relative = if a.is_empty() { 0.0 } else { apart / size };
    if relative.is_finite() && a.len() == b.len() { relative } else { f64::INFINITY }
}

pub(super) fn agree(what: &str, a: &[Tensor], b: &[Tensor], allowed: f64, worst: &mut f64) -> Result<()> {
    for (a, b) in a.iter().zip(b) {
        let found = difference(&a.values, &b.values);
        *worst = worst.max(found);
        if found > allowed {
            return Err(broken(format!("{what}: {} differs by {found:e}, allowed are {allowed:e}", a.name)));
        }
    }
    Ok(())
}

/// SplitMix64.
pub(super) struct Numbers(pub(super) u64);

impl Numbers {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, limit: u32) -> u32 {
        (self.next() % u64::from(limit.max(1))) as u32
    }

    /// In (-1, 1), an f32 exactly, and away from zero, where most functions have their kink.
    pub(super) fn value(&mut self) -> f64 {
        let v = (self.next() >> 40) as f64 / f64::from(1u32 << 23) - 1.0;
        if v.abs() < KINK { v + 0.0625 } else { v }
    }

    pub(super) fn tensor(&mut self, name: String, shape: Vec<u32>) -> Tensor {
        let count = shape.iter().map(|&e| e as usize).product();
        Tensor { name, shape, values: (0..count).map(|_| self.value()).collect() }
    }
}

pub(super) fn matrices(host: &Reference, tensors: &[Tensor]) -> Result<Vec<Matrix>> {
    tensors.iter().map(|t| host.matrix(&t.shape, &t.values)).collect()
}

pub(super) fn refs<T>(values: &[T]) -> Vec<&T> {
    values.iter().collect()
}

/// What is in `outs`, all of which must have been written.
pub(super) fn collect<'a>(
    host: &Reference,
    by: &str,
    outs: &[Out],
    names: impl Iterator<Item = &'a String>,
) -> Result<Vec<Tensor>> {
    let mut tensors = Vec::new();
    for (out, name) in outs.iter().zip(names) {
        if let Some(row) = host.unwritten(out)?.first() {
            return Err(broken(format!("{by} left row {row} of `{name}` unwritten")));
        }
        tensors.push(Tensor::new(name, host.shape_of(out), host.values(out)?));
    }
    Ok(tensors)
}

/// Where derivatives are taken.
pub(super) trait Point: Clone {
    /// What tensor `tensor` is, for instance `input`.
    fn kind(&self, tensor: usize) -> &'static str;
    /// Whether it has no derivative.
    fn is_fixed(&self, _tensor: usize) -> bool {
        false
    }
    /// One of its values.
    fn value(&mut self, tensor: usize, at: usize) -> &mut f64;
}

/// Compares `gradients` of the point's tensors with differences of sum(up * value).
pub(super) fn compare<P: Point>(
    point: &P,
    gradients: &[Tensor],
    prefix: &str,
    report: &mut Report,
    value: impl Fn(&P) -> Result<Vec<Tensor>>,
    up: &[Tensor],
) -> Result<()> {
    let mut moved = point.clone();
    for (tensor, analytic) in gradients.iter().enumerate().filter(|(tensor, _)| !point.is_fixed(*tensor)) {
        let mut numeric = Vec::with_capacity(analytic.values.len());
        for at in 0..analytic.values.len() {
            let here = *moved.value(tensor, at);
            let step = STEP * here.abs().max(1.0);
            let (above, below) = (here + step, here - step);
            *moved.value(tensor, at) = above;
            let high = value(&moved)?;
            *moved.value(tensor, at) = below;
            let low = value(&moved)?;
            *moved.value(tensor, at) = here;
            let mut slope = 0.0;
            for ((high, low), up) in high.iter().zip(&low).zip(up) {
                for ((high, low), up) in high.values.iter().zip(&low.values).zip(&up.values) {
                    slope += up * (high - low);
                }
            }
            numeric.push(slope / (above - below));
        }
        let found = difference(&analytic.values, &numeric);
        report.checked += numeric.len();
        if found > report.worst || report.worst_name.is_empty() {
            report.worst = found;
            report.worst_name = format!("{prefix}{} `{}`", point.kind(tensor), analytic.name);
        }
    }
    Ok(())
}

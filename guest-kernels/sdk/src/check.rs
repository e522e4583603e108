//! A kernel's gradients against central differences in f64, and what else the contract asks of it.
//!
//! With random G, the numbers of the objective L = sum(G * outputs) at x + h and x - h give
//! dL/dx to about 1e-9; `backward` must give the same, and `loss` likewise for the loss itself.
//! [`gradients`] and [`edge_gradients`] run on the f64 [`crate::reference`], so that a difference is the kernel's.

mod edge;
mod graph;
mod points;
#[cfg(test)]
mod tests;
mod vertex;

pub use edge::edge_gradients;
pub use vertex::gradients;

use crate::types::{Error, Result};
use crate::{Attributes, Value};

/// The step of a difference, relative to the value or to 1.
const STEP: f64 = 1e-6;
/// How far from a kink a point must be: a hundred steps.
const KINK: f64 = 1e-4;
/// Points that are drawn before the check gives up finding one away from all kinks.
const DRAWS_MAX: u64 = 1000;
/// Values of inputs and parameters that a check takes; each costs two runs.
const VALUES_MAX: u64 = 1 << 14;
/// How much, relative by norm, a run in f32 may differ.
const LOOSE: f64 = 1e-3;
/// How much, relative by norm, sums in another order may differ.
const TIGHT: f64 = 1e-12;
/// A gradient smaller than this a value is compared as if it were so large.
const SMALL: f64 = 1e-3;

/// How well a kernel's gradients agree with differences.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Report {
    /// The largest |analytic - numeric| / max(|analytic|, |numeric|) of all tensors, by Euclidean norm.
    pub worst: f64,
    /// Where it is, for instance ``parameter `weight` ``.
    pub worst_name: String,
    /// Values whose derivative was compared.
    pub checked: usize,
    /// The largest such difference between a run in f32 and one in f64.
    pub worst_f32: f64,
}

/// The attributes given, and the defaults of the others, as a host fills them in.
fn with_defaults(specs: Vec<crate::AttributeSpec>, given: &[(&str, Value)]) -> Result<Attributes> {
    if let Some((name, _)) = given.iter().find(|(name, _)| specs.iter().all(|s| s.name != *name)) {
        let known: Vec<&str> = specs.iter().map(|s| s.name).collect();
        return Err(Error::Argument(format!(
            "attribute `{name}` is unknown; known are {}",
            known.join(", ")
        )));
    }
    let mut all = Vec::new();
    for spec in specs {
        let given = given.iter().find(|(name, _)| *name == spec.name).map(|(_, value)| value.clone());
        let value = match (given, &spec.default) {
            (Some(Value::Integer(v)), Some(Value::Number(_))) => Value::Number(v as f64),
            (Some(value), _) => value,
            (None, Some(default)) => default.clone(),
            (None, None) => return Err(Error::Argument(format!("attribute `{}` must be given", spec.name))),
        };
        all.push((spec.name.to_owned(), value));
    }
    Ok(Attributes::new(all))
}

fn broken(text: String) -> Error {
    Error::Kernel(format!("check: {text}"))
}

/// Two intervals of whole groups that make up `rows`: (first row, rows).
fn halves(rows: u32, group: u32) -> [(u32, u32); 2] {
    let half = rows / 2 / group.max(1) * group.max(1);
    [(0, half), (half, rows - half)]
}

/// Whether tensors of these shapes are few enough values.
fn few_values(shapes: impl Iterator<Item = Vec<u32>>) -> Result<()> {
    let count = |shape: Vec<u32>| shape.iter().fold(1u64, |n, &e| n.saturating_mul(u64::from(e)));
    let asked = shapes.map(count).fold(0, u64::saturating_add);
    if asked <= VALUES_MAX {
        return Ok(());
    }
    let (limit, unit) = ("check-values".to_owned(), "values".to_owned());
    Err(Error::Limit { limit, unit, allowed: VALUES_MAX, asked })
}

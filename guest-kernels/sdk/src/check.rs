//! Checks of a kernel: its gradients against central differences in f64, and its other obligations
//! by the contract.
//!
//! The objective is L = sum(G * outputs) with a random G. Its values at x + h and x - h give dL/dx
//! with an error of about 1e-9. `backward` must give the same gradient, and `loss` likewise for the
//! loss itself. [`gradients`] and [`edge_gradients`] run on the f64 [`crate::reference`], so a
//! difference is caused by the kernel.

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

/// Step of a finite difference, relative to the value, or absolute for values below 1.
const STEP: f64 = 1e-6;
/// Minimum distance of a point from a kink: a hundred steps.
const KINK: f64 = 1e-4;
/// Maximum number of points that are drawn until one is away from all kinks.
const DRAWS_MAX: u64 = 1000;
/// Maximum number of values of inputs and parameters in a check. Each value takes two runs.
const VALUES_MAX: u64 = 1 << 14;
/// Maximum relative difference, by norm, of a run in f32.
const LOOSE: f64 = 1e-3;
/// Maximum relative difference, by norm, of sums in another order.
const TIGHT: f64 = 1e-12;
/// Minimum magnitude per value with which a gradient is compared. Smaller gradients are compared as
/// if they had this size.
const SMALL: f64 = 1e-3;

/// Result of a gradient check: the largest differences, and where they occur.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Report {
    /// Largest value of |analytic - numeric| / max(|analytic|, |numeric|) over all tensors, in
    /// Euclidean norm.
    pub worst: f64,
    /// Tensor with the largest difference, for instance ``parameter `weight` ``.
    pub worst_name: String,
    /// Number of values whose derivative was compared.
    pub checked: usize,
    /// Largest relative difference between a run in f32 and one in f64.
    pub worst_f32: f64,
}

/// Returns the given attributes, and default values for the others, as a host passes them.
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

/// Returns two intervals of whole groups that together have `rows` rows: (first row, number of
/// rows).
fn halves(rows: u32, group: u32) -> [(u32, u32); 2] {
    let half = rows / 2 / group.max(1) * group.max(1);
    [(0, half), (half, rows - half)]
}

/// Refuses tensors with more values than a check allows.
fn few_values(shapes: impl Iterator<Item = Vec<u32>>) -> Result<()> {
    let count = |shape: Vec<u32>| shape.iter().fold(1u64, |n, &e| n.saturating_mul(u64::from(e)));
    let asked = shapes.map(count).fold(0, u64::saturating_add);
    if asked <= VALUES_MAX {
        return Ok(());
    }
    let (limit, unit) = ("check-values".to_owned(), "values".to_owned());
    Err(Error::Limit { limit, unit, allowed: VALUES_MAX, asked })
}

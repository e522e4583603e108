//! Reasons for errors of predictions: varies one parameter at a time, for one row alone, until the
//! published ratio results.

use std::fmt::{Display, Formatter};

use eciton_recipe::Prices;
use serde::Serialize;

use super::fit::Fitted;
use super::published::Published;
use super::world::{Backend, Varied, epoch};
use crate::error::Error;
use eciton_simulate::Kind;

/// Maximum factor by which a parameter is increased or decreased.
const MOST: f64 = 16.0;
/// Maximum number of secant steps.
const SECANTS: u32 = 12;
/// Relative difference below which two ratios of V count as equal.
const CLOSE: f64 = 0.01;

/// Parameter that may have another value for a row than for the row to which it was fitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Suspect {
    /// Time of a gather per edge and value on a core.
    Gathers,
    /// Time per floating-point operation on a core.
    Products,
    /// Time per floating-point operation in a function.
    Functions,
    /// Number of operations of the edge network.
    EdgeNetwork,
    /// Number of cores that a GPU equals.
    Gpu,
    /// Share of edges that lead to other hosts.
    Cut,
}

/// Value of a parameter that would explain a difference.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Reason {
    /// Parameter that is varied.
    pub suspect: Suspect,
    /// Factor relative to the fitted or assumed value.
    pub times: f64,
}

impl Display for Reason {
    fn fmt(&self, to: &mut Formatter<'_>) -> std::fmt::Result {
        let times = self.times;
        match self.suspect {
            Suspect::Gathers => write!(to, "gathers on cores take {times:.2} times as long"),
            Suspect::Products => write!(to, "products on cores take {times:.2} times as long"),
            Suspect::Functions => write!(to, "functions compute {times:.2} times as long"),
            Suspect::EdgeNetwork => write!(to, "the edge network has {times:.2} times the operations"),
            Suspect::Gpu => write!(to, "a GPU is {times:.2} times as many cores"),
            Suspect::Cut => write!(to, "{times:.2} of the edges that a random partition cuts are cut"),
        }
    }
}

impl Suspect {
    const ALL: [Self; 6] =
        [Self::Gathers, Self::Products, Self::Functions, Self::EdgeNetwork, Self::Gpu, Self::Cut];

    pub(super) fn times(self, times: f64) -> Varied {
        let mut varied = Varied::default();
        let figure = match self {
            Self::Gathers => &mut varied.edge,
            Self::Products => &mut varied.flop,
            Self::Functions => &mut varied.function,
            Self::EdgeNetwork => &mut varied.network,
            Self::Gpu => &mut varied.gpu,
            Self::Cut => &mut varied.cut,
        };
        *figure = times;
        varied
    }

    /// Returns true if the parameter affects the work of a row.
    fn matters(self, row: &Published, other: Backend) -> bool {
        match self {
            Self::Gpu => other == Backend::Gpu,
            Self::EdgeNetwork => row.kind != Kind::Gcn,
            _ => true,
        }
    }
}

/// Returns all single parameters that can explain a published ratio of V, the smallest change
/// first.
pub(super) fn reasons(
    row: &Published,
    other: Backend,
    published: f64,
    fitted: &Fitted,
    prices: &Prices,
) -> Result<Vec<Reason>, Error> {
    let functions = epoch(row, Backend::Functions, fitted, &Varied::default(), prices)?.run.value();
    let mut found = Vec::new();
    for suspect in Suspect::ALL.into_iter().filter(|suspect| suspect.matters(row, other)) {
        let off = |times: f64| -> Result<f64, Error> {
            let varied = suspect.times(times);
            let with = match suspect {
                Suspect::Gpu => functions,
                _ => epoch(row, Backend::Functions, fitted, &varied, prices)?.run.value(),
            };
            let without = epoch(row, other, fitted, &varied, prices)?.run.value();
            Ok((with / without / published).ln())
        };
        if let Some(times) = root(off, if suspect == Suspect::Cut { 1.0 } else { MOST })? {
            found.push(Reason { suspect, times });
        }
    }
    found.sort_by(|one, other| one.times.ln().abs().total_cmp(&other.times.ln().abs()));
    Ok(found)
}

/// Returns the root of a function on one side of 1, from 1 / [`MOST`] to `most`. The search uses
/// secants over the logarithm, between two points with different signs (the Illinois form of regula
/// falsi).
fn root(off: impl Fn(f64) -> Result<f64, Error>, most: f64) -> Result<Option<f64>, Error> {
    let middle = off(1.0)?;
    for far in [1.0 / MOST, most] {
        let end = if far == 1.0 { middle } else { off(far)? };
        if end.signum() == middle.signum() {
            continue;
        }
        let (mut one, mut other) = ((0.0f64, middle), (far.ln(), end));
        for _ in 0..SECANTS {
            let at = one.0 - one.1 * (other.0 - one.0) / (other.1 - one.1);
            let found = off(at.exp())?;
            if found.abs() < CLOSE {
                return Ok(Some(at.exp()));
            }
            if found.signum() == other.1.signum() {
                one.1 /= 2.0;
            } else {
                one = other;
            }
            other = (at, found);
        }
        return Ok(Some(other.0.exp()));
    }
    Ok(None)
}

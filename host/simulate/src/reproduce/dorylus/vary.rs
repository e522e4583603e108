//! Why a prediction errs: one figure at a time, varied for a row alone until the published ratio comes out.

use eciton_plan::Prices;
use serde::Serialize;

use super::fit::Fitted;
use super::published::Published;
use super::world::{Backend, Varied, epoch};
use crate::error::Error;
use crate::shape::Kind;

/// A figure is at most so many times larger or smaller.
const MOST: f64 = 16.0;
/// Halvings of the range.
const HALVINGS: u32 = 12;

/// A figure that may be otherwise for a row than for the one that was fitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Suspect {
    /// Seconds of a core for an edge and value.
    Gathers,
    /// Seconds of a core for an operation.
    Products,
    /// Seconds of a function for an operation.
    Functions,
    /// Operations of the edge network.
    EdgeNetwork,
    /// Cores that a GPU is.
    Gpu,
    /// The share of cut edges.
    Cut,
}

/// What a figure would have to be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Reason {
    /// Which.
    pub suspect: Suspect,
    /// Times what was fitted, or assumed.
    pub times: f64,
}

impl Suspect {
    const ALL: [Self; 6] =
        [Self::Gathers, Self::Products, Self::Functions, Self::EdgeNetwork, Self::Gpu, Self::Cut];

    fn times(self, times: f64) -> Varied {
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

    /// Whether it could matter to a row against another variant. GPUs are what a GPU's pace makes of cores':
    /// against them, that alone is varied, and not the paces behind it.
    fn matters(self, row: &Published, other: Backend) -> bool {
        match self {
            Self::Gpu => other == Backend::Gpu,
            Self::EdgeNetwork => row.kind != Kind::Gcn,
            _ => true,
        }
    }
}

/// All that alone would explain a published ratio of V, the least change first.
pub(super) fn reasons(
    row: &Published,
    other: Backend,
    published: f64,
    fitted: &Fitted,
    prices: &Prices,
) -> Result<Vec<Reason>, Error> {
    let mut found = Vec::new();
    for suspect in Suspect::ALL.into_iter().filter(|suspect| suspect.matters(row, other)) {
        let off = |times: f64| -> Result<f64, Error> {
            let varied = suspect.times(times);
            let with = epoch(row, Backend::Functions, fitted, &varied, prices)?;
            let without = epoch(row, other, fitted, &varied, prices)?;
            Ok((with.value() / without.value() / published).ln())
        };
        if let Some(times) = root(off, if suspect == Suspect::Cut { 1.0 } else { MOST })? {
            found.push(Reason { suspect, times });
        }
    }
    found.sort_by(|one, other| one.times.ln().abs().total_cmp(&other.times.ln().abs()));
    Ok(found)
}

/// Where a function is 0, on one side of 1 or the other, from 1 / [`MOST`] to `most`.
fn root(off: impl Fn(f64) -> Result<f64, Error>, most: f64) -> Result<Option<f64>, Error> {
    let middle = off(1.0)?;
    for mut far in [1.0 / MOST, most] {
        if far == 1.0 || off(far)?.signum() == middle.signum() {
            continue;
        }
        let mut near = 1.0f64;
        for _ in 0..HALVINGS {
            let half = (near * far).sqrt();
            if off(half)?.signum() == middle.signum() {
                near = half;
            } else {
                far = half;
            }
        }
        return Ok(Some((near * far).sqrt()));
    }
    Ok(None)
}

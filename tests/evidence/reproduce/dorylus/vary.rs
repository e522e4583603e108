//! Explanations for prediction errors. One parameter at a time is varied for a single row, until
//! the simulation yields the published ratio.

use std::fmt::{Display, Formatter};

use eciton_recipe::Prices;
use serde::Serialize;

use super::fit::Fitted;
use super::published::Published;
use super::world::{Backend, Varied, epoch};
use crate::error::Error;
use eciton_simulate::Kind;

/// Maximum factor by which a parameter is multiplied or divided.
const MOST: f64 = 16.0;
/// Maximum number of steps of the root search.
const SECANTS: u32 = 12;
/// Absolute logarithm of the simulated ratio divided by the published ratio, below which the two
/// count as equal.
const CLOSE: f64 = 0.01;

/// Parameter whose value may differ between a row and the row that it was fitted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Suspect {
    /// Time of a gather on a core, per edge and value.
    Gathers,
    /// Time of a tensor step on a core, per floating-point operation.
    Products,
    /// Time of a tensor step in a function, per floating-point operation.
    Functions,
    /// Number of operations of the edge network (ApplyEdge).
    EdgeNetwork,
    /// Number of cores that one GPU is equivalent to.
    Gpu,
    /// Share of edges that connect vertices on different hosts.
    Cut,
}

/// Change of one parameter that would explain the difference between simulation and publication.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Reason {
    /// Parameter that is changed.
    pub(crate) suspect: Suspect,
    /// Factor relative to the parameter's fitted or assumed value.
    pub(crate) times: f64,
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

    /// Returns true if the parameter affects the simulation of `row` with functions or with the
    /// backend `other`.
    fn matters(self, row: &Published, other: Backend) -> bool {
        match self {
            Self::Gpu => other == Backend::Gpu,
            Self::EdgeNetwork => row.kind != Kind::Gcn,
            _ => true,
        }
    }
}

/// Returns the changes of a single parameter that would make the simulation yield the `published`
/// ratio of V. The smallest change is first.
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

/// Returns a positive root of `off`, searched between 1 / [`MOST`] and 1 and then between 1 and
/// `most`. Returns `None` if `off` does not change its sign there. The search is regula falsi
/// (Illinois variant) over the logarithm.
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

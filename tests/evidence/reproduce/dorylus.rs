//! Reproduction of Dorylus (Thorpe et al. 2021): graph networks on CPU servers with functions,
//! compared with CPUs and GPUs alone.
//!
//! [`reproduce`] fits five parameters to GCN Reddit-small ([`Fitted`]), predicts the other five
//! rows of [`PUBLISHED`] with the same simulator, and compares ratios of the value V. V = 1 / (T x
//! C), so a ratio of V within a row needs no number of epochs. This matters because the numbers of
//! epochs are not published, and times are relative. Errors above [`LARGE_ERROR`] get reasons:
//! parameters that give the published ratio if they are changed for this row alone.

mod fit;
mod machines;
mod published;
#[cfg(test)]
mod tests;
pub mod text;
mod vary;
mod world;

use eciton_recipe::Prices;
use serde::Serialize;

use crate::error::Error;
use fit::{Fitted, fit};
use machines::{MachineValue, machines};
use published::{PUBLISHED, Published, Run, SOURCE};
use vary::Reason;
#[cfg(test)]
use vary::Suspect;
use world::{Backend, Varied, epoch};

/// Relative error above which reasons are searched.
pub const LARGE_ERROR: f64 = 0.15;

/// Result of the reproduction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Dorylus {
    /// Parameters that were fitted to GCN Reddit-small.
    pub fitted: Fitted,
    /// Comparison for each of the six published rows.
    pub rows: Vec<Row>,
    /// GCN Reddit-small on each machine type, best value first.
    pub machines: Vec<MachineValue>,
}

/// Published row with its simulated prediction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Published times and costs of whole runs.
    pub published: Published,
    /// Simulated epoch with functions. Asynchronous epochs are converted to the number of
    /// synchronous ones that train equally far.
    pub functions: Run,
    /// Simulated epoch on the graph servers alone.
    pub cpu: Run,
    /// Simulated epoch on the same number of GPU servers.
    pub gpu: Run,
    /// Value V of functions, relative to V of CPUs only.
    pub against_cpu: Compared,
    /// Value V of functions, relative to V of GPUs only.
    pub against_gpu: Compared,
}

/// Ratio of values V, published and simulated.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// Published ratio.
    pub published: f64,
    /// Simulated ratio.
    pub simulated: f64,
    /// Single parameters whose change would give the published ratio, the smallest change first.
    /// Empty for an error up to [`LARGE_ERROR`], and if no parameter explains the difference.
    pub reasons: Vec<Reason>,
}

impl Compared {
    /// Returns the relative error: simulated / published - 1.
    #[must_use]
    pub fn error(&self) -> f64 {
        self.simulated / self.published - 1.0
    }

    /// Returns true if the error is above [`LARGE_ERROR`].
    #[must_use]
    pub fn is_large(&self) -> bool {
        self.error().abs() > LARGE_ERROR
    }
}

/// Fits the parameters, predicts and compares all rows, finds reasons for large errors, and
/// simulates the machines of the price list.
///
/// # Errors
/// Returns [`Error::Fit`] if the parameters do not converge, and [`Error::Prices`] for a price list
/// without the required machines. Also returns the errors of [`simulate`](eciton_simulate::simulate).
pub fn reproduce(prices: &Prices) -> Result<Dorylus, Error> {
    let fitted = fit(prices)?;
    let mut rows = Vec::with_capacity(PUBLISHED.len());
    for published in &PUBLISHED {
        let mut row = predict(published, &fitted, prices)?;
        for (of, other) in [(&mut row.against_cpu, Backend::Cpu), (&mut row.against_gpu, Backend::Gpu)] {
            if of.is_large() {
                of.reasons = vary::reasons(published, other, of.published, &fitted, prices)?;
            }
        }
        rows.push(row);
    }
    Ok(Dorylus { rows, machines: machines(&fitted, prices)?, fitted })
}

/// Simulates a published row with the fitted parameters, and compares it. It does not search for
/// reasons.
fn predict(row: &Published, fitted: &Fitted, prices: &Prices) -> Result<Row, Error> {
    let run = |backend| epoch(row, backend, fitted, &Varied::default(), prices).map(|ran| ran.run);
    let [functions, cpu, gpu] = [run(Backend::Functions)?, run(Backend::Cpu)?, run(Backend::Gpu)?];
    let compare = |published: f64, other: Run| Compared {
        published,
        simulated: functions.value() / other.value(),
        reasons: Vec::new(),
    };
    Ok(Row {
        published: *row,
        against_cpu: compare(row.value_against_cpu(), cpu),
        against_gpu: compare(row.value_against_gpu(), gpu),
        functions,
        cpu,
        gpu,
    })
}

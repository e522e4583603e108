//! Dorylus (Thorpe et al. 2021): graph networks on CPU servers and functions, against CPUs and GPUs alone.
//!
//! [`reproduce`] fits five figures on GCN Reddit-small ([`Fitted`]), predicts the other five rows of
//! [`PUBLISHED`] with the same simulator, and compares V ratios. An error beyond [`LARGE_ERROR`] gets a
//! reason: the figure that, varied for this row alone, brings the published ratio with the least change.

mod fit;
mod machines;
mod published;
#[cfg(test)]
mod tests;
mod vary;
mod world;

use eciton_plan::Prices;
use serde::Serialize;

use crate::error::Error;
pub use fit::{Fitted, fit};
pub use machines::{MachineValue, machines};
pub use published::{PUBLISHED, Published, Run, SOURCE};
pub use vary::{Reason, Suspect};
use world::{Backend, Varied, epoch};

/// Errors beyond this share get a reason.
pub const LARGE_ERROR: f64 = 0.15;

/// All that is printed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Dorylus {
    /// What was fitted.
    pub fitted: Fitted,
    /// The six rows.
    pub rows: Vec<Row>,
    /// GCN Reddit-small on each kind of machine, best first.
    pub machines: Vec<MachineValue>,
}

/// A row beside its prediction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// What was published.
    pub published: Published,
    /// Seconds of an epoch with functions, with CPUs only, with GPUs only.
    pub epoch_seconds: [f64; 3],
    /// Dollars of an epoch, likewise.
    pub epoch_usd: [f64; 3],
    /// Epochs that the published seconds with functions are, at the simulated pace.
    pub epochs: f64,
    /// V of functions / V of CPUs only.
    pub against_cpu: Compared,
    /// V of functions / V of GPUs only.
    pub against_gpu: Compared,
}

/// A ratio of V, published and simulated.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// Published.
    pub published: f64,
    /// Simulated.
    pub simulated: f64,
    /// Simulated / published - 1.
    pub error: f64,
    /// Of an error beyond [`LARGE_ERROR`]: what would explain it; empty if nothing that was varied does.
    pub reasons: Option<Vec<Reason>>,
}

/// Fits, predicts, compares, and sweeps the machines of the price list.
///
/// # Errors
/// [`Error::Fit`]; [`Error::Plan`] for a price list without the machines; what [`crate::simulate`] refuses.
pub fn reproduce(prices: &Prices) -> Result<Dorylus, Error> {
    let fitted = fit(prices)?;
    let rows = PUBLISHED.iter().map(|row| predict(row, &fitted, prices)).collect::<Result<_, _>>()?;
    Ok(Dorylus { rows, machines: machines(&fitted, prices)?, fitted })
}

fn predict(row: &Published, fitted: &Fitted, prices: &Prices) -> Result<Row, Error> {
    let run = |backend| epoch(row, backend, fitted, &Varied::default(), prices);
    let [functions, cpu, gpu] = [run(Backend::Functions)?, run(Backend::Cpu)?, run(Backend::Gpu)?];
    let compare = |published: f64, simulated: f64, other| -> Result<Compared, Error> {
        let error = simulated / published - 1.0;
        let explain = || vary::reasons(row, other, published, fitted, prices);
        let reasons = if error.abs() > LARGE_ERROR { Some(explain()?) } else { None };
        Ok(Compared { published, simulated, error, reasons })
    };
    Ok(Row {
        published: *row,
        epoch_seconds: [functions.seconds, cpu.seconds, gpu.seconds],
        epoch_usd: [functions.usd, cpu.usd, gpu.usd],
        epochs: row.functions.seconds / functions.seconds,
        against_cpu: compare(row.value_against_cpu(), functions.value() / cpu.value(), Backend::Cpu)?,
        against_gpu: compare(row.value_against_gpu(), functions.value() / gpu.value(), Backend::Gpu)?,
    })
}

//! Dorylus (Thorpe et al. 2021): graph networks on CPU servers and functions, against CPUs and GPUs
//! alone.
//!
//! [`reproduce`] fits five figures on GCN Reddit-small ([`Fitted`]), predicts the other five rows
//! of [`PUBLISHED`] with the same simulator, and compares V ratios. V = 1 / (T x C), so a ratio of
//! V within a row needs no number of epochs: those are not known, and times are relative. An error
//! beyond [`LARGE_ERROR`] gets reasons: figures that, varied for this row alone, bring the
//! published ratio.

mod fit;
mod machines;
mod published;
#[cfg(test)]
mod tests;
mod vary;
mod world;

use eciton_recipe::Prices;
use serde::Serialize;

use crate::error::Error;
pub use fit::{Fitted, fit};
pub use machines::{MachineValue, machines};
pub use published::{PUBLISHED, Published, Run, SOURCE};
pub use vary::{Reason, Suspect};
use world::{Backend, Varied, epoch};

/// Errors beyond this share get reasons.
pub const LARGE_ERROR: f64 = 0.15;

/// All that is printed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Dorylus {
    /// The fitted parameters.
    pub fitted: Fitted,
    /// The six rows.
    pub rows: Vec<Row>,
    /// GCN Reddit-small on each kind of machine, best first.
    pub machines: Vec<MachineValue>,
}

/// A row beside its prediction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The published figures of whole runs.
    pub published: Published,
    /// An epoch with functions, counted as so many synchronous ones as train as far.
    pub functions: Run,
    /// An epoch on the graph servers alone.
    pub cpu: Run,
    /// An epoch on as many GPU servers.
    pub gpu: Run,
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
    /// Single parameters whose change would give the published ratio, the smallest change first.
    /// Empty for an error up to [`LARGE_ERROR`], and if no parameter explains the difference.
    pub reasons: Vec<Reason>,
}

impl Compared {
    /// Simulated / published - 1.
    #[must_use]
    pub fn error(&self) -> f64 {
        self.simulated / self.published - 1.0
    }

    /// Returns whether it is beyond [`LARGE_ERROR`].
    #[must_use]
    pub fn is_large(&self) -> bool {
        self.error().abs() > LARGE_ERROR
    }
}

/// Fits, predicts, compares, finds reasons, and sweeps the machines of the price list.
///
/// # Errors
/// [`Error::Fit`]; [`Error::Plan`] for a price list without the machines; what [`crate::simulate`]
/// refuses.
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

/// Simulates a row with what was fitted, and compares. Reasons are left out.
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

//! Reproduction of Dorylus (Thorpe et al. 2021), which trains graph networks on CPU servers with
//! functions and compares them with CPUs and GPUs alone.
//!
//! [`reproduce`] fits five parameters to GCN on Reddit-small ([`Fitted`]). With the same simulator
//! it predicts the other five rows of [`PUBLISHED`], and compares ratios of the value V = 1 / (time
//! x cost).
//!
//! The numbers of epochs are not published, but they cancel out in ratios of V within a row. For
//! errors above [`LARGE_ERROR`], the reproduction searches for reasons. A reason is a parameter
//! that yields the published ratio if it is changed for this row alone.

mod fit;
mod machines;
mod published;
#[cfg(test)]
mod tests;
pub(crate) mod text;
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

/// Relative error above which the reproduction searches for reasons.
pub(crate) const LARGE_ERROR: f64 = 0.15;

/// Result of the reproduction of Dorylus.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Dorylus {
    /// Parameters that were fitted to GCN Reddit-small.
    pub(crate) fitted: Fitted,
    /// Comparison for each of the six published rows.
    pub(crate) rows: Vec<Row>,
    /// GCN on Reddit-small, simulated on each machine type in descending order of value.
    pub(crate) machines: Vec<MachineValue>,
}

/// Published row of the table with its simulated prediction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Row {
    /// Published times and costs of whole runs.
    pub(crate) published: Published,
    /// Simulated time and cost of an epoch with functions. An asynchronous epoch is scaled to train
    /// as far as a synchronous one.
    pub(crate) functions: Run,
    /// Simulated time and cost of an epoch on the graph servers alone.
    pub(crate) cpu: Run,
    /// Simulated time and cost of an epoch on the same number of GPU servers.
    pub(crate) gpu: Run,
    /// Ratio of the value V with functions to V on CPUs only.
    pub(crate) against_cpu: Compared,
    /// Ratio of the value V with functions to V on GPUs only.
    pub(crate) against_gpu: Compared,
}

/// Published and simulated ratio of two values V = 1 / (time x cost).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Compared {
    /// Ratio that the publication reports.
    pub(crate) published: f64,
    /// Ratio that the simulation yields.
    pub(crate) simulated: f64,
    /// Changes of single parameters that would yield the published ratio, the smallest change
    /// first. Empty if the error is at most [`LARGE_ERROR`], or if no parameter explains it.
    pub(crate) reasons: Vec<Reason>,
}

impl Compared {
    /// Returns the relative error, which is `simulated / published - 1`.
    #[must_use]
    pub(crate) fn error(&self) -> f64 {
        self.simulated / self.published - 1.0
    }

    /// Returns true if the absolute error is above [`LARGE_ERROR`].
    #[must_use]
    pub(crate) fn is_large(&self) -> bool {
        self.error().abs() > LARGE_ERROR
    }
}

/// Runs the whole reproduction. It fits the parameters, predicts and compares all rows, searches
/// for reasons for large errors, and simulates the machine types of the price list.
///
/// # Errors
/// Returns [`Error::Fit`] if the parameters do not converge, and [`Error::Plan`] if the price list
/// lacks a required machine type. Also returns the errors of [`simulate`](eciton_simulate::simulate).
pub(crate) fn reproduce(prices: &Prices) -> Result<Dorylus, Error> {
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

/// Simulates a published row with the fitted parameters and compares the ratios of V. It does not
/// search for reasons.
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

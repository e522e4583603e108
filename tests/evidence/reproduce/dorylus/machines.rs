//! GCN Reddit-small on every machine type of the price list, ordered by value.

use eciton_recipe::Prices;
use serde::Serialize;

use super::fit::Fitted;
use super::published::{GPU_MACHINE, PUBLISHED, Run};
use super::world::{Backend, Varied, world};
use crate::error::Error;

/// Value of a machine type: whole runs on the published number of such machines.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MachineValue {
    /// Name of the machine type.
    pub machine: String,
    /// Run on these machines without functions.
    pub alone: Run,
    /// Run with the published number of functions. `None` for GPUs, which do all work themselves.
    pub functions: Option<Run>,
}

impl MachineValue {
    /// Returns the value V of the better of the two runs.
    #[must_use]
    pub fn value(&self) -> f64 {
        self.functions.map_or(0.0, |run| run.value()).max(self.alone.value())
    }
}

/// Simulates every machine type of the price list, and returns them with the best value V first.
/// All cores have the fitted pace, regardless of their type. Networks, numbers of cores and prices
/// are those of the list. Memory is not considered.
///
/// # Errors
/// Returns the errors of [`simulate`](eciton_simulate::simulate).
pub fn machines(fitted: &Fitted, prices: &Prices) -> Result<Vec<MachineValue>, Error> {
    let row = &PUBLISHED[0];
    let mut found = Vec::with_capacity(prices.ec2.len());
    for (name, &machine) in &prices.ec2 {
        let run = |backend| -> Result<Run, Error> {
            let world = world(row, backend, (name, machine), fitted, &Varied::default())?;
            let Run { seconds, usd } = world.epoch(prices)?.run;
            Ok(Run { seconds: seconds * fitted.epochs, usd: usd * fitted.epochs })
        };
        let is_gpu = name == GPU_MACHINE;
        let alone = run(if is_gpu { Backend::Gpu } else { Backend::Cpu })?;
        let functions = if is_gpu { None } else { Some(run(Backend::Functions)?) };
        found.push(MachineValue { machine: name.clone(), alone, functions });
    }
    found.sort_by(|one, other| other.value().total_cmp(&one.value()));
    Ok(found)
}

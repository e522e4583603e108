//! GCN on Reddit-small, simulated on every machine type of the price list.

use eciton_recipe::Prices;
use serde::Serialize;

use super::fit::Fitted;
use super::published::{GPU_MACHINE, PUBLISHED, Run};
use super::world::{Backend, Varied, world};
use crate::error::Error;

/// Simulated training of GCN on Reddit-small with one machine type. The number of machines is the
/// published one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct MachineValue {
    /// Name of the machine type.
    pub(crate) machine: String,
    /// Training on these machines without functions.
    pub(crate) alone: Run,
    /// Training with the published number of functions. `None` for GPU machines, which do all work
    /// themselves.
    pub(crate) functions: Option<Run>,
}

impl MachineValue {
    /// Returns the value V = 1 / (time x cost) of the better of the two runs.
    #[must_use]
    pub(crate) fn value(&self) -> f64 {
        self.functions.map_or(0.0, |run| run.value()).max(self.alone.value())
    }
}

/// Simulates GCN on Reddit-small with every machine type of the price list, and returns the results
/// in descending order of value. Networks, numbers of cores and prices are those of the list. All
/// cores have the fitted speed regardless of their type, and memory limits are ignored.
///
/// # Errors
/// Returns the errors of [`simulate`](eciton_simulate::simulate).
pub(crate) fn machines(fitted: &Fitted, prices: &Prices) -> Result<Vec<MachineValue>, Error> {
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

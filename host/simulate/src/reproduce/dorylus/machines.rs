//! GCN Reddit-small on every kind of machine of the price list: which is worth most.

use eciton_recipe::Prices;
use serde::Serialize;

use super::fit::Fitted;
use super::published::{GPU_MACHINE, PUBLISHED, Run};
use super::world::{Backend, Varied, world};
use crate::error::Error;

/// A kind of machine: a whole run on as many of them as published.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MachineValue {
    /// Its name.
    pub machine: String,
    /// Run on these machines without functions.
    pub alone: Run,
    /// Run with the published number of functions. `None` for GPUs, which do all work themselves.
    pub functions: Option<Run>,
}

impl MachineValue {
    /// V of the better one of the two.
    #[must_use]
    pub fn value(&self) -> f64 {
        self.functions.map_or(0.0, |run| run.value()).max(self.alone.value())
    }
}

/// Every kind of machine, the best V first. All cores have the fitted pace, whatever their kind; networks,
/// numbers of cores and prices are the list's. Memory is not looked at.
///
/// # Errors
/// What [`crate::simulate`] refuses.
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

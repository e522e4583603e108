//! GCN Reddit-small on every kind of machine of the price list: which is worth most.

use eciton_plan::Prices;
use serde::Serialize;

use super::fit::Fitted;
use super::published::{GPU_MACHINE, PUBLISHED};
use super::world::{Backend, Ran, Varied, world};
use crate::error::Error;

/// A kind of machine, and V of a whole run on as many of them as published.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MachineValue {
    /// Its name.
    pub machine: String,
    /// Seconds and dollars on these machines alone.
    pub alone: (f64, f64),
    /// V of that.
    pub alone_value: f64,
    /// Seconds and dollars with the published number of functions; none for GPUs, which do all themselves.
    pub with_functions: Option<(f64, f64)>,
    /// V of that.
    pub with_functions_value: Option<f64>,
}

/// Every kind of machine, the best V, with functions or alone, first. All cores have the fitted pace, whatever
/// their kind; networks, cores and prices are the list's.
///
/// # Errors
/// What [`crate::simulate`] refuses.
pub fn machines(fitted: &Fitted, prices: &Prices) -> Result<Vec<MachineValue>, Error> {
    let row = &PUBLISHED[0];
    let whole = |ran: &Ran| (ran.seconds * fitted.epochs, ran.usd * fitted.epochs);
    let value = |(seconds, usd): (f64, f64)| 1.0 / (seconds * usd);
    let mut found = Vec::with_capacity(prices.ec2.len());
    for (name, &machine) in &prices.ec2 {
        let run = |backend| world(row, backend, (name, machine), fitted, &Varied::default())?.epoch(prices);
        let is_gpu = name == GPU_MACHINE;
        let alone = whole(&run(if is_gpu { Backend::Gpu } else { Backend::Cpu })?);
        let with_functions = if is_gpu { None } else { Some(whole(&run(Backend::Functions)?)) };
        found.push(MachineValue {
            machine: name.clone(),
            alone,
            alone_value: value(alone),
            with_functions,
            with_functions_value: with_functions.map(value),
        });
    }
    let best = |one: &MachineValue| one.with_functions_value.unwrap_or(0.0).max(one.alone_value);
    found.sort_by(|one, other| best(other).total_cmp(&best(one)));
    Ok(found)
}

//! The five figures that are fitted, on GCN Reddit-small alone.

use eciton_program::Profile;
use eciton_program::profile::{FunctionPace, HostPace};
use eciton_recipe::Prices;
use serde::Serialize;

use super::published::PUBLISHED;
use super::world::{Backend, Varied, epoch, world};
use crate::error::Error;

/// Steps of the search, at most.
const STEPS: u32 = 200;
/// It is over once all that is fitted is within this share of what was published.
const CLOSE: f64 = 1e-4;
/// The share of functions' time that is exchange: about a third, as published.
const EXCHANGE_SHARE: f64 = 1.0 / 3.0;

/// Fitted parameters. All others are those of the built-in profile and the default settings.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Fitted {
    /// Seconds of a core of a graph server for an operation of a tensor step.
    pub core_seconds_per_flop: f64,
    /// Seconds of it for an edge and value of a gather.
    pub core_seconds_per_edge_value: f64,
    /// Seconds of a function's vCPU for an operation; a function of 192 MB has 0.11 of it.
    pub vcpu_seconds_per_flop: f64,
    /// Cores that a GPU is, for both kinds of work.
    pub gpu_cores: f64,
    /// Epochs of GCN Reddit-small to the target accuracy.
    pub epochs: f64,
    /// Steps of the search.
    pub steps: u32,
}

impl Fitted {
    const FIRST: Self = Self {
        core_seconds_per_flop: 1e-10,
        core_seconds_per_edge_value: 1e-9,
        vcpu_seconds_per_flop: 1e-10,
        gpu_cores: 50.0,
        epochs: 100.0,
        steps: 0,
    };

    /// The built-in profile with these paces.
    pub(super) fn profile(&self, varied: &Varied) -> Profile {
        let built_in = Profile::default();
        Profile {
            source: "fitted on GCN Reddit-small of Thorpe et al. 2021".to_owned(),
            host: HostPace {
                seconds_per_flop: self.core_seconds_per_flop * varied.flop,
                seconds_per_edge_value: self.core_seconds_per_edge_value * varied.edge,
                ..built_in.host
            },
            function: FunctionPace {
                seconds_per_flop: self.vcpu_seconds_per_flop * varied.function,
                ..built_in.function
            },
            ..built_in
        }
    }
}

/// Finds the figures with which the first published row comes out: its three times, its dollars with
/// functions, and the share of functions' time that is exchange.
///
/// Each step moves every figure towards what one of the five says, by a factor from 1/2 to 2:
///
/// ```text
/// epochs                 dollars of functions published / those of an epoch
/// vcpu_seconds_per_flop  functions' time computing is twice that of their exchange
/// ..._per_edge_value     seconds with functions
/// core_seconds_per_flop  seconds on CPUs only
/// gpu_cores              seconds on GPUs only
/// ```
///
/// # Errors
/// [`Error::Fit`] if they do not come together; what [`crate::simulate`] refuses.
pub fn fit(prices: &Prices) -> Result<Fitted, Error> {
    let row = &PUBLISHED[0];
    let machine = (row.machine, prices.machine(row.machine)?);
    let mut found = Fitted::FIRST;
    let varied = Varied::default();
    let mut worst = f64::INFINITY;
    for step in 1..=STEPS {
        let run = |backend| epoch(row, backend, &found, &varied, prices);
        let [functions, cpu, gpu] = [run(Backend::Functions)?, run(Backend::Cpu)?, run(Backend::Gpu)?];
        let world = world(row, Backend::Functions, machine, &found, &varied)?;
        let [_, tensor_s, computing_s] = world.seconds_of_work()?;
        let hosts_usd = f64::from(row.hosts) * world.settings.hosts.hour_usd * row.functions.seconds / 3600.0;
        let used = functions.report.usd;
        let epochs = (row.functions.usd - hosts_usd) / ((used.functions + used.requests) * functions.of_all);
        let epochs_run = f64::from(world.settings.epochs);
        let billed_s = functions.report.functions.billed_ms as f64 / 1e3 / epochs_run;
        let exchange_s = (billed_s - computing_s).max(1e-3 * billed_s);
        // Tensor seconds of the cores that would make up for what is missing.
        let cores = f64::from(row.hosts * world.settings.hosts.cores);
        let missing_s = (row.cpu.seconds / found.epochs - cpu.run.seconds) * cores;
        let off = [
            epochs / found.epochs,
            exchange_s * (1.0 - EXCHANGE_SHARE) / EXCHANGE_SHARE / computing_s,
            row.functions.seconds / found.epochs / functions.run.seconds,
            (tensor_s + missing_s) / tensor_s,
            gpu.run.seconds * found.epochs / row.gpu.seconds,
        ];
        worst = off.iter().fold(0.0f64, |worst, off| worst.max((off - 1.0).abs()));
        found.steps = step;
        if worst < CLOSE {
            return Ok(found);
        }
        if !off.iter().all(|off| off.is_finite()) {
            break;
        }
        let [epochs, function, edge, flop, gpu] = off.map(|off| off.clamp(0.5, 2.0).sqrt());
        found.epochs *= epochs;
        found.vcpu_seconds_per_flop *= function;
        found.core_seconds_per_edge_value *= edge;
        found.core_seconds_per_flop *= flop;
        found.gpu_cores *= gpu;
    }
    Err(Error::Fit { what: "GCN Reddit-small of Thorpe et al. 2021", off: worst, steps: found.steps })
}

//! Fit of five parameters to the published results of GCN on Reddit-small.

use eciton_program::Profile;
use eciton_program::profile::{FunctionPace, HostPace};
use eciton_recipe::Prices;
use serde::Serialize;

use super::published::PUBLISHED;
use super::world::{Backend, Varied, epoch, world};
use crate::error::Error;

/// Maximum number of steps of the parameter search.
const STEPS: u32 = 200;
/// Relative error below which a fitted result counts as equal to the published one.
const CLOSE: f64 = 1e-4;
/// Share of the functions' time that is spent on data exchange. The publication states about a
/// third.
const EXCHANGE_SHARE: f64 = 1.0 / 3.0;

/// Parameters that are fitted to the published results. All other parameters have the values of the
/// built-in profile and the default settings.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Fitted {
    /// Time per floating-point operation of a tensor step on a core of a graph server, in seconds.
    pub(crate) core_seconds_per_flop: f64,
    /// Time of a gather on a core of a graph server, in seconds per edge and value.
    pub(crate) core_seconds_per_edge_value: f64,
    /// Time per floating-point operation on a function's vCPU, in seconds. A function of 192 MB has
    /// 0.11 of a vCPU.
    pub(crate) vcpu_seconds_per_flop: f64,
    /// Number of cores that one GPU is equivalent to, for gathers and tensor steps alike.
    pub(crate) gpu_cores: f64,
    /// Number of epochs that GCN needs on Reddit-small to reach the target accuracy.
    pub(crate) epochs: f64,
    /// Number of steps that the search made.
    pub(crate) steps: u32,
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

    /// Returns the built-in profile with the fitted speeds, multiplied by the factors in `varied`.
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

/// Finds the parameters that reproduce the first published row. The five targets are its three run
/// times, its cost with functions, and the share of the functions' time that is exchange.
///
/// Each step multiplies every parameter by a factor between `1 / sqrt(2)` and `sqrt(2)`, which
/// moves one result closer to its target:
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
/// Returns [`Error::Fit`] if the parameters do not converge. Also returns the errors of
/// [`simulate`](eciton_simulate::simulate).
pub(crate) fn fit(prices: &Prices) -> Result<Fitted, Error> {
    let row = &PUBLISHED[0];
    let machine = (row.machine, prices.machine(row.machine)?);
    let mut found = Fitted::FIRST;
    let varied = Varied::default();
    let mut worst = f64::INFINITY;
    for step in 1..=STEPS {
        let run = |backend| epoch(row, backend, &found, &varied, prices);
        let [functions, cpu, gpu] = [run(Backend::Functions)?, run(Backend::Cpu)?, run(Backend::Gpu)?];
        let world = world(row, Backend::Functions, machine, &found, &varied)?;
        let work = world.work()?;
        let hosts_usd = f64::from(row.hosts) * world.settings.hosts.hour_usd * row.functions.seconds / 3600.0;
        let used = functions.report.usd;
        let epochs = (row.functions.usd - hosts_usd) / ((used.functions + used.requests) * functions.of_all);
        let epochs_run = f64::from(world.settings.epochs);
        let billed_s = functions.report.functions.billed_ms as f64 / 1e3 / epochs_run;
        let exchange_s = (billed_s - work.function_s).max(1e-3 * billed_s);
        // Core seconds by which the simulated run without functions is shorter than the published one.
        let cores = f64::from(row.hosts * world.settings.hosts.cores);
        let missing_s = (row.cpu.seconds / found.epochs - cpu.run.seconds) * cores;
        let off = [
            epochs / found.epochs,
            exchange_s * (1.0 - EXCHANGE_SHARE) / EXCHANGE_SHARE / work.function_s,
            row.functions.seconds / found.epochs / functions.run.seconds,
            (work.tensor_s + missing_s) / work.tensor_s,
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

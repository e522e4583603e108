//! Creation of a run's executor, and of the controller for the number of helpers (functions or
//! threads).

use std::sync::Arc;

use eciton_engine::TunerSettings;
use eciton_exec::functions::{self, Wanted};
use eciton_exec::{Executor, LocalPool, Prices};
use eciton_kernel::Layer;
use eciton_program::Program;
use eciton_recipe::executor::CORE_HOUR_USD;
use eciton_recipe::{Config, FunctionCount};
use eciton_runs::report::Helpers;

use crate::driver::{Money, Tuning};
use crate::error::Result;
use crate::kernels::Kernels;

/// Creates the executor of a run, which runs tasks on threads, workers or functions.
pub(super) fn machine(
    config: &Config,
    local: LocalPool,
    kernels: &Kernels,
    layers: &[Option<Arc<Layer>>],
    (intervals, lanes): (u32, Option<Vec<(u64, u64)>>),
) -> Result<Box<dyn Executor>> {
    if config.executor.kind.is_here() {
        return Ok(Box::new(local));
    }
    let wanted = Wanted {
        local,
        kernels: kernels.used(layers, config.executor.edge_kernels)?,
        executor: config.executor.clone(),
        limits: crate::kernels::limits(config),
        intervals,
        weight_versions: config.pipeline.weight_versions(),
    };
    if config.executor.kind.has_workers() {
        return Ok(Box::new(eciton_workers::start(wanted, &config.workers, lanes)?));
    }
    Ok(functions::start(wanted, &config.emulator)?)
}

/// Creates the controller for the number of functions, or for the number of threads if an autotuner
/// chooses it. Returns `None` for workers and for a fixed number of threads.
pub(super) fn tuning(
    config: &Config,
    machine: &dyn Executor,
    program: &Program,
    prices: Option<&Prices>,
    intervals: u32,
    threads: u32,
) -> Option<Tuning> {
    let (can, tasks) = (machine.capabilities(), program.tasks() as u64 * u64::from(intervals));
    let auto = |round_trip_us| TunerSettings { least: 0, most: can.most, intervals, tasks, round_trip_us };
    let executor = &config.executor;
    // Workers have no round-trip time, because their number is not controlled.
    let round_trip_us = executor.kind.round_trip_us()?;
    if executor.kind.is_here() {
        // Idle threads cost nothing, but the driver's own thread always does.
        let second = executor.host_hour_usd.map_or(CORE_HOUR_USD, |usd| usd / f64::from(threads)) / 3600.0;
        let money = Money { prices: None, host_second_usd: second, helper_second_usd: second };
        return config.run.tune_threads.then(|| Tuning::auto(Helpers::Threads, auto(round_trip_us), money));
    }
    let hour = executor.host_hour_usd.unwrap_or(CORE_HOUR_USD * f64::from(threads));
    let charged = || Some((prices?.clone(), can.architecture?, can.host?.clone()));
    let money = Money { prices: charged(), host_second_usd: hour / 3600.0, helper_second_usd: 0.0 };
    let tuning = match executor.functions {
        FunctionCount::Fixed(_) => Tuning::fixed(Helpers::Functions, can.most, money),
        FunctionCount::Auto => Tuning::auto(Helpers::Functions, auto(round_trip_us), money),
    };
    Some(tuning.cut(can.cut))
}

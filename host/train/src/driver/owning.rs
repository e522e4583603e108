//! Training in which workers own gradient sums or parameters. It includes weight updates,
//! snapshots, and rollbacks after a worker has failed.

use std::collections::BTreeMap;

use eciton_engine::Engine;
use eciton_exec::{Cancel, Completion, Executor};
use eciton_recipe::Optimiser;
use eciton_types::{Round, Version};

use super::epochs::Sum;
use super::pass::State;
use crate::error::{Error, Result};
use crate::owned::{Asking, Owners};
use crate::weights::Refused;

/// Maximum number of rollbacks to the same snapshot. The next failure ends the run with an error.
pub(crate) const MOST_RETURNS: u32 = 16;

/// Takes the optimizer step of `round`, which creates the next version of the weights. If `learns` is
/// false, the round has no training rows, and the next version has the same values. `statistics` has
/// the new values of parameters without gradients. Returns the
/// gradient norm if clipping computes it or if it is requested, or the reason why a gradient is not
/// finite.
///
/// # Errors
/// Returns [`Error::Gone`] if a worker that owns sums or parameters has failed.
pub(super) fn step<M: Executor + ?Sized>(
    machine: &mut M,
    state: &mut State<'_>,
    (optimiser, rate, measures): (&Optimiser, f64, bool),
    (round, learns): (Round, bool),
    statistics: &BTreeMap<usize, Vec<f32>>,
) -> Result<std::result::Result<Option<f64>, Refused>> {
    let next = Version(state.weights.newest().0 + 1);
    let mut asking = Asking { machine, aside: &mut state.passes.aside };
    let norm = match state.weights.owning_workers() {
        Some(owners) => owners.update(&mut asking, (optimiser, rate, measures), (round, next))?,
        None => {
            if state.weights.owners().have_sums(round) {
                let collected = state.weights.owners().collect(&mut asking, round)?;
                state.weights.add(round, collected)?;
            }
            state.weights.step((optimiser, rate, measures), (round, learns), statistics)?
        }
    };
    if norm.is_ok() {
        state.weights.stepped();
    }
    state.weights.owners().updated(round);
    Ok(norm)
}

/// Takes a snapshot of the final weights if workers own them and there is none yet. Returns false
/// if a worker failed meanwhile, so that the run must roll back.
pub(super) fn finish<M: Executor + ?Sized>(machine: &mut M, state: &mut State<'_>) -> Result<bool> {
    let newest = state.weights.newest();
    let mut asking = Asking { machine, aside: &mut state.passes.aside };
    match state.weights.owning_workers_mut() {
        Some(owners) if owners.logged() != newest => match owners.log(&mut asking, newest) {
            Err(Error::Gone { .. }) => Ok(false),
            logged => logged.map(|()| true),
        },
        _ => Ok(true),
    }
}

/// State to which a run can roll back after a worker has failed, and the number of rollbacks so
/// far.
#[derive(Debug, Default)]
pub(super) struct Returns {
    /// Loss sums of the unfinished period when the newest snapshot was taken.
    sum: Sum,
    /// Version of the weights in the newest snapshot. `count` is the number of rollbacks to it.
    version: u64,
    count: u32,
    /// Loss sums and weights version after the last finished round, if workers have replicas of the
    /// weights. A rollback can then return to this round.
    latest: Option<(Sum, u64)>,
}

impl Returns {
    /// Creates the rollback state at the start of a training. If workers own the weights, they
    /// receive the initial weights. `sum` has the loss sums of an unfinished period.
    pub(super) fn begin<M: Executor + ?Sized>(
        machine: &mut M,
        state: &mut State<'_>,
        sum: &Sum,
    ) -> Result<Self> {
        give(machine, state)?;
        Ok(Self { sum: sum.clone(), version: state.weights.newest().0, ..Self::default() })
    }

    /// Takes a snapshot of the weights after a round, if one is due or if `wanted` is true because
    /// a checkpoint follows. `sum` has the loss sums of the period so far, which are recorded with
    /// it.
    ///
    /// # Errors
    /// Returns [`Error::Gone`] if a worker that owns weights has failed.
    pub(super) fn log<M: Executor + ?Sized>(
        &mut self,
        machine: &mut M,
        state: &mut State<'_>,
        (sum, wanted): (&Sum, bool),
    ) -> Result<()> {
        let newest = state.weights.newest();
        let Some(owners) = state.weights.owning_workers_mut() else { return Ok(()) };
        if owners.note(newest) {
            (self.latest, self.count) = (Some((sum.clone(), newest.0)), 0);
        }
        if !owners.is_due(newest) && (!wanted || owners.logged() == newest) {
            return Ok(());
        }
        owners.log(&mut Asking { machine, aside: &mut state.passes.aside }, newest)?;
        (self.sum, self.version, self.count) = (sum.clone(), newest.0, 0);
        Ok(())
    }

    /// Rolls back to the newest snapshot, or to a later version of the weights that workers have
    /// replicas of. Returns the loss sums of the period at that version. `end` is the last version
    /// of the training, if it is known.
    ///
    /// # Errors
    /// Returns [`Error::Workers`] if no worker is left, or after [`MOST_RETURNS`] rollbacks to the
    /// same snapshot.
    pub(super) fn back<M: Executor + ?Sized>(
        &mut self,
        machine: &mut M,
        engine: &mut Engine,
        state: &mut State<'_>,
        end: Option<Version>,
    ) -> Result<Sum> {
        self.count += 1;
        if self.count > MOST_RETURNS {
            return Err(Error::Workers(format!(
                "workers failed {} times after update {}; set workers.snapshot_every to a smaller number, \
                 use workers that fail less often, or raise their memory limit (`eciton worker --cache`)",
                self.count, self.version
            )));
        }
        settle(machine, state)?;
        let logged = restore(machine, state)?;
        // Each round makes one version of the weights.
        let round = |version: u64| u32::try_from(version).unwrap_or(u32::MAX);
        let last = end.map_or(engine.settings().last, |end| Round(round(end.0)));
        engine.restart(Round(round(logged).saturating_add(1)), last, state.weights.newest());
        if state.weights.has_before() {
            engine.go_on();
        }
        state.weights.owners_mut().returned();
        self.latest = self.latest.take().filter(|(_, version)| *version == logged);
        Ok(self.latest.as_ref().map_or(&self.sum, |(sum, _)| sum).clone())
    }
}

/// Sends the workers the weights that they own, if the host has new values for them.
pub(crate) fn give<M: Executor + ?Sized>(machine: &mut M, state: &mut State<'_>) -> Result<()> {
    let newest = state.weights.newest();
    if state.weights.owning_workers_mut().is_some_and(|owners| owners.give(newest)) {
        restore(machine, state)?;
    }
    Ok(())
}

/// Checks whether a worker that has joined can get lanes (shares of the pipeline) now. This
/// requires that the snapshot or the replicas have the newest weights.
///
/// # Errors
/// Returns [`Error::Gone`] if such a worker is waiting. The caller then assigns all lanes again.
pub(super) fn join(state: &State<'_>) -> Result<()> {
    let newest = state.weights.newest();
    let owners = Some(state.weights.owners()).filter(|owners| owners.has(newest));
    owners.and_then(Owners::waits).map_or(Ok(()), |at| Err(Error::Gone { at }))
}

/// Assigns the lanes (shares of the pipeline) to the connected workers, and sends them the weights.
/// Returns the version of these weights. Returns 0 if workers own no weights.
///
/// # Errors
/// Returns [`Error::Workers`] if no worker is left.
pub(crate) fn restore<M: Executor + ?Sized>(machine: &mut M, state: &mut State<'_>) -> Result<u64> {
    loop {
        let there = machine.prepare(&mut |text| state.observer.waiting(text)).map_err(Error::Workers)?;
        let Some(owners) = state.weights.owning_workers_mut() else { return Ok(0) };
        if there.contains(&true) {
            match owners
                .restore(&mut Asking { machine: &mut *machine, aside: &mut state.passes.aside }, there)
            {
                Err(Error::Gone { .. }) => {}
                restored => {
                    let version = restored?;
                    state.weights.returned_to(version)?;
                    return Ok(version.0);
                }
            }
        }
        settle(machine, state)?;
    }
}

/// Cancels the tasks of all lanes, and waits until no task is in flight. Answers are discarded,
/// because the rollback repeats the tasks.
fn settle<M: Executor + ?Sized>(machine: &mut M, state: &mut State<'_>) -> Result<()> {
    let mut ended = std::mem::take(&mut state.passes.aside.completions);
    machine.cancel(Cancel::Lanes);
    loop {
        for completion in ended.drain(..) {
            match completion {
                Completion::Deserted { reason } => return Err(Error::Deserted(reason)),
                Completion::Warned { at, text } => state.warn(at, &text),
                Completion::Ended { .. } => state.counts.late += 1,
                Completion::WorkerFailed { .. }
                | Completion::Audited { .. }
                | Completion::Forgot { .. }
                | Completion::Joined { .. }
                | Completion::Received { .. }
                | Completion::HostFailed { .. }
                | Completion::Overdue { .. } => {}
            }
        }
        let under_way = machine.drain(&mut ended, None);
        if ended.is_empty() && !under_way {
            return Ok(());
        }
    }
}

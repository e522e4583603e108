//! Execution of the workloads of a proof on functions of each memory size.

use std::path::Path;
use std::sync::Arc;

use eciton_exec::{Bill, Deployment};
use eciton_planner::cost::{self, Origin};
use eciton_train::Stop;
use eciton_train::job::Done;
use eciton_train::sweep::{Functions, Lot, Outcome};

use super::Prepared;
use super::measured::{self, Attempt, Calls};
use super::plan::Planned;
use super::proof::{Proof, Run, lines, quantities};
use crate::cost::compare;
use crate::failure::Failure;
use crate::output::tell;
use crate::run_name::{iso, now};
use crate::sweep::RECORD;

/// Names of the folders in the bucket of the stack whose objects are deleted between runs. They are
/// below the prefix `runs/`.
const OBJECTS: [&str; 2] = ["jobs", "files"];

/// A proof in progress, whose stack is deployed.
pub(super) struct Running<'a> {
    pub(super) prepared: &'a Prepared<'a>,
    pub(super) deployment: &'a Deployment,
    pub(super) stop: &'a Arc<Stop>,
}

/// Function calls of a completed run, which serve to measure the assumptions for its memory size.
struct Made {
    /// Index of the run in [`Prepared::planned`].
    number: usize,
    attempts: Vec<Attempt>,
    jobs: Vec<Done>,
}

/// Total bill and time before the next run. Subtracted from the totals after that run, they give
/// its own bill and time.
#[derive(Default)]
struct Before {
    bill: Bill,
    seconds: f64,
}

impl Running<'_> {
    /// Runs all workloads at all memory sizes, and saves the proof after each run.
    pub(super) fn all(&mut self, proof: &mut Proof, path: &Path) -> Result<(), Failure> {
        proof.stack.bucket = self.deployment.bucket.clone();
        proof.stack.functions = self.deployment.trainers.clone();
        proof.stack.account_concurrency = self.deployment.account_concurrency;
        let mut before = Before::default();
        let mut made: Vec<Made> = Vec::new();
        for (number, planned) in self.prepared.planned.iter().enumerate() {
            if self.stop.is_asked() {
                return Err(Failure::Failed("stopped before all workloads had run".to_owned()));
            }
            let ran = self.one((number, planned), &mut before, proof, &mut made);
            self.measure(proof, &made);
            proof.save(path)?;
            ran?;
            // Otherwise the next memory size would reuse the answers of this one.
            for objects in OBJECTS {
                eciton_deploy::clean(self.deployment, objects)?;
            }
        }
        Ok(())
    }

    /// Runs one workload on functions of one memory size, and appends the result to the proof.
    fn one(
        &self,
        (number, planned): (usize, &Planned),
        before: &mut Before,
        proof: &mut Proof,
        made: &mut Vec<Made>,
    ) -> Result<(), Failure> {
        let Prepared { out, workloads, max_usd, host, book, .. } = self.prepared;
        let Some(workload) = workloads.get(planned.workload) else { return Ok(()) };
        let (name, memory_mb) = (workload.name, planned.memory_mb);
        let count = workload.configs.len();
        tell(format_args!("running {name} with {memory_mb} MB"));
        let begun = iso(now());
        let record = out.join(RECORD);
        let from = measured::length(&record);
        let functions = Functions::new(&planned.place, Some(*max_usd)).recorded(record.clone());
        let mut functions = functions.with_predictions(workload.predictions);
        let runs = out.join(format!("{name}-{memory_mb}"));
        let folder = |at: usize| eciton_train::sweep::trial_folder(&runs, at);
        std::fs::create_dir_all(runs.join("trials"))
            .map_err(|error| Failure::Failed(format!("{}: cannot be created: {error}", runs.display())))?;
        let numbers: Vec<usize> = (0..count).collect();
        let lot = Lot { configs: &workload.configs, numbers: &numbers, pause_after: None };
        let mut digests: Vec<Option<String>> = vec![None; count];
        let mut failures: Vec<(usize, String)> = Vec::new();
        let trained = functions.train(lot, (&folder, 1), self.stop, &mut |at, outcome| match outcome {
            Outcome::Trained(summary) | Outcome::Found(summary) => {
                if let Some(digest) = digests.get_mut(at) {
                    *digest = Some(summary.model_digest);
                }
            }
            Outcome::Failed(text) => failures.push((at, text)),
            Outcome::Left => {}
        });
        let spent = functions.spent();
        drop(functions);
        let done = digests.iter().flatten().count();
        if let Some(spent) = spent {
            let bill = spent.bill.since(&before.bill);
            let took = spent.seconds - before.seconds;
            *before = Before { bill: spent.bill, seconds: spent.seconds };
            proof.spent_usd = spent.cost.usd;
            let attempts = measured::attempts(&record, from)?;
            let (used, predicted) = planned.predicted(self.deployment.account_concurrency, host.place, book);
            let counted = compare::usage_from_bill(&bill, took);
            let functions = planned.functions(self.deployment.account_concurrency);
            let origins = (Origin::Counted, Origin::Counted);
            let billed = cost::lines(&counted, (functions, host.place, false), &book.prices, origins);
            let mut notes = planned.forecast.notes.clone();
            if bill.failed + bill.throttled > 0 {
                notes.push(format!(
                    "{} calls failed and {} requests were throttled; the prediction assumes none",
                    bill.failed, bill.throttled
                ));
            }
            notes.extend(spent.cut.map(|cut| format!("functions: {cut}")));
            proof.runs.push(Run {
                workload: name.to_owned(),
                memory_mb,
                function: self.deployment.trainer(memory_mb)?.name.clone(),
                begun,
                ended: iso(now()),
                done,
                failed: failures.len(),
                calls: bill.invocations,
                unreported: bill.unreported,
                used_mb: attempts.iter().filter_map(|end| end.used_mb).max(),
                times: planned.forecast.work.times.name().to_owned(),
                lines: lines(&predicted, &billed, bill.unreported),
                quantities: quantities(&used, &counted, bill.unreported),
                notes,
                digests,
            });
            made.push(Made { number, attempts, jobs: spent.jobs });
        }
        trained?;
        let left = count - done - failures.len();
        if let Some((at, text)) = failures.first() {
            return Err(Failure::Failed(format!(
                "{name} with {memory_mb} MB: {} of {count} trainings failed; training {at}: {text}",
                failures.len()
            )));
        }
        match left {
            0 => Ok(()),
            _ if self.stop.is_asked() => Err(Failure::Failed(format!(
                "{name} with {memory_mb} MB: stopped; {left} of {count} trainings were not run"
            ))),
            _ => Err(Failure::Failed(format!(
                "{name} with {memory_mb} MB: --max-usd {max_usd} is exhausted; {left} of {count} trainings were not run"
            ))),
        }
    }

    /// Measures the assumptions of the cloud file again, from the calls of all completed runs.
    fn measure(&self, proof: &mut Proof, made: &[Made]) {
        let Prepared { planned, book, .. } = self.prepared;
        proof.assumptions.clear();
        let mut sizes: Vec<u32> = planned.iter().map(|planned| planned.memory_mb).collect();
        sizes.dedup();
        for size in sizes {
            let Some(first) = planned.iter().find(|planned| planned.memory_mb == size) else { continue };
            let calls: Vec<Calls<'_>> = made.iter().filter_map(calls_of_size(planned, size)).collect();
            if calls.is_empty() {
                continue;
            }
            let functions = first.functions(self.deployment.account_concurrency);
            let preset = (&proof.cloud.preset[..], &book.preset);
            proof.assumptions.extend(measured::assumptions(&calls, preset, functions));
        }
    }
}

/// Returns a function that selects the completed runs with the memory size `size`, and maps them to
/// their calls.
fn calls_of_size<'a>(planned: &'a [Planned], size: u32) -> impl Fn(&'a Made) -> Option<Calls<'a>> {
    move |made| {
        let planned = planned.get(made.number).filter(|planned| planned.memory_mb == size)?;
        Some(Calls { work: &planned.forecast.work, attempts: &made.attempts, jobs: &made.jobs })
    }
}

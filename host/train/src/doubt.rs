//! Record of the processes whose answers are in doubt. If an audit finds a wrong answer of a
//! process, the earlier answers of the process may be wrong too.
//!
//! The run excludes the process, and rolls back to the newest checkpoint before the first answer of
//! the process. Without such a checkpoint, the training starts again.

use std::collections::BTreeMap;

use eciton_exec::{Audited, Process, Verdict};
use eciton_recipe::Config;
use eciton_runs::report::{AuditReport, Excluded};
use eciton_types::Step;

use crate::error::{Error, Result};

/// Maximum number of rollbacks that wrong answers may cause in one run.
const MOST_RETURNS: u32 = 64;

/// Record of the processes that answer tasks, and of those that an audit found to give wrong
/// answers.
#[derive(Debug, Default)]
pub(crate) struct Doubts {
    share: f64,
    keep: bool,
    /// Seed that is being trained, and its earliest unfinished epoch.
    now: (u64, u32),
    /// Seed and epoch of each process's first answer. If the process is excluded, the run rolls
    /// back to before this epoch.
    first: BTreeMap<Process, (u64, u32)>,
    excluded: Vec<Excluded>,
    /// Seeds and epochs from which on answers are in doubt, found while the run was already rolling
    /// back.
    late: Vec<(u64, u32)>,
    returns: u32,
}

impl Doubts {
    /// Creates the record of a run that has had no wrong answers.
    pub(crate) fn new(config: &Config) -> Self {
        let (share, keep) = (config.executor.audit, config.executor.keep_doubtful);
        Self { share, keep, ..Self::default() }
    }

    /// Records that the training of `seed` continues with `epoch`.
    pub(crate) fn begin(&mut self, seed: u64, epoch: u32) {
        self.now = (seed, epoch);
    }

    /// Records that an epoch of the current seed is finished.
    pub(crate) fn finished(&mut self, epoch: u32) {
        self.now.1 = epoch + 1;
    }

    /// Records that the process `by` answered a task. Does nothing for the host, and for a run
    /// without an audit.
    pub(crate) fn answered(&mut self, by: Process) {
        if self.share > 0.0 && by != Process::HOST {
            self.first.entry(by).or_insert(self.now);
        }
    }

    /// Handles the verdict of an audit that found different answers to `step`. If the run can
    /// continue, returns a warning for the user at the first wrong answer of a process.
    ///
    /// # Errors
    /// Returns [`Error::Doubtful`] if the run must roll back, and [`Error::Audit`] if it cannot
    /// continue.
    pub(crate) fn found(&mut self, step: Step, verdict: &Verdict) -> Result<Option<String>> {
        match verdict {
            Verdict::Wrong(by) => {
                let since = self.first.get(by).copied().unwrap_or(self.now);
                let (process, round) = (by.to_string(), (self.now.0, step.round.0));
                // The process was already excluded, but further answers of it were in flight.
                if let Some(known) = self.excluded.iter_mut().find(|known| known.process == process) {
                    known.rounds.push(round);
                    return Ok(None);
                }
                self.excluded.push(Excluded { process, rounds: vec![round], since });
                let wrong = format!(
                    "the result of {by} for {step} differs from two equal computations on this machine, so \
                     {by} is excluded"
                );
                if self.share >= 1.0 {
                    return Ok(Some(format!("{wrong}; all its earlier results were checked")));
                }
                if self.keep {
                    return Ok(Some(format!(
                        "{wrong}; the run continues with its earlier results (executor.keep_doubtful), so \
                         the result of the run is unverified"
                    )));
                }
                let (seed, epoch) = since;
                Err(Error::Doubtful { text: wrong, seed, epoch })
            }
            Verdict::Host => Err(Error::Audit(format!(
                "two computations of {step} on this machine differ, so its memory or processor is faulty, or \
                 a kernel is not deterministic; test the machine with `eciton doctor --audit 60`"
            ))),
            Verdict::Class(found) => Err(Error::Audit(format!(
                "the results have the numeric class {found}, but this machine computes in {}, so they cannot \
                 be compared bit for bit; set run.numeric_class to a class that both support",
                eciton_tensor::numeric_class()
            ))),
        }
    }

    /// Handles a verdict that arrives while the run is already rolling back. [`Doubts::take_late`]
    /// returns the epochs that it puts in doubt.
    pub(crate) fn found_late(&mut self, step: Step, verdict: &Verdict) {
        if let Err(Error::Doubtful { seed, epoch, .. }) = self.found(step, verdict) {
            self.late.push((seed, epoch));
        }
    }

    /// Removes and returns the seeds and epochs that [`Doubts::found_late`] has recorded.
    pub(crate) fn take_late(&mut self) -> Vec<(u64, u32)> {
        std::mem::take(&mut self.late)
    }

    /// Counts a rollback that wrong answers caused.
    ///
    /// # Errors
    /// Returns [`Error::Audit`] after more than [`MOST_RETURNS`] rollbacks.
    pub(crate) fn returned(&mut self) -> Result<()> {
        self.returns += 1;
        match self.returns > MOST_RETURNS {
            true => Err(Error::Audit(format!(
                "more than {MOST_RETURNS} processes computed wrong results, so a kernel may not be \
                 deterministic"
            ))),
            false => Ok(()),
        }
    }

    /// Returns the audit report of the run. Returns `None` if the run was not audited.
    pub(crate) fn report(&self, audited: Option<&Audited>) -> Option<AuditReport> {
        let audited = audited?;
        Some(AuditReport {
            share: self.share,
            answers: audited.answers,
            compared: audited.compared,
            excluded: self.excluded.clone(),
            returns: self.returns,
            unverified: self.keep && self.share < 1.0 && !self.excluded.is_empty(),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use eciton_types::{IntervalId, Location, Round, StageId};

    #[test]
    fn a_run_goes_back_to_the_first_answer_of_a_wrong_process() {
        let mut config = Config::default();
        config.executor.audit = 0.1;
        let step = Step { round: Round(7), stage: StageId(0), interval: IntervalId(1) };
        let worker = |index| Process { at: Location::worker(index), connection: 1 + u64::from(index) };
        let mut doubts = Doubts::new(&config);
        doubts.begin(4, 1);
        doubts.answered(worker(0));
        doubts.finished(5);
        doubts.answered(worker(0));
        doubts.answered(worker(1));
        doubts.begin(5, 1);
        let since = |error| match error {
            Error::Doubtful { seed, epoch, .. } => (seed, epoch),
            other => panic!("{other}"),
        };
        let wrong = |place| Verdict::Wrong(worker(place));
        assert_eq!(since(doubts.found(step, &wrong(1)).unwrap_err()), (4, 6));
        assert_eq!(since(doubts.found(step, &wrong(0)).unwrap_err()), (4, 1));
        doubts.answered(worker(2));
        doubts.found_late(step, &wrong(2));
        assert_eq!((doubts.take_late(), doubts.take_late()), (vec![(5, 1)], vec![]));
        let report = doubts.report(Some(&Audited::default())).unwrap();
        let named = |at: usize| (&report.excluded[at].process[..], &report.excluded[at].rounds[..]);
        assert_eq!((named(0), named(1)), (("worker 1", &[(5, 7)][..]), ("worker 0", &[(5, 7)][..])));
        assert_eq!(doubts.found(step, &wrong(1)).unwrap(), None, "it was on its way");
        assert!(!report.unverified && doubts.report(None).is_none());
        // With this setting the run continues after a wrong answer.
        config.executor.keep_doubtful = true;
        let mut doubts = Doubts::new(&config);
        assert!(doubts.found(step, &wrong(0)).unwrap().unwrap().contains("unverified"));
        assert!(doubts.report(Some(&Audited::default())).unwrap().unverified);
        config.executor.audit = 1.0;
        let mut doubts = Doubts::new(&config);
        assert!(doubts.found(step, &wrong(0)).unwrap().unwrap().contains("were checked"));
        assert!(!doubts.report(Some(&Audited::default())).unwrap().unverified);
        // A wrong result of the host makes every comparison unreliable.
        assert!(matches!(doubts.found(step, &Verdict::Host), Err(Error::Audit(_))));
        assert!(matches!(doubts.found(step, &Verdict::Class("portable-1".to_owned())), Err(Error::Audit(_))));
        (0..MOST_RETURNS).for_each(|_| doubts.returned().unwrap());
        assert!(doubts.returned().is_err());
    }
}

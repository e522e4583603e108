//! The course of the training of one seed. It takes the optimiser steps that the engine orders,
//! evaluates the model, reports, writes checkpoints, and decides when the training ends.
//!
//! A report covers a period of steps. A period ends with each epoch, each evaluation and each
//! interval of `run.log_every`.

use std::time::{Duration, Instant};

use eciton_engine::{Action, Engine, Event};
use eciton_exec::{Bill, Executor};
use eciton_graph::mapping;
use eciton_recipe::{Config, EvaluationMethod, Every};
use eciton_runs::report::EpochReport;
use eciton_types::Round;

use super::epochs::Epochs;
use super::judge::Judge;
use super::owning::{self, Returns};
use super::pass::State;
use super::stages::{Results, Stages};
use super::trained::{Best, Trained};
use super::{forward, measured, near, quality};
use crate::budget::Budget;
use crate::error::{Error, Result};
use crate::logs::Profiler;
use crate::stop::Stop;
use crate::undefined;
use crate::weights::Refused;

/// Events that the engine must process after an action, in this order.
pub(super) type Events = [Option<Event>; 2];

/// Settings and limits of the training of one seed.
#[derive(Clone, Copy)]
pub(crate) struct Plan<'a> {
    pub config: &'a Config,
    pub epochs: Epochs,
    /// Last step of the training.
    pub last: Round,
    pub stop: &'a Stop,
    /// Epoch after which the training pauses as if the user had stopped it. `None` if it does not
    /// pause.
    pub pause_after: Option<u32>,
    /// Time budget of this invocation, if it runs in a cloud function.
    pub budget: Option<&'a Budget>,
    /// True if evaluations compute the metric on some rows only, so that the final model is
    /// evaluated again.
    pub limited: bool,
}

impl Plan<'_> {
    /// Returns true if the model is evaluated after `round` in a training that is not stopped.
    fn evaluates(&self, round: Round) -> bool {
        if self.config.evaluation.method == EvaluationMethod::None {
            return false;
        }
        let every = self.config.run.eval_every.steps(self.epochs.rounds());
        round == self.last || every.is_some_and(|every| round.0.is_multiple_of(every))
    }

    /// Returns true if a report is made after `round`. Reports at fixed times are not included.
    fn reports(&self, round: Round) -> bool {
        let every = self.config.run.log_every.and_then(|every| every.steps(self.epochs.rounds()));
        let logs = every.is_some_and(|every| round.0.is_multiple_of(every));
        logs || self.epochs.ends(round) || self.evaluates(round)
    }
}

/// State of the training of one seed.
pub(super) struct Course<'a> {
    plan: Plan<'a>,
    stages: &'a Stages<'a>,
    evaluation: &'a Stages<'a>,
    evaluator: &'a mut Engine,
    pub trained: Trained,
    judge: Judge,
    /// Report of the period that has just ended. `None` once it is published.
    report: Option<EpochReport>,
    /// Charged usage at the end of the previous report.
    billed: Option<Bill>,
    /// Time at which the current round began.
    begun: Instant,
    /// Time of the previous report.
    reported: Instant,
    /// True if no model of this training was evaluated yet.
    unjudged: bool,
    /// True if the user was warned that a data file has been replaced.
    replaced: bool,
    /// Number of weights of the model.
    weights: u64,
    pub returns: Returns,
}

impl<'a> Course<'a> {
    pub(super) fn new(
        plan: Plan<'a>,
        (stages, evaluation, evaluator): (&'a Stages<'a>, &'a Stages<'a>, &'a mut Engine),
        trained: Trained,
    ) -> Self {
        let mut course = Self {
            judge: Judge::new(&plan.config.run, plan.epochs.rounds()),
            unjudged: trained.epochs.iter().all(|report| report.metrics.is_none()),
            weights: stages.program.parameters.iter().map(|parameter| parameter.len() as u64).sum(),
            plan,
            stages,
            evaluation,
            evaluator,
            trained,
            report: None,
            billed: None,
            begun: Instant::now(),
            reported: Instant::now(),
            replaced: false,
            returns: Returns::default(),
        };
        for report in &course.trained.epochs {
            let judged = course.judge.judge(report.step, report.metrics.and_then(|m| m.goodness()));
            course.trained.stopped_early = judged.stop;
            let reached = course.judge.reached(report.epoch, report.metrics);
            course.trained.reached = course.trained.reached.or(reached);
            if report.metrics.is_some_and(|found| near(plan.config, &found)) {
                course.trained.synchronised_after.get_or_insert(report.epoch);
            }
        }
        course
    }

    /// Returns true if the training is over, or pauses here, before it has taken a step.
    pub(super) fn is_over(&mut self) -> bool {
        let done = self.trained.steps / self.plan.epochs.rounds();
        self.trained.stopped = self.pauses(done) && !self.trained.is_over();
        self.trained.is_over() || self.trained.stopped
    }

    /// Returns true if the training pauses after `epoch`.
    fn pauses(&self, epoch: u32) -> bool {
        self.plan.pause_after.is_some_and(|pause| epoch >= pause)
    }

    /// Prepares the first round. An evaluation that an earlier process had to skip is made first.
    /// Returns true if the training ends with this evaluation.
    pub(super) fn begin<M: Executor + ?Sized>(
        &mut self,
        machine: &mut M,
        state: &mut State<'_>,
    ) -> Result<bool> {
        if let Some(budget) = self.plan.budget {
            budget.begin(self.weights);
        }
        self.billed = machine.usage().bill;
        state.counts.flops = self.trained.flops;
        self.returns = Returns::begin(machine, state, &self.trained.sum)?;
        if let Some(report) = self.trained.pending.take() {
            let round = Round(report.step);
            self.report = Some(report);
            self.evaluate(machine, state, round)?;
            self.ended(machine, state, round)?;
        }
        (self.begun, self.reported) = (Instant::now(), Instant::now());
        Ok(self.trained.is_over() || self.trained.stopped)
    }

    /// Carries out an action of the engine that concerns a whole round.
    pub(super) fn carry_out<M: Executor + ?Sized>(
        &mut self,
        machine: &mut M,
        state: &mut State<'_>,
        action: Action,
    ) -> Result<Events> {
        match action {
            Action::Update { round } => self.update(machine, state, round),
            Action::Evaluate { round } => {
                let stop = self.evaluate(machine, state, round)?;
                Ok([stop, Some(Event::Evaluated { round })])
            }
            Action::RoundFinished { round } => self.ended(machine, state, round),
            other => Err(Error::Internal(format!("unexpected request {other:?}"))),
        }
    }

    /// Returns true if a report ends with `round`.
    fn reports(&self, round: Round) -> bool {
        // After a rollback, the periods end where they ended before.
        let again = self.trained.epochs.last().is_some_and(|last| last.step == round.0);
        let seconds = match self.plan.config.run.log_every {
            Some(Every::Seconds(seconds)) if seconds > 0 => Some(Duration::from_secs(seconds.into())),
            _ => None,
        };
        let timed = seconds.is_some_and(|every| self.reported.elapsed() >= every);
        self.plan.reports(round) || again || timed && !self.trained.tells(round)
    }

    /// Takes the optimiser step of `round`.
    fn update<M: Executor + ?Sized>(
        &mut self,
        machine: &mut M,
        state: &mut State<'_>,
        round: Round,
    ) -> Result<Events> {
        self.trained.scored = false;
        let (config, epochs, stages) = (self.plan.config, self.plan.epochs, self.stages);
        let loss = state.weights.loss(round)?;
        let epoch = epochs.at(round);
        let not_finite = |what| Error::NotFinite { epoch, round: round.0, what, first: None };
        if !loss.is_finite() {
            return Err(not_finite(format!("the loss is {loss}")));
        }
        let steps = epochs.end(&config.run).map_or(u32::MAX, |end| end.0);
        let lr = config.optimiser.rate(round, steps, epochs.rounds());
        let reports = self.reports(round);
        let measures = reports && config.run.log_every.is_some();
        let update = Instant::now();
        let rows = stages.batches.as_ref().map(|batches| batches.rows(round)).transpose()?;
        let learns = rows.is_none_or(|rows| rows.weights > 0.0);
        let statistics = stages.statistics(round, state.weights)?;
        let settings = (&config.optimiser, lr, measures);
        let stepped = match owning::step(machine, state, settings, (round, learns), &statistics) {
            // The engine recomputes the sums of the failed worker.
            Err(Error::Gone { .. }) if !state.weights.owners().have_parameters() => return Ok([None; 2]),
            stepped => stepped?,
        };
        let refused = |refused| match refused {
            Refused::Norm(norm) => format!("the norm of the gradients is {norm}"),
            Refused::Gradient(at) => {
                let name = stages.program.parameters.get(at).map_or("", |parameter| &parameter.name);
                format!("the gradient of `{name}` has values that are not finite")
            }
        };
        let gradient_norm = stepped.map_err(refused).map_err(not_finite)?;
        if let Some(trace) = &mut state.logs.trace {
            trace.whole(&format!("update of round {round}"), update, update.elapsed())?;
        }
        if let Some(profile) = &mut state.logs.profile {
            profile.update(round, update.elapsed(), self.weights);
        }
        self.trained.sum.add(loss, rows.unwrap_or_default());
        self.trained.seconds += self.begun.elapsed().as_secs_f64();
        if reports {
            let report = self.make_report(state, round, (lr, gradient_norm));
            // After a rollback, the report of a repeated period exists already.
            self.report = (!self.trained.tells(round)).then_some(report);
            if !self.plan.evaluates(round) {
                self.publish(machine, state)?;
            }
        }
        // The stop request precedes the update event, so that no further round begins.
        let next = self.plan.evaluates(Round(round.0.saturating_add(1)));
        let is_over = self.plan.budget.is_some_and(|budget| budget.updated(next));
        let pauses = epochs.ends(round) && self.pauses(epoch) || is_over || self.is_stop_asked();
        let stops = pauses && !std::mem::replace(&mut self.trained.stopped, pauses);
        Ok([stops.then(|| self.stop_after(round)), Some(Event::Updated { round })])
    }

    /// Returns the report of the period that ends with `round`, and begins the next period.
    fn make_report(
        &mut self,
        state: &mut State<'_>,
        round: Round,
        (lr, gradient_norm): (f64, Option<f64>),
    ) -> EpochReport {
        let trained = &mut self.trained;
        let (sum, seconds) = (std::mem::take(&mut trained.sum), std::mem::take(&mut trained.seconds));
        let rows = self.stages.training_rows() as f64 / f64::from(self.plan.epochs.rounds());
        self.reported = Instant::now();
        EpochReport {
            seed: self.stages.seed,
            epoch: self.plan.epochs.at(round),
            step: round.0,
            loss: sum.mean(),
            metrics: None,
            seconds,
            rows_per_second: (seconds > 0.0).then(|| rows * f64::from(sum.rounds()) / seconds),
            flops: std::mem::take(&mut state.counts.flops),
            lr,
            gradient_norm,
            bill: None,
        }
    }

    /// Returns true if the run ends with only a checkpoint.
    fn leaves(&self, state: &State<'_>) -> bool {
        match self.stages.hosts {
            Some(hosts) => hosts.link().leaves(),
            None => {
                self.plan.stop.leaves() && state.recorder.as_ref().is_some_and(|recorder| recorder.can_save())
            }
        }
    }

    /// Returns the stop request that skips evaluations, which are then left to the process that
    /// resumes the run. Returns `None` if further rounds are in flight, because they change the
    /// weights.
    fn skips(&self) -> Option<&'a Stop> {
        let one_round = self.plan.config.pipeline.gradient_versions() == 1;
        Some(self.plan.stop).filter(|_| one_round && self.stages.hosts.is_none())
    }

    /// Returns the event that ends the training if it is over, or if a stop was requested. No
    /// further round begins if this event precedes the end of `round`.
    fn stops(&mut self, round: Round) -> Option<Event> {
        let asked = self.is_stop_asked() && !std::mem::replace(&mut self.trained.stopped, true);
        (asked || self.trained.is_over()).then_some(self.stop_after(round))
    }

    /// Returns true if a stop was requested that this host decides on. On several hosts, the request
    /// ends the training by a message to all of them.
    fn is_stop_asked(&self) -> bool {
        self.stages.hosts.is_none() && self.plan.stop.is_asked()
    }

    /// Returns the event that ends the training after `round` and the rounds in flight. On several
    /// hosts, it names the last round that any of them may have entered.
    fn stop_after(&self, round: Round) -> Event {
        match self.stages.hosts {
            None => Event::StopRequested,
            Some(_) => Event::EndAfter { round: self.furthest(round) },
        }
    }

    /// Returns the last round that a host may have entered before the end of `round`.
    fn furthest(&self, round: Round) -> Round {
        Round(round.0.saturating_add(self.plan.config.pipeline.bound()))
    }

    /// Evaluates the model after `round`, and judges it. Returns an event for the engine that
    /// precedes the end of the evaluation. An evaluation is skipped if the run leaves with only a
    /// checkpoint. If it was due, the checkpoint has the unfinished report.
    fn evaluate<M: Executor + ?Sized>(
        &mut self,
        machine: &mut M,
        state: &mut State<'_>,
        round: Round,
    ) -> Result<Option<Event>> {
        // A stop in the middle of a period has no report. A repeated period already has one.
        let Some(report) = &self.report else { return Ok(self.stops(round)) };
        let (config, epoch) = (self.plan.config, report.epoch);
        state.logs.profile.iter_mut().for_each(Profiler::evaluates);
        let evaluated = !(self.leaves(state) && self.skips().is_some()) && {
            let stop = Some(self.plan.stop).filter(|_| self.stages.hosts.is_none());
            let stops = (stop, self.skips());
            forward(machine, self.evaluator, self.evaluation, state, round, stops)?
        };
        if !evaluated {
            self.trained.pending = self.report.take_if(|_| self.plan.evaluates(round));
            return Ok(self.stops(round));
        }
        let found = measured(self.evaluation)?;
        tracing::debug!(
            round = round.0, train = ?found.train, validation = ?found.validation, test = ?found.test, "evaluated"
        );
        if matches!(self.evaluation.results, Results::Folded(_)) && !self.plan.limited {
            self.trained.quality = quality(self.evaluation)?;
        }
        if let Some(report) = &mut self.report {
            report.metrics = Some(found);
        }
        if std::mem::take(&mut self.unjudged) {
            undefined::check_first(config, &found, (&self.stages.inputs.dataset.name, epoch))?;
        }
        let judged = self.judge.judge(round.0, found.goodness());
        if judged.best && config.run.keep.is_by_validation() {
            let values = std::sync::Arc::new(state.weights.all_values()?);
            self.trained.best = Some(Best { epoch, step: round.0, values });
        }
        (self.trained.stopped_early, self.trained.scored) = (judged.stop, !self.plan.limited);
        self.trained.reached = self.trained.reached.or(self.judge.reached(epoch, Some(found)));
        let near = near(config, &found) && self.trained.synchronised_after.is_none();
        if near {
            self.trained.synchronised_after = Some(epoch);
        }
        self.publish(machine, state)?;
        let synchronise = match self.stages.hosts {
            None => Event::Synchronise,
            Some(_) => Event::SynchroniseFrom { round: Round(self.furthest(round).0.saturating_add(1)) },
        };
        Ok(self.stops(round).or(near.then_some(synchronise)))
    }

    /// Ends `round`, and writes a checkpoint if one is due.
    fn ended<M: Executor + ?Sized>(
        &mut self,
        machine: &mut M,
        state: &mut State<'_>,
        round: Round,
    ) -> Result<Events> {
        let epochs = self.plan.epochs;
        if let Some(batches) = &self.stages.batches {
            batches.over(round);
        }
        self.trained.steps = round.0;
        if epochs.ends(round) {
            state.doubts.finished(epochs.at(round));
        }
        let stopping = self.is_stop_asked() && !self.trained.stopped;
        self.trained.stopped |= stopping;
        self.trained.flops = state.counts.flops;
        let current = self.trained.pending.is_none()
            && self.trained.epochs.last().is_none_or(|last| round.0 >= last.step);
        let due = match &mut state.recorder {
            Some(recorder) if current => recorder.is_due(round, epochs),
            _ => false,
        };
        self.returns.log(machine, state, (&self.trained.sum, due))?;
        if due {
            self.save(machine, state, false)?;
        }
        owning::join(state)?;
        if let Some(budget) = self.plan.budget {
            budget.ended();
        }
        self.begun = Instant::now();
        Ok([stopping.then_some(Event::StopRequested), None])
    }

    /// Publishes the report of the period that has ended. It precedes the end of the round, so that
    /// its receiver can stop the run before the next round.
    fn publish<M: Executor + ?Sized>(&mut self, machine: &mut M, state: &mut State<'_>) -> Result<()> {
        let Some(mut report) = self.report.take() else { return Ok(()) };
        if let Some(path) = mapping::check_unchanged()?
            && !std::mem::replace(&mut self.replaced, true)
        {
            state.observer.warning(&format!(
                "{}: the file was replaced during the run; the run continues with the data that it has \
                 opened, but `eciton resume` will refuse the new data",
                path.display()
            ));
        }
        if let (Some(now), Some(before)) = (machine.usage().bill, &mut self.billed) {
            report.bill = Some(now.since(&std::mem::replace(before, now)));
        }
        state.observer.epoch(&report);
        self.trained.epochs.push(report);
        match &mut state.recorder {
            Some(recorder) => recorder.epoch(&self.trained),
            None => Ok(()),
        }
    }

    /// Writes a checkpoint. `stopped` is true if the training was stopped, and the process will
    /// end.
    fn save<M: Executor + ?Sized>(
        &mut self,
        machine: &mut M,
        state: &mut State<'_>,
        stopped: bool,
    ) -> Result<()> {
        let Some(recorder) = &mut state.recorder else { return Ok(()) };
        let (seed, bill) = (self.stages.seed, machine.usage().bill);
        let position = (seed, self.plan.epochs);
        let saved = recorder.save((&self.trained, stopped), (state.weights, position), state.counts, bill)?;
        saved.iter().for_each(|text| state.observer.warning(text));
        Ok(())
    }

    /// Writes a checkpoint of the last step, because no worker is left. Returns the error that ends the
    /// run.
    pub(super) fn deserted<M: Executor + ?Sized>(
        &mut self,
        machine: &mut M,
        state: &mut State<'_>,
        reason: String,
    ) -> Error {
        if !state.weights.owners().have_parameters() {
            if state.weights.steps() > self.trained.steps && self.skips().is_some() {
                // The step was taken, and its evaluation is left to the process that resumes the run.
                self.trained.steps = state.weights.steps();
                self.trained.pending = self.report.take();
                self.trained.flops = state.counts.flops;
            }
            if let Err(error) = self.save(machine, state, true) {
                return error;
            }
        }
        Error::Deserted(reason)
    }

    /// Ends the training. If it was stopped, a checkpoint of its last step is written. Returns the
    /// result.
    pub(super) fn finish<M: Executor + ?Sized>(
        mut self,
        machine: &mut M,
        state: &mut State<'_>,
        stopped: bool,
    ) -> Result<Trained> {
        let is_over = self.plan.budget.is_some_and(Budget::is_over);
        // A seed that has ended pauses as well, because its results are not yet computed and
        // written.
        // The evaluation of the last step may be left to the process that resumes the run.
        let left = self.trained.pending.is_some();
        self.trained.stopped = ((stopped || left) && !self.trained.is_over()) || is_over;
        if self.trained.stopped {
            self.save(machine, state, true)?;
            let steps = Round(self.trained.steps);
            let unfinished = self.trained.sum.rounds() > 0 && !self.trained.tells(steps);
            if unfinished && !self.leaves(state) && !is_over {
                // The results of the run include the steps of the unfinished period. The checkpoint
                // does not, because the run reports the whole period after it is resumed.
                let (config, epochs) = (self.plan.config, self.plan.epochs);
                let all = epochs.end(&config.run).map_or(u32::MAX, |end| end.0);
                let lr = config.optimiser.rate(steps, all, epochs.rounds());
                self.report = Some(self.make_report(state, steps, (lr, None)));
                self.publish(machine, state)?;
            }
        }
        state.weights.free_buffers();
        Ok(self.trained)
    }
}

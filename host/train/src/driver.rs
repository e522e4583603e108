//! The driver, which carries out the actions of the engine (the scheduler) on real executors and
//! reports completions back as events.

mod checkpointer;
mod counts;
mod epochs;
mod finite_check;
mod fold;
mod judge;
mod meter;
mod op;
mod operator;
mod owning;
mod pass;
mod rows;
mod span;
mod stages;
mod trained;
mod tuning;
mod watch;

use std::time::Instant;

use eciton_engine::{Action, Engine, Event, Reason};
use eciton_exec::{Bill, Executor};
use eciton_graph::{mapping, metrics};
use eciton_recipe::{Config, Metric};
use eciton_runs::report::{EpochReport, Metrics, Quality};
use eciton_tensor::{Matrix, View};
use eciton_types::Round;

pub(crate) use self::checkpointer::Checkpointer;
pub(crate) use self::counts::Counts;
pub(crate) use self::epochs::Epochs;
use self::epochs::Sum;
pub(crate) use self::fold::Fold;
use self::judge::Judge;
pub(crate) use self::op::open_stages;
use self::owning::Returns;
pub(crate) use self::owning::{MOST_RETURNS, give, restore};
use self::pass::Pass;
pub(crate) use self::pass::State;
pub(crate) use self::rows::RowStore;
pub(crate) use self::stages::{Stages, stage_bytes};
pub(crate) use self::trained::{Best, Trained};
pub(crate) use self::tuning::{Money, Tuning};
pub(crate) use self::watch::Watch;
use crate::budget::Budget;
use crate::error::{Error, Result, at};
use crate::logs::Profiler;
use crate::stop::Stop;
use crate::undefined;
use crate::weights::Refused;

/// Training of one seed, with its training and evaluation stages, its settings and its limits.
pub(crate) struct Training<'a> {
    pub stages: Stages<'a>,
    pub evaluation: Stages<'a>,
    pub evaluator: &'a mut Engine,
    pub config: &'a Config,
    pub epochs: Epochs,
    pub stop: &'a Stop,
    /// Epoch after which the training pauses as if the user had stopped it. `None` if it does not
    /// pause.
    pub pause_after: Option<u32>,
    /// Time budget of this invocation, if it runs in a cloud function.
    pub budget: Option<&'a Budget>,
}

impl Training<'_> {
    /// Trains one seed until its last epoch, or until it is stopped earlier. The training starts
    /// with the weights in `state`, after the epochs that `trained` contains.
    pub(crate) fn run<M: Executor + ?Sized>(
        &mut self,
        machine: &mut M,
        engine: &mut Engine,
        state: &mut State<'_>,
        mut trained: Trained,
    ) -> Result<Trained> {
        let mut begun = Instant::now();
        let mut replaced = false;
        let mut report: Option<EpochReport> = None;
        let mut billed: Option<Bill> = machine.usage().bill;
        let (seed, stop, epochs) = (self.stages.seed, self.stop, self.epochs);
        let mut sum = Sum::default();
        let (evaluation, evaluator, config) = (&self.evaluation, &mut *self.evaluator, self.config);
        let stages = &self.stages;
        state.counts.flops = 0;
        let mut judge = Judge::new(&config.run);
        let mut unjudged = trained.epochs.iter().all(|report| report.metrics.is_none());
        for report in &trained.epochs {
            trained.stopped_early = judge.judge(report.epoch, report.metrics.and_then(|m| m.goodness())).stop;
            trained.reached = trained.reached.or(judge.reached(report.epoch, report.metrics));
            if report.metrics.is_some_and(|found| near(config, &found)) {
                trained.synchronised_after.get_or_insert(report.epoch);
            }
        }
        if trained.synchronised_after.is_some() {
            // Before the engine starts, this event causes no actions.
            drop(engine.step(Event::Synchronise));
        }
        let pause_after = self.pause_after;
        let pauses = |done: u32| pause_after.is_some_and(|epoch| done >= epoch);
        trained.stopped = pauses(trained.epochs.last().map_or(0, |last| last.epoch)) && !trained.is_over();
        if trained.is_over() || trained.stopped {
            return Ok(trained);
        }
        let parameters = self.stages.program.parameters.iter();
        let values: u64 = parameters.map(|parameter| parameter.len() as u64).sum();
        let budget = self.budget;
        if let Some(budget) = budget {
            budget.begin(values);
        }
        let mut returns = Returns::begin(machine, state)?;
        let mut first = None;
        let reason = loop {
            let other = |machine: &mut M, state: &mut State<'_>, action| match action {
                Action::Update { round } => {
                    trained.scored = false;
                    let loss = state.weights.loss(round)?;
                    let epoch = epochs.at(round);
                    let not_finite = |what| Error::NotFinite { epoch, round: round.0, what, first: None };
                    if !loss.is_finite() {
                        return Err(not_finite(format!("the loss is {loss}")));
                    }
                    let lr = config.optimiser.rate(Round(epoch), config.run.epochs);
                    let update = Instant::now();
                    let stepped = match owning::step(machine, state, (&config.optimiser, lr), round) {
                        // The engine recomputes the sums of the failed worker.
                        Err(Error::Gone { .. }) if !state.weights.owners().have_parameters() => {
                            return Ok([None; 2]);
                        }
                        stepped => stepped?,
                    };
                    let refused = |refused| match refused {
                        Refused::Norm(norm) => format!("the norm of the gradients is {norm}"),
                        Refused::Gradient(at) => {
                            let name =
                                stages.program.parameters.get(at).map_or("", |parameter| &parameter.name);
                            format!("the gradient of `{name}` has values that are not finite")
                        }
                    };
                    let gradient_norm = stepped.map_err(refused).map_err(not_finite)?;
                    if let Some(trace) = &mut state.logs.trace {
                        trace.whole(&format!("update of round {round}"), update, update.elapsed())?;
                    }
                    if let Some(profile) = &mut state.logs.profile {
                        profile.update(round, update.elapsed(), values);
                    }
                    let rows = stages.batches.as_ref().map(|batches| batches.rows(round)).transpose()?;
                    sum.add(loss, rows.unwrap_or_default(), gradient_norm);
                    if !epochs.ends(round) {
                        return Ok([Some(Event::Updated { round }), None]);
                    }
                    let (loss, gradient_norm) = std::mem::take(&mut sum).means(gradient_norm);
                    if trained.tells(epoch) {
                        // The epoch was repeated after a rollback, and its report exists.
                        return Ok([Some(Event::Updated { round }), None]);
                    }
                    let seconds = begun.elapsed().as_secs_f64();
                    report = Some(EpochReport {
                        seed,
                        epoch,
                        loss,
                        metrics: None,
                        seconds,
                        flops: std::mem::take(&mut state.counts.flops),
                        lr,
                        gradient_norm,
                        bill: None,
                    });
                    // The stop request precedes the update event, so that no further epoch begins.
                    let is_over = budget.is_some_and(Budget::updated);
                    let pauses = pauses(epoch) || is_over;
                    let pausing = pauses && !std::mem::replace(&mut trained.stopped, pauses);
                    Ok([pausing.then_some(Event::StopRequested), Some(Event::Updated { round })])
                }
                Action::Evaluate { round } if trained.tells(epochs.at(round)) => {
                    let stop = trained.is_over().then_some(Event::StopRequested);
                    Ok([stop, Some(Event::Evaluated { round })])
                }
                Action::Evaluate { round } => {
                    state.logs.profile.iter_mut().for_each(Profiler::evaluates);
                    forward(machine, evaluator, evaluation, state, round, Some(stop))?;
                    let found = measured(evaluation)?;
                    tracing::debug!(
                        round = round.0, train = ?found.train, validation = ?found.validation, test = ?found.test, "evaluated"
                    );
                    if evaluation.fold.is_some() {
                        trained.quality = quality(evaluation)?;
                    }
                    if let Some(report) = &mut report {
                        report.metrics = Some(found);
                    }
                    let epoch = epochs.at(round);
                    if std::mem::take(&mut unjudged) {
                        undefined::check_first(config, &found, (&stages.inputs.dataset.name, epoch))?;
                    }
                    let judged = judge.judge(epoch, found.goodness());
                    if judged.best && config.run.keep.is_by_validation() {
                        trained.best = Some(Best { epoch, values: state.weights.all_values()? });
                    }
                    (trained.stopped_early, trained.scored) = (judged.stop, true);
                    trained.reached = trained.reached.or(judge.reached(epoch, Some(found)));
                    let near = near(config, &found) && trained.synchronised_after.is_none();
                    if near {
                        trained.synchronised_after = Some(epoch);
                    }
                    // The stop request precedes the evaluation event, so that no further epoch
                    // begins.
                    let stop = trained.is_over().then_some(Event::StopRequested);
                    Ok([stop.or(near.then_some(Event::Synchronise)), Some(Event::Evaluated { round })])
                }
                Action::RoundFinished { round } => {
                    if let Some(batches) = &stages.batches {
                        batches.over(round);
                    }
                    if epochs.ends(round) {
                        state.doubts.finished(epochs.at(round));
                    } else {
                        returns.log(machine, state, (&sum, false))?;
                        owning::join(state)?;
                        return Ok([None; 2]);
                    }
                    if let Some(path) = mapping::check_unchanged()?
                        && !std::mem::replace(&mut replaced, true)
                    {
                        state.observer.warning(&format!(
                            "{}: the file was replaced during the run; the run continues with the data that \
                             it has opened, but `eciton resume` will refuse the new data",
                            path.display()
                        ));
                    }
                    if let Some(mut report) = report.take() {
                        if let (Some(now), Some(before)) = (machine.usage().bill, &mut billed) {
                            report.bill = Some(now.since(&std::mem::replace(before, now)));
                        }
                        state.observer.epoch(&report);
                        trained.epochs.push(report);
                        if let Some(recorder) = &mut state.recorder {
                            recorder.epoch(&trained)?;
                        }
                    }
                    let stopping = stop.is_asked() && !trained.stopped;
                    trained.stopped |= stopping;
                    // A repeated epoch is earlier than the last reported one.
                    let last = trained.epochs.last().is_some_and(|last| last.epoch == epochs.at(round));
                    let due = last && state.recorder.as_ref().is_some_and(|recorder| recorder.is_due());
                    returns.log(machine, state, (&sum, due))?;
                    if let Some(recorder) = state.recorder.as_mut().filter(|_| due) {
                        let warned = recorder.save(
                            (&trained, false),
                            (state.weights, epochs),
                            state.counts,
                            machine.usage().bill,
                        )?;
                        warned.iter().for_each(|text| state.observer.warning(text));
                    }
                    owning::join(state)?;
                    if let Some(budget) = budget {
                        budget.ended();
                    }
                    begun = Instant::now();
                    Ok([stopping.then_some(Event::StopRequested), None])
                }
                other => Err(Error::Internal(format!("unexpected request {other:?}"))),
            };
            let ends = !state.weights.owners().have_parameters();
            match Pass::new(machine, Some(stop), ends).of_epochs(epochs).run(engine, stages, state, other) {
                Err(Error::Gone { .. }) => {}
                ended => {
                    let ended = (ended?, state.weights.newest());
                    let (reason, _) = *first.get_or_insert(ended);
                    if owning::finish(machine, state)? {
                        break reason;
                    }
                }
            }
            // Rolls back to the snapshot, from which the run repeats the same updates.
            trained.stopped &= first.is_some();
            sum = returns.back(machine, engine, state, first.map(|(_, end)| end))?;
        };
        // A seed that has ended pauses as well, because its results are not yet computed and
        // written.
        let is_over = budget.is_some_and(Budget::is_over);
        trained.stopped = (matches!(reason, Reason::Stopped) && !trained.is_over()) || is_over;
        if trained.stopped
            && let Some(recorder) = &mut state.recorder
        {
            let bill = machine.usage().bill;
            let warned = recorder.save((&trained, true), (state.weights, epochs), state.counts, bill)?;
            warned.iter().for_each(|text| state.observer.warning(text));
        }
        state.weights.free_buffers();
        Ok(trained)
    }
}

/// Runs the evaluation program once with the newest weights. Afterwards the row store contains the
/// scores of all rows. If `stages` has a [`Fold`], the scores are folded into the metric instead of
/// being stored.
pub(crate) fn forward<M: Executor + ?Sized>(
    machine: &mut M,
    engine: &mut Engine,
    stages: &Stages<'_>,
    state: &mut State<'_>,
    round: Round,
    stop: Option<&Stop>,
) -> Result<()> {
    engine.restart(round, round, state.weights.newest());
    let other = |_: &mut M, _: &mut State<'_>, action| match action {
        Action::Update { round } => Ok([Some(Event::Updated { round }), None]),
        Action::Evaluate { round } => Ok([Some(Event::Evaluated { round }), None]),
        _ => Ok([None; 2]),
    };
    let ends = !state.weights.owners().have_parameters();
    let reason = Pass::new(machine, stop, ends).run(engine, stages, state, other)?;
    if reason == Reason::Stopped && stop.is_some() {
        // The evaluation was cancelled, so its tasks now run on this machine.
        return forward(machine, engine, stages, state, round, None);
    }
    Ok(())
}

/// Returns true if the validation metric in `found` has reached `pipeline.synchronous_at`, so that
/// the following epochs train synchronously.
fn near(config: &Config, found: &Metrics) -> bool {
    let target = config.pipeline.synchronous_at.map(|target| found.metric.goodness(target));
    target.is_some_and(|target| found.goodness() >= Some(target))
}

/// Computes the metric on the training, validation and test rows from the scores of the last
/// evaluation.
pub(crate) fn measured(stages: &Stages<'_>) -> Result<Metrics> {
    if let Some(fold) = &stages.fold {
        return Ok(fold.measured(stages.inputs, stages.inputs.metric));
    }
    with_scores(stages, |view| {
        let metric = stages.inputs.metric;
        let (labels, split) = stages.inputs.learnt();
        if let Some(links) = &stages.inputs.links {
            return Ok(links.measured(view, metric));
        }
        let by = match metric {
            Metric::F1Micro => metrics::f1_micro,
            Metric::F1Macro => metrics::f1_macro,
            Metric::BalancedAccuracy => metrics::balanced_accuracy,
            Metric::RocAuc => metrics::roc_auc,
            Metric::AveragePrecision => metrics::average_precision,
            Metric::MeanAbsoluteError => metrics::mean_absolute_error,
            Metric::RootMeanSquaredError => metrics::root_mean_squared_error,
            Metric::Accuracy => metrics::accuracy_of,
            Metric::CrossEntropy => metrics::cross_entropy,
            Metric::Hits10
            | Metric::Hits20
            | Metric::Hits50
            | Metric::Hits100
            | Metric::MeanReciprocalRank => {
                return Err(Error::Internal(format!("the metric {} requires links", metric.name())));
            }
        };
        let of = |ids: &[u32]| by(view.data(), view.stride(), labels, ids);
        let (train, validation, test) = (of(&split.train), of(&split.validation), of(&split.test));
        Ok(Metrics { metric, train, validation, test })
    })
}

/// Computes the quality of the model, including results per class, from the scores of the last
/// evaluation. It is computed on the test rows, or on the validation rows if there are no test
/// rows.
pub(crate) fn quality(stages: &Stages<'_>) -> Result<Option<Quality>> {
    let (labels, split) = stages.inputs.learnt();
    let parts = [("test", &split.test), ("validation", &split.validation)];
    let part = parts.into_iter().find(|(_, ids)| !ids.is_empty()).map(|(part, ids)| (part, &ids[..]));
    if let Some(fold) = &stages.fold {
        return Ok(part.and_then(|part| fold.quality(stages.inputs, part)));
    }
    with_scores(stages, |view| {
        if let Some(links) = &stages.inputs.links {
            return Ok(links.quality(view));
        }
        let Some((part, ids)) = part else { return Ok(None) };
        let Some(tally) = metrics::Tally::from_scores(view.data(), view.stride(), labels, ids) else {
            return Ok(None);
        };
        let mut found = Quality::from_tally(part, &tally, &stages.inputs.dataset.names);
        found.roc_auc = metrics::roc_auc(view.data(), view.stride(), labels, ids);
        found.average_precision = metrics::average_precision(view.data(), view.stride(), labels, ids);
        Ok(Some(found))
    })
}

/// Calls `f` with the scores of all rows that the last evaluation stored.
fn with_scores<T>(stages: &Stages<'_>, f: impl FnOnce(View<'_>) -> Result<T>) -> Result<T> {
    let slot =
        stages.program.scores.ok_or_else(|| Error::Internal("the program has no scores".to_owned()))?;
    let Matrix::Dense(scores) = stages.rows.all(slot)? else {
        return Err(Error::Internal("the scores are sparse".to_owned()));
    };
    let held = scores.hold(None).map_err(at("scores"))?;
    f(held.view())
}

//! The driver, which carries out the actions of the engine (the scheduler) on real executors and
//! reports completions back as events.

mod checkpointer;
mod counts;
mod course;
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

use eciton_engine::{Action, Engine, Event, Reason};
use eciton_exec::Executor;
use eciton_graph::metrics;
use eciton_recipe::{Config, Metric};
use eciton_runs::report::{Metrics, Quality};
use eciton_tensor::{Matrix, View};
use eciton_types::Round;

pub(crate) use self::checkpointer::Checkpointer;
pub(crate) use self::counts::Counts;
use self::course::Course;
pub(crate) use self::course::Plan;
pub(crate) use self::epochs::{Epochs, Sum};
pub(crate) use self::fold::Fold;
pub(crate) use self::op::open_stages;
pub(crate) use self::owning::{MOST_RETURNS, give, restore};
use self::pass::Pass;
pub(crate) use self::pass::State;
pub(crate) use self::rows::{Lease, RowStore, WriteLease};
pub(crate) use self::stages::{Results, Stages, stage_bytes};
pub(crate) use self::trained::{Best, Trained};
pub(crate) use self::tuning::{Money, Tuning};
pub(crate) use self::watch::Watch;
use crate::error::{Error, Result, at};
use crate::stop::Stop;

/// Training of one seed, with its training and evaluation stages, its settings and its limits.
pub(crate) struct Training<'a> {
    pub stages: Stages<'a>,
    pub evaluation: Stages<'a>,
    pub evaluator: &'a mut Engine,
    pub plan: Plan<'a>,
}

impl Training<'_> {
    /// Trains one seed until its last step, or until it is stopped earlier. The training starts
    /// with the weights in `state`, after the steps that `trained` contains.
    pub(crate) fn run<M: Executor + ?Sized>(
        &mut self,
        machine: &mut M,
        engine: &mut Engine,
        state: &mut State<'_>,
        trained: Trained,
    ) -> Result<Trained> {
        let (stages, plan) = (&self.stages, self.plan);
        let mut course = Course::new(plan, (stages, &self.evaluation, &mut *self.evaluator), trained);
        if course.trained.synchronised_after.is_some() {
            // Before the engine starts, this event causes no actions.
            drop(engine.step(Event::Synchronise));
        }
        if course.is_over() {
            return Ok(course.trained);
        }
        if course.begin(machine, state)? {
            let stopped = course.trained.stopped;
            return course.finish(machine, state, stopped);
        }
        let mut first = None;
        let reason = loop {
            let ends = !state.weights.owners().have_parameters();
            let pass = Pass::new(machine, (Some(plan.stop).filter(|_| ends), None)).of_epochs(plan.epochs);
            let other =
                |machine: &mut M, state: &mut State<'_>, action| course.carry_out(machine, state, action);
            match pass.run(engine, stages, state, other) {
                Err(Error::Gone { .. }) => {}
                Err(Error::Deserted(reason)) => return Err(course.deserted(machine, state, reason)),
                ended => {
                    let ended = (ended?, state.weights.newest());
                    let (reason, _) = *first.get_or_insert(ended);
                    if owning::finish(machine, state)? {
                        break reason;
                    }
                }
            }
            // Rolls back to the snapshot, from which the run repeats the same updates.
            course.trained.stopped &= first.is_some();
            let end = first.map(|(_, end)| end);
            course.trained.sum = course.returns.back(machine, engine, state, end)?;
        };
        let stopped = stages.hosts.is_some_and(|hosts| hosts.link().is_stopped());
        course.finish(machine, state, stopped || matches!(reason, Reason::Stopped))
    }
}

/// Runs the evaluation program once with the newest weights. Afterwards the row store contains the
/// scores of all rows. If `stages` has a [`Fold`], the scores are folded into the metric instead of
/// being stored. An evaluation on samples runs the program once for each round of micro-batches.
///
/// The first stop request of `stops` cancels tasks on functions and workers, which are then run
/// here. The second one skips the evaluation if it asks to leave. Returns false if the evaluation
/// was skipped.
pub(crate) fn forward<M: Executor + ?Sized>(
    machine: &mut M,
    engine: &mut Engine,
    stages: &Stages<'_>,
    state: &mut State<'_>,
    round: Round,
    (stop, leave): (Option<&Stop>, Option<&Stop>),
) -> Result<bool> {
    if let Results::Sampled(sampled) = stages.results {
        for round in (1..=sampled.rounds()).map(Round) {
            if !forward_once(machine, engine, stages, state, round, (stop, leave))? {
                return Ok(false);
            }
            sampled.take(stages, round)?;
        }
        return Ok(true);
    }
    forward_once(machine, engine, stages, state, round, (stop, leave))
}

/// Runs the evaluation program once on all intervals, or on the micro-batches of `round`. Arguments and
/// result are those of [`forward`].
fn forward_once<M: Executor + ?Sized>(
    machine: &mut M,
    engine: &mut Engine,
    stages: &Stages<'_>,
    state: &mut State<'_>,
    round: Round,
    (stop, leave): (Option<&Stop>, Option<&Stop>),
) -> Result<bool> {
    engine.restart(round, round, state.weights.newest());
    let other = |_: &mut M, _: &mut State<'_>, action| match action {
        Action::Update { round } => Ok([Some(Event::Updated { round }), None]),
        Action::Evaluate { round } => Ok([Some(Event::Evaluated { round }), None]),
        _ => Ok([None; 2]),
    };
    let ends = !state.weights.owners().have_parameters();
    let leave = leave.filter(|_| state.recorder.as_ref().is_some_and(|recorder| recorder.can_save()));
    let stops = (stop.filter(|_| ends), leave.filter(|_| ends));
    let reason = Pass::new(machine, stops).run(engine, stages, state, other)?;
    if reason == Reason::Stopped && leave.is_some_and(Stop::leaves) {
        return Ok(false);
    }
    if reason == Reason::Stopped && stop.is_some() {
        // The evaluation was cancelled, so its tasks now run on this machine.
        return forward_once(machine, engine, stages, state, round, (None, leave));
    }
    Ok(true)
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
    if let Results::Folded(fold) = &stages.results {
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
    if let Results::Folded(fold) = &stages.results {
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
    if let Some(hosts) = stages.hosts {
        return hosts.with_scores(|scores, columns| {
            f(View::new(scores, scores.len().checked_div(columns).unwrap_or(0), columns))
        });
    }
    if let Results::Sampled(sampled) = stages.results {
        let (columns, scores) = sampled.scores();
        return f(View::new(&scores, scores.len().checked_div(columns).unwrap_or(0), columns));
    }
    let slot =
        stages.program.scores.ok_or_else(|| Error::Internal("the program has no scores".to_owned()))?;
    let Matrix::Dense(scores) = stages.rows.all(slot)? else {
        return Err(Error::Internal("the scores are sparse".to_owned()));
    };
    let held = scores.hold(None).map_err(at("scores"))?;
    f(held.view())
}

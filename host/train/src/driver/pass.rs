//! A pass, which is one run of an engine from its start until it has finished.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use eciton_engine::{Action, Engine, Event, Reason, WaitsFor};
use eciton_exec::hosts::Message;
use eciton_exec::{Affinity, Answered, Cancel, Completion, Executor, Job, WorkError};
use eciton_kernel::Finished;
use eciton_kernel::wire::Answer;
use eciton_runs::report::Observer;
use eciton_types::{Exchanged, Location, Round, StageId, Task, TaskKey};

use super::checkpointer::Checkpointer;
use super::counts::Counts;
use super::epochs::Epochs;
use super::meter::Meter;
use super::stages::Stages;
use super::tuning::Tuning;
use crate::batch::Batches;
use crate::doubt::Doubts;
use crate::error::{Error, Result};
use crate::hosts::{Exchange, Shared};
use crate::logs::{Arrived, Events, Logs, Span};
use crate::owned::{Aside, Asking};
use crate::stop::Stop;
use crate::weights::Weights;

/// Maximum time that the driver waits for completions before it checks for a stop request, if a
/// stop cancels tasks.
const LOOK: Duration = Duration::from_millis(50);
/// Maximum time that the driver waits for completions at a time, if a stop does not cancel tasks.
const WATCH: Duration = Duration::from_secs(5);
/// Time without completions after which the driver reports the steps that it waits for.
const STALLED: Duration = Duration::from_secs(30);

/// Mutable state of a run, which all its passes share. A pass is one run of the engine.
pub(crate) struct State<'a> {
    pub weights: &'a mut Weights,
    pub counts: &'a mut Counts,
    pub doubts: &'a mut Doubts,
    pub observer: &'a mut dyn Observer,
    pub logs: &'a mut Logs,
    /// Controller of the number of helpers (functions or compute threads). `None` if the number is
    /// not controlled or reported.
    pub tuning: Option<&'a mut Tuning>,
    /// Receiver of epoch reports and checkpoints. `None` if the run writes neither.
    pub recorder: Option<&'a mut dyn Checkpointer>,
    pub(super) passes: Passes,
}

impl<'a> State<'a> {
    /// Creates the state of a run that has no pass in progress.
    pub(crate) fn new(
        weights: &'a mut Weights,
        (counts, doubts): (&'a mut Counts, &'a mut Doubts),
        observer: &'a mut dyn Observer,
        logs: &'a mut Logs,
        tuning: Option<&'a mut Tuning>,
        recorder: Option<&'a mut dyn Checkpointer>,
    ) -> Self {
        Self { weights, counts, doubts, observer, logs, tuning, recorder, passes: Passes::default() }
    }

    /// Passes a warning about the worker at `at` to the observer. Warnings above a limit per worker
    /// are dropped.
    pub(super) fn warn(&mut self, at: Location, text: &str) {
        self.logs.printed.warn(self.observer, at, text);
    }

    /// Lets the autotuner observe a completion, and reports its decision if it makes one.
    /// `committed` is the number of committed training steps, or `None` during an evaluation.
    fn tune<M: Executor + ?Sized>(&mut self, machine: &mut M, committed: Option<u64>) -> Result<()> {
        let Some(chosen) = self.tuning.as_mut().and_then(|tuning| tuning.observe(machine, committed)) else {
            return Ok(());
        };
        if let Some(trace) = &mut self.logs.trace {
            trace.chosen(&chosen)?;
        }
        self.observer.chosen(&chosen);
        Ok(())
    }
}

/// The passes (runs of the engine) that are in progress. An evaluation is a pass within a training
/// pass, whose tasks may continue meanwhile.
#[derive(Debug, Default)]
pub(super) struct Passes {
    /// Numbers of the passes in progress, the innermost last.
    numbers: Vec<u32>,
    /// Completions that are stored for later. They belong to an outer pass, or arrived while the
    /// driver waited for the answer to an instruction.
    pub(super) aside: Aside,
}

impl Passes {
    /// Moves the stored completions of `pass` to `done`. If `lanes` is true (the pass has stages on
    /// workers), also moves completions without a pass, which report the state of workers.
    fn take(&mut self, (pass, lanes): (u32, bool), done: &mut Vec<Completion>) {
        let own = |completion: &Completion| completion.pass().map_or(lanes, |of| of == pass);
        done.extend(self.aside.completions.extract_if(.., |completion| own(completion)));
    }
}

/// A pass in progress, with its unprocessed events and answers. A pass is one run of the engine.
pub(super) struct Pass<'m, M: ?Sized> {
    machine: &'m mut M,
    /// Number of the pass, which its tasks and completions carry. A completion with another number
    /// is late or belongs to an outer pass.
    number: u32,
    actions: Vec<Action>,
    pending: VecDeque<Event>,
    done: Vec<Completion>,
    /// Answers that workers and functions have sent. When the engine commits a step, its answer is
    /// written to the row store.
    apart: BTreeMap<TaskKey, Box<Answer>>,
    /// Stop request that is checked while the pass waits. `None` if a stop does not cancel tasks.
    stop: Option<&'m Stop>,
    /// Stop request that is checked while the pass waits, and that cancels tasks only if it asks
    /// to leave with a checkpoint. `None` if it does not.
    leave: Option<&'m Stop>,
    /// Sampling steps in progress, whose rounds still lack micro-batches.
    sampling: Vec<TaskKey>,
    /// Error of a failed step, which is reported if the run fails. The first error is kept, but an
    /// error that is not retryable replaces a retryable one.
    failure: Option<Error>,
    /// Number of rounds per epoch. `None` if the pass is an evaluation.
    epochs: Option<Epochs>,
    /// Counter of committed steps, from which progress is reported.
    meter: Option<Meter>,
}

impl<'m, M: Executor + ?Sized> Pass<'m, M> {
    /// Creates an evaluation pass, which [`Pass::of_epochs`] turns into a training pass. A stop
    /// request cancels the tasks in flight. The first one of `stops` does so if tasks run on
    /// functions or workers, and the second one if it asks to leave.
    pub(super) fn new(machine: &'m mut M, (stop, leave): (Option<&'m Stop>, Option<&'m Stop>)) -> Self {
        let stop = stop.filter(|_| machine.capabilities().is_apart);
        let (actions, pending) = (Vec::new(), VecDeque::new());
        let (done, apart) = (Vec::new(), BTreeMap::new());
        let (sampling, failure, epochs, meter) = (Vec::new(), None, None, None);
        Self {
            machine,
            number: 0,
            actions,
            pending,
            done,
            apart,
            stop,
            leave,
            sampling,
            failure,
            epochs,
            meter,
        }
    }

    /// Turns this pass into a training pass with the given epochs.
    pub(super) fn of_epochs(self, epochs: Epochs) -> Self {
        Self { epochs: Some(epochs), ..self }
    }

    /// Starts the engine, and carries out its actions until it has finished. `other` carries out
    /// all actions that are not about steps, and returns events for the engine.
    pub(super) fn run(
        mut self,
        engine: &mut Engine,
        stages: &Stages<'_>,
        state: &mut State<'_>,
        mut other: impl FnMut(&mut M, &mut State<'_>, Action) -> Result<[Option<Event>; 2]>,
    ) -> Result<Reason> {
        state.counts.passes += 1;
        self.number = state.counts.passes;
        state.passes.numbers.push(self.number);
        stages.rows.forget();
        // The pass waits for messages even if none of its tasks is in flight.
        let _waits = stages.hosts.map(Exchange::begin);
        stages.batches.as_ref().map_or(Ok(()), Batches::begin)?;
        let ended = self.carry_out(engine, stages, state, &mut other);
        state.passes.numbers.pop();
        ended
    }

    /// Processes events until the engine has finished. Called by [`Pass::run`], which has given the
    /// pass a number.
    fn carry_out(
        &mut self,
        engine: &mut Engine,
        stages: &Stages<'_>,
        state: &mut State<'_>,
        other: &mut impl FnMut(&mut M, &mut State<'_>, Action) -> Result<[Option<Event>; 2]>,
    ) -> Result<Reason> {
        let mut heard = Instant::now();
        let mut told = 0;
        let steps = stages.schedule.stages.len() as u64 * u64::from(engine.settings().intervals);
        self.meter = Some(Meter::new(self.epochs, stages.seed, steps, over(engine), heard));
        let there = self.machine.prepare(&mut |text| state.observer.waiting(text)).map_err(Error::Workers)?;
        state.weights.owners().check(&there)?;
        // Worker events precede the start, so that no task goes to a worker that has failed or has
        // other lanes now.
        for (at, there) in Location::workers().zip(there).filter(|_| stages.is_on_lanes()) {
            let joined = if there { self.joined(at, state)? } else { None };
            self.pending.push_back(joined.unwrap_or(Event::WorkerFailed { at }));
        }
        self.pending.push_back(Event::Started);
        loop {
            // The engine processes one event to completion before the next. The result of a run
            // depends on the order of events alone, not on how many arrived at once.
            while let Some(event) = self.next(stages, state)? {
                self.actions.extend(engine.step(event));
                let mut next = 0;
                while let Some(&action) = self.actions.get(next) {
                    next += 1;
                    if let Action::Finished { reason, .. } = action {
                        return match (reason, self.failure.take()) {
                            (Reason::Failed { .. }, Some(error)) => Err(error),
                            (reason, _) => Ok(reason),
                        };
                    }
                    let events = match self.step(engine, stages, state, action)? {
                        None => [None; 2],
                        // The end of the run must precede the update, which may follow at once.
                        Some(Action::Share { round }) => [self.share(engine, stages, state, round)?, None],
                        Some(action) => {
                            if matches!(action, Action::Update { .. }) {
                                state.weights.owners_mut().at(engine.homes(), engine.sums());
                            }
                            pause(state, stages, engine);
                            let events = other(self.machine, state, action)?;
                            resume(state, stages);
                            events
                        }
                    };
                    for event in events.into_iter().flatten() {
                        self.actions.extend(engine.step(event));
                    }
                }
                self.actions.clear();
                if matches!(event, Event::Completed { key, .. } if stages.is_task(key.stage)) {
                    let committed = stages.training.then(|| engine.counters().committed);
                    state.tune(self.machine, committed)?;
                }
            }
            // Answers that were not committed are late, except those whose events are queued.
            let events = state.logs.events.as_ref();
            self.apart.retain(|key, _| events.is_some_and(|events| events.holds(key)));
            if let Some(trace) = &mut state.logs.trace {
                engine.parked().for_each(|parked| trace.waits(parked.interval.0, reason(parked.waits_for)));
            }
            state.passes.take((self.number, stages.is_on_lanes()), &mut self.done);
            self.done.extend(stages.hosts.into_iter().flat_map(|hosts| hosts.link().kept(self.number)));
            // The driver waits for completions only if it has none.
            let wait = self.stop.or(self.leave).map_or(WATCH, |_| LOOK);
            pause(state, stages, engine);
            let under_way = !self.done.is_empty() || self.machine.drain(&mut self.done, Some(wait));
            resume(state, stages);
            if self.stop.is_some_and(Stop::is_asked) || self.leave.is_some_and(Stop::leaves) {
                self.cancel(state.counts);
                self.pending.push_back(Event::Cancelled);
                continue;
            }
            if self.done.is_empty() {
                if !under_way {
                    let repeats = stages.training.then_some(state.logs.events.as_ref()).flatten();
                    return Err(repeats.map_or_else(
                        || Error::Internal("no task is in flight, but the run is not finished".to_owned()),
                        Events::stuck,
                    ));
                }
                let silent = heard.elapsed();
                if silent >= STALLED * (told + 1) {
                    told += 1;
                    state.observer.stalled(silent.as_secs(), &waits_for(engine));
                }
                continue;
            }
            (heard, told) = (Instant::now(), 0);
            let progress = self.meter.as_mut().and_then(|meter| meter.report(over(engine), heard));
            if let Some(progress) = progress {
                state.observer.progress(&progress);
            }
            for completion in std::mem::take(&mut self.done) {
                if let Some(event) = self.event(completion, stages, state)? {
                    self.arrived(event, stages, state);
                }
            }
        }
    }

    /// Queues an event for the engine. In a training that records or replays an event log, the log
    /// determines the order of events.
    fn arrived(&mut self, event: Event, stages: &Stages<'_>, state: &mut State<'_>) {
        match (&mut state.logs.events, Arrived::new(event)) {
            (Some(events), Some(arrived)) if stages.training => events.put(arrived),
            _ => self.pending.push_back(event),
        }
    }

    /// Returns the next event for the engine. Returns `None` if no event is queued.
    fn next(&mut self, stages: &Stages<'_>, state: &mut State<'_>) -> Result<Option<Event>> {
        match (self.pending.pop_front(), &mut state.logs.events) {
            (None, Some(events)) if stages.training => events.next(),
            (event, _) => Ok(event),
        }
    }

    /// Carries out an action that submits or commits a step. Any other action is returned to the
    /// caller.
    fn step(
        &mut self,
        engine: &Engine,
        stages: &Stages<'_>,
        state: &mut State<'_>,
        action: Action,
    ) -> Result<Option<Action>> {
        match action {
            Action::Submit(task) | Action::Retry(task) | Action::Relaunch(task) => {
                if stages.samples(task.stage) {
                    self.sample(stages, task);
                    return Ok(None);
                }
                let (step, ages) = (task.step(), engine.ages(task.step()));
                // A step of another host only writes the rows that it has sent.
                let computes = stages.hosts.is_none_or(|hosts| hosts.link().own().contains(&task.interval.0));
                state.counts.tasks += u64::from(computes && stages.is_task(task.stage));
                if matches!(action, Action::Submit(_)) {
                    state.counts.flops += if computes && stages.training { stages.flops(step) } else { 0 };
                    state.logs.reads(engine, step, stages.rows_by_interval());
                }
                if let Some(trace) = &mut state.logs.trace {
                    let weights = stages.schedule.operation(task.stage).map(|_| task.weights.0);
                    trace.asked(step, weights, ages)?;
                }
                let deadline = engine.deadline_us(task.stage).map(Duration::from_micros);
                let job = stages.job(self.number, task, ages, state.weights, deadline)?;
                self.machine.submit(job.bound(engine.location_of(step)));
            }
            Action::Again(task) => {
                let job = stages.again(self.number, task, state.weights)?;
                state.counts.tasks += 1;
                self.machine.submit(job.bound(engine.location_of(task.step())));
            }
            Action::Commit(key) => {
                if let Some(meter) = &mut self.meter {
                    meter.commit();
                }
                // No answer is stored if the only attempt wrote its results in place.
                if let Some(answer) = self.apart.remove(&key) {
                    let finished = stages.commit(key, *answer, state.weights)?;
                    log(stages, state, key.stage, finished);
                }
                stages.publish(key.step())?;
                if let Some(hosts) =
                    stages.hosts.filter(|hosts| hosts.owns(key.interval) && engine.travels(key.stage))
                {
                    hosts.send_rows(self.number, stages.rows, key.step())?;
                }
                tracing::trace!(pass = self.number, attempt = %key, "step committed");
                if stages.samples(key.stage) {
                    return Ok(None);
                }
                stages.look(key.step(), state.weights)?;
                let (sums, begun) = (stages.sums(key.stage), Instant::now());
                state.weights.commit(&sums, (key.round, key.interval))?;
                if let Some(profile) = state.logs.profile.as_mut().filter(|_| stages.training) {
                    profile.added(key.round, begun.elapsed(), stages.values(&sums));
                }
                stages.rows.over(key.step());
            }
            other => return Ok(Some(other)),
        }
        Ok(None)
    }

    /// Sends the results of a round on the intervals of this host to all other hosts. Returns the
    /// event that ends the run, if a stop was requested.
    fn share(
        &self,
        engine: &Engine,
        stages: &Stages<'_>,
        state: &mut State<'_>,
        round: Round,
    ) -> Result<Option<Event>> {
        let hosts = stages.hosts.ok_or_else(|| Error::Internal("there is one host".to_owned()))?;
        let shared = match (stages.training, stages.program.scores) {
            (true, _) => Shared::Sums(state.weights),
            (false, Some(slot)) => Shared::Scores(slot),
            (false, None) => return Err(Error::Internal("the program has no scores".to_owned())),
        };
        let of = (self.number, round, engine.settings().pipeline.bound());
        hosts.share(of, stages.rows, shared)
    }

    /// Processes a message of another host. Returns the event that the engine must process.
    fn received(
        &mut self,
        (from, message): (u32, Message),
        stages: &Stages<'_>,
        state: &mut State<'_>,
    ) -> Result<Option<Event>> {
        let hosts = stages.hosts.ok_or_else(|| Error::Internal("there is one host".to_owned()))?;
        hosts.link().count(from, &message.body);
        match message.content {
            Exchanged::Rows(step) => hosts.received((from, step), stages.rows, message.body).map(Some),
            Exchanged::Shared { round, end } => {
                let weights = stages.training.then_some(&mut *state.weights);
                let [end, shared] = hosts.shared((from, round, end), weights, &message.body)?;
                self.pending.extend(end);
                Ok(shared)
            }
            // Features precede the first pass and the usage follows the last one, so neither belongs to
            // a pass that is in progress.
            Exchanged::Features { .. } | Exchanged::Usage => Ok(None),
            Exchanged::Facts => hosts.link().agrees(from, &message.body).map(|()| None),
            Exchanged::Failed { host } => {
                let reason = String::from_utf8_lossy(&message.body).into_owned();
                Err(Error::HostFailed { host, reason, is_told: true })
            }
        }
    }

    /// Submits the jobs that sample the micro-batches of the task's round, and those of rounds to
    /// prefetch. The sampling step ends when all micro-batches of its round are available.
    fn sample(&mut self, stages: &Stages<'_>, task: Task) {
        let Some(batches) = &stages.batches else { return };
        for (round, interval, work) in batches.wanted(task.round) {
            let task = Task { round, interval, ..task };
            let affinity = Affinity::HOST;
            self.machine.submit(Job { pass: self.number, task, work, deadline: None, affinity });
        }
        self.sampling.push(task.key());
        self.end_sampling(batches);
    }

    /// Ends the sampling steps of rounds whose micro-batches are all available. Event logs do not
    /// contain these events.
    fn end_sampling(&mut self, batches: &Batches) {
        let ended = self.sampling.extract_if(.., |key| batches.is_whole(key.round));
        self.pending.extend(ended.map(|key| Event::Completed { key, took_us: 0 }));
    }

    /// Processes a completion from the executor. Returns the event that the engine must process, if
    /// there is one.
    fn event(
        &mut self,
        completion: Completion,
        stages: &Stages<'_>,
        state: &mut State<'_>,
    ) -> Result<Option<Event>> {
        let Some(pass) = completion.pass() else { return self.report(completion, stages, state) };
        if pass != self.number {
            let (outer, message) =
                (state.passes.numbers.contains(&pass), matches!(completion, Completion::Received { .. }));
            if let Some(hosts) = stages.hosts.filter(|_| message && (outer || pass > self.number)) {
                // Another host may have begun a later pass already.
                hosts.link().keep(completion);
            } else if outer {
                state.passes.aside.completions.push(completion);
            } else if matches!(completion, Completion::Ended { .. }) {
                state.counts.late += 1;
            }
            return Ok(None);
        }
        if let (Some(trace), Completion::Ended { key, timing, .. }) = (&mut state.logs.trace, &completion) {
            let (program, step, timing, evaluation) =
                (stages.schedule, key.step(), *timing, !stages.training);
            trace.ended(&Span { program, step, timing, bytes: stages.bytes(step), evaluation })?;
        }
        let completion = match completion {
            Completion::Ended { key, result, .. } if stages.samples(key.stage) => {
                let failed = |error| Error::Internal(format!("{}: sampling failed: {error:?}", key.step()));
                result.map_err(failed)?;
                if let Some(batches) = &stages.batches {
                    batches.take()?;
                    self.end_sampling(batches);
                }
                return Ok(None);
            }
            other => other,
        };
        self.profile(&completion, stages, state);
        let (key, timing, by, result) = match completion {
            Completion::Ended { key, timing, by, result, .. } => (key, timing, by, result),
            Completion::Overdue { key, .. } => return Ok(Some(Event::Overdue(key))),
            Completion::Received { from, message } => return self.received((from, *message), stages, state),
            other => return Err(Error::Internal(format!("{other:?} is not the result of a task"))),
        };
        state.doubts.answered(by);
        let answered = match result {
            Ok(answered) => answered,
            Err(error) => return Ok(Some(self.failed(key, error))),
        };
        if let Some(tuning) = state.tuning.as_mut().filter(|_| stages.is_task(key.stage)) {
            tuning.ended(timing.thread);
        }
        // The engine computes deadlines from average durations, and deadlines are for functions.
        let here = timing.thread.is_some() && self.machine.capabilities().is_apart;
        match answered {
            Answered::InPlace(finished) => log(stages, state, key.stage, finished),
            Answered::Apart(answer) => {
                self.apart.insert(key, answer);
            }
            Answered::Frame(_) => return Err(Error::Internal(format!("the answer to {key} is a frame"))),
        }
        let took_us = u64::try_from(timing.took.as_micros()).unwrap_or(u64::MAX);
        Ok(Some(Event::Completed { key, took_us: if here { 0 } else { took_us } }))
    }

    /// Processes a completion that belongs to no pass, such as the failure of a worker or the
    /// result of an audit. Returns the event that the engine must process, if there is one.
    fn report(
        &mut self,
        completion: Completion,
        stages: &Stages<'_>,
        state: &mut State<'_>,
    ) -> Result<Option<Event>> {
        match completion {
            Completion::Deserted { reason } => Err(Error::Deserted(reason)),
            Completion::Received { from, message } => self.received((from, *message), stages, state),
            Completion::HostFailed { host, reason, is_told } => {
                Err(Error::HostFailed { host, reason, is_told })
            }
            Completion::Audited { step, verdict } => {
                if let Some(warning) = state.doubts.found(step, &verdict)? {
                    state.observer.warning(&warning);
                }
                Ok(None)
            }
            Completion::Warned { at, text } => {
                state.warn(at, &text);
                Ok(None)
            }
            // The completion belongs to the training pass, which continues when this pass is over.
            other if !stages.is_on_lanes() => {
                state.passes.aside.completions.push(other);
                Ok(None)
            }
            Completion::WorkerFailed { at } | Completion::Forgot { at } => {
                match state.weights.owning_workers() {
                    // The failed worker had parameters, and rows that workers send to each other.
                    Some(owners) if owners.counts_on(at) => Err(Error::Gone { at }),
                    Some(_) => Ok(None),
                    None if matches!(completion, Completion::WorkerFailed { .. }) => {
                        Ok(Some(Event::WorkerFailed { at }))
                    }
                    None => Ok(Some(Event::Forgot { at })),
                }
            }
            Completion::Joined { at } => match state.weights.owning_workers_mut() {
                Some(owners) => {
                    owners.joins(at);
                    Ok(None)
                }
                None => self.joined(at, state),
            },
            other => Err(Error::Internal(format!("{other:?} is not an event of a worker"))),
        }
    }

    /// Instructs the worker at `at`, which has joined, to begin its gradient sums. Returns the
    /// event for the engine. Returns `None` if the worker has failed meanwhile.
    fn joined(&mut self, at: Location, state: &mut State<'_>) -> Result<Option<Event>> {
        let mut asking = Asking { machine: &mut *self.machine, aside: &mut state.passes.aside };
        match state.weights.owners().begin_sums(&mut asking, at) {
            Ok(()) => Ok(Some(Event::Joined { at })),
            Err(Error::Gone { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the event for a failed attempt at a task. The error is recorded, because it is
    /// reported if the run fails.
    fn failed(&mut self, key: TaskKey, error: WorkError) -> Event {
        let retryable = error.is_retryable();
        // An error that is not retryable takes precedence over other errors.
        let known = match &self.failure {
            None => false,
            Some(Error::Step { source, .. }) => !source.is_retryable(),
            Some(_) => true,
        };
        if !known {
            self.failure = Some(match error {
                WorkError::Host(text) => Error::Internal(format!("{key}: the host's work failed: {text}")),
                WorkError::Kernel(source) => Error::Step { step: key.to_string(), source },
            });
        }
        Event::Failed { key, retryable }
    }

    /// Adds the duration of a completed training step to the profile, if the run records one.
    fn profile(&self, completion: &Completion, stages: &Stages<'_>, state: &mut State<'_>) {
        let Some(profile) = state.logs.profile.as_mut().filter(|_| stages.training) else { return };
        let Completion::Ended { key, timing, result: Ok(answered), .. } = completion else { return };
        let (step, rows) = (key.step(), stages.rows_of(key.step()));
        match answered {
            _ if timing.thread.is_some() => profile.step(step, timing.took, rows, true),
            Answered::Apart(answer) => {
                profile.step(step, Duration::from_micros(answer.meta().times.compute_us), rows, false);
            }
            _ => {}
        }
    }

    /// Cancels all tasks in flight, and waits until none is left.
    fn cancel(&mut self, counts: &mut Counts) {
        counts.cancelled += self.machine.cancel(Cancel::All);
        loop {
            // These answers are not used, because the epoch will not be complete.
            counts.late += self.done.drain(..).filter(Completion::is_answer).count() as u64;
            self.machine.drain(&mut self.done, None);
            if self.done.is_empty() {
                break;
            }
        }
        (self.stop, self.leave) = (None, None);
    }
}

/// Returns the last round that the engine has completed.
fn over(engine: &Engine) -> Round {
    Round(engine.round().0.saturating_sub(1))
}

/// Passes the lines that a kernel has logged in a step to the observer. Lines above the limits of
/// kernel logs are dropped.
fn log(stages: &Stages<'_>, state: &mut State<'_>, stage: StageId, finished: Finished) {
    for line in finished.log {
        let operation = stages.schedule.operation(stage);
        state.logs.printed.log(state.observer, operation.map_or("", |o| &o.kernel), &line);
    }
}

/// Pauses the profile of a training pass, while the driver waits or does other work than training
/// steps.
fn pause(state: &mut State<'_>, stages: &Stages<'_>, engine: &Engine) {
    if let Some(profile) = state.logs.profile.as_mut().filter(|_| stages.training) {
        profile.pause(engine.round());
    }
}

/// Resumes the profile after [`pause`] has paused it.
fn resume(state: &mut State<'_>, stages: &Stages<'_>) {
    if let Some(profile) = state.logs.profile.as_mut().filter(|_| stages.training) {
        profile.resume();
    }
}

/// Describes the condition that an interval (a contiguous range of rows) waits for.
fn reason(waits_for: WaitsFor) -> String {
    match waits_for {
        WaitsFor::Round(epoch) => format!("the end of epoch {epoch}"),
        WaitsFor::Readers(step) => format!("readers of the rows that {step} overwrites"),
        WaitsFor::Turn(step) => format!("its turn to run {step}"),
        WaitsFor::Rows(step) => format!("rows that {step} reads"),
    }
}

/// Describes at most 20 conditions that the engine waits for, for a report that the run has
/// stalled. Attempts in flight come first, followed by intervals without such attempts.
fn waits_for(engine: &Engine) -> Vec<String> {
    let running = engine.running().map(|key| format!("{key}, which is in flight"));
    let parked = engine.parked();
    let parked = parked.map(|p| format!("interval {} waits for {}", p.interval, reason(p.waits_for)));
    running.chain(parked).take(20).collect()
}

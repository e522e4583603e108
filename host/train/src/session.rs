//! Everything that a run needs before its first epoch: data, kernels, programs, buffers, threads.

mod culprit;
mod draft;
mod machine;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use eciton_engine::{Deadlines, Engine, Residence};
use eciton_exec::functions::{self, Outlook};
use eciton_exec::{Completion, Executor, LocalPool, Prices};
use eciton_graph::dataset::Dataset;
use eciton_kernel::Layer;
use eciton_plan::{
    Config, Domain, LEAKY_SLOPE, Lanes, Layers, Mode, ModelSettings, NormaliseFeatures, Program, Readout,
    Round, SlotId, Spans, WeightVersions, Workers,
};

use self::draft::sums;
pub(crate) use self::draft::{Draft, Planned, check_settings, parts};
use self::machine::{machine, tuning};
use crate::batch::{Batches, RowBatches, Source};
use crate::budget::Budget;
use crate::checkpoint::{Fingerprint, Point};
use crate::data::{Inputs, Interval};
use crate::doubt::{AuditReport, Doubts};
use crate::driver::{self, Counts, Epochs, RowStore, Stages, State, Trained, Training, Tuning};
use crate::error::{Error, Result, at};
use crate::evaluation::{Asked, Evaluation, EvaluationPlan, Keeps};
use crate::initial::Initial;
use crate::kernels::{CachePolicy, Kernels, SignedCode};
use crate::logs::{Header, Logs, Profiled, Recording};
use crate::owned::{Owners, Wanted};
use crate::plan::{needs, owning_lanes};
use crate::recorder::Recorder;
use crate::report::{Attempts, HelpersUsed, Metrics, Observer, Quality, WorkersUsed};
use crate::said::{self, Said};
use crate::stop::Stop;
use crate::strips::Stripped;
use crate::trial::PipelineTrial;
use crate::weights::{WeightState, Weights};

/// What is about a call and not about its result.
#[derive(Debug, Clone)]
pub struct Options {
    /// How many seeds: `run.seed` and those that follow it.
    pub seeds: u32,
    /// The run folder; `None`: nothing is written.
    pub out: Option<PathBuf>,
    /// Built-in kernels are read from here instead, as `NAME.wasm` (`ECITON_KERNEL_DIR`; CI runs
    /// the suites on kernels that it has just built).
    pub kernel_folder: Option<PathBuf>,
    /// Where compiled kernels are kept.
    pub cache: CachePolicy,
    /// Kernels' native code that was compiled elsewhere; `None`: it is compiled here.
    pub code: Option<Arc<dyn SignedCode>>,
    /// A fresh instance for every task; the result is the same.
    pub fresh_instances: bool,
    /// Also write the rows before the last layer into `predictions.npz`; of links, whose embedding
    /// is there anyway, they are not.
    pub embeddings: bool,
    /// Also write the scores of tokens into `predictions.npz`: a token has one for every token
    /// there is. Those of other rows are written in any case, and these with the rows before the
    /// last layer.
    pub scores: bool,
    /// Predictions by so many strips of each image, side by side, in the place of whole images.
    pub strips: Option<u32>,
    /// Workers that share the tasks of a prediction; `None`: threads of this machine do them.
    pub workers: Option<Workers>,
    /// What is recorded beside the results, and repeated.
    pub recording: Recording,
    /// A pool's threads take what came last first: intervals then run as far apart as they may, one
    /// after the other. For tests of what that does to asynchronous training.
    pub newest_first: bool,
    /// Asked from elsewhere: finish the epoch and end.
    pub stop: Arc<Stop>,
    /// Time of the invocation of a function: the run pauses with a checkpoint before it is over,
    /// and fails with [`Error::Paused`]. `None` for a run without a time limit.
    pub budget: Option<Budget>,
    /// The epoch after which a run ends as one that was stopped, with its results and a checkpoint;
    /// one that has come so far trains nothing. `None`, or the run's last epoch: it ends by itself.
    pub pause_after: Option<u32>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seeds: 1,
            out: None,
            kernel_folder: std::env::var_os("ECITON_KERNEL_DIR").filter(|v| !v.is_empty()).map(PathBuf::from),
            cache: CachePolicy::default(),
            code: None,
            fresh_instances: false,
            embeddings: false,
            scores: false,
            strips: None,
            workers: None,
            recording: Recording::default(),
            newest_first: false,
            stop: Arc::default(),
            pause_after: None,
            budget: None,
        }
    }
}

/// The weights that a seed's training goes on from.
#[derive(Debug)]
pub(crate) enum Earlier {
    State(WeightState),
    Point(Arc<Point>),
}

/// Where a seed's training stands when it goes on.
#[derive(Debug, Default)]
pub(crate) struct Position {
    pub weights: Option<Earlier>,
    pub trained: Trained,
    /// The last epoch; `None`: that of the configuration.
    pub until: Option<u32>,
}

/// A run that is ready to start.
pub(crate) struct Session {
    pub inputs: Inputs,
    /// The model as it was written, with what the data settles.
    settings: ModelSettings,
    scaled: NormaliseFeatures,
    /// Origins of settings, by key, of a run that goes on: they have been said.
    pub origins: BTreeMap<String, String>,
    pub program: Program,
    /// Which of its stages are one task, and the program of these.
    spans: Spans,
    schedule: Program,
    pub kernels: Kernels,
    pub threads: u32,
    /// The model in strips, where that is asked for.
    pub stripped: Option<Stripped>,
    evaluation: Evaluation,
    layers: Vec<Option<Arc<Layer>>>,
    rows: RowStore,
    pub weights: Weights,
    /// What parts of batches are made from, where rounds have some.
    source: Option<Arc<Source>>,
    pub epochs: Epochs,
    /// How the pipeline's settings were chosen, where trials did.
    pub trial: Option<PipelineTrial>,
    /// What `run.init` names, once it was read.
    initial: Option<Initial>,
    engine: Engine,
    machine: Box<dyn Executor>,
    /// How many functions or threads, where that is to be known.
    tuning: Option<Tuning>,
    /// Where functions are charged for.
    prices: Option<Prices>,
    pub counts: Counts,
    /// The processes that answer, and the doubt about their answers.
    pub doubts: Doubts,
    pub logs: Logs,
    /// Of the data, where checkpoints may be written.
    pub fingerprint: Option<Fingerprint>,
    stop: Arc<Stop>,
    pause_after: Option<u32>,
    budget: Option<Budget>,
}

impl Session {
    /// Names of the parameters that the run folder holds as signs and scales.
    pub(crate) fn signs(&self) -> BTreeSet<String> {
        crate::signs::parameters(&self.program, &self.layers)
    }

    pub(crate) fn new(
        config: &Config,
        options: &Options,
        dataset: Option<Dataset>,
        asked: Asked,
    ) -> Result<Self> {
        functions::check(config.executor.kind)?;
        let draft = Draft::new(config, options, dataset, asked)?;
        draft.planned.memory.check(config.run.memory_bytes)?;
        let Draft { inputs, settings: model, scaled, kernels, threads, stripped, planned } = draft;
        let Planned { program, spans, schedule, evaluation, layers, chooser, .. } = planned;
        let watched = options.out.is_some() && config.checkpoint.is_on();
        let fingerprint = watched.then(|| Fingerprint::of(&inputs)).transpose()?;
        let inputs = inputs.complete(&program, threads)?;
        let training = RowBatches::new(&config.batch, &inputs).rows();
        let epochs = Epochs::of(config.batch.rounds(training));
        let whole = inputs.intervals.len() as u32;
        let intervals = program.apart.unwrap_or(whole);
        let last = config.run.epochs.checked_mul(epochs.rounds());
        let last = last.ok_or(Error::Rounds { epochs: config.run.epochs, rounds: epochs.rounds() })?;
        let mut settings = eciton_engine::Settings::new(intervals, last);
        settings.eval_every = config.run.eval_every.saturating_mul(epochs.rounds());
        settings.pipeline = config.pipeline;
        settings.lanes = config.lanes.lanes;
        settings.residence = match (config.executor.kind.has_workers(), config.workers.shadows) {
            (true, false) => Residence::Places,
            (true, true) => Residence::Shadowed,
            (false, _) => Residence::Host,
        };
        if config.executor.kind.has_workers() {
            settings.credit = eciton_exec::workers::CREDIT;
        }
        // A step has a buffer for its gradients from when it is handed out. A record of events is
        // repeated with any number of threads, so all its steps are handed out.
        let is_recorded = options.recording.events.is_some() || options.recording.replay.is_some();
        let is_limited = chooser.is_some() && settings.lanes.count == 0 && !is_recorded;
        if config.pipeline.mode == Mode::Async || is_limited && config.executor.kind.is_here() {
            let most = config.pipeline.in_flight.unwrap_or(threads.saturating_mul(2));
            settings.in_flight = (most > 0).then_some(most);
            settings.only_host_steps = !config.executor.kind.is_here();
        }
        if let Some(attempts) = config.limits.attempts {
            settings.attempts = attempts;
        }
        let executor = &config.executor;
        if !executor.kind.is_here() {
            let floor_us = (executor.deadline_ms * 1000).max(1);
            let maximum_us = (u64::from(executor.timeout_s) * 1_000_000).max(floor_us);
            settings.deadlines = Some(Deadlines { floor_us, ratio: executor.deadline_ratio, maximum_us });
        }
        let sums = sums(config, &inputs, chooser.as_ref(), intervals);
        let sizes = (inputs.shape.rows.into(), inputs.dataset.graph.edges(), schedule.computing().len());
        let in_flight = settings.in_flight.unwrap_or(0);
        let header = Header::of(config, sizes, intervals, in_flight, options.seeds.max(1));
        let logs = Logs::new(&options.recording, &header)?;
        let compared = config.executor.audit >= 1.0 || config.executor.keep_doubtful;
        if config.executor.audit > 0.0 && !compared && logs.events.is_some() {
            let reason = "a run whose events are recorded or repeated cannot go back to a checkpoint; set \
                          executor.audit to 1, or record without an audit";
            return Err(Error::Audit(reason.to_owned()));
        }
        let owners = match config.sums_stay() {
            false => Owners::default(),
            true => {
                // The log lies beside the run folder, whose disk has room for a model.
                let beside = options.out.as_deref().and_then(std::path::Path::parent);
                let folder = match beside {
                    Some(folder) if folder.as_os_str().is_empty() => PathBuf::from("."),
                    Some(folder) => folder.to_owned(),
                    None => std::env::temp_dir(),
                };
                let (atoms, nodes) = sums.nodes();
                let wanted = Wanted {
                    program: &program,
                    lanes: owning_lanes((&program, &spans, &schedule)),
                    optimiser: &config.optimiser,
                    all_lanes: config.lanes.lanes,
                    rounds: config.pipeline.gradient_versions(),
                    every: config.workers.log_every,
                    delayed: config.pipeline.weights() == WeightVersions::TwoBuffered,
                    replicas: (0..config.lanes.lanes.count)
                        .map(|lane| config.workers.replicas_of(lane))
                        .collect(),
                    folder: config.workers.own().then_some(&folder),
                };
                Owners::new(wanted, (atoms, nodes, sums.tops(&config.lanes.lanes)))?
            }
        };
        let (optimiser, pipeline) = (&config.optimiser, &config.pipeline);
        let mut weights = Weights::new(&program, optimiser, pipeline, (&sums, &config.lanes.lanes), owners)?;
        let engine = Engine::new(&schedule, settings)?;
        let (fresh_instances, newest_first) = (options.fresh_instances, options.newest_first);
        // Each lane has a thread, or a worker, and the driver another thread, which no lane waits
        // for.
        let lanes = if executor.kind.has_workers() { 0 } else { config.lanes.lanes.count };
        let threads = threads.max(if lanes == 0 { 0 } else { lanes.saturating_add(1) });
        let pool_settings = eciton_exec::Settings { threads, fresh_instances, newest_first, lanes };
        let local = LocalPool::new(pool_settings).map_err(Error::Threads)?;
        let charged = executor.kind.is_charged();
        // Before anything is spent: a price list that cannot be read must not end a run.
        let prices = charged.then(eciton_exec::prices).transpose()?;
        let lanes = (config.lanes.lanes.count > 0).then(|| {
            let (rows, parts) = parts(config, &inputs, &program);
            let rows = rows.div_ceil(parts.max(1)) as usize;
            needs(config, (&program, &spans, &schedule), (rows, parts, sums.levels()))
        });
        let mut machine = machine(config, local, &kernels, &layers, (intervals, lanes))?;
        weights.owners_mut().audit_by(machine.capabilities().audit.cloned());
        let mut tuning = tuning(config, &*machine, &schedule, prices.as_ref(), intervals, threads);
        if let Some(tuning) = &mut tuning {
            tuning.begin(&mut *machine);
        }
        let rows = |intervals: &[Interval]| intervals.iter().map(|interval| interval.rows.clone()).collect();
        let cut = || vec![rows(&inputs.intervals), rows(&inputs.graphs)];
        let parts = match program.apart {
            None => cut(),
            Some(_) => {
                let each = program.rows(Domain::VERTICES) as usize / intervals.max(1) as usize;
                vec![(0..intervals as usize).map(|part| part * each..(part + 1) * each).collect()]
            }
        };
        let lanes = config.ring_lanes();
        let rows = RowStore::new(&schedule, parts, (&config.pipeline, &lanes), config.run.row_storage, &[])?;
        // Where epochs run apart an evaluation is among them, or old rows outlast it.
        let others: &[&RowStore] = if config.pipeline.row_versions() > 1 { &[] } else { &[&rows] };
        let (settings, format) = ((settings, threads), config.run.row_storage);
        let lanes = if config.workers.own() { config.lanes.lanes } else { Lanes::default() };
        let evaluation = Evaluation::new(evaluation, &inputs, (settings, lanes), format, others)?;
        let source = chooser.map(|chooser| Source::new(&config.batch, &inputs, chooser));
        let source = source.transpose()?.map(Arc::new);
        Ok(Self {
            rows,
            source,
            epochs,
            inputs,
            settings: model,
            scaled,
            origins: BTreeMap::new(),
            program,
            spans,
            schedule,
            kernels,
            threads,
            stripped,
            evaluation,
            layers,
            weights,
            trial: None,
            initial: None,
            engine,
            machine,
            tuning,
            prices,
            counts: Counts::default(),
            doubts: Doubts::new(config),
            logs,
            fingerprint,
            stop: options.stop.clone(),
            pause_after: options.pause_after,
            budget: options.budget.clone(),
        })
    }

    /// Refuses settings of the model that none of its layers reads, and a number of parts that a
    /// batch cannot have.
    ///
    /// # Errors
    /// [`eciton_plan::Error::UnreadKey`], [`Error::Parts`].
    pub(crate) fn check_settings(&self) -> Result<()> {
        let batches = self.source.as_ref().and_then(|source| source.batches_of_rows());
        check_settings(&self.settings, &self.inputs, batches)
    }

    /// The configuration with what followed from the data.
    pub(crate) fn resolved(&self, config: &Config) -> Config {
        let mut resolved = config.clone();
        if let Some(initial) = &self.initial {
            resolved.run.init_digest = Some(initial.digest.clone());
        }
        resolved.data.normalise_features = Some(self.scaled);
        resolved.model.loss = Some(self.program.model.loss);
        resolved.run.metric = Some(self.inputs.metric);
        if matches!(resolved.model.layers, Layers::Count(_)) {
            resolved.model.activation.get_or_insert(config.model.kind.activation());
        }
        // Written in full: a folder of format 1 has no such key, and means another slope.
        if self.program.model.has_slope() {
            resolved.model.activation_slope.get_or_insert(LEAKY_SLOPE);
        }
        if self.inputs.dataset.graphs.is_some() && matches!(resolved.model.layers, Layers::Count(_)) {
            resolved.model.own.readout.get_or_insert(Readout::Mean);
        }
        resolved
    }

    /// The settings that follow from data and model, and where each is from.
    pub(crate) fn said(&self, config: &Config) -> Vec<Said> {
        let mut all = said::said(config, &self.program.model, &self.inputs, self.scaled);
        for said in &mut all {
            if let Some(from) = self.origins.get(&said.key) {
                said.from.clone_from(from);
            }
        }
        all
    }

    /// Reads the weights that seeds begin from, unless that is done or there are none.
    pub(crate) fn read_initial(&mut self, config: &Config) -> Result<()> {
        if self.initial.is_none() {
            self.initial = Initial::read(config, &self.program, &self.inputs.schema)?;
        }
        Ok(())
    }

    /// First values for a seed: those of `run.init`, else drawn ones.
    pub(crate) fn initialise(&mut self, config: &Config, seed: u64) -> Result<()> {
        self.read_initial(config)?;
        self.weights.initialise(&self.program, seed)?;
        for (parameter, values) in
            self.initial.iter().flat_map(|initial| initial.values(&self.program, &config.run.init_fresh))
        {
            self.weights.set(parameter, values)?;
        }
        Ok(())
    }

    /// Trains one seed from fresh weights, or goes on `from` where it was.
    pub(crate) fn train(
        &mut self,
        config: &Config,
        seed: u64,
        from: Option<Position>,
        observer: &mut dyn Observer,
        recorder: Option<&mut Recorder>,
    ) -> Result<Trained> {
        let mut from = from.unwrap_or_default();
        // A checkpoint's file is let go of: its room is wanted for the next.
        match from.weights.take() {
            Some(Earlier::State(state)) => {
                self.weights.initialise(&self.program, seed)?;
                self.weights.restore(&state)?;
            }
            Some(Earlier::Point(point)) => point.restore(&mut self.weights)?,
            None => self.initialise(config, seed)?,
        }
        let done = from.trained.epochs.last().map_or(0, |last| last.epoch);
        let until = from.until.unwrap_or(config.run.epochs);
        let (first, last) = (Round(self.epochs.last(done).0 + 1), self.epochs.last(until));
        self.doubts.begin(seed, done + 1);
        self.engine.restart(first, last, self.weights.newest());
        if self.weights.has_before() {
            self.engine.go_on();
        }
        let batches = self.source.as_ref().map(|source| Batches::new(source.clone(), seed, last));
        let stages = Stages::new(&self.program, &self.inputs, &self.rows, &self.layers, Some(seed))?;
        let Evaluation { plan, rows, engine: evaluator } = &mut self.evaluation;
        let mut training = Training {
            stages: stages
                .with_spans(&self.spans, &self.schedule)
                .with_places(self.machine.capabilities().keeps_rows)
                .with_passing(self.weights.owners().have_parameters())
                .with_batches(batches),
            evaluation: plan.stages(&self.inputs, rows, &self.layers)?,
            evaluator,
            config,
            epochs: self.epochs,
            stop: &self.stop,
            pause_after: self.pause_after.filter(|&epoch| epoch < until),
            budget: self.budget.as_ref(),
        };
        let (weights, counts) = (&mut self.weights, (&mut self.counts, &mut self.doubts));
        let mut state = State::new(weights, counts, observer, &mut self.logs, self.tuning.as_mut(), recorder);
        let trained = training.run(&mut *self.machine, &mut self.engine, &mut state, from.trained);
        trained.map_err(|error| self.explained(config, seed, error))
    }

    /// Scores of all vertices with the weights as they are, without dropout.
    pub(crate) fn evaluate(&mut self, observer: &mut dyn Observer) -> Result<Metrics> {
        Ok(self.forward(None, observer)?.0)
    }

    /// [`Session::evaluate`], and how good the model is beyond the metric.
    pub(crate) fn judge(&mut self, observer: &mut dyn Observer) -> Result<(Metrics, Option<Quality>)> {
        self.forward(None, observer)
    }

    /// The quality of what the last evaluation left; `None` where that are no scores.
    pub(crate) fn quality(&self) -> Result<Option<Quality>> {
        let Evaluation { plan, rows, .. } = &self.evaluation;
        match plan.folds() {
            true => Ok(None),
            false => driver::quality(&plan.stages(&self.inputs, rows, &self.layers)?),
        }
    }

    /// The same by another evaluation than that of the session.
    fn forward(
        &mut self,
        other: Option<&mut Evaluation>,
        observer: &mut dyn Observer,
    ) -> Result<(Metrics, Option<Quality>)> {
        let Evaluation { plan, rows, engine } = other.unwrap_or(&mut self.evaluation);
        let stages = plan.stages(&self.inputs, rows, &self.layers)?;
        let (weights, counts) = (&mut self.weights, (&mut self.counts, &mut self.doubts));
        let mut state = State::new(weights, counts, observer, &mut self.logs, self.tuning.as_mut(), None);
        driver::give(&mut *self.machine, &mut state)?;
        let mut returns = 0;
        loop {
            let machine = &mut *self.machine;
            match driver::forward(machine, engine, &stages, &mut state, Round(1), Some(&self.stop)) {
                // Workers that own weights have gone or come: others get the log's.
                Err(Error::Gone { .. }) if returns < driver::MOST_RETURNS => {
                    returns += 1;
                    driver::restore(machine, &mut state)?;
                }
                ended => break ended?,
            }
        }
        Ok((driver::measured(&stages)?, driver::quality(&stages)?))
    }

    /// Waits for what a failure left under way: its leases are over then.
    pub(crate) fn settle(&mut self) {
        let mut late = Vec::new();
        loop {
            let under_way = self.machine.drain(&mut late, None);
            for completion in late.drain(..) {
                self.counts.late += u64::from(completion.is_answer());
                if let Completion::Audited { step, verdict } = completion {
                    self.doubts.found_late(step, &verdict);
                }
            }
            if !under_way {
                return;
            }
        }
    }

    /// Settles the class that this process computes in: the configuration's, else that of the
    /// functions which take part.
    ///
    /// # Errors
    /// [`Error::Class`]: a class that the configuration asks for and this process cannot have.
    pub(crate) fn settle_class(config: &Config) -> Result<()> {
        if let Some(class) = &config.run.numeric_class {
            return Ok(eciton_tensor::simd::require(class)?);
        }
        if let Some(class) = functions::numeric_class(&config.executor) {
            // Where it cannot be, the summary names both classes.
            let _ = eciton_tensor::simd::require(&class);
        }
        Ok(())
    }

    /// The numeric classes of this machine and of all that answered.
    pub(crate) fn numeric_class(&self) -> String {
        let own = eciton_tensor::simd::numeric_class();
        let classes = self.machine.usage().numeric_classes;
        let others = classes.into_iter().filter(|class| class != own);
        std::iter::once(own.to_owned()).chain(others).collect::<Vec<_>>().join(" + ")
    }

    /// What the run used of what is charged for.
    pub(crate) fn bill(&self) -> Option<eciton_exec::Bill> {
        self.machine.usage().bill
    }

    /// That in money.
    pub(crate) fn cost(&self) -> Option<eciton_exec::Cost> {
        self.cost_of(&self.bill()?)
    }

    /// A bill in money.
    pub(crate) fn cost_of(&self, bill: &eciton_exec::Bill) -> Option<eciton_exec::Cost> {
        let can = self.machine.capabilities();
        Some(bill.cost(self.prices.as_ref()?, can.architecture?, can.host?))
    }

    /// Writes out what was recorded.
    pub(crate) fn finish_logs(&mut self) -> Result<()> {
        let (dataset, shape) = (&self.inputs.dataset, &self.inputs.shape);
        let stored = self.inputs.stored();
        let (intervals, threads) = (self.inputs.intervals.len(), self.threads);
        let source = format!(
            "measured: {}, {intervals} intervals on {threads} threads, {}, eciton {}",
            dataset.name,
            self.numeric_class(),
            env!("CARGO_PKG_VERSION")
        );
        let (rows, edges) = (u64::from(shape.rows), dataset.graph.edges());
        self.logs.finish(&Profiled { program: &self.schedule, source, stored, rows, edges })
    }

    /// Facts of its functions before they work; `None` where nothing is charged.
    pub(crate) fn outlook(&self) -> Option<Outlook> {
        let can = self.machine.capabilities();
        let (host, cut) = (can.host?.clone(), can.cut.cloned());
        Some(Outlook { host, cut })
    }

    /// How many functions were at work.
    pub(crate) fn helpers(&self) -> Option<HelpersUsed> {
        self.tuning.as_ref().map(|tuning| tuning.used().clone())
    }

    /// Returns the traffic of workers and the cost of their failures; `None` without workers.
    pub(crate) fn workers(&self) -> Option<WorkersUsed> {
        let places = self.machine.usage().traffic;
        let counters = self.engine.counters();
        let (again, redundant, retries) = (counters.again, counters.redundant, counters.retries);
        let returns = self.weights.owning_workers().map(Owners::returns);
        (!places.is_empty()).then_some(WorkersUsed { places, again, redundant, retries, returns })
    }

    /// Result of the audit. `None` if nothing is audited.
    pub(crate) fn audit(&self) -> Option<AuditReport> {
        self.doubts.report(self.machine.usage().audited.as_ref())
    }

    /// How attempts ended; `None` where there is one for each task.
    pub(crate) fn attempts(&self) -> Option<Attempts> {
        let both = [self.engine.counters(), self.evaluation.engine.counters()];
        let sum = |of: fn(&eciton_engine::Counters) -> u64| both.iter().map(|c| of(c)).sum::<u64>();
        self.machine.usage().bill.map(|_| Attempts {
            committed: sum(|c| c.committed),
            retries: sum(|c| c.retries),
            relaunches: sum(|c| c.relaunches),
            duplicates: sum(|c| c.duplicates),
            late: sum(|c| c.late) + self.counts.late,
            cancelled: self.counts.cancelled,
        })
    }

    /// What is predicted with the weights as they are, which were evaluated; `embeddings`: of what
    /// the last layer reads as well. Where no scores outlasted that evaluation, another one makes
    /// them.
    pub(crate) fn predicted(
        &mut self,
        config: &Config,
        embeddings: bool,
        observer: &mut dyn Observer,
    ) -> Result<Predicted> {
        if self.evaluation.plan.holds(embeddings) {
            return self.read(&self.evaluation, embeddings);
        }
        let keeps = Keeps { scores: true, embeddings, ..self.evaluation.plan.keeps };
        let plan = EvaluationPlan::new(&self.program, config, &self.inputs, keeps)?;
        let settings = (*self.engine.settings(), self.threads);
        let lanes = self.evaluation.engine.settings().lanes;
        let mut whole = Evaluation::new(plan, &self.inputs, (settings, lanes), self.rows.format, &[])?;
        self.forward(Some(&mut whole), observer)?;
        self.read(&whole, embeddings)
    }

    /// Returns whether a run folder has what is predicted.
    pub(crate) fn are_predictions_kept(&self) -> bool {
        self.evaluation.plan.keeps.scores
    }

    /// What an evaluation left, in the data set's order.
    fn read(&self, evaluation: &Evaluation, embeddings: bool) -> Result<Predicted> {
        let slot = |slot: SlotId| -> Result<(usize, Vec<f32>)> {
            let rows = evaluation.rows.all(slot)?;
            let (mut values, width) = (Vec::new(), rows.columns());
            rows.read_rows(0, rows.rows(), None, &mut values).map_err(at("rows of an evaluation"))?;
            Ok((width, self.inputs.vertices.rows_back(values, width)?))
        };
        let program = &evaluation.plan.program;
        let scores = program.scores.ok_or_else(|| Error::Internal("no scores".to_owned()))?;
        let embeddings = program.embeddings.filter(|_| embeddings);
        Ok(Predicted { scores: slot(scores)?.1, embeddings: embeddings.map(slot).transpose()? })
    }
}

/// What a model says of every row, in the data set's order.
pub(crate) struct Predicted {
    /// [V, classes] row-major; of many graphs one row each.
    pub scores: Vec<f32>,
    /// The rows that the last layer's kernel read, with their width; `None` where they are not
    /// wanted, and for a model of one layer.
    pub embeddings: Option<(usize, Vec<f32>)>,
}

//! Session: everything that a run needs before its first epoch, which is data, kernels, programs,
//! buffers and threads.

mod draft;
mod machine;
mod nan_search;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use eciton_engine::{Deadlines, Engine, Residence};
use eciton_exec::functions::{self, Outlook};
use eciton_exec::{Completion, Executor, LocalPool, Prices};
use eciton_graph::dataset::Dataset;
use eciton_kernel::Layer;
use eciton_program::{Domain, FusedStages, Program};
use eciton_recipe::{
    Config, LEAKY_SLOPE, Lanes, Layers, Mode, ModelSettings, NormaliseFeatures, Readout, WeightVersions,
};
use eciton_runs::report::{
    Attempts, AuditReport, HelpersUsed, Metrics, Observer, PipelineTrial, Quality, ResolvedSetting,
    WorkersUsed,
};
use eciton_types::{Round, SlotId};

use self::draft::sums;
pub(crate) use self::draft::{Draft, Planned, check_settings, parts};
use self::machine::{machine, tuning};
use crate::batch::{Batches, RowBatches, Source};
use crate::budget::Budget;
use crate::checkpoint::{Fingerprint, Point};
use crate::data::{Inputs, Interval};
use crate::doubt::Doubts;
use crate::driver::{
    self, Checkpointer, Counts, Epochs, RowStore, State, Trained, Training, Tuning, open_stages,
};
use crate::error::{Error, Result, at};
use crate::evaluation::{Asked, Evaluation, EvaluationPlan, Keeps};
use crate::image_strips::Stripped;
use crate::initial_weights::Initial;
use crate::kernels::Kernels;
use crate::logs::{Header, Logs, Profiled};
use crate::memory;
use crate::options::Options;
use crate::owned::{Owners, Wanted};
use crate::plan::{needs, owning_lanes};
use crate::recorder::Recorder;
use crate::resolved_settings::resolved_settings;
use crate::stop::Stop;
use crate::weights::{WeightState, Weights};

/// Weights from which the training of a seed resumes, in memory or in a checkpoint.
#[derive(Debug)]
pub(crate) enum Earlier {
    State(WeightState),
    Point(Arc<Point>),
}

/// Position in the training of a seed, from which the training resumes.
#[derive(Debug, Default)]
pub(crate) struct Position {
    pub weights: Option<Earlier>,
    pub trained: Trained,
    /// Last epoch to train. If `None`, `run.epochs` of the configuration is the last one.
    pub until: Option<u32>,
}

/// Run that is ready to start: its data, programs, buffers and executor.
pub(crate) struct Session {
    pub inputs: Inputs,
    /// Model settings of the configuration, with defaults that follow from the data filled in.
    settings: ModelSettings,
    scaled: NormaliseFeatures,
    /// Origins of settings, by key, as the run recorded them before it was resumed.
    pub origins: BTreeMap<String, String>,
    pub program: Program,
    /// Fused stages (sequences of stages that run as one task) of the program. The field `schedule`
    /// is the program that consists of these stages.
    spans: FusedStages,
    schedule: Program,
    pub kernels: Kernels,
    pub threads: u32,
    /// Model that processes images in strips, if [`Options::strips`] requests this.
    pub stripped: Option<Stripped>,
    evaluation: Evaluation,
    layers: Vec<Option<Arc<Layer>>>,
    rows: RowStore,
    pub weights: Weights,
    /// Source of the micro-batches. `None` if rounds have no micro-batches.
    source: Option<Arc<Source>>,
    pub epochs: Epochs,
    /// Result of the trials that selected the pipeline settings, if `pipeline.staleness` is `auto`.
    pub trial: Option<PipelineTrial>,
    /// Weights of the file that `run.init` names. `None` before the file is read, or without this
    /// setting.
    initial: Option<Initial>,
    engine: Engine,
    machine: Box<dyn Executor>,
    /// Controller of the number of helpers: functions, or threads whose number an autotuner
    /// chooses.
    tuning: Option<Tuning>,
    /// Price list. `None` if the run uses nothing that is charged.
    prices: Option<Prices>,
    pub counts: Counts,
    /// Record of the processes that answer tasks, and of doubts about their answers.
    pub doubts: Doubts,
    pub logs: Logs,
    /// Fingerprint of the data, which checkpoints contain. `None` if the run writes no checkpoints.
    pub fingerprint: Option<Fingerprint>,
    stop: Arc<Stop>,
    pause_after: Option<u32>,
    budget: Option<Budget>,
}

impl Session {
    /// Returns the names of the binary parameters, which the run folder stores as signs and scales.
    pub(crate) fn signs(&self) -> BTreeSet<String> {
        crate::binary_layers::parameters(&self.program, &self.layers)
    }

    pub(crate) fn new(
        config: &Config,
        options: &Options,
        dataset: Option<Dataset>,
        asked: Asked,
    ) -> Result<Self> {
        functions::check(config.executor.kind)?;
        let draft = Draft::new(config, options, dataset, asked)?;
        memory::check(&draft.planned.memory, config.run.memory_bytes)?;
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
        settings.residence = match (config.executor.kind.has_workers(), config.workers.redundant) {
            (true, false) => Residence::Places,
            (true, true) => Residence::Shadowed,
            (false, _) => Residence::Host,
        };
        if config.executor.kind.has_workers() {
            settings.credit = eciton_workers::CREDIT;
        }
        // A step has a gradient buffer from its submission on, so the number of submitted steps is
        // limited. With a record of events there is no limit, because the record can be replayed
        // with any number of threads.
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
                // The snapshot file is next to the run folder, because that disk must have room for
                // a model anyway.
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
                    every: config.workers.snapshot_every,
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
        // Each lane has its own thread or worker. The driver has another thread, for which no lane
        // waits.
        let lanes = if executor.kind.has_workers() { 0 } else { config.lanes.lanes.count };
        let threads = threads.max(if lanes == 0 { 0 } else { lanes.saturating_add(1) });
        let pool_settings = eciton_exec::Settings { threads, fresh_instances, newest_first, lanes };
        let local = LocalPool::new(pool_settings).map_err(Error::Threads)?;
        let charged = executor.kind.is_charged();
        // The price list is read before anything is spent, because an unreadable list must not end
        // a run.
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
        // If epochs overlap, the evaluation cannot share row buffers with the training.
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

    /// Refuses settings of the model that none of its layers reads, and a number of micro-batches
    /// that a batch cannot have.
    ///
    /// # Errors
    /// Returns [`eciton_recipe::Error::UnreadKey`] for an unused setting, and [`Error::Parts`] for
    /// the number of micro-batches.
    pub(crate) fn check_settings(&self) -> Result<()> {
        let batches = self.source.as_ref().and_then(|source| source.batches_of_rows());
        check_settings(&self.settings, &self.inputs, batches)
    }

    /// Returns the configuration, completed by the settings that follow from the data.
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
        // The key is always written, because a run folder of format 1 without this key means
        // another slope.
        if self.program.model.has_slope() {
            resolved.model.activation_slope.get_or_insert(LEAKY_SLOPE);
        }
        if self.inputs.dataset.graphs.is_some() && matches!(resolved.model.layers, Layers::Count(_)) {
            resolved.model.own.readout.get_or_insert(Readout::Mean);
        }
        resolved
    }

    /// Returns the settings that follow from the data and the model, each with its value and the
    /// origin of the value.
    pub(crate) fn said(&self, config: &Config) -> Vec<ResolvedSetting> {
        let mut all = resolved_settings(config, &self.program.model, &self.inputs, self.scaled);
        for said in &mut all {
            if let Some(from) = self.origins.get(&said.key) {
                said.from.clone_from(from);
            }
        }
        all
    }

    /// Reads the initial weights of `run.init`, unless they have been read or the setting is
    /// absent.
    pub(crate) fn read_initial(&mut self, config: &Config) -> Result<()> {
        if self.initial.is_none() {
            self.initial = Initial::read(config, &self.program, &self.inputs.schema)?;
        }
        Ok(())
    }

    /// Sets the initial weights of a seed: random values, or those of `run.init` where the file has
    /// them.
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

    /// Trains one seed from its initial weights, or resumes its training at the position `from`.
    pub(crate) fn train(
        &mut self,
        config: &Config,
        seed: u64,
        from: Option<Position>,
        observer: &mut dyn Observer,
        recorder: Option<&mut Recorder>,
    ) -> Result<Trained> {
        let mut from = from.unwrap_or_default();
        // The position is taken, so that the checkpoint file is closed and the next checkpoint can
        // reuse its disk space.
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
        let stages = open_stages(&self.program, &self.inputs, &self.rows, &self.layers, Some(seed))?;
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
        let recorder = recorder.map(|recorder| recorder as &mut dyn Checkpointer);
        let mut state = State::new(weights, counts, observer, &mut self.logs, self.tuning.as_mut(), recorder);
        let trained = training.run(&mut *self.machine, &mut self.engine, &mut state, from.trained);
        trained.map_err(|error| self.explained(config, seed, error))
    }

    /// Computes the scores of all vertices with the current weights, without dropout, and returns
    /// their metrics.
    pub(crate) fn evaluate(&mut self, observer: &mut dyn Observer) -> Result<Metrics> {
        Ok(self.forward(None, observer)?.0)
    }

    /// Evaluates like [`Session::evaluate`], and also returns the quality of the model by class.
    pub(crate) fn judge(&mut self, observer: &mut dyn Observer) -> Result<(Metrics, Option<Quality>)> {
        self.forward(None, observer)
    }

    /// Returns the quality of the model from the scores of the last evaluation. Returns `None` if
    /// these scores were not stored.
    pub(crate) fn quality(&self) -> Result<Option<Quality>> {
        let Evaluation { plan, rows, .. } = &self.evaluation;
        match plan.folds() {
            true => Ok(None),
            false => driver::quality(&plan.stages(&self.inputs, rows, &self.layers)?),
        }
    }

    /// Evaluates the current weights with `other`, or with the evaluation of the session if `other`
    /// is `None`. Returns metrics and quality.
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
                // Workers that own weights have failed or joined. The connected workers get the
                // weights of the snapshot.
                Err(Error::Gone { .. }) if returns < driver::MOST_RETURNS => {
                    returns += 1;
                    driver::restore(machine, &mut state)?;
                }
                ended => break ended?,
            }
        }
        Ok((driver::measured(&stages)?, driver::quality(&stages)?))
    }

    /// Waits for the tasks that are in flight after a failure, so that they release the row buffers
    /// that they use.
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

    /// Sets the numeric class of this process: that of the configuration, or else that of the
    /// functions that run tasks. Processors of one class compute identical bits.
    ///
    /// # Errors
    /// Returns [`Error::Class`] if this processor cannot compute in the class of the configuration.
    pub(crate) fn settle_class(config: &Config) -> Result<()> {
        if let Some(class) = &config.run.numeric_class {
            return Ok(eciton_tensor::simd::require(class)?);
        }
        if let Some(class) = functions::numeric_class(&config.executor) {
            // If this process cannot use the class, the summary names both classes.
            let _ = eciton_tensor::simd::require(&class);
        }
        Ok(())
    }

    /// Returns the numeric classes of this machine and of all processes that answered tasks, joined
    /// by ` + `.
    pub(crate) fn numeric_class(&self) -> String {
        let own = eciton_tensor::simd::numeric_class();
        let classes = self.machine.usage().numeric_classes;
        let others = classes.into_iter().filter(|class| class != own);
        std::iter::once(own.to_owned()).chain(others).collect::<Vec<_>>().join(" + ")
    }

    /// Returns the bill of the resources that the run is charged for, or `None` if nothing is
    /// charged.
    pub(crate) fn bill(&self) -> Option<eciton_exec::Bill> {
        self.machine.usage().bill
    }

    /// Returns the cost of the run so far, from [`Session::bill`] and the price list.
    pub(crate) fn cost(&self) -> Option<eciton_exec::Cost> {
        self.cost_of(&self.bill()?)
    }

    /// Returns the cost of a bill by the price list, or `None` without a price list.
    pub(crate) fn cost_of(&self, bill: &eciton_exec::Bill) -> Option<eciton_exec::Cost> {
        let can = self.machine.capabilities();
        Some(bill.cost(self.prices.as_ref()?, can.architecture?, can.host?))
    }

    /// Writes the records of the run to files: events, trace and profile, if they are requested.
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

    /// Returns the facts about functions that are known before their first task: location of the
    /// host, and the limit of their number. Returns `None` without functions.
    pub(crate) fn outlook(&self) -> Option<Outlook> {
        let can = self.machine.capabilities();
        let (host, cut) = (can.host?.clone(), can.cut.cloned());
        Some(Outlook { host, cut })
    }

    /// Returns the numbers of helpers (functions or threads) that the run has used, or `None` if
    /// their number is not controlled.
    pub(crate) fn helpers(&self) -> Option<HelpersUsed> {
        self.tuning.as_ref().map(|tuning| tuning.used().clone())
    }

    /// Returns the traffic of workers, and the number of steps repeated after failures. Returns
    /// `None` without workers.
    pub(crate) fn workers(&self) -> Option<WorkersUsed> {
        let places = self.machine.usage().traffic;
        let counters = self.engine.counters();
        let (again, redundant, retries) = (counters.again, counters.redundant, counters.retries);
        let returns = self.weights.owning_workers().map(Owners::returns);
        (!places.is_empty()).then_some(WorkersUsed { places, again, redundant, retries, returns })
    }

    /// Returns the result of the audit of answers, or `None` if the run audits nothing.
    pub(crate) fn audit(&self) -> Option<AuditReport> {
        self.doubts.report(self.machine.usage().audited.as_ref())
    }

    /// Returns the number of attempts at tasks by outcome. Returns `None` if nothing is charged,
    /// because each task then has one attempt.
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

    /// Returns the predictions of the current weights, which have been evaluated. `embeddings` adds
    /// the rows that the last layer reads. If the evaluation did not store all of these, another
    /// evaluation computes them.
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

    /// Returns true if evaluations store the scores, so that the run folder gets predictions.
    pub(crate) fn are_predictions_kept(&self) -> bool {
        self.evaluation.plan.keeps.scores
    }

    /// Reads the scores and embeddings of an evaluation, in the order of the data set.
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

/// Predictions of a model for every row, in the order of the data set.
pub(crate) struct Predicted {
    /// Scores, [V, classes] row-major, where V is the number of vertices. For a data set of many
    /// graphs, there is one row for each graph.
    pub scores: Vec<f32>,
    /// Rows that the kernel of the last layer reads, after their width. `None` if these are not
    /// requested, and for a model of one layer.
    pub embeddings: Option<(usize, Vec<f32>)>,
}

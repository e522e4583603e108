//! The session of a run, which contains everything that is needed for training: data, kernels,
//! programs, buffers and threads.

mod draft;
mod machine;
mod nan_search;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use eciton_engine::{Deadlines, Engine, Residence};
use eciton_exec::functions::{self, Outlook};
use eciton_exec::{Completion, Executor, LocalPool, Prices};
use eciton_graph::dataset::Dataset;
use eciton_kernel::Layer;
use eciton_program::{Domain, FusedStages, Hops, Program};
use eciton_recipe::{
    Config, LEAKY_SLOPE, Lanes, Layers, Mode, ModelSettings, NormaliseFeatures, WeightVersions,
};
use eciton_runs::report::{
    self, Attempts, AuditReport, HelpersUsed, HostTraffic, Metrics, Observer, PipelineTrial, Quality,
    ResolvedSetting, WorkersUsed,
};
use eciton_types::{Round, SlotId};

use self::draft::sums;
pub(crate) use self::draft::{Draft, Planned, check_settings, parts};
use self::machine::{machine, tuning};
use crate::batch::{Batches, RowBatches, Source};
use crate::budget::Budget;
use crate::checkpoint::{Fingerprint, Point};
use crate::data::Inputs;
use crate::doubt::Doubts;
use crate::driver::{
    self, Checkpointer, Counts, Epochs, RowStore, State, Trained, Training, Tuning, open_stages,
};
use crate::error::{Error, Result, at};
use crate::evaluation::{Asked, Evaluation, EvaluationPlan, Keeps};
use crate::hosts::{self, Exchange, Facts, HostUsage, Link};
use crate::image_strips::Stripped;
use crate::initial_weights::Initial;
use crate::kernels::Kernels;
use crate::logs::{Header, Logs, Profiled};
use crate::memory;
use crate::options::Options;
use crate::owned::{Owners, Wanted};
use crate::plan::{check_workers, needs, owning_lanes};
use crate::recorder::Recorder;
use crate::resolved_settings::resolved_settings;
use crate::stop::Stop;
use crate::weights::{WeightState, Weights};

/// Weights from which a training resumes. They are in memory or in a checkpoint.
#[derive(Debug)]
pub(crate) enum Earlier {
    State(WeightState),
    Point(Arc<Point>),
}

/// Position within the training of a seed, from which the training continues.
#[derive(Debug, Default)]
pub(crate) struct Position {
    pub weights: Option<Earlier>,
    pub trained: Trained,
    /// Last epoch to train. `None` stands for the end in the configuration (`run.epochs` or
    /// `run.steps`).
    pub until: Option<u32>,
}

/// A run that is ready to train. It has the data set, the programs, the buffers and the executor.
pub(crate) struct Session {
    pub inputs: Inputs,
    /// Settings of the model, with defaults that follow from the data set filled in.
    settings: ModelSettings,
    scaled: NormaliseFeatures,
    /// Origin of each setting, keyed by the setting's key, as recorded before the run was resumed.
    pub origins: BTreeMap<String, String>,
    pub program: Program,
    /// Fused stages of the program. `schedule` is the program in which each of them is one stage.
    spans: FusedStages,
    schedule: Program,
    pub kernels: Kernels,
    pub threads: u32,
    /// Model that computes images in strips. `None` unless [`Options::strips`] is set.
    pub stripped: Option<Stripped>,
    evaluation: Evaluation,
    /// Evaluation during the training, if it is limited to some rows.
    limited: Option<Evaluation>,
    layers: Vec<Option<Arc<Layer>>>,
    rows: RowStore,
    /// Exchange with the other hosts. `None` in a run on one host.
    exchange: Option<Exchange>,
    pub weights: Weights,
    /// Source of the micro-batches. `None` if each round uses all rows.
    source: Option<Arc<Source>>,
    pub epochs: Epochs,
    /// Trials that selected the settings of the pipeline. `None` unless `pipeline.staleness` is
    /// `auto`.
    pub trial: Option<PipelineTrial>,
    /// Initial weights from the file of `run.init`. `None` if they are not read yet, or if the
    /// setting is absent.
    initial: Option<Initial>,
    engine: Engine,
    machine: Box<dyn Executor>,
    /// Controller of the number of helpers (functions or threads). `None` if the number of threads
    /// is fixed.
    tuning: Option<Tuning>,
    /// Price list. `None` if nothing is charged.
    prices: Option<Prices>,
    pub counts: Counts,
    /// Record of the processes that answer tasks, and of those that gave wrong answers.
    pub doubts: Doubts,
    pub logs: Logs,
    /// Fingerprint of the data set, which checkpoints record. `None` if the run writes no
    /// checkpoints.
    pub fingerprint: Option<Fingerprint>,
    stop: Arc<Stop>,
    pause_after: Option<u32>,
    budget: Option<Budget>,
}

impl Session {
    /// Records that the run may be resumed after this process has ended.
    pub(crate) fn pauses(&mut self) {
        self.machine.pauses();
    }

    /// Returns the names of the parameters that the model file stores as signs and scales.
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
        // Other hosts may already have allocated their memory, so only host 0 checks that of all.
        let here = options.hosts.as_ref().filter(|hosts| hosts.me == 0).map_or(1, |hosts| hosts.here);
        memory::check_each(&draft.planned.memory, config.run.memory_bytes, here)?;
        let Draft { inputs, fingerprint, settings: model, scaled, kernels, threads, stripped, planned } =
            draft;
        let Planned { program, spans, schedule, evaluation, layers, chooser, .. } = planned;
        let watched = options.out.is_some() && config.checkpoint.is_on();
        let cut = options.hosts.as_ref().zip(inputs.host.as_ref()).map(|(hosts, part)| {
            hosts::check(&schedule)?;
            let facts = Facts::new(
                config,
                (&fingerprint, part.reads_own),
                (&schedule, &part.cut, &kernels.digests()),
            );
            Ok::<_, Error>((hosts, part.cut.clone(), facts))
        });
        let cut = cut.transpose()?;
        // Each lane has its own thread or worker. The driver has another thread, for which no lane
        // waits.
        let lanes = if config.executor.kind.has_workers() { 0 } else { config.lanes.lanes.count };
        let pool_threads = threads.max(if lanes == 0 { 0 } else { lanes.saturating_add(1) });
        let (fresh_instances, newest_first) = (options.fresh_instances, options.newest_first);
        let pool_settings =
            eciton_exec::Settings { threads: pool_threads, fresh_instances, newest_first, lanes };
        let mut local = LocalPool::new(pool_settings).map_err(Error::Threads)?;
        let link = cut.map(|(hosts, cut, facts)| {
            Rc::new(Link::new(hosts, (cut, facts), (&options.stop, local.inbox())))
        });
        let mut inputs = inputs;
        if let Some(link) = link.as_ref().filter(|_| program.rewrites.gathered_features && inputs.reads_own())
        {
            inputs.features = link.features(&inputs, &mut local)?;
        }
        let inputs = inputs.complete(&program, threads)?;
        let training = RowBatches::new(&config.batch, &inputs).rows();
        let epochs = Epochs::with_rounds(config.batch.rounds(training));
        let whole = inputs.intervals.len() as u32;
        let intervals = program.apart.unwrap_or(whole);
        let last = epochs.end(&config.run);
        let last = last.ok_or(Error::Rounds { epochs: config.run.epochs, rounds: epochs.rounds() })?;
        let mut settings = eciton_engine::Settings::new(intervals, last.0);
        settings.eval_every = config.run.eval_every.steps(epochs.rounds()).unwrap_or(0);
        settings.pipeline = config.pipeline;
        settings.lanes = config.lanes.lanes;
        settings.own = link.as_ref().map(|link| link.own()).map(|own| (own.start, own.end));
        settings.residence = match (config.executor.kind.has_workers(), config.workers.redundant) {
            (true, false) => Residence::Workers,
            (true, true) => Residence::Redundant,
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
        let sizes = (inputs.rows_of_all().into(), inputs.edges_of_all(), schedule.computing().len());
        let in_flight = settings.in_flight.unwrap_or(0);
        let header = Header::for_run(config, sizes, intervals, in_flight, options.seeds.max(1));
        let logs = Logs::new(&options.recording, &header)?;
        let compared = config.executor.audit >= 1.0 || config.executor.keep_doubtful;
        if config.executor.audit > 0.0 && !compared && logs.events.is_some() {
            let reason = "a run whose events are recorded or replayed cannot roll back to a checkpoint; set \
                          executor.audit to 1, or to 0 for no audit";
            return Err(Error::Audit(reason.to_owned()));
        }
        let owners = match config.sums_stay() {
            false => Owners::default(),
            true => {
                let folder = options.beside();
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
                    takeover: settings.takeover(),
                    folder: config.workers.own().then_some(&folder),
                };
                Owners::new(wanted, (atoms, nodes, sums.tops(&sums.replicas(&config.lanes.lanes))))?
            }
        };
        let (optimiser, pipeline) = (&config.optimiser, &config.pipeline);
        let runs = match &link {
            Some(link) => link.cut.runs().collect(),
            None => sums.replicas(&config.lanes.lanes),
        };
        let host = options.hosts.as_ref().map(|hosts| hosts.me);
        let mut weights = Weights::new(&program, optimiser, pipeline, (&sums, &runs), (owners, host))?;
        let engine = Engine::new(&schedule, settings)?;
        let threads = pool_threads;
        let exchange = |program, columns| {
            link.as_ref().map(|link| Exchange::new(link, program, &inputs, columns)).transpose()
        };
        let charged = executor.kind.is_charged();
        // The price list is read before anything is spent, because an unreadable list must not end
        // a run.
        let prices = charged.then(eciton_exec::prices).transpose()?;
        let lanes = (config.lanes.lanes.count > 0).then(|| {
            let (rows, parts) = parts(config, &inputs, &program);
            let rows = rows.div_ceil(parts.max(1)) as usize;
            needs(config, (&program, &spans, &schedule), (rows, parts, sums.levels()))
        });
        check_workers(config, (&program, &spans, &schedule), lanes.as_deref().unwrap_or_default())?;
        let mut machine = machine(config, local, &kernels, &layers, (intervals, lanes))?;
        weights.owners_mut().audit_by(machine.capabilities().audit.cloned());
        let mut tuning = tuning(config, &*machine, &schedule, prices.as_ref(), intervals, threads);
        if let Some(tuning) = &mut tuning {
            tuning.begin(&mut *machine);
        }
        let parts = match program.apart {
            None => inputs.cut(&inputs.intervals),
            Some(_) => [Domain::VERTICES, Domain::READ_OUT, Domain::ATOMS]
                .map(|domain| {
                    let each = program.rows(domain) as usize / intervals.max(1) as usize;
                    (0..intervals as usize).map(|part| part * each..(part + 1) * each).collect()
                })
                .into(),
        };
        let lanes = config.ring_lanes();
        let rows = RowStore::new(
            &schedule,
            parts,
            (&config.pipeline, &lanes),
            config.run.row_storage,
            (&[], inputs.own_rows(), None),
        )?;
        // If epochs overlap, the evaluation cannot share row buffers with the training.
        let others: &[&RowStore] = if config.pipeline.row_versions() > 1 { &[] } else { &[&rows] };
        let (settings, format) = ((settings, threads), config.run.row_storage);
        let lanes = if config.workers.own() { config.lanes.lanes } else { Lanes::default() };
        let limited = EvaluationPlan::limited(&program, config, &inputs)?;
        let limited = limited
            .map(|plan| Evaluation::new(plan, &inputs, (settings, lanes), format, others))
            .transpose()?;
        let evaluation = if link.is_some() { evaluation.on_hosts() } else { evaluation };
        let scores = exchange(&evaluation.schedule, Some(inputs.shape.classes))?;
        let exchange = exchange(&schedule, None)?;
        let evaluation = Evaluation::new(evaluation, &inputs, (settings, lanes), format, others)?;
        let evaluation = Evaluation { exchange: scores, ..evaluation };
        let source = chooser.map(|chooser| Source::new(&config.batch, &inputs, (chooser, threads)));
        let source = source.transpose()?.map(Arc::new);
        Ok(Self {
            rows,
            exchange,
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
            limited,
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
            fingerprint: fingerprint.filter(|_| watched),
            stop: options.stop.clone(),
            pause_after: options.pause_after,
            budget: options.budget.clone(),
        })
    }

    /// Checks that the model reads all of its settings, and that a batch can have the configured
    /// number of micro-batches.
    ///
    /// # Errors
    /// Returns [`eciton_recipe::Error::UnreadKey`] for a setting that no layer reads, and
    /// [`Error::Parts`] for the number of micro-batches.
    pub(crate) fn check_settings(&self) -> Result<()> {
        let batches = self.source.as_ref().and_then(|source| source.batches_of_rows());
        check_settings(&self.settings, &self.inputs, batches)
    }

    /// Returns the last step of the training of a seed.
    pub(crate) fn end(&self, config: &Config) -> Round {
        // A run with too many steps was refused when the session was created.
        self.epochs.end(&config.run).unwrap_or(Round(u32::MAX))
    }

    /// Returns the number of epochs of the training of a seed. The last one may be incomplete.
    pub(crate) fn planned_epochs(&self, config: &Config) -> u32 {
        self.epochs.at(self.end(config))
    }

    /// Returns the configuration with all settings filled in that follow from the data set.
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
        self.inputs.complete_settings(&mut resolved.model);
        resolved
    }

    /// Returns the settings that follow from the data set or the model, with value and origin.
    pub(crate) fn said(&self, config: &Config) -> Vec<ResolvedSetting> {
        let mut all = resolved_settings(config, &self.program.model, &self.inputs, self.scaled);
        for said in &mut all {
            if let Some(from) = self.origins.get(&said.key) {
                said.from.clone_from(from);
            }
        }
        all
    }

    /// Reads the initial weights of `run.init`, unless they were read before. Does nothing if the
    /// setting is absent.
    pub(crate) fn read_initial(&mut self, config: &Config) -> Result<()> {
        if self.initial.is_none() {
            self.initial = Initial::read(config, &self.program, &self.inputs.schema)?;
        }
        Ok(())
    }

    /// Sets the initial weights for the training of `seed`. They are random, except for layers that
    /// the file of `run.init` has weights for.
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

    /// Trains the model with `seed`. The training starts with the initial weights, or continues at
    /// the position `from`.
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
        if let Some(exchange) = &self.exchange {
            // Hosts with other files of `run.init` or other checkpoints would train another model.
            let (pass, step) = (self.counts.passes + 1, from.trained.steps);
            exchange.link().announce(pass, (seed, step), &self.weights.all_values()?);
        }
        let done = Round(from.trained.steps);
        let last = from.until.map_or_else(|| self.end(config), |until| self.epochs.last(until));
        let first = Round(done.0.saturating_add(1));
        self.doubts.begin(seed, self.epochs.at(first));
        self.engine.restart(first, last, self.weights.newest());
        if self.weights.has_before() {
            self.engine.go_on();
        }
        let batches = self.source.as_ref().map(|source| Batches::new(source.clone(), seed, last));
        let stages = open_stages(&self.program, &self.inputs, &self.rows, &self.layers, Some(seed))?;
        let evaluation = self.limited.as_mut().unwrap_or(&mut self.evaluation);
        let Evaluation { plan, rows, engine: evaluator, exchange, sampled } = evaluation;
        let others = (exchange.as_ref(), sampled.as_ref());
        let mut training = Training {
            stages: stages
                .with_spans(&self.spans, &self.schedule)
                .with_places(self.machine.capabilities().caches_rows)
                .with_passing(self.weights.owners().have_parameters())
                .with_batches(batches)
                .with_hosts(self.exchange.as_ref()),
            evaluation: plan.stages(&self.inputs, (rows, &self.layers), others)?,
            evaluator,
            plan: driver::Plan {
                config,
                epochs: self.epochs,
                last,
                stop: &self.stop,
                pause_after: self.pause_after.filter(|&epoch| self.epochs.last(epoch) < last),
                budget: self.budget.as_ref(),
                limited: plan.is_limited(),
            },
        };
        let (weights, counts) = (&mut self.weights, (&mut self.counts, &mut self.doubts));
        let recorder = recorder.map(|recorder| recorder as &mut dyn Checkpointer);
        let mut state = State::new(weights, counts, observer, &mut self.logs, self.tuning.as_mut(), recorder);
        let trained = training.run(&mut *self.machine, &mut self.engine, &mut state, from.trained);
        trained.map_err(|error| self.explained(config, seed, error))
    }

    /// Computes the scores of all rows with the current weights and without dropout. Returns their
    /// metrics.
    pub(crate) fn evaluate(&mut self, observer: &mut dyn Observer) -> Result<Metrics> {
        Ok(self.forward(None, observer)?.0)
    }

    /// Evaluates the current weights like [`Session::evaluate`]. Also returns the quality of the
    /// model, including results per class.
    pub(crate) fn judge(&mut self, observer: &mut dyn Observer) -> Result<(Metrics, Option<Quality>)> {
        self.forward(None, observer)
    }

    /// Returns the quality of the model from the scores of the last evaluation. Returns `None` if
    /// these scores were not stored.
    pub(crate) fn quality(&self) -> Result<Option<Quality>> {
        let Evaluation { plan, rows, exchange, sampled, .. } = &self.evaluation;
        let others = (exchange.as_ref(), sampled.as_ref());
        let stages = plan.stages(&self.inputs, (rows, &self.layers), others)?;
        if plan.folds() { Ok(None) } else { driver::quality(&stages) }
    }

    /// Evaluates the current weights with the evaluation `other`, or with that of the session if it
    /// is `None`. Returns the metrics and the quality.
    fn forward(
        &mut self,
        other: Option<&mut Evaluation>,
        observer: &mut dyn Observer,
    ) -> Result<(Metrics, Option<Quality>)> {
        let Evaluation { plan, rows, engine, exchange, sampled } = other.unwrap_or(&mut self.evaluation);
        let others = (exchange.as_ref(), sampled.as_ref());
        let stages = plan.stages(&self.inputs, (rows, &self.layers), others)?;
        let (weights, counts) = (&mut self.weights, (&mut self.counts, &mut self.doubts));
        let mut state = State::new(weights, counts, observer, &mut self.logs, self.tuning.as_mut(), None);
        driver::give(&mut *self.machine, &mut state)?;
        let mut returns = 0;
        loop {
            let machine = &mut *self.machine;
            let stop = Some(&*self.stop).filter(|_| stages.hosts.is_none());
            match driver::forward(machine, engine, &stages, &mut state, Round(1), (stop, None)) {
                // Workers that own weights have failed or joined. The connected workers get the
                // weights of the snapshot.
                Err(Error::Gone { .. }) if returns < driver::MOST_RETURNS => {
                    returns += 1;
                    driver::restore(machine, &mut state)?;
                }
                ended => break ended.map(drop)?,
            }
        }
        Ok((driver::measured(&stages)?, driver::quality(&stages)?))
    }

    /// Waits until no task is in flight after a failure. The tasks then no longer use the row
    /// buffers.
    pub(crate) fn settle(&mut self) {
        let mut late = Vec::new();
        loop {
            let under_way = self.machine.drain(&mut late, None);
            for completion in late.drain(..) {
                if let (Some(exchange), Completion::Received { .. }) = (&self.exchange, &completion) {
                    exchange.link().keep(completion);
                    continue;
                }
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

    /// Sets the numeric class of this process to that of the configuration, or else to that of the
    /// functions. Processors of the same numeric class compute the same bits.
    ///
    /// # Errors
    /// Returns [`Error::Class`] if this processor does not support the class of the configuration.
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

    /// Returns the numeric class of this machine and those of all processes that answered tasks,
    /// joined by ` + `.
    pub(crate) fn numeric_class(&self) -> String {
        let own = eciton_tensor::simd::numeric_class();
        let classes = self.machine.usage().numeric_classes;
        let others = classes.into_iter().filter(|class| class != own);
        std::iter::once(own.to_owned()).chain(others).collect::<Vec<_>>().join(" + ")
    }

    /// Returns true if the hosts of the run end with only a checkpoint. Returns `None` on one host.
    pub(crate) fn hosts_leave(&self) -> Option<bool> {
        self.exchange.as_ref().map(|exchange| exchange.link().leaves())
    }

    /// Returns the charged usage of the run so far. Returns `None` if nothing is charged.
    pub(crate) fn bill(&self) -> Option<eciton_exec::Bill> {
        self.used().map_or_else(|| self.machine.usage().bill, |used| used.bill)
    }

    /// Returns the number of tasks that were completed so far.
    pub(crate) fn tasks(&self) -> u64 {
        self.used().map_or(self.counts.tasks, |used| used.tasks)
    }

    /// Exchanges the usage of all hosts at the end of a run, so that host 0 reports all of it.
    ///
    /// # Errors
    /// Returns [`Error::HostFailed`] if a host has failed.
    pub(crate) fn gather_usage(&mut self) -> Result<()> {
        let own = HostUsage { tasks: self.counts.tasks, bill: self.machine.usage().bill };
        if let Some(exchange) = &self.exchange {
            self.counts.passes += 1;
            hosts::gather(exchange.link(), &mut *self.machine, (self.counts.passes, own))?;
        }
        Ok(())
    }

    /// Returns the usage of all hosts, once they have exchanged it.
    fn used(&self) -> Option<HostUsage> {
        self.exchange.as_ref().and_then(|exchange| exchange.link().used.get())
    }

    /// Returns the cost of the run so far, by the price list. Returns `None` if nothing is charged.
    pub(crate) fn cost(&self) -> Option<eciton_exec::Cost> {
        self.cost_of(&self.bill()?)
    }

    /// Returns the cost of `bill` by the price list. Returns `None` if there is no price list.
    pub(crate) fn cost_of(&self, bill: &eciton_exec::Bill) -> Option<eciton_exec::Cost> {
        let can = self.machine.capabilities();
        Some(bill.cost(self.prices.as_ref()?, can.architecture?, can.host?))
    }

    /// Completes the event log, the trace and the task profile, if they are requested.
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

    /// Returns the location of the host relative to the functions, and the limit that reduced their
    /// number. Returns `None` if the run uses no functions.
    pub(crate) fn outlook(&self) -> Option<Outlook> {
        let can = self.machine.capabilities();
        let (host, cut) = (can.host?.clone(), can.cut.cloned());
        Some(Outlook { host, cut })
    }

    /// Returns the numbers of helpers (functions or threads) over the run. Returns `None` if the
    /// number of threads is fixed.
    pub(crate) fn helpers(&self) -> Option<HelpersUsed> {
        self.tuning.as_ref().map(|tuning| tuning.used().clone())
    }

    /// Returns the message counts of the workers and the number of repeated steps. Returns `None`
    /// if the run uses no workers.
    pub(crate) fn workers(&self) -> Option<WorkersUsed> {
        let places = self.machine.usage().traffic;
        let counters = self.engine.counters();
        let (again, redundant, retries) = (counters.again, counters.redundant, counters.retries);
        let returns = self.weights.owning_workers().map(Owners::returns);
        (!places.is_empty()).then_some(WorkersUsed { places, again, redundant, retries, returns })
    }

    /// Returns the facts about the mini-batches of the run. Returns `None` if each step is on all rows.
    pub(crate) fn batches(&self) -> Option<report::Batches> {
        let hops = Hops::from_program(&self.program).most() as u32;
        let micro = self.engine.settings().intervals;
        self.source.as_ref().map(|source| source.facts((self.epochs.rounds(), micro, hops)))
    }

    /// Returns the time in seconds in which samples were counted before the training.
    pub(crate) fn counting_seconds(&self) -> f64 {
        self.source.as_ref().map_or(0.0, |source| source.counting_seconds())
    }

    /// Returns a warning about the mini-batches of the run, if there is a doubt.
    pub(crate) fn batch_warning(&self) -> Option<String> {
        self.source.as_ref().and_then(|source| source.warning())
    }

    /// Returns the bytes that this host has exchanged with each other host. Empty in a run on one
    /// host.
    pub(crate) fn host_traffic(&self) -> Vec<HostTraffic> {
        self.exchange.as_ref().map(|exchange| exchange.link().traffic()).unwrap_or_default()
    }

    /// Returns the result of the audit of remote answers. Returns `None` if nothing is audited.
    pub(crate) fn audit(&self) -> Option<AuditReport> {
        self.doubts.report(self.machine.usage().audited.as_ref())
    }

    /// Returns the counts of task attempts, by outcome. Returns `None` if nothing is charged,
    /// because each task then has only one attempt.
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

    /// Returns the scores of the weights that were evaluated last, and the embeddings if
    /// `embeddings` is true. If the evaluation has not stored them, the weights are evaluated
    /// again.
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
        let plan = plan.in_files(self.evaluation.plan.folder().map(Path::to_owned));
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

    /// Reads scores and embeddings from the row store of an evaluation. They are returned in the
    /// order of the data set.
    fn read(&self, evaluation: &Evaluation, embeddings: bool) -> Result<Predicted> {
        let slot = |slot: SlotId| -> Result<(usize, Vec<f32>)> {
            let rows = evaluation.rows.all(slot)?;
            let (mut values, width) = (Vec::new(), rows.columns());
            rows.read_rows(0, rows.rows(), None, &mut values).map_err(at("rows of an evaluation"))?;
            Ok((width, self.inputs.vertices.rows_back(values, width)?))
        };
        let program = &evaluation.plan.program;
        let scores = program.scores.ok_or_else(|| Error::Internal("the program has no scores".to_owned()))?;
        let embeddings = program.embeddings.filter(|_| embeddings);
        if let Some(sampled) = &evaluation.sampled {
            let (columns, scores) = sampled.scores();
            let scores = self.inputs.vertices.rows_back(scores.to_vec(), columns)?;
            return Ok(Predicted { scores, embeddings: None });
        }
        if let Some(exchange) = &evaluation.exchange {
            if embeddings.is_some() {
                let text = "embeddings of all rows are on no single host; train on one host, or predict with \
                            the run folder";
                return Err(Error::Hosts(text.to_owned()));
            }
            let scores = exchange
                .with_scores(|scores, columns| self.inputs.vertices.rows_back(scores.to_vec(), columns))?;
            return Ok(Predicted { scores, embeddings: None });
        }
        Ok(Predicted { scores: slot(scores)?.1, embeddings: embeddings.map(slot).transpose()? })
    }
}

/// Predictions for all vertices or graphs, in the order of the data set.
pub(crate) struct Predicted {
    /// Scores as a row-major matrix `[V, classes]`, where V is the number of vertices, or of graphs
    /// in a data set of many graphs.
    pub scores: Vec<f32>,
    /// Number of columns of the embeddings, and their values. Embeddings are the inputs of the last
    /// layer. `None` if they were not requested or the model has only one layer.
    pub embeddings: Option<(usize, Vec<f32>)>,
}

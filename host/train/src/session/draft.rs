//! The draft of a run, with its data set, kernels and programs. It is made before memory for the
//! training is allocated, and suffices for `eciton plan`.

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::Arc;

use eciton_graph::dataset::Dataset;
use eciton_kernel::{Kernel, Layer};
use eciton_planner::Placement;
use eciton_program::{FusedStages, Place, Program, Rewrites};
use eciton_recipe::{
    Config, EdgeColumn, EdgePlace, EvaluationMemory, FeatureGather, GatherFeatures, Model, ModelSettings,
    NormaliseFeatures,
};
use eciton_runs::report::MemoryPlan;
use eciton_types::{Attribute, GROUP, Value};

use super::Options;
use crate::batch::{Chooser, RowBatches};
use crate::checkpoint::Fingerprint;
use crate::data::{self, Inputs};
use crate::error::{Error, Result};
use crate::evaluation::{Asked, EvaluationPlan, Keeps};
use crate::hosts::{self, Cut, Hosts};
use crate::image_strips::Stripped;
use crate::initial_weights;
use crate::kernels::{Kernels, Own};
use crate::loss_reachable::LabelledPlan;
use crate::memory;
use crate::plan::Planning;
use crate::weights::Sums;

/// A run whose data set, kernels and programs are known, but whose memory is not allocated yet.
pub(crate) struct Draft {
    pub inputs: Inputs,
    /// Fingerprint of the data set. `None` if nothing compares it.
    pub(super) fingerprint: Option<Fingerprint>,
    /// Settings of the model, with defaults that follow from the data set filled in.
    pub settings: ModelSettings,
    pub(super) scaled: NormaliseFeatures,
    pub kernels: Kernels,
    pub threads: u32,
    pub stripped: Option<Stripped>,
    pub planned: Planned,
}

impl Draft {
    /// Drafts a run. On several hosts, the inputs are reduced to the rows of this host.
    pub(crate) fn new(
        config: &Config,
        options: &Options,
        dataset: Option<Dataset>,
        asked: Asked,
    ) -> Result<Self> {
        Self::with_rows(config, options, dataset, (asked, true))
    }

    /// Drafts a run like [`Draft::new`]. If `is_reduced` is false, the inputs have the rows of all
    /// hosts.
    pub(crate) fn with_rows(
        config: &Config,
        options: &Options,
        dataset: Option<Dataset>,
        (asked, is_reduced): (Asked, bool),
    ) -> Result<Self> {
        config.check()?;
        config.pipeline.check()?;
        let own = Own::read(config)?;
        let threads = config.run.threads.unwrap_or_else(|| {
            let all = std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(1));
            // Hosts on the same machine divide its processors among them.
            (all / options.hosts.as_ref().map_or(1, |hosts| hosts.here)).max(1)
        });
        // Kernels are compiled while the data is read.
        let (inputs, kernels) = std::thread::scope(|scope| {
            let kernels = eciton_input::threads::spawn(scope, || {
                let code = (&options.cache, options.code.as_ref());
                Kernels::load(config, own, options.kernel_folder.as_deref(), code)
            });
            let inputs = match dataset {
                Some(dataset) => Ok(dataset),
                None => data::load_to_train(config, options.hosts.as_ref()),
            }
            .and_then(|dataset| {
                memory::check_ordering(&dataset, config.run.order, config.run.memory_bytes)?;
                hosts::check_order(&dataset, options.hosts.as_ref(), config.run.order)?;
                let scaled = eciton_runs::schema::scaled(&dataset);
                let links = config.predicts_links().then(|| (&config.links, config.pipeline.row_versions()));
                let least = options.hosts.as_ref().map_or(1, Hosts::least_intervals);
                let of = (&config.run, config.data.group(), least);
                Ok((Inputs::new(dataset, of, links)?, scaled))
            });
            let kernels = kernels.join().map_err(|_| Error::Internal("loading kernels panicked".to_owned()));
            (inputs, kernels)
        });
        let ((inputs, scaled), kernels) = (inputs?, kernels??);
        let shape = inputs.shape;
        let mut settings = config.model.clone();
        inputs.complete_settings(&mut settings);
        if let Some(column) = &mut settings.edge_weights {
            *column = EdgeColumn::Number(column.number(&inputs.dataset.names.edge_features)?);
        }
        let resolve = |settings| Model::resolve(settings, shape.features, shape.classes, inputs.task);
        let whole = resolve(&settings)?;
        let stripped = options
            .strips
            .map(|strips| Stripped::new(&settings, &whole, (strips, shape.rows, options.workers.is_some())))
            .transpose()?;
        let model = match &stripped {
            Some(stripped) => resolve(stripped.settings())?,
            None => whole,
        };
        inputs.check_readout(&model)?;
        let inputs = inputs.with_edges(&model)?.with_class_weights(settings.class_weights.as_ref())?;
        let rewrites = {
            let work = inputs.workload(model.constant_gather());
            Rewrites::choose(&model, &work, config.run.gather_features)?
        };
        let (rewrites, fingerprint) = match &options.hosts {
            // A host has only the neighbours of its rows, and not their neighbours.
            Some(_)
                if model
                    .constant_gather()
                    .is_some_and(|gather| matches!(gather, FeatureGather::Hops(2..))) =>
            {
                (Rewrites { gathered_features: false, ..rewrites }, true)
            }
            other => (rewrites, other.is_some() || options.out.is_some() && config.checkpoint.is_on()),
        };
        let fingerprint = fingerprint.then(|| Fingerprint::compute(&inputs)).transpose()?;
        let inputs = match options.hosts.as_ref().filter(|_| is_reduced) {
            None => inputs,
            Some(hosts) => {
                hosts::check_data(config, &inputs)?;
                let cut = Cut::new(&inputs.starts(), &inputs.dataset.parts, hosts.count)?;
                let is_planned = hosts.fabric.is_none() && data::may_read_own(config, &inputs);
                let reads_own = inputs.dataset.held.is_some() || is_planned;
                inputs.on_host(cut, (hosts.me, reads_own))?
            }
        };
        let keeps = Keeps::decide(asked, options, config, &inputs);
        let plan = |rewrites, folder| {
            Planned::new(config, &inputs, &kernels, threads, (&model, rewrites, keeps, folder))
        };
        let mut planned = plan(rewrites, None)?;
        let gives_up = rewrites.gathered_features && config.run.gather_features == GatherFeatures::Auto;
        if gives_up && !planned.fits(config) {
            let rewrites = Rewrites { gathered_features: false, ..rewrites };
            let without = plan(rewrites, None)?;
            if without.fits(config) {
                planned = without;
            }
        }
        let in_file = match config.evaluation.memory {
            EvaluationMemory::Resident => false,
            EvaluationMemory::File => true,
            // A training on all rows needs their memory anyway.
            EvaluationMemory::Auto => planned.chooser.is_some() && !planned.fits(config),
        };
        if in_file {
            planned = plan(planned.program.rewrites, Some(options.beside()))?;
        }
        crate::kernels::check_all_used(config, &planned.layers)?;
        tracing::info!(
            model = planned.program.model.name(), stages = planned.schedule.stages.len(),
            intervals = inputs.intervals.len(), threads, bytes = planned.memory.total_bytes,
            available = ?planned.memory.available_bytes, "planned"
        );
        for item in &planned.memory.items {
            tracing::debug!(purpose = item.purpose, bytes = item.bytes, what = item.detail, "memory");
        }
        let weighed =
            planned.chooser.as_ref().is_some_and(|chooser| chooser.weighs_rows(&config.batch, &inputs));
        inputs.check_loss(&planned.program, &planned.layers, weighed)?;
        initial_weights::check_layers(config, &planned.program)?;
        crate::binary_layers::check(config, &planned.program, &planned.layers)?;
        inputs.check_neighbours(config, &planned.program)?;
        Ok(Self { inputs, fingerprint, settings, scaled, kernels, threads, stripped, planned })
    }
}

/// Checks that the model reads all of its settings, and that a batch can have the configured number
/// of micro-batches. Resumed runs are not checked.
///
/// # Errors
/// Returns [`eciton_recipe::Error::UnreadKey`] for a setting that no layer reads, and
/// [`Error::Parts`] for the number of micro-batches.
pub(crate) fn check_settings(
    settings: &ModelSettings,
    inputs: &Inputs,
    batches: Option<&RowBatches>,
) -> Result<()> {
    let shape = inputs.shape;
    settings.check_read(shape.features, shape.classes, inputs.task)?;
    batches.map_or(Ok(()), RowBatches::check)
}

impl Draft {
    /// Returns the summation tree for the gradients of `parts` micro-batches or intervals, with the
    /// tree nodes of each.
    pub(crate) fn sums(&self, config: &Config, parts: usize) -> Sums {
        // The cast is lossless, because the number of intervals is limited.
        sums(config, &self.inputs, self.planned.chooser.as_ref(), parts as u32)
    }
}

/// Programs of a model, and the estimated memory of the run.
pub(crate) struct Planned {
    /// Program before its stages were sorted by lane. Task profiles refer to stages in this order.
    pub lowered: Program,
    pub program: Program,
    /// Fused stages of the program. A fused stage consists of consecutive stages that run as one
    /// task.
    pub spans: FusedStages,
    /// Program that the engine schedules. It has one stage for each fused stage. With lanes, each
    /// stage is on its lane.
    pub schedule: Program,
    pub(super) evaluation: EvaluationPlan,
    pub(super) layers: Vec<Option<Arc<Layer>>>,
    /// Method that chooses the rows of micro-batches. `None` if each round uses all rows.
    pub(crate) chooser: Option<Chooser>,
    /// Gathers that leave out edges which cannot affect the loss. `None` if all gathers use all
    /// edges.
    pub labelled: Option<LabelledPlan>,
    pub memory: MemoryPlan,
}

/// Returns the attributes with `group` (the number of rows per sequence) added, if the kernel reads
/// it and the layer does not set it. Otherwise returns `None`.
fn grouped(kernel: &Kernel, attributes: &[Attribute], group: u32) -> Option<Vec<Attribute>> {
    let is_group = |name: &str| name == GROUP;
    let takes = kernel.attributes().iter().any(|spec| is_group(&spec.name));
    let told = attributes.iter().any(|attribute| is_group(&attribute.name));
    let group = Attribute::new(GROUP, Value::Integer(i64::from(group)));
    (takes && !told).then(|| attributes.iter().cloned().chain([group]).collect())
}

impl Planned {
    fn new(
        config: &Config,
        inputs: &Inputs,
        kernels: &Kernels,
        threads: u32,
        (model, rewrites, keeps, folder): (&Model, Rewrites, Keeps, Option<PathBuf>),
    ) -> Result<Self> {
        let layers: RefCell<Vec<Arc<Layer>>> = RefCell::default();
        let failure: RefCell<Option<Error>> = RefCell::default();
        let group = inputs.shape.group;
        let open = |kernel: &str, inputs: &[Vec<u32>], attributes: &[Attribute]| {
            let opened = kernels.get(kernel).and_then(|k| {
                // A kernel of the user that takes groups of rows gets the attribute like the
                // built-in ones.
                let told = grouped(&k, attributes, group);
                Ok(k.open(inputs, told.as_deref().unwrap_or(attributes))?)
            });
            opened
                .map(|layer| {
                    let signature = layer.signature().clone();
                    layers.borrow_mut().push(layer);
                    signature
                })
                .map_err(|error| {
                    let text = error.to_string();
                    *failure.borrow_mut() = Some(error);
                    text
                })
        };
        let mut program = Program::build(model, inputs.shape, rewrites, &open)
            .map_err(|plan| failure.borrow_mut().take().unwrap_or(plan.into()))?;
        let executor = &config.executor;
        if executor.edge_kernels == EdgePlace::Functions && !executor.kind.is_here() {
            program.place_edges(Place::Anywhere);
        }
        let evaluation = EvaluationPlan::new(&program, config, inputs, keeps)?.on_samples(config, inputs)?;
        let chooser = match config.batch.is_on() {
            false => None,
            true => Some(Chooser::new(&config.batch, inputs, &program)?),
        };
        if let Some(chooser) = &chooser {
            let (parts, rows) = (chooser.parts(&config.batch, inputs), config.batch.rows.unwrap_or(0));
            if config.lanes.lanes.width > parts {
                return Err(eciton_recipe::Error::Together {
                    key: "lanes.width",
                    found: config.lanes.lanes.width.to_string(),
                    other: "batch.rows",
                    other_found: format!("{rows}, which makes {parts} micro-batches"),
                    remedy: "reduce the number of replicas (lanes.width), or use more rows per batch",
                }
                .into());
            }
            let (rows, graphs) = chooser.capacity(&config.batch, inputs);
            program.set_apart(parts, rows, graphs);
        }
        let lanes = match config.lanes.lanes.count {
            0 => None,
            _ => Some(placed(config, inputs, &program, threads)?),
        };
        let lowered = program.clone();
        let lanes = lanes.map(|lanes| lanes.gathered(&mut program));
        let evaluation = match lanes.as_ref().filter(|_| config.workers.own()) {
            Some(lanes) => evaluation.on_lanes(&program, lanes, inputs)?,
            None => evaluation,
        };
        let evaluation = evaluation.in_files(folder);
        let sizes = chooser.as_ref().map(|chooser| chooser.sizes(&config.batch, inputs));
        let mut labelled = match program.apart {
            Some(_) => None,
            None => LabelledPlan::new(config, &program, inputs.labelled_edges()),
        };
        let fuse = |program: &Program| -> Result<(FusedStages, Program)> {
            let wanted = lanes.as_ref().map(|lanes| lanes.spans(program));
            let spans = FusedStages::from_program(program, wanted.as_ref().unwrap_or(&config.executor.fuse))?;
            let spans = match &lanes {
                Some(lanes) => lanes.recompute(program, spans, &config.lanes)?,
                None => spans,
            };
            let mut schedule = spans.fuse(program);
            if let Some(lanes) = &lanes {
                lanes.place(&mut schedule, &spans);
            }
            if config.sums_stay() {
                schedule.keep_rows();
            }
            if chooser.is_some() {
                schedule.sample();
            }
            Ok((spans, schedule))
        };
        let placed = lanes.is_some().then(|| fuse(&program)).transpose()?;
        let plan = |labelled| {
            let (program, evaluation) = (&program, &evaluation);
            let lanes = placed.as_ref().map(|(spans, schedule)| (spans, schedule));
            memory::memory_plan(&memory::Wanted {
                inputs,
                program,
                evaluation,
                config,
                threads,
                sizes: sizes.as_ref(),
                labelled,
                lanes,
            })
        };
        let mut memory = plan(labelled.as_ref());
        let fits = |memory: &MemoryPlan| memory::check(memory, config.run.memory_bytes).is_ok();
        if labelled.is_some() && LabelledPlan::is_optional(config) && !fits(&memory) {
            // Gathers with fewer edges save time, but need more memory.
            (labelled, memory) = (None, plan(None));
        }
        if let Some(labelled) = &labelled {
            program.reach(&labelled.stages);
        }
        let mut opened = layers.into_inner().into_iter();
        let kernels = program.operations.iter().map(|operation| {
            let kernel = operation.signature.is_some();
            kernel.then(|| opened.next()).flatten()
        });
        let (spans, schedule) = fuse(&program)?;
        Ok(Self {
            layers: kernels.collect(),
            lowered,
            program,
            spans,
            schedule,
            evaluation,
            chooser,
            labelled,
            memory,
        })
    }

    /// Returns the program that the engine schedules for evaluations.
    pub(crate) fn evaluation_schedule(&self) -> &Program {
        &self.evaluation.schedule
    }

    /// Returns true if the estimated memory does not exceed `run.memory_bytes`, or the available
    /// memory if this is not set.
    fn fits(&self, config: &Config) -> bool {
        memory::check(&self.memory, config.run.memory_bytes).is_ok()
    }
}

/// Returns the summation tree for gradients, with the tree nodes of each interval or micro-batch.
pub(super) fn sums(config: &Config, inputs: &Inputs, chooser: Option<&Chooser>, intervals: u32) -> Sums {
    match chooser {
        Some(Chooser::Rows) => Sums::of_runs(RowBatches::new(&config.batch, inputs).sums()),
        Some(_) => Sums::of_parts(intervals),
        None => Sums::of_intervals(&inputs.intervals, inputs.atoms.tree()),
    }
}

/// Assigns stages to lanes. If `lanes.profile` is set, the pipeline planner decides from measured
/// times. Otherwise the estimated work decides.
fn placed(config: &Config, inputs: &Inputs, program: &Program, threads: u32) -> Result<Placement> {
    let placed = Placement::from_program(program, &config.lanes, !config.executor.kind.has_workers())?;
    let Some(path) = &config.lanes.profile else { return Ok(placed) };
    let profile = crate::logs::read_profile(std::path::Path::new(path))?;
    let (rows, parts) = parts(config, inputs, program);
    let planning = Planning { program, profile: &profile, stored: inputs.stored(), rows, parts, threads };
    Ok(Placement::planned(program, &planning.own(config)?.plan))
}

/// Returns the number of rows per update (optimiser step), and the number of micro-batches or
/// intervals that these rows are divided into.
pub(crate) fn parts(config: &Config, inputs: &Inputs, program: &Program) -> (u32, u32) {
    let rows = config.batch.rows.unwrap_or(inputs.shape.rows).min(inputs.shape.rows);
    // The cast is lossless, because the number of intervals is limited.
    let whole = inputs.intervals.len() as u32;
    (rows, program.apart.unwrap_or(whole))
}

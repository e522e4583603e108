//! Evaluations. An evaluation is a forward pass over all rows, after which scores or embeddings may
//! remain in memory.
//!
//! If no row depends on another row, the whole forward pass is one fused stage. It runs on short
//! row ranges (pieces), whose activations are released at once. Only the results that a caller
//! needs remain in memory. If the caller needs no scores, the scores of each piece are added to the
//! metric as soon as they are computed ([`Fold`]). This does not change any result.

mod sampled;

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use eciton_engine::{Engine, MAX_INTERVALS};
use eciton_graph::dataset::Split;
use eciton_graph::metrics::{Folded, Terms};
use eciton_kernel::Layer;
use eciton_planner::Placement;
use eciton_program::{FusedStages, Program};
use eciton_recipe::{
    Config, EvaluationMethod, FusionChoice, Lanes, Metric, Part, Pipeline, RowFormat, TaskType,
};
use eciton_tensor::Buffer;
use eciton_types::Round;

use self::sampled::SamplePlan;
pub(crate) use self::sampled::Sampled;
use crate::batch::PartSizes;
use crate::data::{Inputs, Interval};
use crate::driver::{Fold, Results, RowStore, Stages, open_stages};
use crate::error::{Error, Result};
use crate::hosts::Exchange;
use crate::options::Options;

/// Approximate number of rows per piece. A piece is a short row range that replaces a longer
/// interval. It is long enough for matrix products to be efficient.
const PIECE_ROWS: u32 = 1024;
/// Maximum number of pieces in flight per thread. One is computed while the others wait.
const PIECES_A_THREAD: u32 = 4;

/// Results that a caller needs from an evaluation in addition to the metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    Nothing,
    /// The results that are written to a run folder.
    Folder,
    /// All results, because the caller decides later which of them it reads.
    Anything,
    /// The scores of all rows, and the embeddings if the options select them.
    Scores,
}

/// Results that remain in memory after an evaluation. For link prediction, the scores are the
/// embeddings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Keeps {
    pub scores: bool,
    /// True if the inputs of the last layer (embeddings) remain in memory. The scores then remain
    /// too.
    pub embeddings: bool,
    /// True if images are split into strips. The output of each stage must then remain after its
    /// step, because the strips are parallel steps.
    pub strips: bool,
}

impl Keeps {
    /// Decides which results must remain in memory for a caller that needs `asked`.
    pub(crate) fn decide(asked: Asked, options: &Options, config: &Config, inputs: &Inputs) -> Self {
        let never = config.evaluation.method == EvaluationMethod::None;
        let (asks, strips) = (options.scores || options.embeddings, options.strips.is_some());
        match asked {
            _ if never => Self { scores: false, embeddings: false, strips },
            Asked::Nothing => Self { scores: false, embeddings: false, strips },
            Asked::Folder => {
                Self { scores: asks || !has_tokens(inputs), embeddings: options.embeddings, strips }
            }
            Asked::Anything => Self { scores: !has_tokens(inputs), embeddings: !has_tokens(inputs), strips },
            Asked::Scores => Self { scores: true, embeddings: options.embeddings, strips },
        }
    }
}

/// Returns true if rows are tokens of sequences. Scores of such rows are not stored by default,
/// because each row has a score for every token of the vocabulary.
pub(crate) fn has_tokens(inputs: &Inputs) -> bool {
    let shape = &inputs.shape;
    shape.group > 1 && shape.features == 1 && inputs.task == TaskType::Classification
}

/// Plan of an evaluation, which is made before memory is allocated. It has the program, the
/// schedule and the row ranges.
#[derive(Debug)]
pub(crate) struct EvaluationPlan {
    pub program: Program,
    pub spans: FusedStages,
    /// Program that the engine schedules, in which each fused stage is one stage.
    pub schedule: Program,
    /// Short row ranges that replace the intervals. `None` if the intervals are used.
    pieces: Option<Vec<Interval>>,
    pub keeps: Keeps,
    folded: Option<Folded>,
    /// Rows on which the metric is computed, if these are not all rows of the split.
    limited: Option<Split>,
    /// True if the stages run on lanes (shares of the pipeline) of workers that own the weights.
    placed: bool,
    /// Folder of the files with the rows of all vertices. `None` if they are in memory.
    folder: Option<PathBuf>,
    /// Micro-batches of an evaluation on samples. `None` if it reads all rows at once.
    samples: Option<SamplePlan>,
    /// True if the run is never evaluated.
    never: bool,
}

impl EvaluationPlan {
    /// Plans the evaluation of the model that the program `training` trains.
    pub(crate) fn new(training: &Program, config: &Config, inputs: &Inputs, keeps: Keeps) -> Result<Self> {
        let program = training.evaluation();
        let program = if keeps.embeddings { program } else { program.without_embeddings() };
        let kind = config.executor.kind;
        // Workers run only the tasks of lanes.
        let local = kind.is_here() || kind.has_workers() && config.lanes.lanes.count > 0;
        // If no row reads another, only scores need to remain after the step of an interval.
        let alone = program.relations.is_empty()
            && !keeps.strips
            && (local || config.executor.rows != RowFormat::Bf16);
        let spans = FusedStages::from_program(
            &program,
            if alone { &FusionChoice::Auto } else { &FusionChoice::None },
        )?;
        let schedule = spans.fuse(&program);
        // A task on a function has all rows of an interval, so that requests are few and large.
        let passes = alone && local && spans.as_slice().len() == 1;
        let folded = match passes && !keeps.scores && inputs.links.is_none() {
            true => folded(inputs),
            false => None,
        };
        let pieces = if passes { pieces(inputs) } else { None };
        let (limited, placed, folder, samples) = (None, false, None, None);
        let never = config.evaluation.method == EvaluationMethod::None;
        Ok(Self { program, spans, schedule, pieces, keeps, folded, limited, placed, folder, samples, never })
    }

    /// Changes the plan to an evaluation on samples, if `config` selects it. Such an evaluation stores no
    /// embeddings.
    ///
    /// # Errors
    /// Returns [`Error::Batch`] if the model gathers no rows in evaluations.
    pub(crate) fn on_samples(mut self, config: &Config, inputs: &Inputs) -> Result<Self> {
        if config.evaluation.method != EvaluationMethod::Sampled {
            return Ok(self);
        }
        self.keeps.embeddings = false;
        self.program = self.program.without_embeddings();
        self.samples = Some(SamplePlan::new(&mut self.program, config, inputs, self.keeps.scores)?);
        self.spans = FusedStages::from_program(&self.program, &FusionChoice::None)?;
        self.schedule = self.spans.fuse(&self.program);
        self.schedule.sample();
        (self.pieces, self.folded) = (None, None);
        Ok(self)
    }

    /// Returns the micro-batches per round of an evaluation on samples, or else the number of row
    /// ranges.
    pub(crate) fn steps(&self, inputs: &Inputs) -> u32 {
        let intervals = || u32::try_from(self.intervals(inputs).len()).unwrap_or(u32::MAX);
        self.samples.as_ref().map_or_else(intervals, SamplePlan::parts)
    }

    /// Returns true if the run is never evaluated, so that an evaluation needs no memory.
    pub(crate) fn is_never(&self) -> bool {
        self.never
    }

    /// Returns the sizes of the micro-batches of an evaluation on samples.
    pub(crate) fn part_sizes(&self) -> Option<&PartSizes> {
        self.samples.as_ref().map(SamplePlan::sizes)
    }

    /// Returns the size in bytes of the micro-batches and scores of an evaluation on samples.
    pub(crate) fn sampled_bytes(&self, inputs: &Inputs) -> u64 {
        self.samples.as_ref().map_or(0, |samples| samples.bytes(inputs))
    }

    /// Changes the plan so that the rows of all vertices are in files of `folder`, if rows remain
    /// after their step.
    pub(crate) fn in_files(mut self, folder: Option<PathBuf>) -> Self {
        self.folder = folder.filter(|_| !self.folds() && !self.placed && self.samples.is_none());
        self
    }

    /// Returns the folder of the files with the rows of all vertices. Returns `None` if they are in
    /// memory.
    pub(crate) fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// Changes the plan so that the stages run on the lanes (shares of the pipeline) of a training
    /// whose workers own the weights.
    pub(crate) fn on_lanes(mut self, training: &Program, lanes: &Placement, inputs: &Inputs) -> Result<Self> {
        let lanes = lanes.following(training, &self.program).gathered(&mut self.program);
        self.spans = FusedStages::from_program(&self.program, &lanes.spans(&self.program))?;
        self.schedule = self.spans.fuse(&self.program);
        lanes.place(&mut self.schedule, &self.spans);
        self.pieces = if self.program.relations.is_empty() { pieces(inputs) } else { None };
        (self.folded, self.placed) = (None, true);
        Ok(self)
    }

    /// Changes the plan so that the steps are those of the training's intervals, which are divided
    /// among several hosts.
    pub(crate) fn on_hosts(mut self) -> Self {
        (self.pieces, self.folded) = (None, None);
        self
    }

    /// Plans the evaluations during a training if they are limited to a part of the split or to some
    /// rows (`run.eval_split` and `run.eval_rows`). Only the pieces with these rows are computed.
    /// Returns `None` if evaluations are not limited.
    ///
    /// # Errors
    /// Returns [`Error::Limited`] if the rows cannot be evaluated without all others.
    pub(crate) fn limited(training: &Program, config: &Config, inputs: &Inputs) -> Result<Option<Self>> {
        let (part, most) = (config.run.eval_split, config.run.eval_rows);
        if part.is_none() && most.is_none() {
            return Ok(None);
        }
        let keeps = Keeps { scores: false, embeddings: false, strips: false };
        let plan = Self::new(training, config, inputs, keeps)?;
        if plan.folded.is_none() || config.workers.own() {
            let reason = match () {
                () if config.workers.own() => "workers own the weights",
                () if !training.relations.is_empty() => "rows of the model read other rows",
                () if inputs.links.is_some() => "links are compared with each other",
                () if folded(inputs).is_none() => "the metric compares the scores of all rows",
                () => "the model has stages that do not fit into one task",
            };
            return Err(Error::Limited { reason });
        }
        let of = |this: Part, ids: &[u32]| {
            let mut ids = ids.to_vec();
            ids.sort_unstable();
            ids.truncate(most.map_or(usize::MAX, |most| most as usize));
            if part.is_none_or(|part| part == this) { ids } else { Vec::new() }
        };
        let split = inputs.learnt().1;
        let split = Split {
            train: of(Part::Train, &split.train),
            validation: of(Part::Validation, &split.validation),
            test: of(Part::Test, &split.test),
        };
        let (rows, group) = (inputs.shape.rows, inputs.shape.group.max(1));
        let each = PIECE_ROWS.next_multiple_of(group);
        let firsts: BTreeSet<u32> = [&split.train, &split.validation, &split.test]
            .into_iter()
            .flatten()
            .map(|id| id - id % each)
            .collect();
        let piece = |first: u32| piece(inputs, first as usize..first.saturating_add(each).min(rows) as usize);
        let pieces = Some(firsts.into_iter().map(piece).collect::<Vec<_>>());
        let pieces = pieces.filter(|pieces| pieces.len() <= MAX_INTERVALS as usize).or(plan.pieces);
        Ok(Some(Self { pieces, limited: Some(split), ..plan }))
    }

    /// Returns true if the metric is computed on some rows of the split only.
    pub(crate) fn is_limited(&self) -> bool {
        self.limited.is_some()
    }

    /// Returns the row ranges of the evaluation's steps. These are short pieces, or the intervals
    /// of the inputs.
    pub(crate) fn intervals<'a>(&'a self, inputs: &'a Inputs) -> &'a [Interval] {
        self.pieces.as_deref().unwrap_or(&inputs.intervals)
    }

    /// Returns true if the scores of all rows remain in memory after the evaluation. If
    /// `embeddings` is true, the embeddings must remain too.
    pub(crate) fn holds(&self, embeddings: bool) -> bool {
        self.folded.is_none() && (self.keeps.embeddings || !embeddings)
    }

    /// Returns true if scores are added to the metric and not stored.
    pub(crate) fn folds(&self) -> bool {
        self.folded.is_some()
    }

    /// Returns true if the stages run on lanes (shares of the pipeline) of workers that own the
    /// weights.
    pub(crate) fn is_placed(&self) -> bool {
        self.placed
    }

    /// Returns the number of rows of the evaluation's longest step.
    pub(crate) fn longest(&self, inputs: &Inputs) -> u64 {
        self.intervals(inputs).iter().map(|interval| interval.rows.len() as u64).max().unwrap_or(0)
    }

    /// Returns the maximum number of steps in flight. Returns `None` if the number is not limited.
    pub(crate) fn in_flight(&self, threads: u32) -> Option<u32> {
        (self.folds() || self.folder.is_some()).then(|| threads.saturating_mul(PIECES_A_THREAD).max(1))
    }

    /// Returns the size in bytes of the scores in flight and of the accumulated metric. Returns 0
    /// if scores are stored.
    pub(crate) fn folded_bytes(&self, inputs: &Inputs, threads: u32) -> u64 {
        let Some(terms) = self.folded.and_then(|metric| Terms::new(metric, inputs.learnt().0, 0)) else {
            return 0;
        };
        let places = self.in_flight(threads).unwrap_or(0).min(self.intervals(inputs).len() as u32);
        let row = Buffer::row_bytes(inputs.shape.classes as usize) as u64;
        u64::from(places) * self.longest(inputs) * row + terms.row_bytes() * u64::from(inputs.shape.rows)
    }

    /// Creates the stages of the evaluation, which use the row store `rows`.
    pub(crate) fn stages<'a>(
        &'a self,
        inputs: &'a Inputs,
        (rows, layers): (&'a RowStore, &'a [Option<Arc<Layer>>]),
        (exchange, sampled): (Option<&'a Exchange>, Option<&'a Sampled>),
    ) -> Result<Stages<'a>> {
        let results = match (sampled, self.folded) {
            (Some(sampled), _) => Results::Sampled(sampled),
            (None, Some(metric)) => Results::Folded(Fold::new(metric, inputs, self.limited.clone())?),
            (None, None) => Results::Rows,
        };
        let stages = open_stages(&self.program, inputs, rows, layers, None)?;
        let stages = stages.with_spans(&self.spans, &self.schedule).with_places(self.placed);
        let stages = stages.with_hosts(exchange).with_batches(sampled.map(Sampled::batches));
        Ok(stages.with_pieces(self.pieces.as_deref()).with_results(results))
    }
}

/// Returns the metric in a form that can be accumulated row by row. Returns `None` if there is no
/// such form, or if it would need as much memory as the scores.
fn folded(inputs: &Inputs) -> Option<Folded> {
    let metric = match inputs.metric {
        Metric::Accuracy => Folded::Accuracy,
        Metric::F1Micro => Folded::F1Micro,
        Metric::F1Macro => Folded::F1Macro,
        Metric::BalancedAccuracy => Folded::BalancedAccuracy,
        Metric::CrossEntropy => Folded::CrossEntropy,
        Metric::RocAuc
        | Metric::AveragePrecision
        | Metric::MeanAbsoluteError
        | Metric::RootMeanSquaredError
        | Metric::Hits10
        | Metric::Hits20
        | Metric::Hits50
        | Metric::Hits100
        | Metric::MeanReciprocalRank => return None,
    };
    Terms::new(metric, inputs.learnt().0, 0).map(|_| metric)
}

/// Divides all rows into pieces of about [`PIECE_ROWS`] rows that do not split sequences. Returns
/// `None` if no interval is longer than that.
fn pieces(inputs: &Inputs) -> Option<Vec<Interval>> {
    let (rows, group) = (inputs.shape.rows, inputs.shape.group.max(1));
    let each = PIECE_ROWS.max(rows.div_ceil(MAX_INTERVALS)).next_multiple_of(group);
    let longest = inputs.intervals.iter().map(|interval| interval.rows.len()).max().unwrap_or(0);
    let firsts = (0..rows).step_by(each.max(1) as usize);
    let piece = |first: u32| piece(inputs, first as usize..first.saturating_add(each).min(rows) as usize);
    (longest > each as usize).then(|| firsts.map(piece).collect())
}

/// Returns an interval with the given rows for a forward pass, which needs no sums and no loss
/// targets.
fn piece(inputs: &Inputs, rows: Range<usize>) -> Interval {
    Interval::without_labels(rows.clone(), inputs.vertices.numbers(rows))
}

/// An evaluation that is ready to run, with its plan, its row store and its engine.
#[derive(Debug)]
pub(crate) struct Evaluation {
    pub plan: EvaluationPlan,
    pub rows: RowStore,
    pub engine: Engine,
    /// Exchange with the other hosts. `None` in a run on one host.
    pub exchange: Option<Exchange>,
    /// Micro-batches and scores of an evaluation on samples.
    pub sampled: Option<Sampled>,
}

impl Evaluation {
    /// Allocates the row store and the engine of an evaluation. `settings` are the engine settings
    /// of the training. `others` are row stores that are not in use meanwhile, so their buffers are
    /// reused.
    pub(crate) fn new(
        mut plan: EvaluationPlan,
        inputs: &Inputs,
        ((settings, threads), lanes): ((eciton_engine::Settings, u32), Lanes),
        format: RowFormat,
        others: &[&RowStore],
    ) -> Result<Self> {
        let settings = eciton_engine::Settings {
            first: Round(1),
            last: Round(1),
            pipeline: Pipeline::default(),
            lanes,
            in_flight: plan.in_flight(threads),
            only_host_steps: false,
            eval_every: 1,
            intervals: plan.steps(inputs),
            ..settings
        };
        let engine = Engine::new(&plan.schedule, settings)?;
        let samples = plan.samples.take();
        let cut = match &samples {
            Some(samples) => samples.cut(),
            None => inputs.cut(plan.intervals(inputs)),
        };
        let rows = match (plan.folds(), plan.program.scores) {
            (true, Some(scores)) => RowStore::passing(scores, inputs.shape.classes, cut, format),
            (true, None) => return Err(Error::Internal("the evaluation computes no scores".to_owned())),
            (false, _) => {
                let rings = (&Pipeline::default(), &Lanes::default());
                RowStore::new(&plan.schedule, cut, rings, format, (others, inputs.own_rows(), plan.folder()))?
            }
        };
        let sampled = samples.map(|samples| Sampled::new(samples, inputs)).transpose()?;
        Ok(Self { plan, rows, engine, exchange: None, sampled })
    }
}

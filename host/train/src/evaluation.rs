//! An evaluation: the forward program as a session runs it, and what outlasts its passes.
//!
//! Where no row reads another's, a whole pass is one span: an interval's rows come, are computed
//! and go, in pieces of few rows. What outlasts it is what somebody reads: scores of all rows, what
//! the last layer reads, or neither. Then each piece's scores are folded into the metric when they
//! come ([`Fold`]), and no result changes.

use std::ops::Range;
use std::sync::Arc;

use eciton_engine::{Engine, MAX_INTERVALS};
use eciton_graph::metrics::{Folded, Terms};
use eciton_kernel::{Layer, Targets};
use eciton_plan::{
    Config, Lanes, Metric, Pipeline, Placement, Program, Round, RowFormat, SpanChoice, Spans, TaskType,
};
use eciton_tensor::{Buffer, Grid};

use crate::data::{Inputs, Interval};
use crate::driver::{Fold, RowStore, Stages};
use crate::error::{Error, Result};
use crate::session::Options;

/// Rows of a piece at most, in whole sequences: as many as keep a product busy.
const PIECE_ROWS: u32 = 1024;
/// Pieces under way for each thread: one is computed, the others wait for the thread or for the
/// driver.
const PIECES_A_THREAD: u32 = 4;

/// What will be asked of a session's evaluations besides their metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    Nothing,
    /// What a run folder gets.
    Folder,
    /// Whatever the caller likes, later.
    Anything,
    /// Scores, and what options say.
    Scores,
}

/// What outlasts an evaluation; of links scores are the embeddings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Keeps {
    pub scores: bool,
    /// Then scores as well.
    pub embeddings: bool,
    /// What each stage makes, for its step: strips of an image are steps side by side.
    pub strips: bool,
}

impl Keeps {
    pub(crate) fn of(asked: Asked, options: &Options, inputs: &Inputs) -> Self {
        let (asks, strips) = (options.scores || options.embeddings, options.strips.is_some());
        match asked {
            Asked::Nothing => Self { scores: false, embeddings: false, strips },
            Asked::Folder => {
                Self { scores: asks || !has_tokens(inputs), embeddings: options.embeddings, strips }
            }
            Asked::Anything => Self { scores: !has_tokens(inputs), embeddings: !has_tokens(inputs), strips },
            Asked::Scores => Self { scores: true, embeddings: options.embeddings, strips },
        }
    }
}

/// Returns whether rows are tokens of sequences, each of which has a score for every token there
/// is.
pub(crate) fn has_tokens(inputs: &Inputs) -> bool {
    let shape = &inputs.shape;
    shape.group > 1 && shape.features == 1 && inputs.task == TaskType::Classification
}

/// An evaluation as far as it is known before memory for it is allocated.
#[derive(Debug)]
pub(crate) struct EvaluationPlan {
    pub program: Program,
    pub spans: Spans,
    /// What the engine schedules: the spans as stages.
    pub schedule: Program,
    /// Pieces in the place of intervals, where these are longer.
    pieces: Option<Vec<Interval>>,
    pub keeps: Keeps,
    folded: Option<Folded>,
    /// Lanes do its stages, on workers that own the weights.
    placed: bool,
}

impl EvaluationPlan {
    pub(crate) fn new(training: &Program, config: &Config, inputs: &Inputs, keeps: Keeps) -> Result<Self> {
        let program = training.evaluation();
        let program = if keeps.embeddings { program } else { program.without_embeddings() };
        let kind = config.executor.kind;
        // Workers do the tasks of lanes alone.
        let local = kind.is_here() || kind.has_workers() && config.lanes.lanes.count > 0;
        // Where no row reads another, nothing but scores need outlast an interval's turn.
        let alone = program.relations.is_empty()
            && !keeps.strips
            && (local || config.executor.rows != RowFormat::Bf16);
        let spans = Spans::of(&program, if alone { &SpanChoice::Auto } else { &SpanChoice::None })?;
        let schedule = spans.fuse(&program);
        // A function's task has its interval's rows: fewer, larger requests.
        let passes = alone && local && spans.as_slice().len() == 1;
        let folded = match passes && !keeps.scores && inputs.links.is_none() {
            true => folded(inputs),
            false => None,
        };
        let pieces = if passes { pieces(inputs) } else { None };
        Ok(Self { program, spans, schedule, pieces, keeps, folded, placed: false })
    }

    /// The same on the lanes of a training, whose workers own the weights.
    pub(crate) fn on_lanes(mut self, training: &Program, lanes: &Placement, inputs: &Inputs) -> Result<Self> {
        let lanes = lanes.following(training, &self.program).gathered(&mut self.program);
        self.spans = Spans::of(&self.program, &lanes.spans(&self.program))?;
        self.schedule = self.spans.fuse(&self.program);
        lanes.place(&mut self.schedule, &self.spans);
        self.pieces = if self.program.relations.is_empty() { pieces(inputs) } else { None };
        (self.folded, self.placed) = (None, true);
        Ok(self)
    }

    /// What its steps are of.
    pub(crate) fn intervals<'a>(&'a self, inputs: &'a Inputs) -> &'a [Interval] {
        self.pieces.as_deref().unwrap_or(&inputs.intervals)
    }

    /// Returns whether scores of all rows are there after a pass, and, where they are wanted,
    /// embeddings.
    pub(crate) fn holds(&self, embeddings: bool) -> bool {
        self.folded.is_none() && (self.keeps.embeddings || !embeddings)
    }

    /// Returns whether scores are folded into the metric.
    pub(crate) fn folds(&self) -> bool {
        self.folded.is_some()
    }

    /// Returns whether workers' lanes run all of its stages.
    pub(crate) fn is_placed(&self) -> bool {
        self.placed
    }

    /// Most rows of a step.
    pub(crate) fn longest(&self, inputs: &Inputs) -> u64 {
        self.intervals(inputs).iter().map(|interval| interval.rows.len() as u64).max().unwrap_or(0)
    }

    /// Steps under way at most; `None`: all.
    fn in_flight(&self, threads: u32) -> Option<u32> {
        self.folds().then(|| threads.saturating_mul(PIECES_A_THREAD).max(1))
    }

    /// Bytes of the scores that are under way, and of the terms that are left of them.
    pub(crate) fn folded_bytes(&self, inputs: &Inputs, threads: u32) -> u64 {
        let Some(terms) = self.folded.and_then(|metric| Terms::new(metric, inputs.learnt().0, 0)) else {
            return 0;
        };
        let places = self.in_flight(threads).unwrap_or(0).min(self.intervals(inputs).len() as u32);
        let row = Buffer::row_bytes(inputs.shape.classes as usize) as u64;
        u64::from(places) * self.longest(inputs) * row + terms.row_bytes() * u64::from(inputs.shape.rows)
    }

    /// Its stages on rows of a store.
    pub(crate) fn stages<'a>(
        &'a self,
        inputs: &'a Inputs,
        rows: &'a RowStore,
        layers: &'a [Option<Arc<Layer>>],
    ) -> Result<Stages<'a>> {
        let fold = self.folded.map(|metric| Fold::new(metric, inputs)).transpose()?;
        let stages = Stages::new(&self.program, inputs, rows, layers, None)?;
        let stages = stages.with_spans(&self.spans, &self.schedule).with_places(self.placed);
        Ok(stages.with_pieces(self.pieces.as_deref()).with_fold(fold))
    }
}

/// The metric as what is left of each row's scores; `None` where that is no less than they are.
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

/// Whole sequences of about [`PIECE_ROWS`] rows; `None` where intervals have no more.
fn pieces(inputs: &Inputs) -> Option<Vec<Interval>> {
    let (rows, group) = (inputs.shape.rows, inputs.shape.group.max(1));
    let each = PIECE_ROWS.max(rows.div_ceil(MAX_INTERVALS)).next_multiple_of(group);
    let longest = inputs.intervals.iter().map(|interval| interval.rows.len()).max().unwrap_or(0);
    let firsts = (0..rows).step_by(each.max(1) as usize);
    let piece = |first: u32| piece(inputs, first as usize..first.saturating_add(each).min(rows) as usize);
    (longest > each as usize).then(|| firsts.map(piece).collect())
}

/// Rows of a forward pass: nothing is summed over them or compared with them.
fn piece(inputs: &Inputs, rows: Range<usize>) -> Interval {
    Interval {
        numbers: inputs.vertices.numbers(rows.clone()),
        grid: Arc::new(Grid::single(rows.len())),
        nodes: Vec::new(),
        targets: Targets::Classes(Arc::default()),
        training: Arc::default(),
        row_weights: None,
        rows,
    }
}

/// An evaluation that is ready to start.
#[derive(Debug)]
pub(crate) struct Evaluation {
    pub plan: EvaluationPlan,
    pub rows: RowStore,
    pub engine: Engine,
}

impl Evaluation {
    /// `settings` are those of training. Buffers of `others` are used again.
    pub(crate) fn new(
        plan: EvaluationPlan,
        inputs: &Inputs,
        ((settings, threads), lanes): ((eciton_engine::Settings, u32), Lanes),
        format: RowFormat,
        others: &[&RowStore],
    ) -> Result<Self> {
        let intervals = plan.intervals(inputs);
        let settings = eciton_engine::Settings {
            first: Round(1),
            last: Round(1),
            pipeline: Pipeline::default(),
            lanes,
            in_flight: plan.in_flight(threads),
            only_host_steps: false,
            eval_every: 1,
            intervals: u32::try_from(intervals.len()).unwrap_or(u32::MAX),
            ..settings
        };
        let engine = Engine::new(&plan.schedule, settings)?;
        let cut = |intervals: &[Interval]| intervals.iter().map(|interval| interval.rows.clone()).collect();
        let cut = vec![cut(intervals), cut(&inputs.graphs)];
        let rows = match (plan.folds(), plan.program.scores) {
            (true, Some(scores)) => RowStore::passing(scores, inputs.shape.classes, cut, format),
            (true, None) => return Err(Error::Internal("an evaluation without scores".to_owned())),
            (false, _) => {
                RowStore::new(&plan.schedule, cut, (&Pipeline::default(), &Lanes::default()), format, others)?
            }
        };
        Ok(Self { plan, rows, engine })
    }
}

//! Lanes: each lane runs some of a program's stages, one step at a time.
//!
//! A *replica* is a pipeline of `depth` lanes. `width` replicas share a round's intervals in runs
//! ([`Lanes::run`]). Each replica therefore has whole nodes of the gradient tree, as far as the
//! tree allows. Lane l of replica r has the number `r depth + l`. Gradients of all intervals are
//! added along one tree (`combine`). Neither number therefore changes a bit if a round reads one
//! version of the weights.
//!
//! [`crate::policy`] has the order in which a lane runs its steps, and the cap on its intervals. A
//! lane has one run of stages, or several ([`Lanes::chunks`]): run k of a replica is on lane k mod
//! depth.

mod runs;

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::executor::SpanChoice;
use crate::ids::StageId;
use crate::op::{batch_norm, pair_norm};
use crate::planner::Plan;
use crate::policy::Order;
use crate::program::{Phase, Place, Program, Scope, Stage};
use crate::span::Spans;

/// Maximum number of lanes.
pub const MAX_LANES: u32 = 4096;

/// Number of lanes and the order of their steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Lanes {
    /// Number of lanes of all replicas together. If 0, there are no lanes, and any thread runs any
    /// step.
    pub count: u32,
    /// Number of replicas of the pipeline.
    pub width: u32,
    /// Order in which a lane runs its steps.
    pub order: Order,
    /// Cap on intervals in flight on a lane. If `None`, the order determines it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cap: Option<u32>,
    /// Number of runs of stages on a lane. If `None`, the order determines it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunks: Option<u32>,
}

impl Default for Lanes {
    fn default() -> Self {
        Self { count: 0, width: 1, order: Order::default(), cap: None, chunks: None }
    }
}

impl Lanes {
    /// Returns the number of lanes of one replica.
    #[must_use]
    pub const fn depth(&self) -> u32 {
        match self.count.checked_div(self.width) {
            Some(depth) => depth,
            None => self.count,
        }
    }

    /// Returns the number of runs of stages of one replica.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.depth() as usize * self.chunks() as usize
    }

    /// Returns the replica of an interval: `interval width / intervals`. `intervals` is the number
    /// of intervals of all replicas.
    #[must_use]
    pub fn replica(&self, interval: u32, intervals: u32) -> u32 {
        let at = u64::from(interval) * u64::from(self.width) / u64::from(intervals.max(1));
        // Below the width.
        u32::try_from(at).unwrap_or(u32::MAX).min(self.width.saturating_sub(1))
    }

    /// Returns the intervals of a replica. `intervals` is the number of intervals of all replicas.
    /// The numbers of two replicas differ by at most one.
    #[must_use]
    pub fn run(&self, replica: u32, intervals: u32) -> Range<u32> {
        let width = u64::from(self.width.max(1));
        let first = |replica: u64| (replica * u64::from(intervals)).div_ceil(width);
        // At most `intervals`.
        first(replica.into()) as u32..first(u64::from(replica) + 1) as u32
    }
}

/// `[lanes]`
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LaneSettings {
    /// Number of lanes and the order of their steps.
    #[serde(flatten)]
    pub lanes: Lanes,
    /// First layer of each run of stages of a replica, from 0. If empty, the runs are cut so that
    /// all take equal time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cut: Vec<u32>,
    /// Lanes of a replica whose backward steps recompute the forward rows instead of reading
    /// stashed rows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub recompute: Vec<u32>,
    /// Path of a task profile, by which stages are planned. If `None`, counts of operations are
    /// used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Link bandwidth of each lane in megabits per second, each way, for planners. If `None`, lanes
    /// are on one machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link_mbits: Option<u32>,
}

impl LaneSettings {
    /// Returns true if all settings are the defaults.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Checks that the settings are compatible.
    ///
    /// # Errors
    /// [`Error::Together`] for a width that does not divide the count, or if the number of cuts
    /// differs from the number of runs of a replica. Also for a setting that the order or another
    /// setting excludes.
    pub fn check(&self) -> Result<()> {
        let Lanes { count, width, .. } = self.lanes;
        let refuse = |key, found: String, other, other_found, remedy| {
            Err(Error::Together { key, found, other, other_found, remedy })
        };
        let counted = count.to_string();
        if count == 0 && *self != Self::default() {
            let remedy = "say how many lanes there are: lanes.count, or --lanes";
            return refuse("lanes", "given".to_owned(), "lanes.count", counted, remedy);
        }
        if width == 0 || !count.is_multiple_of(width) {
            let remedy = "let each replica have as many lanes: a width that divides the count";
            return refuse("lanes.width", width.to_string(), "lanes.count", counted, remedy);
        }
        if let Some(profile) = self.profile.as_ref().filter(|_| !self.cut.is_empty()) {
            let remedy = "leave one of both out: a profile says where to cut";
            return refuse("lanes.cut", format!("{:?}", self.cut), "lanes.profile", profile.clone(), remedy);
        }
        let (order, has_chunks) = (self.lanes.order, self.lanes.order.rules().chunks() > 1);
        if let Some(chunks) = self.lanes.chunks.filter(|&chunks| (chunks > 1) != has_chunks) {
            let remedy = match has_chunks {
                true => "take 2 chunks or more, or lanes.order = \"backward-first\" (--schedule 1f1b)",
                false => {
                    "take lanes.order = \"interleaved\" (--schedule interleaved), or leave lanes.chunks out"
                }
            };
            return refuse(
                "lanes.chunks",
                chunks.to_string(),
                "lanes.order",
                order.name().to_owned(),
                remedy,
            );
        }
        if let Some(cap) = self.lanes.cap.filter(|_| has_chunks) {
            let remedy = "leave lanes.cap out: this order needs all micro-batches of its warm-up";
            return refuse("lanes.cap", cap.to_string(), "lanes.order", order.name().to_owned(), remedy);
        }
        let rising = self.cut.windows(2).all(|two| two[0] < two[1]);
        let whole = self.cut.len() == self.lanes.runs() && self.cut.first() == Some(&0) && rising;
        if !self.cut.is_empty() && !whole {
            let remedy = match has_chunks {
                true => {
                    "name the first layer of each run of stages (lanes of a replica times lanes.chunks), ascending \
                         from 0, or leave cut out"
                }
                false => "name the first layer of each lane of a replica, ascending from 0, or leave cut out",
            };
            return refuse("lanes.cut", format!("{:?}", self.cut), "lanes.count", counted, remedy);
        }
        Ok(())
    }
}

/// Returns the key, the description of a stage that lanes cannot run, and the remedy. A lane
/// computes rows of one interval or micro-batch at a time, from rows of the same one.
pub(crate) fn not_on_lanes(program: &Program, stage: &Stage) -> (&'static str, String, &'static str) {
    let operation = program.operations.get(stage.operation.index());
    let layer = operation.map_or(0, |operation| usize::from(operation.layer.0));
    let kind = program.model.layers.get(layer).map_or("", |layer| layer.kind.name());
    let norm = operation.and_then(|operation| match &operation.kernel[..] {
        batch_norm::NAME => Some("batch"),
        pair_norm::NAME => Some("pair"),
        _ => None,
    });
    match norm {
        Some(norm) => (
            "model.norm",
            format!("\"{norm}\" in layer {layer} ({kind})"),
            "such a norm waits for the rows of all intervals or of a whole micro-batch, and lanes compute rows one by \
             one: set norm = \"layer\", \"rms\" or \"l2\", which read one row, or leave lanes out (lanes.count = 0)",
        ),
        None => (
            "model",
            format!("one whose layer {layer} ({kind}) reads rows of other intervals"),
            "lanes run models without a graph: leave lanes out (lanes.count = 0), or have layers that read one row, \
             for instance linear, conv2d or transformer",
        ),
    }
}

/// Assignment of a program's stages to the lanes of a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// For each stage, its run of stages.
    runs: Vec<u16>,
    /// Number of lanes of a replica. Run k is on lane k mod depth.
    depth: u16,
}

impl Placement {
    /// Assigns a program's stages to lanes: forward stages in runs, and backward stages to the run
    /// of the same operation.
    ///
    /// # Errors
    /// [`Error::Together`] for a program with a stage of the host or one that reads rows of other
    /// intervals, or with fewer forward stages than runs. Also for cuts that name layers that the
    /// model does not have.
    pub fn of(program: &Program, settings: &LaneSettings) -> Result<Self> {
        let runs = settings.lanes.runs();
        let refuse = |other, other_found: String, remedy| {
            let found = settings.lanes.count.to_string();
            Err(Error::Together { key: "lanes.count", found, other, other_found, remedy })
        };
        let wide = program.stages.iter().find(|stage| {
            stage.place == Place::Host
                || program.apart.is_none() && stage.reads().any(|(_, scope)| scope == Scope::All)
        });
        if let Some(stage) = wide {
            let (other, found, remedy) = not_on_lanes(program, stage);
            return refuse(other, found, remedy);
        }
        let end = program.loss().map_or(program.stages.len(), StageId::index);
        let firsts = match settings.cut.is_empty() {
            true => balanced(&costs(program, end), runs),
            false => first_stages(program, end, &settings.cut),
        };
        let Some(firsts) = firsts else {
            if !settings.cut.is_empty() {
                let (key, found, other) = ("lanes.cut", format!("{:?}", settings.cut), "model.layers");
                let other_found = format!("{} layers, from 0", program.model.layers.len());
                let remedy =
                    "name the first layer of each lane: a rising list, and each below the number of layers";
                return Err(Error::Together { key, found, other, other_found, remedy });
            }
            let forward = format!("{end} stages forward");
            if settings.lanes.chunks() > 1 {
                let found =
                    format!("{} in each of {} lanes", settings.lanes.chunks(), settings.lanes.depth());
                let remedy = "have at most as many runs of stages (lanes of a replica times lanes.chunks) as the model has \
                     stages forward: fewer lanes or chunks, or more layers";
                let (key, other, other_found) = ("lanes.chunks", "model", forward);
                return Err(Error::Together { key, found, other, other_found, remedy });
            }
            let remedy = "have at most as many lanes of a replica as the model has stages forward";
            return refuse("model", forward, remedy);
        };
        Ok(Self::with(program, end, &firsts, settings.lanes.depth()))
    }

    /// Assigns the stages of a plan, each to the run of its number.
    #[must_use]
    pub fn planned(program: &Program, plan: &Plan) -> Self {
        let end = program.loss().map_or(program.stages.len(), StageId::index);
        let owners = owners(program, end);
        let mut operators: Vec<usize> = owners.iter().copied().take(end).collect();
        operators.sort_unstable();
        operators.dedup();
        let run = |owner: usize| {
            let operator = operators.binary_search(&owner).unwrap_or(0);
            plan.stages.iter().position(|stage| stage.operators.contains(&operator)).unwrap_or(0)
        };
        // A program has at most 2^16 stages.
        Self { runs: owners.iter().map(|&owner| run(owner) as u16).collect(), depth: plan.shape.depth as u16 }
    }

    /// Assigns forward stages up to `end` to runs that start at `firsts`, and the other stages to
    /// the runs of their owners.
    fn with(program: &Program, end: usize, firsts: &[usize], depth: u32) -> Self {
        let forward = |at: usize| firsts.iter().filter(|&&first| first <= at).count().saturating_sub(1);
        // A program has at most 2^16 stages.
        Self {
            runs: owners(program, end).into_iter().map(|at| forward(at) as u16).collect(),
            depth: depth as u16,
        }
    }

    /// Assigns the stages of an evaluation, each to the run of its operation in the training
    /// program.
    #[must_use]
    pub fn following(&self, training: &Program, evaluation: &Program) -> Self {
        let run = |stage: &crate::Stage| {
            let of = training.stages.iter().position(|own| own.operation == stage.operation);
            of.and_then(|at| self.runs.get(at)).copied().unwrap_or(0)
        };
        Self { runs: evaluation.stages.iter().map(run).collect(), depth: self.depth }
    }

    /// Returns a choice of one task for each run of stages in one direction.
    #[must_use]
    pub fn spans(&self, program: &Program) -> SpanChoice {
        let end = program.loss().map_or(program.stages.len(), StageId::index);
        let starts = |at: &usize| *at == 0 || *at == end || self.runs.get(*at) != self.runs.get(at - 1);
        // A program has at most 2^16 stages.
        SpanChoice::Firsts((0..self.runs.len()).filter(starts).map(|at| at as u32).collect())
    }

    /// Makes the lanes of `settings.recompute` recompute forward rows in their backward steps. The
    /// layers before the loss are unchanged. No other lane waits for their rows, so their backward
    /// step would not wait for the forward step.
    ///
    /// # Errors
    /// [`Error::Together`] for a lane that does not exist, or whose layers are several tasks.
    pub fn recompute(&self, program: &Program, spans: Spans, settings: &LaneSettings) -> Result<Spans> {
        let refuse = |other, other_found: String, remedy| {
            let (key, found) = ("lanes.recompute", format!("{:?}", settings.recompute));
            Err(Error::Together { key, found, other, other_found, remedy })
        };
        let depth = settings.lanes.depth();
        if settings.recompute.iter().any(|&lane| lane >= depth) {
            let remedy = "name lanes of one replica, from 0";
            return refuse("lanes.count", format!("{depth} lanes of a replica"), remedy);
        }
        let end = program.loss().map_or(program.stages.len(), StageId::index);
        let run = |at: usize| self.runs.get(spans.as_slice().get(at)?.stages.start).copied();
        let starts = |at: usize| spans.as_slice().get(at).map_or(0, |span| span.stages.start);
        let count = spans.as_slice().len();
        let mut again = Vec::new();
        for backward in (0..count).filter(|&at| starts(at) >= end) {
            let of = run(backward);
            let lane = of.map(|run| u32::from(run % self.depth.max(1)));
            if starts(backward) == end || lane.is_none_or(|lane| !settings.recompute.contains(&lane)) {
                continue;
            }
            let alike = (0..count).filter(|&at| run(at) == of);
            let (forward, back): (Vec<usize>, Vec<usize>) = alike.partition(|&at| starts(at) < end);
            let ([forward], [backward]) = (&forward[..], &back[..]) else {
                let found = format!("lane {} has {} tasks", lane.unwrap_or(0), forward.len() + back.len());
                let remedy = "leave the lane out: one whose layers are not in a row has several tasks, each of \
                              which would compute all again";
                return refuse("model", found, remedy);
            };
            again.push((*backward, *forward));
        }
        Ok(spans.recompute(program, &again))
    }

    /// Sets the placement of a program's fused stages to their lanes.
    pub fn place(&self, fused: &mut Program, spans: &crate::Spans) {
        for (stage, span) in fused.stages.iter_mut().zip(spans.as_slice()) {
            if let Some(&run) = self.runs.get(span.stages.start) {
                let depth = self.depth.max(1);
                (stage.place, stage.chunk) = (Place::Lane(run % depth), run / depth);
            }
        }
    }
}

/// Returns for each stage its owner: the first forward stage, of those before `end`, of the
/// operation to which the stage belongs.
///
/// A backward stage belongs to its own operation. A loss belongs to the operation that computes its
/// scores, and a sum of gradients to that of the stage before it.
pub(crate) fn owners(program: &Program, end: usize) -> Vec<usize> {
    let mut of_operation = vec![None; program.operations.len()];
    let mut owners: Vec<usize> = Vec::with_capacity(program.stages.len());
    for (at, stage) in program.stages.iter().enumerate() {
        let own = of_operation.get_mut(stage.operation.index());
        owners.push(match own {
            Some(of) if at < end => *of.get_or_insert(at),
            Some(Some(of)) => *of,
            _ if stage.phase == Phase::Loss => {
                let writer = |slot: crate::ids::SlotId| {
                    program.slots.get(slot.index()).and_then(|spec| spec.written_by)
                };
                let made = stage.reads().filter_map(|(slot, _)| writer(slot)).map(StageId::index);
                made.filter_map(|made| owners.get(made)).max().copied().unwrap_or(0)
            }
            _ => owners.last().copied().unwrap_or(0),
        });
    }
    owners
}

/// Returns the cost of each forward stage, including its backward stages.
fn costs(program: &Program, end: usize) -> Vec<f64> {
    let forward = program.stages.get(..end).unwrap_or_default();
    let of = |stage: &crate::Stage| stage.cost.flops + stage.cost.feature_flops;
    let back = |operation| -> f64 {
        let stages = program.stages.get(end..).unwrap_or_default().iter();
        stages.filter(|stage| stage.operation == operation).map(of).sum()
    };
    forward.iter().map(|stage| of(stage) + back(stage.operation)).collect()
}

/// Returns the first stage of each of `runs` runs whose largest sum is minimal. Of several such
/// cuts, it is the one whose runs begin earliest. `None` if there are fewer stages than runs.
#[must_use]
pub fn balanced(costs: &[f64], runs: usize) -> Option<Vec<usize>> {
    if runs == 0 || costs.len() < runs {
        return None;
    }
    // For each number of runs and of stages in them: the minimal largest sum, and the first stage
    // of the last run.
    let mut before: Vec<f64> = Vec::with_capacity(costs.len() + 1);
    let mut sums = vec![0.0];
    for cost in costs {
        sums.push(sums.last().copied().unwrap_or(0.0) + cost);
    }
    before.extend(&sums);
    let mut begins = Vec::with_capacity(runs);
    for run in 2..=runs {
        let mut next = vec![f64::INFINITY; costs.len() + 1];
        let mut begin = vec![0; costs.len() + 1];
        for end in run..=costs.len() {
            for first in run - 1..end {
                let most = before[first].max(sums[end] - sums[first]);
                if most < next[end] {
                    (next[end], begin[end]) = (most, first);
                }
            }
        }
        begins.push(begin);
        before = next;
    }
    let mut firsts = vec![0; runs];
    let mut end = costs.len();
    for (run, begin) in begins.iter().enumerate().rev() {
        end = begin[end];
        firsts[run + 1] = end;
    }
    Some(firsts)
}

/// Returns the first forward stage of each of these layers.
fn first_stages(program: &Program, end: usize, layers: &[u32]) -> Option<Vec<usize>> {
    let layer = |at: usize| {
        let stage = program.stages.get(at)?;
        program.operations.get(stage.operation.index()).map(|operation| u32::from(operation.layer.0))
    };
    let first = |&wanted: &u32| (0..end).find(|&at| layer(at).is_some_and(|layer| layer >= wanted));
    let firsts: Vec<usize> = layers.iter().map(first).collect::<Option<_>>()?;
    let mut firsts = firsts;
    if let Some(first) = firsts.first_mut() {
        *first = 0;
    }
    firsts.windows(2).all(|two| two[0] < two[1]).then_some(firsts)
}

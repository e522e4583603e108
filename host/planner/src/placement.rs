//! Placement of a program's stages on lanes. A lane is a worker's share of the pipeline, which runs
//! one step at a time.
//!
//! [`crate::policy`] has the order in which a lane runs its steps, and the cap on its intervals in
//! flight. A lane has one run of stages or several ([`Lanes::chunks`]). Run k of a replica is on
//! lane k mod depth.

mod runs;

use crate::error::{Error, Result};
use crate::plan::Plan;
use eciton_program::fused_stages::FusedStages;
use eciton_program::op::{batch_norm, pair_norm};
use eciton_program::program::{Phase, Place, Program, Scope, Stage};
use eciton_recipe::Error as Refused;
use eciton_recipe::executor::FusionChoice;
use eciton_recipe::lanes::LaneSettings;
use eciton_types::ids::StageId;

/// Explains why lanes cannot run a stage: returns the key of the setting, a description of the
/// stage, and advice. A lane computes the rows of one interval or micro-batch at a time, and reads
/// only rows of the same one.
pub(crate) fn not_on_lanes(program: &Program, stage: &Stage) -> (&'static str, String, &'static str) {
    let operation = program.operations.get(stage.operation.index());
    let layer = operation.map_or(0, |operation| usize::from(operation.layer.0));
    let kind = program.model.layers.get(layer).map_or("", |layer| layer.kind.name());
    match norm_of(program, stage) {
        Some(norm) => (
            "model.norm",
            format!("\"{norm}\" in layer {layer} ({kind})"),
            "set norm = \"layer\", \"rms\" or \"l2\", which normalise each row separately, or set lanes.count = 0: \
             lanes of threads run this norm if batch.rows is set, and lanes of workers do not run it",
        ),
        None => (
            "model",
            format!("a model whose layer {layer} ({kind}) reads rows of other vertices"),
            "use layers that do not read the graph, for instance linear, conv2d or transformer, or set \
             lanes.count = 0: lanes run models without a graph",
        ),
    }
}

/// Returns the name of the norm over all rows that a stage belongs to, if it belongs to one.
fn norm_of(program: &Program, stage: &Stage) -> Option<&'static str> {
    match &program.operations.get(stage.operation.index())?.kernel[..] {
        batch_norm::NAME => Some("batch"),
        pair_norm::NAME => Some("pair"),
        _ => None,
    }
}

/// Assignment of a program's stages to the lanes of a replica. A lane is a worker's share of the
/// pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Run of stages that each stage belongs to. A run is executed on one lane.
    runs: Vec<u16>,
    /// Number of lanes of a replica. Run k is on lane k mod depth.
    depth: u16,
    /// Lanes of a replica that a plan makes recompute their forward rows.
    recompute: Vec<u32>,
}

impl Placement {
    /// Assigns a program's stages to lanes. Forward stages are divided into consecutive runs, and
    /// each backward stage is in the run of the same operation.
    ///
    /// # Errors
    /// Returns [`Error::Together`] in these cases:
    ///
    /// * the program has a stage of the host, or a stage that reads rows of other intervals. If
    ///   `norms` is true, lanes may have norms over the rows of a micro-batch;
    /// * the program has fewer forward stages than there are runs;
    /// * the setting `lanes.cut` names layers that the model does not have.
    pub fn from_program(program: &Program, settings: &LaneSettings, norms: bool) -> Result<Self> {
        let runs = settings.lanes.runs();
        let refuse = |other, other_found: String, remedy| {
            let found = settings.lanes.count.to_string();
            Err(Error::from(Refused::Together { key: "lanes.count", found, other, other_found, remedy }))
        };
        let wide = program.stages.iter().find(|stage| {
            let reads_all = stage.reads().any(|(_, scope)| scope == Scope::All);
            let is_allowed = norms && norm_of(program, stage).is_some();
            stage.place == Place::Host && !is_allowed || program.apart.is_none() && reads_all
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
                    "list the first layer of each lane, in ascending order and below the number of layers";
                return Err(Error::from(Refused::Together { key, found, other, other_found, remedy }));
            }
            let forward = format!("{end} forward stages");
            if settings.lanes.chunks() > 1 {
                let found =
                    format!("{} on each of {} lanes", settings.lanes.chunks(), settings.lanes.depth());
                let remedy = "use fewer lanes or chunks, or more layers: the model must have at least as many forward \
                     stages as a replica has lanes times lanes.chunks";
                let (key, other, other_found) = ("lanes.chunks", "model", forward);
                return Err(Error::from(Refused::Together { key, found, other, other_found, remedy }));
            }
            let remedy = "use fewer lanes, or more layers: the model must have at least as many forward stages as a replica has lanes";
            return refuse("model", forward, remedy);
        };
        Ok(Self::with(program, end, &firsts, settings.lanes.depth()))
    }

    /// Assigns the stages of a program according to a plan.
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
        let depth = plan.shape.depth.max(1);
        let again = (0..).zip(&plan.stages).filter(|(_, stage)| stage.recompute);
        Self {
            runs: owners.iter().map(|&owner| run(owner) as u16).collect(),
            depth: depth as u16,
            recompute: again.map(|(run, _): (u32, _)| run % depth).collect(),
        }
    }

    /// Assigns forward stages up to `end` to runs that start at `firsts`. Each of the other stages
    /// is assigned to the run of its owner.
    fn with(program: &Program, end: usize, firsts: &[usize], depth: u32) -> Self {
        let forward = |at: usize| firsts.iter().filter(|&&first| first <= at).count().saturating_sub(1);
        // A program has at most 2^16 stages.
        Self {
            runs: owners(program, end).into_iter().map(|at| forward(at) as u16).collect(),
            depth: depth as u16,
            recompute: Vec::new(),
        }
    }

    /// Assigns the stages of an evaluation program. Each is in the run of its operation in the
    /// training program.
    #[must_use]
    pub fn following(&self, training: &Program, evaluation: &Program) -> Self {
        let run = |stage: &eciton_program::Stage| {
            let of = training.stages.iter().position(|own| own.operation == stage.operation);
            of.and_then(|at| self.runs.get(at)).copied().unwrap_or(0)
        };
        Self { runs: evaluation.stages.iter().map(run).collect(), depth: self.depth, recompute: Vec::new() }
    }

    /// Returns the fusion in which each run of stages, in each direction, is one task. Each stage of a
    /// norm over rows is a task of its own.
    #[must_use]
    pub fn spans(&self, program: &Program) -> FusionChoice {
        let end = program.loss().map_or(program.stages.len(), StageId::index);
        let is_of_host = |at: usize| program.stages.get(at).is_some_and(|stage| stage.place == Place::Host);
        let starts = |&at: &usize| {
            let is_first = at == 0 || at == end || self.runs.get(at) != self.runs.get(at - 1);
            is_first || is_of_host(at) || is_of_host(at - 1)
        };
        // A program has at most 2^16 stages.
        FusionChoice::Firsts((0..self.runs.len()).filter(starts).map(|at| at as u32).collect())
    }

    /// Makes the lanes in `settings.recompute`, and those that the plan selects, recompute forward
    /// rows in their backward steps. The layers before the loss do not recompute. No other lane
    /// waits for the rows of these layers, so their backward step would not wait for the forward
    /// step.
    ///
    /// # Errors
    /// Returns [`Error::Together`] for a lane that does not exist, or whose layers are several
    /// tasks.
    pub fn recompute(
        &self,
        program: &Program,
        spans: FusedStages,
        settings: &LaneSettings,
    ) -> Result<FusedStages> {
        let refuse = |other, other_found: String, remedy| {
            let (key, found) = ("lanes.recompute", format!("{:?}", settings.recompute));
            Err(Error::from(Refused::Together { key, found, other, other_found, remedy }))
        };
        let depth = settings.lanes.depth();
        if settings.recompute.iter().any(|&lane| lane >= depth) {
            let remedy = "list lanes of one replica, numbered from 0";
            return refuse("lanes.count", format!("{depth} lanes of a replica"), remedy);
        }
        let end = program.loss().map_or(program.stages.len(), StageId::index);
        let run = |at: usize| self.runs.get(spans.as_slice().get(at)?.stages.start).copied();
        let starts = |at: usize| spans.as_slice().get(at).map_or(0, |span| span.stages.start);
        let count = spans.as_slice().len();
        let is_again = |lane: u32| settings.recompute.contains(&lane) || self.recompute.contains(&lane);
        let mut again = Vec::new();
        for backward in (0..count).filter(|&at| starts(at) >= end) {
            let of = run(backward);
            let lane = of.map(|run| u32::from(run % self.depth.max(1)));
            if starts(backward) == end || lane.is_none_or(|lane| !is_again(lane)) {
                continue;
            }
            let alike = (0..count).filter(|&at| run(at) == of);
            let (forward, back): (Vec<usize>, Vec<usize>) = alike.partition(|&at| starts(at) < end);
            let ([forward], [backward]) = (&forward[..], &back[..]) else {
                let found = format!("lane {} has {} tasks", lane.unwrap_or(0), forward.len() + back.len());
                let remedy = "remove the lane from lanes.recompute: its layers are not consecutive, so it has several \
                              tasks, each of which would recompute all layers";
                return refuse("model", found, remedy);
            };
            again.push((*backward, *forward));
        }
        Ok(spans.recompute(program, &again))
    }

    /// Sets the placement of each fused stage of a program to its lane.
    pub fn place(&self, fused: &mut Program, spans: &eciton_program::FusedStages) {
        for (stage, span) in fused.stages.iter_mut().zip(spans.as_slice()) {
            if let Some(&run) = self.runs.get(span.stages.start) {
                let depth = self.depth.max(1);
                (stage.place, stage.chunk) = (Place::Lane(run % depth), run / depth);
            }
        }
    }
}

/// Returns the owner of each stage: the first forward stage of the same operation. Only stages
/// before `end` are forward stages.
///
/// A backward stage belongs to its own operation. A loss belongs to the operation that computes its
/// scores. A sum of gradients belongs to the operation of the stage before it.
pub(crate) fn owners(program: &Program, end: usize) -> Vec<usize> {
    let mut of_operation = vec![None; program.operations.len()];
    let mut owners: Vec<usize> = Vec::with_capacity(program.stages.len());
    for (at, stage) in program.stages.iter().enumerate() {
        let own = of_operation.get_mut(stage.operation.index());
        owners.push(match own {
            Some(of) if at < end => *of.get_or_insert(at),
            Some(Some(of)) => *of,
            _ if stage.phase == Phase::Loss => {
                let writer = |slot: eciton_types::ids::SlotId| {
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
    let of = |stage: &eciton_program::Stage| stage.cost.flops + stage.cost.feature_flops;
    let back = |operation| -> f64 {
        let stages = program.stages.get(end..).unwrap_or_default().iter();
        stages.filter(|stage| stage.operation == operation).map(of).sum()
    };
    forward.iter().map(|stage| of(stage) + back(stage.operation)).collect()
}

/// Divides a list of costs into `runs` runs whose largest sum is minimal, and returns the first
/// index of each run. Of several such divisions, it returns the one whose runs begin earliest.
/// Returns `None` if there are fewer costs than runs.
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

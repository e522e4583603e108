//! Fused stages: runs of consecutive stages that a worker or a function executes as one task.
//!
//! A fusion divides a program's stages into runs, in order. The rows between the stages of a run
//! stay where the task runs. A run of several stages has vertex kernels. In a program of
//! micro-batches with their own graphs ([`Program::apart`]), it may also have gathers between them.
//! No stage of the run reads rows of other intervals, so the run is a pure task. Schedulers read
//! the fused program ([`FusedStages::fuse`]), in which each run is one stage. No other run touches
//! the slots within it.
//!
//! Fusion never changes a result.

use std::ops::Range;

use crate::error::{Error, Result};
use crate::op;
use crate::program::{Cost, Over, Phase, Place, Port, Program, Read, Scope, Stage};
use eciton_recipe::Error as Refused;
use eciton_recipe::executor::FusionChoice;
use eciton_types::ids::{ParameterId, SlotId, StageId};

/// A fused stage, which is a run of consecutive stages of a program that executes as one task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FusedStage {
    /// The range of the run's stages in the program.
    pub stages: Range<usize>,
    /// The range of the forward stages that the run executes again before its own stages, because
    /// it needs their rows ([`FusedStages::recompute`]). It is usually empty.
    pub again: Range<usize>,
    /// The slots (row buffers) that the run reads and does not write, each with the intervals whose
    /// rows it reads. Each slot is listed once, in the order of its first read.
    pub reads: Vec<(SlotId, Scope)>,
    /// The slots that the run writes and that are needed after it, in the order of their stages.
    pub writes: Vec<SlotId>,
}

/// The division of a program's stages into fused stages, which are runs of stages that execute as
/// one task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FusedStages {
    /// The fused stages, in the order of the program.
    list: Vec<FusedStage>,
}

impl FusedStages {
    /// Divides the stages of a program into runs, as `wanted` (the setting `executor.fuse`)
    /// requests.
    ///
    /// # Errors
    /// Returns [`Error::Together`] if `wanted` is not an ascending list of existing stages from 0,
    /// or if the stages of a run cannot be one task.
    pub fn from_program(program: &Program, wanted: &FusionChoice) -> Result<Self> {
        let count = program.stages.len();
        let firsts: Vec<usize> = match wanted {
            FusionChoice::None => (0..count).collect(),
            FusionChoice::Auto => longest(program),
            FusionChoice::Firsts(firsts) => {
                let firsts: Vec<usize> = firsts.iter().map(|&first| first as usize).collect();
                let ascending = firsts.windows(2).all(|pair| pair[0] < pair[1]);
                if firsts.first() != Some(&0) || !ascending || firsts.last().is_none_or(|&last| last >= count)
                {
                    let remedy = "list stage numbers of `eciton plan` in ascending order from 0, or set executor.fuse = \"auto\"";
                    return Err(refused(&firsts, format!("{count} stages"), remedy));
                }
                firsts
            }
        };
        let ends = firsts.iter().skip(1).copied().chain([count]);
        let runs: Vec<Range<usize>> = firsts.iter().zip(ends).map(|(&first, end)| first..end).collect();
        for run in runs.iter().filter(|run| run.len() > 1) {
            if let Some(stage) =
                run.clone().find(|&at| !may_be_inside(program, at) || !is_alike(program, run.start, at))
            {
                let name = program.stages.get(stage).map_or("", |stage| &stage.name);
                let remedy = "list the stage and the one after it: a stage that reads rows of other intervals, or runs on the host only, cannot be fused";
                return Err(refused(&firsts, format!("stage {stage}, {name}"), remedy));
            }
            if !run.clone().any(|at| is_kernel(program, at)) {
                let remedy = "fuse gathers only together with a kernel";
                return Err(refused(&firsts, format!("only gathers in stages {run:?}"), remedy));
            }
        }
        Ok(Self { list: runs.into_iter().map(|run| FusedStage::from_range(program, run)).collect() })
    }

    /// Makes backward runs execute forward stages again, so that the rows of these stages need not
    /// be stored for backward (Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost").
    /// `again` has pairs of run indices, which are the backward run and the forward run. Results
    /// stay the same to the bit, because random numbers depend on keys and not on the order of
    /// calls.
    #[must_use]
    pub fn recompute(mut self, program: &Program, again: &[(usize, usize)]) -> Self {
        for &(backward, forward) in again {
            let stages = self.list.get(forward).map(|run| run.stages.clone());
            if let Some((run, stages)) = self.list.get_mut(backward).zip(stages) {
                run.again = stages;
                run.reads = reads(program, run.numbers());
            }
        }
        let reads: Vec<Vec<SlotId>> =
            self.list.iter().map(|run| run.reads.iter().map(|(slot, _)| *slot).collect()).collect();
        for &(_, forward) in again {
            if let Some(run) = self.list.get_mut(forward) {
                let lasting = [program.scores, program.embeddings];
                let is_read = |slot: &SlotId| reads.iter().any(|reads| reads.contains(slot));
                run.writes.retain(|slot| lasting.contains(&Some(*slot)) || is_read(slot));
            }
        }
        self
    }

    /// Returns the fused stages, in the order of the program.
    #[must_use]
    pub fn as_slice(&self) -> &[FusedStage] {
        &self.list
    }

    /// Returns the fused stage with number `id` in the [fused](FusedStages::fuse) program, or
    /// `None` if there is no such stage.
    #[must_use]
    pub fn get(&self, id: StageId) -> Option<&FusedStage> {
        self.list.get(id.index())
    }

    /// Returns the fused program, in which each fused stage is one stage. Slots, operations and
    /// parameters keep their numbers. A slot that only one run touches has no writer in the fused
    /// program.
    #[must_use]
    pub fn fuse(&self, program: &Program) -> Program {
        let mut fused = program.clone();
        fused.stages = self.list.iter().filter_map(|run| run.fused(program)).collect();
        let of = |stage: StageId| {
            let at = self.list.iter().position(|run| run.stages.contains(&stage.index())).unwrap_or(0);
            // There are at most as many runs as stages, whose ids have 16 bits.
            StageId(at as u16)
        };
        for (slot, spec) in fused.slots.iter_mut().enumerate() {
            let leaves = |run: &FusedStage| run.writes.iter().any(|written| written.index() == slot);
            spec.written_by = spec.written_by.map(of).filter(|id| self.get(*id).is_some_and(leaves));
            // A run that repeats stages may read slots that only the repeated stages read.
            let reads = |run: &FusedStage| run.reads.iter().any(|(read, _)| read.index() == slot);
            let last = self.list.iter().rposition(|run| !run.again.is_empty() && reads(run)).unwrap_or(0);
            spec.needed_until = of(spec.needed_until).max(StageId(last as u16));
        }
        fused.losses.iter_mut().for_each(|loss| loss.stage = of(loss.stage));
        fused
    }
}

/// Returns the slots that `stages` read and do not write, each with the intervals whose rows are
/// read. Each slot is listed once, in the order of its first read.
fn reads(program: &Program, stages: impl Iterator<Item = usize> + Clone) -> Vec<(SlotId, Scope)> {
    let inside = stages.filter_map(|stage| program.stages.get(stage));
    let written: Vec<SlotId> = inside.clone().flat_map(Stage::writes).collect();
    let mut reads: Vec<(SlotId, Scope)> = Vec::new();
    for (slot, scope) in inside.flat_map(Stage::reads).filter(|(slot, _)| !written.contains(slot)) {
        match reads.iter_mut().find(|(known, _)| *known == slot) {
            Some((_, known)) => *known = scope.max(*known),
            None => reads.push((slot, scope)),
        }
    }
    reads
}

fn refused(firsts: &[usize], other_found: String, remedy: &'static str) -> Error {
    Error::from(Refused::Together {
        key: "executor.fuse",
        found: format!("{firsts:?}"),
        other: "model",
        other_found,
        remedy,
    })
}

/// Divides a program into the longest possible runs, and returns the first stage of each. A run
/// begins at the first stage that no earlier run contains.
fn longest(program: &Program) -> Vec<usize> {
    let mut firsts = Vec::new();
    let mut at = 0;
    while at < program.stages.len() {
        firsts.push(at);
        let run = (at..program.stages.len())
            .take_while(|&stage| may_be_inside(program, stage) && is_alike(program, at, stage));
        let run = run.count();
        let run = at..at + run;
        // The host runs gathers one by one if no kernel is next to them.
        let end = if run.clone().any(|stage| is_kernel(program, stage)) { run.end } else { at + 1 };
        at = end.max(at + 1);
    }
    firsts
}

/// Returns true if stage `at` is a vertex kernel. A vertex kernel reads only rows of its own
/// interval (a run of rows that is scheduled as one unit).
fn is_kernel(program: &Program, at: usize) -> bool {
    let Some(stage) = program.stages.get(at) else { return false };
    let operation = program.operations.get(stage.operation.index());
    operation.is_some_and(|operation| operation.signature.is_some() && operation.along.is_none())
}

/// Returns true if the stages `left` and `right` compute rows of the same domain (kind of rows, for
/// instance vertices).
fn is_alike(program: &Program, left: usize, right: usize) -> bool {
    let domain = |at: usize| program.stages.get(at).map(|stage| stage.domain);
    domain(left) == domain(right)
}

/// Returns true if stage `at` may execute in one task with other stages. Vertex kernels may, and
/// gathers over neighbours may if each micro-batch has its own graph. Stages that need f32 rows may
/// not.
fn may_be_inside(program: &Program, at: usize) -> bool {
    let Some(stage) = program.stages.get(at) else { return false };
    let operation = program.operations.get(stage.operation.index());
    let gathers = operation.is_some_and(|operation| operation.kernel == op::gather::NAME)
        && stage
            .via
            .and_then(|via| program.relations.get(via.index()))
            .is_some_and(|lists| lists.over == Over::Neighbours && !lists.reached);
    !stage.exact && (is_kernel(program, at) || gathers && program.apart.is_some())
}

impl FusedStage {
    fn from_range(program: &Program, stages: Range<usize>) -> Self {
        let inside = program.stages.get(stages.clone()).unwrap_or_default();
        let written = inside.iter().flat_map(Stage::writes);
        let leaves = |slot: &SlotId| {
            let kept = program.slots.get(slot.index()).map_or(0, |spec| spec.needed_until.index());
            let alone = stages.len() == 1;
            // The host reads the results of an evaluation after its end.
            let read = [program.scores, program.embeddings].contains(&Some(*slot));
            alone || read || kept >= stages.end
        };
        let (writes, reads) = (written.filter(leaves).collect(), reads(program, stages.clone()));
        Self { writes, reads, stages, again: 0..0 }
    }

    /// Returns true if the run executes more than one stage. Repeated stages count.
    #[must_use]
    pub fn is_fused(&self) -> bool {
        self.numbers().count() > 1
    }

    fn numbers(&self) -> impl Iterator<Item = usize> + Clone + use<> {
        self.again.clone().chain(self.stages.clone())
    }

    /// Returns the numbers of the stages that the run executes, in order. Repeated forward stages
    /// come first.
    pub fn ids(&self) -> impl Iterator<Item = StageId> {
        // A program has at most 2^16 stages.
        self.numbers().map(|stage| StageId(stage as u16))
    }

    fn inside<'p>(&self, program: &'p Program) -> impl Iterator<Item = &'p Stage> + Clone + use<'p> {
        self.numbers().filter_map(|stage| program.stages.get(stage))
    }

    /// Returns the run as one stage of the fused program, or `None` if the program does not have
    /// the run's stages.
    fn fused(&self, program: &Program) -> Option<Stage> {
        let inside = self.inside(program);
        let own = program.stages.get(self.stages.clone())?;
        let (first, last) = (own.first()?, own.last()?);
        if !self.is_fused() {
            let mut alone = first.clone();
            alone.writes.iter_mut().for_each(|slot| *slot = slot.filter(|slot| self.writes.contains(slot)));
            return Some(alone);
        }
        let kernel = self.stages.clone().find(|&at| is_kernel(program, at));
        let kernel = kernel.and_then(|at| program.stages.get(at)).unwrap_or(first);
        let has_loss = own.iter().any(|stage| stage.phase == Phase::Loss);
        let mut cost = Cost::default();
        for stage in inside.clone() {
            cost.flops += stage.cost.flops;
            cost.feature_flops += stage.cost.feature_flops;
            cost.edge_values = cost.edge_values.saturating_add(stage.cost.edge_values);
        }
        Some(Stage {
            name: format!("{} to {}", first.name, last.name),
            operation: kernel.operation,
            phase: if has_loss { Phase::Loss } else { first.phase },
            place: Place::Anywhere,
            chunk: 0,
            domain: first.domain,
            via: None,
            reads: self.reads.iter().map(|&(slot, scope)| Read { slot, scope, port: Port::Input }).collect(),
            writes: self.writes.iter().copied().map(Some).collect(),
            sums: inside.flat_map(|stage| stage.sums.iter().copied()).collect(),
            exact: false,
            cost,
        })
    }

    /// Returns the number of floating-point operations that the run executes for one row. `stored`
    /// is the fraction of the feature values that is stored, above 0 and up to 1.
    #[must_use]
    pub fn row_flops(&self, program: &Program, stored: f64) -> f64 {
        self.inside(program).map(|stage| stage.cost.flops + stored * stage.cost.feature_flops).sum()
    }

    /// Returns the number of parameter values that the run reads, and the number of gradient values
    /// that it computes. A parameter that several stages read counts once.
    #[must_use]
    pub fn parameter_values(&self, program: &Program) -> (u64, u64) {
        let len = |id: &ParameterId| program.parameter(*id).map_or(0, |one| one.len() as u64);
        let inside = self.inside(program);
        let mut read: Vec<ParameterId> = Vec::new();
        for operation in inside.clone().filter_map(|stage| program.operations.get(stage.operation.index())) {
            read.extend(operation.parameters.iter().map(|&id| program.owner(id)));
        }
        read.sort_unstable();
        read.dedup();
        (read.iter().map(len).sum(), inside.flat_map(|stage| &stage.sums).map(len).sum())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use crate::sample_programs;
    use crate::sample_programs::gcn;
    use crate::testing::Random;

    #[test]
    fn a_round_of_parts_is_one_run() {
        let mut program = gcn(2, 4, 9, 3);
        program.set_apart(1, 100, 0);
        let all = FusedStages::from_program(&program, &FusionChoice::Auto).unwrap();
        let [one] = all.as_slice() else { panic!("{all:?}") };
        assert_eq!((one.stages.clone(), one.writes.len()), (0..program.stages.len(), 0));
        assert!(one.reads.iter().all(|(slot, _)| program.constants().any(|constant| constant == *slot)));
        let fused = all.fuse(&program);
        assert_eq!((fused.stages.len(), fused.loss()), (1, Some(StageId(0))));
        assert_eq!(fused.stages[0].sums.len(), program.parameters.len());
        assert!(fused.slots.iter().all(|slot| slot.written_by.is_none()));
    }

    #[test]
    fn runs_read_what_earlier_ones_leave() {
        let seed = 31;
        let mut random = Random::new(seed);
        for round in 0..400 {
            let mut program = sample_programs::random(&mut random);
            if round % 2 == 0 {
                program.set_apart(1, program.shape.rows, 0);
            }
            let all = FusedStages::from_program(&program, &FusionChoice::Auto).unwrap();
            let fused = all.fuse(&program);
            let stages: usize = all.as_slice().iter().map(|one| one.stages.len()).sum();
            assert_eq!(
                (stages, fused.stages.len()),
                (program.stages.len(), all.as_slice().len()),
                "seed {seed}, program {round}"
            );
            for (id, one) in (0..).map(StageId).zip(all.as_slice()) {
                for (slot, _) in &one.reads {
                    let writer = fused.slots[slot.index()].written_by;
                    assert_eq!(writer.is_none(), program.slots[slot.index()].written_by.is_none());
                    assert!(
                        writer.is_none_or(|writer| writer < id),
                        "seed {seed}, program {round}: {slot} in {one:?}"
                    );
                }
                let inside = &program.stages[one.stages.clone()];
                let own = |slot: &SlotId| !inside.iter().any(|stage| stage.writes().any(|w| w == *slot));
                let wide = inside.iter().flat_map(Stage::all).all(|slot| own(&slot));
                assert!(
                    program.apart.is_some() || wide,
                    "{one:?} reads rows of other intervals that it writes"
                );
            }
        }
    }

    #[test]
    fn no_spans_are_the_program() {
        let program = gcn(3, 4, 9, 3);
        assert_eq!(FusedStages::from_program(&program, &FusionChoice::None).unwrap().fuse(&program), program);
    }
}

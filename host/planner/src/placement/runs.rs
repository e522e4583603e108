//! Reorders stages so that the stages of each lane form runs that are as long as possible. A run is
//! executed as one task.

use std::ops::Range;

use super::Placement;
use eciton_program::program::Program;
use eciton_types::ids::StageId;

impl Placement {
    /// Reorders a program's stages, forward and backward, so that the stages of a lane follow each
    /// other as far as possible. Returns the placement of the reordered program. Each stage still
    /// follows the stages whose rows it reads, so no result changes.
    #[must_use]
    pub fn gathered(&self, program: &mut Program) -> Self {
        let count = program.stages.len();
        let end = program.loss().map_or(count, StageId::index);
        // The first loss remains the first stage of the backward part.
        let loss = (end + 1).min(count);
        let parts = [0..end, end..loss, loss..count];
        if parts.iter().all(|part| self.is_gathered(part.clone())) {
            return self.clone();
        }
        let mut is_done = vec![false; count];
        let mut order: Vec<usize> = Vec::with_capacity(count);
        for part in parts {
            self.follow(program, part, (&mut is_done, &mut order));
        }
        if order.len() != count {
            return self.clone();
        }
        program.arrange(&order);
        let run = |&at: &usize| self.runs.get(at).copied().unwrap_or(0);
        Self { runs: order.iter().map(run).collect(), ..self.clone() }
    }

    /// Returns true if each lane has at most one run of stages within `part` of the program.
    fn is_gathered(&self, part: Range<usize>) -> bool {
        let mut runs = self.runs.get(part).unwrap_or_default().to_vec();
        runs.dedup();
        let count = runs.len();
        runs.sort_unstable();
        runs.dedup();
        runs.len() == count
    }

    /// Appends the stages of a part to the new order. A stage is ready if all stages that it reads
    /// have been appended. Ready stages of the current lane are appended first, and then those of
    /// the lane of the first ready stage.
    fn follow(
        &self,
        program: &Program,
        part: Range<usize>,
        (is_done, order): (&mut Vec<bool>, &mut Vec<usize>),
    ) {
        let reads = |at: usize| -> Vec<usize> {
            // A program has at most 2^16 stages.
            program.dependencies(StageId(at as u16)).iter().map(|(of, _)| of.index()).collect()
        };
        let mut left: Vec<(usize, Vec<usize>)> = part.map(|at| (at, reads(at))).collect();
        while !left.is_empty() {
            let lane = order.last().and_then(|&at| self.runs.get(at));
            let has_all = |(_, reads): &(usize, Vec<usize>)| reads.iter().all(|&of| is_done[of]);
            let same = left.iter().position(|of| self.runs.get(of.0) == lane && has_all(of));
            let Some(next) = same.or_else(|| left.iter().position(has_all)) else { return };
            let (at, _) = left.remove(next);
            is_done[at] = true;
            order.push(at);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::sample_programs;
    use crate::testing::Random;
    use eciton_program::Stage;
    use eciton_types::ids::SlotId;

    fn runs(lanes: &[u16]) -> usize {
        1 + lanes.windows(2).filter(|pair| pair[0] != pair[1]).count()
    }

    #[test]
    fn stages_come_after_what_they_read_and_lanes_go_with_them() {
        let seed = 5;
        let mut random = Random::new(seed);
        let mut fewer = 0;
        for round in 0..400 {
            let program = sample_programs::random(&mut random);
            let of: Vec<u16> = program.operations.iter().map(|_| random.below32(3) as u16).collect();
            let placement = Placement {
                runs: program.stages.iter().map(|stage| of[stage.operation.index()]).collect(),
                depth: 3,
                recompute: Vec::new(),
            };
            let mut found = program.clone();
            let gathered = placement.gathered(&mut found);
            let place = format!("seed {seed}, program {round}");
            let lane = |stage: &Stage| of[stage.operation.index()];
            assert_eq!(gathered.runs, found.stages.iter().map(lane).collect::<Vec<_>>(), "{place}");
            let names = |of: &Program| {
                let mut all: Vec<String> = of.stages.iter().map(|stage| format!("{stage:?}")).collect();
                all.sort();
                all
            };
            assert_eq!(names(&found), names(&program), "{place}");
            assert_eq!(found.loss().map(StageId::index), program.loss().map(StageId::index), "{place}");
            for (loss, before) in found.losses.iter().zip(&program.losses) {
                assert_eq!(found.stage(loss.stage), program.stage(before.stage), "{place}");
            }
            for (at, stage) in found.stages.iter().enumerate() {
                for (slot, _) in stage.reads() {
                    let spec = &found.slots[slot.index()];
                    assert!(spec.written_by.is_none_or(|writer| writer.index() < at), "{place}: {slot}");
                    assert!(spec.needed_until.index() >= at, "{place}: {slot}");
                }
            }
            for (slot, spec) in (0u16..).map(SlotId).zip(&found.slots) {
                let writes = |at: StageId| found.stages[at.index()].writes().any(|written| written == slot);
                assert!(spec.written_by.is_none_or(writes), "{place}: {slot}");
            }
            let (before, after) = (runs(&placement.runs), runs(&gathered.runs));
            fewer += usize::from(after < before);
            // A second reordering changes nothing.
            let mut again = found.clone();
            assert_eq!((gathered.gathered(&mut again), again), (gathered.clone(), found), "{place}");
        }
        assert!(fewer > 100, "{fewer}");
    }
}

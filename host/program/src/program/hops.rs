//! Number of gathers between a stage's rows and the loss, or the scores of an evaluation program.
//!
//! The rows of a micro-batch are in the order of hops: training rows first, then their neighbours,
//! and so on. A layer therefore computes a prefix of the rows. A stage that is h gathers before the
//! loss computes the rows within h hops. The same holds backward, except that the gradient of a
//! gather's input has the rows within one more hop.
//!
//! A slot (row buffer) has the number of rows that its largest reader needs. Rows past those that
//! its writer computes are zeros, and add nothing to a gradient.

use super::{Over, Phase, Program, Scope, Stage};
use eciton_types::ids::{SlotId, StageId};

/// Number of gathers that separate each stage and each slot (row buffer) of a program from the
/// loss.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hops {
    stages: Vec<u8>,
    slots: Vec<u8>,
}

impl Hops {
    /// Counts the gathers of a program. In an evaluation program, which has no loss, they are counted
    /// from its scores.
    #[must_use]
    pub fn from_program(program: &Program) -> Self {
        let mut hops = Self { stages: vec![0; program.stages.len()], slots: vec![0; program.slots.len()] };
        let writes = |stage: &Stage| stage.writes().any(|slot| Some(slot) == program.scores);
        let scores = || program.stages.iter().position(writes).map(|at| StageId(at as u16));
        let Some(loss) = program.loss().or_else(scores) else { return hops };
        // Number of gathers at the forward stage of each operation.
        let mut operations = vec![0; program.operations.len()];
        for at in (0..=loss.index()).rev() {
            let Some(stage) = program.stages.get(at) else { continue };
            let own = stage.writes().map(|slot| hops.slots[slot.index()]).max().unwrap_or(0);
            // The loss stage writes gradients of its own rows.
            let own = if at == loss.index() { 0 } else { own };
            hops.stages[at] = own;
            operations[stage.operation.index()] = own;
            for (slot, scope) in stage.reads() {
                let hop = own.saturating_add(u8::from(scope == Scope::All && is_gather(program, stage)));
                let slot = &mut hops.slots[slot.index()];
                *slot = (*slot).max(hop);
            }
            for slot in stage.writes() {
                let slot = &mut hops.slots[slot.index()];
                *slot = (*slot).max(own);
            }
        }
        for at in loss.index() + 1..program.stages.len() {
            let stage = &program.stages[at];
            let reversed = stage.via.and_then(|via| program.relations.get(via.index()));
            let own = match stage.phase {
                // A sum of gradients.
                Phase::Forward => stage.reads().map(|(slot, _)| hops.slots[slot.index()]).max().unwrap_or(0),
                _ => {
                    let back = is_gather(program, stage) && reversed.is_some_and(|of| of.reversed);
                    operations[stage.operation.index()] + u8::from(back)
                }
            };
            hops.stages[at] = own;
            for slot in stage.writes() {
                hops.slots[slot.index()] = own;
            }
            // A gather's gradient too is read on all of its rows: a vertex may be its own
            // neighbour.
            for (slot, _) in stage.reads() {
                let slot = &mut hops.slots[slot.index()];
                *slot = (*slot).max(own);
            }
        }
        hops
    }

    /// Returns the number of gathers between a stage and the loss. The stage computes the rows
    /// within this many hops of the training rows.
    #[must_use]
    pub fn stage(&self, stage: StageId) -> usize {
        self.stages.get(stage.index()).map_or(0, |&hops| usize::from(hops))
    }

    /// Returns the number of gathers between a slot and the loss. The slot has the rows within this
    /// many hops of the training rows.
    #[must_use]
    pub fn slot(&self, slot: SlotId) -> usize {
        self.slots.get(slot.index()).map_or(0, |&hops| usize::from(hops))
    }

    /// Returns the largest number of gathers between any slot and the loss.
    #[must_use]
    pub fn most(&self) -> usize {
        self.slots.iter().map(|&hops| usize::from(hops)).max().unwrap_or(0)
    }
}

/// Returns true if a stage reads rows of neighbours. Readouts and norms over all rows are no gathers,
/// because they read rows of the same vertices.
fn is_gather(program: &Program, stage: &Stage) -> bool {
    let relation = stage.via.and_then(|via| program.relations.get(via.index()));
    relation.is_some_and(|relation| relation.over == Over::Neighbours)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::sample_programs;
    use crate::testing::Random;

    #[test]
    fn gathers_are_counted_from_the_loss() {
        let seed = 25;
        let mut random = Random::new(seed);
        for _ in 0..400 {
            let program = sample_programs::random(&mut random);
            let name = format!("seed {seed}: {}", crate::program::tests::sketch(&program).join(", "));
            let hops = Hops::from_program(&program);
            let loss = program.loss().unwrap();
            assert_eq!(hops.stage(loss), 0, "{name}");
            for (id, stage) in (0u16..).map(StageId).zip(&program.stages) {
                let own = hops.stage(id);
                for slot in stage.own() {
                    assert!(hops.slot(slot) >= own, "{name}: {} reads rows that are not there", stage.name);
                }
                for slot in stage.writes() {
                    assert!(hops.slot(slot) >= own, "{name}: {} writes rows nobody has", stage.name);
                }
                for slot in stage.all().filter(|_| is_gather(&program, stage)) {
                    let more = usize::from(!program.relation(id).unwrap().reversed);
                    assert!(hops.slot(slot) >= own + more, "{name}: {} gathers rows nobody has", stage.name);
                }
            }
        }
    }
}

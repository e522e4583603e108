//! Reordering of a program's stages.

use super::{Program, Stage};
use eciton_types::ids::{SlotId, StageId};

impl Program {
    /// Reorders the stages. `order[i]` is the present number of the stage that gets the number `i`.
    pub fn arrange(&mut self, order: &[usize]) {
        let mut numbers = vec![0; order.len()];
        for (new, &old) in order.iter().enumerate() {
            numbers[old] = new;
        }
        let new = |stage: StageId| {
            // A program has at most 2^16 stages.
            StageId(numbers.get(stage.index()).copied().unwrap_or(stage.index()) as u16)
        };
        let last = StageId(order.len().saturating_sub(1) as u16);
        for (slot, spec) in (0u16..).map(SlotId).zip(&mut self.slots) {
            let touching = self.stages.iter().enumerate().filter(|(_, stage)| stage.touches(slot));
            let touching: Vec<usize> = touching.map(|(at, _)| at).collect();
            let known = touching.iter().max().copied().or(spec.written_by.map(StageId::index));
            let longer = known.is_none_or(|known| spec.needed_until.index() > known);
            let latest = touching.iter().filter_map(|&at| numbers.get(at)).max();
            spec.written_by = spec.written_by.map(new);
            spec.needed_until = match latest {
                // Rows that outlast the program.
                _ if longer => last,
                Some(&latest) => StageId(latest as u16),
                None => new(spec.needed_until),
            };
        }
        self.losses.iter_mut().for_each(|loss| loss.stage = new(loss.stage));
        let mut stages: Vec<Option<Stage>> = self.stages.drain(..).map(Some).collect();
        self.stages = order.iter().filter_map(|&old| stages.get_mut(old)?.take()).collect();
    }
}

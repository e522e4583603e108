//! Which slots may share memory.
//!
//! A slot is free after the last stage that needs it, but with several intervals one may run ahead
//! of another: memory may pass to a later slot only once *every* interval is past the last stage
//! that needs the earlier one. A gather waits for all intervals, so the rule is: a gather lies after
//! the earlier slot's last stage and not after the later slot's writer. With one interval it is
//! enough that the last stage comes before the writer.
//!
//! Where epochs run apart ([`Pipeline::row_versions`] above 1) what a gather reads is kept for several
//! epochs and shares nothing: others may read it long after its interval has moved on. All else is read
//! by its own interval alone, which goes from stage to stage, so that the rule of one interval holds.

use crate::executor::RowFormat;
use crate::ids::{BufferId, SlotId, StageId};
use crate::pipeline::Pipeline;
use crate::program::{Program, Scope, SlotOf, SlotSpec, Stage};

/// An assignment of a program's slots to buffers. Every slot has one but the features, which are
/// the data's. Only slots of one width and format share: rows of others would lie at other distances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buffers {
    of: Vec<Option<BufferId>>,
    widths: Vec<u32>,
    versions: Vec<u32>,
    formats: Vec<RowFormat>,
}

impl Buffers {
    /// What a slot's rows are stored as where a run stores rows as `rows`: activations and gradients so.
    /// What a kernel keeps for itself stays f32, for it may be anything, and so do the class scores, which
    /// leave the run.
    #[must_use]
    pub fn format(program: &Program, slot: SlotId, rows: RowFormat) -> RowFormat {
        let of = program.slots.get(slot.index()).map(|spec| spec.of);
        match of {
            Some(SlotOf::Activation | SlotOf::Gradient) if program.scores != Some(slot) => rows,
            _ => RowFormat::F32,
        }
    }

    /// The assignment for a number of intervals (it depends only on whether there is one or more), and
    /// rows that are stored as `rows`.
    #[must_use]
    pub fn assign(program: &Program, intervals: u32, pipeline: &Pipeline, rows: RowFormat) -> Self {
        let kept = pipeline.row_versions();
        let mut gathered = vec![false; program.slots.len()];
        for (slot, _) in
            program.stages.iter().flat_map(Stage::reads).filter(|(_, scope)| *scope == Scope::All)
        {
            gathered[slot.index()] = kept > 1;
        }
        let gathers: Vec<StageId> = (0u16..)
            .zip(&program.stages)
            .filter(|(_, stage)| matches!(stage, Stage::Gather(_)))
            .map(|(id, _)| StageId(id))
            .collect();
        let passed = |last: StageId, writer: StageId| {
            if intervals <= 1 || kept > 1 {
                return last < writer;
            }
            gathers.iter().any(|&gather| last < gather && gather <= writer)
        };
        let mut buffers = Self {
            of: vec![None; program.slots.len()],
            widths: Vec::new(),
            versions: Vec::new(),
            formats: Vec::new(),
        };
        // The slot that each buffer holds last.
        let mut holds: Vec<&SlotSpec> = Vec::new();
        let mut order: Vec<usize> = (0..program.slots.len()).collect();
        order.sort_by_key(|&slot| program.slots[slot].written_by);
        for slot in order {
            let spec = &program.slots[slot];
            let Some(writer) = spec.written_by else {
                continue;
            };
            let format =
                u16::try_from(slot).map_or(RowFormat::F32, |id| Self::format(program, SlotId(id), rows));
            let free = (0..holds.len()).filter(|&buffer| passed(holds[buffer].kept_until, writer));
            let mut free = free
                .filter(|&buffer| buffers.widths[buffer] == spec.width && buffers.formats[buffer] == format);
            let alone = |&buffer: &usize| !gathered[slot] && buffers.versions[buffer] == 1;
            let free = if kept > 1 { free.find(alone) } else { free.next() };
            let buffer = free.unwrap_or_else(|| {
                holds.push(spec);
                buffers.widths.push(spec.width);
                buffers.formats.push(format);
                buffers.versions.push(if gathered[slot] { kept } else { 1 });
                holds.len() - 1
            });
            holds[buffer] = spec;
            // Never more buffers than slots, whose ids are 16 bits.
            buffers.of[slot] = u16::try_from(buffer).ok().map(BufferId);
        }
        buffers
    }

    /// A slot's buffer; `None` for the features.
    #[must_use]
    pub fn of(&self, slot: SlotId) -> Option<BufferId> {
        self.of.get(slot.index()).copied().flatten()
    }

    /// For each buffer the values a row of the slots that it holds.
    #[must_use]
    pub fn widths(&self) -> &[u32] {
        &self.widths
    }

    /// For each buffer how many epochs' rows are kept: it is there so many times.
    #[must_use]
    pub fn versions(&self) -> &[u32] {
        &self.versions
    }

    /// For each buffer what its rows are stored as.
    #[must_use]
    pub fn formats(&self) -> &[RowFormat] {
        &self.formats
    }

    /// Memory of all buffers for `rows` rows, in bytes.
    #[must_use]
    pub fn bytes(&self, rows: u32) -> u64 {
        let kept = self.widths.iter().zip(&self.versions).zip(&self.formats);
        let bytes = kept.map(|((&width, &versions), format)| {
            u64::from(width) * u64::from(versions) * u64::from(format.value_bytes())
        });
        bytes.sum::<u64>().saturating_mul(u64::from(rows))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::program::tests::gcn;
    use crate::testing::Random;

    /// Runs `intervals` intervals through the program in random order under the engine's rule and
    /// checks at each read that the rows are still those that were written.
    fn simulate(program: &Program, buffers: &Buffers, intervals: usize, seed: u64) {
        let random = &mut Random::new(seed);
        let rows = intervals;
        let mut memory: Vec<Vec<Option<SlotId>>> =
            buffers.widths().iter().map(|&width| vec![None; width as usize * rows]).collect();
        let mut next = vec![0usize; intervals];
        let ready = |next: &[usize], i: usize| {
            let stage = StageId(next[i] as u16);
            next[i] < program.stages.len()
                && program.dependencies(stage).into_iter().all(|(before, scope)| match scope {
                    crate::Scope::Own => next[i] > before.index(),
                    crate::Scope::All => next.iter().all(|&at| at > before.index()),
                })
        };
        while next.iter().any(|&at| at < program.stages.len()) {
            let able: Vec<usize> = (0..intervals).filter(|&i| ready(&next, i)).collect();
            assert!(!able.is_empty(), "stuck, seed {seed}");
            let i = able[random.below(able.len() as u64) as usize];
            let stage = &program.stages[next[i]];
            for (slot, scope) in stage.reads() {
                let Some(buffer) = buffers.of(slot) else {
                    continue;
                };
                let width = program.slots[slot.index()].width as usize;
                let wanted = match scope {
                    crate::Scope::Own => i * width..(i + 1) * width,
                    crate::Scope::All => 0..rows * width,
                };
                let held = &memory[buffer.index()][wanted];
                assert!(held.iter().all(|&by| by == Some(slot)), "slot {slot}, seed {seed}");
                assert!(stage.writes().all(|out| buffers.of(out) != Some(buffer)), "alias {slot}");
            }
            for slot in stage.writes() {
                let width = program.slots[slot.index()].width as usize;
                let buffer = buffers.of(slot).unwrap().index();
                memory[buffer][i * width..(i + 1) * width].fill(Some(slot));
            }
            next[i] += 1;
        }
    }

    #[test]
    fn no_row_is_overwritten_before_its_last_use() {
        for layers in 1..=5 {
            let program = gcn(layers, 12, 20, 3);
            let wide = gcn(layers, 2, 20, 7);
            for program in [&program, &program.evaluation(), &wide] {
                for intervals in [1, 2, 3, 8] {
                    let buffers = Buffers::assign(program, intervals, &Pipeline::default(), RowFormat::Bf16);
                    for seed in 0..20 {
                        simulate(program, &buffers, intervals as usize, seed);
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_gathered_is_kept_apart_where_epochs_are() {
        let program = gcn(6, 16, 1433, 7);
        let buffers = Buffers::assign(&program, 4, &Pipeline::asynchronous(1), RowFormat::F32);
        let mut holders = vec![0; buffers.widths().len()];
        let gathered = |slot: usize| {
            program
                .stages
                .iter()
                .flat_map(Stage::reads)
                .any(|(s, scope)| scope == Scope::All && s.index() == slot)
        };
        for slot in 1..program.slots.len() {
            let buffer = buffers.of(SlotId(slot as u16)).unwrap().index();
            holders[buffer] += 1;
            assert_eq!(buffers.versions()[buffer], if gathered(slot) { 3 } else { 1 });
        }
        let shared = holders.iter().zip(buffers.versions()).filter(|(count, _)| **count > 1);
        let shared: Vec<_> = shared.collect();
        assert!(!shared.is_empty() && shared.iter().all(|(_, versions)| **versions == 1));
        // One interval, one that goes ahead: the same rule, and rows are still those that were written.
        for seed in 0..20 {
            let private = Buffers { versions: vec![1; buffers.versions.len()], ..buffers.clone() };
            simulate(&program, &private, 1, seed);
        }
    }

    #[test]
    fn buffers_are_shared() {
        let program = gcn(6, 16, 1433, 7);
        let slots: u32 = program.slots.iter().skip(1).map(|slot| slot.width).sum();
        for intervals in [1, 4] {
            let buffers = Buffers::assign(&program, intervals, &Pipeline::default(), RowFormat::F32);
            let half = Buffers::assign(&program, intervals, &Pipeline::default(), RowFormat::Bf16);
            assert_eq!(
                half.bytes(10) * 2,
                buffers.bytes(10),
                "all rows of training are activations or gradients"
            );
            let shared: u32 = buffers.widths().iter().sum();
            assert!(shared * 10 < slots * 6, "{shared} of {slots}, {intervals} intervals");
            assert_eq!(buffers.bytes(10), u64::from(shared) * 40);
            assert_eq!(buffers.of(program.features), None);
        }
    }

    #[test]
    fn scores_and_what_kernels_keep_stay_f32() {
        let mut program = gcn(2, 7, 1433, 7);
        let evaluation = program.evaluation();
        let scores = evaluation.scores.unwrap();
        let buffers = Buffers::assign(&evaluation, 1, &Pipeline::default(), RowFormat::Bf16);
        let of = |slot: SlotId| buffers.formats()[buffers.of(slot).unwrap().index()];
        assert_eq!(of(scores), RowFormat::F32);
        assert!(
            (1..evaluation.slots.len() as u16).map(SlotId).all(|s| s == scores || of(s) == RowFormat::Bf16)
        );
        program.slots[2].of = SlotOf::Kept;
        let stored = [0, 1, 2].map(|slot| Buffers::format(&program, SlotId(slot), RowFormat::Bf16));
        assert_eq!(stored, [RowFormat::F32, RowFormat::Bf16, RowFormat::F32]);
    }
}

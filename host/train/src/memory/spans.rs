//! Memory of fused stages, for the rows that only stages of the same fused stage read.

use eciton_program::{Buffers, FusedStages, Program};
use eciton_recipe::RowFormat;
use eciton_types::SlotId;

use super::sizes::{pages, row_bytes};

/// Returns the maximum number of bytes that a task of any fused stage stores at once, for `rows`
/// rows. A slot is stored from the stage that writes it to the last stage that reads it.
pub(super) fn span_bytes(program: &Program, spans: &FusedStages, rows: u64, format: RowFormat) -> u64 {
    let bytes = |slot: SlotId| {
        let width = program.slots.get(slot.index()).map_or(0, |spec| spec.width);
        pages(rows * row_bytes(width, Buffers::format(program, slot, format)))
    };
    let most = |span: &eciton_program::FusedStage| {
        let held = |at: usize| {
            let slots = (0u16..).map(SlotId).zip(&program.slots);
            let live = slots.filter(|(_, spec)| {
                let first = spec.written_by.map(eciton_types::StageId::index);
                first.is_some_and(|first| span.stages.contains(&first) && first <= at)
                    && spec.needed_until.index() >= at
            });
            let leaves = span.writes.iter().filter(|slot| {
                program.slots.get(slot.index()).is_some_and(|spec| spec.needed_until.index() < at)
            });
            live.map(|(slot, _)| bytes(slot)).sum::<u64>() + leaves.map(|&slot| bytes(slot)).sum::<u64>()
        };
        span.stages.clone().map(held).max().unwrap_or(0)
    };
    spans.as_slice().iter().filter(|span| span.is_fused()).map(most).max().unwrap_or(0)
}

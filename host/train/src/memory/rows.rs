//! Memory of the row buffers, which store what stages pass on.

use std::collections::BTreeSet;

use eciton_planner::policy;
use eciton_program::{Buffers, Domain, FusedStages, Hops, Program, Residents};
use eciton_recipe::{Lanes, Pipeline, RowFormat};
use eciton_types::{BufferId, SlotId};

use super::Wanted;
use super::sizes::{pages, row_bytes};
use crate::batch::PartSizes;

/// A row buffer in this process.
#[derive(Debug, Clone, Copy)]
struct RowBuffer {
    rows: u32,
    width: u32,
    format: RowFormat,
    /// Rows that are ever written. The pages of other rows occupy no memory.
    written: u64,
}

impl RowBuffer {
    /// Returns true if a run stores the rows of both buffers in the same memory.
    fn is_like(&self, other: &Self) -> bool {
        (self.rows, self.width, self.format) == (other.rows, other.width, other.format)
    }
}

/// Returns the total size in bytes of all row buffers if rows are stored as `format`.
pub(super) fn rows_bytes(wanted: &Wanted<'_>, format: RowFormat) -> u64 {
    let bytes = |of: &RowBuffer| pages(of.written * row_bytes(of.width, of.format));
    row_buffers(wanted, format).iter().map(bytes).sum()
}

/// Returns the row buffers of a run. Training and evaluation share buffers where possible.
fn row_buffers(wanted: &Wanted<'_>, format: RowFormat) -> Vec<RowBuffer> {
    let Wanted { inputs, program, evaluation, config, .. } = *wanted;
    let (intervals, pipeline) = (inputs.intervals.len() as u32, &config.pipeline);
    let parts = program.apart.unwrap_or(intervals);
    let pieces = evaluation.steps(inputs);
    let own = config.workers.own();
    let residents = |program: &Program, (spans, schedule): (&FusedStages, &Program)| match own {
        true => Residents::passing(program, spans, schedule),
        false => Residents::from_program(program, spans, schedule),
    };
    let on_workers = wanted.lanes.filter(|_| config.has_worker_lanes());
    let training = on_workers.map(|lanes| residents(program, lanes));
    let schedule = wanted.lanes.map_or(program, |(_, schedule)| schedule);
    let evaluated = (&evaluation.spans, &evaluation.schedule);
    let evaluated = evaluation.is_placed().then(|| residents(&evaluation.program, evaluated));
    let at_once = config.ring_lanes();
    let like = |assigned: &Buffers,
                program: &Program,
                residents: Option<&Residents>,
                of: (&Lanes, u32, Sizes<'_>)| {
        let (lanes, parts, sizes) = of;
        let places = assigned.places(program, policy::at_once(program, lanes, parts));
        let gathered = assigned.gathered(program);
        let is_here = |slot: SlotId| {
            residents.is_none_or(|of| of.last_reader(slot).is_none() && of.passed(slot).is_none())
        };
        let slots = (0u16..).map(SlotId).take(program.slots.len()).filter(|&slot| is_here(slot));
        let used: BTreeSet<usize> =
            slots.filter_map(|slot| assigned.buffer(slot)).map(BufferId::index).collect();
        let each = assigned.widths().iter().zip(assigned.formats()).zip(assigned.domains());
        let each = each.zip(assigned.versions()).enumerate().filter(|(at, _)| used.contains(at));
        let one = |(at, (((&width, &format), &domain), &kept))| {
            let (all, places) = (program.rows(domain), places.get(at).map_or(parts, |(places, _)| *places));
            let only = inputs.own_rows().filter(|_| !gathered.get(at).is_some_and(|gathered| *gathered));
            let all = only.map_or(all, |own| own.len() as u32);
            let is_short = places < parts && kept == 1 && domain == Domain::VERTICES;
            let rows = if is_short { all.div_ceil(parts) * places } else { all };
            let written = sizes.filter(|_| domain == Domain::VERTICES).map(|(sizes, hops)| {
                let slots = (0u16..).map(SlotId).take(program.slots.len());
                let slots = slots.filter(|&slot| assigned.buffer(slot).is_some_and(|of| of.index() == at));
                let most = slots.map(|slot| sizes.rows(hops.slot(slot))).max().unwrap_or(0);
                most * u64::from(if is_short { places } else { parts })
            });
            let written = written.unwrap_or(rows.into()).min(rows.into());
            (RowBuffer { rows, width, format, written }, kept)
        };
        each.map(one).collect::<Vec<_>>()
    };
    let hops = Hops::from_program(program);
    let sizes = wanted.sizes.map(|sizes| (sizes, &hops));
    let assigned = Buffers::assign(schedule, parts, pipeline, format);
    let kept = like(&assigned, schedule, training.as_ref(), (&at_once, parts, sizes));
    let mut buffers: Vec<_> =
        kept.into_iter().flat_map(|(buffer, kept)| (0..kept).map(move |_| buffer)).collect();
    if evaluation.folds() || evaluation.is_never() {
        return buffers;
    }
    let mut spare: Vec<usize> = (0..buffers.len()).filter(|_| pipeline.row_versions() == 1).collect();
    let hops = Hops::from_program(&evaluation.program);
    let sizes = evaluation.part_sizes().map(|sizes| (sizes, &hops));
    let assigned = Buffers::assign(&evaluation.schedule, pieces, &Pipeline::default(), format);
    let in_flight = evaluation.folder().and_then(|_| evaluation.in_flight(wanted.threads));
    let of = (&Lanes::default(), pieces, sizes);
    for (mut buffer, _) in like(&assigned, &evaluation.schedule, evaluated.as_ref(), of) {
        let in_file = buffer.rows == inputs.shape.rows && buffer.format == RowFormat::F32;
        if let Some(steps) = in_flight.filter(|_| in_file) {
            // Only rows that are being written are in memory.
            buffer.written = buffer.written.min(u64::from(steps) * evaluation.longest(inputs));
            buffers.push(buffer);
            continue;
        }
        match spare.iter().position(|&at| buffers[at].is_like(&buffer)) {
            Some(found) => {
                let shared = &mut buffers[spare.swap_remove(found)];
                shared.written = shared.written.max(buffer.written);
            }
            None => buffers.push(buffer),
        }
    }
    buffers
}

/// Sizes of micro-batches, and the number of hops of each slot. `None` if a program reads all rows.
type Sizes<'a> = Option<(&'a PartSizes, &'a Hops)>;

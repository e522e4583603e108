//! Assignment of slots to buffers, so that slots can share memory.
//!
//! A slot (row buffer of the program) is free after the last stage that needs it. However,
//! independent stages of one interval (a run of rows that is scheduled as one unit) may run at the
//! same time, and intervals may run ahead of each other. Memory may therefore pass to a later slot
//! only if all stages that touch the earlier slot have ended *before the later slot's writer can
//! begin*.
//!
//! The dependencies of a stage S determine the stages that precede it (`Before`). A writer of rows
//! that S reads on its own interval precedes S on that interval. A writer of rows that S gathers
//! precedes S on every interval. The predecessors of these writers precede S as well.
//!
//! Memory passes to a later slot under two conditions. The writer and the own-interval readers of
//! the earlier slot precede the later writer on the same interval. Gathers of the earlier slot
//! precede the later writer on every interval. With one interval, both conditions are the same.
//!
//! Slots that gathers read are stored for several epochs if [`Pipeline::row_versions`] is above 1.
//! Such slots share no memory, because other intervals may read them long after their own interval
//! has moved on. Any other slot is read by its own interval only, so the rule of one interval holds
//! for it.

use crate::program::{Program, Scope, SlotOf, Stage};
use eciton_recipe::executor::RowFormat;
use eciton_recipe::pipeline::Pipeline;
use eciton_types::ids::{BufferId, DomainId, SlotId, StageId};

/// Set of stages, with one bit per stage number.
#[derive(Clone, Debug, Default)]
struct Stages(Vec<u64>);

impl Stages {
    fn insert(&mut self, stage: StageId) {
        let word = stage.index() / 64;
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (stage.index() % 64);
    }

    fn extend(&mut self, others: &Self) {
        if self.0.len() < others.0.len() {
            self.0.resize(others.0.len(), 0);
        }
        for (word, other) in self.0.iter_mut().zip(&others.0) {
            *word |= other;
        }
    }

    fn contains(&self, stage: StageId) -> bool {
        self.0.get(stage.index() / 64).is_some_and(|word| word >> (stage.index() % 64) & 1 == 1)
    }
}

/// The stages that have certainly ended when a given stage begins on an interval (a run of rows
/// that is scheduled as one unit).
#[derive(Clone, Debug, Default)]
struct Before {
    /// Stages that have ended on the same interval.
    own: Stages,
    /// Stages that have ended on every interval, the same interval included.
    all: Stages,
}

impl Before {
    /// Returns the predecessors of each stage, in the order of the stages. A program has at most a
    /// few thousand stages, so the sets take at most a few megabytes.
    fn from_program(program: &Program) -> Vec<Self> {
        let mut known: Vec<Self> = Vec::with_capacity(program.stages.len());
        for id in (0u16..).map(StageId).take(program.stages.len()) {
            let mut before = Self::default();
            for (needed, scope) in program.dependencies(id) {
                let Some(earlier) = known.get(needed.index()) else { continue };
                before.own.extend(&earlier.own);
                before.own.insert(needed);
                before.all.extend(&earlier.all);
                if scope == Scope::All {
                    before.all.extend(&earlier.own);
                    before.all.insert(needed);
                }
            }
            known.push(before);
        }
        known
    }
}

/// The assignment of a program's slots (row buffers) to memory buffers. Every slot has a buffer
/// except the features, which belong to the data set. Slots share a buffer only if they have the
/// same row width, storage format and domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buffers {
    of: Vec<Option<BufferId>>,
    widths: Vec<u32>,
    versions: Vec<u32>,
    formats: Vec<RowFormat>,
    domains: Vec<DomainId>,
}

impl Buffers {
    /// Returns the format in which the rows of a slot are stored, in a run with the row format
    /// `rows`. Activations and gradients have the format `rows`. Rows that a kernel stashes for
    /// backward stay f32, because the host does not know their content. Class scores, and slots of
    /// stages that need f32 ([`Stage::exact`]), stay f32 too.
    #[must_use]
    pub fn format(program: &Program, slot: SlotId, rows: RowFormat) -> RowFormat {
        let of = program.slots.get(slot.index()).map(|spec| spec.of);
        let exact = |stage: &Stage| stage.exact && stage.touches(slot);
        match of {
            _ if rows == RowFormat::Bf16 && program.stages.iter().any(exact) => RowFormat::F32,
            Some(SlotOf::Activation | SlotOf::Gradient) if program.scores != Some(slot) => rows,
            _ => RowFormat::F32,
        }
    }

    /// Assigns the slots of a program to buffers, for a run with `intervals` intervals and the row
    /// format `rows`. The assignment is the same for all numbers of intervals above 1.
    #[must_use]
    pub fn assign(program: &Program, intervals: u32, pipeline: &Pipeline, rows: RowFormat) -> Self {
        let kept = pipeline.row_versions();
        let mut gathered = vec![false; program.slots.len()];
        for (slot, _) in
            program.stages.iter().flat_map(Stage::reads).filter(|(_, scope)| *scope == Scope::All)
        {
            gathered[slot.index()] = kept > 1;
        }
        // For each slot, the stages that touch it. The writer is the first.
        let mut touched: Vec<Vec<(StageId, Scope)>> = Vec::with_capacity(program.slots.len());
        for spec in &program.slots {
            // A slot that outlasts the program is needed until the last stage.
            let ends = spec.written_by.into_iter().chain([spec.needed_until]);
            touched.push(ends.map(|stage| (stage, Scope::Own)).collect());
        }
        for (id, stage) in (0u16..).map(StageId).zip(&program.stages) {
            for (slot, scope) in stage.reads() {
                touched[slot.index()].push((id, scope));
            }
        }
        let before = Before::from_program(program);
        let apart = intervals <= 1 || kept > 1;
        let passed = |slot: usize, writer: StageId| {
            let before = &before[writer.index()];
            touched[slot].iter().all(|&(stage, scope)| match scope {
                Scope::All if !apart => before.all.contains(stage),
                _ => before.own.contains(stage),
            })
        };
        let mut buffers = Self {
            of: vec![None; program.slots.len()],
            widths: Vec::new(),
            versions: Vec::new(),
            formats: Vec::new(),
            domains: Vec::new(),
        };
        // The last slot of each buffer.
        let mut holds: Vec<usize> = Vec::new();
        let mut order: Vec<usize> = (0..program.slots.len()).collect();
        order.sort_by_key(|&slot| program.slots[slot].written_by);
        for slot in order {
            let spec = &program.slots[slot];
            let Some(writer) = spec.written_by else {
                continue;
            };
            let format =
                u16::try_from(slot).map_or(RowFormat::F32, |id| Self::format(program, SlotId(id), rows));
            let free = (0..holds.len()).filter(|&buffer| passed(holds[buffer], writer));
            let like = (spec.width, format, spec.domain);
            let mut free = free.filter(|&buffer| {
                (buffers.widths[buffer], buffers.formats[buffer], buffers.domains[buffer]) == like
            });
            let alone = |&buffer: &usize| !gathered[slot] && buffers.versions[buffer] == 1;
            let free = if kept > 1 { free.find(alone) } else { free.next() };
            let buffer = free.unwrap_or_else(|| {
                holds.push(slot);
                buffers.widths.push(spec.width);
                buffers.formats.push(format);
                buffers.domains.push(spec.domain);
                buffers.versions.push(if gathered[slot] { kept } else { 1 });
                holds.len() - 1
            });
            holds[buffer] = slot;
            // There are at most as many buffers as slots, whose ids have 16 bits.
            buffers.of[slot] = u16::try_from(buffer).ok().map(BufferId);
        }
        buffers
    }

    /// Returns the buffer that holds a slot, or `None` for the features.
    #[must_use]
    pub fn buffer(&self, slot: SlotId) -> Option<BufferId> {
        self.of.get(slot.index()).copied().flatten()
    }

    /// Returns the number of values in a row of each buffer, in the order of the buffers.
    #[must_use]
    pub fn widths(&self) -> &[u32] {
        &self.widths
    }

    /// Returns the number of epochs whose rows each buffer stores at the same time. A buffer has
    /// one copy of its rows per epoch.
    #[must_use]
    pub fn versions(&self) -> &[u32] {
        &self.versions
    }

    /// Returns the number of intervals whose rows each buffer stores at the same time, and the last
    /// stage that needs the buffer. `at_once` returns the number of intervals for which a stage
    /// needs stored rows. Rows that only lanes (shares of the pipeline on workers) touch exist from
    /// the first to the last step of their interval on these lanes.
    #[must_use]
    pub fn places(&self, program: &Program, at_once: impl Fn(&Stage) -> u32) -> Vec<(u32, StageId)> {
        let mut found = vec![(0, StageId(0)); self.widths.len()];
        for (id, stage) in (0u16..).map(StageId).zip(&program.stages) {
            for (slot, spec) in
                (0u16..).map(SlotId).zip(&program.slots).filter(|(slot, _)| stage.touches(*slot))
            {
                let buffer = self.buffer(slot).and_then(|buffer| found.get_mut(buffer.index()));
                if let Some((places, last)) = buffer {
                    *places = at_once(stage).max(*places);
                    *last = id.max(*last).max(spec.needed_until);
                }
            }
        }
        found
    }

    /// Returns a flag for each buffer, which is true if a stage reads rows of all intervals from it.
    #[must_use]
    pub fn gathered(&self, program: &Program) -> Vec<bool> {
        let mut gathered = vec![false; self.widths.len()];
        for slot in program.stages.iter().flat_map(Stage::all) {
            let buffer = self.buffer(slot).and_then(|buffer| gathered.get_mut(buffer.index()));
            buffer.into_iter().for_each(|gathered| *gathered = true);
        }
        gathered
    }

    /// Returns the storage format of the rows in each buffer.
    #[must_use]
    pub fn formats(&self) -> &[RowFormat] {
        &self.formats
    }

    /// Returns the domain of each buffer, which is the kind of its rows (for instance vertices or
    /// graphs).
    #[must_use]
    pub fn domains(&self) -> &[DomainId] {
        &self.domains
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::sample_programs::gcn;
    use crate::testing::Random;

    /// Step in flight, as (interval, stage).
    type Going = (usize, StageId);

    /// Runs `intervals` intervals through the program in random order under the engine's rule.
    /// Steps begin and end separately. The function checks that each step reads the rows that were
    /// written for it. It also checks that no two steps in flight touch the same memory, if one of
    /// them writes.
    fn simulate(program: &Program, buffers: &Buffers, intervals: usize, seed: u64) {
        let random = &mut Random::new(seed);
        let count = program.stages.len();
        // For each buffer and interval, the slot whose rows it holds.
        let mut memory: Vec<Vec<Option<SlotId>>> = vec![vec![None; intervals]; buffers.widths().len()];
        let mut done = vec![vec![false; count]; intervals];
        let mut begun = done.clone();
        let mut going: Vec<Going> = Vec::new();
        let ready = |done: &[Vec<bool>], i: usize, stage: StageId| {
            program.dependencies(stage).into_iter().all(|(before, scope)| match scope {
                Scope::Own => done[i][before.index()],
                Scope::All => done.iter().all(|done| done[before.index()]),
            })
        };
        // Memory that a step touches: buffer, interval, and the slot whose rows the step reads.
        let reads = |(i, stage): Going| {
            let all = program.stages[stage.index()].reads().flat_map(move |(slot, scope)| {
                let of = if scope == Scope::All { 0..intervals } else { i..i + 1 };
                of.filter_map(move |of| Some((buffers.buffer(slot)?.index(), of, slot)))
            });
            all.collect::<Vec<_>>()
        };
        let writes = |(i, stage): Going| {
            let slots = program.stages[stage.index()].writes();
            slots.map(|slot| (buffers.buffer(slot).unwrap().index(), i, slot)).collect::<Vec<_>>()
        };
        while done.iter().flatten().any(|done| !done) {
            let steps = (0..intervals).flat_map(|i| (0..count).map(move |s| (i, StageId(s as u16))));
            let able: Vec<Going> =
                steps.filter(|&(i, s)| !begun[i][s.index()] && ready(&done, i, s)).collect();
            assert!(!(able.is_empty() && going.is_empty()), "stuck, seed {seed}");
            if !able.is_empty() && (going.is_empty() || random.below(2) == 0) {
                let step = able[random.below(able.len() as u64) as usize];
                for (buffer, of, slot) in reads(step) {
                    assert_eq!(memory[buffer][of], Some(slot), "{step:?} reads {slot}, seed {seed}");
                }
                for other in going.iter().chain([&step]) {
                    let clash = |a: &[(usize, usize, SlotId)], b: &[(usize, usize, SlotId)]| {
                        a.iter().any(|a| b.iter().any(|b| (a.0, a.1) == (b.0, b.1)))
                    };
                    let apart = *other != step;
                    assert!(!clash(&writes(step), &reads(*other)), "{step:?}, {other:?}, seed {seed}");
                    assert!(!clash(&reads(step), &writes(*other)), "{step:?}, {other:?}, seed {seed}");
                    assert!(
                        !(apart && clash(&writes(step), &writes(*other))),
                        "{step:?}, {other:?}, seed {seed}"
                    );
                }
                begun[step.0][step.1.index()] = true;
                going.push(step);
            } else {
                let step = going.swap_remove(random.below(going.len() as u64) as usize);
                for (buffer, of, slot) in reads(step) {
                    assert_eq!(memory[buffer][of], Some(slot), "{step:?} has read {slot}, seed {seed}");
                }
                for (buffer, of, slot) in writes(step) {
                    memory[buffer][of] = Some(slot);
                }
                done[step.0][step.1.index()] = true;
            }
        }
        let outlasts = [program.scores, program.embeddings];
        for slot in outlasts.into_iter().flatten() {
            let buffer = buffers.buffer(slot).unwrap().index();
            assert!(memory[buffer].iter().all(|&by| by == Some(slot)), "slot {slot}, seed {seed}");
        }
    }

    /// Returns a program of random stages that read earlier slots, with few different widths. Some
    /// of the stages are gathers.
    fn random_program(random: &mut Random) -> Program {
        let mut program = gcn(1, 4, 4, 2);
        let like = program.stages[0].clone();
        (program.stages, program.losses) = (Vec::new(), Vec::new());
        program.slots.truncate(1);
        let count = 2 + random.below(30);
        for id in (0u16..).map(StageId).take(count as usize) {
            let known = program.slots.len() as u64;
            let mut any = |from: u64| SlotId((from + random.below(known - from)) as u16);
            let inputs: Vec<SlotId> = (0..1 + id.0 % 3).map(|_| any(0)).collect();
            let source = if known > 1 { any(1) } else { SlotId(0) };
            let gathers = known > 1 && random.below(3) == 0;
            let outputs = if gathers { 1 } else { 1 + random.below(2) };
            let first = program.slots.len() as u16;
            for _ in 0..outputs {
                let like = program.slots[0].clone();
                let width = 1 + random.below32(2);
                let (written_by, needed_until) = (Some(id), id);
                program.slots.push(crate::SlotSpec { width, written_by, needed_until, ..like });
            }
            let outputs: Vec<SlotId> = (first..).take(outputs as usize).map(SlotId).collect();
            let mut stage = like.clone();
            (stage.reads, stage.writes) = (Vec::new(), outputs.into_iter().map(Some).collect());
            match gathers {
                true => stage.read([source], Scope::All, crate::Port::Input),
                false => stage.read(inputs, Scope::Own, crate::Port::Input),
            }
            for (slot, _) in stage.reads() {
                program.slots[slot.index()].needed_until = id;
            }
            program.stages.push(stage);
        }
        program
    }

    #[test]
    fn no_row_is_overwritten_in_any_graph_of_stages() {
        let mut shared = 0;
        for seed in 0..400 {
            let program = random_program(&mut Random::new(seed));
            for intervals in [1, 2, 3] {
                let buffers = Buffers::assign(&program, intervals, &Pipeline::default(), RowFormat::F32);
                shared += program.slots.len() - 1 - buffers.widths().len();
                simulate(&program, &buffers, intervals as usize, seed);
            }
            // Intervals may be in different epochs, so only slots that no gather reads share memory.
            let buffers = Buffers::assign(&program, 3, &Pipeline::asynchronous(1), RowFormat::F32);
            let private = Buffers { versions: vec![1; buffers.versions.len()], ..buffers.clone() };
            simulate(&program, &private, 1, seed);
        }
        assert!(shared > 1000, "{shared} shared");
    }

    #[test]
    fn no_row_is_overwritten_in_any_model() {
        let (mut shared, mut slots) = (0, 0);
        for seed in 0..60 {
            let random = &mut Random::new(seed);
            let program = crate::sample_programs::random(random);
            let deep = crate::sample_programs::random_deep(random);
            let scores = [&program, &deep].map(|program| program.evaluation().without_embeddings());
            for program in
                [&program, &program.evaluation(), &scores[0], &deep, &deep.evaluation(), &scores[1]]
            {
                for intervals in [1, 4] {
                    let buffers = Buffers::assign(program, intervals, &Pipeline::default(), RowFormat::F32);
                    slots += program.slots.len();
                    shared += program.slots.len() - buffers.widths().len();
                    simulate(program, &buffers, intervals as usize, seed);
                }
            }
        }
        assert!(shared * 5 > slots * 2, "{shared} of {slots}");
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
            let buffer = buffers.buffer(SlotId(slot as u16)).unwrap().index();
            holders[buffer] += 1;
            assert_eq!(buffers.versions()[buffer], if gathered(slot) { 3 } else { 1 });
        }
        let shared = holders.iter().zip(buffers.versions()).filter(|(count, _)| **count > 1);
        let shared: Vec<_> = shared.collect();
        assert!(!shared.is_empty() && shared.iter().all(|(_, versions)| **versions == 1));
        // One interval, and several of which one runs ahead: both have the same rule, and rows
        // do not change before they are read.
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
            let all = half.formats().iter().all(|format| *format == RowFormat::Bf16);
            assert!(all && half.widths() == buffers.widths(), "all rows are activations or gradients");
            let shared: u32 = buffers.widths().iter().sum();
            assert!(shared * 10 < slots * 6, "{shared} of {slots}, {intervals} intervals");
            assert_eq!(buffers.buffer(program.features), None);
        }
    }

    #[test]
    fn scores_and_what_kernels_keep_stay_f32() {
        let mut program = gcn(2, 7, 1433, 7);
        let evaluation = program.evaluation();
        let scores = evaluation.scores.unwrap();
        let buffers = Buffers::assign(&evaluation, 1, &Pipeline::default(), RowFormat::Bf16);
        let of = |slot: SlotId| buffers.formats()[buffers.buffer(slot).unwrap().index()];
        assert_eq!(of(scores), RowFormat::F32);
        assert!(
            (1..evaluation.slots.len() as u16).map(SlotId).all(|s| s == scores || of(s) == RowFormat::Bf16)
        );
        program.slots[2].of = SlotOf::Stashed;
        let stored = [0, 1, 2].map(|slot| Buffers::format(&program, SlotId(slot), RowFormat::Bf16));
        assert_eq!(stored, [RowFormat::F32, RowFormat::Bf16, RowFormat::F32]);
    }
}

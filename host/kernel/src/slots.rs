//! Slots of a running call, which are buffers for rows that steps pass to later steps or to the
//! caller.
//!
//! If the rows of a slot are a result of the call, the slot uses the memory of their destination,
//! so that its step writes them in place. Other slots have memory from the first step that uses
//! them to the last one.

use std::ops::Range;

use eciton_gather::{EdgeWeights, Gather, Reduce, Sources};
use eciton_tensor::half::{HalfBuffer, ReadHalf};
use eciton_tensor::{Buffer, Matrix, ReadRows};
use eciton_types::Normalisation;

use crate::call::{Call, CallStep, GatherStep, Given, Local, Operand, Target, Write};
use crate::error::{Error, Result};

const PLACE: &str = "a call";

fn tensor(source: eciton_tensor::Error) -> Error {
    Error::Tensor { place: PLACE.to_owned(), source }
}

fn refuse<T>(reason: impl Into<String>) -> Result<T> {
    Err(Error::Wire { place: PLACE.to_owned(), reason: reason.into() })
}

/// Memory of a slot, which is a range of rows of a buffer.
#[derive(Debug)]
enum Stored {
    F32(Buffer, Range<usize>),
    Half(HalfBuffer, Range<usize>),
}

/// Translates the range `wanted` of a slot's rows to row indices of its buffer. `slot` is the range
/// of the buffer that belongs to the slot.
fn among(slot: &Range<usize>, wanted: Range<usize>) -> Result<Range<usize>> {
    match wanted.end <= slot.len() {
        true => Ok(slot.start + wanted.start..slot.start + wanted.end),
        false => Err(tensor(eciton_tensor::Error::OutOfRange { rows: wanted, available: slot.len() })),
    }
}

/// Lease on rows that a step reads, which prevents writes to them.
enum Leased {
    F32(ReadRows),
    Half(ReadHalf),
}

/// Slot of a running call, with its memory.
#[derive(Debug)]
struct Slot {
    spec: Local,
    made: Option<Stored>,
    /// Memory of the destination, if the rows are a result of the call and the slot can be written
    /// there directly.
    home: Option<Stored>,
    /// Index of the last step that uses the slot. It is `usize::MAX` if the rows are a result of
    /// the call.
    last: usize,
}

/// Slots of a running call, and the matrices from outside the call.
#[derive(Debug)]
pub(crate) struct Slots {
    given: Vec<Given>,
    slots: Vec<Slot>,
    /// Slots whose rows are copied to their destinations after all steps.
    outs: Vec<(u32, Target)>,
}

impl Slots {
    /// Creates the slots of a call, and returns them together with the call's steps.
    pub(crate) fn new(call: Call) -> Result<(Self, Vec<CallStep>)> {
        if let Some((slot, kept)) = call.keeps.first() {
            return refuse(format!(
                "slot {slot} must be stored as {}, but only a worker stores rows",
                kept.key
            ));
        }
        if let Some((sum, of)) = call.holds.first() {
            return refuse(format!(
                "sum {sum} of parameter {of} must be stored, but only a worker stores sums"
            ));
        }
        let new = |spec| Slot { spec, made: None, home: None, last: 0 };
        let all = call.slots.into_iter().map(new).collect();
        let mut slots = Self { given: call.given, slots: all, outs: Vec::new() };
        for (at, step) in call.steps.iter().enumerate() {
            step.slots(|slot| slots.note(slot, at));
        }
        for (slot, target) in call.outs {
            slots.note(slot, usize::MAX);
            slots.place(slot, target);
        }
        Ok((slots, call.steps))
    }

    fn note(&mut self, slot: u32, at: usize) {
        if let Some(slot) = self.slots.get_mut(slot as usize) {
            slot.last = at;
        }
    }

    /// Uses the memory of `target` for a slot if size and format match. Otherwise the slot's rows
    /// are copied to `target` after the last step.
    fn place(&mut self, slot: u32, target: Target) {
        let (rows, _) = target.shape();
        if let Some(Slot { spec, home: home @ None, .. }) = self.slots.get_mut(slot as usize)
            && spec.from.is_none()
            && spec.rows == rows
        {
            *home = match &target {
                Target::Rows { rows, .. } if !spec.half => {
                    let (buffer, rows) = rows.location();
                    Some(Stored::F32(buffer, rows))
                }
                Target::Half { rows, .. } if spec.half => {
                    let (buffer, rows) = rows.location();
                    Some(Stored::Half(buffer, rows))
                }
                _ => None,
            };
            // The write lease on the target ends here, because each step takes its own.
            if home.is_some() {
                return;
            }
        }
        self.outs.push((slot, target));
    }

    /// Returns the memory of a slot, which is allocated at its first use. If the memory belongs to
    /// a destination, rows from index `writes` on are set to zero at first use.
    fn get(&mut self, slot: u32, writes: Option<usize>) -> Result<&Stored> {
        let Some(Slot { spec, made, home, .. }) = self.slots.get_mut(slot as usize) else {
            return refuse(format!("slot {slot} does not exist"));
        };
        let stored = match made.take() {
            Some(stored) => stored,
            None => match home.take() {
                Some(home) => home.cleared(writes.unwrap_or(0)..spec.rows)?,
                None => Stored::new(spec)?,
            },
        };
        Ok(made.insert(stored))
    }

    pub(crate) fn matrix(&mut self, operand: Operand) -> Result<Matrix> {
        match operand {
            Operand::Given(at) => match self.given.get(at as usize) {
                Some(Given::Here(matrix)) => Ok(matrix.clone()),
                Some(Given::Cached(kept)) => refuse(format!("the rows {} are stored on a worker", kept.key)),
                None => refuse(format!("matrix {at} does not exist")),
            },
            Operand::Local { slot, rows, extents } => {
                let matrix: Matrix = match self.get(slot, None)?.read(rows)? {
                    Leased::F32(rows) => rows.into(),
                    Leased::Half(rows) => rows.into(),
                };
                matrix.with_extents(&extents).map_err(tensor)
            }
        }
    }

    pub(crate) fn target(&mut self, write: Write, rows: usize) -> Result<Target> {
        let Write { slot, extents } = write;
        Ok(match self.get(slot, Some(rows))? {
            Stored::F32(buffer, slot) => {
                Target::Rows { rows: buffer.write(among(slot, 0..rows)?).map_err(tensor)?, extents }
            }
            Stored::Half(buffer, slot) => {
                Target::Half { rows: buffer.write(among(slot, 0..rows)?).map_err(tensor)?, extents }
            }
        })
    }

    pub(crate) fn gather(&mut self, step: &GatherStep) -> Result<()> {
        let sums = step.sums()?;
        // The source rows are leased, so that both slots can be borrowed at once.
        let from = self.get(step.from, None)?.read(step.lists.adjacency().vertices() as usize)?;
        let sources: Sources<'_> = match &from {
            Leased::F32(lease) => lease.view().into(),
            Leased::Half(lease) => lease.view().into(),
        };
        match self.get(step.into, Some(step.rows))? {
            Stored::F32(buffer, slot) => {
                let mut to = buffer.write(among(slot, 0..step.rows)?).map_err(tensor)?;
                sums.run(sources, 0..step.rows, &mut to.view_mut());
            }
            Stored::Half(buffer, slot) => {
                let mut to = buffer.write(among(slot, 0..step.rows)?).map_err(tensor)?;
                sums.run_half(sources, 0..step.rows, &mut to.view_mut()).map_err(tensor)?;
            }
        }
        Ok(())
    }

    /// Frees the memory of the slots whose last user is the step at index `at`.
    pub(crate) fn end(&mut self, at: usize) {
        self.slots.iter_mut().filter(|slot| slot.last == at).for_each(|slot| slot.made = None);
    }

    /// Copies rows to their destinations, unless they were written there directly.
    pub(crate) fn finish(mut self) -> Result<()> {
        if let Some(slot) = self.slots.iter().position(|slot| slot.home.is_some()) {
            return refuse(format!("the rows of slot {slot} leave the call, but no step writes them"));
        }
        for (slot, target) in std::mem::take(&mut self.outs) {
            self.put(slot, target)?;
        }
        Ok(())
    }

    fn put(&mut self, slot: u32, target: Target) -> Result<()> {
        let (count, _) = target.shape();
        let from = self.get(slot, None)?.read(count)?;
        match (from, target) {
            (Leased::F32(from), Target::Rows { mut rows, .. }) => {
                let (from, mut to) = (from.view(), rows.view_mut());
                (0..count).for_each(|row| to.row_mut(row).copy_from_slice(from.row(row)));
            }
            (Leased::F32(from), Target::Half { mut rows, .. }) => {
                rows.view_mut().round_from(from.view()).map_err(tensor)?;
            }
            (Leased::Half(from), Target::Half { mut rows, .. }) => {
                let (from, mut to) = (from.view(), rows.view_mut());
                (0..count).for_each(|row| to.row_mut(row).copy_from_slice(from.row(row)));
            }
            (Leased::Half(from), Target::Rows { mut rows, .. }) => {
                from.view().widen_to(&mut rows.view_mut()).map_err(tensor)?;
            }
            (_, Target::Sums { .. }) => {
                return refuse(format!("the rows of slot {slot} cannot leave the call as a sum"));
            }
        }
        Ok(())
    }
}

impl Stored {
    fn new(spec: &mut Local) -> Result<Self> {
        let (rows, columns) = (spec.rows, spec.columns);
        let Some(from) = spec.from.take() else {
            return Ok(match spec.half {
                false => Self::F32(Buffer::zeroed(rows, columns).map_err(tensor)?, 0..rows),
                true => Self::Half(HalfBuffer::zeroed(rows, columns).map_err(tensor)?, 0..rows),
            });
        };
        let mut values = Vec::new();
        from.read_rows(0, rows, None, &mut values).map_err(tensor)?;
        Ok(match spec.half {
            false => Self::F32(Buffer::from_rows(rows, columns, &values).map_err(tensor)?, 0..rows),
            true => Self::Half(HalfBuffer::from_rows(rows, columns, &values).map_err(tensor)?, 0..rows),
        })
    }

    fn read(&self, rows: usize) -> Result<Leased> {
        Ok(match self {
            Self::F32(buffer, slot) => Leased::F32(buffer.read(among(slot, 0..rows)?).map_err(tensor)?),
            Self::Half(buffer, slot) => Leased::Half(buffer.read(among(slot, 0..rows)?).map_err(tensor)?),
        })
    }

    /// Sets the rows of the range `rows` to zero.
    fn cleared(self, rows: Range<usize>) -> Result<Self> {
        match &self {
            _ if rows.is_empty() => {}
            Self::F32(buffer, slot) => {
                let mut rows = buffer.write(among(slot, rows)?).map_err(tensor)?;
                let mut view = rows.view_mut();
                (0..view.rows()).for_each(|row| view.row_mut(row).fill(0.0));
            }
            Self::Half(buffer, slot) => {
                let mut rows = buffer.write(among(slot, rows)?).map_err(tensor)?;
                let mut view = rows.view_mut();
                (0..view.rows()).for_each(|row| view.row_mut(row).fill(0));
            }
        }
        Ok(self)
    }
}

impl GatherStep {
    fn sums(&self) -> Result<Gather<'_>> {
        let lists = self.lists.adjacency();
        let factors = || match self.lists.factors.as_deref() {
            Some(factors) => Ok(factors),
            None => {
                refuse(format!("a gather with normalisation {} has no factors", self.normalisation.name()))
            }
        };
        let sums = match (self.normalisation, self.reversed) {
            (Normalisation::Symmetric, _) => {
                Gather::new(lists, Reduce::Sum).weighted(EdgeWeights::Symmetric(factors()?)).with_self()
            }
            (Normalisation::Mean, false) => Gather::new(lists, Reduce::Mean),
            // The gradient of each target is divided by its degree, then the sum over targets is
            // taken.
            (Normalisation::Mean, true) => Gather::new(lists, Reduce::Sum).with_source_scale(factors()?),
            (Normalisation::Sum, _) => Gather::new(lists, Reduce::Sum),
        };
        Ok(match &self.lists.weights {
            None => sums,
            Some(values) => sums.weighted(EdgeWeights::Values(values, None)),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use eciton_gather::adjacency::{Adjacency, Graph};
    use eciton_types::Normalisation;

    use super::*;
    use crate::call::GatherLists;
    use crate::instance::Instances;

    const COLUMNS: usize = 3;

    /// Returns a call with one gather over three rows, where each row reads the next one, from slot
    /// 0 to slot 1 of `rows` rows.
    fn call(rows: usize, half: bool, outs: Vec<(u32, Target)>) -> Call {
        let lists = Adjacency::from_parts(vec![0, 1, 2, 3], vec![1, 2, 0]).unwrap();
        let graph = Arc::new(Graph::from_parts(lists, None).unwrap());
        let lists = Arc::new(GatherLists { graph, outgoing: false, factors: None, weights: None });
        let values: Vec<f32> = (0..9u8).map(f32::from).collect();
        let from = Buffer::from_rows(3, COLUMNS, &values).unwrap().read(0..3).unwrap().into();
        let slot = |rows, half, from| Local { rows, columns: COLUMNS, half, from };
        let (normalisation, reversed) = (Normalisation::Sum, false);
        let gather = GatherStep { normalisation, reversed, lists, from: 0, into: 1, rows: 2 };
        let slots = vec![slot(3, false, Some(from)), slot(rows, half, None)];
        Call { slots, steps: vec![CallStep::Gather(gather)], outs, ..Call::default() }
    }

    fn target(into: &Buffer, rows: Range<usize>) -> Target {
        Target::Rows { rows: into.write(rows).unwrap(), extents: vec![COLUMNS as u32] }
    }

    #[test]
    fn rows_that_leave_are_written_where_they_go_and_the_others_are_zeros() {
        let sums = [3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
        for (rows, half) in [(2, false), (3, false), (3, true)] {
            let (into, also) = (Buffer::zeroed(8, COLUMNS).unwrap(), Buffer::zeroed(2, COLUMNS).unwrap());
            into.write(0..8).unwrap().view_mut().data_mut().fill(9.0);
            let outs = vec![(1, target(&into, 4..4 + rows)), (1, target(&also, 0..2))];
            Instances::new(false).run(call(rows, half, outs)).unwrap();
            let zeros = vec![0.0; (rows - 2) * COLUMNS];
            let around = |rows: usize| vec![9.0; rows * COLUMNS];
            let wanted = [&around(4)[..], &sums, &zeros, &around(4 - rows)].concat();
            assert_eq!(into.to_vec().unwrap(), wanted, "{rows} rows, half {half}");
            assert_eq!(also.to_vec().unwrap(), sums);
        }
    }

    #[test]
    fn calls_that_contradict_themselves_are_refused() {
        let into = Buffer::zeroed(4, COLUMNS).unwrap();
        let refused = |call: Call, words: &str| {
            let error = Instances::new(false).run(call).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        };
        refused(call(1, false, Vec::new()), "rows 0..2");
        // A slot does not own the rows next to its destination.
        refused(call(1, false, vec![(1, target(&into, 0..1))]), "rows 0..2");
        refused(call(2, false, vec![(5, target(&into, 0..2))]), "slot 5 does not exist");
        let mut unwritten = call(2, false, vec![(2, target(&into, 0..2))]);
        unwritten.slots.push(Local { rows: 2, columns: COLUMNS, half: false, from: None });
        refused(unwritten, "no step writes them");
    }
}

//! State of one task on the host, with its handles, scratch matrices, statistics and error
//! messages.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use eciton_tensor::ops::product::Scratch;
use eciton_tensor::random::{Key, Purpose};
use eciton_tensor::{Buffer, Grid, Matrix};

use crate::limits::Limits;
use crate::outs::{Laid, Place};

/// Marker type for the handle of a matrix, which is an index into [`State::matrices`].
#[derive(Debug)]
#[expect(unreachable_pub, reason = "the generated bindings re-export it")]
pub struct MatrixHandle;
/// Marker type for the handle of an output, which is an index into [`State::outs`].
#[derive(Debug)]
#[expect(unreachable_pub, reason = "the generated bindings re-export it")]
pub struct OutHandle;
/// Marker type for the handle of a list of ids, which is an index into [`State::ids`].
#[derive(Debug)]
#[expect(unreachable_pub, reason = "the generated bindings re-export it")]
pub struct IdsHandle;

/// Typed error of a host function, before its conversion to the contract's error type.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Failure {
    Shape {
        operation: String,
        operand: String,
        expected: Vec<u32>,
        found: Vec<u32>,
    },
    Argument(String),
    Limit {
        limit: &'static str,
        unit: &'static str,
        allowed: u64,
        asked: u64,
    },
    Deadline(String),
    Unsupported(String),
    /// The task has exceeded its time limit. The guest is interrupted and receives no error.
    OutOfTime,
}

impl From<eciton_tensor::Error> for Failure {
    fn from(e: eciton_tensor::Error) -> Self {
        use eciton_tensor::Error as E;
        match e {
            E::Shape { operation, operand, expected, found } => {
                Self::Shape { operation: operation.to_owned(), operand: operand.to_owned(), expected, found }
            }
            E::Unsupported { .. } => Self::Unsupported(e.to_string()),
            E::NotArrived { .. } => Self::Deadline(e.to_string()),
            other => Self::Argument(other.to_string()),
        }
    }
}

/// Table from handles to values. Free handles are reused.
#[derive(Debug)]
pub(crate) struct Table<T> {
    slots: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Table<T> {
    pub(crate) fn alive(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(crate) fn push(&mut self, value: T) -> u32 {
        match self.free.pop() {
            Some(at) => {
                self.slots[at as usize] = Some(value);
                at
            }
            None => {
                self.slots.push(Some(value));
                self.slots.len() as u32 - 1
            }
        }
    }

    pub(crate) fn get(&self, at: u32) -> Option<&T> {
        self.slots.get(at as usize).and_then(Option::as_ref)
    }

    pub(crate) fn take(&mut self, at: u32) -> Option<T> {
        let value = self.slots.get_mut(at as usize).and_then(Option::take);
        if value.is_some() {
            self.free.push(at);
        }
        value
    }

    pub(crate) fn clear(&mut self) {
        self.slots.clear();
        self.free.clear();
    }
}

/// View of consecutive rows of an output, which a kernel's handle refers to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OutView {
    /// Index of the output in [`State::places`].
    pub place: usize,
    pub start: usize,
    pub count: usize,
    /// True if the view covers all rows of the output.
    pub whole: bool,
    pub laid: Laid,
}

/// Data that a kernel can request in addition to the arguments of its function.
#[derive(Debug, Default)]
pub(crate) struct Given {
    /// Loss weight of each row, of shape `[n, 1]`. If `None`, every weight is 1.
    pub row_weights: Option<Matrix>,
    /// True if there are row weights that the kernel has not yet requested. A task that ends in
    /// this state fails, because its loss ignores the weights.
    pub to_ask: bool,
}

/// Global vertex ids of the rows of an interval (a contiguous range of vertices).
#[derive(Debug, Clone)]
pub enum RowNumbers {
    /// Consecutive ids, of which this is the first.
    From(u64),
    /// List of ids, one per row.
    List(Arc<[u64]>),
}

/// Log and statistics of a finished task. The task's rows and sums are already in their
/// destinations.
#[derive(Debug, Default)]
pub struct Finished {
    /// Lines that the kernel wrote to the log, in order.
    pub log: Vec<String>,
    /// Size of the instance's linear memory after the task, in bytes.
    pub guest_memory_bytes: usize,
    /// Number of bytes that were copied between the host and the guest's memory.
    pub copied_bytes: u64,
    /// Peak use of limited resources. All fields are zero if the task ran on another machine.
    pub peak: Peak,
}

impl Finished {
    /// Adds the log and the statistics of a further step of the call.
    pub(crate) fn add(&mut self, other: Self) {
        self.log.extend(other.log);
        self.guest_memory_bytes = self.guest_memory_bytes.max(other.guest_memory_bytes);
        self.copied_bytes += other.copied_bytes;
        self.peak = self.peak.max(other.peak);
    }
}

/// Peak use of limited resources by a task, or by one block of an edge kernel's edges.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Peak {
    /// Total size of the scratch matrices that the task allocated, in bytes (`matrix-bytes`).
    pub matrix_bytes: u64,
    /// Maximum number of handles at the same time (`handles`).
    pub handles: u64,
    /// Maximum number of bytes that one host call copied (`call-bytes`).
    pub call_bytes: u64,
}

impl Peak {
    /// Returns the larger value of each field.
    pub fn max(self, other: Self) -> Self {
        Self {
            matrix_bytes: self.matrix_bytes.max(other.matrix_bytes),
            handles: self.handles.max(other.handles),
            call_bytes: self.call_bytes.max(other.call_bytes),
        }
    }
}

/// State of the task that a kernel instance is running.
#[derive(Debug)]
pub(crate) struct State {
    pub limits: Limits,
    /// Tick counter that interrupts the guest, and the count at which the task's deadline is
    /// reached.
    clock: Option<(Arc<AtomicU64>, u64)>,
    pub matrices: Table<Matrix>,
    pub outs: Table<OutView>,
    pub ids: Table<Arc<[u32]>>,
    pub places: Vec<Option<Place>>,
    pub grid: Arc<Grid>,
    pub row_numbers: RowNumbers,
    /// Data that the guest may request. It is `None` for edge kernels and outside of tasks.
    pub given: Option<Given>,
    pub seed: u64,
    pub epoch: u32,
    pub layer: u32,
    pub training: bool,
    pub scratch: Scratch,
    pub scratch_bytes: u64,
    /// Minimum number of rows for which a scratch buffer is allocated. Blocks of a task differ in
    /// length, but can share buffers of this size. Longer buffers, which a vertex with many edges
    /// needs, are not reused. If it is 0, buffers have the requested size and are reused.
    pub scratch_rows: usize,
    /// Unused buffers of scratch matrices, which later tasks of the same shape reuse.
    pub spare: Vec<Buffer>,
    /// Unused f32 buffers for rows that are stored as bfloat16. Buffers in use by the current task
    /// are in `wide_used`.
    pub wide: Vec<Buffer>,
    pub wide_used: Vec<Buffer>,
    pub log: Vec<String>,
    pub log_bytes: u64,
    pub panic: Option<String>,
    /// Description of the resource limit that caused a trap.
    pub limit_hit: Option<String>,
    pub memory_bytes: usize,
    /// Number of bytes that were copied between the host and the guest's memory.
    pub copied_bytes: u64,
    pub peak: Peak,
}

/// Maximum number of f32 buffers for bfloat16 rows that an instance caches. A layer with one input
/// needs three at a time.
const WIDE_LIMIT: usize = 6;
/// Maximum number of unused scratch buffers that an instance caches.
const SPARE_LIMIT: usize = 32;

impl State {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            clock: None,
            matrices: Table::default(),
            outs: Table::default(),
            ids: Table::default(),
            places: Vec::new(),
            grid: Arc::new(Grid::single(0)),
            row_numbers: RowNumbers::From(0),
            given: None,
            seed: 0,
            epoch: 0,
            layer: 0,
            training: false,
            scratch: Scratch::default(),
            scratch_bytes: 0,
            scratch_rows: 0,
            spare: Vec::new(),
            wide: Vec::new(),
            wide_used: Vec::new(),
            log: Vec::new(),
            log_bytes: 0,
            panic: None,
            limit_hit: None,
            memory_bytes: 0,
            copied_bytes: 0,
            peak: Peak::default(),
        }
    }

    /// Removes everything that belongs to the last task, including its handles and its log.
    pub(crate) fn reset(&mut self) {
        self.matrices.clear();
        self.outs.clear();
        self.ids.clear();
        for place in self.places.drain(..).flatten() {
            if let Place::Rows { scratch: Some(buffer), .. } = place {
                keep_spare(&mut self.spare, self.scratch_rows, buffer);
            }
        }
        let kept = self.wide_used.len().min(WIDE_LIMIT);
        let excess = (self.wide.len() + kept).saturating_sub(WIDE_LIMIT);
        self.wide.drain(..excess.min(self.wide.len()));
        self.wide.extend(self.wide_used.drain(..).take(kept));
        (self.scratch_bytes, self.copied_bytes, self.peak) = (0, 0, Peak::default());
        self.given = None;
        self.log.clear();
        self.log_bytes = 0;
        self.panic = None;
        self.limit_hit = None;
    }

    /// Returns a buffer for at least `rows` rows of f32, which the task uses until its end.
    /// Intervals differ in length, so the longest buffer of each width is cached.
    pub(crate) fn wide(&mut self, rows: usize, columns: usize) -> eciton_tensor::Result<Buffer> {
        let found = match self.wide.iter().position(|b| b.columns() == columns && b.rows() >= rows) {
            Some(at) => self.wide.swap_remove(at),
            None => {
                if let Some(shorter) = self.wide.iter().position(|b| b.columns() == columns) {
                    self.wide.swap_remove(shorter);
                }
                Buffer::zeroed(rows, columns)?
            }
        };
        self.wide_used.push(found.clone());
        Ok(found)
    }

    /// Sets the deadline of the task to `ticks` ticks from now.
    pub(crate) fn ends(&mut self, clock: &Arc<AtomicU64>, ticks: u64) {
        let end = clock.load(Ordering::Relaxed).saturating_add(ticks);
        self.clock = Some((clock.clone(), end));
    }

    /// Returns an error if the task's deadline has passed. Host calls need this check, because the
    /// clock interrupts only guest code.
    pub(crate) fn in_time(&self) -> Result<(), wasmtime::Trap> {
        match &self.clock {
            Some((clock, end)) if clock.load(Ordering::Relaxed) >= *end => Err(wasmtime::Trap::Interrupt),
            _ => Ok(()),
        }
    }

    /// Returns [`Failure::OutOfTime`] if the task's deadline has passed.
    pub(crate) fn check_time(&self) -> Result<(), Failure> {
        self.in_time().map_err(|_| Failure::OutOfTime)
    }

    /// Returns the number of handles that the guest holds.
    pub(crate) fn handles(&self) -> usize {
        self.matrices.alive() + self.outs.alive() + self.ids.alive()
    }

    /// Checks the limit on handles, for a task that is about to get one more.
    pub(crate) fn check_handles(&mut self) -> Result<(), Failure> {
        self.check_time()?;
        let asked = self.handles() as u64 + 1;
        limit("handles", "handles", u64::from(self.limits.handles), asked)?;
        self.peak.handles = self.peak.handles.max(asked);
        Ok(())
    }

    /// Checks that one host call may copy `bytes` bytes between host and guest.
    pub(crate) fn check_copy(&mut self, bytes: u64) -> Result<(), Failure> {
        self.check_time()?;
        limit("call-bytes", "bytes", self.limits.call_bytes, bytes)?;
        self.peak.call_bytes = self.peak.call_bytes.max(bytes);
        Ok(())
    }

    pub(crate) fn push_matrix(&mut self, matrix: Matrix) -> Result<u32, Failure> {
        self.check_handles()?;
        Ok(self.matrices.push(matrix))
    }

    pub(crate) fn matrix(&self, handle: u32) -> Result<&Matrix, Failure> {
        self.matrices
            .get(handle)
            .ok_or_else(|| Failure::Argument(format!("matrix handle {handle} does not belong to this task")))
    }

    pub(crate) fn ids(&self, handle: u32) -> Result<&Arc<[u32]>, Failure> {
        self.ids
            .get(handle)
            .ok_or_else(|| Failure::Argument(format!("ids handle {handle} does not belong to this task")))
    }

    pub(crate) fn out(&self, handle: u32) -> Result<OutView, Failure> {
        let view = self.outs.get(handle).copied();
        view.ok_or_else(|| Failure::Argument(format!("out handle {handle} does not belong to this task")))
    }

    pub(crate) fn place(&self, view: OutView) -> Result<&Place, Failure> {
        let place = self.places.get(view.place).and_then(Option::as_ref);
        place.ok_or_else(|| Failure::Argument("this output is already finished".to_owned()))
    }

    /// Returns the extents of an output. For rows, the first extent is the number of rows.
    pub(crate) fn out_shape(&self, handle: u32) -> Result<Vec<u32>, Failure> {
        let view = self.out(handle)?;
        let mut shape = self.place(view)?.shape();
        if view.laid != Laid::AsTheyAre {
            let columns = shape.iter().skip(1).map(|&e| e as usize).product();
            let (rows, columns) = view.laid.extents(view.count, columns);
            return Ok(vec![rows as u32, columns as u32]);
        }
        if !view.whole
            && let Some(rows) = shape.first_mut()
        {
            *rows = view.count as u32;
        }
        Ok(shape)
    }

    /// Returns a handle of the row weights, or `None` if every weight is 1.
    pub(crate) fn ask_row_weights(&mut self) -> Result<Option<u32>, Failure> {
        let given = self.given.as_mut().ok_or_else(|| {
            Failure::Unsupported(
                "row-weights: only a task of a vertex kernel has row weights; request them in `loss`"
                    .to_owned(),
            )
        })?;
        given.to_ask = false;
        given.row_weights.clone().map(|weights| self.push_matrix(weights)).transpose()
    }

    /// Returns the grid that fixes the order of a sum over `rows` rows. If an operation has split
    /// or grouped the interval's rows, the atoms of the grid are scaled accordingly.
    pub(crate) fn grid_of(&self, operation: &str, rows: usize) -> Result<Arc<Grid>, Failure> {
        let interval = self.grid.rows();
        if rows == interval {
            return Ok(self.grid.clone());
        }
        let scaled = match (self.given.is_some(), rows.checked_rem(interval), interval.checked_rem(rows)) {
            (true, Some(0), _) => self.grid.cut((rows / interval) as u32),
            (true, _, Some(0)) => self.grid.joined((interval / rows) as u32),
            _ => None,
        };
        scaled.map(Arc::new).ok_or_else(|| Failure::Shape {
            operation: operation.to_owned(),
            operand: "rows summed (the interval's)".to_owned(),
            expected: vec![interval as u32],
            found: vec![rows as u32],
        })
    }

    /// Returns the number of rows and columns after the layout `laid` has been applied to a matrix
    /// or an output. Returns an error if the rows cannot be divided evenly.
    pub(crate) fn other_rows(
        operation: &str,
        laid: Laid,
        rows: usize,
        columns: usize,
    ) -> Result<(usize, usize), Failure> {
        let (whole, t) = match laid {
            Laid::AsTheyAre => (0, 1),
            Laid::Split(t) => (columns, t),
            Laid::Grouped(t) => (rows, t),
        };
        // Splitting increases the number of rows, joining the number of columns.
        let more = match laid {
            Laid::Grouped(_) => columns.saturating_mul(t as usize),
            Laid::Split(_) | Laid::AsTheyAre => rows.saturating_mul(t as usize),
        };
        let fits = u32::try_from(more).is_ok();
        if whole.checked_rem(t as usize) != Some(0) || !fits {
            return Err(Failure::Shape {
                operation: operation.to_owned(),
                operand: format!("x (t = {t})"),
                expected: match laid {
                    Laid::Split(_) => vec![rows as u32, t],
                    _ => vec![t, columns as u32],
                },
                found: vec![rows as u32, columns as u32],
            });
        }
        Ok(laid.extents(rows, columns))
    }

    /// Allocates a scratch matrix of the given shape, and returns its output handle.
    pub(crate) fn create_out(&mut self, shape: &[u32]) -> Result<u32, Failure> {
        self.check_handles()?;
        let (Some(&rows), 1..=4) = (shape.first(), shape.len()) else {
            return Err(Failure::Argument(format!(
                "create: got {} extents, but one to four are required",
                shape.len()
            )));
        };
        let extents = if shape.len() == 1 { vec![1] } else { shape[1..].to_vec() };
        let columns = extents.iter().try_fold(1u64, |n, &e| n.checked_mul(u64::from(e))).unwrap_or(u64::MAX);
        let bytes = u64::from(rows).saturating_mul(columns).saturating_mul(4);
        let asked = self.scratch_bytes.saturating_add(bytes);
        limit("matrix-bytes", "bytes", self.limits.matrix_bytes, asked)?;
        let (rows, columns) = (rows as usize, columns as usize);
        // A spare buffer that has no readers is reused. Otherwise a new one is allocated.
        let room = rows.max(self.scratch_rows);
        let fits = |b: &Buffer| b.rows() == room && b.columns() == columns && b.write(0..rows).is_ok();
        let buffer = match self.spare.iter().position(fits).map(|at| self.spare.swap_remove(at)) {
            Some(buffer) => buffer,
            None => Buffer::zeroed(room, columns)?,
        };
        (self.scratch_bytes, self.peak.matrix_bytes) = (asked, asked);
        let place = Place::Rows {
            rows: buffer.write(0..rows)?,
            count: rows,
            extents,
            written: Default::default(),
            scratch: Some(buffer),
            rounds: None,
        };
        self.places.push(Some(place));
        let place = self.places.len() - 1;
        Ok(self.outs.push(OutView { place, start: 0, count: rows, whole: true, laid: Laid::AsTheyAre }))
    }

    /// Ends the writing of a scratch matrix, and returns a handle with which it is read.
    pub(crate) fn finish_out(&mut self, handle: u32) -> Result<u32, Failure> {
        let view = self.out(handle)?;
        self.outs.take(handle);
        let place = self.place(view)?;
        if !matches!(place, Place::Rows { scratch: Some(_), .. }) || !view.whole {
            return Err(Failure::Argument("finish: only a whole scratch matrix can be finished".to_owned()));
        }
        if let Some(what) = place.unwritten() {
            return Err(Failure::Argument(format!("finish: {what}")));
        }
        let Some(Place::Rows { rows, extents, scratch, .. }) = self.places[view.place].take() else {
            return Err(Failure::Argument("finish: already finished".to_owned()));
        };
        let matrix = Matrix::from(rows.into_read()).with_extents(&extents)?;
        if let Some(buffer) = scratch {
            // The matrix holds a lease on the buffer. The lease has ended by the time a later task
            // looks for a buffer.
            keep_spare(&mut self.spare, self.scratch_rows, buffer);
        }
        self.push_matrix(matrix)
    }

    /// Returns the key from which the task's random numbers for `purpose` are derived. `stream`
    /// distinguishes independent sequences of one layer.
    pub(crate) fn key(&self, purpose: Purpose, stream: u32) -> Key {
        Key::new(self.seed, purpose, self.epoch, self.layer, stream)
    }
}

fn keep_spare(spare: &mut Vec<Buffer>, most: usize, buffer: Buffer) {
    if most > 0 && buffer.rows() > most {
        return;
    }
    if spare.len() == SPARE_LIMIT {
        spare.remove(0);
    }
    spare.push(buffer);
}

pub(crate) fn limit(name: &'static str, unit: &'static str, allowed: u64, asked: u64) -> Result<(), Failure> {
    if asked > allowed {
        return Err(Failure::Limit { limit: name, unit, allowed, asked });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn wide_rows_are_cut_into_many() {
        let seen = |laid, rows, columns| State::other_rows("view", laid, rows, columns);
        // An image of 128 x 128 pixels with 32 channels: values times windows exceed 2^32.
        assert_eq!(seen(Laid::Split(1 << 14), 1, 1 << 19).unwrap(), (1 << 14, 32));
        assert_eq!(seen(Laid::Grouped(1 << 14), 1 << 19, 1).unwrap(), (32, 1 << 14));
        assert!(seen(Laid::Split(1 << 14), 1 << 18, 1 << 19).is_err());
        assert!(seen(Laid::Grouped(1 << 14), 1 << 19, 1 << 18).is_err());
        assert!(seen(Laid::Split(3), 1, 16).is_err() && seen(Laid::Split(0), 1, 16).is_err());
    }
}

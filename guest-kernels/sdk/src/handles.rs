//! Handles on what the host owns: resources in a component, numbers for a [`crate::native::Host`]
//! natively. While a [`crate::tape`] records, each knows the value that it stands for, and what is written to a scratch
//! matrix is made when somebody reads it.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::{Rc, Weak};

use crate::math::Real;
use crate::op::Op;
use crate::tape::{self, Key, Later, View};
use crate::types::{Error, Result};

#[cfg(target_arch = "wasm32")]
use crate::glue as sys;
#[cfg(not(target_arch = "wasm32"))]
use crate::native as sys;

pub(crate) use sys::{RawIds, RawMatrix, RawOut};

#[inline(always)]
pub(crate) fn call(op: Op<'_>) -> Result<()> {
    match tape::recorder() {
        None => sys::call(op),
        // A copy: what the recorder could see of the operation itself would keep it from being known here.
        Some(recorder) => {
            let seen = op;
            recorder.operation(&seen)
        }
    }
}

/// An operation as it stands: no tape sees it, and what it reads and writes is there.
#[inline(always)]
pub(crate) fn call_unseen(op: Op<'_>) -> Result<()> {
    sys::call(op)
}

/// Tells values apart for as long as anything remembers them, unlike an address; given when it is asked for.
#[derive(Debug, Default)]
struct Identity(Cell<u64>);

impl Identity {
    fn get(&self) -> u64 {
        thread_local! {
            static LAST: Cell<u64> = const { Cell::new(0) };
        }
        if self.0.get() == 0 {
            LAST.set(LAST.get() + 1);
            self.0.set(LAST.get());
        }
        self.0.get()
    }
}

/// A matrix of the host, or how it is made.
#[derive(Debug)]
struct Held {
    raw: OnceCell<RawMatrix>,
    /// Until `raw` is there.
    later: RefCell<Option<Later>>,
    /// Of what the host made once it was asked for.
    shape: OnceCell<Vec<u32>>,
    identity: Identity,
}

/// A matrix for as long as somebody else has it.
#[derive(Debug)]
pub(crate) struct Remembered(Weak<Held>);

impl Remembered {
    pub(crate) fn matrix(&self) -> Option<Matrix> {
        self.0.upgrade().map(|held| Matrix { held, node: 0 })
    }
}

/// An immutable matrix of the host, or a view of one.
#[derive(Debug)]
pub struct Matrix {
    /// Shared with a tape, which needs it after the kernel has dropped it.
    held: Rc<Held>,
    /// The value on the tape; 0 for none.
    node: u32,
}

impl Matrix {
    pub(crate) fn new(raw: RawMatrix) -> Self {
        Self::held(OnceCell::from(raw), None, OnceCell::new())
    }

    fn held(raw: OnceCell<RawMatrix>, later: Option<Later>, shape: OnceCell<Vec<u32>>) -> Self {
        let held = Held { raw, later: RefCell::new(later), shape, identity: Identity::default() };
        Self { held: Rc::new(held), node: 0 }
    }

    /// One that is made when it is first needed.
    pub(crate) fn later(shape: Vec<u32>, later: Later) -> Self {
        Self::held(OnceCell::new(), Some(later), OnceCell::from(shape))
    }

    /// Whoever works with a tape has seen to it that the matrix is there.
    #[allow(clippy::expect_used, reason = "a tape calls the host with matrices that are there")]
    pub(crate) fn raw(&self) -> &RawMatrix {
        self.held.raw.get().expect("a matrix that is there")
    }

    /// Whether the host has it.
    pub(crate) fn is_there(&self) -> bool {
        self.held.raw.get().is_some()
    }

    /// Sees to it that the host has it.
    pub(crate) fn make(&self) -> Result<()> {
        if self.is_there() {
            return Ok(());
        }
        let later = self.held.later.borrow_mut().take();
        let raw = match later {
            Some(Later::View(of, view)) => {
                of.make()?;
                of.view_of_raw(&view)?
            }
            Some(Later::Written { write, .. }) => {
                let into = Out::new(sys::out_create(self.extents())?);
                write(&into)?;
                sys::out_finish(into.into_raw()?)?
            }
            None => return Err(Error::Kernel("a matrix could not be made".to_owned())),
        };
        // It was not there above.
        let _ = self.held.raw.set(raw);
        Ok(())
    }

    /// Writes it to a place; a matrix that nobody else has is made there.
    pub(crate) fn write_to(self, into: &Out) -> Result<()> {
        if Rc::strong_count(&self.held) == 1 && !self.is_there() {
            let later = self.held.later.borrow_mut().take();
            if let Some(Later::Written { write, .. }) = later {
                return write(into);
            }
            *self.held.later.borrow_mut() = later;
        }
        self.make()?;
        call_unseen(Op::Axpby { alpha: 1.0, x: &self, beta: 0.0, y: &self, into })
    }

    /// Operations and views between it and what is there.
    pub(crate) fn depth(&self) -> u32 {
        match &*self.held.later.borrow() {
            Some(Later::Written { depth, .. }) => *depth,
            Some(Later::View(of, _)) => of.depth() + 1,
            None => 0,
        }
    }

    pub(crate) fn node(&self) -> u32 {
        self.node
    }

    /// The same matrix, as another value on a tape.
    pub(crate) fn shared(&self, node: u32) -> Self {
        Self { held: Rc::clone(&self.held), node }
    }

    /// Whether both are handles on one matrix.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.held, &other.held)
    }

    /// No other matrix has the same.
    pub(crate) fn identity(&self) -> u64 {
        self.held.identity.get()
    }

    pub(crate) fn remembered(&self) -> Remembered {
        Remembered(Rc::downgrade(&self.held))
    }

    pub(crate) fn view_of_raw(&self, view: &View) -> Result<RawMatrix> {
        let raw = self.raw();
        match *view {
            View::Rows { start, count } => sys::rows(raw, start, count),
            View::Columns { start, count } => sys::columns(raw, start, count),
            View::Reshape(ref shape) => sys::reshape(raw, shape),
            View::Split(t, make) | View::Grouped(t, make) => make(raw, t),
        }
    }

    /// Extents, rows first; the host is asked once.
    pub(crate) fn extents(&self) -> &[u32] {
        self.held.shape.get_or_init(|| sys::shape(self.raw()))
    }

    /// Extents, rows first.
    pub fn shape(&self) -> Vec<u32> {
        self.extents().to_vec()
    }

    /// Number of rows.
    pub fn row_count(&self) -> u32 {
        self.extents().first().copied().unwrap_or(0)
    }

    /// A view of `count` rows from `start`.
    pub fn rows(&self, start: u32, count: u32) -> Result<Matrix> {
        match tape::recorder() {
            None => sys::rows(self.raw(), start, count).map(Matrix::new),
            Some(recorder) => recorder.viewed(self, View::Rows { start, count }),
        }
    }

    /// A view of `count` columns from `start`.
    pub fn columns(&self, start: u32, count: u32) -> Result<Matrix> {
        match tape::recorder() {
            None => sys::columns(self.raw(), start, count).map(Matrix::new),
            Some(recorder) => recorder.viewed(self, View::Columns { start, count }),
        }
    }

    /// The same values with other extents; rows stay.
    pub fn reshape(&self, shape: &[u32]) -> Result<Matrix> {
        match tape::recorder() {
            None => sys::reshape(self.raw(), shape).map(Matrix::new),
            Some(recorder) => recorder.viewed(self, View::Reshape(shape.to_vec())),
        }
    }

    /// The same values with each row cut into t: [n, t k] as [n t, k]. A reduction over rows and dropout take all of
    /// an interval's rows so.
    pub fn split_rows(&self, t: u32) -> Result<Matrix> {
        match tape::recorder() {
            None => sys::split_rows(self.raw(), t).map(Matrix::new),
            Some(recorder) => recorder.viewed(self, View::Split(t, sys::split_rows)),
        }
    }

    /// The same values with t rows put together: [n, k] as [n / t, t k].
    pub fn group_rows(&self, t: u32) -> Result<Matrix> {
        match tape::recorder() {
            None => sys::group_rows(self.raw(), t).map(Matrix::new),
            Some(recorder) => recorder.viewed(self, View::Grouped(t, sys::group_rows)),
        }
    }

    /// Waits until more than `after` rows have arrived, or all; returns how many have.
    pub fn arrived(&self, after: u32) -> Result<u32> {
        if tape::recorder().is_some() {
            // What a gradient is reduced over has all rows.
            return Ok(self.row_count());
        }
        sys::arrived(self.raw(), after)
    }

    /// The blocks of rows as they arrive: (first row, view). One block where all are there.
    pub fn blocks(&self) -> impl Iterator<Item = Result<(u32, Matrix)>> + '_ {
        let (rows, mut done) = (self.row_count(), 0);
        core::iter::from_fn(move || {
            if done >= rows {
                return None;
            }
            let start = done;
            Some(self.arrived(start).and_then(|there| {
                done = there;
                Ok((start, self.rows(start, there - start)?))
            }))
        })
    }

    /// Copies rows into the guest, row-major.
    pub fn read_rows<R: Real>(&self, start: u32, count: u32) -> Result<Vec<R>> {
        R::read(self, start, count)
    }

    fn read(&self) -> Result<()> {
        tape::recorder().map_or(Ok(()), |recorder| recorder.read(self))
    }

    pub(crate) fn read_f32(&self, start: u32, count: u32) -> Result<Vec<f32>> {
        self.read()?;
        sys::read_f32(self.raw(), start, count)
    }

    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn read_f64(&self, start: u32, count: u32) -> Result<Vec<f64>> {
        self.read()?;
        sys::read_f64(self.raw(), start, count)
    }
}

/// How a scratch matrix that is not there yet is written, and what that is remembered by.
#[derive(Debug)]
enum Draft {
    Blank,
    Written(Later, Option<Key>),
    Same(Matrix),
}

/// A place to write.
#[derive(Debug)]
pub struct Out {
    raw: OnceCell<RawOut>,
    /// Until `raw` is there.
    draft: RefCell<Draft>,
    /// Of what the host made once it was asked for.
    shape: OnceCell<Vec<u32>>,
    /// The value on the tape that is written; 0 for none.
    node: u32,
    /// The row of that value that row 0 is.
    first: u32,
    /// How that value's rows are seen here.
    laid: Laid,
}

/// How a place's rows are seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Laid {
    AsTheyAre,
    Split(u32),
    Grouped(u32),
}

impl Laid {
    /// Rows as the view has them.
    pub(crate) fn rows(self, seen: u32) -> u32 {
        match self {
            Self::AsTheyAre => seen,
            Self::Split(t) => seen.checked_div(t).unwrap_or(0),
            Self::Grouped(t) => seen.saturating_mul(t),
        }
    }

    /// A matrix of rows as they are, as they are seen.
    pub(crate) fn of(self, x: Matrix) -> Result<Matrix> {
        match self {
            Self::AsTheyAre => Ok(x),
            Self::Split(t) => x.split_rows(t),
            Self::Grouped(t) => x.group_rows(t),
        }
    }
}

impl Out {
    pub(crate) fn new(raw: RawOut) -> Self {
        let draft = RefCell::new(Draft::Blank);
        let shape = OnceCell::new();
        Self { raw: OnceCell::from(raw), draft, shape, node: 0, first: 0, laid: Laid::AsTheyAre }
    }

    /// A scratch matrix that the host has not heard of, which is a value on a tape.
    pub(crate) fn draft(shape: &[u32], node: u32) -> Self {
        let draft = RefCell::new(Draft::Blank);
        let shape = OnceCell::from(shape.to_vec());
        Self { raw: OnceCell::new(), draft, shape, node, first: 0, laid: Laid::AsTheyAre }
    }

    /// A scratch matrix of the host, which is a value on a tape.
    pub(crate) fn scratch(shape: &[u32], node: u32) -> Result<Self> {
        Ok(Self { node, ..Self::new(sys::out_create(shape)?) })
    }

    /// Whoever works with a tape has seen to it that the place is there.
    #[allow(clippy::expect_used, reason = "a tape calls the host with places that are there")]
    pub(crate) fn raw(&self) -> &RawOut {
        self.raw.get().expect("a place that is there")
    }

    fn into_raw(self) -> Result<RawOut> {
        self.raw.into_inner().ok_or_else(|| Error::Kernel("a place that is not there".to_owned()))
    }

    /// Whether nothing is known of its values, nor does the host have it.
    pub(crate) fn is_blank(&self) -> bool {
        self.raw.get().is_none() && matches!(*self.draft.borrow(), Draft::Blank)
    }

    /// Of a blank one: all of it will be written so.
    pub(crate) fn write_later(&self, later: Later, key: Option<Key>) {
        *self.draft.borrow_mut() = Draft::Written(later, key);
    }

    /// Of a blank one: it is what that matrix is.
    pub(crate) fn same(&self, as_matrix: Matrix) {
        *self.draft.borrow_mut() = Draft::Same(as_matrix);
    }

    /// Sees to it that the host has it, as far as it was written.
    pub(crate) fn make(&self) -> Result<()> {
        if self.raw.get().is_some() {
            return Ok(());
        }
        let draft = self.draft.replace(Draft::Blank);
        // It was not there above.
        let _ = self.raw.set(sys::out_create(self.extents())?);
        match draft {
            Draft::Written(Later::Written { write, .. }, _) => write(self),
            Draft::Same(matrix) => matrix.write_to(self),
            _ => Ok(()),
        }
    }

    /// The value on the tape that is written, and the row of it that row 0 is.
    pub(crate) fn target(&self) -> (u32, u32) {
        (self.node, self.first)
    }

    /// How the rows of that value are seen.
    pub(crate) fn laid(&self) -> Laid {
        self.laid
    }

    /// A scratch matrix.
    pub fn create(shape: &[u32]) -> Result<Out> {
        match tape::recorder() {
            None => sys::out_create(shape).map(Out::new),
            Some(recorder) => recorder.created(shape),
        }
    }

    /// Extents, rows first; the host is asked once.
    pub(crate) fn extents(&self) -> &[u32] {
        self.shape.get_or_init(|| sys::out_shape(self.raw()))
    }

    /// Extents, rows first.
    pub fn shape(&self) -> Vec<u32> {
        self.extents().to_vec()
    }

    /// A view of `count` rows from `start` to write to.
    pub fn rows(&self, start: u32, count: u32) -> Result<Out> {
        self.make()?;
        let view = Out::new(sys::out_rows(self.raw(), start, count)?);
        Ok(Out { node: self.node, first: self.first.saturating_add(start), ..view })
    }

    /// A view to write to with each row cut into t: [n, t k] as [n t, k]. Operations write to it; it has no views of
    /// rows, and no rows are written to it from the guest.
    pub fn split_rows(&self, t: u32) -> Result<Out> {
        self.make()?;
        let view = Out::new(sys::split_out(self.raw(), t)?);
        Ok(Out { node: self.node, first: self.first, laid: Laid::Split(t), ..view })
    }

    /// The same with t rows put together: [n, k] as [n / t, t k].
    pub fn group_rows(&self, t: u32) -> Result<Out> {
        self.make()?;
        let view = Out::new(sys::group_out(self.raw(), t)?);
        Ok(Out { node: self.node, first: self.first, laid: Laid::Grouped(t), ..view })
    }

    /// Writes whole rows, row-major, from `start`.
    pub fn write_rows<R: Real>(&self, start: u32, values: &[R]) -> Result<()> {
        R::write(self, start, values)
    }

    /// Makes a scratch matrix readable.
    pub fn finish(self) -> Result<Matrix> {
        let node = self.node;
        let (matrix, key) = match self.draft.replace(Draft::Blank) {
            Draft::Written(later, key) => (Matrix::held(OnceCell::new(), Some(later), self.shape), key),
            Draft::Same(matrix) => (matrix, None),
            Draft::Blank => {
                self.make()?;
                let shape = self.shape.clone();
                (Matrix::held(OnceCell::from(sys::out_finish(self.into_raw()?)?), None, shape), None)
            }
        };
        let matrix = Matrix { node, ..matrix };
        if let Some(recorder) = tape::recorder() {
            recorder.finished(&matrix, key);
        }
        Ok(matrix)
    }

    fn written(&self, start: u32, values: usize) -> Result<()> {
        let Some(recorder) = tape::recorder() else { return Ok(()) };
        let row = self.extents().iter().skip(1).map(|&e| e as usize).product::<usize>().max(1);
        recorder.written(self, start, (values / row) as u32)
    }

    pub(crate) fn write_f32(&self, start: u32, values: &[f32]) -> Result<()> {
        self.make()?;
        sys::write_f32(self.raw(), start, values)?;
        self.written(start, values.len())
    }

    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn write_f64(&self, start: u32, values: &[f64]) -> Result<()> {
        self.make()?;
        sys::write_f64(self.raw(), start, values)?;
        self.written(start, values.len())
    }
}

/// Unsigned integers of the host: labels, lists of rows, segments.
#[derive(Debug)]
pub struct Ids(Rc<(RawIds, Identity)>);

impl Ids {
    pub(crate) fn new(raw: RawIds) -> Self {
        Self(Rc::new((raw, Identity::default())))
    }

    pub(crate) fn raw(&self) -> &RawIds {
        &self.0.0
    }

    /// No other list has the same.
    pub(crate) fn identity(&self) -> u64 {
        self.0.1.get()
    }

    /// Another handle on the same list.
    pub(crate) fn shared(&self) -> Self {
        Self(Rc::clone(&self.0))
    }

    /// Whether both are handles on one list.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }

    /// The kernel's own list.
    pub fn create(values: &[u32]) -> Result<Ids> {
        sys::ids_create(values).map(Ids::new)
    }

    /// How many there are.
    pub fn len(&self) -> u32 {
        sys::ids_len(self.raw())
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies `count` of them from `start` into the guest.
    pub fn read(&self, start: u32, count: u32) -> Result<Vec<u32>> {
        if let Some(recorder) = tape::recorder() {
            recorder.listed(self)?;
        }
        sys::ids_read(self.raw(), start, count)
    }
}

/// The key of this task's random numbers for `stream` (`wit/kernel/kernel.wit`, interface `random`).
pub fn random_key(stream: u32) -> u64 {
    sys::random_key(stream)
}

/// The global ids of rows of the interval.
pub fn row_ids(start: u32, count: u32) -> Result<Vec<u64>> {
    sys::row_ids(start, count)
}

/// Writes one line to the run's log.
pub fn log(text: &str) {
    sys::log(text);
}

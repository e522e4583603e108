//! Handles of objects that the host owns. In a component they are resources, outside of one they
//! are numbers for a [`crate::native::Host`]. While a [`crate::tape`] records, each handle knows
//! the value that it represents. A scratch matrix is then computed when its values are first read.

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
        // The operation is copied. If the recorder could see the original, the compiler could not
        // optimise it here.
        Some(recorder) => {
            let seen = op;
            recorder.operation(&seen)
        }
    }
}

/// Executes an operation directly, without a tape. All its operands must exist on the host.
#[inline(always)]
pub(crate) fn call_unseen(op: Op<'_>) -> Result<()> {
    sys::call(op)
}

/// Number that identifies a value as long as anything refers to it, unlike an address. It is
/// assigned on demand.
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

/// Matrix of the host, or instructions to compute it.
#[derive(Debug)]
struct Held {
    raw: OnceCell<RawMatrix>,
    /// Instructions to compute the matrix, until `raw` is set.
    later: RefCell<Option<Later>>,
    /// Extents, which the host computes on first request.
    shape: OnceCell<Vec<u32>>,
    identity: Identity,
}

/// Weak reference to a matrix, which does not keep it alive.
#[derive(Debug)]
pub(crate) struct Remembered(Weak<Held>);

impl Remembered {
    pub(crate) fn matrix(&self) -> Option<Matrix> {
        self.0.upgrade().map(|held| Matrix { held, node: 0 })
    }
}

/// Immutable matrix of the host, or a view of one.
#[derive(Debug)]
pub struct Matrix {
    /// Matrix, shared with a tape, which may need it after the kernel has dropped it.
    held: Rc<Held>,
    /// Index of the value on the tape. It is 0 if there is none.
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

    /// Creates a matrix that is computed when it is first needed.
    pub(crate) fn later(shape: Vec<u32>, later: Later) -> Self {
        Self::held(OnceCell::new(), Some(later), OnceCell::from(shape))
    }

    /// Returns the handle of the matrix. The caller ensures that the matrix exists on the host.
    #[allow(clippy::expect_used, reason = "a tape calls the host with matrices that are there")]
    pub(crate) fn raw(&self) -> &RawMatrix {
        self.held.raw.get().expect("a matrix that is there")
    }

    /// Returns true if the matrix exists on the host.
    pub(crate) fn is_there(&self) -> bool {
        self.held.raw.get().is_some()
    }

    /// Computes the matrix on the host if it does not exist.
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
            None => return Err(Error::Kernel("a matrix could not be computed".to_owned())),
        };
        // The value was not set above.
        let _ = self.held.raw.set(raw);
        Ok(())
    }

    /// Writes the matrix to an output. If nothing else refers to the matrix, it is computed there
    /// directly.
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

    /// Returns the number of operations and views between this matrix and existing ones.
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

    /// Returns the same matrix, as another value on a tape.
    pub(crate) fn shared(&self, node: u32) -> Self {
        Self { held: Rc::clone(&self.held), node }
    }

    /// Returns true if both are handles of the same matrix.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.held, &other.held)
    }

    /// Returns a number that identifies the matrix uniquely.
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

    /// Returns the extents, rows first. The host is asked only once.
    pub(crate) fn extents(&self) -> &[u32] {
        self.held.shape.get_or_init(|| sys::shape(self.raw()))
    }

    /// Returns the extents. The first one is the number of rows.
    pub fn shape(&self) -> Vec<u32> {
        self.extents().to_vec()
    }

    /// Returns the number of rows of the matrix.
    pub fn row_count(&self) -> u32 {
        self.extents().first().copied().unwrap_or(0)
    }

    /// Returns a view of `count` rows from `start` on.
    pub fn rows(&self, start: u32, count: u32) -> Result<Matrix> {
        match tape::recorder() {
            None => sys::rows(self.raw(), start, count).map(Matrix::new),
            Some(recorder) => recorder.viewed(self, View::Rows { start, count }),
        }
    }

    /// Returns a view of `count` columns from `start` on.
    pub fn columns(&self, start: u32, count: u32) -> Result<Matrix> {
        match tape::recorder() {
            None => sys::columns(self.raw(), start, count).map(Matrix::new),
            Some(recorder) => recorder.viewed(self, View::Columns { start, count }),
        }
    }

    /// Returns the same values with other extents. The number of rows must stay the same.
    pub fn reshape(&self, shape: &[u32]) -> Result<Matrix> {
        match tape::recorder() {
            None => sys::reshape(self.raw(), shape).map(Matrix::new),
            Some(recorder) => recorder.viewed(self, View::Reshape(shape.to_vec())),
        }
    }

    /// Splits each row into t rows: [n, t k] becomes [n t, k]. Reductions over rows and dropout
    /// accept all rows of an interval in this form.
    pub fn split_rows(&self, t: u32) -> Result<Matrix> {
        match tape::recorder() {
            None => sys::split_rows(self.raw(), t).map(Matrix::new),
            Some(recorder) => recorder.viewed(self, View::Split(t, sys::split_rows)),
        }
    }

    /// Joins every t rows: [n, k] becomes [n / t, t k].
    pub fn group_rows(&self, t: u32) -> Result<Matrix> {
        match tape::recorder() {
            None => sys::group_rows(self.raw(), t).map(Matrix::new),
            Some(recorder) => recorder.viewed(self, View::Grouped(t, sys::group_rows)),
        }
    }

    /// Waits until more than `after` rows, or all, have arrived. Returns the number of rows that
    /// have arrived.
    pub fn arrived(&self, after: u32) -> Result<u32> {
        if tape::recorder().is_some() {
            // All rows that a gradient is reduced over have arrived.
            return Ok(self.row_count());
        }
        sys::arrived(self.raw(), after)
    }

    /// Returns blocks of rows as they arrive: (first row, view). There is one block if all rows
    /// have arrived.
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

/// State of a scratch matrix: the instructions to write it, and the key under which the result is
/// remembered.
#[derive(Debug)]
enum Draft {
    Blank,
    Written(Later, Option<Key>),
    Same(Matrix),
}

/// Output buffer of a kernel, which it must write.
#[derive(Debug)]
pub struct Out {
    raw: OnceCell<RawOut>,
    /// State until `raw` is set.
    draft: RefCell<Draft>,
    /// Extents, which the host computes on first request.
    shape: OnceCell<Vec<u32>>,
    /// Index of the value on the tape that is written. It is 0 if there is none.
    node: u32,
    /// Row of the value that row 0 of this output represents.
    first: u32,
    /// View of the value's rows.
    laid: Laid,
}

/// View of an output's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Laid {
    AsTheyAre,
    Split(u32),
    Grouped(u32),
}

impl Laid {
    /// Returns the number of the value's rows for a number of rows in the view.
    pub(crate) fn rows(self, seen: u32) -> u32 {
        match self {
            Self::AsTheyAre => seen,
            Self::Split(t) => seen.checked_div(t).unwrap_or(0),
            Self::Grouped(t) => seen.saturating_mul(t),
        }
    }

    /// Returns a matrix with rows of this view, from one with the value's rows.
    pub(crate) fn view_of(self, x: Matrix) -> Result<Matrix> {
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

    /// Creates a scratch matrix that does not exist on the host yet, as a value on a tape.
    pub(crate) fn draft(shape: &[u32], node: u32) -> Self {
        let draft = RefCell::new(Draft::Blank);
        let shape = OnceCell::from(shape.to_vec());
        Self { raw: OnceCell::new(), draft, shape, node, first: 0, laid: Laid::AsTheyAre }
    }

    /// Creates a scratch matrix on the host, as a value on a tape.
    pub(crate) fn scratch(shape: &[u32], node: u32) -> Result<Self> {
        Ok(Self { node, ..Self::new(sys::out_create(shape)?) })
    }

    /// Returns the handle of the output. The caller ensures that the output exists on the host.
    #[allow(clippy::expect_used, reason = "a tape calls the host with places that are there")]
    pub(crate) fn raw(&self) -> &RawOut {
        self.raw.get().expect("a place that is there")
    }

    fn into_raw(self) -> Result<RawOut> {
        self.raw.into_inner().ok_or_else(|| Error::Kernel("a place that is not there".to_owned()))
    }

    /// Returns true if nothing has been written, and the output does not exist on the host.
    pub(crate) fn is_blank(&self) -> bool {
        self.raw.get().is_none() && matches!(*self.draft.borrow(), Draft::Blank)
    }

    /// Records how a blank output will be written completely.
    pub(crate) fn write_later(&self, later: Later, key: Option<Key>) {
        *self.draft.borrow_mut() = Draft::Written(later, key);
    }

    /// Records that a blank output has the value of a matrix.
    pub(crate) fn same(&self, as_matrix: Matrix) {
        *self.draft.borrow_mut() = Draft::Same(as_matrix);
    }

    /// Creates the output on the host if it does not exist, and executes the recorded writes.
    pub(crate) fn make(&self) -> Result<()> {
        if self.raw.get().is_some() {
            return Ok(());
        }
        let draft = self.draft.replace(Draft::Blank);
        // The value was not set above.
        let _ = self.raw.set(sys::out_create(self.extents())?);
        match draft {
            Draft::Written(Later::Written { write, .. }, _) => write(self),
            Draft::Same(matrix) => matrix.write_to(self),
            _ => Ok(()),
        }
    }

    /// Returns the value on the tape that is written, and the row of it that row 0 represents.
    pub(crate) fn target(&self) -> (u32, u32) {
        (self.node, self.first)
    }

    /// Returns the view of the value's rows.
    pub(crate) fn laid(&self) -> Laid {
        self.laid
    }

    /// Creates a scratch matrix, an intermediate result of the kernel, with these extents.
    pub fn create(shape: &[u32]) -> Result<Out> {
        match tape::recorder() {
            None => sys::out_create(shape).map(Out::new),
            Some(recorder) => recorder.created(shape),
        }
    }

    /// Returns the extents, rows first. The host is asked only once.
    pub(crate) fn extents(&self) -> &[u32] {
        self.shape.get_or_init(|| sys::out_shape(self.raw()))
    }

    /// Returns the extents. The first one is the number of rows.
    pub fn shape(&self) -> Vec<u32> {
        self.extents().to_vec()
    }

    /// Returns a view of `count` rows from `start` on, for writing.
    pub fn rows(&self, start: u32, count: u32) -> Result<Out> {
        self.make()?;
        let view = Out::new(sys::out_rows(self.raw(), start, count)?);
        Ok(Out { node: self.node, first: self.first.saturating_add(start), ..view })
    }

    /// Splits each row of a view for writing into t rows: [n, t k] becomes [n t, k]. Operations can
    /// write to it, but it has no views of rows, and the guest cannot write rows to it.
    pub fn split_rows(&self, t: u32) -> Result<Out> {
        self.make()?;
        let view = Out::new(sys::split_out(self.raw(), t)?);
        Ok(Out { node: self.node, first: self.first, laid: Laid::Split(t), ..view })
    }

    /// Joins every t rows of a view for writing: [n, k] becomes [n / t, t k].
    pub fn group_rows(&self, t: u32) -> Result<Out> {
        self.make()?;
        let view = Out::new(sys::group_out(self.raw(), t)?);
        Ok(Out { node: self.node, first: self.first, laid: Laid::Grouped(t), ..view })
    }

    /// Writes whole rows, row-major, from `start` on.
    pub fn write_rows<R: Real>(&self, start: u32, values: &[R]) -> Result<()> {
        R::write(self, start, values)
    }

    /// Converts a scratch matrix to a matrix that can be read.
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

/// List of unsigned integers on the host: labels, row indices, segment offsets.
#[derive(Debug)]
pub struct Ids(Rc<(RawIds, Identity)>);

impl Ids {
    pub(crate) fn new(raw: RawIds) -> Self {
        Self(Rc::new((raw, Identity::default())))
    }

    pub(crate) fn raw(&self) -> &RawIds {
        &self.0.0
    }

    /// Returns a number that identifies the list uniquely.
    pub(crate) fn identity(&self) -> u64 {
        self.0.1.get()
    }

    /// Returns another handle of the same list.
    pub(crate) fn shared(&self) -> Self {
        Self(Rc::clone(&self.0))
    }

    /// Returns true if both are handles of the same list.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }

    /// Creates a list of the kernel's own values.
    pub fn create(values: &[u32]) -> Result<Ids> {
        sys::ids_create(values).map(Ids::new)
    }

    /// Returns the number of values in the list.
    pub fn len(&self) -> u32 {
        sys::ids_len(self.raw())
    }

    /// Returns true if the list is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies `count` values from `start` on into the guest.
    pub fn read(&self, start: u32, count: u32) -> Result<Vec<u32>> {
        if let Some(recorder) = tape::recorder() {
            recorder.listed(self)?;
        }
        sys::ids_read(self.raw(), start, count)
    }
}

/// Returns the key of this task's random numbers for `stream` (`wit/kernel/kernel.wit`, interface
/// `random`).
pub fn random_key(stream: u32) -> u64 {
    sys::random_key(stream)
}

/// Returns the global ids of `count` rows of the interval, from `start` on.
pub fn row_ids(start: u32, count: u32) -> Result<Vec<u64>> {
    sys::row_ids(start, count)
}

/// Writes one line to the log of the run.
pub fn log(text: &str) {
    sys::log(text);
}

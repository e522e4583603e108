//! What the reference host owns: matrices, places to write, lists; all by handle.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use super::{Context, ELEMENTS_MAX, HANDLES_MAX, LOG_LINE_BYTES_MAX, LOG_LINES_MAX, Work, shape_error};
use crate::native::Kind;
use crate::types::{Error, Result};

/// An immutable matrix.
#[derive(Debug)]
pub(super) struct Dense {
    /// Extents, rows first.
    pub(super) shape: Vec<u32>,
    /// Row-major.
    pub(super) values: Vec<f64>,
    /// The row of the interval that row 0 is: not 0 for a view of rows.
    pub(super) first_row: usize,
}

impl Dense {
    pub(super) fn rows(&self) -> usize {
        self.shape.first().map_or(0, |&n| n as usize)
    }

    /// Values in a row.
    pub(super) fn row_len(&self) -> usize {
        row_len(&self.shape)
    }

    pub(super) fn row(&self, i: usize) -> &[f64] {
        &self.values[i * self.row_len()..(i + 1) * self.row_len()]
    }
}

fn row_len(shape: &[u32]) -> usize {
    shape.iter().skip(1).map(|&e| e as usize).product()
}

/// What a place is for, and so who may write to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Rows that leave the task.
    Rows,
    /// The kernel's intermediate result.
    Scratch,
    /// Reduced over rows: a parameter's gradient or a loss.
    Reduced,
}

/// What a kernel may ask of its task.
#[derive(Debug, Default)]
pub(super) struct Given {
    /// A value a row; none: each 1.
    pub(super) row_weights: Option<Vec<f64>>,
    pub(super) asked: bool,
}

#[derive(Debug)]
struct Cell {
    purpose: Purpose,
    values: Vec<f64>,
    /// For each row, whether it was written.
    written: Vec<bool>,
    /// Nobody may write any more.
    finished: bool,
}

/// Rows seen as others.
#[derive(Debug, Clone, Copy)]
pub(super) enum Laid {
    /// Each cut into so many.
    Split(u32),
    /// So many put together.
    Grouped(u32),
}

impl Laid {
    /// Extents as they are seen.
    fn of(self, operation: &str, shape: &[u32]) -> Result<Vec<u32>> {
        let rows = shape.first().copied().unwrap_or(0);
        let columns = shape.iter().skip(1).try_fold(1u32, |n, &e| n.checked_mul(e));
        let seen = columns.and_then(|columns| match self {
            Self::Split(t) if columns.checked_rem(t)? == 0 => Some([rows.checked_mul(t)?, columns / t]),
            Self::Grouped(t) if rows.checked_rem(t)? == 0 => Some([rows / t, columns.checked_mul(t)?]),
            _ => None,
        });
        let expected = match self {
            Self::Split(t) => [rows, t],
            Self::Grouped(t) => [t, columns.unwrap_or(0)],
        };
        seen.map(Vec::from).ok_or_else(|| shape_error(operation, "x", &expected, shape))
    }
}

/// A place to write, or a view of some of its rows.
#[derive(Debug, Clone)]
pub(super) struct Place {
    cell: Rc<RefCell<Cell>>,
    shape: Vec<u32>,
    /// The row of the cell that row 0 is.
    first: usize,
    /// Its own extents, if its rows are seen as others.
    of: Option<Vec<u32>>,
}

impl Place {
    /// Extents of the cell's rows.
    fn own(&self) -> &[u32] {
        self.of.as_deref().unwrap_or(&self.shape)
    }

    fn span(&self) -> Range<usize> {
        self.first..self.first + self.own().first().map_or(0, |&n| n as usize)
    }

    fn unwritten(&self) -> Vec<u32> {
        let cell = self.cell.borrow();
        self.span().filter(|&i| !cell.written[i]).map(|i| (i - self.first) as u32).collect()
    }

    fn read(&self, what: &str) -> Result<Vec<f64>> {
        if let Some(row) = self.unwritten().first() {
            return Err(Error::Argument(format!(
                "{what}: row {row} of a place with extents {:?} was never written",
                self.shape
            )));
        }
        let (span, columns) = (self.span(), row_len(self.own()));
        Ok(self.cell.borrow().values[span.start * columns..span.end * columns].to_vec())
    }

    /// What is there to accumulate onto.
    pub(super) fn old(&self, operation: &str) -> Result<Vec<f64>> {
        self.read(&format!("{operation}: into, with accumulate"))
    }

    /// Writes all of it; `values` has the place's shape.
    pub(super) fn fill(&self, values: &[f64]) {
        self.put(0, values);
    }

    fn put(&self, start: usize, values: &[f64]) {
        let columns = row_len(self.own());
        let from = (self.first + start) * columns;
        let rows = values.len().checked_div(columns).unwrap_or(self.span().len());
        let mut cell = self.cell.borrow_mut();
        cell.values[from..from + values.len()].copy_from_slice(values);
        cell.written[self.first + start..self.first + start + rows].fill(true);
    }
}

/// All that the host owns, and the task.
#[derive(Debug)]
pub(super) struct Store {
    pub(super) context: Context,
    /// The global ids of the interval's rows where they do not follow each other.
    pub(super) row_ids: Option<Vec<u64>>,
    /// None outside of a task.
    pub(super) given: Option<Given>,
    pub(super) nearest_kink: f64,
    pub(super) log: Vec<String>,
    pub(super) work: Work,
    matrices: BTreeMap<u32, Rc<Dense>>,
    outs: BTreeMap<u32, Place>,
    lists: BTreeMap<u32, Rc<Vec<u32>>>,
    next: u32,
}

/// `start .. start + count`, if it lies within `available`.
pub(super) fn range(
    operation: &str,
    what: &str,
    start: u32,
    count: u32,
    available: usize,
) -> Result<Range<usize>> {
    let range = start as usize..start as usize + count as usize;
    if range.end > available {
        return Err(Error::Argument(format!(
            "{operation}: {what} {} to {} asked for; there are {available}",
            range.start, range.end
        )));
    }
    Ok(range)
}

fn limited(limit: &str, unit: &str, allowed: u64, asked: u64) -> Result<()> {
    if asked <= allowed {
        return Ok(());
    }
    Err(Error::Limit { limit: limit.to_owned(), unit: unit.to_owned(), allowed, asked })
}

/// How many elements a valid shape has.
fn elements(operation: &str, shape: &[u32]) -> Result<usize> {
    if !(1..=4).contains(&shape.len()) {
        return Err(Error::Argument(format!(
            "{operation}: extents {shape:?}; a matrix has one to four dimensions"
        )));
    }
    let count = shape.iter().fold(1u64, |n, &e| n.saturating_mul(u64::from(e)));
    limited("reference-matrix-elements", "elements", ELEMENTS_MAX, count)?;
    Ok(count as usize)
}

impl Store {
    pub(super) fn new(context: Context) -> Self {
        Self {
            context,
            row_ids: None,
            given: Some(Given::default()),
            nearest_kink: f64::INFINITY,
            log: Vec::new(),
            work: Work::default(),
            matrices: BTreeMap::new(),
            outs: BTreeMap::new(),
            lists: BTreeMap::new(),
            next: 0,
        }
    }

    /// What the kernel may ask of its task.
    pub(super) fn given(&mut self) -> Result<&mut Given> {
        let outside = || Error::Unsupported("row-weights: only a task has rows; ask in `loss`".to_owned());
        self.given.as_mut().ok_or_else(outside)
    }

    /// The global id of a row of the interval.
    pub(super) fn row_id(&self, row: usize) -> u64 {
        match &self.row_ids {
            Some(ids) => ids[row],
            None => self.context.first_row.wrapping_add(row as u64),
        }
    }

    pub(super) fn handles(&self) -> usize {
        self.matrices.len() + self.outs.len() + self.lists.len()
    }

    fn handle(&mut self) -> Result<u32> {
        limited("reference-handles", "handles", HANDLES_MAX, self.handles() as u64 + 1)?;
        let handle = self.next;
        let allowed = u64::from(u32::MAX);
        self.next = self.next.checked_add(1).ok_or_else(|| Error::Limit {
            limit: "reference-handles-ever".to_owned(),
            unit: "handles".to_owned(),
            allowed,
            asked: allowed + 1,
        })?;
        Ok(handle)
    }

    fn insert(&mut self, shape: Vec<u32>, values: Vec<f64>, first_row: usize) -> Result<u32> {
        let handle = self.handle()?;
        self.matrices.insert(handle, Rc::new(Dense { shape, values, first_row }));
        Ok(handle)
    }

    pub(super) fn add_matrix(&mut self, shape: &[u32], values: Vec<f64>) -> Result<u32> {
        if elements("matrix", shape)? != values.len() {
            return Err(shape_error("matrix", "values", shape, &[values.len() as u32]));
        }
        self.insert(shape.to_vec(), values, 0)
    }

    pub(super) fn add_out(&mut self, shape: &[u32], purpose: Purpose) -> Result<u32> {
        let values = vec![f64::NAN; elements("create", shape)?];
        let rows = shape.first().map_or(0, |&n| n as usize);
        limited("reference-matrix-rows", "rows", ELEMENTS_MAX, rows as u64)?;
        let cell = Cell { purpose, values, written: vec![false; rows], finished: false };
        let handle = self.handle()?;
        self.outs.insert(
            handle,
            Place { cell: Rc::new(RefCell::new(cell)), shape: shape.to_vec(), first: 0, of: None },
        );
        Ok(handle)
    }

    pub(super) fn add_ids(&mut self, values: &[u32]) -> Result<u32> {
        limited("reference-matrix-elements", "elements", ELEMENTS_MAX, values.len() as u64)?;
        let handle = self.handle()?;
        self.lists.insert(handle, Rc::new(values.to_vec()));
        Ok(handle)
    }

    pub(super) fn release(&mut self, kind: Kind, handle: u32) {
        match kind {
            Kind::Matrix => drop(self.matrices.remove(&handle)),
            Kind::Out => drop(self.outs.remove(&handle)),
            Kind::Ids => drop(self.lists.remove(&handle)),
        }
    }

    pub(super) fn log(&mut self, text: &str) {
        if self.log.len() < LOG_LINES_MAX {
            let fits = |end: &usize| text.is_char_boundary(*end);
            let end = (0..=text.len().min(LOG_LINE_BYTES_MAX)).rev().find(fits).unwrap_or(0);
            self.log.push(text[..end].to_owned());
        }
    }

    pub(super) fn matrix(&self, operation: &str, operand: &str, handle: u32) -> Result<Rc<Dense>> {
        self.matrices.get(&handle).cloned().ok_or_else(|| unknown(operation, operand, handle, "matrix"))
    }

    pub(super) fn ids(&self, operation: &str, operand: &str, handle: u32) -> Result<Rc<Vec<u32>>> {
        self.lists.get(&handle).cloned().ok_or_else(|| unknown(operation, operand, handle, "list"))
    }

    fn out(&self, operation: &str, operand: &str, handle: u32) -> Result<&Place> {
        self.outs.get(&handle).ok_or_else(|| unknown(operation, operand, handle, "place to write"))
    }

    pub(super) fn out_shape(&self, handle: u32) -> Vec<u32> {
        self.out("shape", "this", handle).map(|o| o.shape.clone()).unwrap_or_default()
    }

    /// The place where an operation writes a result of the shape `expected`. `reduced` is the number
    /// of rows that the result is a sum over, if it is one.
    pub(super) fn place(
        &self,
        operation: &str,
        operand: &str,
        handle: u32,
        expected: &[u32],
        reduced: Option<usize>,
    ) -> Result<Place> {
        let place = self.writable(operation, operand, handle)?;
        if place.shape != expected {
            return Err(shape_error(operation, operand, expected, &place.shape));
        }
        if place.cell.borrow().purpose == Purpose::Reduced {
            let rows = self.context.rows;
            match reduced {
                Some(n) if n == rows as usize || self.cut_or_joined(n) => {}
                Some(n) => return Err(shape_error(operation, "rows summed over", &[rows], &[n as u32])),
                None => {
                    return Err(Error::Unsupported(format!(
                        "{operation}: {operand} is a parameter's gradient or a loss; only matmul with transpose-a, \
                         sum-rows, linear-backward and scatter-sum write there"
                    )));
                }
            }
        }
        Ok(place)
    }

    /// Whether so many rows are the interval's, each cut into several or several put together: of a vertex kernel's.
    pub(super) fn cut_or_joined(&self, rows: usize) -> bool {
        let interval = self.context.rows as usize;
        let fits = rows.checked_rem(interval) == Some(0) || interval.checked_rem(rows) == Some(0);
        self.row_ids.is_none() && fits
    }

    fn writable(&self, operation: &str, operand: &str, handle: u32) -> Result<Place> {
        let place = self.out(operation, operand, handle)?;
        if place.cell.borrow().finished {
            return Err(Error::Argument(format!(
                "{operation}: {operand} is finished; create another to write to"
            )));
        }
        Ok(place.clone())
    }

    pub(super) fn written(&self, handle: u32) -> Result<Vec<f64>> {
        self.out("values", "out", handle)?.read("values")
    }

    pub(super) fn unwritten(&self, handle: u32) -> Result<Vec<u32>> {
        Ok(self.out("unwritten", "out", handle)?.unwritten())
    }

    pub(super) fn rows(&mut self, handle: u32, start: u32, count: u32) -> Result<u32> {
        let m = self.matrix("rows", "this", handle)?;
        let range = range("rows", "rows", start, count, m.rows())?;
        let values = m.values[range.start * m.row_len()..range.end * m.row_len()].to_vec();
        let mut shape = m.shape.clone();
        shape[0] = count;
        self.insert(shape, values, m.first_row + range.start)
    }

    pub(super) fn columns(&mut self, handle: u32, start: u32, count: u32) -> Result<u32> {
        let m = self.matrix("columns", "this", handle)?;
        let [n, k] = m.shape[..] else { return Err(shape_error("columns", "this", &[0, 0], &m.shape)) };
        let range = range("columns", "columns", start, count, k as usize)?;
        let values = (0..n as usize).flat_map(|i| &m.row(i)[range.clone()]).copied().collect();
        self.insert(vec![n, count], values, m.first_row)
    }

    pub(super) fn reshape(&mut self, handle: u32, shape: &[u32]) -> Result<u32> {
        let m = self.matrix("reshape", "this", handle)?;
        if elements("reshape", shape)? != m.values.len() || shape.first() != m.shape.first() {
            return Err(shape_error("reshape", "this", shape, &m.shape));
        }
        self.insert(shape.to_vec(), m.values.clone(), m.first_row)
    }

    /// A matrix with its rows seen as others.
    pub(super) fn other_rows(&mut self, handle: u32, laid: Laid) -> Result<u32> {
        let operation = if matches!(laid, Laid::Split(_)) { "split-rows" } else { "group-rows" };
        let m = self.matrix(operation, "x", handle)?;
        let shape = laid.of(operation, &m.shape)?;
        self.insert(shape, m.values.clone(), 0)
    }

    /// A place with its rows seen as others.
    pub(super) fn other_out(&mut self, handle: u32, laid: Laid) -> Result<u32> {
        let operation = if matches!(laid, Laid::Split(_)) { "split-out" } else { "group-out" };
        let mut view = self.writable(operation, "x", handle)?;
        if view.of.is_some() || view.cell.borrow().purpose == Purpose::Reduced {
            return Err(Error::Unsupported(format!(
                "{operation}: of rows to write, not of a sum over rows nor of split or grouped rows"
            )));
        }
        let seen = laid.of(operation, &view.shape)?;
        view.of = Some(std::mem::replace(&mut view.shape, seen));
        let handle = self.handle()?;
        self.outs.insert(handle, view);
        Ok(handle)
    }

    pub(super) fn read(&self, handle: u32, start: u32, count: u32) -> Result<Vec<f64>> {
        let m = self.matrix("read-rows", "this", handle)?;
        let range = range("read-rows", "rows", start, count, m.rows())?;
        Ok(m.values[range.start * m.row_len()..range.end * m.row_len()].to_vec())
    }

    fn whole_rows(&self, operation: &str, handle: u32) -> Result<Place> {
        let place = self.writable(operation, "this", handle)?;
        match place.of {
            None => Ok(place),
            Some(_) => Err(Error::Unsupported(format!(
                "{operation}: split or grouped rows are written by operations"
            ))),
        }
    }

    pub(super) fn out_rows(&mut self, handle: u32, start: u32, count: u32) -> Result<u32> {
        let mut view = self.whole_rows("rows", handle)?;
        let range = range("rows", "rows", start, count, view.span().len())?;
        view.first += range.start;
        view.shape[0] = count;
        let handle = self.handle()?;
        self.outs.insert(handle, view);
        Ok(handle)
    }

    pub(super) fn write(&mut self, handle: u32, start: u32, values: &[f64]) -> Result<()> {
        let place = self.whole_rows("write-rows", handle)?;
        if place.cell.borrow().purpose == Purpose::Reduced {
            return Err(Error::Unsupported(
                "write-rows: a parameter's gradient or a loss is reduced over rows by an import, not written"
                    .to_owned(),
            ));
        }
        let columns = row_len(&place.shape);
        if columns == 0 || values.len() % columns != 0 {
            return Err(Error::Argument(format!(
                "write-rows: {} values are no whole rows of {columns} values",
                values.len()
            )));
        }
        let count = u32::try_from(values.len() / columns).unwrap_or(u32::MAX);
        let range = range("write-rows", "rows", start, count, place.span().len())?;
        place.put(range.start, values);
        Ok(())
    }

    pub(super) fn finish(&mut self, handle: u32) -> Result<u32> {
        let place = self.writable("finish", "this", handle)?;
        let whole =
            place.of.is_none() && place.first == 0 && place.span().len() == place.cell.borrow().written.len();
        if !whole || place.cell.borrow().purpose != Purpose::Scratch {
            return Err(Error::Argument("finish: only a whole scratch matrix can be finished".to_owned()));
        }
        // The handle is given up, whether the matrix can be read or not.
        self.outs.remove(&handle);
        place.cell.borrow_mut().finished = true;
        let values = place.read("finish")?;
        self.insert(place.shape, values, 0)
    }
}

fn unknown(operation: &str, operand: &str, handle: u32, kind: &str) -> Error {
    Error::Argument(format!("{operation}: {operand} is handle {handle}, which names no {kind} of this task"))
}

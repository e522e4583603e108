//! Gradients of weights that are used again and again: a product for each program over all its uses, and the sum over
//! programs in the order that the host sets.
//!
//! A reduction over rows takes the interval's rows, and a program uses a weight as often as its length says. So rows a
//! and d of all uses are laid side by side by program, `G_i = a_i^T d_i`, and the gradient is the sum of G_i over i.
//! G_i depends on program i alone, so that no cut into intervals changes a bit.

use eciton_sdk::{Ids, Matrix, Out, Real, Result, dense, linalg, scratch};

pub(crate) fn width(columns: usize) -> u32 {
    columns as u32
}

/// Products a^T d by program: rows in the order in which they come.
#[derive(Debug)]
pub(crate) struct Products {
    a: Out,
    d: Out,
    extents: [u32; 2],
    /// Rows of each program.
    rows: Vec<Vec<u32>>,
    next: u32,
}

impl Products {
    /// For so many programs, rows, and columns of a and of d.
    pub(crate) fn new(programs: usize, rows: usize, p: usize, q: usize) -> Result<Self> {
        let (rows, p, q) = (rows as u32, width(p), width(q));
        let (a, d) = (Out::create(&[rows, p])?, Out::create(&[rows, q])?);
        Ok(Self { a, d, extents: [p, q], rows: vec![Vec::new(); programs], next: 0 })
    }

    /// Appends rows, with the program of each.
    pub(crate) fn add(&mut self, a: &Matrix, d: &Matrix, programs: impl Iterator<Item = u32>) -> Result<()> {
        let count = a.row_count();
        linalg::axpby(1.0, a, 0.0, a, &self.a.rows(self.next, count)?)?;
        linalg::axpby(1.0, d, 0.0, d, &self.d.rows(self.next, count)?)?;
        for (row, program) in (self.next..).zip(programs) {
            self.rows[program as usize].push(row);
        }
        self.next += count;
        Ok(())
    }

    /// Writes them to `into` [programs, p, q]. As many rows were appended as was said.
    pub(crate) fn finish(self, into: &Out) -> Result<()> {
        let [p, q] = self.extents;
        let order: Vec<u32> = self.rows.iter().flatten().copied().collect();
        let by_program = |of: Out, columns: u32| -> Result<Option<Matrix>> {
            if order.is_empty() {
                return Ok(None);
            }
            let (of, order) = (of.finish()?, Ids::create(&order)?);
            let shape = [order.len(), columns];
            scratch(&shape, |into| linalg::gather_rows(&of, &order, into)).map(Some)
        };
        let (a, d) = (by_program(self.a, p)?, by_program(self.d, q)?);
        let mut start = 0;
        for (program, rows) in (0..).zip(&self.rows) {
            let count = rows.len() as u32;
            let into = into.rows(program, 1)?;
            let (Some(a), Some(d), true) = (&a, &d, count > 0) else {
                into.write_rows(0, &vec![0.0f32; (p * q) as usize])?;
                continue;
            };
            let run = |of: &Matrix, columns| {
                of.rows(start, count)?.group_rows(count)?.reshape(&[1, count, columns])
            };
            linalg::batched_matmul(&run(a, p)?, true, &run(d, q)?, false, false, &into)?;
            start += count;
        }
        Ok(())
    }
}

/// The sum over programs of [n, p, q] into a parameter's gradient [p, q].
pub(crate) fn sum_programs(each: &Matrix, into: &Out) -> Result<()> {
    let shape = each.shape();
    let [n, p, q] = shape[..] else { return linalg::sum_rows(each, into) };
    let rows = each.reshape(&[n, p * q])?.split_rows(p)?;
    let at: Vec<u32> = (0..n).flat_map(|_| 0..p).collect();
    dense::scatter_sum(&rows, &Ids::create(&at)?, into)
}

/// Rows of values that are summed by program: [n, width].
#[derive(Debug)]
pub(crate) struct Rows<R> {
    pub(crate) values: Vec<R>,
    width: usize,
}

impl<R: Real> Rows<R> {
    pub(crate) fn new(programs: usize, width: usize) -> Self {
        Self { values: vec![R::ZERO; programs * width], width }
    }

    pub(crate) fn of(&mut self, program: u32) -> &mut [R] {
        &mut self.values[program as usize * self.width..][..self.width]
    }
}

//! A line read by an LSTM (Hochreiter and Schmidhuber 1997), token by token, from the state that it starts with.
//!
//! ```text
//! z = T[token] + h W_h,  T = E W_x + b
//! i, f, o, g = sigmoid(z_i), sigmoid(z_f), sigmoid(z_o), tanh(z_g)
//! c' = f c + i g,  h' = o tanh(c')
//! ```
//!
//! h, c [rows, H]; z [rows, 4 H] = [i | f | o | g]; E [entries, H], W_x and W_h [H, 4 H], b [4 H]. Products and the rows
//! of T are the host's; what is between is computed here.

use eciton_sdk::{Ids, Matrix, Out, Real, Result, linalg, scratch};

use crate::program::{Place, Programs};
use crate::sums::{Products, width};

/// The cell, for one task.
#[derive(Debug)]
pub(crate) struct Lstm<'a> {
    pub(crate) hidden: usize,
    /// Tokens of a line.
    pub(crate) tokens: usize,
    /// T [entries, 4 H]
    pub(crate) table: &'a Matrix,
    /// W_h
    pub(crate) recurrent: &'a Matrix,
}

/// What `back` needs of a token: h before it, and the gates [i | f | o | g].
#[derive(Debug)]
pub(crate) struct Cell {
    h: Matrix,
    gates: Matrix,
}

/// State of some rows.
#[derive(Debug, Clone)]
pub(crate) struct State<R> {
    pub(crate) c: Vec<R>,
    pub(crate) h: Vec<R>,
}

#[inline(always)]
pub(crate) fn sigmoid<R: Real>(x: R) -> R {
    R::ONE / (R::ONE + (-x).exp())
}

#[inline(always)]
pub(crate) fn tanh<R: Real>(x: R) -> R {
    // exp of what is large would be infinite in f64.
    let two = R::ONE + R::ONE;
    let limit = R::from_f32(40.0);
    let x = if x > limit { limit } else { x };
    two / (R::ONE + (-(two * x)).exp()) - R::ONE
}

/// Four parts of a row, of H values each: i, f, o, g.
fn parts<R>(row: &[R], hidden: usize) -> [&[R]; 4] {
    let (one, two) = row.split_at(2 * hidden);
    let ((i, f), (o, g)) = (one.split_at(hidden), two.split_at(hidden));
    [i, f, o, g]
}

/// z becomes [i | f | o | g] after their functions.
fn open<R: Real>(z: &mut [R], hidden: usize) {
    for row in z.chunks_exact_mut(4 * hidden) {
        let (gates, g) = row.split_at_mut(3 * hidden);
        gates.iter_mut().for_each(|v| *v = sigmoid(*v));
        g.iter_mut().for_each(|v| *v = tanh(*v));
    }
}

/// c after a token, given its gates.
fn carry<R: Real>(gates: &[R], c: &mut [R], hidden: usize) {
    for (gates, c) in gates.chunks_exact(4 * hidden).zip(c.chunks_exact_mut(hidden)) {
        let [i, f, _, g] = parts(gates, hidden);
        each(c, [i, f, g], |c, [i, f, g]| f * c + i * g);
    }
}

/// h after a token, given its gates and c after it.
fn show<R: Real>(gates: &[R], c: &[R], h: &mut [R], hidden: usize) {
    let rows = gates.chunks_exact(4 * hidden).zip(c.chunks_exact(hidden));
    for ((gates, c), h) in rows.zip(h.chunks_exact_mut(hidden)) {
        let [_, _, o, _] = parts(gates, hidden);
        each(h, [o, c, c], |_, [o, c, _]| o * tanh(c));
    }
}

/// Each value of `to` from itself and those beside it. One loop a result: such loops become vectors.
#[inline(always)]
pub(crate) fn each<R: Real>(to: &mut [R], [a, b, c]: [&[R]; 3], by: impl Fn(R, [R; 3]) -> R) {
    for (((to, &a), &b), &c) in to.iter_mut().zip(a).zip(b).zip(c) {
        *to = by(*to, [a, b, c]);
    }
}

/// The gradient of z and, in `dc`, of c before the token; given the gates, c before and after it, and the gradients of
/// h and c after it.
fn cell_back<R: Real>(
    gates: &[R],
    before: &[R],
    after: &[R],
    dh: &[R],
    dc: &mut [R],
    hidden: usize,
) -> Vec<R> {
    let mut dz = vec![R::ZERO; gates.len()];
    let mut t = vec![R::ZERO; hidden];
    let rows = dz.chunks_exact_mut(4 * hidden).zip(gates.chunks_exact(4 * hidden));
    let states = before.chunks_exact(hidden).zip(after.chunks_exact(hidden));
    let grads = dh.chunks_exact(hidden).zip(dc.chunks_exact_mut(hidden));
    for (((dz, gates), (before, after)), (dh, d)) in rows.zip(states).zip(grads) {
        let [i, f, o, g] = parts(gates, hidden);
        let (one, two) = dz.split_at_mut(2 * hidden);
        let ((di, df), (d_o, dg)) = (one.split_at_mut(hidden), two.split_at_mut(hidden));
        t.iter_mut().zip(after).for_each(|(t, &c)| *t = tanh(c));
        each(d, [dh, o, &t], |d, [dh, o, t]| d + dh * o * (R::ONE - t * t));
        each(d_o, [dh, o, &t], |_, [dh, o, t]| dh * t * o * (R::ONE - o));
        each(di, [d, i, g], |_, [d, i, g]| d * g * i * (R::ONE - i));
        each(df, [d, f, before], |_, [d, f, c]| d * c * f * (R::ONE - f));
        each(dg, [d, i, g], |_, [d, i, g]| d * i * (R::ONE - g * g));
        each(d, [f, f, f], |d, [f, ..]| d * f);
    }
    dz
}

/// A scratch matrix of these rows.
pub(crate) fn matrix<R: Real>(columns: usize, values: &[R]) -> Result<Matrix> {
    let rows = values.len() / columns;
    scratch(&[rows as u32, columns as u32], |into| into.write_rows(0, values))
}

pub(crate) fn read<R: Real>(x: &Matrix) -> Result<Vec<R>> {
    x.read_rows(0, x.row_count())
}

impl Lstm<'_> {
    /// The places' lines, from `state` to what it is after them. What `back` needs is kept if asked for.
    pub(crate) fn run<R: Real>(
        &self,
        programs: &Programs,
        places: &[Place],
        state: &mut State<R>,
        keep: bool,
    ) -> Result<Vec<Cell>> {
        let mut cells = Vec::new();
        if places.is_empty() {
            return Ok(cells);
        }
        for position in 0..self.tokens {
            let h = matrix(self.hidden, &state.h)?;
            let tokens = Ids::create(&programs.tokens(places, position))?;
            let z = scratch(&[places.len() as u32, 4 * self.hidden as u32], |into: &Out| {
                linalg::gather_rows(self.table, &tokens, into)?;
                linalg::matmul(&h, false, self.recurrent, false, true, into)
            })?;
            let mut gates: Vec<R> = read(&z)?;
            open(&mut gates, self.hidden);
            carry(&gates, &mut state.c, self.hidden);
            show(&gates, &state.c, &mut state.h, self.hidden);
            if keep {
                cells.push(Cell { h, gates: matrix(4 * self.hidden, &gates)? });
            }
        }
        Ok(cells)
    }

    /// The gradient of the state before the lines in the place of that after them, `grad`; `c` is that state's.
    pub(crate) fn back<R: Real>(
        &self,
        places: &[Place],
        cells: &[Cell],
        c: Vec<R>,
        grad: &mut State<R>,
        sums: &mut LineSums<R>,
    ) -> Result<()> {
        let (mut gates, mut carried) = (Vec::new(), vec![c]);
        for cell in cells {
            let opened: Vec<R> = read(&cell.gates)?;
            let mut after = carried.last().cloned().unwrap_or_default();
            carry(&opened, &mut after, self.hidden);
            gates.push(opened);
            carried.push(after);
        }
        for (position, (cell, gates)) in cells.iter().zip(&gates).enumerate().rev() {
            let (before, after) = (&carried[position], &carried[position + 1]);
            let dz = cell_back(gates, before, after, &grad.h, &mut grad.c, self.hidden);
            sums.add(places, position, &dz);
            let dz = matrix(4 * self.hidden, &dz)?;
            let dh = scratch(&cell.h.shape(), |into| {
                linalg::matmul(&dz, false, self.recurrent, true, false, into)
            })?;
            grad.h = read(&dh)?;
            sums.recurrent.add(&cell.h, &dz, places.iter().map(|place| place.program))?;
        }
        Ok(())
    }
}

/// What the gradients of E, W_x, b and W_h are summed from, for some programs.
#[derive(Debug)]
pub(crate) struct LineSums<R> {
    /// Of W_h.
    recurrent: Products,
    nodes: usize,
    tokens: usize,
    /// Where `sums` has the gradient of a row of T, by program, node and position; from 1, 0 for nowhere.
    rows: Vec<u32>,
    /// [.., 4 H]
    sums: Vec<R>,
    hidden: usize,
}

impl<R: Real> LineSums<R> {
    /// For lines that run `runs` times in all, by program and node at most once in a call of `back`.
    pub(crate) fn new(programs: &Programs, nodes: usize, lstm: &Lstm<'_>, runs: usize) -> Result<Self> {
        let (hidden, tokens) = (lstm.hidden, lstm.tokens);
        let count = programs.count();
        Ok(Self {
            recurrent: Products::new(count, runs * tokens, hidden, 4 * hidden)?,
            nodes,
            tokens,
            rows: vec![0; count * nodes * tokens],
            sums: Vec::new(),
            hidden,
        })
    }

    fn add(&mut self, places: &[Place], position: usize, dz: &[R]) {
        let wide = 4 * self.hidden;
        for (place, dz) in places.iter().zip(dz.chunks_exact(wide)) {
            let row = (place.program as usize * self.nodes + place.node as usize) * self.tokens + position;
            match self.rows[row] {
                0 => {
                    self.sums.extend_from_slice(dz);
                    self.rows[row] = (self.sums.len() / wide) as u32;
                }
                at => {
                    let sum = &mut self.sums[(at as usize - 1) * wide..][..wide];
                    sum.iter_mut().zip(dz).for_each(|(sum, &dz)| *sum += dz);
                }
            }
        }
    }

    /// Writes what parameters' gradients are sums of, of these programs: dW_h and dW_x by program, the bias's by
    /// program, and those of E's rows by program, node and position.
    pub(crate) fn finish(self, programs: &Programs, with: &Inputs<'_>, into: LineOuts<'_>) -> Result<()> {
        self.recurrent.finish(into.recurrent)?;
        let width = width(4 * self.hidden);
        let (nodes, tokens) = (self.nodes, self.tokens);
        let (mut values, mut at, mut owners, mut entries) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut bias = vec![R::ZERO; programs.count() * 4 * self.hidden];
        for (row, &sum) in self.rows.iter().enumerate().filter(|(_, sum)| **sum > 0) {
            let sum = &self.sums[(sum as usize - 1) * 4 * self.hidden..][..4 * self.hidden];
            let program = row / tokens / nodes;
            let place = Place { program: program as u32, node: (row / tokens % nodes) as u32 };
            let of = &mut bias[program * 4 * self.hidden..][..4 * self.hidden];
            of.iter_mut().zip(sum).for_each(|(bias, &dz)| *bias += dz);
            values.extend_from_slice(sum);
            at.push(row as u32);
            owners.push(place.program);
            entries.extend(programs.tokens(&[place], row % tokens));
        }
        into.bias.write_rows(0, &bias)?;
        let mut products = Products::new(programs.count(), at.len(), self.hidden, 4 * self.hidden)?;
        if at.is_empty() {
            into.embedded.write_rows(0, &vec![R::ZERO; self.rows.len() * self.hidden])?;
            return products.finish(into.inputs);
        }
        let count = at.len() as u32;
        let dt = scratch(&[count, width], |into| into.write_rows(0, &values))?;
        let entries = Ids::create(&entries)?;
        let shape = [count, self.hidden as u32];
        let rows = scratch(&shape, |into| linalg::gather_rows(with.embedding, &entries, into))?;
        products.add(&rows, &dt, owners.into_iter())?;
        products.finish(into.inputs)?;
        let de = scratch(&shape, |into| linalg::matmul(&dt, false, with.weight, true, false, into))?;
        linalg::scatter_add_rows(&de, &Ids::create(&at)?, into.embedded)
    }
}

/// What T is made of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Inputs<'a> {
    /// E
    pub(crate) embedding: &'a Matrix,
    /// W_x
    pub(crate) weight: &'a Matrix,
}

/// Where [`LineSums::finish`] writes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LineOuts<'a> {
    /// [n nodes tokens, H]
    pub(crate) embedded: &'a Out,
    /// [n, H, 4 H]
    pub(crate) inputs: &'a Out,
    /// [n, 4 H]
    pub(crate) bias: &'a Out,
    /// [n, H, 4 H]
    pub(crate) recurrent: &'a Out,
}

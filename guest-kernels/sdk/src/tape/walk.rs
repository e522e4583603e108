//! The way back over a tape.

use std::rc::Rc;

use super::edges::Passed;
use super::{Back, Kind, Later, Node, Tape, Term, refuse};
use crate::compose::scratch;
use crate::handles::{Ids, Matrix, Out};
use crate::linalg;
use crate::types::Result;

/// Rows of constants that are written at once.
const TILE_ROWS: u32 = 256;

/// Writes one value everywhere.
pub(crate) fn fill(into: &Out, value: f32) -> Result<()> {
    let shape = into.shape();
    let rows = shape.first().copied().unwrap_or(0);
    let width = shape.iter().skip(1).map(|&e| e as usize).product::<usize>();
    let tile = vec![value; rows.min(TILE_ROWS) as usize * width];
    let mut start = 0;
    while start < rows {
        let count = (rows - start).min(TILE_ROWS);
        into.write_rows(start, &tile[..count as usize * width])?;
        start += count;
    }
    Ok(())
}

/// A matrix of zeros, for the case that somebody reads it.
pub(crate) fn zeros_later(shape: &[u32]) -> Matrix {
    let write = Box::new(|into: &Out| fill(into, 0.0));
    Matrix::later(shape.to_vec(), Later::Written { write, depth: 1 })
}

pub(super) fn filled(shape: &[u32], value: f32) -> Result<Matrix> {
    scratch(shape, |into| fill(into, value))
}

/// [count, width], with ones in the columns from `start`, one a row: x S puts columns to their place among `width`.
pub(super) fn selection(start: u32, count: u32, width: u32) -> Result<Matrix> {
    scratch(&[count, width], |into| {
        for at in 0..count {
            let mut row = vec![0.0f32; width as usize];
            row[(start + at) as usize] = 1.0;
            into.write_rows(at, &row)?;
        }
        Ok(())
    })
}

/// [n, values of a row]
pub(super) fn flat(x: Matrix) -> Result<Matrix> {
    let shape = x.extents();
    if shape.len() == 2 {
        return Ok(x);
    }
    x.reshape(&[shape[0], shape.iter().skip(1).product()])
}

pub(super) fn sum(a: &Matrix, b: &Matrix) -> Result<Matrix> {
    scratch(a.extents(), |into| linalg::axpby(1.0, a, 1.0, b, into))
}

/// alpha x; x itself where alpha is 1.
pub(super) fn times(alpha: f32, x: &Matrix) -> Result<Matrix> {
    if alpha == 1.0 {
        return Ok(x.shared(0));
    }
    scratch(x.extents(), |into| linalg::axpby(alpha, x, 0.0, x, into))
}

pub(super) fn multiplied(x: &Matrix, y: &Matrix) -> Result<Matrix> {
    scratch(x.extents(), |into| linalg::multiply(x, y, into))
}

/// The sum of gradients, each times a number.
fn total(all: Vec<(f32, Matrix)>) -> Result<Option<Matrix>> {
    let mut all = all.into_iter();
    let Some((mut factor, mut total)) = all.next() else { return Ok(None) };
    for (other_factor, other) in all {
        total = scratch(total.extents(), |into| linalg::axpby(factor, &total, other_factor, &other, into))?;
        factor = 1.0;
    }
    times(factor, &total).map(Some)
}

/// A walk from the outputs of a tape to its inputs and parameters.
pub(crate) struct Walk<'a> {
    tape: Rc<Tape>,
    pub(super) nodes: Vec<Node>,
    /// By node: gradients, each times a number.
    rows: Vec<Vec<(f32, Matrix)>>,
    terms: Vec<Vec<Term>>,
    covered: Vec<Vec<(u32, u32)>>,
    /// Where the gradient of the parameter at a node goes, and whether it is there.
    parameters: Vec<(u32, &'a Out, bool)>,
    /// The same of inputs.
    inputs: Vec<(u32, &'a Out, bool)>,
    /// Rows that parameters' gradients are reduced over.
    reduced: u32,
    pub(super) passed: Passed,
}

impl<'a> Walk<'a> {
    /// `parameters`: those of the tape, and where their gradients go; `reduced`: the rows that these are sums over.
    pub(crate) fn new(tape: &Rc<Tape>, parameters: &[Matrix], into: &[&'a Out], reduced: u32) -> Self {
        let nodes = std::mem::take(&mut tape.recorded.borrow_mut().nodes);
        let count = nodes.len();
        let parameters = parameters.iter().zip(into).map(|(p, &out)| (p.node(), out, false)).collect();
        Self {
            tape: Rc::clone(tape),
            nodes,
            rows: (0..count).map(|_| Vec::new()).collect(),
            terms: (0..count).map(|_| Vec::new()).collect(),
            covered: vec![Vec::new(); count],
            parameters,
            inputs: Vec::new(),
            reduced,
            passed: Passed::default(),
        }
    }

    /// The gradients of sums over edges.
    pub(crate) fn sums(&self) -> &Passed {
        &self.passed
    }

    /// Whether a gradient with regard to x is of use.
    pub(super) fn wants(&self, x: &Matrix) -> bool {
        self.nodes[x.node() as usize].wanted
    }

    pub(super) fn kind(&self, x: &Matrix) -> Kind {
        self.nodes[x.node() as usize].kind
    }

    /// Adds a gradient with regard to x.
    pub(crate) fn add(&mut self, x: &Matrix, gradient: Matrix) {
        self.add_times(x, 1.0, gradient);
    }

    /// Adds a gradient times `factor`.
    pub(super) fn add_times(&mut self, x: &Matrix, factor: f32, gradient: Matrix) {
        if self.wants(x) && factor != 0.0 {
            self.rows[x.node() as usize].push((factor, gradient));
        }
    }

    pub(super) fn add_terms(&mut self, x: &Matrix, terms: impl IntoIterator<Item = Term>) {
        if self.wants(x) {
            self.terms[x.node() as usize].extend(terms);
        }
    }

    /// The gradient with regard to an input will go there.
    pub(crate) fn place(&mut self, input: &Matrix, into: &'a Out) {
        self.inputs.push((input.node(), into, false));
    }

    /// Where the gradient of x goes, if x is a parameter, or an input that has its place, and is used once.
    pub(super) fn straight(&mut self, x: &Matrix) -> Option<&'a Out> {
        let node = &self.nodes[x.node() as usize];
        if !(node.leaf && node.wanted && node.uses == 1) {
            return None;
        }
        let mut places = self.parameters.iter_mut().chain(&mut self.inputs);
        let (_, out, done) = places.find(|(node, ..)| *node == x.node())?;
        *done = true;
        Some(out)
    }

    /// What was written to rows of a place, if it is there as it was written.
    pub(super) fn value(&self, (node, first, count): (u32, u32, u32)) -> Result<Option<Matrix>> {
        let of = &self.nodes[node as usize];
        match &of.value {
            Some(value) if !of.accumulated && of.rows == count => Ok(Some(value.shared(0))),
            Some(value) if !of.accumulated => value.rows(first, count).map(Some),
            _ => Ok(None),
        }
    }

    pub(super) fn tape(&self) -> Rc<Tape> {
        Rc::clone(&self.tape)
    }

    /// The sum of all gradients of a node so far.
    fn total(&mut self, node: u32) -> Result<Option<Matrix>> {
        total(std::mem::take(&mut self.rows[node as usize]))
    }

    /// Whether a later step wrote these rows; an error where it wrote some of them.
    fn overwritten(&self, node: u32, first: u32, count: u32) -> Result<bool> {
        let (mut whole, mut some) = (false, false);
        for &(from, to) in &self.covered[node as usize] {
            whole |= from <= first && first + count <= to;
            some |= from < first + count && first < to;
        }
        if some && !whole {
            return Err(refuse("write", "some rows of a matrix were written twice, some once"));
        }
        Ok(whole && count > 0)
    }

    /// Takes every gradient back as far as it goes.
    pub(crate) fn run(&mut self) -> Result<()> {
        let steps = std::mem::take(&mut self.tape.recorded.borrow_mut().steps);
        for step in steps.into_iter().rev() {
            let node = step.node;
            if self.overwritten(node, step.first, step.count)? {
                continue;
            }
            if !step.accumulate {
                self.covered[node as usize].push((step.first, step.first + step.count));
            }
            match step.back {
                Back::Nothing => {}
                Back::Terms(back) => {
                    let terms = std::mem::take(&mut self.terms[node as usize]);
                    if !terms.is_empty() {
                        back(self, terms)?;
                    }
                }
                Back::Passed(back, slot) => {
                    let tape = self.tape();
                    let gradient = tape.side.passed(slot, &tape.lazy)?;
                    back(self, gradient)?;
                }
                Back::Rows(back) => {
                    let Some(total) = self.total(node)? else { continue };
                    let whole = self.nodes[node as usize].rows == step.count;
                    let part = match whole {
                        true => total.shared(0),
                        false => total.rows(step.first, step.count)?,
                    };
                    if !whole || step.accumulate {
                        self.rows[node as usize].push((1.0, total));
                    }
                    back(self, part)?;
                }
            }
        }
        // What gradients still need they hold themselves, until they are computed.
        self.nodes.iter_mut().for_each(|node| node.value = None);
        Ok(())
    }

    /// Writes the gradients of inputs that have their places.
    pub(crate) fn write_placed(&mut self) -> Result<()> {
        for (node, into, done) in std::mem::take(&mut self.inputs) {
            if !done {
                self.write(node, into, Ok)?;
            }
        }
        Ok(())
    }

    /// Writes the gradient of a node, or what `of_part` makes of each part that it is a sum of.
    pub(crate) fn write(
        &mut self,
        node: u32,
        into: &Out,
        of_part: impl Fn(Matrix) -> Result<Matrix>,
    ) -> Result<()> {
        let parts = std::mem::take(&mut self.rows[node as usize]).into_iter();
        let parts = parts.map(|(factor, part)| Ok((factor, of_part(part)?)));
        match total(parts.collect::<Result<Vec<_>>>()?)? {
            Some(total) => total.write_to(into),
            None => fill(into, 0.0),
        }
    }

    /// Reduces into the gradients of all parameters that have none yet.
    pub(crate) fn reduce(&mut self) -> Result<()> {
        for (node, out, done) in std::mem::take(&mut self.parameters) {
            if !done {
                let terms = std::mem::take(&mut self.terms[node as usize]);
                Term::reduce(terms, self.reduced, out)?;
            }
        }
        Ok(())
    }
}

/// The segment of each row.
pub(super) fn owners(offsets: &Ids) -> Result<Ids> {
    let bounds = offsets.read(0, offsets.len())?;
    let mut owners = Vec::new();
    for (segment, bounds) in bounds.windows(2).enumerate() {
        owners.resize(bounds[1] as usize, segment as u32);
    }
    Ids::create(&owners)
}

//! Dense matrix products and their gradients. A routine is selected by the widths alone, so the
//! bits of a row do not depend on the number of rows. Sums over rows follow the [`Grid`].
//!
//! On processors with 512-bit registers, all products use [`tiles`]. On others, narrow products
//! (whose weight fits into the first-level cache) use register tiles. A general routine would first
//! pack both matrices, which costs more than the product. Wide products use `matrixmultiply`, whose
//! results do not depend on how rows are cut.
#![allow(unsafe_code)]

mod atoms;
mod attend;
mod batched;
mod lines;
mod narrow;
#[cfg(target_arch = "x86_64")]
mod tiles;
mod tree;

pub use attend::{Attention, attend, attend_backward, attention_values};
pub use batched::{Factor, batched};
pub use tree::Tree;

use lines::Lines;

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::activation::Activation;
use super::permute::{Lies, transpose as transpose_block};
use super::prologue::{Prologue, epilogue};
use crate::grid::{Atom, Grid, Part};
use crate::parallel;
use crate::simd::{Level, dispatch, level};
use crate::view::{View, ViewMut};

/// Maximum width of a narrow product, in lanes. For wider products, `matrixmultiply` was faster in
/// measurements (`tests/products-bench`).
const NARROW_LANES: usize = 32;
/// Maximum number of values of the weight in a narrow product. They take 32 KiB.
const NARROW_VALUES: usize = 8192;
/// Maximum number of values of the weight gradient in a narrow product. `matrixmultiply` is faster
/// over many rows. But an atom of a small graph has about forty rows, too few to pay for the
/// packing.
const NARROW_GRADIENT: usize = 512;
/// Number of rows whose prologue is computed at a time before a wide product.
const BLOCK_ROWS: usize = 512;
/// Minimum number of rows of a product that one thread computes, if several threads share it.
const PIECE_ROWS: usize = 128;
/// Number of values of a sum over rows that are computed at a time. All levels of its tree fit into
/// the second-level cache.
const SUM_VALUES: usize = 1 << 16;
/// Minimum number of rows of a block of the weight gradient, if one thread computes it. Each block
/// copies the other factor.
const SUM_ROWS: usize = 256;
/// Number of values of the operand whose prologue is stored at a time for gradients.
const STORED_VALUES: usize = 1 << 17;
/// Number of values of both factors of a sum over rows that are processed at a time.
const READ_VALUES: usize = 1 << 20;
/// Number of rows that are processed at a time in a sum over rows.
const SUM_BLOCK_ROWS: usize = 256;
/// Minimum number of rows of an atom whose product is added to memory separately.
const LARGE_ATOM: usize = 24;

fn lanes(columns: usize) -> usize {
    if columns <= 8 { 8 } else { columns.next_multiple_of(16) }
}

/// Returns true if a weight of shape `[k, n]` is processed by the routine for narrow products.
fn is_narrow(k: usize, n: usize) -> bool {
    lanes(n) <= NARROW_LANES && k * lanes(n) <= NARROW_VALUES
}

/// Working memory of one thread for products. It is reused for later products.
#[derive(Debug, Default)]
pub struct Scratch {
    rows: Vec<f32>,
    packed: Lines,
    grad_rows: Vec<f32>,
    /// Summation trees for the gradients of the bias before the product, and of the bias after it.
    biases: [Tree; 2],
    /// Summation tree for each block of rows of the gradient of the weight.
    trees: Vec<Tree>,
    batched: Vec<f32>,
    attended: attend::Attended,
    pub(crate) stored: Vec<f32>,
    pub(crate) sparse_sums: Tree,
    pub(crate) kept: super::kept::Kept,
}

/// Copies the rows of `w`, or of its transpose, to rows of exactly `lanes` values, padded with
/// zeros.
fn pack<'s>(w: View<'s>, transpose: bool, lanes: usize, into: &'s mut Lines) -> &'s [f32] {
    if !transpose && w.stride() == lanes && w.data().len() >= w.rows() * lanes {
        return w.data();
    }
    let (k, n) = if transpose { (w.columns(), w.rows()) } else { (w.rows(), w.columns()) };
    let into = into.take(k * lanes);
    into.fill(0.0);
    if transpose {
        let (at, to) = (Lies { first: 0, stride: w.stride() }, Lies { first: 0, stride: lanes });
        transpose_block((w.data(), at), (w.rows(), w.columns()), (into, to));
        return into;
    }
    for i in 0..w.rows() {
        into[i * lanes..i * lanes + n].copy_from_slice(w.row(i));
    }
    into
}

/// Weight of shape `[k, n]` in the memory layout that its product routine reads.
#[derive(Debug, Clone, Copy)]
enum Laid<'s> {
    /// k rows of n values, padded to whole vector lanes.
    Narrow(&'s [f32]),
    /// The weight in panels, for routines with 512-bit registers.
    #[cfg(target_arch = "x86_64")]
    Tiles(tiles::Right<'s>),
    /// The weight in its original layout, with the distances between rows and between columns.
    Wide { w: View<'s>, row: usize, column: usize },
}

impl<'s> Laid<'s> {
    /// Brings `w` or its transpose into the layout of its product routine, for a product with `rows` rows.
    /// Values that must be moved are copied to `packed`.
    fn new(w: View<'s>, transpose: bool, rows: usize, packed: &'s mut Lines) -> Self {
        let (k, n) = if transpose { (w.columns(), w.rows()) } else { (w.rows(), w.columns()) };
        #[cfg(target_arch = "x86_64")]
        if tiles::available() {
            return Self::Tiles(tiles::Right::new(w, transpose, rows, packed));
        }
        if is_narrow(k, n) {
            return Self::Narrow(pack(w, transpose, lanes(n), packed));
        }
        let (row, column) = if transpose { (1, w.stride()) } else { (w.stride(), 1) };
        Self::Wide { w, row, column }
    }

    /// Returns the weight without the rows from `rows` on. A product takes them from the width of x
    /// where the layout does not tell.
    fn first_rows(self, rows: usize) -> Self {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Tiles(w) => Self::Tiles(w.first_rows(rows)),
            other => other,
        }
    }

    /// Returns the weight without the columns from `columns` on. A narrow weight keeps all of them,
    /// because their number selects its layout.
    fn first_columns(self, columns: usize) -> Self {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Tiles(w) => Self::Tiles(w.first_columns(columns)),
            other => other,
        }
    }

    /// Computes out = x w. If `accumulate` is true, the product is added to out.
    fn multiply(self, x: View<'_>, accumulate: bool, out: &mut ViewMut<'_>) {
        if x.columns() == 0 {
            if !accumulate {
                (0..out.rows()).for_each(|i| out.row_mut(i).fill(0.0));
            }
            return;
        }
        match self {
            Self::Narrow(packed) => narrow::multiply(x, packed, accumulate, out),
            #[cfg(target_arch = "x86_64")]
            Self::Tiles(w) => tiles::multiply(x, w, accumulate, out),
            Self::Wide { w, row, column } => wide(x, (w, row, column), accumulate, out),
        }
    }
}

/// Computes out = x w, or x w^T if `transpose_w` is true. If `accumulate` is true, the product is
/// added to out.
pub fn matmul(
    x: View<'_>,
    w: View<'_>,
    transpose_w: bool,
    accumulate: bool,
    out: &mut ViewMut<'_>,
    scratch: &mut Scratch,
) {
    let (k, n) = if transpose_w { (w.columns(), w.rows()) } else { (w.rows(), w.columns()) };
    debug_assert!(x.columns() == k && out.columns() == n && out.rows() == x.rows());
    let w = Laid::new(w, transpose_w, x.rows(), &mut scratch.packed);
    let each = piece_rows(x.rows());
    let pieces: Vec<_> = out.blocks(each).map(Mutex::new).collect();
    parallel::for_each(pieces.len(), x.rows() * k * n, &|piece| {
        let mut out = locked(&pieces[piece]);
        w.multiply(x.slice(piece * each, out.rows()), accumulate, &mut out);
    });
}

/// Returns the number of rows of a piece of a product with `rows` rows. There are up to two pieces
/// per thread, because threads are not equally fast.
fn piece_rows(rows: usize) -> usize {
    match parallel::threads() {
        1 => rows,
        threads => rows.div_ceil(2 * threads).max(PIECE_ROWS),
    }
}

/// Locks the data of a piece, which only one thread computes.
fn locked<T>(piece: &Mutex<T>) -> MutexGuard<'_, T> {
    piece.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wide(
    x: View<'_>,
    (w, w_row, w_column): (View<'_>, usize, usize),
    accumulate: bool,
    out: &mut ViewMut<'_>,
) {
    let (m, k, n) = (x.rows(), x.columns(), out.columns());
    if m == 0 || n == 0 {
        return;
    }
    let stride = out.stride();
    let beta = if accumulate { 1.0 } else { 0.0 };
    // SAFETY: the views bound every address. Each has rows * stride values, with columns <= stride.
    unsafe {
        matrixmultiply::sgemm(
            m,
            k,
            n,
            1.0,
            x.data().as_ptr(),
            x.stride() as isize,
            1,
            w.data().as_ptr(),
            w_row as isize,
            w_column as isize,
            beta,
            out.data_mut().as_mut_ptr(),
            stride as isize,
            1,
        );
    }
}

/// Computes out = activation(u w + bias), where u is x after the prologue `before`.
#[allow(clippy::too_many_arguments)]
pub fn linear(
    x: View<'_>,
    before: &Prologue<'_>,
    w: View<'_>,
    bias: Option<&[f32]>,
    activation: Activation,
    out: &mut ViewMut<'_>,
    scratch: &mut Scratch,
) {
    let (k, m, identity) = (x.columns(), w.columns(), before.is_identity());
    let Scratch { rows, packed, .. } = scratch;
    let w = Laid::new(w, false, x.rows(), packed);
    let each = if identity { x.rows() } else { BLOCK_ROWS };
    let stored = if identity { 0 } else { BLOCK_ROWS.min(x.rows()) * k };
    rows.resize(rows.len().max(stored), 0.0);
    for (first, mut out) in (0..).step_by(each.max(1)).zip(out.blocks(each)) {
        let count = out.rows();
        let piece_rows = piece_rows(count).min(BLOCK_ROWS);
        let mut u = ViewMut::new(
            &mut rows[..if identity { 0 } else { count * k }],
            if identity { 0 } else { count },
            k,
        );
        let mut u = u.blocks(piece_rows);
        let pieces = out.blocks(piece_rows).map(|out| Mutex::new((out, u.next())));
        let pieces: Vec<_> = pieces.collect();
        parallel::for_each(pieces.len(), count * k * m, &|piece| {
            let (out, u) = &mut *locked(&pieces[piece]);
            let first = first + piece * piece_rows;
            let u = match u {
                None => x.slice(first, out.rows()),
                Some(u) => {
                    before.forward(x, first, u);
                    u.as_view()
                }
            };
            w.multiply(u, false, out);
            epilogue(bias, activation, out);
        });
    }
}

/// Destinations of the gradients that [`linear_backward`] computes, or `None` for those that are
/// not needed. Gradients of parameters have one matrix per part of the grid.
#[derive(Debug, Default)]
pub struct Wanted<'a, 'b> {
    /// Gradient of x, of shape `[n, k]`.
    pub x: Option<&'a mut ViewMut<'b>>,
    /// Gradient of the prologue's bias, which is the column sum of the gradient of x. Each part of
    /// the grid has a matrix of shape `[1, k]`.
    pub before_bias: Option<&'a mut [ViewMut<'b>]>,
    /// Gradient of the weight. Each part of the grid has a matrix of shape `[k, m]`.
    pub w: Option<&'a mut [ViewMut<'b>]>,
    /// Gradient of the bias after the product. Each part of the grid has a matrix of shape `[1,
    /// m]`.
    pub after_bias: Option<&'a mut [ViewMut<'b>]>,
}

/// Computes the gradients of u w + b from the gradient `d` of the result, where u is x after the
/// prologue `before`.
pub fn linear_backward(
    x: View<'_>,
    before: &Prologue<'_>,
    w: View<'_>,
    d: View<'_>,
    grid: &Grid,
    wanted: Wanted<'_, '_>,
    scratch: &mut Scratch,
) {
    let (k, m) = (w.rows(), w.columns());
    let Wanted { x: mut grad_x, mut before_bias, w: grad_w, mut after_bias } = wanted;
    let Scratch { rows: u_rows, grad_rows, biases: [tree_before, tree_after], trees, packed, .. } = scratch;
    tree_before.begin(k);
    tree_after.begin(m);
    let transposed =
        (grad_x.is_some() || before_bias.is_some()).then(|| Laid::new(w, true, d.rows(), packed));
    let identity = before.is_identity();
    let narrow = is_narrow_gradient(k, m);
    // The other half of the threads computes the gradient of x.
    let threads = if transposed.is_some() { parallel::threads() / 2 } else { parallel::threads() };
    let blocks = sum_blocks(grad_w, (k, m), threads.max(1), trees);
    let mut all: Vec<Step<'_>> = Vec::new();
    for (part, of) in grid.parts().iter().enumerate() {
        let start = all.last().map_or(0, |step| step.rows.end);
        all.extend(steps(part, of, start));
    }
    // Rows are processed some at a time, so that they stay in a cache.
    let most = match identity && (grad_x.is_some() || transposed.is_none()) {
        true => READ_VALUES / (k + m).max(1),
        false => STORED_VALUES / k.max(1),
    };
    let most = most.max(SUM_BLOCK_ROWS);
    let mut left = &all[..];
    while let [first, ..] = left {
        let at = first.rows.start;
        let fits = |step: &&Step<'_>| step.rows.end - at <= most;
        let (now, later) = left.split_at(left.iter().take_while(fits).count().max(1));
        left = later;
        let count = now.last().map_or(at, |step| step.rows.end) - at;
        let (each, work) = (piece_rows(count).min(SUM_BLOCK_ROWS), count * k * m);
        let d = d.slice(at, count);
        let needs_u = !blocks.is_empty() && !identity;
        u_rows.resize(u_rows.len().max(if needs_u { count * k } else { 0 }), 0.0);
        let mut u = ViewMut::new(&mut u_rows[..], if needs_u { count } else { 0 }, k);
        let pieces: Vec<_> = u.blocks(each).map(Mutex::new).collect();
        parallel::for_each(pieces.len(), work, &|piece| {
            before.forward(x, at + piece * each, &mut locked(&pieces[piece]));
        });
        drop(pieces);
        let u = if needs_u { u.as_view() } else { x.slice(at, count) };
        // Rows of the gradient of u that no output takes.
        let own = if grad_x.is_none() && transposed.is_some() { count } else { 0 };
        grad_rows.resize(grad_rows.len().max(own * k), 0.0);
        let mut own = ViewMut::new(&mut grad_rows[..], own, k);
        let mut target = match &mut grad_x {
            Some(grad) => grad.slice(at, count),
            None => own.slice(0, own.rows()),
        };
        let pieces: Vec<_> = target.blocks(each).map(Mutex::new).collect();
        parallel::for_each(blocks.len() + pieces.len(), 2 * work, &|piece| {
            if let Some(block) = blocks.get(piece) {
                return locked(block).add(now, u, d, narrow);
            }
            let piece = piece - blocks.len();
            let Some((w, rows)) = transposed.zip(pieces.get(piece)) else { return };
            let mut rows = locked(rows);
            let (first, count) = (piece * each, rows.rows());
            w.multiply(d.slice(first, count), false, &mut rows);
            match before.activation {
                // ReLU and dropout pass the gradient where u is positive.
                Activation::Relu if !blocks.is_empty() => {
                    let scale = before.dropout.map_or(1.0, |d| d.scale);
                    pass_positive(u.slice(first, count), scale, &mut rows);
                }
                _ => before.backward(x, at + first, &mut rows),
            }
        });
        drop(pieces);
        for step in now {
            let rows = (step.rows.start - at, step.rows.len());
            for (wanted, of, tree) in [
                (after_bias.as_deref_mut(), d, &mut *tree_after),
                (before_bias.as_deref_mut(), target.as_view(), &mut *tree_before),
            ] {
                let Some(parts) = wanted else { continue };
                step.run.column_sums(of.slice(rows.0, rows.1), tree);
                if let Some(closes) = step.closes {
                    tree.close(closes);
                }
                if step.ends_part {
                    tree.finish(of.columns(), &mut parts[step.part]);
                }
            }
        }
    }
    *trees = blocks.into_iter().map(|block| locked(&block).take_tree()).collect();
}

/// Block of rows of the gradient of the weight, and the tree of its sums.
struct Block<'a> {
    tree: Tree,
    /// Rows of the block in the gradient of each part.
    parts: Vec<ViewMut<'a>>,
    /// Columns of u to which the rows belong.
    columns: Range<usize>,
}

/// Divides the gradient of a weight of shape `[k, m]` into blocks of rows, at least one per thread.
/// `trees` are reused.
fn sum_blocks<'a>(
    parts: Option<&'a mut [ViewMut<'_>]>,
    (k, m): (usize, usize),
    threads: usize,
    trees: &mut Vec<Tree>,
) -> Vec<Mutex<Block<'a>>> {
    let Some(parts) = parts else { return Vec::new() };
    let each = (SUM_VALUES / lanes(m)).max(SUM_ROWS).min(k.div_ceil(threads)).next_multiple_of(24);
    let mut blocks: Vec<Block<'a>> = (0..k.max(1))
        .step_by(each)
        .map(|first| {
            let columns = first..(first + each).min(k);
            let mut tree = trees.pop().unwrap_or_default();
            tree.begin(columns.len() * lanes(m));
            Block { tree, parts: Vec::new(), columns }
        })
        .collect();
    for part in parts {
        for (block, rows) in blocks.iter_mut().zip(part.blocks(each)) {
            block.parts.push(rows);
        }
    }
    blocks.into_iter().map(Mutex::new).collect()
}

impl Block<'_> {
    /// Adds u^T d over the rows of `steps` to the block. The first row of u and d is the first row
    /// of the steps.
    fn add(&mut self, steps: &[Step<'_>], u: View<'_>, d: View<'_>, narrow: bool) {
        let (first, stride) = (steps.first().map_or(0, |step| step.rows.start), lanes(d.columns()));
        let u = u.columns_from(self.columns.start, self.columns.len());
        for step in steps {
            let (at, count) = (step.rows.start - first, step.rows.len());
            let (u, d) = (u.slice(at, count), d.slice(at, count));
            match step.run.is_whole() {
                true => step.run.products(u, d, narrow, &mut self.tree),
                false => product_of_rows(u, d, narrow, self.tree.leaf()),
            }
            if let Some(closes) = step.closes {
                self.tree.close(closes);
            }
            if step.ends_part
                && let Some(part) = self.parts.get_mut(step.part)
            {
                self.tree.finish(stride, part);
            }
        }
    }

    fn take_tree(&mut self) -> Tree {
        std::mem::take(&mut self.tree)
    }
}

/// Rows that are processed together in a sum over rows.
struct Step<'a> {
    part: usize,
    run: Run<'a>,
    rows: Range<usize>,
    /// Number of tree levels above the group that end after these rows. `None` if the run
    /// continues.
    closes: Option<u8>,
    ends_part: bool,
}

/// Divides the rows of a part, of which the first is `start`, into steps: runs, or blocks of the rows
/// of a large atom. There is at least one step.
fn steps<'a>(part: usize, of: &'a Part, start: usize) -> Vec<Step<'a>> {
    let mut steps = Vec::new();
    for run in runs(&of.atoms) {
        let (start, end) = run.rows();
        for at in (start..end.max(start + 1)).step_by(SUM_BLOCK_ROWS) {
            let rows = at..(at + SUM_BLOCK_ROWS).min(end);
            let closes = (rows.end == end).then(|| run.closes());
            steps.push(Step { part, run, rows, closes, ends_part: false });
        }
    }
    if steps.is_empty() {
        steps.push(Step {
            part,
            run: Run { atoms: &[] },
            rows: start..start,
            closes: None,
            ends_part: false,
        });
    }
    steps.last_mut().into_iter().for_each(|step| step.ends_part = true);
    steps
}

/// Consecutive atoms that are processed together. A run has one atom, or several atoms of one group
/// that fit into a block.
#[derive(Clone, Copy)]
struct Run<'a> {
    atoms: &'a [Atom],
}

/// Groups the atoms of a part into runs that are processed together.
fn runs(mut atoms: &[Atom]) -> impl Iterator<Item = Run<'_>> {
    std::iter::from_fn(move || {
        let start = atoms.first()?.rows.start;
        let fits = |atom: &&Atom| (atom.rows.end - start) as usize <= SUM_BLOCK_ROWS;
        let fitting = atoms.iter().take_while(fits).count();
        // The atom that ends a group is the last of its run.
        let group = atoms.iter().take_while(|atom| atom.closes == 0).count() + 1;
        let (run, rest) = atoms.split_at(fitting.min(group).max(1).min(atoms.len()));
        atoms = rest;
        Some(Run { atoms: run })
    })
}

impl Run<'_> {
    /// Returns the first row of the run, and the end of its last row.
    fn rows(&self) -> (usize, usize) {
        let end = self.atoms.last().map_or(0, |atom| atom.rows.end);
        (self.atoms.first().map_or(0, |atom| atom.rows.start) as usize, end as usize)
    }

    /// Returns true if all rows of the run fit into one block.
    fn is_whole(&self) -> bool {
        let (start, end) = self.rows();
        end - start <= SUM_BLOCK_ROWS
    }

    /// Returns the number of tree levels above the group that end with the last atom of the run.
    fn closes(&self) -> u8 {
        self.atoms.last().map_or(0, |atom| atom.closes)
    }

    /// Adds u^T d of each atom to the sum of the atom's group. u and d contain the rows of the run.
    /// `narrow` tells whether the whole gradient is narrow, of which u and d may have a block.
    fn products(&self, u: View<'_>, d: View<'_>, narrow: bool, tree: &mut Tree) {
        let first = self.rows().0;
        let stride = lanes(d.columns());
        if self.atoms.len() > 1 {
            let atoms: Vec<usize> = self.atoms.iter().map(|atom| atom.rows.len()).collect();
            if transposed_atoms(u, d, narrow, &atoms, tree.group(), stride) {
                return;
            }
        }
        for atom in self.atoms {
            let (start, count) = (atom.rows.start as usize - first, atom.rows.len());
            let (u, d) = (u.slice(start, count), d.slice(start, count));
            match adds_chains(narrow) {
                true => product_of_rows(u, d, narrow, tree.group()),
                false => {
                    product_of_rows(u, d, narrow, tree.leaf());
                    tree.close(0);
                }
            }
        }
    }

    /// Adds the rows of a block to the sums of their atoms. All of these atoms except the last are
    /// then closed.
    fn column_sums(&self, block: View<'_>, tree: &mut Tree) {
        let [before @ .., _] = self.atoms else { return };
        let first = self.rows().0;
        let mut done = 0;
        for atom in before {
            column_sums(block.slice(done, atom.rows.len()), tree.leaf());
            tree.close(0);
            done = atom.rows.end as usize - first;
        }
        column_sums(block.slice(done, block.rows() - done), tree.leaf());
    }
}

dispatch! {
    /// Multiplies rows by `scale` where u is positive, and sets them to 0 elsewhere.
    fn pass_positive(u: View<'_>, scale: f32, rows: &mut ViewMut<'_>) = pass_positive_body
}

#[inline(always)]
fn pass_positive_body<const FMA: bool>(u: View<'_>, scale: f32, rows: &mut ViewMut<'_>) {
    // A mask is used instead of a branch, which cannot be predicted.
    let pass = |t: f32, u: f32| f32::from_bits((t * scale).to_bits() & 0u32.wrapping_sub(u32::from(u > 0.0)));
    for i in 0..rows.rows() {
        let (to, rest) = rows.row_mut(i).as_chunks_mut::<16>();
        let (from, from_rest) = u.row(i).as_chunks::<16>();
        for (to, from) in to.iter_mut().zip(from) {
            *to = std::array::from_fn(|l| pass(to[l], from[l]));
        }
        rest.iter_mut().zip(from_rest).for_each(|(t, &u)| *t = pass(*t, u));
    }
}

/// Returns true if [`product_of_rows`] sums its rows first and then adds the result to the earlier
/// sums.
fn adds_chains(narrow: bool) -> bool {
    #[cfg(target_arch = "x86_64")]
    if tiles::available() {
        return true;
    }
    !narrow
}

fn is_narrow_gradient(k: usize, m: usize) -> bool {
    lanes(m) <= NARROW_LANES && k * lanes(m) <= NARROW_GRADIENT
}

/// Adds u^T d of each atom to `sums`, atom by atom. `atoms` lists the number of rows of each atom,
/// and `sums` has k rows of `stride` values. Returns false, and does nothing, if this processor has
/// no routine for atoms of this size.
fn transposed_atoms(
    u: View<'_>,
    d: View<'_>,
    narrow: bool,
    atoms: &[usize],
    sums: &mut [f32],
    stride: usize,
) -> bool {
    #[cfg(target_arch = "x86_64")]
    if tiles::available() {
        tiles::transposed(u, d, atoms, sums, stride);
        return true;
    }
    // Without fused multiply-adds, a wide product may use another library, which has them.
    let small = d.rows() < LARGE_ATOM * atoms.len();
    let chains = small && adds_chains(narrow) && level() != Level::Portable;
    if chains {
        atoms::transposed(u, d, atoms, sums, stride);
    }
    chains
}

/// Adds u^T d to `sums`, which has k rows of `lanes(m)` values. u has the shape `[rows, k]`, and d
/// has the shape `[rows, m]`.
pub(crate) fn transposed_product(u: View<'_>, d: View<'_>, sums: &mut [f32]) {
    product_of_rows(u, d, is_narrow_gradient(u.columns(), d.columns()), sums);
}

/// Computes [`transposed_product`]. `narrow` tells whether the whole gradient is narrow, of which u
/// and d may have a block.
fn product_of_rows(u: View<'_>, d: View<'_>, narrow: bool, sums: &mut [f32]) {
    let (k, m) = (u.columns(), d.columns());
    #[cfg(target_arch = "x86_64")]
    if tiles::available() {
        return tiles::transposed(u, d, &[u.rows()], sums, lanes(m));
    }
    if !narrow {
        let mut out = ViewMut::padded(sums, k, m, lanes(m));
        // SAFETY: addresses are bounded as in `wide`, because u^T has row stride 1 and column
        // stride u.stride().
        let stride = out.stride();
        // SAFETY: u has rows * stride values, d likewise, and sums has k * lanes(m).
        unsafe {
            matrixmultiply::sgemm(
                k,
                u.rows(),
                m,
                1.0,
                u.data().as_ptr(),
                1,
                u.stride() as isize,
                d.data().as_ptr(),
                d.stride() as isize,
                1,
                1.0,
                out.data_mut().as_mut_ptr(),
                stride as isize,
                1,
            );
        }
        return;
    }
    narrow::transposed(u, d, sums);
}

dispatch! {
    /// Adds all rows of x to `sums`, in order.
    pub(crate) fn column_sums(x: View<'_>, sums: &mut [f32]) = column_sums_body
}

#[inline(always)]
fn column_sums_body<const FMA: bool>(x: View<'_>, sums: &mut [f32]) {
    let (chunks, rest) = sums.as_chunks_mut::<16>();
    let start = chunks.len() * 16;
    for (c, sums) in chunks.iter_mut().enumerate() {
        let mut sum = *sums;
        for i in 0..x.rows() {
            if let Some(row) = x.row(i)[c * 16..].first_chunk::<16>() {
                for l in 0..16 {
                    sum[l] += row[l];
                }
            }
        }
        *sums = sum;
    }
    if rest.len() > 1 && rest.len() <= 8 && x.reaches(start, 8) {
        tail_sums::<8>(x, start, rest);
    } else if rest.len() > 8 && x.reaches(start, 16) {
        tail_sums::<16>(x, start, rest);
    } else {
        for (c, sum) in rest.iter_mut().enumerate() {
            *sum = (0..x.rows()).fold(*sum, |s, i| s + x.row(i)[start + c]);
        }
    }
}

/// Sums the last columns together with their padding. A store of a partial register would delay the
/// processing of the next row.
#[inline(always)]
fn tail_sums<const L: usize>(x: View<'_>, start: usize, sums: &mut [f32]) {
    let mut sum = [0.0f32; L];
    sum[..sums.len()].copy_from_slice(sums);
    for i in 0..x.rows() {
        if let Some(row) = x.data()[i * x.stride() + start..].first_chunk::<L>() {
            for l in 0..L {
                sum[l] += row[l];
            }
        }
    }
    let n = sums.len();
    sums.copy_from_slice(&sum[..n]);
}

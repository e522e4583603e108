//! Layers that compute everything themselves: the host reads and writes rows for them, and does no linear algebra.
//!
//! `guest-product` is y = x w and its gradients, `guest-elementwise` y = max(x, 0) a. Vector code is the 128-bit SIMD of
//! WebAssembly without its relaxed operations, so that the bits are the same on every machine.

use core::arch::wasm32::{
    f32x4_add, f32x4_gt, f32x4_mul, f32x4_pmax, f32x4_splat, i32x4_shuffle, v128, v128_and, v128_load, v128_load32_splat, v128_store,
};

use eciton_sdk::prelude::*;

/// Rows that are read at a time.
const TILE: u32 = 64;
/// What a step of the product makes: ROWS rows of VECTORS times four values, in registers.
const ROWS: usize = 4;
const VECTORS: usize = 2;
/// Of the depth at a time: a panel of so many rows stays in the first cache.
const DEPTH: usize = 256;
/// Columns of a step.
const WIDE: usize = 4 * VECTORS;

/// Columns of a matrix in panels of [`WIDE`], each panel with its rows one behind the other; the last filled up with zeros.
#[derive(Debug)]
struct Panels {
    values: Vec<f32>,
    depth: usize,
    columns: usize,
}

impl Panels {
    /// Of a matrix [depth, columns] whose value (k, j) `of` says.
    fn pack(depth: usize, columns: usize, of: impl Fn(usize, usize) -> f32) -> Self {
        let mut values = vec![0.0; columns.div_ceil(WIDE) * depth * WIDE];
        for (at, panel) in values.chunks_exact_mut(depth * WIDE).enumerate() {
            let first = at * WIDE;
            for (k, row) in panel.chunks_exact_mut(WIDE).enumerate() {
                for (j, value) in row.iter_mut().take(columns - first).enumerate() {
                    *value = of(k, first + j);
                }
            }
        }
        Self { values, depth, columns }
    }
}

/// sums += left right, for one value of each row and a panel's row that begins at `right`.
///
/// # Safety
/// There are WIDE values from `right`.
#[inline(always)]
unsafe fn add(sums: &mut [[v128; VECTORS]; ROWS], left: [v128; ROWS], right: *const f32) {
    // SAFETY: as the caller says.
    let right: [v128; VECTORS] = core::array::from_fn(|v| unsafe { v128_load(right.add(4 * v).cast()) });
    for (sums, left) in sums.iter_mut().zip(left) {
        for (sum, right) in sums.iter_mut().zip(right) {
            *sum = f32x4_add(*sum, f32x4_mul(left, right));
        }
    }
}

/// What ROWS rows are times one panel: each sum in the order of the depth.
#[inline(always)]
fn step(rows: &[&[f32]; ROWS], panel: &[f32]) -> [[v128; VECTORS]; ROWS] {
    let mut sums = [[f32x4_splat(0.0); VECTORS]; ROWS];
    let depth = panel.len() / WIDE;
    assert!(rows.iter().all(|row| row.len() == depth));
    let (left, right) = (rows.map(<[f32]>::as_ptr), panel.as_ptr());
    let fours = depth / 4 * 4;
    // SAFETY: each row has `depth` values, as asserted, and a panel WIDE for each of them.
    unsafe {
        for k in (0..fours).step_by(4) {
            let four = left.map(|row| v128_load(row.add(k).cast()));
            let right = right.add(k * WIDE);
            add(&mut sums, four.map(|four| i32x4_shuffle::<0, 0, 0, 0>(four, four)), right);
            add(&mut sums, four.map(|four| i32x4_shuffle::<1, 1, 1, 1>(four, four)), right.add(WIDE));
            add(&mut sums, four.map(|four| i32x4_shuffle::<2, 2, 2, 2>(four, four)), right.add(2 * WIDE));
            add(&mut sums, four.map(|four| i32x4_shuffle::<3, 3, 3, 3>(four, four)), right.add(3 * WIDE));
        }
        for k in fours..depth {
            add(&mut sums, left.map(|row| v128_load32_splat(row.add(k).cast())), right.add(k * WIDE));
        }
    }
    sums
}

/// y = a b; a [n, b.depth] and y [n, b.columns] are row-major.
fn product(a: &[f32], b: &Panels, y: &mut [f32]) {
    y.fill(0.0);
    for start in (0..b.depth).step_by(DEPTH) {
        let depth = start..b.depth.min(start + DEPTH);
        for (at, panel) in b.values.chunks_exact(b.depth * WIDE).enumerate() {
            let columns = at * WIDE..b.columns.min((at + 1) * WIDE);
            let panel = &panel[depth.start * WIDE..depth.end * WIDE];
            for (a, y) in a.chunks(ROWS * b.depth).zip(y.chunks_mut(ROWS * b.columns)) {
                let last = a.len() / b.depth - 1;
                let rows = core::array::from_fn(|i| &a[i.min(last) * b.depth..][depth.clone()]);
                for (sums, y) in step(&rows, panel).iter().zip(y.chunks_exact_mut(b.columns)) {
                    let mut made = [0.0; WIDE];
                    for (into, sum) in made.chunks_exact_mut(4).zip(sums) {
                        // SAFETY: a chunk is four values.
                        unsafe { v128_store(into.as_mut_ptr().cast(), *sum) };
                    }
                    for (y, made) in y[columns.clone()].iter_mut().zip(made) {
                        *y += made;
                    }
                }
            }
        }
    }
}

/// Ranges of at most [`TILE`] rows.
fn tiles(rows: u32) -> impl Iterator<Item = (u32, u32)> {
    (0..rows).step_by(TILE as usize).map(move |start| (start, TILE.min(rows - start)))
}

/// y = x w. x [n, k], w [k, m], y [n, m]. dx = dy wᵀ; dw = xᵀ dy is the host's, as a sum over rows has to be: its bits must not
/// depend on where rows are cut.
#[derive(Debug)]
pub struct Product {
    columns: u32,
    out_features: u32,
}

impl Kernel for Product {
    fn attributes() -> Vec<AttributeSpec> {
        vec![AttributeSpec::new("out-features", "values in a row of the result", None)]
    }

    fn open(inputs: &[Vec<u32>], attributes: &Attributes) -> Result<Self> {
        Ok(Self { columns: inputs[0][0], out_features: attributes.size("out-features")? })
    }

    fn signature(&self) -> Signature {
        Signature::new()
            .input("x", &[self.columns])
            .output("y", &[self.out_features])
            .needing_inputs()
            .parameter("weight", &[self.columns, self.out_features], Initialiser::GlorotUniform)
    }

    fn forward<R: Real>(&self, task: &Task, io: Forward<'_>) -> Result<()> {
        let (k, m) = (self.columns as usize, self.out_features as usize);
        let w = io.parameters[0].read_rows::<f32>(0, self.columns)?;
        let w = Panels::pack(k, m, |i, j| w[i * m + j]);
        let mut y = vec![0.0; TILE as usize * m];
        for (start, count) in tiles(task.rows) {
            let x = io.inputs[0].read_rows::<f32>(start, count)?;
            let y = &mut y[..count as usize * m];
            product(&x, &w, y);
            io.outputs[0].write_rows(start, y)?;
        }
        Ok(())
    }

    fn backward<R: Real>(&self, task: &Task, io: Backward<'_>) -> Result<()> {
        let (k, m) = (self.columns as usize, self.out_features as usize);
        if let Some(into) = io.input_gradients[0] {
            let w = io.parameters[0].read_rows::<f32>(0, self.columns)?;
            let transposed = Panels::pack(m, k, |i, j| w[j * m + i]);
            let mut dx = vec![0.0; TILE as usize * k];
            for (start, count) in tiles(task.rows) {
                let dy = io.gradients[0].read_rows::<f32>(start, count)?;
                let dx = &mut dx[..count as usize * k];
                product(&dy, &transposed, dx);
                into.write_rows(start, dx)?;
            }
        }
        linalg::matmul(io.inputs[0], true, io.gradients[0], false, false, io.parameter_gradients[0])
    }
}

/// y = max(x, 0) a, with the same a for all values.
#[derive(Debug)]
pub struct Elementwise {
    columns: u32,
}

/// y = x a where `of` is positive, else 0; `x` becomes y.
fn gate(of: &[f32], a: f32, x: &mut [f32]) {
    let (zero, a4) = (f32x4_splat(0.0), f32x4_splat(a));
    let whole = x.len() / 4 * 4;
    let (fours, rest) = x.split_at_mut(whole);
    for (x, of) in fours.chunks_exact_mut(4).zip(of.chunks_exact(4)) {
        // SAFETY: both chunks are four values.
        unsafe {
            let open = f32x4_gt(v128_load(of.as_ptr().cast()), zero);
            let x = x.as_mut_ptr().cast::<v128>();
            v128_store(x, v128_and(open, f32x4_mul(v128_load(x), a4)));
        }
    }
    for (x, of) in rest.iter_mut().zip(&of[whole..]) {
        *x = if *of > 0.0 { *x * a } else { 0.0 };
    }
}

/// y = max(x, 0) a; `x` becomes y.
fn rectify(a: f32, x: &mut [f32]) {
    let (zero, a4) = (f32x4_splat(0.0), f32x4_splat(a));
    let (fours, rest) = x.split_at_mut(x.len() / 4 * 4);
    for x in fours.chunks_exact_mut(4) {
        // SAFETY: a chunk is four values.
        unsafe {
            let x = x.as_mut_ptr().cast::<v128>();
            v128_store(x, f32x4_mul(f32x4_pmax(zero, v128_load(x)), a4));
        }
    }
    for x in rest {
        *x = x.max(0.0) * a;
    }
}

impl Kernel for Elementwise {
    fn attributes() -> Vec<AttributeSpec> {
        Vec::new()
    }

    fn open(inputs: &[Vec<u32>], _: &Attributes) -> Result<Self> {
        Ok(Self { columns: inputs[0][0] })
    }

    fn signature(&self) -> Signature {
        Signature::new().input("x", &[self.columns]).output("y", &[self.columns]).needing_inputs()
    }

    fn forward<R: Real>(&self, task: &Task, io: Forward<'_>) -> Result<()> {
        for (start, count) in tiles(task.rows) {
            let mut x = io.inputs[0].read_rows::<f32>(start, count)?;
            rectify(0.5, &mut x);
            io.outputs[0].write_rows(start, &x)?;
        }
        Ok(())
    }

    fn backward<R: Real>(&self, task: &Task, io: Backward<'_>) -> Result<()> {
        let Some(into) = io.input_gradients[0] else { return Ok(()) };
        for (start, count) in tiles(task.rows) {
            let x = io.inputs[0].read_rows::<f32>(start, count)?;
            let mut dy = io.gradients[0].read_rows::<f32>(start, count)?;
            gate(&x, 0.5, &mut dy);
            into.write_rows(start, &dy)?;
        }
        Ok(())
    }
}

#[cfg(feature = "guest-elementwise")]
eciton_sdk::export_kernel!(Elementwise);
#[cfg(feature = "guest-product")]
eciton_sdk::export_kernel!(Product);

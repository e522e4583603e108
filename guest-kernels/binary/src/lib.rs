//! Kernel `binary`: y = x^ w^, rows and weights by their signs and scales.
//!
//! x [n, k], w [k, m], y [n, m]. With b_i the mean of |x_ik| over k and a_j the mean of |w_kj| over k:
//!
//! ```text
//! x^_ik = b_i sign(x_ik) d_ik        d: dropout, 0 or 1 / (1 - p)        sign(0) = 0
//! w^_kj = a_j sign(w_kj)                                                 sign(0) = 1
//! y_ij  = b_i a_j / (1 - p) (c_i - 2 popcount((x_i xor w_j) and c_i))    c_i: what is neither 0 nor dropped
//! ```
//!
//! The forward pass of Bi-GCN (Wang et al. 2021, "Bi-GCN: Binary Graph Convolutional Network", section 3), with signs as
//! bits and no product of numbers but by the scales. Its gradients are those of straight-through estimation (Bengio,
//! Leonard and Courville 2013), scales held fixed: with g = dL/dy,
//!
//! ```text
//! dx_ik = d_ik 1[|x_ik| <= 1] sum over j of g_ij sign(w_kj)
//! dw_kj = sum over i of x^_ik a_j g_ij
//! ```
//!
//! dx has no a_j, as in the code of Bi-GCN. Of dw that code makes zeros where |w| > 1 and adds, as the derivative of a_j,
//! sign(w_kj) / k times the sum over k' of sign(w_k'j) G_k'j, G = x^^T g. Both are functions of a sum over all rows, and
//! a parameter's gradient is such a sum alone (`wit/kernel/kernel.wit`, interface `linalg`): they are left out.
//!
//! The scale of a column whose weights are all of one absolute value is that value, so that w^ in the place of w has the
//! same scales, bit for bit.
//!
//! With `signs = ""`, y is the function whose gradients these are: x^ = clip(x, -1, 1) d, w^ = w. It is there so that
//! differences can check them.

mod signs;

use eciton_sdk::prelude::*;

use crate::signs::{Columns, Rows, absolute, mean_absolute};

/// Rows that are read at a time.
const TILE: u32 = 64;

/// The configured layer.
#[derive(Debug)]
pub struct Binary {
    columns: u32,
    out_features: u32,
    dropout: f32,
    surrogate: bool,
}

/// Ranges of at most [`TILE`] rows: first and count.
fn tiles(rows: u32) -> impl Iterator<Item = (u32, u32)> {
    (0..rows).step_by(TILE as usize).map(move |start| (start, TILE.min(rows - start)))
}

impl Binary {
    fn dropping(&self) -> Prologue<'static> {
        let dropout = Some(Dropout { probability: self.dropout, stream: 0 });
        Prologue { bias: None, activation: Activation::Identity, dropout }
    }

    /// x after dropout, where there is some: what was dropped is zero.
    fn dropped(&self, task: &Task, x: &Matrix) -> Result<Option<Matrix>> {
        if !task.training || self.dropout == 0.0 {
            return Ok(None);
        }
        scratch(&x.shape(), |into| linalg::apply(x, &self.dropping(), into)).map(Some)
    }

    /// 1 / (1 - p) where values are dropped.
    fn kept<R: Real>(&self, u: Option<&Matrix>) -> R {
        if u.is_some() { R::ONE / (R::ONE - R::from_f32(self.dropout)) } else { R::ONE }
    }

    fn weights<R: Real>(&self, w: &Matrix) -> Result<Columns<R>> {
        let all: Vec<R> = w.read_rows(0, self.columns)?;
        Ok(Columns::pack(&all, self.columns as usize, self.out_features as usize))
    }

    /// x^ as numbers.
    fn rounded<R: Real>(&self, x: &Matrix, u: Option<&Matrix>, into: &Out) -> Result<()> {
        let (columns, kept) = (self.columns as usize, self.kept::<R>(u));
        for (start, count) in tiles(x.row_count()) {
            let mut x: Vec<R> = x.read_rows(start, count)?;
            let u: Option<Vec<R>> = u.map(|u| u.read_rows(start, count)).transpose()?;
            for (i, row) in x.chunks_exact_mut(columns).enumerate() {
                let scale = if self.surrogate { R::ONE } else { mean_absolute(row) };
                for x in &mut *row {
                    *x = match self.surrogate {
                        true => clip(*x),
                        false => sign(*x) * scale,
                    };
                }
                let Some(u) = &u else { continue };
                for (x, &u) in row.iter_mut().zip(&u[i * columns..]) {
                    *x = if u == R::ZERO { R::ZERO } else { *x * kept };
                }
            }
            into.write_rows(start, &x)?;
        }
        Ok(())
    }

    /// By signs as bits.
    fn product<R: Real>(&self, x: &Matrix, u: Option<&Matrix>, w: &Matrix, into: &Out) -> Result<()> {
        let (w, kept) = (self.weights::<R>(w)?, self.kept::<R>(u));
        let mut rows = Rows::new(self.columns as usize);
        let mut y = vec![R::ZERO; (TILE * self.out_features) as usize];
        for (start, count) in tiles(x.row_count()) {
            let x: Vec<R> = x.read_rows(start, count)?;
            let scales: Vec<R> =
                x.chunks_exact(self.columns as usize).map(|row| mean_absolute(row) * kept).collect();
            match u {
                None => rows.pack(&x),
                Some(u) => rows.pack(&u.read_rows::<R>(start, count)?),
            }
            let y = &mut y[..(count * self.out_features) as usize];
            w.product(&rows, &scales, y);
            into.write_rows(start, y)?;
        }
        Ok(())
    }

    /// The gradient of x: `g` [n, m] times the signs of w, as far as it passes.
    fn input_gradient<R: Real>(&self, x: &Matrix, u: bool, g: &Matrix, w: &Matrix, into: &Out) -> Result<()> {
        let signs = match self.surrogate {
            true => None,
            false => Some(scratch(&w.shape(), |into| {
                for (start, count) in tiles(self.columns) {
                    let mut w: Vec<R> = w.read_rows(start, count)?;
                    w.iter_mut().for_each(|w| *w = if *w >= R::ZERO { R::ONE } else { -R::ONE });
                    into.write_rows(start, &w)?;
                }
                Ok(())
            })?),
        };
        let w = signs.as_ref().unwrap_or(w);
        let through = scratch(&x.shape(), |into| linalg::matmul(g, false, w, true, false, into))?;
        let passing = scratch(&x.shape(), |into| {
            for (start, count) in tiles(x.row_count()) {
                let mut x: Vec<R> = x.read_rows(start, count)?;
                x.iter_mut().for_each(|x| *x = if absolute(*x) <= R::ONE { R::ONE } else { R::ZERO });
                into.write_rows(start, &x)?;
            }
            Ok(())
        })?;
        if !u {
            return linalg::multiply(&through, &passing, into);
        }
        let through = scratch(&x.shape(), |into| linalg::multiply(&through, &passing, into))?;
        linalg::apply_backward(x, &self.dropping(), &through, into)
    }
}

/// sign(x), x where it is not a number.
fn sign<R: Real>(x: R) -> R {
    match x.partial_cmp(&R::ZERO) {
        Some(core::cmp::Ordering::Greater) => R::ONE,
        Some(core::cmp::Ordering::Less) => -R::ONE,
        _ => x,
    }
}

fn clip<R: Real>(x: R) -> R {
    if absolute(x) > R::ONE { sign(x) } else { x }
}

impl Kernel for Binary {
    fn attributes() -> Vec<AttributeSpec> {
        vec![
            AttributeSpec::new("out-features", "values in a row of the result", None),
            AttributeSpec::new(
                "dropout",
                "probability of dropping a sign of a row",
                Some(Value::Number(0.0)),
            ),
            AttributeSpec::new(
                "signs",
                "what is read by signs and scales; none: the function whose gradients these are, for checks by \
                 differences",
                Some(Value::Text("x weight".to_owned())),
            ),
        ]
    }

    fn open(inputs: &[Vec<u32>], attributes: &Attributes) -> Result<Self> {
        let [input] = inputs else {
            return Err(Error::Argument(format!("binary takes one input, not {}", inputs.len())));
        };
        let [columns @ 1..=0xff_ffff] = input[..] else {
            return Err(Error::Shape {
                operation: "binary".to_owned(),
                operand: "one row of x (1 to 2^24 - 1 values)".to_owned(),
                expected: vec![1],
                found: input.clone(),
            });
        };
        Ok(Self {
            columns,
            out_features: attributes.size("out-features")?,
            dropout: attributes.probability("dropout")?,
            surrogate: match attributes.text("signs")? {
                "" => true,
                "x weight" | "x" | "weight" => false,
                _ => return Err(Error::Argument("attribute `signs` must be of `x` and `weight`".to_owned())),
            },
        })
    }

    fn signature(&self) -> Signature {
        Signature::new()
            .input("x", &[self.columns])
            .output("y", &[self.out_features])
            .needing_inputs()
            .parameter("weight", &[self.columns, self.out_features], Initialiser::GlorotUniform)
    }

    fn forward<R: Real>(&self, task: &Task, io: Forward<'_>) -> Result<()> {
        let (x, w, y) = (io.inputs[0], io.parameters[0], io.outputs[0]);
        let u = self.dropped(task, x)?;
        if !self.surrogate {
            return self.product::<R>(x, u.as_ref(), w, y);
        }
        let x = scratch(&x.shape(), |into| self.rounded::<R>(x, u.as_ref(), into))?;
        linalg::matmul(&x, false, w, false, false, y)
    }

    fn backward<R: Real>(&self, task: &Task, io: Backward<'_>) -> Result<()> {
        let (x, w, g) = (io.inputs[0], io.parameters[0], io.gradients[0]);
        let u = self.dropped(task, x)?;
        let scales = match self.surrogate {
            true => vec![R::ONE; self.out_features as usize],
            false => self.weights::<R>(w)?.scales,
        };
        let d = scratch(&g.shape(), |into| {
            for (start, count) in tiles(task.rows) {
                let mut g: Vec<R> = g.read_rows(start, count)?;
                for row in g.chunks_exact_mut(scales.len()) {
                    row.iter_mut().zip(&scales).for_each(|(g, &scale)| *g *= scale);
                }
                into.write_rows(start, &g)?;
            }
            Ok(())
        })?;
        if let Some(into) = io.input_gradients[0] {
            self.input_gradient::<R>(x, u.is_some(), g, w, into)?;
        }
        let rounded = scratch(&x.shape(), |into| self.rounded::<R>(x, u.as_ref(), into))?;
        linalg::matmul(&rounded, true, &d, false, false, io.parameter_gradients[0])
    }
}

eciton_sdk::export_kernel!(Binary);

//! Kernel `normalise`: every row brought to one scale, by itself; or the scale and shift of rows that were.
//!
//! With u = x + c (c optional), x, y [n, k], c, scale, shift [k]:
//!
//! ```text
//! layer   y = scale * h + shift, h = (u - m) / s, m = mean(u), s = sqrt(mean((u - m)^2) + 1e-5)
//! rms     y = scale * h, h = u / s, s = sqrt(mean(u^2) + 1e-5)
//! l2      y = u / max(|u|, 1e-12), |u| the Euclidean norm of the row
//! batch   y = scale * u + shift, for columns that the host has brought to one scale
//! ```
//!
//! `layer` is layer normalisation (Ba, Kiros and Hinton 2016), with dh = dy * scale:
//! dx = (dh - mean(dh) - h mean(dh * h)) / s, dscale = column sums of dy * h, dshift = those of dy.
//! `rms` is its form without the mean (Zhang and Sennrich 2019): dx = (dh - h mean(dh * h)) / s.
//! `l2` is the last line of GraphSAGE's algorithm 1 (Hamilton et al. 2017): dx = (dy - y (dy . y)) / |u|.
//! `batch` is the last step of batch normalisation (Ioffe and Szegedy 2015), as `layer` with h = u: dx = dh.
//! In all, dc = column sums of dx. The rows are computed here, in the guest; the host sums over them.

use eciton_sdk::prelude::*;

/// Rows that are read and written at once.
const TILE_ROWS: u32 = 1024;
/// What the variance is kept away from zero by.
const VARIANCE: f32 = 1e-5;
/// The least length that a row is divided by.
const LENGTH: f32 = 1e-12;

/// What a row is divided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Layer,
    Rms,
    L2,
    Batch,
}

/// The configured layer.
#[derive(Debug)]
pub struct Normalise {
    columns: u32,
    by: By,
    bias: bool,
}

/// A row's mean (0 for `rms` and `l2`) and what it is divided by.
fn measure<R: Real>(by: By, u: &[R], count: R) -> (R, R) {
    if by == By::Batch {
        return (R::ZERO, R::ONE);
    }
    let mut mean = R::ZERO;
    if by == By::Layer {
        for &v in u {
            mean += v;
        }
        mean = mean / count;
    }
    let mut squares = R::ZERO;
    for &v in u {
        squares += (v - mean) * (v - mean);
    }
    match by {
        By::Layer | By::Rms | By::Batch => (mean, (squares / count + R::from_f32(VARIANCE)).sqrt()),
        By::L2 => (mean, squares.sqrt().max(R::from_f32(LENGTH))),
    }
}

impl Normalise {
    /// c, or zeros.
    fn input_bias<R: Real>(&self, parameters: &[&Matrix]) -> Result<Vec<R>> {
        if self.bias {
            return parameters[0].read_rows(0, self.columns);
        }
        Ok(vec![R::ZERO; self.columns as usize])
    }

    /// scale and shift; for `l2` ones and zeros.
    fn affine<R: Real>(&self, parameters: &[&Matrix]) -> Result<(Vec<R>, Vec<R>)> {
        match &parameters[usize::from(self.bias)..] {
            [scale] => Ok((scale.read_rows(0, self.columns)?, vec![R::ZERO; self.columns as usize])),
            [scale, shift] => Ok((scale.read_rows(0, self.columns)?, shift.read_rows(0, self.columns)?)),
            _ => Ok((vec![R::ONE; self.columns as usize], vec![R::ZERO; self.columns as usize])),
        }
    }

    /// The number of columns.
    fn count<R: Real>(&self) -> R {
        let mut count = R::ZERO;
        for bit in (0..32).rev() {
            count = count + count;
            if self.columns >> bit & 1 == 1 {
                count += R::ONE;
            }
        }
        count
    }

    /// `columns` rows of u from `start`.
    fn rows<R: Real>(&self, x: &Matrix, c: &[R], start: u32, count: u32) -> Result<Vec<R>> {
        let mut u: Vec<R> = x.read_rows(start, count)?;
        for row in u.chunks_exact_mut(c.len()) {
            for (v, &c) in row.iter_mut().zip(c) {
                *v += c;
            }
        }
        Ok(u)
    }
}

impl Kernel for Normalise {
    fn attributes() -> Vec<AttributeSpec> {
        vec![
            AttributeSpec::new(
                "by",
                "layer, rms, l2, or batch: scale and shift alone",
                Some(Value::Text("layer".to_owned())),
            ),
            AttributeSpec::new("input-bias", "whether c is added to the input", Some(Value::Flag(false))),
        ]
    }

    fn open(inputs: &[Vec<u32>], attributes: &Attributes) -> Result<Self> {
        let [input] = inputs else {
            return Err(Error::Argument(format!("normalise takes one input, not {}", inputs.len())));
        };
        let Some(columns) = Some(input).filter(|i| i.len() == 1).map(|i| i[0]).filter(|&k| k > 0) else {
            return Err(Error::Shape {
                operation: "normalise".to_owned(),
                operand: "one row of x".to_owned(),
                expected: vec![1],
                found: input.clone(),
            });
        };
        let by = match attributes.text("by")? {
            "layer" => By::Layer,
            "rms" => By::Rms,
            "l2" => By::L2,
            "batch" => By::Batch,
            other => {
                let known = "known are layer, rms, l2 and batch";
                return Err(Error::Argument(format!("attribute `by` is {other}; {known}")));
            }
        };
        Ok(Self { columns, by, bias: attributes.flag("input-bias")? })
    }

    fn signature(&self) -> Signature {
        let k = [self.columns];
        let mut s = Signature::new().input("x", &k).output("y", &k).needing_inputs();
        if self.bias {
            s = s.parameter("input-bias", &k, Initialiser::Zeros);
        }
        if self.by != By::L2 {
            s = s.parameter("scale", &k, Initialiser::Constant(1.0));
        }
        if matches!(self.by, By::Layer | By::Batch) {
            s = s.parameter("shift", &k, Initialiser::Zeros);
        }
        s
    }

    fn forward<R: Real>(&self, task: &Task, io: Forward<'_>) -> Result<()> {
        let (c, (scale, shift)) = (self.input_bias::<R>(io.parameters)?, self.affine::<R>(io.parameters)?);
        let count = self.count::<R>();
        let mut start = 0;
        while start < task.rows {
            let rows = TILE_ROWS.min(task.rows - start);
            let mut tile = self.rows(io.inputs[0], &c, start, rows)?;
            for row in tile.chunks_exact_mut(c.len()) {
                let (mean, size) = measure(self.by, row, count);
                for ((v, &scale), &shift) in row.iter_mut().zip(&scale).zip(&shift) {
                    *v = (*v - mean) / size * scale + shift;
                }
            }
            io.outputs[0].write_rows(start, &tile)?;
            start += rows;
        }
        Ok(())
    }

    fn backward<R: Real>(&self, task: &Task, io: Backward<'_>) -> Result<()> {
        let (c, (scale, _)) = (self.input_bias::<R>(io.parameters)?, self.affine::<R>(io.parameters)?);
        let (count, grad) = (self.count::<R>(), io.gradients[0]);
        let scratch = |wanted: bool| match wanted {
            true => Out::create(&[task.rows, self.columns]).map(Some),
            false => Ok(None),
        };
        let (of_bias, of_scale) = (scratch(self.bias)?, scratch(self.by != By::L2)?);
        let mut start = 0;
        while start < task.rows {
            let rows = TILE_ROWS.min(task.rows - start);
            let mut u = self.rows(io.inputs[0], &c, start, rows)?;
            let mut d: Vec<R> = grad.read_rows(start, rows)?;
            for (u, d) in u.chunks_exact_mut(c.len()).zip(d.chunks_exact_mut(c.len())) {
                let (mean, size) = measure(self.by, u, count);
                let (mut sum, mut along) = (R::ZERO, R::ZERO);
                for ((u, &d), &scale) in u.iter_mut().zip(&*d).zip(&scale) {
                    *u = (*u - mean) / size;
                    sum += d * scale;
                    along += d * scale * *u;
                }
                let (sum, along) = match self.by {
                    By::Layer => (sum / count, along / count),
                    By::Rms => (R::ZERO, along / count),
                    // A row that is shorter than the least length is divided by a constant.
                    By::L2 if size > R::from_f32(LENGTH) => (R::ZERO, along),
                    By::L2 | By::Batch => (R::ZERO, R::ZERO),
                };
                for ((u, d), &scale) in u.iter_mut().zip(d).zip(&scale) {
                    let of_scale = *d * *u;
                    *d = (*d * scale - sum - *u * along) / size;
                    *u = of_scale;
                }
            }
            if let Some(into) = &of_scale {
                into.write_rows(start, &u)?;
            }
            for into in io.input_gradients[0].into_iter().chain(&of_bias) {
                into.write_rows(start, &d)?;
            }
            start += rows;
        }
        let mut sums = io.parameter_gradients.iter();
        if let (Some(of_bias), Some(into)) = (of_bias, self.bias.then(|| sums.next()).flatten()) {
            linalg::sum_rows(&of_bias.finish()?, into)?;
        }
        if let (Some(of_scale), Some(scale)) = (of_scale, sums.next()) {
            linalg::sum_rows(&of_scale.finish()?, scale)?;
        }
        match sums.next() {
            Some(shift) => linalg::sum_rows(grad, shift),
            None => Ok(()),
        }
    }
}

eciton_sdk::export_kernel!(Normalise);

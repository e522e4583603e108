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
//! In all, dc = column sums of dx.

use eciton_sdk::prelude::*;

/// What the variance is kept away from zero by.
const VARIANCE: f32 = 1e-5;
/// The least length that a row is divided by.
const LENGTH: f32 = 1e-12;

/// The configured layer.
#[derive(Debug)]
pub struct Normalise {
    columns: u32,
    by: RowScale,
    bias: bool,
}

impl Normalise {
    /// scale and shift, where the kind has them.
    fn affine<'a>(&self, parameters: &[&'a Matrix]) -> [Option<&'a Matrix>; 2] {
        let own = &parameters[usize::from(self.bias)..];
        [own.first().copied(), own.get(1).copied()]
    }

    /// u = x + c; none if there is no c.
    fn biased(&self, x: &Matrix, parameters: &[&Matrix]) -> Result<Option<Matrix>> {
        if !self.bias {
            return Ok(None);
        }
        let by = Prologue { bias: Some(parameters[0]), activation: Activation::Identity, dropout: None };
        scratch(&x.shape(), |into| linalg::apply(x, &by, into)).map(Some)
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
            "layer" => RowScale::Layer(VARIANCE),
            "rms" => RowScale::Rms(VARIANCE),
            "l2" => RowScale::Length(LENGTH),
            "batch" => RowScale::None,
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
        if !matches!(self.by, RowScale::Length(_)) {
            s = s.parameter("scale", &k, Initialiser::Constant(1.0));
        }
        if matches!(self.by, RowScale::Layer(_) | RowScale::None) {
            s = s.parameter("shift", &k, Initialiser::Zeros);
        }
        s
    }

    fn forward<R: Real>(&self, _: &Task, io: Forward<'_>) -> Result<()> {
        let [scale, shift] = self.affine(io.parameters);
        let biased = self.biased(io.inputs[0], io.parameters)?;
        dense::normalise(biased.as_ref().unwrap_or(io.inputs[0]), self.by, scale, shift, io.outputs[0])
    }

    fn backward<R: Real>(&self, _: &Task, io: Backward<'_>) -> Result<()> {
        let [scale, shift] = self.affine(io.parameters);
        let (biased, grad) = (self.biased(io.inputs[0], io.parameters)?, io.gradients[0]);
        let u = biased.as_ref().unwrap_or(io.inputs[0]);
        let back = |into: &Out| dense::normalise_backward(u, self.by, scale, grad, into);
        match (self.bias, io.input_gradients[0]) {
            (false, None) => {}
            (false, Some(into)) => back(into)?,
            (true, given) => {
                let dx = scratch(&u.shape(), back)?;
                linalg::sum_rows(&dx, io.parameter_gradients[0])?;
                if let Some(into) = given {
                    linalg::axpby(1.0, &dx, 0.0, &dx, into)?;
                }
            }
        }
        let mut sums = io.parameter_gradients.iter().skip(usize::from(self.bias));
        if let Some(into) = sums.next().filter(|_| scale.is_some()) {
            // Rows that are not normalised are their own h.
            let of_scale = match self.by {
                RowScale::None => scratch(&u.shape(), |to| linalg::multiply(u, grad, to))?,
                _ => {
                    let h = scratch(&u.shape(), |to| dense::normalise(u, self.by, None, None, to))?;
                    scratch(&u.shape(), |to| linalg::multiply(&h, grad, to))?
                }
            };
            linalg::sum_rows(&of_scale, into)?;
        }
        match sums.next().filter(|_| shift.is_some()) {
            Some(into) => linalg::sum_rows(grad, into),
            None => Ok(()),
        }
    }
}

eciton_sdk::export_kernel!(Normalise);

//! Kernel `activate`: y = dropout(activation(x + c)), for rows that more than one operation reads.
//!
//! c is optional. x, y [n, k], c [k]. dx = dy * mask / (1 - p) * activation'(x + c), dc = column sums
//! of dx. `linear` does the same on the way into its product; where a row goes into a gather or a sum as
//! it is, it is made here. Besides the activations of `linear` it has `gelu`, `gelu-tanh`, `silu` and `softplus`, and
//! `slope` is the factor of `leaky-relu` for values below 0.

use eciton_sdk::prelude::*;

/// The configured layer.
#[derive(Debug)]
pub struct Activate {
    columns: u32,
    bias: bool,
    by: By,
    dropout: f32,
}

/// The activation.
#[derive(Debug, Clone, Copy)]
enum By {
    /// One of a prologue's.
    Prologue(Activation),
    /// One that is an operation of its own.
    Smooth(Smooth),
}

const PLAIN: Prologue<'_> = Prologue { bias: None, activation: Activation::Identity, dropout: None };

/// The `slope` of a `leaky-relu` that does not set it, and that of the other kernels' activations.
const SLOPE: f64 = 0.2;

/// Returns the activation that the attributes name.
fn activation(attributes: &Attributes) -> Result<By> {
    let (name, slope) = (attributes.text("activation")?, attributes.number("slope")? as f32);
    if let Some(by) = Smooth::parse(name) {
        return Ok(By::Smooth(by));
    }
    if !(0.0..1.0).contains(&slope) {
        let found = "attribute `slope` must be a number s with 0 <= s < 1";
        return Err(Error::Argument(found.to_owned()));
    }
    Ok(By::Prologue(match Activation::parse(name)? {
        Activation::LeakyRelu(_) => Activation::LeakyRelu(slope),
        other => other,
    }))
}

impl Activate {
    fn dropout(&self) -> Option<Dropout> {
        (self.dropout > 0.0).then_some(Dropout { probability: self.dropout, stream: 0 })
    }

    fn prologue<'a>(&self, activation: Activation, parameters: &[&'a Matrix]) -> Prologue<'a> {
        Prologue { bias: parameters.first().copied(), activation, dropout: self.dropout() }
    }

    /// x + c, where there is a c.
    fn biased(x: &Matrix, parameters: &[&Matrix]) -> Result<Option<Matrix>> {
        let Some(&bias) = parameters.first() else { return Ok(None) };
        let by = Prologue { bias: Some(bias), ..PLAIN };
        scratch(&x.shape(), |into| linalg::apply(x, &by, into)).map(Some)
    }

    fn smoothed(&self, by: Smooth, x: &Matrix, parameters: &[&Matrix], into: &Out) -> Result<()> {
        let biased = Self::biased(x, parameters)?;
        let x = biased.as_ref().unwrap_or(x);
        if self.dropout().is_none() {
            return dense::smoothed(x, by, into);
        }
        let y = scratch(&x.shape(), |into| dense::smoothed(x, by, into))?;
        linalg::apply(&y, &Prologue { dropout: self.dropout(), ..PLAIN }, into)
    }

    /// The gradient of x.
    fn gradient(&self, x: &Matrix, parameters: &[&Matrix], grad: &Matrix, into: &Out) -> Result<()> {
        let by = match self.by {
            By::Prologue(activation) => {
                return linalg::apply_backward(x, &self.prologue(activation, parameters), grad, into);
            }
            By::Smooth(by) => by,
        };
        let biased = Self::biased(x, parameters)?;
        let x = biased.as_ref().unwrap_or(x);
        if self.dropout().is_none() {
            return dense::smoothed_backward(x, by, grad, into);
        }
        let dropped = Prologue { dropout: self.dropout(), ..PLAIN };
        let grad = scratch(&x.shape(), |into| linalg::apply_backward(x, &dropped, grad, into))?;
        dense::smoothed_backward(x, by, &grad, into)
    }
}

impl Kernel for Activate {
    fn attributes() -> Vec<AttributeSpec> {
        let text = |v: &str| Some(Value::Text(v.to_owned()));
        vec![
            AttributeSpec::new("input-bias", "whether c is added to the input", Some(Value::Flag(false))),
            AttributeSpec::new("activation", "applied to the input after c", text("identity")),
            AttributeSpec::new("dropout", "probability of dropping a value", Some(Value::Number(0.0))),
            AttributeSpec::new(
                "slope",
                "factor of leaky-relu for values below 0, at least 0 and below 1",
                Some(Value::Number(SLOPE)),
            ),
        ]
    }

    fn open(inputs: &[Vec<u32>], attributes: &Attributes) -> Result<Self> {
        let [input] = inputs else {
            return Err(Error::Argument(format!("activate takes one input, not {}", inputs.len())));
        };
        let [columns] = input[..] else {
            return Err(Error::Shape {
                operation: "activate".to_owned(),
                operand: "one row of x".to_owned(),
                expected: vec![0],
                found: input.clone(),
            });
        };
        Ok(Self {
            columns,
            bias: attributes.flag("input-bias")?,
            by: activation(attributes)?,
            dropout: attributes.probability("dropout")?,
        })
    }

    fn signature(&self) -> Signature {
        let s = Signature::new().input("x", &[self.columns]).output("y", &[self.columns]).needing_inputs();
        if self.bias { s.parameter("input-bias", &[self.columns], Initialiser::Zeros) } else { s }
    }

    fn forward<R: Real>(&self, _: &Task, io: Forward<'_>) -> Result<()> {
        match self.by {
            By::Prologue(activation) => {
                linalg::apply(io.inputs[0], &self.prologue(activation, io.parameters), io.outputs[0])
            }
            By::Smooth(by) => self.smoothed(by, io.inputs[0], io.parameters, io.outputs[0]),
        }
    }

    fn backward<R: Real>(&self, task: &Task, io: Backward<'_>) -> Result<()> {
        let gradient = |into: &Out| self.gradient(io.inputs[0], io.parameters, io.gradients[0], into);
        let Some(bias) = io.parameter_gradients.first() else {
            return match io.input_gradients[0] {
                Some(into) => gradient(into),
                None => Ok(()),
            };
        };
        // Read again for its column sums: what is written to cannot be.
        let own = scratch(&[task.rows, self.columns], gradient)?;
        linalg::sum_rows(&own, bias)?;
        match io.input_gradients[0] {
            Some(into) => linalg::axpby(1.0, &own, 0.0, &own, into),
            None => Ok(()),
        }
    }
}

eciton_sdk::export_kernel!(Activate);

//! Kernel `activate`: y = dropout(activation(x + c)), for rows that more than one operation reads.
//!
//! c is optional. x, y [n, k], c [k]. dx = dy * mask / (1 - p) * activation'(x + c), dc = column sums
//! of dx. `linear` does the same on the way into its product; where a row goes into a gather or a sum as
//! it is, it is made here.

use eciton_sdk::prelude::*;

/// The configured layer.
#[derive(Debug)]
pub struct Activate {
    columns: u32,
    bias: bool,
    activation: Activation,
    dropout: f32,
}

impl Activate {
    fn prologue<'a>(&self, parameters: &[&'a Matrix]) -> Prologue<'a> {
        let dropout = (self.dropout > 0.0).then_some(Dropout { probability: self.dropout, stream: 0 });
        Prologue { bias: parameters.first().copied(), activation: self.activation, dropout }
    }
}

impl Kernel for Activate {
    fn attributes() -> Vec<AttributeSpec> {
        let text = |v: &str| Some(Value::Text(v.to_owned()));
        vec![
            AttributeSpec::new("input-bias", "whether c is added to the input", Some(Value::Flag(false))),
            AttributeSpec::new("activation", "applied to the input after c", text("identity")),
            AttributeSpec::new("dropout", "probability of dropping a value", Some(Value::Number(0.0))),
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
            activation: Activation::parse(attributes.text("activation")?)?,
            dropout: attributes.probability("dropout")?,
        })
    }

    fn signature(&self) -> Signature {
        let s = Signature::new().input("x", &[self.columns]).output("y", &[self.columns]).needing_inputs();
        if self.bias { s.parameter("input-bias", &[self.columns], Initialiser::Zeros) } else { s }
    }

    fn forward<R: Real>(&self, _: &Task, io: Forward<'_>) -> Result<()> {
        linalg::apply(io.inputs[0], &self.prologue(io.parameters), io.outputs[0])
    }

    fn backward<R: Real>(&self, task: &Task, io: Backward<'_>) -> Result<()> {
        let by = self.prologue(io.parameters);
        let Some(bias) = io.parameter_gradients.first() else {
            return match io.input_gradients[0] {
                Some(into) => linalg::apply_backward(io.inputs[0], &by, io.gradients[0], into),
                None => Ok(()),
            };
        };
        // Read again for its column sums: what is written to cannot be.
        let own = Out::create(&[task.rows, self.columns])?;
        linalg::apply_backward(io.inputs[0], &by, io.gradients[0], &own)?;
        let own = own.finish()?;
        linalg::sum_rows(&own, bias)?;
        match io.input_gradients[0] {
            Some(into) => linalg::axpby(1.0, &own, 0.0, &own, into),
            None => Ok(()),
        }
    }
}

eciton_sdk::export_kernel!(Activate);

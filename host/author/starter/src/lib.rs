//! y = z / sqrt(1 + z^2), z = u w, u = dropout(input-activation(x + c)).

use eciton_sdk::linalg::LinearGradients;
use eciton_sdk::prelude::*;

const TILE_ROWS: u32 = 64;
const PLAIN: Epilogue<'static> = Epilogue { bias: None, activation: Activation::Identity };

pub struct Squash {
    columns: u32,
    out_features: u32,
    input_bias: bool,
    input_activation: Activation,
    dropout: f32,
}

impl Squash {
    fn prologue<'a>(&self, parameters: &[&'a Matrix]) -> Prologue<'a> {
        Prologue {
            bias: self.input_bias.then(|| parameters[0]),
            activation: self.input_activation,
            dropout: (self.dropout > 0.0).then_some(Dropout { probability: self.dropout, stream: 0 }),
        }
    }
}

impl Kernel for Squash {
    fn attributes() -> Vec<AttributeSpec> {
        let identity = Some(Value::Text("identity".to_owned()));
        vec![
            AttributeSpec::new("out-features", "values in a row of the result", None),
            AttributeSpec::new("bias", "must be false", Some(Value::Flag(false))),
            AttributeSpec::new("input-bias", "whether c is added to the input", Some(Value::Flag(false))),
            AttributeSpec::new("input-activation", "applied to the input after c", identity),
            AttributeSpec::new("dropout", "probability of dropping an input value", Some(Value::Number(0.0))),
        ]
    }

    fn open(inputs: &[Vec<u32>], attributes: &Attributes) -> Result<Self> {
        if attributes.flag("bias")? {
            return Err(Error::Argument("squash adds no bias of its own".to_owned()));
        }
        Ok(Squash {
            columns: inputs[0][0],
            out_features: attributes.size("out-features")?,
            input_bias: attributes.flag("input-bias")?,
            input_activation: Activation::parse(attributes.text("input-activation")?)?,
            dropout: attributes.probability("dropout")?,
        })
    }

    fn signature(&self) -> Signature {
        let mut all = Signature::new()
            .input("x", &[self.columns])
            .output("y", &[self.out_features])
            .keep("slope", &[self.out_features])
            .needing_inputs();
        if self.input_bias {
            all = all.parameter("input-bias", &[self.columns], Initialiser::Zeros);
        }
        all.parameter("weight", &[self.columns, self.out_features], Initialiser::GlorotUniform)
    }

    fn forward<R: Real>(&self, task: &Task, io: Forward<'_>) -> Result<()> {
        // A single host call computes the product, without a copy to the guest.
        let w = io.parameters[usize::from(self.input_bias)];
        let product = Out::create(&[task.rows, self.out_features])?;
        linalg::linear(io.inputs[0], &self.prologue(io.parameters), w, &PLAIN, &product)?;
        let product = product.finish()?;
        // The kernel's own function runs in the guest, tile by tile.
        let mut start = 0;
        while start < task.rows {
            let count = TILE_ROWS.min(task.rows - start);
            let mut y: Vec<R> = product.read_rows(start, count)?;
            let mut slope = y.clone();
            for (y, slope) in y.iter_mut().zip(&mut slope) {
                let root = R::ONE / (R::ONE + *y * *y).sqrt();
                *y *= root;
                *slope = root * root * root;
            }
            io.outputs[0].write_rows(start, &y)?;
            io.kept[0].write_rows(start, &slope)?;
            start += count;
        }
        Ok(())
    }

    fn backward<R: Real>(&self, task: &Task, io: Backward<'_>) -> Result<()> {
        let at = usize::from(self.input_bias);
        let through = Out::create(&[task.rows, self.out_features])?;
        linalg::multiply(io.gradients[0], io.kept[0], &through)?;
        let wanted = LinearGradients {
            x: io.input_gradients[0],
            before_bias: self.input_bias.then(|| io.parameter_gradients[0]),
            w: Some(io.parameter_gradients[at]),
            after_bias: None,
        };
        let before = self.prologue(io.parameters);
        let w = io.parameters[at];
        linalg::linear_backward(io.inputs[0], &before, w, &PLAIN, None, &through.finish()?, wanted)
    }
}

eciton_sdk::export_kernel!(Squash);

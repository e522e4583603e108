//! y = sigmoid(x w) * tanh(x v), a gated unit.

use eciton_sdk::prelude::*;

const PLAIN: Prologue<'static> = Prologue { bias: None, activation: Activation::Identity, dropout: None };

pub struct Glu {
    columns: u32,
    out_features: u32,
}

impl ForwardKernel for Glu {
    fn attributes() -> Vec<AttributeSpec> {
        vec![AttributeSpec::new("out-features", "values in a row of the result", None)]
    }

    fn open(inputs: &[Vec<u32>], attributes: &Attributes) -> Result<Self> {
        Ok(Glu { columns: inputs[0][0], out_features: attributes.size("out-features")? })
    }

    fn signature(&self) -> Signature {
        let shape = [self.columns, self.out_features];
        Signature::new()
            .input("x", &[self.columns])
            .output("y", &[self.out_features])
            .parameter("gate", &shape, Initialiser::GlorotUniform)
            .parameter("value", &shape, Initialiser::GlorotUniform)
    }

    fn forward<R: Real>(&self, task: &Task, io: Forward<'_>) -> Result<()> {
        let shape = [task.rows, self.out_features];
        let half = |weight: &Matrix, activation| {
            let after = Epilogue { bias: None, activation };
            scratch(&shape, |into| linalg::linear(io.inputs[0], &PLAIN, weight, &after, into))
        };
        let gate = half(io.parameters[0], Activation::Sigmoid)?;
        let value = half(io.parameters[1], Activation::Tanh)?;
        linalg::multiply(&gate, &value, io.outputs[0])
    }
}

eciton_sdk::export_kernel!(Derived<Glu>);

//! The kernel `linear` as it ships (same attributes, parameters and backward), altered by feature.
//!
//! The suites put these in the place of the built-in one; see README.md.

#[cfg(feature = "edge-aggregates")]
mod aggregates;
#[cfg(any(feature = "derived", feature = "edge-derived"))]
mod derived;
#[cfg(feature = "edges")]
mod edges;
mod forward;
#[cfg(any(feature = "guest-elementwise", feature = "guest-product"))]
mod guest;
#[cfg(feature = "wrong-weights")]
mod weights;

use eciton_sdk::linalg::LinearGradients;
use eciton_sdk::prelude::*;

/// The configured layer: y = activation(u w + b), u = dropout(input-activation(x + c)).
#[derive(Debug)]
pub struct Linear {
    columns: u32,
    out_features: u32,
    bias: bool,
    activation: Activation,
    input_bias: bool,
    input_activation: Activation,
    dropout: f32,
}

impl Linear {
    /// The parameters by name: (c, w, b).
    fn parameters<'a>(&self, all: &'a [&'a Matrix]) -> (Option<&'a Matrix>, &'a Matrix, Option<&'a Matrix>) {
        let first = usize::from(self.input_bias);
        (self.input_bias.then(|| all[0]), all[first], self.bias.then(|| all[first + 1]))
    }

    fn prologue<'a>(&self, bias: Option<&'a Matrix>) -> Prologue<'a> {
        let dropout = (self.dropout > 0.0).then_some(Dropout { probability: self.dropout, stream: 0 });
        Prologue { bias, activation: self.input_activation, dropout }
    }

    /// What the kernel that ships does.
    fn plain(&self, io: &Forward<'_>, into: &Out) -> Result<()> {
        let (c, w, b) = self.parameters(io.parameters);
        let after = Epilogue { bias: b, activation: self.activation };
        linalg::linear(io.inputs[0], &self.prologue(c), w, &after, into)
    }
}

impl Kernel for Linear {
    fn attributes() -> Vec<AttributeSpec> {
        let text = |v: &str| Some(Value::Text(v.to_owned()));
        vec![
            AttributeSpec::new("out-features", "values in a row of the result", None),
            AttributeSpec::new("bias", "whether b is added to the product", Some(Value::Flag(true))),
            AttributeSpec::new("activation", "applied to the result", text("identity")),
            AttributeSpec::new("input-bias", "whether c is added to the input", Some(Value::Flag(false))),
            AttributeSpec::new("input-activation", "applied to the input after c", text("identity")),
            AttributeSpec::new("dropout", "probability of dropping an input value", Some(Value::Number(0.0))),
        ]
    }

    fn open(inputs: &[Vec<u32>], attributes: &Attributes) -> Result<Self> {
        if cfg!(feature = "looping-open") {
            forward::endless();
        }
        if cfg!(feature = "keeping-open") {
            let scratch = Out::create(&[1, 1])?;
            scratch.write_rows::<f32>(0, &[0.0])?;
            std::mem::forget(scratch.finish()?);
        }
        Ok(Self {
            columns: inputs[0][0],
            out_features: attributes.size("out-features")?,
            bias: attributes.flag("bias")?,
            activation: Activation::parse(attributes.text("activation")?)?,
            input_bias: attributes.flag("input-bias")?,
            input_activation: Activation::parse(attributes.text("input-activation")?)?,
            dropout: attributes.probability("dropout")?,
        })
    }

    fn signature(&self) -> Signature {
        let wider = u32::from(cfg!(feature = "wrong-signature"));
        let mut s = Signature::new()
            .input("x", &[self.columns])
            .output("y", &[self.out_features + wider])
            .needing_inputs();
        if self.activation != Activation::Identity {
            s = s.needing_outputs();
        }
        if self.input_bias {
            s = s.parameter("input-bias", &[self.columns], Initialiser::Zeros);
        }
        s = s.parameter("weight", &[self.columns, self.out_features], Initialiser::GlorotUniform);
        if self.bias {
            s = s.parameter("bias", &[self.out_features], Initialiser::Zeros);
        }
        s
    }

    fn forward<R: Real>(&self, task: &Task, io: Forward<'_>) -> Result<()> {
        forward::altered(self, task, &io)
    }

    fn backward<R: Real>(&self, _: &Task, io: Backward<'_>) -> Result<()> {
        if cfg!(feature = "trapping-backward") {
            panic!("the test kernel panics in backward");
        }
        let (c, w, b) = self.parameters(io.parameters);
        let first = usize::from(self.input_bias);
        let wanted = LinearGradients {
            x: io.input_gradients[0],
            before_bias: self.input_bias.then(|| io.parameter_gradients[0]),
            w: Some(io.parameter_gradients[first]),
            after_bias: self.bias.then(|| io.parameter_gradients[first + 1]),
        };
        let after = Epilogue { bias: b, activation: self.activation };
        let y = io.outputs.first().copied();
        let dy = io.gradients[0];
        if cfg!(feature = "wrong-gradient") {
            let larger = Out::create(&dy.shape())?;
            linalg::axpby(1.05, dy, 0.0, dy, &larger)?;
            return linalg::linear_backward(io.inputs[0], &self.prologue(c), w, &after, y, &larger.finish()?, wanted);
        }
        linalg::linear_backward(io.inputs[0], &self.prologue(c), w, &after, y, dy, wanted)
    }
}

#[cfg(not(any(
    feature = "edges",
    feature = "derived",
    feature = "guest-elementwise",
    feature = "guest-product",
    feature = "wrong-weights"
)))]
eciton_sdk::export_kernel!(Linear);

//! Kernel `linear`: y = activation(u w + b), u = dropout(input-activation(x + c)).
//!
//! c and b are optional. x [n, k], w [k, m], c [k], b [m], y [n, m]. With d = dy * activation'(y):
//! dw = u^T d, db = column sums of d, dx = (d w^T) * mask / (1 - p) * input-activation'(x + c),
//! dc = column sums of dx. Every pass is one call of the host.
//!
//! With `transposed`, w is [m, k] and y = activation(u w^T + b): the weight of an `embedding` of m entries as that of the
//! last product (Press and Wolf 2017), dw = d^T u.

use eciton_sdk::linalg::LinearGradients;
use eciton_sdk::prelude::*;

/// The configured layer.
#[derive(Debug)]
pub struct Linear {
    columns: u32,
    out_features: u32,
    bias: bool,
    activation: Activation,
    input_bias: bool,
    input_activation: Activation,
    dropout: f32,
    transposed: bool,
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

    /// u, where it is not x itself.
    fn entering(&self, c: Option<&Matrix>, x: &Matrix) -> Result<Option<Matrix>> {
        let by = self.prologue(c);
        if by.bias.is_none() && by.activation == Activation::Identity && by.dropout.is_none() {
            return Ok(None);
        }
        scratch(&x.shape(), |into| linalg::apply(x, &by, into)).map(Some)
    }

    /// The epilogue of u w^T.
    fn leaving<'a>(&self, b: Option<&'a Matrix>) -> Option<Prologue<'a>> {
        let by = Prologue { bias: b, activation: self.activation, dropout: None };
        (b.is_some() || self.activation != Activation::Identity).then_some(by)
    }

    fn forward_transposed(
        &self,
        c: Option<&Matrix>,
        w: &Matrix,
        b: Option<&Matrix>,
        io: Forward<'_>,
    ) -> Result<()> {
        let u = self.entering(c, io.inputs[0])?;
        let u = u.as_ref().unwrap_or(io.inputs[0]);
        let product = |into: &Out| linalg::matmul(u, false, w, true, false, into);
        match self.leaving(b) {
            None => product(io.outputs[0]),
            Some(by) => {
                let z = scratch(&[u.row_count(), self.out_features], product)?;
                linalg::apply(&z, &by, io.outputs[0])
            }
        }
    }

    fn backward_transposed(
        &self,
        c: Option<&Matrix>,
        w: &Matrix,
        b: Option<&Matrix>,
        io: Backward<'_>,
    ) -> Result<()> {
        let (x, grad) = (io.inputs[0], io.gradients[0]);
        let u = self.entering(c, x)?;
        let u = u.as_ref().unwrap_or(x);
        let d = match self.activation {
            Activation::Identity => None,
            activation => {
                let by = Prologue { bias: b, activation, dropout: None };
                let z = scratch(&grad.shape(), |into| linalg::matmul(u, false, w, true, false, into))?;
                Some(scratch(&grad.shape(), |into| linalg::apply_backward(&z, &by, grad, into))?)
            }
        };
        let d = d.as_ref().unwrap_or(grad);
        let mut sums = io.parameter_gradients.iter();
        let of_input_bias = if self.input_bias { sums.next() } else { None };
        if let Some(into) = sums.next() {
            linalg::matmul(d, true, u, false, false, into)?;
        }
        if let Some(into) = sums.next() {
            linalg::sum_rows(d, into)?;
        }
        if io.input_gradients[0].is_none() && of_input_bias.is_none() {
            return Ok(());
        }
        let du = scratch(&x.shape(), |into| linalg::matmul(d, false, w, false, false, into))?;
        let dx = |into: &Out| linalg::apply_backward(x, &self.prologue(c), &du, into);
        let Some(sum) = of_input_bias else {
            return io.input_gradients[0].map_or(Ok(()), dx);
        };
        // Read again for its column sums: what is written to cannot be.
        let own = scratch(&x.shape(), dx)?;
        linalg::sum_rows(&own, sum)?;
        match io.input_gradients[0] {
            Some(into) => linalg::axpby(1.0, &own, 0.0, &own, into),
            None => Ok(()),
        }
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
            AttributeSpec::new(
                "transposed",
                "whether w has a row for each value of the result",
                Some(Value::Flag(false)),
            ),
        ]
    }

    fn open(inputs: &[Vec<u32>], attributes: &Attributes) -> Result<Self> {
        let [input] = inputs else {
            return Err(Error::Argument(format!("linear takes one input, not {}", inputs.len())));
        };
        let [columns] = input[..] else {
            return Err(Error::Shape {
                operation: "linear".to_owned(),
                operand: "one row of x".to_owned(),
                expected: vec![0],
                found: input.clone(),
            });
        };
        Ok(Self {
            columns,
            out_features: attributes.size("out-features")?,
            bias: attributes.flag("bias")?,
            activation: Activation::parse(attributes.text("activation")?)?,
            input_bias: attributes.flag("input-bias")?,
            input_activation: Activation::parse(attributes.text("input-activation")?)?,
            dropout: attributes.probability("dropout")?,
            transposed: attributes.flag("transposed")?,
        })
    }

    fn signature(&self) -> Signature {
        let mut s =
            Signature::new().input("x", &[self.columns]).output("y", &[self.out_features]).needing_inputs();
        if self.activation != Activation::Identity && !self.transposed {
            s = s.needing_outputs();
        }
        if self.input_bias {
            s = s.parameter("input-bias", &[self.columns], Initialiser::Zeros);
        }
        let (first, last) = match self.transposed {
            true => (self.out_features, self.columns),
            false => (self.columns, self.out_features),
        };
        s = s.parameter("weight", &[first, last], Initialiser::GlorotUniform);
        if self.bias {
            s = s.parameter("bias", &[self.out_features], Initialiser::Zeros);
        }
        s
    }

    fn forward<R: Real>(&self, _: &Task, io: Forward<'_>) -> Result<()> {
        let (c, w, b) = self.parameters(io.parameters);
        if self.transposed {
            return self.forward_transposed(c, w, b, io);
        }
        let after = Epilogue { bias: b, activation: self.activation };
        linalg::linear(io.inputs[0], &self.prologue(c), w, &after, io.outputs[0])
    }

    fn backward<R: Real>(&self, _: &Task, io: Backward<'_>) -> Result<()> {
        let (c, w, b) = self.parameters(io.parameters);
        if self.transposed {
            return self.backward_transposed(c, w, b, io);
        }
        let first = usize::from(self.input_bias);
        let wanted = LinearGradients {
            x: io.input_gradients[0],
            before_bias: self.input_bias.then(|| io.parameter_gradients[0]),
            w: Some(io.parameter_gradients[first]),
            after_bias: self.bias.then(|| io.parameter_gradients[first + 1]),
        };
        let after = Epilogue { bias: b, activation: self.activation };
        let y = io.outputs.first().copied();
        linalg::linear_backward(io.inputs[0], &self.prologue(c), w, &after, y, io.gradients[0], wanted)
    }
}

eciton_sdk::export_kernel!(Linear);

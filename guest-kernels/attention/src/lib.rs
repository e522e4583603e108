//! Kernel `attention`: y = [z | s | t], what graph attention (Velickovic et al. 2018) needs of each vertex.
//!
//! With u = dropout(input-activation(x + c)) and z = u w in H heads of F values: s_h = <z_h, a_h>, a head's
//! term as a source of edges, t_h = <z_h, b_h>, as a target. x [n, k], c [k] (optional), w [k, HF], a and b
//! [HF], y [n, HF + 2H]. In one product: y = u (w [I | A]), where A [HF, 2H] holds a and b of each head in
//! columns of its own.
//!
//! With dy = [d | p | q]: dz = d + [p | q] A^T, da = the sum over rows of z * p (p once for each value of its
//! head), db likewise of q; dw, dc, dx are those of `linear` with dz.

use eciton_sdk::linalg::LinearGradients;
use eciton_sdk::prelude::*;

/// The configured layer.
#[derive(Debug)]
pub struct Attention {
    columns: u32,
    heads: u32,
    features: u32,
    input_bias: bool,
    input_activation: Activation,
    dropout: f32,
}

impl Attention {
    fn values(&self) -> u32 {
        self.heads * self.features
    }

    fn prologue<'a>(&self, bias: Option<&'a Matrix>) -> Prologue<'a> {
        let dropout = (self.dropout > 0.0).then_some(Dropout { probability: self.dropout, stream: 0 });
        Prologue { bias, activation: self.input_activation, dropout }
    }

    /// The parameters by name: (c, [w, a, b]).
    fn parameters<'a>(&self, all: &'a [&'a Matrix]) -> (Option<&'a Matrix>, &'a [&'a Matrix]) {
        let first = usize::from(self.input_bias);
        (self.input_bias.then(|| all[0]), &all[first..])
    }

    /// A, behind the unit matrix if asked: `[HF, 2H]` or `[HF, HF + 2H]`.
    fn scores<R: Real>(&self, a: &Matrix, b: &Matrix, behind_unit: bool) -> Result<Matrix> {
        let (values, heads) = (self.values() as usize, self.heads as usize);
        let unit = if behind_unit { values } else { 0 };
        let width = unit + 2 * heads;
        let mut all = vec![R::ZERO; values * width];
        for (at, of) in [a, b].into_iter().enumerate() {
            let of: Vec<R> = of.read_rows(0, self.values())?;
            for (value, factor) in of.into_iter().enumerate() {
                let head = value / self.features as usize;
                all[value * width + unit + at * heads + head] = factor;
            }
        }
        if behind_unit {
            (0..values).for_each(|value| all[value * width + value] = R::ONE);
        }
        let made = Out::create(&[self.values(), width as u32])?;
        made.write_rows(0, &all)?;
        made.finish()
    }

    /// 1 where a value is of a head: `[H, HF]`.
    fn members<R: Real>(&self) -> Result<Matrix> {
        let values = self.values() as usize;
        let mut all = vec![R::ZERO; self.heads as usize * values];
        (0..values).for_each(|value| all[value / self.features as usize * values + value] = R::ONE);
        let made = Out::create(&[self.heads, self.values()])?;
        made.write_rows(0, &all)?;
        made.finish()
    }
}

impl Kernel for Attention {
    fn attributes() -> Vec<AttributeSpec> {
        let text = |v: &str| Some(Value::Text(v.to_owned()));
        vec![
            AttributeSpec::new("heads", "H, the number of heads", Some(Value::Integer(1))),
            AttributeSpec::new("features", "F, values of a head", None),
            AttributeSpec::new("input-bias", "whether c is added to the input", Some(Value::Flag(false))),
            AttributeSpec::new("input-activation", "applied to the input after c", text("identity")),
            AttributeSpec::new("dropout", "probability of dropping an input value", Some(Value::Number(0.0))),
        ]
    }

    fn open(inputs: &[Vec<u32>], attributes: &Attributes) -> Result<Self> {
        let [input] = inputs else {
            return Err(Error::Argument(format!("attention takes one input, not {}", inputs.len())));
        };
        let [columns] = input[..] else {
            return Err(Error::Shape {
                operation: "attention".to_owned(),
                operand: "one row of x".to_owned(),
                expected: vec![0],
                found: input.clone(),
            });
        };
        let (heads, features) = (attributes.size("heads")?, attributes.size("features")?);
        if heads.checked_mul(features).and_then(|values| values.checked_add(2 * heads)).is_none() {
            let found = format!("{heads} heads of {features} values: together at most 2^32 - 1");
            return Err(Error::Argument(found));
        }
        Ok(Self {
            columns,
            heads,
            features,
            input_bias: attributes.flag("input-bias")?,
            input_activation: Activation::parse(attributes.text("input-activation")?)?,
            dropout: attributes.probability("dropout")?,
        })
    }

    fn signature(&self) -> Signature {
        let width = self.values() + 2 * self.heads;
        let mut s = Signature::new().input("x", &[self.columns]).output("y", &[width]);
        if self.input_bias {
            s = s.parameter("input-bias", &[self.columns], Initialiser::Zeros);
        }
        // Glorot's bound of a and b as matrices of H by F, as PyG has them.
        let bound = (6.0 / (self.heads + self.features) as f32).sqrt();
        s.needing_inputs()
            .needing_outputs()
            .parameter("weight", &[self.columns, self.values()], Initialiser::GlorotUniform)
            .parameter("source", &[self.values()], Initialiser::Uniform(bound))
            .parameter("target", &[self.values()], Initialiser::Uniform(bound))
    }

    fn forward<R: Real>(&self, _: &Task, io: Forward<'_>) -> Result<()> {
        let (c, of) = self.parameters(io.parameters);
        let scores = self.scores::<R>(of[1], of[2], true)?;
        let width = self.values() + 2 * self.heads;
        let joined = Out::create(&[self.columns, width])?;
        linalg::matmul(of[0], false, &scores, false, false, &joined)?;
        let after = Epilogue { bias: None, activation: Activation::Identity };
        linalg::linear(io.inputs[0], &self.prologue(c), &joined.finish()?, &after, io.outputs[0])
    }

    fn backward<R: Real>(&self, task: &Task, io: Backward<'_>) -> Result<()> {
        let (c, of) = self.parameters(io.parameters);
        let first = usize::from(self.input_bias);
        let (values, heads) = (self.values(), self.heads);
        let (y, dy) = (io.outputs[0], io.gradients[0]);
        let of_scores = dy.columns(values, 2 * heads)?;
        let dz = Out::create(&[task.rows, values])?;
        linalg::axpby(1.0, &dy.columns(0, values)?, 0.0, &dy.columns(0, values)?, &dz)?;
        let scores = self.scores::<R>(of[1], of[2], false)?;
        linalg::matmul(&of_scores, false, &scores, true, true, &dz)?;
        let (z, members) = (y.columns(0, values)?, self.members::<R>()?);
        for at in 0..2 {
            let each = Out::create(&[task.rows, values])?;
            linalg::matmul(&of_scores.columns(at * heads, heads)?, false, &members, false, false, &each)?;
            let products = Out::create(&[task.rows, values])?;
            linalg::multiply(&z, &each.finish()?, &products)?;
            linalg::sum_rows(&products.finish()?, io.parameter_gradients[first + 1 + at as usize])?;
        }
        let wanted = LinearGradients {
            x: io.input_gradients[0],
            before_bias: self.input_bias.then(|| io.parameter_gradients[0]),
            w: Some(io.parameter_gradients[first]),
            after_bias: None,
        };
        let after = Epilogue { bias: None, activation: Activation::Identity };
        linalg::linear_backward(io.inputs[0], &self.prologue(c), of[0], &after, None, &dz.finish()?, wanted)
    }
}

eciton_sdk::export_kernel!(Attention);

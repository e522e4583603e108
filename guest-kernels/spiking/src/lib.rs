//! Kernel `spiking`: two layers of leaky integrate-and-fire neurons, for T steps (Eshraghian et al. 2023, "Training
//! spiking neural networks using lessons from deep learning", equations 4 and 5; `snntorch.Leaky` of snnTorch).
//!
//! A row x [k] is a current that flows in all steps. With U1[0] = U2[0] = 0 and S[t] = 1 where U[t] > theta, else 0, for
//! t = 1 to T:
//!
//! ```text
//! I1    = x W1 + b1                                      [hidden]
//! U1[t] = beta U1[t-1] + I1 - theta S1[t-1]
//! I2[t] = S1[t] W2 + b2                                  [classes population]
//! U2[t] = beta U2[t-1] + I2[t] - theta S2[t-1]
//! y_c   = sum over t and over the neurons j of class c, c population <= j < (c + 1) population, of S2[t]_j
//! ```
//!
//! With `reset = "zero"` the terms are beta (1 - S[t-1]) U[t-1]. `output = "rate"` divides y by T population;
//! `output = "steps"` is y of each step by itself, [T classes]. Backward, dS/dU is a function of u = U - theta, and a reset
//! passes no gradient:
//!
//! ```text
//! atan, a = 2:           (a / 2) / (1 + (pi a u / 2)^2)   (Fang et al. 2021)
//! fast-sigmoid, k = 25:  1 / (1 + k |u|)^2                 (Zenke and Ganguli 2018)
//! straight-through:      1                                 (Bengio, Leonard and Courville 2013)
//! dU[t] = dS[t] dS/dU + beta dU[t+1], of a zeroed neuron dS[t] dS/dU alone; dI[t] = dU[t]
//! ```
//!
//! `smooth = true` passes on the function whose derivative that is in the place of S, and resets as before: then `backward`
//! is the derivative of `forward` but where U crosses theta, which is how it is checked.
//!
//! Products are the host's: one for all steps of a layer. I1 and I2 are kept, U is computed again.

mod lif;

use eciton_sdk::linalg::LinearGradients;
use eciton_sdk::prelude::*;

use lif::{BySteps, Layer, Neurons, Surrogate};

/// Values of a layer's steps at once: 512 KiB as f32.
const TILE_VALUES: u64 = 1 << 17;
const BEFORE: Prologue<'_> = Prologue { bias: None, activation: Activation::Identity, dropout: None };

/// What a row of the result is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Output {
    Count,
    Rate,
    Steps,
}

/// The configured layer.
#[derive(Debug)]
pub struct Spiking {
    columns: u32,
    hidden: u32,
    classes: u32,
    population: u32,
    steps: u32,
    neurons: Neurons,
    output: Output,
}

/// Values of one row, none above 2^32 - 1.
fn product(extents: &[u32]) -> Result<u32> {
    extents.iter().try_fold(1u32, |n, &e| n.checked_mul(e)).ok_or_else(|| {
        let text = "spiking: `steps` times `hidden`, or times `classes` and `population`, is above 2^32 - 1";
        Error::Argument(text.to_owned())
    })
}

fn after(bias: &Matrix) -> Epilogue<'_> {
    Epilogue { bias: Some(bias), activation: Activation::Identity }
}

impl Spiking {
    fn outgoing(&self) -> u32 {
        self.classes * self.population
    }

    /// Columns of the result.
    fn width(&self) -> u32 {
        if self.output == Output::Steps { self.steps * self.classes } else { self.classes }
    }

    /// First rows and numbers of rows, of a layer of so many neurons.
    fn tiles(&self, rows: u32, neurons: u32) -> impl Iterator<Item = (u32, u32)> + use<> {
        let each = u64::from(self.steps) * u64::from(neurons);
        let step = (TILE_VALUES / each.max(1)).clamp(1, u64::from(rows.max(1))) as u32;
        (0..rows.div_ceil(step)).map(move |tile| (tile * step, step.min(rows - tile * step)))
    }

    /// What a spike adds to a value of the result.
    fn each<R: Real>(&self) -> R {
        match self.output {
            Output::Rate => R::ONE / R::from_f32(self.steps as f32) / R::from_f32(self.population as f32),
            Output::Count | Output::Steps => R::ONE,
        }
    }

    /// Extents of so many rows in a layer of so many neurons.
    fn layer(&self, rows: u32, neurons: u32) -> Layer {
        Layer { rows: rows as usize, steps: self.steps as usize, neurons: neurons as usize }
    }

    /// S1 [n T, hidden] from I1 [n, hidden]; currents go to `kept`.
    fn hidden_spikes<R: Real>(&self, currents: &Matrix, kept: Option<&Out>) -> Result<Matrix> {
        let rows = currents.row_count();
        let spikes = Out::create(&[rows * self.steps, self.hidden])?;
        let mut fired = Vec::new();
        for (start, count) in self.tiles(rows, self.hidden) {
            let currents: Vec<R> = currents.read_rows(start, count)?;
            fired.resize(currents.len() * self.steps as usize, R::ZERO);
            let by_steps = BySteps { values: &currents, constant: true };
            self.neurons.forward(self.layer(count, self.hidden), by_steps, false, &mut fired);
            spikes.write_rows(start * self.steps, &fired)?;
            if let Some(kept) = kept {
                kept.write_rows(start, &currents)?;
            }
        }
        spikes.finish()
    }

    /// y of some rows from their S2, summed over steps unless y is by step.
    fn count<R: Real>(&self, spikes: &[R]) -> Vec<R> {
        let by = self.each::<R>();
        let sum = |of: &[R]| of.iter().fold(R::ZERO, |sum, &s| sum + s);
        spikes.chunks_exact(self.population as usize).map(|of| sum(of) * by).collect()
    }

    /// dS2 of some rows from their dy: the same in all steps, unless y is by step.
    fn share<R: Real>(&self, dy: &[R]) -> Vec<R> {
        let by = self.each::<R>();
        let all = dy.iter().flat_map(|&dy| core::iter::repeat_n(dy * by, self.population as usize));
        all.collect()
    }

    /// dI2 [n T, outgoing] from I2 [n, T outgoing] and dy.
    fn outgoing_back<R: Real>(&self, currents: &Matrix, dy: &Matrix) -> Result<Matrix> {
        let (rows, outgoing) = (currents.row_count(), self.outgoing());
        let into = Out::create(&[rows * self.steps, outgoing])?;
        for (start, count) in self.tiles(rows, outgoing) {
            let currents: Vec<R> = currents.read_rows(start, count)?;
            let spikes = self.share(&dy.read_rows::<R>(start, count)?);
            let spikes = BySteps { values: &spikes, constant: self.output != Output::Steps };
            let mut d = vec![R::ZERO; currents.len()];
            let by_steps = BySteps { values: &currents, constant: false };
            self.neurons.backward(self.layer(count, outgoing), by_steps, spikes, &mut d);
            into.write_rows(start * self.steps, &d)?;
        }
        into.finish()
    }

    /// dI1 [n, hidden] from I1 and dS1 [n T, hidden].
    fn hidden_back<R: Real>(&self, currents: &Matrix, spikes: &Matrix) -> Result<Matrix> {
        let rows = currents.row_count();
        let into = Out::create(&[rows, self.hidden])?;
        for (start, count) in self.tiles(rows, self.hidden) {
            let currents: Vec<R> = currents.read_rows(start, count)?;
            let d: Vec<R> = spikes.read_rows(start * self.steps, count * self.steps)?;
            let mut sums = vec![R::ZERO; currents.len()];
            let by_steps = BySteps { values: &currents, constant: true };
            let spikes = BySteps { values: &d, constant: false };
            self.neurons.backward(self.layer(count, self.hidden), by_steps, spikes, &mut sums);
            into.write_rows(start, &sums)?;
        }
        into.finish()
    }
}

/// Both products' weights and biases: as many as the signature has.
fn four<'a, T>(parameters: &[&'a T]) -> [&'a T; 4] {
    std::array::from_fn(|at| parameters[at])
}

fn one_of<T: Copy>(attributes: &Attributes, name: &str, known: &[(&str, T)]) -> Result<T> {
    let text = attributes.text(name)?;
    let found = known.iter().find(|(known, _)| *known == text).map(|(_, value)| *value);
    found.ok_or_else(|| {
        let known = known.iter().map(|(known, _)| format!("`{known}`")).collect::<Vec<_>>().join(", ");
        Error::Argument(format!("attribute `{name}` is `{text}`; it is one of {known}"))
    })
}

fn neurons(attributes: &Attributes) -> Result<Neurons> {
    let (beta, threshold) = (attributes.number("beta")? as f32, attributes.number("threshold")? as f32);
    if !(0.0..=1.0).contains(&beta) {
        return Err(Error::Argument(format!("attribute `beta` is {beta}; it is from 0 to 1")));
    }
    if !(threshold > 0.0 && threshold < f32::INFINITY) {
        return Err(Error::Argument(format!(
            "attribute `threshold` is {threshold}; it is above 0, within f32"
        )));
    }
    let slope = attributes.number("slope")? as f32;
    if !(0.0..f32::INFINITY).contains(&slope) {
        return Err(Error::Argument(format!("attribute `slope` is {slope}; it is above 0, or 0: the usual")));
    }
    let or = |usual: f32| if slope > 0.0 { slope } else { usual };
    let surrogates = [
        ("atan", Surrogate::Atan(or(2.0))),
        ("fast-sigmoid", Surrogate::FastSigmoid(or(25.0))),
        ("straight-through", Surrogate::StraightThrough),
    ];
    Ok(Neurons {
        beta,
        threshold,
        to_zero: one_of(attributes, "reset", &[("subtract", false), ("zero", true)])?,
        surrogate: one_of(attributes, "surrogate", &surrogates)?,
        smooth: attributes.flag("smooth")?,
    })
}

impl Kernel for Spiking {
    fn attributes() -> Vec<AttributeSpec> {
        let whole = |v: i64| Some(Value::Integer(v));
        let number = |v: f64| Some(Value::Number(v));
        let text = |v: &str| Some(Value::Text(v.to_owned()));
        vec![
            AttributeSpec::new("hidden", "neurons of the first layer", None),
            AttributeSpec::new("classes", "values of the result, of a step", None),
            AttributeSpec::new("steps", "T", whole(25)),
            AttributeSpec::new("population", "neurons of the second layer for each class", whole(1)),
            AttributeSpec::new("beta", "what is left of U after a step, 0 to 1", number(0.9)),
            AttributeSpec::new("threshold", "theta, above 0", number(1.0)),
            AttributeSpec::new("reset", "`subtract` (theta from U), or `zero`", text("subtract")),
            AttributeSpec::new(
                "surrogate",
                "dS/dU: `atan`, `fast-sigmoid` or `straight-through`",
                text("atan"),
            ),
            AttributeSpec::new("slope", "a of atan, k of fast-sigmoid; 0: 2 and 25", number(0.0)),
            AttributeSpec::new(
                "output",
                "`count` of spikes, `rate` (by step and neuron), or `steps`: the count of each step",
                text("count"),
            ),
            AttributeSpec::new(
                "smooth",
                "whether what the surrogate derives takes the place of spikes, for checks",
                Some(Value::Flag(false)),
            ),
        ]
    }

    fn open(inputs: &[Vec<u32>], attributes: &Attributes) -> Result<Self> {
        let [input] = inputs else {
            return Err(Error::Argument(format!("spiking takes one input, not {}", inputs.len())));
        };
        let [columns] = input[..] else {
            return Err(Error::Shape {
                operation: "spiking".to_owned(),
                operand: "one row of x".to_owned(),
                expected: vec![0],
                found: input.clone(),
            });
        };
        let outputs = [("count", Output::Count), ("rate", Output::Rate), ("steps", Output::Steps)];
        let all = Self {
            columns,
            hidden: attributes.size("hidden")?,
            classes: attributes.size("classes")?,
            population: attributes.size("population")?,
            steps: attributes.size("steps")?,
            neurons: neurons(attributes)?,
            output: one_of(attributes, "output", &outputs)?,
        };
        product(&[all.steps, all.hidden])?;
        product(&[all.steps, all.classes, all.population])?;
        Ok(all)
    }

    fn signature(&self) -> Signature {
        // PyTorch's first values of a linear layer, as the source has them.
        let bound = |rows: u32| Initialiser::Uniform(1.0 / (rows.max(1) as f32).sqrt());
        let (first, second, outgoing) = (bound(self.columns), bound(self.hidden), self.outgoing());
        Signature::new()
            .input("x", &[self.columns])
            .output("y", &[self.width()])
            .keep("hidden-current", &[self.hidden])
            .keep("current", &[self.steps * outgoing])
            .needing_inputs()
            .parameter("hidden-weight", &[self.columns, self.hidden], first)
            .parameter("hidden-bias", &[self.hidden], first)
            .parameter("weight", &[self.hidden, outgoing], second)
            .parameter("bias", &[outgoing], second)
    }

    fn forward<R: Real>(&self, task: &Task, io: Forward<'_>) -> Result<()> {
        let [w1, b1, w2, b2] = four(io.parameters);
        let outgoing = self.outgoing();
        let currents = scratch(&[task.rows, self.hidden], |into| {
            linalg::linear(io.inputs[0], &BEFORE, w1, &after(b1), into)
        })?;
        let spikes = self.hidden_spikes::<R>(&currents, io.kept.first().copied())?;
        let currents = scratch(&[task.rows * self.steps, outgoing], |into| {
            linalg::linear(&spikes, &BEFORE, w2, &after(b2), into)
        })?;
        let mut fired = Vec::new();
        for (start, count) in self.tiles(task.rows, outgoing) {
            let currents: Vec<R> = currents.read_rows(start * self.steps, count * self.steps)?;
            if let Some(kept) = io.kept.get(1) {
                kept.write_rows(start, &currents)?;
            }
            let summed = self.output != Output::Steps;
            let by_row = if summed { outgoing } else { self.steps * outgoing };
            fired.resize(count as usize * by_row as usize, R::ZERO);
            let by_steps = BySteps { values: &currents, constant: false };
            self.neurons.forward(self.layer(count, outgoing), by_steps, summed, &mut fired);
            io.outputs[0].write_rows(start, &self.count(&fired))?;
        }
        Ok(())
    }

    fn backward<R: Real>(&self, _: &Task, io: Backward<'_>) -> Result<()> {
        let [w1, b1, w2, b2] = four(io.parameters);
        let [into_w1, into_b1, into_w2, into_b2] = four(io.parameter_gradients);
        let (hidden_currents, currents) = (io.kept[0], io.kept[1]);
        let spikes = self.hidden_spikes::<R>(hidden_currents, None)?;
        let d = self.outgoing_back::<R>(currents, io.gradients[0])?;
        let d_spikes = scratch(&spikes.shape(), |into| {
            let wanted = LinearGradients {
                x: Some(into),
                before_bias: None,
                w: Some(into_w2),
                after_bias: Some(into_b2),
            };
            linalg::linear_backward(&spikes, &BEFORE, w2, &after(b2), None, &d, wanted)
        })?;
        let d = self.hidden_back::<R>(hidden_currents, &d_spikes)?;
        let wanted = LinearGradients {
            x: io.input_gradients[0],
            before_bias: None,
            w: Some(into_w1),
            after_bias: Some(into_b1),
        };
        linalg::linear_backward(io.inputs[0], &BEFORE, w1, &after(b1), None, &d, wanted)
    }
}

eciton_sdk::export_kernel!(Spiking);

//! Kernel `sum`: y = f x_0 + g (x_1 + ... + x_(n-1)), with f and g given, or f = 1 + e with e trained.
//!
//! x_i, y [n, k], e [1]. dx_0 = f dy, dx_i = g dy, de = the sum over rows and columns of dy * x_0.
//! Gradients of rows that several operations read are added by it; the trained e is that of a graph
//! isomorphism network (Xu et al. 2019, eq. 4.1).

use eciton_sdk::prelude::*;

/// Rows that are read and written at once, where the guest does the arithmetic.
const TILE_ROWS: u32 = 1024;

/// The configured layer.
#[derive(Debug)]
pub struct Sum {
    columns: u32,
    inputs: usize,
    first: f32,
    others: f32,
    trained: bool,
}

/// A factor: the nearest f32, which must be finite.
fn factor(attributes: &Attributes, name: &str) -> Result<f32> {
    let value = attributes.number(name)? as f32;
    match value.is_finite() {
        true => Ok(value),
        false => Err(Error::Argument(format!("attribute `{name}` must be a number that f32 holds"))),
    }
}

impl Sum {
    fn factor(&self, input: usize) -> f32 {
        if input == 0 { self.first } else { self.others }
    }

    /// f, as trained.
    fn trained<R: Real>(parameters: &[&Matrix]) -> Result<R> {
        let e: Vec<R> = parameters[0].read_rows(0, 1)?;
        Ok(R::ONE + e[0])
    }

    /// Calls `tile(start, count)` until all rows have been.
    fn tiles(rows: u32, mut tile: impl FnMut(u32, u32) -> Result<()>) -> Result<()> {
        let mut start = 0;
        while start < rows {
            let count = TILE_ROWS.min(rows - start);
            tile(start, count)?;
            start += count;
        }
        Ok(())
    }
}

impl Kernel for Sum {
    fn attributes() -> Vec<AttributeSpec> {
        let one = || Some(Value::Number(1.0));
        vec![
            AttributeSpec::new("first", "f, the factor of the first input", one()),
            AttributeSpec::new("others", "g, the factor of the other inputs", one()),
            AttributeSpec::new(
                "trained",
                "whether f is trained, from the value given",
                Some(Value::Flag(false)),
            ),
        ]
    }

    fn open(inputs: &[Vec<u32>], attributes: &Attributes) -> Result<Self> {
        let Some(first) = inputs.first() else {
            return Err(Error::Argument("sum takes at least one input".to_owned()));
        };
        let [columns] = first[..] else {
            return Err(Error::Shape {
                operation: "sum".to_owned(),
                operand: "one row of x_0".to_owned(),
                expected: vec![0],
                found: first.clone(),
            });
        };
        if let Some(at) = inputs.iter().position(|other| other != first) {
            return Err(Error::Shape {
                operation: "sum".to_owned(),
                operand: format!("one row of x_{at}"),
                expected: first.clone(),
                found: inputs[at].clone(),
            });
        }
        Ok(Self {
            columns,
            inputs: inputs.len(),
            first: factor(attributes, "first")?,
            others: factor(attributes, "others")?,
            trained: attributes.flag("trained")?,
        })
    }

    fn signature(&self) -> Signature {
        let mut s = Signature::new();
        for at in 0..self.inputs {
            s = s.input(&format!("x{at}"), &[self.columns]);
        }
        s = s.output("y", &[self.columns]);
        if self.trained {
            s = s.parameter("epsilon", &[1], Initialiser::Constant(self.first - 1.0)).needing_inputs();
        }
        s
    }

    fn forward<R: Real>(&self, task: &Task, io: Forward<'_>) -> Result<()> {
        let (x, y) = (io.inputs, io.outputs[0]);
        if self.trained {
            let (f, g) = (Self::trained::<R>(io.parameters)?, R::from_f32(self.others));
            return Self::tiles(task.rows, |start, count| {
                let mut sums: Vec<R> = x[0].read_rows(start, count)?;
                sums.iter_mut().for_each(|v| *v *= f);
                for other in &x[1..] {
                    let values: Vec<R> = other.read_rows(start, count)?;
                    for (sum, &v) in sums.iter_mut().zip(&values) {
                        *sum += g * v;
                    }
                }
                y.write_rows(start, &sums)
            });
        }
        let Some((&last, before)) = x[1..].split_last() else {
            return linalg::axpby(self.first, x[0], 0.0, x[0], y);
        };
        // In the order of inputs; all but the last sum into scratch.
        let mut so_far: Option<Matrix> = None;
        for &next in before {
            let own = Out::create(&[task.rows, self.columns])?;
            match &so_far {
                None => linalg::axpby(self.first, x[0], self.others, next, &own)?,
                Some(sum) => linalg::axpby(1.0, sum, self.others, next, &own)?,
            }
            so_far = Some(own.finish()?);
        }
        match &so_far {
            None => linalg::axpby(self.first, x[0], self.others, last, y),
            Some(sum) => linalg::axpby(1.0, sum, self.others, last, y),
        }
    }

    fn backward<R: Real>(&self, task: &Task, io: Backward<'_>) -> Result<()> {
        let grad = io.gradients[0];
        let given = io.input_gradients.iter().enumerate().skip(usize::from(self.trained));
        for (at, into) in given {
            if let Some(into) = into {
                linalg::axpby(self.factor(at), grad, 0.0, grad, into)?;
            }
        }
        let Some(epsilon) = io.parameter_gradients.first() else { return Ok(()) };
        let f = Self::trained::<R>(io.parameters)?;
        let products = Out::create(&[task.rows, 1])?;
        let k = self.columns as usize;
        Self::tiles(task.rows, |start, count| {
            let mut d: Vec<R> = grad.read_rows(start, count)?;
            let x: Vec<R> = io.inputs[0].read_rows(start, count)?;
            let of_row = |(d, x): (&[R], &[R])| {
                let mut sum = R::ZERO;
                for (&d, &x) in d.iter().zip(x) {
                    sum += d * x;
                }
                sum
            };
            let sums: Vec<R> = d.chunks_exact(k).zip(x.chunks_exact(k)).map(of_row).collect();
            products.write_rows(start, &sums)?;
            if let Some(into) = io.input_gradients[0] {
                d.iter_mut().for_each(|v| *v *= f);
                into.write_rows(start, &d)?;
            }
            Ok(())
        })?;
        linalg::sum_rows(&products.finish()?, epsilon)
    }
}

eciton_sdk::export_kernel!(Sum);

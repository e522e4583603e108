//! Kernel `cross-entropy`: the last layer of a classifier.
//!
//! Scores z = x + b (b optional), p = softmax(z), loss = -weight * sum over labelled rows of
//! log p[label], dz = weight * (p - onehot(label)) on those rows and 0 elsewhere, db = column sums
//! of dz. x, z [n, c]. The softmax and its gradient are computed here, in the guest; the host sums
//! over rows.

use eciton_sdk::prelude::*;

/// Rows that are read and written at once.
const TILE_ROWS: u32 = 1024;

/// The configured layer.
#[derive(Debug)]
pub struct CrossEntropy {
    classes: u32,
    bias: bool,
}

impl Kernel for CrossEntropy {
    fn attributes() -> Vec<AttributeSpec> {
        vec![AttributeSpec::new("bias", "whether b is added to the scores", Some(Value::Flag(true)))]
    }

    fn open(inputs: &[Vec<u32>], attributes: &Attributes) -> Result<Self> {
        let [input] = inputs else {
            return Err(Error::Argument(format!("cross-entropy takes one input, not {}", inputs.len())));
        };
        let [classes] = input[..] else {
            return Err(Error::Shape {
                operation: "cross-entropy".to_owned(),
                operand: "one row of x".to_owned(),
                expected: vec![0],
                found: input.clone(),
            });
        };
        Ok(Self { classes, bias: attributes.flag("bias")? })
    }

    fn signature(&self) -> Signature {
        let s = Signature::new().input("x", &[self.classes]).output("scores", &[self.classes]).with_loss();
        if self.bias { s.parameter("bias", &[self.classes], Initialiser::Zeros) } else { s }
    }

    fn forward<R: Real>(&self, _: &Task, io: Forward<'_>) -> Result<()> {
        let by = Prologue {
            bias: io.parameters.first().copied(),
            activation: Activation::Identity,
            dropout: None,
        };
        linalg::apply(io.inputs[0], &by, io.outputs[0])
    }

    fn backward<R: Real>(&self, _: &Task, io: Backward<'_>) -> Result<()> {
        if let Some(into) = io.input_gradients[0] {
            linalg::axpby(1.0, io.gradients[0], 0.0, io.gradients[0], into)?;
        }
        match io.parameter_gradients.first() {
            Some(into) => linalg::sum_rows(io.gradients[0], into),
            None => Ok(()),
        }
    }

    fn loss<R: Real>(&self, task: &Task, io: LastLayer<'_>) -> Result<()> {
        let c = self.classes as usize;
        let labelled = io.rows.read(0, io.rows.len())?;
        let labels = io.labels.read(0, io.labels.len())?;
        check_rows(task, &labelled, labels.len())?;
        let bias: Vec<R> = match io.parameters.first() {
            Some(b) => b.read_rows(0, b.row_count())?,
            None => vec![R::ZERO; c],
        };
        let losses = Out::create(&[task.rows, 1])?;
        // Where nobody wants the gradient of the input, its column sums may still be wanted.
        let own = match io.input_gradients[0] {
            None => Some(Out::create(&[task.rows, self.classes])?),
            Some(_) => None,
        };
        let grad = io.input_gradients[0].or(own.as_ref());
        let Some(grad) = grad else { return Err(Error::Kernel("no place for the gradient".to_owned())) };
        let bias_sums = match io.parameter_gradients.first() {
            Some(_) => Some(Out::create(&[task.rows, self.classes])?),
            None => None,
        };
        let weight = R::from_f32(io.weight);
        let mut next = 0;
        let mut start = 0;
        while start < task.rows {
            let count = TILE_ROWS.min(task.rows - start);
            let mut tile = vec![R::ZERO; count as usize * c];
            let mut tile_losses = vec![R::ZERO; count as usize];
            let first = next;
            while next < labelled.len() && labelled[next] < start + count {
                next += 1;
            }
            if first < next {
                // Rows from the first labelled one to the last, in one copy.
                let from = labelled[first];
                let values: Vec<R> = io.inputs[0].read_rows(from, labelled[next - 1] - from + 1)?;
                for &row in &labelled[first..next] {
                    let label = labels.get(row as usize).copied().unwrap_or(u32::MAX) as usize;
                    if label >= c {
                        return Err(Error::Argument(format!(
                            "row {row} has label {label}; there are {c} classes"
                        )));
                    }
                    let at = (row - from) as usize * c;
                    let to = (row - start) as usize;
                    let grad = &mut tile[to * c..(to + 1) * c];
                    tile_losses[to] = row_loss(&values[at..at + c], &bias, label, weight, grad);
                }
            }
            losses.write_rows(start, &tile_losses)?;
            grad.write_rows(start, &tile)?;
            if let Some(sums) = &bias_sums {
                sums.write_rows(start, &tile)?;
            }
            start += count;
        }
        linalg::sum_rows(&losses.finish()?, io.loss)?;
        if let (Some(sums), Some(into)) = (bias_sums, io.parameter_gradients.first()) {
            linalg::sum_rows(&sums.finish()?, into)?;
        }
        Ok(())
    }
}

/// One label a row; the labelled rows ascend and exist.
fn check_rows(task: &Task, labelled: &[u32], labels: usize) -> Result<()> {
    if labels != task.rows as usize {
        return Err(Error::Shape {
            operation: "cross-entropy".to_owned(),
            operand: "labels".to_owned(),
            expected: vec![task.rows],
            found: vec![labels as u32],
        });
    }
    let ascending = labelled.windows(2).all(|pair| pair[0] < pair[1]);
    match labelled.last() {
        Some(&last) if last >= task.rows => {
            Err(Error::Argument(format!("row {last} is labelled; there are {} rows", task.rows)))
        }
        _ if !ascending => Err(Error::Argument("the labelled rows must ascend".to_owned())),
        _ => Ok(()),
    }
}

/// The loss of one row; `grad` receives weight * (softmax(x + bias) - onehot(label)).
fn row_loss<R: Real>(x: &[R], bias: &[R], label: usize, weight: R, grad: &mut [R]) -> R {
    let mut largest = x[0] + bias[0];
    for ((g, &x), &b) in grad.iter_mut().zip(x).zip(bias) {
        *g = x + b;
        largest = largest.max(*g);
    }
    let score = grad[label];
    let mut sum = R::ZERO;
    for g in grad.iter_mut() {
        *g = (*g - largest).exp();
    }
    for &g in grad.iter() {
        sum += g;
    }
    let scale = weight / sum;
    for g in grad.iter_mut() {
        *g *= scale;
    }
    grad[label] = grad[label] - weight;
    weight * (largest + sum.ln() - score)
}

eciton_sdk::export_kernel!(CrossEntropy);

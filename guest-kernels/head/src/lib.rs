//! Kernel `head`: the last layer, which compares scores with what is known of the rows.
//!
//! Scores z = x + b (b optional), x, z [n, c]. The loss is a weighted sum over the rows that count, and
//! db the column sums of dz, its gradient, which is zero in all other rows. By the attribute `of`:
//!
//! * `cross-entropy`, one class a row: -weight * log softmax(z)\[class\];
//!   dz = weight * (softmax(z) - onehot(class)).
//! * `binary-cross-entropy`, values t \[n, c\] in \[0, 1\]: weight * (max(z, 0) - z t + log(1 + exp(-|z|)));
//!   dz = weight * (sigmoid(z) - t).
//! * `squared-error`, values t: weight * (z - t)^2; dz = 2 weight * (z - t).
//! * `absolute-error`, values t: weight * |z - t|; dz = weight * sign(z - t).
//!
//! A value that is NaN is unknown: it adds nothing. Where rows do not count alike (`given.row-weights`),
//! row i has weight w_i * weight. The attribute `focal`, gamma >= 0, makes classes that are right
//! already count less (Lin et al. 2017, equation 4), with p = softmax(z)\[class\]:
//!
//! * loss = -weight * (1 - p)^gamma log p; gamma = 0 is the cross-entropy itself;
//!   dz = weight * f (softmax(z) - onehot(class)), f = (1 - p)^gamma (1 - gamma p log p / (1 - p)).
//!
//! All is computed here, in the guest; the host sums over rows.

mod focal;

use eciton_sdk::prelude::*;

/// Rows that are read and written at once.
const TILE_ROWS: u32 = 1024;

/// What is computed of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    CrossEntropy,
    BinaryCrossEntropy,
    SquaredError,
    AbsoluteError,
}

impl Of {
    const ALL: [(&'static str, Self); 4] = [
        ("cross-entropy", Self::CrossEntropy),
        ("binary-cross-entropy", Self::BinaryCrossEntropy),
        ("squared-error", Self::SquaredError),
        ("absolute-error", Self::AbsoluteError),
    ];

    fn parse(name: &str) -> Result<Self> {
        let known = || Self::ALL.map(|(name, _)| name).join(", ");
        let found = Self::ALL.into_iter().find(|(known, _)| *known == name);
        found.map(|(_, of)| of).ok_or_else(|| {
            Error::Argument(format!("attribute `of` is {name:?}, but must be one of {}", known()))
        })
    }

    fn targets(self) -> TargetKind {
        if self == Self::CrossEntropy { TargetKind::Classes } else { TargetKind::Values }
    }

    /// The loss of a score with a known value, and its derivative by the score.
    fn value<R: Real>(self, z: R, t: R) -> (R, R) {
        let one = R::from_f32(1.0);
        let off = z - t;
        match self {
            Self::SquaredError => (off * off, off + off),
            Self::AbsoluteError if off > R::ZERO => (off, one),
            Self::AbsoluteError if off < R::ZERO => (R::ZERO - off, R::ZERO - one),
            Self::AbsoluteError => (off, R::ZERO),
            Self::CrossEntropy | Self::BinaryCrossEntropy => {
                let positive = z.max(R::ZERO);
                let small = (z - positive - positive).exp();
                let likely = if z > R::ZERO { one } else { small } / (one + small);
                (positive - z * t + (one + small).ln(), likely - t)
            }
        }
    }
}

/// The configured layer.
#[derive(Debug)]
pub struct Head {
    columns: u32,
    bias: bool,
    of: Of,
    /// The exponent gamma of the focal loss; 0: none.
    focal: f32,
}

/// What the rows of an interval are compared with.
enum Known<'a> {
    Classes(Vec<u32>),
    Values(&'a Matrix),
}

impl Head {
    fn known<'a>(&self, task: &Task, io: &LastLayer<'a>) -> Result<Known<'a>> {
        let wrong = |expected: Vec<u32>, found: Vec<u32>| {
            let (operation, operand) = ("head".to_owned(), "targets".to_owned());
            Err(Error::Shape { operation, operand, expected, found })
        };
        match (io.targets, self.of.targets()) {
            (Targets::Classes(ids), TargetKind::Classes) => match ids.len() {
                found if found == task.rows => Ok(Known::Classes(ids.read(0, found)?)),
                found => wrong(vec![task.rows], vec![found]),
            },
            (Targets::Values(values), TargetKind::Values) => {
                let (expected, found) = (vec![task.rows, self.columns], values.shape());
                if found == expected { Ok(Known::Values(values)) } else { wrong(expected, found) }
            }
            (_, wanted) => {
                let wanted = if wanted == TargetKind::Classes { "classes" } else { "values" };
                Err(Error::Argument(format!("targets are of another kind: {wanted} are compared")))
            }
        }
    }

    /// The losses of rows `from..` that are marked, each at its place in a tile that begins with `start`.
    fn tile<R: Real>(&self, tile: &mut Tile<'_, R>, known: &Known<'_>, x: &Matrix) -> Result<()> {
        let [Some(&from), Some(&last)] = [tile.rows.first(), tile.rows.last()] else { return Ok(()) };
        let c = self.columns as usize;
        // Rows from the first that counts to the last, in one copy.
        let count = last - from + 1;
        let scores: Vec<R> = x.read_rows(from, count)?;
        let values: Vec<f32> = match known {
            Known::Classes(_) => Vec::new(),
            Known::Values(matrix) => matrix.read_rows(from, count)?,
        };
        for &row in tile.rows {
            let at = (row - from) as usize * c;
            let to = (row - tile.start) as usize;
            let (scores, grad) = (&scores[at..at + c], &mut tile.grad[to * c..(to + 1) * c]);
            let weight = tile.weights.as_ref().map_or(tile.weight, |each| tile.weight * each[to]);
            tile.losses[to] = match known {
                Known::Classes(classes) => {
                    let class = classes[row as usize] as usize;
                    if class >= c {
                        return Err(Error::Argument(format!(
                            "row {row} has label {class}; there are {c} classes"
                        )));
                    }
                    if self.focal > 0.0 {
                        let gamma = R::from_f32(self.focal);
                        focal::of_class(scores, tile.bias, class, weight, gamma, grad)
                    } else {
                        of_class(scores, tile.bias, class, weight, grad)
                    }
                }
                Known::Values(_) => {
                    let mut sum = R::ZERO;
                    let both = scores.iter().zip(tile.bias).zip(&values[at..at + c]).zip(grad);
                    for (((&x, &b), &t), g) in both.filter(|(((_, _), t), _)| !t.is_nan()) {
                        let (loss, slope) = self.of.value(x + b, R::from_f32(t));
                        sum += loss;
                        *g = weight * slope;
                    }
                    weight * sum
                }
            };
        }
        Ok(())
    }
}

/// Rows that are computed together, and where their losses and gradients go.
struct Tile<'a, R> {
    start: u32,
    /// Those that count.
    rows: &'a [u32],
    bias: &'a [R],
    weight: R,
    /// What each row of the tile counts beside it; none: each 1.
    weights: Option<Vec<R>>,
    losses: &'a mut [R],
    grad: &'a mut [R],
}

impl Kernel for Head {
    fn attributes() -> Vec<AttributeSpec> {
        let of = Value::Text("cross-entropy".to_owned());
        vec![
            AttributeSpec::new("bias", "whether b is added to the scores", Some(Value::Flag(true))),
            AttributeSpec::new(
                "of",
                "what is summed: cross-entropy, binary-cross-entropy, squared-error or absolute-error",
                Some(of),
            ),
            AttributeSpec::new(
                "focal",
                "the exponent of the focal loss, of cross-entropy: 0 (none) or more",
                Some(Value::Number(0.0)),
            ),
        ]
    }

    fn open(inputs: &[Vec<u32>], attributes: &Attributes) -> Result<Self> {
        let [input] = inputs else {
            return Err(Error::Argument(format!("head takes one input, not {}", inputs.len())));
        };
        let [columns] = input[..] else {
            return Err(Error::Shape {
                operation: "head".to_owned(),
                operand: "one row of x".to_owned(),
                expected: vec![0],
                found: input.clone(),
            });
        };
        let (of, focal) = (Of::parse(attributes.text("of")?)?, attributes.number("focal")? as f32);
        if !(0.0..f32::INFINITY).contains(&focal) {
            return Err(Error::Argument(format!(
                "attribute `focal` is {focal}, but must be a number from 0, within f32"
            )));
        }
        if focal > 0.0 && of != Of::CrossEntropy {
            return Err(Error::Argument(format!(
                "attribute `focal` is {focal}, but only cross-entropy has a focal form"
            )));
        }
        Ok(Self { columns, bias: attributes.flag("bias")?, of, focal })
    }

    fn signature(&self) -> Signature {
        let row = [self.columns];
        let s = Signature::new().input("x", &row).output("scores", &row).with_loss(self.of.targets());
        if self.bias { s.parameter("bias", &row, Initialiser::Zeros) } else { s }
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
        let c = self.columns as usize;
        let known = self.known(task, &io)?;
        let counting = io.rows.read(0, io.rows.len())?;
        check_rows(task, &counting)?;
        let bias: Vec<R> = match io.parameters.first() {
            Some(b) => b.read_rows(0, b.row_count())?,
            None => vec![R::ZERO; c],
        };
        let losses = Out::create(&[task.rows, 1])?;
        // Where nobody wants the gradient of the input, its column sums may still be wanted.
        let own = match io.input_gradients[0] {
            None => Some(Out::create(&[task.rows, self.columns])?),
            Some(_) => None,
        };
        let grad = io.input_gradients[0].or(own.as_ref());
        let Some(grad) = grad else { return Err(Error::Kernel("no place for the gradient".to_owned())) };
        let bias_sums = match io.parameter_gradients.first() {
            Some(_) => Some(Out::create(&[task.rows, self.columns])?),
            None => None,
        };
        let weight = R::from_f32(io.weight);
        let row_weights = given::row_weights()?;
        if let Some(found) = row_weights.as_ref().map(Matrix::shape).filter(|found| *found != [task.rows, 1])
        {
            let (operation, operand) = ("head".to_owned(), "row weights".to_owned());
            return Err(Error::Shape { operation, operand, expected: vec![task.rows, 1], found });
        }
        let mut next = 0;
        let mut start = 0;
        while start < task.rows {
            let count = TILE_ROWS.min(task.rows - start);
            let mut tile_grad = vec![R::ZERO; count as usize * c];
            let mut tile_losses = vec![R::ZERO; count as usize];
            let first = next;
            while next < counting.len() && counting[next] < start + count {
                next += 1;
            }
            let (rows, bias) = (&counting[first..next], &bias[..]);
            let weights = row_weights.as_ref().map(|all| all.read_rows(start, count)).transpose()?;
            let (losses_to, grad_to) = (&mut tile_losses[..], &mut tile_grad[..]);
            let mut tile = Tile { start, rows, bias, weight, weights, losses: losses_to, grad: grad_to };
            self.tile(&mut tile, &known, io.inputs[0])?;
            losses.write_rows(start, &tile_losses)?;
            grad.write_rows(start, &tile_grad)?;
            if let Some(sums) = &bias_sums {
                sums.write_rows(start, &tile_grad)?;
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

/// The rows that count ascend and exist.
fn check_rows(task: &Task, counting: &[u32]) -> Result<()> {
    let ascending = counting.windows(2).all(|pair| pair[0] < pair[1]);
    match counting.last() {
        Some(&last) if last >= task.rows => {
            Err(Error::Argument(format!("row {last} is labelled; there are {} rows", task.rows)))
        }
        _ if !ascending => Err(Error::Argument("the labelled rows must ascend".to_owned())),
        _ => Ok(()),
    }
}

/// The cross-entropy of one row; `grad` receives weight * (softmax(x + bias) - onehot(class)).
fn of_class<R: Real>(x: &[R], bias: &[R], class: usize, weight: R, grad: &mut [R]) -> R {
    let mut largest = x[0] + bias[0];
    for ((g, &x), &b) in grad.iter_mut().zip(x).zip(bias) {
        *g = x + b;
        largest = largest.max(*g);
    }
    let score = grad[class];
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
    grad[class] = grad[class] - weight;
    weight * (largest + sum.ln() - score)
}

eciton_sdk::export_kernel!(Head);

//! A kernel's gradients against central differences in f64, and what else the contract asks of it.
//!
//! With random G, the numbers of the objective L = sum(G * outputs) at x + h and x - h give
//! dL/dx to about 1e-9; `backward` must give the same, and `loss` likewise for the loss itself.
//! [`gradients`] runs on the f64 [`crate::reference`], so that a difference is the kernel's.

use crate::native::with_host;
use crate::reference::{Context, Reference};
use crate::signature::RowsSpec;
use crate::types::{Error, Result};
use crate::{Attributes, Backward, Forward, Kernel, LastLayer, Matrix, Out, Real, Signature, Value};

/// The step of a difference, relative to the value or to 1.
const STEP: f64 = 1e-6;
/// How far from a kink a point must be: a hundred steps.
const KINK: f64 = 1e-4;
/// Points that are drawn before the check gives up finding one away from all kinks.
const DRAWS_MAX: u64 = 1000;
/// Values of inputs and parameters that a check takes; each costs two runs.
const VALUES_MAX: u64 = 1 << 14;
/// How much, relative by norm, a run in f32 may differ.
const LOOSE: f64 = 1e-3;
/// How much, relative by norm, sums in another order may differ.
const TIGHT: f64 = 1e-12;
/// A gradient smaller than this a value is compared as if it were so large.
const SMALL: f64 = 1e-3;

/// How well a kernel's gradients agree with differences.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Report {
    /// The largest |analytic - numeric| / max(|analytic|, |numeric|) of all tensors, by Euclidean norm.
    pub worst: f64,
    /// Where it is, for instance ``parameter `weight` ``.
    pub worst_name: String,
    /// Values whose derivative was compared.
    pub checked: usize,
    /// The largest such difference between a run in f32 and one in f64.
    pub worst_f32: f64,
}

/// Checks kernel `K`, configured for `inputs` (extents of one row of each) and `attributes` (defaults
/// are filled in), at a random point with `rows` rows drawn from `seed`.
///
/// Points within 1e-4 of a kink of an activation or a maximum are drawn again. Dropout is on, with the
/// same mask in every run. Besides gradients it checks that
///
/// * every row of every output, kept block and gradient is written, while training and otherwise;
/// * a second run gives the same bits;
/// * parameters get the same gradients where no input gradient is wanted;
/// * rows cut into two intervals give the same results, and gradients that add up;
/// * a run in f32 agrees to 1e-3.
///
/// Errors: what the kernel answers; [`Error::Argument`] for attributes it does not have or lacks;
/// [`Error::Limit`] above 16384 values; [`Error::Kernel`] for a broken promise of the list above. A
/// wrong gradient is no error but the report's figure.
pub fn gradients<K: Kernel>(
    inputs: &[Vec<u32>],
    attributes: &[(&str, Value)],
    rows: u32,
    seed: u64,
) -> Result<Report> {
    let attributes = with_defaults(K::attributes(), attributes)?;
    let idle = Reference::new(Context::default());
    let kernel = with_host(Box::new(idle), || K::open(inputs, &attributes))?;
    let signature = kernel.signature();
    let given: Vec<&Vec<u32>> = signature.inputs.iter().map(|i| &i.extents).collect();
    if given != inputs.iter().collect::<Vec<_>>() {
        return Err(broken(format!("the signature has inputs {given:?}, but it was opened for {inputs:?}")));
    }
    let context = Context { seed, epoch: 3, layer: 1, training: true, first_row: 5, rows };
    let subject = Subject { kernel, signature, context };
    let point = subject.point()?;
    let mut report = Report { worst: 0.0, worst_name: String::new(), checked: 0, worst_f32: 0.0 };

    let passed = subject.forward::<f64>(&point)?;
    let gradients = subject.backward::<f64>(&point, &passed, true)?;
    subject.compare(
        &point,
        &gradients,
        "",
        &mut report,
        |at| Ok(subject.forward::<f64>(at)?.outputs),
        &point.up,
    )?;
    subject.promises(&point, &passed, &gradients)?;
    let single = subject.forward::<f32>(&point)?;
    agree("outputs in f32", &passed.outputs, &single.outputs, LOOSE, &mut report.worst_f32)?;
    let single = subject.backward::<f32>(&point, &single, true)?;
    agree("gradients in f32", &gradients, &single, LOOSE, &mut report.worst_f32)?;

    if subject.signature.has_loss {
        let (loss, gradients) = subject.loss::<f64>(&point, true)?;
        let one = [Tensor::new("loss", vec![1], vec![1.0])];
        let value = |at: &Point| Ok(vec![subject.loss::<f64>(at, true)?.0]);
        subject.compare(&point, &gradients, "loss: ", &mut report, value, &one)?;
        subject.loss_promises(&point, &loss, &gradients)?;
        let (single, single_gradients) = subject.loss::<f32>(&point, true)?;
        agree("loss in f32", &[loss], &[single], LOOSE, &mut report.worst_f32)?;
        agree("gradients of the loss in f32", &gradients, &single_gradients, LOOSE, &mut report.worst_f32)?;
    }
    Ok(report)
}

/// The attributes given, and the defaults of the others, as a host fills them in.
fn with_defaults(specs: Vec<crate::AttributeSpec>, given: &[(&str, Value)]) -> Result<Attributes> {
    if let Some((name, _)) = given.iter().find(|(name, _)| specs.iter().all(|s| s.name != *name)) {
        let known: Vec<&str> = specs.iter().map(|s| s.name).collect();
        return Err(Error::Argument(format!(
            "attribute `{name}` is unknown; known are {}",
            known.join(", ")
        )));
    }
    let mut all = Vec::new();
    for spec in specs {
        let given = given.iter().find(|(name, _)| *name == spec.name).map(|(_, value)| value.clone());
        let value = match (given, &spec.default) {
            (Some(Value::Integer(v)), Some(Value::Number(_))) => Value::Number(v as f64),
            (Some(value), _) => value,
            (None, Some(default)) => default.clone(),
            (None, None) => return Err(Error::Argument(format!("attribute `{}` must be given", spec.name))),
        };
        all.push((spec.name.to_owned(), value));
    }
    Ok(Attributes::new(all))
}

fn broken(text: String) -> Error {
    Error::Kernel(format!("check: {text}"))
}

/// Named values, row-major.
#[derive(Debug, Clone, PartialEq)]
struct Tensor {
    name: String,
    shape: Vec<u32>,
    values: Vec<f64>,
}

impl Tensor {
    fn new(name: &str, shape: Vec<u32>, values: Vec<f64>) -> Self {
        Self { name: name.to_owned(), shape, values }
    }

    fn rows(&self, start: u32, count: u32) -> Self {
        let mut shape = self.shape.clone();
        shape[0] = count;
        let columns = shape[1..].iter().map(|&e| e as usize).product::<usize>();
        let values = self.values[start as usize * columns..(start + count) as usize * columns].to_vec();
        Self { name: self.name.clone(), shape, values }
    }
}

fn sliced(tensors: &[Tensor], start: u32, count: u32) -> Vec<Tensor> {
    tensors.iter().map(|t| t.rows(start, count)).collect()
}

/// |a - b| / max(|a|, |b|) by Euclidean norm; infinite where there is a NaN or an infinity.
fn difference(a: &[f64], b: &[f64]) -> f64 {
    let norm = |v: &mut dyn Iterator<Item = f64>| v.map(|v| v * v).sum::<f64>().sqrt();
    let apart = norm(&mut a.iter().zip(b).map(|(a, b)| a - b));
    let small = SMALL * (a.len() as f64).sqrt();
    let size = norm(&mut a.iter().copied()).max(norm(&mut b.iter().copied())).max(small);
    let relative = if a.is_empty() { 0.0 } else { apart / size };
    if relative.is_finite() && a.len() == b.len() { relative } else { f64::INFINITY }
}

fn agree(what: &str, a: &[Tensor], b: &[Tensor], allowed: f64, worst: &mut f64) -> Result<()> {
    for (a, b) in a.iter().zip(b) {
        let found = difference(&a.values, &b.values);
        *worst = worst.max(found);
        if found > allowed {
            return Err(broken(format!("{what}: {} differs by {found:e}, allowed are {allowed:e}", a.name)));
        }
    }
    Ok(())
}

/// Where derivatives are taken.
#[derive(Debug, Clone)]
struct Point {
    context: Context,
    inputs: Vec<Tensor>,
    parameters: Vec<Tensor>,
    /// Gradients of the outputs.
    up: Vec<Tensor>,
    labels: Vec<u32>,
    /// Rows with a label.
    labelled: Vec<u32>,
    weight: f32,
}

impl Point {
    fn rows(&self, start: u32, count: u32) -> Self {
        let span = start..start + count;
        let first_row = self.context.first_row + u64::from(start);
        Self {
            context: Context { first_row, rows: count, ..self.context },
            inputs: sliced(&self.inputs, start, count),
            parameters: self.parameters.clone(),
            up: sliced(&self.up, start, count),
            labels: self.labels[start as usize..(start + count) as usize].to_vec(),
            labelled: self.labelled.iter().filter(|i| span.contains(i)).map(|i| i - start).collect(),
            weight: self.weight,
        }
    }

    fn value(&mut self, tensor: usize, at: usize) -> &mut f64 {
        let inputs = self.inputs.len();
        let tensor =
            if tensor < inputs { &mut self.inputs[tensor] } else { &mut self.parameters[tensor - inputs] };
        &mut tensor.values[at]
    }
}

/// SplitMix64.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: u32) -> u32 {
        (self.next() % u64::from(limit.max(1))) as u32
    }

    /// In (-1, 1), an f32 exactly, and away from zero, where most functions have their kink.
    fn value(&mut self) -> f64 {
        let v = (self.next() >> 40) as f64 / f64::from(1u32 << 23) - 1.0;
        if v.abs() < KINK { v + 0.0625 } else { v }
    }

    fn tensor(&mut self, name: String, shape: Vec<u32>) -> Tensor {
        let count = shape.iter().map(|&e| e as usize).product();
        Tensor { name, shape, values: (0..count).map(|_| self.value()).collect() }
    }
}

/// What `forward` wrote.
struct Passed {
    outputs: Vec<Tensor>,
    kept: Vec<Tensor>,
    nearest_kink: f64,
}

/// A kernel under check.
struct Subject<K> {
    kernel: K,
    signature: Signature,
    context: Context,
}

fn matrices(host: &Reference, tensors: &[Tensor]) -> Result<Vec<Matrix>> {
    tensors.iter().map(|t| host.matrix(&t.shape, &t.values)).collect()
}

fn refs<T>(values: &[T]) -> Vec<&T> {
    values.iter().collect()
}

/// What is in `outs`, all of which must have been written.
fn collect<'a>(
    host: &Reference,
    by: &str,
    outs: &[Out],
    names: impl Iterator<Item = &'a String>,
) -> Result<Vec<Tensor>> {
    let mut tensors = Vec::new();
    for (out, name) in outs.iter().zip(names) {
        if let Some(row) = host.unwritten(out)?.first() {
            return Err(broken(format!("{by} left row {row} of `{name}` unwritten")));
        }
        tensors.push(Tensor::new(name, host.shape_of(out), host.values(out)?));
    }
    Ok(tensors)
}

impl<K: Kernel> Subject<K> {
    fn shape(&self, spec: &RowsSpec) -> Vec<u32> {
        [&[self.context.rows], &spec.extents[..]].concat()
    }

    /// A random point away from the kinks that the reference sees.
    fn point(&self) -> Result<Point> {
        let shapes = self.signature.inputs.iter().map(|i| self.shape(i));
        let shapes = shapes.chain(self.signature.parameters.iter().map(|p| p.shape.clone()));
        let count = |shape: Vec<u32>| shape.iter().fold(1u64, |n, &e| n.saturating_mul(u64::from(e)));
        let asked = shapes.map(count).fold(0, u64::saturating_add);
        if asked > VALUES_MAX {
            let (limit, unit) = ("check-values".to_owned(), "values".to_owned());
            return Err(Error::Limit { limit, unit, allowed: VALUES_MAX, asked });
        }
        for draw in 0..DRAWS_MAX {
            let point = self.drawn(draw);
            let mut nearest = self.forward::<f64>(&point)?.nearest_kink;
            if self.signature.has_loss {
                nearest = nearest.min(self.loss_and_kink::<f64>(&point, true)?.2);
            }
            if nearest >= KINK {
                return Ok(point);
            }
        }
        Err(broken(format!("{DRAWS_MAX} points were drawn, all within {KINK} of a kink; take fewer rows")))
    }

    fn drawn(&self, draw: u64) -> Point {
        let rows = self.context.rows;
        let mut numbers = Numbers(self.context.seed.wrapping_mul(DRAWS_MAX).wrapping_add(draw));
        let s = &self.signature;
        let inputs = s.inputs.iter().map(|i| numbers.tensor(i.name.clone(), self.shape(i))).collect();
        let parameters =
            s.parameters.iter().map(|p| numbers.tensor(p.name.clone(), p.shape.clone())).collect();
        let up = s.outputs.iter().map(|o| numbers.tensor(o.name.clone(), self.shape(o))).collect();
        let classes = s.outputs.first().map_or(1, |o| o.extents.iter().product());
        let labels = (0..rows).map(|_| numbers.below(classes)).collect();
        let always = numbers.below(rows);
        let labelled: Vec<u32> = (0..rows).filter(|&i| i == always || numbers.below(2) == 0).collect();
        let weight = 1.0 / labelled.len().max(1) as f32;
        Point { context: self.context, inputs, parameters, up, labels, labelled, weight }
    }

    fn forward<R: Real>(&self, point: &Point) -> Result<Passed> {
        let host = Reference::new(point.context);
        let (inputs, parameters) = (matrices(&host, &point.inputs)?, matrices(&host, &point.parameters)?);
        let rows = point.context.rows;
        let places = |specs: &[RowsSpec]| {
            specs
                .iter()
                .map(|s| host.output(&[&[rows], &s.extents[..]].concat()))
                .collect::<Result<Vec<Out>>>()
        };
        let (outputs, kept) = (places(&self.signature.outputs)?, places(&self.signature.kept)?);
        let io = Forward {
            inputs: &refs(&inputs),
            parameters: &refs(&parameters),
            outputs: &refs(&outputs),
            kept: &refs(&kept),
        };
        host.run(|| self.kernel.forward::<R>(&point.context.task(), io))?;
        Ok(Passed {
            outputs: collect(&host, "forward", &outputs, self.signature.outputs.iter().map(|o| &o.name))?,
            kept: collect(&host, "forward", &kept, self.signature.kept.iter().map(|o| &o.name))?,
            nearest_kink: host.nearest_kink(),
        })
    }

    /// Gradients of inputs (where `wanted`), then of parameters.
    fn backward<R: Real>(&self, point: &Point, passed: &Passed, wanted: bool) -> Result<Vec<Tensor>> {
        let host = Reference::new(point.context);
        let s = &self.signature;
        let inputs = if s.needs_inputs { matrices(&host, &point.inputs)? } else { vec![] };
        let outputs = if s.needs_outputs { matrices(&host, &passed.outputs)? } else { vec![] };
        let (kept, up) = (matrices(&host, &passed.kept)?, matrices(&host, &point.up)?);
        let parameters = matrices(&host, &point.parameters)?;
        let places = Places::new(&host, point, wanted)?;
        let io = Backward {
            inputs: &refs(&inputs),
            outputs: &refs(&outputs),
            kept: &refs(&kept),
            parameters: &refs(&parameters),
            gradients: &refs(&up),
            input_gradients: &places.inputs(point),
            parameter_gradients: &refs(&places.parameters),
        };
        host.run(|| self.kernel.backward::<R>(&point.context.task(), io))?;
        places.collect(&host, "backward", point)
    }

    fn loss<R: Real>(&self, point: &Point, wanted: bool) -> Result<(Tensor, Vec<Tensor>)> {
        self.loss_and_kink::<R>(point, wanted).map(|(loss, gradients, _)| (loss, gradients))
    }

    fn loss_and_kink<R: Real>(&self, point: &Point, wanted: bool) -> Result<(Tensor, Vec<Tensor>, f64)> {
        let host = Reference::new(point.context);
        let (inputs, parameters) = (matrices(&host, &point.inputs)?, matrices(&host, &point.parameters)?);
        let (labels, rows) = (host.ids(&point.labels)?, host.ids(&point.labelled)?);
        let loss = host.gradient(&[1])?;
        let places = Places::new(&host, point, wanted)?;
        let io = LastLayer {
            inputs: &refs(&inputs),
            parameters: &refs(&parameters),
            labels: &labels,
            rows: &rows,
            weight: point.weight,
            loss: &loss,
            input_gradients: &places.inputs(point),
            parameter_gradients: &refs(&places.parameters),
        };
        host.run(|| self.kernel.loss::<R>(&point.context.task(), io))?;
        let gradients = places.collect(&host, "loss", point)?;
        let value = collect(&host, "loss", &[loss], [&"loss".to_owned()].into_iter())?.swap_remove(0);
        Ok((value, gradients, host.nearest_kink()))
    }

    /// Compares `gradients` with differences of sum(up * value).
    fn compare(
        &self,
        point: &Point,
        gradients: &[Tensor],
        prefix: &str,
        report: &mut Report,
        value: impl Fn(&Point) -> Result<Vec<Tensor>>,
        up: &[Tensor],
    ) -> Result<()> {
        let mut moved = point.clone();
        for (tensor, analytic) in gradients.iter().enumerate() {
            let mut numeric = Vec::with_capacity(analytic.values.len());
            for at in 0..analytic.values.len() {
                let here = *moved.value(tensor, at);
                let step = STEP * here.abs().max(1.0);
                let (above, below) = (here + step, here - step);
                *moved.value(tensor, at) = above;
                let high = value(&moved)?;
                *moved.value(tensor, at) = below;
                let low = value(&moved)?;
                *moved.value(tensor, at) = here;
                let mut slope = 0.0;
                for ((high, low), up) in high.iter().zip(&low).zip(up) {
                    for ((high, low), up) in high.values.iter().zip(&low.values).zip(&up.values) {
                        slope += up * (high - low);
                    }
                }
                numeric.push(slope / (above - below));
            }
            let kind = if tensor < point.inputs.len() { "input" } else { "parameter" };
            let found = difference(&analytic.values, &numeric);
            report.checked += numeric.len();
            if found > report.worst || report.worst_name.is_empty() {
                report.worst = found;
                report.worst_name = format!("{prefix}{kind} `{}`", analytic.name);
            }
        }
        Ok(())
    }

    /// What a kernel promises besides right gradients.
    fn promises(&self, point: &Point, passed: &Passed, gradients: &[Tensor]) -> Result<()> {
        let again = self.forward::<f64>(point)?;
        if (&again.outputs, &again.kept) != (&passed.outputs, &passed.kept) {
            return Err(broken("a second forward gave other values".to_owned()));
        }
        let parameters = &gradients[point.inputs.len()..];
        if self.backward::<f64>(point, passed, false)? != parameters {
            return Err(broken(
                "backward gives parameters other gradients where no input's is wanted".to_owned(),
            ));
        }
        let mut quiet = point.clone();
        quiet.context.training = false;
        self.forward::<f64>(&quiet)?;

        let mut sums: Option<Vec<Tensor>> = None;
        for (start, count) in halves(self.context.rows) {
            let part = point.rows(start, count);
            let part_passed = self.forward::<f64>(&part)?;
            let found = self.backward::<f64>(&part, &part_passed, true)?;
            let whole = sliced(&passed.outputs, start, count);
            agree("rows cut into two intervals: outputs", &whole, &part_passed.outputs, TIGHT, &mut 0.0)?;
            self.add_up(point, (start, count), gradients, found, &mut sums)?;
        }
        agree(
            "rows cut into two intervals: gradients",
            parameters,
            &sums.unwrap_or_default(),
            TIGHT,
            &mut 0.0,
        )
    }

    fn loss_promises(&self, point: &Point, loss: &Tensor, gradients: &[Tensor]) -> Result<()> {
        let parameters = &gradients[point.inputs.len()..];
        let (value, unwanted) = self.loss::<f64>(point, false)?;
        if value != *loss || unwanted != parameters {
            return Err(broken("loss gives other values where no input's gradient is wanted".to_owned()));
        }
        let (mut sums, mut total): (Option<Vec<Tensor>>, f64) = (None, 0.0);
        for (start, count) in halves(self.context.rows) {
            let part = point.rows(start, count);
            let (value, found) = self.loss::<f64>(&part, true)?;
            total += value.values[0];
            self.add_up(point, (start, count), gradients, found, &mut sums)?;
        }
        let total = Tensor::new("loss", vec![1], vec![total]);
        agree("rows cut into two intervals", std::slice::from_ref(loss), &[total], TIGHT, &mut 0.0)?;
        agree(
            "rows cut into two intervals: gradients",
            parameters,
            &sums.unwrap_or_default(),
            TIGHT,
            &mut 0.0,
        )
    }

    /// Compares an interval's input gradients with those of the whole and adds its parameter gradients.
    fn add_up(
        &self,
        point: &Point,
        (start, count): (u32, u32),
        whole: &[Tensor],
        mut found: Vec<Tensor>,
        sums: &mut Option<Vec<Tensor>>,
    ) -> Result<()> {
        let parameters = found.split_off(point.inputs.len());
        let whole = sliced(&whole[..point.inputs.len()], start, count);
        agree("rows cut into two intervals: input gradients", &whole, &found, TIGHT, &mut 0.0)?;
        match sums {
            None => *sums = Some(parameters),
            Some(sums) => {
                for (sum, part) in sums.iter_mut().zip(&parameters) {
                    sum.values.iter_mut().zip(&part.values).for_each(|(sum, part)| *sum += part);
                }
            }
        }
        Ok(())
    }
}

/// Two intervals that make up `rows`: (first row, rows).
fn halves(rows: u32) -> [(u32, u32); 2] {
    [(0, rows / 2), (rows / 2, rows - rows / 2)]
}

/// Where gradients go.
struct Places {
    inputs: Vec<Out>,
    parameters: Vec<Out>,
}

impl Places {
    fn new(host: &Reference, point: &Point, wanted: bool) -> Result<Self> {
        let inputs = if wanted { &point.inputs[..] } else { &[] };
        Ok(Self {
            inputs: inputs.iter().map(|t| host.output(&t.shape)).collect::<Result<_>>()?,
            parameters: point.parameters.iter().map(|t| host.gradient(&t.shape)).collect::<Result<_>>()?,
        })
    }

    fn inputs(&self, point: &Point) -> Vec<Option<&Out>> {
        (0..point.inputs.len()).map(|i| self.inputs.get(i)).collect()
    }

    fn collect(&self, host: &Reference, by: &str, point: &Point) -> Result<Vec<Tensor>> {
        let mut all = collect(host, by, &self.inputs, point.inputs.iter().map(|t| &t.name))?;
        all.extend(collect(host, by, &self.parameters, point.parameters.iter().map(|t| &t.name))?);
        Ok(all)
    }
}

#[cfg(test)]
mod tests;

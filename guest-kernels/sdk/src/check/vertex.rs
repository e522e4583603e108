//! The check of a vertex kernel.

use std::cell::Cell;

use super::points::{Numbers, Point, Tensor, agree, collect, compare, matrices, refs, sliced};
use super::{DRAWS_MAX, KINK, LOOSE, Report, TIGHT, broken, few_values, halves, with_defaults};
use crate::native::with_host;
use crate::reference::{Context, Reference};
use crate::signature::RowsSpec;
use crate::types::{Error, Result};
use crate::{Backward, Forward, Kernel, LastLayer, Out, Real, Signature, TargetKind, Targets, Value};

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
/// * a run in f32 agrees to 1e-3;
/// * a loss that asks what its rows count ([`crate::given::row_weights`]) multiplies by it.
///
/// Of a kernel with an attribute `group`, `rows` are a multiple of it, and are cut into intervals at such. An input that
/// the signature calls `ids` gets whole numbers below attribute `entries`, and its gradient is not compared.
///
/// Errors: what the kernel answers; [`Error::Argument`] for attributes it does not have or lacks, and for rows that
/// are no whole groups;
/// [`Error::Limit`] above 16384 values; [`Error::Kernel`] for a broken promise of the list above. A
/// wrong gradient is no error but the report's figure.
pub fn gradients<K: Kernel>(
    inputs: &[Vec<u32>],
    attributes: &[(&str, Value)],
    rows: u32,
    seed: u64,
) -> Result<Report> {
    let specs = K::attributes();
    let has = |name: &str| specs.iter().any(|spec| spec.name == name);
    let attributes = with_defaults(specs.clone(), attributes)?;
    let idle = Reference::idle();
    let kernel = with_host(Box::new(idle), || K::open(inputs, &attributes))?;
    let signature = kernel.signature();
    let given: Vec<&Vec<u32>> = signature.inputs.iter().map(|i| &i.extents).collect();
    if given != inputs.iter().collect::<Vec<_>>() {
        return Err(broken(format!("the signature has inputs {given:?}, but it was opened for {inputs:?}")));
    }
    let context = Context { seed, epoch: 3, layer: 1, training: true, first_row: 5, rows };
    let group = if has("group") { attributes.size("group")? } else { 1 };
    let entries = if has("entries") { attributes.size("entries")? } else { 1 };
    if rows % group != 0 {
        return Err(Error::Argument(format!("check: {rows} rows are no whole groups of {group}")));
    }
    let subject = Subject { kernel, signature, context, group, entries, asked: Cell::new(false) };
    let point = subject.point()?;
    let mut report = Report { worst: 0.0, worst_name: String::new(), checked: 0, worst_f32: 0.0 };

    let passed = subject.forward::<f64>(&point)?;
    let gradients = subject.backward::<f64>(&point, &passed, true)?;
    compare(&point, &gradients, "", &mut report, |at| Ok(subject.forward::<f64>(at)?.outputs), &point.up)?;
    subject.promises(&point, &passed, &gradients)?;
    let single = subject.forward::<f32>(&point)?;
    agree("outputs in f32", &passed.outputs, &single.outputs, LOOSE, &mut report.worst_f32)?;
    let single = subject.backward::<f32>(&point, &single, true)?;
    agree("gradients in f32", &gradients, &single, LOOSE, &mut report.worst_f32)?;

    if subject.signature.loss.is_some() {
        subject.check_loss(&point, "loss: ", &mut report)?;
        if subject.asked.get() {
            subject.check_loss(&subject.weighed(&point)?, "loss of weighed rows: ", &mut report)?;
        }
    }
    Ok(report)
}

/// Where derivatives are taken.
#[derive(Debug, Clone)]
struct VertexPoint {
    context: Context,
    inputs: Vec<Tensor>,
    parameters: Vec<Tensor>,
    /// Gradients of the outputs.
    up: Vec<Tensor>,
    /// Of `loss`: classes, and values with some unknown.
    classes: Vec<u32>,
    values: Tensor,
    /// Rows that count.
    labelled: Vec<u32>,
    weight: f32,
    /// What each row counts beside it, `[rows, 1]`; none: each 1.
    row_weights: Option<Tensor>,
}

impl VertexPoint {
    fn rows(&self, start: u32, count: u32) -> Self {
        let span = start..start + count;
        let first_row = self.context.first_row + u64::from(start);
        Self {
            context: Context { first_row, rows: count, ..self.context },
            inputs: sliced(&self.inputs, start, count),
            parameters: self.parameters.clone(),
            up: sliced(&self.up, start, count),
            classes: self.classes[start as usize..(start + count) as usize].to_vec(),
            values: sliced(std::slice::from_ref(&self.values), start, count).swap_remove(0),
            labelled: self.labelled.iter().filter(|i| span.contains(i)).map(|i| i - start).collect(),
            weight: self.weight,
            row_weights: self.row_weights.as_ref().map(|all| all.rows(start, count)),
        }
    }
}

/// The name of an input of whole numbers.
const IDS: &str = "ids";

impl Point for VertexPoint {
    fn is_fixed(&self, tensor: usize) -> bool {
        self.inputs.get(tensor).is_some_and(|input| input.name == IDS)
    }

    fn kind(&self, tensor: usize) -> &'static str {
        if tensor < self.inputs.len() { "input" } else { "parameter" }
    }

    fn value(&mut self, tensor: usize, at: usize) -> &mut f64 {
        let inputs = self.inputs.len();
        let tensor =
            if tensor < inputs { &mut self.inputs[tensor] } else { &mut self.parameters[tensor - inputs] };
        &mut tensor.values[at]
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
    /// Rows of a group.
    group: u32,
    /// Number that ids stay below.
    entries: u32,
    /// Whether the last `loss` asked for its rows' weights.
    asked: Cell<bool>,
}

impl<K: Kernel> Subject<K> {
    fn shape(&self, spec: &RowsSpec) -> Vec<u32> {
        [&[self.context.rows], &spec.extents[..]].concat()
    }

    /// A random point away from the kinks that the reference sees.
    fn point(&self) -> Result<VertexPoint> {
        let shapes = self.signature.inputs.iter().map(|i| self.shape(i));
        let shapes = shapes.chain(self.signature.parameters.iter().map(|p| p.shape.clone()));
        few_values(shapes)?;
        for draw in 0..DRAWS_MAX {
            let point = self.drawn(draw);
            let mut nearest = self.forward::<f64>(&point)?.nearest_kink;
            if self.signature.loss.is_some() {
                nearest = nearest.min(self.loss_and_kink::<f64>(&point, true)?.2);
            }
            if nearest >= KINK {
                return Ok(point);
            }
        }
        Err(broken(format!("{DRAWS_MAX} points were drawn, all within {KINK} of a kink; take fewer rows")))
    }

    fn drawn(&self, draw: u64) -> VertexPoint {
        let rows = self.context.rows;
        let mut numbers = Numbers(self.context.seed.wrapping_mul(DRAWS_MAX).wrapping_add(draw));
        let s = &self.signature;
        let inputs = s.inputs.iter().map(|i| {
            let mut drawn = numbers.tensor(i.name.clone(), self.shape(i));
            if i.name == IDS {
                drawn.values.iter_mut().for_each(|v| *v = f64::from(numbers.below(self.entries)));
            }
            drawn
        });
        let inputs = inputs.collect();
        let parameters =
            s.parameters.iter().map(|p| numbers.tensor(p.name.clone(), p.shape.clone())).collect();
        let up = s.outputs.iter().map(|o| numbers.tensor(o.name.clone(), self.shape(o))).collect();
        let columns = s.outputs.first().map_or(1, |o| o.extents.iter().product());
        let classes = (0..rows).map(|_| numbers.below(columns)).collect();
        // In [0, 1], so that they may be probabilities.
        let value = |at| if at % 5 == 3 { f64::NAN } else { f64::from(numbers.below(17)) / 16.0 };
        let values = (0..rows * columns).map(value).collect();
        let values = Tensor::new("targets", vec![rows, columns], values);
        let always = numbers.below(rows);
        let labelled: Vec<u32> = (0..rows).filter(|&i| i == always || numbers.below(2) == 0).collect();
        let weight = 1.0 / labelled.len().max(1) as f32;
        let (context, row_weights) = (self.context, None);
        VertexPoint { context, inputs, parameters, up, classes, values, labelled, weight, row_weights }
    }

    fn forward<R: Real>(&self, point: &VertexPoint) -> Result<Passed> {
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
    fn backward<R: Real>(&self, point: &VertexPoint, passed: &Passed, wanted: bool) -> Result<Vec<Tensor>> {
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

    fn loss<R: Real>(&self, point: &VertexPoint, wanted: bool) -> Result<(Tensor, Vec<Tensor>)> {
        self.loss_and_kink::<R>(point, wanted).map(|(loss, gradients, _)| (loss, gradients))
    }

    fn loss_and_kink<R: Real>(
        &self,
        point: &VertexPoint,
        wanted: bool,
    ) -> Result<(Tensor, Vec<Tensor>, f64)> {
        let host = Reference::new(point.context);
        if let Some(weights) = &point.row_weights {
            host.weigh_rows(&weights.values)?;
        }
        let (inputs, parameters) = (matrices(&host, &point.inputs)?, matrices(&host, &point.parameters)?);
        let (classes, rows) = (host.ids(&point.classes)?, host.ids(&point.labelled)?);
        let values = host.matrix(&point.values.shape, &point.values.values)?;
        let targets = match self.signature.loss {
            Some(TargetKind::Values) => Targets::Values(&values),
            _ => Targets::Classes(&classes),
        };
        let loss = host.gradient(&[1])?;
        let places = Places::new(&host, point, wanted)?;
        let io = LastLayer {
            inputs: &refs(&inputs),
            parameters: &refs(&parameters),
            targets,
            rows: &rows,
            weight: point.weight,
            loss: &loss,
            input_gradients: &places.inputs(point),
            parameter_gradients: &refs(&places.parameters),
        };
        host.run(|| self.kernel.loss::<R>(&point.context.task(), io))?;
        let gradients = places.collect(&host, "loss", point)?;
        let value = collect(&host, "loss", &[loss], [&"loss".to_owned()].into_iter())?.swap_remove(0);
        self.asked.set(host.asked_row_weights());
        Ok((value, gradients, host.nearest_kink()))
    }

    /// Compares the gradients of `loss` with differences, and holds it to what it promises.
    fn check_loss(&self, point: &VertexPoint, prefix: &str, report: &mut Report) -> Result<()> {
        let (loss, gradients) = self.loss::<f64>(point, true)?;
        let one = [Tensor::new("loss", vec![1], vec![1.0])];
        let value = |at: &VertexPoint| Ok(vec![self.loss::<f64>(at, true)?.0]);
        compare(point, &gradients, prefix, report, value, &one)?;
        self.loss_promises(point, &loss, &gradients)?;
        let (single, single_gradients) = self.loss::<f32>(point, true)?;
        agree("loss in f32", &[loss], &[single], LOOSE, &mut report.worst_f32)?;
        agree("gradients of the loss in f32", &gradients, &single_gradients, LOOSE, &mut report.worst_f32)
    }

    /// A point whose rows count differently, some not at all, after checks of what such weights mean:
    /// of 1 they change nothing, of 2 they double all, and a row of 0 is as one that is not listed.
    fn weighed(&self, point: &VertexPoint) -> Result<VertexPoint> {
        let rows = self.context.rows;
        let weights = |of: &dyn Fn(u32) -> f64| {
            let values = (0..rows).map(of).collect();
            VertexPoint {
                row_weights: Some(Tensor::new("row weights", vec![rows, 1], values)),
                ..point.clone()
            }
        };
        let found = |point: &VertexPoint| -> Result<Vec<Tensor>> {
            let (loss, mut gradients) = self.loss::<f64>(point, true)?;
            gradients.push(loss);
            Ok(gradients)
        };
        let plain = found(point)?;
        let mut twice = plain.clone();
        twice.iter_mut().zip(&plain).for_each(|(sum, tensor)| sum.add(tensor));
        let odd: Vec<u32> = point.labelled.iter().copied().filter(|row| row % 2 == 1).collect();
        let fewer = VertexPoint { labelled: odd, ..point.clone() };
        for (what, at, expected) in [
            ("weights of 1", weights(&|_| 1.0), plain),
            ("weights of 2", weights(&|_| 2.0), twice),
            ("weights of 0 in every other row", weights(&|row| f64::from(row % 2)), found(&fewer)?),
        ] {
            agree(what, &expected, &found(&at)?, TIGHT, &mut 0.0)?;
        }
        Ok(weights(&|row| f64::from(row % 4) / 2.0))
    }

    /// What a kernel promises besides right gradients.
    fn promises(&self, point: &VertexPoint, passed: &Passed, gradients: &[Tensor]) -> Result<()> {
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
        for (start, count) in halves(self.context.rows, self.group) {
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

    fn loss_promises(&self, point: &VertexPoint, loss: &Tensor, gradients: &[Tensor]) -> Result<()> {
        let parameters = &gradients[point.inputs.len()..];
        let (value, unwanted) = self.loss::<f64>(point, false)?;
        if value != *loss || unwanted != parameters {
            return Err(broken("loss gives other values where no input's gradient is wanted".to_owned()));
        }
        let (mut sums, mut total): (Option<Vec<Tensor>>, f64) = (None, 0.0);
        for (start, count) in halves(self.context.rows, self.group) {
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
        point: &VertexPoint,
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
            Some(sums) => sums.iter_mut().zip(&parameters).for_each(|(sum, part)| sum.add(part)),
        }
        Ok(())
    }
}

/// Where gradients go.
struct Places {
    inputs: Vec<Out>,
    parameters: Vec<Out>,
}

impl Places {
    fn new(host: &Reference, point: &VertexPoint, wanted: bool) -> Result<Self> {
        let inputs = if wanted { &point.inputs[..] } else { &[] };
        Ok(Self {
            inputs: inputs.iter().map(|t| host.output(&t.shape)).collect::<Result<_>>()?,
            parameters: point.parameters.iter().map(|t| host.gradient(&t.shape)).collect::<Result<_>>()?,
        })
    }

    fn inputs(&self, point: &VertexPoint) -> Vec<Option<&Out>> {
        (0..point.inputs.len()).map(|i| self.inputs.get(i)).collect()
    }

    fn collect(&self, host: &Reference, by: &str, point: &VertexPoint) -> Result<Vec<Tensor>> {
        let mut all = collect(host, by, &self.inputs, point.inputs.iter().map(|t| &t.name))?;
        all.extend(collect(host, by, &self.parameters, point.parameters.iter().map(|t| &t.name))?);
        Ok(all)
    }
}

#[cfg(test)]
mod tests;

//! The check of an edge kernel.

use super::graph::{Block, Graph};
use super::points::{Numbers, Point, Tensor, agree, collect, compare, matrices, refs};
use super::{DRAWS_MAX, KINK, LOOSE, Report, TIGHT, broken, few_values, halves, with_defaults};
use crate::edge::{BackwardSources, BackwardTargets, EdgeForward, EdgeKernel, EdgeSignature, EdgeTask};
use crate::native::with_host;
use crate::reference::{Context, Reference};
use crate::signature::RowsSpec;
use crate::types::Result;
use crate::{Ids, Matrix, Out, Real, Value};

/// Checks edge kernel `K`, configured for `source` and `target` (extents of one row of each), `features` (columns
/// of what is known of each edge, drawn too; 0 for none) and `attributes` (defaults are filled in), at a random point on a random directed graph of `rows` vertices, drawn from `seed`.
///
/// The graph has a hub with an edge to itself, edges twice, a vertex without edges into it and one without edges
/// out of it. Points within 1e-4 of a kink of an activation or a maximum are drawn again. Dropout is on, with the
/// same mask in every run. Besides gradients of sources, targets and parameters it checks that
///
/// * every row of outputs, kept and passed rows and gradients is written, while training and otherwise;
/// * a second run gives the same bits;
/// * parameters get the same gradients, and sources the same rows, where no target's gradient is wanted;
/// * vertices cut into two blocks give the same results, and gradients that add up;
/// * a run in f32 agrees to 1e-3.
///
/// Errors: as [`super::gradients`].
pub fn edge_gradients<K: EdgeKernel>(
    source: &[u32],
    target: &[u32],
    features: u32,
    attributes: &[(&str, Value)],
    rows: u32,
    seed: u64,
) -> Result<Report> {
    let attributes = with_defaults(K::attributes(), attributes)?;
    let idle = Reference::idle();
    let kernel = with_host(Box::new(idle), || K::open(source, target, features, &attributes))?;
    let signature = kernel.signature();
    let given = [&signature.source.extents[..], &signature.target.extents];
    if given != [source, target] {
        let opened = [source, target];
        return Err(broken(format!("the signature reads rows {given:?}, but it was opened for {opened:?}")));
    }
    let context = Context { seed, epoch: 3, layer: 1, training: true, first_row: 0, rows: 0 };
    let graph = Graph::drawn(rows, &mut Numbers(seed));
    let subject = Subject { kernel, signature, features, context, graph, all: (0, rows) };
    let point = subject.point()?;
    let mut report = Report { worst: 0.0, worst_name: String::new(), checked: 0, worst_f32: 0.0 };

    let written = subject.forward::<f64>(&point, subject.all)?;
    let backward = subject.backward::<f64>(&point, &written)?;
    let value = |at: &EdgePoint| Ok(vec![subject.forward::<f64>(at, subject.all)?.output]);
    let up = std::slice::from_ref(&point.up);
    compare(&point, &backward.gradients(), "", &mut report, value, up)?;
    subject.promises(&point, &written, &backward)?;
    let single = subject.forward::<f32>(&point, subject.all)?;
    agree_one("outputs in f32", &written.output, &single.output, LOOSE, &mut report.worst_f32)?;
    let single = subject.backward::<f32>(&point, &single)?;
    let worst = &mut report.worst_f32;
    agree("gradients in f32", &backward.gradients(), &single.gradients(), LOOSE, worst)?;
    Ok(report)
}

fn agree_one(what: &str, a: &Tensor, b: &Tensor, allowed: f64, worst: &mut f64) -> Result<()> {
    agree(what, std::slice::from_ref(a), std::slice::from_ref(b), allowed, worst)
}

/// Where derivatives are taken.
#[derive(Debug, Clone)]
struct EdgePoint {
    training: bool,
    /// Rows of sources, rows of targets, parameters.
    tensors: Vec<Tensor>,
    /// The gradient of the output.
    up: Tensor,
}

impl EdgePoint {
    fn source(&self) -> &Tensor {
        &self.tensors[0]
    }

    fn target(&self) -> &Tensor {
        &self.tensors[1]
    }

    fn parameters(&self) -> &[Tensor] {
        &self.tensors[2..]
    }
}

impl Point for EdgePoint {
    fn kind(&self, tensor: usize) -> &'static str {
        ["source", "target"].get(tensor).copied().unwrap_or("parameter")
    }

    fn value(&mut self, tensor: usize, at: usize) -> &mut f64 {
        &mut self.tensors[tensor].values[at]
    }
}

/// What `forward` wrote.
struct Written {
    output: Tensor,
    kept: Vec<Tensor>,
    nearest_kink: f64,
}

/// What `backward_targets` wrote.
#[derive(PartialEq)]
struct Targets {
    /// Where it was wanted.
    target: Option<Tensor>,
    parameters: Vec<Tensor>,
    passed: Tensor,
}

/// What both halves of the backward pass wrote.
struct Gradients {
    source: Tensor,
    targets: Targets,
}

impl Gradients {
    /// In the order of a point's tensors.
    fn gradients(&self) -> Vec<Tensor> {
        let first = [Some(self.source.clone()), self.targets.target.clone()];
        first.into_iter().flatten().chain(self.targets.parameters.iter().cloned()).collect()
    }
}

/// A kernel under check.
struct Subject<K> {
    kernel: K,
    signature: EdgeSignature,
    features: u32,
    context: Context,
    graph: Graph,
    /// All vertices: the first, and how many.
    all: (u32, u32),
}

/// A host for one task and its lists.
struct Call {
    host: Reference,
    context: Context,
    offsets: Ids,
    owners: Ids,
    features: Option<Matrix>,
    rows: u32,
}

impl Call {
    fn new(context: Context, block: &Block, features: u32) -> Result<Self> {
        let host = Reference::with_row_ids(context, &block.ids);
        let (offsets, owners) = (host.ids(&block.offsets)?, host.ids(&block.owners)?);
        // An edge has the same row from both ends.
        let of = |&id: &u64| Numbers(context.seed ^ id.wrapping_mul(3)).tensor(String::new(), vec![features]);
        let rows: Vec<f64> = block.ids.iter().flat_map(|id| of(id).values).collect();
        let features = (features > 0).then(|| host.matrix(&[block.ids.len() as u32, features], &rows));
        Ok(Self { context, offsets, owners, features: features.transpose()?, rows: block.rows(), host })
    }

    fn run(&self, work: impl FnOnce(&EdgeTask<'_>) -> Result<()>) -> Result<()> {
        let Context { training, epoch, layer, .. } = self.context;
        let (rows, edges) = (self.rows, self.host.context().rows);
        let (offsets, owners, features) = (&self.offsets, &self.owners, self.features.as_ref());
        let task = EdgeTask { training, epoch, layer, rows, edges, offsets, owners, features };
        self.host.run(|| work(&task))
    }

    fn matrix(&self, tensor: &Tensor) -> Result<Matrix> {
        self.host.matrix(&tensor.shape, &tensor.values)
    }

    /// Own rows to be written.
    fn place(&self, spec: &RowsSpec) -> Result<Out> {
        self.host.output(&[&[self.rows], &spec.extents[..]].concat())
    }

    fn read(&self, by: &str, spec: &RowsSpec, out: Out) -> Result<Tensor> {
        Ok(collect(&self.host, by, &[out], [&spec.name].into_iter())?.swap_remove(0))
    }
}

impl<K: EdgeKernel> Subject<K> {
    /// A random point away from the kinks that the reference sees.
    fn point(&self) -> Result<EdgePoint> {
        let s = &self.signature;
        let rows = [&s.source, &s.target].map(|spec| self.shape(spec));
        few_values(rows.into_iter().chain(s.parameters.iter().map(|p| p.shape.clone())))?;
        for draw in 0..DRAWS_MAX {
            let point = self.drawn(draw);
            if self.forward::<f64>(&point, self.all)?.nearest_kink >= KINK {
                return Ok(point);
            }
        }
        Err(broken(format!("{DRAWS_MAX} points were drawn, all within {KINK} of a kink; take fewer rows")))
    }

    fn shape(&self, spec: &RowsSpec) -> Vec<u32> {
        [&[self.all.1], &spec.extents[..]].concat()
    }

    fn drawn(&self, draw: u64) -> EdgePoint {
        let mut numbers = Numbers(self.context.seed.wrapping_mul(DRAWS_MAX).wrapping_add(draw));
        let s = &self.signature;
        let mut tensors = Vec::new();
        for spec in [&s.source, &s.target] {
            tensors.push(numbers.tensor(spec.name.clone(), self.shape(spec)));
        }
        tensors.extend(s.parameters.iter().map(|p| numbers.tensor(p.name.clone(), p.shape.clone())));
        let up = numbers.tensor(s.output.name.clone(), self.shape(&s.output));
        EdgePoint { training: true, tensors, up }
    }

    fn call(&self, point: &EdgePoint, block: &Block) -> Result<Call> {
        Call::new(Context { training: point.training, ..self.context }, block, self.features)
    }

    /// Outputs and kept rows of some targets.
    fn forward<R: Real>(&self, point: &EdgePoint, (start, count): (u32, u32)) -> Result<Written> {
        let (s, block) = (&self.signature, self.graph.in_edges(start, count));
        let call = self.call(point, &block)?;
        let source = call.matrix(&point.source().gathered(&block.others))?;
        let target = call.matrix(&point.target().rows(start, count))?;
        let parameters = matrices(&call.host, point.parameters())?;
        let output = call.place(&s.output)?;
        let kept = s.kept.iter().map(|spec| call.place(spec)).collect::<Result<Vec<Out>>>()?;
        let io = EdgeForward {
            source: &source,
            target: &target,
            parameters: &refs(&parameters),
            output: &output,
            kept: &refs(&kept),
        };
        call.run(|task| self.kernel.forward::<R>(task, io))?;
        Ok(Written {
            output: call.read("forward", &s.output, output)?,
            kept: collect(&call.host, "forward", &kept, s.kept.iter().map(|spec| &spec.name))?,
            nearest_kink: call.host.nearest_kink(),
        })
    }

    /// Gradients of some targets, and their edges' part of the parameters'; `kept` are those targets' rows.
    fn backward_targets<R: Real>(
        &self,
        point: &EdgePoint,
        (start, count): (u32, u32),
        kept: &[Tensor],
        wanted: bool,
    ) -> Result<Targets> {
        let (s, block) = (&self.signature, self.graph.in_edges(start, count));
        let call = self.call(point, &block)?;
        let source = call.matrix(&point.source().gathered(&block.others))?;
        let target = call.matrix(&point.target().rows(start, count))?;
        let gradient = call.matrix(&point.up.rows(start, count))?;
        let (kept, parameters) = (matrices(&call.host, kept)?, matrices(&call.host, point.parameters())?);
        let to_target = wanted.then(|| call.place(&s.target)).transpose()?;
        let to_parameters =
            point.parameters().iter().map(|p| call.host.gradient(&p.shape)).collect::<Result<Vec<Out>>>()?;
        let passed = call.place(&s.passed)?;
        let io = BackwardTargets {
            source: &source,
            target: &target,
            kept: &refs(&kept),
            parameters: &refs(&parameters),
            gradient: &gradient,
            target_gradient: to_target.as_ref(),
            parameter_gradients: &refs(&to_parameters),
            passed: &passed,
        };
        call.run(|task| self.kernel.backward_targets::<R>(task, io))?;
        let by = "backward-targets";
        Ok(Targets {
            target: to_target.map(|out| call.read(by, &s.target, out)).transpose()?,
            parameters: collect(&call.host, by, &to_parameters, s.parameters.iter().map(|p| &p.name))?,
            passed: call.read(by, &s.passed, passed)?,
        })
    }

    /// Gradients of some sources; `passed` are all targets' rows.
    fn backward_sources<R: Real>(
        &self,
        point: &EdgePoint,
        (start, count): (u32, u32),
        passed: &Tensor,
    ) -> Result<Tensor> {
        let (s, block) = (&self.signature, self.graph.out_edges(start, count));
        let call = self.call(point, &block)?;
        let source = call.matrix(&point.source().rows(start, count))?;
        let passed = call.matrix(&passed.gathered(&block.others))?;
        let parameters = matrices(&call.host, point.parameters())?;
        let to_source = call.place(&s.source)?;
        let io = BackwardSources {
            source: &source,
            passed: &passed,
            parameters: &refs(&parameters),
            source_gradient: &to_source,
        };
        call.run(|task| self.kernel.backward_sources::<R>(task, io))?;
        call.read("backward-sources", &s.source, to_source)
    }

    fn backward<R: Real>(&self, point: &EdgePoint, written: &Written) -> Result<Gradients> {
        let targets = self.backward_targets::<R>(point, self.all, &written.kept, true)?;
        let source = self.backward_sources::<R>(point, self.all, &targets.passed)?;
        Ok(Gradients { source, targets })
    }

    /// What a kernel promises besides right gradients.
    fn promises(&self, point: &EdgePoint, written: &Written, backward: &Gradients) -> Result<()> {
        let again = self.forward::<f64>(point, self.all)?;
        if (&again.output, &again.kept) != (&written.output, &written.kept) {
            return Err(broken("a second forward gave other values".to_owned()));
        }
        let (targets, source) = (&backward.targets, &backward.source);
        let mut unwanted = self.backward_targets::<f64>(point, self.all, &written.kept, false)?;
        unwanted.target.clone_from(&targets.target);
        if unwanted != *targets {
            return Err(broken(
                "backward-targets gives other values where no target's gradient is wanted".to_owned(),
            ));
        }
        if self.backward_sources::<f64>(point, self.all, &targets.passed)? != *source {
            return Err(broken("a second backward-sources gave other values".to_owned()));
        }
        let quiet = EdgePoint { training: false, ..point.clone() };
        self.forward::<f64>(&quiet, self.all)?;
        self.blocks(point, written, backward)
    }

    /// Two blocks give what one gives.
    fn blocks(&self, point: &EdgePoint, written: &Written, backward: &Gradients) -> Result<()> {
        let mut sums: Vec<Tensor> = Vec::new();
        let same = |what: &str, whole: &Tensor, (start, count), part: &Tensor| {
            let what = format!("vertices cut into two blocks: {what}");
            agree_one(&what, &whole.rows(start, count), part, TIGHT, &mut 0.0)
        };
        for span in halves(self.all.1, 1) {
            let part = self.forward::<f64>(point, span)?;
            same("outputs", &written.output, span, &part.output)?;
            let found = self.backward_targets::<f64>(point, span, &part.kept, true)?;
            same("passed rows", &backward.targets.passed, span, &found.passed)?;
            for (whole, found) in backward.targets.target.iter().zip(&found.target) {
                same("gradients of targets", whole, span, found)?;
            }
            let source = self.backward_sources::<f64>(point, span, &backward.targets.passed)?;
            same("gradients of sources", &backward.source, span, &source)?;
            if sums.is_empty() {
                sums = found.parameters;
            } else {
                sums.iter_mut().zip(&found.parameters).for_each(|(sum, part)| sum.add(part));
            }
        }
        let what = "vertices cut into two blocks: gradients";
        agree(what, &backward.targets.parameters, &sums, TIGHT, &mut 0.0)
    }
}

#[cfg(test)]
mod tests;

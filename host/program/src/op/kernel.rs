//! Vertex kernels, which compute the rows of an interval from the interval's own rows only.

use super::{Made, Node, Opens, Operator, find};
use crate::error::Result;
use crate::lower::Lowering;
use crate::network::{Bias, CONV2D, EMBEDDING, SELF_ATTENTION};
use crate::program::{Cost, Phase, Place, Port, Scope, SlotOf, Stage};
use eciton_types::ids::{DomainId, Layer, OperationId, SlotId};
use eciton_types::signature::{Attribute, RowsSpec, Signature, Value};

/// The estimated number of floating-point operations for each value of a row that is read or
/// written. It stands for activation, dropout, bias and memory access.
const ELEMENTWISE_FLOPS: f64 = 8.0;

/// Kernel of a node, with its attributes and its relations to the layer.
#[derive(Clone, Debug)]
pub(crate) struct Kernel {
    pub(crate) kernel: String,
    pub(crate) layer: Layer,
    /// The layer number from which dropout draws random numbers ([`crate::Operation::draw`]).
    pub(crate) draw: u32,
    /// The role that distinguishes the kernel from the layer's other kernels, for instance `self.`.
    /// It is the prefix of the names of its parameters.
    pub(crate) role: String,
    pub(crate) attributes: Vec<Attribute>,
    /// Pending bias that the kernel adds to its input.
    pub(crate) bias: Option<Bias>,
    /// True if the kernel adds its inputs unchanged, so that the gradient of each input is that of
    /// the output.
    pub(crate) adds: bool,
    /// True if the layer's bias was added before its gathers. Initial weights are then drawn as if
    /// this kernel still added the bias.
    pub(crate) bias_moved: bool,
    /// The layer whose weight the kernel uses, if it has none of its own.
    pub(crate) weight_of: Option<Layer>,
    /// The factor of the kernel's loss in the training loss. It has no effect for kernels without a
    /// loss.
    pub(crate) loss_weight: f64,
}

impl Kernel {
    pub(crate) fn new(kernel: &str, (layer, role): (Layer, &str), attributes: Vec<Attribute>) -> Self {
        Self {
            kernel: kernel.to_owned(),
            layer,
            draw: u32::from(layer.0),
            role: role.to_owned(),
            attributes,
            bias: None,
            adds: false,
            bias_moved: false,
            weight_of: None,
            loss_weight: 1.0,
        }
    }
}

/// Adds a stage of a kernel, whose reads and writes are already set. Sets its placement, its cost
/// and the parameters whose gradients it computes.
pub(crate) fn push(to: &mut Lowering<'_>, mut stage: Stage) {
    stage.place = Place::Anywhere;
    stage.cost = cost(to, &stage);
    if stage.phase != Phase::Forward {
        stage.sums = to.parameters(stage.operation);
    }
    to.push(stage);
}

/// Returns the cost of a stage. A forward product with k x n weights costs `2 k n` operations per
/// row. Backward, the gradient of the weight costs `2 k n`, and the gradient of the input, if the
/// stage writes it, `2 k n` more. Elementwise work is added.
fn cost(to: &Lowering<'_>, stage: &Stage) -> Cost {
    let parameters = to.parameters(stage.operation);
    let parameters = parameters.iter().filter_map(|&id| to.program.parameter(id));
    let weights: f64 = parameters.filter(|p| p.shape.len() > 1).map(|p| p.len() as f64).sum();
    let weights = multiplied(to, stage, weights);
    let back = f64::from(u8::from(stage.writes().next().is_some()));
    let (with_input, without) = match stage.phase {
        Phase::Loss => (2.0, back),
        Phase::Forward => (1.0, 0.0),
        _ => (1.0, back),
    };
    let features = |slot: &SlotId| to.slot_is_of(*slot, SlotOf::Features);
    let touched = stage.reads().map(|(slot, _)| slot).filter(|slot| !features(slot)).chain(stage.writes());
    let touched: f64 = touched.map(|slot| f64::from(to.width_of(slot))).sum();
    let (products, others) = (2.0 * weights * with_input, 2.0 * weights * without);
    let of_features = stage.port(Port::Input).any(|slot| features(&slot));
    Cost {
        flops: others + ELEMENTWISE_FLOPS * touched + if of_features { 0.0 } else { products },
        feature_flops: if of_features { products } else { 0.0 },
        edge_values: 0,
    }
}

/// Returns the number of multiply-adds in the products of one row, for a kernel with `weights`
/// weights. A convolution multiplies its weights at each position, and an embedding multiplies
/// none. An attention multiplies queries by keys and weights by values, over all rows of the group.
fn multiplied(to: &Lowering<'_>, stage: &Stage, weights: f64) -> f64 {
    let Some(operation) = to.program.operations.get(stage.operation.index()) else { return weights };
    let first = |signature: &Signature| signature.outputs.first().and_then(RowsSpec::width).unwrap_or(0);
    let output = f64::from(operation.signature.as_ref().map_or(0, first));
    match &operation.kernel[..] {
        EMBEDDING => 0.0,
        CONV2D => match find(&operation.attributes, "channels") {
            Some(Value::Integer(channels)) => weights * output / (*channels).max(1) as f64,
            _ => weights,
        },
        SELF_ATTENTION => 2.0 * f64::from(to.program.shape.group) * output,
        _ => weights,
    }
}

/// Adds the forward stage of a kernel, which reads the slots `inputs` and writes the slots `writes`
/// (output and stashed rows).
pub(crate) fn forward(
    to: &mut Lowering<'_>,
    operation: OperationId,
    domain: DomainId,
    (inputs, writes): (&[SlotId], Vec<SlotId>),
) {
    let name = to.kernel_stage_name(operation, "forward");
    let mut stage = to.stage(operation, Phase::Forward, name, domain);
    stage.read(inputs.iter().copied(), Scope::Own, Port::Input);
    stage.writes = writes.into_iter().map(Some).collect();
    push(to, stage);
}

impl Operator for Kernel {
    fn opens(&self) -> Opens<'_> {
        Opens::Kernel(self, None)
    }

    fn forward(&self, to: &mut Lowering<'_>, node: &Node, made: &mut Made) {
        let signature = to.signature(made.operation);
        made.outputs = signature.outputs.iter().map(|rows| to.made(node, rows.extents.clone())).collect();
        made.kept = signature.kept.iter().map(|rows| to.kept(node, rows.extents.clone())).collect();
        let writes: Vec<SlotId> = made.outputs.iter().chain(&made.kept).copied().collect();
        forward(to, made.operation, to.domain(node), (&made.inputs, writes));
    }

    fn backward(&self, to: &mut Lowering<'_>, node: &Node, made: &Made, gradient: SlotId) -> Result<()> {
        if self.adds {
            let passed: Vec<Option<SlotId>> =
                node.inputs.iter().map(|&input| to.is_trained(input).then_some(gradient)).collect();
            return to.contribute(&node.inputs, &passed);
        }
        let needs = to.signature(made.operation).backward_needs;
        let written: Vec<Option<SlotId>> = node.inputs.iter().map(|&input| to.wanted(input)).collect();
        let name = to.kernel_stage_name(made.operation, "backward");
        let mut stage = to.stage(made.operation, Phase::Backward, name, to.domain(node));
        let only = |wanted: bool, slots: &[SlotId]| if wanted { slots.to_vec() } else { Vec::new() };
        stage.read(only(needs.inputs, &made.inputs), Scope::Own, Port::Input);
        stage.read(only(needs.outputs, &made.outputs), Scope::Own, Port::Output);
        stage.read(made.kept.iter().copied(), Scope::Own, Port::Stashed);
        stage.read([gradient], Scope::Own, Port::Gradient);
        stage.writes.clone_from(&written);
        push(to, stage);
        to.contribute(&node.inputs, &written)
    }

    fn loss(&self, to: &mut Lowering<'_>, node: &Node, made: &Made) -> Result<()> {
        let written: Vec<Option<SlotId>> = node.inputs.iter().map(|&input| to.wanted(input)).collect();
        let name = to.kernel_stage_name(made.operation, "loss");
        let mut stage = to.stage(made.operation, Phase::Loss, name, to.domain(node));
        stage.read(made.inputs.iter().copied(), Scope::Own, Port::Input);
        stage.writes.clone_from(&written);
        to.enter_loss(self.loss_weight);
        push(to, stage);
        to.contribute(&node.inputs, &written)
    }
}

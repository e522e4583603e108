//! From a model to its stage program: its network forward, then backward.
//!
//! Forward, each node is a stage. Backward, in reverse order, each node turns the gradient of what it
//! made into those of what it read, but for values that nothing trained stands before. A value that
//! several nodes read has several gradients, added as they come (kernel `sum`), so that two of them are
//! alive at most. A sum's own backward is no stage: its inputs' gradients are that of its output.

use crate::error::Error;
use crate::ids::{Layer, OperationId, ParameterId, SlotId, StageId};
use crate::model::{FirstWeights, Model, On};
use crate::network::{
    ATTENTION, AttendNode, BatchNormNode, EdgeNode, GatherNode, HEAD, INPUT_BIAS, KernelNode, LINEAR,
    Network, Node, PairNode, SUM, ValueId,
};
use crate::program::{
    Attend, AttendStep, BatchNorm, BatchNormStep, DataShape, Direction, EdgeStep, Edges, Gather, Operation,
    PairLoss, Parameter, Place, Program, SlotOf, SlotSpec, Stage, Tensor,
};
use crate::savings::Savings;
use crate::signature::{Attribute, Initialiser, ParameterSpec, Signature, TargetKind};

/// Most parameters, and most kept rows, of one kernel.
const MAX_PARTS: usize = 256;
/// Most operations and gathers of a model, forward.
const MAX_NODES: usize = 1024;

type Open<'a> = &'a crate::program::Open<'a, Box<dyn std::error::Error + Send + Sync>>;

/// The training program.
pub(crate) fn training(
    model: &Model,
    shape: DataShape,
    savings: Savings,
    open: Open<'_>,
) -> Result<Program, Error> {
    let found = [shape.features, shape.classes];
    if found != [model.features, model.classes] || shape.rows == 0 {
        return Err(Error::Data {
            found: format!("{} rows, {} features and {} classes", shape.rows, found[0], found[1]),
            allowed: "at least one row, and the features and classes that it was resolved for",
        });
    }
    let mut lowering = Lowering::new(model.clone(), shape, savings);
    limit("operations and gathers of a model", lowering.network.nodes.len(), MAX_NODES)?;
    lowering.open_all(open)?;
    lowering.forward(true);
    lowering.backward(open)?;
    let program = lowering.program;
    // Ids are 16 bits.
    let most = usize::from(u16::MAX);
    limit("row buffers of a program", program.slots.len(), most)?;
    limit("stages of a program", program.stages.len(), most)?;
    Ok(program)
}

fn limit(what: &'static str, found: usize, most: usize) -> Result<(), Error> {
    match found <= most {
        true => Ok(()),
        false => Err(Error::TooMany { what, found: found as u64, most: most as u64 }),
    }
}

/// The evaluation program of a training program.
pub(crate) fn evaluation(training: &Program) -> Program {
    let mut lowering = Lowering::new(training.model.clone(), training.shape, training.savings);
    lowering.program.operations.clone_from(&training.operations);
    lowering.program.parameters.clone_from(&training.parameters);
    lowering.program.edges = training.edges;
    lowering.forward(false);
    let last = StageId(count(lowering.program.stages.len().saturating_sub(1)));
    let embeddings = lowering.network.embeddings;
    let slot = lowering.slot_of(embeddings).filter(|_| embeddings != ValueId::FEATURES);
    if let Some(spec) = slot.and_then(|slot| lowering.program.slots.get_mut(slot.index())) {
        spec.kept_until = last;
    }
    lowering.program.embeddings = slot;
    let scores = match lowering.network.nodes.last() {
        Some(Node::Pairs(pairs)) => pairs.input.index(),
        _ => lowering.network.values.len() - 1,
    };
    lowering.program.scores = lowering.slots.get(scores).copied().flatten();
    lowering.program
}

struct Lowering {
    network: Network,
    program: Program,
    /// By value, where it lies.
    slots: Vec<Option<SlotId>>,
    /// By value, its gradient as far as it is known.
    gradients: Vec<Option<SlotId>>,
    /// By value, whether something trained stands before it.
    trained: Vec<bool>,
    /// By node, its forward stage.
    forward: Vec<Option<StageId>>,
}

impl Lowering {
    fn new(model: Model, shape: DataShape, savings: Savings) -> Self {
        let network = Network::of(&model, savings);
        let constants = 1 + usize::from(savings.reads_beside(&model));
        let features = SlotSpec {
            width: shape.features,
            extents: vec![shape.features],
            of: SlotOf::Features,
            layer: Layer(0),
            written_by: None,
            kept_until: StageId(0),
        };
        let program = Program {
            shape,
            model,
            savings,
            stages: Vec::new(),
            slots: vec![features; constants],
            operations: Vec::new(),
            parameters: Vec::new(),
            features: SlotId(0),
            gathered: (constants > 1).then_some(SlotId(1)),
            scores: None,
            embeddings: None,
            loss: None,
            edges: Place::default(),
        };
        let values = network.values.len();
        let mut slots = vec![None; values];
        slots[ValueId::FEATURES.index()] = Some(program.features);
        if let Some(gathered) = program.gathered {
            slots[ValueId::GATHERED.index()] = Some(gathered);
        }
        let (gradients, trained) = (vec![None; values], vec![false; values]);
        Self { network, program, slots, gradients, trained, forward: Vec::new() }
    }

    /// Opens the kernel of every node, in order.
    fn open_all(&mut self, open: Open<'_>) -> Result<(), Error> {
        for at in 0..self.network.nodes.len() {
            let (node, on, known) = match self.network.nodes[at].clone() {
                Node::Kernel(node) => (node, On::Rows, false),
                Node::Edges(node) => (node.of, On::Edges, node.along.features),
                Node::Gather(_) | Node::Attend(_) | Node::BatchNorm(_) | Node::Pairs(_) => continue,
            };
            let inputs: Vec<u32> = node.inputs.iter().map(|&input| self.network.width(input)).collect();
            let output = self.network.width(node.output);
            let known = known.then_some(self.program.shape.edge_features);
            self.open(open, (&node, on), (&inputs, known), output)?;
        }
        Ok(())
    }

    fn open(
        &mut self,
        open: Open<'_>,
        (node, on): (&KernelNode, On),
        (inputs, known): (&[u32], Option<u32>),
        output: u32,
    ) -> Result<OperationId, Error> {
        let (kernel, layer) = (&node.kernel[..], node.layer);
        let extents: Vec<Vec<u32>> = inputs.iter().copied().chain(known).map(|width| vec![width]).collect();
        let signature = open(kernel, &extents, &node.attributes).map_err(|source| Error::Signature {
            kernel: kernel.to_owned(),
            layer,
            source,
        })?;
        let loss = (kernel == HEAD).then(|| self.program.model.loss.targets());
        check((kernel, layer), &signature, on, loss, inputs, output)?;
        let owner = OperationId(count(self.program.operations.len()));
        limit("operations of a program", usize::from(owner.0), usize::from(u16::MAX) - 1)?;
        // First values of a layer's second product are not those of its first. Other operations do not count:
        // which there are depends on the order of gathers and products, and first values must not.
        let same = |operation: &&Operation| operation.layer == layer && operation.kernel == kernel;
        let before = self.program.operations.iter().filter(same).count();
        let draw = u32::from(layer.0) | u32::from(count(before)) << 16;
        let mut parameters = Vec::with_capacity(signature.parameters.len());
        for (position, spec) in (0u32..).zip(&signature.parameters) {
            let (home, name) = home(node, &spec.name);
            let name = format!("layers.{home}.{name}");
            if self.program.parameters.iter().any(|known| known.name == name) {
                return Err(Error::SignatureMismatch {
                    kernel: kernel.to_owned(),
                    layer,
                    what: "parameters",
                    found: format!("give the name {name} twice"),
                    expected: "each name once".to_owned(),
                });
            }
            limit("parameters of a model", self.program.parameters.len(), usize::from(u16::MAX))?;
            parameters.push(ParameterId(count(self.program.parameters.len())));
            let (initialiser, draw, position) = match self.first_bias(home, &name) {
                Some(bias) => bias,
                None => (self.initialiser(node, spec), draw, position + u32::from(node.bias_moved)),
            };
            let shape = spec.shape.clone();
            self.program.parameters.push(Parameter {
                name,
                shape,
                initialiser,
                owner,
                position,
                draw,
                layer: home,
            });
        }
        self.program.operations.push(Operation {
            kernel: kernel.to_owned(),
            role: node.role.trim_end_matches('.').to_owned(),
            attributes: node.attributes.clone(),
            inputs: extents,
            layer,
            draw: node.draw,
            signature,
            parameters,
        });
        Ok(owner)
    }

    /// How the bias behind a product starts in a layer of [`FirstWeights::PyTorch`], and what its numbers follow: not
    /// which kernel adds it. `None` where it starts as its kernel says.
    fn first_bias(&self, home: Layer, name: &str) -> Option<(Initialiser, u32, u32)> {
        let layer = self.program.model.layers.get(home.index())?;
        let drawn = layer.first_weights == FirstWeights::PyTorch;
        let product = format!("{}weight", name.strip_suffix(BIAS).filter(|_| drawn)?);
        let of_layer = || self.program.parameters.iter().filter(|known| known.layer == home);
        let rows = *of_layer().find(|known| known.name == product)?.shape.first()?;
        let before = of_layer().filter(|known| known.name.ends_with(BIAS)).count();
        Some((uniform(rows), u32::from(home.0), FIRST_BIAS | u32::from(count(before))))
    }

    /// What the kernel says, or the model of its products.
    fn initialiser(&self, node: &KernelNode, spec: &ParameterSpec) -> Initialiser {
        let layer = self.program.model.layers.get(node.layer.index());
        let fan_in = layer
            .is_some_and(|layer| matches!(layer.first_weights, FirstWeights::FanIn | FirstWeights::PyTorch));
        match (&spec.shape[..], spec.initialiser) {
            (&[rows, _], Initialiser::GlorotUniform)
                if fan_in && [LINEAR, ATTENTION].contains(&&node.kernel[..]) =>
            {
                uniform(rows)
            }
            (_, said) => said,
        }
    }

    fn slot_of(&self, value: ValueId) -> Option<SlotId> {
        self.slots.get(value.index()).copied().flatten()
    }

    /// A stage for each node but, in `training`, the head.
    fn forward(&mut self, training: bool) {
        let nodes = self.network.nodes.len() - usize::from(training);
        let mut operation = 0;
        for at in 0..nodes {
            match self.network.nodes[at].clone() {
                Node::Gather(node) => {
                    self.trained[node.output.index()] = self.trained[node.input.index()];
                    self.forward.push(None);
                    let width = self.network.width(node.input);
                    let Some(input) = self.slot_of(node.input) else { continue };
                    let output = self.slot(vec![width], SlotOf::Activation, node.layer);
                    self.slots[node.output.index()] = Some(output);
                    let GatherNode { layer, normalisation, over, .. } = node;
                    let gather =
                        Gather { layer, transposed: false, normalisation, over, input, output, width };
                    self.push(Stage::Gather(gather));
                }
                Node::Attend(node) => self.attend_forward(&node, training),
                Node::BatchNorm(node) => self.batch_norm_forward(node),
                Node::Kernel(node) => {
                    self.kernel_forward(&node, OperationId(count(operation)));
                    operation += 1;
                }
                Node::Edges(node) => {
                    self.edges_forward(&node, OperationId(count(operation)));
                    operation += 1;
                }
                // An evaluation ends with the rows.
                Node::Pairs(_) => self.forward.push(None),
            }
        }
    }

    fn kernel_forward(&mut self, node: &KernelNode, operation: OperationId) {
        let Operation { layer, signature, .. } = &self.program.operations[operation.index()];
        let (layer, kept) = (*layer, signature.kept.clone());
        let outputs = signature.outputs.clone();
        let trains = !signature.parameters.is_empty();
        let read = node.inputs.iter().any(|input| self.trained[input.index()]);
        self.trained[node.output.index()] = trains || read;
        let inputs = node.inputs.iter().filter_map(|&input| self.slot_of(input)).collect();
        let mut slots = |rows: Vec<crate::signature::RowsSpec>, of| -> Vec<SlotId> {
            rows.into_iter().map(|rows| self.slot(rows.extents, of, layer)).collect()
        };
        let tensor = Tensor {
            operation,
            direction: Direction::Forward,
            inputs,
            outputs: slots(outputs, SlotOf::Activation),
            kept: slots(kept, SlotOf::Kept),
            gradients: Vec::new(),
            input_gradients: Vec::new(),
        };
        self.slots[node.output.index()] = tensor.outputs.first().copied();
        let stage = self.push(Stage::Tensor(tensor));
        self.forward.push(Some(stage));
    }

    fn attend_forward(&mut self, node: &AttendNode, training: bool) {
        let &AttendNode { layer, attention, input, output } = node;
        self.trained[output.index()] = self.trained[input.index()];
        // What it reads is a kernel's, which has been lowered.
        let Some(input) = self.slot_of(input) else { return self.forward.push(None) };
        let made = self.slot(vec![attention.output()], SlotOf::Activation, layer);
        let kept = training.then(|| self.slot(vec![attention.kept()], SlotOf::Kept, layer));
        self.slots[output.index()] = Some(made);
        let step = AttendStep::Forward { input, output: made, kept };
        let stage = self.push(Stage::Attend(Attend { layer, attention, step }));
        self.forward.push(Some(stage));
    }

    fn attend_backward(&mut self, open: Open<'_>, node: &AttendNode, at: usize) -> Result<(), Error> {
        let forward = self.forward[at].and_then(|stage| self.program.stages.get(stage.index()));
        let (Some(Stage::Attend(forward)), Some(gradient)) = (forward, self.gradients[node.output.index()])
        else {
            return Ok(());
        };
        let AttendStep::Forward { input, output, kept: Some(kept) } = forward.step else { return Ok(()) };
        let (layer, attention) = (node.layer, node.attention);
        let turned = self.slot(vec![attention.turned()], SlotOf::Kept, layer);
        let step = AttendStep::Turn { input, output, kept, gradient, turned };
        self.push(Stage::Attend(Attend { layer, attention, step }));
        let gradient = self.slot(vec![attention.input()], SlotOf::Gradient, layer);
        let step = AttendStep::Backward { turned, input, gradient };
        self.push(Stage::Attend(Attend { layer, attention, step }));
        self.contribute(open, &[node.input], &[Some(gradient)])
    }

    fn batch_norm_forward(&mut self, node: BatchNormNode) {
        let BatchNormNode { layer, over, input, output } = node;
        self.trained[output.index()] = self.trained[input.index()];
        let width = self.network.width(input);
        // What it reads is a layer's, which has been lowered.
        let Some(input) = self.slot_of(input) else { return self.forward.push(None) };
        let made = self.slot(vec![width], SlotOf::Activation, layer);
        self.slots[output.index()] = Some(made);
        let step = BatchNormStep::Forward { input, output: made };
        let stage = self.push(Stage::BatchNorm(BatchNorm { layer, over, step }));
        self.forward.push(Some(stage));
    }

    fn batch_norm_backward(&mut self, open: Open<'_>, node: BatchNormNode) -> Result<(), Error> {
        let BatchNormNode { layer, over, input, output } = node;
        let (Some(made), Some(gradient)) = (self.slot_of(output), self.gradients[output.index()]) else {
            return Ok(());
        };
        if !self.trained[input.index()] {
            return Ok(());
        }
        let width = self.network.width(input);
        let turned = self.slot(vec![2 * width], SlotOf::Kept, layer);
        let step = BatchNormStep::Turn { output: made, gradient, turned };
        self.push(Stage::BatchNorm(BatchNorm { layer, over, step }));
        let gradient = self.slot(vec![width], SlotOf::Gradient, layer);
        let step = BatchNormStep::Backward { turned, output: made, gradient };
        self.push(Stage::BatchNorm(BatchNorm { layer, over, step }));
        self.contribute(open, &[input], &[Some(gradient)])
    }

    fn edges_forward(&mut self, node: &EdgeNode, operation: OperationId) {
        let Operation { layer, signature, .. } = &self.program.operations[operation.index()];
        let (layer, kept) = (*layer, signature.kept.clone());
        let output = signature.outputs.first().map_or_else(Vec::new, |rows| rows.extents.clone());
        let trains = !signature.parameters.is_empty();
        let read = node.of.inputs.iter().any(|input| self.trained[input.index()]);
        self.trained[node.of.output.index()] = trains || read;
        let (Some(source), Some(target)) = (self.edge_input(node, 0), self.edge_input(node, 1)) else {
            return self.forward.push(None);
        };
        let output = self.slot(output, SlotOf::Activation, layer);
        let kept = kept.into_iter().map(|rows| self.slot(rows.extents, SlotOf::Kept, layer)).collect();
        self.slots[node.of.output.index()] = Some(output);
        let step = EdgeStep::Forward { source, target, output, kept };
        let stage = self.push(Stage::Edges(Edges { operation, along: node.along, step }));
        self.forward.push(Some(stage));
    }

    fn edge_input(&self, node: &EdgeNode, at: usize) -> Option<SlotId> {
        node.of.inputs.get(at).and_then(|&input| self.slot_of(input))
    }

    /// By target even where no target is trained, for the gradients of parameters and what sources need.
    fn edges_backward(&mut self, open: Open<'_>, node: &EdgeNode, at: usize) -> Result<(), Error> {
        let forward = self.forward[at].and_then(|stage| self.program.stages.get(stage.index()));
        let gradient = self.gradients[node.of.output.index()];
        let (Some(gradient), Some(Stage::Edges(forward))) = (gradient, forward.cloned()) else {
            return Ok(());
        };
        let Edges { operation, along, step: EdgeStep::Forward { source, target, kept, .. } } = forward else {
            return Ok(());
        };
        let Some(of) = self.program.operations[operation.index()].signature.edges.clone() else {
            return Ok(());
        };
        let [sources, targets] = node.of.inputs[..] else { return Ok(()) };
        let target_gradient = self.input_gradient(targets);
        let passed = self.slot(of.passed.extents, SlotOf::Kept, node.of.layer);
        let step = EdgeStep::Targets { source, target, kept, gradient, target_gradient, passed };
        self.push(Stage::Edges(Edges { operation, along, step }));
        self.contribute(open, &[targets], &[target_gradient])?;
        let Some(source_gradient) = self.input_gradient(sources) else { return Ok(()) };
        let step = EdgeStep::Sources { passed, source, source_gradient };
        self.push(Stage::Edges(Edges { operation, along, step }));
        self.contribute(open, &[sources], &[Some(source_gradient)])
    }

    fn backward(&mut self, open: Open<'_>) -> Result<(), Error> {
        let last = self.network.nodes.len() - 1;
        match self.network.nodes[last].clone() {
            Node::Kernel(head) => self.head(open, &head)?,
            Node::Pairs(pairs) => self.pairs(open, pairs)?,
            Node::Gather(_) | Node::Attend(_) | Node::BatchNorm(_) | Node::Edges(_) => return Ok(()),
        }
        for at in (0..last).rev() {
            match self.network.nodes[at].clone() {
                Node::Gather(node) => {
                    let Some(input) = self.gradients[node.output.index()] else { continue };
                    let width = self.network.width(node.input);
                    let output = self.slot(vec![width], SlotOf::Gradient, node.layer);
                    let GatherNode { layer, normalisation, over, .. } = node;
                    let gather =
                        Gather { layer, transposed: true, normalisation, over, input, output, width };
                    self.push(Stage::Gather(gather));
                    self.contribute(open, &[node.input], &[Some(output)])?;
                }
                Node::Attend(node) => self.attend_backward(open, &node, at)?,
                Node::BatchNorm(node) => self.batch_norm_backward(open, node)?,
                Node::Kernel(node) => self.kernel_backward(open, &node, at)?,
                Node::Edges(node) => self.edges_backward(open, &node, at)?,
                Node::Pairs(_) => {}
            }
        }
        Ok(())
    }

    /// Loss and gradient of pairs of rows.
    fn pairs(&mut self, open: Open<'_>, node: PairNode) -> Result<(), Error> {
        let Some(input) = self.slot_of(node.input) else { return Ok(()) };
        let width = self.network.width(node.input);
        let gradient = self.slot(vec![width], SlotOf::Gradient, node.layer);
        self.program.loss = Some(self.push(Stage::Pairs(PairLoss { layer: node.layer, input, gradient })));
        self.contribute(open, &[node.input], &[Some(gradient)])
    }

    fn head(&mut self, open: Open<'_>, head: &KernelNode) -> Result<(), Error> {
        let opened = |node: &&Node| matches!(node, Node::Kernel(_) | Node::Edges(_));
        let kernels = self.network.nodes.iter().filter(opened).count();
        let inputs = head.inputs.iter().filter_map(|&input| self.slot_of(input)).collect();
        let tensor = Tensor {
            operation: OperationId(count(kernels - 1)),
            direction: Direction::Loss,
            inputs,
            outputs: Vec::new(),
            kept: Vec::new(),
            gradients: Vec::new(),
            input_gradients: self.input_gradients(head),
        };
        let written = tensor.input_gradients.clone();
        self.program.loss = Some(self.push(Stage::Tensor(tensor)));
        self.contribute(open, &head.inputs, &written)
    }

    fn kernel_backward(&mut self, open: Open<'_>, node: &KernelNode, at: usize) -> Result<(), Error> {
        let gradient = self.gradients[node.output.index()];
        let forward = self.forward[at].and_then(|stage| self.program.stages.get(stage.index()));
        let (Some(gradient), Some(Stage::Tensor(forward))) = (gradient, forward.cloned()) else {
            return Ok(());
        };
        if node.adds {
            let wanted = |input: &ValueId| self.trained[input.index()].then_some(gradient);
            let passed: Vec<Option<SlotId>> = node.inputs.iter().map(wanted).collect();
            return self.contribute(open, &node.inputs, &passed);
        }
        let signature = &self.program.operations[forward.operation.index()].signature;
        let needs = signature.backward_needs;
        let only = |wanted: bool, slots: Vec<SlotId>| if wanted { slots } else { Vec::new() };
        let tensor = Tensor {
            operation: forward.operation,
            direction: Direction::Backward,
            inputs: only(needs.inputs, forward.inputs),
            outputs: only(needs.outputs, forward.outputs),
            kept: forward.kept,
            gradients: vec![gradient],
            input_gradients: self.input_gradients(node),
        };
        let written = tensor.input_gradients.clone();
        self.push(Stage::Tensor(tensor));
        self.contribute(open, &node.inputs, &written)
    }

    /// Slots for the next stage to write the gradients of what a node reads, where they are wanted.
    fn input_gradients(&mut self, node: &KernelNode) -> Vec<Option<SlotId>> {
        node.inputs.iter().map(|&input| self.input_gradient(input)).collect()
    }

    fn input_gradient(&mut self, input: ValueId) -> Option<SlotId> {
        let value = self.network.values[input.index()];
        let wanted = self.trained[input.index()];
        wanted.then(|| self.slot(vec![value.width], SlotOf::Gradient, value.layer))
    }

    /// Adds gradients to those that are there.
    fn contribute(
        &mut self,
        open: Open<'_>,
        values: &[ValueId],
        gradients: &[Option<SlotId>],
    ) -> Result<(), Error> {
        for (value, gradient) in values.iter().zip(gradients) {
            let Some(gradient) = *gradient else { continue };
            let added = match self.gradients[value.index()] {
                None => gradient,
                Some(there) => self.add(open, *value, [there, gradient])?,
            };
            self.gradients[value.index()] = Some(added);
        }
        Ok(())
    }

    fn add(&mut self, open: Open<'_>, value: ValueId, two: [SlotId; 2]) -> Result<SlotId, Error> {
        let crate::network::Value { width, layer } = self.network.values[value.index()];
        let node = KernelNode {
            kernel: SUM.to_owned(),
            layer,
            draw: u32::from(layer.0),
            role: "gradients".to_owned(),
            inputs: vec![value; 2],
            output: value,
            attributes: Vec::<Attribute>::new(),
            bias: None,
            adds: true,
            bias_moved: false,
        };
        let operation = self.open(open, (&node, On::Rows), (&[width; 2], None), width)?;
        let output = self.slot(vec![width], SlotOf::Gradient, layer);
        self.push(Stage::Tensor(Tensor {
            operation,
            direction: Direction::Forward,
            inputs: two.to_vec(),
            outputs: vec![output],
            kept: Vec::new(),
            gradients: Vec::new(),
            input_gradients: Vec::new(),
        }));
        Ok(output)
    }

    /// A slot for the next stage to write.
    fn slot(&mut self, extents: Vec<u32>, of: SlotOf, layer: Layer) -> SlotId {
        let stage = StageId(count(self.program.stages.len()));
        let slot = SlotId(count(self.program.slots.len()));
        // `check` has seen that the product fits.
        let width = extents.iter().fold(1u32, |width, &extent| width.saturating_mul(extent));
        let written_by = Some(stage);
        self.program.slots.push(SlotSpec { width, extents, of, layer, written_by, kept_until: stage });
        slot
    }

    fn push(&mut self, stage: Stage) -> StageId {
        let id = StageId(count(self.program.stages.len()));
        for (slot, _) in stage.reads() {
            self.program.slots[slot.index()].kept_until = id;
        }
        self.program.stages.push(stage);
        id
    }
}

/// Where it saturates the program is refused in the end.
fn count(len: usize) -> u16 {
    u16::try_from(len).unwrap_or(u16::MAX)
}

/// Numbers of biases are of streams of their own.
const FIRST_BIAS: u32 = 1 << 16;
/// What a bias is called, behind what its product is called.
const BIAS: &str = "bias";

/// Within 1 / sqrt(rows).
fn uniform(rows: u32) -> Initialiser {
    Initialiser::Uniform((1.0 / f64::from(rows.max(1)).sqrt()) as f32)
}

/// The layer of the model that a kernel's parameter belongs to, and its name there: what follows a
/// layer is added by the next kernel.
fn home(node: &KernelNode, name: &str) -> (Layer, String) {
    match &node.bias {
        Some(bias) if name == INPUT_BIAS || node.kernel == HEAD => (bias.layer, bias.name.clone()),
        _ => (node.layer, format!("{}{name}", node.role)),
    }
}

/// Whether a signature fits: one of this interface, rows of these widths in, of one width out; the head has
/// a loss.
fn check(
    (kernel, layer): (&str, Layer),
    signature: &Signature,
    on: On,
    loss: Option<TargetKind>,
    inputs: &[u32],
    output: u32,
) -> Result<(), Error> {
    let refuse = |what, found: String, expected: String| {
        let kernel = kernel.to_owned();
        Err(Error::SignatureMismatch { kernel, layer, what, found, expected })
    };
    let found = if signature.edges.is_some() { On::Edges } else { On::Rows };
    if found != on {
        return refuse("interface", format!("is {}", found.interface()), on.interface().to_owned());
    }
    for (what, rows, widths) in
        [("inputs", &signature.inputs, inputs), ("outputs", &signature.outputs, &[output][..])]
    {
        let fits = rows.len() == widths.len()
            && rows.iter().zip(widths).all(|(rows, &width)| rows.extents == [width]);
        if !fits {
            let extents: Vec<&[u32]> = rows.iter().map(|rows| &rows.extents[..]).collect();
            let expected: Vec<[u32; 1]> = widths.iter().map(|&width| [width]).collect();
            return refuse(what, format!("have the extents {extents:?}"), format!("{expected:?}"));
        }
    }
    let over = |kind| match kind {
        TargetKind::Classes => "over classes".to_owned(),
        TargetKind::Values => "over values".to_owned(),
    };
    if let Some(wanted) = loss.filter(|_| signature.loss != loss) {
        let found = signature.loss.map_or("is not offered".to_owned(), |kind| format!("is {}", over(kind)));
        return refuse("loss", found, over(wanted));
    }
    let kept = signature.kept.iter().map(|rows| ("kept rows", rows));
    let passed = signature.edges.iter().map(|edges| ("passed rows", &edges.passed));
    if let Some((what, rows)) =
        kept.chain(passed).find(|(_, rows)| rows.width().is_none_or(|width| width == 0))
    {
        let found = format!("{:?} have the extents {:?}", rows.name, rows.extents);
        return refuse(what, found, "1 to 2^32 - 1 values a row".to_owned());
    }
    if let Some(spec) = signature.parameters.iter().find(|spec| spec.values().is_none_or(|count| count == 0))
    {
        let found = format!("{:?} has the shape {:?}", spec.name, spec.shape);
        return refuse("parameter", found, "1 to 2^32 - 1 values".to_owned());
    }
    let most = signature.parameters.len().max(signature.kept.len());
    if most > MAX_PARTS {
        let found = format!("are {most}");
        return refuse("parameters or kept rows", found, format!("at most {MAX_PARTS}"));
    }
    Ok(())
}

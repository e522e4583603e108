//! Lowering: builds the stage program of a model.
//!
//! In the forward part, each node of the model's network becomes a stage. In the backward part, in
//! reverse order, each node turns the gradient of its output into the gradients of its inputs.
//! Values that depend on no trained parameter get no gradient. A value that several nodes read has
//! several gradients. Kernel `sum` adds these gradients as they become available, so at most two of
//! them are stored at once. A sum needs no backward stage, because the gradient of its output is
//! that of each input.

mod first;

use crate::error::{Error, Result};
use crate::network::{
    ATTENTION, CONV2D, EMBEDDING, HEAD, INPUT_BIAS, LINEAR, Network, SELF_ATTENTION, SUM, ValueId,
};
use crate::op::kernel::{self, Kernel};
use crate::op::{Made, Node, Opens};
use crate::program::{
    Along, Cost, DataShape, Domain, LossOf, Operation, Parameter, Phase, Place, Program, Relation, RowsOf,
    SlotOf, SlotSpec, Stage,
};
use crate::rewrites::Rewrites;
use eciton_recipe::Error as Refused;
use eciton_recipe::model::{FirstWeights, Model, short_name};
use eciton_types::On;
use eciton_types::atoms::MAX_BATCH_ATOMS;
use eciton_types::ids::{DomainId, Layer, OperationId, ParameterId, RelationId, SlotId, StageId};
use eciton_types::signature::{Attribute, GROUP, Initialiser, ParameterSpec, Signature, TargetKind, Value};

/// The maximum number of parameters of one kernel, and of row blocks that it stashes for backward.
const MAX_PARTS: usize = 256;
/// The first provisional id of a further use of a parameter, by a layer that shares another layer's
/// weight. Lowering replaces it by the final id as soon as all parameters are known.
const FURTHER: u16 = 1 << 15;
/// Name of the parameter that layers may share.
const WEIGHT: &str = "weight";
/// Maximum number of forward operations and gathers of a model.
const MAX_NODES: usize = 4096;

/// The names of the kernels that work on sequences. They receive the number of rows of a sequence
/// as an attribute.
const IN_GROUPS: [&str; 2] = [EMBEDDING, SELF_ATTENTION];

type Open<'a> = &'a crate::program::Open<'a, Box<dyn std::error::Error + Send + Sync>>;

/// Builds the training program of a model, with forward, loss and backward stages. `open` opens a
/// kernel and returns its signature.
pub(crate) fn training(
    model: &Model,
    shape: DataShape,
    rewrites: Rewrites,
    open: Open<'_>,
) -> Result<Program> {
    let found = [shape.features, shape.classes];
    if found != [model.features, model.classes] || shape.rows == 0 {
        return Err(Error::from(Refused::Data {
            found: format!("{} rows, {} features and {} classes", shape.rows, found[0], found[1]),
            allowed: "at least one row, and the features and classes for which it was resolved",
        }));
    }
    if shape.group == 0 || !shape.rows.is_multiple_of(shape.group) {
        return Err(Error::from(Refused::Data {
            found: format!("{} rows in groups of {}", shape.rows, shape.group),
            allowed: "whole groups of at least one row",
        }));
    }
    let mut lowering = Lowering::new(model.clone(), shape, rewrites, open, true);
    let nodes = std::mem::take(&mut lowering.network.nodes);
    limit("operations and gathers of a model", nodes.len(), MAX_NODES)?;
    lowering.enter_all(&nodes)?;
    let made = lowering.forward(&nodes[..nodes.len() - 1]);
    lowering.backward(&nodes, &made)?;
    let program = lowering.program;
    // Ids are 16 bits.
    let most = usize::from(u16::MAX);
    limit("row buffers of a program", program.slots.len(), most)?;
    limit("stages of a program", program.stages.len(), most)?;
    Ok(program)
}

fn limit(what: &'static str, found: usize, most: usize) -> Result<()> {
    match found <= most {
        true => Ok(()),
        false => Err(Error::from(Refused::TooMany { what, found: found as u64, most: most as u64 })),
    }
}

/// Builds the evaluation program (forward stages only) that belongs to a training program.
/// Operations and parameters are the same.
pub(crate) fn evaluation(training: &Program) -> Program {
    // No kernel is opened, because no gradients are added.
    let open: Open<'_> = &|kernel, _, _| Err(format!("{kernel} is opened already").into());
    let mut lowering = Lowering::new(training.model.clone(), training.shape, training.rewrites, open, false);
    lowering.program.operations.clone_from(&training.operations);
    lowering.program.parameters.clone_from(&training.parameters);
    lowering.program.uses.clone_from(&training.uses);
    let nodes = std::mem::take(&mut lowering.network.nodes);
    lowering.forward(&nodes);
    let last = StageId(count(lowering.program.stages.len().saturating_sub(1)));
    let embeddings = lowering.network.embeddings;
    let slot = lowering.slot_of(embeddings).filter(|_| embeddings != ValueId::FEATURES);
    if let Some(spec) = slot.and_then(|slot| lowering.program.slots.get_mut(slot.index())) {
        spec.needed_until = last;
    }
    lowering.program.embeddings = slot;
    let along = |stage: &&Stage| training.operations[stage.operation.index()].along.is_some();
    if let Some(edges) = training.stages.iter().find(along) {
        lowering.program.place_edges(edges.place);
    }
    // Output of the last node. In link prediction, it is the rows that the last node reads.
    let scores = nodes.last().and_then(|last| last.output.or(last.inputs.first().copied()));
    lowering.program.scores = scores.and_then(|scores| lowering.slot_of(scores));
    lowering.program
}

/// A program in construction. Operators add stages and slots (row buffers) to it.
pub(crate) struct Lowering<'o> {
    open: Open<'o>,
    pub(crate) network: Network,
    pub(crate) program: Program,
    /// True if the program will have backward stages.
    pub(crate) training: bool,
    /// The slot (row buffer) of each value of the network, or `None` for a value that no stage
    /// computes yet.
    slots: Vec<Option<SlotId>>,
    /// The slot of each value's gradient, which is the sum over the readers that have been lowered
    /// so far.
    gradients: Vec<Option<SlotId>>,
    /// For each value, true if it depends on a trained parameter.
    trained: Vec<bool>,
}

impl<'o> Lowering<'o> {
    fn new(model: Model, shape: DataShape, rewrites: Rewrites, open: Open<'o>, training: bool) -> Self {
        let network = Network::from_model(&model, rewrites, shape.edge_features);
        let of_vertices = 1 + usize::from(rewrites.reads_beside(&model));
        let features = SlotSpec {
            width: shape.features,
            extents: vec![shape.features],
            domain: Domain::VERTICES,
            of: SlotOf::Features,
            layer: Layer(0),
            written_by: None,
            needed_until: StageId(0),
        };
        let read_out = if model.readout().is_some() { shape.read_out } else { 0 };
        let domains = vec![
            Domain { of: RowsOf::Vertices, rows: shape.rows },
            Domain { of: RowsOf::ReadOut, rows: read_out },
            Domain { of: RowsOf::Atoms, rows: MAX_BATCH_ATOMS },
        ];
        let mut slots = vec![features.clone(); of_vertices];
        if let Some(rows) = network.edge_rows {
            let width = network.width(rows);
            slots.push(SlotSpec { width, extents: vec![width], domain: Domain::READ_OUT, ..features });
        }
        let program = Program {
            shape,
            model,
            rewrites,
            stages: Vec::new(),
            slots,
            operations: Vec::new(),
            domains,
            relations: Vec::new(),
            parameters: Vec::new(),
            uses: Vec::new(),
            features: SlotId(0),
            gathered: (of_vertices > 1).then_some(SlotId(1)),
            edge_rows: network.edge_rows.map(|rows| SlotId(rows.index() as u16)),
            scores: None,
            embeddings: None,
            losses: Vec::new(),
            apart: None,
            sampling: None,
        };
        let values = network.values.len();
        let mut slots = vec![None; values];
        // The first values are the constants, which have the first slots.
        for slot in program.constants() {
            slots[slot.index()] = Some(slot);
        }
        let (gradients, trained) = (vec![None; values], vec![false; values]);
        Self { open, network, program, training, slots, gradients, trained }
    }

    /// Adds the operation of each node to the program, in order. An operation has the same number
    /// as its node.
    fn enter_all(&mut self, nodes: &[Node]) -> Result<()> {
        for node in nodes {
            match node.operator.opens() {
                Opens::Kernel(of, along) => {
                    let inputs: Vec<u32> =
                        node.inputs.iter().map(|&input| self.network.width(input)).collect();
                    // Scores have the width of the rows that the loss reads.
                    let output = node.output.or(node.inputs.first().copied());
                    let output = output.map_or(0, |output| self.network.width(output));
                    self.open((of, along), &inputs, output)?;
                }
                Opens::Host { name, attributes, statistics } => {
                    let parameters = self.statistics(node, statistics)?;
                    self.program.operations.push(Operation {
                        kernel: name.to_owned(),
                        role: String::new(),
                        attributes,
                        inputs: Vec::new(),
                        layer: node.layer,
                        draw: u32::from(node.layer.0),
                        signature: None,
                        along: None,
                        parameters,
                    });
                }
            }
        }
        first::check_names(&self.program)?;
        // Further uses get numbers after those of parameters, all of which are known now.
        let known = self.program.parameters.len();
        limit("parameters of a model", known + self.program.uses.len(), usize::from(u16::MAX))?;
        let ids = self.program.operations.iter_mut().flat_map(|operation| &mut operation.parameters);
        ids.filter(|id| id.0 >= FURTHER).for_each(|id| id.0 = count(known) + (id.0 - FURTHER));
        Ok(())
    }

    /// Adds the statistics of a host operator to the parameters, and returns their ids. Each has a name
    /// in the layer and an initial value.
    fn statistics(&mut self, node: &Node, all: &[(&str, f32)]) -> Result<Vec<ParameterId>> {
        let width = node.inputs.first().map_or(0, |&input| self.network.width(input));
        let mut ids = Vec::with_capacity(all.len());
        for (position, &(name, initial)) in (0..).zip(all) {
            limit("parameters of a model", self.program.parameters.len(), usize::from(FURTHER) - 1)?;
            ids.push(ParameterId(count(self.program.parameters.len())));
            self.program.parameters.push(Parameter {
                name: format!("layers.{}.{name}", node.layer),
                shape: vec![width],
                initialiser: Initialiser::Constant(initial),
                position,
                draw: u32::from(node.layer.0),
                layer: node.layer,
                is_statistic: true,
            });
        }
        Ok(ids)
    }

    /// Adds a use of the weight of layer `of` by the kernel `node`, and returns the provisional id
    /// of the use. `enter_all` replaces it by the final id.
    fn further(&mut self, node: &Kernel, of: Layer, spec: &ParameterSpec) -> Result<ParameterId> {
        let name = format!("layers.{of}.{WEIGHT}");
        let place = self.program.parameters.iter().position(|known| known.name == name);
        let shape = place.and_then(|place| self.program.parameters.get(place)).map(|known| &known.shape);
        if shape != Some(&spec.shape) {
            return Err(Error::SignatureMismatch {
                kernel: node.kernel.clone(),
                layer: node.layer,
                what: "weight",
                found: format!("has the shape {:?}", spec.shape),
                expected: format!("that of {name}, {:?}", shape.cloned().unwrap_or_default()),
            });
        }
        limit("parameters of a model", self.program.uses.len(), usize::from(u16::MAX - FURTHER))?;
        self.program.uses.push(ParameterId(count(place.unwrap_or_default())));
        Ok(ParameterId(FURTHER + count(self.program.uses.len() - 1)))
    }

    /// Opens the kernel of a node, checks its signature, and adds its operation and parameters to
    /// the program. `along` is `None` for a vertex kernel. `inputs` and `output` are the row widths
    /// that the signature must have.
    fn open(
        &mut self,
        (node, along): (&Kernel, Option<Along>),
        inputs: &[u32],
        output: u32,
    ) -> Result<OperationId> {
        let (kernel, layer) = (&node.kernel[..], node.layer);
        let mut attributes = node.attributes.clone();
        if IN_GROUPS.contains(&kernel) {
            let group = Value::Integer(i64::from(self.program.shape.group));
            attributes.push(Attribute::new(GROUP, group));
        }
        let on = if along.is_some() { On::Edges } else { On::Rows };
        let known = along.filter(|along| along.features).map(|_| self.program.shape.edge_features);
        let extents: Vec<Vec<u32>> = inputs.iter().copied().chain(known).map(|width| vec![width]).collect();
        let signature = (self.open)(kernel, &extents, &attributes).map_err(|source| Error::Signature {
            kernel: kernel.to_owned(),
            layer,
            source,
        })?;
        let loss = (kernel == HEAD).then(|| self.program.model.loss.targets());
        check((kernel, layer), &signature, on, loss, inputs, output)?;
        let owner = OperationId(count(self.program.operations.len()));
        limit("operations of a program", usize::from(owner.0), usize::from(u16::MAX) - 1)?;
        // The initial values of a layer's second product differ from those of its first. Other
        // operations do not count, because their number depends on the order of gathers and
        // products, and initial values must not depend on this order.
        let same = |operation: &&Operation| {
            operation.layer == layer && operation.kernel == kernel && operation.signature.is_some()
        };
        let before = self.program.operations.iter().filter(same).count();
        let draw = u32::from(layer.0) | u32::from(count(before)) << 16;
        let mut parameters = Vec::with_capacity(signature.parameters.len());
        for (position, spec) in (0u32..).zip(&signature.parameters) {
            if let Some(of) = node.weight_of.filter(|_| spec.name == WEIGHT) {
                parameters.push(self.further(node, of, spec)?);
                continue;
            }
            let (home, name) = home(node, &spec.name);
            let name = format!("layers.{home}.{name}");
            if self.program.parameters.iter().any(|known| known.name == name) {
                return Err(Error::SignatureMismatch {
                    kernel: kernel.to_owned(),
                    layer,
                    what: "parameters",
                    found: format!("have the name {name} twice"),
                    expected: "each name once".to_owned(),
                });
            }
            limit("parameters of a model", self.program.parameters.len(), usize::from(FURTHER) - 1)?;
            parameters.push(ParameterId(count(self.program.parameters.len())));
            let (initialiser, draw, position) = match self.first_bias(home, &name) {
                Some(bias) => bias,
                None => (self.initialiser(node, spec), draw, position + u32::from(node.bias_moved)),
            };
            let said = first::explicit_initialiser(&self.program.model, home, &name, &spec.shape);
            let initialiser = said.unwrap_or(initialiser);
            let shape = spec.shape.clone();
            let made =
                Parameter { name, shape, initialiser, position, draw, layer: home, is_statistic: false };
            self.program.parameters.push(made);
        }
        self.program.operations.push(Operation {
            kernel: kernel.to_owned(),
            role: node.role.trim_end_matches('.').to_owned(),
            attributes,
            inputs: extents,
            layer,
            draw: node.draw,
            signature: Some(signature),
            along,
            parameters,
        });
        Ok(owner)
    }

    /// Returns the initialiser of a product's bias in a layer with [`FirstWeights::PyTorch`], and
    /// the layer and stream number of its random numbers. Both numbers are the same for every
    /// kernel that may add the bias. Returns `None` if the kernel's own initialiser applies.
    fn first_bias(&self, home: Layer, name: &str) -> Option<(Initialiser, u32, u32)> {
        let layer = self.program.model.layers.get(home.index())?;
        let drawn = layer.first_weights == FirstWeights::PyTorch;
        let product = format!("{}weight", name.strip_suffix(BIAS).filter(|_| drawn)?);
        let of_layer = || self.program.parameters.iter().filter(|known| known.layer == home);
        let rows = *of_layer().find(|known| known.name == product)?.shape.first()?;
        let before = of_layer().filter(|known| known.name.ends_with(BIAS)).count();
        Some((uniform(rows), u32::from(home.0), FIRST_BIAS | u32::from(count(before))))
    }

    /// Returns the initialiser of a kernel's parameter. It is the one that the kernel declares,
    /// unless the parameter is a product's weight and the layer's `first_weights` requests another.
    fn initialiser(&self, node: &Kernel, spec: &ParameterSpec) -> Initialiser {
        let layer = self.program.model.layers.get(node.layer.index());
        let fan_in = layer
            .is_some_and(|layer| matches!(layer.first_weights, FirstWeights::FanIn | FirstWeights::PyTorch));
        match (&spec.shape[..], spec.initialiser) {
            (&[rows, _], Initialiser::GlorotUniform)
                if fan_in && [LINEAR, ATTENTION, CONV2D].contains(&&node.kernel[..]) =>
            {
                uniform(rows)
            }
            (_, said) => said,
        }
    }

    fn slot_of(&self, value: ValueId) -> Option<SlotId> {
        self.slots.get(value.index()).copied().flatten()
    }

    /// Returns the operation of node number `at` and the slots that the node reads. The nodes that
    /// write these slots must have been lowered before.
    fn read_by(&self, at: usize, node: &Node) -> Made {
        let inputs = node.inputs.iter().filter_map(|&input| self.slot_of(input)).collect();
        Made { operation: OperationId(count(at)), inputs, ..Made::default() }
    }

    /// Adds the forward stages of nodes, and returns the slots that each node reads and writes.
    fn forward(&mut self, nodes: &[Node]) -> Vec<Made> {
        let mut all = Vec::with_capacity(nodes.len());
        for (at, node) in nodes.iter().enumerate() {
            let mut made = self.read_by(at, node);
            // A node without a value ends a network. It is a loss.
            if let Some(output) = node.output {
                node.operator.forward(self, node, &mut made);
                let is_trained = |id: &ParameterId| {
                    self.program.parameter(*id).is_none_or(|parameter| !parameter.is_statistic)
                };
                let trains = self.parameters(made.operation).iter().any(is_trained);
                self.trained[output.index()] =
                    trains || node.inputs.iter().any(|&input| self.is_trained(input));
                self.slots[output.index()] = made.outputs.first().copied();
            }
            all.push(made);
        }
        all
    }

    /// Adds the stage of the last node's loss, then the backward stages of the other nodes in
    /// reverse order. The other losses are added in this order too.
    fn backward(&mut self, nodes: &[Node], made: &[Made]) -> Result<()> {
        let Some((last, before)) = nodes.split_last() else { return Ok(()) };
        let end = self.read_by(before.len(), last);
        last.operator.loss(self, last, &end)?;
        for (node, made) in before.iter().zip(made).rev() {
            if node.output.is_none() {
                node.operator.loss(self, node, made)?;
            }
            let gradient = node.output.and_then(|output| self.gradients[output.index()]);
            if let Some(gradient) = gradient {
                node.operator.backward(self, node, made, gradient)?;
            }
        }
        Ok(())
    }

    /// Returns true if a value depends on a trained parameter, and therefore needs a gradient.
    pub(crate) fn is_trained(&self, value: ValueId) -> bool {
        self.trained[value.index()]
    }

    /// Adds a slot for the gradient of a value, to be written by the next stage. Returns `None` if
    /// the value depends on no trained parameter.
    pub(crate) fn wanted(&mut self, value: ValueId) -> Option<SlotId> {
        let crate::network::Value { width, layer, domain } = self.network.values[value.index()];
        self.is_trained(value).then(|| self.slot(domain, vec![width], SlotOf::Gradient, layer))
    }

    /// Returns the signature of an operation's kernel. It is empty for an operator of the host.
    pub(crate) fn signature(&self, operation: OperationId) -> Signature {
        self.program.operations[operation.index()].signature.clone().unwrap_or_default()
    }

    /// Returns the ids of an operation's parameters.
    pub(crate) fn parameters(&self, operation: OperationId) -> Vec<ParameterId> {
        self.program.operations[operation.index()].parameters.clone()
    }

    /// Returns the number of values in one row of a slot.
    pub(crate) fn width_of(&self, slot: SlotId) -> u32 {
        self.program.slots.get(slot.index()).map_or(0, |slot| slot.width)
    }

    pub(crate) fn slot_is_of(&self, slot: SlotId, of: SlotOf) -> bool {
        self.program.slots.get(slot.index()).is_some_and(|slot| slot.of == of)
    }

    pub(crate) fn relation(&mut self, relation: Relation) -> RelationId {
        self.program.enter_relation(relation)
    }

    /// Returns the name of a kernel's stage, for instance `linear 1 backward`. `step` is its last
    /// part.
    pub(crate) fn kernel_stage_name(&self, operation: OperationId, step: &str) -> String {
        let Operation { kernel, role, layer, .. } = &self.program.operations[operation.index()];
        let kernel = short_name(kernel);
        match &role[..] {
            "" => format!("{kernel} {layer} {step}"),
            role => format!("{kernel} {layer} {role} {step}"),
        }
    }

    /// Returns a stage with the placement `Host` that reads and writes no slots yet.
    pub(crate) fn stage(
        &self,
        operation: OperationId,
        phase: Phase,
        name: String,
        domain: DomainId,
    ) -> Stage {
        Stage {
            name,
            operation,
            phase,
            place: Place::Host,
            chunk: 0,
            domain,
            via: None,
            reads: Vec::new(),
            writes: Vec::new(),
            sums: Vec::new(),
            exact: false,
            cost: Cost::default(),
        }
    }

    /// Adds gradients to the sums of the gradients that their values already have. Each addition is
    /// a stage of kernel `sum`.
    ///
    /// # Errors
    /// Returns the errors of opening kernel `sum`, which adds two gradients.
    pub(crate) fn contribute(&mut self, values: &[ValueId], gradients: &[Option<SlotId>]) -> Result<()> {
        for (value, gradient) in values.iter().zip(gradients) {
            let Some(gradient) = *gradient else { continue };
            let added = match self.gradients[value.index()] {
                None => gradient,
                Some(there) => self.add(*value, [there, gradient])?,
            };
            self.gradients[value.index()] = Some(added);
        }
        Ok(())
    }

    fn add(&mut self, value: ValueId, two: [SlotId; 2]) -> Result<SlotId> {
        let crate::network::Value { width, layer, domain } = self.network.values[value.index()];
        let of = Kernel { adds: true, ..Kernel::new(SUM, (layer, "gradients"), Vec::new()) };
        let operation = self.open((&of, None), &[width; 2], width)?;
        let output = self.slot(domain, vec![width], SlotOf::Gradient, layer);
        kernel::forward(self, operation, domain, (&two, vec![output]));
        Ok(output)
    }

    /// Returns the domain (kind of rows) of a node's output. For a node without an output, it is
    /// the domain of the first input.
    pub(crate) fn domain(&self, node: &Node) -> DomainId {
        let value = node.output.or(node.inputs.first().copied());
        value.map_or(Domain::VERTICES, |value| self.network.domain(value))
    }

    pub(crate) fn domain_of(&self, slot: SlotId) -> DomainId {
        self.program.domain_of(slot)
    }

    /// Adds a slot for the output of a node, to be written by the next stage.
    pub(crate) fn made(&mut self, node: &Node, extents: Vec<u32>) -> SlotId {
        self.slot(self.domain(node), extents, SlotOf::Activation, node.layer)
    }

    /// Adds a slot for rows that the next stage stashes (keeps for backward). Its domain is that of
    /// the node's output.
    pub(crate) fn kept(&mut self, node: &Node, extents: Vec<u32>) -> SlotId {
        self.slot(self.domain(node), extents, SlotOf::Stashed, node.layer)
    }

    /// Adds a slot with a row for each atom, to be written by the next stage.
    pub(crate) fn of_atoms(&mut self, node: &Node, width: u32) -> SlotId {
        self.slot(Domain::ATOMS, vec![width], SlotOf::Stashed, node.layer)
    }

    /// Adds a slot for the gradient of a node's first input, to be written by the next stage.
    pub(crate) fn back(&mut self, node: &Node, extents: Vec<u32>) -> SlotId {
        let input = node.inputs.first().copied();
        let domain = input.map_or(Domain::VERTICES, |input| self.network.domain(input));
        self.slot(domain, extents, SlotOf::Gradient, node.layer)
    }

    /// Adds a slot (row buffer) to the program, to be written by the next stage.
    fn slot(&mut self, domain: DomainId, extents: Vec<u32>, of: SlotOf, layer: Layer) -> SlotId {
        let stage = StageId(count(self.program.stages.len()));
        let slot = SlotId(count(self.program.slots.len()));
        // `check` has verified that the product fits.
        let width = extents.iter().fold(1u32, |width, &extent| width.saturating_mul(extent));
        let written_by = Some(stage);
        let spec = SlotSpec { width, extents, domain, of, layer, written_by, needed_until: stage };
        self.program.slots.push(spec);
        slot
    }

    /// Declares that the next stage computes a term of the loss. `weight` is the factor of this
    /// term in the training loss.
    pub(crate) fn enter_loss(&mut self, weight: f64) {
        let stage = StageId(count(self.program.stages.len()));
        self.program.losses.push(LossOf { stage, weight: weight as f32 });
    }

    /// Appends a stage to the program. The rows that the stage reads are kept until it.
    pub(crate) fn push(&mut self, stage: Stage) {
        let id = StageId(count(self.program.stages.len()));
        for (slot, _) in stage.reads() {
            self.program.slots[slot.index()].needed_until = id;
        }
        self.program.stages.push(stage);
    }
}

/// Converts a count to 16 bits, and returns 65,535 if it does not fit. Lowering refuses a program
/// with such a count.
fn count(len: usize) -> u16 {
    u16::try_from(len).unwrap_or(u16::MAX)
}

/// The first number of the random streams for the initial values of biases. The streams of other
/// parameters have smaller numbers.
const FIRST_BIAS: u32 = 1 << 16;
/// The last part of the name of a bias. For instance, `mlp.0.bias` belongs to the product with the
/// weight `mlp.0.weight`.
const BIAS: &str = "bias";

/// Returns a uniform initialiser with the bounds +- 1 / sqrt(`rows`). `rows` is the number of rows
/// of a product's weight.
fn uniform(rows: u32) -> Initialiser {
    Initialiser::Uniform((1.0 / f64::from(rows.max(1)).sqrt()) as f32)
}

/// Returns the layer to which a kernel's parameter belongs, and the parameter's name in that layer.
/// A bias that the next layer's kernel adds belongs to the layer before.
fn home(node: &Kernel, name: &str) -> (Layer, String) {
    match &node.bias {
        Some(bias) if name == INPUT_BIAS || node.kernel == HEAD => (bias.layer, bias.name.clone()),
        _ => (node.layer, format!("{}{name}", node.role)),
    }
}

/// Checks that a kernel's signature has the interface `on`, inputs and an output of the given
/// widths, and the loss `loss`. Also checks the sizes and numbers of stashed row blocks and
/// parameters.
fn check(
    (kernel, layer): (&str, Layer),
    signature: &Signature,
    on: On,
    loss: Option<TargetKind>,
    inputs: &[u32],
    output: u32,
) -> Result<()> {
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
        return refuse(what, found, "1 to 2^32 - 1 values per row".to_owned());
    }
    if let Some(spec) = signature.parameters.iter().find(|spec| spec.values().is_none_or(|count| count == 0))
    {
        let found = format!("{:?} has the shape {:?}", spec.name, spec.shape);
        return refuse("parameter", found, "1 to 2^32 - 1 values".to_owned());
    }
    let most = signature.parameters.len().max(signature.kept.len());
    if most > MAX_PARTS {
        let found = format!("are {most}");
        return refuse("parameters or stashed rows", found, format!("at most {MAX_PARTS}"));
    }
    Ok(())
}

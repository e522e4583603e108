//! From a model to its stage program.

use crate::error::Error;
use crate::ids::{Layer, OperationId, ParameterId, SlotId, StageId};
use crate::model::{Activation, Convolution, LayerKind, Model};
use crate::program::{
    DataShape, Direction, Gather, Normalisation, Operation, Parameter, Program, SlotOf, SlotSpec, Stage,
    Tensor,
};
use crate::savings::Savings;
use crate::signature::{Attribute, Signature, Value};

/// The kernel of a layer's own work.
const LINEAR: &str = "linear";
/// The kernel of the last stage forward.
pub(crate) const HEAD: &str = "cross-entropy";
/// The parameter by which `linear` adds the bias of the layer before.
const INPUT_BIAS: &str = "input-bias";
/// Most parameters, and most kept rows, of one kernel. With 65 operations all ids fit 16 bits.
const MAX_PARTS: usize = 256;

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
    lowering.open_all(open)?;
    lowering.forward();
    lowering.backward();
    Ok(lowering.program)
}

/// The evaluation program of a training program.
pub(crate) fn evaluation(training: &Program) -> Program {
    let mut lowering = Lowering::new(training.model.clone(), training.shape, training.savings);
    lowering.program.operations.clone_from(&training.operations);
    lowering.program.parameters.clone_from(&training.parameters);
    lowering.forward();
    let head = lowering.head();
    let scores = lowering.tensor_forward(head);
    lowering.program.scores = Some(scores);
    lowering.program
}

struct Lowering {
    program: Program,
    /// The slot that the last stage forward wrote.
    rows: SlotId,
    /// The forward tensor stages of the layers, for their backward.
    forward: Vec<Tensor>,
}

impl Lowering {
    fn new(model: Model, shape: DataShape, savings: Savings) -> Self {
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
            slots: vec![features],
            operations: Vec::new(),
            parameters: Vec::new(),
            features: SlotId(0),
            scores: None,
            loss: None,
        };
        Self { program, rows: SlotId(0), forward: Vec::new() }
    }

    /// Opens every layer's kernel, then the head's: operation l belongs to layer l.
    fn open_all(&mut self, open: Open<'_>) -> Result<(), Error> {
        let mut before: Option<Convolution> = None;
        for at in 0..self.program.model.layers.len() {
            let LayerKind::Gcn(layer) = self.program.model.layers[at].clone();
            let input = self.program.model.input_width(at);
            let attributes = linear_attributes(&layer, before.as_ref());
            self.open(open, LINEAR, number(at), input, attributes, layer.width)?;
            before = Some(layer);
        }
        let bias = before.is_some_and(|layer| layer.bias);
        let attributes = vec![Attribute::new("bias", Value::Flag(bias))];
        let layers = number(self.program.model.layers.len());
        let classes = self.program.shape.classes;
        self.open(open, HEAD, layers, classes, attributes, classes)
    }

    fn open(
        &mut self,
        open: Open<'_>,
        kernel: &str,
        layer: Layer,
        input: u32,
        attributes: Vec<Attribute>,
        output: u32,
    ) -> Result<(), Error> {
        let inputs = vec![vec![input]];
        let signature = open(kernel, &inputs, &attributes).map_err(|source| Error::Signature {
            kernel: kernel.to_owned(),
            layer,
            source,
        })?;
        check(kernel, layer, &signature, input, output)?;
        let owner = OperationId(layer.0);
        let mut parameters = Vec::with_capacity(signature.parameters.len());
        for (position, spec) in (0u32..).zip(&signature.parameters) {
            let (home, name) = home(kernel, layer, &spec.name);
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
            parameters.push(ParameterId(count(self.program.parameters.len())));
            self.program.parameters.push(Parameter {
                name,
                shape: spec.shape.clone(),
                initialiser: spec.initialiser,
                owner,
                position,
                layer: home,
            });
        }
        let kernel = kernel.to_owned();
        let operation = Operation { kernel, attributes, inputs, layer, signature, parameters };
        self.program.operations.push(operation);
        Ok(())
    }

    fn head(&self) -> OperationId {
        OperationId(number(self.program.model.layers.len()).0)
    }

    /// All layers, up to the rows that the head reads.
    fn forward(&mut self) {
        for at in 0..self.program.model.layers.len() {
            let layer = number(at);
            let width = self.program.model.layers[at].width();
            self.tensor_forward(OperationId(layer.0));
            if self.gathers(at) {
                self.rows = self.gather(layer, false, self.rows, width, SlotOf::Activation);
            }
        }
    }

    /// Whether a layer's product is gathered: not where the features have been before.
    fn gathers(&self, layer: usize) -> bool {
        layer > 0 || !self.program.savings.gathered_features
    }

    fn backward(&mut self) {
        let layers = self.program.model.layers.len();
        let classes = self.program.shape.classes;
        let mut gradient = self.slot(vec![classes], SlotOf::Gradient, number(layers - 1));
        let head = Tensor {
            operation: self.head(),
            direction: Direction::Loss,
            inputs: vec![self.rows],
            outputs: Vec::new(),
            kept: Vec::new(),
            gradients: Vec::new(),
            input_gradients: vec![Some(gradient)],
        };
        self.program.loss = Some(self.push(Stage::Tensor(head)));
        for at in (0..layers).rev() {
            let layer = number(at);
            let width = self.program.model.layers[at].width();
            let grad = match self.gathers(at) {
                true => self.gather(layer, true, gradient, width, SlotOf::Gradient),
                false => gradient,
            };
            let below = at.checked_sub(1).map(|below| {
                let extents = vec![self.program.model.input_width(at)];
                self.slot(extents, SlotOf::Gradient, number(below))
            });
            let forward = self.forward[at].clone();
            let signature = &self.program.operations[forward.operation.index()].signature;
            let needs = signature.backward_needs;
            let only = |wanted: bool, slots: Vec<SlotId>| if wanted { slots } else { Vec::new() };
            self.push(Stage::Tensor(Tensor {
                operation: forward.operation,
                direction: Direction::Backward,
                inputs: only(needs.inputs, forward.inputs),
                outputs: only(needs.outputs, forward.outputs),
                kept: forward.kept,
                gradients: vec![grad],
                input_gradients: vec![below],
            }));
            gradient = below.unwrap_or(grad);
        }
    }

    /// A forward stage of an operation with one input and one output; the output becomes the rows.
    fn tensor_forward(&mut self, operation: OperationId) -> SlotId {
        let Operation { layer, signature, .. } = &self.program.operations[operation.index()];
        let (layer, kept) = (*layer, signature.kept.clone());
        let outputs = signature.outputs.clone();
        let inputs = vec![self.rows];
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
        self.rows = tensor.outputs.first().copied().unwrap_or(self.rows);
        self.forward.push(tensor.clone());
        self.push(Stage::Tensor(tensor));
        self.rows
    }

    fn gather(&mut self, layer: Layer, transposed: bool, input: SlotId, width: u32, of: SlotOf) -> SlotId {
        let output = self.slot(vec![width], of, layer);
        let normalisation = Normalisation::Symmetric;
        self.push(Stage::Gather(Gather { layer, transposed, normalisation, input, output, width }));
        output
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

/// A model has at most 64 layers and a kernel at most [`MAX_PARTS`] parts, so this never saturates.
fn count(len: usize) -> u16 {
    u16::try_from(len).unwrap_or(u16::MAX)
}

fn number(layer: usize) -> Layer {
    Layer(count(layer))
}

/// How `linear` is opened for a layer: it also does what follows the layer before.
fn linear_attributes(layer: &Convolution, before: Option<&Convolution>) -> Vec<Attribute> {
    let mut attributes = vec![
        Attribute::new("out-features", Value::Integer(i64::from(layer.width))),
        Attribute::new("dropout", Value::Number(layer.dropout)),
        Attribute::new("bias", Value::Flag(false)),
    ];
    let (bias, activation) =
        before.map_or((false, Activation::Identity), |before| (before.bias, before.activation));
    attributes.push(Attribute::new("input-bias", Value::Flag(bias)));
    attributes.push(Attribute::new("input-activation", Value::Text(activation.name().to_owned())));
    attributes
}

/// The layer of the model that a kernel's parameter belongs to, and its name there: what follows a
/// layer is added by the next kernel.
fn home<'a>(kernel: &str, layer: Layer, name: &'a str) -> (Layer, &'a str) {
    let before = Layer(layer.0.saturating_sub(1));
    match name {
        INPUT_BIAS if kernel == LINEAR && layer.0 > 0 => (before, "bias"),
        _ if kernel == HEAD => (before, name),
        _ => (layer, name),
    }
}

/// Whether a signature fits: rows of one width in, of another out; the head has a loss.
fn check(kernel: &str, layer: Layer, signature: &Signature, input: u32, output: u32) -> Result<(), Error> {
    let refuse = |what, found: String, expected: String| {
        let kernel = kernel.to_owned();
        Err(Error::SignatureMismatch { kernel, layer, what, found, expected })
    };
    for (what, rows, width) in [("inputs", &signature.inputs, input), ("outputs", &signature.outputs, output)]
    {
        if rows.len() != 1 || rows[0].extents != [width] {
            let extents: Vec<&[u32]> = rows.iter().map(|rows| &rows.extents[..]).collect();
            return refuse(what, format!("have the extents {extents:?}"), format!("[[{width}]]"));
        }
    }
    if kernel == HEAD && !signature.has_loss {
        return refuse("loss", "is not offered".to_owned(), "a loss".to_owned());
    }
    if let Some(rows) = signature.kept.iter().find(|rows| rows.width().is_none_or(|w| w == 0)) {
        let found = format!("{:?} have the extents {:?}", rows.name, rows.extents);
        return refuse("kept rows", found, "1 to 2^32 - 1 values a row".to_owned());
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

//! Stage programs: what is done in one epoch, in order, on every interval.
//!
//! For a GCN of L layers, with T a tensor stage (kernel `linear`) and G a gather with
//! `N = D^-1/2 (A + I) D^-1/2`, transform first:
//!
//! ```text
//! forward   T0 G0 T1 G1 ... T(L-1) G(L-1)
//!           T0    = dropout(X) W0                        T(l) = dropout(act(rows + b(l-1))) W(l)
//! loss      head  = cross-entropy(rows + b(L-1)): loss and gradients in one stage
//! backward  G(L-1)' T(L-1)' ... G1' T1' G0' T0'          T0' gives no gradient of its input: X is data
//! ```
//!
//! Other models are directed graphs of such stages, with kernels `sum`, `activate` and `normalise` and with
//! gathers of other normalisations (`network`); backward is the reverse, with `sum` where several stages
//! give a gradient of the same rows.
//!
//! A `gat` layer is a kernel `attention`, whose rows are gathered with weights ([`Attend`]); backward that is
//! two steps, one by row and one over out-neighbours.
//!
//! Stages pass rows through *slots*; a slot is one matrix over all rows of the graph. A tensor stage
//! needs of each slot that it reads the rows of its own interval; a gather needs those of all
//! ([`Scope`]).

use crate::error::Error;
use crate::ids::{Layer, OperationId, ParameterId, SlotId, StageId};
use crate::lower;
use crate::model::{Attention, Model};
use crate::savings::Savings;
use crate::signature::{Attribute, Initialiser, Signature};

/// What a program needs to know of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataShape {
    /// Vertices.
    pub rows: u32,
    /// Features of a vertex.
    pub features: u32,
    /// Classes.
    pub classes: u32,
}

/// Opens a kernel: its name, the extents of one row of each input, its attributes.
pub type Open<'a, E> = dyn Fn(&str, &[Vec<u32>], &[Attribute]) -> Result<Signature, E> + 'a;

/// The stages of one epoch, or of one evaluation, with everything that they name.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// The data that it was made for.
    pub shape: DataShape,
    /// The model that it was made from.
    pub model: Model,
    /// What it leaves out. With gathered features the slot `features` holds `N X`.
    pub savings: Savings,
    /// In the order in which one interval does them; [`StageId`] is the place in this list.
    pub stages: Vec<Stage>,
    /// Row buffers; [`SlotId`] is the place in this list.
    pub slots: Vec<SlotSpec>,
    /// Kernels with their attributes; [`OperationId`] is the place in this list.
    pub operations: Vec<Operation>,
    /// What is trained; [`ParameterId`] is the place in this list. The same in the evaluation program.
    pub parameters: Vec<Parameter>,
    /// The data set's features. The driver fills this slot once; it is never written.
    pub features: SlotId,
    /// The class scores, in an evaluation program. They outlast the program.
    pub scores: Option<SlotId>,
    /// The rows that the last layer reads, in an evaluation program, if they are not the features. They
    /// outlast it as well.
    pub embeddings: Option<SlotId>,
    /// The stage that computes the loss, in a training program.
    pub loss: Option<StageId>,
}

/// One stage.
#[derive(Clone, Debug, PartialEq)]
pub enum Stage {
    /// A kernel's work on an interval's own rows: a task.
    Tensor(Tensor),
    /// Sums over neighbours: host work on the graph.
    Gather(Gather),
    /// Sums over neighbours with weights that rows say: host work on the graph.
    Attend(Attend),
}

/// Calls one of a kernel's functions on an interval's rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// The kernel with its attributes, and its parameters.
    pub operation: OperationId,
    /// Which function.
    pub direction: Direction,
    /// Forward, loss: read. Backward: read, and empty unless the signature needs them.
    pub inputs: Vec<SlotId>,
    /// Forward: written. Backward: read, and empty unless the signature needs them. Loss: empty.
    pub outputs: Vec<SlotId>,
    /// Forward: written. Backward: read. Loss: empty.
    pub kept: Vec<SlotId>,
    /// Backward: the gradients of the outputs, read.
    pub gradients: Vec<SlotId>,
    /// Backward, loss: the gradients of the inputs, written; `None` where nobody reads it.
    pub input_gradients: Vec<Option<SlotId>>,
}

/// Which of a kernel's functions a stage calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// `forward`
    Forward,
    /// `loss`: forward, loss and backward in one. Yields parameter gradients and a loss.
    Loss,
    /// `backward`: yields parameter gradients.
    Backward,
}

/// `output[v] = sum over u of n(u, v) input[u]`, over v's in-neighbours, with v itself where the
/// normalisation says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gather {
    /// The layer that it belongs to.
    pub layer: Layer,
    /// Whether the sum runs over out-neighbours, as the gradient of a gather does.
    pub transposed: bool,
    /// The n(u, v).
    pub normalisation: Normalisation,
    /// Read, on the rows of every interval.
    pub input: SlotId,
    /// Written, on the interval's rows.
    pub output: SlotId,
    /// Columns of both.
    pub width: u32,
}

/// One step of an attention, [`Attention`]; rows are laid out as `eciton-graph`'s `gather::attention` says.
#[derive(Clone, Debug, PartialEq)]
pub struct Attend {
    /// The layer that it belongs to, and that its random numbers depend on.
    pub layer: Layer,
    /// Heads, widths, dropout.
    pub attention: Attention,
    /// Which step, and what it reads and writes.
    pub step: AttendStep,
}

/// What a step of an attention does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttendStep {
    /// Weights and sums over in-neighbours.
    Forward {
        /// `[z | s | t]`, read on the rows of every interval.
        input: SlotId,
        /// Written.
        output: SlotId,
        /// Written, in training.
        kept: Option<SlotId>,
    },
    /// Backward, first by row: what sources need of their targets.
    Turn {
        /// As forward read it: the interval's own rows.
        input: SlotId,
        /// As forward wrote it.
        output: SlotId,
        /// As forward wrote it.
        kept: SlotId,
        /// Of the output.
        gradient: SlotId,
        /// Written.
        turned: SlotId,
    },
    /// Then sums over out-neighbours.
    Backward {
        /// Read on the rows of every interval.
        turned: SlotId,
        /// As forward read it: the interval's own rows.
        input: SlotId,
        /// Of the input, written.
        gradient: SlotId,
    },
}

/// Weights of edges in a gather.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Normalisation {
    /// `D^-1/2 (A + I) D^-1/2`, D the in-degrees of A + I: v itself is among the terms.
    Symmetric,
    /// 1 / in-degree of v: the mean; zero where there is no in-neighbour.
    Mean,
    /// 1: the sum.
    Sum,
}

impl Normalisation {
    /// Its name in plans.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Symmetric => "symmetric",
            Self::Mean => "mean",
            Self::Sum => "sum",
        }
    }
}

/// A row buffer: a matrix with a row for every row of the graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotSpec {
    /// Values a row.
    pub width: u32,
    /// Extents of one row; `width` is their product.
    pub extents: Vec<u32>,
    /// What it holds.
    pub of: SlotOf,
    /// The layer whose rows or gradients it holds.
    pub layer: Layer,
    /// The stage that writes it; `None` for the features.
    pub written_by: Option<StageId>,
    /// The last stage that needs it, at least the writer itself.
    pub kept_until: StageId,
}

/// What a slot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotOf {
    /// The data set's features.
    Features,
    /// Rows on their way forward.
    Activation,
    /// What a kernel's forward leaves for its backward.
    Kept,
    /// Gradients on their way back.
    Gradient,
}

/// A kernel opened with attributes. Forward and backward stages share one.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    /// The kernel's name.
    pub kernel: String,
    /// What tells it from its layer's others of the same kernel; may be empty.
    pub role: String,
    /// What it is opened with; the kernel's defaults hold for what is not named.
    pub attributes: Vec<Attribute>,
    /// Extents of one row of each input.
    pub inputs: Vec<Vec<u32>>,
    /// The layer that it belongs to.
    pub layer: Layer,
    /// The layer number that its tasks carry, which their random numbers depend on: the layer's, plus
    /// 65,536 for each earlier input that the layer drops values of by themselves.
    pub draw: u32,
    /// What it says it takes and gives.
    pub signature: Signature,
    /// Its parameters, in the signature's order.
    pub parameters: Vec<ParameterId>,
}

/// A trained matrix.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Unique in the program: `layers.0.weight`.
    pub name: String,
    /// Extents, rows first.
    pub shape: Vec<u32>,
    /// Its first values, drawn with `draw` as layer and `position` as stream.
    pub initialiser: Initialiser,
    /// The operation that reads it and yields its gradient.
    pub owner: OperationId,
    /// Its place in the owner's signature, as if the layer's product came first: the stream of its numbers.
    pub position: u32,
    /// The owner's layer, plus 65,536 for each operation of the layer and kernel before it.
    pub draw: u32,
    /// The layer of the model that it belongs to, by which weight decay is chosen. A bias that the
    /// next layer's kernel adds on the way in still belongs to its own layer.
    pub layer: Layer,
}

impl Parameter {
    /// Number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shape.iter().map(|&extent| extent as usize).product()
    }

    /// Whether there is nothing to train.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Whose rows of a slot a stage needs before it can start on an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// The interval's own.
    Own,
    /// Those of every interval.
    All,
}

impl Stage {
    /// The slots that it reads, each with whose rows.
    pub fn reads(&self) -> impl Iterator<Item = (SlotId, Scope)> {
        let none: &[SlotId] = &[];
        let one = std::slice::from_ref;
        let (own, all) = match self {
            Self::Gather(gather) => ([none; 4], Some(gather.input)),
            Self::Attend(attend) => match &attend.step {
                AttendStep::Forward { input, .. } => ([none; 4], Some(*input)),
                AttendStep::Turn { input, output, kept, gradient, .. } => {
                    ([one(input), one(output), one(kept), one(gradient)], None)
                }
                AttendStep::Backward { turned, input, .. } => ([one(input), none, none, none], Some(*turned)),
            },
            Self::Tensor(t) => match t.direction {
                Direction::Forward | Direction::Loss => ([&t.inputs, none, none, none], None),
                Direction::Backward => ([&t.inputs[..], &t.outputs, &t.kept, &t.gradients], None),
            },
        };
        let own = own.into_iter().flatten().map(|&slot| (slot, Scope::Own));
        own.chain(all.map(|slot| (slot, Scope::All)))
    }

    /// The slots that it writes, on its interval's rows.
    pub fn writes(&self) -> impl Iterator<Item = SlotId> {
        let none: &[SlotId] = &[];
        let (outputs, gradients) = match self {
            Self::Gather(gather) => ([std::slice::from_ref(&gather.output), none], &[][..]),
            Self::Attend(attend) => match &attend.step {
                AttendStep::Forward { output, kept, .. } => {
                    ([std::slice::from_ref(output), kept.as_slice()], &[][..])
                }
                AttendStep::Turn { turned: to, .. } | AttendStep::Backward { gradient: to, .. } => {
                    ([std::slice::from_ref(to), none], &[][..])
                }
            },
            Self::Tensor(t) if t.direction == Direction::Forward => ([&t.outputs[..], &t.kept[..]], &[][..]),
            Self::Tensor(t) => ([none, none], &t.input_gradients[..]),
        };
        outputs.into_iter().flatten().copied().chain(gradients.iter().copied().flatten())
    }

    /// Whether it is a task for a kernel; else it is the host's work.
    #[must_use]
    pub const fn is_task(&self) -> bool {
        matches!(self, Self::Tensor(_))
    }

    /// Whether it yields gradients of parameters (if its operation has any).
    #[must_use]
    pub fn yields_gradients(&self) -> bool {
        matches!(self, Self::Tensor(tensor) if tensor.direction != Direction::Forward)
    }
}

impl Program {
    /// The training program of a model. `signature` opens its kernels.
    ///
    /// # Errors
    /// [`Error::Signature`] if `signature` fails, [`Error::SignatureMismatch`] for a kernel that does
    /// not fit its place, [`Error::Data`] if the model was made for other data.
    pub fn build<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
        model: &Model,
        shape: DataShape,
        savings: Savings,
        signature: &Open<'_, E>,
    ) -> Result<Self, Error> {
        lower::training(model, shape, savings, &|kernel, inputs, attributes| {
            signature(kernel, inputs, attributes).map_err(Into::into)
        })
    }

    /// The forward part on its own, up to the class scores, with the same operations and parameters.
    /// Its tasks run with `training` false. Stages and slots are numbered anew.
    #[must_use]
    pub fn evaluation(&self) -> Self {
        lower::evaluation(self)
    }

    /// A stage by its number.
    #[must_use]
    pub fn stage(&self, stage: StageId) -> Option<&Stage> {
        self.stages.get(stage.index())
    }

    /// What a stage does, in words: `linear 1 backward`, `gather 0 transposed`. Evaluations and training
    /// share names.
    #[must_use]
    pub fn stage_name(&self, stage: StageId) -> String {
        match self.stage(stage) {
            Some(Stage::Gather(gather)) => {
                format!("gather {}{}", gather.layer, if gather.transposed { " transposed" } else { "" })
            }
            Some(Stage::Attend(attend)) => {
                let step = match attend.step {
                    AttendStep::Forward { .. } => "forward",
                    AttendStep::Turn { .. } => "turn",
                    AttendStep::Backward { .. } => "backward",
                };
                format!("attend {} {step}", attend.layer)
            }
            Some(Stage::Tensor(tensor)) => {
                let operation = self.operations.get(tensor.operation.index());
                let kernel = operation.map_or("task", |operation| &operation.kernel);
                let direction = match tensor.direction {
                    Direction::Forward => "forward",
                    Direction::Loss => "loss",
                    Direction::Backward => "backward",
                };
                let layer = operation.map_or(Layer(0), |operation| operation.layer);
                match operation.map(|operation| &operation.role[..]).filter(|role| !role.is_empty()) {
                    Some(role) => format!("{kernel} {layer} {role} {direction}"),
                    None => format!("{kernel} {layer} {direction}"),
                }
            }
            None => format!("stage {stage}"),
        }
    }

    /// A stage's operation; `None` for the host's work.
    #[must_use]
    pub fn operation(&self, stage: StageId) -> Option<&Operation> {
        match self.stage(stage)? {
            Stage::Tensor(tensor) => self.operations.get(tensor.operation.index()),
            Stage::Gather(_) | Stage::Attend(_) => None,
        }
    }

    /// The stages that must be done before `stage` can start on an interval, each once, in order,
    /// with the interval's own rows or all of them.
    #[must_use]
    pub fn dependencies(&self, stage: StageId) -> Vec<(StageId, Scope)> {
        let mut needed: Vec<(StageId, Scope)> = Vec::new();
        for (slot, scope) in self.stage(stage).into_iter().flat_map(Stage::reads) {
            let writer = self.slots.get(slot.index()).and_then(|spec| spec.written_by);
            needed.extend(writer.map(|writer| (writer, scope)));
        }
        needed.sort_unstable();
        // Of the same stage, `All` includes `Own` and sorts after it.
        needed.reverse();
        needed.dedup_by_key(|(stage, _)| *stage);
        needed.reverse();
        needed
    }

    /// Whether an epoch ends in an update of the weights.
    #[must_use]
    pub fn trains(&self) -> bool {
        self.stages.iter().any(Stage::yields_gradients)
    }
}

#[cfg(test)]
pub(crate) mod zoo;

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use crate::signature::{BackwardNeeds, ParameterSpec, RowsSpec, Value};

    /// What the kernels `linear` and `cross-entropy` say.
    pub(crate) fn signature(
        kernel: &str,
        inputs: &[Vec<u32>],
        attributes: &[Attribute],
    ) -> Result<Signature, String> {
        let find = |name: &str| attributes.iter().find(|a| a.name == name).map(|a| &a.value);
        let flag = |name: &str| find(name) == Some(&Value::Flag(true));
        let width = inputs[0][0];
        let parameter = |name: &str, shape: &[u32], initialiser| ParameterSpec {
            name: name.to_owned(),
            shape: shape.to_vec(),
            initialiser,
        };
        let rows = |width| vec![RowsSpec { name: "rows".into(), extents: vec![width] }];
        let mut signature = Signature { inputs: rows(width), ..Signature::default() };
        match kernel {
            "sum" | "activate" | "normalise" => {
                let spec = |at: usize| RowsSpec { name: format!("x{at}"), extents: inputs[at].clone() };
                signature.inputs = (0..inputs.len()).map(spec).collect();
                signature.outputs = rows(width);
                let shape: &[u32] = if kernel == "sum" { &[1] } else { &[width] };
                if flag("input-bias") {
                    signature.parameters.push(parameter("input-bias", shape, Initialiser::Zeros));
                }
                if flag("trained") {
                    signature.parameters.push(parameter("epsilon", shape, Initialiser::Constant(0.0)));
                }
                if kernel == "normalise" && find("by") != Some(&Value::Text("l2".to_owned())) {
                    signature.parameters.push(parameter("scale", shape, Initialiser::Constant(1.0)));
                    signature.parameters.push(parameter("shift", shape, Initialiser::Zeros));
                }
                let inputs = kernel != "sum" || flag("trained");
                signature.backward_needs = BackwardNeeds { inputs, outputs: false };
            }
            "linear" => {
                let Some(&Value::Integer(out)) = find("out-features") else {
                    return Err("out-features must be given".to_owned());
                };
                let out = u32::try_from(out).unwrap();
                signature.parameters = vec![parameter("weight", &[width, out], Initialiser::GlorotUniform)];
                if flag("input-bias") {
                    signature.parameters.push(parameter("input-bias", &[width], Initialiser::Zeros));
                }
                if flag("bias") {
                    signature.parameters.push(parameter("bias", &[out], Initialiser::Zeros));
                }
                signature.outputs = rows(out);
                signature.backward_needs = BackwardNeeds { inputs: true, outputs: false };
            }
            "attention" => {
                let (Some(&Value::Integer(heads)), Some(&Value::Integer(features))) =
                    (find("heads"), find("features"))
                else {
                    return Err("heads and features must be given".to_owned());
                };
                let values = u32::try_from(heads * features).unwrap();
                if flag("input-bias") {
                    signature.parameters.push(parameter("input-bias", &[width], Initialiser::Zeros));
                }
                let bound = Initialiser::Uniform((6.0 / (heads + features) as f32).sqrt());
                let weight = parameter("weight", &[width, values], Initialiser::GlorotUniform);
                let scores = ["source", "target"].map(|name| parameter(name, &[values], bound));
                signature.parameters.extend([weight].into_iter().chain(scores));
                signature.outputs = rows(values + 2 * u32::try_from(heads).unwrap());
                signature.backward_needs = BackwardNeeds { inputs: true, outputs: true };
            }
            "cross-entropy" => {
                if flag("bias") {
                    signature.parameters = vec![parameter("bias", &[width], Initialiser::Zeros)];
                }
                signature.outputs = rows(width);
                signature.has_loss = true;
            }
            other => return Err(format!("no kernel {other}")),
        }
        Ok(signature)
    }

    pub(crate) fn gcn(layers: u32, hidden: u32, features: u32, classes: u32) -> Program {
        let model = Model::gcn(layers, hidden, 0.5, features, classes).unwrap();
        let shape = DataShape { rows: 64, features, classes };
        Program::build(&model, shape, Savings::default(), &signature).unwrap()
    }

    pub(crate) fn sketch(program: &Program) -> Vec<String> {
        let stage = |stage: &Stage| match stage {
            Stage::Gather(g) => {
                let t = if g.transposed { "'" } else { "" };
                format!("gather{t} {}>{} x{}", g.input, g.output, g.width)
            }
            Stage::Attend(attend) => {
                let list = |all: &[SlotId]| all.iter().map(SlotId::to_string).collect::<Vec<_>>().join(",");
                let (step, reads, writes) = match attend.step {
                    AttendStep::Forward { input, output, kept } => {
                        ("forward", vec![input], [output].into_iter().chain(kept).collect())
                    }
                    AttendStep::Turn { input, output, kept, gradient, turned } => {
                        ("turn", vec![input, output, kept, gradient], vec![turned])
                    }
                    AttendStep::Backward { turned, input, gradient } => {
                        ("backward", vec![turned, input], vec![gradient])
                    }
                };
                format!("attend {step} {}>{}", list(&reads), list(&writes))
            }
            Stage::Tensor(t) => {
                let list = |slots: &mut dyn Iterator<Item = SlotId>| {
                    slots.map(|slot| slot.to_string()).collect::<Vec<_>>().join(",")
                };
                let whole = Stage::Tensor(t.clone());
                let reads = list(&mut whole.reads().map(|(slot, _)| slot));
                let writes = list(&mut whole.writes());
                let operation = &program.operations[t.operation.index()];
                format!("{} {} {:?} {reads}>{writes}", operation.kernel, operation.layer, t.direction)
            }
        };
        program.stages.iter().map(stage).collect()
    }

    #[test]
    fn two_layers_are_nine_stages() {
        let program = gcn(2, 16, 1433, 7);
        let wanted = [
            "linear 0 Forward 0>1",
            "gather 1>2 x16",
            "linear 1 Forward 2>3",
            "gather 3>4 x7",
            "cross-entropy 2 Loss 4>5",
            "gather' 5>6 x7",
            "linear 1 Backward 2,6>7",
            "gather' 7>8 x16",
            "linear 0 Backward 0,8>",
        ];
        assert_eq!(sketch(&program), wanted);
        let slots: Vec<(u32, SlotOf, u16, u16)> = program
            .slots
            .iter()
            .map(|s| (s.width, s.of, s.written_by.map_or(99, |w| w.0), s.kept_until.0))
            .collect();
        use SlotOf::{Activation, Features, Gradient};
        let wanted = [
            (1433, Features, 99, 8),
            (16, Activation, 0, 1),
            (16, Activation, 1, 6),
            (7, Activation, 2, 3),
            (7, Activation, 3, 4),
            (7, Gradient, 4, 5),
            (7, Gradient, 5, 6),
            (16, Gradient, 6, 7),
            (16, Gradient, 7, 8),
        ];
        assert_eq!(slots, wanted);
        assert_eq!(program.loss, Some(StageId(4)));
        assert_eq!(program.dependencies(StageId(1)), [(StageId(0), Scope::All)]);
        assert_eq!(program.dependencies(StageId(6)), [(StageId(1), Scope::Own), (StageId(5), Scope::Own)]);
        assert!(program.dependencies(StageId(0)).is_empty());
        assert!(program.trains());
        let names = [0, 1, 4, 5, 8, 9].map(|stage| program.stage_name(StageId(stage)));
        let wanted = ["linear 0 forward", "gather 0", "cross-entropy 2 loss", "gather 1 transposed"];
        assert_eq!(
            (&names[..4], &names[4..]),
            (&wanted.map(String::from)[..], &["linear 0 backward", "stage 9"].map(String::from)[..])
        );
    }

    #[test]
    fn gathered_features_leave_two_gathers_out() {
        let model = Model::gcn(2, 16, 0.0, 1433, 7).unwrap();
        let shape = DataShape { rows: 64, features: 1433, classes: 7 };
        let savings = Savings { gathered_features: true, ..Savings::default() };
        let program = Program::build(&model, shape, savings, &signature).unwrap();
        let wanted = [
            "linear 0 Forward 0>1",
            "linear 1 Forward 1>2",
            "gather 2>3 x7",
            "cross-entropy 2 Loss 3>4",
            "gather' 4>5 x7",
            "linear 1 Backward 1,5>6",
            "linear 0 Backward 0,6>",
        ];
        assert_eq!(sketch(&program), wanted);
        assert_eq!(sketch(&program.evaluation())[..3], wanted[..3]);
        assert_eq!(program.parameters, gcn(2, 16, 1433, 7).parameters);
    }

    #[test]
    fn parameters_belong_to_their_layers() {
        let program = gcn(2, 16, 1433, 7);
        let found: Vec<(&str, u16, u32, u16, usize)> = program
            .parameters
            .iter()
            .map(|p| (&p.name[..], p.owner.0, p.position, p.layer.0, p.len()))
            .collect();
        let wanted = [
            ("layers.0.weight", 0, 0, 0, 1433 * 16),
            ("layers.1.weight", 1, 0, 1, 16 * 7),
            ("layers.0.bias", 1, 1, 0, 16),
            ("layers.1.bias", 2, 0, 1, 7),
        ];
        assert_eq!(found, wanted);
        assert_eq!(program.operations[1].parameters, [ParameterId(1), ParameterId(2)]);
    }

    #[test]
    fn evaluation_is_the_forward_part() {
        let training = gcn(2, 16, 1433, 7);
        let program = training.evaluation();
        let wanted = [
            "linear 0 Forward 0>1",
            "gather 1>2 x16",
            "linear 1 Forward 2>3",
            "gather 3>4 x7",
            "cross-entropy 2 Forward 4>5",
        ];
        assert_eq!(sketch(&program), wanted);
        assert_eq!(program.scores, Some(SlotId(5)));
        assert_eq!(program.parameters, training.parameters);
        assert_eq!(program.operations, training.operations);
        assert!(!program.trains() && program.loss.is_none());
        assert_eq!(program.evaluation(), program);
    }

    #[test]
    fn every_stage_follows_what_it_reads_and_every_slot_has_a_reader() {
        for layers in 1..=64 {
            let program = gcn(layers, 5, 9, 3);
            assert_eq!(program.stages.len(), 4 * layers as usize + 1);
            for (id, stage) in (0u16..).map(StageId).zip(&program.stages) {
                for (before, _) in program.dependencies(id) {
                    assert!(before < id);
                }
                // Every interval passes every barrier: the rule of `Buffers` rests on it.
                let previous = id.0.checked_sub(1).map(StageId);
                let chained = program.dependencies(id).last().map(|last| last.0);
                let loss = program.loss.map(|loss| loss.0 + 1);
                assert!(chained == previous || loss == Some(id.0), "stage {id}");
                for slot in stage.writes() {
                    let spec = &program.slots[slot.index()];
                    assert_eq!(spec.written_by, Some(id));
                    assert!(spec.kept_until > id, "slot {slot} is never read");
                }
            }
        }
    }

    #[test]
    fn kept_rows_and_outputs_live_until_backward() {
        let keeping = |kernel: &str, inputs: &[Vec<u32>], attributes: &[Attribute]| {
            let mut found = signature(kernel, inputs, attributes)?;
            if kernel == "linear" {
                found.kept = vec![RowsSpec { name: "mask".into(), extents: vec![2, 3] }];
                found.backward_needs = BackwardNeeds { inputs: false, outputs: true };
            }
            Ok::<_, String>(found)
        };
        let model = Model::gcn(2, 4, 0.0, 9, 3).unwrap();
        let shape = DataShape { rows: 5, features: 9, classes: 3 };
        let program = Program::build(&model, shape, Savings::default(), &keeping).unwrap();
        let Stage::Tensor(last) = &program.stages[8] else { panic!("{:?}", program.stages) };
        assert!(last.inputs.is_empty() && last.outputs.len() == 1 && last.kept.len() == 1);
        let kept = &program.slots[last.kept[0].index()];
        assert_eq!((kept.width, kept.of, kept.kept_until), (6, SlotOf::Kept, StageId(8)));
        assert_eq!(program.slots[last.outputs[0].index()].kept_until, StageId(8));
    }

    #[test]
    fn kernels_that_do_not_fit_are_refused() {
        type Change = fn(&str, &mut Signature);
        let cases: [(Change, &str); 6] = [
            (|_, s| s.outputs.clear(), "outputs"),
            (|_, s| s.inputs[0].extents[0] += 1, "inputs"),
            (|_, s| s.has_loss = false, "loss"),
            (|_, s| s.kept = vec![RowsSpec { name: "k".into(), extents: vec![1 << 20; 3] }], "kept"),
            (
                |_, s| {
                    if let Some(p) = s.parameters.first_mut() {
                        p.shape = vec![0]
                    }
                },
                "parameter",
            ),
            (
                |_, s| {
                    if let Some(p) = s.parameters.first().cloned() {
                        s.parameters.push(p)
                    }
                },
                "twice",
            ),
        ];
        let model = Model::gcn(2, 4, 0.0, 9, 3).unwrap();
        let shape = DataShape { rows: 5, features: 9, classes: 3 };
        for (change, word) in cases {
            let changed = |kernel: &str, inputs: &[Vec<u32>], attributes: &[Attribute]| {
                let mut found = signature(kernel, inputs, attributes)?;
                change(kernel, &mut found);
                Ok::<_, String>(found)
            };
            let error = Program::build(&model, shape, Savings::default(), &changed).unwrap_err();
            assert!(matches!(error, Error::SignatureMismatch { .. }), "{error}");
            assert!(error.to_string().contains(word), "{word}: {error}");
        }
        let fails = |kernel: &str, _: &[Vec<u32>], _: &[Attribute]| {
            Err::<Signature, _>(format!("{kernel} is broken"))
        };
        let error = Program::build(&model, shape, Savings::default(), &fails).unwrap_err();
        assert_eq!(std::error::Error::source(&error).unwrap().to_string(), "linear is broken");
        let other = DataShape { classes: 4, ..shape };
        assert!(matches!(
            Program::build(&model, other, Savings::default(), &signature),
            Err(Error::Data { .. })
        ));
    }
}

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
//! A `gatv2` layer is two products, whose rows an *edge kernel* combines ([`Edges`]); backward that is two
//! steps as well, one over in-neighbours, by target, and one over out-neighbours, by source.
//!
//! A layer with batch normalisation has a stage over all rows behind it, backward two ([`BatchNorm`]), then kernel `normalise`.
//!
//! Where links are predicted the loss is no kernel's: a stage of the host compares pairs of rows ([`PairLoss`]).
//!
//! Stages pass rows through *slots*; a slot is one matrix over all rows of the graph. A tensor stage
//! needs of each slot that it reads the rows of its own interval; a gather needs those of all
//! ([`Scope`]).

use crate::error::Error;
use crate::ids::{Layer, OperationId, ParameterId, SlotId, StageId};
use crate::lower;
use crate::model::{Attention, Model, short_name};
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
    /// Features of an edge; 0: there are none.
    pub edge_features: u32,
}

/// Opens a kernel: its name, the extents of one row of each input, its attributes. An edge kernel's inputs
/// are source and target, and where it is told of them the features of an edge.
pub type Open<'a, E> = dyn Fn(&str, &[Vec<u32>], &[Attribute]) -> Result<Signature, E> + 'a;

/// The stages of one epoch, or of one evaluation, with everything that they name.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// The data that it was made for.
    pub shape: DataShape,
    /// The model that it was made from.
    pub model: Model,
    /// What it leaves out. With gathered features the slot `features` holds what was gathered, or `gathered` does.
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
    /// What was gathered of them before the first epoch, where it is read beside them. Never written as well.
    pub gathered: Option<SlotId>,
    /// The class scores, in an evaluation program. They outlast the program.
    pub scores: Option<SlotId>,
    /// The rows that the last layer reads, in an evaluation program, if they are not the features. They
    /// outlast it as well.
    pub embeddings: Option<SlotId>,
    /// The stage that computes the loss, in a training program.
    pub loss: Option<StageId>,
    /// Where the work of edge kernels may be done.
    pub edges: Place,
}

/// Where the work of a stage may be done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// On the host that holds the rows: one attempt, which writes in place.
    #[default]
    Host,
    /// On the host or by a function: a pure task, at which there may be several attempts.
    Anywhere,
}

/// One stage.
#[derive(Clone, Debug, PartialEq)]
pub enum Stage {
    /// A kernel's work on an interval's own rows.
    Tensor(Tensor),
    /// Sums over neighbours: host work on the graph.
    Gather(Gather),
    /// Sums over neighbours with weights that rows say: host work on the graph.
    Attend(Attend),
    /// The first half of a batch normalisation: host work on all rows.
    BatchNorm(BatchNorm),
    /// A kernel's work on edges.
    Edges(Edges),
    /// The loss of links: host work on pairs of rows.
    Pairs(PairLoss),
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
    /// Whose lists it follows.
    pub over: Over,
    /// Read, on the rows of every interval.
    pub input: SlotId,
    /// Written, on the interval's rows.
    pub output: SlotId,
    /// Columns of both.
    pub width: u32,
}

/// The loss of links and its gradient: binary cross-entropy of inner products, over linked vertices and as
/// many pairs without a link as the run draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairLoss {
    /// One after the model's last: the place of the head.
    pub layer: Layer,
    /// Read, on the rows of every interval.
    pub input: SlotId,
    /// Of the input, written on the interval's rows: of pairs one of whose ends is there.
    pub gradient: SlotId,
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

/// A step of a batch normalisation, up to its scale and shift, which are kernel `normalise`'s:
/// `h = (x - m) / s` by column, with m the mean and s^2 the variance over all rows, 1e-5 added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchNorm {
    /// The layer that it belongs to.
    pub layer: Layer,
    /// Which rows count: those of all vertices, or of those that stand for graphs.
    pub over: Over,
    /// Which step, and what it reads and writes.
    pub step: BatchNormStep,
}

/// What a step of a batch normalisation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchNormStep {
    /// Moments of all rows, and h of the interval's.
    Forward {
        /// x, read on the rows of every interval.
        input: SlotId,
        /// h, written.
        output: SlotId,
    },
    /// Backward, first by row: what means are to be taken of.
    Turn {
        /// h, as forward wrote it.
        output: SlotId,
        /// dh.
        gradient: SlotId,
        /// `[dh | dh h]`, written.
        turned: SlotId,
    },
    /// Then `dx = (dh - mean(dh) - h mean(dh h)) / s`.
    Backward {
        /// Read on the rows of every interval.
        turned: SlotId,
        /// h, as forward wrote it: the interval's own rows.
        output: SlotId,
        /// dx, written.
        gradient: SlotId,
    },
}

/// A step of an edge kernel, over lists of edges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edges {
    /// The kernel with its attributes, and its parameters.
    pub operation: OperationId,
    /// Which edges they are.
    pub along: Along,
    /// Which step, and what it reads and writes.
    pub step: EdgeStep,
}

/// Which edges an edge kernel works on, and what it is told of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Along {
    /// Whose lists it follows.
    pub over: Over,
    /// Whether each vertex counts among its own neighbours, last.
    pub with_self: bool,
    /// Whether it is told what is known of edges.
    pub features: bool,
}

/// What a step of an edge kernel does. Source and target may be one slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EdgeStep {
    /// `forward`: by target, over in-neighbours.
    Forward {
        /// Read on the rows of every interval.
        source: SlotId,
        /// The interval's own rows.
        target: SlotId,
        /// Written.
        output: SlotId,
        /// Written, also where nobody reads it.
        kept: Vec<SlotId>,
    },
    /// `backward-targets`: by target, over in-neighbours. Yields parameter gradients.
    Targets {
        /// As forward read it: the rows of every interval.
        source: SlotId,
        /// As forward read it.
        target: SlotId,
        /// As forward wrote it.
        kept: Vec<SlotId>,
        /// Of the output.
        gradient: SlotId,
        /// Of the target, written; `None` where nobody reads it.
        target_gradient: Option<SlotId>,
        /// Written: what sources need of their targets.
        passed: SlotId,
    },
    /// `backward-sources`: by source, over out-neighbours.
    Sources {
        /// Read on the rows of every interval.
        passed: SlotId,
        /// As forward read it: the interval's own rows.
        source: SlotId,
        /// Of the source, written.
        source_gradient: SlotId,
    },
}

/// Whose lists a stage on edges follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Over {
    /// Each vertex's neighbours.
    #[default]
    Neighbours,
    /// All vertices of its graph, for the vertex that stands for a graph; nobody for others.
    Graphs,
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
    /// The kernel's name; of the user's own the path of its component, as the model has it.
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
            Self::Pairs(pairs) => ([none; 4], Some(pairs.input)),
            Self::BatchNorm(batch) => match &batch.step {
                BatchNormStep::Forward { input, .. } => ([none; 4], Some(*input)),
                BatchNormStep::Turn { output, gradient, .. } => {
                    ([one(output), one(gradient), none, none], None)
                }
                BatchNormStep::Backward { turned, output, .. } => {
                    ([one(output), none, none, none], Some(*turned))
                }
            },
            Self::Attend(attend) => match &attend.step {
                AttendStep::Forward { input, .. } => ([none; 4], Some(*input)),
                AttendStep::Turn { input, output, kept, gradient, .. } => {
                    ([one(input), one(output), one(kept), one(gradient)], None)
                }
                AttendStep::Backward { turned, input, .. } => ([one(input), none, none, none], Some(*turned)),
            },
            Self::Edges(edges) => match &edges.step {
                EdgeStep::Forward { source, target, .. } => ([one(target), none, none, none], Some(*source)),
                EdgeStep::Targets { source, target, kept, gradient, .. } => {
                    ([one(target), kept, one(gradient), none], Some(*source))
                }
                EdgeStep::Sources { passed, source, .. } => ([one(source), none, none, none], Some(*passed)),
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
            Self::Pairs(pairs) => ([std::slice::from_ref(&pairs.gradient), none], &[][..]),
            Self::BatchNorm(batch) => match &batch.step {
                BatchNormStep::Forward { output: to, .. }
                | BatchNormStep::Turn { turned: to, .. }
                | BatchNormStep::Backward { gradient: to, .. } => ([std::slice::from_ref(to), none], &[][..]),
            },
            Self::Attend(attend) => match &attend.step {
                AttendStep::Forward { output, kept, .. } => {
                    ([std::slice::from_ref(output), kept.as_slice()], &[][..])
                }
                AttendStep::Turn { turned: to, .. } | AttendStep::Backward { gradient: to, .. } => {
                    ([std::slice::from_ref(to), none], &[][..])
                }
            },
            Self::Edges(edges) => match &edges.step {
                EdgeStep::Forward { output, kept, .. } => ([std::slice::from_ref(output), kept], &[][..]),
                EdgeStep::Targets { target_gradient, passed, .. } => {
                    ([std::slice::from_ref(passed), none], std::slice::from_ref(target_gradient))
                }
                EdgeStep::Sources { source_gradient, .. } => {
                    ([std::slice::from_ref(source_gradient), none], &[][..])
                }
            },
            Self::Tensor(t) if t.direction == Direction::Forward => ([&t.outputs[..], &t.kept[..]], &[][..]),
            Self::Tensor(t) => ([none, none], &t.input_gradients[..]),
        };
        outputs.into_iter().flatten().copied().chain(gradients.iter().copied().flatten())
    }

    /// Whether it yields gradients of parameters (if its operation has any).
    #[must_use]
    pub fn yields_gradients(&self) -> bool {
        match self {
            Self::Tensor(tensor) => tensor.direction != Direction::Forward,
            Self::Edges(edges) => matches!(edges.step, EdgeStep::Targets { .. }),
            Self::Gather(_) | Self::Attend(_) | Self::BatchNorm(_) | Self::Pairs(_) => false,
        }
    }

    /// Its kernel, with attributes and parameters; `None` where there is none.
    #[must_use]
    pub const fn operation(&self) -> Option<OperationId> {
        match self {
            Self::Tensor(tensor) => Some(tensor.operation),
            Self::Edges(edges) => Some(edges.operation),
            Self::Gather(_) | Self::Attend(_) | Self::BatchNorm(_) | Self::Pairs(_) => None,
        }
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
                let what = if gather.over == Over::Graphs { "readout" } else { "gather" };
                format!("{what} {}{}", gather.layer, if gather.transposed { " transposed" } else { "" })
            }
            Some(Stage::Pairs(pairs)) => format!("links {} loss", pairs.layer),
            Some(Stage::Attend(attend)) => {
                let step = match attend.step {
                    AttendStep::Forward { .. } => "forward",
                    AttendStep::Turn { .. } => "turn",
                    AttendStep::Backward { .. } => "backward",
                };
                format!("attend {} {step}", attend.layer)
            }
            Some(Stage::BatchNorm(batch)) => {
                let step = match batch.step {
                    BatchNormStep::Forward { .. } => "forward",
                    BatchNormStep::Turn { .. } => "turn",
                    BatchNormStep::Backward { .. } => "backward",
                };
                format!("batch {} {step}", batch.layer)
            }
            Some(Stage::Edges(edges)) => {
                let step = match edges.step {
                    EdgeStep::Forward { .. } => "forward",
                    EdgeStep::Targets { .. } => "targets",
                    EdgeStep::Sources { .. } => "sources",
                };
                self.kernel_stage_name(edges.operation, step)
            }
            Some(Stage::Tensor(tensor)) => {
                let direction = match tensor.direction {
                    Direction::Forward => "forward",
                    Direction::Loss => "loss",
                    Direction::Backward => "backward",
                };
                self.kernel_stage_name(tensor.operation, direction)
            }
            None => format!("stage {stage}"),
        }
    }

    fn kernel_stage_name(&self, operation: OperationId, step: &str) -> String {
        let Some(Operation { kernel, role, layer, .. }) = self.operations.get(operation.index()) else {
            return format!("task 0 {step}");
        };
        let kernel = short_name(kernel);
        match &role[..] {
            "" => format!("{kernel} {layer} {step}"),
            role => format!("{kernel} {layer} {role} {step}"),
        }
    }

    /// Where the work of a stage may be done.
    #[must_use]
    pub fn place(&self, stage: StageId) -> Place {
        match self.stage(stage) {
            Some(Stage::Tensor(_)) => Place::Anywhere,
            Some(Stage::Edges(_)) => self.edges,
            _ => Place::Host,
        }
    }

    /// The number of stages whose work may be done anywhere.
    #[must_use]
    pub fn tasks(&self) -> usize {
        let all = (0u16..).zip(&self.stages);
        all.filter(|(id, _)| self.place(StageId(*id)) == Place::Anywhere).count()
    }

    /// A stage's operation; `None` for work without a kernel.
    #[must_use]
    pub fn operation(&self, stage: StageId) -> Option<&Operation> {
        self.operations.get(self.stage(stage)?.operation()?.index())
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
pub(crate) mod tests;

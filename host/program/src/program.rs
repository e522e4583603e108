//! Stage programs: the ordered list of stages that one epoch runs on every interval.
//!
//! The program of a GCN with L layers, if the product comes before the gather. T is a tensor stage
//! (kernel `linear`), and G is a gather with `N = D^-1/2 (A + I) D^-1/2`. A prime marks a backward
//! stage.
//!
//! ```text
//! forward   T0 G0 T1 G1 ... T(L-1) G(L-1)
//!           T0    = dropout(X) W0                        T(l) = dropout(act(rows + b(l-1))) W(l)
//! loss      head  = cross-entropy(rows + b(L-1)): loss and gradients in one stage
//! backward  G(L-1)' T(L-1)' ... G1' T1' G0' T0'          T0' gives no gradient of its input: X is data
//! ```
//!
//! Other models are directed graphs of such stages. They also have the kernels `sum`, `activate`
//! and `normalise`, and gathers with other normalisations (`network`). Backward is the reverse
//! order, with a `sum` where several stages give a gradient of the same rows.
//!
//! An operation that reads rows of all intervals takes two backward steps. The first
//! ([`Phase::BackwardTargets`]) writes rows by target, which the sources of all intervals read in
//! the second ([`Phase::BackwardSources`]). Module `op` has one file for each operation.
//!
//! Stages pass rows through *slots*. A slot is one matrix over all rows of a domain. A tensor stage
//! reads the rows of its own interval, and a gather those of all intervals ([`Scope`]).

use crate::error::Result;
use crate::lower;
use crate::rewrites::Rewrites;
use eciton_recipe::model::Model;
pub(crate) use eciton_types::Normalisation;
use eciton_types::atoms::MAX_BATCH_ATOMS;
use eciton_types::ids::{DomainId, Layer, OperationId, ParameterId, RelationId, SlotId, StageId};
use eciton_types::signature::{Attribute, Initialiser, Signature};

/// Sizes of the data set that determine a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataShape {
    /// Number of vertices in the data set.
    pub rows: u32,
    /// Number of features per vertex.
    pub features: u32,
    /// Number of classes.
    pub classes: u32,
    /// Number of features per edge. If 0, edges have no features.
    pub edge_features: u32,
    /// Number of graphs or labelled edges in the data set. If 0, the task is on vertices.
    pub read_out: u32,
    /// Number of consecutive rows that form a sequence, which divides `rows`. If 1, rows are not
    /// sequences.
    pub group: u32,
}

/// Function that opens a kernel and returns its signature. The arguments are the kernel's name, the
/// extents of one row of each input, and the attributes. The inputs of an edge kernel are source,
/// target and, if it reads them, edge features.
pub type Open<'a, E> = dyn Fn(&str, &[Vec<u32>], &[Attribute]) -> Result<Signature, E> + 'a;

/// Stage program, which is the list of the stages of one epoch or of one evaluation. It also has
/// the slots, operations, relations and parameters to which the stages refer.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// Sizes of the data set for which the program was built.
    pub shape: DataShape,
    /// Model from which the program was built.
    pub model: Model,
    /// Optimisations that the program applies. If features are gathered before the first epoch, the
    /// gathered rows are in the slot `features` or in the slot `gathered`.
    pub rewrites: Rewrites,
    /// Stages in the order in which one interval runs them. [`StageId`] is the index in this list.
    pub stages: Vec<Stage>,
    /// Slots, which are row buffers. [`SlotId`] is the index in this list.
    pub slots: Vec<SlotSpec>,
    /// Operations, which are kernels and operators of the host, with their attributes.
    /// [`OperationId`] is the index in this list.
    pub operations: Vec<Operation>,
    /// Domains, which are the kinds of rows. [`DomainId`] is the index in this list. The first
    /// domain is the vertices.
    pub domains: Vec<Domain>,
    /// Relations, which are row lists that stages follow. [`RelationId`] is the index in this list.
    pub relations: Vec<Relation>,
    /// Trained parameters. [`ParameterId`] is the index in this list. The evaluation program has
    /// the same parameters.
    pub parameters: Vec<Parameter>,
    /// Further uses of parameters, by layers that share another layer's weight. A [`ParameterId`]
    /// past the end of `parameters` is an index in this list. A use has the values of its parameter
    /// and its own gradient. The gradient of the parameter is the sum of its own gradient and those
    /// of its uses, in this order.
    pub uses: Vec<ParameterId>,
    /// Slot of the data set's features. The code that runs the program fills the slot once, and no
    /// stage writes it.
    pub features: SlotId,
    /// Slot of the features that were gathered before the first epoch, if stages read them in
    /// addition to `features`. No stage writes the slot.
    pub gathered: Option<SlotId>,
    /// Slot of the features of labelled edges, if stages read them. No stage writes the slot.
    pub edge_rows: Option<SlotId>,
    /// Slot of the class scores, in an evaluation program. Its rows are still needed after the last
    /// stage.
    pub scores: Option<SlotId>,
    /// Slot of the rows that the last layer reads, in an evaluation program. It is `None` if these
    /// rows are the features. The rows are still needed after the last stage.
    pub embeddings: Option<SlotId>,
    /// Losses of a training program, with the stages that compute them. The loss of the last layer
    /// is the first.
    pub losses: Vec<LossOf>,
    /// Number of micro-batches, if each micro-batch has its own graph. Micro-batches then take the
    /// place of intervals in the schedule, and a stage that reads all rows reads those of its
    /// micro-batch. If `None`, all intervals belong to one graph.
    pub apart: Option<u32>,
    /// Stage that chooses the rows of micro-batches ([`Program::sample`]). If `None`, the rows are
    /// those of the data set.
    pub sampling: Option<StageId>,
}

/// Term of the training loss, which is the weighted sum of all terms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossOf {
    /// Stage that computes this term.
    pub stage: StageId,
    /// Factor of this term in the sum.
    pub weight: f32,
}

/// Stage of a program, which applies one function of an operation (forward, loss or backward) to
/// rows in slots. Schedulers and executors need only these fields. The operator itself knows what
/// the function computes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stage {
    /// Description of the stage, for instance `linear 1 backward` or `gather 0 transposed`. A stage
    /// has the same name in evaluation programs.
    pub name: String,
    /// Operation that the stage runs, with its attributes and parameters.
    pub operation: OperationId,
    /// Function of the operation that the stage runs: forward, loss or backward.
    pub phase: Phase,
    /// Placement of the stage, which is the host, any executor, or a lane of the pipeline.
    pub place: Place,
    /// Number of the stage's chunk on its lane, from 0. A lane (a worker's share of the pipeline)
    /// may have several chunks, which are separate runs of stages ([`eciton_planner::policy`]).
    pub chunk: u16,
    /// Domain (kind of rows, for instance vertices) of the rows that the stage computes.
    pub domain: DomainId,
    /// Relation whose row lists the stage follows, or `None` if the stage follows no lists.
    pub via: Option<RelationId>,
    /// Slots (row buffers) that the stage reads.
    pub reads: Vec<Read>,
    /// Slots whose rows of the stage's interval the stage writes, one entry per output. The entry
    /// of an output that no stage reads is `None`.
    pub writes: Vec<Option<SlotId>>,
    /// Parameters whose gradients the stage computes.
    pub sums: Vec<ParameterId>,
    /// True if the slots that the stage touches are always stored as f32, regardless of the run's
    /// row format.
    pub exact: bool,
    /// Cost of the stage for one row.
    pub cost: Cost,
}

/// Read access of a stage to a slot (row buffer).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// Slot that is read.
    pub slot: SlotId,
    /// Intervals whose rows the stage reads.
    pub scope: Scope,
    /// Role of the rows in the stage's function.
    pub port: Port,
}

/// Role that the rows of a slot have in a stage that reads them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// Input of the forward function.
    Input,
    /// Output of the forward function.
    Output,
    /// Rows that the forward function, or the previous backward step, stashed for this stage.
    Stashed,
    /// Gradient of an output.
    Gradient,
}

/// Function of an operation that a stage runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Forward function.
    #[default]
    Forward,
    /// Forward, loss and backward in one function. It computes parameter gradients and a loss.
    Loss,
    /// Backward in one step, which computes parameter gradients.
    Backward,
    /// First of two backward steps, by target row. It computes parameter gradients.
    BackwardTargets,
    /// Second of two backward steps, by source row. It reads the rows that the first step stashed
    /// for all targets.
    BackwardSources,
}

/// Placement of a stage, which is the host, any executor, or a lane of the pipeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// The stage runs on the host, which has the rows. Each step (the stage on one interval) has
    /// one attempt, which writes its rows in place.
    #[default]
    Host,
    /// The stage runs on the host or in a function. Its steps are pure tasks, so a step may have
    /// several attempts.
    Anywhere,
    /// The stage runs on the lane with this number (a worker's share of the pipeline) of a replica.
    /// Its steps are pure tasks. A lane runs one step at a time ([`eciton_recipe::lanes`]).
    Lane(u16),
}

impl Place {
    /// Returns true if the steps of a stage with this placement are tasks, which may run outside
    /// the host.
    #[must_use]
    pub const fn is_task(self) -> bool {
        !matches!(self, Self::Host)
    }
}

/// Cost of a stage for one row, counted from the program. The number of bytes is not included,
/// because it follows from the stage's slots.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Floating-point operations, except those of products with features.
    pub flops: f64,
    /// Floating-point operations of products with features, if all feature values are stored. They
    /// are added to `flops`, in proportion to the stored values.
    pub feature_flops: f64,
    /// Number of values that the stage sums for each edge of the row.
    pub edge_values: u32,
}

/// Domain, which is a kind of rows, such as vertices or graphs. Every interval of vertices also has
/// rows of every other domain, for instance those of its graphs. A step therefore has one interval
/// number for all domains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Domain {
    /// Kind of object that a row describes.
    pub of: RowsOf,
    /// Number of rows in the domain.
    pub rows: u32,
}

/// Kind of object that a row describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowsOf {
    /// A vertex of a graph.
    Vertices,
    /// A graph, in a data set of several graphs, or a labelled edge. The stages after a readout compute
    /// such rows.
    ReadOut,
    /// An atom, which is a block of consecutive rows of the vertices or the graphs. Norms over all rows
    /// compute moments of atoms.
    Atoms,
}

impl Domain {
    /// Id of the domain of the vertices, in every program.
    pub const VERTICES: DomainId = DomainId(0);
    /// Id of the domain of the graphs or labelled edges, in a program with a readout.
    pub const READ_OUT: DomainId = DomainId(1);
    /// Id of the domain of the atoms, in every program. It has as many rows as a data set or a
    /// micro-batch has atoms at most.
    pub const ATOMS: DomainId = DomainId(2);
}

/// Relation, which has for each row of a stage's result the list of rows from which the stage
/// computes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relation {
    /// Kind of the lists, for instance neighbours.
    pub over: Over,
    /// True if the relation is reversed, so that each source has the list of its targets. Gradients
    /// follow reversed lists.
    pub reversed: bool,
    /// True if the lists omit pairs whose target does not affect the loss. Such pairs would add
    /// zeros, or no stage that affects the loss reads their results ([`Program::reach`]).
    pub reached: bool,
}

/// Edges on which an edge kernel works, and whether the kernel reads their features.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Along {
    /// Kind of the lists that the kernel follows.
    pub over: Over,
    /// True if each vertex is also the last of its own neighbours.
    pub with_self: bool,
    /// True if the kernel reads the features of edges.
    pub features: bool,
}

/// Kind of the row lists of a relation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Over {
    /// Each vertex has the list of its neighbours.
    #[default]
    Neighbours,
    /// Each graph has the list of its vertices. The sources are vertices, and the targets are
    /// graphs.
    Graphs,
    /// Each labelled edge has its source vertex.
    EdgeSources,
    /// Each labelled edge has its target vertex.
    EdgeTargets,
}

impl Over {
    /// Returns true if the rows that a stage computes from the lists are those of graphs or of
    /// labelled edges.
    #[must_use]
    pub const fn is_readout(self) -> bool {
        !matches!(self, Self::Neighbours)
    }
}

/// Slot, which is a row buffer. It is a matrix with one row for every row of its domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotSpec {
    /// Number of values in a row.
    pub width: u32,
    /// Extents (sizes of the dimensions) of one row. Their product is `width`.
    pub extents: Vec<u32>,
    /// Domain (kind of rows) of the slot.
    pub domain: DomainId,
    /// Kind of the slot's content: features, activations, stashed rows or gradients.
    pub of: SlotOf,
    /// Layer to which the rows or gradients in the slot belong.
    pub layer: Layer,
    /// Stage that writes the slot. It is `None` for the features and, in a fused program, for slots
    /// that only one fused stage touches.
    pub written_by: Option<StageId>,
    /// Last stage that needs the rows of the slot. For rows that no stage reads, it is the writer.
    pub needed_until: StageId,
}

/// Kind of a slot's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotOf {
    /// Features of the data set.
    Features,
    /// Rows that forward stages compute for later stages.
    Activation,
    /// Rows that a kernel's forward function stashes for its backward function.
    Stashed,
    /// Gradients that backward stages pass on.
    Gradient,
}

/// Operation of a program, which is a kernel or an operator of the host, with its attributes. The
/// forward and backward stages of a layer's operation share one entry.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    /// Name of the kernel or of the operator. For a user's kernel, it is the path of the component
    /// as given in the model.
    pub kernel: String,
    /// Role that distinguishes the operation from others of the same kernel in its layer, for
    /// instance `self`. It may be empty.
    pub role: String,
    /// Attributes with which the kernel is opened. The kernel uses its defaults for all other
    /// attributes.
    pub attributes: Vec<Attribute>,
    /// Extents of one row of each input.
    pub inputs: Vec<Vec<u32>>,
    /// Layer of the operation.
    pub layer: Layer,
    /// Layer number from which the operation's tasks draw random numbers, for instance for dropout.
    /// It is the layer's number, plus 65,536 times the position if the layer applies dropout at
    /// several positions.
    pub draw: u32,
    /// Inputs, outputs and parameters that the kernel declares. `None` for operators of the host,
    /// which work on the graph.
    pub signature: Option<Signature>,
    /// Edges on which an edge kernel works. `None` for all other operations.
    pub along: Option<Along>,
    /// Parameters of the operation, in the order of the signature.
    pub parameters: Vec<ParameterId>,
}

/// Parameter, which is a matrix that the optimiser or the host updates.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Name that is unique in the program, for instance `layers.0.weight`.
    pub name: String,
    /// Extents of the matrix, rows first.
    pub shape: Vec<u32>,
    /// Distribution of the initial values. Their random numbers depend on `draw` as the layer and
    /// on `position` as the stream.
    pub initialiser: Initialiser,
    /// Stream number in the random numbers of the initial values. It is the parameter's index in
    /// its kernel's signature, counted as if the layer's product were the first parameter.
    pub position: u32,
    /// Layer number in the random numbers of the initial values. It is the layer of the parameter's
    /// kernel, plus 65,536 for each earlier operation of the same layer and kernel.
    pub draw: u32,
    /// Layer of the model to which the parameter belongs. The layer determines its weight decay. A
    /// bias that the next layer's kernel adds to its inputs still belongs to its own layer.
    pub layer: Layer,
    /// True if the parameter has no gradient. The host computes its values from the rows of each batch,
    /// for instance running moments of a norm.
    pub is_statistic: bool,
}

impl Parameter {
    /// Returns the number of values in the matrix.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shape.iter().map(|&extent| extent as usize).product()
    }

    /// Returns true if the parameter has no values.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Intervals whose rows of a slot a stage reads. These rows must exist before the stage can start
/// on an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Rows of the stage's own interval.
    Own,
    /// Rows of every interval.
    All,
}

impl Stage {
    /// Adds slots to those that the stage reads, all with the same scope and port.
    pub(crate) fn read(&mut self, slots: impl IntoIterator<Item = SlotId>, scope: Scope, port: Port) {
        self.reads.extend(slots.into_iter().map(|slot| Read { slot, scope, port }));
    }

    /// Returns the slots that the stage reads, each with the intervals whose rows it reads.
    pub fn reads(&self) -> impl Iterator<Item = (SlotId, Scope)> {
        self.reads.iter().map(|read| (read.slot, read.scope))
    }

    /// Returns the slots that the stage reads through a port, in order.
    pub fn port(&self, port: Port) -> impl Iterator<Item = SlotId> {
        self.reads.iter().filter(move |read| read.port == port).map(|read| read.slot)
    }

    /// Returns the slots whose rows of all intervals the stage reads, in order.
    pub fn all(&self) -> impl Iterator<Item = SlotId> {
        self.reads.iter().filter(|read| read.scope == Scope::All).map(|read| read.slot)
    }

    /// Returns the slots whose rows of its own interval the stage reads, in order.
    pub fn own(&self) -> impl Iterator<Item = SlotId> {
        self.reads.iter().filter(|read| read.scope == Scope::Own).map(|read| read.slot)
    }

    /// Returns the slots that the stage writes, in order. Outputs that no stage reads are left out.
    pub fn writes(&self) -> impl Iterator<Item = SlotId> {
        self.writes.iter().copied().flatten()
    }

    /// Returns true if the stage reads or writes the slot.
    #[must_use]
    pub fn touches(&self, slot: SlotId) -> bool {
        self.reads.iter().any(|read| read.slot == slot) || self.writes.contains(&Some(slot))
    }
}

impl Program {
    /// Returns the slots that no stage writes, because they have data of the data set.
    pub fn constants(&self) -> impl Iterator<Item = SlotId> {
        [Some(self.features), self.gathered, self.edge_rows].into_iter().flatten()
    }

    /// Builds the training program of a model for a data set of this shape. `signature` opens a
    /// kernel and returns its signature.
    ///
    /// # Errors
    /// Returns [`Signature`](crate::Error::Signature) if `signature` fails. Returns
    /// [`SignatureMismatch`](crate::Error::SignatureMismatch) if the signature of a kernel does not
    /// fit the model. Returns [`Data`](eciton_recipe::Error::Data) if the model was resolved for
    /// other data.
    pub fn build<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
        model: &Model,
        shape: DataShape,
        rewrites: Rewrites,
        signature: &Open<'_, E>,
    ) -> Result<Self> {
        lower::training(model, shape, rewrites, &|kernel, inputs, attributes| {
            signature(kernel, inputs, attributes).map_err(Into::into)
        })
    }

    /// Returns the evaluation program, which has the forward stages up to the class scores. It has
    /// the same operations and parameters, but its stages and slots have new numbers. Its tasks run
    /// with `training` set to false.
    #[must_use]
    pub fn evaluation(&self) -> Self {
        lower::evaluation(self)
    }

    /// Returns the program without embeddings, for evaluations that need only scores. The slot of
    /// [`Program::embeddings`] is then needed only until its last reader.
    #[must_use]
    pub fn without_embeddings(mut self) -> Self {
        let Some(slot) = self.embeddings.take().filter(|&slot| self.scores != Some(slot)) else {
            return self;
        };
        let touches = |stage: &Stage| stage.reads().any(|(read, _)| read == slot);
        let last = self.stages.iter().rposition(touches);
        if let Some(spec) = self.slots.get_mut(slot.index()) {
            // A program has at most 2^16 stages.
            let read = last.map(|last| StageId(last as u16));
            spec.needed_until = read.or(spec.written_by).unwrap_or(spec.needed_until);
        }
        self
    }

    /// Returns the number of values that the optimiser trains.
    #[must_use]
    pub fn trained_values(&self) -> u64 {
        self.parameters.iter().filter(|p| !p.is_statistic).map(|p| p.len() as u64).sum()
    }

    /// Returns the id of the trained parameter whose values `id` has. It differs from `id` only if
    /// `id` is a further use of a shared parameter.
    #[must_use]
    pub fn owner(&self, id: ParameterId) -> ParameterId {
        let further = id.index().checked_sub(self.parameters.len());
        further.and_then(|at| self.uses.get(at)).copied().unwrap_or(id)
    }

    /// Returns the trained parameter whose values `id` has, or `None` if there is none. `id` may be
    /// a further use of a shared parameter.
    #[must_use]
    pub fn parameter(&self, id: ParameterId) -> Option<&Parameter> {
        self.parameters.get(self.owner(id).index())
    }

    /// Returns the stage with this number, or `None` if the program has no such stage.
    #[must_use]
    pub fn stage(&self, stage: StageId) -> Option<&Stage> {
        self.stages.get(stage.index())
    }

    /// Returns the name of a stage ([`Stage::name`]), or `stage` and its number if the program has
    /// no such stage.
    #[must_use]
    pub fn stage_name(&self, stage: StageId) -> String {
        self.stage(stage).map_or_else(|| format!("stage {stage}"), |found| found.name.clone())
    }

    /// Returns the placement of a stage. It is the host if the program has no such stage.
    #[must_use]
    pub fn place(&self, stage: StageId) -> Place {
        self.stage(stage).map_or(Place::Host, |stage| stage.place)
    }

    /// Returns the number of stages that may run outside the host.
    #[must_use]
    pub fn tasks(&self) -> usize {
        self.stages.iter().filter(|stage| stage.place.is_task()).count()
    }

    /// Returns all stages except the one that chooses the rows of micro-batches.
    #[must_use]
    pub fn computing(&self) -> &[Stage] {
        let end = self.sampling.map_or(self.stages.len(), StageId::index);
        self.stages.get(..end).unwrap_or_default()
    }

    /// Returns the operation of a stage, or `None` if the stage has none.
    #[must_use]
    pub fn operation(&self, stage: StageId) -> Option<&Operation> {
        self.operations.get(self.stage(stage)?.operation.index())
    }

    /// Returns the relation of a stage, or `None` if the stage follows no lists.
    #[must_use]
    pub fn relation(&self, stage: StageId) -> Option<&Relation> {
        self.relations.get(self.stage(stage)?.via?.index())
    }

    /// Returns the number of rows of a domain.
    #[must_use]
    pub fn rows(&self, domain: DomainId) -> u32 {
        self.domains.get(domain.index()).map_or(0, |domain| domain.rows)
    }

    /// Returns the domain of a slot's rows.
    #[must_use]
    pub fn domain_of(&self, slot: SlotId) -> DomainId {
        self.slots.get(slot.index()).map_or(Domain::VERTICES, |slot| slot.domain)
    }

    /// Makes these gathers omit pairs whose target does not affect the loss ([`loss_gathers`]).
    ///
    /// [`loss_gathers`]: crate::loss_gathers
    pub fn reach(&mut self, gathers: &[StageId]) {
        for stage in gathers {
            let Some(relation) = self.relation(*stage) else { continue };
            let reached = Relation { reached: true, ..*relation };
            let via = self.enter_relation(reached);
            if let Some(stage) = self.stages.get_mut(stage.index()) {
                stage.via = Some(via);
            }
        }
    }

    /// Returns the id of a relation, and adds the relation to the program if it is new.
    pub(crate) fn enter_relation(&mut self, relation: Relation) -> RelationId {
        let known = self.relations.iter().position(|known| *known == relation);
        let at = known.unwrap_or_else(|| {
            self.relations.push(relation);
            self.relations.len() - 1
        });
        // There are at most eight.
        RelationId(at as u16)
    }

    /// Divides the program into `parts` micro-batches. Each micro-batch has its own graph of at
    /// most `rows` rows, and takes the place of an interval. In a data set of many graphs, it has at
    /// most `graphs` graphs.
    pub fn set_apart(&mut self, parts: u32, rows: u32, graphs: u32) {
        self.apart = Some(parts);
        for (domain, rows) in self.domains.iter_mut().zip([rows, graphs, MAX_BATCH_ATOMS]) {
            domain.rows = rows.saturating_mul(parts);
        }
    }

    /// Adds the stage that chooses the rows of each micro-batch in a round (one optimiser step).
    ///
    /// The stage has no operation. It has the highest number, but all other stages of a micro-batch
    /// run after it. The weights of rows depend on all micro-batches of a round. The stage
    /// therefore ends on a micro-batch only after the rows of all of them are known. Micro-batches
    /// enter a round one after the other, so a micro-batch does not wait here for steps of another.
    pub fn sample(&mut self) {
        // Ids are 16 bits.
        let stage = self.stages.len() as u16;
        let operation = OperationId(u16::MAX);
        self.stages.push(Stage { name: "sample".to_owned(), operation, ..Stage::default() });
        self.sampling = Some(StageId(stage));
    }

    /// Sets the placement of all stages that run an edge kernel.
    pub fn place_edges(&mut self, place: Place) {
        for stage in &mut self.stages {
            if self.operations.get(stage.operation.index()).is_some_and(|operation| operation.along.is_some())
            {
                stage.place = place;
            }
        }
    }

    /// Returns the stages that must run before `stage` can start on an interval, each once and in
    /// order. A stage with the scope `Own` must have run on the same interval, and one with the
    /// scope `All` on every interval.
    #[must_use]
    pub fn dependencies(&self, stage: StageId) -> Vec<(StageId, Scope)> {
        let mut needed: Vec<(StageId, Scope)> = Vec::new();
        for (slot, scope) in self.stage(stage).into_iter().flat_map(Stage::reads) {
            let writer = self.slots.get(slot.index()).and_then(|spec| spec.written_by);
            let scope = if self.apart.is_some() { Scope::Own } else { scope };
            needed.extend(writer.map(|writer| (writer, scope)));
        }
        needed.sort_unstable();
        // Of the same stage, `All` includes `Own` and sorts after it.
        needed.reverse();
        needed.dedup_by_key(|(stage, _)| *stage);
        needed.reverse();
        if needed.is_empty() {
            needed.extend(self.sampling.filter(|&first| first != stage).map(|first| (first, Scope::Own)));
        }
        needed
    }

    /// Returns true if the program is a training program, so that an epoch updates the weights.
    #[must_use]
    pub fn trains(&self) -> bool {
        !self.losses.is_empty()
    }

    /// Makes the rows of all slots last until the last stage, so that any step can be repeated.
    pub fn keep_rows(&mut self) {
        // A program has at most 2^16 stages.
        let last = StageId(self.stages.len().saturating_sub(1) as u16);
        self.slots.iter_mut().for_each(|spec| spec.needed_until = last);
    }

    /// Returns the stage that computes the last layer's loss, or `None` for an evaluation program.
    #[must_use]
    pub fn loss(&self) -> Option<StageId> {
        self.losses.first().map(|loss| loss.stage)
    }

    /// Returns the index of a stage's loss in [`Program::losses`], or `None` if the stage computes
    /// no loss.
    #[must_use]
    pub fn loss_of(&self, stage: StageId) -> Option<usize> {
        self.losses.iter().position(|loss| loss.stage == stage)
    }
}

mod arrange;
mod hops;
pub use hops::Hops;

#[cfg(test)]
mod zoo;

#[cfg(test)]
pub(crate) mod tests;

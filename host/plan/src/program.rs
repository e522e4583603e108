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
//! Other models are directed graphs of such stages, with kernels `sum`, `activate` and `normalise`
//! and with gathers of other normalisations (`network`); backward is the reverse, with `sum` where
//! several stages give a gradient of the same rows.
//!
//! An operation that reads rows of all intervals takes two steps backward: one by target, whose
//! rows all sources then read ([`Phase::BackwardTargets`], [`Phase::BackwardSources`]). One file an
//! operator is in `op`.
//!
//! Stages pass rows through *slots*; a slot is one matrix over all rows of a domain. A tensor stage
//! needs of each slot that it reads the rows of its own interval; a gather needs those of all
//! ([`Scope`]).

use crate::error::Result;
use crate::ids::{DomainId, Layer, OperationId, ParameterId, RelationId, SlotId, StageId};
use crate::lower;
use crate::model::Model;
use crate::savings::Savings;
use crate::signature::{Attribute, Initialiser, Signature};
pub(crate) use eciton_types::Normalisation;

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
    /// Graphs; 0: there is one, and what is learnt is of vertices.
    pub graphs: u32,
    /// Rows of a sequence, one after another; 1: rows are none. Divides the number of rows.
    pub group: u32,
}

/// Opens a kernel: its name, the extents of one row of each input, its attributes. An edge kernel's
/// inputs are source and target, and where it is told of them the features of an edge.
pub type Open<'a, E> = dyn Fn(&str, &[Vec<u32>], &[Attribute]) -> Result<Signature, E> + 'a;

/// The stages of one epoch, or of one evaluation, with everything that they name.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// The data that it was made for.
    pub shape: DataShape,
    /// The model that it was made from.
    pub model: Model,
    /// What it leaves out. With gathered features the slot `features` holds what was gathered, or
    /// `gathered` does.
    pub savings: Savings,
    /// In the order in which one interval does them; [`StageId`] is the place in this list.
    pub stages: Vec<Stage>,
    /// Row buffers; [`SlotId`] is the place in this list.
    pub slots: Vec<SlotSpec>,
    /// Kernels and operators of the host with their attributes; [`OperationId`] is the place in
    /// this list.
    pub operations: Vec<Operation>,
    /// The kinds of rows; [`DomainId`] is the place in this list. The first are vertices.
    pub domains: Vec<Domain>,
    /// The lists that stages follow; [`RelationId`] is the place in this list.
    pub relations: Vec<Relation>,
    /// What is trained; [`ParameterId`] is the place in this list. The same in the evaluation
    /// program.
    pub parameters: Vec<Parameter>,
    /// Further uses of parameters, by layers that have a weight in common with another:
    /// [`ParameterId`] past the end of `parameters` is a place in this list. A use has the
    /// parameter's values and a gradient of its own; the parameter's is the sum, its own first and
    /// then in this order.
    pub uses: Vec<ParameterId>,
    /// The data set's features. The driver fills this slot once; it is never written.
    pub features: SlotId,
    /// What was gathered of them before the first epoch, where it is read beside them. Never
    /// written as well.
    pub gathered: Option<SlotId>,
    /// The class scores, in an evaluation program. They outlast the program.
    pub scores: Option<SlotId>,
    /// The rows that the last layer reads, in an evaluation program, if they are not the features.
    /// They outlast it as well.
    pub embeddings: Option<SlotId>,
    /// The stages that compute losses, in a training program: the last layer's first.
    pub losses: Vec<LossOf>,
    /// Parts of a batch, which stand where intervals do: each has a graph of its own, and what a
    /// stage reads of all rows are those of its part. `None`: intervals of one graph.
    pub apart: Option<u32>,
    /// The stage that chooses the rows of parts ([`Program::sample`]). `None`: rows are the data
    /// set's.
    pub sampling: Option<StageId>,
}

/// A part of the loss, which is the sum of all.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossOf {
    /// The stage that computes it.
    pub stage: StageId,
    /// What it counts.
    pub weight: f32,
}

/// One stage: an operation's function over rows that lie in slots. Whoever schedules, stores,
/// counts or draws stages reads these fields; what the function does, its operator alone knows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stage {
    /// What it does, in words: `linear 1 backward`, `gather 0 transposed`. The same in evaluations.
    pub name: String,
    /// What does it, with which attributes and parameters.
    pub operation: OperationId,
    /// Which function of the operation.
    pub phase: Phase,
    /// Where it may be done.
    pub place: Place,
    /// Its chunk, if its place is a lane: the run of stages of the lane, from 0
    /// ([`crate::policy`]).
    pub chunk: u16,
    /// The rows that it runs on, interval by interval.
    pub domain: DomainId,
    /// The relation whose lists its function follows, where it reads rows of all intervals by
    /// lists.
    pub via: Option<RelationId>,
    /// The slots that it reads.
    pub reads: Vec<Read>,
    /// The slots that it writes, on its interval's rows; `None` where nobody reads what it could
    /// write.
    pub writes: Vec<Option<SlotId>>,
    /// The parameters whose gradients it yields.
    pub sums: Vec<ParameterId>,
    /// True if the slots that it reads or writes are stored as f32 whatever a run stores rows as.
    pub exact: bool,
    /// What it costs.
    pub cost: Cost,
}

/// A slot that a stage reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// Which.
    pub slot: SlotId,
    /// Whose rows of it.
    pub scope: Scope,
    /// What they are to its function.
    pub port: Port,
}

/// What rows are to the function that reads them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// An input of forward.
    Input,
    /// What forward wrote.
    Output,
    /// What forward, or the step before, left for this one.
    Kept,
    /// The gradient of an output.
    Gradient,
}

/// Which of an operation's functions a stage is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Forward.
    #[default]
    Forward,
    /// Loss: forward, loss and backward in one. Yields parameter gradients and a loss.
    Loss,
    /// Backward in one step. Yields parameter gradients.
    Backward,
    /// The first of two steps backward, by target. Yields parameter gradients.
    BackwardTargets,
    /// The second, by source, from what all targets left.
    BackwardSources,
}

/// Where a stage may be done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// On the host that holds the rows: one attempt, which writes in place.
    #[default]
    Host,
    /// On the host or by a function: a pure task, at which there may be several attempts.
    Anywhere,
    /// The same, on this lane of a replica, which does one step at a time ([`crate::lanes`]).
    Lane(u16),
}

impl Place {
    /// Returns whether steps there are tasks.
    #[must_use]
    pub const fn is_task(self) -> bool {
        !matches!(self, Self::Host)
    }
}

/// What a stage costs on a row, by count. Bytes follow from its slots.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Floating-point operations.
    pub flops: f64,
    /// Floating-point operations besides if all values of the features are stored: products with
    /// them.
    pub feature_flops: f64,
    /// Values that are summed for each edge of the row.
    pub edge_values: u32,
}

/// Rows of one kind. Every interval of vertices has rows of every domain: those of the graphs that
/// stand in it, say, so that a step's interval is a number whatever its domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Domain {
    /// What a row is of.
    pub of: RowsOf,
    /// How many there are.
    pub rows: u32,
}

/// What a row is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowsOf {
    /// A vertex.
    Vertices,
    /// A graph of a data set of many: what stands behind a readout.
    Graphs,
}

impl Domain {
    /// The vertices, in every program.
    pub const VERTICES: DomainId = DomainId(0);
    /// The graphs, in a program that reads graphs out.
    pub const GRAPHS: DomainId = DomainId(1);
}

/// Lists of rows that a stage follows: for each row of the result the rows that it is made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relation {
    /// Whose lists.
    pub over: Over,
    /// The other way round: for each source its targets, as gradients go.
    pub reversed: bool,
    /// Only pairs whose target the loss reaches: others add zeros, or are not read
    /// ([`Program::reach`]).
    pub reached: bool,
}

/// Which edges an edge kernel works on, and what it is told of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Along {
    /// Whose lists it follows.
    pub over: Over,
    /// True if each vertex counts among its own neighbours, last.
    pub with_self: bool,
    /// True if it is told what is known of edges.
    pub features: bool,
}

/// Which lists there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Over {
    /// Each vertex's neighbours.
    #[default]
    Neighbours,
    /// Each graph's vertices: a relation of vertices to graphs.
    Graphs,
}

/// A row buffer: a matrix with a row for every row of its domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotSpec {
    /// Values a row.
    pub width: u32,
    /// Extents of one row; `width` is their product.
    pub extents: Vec<u32>,
    /// What its rows are of.
    pub domain: DomainId,
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

/// A kernel, or an operator of the host, with attributes. Forward and backward stages share one.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    /// The kernel's name, of the user's own the path of its component, as the model has it; or the
    /// operator's.
    pub kernel: String,
    /// What tells it from its layer's others of the same kernel; may be empty.
    pub role: String,
    /// What it is opened with; the kernel's defaults hold for what is not named.
    pub attributes: Vec<Attribute>,
    /// Extents of one row of each input.
    pub inputs: Vec<Vec<u32>>,
    /// The layer that it belongs to.
    pub layer: Layer,
    /// The layer number that its tasks carry, which their random numbers depend on: the layer's,
    /// plus 65,536 for each earlier input that the layer drops values of by themselves.
    pub draw: u32,
    /// What a kernel says it takes and gives; `None`: the host's own work on the graph.
    pub signature: Option<Signature>,
    /// An edge kernel's edges; `None` for all others.
    pub along: Option<Along>,
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
    /// Its place in its kernel's signature, as if the layer's product came first: the stream of its
    /// numbers.
    pub position: u32,
    /// Its kernel's layer, plus 65,536 for each operation of the layer and kernel before it.
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

    /// Returns whether there is nothing to train.
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
    /// Adds slots to those that it reads.
    pub(crate) fn read(&mut self, slots: impl IntoIterator<Item = SlotId>, scope: Scope, port: Port) {
        self.reads.extend(slots.into_iter().map(|slot| Read { slot, scope, port }));
    }

    /// The slots that it reads, each with whose rows.
    pub fn reads(&self) -> impl Iterator<Item = (SlotId, Scope)> {
        self.reads.iter().map(|read| (read.slot, read.scope))
    }

    /// The slots that it reads through a port, in order.
    pub fn port(&self, port: Port) -> impl Iterator<Item = SlotId> {
        self.reads.iter().filter(move |read| read.port == port).map(|read| read.slot)
    }

    /// The slots that it reads on all rows, in order.
    pub fn all(&self) -> impl Iterator<Item = SlotId> {
        self.reads.iter().filter(|read| read.scope == Scope::All).map(|read| read.slot)
    }

    /// The slots that it reads on its interval's rows, in order.
    pub fn own(&self) -> impl Iterator<Item = SlotId> {
        self.reads.iter().filter(|read| read.scope == Scope::Own).map(|read| read.slot)
    }

    /// The slots that it writes, on its interval's rows.
    pub fn writes(&self) -> impl Iterator<Item = SlotId> {
        self.writes.iter().copied().flatten()
    }

    /// Returns whether a slot's rows are among those that it reads or writes.
    #[must_use]
    pub fn touches(&self, slot: SlotId) -> bool {
        self.reads.iter().any(|read| read.slot == slot) || self.writes.contains(&Some(slot))
    }
}

impl Program {
    /// The training program of a model. `signature` opens its kernels.
    ///
    /// # Errors
    /// [`Error::Signature`] if `signature` fails, [`Error::SignatureMismatch`] for a kernel that
    /// does not fit its place, [`Error::Data`] if the model was made for other data.
    pub fn build<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
        model: &Model,
        shape: DataShape,
        savings: Savings,
        signature: &Open<'_, E>,
    ) -> Result<Self> {
        lower::training(model, shape, savings, &|kernel, inputs, attributes| {
            signature(kernel, inputs, attributes).map_err(Into::into)
        })
    }

    /// The forward part on its own, up to the class scores, with the same operations and
    /// parameters. Its tasks run with `training` false. Stages and slots are numbered anew.
    #[must_use]
    pub fn evaluation(&self) -> Self {
        lower::evaluation(self)
    }

    /// An evaluation of which scores alone are wanted: [`Program::embeddings`] last until they are
    /// read.
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
            spec.kept_until = read.or(spec.written_by).unwrap_or(spec.kept_until);
        }
        self
    }

    /// The parameter of an id, also of a further use.
    #[must_use]
    pub fn owner(&self, id: ParameterId) -> ParameterId {
        let further = id.index().checked_sub(self.parameters.len());
        further.and_then(|at| self.uses.get(at)).copied().unwrap_or(id)
    }

    /// What is trained under an id.
    #[must_use]
    pub fn parameter(&self, id: ParameterId) -> Option<&Parameter> {
        self.parameters.get(self.owner(id).index())
    }

    /// A stage by its number.
    #[must_use]
    pub fn stage(&self, stage: StageId) -> Option<&Stage> {
        self.stages.get(stage.index())
    }

    /// What a stage does, in words ([`Stage::name`]).
    #[must_use]
    pub fn stage_name(&self, stage: StageId) -> String {
        self.stage(stage).map_or_else(|| format!("stage {stage}"), |found| found.name.clone())
    }

    /// Where the work of a stage may be done.
    #[must_use]
    pub fn place(&self, stage: StageId) -> Place {
        self.stage(stage).map_or(Place::Host, |stage| stage.place)
    }

    /// The number of stages whose work may be done anywhere.
    #[must_use]
    pub fn tasks(&self) -> usize {
        self.stages.iter().filter(|stage| stage.place.is_task()).count()
    }

    /// The stages that compute.
    #[must_use]
    pub fn computing(&self) -> &[Stage] {
        let end = self.sampling.map_or(self.stages.len(), StageId::index);
        self.stages.get(..end).unwrap_or_default()
    }

    /// A stage's operation.
    #[must_use]
    pub fn operation(&self, stage: StageId) -> Option<&Operation> {
        self.operations.get(self.stage(stage)?.operation.index())
    }

    /// A stage's relation; `None` where it follows no lists.
    #[must_use]
    pub fn relation(&self, stage: StageId) -> Option<&Relation> {
        self.relations.get(self.stage(stage)?.via?.index())
    }

    /// The rows of a domain.
    #[must_use]
    pub fn rows(&self, domain: DomainId) -> u32 {
        self.domains.get(domain.index()).map_or(0, |domain| domain.rows)
    }

    /// The domain of a slot's rows.
    #[must_use]
    pub fn domain_of(&self, slot: SlotId) -> DomainId {
        self.slots.get(slot.index()).map_or(Domain::VERTICES, |slot| slot.domain)
    }

    /// Makes gathers leave out pairs whose target the loss does not reach ([`loss_gathers`]).
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

    /// The number of a relation, which is entered where it is new.
    pub(crate) fn enter_relation(&mut self, relation: Relation) -> RelationId {
        let known = self.relations.iter().position(|known| *known == relation);
        let at = known.unwrap_or_else(|| {
            self.relations.push(relation);
            self.relations.len() - 1
        });
        // There are at most eight.
        RelationId(at as u16)
    }

    /// Makes it a program of parts that each have a graph of their own, of so many rows at most.
    pub fn set_apart(&mut self, parts: u32, rows: u32) {
        self.apart = Some(parts);
        if let Some(vertices) = self.domains.get_mut(Domain::VERTICES.index()) {
            vertices.rows = rows.saturating_mul(parts);
        }
    }

    /// Adds the stage that chooses the rows of each part of a round. Its number is the last, and
    /// all other steps of a part come after it. It has no operation. A step of it ends when the
    /// rows of all parts of the round are there, because what a row weighs depends on these. Parts
    /// enter a round one after the other, so none waits here for another part's steps.
    pub fn sample(&mut self) {
        // Ids are 16 bits.
        let stage = self.stages.len() as u16;
        let operation = OperationId(u16::MAX);
        self.stages.push(Stage { name: "sample".to_owned(), operation, ..Stage::default() });
        self.sampling = Some(StageId(stage));
    }

    /// Sets where the stages of edge kernels may be done.
    pub fn place_edges(&mut self, place: Place) {
        for stage in &mut self.stages {
            if self.operations.get(stage.operation.index()).is_some_and(|operation| operation.along.is_some())
            {
                stage.place = place;
            }
        }
    }

    /// The stages that must be done before `stage` can start on an interval, each once, in order,
    /// with the interval's own rows or all of them.
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

    /// Returns whether an epoch ends in an update of the weights.
    #[must_use]
    pub fn trains(&self) -> bool {
        !self.losses.is_empty()
    }

    /// Keeps the rows of all slots until the last stage, so that any step can be done again.
    pub fn keep_rows(&mut self) {
        // A program has at most 2^16 stages.
        let last = StageId(self.stages.len().saturating_sub(1) as u16);
        self.slots.iter_mut().for_each(|spec| spec.kept_until = last);
    }

    /// The stage that computes the last layer's loss, in a training program.
    #[must_use]
    pub fn loss(&self) -> Option<StageId> {
        self.losses.first().map(|loss| loss.stage)
    }

    /// A stage's place among those that compute losses.
    #[must_use]
    pub fn loss_of(&self, stage: StageId) -> Option<usize> {
        self.losses.iter().position(|loss| loss.stage == stage)
    }
}

mod hops;
pub use hops::Hops;

#[cfg(test)]
pub(crate) mod zoo;

#[cfg(test)]
pub(crate) mod tests;

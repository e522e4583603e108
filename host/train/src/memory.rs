//! Memory plan of a run: an estimate of the memory that it will need for each purpose, made before
//! memory is allocated.

mod rows;
mod sizes;
mod spans;

use eciton_graph::adjacency::Graph;
use eciton_graph::dataset::{Dataset, Features};
use eciton_graph::graphs::Graphs;
use eciton_input::memory::{available, peak_bytes};
use eciton_kernel::BLOCK_EDGES;
use eciton_program::{Buffers, Domain, FusedStages, Hops, Parameter, Program, Stage};
use eciton_recipe::{Config, RowFormat, VertexOrder};
use eciton_runs::report::{MemoryItem, MemoryPlan, Phase, PhaseBytes};
use eciton_tensor::Matrix;
use eciton_tensor::pages::Pages;
use eciton_types::SlotId;

use self::rows::rows_bytes;
use self::sizes::{padded, row_bytes};
use self::spans::span_bytes;
use crate::batch::{PartSizes, RowBatches};
use crate::data::Inputs;
use crate::edge_data::{EdgeWeights, KnownEdges};
use crate::error::{Error, Result};
use crate::evaluation::EvaluationPlan;
use crate::loss_reachable::LabelledPlan;
use crate::owned::COLLECTED_BYTES;
use crate::weights::Sums;

/// Memory in bytes that a run needs for its code, compiled kernels, executor and program. No other
/// item of the memory plan contains it. Measured on the smallest run.
const PROGRAM_BYTES: u64 = 24 << 20;
/// Memory in bytes that a host needs for its connections to workers: code, threads and encryption.
/// No other item of the memory plan contains it. Measured.
const CONNECTIONS_BYTES: u64 = 30 << 20;
/// Memory in bytes that a thread needs for its kernel instances and its part of the allocator. No
/// other item of the memory plan contains it. Measured.
const THREAD_BYTES: u64 = 4 << 20;
/// Number of copies of the largest parameter that a thread stores while it computes gradients.
/// There is one partial sum for each level of the summation tree.
const THREAD_SUMS: u64 = 4;

/// Arguments of [`memory_plan`].
pub(crate) struct Wanted<'a> {
    pub inputs: &'a Inputs,
    pub program: &'a Program,
    pub evaluation: &'a EvaluationPlan,
    pub config: &'a Config,
    pub threads: u32,
    /// Sizes of the micro-batches. `None` if the run reads all rows in each epoch.
    pub sizes: Option<&'a PartSizes>,
    pub labelled: Option<&'a LabelledPlan>,
    /// Fused stages of the training program, and the program that is scheduled with them. `None` if
    /// the run has no lanes.
    pub lanes: Option<(&'a FusedStages, &'a Program)>,
}

impl Wanted<'_> {
    /// Returns how many copies of the largest parameter each thread stores. `sums` is the number of
    /// copies for the sums of matrix products.
    fn thread_copies(&self, sums: u64) -> u64 {
        // One copy is packed into the layout that a matrix product reads.
        let packed = u64::from(!self.evaluation.is_placed());
        match self.config.has_worker_lanes() {
            false => sums + packed,
            true => packed,
        }
    }
}

/// Estimates the memory of a run for each purpose and phase, and its peak.
pub(crate) fn memory_plan(wanted: &Wanted<'_>) -> MemoryPlan {
    let Wanted { inputs, program, config, threads, .. } = *wanted;
    let ordered = inputs.vertices.ordered.is_some();
    let gathered = program.rewrites.gathered_features;
    let happens = |phase: &Phase| match phase {
        Phase::Ordering => ordered,
        Phase::Gathering => gathered,
        Phase::Training => true,
    };
    let phases: Vec<Phase> = Phase::ALL.into_iter().filter(happens).collect();
    let from = |first: Phase| phases.iter().copied().filter(|&p| p as u8 >= first as u8).collect();
    let always: Vec<Phase> = phases.clone();
    let mut items = Vec::new();
    let mut item = |purpose, detail: String, bytes: u64, during: Vec<Phase>| {
        if bytes > 0 && !during.is_empty() {
            items.push(MemoryItem { purpose, detail, bytes, during });
        }
    };
    let (graph, rows) = (&inputs.dataset.graph, u64::from(inputs.shape.rows));
    // A run on batches reads a part of the lists and features at a time.
    let may_drop = |is_mapped: bool| is_mapped && program.apart.is_some();
    let mut lists = [Some(graph.incoming()), graph.transpose()].into_iter().flatten();
    let is_mapped = lists.all(|lists| lists.slabs().1.is_borrowed());
    let mut mapped_bytes = 0;
    let mut held = |bytes: u64, is_mapped| match may_drop(is_mapped) {
        true => {
            mapped_bytes += bytes;
            0
        }
        false => bytes,
    };
    let edges = held(graph_bytes(graph), is_mapped);
    let transpose = if graph.symmetric() { "" } else { " and their transpose" };
    item("graph", format!("{} edges{transpose}", graph.edges()), edges, always.clone());
    let graphs = inputs.dataset.graphs.as_ref();
    let detail = format!("{} graphs, and the graph of each vertex", graphs.map_or(0, Graphs::count));
    item("graphs", detail, graphs.map_or(0, Graphs::bytes), always.clone());
    if let Some(readout) = inputs.readout.as_ref().filter(|readout| readout.is_of_edges()) {
        let edges = readout.standing.len() as u64;
        let lists: u64 = readout.all().map(|(_, lists)| graph_bytes(lists)).sum();
        let labels = inputs
            .learnt()
            .0
            .as_values()
            .map_or(2 * 4, |values| 4 * u64::from(values.columns()) + padded(values.columns()));
        let rows = inputs.edge_rows.as_ref().map_or(0, features_bytes);
        let detail = format!("{edges} edges with labels, their ends and their features");
        item("labelled edges", detail, rows + lists + edges * (labels + 4 + 4), always.clone());
    }
    let known = &inputs.edges;
    let weights = known.weights.as_ref().map_or(0, EdgeWeights::bytes);
    item("edge weights", "one per edge".to_owned(), weights, always.clone());
    let columns = inputs.shape.edge_features;
    let detail = format!("[{}, {columns}], and the position of each edge by source", graph.edges());
    item("edge features", detail, known.features.as_ref().map_or(0, KnownEdges::bytes), always.clone());
    let detail = "labels, split and normalisation factors".to_owned();
    let labels = match inputs.dataset.labels.as_values() {
        None => 2 * 4,
        // Numeric or binary labels are stored twice: as they were read, and in padded rows for
        // tasks.
        Some(values) => 4 * u64::from(values.columns()) + padded(values.columns()),
    };
    // All hosts have the labels and the split of all rows.
    let all = u64::from(inputs.rows_of_all());
    item("vertices", detail, all * (labels + 1) + rows * (4 + 4), always.clone());
    if inputs.host.is_some() {
        let detail = format!("[{all}, {}] of the rows of all hosts", inputs.shape.classes);
        item("scores", detail, all * u64::from(inputs.shape.classes) * 4, always.clone());
    }
    let detail = "position of each vertex, and the inverse".to_owned();
    item("permutation", detail, inputs.vertices.bytes(), always.clone());
    // Before the features are reduced to the rows of a host, they are those of the whole data set.
    let own = |bytes: u64| (bytes as f64 * inputs.own_share()) as u64;
    let features = match (&inputs.features, inputs.own_rows()) {
        (Matrix::Dense(_), Some(rows)) => rows.len() as u64 * padded(inputs.shape.features),
        (features, _) => own(features_bytes(features)),
    };
    let shape = format!("[{rows}, {}]{}", inputs.shape.features, storage(&inputs.features));
    let is_mapped = matches!(&inputs.features, Matrix::Dense(dense) if dense.is_lent());
    let features = held(features, is_mapped && !gathered);
    let stays = !gathered || program.gathered.is_some();
    let before = |phase: &Phase| stays || *phase as u8 <= Phase::Gathering as u8;
    item("features", shape.clone(), features, phases.iter().copied().filter(before).collect());
    if ordered {
        item("ordering", ORDERING.to_owned(), edges.max(features), vec![Phase::Ordering]);
    }
    if gathered && inputs.reads_own() {
        let detail = format!("[{rows}, {}] of this host and its neighbours", inputs.shape.features);
        let bytes = rows * padded(inputs.shape.features);
        item("features of neighbours", detail, bytes, vec![Phase::Gathering]);
    }
    if gathered {
        let bytes = match &inputs.features {
            Matrix::Dense(_) => features,
            Matrix::Sparse(_) => own(gathered_bytes(inputs, program)),
        };
        item("gathered features", shape, bytes, from(Phase::Gathering));
    }
    training_items(wanted, &mut |purpose, detail, bytes| {
        item(purpose, detail, bytes, vec![Phase::Training]);
    });
    let connections = if config.has_worker_lanes() { CONNECTIONS_BYTES } else { 0 };
    item("connections", "to the workers".to_owned(), connections, always.clone());
    item("program", "kernels and their instances".to_owned(), PROGRAM_BYTES, always);
    let held = |phase: Phase| {
        let during = items.iter().filter(|item| item.during.contains(&phase));
        PhaseBytes { phase, bytes: during.map(|item| item.bytes).sum() }
    };
    let phases: Vec<PhaseBytes> = phases.into_iter().map(held).collect();
    let total_bytes = phases.iter().map(|held| held.bytes).max().unwrap_or(0);
    let bf16_saves_bytes = (config.run.row_storage == RowFormat::F32).then(|| {
        // If edge kernels need f32 rows, slots of two formats may share fewer buffers than slots of
        // one format.
        let saved = rows_bytes(wanted, RowFormat::F32).saturating_sub(rows_bytes(wanted, RowFormat::Bf16));
        saved.saturating_sub(u64::from(threads) * widened_bytes(wanted))
    });
    let (read_bytes, available_bytes) = (peak_bytes(), available());
    MemoryPlan { items, phases, total_bytes, mapped_bytes, read_bytes, bf16_saves_bytes, available_bytes }
}

/// Checks that the estimated peak memory of a run does not exceed `allowed` bytes, or the available
/// memory if `allowed` is `None`.
///
/// # Errors
/// Returns [`Error::Memory`] if it does. The error names the largest purpose and the change that
/// helps most.
pub(crate) fn check(plan: &MemoryPlan, allowed: Option<u64>) -> Result<()> {
    let Some(available) = allowed.or(plan.available_bytes) else { return Ok(()) };
    if plan.total_bytes <= available {
        return Ok(());
    }
    let too_much = |phase| plan.phases.iter().any(|p| p.phase == phase && p.bytes > available);
    let fullest = plan.phases.iter().max_by_key(|held| held.bytes).map(|held| held.phase);
    let items = plan.items.iter().filter(|item| fullest.is_some_and(|p| item.during.contains(&p)));
    let largest = items.max_by_key(|i| i.bytes);
    let remedy = if too_much(Phase::Training) {
        "reduce model.hidden or the layers, or use `eciton data convert` (the features stay in the file)"
    } else if too_much(Phase::Gathering) {
        "set run.gather_features = \"each-epoch\" (the features are stored once)"
    } else {
        MOVES_NOTHING
    };
    Err(Error::Memory {
        needed: plan.total_bytes,
        available,
        largest: largest.map_or_else(String::new, |i| format!("{} {} ({})", i.purpose, i.bytes, i.detail)),
        remedy,
    })
}

/// Checks the estimated peak memory of a host of which `here` share this machine, as [`check`] does.
///
/// # Errors
/// Returns the errors of [`check`], and [`Error::HostsMemory`] if the hosts do not fit together.
pub(crate) fn check_each(plan: &MemoryPlan, allowed: Option<u64>, here: u32) -> Result<()> {
    check(plan, allowed)?;
    let together = plan.total_bytes.saturating_mul(here.into());
    match plan.available_bytes.filter(|_| allowed.is_none() && here > 1) {
        Some(available) if together > available => {
            Err(Error::HostsMemory { hosts: here, each: plan.total_bytes, together, available })
        }
        _ => Ok(()),
    }
}

/// Description, for error messages, of the memory that reordering needs in addition to the data
/// set.
const ORDERING: &str = "first the graph and then the features are stored twice";
/// Advice, for error messages, if reordering does not fit into memory.
const MOVES_NOTHING: &str = "set run.order = \"natural\" (the data is not reordered)";

/// Checks that the memory suffices for reordering the vertices of a data set. The limit is
/// `allowed` bytes, or the available memory if `allowed` is `None`. This precedes the memory plan,
/// because vertices are reordered before the rest of the run is known. The [`MemoryPlan`] reserves
/// at least as much.
///
/// # Errors
/// Returns [`Error::Memory`] if the copy does not fit.
pub(crate) fn check_ordering(dataset: &Dataset, order: VertexOrder, allowed: Option<u64>) -> Result<()> {
    let moves = order != VertexOrder::Natural;
    let Some(available) = allowed.or_else(available).filter(|_| moves) else { return Ok(()) };
    let rows = u64::from(dataset.vertices());
    let features = match &dataset.features {
        Features::Dense(_) => rows * padded(dataset.features.columns()),
        Features::Sparse(_) => dataset.features.stored() * 8,
    };
    let graph = graph_bytes(&dataset.graph);
    let needed = graph + features + graph.max(features);
    if needed <= available {
        return Ok(());
    }
    let largest = format!("ordering {} ({ORDERING})", graph.max(features));
    Err(Error::Memory { needed, available, largest, remedy: MOVES_NOTHING })
}

/// Returns the size in bytes of a graph's adjacency lists.
fn graph_bytes(graph: &Graph) -> u64 {
    let lists = if graph.symmetric() { 1 } else { 2 };
    lists * (graph.edges() * 4 + (u64::from(graph.vertices()) + 1) * 8)
}

/// Adds all items that are allocated when the epochs begin. `item` receives the purpose, the
/// description and the bytes of each.
fn training_items(wanted: &Wanted<'_>, item: &mut dyn FnMut(&'static str, String, u64)) {
    let Wanted { inputs, program, config, threads, .. } = *wanted;
    let pipeline = &config.pipeline;
    let rows = u64::from(inputs.shape.rows);
    let kept = match pipeline.row_versions() {
        1 => String::new(),
        kept => format!(", and gathered rows of {kept} epochs"),
    };
    if let Some(labelled) = wanted.labelled {
        let detail = format!("{} edges to labelled vertices, for the gather after the loss", labelled.edges);
        let bytes = labelled.bytes(rows, inputs.edges.weights.is_some());
        item("labelled lists", detail, (bytes as f64 * inputs.own_share()) as u64);
    }
    if let Some(links) = &inputs.links {
        let [validation, test] = links.held_out();
        let others = match program.apart {
            Some(_) => "the numbers of training links".to_owned(),
            None => format!("{} other pairs for each epoch in flight", links.negatives),
        };
        let detail = format!("{validation} validation and {test} test links, and {others}");
        item("links", detail, links.bytes(rows, program.apart.is_some()));
    }
    let format = config.run.row_storage;
    let half = if format == RowFormat::Bf16 { " as bf16" } else { "" };
    item("rows", format!("activations and gradients of all layers{half}{kept}"), rows_bytes(wanted, format));
    if let Some(own) = inputs.own_rows() {
        let read = program.stages.iter().flat_map(Stage::all);
        let read = read.filter(|&slot| program.domain_of(slot) == Domain::VERTICES);
        let widths = read.filter_map(|slot| {
            Some(row_bytes(program.slots.get(slot.index())?.width, Buffers::format(program, slot, format)))
        });
        let others = rows.saturating_sub(own.len() as u64);
        let rounds = u64::from(pipeline.gradient_versions());
        // The rows of one slot are sent and received at the same time.
        let bytes = 2 * others * widths.max().unwrap_or(0) * rounds;
        item("messages", format!("rows between hosts, {others} of which this host reads"), bytes);
    }
    let values: u64 = program.parameters.iter().map(|p| p.len() as u64).sum();
    let state = 1 + config.optimiser.algorithm.moments() as u64;
    let own = config.workers.own();
    let versions = u64::from(pipeline.weight_versions());
    let detail = match versions {
        1 => format!("{values} values, and their optimiser state"),
        _ => format!("{versions} versions of {values} values, and their optimiser state"),
    };
    match own {
        // A matrix in transit is stored three times: as it is read, on the host, and in a frame.
        true => {
            let largest = program.parameters.iter().map(|p| p.len() as u64 * 4).max().unwrap_or(0);
            item("weights", "the largest parameter of the workers, in transit".to_owned(), 4 * largest);
        }
        false => item("weights", detail, values * 4 * (state - 1 + versions)),
    }
    if config.run.keep.is_by_validation() {
        item("best weights", format!("{values} values of the best epoch so far"), values * 4);
    }
    let is_cut = config.batch.sampler.has_targets()
        && Hops::from_program(program).most() == 0
        && inputs.readout.is_none()
        && inputs.links.is_none();
    let (sums, in_products) = match program.apart {
        Some(_) if is_cut => {
            let sums = Sums::of_runs(RowBatches::new(&config.batch, inputs).sums());
            let in_products = sums.in_products();
            (sums, in_products)
        }
        Some(parts) => (Sums::of_parts(parts), THREAD_SUMS),
        None => (Sums::of_intervals(&inputs.intervals, inputs.atoms.tree()), THREAD_SUMS),
    };
    // Tasks on functions or workers may all be in flight at once. On this machine, tasks that wait
    // for a thread have no buffers yet.
    let steps = config.executor.kind.is_here().then_some(u64::from(threads));
    // In audited rounds, gradients arrive with each answer. In others, they arrive as sums of
    // replicas.
    let collected = config.sums_stay().then(|| sums.joined(&sums.replicas(&config.lanes.lanes)));
    let here = (!config.sums_stay() || config.executor.audit > 0.0).then_some(sums);
    let [whole, written] = [collected, here].iter().flatten().fold([0, 0], |all, sums| {
        let of = sums.buffers(steps).map(|count| count * u64::from(pipeline.gradient_versions()));
        [all[0] + of[0], all[1] + of[1]]
    });
    // Each further use of a shared parameter has its own sums.
    let uses = program.uses.iter().filter_map(|&id| program.parameter(id));
    let all = program.parameters.iter().chain(uses).map(parameter_bytes);
    let (total, largest) = (all.clone().sum::<u64>(), all.max().unwrap_or(0));
    let transit = if config.sums_stay() { 2 * total.min(COLLECTED_BYTES as u64 + largest) } else { 0 };
    if !own && config.checkpoint.is_on() {
        // A checkpoint is written from the weights of the training, and read one matrix at a time.
        item("checkpoint", "a copy of the largest parameter while one is read".to_owned(), largest);
    }
    let bytes = whole * total + written * largest + transit;
    if !own {
        let detail = format!("{whole} sums of {values} values, and {written} sums of the largest parameter");
        item("gradients", detail, bytes);
    }
    let largest = program.parameters.iter().map(|p| p.len() as u64 * 4).max().unwrap_or(0);
    // A gather's copy of source rows is a large page, of which a block fills a part, or all rows if
    // they are smaller.
    let block = (Pages::LARGE as u64).min(rows * GATHER_LANES * 4);
    let widened = if format == RowFormat::Bf16 { widened_bytes(wanted) } else { 0 };
    let copies = wanted.thread_copies(in_products);
    let each = block + copies * largest + THREAD_BYTES.min(rows * 1024) + widened;
    if let Some(sizes) = wanted.sizes {
        let ahead = if sizes.is_made_once { 1 } else { u64::from(config.batch.prefetch) + 1 };
        let each = features_bytes(&inputs.features) / u64::from(inputs.shape.rows).max(1);
        let (parts, rows) = (u64::from(program.apart.unwrap_or(1)), sizes.all());
        let detail =
            format!("features and edges of {ahead} times about {} rows, made in advance", parts * rows);
        let rooms = sizes.draws_bytes(inputs) * u64::from(threads);
        item("batches", detail, ahead * parts * (rows * each + sizes.lists) + rooms);
        let training = inputs.dataset.split.train.len() as u32;
        if config.batch.is_corrected(inputs.shape.rows, training) {
            let (vertices, edges) = (u64::from(inputs.shape.rows), inputs.dataset.edges());
            // Vertices that a sample draws several times count once, so that there are more samples.
            let drawn = u64::from(config.batch.rows.unwrap_or(1).div_ceil(config.batch.micro.max(1)));
            let samples = u64::from(config.batch.coverage) * vertices / drawn.max(1);
            let detail = format!(
                "how many of about {samples} samples, drawn before training, have each vertex and each edge"
            );
            item("counts", detail, 4 * (vertices + edges));
        }
    }
    if let Some((edges, bytes)) = edges_at_once(wanted) {
        let detail =
            format!("rows of at most {edges} edges, which {threads} tasks of edge kernels process at once");
        item("edges", detail, bytes);
    }
    let evaluation = wanted.evaluation;
    let rows = evaluation.longest(inputs);
    let held = match evaluation.is_placed() || evaluation.is_never() {
        // Workers store the rows between stages.
        true => 0,
        false => span_bytes(&evaluation.program, &evaluation.spans, rows, format) * u64::from(threads),
    };
    let folded = evaluation.folded_bytes(inputs, threads);
    let detail = "features of the sampled rows, and scores of all rows".to_owned();
    item("evaluation samples", detail, evaluation.sampled_bytes(inputs));
    let scores = if folded > 0 { "; scores in transit, and a term of the metric for each row" } else { "" };
    let detail = format!("{threads} times the intermediate results of {rows} rows{scores}");
    item("evaluation", detail, held + folded);
    let bytes = u64::from(threads) * each;
    let products = match copies {
        0 => "",
        1 => " and a packed parameter",
        _ => " and sums of products",
    };
    item("threads", format!("{threads} times a block of source rows{products}"), bytes);
}

/// Returns the size in bytes of the f32 rows that a thread stores for one task if rows are stored
/// as bfloat16. Tasks read f32 rows, and a gather writes f32 rows before they are rounded.
fn widened_bytes(wanted: &Wanted<'_>) -> u64 {
    let Wanted { inputs, program, .. } = *wanted;
    let longest = inputs.intervals.iter().map(|i| i.rows.len() as u64).max().unwrap_or(0);
    let of = |stage: &Stage| {
        let slots = stage.reads().map(|(slot, _)| slot).chain(stage.writes());
        let wide = slots.filter(|&slot| Buffers::format(program, slot, RowFormat::Bf16) == RowFormat::Bf16);
        let width = |slot: SlotId| program.slots.get(slot.index()).map_or(0, |spec| padded(spec.width));
        wide.map(width).sum::<u64>()
    };
    longest * program.stages.iter().map(of).max().unwrap_or(0)
}

/// Maximum number of matrices with one row per edge that an edge kernel stores at once. Each is as
/// wide as the widest rows of the kernel. The backward step of `gatv2` stores the most.
const EDGE_MATRICES: u64 = 8;

/// Returns the maximum number of edges that all threads process at once in edge kernels, and the
/// size of these edges' rows in bytes. The edges of a vertex are processed together. Returns `None`
/// if the model has no edge kernel.
fn edges_at_once(wanted: &Wanted<'_>) -> Option<(u64, u64)> {
    let Wanted { inputs, program, threads, .. } = *wanted;
    let along = |stage: &&Stage| {
        program.operations.get(stage.operation.index()).is_some_and(|operation| operation.along.is_some())
    };
    let steps = program.stages.iter().filter(along);
    let width = |slot: SlotId| program.slots.get(slot.index()).map_or(0, |spec| padded(spec.width));
    let widest =
        steps.flat_map(|stage| stage.reads().map(|(slot, _)| slot).chain(stage.writes())).map(width).max()?;
    // Lengths of the longest edge lists, one for each thread, in ascending order.
    let mut longest = vec![BLOCK_EDGES as u64; threads.max(1) as usize];
    let mut all = u64::from(inputs.shape.rows);
    let readout = inputs.readout.iter().flat_map(|readout| readout.all()).map(|(_, lists)| lists);
    for graph in std::iter::once(&inputs.dataset.graph).chain(readout) {
        let lists =
            [graph.incoming().offsets(), graph.outgoing().offsets()].map(|offsets| offsets.windows(2));
        let [into, out] = lists.map(|ends| ends.map(|ends| ends[1] - ends[0] + 1));
        for edges in into.zip(out).map(|(into, out)| into.max(out)) {
            if edges > longest[0] {
                longest[0] = edges;
                longest.sort_unstable();
            }
        }
        all += graph.edges();
    }
    let edges = longest.iter().sum::<u64>().min(all);
    Some((edges, edges * widest * EDGE_MATRICES))
}

/// Maximum number of columns that a gather processes at once.
const GATHER_LANES: u64 = 128;

/// Returns the size in bytes of one partial sum of a parameter's gradient.
fn parameter_bytes(parameter: &Parameter) -> u64 {
    let rows = u64::from(parameter.shape.first().copied().unwrap_or(1));
    let columns: u32 = parameter.shape.iter().skip(1).product();
    rows * padded(columns)
}

fn storage(features: &Matrix) -> &'static str {
    match features {
        Matrix::Dense(_) => "",
        Matrix::Sparse(_) => ", sparse rows",
    }
}

fn features_bytes(features: &Matrix) -> u64 {
    match features {
        Matrix::Dense(_) => features.rows() as u64 * padded(features.columns() as u32),
        Matrix::Sparse(sparse) => sparse.data.bytes() as u64,
    }
}

fn gathered_bytes(inputs: &Inputs, program: &Program) -> u64 {
    match &inputs.features {
        Matrix::Dense(_) => 0,
        Matrix::Sparse(_) => {
            inputs.workload(program.model.constant_gather()).stored_gathered * 8
                + (u64::from(inputs.shape.rows) + 1) * 8
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use std::collections::BTreeMap;

    use super::*;

    fn planned(gathering: u64, training: u64) -> MemoryPlan {
        let held = |phase, bytes| PhaseBytes { phase, bytes };
        let item = |purpose, bytes, during: &[Phase]| MemoryItem {
            purpose,
            detail: String::new(),
            bytes,
            during: during.to_vec(),
        };
        MemoryPlan {
            items: vec![
                item("features", gathering, &[Phase::Gathering]),
                item("rows", training, &[Phase::Training]),
            ],
            phases: vec![held(Phase::Gathering, gathering), held(Phase::Training, training)],
            total_bytes: gathering.max(training),
            mapped_bytes: 0,
            read_bytes: Some(1 << 40),
            bf16_saves_bytes: None,
            available_bytes: None,
        }
    }

    #[test]
    fn the_fullest_phase_is_what_must_fit() {
        assert!(check(&planned(100, 60), Some(100)).is_ok(), "not their sum; and what was read is past");
        assert!(check(&planned(100, 60), None).is_ok(), "nobody knows what there is");
        let refused = |plan: MemoryPlan, allowed| check(&plan, Some(allowed)).unwrap_err().to_string();
        let gathering = refused(planned(100, 60), 99);
        assert!(gathering.contains("features 100") && gathering.contains("each-epoch"), "{gathering}");
        let training = refused(planned(100, 120), 110);
        assert!(training.contains("rows 120") && training.contains("model.hidden"), "{training}");
        assert_eq!(planned(1, 2).peak_bytes(), 1 << 40);
    }

    /// Returns the bytes of each purpose, and their sum, of a model of 8 layers on two lanes.
    fn on_lanes(owner: &str, threads: u32) -> (BTreeMap<&'static str, u64>, u64) {
        let text = format!(
            "[data]\nsource = \"digits\"\n[model]\nkind = \"mlp\"\nlayers = 8\nhidden = 1024\n[batch]\nrows = 512\n\
             micro = 4\n[lanes]\ncount = 2\n[executor]\nkind = \"workers\"\n[workers]\ncount = 2\nowner = {owner:?}\n\
             [run]\nthreads = {threads}"
        );
        let config = Config::parse(&text, "a test").unwrap();
        let options =
            crate::options::Options { cache: crate::kernels::CachePolicy::Off, ..Default::default() };
        let memory = crate::plan::plan(&config, &options).unwrap().memory;
        (memory.items.iter().map(|item| (item.purpose, item.bytes)).collect(), memory.total_bytes)
    }

    /// The plan counts the memory that the host uses, for both locations of the weights.
    #[test]
    fn what_workers_do_is_not_counted_at_the_host() {
        let [(host, _), (worker, total)] = ["host", "worker"].map(|owner| on_lanes(owner, 2));
        let (values, largest) = (6_374_410, 4 * 1024 * 1024);
        // Adam's two moments and one version; the sum of a gradient, as it is read and in a frame.
        assert_eq!(host["weights"], 3 * 4 * values);
        assert!((3 * 4 * values..13 * values).contains(&host["gradients"]), "{host:?}");
        // A matrix in transit.
        assert_eq!((worker["weights"], worker.get("gradients")), (4 * largest, None));
        // The host evaluates if it has the weights: a packed parameter for each thread, rows
        // between stages.
        assert!(host["threads"] >= 2 * largest && host["threads"] < 4 * largest, "{host:?}");
        assert!(host["evaluation"] > 2 * 1024 * 1024, "{host:?}");
        assert!(worker["threads"] < 2 * largest && !worker.contains_key("evaluation"), "{worker:?}");
        // Rows inside of a lane, and rows that one worker passes to another, are not the host's.
        assert!(worker["rows"] < 1 << 20 && worker["rows"] <= host["rows"], "{worker:?} {host:?}");
        assert!(total < 100 << 20, "{worker:?}");
        // Further threads have no copies of parameters.
        assert!(on_lanes("worker", 16).1 - total < 14 * (6 << 20), "{worker:?}");
    }

    #[test]
    fn large_buffers_are_whole_pages() {
        let large = Pages::LARGE as u64;
        assert_eq!(
            [0, 7, large - 1, large, large + 1].map(sizes::pages),
            [0, 7, large - 1, large, large * 3 / 2]
        );
    }
}

//! The memory plan: what a run will hold, by purpose, before it is allocated.

use eciton_plan::{Algorithm, Buffers, Config, Keep, Pipeline, Program};
use eciton_tensor::{Buffer, Matrix};
use serde::Serialize;

use crate::data::Prepared;
use crate::error::{Error, Result};

/// Compiled kernels, instances, the executor and the program itself: what the smallest run was seen
/// to hold beyond its purposes.
const PROGRAM_BYTES: u64 = 24 << 20;

/// One purpose.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MemoryItem {
    /// For instance `graph`.
    pub purpose: &'static str,
    /// What it is, with its shape.
    pub detail: String,
    /// How many.
    pub bytes: u64,
}

/// What a run will hold at its peak.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MemoryPlan {
    /// By purpose, in the order in which they come to be.
    pub items: Vec<MemoryItem>,
    /// All of them.
    pub total_bytes: u64,
    /// What is let go of before the first epoch: at the peak, but not for long.
    pub before_training_bytes: u64,
    /// What this process may have: what the machine and its control group have left, and what it
    /// holds already. `None` where the system does not tell.
    pub available_bytes: Option<u64>,
}

impl MemoryPlan {
    pub(crate) fn of(prepared: &Prepared, program: &Program, evaluation: &Program, config: &Config) -> Self {
        let pipeline = &config.pipeline;
        let (graph, rows) = (&prepared.dataset.graph, u64::from(prepared.shape.rows));
        let mut items = Vec::new();
        let mut item = |purpose, detail: String, bytes: u64| {
            if bytes > 0 {
                items.push(MemoryItem { purpose, detail, bytes });
            }
        };
        let lists = if graph.symmetric() { 1 } else { 2 };
        let edges = lists * (graph.edges() * 4 + (rows + 1) * 8);
        item(
            "graph",
            format!("{} edges{}", graph.edges(), if lists == 2 { ", and their transpose" } else { "" }),
            edges,
        );
        item(
            "vertices",
            "labels, splits, factors of the normalisation".to_owned(),
            rows * (4 + 4 + 4 + 4 + 1),
        );
        item("permutation", "where each vertex lies, and the way back".to_owned(), prepared.vertices.bytes());
        let features = features_bytes(&prepared.features);
        let shape = format!("[{rows}, {}]{}", prepared.shape.features, storage(&prepared.features));
        item("features", shape.clone(), features);
        let mut before = 0;
        if program.savings.gathered_features {
            item("gathered features", shape, features.max(gathered_bytes(prepared)));
            before = features;
        }
        let row_bytes = rows * slots_bytes(program, evaluation, prepared.intervals.len() as u32, pipeline);
        let kept = match pipeline.row_versions() {
            1 => String::new(),
            kept => format!(", {kept} epochs of what is gathered"),
        };
        item("rows", format!("activations and gradients of all layers{kept}"), row_bytes);
        let values: u64 = program.parameters.iter().map(|p| p.len() as u64).sum();
        let state = match config.optimiser.algorithm {
            Algorithm::Adam { .. } | Algorithm::AdamW { .. } => 3,
            Algorithm::Sgd { .. } => 2,
        };
        let versions = u64::from(pipeline.weight_versions());
        let detail = match versions {
            1 => format!("{values} values, and the optimiser's of each"),
            _ => format!("{versions} versions of {values} values, and the optimiser's of each"),
        };
        item("weights", detail, values * 4 * (state - 1 + versions));
        if config.run.keep == Keep::Best {
            item("best weights", format!("{values} values, of the best epoch so far"), values * 4);
        }
        if config.optimiser.clip_norm.or(config.optimiser.clip_value).is_some() {
            item("clipped gradients", format!("{values} values"), values * 4);
        }
        if config.checkpoint.is_on() {
            let copies = state + u64::from(config.run.keep == Keep::Best);
            item("checkpoint", "copies of weights, while one is written".to_owned(), values * 4 * copies * 2);
        }
        let parts: u64 = prepared.intervals.iter().map(|i| i.nodes.len() as u64).sum();
        let parts = parts * u64::from(pipeline.gradient_versions());
        item("gradients", format!("{parts} partial sums of {values} values"), parts * values * 4);
        if prepared.vertices.ordered.is_some() {
            // Graph and features have been there twice, one after the other, before all that follows them.
            let after = items.iter().skip_while(|i| i.purpose != "features").skip(1).map(|i| i.bytes);
            let more = edges.max(features).saturating_sub(after.sum());
            let detail = "graph and features twice, one after the other: beyond what follows".to_owned();
            items.extend((more > 0).then_some(MemoryItem { purpose: "ordering", detail, bytes: more }));
            before += more;
        }
        let program = "kernels and their instances".to_owned();
        items.push(MemoryItem { purpose: "program", detail: program, bytes: PROGRAM_BYTES });
        let total_bytes = items.iter().map(|i| i.bytes).sum();
        Self { items, total_bytes, before_training_bytes: before, available_bytes: available() }
    }

    /// Refuses a run that does not fit into `allowed` bytes, or what there is.
    ///
    /// # Errors
    /// [`Error::Memory`] with the figures and what would save most.
    pub(crate) fn check(&self, allowed: Option<u64>) -> Result<()> {
        let Some(available) = allowed.or(self.available_bytes) else { return Ok(()) };
        if self.total_bytes <= available {
            return Ok(());
        }
        let largest = self.items.iter().max_by_key(|i| i.bytes);
        let later = self.total_bytes - self.before_training_bytes <= available;
        let has = |purpose| self.items.iter().any(|i| i.purpose == purpose);
        let remedy = if later && has("gathered features") {
            "run.gather_features = \"each-epoch\" holds the features once"
        } else if later && has("ordering") {
            "run.order = \"natural\" moves nothing"
        } else {
            "a smaller model.hidden, fewer layers, or a data set converted to a store (its features stay in the file)"
        };
        Err(Error::Memory {
            needed: self.total_bytes,
            available,
            largest: largest
                .map_or_else(String::new, |i| format!("{} {} ({})", i.purpose, i.bytes, i.detail)),
            remedy,
        })
    }
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

fn gathered_bytes(prepared: &Prepared) -> u64 {
    match &prepared.features {
        Matrix::Dense(_) => 0,
        Matrix::Sparse(_) => {
            prepared.workload().stored_gathered * 8 + (u64::from(prepared.shape.rows) + 1) * 8
        }
    }
}

/// Bytes of a row of `width` values.
fn padded(width: u32) -> u64 {
    Buffer::row_bytes(width as usize) as u64
}

/// Bytes a row of all slots of both programs, which share what they can.
fn slots_bytes(program: &Program, evaluation: &Program, intervals: u32, pipeline: &Pipeline) -> u64 {
    let assigned = Buffers::assign(program, intervals, pipeline);
    let each = assigned.widths().iter().zip(assigned.versions());
    let mut widths: Vec<u32> = each.flat_map(|(&width, &kept)| (0..kept).map(move |_| width)).collect();
    let mut spare = if pipeline.row_versions() > 1 { Vec::new() } else { widths.clone() };
    for &width in Buffers::assign(evaluation, intervals, &Pipeline::default()).widths() {
        match spare.iter().position(|&w| w == width) {
            Some(at) => drop(spare.swap_remove(at)),
            None => widths.push(width),
        }
    }
    widths.into_iter().map(padded).sum()
}

/// What this process may hold in all.
fn available() -> Option<u64> {
    let line = |text: &str, name: &str| -> Option<u64> {
        let line = text.lines().find_map(|l| l.strip_prefix(name))?;
        Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
    };
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let held = line(&status, "VmRSS:")?;
    let machine =
        line(&std::fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable:").map(|free| free + held);
    let group = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok().and_then(|t| t.trim().parse().ok());
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let space = limits.lines().find_map(|l| l.strip_prefix("Max address space"));
    let space = space.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok());
    [machine, group, space].into_iter().flatten().min()
}

//! Estimated memory of a run, by purpose and by phase.

use serde::Serialize;

/// A phase of a run. Phases follow each other, so the peak of the run is that of the largest phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// The run puts vertices into an order.
    Ordering,
    /// The run gathers features. It releases them at the end, and allocates rows afterwards.
    Gathering,
    /// Epochs and evaluations.
    Training,
}

impl Phase {
    /// All phases, in order.
    pub const ALL: [Self; 3] = [Self::Ordering, Self::Gathering, Self::Training];

    /// Returns the name of the phase, for instance `training`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ordering => "ordering",
            Self::Gathering => "gathering",
            Self::Training => "training",
        }
    }
}

/// Memory of one purpose, such as the graph.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MemoryItem {
    /// Name of the purpose, for instance `graph`.
    pub purpose: &'static str,
    /// Description of the data, with its shape.
    pub detail: String,
    /// Number of bytes.
    pub bytes: u64,
    /// Phases in which the memory is in use.
    pub during: Vec<Phase>,
}

/// Memory of one phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PhaseBytes {
    /// The phase.
    pub phase: Phase,
    /// Sum of the items that are in use in the phase, in bytes.
    pub bytes: u64,
}

/// Estimate of the peak memory of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MemoryPlan {
    /// Memory by purpose, in the order of allocation.
    pub items: Vec<MemoryItem>,
    /// Memory by phase, in order, without phases that this run does not have.
    pub phases: Vec<PhaseBytes>,
    /// Bytes of the largest phase. This is the peak, unless reading the data set took more.
    pub total_bytes: u64,
    /// Peak memory of this process when the plan was made, after it had read the data set, in
    /// bytes. It is never a reason to refuse the run. `None` if the system does not report it.
    pub read_bytes: Option<u64>,
    /// Bytes that training would save by storing rows as bfloat16 (`run.row_storage`). `None` if
    /// rows are bfloat16.
    pub bf16_saves_bytes: Option<u64>,
    /// Memory that this process may use, in bytes: what the machine and its control group have
    /// free, and what the process has already. `None` if the system does not report it.
    pub available_bytes: Option<u64>,
}

impl MemoryPlan {
    /// Returns the peak memory in bytes, including the reading of the data set.
    #[must_use]
    pub fn peak_bytes(&self) -> u64 {
        self.total_bytes.max(self.read_bytes.unwrap_or(0))
    }
}

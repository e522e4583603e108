//! Estimated memory of a run, by purpose and by phase.

use serde::Serialize;

/// A phase of a run. Phases follow each other, so the peak memory of a run is that of its largest
/// phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// The vertices are put into the order of `run.order`.
    Ordering,
    /// The features are summed over neighbours once, before the first epoch. Rows are allocated
    /// after this phase.
    Gathering,
    /// The epochs and evaluations.
    Training,
}

impl Phase {
    /// All phases in the order in which a run goes through them.
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

/// Memory that a run uses for one purpose, for instance the graph.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MemoryItem {
    /// Name of the purpose, for instance `graph`.
    pub purpose: &'static str,
    /// Description of the stored data, with its shape.
    pub detail: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Phases during which the memory is in use.
    pub during: Vec<Phase>,
}

/// Memory that a run uses in one phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PhaseBytes {
    /// Phase that the bytes are used in.
    pub phase: Phase,
    /// Size in bytes of all items that are in use during the phase.
    pub bytes: u64,
}

/// Estimated memory of a run, by purpose and by phase.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MemoryPlan {
    /// Memory of each purpose, in the order of allocation.
    pub items: Vec<MemoryItem>,
    /// Memory of each phase that the run has, in order.
    pub phases: Vec<PhaseBytes>,
    /// Size in bytes of the largest phase. This is the estimated peak, unless reading the data set
    /// took more memory.
    pub total_bytes: u64,
    /// Bytes of lists and features in mapped files that a run on batches reads. The operating system
    /// drops their pages if memory is short, so they are not part of the other sizes.
    pub mapped_bytes: u64,
    /// Peak memory in bytes of this process when the plan was made, after the data set was read. It
    /// is informative, so no run is refused because of it. `None` if the system does not report it.
    pub read_bytes: Option<u64>,
    /// Bytes that the training would save with rows stored as bfloat16 (`run.row_storage`). `None`
    /// if rows already are bfloat16.
    pub bf16_saves_bytes: Option<u64>,
    /// Bytes that this process may use: its own memory plus the free memory of the machine or
    /// control group. `None` if the system does not report it.
    pub available_bytes: Option<u64>,
}

impl MemoryPlan {
    /// Returns the estimated peak memory in bytes, including the memory that reading the data set
    /// took.
    #[must_use]
    pub fn peak_bytes(&self) -> u64 {
        self.total_bytes.max(self.read_bytes.unwrap_or(0))
    }
}

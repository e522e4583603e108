//! Plans of tensor pipelines: which lane does which operators, how many replicas, which schedule.
//!
//! A [`Graph`] is a model's operators with what each takes, keeps and sends; a [`Machine`] is lanes with pace,
//! memory and links; [`Wanted`] says what a plan may be. [`plan`] lets several planners cut the graph into
//! stages, times each cut by the list schedule that lanes follow ([`crate::schedule`]), transfers included, and
//! takes the one of most rows a second.
//!
//! | planner | stages | source |
//! | --- | --- | --- |
//! | [`Planner::Chain`] | the quickest contiguous runs | Narayanan et al. 2019 (PipeDream), section 3.1 |
//! | [`Planner::Blocks`] | runs of equal compute | Narayanan et al. 2021 (PipeDream-2BW), section 3.3 |
//! | [`Planner::Balanced`] | the same, boundary operators moved | Zhao et al. 2020 (BaPipe), section 3 |
//! | [`Planner::Branches`] | convex sets of a series-parallel graph | Jeon et al. 2025 (GraphPipe), section 4 |
//!
//! A stage keeps its inputs only and goes forward again (recomputation) where its lane's memory asks for it, and
//! nowhere else. What is over a limit is no plan. Rows of the data lie with the lanes that read them.

mod balance;
mod blocks;
mod branches;
mod chain;
mod cost;
mod graph;
mod lattice;
mod lower;
mod machine;
pub mod models;
mod partition;
mod plan;
mod pool;
mod predict;
mod search;
mod tree;

pub use graph::{Graph, MAX_OPERATORS, Operator, Pace};
pub use machine::{Host, Lane, Machine, Wanted};
pub use partition::Planner;
pub use plan::{Answer, Plan, PlannedStage};
pub use search::plan;

#[cfg(test)]
mod tests;

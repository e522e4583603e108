//! Plans of tensor pipelines: which lane does which operators, how many replicas, which schedule.
//!
//! A [`Graph`] is a model's operators with what each takes, keeps and sends; a [`Machine`] is lanes
//! with pace, memory and links; [`Wanted`] says what a plan may be. [`plan`] lets several planners
//! cut the graph into stages, times each cut by the list schedule that lanes follow
//! ([`crate::schedule`]), transfers included, and takes the one of most rows a second.
//!
//! | planner | stages | source |
//! | --- | --- | --- |
//! | [`Planner::Chain`] | the quickest contiguous runs | PipeDream: Narayanan et al. 2019, 3.1 |
//! | [`Planner::Blocks`] | runs of equal compute | PipeDream-2BW: Narayanan et al. 2021, 4 |
//! | [`Planner::Balanced`] | these, boundary operators moved | BaPipe: Zhao et al. 2020 |
//! | [`Planner::Branches`] | convex sets of a graph | GraphPipe: Jeon et al. 2025 |
//!
//! A stage keeps its inputs only and goes forward again (recomputation) where its lane's memory
//! asks for it, and nowhere else. What is over a limit is no plan. Rows of the data lie with the
//! lanes that read them.

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
pub use machine::{Host, HostWork, Lane, Machine, Shape, Wanted};
pub use partition::Planner;
pub use plan::{Answer, Plan, PlannedStage};
pub use search::plan;

#[cfg(test)]
mod tests;

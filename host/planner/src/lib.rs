//! Planner of tensor pipelines: assigns operators to lanes, and chooses the number of replicas and
//! the schedule.
//!
//! A [`Graph`] has a model's operators with their times, memory and output sizes. A *lane* is a
//! worker's share of the pipeline, which runs one step at a time. A [`Machine`] has lanes with
//! pace, memory and bandwidth. [`Wanted`] has the allowed plans. [`plan`] lets several planners
//! divide the graph into stages. It times each division by the list schedule that lanes follow
//! ([`schedule`]), transfers included. It returns the plan with the highest number of rows per
//! second.
//!
//! | planner | stages | source |
//! | --- | --- | --- |
//! | [`Planner::Chain`] | the fastest contiguous runs | PipeDream: Narayanan et al. 2019, 3.1 |
//! | [`Planner::Blocks`] | runs of equal compute | PipeDream-2BW: Narayanan et al. 2021, 4 |
//! | [`Planner::Balanced`] | runs of equal compute, with boundary operators moved | BaPipe: Zhao et al. 2020 |
//! | [`Planner::Branches`] | convex sets of a graph | GraphPipe: Jeon et al. 2025 |
//! | [`Planner::Refined`] | one of the above, with single operators and lanes moved | local search |
//!
//! All planners but the last minimise the slowest stage, or the slowest stage and the sum of all. The
//! last one starts from their fastest partitions and minimises the predicted time of a round.
//!
//! A stage stashes only its inputs and repeats its forward step (recomputation) if its lane's
//! memory requires it, and never otherwise. A division that exceeds a limit is not a plan. Lanes
//! that read rows of the data store these rows.

/// Expands to true if a test has planted this defect in the rules and planners of its thread.
macro_rules! planted {
    ($defect:ident) => {{
        #[cfg(test)]
        {
            crate::testing::is_planted(crate::testing::Planted::$defect)
        }
        #[cfg(not(test))]
        {
            false
        }
    }};
}

mod balance;
mod blocks;
mod branches;
mod chain;
pub mod cost;
mod error;
mod graph;
mod lattice;
mod lower;
mod machine;
pub mod models;
mod partition;
pub mod placement;
mod plan;
pub mod policy;
mod pool;
mod predict;
mod protection;
mod refine;
#[cfg(test)]
#[path = "../../program/src/sample_programs.rs"]
mod sample_programs;
pub mod schedule;
mod search;
mod stage_time;
#[cfg(test)]
mod testing;
mod tree;

pub use error::{Error, Result};
pub use graph::{Graph, MAX_OPERATORS, Operator, Pace};
pub use machine::{Host, HostWork, Lane, Machine, Shape, Wanted};
pub use partition::Planner;
pub use placement::Placement;
pub use plan::{Answer, Plan, PlannedStage};
pub use policy::Policy;
pub use protection::{Failures, Protected, Protection, protect};
pub use search::plan;

#[cfg(test)]
mod tests;

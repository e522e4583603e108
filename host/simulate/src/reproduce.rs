//! Tables of published systems, run again in the simulated world: what was published, what is fitted on
//! one row of it, what the simulation predicts of the others, and by how much it errs.

pub mod dorylus;
pub mod pipelines;

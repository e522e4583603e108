//! Reproductions of published systems in the simulated world. Each has the published result, the
//! parameters that are fitted to a part of it, the simulated result for the other parts, and the
//! error.

pub mod dorylus;
pub mod pipelines;

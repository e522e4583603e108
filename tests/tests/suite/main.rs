//! The crate's integration tests, in one program: one link instead of one a file.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod batches;
mod beginnings;
mod code_map;
mod compatibility;
mod deep;
mod doors;
mod edge_labels;
mod equivalence;
mod examples;
mod folded;
mod functions;
mod fuzz;
mod hostile;
mod hosts;
mod kernels;
mod lanes;
mod models;
mod modes;
mod numpy;
mod optimiser;
mod oracle;
mod pair_norm;
mod rows;
mod sequences;
mod shipped;
mod spans;
mod tied;
mod trainer;

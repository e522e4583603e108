//! The crate's integration tests, in one program: one link instead of one a file.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod edge_features;
mod formats;
mod formats_fuzz;
mod gather;
mod generate;
mod graphs;
mod hostile;
mod order;
mod published;
mod store;
mod tables;

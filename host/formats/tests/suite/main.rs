//! The crate's integration tests, in one program: one link instead of one a file.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod arrays;
#[cfg(feature = "parquet")]
mod columnar;
mod cora;
mod documents;
mod edge_features;
mod edge_rule;
mod formats;
mod formats_fuzz;
mod graphs;
mod hostile;
mod kinds;
mod names;
mod predict;
mod published;
mod report;
mod rows;
mod tables;

//! The crate's integration tests, in one program: one link instead of one a file.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod beginnings;
mod checkpoint;
mod cli;
mod common;
mod cost;
mod docs;
mod earlier_runs;
mod edges;
mod fetch;
mod graphs;
mod hostile;
mod jobs;
mod kernels;
mod lanes;
mod liars;
mod limited;
mod links;
mod many_graphs;
mod names;
mod network;
mod owned;
mod provenance;
mod report;
mod reported;
mod scaling;
mod schema;
mod signs;
mod split;
mod stop;
mod stored_jobs;
mod sweep;
mod tasks;
mod watch;
mod workers;
mod wrong_answers;

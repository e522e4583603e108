//! The crate's integration tests, in one program: one link instead of one a file.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod gather;
mod generate;
mod order;
mod store;

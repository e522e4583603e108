//! Integration tests of the crate, in a single program, so that they are linked once.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod fixture;
mod fuzz;
mod handler;
mod hostile;
mod process;

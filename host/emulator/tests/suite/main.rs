//! The crate's integration tests, in one program: one link instead of one a file.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;
mod faults;
mod hostile;
mod lambda;
mod s3;
mod speed;
mod times;

//! Integration tests of the crate, in a single program, so that they are linked once.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;
mod faults;
mod hostile;
mod lambda;
mod s3;
mod speed;
mod times;

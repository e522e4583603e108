//! A stand-in for AWS on loopback: Lambda, whose functions are real worker processes, and S3.
//!
//! Clients reach it with their usual code; only the endpoints differ. It is for tests and for measuring a run's behaviour and bill without an account, not for serving others.

mod bill;
mod death;
mod emulator;
mod error;
mod faults;
mod instance;
mod invoke;
mod lambda_api;
mod link;
mod log;
mod objects;
mod pool;
mod process;
mod runtime_api;
mod s3;
mod serve;
mod settings;
mod signature;

pub use bill::{Bill, S3Bill};
pub use emulator::{Emulator, InstanceInfo};
pub use error::{Error, Result};
pub use faults::Faults;
pub use settings::{
    ASYNCHRONOUS_PAYLOAD_BYTES, BUCKETS, FUNCTIONS, Function, LOG_LINE_BYTES, LogLine, LogSink,
    SYNCHRONOUS_PAYLOAD_BYTES, Settings,
};

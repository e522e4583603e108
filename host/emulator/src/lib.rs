//! A stand-in for AWS on loopback: Lambda, whose functions are real worker processes, and S3.
//!
//! Clients reach it with their usual code; only the endpoints differ. It is for tests, and for measuring a run's behaviour and bill without an account; it is not for serving others.
//!
//! ```no_run
//! # async fn run() -> eciton_emulator::Result<()> {
//! use eciton_emulator::{Emulator, Faults, Function, Settings};
//!
//! let emulator = Emulator::start(Settings {
//!     functions: vec![Function::new("eciton-worker", "target/worker/bootstrap")],
//!     bits_per_second: Some(200_000_000),
//!     faults: Faults { seed: 7, crash_during: 0.05, lose_answer: 0.05, ..Faults::default() },
//!     ..Settings::default()
//! })
//! .await?;
//! let before = emulator.bill();
//! // ... invoke at emulator.endpoint(), store at emulator.s3_endpoint(), sign with Settings::access_key and secret_key ...
//! println!("{} ms billed", emulator.bill().minus(&before).billed_ms);
//! emulator.stop().await
//! # }
//! ```
//!
//! # What is as at AWS
//!
//! The Invoke API (RequestResponse, Event, DryRun, log tail, function errors, the refusals with their status, header and JSON), GetFunction, GetFunctionConfiguration, GetAccountSettings; the
//! Runtime API; one event at a time and instance, the most recently used first, cold starts, billed init, timeouts, payload limits, the concurrency limit; Signature Version 4 everywhere;
//! S3's objects, ranges, conditional writes, uploads in parts, listings, checksums and signed chunks.
//!
//! # What is not
//!
//! A function's share of a processor is not limited: with [`Settings::times`] its processor time is divided by the share. Scaling up is not slowed down. An asynchronous event is run once, without AWS's two retries. Payloads of
//! an invocation use the instance's network (at AWS they have one of their own). Entity tags are not MD5. No versions, locks, lists of access rules or lifecycles of buckets. A function's role is
//! prefixes of keys ([`Role`]), not IAM's language.
//!
//! # Limits
//!
//! Heads of requests: 64 KiB and 100 headers. A slow sender is cut off after [`Settings::header_timeout`] and [`Settings::body_timeout`], a slow reader after the latter. At most
//! [`Settings::connections`] connections a listener, [`Settings::concurrency`] processes, 1,000 waiting asynchronous events, [`Settings::store_bytes`] of objects, 10,000 open uploads.

mod bill;
mod clock;
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
mod owner;
mod pool;
mod process;
mod processor;
mod reference;
mod role;
mod runtime_api;
mod s3;
mod serve;
mod settings;
mod signature;

pub use bill::{Bill, S3Bill};
pub use clock::{Advanced, Clock, Times};
pub use emulator::{Emulator, InstanceInfo};
pub use error::{Error, Result};
pub use faults::Faults;
pub use processor::time_of as processor_time;
pub use role::Role;
pub use settings::{
    ASYNCHRONOUS_PAYLOAD_BYTES, BUCKETS, FUNCTIONS, Function, LOG_LINE_BYTES, LogLine, LogSink,
    SYNCHRONOUS_PAYLOAD_BYTES, Settings, Tmp,
};

//! Emulator of AWS on a loopback address: S3, and Lambda, whose functions are real worker
//! processes.
//!
//! Clients use their normal code, with other endpoints. The emulator is for tests, and for
//! measuring the behaviour and the bill of a run without an account. It must not serve other
//! machines.
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
//! # Same as AWS
//!
//! The Invoke API: RequestResponse, Event, DryRun, log tail, function errors, and refusals with
//! their status, header and JSON. GetFunction, GetFunctionConfiguration and GetAccountSettings. The
//! Runtime API. One event at a time per instance, the most recently used instance first, cold
//! starts, billed initialisation, timeouts, payload limits and the concurrency limit. Signature
//! Version 4 everywhere. S3's objects, ranges, conditional writes, multipart uploads, listings,
//! checksums and signed chunks.
//!
//! # Different from AWS
//!
//! A function's share of a processor is not limited. With [`Settings::times`], its processor time
//! is divided by the share. Scaling up is not slowed down. An asynchronous event is run once,
//! without AWS's two retries. Payloads of an invocation use the instance's network, while AWS has a
//! separate one for them. Entity tags are not MD5. Buckets have no versions, locks, access control
//! lists or lifecycles. A function's role consists of key prefixes ([`Role`]), not of IAM policies.
//!
//! # Limits
//!
//! The head of a request has at most 64 KiB and 100 headers. A slow sender is disconnected after
//! [`Settings::header_timeout`] or [`Settings::body_timeout`], and a slow reader after the latter.
//! There are at most [`Settings::connections`] connections per listener, [`Settings::concurrency`]
//! processes, 1,000 waiting asynchronous events, [`Settings::store_bytes`] bytes of objects, and
//! 10,000 open uploads.

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

//! Emulator of AWS Lambda and S3 on loopback addresses. Its functions are real worker processes.
//!
//! Clients use the same code as with AWS, but with other endpoints. The emulator is for tests, and
//! for measurements of a run's behaviour and cost without an AWS account. It must not serve other
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
//! The emulator has the Invoke API with RequestResponse, Event and DryRun, log tails, function
//! errors, and error responses with their status, header and JSON. It has GetFunction,
//! GetFunctionConfiguration, GetAccountSettings, and the Runtime API. An instance processes one
//! event at a time, and the most recently used instance is chosen first. Cold starts, billed
//! initialisation, timeouts, payload limits and the concurrency limit are emulated. Requests must
//! have a Signature Version 4. S3 has objects, ranges, conditional writes, multipart uploads,
//! listings, checksums and signed chunks.
//!
//! # Different from AWS
//!
//! A function's share of a processor is not limited. With [`Settings::times`], its processor time
//! is divided by the share. New instances are started without a rate limit. An asynchronous event
//! is run only once, without the two retries of AWS. Payloads of invocations use the network of the
//! instance, while AWS has a separate one for them. Entity tags are not MD5 digests. Buckets have
//! no versions, locks, access control lists or lifecycles. The role of a function consists of key
//! prefixes ([`Role`]), not of IAM policies.
//!
//! # Limits
//!
//! The head of a request may have at most 64 KiB and 100 headers. A client that sends too slowly is
//! disconnected after [`Settings::header_timeout`] or [`Settings::body_timeout`], and one that
//! reads too slowly after the latter. There are at most [`Settings::connections`] connections per
//! listener, [`Settings::concurrency`] processes, 1,000 waiting asynchronous events,
//! [`Settings::store_bytes`] bytes of objects, and 10,000 open uploads.

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

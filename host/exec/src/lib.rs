//! Executors, which run the jobs of a training run on threads, workers or functions.
//!
//! An [`Executor`] takes a [`Job`] and returns [`Completion`]s, in any order. The engine decides
//! what follows from them. The [`LocalPool`] runs jobs on threads of this machine, one thread per
//! job. The driver's thread runs jobs as well while it waits.
//!
//! A [`workers::WorkerPool`] sends jobs to processes that connect to this host
//! ([`eciton_connect`]). A job of a lane names its worker ([`Affinity`]). Workers may fail
//! ([`Completion::Lost`]) and come back.
//!
//! A [`RemotePool`] sends kernels' jobs as frames through an [`Invoker`]: to AWS Lambda
//! ([`lambda`]), to a stand-in for it on this machine ([`emulated`]), or to this process
//! ([`loopback`]). The first two need the feature `aws`. All other jobs run on its local pool. An
//! answer of another process is held back ([`Answered::Apart`]) until the engine commits it, so a
//! task may have any number of attempts in flight.

mod architecture;
mod audit;
#[cfg(feature = "aws")]
pub mod aws;
mod bill;
pub mod bucket;
mod clock;
pub mod cloud_file;
mod completion;
mod concurrency;
pub mod deployment;
#[cfg(feature = "aws")]
pub mod emulated;
#[cfg(feature = "aws")]
mod emulated_account;
mod error;
mod executor;
mod framed;
pub mod functions;
mod host;
mod invoker;
mod job;
#[cfg(feature = "aws")]
mod kernel_keys;
#[cfg(feature = "aws")]
pub mod lambda;
#[cfg(feature = "aws")]
mod lambda_invoker;
mod local;
pub mod loopback;
mod no_aws;
mod pending;
mod process;
pub mod programs;
mod remote;
mod runtime;
mod scratch;
mod traffic;
pub mod trainers;
pub mod workers;

pub use architecture::Architecture;
pub use audit::{Audited, Draw, Verdict};
pub use bill::{Bill, Cost, TimeOrigin};
pub use clock::Clock;
pub use cloud_file::{cloud, cloud_digest, prices};
pub use completion::{Answered, Completion, Timing, WorkError};
pub use concurrency::Cut;
pub use deployment::{DEFAULT_STACK, Deployment};
pub use eciton_recipe::Prices;
pub use executor::{Cancel, Capabilities, Executor, Load, Usage};
pub use host::Host;
pub use invoker::{InvokeError, Invoked, Invoker};
pub use job::{Affinity, Instruction, Job, KernelWork, SharedInput, Work};
pub use local::{Inbox, LocalPool, Settings};
pub use no_aws::NoAws;
pub use process::Process;
pub use remote::{RemotePool, RemoteSettings, Transport};
pub use scratch::Scratch;
pub use traffic::Traffic;

pub use {cloud_file as cloud, programs as worker};

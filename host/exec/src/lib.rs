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

mod audit;
mod clock;
mod completion;
#[cfg(feature = "aws")]
pub mod emulated;
mod executor;
mod framed;
pub mod functions;
mod job;
#[cfg(feature = "aws")]
pub mod lambda;
mod local;
pub mod loopback;
mod pending;
mod process;
mod remote;
mod traffic;
pub mod workers;

pub use audit::{Audited, Draw, Verdict};
pub use clock::Clock;
pub use completion::{Answered, Completion, Timing, WorkError};
pub use executor::{Cancel, Capabilities, Executor, Load, Usage};
pub use job::{Affinity, Instruction, Job, KernelWork, SharedInput, Work};
pub use local::{Inbox, LocalPool, Settings};
pub use process::Process;
pub use remote::{RemotePool, RemoteSettings, Transport};
pub use traffic::Traffic;

#[cfg(feature = "aws")]
pub use eciton_cloud::aws;
pub use eciton_cloud::{
    Architecture, Bill, Cost, Cut, DEFAULT_STACK, Deployment, Host, InvokeError, Invoked, Invoker, NoAws,
    Prices, Scratch, TimeOrigin, bucket, cloud_digest, deployment, prices, programs as worker, trainers,
};
pub use eciton_cloud::{cloud, cloud_file as cloud};

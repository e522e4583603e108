//! Executors, which run the jobs of a training run on threads of this machine or on cloud
//! functions.
//!
//! An [`Executor`] takes [`Job`]s and reports [`Completion`]s in any order. The engine uses these
//! reports to choose the next jobs. The [`LocalPool`] runs jobs on threads of this machine, one
//! thread per job. The driver's thread also runs jobs while it waits.
//!
//! A [`RemotePool`] sends the jobs of kernels as frames (binary messages) through an [`Invoker`].
//! The invoker calls AWS Lambda (`lambda`), an emulation of AWS Lambda on this machine
//! (`emulated`), or this process ([`loopback`]). The first two need the feature `aws`. All other
//! jobs run on the local pool of the remote pool. [`functions::start`] starts the pool that a
//! recipe names.
//!
//! An executor does not write the answer of another process to its destination. It passes the
//! answer on as [`Answered::Apart`], and the engine writes it if it commits the attempt. A task may
//! therefore have several attempts in flight. An [`Audit`] compares a share of the answers with
//! results that the host computes itself.
//!
//! Other crates build executors on the [`Inbox`] of a local pool, [`PendingJob`] and [`framed`].
//! The crate `eciton-workers` contains the pool of worker processes. The crate `eciton-cloud`
//! contains deployments, prices and clients of the cloud. This crate exports its types as well.
//!
//! # Example
//!
//! ```
//! use eciton_exec::{Affinity, Executor as _, Job, LocalPool, Settings, Work};
//! use eciton_types::{Attempt, IntervalId, Round, StageId, Task, Version};
//!
//! let settings = Settings { threads: 2, fresh_instances: false, newest_first: false, lanes: 0 };
//! let mut pool = LocalPool::new(settings)?;
//! let task = Task {
//!     round: Round(1),
//!     stage: StageId(0),
//!     interval: IntervalId(0),
//!     attempt: Attempt(0),
//!     weights: Version(0),
//! };
//! let work = Work::Host(Box::new(|| Ok(())));
//! pool.submit(Job { pass: 1, task, work, deadline: None, affinity: Affinity::HOST });
//! let mut done = Vec::new();
//! while pool.drain(&mut done, None) {}
//! assert_eq!(done.len(), 1);
//! # Ok::<(), std::io::Error>(())
//! ```

mod audit;
mod clock;
mod completion;
#[cfg(feature = "aws")]
pub mod emulated;
mod executor;
pub mod framed;
pub mod functions;
pub mod hosts;
mod job;
#[cfg(feature = "aws")]
pub mod lambda;
mod local;
pub mod loopback;
mod pending;
mod process;
mod remote;
mod traffic;

pub use audit::{Audit, Audited, Draw, Verdict};
pub use clock::Clock;
pub use completion::{Answered, Completion, Timing, WorkError};
pub use executor::{Cancel, Capabilities, Executor, Load, Usage};
pub use job::{Affinity, Instruction, Job, KernelWork, Order, SharedInput, Work};
pub use local::{Inbox, LocalPool, Settings, run_guarded};
pub use pending::PendingJob;
pub use process::Process;
pub use remote::{RemotePool, RemoteSettings, Transport};
pub use traffic::Traffic;

#[cfg(feature = "aws")]
pub use eciton_cloud::aws;
pub use eciton_cloud::{
    Architecture, Bill, Cost, Cut, DEFAULT_STACK, Deployment, Host, InvokeError, Invoked, Invoker, NoAws,
    Prices, Scratch, TimeOrigin, bucket, cloud_digest, deployment, on_interruption, prices,
    programs as worker, trainers,
};
pub use eciton_cloud::{cloud, cloud_file as cloud};

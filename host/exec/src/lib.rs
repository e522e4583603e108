//! Executors, which run the jobs of a training run on threads of this machine or on functions.
//!
//! An [`Executor`] takes a [`Job`] and returns [`Completion`]s, in any order. The engine decides
//! what follows from them. The [`LocalPool`] runs jobs on threads of this machine, one thread per
//! job. The driver's thread runs jobs as well while it waits.
//!
//! A [`RemotePool`] sends kernels' jobs as frames through an [`Invoker`]: to AWS Lambda
//! (`lambda`), to a stand-in for it on this machine (`emulated`), or to this process
//! ([`loopback`]). The first two need the feature `aws`. All other jobs run on its local pool.
//! [`functions::start`] starts the pool that a recipe names.
//!
//! An answer of another process is held back ([`Answered::Apart`]) until the engine commits it, so
//! a task may have any number of attempts in flight. An [`Audit`] compares a share of the answers
//! with the host's own.
//!
//! Other crates build executors on the [`Inbox`] of a local pool, [`PendingJob`] and [`framed`].
//! The pool of worker processes is `eciton-workers`. Deployments, prices and clients of the cloud
//! are `eciton-cloud`, whose types are exported here as well.
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
    Prices, Scratch, TimeOrigin, bucket, cloud_digest, deployment, prices, programs as worker, trainers,
};
pub use eciton_cloud::{cloud, cloud_file as cloud};

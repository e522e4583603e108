//! Pool of worker processes on the host, and the worker's side of the protocol.
//!
//! A [`WorkerPool`] is an [`Executor`](eciton_exec::Executor). It admits processes that connect to
//! this host ([`eciton_connect::Listener`]), assigns an index to each, and sends tasks to them. A
//! task of a lane (a worker's share of the pipeline) names its worker
//! ([`Affinity`](eciton_exec::Affinity)). Any other task goes to the worker that has the fewest
//! tasks. [`start`] starts the pool of a run. It also starts the worker processes unless the user
//! starts them.
//!
//! A worker ([`serve`]) runs one task at a time. It caches tensors that later steps read, such as
//! weights by generation, and rows of forward steps until their backward steps.
//!
//! A worker may fail at any time, because its cached tensors are copies or can be computed again. A
//! worker may also own state ([`Owned`]), such as parameters. The caller records this state, and
//! sends it to another worker after a failure.
//!
//! # Example
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use eciton_exec::framed::Framing;
//! use eciton_exec::{Executor as _, LocalPool};
//! use eciton_kernel::Limits;
//! use eciton_tensor::frame::Encoding;
//! use eciton_workers::{Settings, WorkerPool};
//!
//! let threads = eciton_exec::Settings { threads: 2, fresh_instances: false, newest_first: false, lanes: 0 };
//! let settings = Settings {
//!     run: "example".to_owned(),
//!     framing: Framing { rows: Encoding::F32, limits: Limits::default() },
//!     count: 2,
//!     spares: 0,
//!     listen: "127.0.0.1:0".to_owned(),
//!     tokens: None,
//!     silence: Duration::from_secs(5),
//!     answer: Duration::from_secs(60),
//!     patience: Duration::from_secs(60),
//!     numeric_class: eciton_tensor::numeric_class().to_owned(),
//!     lanes: false,
//!     peers: false,
//!     weight_versions: 1,
//!     needs: Vec::new(),
//!     audit: 0.0,
//! };
//! let mut pool = WorkerPool::new(LocalPool::new(threads)?, &[], settings)?;
//! // Waits until both workers are connected.
//! let connected = pool.prepare(&mut |line| println!("{line}"))?;
//! assert_eq!(connected, [true, true]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod children;
mod connections;
mod frames;
mod gathering;
mod incoming;
mod link;
mod meeting_place;
mod mesh;
mod objects;
mod outgoing;
mod owned;
mod peers;
mod pool;
mod room;
mod serve;
mod settings;
mod shared;
mod start;
mod status;

pub use eciton_connect::{Error as ConnectError, Secret, Token, read_tokens};
pub use eciton_exec::Traffic;
pub use gathering::{Apart, MeshSettings, Watch};
pub use meeting_place::MeetingPlace;
pub use mesh::Mesh;
pub use objects::OBJECT_BYTES;
pub use owned::{Owned, Passes};
pub use pool::{Rendezvous, WorkerPool};
pub use serve::{Contact, Leave, Load, Served, Serving, serve};
pub use settings::{CREDIT, Settings};
pub use start::start;
pub use status::{Snapshot, State, Status};

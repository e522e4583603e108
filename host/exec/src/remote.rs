//! The remote pool, an executor that sends tasks to cloud functions through an invoker. All other
//! jobs run on threads of this machine.
//!
//! A task is a job of kernels that any process may run. When a function is available, the pool
//! writes the task as a frame (a binary message). The leases of the job end then. The frame is part
//! of the request if it fits, and is otherwise passed through the object store.
//!
//! Several tasks may read the same input, such as the features of an interval in every epoch or the
//! weights on every interval. The pool writes such an input to the store once, and the frames refer
//! to it. Functions cache it.

mod attempt;
mod constants;
mod errors;
mod flights;
mod lock;
mod objects;
mod pace;
mod settings;
mod spent;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use eciton_cloud::Invoker;
use eciton_tensor::frame::Encoding;
use eciton_transport::keys::RunKeys;
use eciton_transport::{Counts, Key, Store};
use tokio::sync::watch;

pub use eciton_recipe::Transport;
pub use settings::RemoteSettings;

use self::attempt::Wire;
use self::flights::{Flights, Shared};
use self::lock::lock;
use self::objects::Objects;
use crate::audit::Audit;
use crate::completion::Completion;
use crate::executor::{Cancel, Capabilities, Executor, Load, Usage};
use crate::framed::Framing;
use crate::job::{Job, Order};
use crate::local::LocalPool;
use crate::pending::PendingJob;

/// Executor that sends tasks to cloud functions, up to a maximum number at a time. It runs all
/// other tasks on threads of this machine.
///
/// The first attempt at a task waits for a function or a thread, whichever is free first. A thread
/// writes the results of a first attempt in place. Later attempts may run at the same time as
/// earlier ones, so the pool writes their frames immediately. They run on a function. If the limit
/// on functions is zero, a thread computes them, and the engine writes their results.
pub struct RemotePool<I> {
    local: LocalPool,
    shared: Arc<Shared<I>>,
    runtime: Option<tokio::runtime::Runtime>,
    framing: Framing,
    audit: Audit,
    /// True after the pool was cancelled. All later tasks run on this machine.
    at_home: bool,
}

impl<I> std::fmt::Debug for RemotePool<I> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RemotePool({})", self.shared.wire.settings.run)
    }
}

impl<I: Invoker> RemotePool<I> {
    /// Creates a pool that calls functions through `invoker` and runs other jobs on `local`.
    /// `store` may be `None` unless the transport is [`Transport::S3`].
    ///
    /// # Errors
    /// Returns an error if the transport is [`Transport::S3`] and there is no store, or if
    /// `settings.run` is not a valid name.
    pub fn new(
        local: LocalPool,
        invoker: I,
        store: Option<Arc<dyn Store>>,
        settings: RemoteSettings,
        runtime: tokio::runtime::Runtime,
    ) -> std::io::Result<Self> {
        if store.is_none() && settings.transport == Transport::S3 {
            return Err(std::io::Error::new(
                std::io::ErrorKind::InvalidInput,
                "executor.transport = \"s3\" requires an object store: use a deployment with a bucket, or set executor.transport to \"payload\"",
            ));
        }
        let keys = RunKeys::new(&settings.run)
            .map_err(|e| std::io::Error::new(std::io::ErrorKind::InvalidInput, e.to_string()))?;
        let store = store.filter(|_| settings.transport != Transport::Payload);
        let framing = Framing { rows: settings.rows, limits: settings.limits.clone() };
        // Only rounding changes results. Binary layers read no more than the signs and scales.
        if settings.rows == Encoding::Bf16 {
            local.round(framing.clone());
        }
        let audit = Audit::new(settings.audit, framing.clone());
        let (bill, classes) = (Mutex::default(), Mutex::default());
        let objects = Mutex::new(Objects::new(settings.weight_versions));
        let flights = Mutex::new(Flights { limit: settings.most, ..Flights::default() });
        let wire = Wire { invoker, store, keys, settings, bill, classes };
        let shared = Arc::new(Shared {
            wire,
            inbox: local.inbox(),
            runtime: runtime.handle().clone(),
            flights,
            objects,
            cancelled: watch::Sender::new(false),
        });
        Ok(Self { local, shared, runtime: Some(runtime), framing, audit, at_home: false })
    }

    /// Submits a second or later attempt at a task. The leases of the order (rights to use rows of
    /// a buffer) may end when this returns.
    fn submit_again(&mut self, order: &Order) {
        if lock(&self.shared.flights).limit > 0 {
            return self.shared.write(order);
        }
        self.local.submit_written(&self.framing, order);
    }
}

impl<I: Invoker> Executor for RemotePool<I> {
    fn submit(&mut self, job: Job) {
        if self.at_home {
            return self.local.submit(job);
        }
        let order = match job.anywhere() {
            Ok(order) => order,
            Err(job) => return self.local.submit(job),
        };
        if let Err(error) = self.audit.submitted(&order) {
            return PendingJob::refuse(&self.shared.inbox, &order, error);
        }
        if order.task.attempt.0 > 0 {
            self.submit_again(&order);
        } else if self.shared.has_room() {
            // Functions take precedence over threads.
            return self.shared.begin(order);
        } else {
            self.shared.inbox.offer(Box::new(order));
        }
        self.shared.dispatch();
    }

    fn drain(&mut self, done: &mut Vec<Completion>, timeout: Option<Duration>) -> bool {
        let under_way = self.audit.drain(&mut self.local, done, timeout);
        // The processes of these functions cannot be ended, but their next answers do not count.
        self.audit.take_caught();
        under_way
    }

    fn cancel(&mut self, what: Cancel<'_>) -> u64 {
        // Functions have no lanes, and their processes cannot be ended.
        if !matches!(what, Cancel::All) {
            return 0;
        }
        self.at_home = true;
        self.audit.cancel();
        self.shared.cancel()
    }

    fn set_limit(&mut self, count: u32) {
        lock(&self.shared.flights).limit = count.min(self.shared.wire.settings.most);
        self.shared.dispatch();
    }

    fn capabilities(&self) -> Capabilities<'_> {
        let RemoteSettings { most, architecture, host, cut, .. } = &self.shared.wire.settings;
        let (is_apart, caches_rows) = (!self.at_home, false);
        let (host, cut) = (host.as_ref(), cut.as_ref());
        Capabilities {
            is_apart,
            caches_rows,
            audit: None,
            most: *most,
            architecture: *architecture,
            host,
            cut,
        }
    }

    fn usage(&self) -> Usage {
        let waiting = self.local.usage().load.waiting;
        let flights = lock(&self.shared.flights);
        let load = Load { waiting: waiting + flights.written.len() as u64, in_flight: flights.in_flight };
        drop(flights);
        let mut bill = *lock(&self.shared.wire.bill);
        if let Some(store) = &self.shared.wire.store {
            let Counts { gets, puts, lists, heads, bytes_in, bytes_out, .. } = store.counts();
            bill.store_reads += gets + heads;
            bill.store_writes += puts + lists;
            // Bytes that the host receives are bytes that the store sends.
            bill.store_bytes_in += bytes_out;
            bill.store_bytes_out += bytes_in;
            bill.store_bytes_host = bytes_in + bytes_out;
            bill.store_bytes_to_host = bytes_in;
        }
        Usage {
            load,
            bill: Some(bill),
            numeric_classes: lock(&self.shared.wire.classes).iter().cloned().collect(),
            traffic: Vec::new(),
            audited: self.audit.counts().cloned(),
        }
    }
}

impl<I> Drop for RemotePool<I> {
    fn drop(&mut self) {
        self.shared.cancel();
        let Some(runtime) = self.runtime.take() else { return };
        if let Some(store) = self.shared.wire.store.clone() {
            let prefix = self.shared.wire.keys.prefix().to_owned();
            let tidy = async move {
                while let Ok(found) = store.list(&prefix, 1000).await {
                    let keys: Vec<Key> = found.into_iter().map(|(key, _)| key).collect();
                    if keys.is_empty() || store.delete(&keys).await.is_err() {
                        break;
                    }
                }
            };
            // A store that does not answer must not delay the end of the run. The lifecycle rule of
            // the bucket deletes the remaining objects.
            runtime.block_on(async { drop(tokio::time::timeout(Duration::from_secs(10), tidy).await) });
        }
        runtime.shutdown_timeout(Duration::from_millis(200));
    }
}

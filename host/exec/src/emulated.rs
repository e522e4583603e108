//! The executor for emulated cloud functions. It runs the client code for AWS against an emulation
//! of AWS on this machine.

use std::path::Path;
use std::time::Duration;

use eciton_cloud::emulated_account::{EmulatedAccount, bill};
use eciton_cloud::error::{Error, system};
use eciton_cloud::lambda_invoker::LambdaInvoker;
use eciton_cloud::{Bill, ConcurrencyLimit, Host, programs, runtime};
use eciton_emulator as emulator;

use crate::completion::Completion;
use crate::executor::{Cancel, Capabilities, Executor, Usage};
use crate::functions::{Wanted, run_name};
use crate::job::Job;
use crate::remote::RemotePool;

/// Executor that runs tasks on emulated cloud functions. It consists of a [`RemotePool`] and the
/// emulation of AWS that the pool calls.
#[derive(Debug)]
pub struct Emulated {
    /// The pool. It is `None` only during the drop, which must end the pool before the emulation.
    pool: Option<RemotePool<LambdaInvoker>>,
    cloud: emulator::Emulator,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Emulated {
    /// Starts the emulation of AWS, and stores the compiled kernels in its object store.
    ///
    /// # Errors
    /// Returns an [`Error`] if the worker program is not found, or if the operating system refuses
    /// a port or a folder. Also returns one if a kernel cannot be compiled for functions.
    pub fn start(wanted: Wanted, settings: &eciton_recipe::Emulator) -> Result<Self, Error> {
        let worker = programs::find(settings.worker.as_deref().map(Path::new))?;
        let executor = &wanted.executor;
        let stand = EmulatedAccount::start(("worker", worker), executor, settings)?;
        let architecture = stand.architecture();
        // Functions write no files, so their folder may be removed.
        let EmulatedAccount { cloud, runtime: requests, store, keys, baseline, invoker, .. } = stand;
        requests.block_on(wanted.store_kernels(&store, baseline, &keys))?;
        let (most, host) = (ConcurrencyLimit::of_emulator(settings), Host::of_emulated(executor.host));
        let remote = wanted.settings(run_name(), Some(architecture), &most, Some(host));
        let pool =
            RemotePool::new(wanted.local, invoker, Some(std::sync::Arc::new(store)), remote, runtime(1)?)
                .map_err(system("start the pool of functions"))?;
        Ok(Self { pool: Some(pool), cloud, runtime: Some(requests) })
    }

    /// Returns the charged usage as the client counted it, for comparison with the counts of the
    /// emulation.
    #[must_use]
    pub fn client_bill(&self) -> Option<Bill> {
        self.pool.as_ref().and_then(|pool| pool.usage().bill)
    }
}

impl Drop for Emulated {
    fn drop(&mut self) {
        drop(self.pool.take());
        if let Some(runtime) = self.runtime.take() {
            // Worker processes end with the cloud at the latest.
            let _ = runtime.block_on(self.cloud.stop());
            runtime.shutdown_timeout(Duration::from_millis(200));
        }
    }
}

impl Executor for Emulated {
    fn submit(&mut self, job: Job) {
        if let Some(pool) = &mut self.pool {
            pool.submit(job);
        }
    }

    fn drain(&mut self, done: &mut Vec<Completion>, timeout: Option<Duration>) -> bool {
        self.pool.as_mut().is_some_and(|pool| pool.drain(done, timeout))
    }

    fn cancel(&mut self, what: Cancel<'_>) -> u64 {
        self.pool.as_mut().map_or(0, |pool| pool.cancel(what))
    }

    fn set_limit(&mut self, count: u32) {
        if let Some(pool) = &mut self.pool {
            pool.set_limit(count);
        }
    }

    fn capabilities(&self) -> Capabilities<'_> {
        self.pool.as_ref().map(Executor::capabilities).unwrap_or_default()
    }

    fn usage(&self) -> Usage {
        let usage = self.pool.as_ref().map(Executor::usage).unwrap_or_default();
        Usage { bill: Some(bill(&self.cloud.bill(), &self.client_bill().unwrap_or_default())), ..usage }
    }
}

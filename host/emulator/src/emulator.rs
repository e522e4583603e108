//! The running emulator with its threads, its two public endpoints, and its shutdown.

use crate::bill::Bill;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::instance::Phase;
use crate::invoke::Lambda;
use crate::pool::Pool;
use crate::process::{Nursery, Starter};
use crate::s3::Account;
use crate::serve::{Limits, Server, bind, serve};
use crate::settings::Settings;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::oneshot;

/// Maximum time for which a shutdown waits for killed processes to end.
const LAST_WAIT: Duration = Duration::from_secs(5);

/// Description of a running worker process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceInfo {
    /// Process id of the worker.
    pub pid: u32,
    /// Name of the function to which the process belongs.
    pub function: String,
    /// Number of events that the process has received.
    pub invocations: u64,
    /// True if the process is working on an event.
    pub busy: bool,
    /// Duration of the cold start, from the start of the process to its first request for work.
    /// `None` if the process has not requested work yet.
    pub cold_start: Option<Duration>,
    /// Peak resident memory of the process in bytes, or `None` if the system does not report it.
    pub peak_memory_bytes: Option<u64>,
}

/// Emulated cloud on loopback addresses, with its own threads. Its processes are killed when it is
/// stopped or dropped, and when the program that owns it is killed.
pub struct Emulator {
    lambda_address: SocketAddr,
    s3_address: SocketAddr,
    pool: Arc<Pool>,
    bill: Arc<Mutex<Bill>>,
    clock: Option<Arc<Clock>>,
    thread: Mutex<Option<Running>>,
}

struct Running {
    stop: oneshot::Sender<()>,
    ended: oneshot::Receiver<()>,
    thread: JoinHandle<()>,
}

struct Opened {
    lambda_address: SocketAddr,
    s3_address: SocketAddr,
    pool: Arc<Pool>,
    bill: Arc<Mutex<Bill>>,
    clock: Option<Arc<Clock>>,
}

impl std::fmt::Debug for Emulator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Emulator")
            .field("endpoint", &self.endpoint())
            .field("s3_endpoint", &self.s3_endpoint())
            .finish_non_exhaustive()
    }
}

impl Emulator {
    /// Checks the settings and opens both endpoints. Returns when they accept requests.
    ///
    /// # Errors
    /// Returns [`Error::Setting`] or [`Error::Program`] if a setting is not valid, and
    /// [`Error::System`] if a thread or a socket cannot be created.
    pub async fn start(settings: Settings) -> Result<Emulator> {
        settings.check()?;
        let (stop, stopped) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        let (open, opened) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("emulator")
            .enable_all()
            .build();
        let runtime = runtime
            .map_err(|source| Error::System { operation: "start the threads of the emulator", source })?;
        let body = move || {
            runtime.block_on(async move {
                match open_all(settings).await {
                    Ok((opened, servers)) => {
                        let pool = opened.pool.clone();
                        let _ = open.send(Ok(opened));
                        // This also happens if the emulator is dropped.
                        let _ = stopped.await;
                        drop(servers);
                        pool.kill_all();
                        let _ = tokio::time::timeout(LAST_WAIT, pool.empty()).await;
                    }
                    Err(error) => drop(open.send(Err(error))),
                }
            });
            runtime.shutdown_timeout(Duration::from_secs(1));
            let _ = end.send(());
        };
        let thread = std::thread::Builder::new().name("emulator-main".into()).spawn(body);
        let thread = thread
            .map_err(|source| Error::System { operation: "start the threads of the emulator", source })?;
        let opened = opened.await.map_err(|_| Error::Stopped)??;
        Ok(Emulator {
            lambda_address: opened.lambda_address,
            s3_address: opened.s3_address,
            pool: opened.pool,
            bill: opened.bill,
            clock: opened.clock,
            thread: Mutex::new(Some(Running { stop, ended, thread })),
        })
    }

    /// Returns the URL of the Lambda API, without a trailing slash.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.lambda_address)
    }

    /// Returns the path-style URL of S3, without a trailing slash. Its bandwidth is not limited,
    /// because the client that drives the functions uses it.
    pub fn s3_endpoint(&self) -> String {
        format!("http://{}", self.s3_address)
    }

    /// Returns the counters of the emulated services so far.
    pub fn bill(&self) -> Bill {
        *self.bill.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the virtual clock. Returns `None` if invocations take real time. This is the case
    /// without [`Settings::times`], or if the system cannot read the processor time of a process.
    pub fn clock(&self) -> Option<Arc<Clock>> {
        self.clock.clone()
    }

    /// Returns the running processes in the order of their starts.
    pub fn instances(&self) -> Vec<InstanceInfo> {
        let info = |instance: &Arc<crate::instance::Instance>| InstanceInfo {
            pid: instance.pid,
            function: instance.function.name.clone(),
            invocations: instance.invocations(),
            busy: instance.busy(),
            cold_start: if let Phase::Ready(init) = instance.phase() { Some(init) } else { None },
            peak_memory_bytes: instance.peak_memory_bytes(),
        };
        self.pool.instances().iter().map(info).collect()
    }

    /// Kills the process `pid`, which simulates a machine failure. The current call of the process
    /// fails with `Runtime.ExitError`. Returns false if there is no such process.
    pub fn kill(&self, pid: u32) -> bool {
        self.pool.kill(pid)
    }

    /// Closes all connections, kills all processes, and waits until they have ended.
    /// [`Emulator::bill`] can still be called afterwards.
    ///
    /// # Errors
    /// Returns [`Error::Stopped`] if the emulator was already stopped.
    pub async fn stop(&self) -> Result<()> {
        let running =
            self.thread.lock().unwrap_or_else(PoisonError::into_inner).take().ok_or(Error::Stopped)?;
        let _ = running.stop.send(());
        let _ = running.ended.await;
        let _ = running.thread.join();
        Ok(())
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        // Processes are killed at once, without waiting for the emulator's threads.
        self.pool.kill_all();
        if let Some(running) = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = running.stop.send(());
            let _ = running.thread.join();
        }
    }
}

async fn open_all(settings: Settings) -> Result<(Opened, Vec<Server>)> {
    let system = |operation| move |source| Error::System { operation, source };
    let settings = Arc::new(settings);
    let bill = Arc::new(Mutex::new(Bill::default()));
    let account = Account(bill.clone());
    let s3 = crate::s3::service(&settings, &account);
    let starter = Starter::new().map_err(system("start the thread that starts processes"))?;
    let pool =
        Pool::new(Nursery { settings: settings.clone(), starter, s3: s3.clone(), account: account.clone() });
    let readable = crate::processor::time_of(std::process::id()).is_some();
    let clock = settings.times.filter(|_| readable).map(Clock::new);
    if clock.is_some() {
        crate::reference::start(&pool).map_err(system("start the calibration thread"))?;
    }
    let lambda = Lambda::new(settings.clone(), pool.clone(), bill.clone(), clock.clone());
    let (lambda_listener, lambda_address) = bind().await.map_err(system("open the Lambda API"))?;
    let (s3_listener, s3_address) = bind().await.map_err(system("open the S3 API"))?;
    let limits = Limits::from_settings(&settings);
    let handle = move |request| crate::lambda_api::handle(lambda.clone(), request);
    let servers = vec![
        serve(lambda_listener, limits, None, handle),
        crate::s3::serve_s3(s3_listener, limits, None, s3, account, None),
    ];
    let (swept, idle) = (pool.clone(), settings.idle_timeout);
    tokio::spawn(async move {
        let mut tick =
            tokio::time::interval((idle / 4).clamp(Duration::from_millis(5), Duration::from_secs(1)));
        loop {
            tick.tick().await;
            swept.sweep(idle);
        }
    });
    Ok((Opened { lambda_address, s3_address, pool, bill, clock }, servers))
}

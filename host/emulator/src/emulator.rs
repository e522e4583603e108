//! The running emulator: its threads, its two front doors, its end.

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

/// Time for which the emulator waits at its end for killed processes.
const LAST_WAIT: Duration = Duration::from_secs(5);

/// A worker process, as the emulator sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceInfo {
    /// The process.
    pub pid: u32,
    /// Its function.
    pub function: String,
    /// Events it was given so far.
    pub invocations: u64,
    /// True if it works on one now.
    pub busy: bool,
    /// From the start of the process to its first request for work; None while it starts.
    pub cold_start: Option<Duration>,
    /// The most memory that it had resident, in bytes; None where the system does not tell.
    pub peak_memory_bytes: Option<u64>,
}

/// An emulated cloud on loopback, on threads of its own. Its processes are killed when it is
/// stopped or dropped, and when the program that holds it is killed.
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
    /// Checks the settings, opens the listeners and returns when both answer.
    ///
    /// # Errors
    ///
    /// [`Error::Setting`], [`Error::Program`]; [`Error::System`] if no thread or socket can be had.
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
            .map_err(|source| Error::System { operation: "starting the emulator's threads", source })?;
        let body = move || {
            runtime.block_on(async move {
                match open_all(settings).await {
                    Ok((opened, servers)) => {
                        let pool = opened.pool.clone();
                        let _ = open.send(Ok(opened));
                        // Also when the emulator is dropped.
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
            .map_err(|source| Error::System { operation: "starting the emulator's threads", source })?;
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

    /// The URL of the Lambda API, without a slash at its end.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.lambda_address)
    }

    /// The URL of S3 (path style), without a slash at its end. Its network is not limited: it is
    /// the one for the client that drives the functions.
    pub fn s3_endpoint(&self) -> String {
        format!("http://{}", self.s3_address)
    }

    /// Returns the counts so far.
    pub fn bill(&self) -> Bill {
        *self.bill.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the virtual clock, or `None` if invocations take real time: without
    /// [`Settings::times`], and on systems that cannot read the processor time of a process.
    pub fn clock(&self) -> Option<Arc<Clock>> {
        self.clock.clone()
    }

    /// The processes that live now, the longest-lived first.
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

    /// Kills one process, as a failing machine would: the call it works on gets
    /// `Runtime.ExitError`, and no later call is given to it. False if there is no such instance.
    pub fn kill(&self, pid: u32) -> bool {
        self.pool.kill(pid)
    }

    /// Closes all connections, kills all processes and returns when they are gone. Objects and
    /// counters of the bill stay readable through [`Emulator::bill`].
    ///
    /// # Errors
    ///
    /// [`Error::Stopped`] if it was stopped before.
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
        // At once, and without waiting for the emulator's threads to come around to it.
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
    let starter = Starter::new().map_err(system("starting the thread that starts processes"))?;
    let pool =
        Pool::new(Nursery { settings: settings.clone(), starter, s3: s3.clone(), account: account.clone() });
    let readable = crate::processor::time_of(std::process::id()).is_some();
    let clock = settings.times.filter(|_| readable).map(Clock::new);
    if clock.is_some() {
        crate::reference::start(&pool).map_err(system("starting the thread of the reference product"))?;
    }
    let lambda = Lambda::new(settings.clone(), pool.clone(), bill.clone(), clock.clone());
    let (lambda_listener, lambda_address) = bind().await.map_err(system("opening the Lambda API"))?;
    let (s3_listener, s3_address) = bind().await.map_err(system("opening S3"))?;
    let limits = Limits::of(&settings);
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

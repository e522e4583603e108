//! Executor whose functions are threads of this process. Every task passes through a request frame
//! and an answer frame, as on AWS. Tests use it to exercise the remote pool without a network.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use eciton_cloud::error::{self, system};
use eciton_cloud::{ConcurrencyLimit, InvokeError, Invoked, Invoker, runtime};
use eciton_kernel::wire::{CallRef, Request};
use eciton_kernel::{Error, Instances, Kernel};
use eciton_recipe::Transport;
use eciton_tensor::frame::Frame;
use eciton_transport::{Carrier, Invocation, MemoryStore, Reply, Store};

use crate::framed;
use crate::functions::{Wanted, run_name};
use crate::remote::RemotePool;

/// Invoker that computes requests on threads of this process instead of on cloud functions.
#[derive(Debug, Clone)]
pub struct Loopback {
    kernels: Arc<Vec<Arc<Kernel>>>,
    store: Arc<dyn Store>,
    /// Kernel instances that no request is using.
    idle: Arc<Mutex<Vec<Instances>>>,
    /// Every `straggle_every`-th answer is delayed by `straggle`.
    straggle_every: u64,
    /// Delay of every `straggle_every`-th answer.
    straggle: Duration,
    requests: Arc<AtomicU64>,
}

/// Starts a remote pool whose functions are threads of this process. `emulator` gives only the
/// share and the delay of stragglers (delayed answers), which occur at regular intervals.
///
/// # Errors
/// Returns an error if the operating system cannot start threads.
pub fn start(
    wanted: Wanted,
    emulator: &eciton_recipe::Emulator,
) -> Result<RemotePool<Loopback>, error::Error> {
    let kernels = Arc::new(wanted.kernels.iter().map(|(kernel, _)| kernel.clone()).collect());
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let loopback = Loopback {
        kernels,
        store: store.clone(),
        idle: Arc::default(),
        straggle_every: if emulator.straggle > 0.0 {
            (1.0 / emulator.straggle).round() as u64
        } else {
            u64::MAX
        },
        straggle: Duration::from_millis(emulator.straggle_ms),
        requests: Arc::default(),
    };
    let settings = wanted.settings(run_name(), None, &unlimited(), None);
    let store = (settings.transport != Transport::Payload).then_some(store);
    RemotePool::new(wanted.local, loopback, store, settings, runtime(1)?)
        .map_err(system("start the pool of functions"))
}

/// Returns the concurrency limit of this process, which has no maximum.
fn unlimited() -> ConcurrencyLimit {
    ConcurrencyLimit { count: u32::MAX, limit: String::new() }
}

impl Loopback {
    async fn fetch(&self, carrier: Carrier) -> Result<Bytes, Error> {
        match carrier {
            Carrier::Inline(bytes) => Ok(bytes),
            Carrier::Object { key, .. } => self.get(key.as_str()).await,
        }
    }

    async fn get(&self, key: &str) -> Result<Bytes, Error> {
        let failed =
            |e: eciton_transport::Error| Error::Host { place: key.to_owned(), reason: e.to_string() };
        let key = eciton_transport::Key::new(key).map_err(failed)?;
        self.store.get(&key, None).await.map_err(failed)
    }

    fn run(&self, frame: &[u8], objects: &[Bytes]) -> Result<Vec<u8>, Error> {
        let own = framed::parse(frame)?;
        let others: Vec<Frame<'_>> =
            objects.iter().map(|bytes| framed::parse(bytes)).collect::<Result<_, _>>()?;
        let request = Request::parse(&own.header().meta)?;
        let open = |call: &CallRef| {
            let digest = call.kernel.digest_bytes()?;
            let kernel = self.kernels.iter().find(|k| *k.digest() == digest);
            let kernel = kernel.ok_or_else(|| Error::Wire {
                place: "a request".to_owned(),
                reason: format!("kernel `{}` is not loaded", call.kernel.name),
            })?;
            call.open(kernel)
        };
        let layers = request.calls().map(open).collect::<Result<Vec<_>, _>>()?;
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let mut instances = idle().pop().unwrap_or_else(|| Instances::new(false));
        let answer = framed::run(request, &own, &others, &layers, &mut instances);
        idle().push(instances);
        answer
    }

    async fn answer(self, payload: Bytes) -> Result<Bytes, Error> {
        let wrong =
            |e: eciton_transport::Error| Error::Wire { place: "a request".to_owned(), reason: e.to_string() };
        let invocation = Invocation::from_json(&payload).map_err(wrong)?;
        let (answer_key, most) = (invocation.answer_key, invocation.max_inline_bytes);
        let frame = self.fetch(invocation.frame).await?;
        let parsed = framed::parse(&frame)?;
        let mut objects = Vec::new();
        for name in Request::parse(&parsed.header().meta)?.objects {
            objects.push(self.get(name.stored()?).await?);
        }
        let worker = self.clone();
        let run = tokio::task::spawn_blocking(move || worker.run(&frame, &objects));
        let ended =
            |e: tokio::task::JoinError| Error::Host { place: "a task".to_owned(), reason: e.to_string() };
        let answer = Bytes::from(run.await.map_err(ended)??);
        let request = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        if request.is_multiple_of(self.straggle_every.max(1)) {
            tokio::time::sleep(self.straggle).await;
        }
        let frame = match answer_key.filter(|_| answer.len() as u64 > most) {
            None => Carrier::Inline(answer),
            Some(key) => {
                let bytes_len = answer.len() as u64;
                let put = self.store.put(&key, answer, eciton_transport::Condition::IfAbsent);
                put.await.map_err(wrong)?;
                Carrier::Object { key, bytes_len }
            }
        };
        Ok(Reply { frame, send_us: 0, existed: false }.to_json().map_err(wrong)?.into())
    }
}

impl Invoker for Loopback {
    async fn invoke(&self, payload: Bytes) -> Result<Invoked, InvokeError> {
        match self.clone().answer(payload).await {
            Ok(payload) => Ok(Invoked { payload, charge: None, requests: 1, throttled: 0 }),
            Err(error) => Err(InvokeError::Function {
                function: "loopback".to_owned(),
                kind: "Loopback".to_owned(),
                message: error.to_string(),
                retryable: error.is_retryable(),
                charge: None,
                requests: 1,
                throttled: 0,
            }),
        }
    }
}

//! The worker, which handles the invocations of a function.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use eciton_kernel::artefact::{Baseline, MAX_BYTES, Verifier, store_key};
use eciton_kernel::wire::{
    AnswerMeta, CallRef, KernelRef, OutputBuffers, Request, Source, StoreCounts, WorkerInfo, encode_failure,
};
use eciton_kernel::{Kernel, Limits};
use eciton_transport::{Carrier, Counts, Invocation, Key, Reply, Stored};

use crate::caught::caught;
use crate::compute::Compute;
use crate::error::{Error, Result};
use crate::incoming::{Incoming, Stream};
use crate::names;
use crate::objects::Objects;
use crate::room::Room;
use crate::settings::Settings;
use crate::task::Task;
use crate::timed::Timed;
use crate::warm::{Warm, in_package};

/// Maximum time for which a task may run or wait. It is the longest time limit of a Lambda
/// function.
const LONGEST: Duration = Duration::from_secs(900);

/// Worker that runs kernels on frames (binary messages). The process of a function has one worker.
/// If several invocations are handled at the same time, their computations run one after the other.
#[derive(Debug)]
pub struct Worker {
    trusted: Verifier,
    package: Option<PathBuf>,
    baseline: Baseline,
    /// Upper bounds on the limits that a request may set.
    ceiling: Limits,
    store: Timed,
    compute: Compute,
    warm: Mutex<Arc<Warm>>,
    objects: Objects,
    id: String,
    init_us: u64,
    invocations: AtomicU64,
    previous_send_us: AtomicU64,
}

/// Data for an invocation that has arrived, and the stream of the data that has not.
struct Fetched {
    task: Task,
    stream: Option<Stream>,
    cached_objects: u64,
    cached_kernels: u64,
}

impl Worker {
    /// Creates a worker. Starts its compute thread, which loads the kernels of the package.
    ///
    /// # Errors
    /// Returns an error if the operating system or the kernel engine fails, or if the processor is
    /// not supported.
    pub fn new(settings: Settings) -> Result<Self> {
        let baseline = Baseline::of_this_machine().ok_or_else(|| Error::Kernel {
            kernel: "all".to_owned(),
            reason: "this machine's processor supports none of the levels that kernels are compiled for"
                .to_owned(),
        })?;
        let memory = settings.memory_bytes;
        let ceiling = Limits {
            guest_memory_bytes: memory,
            task_time: LONGEST,
            matrix_bytes: memory,
            call_bytes: memory,
            arrival: LONGEST,
            handles: u32::MAX,
            call_work: u64::MAX,
            log_bytes: 1 << 20,
        };
        let compute = Compute::start().map_err(|e| host("starting a thread", &e))?;
        let warm = Arc::new(Warm::new(restricted(&Limits::default(), &ceiling))?);
        if let Some(folder) = settings.kernel_folder.clone() {
            let warm = warm.clone();
            // A kernel that is refused here is refused again, with its name, when a task requests
            // it.
            compute.send(move || warm.preload(&folder, baseline, &settings.trusted))?;
        }
        Ok(Self {
            trusted: settings.trusted,
            package: settings.kernel_folder,
            baseline,
            ceiling,
            store: Timed { store: settings.store, limit: settings.store_time },
            compute,
            warm: Mutex::new(warm),
            objects: Objects::new(settings.cache_bytes),
            id: random_id()?,
            init_us: micros(settings.begun.elapsed()),
            invocations: AtomicU64::new(0),
            previous_send_us: AtomicU64::new(0),
        })
    }

    /// Handles one event of the function, and returns the answer. Both are JSON
    /// ([`eciton_transport::envelope`]). If a kernel fails, the answer contains its error.
    ///
    /// # Errors
    /// Returns an [`Error`] if the invocation is refused, or if something other than a kernel fails
    /// or panics. [`Error::name`] is the type of the function error.
    pub async fn handle(&self, event: &[u8]) -> Result<Vec<u8>> {
        caught("answering", self.answer(event)).await
    }

    /// Records the time that it took to send the last answer. The next answer contains it.
    pub fn sent(&self, took: Duration) {
        self.previous_send_us.store(micros(took), Ordering::Relaxed);
    }

    async fn answer(&self, event: &[u8]) -> Result<Vec<u8>> {
        let begun = Instant::now();
        let number = self.invocations.fetch_add(1, Ordering::Relaxed) + 1;
        let counted = self.store.counts();
        let mut invocation = Invocation::from_json(event).map_err(Error::Event)?;
        let streams = invocation.stream;
        let frame = std::mem::replace(&mut invocation.frame, Carrier::Inline(Bytes::new()));
        let fetched = self.fetch(frame, &invocation).await?;
        let Fetched { task, stream, cached_objects, cached_kernels } = fetched;
        let (key, encoding) = (task.request.key, task.request.encoding);
        let mut fetching = begun.elapsed();
        let stream = async {
            match stream {
                Some(stream) => stream.run(&self.store).await,
                None => Ok(()),
            }
            .map(|()| begun.elapsed())
        };
        let compute = self.compute.run("running a kernel", move || task.run());
        let ended = if streams {
            let (arrived, ended) = tokio::join!(stream, compute);
            // Lost or changed rows are the cause if a kernel that waited for them failed.
            fetching = arrived?;
            ended?
        } else {
            fetching = fetching.max(stream.await?);
            compute.await?
        };
        for (key, object) in ended.fresh {
            self.objects.keep(key, object);
        }
        let mut meta = AnswerMeta::new(key, &ended.result);
        meta.times.init_us = if number == 1 { self.init_us } else { 0 };
        meta.times.fetch_us = micros(fetching);
        meta.times.compute_us = micros(ended.computed);
        meta.times.previous_send_us = self.previous_send_us.swap(0, Ordering::Relaxed);
        meta.worker = WorkerInfo {
            id: self.id.clone(),
            pid: std::process::id(),
            invocations: number,
            warm: number > 1,
            cached_objects,
            cached_kernels,
        };
        let Counts { gets, puts, bytes_in, bytes_out, .. } = self.store.counts().since(&counted);
        meta.store = StoreCounts { gets, puts, bytes_in, bytes_out };
        let bytes = match ended.places {
            Some(places) => OutputBuffers::encode(places, &meta, encoding),
            None => encode_failure(&meta),
        };
        self.deliver(bytes.map_err(Error::Answer)?, &invocation).await
    }
}

/// Returns the kernels of a request's calls with their digests, in the order of the calls.
fn kernels(request: &Request) -> Result<Vec<(KernelRef, [u8; 32])>> {
    let one = |call: &CallRef| Ok((call.kernel.clone(), call.kernel.digest_bytes().map_err(Error::Request)?));
    request.calls().map(one).collect()
}

/// Fetching of the data that a task needs.
impl Worker {
    async fn fetch(&self, carrier: Carrier, invocation: &Invocation) -> Result<Fetched> {
        let room = Room::new(self.ceiling.matrix_bytes);
        let (mut frame, at) = match carrier {
            Carrier::Inline(bytes) => (Incoming::whole("the event's frame", bytes, &room)?, None),
            Carrier::Object { key, bytes_len } => {
                names::check_task(&key)?;
                (Incoming::open(&self.store, &key, Some(bytes_len), &room).await?, Some(key))
            }
        };
        let mut request = Request::parse(&frame.header().meta).map_err(Error::Request)?;
        request.restrict(&self.ceiling);
        names::check(&request, at.as_ref(), invocation.answer_key.as_ref())?;
        let keys = names::objects(&request)?;
        let wanted = kernels(&request)?;
        let warm = self.warm(Limits::from(&request.limits))?;
        // Data that has already arrived needs no waiting.
        let absent = |s: &Source| match s.object {
            None => at.is_some(),
            Some(object) => keys.get(object as usize).is_some_and(|key| !self.objects.has(key)),
        };
        let source = request.streamables().find(absent);
        let apart = source.and_then(|s| Some((usize::try_from(s.object?).ok()?, s.part)));
        let own = source.filter(|s| s.object.is_none()).map(|s| s.part);
        let rest = async {
            match &at {
                Some(key) => frame.rest(&self.store, key, own).await,
                None => Ok(None),
            }
        };
        let kernels = async {
            let (mut found, mut cached) = (Vec::with_capacity(wanted.len()), 0);
            for (wanted, digest) in &wanted {
                let (kernel, kept) = self.kernel(&warm, wanted, digest).await?;
                found.push(kernel);
                cached += kept;
            }
            Ok((found, cached))
        };
        let objects = self.objects.find(&self.store, &keys, apart, &room);
        let (own_stream, (kernels, cached_kernels), (objects, object_stream)) =
            tokio::try_join!(rest, kernels, objects)?;
        let cached_objects = objects.iter().filter(|o| o.is_kept()).count() as u64;
        let task = Task { warm, kernels, request, frame, objects };
        Ok(Fetched { task, stream: own_stream.or(object_stream), cached_objects, cached_kernels })
    }

    /// Returns the shared state for these limits. If they differ from the limits of the last
    /// invocation, the state is created again.
    fn warm(&self, limits: Limits) -> Result<Arc<Warm>> {
        let mut warm = self.warm.lock().unwrap_or_else(PoisonError::into_inner);
        if *warm.limits() != limits {
            *warm = Arc::new(Warm::new(limits)?);
        }
        Ok(warm.clone())
    }

    /// Returns a kernel from the cache, the package or the object store. The number is 1 if it was
    /// cached, and 0 if it was loaded.
    async fn kernel(
        &self,
        warm: &Arc<Warm>,
        wanted: &KernelRef,
        digest: &[u8; 32],
    ) -> Result<(Arc<Kernel>, u64)> {
        if let Some(kernel) = warm.kernel(digest) {
            return Ok((kernel, 1));
        }
        let key = store_key(digest, self.baseline);
        let load = |sealed: Option<Bytes>| {
            let (warm, name, digest, trusted) = (warm.clone(), wanted.name.clone(), *digest, self.trusted);
            let file = self.package.as_ref().zip(key.strip_prefix("kernels/")).map(|(f, name)| f.join(name));
            self.compute.run("loading a kernel", move || {
                // Another invocation may have loaded the kernel in the meantime.
                if let Some(kernel) = warm.kernel(&digest) {
                    return Ok(Some(kernel));
                }
                let packed = file.map(|f| in_package(&f)).transpose()?.flatten();
                let sealed = packed.map(Bytes::from).or(sealed);
                sealed.map(|sealed| warm.load(&name, &digest, &sealed, &trusted)).transpose()
            })
        };
        if let Some(kernel) = load(None).await? {
            return Ok((kernel, 0));
        }
        let absent = |reason: String| Error::Kernel { kernel: wanted.name.clone(), reason };
        if self.store.is_none() {
            return Err(absent(format!(
                "`{key}` is not in the package, and the function has no object store"
            )));
        }
        let key = Key::new(key.as_str()).map_err(Error::Event)?;
        let neither = || {
            absent(format!(
                "`{key}` is not in the package, and this function cannot find it in the object store"
            ))
        };
        // One byte more than allowed is requested, so that a larger kernel is recognised.
        let sealed = match self.store.get(&key, Some(0..MAX_BYTES as u64 + 1)).await {
            Err(Error::Store { source, .. }) if source.may_be_absent() => return Err(neither()),
            sealed => sealed?,
        };
        let kernel = load(Some(sealed)).await?;
        Ok((kernel.ok_or_else(neither)?, 0))
    }
}

/// Encoding and sending of the answer.
impl Worker {
    async fn deliver(&self, frame: Vec<u8>, invocation: &Invocation) -> Result<Vec<u8>> {
        let bytes_len = frame.len() as u64;
        if bytes_len <= invocation.max_inline_bytes {
            let reply = Reply { frame: Carrier::Inline(frame.into()), send_us: 0, existed: false };
            return reply.to_json().map_err(Error::Event);
        }
        let Some(key) = invocation.answer_key.clone() else {
            let allowed = invocation.max_inline_bytes;
            return Err(Error::Limit {
                limit: "bytes of an answer without a key",
                found: bytes_len,
                allowed,
            });
        };
        let begun = Instant::now();
        let stored = self.store.put_new(&key, frame.into()).await?;
        let send_us = micros(begun.elapsed());
        let existed = stored == Stored::Exists;
        // Another attempt was faster, and its answer counts.
        let bytes_len = if existed { self.store.size(&key).await? } else { bytes_len };
        let reply = Reply { frame: Carrier::Object { key, bytes_len }, send_us, existed };
        reply.to_json().map_err(Error::Event)
    }
}

fn restricted(limits: &Limits, ceiling: &Limits) -> Limits {
    Limits {
        guest_memory_bytes: limits.guest_memory_bytes.min(ceiling.guest_memory_bytes),
        task_time: limits.task_time.min(ceiling.task_time),
        matrix_bytes: limits.matrix_bytes.min(ceiling.matrix_bytes),
        handles: limits.handles.min(ceiling.handles),
        call_bytes: limits.call_bytes.min(ceiling.call_bytes),
        call_work: limits.call_work.min(ceiling.call_work),
        arrival: limits.arrival.min(ceiling.arrival),
        log_bytes: limits.log_bytes.min(ceiling.log_bytes),
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Returns a random id for this process, which has 16 hexadecimal digits.
fn random_id() -> Result<String> {
    use std::io::Read;
    let mut bytes = [0; 8];
    let read = std::fs::File::open("/dev/urandom").and_then(|mut f| f.read_exact(&mut bytes));
    read.map_err(|e| host("drawing an id", &e))?;
    Ok(bytes.iter().map(|b| format!("{b:02x}")).collect())
}

/// Converts an error of the operating system. `doing` describes the operation that failed.
fn host(doing: &'static str, error: &std::io::Error) -> Error {
    Error::Host(eciton_kernel::Error::Engine { doing, reason: error.to_string() })
}

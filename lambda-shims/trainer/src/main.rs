//! Program `bootstrap` of the functions that compute whole training runs. Each invocation is one
//! training run.
//!
//! The event is a [`Job`]. The files of the job and its answer are objects in the object store. The
//! environment variables are the same as those of a worker ([`eciton_worker::Settings`]). Kernels
//! are compiled ahead of time and signed, and come from the package or the store. The function gets
//! no other data from the host.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use eciton_kernel::artefact::{MAX_BYTES, Verifier};
use eciton_train::job::{
    Done, FILES, JOBS, Job, MAX_INLINE_BYTES, Performed, Place, VERSION, perform, predictions_object, to_text,
};
use eciton_train::{Published, SignedCode};
use eciton_transport::{Condition, Error as StoreError, Key, Store};
use eciton_worker::Settings;
use lambda_runtime::{Diagnostic, LambdaEvent, service_fn};
use serde_json::Value;
use tokio::runtime::Handle;

/// Maximum size of one file of a job, in bytes.
const MAX_FILE_BYTES: u64 = 10 << 30;

fn main() -> ExitCode {
    let ended = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(tokio) => tokio.block_on(serve()),
        Err(error) => Err(error.into()),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The error is visible only in the log of the function.
            eprintln!("eciton-trainer: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve() -> Result<(), lambda_runtime::Error> {
    if std::env::var_os("AWS_LAMBDA_RUNTIME_API").is_none() {
        return Err("AWS_LAMBDA_RUNTIME_API is not set: this program can only run as the bootstrap of a Lambda function".into());
    }
    // A function with a wrong configuration returns the error to each caller.
    let trainer = Settings::from_env().map_err(|error| refused(error.name(), error.to_string()));
    let trainer = trainer.and_then(Trainer::new).map(Arc::new);
    let handler = service_fn(move |event: LambdaEvent<Value>| {
        let trainer = trainer.clone();
        async move { trainer?.answer(event.payload, event.context.deadline()).await }
    });
    lambda_runtime::run(handler).await
}

/// Returns the diagnostic of a function error. An error whose name starts with `Eciton.` would
/// occur again after a retry.
fn refused(name: &str, message: String) -> Diagnostic {
    Diagnostic { error_type: name.to_owned(), error_message: message }
}

fn at_store(doing: &str, key: &str, error: &StoreError) -> Diagnostic {
    refused("Trainer.Store", format!("cannot {doing} object `{key}`: {error}"))
}

/// Job runner of the function. It runs one job at a time.
#[derive(Debug)]
struct Trainer {
    store: Arc<dyn Store>,
    place: Place,
    done: AtomicU64,
}

impl Trainer {
    fn new(settings: Settings) -> Result<Self, Diagnostic> {
        let store = settings
            .store
            .ok_or_else(|| refused("Eciton.Settings", "ECITON_BUCKET is not set".to_owned()))?;
        let code = Code {
            trusted: settings.trusted,
            package: settings.kernel_folder,
            store: store.clone(),
            tokio: Handle::current(),
            fetched: Mutex::default(),
        };
        // A folder per process, because emulated functions share a disk.
        let folder = std::env::temp_dir().join(format!("eciton-trainer-{}", std::process::id()));
        let (memory_bytes, published) = (settings.memory_bytes, Published::default());
        // Number of vCPUs that AWS assigns for this memory size, also if the function runs
        // elsewhere.
        let memory_mb = u32::try_from(memory_bytes >> 20).unwrap_or(u32::MAX);
        let threads = Some(eciton_recipe::cloud::threads(memory_mb));
        let place = Place { folder, memory_bytes, threads, code: Some(Arc::new(code)), published };
        Ok(Self { store, place, done: AtomicU64::new(0) })
    }

    /// Runs the job in `event`, unless its answer already exists. The cloud service stops the
    /// function at `deadline`.
    async fn answer(self: Arc<Self>, event: Value, deadline: SystemTime) -> Result<Done, Diagnostic> {
        let begun = Instant::now();
        let job = serde_json::from_value::<Job>(event).map_err(|e| refused("Eciton.Event", e.to_string()))?;
        let wrong = |reason: String| refused("Eciton.Event", reason);
        if job.version != VERSION {
            return Err(wrong(format!(
                "the job has version {}, but this function supports version {VERSION}",
                job.version
            )));
        }
        let key = Key::new(job.answer.as_str()).map_err(|error| wrong(error.to_string()))?;
        if !key.as_str().starts_with(JOBS) {
            return Err(wrong(format!("the key of the answer is `{key}`, but must begin with {JOBS}")));
        }
        let (before, counted) = (self.done.load(Ordering::Relaxed), self.store.counts());
        let mut done = Done { before, found: true, ..Done::default() };
        match self.store.size(&key).await {
            Ok(_) => {}
            // For a role that may not list the bucket, absent and forbidden objects give the same
            // error.
            Err(error) if error.may_be_absent() => {
                let remaining = deadline.duration_since(SystemTime::now()).unwrap_or(Duration::ZERO);
                let (own, tokio) = (self.clone(), Handle::current());
                let work = tokio::task::spawn_blocking(move || {
                    let mut fetch = |key: &str| own.fetch(&tokio, key);
                    let budget = job.budget(begun, Some(remaining))?;
                    perform(&job, &own.place, budget, &mut fetch)
                });
                let ended = work.await.map_err(|error| refused("Eciton.Panic", error.to_string()))?;
                let Performed { bytes, predictions, paused, took } =
                    ended.map_err(|error| refused("Eciton.Train", eciton_input::text::causes(&error)))?;
                done = Done {
                    found: false,
                    files_seconds: took.files_seconds,
                    files_bytes: took.files_bytes,
                    paused,
                    answer: (bytes.len() <= MAX_INLINE_BYTES).then(|| to_text(&bytes)),
                    ..done
                };
                // Predictions are written before the answer, so that they exist when a reader finds
                // the answer.
                if let Some(predictions) = predictions {
                    let key = Key::new(predictions_object(key.as_str()));
                    let key = key.map_err(|error| wrong(error.to_string()))?;
                    self.write(&key, predictions).await?;
                }
                self.write(&key, bytes).await?;
            }
            Err(error) => return Err(at_store("look up", key.as_str(), &error)),
        }
        self.done.store(before + 1, Ordering::Relaxed);
        done.seconds = begun.elapsed().as_secs_f64();
        done.store = self.store.counts().since(&counted);
        done.peak_memory_bytes = eciton_input::memory::peak_bytes().unwrap_or_default();
        Ok(done)
    }

    /// Writes an object that belongs to the answer, unless another invocation has already written
    /// it.
    async fn write(&self, key: &Key, bytes: Vec<u8>) -> Result<(), Diagnostic> {
        let put = self.store.put(key, bytes.into(), Condition::IfAbsent).await;
        put.map(drop).map_err(|error| at_store("write", key.as_str(), &error))
    }

    /// Reads one file of a job from the object store.
    fn fetch(&self, tokio: &Handle, key: &str) -> Result<Vec<u8>, String> {
        if !key.starts_with(FILES) {
            return Err(format!("the key of a file must begin with {FILES}"));
        }
        let key = Key::new(key).map_err(|error| error.to_string())?;
        let size = tokio.block_on(self.store.size(&key)).map_err(|error| error.to_string())?;
        let limit = self.place.memory_bytes.min(MAX_FILE_BYTES);
        if size > limit {
            return Err(format!(
                "the file has {size} bytes, but the function can read at most {limit} bytes; use a function with more memory (executor.memory_mb)"
            ));
        }
        tokio.block_on(self.store.get(&key, None)).map(Vec::from).map_err(|error| error.to_string())
    }
}

/// Source of signed kernels, which searches the package first and then the object store.
#[derive(Debug)]
struct Code {
    trusted: Verifier,
    package: Option<PathBuf>,
    store: Arc<dyn Store>,
    tokio: Handle,
    /// Kernels from the object store, by key. They are cached for later jobs.
    fetched: Mutex<BTreeMap<String, Vec<u8>>>,
}

/// Maximum number of kernels in the cache. A run has only a few kinds of layers.
const MAX_FETCHED: usize = 32;

impl SignedCode for Code {
    fn trusted(&self) -> &Verifier {
        &self.trusted
    }

    fn sealed(&self, key: &str) -> Result<Vec<u8>, String> {
        let file = self.package.as_ref().zip(key.strip_prefix("kernels/")).map(|(f, name)| f.join(name));
        if let Some(sealed) = file.and_then(|file| std::fs::read(file).ok()) {
            return Ok(sealed);
        }
        let mut fetched = self.fetched.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sealed) = fetched.get(key) {
            return Ok(sealed.clone());
        }
        let place = Key::new(key).map_err(|error| error.to_string())?;
        // One byte more than allowed is requested, so that a larger kernel is recognised.
        let get = self.store.get(&place, Some(0..MAX_BYTES as u64 + 1));
        let got: Result<Bytes, StoreError> = self.tokio.block_on(get);
        let sealed = got
            .map(Vec::from)
            .map_err(|error| format!("the kernel is neither in the package nor in the store: {error}"))?;
        if fetched.len() >= MAX_FETCHED {
            fetched.clear();
        }
        fetched.insert(key.to_owned(), sealed.clone());
        Ok(sealed)
    }
}

//! Emulated AWS account on this machine, whose functions are real worker or trainer processes. Its
//! clients are the same as those for AWS.

use std::fs::File;
use std::io::Read as _;
use std::path::PathBuf;
use std::time::Duration;

use eciton_emulator as emulator;
use eciton_kernel::artefact::{Baseline, Signer};
use eciton_recipe::{Preset, Processor};
use eciton_tensor::simd;
use eciton_transport::{Credentials, S3Settings, S3Store};

use crate::architecture::Architecture;
use crate::bill::Bill;
use crate::cloud_file;
use crate::error::{Error, at_store, system};
use crate::kernel_keys::KernelKeys;
use crate::lambda_invoker::{LambdaInvoker, LambdaSettings};
use crate::runtime::runtime;
use crate::scratch::Scratch;
use crate::trainers::{FILES, JOBS};

const REGION: &str = "us-east-1";
const BUCKET: &str = "eciton-emulated";
/// Access key with which clients and functions access the emulated services. The secret key is
/// random in each run.
const ACCESS_KEY: &str = "emulated";

/// Returns a random secret of 256 bits, in hexadecimal.
///
/// The emulated services listen on the loopback interface, which other users of the machine can
/// also reach. Functions get the secret in their environment, which only their own user can read.
fn draw_secret() -> Result<String, Error> {
    let mut bytes = [0; 32];
    let read = File::open(RANDOM).and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(Error::file(RANDOM, "read"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The operating system's source of random bytes.
const RANDOM: &str = "/dev/urandom";

/// Maximum time from the start of a function process to its first request for work. The limit of
/// AWS Lambda is the same.
const INIT_LIMIT: Duration = Duration::from_secs(10);
/// Value of [`INIT_LIMIT`] for an emulator that uses virtual time. The machine may be loaded then.
const LOADED_INIT_LIMIT: Duration = Duration::from_secs(300);
/// Maximum real time to wait for an answer if the emulator uses virtual time.
const HELD_LIMIT: Duration = Duration::from_secs(24 * 3600);

/// An emulated AWS account with one function, and the clients of its services.
#[derive(Debug)]
pub struct EmulatedAccount {
    /// The emulated Lambda and S3 services.
    pub cloud: emulator::Emulator,
    /// Threads of the emulated services and of their clients.
    pub runtime: tokio::runtime::Runtime,
    /// Client of the emulated object store.
    pub store: S3Store,
    /// Keys that sign and verify the kernels of the functions.
    pub keys: KernelKeys,
    /// Processor features that compiled kernels may use.
    pub baseline: Baseline,
    /// Client that invokes the function.
    pub invoker: LambdaInvoker,
    /// Folder with temporary files of the functions. It is deleted with this value, because a
    /// killed function leaves its files.
    pub folder: Scratch,
}

impl EmulatedAccount {
    /// Starts an emulated account with one function that runs `program`. `kind` is `worker` or
    /// `trainer` and is part of the function's name, for instance `eciton-worker-1769`.
    ///
    /// # Errors
    /// Returns an [`Error`] if the operating system refuses a port or a folder, or if the cloud
    /// file lacks the preset. Also returns one if kernels cannot be compiled for the processor.
    pub fn start(
        (kind, program): (&str, PathBuf),
        executor: &eciton_recipe::Executor,
        settings: &eciton_recipe::Emulator,
    ) -> Result<Self, Error> {
        // An emulator such as qemu-aarch64 can run programs of another architecture on this
        // machine.
        let other = settings.architecture.map(|processor| Architecture::from(processor).baseline());
        let baseline = other.or_else(Baseline::of_this_machine).ok_or(Error::Processor)?;
        let system = system("create a folder for the functions");
        let folder = Scratch::new().map_err(&system)?;
        let signer = Signer::open(&folder.path("key").map_err(&system)?.join("signing.key"))?;
        let runtime = runtime(2)?;
        let name = format!("eciton-{kind}-{}", executor.memory_mb);
        let mut function = emulator::Function::new(&name, program);
        function.memory_mb = executor.memory_mb;
        function.timeout = Duration::from_secs(u64::from(executor.timeout_s));
        function.role = Some(role(kind));
        let preset = if kind == "worker" { None } else { Some(preset(settings)?) };
        function.environment.insert("ECITON_BUCKET".to_owned(), BUCKET.to_owned());
        function.environment.insert("ECITON_SIGNING_KEY".to_owned(), signer.verifier().to_string());
        // A worker computes in the numeric class of the run, and a trainer in that of its job.
        if let Some(preset) = &preset {
            let files = folder.path("files").map_err(&system)?;
            function.tmp = Some(emulator::Tmp { folder: files, mb: preset.tmp_mb });
            // As in a deployment, the package contains kernels.
            folder.path("package/kernels").map_err(&system)?;
            function.task_root = Some(folder.path("package").map_err(&system)?);
        } else {
            let level = simd::level_of(simd::numeric_class()).to_owned();
            function.environment.insert("ECITON_SIMD".to_owned(), level);
        }
        let timeout = function.timeout;
        let processor = match baseline {
            Baseline::NeoverseN1 => Processor::Arm64,
            _ => Processor::X86_64,
        };
        // Tasks of layers take their real time, because the host computes in parallel.
        let times = preset.as_ref().map(|preset| times(preset, executor, settings, processor));
        let bandwidth = (settings.mbit_s > 0.0 && times.is_none()).then_some((settings.mbit_s * 1e6) as u64);
        let share = settings.crash / 3.0;
        let faults = emulator::Faults {
            seed: settings.seed,
            crash_before: share,
            crash_during: share,
            crash_after: share,
            lose_answer: settings.lose,
            // The answer of a trainer is text, in which a changed digit would not be noticed.
            corrupt_answer: if kind == "worker" { settings.corrupt } else { 0.0 },
            double: settings.double,
            straggle: settings.straggle,
            straggle_delay: Duration::from_millis(settings.straggle_ms),
            throttle: settings.throttle,
        };
        let secret = draw_secret()?;
        let cloud = runtime.block_on(emulator::Emulator::start(emulator::Settings {
            functions: vec![function],
            buckets: vec![BUCKET.to_owned()],
            region: REGION.to_owned(),
            access_key: ACCESS_KEY.to_owned(),
            secret_key: secret.clone(),
            concurrency: settings.account_concurrency as usize,
            cold_start_delay: times.map_or(Duration::from_millis(settings.cold_start_ms), |_| Duration::ZERO),
            init_timeout: times.map_or(INIT_LIMIT, |_| LOADED_INIT_LIMIT),
            bits_per_second: bandwidth,
            times,
            faults,
            ..emulator::Settings::default()
        }))?;
        let mut bucket = S3Settings::new(BUCKET, REGION);
        bucket.endpoint = Some(cloud.s3_endpoint());
        bucket.credentials = Credentials::keys(ACCESS_KEY, secret.clone());
        let store = S3Store::new(bucket).map_err(at_store("open the object store"))?;
        let invoker = LambdaInvoker::with_credentials(
            LambdaSettings {
                function: name,
                region: REGION.to_owned(),
                endpoint: Some(cloud.endpoint()),
                // The stand-in delays an answer in real time until its virtual time has come.
                timeout: times.map_or(timeout, |_| HELD_LIMIT),
                memory_mb: executor.memory_mb,
            },
            ACCESS_KEY,
            &secret,
        )?;
        Ok(Self { cloud, runtime, store, keys: KernelKeys::from_signer(signer), baseline, invoker, folder })
    }

    /// Returns the processor architecture of the functions.
    #[must_use]
    pub fn architecture(&self) -> Architecture {
        match self.baseline {
            Baseline::NeoverseN1 => Architecture::Arm64,
            _ => Architecture::X86_64,
        }
    }
}

/// Returns the preset of the cloud file that the setting `emulator.cloud` names.
fn preset(settings: &eciton_recipe::Emulator) -> Result<Preset, Error> {
    let cloud = cloud_file::cloud()?;
    let found = cloud.preset(&settings.cloud).cloned();
    found.map_err(|error| Error::Choice(format!("emulator.cloud: {error}")))
}

/// Returns the modelled times of functions according to `preset`. The settings `emulator.mbit_s`
/// and `emulator.cold_start_ms` replace the values of the preset.
fn times(
    preset: &Preset,
    executor: &eciton_recipe::Executor,
    settings: &eciton_recipe::Emulator,
    processor: Processor,
) -> emulator::Times {
    let ms = |ms: f64| Duration::from_secs_f64(ms / 1e3);
    let cold_start = match settings.cold_start_ms {
        0 => ms(preset.cold_start_ms),
        own => Duration::from_millis(own),
    };
    let bytes_per_second = match settings.mbit_s {
        0.0 => preset.bytes_per_second(executor.memory_mb),
        own => own * 1e6 / 8.0,
    };
    emulator::Times {
        invoke: ms(preset.invoke_ms),
        cold_start,
        first_byte: ms(preset.first_byte_ms),
        bytes_per_second,
        cores: preset.cores(processor, executor.memory_mb),
    }
}

/// Returns the role of a kind of functions, with the same permissions as in `infra/template.yaml`.
fn role(kind: &str) -> emulator::Role {
    let (read, write): (&[&str], &str) = match kind {
        "worker" => (&["runs/", "kernels/"], "runs/"),
        _ => (&[FILES, JOBS, "kernels/"], JOBS),
    };
    emulator::Role { read: read.iter().copied().map(str::to_owned).collect(), write: vec![write.to_owned()] }
}

/// Converts a bill of the emulated services. The counts of bytes between host and object store come
/// from `client`.
#[must_use]
pub fn bill(service: &emulator::Bill, client: &Bill) -> Bill {
    Bill {
        invocations: service.invocations,
        cold_starts: service.cold_starts,
        throttled: service.throttled,
        failed: service.function_errors,
        unreported: 0,
        billed_ms: service.billed_ms,
        init_ms: service.init_us as f64 / 1e3,
        gb_seconds: service.gb_seconds(),
        bytes_to_functions: service.payload_bytes_in,
        bytes_from_functions: service.payload_bytes_out,
        store_writes: service.s3.puts + service.s3.lists,
        store_reads: service.s3.gets + service.s3.heads,
        store_bytes_in: service.s3.bytes_in,
        store_bytes_out: service.s3.bytes_out,
        store_bytes_host: client.store_bytes_host,
        store_bytes_to_host: client.store_bytes_to_host,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use eciton_transport::{Condition, Key, Store as _};

    use super::*;

    /// Returns an emulated account whose functions are never invoked.
    fn stand() -> EmulatedAccount {
        let executor = eciton_recipe::Executor::default();
        EmulatedAccount::start(("worker", "/bin/true".into()), &executor, &eciton_recipe::Emulator::default())
            .unwrap()
    }

    fn client(stand: &EmulatedAccount, access_key: &str, secret: &str) -> S3Store {
        let mut bucket = S3Settings::new(BUCKET, REGION);
        bucket.endpoint = Some(stand.cloud.s3_endpoint());
        bucket.credentials = Credentials::keys(access_key, secret);
        S3Store::new(bucket).unwrap()
    }

    #[test]
    fn only_the_secret_of_the_run_opens_the_store() {
        let (stand, other) = (stand(), draw_secret().unwrap());
        let key = Key::new("runs/r/object").unwrap();
        let put = stand.store.put(&key, vec![1].into(), Condition::Always);
        stand.runtime.block_on(put).unwrap();
        // The constants of earlier versions, those of the emulator's tests, and another run's
        // secret.
        for (access_key, secret) in
            [("emulated", "emulated-secret"), ("emulator", "emulator-secret"), ("emulated", &other)]
        {
            let client = client(&stand, access_key, secret);
            let error = stand.runtime.block_on(client.get(&key, None)).unwrap_err();
            assert!(!error.is_retryable(), "{error}");
            let put = client.put(&key, vec![2].into(), Condition::Always);
            stand.runtime.block_on(put).unwrap_err();
        }
        assert_eq!(stand.runtime.block_on(stand.store.get(&key, None)).unwrap(), vec![1]);
    }

    #[test]
    fn an_unsigned_request_is_refused() {
        use std::io::Write as _;
        let stand = stand();
        let endpoint = stand.cloud.s3_endpoint();
        let address = endpoint.trim_start_matches("http://");
        for line in [format!("GET /{BUCKET}?list-type=2"), format!("GET /{BUCKET}/runs/r/object")] {
            let mut stream = std::net::TcpStream::connect(address).unwrap();
            write!(stream, "{line} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            assert!(answer.starts_with("HTTP/1.1 403 "), "{line}: {answer}");
        }
    }
}

//! Settings of the emulated cloud: functions, buckets, network, limits and faults.

use crate::clock::Times;
use crate::error::{Error, Result};
use crate::faults::Faults;
use crate::role::Role;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Maximum size of the event and of the answer of a synchronous invocation, in bytes. The limit of
/// Lambda is the same, 6 MiB.
pub const SYNCHRONOUS_PAYLOAD_BYTES: usize = 6_291_456;
/// Maximum size of the event of an asynchronous invocation, in bytes. The limit of Lambda is the
/// same, 1 MiB.
pub const ASYNCHRONOUS_PAYLOAD_BYTES: usize = 1_048_576;
/// Maximum number of functions of an emulator.
pub const FUNCTIONS: usize = 64;
/// Maximum number of buckets of an emulator.
pub const BUCKETS: usize = 64;

/// A function, which runs a program that implements the Lambda Runtime API.
#[derive(Clone, Debug)]
pub struct Function {
    /// Name of the function, which consists of 1 to 64 characters of `[a-zA-Z0-9_-]`.
    pub name: String,
    /// Path of the program, which is started without arguments.
    pub bootstrap: PathBuf,
    /// Working directory of the program, and value of `LAMBDA_TASK_ROOT`. If `None`, the folder of
    /// the program is used.
    pub task_root: Option<PathBuf>,
    /// Memory in MB, from 128 to 10,240. It affects the bill, and the program reads it from
    /// `AWS_LAMBDA_FUNCTION_MEMORY_SIZE`. A process with more resident memory is killed.
    pub memory_mb: u32,
    /// Time limit of an invocation, at most 900 s. A process that exceeds it is killed.
    pub timeout: Duration,
    /// Environment variables of the program, in addition to those of Lambda. They cannot replace
    /// variables of Lambda, except `AWS_ENDPOINT_URL_*`.
    pub environment: BTreeMap<String, String>,
    /// Folder for temporary files of the program. If `None`, `TMPDIR` is not set.
    pub tmp: Option<Tmp>,
    /// Objects that the function may read and write. If `None`, the function may access all
    /// objects.
    pub role: Option<Role>,
}

/// Folder for the temporary files of a function's processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tmp {
    /// Folder that contains a subfolder for each process. The subfolder is deleted when its process
    /// has ended.
    pub folder: PathBuf,
    /// Maximum size of a process's temporary files, in MB. A process that writes more is killed.
    pub mb: u32,
}

impl Function {
    /// Creates a function with 1,769 MB of memory (one vCPU) and a time limit of 60 s.
    pub fn new(name: impl Into<String>, bootstrap: impl Into<PathBuf>) -> Self {
        Function {
            name: name.into(),
            bootstrap: bootstrap.into(),
            task_root: None,
            memory_mb: 1769,
            timeout: Duration::from_secs(60),
            environment: BTreeMap::new(),
            tmp: None,
            role: None,
        }
    }
}

/// A line that a worker process wrote to its standard output or standard error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// Name of the function to which the process belongs.
    pub function: String,
    /// Process id of the worker.
    pub pid: u32,
    /// Text of the line without its line terminator, truncated to [`LOG_LINE_BYTES`].
    pub text: String,
}

/// Maximum length of a log line, in bytes. Longer lines are truncated.
pub const LOG_LINE_BYTES: usize = 8192;

/// Callback that receives log lines. It is called on threads of the emulator and must not block.
#[derive(Clone)]
pub struct LogSink(pub Arc<dyn Fn(&LogLine) + Send + Sync>);

impl fmt::Debug for LogSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LogSink")
    }
}

/// Settings of the emulated account, and limits of the emulator.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Functions that clients can invoke.
    pub functions: Vec<Function>,
    /// Names of the buckets that exist.
    pub buckets: Vec<String>,
    /// AWS region, which is part of signatures and of the environment of workers.
    pub region: String,
    /// Access key with which clients and workers sign requests.
    pub access_key: String,
    /// Secret key that belongs to [`Settings::access_key`].
    pub secret_key: String,
    /// Maximum number of invocations that run at the same time, over all functions. More calls are
    /// refused with the HTTP status 429. It is also the maximum number of processes.
    pub concurrency: usize,
    /// Delay before a process is started, which represents the time of Lambda to find a machine and
    /// load the code. It is not billed.
    pub cold_start_delay: Duration,
    /// Maximum time from the start of a process to its first request for work.
    pub init_timeout: Duration,
    /// Bandwidth of each instance in bits per second, over all its connections. Each direction has
    /// this bandwidth. If `None`, the bandwidth is not limited.
    pub bits_per_second: Option<u64>,
    /// Idle time after which an instance is stopped.
    pub idle_timeout: Duration,
    /// Maximum size of the event of a synchronous invocation, in bytes.
    pub event_bytes: usize,
    /// Maximum size of an answer, in bytes.
    pub answer_bytes: usize,
    /// Times of the modelled cloud. If `None`, invocations take the real time on this machine.
    pub times: Option<Times>,
    /// Probabilities of the faults that the emulator injects.
    pub faults: Faults,
    /// Maximum size of the log in `X-Amz-Log-Result` before base64 encoding, in bytes. The limit of
    /// AWS is 4,096.
    pub log_tail: usize,
    /// Callback that receives every log line of every worker.
    pub log_sink: Option<LogSink>,
    /// Maximum total size of all buckets, in bytes.
    pub store_bytes: u64,
    /// Maximum time for a client to send the headers of a request. It is also the maximum idle time
    /// of a connection.
    pub header_timeout: Duration,
    /// Maximum time between two pieces of a request body. The maximum time for the whole body is
    /// ten times as long.
    pub body_timeout: Duration,
    /// Maximum number of connections per listener. More connections wait until they are accepted.
    pub connections: usize,
}

impl Default for Settings {
    /// Returns settings with the bucket `eciton`, no functions, no faults, and no bandwidth limit.
    fn default() -> Self {
        Settings {
            functions: Vec::new(),
            buckets: vec!["eciton".into()],
            region: "us-east-1".into(),
            access_key: "emulator".into(),
            secret_key: "emulator-secret".into(),
            concurrency: 1000,
            cold_start_delay: Duration::ZERO,
            init_timeout: Duration::from_secs(10),
            bits_per_second: None,
            idle_timeout: Duration::from_secs(300),
            event_bytes: SYNCHRONOUS_PAYLOAD_BYTES,
            answer_bytes: SYNCHRONOUS_PAYLOAD_BYTES,
            times: None,
            faults: Faults::default(),
            log_tail: 4096,
            log_sink: None,
            store_bytes: 4 << 30,
            header_timeout: Duration::from_secs(30),
            body_timeout: Duration::from_secs(30),
            connections: 1024,
        }
    }
}

impl Settings {
    /// Checks all settings, including the programs of the functions.
    ///
    /// # Errors
    /// Returns [`Error::Setting`] or [`Error::Program`] for the first setting that is not valid.
    pub fn check(&self) -> Result<()> {
        range("functions", self.functions.len() as u64, 0, FUNCTIONS as u64)?;
        range("buckets", self.buckets.len() as u64, 0, BUCKETS as u64)?;
        range("concurrency", self.concurrency as u64, 1, 10_000)?;
        range("connections", self.connections as u64, 1, 65_536)?;
        range("event_bytes", self.event_bytes as u64, 2, 1 << 30)?;
        range("answer_bytes", self.answer_bytes as u64, 2, 1 << 30)?;
        range("log_tail", self.log_tail as u64, 0, 1 << 20)?;
        if let Some(rate) = self.bits_per_second {
            range("bits_per_second", rate, 100_000, 1_000_000_000_000)?;
        }
        for (setting, value) in [
            ("init_timeout", self.init_timeout),
            ("idle_timeout", self.idle_timeout),
            ("header_timeout", self.header_timeout),
            ("body_timeout", self.body_timeout),
        ] {
            range(setting, millis(value), 1, 86_400_000)?;
        }
        range("cold_start_delay", millis(self.cold_start_delay), 0, 60_000)?;
        if let Some(times) = &self.times {
            for (setting, found) in
                [("times.cores", times.cores), ("times.bytes_per_second", times.bytes_per_second)]
            {
                if !(found > 0.0 && found.is_finite()) {
                    return Err(wrong(setting, found.to_string(), "a number above 0"));
                }
            }
        }
        range("faults.straggle_delay", millis(self.faults.straggle_delay), 0, 900_000)?;
        for (setting, found) in self.faults.probabilities() {
            if !(0.0..=1.0).contains(&found) {
                return Err(wrong(setting, found.to_string(), "a probability from 0.0 to 1.0"));
            }
        }
        for (setting, value) in
            [("region", &self.region), ("access_key", &self.access_key), ("secret_key", &self.secret_key)]
        {
            let plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'/' | b',' | b'=');
            if value.is_empty() || value.len() > 128 || !value.bytes().all(plain) {
                return Err(wrong(
                    setting,
                    format!("{value:?}"),
                    "1 to 128 printable characters without `/`, `,`, `=` and blanks",
                ));
            }
        }
        for bucket in &self.buckets {
            let plain =
                |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
            if !(3..=63).contains(&bucket.len()) || !bucket.bytes().all(plain) {
                return Err(wrong("buckets", format!("{bucket:?}"), "3 to 63 characters of [a-z0-9.-]"));
            }
        }
        for (at, function) in self.functions.iter().enumerate() {
            function.check()?;
            if self.functions.iter().take(at).any(|other| other.name == function.name) {
                return Err(wrong(
                    "functions",
                    format!("the name `{}` twice", function.name),
                    "different names",
                ));
            }
        }
        Ok(())
    }
}

impl Function {
    fn check(&self) -> Result<()> {
        if !is_function_name(&self.name) {
            return Err(wrong(
                "functions.name",
                format!("{:?}", self.name),
                "1 to 64 characters of [a-zA-Z0-9_-]",
            ));
        }
        range("functions.memory_mb", u64::from(self.memory_mb), 128, 10_240)?;
        range("functions.timeout", millis(self.timeout), 1, 900_000)?;
        for (name, value) in &self.environment {
            if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
                return Err(wrong(
                    "functions.environment",
                    format!("{name:?}"),
                    "names without `=`, and names and values without NUL",
                ));
            }
        }
        let program = |reason: String| Error::Program {
            function: self.name.clone(),
            program: self.bootstrap.clone(),
            reason,
        };
        let found = std::fs::metadata(&self.bootstrap).map_err(|error| program(error.to_string()))?;
        if !found.is_file() {
            return Err(program("it is not a file".into()));
        }
        #[cfg(unix)]
        if std::os::unix::fs::PermissionsExt::mode(&found.permissions()) & 0o111 == 0 {
            return Err(program("it is not executable".into()));
        }
        Ok(())
    }
}

/// Returns true if Lambda allows `name` as the name of a function.
pub(crate) fn is_function_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

fn millis(value: Duration) -> u64 {
    // Rounded up, so that a microsecond does not become 0, which means disabled.
    u64::try_from(value.as_micros().div_ceil(1000)).unwrap_or(u64::MAX)
}

fn range(setting: &'static str, found: u64, low: u64, high: u64) -> Result<()> {
    if (low..=high).contains(&found) {
        Ok(())
    } else {
        Err(wrong(setting, found.to_string(), format!("{low} to {high}")))
    }
}

fn wrong(setting: &'static str, found: String, allowed: impl Into<String>) -> Error {
    Error::Setting { setting, found, allowed: allowed.into() }
}

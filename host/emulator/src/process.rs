//! Start of worker processes. Each has a clean environment and its own process group, and ends at
//! the latest with the emulator. Its log is read line by line.

use crate::death;
use crate::instance::Instance;
use crate::link::Link;
use crate::log::Lines;
use crate::runtime_api::RuntimeApi;
use crate::serve::{Limits, Server, bind, serve};
use crate::settings::{Function, LOG_LINE_BYTES, LogLine, LogSink, Settings};
use std::io;
use std::net::SocketAddr;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// Maximum time for which the pipes of an ended process are still read. A child of the process may
/// hold them open.
const LAST_WORDS: Duration = Duration::from_millis(200);

type Started = io::Result<Child>;

/// Thread that starts all processes. They are killed when this thread ends (see [`death`]), so it
/// lives as long as the emulator.
#[derive(Clone, Debug)]
pub(crate) struct Starter(mpsc::UnboundedSender<(Command, oneshot::Sender<Started>)>);

impl Starter {
    /// Starts the thread. It must be called in a Tokio runtime, which watches the pipes and exits
    /// of the processes. The thread ends when the last clone is dropped.
    pub(crate) fn new() -> io::Result<Starter> {
        // The number of instances bounds the channel, because each has at most one start in it.
        let (sender, mut receiver) = mpsc::unbounded_channel::<(Command, oneshot::Sender<Started>)>();
        let runtime = tokio::runtime::Handle::current();
        std::thread::Builder::new().name("emulator-start".into()).spawn(move || {
            let _context = runtime.enter();
            while let Some((mut command, reply)) = receiver.blocking_recv() {
                death::with_this_thread(command.as_std_mut());
                let _ = reply.send(command.spawn());
            }
        })?;
        Ok(Starter(sender))
    }

    async fn start(&self, command: Command) -> Started {
        let (reply, started) = oneshot::channel();
        let gone = || io::Error::other("the thread that starts processes has ended");
        self.0.send((command, reply)).map_err(|_| gone())?;
        started.await.map_err(|_| gone())?
    }
}

/// A running process with the servers of its Runtime API and its S3 endpoint.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) instance: Arc<Instance>,
    child: Child,
    servers: Vec<Server>,
    logs: Vec<JoinHandle<()>>,
}

/// Factory of worker processes, with the state that all processes of an emulator share.
#[derive(Clone)]
pub(crate) struct Nursery {
    pub(crate) settings: Arc<Settings>,
    pub(crate) starter: Starter,
    pub(crate) s3: s3s::service::S3Service,
    pub(crate) account: crate::s3::Account,
}

impl Nursery {
    /// Starts the process with this number. The process gets its own Runtime API and S3 endpoint,
    /// whose bandwidth is limited.
    pub(crate) async fn start(&self, number: u64, function: &Arc<Function>) -> io::Result<Process> {
        let settings = &self.settings;
        let link = settings.bits_per_second.map(Link::new);
        let limits = Limits::from_settings(settings);
        let (runtime_listener, runtime_address) = bind().await?;
        let (s3_listener, s3_address) = bind().await?;
        let api = RuntimeApi {
            instance: Arc::new(OnceLock::new()),
            arn: crate::lambda_api::arn(&settings.region, &function.name).into(),
            answer_bytes: settings.answer_bytes,
            pace: settings.body_timeout,
        };
        if let Some(folder) = crate::instance::tmp(function, number) {
            std::fs::create_dir_all(folder)?;
        }
        let started = Instant::now();
        let mut child =
            self.starter.start(command(settings, function, number, runtime_address, s3_address)).await?;
        let pid = child.id().ok_or_else(|| io::Error::other("the process ended immediately"))?;
        let instance = Arc::new(Instance::new(number, pid, function.clone(), started, settings.log_tail));
        let _ = api.instance.set(instance.clone());
        let waiting = settings.times.map(|times| (instance.clone(), times));
        let handle = move |request| api.clone().handle(request);
        let servers = vec![
            serve(runtime_listener, limits, link.clone(), handle),
            crate::s3::serve_s3(s3_listener, limits, link, self.s3.clone(), self.account.clone(), waiting),
        ];
        let mut logs = Vec::new();
        if let Some(pipe) = child.stdout.take() {
            logs.push(tokio::spawn(read_log(pipe, instance.clone(), settings.log_sink.clone())));
        }
        if let Some(pipe) = child.stderr.take() {
            logs.push(tokio::spawn(read_log(pipe, instance.clone(), settings.log_sink.clone())));
        }
        Ok(Process { instance, child, servers, logs })
    }
}

impl Process {
    /// Waits until the process has ended. Then ends its process group, its logs and its servers,
    /// and notifies its instance.
    pub(crate) async fn keep(mut self) {
        let status = self.child.wait().await;
        // The process group continues to exist while a grandchild is in it.
        self.instance.kill_for_good();
        for log in &mut self.logs {
            if tokio::time::timeout(LAST_WORDS, &mut *log).await.is_err() {
                log.abort();
            }
        }
        drop(self.servers);
        if let Some(folder) = self.instance.tmp() {
            let _ = std::fs::remove_dir_all(folder);
        }
        self.instance.exit(status.map_or_else(|error| error.to_string(), how));
    }
}

/// Returns a description of a process's end in the words of Lambda.
fn how(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(0), _) => "Runtime exited without providing a reason".into(),
        (Some(code), _) => format!("Runtime exited with error: exit status {code}"),
        (None, Some(signal)) => {
            let name = match signal {
                4 => "illegal instruction",
                6 => "aborted",
                7 => "bus error",
                8 => "floating point exception",
                9 => "killed",
                11 => "segmentation fault",
                13 => "broken pipe",
                15 => "terminated",
                _ => return format!("Runtime exited with error: signal: {signal}"),
            };
            format!("Runtime exited with error: signal: {name}")
        }
        (None, None) => "Runtime exited without providing a reason".into(),
    }
}

fn command(
    settings: &Settings,
    function: &Function,
    number: u64,
    runtime: SocketAddr,
    s3: SocketAddr,
) -> Command {
    let program = std::path::absolute(&function.bootstrap).unwrap_or_else(|_| function.bootstrap.clone());
    let root = function
        .task_root
        .clone()
        .or_else(|| program.parent().map(PathBuf::from))
        .unwrap_or_else(|| "/".into());
    let memory = function.memory_mb.to_string();
    let stream = format!("[$LATEST]{number:032x}");
    let mut command = std::process::Command::new(&program);
    command
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("LANG", "en_US.UTF-8")
        .env("TZ", ":UTC")
        .env("AWS_ENDPOINT_URL_S3", format!("http://{s3}"))
        .envs(&function.environment)
        .envs(crate::instance::tmp(function, number).map(|folder| ("TMPDIR", folder)))
        .env("_HANDLER", "bootstrap")
        .env("AWS_ACCESS_KEY_ID", crate::role::access_key(settings, function))
        .env("AWS_SECRET_ACCESS_KEY", &settings.secret_key)
        .env("AWS_REGION", &settings.region)
        .env("AWS_DEFAULT_REGION", &settings.region)
        .env("AWS_EXECUTION_ENV", "AWS_Lambda_provided.al2023")
        .env("AWS_LAMBDA_INITIALIZATION_TYPE", "on-demand")
        .env("AWS_LAMBDA_FUNCTION_NAME", &function.name)
        .env("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST")
        .env("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", memory)
        .env("AWS_LAMBDA_LOG_GROUP_NAME", format!("/aws/lambda/{}", function.name))
        .env("AWS_LAMBDA_LOG_STREAM_NAME", stream)
        .env("AWS_LAMBDA_RUNTIME_API", runtime.to_string())
        .env("LAMBDA_TASK_ROOT", &root)
        .env("LAMBDA_RUNTIME_DIR", &root)
        .current_dir(&root)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // Ctrl-C in a terminal is meant for the client, which then stops the emulator.
        .process_group(0);
    let mut command = Command::from(command);
    command.kill_on_drop(true);
    command
}

async fn read_log(mut pipe: impl AsyncRead + Unpin, instance: Arc<Instance>, sink: Option<LogSink>) {
    let mut lines = Lines::new(LOG_LINE_BYTES);
    let mut buffer = vec![0; 8192];
    let line = |text: &str| {
        instance.log.lock().unwrap_or_else(PoisonError::into_inner).line(text);
        if let Some(sink) = &sink {
            (sink.0)(&LogLine {
                function: instance.function.name.clone(),
                pid: instance.pid,
                text: text.to_owned(),
            });
        }
    };
    while let Ok(read) = pipe.read(&mut buffer).await {
        if read == 0 {
            break;
        }
        lines.push(buffer.get(..read).unwrap_or_default(), line);
    }
    lines.finish(line);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_worded_as_lambda_words_them() {
        assert_eq!(how(ExitStatus::from_raw(9)), "Runtime exited with error: signal: killed");
        assert_eq!(how(ExitStatus::from_raw(11)), "Runtime exited with error: signal: segmentation fault");
        assert_eq!(how(ExitStatus::from_raw(3 << 8)), "Runtime exited with error: exit status 3");
        assert_eq!(how(ExitStatus::from_raw(0)), "Runtime exited without providing a reason");
    }
}

//! HTTP server of the option `eciton worker --status`, for the service that supervises a worker.

use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use eciton_train::{Leave, State, Status};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Maximum size of the head of a request, in bytes.
const HEAD_BYTES: usize = 8 << 10;
/// Maximum number of headers of a request.
const HEADERS: usize = 64;
/// Maximum number of connections at once. Further ones wait.
const CONNECTIONS: usize = 16;
/// Maximum time of a request and its response.
const PATIENCE: Duration = Duration::from_secs(5);

/// A worker whose status is served.
#[derive(Debug, Clone)]
pub(crate) struct Served {
    pub(crate) status: Arc<Status>,
    pub(crate) leave: Arc<Leave>,
}

/// Returns the name of a state in outputs.
fn name(state: State) -> &'static str {
    match state {
        State::Connecting => "connecting",
        State::Waiting => "waiting",
        State::Connected => "connected",
    }
}

impl Served {
    /// Serves the status at `address`, which has the form `HOST:PORT`, until the process ends. Port 0
    /// selects a free port. Returns the address.
    ///
    /// `/status` is a JSON object, and `/metrics` has the text format of Prometheus, version 0.0.4.
    /// `/ready` has the status code 200 if the worker has a place or waits for one, and 503 if it has
    /// no connection or was asked to leave.
    ///
    /// # Errors
    /// Returns an error of the operating system if the address is in use or does not belong to this
    /// machine, or if no thread can be started.
    pub(crate) fn listen(self, address: &str) -> io::Result<SocketAddr> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind(address))?;
        let local = listener.local_addr()?;
        let serve = async move {
            let permits = Arc::new(Semaphore::new(CONNECTIONS));
            while let Ok(permit) = permits.clone().acquire_owned().await {
                match listener.accept().await {
                    Ok((stream, _)) => {
                        let served = self.clone();
                        tokio::spawn(async move {
                            // A client that is too slow or leaves gets no answer.
                            let _ = timeout(PATIENCE, served.answer(stream)).await;
                            drop(permit);
                        });
                    }
                    // File descriptors have run out. Others may be closed in the meantime.
                    Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                }
            }
        };
        let thread = std::thread::Builder::new().name("eciton-status".to_owned());
        thread.spawn(move || runtime.block_on(serve))?;
        Ok(local)
    }

    /// Reads a request from `stream`, and answers it.
    async fn answer(&self, mut stream: TcpStream) -> io::Result<()> {
        let mut head = Vec::new();
        let path = loop {
            let mut headers = [httparse::EMPTY_HEADER; HEADERS];
            let mut request = httparse::Request::new(&mut headers);
            match request.parse(&head) {
                Ok(httparse::Status::Complete(_)) => {
                    let is_get = request.method == Some("GET");
                    break request.path.filter(|_| is_get).map(str::to_owned).ok_or("405 Method Not Allowed");
                }
                Ok(httparse::Status::Partial) if head.len() < HEAD_BYTES => {}
                _ => break Err("400 Bad Request"),
            }
            if stream.read_buf(&mut head).await? == 0 {
                return Ok(());
            }
        };
        let (code, kind, body) = match path.as_deref() {
            Ok("/metrics") => ("200 OK", "text/plain; version=0.0.4; charset=utf-8", self.metrics()),
            Ok("/status") => ("200 OK", "application/json", self.json()?),
            Ok("/ready") => {
                let state = self.status.now().state;
                let is_ready = state != State::Connecting && !self.leave.is_asked();
                let code = if is_ready { "200 OK" } else { "503 Service Unavailable" };
                (code, "text/plain", if self.leave.is_asked() { "leaving" } else { name(state) }.to_owned())
            }
            Ok(_) => ("404 Not Found", "text/plain", "found here: /status, /metrics and /ready".to_owned()),
            Err(code) => (*code, "text/plain", (*code).to_owned()),
        };
        let start = format!(
            "HTTP/1.1 {code}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        stream.write_all(start.as_bytes()).await?;
        stream.write_all(body.as_bytes()).await?;
        stream.shutdown().await
    }

    /// Returns the status as a JSON object.
    fn json(&self) -> io::Result<String> {
        #[derive(serde::Serialize)]
        struct Line {
            version: &'static str,
            pid: u32,
            leaving: bool,
            #[serde(flatten)]
            now: eciton_train::Snapshot,
        }
        let (version, pid) = (env!("CARGO_PKG_VERSION"), std::process::id());
        let line = Line { version, pid, leaving: self.leave.is_asked(), now: self.status.now() };
        Ok(serde_json::to_string(&line)? + "\n")
    }

    /// Returns the metrics in the text format of Prometheus.
    fn metrics(&self) -> String {
        let now = self.status.now();
        let mut text = String::new();
        let mut family = |name: &str, kind: &str, help: &str, samples: &[(&str, f64)]| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "# HELP eciton_worker_{name} {help}\n# TYPE eciton_worker_{name} {kind}");
            for (labels, value) in samples {
                let _ = writeln!(text, "eciton_worker_{name}{labels} {value}");
            }
        };
        let is = |state: State| f64::from(u8::from(now.state == state));
        let states = [
            ("{state=\"connecting\"}", is(State::Connecting)),
            ("{state=\"waiting\"}", is(State::Waiting)),
            ("{state=\"connected\"}", is(State::Connected)),
        ];
        family("state", "gauge", "Contact with the run, 1 for the current state.", &states);
        let mut one = |name, kind, help, value: f64| family(name, kind, help, &[("", value)]);
        let leaving = f64::from(u8::from(self.leave.is_asked()));
        one("leaving", "gauge", "1 if the worker was asked to leave.", leaving);
        // Numbers are exact up to 2^53.
        let admissions = now.admissions as f64;
        one("admissions_total", "counter", "Times that a run has admitted the worker.", admissions);
        one("tasks_total", "counter", "Executed tasks and instructions.", now.tasks as f64);
        one("task_seconds_total", "counter", "Time spent on tasks, in seconds.", now.task_seconds);
        one("cached_bytes", "gauge", "Size of cached and owned tensors, in bytes.", now.cached_bytes as f64);
        one("received_bytes_total", "counter", "Bytes received from the run.", now.received_bytes as f64);
        one("sent_bytes_total", "counter", "Bytes sent to the run.", now.sent_bytes as f64);
        text
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io::{Read as _, Write as _};

    use eciton_train::Contact;

    use super::*;

    fn ask(address: SocketAddr, request: &[u8]) -> String {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        stream.write_all(request).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn a_status_follows_the_contact_and_counts() {
        let (status, leave) = (Arc::new(Status::default()), Arc::new(Leave::default()));
        let served = Served { status: status.clone(), leave: leave.clone() };
        let address = served.listen("127.0.0.1:0").unwrap();
        let get = |path: &str| ask(address, format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes());
        assert!(get("/ready").starts_with("HTTP/1.1 503 ") && get("/ready").ends_with("\r\n\r\nconnecting"));
        status.contact(&Contact::Waits);
        assert!(get("/ready").starts_with("HTTP/1.1 200 OK\r\n") && get("/ready").ends_with("waiting"));
        status.contact(&Contact::Welcome("r", 3));
        status.task(Duration::from_millis(1500), 77);
        status.received(10);
        status.sent(20);
        let found = get("/status");
        let json: serde_json::Value = serde_json::from_str(found.split("\r\n\r\n").nth(1).unwrap()).unwrap();
        assert_eq!(
            (&json["state"], &json["run"], &json["place"]),
            (&"connected".into(), &"r".into(), &3.into())
        );
        assert_eq!((&json["task_seconds"], &json["cached_bytes"]), (&1.5.into(), &77.into()));
        status.contact(&Contact::Lost("gone"));
        leave.ask();
        assert!(get("/ready").ends_with("leaving"));
        let metrics = get("/metrics");
        for line in [
            "eciton_worker_state{state=\"connecting\"} 1",
            "eciton_worker_state{state=\"connected\"} 0",
            "eciton_worker_leaving 1",
            "eciton_worker_admissions_total 1",
            "eciton_worker_tasks_total 1",
            "eciton_worker_task_seconds_total 1.5",
            "eciton_worker_cached_bytes 0",
            "eciton_worker_received_bytes_total 10",
            "eciton_worker_sent_bytes_total 20",
        ] {
            assert!(metrics.lines().any(|found| found == line), "{line} in {metrics}");
        }
    }

    #[test]
    fn other_requests_are_refused() {
        let served = Served { status: Arc::default(), leave: Arc::default() };
        let address = served.clone().listen("127.0.0.1:0").unwrap();
        let long = [b"GET /status HTTP/1.1\r\nX: ".as_slice(), &[b'a'; 3 * HEAD_BYTES]].concat();
        for (request, code) in [
            (&b"GET /other HTTP/1.1\r\n\r\n"[..], "404"),
            (b"POST /status HTTP/1.1\r\n\r\n", "405"),
            (b"\x16\x03\x01\r\n\r\n", "400"),
        ] {
            assert!(ask(address, request).starts_with(&format!("HTTP/1.1 {code} ")));
        }
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        // The server may close the connection before it has read everything.
        let _ = stream.write_all(&long);
        let _ = stream.read_to_string(&mut String::new());
        assert_eq!(ask(address, b"GET /status HTTP/1.1\r\n"), "", "a request that ends too early");
        let used = served.listen(&address.to_string()).unwrap_err();
        assert_eq!(used.kind(), io::ErrorKind::AddrInUse);
    }
}

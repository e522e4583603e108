//! Worker program for tests and for measurements of the emulator itself. It answers with the bytes
//! of the event, or runs the command in the field `do` of the event. It implements the Runtime API
//! directly, so that it takes almost no time.
//!
//! The commands are:
//! * `{"do": "sleep", "ms": 100}` sleeps for a time.
//! * `{"do": "exit", "code": 3}` and `{"do": "abort"}` end the process.
//! * `{"do": "fail"}` reports an error.
//! * `{"do": "oversize", "bytes": 7000000}` answers this number of bytes.
//! * `{"do": "log", "lines": 3}` writes lines to the log.
//! * `{"do": "allocate", "mb": 100}` allocates memory.
//! * `{"do": "environment"}` answers the environment variables.
//! * `{"do": "count"}` answers the number of events so far.
//! * `{"do": "write", "mb": 10}` writes to `TMPDIR`, then sleeps for a second.
//! * `{"do": "child"}` starts a grandchild, leaves it running and answers its pid.
//! * `{"do": "die-after"}` answers, then exits.
//! * `{"do": "compute", "rounds": 100}` computes for some tens of microseconds per round, and
//!   answers the processor time that it took, in nanoseconds.
//!
//! The variable `ECHO_INIT` is `exit`, `error`, or the milliseconds to sleep before the first
//! request for work.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, ExitCode};
use std::time::Duration;

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            let _ = writeln!(io::stderr(), "emulator-echo: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the processor time of this process, or 0 if the system does not report it.
fn own_time() -> Duration {
    eciton_emulator::processor_time(std::process::id()).unwrap_or_default()
}

type Headers = Vec<(String, String)>;

struct Connection(BufReader<TcpStream>);

impl Connection {
    /// Sends a request, and returns the status, the headers and the body of the response.
    fn call(&mut self, method: &str, path: &str, body: &[u8]) -> io::Result<(u16, Headers, Vec<u8>)> {
        let mut request = format!(
            "{method} /2018-06-01/runtime/{path} HTTP/1.1\r\nhost: runtime\r\ncontent-length: {}\r\n\r\n",
            body.len()
        )
        .into_bytes();
        request.extend_from_slice(body);
        // The answer to an oversized body may arrive before the body has been sent.
        let sent = self.0.get_mut().write_all(&request);
        let mut line = String::new();
        if self.0.read_line(&mut line)? == 0 {
            sent?;
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let status = line
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok())
            .ok_or(io::ErrorKind::InvalidData)?;
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line)?;
            let line = line.trim_end();
            if line.is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(':') {
                headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
            }
        }
        let length = headers
            .iter()
            .find(|(name, _)| name == "content-length")
            .and_then(|(_, value)| value.parse().ok())
            .unwrap_or(0);
        let mut body = vec![0; length];
        self.0.read_exact(&mut body)?;
        Ok((status, headers, body))
    }
}

fn run() -> io::Result<ExitCode> {
    let address = std::env::var("AWS_LAMBDA_RUNTIME_API").map_err(io::Error::other)?;
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let mut connection = Connection(BufReader::with_capacity(64 * 1024, stream));
    match std::env::var("ECHO_INIT").as_deref() {
        Ok("exit") => return Ok(ExitCode::from(7)),
        Ok("error") => {
            connection.call(
                "POST",
                "init/error",
                br#"{"errorType":"Echo.Init","errorMessage":"as asked"}"#,
            )?;
            return Ok(ExitCode::from(1));
        }
        Ok(ms) => std::thread::sleep(Duration::from_millis(ms.parse().unwrap_or(0))),
        Err(_) => {}
    }
    let mut count = 0_u64;
    loop {
        let (status, headers, event) = connection.call("GET", "invocation/next", b"")?;
        if status != 200 {
            return Err(io::Error::other(format!("next: {status}")));
        }
        count += 1;
        let id = headers
            .iter()
            .find(|(name, _)| name == "lambda-runtime-aws-request-id")
            .map(|(_, id)| id.clone())
            .unwrap_or_default();
        let respond = format!("invocation/{id}/response");
        // Only a small event can be a command. The check is cheap enough not to affect
        // measurements.
        let order = if event.len() < 4096 {
            serde_json::from_slice::<serde_json::Value>(&event).unwrap_or_default()
        } else {
            Default::default()
        };
        let number = |name: &str| order.get(name).and_then(serde_json::Value::as_u64).unwrap_or(0);
        let answer = match order.get("do").and_then(serde_json::Value::as_str) {
            None => event,
            Some("sleep") => {
                std::thread::sleep(Duration::from_millis(number("ms")));
                event
            }
            Some("exit") => return Ok(ExitCode::from(u8::try_from(number("code")).unwrap_or(1))),
            Some("abort") => std::process::abort(),
            Some("fail") => {
                let report = br#"{"errorType":"Echo.Failed","errorMessage":"as asked","stackTrace":[]}"#;
                connection.call("POST", &format!("invocation/{id}/error"), report)?;
                continue;
            }
            Some("oversize") => vec![b'1'; usize::try_from(number("bytes")).unwrap_or(0)],
            Some("log") => {
                for line in 0..number("lines") {
                    writeln!(io::stdout(), "line {line} of {id}")?;
                }
                writeln!(io::stderr(), "done")?;
                event
            }
            Some("compute") => {
                let begun = own_time();
                let mut sum = 1_u64;
                for _ in 0..number("rounds") {
                    for i in 0..20_000_u64 {
                        sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(i));
                    }
                }
                (own_time() - begun).as_nanos().to_string().into_bytes()
            }
            Some("allocate") => {
                let mut bytes = vec![0_u8; usize::try_from(number("mb")).unwrap_or(0) << 20];
                for page in bytes.chunks_mut(4096) {
                    page.fill(1);
                }
                std::hint::black_box(&bytes);
                event
            }
            Some("write") => {
                let path = std::env::temp_dir().join("written");
                std::fs::write(&path, vec![1_u8; usize::try_from(number("mb")).unwrap_or(0) << 20])?;
                std::thread::sleep(Duration::from_secs(1));
                event
            }
            Some("count") => count.to_string().into_bytes(),
            Some("environment") => {
                let variables: serde_json::Map<_, _> =
                    std::env::vars().map(|(name, value)| (name, value.into())).collect();
                serde_json::Value::from(variables).to_string().into_bytes()
            }
            Some("child") => {
                let child = Command::new("sleep").arg("600").spawn()?;
                child.id().to_string().into_bytes()
            }
            Some("die-after") => {
                connection.call("POST", &respond, &event)?;
                return Ok(ExitCode::SUCCESS);
            }
            Some(other) => format!("{{\"unknown\":{other:?}}}").into_bytes(),
        };
        connection.call("POST", &respond, &answer)?;
    }
}

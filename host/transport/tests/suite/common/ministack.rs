//! Independent S3 implementation for tests, as a process on a loopback port.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Running process, which is stopped when this value is dropped.
pub struct Ministack {
    child: Child,
    pub endpoint: String,
    _home: tempfile::TempDir,
}

impl Ministack {
    /// Starts the program that `ECITON_MINISTACK` names, and creates the bucket. If the variable is
    /// not set, it prints a message and returns `None`, because the program is not available
    /// everywhere.
    pub async fn start() -> Option<Self> {
        let Some(program) = std::env::var_os("ECITON_MINISTACK") else {
            eprintln!("SKIPPED: ECITON_MINISTACK does not name the program `ministack` (PyPI)");
            return None;
        };
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let home = tempfile::tempdir().unwrap();
        let child = Command::new(&program)
            .env("BIND_HOST", "127.0.0.1")
            .env("IOT_MTLS_ENABLED", "0")
            .env("GATEWAY_PORT", port.to_string())
            .current_dir(home.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("ECITON_MINISTACK={}: {error}", program.display()));
        let mut ministack = Self { child, endpoint: format!("http://127.0.0.1:{port}"), _home: home };
        let started = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(ministack.child.try_wait().unwrap().is_none(), "ministack ended");
            assert!(started.elapsed() < Duration::from_secs(60), "ministack does not listen");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        super::make_bucket(&ministack.endpoint).await;
        Some(ministack)
    }
}

impl Drop for Ministack {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

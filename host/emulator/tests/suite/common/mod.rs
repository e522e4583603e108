//! Helpers of the tests: an emulator with the echo worker, and AWS's own clients for it.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic, unreachable_pub)]

use aws_credential_types::Credentials;
use eciton_emulator::{Emulator, Function, Settings};
use std::time::Duration;

pub mod raw;

pub const ECHO: &str = env!("CARGO_BIN_EXE_emulator-echo");

/// Returns settings with one function `echo` and one bucket `eciton`.
pub fn settings() -> Settings {
    let mut function = Function::new("echo", ECHO);
    function.timeout = Duration::from_secs(20);
    Settings { functions: vec![function], ..Settings::default() }
}

pub async fn start(settings: Settings) -> Emulator {
    Emulator::start(settings).await.unwrap()
}

/// Returns a client without retries, which would hide the behaviour of the service.
pub fn lambda(emulator: &Emulator) -> aws_sdk_lambda::Client {
    lambda_signed_by(emulator, "emulator", "emulator-secret")
}

pub fn lambda_signed_by(emulator: &Emulator, key: &str, secret: &str) -> aws_sdk_lambda::Client {
    let config = aws_sdk_lambda::Config::builder()
        .behavior_version(aws_sdk_lambda::config::BehaviorVersion::latest())
        .region(aws_sdk_lambda::config::Region::new("us-east-1"))
        .credentials_provider(Credentials::new(key, secret, None, None, "test"))
        .endpoint_url(emulator.endpoint())
        .retry_config(aws_sdk_lambda::config::retry::RetryConfig::disabled())
        .http_client(aws_smithy_http_client::Builder::new().build_http());
    aws_sdk_lambda::Client::from_conf(config.build())
}

pub fn s3_at(endpoint: &str, secret: &str) -> aws_sdk_s3::Client {
    s3_signed_by(endpoint, "emulator", secret)
}

pub fn s3_signed_by(endpoint: &str, key: &str, secret: &str) -> aws_sdk_s3::Client {
    let config = aws_sdk_s3::Config::builder()
        .behavior_version(aws_sdk_s3::config::BehaviorVersion::latest())
        .region(aws_sdk_s3::config::Region::new("us-east-1"))
        .credentials_provider(Credentials::new(key, secret, None, None, "test"))
        .endpoint_url(endpoint)
        .force_path_style(true)
        .retry_config(aws_sdk_s3::config::retry::RetryConfig::disabled())
        .http_client(aws_smithy_http_client::Builder::new().build_http());
    aws_sdk_s3::Client::from_conf(config.build())
}

pub fn s3(emulator: &Emulator) -> aws_sdk_s3::Client {
    s3_at(&emulator.s3_endpoint(), "emulator-secret")
}

/// Answer of an invocation, from the function or about it.
#[derive(Debug)]
pub struct Answer {
    pub error: Option<String>,
    pub payload: Vec<u8>,
    pub log: Option<String>,
}

impl Answer {
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.payload).unwrap()
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.payload).unwrap()
    }

    pub fn error_type(&self) -> String {
        self.json()["errorType"].as_str().unwrap_or_default().to_owned()
    }

    pub fn error_message(&self) -> String {
        self.json()["errorMessage"].as_str().unwrap_or_default().to_owned()
    }
}

pub type Failure = aws_sdk_lambda::error::SdkError<aws_sdk_lambda::operation::invoke::InvokeError>;

pub async fn try_invoke(
    client: &aws_sdk_lambda::Client,
    event: impl Into<Vec<u8>>,
) -> Result<Answer, Failure> {
    let blob = aws_sdk_lambda::primitives::Blob::new(event.into());
    let output = client.invoke().function_name("echo").payload(blob).send().await?;
    assert_eq!(output.executed_version(), Some("$LATEST"));
    Ok(Answer {
        error: output.function_error().map(str::to_owned),
        payload: output.payload().map(|blob| blob.as_ref().to_vec()).unwrap_or_default(),
        log: output.log_result().map(str::to_owned),
    })
}

pub async fn invoke(client: &aws_sdk_lambda::Client, event: impl Into<Vec<u8>>) -> Answer {
    try_invoke(client, event).await.unwrap()
}

/// Returns true if a process is alive (a zombie is not).
pub fn alive(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    !stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with('Z')
}

/// Waits until a condition holds, which must happen soon.
pub async fn soon(what: &str, mut test: impl FnMut() -> bool) {
    let start = std::time::Instant::now();
    while !test() {
        assert!(start.elapsed() < Duration::from_secs(10), "in vain: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

//! Metadata of this machine from EC2 (IMDSv2) or ECS (task metadata endpoint version 4).
//!
//! Both services are local to the machine and respond within milliseconds if they exist. The time
//! limits are therefore short.

use std::time::Duration;

use aws_config::imds;
use aws_config::provider_config::ProviderConfig;
use eciton_transport::s3;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{Found, Host};

/// Maximum time for all requests to one service. A slower service is treated as absent.
const WITHIN: Duration = Duration::from_secs(1);
/// Maximum time to connect to a service, and maximum time for one request.
const EACH: Duration = Duration::from_millis(400);
/// Maximum size of an ECS response, in bytes. The rest of a longer response is ignored.
const MAX_BYTES: u64 = 256 << 10;

/// Addresses of the two metadata services.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sources {
    /// Address of the EC2 service. If `None`, the AWS SDK chooses it from the environment, the
    /// profile, or `169.254.169.254`.
    pub(crate) instance: Option<String>,
    /// True if the user has disabled the EC2 service.
    pub(crate) instance_off: bool,
    /// Address of the ECS service, which is set only in an ECS task.
    pub(crate) task: Option<String>,
}

impl Sources {
    /// Reads the addresses from the environment variables of AWS tools, `AWS_EC2_METADATA_DISABLED`
    /// and `ECS_CONTAINER_METADATA_URI_V4`.
    pub(crate) fn of_environment() -> Self {
        let value = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
        let off = value("AWS_EC2_METADATA_DISABLED").is_some_and(|v| v.eq_ignore_ascii_case("true"));
        Self { instance: None, instance_off: off, task: value("ECS_CONTAINER_METADATA_URI_V4") }
    }
}

/// Returns the location of this host relative to functions in `region`. `zone` is the availability
/// zone of the functions, if they are all in one.
pub(crate) async fn ask(sources: &Sources, region: &str, zone: Option<&str>) -> Host {
    let mut found = None;
    if let Some(task) = &sources.task {
        // A task on an instance has both services, and the task's own is more specific.
        found = tokio::time::timeout(WITHIN, of_task(task)).await.ok().flatten();
    }
    if found.is_none() && !sources.instance_off {
        let asked = of_instance(sources.instance.as_deref());
        found = tokio::time::timeout(WITHIN, asked).await.ok().flatten();
    }
    match (found, sources.instance_off) {
        (Some(found), _) => Host::seen(&found, region, zone),
        (None, false) => {
            Host::assumed("because no EC2 or ECS metadata service answers (set executor.host to change it)")
        }
        (None, true) => Host::assumed(
            "because AWS_EC2_METADATA_DISABLED is set and no ECS metadata service answers (set executor.host \
                 to change it)",
        ),
    }
}

/// Reads the region and the zone from the EC2 service. Returns `None` if it does not respond.
async fn of_instance(endpoint: Option<&str>) -> Option<Found> {
    let client = client(endpoint)?;
    let region = client.get("/latest/meta-data/placement/region").await.ok()?;
    let zone = client.get("/latest/meta-data/placement/availability-zone").await.ok();
    let region = named(region.as_ref())?;
    Some(Found { service: "EC2", region, zone: zone.and_then(|zone| named(zone.as_ref())) })
}

/// Returns a client of the EC2 service at `endpoint`. If that is `None`, the AWS SDK chooses the
/// address.
pub(super) fn client(endpoint: Option<&str>) -> Option<imds::Client> {
    let provider = ProviderConfig::without_region().with_http_client(s3::http::client(true).ok()?);
    let mut builder = imds::Client::builder()
        .configure(&provider)
        .max_attempts(1)
        .connect_timeout(EACH)
        .read_timeout(EACH)
        .operation_timeout(WITHIN);
    if let Some(endpoint) = endpoint {
        builder = builder.endpoint(endpoint).ok()?;
    }
    Some(builder.build())
}

/// Reads the region and the zone from the ECS service. Returns `None` if it does not respond.
async fn of_task(endpoint: &str) -> Option<Found> {
    #[derive(serde::Deserialize)]
    struct Task {
        #[serde(rename = "TaskARN")]
        arn: String,
        #[serde(rename = "AvailabilityZone")]
        zone: Option<String>,
    }
    let body = get(&format!("{endpoint}/task")).await?;
    let task: Task = serde_json::from_slice(&body).ok()?;
    // arn:aws:ecs:REGION:ACCOUNT:task/...
    let region = named(task.arn.split(':').nth(3)?)?;
    Some(Found { service: "ECS", region, zone: task.zone.as_deref().and_then(named) })
}

/// Returns the name of a region or zone, or `None` if it contains unexpected characters. The check
/// protects the terminal on which the name is printed.
fn named(text: &str) -> Option<String> {
    let text = text.trim();
    let plain = text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    (plain && (1..=64).contains(&text.len())).then(|| text.to_owned())
}

/// Sends a GET request to `url`, and returns the body of a response with status 200. The request is
/// HTTP/1.0, so the response ends when the connection closes.
async fn get(url: &str) -> Option<Vec<u8>> {
    let rest = url.strip_prefix("http://")?;
    let (authority, path) = rest.split_once('/')?;
    let address = if authority.contains(':') { authority.to_owned() } else { format!("{authority}:80") };
    let mut stream = tokio::time::timeout(EACH, TcpStream::connect(address)).await.ok()?.ok()?;
    let request = format!("GET /{path} HTTP/1.0\r\nHost: {authority}\r\nAccept: application/json\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = Vec::new();
    stream.take(MAX_BYTES).read_to_end(&mut answer).await.ok()?;
    let head = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    let status = answer.split(|byte| *byte == b' ').nth(1)?;
    (status == b"200").then(|| answer.split_off(head + 4))
}

#[cfg(test)]
mod tests;

//! The way to AWS: configuration, credentials, and errors with a remedy.

use std::time::Duration;

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_lambda::config::retry::RetryConfig;
use aws_sdk_lambda::config::timeout::TimeoutConfig;
use aws_sdk_lambda::error::{ProvideErrorMetadata, SdkError};
use eciton_transport::s3;

use super::super::error::{Error, Result};

/// Tries of a request of a deployment.
const ATTEMPTS: u32 = 4;

/// Configuration and credentials as every AWS tool finds them: the environment, the files in
/// `~/.aws`, single sign-on, an instance's role. `AWS_ENDPOINT_URL` and `AWS_PROFILE` count.
///
/// Credentials are looked for at the first request.
///
/// # Errors
/// No region is given anywhere.
pub async fn sdk(region: Option<&str>, profile: Option<&str>) -> Result<SdkConfig> {
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(Duration::from_secs(5))
        .operation_attempt_timeout(Duration::from_secs(60))
        .build();
    let mut loader = aws_config::defaults(BehaviorVersion::latest())
        .http_client(s3::http::client(false))
        .timeout_config(timeouts)
        .retry_config(RetryConfig::standard().with_max_attempts(ATTEMPTS));
    if let Some(region) = region {
        loader = loader.region(Region::new(region.to_owned()));
    }
    if let Some(profile) = profile {
        loader = loader.profile_name(profile);
    }
    let config = loader.load().await;
    if config.region().is_none_or(|region| region.as_ref().is_empty()) {
        return Err(Error::Choice(
            "no region: give --region (for instance us-east-1), or set AWS_REGION".to_owned(),
        ));
    }
    Ok(config)
}

/// The region of a configuration.
pub(super) fn region(config: &SdkConfig) -> String {
    config.region().map(ToString::to_string).unwrap_or_default()
}

/// What a request came to.
pub(super) fn refused<E, R>(operation: impl Into<String>, error: &SdkError<E, R>) -> Error
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
    R: std::fmt::Debug,
{
    let service = error.as_service_error();
    let code = service.and_then(ProvideErrorMetadata::code).unwrap_or_default();
    let message = match service.and_then(ProvideErrorMetadata::message) {
        Some(message) if !code.is_empty() => format!("{code}: {message}"),
        _ => eciton_input::text::causes(error),
    };
    let hint = match code {
        "ExpiredToken" | "ExpiredTokenException" | "RequestExpired" => {
            "; the credentials have expired: `aws sso login`, or new keys"
        }
        "InvalidClientTokenId" | "UnrecognizedClientException" | "SignatureDoesNotMatch" => {
            "; the credentials are wrong: `aws configure`, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        }
        code if code.starts_with("AccessDenied") => {
            "; these credentials may not do this: docs/DEPLOY.md lists what deploying needs"
        }
        _ if message.contains("redentials") => {
            "; no credentials: `aws configure` or `aws sso login`, or set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        }
        _ => "",
    };
    Error::Aws { operation: operation.into(), message, hint }
}

/// Runs requests of a deployment to their end, on this thread.
pub(super) fn wait<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Error::Choice(format!("no asynchronous runtime can be made: {e}")))?;
    runtime.block_on(work)
}

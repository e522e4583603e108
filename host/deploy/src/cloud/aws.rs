//! Execution of asynchronous requests to AWS, and conversion of their errors.

use std::sync::OnceLock;

use aws_config::SdkConfig;
use aws_sdk_lambda::error::{ProvideErrorMetadata, SdkError};

use super::super::error::{Error, Result};

/// Returns the AWS region of a configuration, or an empty text if the region is not set.
pub(super) fn region(config: &SdkConfig) -> String {
    config.region().map(ToString::to_string).unwrap_or_default()
}

/// Converts the error of a failed AWS request to [`Error::Aws`]. The result has a hint for the user
/// if the cause is known, for instance expired credentials.
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
            "; these credentials may not do this: docs/how-to/deploy-to-aws.md lists what deploying needs"
        }
        _ if message.contains("redentials") => {
            "; no credentials: `aws configure` or `aws sso login`, or set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        }
        _ => "",
    };
    Error::Aws { operation: operation.into(), message, hint }
}

/// Runs `work` on this thread until it is complete. All calls share one Tokio runtime, because the
/// connections of an AWS client belong to the runtime that created them, and later requests reuse
/// them.
pub(super) fn wait<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    static RUNTIME: OnceLock<std::io::Result<tokio::runtime::Runtime>> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| tokio::runtime::Builder::new_current_thread().enable_all().build());
    let refused = |e: &std::io::Error| Error::Choice(format!("no asynchronous runtime can be made: {e}"));
    let runtime = runtime.as_ref().map_err(refused)?;
    runtime.block_on(work)
}

//! Conversion of AWS SDK errors to errors of this crate.

use aws_sdk_s3::config::http::HttpResponse;
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};

use crate::error::{Error, shortened};

/// Error codes of S3 after which another attempt may succeed, whatever the HTTP status.
const RETRYABLE: [&str; 9] = [
    "SlowDown",
    "ServiceUnavailable",
    "InternalError",
    "RequestTimeout",
    "Throttling",
    "ThrottlingException",
    "TooManyRequests",
    "ConditionalRequestConflict",
    "OperationAborted",
];

/// Converts the error of an SDK call. `operation` and `key` name the operation of the store that
/// failed.
pub(super) fn from_sdk<E>(operation: &'static str, key: &str, error: SdkError<E, HttpResponse>) -> Error
where
    E: ProvideErrorMetadata + std::error::Error + 'static,
{
    let timeout = |reason: String| Error::Timeout { operation, key: shortened(key), reason };
    let service = |code: &str, message: String, retryable| Error::Service {
        operation,
        key: shortened(key),
        code: code.into(),
        message,
        retryable,
    };
    match &error {
        SdkError::ServiceError(context) => {
            let status = context.raw().status().as_u16();
            let meta = context.err().meta();
            if status == 404 && matches!(meta.code(), None | Some("NoSuchKey" | "NotFound")) {
                return Error::NotFound { operation, key: shortened(key) };
            }
            // The answer to a HEAD request has no body, and so no error code.
            let code = meta.code().or((status == 403).then_some("AccessDenied"));
            coded(operation, key, code, meta.message(), Some(status))
        }
        SdkError::TimeoutError(_) => timeout(chain(&error)),
        SdkError::DispatchFailure(lost) if lost.is_timeout() => timeout(chain(&error)),
        SdkError::DispatchFailure(lost) => service("Connection", chain(&error), !lost.is_user()),
        SdkError::ResponseError(_) => service("Response", chain(&error), true),
        _ => service("Request", chain(&error), false),
    }
}

/// Creates an error from an error code and an HTTP status of the service.
pub(super) fn coded(
    operation: &'static str,
    key: &str,
    code: Option<&str>,
    message: Option<&str>,
    status: Option<u16>,
) -> Error {
    let by_code = code.is_some_and(|code| RETRYABLE.contains(&code));
    let by_status = status.is_some_and(|status| status >= 500 || status == 429 || status == 408);
    let said = message.map_or("the service gave no reason".into(), shortened);
    Error::Service {
        operation,
        key: shortened(key),
        code: shortened(code.unwrap_or("Unknown")),
        message: match status {
            Some(status) => format!("{said} (HTTP {status})"),
            None => said,
        },
        retryable: by_code || by_status,
    }
}

/// Creates the permanent error for a response that this crate does not accept.
pub(super) fn ours(operation: &'static str, key: &str, code: &str, message: &dyn std::fmt::Display) -> Error {
    let message = message.to_string();
    Error::Service { operation, key: shortened(key), code: code.into(), message, retryable: false }
}

/// Returns the messages of an error and its causes, starting with the error itself. The text has at
/// most 400 characters.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    eciton_input::text::cut(&eciton_input::text::causes(error), 400)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_statuses_say_whether_to_try_again() {
        let retryable = |code, status| coded("get", "k", Some(code), None, status).is_retryable();
        assert!(retryable("SlowDown", Some(503)) && retryable("SlowDown", None));
        assert!(retryable("Other", Some(500)) && retryable("Other", Some(429)));
        assert!(!retryable("AccessDenied", Some(403)) && !retryable("Other", None));
        let long = coded("get", "k", None, Some(&"x".repeat(1 << 20)), Some(400)).to_string();
        assert!(long.len() < 300, "{}", long.len());
    }
}

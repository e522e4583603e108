//! Invoker that calls AWS Lambda functions through the AWS SDK.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aws_sdk_lambda::config::interceptors::{
    AfterDeserializationInterceptorContextRef, BeforeTransmitInterceptorContextRef,
};
use aws_sdk_lambda::config::retry::{RetryConfig, RetryPartition};
use aws_sdk_lambda::config::timeout::TimeoutConfig;
use aws_sdk_lambda::config::{
    BehaviorVersion, ConfigBag, Credentials, Intercept, Region, RuntimeComponents,
    StalledStreamProtectionConfig,
};
use aws_sdk_lambda::error::{BoxError, ProvideErrorMetadata, SdkError};
use aws_sdk_lambda::primitives::Blob;
use aws_sdk_lambda::types::LogType;
use bytes::Bytes;
use eciton_transport::s3;

use crate::error::{Result, at_store};
use crate::invoker::{Charge, InvokeError, Invoked, Invoker};

mod report;

/// Maximum number of requests for one invocation, including throttled and broken ones. The waits
/// between requests are exponential with full jitter. The SDK's adaptive mode would limit the rate
/// to one request in two seconds after an early throttled request. The pool of functions adapts the
/// number of invocations in flight instead.
const REQUESTS: u32 = 10;

/// Settings of an invoker, which calls one function.
#[derive(Debug, Clone)]
pub struct LambdaSettings {
    /// Name or Amazon Resource Name (ARN) of the function.
    pub function: String,
    /// AWS region, for instance `us-east-1`.
    pub region: String,
    /// URL of the Lambda API. If `None`, the URL of AWS is used.
    pub endpoint: Option<String>,
    /// Time limit of the function. The invoker waits slightly longer for a reply.
    pub timeout: Duration,
    /// Memory of the function, in MiB.
    pub memory_mb: u32,
}

/// Invoker of one function of AWS Lambda or of an emulation of it.
#[derive(Debug, Clone)]
pub struct LambdaInvoker {
    client: aws_sdk_lambda::Client,
    settings: LambdaSettings,
}

impl LambdaInvoker {
    /// Creates an invoker from an AWS configuration, which includes the credentials.
    #[must_use]
    pub fn new(config: &aws_config::SdkConfig, settings: LambdaSettings) -> Self {
        let builder = aws_sdk_lambda::config::Builder::from(config);
        Self::build(builder, settings)
    }

    /// Creates an invoker with fixed credentials, for emulated functions.
    ///
    /// # Errors
    /// Returns an [`Error`](crate::Error) if the HTTP client cannot be created.
    pub fn with_credentials(settings: LambdaSettings, access_key: &str, secret_key: &str) -> Result<Self> {
        let plain = settings.endpoint.as_deref().is_some_and(s3::http::is_plain);
        let client = s3::http::client(plain).map_err(at_store("create the HTTP client"))?;
        let builder = aws_sdk_lambda::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .credentials_provider(Credentials::from_keys(access_key, secret_key, None))
            .http_client(client);
        Ok(Self::build(builder, settings))
    }

    fn build(builder: aws_sdk_lambda::config::Builder, settings: LambdaSettings) -> Self {
        // A function answers within its time limit, or not at all.
        let attempt = settings.timeout + Duration::from_secs(5);
        let timeouts = TimeoutConfig::builder()
            .connect_timeout(Duration::from_secs(5))
            .operation_attempt_timeout(attempt)
            .build();
        let retries = RetryConfig::standard()
            .with_max_attempts(REQUESTS)
            .with_initial_backoff(Duration::from_millis(50))
            .with_max_backoff(Duration::from_secs(5));
        let mut builder = builder
            .region(Region::new(settings.region.clone()))
            .timeout_config(timeouts)
            .retry_config(retries)
            // This client has its own retry budget. By default, the SDK shares one per service and
            // region.
            .retry_partition(RetryPartition::custom(settings.function.clone()).build())
            // While a function computes, the connection is silent without being stalled.
            .stalled_stream_protection(StalledStreamProtectionConfig::disabled());
        if let Some(endpoint) = &settings.endpoint {
            builder = builder.endpoint_url(endpoint);
        }
        Self { client: aws_sdk_lambda::Client::from_conf(builder.build()), settings }
    }
}

/// Interceptor that counts the requests of one invocation.
#[derive(Debug, Default, Clone)]
struct Requests(Arc<Counted>);

#[derive(Debug, Default)]
struct Counted {
    sent: AtomicU64,
    throttled: AtomicU64,
}

impl Intercept for Requests {
    fn name(&self) -> &'static str {
        "eciton-requests"
    }

    fn read_before_transmit(
        &self,
        _: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        self.0.sent.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn read_after_deserialization(
        &self,
        context: &AfterDeserializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        if context.response().status().as_u16() == 429 {
            self.0.throttled.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}

impl Invoker for LambdaInvoker {
    async fn invoke(&self, payload: Bytes) -> Result<Invoked, InvokeError> {
        let counted = Requests::default();
        let sent = self
            .client
            .invoke()
            .function_name(&self.settings.function)
            .log_type(LogType::Tail)
            // This makes no copy, because there is no other reference to the bytes.
            .payload(Blob::new(Vec::from(payload)))
            .customize()
            .interceptor(counted.clone())
            .send()
            .await;
        let requests = counted.0.sent.load(Ordering::Relaxed).max(1);
        let throttled = counted.0.throttled.load(Ordering::Relaxed);
        let output = sent.map_err(|error| self.service_error(&error, requests, throttled))?;
        let charge = output.log_result().and_then(report::from_base64);
        let payload = output.payload.map(Blob::into_inner).unwrap_or_default();
        match output.function_error {
            None => Ok(Invoked { payload: payload.into(), charge, requests, throttled }),
            Some(handling) => Err(self.function_error(&handling, &payload, charge, requests, throttled)),
        }
    }
}

impl LambdaInvoker {
    fn service_error<E, R>(&self, error: &SdkError<E, R>, requests: u64, throttled: u64) -> InvokeError
    where
        E: ProvideErrorMetadata + std::error::Error + 'static,
        R: std::fmt::Debug,
    {
        let code = error.as_service_error().and_then(ProvideErrorMetadata::code).unwrap_or_default();
        let retryable = match error {
            SdkError::ConstructionFailure(_) => false,
            SdkError::ServiceError(_) => matches!(
                code,
                "TooManyRequestsException"
                    | "ServiceException"
                    | "InternalFailure"
                    | "ServiceUnavailable"
                    | "EC2ThrottledException"
                    | "ResourceConflictException"
                    | "ResourceNotReadyException"
            ),
            // The connection broke, timed out, or gave an answer that is not valid.
            _ => true,
        };
        let remedy = match code {
            "ResourceNotFoundException" => {
                "; create the function with `eciton deploy`, or set executor.deployment to another deployment"
            }
            "AccessDeniedException" => {
                "; the credentials must have the permission lambda:InvokeFunction for the function"
            }
            "TooManyRequestsException" => {
                "; lower executor.functions, or request a higher account limit from AWS"
            }
            _ => "",
        };
        let message = format!("{}{remedy}", eciton_input::text::causes(error));
        let operation = format!("Invoke {}", self.settings.function);
        InvokeError::Service { operation, message, retryable, requests, throttled }
    }

    fn function_error(
        &self,
        handling: &str,
        payload: &[u8],
        charge: Option<Charge>,
        requests: u64,
        throttled: u64,
    ) -> InvokeError {
        #[derive(Default, serde::Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct Body {
            error_type: String,
            error_message: String,
        }
        let body: Body = serde_json::from_slice(payload).unwrap_or_default();
        let kind = if body.error_type.is_empty() { handling.to_owned() } else { body.error_type };
        // Refusals of the worker start with `Eciton.` and would occur again. A crash, a time limit
        // and the service's own errors may not.
        let retryable = !kind.starts_with("Eciton.") && kind != "Function.ResponseSizeTooLarge";
        let message = body.error_message.chars().take(2000).collect();
        let function = self.settings.function.clone();
        InvokeError::Function { function, kind, message, retryable, charge, requests, throttled }
    }
}

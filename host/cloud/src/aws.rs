//! Access to AWS: the configuration with its credentials, and the bucket of a deployment.

use std::time::Duration;

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_lambda::config::retry::RetryConfig;
use aws_sdk_lambda::config::timeout::TimeoutConfig;
use eciton_transport::{S3Settings, S3Store, s3};

use crate::deployment::Deployment;
use crate::error::{Error, Result, at_store};

/// Maximum number of attempts at one request to AWS.
const ATTEMPTS: u32 = 4;

/// Loads configuration and credentials from the sources that all AWS tools use. These are the
/// environment, the files in `~/.aws`, single sign-on, and the role of an instance. Environment
/// variables such as `AWS_ENDPOINT_URL` and `AWS_PROFILE` apply as well.
///
/// The credentials themselves are looked up at the first request.
///
/// # Errors
/// Returns an [`Error`] if `region` is `None` and no source names a region.
pub async fn sdk(region: Option<&str>, profile: Option<&str>) -> Result<SdkConfig> {
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(Duration::from_secs(5))
        .operation_attempt_timeout(Duration::from_secs(60))
        .build();
    let client = s3::http::client(false).map_err(at_store("create the HTTP client"))?;
    let mut loader = aws_config::defaults(BehaviorVersion::latest())
        .http_client(client)
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
            "no AWS region is set: add --region (for instance us-east-1), or set AWS_REGION".to_owned(),
        ));
    }
    Ok(config)
}

/// Creates the client with which runs access the bucket of a deployment.
///
/// # Errors
/// Returns an error if the deployment's bucket name is not valid.
pub fn store(deployment: &Deployment, config: &SdkConfig) -> eciton_transport::Result<S3Store> {
    let mut bucket = S3Settings::new(&deployment.bucket, &deployment.region);
    bucket.endpoint = deployment.endpoints.s3.clone();
    if let Some(provider) = config.credentials_provider() {
        bucket.credentials = eciton_transport::Credentials::Provider(provider);
    }
    S3Store::new(bucket)
}

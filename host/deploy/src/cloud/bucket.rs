//! Operations on S3 buckets: creation of the bucket to which `sam` uploads packages, and deletion
//! of objects.
//!
//! The packages of a stack are in a separate bucket, `STACK-packages-ACCOUNT-REGION`, which is
//! created before the stack and deleted after it. In contrast, all stacks of an account would share
//! the bucket that `sam deploy --resolve-s3` creates. That shared bucket stores old versions and is
//! never deleted.

use aws_config::SdkConfig;
use aws_sdk_s3::Client;
use aws_sdk_s3::error::ProvideErrorMetadata as _;
use aws_sdk_s3::types::{
    BucketLocationConstraint, CreateBucketConfiguration, Delete, ObjectIdentifier,
    PublicAccessBlockConfiguration,
};

use super::super::error::{Error, Result};
use super::aws::{refused, region};

/// Maximum number of pages that one call of [`clear`] deletes from a bucket. A page has up to 1,000
/// objects.
const MAX_PAGES: u32 = 10_000;

/// Creates an S3 client. With a custom endpoint, the bucket name is part of the path, because a
/// compatible service has no host name for each bucket.
pub(super) fn client(config: &SdkConfig, endpoint: Option<&str>) -> Client {
    let variable = std::env::var("AWS_ENDPOINT_URL_S3").ok();
    let given = endpoint.map(str::to_owned).or(variable).or_else(|| config.endpoint_url().map(str::to_owned));
    let mut builder = aws_sdk_s3::config::Builder::from(config).force_path_style(given.is_some());
    if let Some(endpoint) = given {
        builder = builder.endpoint_url(endpoint);
    }
    Client::from_conf(builder.build())
}

/// Creates the bucket `name` without public access. If this account already owns the bucket, only
/// its public access is blocked.
pub(super) async fn make(client: &Client, config: &SdkConfig, name: &str) -> Result<()> {
    let mut request = client.create_bucket().bucket(name);
    let region = region(config);
    // This is the only region that must not be specified.
    if region != "us-east-1" {
        let place = BucketLocationConstraint::from(region.as_str());
        request = request.create_bucket_configuration(
            CreateBucketConfiguration::builder().location_constraint(place).build(),
        );
    }
    match request.send().await {
        Ok(_) => {}
        Err(e) if e.as_service_error().is_some_and(|e| e.is_bucket_already_owned_by_you()) => {}
        // Another account that guessed the name could otherwise receive our packages and replace
        // them.
        Err(e) if e.as_service_error().is_some_and(|e| e.is_bucket_already_exists()) => {
            return Err(Error::Choice(format!(
                "bucket {name} belongs to another account: choose another --stack name"
            )));
        }
        Err(e) => return Err(refused(format!("S3 CreateBucket {name}"), &e)),
    }
    let closed = PublicAccessBlockConfiguration::builder()
        .block_public_acls(true)
        .block_public_policy(true)
        .ignore_public_acls(true)
        .restrict_public_buckets(true)
        .build();
    let request = client.put_public_access_block().bucket(name).public_access_block_configuration(closed);
    request.send().await.map_err(|e| refused(format!("S3 PutPublicAccessBlock {name}"), &e))?;
    Ok(())
}

/// Returns true if the bucket `name` exists and the credentials allow access to it.
pub(super) async fn exists(client: &Client, name: &str) -> Result<bool> {
    match client.head_bucket().bucket(name).send().await {
        Ok(_) => Ok(true),
        Err(e) if e.as_service_error().is_some_and(|e| e.is_not_found()) => Ok(false),
        Err(e) => Err(refused(format!("S3 HeadBucket {name}"), &e)),
    }
}

/// Deletes all versions of every object whose key starts with `prefix`. Returns the number of
/// deleted versions and delete markers, or 0 if the bucket does not exist.
pub(super) async fn clear(client: &Client, bucket: &str, prefix: &str) -> Result<u64> {
    let mut removed = 0;
    for _ in 0..MAX_PAGES {
        let listed = client.list_object_versions().bucket(bucket).prefix(prefix).send().await;
        let page = match listed {
            Ok(page) => page,
            Err(e) if e.as_service_error().and_then(|e| e.code()) == Some("NoSuchBucket") => return Ok(0),
            Err(e) => return Err(refused(format!("S3 ListObjectVersions {bucket}"), &e)),
        };
        let versions = page.versions().iter().map(|v| (v.key(), v.version_id()));
        let markers = page.delete_markers().iter().map(|m| (m.key(), m.version_id()));
        let mut objects = Vec::new();
        for (key, version) in versions.chain(markers) {
            let named = ObjectIdentifier::builder().set_key(key.map(str::to_owned));
            let named = named.set_version_id(version.map(str::to_owned)).build();
            objects.push(named.map_err(|e| incomplete(bucket, &e))?);
        }
        if objects.is_empty() {
            return Ok(removed);
        }
        let count = objects.len() as u64;
        let delete = Delete::builder().set_objects(Some(objects)).quiet(true).build();
        let delete = delete.map_err(|e| incomplete(bucket, &e))?;
        let done = client.delete_objects().bucket(bucket).delete(delete).send().await;
        let done = done.map_err(|e| refused(format!("S3 DeleteObjects {bucket}"), &e))?;
        if let Some(error) = done.errors().first() {
            let what = format!("{}: {}", error.code().unwrap_or("?"), error.message().unwrap_or("?"));
            return Err(Error::Aws {
                operation: format!("S3 DeleteObjects {bucket}, {}", error.key().unwrap_or("?")),
                message: what,
                hint: "; these credentials need s3:DeleteObject and s3:DeleteObjectVersion on it",
            });
        }
        removed += count;
    }
    Err(Error::Choice(format!(
        "bucket {bucket} still has objects after {removed} were removed: run it again"
    )))
}

fn incomplete(bucket: &str, error: &dyn std::error::Error) -> Error {
    Error::Aws { operation: format!("S3 {bucket}"), message: error.to_string(), hint: "" }
}

/// Writes `bytes` to the object `key` of a bucket.
pub(super) async fn put(client: &Client, bucket: &str, key: &str, bytes: Vec<u8>) -> Result<()> {
    let request = client.put_object().bucket(bucket).key(key).body(bytes.into());
    request.send().await.map_err(|e| refused(format!("S3 PutObject {bucket}/{key}"), &e))?;
    Ok(())
}

/// Deletes an empty bucket. It is not an error if the bucket does not exist.
pub(super) async fn remove(client: &Client, name: &str) -> Result<()> {
    match client.delete_bucket().bucket(name).send().await {
        Ok(_) => Ok(()),
        Err(e) if e.as_service_error().and_then(|e| e.code()) == Some("NoSuchBucket") => Ok(()),
        Err(e) => Err(refused(format!("S3 DeleteBucket {name}"), &e)),
    }
}

//! Implementation of S3 on [`Objects`], with the protocol library `s3s`. Every request is
//! authenticated, counted and limited.

use crate::bill::{Bill, S3Bill};
use crate::clock::Times;
use crate::instance::Instance;
use crate::link::Link;
use crate::objects::{Condition, LISTED_KEYS, Object, Objects, PARTS, PUT_BYTES, Refusal};
use crate::role::Roles;
use crate::serve::{BodyError, BodyFate, Limits, Paced, Server, serve};
use crate::settings::Settings;
use base64::Engine;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Body as _;
use s3s::access::{S3Access, S3AccessContext};
use s3s::auth::SimpleAuth;
use s3s::checksum::ChecksumHasher;
use s3s::config::{S3Config, StaticConfigProvider};
use s3s::crypto::Checksum as _;
use s3s::dto::*;
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s::{Body, S3, S3Error, S3ErrorCode, S3Request, S3Response, S3Result, TrailingHeaders, s3_error};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;
use tokio::net::TcpListener;

/// Maximum size of the XML body of a DeleteObjects or CompleteMultipartUpload request, in bytes.
const XML_BYTES: usize = 2 << 20;

/// Counters of the S3 service, which all its listeners share.
#[derive(Clone, Debug)]
pub(crate) struct Account(pub(crate) Arc<Mutex<Bill>>);

impl Account {
    fn count(&self, count: impl FnOnce(&mut S3Bill)) {
        count(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner).s3);
    }
}

/// Creates the S3 service, which all listeners share.
pub(crate) fn service(settings: &Settings, account: &Account) -> S3Service {
    let objects = Arc::new(Objects::new(&settings.buckets, settings.store_bytes));
    let (region, account) = (settings.region.clone(), account.clone());
    let mut builder =
        S3ServiceBuilder::new(Backend { objects: objects.clone(), region, account: account.clone() });
    let mut auth = SimpleAuth::from_single(settings.access_key.clone(), settings.secret_key.clone());
    let roles = Roles::from_settings(settings);
    for access_key in roles.access_keys() {
        auth.register(access_key.clone(), settings.secret_key.clone().into());
    }
    builder.set_auth(auth);
    builder.set_access(Door { account, roles, objects });
    let mut config = S3Config::default();
    config.xml_max_body_size = XML_BYTES;
    // Uploads by HTML forms are disabled, because programs do not use them.
    config.post_object_max_file_size = 0;
    config.form_max_fields_size = 64 * 1024;
    config.form_max_field_size = 64 * 1024;
    config.form_max_parts = 16;
    builder.set_config(Arc::new(StaticConfigProvider::new(Arc::new(config))));
    builder.build()
}

/// Serves S3 on `listener`. If `waiting` is given, adds the modelled time of each request to the
/// virtual time of that instance.
pub(crate) fn serve_s3(
    listener: TcpListener,
    limits: Limits,
    link: Option<Link>,
    service: S3Service,
    account: Account,
    waiting: Option<(Arc<Instance>, Times)>,
) -> Server {
    let pace = limits.body_timeout;
    serve(listener, limits, link, move |request: hyper::Request<hyper::body::Incoming>| {
        let (service, account, waiting) = (service.clone(), account.clone(), waiting.clone());
        async move {
            let mut fate = None;
            let sent = request.body().size_hint().exact().unwrap_or_default();
            let request = request.map(|body| {
                let body = Paced::new(body, pace);
                fate = Some(body.fate());
                Body::http_body_unsync(body)
            });
            let failed = || fate.as_ref().and_then(BodyFate::failure);
            let mut response = match service.call(request).await {
                Ok(response) => response,
                Err(_) => refusal(&s3_error!(InternalError)),
            };
            // If a body breaks off while XML is read, the library reports an internal error.
            if response.status() == hyper::StatusCode::INTERNAL_SERVER_ERROR
                && let Some(failure) = failed()
            {
                response = refusal(&broken_body(&failure));
            }
            if response.status().is_client_error() || response.status().is_server_error() {
                account.count(|bill| bill.refused += 1);
            }
            if let Some((instance, times)) = waiting {
                let received = response.body().size_hint().exact().unwrap_or_default();
                instance.wait(times.request(sent + received));
            }
            Ok(response)
        }
    })
}

/// Access check of the S3 service. It admits signed requests that the role of the signer allows,
/// and counts them.
struct Door {
    account: Account,
    roles: Roles,
    objects: Arc<Objects>,
}

#[async_trait::async_trait]
impl S3Access for Door {
    async fn check(&self, context: &mut S3AccessContext<'_>) -> S3Result<()> {
        let Some(credentials) = context.credentials() else {
            return Err(s3_error!(AccessDenied, "Requests must be signed"));
        };
        let operation = context.s3_op().name();
        let object = context.s3_path().as_object();
        let is_there = || object.is_some_and(|(bucket, key)| self.objects.get(bucket, key).is_ok());
        self.account.count(|bill| match operation {
            "PutObject" | "UploadPart" | "CreateMultipartUpload" | "CompleteMultipartUpload" => {
                bill.puts += 1
            }
            "GetObject" => bill.gets += 1,
            "HeadObject" | "HeadBucket" => bill.heads += 1,
            "ListObjectsV2" | "ListBuckets" | "ListParts" => bill.lists += 1,
            "DeleteObject" | "DeleteObjects" | "AbortMultipartUpload" => bill.deletes += 1,
            _ => {}
        });
        let asked = (operation, object.map(|(_, key)| key));
        if self.roles.refuse(&credentials.access_key, asked, is_there) {
            return Err(s3_error!(
                AccessDenied,
                "The role does not allow this request, or the object does not exist"
            ));
        }
        Ok(())
    }
}

struct Backend {
    objects: Arc<Objects>,
    region: String,
    account: Account,
}

fn refused(refusal: Refusal) -> S3Error {
    match refusal {
        Refusal::NoSuchBucket => s3_error!(NoSuchBucket),
        Refusal::NoSuchKey => s3_error!(NoSuchKey),
        Refusal::NoSuchUpload => s3_error!(NoSuchUpload),
        Refusal::Precondition => {
            s3_error!(PreconditionFailed, "At least one of the pre-conditions you specified did not hold")
        }
        Refusal::InvalidPart => s3_error!(InvalidPart, "A part could not be found, or its ETag differs"),
        Refusal::PartOrder => s3_error!(InvalidPartOrder),
        Refusal::PartTooSmall => {
            s3_error!(EntityTooSmall, "Your proposed upload is smaller than the minimum allowed size")
        }
        Refusal::Full => {
            s3_error!(
                InvalidRequest,
                "The buckets of the emulator are full: raise store_bytes, or delete objects"
            )
        }
        Refusal::TooManyUploads => {
            s3_error!(InvalidRequest, "Too many multipart uploads are open: complete or abort some of them")
        }
    }
}

fn timestamp(time: SystemTime) -> Timestamp {
    Timestamp::from(time)
}

/// Converts the headers `If-None-Match` and `If-Match` to the condition of a write.
fn condition(none_match: Option<&ETagCondition>, matches: Option<&ETagCondition>) -> S3Result<Condition> {
    match (none_match, matches) {
        (None, None) => Ok(Condition::None),
        (Some(ETagCondition::Any), None) => Ok(Condition::Absent),
        (None, Some(ETagCondition::ETag(tag))) => Ok(Condition::Tag(tag.value().to_owned())),
        _ => {
            Err(s3_error!(NotImplemented, "Writes support If-None-Match: * and If-Match with one ETag only"))
        }
    }
}

/// Length and checksums that a client announced for a body.
#[derive(Default)]
struct Expected {
    length: Option<i64>,
    md5: Option<String>,
    algorithm: Option<ChecksumAlgorithm>,
    checksum: Checksum,
    trailer: Option<TrailingHeaders>,
}

/// Creates an [`Expected`] from fields that the inputs of two operations have in common.
macro_rules! expected {
    ($input:ident, $request:ident) => {
        Expected {
            length: $input.content_length,
            md5: $input.content_md5,
            algorithm: $input.checksum_algorithm,
            checksum: Checksum {
                checksum_crc32: $input.checksum_crc32,
                checksum_crc32c: $input.checksum_crc32c,
                checksum_crc64nvme: $input.checksum_crc64nvme,
                checksum_sha1: $input.checksum_sha1,
                checksum_sha256: $input.checksum_sha256,
                ..Checksum::default()
            },
            trailer: $request.trailing_headers,
        }
    };
}

impl Backend {
    /// Reads a body, checks it, and returns it with its checksums.
    async fn read(&self, body: Option<StreamingBlob>, expected: Expected) -> S3Result<(Bytes, Checksum)> {
        if let Some(length) = expected.length {
            let length =
                u64::try_from(length).map_err(|_| s3_error!(InvalidRequest, "Content-Length is negative"))?;
            if length > PUT_BYTES {
                return Err(s3_error!(EntityTooLarge));
            }
            self.objects.room(length).map_err(refused)?;
        }
        let trailing = expected.trailer.is_some() || expected.algorithm.is_some();
        let wants = |given: &Option<String>, name: &str| {
            given.is_some()
                || (trailing
                    && expected.algorithm.as_ref().is_some_and(|algorithm| algorithm.as_str() == name))
        };
        let mut hasher = ChecksumHasher::default();
        let given = &expected.checksum;
        // A trailer may contain a checksum whose algorithm no header names. CRC-32 is the default
        // of clients.
        let unnamed = expected.trailer.is_some() && expected.algorithm.is_none();
        hasher.crc32 = (wants(&given.checksum_crc32, "CRC32") || unnamed).then(s3s::crypto::Crc32::new);
        hasher.crc32c = wants(&given.checksum_crc32c, "CRC32C").then(s3s::crypto::Crc32c::new);
        hasher.crc64nvme = wants(&given.checksum_crc64nvme, "CRC64NVME").then(s3s::crypto::Crc64Nvme::new);
        hasher.sha1 = wants(&given.checksum_sha1, "SHA1").then(s3s::crypto::Sha1::new);
        hasher.sha256 = wants(&given.checksum_sha256, "SHA256").then(s3s::crypto::Sha256::new);
        let mut md5 = expected.md5.as_ref().map(|_| s3s::crypto::Md5::new());
        let mut bytes = BytesMut::new();
        let mut body = body.map_or_else(Body::empty, Body::from);
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(unread)?.into_data() else { continue };
            hasher.update(&data);
            if let Some(md5) = &mut md5 {
                md5.update(&data);
            }
            if (bytes.len() + data.len()) as u64 > PUT_BYTES {
                return Err(s3_error!(EntityTooLarge));
            }
            self.objects.room((bytes.len() + data.len()) as u64).map_err(refused)?;
            bytes.extend_from_slice(&data);
        }
        if expected.length.is_some_and(|length| length != bytes.len() as i64) {
            return Err(s3_error!(IncompleteBody));
        }
        if let (Some(md5), Some(given)) = (md5, &expected.md5)
            && base64::engine::general_purpose::STANDARD.encode(md5.finalize()) != *given
        {
            return Err(s3_error!(BadDigest, "The Content-MD5 you specified did not match what we received"));
        }
        let found = hasher.finalize();
        compare(&found, given)?;
        if let Some(trailer) = expected.trailer.and_then(|trailer| trailer.take()) {
            let header =
                |name: &str| trailer.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
            let trailed = Checksum {
                checksum_crc32: header("x-amz-checksum-crc32"),
                checksum_crc32c: header("x-amz-checksum-crc32c"),
                checksum_crc64nvme: header("x-amz-checksum-crc64nvme"),
                checksum_sha1: header("x-amz-checksum-sha1"),
                checksum_sha256: header("x-amz-checksum-sha256"),
                ..Checksum::default()
            };
            compare(&found, &trailed)?;
        }
        self.account.count(|bill| bill.bytes_in += bytes.len() as u64);
        Ok((bytes.freeze(), found))
    }

    fn found(
        &self,
        bucket: &str,
        key: &str,
        matches: Option<&ETagCondition>,
        none_match: Option<&ETagCondition>,
    ) -> S3Result<Object> {
        let object = self.objects.get(bucket, key).map_err(refused)?;
        let is = |condition: &ETagCondition| match condition {
            ETagCondition::Any => true,
            ETagCondition::ETag(tag) => tag.value() == object.tag,
        };
        if matches.is_some_and(|condition| !is(condition)) {
            return Err(refused(Refusal::Precondition));
        }
        if none_match.is_some_and(is) {
            return Err(S3ErrorCode::NotModified.into());
        }
        Ok(object)
    }
}

fn broken_body(failure: &BodyError) -> S3Error {
    match failure {
        BodyError::Slow => s3_error!(
            RequestTimeout,
            "Your socket connection to the server was not read from or written to within the timeout period"
        ),
        BodyError::TooLarge | BodyError::Broken => {
            s3_error!(IncompleteBody, "The request body terminated unexpectedly")
        }
    }
}

/// Converts an S3 error to an HTTP response with an XML body.
fn refusal(error: &S3Error) -> hyper::Response<Body> {
    let code = error.code();
    let text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?><Error><Code>{}</Code><Message>{}</Message></Error>",
        code.as_str(),
        error.message().unwrap_or_default()
    );
    let mut response = hyper::Response::new(Body::from(text));
    *response.status_mut() = code.status_code().unwrap_or(hyper::StatusCode::INTERNAL_SERVER_ERROR);
    response
        .headers_mut()
        .insert(hyper::header::CONTENT_TYPE, hyper::header::HeaderValue::from_static("application/xml"));
    response
}

/// Converts the error of a body that cannot be read to an S3 error.
fn unread(error: s3s::StdError) -> S3Error {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&*error);
    while let Some(found) = cause {
        if found
            .downcast_ref::<std::io::Error>()
            .is_some_and(|error| error.kind() == std::io::ErrorKind::TimedOut)
        {
            return s3_error!(
                RequestTimeout,
                "Your socket connection to the server was not read from or written to within the timeout period"
            );
        }
        cause = found.source();
    }
    if error.to_string().contains("SignatureMismatch") {
        return s3_error!(SignatureDoesNotMatch, "A chunk's signature does not match");
    }
    s3_error!(IncompleteBody, "The request body terminated unexpectedly: {error}")
}

/// Compares each checksum that the client sent with the computed one. A checksum that was not
/// computed counts as wrong.
fn compare(found: &Checksum, given: &Checksum) -> S3Result<()> {
    let pairs = [
        (&given.checksum_crc32, &found.checksum_crc32, "CRC32"),
        (&given.checksum_crc32c, &found.checksum_crc32c, "CRC32C"),
        (&given.checksum_crc64nvme, &found.checksum_crc64nvme, "CRC64NVME"),
        (&given.checksum_sha1, &found.checksum_sha1, "SHA1"),
        (&given.checksum_sha256, &found.checksum_sha256, "SHA256"),
    ];
    match pairs.iter().find(|(given, found, _)| given.is_some() && given != found) {
        Some((_, _, name)) => {
            Err(s3_error!(BadDigest, "The {name} you specified did not match the calculated checksum."))
        }
        None => Ok(()),
    }
}

#[async_trait::async_trait]
impl S3 for Backend {
    async fn put_object(&self, request: S3Request<PutObjectInput>) -> S3Result<S3Response<PutObjectOutput>> {
        let input = request.input;
        let condition = condition(input.if_none_match.as_ref(), input.if_match.as_ref())?;
        self.objects.exists(&input.bucket).map_err(refused)?;
        let expected = expected!(input, request);
        let (bytes, checksum) = self.read(input.body, expected).await?;
        let object = Object {
            bytes,
            tag: String::new(),
            modified: SystemTime::now(),
            content_type: input.content_type,
            metadata: input.metadata,
            checksum: checksum.clone(),
        };
        let tag = self.objects.put(&input.bucket, &input.key, &condition, object).map_err(refused)?;
        Ok(S3Response::new(PutObjectOutput {
            e_tag: Some(ETag::Strong(tag)),
            checksum_crc32: checksum.checksum_crc32,
            checksum_crc32c: checksum.checksum_crc32c,
            checksum_crc64nvme: checksum.checksum_crc64nvme,
            checksum_sha1: checksum.checksum_sha1,
            checksum_sha256: checksum.checksum_sha256,
            ..PutObjectOutput::default()
        }))
    }

    async fn get_object(&self, request: S3Request<GetObjectInput>) -> S3Result<S3Response<GetObjectOutput>> {
        let input = request.input;
        let object =
            self.found(&input.bucket, &input.key, input.if_match.as_ref(), input.if_none_match.as_ref())?;
        let whole = object.bytes.len() as u64;
        let (bytes, content_range) = match input.range {
            None => (object.bytes, None),
            Some(range) => {
                let range = range.check(whole)?;
                let text = format!("bytes {}-{}/{whole}", range.start, range.end - 1);
                (object.bytes.slice(range.start as usize..range.end as usize), Some(text))
            }
        };
        self.account.count(|bill| bill.bytes_out += bytes.len() as u64);
        let mut output = GetObjectOutput {
            accept_ranges: Some("bytes".into()),
            content_length: Some(bytes.len() as i64),
            content_type: object.content_type,
            e_tag: Some(ETag::Strong(object.tag)),
            last_modified: Some(timestamp(object.modified)),
            metadata: object.metadata,
            ..GetObjectOutput::default()
        };
        if content_range.is_none() && input.checksum_mode.is_some() {
            output.checksum_crc32 = object.checksum.checksum_crc32;
            output.checksum_crc32c = object.checksum.checksum_crc32c;
            output.checksum_crc64nvme = object.checksum.checksum_crc64nvme;
            output.checksum_sha1 = object.checksum.checksum_sha1;
            output.checksum_sha256 = object.checksum.checksum_sha256;
        }
        output.content_range = content_range;
        output.body = Some(StreamingBlob::from(Body::from(bytes)));
        Ok(S3Response::new(output))
    }

    async fn head_object(
        &self,
        request: S3Request<HeadObjectInput>,
    ) -> S3Result<S3Response<HeadObjectOutput>> {
        let input = request.input;
        let object =
            self.found(&input.bucket, &input.key, input.if_match.as_ref(), input.if_none_match.as_ref())?;
        Ok(S3Response::new(HeadObjectOutput {
            accept_ranges: Some("bytes".into()),
            content_length: Some(object.bytes.len() as i64),
            content_type: object.content_type,
            e_tag: Some(ETag::Strong(object.tag)),
            last_modified: Some(timestamp(object.modified)),
            metadata: object.metadata,
            ..HeadObjectOutput::default()
        }))
    }

    async fn delete_object(
        &self,
        request: S3Request<DeleteObjectInput>,
    ) -> S3Result<S3Response<DeleteObjectOutput>> {
        let input = request.input;
        if input.if_match.is_some() {
            return Err(s3_error!(NotImplemented, "Conditional deletes are not emulated"));
        }
        self.objects.delete(&input.bucket, &input.key).map_err(refused)?;
        Ok(S3Response::with_status(DeleteObjectOutput::default(), hyper::StatusCode::NO_CONTENT))
    }

    async fn delete_objects(
        &self,
        request: S3Request<DeleteObjectsInput>,
    ) -> S3Result<S3Response<DeleteObjectsOutput>> {
        let input = request.input;
        if input.delete.objects.is_empty() || input.delete.objects.len() > LISTED_KEYS {
            return Err(s3_error!(MalformedXML, "A request must list 1 to {LISTED_KEYS} keys"));
        }
        let mut deleted = Vec::new();
        for object in input.delete.objects {
            self.objects.delete(&input.bucket, &object.key).map_err(refused)?;
            deleted.push(DeletedObject { key: Some(object.key), ..DeletedObject::default() });
        }
        let deleted = (input.delete.quiet != Some(true)).then_some(deleted);
        Ok(S3Response::new(DeleteObjectsOutput { deleted, ..DeleteObjectsOutput::default() }))
    }

    async fn list_objects_v2(
        &self,
        request: S3Request<ListObjectsV2Input>,
    ) -> S3Result<S3Response<ListObjectsV2Output>> {
        let input = request.input;
        let most = input.max_keys.unwrap_or(LISTED_KEYS as i32);
        let most = usize::try_from(most)
            .map_err(|_| s3_error!(InvalidArgument, "max-keys is negative"))?
            .min(LISTED_KEYS);
        let prefix = input.prefix.clone().unwrap_or_default();
        let delimiter = input.delimiter.clone().unwrap_or_default();
        let after = match &input.continuation_token {
            Some(token) => decode_token(token)?,
            None => input.start_after.clone().unwrap_or_default(),
        };
        let page = self.objects.list(&input.bucket, &prefix, &delimiter, &after, most).map_err(refused)?;
        let url = input.encoding_type.as_ref().is_some_and(|kind| kind.as_str() == EncodingType::URL);
        let shown = |name: String| if url { url_encoded(&name) } else { name };
        let count = page.objects.len() + page.prefixes.len();
        let contents = page.objects.into_iter().map(|(key, object)| s3s::dto::Object {
            key: Some(shown(key)),
            size: Some(object.bytes.len() as i64),
            e_tag: Some(ETag::Strong(object.tag)),
            last_modified: Some(timestamp(object.modified)),
            ..s3s::dto::Object::default()
        });
        let contents = contents.collect();
        let prefixes =
            page.prefixes.into_iter().map(|prefix| CommonPrefix { prefix: Some(shown(prefix)) }).collect();
        Ok(S3Response::new(ListObjectsV2Output {
            name: Some(input.bucket),
            prefix: input.prefix,
            delimiter: input.delimiter,
            max_keys: Some(most as i32),
            key_count: Some(count as i32),
            is_truncated: Some(page.next.is_some()),
            next_continuation_token: page
                .next
                .map(|next| base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(next)),
            continuation_token: input.continuation_token,
            contents: Some(contents),
            common_prefixes: Some(prefixes),
            encoding_type: input.encoding_type,
            start_after: input.start_after,
            ..ListObjectsV2Output::default()
        }))
    }

    async fn create_multipart_upload(
        &self,
        request: S3Request<CreateMultipartUploadInput>,
    ) -> S3Result<S3Response<CreateMultipartUploadOutput>> {
        let input = request.input;
        let id = self
            .objects
            .open(&input.bucket, &input.key, input.content_type, input.metadata)
            .map_err(refused)?;
        Ok(S3Response::new(CreateMultipartUploadOutput {
            bucket: Some(input.bucket),
            key: Some(input.key),
            upload_id: Some(id),
            checksum_algorithm: input.checksum_algorithm,
            checksum_type: input.checksum_type,
            ..CreateMultipartUploadOutput::default()
        }))
    }

    async fn upload_part(
        &self,
        request: S3Request<UploadPartInput>,
    ) -> S3Result<S3Response<UploadPartOutput>> {
        let input = request.input;
        if !(1..=PARTS).contains(&input.part_number) {
            return Err(s3_error!(
                InvalidArgument,
                "Part number must be an integer between 1 and {PARTS}, inclusive"
            ));
        }
        self.objects.has_upload(&input.bucket, &input.key, &input.upload_id).map_err(refused)?;
        let expected = expected!(input, request);
        let (bytes, checksum) = self.read(input.body, expected).await?;
        let tag = self
            .objects
            .part(&input.bucket, &input.key, &input.upload_id, input.part_number, bytes)
            .map_err(refused)?;
        Ok(S3Response::new(UploadPartOutput {
            e_tag: Some(ETag::Strong(tag)),
            checksum_crc32: checksum.checksum_crc32,
            checksum_crc32c: checksum.checksum_crc32c,
            checksum_crc64nvme: checksum.checksum_crc64nvme,
            checksum_sha1: checksum.checksum_sha1,
            checksum_sha256: checksum.checksum_sha256,
            ..UploadPartOutput::default()
        }))
    }

    async fn complete_multipart_upload(
        &self,
        request: S3Request<CompleteMultipartUploadInput>,
    ) -> S3Result<S3Response<CompleteMultipartUploadOutput>> {
        let input = request.input;
        let condition = condition(input.if_none_match.as_ref(), input.if_match.as_ref())?;
        let parts = input.multipart_upload.and_then(|upload| upload.parts).unwrap_or_default();
        let mut named = Vec::with_capacity(parts.len());
        for part in parts {
            let (Some(number), Some(tag)) = (part.part_number, part.e_tag) else {
                return Err(s3_error!(MalformedXML));
            };
            named.push((number, tag.into_value()));
        }
        let tag = self
            .objects
            .complete(&input.bucket, &input.key, &input.upload_id, &named, &condition)
            .map_err(refused)?;
        Ok(S3Response::new(CompleteMultipartUploadOutput {
            bucket: Some(input.bucket),
            key: Some(input.key),
            e_tag: Some(ETag::Strong(tag)),
            ..CompleteMultipartUploadOutput::default()
        }))
    }

    async fn abort_multipart_upload(
        &self,
        request: S3Request<AbortMultipartUploadInput>,
    ) -> S3Result<S3Response<AbortMultipartUploadOutput>> {
        let input = request.input;
        self.objects.abort(&input.bucket, &input.key, &input.upload_id).map_err(refused)?;
        Ok(S3Response::with_status(AbortMultipartUploadOutput::default(), hyper::StatusCode::NO_CONTENT))
    }

    async fn list_parts(&self, request: S3Request<ListPartsInput>) -> S3Result<S3Response<ListPartsOutput>> {
        let input = request.input;
        if input.part_number_marker.is_some() || input.max_parts.is_some() {
            return Err(s3_error!(NotImplemented, "Pages of part lists are not emulated"));
        }
        let parts = self.objects.parts(&input.bucket, &input.key, &input.upload_id).map_err(refused)?;
        let parts = parts.into_iter().map(|(number, size, tag)| Part {
            part_number: Some(number),
            size: Some(size as i64),
            e_tag: Some(ETag::Strong(tag)),
            ..Part::default()
        });
        let parts = Some(parts.collect());
        Ok(S3Response::new(ListPartsOutput {
            bucket: Some(input.bucket),
            key: Some(input.key),
            upload_id: Some(input.upload_id),
            is_truncated: Some(false),
            parts,
            ..ListPartsOutput::default()
        }))
    }

    async fn head_bucket(
        &self,
        request: S3Request<HeadBucketInput>,
    ) -> S3Result<S3Response<HeadBucketOutput>> {
        self.objects.exists(&request.input.bucket).map_err(refused)?;
        Ok(S3Response::new(HeadBucketOutput {
            bucket_region: Some(self.region.clone()),
            ..HeadBucketOutput::default()
        }))
    }

    async fn list_buckets(
        &self,
        _request: S3Request<ListBucketsInput>,
    ) -> S3Result<S3Response<ListBucketsOutput>> {
        let buckets = self
            .objects
            .buckets()
            .into_iter()
            .map(|name| Bucket { name: Some(name), ..Bucket::default() })
            .collect();
        Ok(S3Response::new(ListBucketsOutput { buckets: Some(buckets), ..ListBucketsOutput::default() }))
    }
}

fn decode_token(token: &str) -> S3Result<String> {
    let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(token).ok();
    bytes
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .ok_or_else(|| s3_error!(InvalidArgument, "The continuation token provided is incorrect"))
}

fn url_encoded(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'*' | b'/') {
            out.push(char::from(byte));
        } else {
            out += &format!("%{byte:02X}");
        }
    }
    out
}

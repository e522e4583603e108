//! The Lambda API (version 2015-03-31): invocations, configurations of functions, account settings,
//! and error responses as in AWS.

use crate::invoke::{Lambda, Refused};
use crate::serve::{BodyError, Lost, collect, json, set_header};
use crate::settings::{ASYNCHRONOUS_PAYLOAD_BYTES, Function, is_function_name};
use crate::signature::{self, Scope};
use base64::Engine;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::{Method, Request, Response, StatusCode};
use serde_json::{Value, json as value};
use std::sync::Arc;

type Answer = Result<Response<Full<Bytes>>, Lost>;

/// Id of the AWS account to which all functions belong.
const ACCOUNT: &str = "000000000000";
/// Maximum size of a request body, in bytes, for requests other than invocations.
const SMALL_BODY_BYTES: usize = 64 * 1024;

/// Returns the Amazon Resource Name (ARN) of a function.
pub(crate) fn arn(region: &str, function: &str) -> String {
    format!("arn:aws:lambda:{region}:{ACCOUNT}:function:{function}")
}

/// Handles one request to the Lambda API.
pub(crate) async fn handle(lambda: Arc<Lambda>, request: Request<Incoming>) -> Answer {
    let id = lambda.request_id();
    let mut answer = route(&lambda, request, &id).await?;
    set_header(&mut answer, "x-amzn-requestid", &id);
    Ok(answer)
}

/// Type of an invocation, from the header `X-Amz-Invocation-Type`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    RequestResponse,
    Event,
    DryRun,
}

async fn route(lambda: &Arc<Lambda>, request: Request<Incoming>, id: &str) -> Answer {
    let (parts, body) = request.into_parts();
    let invocation = parts.uri.path().ends_with("/invocations") && parts.method == Method::POST;
    let limit = if invocation { lambda.settings.event_bytes } else { SMALL_BODY_BYTES };
    let body = match collect(body, limit, lambda.settings.body_timeout).await {
        Ok(body) => body,
        Err(BodyError::TooLarge) => return Ok(too_large(limit)),
        Err(BodyError::Slow) => {
            return Ok(error(
                StatusCode::REQUEST_TIMEOUT,
                "RequestTimeoutException",
                "The body arrived too slowly",
            ));
        }
        Err(BodyError::Broken) => {
            return Ok(error(
                StatusCode::BAD_REQUEST,
                "InvalidRequestContentException",
                "The body ended early",
            ));
        }
    };
    let settings = &lambda.settings;
    let scope = Scope {
        region: &settings.region,
        service: "lambda",
        access_key: &settings.access_key,
        secret_key: &settings.secret_key,
    };
    if let Err(wrong) = signature::check(&parts, &body, &scope) {
        return Ok(error(StatusCode::FORBIDDEN, wrong.code(), &wrong.to_string()));
    }
    let path: Vec<&str> = parts.uri.path().trim_matches('/').split('/').collect();
    match (&parts.method, path.as_slice()) {
        (&Method::POST, ["2015-03-31", "functions", name, "invocations"]) => match find(lambda, name, parts.uri.query()) {
            Ok(function) => invoke(lambda, &function, &parts.headers, body, id).await,
            Err(refusal) => Ok(*refusal),
        },
        (&Method::GET, ["2015-03-31", "functions", name]) => Ok(match find(lambda, name, parts.uri.query()) {
            Ok(function) => json(
                StatusCode::OK,
                value!({ "Configuration": configuration(lambda, &function), "Code": { "RepositoryType": "S3" }, "Tags": {} }).to_string(),
            ),
            Err(refusal) => *refusal,
        }),
        (&Method::GET, ["2015-03-31", "functions", name, "configuration"]) => Ok(match find(lambda, name, parts.uri.query()) {
            Ok(function) => json(StatusCode::OK, configuration(lambda, &function).to_string()),
            Err(refusal) => *refusal,
        }),
        (&Method::GET, ["2016-08-19", "account-settings"]) => Ok(json(StatusCode::OK, account(lambda).to_string())),
        _ => Ok(error(StatusCode::NOT_FOUND, "UnknownOperationException", "This call is not emulated")),
    }
}

/// Finds the function that the path of a request names. The path may contain the name, the name
/// with a version, or a full or partial ARN.
fn find(
    lambda: &Lambda,
    path: &str,
    query: Option<&str>,
) -> Result<Arc<Function>, Box<Response<Full<Bytes>>>> {
    let named = percent_decoded(path).ok_or_else(|| Box::new(bad_name(path)))?;
    let short = match named.rsplit_once("function:") {
        Some((_, short)) => short,
        None => &named,
    };
    let (name, version) = short.split_once(':').unwrap_or((short, "$LATEST"));
    if !is_function_name(name) {
        return Err(Box::new(bad_name(&named)));
    }
    let query = query
        .and_then(|query| query.split('&').find_map(|pair| pair.strip_prefix("Qualifier=")))
        .map(percent_decoded);
    let version = match query {
        Some(Some(qualifier)) => qualifier,
        Some(None) => return Err(Box::new(bad_name(&named))),
        None => version.to_owned(),
    };
    let found = lambda.functions.get(name).filter(|_| version == "$LATEST");
    found.cloned().ok_or_else(|| {
        let message = format!("Function not found: {}:{version}", arn(&lambda.settings.region, name));
        Box::new(error(StatusCode::NOT_FOUND, "ResourceNotFoundException", &message))
    })
}

async fn invoke(
    lambda: &Arc<Lambda>,
    function: &Arc<Function>,
    headers: &hyper::HeaderMap,
    body: Bytes,
    id: &str,
) -> Answer {
    let header = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let kind = match header("x-amz-invocation-type") {
        None | Some("RequestResponse") => Kind::RequestResponse,
        Some("Event") => Kind::Event,
        Some("DryRun") => Kind::DryRun,
        Some(_) => {
            return Ok(error(
                StatusCode::BAD_REQUEST,
                "InvalidParameterValueException",
                "InvocationType must be RequestResponse, Event or DryRun",
            ));
        }
    };
    let with_log = match header("x-amz-log-type") {
        None | Some("None") => false,
        Some("Tail") => kind == Kind::RequestResponse,
        Some(_) => {
            return Ok(error(
                StatusCode::BAD_REQUEST,
                "InvalidParameterValueException",
                "LogType must be None or Tail",
            ));
        }
    };
    if kind == Kind::Event && body.len() > ASYNCHRONOUS_PAYLOAD_BYTES {
        return Ok(too_large(ASYNCHRONOUS_PAYLOAD_BYTES));
    }
    let body = if body.is_empty() { Bytes::from_static(b"{}") } else { body };
    if let Err(reason) = serde_json::from_slice::<serde::de::IgnoredAny>(&body) {
        return Ok(error(
            StatusCode::BAD_REQUEST,
            "InvalidRequestContentException",
            &format!("Could not parse request body into json: {reason}"),
        ));
    }
    match kind {
        Kind::DryRun => Ok(empty(StatusCode::NO_CONTENT)),
        Kind::Event => Ok(if lambda.enqueue(function, body, id.to_owned()) {
            empty(StatusCode::ACCEPTED)
        } else {
            throttled()
        }),
        Kind::RequestResponse => match lambda.call(function, body, id.to_owned(), with_log).await {
            Ok(finished) if finished.lost => Err(Lost),
            Ok(finished) => {
                let mut answer = json(StatusCode::OK, finished.payload);
                set_header(&mut answer, "x-amz-executed-version", "$LATEST");
                set_header(&mut answer, "x-amzn-trace-id", &crate::runtime_api::trace_id(id));
                if finished.error {
                    set_header(&mut answer, "x-amz-function-error", "Unhandled");
                }
                if let Some(log) = finished.log {
                    set_header(
                        &mut answer,
                        "x-amz-log-result",
                        &base64::engine::general_purpose::STANDARD.encode(log),
                    );
                }
                Ok(answer)
            }
            Err(Refused::Throttled) => Ok(throttled()),
            Err(Refused::Service(reason)) => {
                Ok(error(StatusCode::INTERNAL_SERVER_ERROR, "ServiceException", &reason.to_string()))
            }
        },
    }
}

fn configuration(lambda: &Lambda, function: &Function) -> Value {
    value!({
        "FunctionName": function.name,
        "FunctionArn": arn(&lambda.settings.region, &function.name),
        "Runtime": "provided.al2023",
        "Handler": "bootstrap",
        "MemorySize": function.memory_mb,
        "Timeout": function.timeout.as_secs_f64().ceil() as u64,
        "Version": "$LATEST",
        "PackageType": "Zip",
        "Architectures": [if cfg!(target_arch = "aarch64") { "arm64" } else { "x86_64" }],
        "State": "Active",
        "LastUpdateStatus": "Successful",
        "Environment": { "Variables": function.environment },
    })
}

fn account(lambda: &Lambda) -> Value {
    value!({
        "AccountLimit": {
            "TotalCodeSize": 80_530_636_800_u64,
            "CodeSizeUnzipped": 262_144_000,
            "CodeSizeZipped": 52_428_800,
            "ConcurrentExecutions": lambda.settings.concurrency,
            "UnreservedConcurrentExecutions": lambda.settings.concurrency,
        },
        "AccountUsage": { "TotalCodeSize": 0, "FunctionCount": lambda.functions.len() },
    })
}

fn throttled() -> Response<Full<Bytes>> {
    let body = value!({ "Reason": "ConcurrentInvocationLimitExceeded", "Type": "User", "message": "Rate Exceeded." });
    let mut answer = json(StatusCode::TOO_MANY_REQUESTS, body.to_string());
    set_header(&mut answer, "x-amzn-errortype", "TooManyRequestsException");
    answer
}

fn too_large(limit: usize) -> Response<Full<Bytes>> {
    let message = format!("Request must be smaller than {limit} bytes for the InvokeFunction operation");
    error(StatusCode::PAYLOAD_TOO_LARGE, "RequestTooLargeException", &message)
}

fn bad_name(found: &str) -> Response<Full<Bytes>> {
    let shown: String = found.chars().take(200).collect();
    let message = format!(
        "1 validation error detected: Value '{shown}' at 'functionName' failed to satisfy constraint: a function's name or resource name"
    );
    error(StatusCode::BAD_REQUEST, "ValidationException", &message)
}

fn error(status: StatusCode, kind: &'static str, message: &str) -> Response<Full<Bytes>> {
    let mut answer = json(
        status,
        value!({ "Type": if status.is_server_error() { "Service" } else { "User" }, "Message": message })
            .to_string(),
    );
    set_header(&mut answer, "x-amzn-errortype", kind);
    answer
}

fn empty(status: StatusCode) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::default());
    *answer.status_mut() = status;
    answer
}

/// Decodes the `%xx` escapes in a path segment. Returns `None` if an escape is not valid.
pub(crate) fn percent_decoded(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
        let (high, low) = (digit(bytes.next())?, digit(bytes.next())?);
        out.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(out).ok()
}

//! The Runtime API of Lambda (version 2018-06-01), with which one worker process receives and
//! answers events.

use crate::instance::{Instance, Outcome, Settle};
use crate::serve::{BodyError, Lost, collect, json, set_header};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::{Method, Request, Response, StatusCode};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Maximum size of a worker's error report, in bytes.
const REPORT_BYTES: usize = 256 * 1024;

/// Runtime API of one instance, with which its worker receives and answers events.
#[derive(Clone, Debug)]
pub(crate) struct RuntimeApi {
    /// The instance, which is set once its process exists. The listener is opened before.
    pub(crate) instance: Arc<OnceLock<Arc<Instance>>>,
    pub(crate) arn: Arc<str>,
    pub(crate) answer_bytes: usize,
    pub(crate) pace: Duration,
}

impl RuntimeApi {
    pub(crate) async fn handle(self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Lost> {
        let Some(instance) = self.instance.get().cloned() else {
            return Ok(refuse(
                StatusCode::SERVICE_UNAVAILABLE,
                "NotReady",
                "the process is not registered yet",
            ));
        };
        let path = request.uri().path().to_owned();
        let Some(path) = path.strip_prefix("/2018-06-01/runtime/") else { return Ok(not_found()) };
        let parts: Vec<&str> = path.split('/').collect();
        Ok(match (request.method(), parts.as_slice()) {
            (&Method::GET, ["invocation", "next"]) => self.next(&instance).await,
            (&Method::POST, ["invocation", id, "response"]) => self.response(&instance, id, request).await,
            (&Method::POST, ["invocation", id, "error"]) => self.error(&instance, id, request).await,
            (&Method::POST, ["init", "error"]) => self.init_error(&instance, request).await,
            _ => not_found(),
        })
    }

    async fn next(&self, instance: &Instance) -> Response<Full<Bytes>> {
        let Some((id, payload, deadline_ms)) = instance.next().await else {
            return refuse(
                StatusCode::FORBIDDEN,
                "InvalidStateTransition",
                "the previous invocation has no answer yet",
            );
        };
        let mut response = json(StatusCode::OK, payload);
        set_header(&mut response, "lambda-runtime-aws-request-id", &id);
        set_header(&mut response, "lambda-runtime-deadline-ms", &deadline_ms.to_string());
        set_header(&mut response, "lambda-runtime-invoked-function-arn", &self.arn);
        set_header(&mut response, "lambda-runtime-trace-id", &trace_id(&id));
        response
    }

    async fn response(
        &self,
        instance: &Instance,
        id: &str,
        request: Request<Incoming>,
    ) -> Response<Full<Bytes>> {
        if let Some(refusal) = refusal(&instance.expects(id)) {
            return refusal;
        }
        match collect(request.into_body(), self.answer_bytes, self.pace).await {
            Ok(answer) => settled(&instance.settle(id, Outcome::Answered(answer))),
            Err(BodyError::TooLarge) => {
                instance.settle(id, Outcome::TooLarge);
                let message = format!("Exceeded maximum allowed payload size ({} bytes).", self.answer_bytes);
                refuse(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", &message)
            }
            Err(error) => unread(&error),
        }
    }

    async fn error(
        &self,
        instance: &Instance,
        id: &str,
        request: Request<Incoming>,
    ) -> Response<Full<Bytes>> {
        if let Some(refusal) = refusal(&instance.expects(id)) {
            return refusal;
        }
        match collect(request.into_body(), REPORT_BYTES, self.pace).await {
            Ok(report) => settled(&instance.settle(id, Outcome::Failed(report))),
            Err(error) => unread(&error),
        }
    }

    async fn init_error(&self, instance: &Instance, request: Request<Incoming>) -> Response<Full<Bytes>> {
        match collect(request.into_body(), REPORT_BYTES, self.pace).await {
            Ok(report) => {
                if instance.init_failed(report) {
                    accepted()
                } else {
                    refuse(
                        StatusCode::FORBIDDEN,
                        "InvalidStateTransition",
                        "the initialisation is over, because the process has requested an invocation",
                    )
                }
            }
            Err(error) => unread(&error),
        }
    }
}

/// Returns the trace id of a request in the X-Ray format, for instance
/// `Root=1-5759e988-bd862e3fe1be46a994272793;Sampled=0`.
pub(crate) fn trace_id(request_id: &str) -> String {
    let hex: String = request_id.chars().filter(char::is_ascii_hexdigit).collect();
    let (time, rest) = hex.split_at_checked(8).unwrap_or(("00000000", ""));
    format!("Root=1-{time}-{rest:0<24};Sampled=0")
}

fn accepted() -> Response<Full<Bytes>> {
    json(StatusCode::ACCEPTED, r#"{"status":"OK"}"#)
}

fn settled(settle: &Settle) -> Response<Full<Bytes>> {
    refusal(settle).unwrap_or_else(accepted)
}

fn refusal(settle: &Settle) -> Option<Response<Full<Bytes>>> {
    match settle {
        Settle::Accepted => None,
        Settle::Late => Some(refuse(
            StatusCode::FORBIDDEN,
            "InvalidStateTransition",
            "this invocation has an answer already, or has timed out",
        )),
        Settle::Unknown => {
            Some(refuse(StatusCode::BAD_REQUEST, "InvalidRequestID", "this is not the current invocation"))
        }
    }
}

fn unread(error: &BodyError) -> Response<Full<Bytes>> {
    match error {
        BodyError::TooLarge => {
            refuse(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", "the report is too large")
        }
        BodyError::Slow => {
            refuse(StatusCode::REQUEST_TIMEOUT, "RequestTimeout", "the body arrived too slowly")
        }
        BodyError::Broken => refuse(StatusCode::BAD_REQUEST, "BadRequest", "the body ended early"),
    }
}

fn not_found() -> Response<Full<Bytes>> {
    refuse(StatusCode::NOT_FOUND, "NotFound", "this is not a call of the Runtime API 2018-06-01")
}

fn refuse(status: StatusCode, kind: &str, message: &str) -> Response<Full<Bytes>> {
    json(status, serde_json::json!({ "errorType": kind, "errorMessage": message }).to_string())
}

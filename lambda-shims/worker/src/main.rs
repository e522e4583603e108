//! Program `bootstrap` of the functions that compute tasks. It runs a worker behind the Runtime API
//! of Lambda.
//!
//! A process handles one invocation at a time, on two threads. The main thread communicates with
//! the Runtime API and the object store, and the other thread computes. The worker gets the
//! original bytes of the event, and the service gets the original bytes of the answer. The runtime
//! crate does not convert them to JSON values.

use std::future::Future;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use eciton_worker::{Settings, Worker};
use lambda_runtime::tower::Layer;
use lambda_runtime::{Diagnostic, LambdaEvent, LambdaInvocation, Runtime, Service, service_fn};
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

fn main() -> ExitCode {
    let begun = Instant::now();
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let ended = match tokio {
        Ok(tokio) => tokio.block_on(serve(begun)),
        Err(e) => Err(e.into()),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            // The error is visible only in the log of the function.
            eprintln!("eciton-worker: {e}");
            ExitCode::FAILURE
        }
    }
}

/// Answers invocations until the Runtime API closes the connection. `begun` is the start time of
/// the process.
async fn serve(begun: Instant) -> Result<(), lambda_runtime::Error> {
    if std::env::var_os("AWS_LAMBDA_RUNTIME_API").is_none() {
        return Err("AWS_LAMBDA_RUNTIME_API is not set: this program can only run as the bootstrap of a Lambda function".into());
    }
    let worker = Settings::from_env().and_then(|settings| Worker::new(Settings { begun, ..settings }));
    // A function with a wrong configuration returns the error to each caller.
    let desk = Desk {
        worker: worker.map_err(|e| diagnostic(&e)),
        event: Mutex::default(),
        answered: Mutex::default(),
    };
    let desk = Arc::new(desk);
    let own = desk.clone();
    let handler = service_fn(move |_: LambdaEvent<IgnoredAny>| {
        let desk = own.clone();
        async move { desk.answer().await }
    });
    Runtime::new(handler).layer(Bypass(desk)).run().await
}

fn diagnostic(error: &eciton_worker::Error) -> Diagnostic {
    Diagnostic { error_type: error.name().to_owned(), error_message: error.to_string() }
}

/// The worker, the current event, and the time at which the answer to it was complete.
struct Desk {
    worker: Result<Worker, Diagnostic>,
    event: Mutex<Bytes>,
    answered: Mutex<Option<Instant>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The value is a single field and is valid even after a panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Desk {
    async fn answer(&self) -> Result<Box<RawValue>, Diagnostic> {
        let worker = self.worker.as_ref().map_err(Clone::clone)?;
        let event = std::mem::take(&mut *lock(&self.event));
        let answer = worker.handle(&event).await;
        drop(event);
        let answer = answer.map_err(|e| diagnostic(&e))?;
        let no_json = |e: &dyn std::error::Error| Diagnostic {
            error_type: "Worker.Answer".to_owned(),
            error_message: format!("the answer is not JSON, which is a bug of the worker: {e}"),
        };
        let text = String::from_utf8(answer).map_err(|e| no_json(&e))?;
        let answer = RawValue::from_string(text).map_err(|e| no_json(&e))?;
        *lock(&self.answered) = Some(Instant::now());
        Ok(answer)
    }
}

/// Tower layer that passes the bytes of an event directly to the worker, because the runtime crate
/// would parse and copy them. It also measures the time to send an answer.
struct Bypass(Arc<Desk>);

impl<S> Layer<S> for Bypass {
    type Service = Bypassed<S>;

    fn layer(&self, inner: S) -> Bypassed<S> {
        Bypassed { inner, desk: self.0.clone() }
    }
}

struct Bypassed<S> {
    inner: S,
    desk: Arc<Desk>,
}

impl<S> Service<LambdaInvocation> for Bypassed<S>
where
    S: Service<LambdaInvocation, Response = (), Error = lambda_runtime::Error>,
    S::Future: 'static,
{
    type Response = ();
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<(), S::Error>>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut invocation: LambdaInvocation) -> Self::Future {
        let desk = self.desk.clone();
        *lock(&desk.event) = std::mem::replace(&mut invocation.body, Bytes::from_static(b"null"));
        *lock(&desk.answered) = None;
        let inner = self.inner.call(invocation);
        Box::pin(async move {
            let sent = inner.await;
            if let (Ok(worker), Some(answered)) = (&desk.worker, lock(&desk.answered).take()) {
                worker.sent(answered.elapsed());
            }
            sent
        })
    }
}

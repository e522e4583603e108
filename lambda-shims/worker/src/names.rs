//! Objects that an invocation may access: its own task and answer, and the shared objects of its
//! own run. So a frame that is replayed under the keys of another task or run is refused.

use eciton_kernel::wire::{Object, Request};
use eciton_transport::Key;
use eciton_transport::keys::{Name, parse};

use crate::error::{Error, Result};

fn refuse(key: impl std::fmt::Display, reason: String) -> Error {
    Error::Key { key: key.to_string(), reason }
}

/// Returns the run that a request belongs to. The text after a `/` is up to the caller.
fn run(request: &Request) -> &str {
    request.run.split('/').next().unwrap_or_default()
}

/// Checks, before anything is read, that the key is one of a task's frame.
pub(crate) fn check_task(key: &Key) -> Result<()> {
    match parse(key) {
        Some(Name::Task { .. }) => Ok(()),
        _ => Err(refuse(key, "frames are read from the names of tasks only".to_owned())),
    }
}

/// Checks that the keys of frame and answer belong to the request's own task.
pub(crate) fn check(request: &Request, frame: Option<&Key>, answer: Option<&Key>) -> Result<()> {
    let mut passes = Vec::with_capacity(2);
    if let Some(at) = frame {
        match parse(at) {
            Some(Name::Task { run: of, pass, key }) if of == run(request) && key == request.key => {
                passes.push(pass)
            }
            _ => {
                return Err(refuse(
                    at,
                    format!("the frame belongs to run `{}`, {}", run(request), request.key),
                ));
            }
        }
    }
    if let Some(at) = answer {
        match parse(at) {
            Some(Name::Answer { run: of, pass, step })
                if of == run(request) && step == request.key.step() =>
            {
                passes.push(pass);
            }
            _ => {
                return Err(refuse(
                    at,
                    format!("the answer belongs to run `{}`, {}", run(request), request.key.step()),
                ));
            }
        }
    }
    match (passes.as_slice(), answer) {
        ([one, other], Some(at)) if one != other => {
            Err(refuse(at, "the frame is of another pass".to_owned()))
        }
        _ => Ok(()),
    }
}

/// Returns the keys of the shared objects that a request refers to, which must belong to its own
/// run.
pub(crate) fn objects(request: &Request) -> Result<Vec<Key>> {
    let checked = |object: &Object| {
        let text = object.stored().map_err(Error::Request)?;
        let key = Key::new(text).map_err(|e| refuse(text, e.to_string()))?;
        match parse(&key) {
            Some(Name::Weights { run: of, .. } | Name::Features { run: of, .. }) if of == run(request) => {
                Ok(key)
            }
            _ => Err(refuse(&key, format!("it is not a shared object of run `{}`", run(request)))),
        }
    };
    request.objects.iter().map(checked).collect()
}

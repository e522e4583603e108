//! Checks of the object keys that an invocation may access. They are those of its own task and
//! answer, and of the shared objects of its run. A frame that is replayed under the key of another
//! task or run is therefore refused.

use eciton_kernel::wire::{Object, Request};
use eciton_transport::Key;
use eciton_transport::keys::{Name, parse};

use crate::error::{Error, Result};

fn refuse(key: impl std::fmt::Display, reason: String) -> Error {
    Error::Key { key: key.to_string(), reason }
}

/// Returns the name of the run to which a request belongs. The text after a `/` in the request's
/// field is ignored.
fn run(request: &Request) -> &str {
    request.run.split('/').next().unwrap_or_default()
}

/// Checks that `key` is the key of a task's frame. This is checked before the frame is read.
pub(crate) fn check_task(key: &Key) -> Result<()> {
    match parse(key) {
        Some(Name::Task { .. }) => Ok(()),
        _ => Err(refuse(key, "only an object with the name of a task can contain a frame".to_owned())),
    }
}

/// Checks that the keys of the frame and of the answer belong to the task of the request.
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
                    format!("it is not a frame of run `{}`, {}", run(request), request.key),
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
                    format!("it is not an answer of run `{}`, {}", run(request), request.key.step()),
                ));
            }
        }
    }
    match (passes.as_slice(), answer) {
        ([one, other], Some(at)) if one != other => {
            Err(refuse(at, "the frame belongs to another pass".to_owned()))
        }
        _ => Ok(()),
    }
}

/// Returns the keys of the shared objects that a request refers to. Returns an error if one does
/// not belong to the run of the request.
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

//! Which objects an invocation may touch: its own task's and answer's, and its own run's constants.
//! So a frame that is replayed under another task's names, or another run's, is refused.

use eciton_kernel::wire::{Object, Request};
use eciton_transport::Key;
use eciton_transport::keys::{Name, parse};

use crate::error::{Error, Result};

fn refuse(key: impl std::fmt::Display, reason: String) -> Error {
    Error::Key { key: key.to_string(), reason }
}

/// The run that a request belongs to; what may follow a `/` is the caller's.
fn run(request: &Request) -> &str {
    request.run.split('/').next().unwrap_or_default()
}

/// Before anything is read: whether the key is one of a task's frame.
pub(crate) fn check_task(key: &Key) -> Result<()> {
    match parse(key) {
        Some(Name::Task { .. }) => Ok(()),
        _ => Err(refuse(key, "frames are read from the names of tasks only".to_owned())),
    }
}

/// Whether the keys of frame and answer are those of the request's own task.
pub(crate) fn check(request: &Request, frame: Option<&Key>, answer: Option<&Key>) -> Result<()> {
    let mut passes = Vec::with_capacity(2);
    if let Some(at) = frame {
        match parse(at) {
            Some(Name::Task { run: of, pass, key }) if of == run(request) && key == request.key => {
                passes.push(pass)
            }
            _ => return Err(refuse(at, format!("the frame is of run `{}`, {}", run(request), request.key))),
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
                    format!("the answer is of run `{}`, {}", run(request), request.key.step()),
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

/// The constant objects that a request names, of its own run.
pub(crate) fn objects(request: &Request) -> Result<Vec<Key>> {
    let checked = |object: &Object| {
        let text = object.stored().map_err(Error::Request)?;
        let key = Key::new(text).map_err(|e| refuse(text, e.to_string()))?;
        match parse(&key) {
            Some(Name::Weights { run: of, .. } | Name::Features { run: of, .. }) if of == run(request) => {
                Ok(key)
            }
            _ => Err(refuse(&key, format!("it is no constant of run `{}`", run(request)))),
        }
    };
    request.objects.iter().map(checked).collect()
}

//! Execution of tasks from frames, the binary messages that cloud functions also receive. Results
//! have the same bits as on a function, including the rounding of rows. The answer is a separate
//! message ([`crate::Answered::Apart`]), which the engine writes to its destinations later.

use std::sync::Arc;
use std::time::Instant;

use eciton_kernel::wire::{Answer, AnswerMeta, Decoded, OutputBuffers, Request, Source, encode};
use eciton_kernel::{Call, Error, Instances, Layer, Limits};
use eciton_tensor::frame::{Encoding, Frame};
use eciton_types::TaskKey;

use crate::job::Order;

/// Settings for writing a task as a frame (a binary message) that contains all its tensors.
#[derive(Debug, Clone)]
pub struct Framing {
    /// Storage format of the rows in the frame, for instance `f32`.
    pub rows: Encoding,
    /// Limits on the memory and time of a task.
    pub limits: Limits,
}

/// A task in the form of a frame (a binary message). It holds no leases (rights to use rows of a
/// buffer).
#[derive(Debug)]
pub(crate) struct Framed {
    pub(crate) pass: u32,
    pub(crate) key: TaskKey,
    layers: Vec<Arc<Layer>>,
    frame: Vec<u8>,
}

impl Framing {
    /// Writes the task of `order` as a frame.
    pub(crate) fn write(&self, order: &Order) -> Result<Framed, Error> {
        self.write_call(order, &order.work.call)
    }

    /// Writes the task of `order` as a frame, but with `call` instead of the order's own call. Both
    /// calls must have the same results.
    pub(crate) fn write_call(&self, order: &Order, call: &Call) -> Result<Framed, Error> {
        let (pass, key) = (order.pass, order.task.key());
        let frame = encode("", key, call, self.rows, &self.limits, Vec::new(), &[])?;
        Ok(Framed { pass, key, layers: call.layers().cloned().collect(), frame })
    }
}

impl Framed {
    /// Creates a task with an empty frame, which cannot be run.
    #[cfg(test)]
    pub(crate) fn empty(pass: u32, key: TaskKey) -> Self {
        Self { pass, key, layers: Vec::new(), frame: Vec::new() }
    }

    /// Runs the task from its frame, and returns its answer.
    pub(crate) fn run(&self, instances: &mut Instances) -> Result<Answer, Error> {
        let frame = parse(&self.frame)?;
        let request = Request::parse(&frame.header().meta)?;
        let answer = Answer::parse(run(request, &frame, &[], &self.layers, instances)?)?;
        match answer.meta().error() {
            Some(error) => Err(error),
            None => Ok(answer),
        }
    }
}

/// Parses the frame of a request, or of an object that a request refers to.
///
/// # Errors
/// Returns [`Error::Tensor`] if the frame is damaged.
pub fn parse(bytes: &[u8]) -> Result<Frame<'_>, Error> {
    Frame::parse(bytes).map_err(tensor_error)
}

/// Converts an error in a request's frame to an error of the kernel call.
#[must_use]
pub fn tensor_error(source: eciton_tensor::Error) -> Error {
    Error::Tensor { place: "the frame of a request".to_owned(), source }
}

/// Runs a request, and returns the frame of its answer. If a kernel fails, the answer contains the
/// error. `own` is the frame of the request, `others` are the frames of its objects, and `layers`
/// are those of its calls.
pub(crate) fn run(
    request: Request,
    own: &Frame<'_>,
    others: &[Frame<'_>],
    layers: &[Arc<Layer>],
    instances: &mut Instances,
) -> Result<Vec<u8>, Error> {
    let (encoding, digests) = (request.encoding, request.digests);
    let (meta, mut places) = compute(request, layers, instances, &mut |&Source { object, part }| {
        let frame = match object {
            None => own,
            Some(at) => others.get(at as usize).unwrap_or(own),
        };
        frame.part(part).map_err(tensor_error)
    })?;
    if digests {
        // A worker would store these rows. Here, only the digests of the rows are requested.
        places.take_held();
        places.take_rows_to_store()?;
    }
    places.encode(&meta, encoding)
}

/// Runs the kernel calls of `request` on `layers`. Calls `resolve` for each tensor that the request
/// reads.
///
/// # Errors
/// Returns an [`Error`] if the request does not fit the layers, or if `resolve` fails. If a kernel
/// fails, the error is part of the answer instead.
pub fn compute(
    request: Request,
    layers: &[Arc<Layer>],
    instances: &mut Instances,
    resolve: &mut dyn FnMut(&Source) -> Result<Decoded, Error>,
) -> Result<(AnswerMeta, OutputBuffers), Error> {
    let begun = Instant::now();
    let key = request.key;
    let (call, places) = request.into_call(layers, resolve)?;
    let result = instances.run(call);
    let mut meta = AnswerMeta::new(key, &result);
    meta.times.compute_us = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
    if result.is_ok() {
        meta.left = places.digests()?;
    }
    Ok((meta, places))
}

//! Tasks that are done in this process through their frames: the same bits as on functions, rounded
//! rows included, and answers that wait beside ([`crate::Answered::Apart`]).

use std::sync::Arc;
use std::time::Instant;

use eciton_kernel::wire::{Answer, AnswerMeta, Decoded, Places, Request, Source, encode};
use eciton_kernel::{Call, Error, Instances, Layer, Limits};
use eciton_tensor::frame::{Encoding, Frame};
use eciton_types::TaskKey;

use crate::job::Order;

/// Settings with which an order is written as a frame that contains all its tensors.
#[derive(Debug, Clone)]
pub struct Framing {
    /// Storage format of rows.
    pub rows: Encoding,
    /// Limits of a task.
    pub limits: Limits,
}

/// A task written down; whatever it borrowed is given back.
#[derive(Debug)]
pub(crate) struct Framed {
    pub(crate) pass: u32,
    pub(crate) key: TaskKey,
    layers: Vec<Arc<Layer>>,
    frame: Vec<u8>,
}

impl Framing {
    /// Writes an order.
    pub(crate) fn write(&self, order: &Order) -> Result<Framed, Error> {
        self.write_call(order, &order.work.call)
    }

    /// Writes an order with a call that does the same.
    pub(crate) fn write_call(&self, order: &Order, call: &Call) -> Result<Framed, Error> {
        let (pass, key) = (order.pass, order.task.key());
        let frame = encode("", key, call, self.rows, &self.limits, Vec::new(), &[])?;
        Ok(Framed { pass, key, layers: call.layers().cloned().collect(), frame })
    }
}

impl Framed {
    /// A task that cannot be done.
    #[cfg(test)]
    pub(crate) fn empty(pass: u32, key: TaskKey) -> Self {
        Self { pass, key, layers: Vec::new(), frame: Vec::new() }
    }

    /// Does it.
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

/// Parses the frame of a request, or one that the request names.
///
/// # Errors
/// A frame that is damaged.
pub fn parse(bytes: &[u8]) -> Result<Frame<'_>, Error> {
    Frame::parse(bytes).map_err(tensor_error)
}

/// Wraps an error in a frame as an error of a kernel's call.
#[must_use]
pub fn tensor_error(source: eciton_tensor::Error) -> Error {
    Error::Tensor { place: "a request's frame".to_owned(), source }
}

/// Runs a request on its calls' layers: the answer's frame, also of a call that fails. `own` is the
/// request's frame, `others` those that it names.
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
        // What would stay with a worker: of rows, digests are all that is asked for here.
        places.take_held();
        places.take_kept()?;
    }
    places.encode(&meta, encoding)
}

/// Runs a request on its calls' layers. `resolve` finds its tensors.
///
/// # Errors
/// A request that does not fit its layers, or a tensor that `resolve` does not find. The error of
/// the run itself is part of the answer.
pub fn compute(
    request: Request,
    layers: &[Arc<Layer>],
    instances: &mut Instances,
    resolve: &mut dyn FnMut(&Source) -> Result<Decoded, Error>,
) -> Result<(AnswerMeta, Places), Error> {
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

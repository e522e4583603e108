//! Execution of one task on the compute thread, from decoding its tensors to running its kernels.

use std::sync::Arc;
use std::time::{Duration, Instant};

use eciton_kernel::wire::{OutputBuffers, Request, Source};
use eciton_kernel::{Finished, Kernel};
use eciton_transport::Key;

use crate::error::{Error, Result};
use crate::incoming::Incoming;
use crate::objects::{Object, Wanted};
use crate::warm::Warm;

/// Everything that is necessary to run a task. Some input rows may still be arriving.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) warm: Arc<Warm>,
    /// Kernels of the calls, in the order of the calls.
    pub(crate) kernels: Vec<Arc<Kernel>>,
    pub(crate) request: Request,
    pub(crate) frame: Incoming,
    pub(crate) objects: Vec<Wanted>,
}

/// Result of a task. An error of a kernel is a result.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) result: std::result::Result<Finished, eciton_kernel::Error>,
    /// Output buffers. `None` if the task failed before they were allocated.
    pub(crate) places: Option<OutputBuffers>,
    /// Time in the kernel, including waits for rows.
    pub(crate) computed: Duration,
    /// Decoded objects that are to be added to the cache.
    pub(crate) fresh: Vec<(Key, Arc<Object>)>,
}

impl Task {
    /// Runs the task, and returns its result.
    ///
    /// # Errors
    /// Returns an [`Error`] for a failure that no kernel caused. A failure of a kernel is part of
    /// the result.
    pub(crate) fn run(self) -> Result<Ended> {
        let Self { warm, kernels, request, frame, objects } = self;
        let mut fresh = Vec::new();
        let mut decoded = Vec::with_capacity(objects.len());
        for wanted in objects {
            decoded.push(match wanted {
                Wanted::Kept(object) => object,
                Wanted::Fetched(key, frame) => {
                    let object = Arc::new(Object::decode(&frame)?);
                    fresh.push((key, object.clone()));
                    object
                }
            });
        }
        let mut calls = request.calls();
        let only = calls.next().filter(|_| calls.next().is_none()).map(|call| call.kernel.name.clone());
        drop(calls);
        let begun = Instant::now();
        let mut layers = Vec::with_capacity(kernels.len());
        for (call, kernel) in request.calls().zip(&kernels) {
            match warm.layer(kernel, &call.inputs_extents, &call.attributes) {
                Ok(layer) => {
                    call.fits(&layer).map_err(Error::Request)?;
                    layers.push(layer);
                }
                Err(e) => {
                    return Ok(Ended {
                        result: Err(blame(e, Some(&call.kernel.name))?),
                        places: None,
                        computed: begun.elapsed(),
                        fresh,
                    });
                }
            }
        }
        let opened = begun.elapsed();
        // Errors of frames belong to the worker. The kernel host passes them on only as texts, so
        // they are recorded here.
        let mut broken = None;
        let resolved = request.into_call(&layers, &mut |source: &Source| {
            let part = match source.object.map(|o| decoded.get(o as usize)) {
                None => frame.part(source.part),
                Some(object) => object.and_then(|o| o.part(source.part)).ok_or_else(|| missing(source)),
            };
            part.map_err(|e| {
                let reason = e.to_string();
                broken = Some(e);
                eciton_kernel::Error::Wire { place: source.to_string(), reason }
            })
        });
        let (call, places) = resolved.map_err(|e| broken.take().unwrap_or(Error::Request(e)))?;
        // Decoded tensors are copies. The bytes of a large frame are freed before the kernel
        // allocates its memory.
        drop((frame, decoded));
        let begun = Instant::now();
        let result = warm.run(call);
        let computed = opened + begun.elapsed();
        let result = match result {
            Ok(finished) => Ok(finished),
            // If there are several kernels, errors use the names under which they were loaded.
            Err(e) => Err(blame(e, only.as_deref())?),
        };
        Ok(Ended { result, places: Some(places), computed, fresh })
    }
}

/// Returns an error of a kernel, which is part of the answer, and fails with any other error.
/// `name` replaces the name of the kernel in the error, because the kernel may have been loaded
/// under another name.
fn blame(mut error: eciton_kernel::Error, name: Option<&str>) -> Result<eciton_kernel::Error> {
    use eciton_kernel::Error as E;
    match &mut error {
        E::Guest { kernel, .. } | E::Trap { kernel, .. } | E::Promise { kernel, .. } => {
            if let Some(name) = name {
                name.clone_into(kernel);
            }
            Ok(error)
        }
        _ => Err(Error::Host(error)),
    }
}

fn missing(source: &Source) -> Error {
    let source = eciton_kernel::Error::Wire {
        place: source.to_string(),
        reason: "the request does not list this object, or the object has no such part".to_owned(),
    };
    Error::Request(source)
}

//! One task on the compute thread: tensors from bytes, the layer, the kernel.

use std::sync::Arc;
use std::time::{Duration, Instant};

use eciton_kernel::wire::{Places, Request, Source};
use eciton_kernel::{Finished, Kernel};
use eciton_transport::Key;

use crate::error::{Error, Result};
use crate::incoming::Incoming;
use crate::objects::{Object, Wanted};
use crate::warm::Warm;

/// Everything that a task needs; some of it may still be arriving.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) warm: Arc<Warm>,
    /// Of its calls, in order.
    pub(crate) kernels: Vec<Arc<Kernel>>,
    pub(crate) request: Request,
    pub(crate) frame: Incoming,
    pub(crate) objects: Vec<Wanted>,
}

/// A task that came to an end, its kernel's error included.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) result: std::result::Result<Finished, eciton_kernel::Error>,
    /// None: it failed before there were any.
    pub(crate) places: Option<Places>,
    /// In the kernel, waits for rows included.
    pub(crate) computed: Duration,
    /// Objects to keep.
    pub(crate) fresh: Vec<(Key, Arc<Object>)>,
}

impl Task {
    /// Runs it.
    ///
    /// # Errors
    /// Whatever is not the kernel's doing.
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
        // Errors of frames are the worker's own; they pass through the kernel host's as texts.
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
        // What was decoded is copied: a large frame's bytes go before the kernel takes its memory.
        drop((frame, decoded));
        let begun = Instant::now();
        let result = warm.run(call);
        let computed = opened + begun.elapsed();
        let result = match result {
            Ok(finished) => Ok(finished),
            // Several kernels go by the names that they were loaded under.
            Err(e) => Err(blame(e, only.as_deref())?),
        };
        Ok(Ended { result, places: Some(places), computed, fresh })
    }
}

/// The kernel's own errors are answers; the others are the worker's. The kernel is called by the name
/// that the request gives it: the same one may have been loaded under another.
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
        reason: "the request names no such object, or the object has no such part".to_owned(),
    };
    Error::Request(source)
}

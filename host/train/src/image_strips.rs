//! Predictions in which each image is split into strips, and the model that computes the strips.

use std::ops::Range;

use eciton_program::Program;
use eciton_program::receptive::{self, Splittable, Strips, Workers};
use eciton_recipe::{Model, ModelSettings};
use eciton_runs::run_folder::NamedTensor;

use crate::error::Result;
use crate::parameter_shapes::parameter_shapes;

/// Floating-point operations per second of a matrix product on one thread, from
/// `docs/research/deep-network-speed.md`.
const THREAD_FLOPS_PER_S: f64 = 7e10;
/// Bytes per second that one thread copies.
const COPY_BYTES_PER_S: f64 = 5e9;
/// Seconds per block of layers for the additional tasks of a split.
const EXCHANGE_S: f64 = 5e-5;
/// Bytes per second if rows are sent to another process and back. `MESSAGE_S` is the time per task
/// in seconds.
const MESSAGE_BYTES_PER_S: f64 = 5e8;
const MESSAGE_S: f64 = 3e-4;

/// Split of each image into strips that are computed in parallel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    /// Number of strips per image.
    pub strips: u32,
    /// Range of layers (from 0) of each block. Between blocks, strips exchange halos: the rows at
    /// their borders that the next block needs.
    pub blocks: Vec<Range<usize>>,
    /// Bytes of halos that the strips of one image exchange.
    pub halo_bytes: u64,
}

/// Model that computes images in strips, and replaces a model of whole images.
#[derive(Debug)]
pub(crate) struct Stripped {
    strips: Strips,
    split: Split,
}

impl Stripped {
    /// Finds the fastest division of a model into blocks that are computed in strips. The strips
    /// run on threads, or in separate processes if `apart` is set. Each task processes `images`
    /// images.
    pub(crate) fn new(
        settings: &ModelSettings,
        model: &Model,
        (strips, images, apart): (u32, u32, bool),
    ) -> Result<Self> {
        let splittable = Splittable::from_model(model)?;
        let count = strips as usize;
        let (bytes_per_s, exchange_s) = match apart {
            true => (MESSAGE_BYTES_PER_S, MESSAGE_S),
            false => (COPY_BYTES_PER_S, EXCHANGE_S),
        };
        let threads = Workers {
            latency_s: exchange_s / f64::from(images.max(1)),
            share_image: !apart,
            ..Workers::alike(count, THREAD_FLOPS_PER_S, bytes_per_s)
        };
        let cut = receptive::fuse(&splittable.chain, &threads);
        let made = Strips::new(settings, model, (&splittable, &threads), &cut.blocks)?;
        let from = splittable.layers.start;
        let blocks = cut.blocks.iter().map(|block| from + block.start..from + block.end).collect();
        let split = Split { strips, blocks, halo_bytes: made.halo_bytes };
        Ok(Self { strips: made, split })
    }

    /// Returns the settings of the model that computes strips.
    pub(crate) fn settings(&self) -> &ModelSettings {
        &self.strips.settings
    }

    /// Returns the split of images into strips.
    pub(crate) fn split(&self) -> &Split {
        &self.split
    }

    /// Renames the parameters `whole` of the original model to the names in the model of strips.
    /// Parameters that the latter does not have keep their names.
    pub(crate) fn weights(&self, program: &Program, whole: &[NamedTensor]) -> Vec<NamedTensor> {
        let mut taken = vec![false; whole.len()];
        let mut found = Vec::new();
        for (name, _) in parameter_shapes(program) {
            let original = self.strips.original(&name);
            for (at, tensor) in whole.iter().enumerate().filter(|(_, t)| Some(&t.name) == original.as_ref()) {
                taken[at] = true;
                found.push(NamedTensor { name: name.clone(), ..tensor.clone() });
            }
        }
        found.extend(whole.iter().zip(taken).filter(|(_, taken)| !taken).map(|(tensor, _)| tensor.clone()));
        found
    }
}

//! Predictions with images that are split into strips, and the model that computes strips.

use std::ops::Range;

use eciton_program::Program;
use eciton_program::receptive::{self, Splittable, Strips, Workers};
use eciton_recipe::{Model, ModelSettings};
use eciton_runs::run_folder::NamedTensor;

use crate::error::Result;
use crate::parameter_shapes::parameter_shapes;

/// Assumed speed of a matrix product on one thread, in floating-point operations per second.
/// Measured in `docs/research/deep-network-speed.md`.
const THREAD_FLOPS_PER_S: f64 = 7e10;
/// Assumed speed at which one thread copies memory, in bytes per second.
const COPY_BYTES_PER_S: f64 = 5e9;
/// Assumed seconds for the additional tasks of a block of layers that is computed in strips.
const EXCHANGE_S: f64 = 5e-5;
/// Assumed bandwidth for sending rows to another process and back, in bytes per second. `MESSAGE_S`
/// is the time in seconds that each message takes in addition.
const MESSAGE_BYTES_PER_S: f64 = 5e8;
const MESSAGE_S: f64 = 3e-4;

/// Description of how images are split into strips that are computed in parallel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    /// Number of strips per image.
    pub strips: u32,
    /// Layers of each block, as a range of layer indices from 0. Before each block, strips exchange
    /// halos, which are the rows at their borders that the block needs.
    pub blocks: Vec<Range<usize>>,
    /// Total size of the halos that the strips of one image exchange, in bytes.
    pub halo_bytes: u64,
}

/// A model that computes images in strips, in place of a model that computes whole images.
#[derive(Debug)]
pub(crate) struct Stripped {
    strips: Strips,
    split: Split,
}

impl Stripped {
    /// Divides the layers of a model into the blocks that are computed fastest in strips. The
    /// strips run on threads, or in separate processes if `apart` is true. `images` is the number
    /// of images per task.
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

    /// Returns the description of how images are split.
    pub(crate) fn split(&self) -> &Split {
        &self.split
    }

    /// Converts the weights `whole` of the original model to the model that computes strips.
    /// Weights are copied to every parameter that they belong to. Weights that the latter model
    /// lacks are returned unchanged.
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

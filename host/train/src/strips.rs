//! Predictions by strips of each image: which model is run in the place of the whole one.

use std::ops::Range;

use eciton_plan::receptive::{self, Splittable, Strips, Workers};
use eciton_plan::{Model, ModelSettings, Program};

use crate::error::Result;
use crate::run_folder::NamedTensor;
use crate::train::parameters;

/// Operations a second of a product on one thread, as `docs/BENCHMARKS.md` has them.
const THREAD_FLOPS_PER_S: f64 = 7e10;
/// Bytes a second that a thread copies.
const COPY_BYTES_PER_S: f64 = 5e9;
/// Seconds that a block's further tasks take.
const EXCHANGE_S: f64 = 5e-5;
/// The same of tasks whose rows go to another process and come back.
const MESSAGE_BYTES_PER_S: f64 = 5e8;
const MESSAGE_S: f64 = 3e-4;

/// How images were split.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    /// Strips of an image.
    pub strips: u32,
    /// Layers of each block, from 0: between blocks strips exchange halos.
    pub blocks: Vec<Range<usize>>,
    /// Bytes of halos, of one image.
    pub halo_bytes: u64,
}

/// A model in strips, beside the whole one.
#[derive(Debug)]
pub(crate) struct Stripped {
    strips: Strips,
    split: Split,
}

impl Stripped {
    /// The quickest cut of a model for so many threads, or for processes that are `apart`, whose tasks are of so many
    /// images at once.
    pub(crate) fn new(
        settings: &ModelSettings,
        model: &Model,
        (strips, images, apart): (u32, u32, bool),
    ) -> Result<Self> {
        let splittable = Splittable::of(model)?;
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

    /// The settings of the model in strips.
    pub(crate) fn settings(&self) -> &ModelSettings {
        &self.strips.settings
    }

    /// How images are split.
    pub(crate) fn split(&self) -> &Split {
        &self.split
    }

    /// Parameters of the whole model under the names of the model in strips. What that has not keeps its name.
    pub(crate) fn weights(&self, program: &Program, whole: &[NamedTensor]) -> Vec<NamedTensor> {
        let mut taken = vec![false; whole.len()];
        let mut found = Vec::new();
        for (name, _) in parameters(program) {
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

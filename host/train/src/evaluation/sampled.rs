//! Evaluations on samples. Each micro-batch has some of the evaluated rows, and the neighbours that the
//! sampler of the training draws for them. The micro-batches of a round are computed in one pass, after
//! which their scores are copied to a matrix of all rows.
//!
//! The sampled neighbours of a row are the same in each evaluation, and do not depend on the division
//! into micro-batches.

use std::cell::{Ref, RefCell};
use std::ops::Range;
use std::sync::Arc;

use eciton_graph::sample::Sampler;
use eciton_program::Program;
use eciton_recipe::{Batch, Config};
use eciton_tensor::Buffer;
use eciton_types::atoms::MAX_BATCH_ATOMS;
use eciton_types::{IntervalId, Round};

use crate::batch::{Batches, Chooser, PartSizes, RowBatches, Source};
use crate::data::Inputs;
use crate::driver::{Lease, Stages};
use crate::error::{Error, Result};

/// Number of micro-batches per round, if a batch of the training has fewer. It does not depend on the
/// number of threads, because the order of sums depends on the division into micro-batches.
const FEWEST_PARTS: u32 = 4;

/// Plan of an evaluation on samples.
#[derive(Debug)]
pub(super) struct SamplePlan {
    /// Settings of the micro-batches. A round has as many rows as an update of the training.
    settings: Batch,
    sampler: Sampler,
    /// Evaluated rows, in ascending order.
    targets: Vec<u32>,
    /// Maximum numbers of vertices and of labelled edges per micro-batch.
    capacity: [u32; 2],
    /// Estimated sizes of the micro-batches.
    sizes: PartSizes,
}

impl SamplePlan {
    /// Plans an evaluation of the rows of all parts of the split, or of all rows if `all` is true, with
    /// the program `program`.
    ///
    /// # Errors
    /// Returns [`Error::Batch`] if the model gathers no rows in evaluations.
    pub(super) fn new(program: &mut Program, config: &Config, inputs: &Inputs, all: bool) -> Result<Self> {
        let mut settings = config.batch.clone();
        let split = inputs.learnt().1;
        let mut targets: Vec<u32> = match all || inputs.links.is_some() {
            true => (0..learnt_rows(inputs)).collect(),
            false => [&split.train[..], &split.validation, &split.test].concat(),
        };
        targets.sort_unstable();
        let rows = settings.rows.unwrap_or(split.train.len() as u32).max(1);
        settings.micro = settings.micro.max(FEWEST_PARTS).min(rows);
        settings.rows = Some(rows);
        let sampler = match Chooser::new(&settings, inputs, program)? {
            Chooser::Sampler(sampler) | Chooser::Ends(Some(sampler)) => sampler,
            _ => {
                return Err(Error::Batch {
                    sampler: settings.sampler.name(),
                    found: "evaluation.method = \"sampled\", and a model without neighbours".to_owned(),
                    remedy: "remove evaluation.method: an evaluation of this model reads each row alone",
                });
            }
        };
        let each = rows.div_ceil(settings.micro);
        let capacity = match inputs.readout {
            None => [sampler.capacity(each), 0],
            Some(_) => [sampler.capacity((2 * each).min(inputs.shape.rows)), each],
        };
        program.set_apart(settings.micro, capacity[0], capacity[1]);
        let batches = RowBatches::in_order(&settings, targets.clone());
        let sizes = PartSizes::of_samples(&sampler, inputs, &batches, capacity[0]);
        Ok(Self { settings, sampler, targets, capacity, sizes })
    }

    /// Returns the row ranges of all micro-batches in the row store, by domain.
    pub(super) fn cut(&self) -> Vec<Vec<Range<usize>>> {
        let parts = self.settings.micro as usize;
        let of = |each: u32| {
            let each = each as usize;
            (0..parts).map(|part| part * each..(part + 1) * each).collect()
        };
        vec![of(self.capacity[0]), of(self.capacity[1]), of(MAX_BATCH_ATOMS)]
    }

    /// Returns the size in bytes of the features of a round, and of the scores of all rows.
    pub(super) fn bytes(&self, inputs: &Inputs) -> u64 {
        let shape = inputs.shape;
        let row = Buffer::row_bytes(shape.features as usize) as u64;
        let scores = u64::from(learnt_rows(inputs)) * u64::from(shape.classes) * 4;
        let drawn = self.sizes.all() * row + self.sizes.lists;
        drawn * u64::from(self.settings.micro) + scores + self.sizes.draws_bytes(inputs)
    }

    /// Returns the estimated sizes of the micro-batches.
    pub(super) fn sizes(&self) -> &PartSizes {
        &self.sizes
    }

    /// Returns the number of micro-batches per round.
    pub(super) fn parts(&self) -> u32 {
        self.settings.micro
    }
}

/// Returns the number of vertices, or of labelled edges if the model learns their labels.
fn learnt_rows(inputs: &Inputs) -> u32 {
    if inputs.readout.is_some() { inputs.shape.read_out } else { inputs.shape.rows }
}

/// An evaluation on samples that is ready to run.
#[derive(Debug)]
pub(crate) struct Sampled {
    source: Arc<Source>,
    /// Number of columns of the scores, and the scores of all rows from the last evaluation. Rows that
    /// are not evaluated are zeros.
    scores: (usize, RefCell<Vec<f32>>),
}

impl Sampled {
    /// Creates the source of the micro-batches of `plan`, and the matrix of scores.
    ///
    /// # Errors
    /// Returns the errors of [`Source::new`].
    pub(super) fn new(plan: SamplePlan, inputs: &Inputs) -> Result<Self> {
        let SamplePlan { mut settings, sampler, targets, .. } = plan;
        // Each round is a pass of the engine, so that none is drawn in advance.
        settings.prefetch = 0;
        let source = Source::for_evaluation(&settings, inputs, (sampler, targets))?;
        let columns = inputs.shape.classes as usize;
        let scores = vec![0.0; learnt_rows(inputs) as usize * columns];
        Ok(Self { source: Arc::new(source), scores: (columns, RefCell::new(scores)) })
    }

    /// Returns the number of rounds of an evaluation.
    pub(crate) fn rounds(&self) -> u32 {
        self.source.rounds()
    }

    /// Returns the micro-batches of an evaluation. None of them is drawn yet.
    pub(super) fn batches(&self) -> Batches {
        Batches::new(self.source.clone(), 0, Round(self.rounds()))
    }

    /// Returns the number of columns of the scores, and the scores of all rows.
    pub(crate) fn scores(&self) -> (usize, Ref<'_, Vec<f32>>) {
        (self.scores.0, self.scores.1.borrow())
    }

    /// Copies the scores of the evaluated rows of `round` from the row store, and releases its
    /// micro-batches.
    ///
    /// # Errors
    /// Returns [`Error::Internal`] if the round was not computed.
    pub(crate) fn take(&self, stages: &Stages<'_>, round: Round) -> Result<()> {
        let missing = |what: &str| Error::Internal(format!("an evaluation on samples has no {what}"));
        let slot = stages.program.scores.ok_or_else(|| missing("scores"))?;
        let batches = stages.batches.as_ref().ok_or_else(|| missing("batches"))?;
        let (columns, mut all) = (self.scores.0, self.scores.1.borrow_mut());
        for number in (0..batches.parts()).map(IntervalId) {
            let (part, _) = batches.part(round, number)?;
            let interval = part.interval(stages.program.domain_of(slot), 0);
            let level = interval.ok_or_else(|| missing("rows"))?;
            if level.rows.is_empty() {
                continue;
            }
            let Lease::F32(rows) = stages.rows.lease(slot, round, number, Some(level.rows.len()))? else {
                return Err(missing("f32 scores"));
            };
            let view = rows.view();
            for (row, &local) in batches.targets(round, number).into_iter().zip(&*level.training) {
                let to = row as usize * columns;
                all[to..to + columns].copy_from_slice(view.row(local as usize));
            }
        }
        batches.over(round);
        Ok(())
    }
}

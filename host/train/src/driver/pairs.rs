//! The loss of links on its way: the host's work, like gathers.

use std::ops::Range;

use eciton_exec::Work;
use eciton_graph::gather::pairs::Pairs;
use eciton_graph::gather::{Rows, Sources};
use eciton_plan::{PairLoss, Step};
use eciton_tensor::ops::rows::sum_rows;
use eciton_tensor::{View, ViewMut, WriteRows};

use super::stages::Stages;
use crate::error::{Error, Result, at};
use crate::weights::Weights;

impl Stages<'_> {
    /// Compares the pairs of an interval's rows with rows that are so many epochs old as `ages` says, by
    /// interval.
    pub(super) fn pairs(
        &self,
        step: Step,
        pairs: &PairLoss,
        ages: Option<&[u8]>,
        weights: &Weights,
    ) -> Result<Work> {
        let interval = self.interval(step.interval)?;
        let (rows, grid) = (interval.rows.clone(), interval.grid.clone());
        let pieces = self.rows.read_all(pairs.input, step.round, ages)?;
        let mut gradient = self.rows.write_f32(pairs.gradient, step.round, step.interval)?;
        let parts = weights.loss_parts(step.round, step.interval);
        let whole = |part: &eciton_tensor::Buffer| part.write(0..part.rows());
        let mut parts: Vec<WriteRows> =
            parts.iter().map(whole).collect::<std::result::Result<_, _>>().map_err(at("loss"))?;
        let links = self.prepared.links.clone();
        let links = links.ok_or_else(|| Error::Internal("no links are predicted".to_owned()))?;
        let dataset = self.prepared.dataset.clone();
        // The engine counts from 1, random numbers from 0.
        let (seed, epoch) = (self.seed, step.round.0.saturating_sub(1));
        let drawn = links.of_epoch(seed, epoch);
        let work = move || {
            let negatives = links.draw(&drawn, &dataset, (seed, epoch));
            let weight = 1.0 / (links.trained + negatives.pairs()).max(1) as f32;
            let leased: Vec<(Range<usize>, Rows<'_>)> =
                pieces.iter().map(|(rows, lease)| (rows.clone(), lease.rows())).collect();
            let count = dataset.graph.vertices() as usize;
            let sources = Sources::pieces(count, &leased).map_err(|error| error.to_string())?;
            let mut losses = vec![0.0; rows.len()];
            let of = Pairs { graph: &dataset.graph, negatives, weight };
            of.run(sources, rows, &mut gradient.view_mut(), &mut losses);
            let mut parts: Vec<ViewMut<'_>> = parts.iter_mut().map(WriteRows::view_mut).collect();
            sum_rows(View::new(&losses, losses.len(), 1), &grid, &mut parts);
            Ok(())
        };
        Ok(Work::Host(Box::new(work)))
    }
}

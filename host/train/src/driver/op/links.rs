//! The loss of link prediction on the host, which scores pairs of an interval's rows with rows of
//! all intervals.

use std::sync::Arc;

use eciton_exec::Work;
use eciton_graph::pairs::Pairs;
use eciton_program::Operation;
use eciton_tensor::ops::rows::sum_rows;
use eciton_tensor::{View, ViewMut, WriteRows};

use crate::driver::operator::{On, Operator, host, whole, with_sources};
use crate::error::{Error, Result};

#[derive(Debug)]
struct Links;

/// Opens the operator of the link prediction loss.
pub(super) fn open(_: &Operation) -> Result<Box<dyn Operator>> {
    Ok(Box::new(Links))
}

impl Operator for Links {
    fn work(&self, on: &On<'_>) -> Result<Work> {
        let interval = on.interval()?;
        let (rows, grid) = (interval.rows.clone(), interval.grid.clone());
        let (pieces, mut gradient) = (on.all()?, on.write_f32(0)?);
        let mut parts = whole(&on.weights.loss_parts(0, on.task.round, on.task.interval))?;
        let part = on.part.as_ref().map(|(part, _)| (part.clone(), on.weight()));
        let (links, dataset) = (on.stages.inputs.links.clone(), on.stages.inputs.dataset.clone());
        let (seed, round) = (on.stages.seed, on.round());
        let missing = || "the run does not predict links".to_owned();
        let links = links.ok_or_else(|| Error::Internal(missing()))?;
        let drawn = if part.is_none() { links.of_epoch(seed, round) } else { Arc::default() };
        host(move || {
            let of = match &part {
                Some((part, weight)) => {
                    let pairs = part.pairs.as_ref().ok_or_else(missing)?;
                    Pairs { graph: &pairs.links, negatives: &pairs.negatives, weight: *weight }
                }
                None => {
                    let negatives = links.draw(&drawn, &dataset, (seed, round));
                    let weight = 1.0 / (links.trained + negatives.pairs()).max(1) as f32;
                    Pairs { graph: &dataset.graph, negatives, weight }
                }
            };
            let mut losses = vec![0.0; rows.len()];
            // A micro-batch without links has no rows.
            if !rows.is_empty() {
                with_sources(&pieces, of.graph.vertices() as usize, |sources| {
                    of.run(sources, rows, &mut gradient.view_mut(), &mut losses);
                })?;
            }
            let mut parts: Vec<ViewMut<'_>> = parts.iter_mut().map(WriteRows::view_mut).collect();
            sum_rows(View::new(&losses, losses.len(), 1), &grid, &mut parts);
            Ok(())
        })
    }
}

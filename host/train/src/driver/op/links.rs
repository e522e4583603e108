//! The loss of link prediction on the host, which scores pairs of an interval's rows with rows of
//! all intervals.

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
        let links = on.stages.inputs.links.clone();
        let links = links.ok_or_else(|| Error::Internal("the run does not predict links".to_owned()))?;
        let dataset = on.stages.inputs.dataset.clone();
        let (seed, round) = (on.stages.seed, on.round());
        let drawn = links.of_epoch(seed, round);
        host(move || {
            let negatives = links.draw(&drawn, &dataset, (seed, round));
            let weight = 1.0 / (links.trained + negatives.pairs()).max(1) as f32;
            let mut losses = vec![0.0; rows.len()];
            let of = Pairs { graph: &dataset.graph, negatives, weight };
            with_sources(&pieces, dataset.graph.vertices() as usize, |sources| {
                of.run(sources, rows, &mut gradient.view_mut(), &mut losses);
            })?;
            let mut parts: Vec<ViewMut<'_>> = parts.iter_mut().map(WriteRows::view_mut).collect();
            sum_rows(View::new(&losses, losses.len(), 1), &grid, &mut parts);
            Ok(())
        })
    }
}

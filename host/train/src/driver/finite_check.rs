//! Check of the values that a step has written, to find NaN and infinite values.

use eciton_program::{Domain, Phase, Scope};
use eciton_tensor::Matrix;
use eciton_types::{SlotId, Step};

use super::stages::Stages;
use crate::error::{Error, Result, at};
use crate::nan_trace::{NanTrace, Written};
use crate::weights::Weights;

/// Returns the index and the value of the first element that is NaN or infinite. Returns `None` if
/// all elements are finite.
fn strange(values: &[f32]) -> Option<(usize, f32)> {
    values.iter().copied().enumerate().find(|(_, value)| !value.is_finite())
}

impl Stages<'_> {
    /// Checks all values that a step has written, if the stages have a
    /// [`Watch`](super::watch::Watch). The first value that is not finite is recorded there.
    pub(super) fn look(&self, step: Step, weights: &Weights) -> Result<()> {
        let Some(watch) = self.watch.filter(|watch| !watch.is_before(step)) else { return Ok(()) };
        let Some((written, value, row)) = self.first_strange(step, weights)? else { return Ok(()) };
        let stage = self.program.stage(step.stage);
        let stage = stage.ok_or_else(|| Error::Internal(format!("{step} has no stage")))?;
        let operation = self.operation(stage.operation)?;
        let largest = match row {
            Some(row) => self.largest_read(step, row)?,
            None => None,
        };
        let trace = NanTrace {
            layer: u32::from(operation.layer.0),
            kernel: operation.kernel.clone(),
            own: None,
            function: match stage.phase {
                Phase::Forward => "forward",
                Phase::Loss => "loss",
                Phase::Backward | Phase::BackwardTargets | Phase::BackwardSources => "backward",
            },
            written,
            value,
            largest,
        };
        watch.record(step, trace);
        Ok(())
    }

    /// Returns the first NaN or infinite value among the rows, gradients and loss that a step has
    /// written. The result has its location, its value and, for rows, the row index within the
    /// interval.
    fn first_strange(&self, step: Step, weights: &Weights) -> Result<Option<(Written, f32, Option<usize>)>> {
        let Some(stage) = self.program.stage(step.stage) else { return Ok(None) };
        let rows = self.rows_of(step);
        for slot in stage.writes().filter(|_| rows > 0) {
            let first = self.batches.as_ref().map(|_| rows);
            let lease = self.rows.lease(slot, step.round, step.interval, first)?;
            let (matrix, mut values) = (Matrix::from(lease), Vec::new());
            matrix.read_rows(0, matrix.rows(), None, &mut values).map_err(at("rows of a step"))?;
            if let Some((place, value)) = strange(&values) {
                let width = matrix.columns().max(1);
                let row = place / width;
                let written = Written::Row { row: self.row_name(step, slot, row)?, column: place % width };
                return Ok(Some((written, value, Some(row))));
            }
        }
        for &id in &stage.sums {
            for buffer in weights.gradient(id.index(), step.round, step.interval)? {
                if let Some((_, value)) = strange(&buffer.to_vec().map_err(at("gradients"))?) {
                    let parameter = self.program.parameter(id).map_or_else(String::new, |p| p.name.clone());
                    return Ok(Some((Written::Gradient { parameter }, value, None)));
                }
            }
        }
        let losses = self.program.losses.iter().enumerate().filter(|(_, loss)| loss.stage == step.stage);
        for (number, _) in losses {
            for buffer in weights.loss_parts(number, step.round, step.interval) {
                if let Some((_, value)) = strange(&buffer.to_vec().map_err(at("losses"))?) {
                    return Ok(Some((Written::Loss, value, None)));
                }
            }
        }
        Ok(None)
    }

    /// Returns the name of a row that a step has written, for messages. It is the vertex or graph
    /// of the data set.
    fn row_name(&self, step: Step, slot: SlotId, row: usize) -> Result<String> {
        let vertices = &self.inputs.vertices;
        if let Some(batches) = &self.batches {
            let (part, _) = batches.part(step.round, step.interval)?;
            let vertex = part.vertices.get(row).copied().unwrap_or_default();
            return Ok(vertices.told(vertex));
        }
        let domain = self.program.domain_of(slot);
        let of_all = self.interval(domain, step.interval)?.rows.start + row;
        Ok(match domain == Domain::VERTICES {
            true => vertices.told(vertices.number(u32::try_from(of_all).unwrap_or(u32::MAX))),
            false => format!("{of_all} of the graphs"),
        })
    }

    /// Returns the largest absolute value that a step reads in row `row` of its interval. Rows of
    /// other intervals, which gathers read, are not considered.
    fn largest_read(&self, step: Step, row: usize) -> Result<Option<f32>> {
        let Some(stage) = self.program.stage(step.stage) else { return Ok(None) };
        let mut largest = None;
        for (slot, _) in stage.reads().filter(|(_, scope)| *scope != Scope::All) {
            let mut values = Vec::new();
            self.read_row(step, slot, row, &mut values)?;
            for value in values {
                largest = Some(f32::max(largest.unwrap_or(0.0), value.abs()));
            }
        }
        Ok(largest)
    }

    /// Appends the values of one row of a slot to `into`. `row` is counted from the start of the
    /// step's interval.
    fn read_row(&self, step: Step, slot: SlotId, row: usize, into: &mut Vec<f32>) -> Result<()> {
        let part =
            self.batches.as_ref().map(|batches| batches.part(step.round, step.interval)).transpose()?;
        let of_part = part.as_ref().and_then(|(part, _)| part.constant(self.program, slot));
        if let Some(constant) = of_part {
            return constant.read_rows(row, 1, None, into).map_err(at("rows of a micro-batch"));
        }
        if let Some(constant) = self.inputs.constant(self.program, slot) {
            let start = self.interval(self.program.domain_of(slot), step.interval)?.rows.start;
            return constant.read_rows(start + row, 1, None, into).map_err(at("features"));
        }
        let lease = self.rows.lease(slot, step.round, step.interval, Some(row + 1))?;
        Matrix::from(lease).read_rows(row, 1, None, into).map_err(at("rows of a step"))
    }
}

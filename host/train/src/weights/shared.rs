//! Gradient sums and losses that the hosts of a run send each other.

use std::ops::Range;

use eciton_tensor::Buffer;
use eciton_types::{IntervalId, ParameterId, Round};

use super::parameters::{packed, use_number};
use super::{Weights, internal, partials_in_round};
use crate::error::{Error, Result, at};

/// Losses of the intervals of another host.
#[derive(Debug)]
pub(super) struct Losses {
    intervals: Range<u32>,
    values: Vec<f32>,
}

impl Weights {
    /// Returns the number of values that [`Weights::shared`] returns for `host`.
    pub(crate) fn shared_values(&self, host: u32, of: (&[ParameterId], Range<u32>)) -> u64 {
        let ((numbers, intervals), gradients) = (of, self.gradients.borrow());
        let tops = self.collected.borrow().sums().nodes(IntervalId(host)).map_or(0, |nodes| nodes.len());
        let each = numbers.iter().map(|number| gradients.shape(number.index()));
        let sums: usize = each.map(|(rows, columns)| rows * columns * tops).sum();
        let nodes = |at| gradients.sums().nodes(IntervalId(at)).map_or(0, |nodes| nodes.len());
        let losses = self.losses.len() * intervals.map(nodes).sum::<usize>();
        (sums + losses) as u64
    }

    /// Returns the gradient sums of this host in `round`, for each use of a parameter in `numbers`
    /// and each tree node of the host. The losses of its `intervals` follow.
    pub(crate) fn shared(
        &self,
        round: Round,
        (numbers, intervals): (&[ParameterId], Range<u32>),
    ) -> Result<Vec<f32>> {
        let (gradients, collected) = (self.gradients.borrow(), self.collected.borrow());
        let host = IntervalId(self.host.ok_or_else(|| Error::Internal("there is one host".to_owned()))?);
        let tops = collected.sums().nodes(host).unwrap_or(0..0);
        let mut values = Vec::new();
        for number in numbers {
            let columns = gradients.shape(number.index()).1;
            for top in tops.clone() {
                let of = (round.0, use_number(number.index()));
                let sum = gradients.sums().top(of, top).map_err(internal)?;
                values.extend(packed(columns, sum.view().data()));
            }
        }
        for loss in &self.losses {
            for interval in intervals.clone() {
                let parts = partials_in_round(loss, round).get(interval as usize);
                for part in parts.into_iter().flatten() {
                    values.extend(part.to_vec().map_err(at("loss"))?);
                }
            }
        }
        Ok(values)
    }

    /// Adds the values that `host` has [shared](Weights::shared) to the sums of `round`.
    pub(crate) fn add_shared(
        &mut self,
        (round, host): (Round, u32),
        (numbers, intervals): (&[ParameterId], Range<u32>),
        mut values: &[f32],
    ) -> Result<()> {
        let mut next = |count: usize| {
            let (taken, left) = values.split_at_checked(count).unwrap_or((values, &[]));
            values = left;
            taken
        };
        let collected = self.collected.get_mut();
        let tops = collected.sums().nodes(IntervalId(host)).map_or(0, |nodes| nodes.len());
        for number in numbers {
            let (rows, columns) = self.gradients.get_mut().shape(number.index());
            let one = |_| Buffer::from_rows(rows, columns, next(rows * columns)).map_err(at("gradients"));
            let parts = (0..tops).map(one).collect::<Result<Vec<_>>>()?;
            collected.add((round.0, use_number(number.index())), host, parts)?;
        }
        if self.host != Some(host) {
            self.losses_of_hosts
                .entry(round.0)
                .or_default()
                .push(Losses { intervals, values: values.to_vec() });
        }
        Ok(())
    }

    /// Writes the losses that other hosts have shared for `round` to the partial sums of that round.
    ///
    /// Another host may share a round before this host has finished an earlier one whose partial
    /// sums are in the same buffers. Its losses therefore wait for the update of their round.
    pub(super) fn take_losses_of_hosts(&mut self, round: Round) -> Result<()> {
        for Losses { intervals, values } in self.losses_of_hosts.remove(&round.0).unwrap_or_default() {
            let mut values = values.iter();
            for loss in &self.losses {
                for interval in intervals.clone() {
                    let parts = partials_in_round(loss, round).get(interval as usize);
                    for (part, value) in parts.into_iter().flatten().zip(&mut values) {
                        super::write(part, &[*value])?;
                    }
                }
            }
        }
        Ok(())
    }
}

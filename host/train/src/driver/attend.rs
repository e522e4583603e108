//! The steps of an attention on their way: the host's work, like gathers.

use std::ops::Range;
use std::sync::Arc;

use eciton_exec::Work;
use eciton_graph::dataset::Dataset;
use eciton_graph::gather::attention::{Attention, Drops, Heads};
use eciton_graph::gather::{Rows, Sources};
use eciton_graph::order::Permutation;
use eciton_plan::{Attend, AttendStep, Step};
use eciton_tensor::random::{Dropout, Key, Purpose};

use super::rows::Lease;
use super::stages::Stages;
use crate::error::Result;

/// The stream of an attention's random numbers: 0 is that of its layer's kernel.
const STREAM: u32 = 1;

/// What a step's work takes along.
struct Lists {
    dataset: Arc<Dataset>,
    order: Option<Arc<Permutation>>,
    heads: Heads,
    dropout: Option<Dropout>,
}

impl Lists {
    fn attention(&self, transposed: bool) -> Attention<'_> {
        let graph = &self.dataset.graph;
        let numbers = self.order.as_ref().map(|order| order.old_of_new());
        Attention {
            lists: if transposed { graph.outgoing() } else { graph.incoming() },
            heads: self.heads,
            drops: self.dropout.map(|dropout| Drops { dropout, numbers }),
        }
    }

    /// Calls `f` with leased rows of all intervals.
    fn with_all(
        &self,
        leases: &[(Range<usize>, Lease)],
        f: impl FnOnce(Sources<'_>),
    ) -> std::result::Result<(), String> {
        let parts: Vec<(Range<usize>, Rows<'_>)> =
            leases.iter().map(|(rows, lease)| (rows.clone(), lease.rows())).collect();
        let vertices = self.dataset.graph.vertices() as usize;
        f(Sources::pieces(vertices, &parts).map_err(|error| error.to_string())?);
        Ok(())
    }
}

impl Stages<'_> {
    /// Does a step of an attention, from rows that are so many epochs old as `ages` says, by interval.
    pub(super) fn attend(&self, step: Step, attend: &Attend, ages: Option<&[u8]>) -> Result<Work> {
        let rows = self.interval(step.interval)?.rows.clone();
        let of = attend.attention;
        let heads = Heads {
            heads: of.heads as usize,
            features: of.features as usize,
            average: of.average,
            slope: of.slope as f32,
        };
        // The engine counts from 1, random numbers from 0.
        let epoch = step.round.0.saturating_sub(1);
        let key = Key::new(self.seed, Purpose::Dropout, epoch, u32::from(attend.layer.0), STREAM);
        let dropout = Dropout::new(key, of.dropout as f32).filter(|_| self.training && of.dropout > 0.0);
        let order = self.prepared.vertices.permutation();
        let lists = Lists { dataset: self.prepared.dataset.clone(), order, heads, dropout };
        let read = |slot| self.rows.read_f32(slot, step.round, step.interval);
        let write = |slot| self.rows.write_f32(slot, step.round, step.interval);
        let work: Box<dyn FnOnce() -> std::result::Result<(), String> + Send> = match attend.step {
            AttendStep::Forward { input, output, kept } => {
                let input = self.rows.read_all(input, step.round, ages)?;
                let (mut output, mut kept) = (write(output)?, kept.map(write).transpose()?);
                Box::new(move || {
                    lists.with_all(&input, |input| {
                        let mut kept = kept.as_mut().map(|kept| kept.view_mut());
                        let of = lists.attention(false);
                        of.forward(input, rows, &mut output.view_mut(), kept.as_mut());
                    })
                })
            }
            AttendStep::Turn { input, output, kept, gradient, turned } => {
                let (input, output, kept, gradient) =
                    (read(input)?, read(output)?, read(kept)?, read(gradient)?);
                let mut turned = write(turned)?;
                Box::new(move || {
                    let given = (input.view(), output.view(), kept.view());
                    Attention::turn(&heads, given, gradient.view(), &mut turned.view_mut());
                    Ok(())
                })
            }
            AttendStep::Backward { turned, input, gradient } => {
                let turned = self.rows.read_all(turned, step.round, ages)?;
                let (input, mut gradient) = (read(input)?, write(gradient)?);
                Box::new(move || {
                    lists.with_all(&turned, |turned| {
                        let of = lists.attention(true);
                        of.backward(turned, input.view(), rows, &mut gradient.view_mut());
                    })
                })
            }
        };
        Ok(Work::Host(work))
    }
}

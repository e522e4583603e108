//! Attention on the host, which is a sum over neighbours with weights that are computed from the
//! rows.

use eciton_exec::Work;
use eciton_gather::attention::{Attention as Sums, Drops, Heads};
use eciton_program::{Operation, Phase, op};
use eciton_recipe::Attention as Settings;
use eciton_tensor::random::{Dropout, Key, Purpose};
use eciton_types::Layer;

use crate::driver::operator::{Numbers, On, Operator, host, unknown, with_sources};
use crate::error::Result;
use crate::relation::Lists;

/// Stream number of the random numbers for attention dropout. Stream 0 belongs to the kernel of the
/// same layer.
const STREAM: u32 = 1;

#[derive(Debug)]
struct Attention {
    layer: Layer,
    settings: Settings,
}

/// Opens the operator of an attention layer.
pub(super) fn open(operation: &Operation) -> Result<Box<dyn Operator>> {
    let settings = op::attention::settings(&operation.attributes).ok_or_else(|| unknown(operation))?;
    Ok(Box::new(Attention { layer: operation.layer, settings }))
}

/// Neighbour lists, heads and dropout of one attention step. The step's work owns them while it
/// runs.
struct Along {
    lists: Lists,
    vertices: Option<Numbers>,
    heads: Heads,
    dropout: Option<Dropout>,
}

impl Along {
    fn sums(&self) -> Sums<'_> {
        let numbers = self.vertices.as_ref().map(Numbers::of_rows);
        let drops = self.dropout.map(|dropout| Drops { dropout, numbers });
        Sums { lists: self.lists.adjacency(), heads: self.heads, drops }
    }
}

impl Attention {
    fn heads(&self) -> Heads {
        let of = self.settings;
        Heads {
            heads: of.heads as usize,
            features: of.features as usize,
            average: of.average,
            slope: of.slope as f32,
        }
    }

    fn along(&self, on: &On<'_>) -> Result<Along> {
        let rate = self.settings.dropout;
        let key = Key::new(on.stages.seed, Purpose::Dropout, on.round(), u32::from(self.layer.0), STREAM);
        let dropout = Dropout::new(key, rate as f32).filter(|_| on.stages.training && rate > 0.0);
        Ok(Along { lists: on.lists()?, vertices: on.vertices(), heads: self.heads(), dropout })
    }
}

impl Operator for Attention {
    fn work(&self, on: &On<'_>) -> Result<Work> {
        let rows = on.rows()?;
        let count = if on.stage.via.is_some() { on.count()? } else { 0 };
        match on.stage.phase {
            Phase::BackwardTargets => {
                let (input, output, kept, gradient) = (on.own(0)?, on.own(1)?, on.own(2)?, on.own(3)?);
                let (mut turned, heads) = (on.write_f32(0)?, self.heads());
                host(move || {
                    let given = (input.view(), output.view(), kept.view());
                    Sums::turn(&heads, given, gradient.view(), &mut turned.view_mut());
                    Ok(())
                })
            }
            Phase::BackwardSources => {
                let (along, turned, input) = (self.along(on)?, on.all()?, on.own(0)?);
                let mut gradient = on.write_f32(0)?;
                host(move || {
                    with_sources(&turned, count, |turned| {
                        along.sums().backward(turned, input.view(), rows, &mut gradient.view_mut());
                    })
                })
            }
            _ => {
                let (along, input, mut output) = (self.along(on)?, on.all()?, on.write_f32(0)?);
                let mut kept = on.written(1).map(|_| on.write_f32(1)).transpose()?;
                host(move || {
                    with_sources(&input, count, |input| {
                        let mut kept = kept.as_mut().map(|kept| kept.view_mut());
                        along.sums().forward(input, rows, &mut output.view_mut(), kept.as_mut());
                    })
                })
            }
        }
    }
}

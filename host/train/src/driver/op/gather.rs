//! The gather on the host, which sums the rows that a relation lists, for instance those of
//! neighbours.

use std::sync::Arc;

use eciton_exec::Work;
use eciton_gather::{EdgeWeights, Gather as Sums, Reduce, collect, spread};
use eciton_kernel::{CallStep, GatherLists, GatherStep};
use eciton_program::{Operation, Over, Scope, op};
use eciton_tensor::{Buffer, ViewMut};
use eciton_types::Normalisation;

use crate::driver::operator::{On, Operator, host, unknown, with_sources};
use crate::driver::rows::WriteLease;
use crate::driver::span::Building;
use crate::error::{Error, Result};

#[derive(Debug)]
struct Gather {
    normalisation: Normalisation,
}

/// Opens the operator of a gather.
pub(super) fn open(operation: &Operation) -> Result<Box<dyn Operator>> {
    let normalisation = op::gather::normalisation(&operation.attributes);
    let normalisation = normalisation.ok_or_else(|| unknown(operation))?;
    Ok(Box::new(Gather { normalisation }))
}

impl Operator for Gather {
    fn inside(&self, on: &On<'_>, call: &mut Building) -> Result<()> {
        let Some((part, _)) = &on.part else {
            return Err(Error::Internal(format!("{} gathers rows of other intervals", on.stage.name)));
        };
        let (normalisation, relation) = (self.normalisation, on.lists()?.relation);
        let (lists, reversed) = (on.part_lists(part)?, relation.reversed);
        let scales =
            normalisation == Normalisation::Symmetric || normalisation == Normalisation::Mean && reversed;
        let factors = scales.then(|| on.factors(normalisation, relation.over)).transpose()?;
        let weights = lists.weights(normalisation == Normalisation::Mean, reversed).cloned();
        let graph = lists.graph.clone();
        let from = call.source(on, on.slot(Scope::All, 0)?, on.count()?)?;
        let into =
            on.written(0).ok_or_else(|| Error::Internal(format!("{} writes no slot", on.stage.name)))?;
        let (into, rows) = (call.written(on, into)?, on.rows()?.len());
        let lists = Arc::new(GatherLists { graph, outgoing: reversed, factors, weights });
        call.step(on, CallStep::Gather(GatherStep { normalisation, reversed, lists, from, into, rows }));
        Ok(())
    }

    fn work(&self, on: &On<'_>) -> Result<Work> {
        let (rows, pieces, output, lists) = (on.rows()?, on.all()?, on.write(0)?, on.lists()?);
        let normalisation = self.normalisation;
        let factors = on.factors(normalisation, lists.relation.over)?;
        let count = on.count()?;
        let is_of_edges = matches!(lists.relation.over, Over::EdgeSources | Over::EdgeTargets);
        if lists.is_single() || is_of_edges {
            return host(move || {
                let scale = (normalisation == Normalisation::Mean).then(|| &factors[..]);
                let (adjacency, count) = (lists.adjacency(), rows.len());
                let parts: Vec<_> = pieces.iter().map(|(rows, lease)| (rows.clone(), lease.rows())).collect();
                let write = |out: &mut ViewMut<'_>| match lists.is_single() {
                    true => spread(&adjacency.neighbours()[rows], scale, &parts, out),
                    false => collect(adjacency, rows, &parts, out),
                };
                match output {
                    WriteLease::F32(mut to) => write(&mut to.view_mut()),
                    WriteLease::Bf16(mut to) => {
                        let mut to = to.view_mut();
                        let wide = Buffer::zeroed(count, to.columns()).map_err(|e| e.to_string())?;
                        let mut lease = wide.write(0..count).map_err(|e| e.to_string())?;
                        write(&mut lease.view_mut());
                        to.round_from(lease.view()).map_err(|e| e.to_string())?;
                    }
                }
                Ok(())
            });
        }
        host(move || {
            with_sources(&pieces, count, |sources| {
                let neighbours = lists.adjacency();
                let mut sums = match (normalisation, lists.relation.reversed) {
                    (Normalisation::Symmetric, _) => {
                        let weights = EdgeWeights::Symmetric(&factors);
                        Sums::new(neighbours, Reduce::Sum).weighted(weights).with_self()
                    }
                    (Normalisation::Mean, false) => Sums::new(neighbours, Reduce::Mean),
                    // The gradient of a mean divides the gradient of each target by its number of
                    // sources. Then it sums over targets.
                    (Normalisation::Mean, true) => {
                        Sums::new(neighbours, Reduce::Sum).with_source_scale(&factors)
                    }
                    (Normalisation::Sum, _) => Sums::new(neighbours, Reduce::Sum),
                };
                if let Some(values) = lists.weights(normalisation == Normalisation::Mean) {
                    sums = sums.weighted(EdgeWeights::Values(values, None));
                }
                if let Some(wanted) = lists.wanted() {
                    sums = sums.of_rows(wanted);
                }
                match output {
                    WriteLease::F32(mut to) => {
                        sums.run(sources, rows, &mut to.view_mut());
                        Ok(())
                    }
                    WriteLease::Bf16(mut to) => {
                        let done = sums.run_half(sources, rows, &mut to.view_mut());
                        done.map_err(|error| error.to_string())
                    }
                }
            })?
        })
    }
}

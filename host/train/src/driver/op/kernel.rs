//! Vertex kernels on their way: calls on an interval's own rows.

use eciton_exec::Work;
use eciton_kernel::{Call, Kind, Labelled};
use eciton_plan::{Phase, Port};
use eciton_tensor::Matrix;

use super::{On, Operator};
use crate::error::Result;

#[derive(Debug)]
pub(super) struct Kernel;

impl Operator for Kernel {
    fn work(&self, on: &On<'_>) -> Result<Work> {
        // A part's are others in every round.
        let constant = |slot| on.part.is_none() && on.constant(slot).is_some();
        let inputs = on.stage.port(Port::Input).enumerate();
        on.kernel(call(on)?.into(), inputs.filter(|(_, slot)| constant(*slot)).collect())
    }
}

fn call(on: &On<'_>) -> Result<Call> {
    let stages = on.stages;
    let interval = on.interval()?;
    let operation = stages.operation(on.stage.operation)?;
    let read = |port| on.stage.port(port).map(|slot| on.read(slot)).collect::<Result<Vec<Matrix>>>();
    let kind = match on.stage.phase {
        Phase::Forward => Kind::Forward,
        Phase::Loss => Kind::Loss,
        _ => Kind::Backward,
    };
    let labelled = match kind {
        Kind::Loss => Some(Labelled {
            targets: interval.targets.clone(),
            rows: interval.training.clone(),
            weight: on.weight(),
            row_weights: interval.weights()?,
        }),
        Kind::Forward | Kind::Backward => None,
    };
    let outputs = operation.signature.as_ref().map_or(0, |signature| signature.outputs.len());
    Ok(Call {
        kind,
        seed: stages.seed,
        epoch: on.round(),
        layer: operation.draw,
        training: stages.training,
        grid: interval.grid.clone(),
        row_numbers: interval.numbers.clone(),
        inputs: read(Port::Input)?,
        outputs: read(Port::Output)?,
        kept: read(Port::Kept)?,
        parameters: on.parameters()?,
        gradients: read(Port::Gradient)?,
        output_count: if kind == Kind::Forward { outputs } else { on.stage.port(Port::Output).count() },
        rows_out: on.targets()?,
        sums_out: on.sums()?,
        labelled,
    })
}

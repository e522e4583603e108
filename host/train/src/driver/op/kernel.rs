//! Vertex kernels on their way: calls on an interval's own rows.

use eciton_exec::Work;
use eciton_kernel::{Call, KernelStep, Kind, Labelled};
use eciton_plan::{Phase, Port, SlotId};
use eciton_tensor::Matrix;

use super::{Building, On, Operator};
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

    fn inside(&self, on: &On<'_>, span: &mut Building) -> Result<()> {
        let mut read = |port| on.stage.port(port).map(|slot| span.operand(on, slot)).collect::<Result<_>>();
        let (inputs, outputs) = (read(Port::Input)?, read(Port::Output)?);
        let (kept, gradients) = (read(Port::Kept)?, read(Port::Gradient)?);
        let mut write = |slot: SlotId| Ok((span.written(on, slot)?, on.stages.extents(slot)));
        let writes = on.stage.writes.iter().map(|slot| slot.map(&mut write).transpose());
        let writes = writes.collect::<Result<_>>()?;
        let layer = on.stages.layer(on.stage.operation)?.clone();
        let (parameters, call) = (span.parameters(on)?, bare(on)?);
        span.kernel(on, KernelStep { layer, call, parameters, inputs, outputs, kept, gradients, writes });
        Ok(())
    }
}

fn call(on: &On<'_>) -> Result<Call> {
    let read = |port| on.stage.port(port).map(|slot| on.read(slot)).collect::<Result<Vec<Matrix>>>();
    Ok(Call {
        inputs: read(Port::Input)?,
        outputs: read(Port::Output)?,
        kept: read(Port::Kept)?,
        parameters: on.parameters()?,
        gradients: read(Port::Gradient)?,
        rows_out: on.targets()?,
        ..bare(on)?
    })
}

/// The call without its matrices and the rows that it writes.
fn bare(on: &On<'_>) -> Result<Call> {
    let stages = on.stages;
    let interval = on.interval()?;
    let operation = stages.operation(on.stage.operation)?;
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
        inputs: Vec::new(),
        outputs: Vec::new(),
        kept: Vec::new(),
        parameters: Vec::new(),
        gradients: Vec::new(),
        output_count: if kind == Kind::Forward { outputs } else { on.stage.port(Port::Output).count() },
        rows_out: Vec::new(),
        sums_out: on.sums()?,
        labelled,
    })
}

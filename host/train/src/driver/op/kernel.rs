//! Vertex kernels on their way: calls on an interval's own rows.

use std::time::Duration;

use eciton_exec::{Order, Work};
use eciton_kernel::wire::Answer;
use eciton_kernel::{Call, Finished, Kind, Labelled};
use eciton_plan::{Phase, Port};
use eciton_tensor::Matrix;

use super::{On, Operator};
use crate::error::{Error, Result};

#[derive(Debug)]
pub(super) struct Kernel;

impl Operator for Kernel {
    fn work(&self, on: &On<'_>) -> Result<Work> {
        Err(Error::Internal(format!("{} is a task", on.step())))
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
    let labelled = (kind == Kind::Loss).then(|| Labelled {
        targets: interval.targets.clone(),
        rows: interval.training.clone(),
        weight: stages.prepared.weight,
    });
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

/// A task as executors take it.
pub(in crate::driver) fn order(on: &On<'_>, deadline: Option<Duration>) -> Result<Order> {
    let constant = |slot| on.stages.prepared.constant(on.stages.program, slot).is_some();
    let inputs = on.stage.port(Port::Input).enumerate();
    Ok(Order {
        pass: on.pass,
        task: on.task,
        operation: on.stage.operation,
        generation: on.weights.generation(on.task.weights)?,
        layer: on.stages.layer(on.stage.operation)?.clone(),
        call: call(on)?,
        constant_inputs: inputs.filter(|(_, slot)| constant(*slot)).collect(),
        deadline,
    })
}

/// Puts an answer that came in a message where its task would have written.
pub(in crate::driver) fn commit(on: &On<'_>, answer: Answer) -> Result<Finished> {
    let put = answer.into_targets(on.targets()?, on.sums()?);
    put.map_err(|source| Error::Step { step: on.task.key().to_string(), source: Box::new(source) })
}

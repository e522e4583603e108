//! Vertex kernels on the host. Their calls read and write only the rows of one interval.

use eciton_exec::Work;
use eciton_kernel::{CallStep, Kind, Labelled, VertexCall};
use eciton_program::{Phase, Port};

use crate::driver::operator::{On, Operator};
use crate::driver::span::Building;
use crate::error::Result;

/// The operator of all vertex kernels.
#[derive(Debug)]
pub(super) struct Kernel;

impl Operator for Kernel {
    fn work(&self, on: &On<'_>) -> Result<Work> {
        Building::alone(self, on)
    }

    fn inside(&self, on: &On<'_>, call: &mut Building) -> Result<()> {
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
        let mut read = |port| on.stage.port(port).map(|slot| call.operand(on, slot)).collect::<Result<_>>();
        let step = VertexCall {
            kind,
            seed: stages.seed,
            epoch: on.round(),
            layer: operation.draw,
            training: stages.training,
            grid: interval.grid.clone(),
            row_numbers: interval.numbers.clone(),
            inputs: read(Port::Input)?,
            outputs: read(Port::Output)?,
            kept: read(Port::Stashed)?,
            gradients: read(Port::Gradient)?,
            parameters: call.parameters(on)?,
            output_count: if kind == Kind::Forward { outputs } else { on.stage.port(Port::Output).count() },
            rows_out: call.writes(on)?,
            sums_out: on.sums()?,
            labelled,
        };
        call.step(on, CallStep::Vertex(stages.layer(on.stage.operation)?.clone(), Box::new(step)));
        Ok(())
    }
}

//! Conversion of a simulated pipeline to a program. Each pipeline stage becomes a forward and a
//! backward stage of the program.

use eciton_program::{
    Cost, DataShape, Domain, LossOf, Phase, Place, Port, Program, Read, Rewrites, Scope, SlotOf, SlotSpec,
    Stage,
};
use eciton_recipe::{Model, ModelSettings, TaskType};
use eciton_types::{ParameterId, SlotId, StageId};

use super::Pipeline;
use crate::error::Error;
use crate::shape::signature;

/// Returns the program of a pipeline with `d` stages. Pipeline stage `i` becomes forward stage `i`
/// and backward stage `2 d - 1 - i`. The backward stage of the last pipeline stage is the loss.
pub(super) fn program(of: &Pipeline) -> Result<Program, Error> {
    let settings = ModelSettings::parse("kind = \"mlp\"\nlayers = 1\ndropout = 0", "pipeline")?;
    let model = Model::resolve(&settings, 1, 2, TaskType::Classification)?;
    let rows = of.rows.max(1);
    let shape = DataShape { rows, features: 1, classes: 2, edge_features: 0, read_out: 0, group: 1 };
    let mut program = Program::build(&model, shape, Rewrites::default(), &signature)?;
    // At most `MAX_LANES`.
    let depth = of.stages.len() as u16;
    let back = |stage: u16| 2 * depth - 1 - stage;
    let read = |slot: SlotId, port| Read { slot, scope: Scope::Own, port };
    let like = program.slots.first().cloned();
    let slot = |written_by: Option<StageId>, of: SlotOf, like: &SlotSpec| SlotSpec {
        of,
        written_by,
        needed_until: StageId(2 * depth - 1),
        ..like.clone()
    };
    let Some(like) = like else {
        return Err(Error::Setting {
            what: "stages",
            found: "none".to_owned(),
            allowed: "at least 1".to_owned(),
        });
    };
    // The features, what each stage makes forward, what each gives back.
    let mut slots = vec![slot(None, SlotOf::Features, &like)];
    slots.extend((0..depth).map(|stage| slot(Some(StageId(stage)), SlotOf::Activation, &like)));
    slots.extend((0..depth).map(|stage| slot(Some(StageId(back(stage))), SlotOf::Gradient, &like)));
    let (forward_slot, back_slot) = (|stage: u16| SlotId(1 + stage), |stage: u16| SlotId(1 + depth + stage));
    let operation = program.stages.first().map(|stage| stage.operation).unwrap_or_default();
    let lanes = of.lanes().depth().max(1) as u16;
    let stage = |name: String, phase, number: u16| Stage {
        name,
        operation,
        phase,
        place: Place::Lane(number % lanes),
        chunk: number / lanes,
        domain: Domain::VERTICES,
        via: None,
        reads: Vec::new(),
        writes: Vec::new(),
        sums: Vec::new(),
        exact: false,
        cost: Cost::default(),
    };
    let mut stages = Vec::with_capacity(2 * of.stages.len());
    for (number, one) in (0..depth).zip(&of.stages) {
        let mut made = stage(format!("stage {number} forward"), Phase::Forward, number);
        made.reads = one.reads.iter().map(|&(from, _)| read(forward_slot(from), Port::Input)).collect();
        if made.reads.is_empty() {
            made.reads.push(read(SlotId(0), Port::Input));
        }
        made.writes = vec![Some(forward_slot(number))];
        stages.push(made);
    }
    for number in (0..depth).rev() {
        let loss = number + 1 == depth;
        let phase = if loss { Phase::Loss } else { Phase::Backward };
        let mut made = stage(format!("stage {number} backward"), phase, number);
        made.reads.push(read(forward_slot(number), Port::Stashed));
        let readers = (0..depth).zip(&of.stages);
        let readers = readers.filter(|(_, one)| one.reads.iter().any(|&(from, _)| from == number));
        made.reads.extend(readers.map(|(reader, _)| read(back_slot(reader), Port::Gradient)));
        made.writes = vec![Some(back_slot(number))];
        made.sums = vec![ParameterId(0)];
        stages.push(made);
    }
    (program.stages, program.slots) = (stages, slots);
    program.losses = vec![LossOf { stage: StageId(depth), weight: 1.0 }];
    program.set_apart(1, rows, 0);
    Ok(program)
}

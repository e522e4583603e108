#![allow(clippy::unwrap_used, clippy::panic)]
use super::*;
use crate::Error;
use crate::sample_programs::{gcn, signature};
use eciton_types::signature::{BackwardNeeds, RowsSpec};

/// Returns a text that lists the slots which a stage reads and writes.
fn touched(stage: &Stage) -> String {
    let read = |(slot, scope)| match scope {
        Scope::Own => format!("{slot}"),
        Scope::All => format!("all of {slot}"),
    };
    let reads: Vec<String> = stage.reads().map(read).collect();
    let writes: Vec<String> = stage.writes().map(|slot| slot.to_string()).collect();
    format!("{}>{}", reads.join(","), writes.join(","))
}

pub(crate) fn sketch(program: &Program) -> Vec<String> {
    let stage = |stage: &Stage| {
        let list = |slots: Vec<SlotId>| slots.iter().map(SlotId::to_string).collect::<Vec<_>>().join(",");
        let reads = list(stage.reads().map(|(slot, _)| slot).collect());
        let writes = list(stage.writes().collect());
        let Operation { kernel, layer, signature, along, .. } = &program.operations[stage.operation.index()];
        let step = stage.name.rsplit(' ').next().unwrap();
        let relation = stage.via.map(|via| program.relations[via.index()]);
        match (signature.is_some(), &kernel[..]) {
            (false, "gather") => {
                let relation = relation.unwrap();
                let t = if relation.reversed { "'" } else { "" };
                let what = if relation.over == Over::Graphs { "readout" } else { "gather" };
                format!("{what}{t} {reads}>{writes} x{}", stage.cost.edge_values)
            }
            (false, "attend") => format!("attend {step} {reads}>{writes}"),
            (false, "pair-norm") => format!("pair {step} {}", touched(stage)),
            (false, "batch-norm") => format!("batch {step} {}", touched(stage)),
            (false, "links") => format!("pairs {}", touched(stage)),
            _ if along.is_some() => format!("{kernel} {layer} {step} {}", touched(stage)),
            _ => format!("{kernel} {layer} {:?} {reads}>{writes}", stage.phase),
        }
    };
    program.stages.iter().map(stage).collect()
}

#[test]
fn two_layers_are_nine_stages() {
    let program = gcn(2, 16, 1433, 7);
    let wanted = [
        "linear 0 Forward 0>1",
        "gather 1>2 x16",
        "linear 1 Forward 2>3",
        "gather 3>4 x7",
        "head 2 Loss 4>5",
        "gather' 5>6 x7",
        "linear 1 Backward 2,6>7",
        "gather' 7>8 x16",
        "linear 0 Backward 0,8>",
    ];
    assert_eq!(sketch(&program), wanted);
    let slots: Vec<(u32, SlotOf, u16, u16)> = program
        .slots
        .iter()
        .map(|s| (s.width, s.of, s.written_by.map_or(99, |w| w.0), s.needed_until.0))
        .collect();
    use SlotOf::{Activation, Features, Gradient};
    let wanted = [
        (1433, Features, 99, 8),
        (16, Activation, 0, 1),
        (16, Activation, 1, 6),
        (7, Activation, 2, 3),
        (7, Activation, 3, 4),
        (7, Gradient, 4, 5),
        (7, Gradient, 5, 6),
        (16, Gradient, 6, 7),
        (16, Gradient, 7, 8),
    ];
    assert_eq!(slots, wanted);
    assert_eq!(program.loss(), Some(StageId(4)));
    assert_eq!(program.dependencies(StageId(1)), [(StageId(0), Scope::All)]);
    assert_eq!(program.dependencies(StageId(6)), [(StageId(1), Scope::Own), (StageId(5), Scope::Own)]);
    assert!(program.dependencies(StageId(0)).is_empty());
    assert!(program.trains());
    let names = [0, 1, 4, 5, 8, 9].map(|stage| program.stage_name(StageId(stage)));
    let wanted = ["linear 0 forward", "gather 0", "head 2 loss", "gather 1 transposed"];
    assert_eq!(
        (&names[..4], &names[4..]),
        (&wanted.map(String::from)[..], &["linear 0 backward", "stage 9"].map(String::from)[..])
    );
}

#[test]
fn gathered_features_leave_two_gathers_out() {
    let model = Model::gcn(2, 16, 0.0, 1433, 7).unwrap();
    let shape = DataShape { rows: 64, features: 1433, classes: 7, edge_features: 0, read_out: 0, group: 1 };
    let rewrites = Rewrites { gathered_features: true, ..Rewrites::default() };
    let program = Program::build(&model, shape, rewrites, &signature).unwrap();
    let wanted = [
        "linear 0 Forward 0>1",
        "linear 1 Forward 1>2",
        "gather 2>3 x7",
        "head 2 Loss 3>4",
        "gather' 4>5 x7",
        "linear 1 Backward 1,5>6",
        "linear 0 Backward 0,6>",
    ];
    assert_eq!(sketch(&program), wanted);
    assert_eq!(sketch(&program.evaluation())[..3], wanted[..3]);
    assert_eq!(program.parameters, gcn(2, 16, 1433, 7).parameters);
}

#[test]
fn parameters_belong_to_their_layers() {
    let program = gcn(2, 16, 1433, 7);
    let found: Vec<(&str, u32, u16, usize)> =
        program.parameters.iter().map(|p| (&p.name[..], p.position, p.layer.0, p.len())).collect();
    let wanted = [
        ("layers.0.weight", 0, 0, 1433 * 16),
        ("layers.1.weight", 0, 1, 16 * 7),
        ("layers.0.bias", 1, 0, 16),
        ("layers.1.bias", 0, 1, 7),
    ];
    assert_eq!(found, wanted);
    assert_eq!(program.operations[2].parameters, [ParameterId(1), ParameterId(2)]);
}

#[test]
fn evaluation_is_the_forward_part() {
    let training = gcn(2, 16, 1433, 7);
    let program = training.evaluation();
    let wanted = [
        "linear 0 Forward 0>1",
        "gather 1>2 x16",
        "linear 1 Forward 2>3",
        "gather 3>4 x7",
        "head 2 Forward 4>5",
    ];
    assert_eq!(sketch(&program), wanted);
    assert_eq!(program.scores, Some(SlotId(5)));
    assert_eq!(program.parameters, training.parameters);
    assert_eq!(program.operations, training.operations);
    assert!(!program.trains() && program.losses.is_empty());
    assert_eq!(program.evaluation(), program);
}

#[test]
fn every_stage_follows_what_it_reads_and_every_slot_has_a_reader() {
    for layers in 1..=64 {
        let program = gcn(layers, 5, 9, 3);
        assert_eq!(program.stages.len(), 4 * layers as usize + 1);
        for (id, stage) in (0u16..).map(StageId).zip(&program.stages) {
            for (before, _) in program.dependencies(id) {
                assert!(before < id);
            }
            // Every interval passes every barrier: the rule of `Buffers` rests on it.
            let previous = id.0.checked_sub(1).map(StageId);
            let chained = program.dependencies(id).last().map(|last| last.0);
            let loss = program.loss().map(|loss| loss.0 + 1);
            assert!(chained == previous || loss == Some(id.0), "stage {id}");
            for slot in stage.writes() {
                let spec = &program.slots[slot.index()];
                assert_eq!(spec.written_by, Some(id));
                assert!(spec.needed_until > id, "slot {slot} is never read");
            }
        }
    }
}

#[test]
fn kept_rows_and_outputs_live_until_backward() {
    let keeping = |kernel: &str, inputs: &[Vec<u32>], attributes: &[Attribute]| {
        let mut found = signature(kernel, inputs, attributes)?;
        if kernel == "linear" {
            found.kept = vec![RowsSpec { name: "mask".into(), extents: vec![2, 3] }];
            found.backward_needs = BackwardNeeds { inputs: false, outputs: true };
        }
        Ok::<_, String>(found)
    };
    let model = Model::gcn(2, 4, 0.0, 9, 3).unwrap();
    let shape = DataShape { rows: 5, features: 9, classes: 3, edge_features: 0, read_out: 0, group: 1 };
    let program = Program::build(&model, shape, Rewrites::default(), &keeping).unwrap();
    let of = |port| program.stages[8].port(port).collect::<Vec<_>>();
    let (outputs, kept) = (of(Port::Output), of(Port::Stashed));
    assert!(of(Port::Input).is_empty() && outputs.len() == 1 && kept.len() == 1);
    let kept = &program.slots[kept[0].index()];
    assert_eq!((kept.width, kept.of, kept.needed_until), (6, SlotOf::Stashed, StageId(8)));
    assert_eq!(program.slots[outputs[0].index()].needed_until, StageId(8));
}

#[test]
fn kernels_that_do_not_fit_are_refused() {
    type Change = fn(&str, &mut Signature);
    let cases: [(Change, &str); 6] = [
        (|_, s| s.outputs.clear(), "outputs"),
        (|_, s| s.inputs[0].extents[0] += 1, "inputs"),
        (|_, s| s.loss = None, "loss"),
        (|_, s| s.kept = vec![RowsSpec { name: "k".into(), extents: vec![1 << 20; 3] }], "kept"),
        (
            |_, s| {
                if let Some(p) = s.parameters.first_mut() {
                    p.shape = vec![0]
                }
            },
            "parameter",
        ),
        (
            |_, s| {
                if let Some(p) = s.parameters.first().cloned() {
                    s.parameters.push(p)
                }
            },
            "twice",
        ),
    ];
    let model = Model::gcn(2, 4, 0.0, 9, 3).unwrap();
    let shape = DataShape { rows: 5, features: 9, classes: 3, edge_features: 0, read_out: 0, group: 1 };
    for (change, word) in cases {
        let changed = |kernel: &str, inputs: &[Vec<u32>], attributes: &[Attribute]| {
            let mut found = signature(kernel, inputs, attributes)?;
            change(kernel, &mut found);
            Ok::<_, String>(found)
        };
        let error = Program::build(&model, shape, Rewrites::default(), &changed).unwrap_err();
        assert!(matches!(error, Error::SignatureMismatch { .. }), "{error}");
        assert!(error.to_string().contains(word), "{word}: {error}");
    }
    let fails =
        |kernel: &str, _: &[Vec<u32>], _: &[Attribute]| Err::<Signature, _>(format!("{kernel} is broken"));
    let error = Program::build(&model, shape, Rewrites::default(), &fails).unwrap_err();
    assert_eq!(std::error::Error::source(&error).unwrap().to_string(), "linear is broken");
    let other = DataShape { classes: 4, ..shape };
    assert!(matches!(
        Program::build(&model, other, Rewrites::default(), &signature),
        Err(Error::Recipe(eciton_recipe::Error::Data { .. }))
    ));
}

//! Programs of models that are more than a chain.
#![allow(clippy::unwrap_used, clippy::panic)]

use super::tests::{signature, sketch};
use super::*;
use crate::model::ModelSettings;
use crate::testing::Random;

fn program(text: &str, savings: Savings) -> Program {
    let settings = ModelSettings::parse(text, "m.toml").unwrap();
    let model = Model::resolve(&settings, 9, 3).unwrap();
    let shape = DataShape { rows: 64, features: 9, classes: 3 };
    Program::build(&model, shape, savings, &signature).unwrap()
}

/// A model of any layers that fit each other.
pub(crate) fn random(random: &mut Random) -> Program {
    let mut text = String::from("hidden = 4\n");
    let count = 1 + random.below(5);
    for at in 0..count {
        let kinds = ["gcn", "sage", "gin", "sgc", "linear", "gat", "appnp", "linear"];
        let kind = kinds[random.below(if at == 0 { 6 } else { 8 }) as usize];
        text += &format!("[[layers]]\nkernel = \"{kind}\"\nbias = {}\n", random.below(2) == 0);
        if kind == "appnp" {
            text = text.replace("bias = true\n", "").replace("bias = false\n", "");
            text += &format!("hops = {}\ndropout = {}\n", 1 + random.below(3), random.below(2) as f32 / 2.0);
        }
        if kind == "gin" {
            text += &format!("train_epsilon = {}\n", random.below(2) == 0);
        }
        if kind == "gat" {
            text += &format!("heads = 2\naverage = {}\n", random.below(2) == 0);
        }
        if at > 0 && kind == "linear" && random.below(2) == 0 {
            text += "jumping = \"concat\"\n";
        }
        if at > 0 && at + 1 < count {
            text += &format!("residual = {}\n", random.below(2) == 0);
        }
        text += &format!("norm = \"{}\"\n", ["none", "layer", "l2"][random.below(3) as usize]);
    }
    let settings = ModelSettings::parse(&text, "m.toml").unwrap();
    let features = 9;
    let classes = 4;
    let model = Model::resolve(&settings, features, classes).unwrap_or_else(|e| panic!("{text}: {e}"));
    let shape = DataShape { rows: 64, features, classes };
    let constant = model.constant_gathers() > 0 && random.below(2) == 0;
    let savings = Savings { gathered_features: constant, aggregate_first: random.next() & !1 };
    Program::build(&model, shape, savings, &signature).unwrap_or_else(|e| panic!("{text}: {e}"))
}

#[test]
fn sage_multiplies_twice_and_gathers_the_mean() {
    let wanted = [
        "linear 0 Forward 0>1",
        "linear 0 Forward 0>2",
        "gather 2>3 x16",
        "sum 0 Forward 1,3>4",
        "linear 1 Forward 4>5",
        "linear 1 Forward 4>6",
        "gather 6>7 x3",
        "sum 1 Forward 5,7>8",
        "cross-entropy 2 Loss 8>9",
        // The sum's gradient is that of both products.
        "gather' 9>10 x3",
        "linear 1 Backward 4,10>11",
        "linear 1 Backward 4,9>12",
        "sum 0 Forward 11,12>13",
        "gather' 13>14 x16",
        "linear 0 Backward 0,14>",
        "linear 0 Backward 0,13>",
    ];
    let sage = program("kind = \"sage\"", Savings::default());
    assert_eq!(sketch(&sage), wanted);
    let names: Vec<&str> = sage.parameters.iter().map(|p| &p.name[..]).collect();
    let wanted = [
        "layers.0.self.weight",
        "layers.0.self.bias",
        "layers.0.neighbour.weight",
        "layers.1.self.weight",
        "layers.1.self.bias",
        "layers.1.neighbour.weight",
    ];
    assert_eq!(names, wanted);
    let bound = Initialiser::Uniform(1.0 / 3.0);
    assert_eq!((sage.parameters[0].initialiser, sage.parameters[2].initialiser), (bound, bound));
    let glorot = program("kind = \"sage\"\nfirst_weights = \"glorot\"", Savings::default());
    assert_eq!(glorot.parameters[0].initialiser, Initialiser::GlorotUniform);
    // First values differ, dropped values do not.
    assert_eq!((sage.parameters[0].draw, sage.parameters[2].draw), (0, 1 << 16));
    assert_eq!((sage.operations[0].draw, sage.operations[1].draw), (0, 0));
    let all: Vec<String> = (0..16).map(|stage| sage.stage_name(StageId(stage))).collect();
    assert_eq!(all[..2], ["linear 0 self forward", "linear 0 neighbour forward"]);
    assert_eq!(all[12], "sum 0 gradients forward");
    let mean = |stage: &Stage| match stage {
        Stage::Gather(gather) => Some(gather.normalisation == Normalisation::Mean),
        Stage::Tensor(_) | Stage::Attend(_) => None,
    };
    assert!(sage.stages.iter().filter_map(mean).all(|is| is));
}

#[test]
fn attention_turns_by_row_before_it_sums_over_out_neighbours() {
    let wanted = [
        "attention 0 Forward 0>1",
        "attend forward 1>2,3",
        "attention 1 Forward 2>4",
        "attend forward 4>5,6",
        "cross-entropy 2 Loss 5>7",
        "attend turn 4,5,6,7>8",
        "attend backward 8,4>9",
        "attention 1 Backward 2,4,9>10",
        "attend turn 1,2,3,10>11",
        "attend backward 11,1>12",
        "attention 0 Backward 0,1,12>",
    ];
    let gat = program("kind = \"gat\"\nheads = 4", Savings::default());
    assert_eq!(sketch(&gat), wanted);
    let widths: Vec<u32> = gat.slots.iter().map(|slot| slot.width).collect();
    assert_eq!(widths, [9, 24, 16, 28, 5, 3, 6, 3, 8, 5, 16, 36, 24]);
    assert_eq!(gat.stage_name(StageId(5)), "attend 1 turn");
    assert_eq!(gat.parameters[1].initialiser, Initialiser::Uniform(0.866_025_4));
    let named: Vec<&str> = gat.parameters.iter().map(|p| &p.name[..]).collect();
    let first = ["weight", "source", "target"].map(|name| format!("layers.0.{name}"));
    assert_eq!(named[..3], first);
    assert_eq!(named[3], "layers.0.bias");
    // Forward on its own keeps nothing for backward.
    let evaluation = gat.evaluation();
    assert!(evaluation.slots.iter().all(|slot| slot.of != SlotOf::Kept));
    let format = |slot| crate::Buffers::format(&gat, SlotId(slot), crate::RowFormat::Bf16);
    assert_eq!(
        (format(1), format(10), format(12)),
        (crate::RowFormat::F32, crate::RowFormat::F32, crate::RowFormat::F32)
    );
}

#[test]
fn gathers_stand_before_the_product_where_that_is_chosen() {
    let savings = Savings { aggregate_first: 0b10, ..Savings::default() };
    let wanted = [
        "linear 0 Forward 0>1",
        "gather 1>2 x16",
        // Bias, activation and dropout of what is gathered.
        "activate 1 Forward 2>3",
        "gather 3>4 x16",
        "linear 1 Forward 4>5",
        "cross-entropy 2 Loss 5>6",
        "linear 1 Backward 4,6>7",
        "gather' 7>8 x16",
        "activate 1 Backward 2,8>9",
        "gather' 9>10 x16",
        "linear 0 Backward 0,10>",
    ];
    let first = program("", savings);
    assert_eq!(sketch(&first), wanted);
    // What is drawn does not depend on the order.
    for text in ["", "kind = \"sage\"", "kind = \"gin\""] {
        let drawn = |savings| {
            let all = program(text, savings).parameters.into_iter().map(|p| (p.name, p.draw));
            let mut all: Vec<_> = all.filter(|(name, _)| name.ends_with("weight")).collect();
            all.sort();
            all
        };
        assert_eq!(drawn(savings), drawn(Savings::default()), "{text}");
    }
}

#[test]
fn propagation_adds_gradients_as_they_come() {
    let appnp = program("kind = \"appnp\"\nlayers = 1\nhops = 2", Savings::default());
    let wanted = [
        "linear 0 Forward 0>1",
        // The product's bias, for its rows are read as they are.
        "activate 1 Forward 1>2",
        "gather 2>3 x3",
        "sum 1 Forward 3,2>4",
        "gather 4>5 x3",
        "sum 1 Forward 5,2>6",
        "cross-entropy 2 Loss 6>7",
        "sum 1 Backward 7>8,9",
        "gather' 8>10 x3",
        "sum 1 Backward 10>11,12",
        "sum 1 Forward 9,12>13",
        "gather' 11>14 x3",
        "sum 1 Forward 13,14>15",
        "activate 1 Backward 1,15>16",
        "linear 0 Backward 0,16>",
    ];
    assert_eq!(sketch(&appnp), wanted);
    assert_eq!(appnp.parameters[1].name, "layers.0.bias");
}

#[test]
fn sgc_gathers_its_features_before_the_first_epoch() {
    let savings = Savings { gathered_features: true, ..Savings::default() };
    let once = program("kind = \"sgc\"\ndropout = 0", savings);
    let wanted = ["linear 0 Forward 0>1", "cross-entropy 1 Loss 1>2", "linear 0 Backward 0,2>"];
    assert_eq!(sketch(&once), wanted);
    assert_eq!(once.model.constant_gathers(), 2);
    let each = program("kind = \"sgc\"\ndropout = 0", Savings::default());
    assert_eq!(each.stages.len(), 7);
    assert_eq!(once.parameters, each.parameters);
}

#[test]
fn jumping_reads_every_layer_and_drops_of_each_by_itself() {
    let program = program("kind = \"gcn\"\njumping = \"concat\"", Savings::default());
    let draws: Vec<u32> =
        program.operations.iter().filter(|o| o.role.starts_with("from")).map(|o| o.draw).collect();
    assert_eq!(draws, [2, 2 | 1 << 16]);
    let names: Vec<&str> = program.parameters.iter().map(|p| &p.name[..]).collect();
    for name in ["layers.2.from.0.weight", "layers.2.from.1.weight", "layers.2.bias"] {
        assert!(names.contains(&name), "{names:?}");
    }
    assert!(program.evaluation().embeddings.is_some());
}

#[test]
fn every_model_writes_each_slot_once_and_reads_what_it_writes() {
    for seed in 0..300 {
        let program = random(&mut Random::new(seed));
        for program in [&program, &program.evaluation()] {
            for (id, stage) in (0u16..).map(StageId).zip(&program.stages) {
                assert!(program.dependencies(id).iter().all(|(before, _)| *before < id), "seed {seed}");
                for slot in stage.writes() {
                    let spec = &program.slots[slot.index()];
                    assert_eq!(spec.written_by, Some(id), "seed {seed}");
                    let lasts = program.scores == Some(slot) || program.embeddings == Some(slot);
                    assert!(lasts || spec.kept_until > id, "seed {seed}: slot {slot} is never read");
                }
                // A gather reads rows that are kept: never the features.
                assert!(!matches!(stage, Stage::Gather(g) if g.input == program.features), "seed {seed}");
            }
        }
        // Every parameter gets its gradient from one stage.
        for at in 0..program.parameters.len() {
            let owner = program.parameters[at].owner;
            let by = |stage: &&Stage| matches!(stage, Stage::Tensor(t) if t.operation == owner && t.direction != Direction::Forward);
            assert_eq!(program.stages.iter().filter(by).count(), 1, "seed {seed}, {at}");
        }
        assert_eq!(program.evaluation().evaluation(), program.evaluation(), "seed {seed}");
    }
}

#[test]
fn models_of_too_many_operations_are_refused() {
    let mut text = String::from("[[layers]]\nkernel = \"linear\"\n");
    for _ in 0..16 {
        text += "[[layers]]\nkernel = \"appnp\"\nhops = 64\n";
    }
    let model = Model::resolve(&ModelSettings::parse(&text, "m.toml").unwrap(), 9, 3).unwrap();
    let shape = DataShape { rows: 64, features: 9, classes: 3 };
    let error = Program::build(&model, shape, Savings::default(), &signature).unwrap_err();
    assert!(error.to_string().contains("at most 1024"), "{error}");
}

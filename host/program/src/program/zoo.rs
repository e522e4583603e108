//! Tests of programs for all layer kinds of graph models.
#![allow(clippy::unwrap_used, clippy::panic)]

use super::tests::sketch;
use super::*;
use crate::sample_programs::{random, signature};
use crate::testing::Random;
use eciton_recipe::model::{FeatureGather, ModelSettings};
use eciton_recipe::objective::TaskType;
use eciton_types::signature::{EdgeSignature, RowsSpec};

mod deep;

fn program(text: &str, rewrites: Rewrites) -> Program {
    let settings = ModelSettings::parse(text, "m.toml").unwrap();
    let model = Model::resolve(&settings, 9, 3, TaskType::Classification).unwrap();
    let shape = DataShape { rows: 64, features: 9, classes: 3, edge_features: 0, read_out: 0, group: 1 };
    Program::build(&model, shape, rewrites, &signature).unwrap()
}

#[test]
fn a_readout_is_a_gather_over_graphs() {
    let wanted = [
        "linear 0 Forward 0>1",
        "gather 1>2 x16",
        // Bias and activation before the sum.
        "activate 1 Forward 2>3",
        "readout 3>4 x16",
        "linear 2 Forward 4>5",
        "head 3 Loss 5>6",
        "linear 2 Backward 4,6>7",
        "readout' 7>8 x16",
        "activate 1 Backward 2,8>9",
        "gather' 9>10 x16",
        "linear 0 Backward 0,10>",
    ];
    let sum = program("layers = 1\nreadout = \"sum\"", Rewrites::default());
    assert_eq!(sketch(&sum), wanted);
    assert!(sum.model.readout().is_some());
    let names: Vec<&str> = sum.parameters.iter().map(|p| &p.name[..]).collect();
    assert_eq!(names, ["layers.0.weight", "layers.0.bias", "layers.2.weight", "layers.2.bias"]);
    assert_eq!(sum.model.name(), "gcn-readout-linear 9-16-16-3");
    let text = "hidden = 4\n[[layers]]\nkernel = \"gin\"\n[[layers]]\nkernel = \"readout\"\nreadout = \"max\"\n\
                [[layers]]\nkernel = \"linear\"\n[[layers]]\nkernel = \"linear\"\n";
    let max = program(text, Rewrites::default());
    let along = max.operations.iter().find_map(|operation| operation.along);
    assert_eq!(along, Some(Along { over: Over::Graphs, with_self: false, features: false }));
}

#[test]
fn behind_a_readout_there_are_no_neighbours() {
    let refused = |text: &str| {
        let settings = ModelSettings::parse(text, "m.toml").unwrap();
        Model::resolve(&settings, 9, 3, TaskType::Classification).unwrap_err().to_string()
    };
    let text = refused("[[layers]]\nkernel = \"readout\"\n[[layers]]\nkernel = \"linear\"\n");
    assert!(text.contains("\"readout\" in the first layer"), "{text}");
    let text = refused(
        "[[layers]]\nkernel = \"gcn\"\n[[layers]]\nkernel = \"readout\"\n[[layers]]\nkernel = \"gcn\"\n",
    );
    assert!(text.contains("\"gcn\" after a readout") && text.contains("`linear`"), "{text}");
    let text = refused("readout = \"mean\"\n[[layers]]\nkernel = \"gcn\"\n");
    assert!(text.contains("readout"), "{text}");
}

#[test]
fn pairs_take_the_place_of_the_head() {
    let settings = ModelSettings::parse("kind = \"gcn\"", "m.toml").unwrap();
    let model = Model::resolve(&settings, 9, 3, TaskType::LinkPrediction).unwrap();
    let shape = DataShape { rows: 64, features: 9, classes: 3, edge_features: 0, read_out: 0, group: 1 };
    let links = Program::build(&model, shape, Rewrites::default(), &signature).unwrap();
    let wanted = [
        "linear 0 Forward 0>1",
        "gather 1>2 x16",
        "linear 1 Forward 2>3",
        "gather 3>4 x3",
        "activate 1 Forward 4>5",
        "pairs all of 5>6",
        "activate 1 Backward 4,6>7",
        "gather' 7>8 x3",
        "linear 1 Backward 2,8>9",
        "gather' 9>10 x16",
        "linear 0 Backward 0,10>",
    ];
    assert_eq!(sketch(&links), wanted);
    assert_eq!(links.loss(), Some(StageId(5)));
    assert_eq!(links.dependencies(StageId(5)), [(StageId(4), Scope::All)]);
    assert!(crate::loss_gathers(&links, |_| false).is_empty());
    let names: Vec<&str> = links.parameters.iter().map(|p| &p.name[..]).collect();
    assert_eq!(names, ["layers.0.weight", "layers.1.weight", "layers.0.bias", "layers.1.bias"]);
    let evaluation = links.evaluation();
    assert_eq!(sketch(&evaluation), wanted[..5]);
    assert_eq!((evaluation.scores, evaluation.embeddings), (Some(SlotId(5)), Some(SlotId(2))));
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
        "head 2 Loss 8>9",
        // The sum's gradient is that of both products.
        "gather' 9>10 x3",
        "linear 1 Backward 4,10>11",
        "linear 1 Backward 4,9>12",
        "sum 0 Forward 11,12>13",
        "gather' 13>14 x16",
        "linear 0 Backward 0,14>",
        "linear 0 Backward 0,13>",
    ];
    let sage = program("kind = \"sage\"", Rewrites::default());
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
    // A bias is drawn with its product's bound, alike wherever it is added.
    let bias = |program: &Program, at: usize| {
        let bias = &program.parameters[at];
        (bias.initialiser, bias.draw, bias.position)
    };
    assert_eq!(sage.parameters[1].initialiser, Initialiser::Zeros);
    let text = "kind = \"sage\"\nfirst_weights = \"pytorch\"";
    let drawn = program(text, Rewrites::default());
    assert_eq!((drawn.parameters[0].initialiser, drawn.parameters[2].initialiser), (bound, bound));
    assert_eq!(bias(&drawn, 1), (bound, 0, 1 << 16));
    assert_eq!(bias(&drawn, 4), (Initialiser::Uniform(0.25), 1, 1 << 16));
    let gathered = program(text, Rewrites { aggregate_first: 0b11, ..Rewrites::default() });
    let of = |program: &Program| -> Vec<_> {
        let biases =
            (0..program.parameters.len()).filter(|&at| program.parameters[at].name.ends_with("bias"));
        biases.map(|at| bias(program, at)).collect()
    };
    assert_eq!(of(&gathered), of(&drawn));
    let gin = program("kind = \"gin\"\nfirst_weights = \"pytorch\"", Rewrites::default());
    let streams: Vec<u32> = of(&gin).iter().map(|(_, _, position)| *position).collect();
    assert_eq!(streams, [1 << 16, 1 << 16 | 1, 1 << 16, 1 << 16 | 1]);
    let glorot = program("kind = \"sage\"\nfirst_weights = \"glorot\"", Rewrites::default());
    assert_eq!(glorot.parameters[0].initialiser, Initialiser::GlorotUniform);
    // First values differ, dropped values do not.
    assert_eq!((sage.parameters[0].draw, sage.parameters[2].draw), (0, 1 << 16));
    assert_eq!((sage.operations[0].draw, sage.operations[1].draw), (0, 0));
    let all: Vec<String> = (0..16).map(|stage| sage.stage_name(StageId(stage))).collect();
    assert_eq!(all[..2], ["linear 0 self forward", "linear 0 neighbour forward"]);
    assert_eq!(all[12], "sum 0 gradients forward");
    let gathers: Vec<_> = sage.operations.iter().filter(|of| of.signature.is_none()).collect();
    assert_eq!(gathers.len(), 2);
    let normalisation = |of: &&Operation| crate::op::gather::normalisation(&of.attributes);
    assert!(gathers.iter().all(|of| normalisation(of) == Some(Normalisation::Mean)));
}

#[test]
fn sage_takes_the_maximum_before_its_product() {
    let wanted = [
        // Features are nobody's slot, so that a copy goes along edges.
        "activate 0 Forward 0>1",
        "maximum 0 forward 1,all of 1>2",
        "linear 0 Forward 1>3",
        "linear 0 Forward 2>4",
        "sum 0 Forward 3,4>5",
        // Activation and dropout, once for both.
        "activate 1 Forward 5>6",
        "maximum 1 forward 6,all of 6>7",
        "linear 1 Forward 6>8",
        "linear 1 Forward 7>9",
        "sum 1 Forward 8,9>10",
        "head 2 Loss 10>11",
        "linear 1 Backward 7,11>12",
        "linear 1 Backward 6,11>13",
        "maximum 1 targets 6,12,all of 6>14,15",
        "sum 1 Forward 13,14>16",
        "maximum 1 sources 6,all of 15>17",
        "sum 1 Forward 16,17>18",
        "activate 1 Backward 5,18>19",
        "linear 0 Backward 2,19>",
        "linear 0 Backward 1,19>",
    ];
    let max = program("kind = \"sage\"\naggregator = \"max\"", Rewrites::default());
    assert_eq!(sketch(&max), wanted);
    let widths: Vec<u32> = max.slots.iter().map(|slot| slot.width).collect();
    assert_eq!(widths[..11], [9, 9, 9, 16, 16, 16, 16, 16, 3, 3, 3]);
    assert_eq!(max.slots[15].width, 32);
    assert!(max.operation(StageId(1)).unwrap().along.is_some_and(|along| !along.with_self));
    // Nothing is chosen, and without dropout a copy of the features is made as well.
    let text = "kind = \"sage\"\naggregator = \"max\"\ndropout = 0";
    let rewrites = Rewrites { aggregate_first: 0b10, ..Rewrites::default() };
    assert_eq!(sketch(&program(text, rewrites))[..5], wanted[..5]);
    assert_eq!(program(text, rewrites).stages, program(text, Rewrites::default()).stages);
    // What is trained, and how it starts, is as with the mean.
    let mean = program("kind = \"sage\"", Rewrites::default());
    let trained = |program: &Program| -> Vec<_> {
        let all = program.parameters.iter();
        all.map(|p| (p.name.clone(), p.shape.clone(), p.initialiser, p.draw, p.position)).collect()
    };
    assert_eq!(trained(&max), trained(&mean));
    // A layer may say otherwise than the model.
    let text = "aggregator = \"max\"\n[[layers]]\nkernel = \"sage\"\naggregator = \"mean\"\n[[layers]]\nkernel = \"sage\"\n";
    let mixed = program(text, Rewrites::default());
    let names: Vec<String> = (0..8).map(|stage| mixed.stage_name(StageId(stage))).collect();
    assert_eq!((&names[2][..], &names[5][..]), ("gather 0", "maximum 1 forward"));
}

#[test]
fn attention_turns_by_row_before_it_sums_over_out_neighbours() {
    let wanted = [
        "attention 0 Forward 0>1",
        "attend forward 1>2,3",
        "attention 1 Forward 2>4",
        "attend forward 4>5,6",
        "head 2 Loss 5>7",
        "attend turn 4,5,6,7>8",
        "attend backward 8,4>9",
        "attention 1 Backward 2,4,9>10",
        "attend turn 1,2,3,10>11",
        "attend backward 11,1>12",
        "attention 0 Backward 0,1,12>",
    ];
    let gat = program("kind = \"gat\"\nheads = 4", Rewrites::default());
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
    assert!(evaluation.slots.iter().all(|slot| slot.of != SlotOf::Stashed));
    let format = |slot| crate::Buffers::format(&gat, SlotId(slot), eciton_recipe::RowFormat::Bf16);
    assert_eq!(
        (format(1), format(10), format(12)),
        (eciton_recipe::RowFormat::F32, eciton_recipe::RowFormat::F32, eciton_recipe::RowFormat::F32)
    );
}

#[test]
fn attention_along_edges_goes_back_by_target_and_then_by_source() {
    let wanted = [
        "linear 0 Forward 0>1",
        "linear 0 Forward 0>2",
        "gatv2 0 forward 2,all of 1>3,4",
        // The bias, once for both products.
        "activate 0 Forward 3>5",
        "linear 1 Forward 5>6",
        "linear 1 Forward 5>7",
        "gatv2 1 forward 7,all of 6>8,9",
        "head 2 Loss 8>10",
        "gatv2 1 targets 7,9,10,all of 6>11,12",
        "gatv2 1 sources 6,all of 12>13",
        "linear 1 Backward 5,11>14",
        "linear 1 Backward 5,13>15",
        "sum 0 Forward 14,15>16",
        "activate 0 Backward 3,16>17",
        "gatv2 0 targets 2,4,17,all of 1>18,19",
        "gatv2 0 sources 1,all of 19>20",
        "linear 0 Backward 0,18>",
        "linear 0 Backward 0,20>",
    ];
    let gatv2 = program("kind = \"gatv2\"\nheads = 4", Rewrites::default());
    assert_eq!(sketch(&gatv2), wanted);
    let widths: Vec<u32> = gatv2.slots.iter().map(|slot| slot.width).collect();
    let forward = [9, 16, 16, 16, 8, 16, 3, 3, 3, 2];
    assert_eq!(widths[..10], forward);
    assert_eq!(widths[10..], [3, 3, 9, 3, 16, 16, 16, 16, 16, 44, 16][..]);
    let names = [2, 8, 9].map(|stage| gatv2.stage_name(StageId(stage)));
    assert_eq!(names, ["gatv2 0 forward", "gatv2 1 targets", "gatv2 1 sources"]);
    let named: Vec<&str> = gatv2.parameters.iter().map(|p| &p.name[..]).collect();
    let first = ["source.weight", "source.bias", "target.weight", "target.bias", "attention", "bias"]
        .map(|name| format!("layers.0.{name}"));
    assert_eq!(named[..6], first);
    assert_eq!(gatv2.parameters[0].initialiser, Initialiser::GlorotUniform);
    // First values differ, dropped values do not.
    assert_eq!((gatv2.parameters[0].draw, gatv2.parameters[2].draw), (0, 1 << 16));
    assert!(gatv2.operations[..3].iter().all(|operation| operation.draw == 0));
    assert!(gatv2.operation(StageId(8)).unwrap().along.is_some_and(|along| along.with_self));
    assert_eq!(gatv2.stages[8].place, Place::Host);
    let yields: Vec<usize> = (0..18).filter(|&stage| !gatv2.stages[stage].sums.is_empty()).collect();
    assert_eq!(yields, [7, 8, 10, 11, 13, 14, 16, 17]);
    assert_eq!(gatv2.operation(StageId(9)).map(|operation| &operation.kernel[..]), Some("gatv2"));
    let needs = [(StageId(4), Scope::All), (StageId(5), Scope::Own), (StageId(6), Scope::Own)];
    assert_eq!(gatv2.dependencies(StageId(8))[..3], needs);
    let stored = |slot| crate::Buffers::format(&gatv2, SlotId(slot), eciton_recipe::RowFormat::Bf16);
    assert!(
        [1, 2, 3, 4, 10, 11, 12, 13, 20]
            .into_iter()
            .all(|slot| stored(slot) == eciton_recipe::RowFormat::F32)
    );
    assert_eq!(stored(5), eciton_recipe::RowFormat::Bf16);
    let counted = crate::Profile::default().stages(&gatv2, 1.0).unwrap();
    assert_eq!([2, 8, 9].map(|stage| counted[stage].gather_width), [32, 12, 36]);
    // In an evaluation the kernel keeps rows as well, which nobody reads.
    let evaluation = gatv2.evaluation();
    assert_eq!(sketch(&evaluation)[..7], wanted[..7]);
    assert_eq!(evaluation.slots[4].needed_until, StageId(2));
}

#[test]
fn kernels_of_ones_own_get_rows_that_are_done() {
    let text = "[[layers]]\nkernel = \"./rows.wasm\"\nwidth = 5\ndropout = 0.0\nattributes = { out = 5, scaled = true }\n\
                [[layers]]\nkernel = \"./edges.wasm\"\non = \"edges\"\nattributes = { out = 3 }\nbias = true\n";
    let own = program(text, Rewrites::default());
    let wanted = [
        "./rows.wasm 0 Forward 0>1",
        // Activation and dropout.
        "activate 1 Forward 1>2",
        "./edges.wasm 1 forward 2,all of 2>3",
        "head 2 Loss 3>4",
        "./edges.wasm 1 targets 2,4,all of 2>5,6",
        "./edges.wasm 1 sources 2,all of 6>7",
        "sum 1 Forward 5,7>8",
        "activate 1 Backward 1,8>9",
        "./rows.wasm 0 Backward 0,9>",
    ];
    assert_eq!(sketch(&own), wanted);
    let names: Vec<&str> = own.parameters.iter().map(|p| &p.name[..]).collect();
    assert_eq!(names, ["layers.0.scale", "layers.1.bias"]);
    assert_eq!(
        (own.stage_name(StageId(0)), own.stage_name(StageId(4))),
        ("rows 0 forward".into(), "edges 1 targets".into())
    );
    assert_eq!(own.dependencies(StageId(2)), [(StageId(1), Scope::All)]);
    assert_eq!(own.model.own_kernels(), ["./rows.wasm", "./edges.wasm"]);
    // Features are nobody's slot, so that a copy goes along edges; nothing trained stands before it.
    let text = "[[layers]]\nkernel = \"./edges.wasm\"\non = \"edges\"\nself_loops = false\nwidth = 4\ndropout = 0\n\
                attributes = { out = 4, scaled = true }\n[[layers]]\nkernel = \"linear\"\n";
    let first = program(text, Rewrites::default());
    let wanted = [
        "activate 0 Forward 0>1",
        "./edges.wasm 0 forward 1,all of 1>2",
        "linear 1 Forward 2>3",
        "head 2 Loss 3>4",
        "linear 1 Backward 2,4>5",
        "./edges.wasm 0 targets 1,5,all of 1>6",
    ];
    assert_eq!(sketch(&first), wanted);
    assert!(first.operation(StageId(1)).unwrap().along.is_some_and(|along| !along.with_self));
}

#[test]
fn kernels_of_the_other_interface_are_refused() {
    type Change = fn(&str, &mut Signature);
    let cases: [(Change, &str); 6] = [
        (
            |_, s| s.edges = None,
            "kernel `gatv2` (layer 0): interface is `vertex`, but the model needs `edge`",
        ),
        (
            |kernel, s| {
                if kernel == "linear" {
                    s.edges = Some(EdgeSignature { passed: s.inputs[0].clone() });
                }
            },
            "kernel `linear` (layer 0): interface is `edge`, but the model needs `vertex`",
        ),
        (|_, s| s.inputs.truncate(1), "inputs have the extents"),
        (|_, s| s.outputs[0].extents = vec![5], "outputs have the extents [[5]]"),
        (|_, s| s.kept[0].extents = vec![0], "kept rows \"softmax\""),
        (
            |_, s| s.edges = Some(EdgeSignature { passed: RowsSpec { name: "p".into(), extents: vec![0] } }),
            "passed rows \"p\" have the extents [0]",
        ),
    ];
    let settings = ModelSettings::parse("kind = \"gatv2\"\nheads = 4", "m.toml").unwrap();
    let model = Model::resolve(&settings, 9, 3, TaskType::Classification).unwrap();
    let shape = DataShape { rows: 64, features: 9, classes: 3, edge_features: 0, read_out: 0, group: 1 };
    for (change, words) in cases {
        let changed = |kernel: &str, inputs: &[Vec<u32>], attributes: &[Attribute]| {
            let mut found = signature(kernel, inputs, attributes)?;
            if kernel == "gatv2" || kernel == "linear" && words.contains("`linear`") {
                change(kernel, &mut found);
            }
            Ok::<_, String>(found)
        };
        let error = Program::build(&model, shape, Rewrites::default(), &changed).unwrap_err();
        assert!(error.to_string().contains(words), "{words}: {error}");
    }
}

#[test]
fn gathers_stand_before_the_product_where_that_is_chosen() {
    let rewrites = Rewrites { aggregate_first: 0b10, ..Rewrites::default() };
    let wanted = [
        "linear 0 Forward 0>1",
        "gather 1>2 x16",
        // Bias, activation and dropout of what is gathered.
        "activate 1 Forward 2>3",
        "gather 3>4 x16",
        "linear 1 Forward 4>5",
        "head 2 Loss 5>6",
        "linear 1 Backward 4,6>7",
        "gather' 7>8 x16",
        "activate 1 Backward 2,8>9",
        "gather' 9>10 x16",
        "linear 0 Backward 0,10>",
    ];
    let first = program("", rewrites);
    assert_eq!(sketch(&first), wanted);
    // What is drawn does not depend on the order.
    for text in ["", "kind = \"sage\"", "kind = \"gin\""] {
        let drawn = |rewrites| {
            let all = program(text, rewrites).parameters.into_iter().map(|p| (p.name, p.draw));
            let mut all: Vec<_> = all.filter(|(name, _)| name.ends_with("weight")).collect();
            all.sort();
            all
        };
        assert_eq!(drawn(rewrites), drawn(Rewrites::default()), "{text}");
    }
}

#[test]
fn propagation_adds_gradients_as_they_come() {
    let appnp = program("kind = \"appnp\"\nlayers = 1\nhops = 2", Rewrites::default());
    let wanted = [
        "linear 0 Forward 0>1",
        // The product's bias, for its rows are read as they are.
        "activate 1 Forward 1>2",
        "gather 2>3 x3",
        "sum 1 Forward 3,2>4",
        "gather 4>5 x3",
        "sum 1 Forward 5,2>6",
        "head 2 Loss 6>7",
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
    let rewrites = Rewrites { gathered_features: true, ..Rewrites::default() };
    let once = program("kind = \"sgc\"\ndropout = 0", rewrites);
    let wanted = ["linear 0 Forward 0>1", "head 1 Loss 1>2", "linear 0 Backward 0,2>"];
    assert_eq!(sketch(&once), wanted);
    assert_eq!(once.model.constant_gather(), Some(FeatureGather::Hops(2)));
    let each = program("kind = \"sgc\"\ndropout = 0", Rewrites::default());
    assert_eq!(each.stages.len(), 7);
    assert_eq!(once.parameters, each.parameters);
}

#[test]
fn sage_reads_what_was_gathered_beside_its_features_and_gin_in_their_place() {
    let rewrites = Rewrites { gathered_features: true, ..Rewrites::default() };
    let sage = program("kind = \"sage\"\nlayers = 1\ndropout = 0", rewrites);
    let wanted = [
        "linear 0 Forward 0>2",
        "linear 0 Forward 1>3",
        "sum 0 Forward 2,3>4",
        "head 1 Loss 4>5",
        "linear 0 Backward 1,5>",
        "linear 0 Backward 0,5>",
    ];
    assert_eq!(sketch(&sage), wanted);
    assert_eq!((sage.features, sage.gathered), (SlotId(0), Some(SlotId(1))));
    assert!(sage.slots[..2].iter().all(|slot| (slot.of, slot.width) == (SlotOf::Features, 9)));
    let gin = program("kind = \"gin\"\nlayers = 1\ndropout = 0", rewrites);
    let wanted = [
        "linear 0 Forward 0>1",
        "linear 0 Forward 1>2",
        "head 1 Loss 2>3",
        "linear 0 Backward 1,3>4",
        "linear 0 Backward 0,4>",
    ];
    assert_eq!((sketch(&gin), gin.gathered), (wanted.map(String::from).to_vec(), None));
    for (kind, once) in [("sage", sage), ("gin", gin)] {
        let each = program(&format!("kind = \"{kind}\"\nlayers = 1\ndropout = 0"), Rewrites::default());
        let first = |p: &Parameter| (p.name.clone(), p.shape.clone(), p.initialiser, p.draw, p.position);
        let [once, each] = [once, each].map(|of| of.parameters.iter().map(first).collect::<Vec<_>>());
        assert_eq!(once, each, "{kind}");
    }
}

#[test]
fn jumping_reads_every_layer_and_drops_of_each_by_itself() {
    let program = program("kind = \"gcn\"\njumping = \"concat\"", Rewrites::default());
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
        check_program(&random(&mut Random::new(seed)), seed);
    }
}

/// Checks that every slot is written once, before any stage reads it, and lasts until its last
/// reader.
fn check_program(program: &Program, seed: u64) {
    for program in [program, &program.evaluation(), &program.evaluation().without_embeddings()] {
        for (id, stage) in (0u16..).map(StageId).zip(&program.stages) {
            assert!(program.dependencies(id).iter().all(|(before, _)| *before < id), "seed {seed}");
            for slot in stage.writes() {
                let spec = &program.slots[slot.index()];
                assert_eq!(spec.written_by, Some(id), "seed {seed}");
                let lasts = program.scores == Some(slot) || program.embeddings == Some(slot);
                // Kernels keep rows for backward in an evaluation as well, and for sources that are
                // not trained.
                let kept = spec.of == SlotOf::Stashed
                    && (!program.trains() || program.operation(id).unwrap().along.is_some());
                assert!(lasts || kept || spec.needed_until > id, "seed {seed}: slot {slot} is never read");
            }
            // Of all intervals' rows a stage reads one slot at most, and never the features, which
            // are no slot's rows.
            let all: Vec<SlotId> =
                stage.reads().filter(|(_, scope)| *scope == Scope::All).map(|(slot, _)| slot).collect();
            let constant = |slot| program.slots[SlotId::index(slot)].of == SlotOf::Features;
            assert!(all.len() <= 1 && !all.iter().copied().any(constant), "seed {seed}");
        }
    }
    // Every trained parameter, and every further use of one, gets its gradient from one stage.
    for at in 0..program.parameters.len() + program.uses.len() {
        let by = |stage: &&Stage| stage.sums.contains(&eciton_types::ParameterId(at as u16));
        let trained = program.parameters.get(at).is_none_or(|parameter| !parameter.is_statistic);
        assert_eq!(program.stages.iter().filter(by).count(), usize::from(trained), "seed {seed}, {at}");
    }
    assert_eq!(program.evaluation().evaluation(), program.evaluation(), "seed {seed}");
}

#[test]
fn what_the_loss_does_not_reach_is_found_through_kernels_that_go_by_row() {
    let found = |text: &str, replaced: &str| {
        let program = program(text, Rewrites::default());
        let found = crate::loss_gathers(&program, |kernel| kernel == replaced);
        found.iter().map(|&id| program.stage_name(id)).collect::<Vec<_>>()
    };
    let last = ["gather 1", "gather 1 transposed"];
    for kind in ["gcn", "sage", "gin"] {
        let text = format!("kind = \"{kind}\"\nlayers = 2\nhidden = 4\n");
        assert_eq!(found(&text, ""), last, "{kind}");
        assert!(found(&text, "head").is_empty(), "{kind}");
    }
    // A product behind it, a norm that goes by row, one hop of several.
    let behind = "hidden = 4\nnorm = \"layer\"\nlayers = [{ kernel = \"gcn\" }, { kernel = \"gcn\" }, { kernel = \"linear\" }]\n";
    assert_eq!(found(behind, ""), last);
    assert_eq!(found("kind = \"appnp\"\nlayers = 2\nhidden = 4\n", ""), ["gather 2", "gather 2 transposed"]);
    // Where a kernel of the user's stands between.
    assert!(found(behind, "linear").is_empty() && found(behind, "normalise").is_empty());
    // A plain sum's gradient is that of what it adds, whatever adds it up.
    assert_eq!(found("kind = \"sage\"\nlayers = 2\nhidden = 4\n", "sum"), last[1..]);
    // Where another reads all rows, or another layer does.
    assert!(found(&behind.replace("layer\"", "batch\""), "").is_empty());
    let jumping =
        "kind = \"gcn\"\nlayers = [{}, {}, { kernel = \"linear\", jumping = \"concat\" }]\nhidden = 4\n";
    assert_eq!(found(jumping, ""), last);
    assert!(found("kind = \"gat\"\nheads = 2\nlayers = 2\nhidden = 4\n", "").is_empty());
}

#[test]
fn models_of_too_many_operations_are_refused() {
    let mut text = String::from("[[layers]]\nkernel = \"linear\"\n");
    for _ in 0..64 {
        text += "[[layers]]\nkernel = \"appnp\"\nhops = 64\n";
    }
    let model =
        Model::resolve(&ModelSettings::parse(&text, "m.toml").unwrap(), 9, 3, TaskType::Classification)
            .unwrap();
    let shape = DataShape { rows: 64, features: 9, classes: 3, edge_features: 0, read_out: 0, group: 1 };
    let error = Program::build(&model, shape, Rewrites::default(), &signature).unwrap_err();
    assert!(error.to_string().contains("the maximum is 4096"), "{error}");
}

#[test]
fn batch_normalisation_reads_all_atoms_once_forward_and_once_backward() {
    let found = program(
        "hidden = 4\n[[layers]]\nkernel = \"linear\"\nnorm = \"batch\"\n[[layers]]\nkernel = \"linear\"\n",
        Rewrites::default(),
    );
    assert_eq!(
        sketch(&found),
        [
            "linear 0 Forward 0>1",
            "batch moments 1>2",
            "batch forward 1,all of 2>3",
            "normalise 0 Forward 3>4",
            "linear 1 Forward 4>5",
            "head 2 Loss 5>6",
            "linear 1 Backward 4,6>7",
            "normalise 0 Backward 3,7>8",
            "batch turn 3,8>9",
            "batch sums 9>10",
            "batch backward 3,9,all of 10>11",
            "linear 0 Backward 0,11>",
        ]
    );
    // Two values per column, and the number of rows.
    assert_eq!([9, 10, 2].map(|slot: usize| found.slots[slot].width), [8, 18, 18]);
    assert!([2, 10].iter().all(|&slot: &usize| found.slots[slot].domain == Domain::ATOMS));
    let bias =
        |parameter: &Parameter| parameter.name.starts_with("layers.0.") && parameter.name.ends_with("bias");
    assert!(!found.parameters.iter().any(bias), "it would go with the mean");
}

#[test]
fn pair_norm_is_five_stages_and_trains_nothing() {
    let text =
        "hidden = 4\n[[layers]]\nkernel = \"sage\"\nnorm = \"pair\"\n[[layers]]\nkernel = \"linear\"\n";
    let found = program(&text.replace("sage", "linear"), Rewrites::default());
    assert_eq!(
        sketch(&found),
        [
            "linear 0 Forward 0>1",
            "pair moments 1>2",
            "pair forward 1,all of 2>3",
            "linear 1 Forward 3>4",
            "head 2 Loss 4>5",
            "linear 1 Backward 3,5>6",
            "pair turn 3,6>7",
            "pair sums 7>8",
            "pair backward 3,7,all of 8>9",
            "linear 0 Backward 0,9>",
        ]
    );
    assert_eq!(found.slots[7].width, 5, "a gradient, and its product with the row");
    let of = |text: &str| -> Vec<String> {
        let all = program(text, Rewrites::default()).parameters;
        all.into_iter().map(|parameter| parameter.name).filter(|name| name.starts_with("layers.0.")).collect()
    };
    assert_eq!(of(&text.replace("sage", "linear")), ["layers.0.weight"]);
    assert_eq!(of(text), ["layers.0.self.weight", "layers.0.neighbour.weight"], "no bias either");
}

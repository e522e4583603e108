//! Tests of programs for deep networks: images, sequences, and layers with named inputs.
#![allow(clippy::unwrap_used, clippy::panic)]

use super::super::tests::sketch;
use super::*;
use crate::sample_programs::{deep_model as model, random_deep as random};
use eciton_types::signature::Value;

fn program(text: &str, (features, classes, group): (u32, u32, u32)) -> Program {
    let model = model(text, features, classes).unwrap();
    let shape = DataShape { rows: 64, features, classes, edge_features: 0, read_out: 0, group };
    Program::build(&model, shape, Rewrites::default(), &signature).unwrap()
}

fn names(program: &Program) -> Vec<&str> {
    program.parameters.iter().map(|p| &p.name[..]).collect()
}

#[test]
fn a_transformer_is_norms_products_and_sums() {
    let text = "hidden = 6\ndropout = 0\n[[layers]]\nkernel = \"embedding\"\nentries = 11\npositions = true\n\
                [[layers]]\nkernel = \"transformer\"\nheads = 2\ncausal = true\nnorm = \"rms\"\n\
                [[layers]]\nkernel = \"normalise\"\nnorm = \"rms\"\n[[layers]]\nkernel = \"linear\"\n";
    let found = program(text, (1, 11, 8));
    let wanted = [
        "embedding 0 Forward 0>1",
        "normalise 1 Forward 1>2",
        "linear 1 Forward 2>3",
        "self-attention 1 Forward 3>4",
        "linear 1 Forward 4>5",
        "sum 1 Forward 1,5>6",
        "normalise 1 Forward 6>7",
        "linear 1 Forward 7>8",
        "activate 1 Forward 8>9",
        "linear 1 Forward 9>10",
        "sum 1 Forward 6,10>11",
        "normalise 2 Forward 11>12",
        "linear 3 Forward 12>13",
        "head 4 Loss 13>14",
        "linear 3 Backward 12,14>15",
        "normalise 2 Backward 11,15>16",
        "linear 1 Backward 9,16>17",
        "activate 1 Backward 8,17>18",
        "linear 1 Backward 7,18>19",
        "normalise 1 Backward 6,19>20",
        "sum 1 Forward 16,20>21",
        "linear 1 Backward 4,21>22",
        "self-attention 1 Backward 3,22>23",
        "linear 1 Backward 2,23>24",
        "normalise 1 Backward 1,24>25",
        "sum 0 Forward 21,25>26",
        "embedding 0 Backward 0,26>",
    ];
    assert_eq!(sketch(&found), wanted);
    let widths: Vec<u32> = found.slots[..12].iter().map(|slot| slot.width).collect();
    assert_eq!(widths, [1, 6, 6, 18, 6, 6, 6, 6, 24, 24, 6, 6]);
    let layer = |at: usize, names: &[&str]| -> Vec<String> {
        names.iter().map(|name| format!("layers.{at}.{name}")).collect()
    };
    let of_one: Vec<&str> = names(&found).into_iter().filter(|name| name.starts_with("layers.1.")).collect();
    let wanted = [
        "norm.0.scale",
        "norm.0.shift",
        "qkv.weight",
        "qkv.bias",
        "output.weight",
        "output.bias",
        "norm.1.scale",
        "norm.1.shift",
        "mlp.0.weight",
        "mlp.0.bias",
        "mlp.1.weight",
        "mlp.1.bias",
    ];
    assert_eq!(of_one, layer(1, &wanted));
    // Kernels that go by groups are told of them, and only these.
    let told: Vec<&str> = found
        .operations
        .iter()
        .filter(|of| of.attributes.contains(&Attribute::new("group", Value::Integer(8))))
        .map(|of| &of.kernel[..])
        .collect();
    assert_eq!(told, ["embedding", "self-attention"]);
    assert_eq!(found.parameters[1].shape, [8, 6]);
    // Four products of one layer are drawn by themselves, and two values dropped by themselves.
    let draws: Vec<u32> =
        found.parameters.iter().filter(|p| p.name.ends_with("weight")).map(|p| p.draw).collect();
    assert_eq!(draws, [0, 1, 1 | 1 << 16, 1 | 2 << 16, 1 | 3 << 16, 3]);
    let dropped = program(&text.replace("dropout = 0", "dropout = 0.1"), (1, 11, 8));
    let draws: Vec<u32> = dropped
        .operations
        .iter()
        .filter(|of| of.attributes.contains(&Attribute::new("dropout", Value::Number(0.1))))
        .map(|of| of.draw)
        .collect();
    assert_eq!(draws, [1 | 1 << 16, 1 | 2 << 16, 3]);
    // Of each token a query meets 8 keys, and 8 values are weighed: 2 x 2 x 8 x 6 operations, and others.
    let attention = &found.stages[3];
    assert_eq!(attention.cost.flops, 2.0 * 2.0 * 8.0 * 6.0 + 8.0 * 24.0);
    assert_eq!(found.stages[0].cost.feature_flops, 0.0);
}

#[test]
fn images_flow_from_layer_to_layer() {
    let text = "hidden = 4\ndropout = 0\n[[layers]]\nkernel = \"conv2d\"\nimage = [6, 5, 3]\npadding = 1\n\
                [[layers]]\nkernel = \"conv2d\"\nchannels = 7\nstride = 2\nnorm = \"layer\"\nactivation = \"gelu\"\n\
                [[layers]]\nkernel = \"pool2d\"\npool = \"mean\"\n[[layers]]\nkernel = \"linear\"\n";
    let model = model(text, 90, 3).unwrap();
    let images: Vec<_> = model.layers.iter().map(|layer| layer.image).collect();
    let image = |height, width, channels| Some(eciton_recipe::model::Image(height, width, channels));
    assert_eq!(images, [image(6, 5, 4), image(2, 2, 7), image(1, 1, 7), None]);
    let found = program(text, (90, 3, 1));
    let wanted = [
        // The activation is done on the way out.
        "conv2d 0 Forward 0>1",
        "conv2d 1 Forward 1>2",
        "normalise 1 Forward 2>3",
        "activate 1 Forward 3>4",
        "pool2d 2 Forward 4>5",
        "linear 3 Forward 5>6",
        "head 4 Loss 6>7",
        "linear 3 Backward 5,7>8",
        "pool2d 2 Backward 4,8>9",
        "activate 1 Backward 3,9>10",
        "normalise 1 Backward 2,10>11",
        "conv2d 1 Backward 1,11>12",
        "conv2d 0 Backward 0,1,12>",
    ];
    assert_eq!(sketch(&found), wanted);
    assert_eq!(found.parameters[0].shape, [27, 4]);
    assert_eq!(found.parameters[0].initialiser, Initialiser::Uniform((1.0 / f64::from(27).sqrt()) as f32));
    // 7 channels at 2 x 2 places, each of 36 products, and 120 + 28 values.
    assert_eq!(found.stages[1].cost.flops, 2.0 * 36.0 * 7.0 * 4.0 + 8.0 * 148.0);
    let text = |name: &str| Attribute::new("activation", Value::Text(name.to_owned()));
    assert!(found.operations[0].attributes.contains(&text("relu")));
    assert!(found.operations[1].attributes.contains(&text("identity")));
}

#[test]
fn layers_read_what_they_name_and_gradients_of_several_readers_are_added() {
    let text = "hidden = 4\ndropout = 0\n[[layers]]\nkernel = \"linear\"\nname = \"stem\"\n\
                [[layers]]\nkernel = \"gcn\"\nname = \"left\"\n\
                [[layers]]\nkernel = \"linear\"\nname = \"right\"\ninputs = [\"stem\"]\n\
                [[layers]]\nkernel = \"product\"\nname = \"gated\"\ninputs = [\"left\", \"right\"]\n\
                [[layers]]\nkernel = \"concat\"\ninputs = [\"gated\", \"features\", \"stem\"]\n\
                [[layers]]\nkernel = \"slice\"\nstart = 2\ncount = 9\n[[layers]]\nkernel = \"linear\"\n";
    let found = program(text, (9, 3, 1));
    let wanted = [
        "linear 0 Forward 0>1",
        // Three read the stem: its bias and activation are done once.
        "activate 0 Forward 1>2",
        "linear 1 Forward 2>3",
        "gather 3>4 x4",
        "linear 2 Forward 2>5",
        "activate 3 Forward 4>6",
        "activate 3 Forward 5>7",
        "product 3 Forward 6,7>8",
        // The features may be sparse.
        "activate 4 Forward 0>9",
        "concat 4 Forward 8,9,2>10",
        "slice 5 Forward 10>11",
        "linear 6 Forward 11>12",
        "head 7 Loss 12>13",
        "linear 6 Backward 11,13>14",
        "slice 5 Backward 14>15",
        "concat 4 Backward 15>16,17",
        "product 3 Backward 6,7,16>18,19",
        "activate 3 Backward 5,19>20",
        "activate 3 Backward 4,18>21",
        "linear 2 Backward 2,20>22",
        "sum 0 Forward 17,22>23",
        "gather' 21>24 x4",
        "linear 1 Backward 2,24>25",
        "sum 0 Forward 23,25>26",
        "activate 0 Backward 1,26>27",
        "linear 0 Backward 0,27>",
    ];
    assert_eq!(sketch(&found), wanted);
    assert_eq!(found.slots[2].needed_until, StageId(22));
    assert_eq!(found.slots[10].width, 4 + 9 + 4);
    let evaluation = found.evaluation();
    assert_eq!(evaluation.embeddings, Some(SlotId(11)));
}

#[test]
fn a_convolution_feeds_a_graph() {
    let text = "hidden = 4\ndropout = 0\n[[layers]]\nkernel = \"conv2d\"\nimage = [4, 4, 1]\n\
                [[layers]]\nkernel = \"pool2d\"\n[[layers]]\nkernel = \"gcn\"\n[[layers]]\nkernel = \"gcn\"\n";
    let found = program(text, (16, 3, 1));
    assert_eq!(
        sketch(&found)[..4],
        ["conv2d 0 Forward 0>1", "pool2d 1 Forward 1>2", "linear 2 Forward 2>3", "gather 3>4 x4"]
    );
    let reached = crate::loss_gathers(&found, |_| false);
    assert_eq!(
        reached.iter().map(|&id| found.stage_name(id)).collect::<Vec<_>>(),
        ["gather 3", "gather 3 transposed"]
    );
}

#[test]
fn what_takes_the_features_place_does_so_for_their_only_reader() {
    let text = "kind = \"gcn\"\nhidden = 4\ndropout = 0\n[[layers]]\nkernel = \"gcn\"\nname = \"a\"\n[[layers]]\nkernel = \"linear\"\n\
                inputs = [\"features\"]\nname = \"b\"\n[[layers]]\nkernel = \"sum\"\ninputs = [\"a\", \"b\"]\n\
                [[layers]]\nkernel = \"linear\"\n";
    assert_eq!(model(text, 9, 3).unwrap().constant_gather(), None);
    let sage = text.replacen("\"gcn\"\nname", "\"sage\"\nname", 1);
    assert_eq!(model(&sage, 9, 3).unwrap().constant_gather(), Some(FeatureGather::Beside));
}

#[test]
fn kernels_of_ones_own_read_several_layers() {
    let text = "hidden = 4\ndropout = 0\n[[layers]]\nkernel = \"linear\"\nname = \"a\"\n[[layers]]\nkernel = \"linear\"\n\
                name = \"b\"\n[[layers]]\nkernel = \"./two.wasm\"\nwidth = 3\nattributes = { out = 3 }\ninputs = [\"a\", \"b\"]\n";
    let found = program(text, (9, 3, 1));
    let names: Vec<String> = sketch(&found).into_iter().filter(|line| line.starts_with("./two")).collect();
    assert_eq!(names, ["./two.wasm 2 Forward 2,4>5", "./two.wasm 2 Backward 2,4,6>7,8"]);
}

#[test]
fn every_graph_of_layers_writes_each_slot_once_and_trains_each_parameter_once() {
    for seed in 0..400 {
        check_program(&random(&mut Random::new(seed)), seed);
    }
}

const TIED: &str = "hidden = 6\ndropout = 0\n[[layers]]\nkernel = \"embedding\"\nname = \"words\"\n\
                    [[layers]]\nkernel = \"normalise\"\n[[layers]]\nkernel = \"linear\"\nweights_of = \"words\"\n";

#[test]
fn a_weight_of_two_layers_is_one_parameter_with_a_gradient_of_each_use() {
    let found = program(TIED, (1, 11, 1));
    let shapes: Vec<_> = found.parameters.iter().map(|p| (&p.name[..], &p.shape[..])).collect();
    let (scale, shift) = (("layers.1.norm.scale", &[6][..]), ("layers.1.norm.shift", &[6][..]));
    assert_eq!(shapes, [("layers.0.weight", &[11, 6][..]), scale, shift, ("layers.2.bias", &[11][..])]);
    let [own, further] = [eciton_types::ParameterId(0), eciton_types::ParameterId(4)];
    assert_eq!(found.uses, [own]);
    assert_eq!((found.owner(further), found.owner(own)), (own, own));
    assert_eq!(found.parameter(further), found.parameters.first());
    assert_eq!(found.parameter(eciton_types::ParameterId(5)), None);
    let by = |id: eciton_types::ParameterId| {
        let yields = |stage: &&Stage| stage.sums.contains(&id);
        found.stages.iter().filter(yields).map(|stage| &stage.name[..]).collect::<Vec<_>>()
    };
    assert_eq!((by(own), by(further)), (vec!["embedding 0 backward"], vec!["linear 2 backward"]));
    let transposed = Attribute::new("transposed", Value::Flag(true));
    assert!(found.operations[2].attributes.contains(&transposed));
    // The product counts, the rows that are looked up do not.
    assert_eq!(found.stages[2].cost.flops, 2.0 * 66.0 + 8.0 * 17.0);
    assert_eq!((found.evaluation().uses, found.evaluation().parameters.len()), (vec![own], 4));
    let squares = "hidden = 5\ndropout = 0\n[[layers]]\nkernel = \"linear\"\n[[layers]]\nkernel = \"gcn\"\nname = \"a\"\n\
                   [[layers]]\nkernel = \"linear\"\nweights_of = \"a\"\n[[layers]]\nkernel = \"linear\"\n";
    let found = program(squares, (9, 3, 1));
    assert!(!found.operations.iter().any(|of| of.attributes.contains(&transposed)));
    assert_eq!(found.uses.len(), 1);
    let back = "hidden = 5\ndropout = 0\n[[layers]]\nkernel = \"linear\"\nname = \"a\"\n[[layers]]\nkernel = \"linear\"\n\
                weights_of = \"a\"\nwidth = 9\n[[layers]]\nkernel = \"linear\"\n";
    let found = program(back, (9, 3, 1));
    assert_eq!(found.operations.iter().filter(|of| of.attributes.contains(&transposed)).count(), 1);
}

#[test]
fn weights_that_do_not_fit_are_not_shared() {
    let refused = |text: &str| model(text, 9, 3).unwrap_err().to_string();
    let list = |last: &str| {
        format!(
            "hidden = 4\n[[layers]]\nkernel = \"linear\"\nname = \"a\"\n[[layers]]\nkernel = {last}\n[[layers]]\nkernel = \"linear\"\n"
        )
    };
    let found = refused(&list("\"gcn\"\nweights_of = \"a\""));
    assert!(found.contains("\"a\", whose weight is [9, 4]") && found.contains("[4, 4] or [4, 4]"), "{found}");
    let found = refused(&list("\"sage\"\nweights_of = \"a\""));
    assert!(found.contains("layers of this kind cannot share a weight"), "{found}");
    let found = refused(&list("\"gcn\"\nweights_of = \"b\""));
    assert!(found.contains("which is not the name of a layer") && found.contains("m.toml:7:"), "{found}");
    let twice = list("\"linear\"\nname = \"b\"\nweights_of = \"a\"\nwidth = 9") + "weights_of = \"b\"\n";
    let found = refused(&twice);
    assert!(found.contains("which shares the weight of another layer"), "{found}");
    let other = list("\"activate\"\nname = \"b\"") + "weights_of = \"b\"\n";
    assert!(refused(&other).contains("which has no weight to share"), "{}", refused(&other));
}

#[test]
fn a_layer_may_have_a_loss_of_its_own() {
    let text = "hidden = 4\ndropout = 0\n[[layers]]\nkernel = \"linear\"\nname = \"a\"\n\
                [[layers]]\nkernel = \"linear\"\nloss_weight = 0.25\n\
                [[layers]]\nkernel = \"gcn\"\ninputs = [\"a\"]\n[[layers]]\nkernel = \"linear\"\n";
    let found = program(text, (9, 3, 1));
    let names: Vec<_> = found.losses.iter().map(|loss| &found.stages[loss.stage.index()].name[..]).collect();
    assert_eq!(names, ["head 4 loss", "head 1 loss"]);
    assert_eq!(found.losses.iter().map(|loss| loss.weight).collect::<Vec<_>>(), [1.0, 0.25]);
    assert!(found.parameters.iter().any(|p| p.name == "layers.1.bias" && p.shape == [3]));
    let evaluation = found.evaluation();
    assert!(!evaluation.trains() && !evaluation.stages.iter().any(|stage| stage.name.starts_with("head 1")));
    let refused = |from: &str, to: &str| {
        let text = text.replacen(from, to, 1);
        model(&text, 9, 3).unwrap_err().to_string()
    };
    for (from, to, part) in [
        ("loss_weight = 0.25", "loss_weight = 0.25\nwidth = 7", "3, the number of classes"),
        ("loss_weight = 0.25", "loss_weight = 0.25\nactivation = \"relu\"", "layers with a `loss_weight`"),
        ("loss_weight = 0.25", "loss_weight = 0", "above 0, at most 1000"),
        ("loss_weight = 0.25", "", "or used with a `loss_weight`; otherwise remove the layer"),
        ("inputs = [\"a\"]\n[[layers]]\n", "[[layers]]\nloss_weight = 2\n", "whose loss has the weight 1"),
    ] {
        let found = refused(from, to);
        assert!(found.contains(part), "{found}");
    }
}

#[test]
fn first_values_are_said_by_model_layer_and_name() {
    let text = "hidden = 4\ndropout = 0\ninit = { kind = \"normal\", std = 0.5, scaled_by_depth = true, parameters = { \"layers.0.weight\" = { kind = \"zeros\" }, bias = { kind = \"constant\", value = -2 } } }\n\
                [[layers]]\nkernel = \"linear\"\n[[layers]]\nkernel = \"transformer\"\nheads = 2\n\
                [[layers]]\nkernel = \"linear\"\nresidual = true\ninit = { kind = \"orthogonal\", parameters = { bias = { kind = \"uniform\", bound = 0.25 } } }\n\
                [[layers]]\nkernel = \"linear\"\nresidual = true\n[[layers]]\nkernel = \"linear\"\n";
    let found = program(text, (9, 3, 1));
    let of = |name: &str| found.parameters.iter().find(|p| p.name == name).unwrap().initialiser;
    assert_eq!(of("layers.0.weight"), Initialiser::Zeros);
    assert_eq!(of("layers.0.bias"), Initialiser::Constant(-2.0));
    assert_eq!(of("layers.1.qkv.weight"), Initialiser::Normal(0.5));
    // Four sums: two of the block, one of each residual layer.
    assert_eq!(of("layers.1.output.weight"), Initialiser::Normal(0.25));
    assert_eq!(of("layers.1.mlp.1.weight"), Initialiser::Normal(0.25));
    assert_eq!(of("layers.1.mlp.0.weight"), Initialiser::Normal(0.5));
    assert_eq!(of("layers.1.norm.0.scale"), Initialiser::Constant(1.0));
    assert_eq!(of("layers.2.weight"), Initialiser::Orthogonal(1.0));
    assert_eq!(of("layers.2.bias"), Initialiser::Uniform(0.25));
    assert_eq!(of("layers.3.weight"), Initialiser::Normal(0.25));
    assert_eq!(of("layers.4.weight"), Initialiser::Normal(0.5));
    let written = toml::to_string(&found.model).unwrap();
    assert_eq!(toml::from_str::<Model>(&written).unwrap(), found.model, "{written}");
    let settings = ModelSettings::parse(text, "m.toml").unwrap();
    let config = eciton_recipe::Config { model: settings, ..eciton_recipe::Config::default() };
    let written = config.to_toml().unwrap();
    assert_eq!(eciton_recipe::Config::parse(&written, "again").unwrap().model, config.model, "{written}");
    let shape = DataShape { rows: 64, features: 9, classes: 3, edge_features: 0, read_out: 0, group: 1 };
    let unknown =
        model(&text.replace("{ bias = { kind = \"uniform\"", "{ b = { kind = \"uniform\""), 9, 3).unwrap();
    let error = Program::build(&unknown, shape, Rewrites::default(), &signature).unwrap_err().to_string();
    assert_eq!(
        error,
        "`model.layers[2].init` names the parameter \"b\", which does not exist: remove it, or use one of bias, weight"
    );
}

#[test]
fn ways_to_draw_that_are_none_are_refused() {
    let refused =
        |init: &str| ModelSettings::parse(&format!("init = {init}\n"), "m.toml").unwrap_err().to_string();
    for (init, words) in [
        ("3", "a table, as"),
        ("\"glorot\"", "a table, as"),
        ("{}", "a table, as"),
        ("{ std = 1.0 }", "a table, as"),
        ("{ kind = \"normal\", bound = 1.0 }", "this kind has `std` and `scaled_by_depth`"),
        ("{ kind = \"zeros\", std = 1.0 }", "this kind has `scaled_by_depth`"),
        ("{ kind = \"uniform\" }", "a table with `bound` as well"),
        ("{ kind = \"normal\", std = -1.0 }", "a number of 0 or more"),
        ("{ kind = \"constant\", value = inf }", "a finite number"),
        ("{ kind = \"laplace\" }", "\"orthogonal\""),
        ("{ parameters = {} }", "1 to 256 names"),
        ("{ parameters = { a = 1 } }", "a table, as"),
        ("{ kind = \"normal\", scaled_by_depth = 1 }", "true or false"),
    ] {
        let found = refused(init);
        assert!(found.contains(words), "{init}: {found}");
    }
}

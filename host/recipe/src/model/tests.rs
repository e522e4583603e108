//! Tests of model settings and of the models that they resolve to.
#![allow(clippy::unwrap_used)]

mod deep;

use super::*;
use crate::error::{Error, Result};
use eciton_types::signature::Value;

fn gcn(width: u32, activation: Activation, dropout: f64, bias: bool) -> ModelLayer {
    let (kind, norm) = (LayerKind::Gcn, Norm::None);
    let first_weights = FirstWeights::Glorot;
    let (residual, edge_features, of_graphs) = (false, false, false);
    let (name, inputs, image, weights_of) = (None, None, None, None);
    let init = Init::default();
    ModelLayer {
        kind,
        width,
        first_weights,
        dropout,
        bias,
        norm,
        activation,
        residual,
        edge_features,
        name,
        inputs,
        image,
        of_graphs,
        weights_of,
        loss_weight: None,
        init,
    }
}

#[test]
fn defaults_are_kipf_and_welling() {
    let model = Model::resolve(&ModelSettings::default(), 1433, 7, TaskType::Classification).unwrap();
    assert_eq!(model, Model::gcn(2, 16, 0.5, 1433, 7).unwrap());
    let (relu, none) = (Activation::Relu, Activation::Identity);
    let layer = |width, activation| gcn(width, activation, 0.5, true);
    assert_eq!(model.layers, [layer(16, relu), layer(7, none)]);
    assert_eq!((model.input_width(0), model.input_width(1)), (1433, 16));
}

#[test]
fn layers_override_the_model() {
    let text = "hidden = 8\ndropout = 0\n[[layers]]\nkernel = \"gcn\"\nwidth = 32\n\
                activation = \"tanh\"\n[[layers]]\nkernel = \"gcn\"\nbias = false\n\
                [[layers]]\nkernel = \"gcn\"\ndropout = 0.25\n";
    let settings = ModelSettings::parse(text, "m.toml").unwrap();
    let model = Model::resolve(&settings, 5, 3, TaskType::Classification).unwrap();
    let wanted = [
        gcn(32, Activation::Tanh, 0.0, true),
        gcn(8, Activation::Relu, 0.0, false),
        gcn(3, Activation::Identity, 0.25, true),
    ];
    assert_eq!(model.layers, wanted);
}

#[test]
fn models_that_do_not_fit_are_refused() {
    let refused = |text: &str, classes| {
        let settings = ModelSettings::parse(text, "m.toml").unwrap();
        Model::resolve(&settings, 5, classes, TaskType::Classification).unwrap_err().to_string()
    };
    let wide = "[[layers]]\nkernel = \"gcn\"\nwidth = 4\n";
    assert!(refused(wide, 3).contains("3, the number of classes"));
    let relu = "[[layers]]\nkernel = \"gcn\"\nactivation = \"relu\"\n";
    assert!(refused(relu, 3).contains("\"identity\""));
    assert!(refused("", 1).contains("1 classes"));
    assert!(Model::gcn(257, 16, 0.5, 5, 3).is_err());
    assert!(Model::gcn(u32::MAX, 16, 0.5, 5, 3).is_err());
    assert!(Model::gcn(0, 16, 0.5, 5, 3).is_err());
    assert!(Model::gcn(2, 0, 0.5, 5, 3).is_err());
    assert!(Model::gcn(2, 16, 1.0, 5, 3).is_err());
    assert!(Model::gcn(2, 16, f64::NAN, 5, 3).is_err());
    assert!(Model::gcn(256, 16, 0.5, 5, 3).is_ok());
    let error = ModelSettings::parse("file = \"x\"", "m.toml").unwrap_err();
    assert!(matches!(error, Error::UnknownKey { .. }), "{error}");
}

fn resolved(text: &str) -> Result<Model> {
    Model::resolve(&ModelSettings::parse(text, "m.toml")?, 5, 3, TaskType::Classification)
}

fn kinds(text: &str) -> Vec<(LayerKind, u32)> {
    resolved(text).unwrap().layers.into_iter().map(|layer| (layer.kind, layer.width)).collect()
}

#[test]
fn kinds_stand_for_their_layers() {
    let gin = || LayerKind::Gin { epsilon: 0.0, trained: false };
    let linear = || LayerKind::Linear { jumping: None };
    let sage = |aggregator, width| (LayerKind::Sage { aggregator }, width);
    assert_eq!(kinds("kind = \"sage\""), [sage(Aggregator::Mean, 16), sage(Aggregator::Mean, 3)]);
    let found = kinds("kind = \"sage\"\naggregator = \"max\"");
    assert_eq!(found, [sage(Aggregator::Max, 16), sage(Aggregator::Max, 3)]);
    assert_eq!(kinds("kind = \"gin\"\nlayers = 3\nhidden = 4"), [(gin(), 4), (gin(), 4), (gin(), 3)]);
    assert_eq!(kinds("kind = \"sgc\""), [(LayerKind::Sgc { hops: 2 }, 3)]);
    assert_eq!(kinds("kind = \"sgc\"\nhops = 5"), [(LayerKind::Sgc { hops: 5 }, 3)]);
    assert_eq!(kinds("kind = \"mlp\"\nlayers = 1"), [(linear(), 3)]);
    let appnp = |hops, alpha| (LayerKind::Appnp { hops, alpha }, 3);
    assert_eq!(kinds("kind = \"appnp\""), [(linear(), 16), (linear(), 3), appnp(10, 0.1)]);
    assert_eq!(kinds("kind = \"appnp\"\nhops = 4\nalpha = 0.2\nlayers = 1"), [(linear(), 3), appnp(4, 0.2)]);
    let jumping = LayerKind::Linear { jumping: Some(Jumping::Concat) };
    let found = kinds("jumping = \"concat\"");
    assert_eq!(found, [(LayerKind::Gcn, 16), (LayerKind::Gcn, 16), (jumping, 3)]);
    let model = resolved("kind = \"appnp\"\ndropout = 0.8").unwrap();
    assert_eq!(model.layers.iter().map(|l| l.dropout).collect::<Vec<_>>(), [0.8, 0.8, 0.0]);
    assert_eq!(model.layers.iter().map(|l| l.bias).collect::<Vec<_>>(), [true, true, false]);
    let none = Activation::Identity;
    assert_eq!(model.layers.iter().map(|l| l.activation).collect::<Vec<_>>(), [Activation::Relu, none, none]);
}

#[test]
fn what_only_some_kinds_have_is_written_as_it_was_read() {
    let text = "[model]\nhops = 3\nalpha = 0.25\nepsilon = -0.5\ntrain_epsilon = true\naggregator = \"max\"\n\
                [[model.layers]]\nkernel = \"gin\"\nepsilon = 2.0\n[[model.layers]]\nkernel = \"sage\"\n\
                [[model.layers]]\nkernel = \"sage\"\naggregator = \"mean\"\n[[model.layers]]\nkernel = \"sgc\"\n\
                [[model.layers]]\nkernel = \"appnp\"\n";
    let config = crate::Config::parse(text, "r.toml").unwrap();
    let written = config.to_toml().unwrap();
    assert_eq!(crate::Config::parse(&written, "again").unwrap(), config, "{written}");
    let model = Model::resolve(&config.model, 5, 3, TaskType::Classification).unwrap();
    let kinds: Vec<LayerKind> = model.layers.into_iter().map(|layer| layer.kind).collect();
    let sage = [Aggregator::Max, Aggregator::Mean].map(|aggregator| LayerKind::Sage { aggregator });
    let [max, mean] = sage;
    let gin = LayerKind::Gin { epsilon: 2.0, trained: true };
    let appnp = LayerKind::Appnp { hops: 3, alpha: 0.25 };
    assert_eq!(kinds, [gin, max, mean, LayerKind::Sgc { hops: 3 }, appnp]);
}

#[test]
fn layers_of_ones_own_kernels_are_written_as_they_were_read() {
    let text = "[model]\nhidden = 8\n[[model.layers]]\nkernel = \"mine.wasm\"\nwidth = 12\nbias = true\n\
                attributes = { taps = 3, slope = 0.5, mode = \"max\", loud = true }\n\
                [[model.layers]]\nkernel = \"../kernels/along\"\non = \"edges\"\nself_loops = false\n";
    let mut config = crate::Config::parse(text, "r.toml").unwrap();
    let written = config.to_toml().unwrap();
    assert_eq!(crate::Config::parse(&written, "again").unwrap(), config, "{written}");
    let model = Model::resolve(&config.model, 5, 3, TaskType::Classification).unwrap();
    let attributes = vec![
        Attribute::new("loud", Value::Flag(true)),
        Attribute::new("mode", Value::Text("max".to_owned())),
        Attribute::new("slope", Value::Number(0.5)),
        Attribute::new("taps", Value::Integer(3)),
    ];
    let first = LayerKind::Own { kernel: "mine.wasm".to_owned(), on: On::Rows, attributes, with_self: false };
    let kernel = "../kernels/along".to_owned();
    let second = LayerKind::Own { kernel, on: On::Edges, attributes: Vec::new(), with_self: false };
    assert_eq!((&model.layers[0].kind, &model.layers[1].kind), (&first, &second));
    assert_eq!((model.layers[0].width, model.layers[1].width), (12, 3));
    assert_eq!((model.layers[0].bias, model.layers[1].bias), (true, false));
    assert_eq!(model.name(), "mine-along 5-12-3");
    assert_eq!(model.own_kernels(), ["mine.wasm", "../kernels/along"]);
    let written = toml::to_string(&model).unwrap();
    assert_eq!(toml::from_str::<Model>(&written).unwrap(), model, "{written}");
    config.model.own_kernels_mut().for_each(|path| path.insert_str(0, "/k/"));
    let moved = Model::resolve(&config.model, 5, 3, TaskType::Classification).unwrap();
    assert_eq!(moved.own_kernels(), ["/k/mine.wasm", "/k/../kernels/along"]);
    assert_eq!(ModelSettings::default().own_kernels_mut().count(), 0);
    assert_eq!(config.model.own_kernels().collect::<Vec<_>>(), moved.own_kernels());
    assert_eq!(ModelSettings::default().own_kernels().count(), 0);
    let twice = "[[layers]]\nkernel = \"./a.wasm\"\nwidth = 4\n[[layers]]\nkernel = \"gcn\"\nwidth = 4\n\
                 [[layers]]\nkernel = \"./a.wasm\"\n";
    assert_eq!(resolved(twice).unwrap().own_kernels(), ["./a.wasm"]);
}

#[test]
fn a_built_in_kernel_may_be_named_as_one_of_ones_own() {
    let text = "[[layers]]\nkernel = \"ipa\"\nwidth = 12\nattributes = { hidden = 6 }\n[[layers]]\nkernel = \"linear\"\n";
    let settings = ModelSettings::parse(text, "m.toml").unwrap();
    assert_eq!(settings.own_kernels().count(), 0, "it is no path");
    let model = resolved(text).unwrap();
    let attributes = vec![Attribute::new("hidden", Value::Integer(6))];
    let own = LayerKind::Own { kernel: "ipa".to_owned(), on: On::Rows, attributes, with_self: false };
    assert_eq!((&model.layers[0].kind, model.layers[0].width), (&own, 12));
    assert!(model.own_kernels().is_empty());
    let error = resolved("[[layers]]\nkernel = \"ipa\"\non = \"edges\"\n[[layers]]\nkernel = \"linear\"\n")
        .unwrap_err();
    assert!(error.to_string().contains("the kernel computes on rows"), "{error}");
}

#[test]
fn what_follows_layers_is_said_once_or_by_layer() {
    let model = resolved("norm = \"layer\"\nresidual = true\nlayers = 3").unwrap();
    assert_eq!(
        model.layers.iter().map(|l| l.norm).collect::<Vec<_>>(),
        [Norm::Layer, Norm::Layer, Norm::None]
    );
    assert_eq!(model.layers.iter().map(|l| l.residual).collect::<Vec<_>>(), [false, true, false]);
    let text = "[[layers]]\nkernel = \"gcn\"\nwidth = 3\n[[layers]]\nkernel = \"sage\"\nnorm = \"l2\"\nresidual = true\n";
    let model = resolved(text).unwrap();
    assert_eq!((model.layers[1].norm, model.layers[1].residual), (Norm::L2, true));
    assert_eq!(model.name(), "gcn-sage 5-3-3");
}

#[test]
fn layers_that_do_not_fit_say_what_would() {
    let layers = |text: &str| resolved(text).unwrap_err().to_string();
    let cases = [
        ("[[layers]]\nkernel = \"appnp\"\n", "put a `linear` layer before it"),
        ("[[layers]]\nkernel = \"gcn\"\nhops = 2\n", "belongs to sgc and appnp"),
        ("[[layers]]\nkernel = \"sage\"\nepsilon = 0.5\n", "belongs to gin"),
        ("[[layers]]\nkernel = \"gcn\"\naggregator = \"max\"\n", "belongs to sage"),
        ("kind = \"sage\"\naggregator = \"lstm\"", "mean"),
        ("[[layers]]\nkernel = \"linear\"\njumping = \"sum\"\n", "used after other layers"),
        ("[[layers]]\nkernel = \"gcn\"\nresidual = true\n", "5 input columns and 3 output columns"),
        (
            "[[layers]]\nkernel = \"mpn\"\n",
            "\"gcn\", \"sage\", \"gin\", \"sgc\", \"appnp\", \"gat\", \"gatv2\", \"linear\"",
        ),
        ("kind = \"mpn\"", "\"gcn\", \"sage\", \"gin\", \"sgc\", \"appnp\", \"gat\", \"gatv2\", \"mlp\""),
        ("kind = \"gat\"\nheads = 3", "a divisor of the layer's width, 16"),
        ("kind = \"gat\"\nheads = 65", "1 to 64"),
        ("kind = \"gat\"\nnegative_slope = 1.0", "0 <= negative_slope < 1"),
        (
            "[[layers]]\nkernel = \"gcn\"\nheads = 2\n",
            "belongs to gat, gatv2, self-attention and transformer",
        ),
        (
            "[[layers]]\nkernel = \"gat\"\nheads = 64\naverage = true\nwidth = 1025\n[[layers]]\nkernel = \"gcn\"\n",
            "at most 65536",
        ),
        ("[[layers]]\nkernel = \"mpn\"\n", "or the path of a component, with a `/` or ending in `.wasm`"),
        ("[[layers]]\nkernel = \"./a.wasm\"\n[[layers]]\nkernel = \"gcn\"\n", "`width` is left out"),
        ("[[layers]]\nkernel = \"./a.wasm\"\nself_loops = true\n", "a kernel on rows reads no neighbours"),
        (
            "[[layers]]\nkernel = \"./a.wasm\"\nheads = 2\n",
            "belongs to gat, gatv2, self-attention and transformer",
        ),
        ("[[layers]]\nkernel = \"gcn\"\non = \"edges\"\n", "belongs to your own kernels"),
        ("[[layers]]\nkernel = \"gcn\"\nattributes = { a = 1 }\n", "belongs to your own kernels"),
        ("[[layers]]\nkernel = \"./a.wasm\"\nattributes = { a = [1] }\n", "a whole number, a finite number"),
        ("[[layers]]\nkernel = \"./a.wasm\"\nattributes = { a = inf }\n", "a whole number, a finite number"),
        ("[[layers]]\nkernel = \"./a.wasm\"\nattributes = 3\n", "a table of at most 64"),
        ("kind = \"sgc\"\njumping = \"sum\"", "`jumping`"),
        ("heads = 2", "`model.heads` is set, but none of the model's layers reads it"),
        ("hops = 2\n[[layers]]\nkernel = \"gin\"\n", "it belongs to sgc and appnp"),
        ("kind = \"appnp\"\nlayers = 256", "the maximum is 256"),
        ("jumping = \"sum\"\n[[layers]]\nkernel = \"gcn\"", "`linear` layer that reads all"),
    ];
    for (text, words) in cases {
        let found = layers(text);
        assert!(found.contains(words), "{text}: {found}");
    }
    assert_eq!(kinds("heads = 2\n[[layers]]\nkernel = \"gcn\"\n[[layers]]\nkernel = \"gat\"\n").len(), 2);
    let widths = "[[layers]]\nkernel = \"gcn\"\nwidth = 4\n[[layers]]\nkernel = \"gcn\"\n\
                  [[layers]]\nkernel = \"linear\"\njumping = \"sum\"\n";
    assert!(layers(widths).contains("[4, 16]"), "{}", layers(widths));
    let appnp = "[[layers]]\nkernel = \"linear\"\n[[layers]]\nkernel = \"appnp\"\nwidth = 4\n";
    assert!(layers(appnp).contains("the layer has no weights"), "{}", layers(appnp));
    assert_eq!(kinds("kind = \"sgc\"\nhops = 64").len(), 1);
    assert!(layers("kind = \"sgc\"\nhops = 65").contains("1 to 64"));
}

#[test]
fn weights_of_classes_and_the_focal_loss_are_for_one_class_a_row() {
    for weights in ["\"balanced\"", "[1.0, 0.25, 0.0]"] {
        let text =
            format!("[model]\nclass_weights = {weights}\nfocal = 1.5\n[[model.layers]]\nkernel = \"gcn\"\n");
        let config = crate::Config::parse(&text, "r.toml").unwrap();
        let written = config.to_toml().unwrap();
        assert_eq!(crate::Config::parse(&written, "again").unwrap(), config, "{written}");
        assert_eq!(Model::resolve(&config.model, 5, 3, TaskType::Classification).unwrap().focal, 1.5);
    }
    for (text, key) in [("focal = 2", "model.focal"), ("class_weights = [1, 2, 3]", "model.class_weights")] {
        let settings = ModelSettings::parse(text, "m.toml").unwrap();
        for task in [TaskType::MultiLabel, TaskType::Regression, TaskType::LinkPrediction] {
            let error = Model::resolve(&settings, 5, 3, task).unwrap_err().to_string();
            assert_eq!(
                error,
                format!(
                    "`{key}` requires a task with one class per row, but the task is {}: remove it",
                    task.name()
                )
            );
        }
    }
}

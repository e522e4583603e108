#![allow(clippy::unwrap_used)]

use super::*;
use crate::Config;
use crate::model::LayerSettings;
use crate::testing::Random;

const CLASSES: (u32, u32, TaskType) = (6, 3, TaskType::Classification);

/// Returns the configuration with a model file's text and further settings.
fn config(text: &str, settings: &[&str]) -> Config {
    let mut config = Config { model: ModelSettings::parse(text, "m.toml").unwrap(), ..Config::default() };
    settings.iter().for_each(|setting| config.set(setting).unwrap());
    config
}

fn refusal(config: &Config, (features, classes, task): (u32, u32, TaskType)) -> Option<String> {
    config.model.check_read(features, classes, task).err().map(|error| error.to_string())
}

#[test]
fn settings_that_every_layer_overrides_are_refused() {
    let text = "[[layers]]\nkernel = \"gcn\"\nwidth = 8\n[[layers]]\nkernel = \"gcn\"\n";
    assert_eq!(refusal(&config(text, &[]), CLASSES), None);
    // The default value of a key is refused as well, where somebody sets it.
    for setting in ["model.hidden=32", "model.hidden=16", "model.kind=sage", "model.heads=4", "model.hops=3"]
    {
        let found = refusal(&config(text, &[setting]), CLASSES);
        // Keys of other kinds of layers are refused by the model itself.
        let of_kinds = setting.starts_with("model.h") && !setting.contains("hidden");
        assert_eq!(found.is_none(), of_kinds, "{setting}: {found:?}");
        if let Some(found) = found {
            let key = setting.split(['.', '=']).nth(1).unwrap();
            assert!(
                found.contains(&format!("`model.{key}`"))
                    && found.contains("none of the model's layers reads"),
                "{found}"
            );
        }
    }
    for setting in ["model.dropout=0", "model.bias=false", "model.activation=tanh", "model.norm=layer"] {
        assert_eq!(refusal(&config(text, &[setting]), CLASSES), None, "{setting}");
    }
    let found = refusal(&config(&format!("hidden = 32\n{text}"), &[]), CLASSES).unwrap();
    assert!(found.contains("`model.hidden` is 32"), "{found}");
    // A usual activation is read, although it changes nothing.
    assert_eq!(refusal(&config("", &["model.activation=relu"]), CLASSES), None);
    let found = refusal(&config("layers = 1\n", &["model.activation=relu"]), CLASSES).unwrap();
    assert!(found.contains("`model.activation`"), "{found}");
}

#[test]
fn keys_of_a_model_of_so_many_layers_are_refused_as_well() {
    let refused = [
        ("kind = \"gat\"\nlayers = 1\n", "model.heads=2"),
        ("layers = 1\n", "model.hidden=8"),
        ("kind = \"sgc\"\nhops = 3\n", "model.layers=4"),
        ("layers = 2\n", "model.residual=true"),
        ("", "model.activation_slope=0.3"),
        ("layers = 1\n", "model.norm=layer"),
    ];
    for (text, setting) in refused {
        assert!(refusal(&config(text, &[setting]), CLASSES).is_some(), "{text}, {setting}");
    }
    let read = [
        ("kind = \"gat\"\n", "model.heads=2"),
        ("kind = \"sgc\"\n", "model.layers=4"),
        ("layers = 3\n", "model.residual=true"),
        ("activation = \"leaky-relu\"\n", "model.activation_slope=0.3"),
        ("kind = \"mlp\"\n", "model.kind=gcn"),
    ];
    for (text, setting) in read {
        assert_eq!(refusal(&config(text, &[setting]), CLASSES), None, "{text}, {setting}");
    }
}

#[test]
fn a_transformer_reads_no_width_heads_or_activation_of_the_model() {
    let recipe = include_str!("../../../../../docs/recipes/any/char-lm.toml");
    let shape = (1, 65, TaskType::Classification);
    let parsed = |setting: Option<&str>| {
        let mut config = Config::parse(recipe, "char-lm").unwrap();
        setting.iter().for_each(|setting| config.set(setting).unwrap());
        config
    };
    assert_eq!(refusal(&parsed(None), shape), None);
    for setting in ["model.hidden=32", "model.heads=2", "model.activation=tanh"] {
        assert!(refusal(&parsed(Some(setting)), shape).is_some(), "{setting}");
    }
}

/// One value for each key of `[model]` that differs from the default.
const SETTINGS: [&str; 24] = [
    "kind=sage",
    "kind=mlp",
    "layers=4",
    "hidden=24",
    "activation=tanh",
    "activation=leaky-relu",
    "activation_slope=0.3",
    "dropout=0.1",
    "bias=false",
    "norm=layer",
    "norm=batch",
    "residual=true",
    "first_weights=glorot",
    "hops=5",
    "alpha=0.4",
    "epsilon=0.4",
    "train_epsilon=true",
    "aggregator=max",
    "heads=4",
    "attention_dropout=0.4",
    "negative_slope=0.4",
    "edge_features=true",
    "jumping=sum",
    "focal=2",
];

#[test]
fn every_key_changes_the_model_or_is_refused() {
    let seed = 83;
    let mut random = Random::new(seed);
    let mut below = |limit: usize| random.below(limit as u64) as usize;
    let kernels = ["gcn", "sage", "gin", "gat", "gatv2", "linear", "sum", "normalise", "activate", "sgc"];
    let (features, classes, task) = CLASSES;
    let (mut changed, mut refused) = (0, 0);
    for case in 0..400 {
        let mut config = Config::default();
        if case % 4 == 0 {
            config.model.kind = ModelKind::ALL[below(8)].1;
            config.model.layers = Layers::Count(1 + below(3) as u32);
        } else {
            let count = 1 + below(3);
            let mut list: Vec<LayerSettings> = Vec::new();
            for at in 0..count {
                let mut layer = LayerSettings::with_kernel(kernels[below(kernels.len())]);
                layer.width = (at + 1 < count && below(2) == 0).then_some(8);
                layer.dropout = (below(3) == 0).then_some(0.2);
                layer.bias = (below(4) == 0).then_some(false);
                layer.activation = (at + 1 < count && below(3) == 0).then_some(Activation::Elu);
                layer.own.heads = (layer.has(&["gat", "gatv2"]) && below(2) == 0).then_some(1);
                list.push(layer);
            }
            config.model.layers = Layers::List(list);
        }
        let Ok(before) = Model::resolve(&config.model, features, classes, task) else { continue };
        for setting in SETTINGS {
            let mut set = config.clone();
            set.set(&format!("model.{setting}")).unwrap();
            let Ok(after) = Model::resolve(&set.model, features, classes, task) else {
                refused += 1;
                continue;
            };
            let found = set.model.check_read(features, classes, task);
            // A key may have the value that the layers' kinds have anyway.
            let usual = found.is_ok()
                && ["kind=", "hops=", "activation=", "layers=", "first_weights=", "norm=layer"]
                    .iter()
                    .any(|usual| setting.starts_with(usual));
            assert!(
                after != before || found.is_err() || usual,
                "seed {seed}, case {case}, {setting}: {:?}",
                config.model
            );
            refused += usize::from(found.is_err());
            changed += usize::from(after != before);
        }
    }
    assert!(changed > 1000 && refused > 1000, "{changed} changed the model, {refused} were refused");
}

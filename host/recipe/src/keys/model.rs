//! The keys of `[model]` and of its layers.

pub(super) mod deep;
mod first;

use std::collections::BTreeMap;

use super::{FINITE, Key, PROBABILITY, is_probability, key, write_with};
use crate::class_weights::ClassWeights;
use crate::document::{Field, Fields, Found, number};
use crate::error::{Error, Result};
use crate::model::{
    Activation, Aggregator, EdgeColumn, FirstWeights, Jumping, LayerSettings, Layers, MAX_ATTRIBUTES,
    MAX_HEADS, MAX_HOPS, MAX_LAYERS, MAX_WIDTH, ModelKind, ModelSettings, Norm, Readout, wiring,
};
use crate::objective::Loss;
use eciton_types::On;
use eciton_types::signature::Value;

const ALPHA: &str = "a number with 0 <= alpha < 1";
const SLOPE: &str = "a number with 0 <= slope < 1";

pub(super) const MODEL: &[Key<ModelSettings>] = &[
    key("file", &["path"], "a model file to read in place of the keys below", |model, field| {
        model.file = Some(field.text("a path to a model file")?);
        Ok(())
    }),
    key(
        "kind",
        &["name", "architecture", "model", "conv"],
        "what `layers = N` means: gcn, sage, gin, sgc, appnp, gat, gatv2, mlp",
        |model, field| {
            model.kind = field.choice(&ModelKind::ALL)?;
            Ok(())
        },
    ),
    key(
        "hidden",
        &["hidden_channels", "hidden_features", "width"],
        "width of every layer but the last: 1 to 65536",
        |model, field| {
            model.hidden = field.integer32(1..=MAX_WIDTH)?;
            Ok(())
        },
    ),
    key(
        "activation",
        &["nonlinearity"],
        "what follows every layer but the last: identity, relu, leaky-relu, elu, sigmoid, tanh, gelu, gelu-tanh, silu, softplus; left out: elu in gat and gatv2, else relu",
        |model, field| {
            model.activation = Some(field.choice(&Activation::ALL)?);
            Ok(())
        },
    ),
    key(
        "activation_slope",
        &["leaky_relu_slope"],
        "factor of leaky-relu for values below 0: 0 <= slope < 1; left out: 0.01",
        |model, field| {
            model.activation_slope = Some(field.number(SLOPE, is_probability)?);
            Ok(())
        },
    ),
    key(
        "dropout",
        &["p", "dropout_rate"],
        "dropout on every layer's input: 0 <= dropout < 1",
        |model, field| {
            model.dropout = field.number(PROBABILITY, is_probability)?;
            Ok(())
        },
    ),
    key("bias", &[], "whether layers add a bias: true or false", |model, field| {
        model.bias = field.flag()?;
        Ok(())
    }),
    key(
        "norm",
        &["normalization", "normalisation", "layer_norm"],
        "what brings the rows of every layer but the last to one scale: none, layer, l2, batch, pair, rms",
        |model, field| {
            model.norm = field.choice(&Norm::ALL)?;
            Ok(())
        },
    ),
    key(
        "residual",
        &["skip", "skip_connections"],
        "whether layers as wide as their input add it, but the last: true or false",
        |model, field| {
            model.residual = field.flag()?;
            Ok(())
        },
    ),
    key(
        "first_weights",
        &["initialiser", "initializer"],
        "how weights start: auto (glorot in gcn, gat and gatv2 layers, else fan-in), glorot, fan-in, pytorch (biases too)",
        |model, field| {
            model.first_weights = field.choice(&FirstWeights::ALL)?;
            Ok(())
        },
    ),
    key(
        "init",
        &["init_std"],
        "first values in the place of `first_weights`: a table of kind (normal, uniform, orthogonal, zeros, constant) and its std, bound, gain or value",
        |model, field| {
            model.init = first::init(field)?;
            Ok(())
        },
    ),
    key(
        "loss",
        &["loss_fn", "criterion", "objective"],
        "what training makes small: cross-entropy (classes), binary-cross-entropy (labels), squared-error or \
         absolute-error (numbers)",
        |model, field| {
            model.loss = Some(field.choice(&Loss::ALL)?);
            Ok(())
        },
    ),
    key(
        "class_weights",
        &["class_weight", "loss_weights"],
        "what the rows of each class count in the loss: balanced (the rarer, the more), or a list, a number a class",
        |model, field| {
            model.class_weights = Some(class_weights(field)?);
            Ok(())
        },
    ),
    key(
        "focal",
        &["focal_gamma", "focal_loss"],
        "the exponent of the focal loss, by which classes that are right already count less: 0 (none) or more",
        |model, field| {
            model.focal = field.number("a number from 0 to 100", |gamma| (0.0..=100.0).contains(&gamma))?;
            Ok(())
        },
    ),
    key(
        "edge_weights",
        &["edge_weight", "weighted"],
        "which column of the edges' features, by name or by number from 0, is their weight in gcn, sage (mean), gin, sgc and appnp layers",
        |model, field| {
            model.edge_weights = Some(match field.text("") {
                Ok(name) => EdgeColumn::Name(name),
                Err(_) => EdgeColumn::Number(field.integer32(0..=MAX_WIDTH)?),
            });
            Ok(())
        },
    ),
    key(
        "edge_features",
        &["edge_attr", "edge_dim"],
        "whether gatv2 layers, and kernels of your own on edges, are told the edges' features: true or false",
        |model, field| {
            model.own.edge_features = Some(field.flag()?);
            Ok(())
        },
    ),
    key(
        "jumping",
        &["jk", "jumping_knowledge"],
        "a last `linear` layer that reads the outputs of all N layers: concat, sum",
        |model, field| {
            model.jumping = Some(field.choice(&Jumping::ALL)?);
            Ok(())
        },
    ),
    key("hops", &["k", "K", "steps"], "steps of a propagation, in sgc and appnp: 1 to 64", |model, field| {
        model.own.hops = Some(field.integer32(1..=MAX_HOPS)?);
        Ok(())
    }),
    key("alpha", &["teleport"], "the teleport probability of appnp: 0 <= alpha < 1", |model, field| {
        model.own.alpha = Some(field.number(ALPHA, is_probability)?);
        Ok(())
    }),
    key("epsilon", &["eps"], "the vertex's own weight in gin, less 1: a number", |model, field| {
        model.own.epsilon = Some(field.number(FINITE, f32::is_finite)?);
        Ok(())
    }),
    key("train_epsilon", &["train_eps"], "whether gin trains epsilon: true or false", |model, field| {
        model.own.train_epsilon = Some(field.flag()?);
        Ok(())
    }),
    key(
        "aggregator",
        &["aggr", "aggregator_type", "pooling"],
        "what sage layers make of in-neighbours' rows: mean, max",
        |model, field| {
            model.own.aggregator = Some(field.choice(&Aggregator::ALL)?);
            Ok(())
        },
    ),
    key(
        "readout",
        &["global_pool", "graph_pooling", "pool"],
        "what stands for a graph, in data sets of many, before a last linear layer: mean, sum, max",
        |model, field| {
            model.own.readout = Some(field.choice(&Readout::ALL)?);
            Ok(())
        },
    ),
    key(
        "heads",
        &["num_heads"],
        "heads of attentions, but of a last gat or gatv2 layer: 1 to 64",
        |model, field| {
            model.own.heads = Some(field.integer32(1..=MAX_HEADS)?);
            Ok(())
        },
    ),
    key(
        "attention_dropout",
        &["attn_drop", "attn_dropout"],
        "dropout of edges' weights in gat and gatv2 layers, else as the layer's: 0 <= dropout < 1",
        |model, field| {
            model.own.attention_dropout = Some(field.number(PROBABILITY, is_probability)?);
            Ok(())
        },
    ),
    key(
        "negative_slope",
        &["leaky_slope"],
        "what a negative score is multiplied by in gat and gatv2 layers: 0 <= slope < 1",
        |model, field| {
            model.own.negative_slope = Some(field.number(SLOPE, is_probability)?);
            Ok(())
        },
    ),
    key(
        "layers",
        &["num_layers", "depth", "layer"],
        "how many layers, 1 to 256, or a list of tables, one a layer",
        |model, field| {
            model.layers = layers(field)?;
            Ok(())
        },
    ),
];

pub(super) const LAYER: &[Key<LayerSettings>] = &[
    key(
        "kernel",
        &["kind", "type"],
        "the layer's kind, for instance gcn, linear, conv2d or transformer, or the path of a component",
        |layer, field| {
            layer.kernel = match &field.value {
                Found::Text(text) if LayerSettings::is_own(text) => text.clone(),
                _ => kernel(field)?.to_owned(),
            };
            Ok(())
        },
    ),
    key("width", &["out_features", "out-features"], "columns of its output: 1 to 65536", |layer, field| {
        layer.width = Some(field.integer32(1..=MAX_WIDTH)?);
        Ok(())
    }),
    key(
        "activation",
        &["nonlinearity"],
        "what follows it: identity, relu, leaky-relu, elu, sigmoid, tanh, gelu, gelu-tanh, silu, softplus",
        |layer, field| {
            layer.activation = Some(field.choice(&Activation::ALL)?);
            Ok(())
        },
    ),
    key(
        "activation_slope",
        &["leaky_relu_slope"],
        "factor of leaky-relu for values below 0: 0 <= slope < 1; left out: that of the model",
        |layer, field| {
            layer.activation_slope = Some(field.number(SLOPE, is_probability)?);
            Ok(())
        },
    ),
    key("dropout", &["p", "dropout_rate"], "dropout on its input: 0 <= dropout < 1", |layer, field| {
        layer.dropout = Some(field.number(PROBABILITY, is_probability)?);
        Ok(())
    }),
    key("bias", &[], "whether it adds a bias: true or false", |layer, field| {
        layer.bias = Some(field.flag()?);
        Ok(())
    }),
    key(
        "norm",
        &["normalization", "normalisation", "layer_norm", "normalize"],
        "what brings its rows to one scale: none, layer, l2, batch, pair, rms",
        |layer, field| {
            layer.norm = Some(field.choice(&Norm::ALL)?);
            Ok(())
        },
    ),
    key("residual", &["skip"], "whether its input is added to its output: true or false", |layer, field| {
        layer.residual = Some(field.flag()?);
        Ok(())
    }),
    key(
        "jumping",
        &["jk", "jumping_knowledge"],
        "in linear: it reads the outputs of all layers before it: concat, sum",
        |layer, field| {
            layer.jumping = Some(field.choice(&Jumping::ALL)?);
            Ok(())
        },
    ),
    key(
        "hops",
        &["k", "K", "steps"],
        "steps of its propagation, in sgc and appnp: 1 to 64",
        |layer, field| {
            layer.own.hops = Some(field.integer32(1..=MAX_HOPS)?);
            Ok(())
        },
    ),
    key("alpha", &["teleport"], "the teleport probability, in appnp: 0 <= alpha < 1", |layer, field| {
        layer.own.alpha = Some(field.number(ALPHA, is_probability)?);
        Ok(())
    }),
    key("epsilon", &["eps"], "the vertex's own weight, less 1, in gin: a number", |layer, field| {
        layer.own.epsilon = Some(field.number(FINITE, f32::is_finite)?);
        Ok(())
    }),
    key("train_epsilon", &["train_eps"], "whether that is trained, in gin: true or false", |layer, field| {
        layer.own.train_epsilon = Some(field.flag()?);
        Ok(())
    }),
    key(
        "aggregator",
        &["aggr", "aggregator_type", "pooling"],
        "what it makes of in-neighbours' rows, in sage: mean, max",
        |layer, field| {
            layer.own.aggregator = Some(field.choice(&Aggregator::ALL)?);
            Ok(())
        },
    ),
    key(
        "readout",
        &["global_pool", "graph_pooling"],
        "what stands for a graph, in readout: mean, sum, max",
        |layer, field| {
            layer.own.readout = Some(field.choice(&Readout::ALL)?);
            Ok(())
        },
    ),
    key("heads", &["num_heads", "nhead"], "heads of its attention: 1 to 64", |layer, field| {
        layer.own.heads = Some(field.integer32(1..=MAX_HEADS)?);
        Ok(())
    }),
    key(
        "average",
        &["mean_heads"],
        "whether the heads' mean is the result, in gat and gatv2, not all side by side: true or false",
        |layer, field| {
            layer.average = Some(field.flag()?);
            Ok(())
        },
    ),
    key(
        "attention_dropout",
        &["attn_drop", "attn_dropout"],
        "dropout of edges' weights, in gat and gatv2: 0 <= dropout < 1",
        |layer, field| {
            layer.own.attention_dropout = Some(field.number(PROBABILITY, is_probability)?);
            Ok(())
        },
    ),
    key(
        "negative_slope",
        &["leaky_slope"],
        "what a negative score is multiplied by, in gat and gatv2: 0 <= slope < 1",
        |layer, field| {
            layer.own.negative_slope = Some(field.number(SLOPE, is_probability)?);
            Ok(())
        },
    ),
    key(
        "edge_features",
        &["edge_attr", "edge_dim"],
        "whether its kernel is told the edges' features, in gatv2 and kernels of your own on edges: true or false",
        |layer, field| {
            layer.own.edge_features = Some(field.flag()?);
            Ok(())
        },
    ),
    key("on", &["level"], "what a kernel of your own works on: rows, edges", |layer, field| {
        layer.on = Some(field.choice(&On::ALL)?);
        Ok(())
    }),
    key(
        "self_loops",
        &["add_self_loops", "with_self"],
        "whether each vertex is among its own neighbours, in a kernel of your own on edges: true or false",
        |layer, field| {
            layer.self_loops = Some(field.flag()?);
            Ok(())
        },
    ),
    key(
        "attributes",
        &["arguments", "parameters"],
        "what a kernel of your own is opened with: a table of names and values",
        |layer, field| {
            layer.attributes = attributes(field)?;
            Ok(())
        },
    ),
    key("name", &["id", "label"], "what later layers call it in `inputs`", |layer, field| {
        layer.name = Some(field.text("a name of 1 to 64 letters, digits, `-`, `_` and `.`")?);
        Ok(())
    }),
    key(
        "inputs",
        &["input", "from", "reads"],
        "names of the layers that it reads, or \"features\"; left out: the layer before",
        |layer, field| {
            layer.inputs = Some(names(field)?);
            Ok(())
        },
    ),
    key(
        "loss_weight",
        &["aux_weight", "loss_weights"],
        "makes its rows scores, whose loss counts so much beside the last layer's 1: above 0, to 1000",
        |layer, field| {
            let allowed = "a number above 0, at most 1000";
            layer.loss_weight = Some(field.number(allowed, |weight| weight > 0.0 && weight <= 1000.0)?);
            Ok(())
        },
    ),
    key(
        "weights_of",
        &["tied_to", "tie_weights", "shared_with"],
        "the name of an earlier layer whose weight is this one's as well",
        |layer, field| {
            layer.weights_of = Some(field.text("the name of an earlier layer")?);
            Ok(())
        },
    ),
    key(
        "init",
        &["initialiser", "initializer"],
        "its first values, as the model's `init`",
        |layer, field| {
            layer.init = first::init(field)?;
            Ok(())
        },
    ),
];

/// A few names, or one by itself.
fn names(field: &Field) -> Result<Vec<String>> {
    let name = |item: &Found| match item {
        Found::Text(text) => Some(text.clone()),
        _ => None,
    };
    let found = match &field.value {
        Found::List(items) => items.iter().map(name).collect(),
        one => name(one).map(|one| vec![one]),
    };
    let fits = |names: &Vec<String>| (1..=MAX_LAYERS as usize).contains(&names.len());
    found.filter(fits).ok_or_else(|| field.refuse("a list of names, as [\"stem\", \"features\"]"))
}

/// A layer's kernel by its name.
fn kernel(field: &Field) -> Result<&'static str> {
    let names = LayerSettings::KERNELS;
    field.choice(&names.map(|name| (name, name))).map_err(|_| {
        let names = names.iter().chain(&LayerSettings::BUILT_IN);
        let names = names.map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
        field.refuse(format!("one of {names}, {}", LayerSettings::OR_PATH))
    })
}

/// Weights of classes: a word, or a number a class.
fn class_weights(field: &Field) -> Result<ClassWeights> {
    let allowed = || field.refuse("\"balanced\", or a list of finite numbers, not negative, one a class");
    match &field.value {
        Found::Text(text) if text == "balanced" => Ok(ClassWeights::Balanced),
        Found::List(items) if (1..=MAX_WIDTH as usize).contains(&items.len()) => {
            let weight =
                |item| number(item, |weight| weight >= 0.0 && weight.is_finite()).ok_or_else(allowed);
            Ok(ClassWeights::Each(items.iter().map(weight).collect::<Result<_, _>>()?))
        }
        _ => Err(allowed()),
    }
}

/// Attributes of a kernel, as a table.
fn attributes(field: &Field) -> Result<BTreeMap<String, Value>> {
    let table = match &field.value {
        Found::Table(Fields(fields)) if fields.len() <= MAX_ATTRIBUTES as usize => fields,
        _ => return Err(field.refuse(format!("a table of at most {MAX_ATTRIBUTES} names and values"))),
    };
    let attribute = |field: &Field| {
        let value = match &field.value {
            Found::Integer(value) => Value::Integer(*value),
            Found::Number(value) if (*value as f32).is_finite() => Value::Number(*value),
            Found::Text(text) => Value::Text(text.clone()),
            Found::Flag(flag) => Value::Flag(*flag),
            _ => return Err(field.refuse("a whole number, a finite number, a text, true or false")),
        };
        Ok((field.name.clone(), value))
    };
    table.iter().map(attribute).collect()
}

fn layers(field: &Field) -> Result<Layers> {
    let allowed = format!("a whole number from 1 to {MAX_LAYERS}, or a list of so many tables");
    match &field.value {
        Found::Integer(_) => {
            field.integer32(1..=MAX_LAYERS).map(Layers::Count).map_err(|_| field.refuse(allowed))
        }
        Found::List(items) if (1..=MAX_LAYERS as usize).contains(&items.len()) => {
            let layer = |item: &Found| {
                let Found::Table(inner) = item else {
                    return Err(field.refuse(allowed.clone()));
                };
                let mut layer = LayerSettings::gcn();
                write_with(&mut layer, LAYER, deep::LAYER, &inner.0)?;
                Ok(layer)
            };
            let layers: Vec<LayerSettings> = items.iter().map(layer).collect::<Result<_, _>>()?;
            wiring::sources(&layers).map_err(|refusal| misplaced(items, field, &refusal))?;
            Ok(Layers::List(layers))
        }
        _ => Err(field.refuse(allowed)),
    }
}

/// A refusal of a layer's name or inputs, where these stand in the text.
fn misplaced(items: &[Found], list: &Field, refusal: &wiring::Refusal) -> Error {
    let table = match items.get(refusal.layer) {
        Some(Found::Table(Fields(fields))) => &fields[..],
        _ => &[],
    };
    let named = |name: &str| table.iter().find(|field| field.name == name);
    let place = named(refusal.attribute).or_else(|| named("kernel")).or_else(|| table.first());
    Error::Value {
        key: format!("{}[{}].{}", list.path, refusal.layer, refusal.attribute),
        found: refusal.found.clone(),
        allowed: refusal.allowed.clone(),
        place: place.map_or_else(|| list.value_position.place(), |field| field.value_position.place()),
    }
}

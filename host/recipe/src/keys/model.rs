//! The keys of `[model]` and of its layers.

pub(super) mod deep;
mod first;
pub(super) mod layer;

use super::key::{Bounds, Group, Key, Kind, Write, key, names, value};
use super::write::write_with;
use crate::class_weights::ClassWeights;
use crate::document::{Field, Fields, Found, number};
use crate::error::{Error, Result};
use crate::model::{
    Activation, Aggregator, EdgeColumn, FirstWeights, Jumping, LayerSettings, Layers, MAX_HEADS, MAX_HOPS,
    MAX_LAYERS, MAX_WIDTH, ModelKind, ModelSettings, Norm, Readout, wiring,
};
use crate::objective::Loss;

const KIND_HELP: &str = "Model whose layers are repeated if layers is a number";

type To = ModelSettings;

pub(super) const MODEL: &[Key<ModelSettings>] = &[
    key("file", "Path of a model file that replaces the keys below", value!(some text("a path to a model file") => file))
        .also(&["path"])
        .absent("none"),
    key("kind", KIND_HELP, value!(choice(ModelKind::ALL) => kind)).also(&["name", "architecture", "model", "conv"]),
    key("hidden", "Width of every layer but the last, in columns", value!(integer32(1, MAX_WIDTH) => hidden))
        .also(&["hidden_channels", "hidden_features", "width"])
        .flag("hidden", "N", Group::Model),
    key("activation", "Activation function after every layer but the last", value!(some choice(Activation::ALL) => activation))
        .also(&["nonlinearity"])
        .absent("elu for gat and gatv2, else relu"),
    key("activation_slope", "Factor of leaky-relu for negative values", value!(some number(Bounds::SHARE_BELOW_1) => activation_slope))
        .also(&["leaky_relu_slope"])
        .absent("0.01"),
    key("dropout", "Dropout probability of every layer's input", value!(number(Bounds::SHARE_BELOW_1) => dropout))
        .also(&["p", "dropout_rate"])
        .flag("dropout", "P", Group::Model),
    key("bias", "Bias of layers", value!(flag => bias)),
    key("norm", "Normalisation of the rows of every layer but the last", value!(choice(Norm::ALL) => norm))
        .also(&["normalization", "normalisation", "layer_norm"]).absent("none"),
    key("residual", "Residual connection over each layer that is as wide as its input, except the last", value!(flag => residual))
        .also(&["skip", "skip_connections"]).absent("false"),
    key("first_weights", "Initialisation of the weights. auto: glorot in gcn, gat and gatv2 layers, else fan-in; pytorch initialises biases as well", value!(choice(FirstWeights::ALL) => first_weights))
        .also(&["initialiser", "initializer"]).absent("auto"),
    key("init", "Distribution of the initial values, in place of first_weights", INIT).also(&["init_std"]).absent("by first_weights"),
    key("loss", "Loss function: cross-entropy for classes, binary-cross-entropy for several labels, squared-error or absolute-error for numbers", value!(some choice(Loss::ALL) => loss))
        .also(&["loss_fn", "criterion", "objective"])
        .absent("the usual loss of the task"),
    key("class_weights", "Weight of each class in the loss. balanced: inverse to the frequency of the class", CLASS_WEIGHTS)
        .also(&["class_weight", "loss_weights"])
        .absent("all equal")
        .flag("class-weights", "balanced|LIST", Group::Training),
    key("focal", "Exponent of the focal loss, which reduces the weight of rows that are classified well; 0: cross-entropy", value!(number(Bounds::from(0.0, 100.0)) => focal))
        .also(&["focal_gamma", "focal_loss"])
        .absent("0").flag("focal", "GAMMA", Group::Training),
    key("edge_weights", "Column of the edge features, by name or number, that is the edge weight in gcn, sage (mean), gin, sgc and appnp layers", EDGE_WEIGHTS)
        .also(&["edge_weight", "weighted"])
        .absent("all edges have weight 1"),
    key("edge_features", "Use of edge features by gatv2 layers, readouts of edges and user kernels on edges", value!(some flag => own.edge_features))
        .also(&["edge_attr", "edge_dim"])
        .absent("true if the labels are those of edges with features, else false"),
    key("jumping", "Jumping knowledge: a last linear layer reads the outputs of all layers", value!(some choice(Jumping::ALL) => jumping))
        .also(&["jk", "jumping_knowledge"])
        .absent("none"),
    key("hops", "Number of propagation steps in sgc and appnp", value!(some integer32(1, MAX_HOPS) => own.hops))
        .also(&["k", "K", "steps"])
        .absent("2 for sgc, 10 for appnp"),
    key("alpha", "Teleport probability of appnp", value!(some number(Bounds::SHARE_BELOW_1) => own.alpha))
        .also(&["teleport"])
        .absent("0.1"),
    key("epsilon", "Weight of the vertex's own row in gin, minus 1", value!(some number(Bounds::FINITE) => own.epsilon))
        .also(&["eps"])
        .absent("0"),
    key("train_epsilon", "Training of epsilon in gin", value!(some flag => own.train_epsilon))
        .also(&["train_eps"])
        .absent("false"),
    key("aggregator", "Aggregation of the neighbours' rows in sage", value!(some choice(Aggregator::ALL) => own.aggregator))
        .also(&["aggr", "aggregator_type", "pooling"])
        .absent("mean"),
    key("readout", "Row of a graph (mean, sum, max) or of a labelled edge (ends, source, target), before the last linear layers", value!(some choice(Readout::ALL) => own.readout))
        .also(&["global_pool", "graph_pooling", "pool"])
        .absent("mean for graphs, ends for edges"),
    key("heads", "Number of attention heads, except in a last gat or gatv2 layer", value!(some integer32(1, MAX_HEADS) => own.heads))
        .also(&["num_heads"])
        .absent("8 for gat and gatv2"),
    key("attention_dropout", "Dropout probability of attention weights in gat and gatv2", value!(some number(Bounds::SHARE_BELOW_1) => own.attention_dropout))
        .also(&["attn_drop", "attn_dropout"])
        .absent("the dropout of the layer"),
    key("negative_slope", "Factor of negative attention scores in gat and gatv2", value!(some number(Bounds::SHARE_BELOW_1) => own.negative_slope))
        .also(&["leaky_slope"])
        .absent("0.2"),
    key("layers", "Layers of the model", LAYERS)
        .also(&["num_layers", "depth", "layer"])
        .flag("layers", "N", Group::Model),
];

type Declared<T> = (Kind, Write<T>);

const INIT: Declared<ModelSettings> = (Kind::Other(first::FORM), |model, field, _| {
    model.init = first::init(field)?;
    Ok(())
});

const CLASS_WEIGHTS: Declared<ModelSettings> = (
    Kind::Other("\"balanced\", or a list with one finite number of at least 0 for each class"),
    |model, field, kind| {
        let refuse = || field.refuse(kind.text(&field.name));
        model.class_weights = Some(match &field.value {
            Found::Text(text) if text == "balanced" => ClassWeights::Balanced,
            Found::List(items) if (1..=MAX_WIDTH as usize).contains(&items.len()) => {
                let weight =
                    |item| number(item, |weight| weight >= 0.0 && weight.is_finite()).ok_or_else(refuse);
                ClassWeights::Each(items.iter().map(weight).collect::<Result<_, _>>()?)
            }
            _ => return Err(refuse()),
        });
        Ok(())
    },
);

const EDGE_WEIGHTS: Declared<ModelSettings> =
    (Kind::Other("a name, or a whole number from 0 to 65536"), |model, field, kind| {
        model.edge_weights = Some(match field.text("") {
            Ok(name) => EdgeColumn::Name(name),
            Err(_) => EdgeColumn::Number(
                field.integer32(0..=MAX_WIDTH).map_err(|_| field.refuse(kind.text(&field.name)))?,
            ),
        });
        Ok(())
    });

const LAYERS: Declared<ModelSettings> =
    (Kind::Other("a whole number from 1 to 256, or a list of 1 to 256 tables"), |model, field, kind| {
        model.layers = layers(field, kind)?;
        Ok(())
    });

/// Returns the value of the key `layers`, which is either the number of layers or the settings of
/// each layer.
fn layers(field: &Field, kind: &Kind) -> Result<Layers> {
    let allowed = kind.text(&field.name);
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
                write_with(&mut layer, layer::LAYER, deep::LAYER, &inner.0)?;
                Ok(layer)
            };
            let layers: Vec<LayerSettings> = items.iter().map(layer).collect::<Result<_, _>>()?;
            wiring::sources(&layers).map_err(|refusal| misplaced(items, field, &refusal))?;
            Ok(Layers::List(layers))
        }
        _ => Err(field.refuse(allowed)),
    }
}

/// Creates the error for an invalid name or invalid inputs of a layer, with the position in the
/// text.
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

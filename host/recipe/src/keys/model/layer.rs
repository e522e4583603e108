//! The keys that every layer has.

use std::collections::BTreeMap;

use super::super::key::{Bounds, Key, Kind, Write, key, names, value};
use super::first;
use crate::document::{Field, Fields, Found};
use crate::error::Result;
use crate::model::{
    Activation, Aggregator, Jumping, LayerSettings, MAX_ATTRIBUTES, MAX_HEADS, MAX_HOPS, MAX_LAYERS,
    MAX_WIDTH, Norm, Readout,
};
use eciton_types::On;
use eciton_types::signature::Value;

type To = LayerSettings;

pub(in super::super) const LAYER: &[Key<LayerSettings>] = &[
    key(
        "kernel",
        "Kind of the layer, for instance gcn, linear, conv2d or transformer, or the path of a component",
        KERNEL,
    )
    .also(&["kind", "type"]),
    key("width", "Number of columns of the layer's output", value!(some integer32(1, MAX_WIDTH) => width))
        .also(&["out_features", "out-features"])
        .absent("the model's hidden; for the last layer the number of classes"),
    key(
        "activation",
        "Activation function after the layer",
        value!(some choice(Activation::ALL) => activation),
    )
    .also(&["nonlinearity"])
    .absent("the model's activation; for the last layer identity"),
    key(
        "activation_slope",
        "Factor of leaky-relu for negative values",
        value!(some number(Bounds::SHARE_BELOW_1) => activation_slope),
    )
    .also(&["leaky_relu_slope"])
    .absent("that of the model"),
    key(
        "dropout",
        "Dropout probability of the layer's input",
        value!(some number(Bounds::SHARE_BELOW_1) => dropout),
    )
    .also(&["p", "dropout_rate"])
    .absent("that of the model"),
    key("bias", "Bias of the layer", value!(some flag => bias)).absent("that of the model"),
    key("norm", "Normalisation of the layer's rows", value!(some choice(Norm::ALL) => norm))
        .also(&["normalization", "normalisation", "layer_norm", "normalize"])
        .absent("that of the model; for the last layer none"),
    key("residual", "Residual connection over the layer", value!(some flag => residual))
        .also(&["skip"])
        .absent("that of the model if the widths are equal"),
    key(
        "jumping",
        "Jumping knowledge, in linear: the layer reads the outputs of all layers before it",
        value!(some choice(Jumping::ALL) => jumping),
    )
    .also(&["jk", "jumping_knowledge"])
    .absent("none"),
    key(
        "hops",
        "Number of propagation steps, in sgc and appnp",
        value!(some integer32(1, MAX_HOPS) => own.hops),
    )
    .also(&["k", "K", "steps"])
    .absent("that of the model"),
    key("alpha", "Teleport probability, in appnp", value!(some number(Bounds::SHARE_BELOW_1) => own.alpha))
        .also(&["teleport"])
        .absent("that of the model"),
    key(
        "epsilon",
        "Weight of the vertex's own row, minus 1, in gin",
        value!(some number(Bounds::FINITE) => own.epsilon),
    )
    .also(&["eps"])
    .absent("that of the model"),
    key("train_epsilon", "Training of epsilon, in gin", value!(some flag => own.train_epsilon))
        .also(&["train_eps"])
        .absent("that of the model"),
    key(
        "aggregator",
        "Aggregation of the neighbours' rows, in sage",
        value!(some choice(Aggregator::ALL) => own.aggregator),
    )
    .also(&["aggr", "aggregator_type", "pooling"])
    .absent("that of the model"),
    key(
        "readout",
        "Row of a graph (mean, sum, max) or of a labelled edge (ends, source, target), in readout",
        value!(some choice(Readout::ALL) => own.readout),
    )
    .also(&["global_pool", "graph_pooling"])
    .absent("that of the model"),
    key("heads", "Number of attention heads", value!(some integer32(1, MAX_HEADS) => own.heads))
        .also(&["num_heads", "nhead"])
        .absent("that of the model"),
    key(
        "average",
        "Average of the heads in place of their concatenation, in gat and gatv2",
        value!(some flag => average),
    )
    .also(&["mean_heads"])
    .absent("true for a last layer of several heads"),
    key(
        "attention_dropout",
        "Dropout probability of attention weights, in gat and gatv2",
        value!(some number(Bounds::SHARE_BELOW_1) => own.attention_dropout),
    )
    .also(&["attn_drop", "attn_dropout"])
    .absent("that of the model"),
    key(
        "negative_slope",
        "Factor of negative attention scores, in gat and gatv2",
        value!(some number(Bounds::SHARE_BELOW_1) => own.negative_slope),
    )
    .also(&["leaky_slope"])
    .absent("that of the model"),
    key(
        "edge_features",
        "Use of edge features, in gatv2, readout and user kernels on edges",
        value!(some flag => own.edge_features),
    )
    .also(&["edge_attr", "edge_dim"])
    .absent("that of the model"),
    key("on", "Domain of a user kernel", value!(some choice(On::ALL) => on)).also(&["level"]).absent("rows"),
    key(
        "self_loops",
        "Presence of each vertex among its own neighbours, in user kernels on edges",
        value!(some flag => self_loops),
    )
    .also(&["add_self_loops", "with_self"])
    .absent("true"),
    key("attributes", "Attributes with which a user kernel is opened", ATTRIBUTES)
        .also(&["arguments", "parameters"])
        .absent("none"),
    key(
        "name",
        "Name by which later layers refer to this layer in inputs",
        value!(some text("a name of 1 to 64 letters, digits, `-`, `_` and `.`") => name),
    )
    .also(&["id", "label"])
    .absent("none"),
    key("inputs", "Names of the layers that the layer reads, or \"features\"", INPUTS)
        .also(&["input", "from", "reads"])
        .absent("the layer before"),
    key(
        "loss_weight",
        "Weight of an additional loss on the layer's rows, relative to the last layer's loss",
        value!(some number(Bounds::above(0.0, 1000.0)) => loss_weight),
    )
    .also(&["aux_weight", "loss_weights"])
    .absent("no additional loss"),
    key(
        "weights_of",
        "Name of an earlier layer with which the layer shares its weight",
        value!(some text("the name of an earlier layer") => weights_of),
    )
    .also(&["tied_to", "tie_weights", "shared_with"])
    .absent("the layer has its own weight"),
    key("init", "Distribution of the layer's initial values", LAYER_INIT)
        .also(&["initialiser", "initializer"])
        .absent("that of the model"),
];

const KERNEL: (Kind, Write<LayerSettings>) = (
    Kind::Open(
        || [&LayerSettings::KERNELS[..], &LayerSettings::BUILT_IN[..]].concat(),
        LayerSettings::OR_PATH,
    ),
    |layer, field, _| {
        layer.kernel = match &field.value {
            Found::Text(text) if LayerSettings::is_own(text) => text.clone(),
            _ => kernel(field)?.to_owned(),
        };
        Ok(())
    },
);

const ATTRIBUTES: (Kind, Write<LayerSettings>) =
    (Kind::Other("a table of names and values"), |layer, field, _| {
        layer.attributes = attributes(field)?;
        Ok(())
    });

const INPUTS: (Kind, Write<LayerSettings>) =
    (Kind::Other("a list of names, as [\"stem\", \"features\"]"), |layer, field, kind| {
        layer.inputs = Some(names_of_layers(field, kind)?);
        Ok(())
    });

const LAYER_INIT: (Kind, Write<LayerSettings>) = (Kind::Other(first::FORM), |layer, field, _| {
    layer.init = first::init(field)?;
    Ok(())
});

/// Returns a list of layer names. A single name may be given without a list.
fn names_of_layers(field: &Field, kind: &Kind) -> Result<Vec<String>> {
    let name = |item: &Found| match item {
        Found::Text(text) => Some(text.clone()),
        _ => None,
    };
    let found = match &field.value {
        Found::List(items) => items.iter().map(name).collect(),
        one => name(one).map(|one| vec![one]),
    };
    let fits = |names: &Vec<String>| (1..=MAX_LAYERS as usize).contains(&names.len());
    found.filter(fits).ok_or_else(|| field.refuse(kind.text(&field.name)))
}

/// Returns the built-in kind of a layer. For other texts, the error also mentions that a component
/// path is accepted.
fn kernel(field: &Field) -> Result<&'static str> {
    let names = LayerSettings::KERNELS;
    field.choice(&names.map(|name| (name, name))).map_err(|_| {
        let names = names.iter().chain(&LayerSettings::BUILT_IN);
        let names = names.map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
        field.refuse(format!("one of {names}, {}", LayerSettings::OR_PATH))
    })
}

/// Returns the kernel attributes that a table lists.
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

//! Settings of a model, as written in a recipe or a model file.

use super::{Activation, Aggregator, FirstWeights, Image, Init, Jumping, Norm, On, PoolBy, Readout, SetKeys};
use crate::class_weights::ClassWeights;
use crate::error::{Error, Result};
use crate::objective::Loss;
use eciton_types::signature::Value;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Section `[model]` of a recipe, or the contents of a model file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelSettings {
    /// Path of a model file whose keys replace the other fields. The caller reads the file
    /// ([`ModelSettings::parse`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Kind of the model, if `layers` is a number.
    #[serde(default)]
    pub kind: ModelKind,
    /// Width of every layer except the last. A layer may set its own.
    pub hidden: u32,
    /// Activation of every layer except the last. A layer may set its own. If `None`, the kind of
    /// the model determines it ([`ModelKind::activation`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activation: Option<Activation>,
    /// Slope of every `leaky-relu`. A layer may set its own. If `None`, it is
    /// [`LEAKY_SLOPE`](super::LEAKY_SLOPE).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activation_slope: Option<f64>,
    /// Dropout probability of the input of every layer with weights, in [0, 1). A layer may set its
    /// own.
    pub dropout: f64,
    /// True if layers have a bias. A layer may set its own.
    pub bias: bool,
    /// Normalisation of the output of every layer except the last. A layer may set its own.
    #[serde(default, skip_serializing_if = "is_default")]
    pub norm: Norm,
    /// True if every layer except the last adds its input to its output where the widths are equal.
    /// A layer may set its own.
    #[serde(default, skip_serializing_if = "is_default")]
    pub residual: bool,
    /// Distribution of the initial weights.
    #[serde(default, skip_serializing_if = "is_default")]
    pub first_weights: FirstWeights,
    /// Initial values that take precedence over `first_weights`. A layer may set its own.
    #[serde(default, skip_serializing_if = "Init::is_empty")]
    pub init: Init,
    /// Loss that training minimises. If `None`, it is the default of the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<Loss>,
    /// Class weights in the loss. If `None`, all rows have equal weight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class_weights: Option<ClassWeights>,
    /// Exponent gamma of the focal loss (Lin et al. 2017, equation 4). If 0, the loss is the
    /// ordinary cross-entropy.
    #[serde(default, skip_serializing_if = "is_default")]
    pub focal: f64,
    /// Column of the edge features that contains the weight of each edge, for layers that gather.
    /// If `None`, all edges have weight 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edge_weights: Option<EdgeColumn>,
    /// Combination of the outputs of all layers, which an additional final `linear` layer reads if
    /// `layers` is a number (jumping knowledge). If `None`, there is no such layer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jumping: Option<Jumping>,
    /// Settings that only some kinds of layers have. A layer may set its own.
    #[serde(flatten)]
    pub own: KindSettings,
    /// Names of the keys that the user set individually, for error messages.
    #[serde(skip)]
    pub set_keys: SetKeys,
    /// Number of layers, or the settings of each layer.
    pub layers: Layers,
}

pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Default for ModelSettings {
    /// Returns the model of Kipf and Welling (2017), which has two layers, hidden width 16, ReLU,
    /// dropout 0.5, and biases.
    fn default() -> Self {
        Self {
            file: None,
            kind: ModelKind::Gcn,
            layers: Layers::Count(2),
            hidden: 16,
            activation: None,
            activation_slope: None,
            dropout: 0.5,
            bias: true,
            norm: Norm::None,
            residual: false,
            first_weights: FirstWeights::Auto,
            init: Init::default(),
            loss: None,
            class_weights: None,
            focal: 0.0,
            edge_weights: None,
            jumping: None,
            own: KindSettings::default(),
            set_keys: SetKeys::default(),
        }
    }
}

impl ModelSettings {
    /// Sets the slope of each `leaky-relu` to 0.2 unless a slope is set. Run folders of format 1
    /// have no key for the slope, which was fixed at 0.2.
    pub fn set_slope_of_format_1(&mut self) {
        let leaky = |activation: Option<Activation>| matches!(activation, Some(Activation::LeakyRelu(_)));
        if leaky(self.activation) {
            self.activation_slope.get_or_insert(0.2);
        }
        if let Layers::List(layers) = &mut self.layers {
            for layer in layers.iter_mut().filter(|layer| leaky(layer.activation)) {
                layer.activation_slope.get_or_insert(0.2);
            }
        }
    }

    /// Returns the component paths that layers use as kernels, as written. A path is repeated if
    /// several layers use it.
    pub fn own_kernels(&self) -> impl Iterator<Item = &str> {
        let layers = match &self.layers {
            Layers::List(layers) => &layers[..],
            Layers::Count(_) => &[],
        };
        layers.iter().map(|layer| &layer.kernel[..]).filter(|kernel| LayerSettings::is_path(kernel))
    }

    /// Returns the component paths that layers use as kernels, mutably. The caller can resolve
    /// relative paths in place.
    pub fn own_kernels_mut(&mut self) -> impl Iterator<Item = &mut String> {
        let layers = match &mut self.layers {
            Layers::List(layers) => &mut layers[..],
            Layers::Count(_) => &mut [],
        };
        layers.iter_mut().map(|layer| &mut layer.kernel).filter(|kernel| LayerSettings::is_path(kernel))
    }
}

/// Column of the edge features, given by its index or its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum EdgeColumn {
    /// Index of the column, from 0.
    Number(u32),
    /// Name of the column as defined by the data set.
    Name(String),
}

impl EdgeColumn {
    /// Returns the index of the column. `names` are the names of the data set's columns.
    ///
    /// # Errors
    /// Returns [`Error::EdgeColumn`] if no column or several columns have the name.
    pub fn number(&self, names: &[String]) -> Result<u32> {
        match self {
            Self::Number(number) => Ok(*number),
            Self::Name(name) => {
                let mut found = (0u32..).zip(names).filter(|(_, known)| *known == name);
                let one = found.next().filter(|_| found.next().is_none());
                one.map(|(at, _)| at).ok_or_else(|| Error::EdgeColumn {
                    name: name.chars().take(60).collect(),
                    known: match names {
                        [] => "its columns have no names: give a column number, from 0".to_owned(),
                        [..] => format!(
                            "it has {}",
                            names.iter().take(20).cloned().collect::<Vec<_>>().join(", ")
                        ),
                    },
                })
            }
        }
    }
}

/// Kind of a model that is given by a number of layers N, from which its layers are generated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModelKind {
    /// N `gcn` layers.
    #[default]
    Gcn,
    /// N `sage` layers.
    Sage,
    /// N `gin` layers.
    Gin,
    /// A single `sgc` layer with N propagation steps by default.
    Sgc,
    /// N `gat` layers.
    Gat,
    /// N `gatv2` layers.
    Gatv2,
    /// N `linear` layers, followed by one `appnp` layer.
    Appnp,
    /// N `linear` layers.
    Mlp,
}

impl ModelKind {
    /// All kinds of model, with their names in recipes.
    pub const ALL: [(&'static str, Self); 8] = [
        ("gcn", Self::Gcn),
        ("sage", Self::Sage),
        ("gin", Self::Gin),
        ("sgc", Self::Sgc),
        ("appnp", Self::Appnp),
        ("gat", Self::Gat),
        ("gatv2", Self::Gatv2),
        ("mlp", Self::Mlp),
    ];

    /// Returns the name of this kind of model in recipes, for instance `gcn`.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.into_iter().find_map(|(name, kind)| (kind == self).then_some(name)).unwrap_or_default()
    }

    /// Returns the default activation of layers of this kind. It is ELU for graph attention
    /// (Velickovic et al. 2018), and ReLU for all other kinds.
    #[must_use]
    pub const fn activation(self) -> Activation {
        match self {
            Self::Gat | Self::Gatv2 => Activation::Elu,
            _ => Activation::Relu,
        }
    }

    /// Returns the layer kind of the generated layers.
    pub(super) const fn layer(self) -> &'static str {
        match self {
            Self::Gcn => "gcn",
            Self::Sage => "sage",
            Self::Gin => "gin",
            Self::Sgc => "sgc",
            Self::Gat => "gat",
            Self::Gatv2 => "gatv2",
            Self::Appnp | Self::Mlp => "linear",
        }
    }
}

/// Value of the model's setting `layers`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Layers {
    /// Number of layers of the kind that the model sets, from 1 to 256.
    Count(u32),
    /// Settings of each layer, in order.
    List(Vec<LayerSettings>),
}

/// Settings of one layer. Most settings default to those of the model if they are `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LayerSettings {
    /// Kind of the layer, which is one of [`LayerSettings::KERNELS`] or
    /// [`LayerSettings::BUILT_IN`], or the path of a component ([`LayerSettings::is_path`]).
    pub kernel: String,
    /// Number of columns of the layer's output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<u32>,
    /// Activation that the layer applies to its output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activation: Option<Activation>,
    /// Slope of the activation, if it is `leaky-relu`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activation_slope: Option<f64>,
    /// Dropout probability of the layer's input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropout: Option<f64>,
    /// True if the layer adds a bias.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bias: Option<bool>,
    /// Normalisation of the layer's output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub norm: Option<Norm>,
    /// True if the layer adds its input to its output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub residual: Option<bool>,
    /// Combination of the outputs of all earlier layers that a `linear` layer reads (jumping
    /// knowledge). If `None`, the layer reads a single input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jumping: Option<Jumping>,
    /// True if a `gat` or `gatv2` layer outputs the mean of its heads instead of their
    /// concatenation. If `None`, it is true in the last layer only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub average: Option<bool>,
    /// Settings that only some kinds of layers have.
    #[serde(flatten)]
    pub own: KindSettings,
    /// Interface of a user's kernel, which computes either on single rows or along edges. If
    /// `None`, it computes on rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<On>,
    /// True if a user's edge kernel also receives an edge from each vertex to itself. If `None`, it
    /// is true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub self_loops: Option<bool>,
    /// Attributes that are passed to a user's kernel.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, Value>,
    /// Name by which later layers refer to this layer in their `inputs`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Names of the layers that this layer reads. If `None`, it reads the previous layer, and the
    /// first layer reads the features.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Vec<String>>,
    /// Name of the layer whose weight this layer shares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights_of: Option<String>,
    /// Weight of an additional loss term that this layer's rows contribute. If `None`, the rows are
    /// not scores. The loss of the last layer is always included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_weight: Option<f64>,
    /// Initial values of the layer's parameters. If empty, the model's setting applies.
    #[serde(default, skip_serializing_if = "Init::is_empty")]
    pub init: Init,
    /// Settings that only layers for images and sequences have.
    #[serde(flatten)]
    pub deep: DeepSettings,
}

/// Settings that only layers for images and sequences have. The comments name the layer kinds that
/// read a setting, with their defaults in parentheses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeepSettings {
    /// Number of rows of the embedding table. Read by `embedding` (number of classes).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entries: Option<u32>,
    /// True if the layer adds a trained row for each position in a sequence. Read by `embedding`
    /// (false).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub positions: Option<bool>,
    /// True if a row does not attend to later rows of its sequence. Read by `self-attention` and
    /// `transformer` (false).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub causal: Option<bool>,
    /// Hidden width of the perceptron. Read by `transformer` (four times the layer's width).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hidden: Option<u32>,
    /// Height, width and channels of the input image. Read by `conv2d` and `pool2d` (shape of the
    /// input layer's images).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<Image>,
    /// Number of channels of the output image. Read by `conv2d` (the model's `hidden`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channels: Option<u32>,
    /// Height and width of the convolution kernel, in pixels. Read by `conv2d` (3).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_size: Option<u32>,
    /// Distance between neighbouring kernel or window positions, in pixels. Read by `conv2d` (1)
    /// and `pool2d` (size of the window).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stride: Option<u32>,
    /// Number of zero pixels that are added on each side of the image. Read by `conv2d` (0).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub padding: Option<u32>,
    /// Distance between the pixels that neighbouring kernel values are applied to. Read by `conv2d`
    /// (1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dilation: Option<u32>,
    /// Height and width of the pooling window, in pixels. Read by `pool2d` (2).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<u32>,
    /// Function that reduces a pooling window to one value. Read by `pool2d` (maximum).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<PoolBy>,
    /// Index of the first selected column. Read by `slice` (0).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<u32>,
    /// Number of selected columns. Read by `slice` (required).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
}

/// Settings that only some kinds of layers have, for the whole model or for one layer. The comments
/// name the layer kinds that read a setting, with their defaults in parentheses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KindSettings {
    /// Number of propagation steps. Read by `sgc` (2) and `appnp` (10).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hops: Option<u32>,
    /// Teleport probability. Read by `appnp` (0.1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alpha: Option<f64>,
    /// Weight of the vertex's own row in the sum, minus 1. Read by `gin` (0).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epsilon: Option<f64>,
    /// True if `epsilon` is trained. Read by `gin` (false).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub train_epsilon: Option<bool>,
    /// Aggregation of the in-neighbours' rows. Read by `sage` (mean).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aggregator: Option<Aggregator>,
    /// Number of attention heads, by default 8. In the last layer, the default of `gat` and `gatv2`
    /// is 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heads: Option<u32>,
    /// Dropout probability of the attention weights of edges. Read by `gat` and `gatv2` (dropout of
    /// the layer).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attention_dropout: Option<f64>,
    /// Negative slope of the leaky ReLU of attention scores. Read by `gat` and `gatv2` (0.2).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub negative_slope: Option<f64>,
    /// True if the layer reads edge features. Read by `gatv2`, users' edge kernels and `readout` of
    /// edges (false).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edge_features: Option<bool>,
    /// Row of each graph or labelled edge. Read by `readout` (mean). If it is set for a model with a
    /// number of layers, a `readout` and a `linear` layer are appended, or two for edges.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub readout: Option<Readout>,
}

impl KindSettings {
    /// Returns these settings, with each unset one replaced by the setting of `model`.
    pub(super) fn or(self, model: Self) -> Self {
        Self {
            hops: self.hops.or(model.hops),
            alpha: self.alpha.or(model.alpha),
            epsilon: self.epsilon.or(model.epsilon),
            train_epsilon: self.train_epsilon.or(model.train_epsilon),
            aggregator: self.aggregator.or(model.aggregator),
            heads: self.heads.or(model.heads),
            attention_dropout: self.attention_dropout.or(model.attention_dropout),
            negative_slope: self.negative_slope.or(model.negative_slope),
            edge_features: self.edge_features.or(model.edge_features),
            readout: self.readout.or(model.readout),
        }
    }
}

impl LayerSettings {
    /// Names of all layer kinds, except users' kernels and [`Self::BUILT_IN`].
    pub const KERNELS: [&'static str; 20] = [
        "gcn",
        "sage",
        "gin",
        "sgc",
        "appnp",
        "gat",
        "gatv2",
        "linear",
        "readout",
        "embedding",
        "self-attention",
        "transformer",
        "conv2d",
        "pool2d",
        "concat",
        "slice",
        "product",
        "sum",
        "normalise",
        "activate",
    ];

    /// Description of users' edge kernels in lists of layer kinds, for error messages.
    pub(super) const OWN_ON_EDGES: &str = "kernels of your own on edges";

    /// Description of component paths that error messages append to lists of layer kinds.
    pub(crate) const OR_PATH: &str = "or the path of a component, with a `/` or ending in `.wasm`";

    /// Returns true if `kernel` is the path of a component, which contains `/` or ends with
    /// `.wasm`.
    #[must_use]
    pub fn is_path(kernel: &str) -> bool {
        kernel.contains('/') || kernel.ends_with(".wasm")
    }

    /// Names of built-in kernels that are layer kinds of their own. They are configured by
    /// `attributes`, like users' kernels.
    pub const BUILT_IN: [&'static str; 3] = ["binary", "ipa", "spiking"];

    /// Returns true if a layer of this kind only passes its rows to the kernel and uses the result
    /// unchanged. `kernel` is then a component's path or one of [`Self::BUILT_IN`].
    #[must_use]
    pub fn is_own(kernel: &str) -> bool {
        Self::is_path(kernel) || Self::BUILT_IN.contains(&kernel)
    }

    /// Returns true if the layer is of one of the kinds `kinds`.
    pub(super) fn has(&self, kinds: &[&str]) -> bool {
        let along_edges = Self::is_path(&self.kernel) && self.on == Some(On::Edges);
        kinds.contains(&&self.kernel[..]) || along_edges && kinds.contains(&Self::OWN_ON_EDGES)
    }

    /// Returns a layer of the kind `kernel`, with all other settings unset.
    #[must_use]
    pub fn with_kernel(kernel: &str) -> Self {
        Self { kernel: kernel.to_owned(), ..Self::default() }
    }

    /// Returns a `gcn` layer with all other settings unset.
    #[must_use]
    pub fn gcn() -> Self {
        Self::with_kernel("gcn")
    }
}

//! Settings of a model, as a user writes them.

use super::{Activation, Aggregator, FirstWeights, Image, Init, Jumping, Norm, On, PoolBy, Readout, SetKeys};
use crate::class_weights::ClassWeights;
use crate::error::{Error, Result};
use crate::objective::Loss;
use eciton_types::signature::Value;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The `[model]` section of a recipe, or a model file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelSettings {
    /// Model file to read in place of the keys below. The caller reads it
    /// ([`ModelSettings::parse`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Kind of the layers that `layers = N` creates.
    #[serde(default)]
    pub kind: ModelKind,
    /// Width of every layer except the last, unless the layer specifies its own.
    pub hidden: u32,
    /// Activation of every layer except the last, unless the layer specifies its own. If `None`, it
    /// is the usual one of the layer's kind ([`ModelKind::activation`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activation: Option<Activation>,
    /// Slope of every `leaky-relu`, unless the layer specifies its own. If `None`, it is
    /// [`LEAKY_SLOPE`](super::LEAKY_SLOPE).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activation_slope: Option<f64>,
    /// Dropout of the input of every layer with weights, unless the layer specifies its own: 0 <=
    /// dropout < 1.
    pub dropout: f64,
    /// True if layers add a bias, unless the layer specifies it.
    pub bias: bool,
    /// Normalisation of the rows of every layer except the last, unless the layer specifies its
    /// own.
    #[serde(default, skip_serializing_if = "is_default")]
    pub norm: Norm,
    /// True if every layer except the last adds its input, where the widths are equal, unless the
    /// layer specifies it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub residual: bool,
    /// Distribution of the initial weights.
    #[serde(default, skip_serializing_if = "is_default")]
    pub first_weights: FirstWeights,
    /// Initial values that replace those of `first_weights`, unless the layer specifies its own.
    #[serde(default, skip_serializing_if = "Init::is_empty")]
    pub init: Init,
    /// Loss that training minimises. If `None`, it is the usual one for the data's task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<Loss>,
    /// Weights of the classes' rows in the loss. If `None`, all rows have the same weight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class_weights: Option<ClassWeights>,
    /// Exponent gamma of the focal loss (Lin et al. 2017, equation 4). If 0, the loss is the
    /// cross-entropy.
    #[serde(default, skip_serializing_if = "is_default")]
    pub focal: f64,
    /// Column of the edge features that is the edges' weight in layers that gather. If `None`, each
    /// edge has the weight 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edge_weights: Option<EdgeColumn>,
    /// Combination of the outputs of N hidden layers that a final `linear` layer reads, with
    /// `layers = N`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jumping: Option<Jumping>,
    /// Settings of certain kinds of layers, unless the layer specifies its own.
    #[serde(flatten)]
    pub own: KindSettings,
    /// Keys that were set one by one, for messages.
    #[serde(skip)]
    pub set_keys: SetKeys,
    /// The layers.
    pub layers: Layers,
}

pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Default for ModelSettings {
    /// Kipf and Welling (2017): two layers, hidden 16, relu, dropout 0.5, bias.
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
    /// Gives each `leaky-relu` the slope 0.2 of run folders of format 1, which have no key for the
    /// slope. Other models do not change.
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

    /// Returns the paths of the components that the layers name, as written. A path is repeated if
    /// several layers name it.
    pub fn own_kernels(&self) -> impl Iterator<Item = &str> {
        let layers = match &self.layers {
            Layers::List(layers) => &layers[..],
            Layers::Count(_) => &[],
        };
        layers.iter().map(|layer| &layer.kernel[..]).filter(|kernel| LayerSettings::is_path(kernel))
    }

    /// Returns the paths of the components that the layers name, mutably, so that the caller can
    /// resolve relative paths.
    pub fn own_kernels_mut(&mut self) -> impl Iterator<Item = &mut String> {
        let layers = match &mut self.layers {
            Layers::List(layers) => &mut layers[..],
            Layers::Count(_) => &mut [],
        };
        layers.iter_mut().map(|layer| &mut layer.kernel).filter(|kernel| LayerSettings::is_path(kernel))
    }
}

/// Column of the edge features.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum EdgeColumn {
    /// Number of the column, from 0.
    Number(u32),
    /// Name of the column, which the data set defines.
    Name(String),
}

impl EdgeColumn {
    /// Returns the number of the column. `names` are the names of the data set's columns.
    ///
    /// # Errors
    /// [`Error::EdgeColumn`] for a name that no column has, or that several columns have.
    pub fn number(&self, names: &[String]) -> Result<u32> {
        match self {
            Self::Number(number) => Ok(*number),
            Self::Name(name) => {
                let mut found = (0u32..).zip(names).filter(|(_, known)| *known == name);
                let one = found.next().filter(|_| found.next().is_none());
                one.map(|(at, _)| at).ok_or_else(|| Error::EdgeColumn {
                    name: name.chars().take(60).collect(),
                    known: match names {
                        [] => "its columns have no names: give a number, from 0".to_owned(),
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

/// Kinds of models that need no list of layers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModelKind {
    /// `gcn` layers.
    #[default]
    Gcn,
    /// `sage` layers.
    Sage,
    /// `gin` layers.
    Gin,
    /// One `sgc` layer, with `layers` as its default number of hops.
    Sgc,
    /// `gat` layers.
    Gat,
    /// `gatv2` layers.
    Gatv2,
    /// `linear` layers, then `appnp`.
    Appnp,
    /// `linear` layers.
    Mlp,
}

impl ModelKind {
    /// All kinds, with their names.
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

    /// Returns the kind's name in recipes.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.into_iter().find_map(|(name, kind)| (kind == self).then_some(name)).unwrap_or_default()
    }

    /// Returns the default activation of the kind's layers: ELU for attention (Velickovic et al.
    /// 2018), else ReLU.
    #[must_use]
    pub const fn activation(self) -> Activation {
        match self {
            Self::Gat | Self::Gatv2 => Activation::Elu,
            _ => Activation::Relu,
        }
    }

    /// Returns the kernel of the kind's layers.
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

/// The layers of a model, as written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Layers {
    /// Number of layers of the model's kind, 1 to 256.
    Count(u32),
    /// List of layers.
    List(Vec<LayerSettings>),
}

/// A layer as written. Most settings that are `None` are taken from the model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LayerSettings {
    /// The layer's kind: one of [`LayerSettings::KERNELS`] or [`LayerSettings::BUILT_IN`], or the
    /// path of a component ([`LayerSettings::is_path`]).
    pub kernel: String,
    /// Width of the layer's output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<u32>,
    /// Activation of the layer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activation: Option<Activation>,
    /// Slope of the activation, if it is `leaky-relu`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activation_slope: Option<f64>,
    /// Dropout of the layer's input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropout: Option<f64>,
    /// True if the layer adds a bias.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bias: Option<bool>,
    /// Normalisation of the layer's rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub norm: Option<Norm>,
    /// True if the layer adds its input to its output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub residual: Option<bool>,
    /// Combination of the outputs of all earlier layers (`linear`). If `None`, the layer reads one
    /// input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jumping: Option<Jumping>,
    /// True if the result is the mean of the heads (`gat`, `gatv2`). If `None`, it is the mean in
    /// the last layer only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub average: Option<bool>,
    /// Settings of the layer's kind.
    #[serde(flatten)]
    pub own: KindSettings,
    /// Domain of the user's own kernel. If `None`, it is rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<On>,
    /// True if each vertex is one of its own neighbours, for the user's own kernel on edges. If
    /// `None`, it is true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub self_loops: Option<bool>,
    /// Attributes that the user's own kernel is opened with.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, Value>,
    /// Name by which later layers refer to this layer in their `inputs`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Names of the layers that this layer reads. If `None`, it reads the previous layer; the first
    /// layer reads the features.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Vec<String>>,
    /// Name of the layer whose weight this layer shares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights_of: Option<String>,
    /// Weight of this layer's rows in the loss, as scores in addition to the last layer's. If
    /// `None`, they are not part of the loss.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_weight: Option<f64>,
    /// Initial values. If empty, they are the model's.
    #[serde(default, skip_serializing_if = "Init::is_empty")]
    pub init: Init,
    /// Settings that only layers of deep networks have.
    #[serde(flatten)]
    pub deep: DeepSettings,
}

/// Settings that only layers of deep networks have. Defaults are given in parentheses.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeepSettings {
    /// Number of rows of the table (`embedding`: the number of classes).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entries: Option<u32>,
    /// True if positions in a sequence have trained rows (`embedding`: false).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub positions: Option<bool>,
    /// True if a row attends to no later row (`self-attention`, `transformer`: false).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub causal: Option<bool>,
    /// Number of columns between the last two products (`transformer`: four times its width).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hidden: Option<u32>,
    /// Height, width and channels of the input (`conv2d`, `pool2d`: those of the layer that it
    /// reads).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<Image>,
    /// Number of channels of the result (`conv2d`: the model's `hidden`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channels: Option<u32>,
    /// Height and width of the convolution kernel (`conv2d`: 3).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_size: Option<u32>,
    /// Pixels between neighbouring positions of the window (`conv2d`: 1, `pool2d`: the window).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stride: Option<u32>,
    /// Number of zeros on each side of the image (`conv2d`: 0).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub padding: Option<u32>,
    /// Pixels between neighbouring values of the kernel (`conv2d`: 1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dilation: Option<u32>,
    /// Height and width of the window (`pool2d`: 2).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<u32>,
    /// Reduction of a window to one value (`pool2d`: the maximum).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<PoolBy>,
    /// Index of the first column (`slice`: 0).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<u32>,
    /// Number of columns (`slice`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
}

/// Settings that only some kinds of layers have, given for the model or for a layer. Defaults are
/// given in parentheses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KindSettings {
    /// Number of steps of a propagation (`sgc`: 2, `appnp`: 10).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hops: Option<u32>,
    /// Teleport probability (`appnp`: 0.1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alpha: Option<f64>,
    /// Weight of the vertex's own row, minus 1 (`gin`: 0).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epsilon: Option<f64>,
    /// True if `epsilon` is trained (`gin`: false).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub train_epsilon: Option<bool>,
    /// Aggregation of the in-neighbours' rows (`sage`: their mean).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aggregator: Option<Aggregator>,
    /// Number of heads of an attention (8; for `gat` and `gatv2`, 1 in the last layer unless that
    /// layer specifies it).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heads: Option<u32>,
    /// Dropout of the edges' attention weights (`gat`, `gatv2`: the layer's dropout).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attention_dropout: Option<f64>,
    /// Factor of a negative score (`gat`, `gatv2`: 0.2).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub negative_slope: Option<f64>,
    /// True if the kernel reads edge features (`gatv2`, and the user's own kernels on edges:
    /// false).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edge_features: Option<bool>,
    /// Pooling of the rows of a graph's vertices (`readout`: their mean). If it is given for a
    /// model with `layers = N`, a `readout` and a `linear` layer follow the N layers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub readout: Option<Readout>,
}

impl KindSettings {
    /// Returns these settings, with the model's for those that are `None`.
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
    /// All kinds of layers, except kernels of the user's own and [`Self::BUILT_IN`].
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

    /// Name of the user's own kernels on edges, in lists of kinds.
    pub(super) const OWN_ON_EDGES: &str = "kernels of your own on edges";

    /// Other form of a kernel's name, for error messages.
    pub(crate) const OR_PATH: &str = "or the path of a component, with a `/` or ending in `.wasm`";

    /// Returns true if a layer's kernel is the path of a component: it contains `/` or ends with
    /// `.wasm`.
    #[must_use]
    pub fn is_path(kernel: &str) -> bool {
        kernel.contains('/') || kernel.ends_with(".wasm")
    }

    /// Built-in kernels that are layers under their own names. Their settings are in `attributes`,
    /// as for the user's own kernels.
    pub const BUILT_IN: [&'static str; 3] = ["binary", "ipa", "spiking"];

    /// Returns true if a layer passes its rows unchanged to a kernel and uses the result: a
    /// component's path, or one of [`Self::BUILT_IN`].
    #[must_use]
    pub fn is_own(kernel: &str) -> bool {
        Self::is_path(kernel) || Self::BUILT_IN.contains(&kernel)
    }

    /// Returns true if the layer is of one of `kinds`, the kinds that have a certain key.
    pub(super) fn has(&self, kinds: &[&str]) -> bool {
        let along_edges = Self::is_path(&self.kernel) && self.on == Some(On::Edges);
        kinds.contains(&&self.kernel[..]) || along_edges && kinds.contains(&Self::OWN_ON_EDGES)
    }

    /// Returns a layer that takes all settings from the model.
    #[must_use]
    pub fn with_kernel(kernel: &str) -> Self {
        Self { kernel: kernel.to_owned(), ..Self::default() }
    }

    /// Returns a `gcn` layer that takes all settings from the model.
    #[must_use]
    pub fn gcn() -> Self {
        Self::with_kernel("gcn")
    }
}

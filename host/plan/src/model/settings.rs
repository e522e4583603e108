//! What a user writes of a model.

use super::{Activation, Aggregator, FirstWeights, Image, Init, Jumping, Norm, On, PoolBy, Readout, SetKeys};
use crate::class_weights::ClassWeights;
use crate::document;
use crate::error::{Error, Result};
use crate::keys;
use crate::objective::Loss;
use crate::signature::Value;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The `[model]` section of a recipe, or a model file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelSettings {
    /// A model file to read in place of the keys below; the caller reads it
    /// ([`ModelSettings::parse`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// What `layers = N` means.
    #[serde(default)]
    pub kind: ModelKind,
    /// Width of every layer but the last, unless the layer says.
    pub hidden: u32,
    /// The activation of every layer but the last, unless the layer says; `None`: the usual one of
    /// the layer's kind ([`ModelKind::activation`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activation: Option<Activation>,
    /// The slope of every `leaky-relu`, unless the layer says; `None`:
    /// [`LEAKY_SLOPE`](super::LEAKY_SLOPE).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activation_slope: Option<f64>,
    /// Dropout on the input of every layer with weights, unless the layer says: 0 <= dropout < 1.
    pub dropout: f64,
    /// True if layers add a bias, unless the layer says.
    pub bias: bool,
    /// What brings the rows of every layer but the last to one scale, unless the layer says.
    #[serde(default, skip_serializing_if = "is_default")]
    pub norm: Norm,
    /// True if layers that are as wide as their input add it, but the last, unless the layer says.
    #[serde(default, skip_serializing_if = "is_default")]
    pub residual: bool,
    /// How weights start.
    #[serde(default, skip_serializing_if = "is_default")]
    pub first_weights: FirstWeights,
    /// First values, where not as `first_weights` says, unless the layer says.
    #[serde(default, skip_serializing_if = "Init::is_empty")]
    pub init: Init,
    /// What training makes small; `None`: what is usual for the data's task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<Loss>,
    /// What the rows of each class count in the loss; `None`: all the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class_weights: Option<ClassWeights>,
    /// The exponent gamma of the focal loss (Lin et al. 2017, equation 4); 0: the cross-entropy
    /// itself.
    #[serde(default, skip_serializing_if = "is_default")]
    pub focal: f64,
    /// The column of the edges' features that is their weight in layers that gather; `None`: each
    /// counts 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edge_weights: Option<EdgeColumn>,
    /// With `layers = N`: N hidden layers, whose outputs a last `linear` layer reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jumping: Option<Jumping>,
    /// Of the layers that have them, unless the layer says.
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
    /// Reads a model file. `origin` is its name, for messages.
    ///
    /// # Errors
    /// As [`crate::Config::parse`].
    pub fn parse(text: &str, origin: &str) -> Result<Self> {
        let mut settings = Self::default();
        let fields = document::parse(text, origin)?;
        keys::write_model_file(&mut settings, &fields)?;
        Ok(settings)
    }

    /// Gives each `leaky-relu` the slope 0.2, as run folders of format 1 have it: they have no key
    /// for the slope. Other models stay as they are.
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

    /// The paths of the components that its layers name, as written; twice where two layers name
    /// one.
    pub fn own_kernels(&self) -> impl Iterator<Item = &str> {
        let layers = match &self.layers {
            Layers::List(layers) => &layers[..],
            Layers::Count(_) => &[],
        };
        layers.iter().map(|layer| &layer.kernel[..]).filter(|kernel| LayerSettings::is_path(kernel))
    }

    /// The same, to be changed by who knows where they are relative to.
    pub fn own_kernels_mut(&mut self) -> impl Iterator<Item = &mut String> {
        let layers = match &mut self.layers {
            Layers::List(layers) => &mut layers[..],
            Layers::Count(_) => &mut [],
        };
        layers.iter_mut().map(|layer| &mut layer.kernel).filter(|kernel| LayerSettings::is_path(kernel))
    }
}

/// A column of the edges' features.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum EdgeColumn {
    /// Its number, from 0.
    Number(u32),
    /// Its name, which the data set knows.
    Name(String),
}

impl EdgeColumn {
    /// The number of the column, of the names that a data set has.
    ///
    /// # Errors
    /// [`Error::EdgeColumn`] for a name that no column has, or two have.
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

/// The models that need no list of layers.
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
    /// One `sgc` layer, of as many hops.
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
    /// All, with their names.
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

    /// Its name in recipes.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.into_iter().find_map(|(name, kind)| (kind == self).then_some(name)).unwrap_or_default()
    }

    /// The activation of its layers where nothing is said: ELU in attention (Velickovic et al.
    /// 2018), else ReLU.
    #[must_use]
    pub const fn activation(self) -> Activation {
        match self {
            Self::Gat | Self::Gatv2 => Activation::Elu,
            _ => Activation::Relu,
        }
    }

    /// The kernel of its layers.
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
    /// So many layers of the model's kind, 1 to 256.
    Count(u32),
    /// Each by itself.
    List(Vec<LayerSettings>),
}

/// A layer as written: what is `None` comes from the model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LayerSettings {
    /// The layer's kind: one of [`LayerSettings::KERNELS`] or [`LayerSettings::BUILT_IN`], or the
    /// path of a component ([`LayerSettings::is_path`]).
    pub kernel: String,
    /// Width of its output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<u32>,
    /// What follows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activation: Option<Activation>,
    /// Its slope, where that is `leaky-relu`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activation_slope: Option<f64>,
    /// Dropout on its input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropout: Option<f64>,
    /// Whether it adds a bias.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bias: Option<bool>,
    /// What brings its rows to one scale.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub norm: Option<Norm>,
    /// Whether it adds its input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub residual: Option<bool>,
    /// Whether it reads all layers before it, and how (`linear`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jumping: Option<Jumping>,
    /// Whether its result is the mean of the heads (`gat`, `gatv2`); `None`: in the last layer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub average: Option<bool>,
    /// What its kind has beside.
    #[serde(flatten)]
    pub own: KindSettings,
    /// What the kernel works on (a kernel of the user's own: rows where nobody says).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<On>,
    /// Whether each vertex counts among its own neighbours (such a kernel on edges: true).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub self_loops: Option<bool>,
    /// What the kernel is opened with (a kernel of the user's own).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, Value>,
    /// What later layers call it in their `inputs`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Names of the layers that it reads; `None`: the layer before, the features of the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Vec<String>>,
    /// The name of the layer whose weight is its own as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights_of: Option<String>,
    /// What its rows count in the loss, as scores beside the last layer's; `None`: no part of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_weight: Option<f64>,
    /// First values; empty: the model's.
    #[serde(default, skip_serializing_if = "Init::is_empty")]
    pub init: Init,
    /// What only layers of deep networks have.
    #[serde(flatten)]
    pub deep: DeepSettings,
}

/// What only layers of deep networks have.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeepSettings {
    /// Rows of the table (`embedding`: the number of classes).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entries: Option<u32>,
    /// Whether places in a sequence have rows of their own (`embedding`: false).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub positions: Option<bool>,
    /// Whether a row sees none after it (`self-attention`, `transformer`: false).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub causal: Option<bool>,
    /// Columns between the two last products (`transformer`: four times its width).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hidden: Option<u32>,
    /// Height, width and channels of the input (`conv2d`, `pool2d`: those of what it reads).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<Image>,
    /// Channels of the result (`conv2d`: the model's `hidden`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channels: Option<u32>,
    /// Height and width of the kernel (`conv2d`: 3).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_size: Option<u32>,
    /// Pixels from one place to the next (`conv2d`: 1, `pool2d`: the window).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stride: Option<u32>,
    /// Zeros on each side of the image (`conv2d`: 0).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub padding: Option<u32>,
    /// Pixels from one value of the kernel to the next (`conv2d`: 1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dilation: Option<u32>,
    /// Height and width of the window (`pool2d`: 2).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<u32>,
    /// What is made of a window (`pool2d`: the largest value).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<PoolBy>,
    /// The first column (`slice`: 0).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<u32>,
    /// How many columns (`slice`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
}

/// What only some kinds of layers have, said of the model or of a layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KindSettings {
    /// Steps of a propagation (`sgc`: 2 where nobody says, `appnp`: 10).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hops: Option<u32>,
    /// The teleport probability (`appnp`: 0.1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alpha: Option<f64>,
    /// The vertex's own weight, less 1 (`gin`: 0).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epsilon: Option<f64>,
    /// Whether that is trained (`gin`: false).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub train_epsilon: Option<bool>,
    /// What is made of in-neighbours' rows (`sage`: their mean).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aggregator: Option<Aggregator>,
    /// Heads of an attention (8; of `gat` and `gatv2` 1 in the last layer, unless that says).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heads: Option<u32>,
    /// Dropout of the weights of edges (`gat`, `gatv2`: as the layer's dropout).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attention_dropout: Option<f64>,
    /// What a negative score is multiplied by (`gat`, `gatv2`: 0.2).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub negative_slope: Option<f64>,
    /// Whether its kernel is told what is known of edges (`gatv2`, kernels of the user's own on
    /// edges: false).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edge_features: Option<bool>,
    /// What stands for a graph (`readout`: the mean of its vertices' rows). Said of a model of so
    /// many layers, a `readout` and a `linear` layer follow them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub readout: Option<Readout>,
}

impl KindSettings {
    /// These, and the model's where nothing is said.
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
    /// The layers there are.
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

    /// Kernels of the user's own on edges, in lists of kinds.
    pub(super) const OWN_ON_EDGES: &str = "kernels of your own on edges";

    /// What a kernel may be besides, in refusals.
    pub(crate) const OR_PATH: &str = "or the path of a component, with a `/` or ending in `.wasm`";

    /// Returns whether a layer's kernel is the path of a component: it contains `/` or ends with
    /// `.wasm`.
    #[must_use]
    pub fn is_path(kernel: &str) -> bool {
        kernel.contains('/') || kernel.ends_with(".wasm")
    }

    /// Built-in kernels that are layers by their own name, with `attributes` as the kernel has
    /// them.
    pub const BUILT_IN: [&'static str; 3] = ["binary", "ipa", "spiking"];

    /// Returns whether a layer hands its rows to a kernel as they are, and takes what comes: a
    /// component's path, or one of [`Self::BUILT_IN`].
    #[must_use]
    pub fn is_own(kernel: &str) -> bool {
        Self::is_path(kernel) || Self::BUILT_IN.contains(&kernel)
    }

    /// Returns whether it has a key that only some kinds have.
    pub(super) fn has(&self, kinds: &[&str]) -> bool {
        let along_edges = Self::is_path(&self.kernel) && self.on == Some(On::Edges);
        kinds.contains(&&self.kernel[..]) || along_edges && kinds.contains(&Self::OWN_ON_EDGES)
    }

    /// A layer that leaves everything to the model.
    #[must_use]
    pub fn of(kernel: &str) -> Self {
        Self { kernel: kernel.to_owned(), ..Self::default() }
    }

    /// A `gcn` layer that leaves everything to the model.
    #[must_use]
    pub fn gcn() -> Self {
        Self::of("gcn")
    }
}

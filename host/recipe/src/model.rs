//! Models: the settings that a user writes ([`ModelSettings`]) and the model that is trained
//! ([`Model`]).
//!
//! A model is a list of layers. In a recipe's `[model]` section, or in a model file of its own with
//! the same keys:
//!
//! ```toml
//! hidden = 16                # for layers that do not say
//! dropout = 0.5
//!
//! [[layers]]                 # or just: kind = "gcn" and layers = 2
//! kernel = "gcn"
//! activation = "relu"
//!
//! [[layers]]
//! kernel = "gcn"             # the last layer's width is the number of classes
//! ```
//!
//! Notation: H is a layer's input after dropout, and N the symmetric normalisation `D^-1/2 (A + I)
//! D^-1/2`. A is the sum over in-neighbours, and M their mean or, value by value, their maximum. W
//! and b are trained.
//!
//! | kernel | H' before what follows | source |
//! | --- | --- | --- |
//! | `gcn` | N H W + b | Kipf and Welling 2017, eq. 8 |
//! | `sage` | H W_self + M H W_neighbour + b | Hamilton, Ying and Leskovec 2017, algorithm 1 |
//! | `gin` | relu(((1 + e) H + A H) W_0 + b_0) W_1 + b | Xu et al. 2019, eq. 4.1 |
//! | `sgc` | N^K H W + b | Wu et al. 2019, eq. 8 |
//! | `appnp` | Z_K, Z_0 = H, Z_k+1 = (1 - a) N Z_k + a H | Gasteiger et al. 2019, eq. 4 |
//! | `gat` | each head: sum over u of a(u, v) z_u, Z = H W; a = softmax of leaky(s_u + t_v) over v's in-neighbours and v; + b | Velickovic et al. 2018, eqs. 3 to 6 |
//! | `gatv2` | each head: sum over u of a(u, v) z_u, Z = H W_source + b_source, T = H W_target + b_target; a = softmax of w . leaky(z_u + t_v) over v's in-neighbours and v; + b | Brody, Alon and Yahav 2022, eq. 7 |
//! | `linear` | H W + b; with `jumping`, H all earlier layers' outputs | Xu et al. 2018 |
//!
//! Layers without a graph, of images and of sequences, are in [`LayerKind`] from
//! [`LayerKind::Embedding`] on. A layer may have a `name`, and list the earlier layers that it
//! reads (`inputs`). Layers form a directed graph without cycles, whose last layer computes the
//! scores.
//!
//! A layer whose `kernel` is a path to a component ([`LayerSettings::is_path`]) passes its rows to
//! that kernel, either each row by itself or along edges ([`On`]). A few built-in kernels are used
//! in the same way under their own names ([`LayerSettings::BUILT_IN`]).
//!
//! After the kernel, these steps run in this order: `norm` (each row by itself), the activation,
//! and with `residual` the sum with the layer's input before dropout.

mod activation;
mod deep;
mod file;
mod first;
mod resolve;
mod settings;
#[cfg(test)]
mod tests;
mod unread;
pub(crate) mod wiring;

pub use activation::{Activation, LEAKY_SLOPE, Slope};
pub use deep::{
    Conv2d, Embedding, Image, MAX_ENTRIES, MAX_ROW, Pool2d, PoolBy, SelfAttention, Slice, Source, Transformer,
};
pub use first::{First, FirstKind, Init};
pub use settings::{DeepSettings, EdgeColumn, KindSettings, LayerSettings, Layers, ModelKind, ModelSettings};
pub use unread::SetKeys;

use crate::objective::{Loss, TaskType};
use eciton_types::On;
use eciton_types::ids::Layer;
use eciton_types::signature::Attribute;
use serde::{Deserialize, Serialize};

/// Maximum number of layers of a model.
pub const MAX_LAYERS: u32 = 256;
/// Maximum width of a layer.
pub const MAX_WIDTH: u32 = 65_536;
/// Maximum number of steps of a propagation.
pub const MAX_HOPS: u32 = 64;
/// Maximum number of attributes that a layer passes to the user's own kernel.
pub const MAX_ATTRIBUTES: u32 = 64;
/// Maximum number of layers that a model's name lists.
const NAMED_LAYERS: usize = 12;
/// Maximum number of heads of an attention.
pub const MAX_HEADS: u32 = 64;

/// Normalisation of a layer's result, by kernel `normalise`, by an operator of the host, or by
/// both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Norm {
    /// No normalisation.
    #[default]
    None,
    /// Layer normalisation (Ba, Kiros and Hinton 2016).
    Layer,
    /// Division by the row's Euclidean norm (Hamilton, Ying and Leskovec 2017, algorithm 1).
    L2,
    /// Batch normalisation (Ioffe and Szegedy 2015). Each column uses its mean and variance over
    /// all rows of the pass, in training and in evaluation alike.
    Batch,
    /// PairNorm (Zhao and Akoglu 2020): subtracts the mean row, and divides by the root of the
    /// rows' mean squared length. It has no trained parameters.
    Pair,
    /// RMSNorm (Zhang and Sennrich 2019): division by the root of the row's mean square.
    Rms,
}

impl Norm {
    /// All normalisations, with their names.
    pub const ALL: [(&'static str, Self); 6] = [
        ("none", Self::None),
        ("layer", Self::Layer),
        ("l2", Self::L2),
        ("batch", Self::Batch),
        ("pair", Self::Pair),
        ("rms", Self::Rms),
    ];

    /// Returns true if the norm subtracts the mean, which cancels a bias before it.
    pub const fn centres(self) -> bool {
        matches!(self, Self::Batch | Self::Pair)
    }

    /// Returns the norm's name in recipes and in the kernel's attribute.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Layer => "layer",
            Self::L2 => "l2",
            Self::Batch => "batch",
            Self::Pair => "pair",
            Self::Rms => "rms",
        }
    }
}

/// Distribution of the initial weights. Biases start at zero, except with
/// [`FirstWeights::PyTorch`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FirstWeights {
    /// Default of the layer's authors and of PyG: [`FirstWeights::Glorot`] for `gcn`, `gat` and
    /// `gatv2`, else [`FirstWeights::FanIn`].
    #[default]
    Auto,
    /// Uniform in +-sqrt(6 / (rows + columns)) (Glorot and Bengio 2010), as the kernel's signature
    /// specifies.
    Glorot,
    /// Uniform in +-1 / sqrt(rows), PyTorch's default for linear layers (LeCun et al. 1998, section
    /// 4.6, in variance 1 / (3 rows)).
    FanIn,
    /// [`FirstWeights::FanIn`] for weights. Biases are drawn within the same bound as the product
    /// before them.
    #[serde(rename = "pytorch")]
    PyTorch,
}

impl FirstWeights {
    /// All distributions, with their names.
    pub const ALL: [(&'static str, Self); 4] =
        [("auto", Self::Auto), ("glorot", Self::Glorot), ("fan-in", Self::FanIn), ("pytorch", Self::PyTorch)];
}

/// Aggregation of the rows of a vertex's in-neighbours in a `sage` layer. Without in-neighbours the
/// result is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Aggregator {
    /// Mean of the rows.
    #[default]
    Mean,
    /// Maximum of each column, by edge kernel `maximum` (Hamilton, Ying and Leskovec 2017, section
    /// 3.3, without the perceptron).
    Max,
}

impl Aggregator {
    /// All aggregators, with their names.
    pub const ALL: [(&'static str, Self); 2] = [("mean", Self::Mean), ("max", Self::Max)];
}

/// Combination of the outputs of all earlier layers that a layer reads (Xu et al. 2018, "jumping
/// knowledge").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Jumping {
    /// The outputs are concatenated.
    Concat,
    /// The outputs are added.
    Sum,
}

impl Jumping {
    /// All combinations, with their names.
    pub const ALL: [(&'static str, Self); 2] = [("concat", Self::Concat), ("sum", Self::Sum)];
}

/// Pooling of the rows of a graph's vertices, in a data set of many graphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Readout {
    /// Mean of the rows.
    Mean,
    /// Sum of the rows (Xu et al. 2019, "How powerful are graph neural networks?", section 4.2).
    Sum,
    /// Maximum of each column, by edge kernel `maximum`.
    Max,
}

impl Readout {
    /// All readouts, with their names.
    pub const ALL: [(&'static str, Self); 3] = [("mean", Self::Mean), ("sum", Self::Sum), ("max", Self::Max)];
}

/// A model for one data set, with every width and every default resolved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Model {
    /// Number of features of a vertex.
    pub features: u32,
    /// Number of classes, labels or numbers; in link prediction, the number of columns of an
    /// embedding. It is the last layer's width.
    pub classes: u32,
    /// Loss of the last layer's rows.
    #[serde(default, skip_serializing_if = "settings::is_default")]
    pub loss: Loss,
    /// Exponent of the focal loss. If 0, the loss is not focal.
    #[serde(default, skip_serializing_if = "settings::is_default")]
    pub focal: f64,
    /// True if the loss compares pairs of the last layer's rows, by their inner products, instead
    /// of each row with the known value of its vertex.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub links: bool,
    /// Column of the edge features that is the edges' weight in gathers. If `None`, each edge has
    /// the weight 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edge_weights: Option<u32>,
    /// Initial values that replace those of each layer's `first_weights`.
    #[serde(default, skip_serializing_if = "Init::is_empty")]
    pub init: Init,
    /// The layers, from one to [`MAX_LAYERS`].
    pub layers: Vec<ModelLayer>,
}

impl Model {
    /// Returns true if a layer has an activation with a slope.
    #[must_use]
    pub fn has_slope(&self) -> bool {
        self.layers.iter().any(|layer| {
            let between = match &layer.kind {
                LayerKind::Transformer(of) => of.between,
                _ => layer.activation,
            };
            between.slope().is_some()
        })
    }
}

/// A layer with all its attributes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelLayer {
    /// Computation of the layer.
    pub kind: LayerKind,
    /// Number of columns of the output.
    pub width: u32,
    /// Distribution of the initial weights. It is never [`FirstWeights::Auto`].
    pub first_weights: FirstWeights,
    /// Dropout of the input while training: 0 <= dropout < 1.
    pub dropout: f64,
    /// True if the layer has a bias b.
    pub bias: bool,
    /// Normalisation of the layer's rows.
    pub norm: Norm,
    /// Activation of the layer. It is the identity for the last layer, whose rows are scores.
    pub activation: Activation,
    /// True if the layer's input is added to its output.
    pub residual: bool,
    /// True if the layer's kernel reads edge features (`gatv2`, and the user's own kernels on
    /// edges).
    #[serde(default, skip_serializing_if = "settings::is_default")]
    pub edge_features: bool,
    /// Name by which other layers refer to this layer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Inputs of the layer, if its settings list them ([`Model::sources`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Vec<Source>>,
    /// Shape of the layer's rows, if they are images.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<Image>,
    /// True if the layer has a row for each graph instead of each vertex.
    #[serde(default, skip_serializing_if = "settings::is_default")]
    pub of_graphs: bool,
    /// Layer whose weight this layer shares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights_of: Option<Tied>,
    /// Weight of this layer's rows in the loss, as scores in addition to the last layer's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_weight: Option<f64>,
    /// Initial values that the layer's own settings specify.
    #[serde(default, skip_serializing_if = "Init::is_empty")]
    pub init: Init,
}

/// A weight that two layers share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tied {
    /// Index of the layer that has the weight.
    pub layer: u32,
    /// True if the other layer multiplies by the transpose of the weight.
    pub transposed: bool,
}

/// Kind of a layer, with its attributes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kernel", rename_all = "kebab-case")]
pub enum LayerKind {
    /// Graph convolution.
    Gcn,
    /// GraphSAGE.
    Sage {
        /// Aggregation of the in-neighbours' rows.
        aggregator: Aggregator,
    },
    /// Graph isomorphism network: a perceptron of two products.
    Gin {
        /// The value of e, or its initial value if e is trained.
        epsilon: f64,
        /// True if e is trained.
        trained: bool,
    },
    /// Simplified graph convolution.
    Sgc {
        /// K, 1 to [`MAX_HOPS`].
        hops: u32,
    },
    /// Personalised propagation, without weights.
    Appnp {
        /// K, 1 to [`MAX_HOPS`].
        hops: u32,
        /// a, 0 <= a < 1.
        alpha: f64,
    },
    /// Graph attention.
    Gat(Attention),
    /// Graph attention whose scores are not linear in the rows, by an edge kernel.
    Gatv2(Attention),
    /// A product, without the graph.
    Linear {
        /// Combination of the outputs of all earlier layers. If `None`, the layer reads one input.
        jumping: Option<Jumping>,
    },
    /// A row for each graph, pooled from the rows of its vertices. The result is in the row of the
    /// graph's representative vertex, and all other rows are zero. It has no weights.
    Readout(Readout),
    /// Rows that are looked up in a trained table.
    Embedding(Embedding),
    /// Attention within groups of rows, with its input and output products.
    SelfAttention(SelfAttention),
    /// A block of a transformer.
    Transformer(Transformer),
    /// A convolution of images.
    Conv2d(Conv2d),
    /// A pooling of images.
    Pool2d(Pool2d),
    /// Concatenation of the inputs.
    Concat,
    /// Some columns of the input.
    Slice(Slice),
    /// Product of two inputs, value by value.
    Product,
    /// Sum of the inputs.
    Sum,
    /// The unchanged input, to which the layer's norm is applied.
    Normalise,
    /// The unchanged input, to which the layer's activation is applied.
    Activate,
    /// The user's own kernel.
    Own {
        /// Path of the kernel's component, as written.
        #[serde(rename = "path")]
        kernel: String,
        /// Domain of the kernel: rows or edges.
        on: On,
        /// Attributes that the kernel is opened with.
        attributes: Vec<Attribute>,
        /// True if, for a kernel on edges, each vertex is one of its own neighbours.
        with_self: bool,
    },
}

/// Returns a kernel's short name. For a path, it is the file's name without folders and extension.
pub fn short_name(kernel: &str) -> &str {
    let file = kernel.rsplit('/').next().unwrap_or(kernel);
    match file.strip_suffix(".wasm").unwrap_or(file) {
        "" => kernel,
        name => name,
    }
}

/// Sizes of a graph attention: `H` heads of `F` values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attention {
    /// Number of heads H, 1 to [`MAX_HEADS`].
    pub heads: u32,
    /// Number of values F of a head.
    pub features: u32,
    /// True if the result is the mean of the heads (F columns) instead of their concatenation (H
    /// F).
    pub average: bool,
    /// Slope of leaky(x), which is x where x > 0, else slope x; 0 <= slope < 1.
    pub slope: f64,
    /// Dropout of the edges' attention weights while training: 0 <= dropout < 1.
    pub dropout: f64,
}

impl Attention {
    /// Returns H F.
    #[must_use]
    pub const fn values(&self) -> u32 {
        self.heads * self.features
    }

    /// Returns the number of columns of the rows `[z | s | t]` that the host's attention (`gat`)
    /// reads.
    #[must_use]
    pub const fn input(&self) -> u32 {
        self.values() + 2 * self.heads
    }

    /// Returns the number of columns of the result.
    #[must_use]
    pub const fn output(&self) -> u32 {
        if self.average { self.features } else { self.values() }
    }

    /// Returns the number of columns that the host's forward pass stashes for backward. They are
    /// the values of positive scores, three numbers of the softmax for each head, and each head's
    /// result if only their mean is passed on.
    #[must_use]
    pub const fn kept(&self) -> u32 {
        self.values() + 3 * self.heads + if self.average { self.values() } else { 0 }
    }

    /// Returns the number of columns that the host's backward pass reads of target rows: the
    /// gradient, and five numbers for each head.
    #[must_use]
    pub const fn turned(&self) -> u32 {
        self.output() + 5 * self.heads
    }
}

impl LayerKind {
    /// Returns true if the layer sums or averages neighbours' rows, each weighted by its edge if
    /// edges have weights.
    pub(crate) const fn gathers(&self) -> bool {
        match self {
            Self::Gcn | Self::Gin { .. } | Self::Sgc { .. } | Self::Appnp { .. } => true,
            Self::Sage { aggregator } => matches!(aggregator, Aggregator::Mean),
            _ => false,
        }
    }

    /// Returns the name in recipes. For the user's own kernel, it is the file's name without
    /// folders and extension.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Gcn => "gcn",
            Self::Sage { .. } => "sage",
            Self::Gin { .. } => "gin",
            Self::Sgc { .. } => "sgc",
            Self::Appnp { .. } => "appnp",
            Self::Gat(_) => "gat",
            Self::Gatv2(_) => "gatv2",
            Self::Linear { .. } => "linear",
            Self::Readout(_) => "readout",
            Self::Embedding(_) => "embedding",
            Self::SelfAttention(_) => "self-attention",
            Self::Transformer(_) => "transformer",
            Self::Conv2d(_) => "conv2d",
            Self::Pool2d(_) => "pool2d",
            Self::Concat => "concat",
            Self::Slice(_) => "slice",
            Self::Product => "product",
            Self::Sum => "sum",
            Self::Normalise => "normalise",
            Self::Activate => "activate",
            Self::Own { kernel, .. } => short_name(kernel),
        }
    }

    /// Returns the gather of a first layer of this kind that reads no trained value, provided that
    /// the layer's input has no dropout.
    #[must_use]
    pub fn feature_gather(&self) -> Option<FeatureGather> {
        match self {
            Self::Gcn => Some(FeatureGather::Hops(1)),
            Self::Sgc { hops } => Some(FeatureGather::Hops(*hops)),
            Self::Gin { epsilon, trained: false } => Some(FeatureGather::WithOwn(1.0 + epsilon)),
            Self::Sage { aggregator: Aggregator::Mean } => Some(FeatureGather::Beside),
            _ => None,
        }
    }
}

/// Gather of the features by a first layer that can run once, before the first epoch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FeatureGather {
    /// `N^hops X`, N the symmetric normalisation. The layer reads it instead of X.
    Hops(u32),
    /// `factor X + A X`. The layer reads it instead of X.
    WithOwn(f64),
    /// `D^-1 A X`. The layer reads it in addition to X.
    Beside,
}

impl Model {
    /// Returns a GCN of the given sizes. Other settings are those of [`ModelSettings::default`].
    ///
    /// # Errors
    /// The errors of [`Model::resolve`].
    pub fn gcn(
        layers: u32,
        hidden: u32,
        dropout: f64,
        features: u32,
        classes: u32,
    ) -> Result<Self, crate::error::Error> {
        let layers = Layers::Count(layers);
        let settings = ModelSettings { layers, hidden, dropout, ..ModelSettings::default() };
        Self::resolve(&settings, features, classes, TaskType::Classification)
    }

    /// Returns the inputs of a layer. The default is the previous layer, or all previous layers if
    /// the layer is jumping.
    #[must_use]
    pub fn sources(&self, layer: usize) -> Vec<Source> {
        let found = self.layers.get(layer);
        if let Some(inputs) = found.and_then(|layer| layer.inputs.as_ref()) {
            return inputs.clone();
        }
        let jumping = found.is_some_and(|layer| matches!(layer.kind, LayerKind::Linear { jumping: Some(_) }));
        let before = match jumping {
            true => (0..layer).collect(),
            false => layer.checked_sub(1).map_or_else(Vec::new, |before| vec![before]),
        };
        match before.is_empty() {
            true => vec![Source::Features],
            // At most [`MAX_LAYERS`].
            false => before.into_iter().map(|layer| Source::Layer(layer as u32)).collect(),
        }
    }

    /// Returns the number of columns of a source.
    #[must_use]
    pub fn width_of(&self, source: Source) -> u32 {
        match source {
            Source::Features => self.features,
            Source::Layer(layer) => self.layers.get(layer as usize).map_or(0, |layer| layer.width),
        }
    }

    /// Returns the number of columns of a layer's input. Of several inputs it is that of the last
    /// one, except for `concat`, where it is the sum of all.
    #[must_use]
    pub fn input_width(&self, layer: usize) -> u32 {
        let mut widths = self.sources(layer).into_iter().map(|source| self.width_of(source));
        match self.layers.get(layer).map(|layer| &layer.kind) {
            Some(LayerKind::Concat) => widths.sum(),
            _ => widths.next_back().unwrap_or(self.features),
        }
    }

    /// Returns true if a layer reads the data set's features.
    #[must_use]
    pub fn reads_features(&self, layer: usize) -> bool {
        self.sources(layer).contains(&Source::Features)
    }

    /// Returns the first layer's gather, if it is the same in every epoch and can therefore run
    /// once. Returns `None` for other kinds of layers, or if the first layer has dropout. A gather
    /// that replaces the features is returned only if no other layer reads them.
    #[must_use]
    pub fn constant_gather(&self) -> Option<FeatureGather> {
        let first = self.layers.first().filter(|first| first.dropout == 0.0);
        let alone = |gather: &FeatureGather| {
            *gather == FeatureGather::Beside
                || !(1..self.layers.len()).any(|layer| self.reads_features(layer))
        };
        first.and_then(|first| first.kind.feature_gather()).filter(alone)
    }

    /// Returns true if the model predicts graphs instead of vertices.
    #[must_use]
    pub fn reads_out(&self) -> bool {
        self.layers.iter().any(|layer| matches!(layer.kind, LayerKind::Readout(_)))
    }

    /// Returns the paths of the components that layers name, as written, without duplicates and in
    /// order.
    #[must_use]
    pub fn own_kernels(&self) -> Vec<&str> {
        let mut all: Vec<&str> = Vec::new();
        for layer in &self.layers {
            match &layer.kind {
                LayerKind::Own { kernel, .. }
                    if LayerSettings::is_path(kernel) && !all.contains(&&kernel[..]) =>
                {
                    all.push(kernel);
                }
                _ => {}
            }
        }
        all
    }

    /// Returns the layers' kinds and all widths: `gcn 1433-16-7`, `linear-linear-appnp
    /// 1433-64-7-7`.
    #[must_use]
    pub fn name(&self) -> String {
        let mut kinds: Vec<&str> = self.layers.iter().map(|layer| layer.kind.name()).collect();
        if kinds.len() > NAMED_LAYERS {
            return format!("{} layers {}-{}", kinds.len(), self.features, self.classes);
        }
        if kinds.windows(2).all(|pair| pair[0] == pair[1]) {
            kinds.truncate(1);
        }
        let widths: Vec<String> = std::iter::once(self.features)
            .chain(self.layers.iter().map(|layer| layer.width))
            .map(|width| width.to_string())
            .collect();
        format!("{} {}", kinds.join("-"), widths.join("-"))
    }
}

/// Returns the number of the layer with this index.
pub fn number(layer: usize) -> Layer {
    Layer(u16::try_from(layer).unwrap_or(u16::MAX))
}

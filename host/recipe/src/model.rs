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
/// Maximum number of propagation steps of one layer.
pub const MAX_HOPS: u32 = 64;
/// Maximum number of attributes that a layer passes to a user's kernel.
pub const MAX_ATTRIBUTES: u32 = 64;
/// Maximum number of layers that the name of a model lists. The name of a deeper model is
/// abbreviated.
const NAMED_LAYERS: usize = 12;
/// Maximum number of heads of an attention.
pub const MAX_HEADS: u32 = 64;

/// Normalisation of a layer's output. Kernel `normalise`, an operator of the host, or both compute
/// it.
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
    /// All normalisations, with their names in recipes.
    pub const ALL: [(&'static str, Self); 6] = [
        ("none", Self::None),
        ("layer", Self::Layer),
        ("l2", Self::L2),
        ("batch", Self::Batch),
        ("pair", Self::Pair),
        ("rms", Self::Rms),
    ];

    /// Returns true if the normalisation subtracts the mean, which removes the effect of a bias
    /// before it.
    pub const fn centres(self) -> bool {
        matches!(self, Self::Batch | Self::Pair)
    }

    /// Returns the name of the normalisation in recipes and in the kernel's attribute.
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
    /// The usual distribution of the layer's kind, as in its paper and in PyG:
    /// [`FirstWeights::Glorot`] for `gcn`, `gat` and `gatv2`, and [`FirstWeights::FanIn`] for other
    /// kinds.
    #[default]
    Auto,
    /// Uniform in +-sqrt(6 / (rows + columns)) (Glorot and Bengio 2010), as the kernel's signature
    /// specifies.
    Glorot,
    /// Uniform in +-1 / sqrt(rows), which is PyTorch's default for linear layers. (LeCun et al.
    /// 1998, section 4.6, with variance 1 / (3 rows).)
    FanIn,
    /// [`FirstWeights::FanIn`] for weights. Biases are drawn within the same bound as the weight of
    /// their product.
    #[serde(rename = "pytorch")]
    PyTorch,
}

impl FirstWeights {
    /// All distributions, with their names in recipes.
    pub const ALL: [(&'static str, Self); 4] =
        [("auto", Self::Auto), ("glorot", Self::Glorot), ("fan-in", Self::FanIn), ("pytorch", Self::PyTorch)];
}

/// Aggregation of the rows of a vertex's in-neighbours in a `sage` layer. For a vertex without
/// in-neighbours, the result is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Aggregator {
    /// Mean of the in-neighbours' rows.
    #[default]
    Mean,
    /// Maximum of each column, by edge kernel `maximum` (Hamilton, Ying and Leskovec 2017, section
    /// 3.3, without the perceptron).
    Max,
}

impl Aggregator {
    /// All aggregators, with their names in recipes.
    pub const ALL: [(&'static str, Self); 2] = [("mean", Self::Mean), ("max", Self::Max)];
}

/// Combination of the outputs of all earlier layers, which a jumping layer reads (Xu et al. 2018,
/// "jumping knowledge").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Jumping {
    /// The outputs are concatenated.
    Concat,
    /// The outputs are added.
    Sum,
}

impl Jumping {
    /// All combinations, with their names in recipes.
    pub const ALL: [(&'static str, Self); 2] = [("concat", Self::Concat), ("sum", Self::Sum)];
}

/// Pooling of the rows of a graph's vertices, in a data set of many graphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Readout {
    /// Mean of the vertices' rows.
    Mean,
    /// Sum of the vertices' rows (Xu et al. 2019, "How powerful are graph neural networks?",
    /// section 4.2).
    Sum,
    /// Maximum of each column, by edge kernel `maximum`.
    Max,
}

impl Readout {
    /// All readouts, with their names in recipes.
    pub const ALL: [(&'static str, Self); 3] = [("mean", Self::Mean), ("sum", Self::Sum), ("max", Self::Max)];
}

/// Model for one data set, with all widths and defaults resolved. [`ModelSettings`] has the
/// settings from which it is resolved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Model {
    /// Number of features of a vertex.
    pub features: u32,
    /// Number of classes, labels or target numbers. In link prediction, it is the number of columns
    /// of an embedding. It is the width of the last layer.
    pub classes: u32,
    /// Loss that compares the last layer's rows with the targets.
    #[serde(default, skip_serializing_if = "settings::is_default")]
    pub loss: Loss,
    /// Exponent of the focal loss. If 0, the loss is the ordinary cross-entropy.
    #[serde(default, skip_serializing_if = "settings::is_default")]
    pub focal: f64,
    /// True if the loss compares pairs of the last layer's rows by their inner products (link
    /// prediction). Otherwise it compares each row with the known value of its vertex.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub links: bool,
    /// Column of the edge features that has the weight of each edge in gathers. If `None`, each
    /// edge has the weight 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edge_weights: Option<u32>,
    /// Initial values from the settings, which take precedence over each layer's `first_weights`.
    #[serde(default, skip_serializing_if = "Init::is_empty")]
    pub init: Init,
    /// The layers, from one to [`MAX_LAYERS`].
    pub layers: Vec<ModelLayer>,
}

impl Model {
    /// Returns true if any layer has an activation with a slope, such as `leaky-relu`.
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

/// Layer of a [`Model`], with all attributes resolved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelLayer {
    /// Computation of the layer.
    pub kind: LayerKind,
    /// Number of columns of the output.
    pub width: u32,
    /// Distribution of the initial weights. It is never [`FirstWeights::Auto`].
    pub first_weights: FirstWeights,
    /// Dropout probability of the layer's input in training: 0 <= dropout < 1.
    pub dropout: f64,
    /// True if the layer adds a trained bias b.
    pub bias: bool,
    /// Normalisation of the layer's output.
    pub norm: Norm,
    /// Activation of the layer. It is the identity for the last layer, whose rows are scores.
    pub activation: Activation,
    /// True if the layer's input is added to its output.
    pub residual: bool,
    /// True if the layer's kernel reads edge features. Only `gatv2` and users' edge kernels can
    /// read them.
    #[serde(default, skip_serializing_if = "settings::is_default")]
    pub edge_features: bool,
    /// Name by which other layers refer to this layer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Inputs of the layer, if its settings list them. [`Model::sources`] returns the inputs of all
    /// layers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Vec<Source>>,
    /// Shape of each row as an image. `None` if the layer's rows are not images.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<Image>,
    /// True if the layer has a row for each graph instead of each vertex.
    #[serde(default, skip_serializing_if = "settings::is_default")]
    pub of_graphs: bool,
    /// Layer whose weight this layer shares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights_of: Option<Tied>,
    /// Weight of the layer's own loss term. If `None`, the layer's rows are no scores. The last
    /// layer's loss is always counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_weight: Option<f64>,
    /// Initial values from the layer's own settings.
    #[serde(default, skip_serializing_if = "Init::is_empty")]
    pub init: Init,
}

/// Weight that a layer shares with an earlier layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tied {
    /// Index of the layer that owns the weight.
    pub layer: u32,
    /// True if the sharing layer multiplies by the transpose of the weight.
    pub transposed: bool,
}

/// Kind of a layer, with the attributes of the kind. The module documentation has the formulas.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kernel", rename_all = "kebab-case")]
pub enum LayerKind {
    /// Graph convolution (GCN).
    Gcn,
    /// GraphSAGE.
    Sage {
        /// Aggregation of the in-neighbours' rows.
        aggregator: Aggregator,
    },
    /// Graph isomorphism network: a perceptron of two products on the sum of rows.
    Gin {
        /// Value of e, or its initial value if e is trained.
        epsilon: f64,
        /// True if e is trained.
        trained: bool,
    },
    /// Simplified graph convolution.
    Sgc {
        /// Number of propagation steps K, from 1 to [`MAX_HOPS`].
        hops: u32,
    },
    /// Personalised propagation (APPNP), without weights.
    Appnp {
        /// Number of propagation steps K, from 1 to [`MAX_HOPS`].
        hops: u32,
        /// Teleport probability a: 0 <= a < 1.
        alpha: f64,
    },
    /// Graph attention (GAT), computed by an operator of the host.
    Gat(Attention),
    /// Graph attention with scores that are not linear in the rows (GATv2), computed by an edge
    /// kernel.
    Gatv2(Attention),
    /// Matrix product, which does not read the graph.
    Linear {
        /// Combination of the outputs of all earlier layers. If `None`, the layer reads a single
        /// input.
        jumping: Option<Jumping>,
    },
    /// Readout: one row for each graph, pooled from the rows of its vertices. It has no weights.
    /// The result is in the row of the graph's representative vertex, and all other rows are zero.
    Readout(Readout),
    /// Lookup of rows in a trained table.
    Embedding(Embedding),
    /// Attention within groups of rows (sequences), with its input and output products.
    SelfAttention(SelfAttention),
    /// Transformer block: attention and a perceptron, both residual.
    Transformer(Transformer),
    /// Convolution of images.
    Conv2d(Conv2d),
    /// Pooling of images.
    Pool2d(Pool2d),
    /// Concatenation of the columns of all inputs.
    Concat,
    /// Selection of consecutive columns of the input.
    Slice(Slice),
    /// Elementwise product of two inputs.
    Product,
    /// Elementwise sum of the inputs.
    Sum,
    /// Identity, whose output is normalised by the layer's norm.
    Normalise,
    /// Identity, to which the layer's activation is applied.
    Activate,
    /// User's kernel, which is a WebAssembly component.
    Own {
        /// Path of the kernel's component, as written in the model.
        #[serde(rename = "path")]
        kernel: String,
        /// Rows or edges that the kernel computes on.
        on: On,
        /// Attributes that the kernel is opened with.
        attributes: Vec<Attribute>,
        /// True if each vertex counts as one of its own neighbours. Only kernels on edges read it.
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

/// Sizes of a graph attention with `H` heads of `F` values each.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attention {
    /// Number of heads H, from 1 to [`MAX_HEADS`].
    pub heads: u32,
    /// Number of values F per head.
    pub features: u32,
    /// True if the result is the mean of the heads (F columns) instead of their concatenation (H
    /// F).
    pub average: bool,
    /// Slope of leaky(x), in [0, 1). leaky(x) is x if x > 0, and slope x otherwise.
    pub slope: f64,
    /// Dropout probability of the edges' attention weights in training: 0 <= dropout < 1.
    pub dropout: f64,
}

impl Attention {
    /// Returns H F, the number of values of all heads of a row.
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

    /// Returns the number of columns of the attention's output.
    #[must_use]
    pub const fn output(&self) -> u32 {
        if self.average { self.features } else { self.values() }
    }

    /// Returns the number of columns that the forward pass of the host's attention stashes for
    /// backward. They are the values of positive scores, three softmax numbers per head, and each
    /// head's result if only the mean of the heads is passed on.
    #[must_use]
    pub const fn kept(&self) -> u32 {
        self.values() + 3 * self.heads + if self.average { self.values() } else { 0 }
    }

    /// Returns the number of columns that the second backward step of the host's attention reads
    /// from target rows. They are the gradient, and five numbers for each head.
    #[must_use]
    pub const fn turned(&self) -> u32 {
        self.output() + 5 * self.heads
    }
}

impl LayerKind {
    /// Returns true if the layer computes sums or means of neighbours' rows. If edges have weights,
    /// each row is weighted by its edge.
    pub(crate) const fn gathers(&self) -> bool {
        match self {
            Self::Gcn | Self::Gin { .. } | Self::Sgc { .. } | Self::Appnp { .. } => true,
            Self::Sage { aggregator } => matches!(aggregator, Aggregator::Mean),
            _ => false,
        }
    }

    /// Returns the name of the kind in recipes. For a user's kernel, it is the file's name without
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

    /// Returns the gather of a first layer of this kind that reads no trained value, and can
    /// therefore run before training. It requires that the layer's input has no dropout.
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

/// Gather of the features by a first layer, which can run once before the first epoch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FeatureGather {
    /// `N^hops X`, where N is the symmetric normalisation. It replaces the features X.
    Hops(u32),
    /// `factor X + A X`, where A is the sum over in-neighbours. It replaces the features X.
    WithOwn(f64),
    /// `D^-1 A X`, the mean over in-neighbours. The layer reads it in addition to the features X.
    Beside,
}

impl Model {
    /// Returns a GCN of the given sizes. Other settings are those of [`ModelSettings::default`].
    ///
    /// # Errors
    /// Returns the errors of [`Model::resolve`].
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

    /// Returns the inputs of a layer. By default, the input is the previous layer, or all previous
    /// layers for a jumping layer.
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

    /// Returns the number of columns of a layer's input source.
    #[must_use]
    pub fn width_of(&self, source: Source) -> u32 {
        match source {
            Source::Features => self.features,
            Source::Layer(layer) => self.layers.get(layer as usize).map_or(0, |layer| layer.width),
        }
    }

    /// Returns the number of columns of a layer's input. If there are several inputs, it is that of
    /// the last one. For `concat`, it is the sum of all.
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

    /// Returns the first layer's gather if it has the same result in every epoch and can therefore
    /// run once. Returns `None` for other kinds of layers, or if the first layer has dropout. A
    /// gather that replaces the features is returned only if no other layer reads the features.
    #[must_use]
    pub fn constant_gather(&self) -> Option<FeatureGather> {
        let first = self.layers.first().filter(|first| first.dropout == 0.0);
        let alone = |gather: &FeatureGather| {
            *gather == FeatureGather::Beside
                || !(1..self.layers.len()).any(|layer| self.reads_features(layer))
        };
        first.and_then(|first| first.kind.feature_gather()).filter(alone)
    }

    /// Returns true if the model predicts values of graphs instead of vertices.
    #[must_use]
    pub fn reads_out(&self) -> bool {
        self.layers.iter().any(|layer| matches!(layer.kind, LayerKind::Readout(_)))
    }

    /// Returns the paths of the components that layers name. The paths are as written, in order,
    /// and without duplicates.
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

    /// Returns a name with the layers' kinds and all widths, for instance `gcn 1433-16-7` or
    /// `linear-linear-appnp 1433-64-7-7`.
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

/// Returns an index in the list of layers as a layer number.
pub fn number(layer: usize) -> Layer {
    Layer(u16::try_from(layer).unwrap_or(u16::MAX))
}

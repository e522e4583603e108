//! Models: what a user writes ([`ModelSettings`]) and what is trained ([`Model`]).
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
//! With H a layer's input after dropout, N the symmetric normalisation `D^-1/2 (A + I) D^-1/2`, A
//! the sum over in-neighbours, M their mean or, value by value, their maximum, and W, b what is
//! trained:
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
//! [`LayerKind::Embedding`] on. A layer may have a `name`, and say which earlier ones it reads
//! (`inputs`): layers form a directed graph without cycles, whose last layer makes the scores.
//!
//! A layer whose `kernel` is a path to a component ([`LayerSettings::is_path`]) puts its rows
//! through that kernel: one row at a time, or along edges ([`On`]). A few built-in kernels are
//! named so by their own name ([`LayerSettings::BUILT_IN`]).
//!
//! What follows is, in this order: `norm` (each row by itself), the activation, and with `residual`
//! the layer's input, as it was before dropout, is added.

mod activation;
mod deep;
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

use crate::ids::Layer;
use crate::objective::{Loss, TaskType};
use crate::signature::Attribute;
pub(crate) use eciton_types::On;
use serde::{Deserialize, Serialize};

/// Most layers of a model.
pub const MAX_LAYERS: u32 = 256;
/// Widest layer.
pub const MAX_WIDTH: u32 = 65_536;
/// Most steps of a propagation.
pub const MAX_HOPS: u32 = 64;
/// Most attributes that a layer passes to a kernel of the user's own.
pub const MAX_ATTRIBUTES: u32 = 64;
/// Longest list of layers that a model's name spells out.
const NAMED_LAYERS: usize = 12;
/// Most heads of an attention.
pub const MAX_HEADS: u32 = 64;

/// What brings a layer's result to one scale: kernel `normalise`, an operator of the host, or both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Norm {
    /// Nothing.
    #[default]
    None,
    /// Layer normalisation (Ba, Kiros and Hinton 2016).
    Layer,
    /// Division by the row's Euclidean norm (Hamilton, Ying and Leskovec 2017, algorithm 1).
    L2,
    /// Batch normalisation (Ioffe and Szegedy 2015): each column by its mean and variance over all
    /// rows, those of the pass, in training and evaluation alike.
    Batch,
    /// PairNorm (Zhao and Akoglu 2020): rows about their mean, divided by the root of their mean
    /// square length. Trains nothing.
    Pair,
    /// RMSNorm (Zhang and Sennrich 2019): division by the root of the row's mean square.
    Rms,
}

impl Norm {
    /// All, with their names.
    pub const ALL: [(&'static str, Self); 6] = [
        ("none", Self::None),
        ("layer", Self::Layer),
        ("l2", Self::L2),
        ("batch", Self::Batch),
        ("pair", Self::Pair),
        ("rms", Self::Rms),
    ];

    /// Returns whether a bias before it would go with the mean that it takes away.
    pub(crate) const fn centres(self) -> bool {
        matches!(self, Self::Batch | Self::Pair)
    }

    /// Its name in recipes, and in the kernel's attribute.
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

/// How weights start. Biases start at zero but with [`FirstWeights::PyTorch`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FirstWeights {
    /// As the layer's authors and PyG do: [`FirstWeights::Glorot`] for `gcn`, `gat` and `gatv2`,
    /// else [`FirstWeights::FanIn`].
    #[default]
    Auto,
    /// As the kernel says: Glorot and Bengio 2010, uniform in +-sqrt(6 / (rows + columns)).
    Glorot,
    /// Uniform in +-1 / sqrt(rows), PyTorch's for linear layers (LeCun et al. 1998, section 4.6, in
    /// variance 1 / (3 rows)).
    FanIn,
    /// The same, and biases within the same bound as the product that they follow.
    #[serde(rename = "pytorch")]
    PyTorch,
}

impl FirstWeights {
    /// All, with their names.
    pub const ALL: [(&'static str, Self); 4] =
        [("auto", Self::Auto), ("glorot", Self::Glorot), ("fan-in", Self::FanIn), ("pytorch", Self::PyTorch)];
}

/// How a `sage` layer brings the rows of a vertex's in-neighbours together; zero where there is
/// none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Aggregator {
    /// Their mean.
    #[default]
    Mean,
    /// The largest value of each column, by edge kernel `maximum` (Hamilton, Ying and Leskovec
    /// 2017, section
    /// 3.3, without the perceptron).
    Max,
}

impl Aggregator {
    /// All, with their names.
    pub const ALL: [(&'static str, Self); 2] = [("mean", Self::Mean), ("max", Self::Max)];
}

/// How a layer reads the outputs of all layers before it (Xu et al. 2018, "jumping knowledge").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Jumping {
    /// Side by side.
    Concat,
    /// Added up.
    Sum,
}

impl Jumping {
    /// All, with their names.
    pub const ALL: [(&'static str, Self); 2] = [("concat", Self::Concat), ("sum", Self::Sum)];
}

/// What a readout makes of the rows of a graph's vertices, in a data set of many graphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Readout {
    /// Their mean.
    Mean,
    /// Their sum (Xu et al. 2019, "How powerful are graph neural networks?", section 4.2).
    Sum,
    /// The largest value of each column, by edge kernel `maximum`.
    Max,
}

impl Readout {
    /// All, with their names.
    pub const ALL: [(&'static str, Self); 3] = [("mean", Self::Mean), ("sum", Self::Sum), ("max", Self::Max)];
}

/// A model for one data set: every width known, every default filled in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Model {
    /// Features of a vertex.
    pub features: u32,
    /// Classes, labels or numbers, or of links the columns of an embedding: the last layer's width.
    pub classes: u32,
    /// What its last rows are compared by.
    #[serde(default, skip_serializing_if = "settings::is_default")]
    pub loss: Loss,
    /// The exponent of the focal loss; 0: none.
    #[serde(default, skip_serializing_if = "settings::is_default")]
    pub focal: f64,
    /// True if pairs of its last rows are compared, by their inner products, not each row with what
    /// is known of its vertex.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub links: bool,
    /// Which column of the edges' features is their weight in gathers; `None`: each counts 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edge_weights: Option<u32>,
    /// First values, where not as `first_weights` of each layer says.
    #[serde(default, skip_serializing_if = "Init::is_empty")]
    pub init: Init,
    /// The layers, at least one, at most [`MAX_LAYERS`].
    pub layers: Vec<ModelLayer>,
}

impl Model {
    /// Returns whether a layer has an activation with a slope.
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
    /// What it computes.
    pub kind: LayerKind,
    /// Columns of its output.
    pub width: u32,
    /// How its weights start: not [`FirstWeights::Auto`].
    pub first_weights: FirstWeights,
    /// Of its input, while training: 0 <= dropout < 1.
    pub dropout: f64,
    /// True if b is there.
    pub bias: bool,
    /// What brings its rows to one scale.
    pub norm: Norm,
    /// What follows; identity for the last layer, whose rows are scores.
    pub activation: Activation,
    /// True if its input is added to its output.
    pub residual: bool,
    /// True if its kernel is told what is known of edges (`gatv2`, kernels of the user's own on
    /// edges).
    #[serde(default, skip_serializing_if = "settings::is_default")]
    pub edge_features: bool,
    /// What other layers call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it reads, where it says so ([`Model::sources`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Vec<Source>>,
    /// The shape of its rows, where they are images.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<Image>,
    /// True if its rows are of graphs, not of vertices.
    #[serde(default, skip_serializing_if = "settings::is_default")]
    pub of_graphs: bool,
    /// The layer whose weight is its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights_of: Option<Tied>,
    /// What its rows count in the loss, as scores beside the last layer's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_weight: Option<f64>,
    /// First values, where it says them itself.
    #[serde(default, skip_serializing_if = "Init::is_empty")]
    pub init: Init,
}

/// A weight that two layers have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tied {
    /// The layer that it belongs to.
    pub layer: u32,
    /// True if the other one's product is with its transpose.
    pub transposed: bool,
}

/// What a layer computes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kernel", rename_all = "kebab-case")]
pub enum LayerKind {
    /// Graph convolution.
    Gcn,
    /// GraphSAGE.
    Sage {
        /// What it makes of in-neighbours' rows.
        aggregator: Aggregator,
    },
    /// Graph isomorphism network: a perceptron of two products.
    Gin {
        /// e, or its first value.
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
        /// Whether it reads all layers before it, and how.
        jumping: Option<Jumping>,
    },
    /// What stands for a graph, from the rows of its vertices: in the row of the one that stands
    /// for it, zero in all others. Without weights.
    Readout(Readout),
    /// Rows of a trained table.
    Embedding(Embedding),
    /// Attention within groups of rows, with the products around it.
    SelfAttention(SelfAttention),
    /// A block of a transformer.
    Transformer(Transformer),
    /// A convolution of images.
    Conv2d(Conv2d),
    /// A pooling of images.
    Pool2d(Pool2d),
    /// Its inputs side by side.
    Concat,
    /// Some columns of its input.
    Slice(Slice),
    /// The product of its two inputs, value by value.
    Product,
    /// The sum of its inputs.
    Sum,
    /// Its input, for the norm that follows.
    Normalise,
    /// Its input, for the activation that follows.
    Activate,
    /// What a kernel of the user's own does.
    Own {
        /// The path of its component, as written.
        #[serde(rename = "path")]
        kernel: String,
        /// What it works on.
        on: On,
        /// What it is opened with.
        attributes: Vec<Attribute>,
        /// On edges: whether each vertex counts among its own neighbours.
        with_self: bool,
    },
}

/// A kernel's name in words: of a path the file's, without folders and ending.
pub(crate) fn short_name(kernel: &str) -> &str {
    let file = kernel.rsplit('/').next().unwrap_or(kernel);
    match file.strip_suffix(".wasm").unwrap_or(file) {
        "" => kernel,
        name => name,
    }
}

/// The numbers of a graph attention: `H` heads of `F` values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attention {
    /// H, 1 to [`MAX_HEADS`].
    pub heads: u32,
    /// F.
    pub features: u32,
    /// True if the result is the mean of the heads (F columns), not all of them side by side (H F).
    pub average: bool,
    /// leaky(x) = x where x > 0, else this times x; 0 <= slope < 1.
    pub slope: f64,
    /// Dropout of the weights of edges, while training: 0 <= dropout < 1.
    pub dropout: f64,
}

impl Attention {
    /// H F.
    #[must_use]
    pub const fn values(&self) -> u32 {
        self.heads * self.features
    }

    /// Columns of the rows `[z | s | t]` that the host's attention (`gat`) reads.
    #[must_use]
    pub const fn input(&self) -> u32 {
        self.values() + 2 * self.heads
    }

    /// Columns of its result.
    #[must_use]
    pub const fn output(&self) -> u32 {
        if self.average { self.features } else { self.values() }
    }

    /// Columns that the host's forward pass keeps for backward: values of positive scores, three
    /// figures of the softmax a head, and each head's result where only their mean is passed on.
    #[must_use]
    pub const fn kept(&self) -> u32 {
        self.values() + 3 * self.heads + if self.average { self.values() } else { 0 }
    }

    /// Columns of what the host's backward pass reads of targets: the gradient, and five figures a
    /// head.
    #[must_use]
    pub const fn turned(&self) -> u32 {
        self.output() + 5 * self.heads
    }
}

impl LayerKind {
    /// Returns whether it sums or averages neighbours' rows, each with the weight of its edge where
    /// edges have one.
    pub(crate) const fn gathers(&self) -> bool {
        match self {
            Self::Gcn | Self::Gin { .. } | Self::Sgc { .. } | Self::Appnp { .. } => true,
            Self::Sage { aggregator } => matches!(aggregator, Aggregator::Mean),
            _ => false,
        }
    }

    /// Its name in recipes; of a kernel of the user's own its file's, without folders and ending.
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

    /// What a first layer of this kind gathers that nothing trained stands before, if its input is
    /// not dropped.
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

/// What a first layer gathers of the features, where that can be done before the first epoch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FeatureGather {
    /// `N^hops X`, N the symmetric normalisation, which the layer reads in the place of X.
    Hops(u32),
    /// `factor X + A X`, in the place of X as well.
    WithOwn(f64),
    /// `D^-1 A X`, which it reads beside X.
    Beside,
}

impl Model {
    /// A GCN by its usual numbers; the rest as in [`ModelSettings::default`].
    ///
    /// # Errors
    /// As [`Model::resolve`].
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

    /// What a layer reads: what it says, else the layer before, and of a jumping one all before.
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

    /// Columns of what a layer reads from a source.
    #[must_use]
    pub fn width_of(&self, source: Source) -> u32 {
        match source {
            Source::Features => self.features,
            Source::Layer(layer) => self.layers.get(layer as usize).map_or(0, |layer| layer.width),
        }
    }

    /// Columns of a layer's input: of several the last one's, but of a `concat` all of them.
    #[must_use]
    pub fn input_width(&self, layer: usize) -> u32 {
        let mut widths = self.sources(layer).into_iter().map(|source| self.width_of(source));
        match self.layers.get(layer).map(|layer| &layer.kind) {
            Some(LayerKind::Concat) => widths.sum(),
            _ => widths.next_back().unwrap_or(self.features),
        }
    }

    /// Returns whether a layer reads the data set's features.
    #[must_use]
    pub fn reads_features(&self, layer: usize) -> bool {
        self.sources(layer).contains(&Source::Features)
    }

    /// What the first layer gathers that is the same in every epoch: with it gathered before, it
    /// need not. `None` where it is not so simple, or dropout stands before it. What takes the
    /// features' place does so only where no other layer reads them.
    #[must_use]
    pub fn constant_gather(&self) -> Option<FeatureGather> {
        let first = self.layers.first().filter(|first| first.dropout == 0.0);
        let alone = |gather: &FeatureGather| {
            *gather == FeatureGather::Beside
                || !(1..self.layers.len()).any(|layer| self.reads_features(layer))
        };
        first.and_then(|first| first.kind.feature_gather()).filter(alone)
    }

    /// Returns whether what is learnt is of graphs, and not of vertices.
    #[must_use]
    pub fn reads_out(&self) -> bool {
        self.layers.iter().any(|layer| matches!(layer.kind, LayerKind::Readout(_)))
    }

    /// The paths of the components that its layers name, as written, each once, in order.
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

    /// Its layers' kinds and all widths: `gcn 1433-16-7`, `linear-linear-appnp 1433-64-7-7`.
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

pub(crate) fn number(layer: usize) -> Layer {
    Layer(u16::try_from(layer).unwrap_or(u16::MAX))
}

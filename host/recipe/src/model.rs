//! Models, as the settings that a user writes ([`ModelSettings`]) and as the resolved layers that
//! are trained ([`Model`]).
//!
//! A model is a list of layers. It is written in the `[model]` section of a recipe, or in a model
//! file with the same keys:
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
//! Notation: H is a layer's input after dropout, and N is the symmetric normalisation
//! `D^-1/2 (A + I) D^-1/2`. A H is the sum over in-neighbours. M H is their mean or their
//! columnwise maximum. W and b are trained.
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
//! The kinds of layers without a graph, for images and for sequences, are listed in [`LayerKind`]
//! from [`LayerKind::Embedding`] on. A layer may have a `name` and list the earlier layers that it
//! reads (`inputs`). The layers form a directed acyclic graph, and the last layer computes the
//! scores.
//!
//! A layer whose `kernel` is a path to a component ([`LayerSettings::is_path`]) passes its rows to
//! that kernel, either row by row or along edges ([`On`]). A few built-in kernels are used in the
//! same way under their own names ([`LayerSettings::BUILT_IN`]).
//!
//! After the kernel, a layer applies `norm` and then the activation. With `residual`, it finally
//! adds the layer's input before dropout.

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

/// Maximum number of layers per model.
pub const MAX_LAYERS: u32 = 256;
/// Maximum number of columns of a layer's output.
pub const MAX_WIDTH: u32 = 65_536;
/// Maximum number of propagation steps per layer.
pub const MAX_HOPS: u32 = 64;
/// Maximum number of attributes that a layer passes to a user's kernel.
pub const MAX_ATTRIBUTES: u32 = 64;
/// Maximum number of layers that [`Model::name`] lists. The names of deeper models are abbreviated.
const NAMED_LAYERS: usize = 12;
/// Maximum number of heads per attention layer.
pub const MAX_HEADS: u32 = 64;

/// Normalisation of a layer's output. Depending on the normalisation, the kernel `normalise`, a
/// host operator, or both compute it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Norm {
    /// No normalisation.
    #[default]
    None,
    /// Layer normalisation (Ba, Kiros and Hinton 2016).
    Layer,
    /// Division of each row by its Euclidean norm (Hamilton, Ying and Leskovec 2017, algorithm 1).
    L2,
    /// Batch normalisation (Ioffe and Szegedy 2015). In training, each column is normalised by its
    /// mean and variance over all rows of the pass. Evaluations use running moments.
    Batch,
    /// PairNorm (Zhao and Akoglu 2020). It subtracts the mean row, and divides by the root mean
    /// square of the rows' lengths. It has no trained parameters.
    Pair,
    /// RMSNorm (Zhang and Sennrich 2019), which divides each row by its root mean square.
    Rms,
}

impl Norm {
    /// All normalisations of a layer's output, with their names in recipes.
    pub const ALL: [(&'static str, Self); 6] = [
        ("none", Self::None),
        ("layer", Self::Layer),
        ("l2", Self::L2),
        ("batch", Self::Batch),
        ("pair", Self::Pair),
        ("rms", Self::Rms),
    ];

    /// Returns true if the normalisation subtracts the mean of each column. A bias before it would
    /// have no effect.
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

/// Distribution of the initial weights. Biases are initialised to 0, except with
/// [`FirstWeights::PyTorch`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FirstWeights {
    /// Default distribution of the layer's kind, as in its paper and in PyG. It is
    /// [`FirstWeights::Glorot`] for `gcn`, `gat` and `gatv2`, and [`FirstWeights::FanIn`] for other
    /// kinds.
    #[default]
    Auto,
    /// Uniform between plus and minus `sqrt(6 / (rows + columns))` (Glorot and Bengio 2010), as the
    /// kernel's signature specifies.
    Glorot,
    /// Uniform between plus and minus `1 / sqrt(rows)`, which is PyTorch's default for linear
    /// layers. The variance is `1 / (3 rows)` (LeCun et al. 1998, section 4.6).
    FanIn,
    /// [`FirstWeights::FanIn`] for weights. Biases are drawn within the bound of the weight that
    /// they belong to.
    #[serde(rename = "pytorch")]
    PyTorch,
}

impl FirstWeights {
    /// All distributions of initial weights, with their names in recipes.
    pub const ALL: [(&'static str, Self); 4] =
        [("auto", Self::Auto), ("glorot", Self::Glorot), ("fan-in", Self::FanIn), ("pytorch", Self::PyTorch)];
}

/// Aggregation of the rows of a vertex's in-neighbours in a `sage` layer. A vertex without
/// in-neighbours receives zeros.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Aggregator {
    /// Mean of the in-neighbours' rows.
    #[default]
    Mean,
    /// Columnwise maximum, computed by the edge kernel `maximum` (Hamilton, Ying and Leskovec 2017,
    /// section 3.3, without the perceptron).
    Max,
}

impl Aggregator {
    /// All aggregators of a `sage` layer, with their names in recipes.
    pub const ALL: [(&'static str, Self); 2] = [("mean", Self::Mean), ("max", Self::Max)];
}

/// Combination of the outputs of all earlier layers as the input of one layer ("jumping knowledge",
/// Xu et al. 2018).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Jumping {
    /// The outputs are concatenated.
    Concat,
    /// The outputs are added.
    Sum,
}

impl Jumping {
    /// All combinations of the earlier layers' outputs, with their names in recipes.
    pub const ALL: [(&'static str, Self); 2] = [("concat", Self::Concat), ("sum", Self::Sum)];
}

/// Row of a graph from the rows of its vertices, in a data set of many graphs, or row of a labelled
/// edge from the rows of its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Readout {
    /// Mean of the vertices' rows.
    Mean,
    /// Sum of the vertices' rows (Xu et al. 2019, "How powerful are graph neural networks?",
    /// section 4.2).
    Sum,
    /// Columnwise maximum, computed by the edge kernel `maximum`.
    Max,
    /// Rows of the source and the target of an edge, one after the other.
    Ends,
    /// Row of the source of an edge.
    Source,
    /// Row of the target of an edge.
    Target,
}

impl Readout {
    /// All readouts, with their names in recipes.
    pub const ALL: [(&'static str, Self); 6] = [
        ("mean", Self::Mean),
        ("sum", Self::Sum),
        ("max", Self::Max),
        ("ends", Self::Ends),
        ("source", Self::Source),
        ("target", Self::Target),
    ];

    /// Returns the name of the readout in recipes.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, one)| *one == self).map_or("", |(name, _)| name)
    }

    /// Returns true if the readout computes rows of edges, and false for rows of graphs.
    #[must_use]
    pub const fn is_of_edges(self) -> bool {
        matches!(self, Self::Ends | Self::Source | Self::Target)
    }
}

/// Model for one data set, with all widths and defaults resolved from [`ModelSettings`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Model {
    /// Number of features per vertex.
    pub features: u32,
    /// Number of classes, labels or target numbers, or of embedding columns in link prediction. It
    /// is the width of the last layer.
    pub classes: u32,
    /// Loss that compares the rows of the last layer with the targets.
    #[serde(default, skip_serializing_if = "settings::is_default")]
    pub loss: Loss,
    /// Exponent gamma of the focal loss. If 0, the loss is the ordinary cross-entropy.
    #[serde(default, skip_serializing_if = "settings::is_default")]
    pub focal: f64,
    /// True for link prediction, where the loss is computed from inner products of pairs of rows.
    /// Otherwise each row is compared with the target of its vertex.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub links: bool,
    /// Index of the edge feature column that contains the weight of each edge in gathers. If
    /// `None`, all edges have weight 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edge_weights: Option<u32>,
    /// Initial values from the model's settings, which take precedence over the layers'
    /// `first_weights`.
    #[serde(default, skip_serializing_if = "Init::is_empty")]
    pub init: Init,
    /// Layers, from one to [`MAX_LAYERS`].
    pub layers: Vec<ModelLayer>,
}

impl Model {
    /// Returns true if any layer has an activation with a slope, which is `leaky-relu`.
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
    /// Kind of the layer, which determines its computation.
    pub kind: LayerKind,
    /// Number of columns of the layer's output.
    pub width: u32,
    /// Distribution of the initial weights. It is never [`FirstWeights::Auto`].
    pub first_weights: FirstWeights,
    /// Dropout probability of the layer's input during training, in [0, 1).
    pub dropout: f64,
    /// True if the layer adds a trained bias.
    pub bias: bool,
    /// Normalisation of the layer's output.
    pub norm: Norm,
    /// Activation of the layer. It is the identity in layers whose rows are scores, for instance in
    /// the last layer.
    pub activation: Activation,
    /// True if the layer adds its input to its output.
    pub residual: bool,
    /// True if the layer reads edge features. Only `gatv2`, users' edge kernels and readouts of edges
    /// support this.
    #[serde(default, skip_serializing_if = "settings::is_default")]
    pub edge_features: bool,
    /// Name by which later layers refer to this layer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Inputs that the layer's settings list. `None` if the defaults apply. [`Model::sources`]
    /// returns the inputs in both cases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Vec<Source>>,
    /// Image shape of each row, or `None` if the rows are not images.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<Image>,
    /// True if the layer has one row per graph or labelled edge instead of one per vertex.
    #[serde(default, skip_serializing_if = "settings::is_default")]
    pub of_graphs: bool,
    /// Layer whose weight this layer shares, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights_of: Option<Tied>,
    /// Weight of an additional loss term that this layer's rows contribute. If `None`, the rows are
    /// not scores. The loss of the last layer is always included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_weight: Option<f64>,
    /// Initial values from the layer's own settings.
    #[serde(default, skip_serializing_if = "Init::is_empty")]
    pub init: Init,
}

/// Reference to the weight of an earlier layer that a layer shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tied {
    /// Index of the layer that owns the weight.
    pub layer: u32,
    /// True if the sharing layer multiplies by the transpose of the weight.
    pub transposed: bool,
}

/// Kind of a layer with its attributes. The module documentation has the formulas.
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
    /// Graph isomorphism network (GIN), which applies a perceptron of two products to a sum of
    /// rows.
    Gin {
        /// Value of epsilon, or its initial value if it is trained.
        epsilon: f64,
        /// True if epsilon is trained.
        trained: bool,
    },
    /// Simplified graph convolution (SGC).
    Sgc {
        /// Number of propagation steps K, from 1 to [`MAX_HOPS`].
        hops: u32,
    },
    /// Personalised propagation (APPNP), which has no weights.
    Appnp {
        /// Number of propagation steps K, from 1 to [`MAX_HOPS`].
        hops: u32,
        /// Teleport probability, in [0, 1).
        alpha: f64,
    },
    /// Graph attention (GAT), computed by a host operator.
    Gat(Attention),
    /// Graph attention whose scores are not linear in the rows (GATv2), computed by an edge kernel.
    Gatv2(Attention),
    /// Matrix product that does not read the graph.
    Linear {
        /// Combination of the outputs of all earlier layers that this layer reads. If `None`, it
        /// reads a single input.
        jumping: Option<Jumping>,
    },
    /// Pooling of the rows of each graph's vertices, without weights. The result is stored in the
    /// row of the graph's representative vertex, and all other rows are zero.
    Readout(Readout),
    /// Lookup of rows in a trained table.
    Embedding(Embedding),
    /// Attention within sequences (groups of rows), including its input and output products.
    SelfAttention(SelfAttention),
    /// Transformer block, which is an attention and a perceptron with residual sums.
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
    /// Identity followed by the layer's norm.
    Normalise,
    /// Identity followed by the layer's activation.
    Activate,
    /// Kernel of the user, which is a WebAssembly component, or a built-in kernel of
    /// [`LayerSettings::BUILT_IN`].
    Own {
        /// Path or name of the kernel, as written in the model.
        #[serde(rename = "path")]
        kernel: String,
        /// Interface of the kernel, which computes either on single rows or along edges.
        on: On,
        /// Attributes that the kernel is opened with.
        attributes: Vec<Attribute>,
        /// True if an edge kernel also receives an edge from each vertex to itself. Kernels on rows
        /// ignore it.
        with_self: bool,
    },
}

/// Returns the short name of a kernel. For a path, it is the file name without folders and
/// extension.
pub fn short_name(kernel: &str) -> &str {
    let file = kernel.rsplit('/').next().unwrap_or(kernel);
    match file.strip_suffix(".wasm").unwrap_or(file) {
        "" => kernel,
        name => name,
    }
}

/// Sizes of a graph attention with H heads of F values each.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attention {
    /// Number of heads H, from 1 to [`MAX_HEADS`].
    pub heads: u32,
    /// Number of values F per head.
    pub features: u32,
    /// True if the output is the mean of the heads (F columns) instead of their concatenation (H F
    /// columns).
    pub average: bool,
    /// Negative slope of the leaky ReLU of attention scores, in [0, 1).
    pub slope: f64,
    /// Dropout probability of the attention weights of edges during training, in [0, 1).
    pub dropout: f64,
}

impl Attention {
    /// Returns the number of values of all heads of a row, which is H F.
    #[must_use]
    pub const fn values(&self) -> u32 {
        self.heads * self.features
    }

    /// Returns the number of columns of the rows `[z | s | t]` that the host's attention operator
    /// (`gat`) reads.
    #[must_use]
    pub const fn input(&self) -> u32 {
        self.values() + 2 * self.heads
    }

    /// Returns the number of columns of the attention's output.
    #[must_use]
    pub const fn output(&self) -> u32 {
        if self.average { self.features } else { self.values() }
    }

    /// Returns the number of columns that the forward step of the host's attention operator stashes
    /// for backward. These are the values of positive scores, three softmax numbers per head, and
    /// each head's output if the heads are averaged.
    #[must_use]
    pub const fn kept(&self) -> u32 {
        self.values() + 3 * self.heads + if self.average { self.values() } else { 0 }
    }

    /// Returns the number of columns of the target rows that the second backward step of the host's
    /// attention operator reads. These are the gradient and five numbers per head.
    #[must_use]
    pub const fn turned(&self) -> u32 {
        self.output() + 5 * self.heads
    }
}

impl LayerKind {
    /// Returns true if the layer computes sums or means over neighbours, in which edges may have
    /// weights.
    pub(crate) const fn gathers(&self) -> bool {
        match self {
            Self::Gcn | Self::Gin { .. } | Self::Sgc { .. } | Self::Appnp { .. } => true,
            Self::Sage { aggregator } => matches!(aggregator, Aggregator::Mean),
            _ => false,
        }
    }

    /// Returns the name of the kind in recipes. For a user's kernel, it is the short name of the
    /// file.
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

    /// Returns the gather of a first layer of this kind that does not depend on trained values, so
    /// that it can run once before training. Requires that the layer's input has no dropout.
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

/// Gather of the features by the first layer that can run once, before the first epoch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FeatureGather {
    /// `N^hops X`, where X are the features and N is the symmetric normalisation. The result
    /// replaces the features.
    Hops(u32),
    /// `factor X + A X`, where A X is the sum over in-neighbours of the features X. The result
    /// replaces the features.
    WithOwn(f64),
    /// `D^-1 A X`, the mean over in-neighbours of the features X. The layer reads the result in
    /// addition to the features.
    Beside,
}

impl Model {
    /// Returns a GCN with these sizes. Other settings are those of [`ModelSettings::default`].
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

    /// Returns the inputs of a layer. Unless they are listed, these are the previous layer, or all
    /// previous layers for a jumping layer.
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

    /// Returns the number of columns of an input.
    #[must_use]
    pub fn width_of(&self, source: Source) -> u32 {
        match source {
            Source::Features => self.features,
            Source::Layer(layer) => self.layers.get(layer as usize).map_or(0, |layer| layer.width),
        }
    }

    /// Returns the number of columns of a layer's input. With several inputs, it is that of the
    /// last one, or the sum for `concat`.
    #[must_use]
    pub fn input_width(&self, layer: usize) -> u32 {
        let mut widths = self.sources(layer).into_iter().map(|source| self.width_of(source));
        match self.layers.get(layer).map(|layer| &layer.kind) {
            Some(LayerKind::Concat) => widths.sum(),
            _ => widths.next_back().unwrap_or(self.features),
        }
    }

    /// Returns true if the layer with index `layer` reads the data set's features.
    #[must_use]
    pub fn reads_features(&self, layer: usize) -> bool {
        self.sources(layer).contains(&Source::Features)
    }

    /// Returns the gather of the first layer if its result is constant, so that it can run once.
    /// Returns `None` if the layer has dropout or no such gather. Also returns `None` if the result
    /// would replace features that other layers read.
    #[must_use]
    pub fn constant_gather(&self) -> Option<FeatureGather> {
        let first = self.layers.first().filter(|first| first.dropout == 0.0);
        let alone = |gather: &FeatureGather| {
            *gather == FeatureGather::Beside
                || !(1..self.layers.len()).any(|layer| self.reads_features(layer))
        };
        first.and_then(|first| first.kind.feature_gather()).filter(alone)
    }

    /// Returns the first readout of the model. `None` if the model predicts values of vertices.
    #[must_use]
    pub fn readout(&self) -> Option<Readout> {
        self.layers.iter().find_map(|layer| match layer.kind {
            LayerKind::Readout(readout) => Some(readout),
            _ => None,
        })
    }

    /// Returns true if a readout reads the features of labelled edges.
    #[must_use]
    pub fn reads_edge_rows(&self) -> bool {
        self.layers.iter().any(|layer| layer.edge_features && matches!(layer.kind, LayerKind::Readout(_)))
    }

    /// Returns true if a kernel that computes along edges reads their features.
    #[must_use]
    pub fn reads_edges(&self) -> bool {
        self.layers.iter().any(|layer| layer.edge_features && !matches!(layer.kind, LayerKind::Readout(_)))
    }

    /// Returns the component paths that layers use as kernels, in order and without duplicates.
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

    /// Returns a name with the kinds of the layers and all widths, for instance `gcn 1433-16-7` or
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

/// Converts an index in the list of layers to a layer id.
pub fn number(layer: usize) -> Layer {
    Layer(u16::try_from(layer).unwrap_or(u16::MAX))
}

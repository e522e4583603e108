//! A model as a graph of operations ([`Node`]). Each node follows the nodes whose values it reads.
//!
//! A value is one block of rows. A node reads values and computes one value. A layer's bias and
//! activation stay pending until the next product applies them to its input ([`Rows`]). Kernel
//! `activate` applies them as a separate stage if the next reader cannot, for instance a gather or
//! a sum. It also does so if two readers would each add the bias.

mod deep;
mod layers;

use crate::op::kernel::Kernel;
use crate::op::{Node, Operator};
use crate::program::{Domain, Over};
use crate::rewrites::Rewrites;
use eciton_recipe::model::{Activation, Model, number};
use eciton_recipe::objective::Loss;
use eciton_types::ids::{DomainId, Layer};
use eciton_types::signature::{Attribute, Value as Setting};

/// Name of the kernel that computes the products of layers.
pub(crate) const LINEAR: &str = "linear";
/// Name of the kernel of the last forward stage, which computes class scores and the loss.
pub(crate) const HEAD: &str = "head";
/// Name of the kernel that adds rows.
pub(crate) const SUM: &str = "sum";
/// The name of the kernel that applies a bias and an activation as a separate stage. Kernel
/// `linear` applies them to its input in the same way.
pub(crate) const ACTIVATE: &str = "activate";
/// Name of the kernel that normalises rows (for instance layer normalisation).
pub(crate) const NORMALISE: &str = "normalise";
/// Name of the kernel that prepares the input rows of graph attention (GAT).
pub(crate) const ATTENTION: &str = "attention";
/// Name of the kernel that looks up rows of an embedding table.
pub(crate) const EMBEDDING: &str = "embedding";
/// The name of the kernel of self-attention within sequences, which are groups of consecutive rows.
pub(crate) const SELF_ATTENTION: &str = "self-attention";
/// Name of the kernel of two-dimensional convolutions.
pub(crate) const CONV2D: &str = "conv2d";
/// Name of the kernel of two-dimensional pooling.
pub(crate) const POOL2D: &str = "pool2d";
/// Name of the kernel that concatenates rows.
pub(crate) const CONCAT: &str = "concat";
/// Name of the kernel that selects columns of rows.
pub(crate) const SLICE: &str = "slice";
/// Name of the kernel that multiplies rows element by element.
pub(crate) const PRODUCT: &str = "product";
/// Name of the edge kernel of GATv2, an attention whose scores are not linear.
const GATV2: &str = "gatv2";
/// Name of the edge kernel that computes the elementwise maximum of neighbours' rows.
const MAXIMUM: &str = "maximum";
/// Name of the parameter with which a kernel adds the bias of the previous layer to its input.
pub(crate) const INPUT_BIAS: &str = "input-bias";

/// Index of a value in its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ValueId(usize);

impl ValueId {
    /// Value with the data set's features.
    pub(crate) const FEATURES: Self = Self(0);
    /// The value with the gathered features, if the network reads them in addition to the features.
    pub(crate) const GATHERED: Self = Self(1);

    pub(crate) const fn index(self) -> usize {
        self.0
    }
}

/// A value of the network, which is a block of rows that one node computes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Value {
    pub(crate) width: u32,
    /// Layer of the model to which the rows belong.
    pub(crate) layer: Layer,
    pub(crate) domain: DomainId,
}

/// A bias that is pending, because no kernel has added it to its rows yet.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bias {
    pub(crate) layer: Layer,
    /// Name of the bias parameter in its layer.
    pub(crate) name: String,
}

/// A value with a pending bias and activation. Its readers use `activation(value + bias)`.
#[derive(Clone, Debug)]
struct Rows {
    value: ValueId,
    bias: Option<Bias>,
    activation: Activation,
}

impl Rows {
    fn plain(value: ValueId) -> Self {
        Self { value, bias: None, activation: Activation::Identity }
    }
}

/// Operations of a model, as a graph in construction.
#[derive(Debug)]
pub(crate) struct Network {
    pub(crate) values: Vec<Value>,
    /// The nodes, in order. The last node is the head or, in link prediction, the comparison of
    /// pairs.
    pub(crate) nodes: Vec<Node>,
    /// The value that the last layer reads. Its rows are the embeddings of the vertices.
    pub(crate) embeddings: ValueId,
    /// Value with the features of labelled edges, if the network reads them.
    pub(crate) edge_rows: Option<ValueId>,
}

impl Network {
    /// Builds the network of a model, with the optimisations that `rewrites` lists. `columns` is the
    /// number of features per edge.
    pub(crate) fn from_model(model: &Model, rewrites: Rewrites, columns: u32) -> Self {
        let features = Value { width: model.features, layer: Layer(0), domain: Domain::VERTICES };
        let mut values = vec![features; 1 + usize::from(rewrites.reads_beside(model))];
        let edge_rows = model.reads_edge_rows().then(|| {
            values.push(Value { width: columns, layer: Layer(0), domain: Domain::READ_OUT });
            ValueId(values.len() - 1)
        });
        let network = Self { values, nodes: Vec::new(), embeddings: ValueId::FEATURES, edge_rows };
        layers::build(network, model, rewrites)
    }

    pub(crate) fn width(&self, value: ValueId) -> u32 {
        self.values.get(value.0).map_or(0, |value| value.width)
    }

    pub(crate) fn domain(&self, value: ValueId) -> DomainId {
        self.values.get(value.0).map_or(Domain::VERTICES, |value| value.domain)
    }

    fn value(&mut self, width: u32, layer: Layer, domain: DomainId) -> ValueId {
        self.values.push(Value { width, layer, domain });
        ValueId(self.values.len() - 1)
    }

    /// Adds a node with the given operator and inputs, and returns the value that it computes.
    /// `width` is the number of columns of this value.
    pub(crate) fn add(
        &mut self,
        layer: Layer,
        inputs: Vec<ValueId>,
        width: u32,
        operator: impl Operator + 'static,
    ) -> ValueId {
        let domain = inputs.first().map_or(Domain::VERTICES, |&input| self.domain(input));
        self.add_over(Over::Neighbours, layer, inputs, (width, domain), operator)
    }

    /// Adds a node like [`Network::add`], whose relation has lists of the kind `over`. In a readout,
    /// the node computes one row per graph or labelled edge from the rows of vertices.
    pub(crate) fn add_over(
        &mut self,
        over: Over,
        layer: Layer,
        inputs: Vec<ValueId>,
        (width, domain): (u32, DomainId),
        operator: impl Operator + 'static,
    ) -> ValueId {
        let domain = if over.is_readout() { Domain::READ_OUT } else { domain };
        let output = self.value(width, layer, domain);
        self.nodes.push(Node { layer, inputs, output: Some(output), operator: Box::new(operator) });
        output
    }

    /// Adds a node that computes no value, such as a loss.
    pub(crate) fn end(&mut self, layer: Layer, inputs: Vec<ValueId>, operator: impl Operator + 'static) {
        self.nodes.push(Node { layer, inputs, output: None, operator: Box::new(operator) });
    }

    /// Adds a kernel with one input, and returns its output. The kernel itself applies the pending
    /// bias and activation of `rows`.
    fn kernel(
        &mut self,
        kernel: &str,
        at: (Layer, &str),
        rows: &Rows,
        width: u32,
        attributes: Vec<Attribute>,
    ) -> ValueId {
        let of = Kernel { bias: rows.bias.clone(), ..Kernel::new(kernel, at, attributes) };
        self.add(at.0, vec![rows.value], width, of)
    }

    fn linear(&mut self, at: (Layer, &str), rows: &Rows, width: u32, dropout: f64, bias: bool) -> ValueId {
        self.product(at, rows, width, (dropout, bias), |_| ())
    }

    /// Adds a product of rows with a weight (kernel `linear`), and returns its output. `with` may
    /// modify the kernel before it is added.
    fn product(
        &mut self,
        at: (Layer, &str),
        rows: &Rows,
        width: u32,
        (dropout, bias): (f64, bool),
        with: impl FnOnce(&mut Kernel),
    ) -> ValueId {
        let attributes = vec![
            Attribute::new("out-features", Setting::Integer(i64::from(width))),
            Attribute::new("dropout", Setting::Number(dropout)),
            Attribute::new("bias", Setting::Flag(bias)),
            Attribute::new("input-bias", Setting::Flag(rows.bias.is_some())),
            Attribute::new("input-activation", Setting::Text(rows.activation.name().to_owned())),
        ];
        let mut of = Kernel { bias: rows.bias.clone(), ..Kernel::new(LINEAR, at, attributes) };
        with(&mut of);
        self.add(at.0, vec![rows.value], width, of)
    }

    /// Adds a node that computes `factors.0 * inputs[0] + factors.1 * (sum of the other inputs)`,
    /// and returns its output. If `trained` is true, the first factor is a trained parameter.
    fn sum(&mut self, layer: Layer, inputs: Vec<ValueId>, factors: (f64, f64), trained: bool) -> ValueId {
        let [first, others] = [factors.0, factors.1].map(Setting::Number);
        let width = inputs.first().map_or(0, |&input| self.width(input));
        let attributes = vec![
            Attribute::new("first", first),
            Attribute::new("others", others),
            Attribute::new("trained", Setting::Flag(trained)),
        ];
        let adds = factors == (1.0, 1.0) && !trained;
        self.add(layer, inputs, width, Kernel { adds, ..Kernel::new(SUM, (layer, ""), attributes) })
    }

    /// Applies the pending bias and activation of rows, then dropout with the random numbers of
    /// layer `of`. Returns the value unchanged if there is nothing to apply.
    fn dropped(&mut self, rows: &Rows, of: Layer, dropout: f64) -> ValueId {
        if rows.bias.is_none() && rows.activation == Activation::Identity && dropout == 0.0 {
            return rows.value;
        }
        self.activated(rows, of, dropout)
    }

    /// Applies bias, activation and dropout like [`Network::dropped`], for an edge kernel. The
    /// features are copied first. An edge kernel reads rows of all intervals, and can read them
    /// only from a slot that a stage writes.
    fn for_edges(&mut self, rows: &Rows, of: Layer, dropout: f64) -> ValueId {
        match rows.value {
            ValueId::FEATURES => self.activated(rows, of, dropout),
            _ => self.dropped(rows, of, dropout),
        }
    }

    /// Applies bias, activation and dropout like [`Network::dropped`], but always writes new rows.
    fn activated(&mut self, rows: &Rows, of: Layer, dropout: f64) -> ValueId {
        self.activated_with(rows, of, dropout, |_| ())
    }

    /// Applies bias, activation and dropout like [`Network::activated`]. `with` may modify the
    /// kernel before it is added.
    fn activated_with(
        &mut self,
        rows: &Rows,
        of: Layer,
        dropout: f64,
        with: impl FnOnce(&mut Kernel),
    ) -> ValueId {
        let mut attributes = vec![
            Attribute::new("input-bias", Setting::Flag(rows.bias.is_some())),
            Attribute::new("activation", Setting::Text(rows.activation.name().to_owned())),
            Attribute::new("dropout", Setting::Number(dropout)),
        ];
        // Components of released versions have the default slope and no attribute for another one.
        if let Some(slope) = rows.activation.slope().filter(|_| rows.activation.stands_alone()) {
            attributes.push(Attribute::new("slope", Setting::Number(slope)));
        }
        let mut kernel = Kernel { bias: rows.bias.clone(), ..Kernel::new(ACTIVATE, (of, ""), attributes) };
        with(&mut kernel);
        self.add(of, vec![rows.value], self.width(rows.value), kernel)
    }

    /// Applies the pending bias and activation of rows with a separate kernel. Rows with neither
    /// are returned unchanged.
    fn plain(&mut self, rows: Rows) -> Rows {
        let layer = self.values.get(rows.value.0).map_or(Layer(0), |value| value.layer);
        Rows::plain(self.dropped(&rows, layer, 0.0))
    }

    /// Returns rows that several nodes may read. A pending bias is applied here, together with the
    /// activation, because it must be added only once. An activation alone stays pending, because
    /// each reader can apply it.
    fn shared(&mut self, rows: Rows) -> Rows {
        if rows.bias.is_some() { self.plain(rows) } else { rows }
    }

    /// Adds the comparison of pairs of vertices (link prediction) as the last node. The pending
    /// bias and activation of `rows` are applied first.
    fn pairs(&mut self, model: &Model, rows: Rows) {
        let input = self.plain(rows).value;
        self.links(number(model.layers.len()), input);
    }

    /// Adds the head as the last node. Its kernel computes the class scores and the loss of the
    /// last layer.
    fn head(&mut self, model: &Model, rows: &Rows) {
        let layer = number(model.layers.len());
        let of = Self::compared(model, rows, layer, 1.0);
        self.add(layer, vec![rows.value], model.classes, of);
    }

    /// Adds a loss on the output of an earlier layer. `weight` is its factor in the training loss.
    fn further_loss(&mut self, model: &Model, layer: Layer, rows: &Rows, weight: f64) {
        let of = Self::compared(model, rows, layer, weight);
        self.end(layer, vec![rows.value], of);
    }

    /// Returns a kernel `head`, which computes the loss of rows with respect to their training
    /// targets.
    fn compared(model: &Model, rows: &Rows, layer: Layer, loss_weight: f64) -> Kernel {
        let mut attributes = vec![Attribute::new("bias", Setting::Flag(rows.bias.is_some()))];
        if model.loss != Loss::default() {
            attributes.push(Attribute::new("of", Setting::Text(model.loss.name().to_owned())));
        }
        // A user's head need not have the attribute if the model does not set it.
        if model.focal > 0.0 {
            attributes.push(Attribute::new("focal", Setting::Number(model.focal)));
        }
        Kernel { bias: rows.bias.clone(), loss_weight, ..Kernel::new(HEAD, (layer, ""), attributes) }
    }
}

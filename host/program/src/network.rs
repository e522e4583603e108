//! A model as a graph of operations ([`Node`]), ordered so that each operation follows those that
//! it reads.
//!
//! A value is one block of rows. A node reads values and makes one. A layer's bias and activation
//! are not applied at once: the next product applies them to its input ([`Rows`]). Kernel
//! `activate` applies them only if a gather or a sum reads the rows unchanged, or if two readers
//! would add the bias.

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

/// The kernel of a layer's products.
pub(crate) const LINEAR: &str = "linear";
/// The kernel of the last stage forward.
pub(crate) const HEAD: &str = "head";
/// The kernel that adds rows up.
pub(crate) const SUM: &str = "sum";
/// The kernel that applies bias and activation as `linear` does to its input.
pub(crate) const ACTIVATE: &str = "activate";
/// The kernel that normalises rows to one scale.
pub(crate) const NORMALISE: &str = "normalise";
/// The kernel that makes the rows that an attention reads.
pub(crate) const ATTENTION: &str = "attention";
/// The kernel of an embedding.
pub(crate) const EMBEDDING: &str = "embedding";
/// The kernel of attention within groups of rows.
pub(crate) const SELF_ATTENTION: &str = "self-attention";
/// The kernel of convolutions.
pub(crate) const CONV2D: &str = "conv2d";
/// The kernel of poolings.
pub(crate) const POOL2D: &str = "pool2d";
/// The kernel that concatenates rows.
pub(crate) const CONCAT: &str = "concat";
/// The kernel that selects columns.
pub(crate) const SLICE: &str = "slice";
/// The kernel that multiplies rows element by element.
pub(crate) const PRODUCT: &str = "product";
/// The edge kernel of attention with scores that are not linear.
const GATV2: &str = "gatv2";
/// The edge kernel that computes the maximum of neighbours' rows.
const MAXIMUM: &str = "maximum";
/// The parameter with which a kernel adds the bias of the previous layer.
pub(crate) const INPUT_BIAS: &str = "input-bias";

/// Index of a value in its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ValueId(usize);

impl ValueId {
    /// The data set's features.
    pub(crate) const FEATURES: Self = Self(0);
    /// The gathered features, if a network reads them in addition to the features.
    pub(crate) const GATHERED: Self = Self(1);

    pub(crate) const fn index(self) -> usize {
        self.0
    }
}

/// A block of rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Value {
    pub(crate) width: u32,
    /// Layer to which the rows belong.
    pub(crate) layer: Layer,
    pub(crate) domain: DomainId,
}

/// A bias that is not applied yet.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bias {
    pub(crate) layer: Layer,
    /// Name of the bias in the layer.
    pub(crate) name: String,
}

/// A value with a pending bias and activation: `activation(value + bias)`.
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

/// A model's operations.
#[derive(Debug)]
pub(crate) struct Network {
    pub(crate) values: Vec<Value>,
    /// Nodes in order. The last one is the head or, in link prediction, the comparison of pairs.
    pub(crate) nodes: Vec<Node>,
    /// Value that the last layer reads.
    pub(crate) embeddings: ValueId,
}

impl Network {
    /// Builds the operations of a model, rewritten according to `rewrites`.
    pub(crate) fn of(model: &Model, rewrites: Rewrites) -> Self {
        let features = Value { width: model.features, layer: Layer(0), domain: Domain::VERTICES };
        let values = vec![features; 1 + usize::from(rewrites.reads_beside(model))];
        let network = Self { values, nodes: Vec::new(), embeddings: ValueId::FEATURES };
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

    /// Adds a node that makes a value.
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

    /// Adds a node whose relation is over `over`. Rows of graphs follow from rows of vertices.
    pub(crate) fn add_over(
        &mut self,
        over: Over,
        layer: Layer,
        inputs: Vec<ValueId>,
        (width, domain): (u32, DomainId),
        operator: impl Operator + 'static,
    ) -> ValueId {
        let domain = if over == Over::Graphs { Domain::GRAPHS } else { domain };
        let output = self.value(width, layer, domain);
        self.nodes.push(Node { layer, inputs, output: Some(output), operator: Box::new(operator) });
        output
    }

    /// Adds the last node, which makes no value.
    pub(crate) fn end(&mut self, layer: Layer, inputs: Vec<ValueId>, operator: impl Operator + 'static) {
        self.nodes.push(Node { layer, inputs, output: None, operator: Box::new(operator) });
    }

    /// Adds a kernel of one input, which applies the pending bias and activation of its rows.
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

    /// Adds a product, whose kernel `with` modifies.
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

    /// Adds a node that computes `factors.0 inputs[0] + factors.1 (the others)`. If `trained`, the
    /// first factor is a parameter.
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

    /// Applies the pending bias and activation, then dropout with the random numbers of layer `of`.
    fn dropped(&mut self, rows: &Rows, of: Layer, dropout: f64) -> ValueId {
        if rows.bias.is_none() && rows.activation == Activation::Identity && dropout == 0.0 {
            return rows.value;
        }
        self.activated(rows, of, dropout)
    }

    /// Does the same as [`Network::dropped`], for an edge kernel. An edge kernel reads rows of all
    /// intervals from a slot. The features are in no such slot, so they are copied.
    fn for_edges(&mut self, rows: &Rows, of: Layer, dropout: f64) -> ValueId {
        match rows.value {
            ValueId::FEATURES => self.activated(rows, of, dropout),
            _ => self.dropped(rows, of, dropout),
        }
    }

    /// Does the same as [`Network::dropped`], but always writes new rows.
    fn activated(&mut self, rows: &Rows, of: Layer, dropout: f64) -> ValueId {
        self.activated_with(rows, of, dropout, |_| ())
    }

    /// Does the same as [`Network::activated`], with a kernel that `with` modifies.
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

    /// Applies the pending bias and activation of rows.
    fn plain(&mut self, rows: Rows) -> Rows {
        let layer = self.values.get(rows.value.0).map_or(Layer(0), |value| value.layer);
        Rows::plain(self.dropped(&rows, layer, 0.0))
    }

    /// Returns rows that several operations may read. Each reader can apply an activation itself,
    /// but a bias is added only once.
    fn shared(&mut self, rows: Rows) -> Rows {
        if rows.bias.is_some() { self.plain(rows) } else { rows }
    }

    /// Compares pairs of rows, after applying their pending bias and activation.
    fn pairs(&mut self, model: &Model, rows: Rows) {
        let input = self.plain(rows).value;
        self.links(number(model.layers.len()), input);
    }

    /// Adds the last layer's loss, whose kernel makes the scores.
    fn head(&mut self, model: &Model, rows: &Rows) {
        let layer = number(model.layers.len());
        let of = Self::compared(model, rows, layer, 1.0);
        self.add(layer, vec![rows.value], model.classes, of);
    }

    /// Adds the loss of another layer, with this weight.
    fn further_loss(&mut self, model: &Model, layer: Layer, rows: &Rows, weight: f64) {
        let of = Self::compared(model, rows, layer, weight);
        self.end(layer, vec![rows.value], of);
    }

    /// Returns the kernel that compares rows with their targets.
    fn compared(model: &Model, rows: &Rows, layer: Layer, loss_weight: f64) -> Kernel {
        let mut attributes = vec![Attribute::new("bias", Setting::Flag(rows.bias.is_some()))];
        if model.loss != Loss::default() {
            attributes.push(Attribute::new("of", Setting::Text(model.loss.name().to_owned())));
        }
        // A head of the user's own need not have it where nobody asks.
        if model.focal > 0.0 {
            attributes.push(Attribute::new("focal", Setting::Number(model.focal)));
        }
        Kernel { bias: rows.bias.clone(), loss_weight, ..Kernel::new(HEAD, (layer, ""), attributes) }
    }
}

//! A model as a graph of operations ([`Node`]), in an order in which every one follows what it reads.
//!
//! A value is one block of rows; a node reads values and makes one. What follows a layer, its bias and
//! activation, is not done at once: the next product does it on the way in ([`Rows`]). Only where rows go
//! into a gather or a sum as they are, or a bias would be added by two readers, kernel `activate` does it.

mod deep;
mod layers;

use crate::ids::{DomainId, Layer};
use crate::model::{Activation, Model, number};
use crate::objective::Loss;
use crate::op::kernel::Kernel;
use crate::op::{Node, Operator};
use crate::program::{Domain, Over};
use crate::savings::Savings;
use crate::signature::{Attribute, Value as Setting};

/// The kernel of a layer's products.
pub(crate) const LINEAR: &str = "linear";
/// The kernel of the last stage forward.
pub(crate) const HEAD: &str = "head";
/// The kernel that adds rows up.
pub(crate) const SUM: &str = "sum";
/// The kernel of what `linear` does on the way in, on its own.
pub(crate) const ACTIVATE: &str = "activate";
/// The kernel that brings rows to one scale.
pub(crate) const NORMALISE: &str = "normalise";
/// The kernel that makes what an attention reads.
pub(crate) const ATTENTION: &str = "attention";
/// The kernel of an embedding.
pub(crate) const EMBEDDING: &str = "embedding";
/// The kernel of attention within groups of rows.
pub(crate) const SELF_ATTENTION: &str = "self-attention";
/// The kernel of convolutions.
pub(crate) const CONV2D: &str = "conv2d";
/// The kernel of poolings.
pub(crate) const POOL2D: &str = "pool2d";
/// The kernel that puts rows side by side.
pub(crate) const CONCAT: &str = "concat";
/// The kernel that takes some columns.
pub(crate) const SLICE: &str = "slice";
/// The kernel that multiplies rows value by value.
pub(crate) const PRODUCT: &str = "product";
/// The edge kernel of attention whose scores are not linear.
const GATV2: &str = "gatv2";
/// The edge kernel of the largest of neighbours' rows.
const MAXIMUM: &str = "maximum";
/// The parameter by which a kernel adds the bias of the layer before.
pub(crate) const INPUT_BIAS: &str = "input-bias";

/// A value's place in its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ValueId(usize);

impl ValueId {
    /// The data set's features.
    pub(crate) const FEATURES: Self = Self(0);
    /// What was gathered of them before, where a network reads it beside them.
    pub(crate) const GATHERED: Self = Self(1);

    pub(crate) const fn index(self) -> usize {
        self.0
    }
}

/// A block of rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Value {
    pub(crate) width: u32,
    /// The layer whose rows they are.
    pub(crate) layer: Layer,
    pub(crate) domain: DomainId,
}

/// A bias that is still to be added.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bias {
    pub(crate) layer: Layer,
    /// Its name in the layer.
    pub(crate) name: String,
}

/// A value, and what is still to be done to it: `activation(value + bias)`.
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
    /// The last is the head, or pairs.
    pub(crate) nodes: Vec<Node>,
    /// What the last layer reads.
    pub(crate) embeddings: ValueId,
}

impl Network {
    /// The operations of a model that leaves out what `savings` say.
    pub(crate) fn of(model: &Model, savings: Savings) -> Self {
        let features = Value { width: model.features, layer: Layer(0), domain: Domain::VERTICES };
        let values = vec![features; 1 + usize::from(savings.reads_beside(model))];
        let network = Self { values, nodes: Vec::new(), embeddings: ValueId::FEATURES };
        layers::build(network, model, savings)
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

    /// A node that makes a value.
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

    /// A node whose relation is over `over`: rows of graphs follow from rows of vertices.
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

    /// A node that makes none: the last.
    pub(crate) fn end(&mut self, layer: Layer, inputs: Vec<ValueId>, operator: impl Operator + 'static) {
        self.nodes.push(Node { layer, inputs, output: None, operator: Box::new(operator) });
    }

    /// A kernel of one input, which does what is still to be done to its rows.
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

    /// A product, `with` something changed.
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

    /// `factors.0 inputs[0] + factors.1 (the others)`; `trained`: the first factor is.
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

    /// Does what is still to be done, then dropout with the numbers of layer `of`.
    fn dropped(&mut self, rows: &Rows, of: Layer, dropout: f64) -> ValueId {
        if rows.bias.is_none() && rows.activation == Activation::Identity && dropout == 0.0 {
            return rows.value;
        }
        self.activated(rows, of, dropout)
    }

    /// As [`Network::dropped`], for an edge kernel, which reads rows of all intervals from a slot: of the
    /// features, which are in none, a copy is made.
    fn for_edges(&mut self, rows: &Rows, of: Layer, dropout: f64) -> ValueId {
        match rows.value {
            ValueId::FEATURES => self.activated(rows, of, dropout),
            _ => self.dropped(rows, of, dropout),
        }
    }

    /// As [`Network::dropped`], always in rows of their own.
    fn activated(&mut self, rows: &Rows, of: Layer, dropout: f64) -> ValueId {
        self.activated_with(rows, of, dropout, |_| ())
    }

    /// The same, `with` something changed.
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

    /// Rows to which nothing is still to be done.
    fn plain(&mut self, rows: Rows) -> Rows {
        let layer = self.values.get(rows.value.0).map_or(Layer(0), |value| value.layer);
        Rows::plain(self.dropped(&rows, layer, 0.0))
    }

    /// Rows that several operations may read: an activation each can do by itself, a bias is added once.
    fn shared(&mut self, rows: Rows) -> Rows {
        if rows.bias.is_some() { self.plain(rows) } else { rows }
    }

    /// Compares pairs of rows, after what is still to be done to them.
    fn pairs(&mut self, model: &Model, rows: Rows) {
        let input = self.plain(rows).value;
        self.links(number(model.layers.len()), input);
    }

    /// The last layer's loss, whose kernel makes the scores.
    fn head(&mut self, model: &Model, rows: &Rows) {
        let layer = number(model.layers.len());
        let of = Self::compared(model, rows, layer, 1.0);
        self.add(layer, vec![rows.value], model.classes, of);
    }

    /// Another layer's loss, of such a weight.
    fn further_loss(&mut self, model: &Model, layer: Layer, rows: &Rows, weight: f64) {
        let of = Self::compared(model, rows, layer, weight);
        self.end(layer, vec![rows.value], of);
    }

    /// The kernel that compares rows with what is known of them.
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

//! A model as a graph of operations: kernels on rows, and gathers, attentions and edge kernels between them,
//! in an order in which every one follows what it reads.
//!
//! A value is one block of rows; a node reads values and makes one. What follows a layer, its bias and
//! activation, is not done at once: the next product does it on the way in ([`Rows`]). Only where rows go
//! into a gather or a sum as they are, or a bias would be added by two readers, kernel `activate` does it.

mod layers;

use crate::ids::Layer;
use crate::model::{Activation, Attention, Model, number};
use crate::objective::Loss;
use crate::program::{Along, Normalisation, Over};
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
}

/// What makes a value.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    Kernel(KernelNode),
    Gather(GatherNode),
    Attend(AttendNode),
    BatchNorm(BatchNormNode),
    Edges(EdgeNode),
    Pairs(PairNode),
}

/// A kernel's work.
#[derive(Clone, Debug)]
pub(crate) struct KernelNode {
    pub(crate) kernel: String,
    pub(crate) layer: Layer,
    /// What dropout depends on ([`crate::Operation::draw`]).
    pub(crate) draw: u32,
    /// What tells it from the layer's others: before its parameters' names.
    pub(crate) role: String,
    pub(crate) inputs: Vec<ValueId>,
    pub(crate) output: ValueId,
    pub(crate) attributes: Vec<Attribute>,
    /// Whose bias it adds on the way in, and the parameter's name.
    pub(crate) bias: Option<Bias>,
    /// It adds its inputs up as they are: their gradients are that of its output.
    pub(crate) adds: bool,
    /// Its bias was added before its gathers: its weights are drawn as if it still did.
    pub(crate) bias_moved: bool,
}

/// A gather of all columns.
#[derive(Clone, Debug)]
pub(crate) struct GatherNode {
    pub(crate) layer: Layer,
    pub(crate) normalisation: Normalisation,
    pub(crate) over: Over,
    pub(crate) input: ValueId,
    pub(crate) output: ValueId,
}

/// Sums of neighbours' rows with weights that the rows say.
#[derive(Clone, Debug)]
pub(crate) struct AttendNode {
    pub(crate) layer: Layer,
    pub(crate) attention: Attention,
    pub(crate) input: ValueId,
    pub(crate) output: ValueId,
}

/// Rows brought to mean 0 and variance 1, by column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchNormNode {
    pub(crate) layer: Layer,
    /// Which rows count.
    pub(crate) over: Over,
    pub(crate) input: ValueId,
    pub(crate) output: ValueId,
}

/// An edge kernel's work.
#[derive(Clone, Debug)]
pub(crate) struct EdgeNode {
    /// Its inputs are source and target.
    pub(crate) of: KernelNode,
    /// Which edges.
    pub(crate) along: Along,
}

/// Pairs of rows, linked and not: the last node in place of the head, which makes no value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PairNode {
    pub(crate) layer: Layer,
    pub(crate) input: ValueId,
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
#[derive(Clone, Debug)]
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
        let features = Value { width: model.features, layer: Layer(0) };
        let values = vec![features; 1 + usize::from(savings.reads_beside(model))];
        let network = Self { values, nodes: Vec::new(), embeddings: ValueId::FEATURES };
        layers::build(network, model, savings)
    }

    pub(crate) fn width(&self, value: ValueId) -> u32 {
        self.values.get(value.0).map_or(0, |value| value.width)
    }

    fn value(&mut self, width: u32, layer: Layer) -> ValueId {
        self.values.push(Value { width, layer });
        ValueId(self.values.len() - 1)
    }

    fn gather(&mut self, layer: Layer, normalisation: Normalisation, input: ValueId) -> ValueId {
        self.gather_over(Over::Neighbours, layer, normalisation, input)
    }

    fn gather_over(
        &mut self,
        over: Over,
        layer: Layer,
        normalisation: Normalisation,
        input: ValueId,
    ) -> ValueId {
        let output = self.value(self.width(input), layer);
        self.nodes.push(Node::Gather(GatherNode { layer, normalisation, over, input, output }));
        output
    }

    fn attend(&mut self, layer: Layer, attention: Attention, input: ValueId) -> ValueId {
        let output = self.value(attention.output(), layer);
        self.nodes.push(Node::Attend(AttendNode { layer, attention, input, output }));
        output
    }

    fn batch_norm(&mut self, layer: Layer, over: Over, input: ValueId) -> ValueId {
        let output = self.value(self.width(input), layer);
        self.nodes.push(Node::BatchNorm(BatchNormNode { layer, over, input, output }));
        output
    }

    /// An edge kernel on rows to which nothing is still to be done.
    fn edges(
        &mut self,
        kernel: &str,
        layer: Layer,
        (source, target): (ValueId, ValueId),
        width: u32,
        attributes: Vec<Attribute>,
        along: Along,
    ) -> ValueId {
        let output = self.value(width, layer);
        let of = KernelNode {
            kernel: kernel.to_owned(),
            layer,
            draw: u32::from(layer.0),
            role: String::new(),
            inputs: vec![source, target],
            output,
            attributes,
            bias: None,
            adds: false,
            bias_moved: false,
        };
        self.nodes.push(Node::Edges(EdgeNode { of, along }));
        output
    }

    /// A kernel of one input, which does what is still to be done to its rows.
    fn kernel(
        &mut self,
        kernel: &str,
        (layer, role): (Layer, &str),
        rows: &Rows,
        width: u32,
        attributes: Vec<Attribute>,
    ) -> ValueId {
        let output = self.value(width, layer);
        self.nodes.push(Node::Kernel(KernelNode {
            kernel: kernel.to_owned(),
            layer,
            draw: u32::from(layer.0),
            role: role.to_owned(),
            inputs: vec![rows.value],
            output,
            attributes,
            bias: rows.bias.clone(),
            adds: false,
            bias_moved: false,
        }));
        output
    }

    fn linear(&mut self, at: (Layer, &str), rows: &Rows, width: u32, dropout: f64, bias: bool) -> ValueId {
        let attributes = vec![
            Attribute::new("out-features", Setting::Integer(i64::from(width))),
            Attribute::new("dropout", Setting::Number(dropout)),
            Attribute::new("bias", Setting::Flag(bias)),
            Attribute::new("input-bias", Setting::Flag(rows.bias.is_some())),
            Attribute::new("input-activation", Setting::Text(rows.activation.name().to_owned())),
        ];
        self.kernel(LINEAR, at, rows, width, attributes)
    }

    /// `factors.0 inputs[0] + factors.1 (the others)`; `trained`: the first factor is.
    fn sum(&mut self, layer: Layer, inputs: Vec<ValueId>, factors: (f64, f64), trained: bool) -> ValueId {
        let [first, others] = [factors.0, factors.1].map(Setting::Number);
        let output = self.value(inputs.first().map_or(0, |&input| self.width(input)), layer);
        self.nodes.push(Node::Kernel(KernelNode {
            kernel: SUM.to_owned(),
            layer,
            draw: u32::from(layer.0),
            role: String::new(),
            inputs,
            output,
            attributes: vec![
                Attribute::new("first", first),
                Attribute::new("others", others),
                Attribute::new("trained", Setting::Flag(trained)),
            ],
            bias: None,
            adds: factors == (1.0, 1.0) && !trained,
            bias_moved: false,
        }));
        output
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
        let attributes = vec![
            Attribute::new("input-bias", Setting::Flag(rows.bias.is_some())),
            Attribute::new("activation", Setting::Text(rows.activation.name().to_owned())),
            Attribute::new("dropout", Setting::Number(dropout)),
        ];
        self.kernel(ACTIVATE, (of, ""), rows, self.width(rows.value), attributes)
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
        self.nodes.push(Node::Pairs(PairNode { layer: number(model.layers.len()), input }));
    }

    fn head(&mut self, model: &Model, rows: &Rows) {
        let layer = number(model.layers.len());
        let mut attributes = vec![Attribute::new("bias", Setting::Flag(rows.bias.is_some()))];
        if model.loss != Loss::default() {
            attributes.push(Attribute::new("of", Setting::Text(model.loss.name().to_owned())));
        }
        self.kernel(HEAD, (layer, ""), rows, model.classes, attributes);
    }
}

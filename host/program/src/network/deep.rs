//! Operations of layers for images and sequences, and of layers with several inputs.

use super::layers::One;
use super::{
    CONCAT, CONV2D, EMBEDDING, NORMALISE, Network, POOL2D, PRODUCT, Rows, SELF_ATTENTION, SLICE, ValueId,
};
use crate::op::kernel::Kernel;
use eciton_recipe::model::{
    Activation, Conv2d, Embedding, ModelLayer, Norm, Pool2d, SelfAttention, Slice, Transformer,
};
use eciton_types::signature::{Attribute, Value as Setting};

fn whole(name: &str, value: u32) -> Attribute {
    Attribute::new(name, Setting::Integer(i64::from(value)))
}

fn flag(name: &str, value: bool) -> Attribute {
    Attribute::new(name, Setting::Flag(value))
}

fn word(name: &str, value: &str) -> Attribute {
    Attribute::new(name, Setting::Text(value.to_owned()))
}

impl Network {
    /// Adds a kernel that reads values without pending bias or activation, and returns its output.
    /// `width` is the number of columns of the output.
    pub(super) fn of_values(
        &mut self,
        kernel: &str,
        at: (eciton_types::ids::Layer, &str),
        (values, width): (Vec<ValueId>, u32),
        attributes: Vec<Attribute>,
    ) -> ValueId {
        self.add(at.0, values, width, Kernel::new(kernel, at, attributes))
    }
}

impl One<'_> {
    /// Adds an embedding, which looks up a row of a table for each input value. The input values
    /// are numbers of table entries, so no dropout or activation is applied to them.
    pub(super) fn embedding(&self, network: &mut Network, rows: Rows, of: Embedding) -> Rows {
        let width = self.layer.width;
        let attributes =
            vec![whole("entries", of.entries), whole("width", width), flag("positions", of.positions)];
        let input = vec![network.plain(rows).value];
        let mut of = Kernel::new(EMBEDDING, (self.at, ""), attributes);
        self.tie(&mut of);
        Rows::plain(network.add(self.at, input, width, of))
    }

    /// Adds self-attention. One product computes queries, keys and values in adjacent columns. The
    /// attention and the output product follow.
    pub(super) fn self_attention(&self, network: &mut Network, rows: &Rows, of: SelfAttention) -> Rows {
        let dropout = self.layer.dropout;
        let value = self.attended(network, rows, of, dropout, false);
        self.with_bias(value, "output.bias")
    }

    /// Adds the attention and its output product, and returns the output. If `added` is true, the
    /// product adds its own bias. Otherwise the bias stays pending.
    fn attended(
        &self,
        network: &mut Network,
        rows: &Rows,
        of: SelfAttention,
        dropout: f64,
        added: bool,
    ) -> ValueId {
        let ModelLayer { width, bias, .. } = *self.layer;
        let threefold = network.linear((self.at, "qkv."), rows, 3 * width, dropout, bias);
        let attributes = vec![whole("heads", of.heads), flag("causal", of.causal)];
        let attended = network.of_values(SELF_ATTENTION, (self.at, ""), (vec![threefold], width), attributes);
        network.linear((self.at, "output."), &Rows::plain(attended), width, 0.0, added && bias)
    }

    /// Adds a transformer block: `y = x + drop(attention(norm(x)))`, then `y + drop(W2 act(W1
    /// norm(y) + b1) + b2)`.
    pub(super) fn transformer(&self, network: &mut Network, rows: &Rows, of: Transformer) -> Rows {
        let ModelLayer { width, bias, .. } = *self.layer;
        let input = network.for_edges(rows, self.at, 0.0);
        let before = self.normalised(network, "norm.0.", input, of.before);
        let attended = self.attended(network, &Rows::plain(before), of.attention, 0.0, true);
        let attended = self.dropped_apart(network, attended, 1);
        let middle = network.sum(self.at, vec![input, attended], (1.0, 1.0), false);
        let before = self.normalised(network, "norm.1.", middle, of.before);
        let inner = network.linear((self.at, "mlp.0."), &Rows::plain(before), of.hidden, 0.0, false);
        let mut inner = Rows { activation: of.between, ..self.with_bias(inner, "mlp.0.bias") };
        if of.between.stands_alone() {
            inner = network.plain(inner);
        }
        let outer = network.linear((self.at, "mlp.1."), &inner, width, 0.0, bias);
        let outer = self.dropped_apart(network, outer, 2);
        Rows::plain(network.sum(self.at, vec![middle, outer], (1.0, 1.0), false))
    }

    fn normalised(&self, network: &mut Network, role: &str, value: ValueId, by: Norm) -> ValueId {
        let attributes = vec![word("by", by.name()), flag("input-bias", false)];
        let width = network.width(value);
        network.of_values(NORMALISE, (self.at, role), (vec![value], width), attributes)
    }

    /// Applies dropout to a value within the layer. `apart` is the number of its position in the
    /// layer, so that each position has its own random numbers.
    fn dropped_apart(&self, network: &mut Network, value: ValueId, apart: u32) -> ValueId {
        let dropout = self.layer.dropout;
        if dropout == 0.0 {
            return value;
        }
        network.activated_with(&Rows::plain(value), self.at, dropout, |of| of.draw |= apart << 16)
    }

    /// Adds a convolution. Its kernel also applies the activation to its output, so no additional
    /// rows are stored. If a norm that centres rows follows, the convolution has no bias, because
    /// the norm would remove it.
    pub(super) fn convolve(
        &self,
        network: &mut Network,
        rows: &Rows,
        of: &Conv2d,
        activation: Activation,
    ) -> Rows {
        let ModelLayer { width, dropout, bias, norm, .. } = *self.layer;
        let attributes = vec![
            whole("height", of.image.0),
            whole("width", of.image.1),
            whole("channels", of.channels),
            whole("kernel", of.size),
            whole("stride", of.stride),
            whole("padding", of.padding),
            whole("dilation", of.dilation),
            flag("bias", bias && !norm.centres()),
            word("activation", activation.name()),
        ];
        let input = vec![network.dropped(rows, self.at, dropout)];
        let mut of = Kernel::new(CONV2D, (self.at, ""), attributes);
        self.tie(&mut of);
        Rows::plain(network.add(self.at, input, width, of))
    }

    pub(super) fn pool(&self, network: &mut Network, rows: &Rows, of: &Pool2d) -> Rows {
        let attributes = vec![
            whole("height", of.image.0),
            whole("width", of.image.1),
            whole("window", of.window),
            whole("stride", of.stride),
            word("by", of.by.name()),
        ];
        let input = (vec![network.dropped(rows, self.at, self.layer.dropout)], self.layer.width);
        Rows::plain(network.of_values(POOL2D, (self.at, ""), input, attributes))
    }

    /// Adds a node that concatenates, multiplies or adds several inputs, as `kernel` names it. The
    /// features are copied first, because they may be sparse.
    pub(super) fn joined(&self, network: &mut Network, inputs: &[Rows], kernel: &str) -> Rows {
        let width = self.layer.width;
        let values: Vec<ValueId> =
            (0u32..).zip(inputs).map(|(from, rows)| self.dense(network, rows, from)).collect();
        Rows::plain(match kernel {
            CONCAT | PRODUCT => network.of_values(kernel, (self.at, ""), (values, width), Vec::new()),
            _ => network.sum(self.at, values, (1.0, 1.0), false),
        })
    }

    /// Returns input number `from` of a layer with several inputs as a dense value, with its own
    /// dropout. The features are copied, because they may be sparse.
    pub(super) fn dense(&self, network: &mut Network, rows: &Rows, from: u32) -> ValueId {
        match self.layer.dropout {
            0.0 => network.for_edges(rows, self.at, 0.0),
            dropout => network.activated_with(rows, self.at, dropout, |of| of.draw |= from << 16),
        }
    }

    pub(super) fn slice(&self, network: &mut Network, rows: &Rows, of: Slice) -> Rows {
        let attributes = vec![whole("start", of.start), whole("count", of.count)];
        let input = (vec![network.for_edges(rows, self.at, self.layer.dropout)], of.count);
        Rows::plain(network.of_values(SLICE, (self.at, ""), input, attributes))
    }
}

//! Operations of each layer kind of a model.

use super::{ATTENTION, Bias, CONCAT, GATV2, MAXIMUM, NORMALISE, Network, PRODUCT, Rows, SUM, ValueId};
use crate::op::attention;
use crate::op::kernel::Kernel;
use crate::program::{Along, Normalisation, Over};
use crate::rewrites::Rewrites;
use eciton_recipe::model::{
    Activation, Aggregator, Attention, Jumping, LayerKind, Model, ModelLayer, Norm, Readout, Source, number,
};
use eciton_types::On;
use eciton_types::ids::Layer;
use eciton_types::signature::{Attribute, Value as Setting};

/// Adds the operations of all layers of a model to its network. The head or, in link prediction,
/// the comparison of pairs follows.
pub(super) fn build(mut network: Network, model: &Model, rewrites: Rewrites) -> Network {
    let readers = readers(model);
    let mut made: Vec<Rows> = Vec::with_capacity(model.layers.len());
    for (at, layer) in model.layers.iter().enumerate() {
        let mut inputs: Vec<Rows> = Vec::new();
        for source in model.sources(at) {
            let rows = match source {
                Source::Features => Rows::plain(ValueId::FEATURES),
                Source::Layer(place) => made[place as usize].clone(),
            };
            inputs.push(rows);
        }
        // Input of a layer with one input. For a jumping layer, it is the last input.
        let mut rows = inputs.pop().unwrap_or(Rows::plain(ValueId::FEATURES));
        if layer.residual {
            rows = network.plain(rows);
        }
        inputs.push(rows.clone());
        let input = rows.value;
        if at + 1 == model.layers.len() {
            network.embeddings = input;
        }
        let one = One {
            layer,
            at: number(at),
            gathered: at == 0 && rewrites.gathered_features,
            aggregates: rewrites.aggregates_first(at) && !model.reads_features(at),
        };
        rows = one.build(&mut network, rows, &inputs);
        if layer.residual {
            if rows.activation != Activation::Identity {
                rows = network.plain(rows);
            }
            rows.value = network.sum(one.at, vec![rows.value, input], (1.0, 1.0), false);
        }
        if readers[at] > 1 || rows.activation.stands_alone() {
            rows = network.plain(rows);
        }
        if let Some(weight) = layer.loss_weight {
            network.further_loss(model, one.at, &rows, weight);
        }
        made.push(rows);
    }
    let mut rows = made.pop().unwrap_or(Rows::plain(ValueId::FEATURES));
    if rows.activation != Activation::Identity {
        rows = network.plain(rows);
    }
    match model.links {
        true => network.pairs(model, rows),
        false => network.head(model, &rows),
    }
    network
}

/// Returns the number of readers (layers and losses) of each layer's output. If a jumping layer
/// reads all earlier layers, it counts as two readers of each. Such a layer reads rows without
/// pending bias and activation.
fn readers(model: &Model) -> Vec<usize> {
    let jumps = |layer: &ModelLayer| {
        layer.inputs.is_none() && matches!(layer.kind, LayerKind::Linear { jumping: Some(_) })
    };
    let all = if model.layers.iter().any(jumps) { 2 } else { 0 };
    let own_loss = |layer: &ModelLayer| usize::from(layer.loss_weight.is_some());
    let mut readers: Vec<usize> = model.layers.iter().map(|layer| all + own_loss(layer)).collect();
    for at in 0..model.layers.len() {
        for source in model.sources(at) {
            if let Source::Layer(place) = source {
                readers[place as usize] += 1;
            }
        }
    }
    readers
}

/// A layer whose operations are being added, with its index and the optimisations that apply to it.
pub(super) struct One<'a> {
    pub(super) layer: &'a ModelLayer,
    pub(super) at: Layer,
    /// True if the features that the layer reads have been gathered before the first epoch.
    gathered: bool,
    /// True if the layer gathers before its product.
    aggregates: bool,
}

impl One<'_> {
    fn build(&self, network: &mut Network, rows: Rows, inputs: &[Rows]) -> Rows {
        let layer = self.layer;
        let mut activation = layer.activation;
        let mut made = match &layer.kind {
            LayerKind::Gcn => self.convolution(network, &rows, 1),
            LayerKind::Sgc { hops } => self.convolution(network, &rows, *hops),
            LayerKind::Sage { aggregator } => self.sage(network, rows, *aggregator),
            LayerKind::Gin { epsilon, trained } => self.gin(network, &rows, (1.0 + epsilon, *trained)),
            LayerKind::Appnp { hops, alpha } => self.appnp(network, &rows, *hops, *alpha),
            LayerKind::Gat(attention) => self.attention(network, &rows, *attention),
            LayerKind::Gatv2(attention) => self.attention_along_edges(network, rows, *attention),
            LayerKind::Linear { jumping: None } => {
                let with = |of: &mut Kernel| self.tie(of);
                let dropout = (layer.dropout, false);
                let value = network.product((self.at, ""), &rows, layer.width, dropout, with);
                self.with_bias(value, "bias")
            }
            LayerKind::Linear { jumping: Some(jumping) } => self.jumping(network, inputs, *jumping),
            LayerKind::Readout(readout) => self.readout(network, &rows, *readout),
            LayerKind::Embedding(embedding) => self.embedding(network, rows, *embedding),
            LayerKind::SelfAttention(attention) => self.self_attention(network, &rows, *attention),
            LayerKind::Transformer(block) => self.transformer(network, &rows, *block),
            LayerKind::Conv2d(conv) => {
                // The kernel applies the activation to its output, unless a norm comes between.
                let done = layer.norm == Norm::None && !activation.stands_alone();
                let on_the_way = if done { activation } else { Activation::Identity };
                if done {
                    activation = Activation::Identity;
                }
                self.convolve(network, &rows, conv, on_the_way)
            }
            LayerKind::Pool2d(pool) => self.pool(network, &rows, pool),
            LayerKind::Concat => self.joined(network, inputs, CONCAT),
            LayerKind::Product => self.joined(network, inputs, PRODUCT),
            LayerKind::Sum => self.joined(network, inputs, SUM),
            LayerKind::Slice(slice) => self.slice(network, &rows, *slice),
            LayerKind::Normalise | LayerKind::Activate => {
                Rows::plain(network.for_edges(&rows, self.at, layer.dropout))
            }
            LayerKind::Own { kernel, on: On::Rows, attributes, .. } => {
                self.own_of_rows(network, inputs, (kernel, attributes))
            }
            LayerKind::Own { kernel, attributes, with_self, .. } => {
                self.own_along_edges(network, &rows, (kernel, attributes), *with_self)
            }
        };
        // A norm that centres rows would remove a bias together with the mean.
        if layer.norm == Norm::Batch {
            made = Rows::plain(network.batch_norm(self.at, made.value));
        }
        if layer.norm == Norm::Pair {
            made = Rows::plain(network.pair_norm(self.at, made.value));
        } else if layer.norm != Norm::None {
            let attributes = vec![
                Attribute::new("by", Setting::Text(layer.norm.name().to_owned())),
                Attribute::new("input-bias", Setting::Flag(made.bias.is_some())),
            ];
            let value = network.kernel(NORMALISE, (self.at, "norm."), &made, layer.width, attributes);
            made = Rows::plain(value);
        }
        Rows { activation, ..made }
    }

    /// Returns a value with the layer's bias (if it has one) pending. `name` is the name of the
    /// bias in the layer.
    pub(super) fn with_bias(&self, value: ValueId, name: &str) -> Rows {
        let bias = self.layer.bias.then(|| Bias { layer: self.at, name: name.to_owned() });
        Rows { bias, ..Rows::plain(value) }
    }

    /// Makes a kernel share its weight with the layer that `weights_of` names, if the setting is
    /// present.
    pub(super) fn tie(&self, of: &mut Kernel) {
        let Some(tied) = self.layer.weights_of else { return };
        of.weight_of = Some(number(tied.layer as usize));
        if tied.transposed {
            of.attributes.push(Attribute::new("transposed", Setting::Flag(true)));
        }
    }

    /// Adds gathers and a product, in the order that `aggregates` sets. `around` adds the gathers,
    /// and `product` the product. The arguments of `product` are the network, the rows, the
    /// dropout, and whether the bias was added before the gathers.
    fn either_way(
        &self,
        network: &mut Network,
        rows: &Rows,
        around: impl Fn(&mut Network, ValueId) -> ValueId,
        product: impl Fn(&mut Network, &Rows, f64, bool) -> ValueId,
    ) -> ValueId {
        if self.aggregates {
            let made = network.dropped(rows, self.at, self.layer.dropout);
            let gathered = around(network, made);
            return product(network, &Rows::plain(gathered), 0.0, rows.bias.is_some());
        }
        let value = product(network, rows, self.layer.dropout, false);
        around(network, value)
    }

    fn convolution(&self, network: &mut Network, rows: &Rows, hops: u32) -> Rows {
        let around = |network: &mut Network, mut value| {
            for _ in 0..if self.gathered { 0 } else { hops } {
                value = network.gather(Over::Neighbours, self.at, Normalisation::Symmetric, value);
            }
            value
        };
        let product = |network: &mut Network, rows: &Rows, dropout, moved| {
            let with = |of: &mut Kernel| {
                of.bias_moved = moved;
                self.tie(of);
            };
            network.product((self.at, ""), rows, self.layer.width, (dropout, false), with)
        };
        let value = self.either_way(network, rows, around, product);
        self.with_bias(value, "bias")
    }

    /// Adds a GraphSAGE layer. The product of the vertex's own rows adds the bias.
    fn sage(&self, network: &mut Network, rows: Rows, by: Aggregator) -> Rows {
        let ModelLayer { width, dropout, norm, .. } = *self.layer;
        let bias = self.layer.bias && !norm.centres();
        let (own, neighbour) = ((self.at, "self."), (self.at, "neighbour."));
        // The maximum of products is not the product of the maximum.
        let (own, neighbours) = if self.gathered {
            let own = network.linear(own, &rows, width, 0.0, bias);
            let gathered = Rows::plain(ValueId::GATHERED);
            (own, network.linear(neighbour, &gathered, width, 0.0, false))
        } else if self.aggregates || by == Aggregator::Max {
            let (made, gathered) = match by {
                Aggregator::Mean => {
                    let made = network.dropped(&rows, self.at, dropout);
                    (made, network.gather(Over::Neighbours, self.at, Normalisation::Mean, made))
                }
                Aggregator::Max => {
                    let made = network.for_edges(&rows, self.at, dropout);
                    let columns = network.width(made);
                    let ends = (made, made);
                    (made, network.edges(MAXIMUM, self.at, ends, columns, Vec::new(), Along::default()))
                }
            };
            let own = network.linear(own, &Rows::plain(made), width, 0.0, bias);
            (own, network.linear(neighbour, &Rows::plain(gathered), width, 0.0, false))
        } else {
            // Both products drop the same values, because both use the layer's random numbers.
            let rows = network.shared(rows);
            let own = network.linear(own, &rows, width, dropout, bias);
            let product = network.linear(neighbour, &rows, width, dropout, false);
            (own, network.gather(Over::Neighbours, self.at, Normalisation::Mean, product))
        };
        Rows::plain(network.sum(self.at, vec![own, neighbours], (1.0, 1.0), false))
    }

    fn gin(&self, network: &mut Network, rows: &Rows, (factor, trained): (f64, bool)) -> Rows {
        let around = |network: &mut Network, value| {
            if self.gathered {
                return value;
            }
            let sum = network.gather(Over::Neighbours, self.at, Normalisation::Sum, value);
            network.sum(self.at, vec![value, sum], (factor, 1.0), trained)
        };
        let product = |network: &mut Network, rows: &Rows, dropout, moved| {
            let with = |of: &mut Kernel| of.bias_moved = moved;
            network.product((self.at, "mlp.0."), rows, self.layer.width, (dropout, false), with)
        };
        let value = self.either_way(network, rows, around, product);
        let inner = Rows { activation: Activation::Relu, ..self.with_bias(value, "mlp.0.bias") };
        let value = network.linear((self.at, "mlp.1."), &inner, self.layer.width, 0.0, false);
        self.with_bias(value, "mlp.1.bias")
    }

    fn attention(&self, network: &mut Network, rows: &Rows, of: Attention) -> Rows {
        let attributes = vec![
            Attribute::new("heads", Setting::Integer(i64::from(of.heads))),
            Attribute::new("features", Setting::Integer(i64::from(of.features))),
            Attribute::new("input-bias", Setting::Flag(rows.bias.is_some())),
            Attribute::new("input-activation", Setting::Text(rows.activation.name().to_owned())),
            Attribute::new("dropout", Setting::Number(self.layer.dropout)),
        ];
        let value = network.kernel(ATTENTION, (self.at, ""), rows, of.input(), attributes);
        let value = network.attend(self.at, of, value);
        self.with_bias(value, "bias")
    }

    /// Adds attention by an edge kernel (GATv2). Two products of the same rows precede the edge
    /// kernel.
    fn attention_along_edges(&self, network: &mut Network, rows: Rows, of: Attention) -> Rows {
        let ModelLayer { dropout, bias, .. } = *self.layer;
        // Both products drop the same values, because both use the layer's random numbers.
        let rows = network.shared(rows);
        let source = network.linear((self.at, "source."), &rows, of.values(), dropout, bias);
        let target = network.linear((self.at, "target."), &rows, of.values(), dropout, bias);
        let attributes = attention::attributes(&of);
        let how = Along { with_self: true, features: self.layer.edge_features, over: Over::Neighbours };
        let value = network.edges(GATV2, self.at, (source, target), of.output(), attributes, how);
        self.with_bias(value, "bias")
    }

    fn appnp(&self, network: &mut Network, rows: &Rows, hops: u32, alpha: f64) -> Rows {
        let first = network.dropped(rows, self.at, self.layer.dropout);
        let mut value = first;
        for _ in 0..hops {
            value = network.gather(Over::Neighbours, self.at, Normalisation::Symmetric, value);
            if alpha > 0.0 {
                value = network.sum(self.at, vec![value, first], (1.0 - alpha, alpha), false);
            }
        }
        Rows::plain(value)
    }

    /// Adds a readout, which computes the row of each graph from those of its vertices, or the row of
    /// each labelled edge from those of its ends.
    fn readout(&self, network: &mut Network, rows: &Rows, readout: Readout) -> Rows {
        let value = network.for_edges(rows, self.at, self.layer.dropout);
        let mut gather = |over, normalisation| network.gather(over, self.at, normalisation, value);
        Rows::plain(match readout {
            Readout::Mean => gather(Over::Graphs, Normalisation::Mean),
            Readout::Sum => gather(Over::Graphs, Normalisation::Sum),
            Readout::Source => gather(Over::EdgeSources, Normalisation::Sum),
            Readout::Target => gather(Over::EdgeTargets, Normalisation::Sum),
            Readout::Ends => {
                let ends = [Over::EdgeSources, Over::EdgeTargets];
                let mut parts = ends.map(|over| gather(over, Normalisation::Sum)).to_vec();
                if let Some(rows) = network.edge_rows.filter(|_| self.layer.edge_features) {
                    let width = network.width(value);
                    parts.push(network.linear((self.at, "edge."), &Rows::plain(rows), width, 0.0, true));
                }
                network.of_values(CONCAT, (self.at, ""), (parts, self.layer.width), Vec::new())
            }
            Readout::Max => {
                let (width, along) = (self.layer.width, Along { over: Over::Graphs, ..Along::default() });
                network.edges(MAXIMUM, self.at, (value, value), width, Vec::new(), along)
            }
        })
    }

    /// Adds a user's vertex kernel. It reads rows without pending bias or activation.
    fn own_of_rows(
        &self,
        network: &mut Network,
        inputs: &[Rows],
        (kernel, attributes): (&str, &[Attribute]),
    ) -> Rows {
        let ModelLayer { width, dropout, .. } = *self.layer;
        let values = (0u32..)
            .zip(inputs)
            .map(|(from, rows)| match from {
                0 => network.dropped(rows, self.at, dropout),
                _ => self.dense(network, rows, from),
            })
            .collect();
        let of = Kernel::new(kernel, (self.at, ""), attributes.to_vec());
        let value = network.add(self.at, values, width, of);
        self.with_bias(value, "bias")
    }

    /// Adds a user's edge kernel. It reads rows without pending bias or activation.
    fn own_along_edges(
        &self,
        network: &mut Network,
        rows: &Rows,
        (kernel, attributes): (&str, &[Attribute]),
        with_self: bool,
    ) -> Rows {
        let ModelLayer { width, dropout, edge_features, .. } = *self.layer;
        let value = network.for_edges(rows, self.at, dropout);
        let how = Along { with_self, features: edge_features, over: Over::Neighbours };
        let value = network.edges(kernel, self.at, (value, value), width, attributes.to_vec(), how);
        self.with_bias(value, "bias")
    }

    /// Adds the product of a jumping layer, which reads the outputs of several layers. A product of
    /// concatenated rows is a sum of products, so the inputs are not concatenated.
    fn jumping(&self, network: &mut Network, inputs: &[Rows], jumping: Jumping) -> Rows {
        let ModelLayer { width, dropout, .. } = *self.layer;
        let value = match (jumping, inputs) {
            (Jumping::Sum, [_, _, ..]) => {
                let inputs = inputs.iter().map(|rows| network.for_edges(rows, self.at, 0.0)).collect();
                let sum = network.sum(self.at, inputs, (1.0, 1.0), false);
                network.linear((self.at, ""), &Rows::plain(sum), width, dropout, false)
            }
            _ => {
                let products: Vec<ValueId> = (0u32..)
                    .zip(inputs)
                    .map(|(from, rows)| {
                        let role = format!("from.{from}.");
                        // Each input has separate columns of the weight, and separate dropout.
                        let with = |of: &mut Kernel| of.draw |= from << 16;
                        network.product((self.at, &role), rows, width, (dropout, false), with)
                    })
                    .collect();
                match products[..] {
                    [one] => one,
                    _ => network.sum(self.at, products, (1.0, 1.0), false),
                }
            }
        };
        self.with_bias(value, "bias")
    }
}

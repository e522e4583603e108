//! Batch normalisation, up to its scale and shift, which are kernel `normalise`'s: `h = (x - m) / s` by
//! column, with m the mean and s^2 the variance over all rows, 1e-5 added (Ioffe and Szegedy 2015).
//! Backward is two steps: `[dh | dh h]` by row; then `dx = (dh - mean(dh) - h mean(dh h)) / s`.

use super::{Made, Node, Opens, Operator, find};
use crate::error::Error;
use crate::ids::{Layer, SlotId};
use crate::lower::Lowering;
use crate::network::{Network, ValueId};
use crate::program::{Cost, Over, Phase, Port, Scope, SlotOf, Stage};
use crate::signature::{Attribute, Value};

/// The operator's name.
pub const NAME: &str = "batch-norm";

/// Which rows count, as attributes say: those of all vertices, or of those that stand for graphs.
#[must_use]
pub fn over(attributes: &[Attribute]) -> Over {
    match find(attributes, "of-graphs") {
        Some(Value::Flag(true)) => Over::Graphs,
        _ => Over::Neighbours,
    }
}

/// The attribute that [`over`] reads.
pub(super) fn of_graphs(over: Over) -> Attribute {
    Attribute::new("of-graphs", Value::Flag(over == Over::Graphs))
}

#[derive(Debug)]
struct BatchNorm {
    over: Over,
}

impl Network {
    /// Rows brought to mean 0 and variance 1, by column.
    pub(crate) fn batch_norm(&mut self, layer: Layer, over: Over, input: ValueId) -> ValueId {
        self.add(layer, vec![input], self.width(input), BatchNorm { over })
    }
}

fn stage(
    to: &mut Lowering<'_>,
    node: &Node,
    made: &Made,
    (phase, word): (Phase, &str),
    written: SlotId,
) -> Stage {
    let mut stage = to.stage(made.operation, phase, format!("batch {} {word}", node.layer));
    stage.exact = true;
    stage.writes = vec![Some(written)];
    // A few operations a value of the interval's rows, and of its share of all rows' moments.
    stage.cost = Cost { flops: 6.0 * f64::from(to.width_of(written)), ..Cost::default() };
    stage
}

impl Operator for BatchNorm {
    fn opens(&self) -> Opens<'_> {
        Opens::Host { name: NAME, attributes: vec![of_graphs(self.over)] }
    }

    fn forward(&self, to: &mut Lowering<'_>, node: &Node, made: &mut Made) {
        let width = to.network.width(node.inputs[0]);
        made.outputs = vec![to.slot(vec![width], SlotOf::Activation, node.layer)];
        let mut forward = stage(to, node, made, (Phase::Forward, "forward"), made.outputs[0]);
        forward.read([made.inputs[0]], Scope::All, Port::Input);
        to.push(forward);
    }

    fn backward(
        &self,
        to: &mut Lowering<'_>,
        node: &Node,
        made: &Made,
        gradient: SlotId,
    ) -> Result<(), Error> {
        let width = to.network.width(node.inputs[0]);
        let turned = to.slot(vec![2 * width], SlotOf::Kept, node.layer);
        let mut targets = stage(to, node, made, (Phase::BackwardTargets, "turn"), turned);
        targets.read([made.outputs[0]], Scope::Own, Port::Output);
        targets.read([gradient], Scope::Own, Port::Gradient);
        to.push(targets);
        let back = to.slot(vec![width], SlotOf::Gradient, node.layer);
        let mut sources = stage(to, node, made, (Phase::BackwardSources, "backward"), back);
        sources.read([made.outputs[0]], Scope::Own, Port::Output);
        sources.read([turned], Scope::All, Port::Kept);
        to.push(sources);
        to.contribute(&node.inputs, &[Some(back)])
    }
}

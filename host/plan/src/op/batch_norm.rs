//! Batch normalisation, up to its scale and shift, which are kernel `normalise`'s: `h = (x - m) / s` by
//! column, with m the mean and s^2 the variance over all rows, 1e-5 added (Ioffe and Szegedy 2015).
//! Backward is two steps. The first writes `[dh | dh h]` side by side, row by row. The second takes the
//! means of these over all rows: `dx = (dh - mean(dh) - h mean(dh h)) / s`.

use super::{Made, Node, Opens, Operator};
use crate::error::Error;
use crate::ids::{Layer, SlotId};
use crate::lower::Lowering;
use crate::network::{Network, ValueId};
use crate::program::{Cost, Phase, Port, Scope, Stage};

/// The operator's name.
pub const NAME: &str = "batch-norm";

#[derive(Debug)]
struct BatchNorm;

impl Network {
    /// Rows brought to mean 0 and variance 1, by column.
    pub(crate) fn batch_norm(&mut self, layer: Layer, input: ValueId) -> ValueId {
        self.add(layer, vec![input], self.width(input), BatchNorm)
    }
}

fn stage(
    to: &mut Lowering<'_>,
    node: &Node,
    made: &Made,
    (phase, word): (Phase, &str),
    written: SlotId,
) -> Stage {
    let name = format!("batch {} {word}", node.layer);
    let mut stage = to.stage(made.operation, phase, name, to.domain(node));
    stage.exact = true;
    stage.writes = vec![Some(written)];
    // A few operations a value of the interval's rows, and of its share of all rows' moments.
    stage.cost = Cost { flops: 6.0 * f64::from(to.width_of(written)), ..Cost::default() };
    stage
}

impl Operator for BatchNorm {
    fn opens(&self) -> Opens<'_> {
        Opens::Host { name: NAME, attributes: Vec::new() }
    }

    fn forward(&self, to: &mut Lowering<'_>, node: &Node, made: &mut Made) {
        let width = to.network.width(node.inputs[0]);
        made.outputs = vec![to.made(node, vec![width])];
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
        let turned = to.kept(node, vec![2 * width]);
        let mut targets = stage(to, node, made, (Phase::BackwardTargets, "turn"), turned);
        targets.read([made.outputs[0]], Scope::Own, Port::Output);
        targets.read([gradient], Scope::Own, Port::Gradient);
        to.push(targets);
        let back = to.back(node, vec![width]);
        let mut sources = stage(to, node, made, (Phase::BackwardSources, "backward"), back);
        sources.read([made.outputs[0]], Scope::Own, Port::Output);
        sources.read([turned], Scope::All, Port::Kept);
        to.push(sources);
        to.contribute(&node.inputs, &[Some(back)])
    }
}

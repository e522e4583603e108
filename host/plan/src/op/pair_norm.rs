//! PairNorm (Zhao and Akoglu 2020): `y = (x - m) / r`, without parameters. m is the mean of all rows
//! by column; r^2 is the mean of |x - m|^2 over all rows, 1e-5 added.
//! Backward is two steps: `[dy | dy . y]` by row; then `dx = (dy - mean(dy) - y mean(dy . y)) / r`.

use super::{Made, Node, Opens, Operator};
use crate::error::Error;
use crate::ids::{Layer, SlotId};
use crate::lower::Lowering;
use crate::network::{Network, ValueId};
use crate::program::{Cost, Phase, Port, Scope, Stage};

/// The operator's name.
pub const NAME: &str = "pair-norm";

#[derive(Debug)]
struct PairNorm;

impl Network {
    /// Rows brought to mean 0 by column, and to a mean square length of 1.
    pub(crate) fn pair_norm(&mut self, layer: Layer, input: ValueId) -> ValueId {
        self.add(layer, vec![input], self.width(input), PairNorm)
    }
}

fn stage(
    to: &mut Lowering<'_>,
    node: &Node,
    made: &Made,
    (phase, word): (Phase, &str),
    written: SlotId,
) -> Stage {
    let name = format!("pair {} {word}", node.layer);
    let mut stage = to.stage(made.operation, phase, name, to.domain(node));
    stage.exact = true;
    stage.writes = vec![Some(written)];
    // A few operations a value: the interval's own rows, and its share of all rows' moments.
    stage.cost = Cost { flops: 6.0 * f64::from(to.width_of(written)), ..Cost::default() };
    stage
}

impl Operator for PairNorm {
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
        let turned = to.kept(node, vec![width + 1]);
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

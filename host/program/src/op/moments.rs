//! Norms by moments of all rows: the stages that they have in common, one forward and two backward.
//!
//! The first step backward writes, row by row, what means are taken of; the second reads these rows of
//! all intervals. `driver/op/moments.rs` of `eciton-train` has their work.

use super::{Made, Node, Opens, Operator};
use crate::error::Result;
use crate::lower::Lowering;
use crate::program::{Cost, Phase, Port, Scope, Stage};
use eciton_types::ids::SlotId;

/// A norm over all rows of a domain.
#[derive(Debug)]
pub(super) struct OverRows {
    /// The operator's name.
    pub(super) name: &'static str,
    /// Its word in names of stages.
    pub(super) word: &'static str,
    /// Values of a row between the two steps backward, by the width of the rows.
    pub(super) turned: fn(u32) -> u32,
}

impl OverRows {
    fn stage(
        &self,
        to: &mut Lowering<'_>,
        node: &Node,
        made: &Made,
        (phase, step): (Phase, &str),
        written: SlotId,
    ) -> Stage {
        let name = format!("{} {} {step}", self.word, node.layer);
        let mut stage = to.stage(made.operation, phase, name, to.domain(node));
        stage.exact = true;
        stage.writes = vec![Some(written)];
        // A few operations a value of the interval's rows, and of its share of all rows' moments.
        stage.cost = Cost { flops: 6.0 * f64::from(to.width_of(written)), ..Cost::default() };
        stage
    }
}

impl Operator for OverRows {
    fn opens(&self) -> Opens<'_> {
        Opens::Host { name: self.name, attributes: Vec::new() }
    }

    fn forward(&self, to: &mut Lowering<'_>, node: &Node, made: &mut Made) {
        let width = to.network.width(node.inputs[0]);
        made.outputs = vec![to.made(node, vec![width])];
        let mut forward = self.stage(to, node, made, (Phase::Forward, "forward"), made.outputs[0]);
        forward.read([made.inputs[0]], Scope::All, Port::Input);
        to.push(forward);
    }

    fn backward(&self, to: &mut Lowering<'_>, node: &Node, made: &Made, gradient: SlotId) -> Result<()> {
        let width = to.network.width(node.inputs[0]);
        let turned = to.kept(node, vec![(self.turned)(width)]);
        let mut targets = self.stage(to, node, made, (Phase::BackwardTargets, "turn"), turned);
        targets.read([made.outputs[0]], Scope::Own, Port::Output);
        targets.read([gradient], Scope::Own, Port::Gradient);
        to.push(targets);
        let back = to.back(node, vec![width]);
        let mut sources = self.stage(to, node, made, (Phase::BackwardSources, "backward"), back);
        sources.read([made.outputs[0]], Scope::Own, Port::Output);
        sources.read([turned], Scope::All, Port::Kept);
        to.push(sources);
        to.contribute(&node.inputs, &[Some(back)])
    }
}

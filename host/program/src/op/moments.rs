//! Norms over all rows of a domain, such as batch normalisation. They have two forward stages and
//! three backward stages in common.
//!
//! The first forward step computes the moments of each atom (block of consecutive rows) of its interval.
//! The second one reads the moments of all atoms, and normalises the rows of its interval. The first
//! backward step writes, row by row, the values whose means the norm needs. The second one sums them by
//! atom, and the third one reads the sums of all atoms. So steps read no rows of other intervals, and
//! hosts exchange a row per atom. The implementation is in `driver/op/moments.rs` of `eciton-train`.

use super::{Made, Node, Opens, Operator};
use crate::error::Result;
use crate::lower::Lowering;
use crate::program::{Cost, Phase, Port, Scope, Stage};
use eciton_types::ids::SlotId;

/// The operator of a norm over all rows of a domain, such as batch normalisation.
#[derive(Debug)]
pub(super) struct OverRows {
    /// Name of the operator in the program.
    pub(super) name: &'static str,
    /// Short name of the operator in the names of stages.
    pub(super) word: &'static str,
    /// Returns the number of values per row that the first backward step writes for the second,
    /// given the width of a row.
    pub(super) turned: fn(u32) -> u32,
    /// Names and initial values of running moments, which evaluations use instead of the moments of
    /// their own rows. It is empty for a norm without them.
    pub(super) running: &'static [(&'static str, f32)],
}

/// Number of f32 values in the row of an atom with the number of its rows and `values` f64 values. Each
/// f64 is the sum of two f32.
fn atom_width(values: u32) -> u32 {
    values.saturating_add(1).saturating_mul(2)
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
        let mut stage = to.stage(made.operation, phase, name, to.domain_of(written));
        stage.exact = true;
        stage.writes = vec![Some(written)];
        // A few operations per value, for the interval's rows and its share of all moments.
        stage.cost = Cost { flops: 6.0 * f64::from(to.width_of(written)), ..Cost::default() };
        stage
    }
}

impl Operator for OverRows {
    fn opens(&self) -> Opens<'_> {
        Opens::Host { name: self.name, attributes: Vec::new(), statistics: self.running }
    }

    fn forward(&self, to: &mut Lowering<'_>, node: &Node, made: &mut Made) {
        let width = to.network.width(node.inputs[0]);
        let runs = !to.training && !self.running.is_empty();
        let moments = (!runs).then(|| {
            let moments = to.of_atoms(node, atom_width(width.saturating_mul(2)));
            let mut stage = self.stage(to, node, made, (Phase::Forward, "moments"), moments);
            stage.read([made.inputs[0]], Scope::Own, Port::Input);
            to.push(stage);
            moments
        });
        made.outputs = vec![to.made(node, vec![width])];
        let mut forward = self.stage(to, node, made, (Phase::Forward, "forward"), made.outputs[0]);
        forward.read([made.inputs[0]], Scope::Own, Port::Input);
        forward.read(moments, Scope::All, Port::Stashed);
        to.push(forward);
    }

    fn backward(&self, to: &mut Lowering<'_>, node: &Node, made: &Made, gradient: SlotId) -> Result<()> {
        let width = to.network.width(node.inputs[0]);
        let turned = to.kept(node, vec![(self.turned)(width)]);
        let mut targets = self.stage(to, node, made, (Phase::BackwardTargets, "turn"), turned);
        targets.read([made.outputs[0]], Scope::Own, Port::Output);
        targets.read([gradient], Scope::Own, Port::Gradient);
        to.push(targets);
        let sums = to.of_atoms(node, atom_width((self.turned)(width)));
        let mut stage = self.stage(to, node, made, (Phase::BackwardTargets, "sums"), sums);
        stage.read([turned], Scope::Own, Port::Stashed);
        to.push(stage);
        let back = to.back(node, vec![width]);
        let mut sources = self.stage(to, node, made, (Phase::BackwardSources, "backward"), back);
        sources.read([made.outputs[0]], Scope::Own, Port::Output);
        sources.read([turned], Scope::Own, Port::Stashed);
        sources.read([sums], Scope::All, Port::Stashed);
        to.push(sources);
        to.contribute(&node.inputs, &[Some(back)])
    }
}

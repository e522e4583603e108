//! Edge kernels: kernels that compute over lists of edges.
//!
//! Backward takes two steps. The first runs by target, over in-neighbours, and yields the parameter
//! gradients. The second runs by source, over out-neighbours.
//!
//! By default the host runs these stages, because it has the rows that they read. With
//! `executor.edge_kernels = "functions"` the stages are tasks ([`crate::Program::place_edges`]). A
//! task then carries the interval's lists and, once each, the rows of other intervals that the
//! lists name.

use super::kernel::Kernel;
use super::{Made, Node, Opens, Operator};
use crate::error::Result;
use crate::lower::Lowering;
use crate::network::{Network, ValueId};
use crate::program::{Along, Cost, Phase, Port, Relation, Scope, Stage};
use eciton_types::ids::{Layer, SlotId};
use eciton_types::signature::Attribute;

/// The operator of an edge kernel, with the edges that the kernel works on.
#[derive(Debug)]
struct Edges {
    of: Kernel,
    along: Along,
}

impl Network {
    /// Adds an edge kernel that reads values without pending bias or activation, and returns its
    /// output. Source and target may be the same value.
    pub(crate) fn edges(
        &mut self,
        kernel: &str,
        layer: Layer,
        (source, target): (ValueId, ValueId),
        width: u32,
        attributes: Vec<Attribute>,
        along: Along,
    ) -> ValueId {
        let of = Kernel::new(kernel, (layer, ""), attributes);
        let of = Edges { of, along };
        self.add_over(along.over, layer, vec![source, target], (width, self.domain(target)), of)
    }
}

impl Edges {
    fn stage(&self, to: &mut Lowering<'_>, node: &Node, made: &Made, (phase, word): (Phase, &str)) -> Stage {
        let name = to.kernel_stage_name(made.operation, word);
        let reversed = phase == Phase::BackwardSources;
        let domain = if reversed { to.network.domain(node.inputs[0]) } else { to.domain(node) };
        let mut stage = to.stage(made.operation, phase, name, domain);
        stage.via = Some(to.relation(Relation { over: self.along.over, reversed, reached: false }));
        stage.exact = true;
        stage
    }

    /// Returns the slot with the rows of targets. Returns `None` if the targets are graphs. Kernel
    /// `maximum` does not read the rows of graphs, and their gradient is zero.
    fn target(&self, to: &Lowering<'_>, node: &Node, made: &Made) -> Option<SlotId> {
        let own = node.inputs.get(1).is_some_and(|&target| to.network.domain(target) == to.domain(node));
        made.inputs.get(1).copied().filter(|_| own)
    }

    /// Adds a stage and sets its cost. A forward stage costs as much as a gather of rows of twice
    /// the width. A backward stage costs as much as one of four times the width.
    fn push(&self, to: &mut Lowering<'_>, mut stage: Stage) {
        let times = if stage.phase == Phase::Forward { 2 } else { 4 };
        let width = stage.all().map(|slot| to.width_of(slot)).fold(0u32, u32::saturating_add);
        stage.cost = Cost { edge_values: width.saturating_mul(times), ..Cost::default() };
        to.push(stage);
    }
}

impl Operator for Edges {
    fn opens(&self) -> Opens<'_> {
        Opens::Kernel(&self.of, Some(self.along))
    }

    fn forward(&self, to: &mut Lowering<'_>, node: &Node, made: &mut Made) {
        let signature = to.signature(made.operation);
        let output = signature.outputs.first().map_or_else(Vec::new, |rows| rows.extents.clone());
        made.outputs = vec![to.made(node, output)];
        made.kept = signature.kept.iter().map(|rows| to.kept(node, rows.extents.clone())).collect();
        let mut forward = self.stage(to, node, made, (Phase::Forward, "forward"));
        forward.read(self.target(to, node, made), Scope::Own, Port::Input);
        forward.read([made.inputs[0]], Scope::All, Port::Input);
        forward.writes = made.outputs.iter().chain(&made.kept).copied().map(Some).collect();
        self.push(to, forward);
    }

    /// Adds the backward stages. The stage by target is added even if no target is trained. It
    /// computes the parameter gradients and the rows that the stage by source reads.
    fn backward(&self, to: &mut Lowering<'_>, node: &Node, made: &Made, gradient: SlotId) -> Result<()> {
        let signature = to.signature(made.operation);
        let passed = signature.edges.map_or_else(Vec::new, |edges| edges.passed.extents);
        let ([sources, targets], [source, _]) = (&node.inputs[..], &made.inputs[..]) else {
            return Ok(());
        };
        let target = self.target(to, node, made);
        let target_gradient = target.and_then(|_| to.wanted(*targets));
        let passed = to.kept(node, passed);
        let mut by_target = self.stage(to, node, made, (Phase::BackwardTargets, "targets"));
        by_target.read(self.target(to, node, made), Scope::Own, Port::Input);
        by_target.read(made.kept.iter().copied(), Scope::Own, Port::Stashed);
        by_target.read([gradient], Scope::Own, Port::Gradient);
        by_target.read([*source], Scope::All, Port::Input);
        by_target.writes = vec![target_gradient, Some(passed)];
        by_target.sums = to.parameters(made.operation);
        self.push(to, by_target);
        to.contribute(&[*targets], &[target_gradient])?;
        let Some(source_gradient) = to.wanted(*sources) else { return Ok(()) };
        let mut by_source = self.stage(to, node, made, (Phase::BackwardSources, "sources"));
        by_source.read([*source], Scope::Own, Port::Input);
        by_source.read([passed], Scope::All, Port::Stashed);
        by_source.writes = vec![Some(source_gradient)];
        self.push(to, by_source);
        to.contribute(&[*sources], &[Some(source_gradient)])
    }
}

//! Graph attention (GAT): weighted sums over in-neighbours, computed from the rows of kernel
//! `attention`.
//!
//! The weights of a sum follow from the rows themselves. A row has the columns `[z | s | t]`, as in
//! `eciton-graph`'s `gather::attention`, and the weights follow from s and t. Backward takes two
//! steps. The first computes, for each target, the values that its sources need. The second sums
//! over out-neighbours. Nothing of the size of all edges is stored.

use super::{Made, Node, Opens, Operator, find};
use crate::error::Result;
use crate::lower::Lowering;
use crate::network::{Network, ValueId};
use crate::program::{Cost, Over, Phase, Port, Relation, Scope, Stage};
use eciton_recipe::model::Attention;
use eciton_types::ids::{Layer, SlotId};
use eciton_types::signature::{Attribute, Value};

/// Name of the operator of graph attention.
pub const NAME: &str = "attend";

/// Returns the attention settings that an operation's attributes contain. Returns `None` if an
/// attribute is missing or has another type.
#[must_use]
pub fn settings(attributes: &[Attribute]) -> Option<Attention> {
    let count = |name: &str| match find(attributes, name)? {
        Value::Integer(count) => u32::try_from(*count).ok(),
        _ => None,
    };
    let number = |name: &str| match find(attributes, name)? {
        Value::Number(number) => Some(*number),
        _ => None,
    };
    Some(Attention {
        heads: count("heads")?,
        features: count("features")?,
        average: *find(attributes, "average")? == Value::Flag(true),
        slope: number("negative-slope")?,
        dropout: number("dropout")?,
    })
}

/// Returns the attributes that describe attention settings. Kernel `gatv2` uses the same
/// attributes.
pub(crate) fn attributes(of: &Attention) -> Vec<Attribute> {
    vec![
        Attribute::new("heads", Value::Integer(i64::from(of.heads))),
        Attribute::new("features", Value::Integer(i64::from(of.features))),
        Attribute::new("average", Value::Flag(of.average)),
        Attribute::new("negative-slope", Value::Number(of.slope)),
        Attribute::new("dropout", Value::Number(of.dropout)),
    ]
}

impl Network {
    /// Adds a graph attention over rows that kernel `attention` computed, and returns its output.
    pub(crate) fn attend(&mut self, layer: Layer, of: Attention, input: ValueId) -> ValueId {
        self.add(layer, vec![input], of.output(), of)
    }
}

fn stage(to: &mut Lowering<'_>, node: &Node, made: &Made, (phase, word): (Phase, &str)) -> Stage {
    let name = format!("{NAME} {} {word}", node.layer);
    let mut stage = to.stage(made.operation, phase, name, to.domain(node));
    stage.exact = true;
    stage
}

fn relation(to: &mut Lowering<'_>, reversed: bool) -> Option<eciton_types::ids::RelationId> {
    Some(to.relation(Relation { over: Over::Neighbours, reversed, reached: false }))
}

impl Operator for Attention {
    fn opens(&self) -> Opens<'_> {
        Opens::Host { name: NAME, attributes: attributes(self), statistics: &[] }
    }

    fn forward(&self, to: &mut Lowering<'_>, node: &Node, made: &mut Made) {
        made.outputs = vec![to.made(node, vec![self.output()])];
        if to.training {
            made.kept = vec![to.kept(node, vec![self.kept()])];
        }
        let mut forward = stage(to, node, made, (Phase::Forward, "forward"));
        forward.via = relation(to, false);
        forward.read([made.inputs[0]], Scope::All, Port::Input);
        forward.writes = made.outputs.iter().chain(&made.kept).copied().map(Some).collect();
        // Each value is summed twice, and scores are computed.
        forward.cost = Cost { edge_values: 2 * self.input(), ..Cost::default() };
        to.push(forward);
    }

    fn backward(&self, to: &mut Lowering<'_>, node: &Node, made: &Made, gradient: SlotId) -> Result<()> {
        let turned = to.kept(node, vec![self.turned()]);
        let mut targets = stage(to, node, made, (Phase::BackwardTargets, "turn"));
        targets.read([made.inputs[0]], Scope::Own, Port::Input);
        targets.read([made.outputs[0]], Scope::Own, Port::Output);
        targets.read(made.kept.iter().copied(), Scope::Own, Port::Stashed);
        targets.read([gradient], Scope::Own, Port::Gradient);
        targets.writes = vec![Some(turned)];
        targets.cost = Cost { flops: 4.0 * f64::from(self.values()), ..Cost::default() };
        to.push(targets);
        let back = to.back(node, vec![self.input()]);
        let mut sources = stage(to, node, made, (Phase::BackwardSources, "backward"));
        sources.via = relation(to, true);
        sources.read([turned], Scope::All, Port::Stashed);
        sources.read([made.inputs[0]], Scope::Own, Port::Input);
        sources.writes = vec![Some(back)];
        sources.cost = Cost { edge_values: 2 * self.turned(), ..Cost::default() };
        to.push(sources);
        to.contribute(&node.inputs, &[Some(back)])
    }
}

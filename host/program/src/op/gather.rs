//! Gather: computes `output[v] = sum over u of n(u, v) input[u]`, over the rows u that a relation
//! lists for v.
//!
//! Some normalisations include v itself. Backward is the same sum over the reversed relation.

use super::{Made, Node, Opens, Operator, find};
use crate::error::Result;
use crate::lower::Lowering;
use crate::network::{Network, ValueId};
use crate::program::{Cost, Normalisation, Over, Phase, Port, Relation, Scope};
use eciton_types::ids::{Layer, SlotId};
use eciton_types::signature::{Attribute, Value};

/// Name of the gather operator.
pub const NAME: &str = "gather";
/// Name of the attribute with the normalisation, which sets the weights n(u, v).
const NORMALISATION: &str = "normalisation";

/// Returns the normalisation in the attributes of a gather, or `None` if it is missing or unknown.
#[must_use]
pub fn normalisation(attributes: &[Attribute]) -> Option<Normalisation> {
    match find(attributes, NORMALISATION)? {
        Value::Text(name) => Normalisation::named(name),
        _ => None,
    }
}

#[derive(Debug)]
struct Gather {
    normalisation: Normalisation,
    over: Over,
}

impl Network {
    /// Adds a gather of all columns of a value over lists of the kind `over`, and returns its
    /// output.
    pub(crate) fn gather(
        &mut self,
        over: Over,
        layer: Layer,
        normalisation: Normalisation,
        input: ValueId,
    ) -> ValueId {
        let of = (self.width(input), self.domain(input));
        self.add_over(over, layer, vec![input], of, Gather { normalisation, over })
    }
}

impl Gather {
    fn stage(&self, to: &mut Lowering<'_>, node: &Node, made: &Made, (from, into): (SlotId, SlotId)) {
        let reversed = into != made.outputs[0];
        let what = match self.over {
            Over::Neighbours => NAME,
            Over::Graphs => "readout",
            Over::EdgeSources => "readout sources",
            Over::EdgeTargets => "readout targets",
        };
        let phase = if reversed { Phase::Backward } else { Phase::Forward };
        let name = format!("{what} {}{}", node.layer, if reversed { " transposed" } else { "" });
        let domain = to.domain_of(into);
        let mut stage = to.stage(made.operation, phase, name, domain);
        stage.via = Some(to.relation(Relation { over: self.over, reversed, reached: false }));
        stage.read([from], Scope::All, if reversed { Port::Gradient } else { Port::Input });
        stage.writes = vec![Some(into)];
        stage.cost = Cost { edge_values: to.width_of(into), ..Cost::default() };
        to.push(stage);
    }
}

impl Operator for Gather {
    fn opens(&self) -> Opens<'_> {
        let normalisation = Value::Text(self.normalisation.name().to_owned());
        let attributes = vec![Attribute::new(NORMALISATION, normalisation)];
        Opens::Host { name: NAME, attributes, statistics: &[] }
    }

    fn forward(&self, to: &mut Lowering<'_>, node: &Node, made: &mut Made) {
        let width = to.network.width(node.inputs[0]);
        made.outputs = vec![to.made(node, vec![width])];
        self.stage(to, node, made, (made.inputs[0], made.outputs[0]));
    }

    fn backward(&self, to: &mut Lowering<'_>, node: &Node, made: &Made, gradient: SlotId) -> Result<()> {
        let width = to.network.width(node.inputs[0]);
        let back = to.back(node, vec![width]);
        self.stage(to, node, made, (gradient, back));
        to.contribute(&node.inputs, &[Some(back)])
    }
}

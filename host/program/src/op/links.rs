//! Loss of link prediction and its gradient: binary cross-entropy of inner products.
//!
//! The pairs are the linked vertices and an equal number of random pairs without a link, which the
//! run draws. The operator ends a network in place of the head. One stage computes loss and
//! gradient in one pass by row, over the links and negatives of a vertex. Each pair is in the lists
//! of both its ends, so the gradient of a row needs no other row's gradient. Like a gather, the
//! stage reads rows of all intervals, and writes rows of its own interval.

use super::{Made, Node, Opens, Operator};
use crate::error::Result;
use crate::lower::Lowering;
use crate::network::{Network, ValueId};
use crate::program::{Cost, Phase, Port, Scope};
use eciton_types::ids::{Layer, SlotId};

/// Name of the operator of the link prediction loss.
pub const NAME: &str = "links";

#[derive(Debug)]
struct Links;

impl Network {
    /// Adds the loss of link prediction, which compares pairs of rows, as the last node of the
    /// network.
    pub(crate) fn links(&mut self, layer: Layer, input: ValueId) {
        self.end(layer, vec![input], Links);
    }
}

impl Operator for Links {
    fn opens(&self) -> Opens<'_> {
        Opens::Host { name: NAME, attributes: Vec::new(), statistics: &[] }
    }

    /// Adds no stage, because an evaluation program ends with the rows of the last layer.
    fn forward(&self, _: &mut Lowering<'_>, _: &Node, _: &mut Made) {}

    fn backward(&self, _: &mut Lowering<'_>, _: &Node, _: &Made, _: SlotId) -> Result<()> {
        Ok(())
    }

    fn loss(&self, to: &mut Lowering<'_>, node: &Node, made: &Made) -> Result<()> {
        let width = to.network.width(node.inputs[0]);
        let gradient = to.back(node, vec![width]);
        let name = format!("{NAME} {} loss", node.layer);
        let mut stage = to.stage(made.operation, Phase::Loss, name, to.domain(node));
        stage.read([made.inputs[0]], Scope::All, Port::Input);
        stage.writes = vec![Some(gradient)];
        stage.exact = true;
        // Each link costs two row reads, and two more for its pair without a link.
        stage.cost = Cost { edge_values: width.saturating_mul(4), ..Cost::default() };
        to.enter_loss(1.0);
        to.push(stage);
        to.contribute(&node.inputs, &[Some(gradient)])
    }
}

//! The loss of links and its gradient: binary cross-entropy of inner products, over linked vertices and as
//! many pairs without a link as the run draws. It ends a network in place of the head.
//!
//! One stage computes loss and gradient in one pass by row, over a vertex's links and negatives. Each pair
//! is in the lists of both its ends, so a row's gradient needs no other row's gradient. The stage reads
//! rows of all intervals, as a gather does, and writes its own.

use super::{Made, Node, Opens, Operator};
use crate::error::Result;
use crate::lower::Lowering;
use crate::network::{Network, ValueId};
use crate::program::{Cost, Phase, Port, Scope};
use eciton_types::ids::{Layer, SlotId};

/// The operator's name.
pub const NAME: &str = "links";

#[derive(Debug)]
struct Links;

impl Network {
    /// Compares pairs of rows: the last node.
    pub(crate) fn links(&mut self, layer: Layer, input: ValueId) {
        self.end(layer, vec![input], Links);
    }
}

impl Operator for Links {
    fn opens(&self) -> Opens<'_> {
        Opens::Host { name: NAME, attributes: Vec::new() }
    }

    /// An evaluation ends with the rows.
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
        // A link costs two reads of a row and two of a pair without one, where there is one for each.
        stage.cost = Cost { edge_values: width.saturating_mul(4), ..Cost::default() };
        to.enter_loss(1.0);
        to.push(stage);
        to.contribute(&node.inputs, &[Some(gradient)])
    }
}

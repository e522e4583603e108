//! Operators: the kinds of a network's nodes, one file each.
//!
//! An operator turns the slots that its node reads into stages, forward and backward, and sets
//! their cost. Lowering opens its kernel, numbers stages and slots, and adds gradients (`lower`).
//! `eciton-train` has the run side of an operator, under the same name.

pub mod attention;
pub mod batch_norm;
pub(crate) mod edges;
pub mod gather;
pub(crate) mod kernel;
pub mod links;
mod moments;
pub mod pair_norm;

use crate::error::Result;
use crate::lower::Lowering;
use crate::network::ValueId;
use crate::program::Along;
use eciton_types::ids::{Layer, OperationId, SlotId};
use eciton_types::signature::{Attribute, Value};

/// An operation of a network, with the values that it reads and makes.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) layer: Layer,
    pub(crate) inputs: Vec<ValueId>,
    /// Value that the node makes. `None` for the loss of links.
    pub(crate) output: Option<ValueId>,
    pub(crate) operator: Box<dyn Operator>,
}

/// Slots that a node's forward stage reads and writes.
#[derive(Debug, Default)]
pub(crate) struct Made {
    pub(crate) operation: OperationId,
    pub(crate) inputs: Vec<SlotId>,
    pub(crate) outputs: Vec<SlotId>,
    pub(crate) kept: Vec<SlotId>,
}

/// Kernel or host operator that runs a node.
#[derive(Debug)]
pub(crate) enum Opens<'a> {
    /// A kernel, whose signature the program asks for, with the edges of an edge kernel.
    Kernel(&'a kernel::Kernel, Option<Along>),
    /// An operator of the host, with its name and attributes.
    Host { name: &'static str, attributes: Vec<Attribute> },
}

/// One kind of operation.
pub(crate) trait Operator: std::fmt::Debug {
    /// Returns the operation that the operator adds to the program.
    fn opens(&self) -> Opens<'_>;

    /// Adds the forward stages, and stores in `made` the slots that they write.
    fn forward(&self, to: &mut Lowering<'_>, node: &Node, made: &mut Made);

    /// Adds the backward stages for the gradient of the output, and contributes the gradients of
    /// the inputs.
    ///
    /// # Errors
    /// The errors of [`Lowering::contribute`].
    fn backward(&self, to: &mut Lowering<'_>, node: &Node, made: &Made, gradient: SlotId) -> Result<()>;

    /// Adds the stage that computes the loss and the first gradients, for an operator that ends a
    /// network.
    ///
    /// # Errors
    /// The errors of [`Lowering::contribute`].
    fn loss(&self, _: &mut Lowering<'_>, _: &Node, _: &Made) -> Result<()> {
        Ok(())
    }
}

/// Returns the value of the attribute of this name.
fn find<'a>(attributes: &'a [Attribute], name: &str) -> Option<&'a Value> {
    attributes.iter().find(|attribute| attribute.name == name).map(|attribute| &attribute.value)
}

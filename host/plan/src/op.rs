//! Operators: what a network's nodes do, one file each.
//!
//! An operator turns the slots that its node reads into stages, forward and backward, and says what they
//! cost. Lowering opens its kernel, numbers stages and slots and adds gradients up (`lower`). The run
//! side of an operator is in `eciton-train`, under the same name.

pub mod attention;
pub mod batch_norm;
pub(crate) mod edges;
pub mod gather;
pub(crate) mod kernel;
pub mod links;
mod moments;
pub mod pair_norm;

use crate::error::Result;
use crate::ids::{Layer, OperationId, SlotId};
use crate::lower::Lowering;
use crate::network::ValueId;
use crate::program::Along;
use crate::signature::{Attribute, Value};

/// An operation of a network, and the values that it reads and makes.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) layer: Layer,
    pub(crate) inputs: Vec<ValueId>,
    /// `None` for the loss of links, which makes no value.
    pub(crate) output: Option<ValueId>,
    pub(crate) operator: Box<dyn Operator>,
}

/// What a node's forward stage reads and writes.
#[derive(Debug, Default)]
pub(crate) struct Made {
    pub(crate) operation: OperationId,
    pub(crate) inputs: Vec<SlotId>,
    pub(crate) outputs: Vec<SlotId>,
    pub(crate) kept: Vec<SlotId>,
}

/// What does a node's work.
#[derive(Debug)]
pub(crate) enum Opens<'a> {
    /// A kernel, whose signature is asked for; an edge kernel's edges.
    Kernel(&'a kernel::Kernel, Option<Along>),
    /// An operator of the host, by its name.
    Host { name: &'static str, attributes: Vec<Attribute> },
}

/// One kind of operation.
pub(crate) trait Operator: std::fmt::Debug {
    /// What it enters into the program's list of operations.
    fn opens(&self) -> Opens<'_>;

    /// Adds its forward stages, and notes in `made` what they write.
    fn forward(&self, to: &mut Lowering<'_>, node: &Node, made: &mut Made);

    /// Adds its backward stages for the gradient of its output, and contributes the gradients of its inputs.
    ///
    /// # Errors
    /// Those of [`Lowering::contribute`].
    fn backward(&self, to: &mut Lowering<'_>, node: &Node, made: &Made, gradient: SlotId) -> Result<()>;

    /// Adds the stage that computes the loss and the first gradients, for an operator that ends a network.
    ///
    /// # Errors
    /// Those of [`Lowering::contribute`].
    fn loss(&self, _: &mut Lowering<'_>, _: &Node, _: &Made) -> Result<()> {
        Ok(())
    }
}

/// An attribute of a name.
fn find<'a>(attributes: &'a [Attribute], name: &str) -> Option<&'a Value> {
    attributes.iter().find(|attribute| attribute.name == name).map(|attribute| &attribute.value)
}

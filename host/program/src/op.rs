//! Operators: the kinds of a network's nodes, one file each.
//!
//! An operator turns the slots (row buffers) that its node reads into stages, forward and backward,
//! and sets their cost. Lowering (module `lower`) opens the operator's kernel, numbers stages and
//! slots, and adds gradients. The crate `eciton-train` runs each operator, in a file of the same
//! name.

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

/// A node of a network, which is an operation with the values that it reads and computes.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) layer: Layer,
    pub(crate) inputs: Vec<ValueId>,
    /// The value that the node computes, or `None` for a node that has only a loss.
    pub(crate) output: Option<ValueId>,
    pub(crate) operator: Box<dyn Operator>,
}

/// Slots (row buffers) that the forward stage of a node reads and writes.
#[derive(Debug, Default)]
pub(crate) struct Made {
    pub(crate) operation: OperationId,
    pub(crate) inputs: Vec<SlotId>,
    pub(crate) outputs: Vec<SlotId>,
    pub(crate) kept: Vec<SlotId>,
}

/// The implementation of a node's operation, which is a kernel or an operator of the host.
#[derive(Debug)]
pub(crate) enum Opens<'a> {
    /// A kernel. The edges are present if it is an edge kernel.
    Kernel(&'a kernel::Kernel, Option<Along>),
    /// An operator of the host. Each of its parameters has a name in the layer and an initial value,
    /// and is a statistic with one value per column of the operator's input.
    Host { name: &'static str, attributes: Vec<Attribute>, statistics: &'static [(&'static str, f32)] },
}

/// The lowering of one kind of node, which turns such nodes into stages.
pub(crate) trait Operator: std::fmt::Debug {
    /// Returns the kernel or host operator that implements the operation.
    fn opens(&self) -> Opens<'_>;

    /// Adds the forward stages of a node. Stores the slots that these stages write in `made`.
    fn forward(&self, to: &mut Lowering<'_>, node: &Node, made: &mut Made);

    /// Adds the backward stages of a node, which compute the gradients of its inputs. `gradient` is
    /// the slot with the gradient of its output.
    ///
    /// # Errors
    /// Returns the errors of [`Lowering::contribute`].
    fn backward(&self, to: &mut Lowering<'_>, node: &Node, made: &Made, gradient: SlotId) -> Result<()>;

    /// Adds the stage that computes a loss and its first gradients. Only operators without an
    /// output have such a stage, and the default adds none.
    ///
    /// # Errors
    /// Returns the errors of [`Lowering::contribute`].
    fn loss(&self, _: &mut Lowering<'_>, _: &Node, _: &Made) -> Result<()> {
        Ok(())
    }
}

/// Returns the value of the attribute with this name, or `None` if it is absent.
fn find<'a>(attributes: &'a [Attribute], name: &str) -> Option<&'a Value> {
    attributes.iter().find(|attribute| attribute.name == name).map(|attribute| &attribute.value)
}

//! Operators on the host, which create the work of a step. There is one file per operator.
//!
//! The stages of the same operators are in `eciton_program::op`, under the same names. A new
//! operator needs a file there, a file here, its arithmetic, and a line in [`HOST`].

mod attention;
mod edges;
mod gather;
mod kernel;
mod links;
mod moments;
mod norms;

use std::sync::Arc;

use eciton_kernel::Layer;
use eciton_program::{Operation, Program, op};

use super::operator::{Operator, unknown};
use super::rows::RowStore;
use super::stages::Stages;
use crate::data::Inputs;
use crate::error::Result;

type Open = fn(&Operation) -> Result<Box<dyn Operator>>;

/// The operators that run on the host without a kernel. Each has its name and the function that
/// opens it.
const HOST: [(&str, Open); 5] = [
    (op::gather::NAME, gather::open),
    (op::attention::NAME, attention::open),
    (op::batch_norm::NAME, norms::batch_norm),
    (op::links::NAME, links::open),
    (op::pair_norm::NAME, norms::pair_norm),
];

/// Opens the operations of a program, and creates its stages. `layers` has the kernel of each
/// operation, or `None` for an operator of [`HOST`]. If `trains_with` is a seed, the stages train
/// with it. Otherwise they evaluate.
pub(crate) fn open_stages<'a>(
    program: &'a Program,
    inputs: &'a Inputs,
    rows: &'a RowStore,
    layers: &'a [Option<Arc<Layer>>],
    trains_with: Option<u64>,
) -> Result<Stages<'a>> {
    Ok(Stages::new(program, inputs, rows, layers, open(program, layers)?, trains_with))
}

/// Opens the operator of each operation. `layers` has the kernel of each operation, or `None` for
/// an operator of [`HOST`].
fn open(program: &Program, layers: &[Option<Arc<Layer>>]) -> Result<Vec<Box<dyn Operator>>> {
    let mut opened: Vec<Box<dyn Operator>> = Vec::with_capacity(program.operations.len());
    for (operation, layer) in program.operations.iter().zip(layers) {
        opened.push(match (layer, operation.along) {
            (Some(_), Some(along)) => edges::open(operation, along),
            (Some(_), None) => Box::new(kernel::Kernel),
            (None, _) => {
                let known = HOST.iter().find(|(name, _)| *name == operation.kernel);
                let (_, open) = known.ok_or_else(|| unknown(operation))?;
                open(operation)?
            }
        });
    }
    Ok(opened)
}

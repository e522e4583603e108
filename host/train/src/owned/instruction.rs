//! Instructions of the host to a worker that owns weights, and the replies, as frames.
//!
//! The metadata of a frame is an [`Instruction`] or a [`Reply`] in JSON. A frame may also contain a
//! matrix of one parameter: values, first moments, or second moments if the optimiser has these.

use eciton_recipe::Algorithm;
use eciton_tensor::frame::{Decoded, Encoding, Frame, Writer};
use eciton_tensor::{Buffer, Matrix};
use eciton_types::{Location, Node, TensorKey};
use serde::{Deserialize, Serialize};

/// Instruction of the host about the gradient sums and parameters that a worker owns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "instruction", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum Instruction {
    /// Removes all gradient sums, and begins with empty ones. The reply lists the parameters that
    /// the worker has.
    Begin {
        /// Number of leaves of the summation tree.
        atoms: u32,
        /// Tree nodes of each interval, as pairs of level and index.
        nodes: Vec<Vec<(u8, u32)>>,
        /// Tree nodes whose sums the replicas of the pipeline compute, left to right, as pairs of
        /// level and index.
        tops: Vec<(u8, u32)>,
        /// True if rounds read the values from before the newest update.
        delayed: bool,
        /// Maximum number of rounds (optimiser steps) in flight at once.
        rounds: u32,
    },
    /// Stores a matrix of a parameter, which the frame contains. The host sends the values first,
    /// then the optimiser moments in their order. If rounds read the values from before the newest
    /// update, the host sends these before all others, with their version.
    Own {
        /// Key of the matrix: values of a parameter, or an optimiser moment.
        key: TensorKey,
        /// Extents of one row of the parameter.
        extents: Vec<u32>,
        /// Numbers of the uses that read the parameter. The first one is the number of the
        /// parameter.
        uses: Vec<u32>,
        /// Weight decay. If `None`, updates do not change the parameter.
        decay: Option<f32>,
    },
    /// Adds gradients of 0 for intervals that have no row in a round.
    Fill {
        /// Number of the round (optimiser step).
        round: u32,
        /// Intervals without a row.
        intervals: Vec<u32>,
        /// Uses whose gradients the worker adds up, each with the rows and columns of the gradient.
        uses: Vec<(u32, usize, usize)>,
    },
    /// Adds the squares of the gradients of parameters to a running sum, to compute the gradient
    /// norm over all workers.
    Norm {
        /// Number of the round (optimiser step).
        round: u32,
        /// Sum over the parameters of earlier workers.
        sum: f64,
        /// Numbers of the parameters, in the order in which their squares are added.
        parameters: Vec<u32>,
    },
    /// Sends gradient sums to other workers that update the parameters.
    Share {
        /// Key of each sum, and the worker to which it is sent.
        to: Vec<(TensorKey, Location)>,
    },
    /// Waits for gradient sums that other workers send.
    Await {
        /// Keys of the sums.
        sums: Vec<TensorKey>,
    },
    /// Removes all parameters except the listed ones.
    Stay {
        /// Numbers of the listed parameters.
        parameters: Vec<u32>,
    },
    /// Takes one optimiser step of the listed parameters.
    Update {
        /// Round whose gradients the update uses.
        round: u32,
        /// Version after the update, which is also the number of the update, counted from 1.
        version: u64,
        /// Algorithm of the optimiser, with its constants.
        algorithm: Algorithm,
        /// Learning rate of the update.
        rate: f64,
        /// Factor by which gradients are multiplied. `None` if their norm is not clipped.
        factor: Option<f32>,
        /// Maximum absolute value of a gradient's elements. `None` without a limit.
        most: Option<f32>,
        /// Numbers of the listed parameters.
        parameters: Vec<u32>,
        /// Numbers of the parameters that other workers update as well. The reply contains the
        /// digests of these, so that the host can compare them.
        compared: Vec<u32>,
    },
    /// Requests a matrix: values of a parameter, an optimiser moment, or a gradient sum for a
    /// parameter that another process owns.
    Give {
        /// Key of the matrix.
        key: TensorKey,
    },
}

/// Reply of a worker to an instruction of the host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum Reply {
    /// The worker has carried out the instruction.
    Done,
    /// The worker has updated the parameters.
    Updated {
        /// CRC-32 of values and optimiser moments, for each parameter that is compared.
        digests: Vec<u32>,
    },
    /// The worker lists the parameters that it has.
    Owned {
        /// Number of each parameter, version of its newest values, and number of its matrices.
        parameters: Vec<(u32, u64, usize)>,
    },
    /// The worker has ended an update early, because the gradient of a parameter is not finite.
    Refused {
        /// Number of this parameter.
        parameter: u32,
    },
    /// The worker returns a sum of squares.
    Norm {
        /// Running sum, including the gradients of this worker.
        sum: f64,
    },
    /// The worker has not carried out the instruction, because a sum from another worker has not
    /// arrived.
    Late,
    /// The worker could not carry out the instruction.
    Failed {
        /// Reason of the failure.
        reason: String,
    },
}

/// Encodes an instruction or a reply, with matrices, as a frame.
pub(super) fn write(meta: &impl Serialize, matrices: &[Matrix]) -> Result<Vec<u8>, String> {
    let mut writer = Writer::new(serde_json::to_vec(meta).map_err(|e| e.to_string())?);
    for matrix in matrices {
        writer.matrix(matrix, Encoding::F32).map_err(|e| e.to_string())?;
    }
    writer.finish().map_err(|e| e.to_string())
}

/// Decodes the instruction or reply of a frame.
pub(super) fn meta<'a, T: Deserialize<'a>>(frame: &'a Frame<'_>) -> Result<T, String> {
    serde_json::from_slice(&frame.header().meta).map_err(|e| e.to_string())
}

/// Decodes the matrices of a frame.
pub(super) fn matrices(frame: &Frame<'_>) -> Result<Vec<Matrix>, String> {
    let count = u32::try_from(frame.header().parts.len()).unwrap_or(u32::MAX);
    let part = |at| match frame.part(at).map_err(|e| e.to_string())? {
        Decoded::Matrix(matrix) => Ok(matrix),
        Decoded::Ids(_) => Err(format!("part {at} is a list")),
    };
    (0..count).map(part).collect()
}

/// Returns the values of a matrix, row-major without padding.
pub(super) fn values(matrix: &Matrix) -> Result<Vec<f32>, String> {
    let mut values = Vec::with_capacity(matrix.rows() * matrix.columns());
    matrix.read_rows(0, matrix.rows(), None, &mut values).map_err(|e| e.to_string())?;
    Ok(values)
}

/// Copies a matrix into a new buffer, which can be written.
pub(super) fn buffer(matrix: &Matrix) -> Result<Buffer, String> {
    Buffer::from_rows(matrix.rows(), matrix.columns(), &values(matrix)?).map_err(|e| e.to_string())
}

/// Creates a matrix of `rows` x `columns` values, which are row-major.
pub(super) fn matrix((rows, columns): (usize, usize), values: &[f32]) -> Result<Matrix, String> {
    let buffer = Buffer::from_rows(rows, columns, values).map_err(|e| e.to_string())?;
    Ok(buffer.read(0..rows).map_err(|e| e.to_string())?.into())
}

/// Encodes tree nodes as pairs of level and index, for a frame.
pub(super) fn pairs(nodes: &[Node]) -> Vec<(u8, u32)> {
    nodes.iter().map(|node| (node.level, node.index)).collect()
}

/// Decodes tree nodes from pairs of level and index.
pub(super) fn nodes(pairs: Vec<(u8, u32)>) -> Vec<Node> {
    pairs.into_iter().map(|(level, index)| Node { level, index }).collect()
}

//! Instructions of the host to a worker that owns weights, and the replies, as frames.
//!
//! A frame's meta is an [`Instruction`] or a [`Reply`] in JSON. Its part is a matrix of one
//! parameter: values, first moments, or second moments if the optimiser has them.

use eciton_recipe::Algorithm;
use eciton_tensor::frame::{Decoded, Encoding, Frame, Writer};
use eciton_tensor::{Buffer, Matrix};
use eciton_types::{Location, Node, TensorKey};
use serde::{Deserialize, Serialize};

/// Instruction about the sums and parameters that a worker owns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "instruction", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum Instruction {
    /// Removes all sums. The answer lists the parameters that the worker has.
    Begin {
        /// Number of leaves of the tree of sums.
        atoms: u32,
        /// Nodes of the parts of an interval, by interval.
        nodes: Vec<Vec<(u8, u32)>>,
        /// Nodes that the worker sums, left to right.
        tops: Vec<(u8, u32)>,
        /// True if rounds read the values before the newest.
        delayed: bool,
        /// Maximum number of rounds in flight.
        rounds: u32,
    },
    /// Stores a matrix of a parameter, which is the frame's part: its values, then its moments, in
    /// their order. If rounds read the values before the newest, these come first, with their
    /// version.
    Own {
        /// The matrix: values or a moment.
        key: TensorKey,
        /// Extents of one row.
        extents: Vec<u32>,
        /// Numbers of its uses, its own first.
        uses: Vec<u32>,
        /// Weight decay. If `None`, updates do not change the parameter.
        decay: Option<f32>,
    },
    /// Adds the gradients of intervals without a row, which are zero.
    Fill {
        /// The round.
        round: u32,
        /// The intervals.
        intervals: Vec<u32>,
        /// Uses of parameters, with their rows and columns.
        uses: Vec<(u32, usize, usize)>,
    },
    /// Adds the squares of gradients to a running sum.
    Norm {
        /// The round.
        round: u32,
        /// Sum so far.
        sum: f64,
        /// Parameters, in order.
        parameters: Vec<u32>,
    },
    /// Passes sums to other workers that update the parameter.
    Share {
        /// Sums, and the workers that get them.
        to: Vec<(TensorKey, Location)>,
    },
    /// Waits for sums that other workers send.
    Await {
        /// The sums.
        sums: Vec<TensorKey>,
    },
    /// Removes all parameters except these.
    Stay {
        /// Numbers of the parameters.
        parameters: Vec<u32>,
    },
    /// Updates all parameters.
    Update {
        /// Round whose gradients the update uses.
        round: u32,
        /// Number of the update, from 1.
        version: u64,
        /// Optimiser algorithm.
        algorithm: Algorithm,
        /// The learning rate.
        rate: f64,
        /// Factor by which gradients are multiplied.
        factor: Option<f32>,
        /// Limit on the absolute value of a gradient's values.
        most: Option<f32>,
        /// Numbers of the parameters.
        parameters: Vec<u32>,
        /// Numbers of the parameters that other workers update as well, whose digests the reply
        /// has.
        compared: Vec<u32>,
    },
    /// Requests a matrix: values of a parameter, a moment, or the sum of a use whose parameter
    /// lives elsewhere.
    Give {
        /// The matrix.
        key: TensorKey,
    },
}

/// Reply to an instruction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum Reply {
    /// The instruction is done.
    Done,
    /// The parameters are updated.
    Updated {
        /// CRC-32 of the values and moments of each compared parameter.
        digests: Vec<u32>,
    },
    /// Parameters that the worker has, with the update of each.
    Owned {
        /// Number, update, and number of matrices of each parameter.
        parameters: Vec<(u32, u64, usize)>,
    },
    /// The update has ended, because values of the gradient of this parameter are not finite.
    Refused {
        /// Number of the parameter.
        parameter: u32,
    },
    /// A sum of squares.
    Norm {
        /// The sum.
        sum: f64,
    },
    /// The instruction is not done, because a sum from another worker has not arrived.
    Late,
    /// The instruction has failed.
    Failed {
        /// The reason.
        reason: String,
    },
}

/// Writes a frame of a meta and matrices.
pub(super) fn write(meta: &impl Serialize, matrices: &[Matrix]) -> Result<Vec<u8>, String> {
    let mut writer = Writer::new(serde_json::to_vec(meta).map_err(|e| e.to_string())?);
    for matrix in matrices {
        writer.matrix(matrix, Encoding::F32).map_err(|e| e.to_string())?;
    }
    writer.finish().map_err(|e| e.to_string())
}

/// Returns the meta of a frame.
pub(super) fn meta<'a, T: Deserialize<'a>>(frame: &'a Frame<'_>) -> Result<T, String> {
    serde_json::from_slice(&frame.header().meta).map_err(|e| e.to_string())
}

/// Returns the matrices of a frame.
pub(super) fn matrices(frame: &Frame<'_>) -> Result<Vec<Matrix>, String> {
    let count = u32::try_from(frame.header().parts.len()).unwrap_or(u32::MAX);
    let part = |at| match frame.part(at).map_err(|e| e.to_string())? {
        Decoded::Matrix(matrix) => Ok(matrix),
        Decoded::Ids(_) => Err(format!("part {at} is a list")),
    };
    (0..count).map(part).collect()
}

/// Returns the values of a matrix, row-major.
pub(super) fn values(matrix: &Matrix) -> Result<Vec<f32>, String> {
    let mut values = Vec::with_capacity(matrix.rows() * matrix.columns());
    matrix.read_rows(0, matrix.rows(), None, &mut values).map_err(|e| e.to_string())?;
    Ok(values)
}

/// Returns a writable copy of a matrix.
pub(super) fn buffer(matrix: &Matrix) -> Result<Buffer, String> {
    Buffer::from_rows(matrix.rows(), matrix.columns(), &values(matrix)?).map_err(|e| e.to_string())
}

/// Creates a matrix from values.
pub(super) fn matrix((rows, columns): (usize, usize), values: &[f32]) -> Result<Matrix, String> {
    let buffer = Buffer::from_rows(rows, columns, values).map_err(|e| e.to_string())?;
    Ok(buffer.read(0..rows).map_err(|e| e.to_string())?.into())
}

/// Encodes nodes for a frame.
pub(super) fn pairs(nodes: &[Node]) -> Vec<(u8, u32)> {
    nodes.iter().map(|node| (node.level, node.index)).collect()
}

/// Decodes nodes from a frame.
pub(super) fn nodes(pairs: Vec<(u8, u32)>) -> Vec<Node> {
    pairs.into_iter().map(|(level, index)| Node { level, index }).collect()
}

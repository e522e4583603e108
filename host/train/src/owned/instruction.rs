//! Instructions: what the host asks of a worker that owns weights, and what it hears, as frames.
//!
//! A frame's meta is an [`Instruction`] or a [`Reply`] in JSON; its part is a matrix of one
//! parameter: values, first moments or, where the optimiser has them, second ones.

use eciton_plan::{Algorithm, Location, Node, TensorKey};
use eciton_tensor::frame::{Decoded, Encoding, Frame, Writer};
use eciton_tensor::{Buffer, Matrix};
use serde::{Deserialize, Serialize};

/// Something to do with what a worker owns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "instruction", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum Instruction {
    /// Removes all sums. Answers with the parameters that are there.
    Begin {
        /// Leaves of the tree that sums go down.
        atoms: u32,
        /// Nodes that the parts of an interval are, by interval.
        nodes: Vec<Vec<(u8, u32)>>,
        /// Nodes that are summed here, left to right.
        tops: Vec<(u8, u32)>,
        /// True if rounds read the values before the newest.
        delayed: bool,
        /// Maximum number of rounds in flight.
        rounds: u32,
    },
    /// Has a matrix of a parameter from now on, the frame's part: its values, then its moments, in
    /// their order. If rounds read the values before the newest, these come first, with their
    /// version.
    Own {
        /// The matrix: values or a moment.
        key: TensorKey,
        /// Extents of one row.
        extents: Vec<u32>,
        /// Numbers of its uses, its own first.
        uses: Vec<u32>,
        /// Its weight decay. `None`: updates leave it as it is.
        decay: Option<f32>,
    },
    /// Takes gradients of intervals that have no row, which are zero.
    Fill {
        /// The round.
        round: u32,
        /// The intervals.
        intervals: Vec<u32>,
        /// Uses of parameters, with their rows and columns.
        uses: Vec<(u32, usize, usize)>,
    },
    /// Adds squares of gradients to a sum, as far as it is.
    Norm {
        /// The round.
        round: u32,
        /// So far.
        sum: f64,
        /// Parameters, in order.
        parameters: Vec<u32>,
    },
    /// Passes sums to other workers that update the parameter.
    Share {
        /// Sums, and the workers that get them.
        to: Vec<(TensorKey, Location)>,
    },
    /// Waits for such sums.
    Await {
        /// The sums.
        sums: Vec<TensorKey>,
    },
    /// Lets go of all parameters but these.
    Stay {
        /// Numbers.
        parameters: Vec<u32>,
    },
    /// Updates all parameters.
    Update {
        /// The round whose gradients are taken.
        round: u32,
        /// The update, from 1.
        version: u64,
        /// The rule.
        algorithm: Algorithm,
        /// The learning rate.
        rate: f64,
        /// The factor of gradients.
        factor: Option<f32>,
        /// The largest absolute value of a gradient's values.
        most: Option<f32>,
        /// Numbers.
        parameters: Vec<u32>,
        /// Numbers of those that other workers update as well, whose digests the reply has.
        compared: Vec<u32>,
    },
    /// Answers with a matrix: values of a parameter, a moment, or the sum of a use whose parameter
    /// lives elsewhere.
    Give {
        /// The matrix.
        key: TensorKey,
    },
}

/// The answer to an instruction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum Reply {
    /// It is done.
    Done,
    /// The parameters are updated.
    Updated {
        /// CRC-32 of the values and moments of each one that is compared.
        digests: Vec<u32>,
    },
    /// Parameters that are there, and the update that each is of.
    Owned {
        /// Numbers, updates, matrices.
        parameters: Vec<(u32, u64, usize)>,
    },
    /// Nothing is updated any more: values of the gradient of this parameter are not finite.
    Refused {
        /// Its number.
        parameter: u32,
    },
    /// A sum of squares.
    Norm {
        /// The sum.
        sum: f64,
    },
    /// It is not done: what another worker was to pass has not come.
    Late,
    /// It is not done.
    Failed {
        /// The reason.
        reason: String,
    },
}

/// A frame of a meta and matrices.
pub(super) fn write(meta: &impl Serialize, matrices: &[Matrix]) -> Result<Vec<u8>, String> {
    let mut writer = Writer::new(serde_json::to_vec(meta).map_err(|e| e.to_string())?);
    for matrix in matrices {
        writer.matrix(matrix, Encoding::F32).map_err(|e| e.to_string())?;
    }
    writer.finish().map_err(|e| e.to_string())
}

/// The meta of a frame.
pub(super) fn meta<'a, T: Deserialize<'a>>(frame: &'a Frame<'_>) -> Result<T, String> {
    serde_json::from_slice(&frame.header().meta).map_err(|e| e.to_string())
}

/// The matrices of a frame.
pub(super) fn matrices(frame: &Frame<'_>) -> Result<Vec<Matrix>, String> {
    let count = u32::try_from(frame.header().parts.len()).unwrap_or(u32::MAX);
    let part = |at| match frame.part(at).map_err(|e| e.to_string())? {
        Decoded::Matrix(matrix) => Ok(matrix),
        Decoded::Ids(_) => Err(format!("part {at} is a list")),
    };
    (0..count).map(part).collect()
}

/// Values of a matrix, row-major.
pub(super) fn values(matrix: &Matrix) -> Result<Vec<f32>, String> {
    let mut values = Vec::with_capacity(matrix.rows() * matrix.columns());
    matrix.read_rows(0, matrix.rows(), None, &mut values).map_err(|e| e.to_string())?;
    Ok(values)
}

/// A copy of a matrix that can be written.
pub(super) fn buffer(matrix: &Matrix) -> Result<Buffer, String> {
    Buffer::from_rows(matrix.rows(), matrix.columns(), &values(matrix)?).map_err(|e| e.to_string())
}

/// A matrix of values.
pub(super) fn matrix((rows, columns): (usize, usize), values: &[f32]) -> Result<Matrix, String> {
    let buffer = Buffer::from_rows(rows, columns, values).map_err(|e| e.to_string())?;
    Ok(buffer.read(0..rows).map_err(|e| e.to_string())?.into())
}

/// Nodes as they travel.
pub(super) fn pairs(nodes: &[Node]) -> Vec<(u8, u32)> {
    nodes.iter().map(|node| (node.level, node.index)).collect()
}

/// Nodes that travelled.
pub(super) fn nodes(pairs: Vec<(u8, u32)>) -> Vec<Node> {
    pairs.into_iter().map(|(level, index)| Node { level, index }).collect()
}

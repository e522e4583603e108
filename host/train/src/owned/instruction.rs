//! Instructions of the host to a worker about the weights and sums that the worker owns, and the
//! replies to them. Both are encoded as frames.
//!
//! The metadata of a frame is an [`Instruction`] or a [`Reply`] as JSON. The frame may also contain
//! a matrix of one parameter with its values or an optimiser moment.

use eciton_recipe::Algorithm;
use eciton_tensor::frame::{Decoded, Encoding, Frame, Writer};
use eciton_tensor::{Buffer, Matrix};
use eciton_types::{Location, Node, TensorKey};
use serde::{Deserialize, Serialize};

/// An instruction of the host about the gradient sums and parameters that a worker owns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "instruction", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum Instruction {
    /// The worker removes all gradient sums and starts new ones. The reply lists the parameters
    /// that the worker has.
    Begin {
        /// Number of leaves of the summation tree.
        atoms: u32,
        /// Tree nodes of each interval, as pairs of level and index.
        nodes: Vec<Vec<(u8, u32)>>,
        /// Tree nodes whose sums the replicas of the pipeline compute, from left to right, as pairs
        /// of level and index.
        tops: Vec<(u8, u32)>,
        /// True if rounds read the values from before the newest update.
        delayed: bool,
        /// Maximum number of rounds (optimiser steps) in flight.
        rounds: u32,
        /// Gradients of the worker's own lane, whose partial sums it adds up as they arrive. It
        /// stores all other partial sums until the host requests them. `None` if the worker adds up
        /// all partial sums as they arrive.
        own: Option<OwnLane>,
    },
    /// The worker stores a matrix of a parameter, which the frame contains. The host sends the
    /// values first, then the optimiser moments. If rounds read the values from before the newest
    /// update, these precede all others.
    Own {
        /// Key of the matrix, which is the values of a parameter or an optimiser moment.
        key: TensorKey,
        /// Extents of one row of the parameter.
        extents: Vec<u32>,
        /// Numbers of all uses of the parameter. The first one is the number of the parameter
        /// itself.
        uses: Vec<u32>,
        /// Weight decay of the parameter. If `None`, updates do not change the parameter.
        decay: Option<f32>,
    },
    /// The worker adds gradients of 0 for intervals that have no rows in a round.
    Fill {
        /// Number of the round (optimiser step).
        round: u32,
        /// Intervals without rows.
        intervals: Vec<u32>,
        /// Uses whose gradients the worker adds up, with the number of rows and columns of each
        /// gradient.
        uses: Vec<(u32, usize, usize)>,
    },
    /// The worker returns the partial sums of an interval that it has taken over from a failed
    /// worker. They remain on the worker.
    Parts {
        /// Number of the round (optimiser step).
        round: u32,
        /// Number of the use of a parameter.
        of: u32,
        /// Number of the interval.
        interval: u32,
    },
    /// The worker adds the partial sums of intervals that it has taken over to the sums of the
    /// failed worker's lane.
    Merge {
        /// Number of the round (optimiser step).
        round: u32,
        /// Use of a parameter and interval of each partial sum.
        sums: Vec<(u32, u32)>,
    },
    /// The worker adds the partial sums of an interval, which the frame contains. Another worker
    /// has computed them.
    Add {
        /// Number of the round (optimiser step).
        round: u32,
        /// Number of the use of a parameter.
        of: u32,
        /// Number of the interval.
        interval: u32,
    },
    /// The worker adds the squared gradients of some parameters to a running sum, from which the
    /// host computes the norm of all gradients.
    Norm {
        /// Number of the round (optimiser step).
        round: u32,
        /// Running sum over the parameters of all workers that were asked before.
        sum: f64,
        /// Numbers of the parameters, in the order in which they are added.
        parameters: Vec<u32>,
    },
    /// The worker sends gradient sums to other workers that update the same parameters.
    Share {
        /// Key of each sum, with the worker that receives it.
        to: Vec<(TensorKey, Location)>,
    },
    /// The worker replies as soon as other workers have sent it these gradient sums.
    Await {
        /// Keys of the sums.
        sums: Vec<TensorKey>,
    },
    /// The worker removes all parameters except the listed ones.
    Stay {
        /// Numbers of the parameters that stay.
        parameters: Vec<u32>,
    },
    /// The worker takes an optimiser step of the listed parameters.
    Update {
        /// Round whose gradients are used.
        round: u32,
        /// Version of the weights after the update, which is the number of the update, counted from
        /// 1.
        version: u64,
        /// Algorithm of the optimiser, with its hyperparameters.
        algorithm: Algorithm,
        /// Learning rate of this update.
        rate: f64,
        /// Factor that gradients are multiplied by to clip their norm. `None` if the norm is not
        /// clipped.
        factor: Option<f32>,
        /// Maximum absolute value to which each element of a gradient is clipped. `None` if
        /// elements are not clipped.
        most: Option<f32>,
        /// Numbers of the parameters to update.
        parameters: Vec<u32>,
        /// Numbers of the parameters that other workers update too. The reply contains a digest of
        /// each, so that the host can compare them.
        compared: Vec<u32>,
    },
    /// The worker returns a matrix: the values of a parameter, an optimiser moment, or a gradient
    /// sum.
    Give {
        /// Key of the requested matrix.
        key: TensorKey,
    },
}

/// Gradients that a worker's own lane computes. The lane has the number of the worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OwnLane {
    /// First interval of the lane, and one past the last.
    pub intervals: (u32, u32),
    /// Uses of parameters whose gradients the lane computes.
    pub uses: Vec<u32>,
}

impl OwnLane {
    /// Returns true if the lane computes the gradient of a use on an interval.
    pub(super) fn has(&self, of: u32, interval: u32) -> bool {
        (self.intervals.0..self.intervals.1).contains(&interval) && self.uses.contains(&of)
    }
}

/// Reply of a worker to an [`Instruction`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum Reply {
    /// The worker has carried out the instruction.
    Done,
    /// The worker has updated the parameters.
    Updated {
        /// CRC-32 over values and optimiser moments of each compared parameter.
        digests: Vec<u32>,
    },
    /// The worker lists the parameters that it stores.
    Owned {
        /// For each parameter, its number, the version of its newest values, and the number of its
        /// matrices.
        parameters: Vec<(u32, u64, usize)>,
    },
    /// The worker has stopped an update, because the gradient of a parameter is not finite.
    Refused {
        /// Number of the parameter whose gradient is not finite.
        parameter: u32,
    },
    /// The worker returns the running sum of squared gradients.
    Norm {
        /// Running sum, including the gradients of this worker.
        sum: f64,
    },
    /// The worker has not carried out the instruction, because it still lacks a sum from another
    /// worker.
    Late,
    /// The worker could not carry out the instruction.
    Failed {
        /// Reason for the failure, as text.
        reason: String,
    },
}

/// Encodes an instruction or a reply, and the matrices that belong to it, as a frame.
pub(super) fn write(meta: &impl Serialize, matrices: &[Matrix]) -> Result<Vec<u8>, String> {
    let mut writer = Writer::new(serde_json::to_vec(meta).map_err(|e| e.to_string())?);
    for matrix in matrices {
        writer.matrix(matrix, Encoding::F32).map_err(|e| e.to_string())?;
    }
    writer.finish().map_err(|e| e.to_string())
}

/// Decodes the instruction or the reply in a frame.
pub(super) fn meta<'a, T: Deserialize<'a>>(frame: &'a Frame<'_>) -> Result<T, String> {
    serde_json::from_slice(&frame.header().meta).map_err(|e| e.to_string())
}

/// Decodes all matrices in a frame.
pub(super) fn matrices(frame: &Frame<'_>) -> Result<Vec<Matrix>, String> {
    let count = u32::try_from(frame.header().parts.len()).unwrap_or(u32::MAX);
    let part = |at| match frame.part(at).map_err(|e| e.to_string())? {
        Decoded::Matrix(matrix) => Ok(matrix),
        Decoded::Ids(_) => Err(format!("expected a matrix in part {at} of the message, found a list")),
    };
    (0..count).map(part).collect()
}

/// Returns the values of a matrix, row-major and without padding.
pub(super) fn values(matrix: &Matrix) -> Result<Vec<f32>, String> {
    let mut values = Vec::with_capacity(matrix.rows() * matrix.columns());
    matrix.read_rows(0, matrix.rows(), None, &mut values).map_err(|e| e.to_string())?;
    Ok(values)
}

/// Copies a matrix to a new buffer, which can be modified.
pub(super) fn buffer(matrix: &Matrix) -> Result<Buffer, String> {
    Buffer::from_rows(matrix.rows(), matrix.columns(), &values(matrix)?).map_err(|e| e.to_string())
}

/// Creates a matrix of `rows` rows and `columns` columns from row-major values.
pub(super) fn matrix((rows, columns): (usize, usize), values: &[f32]) -> Result<Matrix, String> {
    let buffer = Buffer::from_rows(rows, columns, values).map_err(|e| e.to_string())?;
    Ok(buffer.read(0..rows).map_err(|e| e.to_string())?.into())
}

/// Converts tree nodes to pairs of level and index, as frames contain them.
pub(super) fn pairs(nodes: &[Node]) -> Vec<(u8, u32)> {
    nodes.iter().map(|node| (node.level, node.index)).collect()
}

/// Converts pairs of level and index back to tree nodes.
pub(super) fn nodes(pairs: Vec<(u8, u32)>) -> Vec<Node> {
    pairs.into_iter().map(|(level, index)| Node { level, index }).collect()
}

//! Keys of tensors that outlive the task that computed them because they are stored, cached or
//! sent.

use std::fmt::{self, Display};

use serde::{Deserialize, Serialize};

use crate::ids::{IntervalId, ParameterId, Round, SlotId, Version};

/// Identity of a tensor in stores, caches, frames and messages. Tensors with equal keys have
/// bit-identical values at all locations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum TensorKey {
    /// Rows that are constant throughout a run, such as the features of one interval.
    Inputs {
        /// Slot (row buffer) that the rows belong to.
        slot: SlotId,
        /// Interval (range of rows) that the tensor covers.
        interval: IntervalId,
    },
    /// Rows of one interval that are computed in each round, such as activations or gradients.
    Rows {
        /// Number of the pass, which is one training or evaluation run of a program. Each pass has
        /// its own number.
        pass: u32,
        /// Slot (row buffer) that the rows belong to.
        slot: SlotId,
        /// Round (optimiser step) in which the rows were computed.
        round: Round,
        /// Interval (range of rows) that the tensor covers.
        interval: IntervalId,
        /// Origin of the rows from the point of view of the worker that reads them.
        via: Via,
    },
    /// Values of a parameter.
    Weight {
        /// Parameter that the values belong to.
        parameter: ParameterId,
        /// Number of the update that wrote the values. If the host owns the weights, it is their
        /// generation, a number that changes whenever the values change.
        version: Version,
    },
    /// Optimiser moment of a parameter, for instance Adam's first moment.
    Moment {
        /// Parameter that the moment belongs to.
        parameter: ParameterId,
        /// Index of the moment among the parameter's moments, from 0.
        which: u8,
        /// Number of the update that wrote the moment.
        version: Version,
    },
    /// Sum of a parameter's gradients at one node of the round's summation tree. A parameter that
    /// several layers share has one sum for each layer that uses it.
    Sum {
        /// Identifier of the use of a parameter by one layer.
        of: ParameterId,
        /// Round (optimiser step) of the gradients.
        round: Round,
        /// Index among the tree nodes whose sums the replicas of the pipeline compute.
        node: u32,
    },
}

/// Origin of the rows that a worker reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Via {
    /// The worker computed the rows itself.
    Stay,
    /// Another worker computed and sent the rows. A task that reads them waits until they arrive.
    Peer,
    /// The host sent the rows once for several steps of the lane with this number. A lane is a
    /// worker's share of the pipeline.
    Host(u16),
}

impl TensorKey {
    /// Returns the key of one of a parameter's matrices. Matrix 0 holds the values, and matrix `n`
    /// holds optimiser moment `n - 1`.
    #[must_use]
    pub fn of_matrix(parameter: ParameterId, version: Version, matrix: usize) -> Self {
        match matrix.checked_sub(1) {
            None => Self::Weight { parameter, version },
            Some(moment) => {
                let which = u8::try_from(moment).unwrap_or(u8::MAX);
                Self::Moment { parameter, which, version }
            }
        }
    }

    /// Returns true if only workers store the tensor. If such a tensor is absent from the worker
    /// that needs it, the engine has it recomputed.
    #[must_use]
    pub const fn is_made_by_workers(&self) -> bool {
        matches!(self, Self::Rows { via: Via::Stay | Via::Peer, .. })
    }

    /// Returns true if another worker sends the tensor. A task that reads it must wait for its
    /// arrival.
    #[must_use]
    pub const fn is_awaited(&self) -> bool {
        matches!(self, Self::Rows { via: Via::Peer, .. })
    }

    /// Returns the key under which a worker stores the tensor, which is this key with round 0. Rows
    /// of a later round therefore overwrite those of an earlier round.
    #[must_use]
    pub const fn cache_key(self) -> Self {
        match self {
            Self::Rows { pass, slot, interval, via, .. } => {
                Self::Rows { pass, slot, round: Round(0), interval, via }
            }
            other => other,
        }
    }
}

impl Display for TensorKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inputs { slot, interval } => write!(f, "inputs of slot {slot}, interval {interval}"),
            Self::Rows { slot, round, interval, .. } => {
                write!(f, "rows of slot {slot}, interval {interval}, round {round}")
            }
            Self::Weight { parameter, version } => write!(f, "weight {parameter} of update {version}"),
            Self::Moment { parameter, which, version } => {
                write!(f, "moment {which} of weight {parameter}, update {version}")
            }
            Self::Sum { of, round, node } => write!(f, "sum {of} of round {round}, node {node}"),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn keys_are_equal_once_they_have_travelled() {
        let of = ParameterId(3);
        let rows =
            |via| TensorKey::Rows { pass: 1, slot: SlotId(2), round: Round(9), interval: IntervalId(4), via };
        let all = [
            TensorKey::Inputs { slot: SlotId(1), interval: IntervalId(0) },
            rows(Via::Stay),
            rows(Via::Peer),
            rows(Via::Host(7)),
            TensorKey::of_matrix(of, Version(5), 0),
            TensorKey::of_matrix(of, Version(5), 2),
            TensorKey::Sum { of, round: Round(9), node: 1 },
        ];
        for key in all {
            let text = toml::to_string(&key).unwrap();
            assert_eq!(toml::from_str::<TensorKey>(&text).unwrap(), key, "{text}");
            assert_eq!(all.iter().filter(|other| **other == key).count(), 1);
        }
        assert_eq!(all.map(|key| key.is_made_by_workers()).iter().filter(|made| **made).count(), 2);
        assert!(all[2].is_awaited() && !all[1].is_awaited());
        assert_ne!(all[1], all[1].cache_key());
        assert_eq!(all[5].to_string(), "moment 1 of weight 3, update 5");
        assert!(toml::from_str::<TensorKey>("[weight]\nparameter = 1").is_err());
    }
}

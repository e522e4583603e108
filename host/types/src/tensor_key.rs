//! Keys of tensors that are stored, cached or sent, and so outlive the task that computed them.

use std::fmt::{self, Display};

use serde::{Deserialize, Serialize};

use crate::ids::{IntervalId, ParameterId, Round, SlotId, Version};

/// Key of a tensor in stores, caches, frames and messages. Tensors with equal keys have equal bits
/// at all locations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum TensorKey {
    /// Rows of one interval that do not change between rounds, such as features.
    Inputs {
        /// The slot.
        slot: SlotId,
        /// The interval.
        interval: IntervalId,
    },
    /// Rows of one interval in one round.
    Rows {
        /// Number of the pass. Two runs of the same program have different passes.
        pass: u32,
        /// The slot.
        slot: SlotId,
        /// The round.
        round: Round,
        /// The interval.
        interval: IntervalId,
        /// The source from which the worker got them.
        via: Via,
    },
    /// Values of a parameter.
    Weight {
        /// The parameter.
        parameter: ParameterId,
        /// The update that wrote them. If the host owns the weights, their generation.
        version: Version,
    },
    /// An optimiser moment of a parameter.
    Moment {
        /// The parameter.
        parameter: ParameterId,
        /// Index of the moment, from 0.
        which: u8,
        /// The update that wrote it.
        version: Version,
    },
    /// Sum of the gradients of one use of a parameter, at one node of the round's summation tree.
    Sum {
        /// The use.
        of: ParameterId,
        /// The round.
        round: Round,
        /// Index of the node among the nodes that replicas sum.
        node: u32,
    },
}

/// Source of rows that a worker reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Via {
    /// The worker computed them itself.
    Stay,
    /// Another worker computed and sent them. A task that reads them waits until they arrive.
    Peer,
    /// The host sent them, for several steps of this lane.
    Host(u16),
}

impl TensorKey {
    /// Returns the key of a parameter's values (`matrix` 0) or of one of its moments (from 1).
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

    /// Returns whether only workers have the tensor. If a worker lacks it, the engine has it
    /// computed again.
    #[must_use]
    pub const fn is_made_by_workers(&self) -> bool {
        matches!(self, Self::Rows { via: Via::Stay | Via::Peer, .. })
    }

    /// Returns whether another worker sends the tensor, so that a task has to wait for it.
    #[must_use]
    pub const fn is_awaited(&self) -> bool {
        matches!(self, Self::Rows { via: Via::Peer, .. })
    }

    /// Returns the key with round 0. A worker's store has one entry for it: rows of a later round
    /// replace those of earlier rounds.
    #[must_use]
    pub const fn place(self) -> Self {
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
        assert_ne!(all[1], all[1].place());
        assert_eq!(all[5].to_string(), "moment 1 of weight 3, update 5");
        assert!(toml::from_str::<TensorKey>("[weight]\nparameter = 1").is_err());
    }
}

//! Addresses of tensors that outlive the task which made them.

use std::fmt::{self, Display};

use serde::{Deserialize, Serialize};

use crate::ids::{IntervalId, ParameterId, Round, SlotId, Version};

/// Address of a tensor: in stores and caches, in frames and messages. Equal keys stand for equal
/// bits wherever they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum TensorKey {
    /// Rows of one interval that are equal in all rounds: features.
    Inputs {
        /// The slot.
        slot: SlotId,
        /// The interval.
        interval: IntervalId,
    },
    /// Rows of one interval in one round.
    Rows {
        /// The pass, which no two runs of the same program share.
        pass: u32,
        /// The slot.
        slot: SlotId,
        /// The round.
        round: Round,
        /// The interval.
        interval: IntervalId,
        /// The way in which they came to where they are.
        via: Via,
    },
    /// Values of a parameter.
    Weight {
        /// The parameter.
        parameter: ParameterId,
        /// The update that made them; of weights that live on the host, their generation.
        version: Version,
    },
    /// A moment that the optimiser keeps of a parameter's gradients.
    Moment {
        /// The parameter.
        parameter: ParameterId,
        /// Index of the moment.
        which: u8,
        /// The update that made it.
        version: Version,
    },
    /// The sum of the gradients of one use of a parameter, at a node of the tree of a round.
    Sum {
        /// The use.
        of: ParameterId,
        /// The round.
        round: Round,
        /// Index of the node among those that are summed.
        node: u32,
    },
}

/// The way in which rows came to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Via {
    /// They stayed where they were made.
    Stay,
    /// The worker that made them sent them. A task that reads them waits for them.
    Peer,
    /// The host sent them for several steps of this lane.
    Host(u16),
}

impl TensorKey {
    /// The key of the values of a parameter (0) or of one of its moments (from 1).
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

    /// Returns whether a worker that lacks the tensor has the engine compute it again: no copy is
    /// at the host.
    #[must_use]
    pub const fn is_made_by_workers(&self) -> bool {
        matches!(self, Self::Rows { via: Via::Stay | Via::Peer, .. })
    }

    /// Returns whether another worker sends the tensor, so that a task waits for it.
    #[must_use]
    pub const fn is_awaited(&self) -> bool {
        matches!(self, Self::Rows { via: Via::Peer, .. })
    }

    /// The key without its round: rows of a later round take the place of earlier ones.
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

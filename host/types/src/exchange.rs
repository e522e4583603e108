//! Content of the messages between the hosts of a run.

use serde::{Deserialize, Serialize};

use crate::{Round, Step};

/// Content of a message between two hosts, which gives its body the meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Exchanged {
    /// Digests of the data, the settings, the program and the first weights of the sender, which must
    /// be those of the receiver.
    Facts,
    /// Features of rows of the sender, which stand in the lists of the receiver's rows. They are sent
    /// before the training.
    Features {
        /// Number of such rows that were sent before.
        first: u32,
    },
    /// Rows that a step has written and that steps of the receiver read. The body is empty if the
    /// receiver only waits for the end of the step.
    Rows(Step),
    /// Results of a round on all intervals of the sender. In a training, they are gradient sums and
    /// losses. In an evaluation, they are scores.
    Shared {
        /// The round that the sender has finished.
        round: Round,
        /// End of the run, if the sender has decided to end it.
        end: Option<End>,
    },
    /// Tasks and charges of the sender, as JSON. They are sent to host 0 after the training.
    Usage,
    /// A host has failed, so that the sender ends. The body is the reason as a text.
    Failed {
        /// Index of the host that has failed first.
        host: u32,
    },
}

/// End of a run, which one host decides for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct End {
    /// Last round of the run.
    pub after: Round,
    /// True if the run ends with only a checkpoint, without results.
    pub leaves: bool,
}

impl Exchanged {
    /// Returns true if the content belongs to a pass, which is one start of an engine.
    #[must_use]
    pub fn has_pass(&self) -> bool {
        !matches!(self, Self::Failed { .. })
    }

    /// Returns true if other hosts wait for the content before their next update. It is sent before
    /// all messages that may wait.
    #[must_use]
    pub fn is_urgent(&self) -> bool {
        !matches!(self, Self::Rows(_) | Self::Features { .. })
    }
}

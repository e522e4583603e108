//! How far intervals may run apart, and which versions of rows and weights a step then reads.
//!
//! Let *f* be the last epoch whose weights are there: every interval has finished it. An interval
//! may enter epoch e once e <= f + 1 + B, B being the [`Pipeline::bound`]: the slowest interval is
//! in epoch f + 1, so B is how many epochs the fastest is ahead of it (Thorpe et al. 2021, section
//! 5.2, whose S this is).
//!
//! | mode | a stage starts when | B | rows that a gather of epoch e reads |
//! | --- | --- | --- | --- |
//! | [`Mode::Sync`] | every interval has done the stage before | 0 | of e |
//! | [`Mode::Pipe`] | what it reads is there | 0, with `2bw` 1 | of e |
//! | [`Mode::Async`] | its own rows are there | S | the newest not after e: of e - 1 - S or later |
//!
//! With S = 0 nothing runs ahead into the next epoch, but a neighbour's row may still be of the
//! epoch before: only the barrier within the epoch is gone. The first epoch of a run, where no
//! older rows are, and the last [`Pipeline::synchronous_last`] ones read rows of their own epoch in
//! every mode.
//!
//! | weights | version that epoch e reads, e counted from 1 | alive at once |
//! | --- | --- | --- |
//! | [`WeightVersions::Latest`] | e - 1 | 1 |
//! | [`WeightVersions::Stash`] | the newest when the interval enters e, at least e - 1 - S; kept for its backward | S + 1 |
//! | [`WeightVersions::TwoBuffered`] | max(e - 2, 0) | 2 |
//! | [`WeightVersions::Newest`] | the newest at the start of each step; forward and backward may differ | 2 |
//!
//! The last is the rule of PipeDream-2BW (Narayanan et al. 2021, section 3.1) with an interval as
//! micro-batch, of which an epoch has as many as there are intervals:
//! `W(t+1) = W(t) - lr grad f(W(t-1))`.

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// Largest S. Every row that is gathered is kept S + 2 times.
pub const MAX_STALENESS: u32 = 62;

/// What a step waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// All intervals finish a stage before any starts the next.
    Sync,
    /// A gather waits for the rows of all intervals, nothing else does.
    #[default]
    Pipe,
    /// A gather takes rows of earlier epochs where newer ones are not there yet.
    Async,
}

impl Mode {
    /// All, with their names.
    pub const ALL: [(&'static str, Self); 3] =
        [("sync", Self::Sync), ("pipe", Self::Pipe), ("async", Self::Async)];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::Pipe => "pipe",
            Self::Async => "async",
        }
    }
}

/// Which version of the weights an epoch reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum WeightVersions {
    /// Of the epoch before.
    #[default]
    #[serde(rename = "latest")]
    Latest,
    /// The newest there is when an interval enters an epoch.
    #[serde(rename = "stash")]
    Stash,
    /// Of the epoch before the last.
    #[serde(rename = "2bw")]
    TwoBuffered,
    /// The newest there is when a step starts, so that a backward step may read others than its
    /// forward step: what a pipeline without stashing does. A bad example, for comparisons.
    #[serde(rename = "newest")]
    Newest,
}

impl WeightVersions {
    /// All, with their names.
    pub const ALL: [(&'static str, Self); 4] = [
        ("latest", Self::Latest),
        ("stash", Self::Stash),
        ("2bw", Self::TwoBuffered),
        ("newest", Self::Newest),
    ];

    /// Returns whether a round begins before the round before it is over.
    const fn overlaps(self) -> bool {
        matches!(self, Self::TwoBuffered | Self::Newest)
    }
}

/// `[pipeline]`
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pipeline {
    /// What a step waits for.
    pub mode: Mode,
    /// S, in epochs: 0 to [`MAX_STALENESS`]; above 0 in [`Mode::Async`] only.
    pub staleness: u32,
    /// Which weights an epoch reads; `None`: the stash where epochs run apart, else the latest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weights: Option<WeightVersions>,
    /// How many steps are handed out at once in [`Mode::Async`], 0 being no limit: the fewer, the
    /// newer what gathers read. With functions gathers alone count. `None`: two for each compute
    /// thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<u32>,
    /// So many of a run's last epochs read no older rows and run one by one, in [`Mode::Async`].
    pub synchronous_last: u32,
    /// Once the validation metric is this or better (above 0; a share, or an error) all epochs that
    /// no interval has entered yet are as those, in [`Mode::Async`]; `None`: whatever it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub synchronous_at: Option<f64>,
    /// True if mode and staleness are chosen by trials before the run: `staleness = "auto"`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub auto: bool,
}

impl Pipeline {
    /// Rows of earlier epochs, by at most so many that a run is ahead of its slowest interval.
    #[must_use]
    pub const fn asynchronous(staleness: u32) -> Self {
        Self {
            mode: Mode::Async,
            staleness,
            weights: None,
            in_flight: None,
            synchronous_last: 0,
            synchronous_at: None,
            auto: false,
        }
    }

    /// Returns whether all is as if there were no such section.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the settings go together.
    ///
    /// # Errors
    /// [`Error::Pipeline`] for a staleness that the mode or the weights do not allow.
    pub fn check(&self) -> Result<()> {
        let Self { mode, staleness, synchronous_last, auto, .. } = *self;
        let refuse = |found: String, allowed| Err(Error::Pipeline { found, allowed });
        if auto {
            // Trials settle what goes with what; how the run ends may be said beforehand.
            return match self.weights {
                None => Ok(()),
                Some(_) => refuse(
                    "weights said beforehand, and staleness \"auto\"".to_owned(),
                    "leave pipeline.weights out, or set pipeline.staleness to a number",
                ),
            };
        }
        if staleness > MAX_STALENESS {
            return refuse(format!("staleness {staleness}"), "pipeline.staleness must be at most 62");
        }
        if mode != Mode::Async && staleness > 0 {
            let found = format!("staleness {staleness} where no step reads older rows");
            return refuse(found, "set pipeline.mode = \"async\", or pipeline.staleness = 0");
        }
        if mode != Mode::Async && synchronous_last > 0 {
            let found = format!("synchronous_last {synchronous_last} where every epoch is");
            return refuse(found, "set pipeline.mode = \"async\", or pipeline.synchronous_last = 0");
        }
        if let Some(target) = self.synchronous_at.filter(|_| mode != Mode::Async) {
            let found = format!("synchronous_at {target} where every epoch is");
            return refuse(found, "set pipeline.mode = \"async\", or leave pipeline.synchronous_at out");
        }
        match self.weights() {
            WeightVersions::Newest if mode != Mode::Pipe => refuse(
                format!("weights newest in mode {}", mode.name()),
                "set pipeline.mode = \"pipe\", or other pipeline.weights",
            ),
            WeightVersions::Latest if staleness > 0 => refuse(
                format!("staleness {staleness} with the latest weights, for which every epoch waits"),
                "set pipeline.weights = \"stash\" or \"2bw\", or pipeline.staleness = 0",
            ),
            WeightVersions::TwoBuffered if staleness > 1 => refuse(
                format!("staleness {staleness} with two versions of the weights"),
                "set pipeline.weights = \"stash\", or pipeline.staleness = 0 or 1",
            ),
            _ => Ok(()),
        }
    }

    /// Which weights an epoch reads.
    #[must_use]
    pub fn weights(&self) -> WeightVersions {
        self.weights.unwrap_or(match self.mode {
            Mode::Async => WeightVersions::Stash,
            Mode::Sync | Mode::Pipe => WeightVersions::Latest,
        })
    }

    /// B: how many epochs an interval may be ahead of the slowest.
    #[must_use]
    pub fn bound(&self) -> u32 {
        match (self.mode, self.weights()) {
            (Mode::Sync, _) => 0,
            (Mode::Pipe, weights) => u32::from(weights.overlaps()),
            (Mode::Async, _) => self.staleness.min(MAX_STALENESS),
        }
    }

    /// How many epochs' rows are kept of what a gather reads.
    #[must_use]
    pub fn row_versions(&self) -> u32 {
        self.bound() + if self.mode == Mode::Async { 2 } else { 1 }
    }

    /// How many versions of the weights are alive at most.
    #[must_use]
    pub fn weight_versions(&self) -> u32 {
        match self.weights() {
            WeightVersions::Latest => 1,
            WeightVersions::Stash => self.bound() + 1,
            WeightVersions::TwoBuffered | WeightVersions::Newest => 2,
        }
    }

    /// How many epochs' gradients are on their way at most.
    #[must_use]
    pub fn gradient_versions(&self) -> u32 {
        self.bound() + 1
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[test]
    fn versions_follow_from_mode_and_weights() {
        let of = |mode, staleness, weights| {
            let pipeline = Pipeline { mode, staleness, weights, ..Pipeline::default() };
            pipeline.check().unwrap();
            (
                pipeline.bound(),
                pipeline.row_versions(),
                pipeline.weight_versions(),
                pipeline.gradient_versions(),
            )
        };
        use WeightVersions::{Latest, Stash, TwoBuffered};
        assert_eq!(of(Mode::Sync, 0, None), (0, 1, 1, 1));
        assert_eq!(of(Mode::Sync, 0, Some(TwoBuffered)), (0, 1, 2, 1));
        assert_eq!(of(Mode::Pipe, 0, None), (0, 1, 1, 1));
        assert_eq!(of(Mode::Pipe, 0, Some(Stash)), (0, 1, 1, 1));
        assert_eq!(of(Mode::Pipe, 0, Some(TwoBuffered)), (1, 2, 2, 2));
        assert_eq!(of(Mode::Async, 0, None), (0, 2, 1, 1));
        assert_eq!(of(Mode::Async, 0, Some(Latest)), (0, 2, 1, 1));
        assert_eq!(of(Mode::Async, 1, None), (1, 3, 2, 2));
        assert_eq!(of(Mode::Async, 1, Some(TwoBuffered)), (1, 3, 2, 2));
        assert_eq!(of(Mode::Async, 62, None), (62, 64, 63, 63));
    }

    #[test]
    fn what_does_not_go_together_is_refused_with_the_remedy() {
        let refused = |mode, staleness, weights, synchronous_last| {
            let pipeline = Pipeline { mode, staleness, weights, synchronous_last, ..Pipeline::default() };
            pipeline.check().unwrap_err().to_string()
        };
        use WeightVersions::{Latest, TwoBuffered};
        for (found, part) in [
            (refused(Mode::Async, 63, None, 0), "at most 62"),
            (refused(Mode::Pipe, 1, None, 0), "pipeline.mode = \"async\""),
            (refused(Mode::Sync, 0, None, 3), "synchronous_last 3"),
            (refused(Mode::Async, 1, Some(Latest), 0), "\"stash\" or \"2bw\""),
            (refused(Mode::Async, 2, Some(TwoBuffered), 0), "pipeline.staleness = 0 or 1"),
        ] {
            assert!(found.contains(part), "{found}");
        }
        let early = Pipeline { synchronous_at: Some(0.5), ..Pipeline::default() };
        assert!(early.check().unwrap_err().to_string().contains("synchronous_at 0.5"));
        Pipeline { mode: Mode::Async, ..early }.check().unwrap();
    }
}

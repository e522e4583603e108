//! Pipeline modes, which limit how far intervals may run ahead of each other and determine which
//! rows and weights a step reads. An interval is a range of rows that is scheduled as one unit.
//!
//! Let *f* be the last epoch that every interval has finished, so that its weights are available.
//! An interval may enter epoch e if e <= f + 1 + B, where B is the [`Pipeline::bound`]. The slowest
//! interval is in epoch f + 1, so the fastest interval is at most B epochs ahead of it. B is the
//! bound S of Thorpe et al. 2021, section 5.2.
//!
//! | mode | a stage starts when | B | rows that a gather of epoch e reads |
//! | --- | --- | --- | --- |
//! | [`Mode::Sync`] | every interval has run the previous stage | 0 | of e |
//! | [`Mode::Pipe`] | the rows that it reads are available | 0, with `2bw` 1 | of e |
//! | [`Mode::Async`] | its own rows are available | S | newest not after e: of e - 1 - S or later |
//!
//! No interval enters the next epoch early with S = 0. A gather may still read a neighbour's row
//! of the previous epoch, because there is no barrier within an epoch. In every mode, the first
//! epoch of a run reads rows of its own epoch, because no older rows exist. The last
//! [`Pipeline::synchronous_last`] epochs also read rows of their own epoch.
//!
//! | weights | version that epoch e reads, e counted from 1 | versions alive at once |
//! | --- | --- | --- |
//! | [`WeightVersions::Latest`] | e - 1 | 1 |
//! | [`WeightVersions::Stash`] | newest on entry to e, at least e - 1 - S; stashed | S + 1 |
//! | [`WeightVersions::TwoBuffered`] | max(e - 2, 0) | 2 |
//! | [`WeightVersions::Newest`] | the newest at the start of each step; forward and backward may differ | 2 |
//!
//! [`WeightVersions::TwoBuffered`] is the rule of PipeDream-2BW (Narayanan et al. 2021, section
//! 3.1). In its terms, an interval is a micro-batch, and the update is
//! `W(t+1) = W(t) - lr grad f(W(t-1))`.

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// Maximum staleness bound S, in epochs. Every gathered row is stored S + 2 times, so memory limits
/// the bound.
pub const MAX_STALENESS: u32 = 62;

/// Condition under which a step of an interval may start. An interval is a range of rows that is
/// scheduled as one unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// All intervals finish a stage before any of them starts the next.
    Sync,
    /// A gather waits for the rows of all intervals. Other stages wait only for the rows of their
    /// own interval.
    #[default]
    Pipe,
    /// A gather does not wait for other intervals. It reads their rows of earlier epochs if newer
    /// rows are not available yet.
    Async,
}

impl Mode {
    /// All pipeline modes, with their names in recipes.
    pub const ALL: [(&'static str, Self); 3] =
        [("sync", Self::Sync), ("pipe", Self::Pipe), ("async", Self::Async)];

    /// Returns the name of the pipeline mode in recipes, for instance `async`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::Pipe => "pipe",
            Self::Async => "async",
        }
    }
}

/// Rule for the version of the weights that an epoch reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum WeightVersions {
    /// The version that the previous epoch wrote.
    #[default]
    #[serde(rename = "latest")]
    Latest,
    /// The newest version when an interval enters the epoch. All steps of the interval in that
    /// epoch read this version.
    #[serde(rename = "stash")]
    Stash,
    /// The version that the epoch before the previous one wrote (double-buffered weights, as in
    /// PipeDream-2BW).
    #[serde(rename = "2bw")]
    TwoBuffered,
    /// The newest version when each step starts. A backward step may read another version than its
    /// forward step, as in a pipeline without weight stashing. This rule exists only for
    /// comparisons.
    #[serde(rename = "newest")]
    Newest,
}

impl WeightVersions {
    /// All rules for weight versions, with their names in recipes.
    pub const ALL: [(&'static str, Self); 4] = [
        ("latest", Self::Latest),
        ("stash", Self::Stash),
        ("2bw", Self::TwoBuffered),
        ("newest", Self::Newest),
    ];

    /// Returns the name of the weight version rule in recipes, for instance `stash`.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, versions)| *versions == self).map_or("", |(name, _)| name)
    }

    /// Returns true if a round (optimiser step) may begin before the previous one has ended.
    const fn overlaps(self) -> bool {
        matches!(self, Self::TwoBuffered | Self::Newest)
    }
}

/// Section `[pipeline]` of a recipe, with limits on how far intervals (ranges of rows) may run
/// ahead of each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pipeline {
    /// Condition under which a step may start.
    pub mode: Mode,
    /// Staleness bound S in epochs, from 0 to [`MAX_STALENESS`]. Only [`Mode::Async`] allows values
    /// above 0.
    pub staleness: u32,
    /// Rule for the version of the weights that an epoch reads. If `None`, it is
    /// [`WeightVersions::Stash`] in [`Mode::Async`], and [`WeightVersions::Latest`] otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weights: Option<WeightVersions>,
    /// Maximum number of steps in flight in [`Mode::Async`], or 0 for no limit. With functions,
    /// only gathers count. With a lower limit, gathers read newer rows. If `None`, it is two per
    /// compute thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<u32>,
    /// Number of epochs at the end of a [`Mode::Async`] run that are synchronous. They read no
    /// older rows and run one after another.
    pub synchronous_last: u32,
    /// Threshold of the validation metric in [`Mode::Async`], above 0. Once the metric reaches it,
    /// all epochs that no interval has entered yet are synchronous. If `None`, there is no
    /// threshold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub synchronous_at: Option<f64>,
    /// True if trials before the run choose mode and staleness. It is set by `staleness = "auto"`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub auto: bool,
}

impl Pipeline {
    /// Returns settings of [`Mode::Async`] with the staleness bound `staleness`, in epochs.
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

    /// Returns true if all settings are the defaults.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Checks that the settings are compatible with each other.
    ///
    /// # Errors
    /// Returns [`Error::Pipeline`] if two settings exclude each other, for instance a staleness
    /// that the mode or the weights do not allow.
    pub fn check(&self) -> Result<()> {
        let Self { mode, staleness, synchronous_last, auto, .. } = *self;
        let refuse = |found: String, allowed| Err(Error::Pipeline { found, allowed });
        if auto {
            // Trials choose a valid combination of mode and staleness. Settings of the run's end are
            // independent of them.
            return match self.weights {
                None => Ok(()),
                Some(_) => refuse(
                    "a value for pipeline.weights and pipeline.staleness = \"auto\"".to_owned(),
                    "remove pipeline.weights, or set pipeline.staleness to a number",
                ),
            };
        }
        if staleness > MAX_STALENESS {
            return refuse(format!("staleness {staleness}"), "set pipeline.staleness to at most 62");
        }
        if mode != Mode::Async && staleness > 0 {
            let found = format!("staleness {staleness} in a mode in which no step reads older rows");
            return refuse(found, "set pipeline.mode = \"async\", or pipeline.staleness = 0");
        }
        if mode != Mode::Async && synchronous_last > 0 {
            let found =
                format!("synchronous_last {synchronous_last} in a mode in which every epoch is synchronous");
            return refuse(found, "set pipeline.mode = \"async\", or pipeline.synchronous_last = 0");
        }
        if let Some(target) = self.synchronous_at.filter(|_| mode != Mode::Async) {
            let found = format!("synchronous_at {target} in a mode in which every epoch is synchronous");
            return refuse(found, "set pipeline.mode = \"async\", or remove pipeline.synchronous_at");
        }
        match self.weights() {
            WeightVersions::Newest if mode != Mode::Pipe => refuse(
                format!("weights newest in mode {}", mode.name()),
                "set pipeline.mode = \"pipe\", or set other pipeline.weights",
            ),
            WeightVersions::Latest if staleness > 0 => refuse(
                format!(
                    "staleness {staleness} with the latest weights, which make every epoch wait for the epoch before"
                ),
                "set pipeline.weights = \"stash\" or \"2bw\", or pipeline.staleness = 0",
            ),
            WeightVersions::TwoBuffered if staleness > 1 => refuse(
                format!("staleness {staleness} with two versions of the weights"),
                "set pipeline.weights = \"stash\", or pipeline.staleness = 0 or 1",
            ),
            _ => Ok(()),
        }
    }

    /// Returns the rule for the version of the weights that an epoch reads. If it is not set, the
    /// mode determines it.
    #[must_use]
    pub fn weights(&self) -> WeightVersions {
        self.weights.unwrap_or(match self.mode {
            Mode::Async => WeightVersions::Stash,
            Mode::Sync | Mode::Pipe => WeightVersions::Latest,
        })
    }

    /// Returns the bound B, which is the maximum number of epochs by which an interval may be ahead
    /// of the slowest interval.
    #[must_use]
    pub fn bound(&self) -> u32 {
        match (self.mode, self.weights()) {
            (Mode::Sync, _) => 0,
            (Mode::Pipe, weights) => u32::from(weights.overlaps()),
            (Mode::Async, _) => self.staleness.min(MAX_STALENESS),
        }
    }

    /// Returns the number of epochs whose rows must be stored at the same time, for each slot (row
    /// buffer) that a gather reads.
    #[must_use]
    pub fn row_versions(&self) -> u32 {
        self.bound() + if self.mode == Mode::Async { 2 } else { 1 }
    }

    /// Returns the maximum number of weight versions that exist at the same time.
    #[must_use]
    pub fn weight_versions(&self) -> u32 {
        match self.weights() {
            WeightVersions::Latest => 1,
            WeightVersions::Stash => self.bound() + 1,
            WeightVersions::TwoBuffered | WeightVersions::Newest => 2,
        }
    }

    /// Returns the maximum number of epochs whose gradients are computed at the same time.
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

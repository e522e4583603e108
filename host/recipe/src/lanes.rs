//! Lanes, which divide a pipeline among workers, the order of their steps, and the settings of
//! `[lanes]`.
//!
//! A *lane* is a worker's share of the pipeline, which runs one step at a time. A *chunk* is a
//! range of consecutive stages on a lane, and a lane may have several. A *replica* is a complete
//! pipeline of `depth` lanes. The `width` replicas share the intervals (micro-batches) of a round,
//! in consecutive ranges ([`Lanes::run`]). As far as the summation tree of the gradients allows,
//! each replica therefore has whole nodes of it.
//!
//! Lane `l` of replica `r` has the number `r * depth + l`. The gradients of all intervals are added
//! along one tree. If a round reads a single version of the weights, results therefore do not
//! depend on depth or width.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Maximum number of lanes, over all replicas.
pub const MAX_LANES: u32 = 4096;

/// Number of lanes (workers' shares of a pipeline), their chunks, and the order of their steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Lanes {
    /// Number of lanes, over all replicas. If 0, there are no lanes, and any thread may run any
    /// step.
    pub count: u32,
    /// Number of replicas of the pipeline.
    pub width: u32,
    /// Order in which a lane runs its steps.
    pub order: Order,
    /// Maximum number of intervals (micro-batches) in flight per lane. If `None`, the order of
    /// steps determines it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cap: Option<u32>,
    /// Number of chunks (ranges of stages) per lane. If `None`, the order of steps determines it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunks: Option<u32>,
}

impl Default for Lanes {
    fn default() -> Self {
        Self { count: 0, width: 1, order: Order::default(), cap: None, chunks: None }
    }
}

impl Lanes {
    /// Returns the number of chunks (ranges of stages) per lane.
    #[must_use]
    pub fn chunks(&self) -> u32 {
        self.chunks.unwrap_or_else(|| self.order.default_chunks()).max(1)
    }

    /// Returns the number of lanes of one replica.
    #[must_use]
    pub const fn depth(&self) -> u32 {
        match self.count.checked_div(self.width) {
            Some(depth) => depth,
            None => self.count,
        }
    }

    /// Returns the number of chunks of one replica, which is its number of lanes times the chunks
    /// per lane.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.depth() as usize * self.chunks() as usize
    }

    /// Returns the replica that processes `interval`. `intervals` is the number of intervals over
    /// all replicas.
    #[must_use]
    pub fn replica(&self, interval: u32, intervals: u32) -> u32 {
        let at = u64::from(interval) * u64::from(self.width) / u64::from(intervals.max(1));
        // Below the width.
        u32::try_from(at).unwrap_or(u32::MAX).min(self.width.saturating_sub(1))
    }

    /// Returns the intervals that a replica processes. `intervals` is the number of intervals over
    /// all replicas. The counts of two replicas differ by at most one.
    #[must_use]
    pub fn run(&self, replica: u32, intervals: u32) -> Range<u32> {
        let width = u64::from(self.width.max(1));
        let first = |replica: u64| (replica * u64::from(intervals)).div_ceil(width);
        // At most `intervals`.
        first(replica.into()) as u32..first(u64::from(replica) + 1) as u32
    }
}

/// Section `[lanes]` of a recipe, with the number of lanes and the division of stages among them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LaneSettings {
    /// Number of lanes, their chunks, and the order of their steps.
    #[serde(flatten)]
    pub lanes: Lanes,
    /// Index of the first layer of each chunk (range of stages) of a replica, from 0. If empty, the
    /// division gives all chunks about equal time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cut: Vec<u32>,
    /// Lanes of a replica that recompute their forward rows in backward steps. All other lanes
    /// stash these rows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub recompute: Vec<u32>,
    /// Batch sizes (rows per update) from which plans choose the fastest one. If empty, plans have
    /// the batch of the run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub batches: Vec<u32>,
    /// Path of a task profile with measured stage times, by which the stages are divided. If
    /// `None`, times are estimated from operation counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
}

impl LaneSettings {
    /// Returns true if all settings are the defaults.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Checks that the settings are compatible with each other.
    ///
    /// # Errors
    /// Returns [`Error::Together`] in these cases:
    ///
    /// * the width is not a divisor of the number of lanes;
    /// * the number of cuts differs from the number of chunks of a replica;
    /// * the order of steps or another setting excludes a setting.
    pub fn check(&self) -> Result<()> {
        let Lanes { count, width, .. } = self.lanes;
        let refuse = |key, found: String, other, other_found, remedy| {
            Err(Error::Together { key, found, other, other_found, remedy })
        };
        let counted = count.to_string();
        if count == 0 && *self != Self::default() {
            let remedy = "set the number of lanes: lanes.count, or --lanes";
            return refuse("lanes", "given".to_owned(), "lanes.count", counted, remedy);
        }
        if width == 0 || !count.is_multiple_of(width) {
            let remedy = "set lanes.width to a divisor of lanes.count, so that all replicas have the same number of lanes";
            return refuse("lanes.width", width.to_string(), "lanes.count", counted, remedy);
        }
        if let Some(profile) = self.profile.as_ref().filter(|_| !self.cut.is_empty()) {
            let remedy = "remove one of the two keys: the profile determines the cuts";
            return refuse("lanes.cut", format!("{:?}", self.cut), "lanes.profile", profile.clone(), remedy);
        }
        let (order, has_chunks) = (self.lanes.order, self.lanes.order.default_chunks() > 1);
        if let Some(chunks) = self.lanes.chunks.filter(|&chunks| (chunks > 1) != has_chunks) {
            let remedy = match has_chunks {
                true => {
                    "set lanes.chunks to at least 2, or lanes.order = \"backward-first\" (--schedule 1f1b)"
                }
                false => "set lanes.order = \"interleaved\" (--schedule interleaved), or remove lanes.chunks",
            };
            return refuse(
                "lanes.chunks",
                chunks.to_string(),
                "lanes.order",
                order.name().to_owned(),
                remedy,
            );
        }
        if let Some(cap) = self.lanes.cap.filter(|_| has_chunks) {
            let remedy = "remove lanes.cap: this order requires all micro-batches of its warm-up";
            return refuse("lanes.cap", cap.to_string(), "lanes.order", order.name().to_owned(), remedy);
        }
        let rising = self.cut.windows(2).all(|two| two[0] < two[1]);
        let whole = self.cut.len() == self.lanes.runs() && self.cut.first() == Some(&0) && rising;
        if !self.cut.is_empty() && !whole {
            let remedy = match has_chunks {
                true => {
                    "name the first layer of each run of stages (lanes of a replica times lanes.chunks), ascending \
                         from 0, or remove lanes.cut"
                }
                false => {
                    "name the first layer of each lane of a replica, ascending from 0, or remove lanes.cut"
                }
            };
            return refuse("lanes.cut", format!("{:?}", self.cut), "lanes.count", counted, remedy);
        }
        Ok(())
    }
}

/// Order in which a lane (a worker's share of the pipeline) runs its steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// All forward steps of a round run before all backward steps (GPipe).
    ForwardFirst,
    /// Forward and backward steps alternate, as soon as a lane has as many micro-batches as its cap
    /// allows (1F1B).
    #[default]
    BackwardFirst,
    /// Forward and backward steps alternate, with several chunks (ranges of stages) per lane.
    /// Micro-batches pass through the chunks in groups.
    Interleaved,
}

impl Order {
    /// All orders of micro-batches, with their names in recipes.
    pub const ALL: [(&'static str, Self); 3] = [
        ("forward-first", Self::ForwardFirst),
        ("backward-first", Self::BackwardFirst),
        ("interleaved", Self::Interleaved),
    ];

    /// Returns the name of this order of micro-batches in recipes, for instance `forward-first`.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, order)| *order == self).map_or("", |(name, _)| name)
    }

    /// Returns the number of chunks (ranges of stages) per lane if the recipe does not set it.
    /// Orders with the default 1 do not support several chunks.
    #[must_use]
    pub const fn default_chunks(self) -> u32 {
        match self {
            Self::ForwardFirst | Self::BackwardFirst => 1,
            Self::Interleaved => 2,
        }
    }
}

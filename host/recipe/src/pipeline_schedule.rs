//! Published pipeline schedules: an order of the steps of lanes and the weights that they read.

use crate::config::Config;
use crate::lanes::Order;
use crate::pipeline::WeightVersions;

/// A published schedule: an order of steps and the weights that they read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PipelineSchedule {
    /// All forward steps, then all backward steps.
    GPipe,
    /// One forward, one backward; one version of the weights.
    Flush,
    /// The same, rounds overlapping, with two versions.
    TwoBuffered,
    /// The same, with whatever weights are newest: forward and backward differ. A bad example.
    Naive,
    /// One forward, one backward, with several chunks a lane; one version of the weights.
    Interleaved,
}

impl PipelineSchedule {
    /// All schedules, with their names.
    pub const ALL: [(&'static str, Self); 5] = [
        ("gpipe", Self::GPipe),
        ("1f1b", Self::Flush),
        ("2bw", Self::TwoBuffered),
        ("naive", Self::Naive),
        ("interleaved", Self::Interleaved),
    ];

    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, schedule)| *schedule == self).map_or("", |(name, _)| name)
    }

    /// Returns the schedule of a name.
    ///
    /// # Errors
    /// The names of all schedules, if none has this name.
    pub fn named(name: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(known, _)| name.eq_ignore_ascii_case(known));
        found.map(|(_, schedule)| *schedule).ok_or_else(|| Self::ALL.map(|(name, _)| name).join(", "))
    }

    /// Returns its order and weights.
    #[must_use]
    pub const fn settings(self) -> (Order, WeightVersions) {
        match self {
            Self::GPipe => (Order::ForwardFirst, WeightVersions::Latest),
            Self::Flush => (Order::BackwardFirst, WeightVersions::Latest),
            Self::TwoBuffered => (Order::BackwardFirst, WeightVersions::TwoBuffered),
            Self::Naive => (Order::BackwardFirst, WeightVersions::Newest),
            Self::Interleaved => (Order::Interleaved, WeightVersions::Latest),
        }
    }
}

/// Returns the keys that a schedule sets, with their values.
///
/// # Errors
/// The names of all schedules, if none has this name.
pub fn assignments(name: &str) -> Result<[(&'static str, &'static str); 2], String> {
    let (order, weights) = PipelineSchedule::named(name)?.settings();
    Ok([("lanes.order", order.name()), ("pipeline.weights", weights.name())])
}

impl Config {
    /// Returns the schedule of the order and the weights, or 1F1B if none has both.
    #[must_use]
    pub fn schedule(&self) -> PipelineSchedule {
        let settings = (self.lanes.lanes.order, self.pipeline.weights());
        let mut all = PipelineSchedule::ALL.into_iter().map(|(_, schedule)| schedule);
        all.find(|schedule| schedule.settings() == settings).unwrap_or(PipelineSchedule::Flush)
    }

    /// Returns the schedules that a planner may choose: those that train with defined weights, and with
    /// several chunks a lane only if the lanes have them.
    #[must_use]
    pub fn schedules(&self) -> Vec<PipelineSchedule> {
        use PipelineSchedule::{Flush, GPipe, Interleaved, TwoBuffered};
        let several = self.lanes.lanes.chunks() > 1;
        [Flush, GPipe, TwoBuffered].into_iter().chain(several.then_some(Interleaved)).collect()
    }
}

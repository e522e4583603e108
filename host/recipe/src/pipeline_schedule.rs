//! Published pipeline schedules, such as GPipe and 1F1B. A schedule consists of an order of steps
//! and a version of the weights.

use crate::config::Config;
use crate::lanes::Order;
use crate::pipeline::WeightVersions;

/// Published pipeline schedule: an order of the lanes' steps, and the version of the weights that
/// they read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PipelineSchedule {
    /// GPipe: all forward steps, then all backward steps.
    GPipe,
    /// 1F1B with flush: one forward step and one backward step alternate, with one version of the
    /// weights.
    Flush,
    /// PipeDream-2BW: 1F1B with overlapping rounds and two versions of the weights.
    TwoBuffered,
    /// 1F1B with overlapping rounds and the newest weights, so that forward and backward read
    /// different versions. It exists only for comparisons.
    Naive,
    /// Interleaved 1F1B: several chunks (runs of stages) per lane, with one version of the weights.
    Interleaved,
}

impl PipelineSchedule {
    /// All schedules, with their names on the command line.
    pub const ALL: [(&'static str, Self); 5] = [
        ("gpipe", Self::GPipe),
        ("1f1b", Self::Flush),
        ("2bw", Self::TwoBuffered),
        ("naive", Self::Naive),
        ("interleaved", Self::Interleaved),
    ];

    /// Returns the name of the schedule on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, schedule)| *schedule == self).map_or("", |(name, _)| name)
    }

    /// Returns the schedule with this name.
    ///
    /// # Errors
    /// Returns a text with the names of all schedules if no schedule has this name.
    pub fn named(name: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(known, _)| name.eq_ignore_ascii_case(known));
        found.map(|(_, schedule)| *schedule).ok_or_else(|| Self::ALL.map(|(name, _)| name).join(", "))
    }

    /// Returns the order of steps and the version of the weights of the schedule.
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

/// Returns the keys of a recipe that a schedule sets, with their values.
///
/// # Errors
/// Returns a text with the names of all schedules if no schedule has this name.
pub fn assignments(name: &str) -> Result<[(&'static str, &'static str); 2], String> {
    let (order, weights) = PipelineSchedule::named(name)?.settings();
    Ok([("lanes.order", order.name()), ("pipeline.weights", weights.name())])
}

impl Config {
    /// Returns the schedule that has the configuration's order and weights. If there is none,
    /// returns 1F1B with flush.
    #[must_use]
    pub fn schedule(&self) -> PipelineSchedule {
        let settings = (self.lanes.lanes.order, self.pipeline.weights());
        let mut all = PipelineSchedule::ALL.into_iter().map(|(_, schedule)| schedule);
        all.find(|schedule| schedule.settings() == settings).unwrap_or(PipelineSchedule::Flush)
    }

    /// Returns the schedules that a planner may choose. They train with defined weights, and use
    /// several chunks per lane only if the recipe's lanes have several.
    #[must_use]
    pub fn schedules(&self) -> Vec<PipelineSchedule> {
        use PipelineSchedule::{Flush, GPipe, Interleaved, TwoBuffered};
        let several = self.lanes.lanes.chunks() > 1;
        [Flush, GPipe, TwoBuffered].into_iter().chain(several.then_some(Interleaved)).collect()
    }
}

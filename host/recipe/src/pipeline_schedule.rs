//! Published pipeline schedules such as GPipe and 1F1B. Each is a combination of a step order and a
//! weight version rule.

use crate::config::Config;
use crate::lanes::Order;
use crate::pipeline::WeightVersions;

/// Published pipeline schedule, which determines the order of the lanes' steps and the weight
/// versions that they read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PipelineSchedule {
    /// GPipe, which runs all forward steps and then all backward steps.
    GPipe,
    /// 1F1B with flush, which alternates forward and backward steps and has one version of the
    /// weights.
    Flush,
    /// PipeDream-2BW, which is 1F1B with overlapping rounds (updates) and two versions of the
    /// weights.
    TwoBuffered,
    /// 1F1B with overlapping rounds (updates) and the newest weights, so forward and backward may
    /// read different versions. It exists only for comparisons.
    Naive,
    /// Interleaved 1F1B, which has several chunks (ranges of stages) per lane and one version of
    /// the weights.
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

    /// Returns the schedule called `name`, ignoring case.
    ///
    /// # Errors
    /// Returns the names of all schedules as an error text if no schedule has this name.
    pub fn named(name: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(known, _)| name.eq_ignore_ascii_case(known));
        found.map(|(_, schedule)| *schedule).ok_or_else(|| Self::ALL.map(|(name, _)| name).join(", "))
    }

    /// Returns the step order and the weight version rule of the schedule.
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

/// Returns the assignments of recipe keys that select the schedule called `name`, as pairs of key
/// and value.
///
/// # Errors
/// Returns the names of all schedules as an error text if no schedule has this name.
pub fn assignments(name: &str) -> Result<[(&'static str, &'static str); 2], String> {
    let (order, weights) = PipelineSchedule::named(name)?.settings();
    Ok([("lanes.order", order.name()), ("pipeline.weights", weights.name())])
}

impl Config {
    /// Returns the schedule with the configuration's step order and weight version rule. If there
    /// is none, it returns [`PipelineSchedule::Flush`].
    #[must_use]
    pub fn schedule(&self) -> PipelineSchedule {
        let settings = (self.lanes.lanes.order, self.pipeline.weights());
        let mut all = PipelineSchedule::ALL.into_iter().map(|(_, schedule)| schedule);
        all.find(|schedule| schedule.settings() == settings).unwrap_or(PipelineSchedule::Flush)
    }

    /// Returns the schedules that a planner may choose. [`PipelineSchedule::Naive`] is excluded,
    /// and [`PipelineSchedule::Interleaved`] requires lanes with several chunks.
    #[must_use]
    pub fn schedules(&self) -> Vec<PipelineSchedule> {
        use PipelineSchedule::{Flush, GPipe, Interleaved, TwoBuffered};
        let several = self.lanes.lanes.chunks() > 1;
        [Flush, GPipe, TwoBuffered].into_iter().chain(several.then_some(Interleaved)).collect()
    }
}

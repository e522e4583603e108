//! Decisions of the autotuner, with their reasons.

/// Decision of the autotuner about the number of functions, which may keep the number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decision {
    /// Time of the decision, in microseconds.
    pub time_us: u64,
    /// Number of functions before the decision.
    pub from: u32,
    /// Number of functions after the decision.
    pub to: u32,
    /// Reason for the decision.
    pub why: Why,
}

/// Reason for a decision about the number of functions. A value is the performance per dollar.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Why {
    /// The host alone finishes a whole window in less time than a few round trips to a function.
    Quick {
        /// Duration of the window, in microseconds.
        window_us: u64,
        /// Duration of a round trip to a function, in microseconds.
        round_trip_us: u64,
    },
    /// The first measurement of the host alone is complete, so the first functions are started.
    Start,
    /// Many tasks are waiting, or their number grows, and all functions are busy.
    Deep {
        /// Average number of waiting tasks.
        waiting: f64,
        /// Growth of the number of waiting tasks from the first half of the window to the second,
        /// as a fraction of the average.
        slope: f64,
    },
    /// The host alone is measured, for comparison with the functions.
    Host,
    /// A number of functions between the best one and a neighbour is tried.
    Between,
    /// The value of the first functions is far below that of the host alone.
    Hopeless {
        /// Value of the functions as a fraction of the host's value.
        share: f64,
    },
    /// The first functions are started a second time, because the first measurement may have been
    /// an outlier.
    Again,
    /// The trial failed, so the tuner returns to the best number of functions.
    Lost {
        /// Value of the trial as a fraction of the best value.
        share: f64,
    },
    /// All candidates were tried, so the best number of functions is kept.
    Settled,
    /// The work has changed, because the value differs from the settled value.
    Changed {
        /// New value as a multiple of the settled value.
        times: f64,
    },
}

impl std::fmt::Display for Why {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Quick { window_us, round_trip_us } => write!(
                f,
                "an epoch takes {} ms on the host, and a round trip to a function takes {} ms",
                *window_us as f64 / 1e3,
                *round_trip_us as f64 / 1e3
            ),
            Self::Start => write!(f, "the first measurement of the host has ended"),
            Self::Deep { waiting, slope } => {
                write!(
                    f,
                    "{waiting:.1} tasks wait on average ({:+.0} %) and all functions are busy",
                    slope * 100.0
                )
            }
            Self::Host => write!(f, "comparison with the host alone"),
            Self::Between => write!(f, "between the best number and the nearest tested one"),
            Self::Hopeless { share } => {
                write!(f, "with functions, the value is {share:.2} times that of the host alone")
            }
            Self::Again => write!(f, "the measurement may have been an outlier: measure once more"),
            Self::Lost { share } => write!(
                f,
                "the value is {:.2} times that of the best number: return to the best number",
                share
            ),
            Self::Settled => write!(f, "no untested number remains"),
            Self::Changed { times } => write!(f, "the value is {times:.2} times that of the last choice"),
        }
    }
}

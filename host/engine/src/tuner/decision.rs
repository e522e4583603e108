//! Decisions of a tuner, with their reasons.

/// A decision to change or to keep the number of functions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decision {
    /// Time, in microseconds.
    pub time_us: u64,
    /// Number of functions before.
    pub from: u32,
    /// Number of functions after.
    pub to: u32,
    /// The reason.
    pub why: Why,
}

/// Reason for a number of functions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Why {
    /// A whole window of the host alone was shorter than a few round trips.
    Quick {
        /// Length of the window, in microseconds.
        window_us: u64,
        /// Time of a round trip, in microseconds.
        round_trip_us: u64,
    },
    /// The look at the host alone is over.
    Start,
    /// The queue is deep or grows, and all functions are busy.
    Deep {
        /// Average length of the queue.
        waiting: f64,
        /// Growth of the queue in the second half of the window, as a share.
        slope: f64,
    },
    /// Comparison with the host alone.
    Host,
    /// A number between the best and another.
    Between,
    /// The value of the first functions is far below that of the host alone.
    Hopeless {
        /// Their value as a share of the host's.
        share: f64,
    },
    /// Second start of the first functions.
    Again,
    /// Return to the best number after a failed trial.
    Lost {
        /// The trial's value as a share of the best's.
        share: f64,
    },
    /// No number is left to try.
    Settled,
    /// The work has changed: the value differs from the settled one.
    Changed {
        /// The value as a multiple of the settled one.
        times: f64,
    },
}

impl std::fmt::Display for Why {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Quick { window_us, round_trip_us } => write!(
                f,
                "an epoch takes the host {} ms, a round trip to a function {} ms",
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
            Self::Host => write!(f, "to compare with the host alone"),
            Self::Between => write!(f, "between the best and its neighbour"),
            Self::Hopeless { share } => {
                write!(f, "with functions, the value is {share:.2} times that of the host alone")
            }
            Self::Again => write!(f, "the measurement may have been an outlier: measure once more"),
            Self::Lost { share } => write!(f, "{:.2} times the value of the best: return to the best", share),
            Self::Settled => write!(f, "no untested number remains"),
            Self::Changed { times } => write!(f, "the value is {times:.2} times that of the last choice"),
        }
    }
}

//! What a tuner decided, and why.

/// A change of the number of functions, or the decision to leave it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decision {
    /// When, microseconds.
    pub time_us: u64,
    /// Functions so far.
    pub from: u32,
    /// Functions from now on.
    pub to: u32,
    /// Why.
    pub why: Why,
}

/// Why a number was chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Why {
    /// A whole window took the host less than some round trips.
    Quick {
        /// Microseconds of the window.
        window_us: u64,
        /// Microseconds of a round trip.
        round_trip_us: u64,
    },
    /// The first look is over.
    Start,
    /// The queue is deep or grows, and all functions are at work.
    Deep {
        /// What waited on average.
        waiting: f64,
        /// How much more in the window's second half, as a share.
        slope: f64,
    },
    /// To compare with the host alone.
    Host,
    /// Between the best and a neighbour.
    Between,
    /// The first functions do far less than the host did for its money.
    Hopeless {
        /// Their value as a share of the host's.
        share: f64,
    },
    /// They may have had a bad moment: once more.
    Again,
    /// A trial lost: back to the best.
    Lost {
        /// The trial's value as a share of the best's.
        share: f64,
    },
    /// Nothing is left to try: the best stays.
    Settled,
    /// The value is not what it was: the work has changed.
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
            Self::Start => write!(f, "the first look at the host is over"),
            Self::Deep { waiting, slope } => {
                write!(f, "{waiting:.1} wait on average ({:+.0} %) and all functions work", slope * 100.0)
            }
            Self::Host => write!(f, "to compare with the host alone"),
            Self::Between => write!(f, "between the best and its neighbour"),
            Self::Hopeless { share } => {
                write!(f, "functions have {share:.2} times the value that the host alone had")
            }
            Self::Again => write!(f, "it may have been a bad moment: once more"),
            Self::Lost { share } => write!(f, "{:.2} times the value of the best: back", share),
            Self::Settled => write!(f, "nothing is left to try"),
            Self::Changed { times } => write!(f, "{times:.2} times the value that it settled at"),
        }
    }
}

//! Timed trials of two access paths, for calls for which the cost model ([`Path::choose`]) is
//! undecided.
//!
//! The speed ratio of cache levels differs more between processors than the costs of the two paths
//! do. All paths give the same bits, and training repeats the same gathers. So the first calls
//! alternate between the paths, and later calls use the faster one.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::path::{Path, Shape};

/// Number of timed trials of each path. The fastest trial counts, because disturbances only make
/// calls slower.
const TRIES: u8 = 3;
/// Minimum number of edges of a call that takes part in trials. Smaller calls are too short for a
/// comparison, and the choice would save little.
const LEAST_EDGES: usize = 100_000;
/// Maximum number of kinds of calls for which trials are stored. When it is exceeded, all results
/// are deleted, and trials are repeated.
const MOST_KINDS: usize = 4096;

/// Key that identifies gather calls with the same work, which have the same lists and the same
/// rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Kind {
    pub shape: Shape,
    /// Address of the neighbour list. If another graph later has the same address, its calls use
    /// the result that is stored for this one.
    pub list: usize,
    pub first_row: usize,
    pub factors: u8,
}

/// Results of the trials of two paths for one kind of call.
#[derive(Debug, Default, Clone, Copy)]
struct Known {
    tries: [u8; 2],
    least: [Option<Duration>; 2],
}

impl Known {
    /// Returns the index of the path to use next. It is the path with fewer trials, and after all
    /// trials the faster one.
    fn next(&self) -> usize {
        if self.tries.iter().any(|&tries| tries < TRIES) {
            return usize::from(self.tries[1] < self.tries[0]);
        }
        let [favourite, rival] = self.least.map(|least| least.unwrap_or(Duration::MAX));
        usize::from(rival < favourite)
    }
}

/// Results of all trials in this process, by the kind of call.
#[derive(Debug, Default)]
struct Trials(HashMap<Kind, Known>);

impl Trials {
    /// Returns the index of the path to use next for a kind of call, and true if the call must be
    /// timed.
    fn next(&mut self, kind: Kind) -> (usize, bool) {
        if self.0.len() >= MOST_KINDS && !self.0.contains_key(&kind) {
            self.0.clear();
        }
        let known = self.0.entry(kind).or_default();
        let next = known.next();
        let timed = known.tries[next] < TRIES;
        if timed {
            known.tries[next] += 1;
        }
        (next, timed)
    }

    fn took(&mut self, kind: Kind, which: usize, time: Duration) {
        if let Some(known) = self.0.get_mut(&kind) {
            let least = &mut known.least[which];
            *least = Some(least.map_or(time, |least| least.min(time)));
        }
    }
}

static TRIALS: LazyLock<Mutex<Trials>> = LazyLock::new(Mutex::default);

/// Calls `work` with the path to use. It is `favourite`, or `rival` if a trial of it is due or if
/// it was faster.
pub(super) fn by_trial(kind: Kind, favourite: Path, rival: Option<Path>, work: impl FnOnce(Path)) {
    let Some(rival) = rival.filter(|_| kind.shape.edges >= LEAST_EDGES) else { return work(favourite) };
    let trials = || TRIALS.lock().unwrap_or_else(PoisonError::into_inner);
    let (which, timed) = trials().next(kind);
    let begun = Instant::now();
    work([favourite, rival][which]);
    if timed {
        trials().took(kind, which, begun.elapsed());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(list: usize) -> Kind {
        let shape =
            Shape { vertices: 9, rows: 9, edges: 9, lanes: 16, stride: 16, value_bytes: 4, scaled: true };
        Kind { shape, list, first_row: 0, factors: 0 }
    }

    #[test]
    fn both_are_tried_and_then_the_quicker_one_stays() {
        for (favourite, rival, quicker) in [(5, 3, 1), (3, 5, 0), (4, 4, 0)] {
            let mut trials = Trials::default();
            let mut tried = [0; 2];
            for turn in 0..40 {
                let (which, timed) = trials.next(kind(1));
                assert_eq!(timed, turn < 2 * usize::from(TRIES), "{turn}");
                if timed {
                    tried[which] += 1;
                    // One call of three is disturbed.
                    let time = [favourite, rival][which] + if tried[which] == 2 { 100 } else { 0 };
                    trials.took(kind(1), which, Duration::from_millis(time));
                } else {
                    assert_eq!(which, quicker);
                }
            }
            assert_eq!(tried, [usize::from(TRIES); 2]);
        }
    }

    #[test]
    fn calls_at_once_share_the_tries_and_what_never_ended_does_not_win() {
        let mut trials = Trials::default();
        // Six threads begin before one ends; of the rival's no call ends.
        let begun: Vec<usize> = (0..6).map(|_| trials.next(kind(1)).0).collect();
        assert_eq!(begun, [0, 1, 0, 1, 0, 1]);
        assert!(!trials.next(kind(1)).1);
        trials.took(kind(1), 0, Duration::from_millis(2));
        assert_eq!(trials.next(kind(1)), (0, false));
    }

    #[test]
    fn no_more_is_remembered_than_allowed() {
        let mut trials = Trials::default();
        for list in 0..3 * MOST_KINDS {
            trials.next(kind(list));
            assert!(trials.0.len() <= MOST_KINDS);
        }
        trials.took(kind(0), 0, Duration::ZERO);
    }
}

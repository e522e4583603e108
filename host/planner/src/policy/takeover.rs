//! Rules of takeover: the workers that run the micro-batches of a failed worker.
//!
//! Workers are numbered like the lanes that they run. A *peer* of a worker runs the same lane in
//! another replica of the pipeline.

use eciton_recipe::lanes::Lanes;

/// Rule that selects the workers that run the lane of a failed worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Takeover {
    /// The nearest available worker before the failed one runs the whole lane.
    #[default]
    Previous,
    /// The peers of the failed worker share the micro-batches of its lane (Gandhi et al. 2024,
    /// ReCycle, section 3). Peers have the same weights. A lane whose peers have all failed follows
    /// the rule [`Takeover::Previous`].
    Peers,
}

impl Takeover {
    /// Returns the workers that run the lane `number` of a pipeline. `alive` is true for each
    /// available worker. The lane's own worker runs all of it, if it is available. The result is
    /// empty only if no worker is available.
    #[must_use]
    pub fn homes(self, lanes: &Lanes, alive: &[bool], number: usize) -> Vec<usize> {
        let is_alive = |&at: &usize| alive.get(at) == Some(&true);
        if is_alive(&number) {
            return vec![number];
        }
        let (depth, count) = ((lanes.depth() as usize).max(1), alive.len());
        let peers = (number % depth..lanes.count as usize).step_by(depth).filter(is_alive);
        let peers: Vec<usize> = peers.filter(|_| self == Self::Peers).collect();
        let before = (1..count).map(|by| (number + count - by) % count).find(is_alive);
        if peers.is_empty() { before.into_iter().collect() } else { peers }
    }

    /// Returns the worker that runs an interval of the lane `number`. `homes` are the workers of
    /// the lane, and `index` is the position of the interval in the run of its replica. The workers
    /// get the same number of intervals, or one more. If lanes of several replicas have the same
    /// workers, different workers get more.
    #[must_use]
    pub fn home(lanes: &Lanes, homes: &[usize], number: usize, index: usize) -> Option<usize> {
        let replica = number / (lanes.depth() as usize).max(1);
        homes.get((index + replica) % homes.len().max(1)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the workers of a lane of a pipeline with 4 replicas of 3 lanes, if some have failed.
    fn homes(takeover: Takeover, failed: &[usize], number: usize) -> Vec<usize> {
        let lanes = Lanes { count: 12, width: 4, ..Lanes::default() };
        let alive: Vec<bool> = (0..12).map(|at| !failed.contains(&at)).collect();
        takeover.homes(&lanes, &alive, number)
    }

    #[test]
    fn a_lane_runs_on_its_worker_then_on_peers_then_on_the_worker_before() {
        assert_eq!(homes(Takeover::Peers, &[3, 9], 1), [1]);
        assert_eq!(homes(Takeover::Peers, &[1], 1), [4, 7, 10]);
        assert_eq!(homes(Takeover::Peers, &[1, 4, 10], 10), [7]);
        assert_eq!(homes(Takeover::Peers, &[1, 4, 7, 10, 0], 1), [11]);
        assert_eq!(homes(Takeover::Previous, &[1], 1), [0]);
        assert_eq!(homes(Takeover::Previous, &[0, 1, 11], 1), [10]);
        assert_eq!(homes(Takeover::Peers, &(0..12).collect::<Vec<_>>(), 5), [0; 0]);
    }

    #[test]
    fn workers_share_a_lane_fairly() {
        let lanes = Lanes { count: 12, width: 4, ..Lanes::default() };
        let of = |homes: &[usize], number, count: usize| -> Vec<Option<usize>> {
            (0..count).map(|index| Takeover::home(&lanes, homes, number, index)).collect()
        };
        assert_eq!(of(&[4, 7], 1, 3), [Some(4), Some(7), Some(4)]);
        // The lane of the next replica has the same workers. The other worker gets two.
        assert_eq!(of(&[4, 7], 10, 3), [Some(7), Some(4), Some(7)]);
        assert_eq!(of(&[], 1, 1), [None]);
    }
}

//! Network link between a host and its functions. All transfers on the link have the same rate at
//! any time.
//!
//! Two points are known (Thorpe et al. 2021). A single function has about 800 Mbit/s, and each of
//! 100 functions on one host about 200 Mbit/s. The curve between and beyond these points is an
//! assumption of this model, in which the total rate saturates like `n / (n + k)`:
//!
//! ```text
//! r(n) = r(1) / (1 + (n - 1) / k),   k = 99 / (r(1) / r(100) - 1) = 33
//! ```
//!
//! The total therefore approaches `k r(1)` = 26.4 Gbit/s, which is near the 25 Gbit/s of the
//! machines in that paper. It never exceeds the machine's own bandwidth.
//!
//! Because all transfers have the same rate, a single counter of the bytes served to each transfer
//! determines when every transfer ends. Starting or ending a transfer takes O(log n) time.

use std::collections::BTreeSet;

/// Transfer rate on a link as a function of the number of concurrent transfers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rates {
    alone: f64,
    /// Value `1 / k` of the formula in the module documentation.
    slope: f64,
    whole: f64,
}

impl Rates {
    /// Creates rates from three bandwidths in Mbit/s. They are those of a single function, of each
    /// of a hundred functions, and of the whole machine.
    pub(crate) fn new(alone_mbits: f64, hundred_mbits: f64, whole_mbits: f64) -> Self {
        let bytes = 1e6 / 8.0;
        let slope = (alone_mbits / hundred_mbits - 1.0).max(0.0) / 99.0;
        Self { alone: alone_mbits * bytes, slope, whole: whole_mbits * bytes }
    }

    /// Returns the rate of each of `n` concurrent transfers, in bytes per second.
    pub(crate) fn each(&self, n: usize) -> f64 {
        let n = n.max(1) as f64;
        (self.alone / (1.0 + (n - 1.0) * self.slope)).min(self.whole / n)
    }
}

/// Network link between a host and its functions.
#[derive(Debug)]
pub(crate) struct Link {
    rates: Rates,
    /// Number of bytes that each transfer would have received if it had been active since the link
    /// was last idle.
    served: f64,
    at_us: u64,
    /// Active transfers, as pairs of end and flight. The end is the value of `served` at which the
    /// transfer is complete, stored as float bits, which sort like non-negative floats.
    active: BTreeSet<(u64, u32)>,
    /// Number of changes to the set of active transfers. A timer that was set at an earlier number
    /// is obsolete.
    pub(crate) generation: u64,
    /// Maximum number of concurrent transfers so far.
    pub(crate) most: usize,
}

impl Link {
    pub(crate) fn new(rates: Rates) -> Self {
        Self { rates, served: 0.0, at_us: 0, active: BTreeSet::new(), generation: 0, most: 0 }
    }

    fn advance(&mut self, now_us: u64) {
        let seconds = now_us.saturating_sub(self.at_us) as f64 * 1e-6;
        if self.active.is_empty() {
            self.served = 0.0;
        } else {
            self.served += seconds * self.rates.each(self.active.len());
        }
        self.at_us = now_us;
    }

    /// Starts a transfer of `bytes` bytes for the flight with index `flight`.
    pub(crate) fn begin(&mut self, now_us: u64, bytes: f64, flight: u32) {
        self.advance(now_us);
        self.active.insert(((self.served + bytes).to_bits(), flight));
        self.most = self.most.max(self.active.len());
        self.generation += 1;
    }

    /// Returns the time at which the next transfer ends if no other transfer starts, in
    /// microseconds. Returns `None` if the link is idle.
    pub(crate) fn next_us(&self) -> Option<u64> {
        let (target, _) = self.active.first()?;
        let left = (f64::from_bits(*target) - self.served).max(0.0);
        Some(self.at_us + (left / self.rates.each(self.active.len()) * 1e6).ceil() as u64)
    }

    /// Removes the transfers that have ended by `now_us`, and appends their flights to `flights`. A
    /// remainder of up to half a byte is treated as a rounding error.
    pub(crate) fn done(&mut self, now_us: u64, flights: &mut Vec<u32>) {
        self.advance(now_us);
        while let Some(&(target, flight)) = self.active.first()
            && f64::from_bits(target) <= self.served + 0.5
        {
            self.active.pop_first();
            flights.push(flight);
        }
        self.generation += 1;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn rates_are_the_published_ones_at_1_and_100_and_the_curve_between() {
        let rates = Rates::new(800.0, 200.0, 1e9);
        let mbits = |n| rates.each(n) * 8.0 / 1e6;
        assert!((mbits(1) - 800.0).abs() < 1e-9 && (mbits(100) - 200.0).abs() < 1e-9);
        // 800 / (1 + 1/33).
        assert!((mbits(2) - 776.470_588).abs() < 1e-5, "{}", mbits(2));
        // Together never less than fewer, never more than 26.4 Gbit/s.
        for n in 1..10_000 {
            let (fewer, more) = (mbits(n) * n as f64, mbits(n + 1) * (n + 1) as f64);
            assert!(fewer < more && more < 26_400.0);
        }
        let small = Rates::new(800.0, 200.0, 10_000.0);
        assert!((small.each(100) * 8e-6 - 100.0).abs() < 1e-9, "10 Gbit/s among 100");
    }

    /// Returns the end times of transfers that start at these times with these bytes.
    fn run(rates: Rates, begins: &[(u64, f64)]) -> Vec<u64> {
        let mut link = Link::new(rates);
        let mut ends = vec![0; begins.len()];
        let mut next = 0;
        let mut done = Vec::new();
        loop {
            let begin = begins.get(next).map(|begin| begin.0);
            match (begin, link.next_us()) {
                (Some(at), end) if end.is_none_or(|end| at < end) => {
                    link.begin(at, begins[next].1, next as u32);
                    next += 1;
                }
                (_, Some(end)) => {
                    link.done(end, &mut done);
                    done.drain(..).for_each(|flight| ends[flight as usize] = end);
                }
                _ => return ends,
            }
        }
    }

    #[test]
    fn one_two_and_a_hundred_transfers_by_hand() {
        let rates = Rates::new(800.0, 200.0, 1e9);
        // 100 MB at 100 MB/s.
        assert_eq!(run(rates, &[(0, 1e8)]), [1_000_000]);
        // Two at once: 100 / (1 + 1/33) = 97.0588 MB/s each: 1.030303 s.
        assert_eq!(run(rates, &[(0, 1e8), (0, 1e8)]), [1_030_304; 2]);
        // A hundred at 25 MB/s.
        assert_eq!(run(rates, &[(0, 1e8); 100]), [4_000_000; 100]);
        // The second comes half-way: 50 MB alone in 0.5 s, then 50 MB at 97.0588 MB/s: 0.515152 s. It has then
        // 50 MB left, alone again: 0.5 s.
        let ends = run(rates, &[(0, 1e8), (500_000, 1e8)]);
        assert_eq!(ends, [1_015_152, 1_515_152]);
    }

    #[test]
    fn what_is_sent_is_what_arrives_whatever_comes_between() {
        let rates = Rates::new(800.0, 200.0, 5000.0);
        let begins: Vec<(u64, f64)> =
            (0..500u64).map(|i| (i * i % 7919 * 10, 1e5 + (i * 37 % 101) as f64 * 1e4)).collect();
        let mut begins = begins;
        begins.sort_by_key(|begin| begin.0);
        let ends = run(rates, &begins);
        for (&(begin, bytes), &end) in begins.iter().zip(&ends) {
            // Not faster than alone.
            assert!((end - begin) as f64 >= bytes / 1e8 * 1e6 - 2.0);
        }
        // Not faster in all than the machine's 625 MB/s.
        let all: f64 = begins.iter().map(|begin| begin.1).sum();
        assert!(*ends.iter().max().unwrap() as f64 * 1e-6 >= all / 625e6);
    }
}

//! Failure traces, which state when workers fail.

use crate::random::{Purpose, unit};

/// Rates of preemption and failure of workers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Preemption {
    /// Mean number of failures per worker and hour. The failures are independent of each other.
    pub per_hour: f64,
    /// Mean number of failure bursts per zone and hour.
    pub bursts_per_hour: f64,
    /// Number of workers that fail together in one burst.
    pub burst: u32,
    /// Number of availability zones. Worker `p` is in zone `p` modulo this number, so adjacent
    /// workers are in different zones.
    pub zones: u32,
    /// Time until a failed worker is replaced, in seconds.
    pub back: f64,
}

/// Failures of a run in chronological order. Each element is a time in seconds and the workers that
/// fail at that time.
pub(super) type Losses = Vec<(f64, Vec<u32>)>;

/// Returns a random waiting time in seconds until the next event. Waiting times are exponentially
/// distributed, with `per_hour` events per hour.
fn wait(seed: u64, purpose: Purpose, key: &[u64], per_hour: f64) -> f64 {
    -(1.0 - unit(seed, purpose, key)).ln() * 3600.0 / per_hour
}

impl Preemption {
    /// Returns the failures of `count` workers during the given number of seconds. A listed worker
    /// may already be down at that time.
    pub(super) fn losses(&self, count: u32, seconds: f64, seed: u64) -> Losses {
        let mut all: Losses = Vec::new();
        if self.per_hour > 0.0 {
            for place in 0..count {
                let mut time = 0.0;
                for nth in 0.. {
                    time += wait(seed, Purpose::Preempted, &[u64::from(place), nth], self.per_hour);
                    if time > seconds {
                        break;
                    }
                    all.push((time, vec![place]));
                    time += self.back;
                }
            }
        }
        let zones = self.zones.clamp(1, count.max(1));
        if self.bursts_per_hour > 0.0 && self.burst > 0 {
            for zone in 0..zones {
                let mut time = 0.0;
                for nth in 0.. {
                    let key = [u64::from(zone), nth];
                    time += wait(seed, Purpose::Burst, &key, self.bursts_per_hour);
                    if time > seconds {
                        break;
                    }
                    let own: Vec<u32> = (zone..count).step_by(zones as usize).collect();
                    let from = (unit(seed, Purpose::BurstPlace, &key) * own.len() as f64) as usize;
                    let taken = own.iter().cycle().skip(from).take(own.len().min(self.burst as usize));
                    all.push((time, taken.copied().collect()));
                }
            }
        }
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        all
    }
}

/// Simulates training that restarts from checkpoints after failures, and returns the number of
/// rounds that it finishes.
///
/// With all `count` workers, a round takes `round` seconds. While workers are down, the remaining
/// ones take over their work. There is a checkpoint every `every` rounds. Each failure costs
/// `restart` seconds and all rounds since the last checkpoint.
#[must_use]
pub fn checkpointed(
    preemption: &Preemption,
    (count, round): (u32, f64),
    (every, restart): (u32, f64),
    seconds: f64,
    seed: u64,
) -> u32 {
    let losses = preemption.losses(count, seconds, seed);
    let (mut now, mut kept, mut since) = (0.0, 0u32, 0u32);
    let mut back: Vec<f64> = Vec::new();
    let mut next = losses.iter().peekable();
    while now < seconds {
        back.retain(|&time| time > now);
        let alive = f64::from(count) - back.len() as f64;
        let took = round * f64::from(count) / alive.max(1.0);
        match next.peek() {
            Some((time, places)) if *time < now + took => {
                now = now.max(*time) + restart;
                since = 0;
                back.extend(places.iter().map(|_| time + preemption.back));
                next.next();
            }
            _ => {
                now += took;
                if now > seconds {
                    break;
                }
                since += 1;
                if since >= every.max(1) {
                    (kept, since) = (kept + since, 0);
                }
            }
        }
    }
    kept + since
}

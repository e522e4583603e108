//! Time budget for training in a cloud function, and the decision to pause the training.
//!
//! The service stops a function at its time limit. If a training needs longer, it pauses after a
//! step (a weight update) before the limit and writes a checkpoint. The next invocation of the function
//! continues from that checkpoint.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Assumed minimum speed at which a function writes, packs and uploads a checkpoint, in bytes per
/// second.
const CHECKPOINT_BYTES_PER_SECOND: f64 = (32 << 20) as f64;
/// Size of a checkpoint per weight, in bytes. Each weight has a value, two moments, and a value at
/// the best epoch.
const CHECKPOINT_BYTES_PER_WEIGHT: u64 = 16;

/// Clock of a function invocation. It returns the time since the invocation began.
pub type Clock = dyn Fn() -> Duration + Send + Sync;

/// Time budget of one invocation of a cloud function. Clones share the same state.
#[derive(Clone)]
pub struct Budget(Arc<Shared>);

struct Shared {
    limit: Duration,
    clock: Box<Clock>,
    state: Mutex<State>,
}

/// Time measurements of the current invocation, which decide when the training pauses.
#[derive(Debug, Clone, Copy, Default)]
struct State {
    /// Clock reading when the first step of this invocation began. `None` before that.
    begun: Option<Duration>,
    /// Number of steps that have ended in this invocation.
    steps: u32,
    /// Clock reading at the weight update of the current step. `None` before the update and after
    /// the end of the step.
    updated: Option<Duration>,
    /// Total time from weight updates to the ends of their steps, and the longest such time. An
    /// evaluation and a checkpoint may take place in this time.
    tails: Duration,
    tail: Option<Duration>,
    /// Estimated time to write, pack and upload a checkpoint.
    checkpoint: Duration,
    /// True if the training must pause after the current step.
    is_over: bool,
}

impl std::fmt::Debug for Budget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Budget").field("limit", &self.0.limit).field("state", &*self.state()).finish()
    }
}

impl Budget {
    /// Creates a budget of `limit`, measured by `clock`.
    #[must_use]
    pub fn new(limit: Duration, clock: Box<Clock>) -> Self {
        Self(Arc::new(Shared { limit, clock, state: Mutex::default() }))
    }

    /// Creates a budget of `limit` in real time, counted from `since`.
    #[must_use]
    pub fn real(limit: Duration, since: Instant) -> Self {
        Self::new(limit, Box::new(move || since.elapsed()))
    }

    /// Creates a budget in processor time of this process, counted from now. It models a function
    /// that has only `share` of a processor, so elapsed time is processor time divided by `share`.
    /// Returns `None` if the system does not report processor time.
    #[must_use]
    pub fn processor(limit: Duration, share: f64) -> Option<Self> {
        let first = eciton_input::processor::time()?;
        let elapsed = move || {
            let used = eciton_input::processor::time().unwrap_or(first).saturating_sub(first);
            Duration::try_from_secs_f64(used.as_secs_f64() / share).unwrap_or(Duration::MAX)
        };
        Some(Self::new(limit, Box::new(elapsed)))
    }

    /// Returns the time limit of the invocation.
    pub(crate) fn limit(&self) -> Duration {
        self.0.limit
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic in another thread cannot leave these plain fields inconsistent.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that the training of a seed begins. `weights` is the number of weights of the model,
    /// from which the time for a checkpoint is estimated.
    pub(crate) fn begin(&self, weights: u64) {
        let now = (self.0.clock)();
        let mut state = self.state();
        state.begun.get_or_insert(now);
        let bytes = weights.saturating_mul(CHECKPOINT_BYTES_PER_WEIGHT) as f64;
        state.checkpoint = Duration::from_secs_f64(bytes / CHECKPOINT_BYTES_PER_SECOND);
    }

    /// Records a weight update. Returns true if the training must pause after this step, because a
    /// further step of average length and a checkpoint would exceed the limit. `evaluates` is true
    /// if an evaluation follows the next step.
    pub(crate) fn updated(&self, evaluates: bool) -> bool {
        let now = (self.0.clock)();
        let mut state = self.state();
        state.steps = state.steps.saturating_add(1);
        state.updated = Some(now);
        let trained = now.saturating_sub(state.begun.unwrap_or(now)).saturating_sub(state.tails);
        // Until the first evaluation has ended, it is assumed to take half as long as the steps
        // before it.
        let tail = state.tail.unwrap_or(trained / 2);
        let step = trained / state.steps;
        let next = if evaluates { step.saturating_add(tail) } else { step };
        let end = [tail, next, state.checkpoint].into_iter().fold(now, Duration::saturating_add);
        state.is_over |= end > self.0.limit;
        state.is_over
    }

    /// Records the end of a step, after its evaluation and checkpoint.
    pub(crate) fn ended(&self) {
        let now = (self.0.clock)();
        let mut state = self.state();
        if let Some(updated) = state.updated.take() {
            let tail = now.saturating_sub(updated);
            state.tails = state.tails.saturating_add(tail);
            state.tail = Some(state.tail.map_or(tail, |longest| longest.max(tail)));
        }
    }

    /// Returns true if the training has to pause because of the time limit.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.state().is_over
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// Returns the number of epochs until a training pauses whose epochs train, then evaluate, for
    /// this number of milliseconds each. It starts after 200 ms.
    fn epochs(limit_ms: u64, (train, evaluate): (u64, u64), weights: u64) -> u32 {
        let now = Arc::new(AtomicU64::new(200));
        let clock = now.clone();
        let budget = Budget::new(
            Duration::from_millis(limit_ms),
            Box::new(move || Duration::from_millis(clock.load(Ordering::Relaxed))),
        );
        budget.begin(weights);
        for epoch in 1.. {
            now.fetch_add(train, Ordering::Relaxed);
            let pauses = budget.updated(true);
            assert_eq!(pauses, budget.is_over());
            now.fetch_add(evaluate, Ordering::Relaxed);
            budget.ended();
            if pauses {
                return epoch;
            }
        }
        0
    }

    #[test]
    fn a_training_pauses_before_the_epoch_that_does_not_fit() {
        // 200 ms to start, then epochs of 150 ms: the sixth would end at 1,100 ms.
        assert_eq!(epochs(1099, (100, 50), 0), 5);
        assert_eq!(epochs(1100, (100, 50), 0), 6);
        // The first epoch always runs, so that each invocation has made progress.
        assert_eq!(epochs(100, (100, 50), 0), 1);
        assert_eq!(epochs(0, (1, 0), 0), 1);
    }

    #[test]
    fn the_time_of_a_checkpoint_is_reserved() {
        // 2 Mi weights are 32 MiB of checkpoint, one second.
        assert_eq!(epochs(2099, (100, 50), 2 << 20), 5);
        assert_eq!(epochs(2100, (100, 50), 2 << 20), 6);
    }

    #[test]
    fn clocks_begin_with_the_invocation() {
        let since = Instant::now().checked_sub(Duration::from_secs(5)).unwrap();
        assert!((Budget::real(Duration::from_secs(1), since).0.clock)() >= Duration::from_secs(5));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_share_of_a_processor_makes_time_pass_faster() {
        let [half, whole] = [0.5, 1.0].map(|share| Budget::processor(Duration::from_secs(1), share).unwrap());
        let begun = Instant::now();
        while (whole.0.clock)() < Duration::from_millis(50) && begun.elapsed() < Duration::from_secs(10) {
            std::hint::black_box((0..10_000_u64).sum::<u64>());
        }
        assert!((half.0.clock)() >= Duration::from_millis(90), "{:?}", (half.0.clock)());
    }

    /// Trains in links (one invocation each) until the training ends. The clock of a link advances
    /// by 10 ms at each reading.
    fn chain(
        config: &eciton_recipe::Config,
        (seeds, pause_after, limit_ms): (u32, Option<u32>, u64),
        out: &std::path::Path,
    ) -> (eciton_runs::report::Summary, Vec<(u64, u32)>) {
        use eciton_runs::report::Silent;
        let mut links = Vec::new();
        for _ in 0..100 {
            let reads = AtomicU64::new(0);
            let clock = move || Duration::from_millis(10 * reads.fetch_add(1, Ordering::Relaxed));
            let options = crate::Options {
                seeds,
                out: Some(out.to_owned()),
                pause_after,
                budget: Some(Budget::new(Duration::from_millis(limit_ms), Box::new(clock))),
                ..crate::Options::default()
            };
            let ended = match crate::checkpoint::is_resumable(out) {
                true => crate::resume(out, false, &options, &mut Silent),
                false => crate::train(config, &options, &mut Silent),
            };
            match ended {
                Ok(summary) => return (summary, links),
                Err(crate::Error::Paused { seed, epoch, .. }) => links.push((seed, epoch)),
                Err(error) => unreachable!("{error}"),
            }
        }
        unreachable!("a chain of 100 links: {links:?}")
    }

    #[test]
    fn a_chain_computes_the_bits_of_an_unbroken_run() {
        let dir = tempfile::tempdir().unwrap();
        let mut config = eciton_recipe::Config::default();
        config.run.epochs = 7;
        let options = crate::Options { seeds: 2, ..crate::Options::default() };
        let whole = crate::train(&config, &options, &mut crate::Silent).unwrap();
        let digests = |summary: &crate::Summary| -> Vec<String> {
            summary.seeds.iter().map(|seed| seed.model_digest.clone()).collect()
        };
        // One epoch per link, several epochs per link, and no pause.
        for (limit_ms, most) in [(0, 1), (100, 4), (100_000, 14)] {
            let out = dir.path().join(format!("run-{limit_ms}"));
            let (summary, links) = chain(&config, (2, None, limit_ms), &out);
            assert_eq!(digests(&summary), digests(&whole), "{links:?}");
            assert!(!summary.stopped && summary.seeds.iter().all(|seed| seed.epochs == 7));
            let epochs: Vec<u32> = links.iter().map(|&(seed, epoch)| seed as u32 * 7 + epoch).collect();
            assert!(
                epochs.windows(2).all(|pair| pair[0] < pair[1] && pair[1] <= pair[0] + most),
                "{links:?}"
            );
            match most {
                // The results of each seed are computed after its last epoch, in the next link.
                1 => assert_eq!(epochs, (1..=14).collect::<Vec<_>>()),
                14 => assert!(links.is_empty()),
                _ => assert!(links.len() >= 3, "{links:?}"),
            }
        }
    }

    #[test]
    fn a_chain_may_pause_within_epochs() {
        let dir = tempfile::tempdir().unwrap();
        let mut config = eciton_recipe::Config::default();
        config.run.epochs = 2;
        config.set("batch.sampler=walk").unwrap();
        config.set("batch.rows=64").unwrap();
        let whole = crate::train(&config, &crate::Options::default(), &mut crate::Silent).unwrap();
        // One step per link, of three per epoch.
        let (summary, links) = chain(&config, (1, None, 0), &dir.path().join("run"));
        assert_eq!(summary.model_digest, whole.model_digest, "{links:?}");
        assert_eq!(links.iter().map(|(_, epoch)| *epoch).collect::<Vec<_>>(), [0, 0, 1, 1, 1, 2]);
    }

    #[test]
    fn a_rung_that_takes_several_links_ends_at_its_epoch() {
        let dir = tempfile::tempdir().unwrap();
        let mut config = eciton_recipe::Config::default();
        config.run.epochs = 9;
        let whole = crate::train(&config, &crate::Options::default(), &mut crate::Silent).unwrap();
        let out = dir.path().join("run");
        let (rung, links) = chain(&config, (1, Some(5), 100), &out);
        assert!(rung.stopped && rung.seeds[0].epochs == 5 && !links.is_empty(), "{links:?}");
        let (summary, _) = chain(&config, (1, None, 100), &out);
        assert_eq!((summary.seeds[0].epochs, &summary.model_digest), (9, &whole.model_digest));
    }

    #[test]
    fn without_checkpoints_a_training_that_does_not_fit_fails() {
        let dir = tempfile::tempdir().unwrap();
        let mut config = eciton_recipe::Config::default();
        (config.run.epochs, config.checkpoint.every, config.checkpoint.seconds) = (3, 0.into(), 0);
        let options = crate::Options {
            out: Some(dir.path().join("run")),
            budget: Some(Budget::new(Duration::ZERO, Box::new(|| Duration::from_secs(1)))),
            ..crate::Options::default()
        };
        let error = crate::train(&config, &options, &mut crate::Silent).unwrap_err().to_string();
        assert!(error.contains("checkpoint.seconds") && error.contains("executor.timeout_s"), "{error}");
    }
}

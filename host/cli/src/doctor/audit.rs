//! The option `eciton doctor --audit`, which repeats a training and memory tests on all processors.
//! Every repetition must give bit-identical results.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use eciton_recipe::Config;
use eciton_train::{IN_MEMORY, Options, Silent};

use crate::failure::Failure;

/// Maximum memory that each thread fills and reads back, in bytes.
const MEMORY_BYTES: u64 = 256 << 20;

/// Results of the audit, summed over all threads.
#[derive(Debug, Default)]
pub(super) struct Tested {
    /// Number of trainings that were repeated.
    pub(super) trainings: u64,
    /// Number of trainings whose model differs from that of the first training.
    pub(super) wrong: u64,
    /// Number of bytes of memory that were filled and read back.
    pub(super) bytes: u64,
    /// Number of bytes of memory whose value differed when it was read back.
    pub(super) wrong_bytes: u64,
}

/// Results of the audit so far, which all threads update.
#[derive(Default)]
struct Counts {
    trainings: AtomicU64,
    wrong: AtomicU64,
    bytes: AtomicU64,
    wrong_bytes: AtomicU64,
}

/// Trains a GCN on Cora for 5 epochs on one thread, and returns the digest of the trained model.
fn train() -> Result<String, Failure> {
    let mut config = Config::default();
    (config.run.threads, config.run.epochs, config.run.eval_every) = (Some(1), 5, 5.into());
    let cora = eciton_train::open(&config.data).map_err(|error| Failure::attempt(&error))?;
    config.data.source = IN_MEMORY.to_owned();
    let summary = eciton_train::train_on(cora, &config, &Options::default(), &mut Silent);
    Ok(summary.map_err(|error| Failure::attempt(&error))?.model_digest)
}

/// Returns the test pattern of the memory word at index `at`. The pattern differs in each `turn`,
/// which is a pass over the memory.
fn pattern(at: u64, turn: u64) -> u64 {
    (at ^ turn << 32).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(31)
}

/// Fills `memory` with the pattern of `turn`, reads it back, and returns the number of wrong bytes.
fn fill(memory: &mut [u64], turn: u64) -> u64 {
    (0..).zip(memory.iter_mut()).for_each(|(at, word)| *word = pattern(at, turn));
    let differs = |(at, word): (u64, &u64)| {
        let changed = std::hint::black_box(*word) ^ pattern(at, turn);
        changed.to_le_bytes().iter().filter(|byte| **byte != 0).count() as u64
    };
    (0..).zip(std::hint::black_box(&*memory)).map(differs).sum()
}

/// Runs the audit on `threads` threads for the given number of seconds. Each thread tests at most a
/// quarter of its share of the machine's `memory`, which is in bytes.
///
/// # Errors
/// Returns the failure of a training that could not be completed.
pub(super) fn run(seconds: u32, threads: usize, memory: Option<u64>) -> Result<Tested, Failure> {
    let end = Instant::now() + Duration::from_secs(seconds.into());
    let expected = train()?;
    let threads = threads.max(1);
    let share = memory.map_or(MEMORY_BYTES, |bytes| bytes / 4 / threads as u64).min(MEMORY_BYTES);
    let words = usize::try_from(share / 8).unwrap_or(0);
    let counts = Counts::default();
    let work = |thread: u64| -> Result<(), Failure> {
        let mut memory = vec![0; words];
        let mut turn = thread;
        loop {
            let same = train()? == expected;
            counts.trainings.fetch_add(1, Ordering::Relaxed);
            counts.wrong.fetch_add(u64::from(!same), Ordering::Relaxed);
            counts.wrong_bytes.fetch_add(fill(&mut memory, turn), Ordering::Relaxed);
            counts.bytes.fetch_add(share, Ordering::Relaxed);
            turn += threads as u64;
            if Instant::now() >= end {
                return Ok(());
            }
        }
    };
    std::thread::scope(|scope| {
        let work = &work;
        let all: Vec<_> = (0..threads as u64).map(|thread| scope.spawn(move || work(thread))).collect();
        let ended = all
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        ended.collect::<Result<(), Failure>>()
    })?;
    let Counts { trainings, wrong, bytes, wrong_bytes } = counts;
    Ok(Tested {
        trainings: trainings.into_inner(),
        wrong: wrong.into_inner(),
        bytes: bytes.into_inner(),
        wrong_bytes: wrong_bytes.into_inner(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_byte_is_found() {
        let mut memory = vec![0; 1000];
        assert_eq!(fill(&mut memory, 3), 0);
        assert_eq!(memory[7], pattern(7, 3));
        assert_ne!(pattern(7, 3), pattern(7, 4));
        assert_ne!(pattern(7, 3), pattern(8, 3));
    }
}

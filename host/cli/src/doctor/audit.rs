//! `eciton doctor --audit`: repeats the same trainings and the same patterns in memory on all
//! processors. Every repetition must give the same bits.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use eciton_recipe::Config;
use eciton_train::{IN_MEMORY, Options, Silent};

use crate::failure::Failure;

/// Bytes of memory that a thread fills and reads again.
const MEMORY_BYTES: u64 = 256 << 20;

/// Counts of a test of this machine.
#[derive(Debug, Default)]
pub(super) struct Tested {
    /// Number of trainings.
    pub(super) trainings: u64,
    /// Trainings whose model differs from that of the first one.
    pub(super) wrong: u64,
    /// Bytes of memory that were filled and read.
    pub(super) bytes: u64,
    /// Bytes that were read with another value.
    pub(super) wrong_bytes: u64,
}

#[derive(Default)]
struct Counts {
    trainings: AtomicU64,
    wrong: AtomicU64,
    bytes: AtomicU64,
    wrong_bytes: AtomicU64,
}

/// Returns the digest of the model of a short training on one thread.
fn train() -> Result<String, Failure> {
    let mut config = Config::default();
    (config.run.threads, config.run.epochs, config.run.eval_every) = (Some(1), 5, 5);
    let cora = eciton_train::open(&config.data).map_err(|error| Failure::attempt(&error))?;
    config.data.source = IN_MEMORY.to_owned();
    let summary = eciton_train::train_on(cora, &config, &Options::default(), &mut Silent);
    Ok(summary.map_err(|error| Failure::attempt(&error))?.model_digest)
}

/// Returns the pattern of a word of memory in a turn.
fn pattern(at: u64, turn: u64) -> u64 {
    (at ^ turn << 32).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(31)
}

/// Fills memory with a pattern, reads it, and returns the number of bytes that differ.
fn fill(memory: &mut [u64], turn: u64) -> u64 {
    (0..).zip(memory.iter_mut()).for_each(|(at, word)| *word = pattern(at, turn));
    let differs = |(at, word): (u64, &u64)| {
        let changed = std::hint::black_box(*word) ^ pattern(at, turn);
        changed.to_le_bytes().iter().filter(|byte| **byte != 0).count() as u64
    };
    (0..).zip(std::hint::black_box(&*memory)).map(differs).sum()
}

/// Tests all processors for the given time.
///
/// # Errors
/// The error of a training that fails.
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

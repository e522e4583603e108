//! Measures the share of its limits that a kernel uses, and growth over repeated calls.

use std::time::{Duration, Instant};

use super::Trial;
use crate::error::Result;
use crate::instance::Instance;
use crate::state::Peak;

/// Rounds after which what was used is compared; the last pair only where the first differs, since an
/// allocator may settle late, once.
const ROUNDS: [usize; 3] = [5, 20, 40];

/// The most that a call used of what is limited ([`Limits`](crate::Limits)).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Used {
    /// Linear memory of the instance, bytes.
    pub guest_memory_bytes: usize,
    /// Scratch matrices, handles, bytes of a host call.
    pub peak: Peak,
    /// Seconds of one call.
    pub seconds: f64,
}

/// Result of [`Trial::usage`].
#[derive(Debug, Clone, PartialEq)]
pub struct Usage {
    /// The most in any round.
    pub used: Used,
    /// Number of calls of each function.
    pub rounds: usize,
    /// The limit that was reached, or what grows.
    pub broken: Option<String>,
}

impl Trial {
    /// Calls every function 20 times on one instance, fewer times where that takes longer than `budget`,
    /// but once: nothing may reach a limit, and the last calls may not need more than the first.
    ///
    /// # Errors
    /// What the kernel answers but for limits.
    pub fn usage(&self, budget: Duration) -> Result<Usage> {
        let begun = Instant::now();
        let mut rounds: Vec<Used> = Vec::new();
        let mut broken = None;
        let mut instance = Instance::new(self.layer.kernel())?;
        while broken.is_none() {
            let mut round = Used::default();
            let ran = self.ways().into_iter().try_for_each(|way| {
                let ran = self.run(&mut instance, way, true, &mut |_, call| {
                    let begun = Instant::now();
                    let finished = call()?;
                    round.seconds = round.seconds.max(begun.elapsed().as_secs_f64());
                    round.guest_memory_bytes = round.guest_memory_bytes.max(finished.guest_memory_bytes);
                    round.peak = round.peak.max(finished.peak);
                    Ok(())
                });
                ran.map(drop)
            });
            match ran {
                Err(error) if error.is_limit() => broken = Some(error.to_string()),
                other => other?,
            }
            rounds.push(round);
            let at = |round: usize| rounds.get(round - 1);
            match ROUNDS.map(at) {
                [Some(early), Some(late), None] if grown(early, late).is_none() => break,
                [_, Some(early), Some(late)] => {
                    broken = grown(early, late);
                    break;
                }
                _ if begun.elapsed() > budget => break,
                _ => {}
            }
        }
        let mut used = Used::default();
        for round in &rounds {
            used.guest_memory_bytes = used.guest_memory_bytes.max(round.guest_memory_bytes);
            used.peak = used.peak.max(round.peak);
            used.seconds = used.seconds.max(round.seconds);
        }
        Ok(Usage { used, rounds: rounds.len(), broken })
    }
}

/// Returns a description of the resource that a later round used more of than an earlier one.
fn grown(early: &Used, late: &Used) -> Option<String> {
    let [_, from, to] = ROUNDS;
    let pairs = [
        ("bytes of guest memory", early.guest_memory_bytes as u64, late.guest_memory_bytes as u64),
        ("bytes of scratch matrices", early.peak.matrix_bytes, late.peak.matrix_bytes),
        ("handles", early.peak.handles, late.peak.handles),
    ];
    let (what, early, late) = pairs.into_iter().find(|(_, early, late)| late > early)?;
    Some(format!("the same calls need more and more: {early} {what} in round {from}, {late} in round {to}"))
}

//! Measurement of the resources that a kernel uses, which also detects growth over repeated calls.

use std::time::{Duration, Instant};

use super::Trial;
use crate::error::Result;
use crate::instance::Instance;
use crate::state::Peak;

/// Numbers of the rounds after which the usage is compared. If the first two differ, the last two
/// decide, because an allocator may need time to settle.
const ROUNDS: [usize; 3] = [5, 20, 40];

/// Peak use of limited resources by one call of a kernel function ([`Limits`](crate::Limits)).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Used {
    /// Size of the instance's linear memory, in bytes.
    pub guest_memory_bytes: usize,
    /// Peak size of scratch matrices, number of handles, and bytes that one host call copied.
    pub peak: Peak,
    /// Longest duration of one call, in seconds.
    pub seconds: f64,
}

/// Result of [`Trial::usage`], with the peak resource use and the first problem that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Usage {
    /// Peak use of each resource over all rounds.
    pub used: Used,
    /// Number of rounds. Each round calls every function once.
    pub rounds: usize,
    /// Description of the limit that was exceeded, or of the resource whose use grows from round to
    /// round. `None` if there is no problem.
    pub broken: Option<String>,
}

impl Trial {
    /// Calls every function 20 times on one instance, or 40 times if the usage has grown by then.
    /// It makes fewer calls if they take longer than `budget`, but at least one. The result reports
    /// whether a limit was exceeded, and whether later calls use more than earlier ones.
    ///
    /// # Errors
    /// Returns the error of the kernel, unless a limit caused it.
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

/// Returns a description of the first resource whose use grew from `early` to `late`, or `None`.
fn grown(early: &Used, late: &Used) -> Option<String> {
    let [_, from, to] = ROUNDS;
    let pairs = [
        ("bytes of guest memory", early.guest_memory_bytes as u64, late.guest_memory_bytes as u64),
        ("bytes of scratch matrices", early.peak.matrix_bytes, late.peak.matrix_bytes),
        ("handles", early.peak.handles, late.peak.handles),
    ];
    let (what, early, late) = pairs.into_iter().find(|(_, early, late)| late > early)?;
    Some(format!(
        "the same calls use more {what} from round to round: {early} in round {from}, {late} in round {to}"
    ))
}

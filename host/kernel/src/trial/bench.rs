//! Measurement of the time that a kernel's functions take.

use std::time::{Duration, Instant};

use super::Trial;
use crate::error::Result;
use crate::instance::Instance;

/// Durations of repeated calls of one kernel function.
#[derive(Debug, Clone, PartialEq)]
pub struct Timed {
    /// Name of the function in the kernel contract, for instance `forward`.
    pub function: &'static str,
    /// Duration of each call, in seconds, in ascending order.
    pub seconds: Vec<f64>,
    /// Number of bytes that one call copies between the host and the guest.
    pub copied_bytes: u64,
}

impl Timed {
    /// Returns a quantile of the durations, in seconds. For instance, 0.5 gives the median.
    pub fn quantile(&self, share: f64) -> f64 {
        let last = self.seconds.len().saturating_sub(1);
        self.seconds.get((share * last as f64).round() as usize).copied().unwrap_or(0.0)
    }
}

/// Result of [`Trial::bench`], with the durations of a kernel's functions and its memory use.
#[derive(Debug, Clone, PartialEq)]
pub struct Bench {
    /// Durations of each function. Every call processes all rows of the trial, on one thread and a
    /// warm instance.
    pub functions: Vec<Timed>,
    /// Size of the instance's linear memory at the end of the benchmark, in bytes.
    pub guest_memory_bytes: usize,
    /// Time to create a new instance of the kernel, in seconds.
    pub instance_seconds: f64,
}

impl Trial {
    /// Calls each function repeatedly for about the duration `budget`, but at least three times.
    ///
    /// # Errors
    /// Returns the error of the kernel.
    pub fn bench(&self, budget: Duration) -> Result<Bench> {
        let begun = Instant::now();
        let mut instance = Instance::new(self.layer.kernel())?;
        let instance_seconds = begun.elapsed().as_secs_f64();
        let mut functions: Vec<Timed> = Vec::new();
        let mut guest_memory_bytes = 0;
        for way in self.ways() {
            // The first call is not measured, because memory grows and pages are touched.
            self.run(&mut instance, way, true, &mut |_, call| call().map(drop))?;
            let begun = Instant::now();
            let mut rounds = 0;
            while rounds < 3 || begun.elapsed() < budget {
                rounds += 1;
                self.run(&mut instance, way, true, &mut |function, call| {
                    let begun = Instant::now();
                    let finished = call()?;
                    let seconds = begun.elapsed().as_secs_f64();
                    guest_memory_bytes = guest_memory_bytes.max(finished.guest_memory_bytes);
                    match functions.iter_mut().find(|timed| timed.function == function) {
                        Some(timed) => timed.seconds.push(seconds),
                        None => functions.push(Timed {
                            function,
                            seconds: vec![seconds],
                            copied_bytes: finished.copied_bytes,
                        }),
                    }
                    Ok(())
                })?;
            }
        }
        functions.iter_mut().for_each(|timed| timed.seconds.sort_by(f64::total_cmp));
        Ok(Bench { functions, guest_memory_bytes, instance_seconds })
    }
}

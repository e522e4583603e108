//! Reference product: a fixed computation that is timed next to the work of functions. It corrects
//! their processor time for load.
//!
//! Processor time is the time on a processor, not the amount of work done in it. The same work
//! takes more processor time if another program runs on the other thread of the core, or if load
//! lowers the clock frequency. A thread therefore times a fixed product on the processor of an
//! instance at regular intervals. The shortest time so far, divided by the current one, is the
//! correction factor for the instance's processor time.

use crate::instance::Instance;
use crate::pool::Pool;
use crate::processor;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Time between two measurements.
const INTERVAL: Duration = Duration::from_millis(15);
/// Number of rows and of columns of the matrices.
const SIDE: usize = 48;
/// Number of measurements at the start. Their shortest time is the first reference.
const FIRST: usize = 200;
/// Minimum correction factor. Smaller values are considered measurement errors.
const LEAST: f64 = 0.5;

/// Number of values that each measurement sums up. They exceed the first-level cache of a core.
const SUMMED: usize = 64 << 10;

/// Data of the reference product: two matrices, their product, and values to sum up.
struct Product {
    many: Vec<f32>,
    a: Vec<f32>,
    b: Vec<f32>,
    c: Vec<f32>,
}

impl Product {
    fn new() -> Self {
        let fill = |by: f32| (0..SIDE * SIDE).map(|i| (i as f32 * by).sin()).collect();
        Self { many: vec![1.0; SUMMED], a: fill(0.37), b: fill(0.11), c: vec![0.0; SIDE * SIDE] }
    }

    fn compute(&mut self) {
        self.c.fill(0.0);
        for (row, sums) in self.a.chunks_exact(SIDE).zip(self.c.chunks_exact_mut(SIDE)) {
            for (factor, values) in row.iter().zip(self.b.chunks_exact(SIDE)) {
                for (sum, value) in sums.iter_mut().zip(values) {
                    *sum += factor * value;
                }
            }
        }
        std::hint::black_box(&mut self.c);
        std::hint::black_box(self.many.iter().sum::<f32>());
    }

    /// Returns the processor time of one product whose data are in the cache, or `None` if the
    /// system does not report it.
    fn time(&mut self) -> Option<Duration> {
        self.compute();
        let begun = processor::time_of_thread()?;
        (0..4).for_each(|_| self.compute());
        Some(processor::time_of_thread()?.saturating_sub(begun) / 4)
    }
}

/// Starts the thread that measures, which ends with the pool. If the system lacks the necessary
/// clocks, the thread ends immediately, and all factors are 1.
pub(crate) fn start(pool: &Arc<Pool>) -> std::io::Result<()> {
    let pool = Arc::downgrade(pool);
    std::thread::Builder::new().name("emulator-reference".into()).spawn(move || compare(&pool)).map(drop)
}

fn compare(pool: &Weak<Pool>) {
    let mut product = Product::new();
    let Some(mut least) = (0..FIRST).filter_map(|_| product.time()).min() else { return };
    let mut turn = 0usize;
    loop {
        std::thread::sleep(INTERVAL);
        let Some(pool) = pool.upgrade() else { return };
        let busy: Vec<Arc<Instance>> = pool.instances().into_iter().filter(|one| one.busy()).collect();
        drop(pool);
        if busy.is_empty() {
            continue;
        }
        turn = turn.wrapping_add(1);
        let Some(instance) = busy.get(turn % busy.len()) else { continue };
        if !processor::processor_of(instance.pid).is_some_and(processor::move_to) {
            continue;
        }
        let Some(time) = product.time() else { return };
        least = least.min(time);
        let factor = least.as_secs_f64() / time.as_secs_f64().max(1e-9);
        // All busy instances share the processors with this one.
        busy.iter().for_each(|instance| instance.compare(factor.clamp(LEAST, 1.0)));
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_product_takes_time() {
        let mut product = Product::new();
        let time = product.time().unwrap();
        assert!(time > Duration::from_micros(1) && time < Duration::from_millis(50), "{time:?}");
        let by_hand: f32 = (0..SIDE).map(|k| product.a[k] * product.b[k * SIDE]).sum();
        assert!((product.c[0] - by_hand).abs() < 1e-3);
    }
}

//! Processor time that this process has used.

#![cfg_attr(unix, allow(unsafe_code))]

use std::time::Duration;

/// Returns the processor time of all threads of this process, including threads that have ended.
/// Returns `None` if the system has no such clock.
#[cfg(unix)]
#[must_use]
pub fn time() -> Option<Duration> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes only to the structure that it receives.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) } != 0;
    if failed {
        return None;
    }
    Some(Duration::new(u64::try_from(time.tv_sec).ok()?, u32::try_from(time.tv_nsec).ok()?))
}

/// Returns `None`, because this operating system has no clock of processor time.
#[cfg(not(unix))]
#[must_use]
pub fn time() -> Option<Duration> {
    None
}

#[cfg(all(test, unix))]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn processor_time_grows_with_work_and_counts_threads_that_have_ended() {
        let before = time().unwrap();
        let busy = std::thread::spawn(|| {
            let begun = std::time::Instant::now();
            let mut sum = 0u64;
            while begun.elapsed() < Duration::from_millis(50) {
                sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(7));
            }
        });
        busy.join().unwrap();
        let used = time().unwrap() - before;
        assert!(used > Duration::from_millis(2), "{used:?}");
    }
}

//! Processor time of processes and threads, and the processors on which they run.

#![cfg_attr(target_os = "linux", allow(unsafe_code))]

use std::time::Duration;

/// Returns the processor time of all threads of the process `pid`, including threads that have
/// ended. Returns `None` if the process has ended, or on systems other than Linux.
#[cfg(target_os = "linux")]
pub fn time_of(pid: u32) -> Option<Duration> {
    let mut clock: libc::clockid_t = 0;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let pid = libc::pid_t::try_from(pid).ok()?;
    // SAFETY: both calls write only to the variable that is passed to them.
    let failed = unsafe {
        libc::clock_getcpuclockid(pid, &raw mut clock) != 0 || libc::clock_gettime(clock, &raw mut time) != 0
    };
    if failed {
        return None;
    }
    Some(Duration::new(u64::try_from(time.tv_sec).ok()?, u32::try_from(time.tv_nsec).ok()?))
}

/// Returns `None`, because the processor time of another process is read only on Linux.
#[cfg(not(target_os = "linux"))]
pub fn time_of(_pid: u32) -> Option<Duration> {
    None
}

/// Returns the processor time of the calling thread, or `None` if the system does not report it.
#[cfg(target_os = "linux")]
pub(crate) fn time_of_thread() -> Option<Duration> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes only to the variable that is passed to it.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) } != 0;
    if failed {
        return None;
    }
    Some(Duration::new(u64::try_from(time.tv_sec).ok()?, u32::try_from(time.tv_nsec).ok()?))
}

/// Returns `None`, because the processor time of a thread is read only on Linux.
#[cfg(not(target_os = "linux"))]
pub(crate) fn time_of_thread() -> Option<Duration> {
    None
}

/// Moves the calling thread to the processor with this number. Returns true on success.
#[cfg(target_os = "linux")]
pub(crate) fn move_to(processor: usize) -> bool {
    if processor >= libc::CPU_SETSIZE as usize {
        return false;
    }
    // SAFETY: an all-zero set is a valid empty set. The number is below the size of the set. The
    // call only reads the set.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(processor, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) == 0
    }
}

/// Returns `false`, because threads are moved only on Linux.
#[cfg(not(target_os = "linux"))]
pub(crate) fn move_to(_processor: usize) -> bool {
    false
}

/// Returns the number of the processor on which the process `pid` last ran, if known.
pub(crate) fn processor_of(pid: u32) -> Option<usize> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program's name is in parentheses and may contain blanks. Field 39 is counted from before
    // the name.
    stat.rsplit_once(')')?.1.split_whitespace().nth(36)?.parse().ok()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn processor_time_counts_threads_that_have_ended() {
        let own = std::process::id();
        let before = time_of(own).unwrap();
        let busy = std::thread::spawn(|| {
            let begun = std::time::Instant::now();
            let mut sum = 0u64;
            while begun.elapsed() < Duration::from_millis(50) {
                sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(7));
            }
        });
        busy.join().unwrap();
        let used = time_of(own).unwrap() - before;
        assert!(used > Duration::from_millis(5), "{used:?}");
        assert!(processor_of(own).is_some());
    }

    #[test]
    fn a_process_that_is_not_there_has_no_time() {
        assert_eq!(time_of(0x7fff_fff0), None);
        assert_eq!(processor_of(0x7fff_fff0), None);
    }
}

//! Processor time of this process, as Linux reports it.

use std::time::Duration;

/// Milliseconds of a clock tick in files of /proc. The value is the same on every Linux that Eciton
/// supports.
const MS_PER_TICK: u64 = 10;

/// Returns the processor time that all threads of this process have used, ended threads included.
/// Its resolution is 10 ms. `None` if the system does not report it.
pub fn time() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    Some(Duration::from_millis(ticks(&stat)?.saturating_mul(MS_PER_TICK)))
}

/// Returns the sum of user and system time in a line of `/proc/PID/stat`, ticks.
fn ticks(stat: &str) -> Option<u64> {
    // The program's name is in parentheses and may hold spaces and parentheses.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    next()?.checked_add(next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_system_time_follow_the_name() {
        let line = "12 (a) b (c) R 1 2 3 4 5 6 7 8 9 10 250 31 0 0 20 0 4 0 1 2 3";
        assert_eq!(ticks(line), Some(281));
        assert_eq!(ticks("12 (a) R 1 2 3"), None);
        assert_eq!(ticks("12 a R 1 2 3 4 5 6 7 8 9 10 11 12"), None);
        assert_eq!(ticks(""), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn work_of_a_thread_that_has_ended_counts() {
        let before = time().unwrap();
        let work = move || {
            let begun = std::time::Instant::now();
            while begun.elapsed() < Duration::from_secs(5)
                && time().unwrap() < before + Duration::from_millis(30)
            {
                std::hint::black_box((0..10_000_u64).sum::<u64>());
            }
        };
        std::thread::spawn(work).join().unwrap();
        assert!(time().unwrap() >= before + Duration::from_millis(30));
    }
}

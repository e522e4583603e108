//! Detection of stragglers, which are calls that take much longer than others.

use std::time::Duration;

use eciton_recipe::Executor;

/// Maximum number of attempts at a call, not counting throttled attempts.
pub(super) const ATTEMPTS: u32 = 10;
/// Progress of one call.
#[derive(Debug, Clone, Default)]
pub(super) struct State {
    /// Number of earlier calls in the chain of calls that this one continues.
    pub(super) link: u32,
    /// Time at which the first attempt started, or `None` if none has started.
    pub(super) begun: Option<Duration>,
    pub(super) attempts: u32,
    pub(super) throttled: u32,
    pub(super) under: u32,
    pub(super) ended: bool,
}

/// Time limits after which a call is a straggler, from `executor.deadline_ms` and
/// `executor.deadline_ratio`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadline {
    /// Minimum duration of a straggler.
    pub(super) floor: Duration,
    /// Minimum duration of a straggler as a multiple of the median duration of answered calls.
    pub(super) ratio: f64,
}

impl Deadline {
    /// Returns the limits that the settings of an executor define.
    pub(super) fn from_executor(executor: &Executor) -> Self {
        Self { floor: Duration::from_millis(executor.deadline_ms), ratio: executor.deadline_ratio }
    }
}

/// Returns the median of the durations `took`, or `None` if there are none.
pub(super) fn median(took: &mut [Duration]) -> Option<Duration> {
    let middle = took.len() / 2;
    if took.is_empty() {
        return None;
    }
    Some(*took.select_nth_unstable(middle).1)
}

/// Returns the duration after which a call is a straggler, or `None` if no call was answered yet.
pub(super) fn late_after(took: &mut [Duration], deadline: Deadline) -> Option<Duration> {
    Some(deadline.floor.max(median(took)?.mul_f64(deadline.ratio)))
}

/// Returns true if a call has exactly one attempt in flight and may have another one.
pub(super) fn is_single(state: &State) -> bool {
    !state.ended && state.under == 1 && state.attempts < ATTEMPTS
}

/// Returns the index of a straggler that may have a second attempt.
pub(super) fn straggler(
    states: &[State],
    took: &mut [Duration],
    (now, deadline): (Duration, Deadline),
) -> Option<usize> {
    let late = late_after(took, deadline)?;
    let is_late = |state: &State| state.begun.is_some_and(|begun| now >= begun + late);
    states.iter().position(|state| is_single(state) && is_late(state))
}

/// Returns the time at which the next call becomes a straggler, if any will.
pub(super) fn next_late(
    states: &[State],
    took: &mut [Duration],
    (now, deadline): (Duration, Deadline),
) -> Option<Duration> {
    let late = late_after(took, deadline)?;
    let times = states.iter().filter(|state| is_single(state)).filter_map(|state| Some(state.begun? + late));
    times.filter(|time| *time > now).min()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_call_is_a_straggler_after_both_times() {
        let second = Duration::from_secs(1);
        let state = State { begun: Some(second), under: 1, ..State::default() };
        let find = |took: &[u64], floor_ms, ratio| {
            let mut took: Vec<Duration> = took.iter().map(|&ms| Duration::from_millis(ms)).collect();
            let at = (2 * second, Deadline { floor: Duration::from_millis(floor_ms), ratio });
            let states = std::slice::from_ref(&state);
            (straggler(states, &mut took, at), next_late(states, &mut took, at).map(|time| time.as_millis()))
        };
        assert_eq!(find(&[100, 90, 5000], 500, 4.0), (Some(0), None), "the median is 100 ms");
        assert_eq!(find(&[100, 90, 5000], 9000, 4.0), (None, Some(10_000)), "not before the floor");
        assert_eq!(find(&[400, 400], 500, 4.0), (None, Some(2600)), "not before so many times the median");
        assert_eq!(find(&[], 0, 4.0), (None, None), "nothing has answered");
        let states = [State { under: 2, ..state.clone() }, State { ended: true, ..state.clone() }];
        let mut took = [Duration::from_millis(1)];
        let at = (2 * second, Deadline { floor: Duration::ZERO, ratio: 4.0 });
        assert_eq!(straggler(&states, &mut took, at), None, "one attempt more, and of what goes on");
    }
}

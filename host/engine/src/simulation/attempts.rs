//! Tests of single steps: which attempt wins, when more attempts follow, the counters, and settings
//! that are refused.

use super::{gcn, is_task};
use crate::{Action, Deadlines, Engine, Error, Event, MAX_ATTEMPTS, MAX_DEADLINE_US, Reason, Settings};
use eciton_types::{Attempt, Round, StageId, Task, TaskKey, Version};

fn took(key: TaskKey) -> Event {
    Event::Completed { key, took_us: 5000 }
}

fn step(engine: &mut Engine, event: Event) -> Vec<Action> {
    engine.step(event).collect()
}

fn first_task(engine: &mut Engine) -> TaskKey {
    let actions = step(engine, Event::Started);
    let Some(&Action::Submit(task)) = actions.first() else { panic!("{actions:?}") };
    task.key()
}

/// Returns an engine with deadlines and two attempts at its first task. The first attempt is
/// overdue, and the second was launched because of that.
fn two_alive(attempts: u32) -> (Engine, TaskKey, TaskKey) {
    let deadlines = Some(Deadlines::default());
    let mut engine = Engine::new(&gcn(1), Settings { attempts, deadlines, ..Settings::new(2, 3) }).unwrap();
    let old = first_task(&mut engine);
    let actions = step(&mut engine, Event::Overdue(old));
    let [Action::Relaunch(task)] = actions[..] else { panic!("{actions:?}") };
    assert_eq!((task.step(), task.attempt, task.weights), (old.step(), Attempt(1), Version(0)));
    (engine, old, task.key())
}

#[test]
fn a_task_is_tried_as_often_as_allowed_and_no_more() {
    let program = gcn(1);
    for attempts in [1, 2, 5, MAX_ATTEMPTS] {
        let settings = Settings { attempts, ..Settings::new(2, 3) };
        let mut engine = Engine::new(&program, settings).unwrap();
        let mut key = first_task(&mut engine);
        for _ in 1..attempts {
            let actions = step(&mut engine, Event::Failed { key, retryable: true });
            let [Action::Retry(task)] = actions[..] else { panic!("{actions:?}") };
            assert_eq!((task.step(), task.attempt.0), (key.step(), key.attempt.0 + 1));
            // The failure reported once more changes nothing.
            assert_eq!(step(&mut engine, Event::Failed { key, retryable: true }), []);
            key = task.key();
        }
        let reason = Reason::Failed { key, retryable: true };
        let end = [Action::Finished { reason, round: Round(0) }];
        assert_eq!(step(&mut engine, Event::Failed { key, retryable: true }), end);
        assert_eq!(engine.counters().retries, u64::from(attempts) - 1);
        // The other interval's task is answered too late.
        let other = TaskKey { interval: eciton_types::IntervalId(1), attempt: Attempt(0), ..key };
        assert_eq!(engine.counters().in_flight(), 1);
        assert!(step(&mut engine, took(key)).is_empty() && step(&mut engine, took(other)).is_empty());
        assert_eq!((engine.counters().late, engine.counters().in_flight()), (1, 0));
    }
    let mut engine = Engine::new(&program, Settings::new(2, 3)).unwrap();
    let key = first_task(&mut engine);
    let reason = Reason::Failed { key, retryable: false };
    let end = [Action::Finished { reason, round: Round(0) }];
    assert_eq!(step(&mut engine, Event::Failed { key, retryable: false }), end);
}

#[test]
fn the_first_answer_wins_even_of_an_attempt_that_was_given_up() {
    let mut engine = Engine::new(&gcn(1), Settings::new(2, 3)).unwrap();
    let old = first_task(&mut engine);
    let _ = step(&mut engine, Event::Failed { key: old, retryable: true });
    let new = TaskKey { attempt: Attempt(1), ..old };
    let future = TaskKey { attempt: Attempt(2), ..old };
    assert_eq!(step(&mut engine, took(future)), []);
    assert_eq!(engine.counters().unexpected, 1);
    assert!(engine.running().any(|key| key == new));
    assert_eq!(step(&mut engine, took(old)), [Action::Commit(old)]);
    assert_eq!((engine.counters().recovered, engine.counters().failures), (1, 1));
    assert_eq!(step(&mut engine, took(new)), []);
    assert_eq!(step(&mut engine, Event::Failed { key: new, retryable: false }), []);
    assert_eq!((engine.counters().duplicates, engine.counters().ignored), (1, 1));
    assert!(!engine.running().any(|key| key.step() == old.step()));
}

#[test]
fn an_overdue_attempt_stays_alive_beside_the_next() {
    let (mut engine, old, new) = two_alive(3);
    // Only the newest can be overdue, and once.
    assert_eq!(step(&mut engine, Event::Overdue(old)), []);
    let actions = step(&mut engine, Event::Overdue(new));
    let [Action::Relaunch(Task { attempt: Attempt(2), .. })] = actions[..] else { panic!("{actions:?}") };
    let last = TaskKey { attempt: Attempt(2), ..old };
    // No attempt is left.
    assert_eq!(step(&mut engine, Event::Overdue(last)), []);
    assert_eq!(step(&mut engine, Event::Overdue(last)), []);
    let counters = *engine.counters();
    assert_eq!((counters.overdue, counters.relaunches, counters.ignored), (3, 2, 2));
    assert_eq!(step(&mut engine, Event::Overdue(TaskKey { attempt: Attempt(3), ..old })), []);
    assert_eq!(engine.counters().unexpected, 1);
    // Whichever comes first.
    assert_eq!(step(&mut engine, took(new)), [Action::Commit(new)]);
    assert!(step(&mut engine, took(old)).is_empty() && step(&mut engine, Event::Overdue(last)).is_empty());
    assert_eq!(engine.counters().duplicates, 1);
}

#[test]
fn a_failure_beside_a_living_attempt_is_not_the_end() {
    let failed = |key| Event::Failed { key, retryable: true };
    // The straggler fails: the newest goes on, and is tried again on its own.
    let (mut engine, old, new) = two_alive(3);
    assert_eq!(step(&mut engine, failed(old)), []);
    let actions = step(&mut engine, failed(new));
    assert!(matches!(actions[..], [Action::Retry(Task { attempt: Attempt(2), .. })]), "{actions:?}");
    // The newest fails: the next follows at once, for nobody's timer runs any more.
    let (mut engine, old, new) = two_alive(3);
    let actions = step(&mut engine, failed(new));
    assert!(matches!(actions[..], [Action::Retry(Task { attempt: Attempt(2), .. })]), "{actions:?}");
    assert_eq!(step(&mut engine, took(old)), [Action::Commit(old)]);
    // It fails and none is left: the straggler may still save the run.
    let (mut engine, old, new) = two_alive(2);
    assert_eq!(step(&mut engine, failed(new)), []);
    assert_eq!(step(&mut engine, took(old)), [Action::Commit(old)]);
    // Or end it.
    let (mut engine, old, new) = two_alive(2);
    assert_eq!(step(&mut engine, failed(new)), []);
    let reason = Reason::Failed { key: old, retryable: true };
    assert_eq!(step(&mut engine, failed(old)), [Action::Finished { reason, round: Round(0) }]);
}

#[test]
fn a_failure_for_good_waits_for_an_attempt_in_time_and_for_no_other() {
    let failed = |key| Event::Failed { key, retryable: false };
    let end = |key| {
        let reason = Reason::Failed { key, retryable: false };
        [Action::Finished { reason, round: Round(0) }]
    };
    let (mut engine, old, new) = two_alive(4);
    assert_eq!(step(&mut engine, failed(old)), []);
    assert_eq!(step(&mut engine, took(new)), [Action::Commit(new)]);
    // No further attempt: neither after a deadline nor after a failure. The first cause is named.
    let (mut engine, old, new) = two_alive(4);
    assert_eq!(step(&mut engine, failed(old)), []);
    assert_eq!(step(&mut engine, Event::Overdue(new)), end(old));
    let (mut engine, old, new) = two_alive(4);
    assert_eq!(step(&mut engine, failed(old)), []);
    assert_eq!(step(&mut engine, Event::Failed { key: new, retryable: true }), end(old));
    // The newest is overdue, and none is left.
    let (mut engine, old, new) = two_alive(2);
    assert!(step(&mut engine, Event::Overdue(new)).is_empty());
    assert_eq!(step(&mut engine, failed(old)), end(old));
    // An overdue straggler is not waited for.
    let (mut engine, _, new) = two_alive(4);
    assert_eq!(step(&mut engine, failed(new)), end(new));
}

#[test]
fn a_deadline_follows_the_answers_of_its_stage() {
    let program = gcn(1);
    let deadlines = Deadlines { floor_us: 10, ratio: 2.0, maximum_us: 1_000_000 };
    let settings = Settings { deadlines: Some(deadlines), ..Settings::new(2, 3) };
    let mut engine = Engine::new(&program, settings).unwrap();
    let key = first_task(&mut engine);
    assert_eq!(engine.deadline_us(key.stage), Some(1_000_000));
    let _ = step(&mut engine, took(key));
    assert_eq!(engine.deadline_us(key.stage), Some(10_000));
    // Answers that are dropped do not count, and no other stage is touched.
    let _ = step(&mut engine, Event::Completed { key, took_us: 900_000 });
    assert_eq!(engine.deadline_us(key.stage), Some(10_000));
    for stage in 0..program.stages.len() as u16 + 2 {
        let expected = if stage == key.stage.0 { 10_000 } else { 1_000_000 };
        let expected = is_task(&program, StageId(stage)).then_some(expected);
        assert_eq!(engine.deadline_us(StageId(stage)), expected);
    }
    engine.restart(Round(1), Round(1), Version(0));
    assert_eq!(engine.deadline_us(key.stage), Some(10_000));
    let without = Engine::new(&program, Settings::new(2, 3)).unwrap();
    assert_eq!(without.deadline_us(key.stage), None);
}

/// Checks that a step of the host has only one attempt whatever fails, has no deadline, and is
/// counted separately.
#[test]
fn the_hosts_work_is_tried_once() {
    let deadlines = Some(Deadlines::default());
    for retryable in [false, true] {
        let mut engine = Engine::new(&gcn(1), Settings { deadlines, ..Settings::new(1, 3) }).unwrap();
        let first = first_task(&mut engine);
        let actions = step(&mut engine, took(first));
        let [Action::Commit(_), Action::Submit(gather)] = actions[..] else { panic!("{actions:?}") };
        let key = gather.key();
        assert_eq!((engine.deadline_us(key.stage), engine.counters().in_flight()), (None, 0));
        assert_eq!(step(&mut engine, Event::Overdue(key)), []);
        let reason = Reason::Failed { key, retryable };
        let end = [Action::Finished { reason, round: Round(0) }];
        assert_eq!(step(&mut engine, Event::Failed { key, retryable }), end);
        assert_eq!(step(&mut engine, took(key)), []);
        let counters = *engine.counters();
        assert_eq!((counters.host_steps, counters.tasks, counters.attempts()), (1, 1, 1));
        assert_eq!((counters.failures, counters.committed, counters.unexpected), (0, 1, 1));
    }
}

#[test]
fn what_was_under_way_at_a_restart_is_lost() {
    let (mut engine, old, new) = two_alive(3);
    assert_eq!(engine.counters().in_flight(), 3);
    engine.restart(Round(7), Round(8), Version(6));
    assert_eq!((engine.counters().lost, engine.counters().in_flight()), (3, 0));
    let _ = step(&mut engine, Event::Started);
    // Known, but of no use.
    assert!(step(&mut engine, took(old)).is_empty() && step(&mut engine, Event::Overdue(new)).is_empty());
    assert_eq!((engine.counters().ignored, engine.counters().unexpected), (2, 0));
    let never = TaskKey { round: Round(3), ..old };
    assert_eq!(step(&mut engine, took(never)), []);
    assert_eq!(engine.counters().unexpected, 1);
}

#[test]
fn a_deadline_of_an_engine_without_any_is_unexpected() {
    let mut engine = Engine::new(&gcn(1), Settings::new(2, 3)).unwrap();
    let key = first_task(&mut engine);
    assert_eq!(step(&mut engine, Event::Overdue(key)), []);
    assert_eq!((engine.counters().unexpected, engine.counters().overdue), (1, 0));
}

#[test]
fn an_evaluation_program_runs_once_a_restart() {
    let program = gcn(3).evaluation();
    let mut engine = Engine::new(&program, Settings::new(3, 0)).unwrap();
    let end = step(&mut engine, Event::Started);
    assert_eq!(end, [Action::Finished { reason: Reason::Completed, round: Round(0) }]);
    for round in [Round(4), Round(8)] {
        let weights = Version(u64::from(round.0));
        engine.restart(round, round, weights);
        let mut todo = step(&mut engine, Event::Started);
        let mut done = 0;
        let mut last = Vec::new();
        while let Some(action) = todo.pop() {
            match action {
                Action::Submit(task) => {
                    assert_eq!((task.round, task.weights), (round, weights));
                    todo.extend(engine.step(took(task.key())));
                }
                Action::Commit(_) => done += 1,
                other => last.push(other),
            }
        }
        assert_eq!(done, program.stages.len() * 3);
        let reason = Reason::Completed;
        let end = [Action::Finished { reason, round }, Action::RoundFinished { round }];
        assert_eq!(last, end);
    }
    // The engine was not started when it was made ready the last time.
    assert_eq!(engine.counters().lost, 0);
}

#[test]
fn settings_out_of_range_are_refused() {
    let program = gcn(2);
    let refused = |settings| Engine::new(&program, settings).unwrap_err().to_string();
    let usual = Settings::new(1, 1);
    assert!(refused(Settings::new(0, 1)).contains("intervals: found 0"));
    assert!(refused(Settings::new(65_537, 1)).contains("65536"));
    assert!(refused(Settings { attempts: 33, ..usual }).contains("attempts: found 33"));
    assert!(refused(Settings { attempts: 0, ..usual }).contains("attempts"));
    assert!(Engine::new(&program, Settings::new(65_536, 1)).is_ok());
    let limits = |deadlines| Settings { deadlines: Some(deadlines), ..usual };
    let deadlines = Deadlines::default();
    for ratio in [1.0, 0.0, -3.0, f64::NAN, f64::INFINITY, 1000.1] {
        let refused = refused(limits(Deadlines { ratio, ..deadlines }));
        assert!(refused.contains("deadline ratio"), "{refused}");
    }
    for (floor_us, maximum_us, what) in
        [(0, 5, "shortest"), (6, 5, "shortest"), (1, 0, "longest"), (1, MAX_DEADLINE_US + 1, "longest")]
    {
        let refused = refused(limits(Deadlines { floor_us, maximum_us, ..deadlines }));
        assert!(refused.contains(what), "{refused}");
    }
    let most = Deadlines { floor_us: MAX_DEADLINE_US, ratio: 1000.0, maximum_us: MAX_DEADLINE_US };
    assert!(Engine::new(&program, limits(most)).is_ok());
    let deep = gcn(64);
    assert!(Engine::new(&deep, Settings::new(65_536, 1)).unwrap_err().to_string().contains("steps"));
    let mut turned = program.clone();
    turned.stages.swap(2, 3);
    assert!(matches!(Engine::new(&turned, usual), Err(Error::Order { .. })));
    let mut empty = program.clone();
    empty.stages.clear();
    assert!(matches!(Engine::new(&empty, usual), Err(Error::Setting { .. })));
    assert_eq!(usual.pipeline, eciton_recipe::Pipeline::default());
}

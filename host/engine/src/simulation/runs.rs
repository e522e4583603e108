//! Tests of whole runs with many seeds. They check properties that hold whatever faults occur.

use super::run::Run;
use super::world::{Doomed, Faults};
use super::{Context, Random, gcn, programs, seeds, settings};
use crate::{Action, Counters, Deadlines, MAX_ATTEMPTS, Reason, Settings};
use eciton_program::Program;
use eciton_types::Round;

/// Simulates a run until its end, and compares the result with that of a run without faults.
/// Returns the counters of the engine.
pub(super) fn complete(program: &Program, settings: Settings, faults: Faults, seed: u64) -> Counters {
    // The seed is in the message of any check that fails.
    let context = Context(format!("seed {seed}, {settings:?}, {faults:?}"));
    let mut run = Run::new(program, settings, faults, seed);
    assert!(run.finish(), "stalled: {context:?}");
    assert_eq!(run.end, Some((Reason::Completed, settings.last)), "{context:?}");
    let mut smooth = Run::new(program, settings, Faults::default(), !seed);
    assert!(smooth.finish());
    assert_eq!(run.store.value(), smooth.store.value(), "the result depends on the faults: {context:?}");
    let dropped = smooth.engine.counters().ignored + smooth.engine.counters().failures;
    // Started again, synchronised and cancelled after the end.
    assert_eq!(dropped, 3, "{context:?}");

    let rounds = settings.first.0..=settings.last.0;
    let of =
        |want: &dyn Fn(&Action) -> Option<u32>| -> Vec<u32> { run.log.iter().filter_map(want).collect() };
    let updates = of(&|action| match action {
        Action::Update { round } => Some(round.0),
        _ => None,
    });
    assert_eq!(updates, rounds.clone().collect::<Vec<_>>(), "{context:?}");
    let evaluated = of(&|action| match action {
        Action::Evaluate { round } => Some(round.0),
        _ => None,
    });
    let every = settings.eval_every;
    let due = |round: &u32| *round == settings.last.0 || (every > 0 && round.is_multiple_of(every));
    assert_eq!(evaluated, rounds.clone().filter(due).collect::<Vec<_>>(), "{context:?}");

    let counters = *run.engine.counters();
    let steps = rounds.count() as u64 * u64::from(settings.intervals);
    let tasks = steps * program.tasks() as u64;
    assert_eq!(counters.host_steps, steps * program.stages.len() as u64 - tasks, "{context:?}");
    assert_eq!((counters.tasks, counters.committed), (tasks, tasks), "{context:?}");
    assert!(faults.noise > 0 || counters.unexpected == 0, "{context:?}");
    counters
}

fn add(sum: &mut Counters, new: &Counters) {
    for (sum, new) in [
        (&mut sum.retries, new.retries),
        (&mut sum.relaunches, new.relaunches),
        (&mut sum.overdue, new.overdue),
        (&mut sum.recovered, new.recovered),
        (&mut sum.failures, new.failures),
        (&mut sum.duplicates, new.duplicates),
        (&mut sum.late, new.late),
        (&mut sum.lost, new.lost),
        (&mut sum.ignored, new.ignored),
        (&mut sum.unexpected, new.unexpected),
    ] {
        *sum += new;
    }
}

#[test]
fn every_step_is_done_once_in_any_order_and_with_any_faults() {
    let programs = programs();
    let mut seen = Counters::default();
    for seed in 0..seeds(600) {
        let random = &mut Random(seed);
        let program = &programs[random.below(programs.len() as u64) as usize];
        let settings = settings(random);
        add(&mut seen, &complete(program, settings, Faults::ROUGH, seed));
    }
    // The faults did happen.
    let Counters { retries, relaunches, recovered, duplicates, late, lost, .. } = seen;
    let all = [retries, relaunches, recovered, duplicates, late, lost, seen.ignored, seen.unexpected];
    assert!(all.into_iter().all(|count| count > 100), "{seen:?}");
}

#[test]
fn one_answer_of_many_attempts_is_enough() {
    let program = gcn(2);
    let mut seen = Counters::default();
    for seed in 0..seeds(150) {
        let random = &mut Random(seed);
        let attempts = [2, 5, MAX_ATTEMPTS][random.below(3) as usize];
        let deadlines = Some(Deadlines { floor_us: 100, ratio: 2.0, maximum_us: 50_000 });
        let intervals = 1 + random.below(9) as u32;
        let settings = Settings { attempts, deadlines, ..Settings::new(intervals, 4) };
        add(&mut seen, &complete(&program, settings, Faults::HOSTILE, seed));
    }
    assert!(seen.relaunches > 10_000 && seen.retries > 1000 && seen.lost > 100, "{seen:?}");
}

#[test]
fn a_stop_ends_the_run_after_the_round_with_an_evaluation() {
    let program = gcn(2);
    for seed in 0..seeds(200) {
        let _context = Context(format!("seed {seed}"));
        let intervals = 1 + (seed % 9) as u32;
        let settings = Settings { eval_every: 0, ..Settings::new(intervals, 1_000_000) };
        let faults = if seed % 2 == 0 { Faults::default() } else { Faults::ROUGH };
        let mut run = Run::new(&program, settings, faults, seed);
        run.stop_at = Some(1 + Random(seed).below(2000));
        assert!(run.finish());
        let Some((Reason::Stopped, last)) = run.end else { panic!("{:?}", run.end) };
        let evaluated: Vec<_> = run.log.iter().filter(|a| matches!(a, Action::Evaluate { .. })).collect();
        let Some(Action::Evaluate { round }) = evaluated.last() else {
            // Before the start there is nothing to evaluate.
            assert_eq!((run.log.len(), last), (1, Round(0)));
            continue;
        };
        assert_eq!(*round, last);
    }
}

#[test]
fn a_cancelled_run_ends_at_once_in_every_phase() {
    let program = gcn(2);
    let mut phases = [0; 4];
    let mut in_flight = 0;
    for seed in 0..seeds(600) {
        let _context = Context(format!("seed {seed}"));
        let random = &mut Random(seed);
        let settings = Settings { last: Round(1_000_000), eval_every: 1, ..settings(random) };
        let faults = if seed % 2 == 0 { Faults::default() } else { Faults::ROUGH };
        let mut run = Run::new(&program, settings, faults, seed);
        run.cancel_at = Some(1 + random.below([3, 30, 1000][random.0 as usize % 3]));
        // Half of them are on their way to a stop already.
        run.stop_at = run.cancel_at.filter(|_| random.percent(50));
        if let Some(at) = &mut run.stop_at {
            *at = 1 + random.below(*at);
        }
        assert!(run.finish());
        let Some((Reason::Stopped, last)) = run.end else { panic!("{:?}", run.end) };
        let counters = run.engine.counters();
        assert!(u64::from(last.0) < counters.updates + u64::from(settings.first.0));
        in_flight += counters.cancelled;
        let before = run.log.iter().rev().nth(1);
        phases[match before {
            None => 0,
            Some(Action::Update { .. }) => 1,
            Some(Action::Evaluate { .. }) => 2,
            _ => 3,
        }] += 1;
    }
    assert!(phases.into_iter().all(|count| count > 0) && in_flight > 100, "{phases:?} {in_flight}");
}

/// Simulates runs in which all attempts at one step fail, and checks that each run ends because of
/// this step.
fn doomed(retryable: bool) {
    let program = gcn(2);
    let mut extra = 0;
    for seed in 0..seeds(300) {
        let context = Context(format!("seed {seed}"));
        let random = &mut Random(seed);
        let settings = settings(random);
        let mut run = Run::new(&program, settings, Faults::ROUGH, seed);
        let step = run.any_task();
        run.world.doomed = Some(Doomed { step, retryable });
        let ended = run.finish();
        if !ended {
            // All attempts were launched, and the last is overdue or failed; one before it is
            // silent.
            assert!(retryable && settings.deadlines.is_some(), "stalled: {context:?}");
            assert_eq!(run.engine.running().map(|key| key.step()).collect::<Vec<_>>(), [step]);
            run.cancel();
            continue;
        }
        let Some((Reason::Failed { key, retryable: found }, last)) = run.end else { panic!("{:?}", run.end) };
        assert_eq!((key.step(), found, last.0 + 1), (step, retryable, step.round.0), "{context:?}");
        let launched = run.attempts_at(step);
        if retryable {
            assert_eq!(launched, settings.attempts, "{context:?}");
        } else {
            extra += launched - 1;
            assert!(settings.deadlines.is_some() || launched == 1, "{context:?}");
        }
    }
    // Some were relaunched before the defect was known.
    assert!(retryable || extra > 0);
}

#[test]
fn a_step_that_fails_for_good_ends_the_run_whatever_else_is_lost() {
    doomed(false);
}

#[test]
fn a_step_that_fails_too_often_ends_the_run() {
    doomed(true);
}

#[test]
fn a_run_that_waits_for_lost_answers_says_for_which_and_can_be_cancelled() {
    let program = gcn(3);
    for seed in 0..seeds(100) {
        let _context = Context(format!("seed {seed}"));
        let random = &mut Random(seed);
        let deadlines = Some(Deadlines::default());
        let settings = Settings { deadlines, ..settings(random) };
        let mut run = Run::new(&program, settings, Faults::default(), seed);
        let step = run.any_task();
        run.world.silent = Some(step);
        assert!(!run.finish());
        let attempts = run.attempts_at(step);
        assert_eq!(attempts, settings.attempts);
        let waits: Vec<_> = run.engine.running().collect();
        assert_eq!(waits.len(), 1);
        assert_eq!((waits[0].step(), waits[0].attempt.0 + 1), (step, attempts));
        run.cancel();
        let counters = run.engine.counters();
        assert_eq!((counters.cancelled, counters.in_flight()), (attempts.into(), 0));
        assert!(run.finish());
    }
}

#[test]
fn relaunching_shortens_a_run_with_stragglers_and_costs_little() {
    let program = gcn(2);
    let faults = Faults { straggling: 2, ..Faults::default() };
    let time = |deadlines| {
        let settings = Settings { deadlines, ..Settings::new(64, 20) };
        let mut run = Run::new(&program, settings, faults, 7);
        assert!(run.finish());
        (run.ended_us, *run.engine.counters())
    };
    let (without_us, _) = time(None);
    let (with_us, counters) = time(Some(Deadlines { floor_us: 100, ratio: 2.0, maximum_us: 1_000_000 }));
    assert!(with_us * 2 < without_us, "{with_us} {without_us}");
    // One more attempt for each straggler, and hardly one for anything else.
    let share = counters.relaunches as f64 / counters.tasks as f64;
    assert!((0.015..0.03).contains(&share), "{counters:?}");
}

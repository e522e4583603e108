//! Fuzz test with random events in any order. The engine must not panic, and its guarantees must
//! hold.

use super::apart::pipelines;
use super::{Context, Random, gcn, is_task, seeds};
use crate::{Action, Deadlines, Engine, Event, MAX_ATTEMPTS, Settings};
use eciton_program::Program;
use eciton_types::{Attempt, IntervalId, Round, StageId, Step, TaskKey, Version};
use std::collections::BTreeMap;

/// Returns a random number up to `about`, or occasionally the largest possible number.
fn number(random: &mut Random, about: u32) -> u32 {
    match random.below(20) {
        0 => u32::MAX,
        1 => about,
        _ => random.below(u64::from(about) + 1) as u32,
    }
}

fn event(random: &mut Random, engine: &Engine, stages: u32) -> Event {
    let settings = *engine.settings();
    let round = match random.below(4) {
        0 => Round(number(random, settings.last.0.saturating_add(1))),
        _ => engine.round(),
    };
    let stage = StageId(number(random, stages) as u16);
    let interval = IntervalId(number(random, settings.intervals));
    let attempt = Attempt(number(random, settings.attempts));
    let key = TaskKey { round, stage, interval, attempt };
    match random.below(200) {
        0 => Event::Started,
        1 => Event::StopRequested,
        2 => Event::Cancelled,
        199 => Event::Synchronise,
        3..10 => Event::Updated { round },
        10..20 => Event::Evaluated { round },
        20..130 => Event::Completed { key, took_us: random.next() },
        130..134 => Event::Failed { key, retryable: false },
        134..170 => Event::Failed { key, retryable: true },
        _ => Event::Overdue(key),
    }
}

fn mess(programs: &[Program], seed: u64) -> (u64, u64) {
    let _context = Context(format!("seed {seed}"));
    let random = &mut Random(seed);
    let program = &programs[random.below(programs.len() as u64) as usize];
    let stages = program.stages.len() as u32;
    let deadlines = Deadlines { floor_us: 1, ratio: 1.5, maximum_us: 1 + random.below(1 << 30) };
    let deadlines = random.percent(70).then_some(deadlines);
    let attempts = 1 + random.below(u64::from(MAX_ATTEMPTS)) as u32;
    let intervals = 1 + random.below(5) as u32;
    let all = pipelines();
    let pipeline = all[random.below(all.len() as u64) as usize];
    let in_flight = [None, Some(1), Some(4)][random.below(3) as usize];
    let settings = Settings { attempts, deadlines, pipeline, in_flight, ..Settings::new(intervals, 5) };
    let mut engine = Engine::new(program, settings).unwrap();
    let capacity = engine.queue_capacity();
    let mut launched: BTreeMap<Step, u32> = BTreeMap::new();
    let mut committed: BTreeMap<Step, u32> = BTreeMap::new();
    let mut finished = false;
    // Answers to what the engine asked for, so that it gets anywhere.
    let mut sensible = vec![Event::Started];
    for _ in 0..2000 {
        if random.percent(1) && (finished || random.percent(20)) {
            let first = Round([1, 1, 3, u32::MAX - 1, 0][random.below(5) as usize]);
            let last = Round(first.0.saturating_add(random.below(4) as u32));
            engine.restart(first, last, Version([0, u64::MAX][random.below(2) as usize]));
            launched.clear();
            committed.clear();
            sensible = vec![Event::Started];
            finished = false;
        }
        let event = match sensible.len() as u64 {
            waiting if waiting > 0 && random.percent(70) => {
                sensible.swap_remove(random.below(waiting) as usize)
            }
            _ => event(random, &engine, stages),
        };
        let before = *engine.counters();
        let actions: Vec<Action> = engine.step(event).collect();
        assert!(actions.is_empty() || !finished, "{event:?} after the end");
        for action in actions {
            match action {
                Action::Submit(task) | Action::Retry(task) | Action::Relaunch(task) | Action::Again(task) => {
                    let count = launched.entry(task.step()).or_default();
                    assert_eq!(task.attempt.0, *count);
                    *count += 1;
                    assert!(*count <= if is_task(program, task.stage) { attempts } else { 1 });
                    sensible.push(Event::Completed { key: task.key(), took_us: random.below(1000) });
                }
                Action::Commit(key) => {
                    assert!(key.attempt.0 < launched[&key.step()]);
                    assert_eq!(committed.insert(key.step(), 1), None, "{key} committed twice");
                }
                Action::Update { round } => sensible.push(Event::Updated { round }),
                Action::Evaluate { round } => sensible.push(Event::Evaluated { round }),
                Action::Share { .. } | Action::RoundFinished { .. } => {}
                Action::Finished { .. } => finished = true,
            }
        }
        assert_eq!(engine.is_finished(), finished);
        let after = *engine.counters();
        if after.cancelled == before.cancelled && !finished {
            assert_eq!(after.in_flight(), engine.alive(), "{event:?}");
        }
        assert!(after.in_flight() <= after.attempts(), "{after:?}");
        let limits = deadlines.map_or(0..=0, |d| d.floor_us..=d.maximum_us);
        let deadline_us = engine.deadline_us(StageId(random.below(99) as u16)).unwrap_or(*limits.start());
        assert!(limits.contains(&deadline_us));
        assert!(engine.running().count() <= stages as usize * intervals as usize);
    }
    assert_eq!(engine.queue_capacity(), capacity, "the queue of actions grew");
    (engine.counters().committed, engine.counters().unexpected)
}

#[test]
fn no_event_panics_or_breaks_a_promise() {
    let mut programs = super::programs();
    programs.push(gcn(2).evaluation());
    let (mut committed, mut unexpected) = (0, 0);
    for seed in 0..seeds(300) {
        let (new, wild) = mess(&programs, seed);
        committed += new;
        unexpected += wild;
    }
    assert!(committed > 1000 && unexpected > 1000, "{committed} {unexpected}");
}

#[test]
fn the_same_events_give_the_same_actions() {
    let program = gcn(2);
    for seed in 0..20 {
        let deadlines = Some(Deadlines { floor_us: 1, ..Deadlines::default() });
        let settings = Settings { deadlines, ..Settings::new(3, 4) };
        let mut engine = Engine::new(&program, settings).unwrap();
        let random = &mut Random(seed);
        let mut events = vec![Event::Started];
        events.extend((0..3000).map(|_| event(random, &engine, program.stages.len() as u32)));
        let replay = |engine: &mut Engine| -> Vec<_> {
            let mut told = Vec::new();
            for &event in &events {
                told.push((engine.step(event).collect::<Vec<_>>(), engine.deadline_us(StageId(1))));
            }
            told
        };
        let mut twin = engine.clone();
        assert_eq!(replay(&mut engine), replay(&mut twin));
        assert_eq!(engine.counters(), twin.counters());
    }
}

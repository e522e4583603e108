//! Benchmark of the engine's time per round: `cargo bench -p eciton-engine`. It is tiny unless it
//! runs as a benchmark.

#![allow(missing_docs, clippy::disallowed_types, clippy::disallowed_methods, clippy::disallowed_macros)]

use eciton_engine::{Action, Deadlines, Engine, Event, Settings};
use eciton_program::{DataShape, Program};
use eciton_recipe::Model;
use eciton_types::{Attribute, BackwardNeeds, RowsSpec, Signature, Value};
use std::time::Instant;

fn signature(kernel: &str, inputs: &[Vec<u32>], attributes: &[Attribute]) -> Result<Signature, String> {
    let rows = |width| vec![RowsSpec { name: "rows".into(), extents: vec![width] }];
    let out = attributes.iter().find_map(|attribute| match attribute.value {
        Value::Integer(out) => u32::try_from(out).ok(),
        _ => None,
    });
    Ok(Signature {
        inputs: rows(inputs[0][0]),
        outputs: rows(out.unwrap_or(inputs[0][0])),
        backward_needs: BackwardNeeds { inputs: true, outputs: false },
        loss: (kernel == "head").then_some(eciton_types::signature::TargetKind::Classes),
        ..Signature::default()
    })
}

/// Answers every action immediately, and returns the number of events. With deadlines, every first
/// attempt at a task is overdue, and the second attempt wins.
fn run(program: &Program, engine: &mut Engine, waiting: &mut Vec<Event>) -> u64 {
    let mut events = 0;
    let overdue = engine.settings().deadlines.is_some();
    waiting.push(Event::Started);
    while let Some(event) = waiting.pop() {
        events += 1;
        for action in engine.step(event) {
            match action {
                Action::Submit(task) => {
                    waiting.push(Event::Completed { key: task.key(), took_us: 100 });
                    if overdue && program.place(task.stage).is_task() {
                        waiting.push(Event::Overdue(task.key()));
                    }
                }
                Action::Retry(task) | Action::Relaunch(task) | Action::Again(task) => {
                    waiting.push(Event::Completed { key: task.key(), took_us: 100 });
                }
                Action::Update { round } => waiting.push(Event::Updated { round }),
                Action::Evaluate { round } => waiting.push(Event::Evaluated { round }),
                Action::Commit(_)
                | Action::Share { .. }
                | Action::RoundFinished { .. }
                | Action::Finished { .. } => {}
            }
        }
    }
    events
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let real = std::env::args().any(|argument| argument == "--bench");
    let rounds = if real { 200_000 } else { 5 };
    let relaunching = Some(Deadlines::default());
    let cases = [(2, 1, None), (2, 16, None), (2, 64, None), (8, 64, None), (2, 64, relaunching)];
    for (layers, intervals, deadlines) in cases {
        let model = Model::gcn(layers, 16, 0.5, 1433, 7)?;
        let shape =
            DataShape { rows: 2708, features: 1433, classes: 7, edge_features: 0, read_out: 0, group: 1 };
        let program = Program::build(&model, shape, eciton_program::Rewrites::default(), &signature)?;
        let rounds = if real { rounds / intervals } else { rounds };
        let mut engine = Engine::new(&program, Settings { deadlines, ..Settings::new(intervals, rounds) })?;
        let mut waiting = Vec::with_capacity(1024);
        let start = Instant::now();
        let events = run(&program, &mut engine, &mut waiting);
        let nanoseconds = start.elapsed().as_nanos() as f64;
        println!(
            "{layers} layers, {intervals:>2} intervals{}: {:>9.1} ns a round, {:>5.1} ns an event ({} events a round)",
            if deadlines.is_some() { ", all relaunched" } else { "" },
            nanoseconds / f64::from(rounds),
            nanoseconds / events as f64,
            events / u64::from(rounds),
        );
    }
    Ok(())
}

//! Planted defects. The simulation must find each of them within ten thousand seeds.

use super::apart::pipelines;
use super::run::Run;
use super::world::Faults;
use super::{Random, gcn, two_reads};
use crate::{Deadlines, Reason, Settings};
use eciton_program::{Place, Program};
use eciton_recipe::Mode;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Defect that a test plants in the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Planted {
    /// Gradients are added when answers arrive, and not when they are committed.
    GradientUnkeyed,
    /// A second answer to a step is also committed.
    DuplicateCommitted,
    /// An interval may be one round further ahead than the bound allows.
    BoundOffByOne,
    /// A version of the weights is freed while a slow interval still needs it.
    StashFreedEarly,
    /// Rows count as rows of their writer's round before they are written.
    TagIgnored,
    /// A relaunched task that is answered twice counts as two at the barrier.
    RelaunchCounted,
    /// Gradients are added in the order of their arrival.
    ArrivalOrder,
    /// A step that waited for readers is not started after they have ended.
    NeverWoken,
    /// Rows are overwritten while a step reads them.
    RowsOverwritten,
    /// A lane admits one interval more than its cap allows.
    CapOffByOne,
    /// A worker gets no step of a further visit while it has the last step of another visit.
    ClosingForgotten,
    /// A lane's step reads the weights that are newest when it starts.
    VersionAtUse,
    /// A backward step runs on another replica's lane.
    WrongReplica,
    /// A lane runs forward steps first although backward steps are due.
    ForwardBeforeBackward,
    /// The step that a failed worker was running is not run again.
    PlaceForgotten,
    /// Gradients in the sums of a failed worker are not recomputed.
    SumForgotten,
    /// A lane returns to its own worker while another worker has sums of the lane.
    SumSplit,
    /// A redundant step is committed as if it were the first attempt.
    ShadowCounted,
    /// The stash of a redundant step is ignored and recomputed.
    ShadowNeverUsed,
    /// Only the first of two values that a step reads from all intervals is protected from being
    /// overwritten.
    FirstReadGuarded,
}

const ALL: [Planted; 10] = [
    Planted::GradientUnkeyed,
    Planted::DuplicateCommitted,
    Planted::BoundOffByOne,
    Planted::StashFreedEarly,
    Planted::TagIgnored,
    Planted::RelaunchCounted,
    Planted::ArrivalOrder,
    Planted::NeverWoken,
    Planted::RowsOverwritten,
    Planted::FirstReadGuarded,
];

/// Returns true if the simulation finds a defect in a run. It does if a check fails, if the run
/// stalls, or if the result of a run without staleness depends on its faults.
fn is_wrong(program: &Program, seed: u64, planted: Option<Planted>) -> bool {
    let random = &mut Random(seed);
    let deadlines = Deadlines { floor_us: 100, ratio: 2.0, maximum_us: 50_000 };
    let all = pipelines();
    let pipeline = all[random.below(all.len() as u64) as usize];
    let intervals = 2 + random.below(7) as u32;
    let settings =
        Settings { attempts: 4, deadlines: Some(deadlines), pipeline, ..Settings::new(intervals, 6) };
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let mut run = Run::with(program, settings, Faults::APART, seed, planted);
        let ended = run.finish() && matches!(run.end, Some((Reason::Completed, _)));
        if !ended || pipeline.mode == Mode::Async {
            return !ended;
        }
        let mut smooth = Run::with(program, settings, Faults::default(), !seed, planted);
        !smooth.finish() || smooth.store.value() != run.store.value()
    }));
    outcome.unwrap_or(true)
}

#[test]
fn each_planted_defect_is_found_and_nothing_else_is() {
    let programs = [gcn(1), gcn(2), gcn(3), two_reads(Place::Host), two_reads(Place::Anywhere)];
    let program = |seed: u64| &programs[seed as usize % programs.len()];
    let clean = (0..300).find(|&seed| is_wrong(program(seed), seed, None));
    let found = ALL.map(|planted| (0..10_000).find(|&seed| is_wrong(program(seed), seed, Some(planted))));
    assert_eq!(clean, None, "found wrong without a defect");
    #[allow(clippy::disallowed_macros, clippy::print_stderr)]
    for (planted, seed) in ALL.iter().zip(found) {
        eprintln!("{planted:?}: seed {seed:?}");
    }
    assert!(found.iter().all(Option::is_some), "{found:?}");
}

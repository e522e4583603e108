//! Planted defects of the engine. The simulation must find each of them within ten thousand seeds.

use super::apart::pipelines;
use super::run::Run;
use super::world::Faults;
use super::{Random, gcn, two_reads};
use crate::{Deadlines, Reason, Settings};
use eciton_program::{Place, Program};
use eciton_recipe::Mode;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A defect that a test plants in the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Planted {
    /// Gradients are added when answers arrive instead of when they are committed.
    GradientUnkeyed,
    /// A second answer to a step is committed as well.
    DuplicateCommitted,
    /// An interval may be one round further ahead than the bound allows.
    BoundOffByOne,
    /// A version of the weights is freed although a slow interval still needs it.
    StashFreedEarly,
    /// Rows are treated as written in their round before they are.
    TagIgnored,
    /// If a relaunched task is answered twice, both answers count at the barrier.
    RelaunchCounted,
    /// Gradients are added in the order of their arrival.
    ArrivalOrder,
    /// A step that waited for readers is not started when they have ended.
    NeverWoken,
    /// Rows are overwritten while a step reads them.
    RowsOverwritten,
    /// A lane admits one interval more than its cap allows.
    CapOffByOne,
    /// While a worker has the last step of a visit, it gets no step of another visit. A visit
    /// consists of the steps of one interval on a lane.
    ClosingForgotten,
    /// A step of a lane reads the weights that are newest when it starts.
    VersionAtUse,
    /// A backward step runs on a lane of another replica.
    WrongReplica,
    /// A lane runs backward steps first although it should run forward steps first.
    BackwardBeforeForward,
    /// The step that a failed worker was running is not run again.
    PlaceForgotten,
    /// Gradients in the sums of a failed worker are not computed again.
    SumForgotten,
    /// A lane returns to its own worker while another worker has gradient sums of the lane.
    SumSplit,
    /// Several workers that share the lane of a failed worker run the same interval.
    PeersShare,
    /// The intervals that a worker has taken over stay on it when it fails as well.
    PeerForgotten,
    /// The engine reports gradient sums at the worker that runs the interval now, and not at the
    /// worker that has computed them.
    SumAtHome,
    /// The result of redundant computation is committed as if it were the first answer.
    ShadowCounted,
    /// The stash from redundant computation is not used.
    ShadowNeverUsed,
    /// If a step reads two values from all intervals, only the first one is protected from being
    /// overwritten.
    FirstReadGuarded,
    /// Reports of other hosts that arrive before their round are lost.
    EarlyForgotten,
    /// Reports of hosts that are further ahead than the staleness bound are refused.
    EarlyBoundTooSmall,
    /// Rows of another host that arrive twice are written twice.
    ReceivedTwice,
    /// A host shares its sums before its last interval has finished the round.
    SharedEarly,
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

/// Returns true if the simulation finds a defect in a run. It does if a check fails or the run
/// stalls. It also does if the result depends on faults in a run without staleness.
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

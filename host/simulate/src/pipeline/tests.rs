//! Tests of pipelines whose times are known, and of the cost of failures.
#![allow(clippy::unwrap_used, clippy::print_stderr, clippy::disallowed_macros)]

use super::*;

mod plans;
mod protections;

/// Returns a chain of equal stages, which take 1 s forward and 2 s backward.
fn chain(depth: u16, micro: u32, weights: WeightVersions, residence: Residence) -> Pipeline {
    let reads = |at: u16| at.checked_sub(1).map(|from| vec![(from, 1e6)]).unwrap_or_default();
    Pipeline {
        stages: (0..depth)
            .map(|at| Stage { forward: 1.0, backward: 2.0, reads: reads(at), weights: 1e6 })
            .collect(),
        chunks: 1,
        width: 1,
        micro,
        rows: micro,
        order: Order::BackwardFirst,
        weights,
        update: 0.0,
        residence,
        takeover: None,
    }
}

fn places(preemption: Preemption) -> Places {
    Places {
        link: 1e12,
        owner: Owner::Worker,
        paces: Vec::new(),
        usd_hour: 1.0,
        jitter: 0.0,
        preemption,
        trace: Vec::new(),
        snapshot_every: None,
        snapshot_seconds: 0.0,
        replicas: 0,
    }
}

/// Returns the failure of a worker at a known time.
fn fails(seconds: f64, worker: u32) -> Known {
    Known { seconds, worker, returns: false }
}

/// Returns workers that fail, with a host that owns the weights and has a fast link.
fn at_host(preemption: Preemption) -> Places {
    Places { owner: Owner::Host(1e12), ..places(preemption) }
}

#[test]
fn rounds_take_what_the_formulas_say() {
    // Flush: (m + d - 1) (f + b); two buffers: m (f + b).
    let run =
        |weights| chain(4, 8, weights, Residence::Host).run(&places(Preemption::default()), 33_000.5, 1);
    let (flush, two) = (run(WeightVersions::Latest).unwrap(), run(WeightVersions::TwoBuffered).unwrap());
    assert_eq!(flush.rounds, 1000);
    assert!((1373..=1375).contains(&two.rounds), "{two:?}");
    assert!((flush.idle - 3.0 / 11.0).abs() < 1e-4 && two.idle < 0.001, "{flush:?} {two:?}");
    assert!((flush.usd - 4.0 * 33_000.5 / 3600.0).abs() < 1e-9);
}

#[test]
fn a_host_that_holds_all_waits_for_its_link() {
    let run = |owner| {
        let at = Places { owner, ..places(Preemption::default()) };
        chain(4, 8, WeightVersions::Latest, Residence::Host).run(&at, 33_000.5, 1).unwrap()
    };
    let (workers, wide, narrow) = (run(Owner::Worker), run(Owner::Host(1e12)), run(Owner::Host(1e6)));
    assert_eq!(workers.rounds, wide.rounds);
    // 24 boundaries go up and down forward, and 24 back, 1 s each; then 4 s of gradients up and 4 s
    // of weights down.
    let round = 33_000.5 / f64::from(narrow.rounds);
    assert!((48.0 + 8.0..33.0 + 8.0 + 96.0).contains(&round), "{round}");
    // The link alone: 48 boundaries each way, and the weights.
    let slow = run(Owner::Host(1e5));
    let round = 33_000.5 / f64::from(slow.rounds);
    assert!(round >= 10.0 * 48.0 + 80.0, "{round}");
}

#[test]
fn parallel_branches_are_in_flight_less_and_drain_sooner() {
    // Eight stages in a row, or two branches of four between a first and a last.
    let row = chain(10, 8, WeightVersions::Latest, Residence::Host);
    let mut branches = row.clone();
    branches.stages[5].reads = vec![(0, 1e6)];
    branches.stages[9].reads = vec![(4, 1e6), (8, 1e6)];
    let time = |pipeline: &Pipeline| pipeline.run(&places(Preemption::default()), 36_000.5, 1).unwrap();
    let (row, branches) = (time(&row), time(&branches));
    let gain = branches.rows_per_s / row.rows_per_s;
    // (m + 9) 3 against (m + 5) 3.
    assert!((gain - 17.0 / 13.0).abs() < 0.01, "{gain}");
}

#[test]
fn a_pipeline_outlives_its_places_and_beats_restarts() {
    let preemption = Preemption { per_hour: 0.2, bursts_per_hour: 0.1, burst: 3, zones: 3, back: 300.0 };
    let hours = 12.0 * 3600.0;
    let run = |residence, seed| {
        let pipeline = chain(12, 24, WeightVersions::Latest, residence);
        let at = at_host(preemption);
        let report = pipeline.run(&at, hours, seed).unwrap();
        if seed == 0 {
            assert_eq!(report, pipeline.run(&at, hours, seed).unwrap());
        }
        report
    };
    let (mut host, mut alone, mut shadowed, mut restarts) = (0, 0, 0, 0);
    for seed in 0..3 {
        let reports =
            [Residence::Host, Residence::Workers, Residence::Redundant].map(|residence| run(residence, seed));
        assert!(reports.iter().all(|report| report.losses > 10 && report.places < 12.0), "{reports:?}");
        host += reports[0].rounds;
        alone += reports[1].rounds;
        shadowed += reports[2].rounds;
        assert!(reports[0].again == 0 && reports[1].again > 0, "{reports:?}");
        let round = 3.0 * 35.0;
        restarts += checkpointed(&preemption, (12, round), (10, 300.0), hours, seed);
    }
    eprintln!(
        "rounds of 3 x 12 h: {host} host, {alone} places, {shadowed} shadowed, {restarts} by checkpoints"
    );
    assert!(host >= alone && alone > restarts && shadowed > restarts, "{host} {alone} {shadowed} {restarts}");
}

/// Checks that a failure at a known time costs the step in flight, once, and the worker's time
/// until its replacement.
#[test]
fn a_trace_is_what_is_lost() {
    let pipeline = chain(2, 4, WeightVersions::Latest, Residence::Host);
    let quiet = at_host(Preemption { back: 10.0, ..Preemption::default() });
    let lost = Places { trace: vec![fails(20.5, 1), fails(1000.5, 0)], ..quiet.clone() };
    let (before, after) = (pipeline.run(&quiet, 3000.5, 1).unwrap(), pipeline.run(&lost, 3000.5, 1).unwrap());
    assert_eq!((before.losses, before.retries, before.rounds), (0, 0, 200));
    // A place that has nothing to do loses nothing.
    assert!(after.losses == 2 && (1..=2).contains(&after.retries), "{after:?}");
    assert!((after.usd - (2.0 * 3000.5 - 20.0) / 3600.0).abs() < 1e-9, "{after:?}");
    assert!((190..200).contains(&after.rounds), "{after:?}");
    // A worker returns when the trace says so.
    let returns = Known { seconds: 40.5, worker: 1, returns: true };
    let back = Places { trace: vec![fails(20.5, 1), returns], ..quiet.clone() };
    let back = pipeline.run(&back, 3000.5, 1).unwrap();
    assert!(back.losses == 1 && (back.usd - (2.0 * 3000.5 - 20.0) / 3600.0).abs() < 1e-9, "{back:?}");
    // The host sends the weights of the lane to the other worker, and again to the one that returns.
    let more =
        |report: &PipelineReport| report.sent_bytes - f64::from(report.rounds) * before.sent_bytes / 200.0;
    assert!(more(&back) >= 2e6 && before.sent_bytes > 1e8, "{back:?}");
    let wrong = Places { trace: vec![fails(1.0, 2)], ..quiet };
    let text = pipeline.run(&wrong, 10.0, 1).unwrap_err().to_string();
    assert!(text.contains("worker 2 after 1 s") && text.contains("workers 0 to 1"), "{text}");
}

/// Runs a pipeline with some replicas, in which workers of one stage fail and never return.
/// Returns the number of rounds in 6,000 s.
fn rounds_without(
    width: u32,
    failed: &[u32],
    takeover: Option<Takeover>,
    change: impl Fn(&mut Pipeline),
) -> u32 {
    let mut pipeline = chain(4, 16 * width, WeightVersions::Latest, Residence::Workers);
    (pipeline.width, pipeline.takeover) = (width, takeover);
    change(&mut pipeline);
    let quiet = at_host(Preemption { back: 1e9, ..Preemption::default() });
    let trace = failed.iter().map(|&worker| fails(0.5, worker)).collect();
    pipeline.run(&Places { trace, ..quiet }, 6_000.0, 1).unwrap().rounds
}

/// Checks the argument of Gandhi et al. 2024 (ReCycle), section 3: the remaining workers of a stage
/// do the work of all, so a round takes at most w / (w - 1) times as long, of which bubbles take a
/// part. With two replicas, one worker has twice the work by either rule. The previous worker then
/// runs two consecutive stages, so that the pipeline has one boundary less to fill.
#[test]
fn peers_take_over_the_work_of_a_stage() {
    for width in [2, 4] {
        for worker in 0..4 {
            let of = |takeover| rounds_without(width, &[worker], takeover, |_| ());
            let all = rounds_without(width, &[], None, |_| ());
            let [previous, peers] = [Takeover::Previous, Takeover::Peers].map(|of_rule| of(Some(of_rule)));
            let longer = f64::from(all) / f64::from(peers);
            let most = f64::from(width) / f64::from(width - 1);
            eprintln!(
                "width {width}, stage {worker}: {all} rounds, {previous} by the previous worker, \
                 {peers} by peers: {longer:.3} times as long, {most:.3} by the formula"
            );
            let least = if width == 2 { 0.96 } else { 1.3 };
            assert!(f64::from(peers) >= least * f64::from(previous) && longer <= most, "{width} {worker}");
            assert_eq!(of(None), peers);
        }
    }
}

/// Checks that the interval of a failed worker runs on all peers at once, in every order of steps
/// and with links that take a part of a step.
#[test]
fn peers_take_over_in_every_order() {
    for (order, chunks) in [(Order::ForwardFirst, 1), (Order::BackwardFirst, 1), (Order::Interleaved, 2)] {
        let of = |takeover, failed: &[u32]| {
            rounds_without(4, failed, takeover, |pipeline| {
                pipeline.order = order;
                pipeline.chunks = chunks;
                pipeline.stages.iter_mut().for_each(|stage| {
                    stage.reads.iter_mut().for_each(|(_, bytes)| *bytes = 1e11);
                });
            })
        };
        let all = of(None, &[]);
        let [previous, peers] = [Takeover::Previous, Takeover::Peers].map(|of_rule| of(Some(of_rule), &[1]));
        let two = of(Some(Takeover::Peers), &[1, 1 + 8 / chunks]);
        eprintln!(
            "{order:?}: {all} rounds, {previous} by the previous worker, {peers} by peers, {two} of two"
        );
        let longer = f64::from(all) / f64::from(peers);
        assert!(peers > previous && longer <= 1.4 && two < peers, "{order:?}: {longer}");
    }
}

/// Compares the rules of takeover and redundant computation for the same failures. Per hour, 10, 16
/// or 33 of 100 workers fail. Time is compressed: an update takes about a minute, and a worker is
/// replaced after half an hour.
#[test]
fn peers_outpace_the_previous_worker_and_redundancy_under_churn() {
    let (seeds, hours) = if crate::tuning::is_campaign() { (5, 8) } else { (3, 3) };
    let rounds = |per_hour, width, takeover, residence| -> u32 {
        let preemption = Preemption { per_hour, back: 1800.0, ..Preemption::default() };
        let mut pipeline = chain(4, 16 * width, WeightVersions::Latest, residence);
        (pipeline.width, pipeline.takeover) = (width, takeover);
        let seconds = f64::from(hours) * 3600.0;
        let of = match residence {
            Residence::Workers => Places { snapshot_every: Some(16), ..places(preemption) },
            _ => at_host(preemption),
        };
        let run = |seed| pipeline.run(&of, seconds, seed).unwrap().rounds;
        (0..seeds).map(run).sum()
    };
    for width in [2, 4] {
        for per_hour in [0.1, 0.16, 0.33] {
            let workers = |takeover| rounds(per_hour, width, Some(takeover), Residence::Workers);
            let [previous, peers] = [Takeover::Previous, Takeover::Peers].map(workers);
            let redundant = rounds(per_hour, width, None, Residence::Redundant);
            let percent = 100.0 * per_hour;
            eprintln!(
                "width {width}, {percent} % an hour: rounds of {seeds} x {hours} h: {previous} by the previous worker, \
                 {peers} by peers, {redundant} with redundant computation"
            );
            let least = if width == 2 { 0.95 } else { 1.0 };
            let most = f64::from(previous.max(redundant));
            assert!(f64::from(peers) >= least * most, "{width} {per_hour}");
        }
    }
}

/// Checks that a failure costs the rounds since the last snapshot if no other worker has the same
/// weights, and only the round in flight otherwise.
#[test]
fn snapshots_bound_what_a_failure_costs() {
    let run = |width: u32, weights, trace: &[Known], (every, replicas)| {
        let mut pipeline = chain(4, 8 * width, weights, Residence::Workers);
        pipeline.width = width;
        let quiet = places(Preemption { back: 100.0, ..Preemption::default() });
        let at = Places { trace: trace.to_vec(), snapshot_every: Some(every), replicas, ..quiet };
        let report = pipeline.run(&at, 3300.5, 1).unwrap();
        assert_eq!(report, pipeline.run(&at, 3300.5, 1).unwrap());
        report
    };
    for weights in [WeightVersions::Latest, WeightVersions::TwoBuffered] {
        let all = run(1, weights, &[], (20, 0)).rounds;
        // A round of a flush takes 33 s, so that 35 rounds are over.
        let one = run(1, weights, &[fails(35.5 * 33.0, 1)], (20, 0));
        let often = run(1, weights, &[fails(35.5 * 33.0, 1)], (5, 0));
        let peers = run(2, weights, &[fails(35.5 * 33.0, 1)], (20, 0));
        eprintln!("{weights:?}: {all} rounds, {one:?}, {often:?}, {peers:?}");
        // The worker before the failed one has its weights, but not if it fails in the same round.
        let replicated = run(1, weights, &[fails(35.5 * 33.0, 1)], (20, 1));
        let adjacent = run(1, weights, &[fails(35.5 * 33.0, 1), fails(35.6 * 33.0, 0)], (20, 1));
        assert_eq!((replicated.rolled_back, peers.rolled_back), (0, 0));
        assert!(adjacent.rolled_back >= 8, "{adjacent:?}");
        assert!(all > peers.rounds && peers.rounds > one.rounds, "{weights:?}");
        assert!(all > replicated.rounds && replicated.rounds > one.rounds, "{weights:?}");
        assert!(one.rolled_back >= 8 && often.rolled_back < 5 && often.rounds > one.rounds, "{weights:?}");
        // Both workers of a lane fail, and all workers at once.
        let both = run(2, weights, &[fails(35.5 * 33.0, 1), fails(36.0 * 33.0, 5)], (20, 0));
        assert!(both.rolled_back >= 8 && both.rounds > 20, "{both:?}");
        let every: Vec<Known> = (0..4).map(|worker| fails(35.5 * 33.0, worker)).collect();
        let none = run(1, weights, &every, (20, 0));
        assert!(none.rolled_back >= 8 && none.rounds > 20, "{none:?}");
    }
}

/// Checks that the grid has the (m + d - 1) steps of each kind that the formula predicts.
#[test]
fn a_pipeline_has_a_grid() {
    let grid = chain(4, 8, WeightVersions::Latest, Residence::Host).grid().unwrap();
    assert_eq!((grid.lanes, grid.rounds.len(), grid.cells.len()), (4, 1, 2 * 4 * 8));
    assert!((grid.rounds[0] - 33.0).abs() < 1e-9 && (grid.bubble() - 3.0 / 11.0).abs() < 1e-9);
    let two = chain(4, 8, WeightVersions::TwoBuffered, Residence::Host).grid().unwrap();
    assert_eq!(two.rounds.len(), 3);
}

#[test]
fn what_cannot_be_is_refused_in_words() {
    let run = |change: &dyn Fn(&mut Pipeline, &mut Places)| {
        let (mut pipeline, mut at) =
            (chain(2, 2, WeightVersions::Latest, Residence::Host), places(Preemption::default()));
        change(&mut pipeline, &mut at);
        pipeline.run(&at, 10.0, 1).unwrap_err().to_string()
    };
    for (found, part) in [
        (run(&|pipeline, _| pipeline.stages.clear()), "1 to 4,096"),
        (run(&|pipeline, _| pipeline.width = 3), "a multiple of the replicas"),
        (run(&|pipeline, _| pipeline.stages[0].reads = vec![(1, 1.0)]), "earlier stages"),
        (run(&|pipeline, _| pipeline.stages[0].forward = f64::NAN), "NaN"),
        (run(&|_, places| places.link = 0.0), "above 0"),
        (run(&|_, places| places.owner = Owner::Host(0.0)), "host's link"),
        (run(&|_, places| places.preemption.back = -1.0), "at least 0"),
        (run(&|_, places| places.snapshot_every = Some(0)), "at least 1"),
        (run(&|_, places| places.preemption.per_hour = 1.0), "weights that the host owns"),
        (
            run(&|pipeline, places| {
                pipeline.residence = Residence::Workers;
                places.trace = vec![fails(1.0, 0)];
            }),
            "updates between snapshots",
        ),
    ] {
        assert!(found.contains(part), "{found}");
    }
}

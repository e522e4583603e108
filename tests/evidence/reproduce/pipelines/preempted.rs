//! Table of pipelines on spot instances (Bamboo, ReCycle, Oobleck): the published results, and the
//! results of set-ups that a run can have in the simulated world.

use eciton_engine::{Residence, Takeover};
use eciton_planner::models::published;
use eciton_recipe::pipeline_schedule::PipelineSchedule;
use eciton_simulate::pipeline::{Owner, Pipeline, PipelineReport, Places, Preemption, checkpointed};

use super::{HOST_LINK, LANE, Line, SPEED, line, planned, wanted};
use crate::error::Error;

/// Number of runs per set-up.
const SEEDS: u64 = 5;
/// Prices of a p3.2xlarge on demand and as a spot instance, in USD per hour (Thorpe et al. 2023,
/// section 6).
const ON_DEMAND: f64 = 3.06;
const SPOT: f64 = 0.918;
/// Number of updates between snapshots or checkpoints.
const EVERY: u32 = 10;
/// Time of a restart from a checkpoint, in seconds.
const RESTART: f64 = 300.0;
/// Share by which a result may differ from the published one without a reason.
const ACCURATE: f64 = 0.15;

/// Figures of several runs.
struct Spread(Vec<f64>);

impl Spread {
    fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len().max(1) as f64
    }

    /// Returns the mean and the range relative to `unit`, for instance `1.51x (1.48x to 1.55x)`.
    fn times(&self, unit: f64) -> String {
        let (least, most) = self.0.iter().fold((f64::INFINITY, 0.0f64), |(a, b), &f| (a.min(f), b.max(f)));
        format!("{:.2}x ({:.2}x to {:.2}x)", self.mean() / unit, least / unit, most / unit)
    }
}

/// Returns a line with the reason for a difference, if the result differs from the published one.
fn judged(what: String, (text, published): (&str, f64), (ours, unit): (&Spread, f64), reason: &str) -> Line {
    let found = ours.mean() / unit;
    let why = match (found / published - 1.0).abs() <= ACCURATE {
        true => "within 15 % of the published result".to_owned(),
        false => reason.to_owned(),
    };
    line(what, text, ours.times(unit), why)
}

/// Simulates a language model on 48 spot instances in 4 replicas of 12 stages, at the failure rates
/// of Thorpe et al. 2023 (Bamboo), section 6.
///
/// # Errors
/// Returns the errors of [`planned`] and of [`Pipeline::run`].
pub(crate) fn preempted(hours: f64) -> Result<Vec<Line>, Error> {
    let graph = published("gpt-1.3b", SPEED)?;
    let found = planned(&graph, 48, &wanted(1024, &[PipelineSchedule::Flush], &[64], &[4]))?;
    let seconds = hours * 3600.0;
    let count = found.shape.width * found.shape.depth;
    let rows = f64::from(found.rows * found.shape.micro);
    let mut lines = Vec::new();
    let places = |owner, usd_hour, preemption| Places {
        link: LANE.link,
        owner,
        paces: Vec::new(),
        usd_hour,
        jitter: 0.05,
        preemption,
        trace: Vec::new(),
        snapshot_every: Some(EVERY),
        snapshot_seconds: 0.0,
        replicas: 0,
    };
    let run = |residence, takeover, places: &Places| -> Result<Vec<PipelineReport>, Error> {
        let mut pipeline = Pipeline::planned(&found, &graph, residence);
        pipeline.takeover = takeover;
        Ok((0..SEEDS).map(|seed| pipeline.run(places, seconds, seed)).collect::<Result<_, _>>()?)
    };
    let rates = |reports: &[PipelineReport]| Spread(reports.iter().map(|one| one.rows_per_s).collect());
    let value = |reports: &[PipelineReport]| {
        Spread(reports.iter().map(|one| one.rows_per_s * seconds / one.usd).collect())
    };
    let quiet = run(Residence::Workers, None, &places(Owner::Worker, ON_DEMAND, Preemption::default()))?;
    let (steady, steady_value) = (rates(&quiet).mean(), value(&quiet).mean());
    for per_hour in [0.1, 0.16, 0.33] {
        // A third of all failures come in bursts of four in one of three zones.
        let bursts = per_hour / 3.0 * f64::from(count) / (4.0 * 3.0);
        let preemption = Preemption {
            per_hour: per_hour * 2.0 / 3.0,
            bursts_per_hour: bursts,
            burst: 4,
            zones: 3,
            back: 300.0,
        };
        let own = places(Owner::Worker, SPOT, preemption);
        let peers = run(Residence::Workers, Some(Takeover::Peers), &own)?;
        let previous = run(Residence::Workers, Some(Takeover::Previous), &own)?;
        // The link of the host is so fast that it never waits, in favour of redundant computation.
        let at_host = places(Owner::Host(1e15), SPOT, preemption);
        let redundant = run(Residence::Redundant, None, &at_host)?;
        let narrow = run(Residence::Redundant, None, &places(Owner::Host(HOST_LINK), SPOT, preemption))?;
        let round = rows / steady;
        let restarts: Vec<f64> = (0..SEEDS)
            .map(|seed| {
                let rounds = checkpointed(&preemption, (count, round), (EVERY, RESTART), seconds, seed);
                f64::from(rounds) * rows / seconds
            })
            .collect();
        let restarted = Spread(restarts).mean();
        let at = format!("{count} workers, {:.0} % failures per hour", 100.0 * per_hour);
        let lost = 100.0 * (1.0 - restarted / steady);
        lines.push(judged(
            format!("{at}: redundant computation relative to checkpoint and restart (Bamboo)"),
            ("3.7x", 3.7),
            (&rates(&redundant), restarted),
            &format!(
                "a restart of {RESTART:.0} s and {EVERY} rounds of {round:.1} s between checkpoints cost {lost:.0} % of \
                 the time here, 77 % in the paper; with a host link of 25 Gbit/s all rows wait for the host: {:.2}x",
                rates(&narrow).mean() / restarted
            ),
        ));
        lines.push(judged(
            format!("{at}: redundant computation, rows per dollar relative to on-demand machines (Bamboo)"),
            ("2.4x", 2.4),
            (&value(&redundant), steady_value),
            &format!(
                "the spot discount alone is {:.2}x, of which {:.0} % remain; the paper's pipelines are 1.5 times \
                 deeper for redundant layers, which have no memory here",
                ON_DEMAND / SPOT,
                100.0 * rates(&redundant).mean() / steady
            ),
        ));
        lines.push(judged(
            format!("{at}: peers take over, relative to redundant computation (ReCycle against Bamboo)"),
            ("up to 1.64x", 1.64),
            (&rates(&peers), rates(&redundant).mean()),
            "backward steps are not split into gradients of inputs and of weights, so peers fill fewer bubbles; \
             workers return after 300 s here, so few are missing at a time",
        ));
        lines.push(judged(
            format!("{at}: peers take over, relative to the worker before the failed one (Oobleck)"),
            ("up to 13.9x over Bamboo", 13.9),
            (&rates(&peers), rates(&previous).mean()),
            "the paper compares with systems that stop or restart when workers are missing; both rules here \
             continue with every number of workers, without planned templates",
        ));
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::tests::{figure, show};
    use super::*;

    #[test]
    fn preempted_pipelines_keep_most_of_their_pace() {
        let lines = preempted(0.02).unwrap();
        show(&lines);
        assert_eq!(lines.len(), 12);
        let of = |kind: usize| lines.iter().skip(kind).step_by(4).map(figure);
        // Few failures cost less than redundant computation.
        assert!(of(0).all(|factor| factor >= 0.8), "restarts");
        assert!(of(1).all(|factor| factor > 1.5), "value");
        assert!(lines.iter().all(|line| !line.why.is_empty()));
    }
}

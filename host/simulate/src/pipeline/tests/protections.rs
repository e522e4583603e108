//! Chosen protections against failures of workers, confirmed by the simulation.

use eciton_planner::models::{Speed, published};
use eciton_planner::{Failures, Host, HostWork, Lane, Machine, Protected, Protection, Wanted, protect};
use eciton_recipe::pipeline_schedule::PipelineSchedule;

use super::*;

/// Number of workers.
const LANES: u32 = 8;
/// Largest share by which another protection may be cheaper than the chosen one in the simulation.
const CHEAPER: f64 = 0.05;

/// Returns the expected rate of a protection, and its simulated rate and US dollars per million
/// rows, which are means over the seeds.
fn rates(of: &Protected, graph: &eciton_planner::Graph, places: &Places, seeds: u64) -> (f64, f64, f64) {
    let seconds = 3600.0 * if crate::tuning::is_campaign() { 8.0 } else { 3.0 };
    let run = |seed| Pipeline::run_protected(of, graph, (places, 1.25e9), seconds, seed).unwrap();
    let reports: Vec<PipelineReport> = (0..seeds).map(run).collect();
    let rows = reports.iter().map(|report| report.rows_per_s).sum::<f64>() / seeds as f64;
    let usd = reports.iter().map(|report| report.usd).sum::<f64>() / seeds as f64;
    (of.rows_a_second, rows, usd / (rows * seconds) * 1e6)
}

/// Plans protections for rates of failures from rare to frequent, and simulates each. In a campaign
/// with more seeds.
#[test]
fn the_simulation_confirms_the_chosen_protection() {
    let is_campaign = crate::tuning::is_campaign();
    // A round takes about half a minute.
    let graph = published("layers-16x4096", Speed { flops: 5e9, start: 0.0 }).unwrap();
    let lane = Lane { pace: 1.0, memory: None, link: 1.25e9 };
    let host = Some(Host { link: 1.25e9, memory: None });
    let machine = Machine { host, ..Machine::equal(LANES, lane) };
    let wanted = Wanted {
        rows: vec![512],
        schedules: vec![PipelineSchedule::Flush],
        chunks: None,
        widths: if is_campaign { vec![1, 2, 4] } else { vec![1, 4] },
        micro: vec![if is_campaign { 32 } else { 8 }],
        recompute: false,
        parallel: true,
        copies: 3.0,
        lane_copies: 1.0,
        work: HostWork::default(),
    };
    let seeds = if is_campaign { 10 } else { 2 };
    let all = [(0.02, 300.0), (0.1, 1800.0), (0.33, 1800.0), (1.0, 300.0)];
    let (mut worst, mut furthest) = (0.0f64, 0.0f64);
    for (per_hour, back) in all.into_iter().skip(if is_campaign { 0 } else { 2 }) {
        let failures = Failures {
            per_hour,
            replaced_after: back,
            usd_hour: 0.918,
            reliable_usd_hour: Some(3.06),
            snapshot_link: 1.25e9,
        };
        let all = protect(&graph, &machine, &wanted, &failures).unwrap();
        let preemption = Preemption { per_hour, back, ..Preemption::default() };
        let costs: Vec<f64> = all
            .iter()
            .map(|of| {
                let usd_hour = if of.protection == Protection::Reliable { 3.06 } else { 0.918 };
                let at = Places { link: 1.25e9, usd_hour, ..places(preemption) };
                let (expected, found, usd) = rates(of, &graph, &at, seeds);
                eprintln!(
                    "{per_hour} per hour, {back} s: {}, {} wide: {expected:.3} rows/s expected, {found:.3} simulated, \
                     ${usd:.2} per million rows",
                    of.protection.summary(),
                    of.plan.shape.width
                );
                furthest = furthest.max((expected / found - 1.0).abs());
                usd
            })
            .collect();
        let least = costs.iter().copied().fold(f64::INFINITY, f64::min);
        worst = worst.max(1.0 - least / costs[0]);
        assert!(1.0 - least / costs[0] < CHEAPER, "{per_hour} per hour: {costs:?}");
    }
    eprintln!(
        "seeds 0 to {}: another protection is at most {:.1} % cheaper; expected rates differ by at most {:.1} %",
        seeds - 1,
        100.0 * worst,
        100.0 * furthest
    );
    assert!(furthest < 0.15, "{furthest}");
}

//! Comparison of protections against failures of workers, by expected and by simulated costs. The
//! commands `eciton plan` and `eciton simulate --pipeline MODEL --protect` print it.

use eciton_planner::{Graph, Machine, Protected, Protection};
use eciton_simulate::pipeline::{Owner, Pipeline, Places, Preemption};
use serde::Serialize;

use crate::failure::Failure;
use crate::text::seconds;

/// Number of simulations of each protection.
pub(crate) const SEEDS: u64 = 5;
/// Hours that are simulated if nothing else is asked for.
pub(crate) const HOURS: f64 = 8.0;
/// Maximum number of steps of one simulation in `eciton plan`: about two seconds.
const MOST_STEPS: f64 = 1e6;
/// Maximum number of hours that `eciton plan` simulates.
const MOST_HOURS: f64 = 1000.0;
/// Minimum number of expected failures in a simulation of `eciton plan`.
const FEWEST_FAILURES: f64 = 10.0;

/// Protection with its expected and its simulated rate and costs.
#[derive(Debug, Serialize)]
pub(crate) struct Compared {
    pipeline: String,
    protection: String,
    expected_rows_per_s: f64,
    expected_usd_per_million_rows: f64,
    /// `None` if the protection is not simulated.
    simulated: Option<Simulated>,
}

/// Mean rate and costs over all seeds, with the range of the rates.
#[derive(Debug, Serialize)]
struct Simulated {
    rows_per_s: f64,
    rows_per_s_range: (f64, f64),
    usd_per_million_rows: f64,
}

/// Protections that are compared, with the world of their simulation.
pub(crate) struct Comparison<'a> {
    pub(crate) all: &'a [Protected],
    pub(crate) graph: &'a Graph,
    pub(crate) machine: &'a Machine,
    pub(crate) preemption: Preemption,
    pub(crate) jitter: f64,
    pub(crate) usd_hour: f64,
    pub(crate) reliable_usd_hour: Option<f64>,
}

impl Comparison<'_> {
    /// Returns the number of hours that `eciton plan` simulates. Returns `None` if a simulation with
    /// enough failures would take too long.
    pub(crate) fn hours(&self) -> Option<f64> {
        let of = |of: &Protected| {
            let steps = 2.0 * of.plan.stages.len() as f64 * f64::from(of.plan.shape.micro);
            let hours = (MOST_STEPS / steps * of.plan.round_seconds / 3600.0).min(MOST_HOURS);
            let workers = f64::from(of.plan.shape.width * of.plan.shape.depth);
            (hours, hours * workers * self.preemption.per_hour)
        };
        let each = self.all.iter().map(of);
        let (hours, failures) =
            each.fold((f64::INFINITY, f64::INFINITY), |least, of| (least.0.min(of.0), least.1.min(of.1)));
        (failures >= FEWEST_FAILURES).then_some(hours)
    }

    /// Returns the protections with their costs. They are simulated for `hours` hours.
    pub(crate) fn run(&self, hours: Option<f64>) -> Result<Vec<Compared>, Failure> {
        let one = |of: &Protected| {
            Ok(Compared {
                pipeline: of.plan.summary(),
                protection: of.protection.summary(),
                expected_rows_per_s: of.rows_a_second,
                expected_usd_per_million_rows: of.usd_per_million_rows,
                simulated: hours.map(|hours| self.simulated(of, 3600.0 * hours)).transpose()?,
            })
        };
        self.all.iter().map(one).collect()
    }

    fn simulated(&self, of: &Protected, seconds: f64) -> Result<Simulated, Failure> {
        let link = self.machine.lanes.iter().map(|lane| lane.link).fold(f64::INFINITY, f64::min);
        let is_reliable = of.protection == Protection::Reliable;
        let places = Places {
            link,
            owner: Owner::Worker,
            // The times of the planned stages are those on their workers.
            paces: Vec::new(),
            usd_hour: self.reliable_usd_hour.filter(|_| is_reliable).unwrap_or(self.usd_hour),
            jitter: self.jitter,
            preemption: self.preemption,
            trace: Vec::new(),
            snapshot_every: None,
            snapshot_seconds: 0.0,
            replicas: 0,
        };
        let host_link = self.machine.host.map_or(link, |host| host.link);
        let run = |seed| Pipeline::run_protected(of, self.graph, (&places, host_link), seconds, seed);
        let reports = (0..SEEDS).map(run).collect::<Result<Vec<_>, _>>().map_err(failed)?;
        let rates = reports.iter().map(|report| report.rows_per_s);
        let rows = rates.clone().sum::<f64>() * seconds;
        let usd: f64 = reports.iter().map(|report| report.usd).sum();
        Ok(Simulated {
            rows_per_s: rows / (SEEDS as f64 * seconds),
            rows_per_s_range: (rates.clone().fold(f64::INFINITY, f64::min), rates.fold(0.0, f64::max)),
            usd_per_million_rows: if rows > 0.0 { usd / rows * 1e6 } else { f64::INFINITY },
        })
    }
}

/// Converts an error of the simulation. A run that worker failures end is no wrong usage.
pub(crate) fn failed(error: eciton_simulate::Error) -> Failure {
    match error {
        eciton_simulate::Error::Failed { .. } => Failure::Failed(error.to_string()),
        other => Failure::usage(&other),
    }
}

/// Returns the cheapest protection in the simulation, and the share by which it is cheaper than the
/// chosen one, which is the first. Returns `None` if they are not simulated.
pub(crate) fn cheapest(compared: &[Compared]) -> Option<(&Compared, f64)> {
    let cost = |of: &Compared| of.simulated.as_ref().map(|simulated| simulated.usd_per_million_rows);
    let chosen = cost(compared.first()?)?;
    let all = compared.iter().filter_map(|of| Some((of, cost(of)?)));
    let (cheapest, usd) = all.min_by(|one, other| one.1.total_cmp(&other.1))?;
    Some((cheapest, 1.0 - usd / chosen))
}

/// Returns US dollars with three significant digits at least.
fn usd(dollars: f64) -> String {
    let digits = (2.0 - dollars.max(1e-9).log10().floor()).clamp(2.0, 9.0);
    format!("${dollars:.*}", digits as usize)
}

/// Prints the protections, the chosen one first, and whether the simulation agrees.
pub(crate) fn print(compared: &[Compared], hours: Option<f64>, row: &mut impl FnMut(&str, String)) {
    let text = |of: &Compared| {
        let (rate, costs) = match &of.simulated {
            None => (String::new(), String::new()),
            Some(Simulated { rows_per_s, rows_per_s_range: (least, most), usd_per_million_rows }) => (
                format!(", {rows_per_s:.1} simulated ({least:.1} to {most:.1})"),
                format!(", {} simulated", usd(*usd_per_million_rows)),
            ),
        };
        format!(
            "{}; {}: {:.1} rows/s expected{rate}; {} per million rows expected{costs}",
            of.protection,
            of.pipeline,
            of.expected_rows_per_s,
            usd(of.expected_usd_per_million_rows)
        )
    };
    for (at, of) in compared.iter().enumerate() {
        row(["protection", "others", ""][at.min(2)], text(of));
    }
    let simulated = hours.map(|hours| format!("{} and {SEEDS} seeds", seconds(3600.0 * hours)));
    let text = match (cheapest(compared), simulated) {
        (Some((_, by)), Some(of)) if by <= 0.0 => {
            format!("the chosen protection is also the cheapest in the simulation of {of}")
        }
        (Some((other, by)), Some(of)) => format!(
            "in the simulation of {of}, {} is {:.1} % cheaper than the chosen protection",
            other.protection,
            100.0 * by
        ),
        _ => "none: a simulation with enough failures would take too long".to_owned(),
    };
    row("simulation", text);
}

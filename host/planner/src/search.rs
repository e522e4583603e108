//! Search over all candidate plans. If no plan fits, it finds the memory that is missing.

use std::collections::BTreeSet;

use super::branches::Branches;
use super::chain::{self, Runs};
use super::graph::Graph;
use super::lattice::Lattice;
use super::machine::{Lane, Machine, Shape, Wanted};
use super::partition::{Partition, StageOf};
use super::plan::{Answer, Plan};
use super::pool::Pool;
use super::predict::Candidate;
use super::refine::{PATIENCE, Refiner, SLACK};
use super::stage_time::{Setting, Sums};
use super::tree::Part;
use super::{balance, blocks};
use crate::error::{Error, Result};

/// Number of the fastest candidates from which the local search starts.
const STARTS: usize = 8;
/// Number of predicted steps of a search, after which no more partitions are tried: about half a second of a core.
const BUDGET: u64 = 1 << 20;

/// Returns the plan with the highest number of rows per second, and the best other plan.
///
/// # Errors
/// Returns [`Error::Short`] if no plan fits in memory. The error names the lane or host that is
/// short of memory, with the bytes that it needs. Returns [`Error::Content`] or [`Error::TooMany`]
/// for an invalid machine or invalid constraints.
pub fn plan(graph: &Graph, machine: &Machine, wanted: &Wanted) -> Result<Answer> {
    wanted.check(machine, graph.len())?;
    let mut search = Search {
        graph,
        machine,
        wanted,
        runs: Runs::from_graph(graph),
        lattice: lattice(graph, wanted),
        states: 0,
        found: Vec::new(),
    };
    for shape in wanted.shapes(machine) {
        search.partitions(Setting::new(machine, wanted, shape));
    }
    let all = std::mem::take(&mut search.found);
    let (fitting, others): (Vec<_>, Vec<_>) = all.into_iter().partition(Candidate::fits);
    match search.fastest(fitting) {
        Some((plan, runner_up)) => {
            let reason = runner_up.as_ref().map_or_else(String::new, |second| second.loses(&plan));
            Ok(Answer { plan, runner_up, reason, states: search.states })
        }
        None => Err(search.short(&others)),
    }
}

/// Returns the lattice of a graph with branches, if independent stages may run at the same time.
/// Returns `None` for a chain.
fn lattice(graph: &Graph, wanted: &Wanted) -> Option<Lattice> {
    let part = Part::from_graph(graph);
    if !wanted.parallel || part.is_chain() {
        return None;
    }
    let most = wanted.rows.iter().copied().max().unwrap_or(1);
    let rows = wanted.micro.iter().map(|&micro| most.div_ceil(micro.max(1))).max().unwrap_or(1);
    let weight = |operators: &[usize]| -> f64 {
        let operators = operators.iter().filter_map(|&at| graph.operators().get(at));
        operators.map(|of| (of.forward + of.backward).on(f64::from(rows))).sum()
    };
    Lattice::from_graph(graph, &part, &weight)
}

struct Search<'a> {
    graph: &'a Graph,
    machine: &'a Machine,
    wanted: &'a Wanted,
    runs: Runs,
    /// Lattice of the graph, if the graph has branches that may run at the same time.
    lattice: Option<Lattice>,
    states: u64,
    found: Vec<Candidate<'a>>,
}

impl<'a> Search<'a> {
    fn candidate(&self, setting: Setting, partition: Partition) -> Candidate<'a> {
        let Self { graph, machine, wanted, .. } = *self;
        let counted = partition.count(graph, machine, &setting, wanted.parallel);
        Candidate { machine, setting, partition, counted }
    }

    /// Adds candidates for interleaved schedules: runs of equal compute, with boundary operators
    /// moved. Run k is on lane k mod depth.
    fn interleaved(&mut self, setting: Setting) {
        let groups = Pool::from_machine(self.machine, setting.shape.width).groups;
        let most = groups.len().min(self.runs.len() / setting.shape.chunks as usize);
        for depth in chain::depths(most) {
            let shape = Shape { depth: depth as u32, ..setting.shape };
            let setting = Setting { shape, ..setting };
            let price =
                |sums: &Sums, lane: &Lane, path: u32| setting.cost(sums, lane, setting.in_flight(path));
            let all = groups.iter().take(depth).cycle().take(depth * setting.shape.chunks as usize);
            let pool = Pool { groups: all.cloned().collect(), classes: Vec::new() };
            let lanes: Vec<Lane> = pool.groups.iter().map(|group| group.lane).collect();
            let Some(equal) = blocks::equal(&self.runs, &pool, lanes.len(), setting.rows) else { continue };
            let moved = balance::moved(&self.runs, &equal, &lanes, &price, &mut self.states);
            let found = [equal, moved].map(|partition| self.candidate(setting, partition));
            self.found.extend(found.into_iter().filter(Candidate::fits_lanes));
        }
    }

    /// Adds the partitions that all planners find in a setting.
    fn partitions(&mut self, setting: Setting) {
        if setting.shape.chunks > 1 {
            return self.interleaved(setting);
        }
        let pool = Pool::from_machine(self.machine, setting.shape.width);
        let price = |sums: &Sums, lane: &Lane, path: u32| setting.cost(sums, lane, setting.in_flight(path));
        let mut states = 0;
        let mut found: Vec<Partition> = Vec::new();
        let cuts = chain::cuts(&self.runs, &pool, &price, &mut states);
        found.extend(cuts.into_iter().map(|(_, cut)| cut));
        found.extend(chain::fills(
            &self.runs,
            &pool,
            &|sums, lane, path| setting.phases(sums, lane, path),
            &mut states,
        ));
        if let Some(lattice) = &self.lattice {
            let pool = if pool.shares().is_some() { pool.clone() } else { pool.levelled() };
            let branches = Branches::new(lattice, &pool, &price, setting.rows);
            let most = pool.groups.len().min(lattice.atoms.len());
            for depth in chain::depths(most).filter(|&depth| depth > 1) {
                found.extend(branches.best(depth, &mut states).map(|(_, of)| of));
            }
        }
        let mut quickest: Option<(f64, Partition)> = None;
        for depth in chain::depths(pool.groups.len().min(self.runs.len())) {
            let Some(equal) = blocks::equal(&self.runs, &pool, depth, setting.rows) else { continue };
            let lanes: Vec<Lane> = pool.groups.iter().take(depth).map(|group| group.lane).collect();
            found.push(balance::moved(&self.runs, &equal, &lanes, &price, &mut states));
            let candidate = self.candidate(setting, equal);
            let throughput = blocks::throughput(&candidate);
            if candidate.fits() && quickest.as_ref().is_none_or(|(most, _)| throughput > *most) {
                quickest = Some((throughput, candidate.partition));
            }
        }
        found.extend(quickest.map(|(_, of)| of));
        self.states += states;
        let mut seen: BTreeSet<Vec<StageOf>> = BTreeSet::new();
        for partition in found {
            if seen.insert(partition.stages.clone()) {
                let candidate = self.candidate(setting, partition);
                self.found.extend(Some(candidate).filter(Candidate::fits_lanes));
            }
        }
    }

    /// Predicts the candidates, searches among their neighbours, and returns the fastest plan and the
    /// fastest one with another batch, width, schedule or stages. Times are seconds per row, because
    /// candidates may have different batches.
    fn fastest(&mut self, candidates: Vec<Candidate<'a>>) -> Option<(Plan, Option<Plan>)> {
        let mut budget = BUDGET;
        let mut known = predicted(candidates, &mut budget);
        let mut seen: BTreeSet<(Shape, Vec<StageOf>)> = BTreeSet::new();
        seen.extend(known.iter().map(|(_, of)| (of.setting.shape, of.partition.stages.clone())));
        // Indices into `known` of candidates whose neighbours are not known, the fastest last.
        let mut open: Vec<usize> = (0..known.len()).rev().collect();
        let mut patience = PATIENCE;
        while let Some(at) = open.pop().filter(|_| patience > 0 && budget > 0) {
            let fastest_s = known.iter().map(|(row_s, _)| *row_s).fold(f64::INFINITY, f64::min);
            let (row_s, of) = known.get(at)?;
            if *row_s > fastest_s * SLACK {
                break;
            }
            patience -= 1;
            let (setting, chunks) = (of.setting, of.setting.shape.chunks);
            let pool = Pool::from_machine(self.machine, setting.shape.width);
            let neighbours = Refiner { graph: self.graph, pool: &pool }.neighbours(&of.partition, chunks);
            let mut limit_s = fastest_s;
            for partition in neighbours {
                if budget == 0 || !seen.insert((setting.shape, partition.stages.clone())) {
                    continue;
                }
                self.states += 1;
                let moved = self.candidate(setting, partition);
                if !moved.fits() || moved.least() / moved.rows() > limit_s * SLACK {
                    continue;
                }
                budget = budget.saturating_sub(moved.steps());
                let moved_s = moved.predict().round / moved.rows();
                // A difference in the last digits is no reason to continue.
                if moved_s < limit_s * (1.0 - 1e-9) {
                    (limit_s, patience) = (moved_s, PATIENCE);
                }
                let before =
                    open.partition_point(|&other| known.get(other).is_some_and(|of| of.0 >= moved_s));
                open.insert(before, known.len());
                known.push((moved_s, moved));
            }
        }
        known.sort_by(|one, other| one.0.total_cmp(&other.0));
        let mut plans = known.into_iter().map(|(_, of)| Plan::from_candidate(&of, of.predict()));
        let first = plans.next()?;
        let second = plans.find(|plan| differ(plan, &first));
        Some((first, second))
    }

    /// Returns the error for a search without a fitting plan. It names the lane or host of the plan
    /// that is closest to fitting. In the plans of `others`, only the host is short of memory.
    fn short(&mut self, others: &[Candidate<'a>]) -> Error {
        let least = others.iter().map(Candidate::host_memory).fold(f64::INFINITY, f64::min);
        if let Some(have) = self.machine.host.and_then(|host| host.memory).filter(|_| least.is_finite()) {
            return Error::Short {
                what: "the host, with its versions of the weights and rows between stages,".to_owned(),
                need: least.ceil() as u64,
                have: have as u64,
                remedy: "give the host more memory, or use fewer stages, smaller micro-batches or the schedule 1f1b",
            };
        }
        let mut worst: Option<(f64, Candidate<'a>)> = None;
        for shape in self.wanted.shapes(self.machine) {
            let setting = Setting::new(self.machine, self.wanted, shape);
            let pool = Pool::from_machine(self.machine, shape.width);
            let price =
                |sums: &Sums, lane: &Lane, path: u32| setting.strain(sums, lane, setting.in_flight(path));
            for (strain, cut) in chain::cuts(&self.runs, &pool, &price, &mut self.states) {
                if worst.as_ref().is_none_or(|(least, _)| strain < *least) {
                    worst = Some((strain, self.candidate(setting, cut)));
                }
            }
        }
        let stages = worst.as_ref().map(|(_, of)| of.partition.stages.iter().zip(&of.counted));
        let lanes = stages.into_iter().flatten().flat_map(|(stage, counted)| {
            let lanes = stage.lanes.iter().filter_map(|&at| Some((at, self.machine.lanes.get(at)?.memory?)));
            lanes.map(move |(at, have)| (at, have, counted.memory, stage))
        });
        let tightest = lanes.max_by(|one, other| (one.2 / one.1).total_cmp(&(other.2 / other.1)));
        let (what, need, have) =
            tightest.map_or(("a lane".to_owned(), 0.0, 0.0), |(at, have, need, stage)| {
                let name = |of: Option<&usize>| {
                    of.and_then(|&of| self.graph.operators().get(of)).map_or("", |of| of.name.as_str())
                };
                let (first, last) = (name(stage.operators.first()), name(stage.operators.last()));
                (format!("lane {at}, with operators `{first}` to `{last}`,"), need, have)
            });
        let remedy = match self.wanted.recompute {
            true => "use more lanes, lanes with more memory, or smaller micro-batches",
            false => {
                "allow recomputation, or use more lanes, lanes with more memory, or smaller micro-batches"
            }
        };
        Error::Short { what, need: need.ceil() as u64, have: have as u64, remedy }
    }
}

/// Predicts candidates by their lower bounds, the smallest first. Stops if no later one can be among the two
/// fastest, and at least [`STARTS`] are predicted or the budget is used. Returns the seconds per row
/// and the candidates, the fastest first.
fn predicted<'a>(candidates: Vec<Candidate<'a>>, budget: &mut u64) -> Vec<(f64, Candidate<'a>)> {
    let mut bounded: Vec<(f64, Candidate<'_>)> =
        candidates.into_iter().map(|of| (of.least() / of.rows(), of)).collect();
    bounded.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut found: Vec<(f64, Candidate<'_>)> = Vec::new();
    for (least_s, candidate) in bounded {
        let needed = found.get(1).is_none_or(|(second_s, _)| least_s < *second_s);
        if !needed && (found.len() >= STARTS || *budget == 0) {
            break;
        }
        *budget = budget.saturating_sub(candidate.steps());
        let row_s = candidate.predict().round / candidate.rows();
        let at = found.partition_point(|(other_s, _)| *other_s <= row_s);
        found.insert(at, (row_s, candidate));
    }
    found
}

fn differ(one: &Plan, other: &Plan) -> bool {
    let operators =
        |of: &Plan| -> Vec<Vec<usize>> { of.stages.iter().map(|stage| stage.operators.clone()).collect() };
    let shape = |of: &Plan| (of.shape.rows, of.shape.width, of.shape.schedule);
    shape(one) != shape(other) || operators(one) != operators(other)
}

//! Plan of a run on several hosts, with the rows and the messages of each host.

use eciton_program::{Buffers, Program};
use eciton_recipe::Config;
use serde::Serialize;

use super::cut::Cut;
use super::features::shared;
use super::link::FACT_BYTES;
use super::{check, check_data, exchange, lists};
use crate::data::{self, Inputs};
use crate::error::Result;
use crate::session::Draft;

/// Plan of a run on several hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HostsPlan {
    /// Plan of each host.
    pub hosts: Vec<PlannedHost>,
}

/// Rows and messages of one host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlannedHost {
    /// Number of rows whose steps run at the host.
    pub rows: u64,
    /// Number of edges that lead to these rows.
    pub edges: u64,
    /// Number of rows of other hosts that the steps of this host read (ghosts).
    pub ghosts: u64,
    /// Bytes that the host sends to each host before the first step. Further seeds send fewer,
    /// because features are sent once.
    pub start_bytes: Vec<u64>,
    /// Bytes that the host sends to each host in a step of the training.
    pub step_bytes: Vec<u64>,
    /// Bytes that the host sends to each host in an evaluation.
    pub evaluation_bytes: Vec<u64>,
}

impl HostsPlan {
    /// Plans the run of `draft` on `count` hosts.
    ///
    /// # Errors
    /// Returns [`Error::Hosts`](crate::Error::Hosts) if so many hosts cannot train this model.
    pub(crate) fn new(draft: &Draft, config: &Config, count: u32) -> Result<Self> {
        let (inputs, planned) = (&draft.inputs, &draft.planned);
        check_data(config, inputs)?;
        check(&planned.schedule)?;
        let cut = Cut::new(&inputs.starts(), &inputs.dataset.parts, count)?;
        let rows = |host: u32| {
            let own = cut.of(host);
            let at = |interval: u32| inputs.intervals.get(interval as usize).map(|of| of.rows.clone());
            at(own.start).map_or(0, |rows| rows.start)..at(own.end - 1).map_or(0, |rows| rows.end)
        };
        let evaluation = planned.evaluation_schedule();
        let mut ghosts = vec![vec![false; inputs.shape.rows as usize]; count as usize];
        let sent =
            |program: &Program, ghosts: &mut [Vec<bool>]| sent(program, (inputs, config), &cut, ghosts);
        let mut step = sent(&planned.schedule, &mut ghosts)?;
        let mut evaluated = sent(evaluation, &mut ghosts)?;
        let sums = draft.sums(config, inputs.intervals.len());
        let runs: Vec<_> = cut.runs().collect();
        let values: u64 = exchange::sums(&planned.schedule)
            .iter()
            .filter_map(|id| planned.schedule.parameter(*id))
            .map(|parameter| parameter.len() as u64)
            .sum();
        let counts: Vec<u64> = sums.counts().collect();
        let losses = planned.schedule.losses.len() as u64;
        for (host, tops) in (0..count).zip(sums.tops(&runs)) {
            let own = cut.of(host);
            let nodes: u64 = counts[own.start as usize..own.end as usize].iter().sum();
            let shared = 4 * (values * tops.len() as u64 + losses * nodes);
            let scores = 4 * rows(host).len() as u64 * u64::from(inputs.shape.classes);
            for other in (0..count).filter(|other| *other != host) {
                step[host as usize][other as usize] += shared;
                evaluated[host as usize][other as usize] += scores;
            }
        }
        let features = match planned.program.rewrites.gathered_features && data::may_read_own(config, inputs)
        {
            true => 4 * u64::from(inputs.shape.features),
            false => 0,
        };
        let start = |host: u32, other: u32| match host == other {
            true => 0,
            false => FACT_BYTES + features * shared(inputs, rows(host), &rows(other)).len() as u64,
        };
        let offsets = inputs.dataset.graph.offsets();
        let part = |(host, (step_bytes, evaluation_bytes)): (u32, (Vec<u64>, Vec<u64>))| {
            let own = rows(host);
            let named = ghosts[host as usize].iter().enumerate();
            PlannedHost {
                rows: own.len() as u64,
                edges: offsets[own.end] - offsets[own.start],
                ghosts: named.filter(|(row, named)| **named && !own.contains(row)).count() as u64,
                start_bytes: (0..count).map(|other| start(host, other)).collect(),
                step_bytes,
                evaluation_bytes,
            }
        };
        let hosts = (0..).zip(step.into_iter().zip(evaluated)).map(part).collect();
        Ok(Self { hosts })
    }

    /// Returns the index of the host that stores the most rows.
    pub(crate) fn largest(&self) -> u32 {
        let stored = |host: &PlannedHost| host.rows + host.ghosts;
        (0..).zip(&self.hosts).max_by_key(|(_, host)| stored(host)).map_or(0, |(at, _)| at)
    }
}

/// Returns the bytes of rows that each host sends to each other one in a round of `program`. Adds the
/// rows that each host receives to `ghosts`.
fn sent(
    program: &Program,
    (inputs, config): (&Inputs, &Config),
    cut: &Cut,
    ghosts: &mut [Vec<bool>],
) -> Result<Vec<Vec<u64>>> {
    let mut known: Vec<(Vec<eciton_program::Relation>, Vec<Vec<u64>>)> = Vec::new();
    let mut bytes = vec![vec![0; ghosts.len()]; ghosts.len()];
    for slot in program.stages.iter().flat_map(eciton_program::Stage::writes) {
        let format = Buffers::format(program, slot, config.run.row_storage);
        let width = program.slots.get(slot.index()).map_or(0, |spec| u64::from(spec.width));
        let row = width * u64::from(format.value_bytes());
        if lists::is_of_atoms(program, slot) {
            for (owner, run) in cut.runs().enumerate() {
                let atoms =
                    |interval: u32| inputs.of_atoms.get(interval as usize).map_or(0, |of| of.rows.len());
                let sent = run.map(|interval| atoms(interval) as u64).sum::<u64>() * row;
                let others = bytes[owner].iter_mut().enumerate().filter(|(reader, _)| *reader != owner);
                others.for_each(|(_, bytes)| *bytes += sent);
            }
        }
        let relations = lists::readers(program, slot);
        if relations.is_empty() {
            continue;
        }
        if !known.iter().any(|(of, _)| *of == relations) {
            let mut counts = Vec::new();
            for (intervals, ghosts) in cut.runs().zip(ghosts.iter_mut()) {
                let named = lists::named(inputs, intervals, &relations)?;
                ghosts.iter_mut().zip(&named).for_each(|(all, named)| *all |= named);
                let of = |run: std::ops::Range<u32>| {
                    let rows = run.map(|interval| &inputs.intervals[interval as usize].rows);
                    rows.flat_map(|rows| &named[rows.clone()]).filter(|named| **named).count() as u64
                };
                counts.push(cut.runs().map(of).collect());
            }
            known.push((relations.clone(), counts));
        }
        for (reader, counts) in
            known.iter().filter(|(of, _)| *of == relations).flat_map(|(_, all)| all.iter().enumerate())
        {
            for (owner, count) in counts.iter().enumerate().filter(|(owner, _)| *owner != reader) {
                bytes[owner][reader] += count * row;
            }
        }
    }
    Ok(bytes)
}

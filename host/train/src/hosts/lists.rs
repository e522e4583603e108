//! Lists of the rows that hosts send each other.
//!
//! A host sends another host the rows that the neighbour lists of that host's rows name. Both hosts
//! have the same lists in ascending order, so that messages contain values without row numbers.

use std::ops::Range;
use std::sync::Arc;

use eciton_program::{Domain, Program, Relation, Stage};
use eciton_types::{SlotId, StageId};

use super::cut::Cut;
use crate::data::Inputs;
use crate::error::Result;

/// Rows of an interval that are sent, as ascending indices within the interval.
pub(super) type Rows = Arc<[u32]>;

/// Lists of the rows of one slot that a host sends and receives.
#[derive(Debug)]
pub(super) struct Lists {
    /// Rows that are sent to each host, by interval of this host. Empty for this host.
    pub to: Vec<Vec<Rows>>,
    /// Rows that are received, by interval of the run. Empty for intervals of this host.
    pub from: Vec<Rows>,
}

/// Returns the relations along which other stages read rows of `slot` of all intervals. Rows of a
/// slot without such relations do not travel.
pub(super) fn readers(schedule: &Program, slot: SlotId) -> Vec<Relation> {
    let stages = (0..).map(StageId).zip(&schedule.stages);
    let readers = stages.filter(|(_, reader)| reader.all().any(|read| read == slot));
    let mut relations: Vec<Relation> = Vec::new();
    for relation in readers.filter_map(|(id, _)| schedule.relation(id)) {
        if !relations.contains(relation) {
            relations.push(*relation);
        }
    }
    relations
}

/// Returns a flag for each row, which is true if lists of the rows of `intervals` name the row.
pub(super) fn named(inputs: &Inputs, intervals: Range<u32>, relations: &[Relation]) -> Result<Vec<bool>> {
    let rows = |interval: u32| inputs.intervals.get(interval as usize).map_or(0..0, |of| of.rows.clone());
    let mut named = vec![false; inputs.shape.rows as usize];
    let readers = rows(intervals.start).start..rows(intervals.end.saturating_sub(1)).end;
    for relation in relations {
        let lists = inputs.lists(*relation)?;
        let (adjacency, wanted) = (lists.adjacency(), lists.wanted());
        for row in readers.clone().filter(|&row| wanted.is_none_or(|wanted| wanted[row])) {
            adjacency.neighbours_of(row as u32).iter().for_each(|&of| named[of as usize] = true);
        }
    }
    Ok(named)
}

/// Returns for each host a flag for each row, which is true for rows of `own` that lists of the
/// host's rows name. The host is that of a row's targets, which the reversed lists name.
fn read_by(inputs: &Inputs, cut: &Cut, own: Range<u32>, relations: &[Relation]) -> Result<Vec<Vec<bool>>> {
    let rows = |interval: u32| inputs.intervals.get(interval as usize).map_or(0..0, |of| of.rows.clone());
    let ends: Vec<u32> = cut.runs().map(|run| rows(run.end.saturating_sub(1)).end as u32).collect();
    let mut read = vec![vec![false; inputs.shape.rows as usize]; ends.len()];
    for relation in relations {
        let lists = inputs.lists(Relation { reversed: !relation.reversed, ..*relation })?;
        let (adjacency, wanted) = (lists.adjacency(), lists.wanted());
        let all = rows(own.start).start..rows(own.end.saturating_sub(1)).end;
        for row in all.filter(|&row| wanted.is_none_or(|wanted| wanted[row])) {
            for target in adjacency.neighbours_of(row as u32) {
                read[ends.partition_point(|end| end <= target)][row] = true;
            }
        }
    }
    Ok(read)
}

/// Returns true if all hosts read all rows of `slot`, which are those of atoms.
pub(super) fn is_of_atoms(schedule: &Program, slot: SlotId) -> bool {
    let mut read = schedule.stages.iter().flat_map(Stage::all);
    schedule.domain_of(slot) == Domain::ATOMS && read.any(|read| read == slot)
}

impl Lists {
    /// Returns the lists of a slot with a row for each atom, which all hosts send to all others.
    pub(super) fn of_atoms(inputs: &Inputs, cut: &Cut, me: u32) -> Self {
        let all = |interval: u32| -> Rows {
            let rows = inputs.of_atoms.get(interval as usize).map_or(0, |atoms| atoms.rows.len());
            (0..rows as u32).collect()
        };
        let own = cut.of(me);
        let here = |interval: u32| if own.contains(&interval) { Rows::default() } else { all(interval) };
        let from = (0..inputs.of_atoms.len() as u32).map(here).collect();
        let hosts = 0..cut.runs().count() as u32;
        let sent = |host: u32| if host == me { Vec::new() } else { own.clone().map(all).collect() };
        Self { to: hosts.map(sent).collect(), from }
    }

    /// Finds the rows that host `me` exchanges for stages that follow `relations`.
    pub(super) fn new(inputs: &Inputs, cut: &Cut, me: u32, relations: &[Relation]) -> Result<Self> {
        let listed = |named: &[bool], interval: u32| -> Rows {
            let all = named[inputs.intervals[interval as usize].rows.clone()].iter().enumerate();
            all.filter(|(_, named)| **named).map(|(row, _)| row as u32).collect()
        };
        let own = cut.of(me);
        let read = named(inputs, own.clone(), relations)?;
        let here =
            |interval: u32| if own.contains(&interval) { Rows::default() } else { listed(&read, interval) };
        let from = (0..inputs.intervals.len() as u32).map(here).collect();
        let mut to = Vec::new();
        let read = read_by(inputs, cut, own.clone(), relations)?;
        for (host, read) in (0..).zip(&read) {
            to.push(if host == me { Vec::new() } else { own.clone().map(|at| listed(read, at)).collect() });
        }
        Ok(Self { to, from })
    }
}

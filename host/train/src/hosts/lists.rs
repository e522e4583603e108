//! Lists of the rows that hosts send each other.
//!
//! A host sends another host the rows that the neighbour lists of that host's rows name. Both hosts
//! have the same lists in ascending order, so that messages contain values without row numbers.

use std::sync::Arc;

use eciton_program::Relation;

use super::Cut;
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

impl Lists {
    /// Finds the rows that host `me` exchanges for stages that follow `relations`.
    pub(super) fn new(inputs: &Inputs, cut: &Cut, me: u32, relations: &[Relation]) -> Result<Self> {
        let rows = |interval: u32| inputs.intervals[interval as usize].rows.clone();
        let named_in = |named: &[bool], interval: u32| -> Rows {
            let all = named[rows(interval)].iter().enumerate();
            all.filter(|(_, named)| **named).map(|(row, _)| row as u32).collect()
        };
        let mut from = vec![Rows::default(); inputs.intervals.len()];
        let mut to = Vec::new();
        for (host, intervals) in (0..).zip(cut.runs()) {
            let mut named = vec![false; inputs.shape.rows as usize];
            let readers = rows(intervals.start).start..rows(intervals.end - 1).end;
            for relation in relations {
                let lists = inputs.lists(*relation)?;
                let (adjacency, wanted) = (lists.adjacency(), lists.wanted());
                for row in readers.clone().filter(|&row| wanted.is_none_or(|wanted| wanted[row])) {
                    adjacency.neighbours_of(row as u32).iter().for_each(|&of| named[of as usize] = true);
                }
            }
            if host == me {
                (0..cut.of(me).start).chain(cut.of(me).end..from.len() as u32).for_each(|interval| {
                    from[interval as usize] = named_in(&named, interval);
                });
                to.push(Vec::new());
            } else {
                to.push(cut.of(me).map(|interval| named_in(&named, interval)).collect());
            }
        }
        Ok(Self { to, from })
    }
}

//! Random directed graph on which an edge kernel is tested.

use std::sync::Arc;

use super::Numbers;
use crate::call::{EdgeKind, EdgeLists};

/// Edge lists of a random graph, for incoming and outgoing edges.
#[derive(Debug, Clone)]
pub(super) struct RandomLists {
    incoming: Arc<Vec<Vec<u32>>>,
    outgoing: Arc<Vec<Vec<u32>>>,
    features: usize,
}

impl RandomLists {
    /// Draws up to `2 * degree` incoming edges per row, each with `features` features. The first
    /// row gets up to `4 * degree` edges, and the last row gets none.
    pub(super) fn new(numbers: &mut Numbers, rows: u32, degree: u32, features: usize) -> Self {
        let mut incoming = vec![Vec::new(); rows as usize];
        let mut outgoing = incoming.clone();
        for target in 0..if degree == 0 { 0 } else { rows } {
            let count = match target {
                0 => rows.min(4 * degree),
                _ if target + 1 == rows => 0,
                _ => numbers.below(2 * degree + 1),
            };
            let mut sources: Vec<u32> = (0..count).map(|_| numbers.below(rows)).collect();
            sources.sort_unstable();
            for &source in &sources {
                outgoing[source as usize].push(target);
            }
            incoming[target as usize] = sources;
        }
        Self { incoming: incoming.into(), outgoing: outgoing.into(), features }
    }

    pub(super) fn edges(&self) -> usize {
        let own = self.incoming.len();
        let listed: usize = self.incoming.iter().map(Vec::len).sum();
        if listed == 0 { 0 } else { listed + own }
    }

    /// Returns the edge lists in the direction that the function `kind` of an edge kernel requires.
    pub(super) fn seen_from(&self, kind: EdgeKind) -> OneWay {
        let sources = kind == EdgeKind::Sources;
        let lists = if sources { self.outgoing.clone() } else { self.incoming.clone() };
        OneWay { lists, sources, features: self.features }
    }
}

/// Edge lists of a random graph in one direction.
#[derive(Debug)]
pub(super) struct OneWay {
    lists: Arc<Vec<Vec<u32>>>,
    /// True if the rows that have the lists are the sources of the edges, false if they are the
    /// targets.
    sources: bool,
    features: usize,
}

impl EdgeLists for OneWay {
    fn others(&self, own: usize) -> &[u32] {
        self.lists.get(own).map_or(&[], |list| list)
    }

    fn itself(&self, own: usize) -> Option<u32> {
        Some(own as u32)
    }

    fn own_vertex(&self, own: usize) -> u32 {
        own as u32
    }

    fn vertex(&self, row: u32) -> u32 {
        row
    }

    fn features(&self) -> usize {
        self.features
    }

    fn features_of(&self, own: usize, place: usize, into: &mut [f32]) {
        let other = self.others(own).get(place).map_or(own as u64, |&other| u64::from(other));
        let (source, target) = if self.sources { (own as u64, other) } else { (other, own as u64) };
        // The features of an edge are the same in both directions.
        let mut numbers = Numbers(target << 32 | source);
        into.iter_mut().for_each(|value| *value = numbers.value());
    }
}

//! A random directed graph for an edge kernel.

use std::sync::Arc;

use super::Numbers;
use crate::edges::{EdgeKind, EdgeLists};

/// Lists of both directions.
#[derive(Debug, Clone)]
pub(super) struct RandomLists {
    incoming: Arc<Vec<Vec<u32>>>,
    outgoing: Arc<Vec<Vec<u32>>>,
}

impl RandomLists {
    /// Lists of up to twice `degree` edges, but for a first vertex that most others lead to and a last one
    /// that none leads to.
    pub(super) fn new(numbers: &mut Numbers, rows: u32, degree: u32) -> Self {
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
        Self { incoming: incoming.into(), outgoing: outgoing.into() }
    }

    pub(super) fn edges(&self) -> usize {
        let own = self.incoming.len();
        let listed: usize = self.incoming.iter().map(Vec::len).sum();
        if listed == 0 { 0 } else { listed + own }
    }

    /// The lists that a function works along.
    pub(super) fn seen_from(&self, kind: EdgeKind) -> OneWay {
        OneWay(if kind == EdgeKind::Sources { self.outgoing.clone() } else { self.incoming.clone() })
    }
}

/// Lists of one direction.
#[derive(Debug)]
pub(super) struct OneWay(Arc<Vec<Vec<u32>>>);

impl EdgeLists for OneWay {
    fn others(&self, own: usize) -> &[u32] {
        self.0.get(own).map_or(&[], |list| list)
    }

    fn number(&self, own: usize) -> u32 {
        own as u32
    }

    fn with_self(&self) -> bool {
        true
    }

    fn vertex(&self, row: u32) -> u32 {
        row
    }
}

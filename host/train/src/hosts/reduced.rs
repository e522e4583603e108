//! Rows that one host of several stores: its own rows, and those of other hosts that its lists name.
//!
//! The rows are in ascending order. Lists therefore keep the order of their neighbours, and sums
//! over them keep their bits. Each interval is still a range of rows. Those of other hosts contain
//! only the rows that are read here.

use std::ops::Range;
use std::sync::Arc;

use eciton_gather::adjacency::Repeats;
use eciton_gather::inverse_degrees;
use eciton_graph::adjacency::{Adjacency, Graph};
use eciton_kernel::RowNumbers;

use super::cut::Cut;
use super::part::{HostPart, Whole};
use crate::data::{Inputs, Interval};
use crate::edge_data::EdgeData;
use crate::error::{Error, Result};

impl Inputs {
    /// Removes the rows that host `me` neither runs nor reads. If kernels read features of edges,
    /// all rows stay, because a feature is stored at the target of its edge. `reads_own` is true if
    /// the host reads only its own rows, although a plan may have read all.
    ///
    /// # Errors
    /// Returns [`Error::Tensor`] if the rows of the host do not fit into memory.
    pub(crate) fn on_host(mut self, cut: Cut, (me, reads_own): (u32, bool)) -> Result<Self> {
        let (graph, offsets) = (&self.dataset.graph, self.dataset.offsets());
        let starts: Vec<u32> = self.starts().into_iter().map(|[_, row]| row).collect();
        let degree = |row: u32| offsets[row as usize + 1] - offsets[row as usize];
        let labelled = self.dataset.split.train.iter().map(|&row| degree(row)).sum();
        let edges = (self.dataset.edges(), labelled);
        let run = cut.of(me);
        let own = starts[run.start as usize] as usize..starts[run.end as usize] as usize;
        let held = self.dataset.held.as_ref().map(|held| &held.rows);
        if let Some(held) = held.filter(|held| (held.start as usize..held.end as usize) != own) {
            return Err(Error::Internal(format!("the rows {held:?} were read, and the host has {own:?}")));
        }
        let mut part = HostPart { cut, me, starts, edges, reads_own, rows: None, numbers: None, whole: None };
        if self.edges.features.is_none() {
            let rows = stored_rows(graph, own.clone());
            part.numbers = Some(rows.iter().map(|&row| self.vertices.number(row)).collect());
            part.whole = Some(self.store_only(&rows, own, &part.starts)?).filter(|_| !reads_own);
            part.rows = Some(rows);
        }
        self.host = Some(part);
        Ok(self)
    }

    /// Reduces the inputs to `rows`, which include all rows of `own`. `starts` has the first row of
    /// each interval. The features stay whole until [`Inputs::complete`]. Returns the lists and
    /// factors of the whole data set.
    fn store_only(&mut self, rows: &[u32], own: Range<usize>, starts: &[u32]) -> Result<Whole> {
        let graph = &self.dataset.graph;
        let mut index = vec![u32::MAX; self.shape.rows as usize];
        (0..).zip(rows).for_each(|(local, &row)| index[row as usize] = local);
        let local = |lists: &Adjacency| -> Result<Adjacency> {
            let mut offsets = vec![0];
            let mut neighbours = Vec::new();
            for &row in rows {
                if own.contains(&(row as usize)) {
                    neighbours.extend(lists.neighbours_of(row).iter().map(|&of| index[of as usize]));
                }
                offsets.push(neighbours.len() as u64);
            }
            Ok(Adjacency::from_parts_with(offsets, neighbours, Repeats::Allowed)?)
        };
        let reduced = Graph::from_pair(local(graph.incoming())?, graph.transpose().map(local).transpose()?);
        let (edges, scale) = (self.edges.clone(), self.scale.clone());
        if let Some(weights) = &self.edges.weights {
            let weights = Some(weights.of_rows(graph, own.clone()));
            self.edges = Arc::new(EdgeData { weights, features: None });
        }
        let pick =
            |values: &[f32]| Arc::new(rows.iter().map(|&row| values[row as usize]).collect::<Vec<_>>());
        self.scale = pick(&self.scale);
        self.set_inverse(pick(&inverse_degrees(self.dataset.offsets(), false)));
        for (interval, bounds) in self.intervals.iter_mut().zip(starts.windows(2)) {
            let bound = |start: u32| rows.partition_point(|&row| row < start);
            let here = bound(bounds[0])..bound(bounds[1]);
            let runs_here = own.contains(&interval.rows.start) && !interval.rows.is_empty();
            interval.rows = here.clone();
            if !runs_here {
                // The steps of other hosts need only rows and tree nodes here.
                let nodes = std::mem::take(&mut interval.nodes);
                *interval = Interval { nodes, ..Interval::without_labels(here, RowNumbers::From(0)) };
            }
        }
        self.shape.rows = rows.len() as u32;
        let shared = || Error::Internal("the data set is in use before the run".to_owned());
        let dataset = Arc::get_mut(&mut self.dataset).ok_or_else(shared)?;
        dataset.held = None;
        let graph = std::mem::replace(&mut dataset.graph, reduced);
        Ok(Whole { graph, edges, scale })
    }
}

/// Returns the rows that a host with the rows `own` stores. They are its own rows and all of their
/// neighbours, because the gradient of a row follows its edges in the other direction.
fn stored_rows(graph: &Graph, own: Range<usize>) -> Vec<u32> {
    let mut stored = vec![false; graph.vertices() as usize];
    stored[own.clone()].fill(true);
    for row in own {
        let (sources, targets) = (graph.in_neighbours(row as u32), graph.out_neighbours(row as u32));
        sources.iter().chain(targets).for_each(|&of| stored[of as usize] = true);
    }
    (0..).zip(stored).filter(|(_, stored)| *stored).map(|(row, _)| row).collect()
}

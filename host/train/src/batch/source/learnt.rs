//! Micro-batches of graphs, of labelled edges and of links, whose losses are not those of training
//! vertices.

use std::sync::Arc;

use eciton_gather::inverse_degrees;
use eciton_graph::adjacency::{Graph, Options};
use eciton_graph::dataset::{Labels, VertexIds};
use eciton_graph::graphs::Graphs;
use eciton_graph::links::{Negatives, Pair};
use eciton_graph::sample::{Room, SampleKey, Sampler, Subgraph};
use eciton_kernel::RowNumbers;
use eciton_program::Over;
use eciton_tensor::Grid;
use eciton_types::Node;

use super::{Source, of_class, one_sum, without_lists};
use crate::batch::part::{Learnt, Part, PartPairs, PartReadOut};
use crate::data::{Interval, known};
use crate::error::{Error, Result};
use crate::held_out_links::PredictedLinks;
use crate::relation::Readout;

/// Rows in a sample of the vertices at which it begins.
struct EndRows {
    /// The vertices, in ascending order.
    ends: Vec<u32>,
    /// Row of each vertex. `None` if they are the first rows, as with all samplers but shadow-khop.
    rows: Option<Vec<u32>>,
}

impl EndRows {
    /// Converts pairs of vertices to pairs of rows.
    fn of(&self, pairs: &[Pair]) -> Vec<Pair> {
        let row = |vertex: u32| {
            let at = self.ends.partition_point(|&end| end < vertex);
            self.rows.as_ref().map_or(at as u32, |rows| rows[at])
        };
        pairs.iter().map(|&(a, b)| (row(a), row(b))).collect()
    }
}

/// Returns the vertices of pairs, in ascending order and each once.
pub(in crate::batch) fn ends_of(pairs: &[Pair]) -> Vec<u32> {
    let mut ends: Vec<u32> = pairs.iter().flat_map(|&(a, b)| [a, b]).collect();
    ends.sort_unstable();
    ends.dedup();
    ends
}

impl Source {
    /// Makes the micro-batch of the graphs with the numbers `graphs`, which ascend.
    pub(super) fn part_of_graphs(&self, graphs: &[u32], room: &mut Room) -> Result<Arc<Part>> {
        let missing = || Error::Internal("the data set is a single graph".to_owned());
        let (labels, readout) = self.read_out.as_ref().ok_or_else(missing)?;
        let lists = readout.lists(Over::Graphs).ok_or_else(missing)?;
        let members = graphs.iter().flat_map(|&graph| lists.in_neighbours(graph));
        let mut ids: Vec<u32> = members.copied().collect();
        ids.sort_unstable();
        // No graph may be empty, so a micro-batch without graphs has a vertex that no stage reads.
        let mut standing = vec![0; ids.len().max(1)];
        for &graph in graphs {
            let local = |member: &u32| ids.partition_point(|id| id < member) as u32;
            let first = local(&readout.standing[graph as usize]);
            let members = lists.in_neighbours(graph);
            members.iter().for_each(|member| standing[local(member) as usize] = first);
        }
        let own = Graphs::from_standing(standing, VertexIds::Dense, "graphs of a micro-batch")?;
        let own = Readout::from_graphs(&own)?;
        let offsets = own.lists(Over::Graphs).ok_or_else(missing)?.offsets();
        let inverse = Arc::new(inverse_degrees(offsets, false));
        let numbers = graphs.iter().map(|&graph| self.vertex(readout.standing[graph as usize])).collect();
        let sum = one_sum(offsets, graphs.len())?;
        let (interval, weights) = self.read_out_interval(labels, (graphs, numbers), sum)?;
        let graphs = PartReadOut { interval, readout: Arc::new(own), rows: None, inverse };
        let sub = match ids.is_empty() {
            true => without_lists(ids)?,
            false => Subgraph::induced(&self.dataset.graph, ids, room)?,
        };
        self.made_with(&sub, (None, None), Some((Learnt::ReadOut(graphs), weights)))
    }

    /// Makes the micro-batch of the labelled edges in the rows `edges`, which ascend.
    pub(super) fn part_of_edges(
        &self,
        sampler: Option<&Sampler>,
        key: SampleKey,
        edges: &[u32],
        room: &mut Room,
    ) -> Result<Arc<Part>> {
        let missing = || Error::Internal("the data set has no labelled edges".to_owned());
        let (labels, readout) = self.read_out.as_ref().ok_or_else(missing)?;
        let ends: Vec<(u32, u32)> = edges.iter().filter_map(|&edge| readout.ends(edge)).collect();
        let (sub, rows) = self.around(sampler, key, &ends, room)?;
        let (sources, targets): (_, Vec<u32>) = rows.of(&ends).into_iter().unzip();
        // No list may be empty, so a micro-batch without edges has a vertex that no stage reads.
        let count = sub.hops.first().map_or(1, |&rows| rows.max(1));
        let own = Readout::from_edges(sources, &targets, count as usize)?;
        let numbers = edges.iter().map(|&edge| self.edge_numbers[edge as usize]).collect();
        let offsets: Vec<u64> = (0..=edges.len() as u64).collect();
        let sum = one_sum(&offsets, edges.len())?;
        let (interval, weights) = self.read_out_interval(labels, (edges, numbers), sum)?;
        let features = self.edge_rows.as_ref().filter(|_| self.has_features);
        let features = features.map(|all| self.select(all, edges)).transpose()?;
        let (readout, inverse) = (Arc::new(own), Arc::default());
        let edges = PartReadOut { interval, readout, rows: features, inverse };
        self.made_with(&sub, (None, None), Some((Learnt::ReadOut(edges), weights)))
    }

    /// Returns the interval of the given rows of graphs or labelled edges, and their total weight in the
    /// loss. `numbers` has the number of each row in the keys of random numbers.
    fn read_out_interval(
        &self,
        labels: &Labels,
        (rows, numbers): (&[u32], Vec<u32>),
        (grid, nodes): (Grid, Vec<Node>),
    ) -> Result<(Interval, f64)> {
        let row_weights = self.class_weights.as_ref().zip(labels.as_classes()).map(|(weights, classes)| {
            rows.iter().map(|&row| of_class(weights, classes[row as usize])).collect::<Arc<[f32]>>()
        });
        let weights = match &row_weights {
            Some(weights) => weights.iter().map(|&weight| f64::from(weight)).sum(),
            None => known(labels, rows) as f64,
        };
        let interval = Interval {
            rows: 0..rows.len(),
            numbers: RowNumbers::List(numbers.into_iter().map(u64::from).collect()),
            grid: Arc::new(grid),
            nodes,
            targets: self.targets(labels, rows)?,
            training: (0..rows.len() as u32).collect(),
            row_weights,
        };
        Ok((interval, weights))
    }

    /// Draws the sample that begins at the vertices of `pairs`, and returns it with its rows of these
    /// vertices.
    fn around(
        &self,
        sampler: Option<&Sampler>,
        key: SampleKey,
        pairs: &[Pair],
        room: &mut Room,
    ) -> Result<(Subgraph, EndRows)> {
        let ends = ends_of(pairs);
        let sub = match sampler {
            Some(sampler) => sampler.sample(&self.dataset.graph, key, &ends, room),
            None => without_lists(ends.clone())?,
        };
        let rows = EndRows { ends, rows: sub.targets.clone() };
        Ok((sub, rows))
    }

    /// Makes the micro-batch of the training links with the given numbers, which ascend. It also has the
    /// negative pairs of these links in `epoch`.
    pub(super) fn part_of_links(
        &self,
        (sampler, links): (Option<&Sampler>, &PredictedLinks),
        (key, epoch): (SampleKey, u32),
        numbers: &[u32],
        room: &mut Room,
    ) -> Result<Arc<Part>> {
        let (links, negatives) = links.of_batch(&self.dataset, (key.seed, epoch), numbers);
        let (sub, rows) = self.around(sampler, key, &[&links[..], &negatives].concat(), room)?;
        // No graph may be empty, so a micro-batch without links has a vertex that no stage reads.
        let count = sub.hops.first().map_or(1, |&rows| rows.max(1));
        let pairs = PartPairs {
            links: Graph::from_edges(count.into(), rows.of(&links).into_iter(), Options::default())?,
            negatives: Negatives::from_pairs(count as usize, rows.of(&negatives)),
        };
        let weights = (links.len() + negatives.len()) as f64;
        self.made_with(&sub, (None, None), Some((Learnt::Pairs(pairs), weights)))
    }
}

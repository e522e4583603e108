//! The vertices of a run: the row in which each vertex is stored, and the ids of the user's data.
//!
//! With `run.order` the data set is reordered before it is divided into intervals, so that
//! neighbours are near each other. Within a run, all data is indexed by row. Results are indexed by
//! vertex, in the order of the data set. Only [`Vertices::rows_back`] converts from rows to
//! vertices. The keys of random numbers contain vertex numbers ([`Vertices::numbers`]), so that an
//! order only changes the rounding of sums.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use eciton_graph::dataset::{Dataset, Labels, Split, VertexIds};
use eciton_graph::labelled_edges::LabelledEdges;
use eciton_graph::order::{self, Order, Permutation};
use eciton_kernel::RowNumbers;
use eciton_recipe::VertexOrder;
use eciton_runs::report::Ordered;

use crate::error::{Error, Result};

/// Mapping between the vertices of a data set and the rows of a run.
#[derive(Debug)]
pub(crate) struct Vertices {
    /// Ids of the vertices in the user's data, in the order of the data set.
    pub ids: VertexIds,
    /// Order that was applied to the vertices. If `None`, row v is vertex v.
    pub ordered: Option<Ordered>,
    /// Permutation from vertices (old) to rows (new). If `None`, row v is vertex v.
    permutation: Option<Arc<Permutation>>,
    /// The vertices that represent graphs, and the graphs' ids in the user's data. `None` unless
    /// the data set has many graphs, in which case results are indexed by graph.
    graphs: Option<(Vec<u32>, VertexIds)>,
    /// Labelled edges. `None` unless the task is on edges, in which case results are indexed by edge.
    edges: Option<OrderedEdges>,
    count: u32,
}

/// Labelled edges of a run, ordered by the row of their source.
#[derive(Debug)]
struct OrderedEdges {
    /// Source and target vertex of each edge, in the order of the data set.
    ends: Vec<(u32, u32)>,
    /// Number in the data set of the edge of each row.
    order: Vec<u32>,
}

impl Vertices {
    /// Reorders a data set, and returns it together with the mapping between vertices and rows. The
    /// ids of the data set are moved to the mapping.
    ///
    /// # Errors
    /// Returns [`Error::Graph`](crate::Error::Graph) if a second copy of dense features does not
    /// fit into memory, or if parts of the data set do not match.
    pub(crate) fn order(mut dataset: Dataset, wanted: VertexOrder) -> Result<(Dataset, Self)> {
        let ids = std::mem::replace(&mut dataset.ids, VertexIds::Dense);
        let graphs = dataset.graphs.as_ref().map(|graphs| (graphs.standing(), graphs.ids().clone()));
        let count = dataset.vertices();
        let order = match wanted {
            VertexOrder::Natural => {
                return Ok((
                    dataset,
                    Self { ids, ordered: None, permutation: None, graphs, edges: None, count },
                ));
            }
            VertexOrder::Degree => Order::Degree,
            VertexOrder::ReverseCuthillMckee => Order::ReverseCuthillMckee,
            VertexOrder::Rabbit => Order::Rabbit,
        };
        let begun = Instant::now();
        let permutation = Permutation::compute(&dataset.graph, order);
        let order::Reordered { mut dataset, permutation } = order::permute_dataset(dataset, permutation)?;
        dataset.ids = VertexIds::Dense;
        let seconds = begun.elapsed().as_secs_f64();
        let ordered = Some(Ordered { name: order.name().to_owned(), seconds });
        let permutation = Some(Arc::new(permutation));
        Ok((dataset, Self { ids, ordered, permutation, graphs, edges: None, count }))
    }

    /// Orders labelled edges by the rows of their sources. Returns the rows of all sources and of all
    /// targets, and the labels and the split of the edges in this order.
    pub(crate) fn order_edges(
        &mut self,
        edges: LabelledEdges,
        labels: &Labels,
        split: &Split,
    ) -> ([Vec<u32>; 2], (Labels, Split)) {
        let ends = edges.ends;
        let mut order: Vec<u32> = (0..ends.len() as u32).collect();
        order.sort_by_key(|&edge| self.row(ends[edge as usize].0));
        let mut rows = vec![0; order.len()];
        (0..).zip(&order).for_each(|(row, &edge)| rows[edge as usize] = row);
        let part = |of: &[u32]| of.iter().map(|&edge| rows[edge as usize]).collect();
        let Split { train, validation, test } = split;
        let split = Split { train: part(train), validation: part(validation), test: part(test) }.sorted();
        let end = |at: fn(&(u32, u32)) -> u32| {
            order.iter().map(|&edge| self.row(at(&ends[edge as usize]))).collect::<Vec<u32>>()
        };
        let both = [end(|pair| pair.0), end(|pair| pair.1)];
        let labels = labels.reordered(&order);
        self.edges = Some(OrderedEdges { ends, order });
        (both, (labels, split))
    }

    /// Returns the ids in the user's data of the sources and of the targets of labelled edges, in the
    /// order of the data set. Returns `None` unless the task is on edges.
    pub(crate) fn ends(&self) -> Option<[VertexIds; 2]> {
        let ends = &self.edges.as_ref()?.ends;
        let of = |end: fn(&(u32, u32)) -> u32| {
            let vertices = ends.iter().map(end);
            match &self.ids {
                VertexIds::Dense => VertexIds::Numbers(vertices.map(u64::from).collect()),
                VertexIds::Numbers(ids) => VertexIds::Numbers(vertices.map(|v| ids[v as usize]).collect()),
                VertexIds::Words(ids) => {
                    VertexIds::Words(vertices.map(|v| ids[v as usize].clone()).collect())
                }
            }
        };
        Some([of(|pair| pair.0), of(|pair| pair.1)])
    }

    /// Returns the number in the data set of the labelled edge in each row. The list is empty unless the
    /// task is on edges.
    pub(crate) fn edges(&self) -> &[u32] {
        self.edges.as_ref().map_or(&[], |edges| &edges.order)
    }

    /// Returns the row in which a vertex is stored.
    fn row(&self, vertex: u32) -> u32 {
        let order = self.permutation.as_ref();
        order.and_then(|order| order.new_of_old().get(vertex as usize).copied()).unwrap_or(vertex)
    }

    /// Returns the vertex number of each row in a range. The keys of random numbers contain them,
    /// so that random numbers do not depend on the order.
    pub(crate) fn numbers(&self, rows: Range<usize>) -> RowNumbers {
        match &self.permutation {
            None => RowNumbers::From(rows.start as u64),
            Some(order) => RowNumbers::List(order.old_of_new()[rows].iter().map(|&v| u64::from(v)).collect()),
        }
    }

    /// Returns the permutation from vertices to rows. Returns `None` if row v is vertex v.
    pub(crate) fn permutation(&self) -> Option<Arc<Permutation>> {
        self.permutation.clone()
    }

    /// Returns the number of the vertex that is stored in `row`.
    pub(crate) fn number(&self, row: u32) -> u32 {
        let old = self.permutation.as_ref().and_then(|order| order.old_of_new().get(row as usize).copied());
        old.unwrap_or(row)
    }

    /// Returns the id in the user's data of the vertex that is stored in `row`.
    pub(crate) fn name(&self, row: u32) -> String {
        self.ids.name(self.number(row))
    }

    /// Returns the number of a vertex as text, followed by its id in the user's data if it has one.
    pub(crate) fn told(&self, vertex: u32) -> String {
        match &self.ids {
            VertexIds::Dense => vertex.to_string(),
            ids => format!("{vertex} ({})", eciton_input::text::shown(&ids.name(vertex))),
        }
    }

    /// Reorders results from the order of rows to that of the data set. Each row has `width`
    /// values. In a data set of many graphs, the result has one row per graph. `rows` may then be
    /// those of vertices or those of graphs. In a task on edges, `rows` are those of edges.
    ///
    /// # Errors
    /// Returns [`Error::Graph`](crate::Error::Graph) if the number of rows is not that of the
    /// vertices.
    pub(crate) fn rows_back(&self, rows: Vec<f32>, width: usize) -> Result<Vec<f32>> {
        if let Some(OrderedEdges { order, .. }) = &self.edges {
            if rows.len() != order.len() * width {
                return Err(Error::Internal(format!("{} values are not those of edges", rows.len())));
            }
            let mut back = vec![0.0; rows.len()];
            for (&edge, values) in order.iter().zip(rows.chunks_exact(width.max(1))) {
                back[edge as usize * width..][..width].copy_from_slice(values);
            }
            return Ok(back);
        }
        if let Some((standing, _)) = &self.graphs
            && rows.len() == standing.len() * width
            && rows.len() != self.count as usize * width
        {
            // Rows of graphs are in the order of the vertex rows that represent them.
            let mut stands: Vec<(u32, usize)> =
                standing.iter().map(|&vertex| self.row(vertex)).zip(0..).collect();
            stands.sort_unstable();
            let mut back = vec![0.0; rows.len()];
            for ((_, graph), values) in stands.into_iter().zip(rows.chunks_exact(width.max(1))) {
                back[graph * width..(graph + 1) * width].copy_from_slice(values);
            }
            return Ok(back);
        }
        let rows = match &self.permutation {
            None => rows,
            Some(order) => order::rows_back(order, &rows, width)?,
        };
        let Some((standing, _)) = &self.graphs else { return Ok(rows) };
        let of = |&vertex: &u32| rows.chunks_exact(width.max(1)).nth(vertex as usize);
        Ok(standing.iter().filter_map(of).flatten().copied().collect())
    }

    /// Returns the ids and the number of the rows that results have. They are vertices, or graphs
    /// in a data set of many graphs, or labelled edges, which are numbered from 0.
    pub(crate) fn named(&self) -> (&VertexIds, u32) {
        match (&self.graphs, &self.edges) {
            (_, Some(edges)) => (&VertexIds::Dense, edges.order.len() as u32),
            (None, None) => (&self.ids, self.count),
            (Some((standing, ids)), None) => (ids, standing.len() as u32),
        }
    }

    /// Returns the size in bytes of the permutation, of the row numbers that reordering adds, and of the
    /// ends of labelled edges.
    pub(crate) fn bytes(&self) -> u64 {
        let edges = self.edges.as_ref().map_or(0, |edges| edges.order.len() as u64 * (8 + 4));
        edges + self.permutation.as_ref().map_or(0, |order| order.len() as u64 * (8 + 8))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use crate::data::Inputs;
    use eciton_graph::dataset::Features;
    use eciton_kernel::Targets;
    use eciton_recipe::Run;
    use eciton_tensor::Matrix;

    #[test]
    fn every_row_is_its_vertex() {
        let mut cora = eciton_formats::builtin("cora").unwrap();
        let names: Vec<String> = (0..cora.vertices()).map(|v| format!("paper {v}")).collect();
        cora.ids = VertexIds::Words(names);
        let mut dense = cora.clone();
        let values: Vec<f32> = (0..cora.vertices() * 2).map(|v| v as f32).collect();
        dense.features = Features::dense(2, &values).unwrap();
        for (dataset, (name, order)) in
            [&cora, &dense].into_iter().flat_map(|d| VertexOrder::ALL.map(|order| (d, order)))
        {
            let inputs = Inputs::new(
                dataset.clone(),
                (&Run { order, intervals: Some(3), ..Run::default() }, 1, 1),
                None,
            )
            .unwrap();
            let (vertices, wanted) = (&inputs.vertices, dataset.labels.as_classes().unwrap());
            assert_eq!(vertices.ids, dataset.ids, "{name}");
            assert_eq!(inputs.dataset.ids, VertexIds::Dense, "{name}");
            let (mut labels, mut training, mut moved) = (Vec::new(), Vec::new(), 0);
            for interval in &inputs.intervals {
                let id = |row: usize| match &interval.numbers {
                    RowNumbers::From(first) => first + row as u64,
                    RowNumbers::List(ids) => ids[row],
                };
                for (local, row) in interval.rows.clone().enumerate() {
                    let vertex = id(local) as usize;
                    moved += usize::from(vertex != row);
                    let Targets::Classes(of) = &interval.targets else { panic!("{:?}", interval.targets) };
                    labels.push(of[local] as f32);
                    assert_eq!(of[local], wanted[vertex], "{name}, row {row}");
                    let (now, before) = (stored(&inputs.features, row), given(&dataset.features, vertex));
                    assert_eq!(now, before, "{name}, row {row}");
                }
                training.extend(interval.training.iter().map(|&row| id(row as usize) as u32));
            }
            training.sort_unstable();
            assert_eq!(training, dataset.split.train, "{name}");
            let back = vertices.rows_back(labels, 1).unwrap();
            assert!(back.iter().zip(wanted).all(|(&l, &wanted)| l == wanted as f32), "{name}");
            // What is compared is another order; the natural one costs nothing.
            let natural = order == VertexOrder::Natural;
            assert_eq!(moved == 0, natural, "{name}: {moved} rows moved");
            assert_eq!(vertices.bytes(), if natural { 0 } else { 2708 * 16 });
            assert_eq!(vertices.ordered.as_ref().map(|o| o.name.as_str()), (!natural).then_some(name));
            assert_eq!(vertices.rows_back(vec![0.0; 5], 1).is_err(), !natural);
        }
    }

    fn stored(features: &Matrix, row: usize) -> Vec<(u32, f32)> {
        match features {
            Matrix::Sparse(sparse) => {
                let (columns, values) = sparse.data.row(row);
                columns.iter().copied().zip(values.iter().copied()).collect()
            }
            Matrix::Dense(dense) => {
                let held = dense.hold(None).unwrap();
                (0..).zip(held.view().row(row).iter().copied()).collect()
            }
        }
    }

    fn given(features: &Features, vertex: usize) -> Vec<(u32, f32)> {
        match features {
            Features::Sparse(sparse) => {
                let (columns, values) = sparse.row(vertex);
                columns.iter().copied().zip(values.iter().copied()).collect()
            }
            Features::Dense(dense) => (0..).zip(dense.view().row(vertex).iter().copied()).collect(),
        }
    }
}

//! Induced sampling methods, which draw vertices and include all edges between them.

use std::sync::Arc;

use super::frontier::slots_of;
use super::law::Law;
use super::room::Room;
use super::{Method, SampleKey, Subgraph, VertexWeight, refused};
use crate::adjacency::{Adjacency, Graph};
use crate::error::Result;

/// Maximum number of draws per vertex of the graph. Vertices are drawn with replacement, so this
/// number gives a micro-batch all but a fraction e^-16 of the vertices. More draws only take time.
const MAX_DRAWS: u64 = 16;

/// Number of draws that a micro-batch may have for a graph of any size.
const FREE_DRAWS: u64 = 1 << 16;

/// Distribution from which vertices are drawn, and the maximum number of vertices.
#[derive(Debug)]
pub(super) struct Draws {
    from: From,
    /// Maximum number of vertices that are drawn (the row budget).
    rows: u32,
}

#[derive(Debug)]
enum From {
    Vertices(Law),
    Edges(Ends),
    Walks { roots: Arc<[u32]>, length: u32 },
    Frontier { roots: Arc<[u32]>, size: u32 },
}

/// Rows whose adjacency list is not empty. `None` if no list is empty.
#[derive(Debug)]
struct Listed {
    rows: Option<Vec<u32>>,
    count: u32,
}

impl Listed {
    fn new(lists: &Adjacency) -> Self {
        let filled = |&row: &u32| !lists.neighbours_of(row).is_empty();
        let count = (0..lists.vertices()).filter(filled).count() as u32;
        let rows = (count < lists.vertices()).then(|| (0..lists.vertices()).filter(filled).collect());
        Self { rows, count }
    }

    fn row(&self, at: u32) -> u32 {
        self.rows.as_ref().map_or(at, |rows| rows[at as usize])
    }
}

/// Distribution in which the probability of an edge is proportional to `1/deg(u) + 1/deg(v)`. A
/// draw chooses a row with a list uniformly, and then an entry of its list. The two ends of an edge
/// contribute the two terms, so no table by edge is needed.
#[derive(Debug)]
struct Ends {
    targets: Listed,
    /// Rows with outgoing edges. `None` if every edge has its reverse, because each source is then
    /// also a target.
    sources: Option<Listed>,
}

impl Draws {
    pub(super) fn new(graph: &Graph, method: &Method, roots: Arc<[u32]>, rows: u32) -> Result<Self> {
        if rows == 0 {
            return Err(refused("the row budget of a subgraph", rows, "at least 1"));
        }
        let draws = u64::from(graph.vertices()).saturating_mul(MAX_DRAWS).max(FREE_DRAWS);
        if u64::from(rows) > draws {
            let allowed = format!(
                "at most {draws}: {MAX_DRAWS} draws for each of {} vertices, or {FREE_DRAWS}",
                graph.vertices()
            );
            return Err(refused("the number of rows that a micro-batch draws", rows, allowed));
        }
        if roots.is_empty() {
            return Err(refused("the number of training rows to sample from", 0, "at least 1"));
        }
        if let Some(root) = roots.iter().find(|&&root| root >= graph.vertices()) {
            let allowed = format!("below {}, the number of vertices", graph.vertices());
            return Err(refused("a training row to sample from", root, allowed));
        }
        let from = match *method {
            Method::Vertex(by) => From::Vertices(Law::new(match by {
                VertexWeight::ColumnNorm => column_norms(graph),
                VertexWeight::Degree => {
                    (0..graph.vertices()).map(|row| f64::from(graph.in_degree(row)) + 1.0).collect()
                }
                VertexWeight::Uniform => vec![1.0; graph.vertices() as usize],
            })),
            Method::Edge if graph.edges() == 0 => {
                return Err(refused("the number of edges to sample", 0, "at least 1"));
            }
            Method::Edge if rows < 2 => {
                return Err(refused(
                    "the row budget of sampled edges",
                    rows,
                    "at least 2, the two ends of an edge",
                ));
            }
            Method::Edge => From::Edges(Ends {
                targets: Listed::new(graph.incoming()),
                sources: graph.transpose().map(Listed::new),
            }),
            Method::Walk { length } => {
                if length == 0 || length >= rows {
                    let allowed = format!("1 to {}, one less than the row budget", rows - 1);
                    return Err(refused("the walk length", length, allowed));
                }
                From::Walks { roots, length }
            }
            Method::Frontier { frontier: size } => {
                if size == 0 || size > rows {
                    return Err(refused("the frontier size", size, format!("1 to {rows}, the row budget")));
                }
                From::Frontier { roots, size }
            }
            Method::Neighbours { .. } | Method::ShadowKhop { .. } => {
                return Err(refused("the sampling method", "one that starts at targets", "an induced one"));
            }
        };
        Ok(Self { from, rows })
    }

    /// Returns the maximum number of vertices in a sample.
    pub(super) fn most(&self) -> u32 {
        match self.from {
            From::Walks { length, .. } => self.rows / (length + 1) * (length + 1),
            From::Edges(_) => self.rows / 2 * 2,
            From::Vertices(_) | From::Frontier { .. } => self.rows,
        }
    }

    pub(super) fn sample(&self, graph: &Graph, key: SampleKey, room: &mut Room) -> Subgraph {
        let mut ids = Vec::with_capacity(self.rows.min(graph.vertices()) as usize);
        let mut random = key.stream();
        // The dashboard reports vertices while it is borrowed.
        let mut dashboard = std::mem::take(&mut room.dashboard);
        let mut enter = |row: u32| {
            if room.enter(row) {
                ids.push(row);
            }
        };
        match &self.from {
            From::Vertices(law) => (0..self.rows).for_each(|_| enter(law.draw(random.next_u64()))),
            From::Edges(ends) => {
                let sources = ends.sources.as_ref().map_or(0, |listed| listed.count);
                let all = u64::from(ends.targets.count) + u64::from(sources);
                for _ in 0..self.rows / 2 {
                    let at = random.below(all);
                    let (row, lists) = match (at.checked_sub(ends.targets.count.into()), &ends.sources) {
                        (Some(at), Some(listed)) => (listed.row(at as u32), graph.outgoing()),
                        _ => (ends.targets.row(at as u32), graph.incoming()),
                    };
                    let list = lists.neighbours_of(row);
                    enter(row);
                    enter(list[random.below(list.len() as u64) as usize]);
                }
            }
            From::Walks { roots, length } => {
                for _ in 0..self.rows / (length + 1) {
                    let mut row = roots[random.below(roots.len() as u64) as usize];
                    enter(row);
                    for _ in 0..*length {
                        let list = graph.in_neighbours(row);
                        if list.is_empty() {
                            break;
                        }
                        row = list[random.below(list.len() as u64) as usize];
                        enter(row);
                    }
                }
            }
            From::Frontier { roots, size } => {
                let plan = (&roots[..], *size, self.rows - size);
                dashboard.run(graph, plan, &mut random, |v| slots_of(graph, v), |_, row| enter(row));
            }
        }
        room.dashboard = dashboard;
        ids.sort_unstable();
        Subgraph::of_checked(graph, ids, room)
    }
}

/// Returns `||A~[:, v]||^2` for each vertex v, with A~ = `(D + I)^-1 (A + I)`. It is the sum of `1
/// / (deg + 1)^2` over the lists that contain v and over v's own list.
fn column_norms(graph: &Graph) -> Vec<f64> {
    let mut norms = vec![0.0; graph.vertices() as usize];
    for row in 0..graph.vertices() {
        let list = graph.in_neighbours(row);
        let share = (1.0 / (list.len() as f64 + 1.0)).powi(2);
        norms[row as usize] += share;
        list.iter().for_each(|&source| norms[source as usize] += share);
    }
    norms
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::adjacency::Options;

    #[test]
    fn draws_beyond_the_vertices_that_there_are_are_refused_with_both_figures() {
        let graph = Graph::from_edges(9000, [(0, 1)].into_iter(), Options::default()).unwrap();
        let made =
            |rows: u32| Draws::new(&graph, &Method::Vertex(VertexWeight::Uniform), vec![0].into(), rows);
        assert!(made(144_000).is_ok());
        let text = made(1_000_000_000).unwrap_err().to_string();
        assert!(text.contains("1000000000") && text.contains("at most 144000"), "{text}");
    }
}

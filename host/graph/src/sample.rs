//! Samplers of subgraphs: what mini-batches of graph networks are trained on.
//!
//! A [`Sampler`] draws a [`Subgraph`] from a graph by a [`Method`]; a [`SampleKey`] names all its
//! random numbers, so that any thread at any time draws the same bits. A sampler is shared, and
//! each thread has a [`Room`] of its own. No draw costs work by the size of the graph.
//!
//! [`normalise`] has GraphSAINT's weights, which make up for what samples leave out; [`parts`] has
//! the fixed parts of CoFree-GNN.
//!
//! ```
//! use eciton_graph::adjacency::{Graph, Options};
//! use eciton_graph::sample::{Method, Room, SampleKey, Sampler};
//! let ring = Graph::from_edges(8, (0..8).map(|v| (v, (v + 1) % 8)), Options::default())?;
//! let sampler = Sampler::new(&ring, Method::Neighbours { fan_out: vec![1, 2] }, [].into(), 0)?;
//! let key = SampleKey { seed: 1, round: 0, interval: 0 };
//! let drawn = sampler.sample(&ring, key, &[3], &mut Room::default());
//! // The target, one neighbour of two, and that one's neighbours, of which the target is one.
//! assert_eq!(drawn.hops, [1, 2, 3]);
//! assert_eq!((drawn.ids[0], drawn.incoming.of(0), drawn.incoming.of(1)), (3, &[1][..], &[0, 2][..]));
//! # Ok::<(), eciton_graph::error::Error>(())
//! ```

mod frontier;
mod induced;
mod law;
mod neighbours;
pub mod normalise;
pub mod parts;
mod room;
mod subgraph;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use eciton_tensor::random::{Key, Purpose};

pub use frontier::DEGREE_CLIP;
pub use room::Room;
pub use subgraph::Subgraph;

use crate::adjacency::Graph;
use crate::error::{Error, Result};
use crate::random::SplitMix64;
use induced::Draws;
use neighbours::FanOut;

/// Methods of drawing a subgraph. The first four draw vertices of their own and take the edges
/// between them (the *induced* methods). The last two follow incoming edges from given targets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Method {
    /// GraphSAINT's vertex sampler (Zeng et al., ICLR 2020, section 3.3): as many vertices as the
    /// budget has rows, with replacement, v with probability proportional to `||A~[:, v]||^2`. A~
    /// is `(D + I)^-1 (A + I)`: a vertex that no list names has its own term.
    Vertex,
    /// GraphSAINT's edge sampler: half as many edges as the budget has rows, with replacement, edge
    /// {u, v} with probability proportional to `1/deg(u) + 1/deg(v)`. In a graph that is not
    /// symmetric the edge from u to v has `1/deg_out(u) + 1/deg_in(v)`.
    Edge,
    /// GraphSAINT's random walks: `rows / (length + 1)` uniform roots with replacement, and from
    /// each a walk of `length` steps to uniform in-neighbours. A walk ends at a vertex that has
    /// none.
    Walk {
        /// Number of steps of a walk, from 1.
        length: u32,
    },
    /// The frontier sampler by a dashboard (Zeng et al., IPDPS 2019, algorithms 2 and 3):
    /// `frontier` uniform roots with replacement; `rows - frontier` times a vertex of the frontier
    /// is drawn with probability proportional to its in-degree, at least 1 and at most
    /// [`DEGREE_CLIP`]. A uniform in-neighbour takes its place; a uniform root where it has none.
    Frontier {
        /// Number of vertices of the frontier, from 1 to the budget.
        frontier: u32,
    },
    /// GraphSAGE's neighbours (Hamilton et al. 2017): of each row within h hops of the targets,
    /// `fan_out[h]` of its incoming edges without replacement, or all where it has no more.
    Neighbours {
        /// Maximum number of edges per row for each hop, that of the targets first.
        fan_out: Vec<u32>,
    },
    /// ShaDow-GNN's neighbourhoods (Zeng et al. 2021): for each target the rows that
    /// [`Method::Neighbours`] finds and all edges between them, each target's apart from the
    /// others'.
    Shadow {
        /// Maximum number of edges per row for each hop, that of the target first.
        fan_out: Vec<u32>,
    },
}

/// Key of a sample's random numbers, which have the purpose [`Purpose::Sampling`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampleKey {
    /// Seed of the run.
    pub seed: u64,
    /// Number of the weight update.
    pub round: u32,
    /// Index of the subgraph within the round.
    pub interval: u32,
}

impl SampleKey {
    fn key(self) -> Key {
        Key::new(self.seed, Purpose::Sampling, self.round, self.interval, 0)
    }

    /// Returns the random numbers of a sample as a whole.
    fn stream(self) -> SplitMix64 {
        SplitMix64::new(self.key().0)
    }

    /// Returns the random numbers of one row. They depend on no other row of the sample.
    fn stream_of(self, row: u32) -> SplitMix64 {
        let (low, high) = self.key().row(u64::from(row));
        SplitMix64::new(u64::from(high) << 32 | u64::from(low))
    }
}

/// A method with what it draws from, for one graph.
#[derive(Debug)]
pub struct Sampler {
    draws: Kind,
    /// Vertices and edges of the graph.
    size: (u32, u64),
}

#[derive(Debug)]
enum Kind {
    Induced(Draws),
    Neighbours(FanOut),
    Shadow(FanOut),
}

impl Sampler {
    /// A sampler of `graph`. Walks and frontiers begin at `roots`, rows in training; an induced
    /// method draws at most `rows` rows. The other two methods use neither.
    ///
    /// # Errors
    /// [`Error::Parameter`] for what the method cannot draw from: no roots, roots that are no rows,
    /// a budget or a fan-out of nothing, a walk or frontier beyond the budget, no edges to draw.
    pub fn new(graph: &Graph, method: Method, roots: Arc<[u32]>, rows: u32) -> Result<Self> {
        let draws = match method {
            Method::Neighbours { fan_out } => Kind::Neighbours(FanOut::new(fan_out)?),
            Method::Shadow { fan_out } => Kind::Shadow(FanOut::new(fan_out)?),
            method => Kind::Induced(Draws::new(graph, &method, roots, rows)?),
        };
        Ok(Self { draws, size: (graph.vertices(), graph.edges()) })
    }

    /// The most local rows that a sample of `targets` targets has; `u32::MAX` stands for that many
    /// or more, which is more than local rows can number: take fewer targets.
    pub fn capacity(&self, targets: u32) -> u32 {
        let (vertices, _) = self.size;
        match &self.draws {
            Kind::Induced(draws) => draws.most().min(vertices),
            Kind::Neighbours(fan_out) => fan_out.most(targets).min(vertices),
            Kind::Shadow(fan_out) => fan_out.most(1).min(vertices).saturating_mul(targets),
        }
    }

    /// Draws a subgraph of the graph that the sampler was made for. [`Method::Neighbours`] and
    /// [`Method::Shadow`] go from `targets`, of which those that are no vertices are passed over;
    /// the others draw their own.
    ///
    /// # Panics
    /// If `graph` has another number of vertices or edges than the sampler's; both come from one
    /// program.
    pub fn sample(&self, graph: &Graph, key: SampleKey, targets: &[u32], room: &mut Room) -> Subgraph {
        assert_eq!((graph.vertices(), graph.edges()), self.size, "the graph that the sampler was made for");
        room.fit(graph);
        match &self.draws {
            Kind::Induced(draws) => draws.sample(graph, key, room),
            Kind::Neighbours(fan_out) => fan_out.neighbours(graph, key, targets, room),
            Kind::Shadow(fan_out) => fan_out.shadow(graph, key, targets, room),
        }
    }
}

/// An [`Error::Parameter`] in these words.
fn refused(name: &'static str, found: impl ToString, allowed: impl Into<String>) -> Error {
    Error::Parameter { name, found: found.to_string(), allowed: allowed.into() }
}

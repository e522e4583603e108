//! Samplers of subgraphs, on which graph networks are trained in mini-batches.
//!
//! A [`Sampler`] draws a [`Subgraph`] from a graph by a [`Method`]. A [`SampleKey`] determines all
//! random numbers of the subgraph, so that any thread at any time draws the same bits. Threads
//! share a sampler, and each thread has its own scratch memory, a [`Room`]. The cost of a draw does
//! not depend on the size of the graph.
//!
//! [`normalise`] computes GraphSAINT's weights, which correct the bias of sampling. [`parts`] has
//! the fixed partition of CoFree-GNN.
//!
//! ```
//! use eciton_graph::adjacency::{Graph, Options};
//! use eciton_graph::sample::{Method, Room, SampleKey, Sampler};
//! let ring = Graph::from_edges(8, (0..8).map(|v| (v, (v + 1) % 8)), Options::default())?;
//! let sampler = Sampler::new(&ring, Method::Neighbours { fan_out: vec![1, 2], replace: false }, [].into(), 0)?;
//! let key = SampleKey { seed: 1, round: 0, interval: 0 };
//! let drawn = sampler.sample(&ring, key, &[3], &mut Room::default());
//! // The target, one neighbour of two, and that one's neighbours, of which the target is one.
//! assert_eq!(drawn.hops, [1, 2, 3]);
//! assert_eq!((drawn.ids[0], drawn.incoming.neighbours_of(0)), (3, &[1][..]));
//! assert_eq!(drawn.incoming.neighbours_of(1), [0, 2]);
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

/// Method by which a subgraph is drawn. The first four methods draw vertices and include all edges
/// between them (*induced* methods). The last two follow incoming edges from given target vertices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Method {
    /// Vertex sampler. It draws as many vertices as the row budget allows, with replacement. The
    /// probability of a vertex is proportional to the weight.
    Vertex(VertexWeight),
    /// GraphSAINT's edge sampler. It draws half as many edges as the row budget, with replacement.
    /// The probability of {u, v} is proportional to `1/deg(u) + 1/deg(v)`. In a graph that is not
    /// symmetric, that of the edge from u to v is proportional to `1/deg_out(u) + 1/deg_in(v)`.
    Edge,
    /// GraphSAINT's random-walk sampler. It draws `rows / (length + 1)` roots uniformly with
    /// replacement. From each root, a walk takes `length` steps to in-neighbours, which are drawn
    /// uniformly. A walk ends at a vertex without in-neighbours.
    Walk {
        /// Number of steps per walk, at least 1.
        length: u32,
    },
    /// Frontier sampler with a dashboard (Zeng et al., IPDPS 2019, algorithms 2 and 3). It starts
    /// with `frontier` roots that are drawn uniformly with replacement. Then it draws `rows -
    /// frontier` vertices from the frontier, with probability proportional to their in-degree. (The
    /// in-degree is limited to 1 to [`DEGREE_CLIP`].) An in-neighbour replaces the drawn vertex, or
    /// a root if it has none.
    Frontier {
        /// Number of vertices in the frontier, from 1 to the row budget.
        frontier: u32,
    },
    /// GraphSAGE's neighbour sampler (Hamilton et al. 2017). For each row at distance h from the
    /// targets, it draws `fan_out[h]` incoming edges without replacement, or all if there are no
    /// more. With replacement, it draws `fan_out[h]` edges for every row that has any, and a list may
    /// contain an edge several times.
    Neighbours {
        /// Maximum number of edges that are drawn per row, for each hop. The first entry is for the
        /// targets. [`u32::MAX`] draws all.
        fan_out: Vec<u32>,
        /// True if edges are drawn with replacement.
        replace: bool,
    },
    /// ShaDow k-hop sampler (Zeng et al. 2021). For each target it takes the rows that
    /// [`Method::Neighbours`] finds and all edges between them. The subgraphs of different targets
    /// are separate.
    ShadowKhop {
        /// Maximum number of edges per row for each hop, that of the target first.
        fan_out: Vec<u32>,
    },
}

/// Weight of a vertex v in [`Method::Vertex`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VertexWeight {
    /// `||A~[:, v]||^2`, as in GraphSAINT (Zeng et al., ICLR 2020, section 3.3). A~ is `(D + I)^-1 (A +
    /// I)`, so that a vertex in no list still has its own term.
    ColumnNorm,
    /// In-degree + 1.
    Degree,
    /// 1.
    Uniform,
}

/// Key of the random numbers of one sample. They have the purpose [`Purpose::Sampling`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampleKey {
    /// Random seed of the run.
    pub seed: u64,
    /// Index of the training round, which is one update of the weights.
    pub round: u32,
    /// Index of the subgraph (micro-batch) within the round.
    pub interval: u32,
}

impl SampleKey {
    fn key(self) -> Key {
        Key::new(self.seed, Purpose::Sampling, self.round, self.interval, 0)
    }

    /// Returns the random stream for draws that concern the whole sample.
    fn stream(self) -> SplitMix64 {
        SplitMix64::new(self.key().0)
    }

    /// Returns the random stream of the row `row`. It does not depend on the other rows of the
    /// sample.
    fn stream_of(self, row: u32) -> SplitMix64 {
        let (low, high) = self.key().row(u64::from(row));
        SplitMix64::new(u64::from(high) << 32 | u64::from(low))
    }
}

/// Sampler of subgraphs of one graph, with the precomputed tables of its method.
#[derive(Debug)]
pub struct Sampler {
    draws: Kind,
    /// Numbers of vertices and edges of the graph, which every call checks.
    size: (u32, u64),
}

#[derive(Debug)]
enum Kind {
    Induced(Draws),
    Neighbours(FanOut),
    ShadowKhop(FanOut),
}

impl Sampler {
    /// Creates a sampler for `graph`. Walks and frontiers begin at `roots`, which are the training
    /// rows. An induced method draws at most `rows` rows. The two methods that start at targets use
    /// neither argument.
    ///
    /// # Errors
    /// Returns [`Error::Parameter`] if the method cannot draw: for no roots, roots that are not
    /// rows, a budget or fan-out of 0, a walk or frontier larger than the budget, or a graph
    /// without edges.
    pub fn new(graph: &Graph, method: Method, roots: Arc<[u32]>, rows: u32) -> Result<Self> {
        let draws = match method {
            Method::Neighbours { fan_out, replace } => Kind::Neighbours(FanOut::new(fan_out, replace)?),
            Method::ShadowKhop { fan_out } => Kind::ShadowKhop(FanOut::new(fan_out, false)?),
            method => Kind::Induced(Draws::new(graph, &method, roots, rows)?),
        };
        Ok(Self { draws, size: (graph.vertices(), graph.edges()) })
    }

    /// Changes a sampler of the method [`Method::Neighbours`] so that it draws neighbours in proportion to
    /// the weights of edges, which are in the order of the in-lists. Edges of weight 0 are never drawn.
    /// Other samplers are returned unchanged.
    ///
    /// # Errors
    /// Returns [`Error::Parameter`] if a weight is negative or not finite.
    pub fn by_weight(self, weights: Arc<Vec<f32>>) -> Result<Self> {
        if let Some(weight) = weights.iter().find(|weight| !(weight.is_finite() && **weight >= 0.0)) {
            return Err(refused("an edge weight", weight, "at least 0"));
        }
        let draws = match self.draws {
            Kind::Neighbours(fan_out) => Kind::Neighbours(fan_out.by_weight(weights)),
            other => other,
        };
        Ok(Self { draws, ..self })
    }

    /// Returns the maximum number of rows of a sample with `targets` targets. `u32::MAX` means that
    /// local row numbers would not suffice, so that fewer targets must be used.
    pub fn capacity(&self, targets: u32) -> u32 {
        let (vertices, _) = self.size;
        match &self.draws {
            Kind::Induced(draws) => draws.most().min(vertices),
            Kind::Neighbours(fan_out) => fan_out.most(targets).min(vertices),
            Kind::ShadowKhop(fan_out) => fan_out.most(1).min(vertices).saturating_mul(targets),
        }
    }

    /// Draws a subgraph of the graph for which the sampler was created. [`Method::Neighbours`] and
    /// [`Method::ShadowKhop`] start at `targets`, and ignore targets that are not vertices. The
    /// other methods draw their own vertices.
    ///
    /// # Panics
    /// Panics if `graph` has another number of vertices or edges than the sampler's graph.
    pub fn sample(&self, graph: &Graph, key: SampleKey, targets: &[u32], room: &mut Room) -> Subgraph {
        assert_eq!((graph.vertices(), graph.edges()), self.size, "the graph that the sampler was made for");
        room.fit(graph);
        match &self.draws {
            Kind::Induced(draws) => draws.sample(graph, key, room),
            Kind::Neighbours(fan_out) => fan_out.neighbours(graph, key, targets, room),
            Kind::ShadowKhop(fan_out) => fan_out.shadow_khop(graph, key, targets, room),
        }
    }
}

/// Creates an [`Error::Parameter`] for the parameter `name` with the value `found`.
fn refused(name: &'static str, found: impl ToString, allowed: impl Into<String>) -> Error {
    Error::Parameter { name, found: found.to_string(), allowed: allowed.into() }
}

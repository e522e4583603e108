//! Generated data sets with a task that can be learned. The graphs have skewed degrees and planted
//! classes, features and labels.
//!
//! [`BlockModel`] and [`Rmat`] specify a graph. [`Generated`] is the resulting graph: an
//! [`EdgeSource`] of undirected pairs for builders, with a [`Planted`] task. Everything is a
//! function of the specification. Pairs are drawn in blocks of [`BLOCK_PAIRS`], each from its own
//! random stream, and features row by row. Any thread can therefore generate any part at any time,
//! nothing is stored, and a graph may be larger than memory. The division into chunks does not
//! change the result.
//!
//! [`ManyGraphs`] specifies a data set of many small graphs with one class each. [`Programs`]
//! specifies programs, each with the number that it ends with. [`Lines`] specifies images in which
//! lines are to be detected.
//!
//! The drawn pairs include repeats and self-loops, which builders drop.
//! [`Generated::expected_edges`] estimates the number of remaining edges. [`Generated::aim`]
//! computes the number of pairs that leads to a given number of edges.
//!
//! ```
//! use eciton_graph::adjacency::{Graph, Options};
//! use eciton_graph::edges::EdgeSource as _;
//! use eciton_graph::generate::{BlockModel, Shape};
//! let shape = Shape { vertices: 1000, classes: 4, ..Shape::default() };
//! let made = BlockModel { shape, ..BlockModel::default() }.generate()?.aim(20_000)?;
//! let mut pairs = Vec::new();
//! for chunk in 0..made.chunks() {
//! made.read(chunk, &mut pairs)?;
//! }
//! let graph = Graph::from_edges(1000, pairs.iter().copied(), Options::default())?;
//! assert!(graph.edges().abs_diff(20_000) < 400);
//! # Ok::<(), eciton_graph::error::Error>(())
//! ```

mod alias;
mod arrays;
mod block_model;
mod keyed;
mod layout;
pub mod lines;
mod many;
mod planted;
pub mod programs;
mod repeats;
mod rmat;
mod rows;
mod scramble;

pub use arrays::{Arrays, write_arrays};
pub use block_model::BlockModel;
pub use lines::Lines;
pub use many::{GeneratedMany, ManyGraphs};
pub use planted::{Division, Planted, Target};
pub use programs::Programs;
pub use rmat::Rmat;
pub use rows::{LinearRows, TowerRows};

use serde_json::json;

use crate::adjacency::check_vertices;
use crate::edges::{EdgeSource, MAX_CHUNK_EDGES};
use crate::error::{Error, Place, Result};
use crate::labels::{MAX_CLASSES, MAX_LABEL_COLUMNS};
use block_model::BlockLaw;
use keyed::Purpose;
use repeats::{Repeats, SAMPLE_BLOCKS};
use rmat::RmatLaw;

/// Number of vertex pairs that are drawn from one random stream.
pub const BLOCK_PAIRS: u64 = 1 << 12;
/// Default number of vertex pairs per chunk. [`Generated::with_chunk_pairs`] changes the number.
pub const CHUNK_PAIRS: u64 = 1 << 18;
/// Maximum number of vertex pairs that are drawn for a generated graph.
pub const MAX_PAIRS: u64 = 1 << 40;
/// Maximum number of feature columns of a generated graph.
pub const MAX_FEATURES: u32 = 1 << 16;
/// Maximum number of mean values that are stored, which is classes times features.
pub const MAX_MEANS: u64 = 1 << 26;

/// Maximum number of labels that are generated, which is vertices times label columns.
pub const MAX_LABELS: u64 = 1 << 32;

/// Size and planted task of a generated graph. Both [`BlockModel`] and [`Rmat`] have these
/// parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shape {
    /// Number of vertices, from 1 to [`crate::adjacency::MAX_VERTICES`].
    pub vertices: u64,
    /// Number of undirected vertex pairs that are drawn, including repeats and self-loops. The
    /// maximum is [`MAX_PAIRS`].
    pub pairs: u64,
    /// Number of classes, from 1 to [`MAX_CLASSES`]. With fewer vertices than classes, the last
    /// classes are empty.
    pub classes: u32,
    /// Probability, from 0 to 1, that a pair is forced to join vertices of the same class. Of the
    /// other pairs, one in `classes` does so by chance.
    pub p_in: f64,
    /// Number of feature columns, from 0 to [`MAX_FEATURES`].
    pub features: u32,
    /// Standard deviation of the class means in each feature column. The noise has the standard
    /// deviation 1.
    pub feature_scale: f32,
    /// Kind of labels that are to be predicted.
    pub target: Target,
    /// Fraction, from 0 to 1, of the labels that are drawn again from all classes, or of the flags
    /// that are inverted. It has no effect on numbers.
    pub flip: f64,
    /// True if vertex ids are scattered, so that hubs and vertices of one class do not have
    /// consecutive ids.
    pub scramble: bool,
    /// Seed of all random streams.
    pub seed: u64,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            vertices: 10_000,
            pairs: 100_000,
            classes: 8,
            p_in: 0.6,
            features: 64,
            feature_scale: 0.1,
            target: Target::Classes,
            flip: 0.05,
            scramble: true,
            seed: 0,
        }
    }
}

impl Shape {
    /// Checks that every parameter is within its limits, and returns the number of vertices.
    fn check(&self) -> Result<u32> {
        check_vertices(self.vertices, || Place::whole("generated graph"))?;
        whole("pairs", self.pairs, 0, MAX_PAIRS)?;
        whole("classes", u64::from(self.classes), 1, u64::from(MAX_CLASSES))?;
        whole("features", u64::from(self.features), 0, u64::from(MAX_FEATURES))?;
        whole("classes times features", u64::from(self.classes) * u64::from(self.features), 0, MAX_MEANS)?;
        if let Some(columns) = self.target.columns() {
            let (columns, classes) = (u64::from(columns), u64::from(self.classes));
            whole("label columns", columns, 1, u64::from(MAX_LABEL_COLUMNS))?;
            whole("classes times label columns", classes * columns, 0, MAX_MEANS)?;
            whole("vertices times label columns", self.vertices * columns, 0, MAX_LABELS)?;
        }
        if let Target::Numbers { noise, .. } = self.target {
            real("label noise", f64::from(noise), 0.0, 1e6)?;
        }
        real("p_in", self.p_in, 0.0, 1.0)?;
        real("feature scale", f64::from(self.feature_scale), 0.0, 1e6)?;
        real("flip", self.flip, 0.0, 1.0)?;
        // Within MAX_VERTICES.
        Ok(self.vertices as u32)
    }
}

/// Checks that the whole number `found` is in `least..=most`. `name` is the parameter's name.
fn whole(name: &'static str, found: u64, least: u64, most: u64) -> Result<()> {
    if (least..=most).contains(&found) {
        return Ok(());
    }
    Err(Error::Parameter { name, found: found.to_string(), allowed: format!("{least} to {most}") })
}

/// Checks that the real number `found` is in `least..=most`, and not NaN. `name` is the parameter's
/// name.
fn real(name: &'static str, found: f64, least: f64, most: f64) -> Result<()> {
    if (least..=most).contains(&found) {
        return Ok(());
    }
    Err(Error::Parameter { name, found: found.to_string(), allowed: format!("{least} to {most}") })
}

/// Probability distribution of the two vertices of a drawn pair.
#[derive(Debug, Clone)]
enum Law {
    Block(BlockLaw),
    Rmat(RmatLaw),
}

/// Generated graph, which consists of undirected vertex pairs in chunks and a planted task.
#[derive(Debug, Clone)]
pub struct Generated {
    law: Law,
    planted: Planted,
    shape: Shape,
    chunk_blocks: u64,
}

impl Generated {
    fn new(law: Law, planted: Planted, shape: &Shape) -> Self {
        Self { law, planted, shape: *shape, chunk_blocks: CHUNK_PAIRS / BLOCK_PAIRS }
    }

    /// Returns the planted task, which consists of classes, labels, features and splits.
    pub fn planted(&self) -> &Planted {
        &self.planted
    }

    /// Returns the size and the parameters of the task. They include the number of pairs that are
    /// drawn.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Returns the name of the random graph model and all its parameters as JSON.
    pub fn parameters(&self) -> serde_json::Value {
        let Shape { vertices, pairs, classes, p_in, features, feature_scale, target, flip, scramble, seed } =
            self.shape;
        let mut all = json!({
            "vertices": vertices, "pairs": pairs, "classes": classes, "p_in": p_in, "features": features,
            "feature_scale": feature_scale, "flip": flip, "scramble": scramble, "seed": seed,
        });
        match target {
            Target::Classes => {}
            Target::Flags { columns } => all["target"] = json!({"flags": columns}),
            Target::Numbers { columns, noise } => {
                all["target"] = json!({"numbers": columns, "noise": noise});
            }
        }
        match &self.law {
            Law::Block(law) => {
                all["model"] = json!("block-model");
                (all["exponent"], all["cap"]) = (json!(law.exponent), json!(law.cap));
            }
            Law::Rmat(law) => {
                all["model"] = json!("rmat");
                all["quadrants"] = json!(law.quadrants);
            }
        }
        all
    }

    /// Returns the same graph in chunks of at least `pairs` pairs. The number is rounded up to
    /// whole blocks of [`BLOCK_PAIRS`], and limited to the maximum size of a chunk.
    pub fn with_chunk_pairs(mut self, pairs: u64) -> Self {
        self.chunk_blocks = pairs.div_ceil(BLOCK_PAIRS).clamp(1, MAX_CHUNK_EDGES as u64 / BLOCK_PAIRS);
        self
    }

    /// Returns the expected number of directed edges without repeats and self-loops. Each distinct
    /// pair of different vertices counts twice. The estimate uses the probabilities of 65,536 drawn
    /// pairs. Its standard deviation is at most 0.2 % of all drawn pairs, and less if few pairs
    /// repeat.
    pub fn expected_edges(&self) -> f64 {
        self.repeats().distinct(self.shape.pairs as f64).0
    }

    fn repeats(&self) -> Repeats {
        let (layout, p_in) = (&self.planted.layout, self.shape.p_in);
        let mut pairs = Vec::new();
        for block in 0..SAMPLE_BLOCKS {
            self.draw(Purpose::Repeats, block, BLOCK_PAIRS as usize, &mut pairs);
        }
        let chance = |(source, target): (u32, u32)| {
            let (one, two) = (layout.rank(source), layout.rank(target));
            let chance = match &self.law {
                _ if one == two => 0.0,
                Law::Block(law) => law.chance(layout, p_in, one, two),
                Law::Rmat(law) => law.chance(layout, p_in, one, two),
            };
            // Pairs in a quadrant of probability 0 can only result from halved ends.
            if chance.is_finite() { chance.min(1.0) } else { 1.0 }
        };
        Repeats::new(pairs.into_iter().map(chance).collect(), self.shape.vertices as f64)
    }

    /// Draws `count` pairs from the random stream of the block `block`, and appends them to
    /// `pairs`.
    fn draw(&self, purpose: Purpose, block: u64, count: usize, pairs: &mut Vec<(u32, u32)>) {
        let (layout, p_in) = (&self.planted.layout, self.shape.p_in);
        let random = keyed::stream(self.shape.seed, purpose, block);
        match &self.law {
            Law::Block(law) => law.draw(layout, p_in, random, count, pairs),
            Law::Rmat(law) => law.draw(layout, p_in, random, count, pairs),
        }
    }

    /// Returns the same graph with another number of pairs, chosen such that `edges` distinct
    /// directed edges are expected.
    ///
    /// # Errors
    /// Returns [`Error::Parameter`] if this takes more than [`MAX_PAIRS`] pairs or more than 64
    /// pairs per edge, because the graph has hardly more distinct edges.
    pub fn aim(mut self, edges: u64) -> Result<Self> {
        let wanted = edges as f64;
        let most = (wanted * 64.0).min(MAX_PAIRS as f64);
        let repeats = self.repeats();
        let mut pairs = wanted / 2.0;
        // Newton's method. The number of distinct edges is a concave function of the number of
        // pairs, so the iteration approaches it from below.
        for _ in 0..100 {
            let (distinct, slope) = repeats.distinct(pairs);
            let missing = wanted - distinct;
            if missing <= wanted * 1e-6 {
                self.shape.pairs = pairs.round() as u64;
                return Ok(self);
            }
            pairs += missing / slope;
            if pairs.is_nan() || pairs > most {
                break;
            }
        }
        let reached = repeats.distinct(most).0;
        Err(Error::Parameter {
            name: "edges",
            found: edges.to_string(),
            allowed: format!(
                "up to about {reached:.0} for {} vertices of these degrees",
                self.shape.vertices
            ),
        })
    }
}

impl EdgeSource for Generated {
    fn vertices(&self) -> u64 {
        self.shape.vertices
    }

    fn chunks(&self) -> u64 {
        self.shape.pairs.div_ceil(self.chunk_blocks * BLOCK_PAIRS)
    }

    fn read(&self, chunk: u64, edges: &mut Vec<(u32, u32)>) -> Result<()> {
        let first = chunk.saturating_mul(self.chunk_blocks);
        for block in first..first.saturating_add(self.chunk_blocks) {
            let left = self.shape.pairs.saturating_sub(block.saturating_mul(BLOCK_PAIRS));
            let count = left.min(BLOCK_PAIRS) as usize;
            if count == 0 {
                break;
            }
            self.draw(Purpose::Pairs, block, count, edges);
        }
        Ok(())
    }
}

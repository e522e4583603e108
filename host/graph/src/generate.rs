//! Generated graphs with something to learn: skewed degrees, planted classes, features and labels.
//!
//! [`BlockModel`] and [`Rmat`] say what a graph should be; [`Generated`] is one: an [`EdgeSource`] of
//! undirected pairs for builders, with a [`Planted`] task beside it. All of it is a function of the
//! specification: pairs are drawn in blocks of [`BLOCK_PAIRS`] from a stream of their own, features
//! row by row. So any thread makes any part at any time, nothing is kept, and a graph may be larger
//! than memory. How the parts are cut into chunks changes nothing.
//!
//! [`ManyGraphs`] says what a data set of many small graphs should be, each of which has a class; [`Programs`]
//! says what programs there should be, each with the number that it ends with; [`Lines`] what images, in which
//! lines are to be found.
//!
//! What is drawn has repeats and pairs of a vertex with itself; builders drop them.
//! [`Generated::expected_edges`] says how many edges are left, [`Generated::aim`] how many pairs to
//! draw for a wanted number.
//!
//! ```
//! use eciton_graph::adjacency::{Graph, Options};
//! use eciton_graph::edges::EdgeSource as _;
//! use eciton_graph::generate::{BlockModel, Shape};
//! let shape = Shape { vertices: 1000, classes: 4, ..Shape::default() };
//! let made = BlockModel { shape, ..BlockModel::default() }.generate()?.aim(20_000)?;
//! let mut pairs = Vec::new();
//! for chunk in 0..made.chunks() {
//!     made.read(chunk, &mut pairs)?;
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

/// Pairs that come from one stream of random numbers.
pub const BLOCK_PAIRS: u64 = 1 << 12;
/// Pairs of a chunk, unless [`Generated::with_chunk_pairs`] says otherwise.
pub const CHUNK_PAIRS: u64 = 1 << 18;
/// The most pairs that are drawn.
pub const MAX_PAIRS: u64 = 1 << 40;
/// The most columns of features.
pub const MAX_FEATURES: u32 = 1 << 16;
/// The most mean values that are kept: classes times features.
pub const MAX_MEANS: u64 = 1 << 26;

/// The most labels that are made: vertices times columns.
pub const MAX_LABELS: u64 = 1 << 32;

/// Size and planted task, which both models have in common.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shape {
    /// Vertices, 1 to [`crate::adjacency::MAX_VERTICES`].
    pub vertices: u64,
    /// Undirected pairs that are drawn, repeats and self loops included; at most [`MAX_PAIRS`].
    pub pairs: u64,
    /// Classes, 1 to [`MAX_CLASSES`]; where there are fewer vertices, the last ones stay empty.
    pub classes: u32,
    /// The share of pairs whose ends are made to be of one class, 0 to 1. Of the others one in
    /// `classes` is by chance.
    pub p_in: f64,
    /// Columns of the features, 0 to [`MAX_FEATURES`].
    pub features: u32,
    /// Deviation of the classes' means in each column; the noise's is 1.
    pub feature_scale: f32,
    /// Prediction target.
    pub target: Target,
    /// Share of labels that are drawn anew from all classes, or of flags that are inverted, 0 to 1.
    /// It has no effect on numbers.
    pub flip: f64,
    /// True if ids are scattered, so that hubs and classes do not have consecutive ids.
    pub scramble: bool,
    /// Random seed of all streams.
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
    /// Returns the number of vertices if every value is within its limits.
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

/// Refuses a number outside `least..=most`.
fn whole(name: &'static str, found: u64, least: u64, most: u64) -> Result<()> {
    if (least..=most).contains(&found) {
        return Ok(());
    }
    Err(Error::Parameter { name, found: found.to_string(), allowed: format!("{least} to {most}") })
}

/// Refuses a number outside `least..=most`, and NaN.
fn real(name: &'static str, found: f64, least: f64, most: f64) -> Result<()> {
    if (least..=most).contains(&found) {
        return Ok(());
    }
    Err(Error::Parameter { name, found: found.to_string(), allowed: format!("{least} to {most}") })
}

/// Law of the two ends of a pair.
#[derive(Debug, Clone)]
enum Law {
    Block(BlockLaw),
    Rmat(RmatLaw),
}

/// A generated graph: undirected pairs in chunks, and the task planted on it.
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

    /// Classes, labels, features and splits.
    pub fn planted(&self) -> &Planted {
        &self.planted
    }

    /// Returns size and task as specified, with the pairs that are drawn.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The model and all its parameters.
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

    /// The same graph in chunks of at least `pairs` pairs, rounded up to whole blocks of
    /// [`BLOCK_PAIRS`] and down to the limit of a chunk.
    pub fn with_chunk_pairs(mut self, pairs: u64) -> Self {
        self.chunk_blocks = pairs.div_ceil(BLOCK_PAIRS).clamp(1, MAX_CHUNK_EDGES as u64 / BLOCK_PAIRS);
        self
    }

    /// Directed edges that are expected to be left: each distinct pair of different vertices counts
    /// twice. Estimated from the chances of 65,536 drawn pairs, with a deviation of at most 0.2 % of all
    /// that are drawn, and less where few of them repeat.
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
            // Quadrants of chance 0 may leave pairs that can only be halved ones.
            if chance.is_finite() { chance.min(1.0) } else { 1.0 }
        };
        Repeats::new(pairs.into_iter().map(chance).collect(), self.shape.vertices as f64)
    }

    /// Appends `count` pairs from the stream of a block.
    fn draw(&self, purpose: Purpose, block: u64, count: usize, pairs: &mut Vec<(u32, u32)>) {
        let (layout, p_in) = (&self.planted.layout, self.shape.p_in);
        let random = keyed::stream(self.shape.seed, purpose, block);
        match &self.law {
            Law::Block(law) => law.draw(layout, p_in, random, count, pairs),
            Law::Rmat(law) => law.draw(layout, p_in, random, count, pairs),
        }
    }

    /// The same graph with as many pairs drawn as lead to `edges` distinct directed edges, by
    /// expectation.
    ///
    /// # Errors
    /// [`Error::Parameter`] where so many edges would take more than 64 times their number of pairs,
    /// because the graph has hardly more, or more than [`MAX_PAIRS`].
    pub fn aim(mut self, edges: u64) -> Result<Self> {
        let wanted = edges as f64;
        let most = (wanted * 64.0).min(MAX_PAIRS as f64);
        let repeats = self.repeats();
        let mut pairs = wanted / 2.0;
        // Newton's method; distinct edges are a concave function of pairs, so it comes from below.
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

//! Graphs and data sets for training: compressed adjacency, readers of published formats, splits
//! and metrics.
//!
//! A [`dataset::Dataset`] is a [`adjacency::Graph`] with [`features::Features`], labels and a
//! [`split::Split`] by vertex id. [`format::open`] reads one from a path, whatever layout lies
//! there; [`format::builtin`] has one that needs no file. What is read is checked before it is
//! handed out: no reader panics or runs code on bad input, and each error names file and place.
//!
//! ```
//! let cora = eciton_graph::format::builtin("cora")?;
//! assert_eq!((cora.graph.vertices(), cora.graph.edges()), (2708, 10556));
//! # Ok::<(), eciton_graph::error::Error>(())
//! ```

pub mod adjacency;
pub mod build;
pub mod dataset;
pub mod edge_features;
pub mod edges;
pub mod error;
pub mod features;
pub mod format;
pub mod gather;
pub mod generate;
pub mod graphs;
pub mod labels;
pub mod links;
mod mapping;
pub mod metrics;
pub mod order;
pub mod random;
pub mod split;
pub mod stat;
pub mod store;

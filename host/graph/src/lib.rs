//! Graphs and data sets for training, with vertex orders, splits, samplers and metrics.
//!
//! A [`dataset::Dataset`] is a [`adjacency::Graph`] with [`features::Features`], labels and a
//! [`split::Split`] by vertex id. The crate `eciton-formats` has the readers of common file
//! formats. This crate has Eciton's own [`store`] and generated graphs ([`generate`]). All input is
//! checked before it is returned: no reader panics on bad input, and each error names the file and
//! the position in it.
//!
//! ```
//! use eciton_graph::adjacency::{Graph, Options};
//! let graph = Graph::from_edges(3, [(0, 1), (1, 2)].into_iter(), Options::default())?;
//! assert_eq!((graph.vertices(), graph.edges()), (3, 4));
//! # Ok::<(), eciton_graph::error::Error>(())
//! ```

pub mod build;
pub mod checksum;
pub mod corrections;
pub mod dataset;
pub mod edge_features;
pub mod edge_rule;
pub mod edges;
pub mod encoding;
pub mod error;
pub mod expected;
pub mod features;
pub mod generate;
pub mod graphs;
pub mod label_report;
pub mod labelled_edges;
pub mod labels;
pub mod links;
pub mod mapping;
pub mod metrics;
pub mod names;
pub mod order;
pub mod pairs;
pub mod part;
pub mod random;
pub mod sample;
pub mod scaling;
mod select;
pub mod shuffle;
pub mod split;
pub mod stat;
pub mod store;
pub mod summary;
mod vertex_ids;

pub use eciton_gather::adjacency;

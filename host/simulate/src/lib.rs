//! Training simulated: the real engine, in a seeded world of hosts, functions, networks and prices.
//!
//! [`simulate`] runs a [`Shape`] (a graph's and a model's numbers, not the graph) with the same
//! [`eciton_engine::Engine`] that trains, on a virtual clock. Steps take what a
//! [`Profile`](eciton_program::Profile) says; functions start cold or warm, share the host's bandwidth, are
//! throttled, straggle, crash, and lose or double answers as [`Settings`] say; the [`Report`] has times,
//! [`Prices`](eciton_recipe::Prices) in dollars, and V = 1 / (T x C).
//!
//! Pure, as the engine is: the same input gives the same report, bit for bit. `docs/explanation/simulation.md` says
//! what is modelled, by which formula, from which source, and what is left out.

mod cloud;
mod error;
mod flight;
mod host;
mod link;
pub mod pipeline;
mod random;
mod report;
pub mod reproduce;
mod settings;
mod shape;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tuning;
mod work;
mod world;

pub use cloud::Cloud;
pub use error::Error;
pub use report::{Bytes, Chosen, Dollars, EngineCounts, FunctionCounts, Report};
pub use settings::{
    Bursts, Faults, Functions, Hosts, MAX_EPOCHS, MAX_FUNCTIONS, MAX_HOSTS, Placement, Settings, Signal,
    Transport, VCPU_MB,
};
pub use shape::{Kind, LayerOrder, NAMED, Named, Shape};
pub use world::simulate;

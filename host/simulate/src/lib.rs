//! Simulation of training, with the real engine in a seeded world of hosts, functions, networks and
//! prices.
//!
//! [`simulate`] trains a [`Shape`], which has the sizes of a graph and a model but no data. It runs
//! the same [`eciton_engine::Engine`] as real training, on a virtual clock. A
//! [`Profile`](eciton_program::Profile) provides the times of steps. According to the [`Settings`],
//! functions start cold or warm, share the host's bandwidth, are throttled, straggle, crash, and
//! lose or duplicate answers. The [`Report`] has times, costs in USD by
//! [`Prices`](eciton_recipe::Prices), and the value V = 1 / (time x cost).
//!
//! The simulation is a pure function, so the same input yields a bit-identical report.
//! `docs/explanation/simulation.md` describes the model with its formulas and sources, and the
//! effects that it omits.

mod cloud;
mod error;
mod flight;
mod host;
mod link;
pub mod pipeline;
mod random;
mod report;
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
pub use work::{EpochWork, epoch_work};
pub use world::simulate;

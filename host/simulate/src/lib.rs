//! Simulation of training: the real engine in a seeded world of hosts, functions, networks and
//! prices.
//!
//! [`simulate`] runs a [`Shape`] (sizes of a graph and a model, without the graph) with the same
//! [`eciton_engine::Engine`] that trains, on a virtual clock. The times of steps come from a
//! [`Profile`](eciton_program::Profile). According to the [`Settings`], functions start cold or
//! warm, share the host's bandwidth, are throttled, straggle, crash, and lose or duplicate answers.
//! The [`Report`] has times, costs in dollars by [`Prices`](eciton_recipe::Prices), and the value V
//! = 1 / (T x C).
//!
//! The simulation is pure, like the engine: the same input gives the same report, bit for bit.
//! `docs/explanation/simulation.md` describes the model, with its formulas and sources, and the
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

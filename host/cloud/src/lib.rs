//! Access to a cloud provider: deployments, prices, bills, and clients of cloud services.
//!
//! A [`Deployment`] is a file that `eciton deploy` writes and a run reads. It names the functions,
//! their bucket, and the key that signs kernels. An [`Architecture`] is the processor architecture
//! of functions.
//!
//! A [`Bill`] counts the billable usage of services. [`Bill::cost`] multiplies it by the [`Prices`]
//! of a region, and adds the data transfer to a [`Host`]. [`cloud_file`] reads prices and presets.
//!
//! An [`Invoker`] sends requests to a function. With the feature `aws`,
//! `lambda_invoker::LambdaInvoker` sends them to AWS Lambda, and `aws` loads credentials.
//! `emulated_account::EmulatedAccount` emulates AWS on this machine. Without the feature, the
//! corresponding operations fail with [`NoAws`]. [`trainers`] computes whole training runs on
//! functions.
//!
//! This crate contains no executors. `eciton-exec` builds its remote executors on this crate.
//!
//! # Example
//!
//! ```
//! use eciton_cloud::{Architecture, Bill, Host, prices};
//!
//! let bill = Bill { invocations: 1_000, gb_seconds: 500.0, ..Bill::default() };
//! let cost = bill.cost(&prices()?, Architecture::Arm64, &Host::default());
//! assert!(cost.functions_usd > 0.0 && cost.usd == cost.functions_usd);
//! # Ok::<(), eciton_cloud::Error>(())
//! ```

mod architecture;
#[cfg(feature = "aws")]
pub mod aws;
mod bill;
pub mod bucket;
pub mod cloud_file;
mod concurrency;
pub mod deployment;
#[cfg(feature = "aws")]
pub mod emulated_account;
pub mod error;
mod host;
mod invoker;
#[cfg(feature = "aws")]
pub mod kernel_keys;
#[cfg(feature = "aws")]
pub mod lambda_invoker;
mod no_aws;
pub mod programs;
mod runtime;
mod scratch;
pub mod trainers;

pub use architecture::Architecture;
pub use bill::{Bill, Cost, TimeOrigin};
pub use cloud_file::{cloud, cloud_digest, prices};
pub use concurrency::{ConcurrencyLimit, Cut};
pub use deployment::{DEFAULT_STACK, Deployment};
pub use eciton_recipe::Prices;
pub use error::{Error, Result};
pub use host::{Host, on_interruption};
pub use invoker::{Charge, InvokeError, Invoked, Invoker};
pub use no_aws::NoAws;
pub use runtime::runtime;
pub use scratch::Scratch;

//! Run folders and reports, which contain the results of training runs.
//!
//! A training run writes a [`run_folder::RunFolder`], which [`run_folder::Run`] reads back. The
//! [`report`] module has the results: an [`EpochReport`](report::EpochReport) for each epoch, and a
//! [`Summary`](report::Summary) of the run. A [`schema::Schema`] describes the data that a model
//! was trained on, and [`provenance::Provenance`] the settings, kernels and machine. [`web`] and
//! [`picture`] show a run, and [`sweep`] the trials of a sweep. This crate trains nothing.
//!
//! ```no_run
//! # fn main() -> eciton_runs::Result<()> {
//! let run = eciton_runs::run_folder::Run::open("runs/first".as_ref())?;
//! println!("{}: {:?}", run.summary.model, run.summary.test_metric);
//! # Ok(())
//! # }
//! ```

pub mod decisions;
pub mod durable;
pub mod metrics_format;
pub mod npz_write;
pub mod picture;
pub mod provenance;
pub mod report;
pub mod run_folder;
pub mod schema;
pub mod sweep;
pub mod task_type;
pub mod web;

pub use run_folder::{Error, Result};

//! Trains a graph convolutional network on Cora and prints each tenth epoch.
//!
//! `cargo run --release -p eciton-tests --example train_cora`
//!
//! The model and its settings are those of Kipf and Welling (2017), which are the defaults. The data
//! set is part of the program.
#![allow(missing_docs, clippy::print_stdout)]

use eciton_recipe::Config;
use eciton_train::{EpochReport, Observer, Options};

/// Observer that prints the loss and the validation metric of each tenth epoch.
struct Progress;

impl Observer for Progress {
    fn epoch(&mut self, report: &EpochReport) {
        if report.epoch.is_multiple_of(10)
            && let Some(metrics) = &report.metrics
        {
            println!(
                "epoch {:3}  loss {:.4}  validation {:?}",
                report.epoch, report.loss, metrics.validation
            );
        }
    }
}

pub fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut config = Config::default();
    // Any key of a recipe can be set; `eciton keys` lists them.
    config.set("run.epochs=100")?;
    config.set("model.hidden=16")?;
    let summary = eciton_train::train(&config, &Options::default(), &mut Progress)?;
    println!("test accuracy {:.1} %", 100.0 * summary.test_metric.unwrap_or_default());
    Ok(())
}

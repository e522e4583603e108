//! The commands `eciton data generate linear` and `towers`, which generate tabular data.

use std::path::{Path, PathBuf};

use eciton_graph::dataset::Dataset;
use eciton_graph::generate::{LinearRows, TowerRows};
use eciton_graph::store;
use serde::Serialize;

use super::{count, name};
use crate::failure::Failure;
use crate::output::Output;
use crate::text::grouped;

/// Arguments of `eciton data generate linear`.
#[derive(Debug, clap::Args)]
pub(crate) struct LinearArguments {
    /// Number of features
    #[arg(long, value_name = "N", default_value_t = 64)]
    features: u32,
    /// Number of classes
    #[arg(long, value_name = "N", default_value_t = 10)]
    classes: u32,
    #[command(flatten)]
    common: Common,
}

/// Arguments of `eciton data generate towers`.
#[derive(Debug, clap::Args)]
pub(crate) struct TowerArguments {
    /// Number of users
    #[arg(long, value_name = "N", default_value = "1000", value_parser = count)]
    users: u64,
    /// Number of items
    #[arg(long, value_name = "N", default_value = "500", value_parser = count)]
    items: u64,
    /// Number of numeric columns in addition to user and item
    #[arg(long, value_name = "N", default_value_t = 8)]
    numbers: u32,
    /// Standard deviation of the hidden noise that the class depends on
    #[arg(long, value_name = "NOISE", default_value_t = 0.2, allow_negative_numbers = true)]
    noise: f64,
    #[command(flatten)]
    common: Common,
}

/// Arguments of both commands.
#[derive(Debug, clap::Args)]
struct Common {
    /// Folder to write, which must not exist
    #[arg(value_name = "OUT")]
    out: PathBuf,
    /// Number of rows: 60 % training, 20 % validation, 20 % test
    #[arg(long, value_name = "N", default_value = "10000", value_parser = count)]
    rows: u64,
    /// Random seed
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Name of the data set [default: last component of OUT]
    #[arg(long, value_name = "NAME", help_heading = "Output")]
    name: Option<String>,
    /// Print one JSON object
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// Description of the generated tabular data, which `--json` prints.
#[derive(Serialize)]
struct Line<'a> {
    event: &'static str,
    out: &'a Path,
    model: &'static str,
    layout: &'static str,
    rows: u32,
    features: u32,
    classes: u32,
    seed: u64,
}

/// Generates tabular data whose class is a linear function of the features (`linear`).
pub(super) fn linear(arguments: &LinearArguments, output: &mut Output) -> Result<(), Failure> {
    let Common { rows, seed, .. } = arguments.common;
    let made = LinearRows { rows, features: arguments.features, classes: arguments.classes, seed };
    run("linear", &arguments.common, output, |name| made.dataset(name))
}

/// Generates tabular data with columns for users, items and numbers (`towers`).
pub(super) fn towers(arguments: &TowerArguments, output: &mut Output) -> Result<(), Failure> {
    let &TowerArguments { users, items, numbers, noise, .. } = arguments;
    let Common { rows, seed, .. } = arguments.common;
    let made = TowerRows { rows, users, items, numbers, noise, seed };
    run("towers", &arguments.common, output, |name| made.dataset(name))
}

/// Generates a data set with the callback `made`, which receives its name. Writes the data set as a
/// store, and prints a description of it.
fn run(
    model: &'static str,
    common: &Common,
    output: &mut Output,
    made: impl FnOnce(&str) -> eciton_graph::error::Result<Dataset>,
) -> Result<(), Failure> {
    let out = &common.out;
    super::vacant(out)?;
    let data = made(&name(common.name.as_ref(), out)).map_err(|error| Failure::usage(&error))?;
    store::write(out, &data)?;
    let (rows, features, classes) = (data.vertices(), data.features.columns(), data.labels.width());
    match common.json {
        true => {
            let (event, layout, seed) = ("generated", "store", common.seed);
            output.json(&Line { event, out, model, layout, rows, features, classes, seed });
        }
        false => {
            output.line(format_args!("written     {} ({model}, store)", out.display()));
            output.line(format_args!("rows        {}", grouped(rows.into())));
            output.line(format_args!("features    {features}"));
            output.line(format_args!("classes     {classes}"));
        }
    }
    Ok(())
}

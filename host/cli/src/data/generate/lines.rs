//! The command `eciton data generate lines`, which generates images with proposed lines. The task
//! is to find the lines that are sides of closed outlines.

use std::path::{Path, PathBuf};

use eciton_graph::generate::Lines;
use eciton_graph::store;
use indicatif::ProgressBar;
use serde::Serialize;

use super::{count, name};
use crate::failure::Failure;
use crate::interrupt;
use crate::output::Output;
use crate::text::{grouped, percent};

/// Arguments of `eciton data generate lines`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Folder to write, which must not exist
    #[arg(value_name = "OUT")]
    out: PathBuf,
    /// Number of images with 40 proposed lines each: 60 % training, 20 % validation, 20 % test
    #[arg(long, value_name = "N", default_value = "400", value_parser = count)]
    images: u64,
    /// Standard deviation of the pixel noise; lines have a contrast of 0.5 to 1
    #[arg(long, value_name = "X", default_value_t = Lines::default().noise, allow_negative_numbers = true)]
    noise: f64,
    /// Write no edges between proposed lines, only tabular data
    #[arg(long)]
    no_edges: bool,
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

/// Description of the generated data set, which `eciton data generate lines --json` prints.
#[derive(Serialize)]
struct Line<'a> {
    event: &'static str,
    out: &'a Path,
    model: &'static str,
    layout: &'static str,
    images: u64,
    rows: u32,
    features: u32,
    edges: u64,
    classes: u32,
    /// Share of the proposed lines that are sides of closed outlines, from 0 to 1.
    sides: f64,
    seed: u64,
}

/// Generates the images, writes them as a data set, and prints a description of it.
pub(super) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let &Arguments { images, noise, no_edges, seed, .. } = arguments;
    let out = &arguments.out;
    let made = Lines { images, noise, edges: !no_edges, seed };
    super::vacant(out)?;
    interrupt::remove_at_once(ProgressBar::hidden(), out)?;
    let name = name(arguments.name.as_ref(), out);
    let data = made.dataset(&name).map_err(|error| Failure::usage(&error))?;
    store::write(out, &data)?;
    let sides = data.labels.as_classes().unwrap_or_default().iter().filter(|&&class| class == 1).count();
    let line = Line {
        event: "generated",
        out,
        model: "lines",
        layout: "store",
        images,
        rows: data.vertices(),
        features: data.features.columns(),
        edges: data.graph.edges(),
        classes: data.labels.width(),
        sides: sides as f64 / f64::from(data.vertices()),
        seed,
    };
    if arguments.json {
        output.json(&line);
        return Ok(());
    }
    let mut row = |name: &str, text: String| output.line(format_args!("{name:<11} {text}"));
    row("written", format!("{} ({}, {})", out.display(), line.model, line.layout));
    row("images", grouped(images));
    row(
        "rows",
        format!(
            "{} proposed lines, {} % of them sides of closed outlines",
            grouped(line.rows.into()),
            percent(Some(line.sides))
        ),
    );
    row("edges", format!("{} directed, all within images", grouped(line.edges)));
    row("features", format!("{} pixels of a crop of 8 x 32, and 4 coordinates", line.features - 4));
    Ok(())
}

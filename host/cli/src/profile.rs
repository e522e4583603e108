//! `eciton profile`: the time that each stage of a model takes here, per call and per row.

use std::path::PathBuf;

use eciton_train::{Options, Silent};
use serde::Serialize;

use crate::failure::Failure;
use crate::output::Output;
use crate::{recipe, train};

const AFTER_HELP: &str = "\
A batch is trained in 1, 2, 4 and 8 parts in turn, as far as it can have so many. The seconds of each\n\
stage are fitted as seconds a call plus seconds a row.\n\
The file is a task profile (docs/explanation/simulation.md), by which `eciton plan --measured FILE` cuts a pipeline.\n\n\
Examples:  eciton profile digits --layers 6 --batch 512 --epochs 3 --file digits.json\n\
\x20          eciton plan digits --layers 6 --batch 512 --micro 4 --lanes 3 --measured digits.json";

/// Arguments of `eciton profile`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(flatten)]
    train: train::Arguments,
    /// File to write the profile to
    #[arg(long, value_name = "FILE")]
    file: PathBuf,
    /// Parts of a batch, one run each
    #[arg(long, value_name = "N,N,...", value_delimiter = ',', default_value = "1,2,4,8")]
    parts: Vec<u32>,
}

#[derive(Serialize)]
struct Line<'a> {
    event: &'static str,
    #[serde(flatten)]
    profile: &'a eciton_program::Profile,
}

/// Measures each stage, and prints the figures.
pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let config = eciton_train::defaults::settle(&recipe::configure(&arguments.train.request()?)?)?;
    let options = Options::default();
    crate::interrupt::watch(options.stop.clone(), indicatif::ProgressBar::hidden(), None)?;
    let profile = eciton_train::profile(&config, &options, &arguments.parts, &arguments.file, &mut Silent)?;
    if arguments.train.json {
        output.json(&Line { event: "profile", profile: &profile });
        return Ok(());
    }
    output.line(format_args!("{:<28} {:>14} {:>14}", "stage", "us a call", "us a row"));
    for (stage, name) in profile.stages.iter().zip(&profile.program) {
        let figure = |seconds: Option<f64>| seconds.map_or("-".to_owned(), |s| format!("{:.4}", s * 1e6));
        let (call, row) = (figure(stage.host_seconds_per_call), figure(stage.host_seconds_per_row));
        output.line(format_args!("{name:<28} {call:>14} {row:>14}"));
    }
    output.line(format_args!("written to {}", arguments.file.display()));
    Ok(())
}

//! The command `eciton profile`, which measures the time of each stage of a model on this machine.
//! The result has a time per call and a time per row.

use std::path::PathBuf;

use eciton_train::{Options, Silent};
use serde::Serialize;

use crate::failure::Failure;
use crate::output::Output;
use crate::text::seconds;
use crate::{recipe, train};

const AFTER_HELP: &str = "\
The command trains once per number of micro-batches (--parts), as far as the\n\
batch has enough rows. It fits the time of each stage as seconds per call plus\n\
seconds per row. `eciton plan --measured FILE` plans a pipeline by them.\n\
With --lanes (and --workers), it also trains with these lanes, and measures how\n\
much longer their steps take and the time from one step to the next.\n\
The file is a task profile (docs/explanation/simulation.md).\n\n\
Examples:\n\
\x20 eciton profile digits --layers 6 --batch 512 --micro 4 --lanes 3 --epochs 3 \\\n\
\x20     --file digits.json\n\
\x20 eciton plan digits --layers 6 --batch 512 --micro 4 --lanes 3 \\\n\
\x20     --measured digits.json";

/// Arguments of `eciton profile`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(flatten)]
    train: train::Arguments,
    /// File to write the task profile to
    #[arg(long, value_name = "FILE")]
    file: PathBuf,
    /// Numbers of micro-batches per batch, one training each
    #[arg(long, value_name = "N,N,...", value_delimiter = ',', default_value = "1,2,4,8")]
    parts: Vec<u32>,
}

#[derive(Serialize)]
struct Line<'a> {
    event: &'static str,
    #[serde(flatten)]
    profile: &'a eciton_program::Profile,
}

/// Measures the time of each stage, writes the task profile, and prints it in microseconds per call
/// and per row.
pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let config = eciton_train::defaults::settle(&recipe::configure(&arguments.train.request()?)?)?;
    let options = Options::default();
    crate::interrupt::watch(options.stop.clone(), indicatif::ProgressBar::hidden(), None)?;
    let profile = eciton_train::profile(&config, &options, &arguments.parts, &arguments.file, &mut Silent)?;
    if arguments.train.json {
        output.json(&Line { event: "profile", profile: &profile });
        return Ok(());
    }
    output.line(format_args!("{:<28} {:>14} {:>14}", "stage", "us per call", "us per row"));
    for (stage, name) in profile.stages.iter().zip(&profile.program) {
        let figure = |seconds: Option<f64>| seconds.map_or("-".to_owned(), |s| format!("{:.4}", s * 1e6));
        let (call, row) = (figure(stage.host_seconds_per_call), figure(stage.host_seconds_per_row));
        output.line(format_args!("{name:<28} {call:>14} {row:>14}"));
    }
    if let Some(lanes) = profile.lanes {
        let (slowdown, step) = (lanes.slowdown, seconds(lanes.seconds_per_step));
        output.line(format_args!(
            "in lanes, steps take {slowdown:.2} times as long, and the next step follows after {step}"
        ));
    }
    output.line(format_args!("profile written to {}", arguments.file.display()));
    Ok(())
}

//! The command `eciton data generate programs`, which generates programs that are labelled with
//! their results.

use std::path::{Path, PathBuf};

use eciton_graph::dataset::Dataset;
use eciton_graph::generate::Programs;
use eciton_graph::store;
use indicatif::ProgressBar;
use serde::Serialize;

use super::count;
use crate::failure::Failure;
use crate::interrupt;
use crate::output::Output;
use crate::text::grouped;

/// Arguments of `eciton data generate programs`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Folder to write, which must not exist. It gets the stores train and length-N for each length
    /// of --test
    #[arg(value_name = "OUT")]
    out: PathBuf,
    /// Number of lines of 9 in 10 training programs; the others are shorter
    #[arg(long, value_name = "N", default_value_t = 6)]
    lines: u32,
    /// Number of programs of up to --lines lines: 90 % training, 5 % validation, 5 % test
    #[arg(long, value_name = "N", default_value = "20000", value_parser = count)]
    programs: u64,
    /// Numbers of lines of further data sets, which have only test programs
    #[arg(long, value_name = "N,N,...", default_value = "8,12,20", value_delimiter = ',')]
    test: Vec<u32>,
    /// Number of programs per length of --test
    #[arg(long, value_name = "N", default_value = "2000", value_parser = count)]
    each: u64,
    /// Modulus of the result v0, which is the number of classes
    #[arg(long, value_name = "N", default_value_t = 10)]
    modulus: u32,
    /// Hide one statement of each program (`_ = 0`), so that the result must be guessed
    #[arg(long)]
    partial: bool,
    /// Random seed
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Print one JSON object
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// Description of the generated data sets, which `eciton data generate programs --json` prints.
#[derive(Serialize)]
struct Line<'a> {
    event: &'static str,
    out: &'a Path,
    model: &'static str,
    layout: &'static str,
    sets: Vec<Set>,
    nodes: u32,
    entries: u32,
    classes: u32,
    seed: u64,
}

/// Description of one of the written data sets.
#[derive(Serialize)]
struct Set {
    name: String,
    programs: u32,
    features: u32,
}

/// Generates all data sets, writes them to a new folder, and prints a description of them.
pub(super) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let out = &arguments.out;
    let made = Programs {
        lines: arguments.lines,
        programs: arguments.programs,
        lengths: arguments.test.clone(),
        each: arguments.each,
        modulus: arguments.modulus,
        partial: arguments.partial,
        seed: arguments.seed,
    };
    super::vacant(out)?;
    interrupt::remove_at_once(ProgressBar::hidden(), out)?;
    let train = made.train("train").map_err(|error| Failure::usage(&error))?;
    // The files are written next to `out` until all are complete, under a name that a signal
    // removes.
    let last = out.file_name().unwrap_or_default().to_string_lossy();
    let partial = out.with_file_name(format!(".{last}.partial-{}", std::process::id()));
    std::fs::create_dir(&partial)?;
    let written = write(&made, &train, &partial);
    let sets =
        written.and_then(|sets| Ok(std::fs::rename(&partial, out).map(|()| sets)?)).inspect_err(|_| {
            // The error that is reported is the first one, not one of this removal.
            let _ = std::fs::remove_dir_all(&partial);
        })?;
    let (nodes, entries, classes) = (made.nodes(), made.entries(), made.modulus);
    match arguments.json {
        true => {
            let (event, model, layout, seed) = ("generated", "programs", "store", made.seed);
            output.json(&Line { event, out, model, layout, sets, nodes, entries, classes, seed });
        }
        false => {
            output.line(format_args!("written     {} (programs, one store per data set)", out.display()));
            for set in &sets {
                let programs = grouped(set.programs.into());
                output.line(format_args!("{:<11} {programs} programs", set.name));
            }
            output.line(format_args!("nodes       {nodes}, with 8 values each"));
            output.line(format_args!("entries     {entries}"));
            output.line(format_args!("classes     {classes}"));
        }
    }
    Ok(())
}

/// Writes the training set `train` and the generated test sets to the folder `out`. Returns their
/// descriptions.
fn write(made: &Programs, train: &Dataset, out: &Path) -> Result<Vec<Set>, Failure> {
    let mut sets = Vec::new();
    let mut put = |data: &Dataset| -> Result<(), Failure> {
        store::write(&out.join(&data.name), data)?;
        let (programs, features) = (data.vertices(), data.features.columns());
        sets.push(Set { name: data.name.clone(), programs, features });
        Ok(())
    };
    put(train)?;
    for &lines in &made.lengths {
        put(&made.test(&format!("length-{lines}"), lines)?)?;
    }
    Ok(sets)
}

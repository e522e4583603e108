//! The command `eciton report`, which writes a web page about a run.

use std::io::Write as _;
use std::path::PathBuf;

use eciton_train::{Options, web};

use crate::failure::Failure;
use crate::output::{Output, tell};
use crate::text::bytes;

/// Name of the file in the run folder to which the page is written by default.
const PAGE: &str = "report.html";
/// Name of the file in the run folder from which the trace is read by default.
const TRACE: &str = "trace.json";

/// Arguments of `eciton report`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The page is a single file without scripts or external resources. The data set
is read again to compute the memory by purpose; if the data set is missing, the
page reports that. A sweep writes its own report.html to its folder.")]
pub(crate) struct Arguments {
    /// Run folder
    run: PathBuf,
    /// File to write the page to [default: report.html in the run folder]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Trace of the run (`eciton train --trace`) for the timeline [default: trace.json in the run
    /// folder, if it exists]
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Do not read the data set; omits the memory by purpose
    #[arg(long)]
    without_data: bool,
}

/// Writes the page about a run, and prints its path and size.
pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let folder = &arguments.run;
    if folder.join("results.json").is_file() && !folder.join("summary.json").is_file() {
        return Err(Failure::Failed(format!(
            "{} is the folder of a sweep, whose report is {}; expected a run folder, such as {}",
            folder.display(),
            folder.join(PAGE).display(),
            eciton_train::sweep::trial_folder(folder, 0).display()
        )));
    }
    let own = arguments.run.join(TRACE);
    let trace = arguments.trace.clone().or_else(|| own.is_file().then_some(own));
    let page = web::page(&arguments.run, trace.as_deref(), !arguments.without_data, &Options::default())?;
    let path = arguments.out.clone().unwrap_or_else(|| arguments.run.join(PAGE));
    let written = eciton_input::file::create(&path).and_then(|mut file| file.write_all(page.html.as_bytes()));
    written.map_err(|error| {
        Failure::Failed(format!(
            "{}: cannot be written: {error}; choose another file with --out",
            path.display()
        ))
    })?;
    for text in &page.left_out {
        tell(format_args!("not shown: {text}"));
    }
    output.line(format_args!("{}: {}", path.display(), bytes(page.html.len() as u64)));
    Ok(())
}

//! `eciton report`: writes a web page about a run.

use std::io::Write as _;
use std::path::PathBuf;

use eciton_train::{Options, web};

use crate::failure::Failure;
use crate::output::{Output, tell};
use crate::text::bytes;

/// Name of the page in the run folder.
const PAGE: &str = "report.html";
/// Default name of a trace in the run folder.
const TRACE: &str = "trace.json";

/// `eciton report`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The page has no script and loads nothing: it can be sent as it is. The data set is read again for the memory by purpose;
where it is gone, the page says so. A sweep writes its own page, report.html in its folder.")]
pub(crate) struct Arguments {
    /// The run folder
    run: PathBuf,
    /// The page [default: report.html in the run folder]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// A trace of the run (`eciton train --trace`), for the timeline [default: trace.json in the run folder, if there]
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Do not read the data set: without the memory by purpose
    #[arg(long)]
    without_data: bool,
}

/// Writes the page.
pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    let folder = &arguments.run;
    if folder.join("results.json").is_file() && !folder.join("summary.json").is_file() {
        return Err(Failure::Failed(format!(
            "{}: the folder of a sweep, whose page the sweep wrote: {}; give the run folder of a trial, such as {}",
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
            "{}: cannot be written: {error}; name another place with --out",
            path.display()
        ))
    })?;
    for text in &page.left_out {
        tell(format_args!("not shown: {text}"));
    }
    output.line(format_args!("{}: {}", path.display(), bytes(page.html.len() as u64)));
    Ok(())
}

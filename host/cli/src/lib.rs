//! Command line of Eciton. Each command, for instance `eciton train`, has a module. The program
//! `eciton` and the Python package call this library.
//!
//! This is the only crate that prints. Results are written to standard output through
//! [`output::Output`], and everything else to standard error.
//!
//! The exit code is 0 for success, 1 for a failure with `error: ...` on standard error, and 2 for
//! an invalid command line. It is 75 for a temporary failure, after which the same command may
//! succeed. It is 130 or 143 if Ctrl-C or SIGTERM ended the command, whether or not results were
//! written. It is 141 if the reader of standard output closed it.

mod arguments;
mod clean;
mod completions;
mod cost;
mod data;
mod deploy;
mod destroy;
mod doctor;
mod evaluate;
mod failure;
mod foreign;
mod generate;
mod host;
mod hosts;
mod interrupt;
mod job;
mod kernel;
mod key_flags;
mod keys;
mod logging;
mod output;
mod plan;
mod predict;
mod profile;
mod progress;
mod protection;
mod prove;
mod quality;
mod recipe;
mod recipes;
mod report;
mod resume;
mod run_name;
mod runs;
mod sample;
mod simulate;
mod summary;
mod sweep;
mod text;
mod train;
mod tune;
mod worker;

use std::ffi::OsString;

use clap::Parser as _;
use eciton_recipe::Config;

use arguments::{Arguments, Command};
use failure::Failure;
use output::Output;

pub use hosts::SharedRun;
pub use recipe::{Request, Setting, usual_model};

/// Runs a command line, and returns the exit code. The first of `words` is the program's name. This
/// function must be called once per process, from its first thread, because it installs signal
/// handlers and writes to standard output and standard error.
pub fn run(words: impl IntoIterator<Item = OsString>) -> u8 {
    eciton_input::memory::keep_freed();
    let words: Vec<OsString> = words.into_iter().collect();
    let arguments = match Arguments::try_parse_from(&words) {
        Ok(arguments) => arguments,
        Err(answer) => {
            // Help and versions are errors of the parser too. A failure to print them is ignored.
            match foreign::hint(&answer) {
                Some(hint) => output::tell(hint),
                None => drop(answer.print()),
            }
            return u8::try_from(answer.exit_code()).unwrap_or(2);
        }
    };
    if let Some(bytes) = arguments.input_memory {
        eciton_input::budget::set_limit(bytes);
    }
    hosts::remember(&words);
    let mut output = Output::standard();
    let ready = interrupt::ignore_file_limit().and_then(|()| logging::start(arguments.verbose));
    if let Err(failure) = ready {
        return failure.report();
    }
    let done = match &arguments.command {
        Command::Plan(arguments) => plan::run(arguments, &mut output),
        Command::Cost(arguments) => cost::run(arguments, &mut output),
        Command::Profile(arguments) => profile::run(arguments, &mut output),
        Command::Train(arguments) if arguments.dry_run => plan::dry_run(arguments, &mut output),
        Command::Train(arguments) => train::run(arguments, None, &mut output),
        Command::Sample(arguments) => sample::run(arguments, &mut output),
        Command::Resume(arguments) => resume::run(arguments, None, &mut output),
        Command::Host(arguments) => host::run(arguments, &mut output),
        Command::Simulate(arguments) => simulate::run(arguments, &mut output),
        Command::Sweep(arguments) => sweep::run(arguments, &mut output),
        Command::Tune(arguments) => tune::run(arguments, &mut output),
        Command::Job(arguments) => job::run(arguments, &mut output),
        Command::Worker(arguments) => worker::run(arguments, &mut output),
        Command::Predict(arguments) => predict::run(arguments, &mut output),
        Command::Eval(arguments) => evaluate::run(arguments, &mut output),
        Command::Generate(arguments) => generate::run(arguments, &mut output),
        Command::Data(command) => data::run(command, &mut output),
        Command::Keys(arguments) => keys::run(arguments, &mut output),
        Command::Recipes(arguments) => recipes::run(arguments, &mut output),
        Command::Kernel(command) => kernel::run(command, &mut output),
        Command::Deploy(arguments) => deploy::run(arguments, &mut output),
        Command::Prove(command) => prove::run(command, &mut output),
        Command::Destroy(arguments) => destroy::run(arguments, &mut output),
        Command::Clean(arguments) => clean::run(arguments, &mut output),
        Command::Doctor(arguments) => doctor::run(arguments, &mut output),
        Command::Runs(command) => runs::run(command, &mut output),
        Command::Report(arguments) => report::run(arguments, &mut output),
        Command::Completions(arguments) => completions::run(arguments, &mut output),
        Command::Man(arguments) => completions::man(arguments, &mut output),
    };
    output::tell_notes();
    // Output that precedes a failure is still written. If this write fails too, the first failure
    // is reported.
    let printed = output.finish();
    match done.and(printed) {
        Ok(()) => 0,
        Err(failure) => failure.report(),
    }
}

/// Returns the configuration that results from the defaults, the recipe, the flags and the settings
/// of a request. Recipe files and model files are read, but no data set.
///
/// # Errors
/// Returns the text that `eciton train` prints after `error: ` if a file or a setting is invalid.
pub fn configure(request: &Request) -> Result<Config, String> {
    recipe::configure(request).map_err(Failure::into_text)
}

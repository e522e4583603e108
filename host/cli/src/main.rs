//! The command line of Eciton: `eciton train`, `sweep`, `plan`, `resume`, `simulate`, `reproduce`, `predict`,
//! `worker`, `eval`, `data`, `recipes`, `kernel`, `deploy`, `destroy`, `clean` and `doctor`.
//!
//! One file a command. This crate alone prints and exits: results go to standard output through
//! [`output::Output`], all else to standard error. Exit codes: 0 done; 1 failed, with `error: ...` on
//! standard error; 2 asked wrongly; 130 (143) ended by Ctrl-C (SIGTERM), whatever was written before;
//! 141 the reader of standard output went away.

mod arguments;
mod clean;
mod data;
mod deploy;
mod destroy;
mod doctor;
mod evaluate;
mod failure;
mod generate;
mod interrupt;
mod kernel;
mod output;
mod plan;
mod predict;
mod profile;
mod progress;
mod recipe;
mod recipes;
mod reproduce;
mod resume;
mod run_name;
mod simulate;
mod summary;
mod sweep;
mod text;
mod train;
mod worker;
//! The program `eciton`.

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(bytes) = arguments.input_memory {
        eciton_input::budget::set_limit(bytes);
    }
    let mut output = Output::standard();
    if let Err(failure) = interrupt::ignore_file_limit() {
        return failure.report();
    }
    let done = match &arguments.command {
        Command::Plan(arguments) => plan::run(arguments, &mut output),
        Command::Profile(arguments) => profile::run(arguments, &mut output),
        Command::Train(arguments) if arguments.dry_run => plan::dry_run(arguments, (None, None), &mut output),
        Command::Train(arguments) => train::run(arguments, &mut output),
        Command::Resume(arguments) => resume::run(arguments, &mut output),
        Command::Simulate(arguments) => simulate::run(arguments, &mut output),
        Command::Reproduce(arguments) => reproduce::run(arguments, &mut output),
        Command::Sweep(arguments) => sweep::run(arguments, &mut output),
        Command::Worker(arguments) => worker::run(arguments, &mut output),
        Command::Predict(arguments) => predict::run(arguments, &mut output),
        Command::Eval(arguments) => evaluate::run(arguments, &mut output),
        Command::Generate(arguments) => generate::run(arguments, &mut output),
        Command::Data(command) => data::run(command, &mut output),
        Command::Recipes(arguments) => recipes::run(arguments, &mut output),
        Command::Kernel(command) => kernel::run(command, &mut output),
        Command::Deploy(arguments) => deploy::run(arguments, &mut output),
        Command::Destroy(arguments) => destroy::run(arguments, &mut output),
        Command::Clean(arguments) => clean::run(arguments, &mut output),
        Command::Doctor(arguments) => doctor::run(arguments, &mut output),
    };
    output::tell_notes();
    // What was printed before a failure is still wanted; the failure itself weighs more.
    let printed = output.finish();
    match done.and(printed) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
    ExitCode::from(eciton_cli::run(std::env::args_os()))
}

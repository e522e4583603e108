//! Command-line arguments of `eciton`.

use std::sync::OnceLock;

use clap::{Parser, Subcommand};

/// Arguments of `eciton`: options of all commands, and the command.
#[derive(Debug, Parser)]
#[command(
    name = "eciton",
    version = version(),
    about = "Train graph neural networks with WebAssembly kernels, locally or on cloud functions",
    after_help = "First steps:  eciton train        Train a graph network on Cora with defaults\n\
                  \x20             eciton data list    List the data sets\n\
                  \x20             eciton recipes      List recommended settings by data set\n\
                  \x20             eciton doctor       Report the capabilities of this machine",
    propagate_version = true,
    disable_help_subcommand = true,
    arg_required_else_help = true
)]
pub(crate) struct Arguments {
    /// Command to run.
    #[command(subcommand)]
    pub(crate) command: Command,

    /// Memory limit for reading data sets, such as 8GiB [default: half of the free memory]
    #[arg(long, global = true, value_name = "SIZE", value_parser = crate::data::size)]
    pub(crate) input_memory: Option<u64>,

    /// Log to standard error: -v data, kernels and files; -vv evaluations and cache accesses; -vvv
    /// each step. Without -v, RUST_LOG sets log levels by crate
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

/// Commands of the program, one variant each. The comment of a variant is its help text.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Train a model [default: a two-layer GCN on Cora]
    Train(Box<crate::train::Arguments>),
    /// Train a recipe with many settings (grid, random search, seeds, folds) and tabulate the
    /// results
    Sweep(crate::sweep::Arguments),
    /// Search for good settings for a data set with successive halving
    Tune(crate::tune::Arguments),
    /// Run one job of a sweep in a batch system, with an S3-compatible store
    Job(crate::job::Arguments),
    /// Report the work and memory of a run without training; takes the options of `train`
    Plan(Box<crate::plan::Arguments>),
    /// Estimate the time and cost of a run, sweep or prediction before it starts
    Cost(Box<crate::cost::Arguments>),
    /// Measure the time of each stage of a model, per call and per row, for `plan --measured`
    Profile(Box<crate::profile::Arguments>),
    /// Draw the micro-batches of a training without training, and print or write them
    Sample(Box<crate::sample::Arguments>),
    /// Resume an interrupted run from its last checkpoint
    Resume(crate::resume::Arguments),
    /// Simulate a run of any size on hosts and functions, and report its time and cost
    Simulate(Box<crate::simulate::Arguments>),
    /// Start a worker that connects to a run and executes its tasks
    Worker(crate::worker::Arguments),
    /// Start a host that shares the training of a run on another machine
    Host(crate::host::Arguments),
    /// Predict scores of vertices, or of vertex pairs, with a trained model
    Predict(crate::predict::Arguments),
    /// Evaluate the model of a run
    Eval(crate::evaluate::Arguments),
    /// Generate text with a trained language model
    Generate(crate::generate::Arguments),
    /// List, fetch, generate, convert and describe data sets
    #[command(subcommand)]
    Data(crate::data::Command),
    /// List recommended settings by data set and model, or print one recipe
    Recipes(crate::recipes::Arguments),
    /// List the keys of recipes with their values and defaults, or print a JSON Schema
    Keys(crate::keys::Arguments),
    /// List, create, build, check and inspect kernels
    #[command(subcommand)]
    Kernel(crate::kernel::Command),
    /// Create or update AWS functions for `train --executor lambda`
    Deploy(Box<crate::deploy::Arguments>),
    /// Remove a deployed stack and all its resources
    Destroy(crate::destroy::Arguments),
    /// Run workloads on a temporary stack, and compare the predicted with the billed cost
    #[command(subcommand)]
    Prove(Box<crate::prove::Command>),
    /// Remove the objects that a run left in its deployment's bucket
    Clean(crate::clean::Arguments),
    /// Report the capabilities of this machine and installation
    Doctor(crate::doctor::Arguments),
    /// Write a web page about a run: curves, confusion matrix, settings, memory, timeline, cost
    Report(crate::report::Arguments),
    /// List, show and compare runs
    #[command(subcommand)]
    Runs(crate::runs::Command),
    /// Generate shell completions
    Completions(crate::completions::Arguments),
    /// Generate manual pages
    Man(crate::completions::ManArguments),
}

/// Returns the version of the program with the numeric class of this processor. Processors of the
/// same numeric class compute bit-identical results.
fn version() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| {
        format!("{} (numeric class {})", env!("CARGO_PKG_VERSION"), eciton_tensor::simd::usual_class())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_grammar_is_sound() {
        Arguments::command().debug_assert();
    }
}

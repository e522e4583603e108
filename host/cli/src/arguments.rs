//! Command-line arguments of `eciton`.

use std::sync::OnceLock;

use clap::{Parser, Subcommand};

/// `eciton ...`
#[derive(Debug, Parser)]
#[command(
    name = "eciton",
    version = version(),
    about = "Trains graph networks whose tensor work runs in WebAssembly kernels",
    after_help = "First steps:  eciton train         a graph network on Cora, everything defaulted\n\
                  \x20             eciton data list     what can be trained on\n\
                  \x20             eciton recipes       what is usual for which model and data\n\
                  \x20             eciton doctor        what this machine offers",
    propagate_version = true,
    disable_help_subcommand = true,
    arg_required_else_help = true
)]
pub(crate) struct Arguments {
    /// Command to run.
    #[command(subcommand)]
    pub(crate) command: Command,

    /// Memory that reading data sets may take, such as 8GiB; by default half of what is free
    #[arg(long, global = true, value_name = "SIZE", value_parser = crate::data::size)]
    pub(crate) input_memory: Option<u64>,

    /// Say on standard error what is done: -v data, kernels and files, -vv more, -vvv each step; RUST_LOG has levels by
    /// crate
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Train a model; with nothing else said, a two-layer GCN on Cora
    Train(Box<crate::train::Arguments>),
    /// Many trainings of one recipe: grids, random choices, seeds, folds; and one table of them
    Sweep(crate::sweep::Arguments),
    /// Search for good settings of a data set: a sweep with successive halving over a space that suits its kind
    Tune(crate::tune::Arguments),
    /// Do one job of a sweep that a batch system launches: in any container, with any S3-compatible store
    Job(crate::job::Arguments),
    /// Report the work and memory of a training without running it; takes the options of `train`
    Plan(Box<crate::plan::Arguments>),
    /// Seconds and dollars of a training, sweep or prediction on functions and elsewhere, before it runs
    Cost(Box<crate::cost::Arguments>),
    /// Measure each stage of a model on this machine, per call and per row, for `plan --measured`
    Profile(Box<crate::profile::Arguments>),
    /// Go on with a run that was killed, from its last checkpoint
    Resume(crate::resume::Arguments),
    /// A training at any size on simulated hosts and functions: times, dollars, and what they buy
    Simulate(Box<crate::simulate::Arguments>),
    /// The tables of a published system beside what the simulation makes of them
    Reproduce(crate::reproduce::Arguments),
    /// Do a part of a run that listens for workers: this machine is one of them
    Worker(crate::worker::Arguments),
    /// Scores of every vertex, or of pairs of vertices, from a run folder
    Predict(crate::predict::Arguments),
    /// The accuracy of a run's model, from its run folder
    Eval(crate::evaluate::Arguments),
    /// Text from a run of a language model
    Generate(crate::generate::Arguments),
    /// Data sets: what there is, what is in one
    #[command(subcommand)]
    Data(crate::data::Command),
    /// The settings of each model for the usual data sets: list them, print one
    Recipes(crate::recipes::Arguments),
    /// Keys of recipes: their meaning, values and defaults, and a JSON Schema for editors
    Keys(crate::keys::Arguments),
    /// Kernels: what there is, build one, check one, look at one
    #[command(subcommand)]
    Kernel(crate::kernel::Command),
    /// Make functions at AWS for `train --executor lambda`, or change them
    Deploy(Box<crate::deploy::Arguments>),
    /// Take away a deployed stack and all that belongs to it
    Destroy(crate::destroy::Arguments),
    /// Deploy a stack, run workloads on it, remove it, and compare the predicted with the billed invoice
    #[command(subcommand)]
    Prove(Box<crate::prove::Command>),
    /// Remove what a run has left in its deployment's bucket
    Clean(crate::clean::Arguments),
    /// Report the capabilities of this machine and installation
    Doctor(crate::doctor::Arguments),
    /// One web page of a run: curves, confusion matrix, settings, memory, timeline, bill
    Report(crate::report::Arguments),
    /// Runs in a folder: list them, look at one, compare several
    #[command(subcommand)]
    Runs(crate::runs::Command),
    /// Completions for bash, zsh, fish and others
    Completions(crate::completions::Arguments),
    /// Manual pages
    Man(crate::completions::ManArguments),
}

/// Returns the version with the numeric class. Processors of one class compute the same bits.
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

//! The command `eciton simulate`, which simulates a training run on hosts and functions, or a
//! pipeline on workers.

mod lanes;
mod report;

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::ValueEnum;
use eciton_engine::Deadlines;
use eciton_exec::{Architecture, Prices};
use eciton_program::Profile;
use eciton_recipe::{Mode, Pipeline, WeightVersions};
use eciton_simulate::{
    Faults, Functions, Hosts, MAX_FUNCTIONS, NAMED, Named, Placement, Report, Settings, Shape, Signal,
    Transport, simulate,
};
use serde::Serialize;

use crate::failure::Failure;
use crate::output::Output;
use crate::text::{grouped, nearest};

const AFTER_HELP: &str = "\
A shape is a published experiment (reddit-small, reddit-large, amazon or\n\
friendster): a two-layer GCN with the published kind and number of hosts and\n\
number of functions. The other options override values of the shape.\n\n\
Times follow from a task profile. The built-in profile contains design values\n\
and estimates, not measurements of your machines. Prices and times come from\n\
infra/cloud.toml, or from the file that ECITON_CLOUD names.\n\
docs/explanation/simulation.md describes the model and its limitations.\n\n\
Examples:\n\
\x20 eciton simulate --shape reddit-small --functions 0\n\
\x20 eciton simulate --shape reddit-small --functions auto --placement shared\n\
\x20 eciton simulate --shape amazon --mode async --crash 0.01 --straggle 0.02\n\
\x20 eciton simulate --vertices 1e6 --edges 5e7 --features 100 --functions 50\n\
\x20 eciton simulate --pipeline gpt-1.3b --lanes 16 --lost 0.2 --hours 2";

/// Arguments of `eciton simulate`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// Published experiment: reddit-small, reddit-large, amazon or friendster [default:
    /// reddit-small]
    #[arg(long, value_name = "NAME", help_heading = "Shape")]
    shape: Option<String>,
    /// Number of vertices, such as 1e6 [default: by shape]
    #[arg(long, value_name = "N", value_parser = count, help_heading = "Shape")]
    vertices: Option<u64>,
    /// Number of directed edges [default: by shape]
    #[arg(long, value_name = "N", value_parser = count, help_heading = "Shape")]
    edges: Option<u64>,
    /// Number of features per vertex [default: by shape]
    #[arg(long, value_name = "N", help_heading = "Shape")]
    features: Option<u32>,
    /// Share of non-zero features; below 0.5, features are stored sparse [default: 1]
    #[arg(long, value_name = "SHARE", help_heading = "Shape")]
    stored: Option<f64>,
    /// Number of classes [default: by shape]
    #[arg(long, value_name = "N", help_heading = "Shape")]
    classes: Option<u32>,
    /// Width of every layer except the last, in columns [default: by shape]
    #[arg(long, value_name = "N", help_heading = "Shape")]
    hidden: Option<u32>,
    /// Number of layers [default: by shape]
    #[arg(long, value_name = "N", help_heading = "Shape")]
    layers: Option<u32>,

    /// Number of epochs
    #[arg(long, value_name = "N", default_value_t = 10, help_heading = "Run")]
    epochs: u32,
    /// Number of vertex intervals of the graph [default: twice the number of functions and cores,
    /// at most 4,096]
    #[arg(long, value_name = "N", help_heading = "Run")]
    intervals: Option<u32>,
    /// Synchronisation between vertex intervals
    #[arg(long, value_enum, default_value_t = ModeName::Pipe, help_heading = "Run")]
    mode: ModeName,
    /// Maximum number of epochs by which an interval may be ahead of the slowest one, with --mode
    /// async
    #[arg(long, value_name = "S", default_value_t = 0, help_heading = "Run")]
    staleness: u32,
    /// Weight version that the steps of an epoch read [default: stash with --mode async, else
    /// latest]
    #[arg(long, value_enum, value_name = "WHICH", help_heading = "Run")]
    weights: Option<WeightsName>,
    /// Number of final epochs that read only current rows, with --mode async
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Run")]
    synchronous_last: u32,
    /// Random seed
    #[arg(long, value_name = "SEED", default_value_t = 0, help_heading = "Run")]
    seed: u64,
    /// Task profile by `eciton train --profile` (JSON) [default: built-in profile]
    #[arg(long, value_name = "FILE", help_heading = "Run")]
    profile: Option<PathBuf>,
    /// Maximum random increase of every duration, as a share
    #[arg(long, value_name = "SHARE", default_value_t = 0.1, help_heading = "Run")]
    jitter: f64,

    /// Number of hosts, each with a partition of the intervals [default: by shape]
    #[arg(long, value_name = "N", help_heading = "Hosts")]
    hosts: Option<u32>,
    /// Machine type of the price list [default: by shape]
    #[arg(long, value_name = "NAME", help_heading = "Hosts")]
    machine: Option<String>,
    /// Number of cores per host [default: all cores of the machine type]
    #[arg(long, value_name = "N", help_heading = "Hosts")]
    cores: Option<u32>,
    /// Share of edges between different hosts [default: that of a random partition]
    #[arg(long, value_name = "SHARE", help_heading = "Hosts")]
    cut: Option<f64>,

    /// Number of concurrent functions of all hosts; 0: no functions; auto: set by the autotuner, up
    /// to --account [default: by shape]
    #[arg(long, value_name = "N|auto", value_parser = FunctionCount::parse, help_heading = "Functions")]
    functions: Option<FunctionCount>,
    /// Placement of tensor steps: on functions, or on idle cores first (shared)
    #[arg(long, value_enum, default_value_t = PlacementName::Functions, help_heading = "Functions")]
    placement: PlacementName,
    /// Transport of tasks: that of Eciton (auto), or connections from functions to hosts (direct)
    #[arg(long, value_enum, default_value_t = TransportName::Auto, help_heading = "Functions")]
    transport: TransportName,
    /// Memory of a function, in MB; 1,769 MB have one vCPU
    #[arg(long, value_name = "MB", default_value_t = 1769, help_heading = "Functions")]
    memory: u32,
    /// Processor architecture of the functions: x86_64 or arm64
    #[arg(long, value_name = "ARCH", default_value = "x86_64", help_heading = "Functions")]
    arch: Architecture,
    /// Preset of infra/cloud.toml with times and limits of functions
    #[arg(long, value_name = "NAME", default_value = eciton_recipe::cloud::DEFAULT_PRESET, help_heading = "Functions")]
    preset: String,
    /// Maximum number of concurrent functions of the account [default: by preset]
    #[arg(long, value_name = "N", help_heading = "Functions")]
    account: Option<u32>,
    /// Maximum number of new functions per 10 s [default: by preset]
    #[arg(long, value_name = "N", help_heading = "Functions")]
    burst: Option<u32>,
    /// Round-trip time between host and function, in ms [default: by preset]
    #[arg(long, value_name = "MS", help_heading = "Functions")]
    latency: Option<f64>,
    /// Time of a cold start, in ms [default: by preset]
    #[arg(long, value_name = "MS", help_heading = "Functions")]
    cold_start: Option<f64>,
    /// Maximum number of attempts per task
    #[arg(long, value_name = "N", default_value_t = 4, help_heading = "Functions")]
    attempts: u32,
    /// Minimum time after which an attempt is relaunched, in ms (see --deadline-ratio); 0: never
    #[arg(long, value_name = "MS", default_value_t = 500.0, help_heading = "Functions")]
    deadline: f64,
    /// Time after which an attempt is relaunched, as a multiple of its stage's average
    #[arg(long, value_name = "RATIO", default_value_t = 3.0, help_heading = "Functions")]
    deadline_ratio: f64,

    /// Probability that an invocation is slower by --straggle-factor
    #[arg(long, value_name = "P", default_value_t = 0.0, help_heading = "Faults")]
    straggle: f64,
    /// Slowdown of a straggling invocation
    #[arg(long, value_name = "TIMES", default_value_t = 10.0, help_heading = "Faults")]
    straggle_factor: f64,
    /// Probability that an invocation crashes
    #[arg(long, value_name = "P", default_value_t = 0.0, help_heading = "Faults")]
    crash: f64,
    /// Probability that the answer of an invocation is lost
    #[arg(long, value_name = "P", default_value_t = 0.0, help_heading = "Faults")]
    lose: f64,
    /// Probability that the answer of an invocation arrives twice
    #[arg(long, value_name = "P", default_value_t = 0.0, help_heading = "Faults")]
    double: f64,

    #[command(flatten)]
    lanes: lanes::Arguments,

    /// Print one JSON object; equal inputs give identical bytes
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// Value of `--mode`. The comment of a variant is its help text.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ModeName {
    /// Each stage waits for all intervals
    Sync,
    /// A gather waits for all intervals
    Pipe,
    /// A gather reads rows of earlier epochs if current rows are not available
    Async,
}

/// Value of `--weights`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum WeightsName {
    Latest,
    Stash,
    #[value(name = "2bw")]
    TwoBuffered,
}

/// Value of `--placement`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum PlacementName {
    Functions,
    Shared,
}

/// Value of `--transport`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum TransportName {
    Auto,
    Direct,
}

/// Value of `--functions`.
#[derive(Clone, Copy, Debug, PartialEq)]
enum FunctionCount {
    Fixed(u32),
    Auto,
}

impl FunctionCount {
    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            number => {
                number.parse().map(Self::Fixed).map_err(|_| "expected a whole number or auto".to_owned())
            }
        }
    }
}

/// Parses a whole number below 10^18. The exponent forms `1e6` and `3.6e9` are accepted as well.
fn count(text: &str) -> Result<u64, String> {
    if let Ok(count) = text.replace('_', "").parse() {
        return Ok(count);
    }
    let value: f64 = text.parse().map_err(|_| "expected a whole number, such as 1000000 or 1e6")?;
    if (0.0..1e18).contains(&value) && value.fract() == 0.0 {
        Ok(value as u64)
    } else {
        Err("expected a whole number from 0 to 10^18".to_owned())
    }
}

/// Converts the value of a flag from milliseconds to microseconds. The error message names
/// `option`, which is the flag.
fn us(option: &str, ms: f64) -> Result<u64, Failure> {
    if (0.0..=86_400_000.0).contains(&ms) {
        Ok((ms * 1e3).round() as u64)
    } else {
        Err(Failure::Usage(format!("{option} {ms}: expected 0 to 86,400,000 ms (one day)")))
    }
}

impl Arguments {
    /// Returns the published experiment that `--shape` names, or the default one.
    fn named(&self) -> Result<&'static Named, Failure> {
        let name = self.shape.as_deref().unwrap_or(NAMED[0].name);
        Named::find(name).ok_or_else(|| {
            let known = NAMED.iter().map(|named| named.name);
            let all = known.clone().collect::<Vec<_>>().join(", ");
            let near =
                nearest(name, known).map_or_else(String::new, |near| format!("; did you mean {near}?"));
            Failure::Usage(format!("--shape {name}: unknown shape; expected one of {all}{near}"))
        })
    }

    /// Returns the shape of the graph and the model. It is that of the published experiment, except
    /// for the values that flags override.
    fn shape(&self, named: &Named) -> Result<Shape, Failure> {
        let given = [self.vertices, self.edges].iter().any(Option::is_some)
            || [self.features, self.classes, self.hidden, self.layers].iter().any(Option::is_some);
        let mut shape = named.shape();
        if given {
            shape.name =
                if self.shape.is_some() { format!("{}, changed", shape.name) } else { "own".to_owned() };
        }
        if let Some(vertices) = self.vertices {
            shape.vertices = u32::try_from(vertices)
                .map_err(|_| Failure::Usage(format!("--vertices {vertices}: the maximum is {}", u32::MAX)))?;
        }
        shape.edges = self.edges.unwrap_or(shape.edges);
        shape.features = self.features.unwrap_or(shape.features);
        shape.stored = self.stored.unwrap_or(shape.stored);
        shape.classes = self.classes.unwrap_or(shape.classes);
        shape.hidden = self.hidden.unwrap_or(shape.hidden);
        shape.layers = self.layers.unwrap_or(shape.layers);
        Ok(shape)
    }

    /// Returns the settings of the simulation, and the name of the machine type of the hosts.
    fn settings(
        &self,
        named: &Named,
        prices: &Prices,
        preset: &eciton_recipe::Preset,
    ) -> Result<(Settings, String), Failure> {
        // Hosts and functions of a shape apply only to the graph of that shape.
        let own = self.shape.is_none() && (self.vertices.is_some() || self.edges.is_some());
        let machine_name = self.machine.as_deref().unwrap_or(named.machine);
        let machine = prices.machine(machine_name).map_err(|e| Failure::usage(&e))?;
        let hosts = self.hosts.unwrap_or(if own { 1 } else { named.hosts });
        let of_machine = Hosts::of_machine(hosts, machine_name, machine);
        let cores = self.cores.unwrap_or(of_machine.cores);
        let auto = self.functions == Some(FunctionCount::Auto);
        let count = match self.functions {
            Some(FunctionCount::Fixed(count)) => count,
            Some(FunctionCount::Auto) => self.account.unwrap_or(preset.concurrency),
            None if own => 0,
            None => hosts.saturating_mul(named.functions_each),
        };
        let workers = count.saturating_add(hosts.saturating_mul(cores));
        let intervals = self.intervals.unwrap_or(workers.saturating_mul(2).clamp(1, 4096));
        let mode = match self.mode {
            ModeName::Sync => Mode::Sync,
            ModeName::Pipe => Mode::Pipe,
            ModeName::Async => Mode::Async,
        };
        let weights = self.weights.map(|weights| match weights {
            WeightsName::Latest => WeightVersions::Latest,
            WeightsName::Stash => WeightVersions::Stash,
            WeightsName::TwoBuffered => WeightVersions::TwoBuffered,
        });
        let (staleness, synchronous_last) = (self.staleness, self.synchronous_last);
        let mut settings = Settings::new(intervals, self.epochs);
        settings.seed = self.seed;
        settings.pipeline = Pipeline { mode, staleness, weights, synchronous_last, ..Pipeline::default() };
        settings.attempts = self.attempts;
        settings.jitter = self.jitter;
        let floor_us = us("--deadline", self.deadline)?;
        settings.deadlines = (floor_us > 0).then(|| {
            let maximum_us = floor_us.max(Deadlines::default().maximum_us);
            Deadlines { floor_us, ratio: self.deadline_ratio, maximum_us }
        });
        settings.hosts = Hosts { cores, cut: self.cut, ..of_machine };
        settings.functions = Functions {
            count,
            auto: auto.then_some(Signal::Queue),
            placement: match self.placement {
                PlacementName::Functions => Placement::Functions,
                PlacementName::Shared => Placement::Shared,
            },
            transport: match self.transport {
                TransportName::Auto => Transport::Auto,
                TransportName::Direct => Transport::Direct,
            },
            memory_mb: self.memory,
            processor: self.arch.into(),
        };
        settings.cloud = eciton_simulate::Cloud::from(preset);
        settings.cloud.concurrency = self.account.unwrap_or(preset.concurrency);
        let burst = self.burst.unwrap_or(preset.environments_per_10_s);
        (settings.cloud.burst, settings.cloud.burst_per_10_s) = (burst, burst);
        settings.cloud.latency_us = us("--latency", self.latency.unwrap_or(preset.invoke_ms))?;
        settings.cloud.cold_us = us("--cold-start", self.cold_start.unwrap_or(preset.cold_start_ms))?;
        settings.faults = Faults {
            straggle: self.straggle,
            straggle_factor: self.straggle_factor,
            crash: self.crash,
            lose: self.lose,
            double: self.double,
            bursts: None,
        };
        Ok((settings, machine_name.to_owned()))
    }
}

/// Reads the task profile at `path`. Without a path, returns the built-in profile.
fn read_profile(path: Option<&Path>) -> Result<Profile, Failure> {
    let Some(path) = path else { return Ok(Profile::default()) };
    let shown = path.display();
    let failed = |what: String| Failure::Failed(format!("{shown}: {what}"));
    let most = eciton_program::profile::MAX_PROFILE_BYTES as u64;
    let text = eciton_input::file::read_text(path, most)
        .map_err(|e| failed(format!("the task profile cannot be read: {e}")))?;
    let profile: Profile =
        serde_json::from_str(&text).map_err(|e| failed(format!("not a task profile: {e}")))?;
    profile.check().map_err(|e| failed(e.to_string()))?;
    Ok(profile)
}

/// Result of the simulation of a training run, which `eciton simulate --json` prints.
#[derive(Serialize)]
struct Line<'a> {
    event: &'static str,
    shape: &'a Shape,
    machine: &'a str,
    hosts: u32,
    cores: u32,
    intervals: u32,
    functions_allowed: u32,
    auto: bool,
    epochs: u32,
    seed: u64,
    profile: &'a str,
    prices: String,
    #[serde(flatten)]
    report: &'a Report,
}

/// Simulates a training run or a pipeline, as the arguments select, and prints the report.
pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    if let Some(model) = &arguments.lanes.pipeline {
        let Arguments { seed, jitter, machine, json, lanes, .. } = arguments;
        return lanes::run(model, lanes, (*seed, *jitter, machine.as_deref(), *json), output);
    }
    let named = arguments.named()?;
    let prices = eciton_exec::prices()?;
    let shape = arguments.shape(named)?;
    let cloud = eciton_exec::cloud()?;
    let preset = cloud.preset(&arguments.preset).map_err(|error| Failure::usage(&error))?;
    let (settings, machine) = arguments.settings(named, &prices, preset)?;
    if settings.functions.count > MAX_FUNCTIONS {
        return Err(Failure::Usage(format!("--functions: the maximum is {}", grouped(MAX_FUNCTIONS.into()))));
    }
    let profile = read_profile(arguments.profile.as_deref())?;
    let begun = Instant::now();
    let report = simulate(&shape, &profile, &prices, &settings).map_err(|e| match e {
        eciton_simulate::Error::Failed { .. } | eciton_simulate::Error::Stalled { .. } => {
            Failure::Failed(e.to_string())
        }
        other => Failure::usage(&other),
    })?;
    let took = begun.elapsed().as_secs_f64();
    if arguments.json {
        output.json(&Line {
            event: "simulation",
            shape: &shape,
            machine: &machine,
            hosts: settings.hosts.count,
            cores: settings.hosts.cores,
            intervals: settings.intervals,
            functions_allowed: settings.functions.count,
            auto: settings.functions.auto.is_some(),
            epochs: settings.epochs,
            seed: settings.seed,
            profile: &profile.source,
            prices: format!("{}, {}", prices.date, prices.region),
            report: &report,
        });
    } else {
        report::print(&shape, &settings, &machine, &profile, &prices, &report, took, output);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn functions_are_a_number_or_auto() {
        assert_eq!(FunctionCount::parse("auto"), Ok(FunctionCount::Auto));
        assert_eq!(FunctionCount::parse("12"), Ok(FunctionCount::Fixed(12)));
        assert!(["", "-1", "many", "1.5"].into_iter().all(|bad| FunctionCount::parse(bad).is_err()));
    }

    #[test]
    fn counts_may_have_exponents() {
        assert_eq!([count("12"), count("3.6e9"), count("1_000")], [Ok(12), Ok(3_600_000_000), Ok(1000)]);
        for bad in ["", "x", "-1", "1.5", "1e99", "nan"] {
            assert!(count(bad).is_err(), "{bad}");
        }
    }
}

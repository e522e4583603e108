//! Workloads of a proof, and predictions of their usage and cost.

use std::fmt::Write as _;
use std::path::Path;

use eciton_planner::cost::{self, Functions, Line, Requests, Usage, Work};
use eciton_recipe::{Config, FunctionCount, HostPlace};
use eciton_train::cost::{Forecast, Trials};

use super::{Aws, proof};
use crate::cost::Book;
use crate::failure::Failure;
use crate::recipe::{self, Request};
use crate::sweep;

/// Number of seeds, learning rates and dropout probabilities of the workload W2, which has 10 x 4 x
/// 5 = 200 trainings (docs/explanation/when-functions-pay.md).
const FULL: (u32, &str, &str) = (10, "[0.001, 0.01, 0.05, 0.1]", "[0.2, 0.35, 0.5, 0.6, 0.7]");
/// Number of seeds, learning rates and dropout probabilities of the workload W2 with `--quick`,
/// which has 8 trainings.
const QUICK: (u32, &str, &str) = (2, "[0.01, 0.05]", "[0.35, 0.5]");
/// Name of the file with the sweep of the workload W2, in the folder of a proof.
pub(super) const W2_FILE: &str = "w2.toml";

/// A workload of a proof, which consists of trainings. Each training is one function invocation.
pub(super) struct Workload {
    pub(super) name: &'static str,
    /// Short description of the workload for the proof file.
    about: &'static str,
    /// Configuration of each training of the workload.
    pub(super) configs: Vec<Config>,
    /// True if the host also fetches the predictions that each training writes.
    pub(super) predictions: bool,
}

impl Workload {
    /// Returns the description of the workload for the proof file.
    pub(super) fn describe(&self, recipe: &str) -> proof::Workload {
        let (name, about) = (self.name.to_owned(), self.about.to_owned());
        proof::Workload { name, about, trainings: self.configs.len(), recipe: recipe.to_owned() }
    }
}

/// Returns the text of the sweep file of W2.
pub(super) fn w2(arguments: &Aws) -> Result<String, Failure> {
    let (seeds, rates, dropouts) = if arguments.quick { QUICK } else { FULL };
    // The file lies in another folder than a recipe of the user's.
    let recipe = match Path::new(&arguments.recipe).canonicalize() {
        Ok(path) if arguments.recipe.ends_with(".toml") => path.display().to_string(),
        _ => arguments.recipe.clone(),
    };
    let data = arguments.data.as_ref().map(|data| std::path::absolute(data).unwrap_or_else(|_| data.into()));
    let text = |name: &str, value: &str| format!("{name} = {}\n", toml::Value::String(value.to_owned()));
    let mut file = text("recipe", &recipe);
    if let Some(data) = data {
        file.push_str(&text("data", &data.display().to_string()));
    }
    let _ =
        writeln!(file, "seeds = {seeds}\n[grid]\n\"optimiser.lr\" = {rates}\n\"model.dropout\" = {dropouts}");
    Ok(file)
}

/// Returns the workloads W1, a single training, and W2, a sweep. `file` is the path of the sweep
/// file of W2.
///
/// # Errors
/// Returns a failure if the recipe or a setting is invalid.
pub(super) fn workloads(arguments: &Aws, file: &Path) -> Result<[Workload; 2], Failure> {
    let (what, model) = match arguments.recipe.split_once('/') {
        _ if arguments.recipe.ends_with(".toml") => (arguments.recipe.clone(), None),
        Some((set, model)) => (set.to_owned(), Some(model.to_owned())),
        None => {
            let reason = "expected DATASET/MODEL (see `eciton recipes`), or a recipe file (.toml)";
            return Err(Failure::Usage(format!("--recipe {}: {reason}", arguments.recipe)));
        }
    };
    let data = arguments.data.iter().map(|data| format!("data.source={data}"));
    let one = Request::with(Some(what), model, data.chain(arguments.set.iter().cloned()))?;
    let sweep = sweep::Arguments::from_file(file.to_owned(), arguments.set.clone());
    let about = "one training, triggered by an event";
    let w1 = Workload { name: "W1", about, configs: vec![recipe::configure(&one)?], predictions: true };
    let configs = sweep::read(&sweep)?.configs;
    Ok([w1, Workload { name: "W2", about: "a sweep of trainings", configs, predictions: false }])
}

/// A workload on functions of one memory size, with the forecast of its work.
pub(super) struct Planned {
    /// Index of the workload in the list of the proof's workloads.
    pub(super) workload: usize,
    pub(super) memory_mb: u32,
    /// Configuration of the functions that run the workload.
    pub(super) place: Config,
    pub(super) forecast: Forecast,
    /// Work of the workload that runs before on the same functions. Function instances are then
    /// already warm. `None` for the first workload of a memory size.
    before: Option<Work>,
}

impl Planned {
    /// Forecasts the work of a workload from a short pilot training in this process.
    pub(super) fn new(
        (number, workload): (usize, &Workload),
        mut place: Config,
        (memory_mb, before): (u32, Option<Work>),
    ) -> Result<Self, Failure> {
        place.executor.memory_mb = memory_mb;
        let epochs = workload.configs.iter().map(|config| config.run.epochs).max().unwrap_or_default();
        let rungs = [(epochs, workload.configs.len())];
        let configs = &workload.configs;
        let (place_of, predictions) = (&place, workload.predictions);
        let trials = Trials { configs, seeds: 1, rungs: &rungs, place: place_of, predictions };
        let forecast = eciton_train::cost::train(trials, true)?;
        Ok(Self { workload: number, memory_mb, place, forecast, before })
    }

    /// Returns the processor, the memory size and the number of the functions. The number is
    /// limited by `concurrency`.
    pub(super) fn functions(&self, concurrency: u32) -> Functions {
        let asked = match self.place.executor.functions {
            FunctionCount::Fixed(count) => count.max(1),
            FunctionCount::Auto => u32::MAX,
        };
        let processor = self.place.emulator.architecture.unwrap_or(eciton_recipe::Processor::X86_64);
        Functions { processor, memory_mb: self.memory_mb, count: asked.min(concurrency.max(1)) }
    }

    /// Returns the predicted usage of the workload, and the predicted invoice lines with the prices
    /// in `book`.
    pub(super) fn predicted(&self, concurrency: u32, host: HostPlace, book: &Book) -> (Usage, Vec<Line>) {
        let functions = self.functions(concurrency);
        let work = &self.forecast.work;
        let used = match &self.before {
            None => cost::usage(work, functions, &book.preset),
            // Function instances of the previous workload are warm and have its files.
            Some(before) => {
                let phases = before.phases.iter().chain(&work.phases).cloned().collect();
                let both = Work { phases, host: before.host.and(work.host), ..work.clone() };
                let [both, before] = [&both, before].map(|work| cost::usage(work, functions, &book.preset));
                since(&both, &before)
            }
        };
        let lines = cost::lines(&used, (functions, host, false), &book.prices, (work.times, work.sizes));
        (used, lines)
    }
}

/// Returns the usage since an earlier point in time, as the difference between two cumulative
/// values.
fn since(all: &Usage, before: &Usage) -> Usage {
    Usage {
        seconds: all.seconds - before.seconds,
        invocations: all.invocations - before.invocations,
        cold_starts: all.cold_starts - before.cold_starts,
        billed_ms: all.billed_ms - before.billed_ms,
        init_ms: all.init_ms - before.init_ms,
        gb_seconds: all.gb_seconds - before.gb_seconds,
        bytes_to_functions: all.bytes_to_functions - before.bytes_to_functions,
        bytes_from_functions: all.bytes_from_functions - before.bytes_from_functions,
        store: Requests {
            puts: all.store.puts - before.store.puts,
            gets: all.store.gets - before.store.gets,
            heads: all.store.heads - before.store.heads,
            bytes_in: all.store.bytes_in - before.store.bytes_in,
            bytes_out: all.store.bytes_out - before.store.bytes_out,
        },
        bytes_to_host: all.bytes_to_host - before.bytes_to_host,
    }
}

/// Returns the total cost of the invoice lines, in US dollars.
pub(super) fn dollars(lines: &[Line]) -> f64 {
    lines.iter().map(|line| line.usd).sum()
}

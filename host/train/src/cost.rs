//! Forecast of what a training or prediction in cloud functions will use: invocations, processor
//! time, requests and bytes. Processor time comes from a pilot (short trainings on this machine),
//! or is estimated from the plan.
//!
//! The jobs are created as in a real run, so their events and files have the real sizes. Kernels
//! are in the functions' package and are not transferred. A pilot calls [`perform`], the code of
//! the function, in this process.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;

use eciton_exec::trainers::REQUESTS;
use eciton_exec::{Architecture, Scratch};
use eciton_planner::cost::{Origin, Requests, Task, Work};
use eciton_recipe::{Config, Data, Every};
use eciton_transport::{Counts, put_requests};
use serde::Serialize;

use crate::dataset_cache::Published;
use crate::error::{Error, Result};
use crate::job::{Carried, Done, Files, Job, MAX_INLINE_BYTES, Part, Performed, Place, perform};
use crate::kernels::CachePolicy;
use crate::options::Options;
use crate::plan::{Plan, plan_on};
use crate::sweep::{budget, class};

/// Assumed speed of one core, in floating-point operations per second, for forecasts without a
/// pilot.
const FLOPS: f64 = 20e9;
/// Assumed duration of an epoch in seconds, in addition to its floating-point operations.
const EPOCH_S: f64 = 0.000_1;
/// Assumed processor seconds of a job in addition to its epochs. The first job of a process takes
/// longer.
const START_S: f64 = 0.02;
/// Assumed speed at which one core reads a data set, in bytes per second.
const READ_BYTES: f64 = 50e6;
/// Assumed size in bytes of the records in a run folder, and of the report line of each epoch.
const RECORD_BYTES: (u64, u64) = (20_000, 400);
/// Processor seconds that a function needs for one request to the object store, for the signature,
/// the connection and copies.
const REQUEST_S: f64 = 0.000_5;
/// Numbers of epochs of the two trainings in a pilot. The difference between their durations gives
/// the duration of an epoch.
const EPOCHS: [u32; 2] = [2, 6];
/// Minimum difference between the durations of a pilot's two trainings, in processor seconds. It
/// makes the error of the clock negligible.
const APART_S: f64 = 0.2;
/// Number of repetitions of each measurement, of which the shortest counts.
const REPEATS: u32 = 3;
/// Additional size of a job's event in bytes if the job continues a training. The event then names
/// the checkpoints and their object.
const CONTINUED_BYTES: u64 = 300;

/// Description of the trainings in cloud functions for which [`train`] makes a forecast.
#[derive(Debug, Clone, Copy)]
pub struct Trials<'a> {
    /// Configuration of each training. Each training is a trial of a sweep, or the only one.
    pub configs: &'a [Config],
    /// Number of seeds per training.
    pub seeds: u32,
    /// Rungs of successive halving, each with its last epoch and its number of trainings. Without
    /// successive halving there is one rung.
    pub rungs: &'a [(u32, usize)],
    /// Configuration whose executor settings describe the cloud functions.
    pub place: &'a Config,
    /// True if the host downloads the predictions of each training.
    pub predictions: bool,
}

/// Measurements of a pilot, which consists of two short trainings of one configuration in this
/// process.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Pilot {
    /// Index in [`Trials::configs`] of the configuration that was measured.
    pub trial: usize,
    /// Numbers of epochs of the two trainings.
    pub epochs: [u32; 2],
    /// Processor seconds of a job in addition to its epochs.
    pub start_s: f64,
    /// Processor seconds per epoch, including the evaluation.
    pub epoch_s: f64,
    /// Additional processor seconds of the first job in a process.
    pub first_s: f64,
    /// Size of the answer in bytes: without epoch reports, and additionally for each epoch.
    pub answer_bytes: [f64; 2],
    /// Size in bytes of the predictions, which are a separate object in the store.
    pub predictions_bytes: f64,
}

/// Forecast for a training or a prediction in cloud functions, with the measurements that it is
/// based on.
#[derive(Debug, Clone, Serialize)]
pub struct Forecast {
    /// Forecast invocations, processor seconds, requests and bytes of the functions and the host.
    pub work: Work,
    /// Floating-point operations of all training epochs, without evaluations.
    pub flops: f64,
    /// Measurements of the pilots. Empty if the forecast was made without a pilot.
    pub pilots: Vec<Pilot>,
    /// Notes for the user about the limits of the forecast, one sentence each.
    pub notes: Vec<String>,
}

fn in_temporary(source: std::io::Error) -> Error {
    Error::Read { path: std::env::temp_dir(), source }
}

/// Returns a key for the settings that determine the duration of an epoch. Trainings with equal
/// keys differ only in seeds, optimiser and number of epochs.
fn shape(config: &Config) -> Result<String> {
    let mut config = config.clone();
    (config.run.seed, config.run.epochs) = (0, 1);
    config.data.split_seed = 0;
    config.optimiser = Config::default().optimiser;
    Ok(config.to_toml()?)
}

/// A group of trainings with equal [`shape`], whose epochs all have the same duration.
struct Shape {
    plan: Plan,
    fit: Pilot,
}

/// A forecast in progress, with the configuration of the functions and a cache of the data set.
struct Study<'a> {
    place: &'a Config,
    published: Published,
    /// Additional processor seconds of the first job in a process, as measured by pilots.
    first_s: Cell<f64>,
}

impl<'a> Study<'a> {
    fn new(place: &'a Config) -> Self {
        Self { place, published: Published::default(), first_s: Cell::new(0.0) }
    }

    /// Plans a training as a function would run it, with the function's number of threads and
    /// memory.
    fn plan(&self, config: &Config) -> Result<Plan> {
        let mut config = config.clone();
        config.run_here();
        config.run.threads = Some(eciton_recipe::cloud::threads(self.place.executor.memory_mb));
        let options = Options { cache: CachePolicy::User, ..Options::default() };
        plan_on(self.published.dataset(&config.data)?, &config, &options)
    }

    /// Runs a job in this process. Returns its processor seconds, and the sizes in bytes of its
    /// answer and its predictions.
    fn time(
        &self,
        (job, stored): (&Job, &BTreeMap<String, Vec<u8>>),
        place: &Place,
    ) -> Result<(f64, f64, f64)> {
        let mut fetch = |key: &str| stored.get(key).cloned().ok_or_else(|| format!("no object `{key}`"));
        let no_clock = || Error::Job("--pilot: this system does not report processor times".to_owned());
        let begun = eciton_input::processor::time().ok_or_else(no_clock)?;
        let Performed { bytes, predictions, .. } = perform(job, place, None, &mut fetch)?;
        let ended = eciton_input::processor::time().ok_or_else(no_clock)?;
        let apart = predictions.map_or(0, |bytes| bytes.len());
        Ok((ended.saturating_sub(begun).as_secs_f64(), bytes.len() as f64, apart as f64))
    }

    /// Measures two jobs of configuration `trial` with different numbers of epochs. `make` creates
    /// a job for a number of epochs, and `epochs` is the number of epochs of the real training.
    fn pilot(
        &self,
        make: &dyn Fn(u32, &mut Files) -> Result<Job>,
        (trial, epochs): (usize, u32),
    ) -> Result<Pilot> {
        let scratch = Scratch::new().map_err(in_temporary)?;
        let job = |epochs: u32| {
            let mut files = Files::default();
            let job = make(epochs, &mut files)?;
            let stored = files.take().map(|file| (file.carried.key, file.bytes)).collect::<BTreeMap<_, _>>();
            Ok::<_, Error>((job, stored))
        };
        let [least, mut most] = [EPOCHS[0].min(epochs), EPOCHS[1].min(epochs)];
        let (short, stored) = job(least)?;
        // The first job of a process also allocates memory and starts the kernel runtime. Later
        // pilots of this process do not measure this cost, so they count at least that of the first
        // pilot.
        let folder = scratch.path("process").map_err(in_temporary)?;
        let memory_bytes = u64::from(self.place.executor.memory_mb) << 20;
        let threads = Some(eciton_recipe::cloud::threads(self.place.executor.memory_mb));
        let warm = Place { folder, memory_bytes, threads, code: None, published: Published::default() };
        let (first_job_s, _, predictions_bytes) = self.time((&short, &stored), &warm)?;
        let many = |job: &Job| {
            let mut best = (f64::INFINITY, 0.0);
            for _ in 0..REPEATS {
                let (seconds, bytes, _) = self.time((job, &stored), &warm)?;
                best = (best.0.min(seconds), bytes);
            }
            Ok::<_, Error>(best)
        };
        let (short_s, short_bytes) = many(&short)?;
        let (mut long_s, mut long_bytes) = many(&job(most)?.0)?;
        if most > least && long_s - short_s < APART_S && most < epochs {
            let each = ((long_s - short_s) / f64::from(most - least)).max(1e-6);
            most = (least + (APART_S / each).ceil().min(1e6) as u32).min(epochs);
            (long_s, long_bytes) = many(&job(most)?.0)?;
        }
        let first_s = (first_job_s - short_s).max(self.first_s.get());
        self.first_s.set(first_s);
        let between = f64::from((most - least).max(1));
        let epoch_s = ((long_s - short_s) / between).max(0.0);
        let epoch_bytes = ((long_bytes - short_bytes) / between).max(0.0);
        Ok(Pilot {
            trial,
            epochs: [least, most],
            start_s: (long_s - epoch_s * f64::from(most)).max(0.0),
            epoch_s,
            first_s,
            answer_bytes: [(long_bytes - epoch_bytes * f64::from(most)).max(0.0), epoch_bytes],
            predictions_bytes,
        })
    }
}

/// Estimates the measurements of a training from its plan, for a forecast without a pilot.
fn assumed(plan: &Plan, config: &Config, data_bytes: u64) -> Pilot {
    // An evaluation is a forward pass, which has a third of the operations of a training step.
    let evaluations = match config.run.eval_every {
        // The number of steps of an epoch is not known here.
        Every::Epochs(0) | Every::Steps(_) | Every::Seconds(_) => 0.0,
        Every::Epochs(every) => 1.0 / f64::from(every),
    };
    let weights: u64 =
        plan.layers.iter().map(|layer| u64::from(layer.widths.0) * u64::from(layer.widths.1)).sum();
    let classes = plan.layers.last().map_or(1, |layer| u64::from(layer.widths.1));
    let answer = 4 * weights + RECORD_BYTES.0;
    Pilot {
        trial: 0,
        epochs: [0, 0],
        start_s: START_S,
        epoch_s: plan.epoch_flops * (1.0 + evaluations / 3.0) / FLOPS + EPOCH_S,
        first_s: data_bytes as f64 / READ_BYTES,
        answer_bytes: [answer as f64, RECORD_BYTES.1 as f64],
        predictions_bytes: (u64::from(plan.vertices) * (4 * classes + 8)) as f64,
    }
}

/// Interpolates linearly between two pilots. `flops` are the operations per epoch of the training
/// for which an estimate is returned, and each pilot is given with its operations per epoch.
fn between(flops: f64, [(low, cheap), (high, dear)]: [(f64, &Pilot); 2]) -> Pilot {
    let share = if high > low { ((flops - low) / (high - low)).clamp(0.0, 1.0) } else { 0.0 };
    let mix = |a: f64, b: f64| a + (b - a) * share;
    let bytes = |at: fn(&Pilot) -> f64| mix(at(cheap), at(dear));
    Pilot {
        start_s: mix(cheap.start_s, dear.start_s),
        epoch_s: mix(cheap.epoch_s, dear.epoch_s),
        first_s: mix(cheap.first_s, dear.first_s),
        answer_bytes: [bytes(|one| one.answer_bytes[0]), bytes(|one| one.answer_bytes[1])],
        predictions_bytes: bytes(|one| one.predictions_bytes),
        ..*cheap
    }
}

/// Forecasts the work of trainings in cloud functions, with one invocation per training. If `pilot`
/// is true, short trainings of the cheapest and the most expensive configuration run in this
/// process. Otherwise nothing is trained.
///
/// # Errors
/// Returns an error if data or kernels cannot be read, or if a pilot fails.
pub fn train(trials: Trials<'_>, pilot: bool) -> Result<Forecast> {
    let study = Study::new(trials.place);
    // Without a deployment, the numeric class is that of the functions' processor architecture.
    let pinned = trials.place.emulator.architecture.map_or(Architecture::X86_64, Architecture::from);
    let class = class(trials.place).or_else(|| Some(pinned.numeric_class().to_owned()));
    let mut files = Files::default();
    let mut jobs = Vec::with_capacity(trials.configs.len());
    let (limit, modelled) = time_limit(trials.place)?;
    for config in trials.configs {
        let mut job = Job::train(config, (trials.seeds, Part::default()), class.as_deref(), &mut files)?;
        budget(&mut job, limit, modelled);
        jobs.push(job);
    }
    let sizes: BTreeMap<String, u64> =
        files.take().map(|file| (file.carried.key, file.bytes.len() as u64)).collect();
    let bytes_of = |job: &Job| job.files.values().filter_map(|file| sizes.get(&file.key)).sum::<u64>();
    let (mut shapes, mut shape_of) = (Vec::<Shape>::new(), Vec::new());
    let mut names = BTreeMap::new();
    for (trial, (config, job)) in trials.configs.iter().zip(&jobs).enumerate() {
        let name = shape(config)?;
        let at = match names.get(&name) {
            Some(&at) => at,
            None => {
                let plan = study.plan(config)?;
                let fit = Pilot { trial, ..assumed(&plan, config, bytes_of(job)) };
                shapes.push(Shape { plan, fit });
                names.insert(name, shapes.len() - 1);
                shapes.len() - 1
            }
        };
        shape_of.push(at);
    }
    let mut pilots = Vec::new();
    if pilot {
        let by_flops = |one: &&Shape, other: &&Shape| one.plan.epoch_flops.total_cmp(&other.plan.epoch_flops);
        let ends = [shapes.iter().min_by(by_flops), shapes.iter().max_by(by_flops)];
        let mut measured: Vec<(f64, Pilot)> = Vec::new();
        for shape in ends.into_iter().flatten() {
            if measured.iter().any(|(_, known)| known.trial == shape.fit.trial) {
                continue;
            }
            let Some(config) = trials.configs.get(shape.fit.trial) else { continue };
            let make = |epochs: u32, files: &mut Files| {
                let mut config = config.clone();
                config.run.epochs = epochs;
                Job::train(&config, (1, Part::default()), None, files)
            };
            let found = study.pilot(&make, (shape.fit.trial, config.run.epochs))?;
            measured.push((shape.plan.epoch_flops, found));
        }
        if let (Some(cheap), Some(dear)) = (measured.first(), measured.last()) {
            for shape in &mut shapes {
                shape.fit = between(shape.plan.epoch_flops, [(cheap.0, &cheap.1), (dear.0, &dear.1)]);
            }
        }
        pilots = measured.into_iter().map(|(_, found)| found).collect();
    }
    let mut notes = Vec::new();
    if trials.configs.iter().any(|config| config.run.patience.is_some() || config.run.until.is_some()) {
        notes.push("early stopping may end trainings sooner, but the estimate counts all epochs".to_owned());
    }
    // A function process caches the files of its last job.
    let objects = |job: &Job| job.files.values().map(|file: &Carried| file.key.clone()).collect::<Vec<_>>();
    let shared = jobs.windows(2).all(|pair| matches!(pair, [a, b] if objects(a) == objects(b)));
    if !shared {
        notes.push("the trainings read different files; the estimate counts a fetch by each".to_owned());
    }
    if trials.rungs.len() > 1 {
        notes.push("the choices that continue are unknown; the estimate uses the first ones".to_owned());
    }
    let host = sizes.values().fold(Requests::default(), |host, bytes| host.and(uploaded(*bytes)));
    let mut work = Work {
        phases: Vec::new(),
        host,
        times: if pilot { Origin::Modelled } else { Origin::Assumed },
        sizes: if pilot { Origin::Modelled } else { Origin::Assumed },
    };
    let (mut flops, mut before) = (0.0, 0);
    for (number, &(last, count)) in trials.rungs.iter().enumerate() {
        let mut phase = Vec::with_capacity(count);
        for (at, ((config, job), shape)) in
            trials.configs.iter().zip(&jobs).zip(&shape_of).enumerate().take(count)
        {
            let Some(Shape { plan, fit }) = shapes.get(*shape) else { continue };
            let epochs =
                f64::from(last.min(config.run.epochs).saturating_sub(before)) * f64::from(trials.seeds);
            flops += plan.epoch_flops * epochs;
            let answer = fit.answer_bytes[0] * f64::from(trials.seeds) + fit.answer_bytes[1] * epochs;
            let predictions = (fit.predictions_bytes * f64::from(trials.seeds)) as u64;
            let answers = [answer as u64, predictions];
            let mut task = of_job(job, answers, (shared, &sizes), at)?;
            task.core_s += fit.start_s + fit.epoch_s * epochs;
            task.first_core_s += fit.first_s;
            if number > 0 {
                // The job receives checkpoints from the host and returns new ones.
                let bytes = answer as u64;
                let moved = Requests { heads: 1, gets: 1, bytes_out: bytes, ..Requests::default() };
                task.store = task.store.and(moved);
                task.event_bytes += CONTINUED_BYTES;
                work.host = work.host.and(uploaded(bytes));
            }
            work.host = work.host.and(fetched(answers, trials.predictions));
            phase.push(task);
        }
        before = last;
        work.phases.push(phase);
    }
    Ok(Forecast { work, flops, pilots, notes })
}

/// Returns the time limit of the functions. For emulated functions, also returns their share of a
/// processor and their modelled waiting time.
fn time_limit(place: &Config) -> Result<(Duration, Option<(f64, Duration)>)> {
    let executor = &place.executor;
    let limit = Duration::from_secs(u64::from(executor.timeout_s));
    if !executor.kind.is_emulated() {
        return Ok((limit, None));
    }
    let cloud = eciton_exec::cloud()?;
    let preset = cloud.preset(&place.emulator.cloud)?;
    let processor = place.emulator.architecture.unwrap_or(eciton_recipe::Processor::X86_64);
    let waits = Duration::from_secs_f64(preset.first_byte_ms / 1e3) * REQUESTS;
    Ok((limit, Some((preset.cores(processor, executor.memory_mb), waits))))
}

/// Returns the requests that the host makes to upload an object of `bytes` bytes, if the store does
/// not have it yet.
fn uploaded(bytes: u64) -> Requests {
    Requests { heads: 1, puts: put_requests(bytes), bytes_in: bytes, ..Requests::default() }
}

/// Returns the requests that the host makes to download an answer and, if requested, its
/// predictions. The arguments are their sizes in bytes. A small answer is part of the reply and
/// needs no request.
fn fetched([answer, apart]: [u64; 2], predictions: bool) -> Requests {
    let get = |bytes: u64| Requests { gets: 1, bytes_out: bytes, ..Requests::default() };
    let large = if is_inline(answer) { Requests::default() } else { get(answer) };
    large.and(if predictions { get(apart) } else { Requests::default() })
}

/// Returns true if an answer of `answer` bytes is small enough to be sent in the function's reply.
fn is_inline(answer: u64) -> bool {
    answer <= MAX_INLINE_BYTES as u64
}

/// Returns the requests, bytes and request-related processor time of one job. The first argument
/// pair has the sizes of its answer and predictions in bytes.
fn of_job(
    job: &Job,
    [answer, apart]: [u64; 2],
    (shared, sizes): (bool, &BTreeMap<String, u64>),
    before: usize,
) -> Result<Task> {
    let looked = Requests { heads: 1, ..Requests::default() };
    let written = |bytes: u64| match bytes {
        0 => Requests::default(),
        bytes => Requests { puts: put_requests(bytes), bytes_in: bytes, ..Requests::default() },
    };
    let mut store = looked.and(written(answer)).and(written(apart));
    let mut files = Requests::default();
    for bytes in job.files.values().filter_map(|file| sizes.get(&file.key)) {
        files = files.and(Requests { heads: 1, gets: 1, bytes_out: *bytes, ..Requests::default() });
    }
    let mut first_store = files;
    if !shared {
        (store, first_store) = (store.and(files), Requests::default());
    }
    let to_text = |error: serde_json::Error| Error::Internal(error.to_string());
    let event_bytes = serde_json::to_vec(job).map_err(to_text)?.len() as u64;
    // The times in the reply are not known yet. These values have the usual number of digits.
    let reply = Done {
        found: false,
        seconds: 1.234_567_89,
        files_seconds: 0.012_345_678,
        files_bytes: if before == 0 { files.bytes_out } else { 0 },
        peak_memory_bytes: 123_456_789,
        before: 1,
        store: Counts {
            gets: store.gets,
            puts: store.puts,
            heads: store.heads,
            bytes_in: store.bytes_out,
            bytes_out: store.bytes_in,
            ..Counts::default()
        },
        paused: None,
        answer: None,
    };
    let mut reply_bytes = serde_json::to_vec(&reply).map_err(to_text)?.len() as u64;
    if is_inline(answer) {
        // The answer is a Base64 field, which has four bytes for three.
        reply_bytes += answer.div_ceil(3) * 4 + r#","answer":"""#.len() as u64;
    }
    let seconds = |one: Requests| REQUEST_S * (one.puts + one.gets + one.heads) as f64;
    Ok(Task {
        core_s: seconds(store),
        first_core_s: seconds(first_store),
        store,
        first_store,
        event_bytes,
        reply_bytes,
    })
}

/// Forecasts the work of a prediction by one cloud function, for the model in the run folder `run`.
/// If `pilot` is true, the prediction runs once in this process. Otherwise nothing runs.
///
/// # Errors
/// Returns an error if there is no run at `run`, if data or kernels cannot be read, or if the pilot
/// fails.
pub fn predict(
    run: &std::path::Path,
    wanted: (Option<&Data>, bool),
    place: &Config,
    pilot: bool,
) -> Result<Forecast> {
    let class = class(place);
    let mut files = Files::default();
    let (job, config) = Job::predict(run, wanted, class.as_deref(), &mut files)?;
    let sizes: BTreeMap<String, u64> =
        files.take().map(|file| (file.carried.key, file.bytes.len() as u64)).collect();
    let study = Study::new(place);
    let plan = study.plan(&config)?;
    let data_bytes = sizes.values().sum();
    let mut fit = assumed(&plan, &config, data_bytes);
    // A prediction is one forward pass.
    fit.epoch_s = plan.epoch_flops / 3.0 / FLOPS + EPOCH_S;
    if pilot {
        let make = |_: u32, files: &mut Files| Ok(Job::predict(run, wanted, None, files)?.0);
        fit = study.pilot(&make, (0, 1))?;
        (fit.start_s, fit.epoch_s) = (fit.start_s + fit.epoch_s, 0.0);
    }
    let answer = (fit.answer_bytes[0] + fit.answer_bytes[1]) as u64;
    let mut task = of_job(&job, [answer, 0], (true, &sizes), 0)?;
    task.core_s += fit.start_s + fit.epoch_s;
    task.first_core_s += fit.first_s;
    let host = sizes.values().fold(Requests::default(), |host, bytes| host.and(uploaded(*bytes)));
    let host = host.and(fetched([answer, 0], false));
    let origin = if pilot { Origin::Modelled } else { Origin::Assumed };
    let work = Work { phases: vec![vec![task]], host, times: origin, sizes: origin };
    let pilots = if pilot { vec![fit] } else { Vec::new() };
    Ok(Forecast { work, flops: plan.epoch_flops / 3.0, pilots, notes: Vec::new() })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn pilot(epoch_s: f64) -> Pilot {
        let answer_bytes = [1e5, 400.0];
        Pilot {
            trial: 0,
            epochs: [2, 6],
            start_s: 0.1,
            epoch_s,
            first_s: 0.2,
            answer_bytes,
            predictions_bytes: 7e4,
        }
    }

    #[test]
    fn choices_between_two_pilots_are_scaled_by_operations() {
        let (cheap, dear) = (pilot(0.001), pilot(0.003));
        let at = |flops| between(flops, [(1e6, &cheap), (3e6, &dear)]).epoch_s;
        assert!((at(2e6) - 0.002).abs() < 1e-12);
        assert_eq!((at(1e6), at(3e6), at(9e6), at(0.0)), (0.001, 0.003, 0.003, 0.001));
        // A single pilot serves all trainings.
        assert_eq!(between(5e6, [(1e6, &cheap), (1e6, &cheap)]).epoch_s, 0.001);
    }

    #[test]
    fn seeds_splits_and_the_optimiser_do_not_change_the_shape() {
        let one = Config::default();
        let mut other = one.clone();
        (other.run.seed, other.run.epochs, other.optimiser.lr) = (9, 7, 0.5);
        assert_eq!(shape(&one).unwrap(), shape(&other).unwrap());
        other.model.hidden = 99;
        assert_ne!(shape(&one).unwrap(), shape(&other).unwrap());
    }
}

//! Training of a sweep's trials in cloud functions (AWS Lambda or its emulation), with one
//! invocation per trial.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use eciton_exec::functions::{self, Cut};
use eciton_exec::trainers::{Call, Ended, Rules, Trainers};
use eciton_exec::{Architecture, Bill, Cost};
use eciton_recipe::{Config, Data};
use eciton_runs::report::Summary;
use eciton_runs::run_folder::Run;
use eciton_transport::Key;

use super::{Lot, Outcome, reached};
use crate::checkpoint;
use crate::dataset_cache::Published;
use crate::error::{Error, Result};
use crate::job::{
    Adopted, BudgetClock, Done, Files, Job, Part, adopt, evaluation, less_margin, predictions,
    predictions_object,
};
use crate::kernels::{CachePolicy, builtin};
use crate::predict::{Evaluation, Predictions};
use crate::stop::Stop;

/// Usage and cost of the cloud functions that trained a sweep.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Spent {
    /// Charged usage of functions, payloads and the object store.
    pub bill: Bill,
    /// Cost of the usage, in US dollars.
    pub cost: Cost,
    /// Duration of all calls in seconds. This is virtual time if [`Cost::times`] are modelled.
    pub seconds: f64,
    /// Limit of the account that reduced the number of functions. `None` if no limit did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut: Option<Cut>,
    /// Replies of the functions, one per answered job.
    pub jobs: Vec<Done>,
}

/// Cloud functions that train the trials of a sweep, and their cost so far. They are started when
/// the first trial needs one.
#[derive(Debug)]
pub struct Functions<'a> {
    /// Configuration whose section `executor` describes the functions.
    place: &'a Config,
    /// Maximum cost of all calls in US dollars. `None` if the cost is not limited.
    max_usd: Option<f64>,
    /// Maximum time of all calls in seconds. `None` if the time is not limited.
    within: Option<f64>,
    /// File in which the cost of calls is recorded. `None` if it is not recorded.
    record: Option<PathBuf>,
    /// True if the predictions of the runs are downloaded.
    predictions: bool,
    trainers: Option<Trainers>,
    jobs: Vec<Done>,
    /// Largest number of calls that were requested at the same time so far.
    calls: usize,
}

impl<'a> Functions<'a> {
    /// Creates a handle to the functions that `place` describes. `max_usd` is the maximum cost in
    /// US dollars. No function is started yet.
    #[must_use]
    pub fn new(place: &'a Config, max_usd: Option<f64>) -> Self {
        let (within, record) = (None, None);
        Self {
            place,
            max_usd,
            within,
            record,
            predictions: false,
            trainers: None,
            jobs: Vec::new(),
            calls: 0,
        }
    }

    /// Sets the file in which the cost of calls is recorded. The cost that earlier processes have
    /// recorded there counts towards the limits.
    #[must_use]
    pub fn recorded(self, path: PathBuf) -> Self {
        Self { record: Some(path), ..self }
    }

    /// Sets the maximum time of all calls, in seconds. The time that earlier processes have
    /// recorded counts towards it.
    #[must_use]
    pub fn within(self, seconds: Option<f64>) -> Self {
        Self { within: seconds, ..self }
    }

    /// Sets whether the predictions of the runs are downloaded. Otherwise they remain in the store.
    #[must_use]
    pub fn with_predictions(mut self, predictions: bool) -> Self {
        self.predictions = predictions;
        self
    }

    /// Trains the selected trials with `seeds` seeds each. An invocation trains a trial for as long
    /// as the time limit of the function allows, and the next invocation continues it. The models
    /// have the same digests as those of [`super::sweep`].
    ///
    /// # Errors
    /// Returns an error if functions cannot be started or the store cannot be written. The failure
    /// of a trial is not an error, but its outcome.
    pub fn train(
        &mut self,
        lot: Lot<'_>,
        (folder, seeds): (&dyn Fn(usize) -> PathBuf, u32),
        stop: &Arc<Stop>,
        told: &mut dyn FnMut(usize, Outcome),
    ) -> Result<()> {
        let class = class(self.place);
        let wanted = (seeds, self.predictions);
        let Prepared { jobs, numbers, files } = prepare(lot, (folder, wanted), class.as_deref(), told);
        if jobs.is_empty() {
            return Ok(());
        }
        let components = match self.trainers {
            Some(_) => Vec::new(),
            None => own_components(lot.configs.iter())?,
        };
        let predictions = self.predictions;
        let mut ended = |number: usize, job: &mut Job, ended: Ended| {
            let (at, config) = numbers.get(number).and_then(|at| Some((*at, lot.configs.get(*at)?)))?;
            let own = folder(at);
            let outcome = match ended {
                Ended::Left => Outcome::Left,
                Ended::Failed(text) => Outcome::Failed(text),
                Ended::Answered { object, second, .. } => {
                    match adopt(&object, second.as_deref(), &own, config) {
                        Ok(Adopted::Link) => match next(job, &own, predictions) {
                            Ok(call) => return Some(call),
                            Err(error) => failed(error),
                        },
                        Ok(Adopted::Run) => read(&own).map_or_else(failed, Outcome::Trained),
                        Err(error) => failed(error),
                    }
                }
            };
            told(at, outcome);
            None
        };
        self.do_work(Work { jobs, files, components, predictions }, stop, &mut ended)
    }

    /// Performs jobs in functions. `told` is called when the call of a job ends. It returns the
    /// call that continues the job, or `None` if the job is finished.
    fn do_work(
        &mut self,
        work: Work,
        stop: &Arc<Stop>,
        told: &mut dyn FnMut(usize, &mut Job, Ended) -> Option<Call>,
    ) -> Result<()> {
        let Work { mut jobs, files, components, predictions } = work;
        let mut trainers = match self.trainers.take() {
            Some(trainers) => trainers,
            None => start(self.place, &components)?,
        };
        for file in files.take() {
            trainers.put(&file.carried.key, file.bytes)?;
        }
        for job in &mut jobs {
            budget(job, trainers.time_limit(), trainers.share().map(|share| (share, trainers.waits())));
        }
        let calls = jobs.iter().map(|job| call(job, predictions, Files::default()));
        let calls = calls.collect::<Result<Vec<_>>>()?;
        let rules = Rules {
            max_usd: self.max_usd,
            within: self.within,
            record: self.record.as_deref(),
            stop: &|| stop.is_asked(),
        };
        // From here on, Ctrl-C ends the calls, and the command still prints the table and the bill.
        stop.begin();
        let done = &mut self.jobs;
        trainers.run(&calls, &rules, &mut |number, ended| {
            if let Ended::Answered { reply, .. } = &ended {
                done.extend(serde_json::from_slice::<Done>(reply));
            }
            told(number, jobs.get_mut(number)?, ended)
        })?;
        self.calls = self.calls.max(calls.len());
        self.trainers = Some(trainers);
        Ok(())
    }

    /// Returns the usage and cost so far. Returns `None` if no function was started.
    #[must_use]
    pub fn spent(&self) -> Option<Spent> {
        let trainers = self.trainers.as_ref()?;
        let (bill, cost, cut) = (trainers.bill(), trainers.cost(), trainers.cut(self.calls));
        Some(Spent { bill, cost, seconds: trainers.seconds(), cut, jobs: self.jobs.clone() })
    }
}

/// Sets the time budget of a training job, which is the time limit of the function minus a safety
/// margin. For emulated functions, `modelled` has their share of a processor and their modelled
/// waiting time.
pub(crate) fn budget(job: &mut Job, limit: Duration, modelled: Option<(f64, Duration)>) {
    if job.predict.is_some() {
        return;
    }
    let waits = modelled.map_or(Duration::ZERO, |(_, waits)| waits);
    let limit = less_margin(limit).saturating_sub(waits).as_millis();
    job.pause_before_ms = Some(u64::try_from(limit).unwrap_or(u64::MAX));
    job.budget_clock = modelled.map_or(BudgetClock::Real, |(share, _)| BudgetClock::Processor { share });
}

/// Jobs for the selected trials of a sweep.
pub(super) struct Prepared {
    pub(super) jobs: Vec<Job>,
    /// Trial number of each job.
    pub(super) numbers: Vec<usize>,
    pub(super) files: Files,
}

/// Creates a job for each selected trial that needs further training, or whose predictions are
/// requested and still in the store. For all other trials, `told` is called with the outcome.
pub(super) fn prepare(
    lot: Lot<'_>,
    (folder, (seeds, predictions)): (&dyn Fn(usize) -> PathBuf, (u32, bool)),
    class: Option<&str>,
    told: &mut dyn FnMut(usize, Outcome),
) -> Prepared {
    let published = Published::default();
    let mut files = Files::default();
    let (mut jobs, mut numbers) = (Vec::new(), Vec::new());
    for &at in lot.numbers {
        let (own, Some(config)) = (folder(at), lot.configs.get(at)) else { continue };
        // A run cannot resume in another numeric class. In this case it restarts.
        let wanted = config.run.numeric_class.as_deref().or(class);
        let goes_on = checkpoint::is_resumable(&own) && checkpoint::numeric_class(&own).as_deref() == wanted;
        let part = Part { pause_after: lot.pause_after, goes_on: goes_on.then_some(&own) };
        let job = match reached((config, &own), lot.pause_after, &published) {
            // The answer of the trial is in the store. The function finds it there, or else trains
            // the trial again.
            Ok(Some(summary)) if !(predictions && summary.predictions_left_out) => {
                told(at, Outcome::Found(summary));
                continue;
            }
            Ok(_) => Job::train(config, (seeds, part), class, &mut files),
            Err(error) => Err(error),
        };
        match job {
            Ok(job) => {
                numbers.push(at);
                jobs.push(job);
            }
            Err(error) => told(at, failed(error)),
        }
    }
    Prepared { jobs, numbers, files }
}

/// Starts the functions that `place` describes, with the built-in kernels and the given components.
fn start(place: &Config, components: &[(String, Vec<u8>)]) -> Result<Trainers> {
    let mut kernels: Vec<(&str, &[u8])> = builtin().iter().map(|b| (b.name, b.component)).collect();
    kernels.extend(components.iter().map(|(path, component)| (&path[..], &component[..])));
    let cache = CachePolicy::User.open().and_then(std::result::Result::ok);
    Ok(Trainers::start(&place.executor, &place.emulator, &kernels, cache)?)
}

/// Computes the predictions of the model in the run folder `run`, in one function invocation.
///
/// # Errors
/// Returns an error if the run, the data or the functions do not exist, or if the function fails.
pub fn predict_on_function(
    run: &Path,
    wanted: (Option<&Data>, bool),
    (place, max_usd): (&Config, Option<f64>),
) -> Result<(Predictions, Spent)> {
    let mut files = Files::default();
    let job = Job::predict(run, wanted, class(place).as_deref(), &mut files)?;
    one(job, files, (place, max_usd), &predictions)
}

/// Computes the metrics of the model in the run folder `run`, in one function invocation.
///
/// # Errors
/// Returns the errors of [`predict_on_function`].
pub fn evaluate_on_function(
    run: &Path,
    data: Option<&Data>,
    (place, max_usd): (&Config, Option<f64>),
) -> Result<(Evaluation, Spent)> {
    let mut files = Files::default();
    let job = Job::evaluate(run, data, class(place).as_deref(), &mut files)?;
    one(job, files, (place, max_usd), &evaluation)
}

/// Performs one job in a function. `read` decodes the answer of the job.
fn one<T>(
    (job, config): (Job, Config),
    files: Files,
    (place, max_usd): (&Config, Option<f64>),
    read: &dyn Fn(&[u8]) -> Result<T>,
) -> Result<(T, Spent)> {
    let components = own_components(std::iter::once(&config))?;
    let work = Work { jobs: vec![job], files, components, predictions: false };
    let mut answer = Err(Error::Stopped);
    let mut ended = |_: usize, _: &mut Job, ended: Ended| {
        answer = match ended {
            Ended::Answered { object, .. } => read(&object),
            Ended::Failed(text) => Err(Error::Job(text)),
            Ended::Left => Err(Error::Stopped),
        };
        None
    };
    let mut functions = Functions::new(place, max_usd);
    functions.do_work(work, &Arc::default(), &mut ended)?;
    let spent = functions.spent().ok_or_else(|| Error::Internal("no function ran the job".to_owned()))?;
    Ok((answer?, spent))
}

/// Returns the numeric class of the functions. Processors of the same numeric class compute the
/// same bits. A deployment fixes one class, because Lambda uses several kinds of processors.
/// Emulated functions have the class of this machine, or of the architecture that is configured.
pub(crate) fn class(place: &Config) -> Option<String> {
    let pinned = |processor| Architecture::from(processor).numeric_class();
    if place.executor.kind.is_emulated() {
        let other = place.emulator.architecture.map(pinned);
        return Some(other.unwrap_or_else(eciton_tensor::simd::usual_class).to_owned());
    }
    functions::numeric_class(&place.executor)
}

/// Jobs to perform, and the objects that they need in the store.
struct Work {
    jobs: Vec<Job>,
    files: Files,
    /// Path and content of the user's kernel components.
    components: Vec<(String, Vec<u8>)>,
    /// True if the predictions of the runs are downloaded.
    predictions: bool,
}

/// Creates the run folder of a trial from the answer of its job, with the predictions if they were
/// downloaded.
pub(super) fn adopted(object: &[u8], predictions: Option<&[u8]>, own: &Path, config: &Config) -> Outcome {
    adopt(object, predictions, own, config).and_then(|_| read(own)).map_or_else(failed, Outcome::Trained)
}

fn failed(error: Error) -> Outcome {
    Outcome::Failed(eciton_input::text::causes(&error))
}

fn read(run: &Path) -> Result<Box<Summary>> {
    Ok(Box::new(Run::open(run)?.summary))
}

/// Creates the function call for a job. `files` are written to the store before the call.
fn call(job: &Job, predictions: bool, files: Files) -> Result<Call> {
    let key = |name: &str| Key::new(name).map_err(|error| Error::Internal(error.to_string()));
    let event = serde_json::to_vec(job).map_err(|error| Error::Internal(error.to_string()))?;
    let second = predictions.then(|| key(&predictions_object(&job.answer))).transpose()?;
    let files = files.take().map(|file| Ok((key(&file.carried.key)?, file.bytes.into())));
    let files = files.collect::<Result<_>>()?;
    Ok(Call { event: event.into(), answer: key(&job.answer)?, second, files })
}

/// Creates the function call that continues a job from the checkpoints next to its run folder.
/// `job` is replaced by the continuing job.
fn next(job: &mut Job, run: &Path, predictions: bool) -> Result<Call> {
    let mut files = Files::default();
    *job = job.next(run, &mut files)?;
    call(job, predictions, files)
}

/// Returns the path and the content of each kernel component that the user supplies. Each component
/// is returned once.
fn own_components<'a>(configs: impl Iterator<Item = &'a Config>) -> Result<Vec<(String, Vec<u8>)>> {
    let mut all: Vec<(String, Vec<u8>)> = Vec::new();
    for config in configs {
        for path in config.kernels.values().map(String::as_str).chain(config.model.own_kernels()) {
            if !all.iter().any(|(known, _)| known == path) {
                all.push((path.to_owned(), crate::kernels::read(Path::new(path))?));
            }
        }
    }
    Ok(all)
}

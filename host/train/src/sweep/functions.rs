//! The trials of a sweep as tasks of functions, one invocation each.

use std::path::Path;
use std::sync::Arc;

use eciton_exec::functions::{self, Cut};
use eciton_exec::trainers::{Call, Ended, Rules, Trainers};
use eciton_exec::{Architecture, Bill, Cost};
use eciton_plan::{Config, Data, ExecutorKind};
use eciton_transport::Key;

use super::{Outcome, trial_folder};
use crate::error::{Error, Result};
use crate::job::{Done, Files, Job, adopt, predictions};
use crate::kernels::{CachePolicy, builtin};
use crate::predict::Predictions;
use crate::report::{Silent, Summary};
use crate::resume::{is_finished, resume};
use crate::session::Options;
use crate::stop::Stop;

/// What functions were used, and for how much.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Spent {
    /// What was used of what is charged for.
    pub bill: Bill,
    /// That, in money.
    pub cost: Cost,
    /// By what the number of functions was cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut: Option<Cut>,
    /// How each answered job went.
    pub jobs: Vec<Done>,
}

/// Trains each configuration on functions, `place` says which: one invocation does one run. Run folders are those of
/// [`super::sweep`], and so are their digests. `None` where nothing was left to train.
///
/// # Errors
/// No functions; a store that cannot be written. What is wrong with a trial is its outcome.
pub fn sweep_on_functions(
    trials: &[Config],
    (folder, seeds): (&dyn Fn(usize) -> std::path::PathBuf, u32),
    (place, max_usd): (&Config, Option<f64>),
    stop: &Arc<Stop>,
    told: &mut dyn FnMut(usize, Outcome),
) -> Result<Option<Spent>> {
    let class = class(place);
    let mut files = Files::default();
    let (mut jobs, mut numbers) = (Vec::new(), Vec::new());
    for (at, config) in trials.iter().enumerate() {
        let own = folder(at);
        if is_finished(&own) {
            told(at, read(&own).map_or_else(failed, Outcome::Found));
            continue;
        }
        match Job::of(config, seeds, class.as_deref(), &mut files) {
            Ok(job) => {
                numbers.push(at);
                jobs.push(job);
            }
            Err(error) => told(at, failed(error)),
        }
    }
    if jobs.is_empty() {
        return Ok(None);
    }
    let configs = numbers.iter().filter_map(|&at| trials.get(at));
    let work = Work { jobs, files, components: own_components(configs)? };
    let mut ended = |number: usize, ended: Ended| {
        let Some((&at, config)) = numbers.get(number).and_then(|at| Some((at, trials.get(*at)?))) else {
            return;
        };
        let own = folder(at);
        let outcome = match ended {
            Ended::Left => Outcome::Left,
            Ended::Failed(text) => Outcome::Failed(text),
            Ended::Answered { object, .. } => {
                let adopted = adopt(&object, &own, config).and_then(|()| read(&own));
                adopted.map_or_else(failed, Outcome::Trained)
            }
        };
        told(at, outcome);
    };
    work.on(place, max_usd, stop, &mut ended).map(Some)
}

/// Predictions of a run, made by a function.
///
/// # Errors
/// No run, data or functions; whatever the function says.
pub fn predict_on_function(
    run: &Path,
    wanted: (Option<&Data>, bool),
    (place, max_usd): (&Config, Option<f64>),
) -> Result<(Predictions, Spent)> {
    let mut files = Files::default();
    let (job, config) = Job::predict(run, wanted, class(place).as_deref(), &mut files)?;
    let work = Work { jobs: vec![job], files, components: own_components(std::iter::once(&config))? };
    let mut answer = Err(Error::Stopped);
    let mut ended = |_: usize, ended: Ended| {
        answer = match ended {
            Ended::Answered { object, .. } => predictions(&object),
            Ended::Failed(text) => Err(Error::Job(text)),
            Ended::Left => Err(Error::Stopped),
        };
    };
    let spent = work.on(place, max_usd, &Arc::default(), &mut ended)?;
    Ok((answer?, spent))
}

/// The class of what functions do: Lambda's processors are of several kinds, of which a deployment pins one; emulated
/// functions have this machine's.
fn class(place: &Config) -> Option<String> {
    let pinned = |processor| Architecture::from(processor).numeric_class();
    match place.executor.kind {
        ExecutorKind::Emulated => {
            let other = place.emulator.architecture.map(pinned);
            Some(other.unwrap_or_else(eciton_tensor::simd::usual_class).to_owned())
        }
        _ => functions::numeric_class(&place.executor),
    }
}

/// Jobs, and what they need in the store.
struct Work {
    jobs: Vec<Job>,
    files: Files,
    /// Of the user's own kernels, by path.
    components: Vec<(String, Vec<u8>)>,
}

impl Work {
    /// Has it done by the functions of an executor.
    fn on(
        self,
        place: &Config,
        max_usd: Option<f64>,
        stop: &Arc<Stop>,
        told: &mut dyn FnMut(usize, Ended),
    ) -> Result<Spent> {
        let mut kernels: Vec<(&str, &[u8])> = builtin().iter().map(|b| (b.name, b.component)).collect();
        kernels.extend(self.components.iter().map(|(path, component)| (&path[..], &component[..])));
        let cache = CachePolicy::User.open().and_then(std::result::Result::ok);
        let mut trainers = Trainers::start(&place.executor, &place.emulator, &kernels, cache)?;
        for file in self.files.take() {
            trainers.put(&file.carried.key, file.bytes)?;
        }
        let calls = self.jobs.into_iter().map(call).collect::<Result<Vec<_>>>()?;
        let mut jobs = Vec::new();
        let rules = Rules { max_usd, stop: &|| stop.is_asked() };
        trainers.run(&calls, &rules, &mut |number, ended| {
            if let Ended::Answered { reply, .. } = &ended {
                jobs.extend(serde_json::from_slice::<Done>(reply));
            }
            told(number, ended);
        })?;
        let cut = trainers.cut(calls.len());
        Ok(Spent { bill: trainers.bill(), cost: trainers.cost(), cut, jobs })
    }
}

/// The folder of a trial of a sweep, by its number.
pub fn folders(sweep: &Path) -> impl Fn(usize) -> std::path::PathBuf + '_ {
    move |at| trial_folder(sweep, at)
}

fn failed(error: Error) -> Outcome {
    Outcome::Failed(eciton_input::text::causes(&error))
}

fn read(run: &Path) -> Result<Box<Summary>> {
    resume(run, false, &Options::default(), &mut Silent).map(Box::new)
}

fn call(job: Job) -> Result<Call> {
    let event = serde_json::to_vec(&job).map_err(|error| Error::Internal(error.to_string()))?;
    let answer = Key::new(job.answer).map_err(|error| Error::Internal(error.to_string()))?;
    Ok(Call { event: event.into(), answer })
}

/// The components of the user's own kernels, each once.
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

//! Jobs that are described by objects in a bucket. Containers and batch systems perform them.
//!
//! ```text
//! eciton sweep --executor jobs   bucket, below a prefix         eciton job, in any container
//! files of the recipe ─────────> runs/files/{sha256}.zip ─────> unpacked in a temporary folder
//! a description for each job ──> jobs/{sha256}.json ──────────> trained
//! their keys, one a line ──────> jobs/{digest}.list ──────────> the line of the index
//! run folder <────────────────── runs/jobs/{sha256}.zip <────── run folder
//! failed trial <──────────────── runs/jobs/{sha256}.failed <─── error message
//! ```

use std::time::Instant;

use eciton_exec::bucket::Bucket;
use eciton_recipe::Config;
use serde::Serialize;

use super::{Done, JOBS, Job, Performed, Place, VERSION, perform, predictions_object};
use crate::dataset_cache::Published;
use crate::error::{Error, Result};

/// Prefix of the keys of job descriptions and of lists of job descriptions.
pub(crate) const DESCRIPTIONS: &str = "jobs/";
/// Maximum size in bytes of a job description.
const MAX_DESCRIPTION_BYTES: u64 = 16 << 20;
/// Maximum size in bytes of a list of job descriptions. 100,000 keys fit.
const MAX_LIST_BYTES: u64 = 16 << 20;
/// Maximum size in bytes of an object with a job's files.
const MAX_FILE_BYTES: u64 = 10 << 30;
/// Memory limit of a training on a system that does not report its memory. It is the largest value
/// that a recipe can contain.
const NO_LIMIT: u64 = i64::MAX as u64;
/// Maximum size in bytes of a stored error message. Longer messages are cut.
const MAX_MESSAGE_BYTES: usize = 8 << 10;

/// A job description as an object of a bucket.
#[derive(Debug)]
pub struct Described {
    /// Key of the object, `jobs/{sha256}.json`. The digest is the one in the key of the job's
    /// answer.
    pub key: String,
    /// Content of the object, which is a [`Job`] as JSON.
    pub bytes: Vec<u8>,
}

impl Described {
    /// Creates the description of a job.
    ///
    /// # Errors
    /// Returns [`Error::Internal`] if the job cannot be written as JSON.
    pub fn new(job: &Job) -> Result<Self> {
        let bytes = serde_json::to_vec(job).map_err(|error| Error::Internal(error.to_string()))?;
        let name = job.answer.strip_prefix(JOBS).and_then(|name| name.strip_suffix(".zip"));
        let name = name.ok_or_else(|| Error::Internal(format!("an answer has the name `{}`", job.answer)))?;
        Ok(Self { key: format!("{DESCRIPTIONS}{name}.json"), bytes })
    }
}

/// Returns the key of the object with the error message of a failed job. `answer` is the key of the
/// job's answer.
#[must_use]
pub fn failure_key(answer: &str) -> String {
    format!("{}.failed", answer.strip_suffix(".zip").unwrap_or(answer))
}

/// Result of a job that was performed and whose answer is in the bucket.
#[derive(Debug, Clone, Serialize)]
pub struct Stored {
    /// Key of the job description.
    pub key: String,
    /// Key of the object with the answer.
    pub answer: String,
    /// Times, bytes and requests of the job.
    #[serde(flatten)]
    pub done: Done,
}

/// Performs the job that an object of the bucket describes, and stores its answer. Does nothing if
/// the answer exists already. Kernels are compiled on this machine.
///
/// `key` is the key of the job description. If `index` is given, `key` is the key of a list of job
/// descriptions, and `index` is the line in this list, counted from 0.
///
/// # Errors
/// If the store has failed, [`Error::is_retryable`] is true for the returned error. Otherwise the
/// object is no job of this version, or the training has failed. The message of a failed training
/// is stored next to the answer.
pub fn perform_stored(bucket: &Bucket, key: &str, index: Option<u64>) -> Result<Stored> {
    let begun = Instant::now();
    let key = match index {
        Some(index) => line(bucket, key, index)?,
        None => key.to_owned(),
    };
    let job = read(&key, &bucket.get(&key, MAX_DESCRIPTION_BYTES)?)?;
    let mut done = Done { found: bucket.has(&job.answer)?, ..Done::default() };
    if !done.found {
        let Performed { bytes, predictions, took, .. } = train(bucket, &job)?;
        (done.files_seconds, done.files_bytes) = (took.files_seconds, took.files_bytes);
        // The predictions are stored before the answer, so that they exist if the answer does.
        if let Some(predictions) = predictions {
            bucket.put(&predictions_object(&job.answer), predictions, true)?;
        }
        done.found = !bucket.put(&job.answer, bytes, true)?;
    }
    done.seconds = begun.elapsed().as_secs_f64();
    done.store = bucket.counts();
    done.peak_memory_bytes = eciton_input::memory::peak_bytes().unwrap_or_default();
    Ok(Stored { key, answer: job.answer, done })
}

/// Returns the error for an object `key` that is not a valid job.
fn refused(key: &str, reason: &str) -> Error {
    Error::Job(format!("`{key}` {reason}"))
}

/// Returns the key in line `index` of the list of job descriptions `list`.
fn line(bucket: &Bucket, list: &str, index: u64) -> Result<String> {
    let bytes = bucket.get(list, MAX_LIST_BYTES)?;
    let text = String::from_utf8(bytes).map_err(|_| refused(list, "is not UTF-8 text"))?;
    let found = usize::try_from(index).ok().and_then(|index| text.lines().nth(index));
    found.map(str::to_owned).ok_or_else(|| {
        let lines = text.lines().count();
        let reason = format!(
            "has {lines} lines, but the index is {index}; the array must have {lines} indices from 0"
        );
        refused(list, &reason)
    })
}

/// Parses a job description. Checks that it was written by this version of Eciton and is unchanged.
fn read(key: &str, bytes: &[u8]) -> Result<Job> {
    let job: Job = serde_json::from_slice(bytes).map_err(|error| {
        let remedy = "write it with `eciton sweep --executor jobs`";
        refused(key, &format!("is not a job of Eciton {}: {error}; {remedy}", env!("CARGO_PKG_VERSION")))
    })?;
    if job.version != VERSION {
        let reason = format!("has version {}, but this program runs jobs of version {VERSION}", job.version);
        return Err(refused(key, &reason));
    }
    let expected = job.named_answer()?;
    if job.answer != expected {
        let reason = format!(
            "names its answer `{}`, but this program (Eciton {} and its kernels) names it `{expected}`; the \
             job was written by another version or changed afterwards; write it again with this version",
            job.answer,
            env!("CARGO_PKG_VERSION")
        );
        return Err(refused(key, &reason));
    }
    check_paths(key, &job)?;
    Ok(job)
}

/// Checks that all paths in the recipe refer to files of the job. Otherwise a job could read other
/// files of this machine.
fn check_paths(key: &str, job: &Job) -> Result<()> {
    let mut config = Config::parse(&job.recipe, key)?;
    let source = &config.data.source;
    let is_builtin = eciton_formats::builtins().iter().any(|set| set.name.eq_ignore_ascii_case(source));
    let data = (!is_builtin).then(|| source.clone());
    let paths = config.paths_mut().map(|path| path.clone());
    let missing = data.into_iter().chain(paths).find(|path| !job.files.contains_key(path));
    missing.map_or(Ok(()), |path| {
        Err(refused(key, &format!("uses the file `{path}`, which is not among the files of the job")))
    })
}

/// Performs a job in a temporary folder. If it fails and a retry would fail too, the error message
/// is stored.
fn train(bucket: &Bucket, job: &Job) -> Result<Performed> {
    let temporary = |source| Error::Read { path: std::env::temp_dir(), source };
    let scratch = eciton_exec::Scratch::new().map_err(temporary)?;
    let memory_bytes = eciton_input::memory::available().unwrap_or(NO_LIMIT);
    let folder = scratch.path("job").map_err(temporary)?;
    let place = Place { folder, memory_bytes, threads: None, code: None, published: Published::default() };
    let mut fault = None;
    let ended = perform(job, &place, None, &mut |key| {
        bucket.get(key, memory_bytes.min(MAX_FILE_BYTES)).map_err(|found| {
            let text = found.to_string();
            fault = found.is_retryable.then_some(found);
            text
        })
    });
    ended.map_err(|error| match fault {
        Some(fault) => fault.into(),
        None => {
            let text = eciton_input::text::cut(&eciton_input::text::causes(&error), MAX_MESSAGE_BYTES);
            // The error of the job takes precedence over an error in storing its message.
            match bucket.put(&failure_key(&job.answer), text.into_bytes(), false) {
                Ok(_) => error,
                Err(lost) => Error::Job(format!(
                    "{}; the failure could not be recorded: {lost}",
                    eciton_input::text::causes(&error)
                )),
            }
        }
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::job::{Files, Part};

    fn job(config: &Config) -> Job {
        Job::train(config, (1, Part::default()), None, &mut Files::default()).unwrap()
    }

    fn text(job: &Job) -> String {
        let described = Described::new(job).unwrap();
        read(&described.key, &described.bytes).map_or_else(|error| error.to_string(), |_| String::new())
    }

    #[test]
    fn a_description_is_read_back_and_a_changed_one_is_refused() {
        let job = job(&Config::default());
        assert_eq!(text(&job), "");
        let described = Described::new(&job).unwrap();
        assert!(described.key.starts_with("jobs/") && described.key.len() == "jobs/.json".len() + 64);
        assert_eq!(failure_key(&job.answer), job.answer.replace(".zip", ".failed"));
        assert!(text(&Job { seeds: 2, ..job.clone() }).contains("the job was written by another version"));
        assert!(text(&Job { version: 1, ..job.clone() }).contains("has version 1"));
        let answer = job.answer.replace("runs/jobs/", "runs/jobs/x");
        assert!(text(&Job { answer, ..job }).contains("changed afterwards"));
        for bytes in [&b""[..], b"[]", b"{\"version\": 2}"] {
            let text = read("jobs/a.json", bytes).unwrap_err().to_string();
            assert!(text.contains("`jobs/a.json` is not a job of Eciton"), "{text}");
        }
    }

    #[test]
    fn a_recipe_that_names_a_file_of_the_machine_is_refused() {
        let mut job = job(&Config::default());
        for change in [
            |config: &mut Config| config.data.source = "/etc/passwd".to_owned(),
            |config: &mut Config| config.run.init = Some("/etc/passwd".to_owned()),
        ] {
            let mut config = Config::parse(&job.recipe, "job").unwrap();
            change(&mut config);
            job.recipe = config.to_toml().unwrap();
            job.answer = job.named_answer().unwrap();
            assert!(text(&job).contains("`/etc/passwd`, which is not among"), "{}", text(&job));
        }
    }
}

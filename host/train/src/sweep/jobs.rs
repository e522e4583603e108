//! Trials of a sweep as jobs in a bucket, which a batch system runs.
//!
//! Each call of `eciton sweep` collects the answers that exist. It writes the other jobs, and a
//! list of them, to the bucket. The sweep keeps no record of jobs: the keys of jobs depend only on
//! the trials, and the key of a list depends only on its lines.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use eciton_exec::bucket::Bucket;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::functions::{Prepared, adopted, prepare};
use super::{Lot, Outcome};
use crate::error::{Error, Result};
use crate::job::{DESCRIPTIONS, Described, Job, MAX_RUN_BYTES, failure_key, hex, predictions_object};

/// Pause before the second query for answers. The pause doubles with each further query.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Maximum pause between two queries for answers.
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// Maximum size of an error message of a job, in bytes. Longer messages are not read.
const MAX_MESSAGE_BYTES: u64 = 64 << 10;
/// Number of hexadecimal digits of a digest in the name of a job list.
const LIST_DIGITS: usize = 16;

/// Jobs that have no answer yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// Key of the job list, which has one line per job.
    pub list: String,
    /// Number of jobs, which is the size of the array for a batch system.
    pub size: usize,
}

/// Jobs of a sweep, whose descriptions and answers are in a bucket.
#[derive(Debug)]
pub struct Jobs {
    bucket: Bucket,
    /// Time until which the sweep waits for answers.
    until: Instant,
    /// True if the predictions of runs are fetched.
    predictions: bool,
    missing: Option<Missing>,
}

impl Jobs {
    /// Creates the jobs of a sweep in a bucket. The sweep waits for answers for the duration
    /// `wait`.
    #[must_use]
    pub fn new(bucket: Bucket, wait: Duration, predictions: bool) -> Self {
        Self { bucket, until: Instant::now() + wait, predictions, missing: None }
    }

    /// Returns the jobs that have no answer after [`Self::train`], or `None` if all have one.
    #[must_use]
    pub const fn missing(&self) -> Option<&Missing> {
        self.missing.as_ref()
    }

    /// Collects the answers of a selection of trials, and writes jobs for the trials without an
    /// answer. Calls `told` with the outcome of each trial, which is [`Outcome::Left`] without an
    /// answer. Calls `listed` before it waits for answers. Run folders have the same digests as
    /// those of [`super::sweep`].
    ///
    /// # Errors
    /// Returns [`Error::Bucket`] if the store fails. The failure of a trial is not an error, but
    /// its outcome.
    pub fn train(
        &mut self,
        lot: Lot<'_>,
        folder: &dyn Fn(usize) -> PathBuf,
        told: &mut dyn FnMut(usize, Outcome),
        listed: &mut dyn FnMut(&Missing),
    ) -> Result<()> {
        let class = eciton_tensor::simd::usual_class();
        let Prepared { jobs, numbers, files } =
            prepare(lot, (folder, (1, self.predictions)), Some(class), told);
        let mut waiting: Vec<(usize, Job)> = numbers.into_iter().zip(jobs).collect();
        self.collect(lot, &mut waiting, folder, told)?;
        if waiting.is_empty() {
            return Ok(());
        }
        self.bucket.put_absent(files.take().map(|file| (file.carried.key, file.bytes)).collect())?;
        let missing = self.write(&waiting)?;
        listed(&missing);
        let mut pause = FIRST_PAUSE;
        while !waiting.is_empty() {
            let left = self.until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            std::thread::sleep(pause.min(left));
            pause = (pause * 2).min(MAX_PAUSE);
            self.collect(lot, &mut waiting, folder, told)?;
        }
        self.missing = match waiting.len() {
            0 => None,
            size if size == missing.size => Some(missing),
            _ => Some(self.write(&waiting)?),
        };
        waiting.iter().for_each(|&(at, _)| told(at, Outcome::Left));
        Ok(())
    }

    /// Creates the run folders of jobs that have answers, and reads the messages of failed jobs.
    /// Removes both kinds of jobs from `waiting`.
    fn collect(
        &self,
        lot: Lot<'_>,
        waiting: &mut Vec<(usize, Job)>,
        folder: &dyn Fn(usize) -> PathBuf,
        told: &mut dyn FnMut(usize, Outcome),
    ) -> Result<()> {
        let mut ended = vec![false; waiting.len()];
        let mut fault = None;
        let mut look =
            |keys: Vec<String>, limit, ended: &mut Vec<bool>, of: &dyn Fn(usize, Vec<u8>) -> Outcome| {
                let open: Vec<usize> = (0..ended.len()).filter(|&at| !ended[at]).collect();
                let keys: Vec<String> = open.iter().map(|&at| keys[at].clone()).collect();
                self.bucket.find_each(&keys, limit, &mut |number, found| match found {
                    Ok(None) => {}
                    Ok(Some(object)) => {
                        let at = open[number];
                        ended[at] = true;
                        told(waiting[at].0, of(at, object));
                    }
                    Err(found) => fault = Some(found),
                });
            };
        let answers = waiting.iter().map(|(_, job)| job.answer.clone()).collect();
        look(answers, MAX_RUN_BYTES, &mut ended, &|at, object| {
            let number = waiting[at].0;
            let Some(config) = lot.configs.get(number) else { return Outcome::Left };
            match self.predictions_of(&waiting[at].1) {
                Ok(predictions) => adopted(&object, predictions.as_deref(), &folder(number), config),
                Err(error) => Outcome::Failed(eciton_input::text::causes(&error)),
            }
        });
        let failures: Vec<String> = waiting.iter().map(|(_, job)| failure_key(&job.answer)).collect();
        look(failures.clone(), MAX_MESSAGE_BYTES, &mut ended, &|at, object| {
            let text = String::from_utf8_lossy(&object);
            let key = &failures[at];
            Outcome::Failed(format!(
                "{text} (the job wrote this to `{key}`; start the job again to replace it)"
            ))
        });
        let mut ended = ended.into_iter();
        waiting.retain(|_| !ended.next().unwrap_or(false));
        fault.map_or(Ok(()), |fault| Err(Error::Bucket(fault)))
    }

    /// Fetches the predictions of an answered job, or returns `None` if they are not requested or
    /// do not exist.
    fn predictions_of(&self, job: &Job) -> Result<Option<Vec<u8>>> {
        let key = predictions_object(&job.answer);
        if !self.predictions || !self.bucket.has(&key)? {
            return Ok(None);
        }
        Ok(Some(self.bucket.get(&key, MAX_RUN_BYTES)?))
    }

    /// Writes the descriptions of jobs, and then the job list.
    fn write(&self, waiting: &[(usize, Job)]) -> Result<Missing> {
        let described = waiting.iter().map(|(_, job)| Described::new(job)).collect::<Result<Vec<_>>>()?;
        let lines: String = described.iter().flat_map(|described| [&described.key[..], "\n"]).collect();
        let digest = hex(&Sha256::digest(&lines));
        let list = format!("{DESCRIPTIONS}{}.list", &digest[..LIST_DIGITS]);
        // The list is written last, so that each of its lines names an existing description.
        self.bucket.put_absent(described.into_iter().map(|one| (one.key, one.bytes)).collect())?;
        self.bucket.put_absent(vec![(list.clone(), lines.into_bytes())])?;
        Ok(Missing { list, size: waiting.len() })
    }
}

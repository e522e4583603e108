//! Trials of a sweep as jobs in a bucket, which a batch system performs.
//!
//! Each call of `eciton sweep` collects the answers that are in the bucket. For all other trials it
//! writes jobs, and a list of these jobs, to the bucket. No other record of jobs is needed. The key
//! of a job depends only on its trial, and the key of a list depends only on its lines.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use eciton_exec::bucket::Bucket;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::functions::{Prepared, adopted, prepare};
use super::{Lot, Outcome};
use crate::error::{Error, Result};
use crate::job::{DESCRIPTIONS, Described, Job, MAX_RUN_BYTES, failure_key, hex, predictions_object};

/// Pause after the first query for answers. Each further pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Maximum pause between two queries for answers.
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// Maximum size of a job's error message, in bytes. Longer messages are not read.
const MAX_MESSAGE_BYTES: u64 = 64 << 10;
/// Number of hexadecimal digits of the digest in the name of a job list.
const LIST_DIGITS: usize = 16;

/// Jobs that have no answer yet, as a list for a batch system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// Key of the job list in the bucket. The list has one line per job.
    pub list: String,
    /// Number of jobs, which is the size of the job array in the batch system.
    pub size: usize,
}

/// Jobs of a sweep, whose descriptions and answers are in a bucket.
#[derive(Debug)]
pub struct Jobs {
    bucket: Bucket,
    /// Time until which [`Jobs::train`] waits for answers.
    until: Instant,
    /// True if the predictions of the runs are downloaded.
    predictions: bool,
    missing: Option<Missing>,
}

impl Jobs {
    /// Creates a handle to a sweep's jobs in `bucket`. [`Jobs::train`] waits for answers for the
    /// duration `wait`. If `predictions` is true, predictions are downloaded.
    #[must_use]
    pub fn new(bucket: Bucket, wait: Duration, predictions: bool) -> Self {
        Self { bucket, until: Instant::now() + wait, predictions, missing: None }
    }

    /// Returns the jobs that had no answer at the end of [`Self::train`]. Returns `None` if all had
    /// one.
    #[must_use]
    pub const fn missing(&self) -> Option<&Missing> {
        self.missing.as_ref()
    }

    /// Collects the answers to the selected trials, and writes jobs for the trials that have none.
    /// `told` is called with the outcome of each trial, which is [`Outcome::Left`] if there is no
    /// answer. `listed` is called before this method waits for answers. The models have the same
    /// digests as those of [`super::sweep`].
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

    /// Collects the answers and error messages that are in the bucket. Jobs that have one are
    /// removed from `waiting`, and run folders are created from answers.
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

    /// Downloads the predictions of a finished job. Returns `None` if they are not requested or do
    /// not exist.
    fn predictions_of(&self, job: &Job) -> Result<Option<Vec<u8>>> {
        let key = predictions_object(&job.answer);
        if !self.predictions || !self.bucket.has(&key)? {
            return Ok(None);
        }
        Ok(Some(self.bucket.get(&key, MAX_RUN_BYTES)?))
    }

    /// Writes the descriptions of jobs, and then the list of them.
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

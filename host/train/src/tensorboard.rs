//! Event files for TensorBoard, which contain the scalars of each epoch and grow during the run.
//!
//! A file is a sequence of records, whose numbers are little-endian. Each record contains a
//! protocol-buffer message `tensorflow.Event`:
//!
//! ```text
//! record   length u64 | masked CRC32C of the length | message | masked CRC32C of the message
//! Event    1: wall_time double   2: step int64   3: file_version string   5: summary Summary
//! Summary  1: value, repeated: 1: tag string   2: simple_value float
//! ```
//!
//! If a run has several seeds, each has its own folder `seed-N`, so that TensorBoard shows them as
//! separate runs.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use eciton_runs::report::EpochReport;

use crate::error::{Error, Result};
use crate::options::Options;

/// Version string in the first record of an event file, as TensorBoard requires.
const FILE_VERSION: &str = "brain.Event:2";
/// Constant that is added to checksums, as in the TFRecord format. Without it, data that contains
/// checksums could have a checksum of 0.
const MASK: u32 = 0xa282_ead8;
/// Maximum time that records stay in the buffer. TensorBoard reads event files every few seconds.
const DELAY: Duration = Duration::from_secs(1);

/// Writer of a run's event files, one for each seed.
#[derive(Debug)]
pub(crate) struct Events {
    folder: PathBuf,
    several: bool,
    files: BTreeMap<u64, EventFile>,
}

impl Events {
    /// Creates a writer of event files in `folder`, which is created. If `several` is true, each
    /// seed gets its own folder within it.
    pub(crate) fn new(folder: &Path, several: bool) -> Result<Self> {
        std::fs::create_dir_all(folder).map_err(record(folder))?;
        Ok(Self { folder: folder.to_owned(), several, files: BTreeMap::new() })
    }

    /// Creates the writer of event files that the options of a run with `seeds` seeds request, or
    /// returns `None`.
    pub(crate) fn from_options(options: &Options, seeds: u32) -> Result<Option<Self>> {
        let folder = options.recording.tensorboard.as_deref();
        folder.map(|folder| Self::new(folder, seeds > 1)).transpose()
    }

    /// Writes the scalars of an epoch to the event file of the epoch's seed.
    pub(crate) fn epoch(&mut self, report: &EpochReport) -> Result<()> {
        let file = match self.files.entry(report.seed) {
            std::collections::btree_map::Entry::Occupied(there) => there.into_mut(),
            std::collections::btree_map::Entry::Vacant(place) => {
                let folder = match self.several {
                    true => self.folder.join(format!("seed-{}", report.seed)),
                    false => self.folder.clone(),
                };
                place.insert(EventFile::create(&folder)?)
            }
        };
        file.scalars(report.step, &scalars(report))
    }
}

/// Returns the tag and value of each scalar of an epoch. TensorBoard groups scalars whose tags have
/// the same prefix.
fn scalars(report: &EpochReport) -> Vec<(String, f64)> {
    let mut all = vec![
        ("loss/train".to_owned(), report.loss),
        ("learning-rate".to_owned(), report.lr),
        ("seconds".to_owned(), report.seconds),
    ];
    all.extend(report.rows_per_second.map(|rows| ("rows-per-second".to_owned(), rows)));
    all.extend(report.gradient_norm.map(|norm| ("gradient-norm".to_owned(), norm)));
    if let Some(metrics) = report.metrics {
        let name = metrics.metric.name();
        let parts = [("train", metrics.train), ("validation", metrics.validation), ("test", metrics.test)];
        all.extend(parts.into_iter().filter_map(|(part, value)| Some((format!("{name}/{part}"), value?))));
    }
    all
}

/// The event file of one seed, which is open for writing.
#[derive(Debug)]
struct EventFile {
    path: PathBuf,
    file: BufWriter<File>,
    flushed: Instant,
}

impl EventFile {
    /// Creates an event file in `folder`. Its name is unique, because it contains the time and the
    /// process id.
    fn create(folder: &Path) -> Result<Self> {
        std::fs::create_dir_all(folder).map_err(record(folder))?;
        let (seconds, process) = (wall_time(), std::process::id());
        let name = format!("events.out.tfevents.{:010}.eciton.{process}.{}", seconds as u64, nanos());
        let path = folder.join(name);
        let file = File::create_new(&path).map_err(record(&path))?;
        let mut made = Self { path, file: BufWriter::new(file), flushed: Instant::now() };
        let mut event = Vec::new();
        double(&mut event, 1, seconds);
        bytes(&mut event, 3, FILE_VERSION.as_bytes());
        made.record(&event)?;
        made.flush()?;
        Ok(made)
    }

    fn scalars(&mut self, step: u32, values: &[(String, f64)]) -> Result<()> {
        let mut summary = Vec::new();
        for (tag, value) in values {
            let mut one = Vec::new();
            bytes(&mut one, 1, tag.as_bytes());
            float(&mut one, 2, *value as f32);
            bytes(&mut summary, 1, &one);
        }
        let mut event = Vec::new();
        double(&mut event, 1, wall_time());
        key(&mut event, 2, 0);
        varint(&mut event, u64::from(step));
        bytes(&mut event, 5, &summary);
        self.record(&event)?;
        if self.flushed.elapsed() >= DELAY { self.flush() } else { Ok(()) }
    }

    fn record(&mut self, message: &[u8]) -> Result<()> {
        let length = (message.len() as u64).to_le_bytes();
        let pieces: [&[u8]; 4] =
            [&length, &masked(&length).to_le_bytes(), message, &masked(message).to_le_bytes()];
        pieces.into_iter().try_for_each(|piece| self.file.write_all(piece)).map_err(record(&self.path))
    }

    fn flush(&mut self) -> Result<()> {
        self.flushed = Instant::now();
        self.file.flush().map_err(record(&self.path))
    }
}

fn record(path: &Path) -> impl Fn(std::io::Error) -> Error + use<> {
    let path = path.to_owned();
    move |source| Error::Record { path: path.clone(), source }
}

/// Returns the current time in seconds since 1970.
fn wall_time() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// Returns the nanoseconds within the current second. They make file names from the same second
/// unique.
fn nanos() -> u32 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().subsec_nanos()
}

/// Appends the key of a protocol-buffer field, which consists of its number and its wire type.
fn key(into: &mut Vec<u8>, field: u8, wire: u8) {
    into.push((field << 3) | wire);
}

fn varint(into: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        into.push((value as u8) | 0x80);
        value >>= 7;
    }
    into.push(value as u8);
}

fn double(into: &mut Vec<u8>, field: u8, value: f64) {
    key(into, field, 1);
    into.extend(value.to_le_bytes());
}

fn float(into: &mut Vec<u8>, field: u8, value: f32) {
    key(into, field, 5);
    into.extend(value.to_le_bytes());
}

fn bytes(into: &mut Vec<u8>, field: u8, value: &[u8]) {
    key(into, field, 2);
    varint(into, value.len() as u64);
    into.extend(value);
}

/// Returns the masked CRC-32C of a record: rotated right by 15 bits, plus [`MASK`].
fn masked(bytes: &[u8]) -> u32 {
    crc32c(bytes).rotate_right(15).wrapping_add(MASK)
}

/// Returns the CRC-32C of `bytes` (Castagnoli et al. 1993; RFC 3720, section 12.1). It is computed
/// bit by bit, because a record has only some hundred bytes.
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, &byte| (0..8).fold(crc ^ u32::from(byte), step))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use eciton_recipe::Metric;
    use eciton_runs::report::Metrics;

    fn report(seed: u64, epoch: u32) -> EpochReport {
        let metrics =
            Metrics { metric: Metric::Accuracy, train: Some(0.5), validation: None, test: Some(0.25) };
        EpochReport {
            seed,
            epoch,
            step: epoch,
            loss: 1.5,
            metrics: Some(metrics),
            seconds: 0.25,
            rows_per_second: None,
            flops: 0,
            lr: 0.01,
            gradient_norm: None,
            bill: None,
        }
    }

    #[test]
    fn checksums_are_those_of_the_standard() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa); // RFC 3720, appendix B.4
        assert_eq!(crc32c(b""), 0);
    }

    #[test]
    fn each_seed_has_a_file_of_whole_records() {
        let dir = tempfile::tempdir().unwrap();
        let mut events = Events::new(&dir.path().join("tb"), true).unwrap();
        for (seed, epoch) in [(0, 1), (0, 300), (1, 1)] {
            events.epoch(&report(seed, epoch)).unwrap();
        }
        drop(events);
        for (seed, records) in [(0, 3), (1, 2)] {
            let folder = dir.path().join("tb").join(format!("seed-{seed}"));
            let file = std::fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
            let all = std::fs::read(file).unwrap();
            let (mut at, mut found) = (0, Vec::new());
            while at < all.len() {
                let word = |at: usize| u32::from_le_bytes(all[at..at + 4].try_into().unwrap());
                let length = u64::from_le_bytes(all[at..at + 8].try_into().unwrap()) as usize;
                assert_eq!(word(at + 8), masked(&all[at..at + 8]));
                let message = &all[at + 12..at + 12 + length];
                assert_eq!(word(at + 12 + length), masked(message));
                found.push(message.to_vec());
                at += 16 + length;
            }
            assert_eq!(found.len(), records);
            assert!(found[0].ends_with(FILE_VERSION.as_bytes()));
            let has = |text: &str| found[1].windows(text.len()).any(|part| part == text.as_bytes());
            assert!(has("loss/train") && has("accuracy/test") && !has("accuracy/validation"));
        }
    }

    #[test]
    fn numbers_are_written_as_protocol_buffers_have_them() {
        let mut found = Vec::new();
        varint(&mut found, 300);
        assert_eq!(found, [0xac, 0x02]);
        found.clear();
        float(&mut found, 2, 1.0);
        assert_eq!(found, [0x15, 0, 0, 0x80, 0x3f]);
    }
}

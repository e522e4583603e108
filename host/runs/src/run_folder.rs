//! Run folders, which contain the results of a run and everything that is needed to use its model.
//!
//! | file | content |
//! | --- | --- |
//! | `config.toml` | the resolved configuration, a recipe that repeats the run |
//! | `schema.json` | the columns, classes and tokens that the model was trained on: [`Schema`] |
//! | `versions.json` | version of eciton and of the kernel contract, kernel digests, numeric class |
//! | `metrics.jsonl` | one [`EpochReport`] per line, in plain columns; a loss that is not finite is null |
//! | `curve.svg` | a picture of the first seed's loss and metric over the epochs |
//! | `summary.json` | the [`Summary`] with a `format` number |
//! | `model.safetensors` | the first seed's weights, f32 (signs and scales for binary layers); its metadata has their digest |
//! | `predictions.npz` | predictions and known labels of every row ([`Arrays`]) |
//! | `seed-N/` | model and predictions of a further seed |
//!
//! A [`RunFolder`] is written in a temporary folder next to its final path, and
//! [`RunFolder::finish`] moves it there. If it is dropped before, the temporary folder is removed.
//!
//! A process that is killed leaves the temporary folder behind. Its name is `.NAME.partial-` with
//! six random characters, and the next run with the same path removes it. The folder of a run that
//! wrote checkpoints is synced to disk before the checkpoints are removed. Other run folders are
//! not synced, so a power failure may damage them.
//!
//! A [`Run`] is a run folder that was read. Damaged weights are detected by their digests.
//!
//! ```no_run
//! # fn main() -> Result<(), eciton_runs::run_folder::Error> {
//! let run = eciton_runs::run_folder::Run::open("runs/first".as_ref())?;
//! for tensor in &run.tensors {
//!     println!("{} {:?}", tensor.name, tensor.shape);
//! }
//! # Ok(())
//! # }
//! ```

mod error;
mod layout;
pub mod model;
mod packed;
mod predictions;
mod record;
mod run;
pub mod tensor;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{ErrorKind, Read as _, Write as _};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use eciton_graph::dataset::VertexIds;
use eciton_recipe::Config;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

pub use error::{Error, Result};
pub use layout::{CONTRACT, ECITON_VERSION, FORMAT};
pub use model::{MAX_HEADER_BYTES, MAX_TENSORS, Model, model_digest};
pub use predictions::{Arrays, MAX_MATRIX_BYTES, MAX_NAMED_BYTES, MAX_WORDS_BYTES, save_predictions};
pub use record::{MAX_RECORD_BYTES, Versions};
pub use run::{MAX_METRICS_BYTES, Run, check_results, epochs, recipe, summary};
pub use tensor::{MAX_MODEL_BYTES, NamedTensor};

pub use layout::{MODEL, PREDICTIONS, SCHEMA};
pub use model::decode_any;
pub use run::parse_schema;

use crate::durable::sync_folder;
use crate::provenance::hex;
use crate::report::{EpochReport, ResolvedSetting, Summary};
use crate::schema::Schema;
pub use error::{limit, malformed, reading, writing};
use layout::{CONFIG, CURVE, METRICS, RECORDS, SUMMARY, VERSIONS, file_digest, seed_folder};
pub use record::{json, parse};
pub use run::read;

/// Name of the model file while it is being written.
const MODEL_PARTIAL: &str = "model.safetensors.partial";
/// Name of a placeholder file that reserves disk space for the model and the records.
const ROOM: &str = ".room";
/// Number of bytes that are reserved for the records, in addition to the model.
const ROOM_BYTES: u64 = 256 << 10;
/// Number of buffered bytes above which the lines for `metrics.jsonl` are written.
const LINES_BYTES: usize = 1 << 16;

/// Marker in the name of a temporary folder, `.NAME.partial-XXXXXX`. It separates the name of the
/// run from the random characters.
const PARTIAL: &str = ".partial-";
const RANDOM_CHARS: usize = 6;
/// Maximum length of a run name that a temporary folder's name contains, because file systems limit
/// names to 255 bytes. For longer run names, it contains no run name.
const MAX_NAME_BYTES: usize = 200;

/// Lock that is held while a run folder or a checkpoint folder is created.
static MAKING: Mutex<()> = Mutex::new(());

/// Prevents all runs of this process from creating folders until the guard is dropped. A process
/// that is about to exit takes the guard before it removes unfinished folders. Otherwise the
/// training thread could create another one.
pub fn hold_folders() -> MutexGuard<'static, ()> {
    MAKING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A run folder that is being written. It has a temporary name until [`RunFolder::finish`], and is
/// removed if it is dropped before.
// Fields are dropped in this order: the open file, its folder, and the parent folders.
#[derive(Debug)]
pub struct RunFolder {
    metrics: Lines,
    partial: TempDir,
    parents: Parents,
    /// Path of the run folder as given by the user, for messages.
    path: PathBuf,
    /// Absolute path that the finished folder is moved to, with symbolic links resolved.
    target: PathBuf,
    /// True if the finished folder may replace an existing one at `target`.
    replaces: bool,
}

impl RunFolder {
    /// Creates a temporary folder next to `path`, and the parent folders that do not exist.
    ///
    /// # Errors
    /// Returns [`Error::Occupied`] if a file or a folder with content is at `path`, and
    /// [`Error::Name`] if `path` has no last component. Returns [`Error::Write`] if a folder cannot
    /// be created.
    pub fn create(path: &Path) -> Result<Self> {
        Self::beside(path, vacant(path)?, false)
    }

    /// Creates the folder of a resumed run, like [`RunFolder::create`]. A folder that the run wrote
    /// before it was stopped may be at `path`. It stays until the new folder replaces it.
    ///
    /// # Errors
    /// Returns the errors of [`RunFolder::create`], but accepts an existing folder with the
    /// configuration of a run.
    pub fn create_over(path: &Path) -> Result<Self> {
        if !path.join(CONFIG).is_file() {
            return Self::create(path);
        }
        let target = path.canonicalize().map_err(writing(path))?;
        Self::beside(path, target, true)
    }

    fn beside(path: &Path, target: PathBuf, replaces: bool) -> Result<Self> {
        let (Some(parent), Some(name)) = (target.parent(), target.file_name()) else {
            return Err(Error::Name { path: path.to_owned() });
        };
        let _held = hold_folders();
        let parents = Parents::make(parent)?;
        let partial = temporary(parent, name).map_err(writing(path))?;
        let metrics = File::create(partial.path().join(METRICS)).map_err(writing(&path.join(METRICS)))?;
        let metrics = Lines { file: metrics, unwritten: Vec::new() };
        Ok(Self { metrics, partial, parents, path: path.to_owned(), target, replaces })
    }

    /// Writes the resolved configuration to `config.toml` and returns its text. The origin of each
    /// setting in `said` is added as a comment.
    ///
    /// # Errors
    /// Returns an [`Error`] if a seed is above 2^63 - 1, which TOML cannot represent, or if the
    /// operating system refuses to write.
    pub fn write_config(&mut self, config: &Config, said: &[ResolvedSetting]) -> Result<String> {
        let path = self.path.join(CONFIG);
        let from = |key: &str| said.iter().find(|said| said.key == key).map(|said| said.from.clone());
        let text =
            config.to_commented_toml(&from).map_err(|e| Error::Config { path, source: Box::new(e) })?;
        self.write(CONFIG, text.as_bytes())?;
        Ok(text)
    }

    /// Writes the schema of the model to `schema.json`.
    pub fn write_schema(&mut self, schema: &Schema) -> Result<()> {
        let bytes = record::json(schema, &self.path.join(SCHEMA))?;
        self.write(SCHEMA, &bytes)
    }

    /// Writes the versions of the software that produced the run to `versions.json`. Returns the
    /// content of the file.
    pub fn write_versions(&mut self, versions: &Versions) -> Result<Vec<u8>> {
        let bytes = record::json(versions, &self.path.join(VERSIONS))?;
        self.write(VERSIONS, &bytes)?;
        Ok(bytes)
    }

    /// Checks that the vertex ids fit into `predictions.npz`. Callers do this before the first
    /// epoch, because ids that are strings may be too long.
    ///
    /// # Errors
    /// Returns [`Error::Limit`] if the ids exceed [`MAX_WORDS_BYTES`].
    pub fn check_ids(&self, ids: &VertexIds) -> Result<()> {
        predictions::check_ids(ids, &self.path.join(PREDICTIONS))
    }

    /// Returns the absolute path that the finished folder will have, with symbolic links resolved.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Returns the name of the temporary folder, without its path.
    pub fn partial_name(&self) -> String {
        self.partial.path().file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Writes the buffered lines to `metrics.jsonl`. Returns the current path of the file in the
    /// temporary folder.
    pub fn flush_metrics(&mut self) -> Result<PathBuf> {
        self.metrics.flush().map_err(writing(&self.path.join(METRICS)))?;
        Ok(self.partial.path().join(METRICS))
    }

    /// Appends lines that were formatted earlier to `metrics.jsonl`, unchanged.
    pub fn append_lines(&mut self, lines: &[u8]) {
        self.metrics.append(lines);
    }

    /// Reserves disk space for a model of `model_bytes` bytes until [`RunFolder::release`]. This
    /// makes a full disk fail the run before its first epoch.
    ///
    /// # Errors
    /// Returns an error if the operating system cannot reserve the space.
    pub fn reserve(&mut self, model_bytes: u64) -> Result<()> {
        let bytes = model_bytes.saturating_add(ROOM_BYTES);
        let fill = || {
            let mut file = File::create(self.partial.path().join(ROOM))?;
            std::io::copy(&mut std::io::repeat(0).take(bytes), &mut file)
        };
        fill().map(drop).map_err(writing(&self.path.join(MODEL)))
    }

    /// Releases the reserved disk space. Called just before the model is written.
    pub fn release(&mut self) {
        let _ = fs::remove_file(self.partial.path().join(ROOM));
    }

    /// Returns the current path of the model file of a seed in the temporary folder. `None` stands
    /// for the first seed.
    pub fn model_of(&self, seed: Option<u64>) -> PathBuf {
        let folder = seed.map_or_else(PathBuf::new, |seed| seed_folder(seed).into());
        self.partial.path().join(folder).join(MODEL)
    }

    /// Appends the report of an epoch to `metrics.jsonl`. Lines are buffered and stay in memory
    /// while the disk is full. The run fails only if they still cannot be written at its end.
    ///
    /// # Errors
    /// Returns an [`Error`] if the report cannot be written as JSON.
    pub fn append_metrics(&mut self, report: &EpochReport) -> Result<()> {
        let line = serde_json::to_vec(report).map_err(std::io::Error::from);
        let mut line = line.map_err(|e| writing(&self.path.join(METRICS))(e))?;
        line.push(b'\n');
        self.metrics.append(&line);
        Ok(())
    }

    /// Truncates `metrics.jsonl` after its first `count` lines. Returns these lines.
    ///
    /// # Errors
    /// Returns an [`Error`] if the file cannot be read or written.
    pub fn rewind_metrics(&mut self, count: usize) -> Result<Vec<u8>> {
        let real = self.flush_metrics()?;
        let path = self.path.join(METRICS);
        let mut lines = read(&real, u64::MAX)?;
        let ends = lines.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
        let end = ends.take(count).last().map_or(0, |(at, _)| at + 1);
        lines.truncate(end);
        let file = &mut self.metrics.file;
        let cut = file.set_len(end as u64);
        cut.and_then(|()| std::io::Seek::seek(file, std::io::SeekFrom::End(0)).map(drop))
            .map_err(writing(&path))?;
        Ok(lines)
    }

    /// Returns the folder for the first seed's model and predictions, which is the run folder
    /// itself.
    pub fn top(&mut self) -> SeedFolder<'_> {
        let (real, path) = (self.partial.path().to_owned(), self.path.clone());
        SeedFolder { real, path, folder: PhantomData }
    }

    /// Creates and returns the folder `seed-N/` for the model and predictions of a further seed.
    ///
    /// # Errors
    /// Returns an error if the operating system cannot create the folder.
    pub fn seed(&mut self, seed: u64) -> Result<SeedFolder<'_>> {
        let name = seed_folder(seed);
        let (real, path) = (self.partial.path().join(&name), self.path.join(name));
        fs::create_dir_all(&real).map_err(writing(&path))?;
        Ok(SeedFolder { real, path, folder: PhantomData })
    }

    /// Writes the summary, together with the SHA-256 of the other files of the folder. Those files
    /// must be complete. The `run_dir` in the written summary is the final path of the folder.
    ///
    /// # Errors
    /// Returns an [`Error`] if a file cannot be read or written, or if the summary exceeds
    /// [`MAX_RECORD_BYTES`].
    pub fn write_summary(&mut self, summary: &Summary) -> Result<()> {
        self.flush_metrics()?;
        let files = digests(self.partial.path(), summary).map_err(writing(&self.path))?;
        let bytes = record::summary_json(summary, &self.path, &files, &self.path.join(SUMMARY))?;
        self.write(SUMMARY, &bytes)
    }

    /// Writes the picture of the first seed's epochs. `svg` is the text of the picture.
    ///
    /// # Errors
    /// Returns an error if the operating system refuses to write.
    pub fn write_curve(&mut self, svg: &str) -> Result<()> {
        self.write(CURVE, svg.as_bytes())
    }

    /// Moves the folder to its final path. Returns this path as the user gave it.
    ///
    /// # Errors
    /// Returns [`Error::Unfinished`] unless the configuration, the schema, the versions, the
    /// summary and the first seed's model are written. Returns [`Error::Publish`] if the folder
    /// cannot be moved, for instance because the path is in use by now. In this case the temporary
    /// folder stays, and the error has its path.
    pub fn finish(self) -> Result<PathBuf> {
        self.publish(false).map_err(|(_, error)| error)
    }

    /// Moves the folder to its final path, like [`RunFolder::finish`]. If `durable` is true, all
    /// files are synced to disk before the move, and the parent folder after it. If the folder is
    /// incomplete, the error returns it to the caller.
    pub fn publish(mut self, durable: bool) -> std::result::Result<PathBuf, (Option<Box<Self>>, Error)> {
        if let Err(error) = self.complete(durable) {
            return Err((Some(Box::new(self)), error));
        }
        let Self { metrics, partial, mut parents, path, target, replaces } = self;
        // Some systems cannot move an open file.
        drop(metrics);
        let partial = partial.keep();
        let moved = match replaces {
            true => replace(&partial, &target),
            false => fs::rename(&partial, &target).or_else(|error| {
                // Some systems cannot rename a folder over an empty one. A folder with content
                // stays.
                fs::remove_dir(&target).map_err(|_| error).and_then(|()| fs::rename(&partial, &target))
            }),
        };
        parents.keep();
        tracing::info!(folder = %target.display(), durable, "run folder written");
        if let Err(source) = moved {
            return Err((None, Error::Publish { path, kept: partial, source }));
        }
        if durable && let Some(parent) = target.parent() {
            sync_folder(parent).map_err(|e| (None, writing(&path)(e)))?;
        }
        Ok(path)
    }

    /// Writes the buffered lines, checks that all required files exist, and syncs them if `durable`
    /// is true.
    fn complete(&mut self, durable: bool) -> Result<()> {
        self.release();
        self.metrics.flush().map_err(writing(&self.path.join(METRICS)))?;
        for file in [CONFIG, VERSIONS, SCHEMA, SUMMARY, MODEL] {
            if !self.partial.path().join(file).is_file() {
                return Err(Error::Unfinished { path: self.path.clone(), file });
            }
        }
        if durable {
            sync_all(self.partial.path()).map_err(writing(&self.path))?;
        }
        Ok(())
    }

    /// Returns true if the first seed's model is written and the folder replaces no older run
    /// folder.
    pub fn has_model(&self) -> bool {
        !self.replaces && self.partial.path().join(MODEL).is_file()
    }

    /// Moves an incomplete run folder that has a model to its final path, so that the model is not
    /// lost. Returns the path of the folder and the names of its files.
    pub fn salvage(mut self) -> (PathBuf, Vec<String>) {
        self.release();
        let _ = self.metrics.flush();
        let partial = self.partial.keep();
        self.parents.keep();
        let moved = fs::rename(&partial, &self.target);
        let place = moved.map_or(partial, |()| self.path);
        let files = files(&place);
        (place, files)
    }

    fn write(&self, file: &str, bytes: &[u8]) -> Result<()> {
        let place = self.partial.path().join(file);
        let written = fs::write(&place, bytes);
        whole(&place, written).map_err(writing(&self.path.join(file)))
    }
}

/// Passes on the result of writing a file, and removes the file if the result is an error.
fn whole<T>(place: &Path, written: std::io::Result<T>) -> std::io::Result<T> {
    written.inspect_err(|_| drop(fs::remove_file(place)))
}

/// Buffered lines of a text file. Lines that could not be written stay in the buffer.
#[derive(Debug)]
struct Lines {
    file: File,
    unwritten: Vec<u8>,
}

impl Lines {
    fn append(&mut self, lines: &[u8]) {
        self.unwritten.extend_from_slice(lines);
        if self.unwritten.len() >= LINES_BYTES {
            // An error is reported at the end, if there is still no space then.
            let _ = self.flush();
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        let mut written = 0;
        let done = loop {
            let rest = self.unwritten.get(written..).unwrap_or_default();
            if rest.is_empty() {
                break Ok(());
            }
            match self.file.write(rest) {
                Ok(0) => break Err(ErrorKind::WriteZero.into()),
                Ok(n) => written += n,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
        };
        self.unwritten.drain(..written);
        done
    }
}

/// Creates a temporary folder in `parent` for the run folder `name`.
fn temporary(parent: &Path, name: &std::ffi::OsStr) -> std::io::Result<TempDir> {
    let mut prefix = std::ffi::OsString::from(".");
    if name.len() <= MAX_NAME_BYTES {
        prefix.push(name);
    }
    prefix.push(PARTIAL);
    tempfile::Builder::new().prefix(&prefix).rand_bytes(RANDOM_CHARS).tempdir_in(parent)
}

/// Moves the folder `new` to `target`, and removes the folder that was there. If the process is
/// killed in between, both folders remain under temporary names, and the checkpoints of the run
/// remain too.
fn replace(new: &Path, target: &Path) -> std::io::Result<()> {
    let (Some(parent), Some(name)) = (target.parent(), target.file_name()) else {
        return Err(ErrorKind::InvalidInput.into());
    };
    if !target.exists() {
        return fs::rename(new, target);
    }
    let old = temporary(parent, name)?;
    fs::rename(target, old.path())?;
    let moved = fs::rename(new, target);
    if moved.is_err() && fs::rename(old.path(), target).is_err() {
        let _ = old.keep();
    }
    moved
}

/// Returns the names of the files in a folder, in alphabetical order.
pub fn files(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// The folder for the model and the predictions of one seed within a [`RunFolder`].
#[derive(Debug)]
pub struct SeedFolder<'a> {
    real: PathBuf,
    path: PathBuf,
    folder: PhantomData<&'a mut RunFolder>,
}

impl SeedFolder<'_> {
    /// Removes a predictions file that was not written completely.
    pub fn discard_predictions(&mut self) {
        let _ = fs::remove_file(self.real.join(PREDICTIONS));
    }

    /// Writes the model file with `metadata`, to which `eciton` and `digest` are added. Returns the
    /// digest. Weights named in `signs` are stored as signs and scales. The file then keeps a
    /// `digest` that `metadata` already has, because it is the digest of the trained weights.
    ///
    /// # Errors
    /// Returns [`Error::Values`] if names are empty or not unique, or if values do not fill their
    /// extents. Returns an error above [`MAX_TENSORS`], [`MAX_HEADER_BYTES`] or
    /// [`MAX_MODEL_BYTES`], and if the operating system refuses to write.
    pub fn write_model(
        &mut self,
        tensors: &[NamedTensor],
        metadata: &BTreeMap<String, String>,
        signs: &BTreeSet<String>,
    ) -> Result<String> {
        let (entries, unpacked) = packed::entries(tensors, signs);
        let mut metadata = metadata.clone();
        let trained = metadata.remove(model::DIGEST).filter(|_| unpacked.is_some());
        let digest = trained.unwrap_or_else(|| model_digest(tensors));
        metadata.remove(packed::UNPACKED);
        metadata.extend(unpacked.map(|tensors| (packed::UNPACKED.to_owned(), model_digest(&tensors))));
        self.write_entries(&entries, metadata, digest)
    }

    /// Writes a model file from its tensors. `digest` is the digest of their values.
    pub fn write_entries(
        &mut self,
        entries: &[tensor::Entry<'_>],
        mut metadata: BTreeMap<String, String>,
        digest: String,
    ) -> Result<String> {
        let path = self.path.join(MODEL);
        metadata.insert("eciton".to_owned(), ECITON_VERSION.to_owned());
        metadata.insert(model::DIGEST.to_owned(), digest.clone());
        let header = model::header(entries, &metadata, MAX_MODEL_BYTES, &path)?;
        let (real, place) = (self.real.join(MODEL), self.real.join(MODEL_PARTIAL));
        let fill = || {
            model::write(File::create(&place)?, &header, entries, &|_| {}).map(drop)?;
            fs::rename(&place, real)
        };
        fill().map_err(|error| {
            let _ = fs::remove_file(&place);
            writing(&path)(error)
        })?;
        Ok(digest)
    }

    /// Writes the predictions of the seed to `predictions.npz`.
    ///
    /// # Errors
    /// Returns an [`Error`] if the arrays do not have the same number of rows, or exceed
    /// [`MAX_MATRIX_BYTES`] or [`MAX_WORDS_BYTES`]. Also returns one if the operating system
    /// refuses to write.
    pub fn write_predictions(&mut self, arrays: &Arrays<'_>) -> Result<()> {
        let path = self.path.join(PREDICTIONS);
        arrays.check(&path)?;
        let file = File::create(self.real.join(PREDICTIONS)).map_err(writing(&path))?;
        arrays.write(file).map_err(writing(&path))
    }
}

/// Returns true if `name` is the name of a temporary folder of a run whose folder is called `run`.
pub fn is_partial(name: &str, run: &str) -> bool {
    let drawn = name.strip_prefix('.').and_then(|rest| rest.strip_prefix(run)?.strip_prefix(PARTIAL));
    drawn.is_some_and(|d| d.len() == RANDOM_CHARS && d.bytes().all(|b| b.is_ascii_alphanumeric()))
}

/// Returns true if `path` is the folder of a finished run, which means that it contains a summary.
pub fn is_run(path: &Path) -> bool {
    path.join(SUMMARY).is_file()
}

/// Returns true if `path` contains the configuration and the model of a run, as in the folder of a
/// run that could not be written completely.
pub fn is_begun(path: &Path) -> bool {
    path.join(CONFIG).is_file() && path.join(MODEL).is_file()
}

/// Syncs a folder and all files in it to disk.
fn sync_all(folder: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() { sync_all(&path)? } else { File::open(&path)?.sync_all()? }
    }
    sync_folder(folder)
}

/// Checks that a folder can be created at `path`, and returns its absolute path. Fails unless the
/// path is free or an empty folder.
fn vacant(path: &Path) -> Result<PathBuf> {
    if path.file_name().is_none() {
        return Err(Error::Name { path: path.to_owned() });
    }
    let occupied = |found: String| Error::Occupied { path: path.to_owned(), found };
    let there = match path.metadata() {
        Ok(there) => there,
        Err(_) if path.is_symlink() => {
            return Err(occupied("a link without a target".to_owned()));
        }
        Err(e) if e.kind() == ErrorKind::NotFound => {
            return std::path::absolute(path).map_err(writing(path));
        }
        Err(e) => return Err(writing(path)(e)),
    };
    if !there.is_dir() {
        return Err(occupied("a file".to_owned()));
    }
    let mut names = Vec::new();
    for entry in fs::read_dir(path).map_err(reading(path))?.take(4) {
        names.push(entry.map_err(reading(path))?.file_name().to_string_lossy().into_owned());
    }
    if names.is_empty() {
        return path.canonicalize().map_err(reading(path));
    }
    names.sort();
    if names.len() > 3 {
        names.truncate(3);
        names.push("...".to_owned());
    }
    Err(occupied(format!("a folder with {}", names.join(", "))))
}

/// Parent folders that were created for a run folder, the deepest first. On drop they are removed,
/// unless the run folder was finished.
#[derive(Debug)]
struct Parents(Vec<PathBuf>);

impl Parents {
    fn make(parent: &Path) -> Result<Self> {
        let missing = parent.ancestors().take_while(|p| p.symlink_metadata().is_err());
        let made = Self(missing.map(Path::to_owned).collect());
        fs::create_dir_all(parent).map_err(writing(parent))?;
        Ok(made)
    }

    fn keep(&mut self) {
        self.0.clear();
    }
}

impl Drop for Parents {
    fn drop(&mut self) {
        for folder in &self.0 {
            // A folder that another process uses in the meantime is not empty, and stays.
            let _ = fs::remove_dir(folder);
        }
    }
}

/// Writes new versions of the configuration and the summary in `folder`, before the folder is moved
/// to `target`. The recorded digests of all other files stay as they are.
pub fn readdress(folder: &Path, target: &Path, config: &Config, summary: &Summary) -> Result<()> {
    let path = folder.join(SUMMARY);
    let mut files = record::recorded_files(&read(&path, MAX_RECORD_BYTES)?, &path)?;
    let path = folder.join(CONFIG);
    let from = |key: &str| summary.settings.iter().find(|said| said.key == key).map(|said| said.from.clone());
    let text = config
        .to_commented_toml(&from)
        .map_err(|e| Error::Config { path: path.clone(), source: Box::new(e) })?;
    fs::write(&path, &text).map_err(writing(&path))?;
    files.insert(CONFIG.to_owned(), hex(&Sha256::digest(&text)));
    let path = folder.join(SUMMARY);
    let bytes = record::summary_json(summary, target, &files, &path)?;
    fs::write(&path, bytes).map_err(writing(&path))
}

/// Returns the SHA-256 of each record and result file in `folder`, in hexadecimal and keyed by file
/// name. [`RECORDS`] and [`results`] list these files.
fn digests(folder: &Path, summary: &Summary) -> std::io::Result<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    for name in RECORDS.into_iter().map(str::to_owned).chain(record::results(summary)) {
        match file_digest(&folder.join(&name)) {
            Ok(digest) => drop(found.insert(name, digest)),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

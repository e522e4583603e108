//! The file `predictions.npz`: the predictions and the known labels of every row.
//!
//! | array | content |
//! | --- | --- |
//! | `ids` [V] | the user's ids of the rows; for labelled edges, their numbers in the edge table |
//! | `sources` [V], `targets` [V] | the user's ids of the ends of each row, if rows are edges |
//! | `scores` [V, columns] | outputs of the last layer, f32; absent for link prediction |
//! | `predicted` | classes [V] by name, or by number (-1 for none) if they have no names; flags [V, labels] |
//! | `probabilities` [V, columns] | softmax for classes, sigmoid for several labels, f32 |
//! | `labels` | as `predicted`, with an empty text or -1 for none; f32 [V, columns] for labels and numbers, NaN for none |
//! | `parts` [V] | `train`, `val`, `test`, or an empty text |
//! | `classes` [columns] | names of classes or labels, in the order of columns, if there are any |
//! | `embeddings` [V, h] | only on request, and for link prediction |
//!
//! If the names take more than [`MAX_NAMED_BYTES`], `predicted` and `labels` are numbers.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;

use eciton_graph::dataset::VertexIds;
use eciton_recipe::TaskType;

use super::error::{Error, Result, limit, writing};
use crate::decisions::{self, Known};
use crate::npz_write::{NpzWriter, word_chars};

/// Maximum size of the `scores` array, and of the `embeddings` array, in bytes.
pub const MAX_MATRIX_BYTES: u64 = 64 << 30;
/// Maximum size of the `ids` array if ids are strings, in bytes. Each id takes the space of the
/// longest one, at 4 bytes per character.
pub const MAX_WORDS_BYTES: u64 = 1 << 30;

/// Maximum size of an array of class names, in bytes. Such an array has one name per row.
pub const MAX_NAMED_BYTES: u64 = 1 << 30;

/// Predictions for every row of a data set, as written to `predictions.npz`.
#[derive(Debug, Clone, Copy)]
pub struct Arrays<'a> {
    /// Ids of the rows in the user's data. They are stored as int64, as uint64 if an id is above
    /// 2^63 - 1, or as strings of a fixed width.
    pub ids: &'a VertexIds,
    /// Number of rows, V.
    pub vertices: u32,
    /// Scores of the last layer as a row-major matrix `[V, classes]`. `None` for link prediction,
    /// where only pairs of vertices have scores.
    pub scores: Option<&'a [f32]>,
    /// Embedding width h, and the embeddings as a row-major matrix `[V, h]`. `None` if they are not
    /// written.
    pub embeddings: Option<(usize, &'a [f32])>,
    /// Learning task, and the known labels of the rows. If `None`, only ids, scores and embeddings
    /// are written.
    pub known: Option<(TaskType, &'a Known)>,
}

impl Arrays<'_> {
    /// Returns the number of scores per row.
    fn columns(&self) -> usize {
        self.scores.map_or(0, <[f32]>::len).checked_div(self.vertices as usize).unwrap_or(0)
    }

    /// Checks that each array has one row per vertex, and that no array exceeds its size limit.
    /// `path` is used in errors only.
    pub(super) fn check(&self, path: &Path) -> Result<()> {
        let wrong = |what: &str, expected: String, found: String| {
            Err(Error::Values { path: path.to_owned(), what: what.to_owned(), expected, found })
        };
        let rows = self.vertices as usize;
        let ids = match self.ids {
            VertexIds::Dense => rows,
            VertexIds::Numbers(ids) => ids.len(),
            VertexIds::Words(ids) => ids.len(),
        };
        if ids != rows {
            return wrong("ids", format!("{rows}, one for each row"), ids.to_string());
        }
        check_ids(self.ids, path)?;
        if let Some(ends) = self.known.and_then(|(_, known)| known.ends.as_ref()) {
            ends.iter().try_for_each(|ids| check_ids(ids, path))?;
        }
        let (width, embeddings) = self.embeddings.unwrap_or((1, &[]));
        let scores = self.scores.unwrap_or(&[]);
        if rows.checked_mul(self.columns()) != Some(scores.len()) {
            let found = format!("{} values", scores.len());
            return wrong("scores", format!("one row for each of {rows} rows"), found);
        }
        if self.embeddings.is_some() && (width == 0 || rows.checked_mul(width) != Some(embeddings.len())) {
            let found = format!("{} values", embeddings.len());
            return wrong("embeddings", format!("{rows} rows of {width} values"), found);
        }
        if let Some((task, known)) = self.known {
            let each = if task == TaskType::Classification { 1 } else { self.columns() };
            let fits = |found: usize, each: usize| found == 0 || Some(found) == rows.checked_mul(each);
            if !fits(known.labels.len(), each) || !fits(known.parts.len(), 1) {
                let found = format!("{} labels and {} parts", known.labels.len(), known.parts.len());
                return wrong("labels", format!("{rows} rows of {each} labels, each with one part"), found);
            }
        }
        for (what, values) in [("scores", scores), ("embeddings", embeddings)] {
            limit(path, what, "bytes", MAX_MATRIX_BYTES, values.len() as u64 * 4)?;
        }
        Ok(())
    }

    /// Writes all arrays to `file` as an `.npz` archive.
    pub(super) fn write(&self, file: File) -> io::Result<()> {
        let mut npz = NpzWriter::new(BufWriter::with_capacity(1 << 16, file));
        npz.ids("ids", self.ids, self.vertices)?;
        if let Some([sources, targets]) = self.known.and_then(|(_, known)| known.ends.as_ref()) {
            npz.ids("sources", sources, self.vertices)?;
            npz.ids("targets", targets, self.vertices)?;
        }
        if let Some(scores) = self.scores {
            npz.matrix("scores", self.columns(), scores)?;
        }
        if let (Some(scores), Some((task, known))) = (self.scores, self.known) {
            self.write_known(&mut npz, scores, task, known)?;
        }
        if let Some((width, values)) = self.embeddings {
            npz.matrix("embeddings", width, values)?;
        }
        npz.finish()?.into_inner()?;
        Ok(())
    }
}

impl Arrays<'_> {
    /// Writes the predictions, the probabilities, the known labels and the parts of the data set.
    fn write_known<W: io::Write + io::Seek>(
        &self,
        npz: &mut NpzWriter<W>,
        scores: &[f32],
        task: TaskType,
        known: &Known,
    ) -> io::Result<()> {
        let (rows, columns) = (self.vertices as usize, self.columns());
        let row = |at: usize| scores.get(at * columns..(at + 1) * columns).unwrap_or_default();
        let extents = (rows, columns);
        let width = word_chars(&known.names);
        let named = !known.names.is_empty() && (width * 4 * rows) as u64 <= MAX_NAMED_BYTES;
        let name = |class: Option<usize>| {
            class.and_then(|class| known.names.get(class)).map(String::as_str).unwrap_or_default()
        };
        let number = |class: Option<usize>| class.map_or(-1, |class| class as i64);
        match task {
            TaskType::Classification if named => {
                npz.words("predicted", (rows, width), |at| name(decisions::class(row(at))))?;
            }
            TaskType::Classification => {
                npz.whole("predicted", rows, |at| number(decisions::class(row(at))))?
            }
            TaskType::MultiLabel => {
                let holds = |at: usize| scores.get(at).is_some_and(|&score| decisions::holds(score));
                npz.flags("predicted", extents, holds)?;
            }
            // For regression, the scores are the predicted numbers.
            TaskType::Regression => npz.matrix("predicted", columns, scores)?,
            TaskType::LinkPrediction => return Ok(()),
        }
        if task != TaskType::Regression {
            npz.made("probabilities", extents, |at, into| decisions::probabilities(task, row(at), into))?;
        }
        if !known.labels.is_empty() {
            match task {
                TaskType::Classification if named => {
                    npz.words("labels", (rows, width), |at| name(known.class(at)))?;
                }
                TaskType::Classification => npz.whole("labels", rows, |at| number(known.class(at)))?,
                _ => npz.matrix("labels", columns, &known.labels)?,
            }
        }
        if !known.parts.is_empty() {
            npz.words("parts", (rows, 5), |at| known.part(at))?;
        }
        if !known.names.is_empty() {
            let name = |at: usize| known.names.get(at).map(String::as_str).unwrap_or_default();
            npz.words("classes", (known.names.len(), width), name)?;
        }
        Ok(())
    }
}

/// Checks that the array of ids does not exceed its size limit. `path` is used in errors only.
pub(super) fn check_ids(ids: &VertexIds, path: &Path) -> Result<()> {
    let VertexIds::Words(words) = ids else { return Ok(()) };
    let bytes = (word_chars(words) as u64).saturating_mul(4).saturating_mul(words.len() as u64);
    limit(path, "ids, each padded to the longest", "bytes", MAX_WORDS_BYTES, bytes)
}

/// Writes predictions to the file `path` atomically. Creates its folder if necessary, and replaces
/// an existing file.
///
/// # Errors
/// Returns an [`Error`] if the arrays do not have the same number of rows, or exceed
/// [`MAX_MATRIX_BYTES`] or [`MAX_WORDS_BYTES`]. Also returns one if the operating system refuses to
/// write.
pub fn save_predictions(path: &Path, arrays: &Arrays<'_>) -> Result<()> {
    arrays.check(path)?;
    if path.is_dir() {
        return Err(writing(path)(io::ErrorKind::IsADirectory.into()));
    }
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(parent).map_err(writing(path))?;
    let mut builder = tempfile::Builder::new();
    builder.prefix(".predictions.partial-");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // The permissions are reduced by the user's umask, as for any other file.
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    let partial = builder.tempfile_in(parent).map_err(writing(path))?;
    let file = partial.as_file().try_clone().map_err(writing(path))?;
    arrays.write(file).map_err(writing(path))?;
    partial.persist(path).map_err(|e| writing(path)(e.error))?;
    Ok(())
}

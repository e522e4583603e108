//! `predictions.npz`: `ids` [V], `scores` [V, classes] and, on request, `embeddings` [V, h]; of links `ids` and
//! `embeddings` alone.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;

use eciton_graph::dataset::VertexIds;

use super::error::{Error, Result, writing};
use super::model::limit;
use crate::npz_write::{NpzWriter, word_chars};

/// The most bytes of `scores`, and of `embeddings`.
pub const MAX_MATRIX_BYTES: u64 = 64 << 30;
/// The most bytes of `ids` that are words: each takes four times the longest word's characters.
pub const MAX_WORDS_BYTES: u64 = 1 << 30;

/// What is predicted for every vertex.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrays<'a> {
    pub ids: &'a VertexIds,
    pub vertices: u32,
    /// [V, classes]; `None` where only pairs have scores.
    pub scores: Option<&'a [f32]>,
    /// h and [V, h]
    pub embeddings: Option<(usize, &'a [f32])>,
}

impl Arrays<'_> {
    /// Classes.
    fn columns(&self) -> usize {
        self.scores.map_or(0, <[f32]>::len).checked_div(self.vertices as usize).unwrap_or(0)
    }

    /// Whether all arrays have as many rows as there are vertices, within the limits.
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
            return wrong("ids", format!("{rows}, one a vertex"), ids.to_string());
        }
        check_ids(self.ids, path)?;
        let (width, embeddings) = self.embeddings.unwrap_or((1, &[]));
        let scores = self.scores.unwrap_or(&[]);
        if rows.checked_mul(self.columns()) != Some(scores.len()) {
            let found = format!("{} values", scores.len());
            return wrong("scores", format!("a row for each of {rows} vertices"), found);
        }
        if self.embeddings.is_some() && (width == 0 || rows.checked_mul(width) != Some(embeddings.len())) {
            let found = format!("{} values", embeddings.len());
            return wrong("embeddings", format!("{rows} rows of {width} values"), found);
        }
        for (what, values) in [("scores", scores), ("embeddings", embeddings)] {
            limit(path, what, "bytes", MAX_MATRIX_BYTES, values.len() as u64 * 4)?;
        }
        Ok(())
    }

    /// Writes the archive.
    pub(super) fn write(&self, file: File) -> io::Result<()> {
        let mut npz = NpzWriter::new(BufWriter::with_capacity(1 << 16, file));
        npz.ids("ids", self.ids, self.vertices)?;
        if let Some(scores) = self.scores {
            npz.matrix("scores", self.columns(), scores)?;
        }
        if let Some((width, values)) = self.embeddings {
            npz.matrix("embeddings", width, values)?;
        }
        npz.finish()?.into_inner()?;
        Ok(())
    }
}

/// Whether ids can be written; `path` is named in errors.
pub(super) fn check_ids(ids: &VertexIds, path: &Path) -> Result<()> {
    let VertexIds::Words(words) = ids else { return Ok(()) };
    let bytes = (word_chars(words) as u64).saturating_mul(4).saturating_mul(words.len() as u64);
    limit(path, "ids (as wide as the longest)", "bytes", MAX_WORDS_BYTES, bytes)
}

/// Writes predictions to a file of their own, whole or not at all; what is there is replaced.
///
/// `scores` are [`vertices`, classes], row-major, `None` where only pairs have scores; `embeddings` their width h
/// and [`vertices`, h]. Ids are int64, uint64 where a number is above 2^63 - 1, or text of a fixed width.
///
/// # Errors
/// Arrays that do not fit together or are above [`MAX_MATRIX_BYTES`] or [`MAX_WORDS_BYTES`]; what the
/// operating system refuses.
pub fn save_predictions(
    path: &Path,
    ids: &VertexIds,
    vertices: u32,
    scores: Option<&[f32]>,
    embeddings: Option<(usize, &[f32])>,
) -> Result<()> {
    let arrays = Arrays { ids, vertices, scores, embeddings };
    arrays.check(path)?;
    if path.is_dir() {
        return Err(writing(path)(io::ErrorKind::IsADirectory.into()));
    }
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    builder.prefix(".predictions.partial-");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // Less the user's mask, as for any other file.
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    let partial = builder.tempfile_in(parent).map_err(writing(path))?;
    let file = partial.as_file().try_clone().map_err(writing(path))?;
    arrays.write(file).map_err(writing(path))?;
    partial.persist(path).map_err(|e| writing(path)(e.error))?;
    Ok(())
}

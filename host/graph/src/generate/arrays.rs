//! Generated graphs as plain `.npy` arrays, a format that other tools can read as well. The arrays
//! are `indptr`, `indices`, `feat`, `label`, `train`, `val` and `test`. The file `meta.json`
//! contains the specification.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::Generated;
use crate::adjacency::Graph;
use crate::error::{Error, Place, Result};
use crate::labels::Labels;
use crate::split::{NO_LABEL, Split};

/// Number of bytes that are converted and written at a time.
const PIECE_BYTES: usize = 4 << 20;
/// Maximum number of vertices. The indices in the arrays are signed 32-bit numbers.
const MAX_VERTICES: u64 = 1 << 31;

/// Generated graph with its labels and split, ready to be written as arrays.
#[derive(Debug, Clone, Copy)]
pub struct Arrays<'a> {
    /// Name of the data set in `meta.json`.
    pub name: &'a str,
    /// Generator of the graph, which supplies the features.
    pub made: &'a Generated,
    /// Edges of the graph, of which the lists of in-neighbours are written.
    pub graph: &'a Graph,
    /// Labels of all vertices.
    pub labels: &'a Labels,
    /// Ids of the vertices for training, validation and test.
    pub split: &'a Split,
}

/// Writes the arrays into an existing folder, piece by piece with `threads` threads. `wrote` is
/// called with the number of bytes of each piece, and an error of `wrote` stops the writing. A
/// single column of flags is read back as two classes.
///
/// # Errors
/// Returns [`Error::Write`] if a file cannot be written, [`Error::Limit`] for more than 2^31
/// vertices, which 32-bit indices cannot address, and the errors of `wrote`.
pub fn write_arrays(
    folder: &Path,
    arrays: &Arrays<'_>,
    threads: usize,
    wrote: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<()> {
    let Arrays { graph, labels, split, made, .. } = *arrays;
    let vertices = u64::from(graph.vertices());
    if vertices > MAX_VERTICES {
        return Err(Error::Limit {
            place: Place::whole(folder.display().to_string()),
            limit: "arrays",
            unit: "vertices",
            allowed: MAX_VERTICES,
            found: vertices,
            remedy: "write a store instead",
        });
    }
    let file = |part: &str, element: &str, shape: &[u64]| {
        Npy::create(folder.join(format!("{part}.npy")), element, shape)
    };
    let wide = |id: &u32| i64::from(*id).to_le_bytes();
    let offsets = graph.offsets();
    file("indptr", "<i8", &[offsets.len() as u64])?.all(offsets, |offset| offset.to_le_bytes(), wrote)?;
    file("indices", "<i4", &[graph.edges()])?.all(graph.neighbours(), |id| id.to_le_bytes(), wrote)?;
    match labels {
        Labels::Classes { of, .. } => {
            // Unlabelled vertices have -1, which readers of such arrays expect.
            let class = |&c: &u32| if c == NO_LABEL { -1 } else { i64::from(c) }.to_le_bytes();
            file("label", "<i8", &[vertices])?.all(of, class, wrote)?;
        }
        Labels::Flags(values) | Labels::Numbers(values) => {
            let shape = [vertices, u64::from(values.columns())];
            file("label", "<f4", &shape)?.all(values.as_slice(), |v| v.to_le_bytes(), wrote)?;
        }
    }
    for (part, ids) in [("train", &split.train), ("val", &split.validation), ("test", &split.test)] {
        file(part, "<i8", &[ids.len() as u64])?.all(ids, wide, wrote)?;
    }
    let columns = u64::from(made.planted().columns());
    if columns > 0 {
        let mut file = file("feat", "<f4", &[vertices, columns])?;
        made.planted()
            .feature_pieces(threads, &mut |rows| file.piece(rows, |value| value.to_le_bytes(), wrote))?;
    }
    let path = folder.join("meta.json");
    let text = format!("{:#}\n", meta(arrays));
    std::fs::write(&path, text).map_err(|source| Error::Write { path, source })
}

fn meta(arrays: &Arrays<'_>) -> serde_json::Value {
    let Arrays { name, made, graph, labels, split } = *arrays;
    let mut degrees: Vec<u32> = (0..graph.vertices()).map(|v| graph.in_degree(v)).collect();
    degrees.sort_unstable();
    json!({
        "name": name,
        "v": graph.vertices(),
        "e": graph.edges(),
        "f": made.planted().columns(),
        "c": labels.width(),
        "split": "random",
        "train": split.train.len(),
        "val": split.validation.len(),
        "test": split.test.len(),
        "deg_mean": graph.edges() as f64 / f64::from(graph.vertices()),
        "deg_median": degrees.get(degrees.len() / 2),
        "deg_max": degrees.last(),
        "deg_min": degrees.first(),
        "args": made.parameters(),
    })
}

/// An `.npy` file that is being written, with a buffer for its bytes.
struct Npy {
    file: File,
    path: PathBuf,
    bytes: Vec<u8>,
}

impl Npy {
    /// Creates a file with an `.npy` header (version 1). The header is padded to a multiple of 64
    /// bytes, as NumPy does.
    fn create(path: PathBuf, element: &str, shape: &[u64]) -> Result<Self> {
        let extents = match shape {
            [one] => format!("({one},)"),
            more => format!("({})", more.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")),
        };
        let mut header = format!("{{'descr': '{element}', 'fortran_order': False, 'shape': {extents}, }}");
        let length = (10 + header.len() + 1).next_multiple_of(64) - 10;
        header.push_str(&" ".repeat(length - header.len() - 1));
        header.push('\n');
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((length as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        let created = File::create_new(&path).and_then(|mut file| file.write_all(&bytes).map(|()| file));
        match created {
            Ok(file) => Ok(Self { file, path, bytes }),
            Err(source) => Err(Error::Write { path, source }),
        }
    }

    /// Writes one piece of an array's values.
    fn piece<T, const BYTES: usize>(
        &mut self,
        values: &[T],
        to_bytes: impl Fn(&T) -> [u8; BYTES],
        wrote: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<()> {
        self.bytes.resize(values.len() * BYTES, 0);
        for (bytes, value) in self.bytes.chunks_exact_mut(BYTES).zip(values) {
            bytes.copy_from_slice(&to_bytes(value));
        }
        self.file
            .write_all(&self.bytes)
            .map_err(|source| Error::Write { path: self.path.clone(), source })?;
        wrote(self.bytes.len() as u64)
    }

    /// Writes all values of an array, piece by piece, and completes the file.
    fn all<T, const BYTES: usize>(
        mut self,
        values: &[T],
        to_bytes: impl Fn(&T) -> [u8; BYTES],
        wrote: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<()> {
        for values in values.chunks(PIECE_BYTES / BYTES) {
            self.piece(values, &to_bytes, wrote)?;
        }
        Ok(())
    }
}

//! The arrays of a store, and the writer of one.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::marker::PhantomData;
use std::path::PathBuf;

use eciton_tensor::{Plain, bytes_of};

use crate::error::{Error, Result};

/// An array of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    /// `[V + 1]` u64: where each vertex's in-neighbours begin.
    Offsets,
    /// `[E]` u32: in-neighbours, ascending within a vertex.
    Neighbours,
    /// `[V + 1]` u64: the same for out-neighbours, where not every edge has its reverse.
    OutOffsets,
    /// `[E]` u32.
    OutNeighbours,
    /// `[V, stride]` f32: dense rows, padded with zeros.
    Features,
    /// `[V + 1]` u64: where each vertex's stored features begin.
    FeatureOffsets,
    /// `[stored]` u32: their columns, ascending within a vertex.
    FeatureColumns,
    /// `[stored]` f32: their values.
    FeatureValues,
    /// u32, ascending: row of each correction of a feature.
    CorrectionRows,
    /// u32: column of each correction.
    CorrectionColumns,
    /// f64: exact value less the stored feature.
    CorrectionValues,
    /// `[E, columns]` f32, without padding: features of edges, in the order of `neighbours`.
    EdgeFeatures,
    /// `[V]` u32, the largest number for none: classes.
    Labels,
    /// `[V, columns]` f32, NaN for unknown: flags or numbers, in place of classes.
    LabelValues,
    /// u32: ascending vertices.
    Train,
    /// u32: ascending vertices.
    Validation,
    /// u32: ascending vertices.
    Test,
    /// `[V]` u32: of many graphs the vertex that stands for the one of each vertex.
    Graphs,
    /// `[graphs]` u64: the user's ids of graphs, where these are numbers.
    GraphIds,
    /// `[graphs]` u64: where each word of `graph-id-text` ends.
    GraphIdEnds,
    /// Bytes: the user's ids of graphs as UTF-8, one after the other.
    GraphIdText,
    /// `[V]` u64: the user's ids, where these are numbers.
    Ids,
    /// `[V]` u64: where each word of `id-text` ends.
    IdEnds,
    /// Bytes: the user's ids as UTF-8, one after the other.
    IdText,
}

impl Section {
    /// All there are.
    pub const ALL: [Self; 24] = [
        Self::Offsets,
        Self::Neighbours,
        Self::OutOffsets,
        Self::OutNeighbours,
        Self::Features,
        Self::FeatureOffsets,
        Self::FeatureColumns,
        Self::FeatureValues,
        Self::CorrectionRows,
        Self::CorrectionColumns,
        Self::CorrectionValues,
        Self::EdgeFeatures,
        Self::Labels,
        Self::LabelValues,
        Self::Train,
        Self::Validation,
        Self::Test,
        Self::Graphs,
        Self::GraphIds,
        Self::GraphIdEnds,
        Self::GraphIdText,
        Self::Ids,
        Self::IdEnds,
        Self::IdText,
    ];

    /// Ids of vertices: numbers, or where words end and their text.
    pub(super) const VERTEX_IDS: [Self; 3] = [Self::Ids, Self::IdEnds, Self::IdText];
    /// The same of graphs.
    pub(super) const GRAPH_IDS: [Self; 3] = [Self::GraphIds, Self::GraphIdEnds, Self::GraphIdText];

    /// The file; its ending is the type of the numbers.
    pub fn file(self) -> &'static str {
        match self {
            Self::Offsets => "offsets.u64",
            Self::Neighbours => "neighbours.u32",
            Self::OutOffsets => "out-offsets.u64",
            Self::OutNeighbours => "out-neighbours.u32",
            Self::Features => "features.f32",
            Self::FeatureOffsets => "feature-offsets.u64",
            Self::FeatureColumns => "feature-columns.u32",
            Self::FeatureValues => "feature-values.f32",
            Self::CorrectionRows => "feature-correction-rows.u32",
            Self::CorrectionColumns => "feature-correction-columns.u32",
            Self::CorrectionValues => "feature-corrections.f64",
            Self::EdgeFeatures => "edge-features.f32",
            Self::Labels => "labels.u32",
            Self::LabelValues => "label-values.f32",
            Self::Train => "split-train.u32",
            Self::Validation => "split-validation.u32",
            Self::Test => "split-test.u32",
            Self::Graphs => "graphs.u32",
            Self::GraphIds => "graph-ids.u64",
            Self::GraphIdEnds => "graph-id-ends.u64",
            Self::GraphIdText => "graph-id-text.u8",
            Self::Ids => "ids.u64",
            Self::IdEnds => "id-ends.u64",
            Self::IdText => "id-text.u8",
        }
    }

    /// Bytes of a number.
    pub fn width(self) -> u64 {
        match self.file().rsplit_once('.').map(|(_, element)| element) {
            Some("u64" | "f64") => 8,
            Some("u8") => 1,
            _ => 4,
        }
    }
}

/// An array as it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) section: Section,
    /// Numbers, not bytes.
    pub(crate) values: u64,
    pub(crate) crc32: u32,
}

/// Bytes that are collected before they are written.
const BUFFER_BYTES: usize = 1 << 18;

/// A section that is being written.
pub(crate) struct SectionWriter<T> {
    section: Section,
    path: PathBuf,
    file: BufWriter<File>,
    crc32: crc32fast::Hasher,
    values: u64,
    element: PhantomData<T>,
}

impl<T: Plain> SectionWriter<T> {
    /// `path` is the section's file; what lies there is lost.
    pub(super) fn create(section: Section, path: PathBuf) -> Result<Self> {
        debug_assert_eq!(section.file().rsplit_once('.').map(|f| f.1), Some(T::NAME));
        let file = File::create(&path).map_err(|source| Error::Write { path: path.clone(), source })?;
        let file = BufWriter::with_capacity(BUFFER_BYTES, file);
        Ok(Self { section, path, file, crc32: crc32fast::Hasher::new(), values: 0, element: PhantomData })
    }

    /// Appends values.
    pub(crate) fn write(&mut self, values: &[T]) -> Result<()> {
        let bytes = bytes_of(values);
        self.crc32.update(bytes);
        self.values += values.len() as u64;
        self.file.write_all(bytes).map_err(|source| Error::Write { path: self.path.clone(), source })
    }

    /// Returns the number of values that have been written.
    pub(crate) fn values(&self) -> u64 {
        self.values
    }

    /// Writes the values that are still buffered.
    pub(crate) fn finish(mut self) -> Result<Written> {
        self.file.flush().map_err(|source| Error::Write { path: self.path, source })?;
        Ok(Written { section: self.section, values: self.values, crc32: self.crc32.finalize() })
    }
}

//! Arrays of a store, and their writer.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::marker::PhantomData;
use std::path::PathBuf;

use eciton_tensor::{Plain, bytes_of};

use crate::error::{Error, Result};

/// Array of a store, in a file of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    /// `[V + 1]` u64: start of each vertex's in-neighbours.
    Offsets,
    /// `[E]` u32: in-neighbours, ascending for each vertex.
    Neighbours,
    /// `[V + 1]` u64: start of each vertex's out-neighbours, if not every edge has its reverse.
    OutOffsets,
    /// `[E]` u32: out-neighbours, ascending for each vertex, if not every edge has its reverse.
    OutNeighbours,
    /// `[V, stride]` f32: dense feature rows, padded with zeros.
    Features,
    /// `[V + 1]` u64: start of each vertex's stored features in sparse rows.
    FeatureOffsets,
    /// `[stored]` u32: columns of the stored features, ascending for each vertex.
    FeatureColumns,
    /// `[stored]` f32: values of the stored features.
    FeatureValues,
    /// u32, ascending: row of each correction of a feature value.
    CorrectionRows,
    /// u32: column of each correction of a feature value.
    CorrectionColumns,
    /// f64: exact feature value minus the stored f32.
    CorrectionValues,
    /// `[E, columns]` f32, without padding: edge features, in the order of `neighbours`.
    EdgeFeatures,
    /// `[V]` u32: class of each vertex. The largest u32 means no label.
    Labels,
    /// `[V, columns]` f32: flags or numbers of each vertex, instead of classes. NaN is unknown.
    LabelValues,
    /// u32, ascending: ids of the vertices in the training split.
    Train,
    /// u32, ascending: ids of the vertices in the validation split.
    Validation,
    /// u32, ascending: ids of the vertices in the test split.
    Test,
    /// `[V]` u32: for a data set of many graphs, the standing vertex of each vertex's graph.
    Graphs,
    /// `[graphs]` u64: the user's ids of graphs, if they are numbers.
    GraphIds,
    /// `[graphs]` u64: end of each word of `graph-id-text`.
    GraphIdEnds,
    /// Bytes: the user's ids of graphs as concatenated UTF-8, if they are words.
    GraphIdText,
    /// `[V]` u64: the user's ids of vertices, if they are numbers.
    Ids,
    /// `[V]` u64: end of each word of `id-text`.
    IdEnds,
    /// Bytes: the user's ids of vertices as concatenated UTF-8, if they are words.
    IdText,
}

impl Section {
    /// All sections that a store can have.
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

    /// Sections of vertex ids: numbers, or the ends of words and their text.
    pub(super) const VERTEX_IDS: [Self; 3] = [Self::Ids, Self::IdEnds, Self::IdText];
    /// Sections of graph ids: numbers, or the ends of words and their text.
    pub(super) const GRAPH_IDS: [Self; 3] = [Self::GraphIds, Self::GraphIdEnds, Self::GraphIdText];

    /// Returns the file name of the section. Its extension is the type of the values.
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

    /// Returns the size of one value in bytes.
    pub fn width(self) -> u64 {
        match self.file().rsplit_once('.').map(|(_, element)| element) {
            Some("u64" | "f64") => 8,
            Some("u8") => 1,
            _ => 4,
        }
    }
}

/// Section that has been written: its length and checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) section: Section,
    /// Number of values (not bytes).
    pub(crate) values: u64,
    pub(crate) crc32: u32,
}

/// Number of bytes that are buffered before they are written.
const BUFFER_BYTES: usize = 1 << 18;

/// Writer of one section.
pub(crate) struct SectionWriter<T> {
    section: Section,
    path: PathBuf,
    file: BufWriter<File>,
    crc32: crc32fast::Hasher,
    values: u64,
    element: PhantomData<T>,
}

impl<T: Plain> SectionWriter<T> {
    /// Creates the file of a section. An existing file at `path` is overwritten.
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

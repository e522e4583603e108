//! Sections of a store, which are its arrays, and the writer of a section.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::marker::PhantomData;
use std::path::PathBuf;

use eciton_tensor::{Plain, bytes_of};

use crate::error::{Error, Result};

/// Array of a store, which is stored in a file of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    /// Start of each vertex's list of in-neighbours, as `[V + 1]` u64.
    Offsets,
    /// In-neighbours of all vertices, as `[E]` u32. They ascend for each vertex.
    Neighbours,
    /// Start of each vertex's list of out-neighbours, as `[V + 1]` u64. The section is absent if
    /// every edge has its reverse.
    OutOffsets,
    /// Out-neighbours of all vertices, as `[E]` u32. They ascend for each vertex. The section is
    /// absent if every edge has its reverse.
    OutNeighbours,
    /// Dense feature rows, as `[V, stride]` f32. Rows are padded with zeros.
    Features,
    /// Start of each vertex's stored features in sparse rows, as `[V + 1]` u64.
    FeatureOffsets,
    /// Columns of the features that sparse rows store, as `[stored]` u32. They ascend for each
    /// vertex.
    FeatureColumns,
    /// Values of the features that sparse rows store, as `[stored]` f32.
    FeatureValues,
    /// Row of each correction of a feature value, as u32 in ascending order.
    CorrectionRows,
    /// Column of each correction of a feature value, as u32.
    CorrectionColumns,
    /// Corrections of feature values, as f64. A correction is the exact value minus the stored f32.
    CorrectionValues,
    /// Mean of each feature column over the training rows, and then the standard deviation of each,
    /// as `[2, columns]` f64. Only a store with parts and dense features has this section.
    Moments,
    /// Edge features, as `[E, columns]` f32 without padding. They are in the order of `neighbours`.
    EdgeFeatures,
    /// Class of each vertex, as `[V]` u32. The largest u32 means that there is no label.
    Labels,
    /// Flags or numbers of each vertex, as `[V, columns]` f32. NaN means that the value is unknown.
    LabelValues,
    /// Ids of the training vertices, as u32 in ascending order.
    Train,
    /// Ids of the validation vertices, as u32 in ascending order.
    Validation,
    /// Ids of the test vertices, as u32 in ascending order.
    Test,
    /// Standing vertex of each vertex's graph, as `[V]` u32. Only a data set of many graphs has
    /// this section.
    Graphs,
    /// The user's ids of the graphs if they are numbers, as `[graphs]` u64.
    GraphIds,
    /// End of each graph id in `graph-id-text`, as `[graphs]` u64.
    GraphIdEnds,
    /// The user's ids of the graphs if they are words, as concatenated UTF-8 bytes.
    GraphIdText,
    /// The user's ids of the vertices if they are numbers, as `[V]` u64.
    Ids,
    /// End of each vertex id in `id-text`, as `[V]` u64.
    IdEnds,
    /// The user's ids of the vertices if they are words, as concatenated UTF-8 bytes.
    IdText,
}

impl Section {
    /// All sections that a store can have.
    pub const ALL: [Self; 25] = [
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
        Self::Moments,
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

    /// Sections for the user's ids of vertices. They are for numbers, for the ends of words, and
    /// for the text of words.
    pub(super) const VERTEX_IDS: [Self; 3] = [Self::Ids, Self::IdEnds, Self::IdText];
    /// Sections for the user's ids of graphs. They are for numbers, for the ends of words, and for
    /// the text of words.
    pub(super) const GRAPH_IDS: [Self; 3] = [Self::GraphIds, Self::GraphIdEnds, Self::GraphIdText];

    /// Returns the name of the section's file. Its extension is the type of the values, for
    /// instance `offsets.u64`.
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
            Self::Moments => "moments.f64",
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

    /// Returns the size of one value of the section, in bytes.
    pub fn width(self) -> u64 {
        match self.file().rsplit_once('.').map(|(_, element)| element) {
            Some("u64" | "f64") => 8,
            Some("u8") => 1,
            _ => 4,
        }
    }
}

/// Section that has been written, with its length and checksum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) section: Section,
    /// Number of values in the section.
    pub(crate) values: u64,
    pub(crate) crc32: u32,
    /// CRC-32 of each piece of the section. Empty for a store without parts.
    pub(crate) pieces: Vec<u32>,
}

/// Default size of the pieces of a section that have a checksum of their own, in bytes.
pub(crate) const PIECE_BYTES: u64 = 64 << 20;

/// Number of bytes that are buffered before they are written to the file.
const BUFFER_BYTES: usize = 1 << 18;

/// Writer of one section of a store, which consists of values of type `T`.
pub(crate) struct SectionWriter<T> {
    section: Section,
    path: PathBuf,
    file: BufWriter<File>,
    /// Checksum of the complete pieces.
    crc32: crc32fast::Hasher,
    /// Checksums of the complete pieces.
    pieces: Vec<u32>,
    /// Size of a piece, in bytes.
    piece_bytes: u64,
    /// Checksum of the bytes of the current piece, and their number.
    piece: (crc32fast::Hasher, u64),
    values: u64,
    element: PhantomData<T>,
}

impl<T: Plain> SectionWriter<T> {
    /// Creates the file of a section at `path`. An existing file is overwritten. Each `piece_bytes`
    /// of the section get a checksum of their own.
    pub(super) fn create(section: Section, path: PathBuf, piece_bytes: u64) -> Result<Self> {
        debug_assert_eq!(section.file().rsplit_once('.').map(|f| f.1), Some(T::NAME));
        let file = File::create(&path).map_err(|source| Error::Write { path: path.clone(), source })?;
        let file = BufWriter::with_capacity(BUFFER_BYTES, file);
        let (crc32, piece) = (crc32fast::Hasher::new(), (crc32fast::Hasher::new(), 0));
        let pieces = Vec::new();
        Ok(Self { section, path, file, crc32, pieces, piece_bytes, piece, values: 0, element: PhantomData })
    }

    /// Appends values to the section.
    pub(crate) fn write(&mut self, values: &[T]) -> Result<()> {
        let bytes = bytes_of(values);
        let mut left = bytes;
        while !left.is_empty() {
            let room = self.piece_bytes - self.piece.1;
            let (now, after) = left.split_at(left.len().min(usize::try_from(room).unwrap_or(usize::MAX)));
            self.piece.0.update(now);
            self.piece.1 += now.len() as u64;
            if self.piece.1 == self.piece_bytes {
                self.end_piece();
            }
            left = after;
        }
        self.values += values.len() as u64;
        self.file.write_all(bytes).map_err(|source| Error::Write { path: self.path.clone(), source })
    }

    fn end_piece(&mut self) {
        let (piece, _) = std::mem::replace(&mut self.piece, (crc32fast::Hasher::new(), 0));
        self.crc32.combine(&piece);
        self.pieces.push(piece.finalize());
    }

    /// Returns the number of values that have been written.
    pub(crate) fn values(&self) -> u64 {
        self.values
    }

    /// Writes the values that are still buffered, and returns the length and checksum of the
    /// section.
    pub(crate) fn finish(mut self) -> Result<Written> {
        if self.piece.1 > 0 {
            self.end_piece();
        }
        self.file.flush().map_err(|source| Error::Write { path: self.path, source })?;
        let (crc32, pieces) = (self.crc32.finalize(), self.pieces);
        Ok(Written { section: self.section, values: self.values, crc32, pieces })
    }
}

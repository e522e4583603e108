//! Writer of stores, which writes one section after the other.

use std::io::Read;
use std::path::Path;

use eciton_tensor::Plain;

use super::description::{DESCRIPTION, Description, Ids, Kind, LabelKind};
use super::partial::Partial;
use super::section::{PIECE_BYTES, Section, SectionWriter, Written};
use crate::adjacency::{Adjacency, Graph, check_vertices};
use crate::corrections::{Correction, Corrections};
use crate::edge_features::EdgeFeatures;
use crate::error::{Error, Place, Result};
use crate::features::Features;
use crate::graphs::Graphs;
use crate::labels::Labels;
use crate::names::Names;
use crate::scaling::Moments;
use crate::split::Split;
use crate::summary::Summary;
use crate::vertex_ids::VertexIds;

/// Number of bytes that are compared at a time when two sections are compared.
const COMPARED_BYTES: u64 = 1 << 18;

/// Size of a graph, and true if each of its edges has its reverse.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GraphSize {
    pub(crate) vertices: u64,
    pub(crate) edges: u64,
    pub(crate) symmetric: bool,
}

/// Writer of a store. Write the graph first ([`Writer::graph`] or
/// [`build::external`](crate::build::external)), then each of the other parts once, in any order.
/// Then call [`Writer::finish`]. Without features, each vertex has a one-hot feature of its own.
/// Without ids, each vertex is identified by its number. Nothing appears at the store's path before
/// `finish`. A writer that is dropped removes its files. It holds a buffer of 256 KiB, whatever the
/// content.
pub struct Writer {
    partial: Partial,
    graph: Option<GraphSize>,
    labels: LabelKind,
    features: (Kind, u32),
    corrections: u64,
    edge_features: Option<u32>,
    graphs: Option<Ids>,
    ids: Ids,
    names: Names,
    parts: Vec<u32>,
    summary: Option<Summary>,
    piece_bytes: u64,
    sections: Vec<Written>,
}

impl Writer {
    /// Creates a store that will appear at `path`. Until then it is written to the folder
    /// `.NAME.partial-store` next to it.
    ///
    /// # Errors
    /// Returns [`Error::Exists`] if `path` exists or another process writes the same store, and
    /// [`Error::Write`] if the folder cannot be created.
    pub fn create(path: &Path) -> Result<Self> {
        let partial = Partial::create(path)?;
        Ok(Self {
            partial,
            graph: None,
            labels: LabelKind::Classes(0),
            features: (Kind::Identity, 0),
            corrections: 0,
            edge_features: None,
            graphs: None,
            ids: Ids::Dense,
            names: Names::default(),
            parts: Vec::new(),
            summary: None,
            piece_bytes: PIECE_BYTES,
            sections: Vec::new(),
        })
    }

    /// Returns the folder that contains the files of the unfinished store.
    pub(crate) fn folder(&self) -> &Path {
        self.partial.folder()
    }

    /// Begins a section of the store. The caller passes the finished section to [`Writer::keep`].
    pub(crate) fn section<T: Plain>(&self, section: Section) -> Result<SectionWriter<T>> {
        SectionWriter::create(section, self.folder().join(section.file()), self.piece_bytes)
    }

    /// Adds a finished section to the store.
    pub(crate) fn keep(&mut self, written: Written) {
        self.sections.retain(|s| s.section != written.section);
        self.sections.push(written);
    }

    /// Removes the file of a finished section that does not become part of the store.
    pub(crate) fn discard(&self, section: Section) -> Result<()> {
        let path = self.folder().join(section.file());
        std::fs::remove_file(&path).map_err(|source| Error::Write { path, source })
    }

    /// Returns true if two finished sections contain the same bytes.
    pub(crate) fn same(&self, a: &Written, b: &Written) -> Result<bool> {
        if (a.values, a.crc32) != (b.values, b.crc32) {
            return Ok(false);
        }
        let open = |section: Section| {
            let path = self.folder().join(section.file());
            let file =
                std::fs::File::open(&path).map_err(|source| Error::Read { path: path.clone(), source })?;
            Ok::<_, Error>((file, path))
        };
        let (mut a, mut b) = (open(a.section)?, open(b.section)?);
        let (mut left, mut right) = (Vec::new(), Vec::new());
        loop {
            for ((file, path), piece) in [(&mut a, &mut left), (&mut b, &mut right)] {
                piece.clear();
                let read = file.take(COMPARED_BYTES).read_to_end(piece);
                read.map_err(|source| Error::Read { path: path.clone(), source })?;
            }
            if left != right || left.is_empty() {
                return Ok(left == right);
            }
        }
    }

    fn whole<T: Plain>(&mut self, section: Section, values: &[T]) -> Result<()> {
        let mut writer = self.section(section)?;
        writer.write(values)?;
        self.keep(writer.finish()?);
        Ok(())
    }

    /// Sets the size of the graph whose sections have been written.
    pub(crate) fn set_graph(&mut self, size: GraphSize) {
        self.graph = Some(size);
    }

    /// Writes the adjacency lists of the graph.
    ///
    /// # Errors
    /// Returns [`Error::Write`] if a file cannot be written.
    pub fn graph(&mut self, graph: &Graph) -> Result<()> {
        let mut lists = |lists: &Adjacency, [offsets, neighbours]: [Section; 2]| {
            self.whole(offsets, lists.offsets())?;
            self.whole(neighbours, lists.neighbours())
        };
        lists(graph.incoming(), [Section::Offsets, Section::Neighbours])?;
        if let Some(outgoing) = graph.transpose() {
            lists(outgoing, [Section::OutOffsets, Section::OutNeighbours])?;
        }
        let (vertices, edges, symmetric) = (graph.vertices().into(), graph.edges(), graph.symmetric());
        self.set_graph(GraphSize { vertices, edges, symmetric });
        Ok(())
    }

    /// Writes the features of all vertices.
    ///
    /// # Errors
    /// Returns [`Error::Write`] if a file cannot be written.
    pub fn features(&mut self, features: &Features) -> Result<()> {
        self.corrections(features.corrections())?;
        match features {
            Features::Dense(rows) => {
                let view = rows.view();
                let mut writer = self.rows(view.columns() as u32)?;
                for row in 0..view.rows() {
                    writer.write(view.row(row))?;
                }
                writer.finish()
            }
            Features::Sparse(rows) => {
                self.features = (Kind::Sparse, rows.columns);
                self.whole(Section::FeatureOffsets, &rows.offsets)?;
                self.whole(Section::FeatureColumns, &rows.indices)?;
                self.whole(Section::FeatureValues, &rows.values)
            }
        }
    }

    /// Writes the corrections of the features.
    pub(super) fn corrections(&mut self, corrections: &Corrections) -> Result<()> {
        let all = corrections.entries();
        self.corrections = all.len() as u64;
        if all.is_empty() {
            return Ok(());
        }
        let mut rows = self.section(Section::CorrectionRows)?;
        let mut columns = self.section(Section::CorrectionColumns)?;
        let mut values = self.section(Section::CorrectionValues)?;
        for &Correction { row, column, residual } in all {
            rows.write(&[row])?;
            columns.write(&[column])?;
            values.write(&[residual])?;
        }
        self.keep(rows.finish()?);
        self.keep(columns.finish()?);
        self.keep(values.finish()?);
        Ok(())
    }

    /// Begins dense features with `columns` columns. The rows are written one after the other, from
    /// vertex 0 on.
    ///
    /// # Errors
    /// Returns [`Error::Malformed`] if `columns` is 0, and [`Error::Write`] if the file cannot be
    /// created.
    pub fn rows(&mut self, columns: u32) -> Result<RowsWriter<'_>> {
        if columns == 0 {
            return Err(Error::malformed(Place::whole("features"), "at least one column", "none"));
        }
        let section = self.section(Section::Features)?;
        let padding = eciton_tensor::stride_for(columns as usize) - columns as usize;
        Ok(RowsWriter { columns, padding: vec![0.0; padding], section, writer: self })
    }

    /// Writes the features of all edges, in the order of the graph's lists of in-neighbours. If
    /// this function is not called, edges have no features.
    ///
    /// # Errors
    /// Returns [`Error::Write`] if a file cannot be written.
    pub fn edge_features(&mut self, rows: &EdgeFeatures) -> Result<()> {
        self.edge_features = Some(rows.columns());
        self.whole(Section::EdgeFeatures, rows.values())
    }

    /// Adds edge features, whose section has already been written.
    pub(crate) fn keep_edge_features(&mut self, columns: u32, rows: Written) {
        self.edge_features = Some(columns);
        self.keep(rows);
    }

    /// Writes the labels of all vertices. This function must be called exactly once.
    ///
    /// # Errors
    /// Returns [`Error::Write`] if a file cannot be written.
    pub fn labels(&mut self, labels: &Labels) -> Result<()> {
        self.labels = match labels {
            Labels::Classes { count, .. } => LabelKind::Classes(*count),
            Labels::Flags(values) => LabelKind::Flags(values.columns()),
            Labels::Numbers(values) => LabelKind::Numbers(values.columns()),
        };
        match labels {
            Labels::Classes { of, .. } => self.whole(Section::Labels, of),
            Labels::Flags(values) | Labels::Numbers(values) => {
                self.whole(Section::LabelValues, values.as_slice())
            }
        }
    }

    /// Writes the split into training, validation and test vertices.
    ///
    /// # Errors
    /// Returns [`Error::Write`] if a file cannot be written.
    pub fn split(&mut self, split: &Split) -> Result<()> {
        self.whole(Section::Train, &split.train)?;
        self.whole(Section::Validation, &split.validation)?;
        self.whole(Section::Test, &split.test)
    }

    /// Writes the assignment of vertices to graphs, for a data set of many graphs. If this function
    /// is not called, the data set is a single graph.
    ///
    /// # Errors
    /// Returns [`Error::Write`] if a file cannot be written.
    pub fn graphs(&mut self, graphs: &Graphs) -> Result<()> {
        self.whole(Section::Graphs, graphs.standing_of_vertices())?;
        self.graphs = Some(self.ids_of(graphs.ids(), Section::GRAPH_IDS)?);
        Ok(())
    }

    /// Returns the number of directed edges, or `None` if the graph has not been written.
    pub fn edges(&self) -> Option<u64> {
        self.graph.map(|graph| graph.edges)
    }

    /// Writes the user's ids of the vertices. If this function is not called, the ids are 0..V.
    ///
    /// # Errors
    /// Returns [`Error::Write`] if a file cannot be written.
    pub fn ids(&mut self, ids: &VertexIds) -> Result<()> {
        self.ids = self.ids_of(ids, Section::VERTEX_IDS)?;
        Ok(())
    }

    /// Adds sparse features with `columns` columns, whose sections have already been written.
    pub(super) fn sparse(&mut self, columns: u32) {
        self.features = (Kind::Sparse, columns);
    }

    /// Sets the first vertex of each part, and the size of the pieces of sections that have a
    /// checksum of their own. This must be called before sections are written. If it is not called,
    /// the store has no parts.
    pub(super) fn parts(&mut self, firsts: &[u32], piece_bytes: u64) {
        (self.parts, self.piece_bytes) = (firsts.to_vec(), piece_bytes);
    }

    /// Writes the facts about the values of a store with parts.
    pub(super) fn summary(&mut self, summary: Summary, moments: &Moments) -> Result<()> {
        self.summary = Some(summary);
        self.whole(Section::Moments, &[&moments.mean[..], &moments.deviation].concat())
    }

    /// Sets the names of classes and columns, which are numbers by default. A list of names is not
    /// stored if the total exceeds [`MAX_NAMES_BYTES`](super::MAX_NAMES_BYTES).
    pub fn names(&mut self, names: &Names) {
        self.names = names.clone();
    }

    /// Writes ids to the given sections, and returns the form in which they were written.
    fn ids_of(&mut self, ids: &VertexIds, [numbers, ends, text]: [Section; 3]) -> Result<Ids> {
        match ids {
            VertexIds::Dense => Ok(Ids::Dense),
            VertexIds::Numbers(ids) => {
                self.whole(numbers, ids)?;
                Ok(Ids::Numbers)
            }
            VertexIds::Words(words) => {
                let (mut ends, mut text) = (self.section(ends)?, self.section(text)?);
                for word in words {
                    text.write(word.as_bytes())?;
                    ends.write(&[text.values()])?;
                }
                self.keep(ends.finish()?);
                self.keep(text.finish()?);
                Ok(Ids::Words)
            }
        }
    }

    /// Checks that all parts have been written and have matching sizes, and renames the store to
    /// its final path. `name` is the name of the data set.
    ///
    /// # Errors
    /// Returns [`Error::Mismatch`] if parts are absent or do not fit together, [`Error::Exists`] if
    /// the path exists by now, and [`Error::Write`] if a file cannot be written or renamed.
    pub fn finish(mut self, name: &str) -> Result<()> {
        let mismatch = |section: Section, found, expected| Error::Mismatch {
            place: Place::whole(section.file()),
            what: "values",
            found,
            expected,
            other: "the graph".to_owned(),
        };
        let Some(GraphSize { vertices, edges, symmetric }) = self.graph else {
            return Err(mismatch(Section::Offsets, 0, 1));
        };
        check_vertices(vertices, || Place::whole("store"))?;
        let sections = std::mem::take(&mut self.sections);
        let mut all = Description {
            name: name.to_owned(),
            vertices,
            edges,
            symmetric,
            labels: self.labels,
            features: self.features,
            corrections: self.corrections,
            edge_features: self.edge_features,
            graphs: self.graphs,
            ids: self.ids,
            names: std::mem::take(&mut self.names),
            parts: std::mem::take(&mut self.parts),
            summary: self.summary,
            piece_bytes: self.piece_bytes,
            sections: Vec::new(),
        };
        for (section, values) in all.expected() {
            let written = sections.iter().find(|s| s.section == section);
            let found = written.map_or(0, |s| s.values);
            match written {
                Some(written) if values.is_none_or(|v| v == found) => all.sections.push(written.clone()),
                _ => return Err(mismatch(section, found, values.unwrap_or(1))),
            }
        }
        let path = self.folder().join(DESCRIPTION);
        std::fs::write(&path, all.to_text()).map_err(|source| Error::Write { path, source })?;
        self.partial.rename()
    }
}

/// Writer of dense features, to which one row after the other is appended.
pub struct RowsWriter<'a> {
    columns: u32,
    padding: Vec<f32>,
    section: SectionWriter<f32>,
    writer: &'a mut Writer,
}

impl RowsWriter<'_> {
    /// Appends complete rows, whose values are given row by row without padding.
    ///
    /// # Errors
    /// Returns [`Error::Malformed`] if the last row is incomplete, and [`Error::Write`] if the file
    /// cannot be written.
    pub fn write(&mut self, rows: &[f32]) -> Result<()> {
        let columns = self.columns as usize;
        if !rows.len().is_multiple_of(columns) {
            let expected = format!("rows of {columns} values");
            return Err(Error::malformed(Place::whole("features"), expected, format!("{}", rows.len())));
        }
        if self.padding.is_empty() {
            return self.section.write(rows);
        }
        for row in rows.chunks_exact(columns) {
            self.section.write(row)?;
            self.section.write(&self.padding)?;
        }
        Ok(())
    }

    /// Completes the feature section and adds it to the store.
    ///
    /// # Errors
    /// Returns [`Error::Write`] if the file cannot be written.
    pub fn finish(self) -> Result<()> {
        self.writer.features = (Kind::Dense, self.columns);
        self.writer.keep(self.section.finish()?);
        Ok(())
    }
}

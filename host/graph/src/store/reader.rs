//! Reader of stores, which maps their files and checks them before it returns the data set.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use eciton_tensor::{Buffer, Plain, Slab, SlabOwner, stride_for};

use super::description::{Description, Ids, Kind, LabelKind};
use super::section::{Section, Written};
use super::source::Source;
use crate::adjacency::{Adjacency, Graph, offsets_fault};
use crate::checksum::{self, Checksum, Part};
use crate::corrections::{Correction, Corrections};
use crate::dataset::{Dataset, EdgeFeatures, Held, VertexIds};
use crate::error::{Error, Place, Result};
use crate::features::{DenseRows, Features, SparseRows};
use crate::graphs::Graphs;
use crate::labels::{Labels, Values};
use crate::mapping;
use crate::scaling::Moments;
use crate::split::Split;
use eciton_input::threads::{on_threads, shares, threads_for};

/// Returns true if the description of the store at `path` says that it contains rows without a
/// graph.
#[must_use]
pub fn has_no_edges(path: &Path) -> bool {
    Description::open(path).is_ok_and(|described| described.edges == 0 && described.graphs.is_none())
}

/// Opens the store at `path`. Adjacency lists, features and edge features stay in the mapped files.
/// Labels, split, graphs and ids are copied into memory. The files must not be changed or truncated
/// while the data set exists. This crate never changes a store in place.
///
/// All bytes are read once, in parallel. Lengths and checksums are compared, and all offsets, ids,
/// columns and features are checked as in any other reader.
///
/// # Errors
/// Returns [`Error::Read`] if a file cannot be read, [`Error::StoreVersion`] for an unknown
/// version, [`Error::Malformed`] for another format or length, and [`Error::Checksum`] for changed
/// bytes. Returns the errors of [`Adjacency::from_parts`] and [`Dataset::validate`] for invalid
/// content.
pub fn open(path: &Path) -> Result<Dataset> {
    open_from(path)
}

/// Opens the store at `source` like [`open`].
///
/// # Errors
/// Returns the errors of [`open`].
pub fn open_from(source: &(impl Source + ?Sized)) -> Result<Dataset> {
    let described = Description::open(source)?;
    let mut files = Files::new(source, described.piece_bytes);
    described.sections.iter().try_for_each(|written| files.map(written, None))?;
    files.check()?;
    let lists = |[offsets, neighbours]: [Section; 2]| -> Result<Adjacency> {
        Ok(Adjacency::from_parts(files.slab(offsets)?, files.slab(neighbours)?)?)
    };
    let incoming = lists([Section::Offsets, Section::Neighbours])?;
    let outgoing = match described.symmetric {
        true => None,
        false => Some(lists([Section::OutOffsets, Section::OutNeighbours])?),
    };
    let features = files.features(&described)?.with_corrections(files.corrections(&described)?);
    files.dataset(&described, Graph::from_parts(incoming, outgoing)?, features)?.checked()
}

/// Content of a store that is known before its lists and features are read.
#[derive(Debug)]
pub struct Outline<'a> {
    /// Start of the list of in-neighbours of each vertex, as `[V + 1]`.
    pub offsets: &'a [u64],
    /// Number of feature columns.
    pub columns: u32,
    /// First vertex of each part.
    pub parts: &'a [u32],
}

/// Opens the rows of the store at `source` that `choose` returns. Only the pieces with lists and
/// features of these rows are read, and their checksums compared. Labels, split and ids are those of
/// all vertices. Returns `None` if `choose` does, or if the store must be opened whole: if it has no
/// parts, or has sparse or corrected features, features of edges, or many graphs.
///
/// # Errors
/// Returns the errors of [`open`].
pub fn open_rows(
    source: &(impl Source + ?Sized),
    choose: &dyn Fn(&Outline<'_>) -> Option<Range<u32>>,
) -> Result<Option<Dataset>> {
    let described = Description::open(source)?;
    let (Some(summary), None, None, 0) =
        (described.summary, described.edge_features, described.graphs, described.corrections)
    else {
        return Ok(None);
    };
    let mut files = Files::new(source, described.piece_bytes);
    let is_large =
        |section| matches!(section, Section::Neighbours | Section::OutNeighbours | Section::Features);
    let mut whole = described.sections.iter().filter(|written| !is_large(written.section));
    whole.try_for_each(|written| files.map(written, None))?;
    files.check()?;
    let offsets = files.slab::<u64>(Section::Offsets)?;
    let (columns, parts) = (described.features.1, &described.parts[..]);
    let Some(rows) = choose(&Outline { offsets: &offsets, columns, parts }) else { return Ok(None) };
    let mut large = Files::new(source, described.piece_bytes);
    let known = |section, part| {
        let written = described.sections.iter().find(|w: &&Written| w.section == section);
        let bytes = written.map_or(0, |written| written.values.saturating_mul(section.width()));
        Checksum { part, bytes, crc32: written.map_or(0, |written| written.crc32) }
    };
    let checksums = [
        known(Section::Offsets, Part::Graph),
        known(Section::Neighbours, Part::Graph),
        known(Section::Features, Part::Features),
    ];
    let mut lists = |[offsets, neighbours]: [Section; 2]| -> Result<Adjacency> {
        let offsets = files.slab::<u64>(offsets)?;
        if let Some(found) = offsets_fault(&offsets, described.edges) {
            let expected = format!("offsets that ascend from 0 to {}", described.edges);
            return Err(Error::malformed(Place::whole("offsets"), expected, found));
        }
        let start = |row: u32| offsets.get(row as usize).copied().unwrap_or(described.edges);
        let (first, last) = (start(rows.start), start(rows.end));
        let held = large.window(&described, neighbours, first..last)?;
        // All other rows have empty lists.
        let own = offsets.iter().map(|offset| (*offset).clamp(first, last) - first);
        Ok(Adjacency::from_parts(own.collect::<Vec<_>>(), held)?)
    };
    let incoming = lists([Section::Offsets, Section::Neighbours])?;
    let outgoing = match described.symmetric {
        true => None,
        false => Some(lists([Section::OutOffsets, Section::OutNeighbours])?),
    };
    let stride = stride_for(columns as usize) as u64;
    let values = u64::from(rows.start) * stride..u64::from(rows.end) * stride;
    let features = dense(rows.len(), columns as usize, large.window(&described, Section::Features, values)?)?;
    let moments = files.slab::<f64>(Section::Moments)?;
    let (mean, deviation) = moments.split_at(columns as usize);
    let moments = Arc::new(Moments { mean: mean.to_vec(), deviation: deviation.to_vec() });
    let read_bytes = files.read_bytes() + large.read_bytes();
    let graph = Graph::from_pair(incoming, outgoing);
    let dataset = files.dataset(&described, graph, features)?;
    let held = Some(Held { rows, offsets, checksums, summary, moments, read_bytes });
    Dataset { held, ..dataset }.checked().map(Some)
}

/// Returns dense features over `values`, which are rows of `columns` values with padding.
fn dense(rows: usize, columns: usize, values: Slab<f32>) -> Result<Features> {
    let stride = stride_for(columns);
    let padded =
        |&row: &usize| values[row * stride + columns..][..stride - columns].iter().any(|v| v.to_bits() != 0);
    let work = if columns < stride { shares(rows, threads_for(values.len() as u64)) } else { Vec::new() };
    let first = on_threads(work, |mut own| own.find(padded));
    if let Some(row) = first.into_iter().flatten().next() {
        let place = Place::row(Section::Features.file(), row as u64);
        return Err(Error::malformed(place, "zeros after the last column", "other values"));
    }
    let buffer = Buffer::over(rows, columns, values).map_err(Error::memory("features"))?;
    Ok(Features::Dense(DenseRows::new(&buffer)?))
}

/// Sections of a store, whose files are mapped into memory.
struct Files<'a, S: ?Sized> {
    source: &'a S,
    /// Size of the pieces that have a checksum of their own, in bytes.
    piece_bytes: u64,
    sections: Vec<Mapped>,
}

/// Section of a store, whose file is mapped into memory.
struct Mapped {
    written: Written,
    owner: Arc<dyn SlabOwner>,
    /// Bytes that are read. `None` if all are.
    needed: Option<Range<u64>>,
}

impl<'a, S: Source + ?Sized> Files<'a, S> {
    fn new(source: &'a S, piece_bytes: u64) -> Self {
        Self { source, piece_bytes: piece_bytes.max(1), sections: Vec::new() }
    }

    /// Maps the file of a section, of which the bytes `needed` are read, or all.
    fn map(&mut self, written: &Written, needed: Option<Range<u64>>) -> Result<()> {
        let path = self.source.shown(written.section.file());
        let width = written.section.width();
        let bytes = written.values.saturating_mul(width);
        let file = self.source.open(written.section.file(), needed.clone().unwrap_or(0..bytes));
        let file = file.map_err(|source| Error::Read { path: path.clone(), source })?;
        let crc32 = Some(written.crc32).filter(|_| needed.is_none());
        let owner = mapping::map_file(file, &path, crc32)?;
        let found = owner.bytes().len() as u64;
        if written.values.checked_mul(width) != Some(found) {
            let place = Place::whole(path.display().to_string());
            let expected = format!("{} numbers of {width} bytes", written.values);
            return Err(Error::malformed(place, expected, format!("{found} bytes")));
        }
        self.sections.push(Mapped { written: written.clone(), owner, needed });
        Ok(())
    }

    /// Maps the file of `section`, and returns the given range of its values. The pieces that
    /// contain them are checked.
    fn window<T: Plain>(
        &mut self,
        described: &Description,
        section: Section,
        values: Range<u64>,
    ) -> Result<Slab<T>> {
        let missing = || Error::malformed(Place::whole(section.file()), "the section", "nothing");
        let written = described.sections.iter().find(|w| w.section == section).ok_or_else(missing)?;
        let bytes = values.start * section.width()..values.end * section.width();
        let all = written.values.saturating_mul(section.width());
        let end = bytes.end.div_ceil(self.piece_bytes).saturating_mul(self.piece_bytes);
        self.map(written, Some(bytes.start / self.piece_bytes * self.piece_bytes..end.min(all)))?;
        let Some(mapped) = self.sections.last() else { return Err(missing()) };
        self.check_one(mapped)?;
        Slab::over(mapped.owner.clone(), bytes.start as usize..bytes.end as usize)
            .map_err(Error::memory(section.file()))
    }

    /// Compares the checksums of the pieces that are read with the description.
    fn check_one(&self, Mapped { written, owner, needed }: &Mapped) -> Result<()> {
        let Some(needed) = needed else { return Ok(()) };
        let pieces = owner.bytes().get(needed.start as usize..needed.end as usize).unwrap_or_default();
        let found = checksum::crc32s(pieces.chunks(self.piece_bytes as usize).collect());
        let first = (needed.start / self.piece_bytes) as usize;
        let known = written.pieces.get(first..).unwrap_or_default();
        for (piece, (found, &expected)) in (first..).zip(found.into_iter().zip(known)) {
            if found != expected {
                let name = format!("{} (piece {piece})", self.source.shown(written.section.file()).display());
                return Err(Error::Checksum { path: name.into(), expected, found });
            }
        }
        Ok(())
    }

    /// Computes the checksums of all sections and compares them with the description.
    fn check(&self) -> Result<()> {
        let found = checksum::crc32s(self.sections.iter().map(|mapped| mapped.owner.bytes()).collect());
        for (found, Mapped { written, .. }) in found.into_iter().zip(&self.sections) {
            let expected = written.crc32;
            if found != expected {
                return Err(Error::Checksum {
                    path: self.source.shown(written.section.file()),
                    expected,
                    found,
                });
            }
        }
        Ok(())
    }

    /// Returns the number of bytes that are read.
    fn read_bytes(&self) -> u64 {
        let bytes = |Mapped { owner, needed, .. }: &Mapped| {
            needed.as_ref().map_or(owner.bytes().len() as u64, |needed| needed.end - needed.start)
        };
        self.sections.iter().map(bytes).sum()
    }

    /// Returns the data set with this graph and these features, and with the other sections.
    fn dataset(&self, described: &Description, graph: Graph, features: Features) -> Result<Dataset> {
        let split = Split {
            train: self.slab(Section::Train)?.to_vec(),
            validation: self.slab(Section::Validation)?.to_vec(),
            test: self.slab(Section::Test)?.to_vec(),
        };
        Ok(Dataset {
            edge_features: self.edge_features(described)?,
            graphs: self.graphs(described)?,
            ids: self.ids(described.ids, Section::VERTEX_IDS)?,
            names: described.names.clone(),
            parts: described.parts.clone(),
            ..Dataset::new(described.name.clone(), graph, features, self.labels(described.labels)?, split)
        })
    }

    fn slab<T: Plain>(&self, section: Section) -> Result<Slab<T>> {
        let Some(Mapped { owner, .. }) = self.sections.iter().find(|m| m.written.section == section) else {
            return Err(Error::malformed(Place::whole(section.file()), "the section", "nothing"));
        };
        Slab::over(owner.clone(), 0..owner.bytes().len()).map_err(Error::memory(section.file()))
    }

    fn corrections(&self, described: &Description) -> Result<Corrections> {
        if described.corrections == 0 {
            return Ok(Corrections::NONE);
        }
        let rows = self.slab::<u32>(Section::CorrectionRows)?;
        let columns = self.slab::<u32>(Section::CorrectionColumns)?;
        let values = self.slab::<f64>(Section::CorrectionValues)?;
        let entries = rows.iter().zip(columns.iter()).zip(values.iter());
        let entry = |((&row, &column), &residual): ((&u32, &u32), &f64)| Correction { row, column, residual };
        Ok(Corrections::new(entries.map(entry).collect()))
    }

    fn features(&self, described: &Description) -> Result<Features> {
        let (kind, columns) = described.features;
        match kind {
            Kind::Identity => Ok(Features::identity(described.vertices as u32)),
            Kind::Dense => {
                dense(described.vertices as usize, columns as usize, self.slab(Section::Features)?)
            }
            Kind::Sparse => Ok(Features::Sparse(SparseRows {
                columns,
                offsets: self.slab(Section::FeatureOffsets)?,
                indices: self.slab(Section::FeatureColumns)?,
                values: self.slab(Section::FeatureValues)?,
                corrections: Corrections::NONE,
            })),
        }
    }

    fn edge_features(&self, described: &Description) -> Result<Option<EdgeFeatures>> {
        let rows = |columns| EdgeFeatures::new(columns, self.slab(Section::EdgeFeatures)?);
        described.edge_features.map(rows).transpose()
    }

    fn labels(&self, kind: LabelKind) -> Result<Labels> {
        let values = |columns| {
            let file = self.source.shown(Section::LabelValues.file()).display().to_string();
            Values::named(columns, self.slab(Section::LabelValues)?.to_vec(), &file)
        };
        Ok(match kind {
            LabelKind::Classes(count) => Labels::classes(self.slab(Section::Labels)?.to_vec(), count),
            LabelKind::Flags(columns) => Labels::Flags(values(columns)?),
            LabelKind::Numbers(columns) => Labels::Numbers(values(columns)?),
        })
    }

    fn graphs(&self, described: &Description) -> Result<Option<Graphs>> {
        let Some(ids) = described.graphs else { return Ok(None) };
        let file = self.source.shown(Section::Graphs.file()).display().to_string();
        let ids = self.ids(ids, Section::GRAPH_IDS)?;
        Graphs::from_standing(self.slab(Section::Graphs)?.to_vec(), ids, &file).map(Some)
    }

    fn ids(&self, ids: Ids, [numbers, ends, text]: [Section; 3]) -> Result<VertexIds> {
        match ids {
            Ids::Dense => Ok(VertexIds::Dense),
            Ids::Numbers => Ok(VertexIds::Numbers(self.slab(numbers)?.to_vec())),
            Ids::Words => {
                let file = self.source.shown(ends.file());
                let (ends, text) = (self.slab::<u64>(ends)?, self.slab::<u8>(text)?);
                let mut words = Vec::with_capacity(ends.len());
                let mut from = 0;
                for (row, &end) in (0..).zip(ends.iter()) {
                    let word = text.get(from as usize..end as usize).map(str::from_utf8);
                    let Some(Ok(word)) = word else {
                        let place = Place::row(file.display().to_string(), row);
                        return Err(Error::malformed(place, "the end of a word of UTF-8", format!("{end}")));
                    };
                    words.push(word.to_owned());
                    from = end;
                }
                // If two vertices had the same id, results for this id would be ambiguous.
                let mut known = HashMap::with_capacity(words.len());
                for (row, word) in (0..).zip(&words) {
                    if let Some(first) = known.insert(word, row) {
                        let place = Place::row(file.display().to_string(), row);
                        let found = format!("{word:.60?} at rows {first} and {row}");
                        return Err(Error::malformed(place, "each id once", found));
                    }
                }
                Ok(VertexIds::Words(words))
            }
        }
    }
}

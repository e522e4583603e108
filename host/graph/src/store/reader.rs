//! Reader of stores, which maps their files and checks them before it returns the data set.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use eciton_tensor::{Buffer, Plain, Slab, SlabOwner, stride_for};

use super::description::{Description, Ids, Kind, LabelKind};
use super::section::{Section, Written};
use crate::adjacency::{Adjacency, Graph};
use crate::checksum;
use crate::corrections::{Correction, Corrections};
use crate::dataset::{Dataset, EdgeFeatures, VertexIds};
use crate::error::{Error, Place, Result};
use crate::features::{DenseRows, Features, SparseRows};
use crate::graphs::Graphs;
use crate::labels::{Labels, Values};
use crate::mapping;
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
    let described = Description::open(path)?;
    let files = Files::map(path, &described.sections)?;
    files.check()?;
    let lists = |[offsets, neighbours]: [Section; 2]| -> Result<Adjacency> {
        Ok(Adjacency::from_parts(files.slab(offsets)?, files.slab(neighbours)?)?)
    };
    let incoming = lists([Section::Offsets, Section::Neighbours])?;
    let outgoing = match described.symmetric {
        true => None,
        false => Some(lists([Section::OutOffsets, Section::OutNeighbours])?),
    };
    let split = Split {
        train: files.slab(Section::Train)?.to_vec(),
        validation: files.slab(Section::Validation)?.to_vec(),
        test: files.slab(Section::Test)?.to_vec(),
    };
    Dataset {
        edge_features: files.edge_features(&described)?,
        graphs: files.graphs(&described)?,
        ids: files.ids(described.ids, Section::VERTEX_IDS)?,
        names: described.names.clone(),
        parts: described.parts.clone(),
        ..Dataset::new(
            described.name.clone(),
            Graph::from_parts(incoming, outgoing)?,
            files.features(&described)?.with_corrections(files.corrections(&described)?),
            files.labels(described.labels)?,
            split,
        )
    }
    .checked()
}

/// Sections of a store, whose files are mapped into memory.
struct Files<'a> {
    path: &'a Path,
    sections: Vec<(Written, Arc<dyn SlabOwner>)>,
}

impl<'a> Files<'a> {
    fn map(path: &'a Path, sections: &[Written]) -> Result<Self> {
        let map = |written: &Written| {
            let file = path.join(written.section.file());
            let owner = mapping::map_checked(&file, Some(written.crc32))?;
            let (found, width) = (owner.bytes().len() as u64, written.section.width());
            if written.values.checked_mul(width) != Some(found) {
                let place = Place::whole(file.display().to_string());
                let expected = format!("{} numbers of {width} bytes", written.values);
                return Err(Error::malformed(place, expected, format!("{found} bytes")));
            }
            Ok((written.clone(), owner))
        };
        Ok(Self { path, sections: sections.iter().map(map).collect::<Result<_>>()? })
    }

    /// Computes the checksums of all sections and compares them with the description.
    fn check(&self) -> Result<()> {
        let found = checksum::crc32s(self.sections.iter().map(|(_, owner)| owner.bytes()).collect());
        for (found, (written, _)) in found.into_iter().zip(&self.sections) {
            let expected = written.crc32;
            if found != expected {
                return Err(Error::Checksum {
                    path: self.path.join(written.section.file()),
                    expected,
                    found,
                });
            }
        }
        Ok(())
    }

    fn slab<T: Plain>(&self, section: Section) -> Result<Slab<T>> {
        let Some((_, owner)) = self.sections.iter().find(|(w, _)| w.section == section) else {
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
                let (rows, width) = (described.vertices as usize, columns as usize);
                let values = self.slab::<f32>(Section::Features)?;
                let stride = stride_for(width);
                let padded = |&row: &usize| {
                    values[row * stride + width..][..stride - width].iter().any(|v| v.to_bits() != 0)
                };
                let work =
                    if width < stride { shares(rows, threads_for(values.len() as u64)) } else { Vec::new() };
                let first = on_threads(work, |mut own| own.find(padded));
                if let Some(row) = first.into_iter().flatten().next() {
                    let place = Place::row(Section::Features.file(), row as u64);
                    return Err(Error::malformed(place, "zeros after the last column", "other values"));
                }
                let buffer = Buffer::over(rows, width, values).map_err(Error::memory("features"))?;
                Ok(Features::Dense(DenseRows::new(&buffer)?))
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
            let file = self.path.join(Section::LabelValues.file()).display().to_string();
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
        let file = self.path.join(Section::Graphs.file()).display().to_string();
        let ids = self.ids(ids, Section::GRAPH_IDS)?;
        Graphs::from_standing(self.slab(Section::Graphs)?.to_vec(), ids, &file).map(Some)
    }

    fn ids(&self, ids: Ids, [numbers, ends, text]: [Section; 3]) -> Result<VertexIds> {
        match ids {
            Ids::Dense => Ok(VertexIds::Dense),
            Ids::Numbers => Ok(VertexIds::Numbers(self.slab(numbers)?.to_vec())),
            Ids::Words => {
                let file = self.path.join(ends.file());
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

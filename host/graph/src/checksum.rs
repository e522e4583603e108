//! Checksums of a data set, which are the CRC-32 of each section's values as they are in memory.

use std::sync::atomic::{AtomicUsize, Ordering};

use eciton_tensor::{Plain, Slab, bytes_of};

use crate::dataset::{Dataset, Features, Held, Labels, VertexIds};
use eciton_input::threads::{on_threads, threads_for};

/// Number of bytes that a thread reads from a section at a time.
const PIECE: usize = 8 << 20;

/// Part of a data set to which a checksum belongs. Messages contain its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The adjacency lists, and the graph to which each vertex belongs.
    Graph,
    /// Features of the vertices.
    Features,
    /// Features of the edges.
    EdgeFeatures,
    /// Labels of the vertices.
    Labels,
    /// The sets of vertices for training, validation and test.
    Split,
    /// The names of vertices, graphs, columns and classes.
    Names,
}

/// Checksum of one section of a data set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checksum {
    /// Part of the data set to which the section belongs.
    pub part: Part,
    /// Length of the section, in bytes.
    pub bytes: u64,
    /// CRC-32 checksum of the section's bytes.
    pub crc32: u32,
}

/// Sections whose checksums are requested, with the checksums that are already known.
#[derive(Default)]
struct Sections<'a> {
    all: Vec<(Part, &'a [u8], Option<Checksum>)>,
}

impl<'a> Sections<'a> {
    fn slab<T: Plain>(&mut self, part: Part, slab: &'a Slab<T>) {
        self.bytes(part, bytes_of(slab), slab.crc32());
    }

    fn bytes(&mut self, part: Part, bytes: &'a [u8], crc32: Option<u32>) {
        let known = crc32.map(|crc32| Checksum { part, bytes: bytes.len() as u64, crc32 });
        self.all.push((part, bytes, known));
    }

    fn known(&mut self, checksum: Checksum) {
        self.all.push((checksum.part, &[], Some(checksum)));
    }

    fn values<T: Plain>(&mut self, part: Part, values: &'a [T]) {
        self.all.push((part, bytes_of(values), None));
    }

    fn checksums(self) -> Vec<Checksum> {
        let unknown = self.all.iter().filter(|(.., known)| known.is_none()).map(|(_, bytes, _)| *bytes);
        let mut unknown = crc32s(unknown.collect()).into_iter();
        let checksum = |(part, bytes, known): (Part, &[u8], Option<Checksum>)| {
            let computed = |crc32| Checksum { part, bytes: bytes.len() as u64, crc32 };
            known.unwrap_or_else(|| computed(unknown.next().unwrap_or_default()))
        };
        self.all.into_iter().map(checksum).collect()
    }
}

/// Returns the checksums of all sections of a data set, always in the same order. Checksums of
/// features are those of the unscaled features.
#[must_use]
pub fn for_dataset(dataset: &Dataset) -> Vec<Checksum> {
    let mut sections = Sections::default();
    match &dataset.held {
        Some(held) => held.checksums[..2].iter().for_each(|known| sections.known(*known)),
        None => {
            let (offsets, neighbours) = dataset.graph.incoming().slabs();
            sections.slab(Part::Graph, offsets);
            sections.slab(Part::Graph, neighbours);
        }
    }
    if let Some(graphs) = &dataset.graphs {
        sections.values(Part::Graph, graphs.standing_of_vertices());
    }
    let scaled = dataset.unscaled.as_deref();
    let held =
        if scaled.is_some() { Vec::new() } else { for_features(&dataset.features, dataset.held.as_ref()) };
    if let Some(rows) = &dataset.edge_features {
        sections.slab(Part::EdgeFeatures, rows.slab());
    }
    let ends: Option<Vec<u32>> = dataset
        .labelled_edges
        .as_ref()
        .map(|edges| edges.ends.iter().flat_map(|&(source, target)| [source, target]).collect());
    if let Some(ends) = &ends {
        sections.values(Part::Graph, ends);
    }
    match &dataset.labels {
        Labels::Classes { of, .. } => sections.values(Part::Labels, of),
        Labels::Flags(values) | Labels::Numbers(values) => {
            sections.values(Part::Labels, values.as_slice());
        }
    }
    let classes = [u64::from(dataset.labels.width())];
    sections.values(Part::Labels, &classes);
    for ids in [&dataset.split.train, &dataset.split.validation, &dataset.split.test] {
        sections.values(Part::Split, ids);
    }
    let names = names(dataset);
    sections.values(Part::Names, &names);
    let mut all = sections.checksums();
    all.extend(scaled.unwrap_or(&held));
    all
}

/// Returns the checksums of the sections of features, in their current form. If only some rows are
/// `held`, they are those of all rows.
#[must_use]
pub fn for_features(features: &Features, held: Option<&Held>) -> Vec<Checksum> {
    let mut sections = Sections::default();
    match (features, held) {
        (_, Some(held)) => sections.known(held.checksums[2]),
        (Features::Dense(dense), None) => {
            sections.bytes(Part::Features, bytes_of(dense.view().data()), dense.buffer().crc32());
        }
        (Features::Sparse(rows), None) => {
            sections.slab(Part::Features, &rows.offsets);
            sections.slab(Part::Features, &rows.indices);
            sections.slab(Part::Features, &rows.values);
        }
    }
    let columns = [u64::from(features.columns())];
    sections.values(Part::Features, &columns);
    let corrections = corrections(features);
    sections.values(Part::Features, &corrections);
    sections.checksums()
}

/// Returns the corrections of the features as bytes.
fn corrections(features: &Features) -> Vec<u8> {
    let mut bytes = Vec::new();
    for correction in features.corrections().entries() {
        bytes.extend(correction.row.to_le_bytes());
        bytes.extend(correction.column.to_le_bytes());
        bytes.extend(correction.residual.to_le_bytes());
    }
    bytes
}

/// Returns the names of vertices, graphs, columns and classes as bytes. A separator follows each
/// name and each list.
fn names(dataset: &Dataset) -> Vec<u8> {
    let mut bytes = Vec::new();
    let ids = std::iter::once(&dataset.ids).chain(dataset.graphs.as_ref().map(|graphs| graphs.ids()));
    for ids in ids {
        match ids {
            VertexIds::Dense => {}
            VertexIds::Numbers(numbers) => numbers.iter().for_each(|n| bytes.extend(n.to_le_bytes())),
            VertexIds::Words(words) => add_words(&mut bytes, words),
        }
        bytes.push(0xff);
    }
    let names = &dataset.names;
    for list in [&names.labels, &names.features, &names.edge_features, &names.target] {
        add_words(&mut bytes, list);
        bytes.push(0xff);
    }
    bytes
}

fn add_words(bytes: &mut Vec<u8>, words: &[String]) {
    for word in words {
        bytes.extend_from_slice(word.as_bytes());
        // The byte 0xfe does not occur in UTF-8.
        bytes.push(0xfe);
    }
}

/// Returns the CRC-32 checksum of each section. Several threads work on pieces of the sections.
pub(crate) fn crc32s(sections: Vec<&[u8]>) -> Vec<u32> {
    let pieces: Vec<(usize, &[u8])> = (0..)
        .zip(&sections)
        .flat_map(|(at, section)| section.chunks(PIECE).map(move |piece| (at, piece)))
        .collect();
    let bytes = sections.iter().map(|section| section.len() as u64).sum::<u64>();
    let next = AtomicUsize::new(0);
    let work = vec![(); threads_for(bytes)];
    let done = on_threads(work, |()| {
        let mut own = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some((_, piece)) = pieces.get(at) else { return own };
            let mut crc32 = crc32fast::Hasher::new();
            crc32.update(piece);
            own.push((at, crc32));
        }
    });
    let mut done: Vec<_> = done.into_iter().flatten().collect();
    done.sort_unstable_by_key(|(at, _)| *at);
    let mut found = vec![crc32fast::Hasher::new(); sections.len()];
    for (at, crc32) in &done {
        found[pieces[*at].0].combine(crc32);
    }
    found.into_iter().map(crc32fast::Hasher::finalize).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::generate::ManyGraphs;
    use crate::store;

    fn made(graphs: u64) -> Dataset {
        let shape = ManyGraphs { graphs, ..ManyGraphs::default() };
        shape.generate().unwrap().dataset("made", 1).unwrap()
    }

    #[test]
    fn a_store_has_the_checksums_of_the_data_set_that_it_was_written_from() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let data = made(40);
        store::write(&path, &data).unwrap();
        assert_eq!(for_dataset(&store::open(&path).unwrap()), for_dataset(&data));
    }

    #[test]
    fn each_part_has_checksums_of_its_own() {
        let data = made(30);
        let before = for_dataset(&data);
        let changed = |change: &dyn Fn(&mut Dataset)| {
            let mut other = data.clone();
            change(&mut other);
            let after = for_dataset(&other);
            let pairs = before.iter().zip(&after).filter(|(before, after)| before != after);
            let mut parts: Vec<Part> = pairs.map(|(before, _)| before.part).collect();
            parts.dedup();
            parts
        };
        assert!(changed(&|_| {}).is_empty());
        let train = &|d: &mut Dataset| {
            d.split.train.pop();
        };
        assert_eq!(changed(train), [Part::Split]);
        let names = &|d: &mut Dataset| d.names.target = vec!["a".to_owned()];
        assert_eq!(changed(names), [Part::Names]);
        let labels = &|d: &mut Dataset| d.labels = Labels::none(d.vertices());
        assert_eq!(changed(labels), [Part::Labels]);
        let features = &|d: &mut Dataset| d.features = Features::identity(d.vertices());
        assert!(changed(features).contains(&Part::Features));
    }
}

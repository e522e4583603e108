//! Stores whose rows are in the order of a partition, which are written without a copy in memory.

use std::path::Path;

use eciton_tensor::Plain;

use super::section::{PIECE_BYTES, Section};
use super::writer::{GraphSize, Writer};
use crate::adjacency::Adjacency;
use crate::dataset::Dataset;
use crate::error::{Error, Place, Result};
use crate::features::Features;
use crate::order::{ByVertex, Permutation};
use crate::scaling::Moments;
use crate::summary::Summary;

/// Partition of the vertices of a data set.
#[derive(Debug, Clone)]
pub struct Partition {
    /// Vertex order of the partition. Each part is a range of new vertices.
    pub permutation: Permutation,
    /// First new vertex of each part.
    pub firsts: Vec<u32>,
    /// Size of the pieces of the store's arrays that have a checksum of their own, in bytes. A host
    /// reads whole pieces.
    pub piece_bytes: u64,
}

/// Size of a part, and what it reads of the others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PartSize {
    /// Number of vertices.
    pub rows: u32,
    /// Number of edges that end in the part.
    pub edges: u64,
    /// Number of vertices of other parts with edges to or from the part.
    pub ghosts: u32,
}

impl Partition {
    /// Divides the vertices in the order of `permutation` into `count` parts, so that all have about
    /// the same number of vertices and edges.
    ///
    /// # Errors
    /// Returns [`Error::Mismatch`] if there are fewer vertices than parts.
    pub fn equal(data: &Dataset, permutation: Permutation, count: u32) -> Result<Self> {
        let vertices = data.vertices();
        if vertices < count {
            return Err(too_few(vertices, count));
        }
        let lists = data.graph.incoming();
        let work = |v: u32| lists.neighbours_of(v).len() as u64 + 1;
        let total = data.graph.edges() + u64::from(vertices);
        let (mut firsts, mut done) = (vec![0], 0);
        for (new, &old) in (0u32..).zip(permutation.old_of_new()) {
            let part = firsts.len() as u64;
            let is_due = u128::from(done) * u128::from(count) >= u128::from(total) * u128::from(part);
            // The remaining parts need a vertex each.
            let is_last_chance = vertices - new <= count - part as u32;
            if part < u64::from(count)
                && new > firsts.last().copied().unwrap_or(0)
                && (is_due || is_last_chance)
            {
                firsts.push(new);
            }
            done += work(old);
        }
        Ok(Self { permutation, firsts, piece_bytes: PIECE_BYTES })
    }

    /// Divides the vertices by the part of each vertex in `parts`. Within a part, vertices keep
    /// their order.
    ///
    /// # Errors
    /// Returns [`Error::Mismatch`] if `parts` does not have an entry for each vertex, and
    /// [`Error::Malformed`] if a part from 0 to `count` - 1 has no vertex or another part has some.
    pub fn of_parts(data: &Dataset, parts: &[u32], count: u32) -> Result<Self> {
        let mut old: Vec<u32> = (0..data.vertices()).collect();
        if parts.len() != old.len() {
            let (found, expected) = (parts.len() as u64, old.len() as u64);
            let (place, other) = (Place::whole("partition"), "the data set".to_owned());
            return Err(Error::Mismatch { place, what: "vertices", found, expected, other });
        }
        old.sort_by_key(|&v| parts[v as usize]);
        let part = |v: &u32| parts[*v as usize];
        let first = |wanted: u32| old.partition_point(|v| part(v) < wanted) as u32;
        let firsts: Vec<u32> = (0..count).map(first).collect();
        let ends = firsts.iter().skip(1).copied().chain([first(count)]);
        if let Some(empty) = firsts.iter().zip(ends).position(|(first, end)| *first == end) {
            let expected = format!("vertices of each part from 0 to {}", count - 1);
            return Err(Error::malformed(
                Place::whole("partition"),
                expected,
                format!("none of part {empty}"),
            ));
        }
        if let Some(other) = old.last().map(part).filter(|part| *part >= count) {
            let expected = format!("parts from 0 to {}", count - 1);
            return Err(Error::malformed(Place::whole("partition"), expected, format!("part {other}")));
        }
        Ok(Self { permutation: Permutation::from_old_of_new(old)?, firsts, piece_bytes: PIECE_BYTES })
    }

    /// Returns the ranges of new vertices of the parts.
    fn ranges(&self) -> impl Iterator<Item = std::ops::Range<u32>> + '_ {
        let ends = self.firsts.iter().skip(1).copied().chain([self.permutation.len() as u32]);
        self.firsts.iter().copied().zip(ends).map(|(first, end)| first..end)
    }

    /// Returns the size of each part.
    #[must_use]
    pub fn sizes(&self, data: &Dataset) -> Vec<PartSize> {
        let (old, new) = (self.permutation.old_of_new(), self.permutation.new_of_old());
        let lists = [Some(data.graph.incoming()), data.graph.transpose()];
        // The last part that has a vertex as its ghost, so that each counts once.
        let mut counted = vec![u32::MAX; old.len()];
        let size = |(part, range): (u32, std::ops::Range<u32>)| {
            let mut size = PartSize { rows: range.len() as u32, ..PartSize::default() };
            for &v in &old[range.start as usize..range.end as usize] {
                size.edges += data.graph.incoming().neighbours_of(v).len() as u64;
                for &u in lists.into_iter().flatten().flat_map(|lists| lists.neighbours_of(v)) {
                    let is_ghost = !range.contains(&new[u as usize]);
                    if is_ghost && std::mem::replace(&mut counted[u as usize], part) != part {
                        size.ghosts += 1;
                    }
                }
            }
            size
        };
        (0..).zip(self.ranges()).map(size).collect()
    }

    /// Writes `data` as a store to the folder `path`, which must not exist, in the order of this
    /// partition. Lists and features that are in mapped files stay there. The memory is that of the
    /// permutation (8 bytes a vertex), and twice that of labels, ids and split.
    ///
    /// # Errors
    /// Returns the errors of [`Writer`].
    pub fn write(&self, path: &Path, data: &Dataset) -> Result<()> {
        let mut writer = Writer::create(path)?;
        writer.parts(&self.firsts, self.piece_bytes);
        self.lists(&mut writer, data.graph.incoming(), [Section::Offsets, Section::Neighbours])?;
        if let Some(outgoing) = data.graph.transpose() {
            self.lists(&mut writer, outgoing, [Section::OutOffsets, Section::OutNeighbours])?;
        }
        let (vertices, edges) = (u64::from(data.vertices()), data.graph.edges());
        writer.set_graph(GraphSize { vertices, edges, symmetric: data.graph.symmetric() });
        self.features(&mut writer, &data.features)?;
        if let Some(rows) = &data.edge_features {
            let mut section = writer.section(Section::EdgeFeatures)?;
            let (lists, width) = (data.graph.incoming(), rows.columns() as usize);
            self.each_list(lists, |list| {
                list.iter().try_for_each(|&(_, at)| section.write(&rows.values()[at * width..][..width]))
            })?;
            writer.keep_edge_features(rows.columns(), section.finish()?);
        }
        if let Features::Dense(_) = &data.features {
            let old = self.permutation.old_of_new();
            let of = (&data.graph, &data.features);
            let summary = Summary::new(of, (&data.labels, &data.split), |at| old[at] as usize);
            // The training rows in the order of the store, as its reader sums them.
            let mut rows = data.split.training_rows(data.graphs.as_ref(), data.features.rows());
            rows.sort_unstable_by_key(|&row| self.permutation.new_of_old()[row as usize]);
            writer.summary(summary, &Moments::from_rows(&data.features, &rows))?;
        }
        let (labels, split) = (data.labels.clone(), data.split.clone());
        let (graphs, ids) = (data.graphs.clone(), data.ids.clone());
        let ByVertex { labels, split, graphs, ids } =
            ByVertex { labels, split, graphs, ids }.permuted(&self.permutation)?;
        writer.labels(&labels)?;
        writer.split(&split)?;
        if let Some(graphs) = &graphs {
            writer.graphs(graphs)?;
        }
        writer.ids(&ids)?;
        writer.names(&data.names);
        writer.finish(&data.name)
    }

    /// Calls `write` with the list of each new vertex in turn. An entry is the new neighbour and the
    /// index of the edge in the old lists, and entries ascend.
    fn each_list(
        &self,
        lists: &Adjacency,
        mut write: impl FnMut(&[(u32, usize)]) -> Result<()>,
    ) -> Result<()> {
        let new = self.permutation.new_of_old();
        let mut list: Vec<(u32, usize)> = Vec::new();
        for &v in self.permutation.old_of_new() {
            let first = lists.offsets()[v as usize] as usize;
            list.clear();
            list.extend(lists.neighbours_of(v).iter().map(|&u| new[u as usize]).zip(first..));
            list.sort_unstable();
            write(&list)?;
        }
        Ok(())
    }

    fn lists(
        &self,
        writer: &mut Writer,
        lists: &Adjacency,
        [offsets, neighbours]: [Section; 2],
    ) -> Result<()> {
        let mut ends = writer.section::<u64>(offsets)?;
        let mut section = writer.section::<u32>(neighbours)?;
        ends.write(&[0])?;
        let mut row: Vec<u32> = Vec::new();
        self.each_list(lists, |list| {
            row.clear();
            row.extend(list.iter().map(|(neighbour, _)| neighbour));
            section.write(&row)?;
            ends.write(&[section.values()])
        })?;
        writer.keep(ends.finish()?);
        writer.keep(section.finish()?);
        Ok(())
    }

    fn features(&self, writer: &mut Writer, features: &Features) -> Result<()> {
        let old = self.permutation.old_of_new();
        writer.corrections(&features.corrections().permuted(self.permutation.new_of_old()))?;
        match features {
            Features::Dense(rows) => {
                let view = rows.view();
                let mut section = writer.rows(view.columns() as u32)?;
                old.iter().try_for_each(|&v| section.write(view.row(v as usize)))?;
                section.finish()
            }
            Features::Sparse(rows) => {
                let mut ends = writer.section::<u64>(Section::FeatureOffsets)?;
                ends.write(&[0])?;
                let mut end = 0;
                for &v in old {
                    end += rows.row(v as usize).0.len() as u64;
                    ends.write(&[end])?;
                }
                writer.keep(ends.finish()?);
                let mut columns = |at: u32| rows.row(at as usize).0;
                each_row(writer, Section::FeatureColumns, old, &mut columns)?;
                let mut values = |at: u32| rows.row(at as usize).1;
                each_row(writer, Section::FeatureValues, old, &mut values)?;
                writer.sparse(rows.columns);
                Ok(())
            }
        }
    }
}

fn each_row<'a, T: Plain>(
    writer: &mut Writer,
    section: Section,
    old: &[u32],
    row: &mut dyn FnMut(u32) -> &'a [T],
) -> Result<()> {
    let mut section = writer.section::<T>(section)?;
    old.iter().try_for_each(|&v| section.write(row(v)))?;
    writer.keep(section.finish()?);
    Ok(())
}

fn too_few(vertices: u32, count: u32) -> Error {
    let (place, other) = (Place::whole("partition"), format!("a partition into {count} parts"));
    Error::Mismatch { place, what: "vertices", found: vertices.into(), expected: count.into(), other }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::ops::Range;

    use super::*;
    use crate::adjacency::{Graph, Options};
    use crate::checksum;
    use crate::generate::ManyGraphs;
    use crate::labels::Labels;
    use crate::order::{Order, permute_dataset};
    use crate::random::SplitMix64;
    use crate::split::Split;
    use crate::store::{self, Outline};

    fn data(seed: u64) -> Dataset {
        ManyGraphs { graphs: 12, seed, ..ManyGraphs::default() }
            .generate()
            .unwrap()
            .dataset("made", 1)
            .unwrap()
    }

    #[test]
    fn a_partition_has_the_bytes_of_a_reordered_data_set() {
        let place = tempfile::tempdir().unwrap();
        for (at, seed) in (0..6).zip(3u64..) {
            println!("seed {seed}");
            let data = data(seed);
            let mut random = SplitMix64::new(seed);
            let mut order: Vec<u32> = (0..data.vertices()).collect();
            random.shuffle(&mut order);
            let permutation = Permutation::from_old_of_new(order).unwrap();
            let partition = Partition::equal(&data, permutation.clone(), 3).unwrap();
            let path = place.path().join(at.to_string());
            partition.write(&path, &data).unwrap();
            let found = store::open(&path).unwrap();
            assert_eq!(found.parts, partition.firsts);
            let moved = permute_dataset(data, permutation).unwrap().dataset;
            assert_eq!(Dataset { parts: Vec::new(), ..found }, moved);
        }
    }

    /// Overwrites the bytes of a section that are in no piece with `values`.
    fn damage_others(path: &Path, section: Section, values: Range<u64>, piece_bytes: u64) {
        let file = path.join(section.file());
        let mut bytes = std::fs::read(&file).unwrap();
        let (start, end) = (values.start * section.width(), values.end * section.width());
        let needed = start / piece_bytes * piece_bytes..end.div_ceil(piece_bytes) * piece_bytes;
        (0..).zip(&mut bytes).filter(|(at, _)| !needed.contains(at)).for_each(|(_, byte)| *byte ^= 0x5a);
        std::fs::write(file, bytes).unwrap();
    }

    #[test]
    fn rows_are_opened_without_the_pieces_of_others() {
        let place = tempfile::tempdir().unwrap();
        for (at, seed) in (0..6u32).zip(3u64..) {
            println!("seed {seed}");
            let mut random = SplitMix64::new(seed);
            let (vertices, columns) = (200 + random.below(200), 3 + at % 3 * 8);
            let mut vertex = || random.below(vertices) as u32;
            let edges: Vec<(u32, u32)> = (0..3000).map(|_| (vertex(), vertex())).collect();
            let options = Options { symmetric: at % 2 == 0, keep_self_loops: true };
            let graph = Graph::from_edges(vertices, edges.into_iter(), options).unwrap();
            let values: Vec<f32> = (0..vertices * u64::from(columns)).map(|v| v as f32 * 0.5).collect();
            let labels = Labels::classes((0..vertices as u32).map(|v| v % 4).collect(), 4);
            let split = Split { train: (0..90).collect(), validation: vec![90], test: vec![91] };
            let features = Features::dense(columns, &values).unwrap();
            let data = Dataset::new("made".to_owned(), graph, features, labels, split);
            let order = Permutation::compute(&data.graph, Order::ALL[at as usize % 4]);
            let partition = Partition { piece_bytes: 512, ..Partition::equal(&data, order, 3).unwrap() };
            let path = place.path().join(at.to_string());
            partition.write(&path, &data).unwrap();
            let whole = store::open(&path).unwrap();
            let (first, last) = (partition.firsts[1], partition.firsts[2]);
            let choose = |outline: &Outline<'_>| {
                assert_eq!((outline.offsets.len() as u64, outline.columns), (vertices + 1, columns));
                Some(outline.parts[1]..outline.parts[2])
            };
            let edges = |lists: &Adjacency| lists.offsets()[first as usize]..lists.offsets()[last as usize];
            damage_others(&path, Section::Neighbours, edges(whole.graph.incoming()), 512);
            if let Some(outgoing) = whole.graph.transpose() {
                damage_others(&path, Section::OutNeighbours, edges(outgoing), 512);
            }
            let stride = eciton_tensor::stride_for(columns as usize) as u64;
            damage_others(&path, Section::Features, u64::from(first) * stride..u64::from(last) * stride, 512);
            drop(whole);
            let data = permute_dataset(data, partition.permutation.clone()).unwrap().dataset;
            assert!(matches!(store::open(&path), Err(Error::Checksum { .. })));
            let found = store::open_rows(&*path, &choose).unwrap().unwrap();
            let held = found.held.as_ref().unwrap();
            assert_eq!((held.rows.clone(), &*held.offsets), (first..last, data.graph.offsets()));
            assert_eq!(
                (found.edges(), &found.labels, &found.split),
                (data.edges(), &data.labels, &data.split)
            );
            let Features::Dense(rows) = &found.features else { unreachable!() };
            let Features::Dense(wanted) = &data.features else { unreachable!() };
            for row in 0..data.vertices() {
                let is_held = held.rows.contains(&row);
                let lists = [found.graph.in_neighbours(row), found.graph.out_neighbours(row)];
                let wanted_lists = [data.graph.in_neighbours(row), data.graph.out_neighbours(row)];
                assert_eq!(lists, if is_held { wanted_lists } else { [&[][..]; 2] }, "row {row}");
                if is_held {
                    assert_eq!(rows.view().row((row - first) as usize), wanted.view().row(row as usize));
                }
            }
            let of = (&data.graph, &data.features);
            assert_eq!(held.summary, Summary::new(of, (&data.labels, &data.split), |row| row));
            assert_eq!(*held.moments, Moments::from_rows(&data.features, &data.split.train));
            assert_eq!(checksum::for_dataset(&found), checksum::for_dataset(&data));
            // A byte of a needed piece.
            let file = path.join(Section::Features.file());
            let mut bytes = std::fs::read(&file).unwrap();
            bytes[(u64::from(first) * stride * 4) as usize + 5] ^= 1;
            std::fs::write(&file, bytes).unwrap();
            let refused = store::open_rows(&*path, &choose).unwrap_err();
            assert!(refused.to_string().contains("piece"), "{refused}");
        }
    }

    #[test]
    fn parts_have_equal_work_and_each_ghost_once() {
        let data = data(1);
        let order = Permutation::compute(&data.graph, Order::Natural);
        let total = data.graph.edges() + u64::from(data.vertices());
        for count in [1, 2, 3, 7] {
            let partition = Partition::equal(&data, order.clone(), count).unwrap();
            let sizes = partition.sizes(&data);
            assert_eq!(sizes.len() as u32, count);
            assert_eq!(sizes.iter().map(|size| size.rows).sum::<u32>(), data.vertices());
            for size in &sizes {
                let work = size.edges + u64::from(size.rows);
                assert!(work.abs_diff(total / u64::from(count)) < 60, "{work} of {total} / {count}");
                assert!(size.ghosts <= data.vertices() - size.rows);
            }
        }
        let one = Partition::equal(&data, order.clone(), 1).unwrap();
        assert_eq!(one.sizes(&data)[0].ghosts, 0);
        let most = Partition::equal(&data, order.clone(), data.vertices()).unwrap();
        assert!(most.sizes(&data).iter().all(|size| size.rows == 1));
        assert!(Partition::equal(&data, order, data.vertices() + 1).is_err());
    }

    #[test]
    fn a_list_of_parts_is_checked() {
        let data = data(1);
        let rows = data.vertices() as usize;
        let parts: Vec<u32> = (0..rows as u32).map(|v| v % 3).collect();
        let partition = Partition::of_parts(&data, &parts, 3).unwrap();
        assert_eq!(partition.permutation.old_of_new()[..3], [0, 3, 6]);
        let told = |parts: &[u32], count| Partition::of_parts(&data, parts, count).unwrap_err().to_string();
        assert!(told(&parts[1..], 3).contains("vertices"), "{}", told(&parts[1..], 3));
        assert!(told(&parts, 2).contains("found part 2"), "{}", told(&parts, 2));
        assert!(told(&parts, 4).contains("none of part 3"), "{}", told(&parts, 4));
    }
}

//! Data sets of many small graphs. The class of a graph determines the structure of its links and,
//! slightly, the features of its vertices.
//!
//! A graph of n vertices has 2 n links in every class, so that neither size nor density reveals the
//! class. The class determines the structure:
//!
//! | class | links |
//! | --- | --- |
//! | 0 | at random (Erdos and Renyi 1959) |
//! | 1 | preferential attachment, two links a vertex (Barabasi and Albert 1999) |
//! | 2 | a ring in which each vertex is linked to the two next ones on either side (Watts and Strogatz 1998) |
//! | 3 | a ring of cliques of five (Watts 1999) |
//!
//! In each graph a fraction of the links, drawn uniformly from `rewire`, is replaced by random
//! links, so that classes overlap. Class 2 becomes a small-world graph in this way. A vertex has
//! one of K kinds: with probability `p_own` the kind of its class (class modulo K), else a uniform
//! one. The features are the kind in one-hot form, or the constant 1 without kinds. A fraction
//! `flip` of the labels is drawn again from all classes.
//!
//! Size, links and kinds of a graph come from its own random streams, so any thread can generate
//! any graph at any time. The first vertex of a graph represents it ([`crate::graphs`]).
//!
//! ```
//! use eciton_graph::generate::ManyGraphs;
//! let data = ManyGraphs { graphs: 30, ..ManyGraphs::default() }.generate()?.dataset("made", 1)?;
//! assert_eq!(data.graphs.as_ref().map(|graphs| graphs.count()), Some(30));
//! assert_eq!(data.graph.edges(), 4 * u64::from(data.vertices()));
//! # Ok::<(), eciton_graph::error::Error>(())
//! ```

use std::ops::Range;

use super::keyed::{Purpose, stream, unit};
use super::layout::Layout;
use super::planted::Division;
use super::{MAX_FEATURES, real, whole};
use crate::adjacency::{Graph, Options};
use crate::build;
use crate::dataset::{Dataset, VertexIds};
use crate::edges::EdgeSource;
use crate::error::Result;
use crate::features::{Features, SparseBuilder};
use crate::graphs::Graphs;
use crate::labels::Labels;
use crate::random::SplitMix64;
use crate::split::{NO_LABEL, Split};

/// Average number of links per vertex in each graph.
const LINKS: u32 = 2;
/// Number of vertices in a clique of a graph of class 3.
const CLIQUE: u32 = 5;
/// Minimum number of vertices of a graph.
const MIN_VERTICES: u32 = 8;
/// Maximum number of vertices of a graph. All links of a graph must fit into one chunk.
const MAX_VERTICES: u32 = 1 << 20;
/// Maximum total number of vertices of all graphs.
const MAX_ALL_VERTICES: u64 = 1 << 28;
/// Number of vertices per chunk. A chunk has more only if a single graph has more.
const CHUNK_VERTICES: u32 = 1 << 17;
/// Maximum number of classes. Each class has its own structure of links.
const MAX_CLASSES: u32 = 4;
/// Maximum number of graphs on which [`GeneratedMany::own_accuracy`] is measured.
const SAMPLE: u64 = 8192;

/// Specification of a data set of many small graphs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ManyGraphs {
    /// Number of graphs, from 1 to 2^25. `graphs` times the largest number of vertices must be at
    /// most 2^28.
    pub graphs: u64,
    /// Smallest and largest number of vertices of a graph, from 8 to 2^20. All sizes in between
    /// have the same probability.
    pub vertices: [u64; 2],
    /// Number of classes, from 2 to 4. All classes have the same number of graphs.
    pub classes: u32,
    /// Smallest and largest fraction of a graph's links that are replaced by random links, from 0
    /// to 1.
    pub rewire: [f64; 2],
    /// Number of kinds of vertices, from 0 to [`MAX_FEATURES`]. Each kind is a feature column.
    pub features: u32,
    /// Probability, from 0 to 1, that a vertex has the kind of its graph's class. Otherwise its
    /// kind is drawn uniformly.
    pub p_own: f64,
    /// Fraction of the labels that are drawn again from all classes, from 0 to 1.
    pub flip: f64,
    /// Seed of all random streams.
    pub seed: u64,
}

impl Default for ManyGraphs {
    fn default() -> Self {
        Self {
            graphs: 600,
            vertices: [20, 40],
            classes: 3,
            rewire: [0.2, 0.6],
            features: 8,
            p_own: 0.05,
            flip: 0.05,
            seed: 0,
        }
    }
}

impl ManyGraphs {
    /// Determines the sizes and classes of the graphs. Links are drawn only when they are read.
    ///
    /// # Errors
    /// Returns [`crate::error::Error::Parameter`] with the parameter that is outside its limits.
    pub fn generate(&self) -> Result<GeneratedMany> {
        whole("graphs", self.graphs, 1, MAX_ALL_VERTICES / u64::from(MIN_VERTICES))?;
        let [least, most] = self.vertices;
        whole("the largest number of vertices of a graph", most, MIN_VERTICES.into(), MAX_VERTICES.into())?;
        whole("the smallest number of vertices of a graph", least, MIN_VERTICES.into(), most)?;
        let all = self.graphs.saturating_mul(most);
        whole("graphs times largest number of vertices", all, 0, MAX_ALL_VERTICES)?;
        whole("classes", self.classes.into(), 2, MAX_CLASSES.into())?;
        whole("features", self.features.into(), 0, MAX_FEATURES.into())?;
        real("the largest fraction of rewired links", self.rewire[1], 0.0, 1.0)?;
        real("the smallest fraction of rewired links", self.rewire[0], 0.0, self.rewire[1])?;
        real("p_own", self.p_own, 0.0, 1.0)?;
        real("flip", self.flip, 0.0, 1.0)?;
        let (mut firsts, mut end, mut chunks) = (vec![0], 0u32, vec![0]);
        for graph in 0..self.graphs {
            // The total stays below MAX_ALL_VERTICES.
            let size = least + stream(self.seed, Purpose::Size, graph).below(most - least + 1);
            let begun = chunks.last().map_or(0, |&first: &u32| firsts[first as usize]);
            if end > begun && end - begun + size as u32 > CHUNK_VERTICES {
                chunks.push(graph as u32);
            }
            end += size as u32;
            firsts.push(end);
        }
        chunks.push(self.graphs as u32);
        let layout = Layout::new(self.graphs as u32, self.classes, true, self.seed);
        Ok(GeneratedMany { shape: *self, layout, firsts, chunks })
    }
}

/// Generated data set of many graphs. It has their links in chunks, the classes and labels of the
/// graphs, and the kinds of the vertices.
#[derive(Debug, Clone)]
pub struct GeneratedMany {
    shape: ManyGraphs,
    layout: Layout,
    /// First vertex of each graph, followed by the total number of vertices.
    firsts: Vec<u32>,
    /// First graph of each chunk, followed by the number of graphs.
    chunks: Vec<u32>,
}

impl GeneratedMany {
    /// Returns the specification of the data set.
    pub fn shape(&self) -> &ManyGraphs {
        &self.shape
    }

    /// Returns the number of graphs.
    pub fn graphs(&self) -> u32 {
        self.layout.vertices()
    }

    /// Returns the vertices of the graph with the index `graph`, or an empty range if there is
    /// none.
    pub fn members(&self, graph: u32) -> Range<u32> {
        let at = graph as usize;
        self.firsts.get(at..at + 2).map_or(0..0, |bounds| bounds[0]..bounds[1])
    }

    /// Returns the class that determines the structure of a graph, or 0 if the graph does not
    /// exist.
    pub fn class(&self, graph: u32) -> u32 {
        if graph < self.graphs() { self.layout.class(self.layout.rank(graph)) } else { 0 }
    }

    /// Returns the label of a graph. It is the class of the graph, or a random class for a fraction
    /// `flip` of the graphs.
    pub fn label(&self, graph: u32) -> u32 {
        let mut random = stream(self.shape.seed, Purpose::Flip, graph.into());
        if unit(random.next_u64()) < self.shape.flip {
            return random.below(self.shape.classes.into()) as u32;
        }
        self.class(graph)
    }

    /// Returns the labels of all vertices. The first vertex of each graph has the graph's label,
    /// and all others have [`NO_LABEL`].
    pub fn labels(&self) -> Labels {
        let mut of = vec![NO_LABEL; self.vertices() as usize];
        (0..self.graphs()).for_each(|graph| of[self.members(graph).start as usize] = self.label(graph));
        Labels::classes(of, self.shape.classes)
    }

    /// Draws the split of the graphs, which the seed determines. `labels` are the labels that
    /// [`GeneratedMany::labels`] returns.
    pub fn split(&self, labels: &Labels, division: Division) -> Split {
        let seed = stream(self.shape.seed, Purpose::Split, 0).next_u64();
        match (division, labels.as_classes()) {
            (Division::PerClass([train, validation]), Some(of)) => {
                Split::stratified(of, train, validation, seed)
            }
            (Division::PerClass(_), None) => Split::default(),
            (Division::Fractions(fractions), _) => Split::random(labels, fractions, seed),
        }
    }

    /// Returns the kind of each vertex of a graph, as the index of a feature column. It is 0 if
    /// vertices have no kinds.
    fn kinds(&self, graph: u32) -> impl Iterator<Item = u32> + '_ {
        let mut random = stream(self.shape.seed, Purpose::Kinds, graph.into());
        let kinds = self.shape.features.max(1);
        let own = self.class(graph) % kinds;
        self.members(graph).map(move |_| {
            let (chance, any) = (unit(random.next_u64()), random.below(kinds.into()) as u32);
            if chance < self.shape.p_own { own } else { any }
        })
    }

    /// Returns the features of all vertices, which are their kinds in one-hot form.
    fn features(&self) -> Result<Features> {
        if self.shape.features == 0 {
            return Features::constant(self.vertices());
        }
        let mut rows = SparseBuilder::new(self.shape.features);
        for kind in (0..self.graphs()).flat_map(|graph| self.kinds(graph)) {
            rows.push_row(&mut [(kind, 1.0)]);
        }
        Features::from_sparse(rows.finish())
    }

    /// Returns the assignment of the vertices to their graphs. The graphs have dense ids from 0.
    fn membership(&self) -> Result<Graphs> {
        let standing = |graph| self.members(graph).map(move |_| self.members(graph).start);
        let standing = (0..self.graphs()).flat_map(standing).collect();
        Graphs::from_standing(standing, VertexIds::Dense, "generated graphs")
    }

    /// Generates the data set with `threads` threads. It is split into 60 % training, 20 %
    /// validation and 20 % test graphs. The result does not depend on the number of threads.
    ///
    /// # Errors
    /// Returns [`crate::error::Error::Memory`] if the features do not fit in memory.
    pub fn dataset(&self, name: &str, threads: usize) -> Result<Dataset> {
        let graph = build::in_memory(self, Options::default(), threads)?;
        self.dataset_with(name, graph, Division::Fractions([0.6, 0.2]))
    }

    /// Creates the data set for `graph`, which must have been built from the links of this value.
    /// It takes about 120 bytes per vertex.
    ///
    /// # Errors
    /// Returns [`crate::error::Error::Memory`] if the features do not fit in memory, and the errors
    /// of [`Dataset::validate`] if `graph` was built from other links.
    pub fn dataset_with(&self, name: &str, graph: Graph, division: Division) -> Result<Dataset> {
        let labels = self.labels();
        let split = self.split(&labels, division);
        let (features, graphs) = (self.features()?, Some(self.membership()?));
        let (name, ids) = (name.to_owned(), VertexIds::Dense);
        Dataset { graphs, ids, ..Dataset::new(name, graph, features, labels, split) }.checked()
    }

    /// Returns the accuracy of a perfect prediction of the classes, which is 1 - flip (1 - 1 /
    /// classes).
    pub fn ceiling(&self) -> f64 {
        1.0 - self.shape.flip * (1.0 - 1.0 / f64::from(self.shape.classes))
    }

    /// Returns the best accuracy that is possible without the links, measured on up to 8,192
    /// graphs. The prediction is the class whose kind most vertices of a graph have.
    pub fn own_accuracy(&self) -> f64 {
        let mut random = stream(self.shape.seed, Purpose::Sample, 0);
        let all = u64::from(self.graphs());
        let sample = all.min(SAMPLE);
        let right = (0..sample).filter(|&at| {
            let graph = if sample == all { at } else { random.below(all) } as u32;
            self.likeliest(graph) == self.label(graph)
        });
        right.count() as f64 / sample as f64
    }

    /// Returns the class with the highest probability, given the kinds of a graph's vertices. If
    /// several classes have it, returns the first.
    fn likeliest(&self, graph: u32) -> u32 {
        let (classes, kinds) = (self.shape.classes, self.shape.features.max(1));
        let mut counts = [0u32; MAX_CLASSES as usize];
        for kind in self.kinds(graph) {
            for class in (0..classes).filter(|class| class % kinds == kind) {
                counts[class as usize] += 1;
            }
        }
        (0..classes).rev().max_by_key(|&class| counts[class as usize]).unwrap_or(0)
    }

    /// Generates the links of a graph and appends them to `into`.
    fn links(&self, graph: u32, into: &mut Vec<(u32, u32)>) {
        let Range { start, end } = self.members(graph);
        let size = end - start;
        let mut random = stream(self.shape.seed, Purpose::Links, graph.into());
        let [least, most] = self.shape.rewire;
        let rewired = least + (most - least) * unit(random.next_u64());
        let wanted = (size * LINKS) as usize;
        let mut links = match self.class(graph) {
            0 => Vec::new(),
            1 => preferential(size, &mut random),
            2 => ring(size),
            _ => cliques(size),
        };
        random.shuffle(&mut links);
        links.truncate((wanted as f64 * (1.0 - rewired)).round() as usize);
        while links.len() < wanted {
            for _ in links.len()..wanted {
                let one = random.below(size.into()) as u32;
                let other = random.below(u64::from(size) - 1) as u32;
                links.push(ordered(one, other + u32::from(other >= one)));
            }
            links.sort_unstable();
            links.dedup();
        }
        let mut ids: Vec<u32> = (start..end).collect();
        random.shuffle(&mut ids);
        into.extend(links.into_iter().map(|(one, other)| (ids[one as usize], ids[other as usize])));
    }
}

impl EdgeSource for GeneratedMany {
    fn vertices(&self) -> u64 {
        self.firsts.last().copied().unwrap_or(0).into()
    }

    fn chunks(&self) -> u64 {
        self.chunks.len() as u64 - 1
    }

    fn read(&self, chunk: u64, edges: &mut Vec<(u32, u32)>) -> Result<()> {
        let bounds = usize::try_from(chunk).ok().and_then(|at| self.chunks.get(at..)?.get(..2));
        for graph in bounds.map_or(0..0, |bounds| bounds[0]..bounds[1]) {
            self.links(graph, edges);
        }
        Ok(())
    }
}

fn ordered(one: u32, other: u32) -> (u32, u32) {
    (one.min(other), one.max(other))
}

/// Returns the links of a graph that grows by preferential attachment. Each new vertex is linked to
/// two earlier vertices, whose probability is proportional to their number of links. `size` is at
/// least 3.
fn preferential(size: u32, random: &mut SplitMix64) -> Vec<(u32, u32)> {
    let (mut links, mut ends) = (vec![(0, 1)], vec![0, 1]);
    for vertex in 2..size {
        let mut drawn = || ends[random.below(ends.len() as u64) as usize];
        let one = drawn();
        let mut other = drawn();
        while other == one {
            other = drawn();
        }
        links.extend([(one, vertex), (other, vertex)]);
        ends.extend([one, other, vertex, vertex]);
    }
    links
}

/// Returns the links of a ring in which each vertex is linked to the next two vertices. `size` is
/// at least 5.
fn ring(size: u32) -> Vec<(u32, u32)> {
    let after = |vertex: u32| [1, 2].map(|step| ordered(vertex, (vertex + step) % size));
    (0..size).flat_map(after).collect()
}

/// Returns the links of a ring of cliques with five vertices, each linked to the next. The last
/// clique may be smaller. There are at least two cliques.
fn cliques(size: u32) -> Vec<(u32, u32)> {
    let mut links = Vec::new();
    for first in (0..size).step_by(CLIQUE as usize) {
        let end = (first + CLIQUE).min(size);
        links.extend((first..end).flat_map(|one| (one + 1..end).map(move |other| (one, other))));
        links.push(ordered(end - 1, end % size));
    }
    links
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const SMALL: ManyGraphs = ManyGraphs {
        graphs: 90,
        vertices: [8, 33],
        classes: 4,
        rewire: [0.2, 0.6],
        features: 8,
        p_own: 0.05,
        flip: 0.0,
        seed: 5,
    };

    fn links(made: &GeneratedMany, graph: u32) -> Vec<(u32, u32)> {
        let mut links = Vec::new();
        made.links(graph, &mut links);
        links
    }

    #[test]
    fn graphs_have_the_links_and_sizes_that_were_asked_for() {
        for rewire in [[0.0, 0.0], [0.2, 0.6], [1.0, 1.0]] {
            let made = ManyGraphs { rewire, ..SMALL }.generate().unwrap();
            let mut sizes = Vec::new();
            for graph in 0..90 {
                let members = made.members(graph);
                let mut links = links(&made, graph);
                assert_eq!(links.len(), 2 * members.len());
                let inside = |&(a, b): &(u32, u32)| members.contains(&a) && members.contains(&b) && a != b;
                assert!(links.iter().all(inside), "graph {graph} is linked to another");
                links.iter_mut().for_each(|link| *link = ordered(link.0, link.1));
                links.sort_unstable();
                links.dedup();
                assert_eq!(links.len(), 2 * members.len(), "graph {graph} repeats a link");
                sizes.push(members.len());
            }
            assert!(sizes.iter().all(|size| (8..=33).contains(size)));
            assert!(sizes.iter().max() > sizes.iter().min());
            assert_eq!(sizes.iter().sum::<usize>() as u64, made.vertices());
        }
    }

    #[test]
    fn structures_are_what_they_are_called() {
        let made = ManyGraphs { rewire: [0.0; 2], vertices: [200; 2], ..SMALL }.generate().unwrap();
        for graph in 0..90 {
            let mut degrees = vec![0u32; 200];
            for (a, b) in links(&made, graph) {
                [a, b].iter().for_each(|v| degrees[(v - made.members(graph).start) as usize] += 1);
            }
            let most = degrees.iter().max().copied().unwrap();
            let fours = degrees.iter().filter(|&&degree| degree == 4).count();
            match made.class(graph) {
                0 => assert!(most > 7 && most < 18 && fours < 80, "{graph}: {most} {fours}"),
                1 => assert!(most > 18 && degrees.iter().all(|&d| d > 1), "{graph}: {most}"),
                2 => assert_eq!((most, fours), (4, 200)),
                // All members of a clique but two are linked to nothing else; a tenth or so went.
                _ => assert!(most <= 5 && fours > 40 && fours < 180, "{graph}: {most} {fours}"),
            }
        }
        assert_eq!(cliques(8).len(), 10 + 3 + 2);
        assert_eq!(cliques(11).len(), 20 + 3);
        let repeats = |mut links: Vec<(u32, u32)>| {
            let all = links.len();
            links.sort_unstable();
            links.dedup();
            all - links.len()
        };
        for size in 8..40 {
            let attached = preferential(size, &mut SplitMix64::new(size.into()));
            assert_eq!((repeats(cliques(size)), repeats(ring(size)), repeats(attached)), (0, 0, 0));
        }
    }

    #[test]
    fn the_same_for_any_threads_and_another_for_another_seed() {
        let shape = ManyGraphs { graphs: 20_000, ..SMALL };
        let made = shape.generate().unwrap();
        assert!(made.chunks() > 2, "one chunk shows nothing");
        let data = made.dataset("a", 1).unwrap();
        assert_eq!(data, made.dataset("a", 4).unwrap());
        assert_eq!(data.graph.edges(), 4 * made.vertices());
        assert!(made.read(made.chunks(), &mut Vec::new()).is_ok());
        let other = ManyGraphs { seed: 6, ..shape }.generate().unwrap().dataset("a", 1).unwrap();
        assert_ne!((&data.graph, &data.split), (&other.graph, &other.split));
        // Bits that a release must not change.
        let first = SMALL.generate().unwrap();
        let sum = |of: &[u32]| of.iter().fold(0u64, |sum, &v| sum.wrapping_mul(31).wrapping_add(v.into()));
        let data = first.dataset("a", 2).unwrap();
        let labels = data.labels.as_classes().unwrap();
        let sums = [sum(data.graph.neighbours()), sum(labels), sum(&data.split.train)];
        assert_eq!(sums, [1_494_537_565_472_195_175, 792_180_086_225_304_142, 12_666_870_003_981_242_988]);
    }

    #[test]
    fn classes_labels_and_splits_are_by_graph() {
        let made = ManyGraphs { graphs: 4000, flip: 0.2, classes: 3, ..SMALL }.generate().unwrap();
        let sizes = (0..3).map(|class| (0..4000).filter(|&g| made.class(g) == class).count());
        assert!(sizes.into_iter().all(|size| (1333..=1334).contains(&size)));
        let wrong = (0..4000).filter(|&g| made.label(g) != made.class(g)).count();
        assert!((wrong as f64 / 4000.0 - 0.2 * 2.0 / 3.0).abs() < 0.03, "{wrong}");
        assert!((made.ceiling() - (1.0 - 0.2 * 2.0 / 3.0)).abs() < 1e-12);
        let data = made.dataset("a", 2).unwrap();
        let graphs = data.graphs.as_ref().unwrap();
        let standing: Vec<u32> = (0..4000).map(|graph| made.members(graph).start).collect();
        assert_eq!((graphs.count(), graphs.standing(), graphs.ids()), (4000, standing, &VertexIds::Dense));
        let sizes = |split: &Split| [split.train.len(), split.validation.len(), split.test.len()];
        assert_eq!(sizes(&data.split), [2400, 800, 800]);
        let split = made.split(&data.labels, Division::PerClass([20, 30]));
        assert_eq!(sizes(&split), [60, 90, 3850]);
        split.validate(&data.labels, "split").unwrap();
    }

    #[test]
    fn kinds_tell_as_much_as_was_asked_for() {
        let accuracy = |features, p_own| {
            ManyGraphs { graphs: 6000, classes: 3, features, p_own, ..SMALL }
                .generate()
                .unwrap()
                .own_accuracy()
        };
        let third = 1.0 / 3.0;
        assert!((accuracy(8, 0.0) - third).abs() < 0.03);
        assert!((accuracy(0, 0.5) - third).abs() < 0.03);
        assert_eq!(accuracy(3, 1.0), 1.0);
        assert!(accuracy(8, 0.05) > third + 0.08 && accuracy(8, 0.05) < accuracy(8, 0.2));
        let made = SMALL.generate().unwrap();
        let data = made.dataset("a", 1).unwrap();
        let mut row = [0.0; 8];
        for (vertex, kind) in (0..90).flat_map(|graph| made.kinds(graph)).enumerate() {
            data.features.copy_row(vertex, &mut row);
            assert!(row.iter().enumerate().all(|(k, &v)| v == f32::from(u8::from(k == kind as usize))));
        }
        let plain = ManyGraphs { features: 0, ..SMALL }.generate().unwrap().dataset("a", 1).unwrap();
        assert_eq!((plain.features.columns(), plain.features.filled()), (1, made.vertices()));
        let wide = ManyGraphs { features: 1000, ..SMALL }.generate().unwrap().dataset("a", 1).unwrap();
        assert!(matches!(wide.features, Features::Sparse(_)));
    }

    #[test]
    fn what_is_outside_its_limits_is_named() {
        type Change = fn(&mut ManyGraphs);
        let said = |change: Change| {
            let mut shape = SMALL;
            change(&mut shape);
            shape.generate().unwrap_err().to_string()
        };
        let cases: [(Change, &str); 11] = [
            (|s| s.graphs = 0, "graphs is 0, but must be 1 to 33554432"),
            (|s| s.vertices = [7, 9], "the smallest number of vertices of a graph is 7, but must be 8 to 9"),
            (
                |s| s.vertices = [8, 7],
                "the largest number of vertices of a graph is 7, but must be 8 to 1048576",
            ),
            (
                |s| s.vertices = [40, 20],
                "the smallest number of vertices of a graph is 40, but must be 8 to 20",
            ),
            (
                |s| s.graphs = 1 << 25,
                "graphs times largest number of vertices is 1107296256, but must be 0 to 268435456",
            ),
            (|s| s.classes = 5, "classes is 5, but must be 2 to 4"),
            (|s| s.classes = 1, "classes is 1, but must be 2 to 4"),
            (|s| s.features = 65_537, "features is 65537"),
            (|s| s.rewire = [0.5, 1.5], "the largest fraction of rewired links is 1.5, but must be 0 to 1"),
            (
                |s| s.rewire = [0.7, 0.5],
                "the smallest fraction of rewired links is 0.7, but must be 0 to 0.5",
            ),
            (|s| s.p_own = f64::NAN, "p_own is NaN"),
        ];
        for (change, expected) in cases {
            let text = said(change);
            assert!(text.contains(expected), "{text} does not contain {expected}");
        }
        // One graph of the largest size is one chunk.
        let one = ManyGraphs { graphs: 2, vertices: [1 << 20; 2], ..SMALL }.generate().unwrap();
        assert_eq!((one.chunks(), one.vertices()), (2, 2 << 20));
    }
}

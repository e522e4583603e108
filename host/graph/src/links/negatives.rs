//! Negative pairs, which are pairs of vertices without a link. They are drawn anew in every epoch.
//!
//! Each epoch numbers its pairs: the pairs of link k are those from k * each on. The number of a pair
//! determines its random numbers, so that the pairs of some links are the same in an epoch on all
//! links and in batches.

use std::ops::Range;

use eciton_tensor::random::{Key, bits32};

use super::search::{LANES, contained};
use super::{Numbered, Pair, linked};
use crate::adjacency::Graph;
use eciton_input::threads::{on_threads, shares, threads_for};

/// Maximum number of attempts to draw one pair without a link.
pub(super) const ATTEMPTS: u32 = 64;

/// Maps 32 random bits to a vertex of a graph with `vertices` vertices.
pub(super) fn vertex(bits: u32, vertices: u32) -> u32 {
    ((u64::from(bits) * u64::from(vertices)) >> 32) as u32
}

/// Draws a pair of different vertices whose rows are not linked. `row` maps a vertex to its row.
/// Returns `None` if [`ATTEMPTS`] attempts fail.
pub(super) fn unlinked(graph: &Graph, key: (u32, u32), row: impl Fn(u32) -> u32) -> Option<Pair> {
    let mut pairs = (0..ATTEMPTS).map(|t| attempt(key, t, graph.vertices()));
    pairs.find(|&(a, b)| a != b && !linked(graph, row(a), row(b)))
}

/// Returns the two vertices that the attempt `t` draws. They may be equal or linked.
fn attempt(key: (u32, u32), t: u32, vertices: u32) -> Pair {
    (vertex(bits32(key, 2 * t), vertices), vertex(bits32(key, 2 * t + 1), vertices))
}

/// Draws the pairs in `range` like [`unlinked`], and calls `take` with their rows, in order. In
/// nearly all cases the first attempt succeeds. So the first attempts of several pairs are checked
/// together.
fn each_unlinked(
    graph: &Graph,
    key: Key,
    range: Range<usize>,
    row: impl Fn(u32) -> u32,
    mut take: impl FnMut(Pair),
) {
    let end = range.end;
    for from in range.step_by(LANES) {
        let count = LANES.min(end - from);
        let mut pairs = [(0, 0); LANES];
        let (mut lists, mut values) = ([&[][..]; LANES], [0; LANES]);
        let (mut reverse, mut others) = (lists, values);
        for lane in 0..count {
            let (a, b) = attempt(key.row((from + lane) as u64), 0, graph.vertices());
            let (a, b) = (row(a), row(b));
            let (of_a, of_b) = (graph.in_neighbours(a), graph.in_neighbours(b));
            pairs[lane] = (a, b);
            (lists[lane], values[lane], reverse[lane], others[lane]) =
                if of_a.len() < of_b.len() { (of_a, b, of_b, a) } else { (of_b, a, of_a, b) };
        }
        let mut linked = contained(&lists, &values);
        if !graph.symmetric() {
            linked.iter_mut().zip(contained(&reverse, &others)).for_each(|(one, other)| *one |= other);
        }
        for lane in 0..count {
            let (a, b) = pairs[lane];
            if a != b && !linked[lane] {
                take((a, b));
            } else if let Some((a, b)) = unlinked(graph, key.row((from + lane) as u64), &row) {
                take((row(a), row(b)));
            }
        }
    }
}

/// Distribution of the two vertices of a negative pair.
#[derive(Debug, Clone, Copy)]
pub enum Ends<'a> {
    /// Both vertices are uniform, so that pairs are uniform among those without a link. The slice has
    /// the row of each vertex, and `None` means that they are equal.
    Uniform(Option<&'a [u32]>),
    /// One vertex of the pair's link, and a vertex of another link. Either vertex of a link is as
    /// likely.
    OfLinks {
        /// Links of the graph.
        links: &'a Numbered,
        /// Number of pairs per link.
        each: u32,
        /// Numbers of the links from which the other link is drawn. `None` stands for all links, in
        /// which case the vertex is drawn in proportion to its number of links.
        among: Option<&'a [u32]>,
    },
}

impl Ends<'_> {
    /// Draws the pairs with the numbers in `range`, and calls `take` with their rows, in order. A pair
    /// for which [`ATTEMPTS`] attempts fail is left out.
    fn each(self, graph: &Graph, key: Key, range: Range<usize>, mut take: impl FnMut(Pair)) {
        match self {
            Self::Uniform(rows) => {
                let row = |v: u32| rows.map_or(v, |rows| rows[v as usize]);
                each_unlinked(graph, key, range, row, take);
            }
            Self::OfLinks { links, each, among } => {
                for number in range {
                    let link = links.link(graph, number as u64 / u64::from(each.max(1)));
                    let end = |(a, b): Pair, bits: u32| if bits & 1 == 0 { a } else { b };
                    let drawn = |t: u32| {
                        let (which, side) = (
                            bits32(key.row(number as u64), 2 * t),
                            bits32(key.row(number as u64), 2 * t + 1),
                        );
                        let place = |count: u64| (u64::from(which) * count) >> 32;
                        let other = match among {
                            Some(among) => u64::from(*among.get(place(among.len() as u64) as usize)?),
                            None => place(links.count()),
                        };
                        let kept = end(link?, bits32(key.row(number as u64), 0) >> 1);
                        Some((kept, end(links.link(graph, other)?, side)))
                    };
                    let mut pairs = (0..ATTEMPTS).filter_map(drawn);
                    if let Some(pair) = pairs.find(|&(a, b)| a != b && !linked(graph, a, b)) {
                        take(pair);
                    }
                }
            }
        }
    }

    /// Draws the pairs of some links with the random numbers of `key`. `each` is the number of pairs
    /// per link.
    pub fn of_links(self, graph: &Graph, key: Key, links: &[u32], each: u32) -> Vec<Pair> {
        let (mut pairs, each) = (Vec::with_capacity(links.len() * each as usize), each as usize);
        for &link in links {
            let first = link as usize * each;
            self.each(graph, key, first..first + each, |pair| pairs.push(pair));
        }
        pairs
    }
}

/// Negative pairs of one epoch, which are pairs of rows without a link. They are listed by row.
///
/// If the vertices of a pair are equal or linked, the pair is drawn again. A pair may be drawn twice.
/// Each pair is in the lists of both its rows, in the order of drawing.
///
/// ```
/// use eciton_graph::{adjacency::{Graph, Options}, links::{Ends, Negatives}};
/// use eciton_tensor::random::{Key, Purpose};
/// // Of the path 0 - 1 - 2 the ends only are not linked.
/// let path = Graph::from_edges(3, [(0, 1), (1, 2)].into_iter(), Options::default())?;
/// let drawn = Negatives::draw(&path, 2, Key::new(1, Purpose::Negatives, 0, 0, 0), Ends::Uniform(None));
/// assert_eq!((drawn.pairs(), drawn.partners(0), drawn.partners(1)), (2, &[2, 2][..], &[][..]));
/// # Ok::<(), eciton_graph::error::Error>(())
/// ```
#[derive(Debug)]
pub struct Negatives {
    /// Start of each row's list in `others`, followed by the length of `others`.
    offsets: Vec<u64>,
    /// Other row of each pair, one list per row.
    others: Vec<u32>,
}

impl Negatives {
    /// Draws `count` pairs with the random numbers of `key`. `graph` is indexed by row. A pair for
    /// which 64 attempts fail is left out. The pairs do not depend on the number of threads. Uniform
    /// pairs of vertices do not depend on their rows either.
    ///
    /// # Panics
    /// Panics if `ends` does not have a row for each vertex.
    pub fn draw(graph: &Graph, count: u64, key: Key, ends: Ends<'_>) -> Self {
        Self::draw_with(graph, count, key, ends, threads_for(count))
    }

    fn draw_with(graph: &Graph, count: u64, key: Key, ends: Ends<'_>, threads: usize) -> Self {
        let vertices = graph.vertices() as usize;
        if let Ends::Uniform(Some(rows)) = ends {
            assert!(rows.len() == vertices, "a row for each vertex");
        }
        let drawn = on_threads(shares(count as usize, threads), |range| {
            let mut pairs = Vec::with_capacity(range.len());
            ends.each(graph, key, range, |pair| pairs.push(pair));
            pairs
        });
        Self::of_pairs(vertices, &drawn, threads)
    }

    /// Creates the lists of `pairs`, whose rows are below `rows`.
    ///
    /// # Panics
    /// Panics if a pair has another row.
    pub fn from_pairs(rows: usize, pairs: Vec<Pair>) -> Self {
        Self::of_pairs(rows, &[pairs], 1)
    }

    /// Creates the lists of all pairs by row. Each thread fills the lists of its own range of rows.
    fn of_pairs(vertices: usize, drawn: &[Vec<Pair>], threads: usize) -> Self {
        let each = |own: &Range<usize>, visit: &mut dyn FnMut(usize, u32)| {
            for &(a, b) in drawn.iter().flatten() {
                for (row, other) in [(a as usize, b), (b as usize, a)] {
                    if own.contains(&row) {
                        visit(row - own.start, other);
                    }
                }
            }
        };
        let ranges = shares(vertices, threads);
        let mut offsets = vec![0u64; vertices + 1];
        let counts = cut(&mut offsets[1..], ranges.iter().map(Range::len));
        on_threads(ranges.iter().zip(counts).collect(), |(own, counts)| {
            each(own, &mut |row, _| counts[row] += 1);
        });
        let mut sum = 0;
        for end in &mut offsets {
            sum += *end;
            *end = sum;
        }
        let mut others = vec![0; sum as usize];
        let lens = ranges.iter().map(|own| (offsets[own.end] - offsets[own.start]) as usize);
        let lists = cut(&mut others, lens);
        on_threads(ranges.iter().zip(lists).collect(), |(own, list)| {
            let first = offsets[own.start];
            let mut next: Vec<u64> = offsets[own.clone()].iter().map(|from| from - first).collect();
            each(own, &mut |row, other| {
                list[next[row] as usize] = other;
                next[row] += 1;
            });
        });
        Self { offsets, others }
    }

    /// Returns the number of pairs that were drawn.
    pub fn pairs(&self) -> u64 {
        self.others.len() as u64 / 2
    }

    /// Returns the other rows of the pairs that contain `row`. Returns an empty slice if the row
    /// does not exist.
    #[inline]
    pub fn partners(&self, row: u32) -> &[u32] {
        let row = row as usize;
        match (self.offsets.get(row), self.offsets.get(row + 1)) {
            (Some(&from), Some(&to)) => &self.others[from as usize..to as usize],
            _ => &[],
        }
    }

    /// Returns the number of rows that have a list.
    pub(crate) fn rows(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Returns an upper bound on the memory that drawing `count` pairs takes, in bytes. The bound
    /// also holds for the drawn pairs.
    pub fn bytes(vertices: u64, count: u64) -> u64 {
        // 16 bytes for a pair and its list entries, and 16 bytes per vertex for offsets and fill
        // positions.
        count.saturating_mul(16).saturating_add(vertices.saturating_mul(16)).saturating_add(8)
    }
}

/// Divides `values` into consecutive slices with the lengths `lens`.
fn cut<T>(mut values: &mut [T], lens: impl Iterator<Item = usize>) -> Vec<&mut [T]> {
    let mut parts = Vec::new();
    for len in lens {
        let (part, rest) = values.split_at_mut(len);
        parts.push(part);
        values = rest;
    }
    parts
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use eciton_tensor::random::Purpose;

    use super::super::Links;
    use super::super::tests::{complete, random_graph};
    use super::*;
    use crate::order::{Order, Permutation, permute_graph};
    use crate::random::SplitMix64;

    fn key(seed: u64) -> Key {
        Key::new(seed, Purpose::Negatives, 3, 0, 0)
    }

    /// Returns all pairs, each once, with the smaller vertex first.
    fn pairs(of: &Negatives) -> Vec<Pair> {
        let mut pairs: Vec<Pair> = (0..of.rows() as u32)
            .flat_map(|a| of.partners(a).iter().map(move |&b| (a.min(b), a.max(b))))
            .collect();
        pairs.sort_unstable();
        assert!(pairs.chunks(2).all(|both| both[0] == both[1]), "each pair is in two lists");
        pairs.into_iter().step_by(2).collect()
    }

    #[test]
    fn never_linked_and_the_same_for_any_number_of_threads() {
        let seed = 19;
        println!("seed {seed}");
        let mut random = SplitMix64::new(seed);
        for case in 0..60 {
            let (vertices, edges, count) = (2 + random.below(60), random.below(400), random.below(500));
            let graph = random_graph(&mut random, vertices, edges, case & 1 == 0, case & 2 == 0);
            let one = Negatives::draw_with(&graph, count, key(case), Ends::Uniform(None), 1);
            for threads in [2, 3, 16] {
                let other = Negatives::draw_with(&graph, count, key(case), Ends::Uniform(None), threads);
                assert_eq!((&one.offsets, &one.others), (&other.offsets, &other.others), "{threads} threads");
            }
            assert!(pairs(&one).iter().all(|&(a, b)| a != b && !linked(&graph, a, b)));
            // By definition, in the order of drawing.
            let mut lists = vec![Vec::new(); vertices as usize];
            for n in 0..count {
                let bits = |column| u64::from(bits32(key(case).row(n), column));
                let ends = |t: u32| ((bits(2 * t) * vertices) >> 32, (bits(2 * t + 1) * vertices) >> 32);
                let fine = |&(a, b): &(u64, u64)| a != b && !linked(&graph, a as u32, b as u32);
                if let Some((a, b)) = (0..64).map(ends).find(fine) {
                    lists[a as usize].push(b as u32);
                    lists[b as usize].push(a as u32);
                }
            }
            assert!((0..).zip(&lists).all(|(v, list)| one.partners(v) == list), "case {case}");
            assert_eq!(one.pairs(), lists.iter().map(Vec::len).sum::<usize>() as u64 / 2);
        }
    }

    #[test]
    fn every_pair_without_a_link_is_as_likely() {
        let seed = 23;
        println!("seed {seed}");
        let graph = random_graph(&mut SplitMix64::new(seed), 30, 60, true, false);
        let free = 30 * 29 / 2 - super::super::count(&graph);
        let drawn = 400 * free;
        let found = pairs(&Negatives::draw(&graph, drawn, key(seed), Ends::Uniform(None)));
        assert_eq!(found.len() as u64, drawn);
        let counts: Vec<f64> = found.chunk_by(|a, b| a == b).map(|same| same.len() as f64).collect();
        assert_eq!(counts.len() as u64, free);
        let chi: f64 = counts.iter().map(|n| (n - 400.0).powi(2) / 400.0).sum();
        // A sum of so many squares strays by more than five of its standard deviations once in 10^6.
        let degrees = (free - 1) as f64;
        assert!((chi - degrees).abs() < 5.0 * (2.0 * degrees).sqrt(), "chi-square {chi} of {degrees}");
    }

    #[test]
    fn one_end_is_of_the_link_and_the_other_is_drawn_by_degree() {
        let seed = 41;
        println!("seed {seed}");
        let graph = random_graph(&mut SplitMix64::new(seed), 40, 60, false, false);
        let (links, each) = (Numbered::new(&graph), 3000);
        let ends = Ends::OfLinks { links: &links, each, among: None };
        let all: Vec<u32> = (0..links.count() as u32).collect();
        let degrees = Links::new(&graph).degrees();
        let mut firsts = 0.0;
        for &number in &all {
            let drawn = ends.of_links(&graph, key(seed), &[number], each);
            let link = links.link(&graph, number.into()).unwrap();
            assert_eq!(drawn.len(), each as usize);
            for kept in [link.0, link.1] {
                // The second vertices are those that are not linked to the first, in proportion to
                // their degrees.
                let found: Vec<u32> = drawn.iter().filter(|pair| pair.0 == kept).map(|pair| pair.1).collect();
                let free = |&v: &u32| v != kept && !linked(&graph, kept, v);
                let sum: u32 = (0..40).filter(free).map(|v| degrees[v as usize]).sum();
                let (mut chi, mut bins) = (0.0, 0);
                for v in (0..40).filter(free).filter(|&v| degrees[v as usize] > 0) {
                    let expected = found.len() as f64 * f64::from(degrees[v as usize]) / f64::from(sum);
                    let count = found.iter().filter(|&&other| other == v).count() as f64;
                    (chi, bins) = (chi + (count - expected).powi(2) / expected, bins + 1);
                }
                assert!(found.iter().all(free), "link {number}");
                let freedom = f64::from(bins - 1);
                assert!((chi - freedom).abs() < 6.0 * (2.0 * freedom).sqrt(), "{chi} of {freedom}");
                firsts += if kept == link.0 { found.len() as f64 } else { 0.0 };
            }
        }
        let count = all.len() as f64 * f64::from(each);
        assert!((firsts / count - 0.5).abs() < 2.5 / count.sqrt(), "{firsts} of {count}");
        // All pairs of all links are those of an epoch.
        let pairs = ends.of_links(&graph, key(seed), &all, each);
        let epoch = Negatives::draw(&graph, links.count() * u64::from(each), key(seed), ends);
        let lists = Negatives::from_pairs(40, pairs);
        assert_eq!((lists.offsets, lists.others), (epoch.offsets, epoch.others));
    }

    #[test]
    fn the_other_end_is_one_of_the_given_links() {
        let seed = 43;
        println!("seed {seed}");
        let graph = random_graph(&mut SplitMix64::new(seed), 200, 500, true, false);
        let links = Numbered::new(&graph);
        let batch: Vec<u32> = (0..links.count() as u32).step_by(17).collect();
        let ends: Vec<Pair> = batch.iter().map(|&n| links.link(&graph, n.into()).unwrap()).collect();
        let drawn = Ends::OfLinks { links: &links, each: 5, among: Some(&batch) };
        let pairs = drawn.of_links(&graph, key(seed), &batch, 5);
        assert_eq!(pairs.len(), 5 * batch.len());
        for (at, &(a, b)) in pairs.iter().enumerate() {
            let link = ends[at / 5];
            assert!(a == link.0 || a == link.1);
            assert!(ends.iter().any(|end| b == end.0 || b == end.1) && !linked(&graph, a, b));
        }
        // Uniform pairs of a batch are also those of an epoch on all links.
        let uniform = Ends::Uniform(None);
        let epoch = Negatives::draw(&graph, links.count() * 2, key(seed), uniform);
        for (a, b) in uniform.of_links(&graph, key(seed), &batch, 2) {
            assert!(epoch.partners(a).contains(&b));
        }
    }

    #[test]
    fn the_same_pairs_of_vertices_in_any_order() {
        let seed = 29;
        println!("seed {seed}");
        let graph = random_graph(&mut SplitMix64::new(seed), 80, 300, false, false);
        let plain = Negatives::draw(&graph, 200, key(seed), Ends::Uniform(None));
        let order = Permutation::compute(&graph, Order::Rabbit);
        let moved = permute_graph(&graph, &order).unwrap();
        let rows = Negatives::draw(&moved, 200, key(seed), Ends::Uniform(Some(order.new_of_old())));
        for v in 0..80 {
            let there = |&u: &u32| order.new_of_old()[u as usize];
            assert!(
                plain.partners(v).iter().map(there).eq(rows.partners(there(&v)).iter().copied()),
                "vertex {v}"
            );
        }
    }

    #[test]
    fn side_by_side_as_one_by_one() {
        let seed = 31;
        println!("seed {seed}");
        let mut random = SplitMix64::new(seed);
        for case in 0..60 {
            let vertices = 1 + random.below(40);
            // From few links to nearly all.
            let edges = random.below(vertices * vertices);
            let graph = random_graph(&mut random, vertices, edges, case % 2 == 0, case % 3 == 0);
            let row = |v: u32| (v + 3) % vertices as u32;
            let range = random.below(9) as usize..random.below(200) as usize;
            let (mut found, mut wanted) = (Vec::new(), Vec::new());
            each_unlinked(&graph, key(case), range.clone(), row, |pair| found.push(pair));
            for n in range {
                wanted.extend(unlinked(&graph, key(case).row(n as u64), row).map(|(a, b)| (row(a), row(b))));
            }
            assert_eq!(found, wanted, "case {case}");
        }
    }

    #[test]
    fn graphs_without_a_pair_give_none() {
        for graph in [complete(2), complete(9), random_graph(&mut SplitMix64::new(1), 1, 1, true, false)] {
            let drawn = Negatives::draw(&graph, 50, key(1), Ends::Uniform(None));
            assert_eq!((drawn.pairs(), drawn.partners(0), drawn.partners(99)), (0, &[][..], &[][..]));
        }
        // Two vertices without an edge: one pair, again and again.
        let none = random_graph(&mut SplitMix64::new(1), 2, 0, true, false);
        let drawn = Negatives::draw(&none, 50, key(1), Ends::Uniform(None));
        assert_eq!((drawn.pairs(), drawn.partners(0)), (50, &[1; 50][..]));
        assert_eq!(Negatives::draw(&none, 0, key(1), Ends::Uniform(None)).pairs(), 0);
        assert_eq!((Negatives::bytes(2, 50), Negatives::bytes(u64::MAX, 1)), (840, u64::MAX));
    }
}

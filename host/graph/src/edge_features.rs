//! What is known of each edge: one row of numbers, of which a column can be an edge's weight.

use eciton_tensor::Slab;

use crate::adjacency::{Adjacency, Graph, Options};
use crate::build::threads::{on_threads, shares, threads_for};
use crate::error::{Error, Place, Result};

/// The most columns of [`EdgeFeatures`].
pub const MAX_COLUMNS: u32 = 1 << 20;

/// `[E, columns]` f32: a row a directed edge, in the order of the graph's in-lists
/// ([`Graph::incoming`]: by target, sources ascending). Finite. Clones share the memory.
///
/// ```
/// use eciton_graph::adjacency::{Graph, Options};
/// use eciton_graph::edge_features::EdgeFeatures;
/// let (edges, weights) = ([(0, 1), (2, 1)], [0.5, 4.0]);
/// let graph = Graph::from_edges(3, edges.into_iter(), Options::default())?;
/// let placed = EdgeFeatures::placed(&graph, &edges, 1, &weights, Options::default())?;
/// // Into 0 from 1, into 1 from 0 and 2, into 2 from 1.
/// assert_eq!(placed.values(), [0.5, 0.5, 4.0, 4.0]);
/// # Ok::<(), eciton_graph::error::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct EdgeFeatures {
    columns: u32,
    values: Slab<f32>,
}

impl EdgeFeatures {
    /// Rows of `columns` values (1 to [`MAX_COLUMNS`]), row-major. That they are finite and fit a graph
    /// is checked by [`Dataset::validate`](crate::dataset::Dataset::validate).
    ///
    /// # Errors
    /// [`Error::Malformed`] for another number of columns or a last row that is not whole.
    pub fn new(columns: u32, values: impl Into<Slab<f32>>) -> Result<Self> {
        let values = values.into();
        check_columns(u64::from(columns), || Place::whole("edge features"))?;
        if !values.len().is_multiple_of(columns as usize) {
            let expected = format!("rows of {columns} values");
            let found = format!("{} values", values.len());
            return Err(Error::malformed(Place::whole("edge features"), expected, found));
        }
        Ok(Self { columns, values })
    }

    /// The rows of edges in any order, placed at the edges of `graph`, built of the same edges by the
    /// same `options`: `edges[k]` is (source, target), `rows[k * columns..]` its values.
    ///
    /// Where `options.symmetric`, the reverse edge has the same row. Edges that the graph does not keep
    /// (self loops under the options) are passed over. An edge that several rows name (repeats, or both
    /// directions where symmetric) has their mean, of sums in f64 in the order of `edges`, so that
    /// listing both directions of an undirected graph with one value changes nothing.
    ///
    /// Peak memory beside the arguments: 4 bytes an edge of the graph and 4 a value of the result, and 8
    /// more a value where any edge is named more than once.
    ///
    /// # Errors
    /// [`Error::Malformed`] as [`EdgeFeatures::new`], and for an edge that is not in the graph (with its
    /// position) or an edge of the graph without a row; [`Error::Mismatch`] where rows are not as many
    /// as edges.
    pub fn placed(
        graph: &Graph,
        edges: &[(u32, u32)],
        columns: u32,
        rows: &[f32],
        options: Options,
    ) -> Result<Self> {
        check_columns(u64::from(columns), || Place::whole("edge features"))?;
        let width = columns as usize;
        if edges.len().checked_mul(width) != Some(rows.len()) {
            return Err(Error::Mismatch {
                place: Place::whole("edge features"),
                what: "values",
                found: rows.len() as u64,
                expected: (edges.len() as u64).saturating_mul(u64::from(columns)),
                other: format!("{} edges of {columns} columns", edges.len()),
            });
        }
        let lists = graph.incoming();
        let mut named = vec![0u32; lists.neighbours().len()];
        each_place(lists, edges, options, |_, at| named[at] = named[at].saturating_add(1))?;
        if let Some(at) = named.iter().position(|&times| times == 0) {
            let (source, target) = edge_at(lists, at);
            return Err(Error::Malformed {
                place: Place::whole("edge features"),
                expected: "a row for each edge of the graph".to_owned(),
                found: format!("none for the edge {source} -> {target}"),
                remedy: "give the edges that the graph was built of",
            });
        }
        let row = |k: usize| &rows[k * width..(k + 1) * width];
        if named.iter().all(|&times| times == 1) {
            let mut values = vec![0.0; named.len() * width];
            each_place(lists, edges, options, |k, at| {
                values[at * width..(at + 1) * width].copy_from_slice(row(k));
            })?;
            return Self::new(columns, values);
        }
        // Of no sign: a row that is named once stays as it is.
        let mut sums = vec![-0.0f64; named.len() * width];
        each_place(lists, edges, options, |k, at| {
            let sums = &mut sums[at * width..(at + 1) * width];
            sums.iter_mut().zip(row(k)).for_each(|(sum, &value)| *sum += f64::from(value));
        })?;
        let means = sums.chunks_exact(width).zip(&named);
        let means = means.flat_map(|(sums, &times)| sums.iter().map(move |sum| sum / f64::from(times)));
        let mut values = Vec::with_capacity(sums.len());
        values.extend(means.map(|mean| mean as f32));
        Self::new(columns, values)
    }

    /// Values of an edge.
    pub fn columns(&self) -> u32 {
        self.columns
    }

    /// Directed edges.
    pub fn rows(&self) -> usize {
        self.values.len() / self.columns as usize
    }

    /// All rows, one after the other.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// `[E]`: one value of each edge, for instance its weight; none beyond the last column.
    pub fn column(&self, at: u32) -> Option<Vec<f32>> {
        let every = self.columns as usize;
        (at < self.columns).then(|| self.values.iter().skip(at as usize).step_by(every).copied().collect())
    }

    /// Checks that there is a row for each of `edges` edges and that every value is finite; `file` is
    /// named in errors.
    ///
    /// # Errors
    /// [`Error::Mismatch`], [`Error::NotFinite`].
    pub fn validate(&self, edges: u64, file: &str) -> Result<()> {
        let found = self.rows() as u64;
        if found != edges {
            let (place, other) = (Place::whole(file), "the graph".to_owned());
            return Err(Error::Mismatch { place, what: "edges", found, expected: edges, other });
        }
        check_finite(&self.values, self.columns as usize, file)
    }
}

/// Refuses a number of columns that is not 1 to [`MAX_COLUMNS`].
///
/// # Errors
/// [`Error::Malformed`].
pub fn check_columns(columns: u64, place: impl Fn() -> Place) -> Result<()> {
    if (1..=u64::from(MAX_COLUMNS)).contains(&columns) {
        return Ok(());
    }
    Err(Error::Malformed {
        place: place(),
        expected: format!("1 to {MAX_COLUMNS} columns of edge features"),
        found: columns.to_string(),
        remedy: "keep the columns that are of use, or leave edge features out",
    })
}

/// Refuses rows of `columns` values of which one is not finite, with its row and column.
///
/// # Errors
/// [`Error::NotFinite`].
pub fn check_finite(values: &[f32], columns: usize, file: &str) -> Result<()> {
    let fault = |&at: &usize| !values[at].is_finite();
    let work = shares(values.len(), threads_for(values.len() as u64));
    let first = on_threads(work, |mut own| own.find(fault)).into_iter().flatten().next();
    first.map_or(Ok(()), |at| {
        let (row, column) = ((at / columns) as u64, (at % columns) as u64);
        Err(Error::NotFinite { place: Place::row(file, row), column, value: values[at] })
    })
}

/// Calls `each` with the position of every one of `edges` that is kept and its place in the lists, in
/// the order of `edges`; twice where the reverse edge is another one that it stands for as well.
fn each_place(
    lists: &Adjacency,
    edges: &[(u32, u32)],
    options: Options,
    mut each: impl FnMut(usize, usize),
) -> Result<()> {
    let place = |source: u32, target: u32, k: usize| {
        let found = lists.of(target).binary_search(&source);
        found.map(|at| lists.offsets()[target as usize] as usize + at).map_err(|_| Error::Malformed {
            place: Place::row("edges", k as u64),
            expected: "an edge of the graph".to_owned(),
            found: format!("{source} -> {target}"),
            remedy: "give the edges that the graph was built of",
        })
    };
    for (k, &(source, target)) in edges.iter().enumerate() {
        if source == target && !options.keep_self_loops {
            continue;
        }
        each(k, place(source, target, k)?);
        if options.symmetric && source != target {
            each(k, place(target, source, k)?);
        }
    }
    Ok(())
}

/// Source and target of the edge at a place that exists.
fn edge_at(lists: &Adjacency, at: usize) -> (u32, u32) {
    let target = lists.offsets().partition_point(|&from| from <= at as u64) - 1;
    (lists.neighbours()[at], target as u32)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeMap;

    use super::*;
    use crate::random::SplitMix64;

    const ALL: [Options; 4] = [
        Options { symmetric: true, keep_self_loops: false },
        Options { symmetric: true, keep_self_loops: true },
        Options { symmetric: false, keep_self_loops: false },
        Options { symmetric: false, keep_self_loops: true },
    ];

    /// Rows by (target, source).
    fn naive(edges: &[(u32, u32)], columns: usize, rows: &[f32], options: Options) -> Vec<f32> {
        let mut of: BTreeMap<(u32, u32), Vec<usize>> = BTreeMap::new();
        for (k, &(s, t)) in edges.iter().enumerate() {
            if s != t || options.keep_self_loops {
                of.entry((t, s)).or_default().push(k);
                if options.symmetric && s != t {
                    of.entry((s, t)).or_default().push(k);
                }
            }
        }
        let mean = |named: &Vec<usize>, column: usize| {
            let sum: f64 = named.iter().map(|k| f64::from(rows[k * columns + column])).sum();
            (sum / named.len() as f64) as f32
        };
        of.values().flat_map(|named| (0..columns).map(move |column| mean(named, column))).collect()
    }

    #[test]
    fn placed_equals_a_map() {
        let seed = 61;
        println!("seed {seed}");
        let mut random = SplitMix64::new(seed);
        for case in 0..120 {
            let vertices = 1 + random.below(if case % 2 == 0 { 8 } else { 200 });
            let mut edges: Vec<(u32, u32)> = (0..random.below(120))
                .map(|_| (random.below(vertices) as u32, random.below(vertices) as u32))
                .collect();
            if case % 3 == 0 {
                // Without repeats, in any order.
                edges.sort_unstable_by_key(|&(s, t)| (s.min(t), s.max(t)));
                edges.dedup_by_key(|&mut (s, t)| (s.min(t), s.max(t)));
                random.shuffle(&mut edges);
            }
            let columns = 1 + random.below(4) as u32;
            let rows: Vec<f32> = (0..edges.len() * columns as usize)
                .map(|_| random.below(2001) as f32 * 0.01 - 10.0)
                .collect();
            for options in ALL {
                let graph = Graph::from_edges(vertices, edges.iter().copied(), options).unwrap();
                let placed = EdgeFeatures::placed(&graph, &edges, columns, &rows, options).unwrap();
                assert_eq!(placed.values(), naive(&edges, columns as usize, &rows, options), "{options:?}");
                assert_eq!((placed.columns(), placed.rows() as u64), (columns, graph.edges()));
                placed.validate(graph.edges(), "x").unwrap();
                for column in 0..columns {
                    let every = placed.values().chunks_exact(columns as usize);
                    let expected: Vec<f32> = every.map(|row| row[column as usize]).collect();
                    assert_eq!(placed.column(column).unwrap(), expected);
                }
                assert_eq!(placed.column(columns), None);
            }
        }
    }

    #[test]
    fn both_directions_with_one_value_change_nothing() {
        let (once, twice) = ([(0, 1), (2, 1)], [(1, 0), (0, 1), (1, 2), (2, 1), (0, 1)]);
        let graph = Graph::from_edges(3, once.into_iter(), Options::default()).unwrap();
        let placed = |edges: &[(u32, u32)], rows: &[f32]| {
            EdgeFeatures::placed(&graph, edges, 1, rows, Options::default()).unwrap()
        };
        let (a, b) = (0.1, f32::MAX);
        assert_eq!(placed(&once, &[a, b]), placed(&twice, &[a, a, b, b, a]));
        // Other values: their mean, in both directions.
        assert_eq!(placed(&twice, &[1.0, 2.0, 5.0, 6.0, 6.0]).values(), [3.0, 3.0, 5.5, 5.5]);
    }

    #[test]
    fn edges_that_do_not_belong_are_refused() {
        let graph = Graph::from_edges(4, [(0, 1), (2, 1)].into_iter(), Options::default()).unwrap();
        let text = |edges: &[(u32, u32)], columns: u32, rows: &[f32]| {
            let placed = EdgeFeatures::placed(&graph, edges, columns, rows, Options::default());
            placed.unwrap_err().to_string()
        };
        let other = text(&[(0, 1), (0, 2), (2, 1)], 1, &[0.0; 3]);
        assert!(other.contains("edges, row 1: expected an edge of the graph, found 0 -> 2"), "{other}");
        let beyond = text(&[(9, 9), (9, 1)], 1, &[0.0; 2]);
        assert!(beyond.contains("edges, row 1") && beyond.contains("9 -> 1"), "{beyond}");
        let missing = text(&[(1, 0)], 1, &[0.0]);
        assert!(missing.contains("none for the edge 2 -> 1"), "{missing}");
        let short = text(&[(0, 1), (2, 1)], 2, &[0.0; 3]);
        assert!(short.contains("3 values") && short.contains("2 edges of 2 columns"), "{short}");
        assert!(text(&[], 0, &[]).contains("1 to 1048576 columns"));
    }

    #[test]
    fn new_and_validate_check() {
        assert!(EdgeFeatures::new(0, vec![]).is_err());
        assert!(EdgeFeatures::new(MAX_COLUMNS + 1, vec![]).is_err());
        assert!(EdgeFeatures::new(2, vec![0.0; 3]).is_err());
        let rows = EdgeFeatures::new(2, vec![0.0, 1.0, 2.0, f32::INFINITY]).unwrap();
        let text = |edges| rows.validate(edges, "x").unwrap_err().to_string();
        assert!(text(3).contains("x: 2 edges, but the graph says 3"));
        assert!(text(2).contains("x, row 1: feature column 1 is inf"));
        assert!(EdgeFeatures::new(MAX_COLUMNS, vec![]).unwrap().validate(0, "x").is_ok());
    }
}

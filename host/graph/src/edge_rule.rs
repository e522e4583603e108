//! Rule by which all readers turn listed edges into a graph. It determines how repeated edges,
//! weights of zero and self-loops are treated.
//!
//! 1. Entries that name the same directed pair are added up, in f64 and in the order of the file.
//! 2. If the only value of an edge is its weight, and the sum of its weights is 0, the edge is
//!    dropped.
//! 3. In a symmetric graph, an edge that is listed in both directions has the mean of the two sums.
//!
//! Without values, entries that name the same edge are merged. [`SelfLoops`] decides whether
//! self-loops are kept. [`EdgeRule`] applies the rule in memory, [`build::external`] on disk.
//!
//! ```
//! use eciton_graph::adjacency::Options;
//! use eciton_graph::edge_rule::{EdgeRule, Zeros};
//! let rule = EdgeRule::new("edges.csv", Options::default()).with_zeros(Zeros::NoEdges);
//! let (edges, weights) = ([(0, 1), (0, 1), (2, 1)], [1.0f32, 2.0, 0.0]);
//! let (graph, rows, findings) = rule.valued(3, &edges, 1, &weights, 1)?;
//! // The repeats are added up; the edge of weight 0 is no edge.
//! assert_eq!((graph.edges(), rows.values()), (2, &[3.0, 3.0][..]));
//! assert_eq!((findings.repeats, findings.zeros), (1, 1));
//! # Ok::<(), eciton_graph::error::Error>(())
//! ```

mod findings;
mod self_loops;

use std::ops::Range;

use eciton_input::notes::Level;

use crate::adjacency::{Adjacency, Graph, Options};
use crate::build;
use crate::dataset::Dataset;
use crate::edge_features::{EdgeFeatures, check_columns};
use crate::edges::EdgeSource;
use crate::error::{Error, Place, Result};
use eciton_input::threads::{on_threads, shares, threads_for};
use findings::report_loops;

pub use findings::Findings;
pub use self_loops::{SelfLoops, loops};

/// Column names that mark a column as the edge weights, in lower case.
pub const WEIGHT_NAMES: [&str; 5] = ["weight", "w", "value", "values", "data"];

/// Returns true if `name` marks a column as the edge weights. Upper and lower case are equal.
#[must_use]
pub fn is_weight(name: &str) -> bool {
    WEIGHT_NAMES.iter().any(|known| name.trim().eq_ignore_ascii_case(known))
}

/// Rule that decides whether edges with values of zero are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Zeros {
    /// The only column is the edge's weight. An edge whose weights add up to 0 is dropped.
    NoEdges,
    /// Edges are kept whatever their values are.
    #[default]
    Kept,
    /// Edges are kept. The column with this index is their weight, and the reading report counts
    /// its zeros.
    KeptWeight(u32),
}

impl Zeros {
    /// Returns the treatment of zeros that follows from the names of the value columns.
    #[must_use]
    pub fn by_names(names: &[String]) -> Self {
        let weight = names.iter().position(|name| is_weight(name));
        match (names.len(), weight) {
            (1, Some(_)) => Self::NoEdges,
            (_, Some(column)) => Self::KeptWeight(column as u32),
            (_, None) => Self::Kept,
        }
    }
}

/// Rule by which the edges of one file become a graph, with its options.
#[derive(Debug, Clone, Copy)]
pub struct EdgeRule<'a> {
    file: &'a str,
    options: Options,
    zeros: Zeros,
}

/// Result of [`EdgeRule::placed`], which is the graph, the rows of its edges, and counts of the
/// edges that the rule changed.
pub type Placed = (Graph, EdgeFeatures, Findings);

impl<'a> EdgeRule<'a> {
    /// Creates the rule for the edges of the file `file`, whose name error messages contain.
    #[must_use]
    pub fn new(file: &'a str, options: Options) -> Self {
        Self { file, options, zeros: Zeros::Kept }
    }

    /// Returns the rule with another treatment of edges whose values are zero.
    #[must_use]
    pub fn with_zeros(self, zeros: Zeros) -> Self {
        Self { zeros, ..self }
    }

    /// Builds a graph from edges without values. Entries that name the same edge are merged.
    ///
    /// # Errors
    /// Returns the errors of [`build::in_memory`].
    pub fn merged(&self, source: &dyn EdgeSource, threads: usize) -> Result<(Graph, Findings)> {
        let (graph, read) = build::in_memory_counted(source, self.options, threads)?;
        let findings = Findings::without_values(&graph, self.options, read);
        Ok((graph, findings))
    }

    /// Builds a graph from edges with values. `edges[k]` is (source, target), and its values start
    /// at `values[k * columns]`. The peak memory is that of [`EdgeRule::placed`] plus the graph.
    ///
    /// # Errors
    /// Returns the errors of [`build::in_memory`] and [`EdgeRule::placed`].
    pub fn valued<V: Copy + Default + Into<f64> + Sync>(
        &self,
        vertices: u64,
        edges: &[(u32, u32)],
        columns: u32,
        values: &[V],
        threads: usize,
    ) -> Result<Placed> {
        let graph = build::in_memory(&(vertices, edges), self.options, threads)?;
        self.placed(graph, edges, columns, values)
    }

    /// Assigns rows of values to the edges of `graph`, and removes edges of weight 0 from it. The
    /// graph must have been built from the same `edges` with the same options.
    ///
    /// Peak memory besides the arguments is one byte per directed edge, one value of `V` (8 bytes
    /// if any edge is repeated) per value of the result, and 4 bytes per value of the result.
    ///
    /// # Errors
    /// Returns [`Error::Malformed`] under the conditions of [`EdgeFeatures::new`], for an edge that
    /// is not in the graph, for an edge of the graph without a row, and for a sum that f32 cannot
    /// represent. Returns [`Error::NotFinite`] for an infinite value or NaN, and
    /// [`Error::Mismatch`] if the numbers of rows and edges differ.
    pub fn placed<V: Copy + Default + Into<f64> + Sync>(
        &self,
        graph: Graph,
        edges: &[(u32, u32)],
        columns: u32,
        values: &[V],
    ) -> Result<Placed> {
        check_columns(u64::from(columns), || Place::whole(self.file))?;
        let width = columns as usize;
        if columns > 1 && self.zeros == Zeros::NoEdges {
            return self.with_zeros(Zeros::Kept).placed(graph, edges, columns, values);
        }
        self.check_rows(edges.len(), width, values)?;
        let lists = graph.incoming();
        let options = self.options;
        // Number of times each directed edge is listed in this direction: 0, 1, or 2 for more.
        let mut listed = vec![0u8; lists.neighbours().len()];
        let mut repeats = 0;
        self.each_place(lists, edges, |_, at| {
            repeats += u64::from(listed[at] > 0);
            listed[at] = (listed[at] + 1).min(2);
        })?;
        let rows = Rows { rule: self, lists, listed: &listed, width, symmetric: options.symmetric };
        let (rows, keep, findings) = if repeats == 0 {
            let mut own = vec![V::default(); listed.len() * width];
            self.each_place(lists, edges, |k, at| {
                own[at * width..(at + 1) * width].copy_from_slice(&values[k * width..(k + 1) * width]);
            })?;
            rows.combined(|at| own[at].into())?
        } else {
            // A sum starts at -0.0, so that the values of a single row do not change.
            let mut sums = vec![-0.0f64; listed.len() * width];
            self.each_place(lists, edges, |k, at| {
                let sums = &mut sums[at * width..(at + 1) * width];
                let row = &values[k * width..(k + 1) * width];
                sums.iter_mut().zip(row).for_each(|(sum, &value)| *sum += value.into());
            })?;
            rows.combined(|at| sums[at])?
        };
        drop(listed);
        let rows = EdgeFeatures::new(columns, rows)?;
        let findings = Findings { repeats, ..findings };
        match keep {
            None => Ok((graph, rows, findings)),
            Some(keep) => Ok((build::retained(&graph, &keep)?, rows.retained(&keep)?, findings)),
        }
    }

    fn check_rows<V: Copy + Into<f64> + Sync>(&self, edges: usize, width: usize, values: &[V]) -> Result<()> {
        if edges.checked_mul(width) != Some(values.len()) {
            return Err(Error::Mismatch {
                place: Place::whole(self.file),
                what: "values",
                found: values.len() as u64,
                expected: (edges as u64).saturating_mul(width as u64),
                other: format!("{edges} edges of {width} columns"),
            });
        }
        let work = shares(values.len(), threads_for(values.len() as u64));
        let fault = |own: Range<usize>| own.into_iter().find(|&at| !values[at].into().is_finite());
        match on_threads(work, fault).into_iter().flatten().next() {
            None => Ok(()),
            Some(at) => Err(Error::NotFinite {
                place: Place::row(self.file, (at / width) as u64),
                column: (at % width) as u64,
                value: values[at].into() as f32,
            }),
        }
    }

    /// Calls `each` for every listed edge that the graph contains, in the order of `edges`. The
    /// arguments are the index of the edge in `edges` and its index in the adjacency lists.
    fn each_place(
        &self,
        lists: &Adjacency,
        edges: &[(u32, u32)],
        mut each: impl FnMut(usize, usize),
    ) -> Result<()> {
        for (k, &(source, target)) in edges.iter().enumerate() {
            if source == target && !self.options.keep_self_loops {
                continue;
            }
            let Some(at) = index(lists, source, target) else {
                return Err(Error::Malformed {
                    place: Place::row(self.file, k as u64),
                    expected: "an edge of the graph".to_owned(),
                    found: format!("{source} -> {target}"),
                    remedy: "pass the edges from which the graph was built",
                });
            };
            each(k, at);
        }
        Ok(())
    }
}

impl EdgeFeatures {
    /// Assigns rows of values to the edges of `graph`, which must have been built from the same
    /// edges with the same `options`. `edges[k]` is (source, target), and its values start at
    /// `rows[k * columns]`. [`EdgeRule`] combines repeats and directions. No edge is removed.
    ///
    /// # Errors
    /// Returns the errors of [`EdgeRule::placed`].
    pub fn placed(
        graph: &Graph,
        edges: &[(u32, u32)],
        columns: u32,
        rows: &[f32],
        options: Options,
    ) -> Result<Self> {
        let (_, rows, _) = EdgeRule::new("edges", options).placed(graph.clone(), edges, columns, rows)?;
        Ok(rows)
    }
}

/// Returns the index of the edge from `source` to `target` in lists of in-neighbours, or `None`.
fn index(lists: &Adjacency, source: u32, target: u32) -> Option<usize> {
    let found = lists.neighbours_of(target).binary_search(&source).ok()?;
    Some(lists.offsets()[target as usize] as usize + found)
}

/// Adjacency lists with the sums of each directed edge, from which the rows of edges are computed.
struct Rows<'a> {
    rule: &'a EdgeRule<'a>,
    lists: &'a Adjacency,
    listed: &'a [u8],
    width: usize,
    symmetric: bool,
}

impl Rows<'_> {
    /// Computes the row of each edge. Returns the rows, flags of the edges to keep (`None` if all
    /// are kept), and counts. `sum` returns the sum at an index, in the order of the lists.
    fn combined(&self, sum: impl Fn(usize) -> f64) -> Result<(Vec<f32>, Option<Vec<bool>>, Findings)> {
        let (width, zeros) = (self.width, self.rule.zeros);
        let mut rows = vec![0.0f32; self.listed.len() * width];
        let mut keep: Option<Vec<bool>> = None;
        let mut findings = Findings { valued: true, ..Findings::default() };
        // A weight that f32 rounds to 0 counts as 0.
        let present = |at: usize| self.listed[at] > 0 && (zeros != Zeros::NoEdges || sum(at) as f32 != 0.0);
        for target in 0..self.lists.vertices() {
            let start = self.lists.offsets()[target as usize] as usize;
            for (at, &source) in (start..).zip(self.lists.neighbours_of(target)) {
                let other = (self.symmetric && source != target)
                    .then(|| index(self.lists, target, source))
                    .flatten()
                    .filter(|&other| self.listed[other] > 0);
                if self.listed[at] == 0 && other.is_none() {
                    return Err(Error::Malformed {
                        place: Place::whole(self.rule.file),
                        expected: "a row for each edge of the graph".to_owned(),
                        found: format!("none for the edge {source} -> {target}"),
                        remedy: "pass the edges from which the graph was built",
                    });
                }
                let other = other.filter(|&other| present(other));
                let row = &mut rows[at * width..(at + 1) * width];
                let mut stays = true;
                match (present(at), other) {
                    (true, None) => fill(row, |column| sum(at * width + column)),
                    (false, Some(other)) => fill(row, |column| sum(other * width + column)),
                    (true, Some(other)) => {
                        let ends = |column| (sum(at * width + column), sum(other * width + column));
                        fill(row, |column| {
                            let (one, two) = ends(column);
                            (one + two) / 2.0
                        });
                        let differ = |(one, two): (f64, f64)| one != two;
                        findings.unequal +=
                            u64::from(source < target && (0..width).any(|column| differ(ends(column))));
                        stays = zeros != Zeros::NoEdges || row[0] != 0.0;
                    }
                    (false, None) => stays = false,
                }
                if let Some(column) = row.iter().position(|value| !value.is_finite()) {
                    return Err(Error::Malformed {
                        place: Place::whole(self.rule.file),
                        expected: "sums of repeated edges within the range of f32".to_owned(),
                        found: format!("{} for the edge {source} -> {target}, column {column}", row[column]),
                        remedy: "scale the values, or list each edge once",
                    });
                }
                if !stays {
                    keep.get_or_insert_with(|| vec![true; self.listed.len()])[at] = false;
                }
                let removed = self.listed[at] > 0 && (!stays || !present(at));
                findings.zeros += u64::from(removed);
                findings.kept_zeros += u64::from(match zeros {
                    Zeros::NoEdges => false,
                    Zeros::Kept => row.iter().all(|&value| value == 0.0),
                    Zeros::KeptWeight(column) => row.get(column as usize) == Some(&0.0),
                });
            }
        }
        Ok((rows, keep, findings))
    }
}

fn fill(row: &mut [f32], value: impl Fn(usize) -> f64) {
    (0..).zip(row).for_each(|(column, to)| *to = value(column) as f32);
}

/// Drops or keeps the self-loops of a data set, as `decision` says, and adds their number to the
/// reading report. If `own` is true, the data comes from the user, and the report marks dropped
/// loops as a note. Without self-loops nothing is copied.
///
/// # Errors
/// Returns the errors of [`build::retained`].
pub fn settle(mut data: Dataset, decision: SelfLoops, own: bool) -> Result<Dataset> {
    let found = loops(&data.graph);
    if found == 0 {
        return Ok(data);
    }
    report_loops(&data.name, found, decision, if own { Level::Note } else { Level::Fact });
    if decision == SelfLoops::Drop {
        let keep: Vec<bool> = data.graph.edge_list().map(|(source, target)| source != target).collect();
        data.edge_features = data.edge_features.map(|rows| rows.retained(&keep)).transpose()?;
        data.graph = build::retained(&data.graph, &keep)?;
    }
    Ok(data)
}

#[cfg(test)]
mod tests;

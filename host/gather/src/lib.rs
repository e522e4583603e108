//! Gather, which computes the sum, mean or maximum of the rows of each vertex's neighbours. The
//! host computes this part of a graph layer.
//!
//! ```text
//! out[v] = t[v] (sum over edges e = (u, v) of a[e] (s[u] x[u])  +  s[v] x[v])
//! ```
//!
//! with a factor `s` of the source row, `t` of the target row and `a` of the edge. Each factor may
//! be absent, and so may the last term, the vertex's own row. Its transpose has the same form: `s`
//! and `t` are exchanged, the lists are those of the reversed edges, and `a` is read through
//! [`Positions`]. `D^-1/2 (A + I) D^-1/2 x` (Kipf and Welling 2017, eq. 8) is `s = t = (deg +
//! 1)^-1/2`, the mean (Hamilton, Ying and Leskovec 2017, section 3.3) is `t = 1 / deg`.
//!
//! A sum begins at zero and takes its terms in the list's order, the vertex itself last. `s[u]
//! x[u]` is rounded to f32 before it is added, and no other rounding occurs. So the bits of a row
//! depend only on the graph and its input rows, not on the other rows of a call or on the access
//! path (`path`).
//!
//! Source rows are in one piece of memory or in several ([`Sources`]). Training with bounded
//! staleness stores rows of several epochs. A gather then reads the rows of each interval from that
//! interval's buffer. An interval is a run of vertices that is scheduled as one unit. Blocks and
//! packed copies are assembled from all pieces. Rows that are read in place are found by a table of
//! addresses (`reach`). The bits are the same in all cases.
//!
//! ```
//! use eciton_gather::adjacency::{Graph, Options};
//! use eciton_gather::{Gather, Reduce};
//! use eciton_tensor::{View, ViewMut};
//! let graph = Graph::from_edges(3, [(0, 1), (1, 2)].into_iter(), Options::default())?;
//! let (x, mut out) = ([1.0, 2.0, 4.0], [0.0; 3]);
//! let gather = Gather::new(graph.incoming(), Reduce::Mean);
//! gather.run(View::new(&x, 3, 1), 0..3, &mut ViewMut::new(&mut out, 3, 1));
//! assert_eq!(out, [2.0, 2.5, 2.0]);
//! # Ok::<(), eciton_gather::error::Error>(())
//! ```
#![allow(unsafe_code)]

pub mod adjacency;
pub mod attention;
mod blocked;
pub mod cache;
pub mod error;
mod kernel;
mod maximum;
mod path;
mod positions;
pub mod random;
mod reach;
mod sources;
mod trial;

use std::cell::RefCell;
use std::ops::Range;

use eciton_tensor::half::HalfViewMut;
use eciton_tensor::simd::{Level, dispatch, level};
use eciton_tensor::{Buffer, ViewMut};

use crate::adjacency::Adjacency;
use blocked::{Scratch, left, pack};
use cache::Caches;
use kernel::{Element, Job, SCALED, WEIGHTED};
pub use kernel::{fetch, prefetch};
pub use maximum::NOBODY;
pub use path::Path;
use path::Shape;
pub use positions::Positions;
use reach::{Input, Piece, Reach, Straight, Table};
use sources::{Extents, Held, readable};
pub use sources::{MAX_PIECES, Rows, Sources};
use trial::{Kind, by_trial};

/// Operation that reduces the rows of a vertex's neighbours to one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reduce {
    /// The sum of the rows. It is zero for a vertex without neighbours.
    Sum,
    /// The mean of the rows. It is zero for a vertex without neighbours.
    Mean,
    /// The maximum of each column. It is zero for a vertex without neighbours.
    Max,
}

/// Weights by which the terms of a sum are multiplied, one per edge.
#[derive(Debug, Clone, Copy)]
pub enum EdgeWeights<'a> {
    /// All edges have weight 1.
    None,
    /// The edge (u, v) has the weight `scale[u] scale[v]`, where `scale` has one value per vertex.
    Symmetric(&'a [f32]),
    /// Each stored edge has its own weight. Without positions, the weights are in the order of the
    /// lists. With positions, they are in the order of the lists that the positions refer to.
    Values(&'a [f32], Option<&'a Positions>),
}

/// Returns `(deg(v) + 1)^-1/2` for every vertex v, where deg is the in-degree. These are the
/// factors of the symmetric normalisation with self-loops. `offsets` are those of the lists of
/// in-neighbours.
pub fn symmetric_scale(offsets: &[u64]) -> Vec<f32> {
    offsets.windows(2).map(|ends| (1.0 / ((ends[1] - ends[0]) as f64 + 1.0).sqrt()) as f32).collect()
}

/// Returns `1 / deg(v)` for every list, or 0 for an empty list. The lists start at `offsets`. If `with_self` is true, the vertex
/// itself counts as a term. The gradient of a mean multiplies its source rows by these factors.
pub fn inverse_degrees(offsets: &[u64], with_self: bool) -> Vec<f32> {
    let inverse = |ends: &[u64]| match ends[1] - ends[0] + u64::from(with_self) {
        0 => 0.0,
        degree => 1.0 / degree as f32,
    };
    offsets.windows(2).map(inverse).collect()
}

/// Gather over adjacency lists, with its reduction and edge weights. The value is cheap to create
/// and to copy.
#[derive(Debug, Clone, Copy)]
pub struct Gather<'a> {
    lists: &'a Adjacency,
    reduce: Reduce,
    source: Option<&'a [f32]>,
    target: Option<&'a [f32]>,
    values: Option<&'a [f32]>,
    positions: Option<&'a Positions>,
    own: bool,
    wanted: Option<&'a [bool]>,
}

impl<'a> Gather<'a> {
    /// Creates a gather without weights. For each list in `lists`, it reduces the rows that the
    /// list names to one row.
    pub fn new(lists: &'a Adjacency, reduce: Reduce) -> Self {
        Self {
            lists,
            reduce,
            source: None,
            target: None,
            values: None,
            positions: None,
            own: false,
            wanted: None,
        }
    }

    /// Sets the weights of the edges, by which terms are multiplied.
    ///
    /// # Panics
    /// Panics if the number of weights differs from the number of vertices or edges. The arguments
    /// come from one compiled program, so this is a fault of the caller.
    #[must_use]
    pub fn weighted(mut self, weights: EdgeWeights<'a>) -> Self {
        match weights {
            EdgeWeights::None => (self.source, self.target) = (None, None),
            EdgeWeights::Symmetric(scale) => {
                assert_eq!(scale.len(), self.vertices(), "factors of vertices");
                (self.source, self.target) = (Some(scale), Some(scale));
            }
            EdgeWeights::Values(values, positions) => {
                let edges = self.lists.neighbours().len();
                assert_eq!(values.len(), edges, "values of edges");
                assert!(positions.is_none_or(|p| p.len() == edges), "positions of edges");
                (self.values, self.positions) = (Some(values), positions);
            }
        }
        self
    }

    /// Adds each vertex's own row as the last term, with edge weight 1.
    #[must_use]
    pub fn with_self(mut self) -> Self {
        self.own = true;
        self
    }

    /// Limits the gather to the vertices for which `wanted` is true, which saves time. The lists of
    /// all other vertices count as empty. [`Reduce::Max`] does not support this limit.
    ///
    /// # Panics
    /// Panics if `wanted` does not have one value per vertex.
    #[must_use]
    pub fn of_rows(mut self, wanted: &'a [bool]) -> Self {
        assert_eq!(wanted.len(), self.vertices(), "wanted vertices");
        self.wanted = Some(wanted);
        self
    }

    /// Sets one factor per source row, by which the row is multiplied first. The gradient of a mean
    /// uses [`inverse_degrees`] here.
    ///
    /// # Panics
    /// Panics if `scale` does not have one value per vertex.
    #[must_use]
    pub fn with_source_scale(mut self, scale: &'a [f32]) -> Self {
        assert_eq!(scale.len(), self.vertices(), "factors of source rows");
        self.source = Some(scale);
        self
    }

    /// Returns the gather that computes the gradient of this gather's input from the gradient of
    /// its output. `reversed` contains the lists of the reversed edges. `positions` gives the index
    /// of each reversed edge in this gather's lists, and is needed if edges have values. `inverse`
    /// contains this gather's [`inverse_degrees`], and is needed for a mean. For the gradient of a
    /// maximum, use [`Gather::route`].
    ///
    /// # Panics
    /// Panics for a maximum, for a mean that also has target factors, and if a needed argument is
    /// absent or has other dimensions. The values of this gather must be in the order of its lists.
    pub fn transpose(
        &self,
        reversed: &'a Adjacency,
        positions: Option<&'a Positions>,
        inverse: Option<&'a [f32]>,
    ) -> Self {
        assert!(self.reduce != Reduce::Max, "the gradient of a maximum is routed");
        let mut back = Self { own: self.own, ..Self::new(reversed, Reduce::Sum) };
        assert_eq!(back.vertices(), self.vertices(), "vertices of the reversed lists");
        (back.source, back.target) = (self.target, self.source);
        if self.reduce == Reduce::Mean {
            assert!(self.target.is_none() && inverse.is_some(), "a mean's transpose needs inverse degrees");
            back.source = inverse;
        }
        assert!(back.source.is_none_or(|s| s.len() == back.vertices()), "inverse degrees of vertices");
        if let Some(values) = self.values {
            assert!(
                self.positions.is_none() && positions.is_some(),
                "edge values are transposed once, by positions"
            );
            back = back.weighted(EdgeWeights::Values(values, positions));
        }
        back
    }

    fn vertices(&self) -> usize {
        self.lists.offsets().len() - 1
    }

    fn job(&self) -> Job<'a> {
        Job {
            offsets: self.lists.offsets(),
            list: self.lists.neighbours(),
            source: self.source,
            target: self.target,
            mean: self.reduce == Reduce::Mean,
            values: self.values,
            positions: self.positions,
            own: self.own,
            wanted: self.wanted,
        }
    }

    /// Computes the rows `rows` of a sum or mean and writes them to `out`, whose first row is row
    /// `rows.start`. `input` contains all source rows. Several threads may compute different rows
    /// at the same time.
    ///
    /// # Panics
    /// Panics if the dimensions of the arguments differ, and for a maximum, which
    /// [`Gather::run_max`] computes.
    pub fn run<'x>(&self, input: impl Into<Sources<'x>>, rows: Range<usize>, out: &mut ViewMut<'_>) {
        self.run_by(None, input, rows, out);
    }

    /// Runs the gather like [`Gather::run`], but on an access path that the caller chooses. Tests
    /// and benchmarks use this function.
    #[doc(hidden)]
    pub fn run_by<'x>(
        &self,
        path: Option<Path>,
        input: impl Into<Sources<'x>>,
        rows: Range<usize>,
        out: &mut ViewMut<'_>,
    ) {
        let input = input.into();
        assert!(self.reduce != Reduce::Max, "a maximum is gathered with `run_max`");
        let Extents { rows: sources, columns, stride, read, value_bytes } = input.extents;
        assert!(sources == self.vertices() && rows.start <= rows.end && rows.end <= sources);
        assert!(out.rows() == rows.len() && out.columns() == columns);
        let out_stride = out.stride();
        let data = out.data_mut();
        let width = read.min(readable(rows.len(), columns, out_stride, data.len()));
        let job = self.job();
        let edges = job.edges(rows.clone());
        let mut start = 0;
        while start < columns {
            let lanes = lanes(columns - start, width - start);
            let shape = Shape {
                vertices: sources,
                rows: rows.len(),
                edges,
                lanes,
                value_bytes,
                stride,
                scaled: self.source.is_some() && value_bytes == 4,
            };
            let (path, rival) = path.map_or_else(|| Path::choose(shape, Caches::here()), |path| (path, None));
            let (list, factors) = (job.list.as_ptr().addr(), job.factors());
            if let Some(from) = data.get_mut(start..) {
                by_trial(Kind { shape, list, first_row: rows.start, factors }, path, rival, |path| {
                    columns_of(lanes, &job, input, start, rows.clone(), (from, out_stride), path);
                });
            }
            start += lanes;
        }
    }

    /// Runs the gather like [`Gather::run`], and writes the result as bfloat16. Sums are computed
    /// in f32 and rounded once.
    ///
    /// # Errors
    /// Returns an error if the f32 buffer does not fit in memory.
    ///
    /// # Panics
    /// Panics under the conditions of [`Gather::run`].
    pub fn run_half<'x>(
        &self,
        input: impl Into<Sources<'x>>,
        rows: Range<usize>,
        out: &mut HalfViewMut<'_>,
    ) -> eciton_tensor::Result<()> {
        let input = input.into();
        let columns = input.extents.columns;
        assert!(out.rows() == rows.len() && out.columns() == columns);
        // The number of rows per call is at most the number of rows of a block tile.
        let most = (Caches::here().last / 8 / (columns.max(16) * size_of::<f32>())).max(1);
        let count = rows.len().max(1).div_ceil(rows.len().max(1).div_ceil(most));
        let wide = Buffer::zeroed(count.min(rows.len()), columns)?;
        for tile in rows.clone().step_by(count) {
            let tile = tile..(tile + count).min(rows.end);
            let mut lease = wide.write(0..tile.len())?;
            self.run_by(None, input, tile.clone(), &mut lease.view_mut());
            out.slice(tile.start - rows.start, tile.len()).round_from(lease.view())?;
        }
        Ok(())
    }
}

/// Copies and scales rows. Row i of `out` becomes row `of[i]` of `pieces` times the factor of that
/// source row. This is the gradient of a sum or mean in which each source has one target. `pieces`
/// are in ascending order of rows, and `scale` has one factor per source row.
///
/// # Panics
/// Panics if no piece contains a row, or if the dimensions of the arguments differ.
pub fn spread(of: &[u32], scale: Option<&[f32]>, pieces: &[(Range<usize>, Rows<'_>)], out: &mut ViewMut<'_>) {
    assert_eq!(of.len(), out.rows(), "rows to write");
    for (to, &from) in of.iter().enumerate() {
        let out = out.row_mut(to);
        out.fill(0.0);
        add_row(pieces, from, scale.map_or(1.0, |scale| scale[from as usize]), out);
    }
}

/// Sums rows. Row i of `out` becomes the sum of the rows of `pieces` that `lists` has for row
/// `rows.start + i`, in this order. Unlike in a gather, there may be more lists than rows. `pieces`
/// are in ascending order of rows.
///
/// # Panics
/// Panics if no piece contains a row, or if the dimensions of the arguments differ.
pub fn collect(
    lists: &Adjacency,
    rows: Range<usize>,
    pieces: &[(Range<usize>, Rows<'_>)],
    out: &mut ViewMut<'_>,
) {
    assert_eq!(rows.len(), out.rows(), "rows to write");
    for (to, row) in rows.enumerate() {
        let out = out.row_mut(to);
        out.fill(0.0);
        lists.neighbours_of(row as u32).iter().for_each(|&from| add_row(pieces, from, 1.0, out));
    }
}

/// Adds row `from` of `pieces`, times `factor`, to `out`.
fn add_row(pieces: &[(Range<usize>, Rows<'_>)], from: u32, factor: f32, out: &mut [f32]) {
    let from = from as usize;
    let at = pieces.partition_point(|(rows, _)| rows.end <= from);
    let (rows, piece) = &pieces[at];
    match piece {
        Rows::F32(view) => {
            let row = view.row(from - rows.start);
            out.iter_mut().zip(row).for_each(|(out, &x)| *out += factor * x);
        }
        Rows::Bf16(view) => {
            let row = view.row(from - rows.start);
            out.iter_mut().zip(row).for_each(|(out, &x)| *out += factor * eciton_tensor::half::widen(x));
        }
    }
}

/// Computes the rows `rows` of a gather with symmetric normalisation, `out[v] = s[v] (sum of s[u]
/// x[u] + s[v] x[v])`. The first row of `out` is row `rows.start`. `input` contains all source
/// rows, and `scale` contains the value s of each row.
///
/// # Panics
/// Panics if the dimensions of the arguments differ.
pub fn gather_symmetric<'x>(
    neighbours: &Adjacency,
    scale: &[f32],
    input: impl Into<Sources<'x>>,
    rows: Range<usize>,
    out: &mut ViewMut<'_>,
) {
    let gather = Gather::new(neighbours, Reduce::Sum).weighted(EdgeWeights::Symmetric(scale)).with_self();
    gather.run(input, rows, out);
}

/// Returns the number of columns that one pass over a list processes. It is the smallest supported
/// width that covers `wanted` columns and has at most `there` columns, which are readable.
fn lanes(wanted: usize, there: usize) -> usize {
    let most = if level() == Level::Avx512 { 128 } else { 64 };
    let all = [1, 8, 16, 32, 48, 64, 128];
    let there = there.min(most);
    let fits = all.into_iter().filter(|&l| l <= there);
    let covers = fits.clone().find(|&l| l >= wanted.next_multiple_of(16).min(there));
    covers.or(fits.max()).unwrap_or(1)
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// Gathers the columns `start..start + lanes`. The first value of `out` belongs to column `start`.
fn columns_of(
    lanes: usize,
    job: &Job<'_>,
    input: Sources<'_>,
    start: usize,
    rows: Range<usize>,
    out: (&mut [f32], usize),
    path: Path,
) {
    if rows.is_empty() {
        return;
    }
    SCRATCH.with_borrow_mut(|scratch| {
        macro_rules! by_lanes {
            ($function:ident, $pieces:expr, $stride:expr) => {{
                let from = Input { pieces: $pieces, stride: $stride };
                match lanes {
                    1 => $function::<1>(job, from, rows, out, path, scratch),
                    8 => $function::<8>(job, from, rows, out, path, scratch),
                    16 => $function::<16>(job, from, rows, out, path, scratch),
                    32 => $function::<32>(job, from, rows, out, path, scratch),
                    48 => $function::<48>(job, from, rows, out, path, scratch),
                    64 => $function::<64>(job, from, rows, out, path, scratch),
                    _ => $function::<128>(job, from, rows, out, path, scratch),
                }
            }};
        }
        macro_rules! pieces {
            ($kind:path, $pieces:ident) => {{
                let held = $pieces.iter().filter(|(range, _)| !range.is_empty());
                let here = held.filter_map(|(range, rows)| match rows {
                    $kind(x) => Some(Piece { start: range.start, end: range.end, data: &x.data()[start..] }),
                    _ => None,
                });
                here.collect::<Vec<_>>()
            }};
        }
        match input.held {
            Held::One(Rows::F32(x)) => {
                let all = Piece { start: 0, end: x.rows(), data: &x.data()[start..] };
                by_lanes!(sum_f32, &[all], x.stride());
            }
            Held::One(Rows::Bf16(x)) => {
                let all = Piece { start: 0, end: x.rows(), data: &x.data()[start..] };
                by_lanes!(sum_bf16, &[all], x.stride());
            }
            Held::Pieces(all) if input.extents.value_bytes == 4 => {
                by_lanes!(sum_f32, &pieces!(Rows::F32, all), input.extents.stride);
            }
            Held::Pieces(all) => by_lanes!(sum_bf16, &pieces!(Rows::Bf16, all), input.extents.stride),
        }
    });
}

dispatch! {
    fn sum_f32[const L: usize](job: &Job<'_>, from: Input<'_, f32>, rows: Range<usize>, out: (&mut [f32], usize), path: Path, scratch: &mut Scratch) = f32_body
}

dispatch! {
    fn sum_bf16[const L: usize](job: &Job<'_>, from: Input<'_, u16>, rows: Range<usize>, out: (&mut [f32], usize), path: Path, scratch: &mut Scratch) = bf16_body
}

#[inline(always)]
fn f32_body<const L: usize, const FMA: bool>(
    job: &Job<'_>,
    from: Input<'_, f32>,
    rows: Range<usize>,
    out: (&mut [f32], usize),
    path: Path,
    scratch: &mut Scratch,
) {
    if FMA {
        return body::<f32, L, FMA>(job, from, rows, out, path, scratch);
    }
    portable(L, job, from, rows, out, path, scratch);
}

#[inline(always)]
fn bf16_body<const L: usize, const FMA: bool>(
    job: &Job<'_>,
    from: Input<'_, u16>,
    rows: Range<usize>,
    out: (&mut [f32], usize),
    path: Path,
    scratch: &mut Scratch,
) {
    if FMA {
        return body::<u16, L, FMA>(job, from, rows, out, path, scratch);
    }
    portable(L, job, from, rows, out, path, scratch);
}

/// Gathers the columns `0..lanes` with loops of width 8 or 1, without specific vector instructions.
/// It serves processors without AVX2. Each width needs another copy of all loops, so there are only
/// two.
fn portable<E: Element>(
    lanes: usize,
    job: &Job<'_>,
    from: Input<'_, E>,
    rows: Range<usize>,
    (out, out_stride): (&mut [f32], usize),
    path: Path,
    scratch: &mut Scratch,
) {
    if lanes == 1 {
        return body::<E, 1, false>(job, from, rows, (out, out_stride), path, scratch);
    }
    for start in (0..lanes).step_by(8) {
        let shifted: Vec<_> =
            from.pieces.iter().map(|piece| Piece { data: &piece.data[start..], ..*piece }).collect();
        let from = Input { pieces: &shifted, stride: from.stride };
        body::<E, 8, false>(job, from, rows.clone(), (&mut out[start..], out_stride), path, scratch);
    }
}

#[inline(always)]
fn body<E: Element, const L: usize, const FMA: bool>(
    job: &Job<'_>,
    input: Input<'_, E>,
    rows: Range<usize>,
    (out, out_stride): (&mut [f32], usize),
    path: Path,
    scratch: &mut Scratch,
) {
    let vertices = job.offsets.len() - 1;
    assert!(rows.end <= vertices && input.covers(vertices, L));
    assert!((rows.len() - 1) * out_stride + L <= out.len());
    let out = (out.as_mut_ptr(), out_stride);
    macro_rules! direct {
        ($factors:expr, $element:ty, $terms:expr, $ahead:expr) => {
            match $factors {
                0 => direct::<$element, E, L, 0, FMA>(job, $terms, input, rows, out, $ahead),
                SCALED => direct::<$element, E, L, SCALED, FMA>(job, $terms, input, rows, out, $ahead),
                WEIGHTED => direct::<$element, E, L, WEIGHTED, FMA>(job, $terms, input, rows, out, $ahead),
                _ => direct::<$element, E, L, { SCALED | WEIGHTED }, FMA>(
                    job, $terms, input, rows, out, $ahead,
                ),
            }
        };
    }
    // SAFETY: each row of input and output was checked to have `L` values, an adjacency's
    // neighbours are vertices, and factors have the dimensions that `Gather` checked. A packed row
    // contains its source's values, scaled.
    unsafe {
        match path {
            Path::Direct { ahead } => match input.pieces {
                [all] => direct!(job.factors(), E, Straight(all.data.as_ptr(), input.stride), ahead),
                _ => direct!(job.factors(), E, Table::new::<L>(input, vertices, scratch).reach(), ahead),
            },
            Path::Packed => {
                let packed = scratch.room::<E::Packed>(vertices * L);
                pack::<E, L>(job.source, input, 0..vertices, packed);
                let packed = Straight(packed.cast_const(), L);
                direct!(left::<E>(job.factors()), E::Packed, packed, false);
            }
            Path::Blocked { block_rows, tile_rows } => {
                let sizes = (block_rows.clamp(1, vertices), tile_rows.clamp(1, rows.len()));
                match left::<E>(job.factors()) {
                    0 => blocked::sum::<E, L, 0, FMA>(job, input, rows, out, sizes, scratch),
                    WEIGHTED => blocked::sum::<E, L, WEIGHTED, FMA>(job, input, rows, out, sizes, scratch),
                    SCALED => blocked::sum::<E, L, SCALED, FMA>(job, input, rows, out, sizes, scratch),
                    _ => blocked::sum::<E, L, { SCALED | WEIGHTED }, FMA>(
                        job, input, rows, out, sizes, scratch,
                    ),
                }
            }
        }
    }
}

/// Number of list entries by which the prefetch of neighbours' rows is ahead.
const AHEAD: usize = 8;

/// Gathers one target row after the other. `terms` gives the addresses of the rows that are summed,
/// and `input` gives the vertex's own row.
///
/// # Safety
/// The conditions of [`Job::add`] hold for all rows, `input` contains these rows, and `out` points
/// at row `rows.start` and has all of `rows`.
#[inline(always)]
unsafe fn direct<T: Element, E: Element, const L: usize, const W: u8, const FMA: bool>(
    job: &Job<'_>,
    terms: impl Reach<T>,
    input: Input<'_, E>,
    rows: Range<usize>,
    (out, out_stride): (*mut f32, usize),
    ahead: bool,
) {
    let first = rows.start;
    for (part, base) in input.parts(rows) {
        for v in part {
            let span = job.span(v);
            let mut sum = [0.0f32; L];
            // SAFETY: the caller guarantees the rows, and an adjacency's neighbours are vertices.
            unsafe {
                if ahead {
                    for edge in span {
                        if let Some(&next) = job.list.get(edge + AHEAD) {
                            prefetch::<T, L>(terms.row(next as usize));
                        }
                        job.add::<T, L, W, FMA>(&mut sum, terms, edge, 1);
                    }
                } else {
                    job.add::<T, L, W, FMA>(&mut sum, terms, span.start, span.len());
                }
                job.finish::<E, L, FMA>(&mut sum, base.wrapping_add(v * input.stride), v);
                *out.add((v - first) * out_stride).cast::<[f32; L]>() = sum;
            }
        }
    }
}

//! Access paths by which a gather reads its source rows, and the cost model that chooses one of
//! them.

use super::cache::Caches;

/// Access path by which a gather reads its source rows. All paths give the same bits but differ in
/// speed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[doc(hidden)]
pub enum Path {
    /// Target rows are processed one by one, and each source row is read in place. If `ahead` is
    /// true, source rows are prefetched.
    Direct { ahead: bool },
    /// Target rows are processed one by one. They read a packed copy of all source rows, which is
    /// scaled once.
    Packed,
    /// Target rows are processed in tiles. For each tile, blocks of source rows are copied into the
    /// second-level cache, one after the other.
    Blocked { block_rows: usize, tile_rows: usize },
}

/// Sizes of a gather call, from which the cost model chooses an access path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Shape {
    /// Number of source rows.
    pub vertices: usize,
    /// Number of target rows of this call.
    pub rows: usize,
    /// Number of edges of the target rows.
    pub edges: usize,
    /// Number of columns that one pass over a list processes.
    pub lanes: usize,
    /// Number of values between the starts of consecutive input rows.
    pub stride: usize,
    /// Size of an input value, in bytes.
    pub value_bytes: usize,
    /// True if terms are multiplied by a factor of their source row that can be applied when the
    /// row is copied.
    pub scaled: bool,
}

/// Costs of memory accesses in nanoseconds, measured with `benches/gather.rs` on a server core with
/// AVX-512. It had 1 MiB of second-level and 32 MiB of last-level cache. Only the ratios of costs
/// matter, and a factor of two is accurate enough.
mod cost {
    /// Cost of reading a row from the second-level cache, per row and per 64-byte line.
    pub(super) const NEAR: (f64, f64) = (0.5, 1.0);
    /// Cost of reading a row from the last-level cache, per row and per 64-byte line.
    pub(super) const LAST: (f64, f64) = (0.8, 2.0);
    /// Cost of reading a prefetched row from memory, per row and per 64-byte line.
    pub(super) const FAR: (f64, f64) = (1.0, 5.0);
    /// Cost of copying a 64-byte line into a block.
    pub(super) const COPY: f64 = 3.0;
    /// Cost of visiting a target row for a block, which is mostly the wait for the row's list. If
    /// the block has edges of the row, the second cost is added per 64-byte line of the row's sum.
    pub(super) const VISIT: (f64, f64) = (12.0, 2.0);
}

/// Cost ratio up to which either of two paths may be faster on another processor than the measured
/// one.
const DOUBT: f64 = 3.0;

/// Maximum number of target rows in a tile. Each row has its own position in the lists, and a
/// processor can track some thousands of pages.
const TILE_ROWS: usize = 8192;

impl Path {
    /// Returns the path with the lowest cost. Also returns a second path if its cost is within the
    /// factor `DOUBT`. The cost of a path is that of reading all terms. For blocks it includes
    /// copying all rows for each tile, and visiting each target row for each block.
    pub(super) fn choose(shape: Shape, caches: Caches) -> (Self, Option<Self>) {
        let row_bytes = shape.lanes * shape.value_bytes;
        let (lines, sums) =
            (row_bytes.div_ceil(64) as f64, (shape.lanes * size_of::<f32>()).div_ceil(64) as f64);
        let terms = |(own, line): (f64, f64)| shape.edges as f64 * (own + line * lines);
        // A block uses three quarters of the second level. Lists and sums need the rest.
        let block_rows = (caches.second / 4 * 3 / row_bytes).max(1);
        let copy = |times: usize| (shape.vertices * times) as f64 * lines * cost::COPY;
        let table = shape.vertices * shape.stride * shape.value_bytes;
        if shape.vertices <= block_rows {
            let gain = if shape.scaled { 0.25 * terms(cost::NEAR) } else { 0.0 };
            let path =
                if gain > copy(1) { Self::Packed } else { Self::Direct { ahead: table > caches.second } };
            return (path, None);
        }
        let direct = terms(if table <= caches.last / 2 { cost::LAST } else { cost::FAR });
        let tile_rows = Self::tile(shape, caches);
        let blocks = shape.vertices.div_ceil(block_rows);
        let visits = (shape.rows * blocks) as f64;
        // Fraction of the visits that find an edge, if edges were distributed evenly: 1 - e^-mean.
        let found = 1.0 - (-(shape.edges as f64) / visits.max(1.0)).exp();
        let blocked = terms(cost::NEAR)
            + copy(shape.rows.div_ceil(tile_rows))
            + visits * (cost::VISIT.0 + found * cost::VISIT.1 * sums);
        let (blocks, rows) = (Self::Blocked { block_rows, tile_rows }, Self::Direct { ahead: true });
        let doubtful = blocked < direct * DOUBT && direct < blocked * DOUBT;
        match blocked < direct {
            true => (blocks, doubtful.then_some(rows)),
            false => (rows, doubtful.then_some(blocks)),
        }
    }

    /// Returns the number of target rows per tile. The sums of a tile fill at most a sixteenth of
    /// the last-level cache.
    fn tile(shape: Shape, caches: Caches) -> usize {
        let most = (caches.last / 16 / (shape.lanes * size_of::<f32>())).clamp(1, TILE_ROWS);
        // All tiles have the same size, so that the last is not a small one.
        shape.rows.max(1).div_ceil(shape.rows.max(1).div_ceil(most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Caches = Caches { second: 1 << 20, last: 32 << 20 };

    fn shape(vertices: usize, edges: usize, lanes: usize) -> Shape {
        Shape { vertices, rows: vertices, edges, lanes, stride: lanes, value_bytes: 4, scaled: true }
    }

    #[test]
    fn blocks_where_lists_are_long_and_rows_are_many() {
        for lanes in [16, 48, 64, 128] {
            let dense = Path::choose(shape(233_000, 115_000_000, lanes), HERE);
            assert!(matches!(dense.0, Path::Blocked { .. }), "{dense:?}");
            let sparse = Path::choose(shape(16_800_000, 60_000_000, lanes), HERE);
            assert_eq!(sparse, (Path::Direct { ahead: true }, None));
        }
        // A table that fits the last level: it is the processor that decides.
        let tenth = Path::choose(shape(23_297, 11_461_590, 48), HERE);
        assert!(matches!(tenth, (Path::Blocked { .. }, Some(Path::Direct { ahead: true }))), "{tenth:?}");
        assert_eq!(Path::choose(shape(2_708, 10_556, 16), HERE), (Path::Direct { ahead: false }, None));
        assert_eq!(Path::choose(shape(7_650, 238_162, 16), HERE), (Path::Packed, None));
    }

    #[test]
    fn sizes_stay_within_the_caches_whatever_these_are() {
        for (second, last) in [(128 << 10, 128 << 10), (1 << 20, 32 << 20), (16 << 20, 1 << 30)] {
            for lanes in [1, 2, 16, 96, 128] {
                for vertices in [1, 1000, 10_000_000] {
                    for degree in [0, 1, 30, 100_000] {
                        let shape = shape(vertices, vertices * degree, lanes);
                        let (path, rival) = Path::choose(shape, Caches { second, last });
                        assert_ne!(Some(path), rival);
                        for path in [Some(path), rival] {
                            if let Some(Path::Blocked { block_rows, tile_rows }) = path {
                                assert!((1..=second / lanes / 4).contains(&block_rows), "{shape:?}");
                                assert!((1..=TILE_ROWS).contains(&tile_rows), "{shape:?}");
                            }
                        }
                    }
                }
            }
        }
    }
}

//! Execution of an edge kernel over the edge lists of an interval, block by block.
//!
//! For each block, the rows at the other ends of the edges are copied next to each other, one row
//! per edge. So a kernel works on a few megabytes at a time, whatever the graph's size. A block
//! consists of one or more *pieces*. A piece is an atom of the grid or a section of an atom with
//! many edges. (An atom is a run of rows that is summed as one unit.) Sums over edges are
//! accumulated piece by piece. For this reason their bits do not depend on the number of intervals,
//! or on how pieces are grouped into blocks.

use std::ops::Range;
use std::sync::Arc;

use eciton_tensor::ops::product::Tree;
use eciton_tensor::ops::rows::gather_rows;
use eciton_tensor::{Atom, Buffer, Grid, Matrix, Part, ViewMut};
use wasmtime::component::Resource;

use crate::bindings::edge::exports::eciton::kernel::edge as we;
use crate::call::{EdgeCall, EdgeKind, EdgeLists, OtherRows, Target};
use crate::error::{Error, Result};
use crate::lend::{promise, rows_place};
use crate::outs::{Laid, Place};
use crate::state::{Finished, IdsHandle, MatrixHandle, OutHandle, OutView, Peak, RowNumbers, State};

/// Maximum number of edges in a block, which is the input of one call of an edge kernel. A block is
/// larger only if a single vertex has more edges.
pub const BLOCK_EDGES: usize = 2048;
/// Memory limit, in bytes, for the partial sums of one block of edges. A block that consists of one
/// piece may exceed it.
const SUMS_BYTES: usize = 256 << 10;

/// Arguments of an edge kernel for one block of edges, as resource handles that the guest receives.
pub(crate) struct EdgeArgs {
    pub task: we::Task,
    pub lists: we::Lists,
    pub other: Resource<MatrixHandle>,
    pub own: Vec<Resource<MatrixHandle>>,
    pub parameters: Vec<Resource<MatrixHandle>>,
    pub rows_out: Vec<Option<Resource<OutHandle>>>,
    pub sums_out: Vec<Resource<OutHandle>>,
}

/// Run of consecutive edge lists within one atom, which is a run of rows that is summed as one
/// unit. The last piece of an atom also closes the nodes of the summation tree that end with the
/// atom.
#[derive(Debug, PartialEq, Eq)]
struct Piece {
    rows: Range<usize>,
    edges: usize,
    /// Number of levels of the summation tree that end with this piece. `None` if the piece does
    /// not end an atom.
    closes: Option<u8>,
    /// Index of the grid part that ends with this piece, or `None` if no part ends here.
    part: Option<usize>,
}

/// Run of consecutive pieces that the kernel processes in one call.
#[derive(Debug, PartialEq, Eq)]
struct Block {
    rows: Range<usize>,
    edges: usize,
    pieces: Vec<Piece>,
}

impl Block {
    /// Returns true if the block computes a sum for the piece at index `at`. Each piece with edges
    /// has a sum. In a block without edges, only the first piece has one.
    fn is_summed(&self, at: usize) -> bool {
        self.pieces[at].edges > 0 || self.edges == 0 && at == 0
    }

    /// Returns the pieces for which the block computes sums.
    fn summed(&self) -> impl Iterator<Item = &Piece> {
        (0..self.pieces.len()).filter(|&at| self.is_summed(at)).map(|at| &self.pieces[at])
    }

    /// Returns a grid over the block's edges, with one part per piece that is summed.
    fn grid(&self) -> Grid {
        let mut end = 0;
        let part = |piece: &Piece| {
            let start = end;
            end += piece.edges as u32;
            Part { level: 0, atoms: vec![Atom { rows: start..end, closes: 0 }] }
        };
        Grid::new(self.summed().map(part).collect())
    }
}

/// Returns the number of edges of row `own`, including its self-loop.
pub(crate) fn edges(lists: &dyn EdgeLists, own: usize) -> usize {
    lists.others(own).len() + usize::from(lists.itself(own).is_some())
}

/// Divides the atoms of a grid into pieces of at most [`BLOCK_EDGES`] edges. How an atom is divided
/// depends only on its own edges.
fn pieces(grid: &Grid, lists: &dyn EdgeLists) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for (p, part) in grid.parts().iter().enumerate() {
        for (a, atom) in part.atoms.iter().enumerate() {
            let mut piece = Piece { rows: 0..0, edges: 0, closes: None, part: None };
            piece.rows = atom.rows.start as usize..atom.rows.start as usize;
            for row in atom.rows.start as usize..atom.rows.end as usize {
                let edges = edges(lists, row);
                let full = piece.edges + edges > BLOCK_EDGES || piece.rows.len() == BLOCK_EDGES;
                if full && !piece.rows.is_empty() {
                    let next = Piece { rows: row..row, edges: 0, closes: None, part: None };
                    pieces.push(std::mem::replace(&mut piece, next));
                }
                piece.rows.end = row + 1;
                piece.edges += edges;
            }
            piece.closes = Some(atom.closes);
            piece.part = (a + 1 == part.atoms.len()).then_some(p);
            pieces.push(piece);
        }
    }
    pieces
}

/// Groups pieces into blocks of at most [`BLOCK_EDGES`] edges, [`BLOCK_EDGES`] rows and `most`
/// pieces. A piece that exceeds a limit forms a block of its own.
fn blocks(pieces: Vec<Piece>, most: usize) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for piece in pieces {
        match blocks.last_mut() {
            Some(block)
                if block.edges + piece.edges <= BLOCK_EDGES
                    && block.rows.len() + piece.rows.len() <= BLOCK_EDGES
                    && block.pieces.len() < most =>
            {
                block.rows.end = piece.rows.end;
                block.edges += piece.edges;
                block.pieces.push(piece);
            }
            _ => blocks.push(Block { rows: piece.rows.clone(), edges: piece.edges, pieces: vec![piece] }),
        }
    }
    blocks
}

/// Accumulator for the gradient of one parameter. It has buffers for the sums of a block's pieces,
/// and the summation tree with the sums of earlier pieces.
#[derive(Debug)]
struct Sum {
    pieces: Vec<Buffer>,
    tree: Tree,
    parts: Vec<Buffer>,
    shape: Vec<u32>,
}

/// State of an edge kernel's task while it runs, with the blocks of edges that remain.
#[derive(Debug)]
pub(crate) struct EdgeRun {
    call: EdgeCall,
    /// Blocks that have not yet run, in reverse order, so that the next one is the last entry.
    blocks: Vec<Block>,
    /// Output buffers for rows. They move to the instance's [`State`] while a block runs.
    places: Vec<Option<Place>>,
    sums: Vec<Sum>,
    /// Buffer for copies of the rows at the other ends of a block's edges, one row per edge.
    wide: Buffer,
    /// Buffer for the features of a block's edges, or `None` if edges have no features.
    known: Option<Buffer>,
    log: Vec<String>,
    guest_memory_bytes: usize,
    copied_bytes: u64,
    peak: Peak,
}

impl EdgeRun {
    pub(crate) fn new(
        state: &mut State,
        mut call: EdgeCall,
    ) -> std::result::Result<Self, eciton_tensor::Error> {
        let sum_bytes = |target: &Target| match target {
            Target::Sums { parts, .. } => {
                parts.first().map_or(0, |part| part.rows() * Buffer::row_bytes(part.columns()))
            }
            _ => 0,
        };
        let each: usize = call.sums_out.iter().map(sum_bytes).sum();
        let most = SUMS_BYTES.checked_div(each).map_or(usize::MAX, |most| most.max(1));
        let mut blocks = blocks(pieces(&call.grid, &*call.lists), most);
        blocks.reverse();
        let most_pieces = blocks.iter().map(|block| block.summed().count()).max().unwrap_or(0);
        let columns = call.other.first().map_or(1, |(_, rows)| rows.buffer().columns());
        let most = blocks.iter().map(|block| block.edges).max().unwrap_or(0).max(1);
        state.reset();
        state.scratch_rows = BLOCK_EDGES;
        let wide = state.wide(most, columns)?;
        let features = call.lists.features();
        let known = if features > 0 { Some(state.wide(most, features)?) } else { None };
        let mut places = Vec::with_capacity(call.rows_out.len());
        for target in std::mem::take(&mut call.rows_out) {
            places.push(match target {
                None => None,
                Some(Target::Rows { rows, extents }) => {
                    let count = rows.view().rows();
                    Some(rows_place(rows, count, extents, None))
                }
                Some(_) => {
                    return Err(eciton_tensor::Error::Argument {
                        operation: "edges",
                        reason: "rows of an edge kernel are stored as f32".to_owned(),
                    });
                }
            });
        }
        let mut sums = Vec::with_capacity(call.sums_out.len());
        for target in std::mem::take(&mut call.sums_out) {
            let Target::Sums { parts, shape } = target else { continue };
            let (rows, columns) = parts.first().map_or((0, 1), |part| (part.rows(), part.columns()));
            let tree = Tree::new(rows * columns);
            let pieces = (0..most_pieces).map(|_| Buffer::zeroed(rows, columns));
            sums.push(Sum { pieces: pieces.collect::<eciton_tensor::Result<_>>()?, tree, parts, shape });
        }
        let (log, guest_memory_bytes, copied_bytes, peak) = (Vec::new(), 0, 0, Peak::default());
        Ok(Self { call, blocks, places, sums, wide, known, log, guest_memory_bytes, copied_bytes, peak })
    }

    pub(crate) fn kind(&self) -> EdgeKind {
        self.call.kind
    }

    /// Moves the arguments of the next block into the tables of `state`, and returns their handles.
    /// Returns `None` after the last block.
    pub(crate) fn next(
        &mut self,
        state: &mut State,
    ) -> std::result::Result<Option<EdgeArgs>, eciton_tensor::Error> {
        while self.blocks.last().is_some_and(|block| block.rows.is_empty()) {
            self.close(false)?;
        }
        let Some(block) = self.blocks.last() else { return Ok(None) };
        let (call, edges, rows) = (&self.call, block.edges, block.rows.clone());
        state.reset();
        (state.seed, state.epoch, state.layer, state.training) =
            (call.seed, call.epoch, call.layer, call.training);
        state.grid = Arc::new(if self.sums.is_empty() { Grid::single(edges) } else { block.grid() });
        let pieces = block.summed().count();
        let mut ids = Vec::with_capacity(edges);
        let mut offsets = Vec::with_capacity(rows.len() + 1);
        let (mut owners, mut numbers) = (Vec::with_capacity(edges), Vec::with_capacity(edges));
        offsets.push(0);
        for (own, row) in (0u32..).zip(rows.clone()) {
            let lists = &*call.lists;
            let vertex = u64::from(lists.own_vertex(row));
            for &other in lists.others(row).iter().chain(&lists.itself(row)) {
                let at_other_end = u64::from(lists.vertex(other));
                numbers.push(match call.kind {
                    EdgeKind::Sources => at_other_end << 32 | vertex,
                    _ => vertex << 32 | at_other_end,
                });
                ids.push(other);
                owners.push(own);
            }
            offsets.push(ids.len() as u32);
        }
        state.row_numbers = RowNumbers::List(numbers.into());
        let mut by_edge = self.wide.write(0..edges)?;
        gather(&call.other, &ids, &mut by_edge.view_mut())?;
        let other = state.matrices.push(by_edge.into_read().into());
        let mut known = None;
        if let Some(buffer) = &self.known {
            let mut by_edge = buffer.write(0..edges)?;
            let mut view = by_edge.view_mut();
            for (own, bounds) in rows.clone().zip(offsets.windows(2)) {
                for (place, edge) in (bounds[0]..bounds[1]).enumerate() {
                    call.lists.features_of(own, place, view.row_mut(edge as usize));
                }
            }
            known = Some(Resource::new_own(state.matrices.push(by_edge.into_read().into())));
        }
        let mut push = |matrix: Matrix| Resource::new_own(state.matrices.push(matrix));
        let own = call.own.iter().map(|own| Ok(push(own.slice_rows(rows.start, rows.len())?)));
        let own = own.collect::<eciton_tensor::Result<_>>()?;
        let parameters = call.parameters.iter().map(|parameter| push(parameter.clone())).collect();
        let mut rows_out = Vec::with_capacity(self.places.len());
        for place in self.places.iter_mut() {
            rows_out.push(place.is_some().then(|| {
                let view = OutView {
                    place: state.places.len(),
                    start: rows.start,
                    count: rows.len(),
                    whole: false,
                    laid: Laid::AsTheyAre,
                };
                Resource::new_own(state.outs.push(view))
            }));
            state.places.push(place.take());
        }
        let mut sums_out = Vec::with_capacity(self.sums.len());
        for sum in &self.sums {
            let parts = sum.pieces.iter().take(pieces).map(|piece| piece.write(0..piece.rows()));
            let parts = parts.collect::<eciton_tensor::Result<_>>()?;
            let view =
                OutView { place: state.places.len(), start: 0, count: 1, whole: true, laid: Laid::AsTheyAre };
            state.places.push(Some(Place::Sums { parts, shape: sum.shape.clone(), written: false }));
            sums_out.push(Resource::new_own(state.outs.push(view)));
        }
        let mut list = |list: Vec<u32>| Resource::<IdsHandle>::new_own(state.ids.push(list.into()));
        let lists = we::Lists { offsets: list(offsets), owners: list(owners), features: known };
        state.peak.handles = state.handles() as u64;
        let (rows, edges) = (rows.len() as u32, edges as u32);
        let task = we::Task { training: call.training, epoch: call.epoch, layer: call.layer, rows, edges };
        Ok(Some(EdgeArgs {
            task,
            lists,
            other: Resource::new_own(other),
            own,
            parameters,
            rows_out,
            sums_out,
        }))
    }

    /// Ends a block after the kernel has returned. Checks that the kernel wrote all results, and
    /// removes the block's handles. `lent` is the number of handles that the host itself drops.
    ///
    /// # Errors
    /// Returns [`Error::Promise`] if rows or sums were not written, or if the kernel kept handles.
    pub(crate) fn settle(&mut self, state: &mut State, name: &str, lent: usize) -> Result<()> {
        let (place, end) = (self.call.kind.name(), self.blocks.last().map_or(0, |block| block.rows.end));
        let host = |source| Error::Tensor { place: format!("kernel `{name}`, {place}"), source };
        let count = self.places.len();
        for (at, (from, to)) in state.places.iter_mut().zip(&mut self.places).enumerate() {
            *to = from.take();
            let missing = match to {
                Some(Place::Rows { written, .. }) => written.missing(end),
                _ => None,
            };
            if let Some(rows) = missing {
                let reason = format!("output {at}: rows {}..{} were never written", rows.start, rows.end);
                return Err(promise(name, place, reason));
            }
        }
        for at in 0..self.sums.len() {
            let written = state.places.get_mut(count + at).and_then(Option::take);
            if !matches!(written, Some(Place::Sums { written: true, .. })) {
                let reason = format!("output {}: it was never written", count + at);
                return Err(promise(name, place, reason));
            }
        }
        self.log.append(&mut state.log);
        self.guest_memory_bytes = self.guest_memory_bytes.max(state.memory_bytes);
        self.copied_bytes += state.copied_bytes;
        self.peak = self.peak.max(state.peak);
        let kept = state.handles().saturating_sub(lent);
        state.reset();
        if kept > 0 {
            return Err(promise(
                name,
                place,
                format!("the kernel still holds {kept} handles after the call; drop all handles"),
            ));
        }
        self.close(true).map_err(host)
    }

    /// Removes the current block and closes the nodes of the summation tree that end with it. If
    /// `summed` is true, the sums of the block's pieces are first added to the tree.
    fn close(&mut self, summed: bool) -> eciton_tensor::Result<()> {
        let Some(block) = self.blocks.pop() else { return Ok(()) };
        for sum in &mut self.sums {
            let mut sums = sum.pieces.iter();
            for (at, piece) in block.pieces.iter().enumerate() {
                if let Some(own) = (summed && block.is_summed(at)).then(|| sums.next()).flatten() {
                    let own = own.read(0..own.rows())?;
                    let (view, leaf) = (own.view(), sum.tree.leaf());
                    for (row, to) in leaf.chunks_exact_mut(view.columns().max(1)).enumerate() {
                        to.iter_mut().zip(view.row(row)).for_each(|(to, &value)| *to += value);
                    }
                }
                if let Some(levels) = piece.closes {
                    sum.tree.close(levels);
                }
                if let Some(part) = piece.part.and_then(|part| sum.parts.get(part)) {
                    sum.tree.finish(part.columns(), &mut part.write(0..part.rows())?.view_mut());
                }
            }
        }
        Ok(())
    }

    /// Ends the task and returns its log lines and statistics.
    pub(crate) fn finish(self, state: &mut State) -> Finished {
        state.scratch_rows = 0;
        Finished {
            log: self.log,
            guest_memory_bytes: self.guest_memory_bytes,
            copied_bytes: self.copied_bytes,
            peak: self.peak,
        }
    }
}

/// Copies row `ids[i]` of the rows at the other ends to row `i` of `into`.
pub(crate) fn gather(from: &OtherRows, ids: &[u32], into: &mut ViewMut<'_>) -> eciton_tensor::Result<()> {
    if let [(all, rows)] = &from[..]
        && all.start == 0
    {
        return gather_rows(rows.view(), ids, into);
    }
    for (i, &id) in ids.iter().enumerate() {
        let id = id as usize;
        let piece = from.partition_point(|(rows, _)| rows.end <= id);
        let found = from.get(piece).filter(|(rows, _)| rows.contains(&id));
        let (rows, piece) = found.ok_or_else(|| eciton_tensor::Error::Argument {
            operation: "edges",
            reason: format!("row {id} of the neighbours does not exist"),
        })?;
        into.row_mut(i).copy_from_slice(piece.view().row(id - rows.start));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic)]
    use super::*;

    /// Edge lists for tests: the rows at the other ends, one list per own row.
    #[derive(Debug)]
    struct Lists(Vec<Vec<u32>>);

    impl EdgeLists for Lists {
        fn others(&self, own: usize) -> &[u32] {
            &self.0[own]
        }
        fn itself(&self, _: usize) -> Option<u32> {
            None
        }
        fn own_vertex(&self, own: usize) -> u32 {
            own as u32
        }
        fn vertex(&self, row: u32) -> u32 {
            row
        }
        fn features(&self) -> usize {
            0
        }
        fn features_of(&self, _: usize, _: usize, _: &mut [f32]) {}
    }

    /// Returns a grid of atoms with the given numbers of rows, two atoms per part.
    fn grid(atoms: &[u32]) -> Grid {
        let mut end = 0;
        let mut atom = |&rows: &u32, closes| {
            end += rows;
            Atom { rows: end - rows..end, closes }
        };
        let parts = atoms.chunks(2).map(|pair| {
            let last = pair.len() - 1;
            let atoms = pair.iter().enumerate().map(|(at, rows)| atom(rows, u8::from(at == last))).collect();
            Part { level: 1, atoms }
        });
        Grid::new(parts.collect())
    }

    fn cut(atoms: &[u32], degrees: &[usize], most: usize) -> Vec<Block> {
        let lists = Lists(degrees.iter().map(|&degree| vec![0; degree]).collect());
        blocks(pieces(&grid(atoms), &lists), most)
    }

    #[test]
    fn small_atoms_share_a_block_and_are_summed_apart() {
        let found = cut(&[2, 1, 0, 2], &[3, 0, 0, 5, 1], usize::MAX);
        let [block] = &found[..] else { panic!("{found:?}") };
        assert_eq!((block.rows.clone(), block.edges, block.pieces.len()), (0..5, 9, 4));
        let ends: Vec<_> = block.pieces.iter().map(|p| (p.rows.clone(), p.closes, p.part)).collect();
        let wanted = [
            (0..2, Some(0), None),
            (2..3, Some(1), Some(0)),
            (3..3, Some(0), None),
            (3..5, Some(1), Some(1)),
        ];
        assert_eq!(ends, wanted);
        let parts: Vec<_> = block.grid().parts().iter().map(Part::rows).collect();
        assert_eq!(parts, [0..3, 3..9]);
        assert_eq!(cut(&[2, 1, 0, 2], &[3, 0, 0, 5, 1], 3).len(), 2);
        // Without sums there is one part, with no rows.
        let empty = cut(&[1, 1], &[0, 0], usize::MAX);
        let grid = empty[0].grid();
        assert_eq!((grid.parts().len(), grid.rows()), (1, 0));
    }

    #[test]
    fn what_an_atom_is_cut_into_depends_on_it_alone() {
        let large = [1000, 1000, 1000, 5000, 7];
        let alone: Vec<Piece> = cut(&[5], &large, 1).into_iter().flat_map(|b| b.pieces).collect();
        let bounds = |pieces: &[Piece], from: usize| -> Vec<Range<usize>> {
            pieces.iter().map(|p| p.rows.start - from..p.rows.end - from).collect()
        };
        assert_eq!(bounds(&alone, 0), [0..2, 2..3, 3..4, 4..5]);
        let after = cut(&[1, 5, 1], &[&[30][..], &large, &[2]].concat(), usize::MAX);
        let edges: Vec<usize> = after.iter().map(|block| block.edges).collect();
        assert_eq!(edges, [30 + 2000, 1000, 5000, 7 + 2]);
        let pieces: Vec<Piece> = after.into_iter().flat_map(|b| b.pieces).collect();
        assert_eq!(bounds(&pieces[1..5], 1), bounds(&alone, 0));
    }
}

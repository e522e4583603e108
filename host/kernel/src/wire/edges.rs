//! Encoding and decoding of an edge kernel's call. Only the rows that edges refer to are sent, and
//! each of them once.

use std::sync::Arc;

use eciton_tensor::frame::{Encoding, Writer};
use eciton_tensor::{Buffer, Grid, Matrix, ReadRows};
use serde::{Deserialize, Serialize};

use super::encoder::{CALL, ids, refer};
use super::read::Reading;
use super::steps::CallRef;
use super::{MatrixRef, Numbers, Source, at, text, wire};
use crate::call::{EdgeCall, EdgeKind, EdgeLists, Kind, Operand, Write};
use crate::edges::{BLOCK_EDGES, gather};
use crate::error::Result;
use crate::state::RowNumbers;

const EDGES: &str = "request, edges";

/// Edge lists of an edge kernel's call. The call's inputs are the rows that have the lists, called
/// own rows, and its row numbers are the vertex ids of these rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EdgesRef {
    /// Function of the edge kernel that is called.
    #[serde(with = "text::edge_kind")]
    pub function: EdgeKind,
    /// Rows at the other ends of edges, each once. They are the argument `source`, or `passed` in
    /// `backward-sources`.
    pub other: MatrixRef,
    /// Location of the vertex ids of the rows in `other`.
    pub vertices: Source,
    /// Location of the offsets, which give the start of each own row's edges in `others`. The last
    /// offset is the number of edges.
    pub offsets: Source,
    /// Location of the list that gives, for each edge, the index in `other` of its other end.
    pub others: Source,
    /// Features of each edge, in list order. `None` if edges have no features.
    pub known: Option<MatrixRef>,
}

impl EdgesRef {
    /// Returns the vertex kernel function that has the same kinds of outputs.
    pub(super) fn kind(&self) -> Kind {
        match self.function {
            EdgeKind::Forward => Kind::Forward,
            EdgeKind::Targets | EdgeKind::Sources => Kind::Backward,
        }
    }

    /// Returns the locations of all tensors that the edge lists consist of.
    pub(super) fn sources(&self) -> impl Iterator<Item = Source> {
        let lists = [self.other.source, self.vertices, self.offsets, self.others];
        lists.into_iter().chain(self.known.as_ref().map(|known| known.source))
    }

    /// Checks that the other arguments of `call` are those of an edge kernel.
    pub(super) fn check(&self, call: &CallRef) -> Result<()> {
        let none = call.outputs.is_empty() && call.kept.is_empty() && call.gradients.is_empty();
        if call.kind != self.kind() || call.labelled.is_some() || !none {
            let kind = self.kind().name();
            let reason = format!(
                "a call on edges must be of the kind `{kind}`, and may have own rows, parameters and lists only"
            );
            return Err(wire(EDGES, reason));
        }
        Ok(())
    }
}

/// Edge lists that a worker decoded from a request.
#[derive(Debug)]
struct Listed {
    offsets: Arc<[u32]>,
    others: Arc<[u32]>,
    own: RowNumbers,
    vertices: Arc<[u32]>,
    known: Option<ReadRows>,
}

impl Listed {
    fn bounds(&self, own: usize) -> std::ops::Range<usize> {
        let at = |i: usize| self.offsets.get(i).map_or(0, |&offset| offset as usize);
        at(own)..at(own + 1)
    }
}

impl EdgeLists for Listed {
    fn others(&self, own: usize) -> &[u32] {
        self.others.get(self.bounds(own)).unwrap_or_default()
    }

    fn itself(&self, _: usize) -> Option<u32> {
        // A self-loop is among the listed edges.
        None
    }

    fn own_vertex(&self, own: usize) -> u32 {
        match &self.own {
            RowNumbers::From(first) => (*first as u32).wrapping_add(own as u32),
            RowNumbers::List(list) => list.get(own).map_or(0, |&vertex| vertex as u32),
        }
    }

    fn vertex(&self, row: u32) -> u32 {
        self.vertices.get(row as usize).copied().unwrap_or(row)
    }

    fn features(&self) -> usize {
        self.known.as_ref().map_or(0, |known| known.buffer().columns())
    }

    fn features_of(&self, own: usize, place: usize, into: &mut [f32]) {
        if let Some(known) = &self.known {
            into.copy_from_slice(known.view().row(self.bounds(own).start + place));
        }
    }
}

/// Edge lists of a call in compressed form. The rows at the other ends are numbered without gaps,
/// so that only these rows are sent.
struct Lists {
    /// Rows at the other ends of edges, in ascending order and without duplicates.
    rows: Vec<u32>,
    offsets: Vec<u32>,
    /// Index into `rows` of each edge's other end.
    others: Vec<u32>,
}

impl Lists {
    fn from_call(call: &EdgeCall<Operand, Write>) -> Result<Self> {
        let (lists, count) = (&*call.lists, call.grid.rows());
        let total = call.other.last().map_or(0, |(rows, _)| rows.end);
        let mut offsets = Vec::with_capacity(count + 1);
        let mut others = Vec::new();
        offsets.push(0);
        for own in 0..count {
            others.extend(lists.others(own).iter().chain(&lists.itself(own)));
            let end =
                u32::try_from(others.len()).map_err(|_| wire(CALL, "the lists have more than 2^32 edges"))?;
            offsets.push(end);
        }
        let mut place = vec![u32::MAX; total];
        for &other in &others {
            let place = place.get_mut(other as usize);
            *place.ok_or_else(|| {
                wire(CALL, format!("an edge names row {other}, but there are {total} rows"))
            })? = 0;
        }
        let mut rows = Vec::new();
        for (row, place) in (0u32..).zip(&mut place).filter(|(_, place)| **place == 0) {
            *place = rows.len() as u32;
            rows.push(row);
        }
        others.iter_mut().for_each(|other| *other = place[*other as usize]);
        Ok(Self { rows, offsets, others })
    }
}

/// Writes the edge lists of a call, and the rows at the other ends as f32. Returns the reference to
/// the lists and the vertex ids of the own rows.
pub(super) fn write(writer: &mut Writer<'_>, call: &EdgeCall<Operand, Write>) -> Result<(EdgesRef, Numbers)> {
    let lists = Lists::from_call(call)?;
    let columns = call.other.first().map_or(1, |(_, rows)| rows.buffer().columns());
    let chosen = Buffer::zeroed(lists.rows.len(), columns).map_err(at(CALL))?;
    let mut rows = chosen.write(0..lists.rows.len()).map_err(at(CALL))?;
    gather(&call.other, &lists.rows, &mut rows.view_mut()).map_err(at(CALL))?;
    let known = known(call, &lists)?;
    let vertices: Vec<u32> = lists.rows.iter().map(|&row| call.lists.vertex(row)).collect();

    let mut matrix = |matrix: &Matrix| refer(writer, matrix, Encoding::F32, None);
    let other = matrix(&rows.into_read().into())?;
    let known = known.as_ref().map(matrix).transpose()?;
    let own: Vec<u32> = (0..call.grid.rows()).map(|own| call.lists.own_vertex(own)).collect();
    let consecutive = own.windows(2).all(|pair| pair[0].checked_add(1) == Some(pair[1]));
    let row_numbers = match consecutive {
        true => Numbers::From(own.first().map_or(0, |&first| u64::from(first))),
        false => Numbers::List(ids(writer, own.iter().flat_map(|&vertex| [vertex, 0]).collect())?),
    };
    let edges = EdgesRef {
        function: call.kind,
        other,
        vertices: ids(writer, vertices)?,
        offsets: ids(writer, lists.offsets)?,
        others: ids(writer, lists.others)?,
        known,
    };
    Ok((edges, row_numbers))
}

/// Returns the features of all edges in list order, or `None` if the layer reads none.
fn known(call: &EdgeCall<Operand, Write>, lists: &Lists) -> Result<Option<Matrix>> {
    let features = call.lists.features();
    if features == 0 {
        return Ok(None);
    }
    let buffer = Buffer::zeroed(lists.others.len(), features).map_err(at(CALL))?;
    let mut rows = buffer.write(0..lists.others.len()).map_err(at(CALL))?;
    let mut view = rows.view_mut();
    for (own, bounds) in lists.offsets.windows(2).enumerate() {
        for (place, edge) in (bounds[0]..bounds[1]).enumerate() {
            call.lists.features_of(own, place, view.row_mut(edge as usize));
        }
    }
    Ok(Some(rows.into_read().into()))
}

impl Reading<'_> {
    /// Decodes a call of an edge kernel. The destinations of its rows and sums are left empty.
    pub(super) fn edge_call(
        &mut self,
        call: &CallRef,
        edges: &EdgesRef,
        grid: Arc<Grid>,
    ) -> Result<EdgeCall<Operand, Write>> {
        let (rows, limit) = (grid.rows(), self.limit);
        let own = self.operands("input", &call.inputs, rows)?;
        let parameters = self.parameters(&call.parameters)?;
        let tensors = &mut self.tensors;
        let other = dense("other", tensors.matrix("other", &edges.other, None, limit)?)?;
        let vertices = tensors.ids("vertices", edges.vertices)?;
        let offsets = tensors.ids("offsets", edges.offsets)?;
        let others = tensors.ids("others", edges.others)?;
        let known = match &edges.known {
            Some(known) => Some(dense("known", tensors.matrix("known", known, Some(others.len()), limit)?)?),
            None => None,
        };
        let ascend = offsets.windows(2).all(|pair| pair[0] <= pair[1]);
        let cover = offsets.first() == Some(&0) && offsets.last().map(|&o| o as usize) == Some(others.len());
        if offsets.len() != rows + 1 || !ascend || !cover {
            let found = format!("there are {} offsets for {} edges", offsets.len(), others.len());
            let allowed = format!("{} offsets that ascend from 0 to the number of edges", rows + 1);
            return Err(wire(EDGES, format!("{found}, but there must be {allowed}")));
        }
        let there = other.len();
        if vertices.len() != there || others.iter().any(|&other| other as usize >= there) {
            let found = format!("there are {} vertices for {there} rows of neighbours", vertices.len());
            let allowed = "the numbers must be equal, and each edge must name one of the rows";
            return Err(wire(EDGES, format!("{found}, but {allowed}")));
        }
        // The edges of one row are processed at once, with one row per edge.
        let longest = offsets.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
        let wide = other.buffer().columns() + known.as_ref().map_or(0, |known| known.buffer().columns());
        let asked = (wide as u64).saturating_mul(4 * u64::from(longest).max(BLOCK_EDGES as u64));
        if asked > limit {
            let reason = format!("limit matrix-bytes: {asked} bytes for a block of edges, {limit} allowed");
            return Err(wire(EDGES, reason));
        }
        let own_rows = tensors.numbers(call.row_numbers, rows)?;
        let lists = Listed { offsets, others, own: own_rows, vertices, known };
        Ok(EdgeCall {
            kind: edges.function,
            seed: call.seed,
            epoch: call.epoch,
            layer: call.layer,
            training: call.training,
            grid,
            lists: Arc::new(lists),
            other: vec![(0..there, other)],
            own,
            parameters,
            rows_out: Vec::new(),
            sums_out: Vec::new(),
        })
    }
}

/// Copies a matrix of dense rows into a buffer of its own. `what` names the matrix in errors.
fn dense(what: &str, matrix: Matrix) -> Result<ReadRows> {
    let Matrix::Dense(rows) = matrix else {
        return Err(wire(EDGES, format!("{what}: the rows are sparse, but an edge kernel reads dense rows")));
    };
    let held = rows.hold(None).map_err(at(EDGES))?;
    let view = held.view();
    let buffer = Buffer::zeroed(view.rows(), view.columns()).map_err(at(EDGES))?;
    let mut copy = buffer.write(0..view.rows()).map_err(at(EDGES))?;
    let mut to = copy.view_mut();
    (0..view.rows()).for_each(|row| to.row_mut(row).copy_from_slice(view.row(row)));
    Ok(copy.into_read())
}

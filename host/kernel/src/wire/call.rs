//! A request to a call, with buffers to write to.

use std::collections::HashMap;
use std::sync::Arc;

use eciton_tensor::frame::Decoded;
use eciton_tensor::{Buffer, Matrix};

use super::places::Sums;
use super::{LabelledRef, MatrixRef, Numbers, Places, Request, Source, TargetsRef, at, width, wire};
use crate::call::{AnyCall, Call, Labelled, RowNumbers, Target, Targets};
use crate::error::Result;

/// Tensors by where they lie, each made once: a request that names one a thousand times costs no more.
pub(super) struct Tensors<'a> {
    resolve: &'a mut dyn FnMut(&Source) -> Result<Decoded>,
    known: HashMap<Source, Decoded>,
}

impl<'a> Tensors<'a> {
    pub(super) fn new(resolve: &'a mut dyn FnMut(&Source) -> Result<Decoded>) -> Self {
        Self { resolve, known: HashMap::new() }
    }

    pub(super) fn get(&mut self, source: Source) -> Result<Decoded> {
        if let Some(known) = self.known.get(&source) {
            return Ok(known.clone());
        }
        let found = (self.resolve)(&source)?;
        self.known.insert(source, found.clone());
        Ok(found)
    }

    pub(super) fn ids(&mut self, what: &str, source: Source) -> Result<Arc<[u32]>> {
        match self.get(source)? {
            Decoded::Ids(ids) => Ok(ids),
            Decoded::Matrix(_) => Err(wire(what, format!("{source} is a matrix, not a list"))),
        }
    }

    /// Matrices of these rows (any, for parameters) and their references' extents.
    pub(super) fn matrices(
        &mut self,
        what: &str,
        refs: &[MatrixRef],
        rows: Option<usize>,
        limit: u64,
    ) -> Result<Vec<Matrix>> {
        let one = |(i, wanted)| self.matrix(&format!("{what} {i}"), wanted, rows, limit);
        refs.iter().enumerate().map(one).collect()
    }

    pub(super) fn matrix(
        &mut self,
        what: &str,
        wanted: &MatrixRef,
        rows: Option<usize>,
        limit: u64,
    ) -> Result<Matrix> {
        let Decoded::Matrix(found) = self.get(wanted.source)? else {
            return Err(wire(what, format!("{} is a list, not a matrix", wanted.source)));
        };
        if let Some(rows) = rows.filter(|&r| r != found.rows()) {
            let reason = format!("{} has {} rows, the interval {rows}", wanted.source, found.rows());
            return Err(wire(what, reason));
        }
        if let Matrix::Sparse(sparse) = &found {
            // Its transpose needs a few words a column, stored values or not.
            let asked = sparse.data.columns() as u64 * TRANSPOSE_BYTES;
            if asked > limit {
                let reason = format!("limit matrix-bytes: {asked} bytes for its columns, {limit} allowed");
                return Err(wire(what, reason));
            }
        }
        found.with_extents(&wanted.extents).map_err(at(what))
    }

    pub(super) fn numbers(&mut self, wanted: Numbers, rows: usize) -> Result<RowNumbers> {
        match wanted {
            Numbers::From(first) => match first.checked_add(rows as u64) {
                Some(_) => Ok(RowNumbers::From(first)),
                None => Err(wire("row numbers", format!("{rows} rows from {first} are past 2^64"))),
            },
            Numbers::List(source) => {
                let halves = self.ids("row numbers", source)?;
                if halves.len() as u64 != 2 * rows as u64 {
                    let reason = format!("{} halves of numbers for {rows} rows", halves.len());
                    return Err(wire("row numbers", reason));
                }
                let whole = |pair: &[u32; 2]| u64::from(pair[1]) << 32 | u64::from(pair[0]);
                Ok(RowNumbers::List(halves.as_chunks::<2>().0.iter().map(whole).collect()))
            }
        }
    }

    pub(super) fn labelled(&mut self, wanted: &LabelledRef, count: usize, limit: u64) -> Result<Labelled> {
        let targets = match &wanted.targets {
            TargetsRef::Classes(source) => Targets::Classes(self.ids("targets", *source)?),
            TargetsRef::Values(values) => {
                Targets::Values(self.matrix("targets", values, Some(count), limit)?)
            }
        };
        let rows = self.ids("labelled rows", wanted.rows)?;
        let ascending = rows.windows(2).all(|p| p[0] < p[1]);
        let within = rows.last().is_none_or(|&last| (last as usize) < count);
        if targets.rows() != count || !ascending || !within {
            let reason = format!(
                "targets of {} rows and {} labelled rows for {count} rows; targets of all rows are needed, and \
                 labelled rows that ascend below {count}",
                targets.rows(),
                rows.len()
            );
            return Err(wire("targets", reason));
        }
        let weights = wanted.row_weights.as_ref();
        let row_weights =
            weights.map(|weights| self.matrix("row weights", weights, Some(count), limit)).transpose()?;
        Ok(Labelled { targets, rows, weight: wanted.weight, row_weights })
    }
}

/// What a transpose of sparse rows holds for each column while it is made.
const TRANSPOSE_BYTES: u64 = 64;

impl Request {
    /// The call, of rows or of edges, and the places it writes to. `resolve` finds each tensor, and is asked once for each;
    /// what it gives is checked against the request. Rows of a matrix may still be arriving.
    ///
    /// # Errors
    /// [`Error::Wire`](crate::Error::Wire) for a request that contradicts itself or its tensors, or
    /// would write more than its limit `matrix_bytes`; what `resolve` answers.
    pub fn into_call(self, resolve: &mut dyn FnMut(&Source) -> Result<Decoded>) -> Result<(AnyCall, Places)> {
        self.check()?;
        if self.span.is_some() {
            return Err(wire("request", "several calls where one is run"));
        }
        let mut tensors = Tensors::new(resolve);
        if let Some(edges) = self.edges.clone() {
            let (call, places) = self.edge_call(&edges, &mut tensors)?;
            return Ok((AnyCall::Edges(Box::new(call)), places));
        }
        let grid = self.grid()?;
        let (rows, limit) = (grid.rows(), self.limits.matrix_bytes);
        let inputs = tensors.matrices("input", &self.inputs, Some(rows), limit)?;
        let outputs = tensors.matrices("output", &self.outputs, Some(rows), limit)?;
        let kept = tensors.matrices("kept", &self.kept, Some(rows), limit)?;
        let gradients = tensors.matrices("gradient", &self.gradients, Some(rows), limit)?;
        let parameters = tensors.matrices("parameter", &self.parameters, None, limit)?;
        let row_numbers = tensors.numbers(self.row_numbers, rows)?;
        let labelled = self.labelled.as_ref().map(|l| tensors.labelled(l, rows, limit)).transpose()?;
        // Checked against the limit, and allocated only for a request that is right otherwise.
        let places = self.places(rows)?;
        let (rows_out, sums_out) = places.targets()?;
        let call = Call {
            kind: self.kind,
            seed: self.seed,
            epoch: self.epoch,
            layer: self.layer,
            training: self.training,
            grid: Arc::new(grid),
            row_numbers,
            inputs,
            outputs,
            kept,
            parameters,
            gradients,
            output_count: self.output_count as usize,
            rows_out,
            sums_out,
            labelled,
        };
        Ok((AnyCall::Rows(Box::new(call)), places))
    }

    pub(super) fn places(&self, rows: usize) -> Result<Places> {
        let rows_out = self.rows_out.iter().map(|extents| {
            let place = |e: &Vec<u32>| Ok((buffer(rows, e)?, e.clone()));
            extents.as_ref().map(place).transpose()
        });
        Ok(Places {
            rows: rows_out.collect::<Result<_>>()?,
            sums: self.sums()?,
            kept: Vec::new(),
            freed: Vec::new(),
            held: Vec::new(),
        })
    }

    /// Places for sums.
    pub(super) fn sums(&self) -> Result<Vec<Sums>> {
        let sums = self.sums_out.iter().map(|shape| {
            let (&first, rest) =
                shape.split_first().ok_or_else(|| wire("sums", "a shape without extents"))?;
            let parts = self.grid.iter().map(|_| buffer(first as usize, rest));
            Ok(Sums { parts: parts.collect::<Result<_>>()?, shape: shape.clone() })
        });
        sums.collect()
    }
}

fn buffer(rows: usize, extents: &[u32]) -> Result<Buffer> {
    Buffer::zeroed(rows, width(extents).unwrap_or(0) as usize).map_err(at("places to write"))
}

impl Sums {
    pub(super) fn target(&self) -> Target {
        Target::Sums { parts: self.parts.clone(), shape: self.shape.clone() }
    }
}

impl Places {
    /// The places as a call's targets.
    pub(super) fn targets(&self) -> Result<(Vec<Option<Target>>, Vec<Target>)> {
        let rows = self.rows.iter().map(|place| {
            let target = |(buffer, extents): &(Buffer, Vec<u32>)| {
                let rows = buffer.write(0..buffer.rows()).map_err(at("places to write"))?;
                Ok(Target::Rows { rows, extents: extents.clone() })
            };
            place.as_ref().map(target).transpose()
        });
        Ok((rows.collect::<Result<_>>()?, self.sums.iter().map(Sums::target).collect()))
    }
}

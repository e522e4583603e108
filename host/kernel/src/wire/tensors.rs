//! Cache of a request's tensors by their location.

use std::collections::HashMap;
use std::sync::Arc;

use eciton_tensor::Matrix;
use eciton_tensor::frame::Decoded;

use super::{LabelledRef, MatrixRef, Numbers, Source, TargetsRef, at, wire};
use crate::call::{Labelled, Targets};
use crate::error::Result;
use crate::state::RowNumbers;

/// Tensors of a request by their location. Each tensor is loaded once, even if a request refers to
/// it a thousand times.
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

    /// Returns the matrices that `refs` refer to, with the extents of the references. Each must
    /// have `rows` rows, or any number if `rows` is `None`.
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
            let reason = format!("{} has {} rows, but the interval has {rows}", wanted.source, found.rows());
            return Err(wire(what, reason));
        }
        if let Matrix::Sparse(sparse) = &found {
            // The transpose needs a few words per column, even without stored values.
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
                None => Err(wire("row numbers", format!("{rows} rows from row {first} on exceed 2^64"))),
            },
            Numbers::List(source) => {
                let halves = self.ids("row numbers", source)?;
                if halves.len() as u64 != 2 * rows as u64 {
                    let reason = format!(
                        "it has {} halves of row numbers for {rows} rows, but each row has two",
                        halves.len()
                    );
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
                "there are targets for {} rows and {} labelled rows, but all {count} rows must have targets, and \
                 labelled rows must ascend below {count}",
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

/// Memory per column that the transpose of a sparse matrix uses temporarily, in bytes.
const TRANSPOSE_BYTES: u64 = 64;

//! Output buffers of a call on a worker, from which the answer is encoded.

use std::time::Instant;

use eciton_tensor::frame::{Encoding, Writer};
use eciton_tensor::{Buffer, Matrix, ReadRows};
use eciton_types::{Location, ParameterId, TensorKey};
use sha2::{Digest, Sha256};

use super::answer::AnswerMeta;
use super::{Outcome, at, encode_failure, wire};
use crate::error::Result;

/// Buffers of a sum over rows, one per part of the grid.
pub(super) type Sums = Vec<Buffer>;

/// Rows that a worker stores after a call, or sends to other workers.
#[derive(Debug, Clone)]
pub struct RowsToStore {
    /// Key under which later calls read the rows.
    pub key: TensorKey,
    /// Workers to which the rows are sent. If the list is empty, this worker stores them.
    pub to: Vec<Location>,
    /// Values of the rows.
    pub rows: Matrix,
}
/// Gradient sum that the worker stores. It consists of the parameter's id and one buffer per part
/// of the grid.
pub type HeldSums = (ParameterId, Vec<Buffer>);

/// Output buffers of a call on the worker that executes it.
#[derive(Debug)]
pub struct OutputBuffers {
    pub(super) rows: Vec<Buffer>,
    pub(super) sums: Vec<Sums>,
    /// Rows to store or send, each with its key, its destination workers and its buffer.
    pub(super) kept: Vec<(TensorKey, Vec<Location>, Buffer)>,
    /// Keys of stored rows that can be deleted, because no later call reads them.
    pub(super) freed: Vec<TensorKey>,
    /// Sums that the worker stores, as pairs of index in `sums` and parameter. The indices ascend.
    pub(super) held: Vec<(usize, ParameterId)>,
    /// True if the answer must contain digests of the rows that the worker stores.
    pub(super) digests: bool,
}

impl OutputBuffers {
    /// Returns a digest of each slot's stored rows, if the request asks for digests. A digest is
    /// the SHA-256 of the values as little-endian f32, row by row.
    ///
    /// # Errors
    /// Returns [`Error::Wire`](crate::Error::Wire) if a call still writes the rows.
    pub fn digests(&self) -> Result<Vec<String>> {
        let mut digests = Vec::new();
        for (_, _, buffer) in self.kept.iter().filter(|_| self.digests) {
            let lease = buffer.read(0..buffer.rows()).map_err(at("rows to cache"))?;
            let mut digest = Sha256::new();
            for row in 0..buffer.rows() {
                lease.view().row(row).iter().for_each(|value| digest.update(value.to_le_bytes()));
            }
            digests.push(digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect());
        }
        Ok(digests)
    }

    /// Removes and returns the rows to store or send, and the keys of stored rows to delete.
    ///
    /// # Errors
    /// Returns [`Error::Wire`](crate::Error::Wire) if a call still writes the rows.
    pub fn take_rows_to_store(&mut self) -> Result<(Vec<RowsToStore>, Vec<TensorKey>)> {
        let read = |(key, to, buffer): (TensorKey, Vec<Location>, Buffer)| {
            let rows = buffer.read(0..buffer.rows()).map_err(at("rows to cache"))?.into();
            Ok(RowsToStore { key, to, rows })
        };
        let kept = std::mem::take(&mut self.kept).into_iter().map(read).collect::<Result<_>>()?;
        Ok((kept, std::mem::take(&mut self.freed)))
    }

    /// Removes and returns the sums that the worker stores. The remaining sums are sent with the
    /// answer.
    pub fn take_held(&mut self) -> Vec<HeldSums> {
        let mut held = Vec::with_capacity(self.held.len());
        // Sums are removed from the last to the first, so that earlier indices stay valid.
        for (at, of) in std::mem::take(&mut self.held).into_iter().rev() {
            if at < self.sums.len() {
                held.push((of, self.sums.remove(at)));
            }
        }
        held.reverse();
        held
    }

    /// Returns the total size of the output buffers, in bytes.
    pub fn bytes(&self) -> u64 {
        let rows = self.rows.iter().map(|buffer| buffer.bytes() as u64);
        let kept = self.kept.iter().map(|(_, _, buffer)| buffer.bytes() as u64);
        rows.chain(self.sums.iter().flatten().map(|b| b.bytes() as u64)).chain(kept).sum()
    }

    /// Encodes the answer. Its parts are the requested rows in the encoding `encoding`, followed by
    /// the sums as f32, buffer by buffer. The encoding time is written to `times.encode_us`. The
    /// answer of a failed call has no parts.
    ///
    /// # Errors
    /// Returns [`Error::Wire`](crate::Error::Wire) if a limit of frames is exceeded, or if a call
    /// still writes.
    pub fn encode(self, meta: &AnswerMeta, encoding: Encoding) -> Result<Vec<u8>> {
        if meta.outcome != Outcome::Done {
            return encode_failure(meta);
        }
        if let Some((key, _, _)) = self.kept.first() {
            return Err(wire(
                "answer",
                format!("the rows {key} must be stored, but this process stores no rows"),
            ));
        }
        if let Some((_, of)) = self.held.first() {
            return Err(wire(
                "answer",
                format!("a sum of parameter {of} must be stored, but this process stores no sums"),
            ));
        }
        let begun = Instant::now();
        let lease = |b: &Buffer| b.read(0..b.rows()).map_err(at("answer"));
        let rows = self.rows.iter().map(lease).collect::<Result<Vec<_>>>()?;
        let sums = self.sums.iter().map(|parts| parts.iter().map(lease).collect::<Result<Vec<_>>>());
        let sums = sums.collect::<Result<Vec<Vec<ReadRows>>>>()?;
        let mut writer = Writer::new(Vec::new());
        for lease in &rows {
            writer.view(lease.view(), encoding).map_err(at("answer"))?;
        }
        for parts in &sums {
            let views = parts.iter().map(ReadRows::view).collect();
            writer.views(views, Encoding::F32).map_err(at("answer"))?;
        }
        let mut meta = meta.bounded();
        meta.times.encode_us = u64::MAX;
        let room = meta.to_json()?.len();
        let finished = writer.finish_late(room, || {
            meta.times.encode_us = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
            meta.to_json().unwrap_or_default()
        });
        finished.map_err(at("answer"))
    }
}

//! Buffers that a worker writes to, and the answer that is encoded from them.

use std::time::Instant;

use eciton_tensor::frame::{Encoding, Writer};
use eciton_tensor::{Buffer, Matrix, ReadRows};
use eciton_types::{Location, ParameterId, TensorKey};
use sha2::{Digest, Sha256};

use super::answer::AnswerMeta;
use super::{Outcome, at, encode_failure, wire};
use crate::error::Result;

/// One sum: a buffer for each part of the grid.
pub(super) type Sums = Vec<Buffer>;

/// Rows that stay with the worker, or go to others.
#[derive(Debug, Clone)]
pub struct KeptRows {
    /// Their address.
    pub key: TensorKey,
    /// Workers that they go to. If empty, they stay.
    pub to: Vec<Location>,
    /// The rows.
    pub rows: Matrix,
}
/// A sum that stays with the worker: the use of a parameter whose gradient it is, and a part for
/// each of the grid.
pub type HeldSums = (ParameterId, Vec<Buffer>);

/// The buffers that a call writes to, on the worker's side.
#[derive(Debug)]
pub struct Places {
    pub(super) rows: Vec<Buffer>,
    pub(super) sums: Vec<Sums>,
    /// Rows that stay or go to other workers: addresses, these, rows.
    pub(super) kept: Vec<(TensorKey, Vec<Location>, Buffer)>,
    /// Rows that no later task reads.
    pub(super) freed: Vec<TensorKey>,
    /// Sums that stay with the worker: indices in `sums`, ascending, and uses.
    pub(super) held: Vec<(usize, ParameterId)>,
    /// True if the answer has a digest of the rows that stay.
    pub(super) digests: bool,
}

impl Places {
    /// Returns the digest of each slot's rows that stay, if they were asked for: SHA-256 of their values
    /// as little-endian f32, row by row.
    ///
    /// # Errors
    /// [`Error::Wire`](crate::Error::Wire) while a call still writes.
    pub fn digests(&self) -> Result<Vec<String>> {
        let mut digests = Vec::new();
        for (_, _, buffer) in self.kept.iter().filter(|_| self.digests) {
            let lease = buffer.read(0..buffer.rows()).map_err(at("rows to keep"))?;
            let mut digest = Sha256::new();
            for row in 0..buffer.rows() {
                lease.view().row(row).iter().for_each(|value| digest.update(value.to_le_bytes()));
            }
            digests.push(digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect());
        }
        Ok(digests)
    }

    /// Takes the rows that stay with the worker or go to others, and the keys of those that no later
    /// task reads.
    ///
    /// # Errors
    /// [`Error::Wire`](crate::Error::Wire) while a call still writes.
    pub fn take_kept(&mut self) -> Result<(Vec<KeptRows>, Vec<TensorKey>)> {
        let read = |(key, to, buffer): (TensorKey, Vec<Location>, Buffer)| {
            let rows = buffer.read(0..buffer.rows()).map_err(at("rows to keep"))?.into();
            Ok(KeptRows { key, to, rows })
        };
        let kept = std::mem::take(&mut self.kept).into_iter().map(read).collect::<Result<_>>()?;
        Ok((kept, std::mem::take(&mut self.freed)))
    }

    /// Takes the sums that stay with the worker. The answer has the others.
    pub fn take_held(&mut self) -> Vec<HeldSums> {
        let mut held = Vec::with_capacity(self.held.len());
        // From the last on, so that places before it stay.
        for (at, of) in std::mem::take(&mut self.held).into_iter().rev() {
            if at < self.sums.len() {
                held.push((of, self.sums.remove(at)));
            }
        }
        held.reverse();
        held
    }

    /// Bytes allocated.
    pub fn bytes(&self) -> u64 {
        let rows = self.rows.iter().map(|buffer| buffer.bytes() as u64);
        let kept = self.kept.iter().map(|(_, _, buffer)| buffer.bytes() as u64);
        rows.chain(self.sums.iter().flatten().map(|b| b.bytes() as u64)).chain(kept).sum()
    }

    /// The answer: its frame's parts are the rows that were wanted, with `encoding`, then the sums as
    /// f32, the parts of each one after the other. The time that it takes to write it goes into
    /// `times.encode_us`. After a failure there are no parts.
    ///
    /// # Errors
    /// [`Error::Wire`](crate::Error::Wire) past a limit of frames, or while a call still writes.
    pub fn encode(self, meta: &AnswerMeta, encoding: Encoding) -> Result<Vec<u8>> {
        if meta.outcome != Outcome::Done {
            return encode_failure(meta);
        }
        if let Some((key, _, _)) = self.kept.first() {
            return Err(wire("answer", format!("{key} are to stay, and nobody here keeps any")));
        }
        if let Some((_, of)) = self.held.first() {
            return Err(wire("answer", format!("a sum of weight {of} is to stay, and nobody here has any")));
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

//! What a worker writes to, and the answer made from it.

use std::time::Instant;

use eciton_tensor::frame::{Encoding, Writer};
use eciton_tensor::{Buffer, Matrix, ReadRows};

use super::answer::AnswerMeta;
use super::{Outcome, at, encode_failure, wire};
use crate::error::Result;

/// One sum: a buffer for each part of the grid.
#[derive(Debug)]
pub(super) struct Sums {
    pub(super) parts: Vec<Buffer>,
    pub(super) shape: Vec<u32>,
}

/// Rows that stay with the worker, or go to others.
#[derive(Debug, Clone)]
pub struct KeptRows {
    /// Their name.
    pub name: String,
    /// Places that they go to; none: they stay.
    pub to: Vec<u32>,
    /// The rows.
    pub rows: Matrix,
}
/// A sum that stays with the worker, a part for each of the grid, and its name.
pub type HeldSums = (String, Vec<Buffer>);

/// The buffers that a call writes to, on the worker's side.
#[derive(Debug)]
pub struct Places {
    /// With the extents of one row.
    pub(super) rows: Vec<Option<(Buffer, Vec<u32>)>>,
    pub(super) sums: Vec<Sums>,
    /// Rows that stay or go to other workers: names, these, rows.
    pub(super) kept: Vec<(String, Vec<u32>, Buffer)>,
    /// Names of rows that need not stay any longer.
    pub(super) freed: Vec<String>,
    /// Sums that the worker adds to what it owns: places in `sums`, ascending, and names.
    pub(super) held: Vec<(usize, String)>,
}

impl Places {
    /// Takes the rows that stay with the worker, by name, and the names of those that need not any longer.
    ///
    /// # Errors
    /// [`Error::Wire`](crate::Error::Wire) while a call still writes.
    pub fn take_kept(&mut self) -> Result<(Vec<KeptRows>, Vec<String>)> {
        let read = |(name, to, buffer): (String, Vec<u32>, Buffer)| {
            let rows = buffer.read(0..buffer.rows()).map_err(at("rows to keep"))?.into();
            Ok(KeptRows { name, to, rows })
        };
        let kept = std::mem::take(&mut self.kept).into_iter().map(read).collect::<Result<_>>()?;
        Ok((kept, std::mem::take(&mut self.freed)))
    }

    /// Takes the sums that the worker adds to what it owns, by name. The answer has the others.
    pub fn take_held(&mut self) -> Vec<HeldSums> {
        let mut held = Vec::with_capacity(self.held.len());
        // From the last on, so that places before it stay.
        for (at, name) in std::mem::take(&mut self.held).into_iter().rev() {
            if at < self.sums.len() {
                held.push((name, self.sums.remove(at).parts));
            }
        }
        held.reverse();
        held
    }

    /// Bytes allocated.
    pub fn bytes(&self) -> u64 {
        let rows = self.rows.iter().flatten().map(|(buffer, _)| buffer.bytes() as u64);
        let kept = self.kept.iter().map(|(_, _, buffer)| buffer.bytes() as u64);
        rows.chain(self.sums.iter().flat_map(|s| &s.parts).map(|b| b.bytes() as u64)).chain(kept).sum()
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
        if let Some((name, _, _)) = self.kept.first() {
            return Err(wire("answer", format!("rows `{name}` are to stay, and nobody here keeps any")));
        }
        if let Some((_, name)) = self.held.first() {
            return Err(wire("answer", format!("sum `{name}` is to stay, and nobody here owns any")));
        }
        let begun = Instant::now();
        let lease = |b: &Buffer| b.read(0..b.rows()).map_err(at("answer"));
        let rows = self.rows.iter().flatten().map(|(b, _)| lease(b)).collect::<Result<Vec<_>>>()?;
        let sums = self.sums.iter().map(|s| s.parts.iter().map(lease).collect::<Result<Vec<_>>>());
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

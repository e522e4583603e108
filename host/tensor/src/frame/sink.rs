//! Dense rows on their way into a stream, as their bytes arrive.

use super::convert::coded_to_values;
use super::{Encoding, Kind, PartInfo, check_crc, damaged, malformed};
use crate::error::{Error, Result};
use crate::stream::{self, Arriving, Sender};

/// Bytes after which complete rows are passed on: enough that a matrix is a few hundred blocks.
const PASS_BYTES: usize = 256 << 10;

/// Takes a part's bytes in order, in any cut, and passes rows on to those who wait for them.
///
/// The last rows are held back until the CRC of all is known to be right. So a reader of changed
/// bytes may have begun with them, but always sees a failure before it can end.
#[derive(Debug)]
pub struct RowSink {
    part: PartInfo,
    encoding: Encoding,
    width: usize,
    /// None after a failure.
    sender: Option<Sender>,
    crc: crc32fast::Hasher,
    received: u64,
    pending: Vec<u8>,
    values: Vec<f32>,
}

impl RowSink {
    /// A sink for all bytes of `part`, whose rows the stream must have.
    ///
    /// # Errors
    /// [`Error::Frame`] if the part is not of dense rows, or contradicts itself.
    pub fn new(part: &PartInfo, sender: Sender) -> Result<Self> {
        part.check(|| "part".to_owned())?;
        let Kind::Rows(encoding) = part.kind else {
            return Err(malformed("part", format!("dense rows are wanted, {:?} were found", part.kind)));
        };
        Ok(Self {
            width: encoding.row_bytes(part.columns as usize),
            part: part.clone(),
            encoding,
            sender: Some(sender),
            crc: crc32fast::Hasher::new(),
            received: 0,
            pending: Vec::new(),
            values: Vec::new(),
        })
    }

    /// A stream of the part's size and its sink. It allocates what the part claims: the caller has
    /// compared the frame's claimed length with that of the object.
    ///
    /// # Errors
    /// As [`RowSink::new`].
    pub fn channel(part: &PartInfo) -> Result<(Self, Arriving)> {
        part.check(|| "part".to_owned())?;
        let (sender, arriving) = stream::channel(part.rows as usize, part.columns as usize)?;
        Ok((Self::new(part, sender)?, arriving))
    }

    /// Takes the next bytes.
    ///
    /// # Errors
    /// [`Error::Damaged`] for more than the part has; readers see the failure, and so does every
    /// later call.
    pub fn push(&mut self, bytes: &[u8]) -> Result<()> {
        let result = self.take(bytes);
        self.settle(result)
    }

    /// The bytes are all there: checks them and passes on what was held back.
    ///
    /// # Errors
    /// [`Error::Damaged`] if they are not all there or are not what the part's CRC says.
    pub fn finish(mut self) -> Result<()> {
        let result = self.check_all().and_then(|()| self.pass(self.pending.len()));
        self.settle(result)
    }

    /// Tells readers that the rest will not come, and why.
    pub fn fail(mut self, why: &str) {
        if let Some(sender) = self.sender.take() {
            sender.fail(why);
        }
    }

    fn settle(&mut self, result: Result<()>) -> Result<()> {
        if let Err(e) = &result
            && let Some(sender) = self.sender.take()
        {
            sender.fail(&e.to_string());
        }
        result
    }

    fn take(&mut self, bytes: &[u8]) -> Result<()> {
        let received = self.received.saturating_add(bytes.len() as u64);
        if self.sender.is_none() {
            return Err(damaged("part", "it failed before"));
        }
        if received > self.part.bytes_len {
            return Err(damaged("part", format!("{received} bytes of {}", self.part.bytes_len)));
        }
        self.received = received;
        self.crc.update(bytes);
        self.pending.extend_from_slice(bytes);
        if self.pending.len() >= PASS_BYTES.max(self.width) && received < self.part.bytes_len {
            // Before the part's last byte at least one row is incomplete or not there yet.
            self.pass(self.pending.len() / self.width * self.width)?;
        }
        Ok(())
    }

    fn check_all(&self) -> Result<()> {
        if self.received != self.part.bytes_len {
            return Err(damaged("part", format!("{} bytes of {}", self.received, self.part.bytes_len)));
        }
        check_crc(|| "part".to_owned(), self.part.crc32, self.crc.clone().finalize())
    }

    /// Passes the first `len` pending bytes on, which are whole rows.
    fn pass(&mut self, len: usize) -> Result<()> {
        let Some(sender) = &mut self.sender else { return Err(damaged("part", "it failed before")) };
        let rows = self.pending.get(..len).unwrap_or_default();
        let columns = self.part.columns as usize;
        self.values.resize(len.checked_div(self.width).unwrap_or(0) * columns, 0.0);
        coded_to_values(self.encoding, rows, columns, &mut self.values);
        sender.send(&self.values)?;
        self.pending.drain(..len);
        Ok(())
    }
}

impl Drop for RowSink {
    fn drop(&mut self) {
        if let Some(sender) = self.sender.take()
            && self.received < self.part.bytes_len
        {
            let e: Error = damaged("part", format!("{} bytes of {}", self.received, self.part.bytes_len));
            sender.fail(&e.to_string());
        }
    }
}

//! Decoder that sends the dense rows of a frame to a stream while their bytes arrive.

use super::convert::coded_to_values;
use super::{Encoding, Kind, PartInfo, check_crc, damaged, malformed};
use crate::error::{Error, Result};
use crate::stream::{self, Arriving, Sender};

/// Number of bytes after which complete rows are sent to the readers. A large matrix is sent in a
/// few hundred blocks.
const PASS_BYTES: usize = 256 << 10;

/// Decoder of a part whose bytes arrive in order, in pieces of any length. It sends complete rows
/// to the readers, which may be waiting for them.
///
/// The last rows are held back until the checksum of all rows has been verified. If bytes were
/// changed, a reader may have seen the first rows, but it gets an error before it can finish.
#[derive(Debug)]
pub struct RowSink {
    part: PartInfo,
    encoding: Encoding,
    width: usize,
    /// Sending end of the stream. It is `None` after a failure.
    sender: Option<Sender>,
    crc: crc32fast::Hasher,
    received: u64,
    pending: Vec<u8>,
    values: Vec<f32>,
}

impl RowSink {
    /// Creates a decoder for all bytes of `part`. The stream of `sender` must have the same number
    /// of rows and columns as the part.
    ///
    /// # Errors
    /// Returns [`Error::Frame`] if the part has no dense rows, or its table entry is inconsistent.
    pub fn new(part: &PartInfo, sender: Sender) -> Result<Self> {
        part.check(|| "part".to_owned())?;
        let Kind::Rows(encoding) = part.kind else {
            return Err(malformed("part", format!("found {:?}, expected dense rows", part.kind)));
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

    /// Creates a stream for the rows of `part`, and the decoder that fills it. Memory is allocated
    /// for the size that the part claims. So the caller must first compare the frame's claimed
    /// length with the length of the object.
    ///
    /// # Errors
    /// Returns the errors of [`RowSink::new`].
    pub fn channel(part: &PartInfo) -> Result<(Self, Arriving)> {
        part.check(|| "part".to_owned())?;
        let (sender, arriving) = stream::channel(part.rows as usize, part.columns as usize)?;
        Ok((Self::new(part, sender)?, arriving))
    }

    /// Decodes the next bytes of the part, and sends the rows that are complete.
    ///
    /// # Errors
    /// Returns [`Error::Damaged`] if there are more bytes than the part has. The readers and all
    /// later calls get the same error.
    pub fn push(&mut self, bytes: &[u8]) -> Result<()> {
        let result = self.take(bytes);
        self.settle(result)
    }

    /// Verifies the checksum after the last byte, and sends the rows that were held back.
    ///
    /// # Errors
    /// Returns [`Error::Damaged`] if bytes are missing or the checksum differs.
    pub fn finish(mut self) -> Result<()> {
        let result = self.check_all().and_then(|()| self.pass(self.pending.len()));
        self.settle(result)
    }

    /// Reports to the readers that no more rows will arrive. `why` is the reason for their error.
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
            return Err(damaged("part", "it has already failed"));
        }
        if received > self.part.bytes_len {
            return Err(damaged("part", format!("found {received} of {} bytes", self.part.bytes_len)));
        }
        self.received = received;
        self.crc.update(bytes);
        self.pending.extend_from_slice(bytes);
        if self.pending.len() >= PASS_BYTES.max(self.width) && received < self.part.bytes_len {
            // Before the part's last byte, at least one row is incomplete.
            self.pass(self.pending.len() / self.width * self.width)?;
        }
        Ok(())
    }

    fn check_all(&self) -> Result<()> {
        if self.received != self.part.bytes_len {
            return Err(damaged("part", format!("found {} of {} bytes", self.received, self.part.bytes_len)));
        }
        check_crc(|| "part".to_owned(), self.part.crc32, self.crc.clone().finalize())
    }

    /// Sends the first `len` pending bytes, which are complete rows, to the readers.
    fn pass(&mut self, len: usize) -> Result<()> {
        let Some(sender) = &mut self.sender else { return Err(damaged("part", "it has already failed")) };
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
            let e: Error =
                damaged("part", format!("found {} of {} bytes", self.received, self.part.bytes_len));
            sender.fail(&e.to_string());
        }
    }
}

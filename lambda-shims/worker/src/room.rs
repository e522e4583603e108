//! Memory limit for the frames of an invocation.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use eciton_tensor::frame::{Header, padded_bytes};

use crate::error::{Error, Result};

/// Remaining memory for the frames of an invocation, in bytes. All clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Room {
    left: Arc<AtomicU64>,
    allowed: u64,
}

impl Room {
    pub(crate) fn new(allowed: u64) -> Self {
        Self { left: Arc::new(AtomicU64::new(allowed)), allowed }
    }

    /// Reserves memory for the decoded tensors of a frame. The header tells their size before
    /// anything is allocated.
    ///
    /// # Errors
    /// Returns [`Error::Limit`] if too little memory is left.
    pub(crate) fn take(&self, header: &Header) -> Result<()> {
        // Rows are padded. Lists and sparse rows take at most twice their encoded size.
        let part = |p: &eciton_tensor::frame::PartInfo| match p.row_bytes() {
            Some(_) => padded_bytes(p.rows, u64::from(p.columns)).unwrap_or(u64::MAX),
            None => p.bytes_len.saturating_mul(2),
        };
        let bytes = header.parts.iter().map(part).fold(0, u64::saturating_add);
        let taken =
            self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes));
        taken.map(|_| ()).map_err(|left| Error::Limit {
            limit: "memory of the function in bytes",
            found: (self.allowed - left).saturating_add(bytes),
            allowed: self.allowed,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use eciton_tensor::View;
    use eciton_tensor::frame::{Encoding, Writer};

    #[test]
    fn frames_share_one_room() {
        let mut writer = Writer::new(Vec::new());
        writer.view(View::new(&[1.0; 64], 4, 16), Encoding::Bf16).unwrap();
        let header = Header::parse(&writer.finish().unwrap()).unwrap();
        let room = Room::new(2 * 256);
        room.take(&header).unwrap();
        room.clone().take(&header).unwrap();
        let over = room.take(&header);
        assert!(matches!(over, Err(Error::Limit { found: 768, allowed: 512, .. })), "{over:?}");
    }
}

//! Sizes and checksums of the frames that a worker sends and receives.

use eciton_tensor::frame::{Frame, Header, Kind};

/// Returns the bytes of the matrices in a frame, without lists of indices. Returns 0 for a damaged
/// frame.
pub(super) fn values(frame: &[u8]) -> u64 {
    let Ok(header) = Header::parse(frame) else { return 0 };
    header.parts.iter().filter(|part| part.kind != Kind::Ids).map(|part| part.bytes_len).sum()
}

/// Verifies the checksums of all parts of a frame.
pub(super) fn whole(frame: &[u8]) -> eciton_tensor::Result<()> {
    let read = Frame::parse(frame)?;
    (0..).zip(&read.header().parts).try_for_each(|(at, part)| part.verify(read.bytes(at)?))
}

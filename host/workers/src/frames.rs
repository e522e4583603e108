//! Sizes and checksums of frames (the binary messages for tasks and answers).

use eciton_tensor::frame::{Frame, Header, Kind};

/// Returns the total size of the matrices in a frame, in bytes. Lists of indices do not count.
/// Returns 0 if the frame is damaged.
pub(super) fn values(frame: &[u8]) -> u64 {
    let Ok(header) = Header::parse(frame) else { return 0 };
    header.parts.iter().filter(|part| part.kind != Kind::Ids).map(|part| part.bytes_len).sum()
}

/// Verifies the checksums of all parts of a frame, and returns an error if one is wrong.
pub(super) fn whole(frame: &[u8]) -> eciton_tensor::Result<()> {
    let read = Frame::parse(frame)?;
    (0..).zip(&read.header().parts).try_for_each(|(at, part)| part.verify(read.bytes(at)?))
}

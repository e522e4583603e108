//! Sizes and checksums of the frames that a worker sends and receives.

use eciton_tensor::frame::{Frame, Header, Kind};

/// Bytes of the matrices of a frame.
pub(super) fn values(frame: &[u8]) -> u64 {
    let Ok(header) = Header::parse(frame) else { return 0 };
    header.parts.iter().filter(|part| part.kind != Kind::Ids).map(|part| part.bytes_len).sum()
}

/// Checks that the parts of a frame are as they were written.
pub(super) fn whole(frame: &[u8]) -> eciton_tensor::Result<()> {
    let read = Frame::parse(frame)?;
    (0..).zip(&read.header().parts).try_for_each(|(at, part)| part.verify(read.bytes(at)?))
}

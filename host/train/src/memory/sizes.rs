//! Sizes of rows and buffers, in bytes.

use eciton_recipe::RowFormat;
use eciton_tensor::Buffer;
use eciton_tensor::half::HalfBuffer;
use eciton_tensor::pages::Pages;

/// Returns the memory that a buffer of `bytes` bytes occupies. Large buffers occupy whole pages.
pub(super) fn pages(bytes: u64) -> u64 {
    if bytes < Pages::LARGE as u64 { bytes } else { bytes.next_multiple_of(Pages::LARGE as u64 / 2) }
}

/// Returns the size in bytes of a row of `width` values in the format `format`, including padding.
pub(super) fn row_bytes(width: u32, format: RowFormat) -> u64 {
    match format {
        RowFormat::F32 | RowFormat::Bits => padded(width),
        RowFormat::Bf16 => HalfBuffer::row_bytes(width as usize) as u64,
    }
}

/// Returns the size in bytes of a row of `width` f32 values, including padding.
pub(super) fn padded(width: u32) -> u64 {
    Buffer::row_bytes(width as usize) as u64
}

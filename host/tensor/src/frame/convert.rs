//! Conversion of values to the bytes of a frame and back.
#![allow(unsafe_code)]

use super::Encoding;
use crate::simd::dispatch;
use crate::view::{View, ViewMut};

/// Returns the upper half of an f32, rounded to the nearest value with ties to even. A NaN stays a
/// NaN.
#[inline(always)]
fn upper_half(value: f32) -> u16 {
    let bits = value.to_bits();
    // A carry out of the mantissa is correct. It increments the exponent, up to infinity.
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
    let quiet = (bits >> 16) | 0x40;
    (if bits & 0x7fff_ffff > 0x7f80_0000 { quiet } else { rounded }) as u16
}

#[inline(always)]
fn narrow_body<const FMA: bool>(values: &[f32], bytes: &mut [u8]) {
    for (value, out) in values.iter().zip(bytes.as_chunks_mut::<2>().0) {
        *out = upper_half(*value).to_le_bytes();
    }
}

#[inline(always)]
fn widen_body<const FMA: bool>(bytes: &[u8], values: &mut [f32]) {
    for (half, out) in bytes.as_chunks::<2>().0.iter().zip(values) {
        *out = f32::from_bits(u32::from(u16::from_le_bytes(*half)) << 16);
    }
}

dispatch! { fn narrow(values: &[f32], bytes: &mut [u8]) = narrow_body }
dispatch! { fn widen(bytes: &[u8], values: &mut [f32]) = widen_body }

/// Encodes `values` to `bytes`, whose length must be that of the encoded values.
pub(super) fn to_bytes(encoding: Encoding, values: &[f32], bytes: &mut [u8]) {
    match encoding {
        Encoding::F32 => {
            for (value, out) in values.iter().zip(bytes.as_chunks_mut::<4>().0) {
                *out = value.to_le_bytes();
            }
        }
        Encoding::Bf16 => narrow(values, bytes),
        // Rows are packed before they are written ([`super::Packed`]).
        Encoding::Bits(_) => {}
    }
}

/// Decodes `bytes` to `values`, whose length must be the number of encoded values.
pub(super) fn to_values(encoding: Encoding, bytes: &[u8], values: &mut [f32]) {
    match encoding {
        Encoding::F32 => {
            for (word, out) in bytes.as_chunks::<4>().0.iter().zip(values) {
                *out = f32::from_le_bytes(*word);
            }
        }
        Encoding::Bf16 => widen(bytes, values),
        Encoding::Bits(planes) => planes.unpack_row(bytes, values),
    }
}

/// Decodes complete rows of `columns` values to a slice without padding.
pub(super) fn coded_to_values(encoding: Encoding, bytes: &[u8], columns: usize, values: &mut [f32]) {
    let Encoding::Bits(planes) = encoding else { return to_values(encoding, bytes, values) };
    let width = planes.row_bytes(columns);
    for (bytes, values) in bytes.chunks_exact(width).zip(values.chunks_exact_mut(columns.max(1))) {
        planes.unpack_row(bytes, values);
    }
}

/// Encodes the rows of a view. The bytes of consecutive rows have no padding between them.
pub(super) fn rows_to_bytes(encoding: Encoding, rows: View<'_>, bytes: &mut [u8]) {
    let (count, columns) = (rows.rows(), rows.columns());
    if columns == 0 {
        return;
    }
    if rows.stride() == columns {
        return to_bytes(encoding, &rows.data()[..count * columns], bytes);
    }
    for (i, out) in bytes.chunks_exact_mut(encoding.row_bytes(columns)).enumerate() {
        to_bytes(encoding, rows.row(i), out);
    }
}

/// Decodes rows to a view. The bytes of consecutive rows have no padding between them.
pub(super) fn bytes_to_rows(encoding: Encoding, bytes: &[u8], rows: &mut ViewMut<'_>) {
    let (count, columns) = (rows.rows(), rows.columns());
    if columns == 0 {
        return;
    }
    if rows.stride() == columns {
        return coded_to_values(encoding, bytes, columns, &mut rows.data_mut()[..count * columns]);
    }
    for (i, row) in bytes.chunks_exact(encoding.row_bytes(columns)).enumerate() {
        to_values(encoding, row, rows.row_mut(i));
    }
}

/// Writes 32-bit words as little-endian bytes.
pub(super) fn words_to_bytes(words: impl Iterator<Item = u32>, bytes: &mut [u8]) {
    for (word, out) in words.zip(bytes.as_chunks_mut::<4>().0) {
        *out = word.to_le_bytes();
    }
}

/// Reads 32-bit words from little-endian bytes.
pub(super) fn words(bytes: &[u8]) -> impl ExactSizeIterator<Item = u32> {
    bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::bf16;

    fn round_trip(value: f32) -> u16 {
        let mut bytes = [0; 2];
        to_bytes(Encoding::Bf16, &[value], &mut bytes);
        u16::from_le_bytes(bytes)
    }

    /// Checks that every 16-bit pattern is preserved, and that values around each pattern are
    /// rounded like in the crate `half`.
    #[test]
    fn bf16_rounds_to_nearest_even() {
        for upper in 0..=u16::MAX {
            for lower in [0, 1, 0x7fff, 0x8000, 0x8001, 0xffff] {
                let value = f32::from_bits(u32::from(upper) << 16 | lower);
                let (found, expected) = (round_trip(value), bf16::from_f32(value));
                if value.is_nan() {
                    assert!(bf16::from_bits(found).is_nan(), "{value:?} became {found:04x}");
                } else {
                    assert_eq!(found, expected.to_bits(), "{value:e} = {:08x}", value.to_bits());
                }
            }
            let mut back = [0.0f32];
            to_values(Encoding::Bf16, &upper.to_le_bytes(), &mut back);
            assert_eq!(back[0].to_bits(), u32::from(upper) << 16);
        }
    }

    #[test]
    fn the_relative_error_is_at_most_2_to_the_minus_8() {
        let mut bits: u32 = 0x2545_f491;
        for _ in 0..200_000 {
            bits = bits.wrapping_mul(0x0019_660d).wrapping_add(0x3c6e_f35f);
            let value = f32::from_bits(bits);
            let normal = value.is_normal() && value.abs() < f32::MAX / 2.0;
            if normal {
                let back = f64::from(f32::from_bits(u32::from(round_trip(value)) << 16));
                let error = (back - f64::from(value)).abs() / f64::from(value).abs();
                assert!(error <= 1.0 / 256.0, "{value:e}: {error:e}");
            }
        }
    }
}

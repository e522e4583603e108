//! Compression of values to signs and scales, at about one bit per value. Binary layers read
//! nothing else of their inputs and weights.

use crate::view::View;

/// Matrix of weights that is packed as sign bits and one scale per column.
#[derive(Debug, Clone, PartialEq)]
pub struct Columns {
    /// Sign bits, row by row, which start with the lowest bit of a byte. Each row starts with a new
    /// byte. A bit is 1 for a weight >= 0.
    pub bits: Vec<u8>,
    /// Scale of each column, which is the mean of its absolute values.
    pub scales: Vec<f32>,
}

/// Returns the number of bytes that one bit per value takes.
#[must_use]
pub const fn plane(values: usize) -> usize {
    values.div_ceil(8)
}

impl Columns {
    /// Packs a matrix of `columns` columns, stored row by row. Returns `None` if unpacking would
    /// change signs or scales. This happens if a scale is not finite, or is zero although a weight
    /// is not.
    #[must_use]
    pub fn pack(weights: &[f32], columns: usize) -> Option<Self> {
        let rows = weights.len().checked_div(columns).filter(|rows| *rows > 0)?;
        let (mut bits, mut sums) = (vec![0u8; rows * plane(columns)], vec![0.0f32; columns]);
        let (first, mut same) = (weights.get(..columns)?, vec![true; columns]);
        for (row, bits) in weights.chunks_exact(columns).zip(bits.chunks_exact_mut(plane(columns))) {
            for (at, &w) in row.iter().enumerate() {
                set(bits, at, w >= 0.0);
                sums[at] += w.abs();
                same[at] &= w.abs() == first[at].abs();
            }
        }
        let scale = |((sum, same), first): ((&f32, &bool), &f32)| {
            if *same { first.abs() } else { sum / rows as f32 }
        };
        let scales: Vec<f32> = sums.iter().zip(&same).zip(first).map(scale).collect();
        let holds = |(scale, same): (&f32, &bool)| scale.is_finite() && (*scale > 0.0 || *same);
        scales.iter().zip(&same).all(holds).then_some(Self { bits, scales })
    }

    /// Returns the unpacked matrix, row by row. Each value is the scale of its column with the sign
    /// of the weight.
    #[must_use]
    pub fn values(&self) -> Vec<f32> {
        let columns = self.scales.len();
        let row = |bits: &[u8]| {
            let signed = |(at, &scale): (usize, &f32)| if get(bits, at) { scale } else { -scale };
            self.scales.iter().enumerate().map(signed).collect::<Vec<_>>()
        };
        self.bits.chunks_exact(plane(columns).max(1)).flat_map(row).collect()
    }
}

/// Bit planes that packed rows have in addition to the signs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Planes {
    /// True if one bit per value records whether the value is zero. If false, no value is zero.
    pub there: bool,
    /// True if one bit per value records whether its absolute value is at most 1. Only gradients
    /// need this plane.
    pub within: bool,
}

/// Absolute value that does not change a sum of at least [`LEAST`]. 2^24 such values are less than
/// half a unit in the last place of the sum.
const TINY: f32 = f32::MIN_POSITIVE;
/// Minimum sum of absolute values in a row that is packed without [`Planes::within`].
const LEAST: f32 = 1e-25;
/// Maximum number of scales that are tried in the search for a packed row with the original row's
/// mean.
const MOST_GROUPS: u32 = 16;

impl Planes {
    /// Returns the size of a packed row, in bytes. A packed row starts with the absolute value of
    /// its first value that is not zero, followed by that of all others. With [`Planes::within`],
    /// the others have separate absolute values up to 1 and above 1. The bit planes follow.
    #[must_use]
    pub const fn row_bytes(self, columns: usize) -> usize {
        let scales = if self.within { 3 } else { 2 };
        4 * scales + plane(columns) * (1 + self.there as usize + self.within as usize)
    }

    /// Returns the planes that are needed to pack these rows. If `within` is true, they include the
    /// plane that records which absolute values are at most 1.
    #[must_use]
    pub fn for_rows(rows: View<'_>, within: bool) -> Self {
        let zero = (0..rows.rows()).any(|row| rows.row(row).contains(&0.0));
        Self { there: zero, within }
    }

    /// Packs rows, and returns their bytes. Returns `None` if a row cannot be packed. The reason is
    /// a value that is not finite, a sum that is too small, or a mean that no first value
    /// reproduces.
    #[must_use]
    pub fn pack(self, rows: View<'_>) -> Option<Vec<u8>> {
        let width = self.row_bytes(rows.columns());
        let mut bytes = vec![0; width * rows.rows()];
        let mut found = vec![0.0; rows.columns()];
        for (row, bytes) in bytes.chunks_exact_mut(width).enumerate() {
            self.pack_row(rows.row(row), bytes, &mut found)?;
        }
        Some(bytes)
    }

    fn pack_row(self, row: &[f32], bytes: &mut [u8], found: &mut [f32]) -> Option<()> {
        let mean = mean_absolute(row);
        let sum = sum_absolute(row);
        if !mean.is_finite() {
            return None;
        }
        let bits = 4 * if self.within { 3 } else { 2 };
        let plane = plane(row.len());
        let (scales, planes) = bytes.split_at_mut(bits);
        let (positive, rest) = planes.split_at_mut(plane);
        let (there, within) = rest.split_at_mut(if self.there { plane } else { 0 });
        for (at, &x) in row.iter().enumerate() {
            set(positive, at, x > 0.0);
            if self.there {
                set(there, at, x != 0.0);
            }
            if self.within {
                set(within, at, x.abs() <= 1.0);
            }
        }
        let Some(&first) = row.iter().find(|x| **x != 0.0) else { return self.there.then_some(()) };
        if !self.within {
            if sum < LEAST {
                return None;
            }
            write(scales, [sum, TINY, 0.0]);
            self.unpack_row(bytes, found);
            return (mean_absolute(found).to_bits() == mean.to_bits()).then_some(());
        }
        let group = |above: bool| {
            let of = || row.iter().map(|x| x.abs()).filter(|x| *x != 0.0 && (*x > 1.0) == above);
            let count = of().count();
            if count == 0 { 0.0 } else { (of().map(f64::from).sum::<f64>() / count as f64) as f32 }
        };
        let (small, large) = (group(false), group(true));
        let is_large = first.abs() > 1.0;
        for at in 0..MOST_GROUPS {
            // Tries neighbouring values, alternately above and below, by units in the last place.
            let moved = |scale: f32| match at % 2 {
                0 => f32::from_bits(scale.to_bits().saturating_add(at / 2)),
                _ => f32::from_bits(scale.to_bits().saturating_sub(at.div_ceil(2))),
            };
            let (small, large) = (moved(small).min(1.0), moved(large).max(1.0f32.next_up()));
            // The mean grows with the first value. The bits of positive floats have the same order
            // as the floats.
            let (mut low, mut high) = match is_large {
                true => (1.0f32.next_up().to_bits(), f32::MAX.to_bits()),
                false => (f32::MIN_POSITIVE.to_bits(), 1.0f32.to_bits()),
            };
            while low <= high {
                let lead = low.midpoint(high);
                write(&mut bytes[..bits], [f32::from_bits(lead), small, large]);
                self.unpack_row(bytes, found);
                let reached = mean_absolute(found);
                if reached.to_bits() == mean.to_bits() {
                    return Some(());
                }
                if reached < mean { low = lead + 1 } else { high = lead - 1 }
            }
        }
        None
    }

    /// Unpacks a row from [`Planes::row_bytes`] bytes. Invalid bytes give arbitrary values but
    /// never a panic.
    pub fn unpack_row(self, bytes: &[u8], row: &mut [f32]) {
        let scale = |at: usize| {
            let four = bytes.get(4 * at..).and_then(|rest| rest.first_chunk::<4>());
            four.map_or(0.0, |bytes| f32::from_le_bytes(*bytes))
        };
        let (mut lead, small) = (Some(scale(0)), scale(1));
        let large = if self.within { scale(2) } else { small };
        let planes = bytes.get(4 * if self.within { 3 } else { 2 }..).unwrap_or_default();
        let (positive, rest) = planes.split_at_checked(plane(row.len())).unwrap_or_default();
        let (there, within) =
            rest.split_at_checked(if self.there { plane(row.len()) } else { 0 }).unwrap_or_default();
        for (at, x) in row.iter_mut().enumerate() {
            if self.there && !get(there, at) {
                *x = 0.0;
                continue;
            }
            let other = if !self.within || get(within, at) { small } else { large };
            let size = lead.take().unwrap_or(other);
            *x = if get(positive, at) { size } else { -size };
        }
    }

    /// Calls `row` for each packed row, with the row's index and a function that unpacks it.
    pub(crate) fn unpack(
        self,
        bytes: &[u8],
        columns: usize,
        mut row: impl FnMut(usize, &dyn Fn(&mut [f32])),
    ) {
        for (at, bytes) in bytes.chunks_exact(self.row_bytes(columns)).enumerate() {
            row(at, &|row| self.unpack_row(bytes, row));
        }
    }
}

fn write(into: &mut [u8], scales: [f32; 3]) {
    for (into, scale) in into.as_chunks_mut::<4>().0.iter_mut().zip(scales) {
        *into = scale.to_le_bytes();
    }
}

fn set(bits: &mut [u8], at: usize, value: bool) {
    if let Some(byte) = bits.get_mut(at / 8) {
        *byte |= u8::from(value) << (at % 8);
    }
}

fn get(bits: &[u8], at: usize) -> bool {
    bits.get(at / 8).is_some_and(|byte| byte >> (at % 8) & 1 == 1)
}

/// Returns the sum of a row's absolute values, added in the order that the module's documentation
/// defines.
fn sum_absolute(row: &[f32]) -> f32 {
    let mut sums = [0.0f32; 16];
    let (whole, rest) = row.as_chunks::<16>();
    for (sum, value) in sums.iter_mut().zip(rest) {
        *sum += value.abs();
    }
    for values in whole {
        for (sum, value) in sums.iter_mut().zip(values) {
            *sum += value.abs();
        }
    }
    for half in [8, 4, 2, 1] {
        for at in 0..half {
            sums[at] += sums[at + half];
        }
    }
    sums[0]
}

/// Returns the mean of a row's absolute values, which are added in the order that the module's
/// documentation defines.
#[must_use]
pub fn mean_absolute(row: &[f32]) -> f32 {
    sum_absolute(row) / row.len() as f32
}

/// Returns different rows with the same signs, zeros and scales as `rows`, for tests of kernels.
/// Returns `None` if a row cannot be packed.
#[must_use]
pub fn alike(rows: View<'_>, within: bool) -> Option<Vec<f32>> {
    let planes = Planes::for_rows(rows, within);
    let bytes = planes.pack(rows)?;
    let mut values = vec![0.0; rows.rows() * rows.columns()];
    planes.unpack(&bytes, rows.columns(), |at, unpack| {
        unpack(&mut values[at * rows.columns()..][..rows.columns()]);
    });
    Some(values)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Returns a random number in (-1, 1), from SplitMix64.
    fn value(state: &mut u64) -> f32 {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 40) as f32 / (1u32 << 23) as f32 - 1.0
    }

    #[test]
    fn columns_come_back_with_their_signs_and_scales() {
        for seed in 0..200u64 {
            let mut state = seed;
            let (rows, columns) = (1 + (seed % 70) as usize, 1 + (seed % 19) as usize);
            let weights: Vec<f32> = (0..rows * columns).map(|_| value(&mut state)).collect();
            let packed = Columns::pack(&weights, columns).unwrap();
            assert_eq!(packed.bits.len(), rows * plane(columns), "seed {seed}");
            let back = packed.values();
            let signs = weights.iter().zip(&back).all(|(w, b)| (*w >= 0.0) == (*b >= 0.0));
            assert!(signs && back.len() == weights.len(), "seed {seed}");
            assert_eq!(Columns::pack(&back, columns).unwrap(), packed, "seed {seed}");
        }
    }

    #[test]
    fn columns_without_a_scale_are_not_packed() {
        assert!(Columns::pack(&[f32::NAN, 1.0], 1).is_none());
        assert!(Columns::pack(&[f32::MAX, -f32::MAX, 1.0], 1).is_none());
        let least = f32::from_bits(1);
        assert!(Columns::pack(&[least, -0.0, -0.0, -0.0], 1).is_none(), "its mean is zero");
        assert_eq!(Columns::pack(&[0.0, -0.0], 1).unwrap().values(), [0.0, 0.0]);
        assert!(Columns::pack(&[], 0).is_none() && Columns::pack(&[], 3).is_none());
    }

    /// Checks that 20,000 rows of many widths and magnitudes can be packed, and are unpacked with
    /// the same signs and scales.
    #[test]
    fn rows_agree_in_all_that_is_read() {
        let mut state = 20_261_126;
        for case in 0..20_000usize {
            let columns = [1, 2, 3, 7, 16, 17, 33, 64, 128, 300][case % 10];
            let size = [0.01, 0.5, 1.0, 2.0, 40.0][case / 10 % 5];
            let mut row: Vec<f32> = (0..columns).map(|_| size * value(&mut state)).collect();
            if case % 3 == 0 {
                row.iter_mut().for_each(|x| *x = if value(&mut state) > 0.0 { *x } else { 0.0 });
            }
            for within in [false, true] {
                let rows = View::new(&row, 1, columns);
                let planes = Planes::for_rows(rows, within);
                let packed = planes.pack(rows);
                let packed = packed.unwrap_or_else(|| panic!("case {case}, {within}: {row:?}"));
                assert_eq!(packed.len(), planes.row_bytes(columns));
                let mut back = vec![0.0; columns];
                planes.unpack_row(&packed, &mut back);
                let zero = |x: &f32| *x == 0.0;
                assert_eq!(mean_absolute(&back).to_bits(), mean_absolute(&row).to_bits(), "case {case}");
                for (x, b) in row.iter().zip(&back) {
                    assert!(zero(x) == zero(b) && (*x > 0.0) == (*b > 0.0), "case {case}: {x} {b}");
                    assert!(!within || (x.abs() <= 1.0) == (b.abs() <= 1.0), "case {case}: {x} {b}");
                }
            }
        }
    }

    #[test]
    fn rows_without_a_packed_form_are_not_packed() {
        let planes = |within| Planes { there: true, within };
        for within in [false, true] {
            for row in [[f32::NAN, 1.0], [f32::INFINITY, 1.0], [f32::MAX, f32::MAX]] {
                assert!(planes(within).pack(View::new(&row, 1, 2)).is_none(), "{row:?}");
            }
        }
        assert!(planes(false).pack(View::new(&[1e-30, -1e-30], 1, 2)).is_none());
        assert!(planes(true).pack(View::new(&[0.0, 0.0], 1, 2)).is_some());
    }

    #[test]
    fn any_bytes_are_some_row() {
        let mut row = [1.0; 20];
        for length in 0..30 {
            for planes in [(false, false), (true, false), (false, true), (true, true)] {
                let planes = Planes { there: planes.0, within: planes.1 };
                planes.unpack_row(&vec![0xa5; length], &mut row);
            }
        }
    }

    /// Checks the number of bytes of a packed row.
    #[test]
    fn bytes_of_a_row() {
        let plain = Planes::default();
        assert_eq!((plain.row_bytes(1024), plain.row_bytes(64)), (136, 16));
        assert_eq!(Planes { within: true, ..plain }.row_bytes(64), 28);
        assert_eq!(Planes { there: true, within: true }.row_bytes(64), 36);
    }
}

//! Windows (patches) of images, whose rows have height x width x channels values with channels
//! last.
//!
//! `patches` copies the values of each window next to each other, so that a convolution becomes a
//! matrix product (im2col). `sum_patches` is the transpose of this operation. The window with index
//! (y, x) starts at (y stride - padding, x stride - padding). Positions outside the image are zero.
#![allow(unsafe_code)]

use crate::simd::dispatch;
use crate::view::{View, ViewMut};

/// Geometry of the windows of an image, for a convolution or pooling operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Windows {
    /// Height of the image, in pixels.
    pub height: usize,
    /// Width of the image, in pixels.
    pub width: usize,
    /// Number of channels of the image.
    pub channels: usize,
    /// Number of pixels along each side of a window.
    pub kernel: usize,
    /// Distance between the starts of adjacent windows, in pixels.
    pub stride: usize,
    /// Number of zero pixels that are added on each side of the image.
    pub padding: usize,
    /// Distance between adjacent samples of a window, in pixels. It is 1 for a contiguous window.
    pub dilation: usize,
}

impl Windows {
    /// Returns the number of windows along a side of `extent` pixels. Returns `None` if no window
    /// fits, or if the kernel or the stride is 0.
    pub fn along(&self, extent: usize) -> Option<usize> {
        let reach = self.kernel.checked_sub(1)?.checked_mul(self.dilation)?.checked_add(1)?;
        let room = self.padding.checked_mul(2)?.checked_add(extent)?.checked_sub(reach)?;
        Some(room.checked_div(self.stride)? + 1)
    }

    /// Returns the number of windows along the height and along the width. Returns `None` if no
    /// window fits.
    pub fn count(&self) -> Option<(usize, usize)> {
        if self.dilation == 0 || self.height == 0 || self.width == 0 {
            return None;
        }
        Some((self.along(self.height)?, self.along(self.width)?))
    }

    /// Returns the number of values in a window, which is kernel x kernel x channels. Returns
    /// `None` after an overflow.
    pub fn values(&self) -> Option<usize> {
        self.kernel.checked_mul(self.kernel)?.checked_mul(self.channels)
    }

    /// Returns the part of a window that lies inside the image, along one side. The result is the
    /// index of the first sample and the number of samples.
    #[inline(always)]
    fn inside(&self, at: usize, extent: usize) -> (usize, usize) {
        let start = at * self.stride;
        let reached = |value: usize| start + value * self.dilation;
        let first = self.padding.saturating_sub(start).div_ceil(self.dilation).min(self.kernel);
        let mut end = self.kernel;
        while end > first && reached(end - 1) >= self.padding + extent {
            end -= 1;
        }
        (first, end - first)
    }
}

/// Returns the row and the first column of a window's values. The matrix has one row per window or
/// one row per image.
#[inline(always)]
fn place(
    rows: usize,
    images: usize,
    windows: usize,
    image: usize,
    window: usize,
    values: usize,
) -> (usize, usize) {
    if rows == images { (image, window * values) } else { (image * windows + window, 0) }
}

dispatch! {
    /// Computes out = the windows of the images x, which have the shape `[n, height x width x
    /// channels]`. The shape of out is `[n x windows, values]` or `[n, windows x values]`.
    pub fn patches(x: View<'_>, by: Windows, out: &mut ViewMut<'_>) = patches_body
}

#[inline(always)]
fn patches_body<const _FMA: bool>(x: View<'_>, by: Windows, out: &mut ViewMut<'_>) {
    let (Some((down, across)), Some(values)) = (by.count(), by.values()) else { return };
    let (rows, row_values) = (out.rows(), by.kernel * by.channels);
    let columns: Vec<(usize, usize)> = (0..across).map(|left| by.inside(left, by.width)).collect();
    for image in 0..x.rows() {
        let from = x.row(image);
        for top in 0..down {
            let (first_row, row_count) = by.inside(top, by.height);
            for (left, &(first, count)) in columns.iter().enumerate() {
                let (row, start) = place(rows, x.rows(), down * across, image, top * across + left, values);
                let to = &mut out.row_mut(row)[start..][..values];
                if row_count < by.kernel || count < by.kernel {
                    to.fill(0.0);
                }
                if count == 0 {
                    continue;
                }
                let x = left * by.stride + first * by.dilation - by.padding;
                for line in first_row..first_row + row_count {
                    let y = top * by.stride + line * by.dilation - by.padding;
                    let from = &from[(y * by.width + x) * by.channels..];
                    let to = &mut to[line * row_values + first * by.channels..][..count * by.channels];
                    if by.dilation == 1 {
                        copy_run(to, &from[..count * by.channels]);
                        continue;
                    }
                    for (at, to) in to.chunks_exact_mut(by.channels.max(1)).enumerate() {
                        copy_run(to, &from[at * by.dilation * by.channels..][..by.channels]);
                    }
                }
            }
        }
    }
}

/// Copies a few values. Common lengths are unrolled, because a call of `memcpy` would cost more
/// than the copy.
#[inline(always)]
fn copy_run(to: &mut [f32], from: &[f32]) {
    #[inline(always)]
    fn fixed<const W: usize>(to: &mut [f32], from: &[f32]) {
        if let (Some(to), Some(from)) = (to.first_chunk_mut::<W>(), from.first_chunk::<W>()) {
            *to = *from;
        }
    }
    match to.len() {
        1 => fixed::<1>(to, from),
        2 => fixed::<2>(to, from),
        3 => fixed::<3>(to, from),
        5 => fixed::<5>(to, from),
        7 => fixed::<7>(to, from),
        9 => fixed::<9>(to, from),
        15 => fixed::<15>(to, from),
        48 => fixed::<48>(to, from),
        96 => fixed::<96>(to, from),
        _ => to.copy_from_slice(from),
    }
}

dispatch! {
    /// Computes images from the values x of their windows. Each pixel is the sum of its values in
    /// all windows, in the order of the windows. The shape of out is `[n, height x width x
    /// channels]`.
    pub fn sum_patches(x: View<'_>, by: Windows, out: &mut ViewMut<'_>) = sum_patches_body
}

#[inline(always)]
fn sum_patches_body<const _FMA: bool>(x: View<'_>, by: Windows, out: &mut ViewMut<'_>) {
    let (Some((down, across)), Some(values)) = (by.count(), by.values()) else { return };
    let (images, row_values) = (out.rows(), by.kernel * by.channels);
    let columns: Vec<(usize, usize)> = (0..across).map(|left| by.inside(left, by.width)).collect();
    for image in 0..images {
        let to = out.row_mut(image);
        to.fill(0.0);
        for top in 0..down {
            let (first_row, row_count) = by.inside(top, by.height);
            for (left, &(first, count)) in columns.iter().enumerate() {
                let (row, start) = place(x.rows(), images, down * across, image, top * across + left, values);
                let from = &x.row(row)[start..][..values];
                if count == 0 {
                    continue;
                }
                for line in first_row..first_row + row_count {
                    let y = top * by.stride + line * by.dilation - by.padding;
                    let x = left * by.stride + first * by.dilation - by.padding;
                    let to = &mut to[(y * by.width + x) * by.channels..];
                    let from = &from[line * row_values + first * by.channels..][..count * by.channels];
                    if by.dilation == 1 {
                        to.iter_mut().zip(from).for_each(|(to, &from)| *to += from);
                        continue;
                    }
                    for (at, from) in from.chunks_exact(by.channels.max(1)).enumerate() {
                        let to = &mut to[at * by.dilation * by.channels..];
                        to.iter_mut().zip(from).for_each(|(to, &from)| *to += from);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::mix64;

    fn values(seed: u64, count: usize) -> Vec<f32> {
        (0..count as u64).map(|i| (mix64(seed << 32 | i) >> 50) as f32 / 64.0).collect()
    }

    const CASES: [Windows; 8] = [
        windows([4, 5, 1], [3, 1, 0, 1]),
        windows([4, 5, 2], [3, 1, 1, 1]),
        windows([7, 6, 3], [3, 2, 1, 1]),
        windows([8, 8, 5], [2, 2, 0, 1]),
        windows([9, 7, 2], [3, 1, 2, 2]),
        windows([3, 3, 16], [1, 1, 0, 1]),
        windows([5, 5, 24], [5, 1, 4, 1]),
        windows([2, 2, 1], [3, 3, 4, 2]),
    ];

    const fn windows(
        [height, width, channels]: [usize; 3],
        [kernel, stride, padding, dilation]: [usize; 4],
    ) -> Windows {
        Windows { height, width, channels, kernel, stride, padding, dilation }
    }

    /// Returns the pixel of an image at a position of a window, by the definition.
    fn at(x: &[f32], by: Windows, [oy, ox, ky, kx, c]: [usize; 5]) -> f32 {
        let y = (oy * by.stride + ky * by.dilation).checked_sub(by.padding).filter(|&y| y < by.height);
        let x_at = (ox * by.stride + kx * by.dilation).checked_sub(by.padding).filter(|&x| x < by.width);
        match (y, x_at) {
            (Some(y), Some(at)) => x[(y * by.width + at) * by.channels + c],
            _ => 0.0,
        }
    }

    #[test]
    fn windows_are_what_the_definition_says_and_sums_are_their_transpose() {
        for by in CASES {
            let ((down, across), of) = (by.count().unwrap(), by.values().unwrap());
            let (width, all) = (by.height * by.width * by.channels, down * across * of);
            let (x, g) = (values(1, 2 * width), values(2, 2 * all));
            let (mut flat, mut apart) = (vec![9.0; 2 * all], vec![9.0; 2 * all]);
            patches(View::new(&x, 2, width), by, &mut ViewMut::new(&mut flat, 2, all));
            patches(View::new(&x, 2, width), by, &mut ViewMut::new(&mut apart, 2 * down * across, of));
            assert_eq!(flat, apart);
            for (place, &found) in flat.iter().enumerate() {
                let (image, rest) = (place / all, place % all);
                let (window, value) = (rest / of, rest % of);
                let (line, c) = (value / by.channels, value % by.channels);
                let place = [window / across, window % across, line / by.kernel, line % by.kernel, c];
                assert_eq!(found, at(&x[image * width..], by, place), "{by:?}, {place:?}");
            }
            let (mut sums, mut same) = (vec![9.0; 2 * width], vec![9.0; 2 * width]);
            sum_patches(View::new(&g, 2, all), by, &mut ViewMut::new(&mut sums, 2, width));
            let view = View::new(&g, 2 * down * across, of);
            sum_patches(view, by, &mut ViewMut::new(&mut same, 2, width));
            assert_eq!(sums, same);
            // <patches(x), g> = <x, sum_patches(g)>. The test values have few bits, so sums in f64
            // are exact.
            let inner = |a: &[f32], b: &[f32]| {
                a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum::<f64>()
            };
            assert_eq!(inner(&flat, &g), inner(&x, &sums), "{by:?}");
        }
    }

    #[test]
    fn what_does_not_fit_has_no_windows() {
        for by in [
            windows([2, 9, 1], [3, 1, 0, 1]),
            windows([9, 9, 1], [3, 0, 0, 1]),
            windows([9, 9, 1], [0, 1, 0, 1]),
            windows([9, 9, 1], [3, 1, 0, 0]),
            windows([0, 9, 1], [3, 1, 4, 1]),
            windows([9, 9, 1], [usize::MAX, 1, 0, 2]),
            windows([9, 9, 1], [3, 1, usize::MAX, 1]),
        ] {
            assert_eq!(by.count(), None, "{by:?}");
        }
    }
}

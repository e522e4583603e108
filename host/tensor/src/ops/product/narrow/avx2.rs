//! Products with narrow weights in 256-bit registers. Each value is one chain of fused
//! multiply-adds, as in the routine for other processors, so both have the same bits.

use std::arch::x86_64::{
    __m256, __m256i, _MM_HINT_T0, _mm_prefetch, _mm256_add_ps, _mm256_broadcast_ss, _mm256_cmpgt_epi32,
    _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_maskload_ps, _mm256_maskstore_ps, _mm256_set1_epi32,
    _mm256_setr_epi32, _mm256_setzero_ps, _mm256_storeu_ps,
};

use crate::simd::{Level, level};
use crate::view::{View, ViewMut};

/// Number of values of a register.
const WIDTH: usize = 8;
/// Number of values of a cache line.
const LINE: usize = 16;

/// Returns true if this process computes with 256-bit instructions.
pub(super) fn available() -> bool {
    level() == Level::Avx2
}

/// Computes out = x w. If `accumulate` is true, the product is added to out. `packed` has the rows of
/// w, padded to `stride` values, which are 8 or a multiple of 16.
pub(super) fn multiply(
    x: View<'_>,
    (packed, stride): (&[f32], usize),
    accumulate: bool,
    out: &mut ViewMut<'_>,
) {
    assert!(is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"));
    assert!(packed.len() >= x.columns() * stride && out.columns() <= stride);
    let mut first = 0;
    while first < x.rows() {
        // SAFETY: the processor has these instructions.
        first += unsafe {
            match x.rows() - first {
                6.. => rows::<6>(x, (packed, stride), accumulate, out, first),
                3.. => rows::<3>(x, (packed, stride), accumulate, out, first),
                _ => rows::<1>(x, (packed, stride), accumulate, out, first),
            }
        };
    }
}

/// Computes R rows of the product from row `first` on, and returns R.
#[target_feature(enable = "avx2,fma")]
fn rows<const R: usize>(
    x: View<'_>,
    (packed, stride): (&[f32], usize),
    accumulate: bool,
    out: &mut ViewMut<'_>,
    first: usize,
) -> usize {
    // The padding of the result may be written, too.
    let end = if out.stride() == stride { stride } else { out.columns() };
    for column in (0..out.columns()).step_by(2 * WIDTH) {
        let to = To { accumulate, first, column, count: end - column };
        // Twelve sums, two registers of the weight and a factor fit into sixteen registers.
        match stride {
            WIDTH => panel::<R, 1>(x, (packed, stride), to, out),
            _ => panel::<R, 2>(x, (packed, stride), to, out),
        }
    }
    R
}

/// Place of a panel in the result.
#[derive(Clone, Copy)]
struct To {
    accumulate: bool,
    /// First row and first column of the panel.
    first: usize,
    column: usize,
    /// Number of columns from there on that may be written.
    count: usize,
}

/// Computes `V` registers of columns of R rows.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn panel<const R: usize, const V: usize>(
    x: View<'_>,
    (packed, stride): (&[f32], usize),
    to: To,
    out: &mut ViewMut<'_>,
) {
    let (k, x_stride, out_stride) = (x.columns(), x.stride(), out.stride());
    let count = to.count.min(V * WIDTH);
    let from = &x.data()[to.first * x_stride..(to.first + R - 1) * x_stride + k];
    let start = to.first * out_stride + to.column;
    let into = &mut out.data_mut()[start..start + (R - 1) * out_stride + count];
    assert!(k == 0 || (k - 1) * stride + to.column + V * WIDTH <= packed.len());
    let mut sums: [[__m256; V]; R] = [[_mm256_setzero_ps(); V]; R];
    // SAFETY: rows of x and of the weight end within `from` and `packed`, and rows of the result within
    // `into`, as was checked. Masked loads and stores access `count` columns only.
    unsafe {
        let rows: [*const f32; R] = std::array::from_fn(|r| from.as_ptr().wrapping_add(r * x_stride));
        let mut weight = packed.as_ptr().wrapping_add(to.column);
        let mut step = |j: usize| {
            let w: [__m256; V] = std::array::from_fn(|v| _mm256_loadu_ps(weight.add(v * WIDTH)));
            weight = weight.wrapping_add(stride);
            for r in 0..R {
                let factor = _mm256_broadcast_ss(&*rows[r].add(j));
                for v in 0..V {
                    sums[r][v] = _mm256_fmadd_ps(factor, w[v], sums[r][v]);
                }
            }
        };
        let mut j = 0;
        while j + 4 <= k {
            if j % LINE == 0 {
                // Rows of the next panel are read soon. A prefetch past the end has no effect.
                for row in rows {
                    _mm_prefetch::<_MM_HINT_T0>(row.wrapping_add(R * x_stride + j).cast());
                }
            }
            step(j);
            step(j + 1);
            step(j + 2);
            step(j + 3);
            j += 4;
        }
        while j < k {
            step(j);
            j += 1;
        }
        if count == V * WIDTH && !to.accumulate {
            for (r, sums) in sums.into_iter().enumerate() {
                for (v, sum) in sums.into_iter().enumerate() {
                    _mm256_storeu_ps(into.as_mut_ptr().add(r * out_stride + v * WIDTH), sum);
                }
            }
            return;
        }
        let masks: [__m256i; V] = std::array::from_fn(|v| mask(count.saturating_sub(v * WIDTH)));
        for (r, sums) in sums.into_iter().enumerate() {
            for (v, (sum, mask)) in sums.into_iter().zip(masks).enumerate() {
                let at = into.as_mut_ptr().wrapping_add(r * out_stride + v * WIDTH);
                let before = _mm256_maskload_ps(at, mask);
                let sum = if to.accumulate { _mm256_add_ps(before, sum) } else { sum };
                _mm256_maskstore_ps(at, mask, sum);
            }
        }
    }
}

/// Returns the mask of the first `count` values of a register, of which there are at most eight.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn mask(count: usize) -> __m256i {
    let most = _mm256_set1_epi32(count.min(WIDTH) as i32);
    _mm256_cmpgt_epi32(most, _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_value_is_one_chain_of_fused_multiply_adds() {
        if !is_x86_feature_detected!("avx2") || !is_x86_feature_detected!("fma") {
            println!("skipped: this processor has no AVX2 with fused multiply-add");
            return;
        }
        let seed = 3_u64;
        println!("seed {seed}");
        let mut state = seed;
        let mut value = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
        };
        for n in [1_usize, 3, 7, 8, 9, 15, 16, 17, 24, 31, 32] {
            let stride = if n <= 8 { 8 } else { n.next_multiple_of(16) };
            for (m, k, wider) in
                [(1, 5, 0), (2, 0, 3), (5, 33, 0), (6, 16, stride - n), (13, 21, 1), (64, 7, 5)]
            {
                let (x_stride, out_stride) = (k + wider, n + wider);
                let x: Vec<f32> = (0..m * x_stride).map(|_| value()).collect();
                let w: Vec<f32> = (0..k * stride).map(|_| value()).collect();
                for accumulate in [false, true] {
                    let before: Vec<f32> = (0..m * out_stride).map(|_| value()).collect();
                    let mut found = before.clone();
                    let mut out = ViewMut::padded(&mut found, m, n, out_stride);
                    multiply(View::padded(&x, m, k, x_stride), (&w, stride), accumulate, &mut out);
                    for i in 0..m {
                        for c in 0..n {
                            let factors = x[i * x_stride..][..k].iter().zip(w.iter().skip(c).step_by(stride));
                            let chain = factors.fold(0.0_f32, |sum, (x, w)| x.mul_add(*w, sum));
                            let at = i * out_stride + c;
                            let wanted = if accumulate { before[at] + chain } else { chain };
                            assert_eq!(found[at].to_bits(), wanted.to_bits(), "[{m}, {k}] by [{k}, {n}]");
                        }
                        // Only padding up to whole registers may change.
                        let rest = i * out_stride + n..(i + 1) * out_stride;
                        if out_stride != stride {
                            assert_eq!(found[rest.clone()], before[rest]);
                        }
                    }
                }
            }
        }
    }
}

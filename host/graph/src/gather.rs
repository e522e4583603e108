//! Gather: sums of neighbours' rows, the host's own work on the graph.
//!
//! ```text
//! out[v] = s[v] (sum over u in N(v) of s[u] x[u]  +  s[v] x[v]),   s[v] = (deg(v) + 1)^-1/2
//! ```
//!
//! which is `D^-1/2 (A + I) D^-1/2 x` (Kipf and Welling 2017, eq. 8) without a stored weight. The
//! sum runs over in-neighbours in ascending order and the vertex itself last, so a row's bits depend
//! on nothing but the graph. The gradient is the same sum over out-neighbours.
#![allow(unsafe_code)]

use std::ops::Range;

use eciton_tensor::simd::{dispatch, madd};
use eciton_tensor::{View, ViewMut};

use crate::adjacency::{Adjacency, Graph};

/// s[v] of every vertex, from in-degrees.
pub fn symmetric_scale(graph: &Graph) -> Vec<f32> {
    (0..graph.vertices()).map(|v| (1.0 / (f64::from(graph.in_degree(v)) + 1.0).sqrt()) as f32).collect()
}

/// Writes rows `rows` of the result to `out` (row 0 of `out` is row `rows.start`). `input` has all
/// rows; `scale` one value for each.
///
/// # Panics
/// If the extents of the arguments differ; they come from one program.
pub fn gather_symmetric(
    neighbours: &Adjacency,
    scale: &[f32],
    input: View<'_>,
    rows: Range<usize>,
    out: &mut ViewMut<'_>,
) {
    let vertices = neighbours.offsets().len() - 1;
    assert!(input.rows() == vertices && scale.len() == vertices && rows.end <= vertices);
    assert!(out.rows() == rows.len() && out.columns() == input.columns() && out.stride() == input.stride());
    let stride = input.stride();
    // Rows that stay in the second-level cache need not be asked for ahead.
    let ahead = stride * vertices * size_of::<f32>() > CACHED_BYTES;
    let mut start = 0;
    while start < stride {
        // As many columns at once as registers hold.
        let lanes = match stride - start {
            l @ (1..=4 | 8) => l,
            l if l >= 128 => 128,
            l if l >= 64 => 64,
            l if l >= 48 => 48,
            l if l >= 32 => 32,
            _ => 16,
        };
        let rows = rows.clone();
        match lanes {
            1 => lanes_of::<1>(neighbours, scale, input, start, ahead, rows, out),
            2 => lanes_of::<2>(neighbours, scale, input, start, ahead, rows, out),
            3 => lanes_of::<3>(neighbours, scale, input, start, ahead, rows, out),
            4 => lanes_of::<4>(neighbours, scale, input, start, ahead, rows, out),
            8 => lanes_of::<8>(neighbours, scale, input, start, ahead, rows, out),
            16 => lanes_of::<16>(neighbours, scale, input, start, ahead, rows, out),
            32 => lanes_of::<32>(neighbours, scale, input, start, ahead, rows, out),
            48 => lanes_of::<48>(neighbours, scale, input, start, ahead, rows, out),
            64 => lanes_of::<64>(neighbours, scale, input, start, ahead, rows, out),
            _ => lanes_of::<128>(neighbours, scale, input, start, ahead, rows, out),
        }
        start += lanes;
    }
}

dispatch! {
    fn lanes_of[const L: usize](neighbours: &Adjacency, scale: &[f32], input: View<'_>, start: usize, ahead: bool, rows: Range<usize>, out: &mut ViewMut<'_>) = body
}

/// How many neighbours ahead a row is asked for.
const AHEAD: usize = 8;
/// A table of rows that is taken to stay in cache.
const CACHED_BYTES: usize = 1 << 20;

#[inline(always)]
fn body<const L: usize, const FMA: bool>(
    neighbours: &Adjacency,
    scale: &[f32],
    input: View<'_>,
    start: usize,
    ahead: bool,
    rows: Range<usize>,
    out: &mut ViewMut<'_>,
) {
    let (data, stride, out_stride) = (input.data(), input.stride(), out.stride());
    let (offsets, all) = (neighbours.offsets(), neighbours.neighbours());
    let out = out.data_mut();
    debug_assert!(data.len() >= input.rows() * stride && start + L <= stride);
    let row = |u: usize| -> &[f32; L] {
        // SAFETY: u is a vertex, for an adjacency holds no other and `rows` was checked; every row
        // has `stride` values, padding included, of which start + L are there.
        unsafe { &*data.as_ptr().add(u * stride + start).cast::<[f32; L]>() }
    };
    for (local, v) in rows.enumerate() {
        let span = offsets[v] as usize..offsets[v + 1] as usize;
        let mut sum = [0.0f32; L];
        let list = &all[span.clone()];
        for (at, &u) in list.iter().enumerate() {
            if ahead && let Some(&next) = all.get(span.start + at + AHEAD) {
                prefetch::<L>(data, next as usize * stride + start);
            }
            // SAFETY: as above; there is a scale for every vertex.
            let (s, x) = (unsafe { *scale.get_unchecked(u as usize) }, row(u as usize));
            for l in 0..L {
                sum[l] = madd::<FMA>(s, x[l], sum[l]);
            }
        }
        let (s, x) = (scale[v], row(v));
        let to = local * out_stride + start;
        let to = &mut out[to..to + L];
        for l in 0..L {
            to[l] = s * madd::<FMA>(s, x[l], sum[l]);
        }
    }
}

#[inline(always)]
fn prefetch<const L: usize>(data: &[f32], from: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in 0..L.div_ceil(16) {
        // SAFETY: a prefetch of any address is allowed; it reads nothing.
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(
                data.as_ptr().wrapping_add(from + line * 16).cast(),
            );
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (data, from);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adjacency::Options;
    use crate::random::SplitMix64;
    use eciton_tensor::Buffer;

    #[test]
    fn equals_the_definition_for_every_width() {
        for seed in 0..60u64 {
            let mut random = SplitMix64::new(seed);
            let vertices = 1 + (random.next_u64() % 40) as u32;
            let count = random.next_u64() % 120;
            let mut vertex = || (random.next_u64() % u64::from(vertices)) as u32;
            let edges: Vec<(u32, u32)> = (0..count).map(|_| (vertex(), vertex())).collect();
            let symmetric = seed % 2 == 0;
            let options = Options { symmetric, ..Options::default() };
            let graph = Graph::from_edges(vertices.into(), edges.iter().copied(), options).unwrap();
            let width = 1 + (seed * 7 % 130) as usize;
            let n = vertices as usize;
            let values: Vec<f32> =
                (0..n * width).map(|i| ((i * 37 + 11) % 101) as f32 / 50.0 - 1.0).collect();
            let x = Buffer::from_rows(n, width, &values).unwrap();
            let out = Buffer::zeroed(n, width).unwrap();
            let scale = symmetric_scale(&graph);
            for (transposed, adjacency) in [(false, graph.incoming()), (true, graph.outgoing())] {
                // In two pieces, as intervals would.
                for rows in [0..n / 2, n / 2..n] {
                    let (from, mut to) = (x.read(0..n).unwrap(), out.write(rows.clone()).unwrap());
                    gather_symmetric(adjacency, &scale, from.view(), rows, &mut to.view_mut());
                }
                let found = out.to_vec().unwrap();
                for v in 0..n {
                    for c in 0..width {
                        let s = |u: usize| 1.0 / (f64::from(graph.in_degree(u as u32)) + 1.0).sqrt();
                        let list = if transposed {
                            graph.out_neighbours(v as u32)
                        } else {
                            graph.in_neighbours(v as u32)
                        };
                        let sum: f64 = list
                            .iter()
                            .map(|&u| u as usize)
                            .chain([v])
                            .map(|u| s(u) * f64::from(values[u * width + c]))
                            .sum();
                        let wanted = s(v) * sum;
                        let got = f64::from(found[v * width + c]);
                        assert!(
                            (got - wanted).abs() < 1e-5,
                            "seed {seed}, vertex {v}, column {c}: {got}, not {wanted}"
                        );
                    }
                }
            }
        }
    }
}

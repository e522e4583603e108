//! Gather that copies blocks of source rows into the second-level cache before it sums them.

use std::alloc::{Layout, handle_alloc_error};
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64 as x86;
use std::ops::Range;

use eciton_tensor::pages::Pages;

use super::kernel::{Element, Job, SCALED, prefetch};
use super::reach::{Input, Straight};

/// Number of classes into which rows are sorted by segment length. All segments with at least this
/// number of edges form one class.
const CLASSES: usize = 16;
/// Number of target rows that are processed together. The cache lines that are currently read from
/// their lists fit into the first cache levels.
const BATCH: usize = 256;
/// Number of rows by which the prefetch of neighbour lists is ahead.
const LISTS_AHEAD: usize = 16;
/// Number of rows by which the prefetch of sums, and of the rest of long segments, is ahead.
const SUMS_AHEAD: usize = 4;
/// Number of entries of a neighbour list in one cache line.
const LINE: usize = 16;
/// Maximum number of cache lines of one segment that are prefetched.
const MOST_LINES: usize = 32;

/// Scratch memory of one thread, which later calls reuse. It holds at most one block, which fits
/// into the second-level cache, and 16 bytes per row of a tile.
#[derive(Default)]
pub(super) struct Scratch {
    block: Option<Pages>,
    cursors: Vec<u64>,
    ends: Vec<u64>,
}

impl Scratch {
    /// Returns memory for at least `values` values. Existing memory is reused if it is large
    /// enough.
    pub(super) fn room<T: Element>(&mut self, values: usize) -> *mut T {
        let bytes = values * size_of::<T>();
        let block = match self.block.take() {
            Some(block) if block.bytes() >= bytes => block,
            // One large page is allocated even if a block fills only a part of it. With small
            // pages, the number of pages would exceed the processor's address cache.
            _ => match Pages::zeroed(bytes.max(Pages::LARGE)) {
                Ok(pages) => pages,
                Err(_) => handle_alloc_error(Layout::new::<T>()),
            },
        };
        self.block.insert(block).start().as_ptr().cast()
    }
}

/// Copies `L` values of each row in `block` to `to`, one row after the other. Each row is
/// multiplied by its factor if the element type scales packed values ([`Element::SCALES`]).
///
/// # Safety
/// `input` contains the rows, with `L` values each, and `to` has space for them.
#[inline(always)]
pub(super) unsafe fn pack<E: Element, const L: usize>(
    scale: Option<&[f32]>,
    input: Input<'_, E>,
    block: Range<usize>,
    to: *mut E::Packed,
) {
    let start = block.start;
    for (part, base) in input.parts(block) {
        for u in part {
            // SAFETY: the caller guarantees that the rows exist.
            let (x, to) = unsafe {
                let x = &*base.wrapping_add(u * input.stride).cast::<[E; L]>();
                (x, &mut *to.add((u - start) * L).cast::<[E::Packed; L]>())
            };
            // A factor of one changes no bit.
            let s = scale.map_or(1.0, |scale| scale[u]);
            // Copies whole registers. A loop over all L values would be unrolled value by value.
            let (x, x_rest) = x.as_chunks::<8>();
            let (to, to_rest) = to.as_chunks_mut::<8>();
            for (to, x) in to.iter_mut().zip(x) {
                *to = x.map(|x| x.packed(s));
            }
            for (to, x) in to_rest.iter_mut().zip(x_rest) {
                *to = x.packed(s);
            }
        }
    }
}

/// Computes the sums of the target rows `targets` and writes them to `out`, where the starts of
/// consecutive rows are `out_stride` values apart.
///
/// # Safety
/// `input` contains `L` values of every vertex's row, and `out` points at the values of target row
/// `targets.start`. `W` names the factors that terms still carry once the rows are packed.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
pub(super) unsafe fn sum<E: Element, const L: usize, const W: u8, const FMA: bool>(
    job: &Job<'_>,
    input: Input<'_, E>,
    targets: Range<usize>,
    (out, out_stride): (*mut f32, usize),
    (block_rows, tile_rows): (usize, usize),
    scratch: &mut Scratch,
) {
    let vertices = job.offsets.len() - 1;
    let packed = scratch.room::<E::Packed>(block_rows * L);
    for tile in targets.clone().step_by(tile_rows) {
        let tile = tile..(tile + tile_rows).min(targets.end);
        let Scratch { cursors, ends, .. } = scratch;
        cursors.clear();
        cursors.extend_from_slice(&job.offsets[tile.clone()]);
        ends.clear();
        ends.extend(tile.clone().map(|v| job.span(v).end as u64));
        // SAFETY: the rows of the tile are target rows.
        let sums = unsafe { out.add((tile.start - targets.start) * out_stride) };
        for at in 0..tile.len() {
            // SAFETY: the row is in the tile, and `out` has `L` values of it.
            unsafe { *sums.add(at * out_stride).cast::<[f32; L]>() = [0.0; L] };
        }
        for block in (0..vertices).step_by(block_rows) {
            let blocks_left = (vertices - block).div_ceil(block_rows);
            let block = block..(block + block_rows).min(vertices);
            // SAFETY: the block's rows are source rows, and the buffer has space for a block.
            unsafe { pack::<E, L>(job.source, input, block.clone(), packed) };
            for batch in (0..tile.len()).step_by(BATCH) {
                let batch = batch..(batch + BATCH).min(tile.len());
                // SAFETY: cursors and sums belong to the tile. Edges below the end of the block
                // have not been summed before unless they belong to the block, because lists
                // ascend.
                unsafe {
                    sum_batch::<E::Packed, L, W, FMA>(
                        job,
                        Straight(packed.cast_const().wrapping_sub(block.start * L), L),
                        (block.end, blocks_left),
                        (&mut cursors[..], &ends[..]),
                        batch,
                        (sums, out_stride),
                    );
                }
            }
        }
        for (part, base) in input.parts(tile.clone()) {
            for v in part {
                // SAFETY: the row is in the tile, and v is a vertex.
                unsafe {
                    let sum = &mut *sums.add((v - tile.start) * out_stride).cast::<[f32; L]>();
                    job.finish::<E, L, FMA>(sum, base.wrapping_add(v * input.stride), v);
                }
            }
        }
    }
}

/// Adds the terms of the source rows below `limit` to the sums of a batch of target rows.
/// `blocks_left` is an upper bound on the number of remaining blocks that the lists refer to,
/// including this one.
#[inline(always)]
unsafe fn sum_batch<P: Element, const L: usize, const W: u8, const FMA: bool>(
    job: &Job<'_>,
    packed: Straight<P>,
    (limit, blocks_left): (usize, usize),
    (cursors, ends): (&mut [u64], &[u64]),
    batch: Range<usize>,
    (sums, out_stride): (*mut f32, usize),
) {
    let mut classes = [[0u16; BATCH]; CLASSES + 1];
    let mut counts = [0usize; CLASSES + 1];
    for (slot, row) in batch.clone().enumerate() {
        let ahead = cursors[(row + LISTS_AHEAD).min(cursors.len() - 1)] as usize;
        let ahead = job.list.as_ptr().wrapping_add(ahead);
        prefetch::<u32, 1>(ahead);
        prefetch::<u32, 1>(ahead.wrapping_add(CLASSES - 1));
        let length = below::<FMA>(job.list, cursors[row] as usize, ends[row] as usize, limit as u32);
        debug_assert!(length <= CLASSES && slot < BATCH);
        // SAFETY: a length is a class index, and a class contains at most all rows of the batch.
        unsafe {
            let count = counts.get_unchecked_mut(length);
            *classes.get_unchecked_mut(length).get_unchecked_mut(*count) = slot as u16;
            *count += 1;
        }
    }
    for length in 1..=CLASSES {
        let class = &classes[length][..counts[length]];
        for (at, &slot) in class.iter().enumerate() {
            let row = batch.start + slot as usize;
            if let Some(&next) = class.get(at + SUMS_AHEAD) {
                let next = batch.start + next as usize;
                prefetch::<f32, L>(sums.wrapping_add(next * out_stride));
                if length == CLASSES {
                    // Estimates the segment length as if the rest of the list were spread evenly
                    // over the remaining blocks.
                    let from = cursors[next] as usize;
                    let piece = (ends[next] as usize - from) / blocks_left;
                    for line in 2..=(piece / LINE).min(MOST_LINES) {
                        prefetch::<u32, 1>(job.list.as_ptr().wrapping_add(from + line * LINE));
                    }
                }
            }
            // SAFETY: the row is in the tile, and the edges have been counted.
            unsafe {
                let at = &mut *sums.add(row * out_stride).cast::<[f32; L]>();
                let mut sum = *at;
                let mut cursor = cursors[row] as usize;
                job.add::<P, L, W, FMA>(&mut sum, packed, cursor, length);
                cursor += length;
                if length == CLASSES {
                    let end = ends[row] as usize;
                    while cursor < end && (*job.list.get_unchecked(cursor) as usize) < limit {
                        job.add::<P, L, W, FMA>(&mut sum, packed, cursor, 1);
                        cursor += 1;
                    }
                }
                *at = sum;
                cursors[row] = cursor as u64;
            }
        }
    }
}

/// Returns the number of entries at the start of the ascending `list[from..end]` that are below
/// `limit`. The result is at most [`CLASSES`].
#[inline(always)]
fn below<const FMA: bool>(list: &[u32], from: usize, end: usize, limit: u32) -> usize {
    match list.get(from..).and_then(<[u32]>::first_chunk::<CLASSES>) {
        Some(next) => {
            let left = (end - from).min(CLASSES);
            (are_below::<FMA>(next, limit) & ((1 << left) - 1)).count_ones() as usize
        }
        None => list[from..end].iter().take(CLASSES).take_while(|&&u| u < limit).count(),
    }
}

/// Returns a bit mask of the entries that are below `limit`. Bit i belongs to entry i.
#[inline(always)]
fn are_below<const FMA: bool>(entries: &[u32; CLASSES], limit: u32) -> u32 {
    // The compiler would turn the portable code below into one comparison per entry.
    #[cfg(target_arch = "x86_64")]
    if FMA {
        // SAFETY: the array has all entries. Levels with fused multiply-add have AVX2 on this
        // architecture.
        return unsafe {
            // AVX2 compares signed numbers. Flipping the sign bit makes the order that of unsigned
            // numbers.
            let turn = x86::_mm256_set1_epi32(i32::MIN);
            let limit = x86::_mm256_xor_si256(x86::_mm256_set1_epi32(limit.cast_signed()), turn);
            let eight = |at: usize| {
                let entries = x86::_mm256_loadu_si256(entries.as_ptr().add(at).cast());
                let less = x86::_mm256_cmpgt_epi32(limit, x86::_mm256_xor_si256(entries, turn));
                x86::_mm256_movemask_ps(x86::_mm256_castsi256_ps(less)).cast_unsigned()
            };
            eight(0) | eight(8) << 8
        };
    }
    entries.iter().enumerate().fold(0, |bits, (lane, &u)| bits | u32::from(u < limit) << lane)
}

/// Returns the flags of the factors that terms must still be multiplied by after rows were packed.
pub(super) fn left<E: Element>(factors: u8) -> u8 {
    if E::SCALES { factors & !SCALED } else { factors }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_ends_where_the_list_or_the_block_does_for_numbers_of_any_size() {
        // A processor without AVX2 compares one by one, and is not asked for more here.
        let fused = eciton_tensor::simd::level() >= eciton_tensor::simd::Level::Avx2;
        let near = [0, 1, 40, i32::MAX as u32 - 8, i32::MAX as u32 + 1, u32::MAX - 40];
        for first in near {
            for apart in [0, 1, 2] {
                let list: Vec<u32> = (0..40).map(|at| first.saturating_add(at * apart)).collect();
                for limit in near.into_iter().flat_map(|n| [n, n + 5, n + 39]) {
                    for (from, end) in
                        [(0, 0), (0, 3), (0, 40), (7, 23), (7, 24), (24, 40), (25, 40), (39, 40)]
                    {
                        let wanted = list[from..end].iter().take(CLASSES).filter(|&&u| u < limit).count();
                        assert_eq!(
                            below::<false>(&list, from, end, limit),
                            wanted,
                            "{first} {limit} {from}..{end}"
                        );
                        if fused {
                            assert_eq!(
                                below::<true>(&list, from, end, limit),
                                wanted,
                                "{first} {limit} {from}..{end}"
                            );
                        }
                    }
                }
            }
        }
    }
}

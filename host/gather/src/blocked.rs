//! Gather by blocks of source rows.
//!
//! Target rows are taken in tiles, and source rows in blocks that are copied, scaled, into the
//! second-level cache. Lists ascend, so a block's edges are a piece of each list that begins where
//! the last block's ended: a cursor a row is all that is kept, and additions come in the list's
//! order. A piece has few edges and their number changes from row to row, which no processor
//! predicts; so the rows of a batch are first put into classes by the length of their pieces, and
//! then summed class by class.

use std::alloc::{Layout, handle_alloc_error};
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64 as x86;
use std::ops::Range;

use eciton_tensor::pages::Pages;

use super::kernel::{Element, Job, SCALED, prefetch};
use super::reach::{Input, Straight};

/// Pieces of this many edges or more are one class.
const CLASSES: usize = 16;
/// Rows put into classes at a time: their lists' current lines stay in the first levels.
const BATCH: usize = 256;
/// Number of rows by which lists are prefetched.
const LISTS_AHEAD: usize = 16;
/// Number of rows by which sums and the remainders of long pieces are prefetched.
const SUMS_AHEAD: usize = 4;
/// Entries of a list in a line of the cache.
const LINE: usize = 16;
/// Lines of a piece that are asked for at most.
const MOST_LINES: usize = 32;

/// Working memory of a thread, which it reuses: at most one block, which fits the second-level
/// cache, and 16 bytes per row of a tile.
#[derive(Default)]
pub(super) struct Scratch {
    block: Option<Pages>,
    cursors: Vec<u64>,
    ends: Vec<u64>,
}

impl Scratch {
    /// Room for `values` values.
    pub(super) fn room<T: Element>(&mut self, values: usize) -> *mut T {
        let bytes = values * size_of::<T>();
        let block = match self.block.take() {
            Some(block) if block.bytes() >= bytes => block,
            // One large page, of which a block fills a part: small pages would be more than a
            // processor knows at a time.
            _ => match Pages::zeroed(bytes.max(Pages::LARGE)) {
                Ok(pages) => pages,
                Err(_) => handle_alloc_error(Layout::new::<T>()),
            },
        };
        self.block.insert(block).start().as_ptr().cast()
    }
}

/// Copies `L` values of rows `block` to `to`, row after row, each times its factor where the
/// element takes it.
///
/// # Safety
/// `input` has the rows, and `L` values of each; `to` has room.
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
            // SAFETY: the caller's.
            let (x, to) = unsafe {
                let x = &*base.wrapping_add(u * input.stride).cast::<[E; L]>();
                (x, &mut *to.add((u - start) * L).cast::<[E::Packed; L]>())
            };
            // A factor of one changes no bit.
            let s = scale.map_or(1.0, |scale| scale[u]);
            // Whole registers at a time: a loop over all L is unrolled value by value.
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

/// Sums rows `targets` into `out` (`out_stride` values from row to row).
///
/// # Safety
/// `input` has `L` values of every vertex's row; `out` points at those of target row
/// `targets.start`. `W` are the factors that terms still carry once rows are packed.
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
        // SAFETY: rows of the tile are targets.
        let sums = unsafe { out.add((tile.start - targets.start) * out_stride) };
        for at in 0..tile.len() {
            // SAFETY: as above.
            unsafe { *sums.add(at * out_stride).cast::<[f32; L]>() = [0.0; L] };
        }
        for block in (0..vertices).step_by(block_rows) {
            let blocks_left = (vertices - block).div_ceil(block_rows);
            let block = block..(block + block_rows).min(vertices);
            // SAFETY: the block's rows are source rows, and there is room for so many.
            unsafe { pack::<E, L>(job.source, input, block.clone(), packed) };
            for batch in (0..tile.len()).step_by(BATCH) {
                let batch = batch..(batch + BATCH).min(tile.len());
                // SAFETY: cursors and sums are the tile's; edges below the block's end have not
                // been summed before unless they are the block's, for lists ascend.
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
                // SAFETY: as above; v is a vertex.
                unsafe {
                    let sum = &mut *sums.add((v - tile.start) * out_stride).cast::<[f32; L]>();
                    job.finish::<E, L, FMA>(sum, base.wrapping_add(v * input.stride), v);
                }
            }
        }
    }
}

/// Adds what lies below source row `limit` to a batch of a tile's rows; lists may go on in so many
/// blocks, this one included.
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
        // SAFETY: a length is a class, and a class has no more rows than the batch.
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
                    // What is left of its list, as if it were spread evenly over the blocks that
                    // are left.
                    let from = cursors[next] as usize;
                    let piece = (ends[next] as usize - from) / blocks_left;
                    for line in 2..=(piece / LINE).min(MOST_LINES) {
                        prefetch::<u32, 1>(job.list.as_ptr().wrapping_add(from + line * LINE));
                    }
                }
            }
            // SAFETY: a row of the tile, and edges that were counted.
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

/// Returns the number of next entries of the ascending `list[from..end]` that are below `limit`, at
/// most [`CLASSES`].
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

/// A bit for each entry below `limit`.
#[inline(always)]
fn are_below<const FMA: bool>(entries: &[u32; CLASSES], limit: u32) -> u32 {
    // What is written below comes out as one comparison an entry.
    #[cfg(target_arch = "x86_64")]
    if FMA {
        // SAFETY: the entries are there. Levels that fuse have AVX2 on this architecture.
        return unsafe {
            // Comparisons are of signed numbers: the order is theirs once the first bit is turned.
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

/// The factors that terms still carry once rows are packed.
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

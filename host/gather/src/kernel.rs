//! Innermost loops of a gather, in which the sum of one row is held in registers.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64 as x86;
use std::ops::Range;

use eciton_tensor::half;
use eciton_tensor::simd::madd;

use super::positions::Positions;
use super::reach::Reach;

/// Element type of source rows, which is f32, or `u16` for bfloat16.
pub(super) trait Element: Copy {
    /// Element type of the values in a packed block. f32 values are scaled when they are copied.
    /// bfloat16 values are not, because scaled values would need more bytes.
    type Packed: Element;
    /// True if values are multiplied by the factor of their row when they are packed.
    const SCALES: bool;

    /// Converts the value to f32.
    fn wide(self) -> f32;

    /// Converts the value to the element type of a packed block. The value is multiplied by `scale`
    /// if [`Element::SCALES`] is true.
    fn packed(self, scale: f32) -> Self::Packed;

    /// Loads eight values and converts them to f32.
    ///
    /// # Safety
    /// Eight values must be readable at `from`, and the processor must have AVX2.
    #[cfg(target_arch = "x86_64")]
    unsafe fn eight(from: *const Self) -> x86::__m256;
}

impl Element for f32 {
    type Packed = f32;
    const SCALES: bool = true;

    #[inline(always)]
    fn wide(self) -> f32 {
        self
    }

    #[inline(always)]
    fn packed(self, scale: f32) -> f32 {
        scale * self
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn eight(from: *const f32) -> x86::__m256 {
        // SAFETY: the caller guarantees eight readable values and AVX2.
        unsafe { x86::_mm256_loadu_ps(from) }
    }
}

impl Element for u16 {
    type Packed = u16;
    const SCALES: bool = false;

    #[inline(always)]
    fn wide(self) -> f32 {
        half::widen(self)
    }

    #[inline(always)]
    fn packed(self, _: f32) -> u16 {
        self
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn eight(from: *const u16) -> x86::__m256 {
        // SAFETY: the caller guarantees eight readable values and AVX2.
        unsafe {
            let halves = x86::_mm256_cvtepu16_epi32(x86::_mm_loadu_si128(from.cast()));
            x86::_mm256_castsi256_ps(x86::_mm256_slli_epi32::<16>(halves))
        }
    }
}

/// Flag for terms that are multiplied by a factor of their source row ([`Job::factors`]).
pub(super) const SCALED: u8 = 1;
/// Flag for terms that are multiplied by a factor of their edge ([`Job::factors`]).
pub(super) const WEIGHTED: u8 = 2;

/// Arguments of a sum over adjacency lists with `V` vertices and `E` edges. The dimensions of all
/// arguments have been checked.
#[derive(Clone, Copy)]
pub(super) struct Job<'a> {
    /// The V + 1 offsets, which give the start of each vertex's list in `list`.
    pub offsets: &'a [u64],
    /// Source row of each of the E edges, which is below the number of input rows.
    pub list: &'a [u32],
    /// Factor of each source row. `None` if all factors are 1.
    pub source: Option<&'a [f32]>,
    /// Factor of each target row. `None` if all factors are 1.
    pub target: Option<&'a [f32]>,
    /// True if sums are divided by the number of their terms.
    pub mean: bool,
    /// Value of each edge, by which its term is multiplied. `None` if all values are 1.
    pub values: Option<&'a [f32]>,
    /// Index of each edge's value in `values`. If `None`, the values are in the order of the edges.
    pub positions: Option<&'a Positions>,
    /// True if each vertex's own row is added as the last term.
    pub own: bool,
    /// True for the vertices whose lists are summed, one flag per vertex. The lists of all others
    /// count as empty. If `None`, all lists are summed.
    pub wanted: Option<&'a [bool]>,
}

impl Job<'_> {
    /// Returns flags for the factors by which terms are multiplied ([`SCALED`], [`WEIGHTED`]).
    pub(super) fn factors(&self) -> u8 {
        u8::from(self.source.is_some()) * SCALED + u8::from(self.values.is_some()) * WEIGHTED
    }

    /// Returns the range of edges that are summed for vertex `v`.
    #[inline(always)]
    pub(super) fn span(&self, v: usize) -> Range<usize> {
        let from = self.offsets[v];
        let to = if self.wanted.is_none_or(|wanted| wanted[v]) { self.offsets[v + 1] } else { from };
        from as usize..to as usize
    }

    /// Returns the number of edges that are summed for the vertices in `rows`.
    pub(super) fn edges(&self, rows: Range<usize>) -> usize {
        match self.wanted {
            None => (self.offsets[rows.end] - self.offsets[rows.start]) as usize,
            Some(_) => rows.map(|v| self.span(v).len()).sum(),
        }
    }

    /// Returns the value of the edge at index `edge` of the list.
    ///
    /// # Safety
    /// `values` is `Some`, and `edge` is an index of `list`.
    #[inline(always)]
    unsafe fn value(&self, edge: usize) -> f32 {
        // SAFETY: the caller guarantees the edge. Positions are edges, which was checked when they
        // were created.
        unsafe {
            let at = match self.positions {
                None => edge,
                Some(Positions::Short(all)) => *all.get_unchecked(edge) as usize,
                Some(Positions::Long(all)) => *all.get_unchecked(edge) as usize,
            };
            *self.values.unwrap_unchecked().get_unchecked(at)
        }
    }

    /// Adds the terms of the edges `from..from + count` to `sum`. The product of a source row with
    /// its factor is rounded first. So a row that was scaled in advance gives the same bits.
    ///
    /// # Safety
    /// The edges exist, `rows` finds the rows of their sources with `L` values each, and the
    /// factors named by `W` are `Some`.
    #[inline(always)]
    pub(super) unsafe fn add<E: Element, const L: usize, const W: u8, const FMA: bool>(
        &self,
        sum: &mut [f32; L],
        rows: impl Reach<E>,
        from: usize,
        count: usize,
    ) {
        for edge in from..from + count {
            // SAFETY: the caller guarantees edges, rows and factors.
            unsafe {
                let u = *self.list.get_unchecked(edge) as usize;
                self.term::<E, L, W, FMA>(sum, rows.row(u), u, edge);
            }
        }
    }

    /// Adds the term of one edge, whose source is `u`, to `sum`.
    ///
    /// # Safety
    /// The conditions of [`Job::add`] hold, and `row` has `L` values.
    #[inline(always)]
    unsafe fn term<E: Element, const L: usize, const W: u8, const FMA: bool>(
        &self,
        sum: &mut [f32; L],
        row: *const E,
        u: usize,
        edge: usize,
    ) {
        // SAFETY: the caller guarantees the factors and the row.
        unsafe {
            let s = if W & SCALED != 0 { *self.source.unwrap_unchecked().get_unchecked(u) } else { 1.0 };
            let a = if W & WEIGHTED != 0 { self.value(edge) } else { 1.0 };
            accumulate::<E, L, W, FMA>(sum, &*row.cast::<[E; L]>(), s, a);
        }
    }

    /// Adds the vertex's own row to the sum if it is a term, and multiplies the sum by the factor
    /// of the target row.
    ///
    /// # Safety
    /// `v` is a vertex, and `row` points at the `L` input values of its row.
    #[inline(always)]
    pub(super) unsafe fn finish<E: Element, const L: usize, const FMA: bool>(
        &self,
        sum: &mut [f32; L],
        row: *const E,
        v: usize,
    ) {
        if self.own {
            // SAFETY: the caller guarantees `L` values. Products are fused only for edges, and this
            // term is not an edge.
            let x = unsafe { &*row.cast::<[E; L]>() };
            match self.source {
                Some(scale) => accumulate::<E, L, SCALED, FMA>(sum, x, scale[v], 1.0),
                None => accumulate::<E, L, 0, FMA>(sum, x, 1.0, 1.0),
            }
        }
        let factor = match self.target {
            Some(scale) => scale[v],
            None => 1.0,
        };
        let terms = self.span(v).len() + usize::from(self.own);
        let factor = if self.mean { factor / terms.max(1) as f32 } else { factor };
        if self.mean || self.target.is_some() {
            for sum in sum {
                *sum *= factor;
            }
        }
    }
}

/// Computes `sum += a (s x)` with the factors that the flags `W` name. The product with `s` is
/// rounded. The product with `a` is fused with the addition if the vector level has fused
/// multiply-add.
#[inline(always)]
fn accumulate<E: Element, const L: usize, const W: u8, const FMA: bool>(
    sum: &mut [f32; L],
    x: &[E; L],
    s: f32,
    a: f32,
) {
    // The compiler unrolls loops of these lengths before it recognises them as vectors, which
    // results in shuffles. Longer loops are not affected.
    #[cfg(target_arch = "x86_64")]
    if FMA && (L == 8 || L == 16) {
        for at in (0..L).step_by(8) {
            // SAFETY: eight of `L` values are readable. Levels with fused multiply-add have AVX2 on
            // this architecture.
            unsafe {
                let to = sum.as_mut_ptr().add(at);
                let mut x = E::eight(x.as_ptr().add(at));
                if W & SCALED != 0 {
                    x = x86::_mm256_mul_ps(x86::_mm256_set1_ps(s), x);
                }
                let old = x86::_mm256_loadu_ps(to);
                let new = if W & WEIGHTED != 0 {
                    x86::_mm256_fmadd_ps(x86::_mm256_set1_ps(a), x, old)
                } else {
                    x86::_mm256_add_ps(old, x)
                };
                x86::_mm256_storeu_ps(to, new);
            }
        }
        return;
    }
    for l in 0..L {
        let x = if W & SCALED != 0 { s * x[l].wide() } else { x[l].wide() };
        sum[l] = if W & WEIGHTED != 0 { madd::<FMA>(a, x, sum[l]) } else { sum[l] + x };
    }
}

/// Prefetches the cache lines of `L` values at `from` into the first-level cache.
#[inline(always)]
pub fn prefetch<E, const L: usize>(from: *const E) {
    for line in 0..(L * size_of::<E>()).div_ceil(64) {
        let address = from.cast::<i8>().wrapping_add(line * 64);
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a prefetch may have any address, and it reads nothing.
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address);
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: a prefetch may have any address, and it reads nothing.
        unsafe {
            std::arch::asm!("prfm pldl1keep, [{0}]", in(reg) address, options(nostack, preserves_flags, readonly));
        }
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let _ = address;
    }
}

/// Prefetches all cache lines of a row into the first-level cache.
#[inline(always)]
pub fn fetch(row: &[f32]) {
    row.chunks(16).for_each(|line| prefetch::<f32, 16>(line.as_ptr()));
}

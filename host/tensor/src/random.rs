//! Keyed random number generator of the kernel contract (`wit/kernel/kernel.wit`, interface
//! `random`). Kernels and the host draw the same bits.

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Purpose for which random numbers are drawn. It is a part of their key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Initial values of parameters.
    Initialiser = 1,
    /// Dropout masks.
    Dropout = 2,
    /// Random numbers that a kernel requests.
    Kernel = 3,
    /// Negative samples, which are pairs of vertices that are assumed to have no link. Only the
    /// host draws them.
    Negatives = 4,
    /// Rows and edges of a micro-batch (a sampled subgraph). Only the host draws them.
    Sampling = 5,
}

pub(crate) fn mix64(mut z: u64) -> u64 {
    z ^= z >> 30;
    z = z.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^= z >> 27;
    z = z.wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Key of one matrix of random numbers. Each number is a function of the key, its row and its
/// column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key(pub u64);

impl Key {
    /// Derives a key from the run's seed, the purpose, the epoch, the layer and the stream. The
    /// stream distinguishes independent matrices of one layer.
    pub fn new(seed: u64, purpose: Purpose, epoch: u32, layer: u32, stream: u32) -> Self {
        let a = mix64(seed.wrapping_add(GOLDEN));
        let b = mix64(a ^ ((purpose as u64) << 32 | u64::from(epoch)));
        Self(mix64(b ^ (u64::from(layer) << 32 | u64::from(stream))))
    }

    /// Returns the key of the row with the id `row`, as two halves (a, b).
    #[inline]
    pub fn row(self, row: u64) -> (u32, u32) {
        let r = mix64(self.0.wrapping_add(row.wrapping_add(1).wrapping_mul(GOLDEN)));
        (r as u32, (r >> 32) as u32)
    }
}

/// Returns the 32 random bits for a column of the row with the key (a, b).
#[inline(always)]
pub fn bits32((a, b): (u32, u32), column: u32) -> u32 {
    let mut x = a.wrapping_add(column.wrapping_mul(b | 1));
    x ^= x >> 16;
    x = x.wrapping_mul(0x21f0_aaad);
    x ^= x >> 15;
    x = x.wrapping_add(b);
    x = x.wrapping_mul(0xd35a_2d97);
    x ^ (x >> 15)
}

/// Converts random bits to a uniformly distributed number in [0, 1). 24 of the bits are used.
#[inline(always)]
pub fn uniform(bits: u32) -> f32 {
    (bits >> 8) as f32 * (1.0 / 16_777_216.0)
}

/// Dropout with a given probability p, which sets values to zero and scales the remaining ones.
#[derive(Debug, Clone, Copy)]
pub struct Dropout {
    /// Key of the matrix of random numbers from which the mask is derived.
    pub key: Key,
    /// Threshold below which the random bits of a value mean that it is dropped.
    pub threshold: u32,
    /// Factor by which the remaining values are multiplied, 1 / (1 - p).
    pub scale: f32,
}

impl Dropout {
    /// Creates dropout with the probability p. Returns `None` unless 0 <= p < 1.
    pub fn new(key: Key, probability: f32) -> Option<Self> {
        if !(0.0..1.0).contains(&probability) {
            return None;
        }
        let threshold = (f64::from(probability) * 4_294_967_296.0).ceil() as u32;
        Some(Self { key, threshold, scale: 1.0 / (1.0 - probability) })
    }

    /// Returns the factor of the value in column `column`, which is 0 or the scale.
    #[inline(always)]
    pub fn factor(&self, row_key: (u32, u32), column: u32) -> f32 {
        if bits32(row_key, column) < self.threshold { 0.0 } else { self.scale }
    }
}

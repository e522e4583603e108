//! The contract's generator, written down as plainly as `wit/kernel/kernel.wit` (interface `random`)
//! has it: a number is a function of (seed, purpose, epoch, layer, stream, global row, column).

/// Purpose of initialisers.
pub const INITIALISER: u64 = 1;
/// Purpose of dropout.
pub const DROPOUT: u64 = 2;
/// Purpose of kernels.
pub const KERNEL: u64 = 3;

const G: u64 = 0x9e37_79b9_7f4a_7c15;

fn mix64(mut z: u64) -> u64 {
    z ^= z >> 30;
    z = z.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^= z >> 27;
    z = z.wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    z
}

/// The key of one matrix of numbers.
pub fn key(seed: u64, purpose: u64, epoch: u32, layer: u32, stream: u32) -> u64 {
    let key = mix64(seed.wrapping_add(G));
    let key = mix64(key ^ ((purpose << 32) | u64::from(epoch)));
    mix64(key ^ ((u64::from(layer) << 32) | u64::from(stream)))
}

/// The 32 bits at (global row, column).
pub fn bits32(key: u64, row: u64, column: u32) -> u32 {
    let row_key = mix64(key.wrapping_add(row.wrapping_add(1).wrapping_mul(G)));
    let (a, b) = (row_key as u32, (row_key >> 32) as u32);
    let mut x = a.wrapping_add(column.wrapping_mul(b | 1));
    x ^= x >> 16;
    x = x.wrapping_mul(0x21f0_aaad);
    x ^= x >> 15;
    x = x.wrapping_add(b);
    x = x.wrapping_mul(0xd35a_2d97);
    x ^= x >> 15;
    x
}

/// Whether dropout with `probability` (0 <= p < 1) drops a value with these bits.
pub fn dropped(bits: u32, probability: f32) -> bool {
    // Exact: a product with a power of two only moves the exponent.
    f64::from(bits) < (f64::from(probability) * 4_294_967_296.0).ceil()
}

/// A number in [0, 1) with 24 random bits.
pub fn uniform(bits: u32) -> f64 {
    f64::from(bits >> 8) / 16_777_216.0
}

//! Random numbers by purpose. Each number depends only on the seed, the purpose and a key, not on
//! the order of calls. A different schedule therefore has the same faults.

/// Purpose of a random number, which makes numbers with the same key independent of each other.
#[derive(Clone, Copy, Debug)]
#[repr(u64)]
pub(crate) enum Purpose {
    Jitter = 1,
    Straggler,
    Crash,
    CrashTime,
    Lost,
    Doubled,
    DoubledTime,
    Backoff,
    Preempted,
    Burst,
    BurstPlace,
}

/// Returns `value` with its bits mixed by the finaliser of SplitMix64.
const fn mix(value: u64) -> u64 {
    let z = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Returns a uniform random number in [0, 1) with 53 random bits. It depends only on the arguments.
pub(crate) fn unit(seed: u64, purpose: Purpose, key: &[u64]) -> f64 {
    let start = mix(seed ^ (purpose as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let bits = key.iter().fold(start, |sum, &part| {
        mix(sum.wrapping_add(0x9e37_79b9_7f4a_7c15) ^ mix(part.wrapping_add(0x632b_e59b_d9b4_e019)))
    });
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_spread_evenly_and_depend_on_every_part_of_the_key() {
        let mut tenths = [0u32; 10];
        for i in 0..100_000u64 {
            tenths[(unit(7, Purpose::Lost, &[i % 10, i / 10]) * 10.0) as usize] += 1;
        }
        // 10,000 each; five standard deviations are 475.
        assert!(tenths.iter().all(|count| count.abs_diff(10_000) < 475), "{tenths:?}");
        let one = unit(7, Purpose::Lost, &[1, 2]);
        for other in [
            unit(8, Purpose::Lost, &[1, 2]),
            unit(7, Purpose::Crash, &[1, 2]),
            unit(7, Purpose::Lost, &[2, 1]),
            unit(7, Purpose::Lost, &[1, 2, 0]),
        ] {
            assert_ne!(one, other);
        }
    }
}

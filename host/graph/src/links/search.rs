//! Interleaved binary searches, whose steps overlap. A single binary search would wait for memory
//! at every step.

/// Number of searches that are interleaved.
pub(super) const LANES: usize = 16;

/// Returns true for each value that its list contains. The lists must be in ascending order.
pub(super) fn contained(lists: &[&[u32]; LANES], values: &[u32; LANES]) -> [bool; LANES] {
    // The last entry that is not above the value, if there is one, is among `left` entries starting
    // at `from`.
    let (mut from, mut left) = ([0; LANES], lists.map(<[u32]>::len));
    let mut most = left.into_iter().max().unwrap_or(0);
    while most > 1 {
        for lane in 0..LANES {
            let half = left[lane] / 2;
            let fits = lists[lane].get(from[lane] + half).is_some_and(|&found| found <= values[lane]);
            from[lane] += if fits { half } else { 0 };
            left[lane] -= half;
        }
        most -= most / 2;
    }
    std::array::from_fn(|lane| lists[lane].get(from[lane]) == Some(&values[lane]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix64;

    #[test]
    fn as_one_by_one() {
        let seed = 29;
        println!("seed {seed}");
        let mut random = SplitMix64::new(seed);
        for case in 0..2000 {
            let all: Vec<Vec<u32>> = (0..LANES)
                .map(|_| {
                    let most = [0, 1, 2, 9, 300][random.below(5) as usize];
                    let mut list: Vec<u32> = (0..most).map(|_| random.below(90) as u32).collect();
                    list.sort_unstable();
                    // Parallel edges stand side by side.
                    if random.below(2) == 0 {
                        list.dedup();
                    }
                    list
                })
                .collect();
            let lists: [&[u32]; LANES] = std::array::from_fn(|lane| &all[lane][..]);
            let values = std::array::from_fn(|_| match random.below(9) {
                0 => 0,
                1 => u32::MAX,
                _ => random.below(92) as u32,
            });
            let wanted: [bool; LANES] = std::array::from_fn(|lane| lists[lane].contains(&values[lane]));
            assert_eq!(contained(&lists, &values), wanted, "case {case}");
        }
    }
}

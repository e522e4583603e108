//! Metrics of link prediction, which measure how well scores separate links from pairs without a
//! link. Every metric treats NaN as the lowest score.

use eciton_tensor::View;

use super::Pair;
use crate::metrics::{area, precision, rank_key};
use crate::pairs::inner_products;
use eciton_input::threads::{on_threads, threads_for};

/// Returns the logit of each pair, which is the inner product of its two rows of `z`. The logit is
/// NaN if a row does not exist.
pub fn pair_scores(z: View<'_>, pairs: &[Pair]) -> Vec<f32> {
    let values = (pairs.len() as u64).saturating_mul(z.columns() as u64);
    scores_with(z, pairs, threads_for(values / 4))
}

fn scores_with(z: View<'_>, pairs: &[Pair], threads: usize) -> Vec<f32> {
    let mut scores = vec![0.0; pairs.len()];
    let share = pairs.len().div_ceil(threads.max(1)).max(1);
    let work = pairs.chunks(share).zip(scores.chunks_mut(share)).collect();
    on_threads(work, |(pairs, scores)| inner_products(z, pairs, scores));
    scores
}

fn key(score: f32) -> u64 {
    rank_key(f64::from(score))
}

/// Returns the area under the ROC curve. It is the probability that a link scores higher than a
/// pair without a link, where equal scores count half. Returns `None` without links or without
/// other pairs.
pub fn pair_area(links: &[f32], others: &[f32]) -> Option<f64> {
    area(&mut ranked(links, others))
}

/// Returns the average precision of links among other pairs, as defined by
/// [`average_precision`](crate::metrics::average_precision). Returns `None` without links or
/// without other pairs.
pub fn pair_precision(links: &[f32], others: &[f32]) -> Option<f64> {
    precision(&mut ranked(links, others))
}

fn ranked(links: &[f32], others: &[f32]) -> Vec<(u64, bool)> {
    let of = |scores: &[f32], holds| scores.iter().map(|&s| (key(s), holds)).collect::<Vec<_>>();
    let mut ranked = of(links, true);
    ranked.extend(of(others, false));
    ranked
}

/// Returns the fraction of links that score above the `k`-th highest of the other pairs, known as
/// `hits@K` (Hu et al. 2020, Open Graph Benchmark). It is 1 if there are fewer than `k` other
/// pairs. Returns `None` without links, and for `k` = 0.
pub fn hits_at(k: usize, links: &[f32], others: &[f32]) -> Option<f64> {
    if links.is_empty() || k == 0 {
        return None;
    }
    if others.len() < k {
        return Some(1.0);
    }
    let mut others: Vec<u64> = others.iter().map(|&s| key(s)).collect();
    let (_, &mut least, _) = others.select_nth_unstable_by(k - 1, |a, b| b.cmp(a));
    let hits = links.iter().filter(|&&s| key(s) > least).count();
    Some(hits as f64 / links.len() as f64)
}

/// Returns the mean of 1 / rank of each link among its own other pairs. The pairs of link i are
/// `others[i * each..(i + 1) * each]`. Returns `None` without links, and if the number of other
/// pairs is not `each` per link.
///
/// The rank is 1, plus half of the other pairs that score higher, plus half of those that score at
/// least as high. It is the middle of the best and the worst rank among equal scores. This is `mrr`
/// of the Open Graph Benchmark's evaluators (Hu et al. 2020), which call these two the optimistic
/// and the pessimistic rank.
pub fn mean_reciprocal_rank(links: &[f32], others: &[f32], each: usize) -> Option<f64> {
    if links.is_empty() || links.len().checked_mul(each) != Some(others.len()) {
        return None;
    }
    let reciprocal = |(i, &link): (usize, &f32)| {
        let own = &others[i * each..(i + 1) * each];
        let halves = |&other: &f32| match key(other).cmp(&key(link)) {
            std::cmp::Ordering::Greater => 2,
            std::cmp::Ordering::Equal => 1,
            std::cmp::Ordering::Less => 0,
        };
        let halves: u64 = own.iter().map(halves).sum();
        1.0 / (1.0 + halves as f64 / 2.0)
    };
    Some(links.iter().enumerate().map(reciprocal).sum::<f64>() / links.len() as f64)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::random::SplitMix64;

    const NAN: f32 = f32::NAN;

    /// Returns true if score `a` is above `b`. NaN is below every other score and equal to itself.
    fn above(a: f32, b: f32) -> bool {
        a > b || !a.is_nan() && b.is_nan()
    }

    #[test]
    fn as_they_are_defined() {
        let seed = 43;
        println!("seed {seed}");
        let mut random = SplitMix64::new(seed);
        let few = [NAN, -NAN, f32::NEG_INFINITY, -1.5, -0.0, 0.0, 2.0, f32::INFINITY];
        for case in 0..400 {
            let mut score = || match case % 2 {
                0 => few[random.below(8) as usize],
                _ => random.below(50) as f32 - 25.0,
            };
            let (count, each) = (case % 7, case % 5);
            let links: Vec<f32> = (0..count).map(|_| score()).collect();
            let others: Vec<f32> = (0..count * each).map(|_| score()).collect();
            let pairs = links.iter().flat_map(|&a| others.iter().map(move |&b| (a, b)));
            let halves: Vec<f64> =
                pairs.map(|(a, b)| f64::from(u8::from(above(a, b)) + u8::from(!above(b, a))) / 2.0).collect();
            let area = pair_area(&links, &others);
            assert_eq!(area.is_none(), halves.is_empty());
            if let Some(area) = area {
                let expected = halves.iter().sum::<f64>() / halves.len() as f64;
                assert!((area - expected).abs() < 1e-12, "case {case}: {area}, but {expected}");
            }
            for k in 0..8 {
                // Above the k-th highest: fewer than k others are at least as high.
                let hit = |&&a: &&f32| others.iter().filter(|&&b| !above(a, b)).count() < k;
                let expected = links.iter().filter(hit).count() as f64 / count as f64;
                let expected = (count > 0 && k > 0).then_some(if others.len() < k { 1.0 } else { expected });
                assert_eq!(hits_at(k, &links, &others), expected, "case {case}, k {k}");
            }
            let rank = |(i, &a): (usize, &f32)| {
                let own = &others[i * each..][..each];
                let optimistic = own.iter().filter(|&&b| above(b, a)).count();
                let pessimistic = own.iter().filter(|&&b| !above(a, b)).count();
                1.0 / (0.5 * (optimistic + pessimistic) as f64 + 1.0)
            };
            let expected = links.iter().enumerate().map(rank).sum::<f64>() / count as f64;
            let found = mean_reciprocal_rank(&links, &others, each);
            assert_eq!(found, (count > 0).then_some(expected), "case {case}");
        }
    }

    #[test]
    fn worked_by_hand() {
        let (links, others) = ([3.0, 1.0], [2.0, 1.0, 0.0, 4.0]);
        // Pairs won: 3 of 4, and 1 and a half of 4.
        assert_eq!(pair_area(&links, &others), Some(4.5 / 8.0));
        assert_eq!([1, 2, 3, 5].map(|k| hits_at(k, &links, &others)), [0.0, 0.5, 0.5, 1.0].map(Some));
        // Ranks 1 and 2.
        assert_eq!(mean_reciprocal_rank(&links, &others, 2), Some(0.75));
        // Equal ones: between 1 and 3, so 2.
        assert_eq!(mean_reciprocal_rank(&[1.0], &[1.0, 1.0], 2), Some(0.5));
        assert_eq!(mean_reciprocal_rank(&[NAN], &[0.0], 1), Some(0.5));
        assert_eq!(mean_reciprocal_rank(&[1.0], &[], 0), Some(1.0));
        assert_eq!(mean_reciprocal_rank(&links, &others, 3), None);
        assert_eq!(mean_reciprocal_rank(&links, &[], usize::MAX), None);
        assert_eq!((pair_area(&[], &others), pair_area(&links, &[])), (None, None));
        assert_eq!((hits_at(1, &[], &others), hits_at(0, &links, &others)), (None, None));
    }

    #[test]
    fn scores_are_inner_products() {
        let seed = 47;
        println!("seed {seed}");
        let mut random = SplitMix64::new(seed);
        for columns in [1, 7, 16, 33, 64] {
            let z: Vec<f32> = (0..20 * columns).map(|_| random.below(2001) as f32 * 0.001 - 1.0).collect();
            let pairs: Vec<Pair> =
                (0..90).map(|_| (random.below(20) as u32, random.below(20) as u32)).collect();
            let view = View::new(&z, 20, columns);
            let scores = pair_scores(view, &pairs);
            for (&(a, b), &score) in pairs.iter().zip(&scores) {
                let terms = view.row(a as usize).iter().zip(view.row(b as usize));
                let expected: f64 = terms.map(|(&a, &b)| f64::from(a) * f64::from(b)).sum();
                assert!((f64::from(score) - expected).abs() < 1e-5, "{score}, but {expected}");
            }
            for threads in [2, 7, 1000] {
                assert_eq!(scores_with(view, &pairs, threads), scores, "{threads} threads");
            }
            assert!(pair_scores(view, &[(0, 20), (u32::MAX, 1)]).iter().all(|score| score.is_nan()));
            assert!(pair_scores(view, &[]).is_empty());
        }
    }
}

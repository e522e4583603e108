//! Attention among the tokens of a sequence (Vaswani et al. 2017, section 3.2), for a block of tokens
//! at a time, so that what lies between its steps stays in the first-level cache.
//!
//! For the queries Q, keys K and values V of a head, P = softmax(scale Q K^T) and Y = P V. Gradients
//! are dV = P^T dY, dS = scale P (dY V^T - sum over a row of P dY V^T), dQ = dS K and dK = dS^T Q.

use super::super::masked::{Growing, LANES, softmax_runs, softmax_runs_backward};
use super::lines::Lines;
use super::{Laid, Scratch, lanes, transposed_product};
use crate::view::{View, ViewMut};

/// Number of tokens whose shares are computed at a time.
const BLOCK: usize = 32;

/// Extents of attention among the tokens of sequences.
#[derive(Debug, Clone, Copy)]
pub struct Attention {
    /// Number of heads.
    pub heads: usize,
    /// Number of values of a head.
    pub features: usize,
    /// Number of tokens in a sequence. They are consecutive rows.
    pub group: usize,
    /// True if a token attends only to itself and to the tokens before it.
    pub causal: bool,
    /// Factor of the scores.
    pub scale: f32,
}

/// Consecutive tokens of a sequence.
#[derive(Debug, Clone, Copy)]
struct Tokens {
    first: usize,
    count: usize,
    /// Number of tokens of the sequence to which any of them attends.
    seen: usize,
}

/// Working memory of an attention.
#[derive(Debug, Default)]
pub(super) struct Attended {
    values: Vec<f32>,
    packed: [Lines; 3],
}

impl Attention {
    fn blocks(self) -> impl Iterator<Item = Tokens> {
        (0..self.group).step_by(BLOCK).map(move |first| {
            let count = BLOCK.min(self.group - first);
            Tokens { first, count, seen: if self.causal { first + count } else { self.group } }
        })
    }

    /// Returns the distance between the scores of consecutive tokens, in values.
    fn stride(self) -> usize {
        self.group.next_multiple_of(LANES)
    }

    /// Returns the runs of the scores of `tokens`, each of which has the tokens to which a token attends.
    fn runs(self, tokens: Tokens) -> Growing {
        let first = if self.causal { tokens.first + 1 } else { self.group };
        Growing { stride: self.stride(), count: tokens.count, first, grows: self.causal }
    }

    /// Returns the queries, the keys or the values of a head (`of` is 0, 1 or 2).
    fn of<'a>(self, sequence: View<'a>, head: usize, of: usize) -> View<'a> {
        sequence.columns_from((of * self.heads + head) * self.features, self.features)
    }

    /// Computes the shares of `tokens`: `scores` = q K^T, and `shares` = their softmax. Shares of tokens
    /// to which a token does not attend are zero. `keys` is K^T.
    fn shares(self, q: View<'_>, keys: Laid<'_>, tokens: Tokens, [scores, shares]: [&mut [f32]; 2]) {
        let Tokens { first, count, seen } = tokens;
        let mut into = ViewMut::padded(scores, count, seen, self.stride());
        keys.first_columns(seen).multiply(q.slice(first, count), false, &mut into);
        shares[..count * self.stride()].fill(0.0);
        softmax_runs(scores, self.runs(tokens), self.scale, shares);
    }
}

/// Copies rows of `columns` values, which are `lanes(columns)` apart, to `out` from row `row` and column
/// `column` on.
fn copy(from: &[f32], columns: usize, out: &mut ViewMut<'_>, (row, column): (usize, usize)) {
    for (i, from) in from.chunks_exact(lanes(columns)).enumerate() {
        out.row_mut(row + i)[column..column + columns].copy_from_slice(&from[..columns]);
    }
}

/// Returns the number of values of the shares, scores and their gradients that are stored at once, for
/// sequences of `group` tokens.
pub fn attention_values(group: usize) -> usize {
    3 * BLOCK.min(group) * group.next_multiple_of(LANES)
}

/// Computes `out` [n, heads features], the attention of the rows x [n, 3 heads features] = [Q | K | V].
/// n must be a multiple of the number of tokens in a sequence.
pub fn attend(x: View<'_>, by: Attention, out: &mut ViewMut<'_>, scratch: &mut Scratch) {
    if x.rows() == 0 {
        return;
    }
    let Attention { heads, features, group, .. } = by;
    let (each, width) = (BLOCK.min(group) * by.stride(), lanes(features));
    let Attended { values, packed: [of_keys, of_values, _] } = &mut scratch.attended;
    values.resize(values.len().max(2 * each + BLOCK * width), 0.0);
    let (scores, rest) = values.split_at_mut(each);
    let (shares, result) = rest.split_at_mut(each);
    for start in (0..x.rows()).step_by(group) {
        let sequence = x.slice(start, group);
        for head in 0..heads {
            let (q, k, v) = (by.of(sequence, head, 0), by.of(sequence, head, 1), by.of(sequence, head, 2));
            let keys = Laid::new(k, true, group, of_keys);
            let v = Laid::new(v, false, group, of_values);
            for tokens in by.blocks() {
                let Tokens { first, count, seen } = tokens;
                by.shares(q, keys, tokens, [scores, shares]);
                let shares = View::padded(shares, count, seen, by.stride());
                let result = &mut result[..count * width];
                v.first_rows(seen).multiply(
                    shares,
                    false,
                    &mut ViewMut::padded(result, count, features, width),
                );
                copy(result, features, out, (start + first, head * features));
            }
        }
    }
}

/// Computes `out`, the gradient of x, given the gradient `grad` of the result of [`attend`].
pub fn attend_backward(
    x: View<'_>,
    by: Attention,
    grad: View<'_>,
    out: &mut ViewMut<'_>,
    scratch: &mut Scratch,
) {
    if x.rows() == 0 {
        return;
    }
    let Attention { heads, features, group, .. } = by;
    let (each, width) = (BLOCK.min(group) * by.stride(), lanes(features));
    let Attended { values, packed: [of_keys, of_values, of_rows] } = &mut scratch.attended;
    values.resize(values.len().max(3 * each + (2 * group + BLOCK) * width), 0.0);
    let (scores, rest) = values.split_at_mut(each);
    let (shares, rest) = rest.split_at_mut(each);
    let (grads, rest) = rest.split_at_mut(each);
    let (dk, rest) = rest.split_at_mut(group * width);
    let (dv, result) = rest.split_at_mut(group * width);
    for start in (0..x.rows()).step_by(group) {
        let (sequence, grad) = (x.slice(start, group), grad.slice(start, group));
        for head in 0..heads {
            let (q, k, v) = (by.of(sequence, head, 0), by.of(sequence, head, 1), by.of(sequence, head, 2));
            let d = grad.columns_from(head * features, features);
            let (keys, v) = (Laid::new(k, true, group, of_keys), Laid::new(v, true, group, of_values));
            let k = Laid::new(k, false, group, of_rows);
            dk.fill(0.0);
            dv.fill(0.0);
            for tokens in by.blocks() {
                let Tokens { first, count, seen } = tokens;
                by.shares(q, keys, tokens, [scores, shares]);
                let (q, d) = (q.slice(first, count), d.slice(first, count));
                let mut into = ViewMut::padded(grads, count, seen, by.stride());
                v.first_columns(seen).multiply(d, false, &mut into);
                scores[..count * by.stride()].fill(0.0);
                softmax_runs_backward(shares, grads, by.runs(tokens), by.scale, scores);
                let [shares, scores] =
                    [&*shares, &*scores].map(|of| View::padded(of, count, seen, by.stride()));
                let result = &mut result[..count * width];
                k.first_rows(seen).multiply(
                    scores,
                    false,
                    &mut ViewMut::padded(result, count, features, width),
                );
                copy(result, features, out, (start + first, head * features));
                transposed_product(scores, q, &mut dk[..seen * width]);
                transposed_product(shares, d, &mut dv[..seen * width]);
            }
            copy(&dk[..group * width], features, out, (start, (heads + head) * features));
            copy(&dv[..group * width], features, out, (start, (2 * heads + head) * features));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::mix64;

    fn values(seed: u64, count: usize) -> Vec<f32> {
        (0..count as u64).map(|i| (mix64(seed << 32 | i) >> 40) as f32 / (1 << 23) as f32 - 1.0).collect()
    }

    /// Returns the result for rows x, in f64.
    fn exact(x: &[f64], by: Attention, sequences: usize) -> Vec<f64> {
        let Attention { heads, features, group, causal, scale } = by;
        let width = heads * features;
        let mut y = vec![0.0; sequences * group * width];
        let at = |row: usize, of: usize, head: usize, f: usize| {
            x[row * 3 * width + of * width + head * features + f]
        };
        for (sequence, head) in (0..sequences).flat_map(|s| (0..heads).map(move |head| (s, head))) {
            let row = |t: usize| sequence * group + t;
            for t in 0..group {
                let seen = if causal { t + 1 } else { group };
                let score = |u: usize| {
                    (0..features).map(|f| at(row(t), 0, head, f) * at(row(u), 1, head, f)).sum::<f64>()
                };
                let powers: Vec<f64> = (0..seen).map(|u| (f64::from(scale) * score(u)).exp()).collect();
                let sum: f64 = powers.iter().sum();
                for f in 0..features {
                    let mixed: f64 = (0..seen).map(|u| powers[u] / sum * at(row(u), 2, head, f)).sum();
                    y[row(t) * width + head * features + f] = mixed;
                }
            }
        }
        y
    }

    #[test]
    fn results_and_gradients_are_near_the_exact_ones() {
        let mut scratch = Scratch::default();
        for (heads, features, group, causal) in [
            (1, 1, 1, true),
            (2, 4, 8, true),
            (2, 5, 33, true),
            (3, 16, 40, false),
            (1, 20, 70, true),
            (2, 33, 9, false),
        ] {
            let by = Attention { heads, features, group, causal, scale: 0.4 };
            let (sequences, width) = (2, heads * features);
            let (n, wide) = (sequences * group, 3 * width);
            let (x, grad) = (values(1, n * wide), values(2, n * width));
            let (mut y, mut dx) = (vec![9.0; n * width], vec![9.0; n * wide]);
            attend(View::new(&x, n, wide), by, &mut ViewMut::new(&mut y, n, width), &mut scratch);
            let of = View::new(&grad, n, width);
            attend_backward(
                View::new(&x, n, wide),
                by,
                of,
                &mut ViewMut::new(&mut dx, n, wide),
                &mut scratch,
            );
            let x: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
            for (found, wanted) in y.iter().zip(exact(&x, by, sequences)) {
                assert!((f64::from(*found) - wanted).abs() < 1e-5, "{by:?}: {found}, not {wanted}");
            }
            let loss = |x: &[f64]| -> f64 {
                exact(x, by, sequences).iter().zip(&grad).map(|(y, &g)| y * f64::from(g)).sum()
            };
            for probe in 0..40 {
                let at = (mix64(probe) % x.len() as u64) as usize;
                let moved = |by: f64| {
                    let mut x = x.clone();
                    x[at] += by;
                    loss(&x)
                };
                let wanted = (moved(1e-5) - moved(-1e-5)) / 2e-5;
                assert!((f64::from(dx[at]) - wanted).abs() < 1e-4, "{by:?} {at}: {}, not {wanted}", dx[at]);
            }
        }
    }
}

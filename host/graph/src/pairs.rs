//! Loss of link prediction, in which the inner product of two rows predicts whether they are
//! linked.

use std::ops::Range;

use eciton_tensor::ops::activation::exp;
use eciton_tensor::simd::{dispatch, madd};
use eciton_tensor::{View, ViewMut};

use eciton_gather::{Sources, fetch};

use crate::adjacency::Graph;
use crate::links::{Links, Negatives, Pair};

/// Number of pairs that are processed together. Their rows and scores fit into the first-level
/// cache.
const CHUNK: usize = 32;

/// Number of partial sums of an inner product.
const LANES: usize = 16;

/// Loss of link prediction over linked and unlinked pairs of rows, and its gradient.
#[derive(Debug, Clone, Copy)]
pub struct Pairs<'a> {
    /// Graph whose links are the pairs with the label 1.
    pub graph: &'a Graph,
    /// Unlinked pairs, which have the label 0.
    pub negatives: &'a Negatives,
    /// Factor by which the loss of each pair is multiplied.
    pub weight: f32,
}

impl Pairs<'_> {
    /// Computes `sum over pairs of weight * loss` and its gradient for the rows in `rows`. The
    /// gradient is written to `gradient`, one row per row. Half of the loss of each row's pairs is
    /// written to `losses`. `input` contains all rows.
    ///
    /// # Panics
    /// Panics if the dimensions of the arguments differ or if the rows are not f32. The arguments
    /// come from one compiled program, so this is a fault of the caller.
    pub fn run<'x>(
        &self,
        input: impl Into<Sources<'x>>,
        rows: Range<usize>,
        gradient: &mut ViewMut<'_>,
        losses: &mut [f32],
    ) {
        let input = input.into();
        let vertices = self.graph.vertices() as usize;
        assert!(input.rows() == vertices && self.negatives.rows() == vertices);
        assert!(input.is_f32(), "pairs read f32");
        assert!(rows.start <= rows.end && rows.end <= vertices);
        assert!(gradient.rows() == rows.len() && gradient.columns() == input.columns());
        assert!(losses.len() == rows.len());
        match input.columns() {
            16 => sum_by::<16>(self, input, rows, gradient, losses),
            32 => sum_by::<32>(self, input, rows, gradient, losses),
            64 => sum_by::<64>(self, input, rows, gradient, losses),
            _ => sum_by::<0>(self, input, rows, gradient, losses),
        }
    }
}

dispatch! {
    fn sum_by[const C: usize](of: &Pairs<'_>, input: Sources<'_>, rows: Range<usize>, gradient: &mut ViewMut<'_>, losses: &mut [f32]) = sum
}

dispatch! {
    /// Computes the inner products of pairs of rows of `z`. The result is NaN if a row does not
    /// exist.
    pub(crate) fn inner_products(z: View<'_>, pairs: &[Pair], into: &mut [f32]) = products
}

#[inline(always)]
fn products<const FMA: bool>(z: View<'_>, pairs: &[Pair], into: &mut [f32]) {
    for (&(a, b), into) in pairs.iter().zip(into) {
        let (a, b) = (a as usize, b as usize);
        *into = if a.max(b) < z.rows() { product::<FMA>(z.row(a), z.row(b)) } else { f32::NAN };
    }
}

#[inline(always)]
fn sum<const C: usize, const FMA: bool>(
    of: &Pairs<'_>,
    input: Sources<'_>,
    rows: Range<usize>,
    gradient: &mut ViewMut<'_>,
    losses: &mut [f32],
) {
    let links = Links::new(of.graph);
    for ((local, v), to_loss) in rows.enumerate().zip(losses) {
        let own = input.row(v);
        let to = gradient.row_mut(local);
        to.fill(0.0);
        let mut loss = 0.0;
        let negatives = of.negatives.partners(v as u32).iter().map(|&u| (u, 1.0));
        let mut others = links.partners(v as u32).map(|u| (u, -1.0)).chain(negatives);
        loop {
            let mut from: [&[f32]; CHUNK] = [&[]; CHUNK];
            // Computes 1 - 2 y, and x. Padding values have no effect.
            let (mut signs, mut scores) = ([0.0f32; CHUNK], [0.0f32; CHUNK]);
            let mut count = 0;
            for ((from, sign), (u, of_pair)) in from.iter_mut().zip(&mut signs).zip(others.by_ref()) {
                (*from, *sign) = (input.row(u as usize), of_pair);
                fetch(from);
                count += 1;
            }
            if count == 0 {
                break;
            }
            for ((score, from), sign) in scores.iter_mut().zip(&from[..count]).zip(&signs) {
                *score = sign * dot::<C, FMA>(own, from);
            }
            let mut small = [0.0; CHUNK];
            small.iter_mut().zip(&scores).for_each(|(small, x)| *small = exp(-x.abs()));
            loss += softplus(&scores[..count], &small);
            for ((score, &small), sign) in scores.iter_mut().zip(&small).zip(&signs) {
                *score = of.weight * sign * sigmoid(*score, small);
            }
            add::<C, FMA>(&from[..count], &scores, to);
            if count < CHUNK {
                break;
            }
        }
        *to_loss = (0.5 * f64::from(of.weight) * loss) as f32;
    }
}

/// Returns the inner product of two rows. If C > 0, the rows have C values, which allows the
/// compiler to unroll the loop.
#[inline(always)]
fn dot<const C: usize, const FMA: bool>(a: &[f32], b: &[f32]) -> f32 {
    match (a.first_chunk::<C>(), b.first_chunk::<C>()) {
        (Some(a), Some(b)) if C > 0 => product::<FMA>(a, b),
        _ => product::<FMA>(a, b),
    }
}

#[inline(always)]
fn product<const FMA: bool>(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0f32; LANES];
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    for (a, b) in a.iter().zip(b) {
        for lane in 0..LANES {
            sums[lane] = madd::<FMA>(a[lane], b[lane], sums[lane]);
        }
    }
    for (sum, (&a, &b)) in sums.iter_mut().zip(a_rest.iter().zip(b_rest)) {
        *sum = madd::<FMA>(a, b, *sum);
    }
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            sums[lane] += sums[lane + width];
        }
        width /= 2;
    }
    sums[0]
}

/// Returns the sum of `max(x, 0) + ln(1 + exp(-|x|))` over at most [`CHUNK`] scores x. `small`
/// contains `exp(-|x|)` for each of them. One logarithm of a product is enough, because the product
/// is at most 2^32.
#[inline(always)]
fn softplus(scores: &[f32], small: &[f32]) -> f64 {
    let (mut sum, mut product) = (0.0, 1.0);
    for (&x, &small) in scores.iter().zip(small) {
        sum += f64::from(if x > 0.0 { x } else { 0.0 });
        product *= 1.0 + f64::from(small);
    }
    sum + f64::ln(product)
}

/// Returns the sigmoid `1 / (1 + exp(-x))`, where `small` is `exp(-|x|)`. This form does not
/// overflow for any x.
#[inline(always)]
fn sigmoid(x: f32, small: f32) -> f32 {
    (if x >= 0.0 { 1.0 } else { small }) / (1.0 + small)
}

/// Adds `factor * row` to `to` for each row and its factor.
#[inline(always)]
fn add<const C: usize, const FMA: bool>(rows: &[&[f32]], factors: &[f32], to: &mut [f32]) {
    if let (true, Some(to)) = (C > 0, to.first_chunk_mut::<C>()) {
        // These sums stay in registers.
        let mut sums = *to;
        for (row, &factor) in rows.iter().zip(factors) {
            let Some(row) = row.first_chunk::<C>() else { continue };
            for lane in 0..C {
                sums[lane] = madd::<FMA>(factor, row[lane], sums[lane]);
            }
        }
        *to = sums;
        return;
    }
    for (row, &factor) in rows.iter().zip(factors) {
        to.iter_mut().zip(*row).for_each(|(to, &value)| *to = madd::<FMA>(factor, value, *to));
    }
}

#[cfg(test)]
mod tests;

//! Inner loops of attention, which compute one target row after the other.
//!
//! The edges of a row are processed in chunks, and the scores and weights of a chunk are computed
//! together. If a chunk has a larger score than all chunks before, the sums so far are scaled down
//! (Milakov and Gimelshein 2018, "Online normalizer calculation for softmax").

use std::ops::Range;

use eciton_tensor::ops::activation::exp;
use eciton_tensor::simd::{dispatch, madd};
use eciton_tensor::{View, ViewMut};

use super::super::Sources;
use super::super::kernel::fetch;
use super::{Attention, Heads};

/// Number of edges that are processed together. Their rows and scores fit into the first-level
/// cache.
const CHUNK: usize = 32;

/// Running sums over the edges of one target row.
struct Sums {
    /// Largest score of each head so far. The next fields are, per head, the largest score
    /// including the next chunk, the sum over all edges, and the sum over edges with positive
    /// scores.
    largest: Vec<f32>,
    grown: Vec<f32>,
    sum: Vec<f32>,
    positive: Vec<f32>,
    /// Per edge of a chunk and head, the score (later the weight) and its sign. The sign is 1 for a
    /// positive score, otherwise 0.
    weights: Vec<f32>,
    signs: Vec<f32>,
    /// Per head and feature, the sum of all terms, and the sum of the terms with positive scores.
    all: Vec<f32>,
    plus: Vec<f32>,
}

impl Sums {
    fn new(of: &Heads) -> Self {
        let [heads, chunk, values] = [of.heads, CHUNK * of.heads, of.values()].map(|n| vec![0.0; n]);
        Self {
            largest: heads.clone(),
            grown: heads.clone(),
            sum: heads.clone(),
            positive: heads,
            weights: chunk.clone(),
            signs: chunk,
            all: values.clone(),
            plus: values,
        }
    }

    fn start(&mut self) {
        self.largest.fill(f32::NEG_INFINITY);
        for part in [&mut self.sum, &mut self.positive, &mut self.all, &mut self.plus] {
            part.fill(0.0);
        }
    }

    /// Raises each head's maximum to the largest of `count` new scores, and rescales the head's
    /// sums to the new maximum.
    #[inline(always)]
    fn grow(&mut self, count: usize, (heads, features): (usize, usize)) {
        let grown = &mut self.grown[..heads];
        grown.copy_from_slice(&self.largest);
        for scores in self.weights[..count * heads].chunks_exact(heads) {
            for (now, &score) in grown.iter_mut().zip(scores) {
                *now = if score > *now { score } else { *now };
            }
        }
        for head in 0..heads {
            let (before, now) = (self.largest[head], self.grown[head]);
            if now > before {
                // Before the first chunk nothing has been summed.
                let shrink = exp(before - now);
                self.largest[head] = now;
                self.sum[head] *= shrink;
                self.positive[head] *= shrink;
                let span = head * features..(head + 1) * features;
                self.all[span.clone()].iter_mut().for_each(|value| *value *= shrink);
                self.plus[span].iter_mut().for_each(|value| *value *= shrink);
            }
        }
    }

    /// Replaces each of the first `count` scores by `leaky(score)`, and records whether the score
    /// was positive.
    #[inline(always)]
    fn activate(&mut self, count: usize, slope: f32) {
        for (score, sign) in self.weights[..count].iter_mut().zip(&mut self.signs) {
            let positive = *score > 0.0;
            *sign = if positive { 1.0 } else { 0.0 };
            *score *= if positive { 1.0 } else { slope };
        }
    }

    /// Adds the terms `weight * values` of a chunk's edges to the sums of each head. `from`
    /// contains the source rows. `step` is the distance between the values of two heads in a row.
    /// It is 0 if all heads share the same values.
    #[inline(always)]
    fn add<const F: usize, const H: usize, const FMA: bool>(
        &mut self,
        from: &[&[f32]],
        features: usize,
        step: usize,
    ) {
        let heads = if H == 0 { self.largest.len() } else { H };
        for head in 0..heads {
            let span = head * features..(head + 1) * features;
            let (all, plus) = (&mut self.all[span.clone()], &mut self.plus[span]);
            let factors = self.weights.chunks_exact(heads).zip(self.signs.chunks_exact(heads));
            let terms = from.iter().zip(factors);
            if let (true, Some(all), Some(plus)) = (F > 0, all.first_chunk_mut(), plus.first_chunk_mut()) {
                // These arrays stay in registers.
                let (mut a, mut p): ([f32; F], [f32; F]) = (*all, *plus);
                for (row, (weights, signs)) in terms {
                    let Some(values) = row[head * step..].first_chunk::<F>() else { continue };
                    let (weight, positive) = (weights[head], weights[head] * signs[head]);
                    for lane in 0..F {
                        a[lane] = madd::<FMA>(weight, values[lane], a[lane]);
                        p[lane] = madd::<FMA>(positive, values[lane], p[lane]);
                    }
                }
                (*all, *plus) = (a, p);
                continue;
            }
            for (row, (weights, signs)) in terms {
                let (weight, positive) = (weights[head], weights[head] * signs[head]);
                let values = &row[head * step..head * step + features];
                for ((all, plus), &value) in all.iter_mut().zip(&mut *plus).zip(values) {
                    *all = madd::<FMA>(weight, value, *all);
                    *plus = madd::<FMA>(positive, value, *plus);
                }
            }
        }
    }
}

pub(super) fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Returns the neighbours of a vertex in chunks of at most [`CHUNK`], followed by the vertex
/// itself.
#[inline(always)]
fn chunks<'a>(list: &'a [u32], own: &'a [u32; 1]) -> impl Iterator<Item = &'a [u32]> {
    list.chunks(CHUNK).chain(std::iter::once(&own[..]))
}

dispatch! {
    pub(super) fn forward_by[const F: usize, const H: usize](of: &Attention<'_>, input: Sources<'_>, rows: Range<usize>, out: &mut ViewMut<'_>, kept: Option<&mut ViewMut<'_>>) = forward
}

dispatch! {
    pub(super) fn backward_by[const F: usize, const H: usize](of: &Attention<'_>, turned: Sources<'_>, input: View<'_>, rows: Range<usize>, out: &mut ViewMut<'_>) = backward
}

#[inline(always)]
fn forward<const F: usize, const H: usize, const FMA: bool>(
    of: &Attention<'_>,
    input: Sources<'_>,
    rows: Range<usize>,
    out: &mut ViewMut<'_>,
    mut kept: Option<&mut ViewMut<'_>>,
) {
    let Heads { heads, features, average, slope } = of.heads.fixed::<F, H>();
    let values = heads * features;
    let (offsets, list) = (of.lists.offsets(), of.lists.neighbours());
    let mut sums = Sums::new(&of.heads);
    for (local, v) in rows.enumerate() {
        sums.start();
        let own = &input.row(v)[values + heads..];
        let list = &list[offsets[v] as usize..offsets[v + 1] as usize];
        for chunk in chunks(list, &[v as u32]) {
            let mut rows: [&[f32]; CHUNK] = [&[]; CHUNK];
            let rows = &mut rows[..chunk.len()];
            rows.iter_mut().zip(chunk).for_each(|(to, &u)| *to = input.row(u as usize));
            for (from, scores) in rows.iter().zip(sums.weights.chunks_exact_mut(heads)) {
                fetch(&from[..values]);
                let terms = from[values..].iter().zip(own);
                scores.iter_mut().zip(terms).for_each(|(score, (s, t))| *score = s + t);
            }
            sums.activate(chunk.len() * heads, slope);
            sums.grow(chunk.len(), (heads, features));
            let count = chunk.len() * heads;
            for scores in sums.weights[..count].chunks_exact_mut(heads) {
                scores.iter_mut().zip(&sums.largest).for_each(|(score, largest)| *score -= largest);
            }
            sums.weights[..count].iter_mut().for_each(|weight| *weight = exp(*weight));
            let each = sums.weights[..count].chunks_exact(heads).zip(sums.signs.chunks_exact(heads));
            for (weights, signs) in each {
                let to = sums.sum.iter_mut().zip(&mut sums.positive);
                for ((sum, positive), (&weight, sign)) in to.zip(weights.iter().zip(signs)) {
                    *sum += weight;
                    *positive += weight * sign;
                }
            }
            if let Some(drops) = of.drops {
                let key = drops.row(v);
                for (&u, weights) in chunk.iter().zip(sums.weights.chunks_exact_mut(heads)) {
                    drops.apply(key, u as usize, weights);
                }
            }
            sums.add::<F, H, FMA>(rows, features, features);
        }
        for head in 0..heads {
            let inverse = 1.0 / sums.sum[head];
            let span = head * features..(head + 1) * features;
            sums.all[span.clone()].iter_mut().for_each(|value| *value *= inverse);
            sums.plus[span].iter_mut().for_each(|value| *value *= inverse);
            sums.positive[head] *= inverse;
            sums.sum[head] = inverse;
        }
        if let Some(kept) = &mut kept {
            let parts = [&sums.plus, &sums.largest, &sums.sum, &sums.positive];
            let mut to = kept.row_mut(local);
            for part in parts.into_iter().chain(average.then_some(&sums.all)) {
                let (here, rest) = to.split_at_mut(part.len());
                here.copy_from_slice(part);
                to = rest;
            }
        }
        let to = out.row_mut(local);
        if average {
            to.fill(0.0);
            for head in sums.all.chunks_exact(features) {
                to.iter_mut().zip(head).for_each(|(to, value)| *to += value);
            }
            let share = 1.0 / heads as f32;
            to.iter_mut().for_each(|to| *to *= share);
        } else {
            to.copy_from_slice(&sums.all);
        }
    }
}

#[inline(always)]
fn backward<const F: usize, const H: usize, const FMA: bool>(
    of: &Attention<'_>,
    turned: Sources<'_>,
    input: View<'_>,
    rows: Range<usize>,
    out: &mut ViewMut<'_>,
) {
    let fixed = of.heads.fixed::<F, H>();
    let Heads { heads, features, average, slope } = fixed;
    let (values, width) = (fixed.values(), fixed.output());
    let step = if average { 0 } else { features };
    let (offsets, list) = (of.lists.offsets(), of.lists.neighbours());
    let mut sums = Sums::new(&of.heads);
    for (local, u) in rows.enumerate() {
        sums.start();
        let (z, own) = input.row(local).split_at(values);
        let list = &list[offsets[u] as usize..offsets[u + 1] as usize];
        for chunk in chunks(list, &[u as u32]) {
            let mut rows: [&[f32]; CHUNK] = [&[]; CHUNK];
            let rows = &mut rows[..chunk.len()];
            rows.iter_mut().zip(chunk).for_each(|(to, &v)| *to = turned.row(v as usize));
            for (from, scores) in rows.iter().zip(sums.weights.chunks_exact_mut(heads)) {
                fetch(&from[..width]);
                let terms = own.iter().zip(&from[width..]);
                scores.iter_mut().zip(terms).for_each(|(score, (s, t))| *score = s + t);
            }
            sums.activate(chunk.len() * heads, slope);
            for (from, scores) in rows.iter().zip(sums.weights.chunks_exact_mut(heads)) {
                let largest = &from[width + heads..];
                scores.iter_mut().zip(largest).for_each(|(score, largest)| *score -= largest);
            }
            sums.weights[..chunk.len() * heads].iter_mut().for_each(|weight| *weight = exp(*weight));
            let each = sums.weights.chunks_exact_mut(heads).zip(sums.signs.chunks_exact(heads));
            for (from, (weights, signs)) in rows.iter().zip(each) {
                let (inverse, rest) = from[width + 2 * heads..].split_at(heads);
                let to = sums.sum.iter_mut().zip(&mut sums.positive);
                let of_edge = weights.iter_mut().zip(signs).zip(inverse.iter().zip(rest));
                for ((sum, positive), ((weight, sign), (inverse, along))) in to.zip(of_edge) {
                    // A weight is at most 1. If rows of different epochs are combined, the quotient
                    // can be larger.
                    *weight = (*weight * inverse).min(1.0);
                    *sum += *weight * along;
                    *positive += *weight * along * sign;
                }
            }
            if let Some(drops) = of.drops {
                for (&v, weights) in chunk.iter().zip(sums.weights.chunks_exact_mut(heads)) {
                    drops.apply(drops.row(v as usize), u, weights);
                }
            }
            sums.add::<F, H, FMA>(rows, features, step);
        }
        let (dz, rest) = out.row_mut(local).split_at_mut(values);
        let (ds, dt) = rest.split_at_mut(heads);
        dz.copy_from_slice(&sums.all);
        dt.copy_from_slice(&turned.row(u)[width + 4 * heads..]);
        for (head, ds) in ds.iter_mut().enumerate() {
            let span = head * features..(head + 1) * features;
            let z = &z[span.clone()];
            let positive = dot(z, &sums.plus[span.clone()]) - sums.positive[head];
            let all = dot(z, &sums.all[span]) - sums.sum[head];
            *ds = (1.0 - slope) * positive + slope * all;
        }
    }
}

//! Initial values of parameters, which depend only on the parameter and the seed.
//!
//! The random numbers of a parameter have purpose 1, round 0, the parameter's `draw` as layer and
//! its `position` as stream. Rows are numbered from the first row of the parameter. A uniform
//! random number u has 24 bits. A normal random number is the inverse of the normal distribution
//! function at u + 2^-25. The inverse is computed by algorithm AS 241 (Wichura 1988, "The
//! percentage points of the normal distribution", PPND16). The logarithm in this algorithm is
//! computed by a series of the four basic operations, so that all machines get the same bits.

use eciton_program::Parameter;
use eciton_tensor::random::{Key, Purpose, bits32, uniform};
use eciton_types::Initialiser;

/// Computes the initial values of the parameter `p`. `place` is called with the row, column and
/// value of each, row by row.
pub(super) fn draw(
    p: &Parameter,
    seed: u64,
    (rows, columns): (usize, usize),
    mut place: impl FnMut(usize, usize, f32),
) {
    let key = Key::new(seed, Purpose::Initialiser, 0, p.draw, p.position);
    let number = |r: usize, c: usize| uniform(bits32(key.row(r as u64), c as u32));
    let mut each = |value: &dyn Fn(usize, usize) -> f32| {
        for r in 0..rows {
            for c in 0..columns {
                place(r, c, value(r, c));
            }
        }
    };
    let symmetric = |bound: f32| move |r, c| (2.0 * number(r, c) - 1.0) * bound;
    let normal = |r, c| quantile(f64::from(number(r, c)) + HALF_STEP);
    match p.initialiser {
        Initialiser::Zeros => each(&|_, _| 0.0),
        Initialiser::Constant(value) => each(&|_, _| value),
        Initialiser::GlorotUniform => each(&symmetric((6.0 / (rows + columns) as f64).sqrt() as f32)),
        Initialiser::Uniform(bound) => each(&symmetric(bound)),
        Initialiser::Normal(std) => each(&|r, c| (normal(r, c) * f64::from(std)) as f32),
        Initialiser::Orthogonal(gain) => {
            // Each row of `vectors` is one vector. The shorter side of the matrix is the number of
            // vectors.
            let upright = rows >= columns;
            let (count, length) = if upright { (columns, rows) } else { (rows, columns) };
            let at = |vector, along| if upright { normal(along, vector) } else { normal(vector, along) };
            let mut vectors: Vec<Vec<f64>> =
                (0..count).map(|vector| (0..length).map(|along| at(vector, along)).collect()).collect();
            orthonormalise(&mut vectors);
            each(&|r, c| {
                let (vector, along) = if upright { (c, r) } else { (r, c) };
                let found = vectors.get(vector).and_then(|vector| vector.get(along));
                (found.copied().unwrap_or(0.0) * f64::from(gain)) as f32
            });
        }
    }
}

/// Half of the distance between two adjacent uniform random numbers. It keeps the argument of
/// [`quantile`] above 0.
const HALF_STEP: f64 = 1.0 / (1u32 << 25) as f64;

/// Orthonormalises vectors in place by the modified Gram-Schmidt process, with two passes over each
/// vector (Giraud, Langou and Rozloznik 2005).
fn orthonormalise(vectors: &mut [Vec<f64>]) {
    for at in 0..vectors.len() {
        let (before, rest) = vectors.split_at_mut(at);
        let Some(own) = rest.first_mut() else { return };
        for _ in 0..2 {
            for other in before.iter() {
                let along = dot(own, other);
                own.iter_mut().zip(other).for_each(|(own, other)| *own -= along * other);
            }
        }
        let length = dot(own, own).sqrt();
        // Vectors of 24-bit numbers are linearly dependent only with negligible probability.
        own.iter_mut().for_each(|value| *value /= length.max(f64::MIN_POSITIVE));
    }
}

/// Returns the inner product of two vectors.
fn dot(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).fold(0.0, |sum, (one, other)| sum + one * other)
}

/// Coefficients of algorithm AS 241 for the central part of the normal distribution. The numerator
/// precedes the denominator, each with ascending powers.
const MIDDLE: [[f64; 8]; 2] = [
    [
        3.387_132_872_796_366_5,
        133.141_667_891_784_38,
        1_971.590_950_306_551_3,
        13_731.693_765_509_46,
        45_921.953_931_549_87,
        67_265.770_927_008_7,
        33_430.575_583_588_13,
        2_509.080_928_730_122_7,
    ],
    [
        1.0,
        42.313_330_701_600_91,
        687.187_007_492_057_9,
        5_394.196_021_424_751,
        21_213.794_301_586_597,
        39_307.895_800_092_71,
        28_729.085_735_721_943,
        5_226.495_278_852_854,
    ],
];
/// Coefficients of algorithm AS 241 for the tails of the normal distribution, as far as 24-bit
/// numbers reach. The numerator precedes the denominator, each with ascending powers.
const TAIL: [[f64; 8]; 2] = [
    [
        1.423_437_110_749_683_5,
        4.630_337_846_156_546,
        5.769_497_221_460_691,
        3.647_848_324_763_204_5,
        1.270_458_252_452_368_4,
        0.241_780_725_177_450_6,
        0.022_723_844_989_269_184,
        7.745_450_142_783_414e-4,
    ],
    [
        1.0,
        2.053_191_626_637_759,
        1.676_384_830_183_803_8,
        0.689_767_334_985_1,
        0.148_103_976_427_480_08,
        0.015_198_666_563_616_457,
        5.475_938_084_995_345e-4,
        1.050_750_071_644_416_9e-9,
    ],
];

/// Evaluates a rational function at `x`, given the coefficients of its numerator and denominator.
fn ratio([above, below]: &[[f64; 8]; 2], x: f64) -> f64 {
    let polynomial = |of: &[f64; 8]| of.iter().rev().fold(0.0, |sum, coefficient| sum * x + coefficient);
    polynomial(above) / polynomial(below)
}

/// Returns the quantile `p` of the standard normal distribution, for 2^-25 <= `p` <= 1 - 2^-25.
fn quantile(p: f64) -> f64 {
    let from_half = p - 0.5;
    if from_half.abs() <= 0.425 {
        return from_half * ratio(&MIDDLE, 0.180_625 - from_half * from_half);
    }
    let tail = (-logarithm(if from_half < 0.0 { p } else { 1.0 - p })).sqrt();
    ratio(&TAIL, tail - 1.6) * if from_half < 0.0 { -1.0 } else { 1.0 }
}

/// Returns the natural logarithm of `x`, for 0 < `x` < 1. With `x = m 2^-n`, it is computed as `2
/// artanh((m - 1) / (m + 1)) - n ln 2`.
fn logarithm(mut x: f64) -> f64 {
    let mut halvings = 0.0;
    while x < std::f64::consts::FRAC_1_SQRT_2 {
        x *= 2.0;
        halvings += 1.0;
    }
    let s = (x - 1.0) / (x + 1.0);
    let sum = (0..20).rev().fold(0.0, |sum, k| sum * s * s + 1.0 / f64::from(2 * k + 1));
    2.0 * s * sum - halvings * std::f64::consts::LN_2
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use eciton_types::Layer;

    fn drawn(initialiser: Initialiser, (rows, columns): (usize, usize), seed: u64) -> Vec<f32> {
        let shape = vec![rows as u32, columns as u32];
        let p = Parameter {
            name: "w".into(),
            shape,
            initialiser,
            position: 0,
            draw: 3,
            layer: Layer(3),
            is_statistic: false,
        };
        let mut values = vec![f32::NAN; rows * columns];
        draw(&p, seed, (rows, columns), |r, c, value| values[r * columns + c] = value);
        values
    }

    #[test]
    fn quantiles_are_those_of_python() {
        // statistics.NormalDist().inv_cdf
        let known = [
            (0.5, 0.0),
            (0.975, 1.959_963_984_540_054),
            (0.025, -1.959_963_984_540_054),
            (0.9, 1.281_551_565_544_600_4),
            (1e-6, -4.753_424_308_822_899),
        ];
        for (p, wanted) in known {
            assert!((quantile(p) - wanted).abs() < 1e-12, "{p}: {} and {wanted}", quantile(p));
        }
        assert!((quantile(HALF_STEP) + quantile(1.0 - HALF_STEP)).abs() < 1e-9);
        for at in 1..1000 {
            let x = f64::from(at) / 1000.0;
            assert!((logarithm(x) - x.ln()).abs() < 1e-14, "{x}");
        }
    }

    #[test]
    fn normal_values_have_their_moments() {
        let values = drawn(Initialiser::Normal(0.02), (300, 200), 5);
        let mean = |of: &dyn Fn(f64) -> f64| {
            values.iter().map(|&value| of(f64::from(value) / 0.02)).sum::<f64>() / values.len() as f64
        };
        // Four standard errors of 60,000 numbers.
        assert!(mean(&|x| x).abs() < 0.017, "{}", mean(&|x| x));
        assert!((mean(&|x| x * x) - 1.0).abs() < 0.024, "{}", mean(&|x| x * x));
        assert!((mean(&|x| x.powi(4)) - 3.0).abs() < 0.16, "{}", mean(&|x| x.powi(4)));
        assert_eq!(values, drawn(Initialiser::Normal(0.02), (300, 200), 5));
        assert_ne!(values, drawn(Initialiser::Normal(0.02), (300, 200), 6));
    }

    #[test]
    fn orthogonal_values_are_at_right_angles() {
        for (rows, columns) in [(7, 4), (4, 7), (5, 5), (1, 3), (3, 1)] {
            let values = drawn(Initialiser::Orthogonal(2.0), (rows, columns), 1);
            let at = |r: usize, c: usize| f64::from(values[r * columns + c]);
            let (count, length) = (rows.min(columns), rows.max(columns));
            let entry = |vector, along| if rows >= columns { at(along, vector) } else { at(vector, along) };
            for one in 0..count {
                for other in 0..count {
                    let product: f64 = (0..length).map(|k| entry(one, k) * entry(other, k)).sum();
                    let wanted = if one == other { 4.0 } else { 0.0 };
                    assert!((product - wanted).abs() < 1e-5, "{rows} x {columns}: {one}, {other}: {product}");
                }
            }
        }
    }
}

//! Tests of dense products and their gradients, against a reference in f64.

use crate::common::*;
use eciton_tensor::ops::activation::Activation;
use eciton_tensor::ops::product::{self, Scratch, Wanted};
use eciton_tensor::ops::prologue::{Prologue, RowIds};
use eciton_tensor::{Buffer, Grid, View, ViewMut};

/// Returns shapes (rows, k, n) with all small widths in steps of two, and some wide ones.
fn shapes(numbers: &mut Numbers) -> Vec<(usize, usize, usize)> {
    let mut all: Vec<_> = (1..=70).map(|k| (1 + numbers.below(40), k, 1 + numbers.below(70))).collect();
    all.extend((1..=70).map(|n| (1 + numbers.below(40), 1 + numbers.below(70), n)));
    all.extend([(33, 602, 128), (5, 128, 602), (70, 602, 41), (600, 20, 16), (517, 130, 7), (3, 1433, 16)]);
    all
}

struct Case {
    rows: usize,
    k: usize,
    n: usize,
    x: Vec<f32>,
    w: Vec<f32>,
    d: Vec<f32>,
    before: Vec<f32>,
    after: Vec<f32>,
}

impl Case {
    fn new(numbers: &mut Numbers, (rows, k, n): (usize, usize, usize)) -> Self {
        let mut v = |count| numbers.values(count);
        Self { rows, k, n, x: v(rows * k), w: v(k * n), d: v(rows * n), before: v(k), after: v(n) }
    }

    fn linear(&self, x: View<'_>, p: &Prologue<'_>, w: View<'_>, bias: bool, a: Activation) -> Vec<f32> {
        let out = Buffer::zeroed(self.rows, self.n).unwrap();
        let bias = bias.then_some(&self.after[..]);
        product::linear(
            x,
            p,
            w,
            bias,
            a,
            &mut out.write(0..self.rows).unwrap().view_mut(),
            &mut Scratch::default(),
        );
        out.to_vec().unwrap()
    }
}

#[test]
fn matmul_is_the_sum_of_products() {
    for seed in 1..=2 {
        let numbers = &mut Numbers(seed);
        for shape in shapes(numbers) {
            let c = Case::new(numbers, shape);
            let (rows, k, n) = shape;
            let expected = naive_product(&wide(&c.x), &wide(&c.w), rows, k, n);
            let wt: Vec<f32> = (0..k * n).map(|at| c.w[(at % k) * n + at / k]).collect();
            for transposed in [false, true] {
                let (values, r, s) = if transposed { (&wt, n, k) } else { (&c.w, k, n) };
                let views = [padded(values, r, s), numbers.column_view(values, r, s)];
                let xs = [padded(&c.x, rows, k), numbers.column_view(&c.x, rows, k)];
                for (w, x) in views
                    .iter()
                    .map(|h| h.view())
                    .chain([View::new(values, r, s)])
                    .zip(xs.iter().map(|h| h.view()).chain([View::new(&c.x, rows, k)]))
                {
                    for start in [None, Some(0.5f32)] {
                        let mut out = vec![start.unwrap_or(9.0); rows * n];
                        let mut view = ViewMut::new(&mut out, rows, n);
                        product::matmul(
                            x,
                            w,
                            transposed,
                            start.is_some(),
                            &mut view,
                            &mut Scratch::default(),
                        );
                        let expected: Vec<f64> =
                            expected.iter().map(|e| e + f64::from(start.unwrap_or(0.0))).collect();
                        close(
                            &format!("seed {seed}, {shape:?}, transposed {transposed}, start {start:?}"),
                            &out,
                            &expected,
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn linear_is_its_formula() {
    let numbers = &mut Numbers(11);
    for (at, shape) in shapes(numbers).into_iter().enumerate() {
        let (c, first) = (Case::new(numbers, shape), 1_000_000_007 * at as u64);
        let all = prologues(&c.before, first, 5);
        // All prologues at some widths, four at the others.
        let step = if at % 20 == 0 { 1 } else { 9 };
        for (i, p) in all.iter().enumerate().filter(|(i, _)| (i + at) % step == 0) {
            let (u, _) = naive_prologue(p, &c.x, c.rows, c.k);
            let after = all[(i * 7 + 3) % all.len()].activation;
            let mut expected = naive_product(&u, &wide(&c.w), c.rows, c.k, c.n);
            let bias = i % 2 == 0;
            for (j, e) in expected.iter_mut().enumerate() {
                *e = f(after, *e + if bias { f64::from(c.after[j % c.n]) } else { 0.0 });
            }
            let (x, w) = (numbers.column_view(&c.x, c.rows, c.k), padded(&c.w, c.k, c.n));
            let found = c.linear(x.view(), p, w.view(), bias, after);
            close(&format!("{shape:?} {p:?} {after:?}"), &found, &expected);
            let other = c.linear(View::new(&c.x, c.rows, c.k), p, View::new(&c.w, c.k, c.n), bias, after);
            same_bits(&format!("{shape:?} {p:?}: strides"), &found, &other);
        }
    }
}

#[test]
fn linear_backward_is_its_formula() {
    let numbers = &mut Numbers(12);
    for (at, shape) in shapes(numbers).into_iter().enumerate() {
        let c = Case::new(numbers, shape);
        let all = prologues(&c.before, at as u64, 6);
        let step = if at % 20 == 0 { 1 } else { 9 };
        for (i, p) in all.iter().enumerate().filter(|(i, _)| (i + at) % step == 0) {
            let (u, du) = naive_prologue(p, &c.x, c.rows, c.k);
            let what = format!("{shape:?} {p:?}");
            let dx = naive_product(&wide(&c.d), &transposed(&wide(&c.w), c.k, c.n), c.rows, c.n, c.k);
            let dx: Vec<f64> = dx.iter().zip(&du).map(|(a, b)| a * b).collect();
            let dw = naive_product(&transposed(&u, c.rows, c.k), &wide(&c.d), c.k, c.rows, c.n);
            let sums =
                |v: &[f64], n: usize| (0..n).map(|j| v.iter().skip(j).step_by(n).sum()).collect::<Vec<f64>>();
            // Biases have the shape [1, n] or [n, 1], with all combinations of requested gradients.
            for wanted in [15, 1 + i % 15] {
                let tall = i % 2 == 0;
                let vector =
                    |n: usize| if tall { Buffer::zeroed(n, 1) } else { Buffer::zeroed(1, n) }.unwrap();
                let (gx, gb, gw, ga) = (
                    Buffer::zeroed(c.rows, c.k).unwrap(),
                    vector(c.k),
                    Buffer::zeroed(c.k, c.n).unwrap(),
                    vector(c.n),
                );
                let mut lx = gx.write(0..c.rows).unwrap();
                let mut lw = gw.write(0..c.k).unwrap();
                let (mut lb, mut la) = (gb.write(0..gb.rows()).unwrap(), ga.write(0..ga.rows()).unwrap());
                let (mut vx, mut vw, mut vb, mut va) =
                    (lx.view_mut(), [lw.view_mut()], [lb.view_mut()], [la.view_mut()]);
                let places = Wanted {
                    x: (wanted & 1 != 0).then_some(&mut vx),
                    before_bias: (wanted & 2 != 0).then_some(&mut vb[..]),
                    w: (wanted & 4 != 0).then_some(&mut vw[..]),
                    after_bias: (wanted & 8 != 0).then_some(&mut va[..]),
                };
                let (x, d) = (numbers.column_view(&c.x, c.rows, c.k), numbers.column_view(&c.d, c.rows, c.n));
                let w = numbers.column_view(&c.w, c.k, c.n);
                let grid = Grid::single(c.rows);
                product::linear_backward(
                    x.view(),
                    p,
                    w.view(),
                    d.view(),
                    &grid,
                    places,
                    &mut Scratch::default(),
                );
                drop((lx, lw, lb, la));
                let found = [
                    (1, &gx, dx.clone()),
                    (2, &gb, sums(&dx, c.k)),
                    (4, &gw, dw.clone()),
                    (8, &ga, sums(&wide(&c.d), c.n)),
                ];
                for (bit, buffer, expected) in found {
                    if wanted & bit != 0 {
                        close(
                            &format!("{what}: gradient {bit} of {wanted}"),
                            &buffer.to_vec().unwrap(),
                            &expected,
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn a_row_has_the_same_bits_however_rows_are_cut() {
    let numbers = &mut Numbers(13);
    for (rows, k, n) in [
        (57, 16, 7),
        (57, 7, 16),
        (130, 64, 64),
        (61, 602, 128),
        (97, 128, 41),
        (40, 1433, 16),
        (1100, 33, 70),
    ] {
        let c = Case::new(numbers, (rows, k, n));
        for p in prologues(&c.before, 77, 8) {
            let (x, w) = (padded(&c.x, rows, k), padded(&c.w, k, n));
            let whole = c.linear(x.view(), &p, w.view(), true, Activation::Tanh);
            let out = Buffer::zeroed(rows, n).unwrap();
            let mut start = 0;
            while start < rows {
                let count = (1 + numbers.below(rows / 2)).min(rows - start);
                let moved = Prologue { row_ids: RowIds::From(77 + start as u64), ..p };
                let mut lease = out.write(start..start + count).unwrap();
                let x = x.view().slice(start, count);
                product::linear(
                    x,
                    &moved,
                    w.view(),
                    Some(&c.after),
                    Activation::Tanh,
                    &mut lease.view_mut(),
                    &mut Scratch::default(),
                );
                start += count;
            }
            same_bits(&format!("{rows} x {k} x {n}, {p:?}"), &whole, &out.to_vec().unwrap());
        }
    }
}

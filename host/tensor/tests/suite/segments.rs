//! Tests of runs and segments against a reference in f64. Their bits must not depend on the
//! position of rows.

use crate::common::*;
use eciton_tensor::ops::rows::{self, Reduction};
use eciton_tensor::{View, ViewMut};

/// Numbers and lengths of runs: some with a specialised loop, and some without.
const RUNS: [(usize, usize); 12] =
    [(1, 1), (1, 7), (1, 8), (1, 16), (1, 32), (1, 64), (2, 64), (3, 5), (8, 8), (8, 16), (4, 33), (11, 2)];

fn two(at: usize, columns: usize) -> (usize, usize) {
    (at / columns, at % columns)
}

#[test]
fn inner_and_scale_are_their_formulas() {
    let numbers = &mut Numbers(51);
    for (p, q) in RUNS {
        for n in [0, 1, 2, 19] {
            let columns = p * q;
            let (x, y, by) =
                (numbers.values(n * columns), numbers.values(n * columns), numbers.values(n * p));
            let row = numbers.values(columns);
            let what = format!("{n} rows of {p} runs of {q}");
            let (xs, ys, bys) = (
                numbers.column_view(&x, n, columns),
                numbers.column_view(&y, n, columns),
                numbers.column_view(&by, n, p),
            );
            for (y, plain, strided) in [
                (y.clone(), View::new(&y, n, columns), ys.view()),
                (row.repeat(n), View::new(&row, 1, columns), View::new(&row, 1, columns)),
            ] {
                let expected: Vec<f64> = (0..n * p)
                    .map(|at| {
                        let span = at * q..(at + 1) * q;
                        x[span.clone()].iter().zip(&y[span]).map(|(&x, &y)| f64::from(x) * f64::from(y)).sum()
                    })
                    .collect();
                let (mut out, mut other) = (vec![9.0; n * p], vec![9.0; n * p]);
                rows::inner(View::new(&x, n, columns), plain, p, &mut ViewMut::new(&mut out, n, p));
                close(&format!("inner of {what}"), &out, &expected);
                rows::inner(xs.view(), strided, p, &mut ViewMut::new(&mut other, n, p));
                same_bits("inner of columns", &out, &other);
            }
            for (x, view) in [(x.clone(), xs.view()), (row.repeat(n), View::new(&row, 1, columns))] {
                let expected: Vec<f32> = (0..n * columns).map(|at| x[at] * by[at / q]).collect();
                let mut out = vec![9.0; n * columns];
                rows::scale(view, bys.view(), &mut ViewMut::new(&mut out, n, columns));
                same_bits(&format!("scale of {what}"), &out, &expected);
            }
        }
    }
}

/// Returns offsets with empty segments at both ends, and with one segment longer than a block of
/// exponentials.
fn cuts(numbers: &mut Numbers, n: usize) -> Vec<u32> {
    let mut all = vec![0, 0, n as u32, n as u32];
    all.extend((0..5).map(|_| numbers.below(n / 8 + 1) as u32));
    all.sort_unstable();
    all
}

#[test]
fn softmax_over_segments() {
    let numbers = &mut Numbers(52);
    for p in [1, 2, 3, 4, 5, 8, 17] {
        for n in [0, 1, 40, 700] {
            let x: Vec<f32> = numbers.values(n * p).iter().map(|v| v * 20.0).collect();
            let offsets = cuts(numbers, n);
            let segments = offsets.len() - 1;
            let (mut state, mut other) = (vec![9.0; segments * 2 * p], vec![8.0; segments * 2 * p]);
            let strided = numbers.column_view(&x, n, p);
            let plain = View::new(&x, n, p);
            let run = |x, state: &mut [f32]| {
                rows::softmax_segments(x, &offsets, &mut ViewMut::new(state, segments, 2 * p)).unwrap();
            };
            run(plain, &mut state);
            run(strided.view(), &mut other);
            same_bits("state of columns", &state, &other);
            let of = |s: usize| offsets[s] as usize..offsets[s + 1] as usize;
            let mut expected = vec![0.0; n * p];
            for at in 0..segments * p {
                let (s, c) = two(at, p);
                let top = of(s).map(|i| x[i * p + c]).fold(f32::NEG_INFINITY, f32::max);
                let sum: f64 = of(s).map(|i| f64::from(x[i * p + c] - top).exp()).sum();
                let (largest, inverse) = (state[s * 2 * p + c], f64::from(state[s * 2 * p + p + c]));
                match of(s).len() {
                    0 => assert_eq!((largest, inverse), (0.0, 0.0), "an empty segment"),
                    _ => assert!(largest == top && (inverse * sum - 1.0).abs() < 1e-5, "{largest} {inverse}"),
                }
                of(s).for_each(|i| expected[i * p + c] = f64::from(x[i * p + c] - top).exp() / sum);
            }
            let owners = (0..segments).flat_map(|s| of(s).map(move |_| s));
            let by_row: Vec<f32> = owners.flat_map(|s| state[s * 2 * p..(s + 1) * 2 * p].to_vec()).collect();
            let (mut values, mut other) = (vec![9.0; n * p], vec![8.0; n * p]);
            let states = numbers.column_view(&by_row, n, 2 * p);
            rows::softmax_values(plain, View::new(&by_row, n, 2 * p), &mut ViewMut::new(&mut values, n, p));
            close(&format!("softmax of {p} columns of {n} rows"), &values, &expected);
            rows::softmax_values(strided.view(), states.view(), &mut ViewMut::new(&mut other, n, p));
            same_bits("values of columns", &values, &other);
        }
    }
    let (x, mut state) = ([1.0, f32::NAN, 3.0], [0.0; 2]);
    rows::softmax_segments(View::new(&x, 3, 1), &[0, 3], &mut ViewMut::new(&mut state, 1, 2)).unwrap();
    assert!(state[1].is_nan(), "a NaN stays one: {state:?}");
}

#[test]
fn segments_are_reduced_in_the_order_of_their_rows() {
    let numbers = &mut Numbers(53);
    for columns in [1, 7, 8, 24, 64, 153] {
        let n = 37;
        let mut x = numbers.values(n * columns);
        x[5 * columns] = f32::NAN;
        let offsets = cuts(numbers, n);
        let segments = offsets.len() - 1;
        let view = numbers.column_view(&x, n, columns);
        for by in [Reduction::Sum, Reduction::Mean, Reduction::Max] {
            let mut out = vec![9.0; segments * columns];
            rows::reduce_segments(view.view(), &offsets, by, &mut ViewMut::new(&mut out, segments, columns))
                .unwrap();
            let expected: Vec<f32> = (0..segments * columns)
                .map(|at| {
                    let (s, c) = two(at, columns);
                    let values = (offsets[s]..offsets[s + 1]).map(|i| x[i as usize * columns + c]);
                    let count = values.len() as f32;
                    match by {
                        _ if count == 0.0 => 0.0,
                        Reduction::Sum => values.fold(0.0, |a, v| a + v),
                        Reduction::Mean => values.fold(0.0, |a, v| a + v) / count,
                        Reduction::Max => {
                            values.fold(f32::NEG_INFINITY, |a, v| if a.is_nan() || v <= a { a } else { v })
                        }
                    }
                })
                .collect();
            same_bits(&format!("{by:?} of {columns} columns"), &out, &expected);
        }
    }
}

#[test]
fn offsets_that_bound_no_segments_are_refused() {
    let x = [0.0; 3];
    for bad in [&[][..], &[0], &[0, 2], &[1, 3], &[0, 2, 1, 3], &[0, 4], &[0, 3, 3]] {
        let mut out = [0.0; 2];
        let error = rows::reduce_segments(
            View::new(&x, 3, 1),
            bad,
            Reduction::Sum,
            &mut ViewMut::new(&mut out, 1, 1),
        );
        assert!(error.unwrap_err().to_string().contains("reduce-segments"), "{bad:?}");
        let error = rows::softmax_segments(View::new(&x, 3, 1), bad, &mut ViewMut::new(&mut out, 1, 2));
        assert!(error.unwrap_err().to_string().contains("softmax-segments"), "{bad:?}");
    }
}

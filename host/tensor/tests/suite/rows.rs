//! Tests of sums over a grid, softmax, reductions and gathers, against a reference in f64.

use crate::common::*;
use eciton_tensor::ops::product::{self, Scratch, Wanted};
use eciton_tensor::ops::prologue::{Prologue, RowIds};
use eciton_tensor::ops::rows::{self, Reduction};
use eciton_tensor::ops::softmax;
use eciton_tensor::{Buffer, Grid, View, ViewMut};

fn sums(x: View<'_>, grid: &Grid, tall: bool) -> Vec<Vec<f32>> {
    let m = x.columns();
    let buffers: Vec<_> = grid
        .parts()
        .iter()
        .map(|_| if tall { Buffer::zeroed(m, 1) } else { Buffer::zeroed(1, m) }.unwrap())
        .collect();
    let mut leases: Vec<_> = buffers.iter().map(|b| b.write(0..b.rows()).unwrap()).collect();
    let mut views: Vec<ViewMut<'_>> = leases.iter_mut().map(|l| l.view_mut()).collect();
    rows::sum_rows(x, grid, &mut views);
    drop(leases);
    buffers.iter().map(|b| b.to_vec().unwrap()).collect()
}

#[test]
fn column_sums_are_sums_with_any_stride() {
    let numbers = &mut Numbers(31);
    for m in (1..=70).chain([128, 602]) {
        let n = numbers.below(50);
        let x = numbers.values(n * m);
        let expected: Vec<f64> =
            (0..m).map(|c| x.iter().skip(c).step_by(m).map(|&v| f64::from(v)).sum()).collect();
        let grid = Grid::single(n);
        let plain = sums(View::new(&x, n, m), &grid, false).remove(0);
        close(&format!("{n} x {m}"), &plain, &expected);
        for tall in [false, true] {
            same_bits("padded", &plain, &sums(padded(&x, n, m).view(), &grid, tall)[0]);
            same_bits(
                "columns of a wider matrix",
                &plain,
                &sums(numbers.column_view(&x, n, m).view(), &grid, tall)[0],
            );
        }
    }
}

#[test]
fn parts_of_any_cut_combine_to_the_same_bits() {
    let numbers = &mut Numbers(32);
    for case in 0..30 {
        let atoms = [1, 3, 8, 11, 32, 64, 512][case % 7];
        let n = atoms * 2 + numbers.below(700);
        let (k, m) = (1 + numbers.below(40), [1, 5, 16, 33, 70][case % 5]);
        let tree = Rows::cut(numbers, n, atoms);
        let (x, d) = (padded(&numbers.values(n * k), n, k), padded(&numbers.values(n * m), n, m));
        let (w, bias) = (padded(&numbers.values(k * m), k, m), numbers.values(k));
        let all = prologues(&bias, 3, 9);
        let p = all[case * 5 % all.len()];
        // Gradients of each part in one list: bias of the result, bias of the input, then the
        // weight.
        let run = |span: std::ops::Range<usize>, grid: &Grid| -> Vec<Vec<f32>> {
            let p = Prologue { row_ids: RowIds::From(3 + span.start as u64), ..p };
            let made = |r, c| grid.parts().iter().map(|_| Buffer::zeroed(r, c).unwrap()).collect::<Vec<_>>();
            let buffers = [made(1, m), made(1, k), made(k, m)];
            let mut leases: Vec<Vec<_>> =
                buffers.iter().map(|b| b.iter().map(|b| b.write(0..b.rows()).unwrap()).collect()).collect();
            let mut views = leases.iter_mut().map(|l| l.iter_mut().map(|l| l.view_mut()).collect::<Vec<_>>());
            let (mut after, mut before, mut weight) =
                (views.next().unwrap(), views.next().unwrap(), views.next().unwrap());
            drop(views);
            let wanted = Wanted {
                x: None,
                before_bias: Some(&mut before),
                w: Some(&mut weight),
                after_bias: Some(&mut after),
            };
            let (x, d) = (x.view().slice(span.start, span.len()), d.view().slice(span.start, span.len()));
            product::linear_backward(x, &p, w.view(), d, grid, wanted, &mut Scratch::default());
            drop(leases);
            let row = |part: usize| buffers.iter().flat_map(|b| b[part].to_vec().unwrap()).collect();
            (0..grid.parts().len()).map(row).collect()
        };
        let whole = run(0..n, &tree.grid(&[tree.root()])).remove(0);
        let whole_sums = sums(d.view(), &tree.grid(&[tree.root()]), false).remove(0);
        same_bits("after.bias is the column sums", &whole[..m], &whole_sums);
        for count in [1, 2, 5, atoms].into_iter().filter(|&c| c <= atoms) {
            let (mut partials, mut partial_sums) = (Vec::new(), Vec::new());
            for atoms in tree.runs(numbers, count) {
                let (nodes, span) = (tree.nodes(atoms.clone()), tree.rows(&atoms));
                let grid = tree.grid(&nodes);
                partial_sums.extend(nodes.iter().copied().zip(sums(
                    d.view().slice(span.start, span.len()),
                    &grid,
                    true,
                )));
                partials.extend(nodes.iter().copied().zip(run(span, &grid)));
            }
            let what = format!("{n} rows, {atoms} atoms in {count}, {k} x {m}, {p:?}");
            same_bits(&what, &whole, &tree.combine(&partials, tree.root()));
            same_bits(&what, &whole_sums, &tree.combine(&partial_sums, tree.root()));
        }
    }
}

#[test]
fn softmax_and_its_loss() {
    let numbers = &mut Numbers(33);
    for c in [1, 2, 7, 16, 41, 300] {
        let n = 1 + numbers.below(30);
        // Values up to 60 apart, so that a sum overflows unless the largest value is subtracted.
        let x: Vec<f32> = numbers.values(n * c).iter().map(|v| v * 30.0 + 100.0).collect();
        let softmax_of = |i: usize| -> Vec<f64> {
            let row = &x[i * c..(i + 1) * c];
            let top = row.iter().copied().fold(f32::MIN, f32::max);
            let e: Vec<f64> = row.iter().map(|&v| f64::from(v - top).exp()).collect();
            let sum: f64 = e.iter().sum();
            e.iter().map(|v| v / sum).collect()
        };
        let expected: Vec<f64> = (0..n).flat_map(softmax_of).collect();
        let mut out = vec![9.0; n * c];
        softmax::softmax(numbers.column_view(&x, n, c).view(), &mut ViewMut::new(&mut out, n, c));
        close("softmax", &out, &expected);
        let labels: Vec<u32> = (0..n).map(|_| numbers.below(c) as u32).collect();
        let some: Vec<u32> = (0..n as u32).filter(|i| i % 3 != 1).collect();
        let (mut losses, mut grad) = (vec![9.0; n], vec![9.0; n * c]);
        let (mut l, mut g) = (ViewMut::new(&mut losses, n, 1), ViewMut::new(&mut grad, n, c));
        softmax::cross_entropy(View::new(&x, n, c), &labels, &some, 0.25, &mut l, &mut g).unwrap();
        let (mut want_l, mut want_g) = (vec![0.0; n], vec![0.0; n * c]);
        for &i in &some {
            let (i, label) = (i as usize, labels[i as usize] as usize);
            let p = &expected[i * c..(i + 1) * c];
            let top = x[i * c..(i + 1) * c].iter().copied().fold(f32::MIN, f32::max);
            let sum: f64 = x[i * c..(i + 1) * c].iter().map(|&v| f64::from(v - top).exp()).sum();
            want_l[i] = 0.25 * (sum.ln() + f64::from(top) - f64::from(x[i * c + label]));
            for (j, &p) in p.iter().enumerate() {
                want_g[i * c + j] = 0.25 * (p - f64::from(u8::from(j == label)));
            }
        }
        close("losses", &losses, &want_l);
        close("their gradient", &grad, &want_g);
        for (labels, some) in [
            (&labels[..n - 1], &[n as u32 - 1][..]),
            (&labels[..], &[n as u32]),
            (&vec![c as u32; n][..], &[0]),
        ] {
            let (mut l, mut g) = (ViewMut::new(&mut losses, n, 1), ViewMut::new(&mut grad, n, c));
            assert!(softmax::cross_entropy(View::new(&x, n, c), labels, some, 1.0, &mut l, &mut g).is_err());
        }
    }
}

#[test]
fn reductions_and_gathers() {
    let numbers = &mut Numbers(34);
    for case in 0..40 {
        let (n, m) = (1 + numbers.below(40), 1 + numbers.below(40));
        let x = numbers.values(n * m);
        let view = numbers.column_view(&x, n, m);
        let reduce = |values: Vec<f64>, by| match by {
            _ if values.is_empty() => 0.0,
            Reduction::Sum => values.iter().sum::<f64>(),
            Reduction::Mean => values.iter().sum::<f64>() / values.len() as f64,
            Reduction::Max => values.iter().copied().fold(f64::MIN, f64::max),
        };
        let mut cuts: Vec<u32> =
            (0..numbers.below(6)).map(|_| numbers.below(n + 1) as u32).chain([0, n as u32]).collect();
        cuts.sort_unstable();
        for by in [Reduction::Sum, Reduction::Mean, Reduction::Max] {
            let mut out = vec![9.0; n];
            rows::reduce_columns(view.view(), by, &mut ViewMut::new(&mut out, n, 1));
            let expected: Vec<f64> = (0..n).map(|i| reduce(wide(&x[i * m..(i + 1) * m]), by)).collect();
            close("reduce-columns", &out, &expected);
            let segments = cuts.len() - 1;
            let mut out = vec![9.0; segments * m];
            rows::reduce_segments(view.view(), &cuts, by, &mut ViewMut::new(&mut out, segments, m)).unwrap();
            let column = |s: usize, c: usize| {
                (cuts[s]..cuts[s + 1]).map(|i| f64::from(x[i as usize * m + c])).collect()
            };
            let expected: Vec<f64> = (0..segments * m).map(|at| reduce(column(at / m, at % m), by)).collect();
            close(&format!("case {case}: reduce-segments {cuts:?}"), &out, &expected);
        }
        let bad = [n as u32 + 1, 0];
        assert!(
            rows::reduce_segments(view.view(), &bad, Reduction::Sum, &mut ViewMut::new(&mut [0.0; 40], 1, m))
                .is_err()
        );

        let ids: Vec<u32> = (0..numbers.below(60)).map(|_| numbers.below(n) as u32).collect();
        let mut out = vec![9.0; ids.len() * m];
        rows::gather_rows(view.view(), &ids, &mut ViewMut::new(&mut out, ids.len(), m)).unwrap();
        for (i, &id) in ids.iter().enumerate() {
            assert_eq!(out[i * m..(i + 1) * m], x[id as usize * m..(id as usize + 1) * m]);
        }
        let mut back = vec![9.0; n * m];
        rows::scatter_add_rows(View::new(&out, ids.len(), m), &ids, &mut ViewMut::new(&mut back, n, m))
            .unwrap();
        let count = |i: usize| ids.iter().filter(|&&id| id as usize == i).count() as f64;
        let expected: Vec<f64> = (0..n * m).map(|at| count(at / m) * f64::from(x[at])).collect();
        close("scatter-add-rows", &back, &expected);
        assert!(rows::gather_rows(view.view(), &[n as u32], &mut ViewMut::new(&mut out, 0, m)).is_err());
        assert!(
            rows::scatter_add_rows(view.view(), &[n as u32], &mut ViewMut::new(&mut back, n, m)).is_err()
        );
        let y = numbers.values(n * m);
        rows::zip(view.view(), View::new(&y, n, m), &mut ViewMut::new(&mut back, n, m), |x, y| 2.0 * x - y);
        assert!((0..n * m).all(|at| back[at] == 2.0 * x[at] - y[at]));
    }
}

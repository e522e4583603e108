//! Tests of products with sparse rows against a reference in f64. Both ways of summing must give
//! the same bits.

use crate::common::*;
use eciton_tensor::ops::activation::Activation::{self, Elu, Identity, LeakyRelu, Relu, Tanh};
use eciton_tensor::ops::product::Scratch;
use eciton_tensor::ops::prologue::{Prologue, RowIds};
use eciton_tensor::ops::{product, sparse};
use eciton_tensor::random::{Dropout, Key, Purpose};
use eciton_tensor::{Buffer, Grid, SparseRows, View, ViewMut};

/// Returns a random matrix [rows, columns] as dense values and as CSR. About `filled` of 256 values
/// are stored.
fn random(
    numbers: &mut Numbers,
    rows: usize,
    columns: usize,
    filled: usize,
) -> (Vec<f32>, Vec<u64>, Vec<u32>, Vec<f32>) {
    let (mut dense, mut offsets, mut indices, mut values) =
        (vec![0.0; rows * columns], vec![0], vec![], vec![]);
    for i in 0..rows {
        for c in 0..columns {
            // Some rows and columns are empty.
            if i % 7 != 3 && c % 5 != 4 && numbers.below(256) < filled {
                let v = numbers.value();
                dense[i * columns + c] = v;
                indices.push(c as u32);
                values.push(v);
            }
        }
        offsets.push(values.len() as u64);
    }
    (dense, offsets, indices, values)
}

fn sparse_of(
    columns: usize,
    (_, offsets, indices, values): &(Vec<f32>, Vec<u64>, Vec<u32>, Vec<f32>),
) -> SparseRows {
    SparseRows::new(columns as u32, offsets.clone(), indices.clone(), values.clone()).unwrap()
}

fn prologue(activation: Activation, p: Option<f32>, first_row: u64) -> Prologue<'static> {
    let dropout = p.and_then(|p| Dropout::new(Key::new(4, Purpose::Dropout, 3, 1, 0), p));
    Prologue { bias: None, activation, dropout, row_ids: RowIds::From(first_row), cut: 1 }
}

const CHOICES: [(Activation, Option<f32>); 7] = [
    (Identity, None),
    (Identity, Some(0.5)),
    (Relu, None),
    (Relu, Some(0.3)),
    (LeakyRelu(0.2), Some(0.5)),
    (Elu(1.0), Some(0.9)),
    (Tanh, None),
];

/// Computes the gradient of the weight over `grid`, with one matrix per part.
fn gradient(
    x: &SparseRows,
    rows: std::ops::Range<usize>,
    p: &Prologue<'_>,
    d: View<'_>,
    grid: &Grid,
) -> Vec<Vec<f32>> {
    let buffers: Vec<_> =
        grid.parts().iter().map(|_| Buffer::zeroed(x.columns(), d.columns()).unwrap()).collect();
    let mut leases: Vec<_> = buffers.iter().map(|b| b.write(0..b.rows()).unwrap()).collect();
    let mut views: Vec<ViewMut<'_>> = leases.iter_mut().map(|l| l.view_mut()).collect();
    sparse::weight_gradient(x, rows, p, d, grid, &mut views, &mut Scratch::default());
    drop(leases);
    buffers.iter().map(|b| b.to_vec().unwrap()).collect()
}

#[test]
fn linear_and_its_gradient_are_their_formulas() {
    let numbers = &mut Numbers(21);
    for case in 0..90 {
        let (rows, k) = (1 + numbers.below(60), 1 + numbers.below(90));
        let n = if case < 70 { case + 1 } else { 1 + numbers.below(300) };
        let made = random(numbers, rows, k, [20, 200, 256][case % 3]);
        let (w, d, bias) = (numbers.values(k * n), numbers.values(rows * n), numbers.values(n));
        let (activation, dropout) = CHOICES[case % CHOICES.len()];
        let p = prologue(activation, dropout, 1 << 40);
        let (u, _) = naive_prologue(&p, &made.0, rows, k);
        let what = format!("{rows} x {k} x {n}, {p:?}");
        let expected: Vec<f64> = naive_product(&u, &wide(&w), rows, k, n)
            .iter()
            .enumerate()
            .map(|(i, v)| f(Tanh, v + f64::from(bias[i % n])))
            .collect();
        let dw = naive_product(&transposed(&u, rows, k), &wide(&d), k, rows, n);
        let mut bits: Vec<(Vec<f32>, Vec<f32>)> = Vec::new();
        // Without padding, with padding, and some columns of a wider matrix: the same bits.
        let (padded_w, padded_d) = (padded(&w, k, n), padded(&d, rows, n));
        let (columns_w, columns_d) = (numbers.column_view(&w, k, n), numbers.column_view(&d, rows, n));
        let views = [
            (View::new(&w, k, n), View::new(&d, rows, n)),
            (padded_w.view(), padded_d.view()),
            (columns_w.view(), columns_d.view()),
        ];
        for (w, d) in views {
            let x = sparse_of(k, &made);
            let out = Buffer::zeroed(rows, n).unwrap();
            let mut lease = out.write(0..rows).unwrap();
            sparse::linear(
                &x,
                0..rows,
                &p,
                w,
                Some(&bias),
                Tanh,
                &mut lease.view_mut(),
                &mut Scratch::default(),
            );
            drop(lease);
            // The first gradient reuses the values from forward, the second draws them again.
            let first = gradient(&x, 0..rows, &p, d, &Grid::single(rows)).remove(0);
            let second = gradient(&x, 0..rows, &p, d, &Grid::single(rows)).remove(0);
            same_bits(&format!("{what}: gradients"), &first, &second);
            let found = out.to_vec().unwrap();
            close(&what, &found, &expected);
            close(&format!("{what}: gradient"), &first, &dw);
            bits.push((found, first));
        }
        for (found, first) in &bits[1..] {
            same_bits(&format!("{what}: strides"), &bits[0].0, found);
            same_bits(&format!("{what}: strides, gradient"), &bits[0].1, first);
        }
    }
}

#[test]
fn both_ways_of_summing_give_the_same_bits() {
    let numbers = &mut Numbers(22);
    let mut rows_taken = 0;
    for case in 0..60 {
        let atoms = [1, 2, 8, 9, 40, 64][case % 6];
        let (rows, k) = (atoms * (1 + numbers.below(8)) + 20, 1 + numbers.below(20));
        let n: usize = [1, 3, 7, 8, 9, 16, 17, 30, 64][case % 9];
        let filled = [30, 256][case % 2];
        let made = random(numbers, rows, k, filled);
        // With many empty columns, the sum by columns is faster.
        let many = k + 4 * made.3.len() + 1;
        // The criterion of `weight_gradient`.
        rows_taken += u32::from(made.3.len() > 2 * atoms * k * n.div_ceil(16));
        assert!(made.3.len() <= 2 * atoms * many);
        let d = numbers.values(rows * n);
        let tree = Rows::cut(numbers, rows, atoms);
        let grid = tree.grid(&tree.nodes(0..tree.atoms()));
        assert_eq!(grid.parts().len(), 1);
        let (activation, dropout) = CHOICES[case % CHOICES.len()];
        let p = prologue(activation, dropout, 99);
        for d in [padded(&d, rows, n), numbers.column_view(&d, rows, n)] {
            let by_columns = gradient(&sparse_of(many, &made), 0..rows, &p, d.view(), &grid).remove(0);
            let given = gradient(&sparse_of(k, &made), 0..rows, &p, d.view(), &grid).remove(0);
            same_bits(
                &format!("{rows} rows, {atoms} atoms, {k} columns, {n}, {p:?}"),
                &given,
                &by_columns[..k * n],
            );
            assert!(by_columns[k * n..].iter().all(|v| v.to_bits() == 0));
        }
    }
    assert!(rows_taken >= 10, "only {rows_taken} cases were summed by rows");
}

#[test]
fn parts_of_any_cut_combine_to_the_same_bits() {
    let numbers = &mut Numbers(23);
    for case in 0..40 {
        let atoms = [1, 5, 8, 16, 37, 64][case % 6];
        let (rows, k) = (atoms * 3 + numbers.below(100), 1 + numbers.below(60));
        let n = [2, 7, 8, 16, 40][case % 5];
        let made = random(numbers, rows, k, [10, 90, 256][case % 3]);
        let d = numbers.values(rows * n);
        let (tree, d) = (Rows::cut(numbers, rows, atoms), padded(&d, rows, n));
        let (activation, dropout) = CHOICES[case % CHOICES.len()];
        let p = |first: usize| prologue(activation, dropout, 5 + first as u64);
        // One matrix of rows for all cuts, as in a run.
        let x = sparse_of(k, &made);
        let whole = gradient(&x, 0..rows, &p(0), d.view(), &tree.grid(&[tree.root()])).remove(0);
        for count in [1, 2, 3, atoms / 2, atoms].into_iter().filter(|&c| (1..=atoms).contains(&c)) {
            let mut partials = Vec::new();
            for run in tree.runs(numbers, count) {
                let (nodes, span) = (tree.nodes(run.clone()), tree.rows(&run));
                let p = p(span.start);
                let d = d.view().slice(span.start, span.len());
                partials.extend(nodes.iter().copied().zip(gradient(&x, span, &p, d, &tree.grid(&nodes))));
            }
            same_bits(
                &format!("{atoms} atoms in {count}: {k} x {n}"),
                &whole,
                &tree.combine(&partials, tree.root()),
            );
        }
    }
}

#[test]
fn other_grids_numbers_and_activations_are_not_mixed_up() {
    let numbers = &mut Numbers(24);
    let (rows, k, n) = (90, 300, 16);
    let made = random(numbers, rows, k, 8);
    let d = numbers.values(rows * n);
    let (x, tree) = (sparse_of(k, &made), Rows::cut(numbers, rows, 40));
    for (activation, first) in [(Identity, 0), (Relu, 0), (Relu, 7), (Identity, 7)] {
        let p = prologue(activation, Some(0.5), first);
        for grid in [Grid::single(rows), tree.grid(&[tree.root()])] {
            let mut out = vec![0.0; rows * n];
            let w = vec![1.0; k * n];
            // Forward caches values under one activation, which backward with another activation
            // must not use.
            let other = prologue(Tanh, Some(0.5), first);
            sparse::linear(
                &x,
                0..rows,
                &other,
                View::new(&w, k, n),
                None,
                Identity,
                &mut ViewMut::new(&mut out, rows, n),
                &mut Scratch::default(),
            );
            let found = gradient(&x, 0..rows, &p, View::new(&d, rows, n), &grid).remove(0);
            let fresh = gradient(&sparse_of(k, &made), 0..rows, &p, View::new(&d, rows, n), &grid).remove(0);
            same_bits(&format!("{activation:?}, first row {first}"), &found, &fresh);
        }
    }
}

#[test]
fn rows_numbered_by_lists_are_told_apart() {
    let numbers = &mut Numbers(26);
    let (rows, k, n) = (60, 90, 8);
    let made = random(numbers, rows, k, 60);
    let (w, d) = (numbers.values(k * n), numbers.values(rows * n));
    let x = sparse_of(k, &made);
    let up: Vec<u64> = (7..7 + rows as u64).collect();
    let down: Vec<u64> = up.iter().rev().copied().collect();
    fn numbered(row_ids: RowIds<'_>) -> Prologue<'_> {
        Prologue { row_ids, ..prologue(Identity, Some(0.5), 0) }
    }
    let forward = |ids: &[u64]| {
        let out = &mut vec![0.0; rows * n];
        let p = numbered(RowIds::List(ids));
        let into = &mut ViewMut::new(out, rows, n);
        sparse::linear(&x, 0..rows, &p, View::new(&w, k, n), None, Identity, into, &mut Scratch::default());
    };
    let fresh = |row_ids| {
        let view = View::new(&d, rows, n);
        gradient(&sparse_of(k, &made), 0..rows, &numbered(row_ids), view, &Grid::single(rows)).remove(0)
    };
    let (wanted, other) = (fresh(RowIds::From(7)), fresh(RowIds::List(&down)));
    assert_ne!(wanted, other);
    // Values from forward are used for the same list only.
    for (kept, asked, wanted) in [(&up, &up, &wanted), (&down, &up, &wanted), (&down, &down, &other)] {
        forward(kept);
        let p = numbered(RowIds::List(asked));
        let found = gradient(&x, 0..rows, &p, View::new(&d, rows, n), &Grid::single(rows)).remove(0);
        same_bits("listed", &found, wanted);
    }
}

#[test]
fn dense_rows_drop_what_sparse_rows_drop() {
    let numbers = &mut Numbers(25);
    let (rows, k) = (50, 80);
    // Every value is stored and w is 1, so the products are u itself.
    let x = numbers.values(rows * k);
    let indices: Vec<u32> = (0..rows * k).map(|i| (i % k) as u32).collect();
    let offsets: Vec<u64> = (0..=rows).map(|i| (i * k) as u64).collect();
    let stored = SparseRows::new(k as u32, offsets, indices, x.clone()).unwrap();
    let one: Vec<f32> = (0..k * k).map(|at| f32::from(u8::from(at / k == at % k))).collect();
    for p in [0.1, 0.5, 0.97] {
        let p = prologue(Identity, Some(p), u64::MAX - 20);
        let (mut dense, mut sparse) = (vec![0.0; rows * k], vec![0.0; rows * k]);
        let (w, scratch) = (View::new(&one, k, k), &mut Scratch::default());
        product::linear(
            View::new(&x, rows, k),
            &p,
            w,
            None,
            Identity,
            &mut ViewMut::new(&mut dense, rows, k),
            scratch,
        );
        sparse::linear(
            &stored,
            0..rows,
            &p,
            w,
            None,
            Identity,
            &mut ViewMut::new(&mut sparse, rows, k),
            scratch,
        );
        let mut applied = vec![0.0; rows * k];
        p.forward(View::new(&x, rows, k), 0, &mut ViewMut::new(&mut applied, rows, k));
        let (u, _) = naive_prologue(&p, &x, rows, k);
        for ((dense, sparse), (applied, u)) in dense.iter().zip(&sparse).zip(applied.iter().zip(&u)) {
            assert_eq!(dense.abs(), sparse.abs());
            assert_eq!(dense, applied);
            assert_eq!(*dense == 0.0, *u == 0.0);
        }
    }
}

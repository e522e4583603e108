//! Random values, reference arithmetic in f64 and trees over rows, for the tests of this crate.
#![allow(dead_code, reason = "each test binary uses a part of it")]
#![allow(missing_docs, unreachable_pub)]

use std::ops::Range;

use eciton_tensor::matrix::Held;
use eciton_tensor::ops::activation::Activation;
use eciton_tensor::ops::prologue::{Prologue, RowIds};
use eciton_tensor::random::{Dropout, Key, Purpose, bits32};
use eciton_tensor::{Atom, Buffer, Grid, Matrix, Part};

/// Maximum relative difference, by norm, between f32 results and the f64 reference.
pub const CLOSE: f64 = 1e-5;

/// Random number generator SplitMix64.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number in `0..limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    /// Returns a number in (-1, 1), but not within 1e-4 of 0, where activations have a kink.
    pub fn value(&mut self) -> f32 {
        let v = (self.next() >> 40) as f32 / (1u32 << 23) as f32 - 1.0;
        if v.abs() < 1e-4 { v + 0.0625 } else { v }
    }

    pub fn values(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.value()).collect()
    }

    /// Stores `count` values in the columns from 3 on of a wider, padded matrix, and returns a view
    /// of them. The last row of the view has no padding.
    pub fn column_view(&mut self, values: &[f32], rows: usize, columns: usize) -> Held {
        let wide = columns + 3;
        let mut all = self.values(rows * wide);
        for i in 0..rows {
            all[i * wide + 3..(i + 1) * wide].copy_from_slice(&values[i * columns..(i + 1) * columns]);
        }
        held(
            &Matrix::from(Buffer::from_rows(rows, wide, &all).unwrap().read(0..rows).unwrap())
                .slice_columns(3, columns)
                .unwrap(),
        )
    }
}

pub fn held(m: &Matrix) -> Held {
    match m {
        Matrix::Dense(d) => d.hold(None).unwrap(),
        Matrix::Sparse(_) => panic!("expected dense rows"),
    }
}

/// Returns rows that are padded like those of a buffer.
pub fn padded(values: &[f32], rows: usize, columns: usize) -> Held {
    held(&Matrix::from(Buffer::from_rows(rows, columns, values).unwrap().read(0..rows).unwrap()))
}

/// Asserts that `|found - expected| <= CLOSE max(|expected|, 0.1)`, by norm.
///
/// Terms are of order one, so a small sum has lost digits to cancellation.
pub fn close(what: &str, found: &[f32], expected: &[f64]) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let norm = |v: &mut dyn Iterator<Item = f64>| v.map(|v| v * v).sum::<f64>().sqrt();
    let apart = norm(&mut found.iter().zip(expected).map(|(&f, &e)| f64::from(f) - e));
    let size = norm(&mut expected.iter().copied());
    assert!(apart <= CLOSE * size.max(0.1), "{what}: differs by {:e} of {size:e}", apart / size);
}

pub fn same_bits(what: &str, a: &[f32], b: &[f32]) {
    assert_eq!(a.len(), b.len(), "{what}");
    if let Some(at) = (0..a.len()).find(|&i| a[i].to_bits() != b[i].to_bits()) {
        panic!("{what}: value {at} is {:e} and {:e}", a[at], b[at]);
    }
}

pub fn f(a: Activation, x: f64) -> f64 {
    match a {
        Activation::Identity => x,
        Activation::Relu => x.max(0.0),
        Activation::LeakyRelu(s) => {
            if x > 0.0 {
                x
            } else {
                f64::from(s) * x
            }
        }
        Activation::Elu(s) => {
            if x > 0.0 {
                x
            } else {
                f64::from(s) * (x.exp() - 1.0)
            }
        }
        Activation::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        Activation::Tanh => x.tanh(),
    }
}

pub fn derivative(a: Activation, x: f64) -> f64 {
    let h = 1e-6;
    (f(a, x + h) - f(a, x - h)) / (2.0 * h)
}

/// Returns the factor that dropout gives each value, [rows, columns].
pub fn factors(d: Option<Dropout>, first_row: u64, rows: usize, columns: usize) -> Vec<f64> {
    let factor = |i: usize, c: usize| match d {
        None => 1.0,
        Some(d) if bits32(d.key.row(first_row + i as u64), c as u32) < d.threshold => 0.0,
        Some(d) => f64::from(d.scale),
    };
    (0..rows * columns).map(|at| factor(at / columns.max(1), at % columns.max(1))).collect()
}

/// Returns every prologue of a width: with and without bias, each activation, with and without
/// dropout.
pub fn prologues<'a>(bias: &'a [f32], first_row: u64, seed: u64) -> Vec<Prologue<'a>> {
    use Activation::*;
    let mut all = Vec::new();
    for activation in [Identity, Relu, LeakyRelu(0.2), Elu(1.0), Sigmoid, Tanh] {
        for bias in [None, Some(bias)] {
            for p in [None, Some(0.5), Some(0.1)] {
                let dropout = p.and_then(|p| Dropout::new(Key::new(seed, Purpose::Dropout, 3, 1, 0), p));
                all.push(Prologue { bias, activation, dropout, row_ids: RowIds::From(first_row), cut: 1 });
            }
        }
    }
    all
}

/// Computes u and du/dx of a prologue by definition.
pub fn naive_prologue(p: &Prologue<'_>, x: &[f32], rows: usize, columns: usize) -> (Vec<f64>, Vec<f64>) {
    let factors = factors(p.dropout, p.row_ids.id(0), rows, columns);
    let before = |at: usize| f64::from(x[at]) + p.bias.map_or(0.0, |b| f64::from(b[at % columns]));
    let u = (0..x.len()).map(|at| f(p.activation, before(at)) * factors[at]).collect();
    (u, (0..x.len()).map(|at| derivative(p.activation, before(at)) * factors[at]).collect())
}

/// Computes the product of a [m, k] and b [k, n] by definition.
pub fn naive_product(a: &[f64], b: &[f64], m: usize, k: usize, n: usize) -> Vec<f64> {
    let mut out = vec![0.0; m * n];
    for i in 0..m {
        for j in 0..k {
            for l in 0..n {
                out[i * n + l] += a[i * k + j] * b[j * n + l];
            }
        }
    }
    out
}

pub fn transposed(a: &[f64], rows: usize, columns: usize) -> Vec<f64> {
    (0..rows * columns).map(|at| a[(at % rows) * columns + at / rows]).collect()
}

pub fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&v| f64::from(v)).collect()
}

/// Tree over atoms with fan-out 8, as `eciton-types` creates it.
pub struct Rows {
    pub starts: Vec<u32>,
}

/// Node of the tree: its level, and its index within the level.
pub type Node = (u8, u32);

impl Rows {
    /// Divides rows into `atoms` atoms of random size, with at least one row each.
    pub fn cut(numbers: &mut Numbers, rows: usize, atoms: usize) -> Self {
        let mut all: Vec<u32> = (1..rows as u32).collect();
        while all.len() >= atoms {
            all.remove(numbers.below(all.len()));
        }
        Self { starts: std::iter::once(0).chain(all).chain([rows as u32]).collect() }
    }

    pub fn atoms(&self) -> u32 {
        self.starts.len() as u32 - 1
    }

    pub fn rows(&self, run: &Range<u32>) -> Range<usize> {
        self.starts[run.start as usize] as usize..self.starts[run.end as usize] as usize
    }

    fn span(&self, (level, index): Node) -> Range<u32> {
        let wide = 8u32.pow(u32::from(level));
        (index * wide).min(self.atoms())..((index + 1) * wide).min(self.atoms())
    }

    pub fn root(&self) -> Node {
        ((0..4).find(|&l| 8u32.pow(l) >= self.atoms()).unwrap() as u8, 0)
    }

    /// Returns the maximal complete nodes of a run of atoms.
    pub fn nodes(&self, run: Range<u32>) -> Vec<Node> {
        let (mut at, mut nodes) = (run.start, Vec::new());
        while at < run.end {
            let fits = |l: &u8| {
                let span = self.span((*l, at / 8u32.pow(u32::from(*l))));
                span.start == at && span.end <= run.end
            };
            let level = (0..=self.root().0).rev().find(fits).unwrap();
            nodes.push((level, at / 8u32.pow(u32::from(level))));
            at = self.span(*nodes.last().unwrap()).end;
        }
        nodes
    }

    /// Returns the grid of some consecutive nodes.
    pub fn grid(&self, nodes: &[Node]) -> Grid {
        let first = self.starts[self.span(nodes[0]).start as usize];
        let part = |&(level, index): &Node| {
            let span = self.span((level, index));
            let atom = |a: u32| Atom {
                rows: self.starts[a as usize] - first..self.starts[a as usize + 1] - first,
                closes: (1..level)
                    .filter(|&l| (a + 1).is_multiple_of(8u32.pow(u32::from(l))) || a + 1 == span.end)
                    .count() as u8,
            };
            Part { level, atoms: span.clone().map(atom).collect() }
        };
        Grid::new(nodes.iter().map(part).collect())
    }

    /// Divides all atoms into `count` runs.
    pub fn runs(&self, numbers: &mut Numbers, count: usize) -> Vec<Range<u32>> {
        let cut = Rows::cut(numbers, self.atoms() as usize, count);
        cut.starts.windows(2).map(|w| w[0]..w[1]).collect()
    }

    /// Computes the sum of the root from partial sums of nodes: children in order, from +0.
    pub fn combine(&self, partials: &[(Node, Vec<f32>)], node: Node) -> Vec<f32> {
        if let Some((_, found)) = partials.iter().find(|(n, _)| *n == node) {
            return found.clone();
        }
        let mut sum = vec![0.0f32; partials[0].1.len()];
        assert!(node.0 > 0, "atom {} is missing", node.1);
        for index in node.1 * 8..node.1 * 8 + 8 {
            if !self.span((node.0 - 1, index)).is_empty() {
                let child = self.combine(partials, (node.0 - 1, index));
                sum.iter_mut().zip(child).for_each(|(s, c)| *s += c);
            }
        }
        sum
    }
}

//! `binary` against its formula by numbers, and its gradients against their formula and against differences of the
//! function that they belong to, in f64.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use eciton_binary::Binary;
use eciton_sdk::prelude::*;
use eciton_sdk::reference::{Context, Reference, random};
use eciton_sdk::{Attributes, Kernel, check};

const SEED: u64 = 20_261_125;

fn given(out: i64, dropout: f64, signs: &str) -> [(&'static str, Value); 3] {
    let out = ("out-features", Value::Integer(out));
    [out, ("dropout", Value::Number(dropout)), ("signs", Value::Text(signs.to_owned()))]
}

fn open(inputs: &[Vec<u32>], out: i64, dropout: f64) -> Result<Binary> {
    let attributes = given(out, dropout, "x weight").map(|(name, value)| (name.to_owned(), value));
    Binary::open(inputs, &Attributes::new(attributes.into()))
}

#[test]
fn gradients_are_those_of_the_surrogate() {
    for (rows, columns, out) in [(0, 3, 2), (1, 1, 1), (5, 4, 3), (70, 9, 2), (3, 140, 5)] {
        for dropout in [0.0, 0.4] {
            let attributes = given(out, dropout, "");
            let report = check::gradients::<Binary>(&[vec![columns]], &attributes, rows, SEED)
                .unwrap_or_else(|e| panic!("seed {SEED}, {rows} x {columns} to {out}, {dropout}: {e}"));
            assert!(report.worst < 1e-6, "seed {SEED}, {rows} x {columns} to {out}, {dropout}: {report:?}");
        }
    }
}

/// Rows, weights and the result's gradient by numbers.
struct Case {
    rows: usize,
    columns: usize,
    out: usize,
    x: Vec<f64>,
    w: Vec<f64>,
    g: Vec<f64>,
}

impl Case {
    fn new(rows: usize, columns: usize, out: usize) -> Self {
        let draw = |stream: u64, count: usize| -> Vec<f64> {
            let of = |i: usize| random::uniform(random::bits32(SEED + stream, i as u64, 0));
            (0..count).map(|i| 4.0 * of(i) - 2.0).collect()
        };
        let mut x = draw(1, rows * columns);
        // Zeros, and a row of nothing else.
        x.iter_mut().step_by(7).for_each(|x| *x = 0.0);
        x[..columns].fill(0.0);
        let mut w = draw(2, columns * out);
        w[0] = 0.0;
        Self { rows, columns, out, x, w, g: draw(3, rows * out) }
    }

    fn sign(x: f64) -> f64 {
        if x == 0.0 { 0.0 } else { x.signum() }
    }

    /// b of a row, and a of each column.
    fn scale(&self, i: usize) -> f64 {
        self.x[i * self.columns..][..self.columns].iter().map(|x| x.abs()).sum::<f64>() / self.columns as f64
    }

    fn scales(&self) -> Vec<f64> {
        let mean = |j: usize| (0..self.columns).map(|k| self.w[k * self.out + j].abs()).sum::<f64>();
        (0..self.out).map(|j| mean(j) / self.columns as f64).collect()
    }

    fn w_sign(&self, k: usize, j: usize) -> f64 {
        if self.w[k * self.out + j] >= 0.0 { 1.0 } else { -1.0 }
    }

    /// y, dx and dw, with factors d of dropout.
    fn expected(&self, d: &[f64]) -> [Vec<f64>; 3] {
        let (n, k, m, a) = (self.rows, self.columns, self.out, self.scales());
        let rounded: Vec<f64> =
            (0..n * k).map(|at| self.scale(at / k) * Self::sign(self.x[at]) * d[at]).collect();
        let (mut y, mut dx, mut dw) = (vec![0.0; n * m], vec![0.0; n * k], vec![0.0; k * m]);
        for i in 0..n {
            for j in 0..m {
                for c in 0..k {
                    y[i * m + j] += rounded[i * k + c] * a[j] * self.w_sign(c, j);
                    let passes = f64::from(self.x[i * k + c].abs() <= 1.0) * d[i * k + c];
                    dx[i * k + c] += passes * self.g[i * m + j] * self.w_sign(c, j);
                    dw[c * m + j] += rounded[i * k + c] * a[j] * self.g[i * m + j];
                }
            }
        }
        [y, dx, dw]
    }

    /// The kernel's.
    fn found(&self, dropout: f64, training: bool) -> [Vec<f64>; 3] {
        let [n, k, m] = [self.rows, self.columns, self.out].map(|extent| extent as u32);
        let kernel = open(&[vec![k]], m.into(), dropout).unwrap();
        let host = Reference::new(Context { rows: n, training, ..Context::default() });
        let (x, w) = (host.matrix(&[n, k], &self.x).unwrap(), host.matrix(&[k, m], &self.w).unwrap());
        let (y, g) = (host.output(&[n, m]).unwrap(), host.matrix(&[n, m], &self.g).unwrap());
        let io = Forward { inputs: &[&x], parameters: &[&w], outputs: &[&y], kept: &[] };
        host.run(|| kernel.forward::<f64>(&host.context().task(), io)).unwrap();
        let (dx, dw) = (host.output(&[n, k]).unwrap(), host.gradient(&[k, m]).unwrap());
        let io = Backward {
            inputs: &[&x],
            outputs: &[],
            kept: &[],
            parameters: &[&w],
            gradients: &[&g],
            input_gradients: &[Some(&dx)],
            parameter_gradients: &[&dw],
        };
        host.run(|| kernel.backward::<f64>(&host.context().task(), io)).unwrap();
        [&y, &dx, &dw].map(|out| host.values(out).unwrap())
    }

    /// What dropout makes of ones.
    fn factors(&self, dropout: f64) -> Vec<f64> {
        let (n, k) = (self.rows as u32, self.columns as u32);
        let host = Reference::new(Context { rows: n, training: true, ..Context::default() });
        let (ones, d) =
            (host.matrix(&[n, k], &vec![1.0; (n * k) as usize]).unwrap(), host.output(&[n, k]).unwrap());
        let dropout = Some(Dropout { probability: dropout as f32, stream: 0 });
        let by = Prologue { bias: None, activation: Activation::Identity, dropout };
        host.run(|| linalg::apply(&ones, &by, &d)).unwrap();
        host.values(&d).unwrap()
    }
}

fn close(found: &[Vec<f64>; 3], expected: &[Vec<f64>; 3], what: &str) {
    for ((found, expected), name) in found.iter().zip(expected).zip(["y", "dx", "dw"]) {
        assert_eq!(found.len(), expected.len());
        let apart = found.iter().zip(expected).map(|(f, e)| (f - e).abs()).fold(0.0, f64::max);
        assert!(apart < 1e-9, "{what}, {name}: {apart}");
    }
}

/// Depths about the borders of a word, of two, and of the bytes in which vectors count.
#[test]
fn bits_are_the_formula() {
    for (columns, rows, out) in
        [(1, 1, 1), (2, 67, 3), (63, 3, 9), (64, 1, 4), (65, 67, 3), (128, 3, 5), (129, 2, 9), (300, 4, 6)]
    {
        let case = Case::new(rows, columns, out);
        let what = format!("seed {SEED}, {rows} x {columns} to {out}");
        let ones = vec![1.0; rows * columns];
        close(&case.found(0.0, true), &case.expected(&ones), &what);
        close(&case.found(0.4, false), &case.expected(&ones), &format!("{what}, not training"));
        let dropped = case.factors(0.4);
        close(&case.found(0.4, true), &case.expected(&dropped), &format!("{what}, dropout"));
    }
}

#[test]
fn what_is_not_a_number_stays_so() {
    let mut case = Case::new(3, 70, 2);
    case.x[75] = f64::NAN;
    let [y, ..] = case.found(0.0, false);
    assert!(y[2].is_nan() && y[3].is_nan() && y[4].is_finite(), "{y:?}");
}

#[test]
fn what_does_not_fit_is_refused() {
    assert!(matches!(open(&[vec![2, 2]], 1, 0.0).unwrap_err(), Error::Shape { .. }));
    assert!(matches!(open(&[vec![0]], 1, 0.0).unwrap_err(), Error::Shape { .. }));
    assert!(matches!(open(&[], 1, 0.0).unwrap_err(), Error::Argument(_)));
    assert!(open(&[vec![2]], 1, 1.0).is_err());
    let attributes = given(1, 0.0, "y").map(|(name, value)| (name.to_owned(), value));
    let error = Binary::open(&[vec![2]], &Attributes::new(attributes.into())).unwrap_err();
    assert!(matches!(error, Error::Argument(text) if text.contains("`x` and `weight`")));
}

//! Dense products of eciton-tensor beside those of matrixmultiply, gemm and faer, on one thread.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::hint::black_box;
use std::time::Instant;

use eciton_tensor::ops::product::{self, Scratch, Wanted};
use eciton_tensor::ops::prologue::Prologue;
use eciton_tensor::{Grid, View, ViewMut};
use rten_gemm::{GemmExecutor, GemmInputA, GemmInputB, GemmOptions};
use rten_tensor::NdTensorView;

const SAMPLES: usize = 9;
const SEED: u64 = 1;

/// [m, k] by [k, n], either side stored transposed.
#[derive(Clone, Copy)]
enum Kind {
    Plain,
    RightTransposed,
    LeftTransposed,
}

#[derive(Clone, Copy)]
struct Shape {
    kind: Kind,
    m: usize,
    k: usize,
    n: usize,
    what: &'static str,
}

impl Shape {
    /// (row stride, column stride) of both sides.
    fn strides(&self) -> [(isize, isize); 2] {
        let (m, k, n) = (self.m as isize, self.k as isize, self.n as isize);
        match self.kind {
            Kind::Plain => [(k, 1), (n, 1)],
            Kind::RightTransposed => [(k, 1), (1, k)],
            Kind::LeftTransposed => [(1, m), (n, 1)],
        }
    }
}

type Product = fn(&Shape, rows: (usize, usize), a: &[f32], b: &[f32], c: &mut [f32], scratch: &mut Scratch);

/// Where rows from `start` begin in the left side.
fn from(s: &Shape, start: usize) -> usize {
    start * s.strides()[0].0 as usize
}

fn by_matrixmultiply(
    s: &Shape,
    (start, count): (usize, usize),
    a: &[f32],
    b: &[f32],
    c: &mut [f32],
    _: &mut Scratch,
) {
    let [(ar, ac), (br, bc)] = s.strides();
    let (a, c) = (&a[from(s, start)..], &mut c[start * s.n..]);
    // SAFETY: both sides and the result hold the values that their strides address.
    unsafe {
        matrixmultiply::sgemm(
            count,
            s.k,
            s.n,
            1.0,
            a.as_ptr(),
            ar,
            ac,
            b.as_ptr(),
            br,
            bc,
            0.0,
            c.as_mut_ptr(),
            s.n as isize,
            1,
        );
    }
}

fn by_gemm(s: &Shape, (start, count): (usize, usize), a: &[f32], b: &[f32], c: &mut [f32], _: &mut Scratch) {
    let [(ar, ac), (br, bc)] = s.strides();
    let (a, c) = (&a[from(s, start)..], &mut c[start * s.n..]);
    // SAFETY: as above.
    unsafe {
        gemm::gemm(
            count,
            s.n,
            s.k,
            c.as_mut_ptr(),
            1,
            s.n as isize,
            false,
            a.as_ptr(),
            ac,
            ar,
            b.as_ptr(),
            bc,
            br,
            0.0,
            1.0,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}

fn by_faer(s: &Shape, (start, count): (usize, usize), a: &[f32], b: &[f32], c: &mut [f32], _: &mut Scratch) {
    let [(ar, ac), (br, bc)] = s.strides();
    let (a, c) = (&a[from(s, start)..], &mut c[start * s.n..]);
    // SAFETY: as above.
    let (a, b, c) = unsafe {
        (
            faer::MatRef::from_raw_parts(a.as_ptr(), count, s.k, ar, ac),
            faer::MatRef::from_raw_parts(b.as_ptr(), s.k, s.n, br, bc),
            faer::MatMut::from_raw_parts_mut(c.as_mut_ptr(), count, s.n, s.n as isize, 1),
        )
    };
    faer::linalg::matmul::matmul(c, faer::Accum::Replace, a, b, 1.0f32, faer::Par::Seq);
}

fn by_rten(s: &Shape, (start, count): (usize, usize), a: &[f32], b: &[f32], c: &mut [f32], _: &mut Scratch) {
    let [(ar, ac), (br, bc)] = s.strides().map(|(row, column)| (row as usize, column as usize));
    let a = NdTensorView::from_data_with_strides([count, s.k], &a[from(s, start)..], [ar, ac]).unwrap();
    let b = NdTensorView::from_data_with_strides([s.k, s.n], b, [br, bc]).unwrap();
    let (a, b) = (GemmInputA::Unpacked(a), GemmInputB::Unpacked(b));
    let c = &mut c[start * s.n..(start + count) * s.n];
    RTEN.with(|rten| rten.gemm(c, a, b, GemmOptions::default())).unwrap();
}

thread_local! {
    static RTEN: GemmExecutor = GemmExecutor::default();
}

fn by_eciton(
    s: &Shape,
    (start, count): (usize, usize),
    a: &[f32],
    b: &[f32],
    c: &mut [f32],
    scratch: &mut Scratch,
) {
    match s.kind {
        Kind::LeftTransposed => {
            // Only the extents of w are used where no gradient of x is wanted.
            let w = vec![0.0; s.m * s.n];
            let mut out = [ViewMut::new(c, s.m, s.n)];
            let (x, d, w) = (View::new(a, s.k, s.m), View::new(b, s.k, s.n), View::new(&w, s.m, s.n));
            let wanted = Wanted { w: Some(&mut out), ..Wanted::default() };
            product::linear_backward(x, &Prologue::NONE, w, d, &Grid::single(s.k), wanted, scratch);
        }
        kind => {
            let x = View::new(&a[from(s, start)..], count, s.k);
            let transpose = matches!(kind, Kind::RightTransposed);
            let w = if transpose { View::new(b, s.n, s.k) } else { View::new(b, s.k, s.n) };
            let mut out = ViewMut::new(&mut c[start * s.n..], count, s.n);
            product::matmul(x, w, transpose, false, &mut out, scratch);
        }
    }
}

const PRODUCTS: [(&str, Product); 5] = [
    ("eciton", by_eciton),
    ("matrixmultiply", by_matrixmultiply),
    ("gemm", by_gemm),
    ("faer", by_faer),
    ("rten-gemm", by_rten),
];

fn values(count: usize, state: &mut u64) -> Vec<f32> {
    let mut next = || {
        *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (*state >> 40) as f32 / (1u64 << 24) as f32 - 0.5
    };
    (0..count).map(|_| next()).collect()
}

fn main() {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cpu = cpu
        .lines()
        .find_map(|l| l.strip_prefix("model name"))
        .unwrap_or("")
        .trim_start_matches(['\t', ' ', ':']);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("machine: {cpu}, {}; load before: {load}seed {SEED}", eciton_tensor::simd::numeric_class());
    println!("GFLOP/s on 1 thread, median of {SAMPLES} (least to most); rows: bits kept for any cut");
    use Kind::{LeftTransposed as L, Plain as P, RightTransposed as R};
    let shape = |kind, what, m, k, n| Shape { kind, m, k, n, what };
    let shapes = [
        shape(P, "x w, Reddit layer 1", 23296, 602, 128),
        shape(P, "x w, Reddit layer 2", 23296, 128, 41),
        shape(P, "x w, Cora dense", 2708, 1433, 16),
        shape(P, "x w, Pubmed dense", 19717, 500, 16),
        shape(P, "x w, Cora layer 2", 2708, 16, 7),
        shape(P, "x w, hidden 64", 23296, 64, 64),
        shape(P, "x w, hidden 128", 23296, 128, 128),
        shape(P, "x w, hidden 256", 8192, 256, 256),
        shape(P, "x w, square", 1024, 1024, 1024),
        shape(R, "d w^T, Reddit layer 2", 23296, 41, 128),
        shape(R, "d w^T, Reddit layer 1", 23296, 128, 602),
        shape(R, "d w^T, Cora layer 2", 2708, 7, 16),
        shape(R, "d w^T, hidden 64", 23296, 64, 64),
        shape(R, "d w^T, hidden 128", 23296, 128, 128),
        shape(R, "d w^T, hidden 256", 8192, 256, 256),
        shape(L, "x^T d, Reddit layer 1", 602, 23296, 128),
        shape(L, "x^T d, Reddit layer 2", 128, 23296, 41),
        shape(L, "x^T d, Cora dense", 1433, 2708, 16),
        shape(L, "x^T d, Pubmed dense", 500, 19717, 16),
        shape(L, "x^T d, Cora layer 2", 16, 2708, 7),
        shape(L, "x^T d, hidden 64", 64, 23296, 64),
        shape(L, "x^T d, hidden 128", 128, 23296, 128),
        shape(L, "x^T d, hidden 256", 256, 8192, 256),
        shape(P, "deep x w, queries", 2048, 128, 384),
        shape(P, "deep x w, up", 2048, 128, 512),
        shape(P, "deep x w, down", 2048, 512, 128),
        shape(P, "deep x w, scores", 2048, 128, 75),
        shape(P, "deep x w, branch", 256, 256, 256),
        shape(P, "deep x w, digits", 64, 64, 128),
        shape(P, "deep x w, patches", 4096, 144, 32),
        shape(R, "deep d w^T, up", 2048, 512, 128),
        shape(R, "deep d w^T, down", 2048, 128, 512),
        shape(R, "deep d w^T, branch", 256, 256, 256),
        shape(L, "deep x^T d, up", 128, 2048, 512),
        shape(L, "deep x^T d, down", 512, 2048, 128),
        shape(L, "deep x^T d, branch", 256, 256, 256),
        shape(L, "deep x^T d, digits", 64, 64, 128),
        shape(R, "deep q k^T, head", 64, 32, 64),
        shape(P, "deep p v, head", 64, 64, 32),
    ];
    let wanted = std::env::args().nth(1).unwrap_or_default();
    let shapes: Vec<Shape> = shapes.into_iter().filter(|shape| shape.what.starts_with(&wanted)).collect();
    print!("{:<24}{:>7}{:>7}{:>6}", "product", "m", "k", "n");
    for (name, _) in PRODUCTS {
        print!("  {:<35}", format!("{name}, rows"));
    }
    println!();
    let mut scratch = Scratch::default();
    for s in &shapes {
        let mut state = SEED;
        let (a, b) = (values(s.m * s.k, &mut state), values(s.k * s.n, &mut state));
        let mut c = vec![0.0; s.m * s.n];
        print!("{:<24}{:>7}{:>7}{:>6}", s.what, s.m, s.k, s.n);
        let mut reference: Option<Vec<f32>> = None;
        for (name, product) in PRODUCTS {
            let work = 2.0 * (s.m * s.k * s.n) as f64;
            let calls = (2e8 / work).ceil().max(1.0) as usize;
            let mut rates: Vec<f64> = (0..=SAMPLES)
                .map(|_| {
                    let begun = Instant::now();
                    for _ in 0..calls {
                        product(s, (0, s.m), &a, &b, black_box(&mut c), &mut scratch);
                    }
                    work * calls as f64 / begun.elapsed().as_secs_f64() / 1e9
                })
                .skip(1)
                .collect();
            rates.sort_by(f64::total_cmp);
            let rows = match s.kind {
                L => "-".to_owned(),
                _ => {
                    // Cuts of few rows, of odd numbers of them, of round ones.
                    let counts =
                        (1..=80).chain([96, 100, 127, 128, 200, 255, 256, 300, 511, 512, 700, 1000, 1024]);
                    let mut cut = vec![0.0; s.m * s.n];
                    let differs = counts.filter(|&count| count <= s.m).filter(|&count| {
                        let rows = 7.min(s.m - count)..7.min(s.m - count) + count;
                        product(s, (rows.start, count), &a, &b, &mut cut, &mut scratch);
                        let span = rows.start * s.n..rows.end * s.n;
                        cut[span.clone()].iter().zip(&c[span]).any(|(x, y)| x.to_bits() != y.to_bits())
                    });
                    let differs: Vec<usize> = differs.collect();
                    match (differs.first(), differs.last()) {
                        (Some(1), Some(1)) => "not 1".to_owned(),
                        (Some(_), Some(last)) => format!("not {last}:{}", differs.len()),
                        _ => "yes".to_owned(),
                    }
                }
            };
            match &reference {
                None => reference = Some(c.clone()),
                Some(r) => {
                    let norm = |v: f64| v.sqrt();
                    let off = norm(r.iter().zip(&c).map(|(x, y)| f64::from(x - y).powi(2)).sum());
                    let all = norm(r.iter().map(|x| f64::from(*x).powi(2)).sum());
                    assert!(off <= 1e-4 * all, "{name} is off by {off} of {all}");
                }
            }
            let text = format!("{:.1} ({:.1} to {:.1})", rates[SAMPLES / 2], rates[0], rates[SAMPLES - 1]);
            print!("  {text:<24}{rows:<11}");
        }
        println!();
    }
}

//! Tests that every vector level agrees with the best level of this processor. The test binary runs
//! itself with `ECITON_SIMD` set, and compares the results.

use crate::common::*;
use eciton_tensor::ops::activation::Activation;
use eciton_tensor::ops::adam::{Adam, adam, sgd};
use eciton_tensor::ops::masked::{self, Runs};
use eciton_tensor::ops::patches::{self, Windows};
use eciton_tensor::ops::pool::{self, Pool};
use eciton_tensor::ops::product::{self, Scratch, Wanted};
use eciton_tensor::ops::smooth::{self, Smooth};
use eciton_tensor::ops::{permute, sparse};
use eciton_tensor::{Buffer, Grid, SparseRows, View, ViewMut, numeric_class};

/// Environment variable with the file to which the other process writes its results.
const OUT: &str = "ECITON_TEST_LEVEL_OUT";

/// Returns the results of each routine, as named values.
fn results() -> Vec<(String, Vec<f32>)> {
    let numbers = &mut Numbers(41);
    let mut all = Vec::new();
    for (n, k, m) in [(37, 16, 7), (37, 70, 16), (40, 33, 33), (30, 64, 64), (29, 602, 128), (21, 5, 1)] {
        let (x, w, d) = (numbers.values(n * k), numbers.values(k * m), numbers.values(n * m));
        let (before, after) = (numbers.values(k), numbers.values(m));
        let stored = SparseRows::new(
            k as u32,
            (0..=n as u64).collect::<Vec<_>>(),
            (0..n).map(|i| (i * 7 % k) as u32).collect::<Vec<_>>(),
            numbers.values(n),
        )
        .unwrap();
        for p in prologues(&before, 12, 2) {
            let what = |op: &str| format!("{op} {n} x {k} x {m} {p:?}");
            let (mut y, mut gx) = (vec![0.0; n * m], vec![0.0; n * k]);
            let scratch = &mut Scratch::default();
            let (xv, wv, dv) = (View::new(&x, n, k), View::new(&w, k, m), View::new(&d, n, m));
            product::linear(
                xv,
                &p,
                wv,
                Some(&after),
                Activation::Sigmoid,
                &mut ViewMut::new(&mut y, n, m),
                scratch,
            );
            let buffers = [(1, k), (k, m), (1, m)].map(|(r, c)| Buffer::zeroed(r, c).unwrap());
            let mut leases = buffers.each_ref().map(|b| b.write(0..b.rows()).unwrap());
            let [b, gw, a] = leases.each_mut().map(|l| l.view_mut());
            let (mut b, mut gw, mut a) = ([b], [gw], [a]);
            let mut gxv = ViewMut::new(&mut gx, n, k);
            let wanted = Wanted {
                x: Some(&mut gxv),
                before_bias: Some(&mut b),
                w: Some(&mut gw),
                after_bias: Some(&mut a),
            };
            product::linear_backward(xv, &p, wv, dv, &Grid::single(n), wanted, scratch);
            drop(leases);
            all.extend([(what("linear"), y), (what("grad-x"), gx)]);
            all.extend(buffers.iter().map(|b| (what("sums"), b.to_vec().unwrap())));
            if p.bias.is_none() && p.activation.keeps_zero() {
                let (mut y, mut gw) = (vec![0.0; n * m], vec![0.0; k * m]);
                sparse::linear(
                    &stored,
                    0..n,
                    &p,
                    wv,
                    None,
                    Activation::Identity,
                    &mut ViewMut::new(&mut y, n, m),
                    scratch,
                );
                sparse::weight_gradient(
                    &stored,
                    0..n,
                    &p,
                    dv,
                    &Grid::single(n),
                    &mut [ViewMut::new(&mut gw, k, m)],
                    scratch,
                );
                all.extend([(what("sparse linear"), y), (what("sparse gradient"), gw)]);
            }
        }
    }
    let c = Adam {
        step_size: 0.01,
        bias2_sqrt: 0.1,
        beta1: 0.9,
        beta2: 0.999,
        epsilon: 1e-8,
        decay: 0.1,
        shrink: 0.99,
    };
    let [mut w, g, mut m, mut v] = [(); 4].map(|()| numbers.values(77));
    v.iter_mut().for_each(|v| *v = v.abs());
    adam(c, &mut w, &g, &mut m, &mut v);
    sgd(0.1, 0.9, true, 0.01, &mut w, &g, &mut m);
    all.push(("optimisers".to_owned(), [w, m, v].concat()));
    all.extend(exact(numbers));
    all
}

/// Prefix of the names of results that have the same bits at every level.
const EXACT: &str = "exact: ";

/// Runs routines without fused operations: smooth activations, masked softmax, permutations,
/// windows.
fn exact(numbers: &mut Numbers) -> Vec<(String, Vec<f32>)> {
    let mut all = Vec::new();
    let (n, m) = (6, 33 * 33);
    let (x, g) = (numbers.values(n * m), numbers.values(n * m));
    let (view, grad) = (View::new(&x, n, m), View::new(&g, n, m));
    let mut push = |what: &str, work: &dyn Fn(&mut ViewMut<'_>), rows: usize, columns: usize| {
        let mut y = vec![0.0; rows * columns];
        work(&mut ViewMut::new(&mut y, rows, columns));
        all.push((format!("{EXACT}{what}"), y));
    };
    for by in [Smooth::Gelu, Smooth::GeluTanh, Smooth::Silu, Smooth::Softplus] {
        push(&format!("{by:?}"), &|y| smooth::forward(view, by, y), n, m);
        push(&format!("{by:?}'"), &|y| smooth::backward(view, by, grad, y), n, m);
    }
    for causal in [false, true] {
        let runs = Runs { rows: 33, columns: 33, causal };
        push("softmax", &|y| masked::softmax(view, runs, 0.7, y), n, m);
    }
    push("softmax'", &|y| masked::softmax_backward(view, grad, 33, 0.7, y), n, m);
    for order in [[0, 2, 1, 3], [0, 3, 2, 1], [0, 1, 3, 2]] {
        push("permute", &|y| permute::permute(view, &[3, 11, 33], &order, y), n, m);
    }
    let by = Windows { height: 11, width: 33, channels: 3, kernel: 3, stride: 1, padding: 1, dilation: 1 };
    let wide = numbers.values(2 * m * 9);
    push("patches", &|y| patches::patches(View::new(&x, 2, m), by, y), 2, 9 * m);
    push("sums of patches", &|y| patches::sum_patches(View::new(&wide, 2, 9 * m), by, y), 2, m);
    let by = Windows { kernel: 3, stride: 3, padding: 0, ..by };
    push("pool", &|y| pool::pool(View::new(&x, 2, m), by, Pool::Max, y), 2, 3 * 11 * 3);
    all
}

#[test]
fn child_writes_its_results() {
    // Does nothing unless the other test started this process.
    let Ok(path) = std::env::var(OUT) else { return };
    let values = results().into_iter().flat_map(|(_, v)| v).flat_map(f32::to_le_bytes);
    std::fs::write(path, numeric_class().bytes().chain([b'\n']).chain(values).collect::<Vec<u8>>()).unwrap();
}

#[test]
fn levels_agree_with_the_best() {
    let best = results();
    for (level, class) in [("portable", Some("portable-1")), ("avx2", None)] {
        let path = std::env::temp_dir().join(format!("eciton-levels-{}-{level}", std::process::id()));
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        // Sums over small atoms have a separate routine for each level, too.
        let tests = ["levels::child_writes_its_results", "rows::parts_of_any_cut_combine_to_the_same_bits"];
        child.arg("--exact").args(tests).env("ECITON_SIMD", level).env(OUT, &path);
        let output = child.output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(printed.contains("2 passed"), "{level}: {printed}");
        let bytes = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let at = bytes.iter().position(|&b| b == b'\n').unwrap();
        let found = std::str::from_utf8(&bytes[..at]).unwrap();
        assert!(class.is_none_or(|c| c == found), "ECITON_SIMD={level} computed with {found}");
        println!("{level}: {found} beside {}", numeric_class());
        let mut values = bytes[at + 1..].chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap()));
        for (what, best) in &best {
            let other: Vec<f32> = values.by_ref().take(best.len()).collect();
            if what.starts_with(EXACT) {
                same_bits(&format!("{level}: {what}"), &other, best);
            }
            close(&format!("{level}: {what}"), &other, &wide(best));
        }
        assert_eq!(values.count(), 0);
    }
}

//! Instances on one thread: a trapped one is thrown away, and takes nothing with it.

use std::sync::Arc;

use eciton_kernel::{Call, Instances, Kind, Layer, RowNumbers, Runtime, Settings, Target, VertexCall};
use eciton_tensor::{Buffer, Grid, Matrix};
use eciton_tests::test_kernel;
use eciton_types::Attribute;
use eciton_types::signature::Value;

const ROWS: usize = 37;
const IN: usize = 6;
const OUT: usize = 5;

fn values(count: usize, step: f32) -> Vec<f32> {
    (0..count).map(|i| (i as f32 * step).sin()).collect()
}

fn matrix(rows: usize, columns: usize, step: f32) -> Matrix {
    let buffer = Buffer::from_rows(rows, columns, &values(rows * columns, step)).unwrap();
    Matrix::from(buffer.read(0..rows).unwrap())
}

/// Opens `linear` with a bias, dropout and relu.
fn layer(runtime: &Runtime, component: &std::path::Path) -> Arc<Layer> {
    let kernel = runtime.load("linear", &std::fs::read(component).unwrap()).unwrap();
    let attributes = [
        Attribute::new("out-features", Value::Integer(OUT as i64)),
        Attribute::new("activation", Value::Text("relu".to_owned())),
        Attribute::new("dropout", Value::Number(0.5)),
    ];
    kernel.open(&[vec![IN as u32]], &attributes).unwrap()
}

fn call(layer: &Arc<Layer>, into: &Buffer) -> Call {
    let call = VertexCall {
        kind: Kind::Forward,
        seed: 11,
        epoch: 0,
        layer: 0,
        training: true,
        grid: Arc::new(Grid::single(ROWS)),
        row_numbers: RowNumbers::From(100),
        inputs: vec![matrix(ROWS, IN, 0.37)],
        outputs: Vec::new(),
        kept: Vec::new(),
        parameters: vec![matrix(IN, OUT, 0.71), matrix(1, OUT, 0.9).reshape(&[1, OUT as u32]).unwrap()],
        gradients: Vec::new(),
        output_count: 1,
        rows_out: vec![Some(Target::Rows { rows: into.write(0..ROWS).unwrap(), extents: vec![OUT as u32] })],
        sums_out: Vec::new(),
        labelled: None,
    };
    Call::vertex(layer, call)
}

fn bits(buffer: &Buffer) -> Vec<u32> {
    buffer.to_vec().unwrap().iter().map(|v| v.to_bits()).collect()
}

/// Runs `work`, after which few more instances may be alive than before.
///
/// An instance reserves more than 256 MiB of address space, so some hundred that are kept show in it,
/// whatever other tests of the process do meanwhile.
fn assert_given_back(work: impl FnOnce(&Runtime)) {
    let runtime = Runtime::new(Settings::default()).unwrap();
    let before = eciton_tests::status_kb("VmSize");
    work(&runtime);
    let more = eciton_tests::status_kb("VmSize").saturating_sub(before) >> 20;
    assert!(more < 20, "{more} GiB of address space more than before");
}

#[test]
fn trapped_instances_are_thrown_away() {
    assert_given_back(calls_of_which_half_trap);
}

fn calls_of_which_half_trap(runtime: &Runtime) {
    let builtin = eciton_tests::root().join("guest-kernels/prebuilt/linear.wasm");
    let good = layer(runtime, &builtin);
    let bad: Vec<_> = ["trapping", "recursing", "keeping", "wrong-shape", "unwritten", "handles"]
        .map(|name| layer(runtime, &test_kernel(name)))
        .into();
    let mut instances = Instances::new(false);
    let into = Buffer::zeroed(ROWS, OUT).unwrap();
    instances.run(call(&good, &into)).unwrap();
    let wanted = bits(&into);
    assert!(wanted.iter().any(|&b| b != 0));
    let mut memory = 0;
    for n in 0..2000 {
        let into = Buffer::zeroed(ROWS, OUT).unwrap();
        if n % 2 == 0 {
            let bad = &bad[n / 2 % bad.len()];
            let error = instances.run(call(bad, &into)).unwrap_err();
            assert!(!error.is_retryable(), "call {n}: {error}");
            assert!(error.to_string().contains("kernel `linear`"), "call {n}: {error}");
            // Nothing of the failed task still holds the rows it was to write.
            assert!(into.write(0..ROWS).is_ok(), "call {n}");
        } else {
            let finished = instances.run(call(&good, &into)).unwrap();
            assert_eq!(bits(&into), wanted, "call {n}");
            if n > 100 {
                assert!(
                    memory == 0 || finished.guest_memory_bytes == memory,
                    "call {n}: the guest's memory grows"
                );
                memory = finished.guest_memory_bytes;
            }
        }
    }
}

#[test]
fn fresh_instances_are_given_back() {
    assert_given_back(calls_of_fresh_instances);
}

fn calls_of_fresh_instances(runtime: &Runtime) {
    let good = layer(runtime, &test_kernel("doubled"));
    let bad = layer(runtime, &test_kernel("trapping"));
    let (mut fresh, mut warm) = (Instances::new(true), Instances::new(false));
    let into = Buffer::zeroed(ROWS, OUT).unwrap();
    warm.run(call(&good, &into)).unwrap();
    let wanted = bits(&into);
    for n in 0..200 {
        let into = Buffer::zeroed(ROWS, OUT).unwrap();
        if n % 2 == 0 {
            fresh.run(call(&bad, &into)).unwrap_err();
        } else {
            fresh.run(call(&good, &into)).unwrap();
            assert_eq!(bits(&into), wanted, "call {n}");
        }
    }
}

//! The built-in kernels as WebAssembly against the SDK's f64 reference of the same Rust source.
mod case;

use std::sync::Arc;
use std::time::{Duration, Instant};

use case::{Case, Numbers, Written, load};
use eciton_kernel::{Error, Instances, Kernel, Kind, Layer, Limits};
use eciton_sdk::Attributes;
use eciton_tensor::stream;
use eciton_types::{Attribute, Value};

/// The layer as WebAssembly and natively.
fn open<K: eciton_sdk::Kernel>(
    kernel: &Arc<Kernel>,
    columns: u32,
    given: &[(&str, Value)],
) -> (Arc<Layer>, K) {
    use eciton_sdk::Value as Native;
    let native = |v: &Value| match v {
        Value::Integer(v) => Native::Integer(*v),
        Value::Number(v) => Native::Number(*v),
        Value::Text(v) => Native::Text(v.clone()),
        Value::Flag(v) => Native::Flag(*v),
    };
    let attributes: Vec<Attribute> = given.iter().map(|(n, v)| Attribute::new(n, v.clone())).collect();
    let layer = kernel.open(&[vec![columns]], &attributes).unwrap();
    let all = K::attributes().into_iter().map(|spec| {
        let given = given.iter().find(|(n, _)| *n == spec.name).map(|(_, v)| native(v));
        (spec.name.to_owned(), given.or(spec.default).unwrap())
    });
    (layer, K::open(&[vec![columns]], &Attributes::new(all.collect())).unwrap())
}

const ACTIVATIONS: [&str; 6] = ["identity", "relu", "leaky-relu", "elu", "sigmoid", "tanh"];

#[test]
fn linear_is_its_reference() {
    let (kernel, mut instances) = (load("linear", Limits::default()), Instances::new(false));
    for case in 0..120u32 {
        let numbers = &mut Numbers(1000 + u64::from(case));
        let (rows, columns, features) = (1 + numbers.below(70), 1 + numbers.below(70), 1 + numbers.below(70));
        let text = |v: &str| Value::Text(v.to_owned());
        let sparse = case % 3 == 2;
        // Sparse rows take no bias and only activations with f(0) = 0.
        let before = ACTIVATIONS[numbers.below(if sparse { 4 } else { 6 }) as usize];
        let given = [
            ("out-features", Value::Integer(i64::from(features))),
            ("bias", Value::Flag(numbers.below(2) == 0)),
            ("activation", text(ACTIVATIONS[(case % 6) as usize])),
            ("input-bias", Value::Flag(!sparse && numbers.below(2) == 0)),
            ("input-activation", text(before)),
            ("dropout", Value::Number([0.5, 0.0, 0.2, 0.9][(case / 2 % 4) as usize])),
        ];
        let (layer, native) = open::<linear::Linear>(&kernel, columns, &given);
        let mut made = Case::new(numbers, &layer, rows, case % 5 != 4);
        if sparse {
            made.inputs[0].values.iter_mut().for_each(|v| *v = if numbers.below(4) > 0 { 0.0 } else { *v });
        }
        let what = format!(
            "case {case}: {rows} x {columns} x {features}, sparse {sparse}, {given:?}, {:?}",
            made.context
        );
        made.check(&what, &mut instances, &native, sparse);
    }
}

/// Depths within a vector, over several, and beyond what a byte counts of them.
#[test]
fn signs_are_their_reference() {
    let (kernel, mut instances) = (load("binary", Limits::default()), Instances::new(false));
    for case in 0..60u32 {
        let numbers = &mut Numbers(4000 + u64::from(case));
        let most = if case % 12 == 0 { 9000 } else { 400 };
        let (rows, columns, features) =
            (1 + numbers.below(70), 1 + numbers.below(most), 1 + numbers.below(20));
        let rows = if most > 400 { 1 + rows % 3 } else { rows };
        let given = [
            ("out-features", Value::Integer(i64::from(features))),
            ("dropout", Value::Number([0.5, 0.0, 0.2, 0.9][(case / 2 % 4) as usize])),
        ];
        let (layer, native) = open::<binary::Binary>(&kernel, columns, &given);
        let mut made = Case::new(numbers, &layer, rows, case % 5 != 4);
        let sparse = case % 3 == 2;
        if sparse {
            made.inputs[0].values.iter_mut().for_each(|v| *v = if numbers.below(4) > 0 { 0.0 } else { *v });
        }
        let what = format!("case {case}: {rows} x {columns} x {features}, sparse {sparse}, {given:?}");
        made.check(&what, &mut instances, &native, sparse);
    }
}

#[test]
fn cross_entropy_is_its_reference() {
    let (kernel, mut instances) = (load("head", Limits::default()), Instances::new(false));
    for case in 0..60u32 {
        let numbers = &mut Numbers(2000 + u64::from(case));
        // More than one tile of 1024 rows in some.
        let rows = 1 + numbers.below(if case % 6 == 0 { 3000 } else { 60 });
        let classes = 1 + numbers.below(50);
        let given = [("bias", Value::Flag(case % 2 == 0))];
        let (layer, native) = open::<head::Head>(&kernel, classes, &given);
        let mut made = Case::new(numbers, &layer, rows, case % 5 != 4);
        made.inputs[0].values.iter_mut().for_each(|v| *v *= 20.0);
        if case % 10 == 7 {
            made.labelled.clear();
        }
        let what = format!("case {case}: {rows} x {classes}, {given:?}, {:?}", made.context);
        made.check(&what, &mut instances, &native, false);
    }
}

#[test]
fn streamed_inputs_give_the_bits_of_whole_ones() {
    let kernels = [load("linear", Limits::default()), load("head", Limits::default())];
    let mut instances = Instances::new(false);
    for case in 0..24u32 {
        let numbers = &mut Numbers(3000 + u64::from(case));
        let (rows, columns) = (1 + numbers.below(300), 1 + numbers.below(90));
        let linear = [
            ("out-features", Value::Integer(i64::from(1 + numbers.below(80)))),
            ("input-bias", Value::Flag(case % 4 < 2)),
            ("input-activation", Value::Text("relu".to_owned())),
            ("dropout", Value::Number(f64::from(case % 3) * 0.25)),
        ];
        let layer = if case % 4 == 3 {
            open::<head::Head>(&kernels[1], columns, &[]).0
        } else {
            open::<linear::Linear>(&kernels[0], columns, &linear).0
        };
        let made = Case::new(numbers, &layer, rows, true);
        let x = &made.inputs[0];
        let kinds: &[Kind] = if layer.signature().loss.is_some() {
            &[Kind::Forward, Kind::Loss]
        } else {
            &[Kind::Forward, Kind::Backward]
        };
        for &kind in kinds {
            let whole = made.wasm(&mut instances, kind, vec![x.matrix()], &[], true).unwrap();
            let (mut sender, arriving) = stream::channel(rows as usize, columns as usize).unwrap();
            let mut blocks: Vec<Vec<f32>> = Vec::new();
            let mut start = 0;
            while start < rows {
                let count = (1 + numbers.below(60)).min(rows - start);
                let (from, to) = (start * columns, (start + count) * columns);
                blocks.push(x.values[from as usize..to as usize].to_vec());
                start += count;
            }
            let thread = std::thread::spawn(move || {
                for block in blocks {
                    std::thread::sleep(Duration::from_micros(300));
                    sender.send(&block).unwrap();
                }
            });
            let streamed = made.wasm(&mut instances, kind, vec![arriving.into()], &[], true).unwrap();
            thread.join().unwrap();
            let bits = |w: &Written<f32>| {
                w.rows.iter().chain(&w.sums).flatten().map(|v| v.to_bits()).collect::<Vec<_>>()
            };
            assert_eq!(bits(&whole), bits(&streamed), "case {case}: {}, {rows} x {columns}", kind.name());
        }
    }
}

#[test]
fn a_sender_that_stops_is_an_error_in_time() {
    let arrival = Duration::from_millis(200);
    for (name, given) in [("linear", vec![("out-features", Value::Integer(4))]), ("head", vec![])] {
        let kernel = load(name, Limits { arrival, ..Limits::default() });
        let mut instances = Instances::new(false);
        let attributes: Vec<Attribute> = given.iter().map(|(n, v)| Attribute::new(n, v.clone())).collect();
        let layer = kernel.open(&[vec![5]], &attributes).unwrap();
        let made = Case::new(&mut Numbers(4000), &layer, 40, true);
        let kind = if layer.signature().loss.is_some() { Kind::Loss } else { Kind::Forward };
        for gone in [false, true] {
            let (mut sender, arriving) = stream::channel(40, 5).unwrap();
            sender.send(&[1.0; 100]).unwrap();
            let silent = if gone {
                drop(sender);
                None
            } else {
                Some(sender)
            };
            let start = Instant::now();
            let error = made.wasm(&mut instances, kind, vec![arriving.into()], &[], true).unwrap_err();
            let waited = start.elapsed();
            let Error::Guest { kernel, error, .. } = &error else { panic!("{name}: {error}") };
            assert_eq!((kernel.as_str(), error.kind), (name, "deadline"), "{error:?}");
            assert!(error.text.contains("row 20"), "{error:?}");
            assert!(waited < Duration::from_secs(5) && (gone || waited >= arrival), "{name}: {waited:?}");
            drop(silent);
        }
        // The thread's instances go on working.
        let x = made.inputs[0].matrix();
        made.wasm(&mut instances, kind, vec![x], &[], true).unwrap();
    }
}

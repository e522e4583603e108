//! Tests of calls that are encoded and decoded: the same bits, and the same metadata.

use std::sync::Arc;

use eciton_kernel::wire::{self, Encoding, Request, Source, StepRef, encode, encode_matrices};
use eciton_kernel::{Call, CallStep, Error, Instances, Kind, Limits, Targets};
use eciton_tensor::Matrix;
use eciton_tensor::frame::{Frame, Header};

use crate::case::{Bits, Case, KEY, LINEAR, Numbers, bf16, find, load, seed, work};
use crate::{any_case, kernels};

/// Returns the bits of a matrix's values.
fn bits(matrix: &Matrix) -> Vec<u32> {
    let Matrix::Dense(dense) = matrix else { panic!("{matrix:?}") };
    let held = dense.hold(None).unwrap();
    let view = held.view();
    (0..view.rows()).flat_map(|row| view.row(row).iter().map(|v| v.to_bits())).collect()
}

fn rounded(bits: &[Vec<u32>]) -> Vec<Vec<u32>> {
    let round = |b: &u32| bf16(f32::from_bits(*b)).to_bits();
    bits.iter().map(|row| row.iter().map(round).collect()).collect()
}

#[test]
fn a_call_through_frames_gives_the_same_bits() {
    let (kernels, instances, seed) = (kernels(), &mut Instances::new(false), seed(100));
    println!("seed {seed}");
    let mut sparse = 0;
    for i in 0..240 {
        let numbers = &mut Numbers(seed + i);
        let (which, case) = any_case(numbers, &kernels, 90);
        sparse += u32::from(case.inputs[0].sparse);
        let place = format!("case {}: {:?} of kernel {which}", seed + i, case.kind);
        let expected = case.direct(instances);
        let answer = work(&kernels[which], instances, &case.frame(Encoding::F32, vec![], &[]), &[]);
        let (finished, found) = case.take(answer);
        assert!(finished.unwrap().guest_memory_bytes > 0, "{place}");
        assert_eq!(found, expected, "{place}");
        // With bfloat16 the result is the same as if all dense rows were rounded before, and the
        // results afterwards.
        let expected = case.rounded().direct(instances);
        let answer = work(&kernels[which], instances, &case.frame(Encoding::Bf16, vec![], &[]), &[]);
        let (finished, found) = case.take(answer);
        finished.unwrap();
        assert_eq!(found, Bits { rows: rounded(&expected.rows), sums: expected.sums }, "{place}, bf16");
    }
    assert!(sparse > 10);
}

#[test]
fn constants_are_left_out_and_found() {
    let (kernels, instances, seed) = (kernels(), &mut Instances::new(false), seed(300));
    println!("seed {seed}");
    for i in 0..60 {
        let numbers = &mut Numbers(seed + i);
        let (which, case) = any_case(numbers, &kernels, 60);
        let (call, _) = case.call();
        let with_input = !call.inputs.is_empty();
        let mut objects = vec![encode_matrices(&call.parameters, Encoding::F32).unwrap()];
        let mut constants = Vec::new();
        if with_input {
            objects.push(encode_matrices([&call.inputs[0]], Encoding::F32).unwrap());
            constants.push((0, Source { object: Some(1), part: 0 }));
        }
        let before = call.inputs.len() + call.outputs.len() + call.kept.len();
        let source = |part: usize| Source { object: Some(0), part: part as u32 };
        constants.extend((0..call.parameters.len()).map(|at| (before + at, source(at))));
        let names = (0..objects.len()).map(|i| format!("runs/r/weights/{i}").into()).collect();
        let frame = case.frame(Encoding::F32, names, &constants);
        let whole = case.frame(Encoding::F32, vec![], &[]);
        let parts = |bytes: &[u8]| Header::parse(bytes).unwrap().parts.len();
        let left_out = call.parameters.len() + usize::from(with_input);
        assert_eq!(parts(&frame) + left_out, parts(&whole), "case {}", seed + i);
        let expected = case.direct(instances);
        let (finished, found) = case.take(work(&kernels[which], instances, &frame, &objects));
        finished.unwrap();
        assert_eq!(found, expected, "case {}", seed + i);
        // Only a matrix in an object is shared, and only if the call has the object.
        for bad in [(0, Source { object: None, part: 0 }), (99, Source { object: Some(0), part: 0 })] {
            let limits = Limits::default();
            let (objects, call) = (vec!["a".to_owned().into()], Call::vertex(&case.layer, case.call().0));
            let made = encode("r", KEY, &call, Encoding::F32, &limits, objects, &[bad]);
            assert!(matches!(made, Err(Error::Wire { .. })), "{bad:?}");
        }
    }
}

#[test]
fn everything_but_matrices_survives_exactly() {
    let kernels = kernels();
    let numbers = &mut Numbers(seed(7));
    for _ in 0..50 {
        let (_, case) = any_case(numbers, &kernels, 40);
        let (call, _) = case.call();
        let bytes = case.frame(Encoding::Bf16, vec!["a/b".to_owned().into()], &[]);
        let frame = Frame::parse(&bytes).unwrap();
        let request = Request::parse(&frame.header().meta).unwrap();
        assert_eq!(
            serde_json::from_slice::<Request>(&serde_json::to_vec(&request).unwrap()).unwrap(),
            request
        );
        assert_eq!(Limits::from(&request.limits), Limits::default());
        assert_eq!((request.key, request.objects.clone()), (KEY, vec!["a/b".to_owned().into()]));
        let asked = request.calls().next().unwrap();
        let layer = asked.open(case.layer.kernel()).unwrap();
        assert_eq!(layer.signature(), case.layer.signature());
        let other = &kernels[usize::from(Arc::ptr_eq(case.layer.kernel(), &kernels[0]))];
        assert!(matches!(asked.open(other), Err(Error::Wire { .. })), "another kernel");
        let (made, places) = request.into_call(&[layer], &mut |s| find(s, &frame, &[])).unwrap();
        let [CallStep::Vertex(_, back)] = &made.steps[..] else { panic!("{made:?}") };
        let rows = call.grid.rows() > 0 && call.rows_out.iter().any(Option::is_some);
        let some = rows || !call.sums_out.is_empty();
        assert_eq!(places.bytes() > 0, some);
        assert_eq!(
            (back.kind, back.seed, back.epoch, back.layer),
            (call.kind, call.seed, call.epoch, call.layer)
        );
        assert_eq!(
            (back.training, &back.grid, back.output_count),
            (call.training, &call.grid, call.output_count)
        );
        assert_eq!(format!("{:?}", back.row_numbers), format!("{:?}", call.row_numbers));
        match (&back.labelled, &call.labelled) {
            (Some(b), Some(c)) => {
                assert_eq!((&b.rows, b.weight.to_bits()), (&c.rows, c.weight.to_bits()));
                match (&b.targets, &c.targets) {
                    (Targets::Classes(b), Targets::Classes(c)) => assert_eq!(b, c),
                    (Targets::Values(b), Targets::Values(c)) => assert_eq!(bits(b), bits(c)),
                    other => panic!("{other:?}"),
                }
                assert_eq!(b.row_weights.as_ref().map(bits), c.row_weights.as_ref().map(bits));
            }
            (b, c) => assert_eq!(b.is_some(), c.is_some()),
        }
        for (b, c) in [(&back.inputs, &call.inputs), (&back.parameters, &call.parameters)] {
            let found = b.iter().map(|operand| made.matrix(operand.given().unwrap()).unwrap().shape());
            assert!(found.eq(c.iter().map(Matrix::shape)));
        }
    }
}

/// Checks floats that JSON cannot represent, or would round.
#[test]
fn odd_numbers_survive() {
    let kernels = kernels();
    let (_, case) = any_case(&mut Numbers(1), &kernels, 4);
    let bytes = case.frame(Encoding::F32, vec![], &[]);
    let mut request = Request::parse(&Header::parse(&bytes).unwrap().meta).unwrap();
    let StepRef::Kernel(asked) = &mut request.steps[0] else { panic!("{request:?}") };
    use eciton_types::{Attribute, Value as V};
    for (i, value) in [0.1, -0.0, f64::MAX, 5e-324, f64::INFINITY, 1.0, f64::from_bits(0x3ff0_0000_0000_0001)]
        .into_iter()
        .enumerate()
    {
        asked.attributes.push(Attribute::new(&format!("n{i}"), V::Number(value)));
    }
    asked.attributes.push(Attribute::new("i", V::Integer(i64::MIN)));
    asked.attributes.push(Attribute::new("t", V::Text("1.0 \u{1f980} \0 \"".to_owned())));
    asked.seed = u64::MAX;
    let back: Request = serde_json::from_slice(&serde_json::to_vec(&request).unwrap()).unwrap();
    assert_eq!(back, request);
    let bits = |r: &Request| {
        let bits = |a: &Attribute| if let V::Number(v) = a.value { v.to_bits() } else { 0 };
        r.calls().flat_map(|call| call.attributes.iter().map(bits)).collect::<Vec<_>>()
    };
    assert_eq!(bits(&back), bits(&request));
}

#[test]
fn what_may_be_streamed_comes_last() {
    let kernel = load("linear", LINEAR);
    let numbers = &mut Numbers(11);
    for (kind, rows, expected) in
        [(Kind::Forward, 3000, true), (Kind::Backward, 3000, true), (Kind::Forward, 20, false)]
    {
        let mut case = Case::linear(numbers, &kernel, kind, rows, 40);
        while case.inputs[0].sparse || case.inputs[0].extents[0] < 30 {
            case = Case::linear(numbers, &kernel, kind, rows, 40);
        }
        let bytes = case.frame(Encoding::F32, vec![], &[]);
        let header = Header::parse(&bytes).unwrap();
        let request = Request::parse(&header.meta).unwrap();
        let last = header.parts.len() as u32 - 1;
        let streamed = request.streamables().next();
        assert_eq!(streamed, expected.then_some(Source { object: None, part: last }), "{kind:?} {rows}");
        if expected {
            assert_eq!(request.calls().next().unwrap().inputs[0].source.part, last);
            assert!(header.parts[last as usize].bytes_len > wire::STREAM_BYTES);
        }
    }
    // A large gradient, with inputs in shared objects.
    let case = loop {
        let case = Case::linear(numbers, &kernel, Kind::Backward, 4000, 60);
        if case.layer.signature().outputs[0].extents[0] > 20
            && !case.inputs[0].sparse
            && case.inputs[0].extents[0] < 15
        {
            break case;
        }
    };
    let bytes =
        case.frame(Encoding::F32, vec!["x".to_owned().into()], &[(0, Source { object: Some(0), part: 0 })]);
    let header = Header::parse(&bytes).unwrap();
    let request = Request::parse(&header.meta).unwrap();
    assert_eq!(
        request.streamables().next(),
        Some(Source { object: None, part: header.parts.len() as u32 - 1 })
    );
    assert_eq!(request.streamables().next(), Some(request.calls().next().unwrap().gradients[0].source));
}

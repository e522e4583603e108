//! Calls through frames and back: the same bits as direct runs; whatever else comes is refused.
//!
//! Random tests print their seed (`ECITON_SEED=n` replays). `ECITON_FUZZ_SECONDS=600 cargo test
//! --release -p eciton-kernel --test wire` runs the mutation fuzz for ten minutes.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "wire/case.rs"]
mod case;

use std::sync::Arc;
use std::time::{Duration, Instant};

use case::{Bits, Case, KEY, LINEAR, LOSS, Numbers, Rows, UNTOUCHED, bf16, find, load, perform, seed, work};
use eciton_kernel::wire::{
    self, Answer, AnswerMeta, Constants, Decoded, Encoding, Failure, FailureKind, Outcome, Request, Source,
    encode_call, encode_failure, encode_input, encode_parameters,
};
use eciton_kernel::{Error, Finished, GuestError, Instances, Kernel, Kind, Limits};
use eciton_tensor::frame::{Frame, Header, Writer};
use eciton_tensor::{Matrix, View};
use serde_json::{Value, json};

const KINDS: [Kind; 3] = [Kind::Forward, Kind::Backward, Kind::Loss];

/// A random call of either kernel.
fn any_case(numbers: &mut Numbers, kernels: &[Arc<Kernel>; 2], rows: usize) -> (usize, Case) {
    let (rows, which) = (numbers.below(rows) as u32, numbers.below(2));
    let kind = KINDS[numbers.below(2 + which)];
    let case = match which {
        0 => Case::linear(numbers, &kernels[0], kind, rows, 40),
        _ => Case::loss(numbers, &kernels[1], kind, rows, 12),
    };
    (which, case)
}

fn kernels() -> [Arc<Kernel>; 2] {
    [load("linear", LINEAR), load("cross-entropy", LOSS)]
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
        let answer =
            work(&kernels[which], instances, &case.frame(Encoding::F32, vec![], &Constants::default()), &[]);
        let (finished, found) = case.take(answer);
        assert!(finished.unwrap().guest_memory_bytes > 0, "{place}");
        assert_eq!(found, expected, "{place}");
        // With bf16: as if all dense rows had been rounded before, and the rows afterwards.
        let expected = case.rounded().direct(instances);
        let answer =
            work(&kernels[which], instances, &case.frame(Encoding::Bf16, vec![], &Constants::default()), &[]);
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
        let mut objects = vec![encode_parameters(&call).unwrap()];
        if with_input {
            objects.push(encode_input(&call, 0, Encoding::F32).unwrap());
        }
        let inputs = [(0, Source { object: Some(1), part: 0 })];
        let constants = Constants { inputs: if with_input { &inputs } else { &[] }, parameters: Some(0) };
        let names = (0..objects.len()).map(|i| format!("runs/r/weights/{i}")).collect();
        let frame = case.frame(Encoding::F32, names, &constants);
        let whole = case.frame(Encoding::F32, vec![], &Constants::default());
        let parts = |bytes: &[u8]| Header::parse(bytes).unwrap().parts.len();
        let left_out = call.parameters.len() + usize::from(with_input);
        assert_eq!(parts(&frame) + left_out, parts(&whole), "case {}", seed + i);
        let expected = case.direct(instances);
        let (finished, found) = case.take(work(&kernels[which], instances, &frame, &objects));
        finished.unwrap();
        assert_eq!(found, expected, "case {}", seed + i);
        // Only what lies in an object is a constant, and only what the call has.
        for bad in [(0, Source { object: None, part: 0 }), (9, Source { object: Some(0), part: 0 })] {
            let constants = Constants { inputs: &[bad], parameters: None };
            let limits = Limits::default();
            let made = encode_call(
                "r",
                KEY,
                &case.layer,
                &call,
                Encoding::F32,
                &limits,
                vec!["a".into()],
                &constants,
            );
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
        let bytes = case.frame(Encoding::Bf16, vec!["a/b".into()], &Constants::default());
        let frame = Frame::parse(&bytes).unwrap();
        let request = Request::parse(&frame.header().meta).unwrap();
        assert_eq!(
            serde_json::from_slice::<Request>(&serde_json::to_vec(&request).unwrap()).unwrap(),
            request
        );
        assert_eq!(Limits::from(&request.limits), Limits::default());
        assert_eq!((request.key, request.objects.clone()), (KEY, vec!["a/b".to_owned()]));
        let layer = request.open(case.layer.kernel()).unwrap();
        assert_eq!(layer.signature(), case.layer.signature());
        let other = &kernels[usize::from(Arc::ptr_eq(case.layer.kernel(), &kernels[0]))];
        assert!(matches!(request.open(other), Err(Error::Wire { .. })), "another kernel");
        let (back, places) = request.into_call(&mut |s| find(s, &frame, &[])).unwrap();
        let some = call.rows_out.iter().any(Option::is_some) || !call.sums_out.is_empty();
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
                assert_eq!(
                    (&b.labels, &b.rows, b.weight.to_bits()),
                    (&c.labels, &c.rows, c.weight.to_bits())
                );
            }
            (b, c) => assert_eq!(b.is_some(), c.is_some()),
        }
        let shapes = |all: &[Matrix]| all.iter().map(Matrix::shape).collect::<Vec<_>>();
        for (b, c) in [(&back.inputs, &call.inputs), (&back.parameters, &call.parameters)] {
            assert_eq!(shapes(b), shapes(c));
        }
    }
}

/// Floats that JSON has no words for, or might round.
#[test]
fn odd_numbers_survive() {
    let kernels = kernels();
    let (_, case) = any_case(&mut Numbers(1), &kernels, 4);
    let bytes = case.frame(Encoding::F32, vec![], &Constants::default());
    let mut request = Request::parse(&Header::parse(&bytes).unwrap().meta).unwrap();
    use eciton_plan::{Attribute, Value as V};
    for (i, value) in [0.1, -0.0, f64::MAX, 5e-324, f64::INFINITY, 1.0, f64::from_bits(0x3ff0_0000_0000_0001)]
        .into_iter()
        .enumerate()
    {
        request.attributes.push(Attribute::new(&format!("n{i}"), V::Number(value)));
    }
    request.attributes.push(Attribute::new("i", V::Integer(i64::MIN)));
    request.attributes.push(Attribute::new("t", V::Text("1.0 \u{1f980} \0 \"".to_owned())));
    request.seed = u64::MAX;
    let back: Request = serde_json::from_slice(&serde_json::to_vec(&request).unwrap()).unwrap();
    assert_eq!(back, request);
    let bits = |r: &Request| {
        let bits = |a: &Attribute| if let V::Number(v) = a.value { v.to_bits() } else { 0 };
        r.attributes.iter().map(bits).collect::<Vec<_>>()
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
        let bytes = case.frame(Encoding::F32, vec![], &Constants::default());
        let header = Header::parse(&bytes).unwrap();
        let request = Request::parse(&header.meta).unwrap();
        let last = header.parts.len() as u32 - 1;
        let streamed = request.streamable();
        assert_eq!(streamed, expected.then_some(Source { object: None, part: last }), "{kind:?} {rows}");
        if expected {
            assert_eq!(request.inputs[0].source.part, last);
            assert!(header.parts[last as usize].bytes_len > wire::STREAM_BYTES);
        }
    }
    // A large gradient, where the inputs are constants.
    let case = loop {
        let case = Case::linear(numbers, &kernel, Kind::Backward, 4000, 60);
        if case.layer.signature().outputs[0].extents[0] > 20
            && !case.inputs[0].sparse
            && case.inputs[0].extents[0] < 15
        {
            break case;
        }
    };
    let bytes = case.frame(
        Encoding::F32,
        vec!["x".into()],
        &Constants { inputs: &[(0, Source { object: Some(0), part: 0 })], parameters: None },
    );
    let header = Header::parse(&bytes).unwrap();
    let request = Request::parse(&header.meta).unwrap();
    assert_eq!(request.streamable(), Some(Source { object: None, part: header.parts.len() as u32 - 1 }));
    assert_eq!(request.streamable(), Some(request.gradients[0].source));
}

/// A failed call is the same error here as there, and writes nothing.
#[test]
fn failures_keep_their_kind() {
    let text = |t: &str| t.to_owned();
    let guest = |kind| Error::Guest {
        kernel: text("linear"),
        place: text("forward"),
        error: GuestError { kind, text: text("x has 3 columns") },
    };
    let kernels = kernels();
    let (_, case) = any_case(&mut Numbers(2), &kernels, 9);
    for (error, retryable) in [
        (guest("shape"), false),
        (guest("limit"), false),
        (Error::Trap { kernel: text("k"), place: text("loss"), reason: text("unreachable") }, false),
        (Error::Promise { kernel: text("k"), place: text("loss"), reason: text("never written") }, false),
        (Error::Wire { place: text("request"), reason: text("no") }, false),
        (Error::Host { place: text("fetch"), reason: text("timeout") }, true),
    ] {
        assert_eq!(error.is_retryable(), retryable);
        let words = error.to_string();
        let meta = AnswerMeta::new(KEY, &Err(error));
        let bytes = encode_failure(&meta).unwrap();
        assert_eq!(Answer::parse(bytes.clone()).unwrap().meta(), &meta);
        let (found, bits) = case.take(bytes);
        let found = found.unwrap_err();
        assert_eq!((found.to_string(), found.is_retryable()), (words, retryable));
        assert!(bits.rows.iter().chain(&bits.sums).flatten().all(|b| *b == UNTOUCHED.to_bits()));
    }
    // Others become one of these: only a fault of the host is tried again.
    let engine = Error::Engine { doing: "starting", reason: text("no memory") };
    assert_eq!(Failure::from(&engine).kind, FailureKind::Host);
    let contract = Error::Contract { kernel: text("k"), differences: text("no loss") };
    assert_eq!(Failure::from(&contract).kind, FailureKind::Refused);
    assert!(Failure::from(&contract).message.contains("no loss"));
}

#[test]
fn long_texts_are_cut() {
    let finished = Finished { log: vec!["x\n".repeat(1000); 2000], guest_memory_bytes: 1 };
    let meta = AnswerMeta::new(KEY, &Ok(finished));
    let answer = Answer::parse(encode_failure(&meta).unwrap()).unwrap();
    let log = &answer.meta().log;
    let kept: usize = log.iter().map(String::len).sum();
    assert!(kept <= wire::MAX_LOG_BYTES && kept > wire::MAX_LOG_BYTES - 3000, "{kept}");
    assert_eq!(log.last().unwrap(), &format!("({} more lines were left out)", 2000 - (log.len() - 1)));
    let long = Failure::host("p", &"\u{20ac}".repeat(wire::MAX_TEXT_BYTES));
    let meta = AnswerMeta { outcome: Outcome::Failed(long), ..meta };
    let answer = Answer::parse(encode_failure(&meta).unwrap()).unwrap();
    let Outcome::Failed(failure) = &answer.meta().outcome else { panic!("it failed") };
    assert!(
        failure.message.len() <= wire::MAX_TEXT_BYTES && failure.message.len() > wire::MAX_TEXT_BYTES - 4
    );
}

#[test]
fn an_answer_tells_how_long_it_took_to_write() {
    let kernels = kernels();
    let numbers = &mut Numbers(4);
    let case = Case::linear(numbers, &kernels[0], Kind::Forward, 5000, 60);
    let frame = case.frame(Encoding::F32, vec![], &Constants::default());
    let answer = Answer::parse(work(&kernels[0], &mut Instances::new(false), &frame, &[])).unwrap();
    let meta = answer.meta();
    assert!((1..10_000_000).contains(&meta.times.encode_us), "{:?}", meta.times);
    assert_eq!((meta.key, &meta.outcome), (KEY, &Outcome::Done));
    assert_eq!(meta.numeric_class, eciton_tensor::numeric_class());
    assert!(answer.bytes_len() > 5000);
}

/// A call's answer for other places is refused before anything is written.
#[test]
fn answers_are_taken_whole_or_not_at_all() {
    let (kernels, instances) = (kernels(), &mut Instances::new(false));
    let numbers = &mut Numbers(seed(21));
    let case = loop {
        let case = Case::linear(numbers, &kernels[0], Kind::Backward, 50, 20);
        if !case.direct(instances).rows.is_empty() && case.parameters.len() > 1 {
            break case;
        }
    };
    let frame = case.frame(Encoding::F32, vec![], &Constants::default());
    let answer = work(&kernels[0], instances, &frame, &[]);
    let header = Header::parse(&answer).unwrap();
    let untouched =
        |bits: &Bits| bits.rows.iter().chain(&bits.sums).flatten().all(|b| *b == UNTOUCHED.to_bits());
    // The last byte of the last part: every earlier part was right.
    let mut changed = answer.clone();
    *changed.last_mut().unwrap() ^= 1;
    let (result, bits) = case.take(changed);
    assert!(matches!(&result, Err(e @ Error::Host { .. }) if e.is_retryable()), "{result:?}");
    assert!(untouched(&bits));
    // Cut.
    let (result, bits) = case.take(answer[..answer.len() - 1].to_vec());
    assert!(matches!(result, Err(Error::Host { .. })) && untouched(&bits));
    // Other parts: a row more, a column more, a part less, sums as bf16, ids.
    let tensors: Vec<(usize, usize)> =
        header.parts.iter().map(|p| (p.rows as usize, p.columns as usize)).collect();
    let sums = |i: usize| i > 0;
    for change in 0..6 {
        let values = vec![1.0f32; 4096];
        let mut writer = Writer::new(header.meta.clone());
        for (i, &(rows, columns)) in tensors.iter().enumerate() {
            let last = i + 1 == tensors.len();
            let more = usize::from(last);
            match change {
                0 => drop(writer.view(View::new(&values, rows + more, columns), Encoding::F32).unwrap()),
                1 => drop(writer.view(View::new(&values, rows, columns + more), Encoding::F32).unwrap()),
                2 if last => {}
                3 if sums(i) => drop(writer.view(View::new(&values, rows, columns), Encoding::Bf16).unwrap()),
                4 if last => drop(writer.ids(vec![1; rows * columns]).unwrap()),
                _ => drop(writer.view(View::new(&values, rows, columns), Encoding::F32).unwrap()),
            }
        }
        if change == 5 {
            writer.ids(&[1]).unwrap();
        }
        let (result, bits) = case.take(writer.finish().unwrap());
        assert!(matches!(result, Err(Error::Wire { .. })), "change {change}: {result:?}");
        assert!(untouched(&bits), "change {change}");
    }
    // Places that somebody reads.
    let (call, written) = case.call();
    let eciton_kernel::Target::Sums { parts, .. } = &call.sums_out[0] else { panic!("a sum") };
    let lease = parts[0].read(0..1).unwrap();
    let result = Answer::parse(answer.clone()).unwrap().into_targets(call.rows_out, call.sums_out);
    assert!(matches!(result, Err(Error::Wire { .. })), "{result:?}");
    drop(lease);
    assert!(untouched(&written.bits()));
    // And as it is.
    let (result, bits) = case.take(answer);
    result.unwrap();
    assert!(!untouched(&bits));
}

/// A request as JSON, with the frame that it belongs to.
fn as_json(case: &Case) -> (Vec<u8>, Value) {
    let bytes = case.frame(Encoding::F32, vec!["o".into()], &Constants::default());
    let meta = serde_json::from_slice(&Header::parse(&bytes).unwrap().meta).unwrap();
    (bytes, meta)
}

/// Parses and makes a call of what `json` says.
fn admit(bytes: &[u8], json: &Value) -> Result<(), Error> {
    let frame = Frame::parse(bytes).unwrap();
    let request = Request::parse(&serde_json::to_vec(json).unwrap())?;
    request.into_call(&mut |s| find(s, &frame, &[])).map(drop)
}

#[test]
fn requests_that_contradict_themselves_are_refused() {
    let kernels = kernels();
    let loss = Case::loss(&mut Numbers(5), &kernels[1], Kind::Loss, 40, 6);
    let (bytes, good) = as_json(&loss);
    admit(&bytes, &good).unwrap();
    let rows =
        good["grid"].as_array().unwrap().last().unwrap()["ends"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(rows, 40);
    let grid =
        |ends: Value, closes: Value, level: u32| json!([{"level": level, "ends": ends, "closes": closes}]);
    let many = |n: usize, v: Value| Value::Array(vec![v; n]);
    let own = |part: u32| json!({"object": null, "part": part});
    let labels = good["labelled"]["labels"]["part"].as_u64().unwrap() as u32;
    let matrix =
        |source: Value, extents: Value| json!([{"source": source, "extents": extents, "encoding": "f32"}]);
    let columns = good["inputs"][0]["extents"][0].as_u64().unwrap();
    let changes: Vec<(&str, Value, &str)> = vec![
        ("/version", json!(2), "version 2"),
        ("/run", json!("x".repeat(1025)), "1024 are allowed"),
        ("/kernel/digest", json!("zz".repeat(32)), "digest"),
        ("/kernel/digest", json!("00"), "digest"),
        ("/kernel/digest", json!("AB".repeat(32)), "lower case"),
        ("/kind", json!("both"), "both"),
        ("/kind", json!("forward"), "no sums"),
        ("/kind", json!("backward"), "labels belong"),
        ("/encoding", json!("f16"), "f16"),
        ("/grid", json!([]), "there is none"),
        ("/grid", grid(json!([]), json!([]), 0), "0 atoms"),
        ("/grid", grid(json!([40]), json!([]), 0), "1 atoms, 0"),
        ("/grid", grid(json!([30, 20, 40]), json!([0, 0, 0]), 1), "after row 30"),
        ("/grid", grid(json!([40]), json!([1]), 1), "1 levels"),
        ("/grid", grid(json!([40]), json!([0]), 4), "level 4"),
        ("/grid", grid(many(4097, json!(40)), many(4097, json!(0)), 3), "4096 are allowed"),
        ("/grid", grid(json!([39]), json!([0]), 0), "40 rows, the interval 39"),
        ("/grid", grid(json!([u32::MAX]), json!([0]), 0), "matrix-bytes"),
        ("/row_numbers", json!({"from": u64::MAX - 38}), "past 2^64"),
        ("/row_numbers", json!({"list": own(labels)}), "40 halves"),
        ("/row_numbers", json!({"list": own(0)}), "is a matrix"),
        ("/inputs", matrix(own(labels), json!([columns])), "not a matrix"),
        ("/inputs", matrix(own(99), json!([columns])), "part 99"),
        ("/inputs", matrix(json!({"object": 1, "part": 0}), json!([columns])), "of 1 objects"),
        ("/inputs", matrix(own(0), json!([columns + 1])), "extents"),
        ("/inputs", matrix(own(0), json!([1, 1, 1, columns])), "up to three"),
        ("/inputs", matrix(own(0), json!([65536, 65536])), "below 2^32"),
        ("/inputs", many(513, matrix(own(0), json!([columns]))[0].clone()), "512 are allowed"),
        ("/rows_out", json!([[65536, 65536]]), "below 2^32"),
        ("/rows_out", json!([[u32::MAX]]), "matrix-bytes"),
        ("/rows_out", many(513, json!(null)), "512 are allowed"),
        ("/sums_out", json!([]), "the loss"),
        ("/sums_out", json!([[2]]), "the loss"),
        ("/sums_out", json!([[], [1]]), "without extents"),
        ("/sums_out", json!([[u32::MAX, u32::MAX], [1]]), "matrix-bytes"),
        ("/sums_out", json!([[1, u32::MAX, 2], [1]]), "below 2^32"),
        ("/limits/matrix_bytes", json!(64), "matrix-bytes"),
        ("/labelled", json!(null), "labels belong"),
        ("/labelled/labels", own(0), "is a matrix"),
        ("/labelled/rows", own(labels), "ascend"),
        ("/objects", many(1025, json!("o")), "1024 are allowed"),
        ("/objects", json!(["o".repeat(1025)]), "1024 are allowed"),
        ("/output_count", json!(513), "more outputs"),
        ("/attributes", many(1025, json!({"name": "a", "value": {"flag": true}})), "1024 are allowed"),
        ("/attributes", json!([{"name": "a", "value": true}]), "cannot be read"),
        ("/inputs_extents", many(513, json!([1])), "512 are allowed"),
        ("/inputs_extents", json!([[65536, 65536]]), "below 2^32"),
        ("/seed", json!(-1), "cannot be read"),
        ("/key/epoch", json!("x"), "cannot be read"),
    ];
    for (pointer, value, words) in changes {
        let mut json = good.clone();
        *json.pointer_mut(pointer).unwrap() = value.clone();
        let shown: String = value.to_string().chars().take(60).collect();
        match admit(&bytes, &json) {
            Err(e @ Error::Wire { .. }) => {
                assert!(e.to_string().contains(words), "{pointer} = {shown}: {e}");
                assert!(!e.is_retryable());
            }
            other => panic!("{pointer} = {shown}: {other:?}"),
        }
    }
    let mut json = good.clone();
    json["extra"] = json!(1);
    assert!(admit(&bytes, &json).unwrap_err().to_string().contains("extra"));
    // Forward's own rules.
    let forward = Case::loss(&mut Numbers(5), &kernels[1], Kind::Forward, 40, 6);
    let (bytes, good) = as_json(&forward);
    for (pointer, value, words) in
        [("/output_count", json!(2), "more outputs"), ("/rows_out", json!([null]), "all outputs")]
    {
        let mut json = good.clone();
        *json.pointer_mut(pointer).unwrap() = value;
        assert!(admit(&bytes, &json).unwrap_err().to_string().contains(words), "{pointer}");
    }
}

/// Sparse rows of many columns need memory for each of them later, though no byte backs them.
#[test]
fn sparse_rows_of_endless_width_are_refused() {
    let kernels = kernels();
    let numbers = &mut Numbers(8);
    let case = loop {
        let case = Case::linear(numbers, &kernels[0], Kind::Forward, 10, 20);
        if case.inputs[0].sparse {
            break case;
        }
    };
    let (bytes, mut json) = as_json(&case);
    json["inputs"][0]["extents"] = json!([u32::MAX - 1]);
    let wide = eciton_tensor::SparseRows::new(u32::MAX - 1, vec![0; 11], vec![], vec![]).unwrap();
    let wide = Matrix::from(Arc::new(wide));
    let frame = Frame::parse(&bytes).unwrap();
    let request = Request::parse(&serde_json::to_vec(&json).unwrap()).unwrap();
    let first = request.inputs[0].source;
    let made = request.into_call(&mut |s| {
        if *s == first { Ok(Decoded::Matrix(wide.clone())) } else { find(s, &frame, &[]) }
    });
    assert!(made.unwrap_err().to_string().contains("matrix-bytes"));
}

#[test]
fn a_worker_cuts_limits_down_to_its_own() {
    let kernels = kernels();
    let (_, case) = any_case(&mut Numbers(3), &kernels, 30);
    let (_, json) = as_json(&case);
    let mut request: Request = serde_json::from_value(json).unwrap();
    let ceiling = Limits {
        guest_memory_bytes: 1 << 20,
        task_time: Duration::from_micros(1500),
        matrix_bytes: 64,
        handles: 9,
        call_bytes: u64::MAX,
        ..Limits::default()
    };
    request.restrict(&ceiling);
    let found = Limits::from(&request.limits);
    let expected = Limits {
        task_time: Duration::from_millis(2),
        call_bytes: Limits::default().call_bytes,
        ..ceiling.clone()
    };
    assert_eq!(found, expected);
    assert!(request.check().unwrap_err().to_string().contains("64 allowed"));
}

/// A request is run only if it calls its layer as the signature says.
#[test]
fn requests_fit_their_layer() {
    let kernels = kernels();
    let numbers = &mut Numbers(seed(400));
    for _ in 0..60 {
        let (which, case) = any_case(numbers, &kernels, 20);
        let (_, good) = as_json(&case);
        let fits = |json: &Value| {
            let request = Request::parse(&serde_json::to_vec(json).unwrap())?;
            request.open(&kernels[which]).map(drop)
        };
        fits(&good).unwrap();
        for field in ["inputs", "outputs", "kept", "gradients", "parameters", "rows_out", "sums_out"] {
            let list = good[field].as_array().unwrap();
            let mut wrong = Vec::new();
            // One more; one of another width.
            let more = list.first().cloned().unwrap_or_else(|| match field {
                "rows_out" => json!([1]),
                "sums_out" => json!([1]),
                _ => json!({"source": {"object": 0, "part": 0}, "extents": [1], "encoding": null}),
            });
            wrong.push([&[more], &list[..]].concat());
            if let Some(first) = list.first() {
                let mut other = list.clone();
                match first {
                    Value::Array(shape) => other[0] = json!([&shape[..], &[json!(3)]].concat()),
                    Value::Null => other[0] = json!([7777]),
                    _ => other[0]["extents"] = json!([7777]),
                }
                wrong.push(other);
            }
            for list in wrong {
                let mut json = good.clone();
                json[field] = Value::Array(list);
                let result = fits(&json);
                assert!(matches!(result, Err(Error::Wire { .. })), "{field} = {}: {result:?}", json[field]);
            }
        }
    }
    // The same number of values in another order of extents, which a host function took for its own.
    let case = loop {
        let case = Case::linear(numbers, &kernels[0], Kind::Backward, 9, 20);
        if case.parameters.len() == 1 && case.inputs[0].extents == [1] {
            break case;
        }
    };
    let (_, mut json) = as_json(&case);
    let shape = json["sums_out"][0].as_array().unwrap().clone();
    json["sums_out"][0] = json!([shape[1], shape[0]]);
    let request = Request::parse(&serde_json::to_vec(&json).unwrap()).unwrap();
    assert_eq!(request.fits(&case.layer).is_err(), shape[0] != shape[1]);
}

/// A part that is named often is made once: memory follows the bytes, not the names.
#[test]
fn a_tensor_named_often_is_made_once() {
    let kernels = kernels();
    let case = Case::loss(&mut Numbers(5), &kernels[1], Kind::Loss, 40, 6);
    let (bytes, mut json) = as_json(&case);
    let input = json["inputs"][0].clone();
    for field in ["inputs", "outputs", "kept", "gradients", "parameters"] {
        json[field] = Value::Array(vec![input.clone(); wire::MAX_MATRICES]);
    }
    let frame = Frame::parse(&bytes).unwrap();
    let mut asked = Vec::new();
    let request = Request::parse(&serde_json::to_vec(&json).unwrap()).unwrap();
    let (call, _) = request
        .into_call(&mut |s| {
            asked.push(s.part);
            find(s, &frame, &[])
        })
        .unwrap();
    assert_eq!((call.inputs.len(), call.parameters.len()), (wire::MAX_MATRICES, wire::MAX_MATRICES));
    asked.dedup();
    assert!(asked.len() <= frame.header().parts.len(), "{asked:?}");
}

/// Another value at a random place of a JSON text.
fn mutate(numbers: &mut Numbers, value: &mut Value) {
    match value {
        Value::Object(map) if !map.is_empty() && numbers.below(20) > 0 => {
            let at = numbers.below(map.len());
            let key = map.keys().nth(at).unwrap().clone();
            match numbers.below(30) {
                0 => drop(map.remove(&key)),
                _ => mutate(numbers, &mut map[&key]),
            }
        }
        Value::Array(all) if !all.is_empty() && numbers.below(5) > 0 => {
            let at = numbers.below(all.len());
            match numbers.below(8) {
                0 => drop(all.remove(at)),
                1 => all.push(all[at].clone()),
                2 => all.swap(0, at),
                _ => mutate(numbers, &mut all[at]),
            }
        }
        other => {
            let edges =
                [0, 1, 2, 3, 39, 41, 255, 1 << 16, (1 << 31) - 1, u64::from(u32::MAX), 1 << 32, u64::MAX];
            *other = match numbers.below(8) {
                0 => json!(null),
                1 => json!([]),
                2 => json!("loss"),
                3 => json!(true),
                _ => json!(edges[numbers.below(edges.len())]),
            };
        }
    }
}

#[test]
fn mutated_requests_and_answers_are_refused_or_taken() {
    let kernels = kernels();
    let seconds = std::env::var("ECITON_FUZZ_SECONDS").ok().and_then(|s| s.parse().ok()).unwrap_or(2.0);
    let (seed, until) = (seed(5_000), Instant::now() + Duration::from_secs_f64(seconds));
    // What a worker of little memory allows: a mutated size cannot hurt.
    let ceiling = Limits { matrix_bytes: 8 << 20, call_work: 1 << 28, ..Limits::default() };
    let (mut i, mut refused, mut failed, mut done) = (0u64, 0u64, 0u64, 0u64);
    while Instant::now() < until || i < 300 {
        let numbers = &mut Numbers(seed + i);
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let (which, case) = any_case(numbers, &kernels, 50);
            let (bytes, json) = as_json(&case);
            let frame = Frame::parse(&bytes).unwrap();
            let mut outcomes = [0u64; 3];
            for _ in 0..40 {
                let mut json = json.clone();
                (0..1 + numbers.below(2)).for_each(|_| mutate(numbers, &mut json));
                let Ok(mut request) = Request::parse(&serde_json::to_vec(&json).unwrap()) else {
                    outcomes[0] += 1;
                    continue;
                };
                request.restrict(&ceiling);
                let instances = &mut Instances::new(false);
                let answer = perform(&kernels[which], instances, request, &frame, &[]);
                let (result, bits) = case.take(answer.clone());
                outcomes[1 + usize::from(result.is_ok())] += 1;
                let nothing = bits.rows.iter().chain(&bits.sums).flatten().all(|b| *b == UNTOUCHED.to_bits());
                assert!(result.is_ok() || nothing, "a refused answer wrote something");
                // And the answer itself.
                let mut meta: Value = serde_json::from_slice(&Header::parse(&answer).unwrap().meta).unwrap();
                mutate(numbers, &mut meta);
                let mut writer = Writer::new(serde_json::to_vec(&meta).unwrap());
                let whole = Frame::parse(&answer).unwrap();
                for part in 0..whole.header().parts.len() as u32 {
                    if let (Ok(Decoded::Matrix(m)), true) = (whole.part(part), numbers.below(9) > 0) {
                        writer.matrix(&m, [Encoding::F32, Encoding::Bf16][numbers.below(2)]).unwrap();
                    }
                }
                let (result, bits) = case.take(writer.finish().unwrap());
                let nothing = bits.rows.iter().chain(&bits.sums).flatten().all(|b| *b == UNTOUCHED.to_bits());
                assert!(result.is_ok() || nothing, "a refused answer wrote something");
            }
            outcomes
        }));
        let [r, f, d] = result.unwrap_or_else(|_| panic!("case {}", seed + i));
        (refused, failed, done, i) = (refused + r, failed + f, done + d, i + 1);
    }
    println!("seed {seed}: {i} cases; requests: {refused} refused, {failed} failed, {done} answered");
    assert!(refused > 0 && failed > 0 && done > 0, "the fuzz reaches all ends");
}

/// Rows of one matrix in several intervals share buffers: an answer writes its own rows only.
#[test]
fn an_interval_s_answer_leaves_the_others_alone() {
    let (kernels, instances) = (kernels(), &mut Instances::new(false));
    let numbers = &mut Numbers(31);
    let case = Case::linear(numbers, &kernels[0], Kind::Forward, 24, 20);
    let expected = case.direct(instances);
    let answer = work(&kernels[0], instances, &case.frame(Encoding::F32, vec![], &Constants::default()), &[]);
    let columns = case.layer.signature().outputs[0].extents[0] as usize;
    let all = eciton_tensor::Buffer::zeroed(60, columns).unwrap();
    let other = all.write(0..10).unwrap();
    let target =
        eciton_kernel::Target::Rows { rows: all.write(10..34).unwrap(), extents: vec![columns as u32] };
    Answer::parse(answer).unwrap().into_targets(vec![Some(target)], vec![]).unwrap();
    drop(other);
    let values: Vec<u32> = all.to_vec().unwrap().iter().map(|v| v.to_bits()).collect();
    assert_eq!(values[10 * columns..34 * columns], expected.rows[0]);
    assert!(values[..10 * columns].iter().chain(&values[34 * columns..]).all(|b| *b == 0));
    let _: &Rows = &case.inputs[0];
}

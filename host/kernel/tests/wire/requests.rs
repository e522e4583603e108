//! Tests of requests that are inconsistent, do not match their layer, or exceed a worker's limits.

use std::sync::Arc;
use std::time::Duration;

use eciton_kernel::wire::{self, Decoded, Request};
use eciton_kernel::{CallStep, Error, Kind, Layer, Limits};
use eciton_tensor::Matrix;
use eciton_tensor::frame::Frame;
use serde_json::{Value, json};

use crate::case::{Case, Numbers, find, seed};
use crate::{any_case, as_json, kernels};

/// Parses a request from `json`, and creates its call.
fn admit(layer: &Arc<Layer>, bytes: &[u8], json: &Value) -> Result<(), Error> {
    let frame = Frame::parse(bytes).unwrap();
    let request = Request::parse(&serde_json::to_vec(json).unwrap())?;
    request.into_call(std::slice::from_ref(layer), &mut |s| find(s, &frame, &[])).map(drop)
}

/// Returns the only call of a request.
fn call(json: &mut Value) -> &mut Value {
    &mut json["steps"][0]["kernel"]
}

#[test]
fn targets_are_of_the_kind_that_the_kernel_compares_with() {
    let kernels = kernels();
    let open = |of: &str, target: Value| {
        let (_, mut json) = as_json(&Case::loss(&mut Numbers(5), &kernels[1], Kind::Loss, 40, 6, of));
        call(&mut json)["labelled"]["targets"] = target;
        let request = Request::parse(&serde_json::to_vec(&json).unwrap()).unwrap();
        request.calls().next().unwrap().open(&kernels[1]).map(drop).unwrap_err().to_string()
    };
    let own = json!({"object": null, "part": 0});
    let values = |columns: u32| json!({"values": {"source": own, "extents": [columns], "encoding": "f32"}});
    let text = open("cross-entropy", values(5));
    assert!(text.contains("kernel `head` requires targets of the other kind"), "{text}");
    let text = open("squared-error", json!({"classes": own}));
    assert!(text.contains("of the other kind"), "{text}");
    let text = open("squared-error", values(77));
    assert!(text.contains("extents of targets"), "{text}");
}

#[test]
fn requests_that_contradict_themselves_are_refused() {
    let kernels = kernels();
    let loss = Case::loss(&mut Numbers(5), &kernels[1], Kind::Loss, 40, 6, "cross-entropy").weighed();
    let (bytes, good) = as_json(&loss);
    admit(&loss.layer, &bytes, &good).unwrap();
    let said = call(&mut good.clone()).clone();
    let rows =
        said["grid"].as_array().unwrap().last().unwrap()["ends"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(rows, 40);
    let grid =
        |ends: Value, closes: Value, level: u32| json!([{"level": level, "ends": ends, "closes": closes}]);
    let many = |n: usize, v: Value| Value::Array(vec![v; n]);
    let own = |part: u32| json!({"object": null, "part": part});
    let labels = said["labelled"]["targets"]["classes"]["part"].as_u64().unwrap() as u32;
    let matrix =
        |source: Value, extents: Value| json!([{"source": source, "extents": extents, "encoding": "f32"}]);
    let columns = said["inputs"][0]["extents"][0].as_u64().unwrap();
    let changes: Vec<(&str, Value, &str)> = vec![
        ("/version", json!(1), "version 1"),
        ("/run", json!("x".repeat(1025)), "the maximum is 1024"),
        ("/kernel/digest", json!("zz".repeat(32)), "digest"),
        ("/kernel/digest", json!("00"), "digest"),
        ("/kernel/digest", json!("AB".repeat(32)), "lower case"),
        ("/kind", json!("both"), "both"),
        ("/kind", json!("forward"), "no sums"),
        ("/kind", json!("backward"), "`loss` requires targets"),
        ("/encoding", json!("f16"), "f16"),
        ("/grid", json!([]), "the grid has no parts"),
        ("/grid", grid(json!([]), json!([]), 0), "0 atoms"),
        ("/grid", grid(json!([40]), json!([]), 0), "1 atoms and 0"),
        ("/grid", grid(json!([30, 20, 40]), json!([0, 0, 0]), 1), "after row 30"),
        ("/grid", grid(json!([40]), json!([1]), 1), "1 levels"),
        ("/grid", grid(json!([40]), json!([0]), 4), "level 4"),
        ("/grid", grid(many(4097, json!(40)), many(4097, json!(0)), 3), "the maximum is 4096"),
        ("/grid", grid(json!([39]), json!([0]), 0), "40 rows, but the interval has 39"),
        ("/grid", grid(json!([u32::MAX]), json!([0]), 0), "fit slot 0"),
        ("/row_numbers", json!({"from": u64::MAX - 38}), "exceed 2^64"),
        ("/row_numbers", json!({"list": own(labels)}), "40 halves"),
        ("/row_numbers", json!({"list": own(0)}), "is a matrix"),
        ("/inputs", matrix(own(labels), json!([columns])), "not a matrix"),
        ("/inputs", matrix(own(99), json!([columns])), "part 99"),
        ("/inputs", matrix(json!({"object": 9, "part": 0}), json!([columns])), "object 9"),
        ("/inputs", matrix(own(0), json!([columns + 1])), "extents"),
        ("/inputs", matrix(own(0), json!([1, 1, 1, columns])), "at most three"),
        ("/inputs", matrix(own(0), json!([65536, 65536])), "fewer than 2^32"),
        ("/inputs", many(513, matrix(own(0), json!([columns]))[0].clone()), "the maximum is 512"),
        ("/rows_out", json!([{"slot": 0, "extents": [65536, 65536]}]), "fewer than 2^32"),
        ("/rows_out", json!([{"slot": 0, "extents": [u32::MAX]}]), "fit slot 0"),
        ("/rows_out", json!([{"slot": 9, "extents": [columns]}]), "fit slot 9"),
        ("/slots", json!([{"rows": u32::MAX, "columns": columns, "half": false}]), "matrix-bytes"),
        ("/slots", json!([]), "fit slot 0"),
        ("/outs/0/slot", json!(5), "fit slot 5"),
        ("/outs/0/rows", json!(41), "41 rows"),
        ("/steps", json!([]), "at least one kernel call"),
        ("/rows_out", many(513, json!(null)), "the maximum is 512"),
        ("/sums_out", json!([]), "the loss"),
        ("/sums_out", json!([[2]]), "the loss"),
        ("/sums_out", json!([[], [1]]), "has no extents"),
        ("/sums_out", json!([[u32::MAX, u32::MAX], [1]]), "matrix-bytes"),
        ("/sums_out", json!([[1, u32::MAX, 2], [1]]), "fewer than 2^32"),
        ("/limits/matrix_bytes", json!(64), "matrix-bytes"),
        ("/labelled", json!(null), "`loss` requires targets"),
        ("/labelled/targets/classes", own(0), "is a matrix"),
        ("/labelled/rows", own(labels), "ascend"),
        ("/labelled/row_weights", matrix(own(99), json!([1]))[0].clone(), "part 99"),
        ("/labelled/row_weights", matrix(own(0), json!([2]))[0].clone(), "must have one weight"),
        ("/labelled/row_weights", matrix(own(labels), json!([1]))[0].clone(), "not a matrix"),
        ("/objects", many(1025, json!("o")), "the maximum is 1024"),
        ("/objects", json!(["o".repeat(1025)]), "the maximum is 1024"),
        ("/output_count", json!(513), "too many outputs"),
        ("/attributes", many(1025, json!({"name": "a", "value": {"flag": true}})), "the maximum is 1024"),
        ("/attributes", json!([{"name": "a", "value": true}]), "cannot be parsed"),
        ("/inputs_extents", many(513, json!([1])), "the maximum is 512"),
        ("/inputs_extents", json!([[65536, 65536]]), "fewer than 2^32"),
        ("/seed", json!(-1), "cannot be parsed"),
        ("/key/round", json!("x"), "cannot be parsed"),
    ];
    // All other fields belong to the call.
    let whole = ["version", "run", "key", "encoding", "limits", "objects", "slots", "outs", "steps"];
    let place = |pointer: &str| match pointer.split('/').nth(1).is_some_and(|first| whole.contains(&first)) {
        true => pointer.to_owned(),
        false => format!("/steps/0/kernel{pointer}"),
    };
    for (pointer, value, words) in changes {
        let mut json = good.clone();
        *json.pointer_mut(&place(pointer)).unwrap() = value.clone();
        let shown: String = value.to_string().chars().take(60).collect();
        match admit(&loss.layer, &bytes, &json) {
            Err(e @ Error::Wire { .. }) => {
                assert!(e.to_string().contains(words), "{pointer} = {shown}: {e}");
                assert!(!e.is_retryable());
            }
            other => panic!("{pointer} = {shown}: {other:?}"),
        }
    }
    let mut json = good.clone();
    json["extra"] = json!(1);
    assert!(admit(&loss.layer, &bytes, &json).unwrap_err().to_string().contains("extra"));
    // Rules that apply only to `forward`.
    let forward = Case::loss(&mut Numbers(5), &kernels[1], Kind::Forward, 40, 6, "cross-entropy");
    let (bytes, good) = as_json(&forward);
    for (pointer, value, words) in
        [("/output_count", json!(2), "more outputs"), ("/rows_out", json!([null]), "all outputs")]
    {
        let mut json = good.clone();
        *json.pointer_mut(&place(pointer)).unwrap() = value;
        assert!(admit(&forward.layer, &bytes, &json).unwrap_err().to_string().contains(words), "{pointer}");
    }
}

/// Checks sparse rows with very many columns. They would need memory per column later, although the
/// request has few bytes.
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
    call(&mut json)["inputs"][0]["extents"] = json!([u32::MAX - 1]);
    let wide = eciton_tensor::SparseRows::new(u32::MAX - 1, vec![0; 11], vec![], vec![]).unwrap();
    let wide = Matrix::from(Arc::new(wide));
    let frame = Frame::parse(&bytes).unwrap();
    let request = Request::parse(&serde_json::to_vec(&json).unwrap()).unwrap();
    let first = request.calls().next().unwrap().inputs[0].source;
    let made = request.into_call(&[case.layer], &mut |s| {
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

/// Checks that a request runs only if it calls its layer according to the signature.
#[test]
fn requests_fit_their_layer() {
    let kernels = kernels();
    let numbers = &mut Numbers(seed(400));
    for _ in 0..60 {
        let (which, case) = any_case(numbers, &kernels, 20);
        let (_, mut good) = as_json(&case);
        // The slots match, so that only the signature refuses the altered requests below.
        let said = call(&mut good).clone();
        let fits = |json: &Value| {
            let request = Request::parse(&serde_json::to_vec(json).unwrap())?;
            request.calls().next().unwrap().open(&kernels[which]).map(drop)
        };
        fits(&good).unwrap();
        for field in ["inputs", "outputs", "kept", "gradients", "parameters", "rows_out", "sums_out"] {
            let list = said[field].as_array().unwrap();
            let mut wrong = Vec::new();
            // One matrix more, and one of another width.
            let more = list.first().cloned().unwrap_or_else(|| match field {
                "rows_out" => json!({"slot": 0, "extents": [1]}),
                "sums_out" => json!([1]),
                _ => json!({"source": {"object": 0, "part": 0}, "extents": [1], "encoding": null}),
            });
            wrong.push([&[more], &list[..]].concat());
            if let Some(first) = list.first() {
                let mut other = list.clone();
                match first {
                    Value::Array(shape) => other[0] = json!([&shape[..], &[json!(3)]].concat()),
                    Value::Null => other[0] = json!({"slot": 0, "extents": [7777]}),
                    _ => other[0]["extents"] = json!([7777]),
                }
                wrong.push(other);
            }
            for list in wrong {
                let mut json = good.clone();
                call(&mut json)[field] = Value::Array(list);
                let result = fits(&json);
                assert!(matches!(result, Err(Error::Wire { .. })), "{field} of {json}: {result:?}");
            }
        }
    }
    // The same number of values with other extents, which a host function once accepted.
    let case = loop {
        let case = Case::linear(numbers, &kernels[0], Kind::Backward, 9, 20);
        if case.parameters.len() == 1 && case.inputs[0].extents == [1] {
            break case;
        }
    };
    let (_, mut json) = as_json(&case);
    let shape = call(&mut json)["sums_out"][0].as_array().unwrap().clone();
    call(&mut json)["sums_out"][0] = json!([shape[1], shape[0]]);
    let request = Request::parse(&serde_json::to_vec(&json).unwrap()).unwrap();
    assert_eq!(request.calls().next().unwrap().fits(&case.layer).is_err(), shape[0] != shape[1]);
}

/// Checks that a tensor with many references is created once. The memory depends on the data, not
/// on the number of references.
#[test]
fn a_tensor_named_often_is_made_once() {
    let kernels = kernels();
    let case = Case::loss(&mut Numbers(5), &kernels[1], Kind::Loss, 40, 6, "cross-entropy");
    let (bytes, mut json) = as_json(&case);
    let input = call(&mut json)["inputs"][0].clone();
    for field in ["inputs", "outputs", "kept", "gradients", "parameters"] {
        call(&mut json)[field] = Value::Array(vec![input.clone(); wire::MAX_MATRICES]);
    }
    let frame = Frame::parse(&bytes).unwrap();
    let mut asked = Vec::new();
    let request = Request::parse(&serde_json::to_vec(&json).unwrap()).unwrap();
    let (call, _) = request
        .into_call(&[case.layer], &mut |s| {
            asked.push(s.part);
            find(s, &frame, &[])
        })
        .unwrap();
    let [CallStep::Vertex(_, call)] = &call.steps[..] else { panic!("{call:?}") };
    assert_eq!((call.inputs.len(), call.parameters.len()), (wire::MAX_MATRICES, wire::MAX_MATRICES));
    asked.dedup();
    assert!(asked.len() <= frame.header().parts.len(), "{asked:?}");
}

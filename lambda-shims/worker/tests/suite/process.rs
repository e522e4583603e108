//! Tests of the real `bootstrap` behind a Runtime API.
mod api;

use std::path::Path;

use crate::fixture::{Case, Shape, package, trusted};
use api::{Ended, Instance};
use eciton_kernel::Kind;
use eciton_kernel::wire::{Answer, Encoding};
use eciton_transport::{Carrier, Invocation, Reply};

fn bootstrap() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_bootstrap"))
}

fn start(task_root: &Path) -> Instance {
    let (key, root) = (trusted().to_string(), task_root.display().to_string());
    Instance::start(bootstrap(), &[("ECITON_SIGNING_KEY", &key), ("LAMBDA_TASK_ROOT", &root)])
}

fn answer(ended: &Ended) -> Answer {
    assert!(ended.ok, "{}", String::from_utf8_lossy(&ended.body));
    let Carrier::Inline(bytes) = Reply::from_json(&ended.body).unwrap().frame else { panic!("not inline") };
    Answer::parse(bytes.to_vec()).unwrap()
}

fn refused(ended: &Ended, error_type: &str) -> String {
    assert!(!ended.ok);
    // The runtime crate always sends `unhandled` in this header. Callers see the body.
    assert!(ended.error_type.is_some());
    let body: serde_json::Value = serde_json::from_slice(&ended.body).unwrap();
    assert_eq!(body["errorType"], error_type);
    body["errorMessage"].as_str().unwrap().to_owned()
}

fn event(case: &Case) -> Vec<u8> {
    case.inline(case.frame(Encoding::F32)).to_json().unwrap()
}

#[test]
fn it_starts_cold_stays_warm_and_tells() {
    let (root, _) = package(&["linear", "head"]);
    let mut instance = start(root.path());
    for (n, shape) in [
        Shape::linear(Kind::Forward, 17, 9, 5),
        Shape::linear(Kind::Backward, 17, 9, 5),
        Shape::loss(40, 7),
        Shape::linear(Kind::Forward, 2000, 65, 16),
    ]
    .into_iter()
    .enumerate()
    {
        let case = Case::new(shape);
        let ended = instance.invoke(&event(&case));
        if n == 0 {
            eprintln!("process start to first answer: {:?}", instance.started.elapsed());
        }
        let answer = answer(&ended);
        let meta = answer.meta().clone();
        assert_eq!(case.read(answer).0, case.direct(), "{shape:?}");
        assert_eq!((meta.worker.pid, meta.worker.invocations), (instance.child.id(), n as u64 + 1));
        assert_eq!(meta.worker.warm, n > 0);
        assert_eq!(meta.times.init_us > 0, n == 0, "{:?}", meta.times);
        assert_eq!(meta.times.previous_send_us > 0, n > 0, "{:?}", meta.times);
        // The kernels of the package are loaded before a task requests them.
        assert!(meta.worker.cached_kernels == 1 || n == 0, "{:?}", meta.worker);
    }
    assert_eq!(instance.status("Threads"), 3, "Runtime API, compute, clock");
}

#[test]
fn refusals_are_typed_and_the_process_goes_on() {
    let (root, _) = package(&["linear"]);
    let mut instance = start(root.path());
    let case = Case::new(Shape::linear(Kind::Forward, 17, 9, 5));
    refused(&instance.invoke(b"{}"), "Eciton.Event");
    refused(&instance.invoke(b"\xff not even text"), "Eciton.Event");
    refused(&instance.invoke(&vec![b'['; 8 << 20]), "Eciton.Event");
    let stranger = Case::new(Shape::loss(40, 7));
    let text = refused(&instance.invoke(&event(&stranger)), "Eciton.Kernel");
    assert!(text.contains("`head`") && text.contains("no object store"), "{text}");
    let large =
        Invocation { max_inline_bytes: 10, answer_key: None, ..case.inline(case.frame(Encoding::F32)) };
    refused(&instance.invoke(&large.to_json().unwrap()), "Eciton.Limit");
    let meta = answer(&instance.invoke(&event(&case))).meta().clone();
    assert_eq!((meta.worker.invocations, meta.worker.pid), (6, instance.child.id()));
}

#[test]
fn a_wrong_environment_is_told_to_the_caller() {
    let case = Case::new(Shape::linear(Kind::Forward, 17, 9, 5));
    let key = trusted().to_string();
    for (environment, words) in [
        (vec![], "ECITON_SIGNING_KEY of the function: it is not set"),
        (vec![("ECITON_SIGNING_KEY", "0123")], "64 hex digits"),
        (vec![("ECITON_SIGNING_KEY", key.as_str()), ("ECITON_BUCKET", "b")], "AWS_ACCESS_KEY_ID"),
    ] {
        let mut instance = Instance::start(bootstrap(), &environment);
        for _ in 0..2 {
            let text = refused(&instance.invoke(&event(&case)), "Eciton.Settings");
            assert!(text.contains(words), "{text}");
        }
    }
}

#[test]
fn memory_stays_within_its_bound() {
    let (root, _) = package(&["linear", "head"]);
    let mut instance = start(root.path());
    instance.ready();
    let idle = instance.status("VmHWM");
    let case = Case::new(Shape::linear(Kind::Forward, 17, 9, 5));
    answer(&instance.invoke(&event(&case)));
    let first = instance.status("VmHWM");
    // The event, its frame, the rows of input and output, and the answer's frame and text.
    let case = Case::new(Shape::linear(Kind::Forward, 16_000, 65, 16));
    let event = event(&case);
    let (rows, columns, features) = (16_000u64, 80, 16);
    let tensors = 4 * rows * (columns + features);
    let messages = event.len() as u64 * 7 / 4 + 4 * rows * features * 10 / 3;
    for _ in 0..5 {
        answer(&instance.invoke(&event));
    }
    let most = instance.status("VmHWM");
    eprintln!(
        "idle {idle} KiB, after a small task {first} KiB, at most {most} KiB; tensors {} KiB, messages {} KiB",
        tensors >> 10,
        messages >> 10
    );
    assert!(first < 64 << 10, "{first} KiB");
    assert!((most << 10) < (64 << 20) + tensors + messages, "{most} KiB");
}

#[test]
fn without_a_runtime_api_it_ends() {
    let output = std::process::Command::new(bootstrap()).env_clear().output().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("AWS_LAMBDA_RUNTIME_API"));
}

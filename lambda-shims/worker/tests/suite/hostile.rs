//! Tests of hostile and broken input. It is refused with a typed error, within the limits, and the
//! worker continues.
mod trick;

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::fixture::{
    Case, Fixture, PASS, RUN, Shape, component, kernel_key, limits, package, refusal, sealed, signer,
};
use bytes::Bytes;
use eciton_kernel::artefact::{Baseline, compile};
use eciton_kernel::wire::{Answer, Encoding, FailureKind, Outcome};
use eciton_kernel::{Kind, cache};
use eciton_tensor::frame::{Header, PartInfo};
use eciton_transport::keys::RunKeys;
use eciton_transport::{Carrier, Condition, Invocation, Key, MemoryStore, Reply, Store};
use eciton_types::{Attempt, IntervalId, OperationId, Version};
use eciton_worker::{Settings, Worker};
use trick::{Mode, TrickStore};

fn small() -> Case {
    Case::new(Shape::linear(Kind::Forward, 17, 9, 5))
}

/// Returns a task whose input is large enough to be streamed.
fn large() -> Case {
    Case::new(Shape::linear(Kind::Forward, 6000, 65, 16))
}

/// Fails unless the worker still gives correct answers.
async fn is_well(fixture: &Fixture) {
    let case = small();
    let answer = fixture.answer(&case.inline(case.frame(Encoding::F32))).await.unwrap();
    assert_eq!(case.read(answer).0, case.direct());
}

#[tokio::test]
async fn events_that_are_none_are_refused() {
    let fixture = Fixture::new();
    let case = small();
    let good = String::from_utf8(case.inline(case.frame(Encoding::F32)).to_json().unwrap()).unwrap();
    let oversized = vec![b' '; 6 * 1024 * 1024 + 1];
    let cut = &good[..good.len() / 2];
    let other = good.replace("\"version\":1", "\"version\":2");
    let more = good.replace("\"version\":1", "\"version\":1,\"x\":0");
    let base64 = good.replace("\"inline\":\"", "\"inline\":\"!");
    let deep = "[".repeat(100_000);
    let path = r#"{"version":1,"frame":{"object":{"key":"runs/../../etc/passwd","bytes_len":9}},"answer_key":null,"max_inline_bytes":9,"stream":true}"#;
    let events: [&[u8]; 11] = [
        b"",
        b"null",
        b"{}",
        b"\xff\xfe\0",
        cut.as_bytes(),
        other.as_bytes(),
        more.as_bytes(),
        base64.as_bytes(),
        deep.as_bytes(),
        path.as_bytes(),
        &oversized,
    ];
    for event in events {
        let (name, text) = refusal(fixture.worker.handle(event).await);
        assert_eq!(name, "Eciton.Event", "{text}");
        assert!(text.len() < 400, "{text}");
    }
    is_well(&fixture).await;
}

#[tokio::test]
async fn frames_cut_anywhere_are_refused() {
    let fixture = Fixture::new();
    let case = small();
    let frame = case.frame(Encoding::F32);
    for len in 0..frame.len() {
        let (name, text) = refusal(fixture.ask(&case.inline(frame[..len].to_vec())).await);
        assert!(["Worker.Frame", "Eciton.Frame"].contains(&name), "{len}: {name} {text}");
    }
    let mut longer = frame.clone();
    longer.push(0);
    assert_eq!(refusal(fixture.ask(&case.inline(longer)).await).0, "Worker.Frame");
    is_well(&fixture).await;
}

#[tokio::test]
async fn a_changed_bit_is_refused_or_changes_nothing() {
    let fixture = Fixture::new();
    let case = small();
    let (frame, wanted) = (case.frame(Encoding::F32), case.direct());
    let mut unharmed = 0;
    for at in 0..frame.len() {
        let mut changed = frame.clone();
        changed[at] ^= 1 << (at % 8);
        match fixture.answer(&case.inline(changed)).await {
            // Bytes between the parts belong to no part.
            Ok(answer) => {
                assert_eq!(case.read(answer).0, wanted, "byte {at}");
                unharmed += 1;
            }
            Err(e) => assert!(["Worker.Frame", "Eciton.Frame"].contains(&e.name()), "{at}: {e}"),
        }
    }
    assert!(unharmed < 64 * 8, "{unharmed} of {} bytes did not matter", frame.len());
}

#[tokio::test]
async fn frames_replayed_under_other_names_are_refused() {
    let fixture = Fixture::new();
    let case = large();
    let frame = case.frame(Encoding::F32);
    let good = case.stored(&*fixture.store, frame.clone(), true).await;
    let run = RunKeys::new(RUN).unwrap();
    let other_run = RunKeys::new("cora-2").unwrap();
    let mut attempt = case.key;
    attempt.attempt = Attempt(1);
    let mut step = case.key.step();
    step.interval = IntervalId(4);
    let bytes_len = frame.len() as u64;
    let put = async |key: &Key| fixture.store.put(key, frame.clone().into(), Condition::Always).await;
    for key in [
        run.task(PASS, &attempt).unwrap(),
        run.task(PASS + 1, &case.key).unwrap(),
        other_run.task(PASS, &case.key).unwrap(),
        run.features("s000/i00003").unwrap(),
        case.answer_key(),
        kernel_key("linear"),
    ] {
        put(&key).await.unwrap();
        let (name, text) = refusal(
            fixture.ask(&Invocation { frame: Carrier::Object { key, bytes_len }, ..good.clone() }).await,
        );
        assert_eq!(name, "Eciton.Key", "{text}");
    }
    for key in [
        run.answer(PASS, &step).unwrap(),
        run.answer(PASS + 1, &case.key.step()).unwrap(),
        other_run.answer(PASS, &case.key.step()).unwrap(),
        case.task_key(),
        kernel_key("linear"),
    ] {
        let invocation = Invocation { answer_key: Some(key), max_inline_bytes: 0, ..good.clone() };
        let (name, text) = refusal(fixture.ask(&invocation).await);
        assert_eq!(name, "Eciton.Key", "{text}");
    }
    fixture.answer(&good).await.unwrap();
}

#[tokio::test]
async fn constants_of_others_are_refused() {
    let fixture = Fixture::new();
    let case = small();
    let foreign = RunKeys::new("cora-2").unwrap().weights(Version(1), OperationId(1)).unwrap().to_string();
    let absolute = "/etc/passwd".to_owned();
    let upwards = format!("runs/{RUN}/weights/../../../etc/passwd");
    for key in [foreign, absolute, upwards, kernel_key("linear").to_string(), case.task_key().to_string()] {
        let frame = case.frame_with(Encoding::F32, &limits(), vec![key.into()], &case.parameters());
        let (name, text) = refusal(fixture.ask(&case.inline(frame)).await);
        assert_eq!(name, "Eciton.Key", "{text}");
    }
    // An object of its own run that does not exist.
    let own = RunKeys::new(RUN).unwrap().weights(Version(1), OperationId(1)).unwrap().to_string();
    let frame = case.frame_with(Encoding::F32, &limits(), vec![own.into()], &case.parameters());
    assert_eq!(refusal(fixture.ask(&case.inline(frame)).await).0, "Eciton.Store");
    is_well(&fixture).await;
}

/// Returns a worker whose kernels come from the store.
fn without_package() -> Fixture {
    Fixture::with(|s| s.kernel_folder = None)
}

#[tokio::test]
async fn only_signed_code_of_the_right_component_runs() {
    let case = small();
    let event = case.inline(case.frame(Encoding::F32));
    let here = Baseline::of_this_machine().unwrap();
    let fixture = without_package();
    let (name, text) = refusal(fixture.ask(&event).await);
    assert_eq!(name, "Eciton.Kernel");
    assert!(text.contains("is not in the package, and this function cannot find it"), "{text}");
    let stranger = compile("linear", component("linear"), here, &signer("stranger")).unwrap();
    let mut changed = sealed("linear").to_vec();
    let middle = changed.len() / 2;
    changed[middle] ^= 1;
    let refused: [(Bytes, &str); 5] = [
        (stranger.into(), "not signed"),
        (changed.into(), "not signed"),
        (sealed("head"), "compiled from component"),
        (sealed("linear").slice(..1000), "the header announces"),
        (Bytes::from_static(b"\x7fELF"), "not compiled code of this version"),
    ];
    for (code, words) in refused {
        fixture.store.put(&kernel_key("linear"), code, Condition::Always).await.unwrap();
        let (name, text) = refusal(fixture.ask(&event).await);
        assert_eq!(name, "Eciton.Kernel", "{text}");
        assert!(text.contains("kernel `linear`") && text.contains(words), "{text}");
    }
    fixture.store.put(&kernel_key("linear"), sealed("linear"), Condition::Always).await.unwrap();
    let answer = fixture.answer(&event).await.unwrap();
    assert_eq!(answer.meta().worker.cached_kernels, 0);
    assert_eq!(case.read(answer).0, case.direct());
    assert_eq!(fixture.answer(&event).await.unwrap().meta().worker.cached_kernels, 1);
}

#[tokio::test]
async fn the_package_must_be_signed_too() {
    let case = small();
    let event = case.inline(case.frame(Encoding::F32));
    let (_root, kernels) = package(&["linear"]);
    let file = kernels.join(kernel_key("linear").as_str().rsplit('/').next().unwrap());
    let here = Baseline::of_this_machine().unwrap();
    let stranger = compile("linear", component("linear"), here, &signer("stranger")).unwrap();
    std::fs::write(&file, &stranger).unwrap();
    let fixture = Fixture::with(|s| s.kernel_folder = Some(kernels.clone()));
    // The correct kernel in the store is not used instead.
    fixture.store.put(&kernel_key("linear"), sealed("linear"), Condition::Always).await.unwrap();
    let (name, text) = refusal(fixture.ask(&event).await);
    assert_eq!(name, "Eciton.Kernel", "{text}");
    assert!(text.contains("`linear`") && text.contains("not signed"), "{text}");
}

#[tokio::test]
async fn a_worker_without_a_store_says_so() {
    let case = large();
    let store = MemoryStore::new();
    let fixture = Fixture::with(|s| s.store = None);
    let event = case.stored(&store, case.frame(Encoding::F32), true).await;
    let (name, text) = refusal(fixture.ask(&event).await);
    assert_eq!(name, "Eciton.Key");
    assert!(text.contains("ECITON_BUCKET"), "{text}");
    is_well(&fixture).await;
}

/// Returns a worker with a store that misbehaves.
fn tricked(change: impl FnOnce(&mut Settings)) -> (Fixture, Arc<TrickStore>) {
    let store = Arc::new(TrickStore::new());
    let own = store.clone();
    let fixture = Fixture::with(|s| {
        s.store = Some(own);
        change(s);
    });
    (fixture, store)
}

#[tokio::test]
async fn objects_that_change_are_refused() {
    let case = large();
    let frame = case.frame(Encoding::F32);
    let len = frame.len() as u64;
    for stream in [true, false] {
        let (fixture, store) = tricked(|_| {});
        let event = case.stored(&store.inner, frame.clone(), stream).await;
        // Objects that are shorter than announced: in the header, in the large part, and by one
        // byte.
        for end in [0, 20, 5000, 64 << 10, 300_000, len - 1] {
            store.set(Mode::Short(end));
            let (name, text) = refusal(fixture.ask(&event).await);
            assert!(
                name.ends_with(".Frame") || name.ends_with(".Object") || name.ends_with(".Store"),
                "{end}: {name} {text}"
            );
        }
        // Objects with another announced length.
        store.set(Mode::Honest);
        for bytes_len in [0, 31, 64 << 10, len - 1, len + 1, 1 << 30] {
            let Carrier::Object { key, .. } = event.frame.clone() else { panic!("the frame travels inside") };
            let lying = Invocation { frame: Carrier::Object { key, bytes_len }, ..event.clone() };
            let (name, text) = refusal(fixture.ask(&lying).await);
            assert!(name.ends_with(".Frame") || name == "Eciton.Object", "{bytes_len}: {name} {text}");
        }
        // A change during the read is an error of the transport, not of the kernel.
        store.set(Mode::Flip(0));
        let (name, text) = refusal(fixture.ask(&event).await);
        assert_eq!(name, "Worker.Frame", "{text}");
        store.set(Mode::Fail(1));
        assert_eq!(refusal(fixture.ask(&event).await).0, "Worker.Store");
        store.set(Mode::Denied);
        assert_eq!(refusal(fixture.ask(&event).await).0, "Eciton.Store");
        store.set(Mode::Honest);
        let answer = fixture.answer(&event).await.unwrap();
        assert_eq!(case.read(answer).0, case.direct());
    }
}

#[tokio::test]
async fn a_slow_store_is_given_up_within_the_limit() {
    let (fixture, store) = tricked(|s| s.store_time = Duration::from_millis(100));
    let case = large();
    let event = case.stored(&store.inner, case.frame(Encoding::F32), true).await;
    store.set(Mode::Slow(Duration::from_secs(600)));
    let begun = Instant::now();
    let (name, text) = refusal(fixture.ask(&event).await);
    assert_eq!(name, "Worker.Slow", "{text}");
    assert!(
        text.contains("100 ms") && begun.elapsed() < Duration::from_secs(20),
        "{text} {:?}",
        begun.elapsed()
    );
    store.set(Mode::Honest);
    fixture.answer(&event).await.unwrap();
}

#[tokio::test]
async fn a_panic_is_an_error_and_the_worker_goes_on() {
    let (fixture, store) = tricked(|_| {});
    let case = large();
    let event = case.stored(&store.inner, case.frame(Encoding::F32), true).await;
    store.set(Mode::Panic);
    let (name, text) = refusal(fixture.ask(&event).await);
    assert_eq!(name, "Worker.Panic");
    assert!(text.contains("planted in the store"), "{text}");
    store.set(Mode::Honest);
    fixture.answer(&event).await.unwrap();
}

/// Returns a frame whose table claims other sizes, with a correct checksum.
fn claims(frame: &[u8], change: impl FnOnce(&mut PartInfo)) -> Vec<u8> {
    let mut header = Header::parse(frame).unwrap();
    let before = header.parts.clone();
    let largest = (0..before.len()).max_by_key(|&i| before[i].bytes_len).unwrap();
    change(&mut header.parts[largest]);
    // The table has entries of 40 bytes before the end of the header. All parts after `largest` are
    // moved.
    let mut bytes = frame.to_vec();
    let table = header.header_len - 40 * before.len();
    let mut end = header.header_len as u64;
    for (i, part) in header.parts.iter().enumerate() {
        let offset = end.next_multiple_of(64);
        end = offset.saturating_add(part.bytes_len);
        let entry = &mut bytes[table + 40 * i..][..40];
        entry[4..8].copy_from_slice(&part.columns.to_le_bytes());
        entry[8..16].copy_from_slice(&part.rows.to_le_bytes());
        entry[16..24].copy_from_slice(&offset.to_le_bytes());
        entry[24..32].copy_from_slice(&part.bytes_len.to_le_bytes());
    }
    bytes[8..16].copy_from_slice(&end.to_le_bytes());
    let mut crc = crc32fast::Hasher::new();
    crc.update(&bytes[..24]);
    crc.update(&bytes[32..header.header_len]);
    bytes[24..28].copy_from_slice(&crc.finalize().to_le_bytes());
    bytes
}

#[tokio::test]
async fn claimed_sizes_allocate_nothing() {
    let fixture = Fixture::with(|s| s.memory_bytes = 128 << 20);
    let case = large();
    let frame = case.frame(Encoding::F32);
    assert_eq!(claims(&frame, |_| {}), frame);
    for rows in [1u64 << 20, 1 << 26, u64::from(u32::MAX)] {
        let lying = claims(&frame, |part| {
            part.bytes_len = rows * u64::from(part.columns) * 4;
            part.rows = rows;
        });
        let bytes_len = Header::parse(&lying).unwrap().bytes_len;
        let (key, begun) = (case.task_key(), Instant::now());
        fixture.store.put(&key, lying.clone().into(), Condition::Always).await.unwrap();
        let event = Invocation { frame: Carrier::Object { key, bytes_len }, ..case.inline(vec![]) };
        let refused = match event.to_json() {
            // A size larger than any object is already refused by the envelope.
            Err(_) => continue,
            Ok(json) => refusal(fixture.worker.handle(&json).await),
        };
        assert_eq!(refused.0, "Eciton.Limit", "{}", refused.1);
        assert!(refused.1.contains("134217728 allowed"), "{}", refused.1);
        assert!(begun.elapsed() < Duration::from_secs(5));
        // The same frame inside an event.
        assert!(refusal(fixture.ask(&case.inline(lying)).await).0.ends_with(".Frame"));
    }
    is_well(&fixture).await;
}

#[tokio::test]
async fn what_a_kernel_does_wrong_is_an_answer() {
    let fixture = without_package();
    let cases = [
        ("trapping", FailureKind::Trap, "the test kernel panics"),
        ("error", FailureKind::Guest, "does not want to"),
        ("looping", FailureKind::Trap, "limit task-time: it ran for more than 300 ms"),
        ("unwritten", FailureKind::Promise, "never written"),
    ];
    for (kernel, kind, words) in cases {
        fixture.store.put(&kernel_key(kernel), sealed(kernel), Condition::Always).await.unwrap();
        let case = Case::new(Shape { kernel, ..Shape::linear(Kind::Forward, 6000, 65, 16) });
        let short = eciton_kernel::Limits { task_time: Duration::from_millis(300), ..limits() };
        let frame = case.frame_with(Encoding::F32, &short, vec![], &[]);
        for event in [case.inline(frame.clone()), case.stored(&*fixture.store, frame.clone(), true).await] {
            let begun = Instant::now();
            let answer = fixture.answer(&event).await.unwrap();
            let Outcome::Failed(failure) = &answer.meta().outcome else { panic!("{:?}", answer.meta()) };
            assert_eq!((failure.kind, failure.kernel.as_str()), (kind, kernel), "{failure:?}");
            assert!(failure.message.contains(words), "{failure:?}");
            assert!(begun.elapsed() < Duration::from_secs(20));
        }
    }
    fixture.store.put(&kernel_key("linear"), sealed("linear"), Condition::Always).await.unwrap();
    is_well(&fixture).await;
}

#[tokio::test]
async fn the_first_answer_stays() {
    let fixture = Fixture::new();
    let case = small();
    let event = Invocation { max_inline_bytes: 10, ..case.inline(case.frame(Encoding::F32)) };
    let first = fixture.ask(&event).await.unwrap();
    let there = fixture.store.get(&case.answer_key(), None).await.unwrap();
    // Replaces the stored answer by one of another length, because the answers of two attempts may
    // differ in length.
    fixture.store.delete(&[case.answer_key()]).await.unwrap();
    fixture.store.put(&case.answer_key(), there.slice(..there.len() - 1), Condition::Always).await.unwrap();
    let second = fixture.ask(&event).await.unwrap();
    assert!(!first.existed && second.existed);
    let of = |reply: Reply| match reply.frame {
        Carrier::Object { key, bytes_len } => (key, bytes_len),
        Carrier::Inline(_) => panic!("inline"),
    };
    assert_eq!(of(first), (case.answer_key(), there.len() as u64));
    assert_eq!(of(second), (case.answer_key(), there.len() as u64 - 1));
}

#[tokio::test]
async fn an_answer_that_fits_nowhere_is_refused() {
    let fixture = Fixture::new();
    let case = small();
    let frame = case.frame(Encoding::F32);
    let fits = fixture.ask(&case.inline(frame.clone())).await.unwrap().frame.bytes_len();
    let event =
        |max_inline_bytes| Invocation { answer_key: None, max_inline_bytes, ..case.inline(frame.clone()) };
    // The length of the answer varies with the number of digits in its times.
    fixture.ask(&event(fits + 64)).await.unwrap();
    let (name, text) = refusal(fixture.ask(&event(100)).await);
    assert_eq!(name, "Eciton.Limit");
    assert!(text.contains("100 allowed"), "{text}");
}

#[tokio::test]
async fn what_was_kept_is_not_read_again() {
    let fixture = Fixture::new();
    let case = large();
    for (version, cached) in [(1, 0), (1, 2), (2, 0), (1, 2)] {
        let frame = case.frame_with_constants(&*fixture.store, version).await;
        let answer = fixture.answer(&case.inline(frame)).await.unwrap();
        let meta = answer.meta();
        assert_eq!(meta.worker.cached_objects, cached, "{meta:?}");
        assert_eq!(meta.store.gets == 0, cached == 2, "{meta:?}");
        assert_eq!(case.read(answer).0, case.direct());
    }
    // The cache has no space, so objects are fetched each time.
    let fixture = Fixture::with(|s| s.cache_bytes = 1000);
    for _ in 0..2 {
        let frame = case.frame_with_constants(&*fixture.store, 1).await;
        let answer = fixture.answer(&case.inline(frame)).await.unwrap();
        assert_eq!(answer.meta().worker.cached_objects, 0);
        assert_eq!(case.read(answer).0, case.direct());
    }
}

#[tokio::test]
async fn other_limits_begin_anew_and_stay_right() {
    let fixture = Fixture::new();
    let case = small();
    for (megabytes, cached) in [(64, 0), (64, 1), (32, 0), (64, 0)] {
        let limits = eciton_kernel::Limits { guest_memory_bytes: megabytes << 20, ..limits() };
        let frame = case.frame_with(Encoding::F32, &limits, vec![], &[]);
        let answer = fixture.answer(&case.inline(frame)).await.unwrap();
        assert_eq!(answer.meta().worker.cached_kernels, cached, "{megabytes}");
        assert_eq!(case.read(answer).0, case.direct());
    }
}

#[tokio::test]
async fn invocations_at_the_same_time_do_not_mix() {
    let fixture = Arc::new(Fixture::new());
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..24u64 {
        let fixture = fixture.clone();
        tasks.spawn(async move {
            let shape = Shape { seed: n, ..Shape::linear(Kind::Forward, 10 + n as usize, 9, 5) };
            let case = Case::new(shape);
            let answer = fixture.answer(&case.inline(case.frame(Encoding::F32))).await.unwrap();
            assert_eq!(case.read(answer).0, case.direct());
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
}

#[tokio::test]
async fn streams_at_the_same_time_do_not_wait_for_each_other() {
    let store = Arc::new(crate::fixture::paced::PacedStore::new());
    let own = store.clone();
    let fixture = Fixture::with(|s| s.store = Some(own));
    let mut all: Vec<std::pin::Pin<Box<dyn Future<Output = ()>>>> = Vec::new();
    let begun = Instant::now();
    for n in 0..4u64 {
        let mut case = Case::new(Shape { seed: n, ..Shape::linear(Kind::Forward, 6000, 65, 16) });
        case.key.interval = IntervalId(n as u32);
        let event = case.stored(&*store, case.frame(Encoding::F32), true).await;
        let fixture = &fixture;
        all.push(Box::pin(async move {
            let reply = fixture.ask(&event).await.unwrap();
            let Carrier::Inline(frame) = reply.frame else { panic!("not inline") };
            assert_eq!(case.read(Answer::parse(frame.to_vec()).unwrap()).0, case.direct());
        }));
    }
    // A tenth of a second each.
    store.pace(16 << 20);
    std::future::poll_fn(|context| {
        all.retain_mut(|future| future.as_mut().poll(context).is_pending());
        if all.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_given_up_invocation_leaves_the_worker_well() {
    let (fixture, store) = tricked(|_| {});
    let case = large();
    let event = case.stored(&store.inner, case.frame(Encoding::F32), true).await;
    store.set(Mode::Slow(Duration::from_secs(600)));
    let given_up = tokio::time::timeout(Duration::from_millis(50), fixture.ask(&event)).await;
    assert!(given_up.is_err());
    store.set(Mode::Honest);
    let answer = fixture.answer(&event).await.unwrap();
    assert_eq!(case.read(answer).0, case.direct());
}

#[test]
fn digests_name_components() {
    // The suites compare with the request that they make.
    let case = small();
    assert_eq!(*case.layer.kernel().digest(), cache::digest(component("linear")));
    let frame = case.frame(Encoding::F32);
    assert!(Answer::parse(frame).is_err(), "a request is no answer");
    let worker = Worker::new(Settings::new(signer("deployer").verifier(), None));
    assert!(worker.is_ok());
}

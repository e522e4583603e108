//! Fuzz tests with damaged data, with wrong and with correct checksums. The worker must never
//! panic, hang or return a wrong answer. `ECITON_FUZZ_SECONDS=600 cargo test --release -p
//! eciton-worker --test suite fuzz` sets the duration, and `ECITON_FUZZ_SEED` repeats a run.

use std::time::{Duration, Instant};

use crate::fixture::{Case, Fixture, Numbers, Shape};
use eciton_kernel::Kind;
use eciton_kernel::wire::Encoding;
use eciton_tensor::frame::{Decoded, Frame, Writer};
use eciton_transport::{Condition, Store};

/// Maximum time of one case: the time limit of its kernel, and a margin.
const LONGEST: Duration = Duration::from_secs(40);

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().filter(|v| !v.is_empty()).map(|v| v.parse().unwrap())
}

/// Changes, truncates, repeats or moves some bytes.
fn damage(bytes: &mut Vec<u8>, numbers: &mut Numbers) {
    for _ in 0..1 + numbers.below(4) {
        if bytes.is_empty() {
            return;
        }
        let at = numbers.below(bytes.len() as u64) as usize;
        match numbers.below(7) {
            0 => bytes[at] = numbers.next() as u8,
            1 => bytes[at] ^= 1 << numbers.below(8),
            2 => bytes.truncate(at),
            3 => bytes.insert(at, b"0-9\"{}[],:e"[numbers.below(11) as usize]),
            4 => {
                bytes.remove(at);
            }
            5 => {
                let end = bytes.len().min(at + numbers.below(64) as usize);
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
            // Replaces a number by another one.
            _ => {
                if let Some(digit) = bytes[at..].iter().position(u8::is_ascii_digit) {
                    let found = at + digit;
                    let end = found + bytes[found..].iter().take_while(|b| b.is_ascii_digit()).count();
                    let other =
                        ["0", "1", "7", "4294967295", "4294967296", "18446744073709551615", "-1", "1e9"];
                    bytes.splice(found..end, other[numbers.below(8) as usize].bytes());
                }
            }
        }
    }
}

/// Returns the frame with damaged metadata or moved parts, and correct checksums.
fn damaged_inside(frame: &[u8], numbers: &mut Numbers) -> Vec<u8> {
    let frame = Frame::parse(frame).unwrap();
    let header = frame.header().clone();
    let mut meta = header.meta.clone();
    let mut order: Vec<u32> = (0..header.parts.len() as u32).collect();
    if numbers.below(4) == 0 && order.len() > 1 {
        let (a, b) = (numbers.below(order.len() as u64) as usize, numbers.below(order.len() as u64) as usize);
        match numbers.below(3) {
            0 => order.swap(a, b),
            1 => order[a] = order[b],
            _ => drop(order.remove(a)),
        }
    } else {
        damage(&mut meta, numbers);
    }
    let parts: Vec<Decoded> = order.iter().map(|&p| frame.part(p).unwrap()).collect();
    let mut writer = Writer::new(meta);
    for part in &parts {
        match part {
            Decoded::Matrix(matrix) => writer.matrix(matrix, Encoding::F32).unwrap(),
            Decoded::Ids(ids) => writer.ids(&ids[..]).unwrap(),
        };
    }
    writer.finish().unwrap()
}

#[tokio::test]
async fn random_damage_is_refused_or_harmless() {
    let seed = variable("ECITON_FUZZ_SEED").unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        now.as_nanos() as u64
    });
    let long = Duration::from_secs(variable("ECITON_FUZZ_SECONDS").unwrap_or(2));
    eprintln!("ECITON_FUZZ_SEED={seed} ECITON_FUZZ_SECONDS={}", long.as_secs());
    let mut numbers = Numbers(seed);
    let sparse = |shape: Shape| Shape { sparse: true, ..shape };
    let shapes = [
        Shape::linear(Kind::Forward, 17, 9, 5),
        Shape::linear(Kind::Backward, 17, 9, 5),
        Shape::loss(40, 7),
        sparse(Shape::linear(Kind::Forward, 30, 40, 4)),
        Shape::linear(Kind::Forward, 2000, 65, 4),
    ];
    let cases: Vec<(Case, Vec<u8>)> = shapes
        .map(|shape| {
            let case = Case::new(shape);
            let frame = case.frame(Encoding::F32);
            (case, frame)
        })
        .into();
    // A function with little memory, so that limits are reached.
    let fixture = Fixture::with(|s| s.memory_bytes = 256 << 20);
    let (begun, mut count, mut answers) = (Instant::now(), 0u64, 0u64);
    let mut names = std::collections::BTreeMap::new();
    while begun.elapsed() < long {
        let (case, frame) = &cases[numbers.below(cases.len() as u64) as usize];
        let one = Instant::now();
        let event = match numbers.below(4) {
            0 => {
                let mut event = case.inline(frame.clone()).to_json().unwrap();
                damage(&mut event, &mut numbers);
                event
            }
            1 => {
                let mut frame = frame.clone();
                damage(&mut frame, &mut numbers);
                case.inline(frame).to_json().unwrap()
            }
            2 => case.inline(damaged_inside(frame, &mut numbers)).to_json().unwrap(),
            _ => {
                let frame = damaged_inside(frame, &mut numbers);
                let stream = numbers.below(2) == 0;
                let invocation = case.stored(&*fixture.store, frame.clone(), stream).await;
                // The store may contain other data than announced.
                if numbers.below(3) == 0 {
                    let mut frame = frame;
                    damage(&mut frame, &mut numbers);
                    fixture.store.put(&case.task_key(), frame.into(), Condition::Always).await.unwrap();
                }
                invocation.to_json().unwrap()
            }
        };
        match fixture.worker.handle(&event).await {
            Ok(_) => answers += 1,
            Err(e) => {
                assert_ne!(e.name(), "Worker.Panic", "case {count}, seed {seed}: {e}");
                assert!(e.to_string().len() < 2000, "case {count}, seed {seed}: {e}");
                *names.entry(e.name()).or_insert(0u64) += 1;
            }
        }
        assert!(one.elapsed() < LONGEST, "case {count}, seed {seed}: {:?}", one.elapsed());
        count += 1;
    }
    eprintln!("{count} cases: {answers} answers, {names:?}");
    assert!(count >= 20 && names.len() >= 3, "it refuses, for several reasons");
    for (case, frame) in &cases {
        let answer = fixture.answer(&case.inline(frame.clone())).await.unwrap();
        assert_eq!(case.read(answer).0, case.direct());
    }
}

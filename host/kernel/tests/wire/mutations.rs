//! Fuzz test: altered requests and answers are either refused or processed, without a panic.

use std::time::{Duration, Instant};

use eciton_kernel::wire::{Decoded, Encoding, Request};
use eciton_kernel::{Instances, Limits};
use eciton_tensor::frame::{Frame, Header, Writer};
use serde_json::{Value, json};

use crate::case::{Numbers, UNTOUCHED, perform, seed};
use crate::{any_case, as_json, kernels};

/// Replaces a random position of a JSON value by another value.
pub(crate) fn mutate(numbers: &mut Numbers, value: &mut Value) {
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
    // The limits are those of a small worker, so a mutated size cannot allocate much memory.
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
                // The answer is mutated as well.
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

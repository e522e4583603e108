//! Tests of answers: errors of failed calls, and answers that are copied completely or not at all.

use eciton_kernel::wire::{
    self, Answer, AnswerMeta, Encoding, Failure, FailureKind, Outcome, encode_failure,
};
use eciton_kernel::{Error, Finished, GuestError, Instances, Kind};
use eciton_tensor::View;
use eciton_tensor::frame::{Header, Writer};

use crate::case::{Bits, Case, KEY, Numbers, Rows, UNTOUCHED, seed, work};
use crate::{any_case, kernels};

/// Checks that a failed call gives the same error remotely as locally, and writes nothing.
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
    // Other errors become one of these. Only a fault of the host is tried again.
    let engine = Error::Engine { doing: "starting", reason: text("no memory") };
    assert_eq!(Failure::from(&engine).kind, FailureKind::Host);
    let contract = Error::Contract { kernel: text("k"), differences: text("no loss") };
    assert_eq!(Failure::from(&contract).kind, FailureKind::Refused);
    assert!(Failure::from(&contract).message.contains("no loss"));
}

#[test]
fn long_texts_are_cut() {
    let finished =
        Finished { log: vec!["x\n".repeat(1000); 2000], guest_memory_bytes: 1, ..Finished::default() };
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
    let frame = case.frame(Encoding::F32, vec![], &[]);
    let answer = Answer::parse(work(&kernels[0], &mut Instances::new(false), &frame, &[])).unwrap();
    let meta = answer.meta();
    assert!((1..10_000_000).contains(&meta.times.encode_us), "{:?}", meta.times);
    assert_eq!((meta.key, &meta.outcome), (KEY, &Outcome::Done));
    assert_eq!(meta.numeric_class, eciton_tensor::numeric_class());
    assert!(answer.bytes_len() > 5000);
}

/// Checks that an answer for other buffers is refused before anything is written.
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
    let frame = case.frame(Encoding::F32, vec![], &[]);
    let answer = work(&kernels[0], instances, &frame, &[]);
    let header = Header::parse(&answer).unwrap();
    let untouched =
        |bits: &Bits| bits.rows.iter().chain(&bits.sums).flatten().all(|b| *b == UNTOUCHED.to_bits());
    // Only the last byte of the last part is changed. All earlier parts are correct.
    let mut changed = answer.clone();
    *changed.last_mut().unwrap() ^= 1;
    let (result, bits) = case.take(changed);
    assert!(matches!(&result, Err(e @ Error::Host { .. }) if e.is_retryable()), "{result:?}");
    assert!(untouched(&bits));
    // Truncated answer.
    let (result, bits) = case.take(answer[..answer.len() - 1].to_vec());
    assert!(matches!(result, Err(Error::Host { .. })) && untouched(&bits));
    // Wrong parts: one more row, one more column, one part missing, sums as bfloat16, ids.
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
    // Buffers that have a reader.
    let (call, written) = case.call();
    let eciton_kernel::Target::Sums { parts, .. } = &call.sums_out[0] else { panic!("a sum") };
    let lease = parts[0].read(0..1).unwrap();
    let result = Answer::parse(answer.clone())
        .unwrap()
        .into_targets(call.rows_out.into_iter().flatten().collect(), call.sums_out);
    assert!(matches!(result, Err(Error::Wire { .. })), "{result:?}");
    drop(lease);
    assert!(untouched(&written.bits()));
    // Unchanged answer.
    let (result, bits) = case.take(answer);
    result.unwrap();
    assert!(!untouched(&bits));
}

/// Checks that an answer writes only its own rows if several intervals share a buffer.
#[test]
fn an_interval_s_answer_leaves_the_others_alone() {
    let (kernels, instances) = (kernels(), &mut Instances::new(false));
    let numbers = &mut Numbers(31);
    let case = Case::linear(numbers, &kernels[0], Kind::Forward, 24, 20);
    let expected = case.direct(instances);
    let answer = work(&kernels[0], instances, &case.frame(Encoding::F32, vec![], &[]), &[]);
    let columns = case.layer.signature().outputs[0].extents[0] as usize;
    let all = eciton_tensor::Buffer::zeroed(60, columns).unwrap();
    let other = all.write(0..10).unwrap();
    let target =
        eciton_kernel::Target::Rows { rows: all.write(10..34).unwrap(), extents: vec![columns as u32] };
    Answer::parse(answer).unwrap().into_targets(vec![target], vec![]).unwrap();
    drop(other);
    let values: Vec<u32> = all.to_vec().unwrap().iter().map(|v| v.to_bits()).collect();
    assert_eq!(values[10 * columns..34 * columns], expected.rows[0]);
    assert!(values[..10 * columns].iter().chain(&values[34 * columns..]).all(|b| *b == 0));
    let _: &Rows = &case.inputs[0];
}

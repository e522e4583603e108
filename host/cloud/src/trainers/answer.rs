//! An attempt at a call: the request, the answer, and the reason if it fails.

use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use eciton_transport::{Condition, Key, S3Store, Store};

use super::Call;
use crate::invoker::{Charge, InvokeError, Invoker as _};
use crate::lambda_invoker::LambdaInvoker;

/// Memory sizes in MB that an error message may recommend. `eciton deploy` offers them for
/// functions that compute whole training runs.
const SIZES: [u32; 7] = [512, 1024, 1769, 3008, 3538, 7076, 10_240];
/// Answer to a call, with its charge and its number of throttled requests.
pub(super) struct Answer {
    pub(super) reply: Bytes,
    /// Size of the original reply in bytes, including the answer that was removed from it.
    pub(super) reply_bytes: u64,
    /// Real time from the request to the reply, in seconds.
    pub(super) reply_s: f64,
    pub(super) object: Bytes,
    pub(super) second: Option<Bytes>,
    pub(super) charge: Option<Charge>,
    pub(super) throttled: u64,
}

/// Failure of an attempt at a call.
pub(super) struct Fault {
    pub(super) text: String,
    pub(super) retryable: bool,
    pub(super) throttled: bool,
    pub(super) throttles: u64,
    pub(super) charge: Option<Charge>,
}

/// Returns the error message for a call that reached the time, memory or disk limit of its
/// function. Returns `None` for other failures. Another attempt at such a call would fail as well.
pub(super) fn exhausted(error: &InvokeError, (memory_mb, timeout): (u32, Duration)) -> Option<String> {
    let InvokeError::Function { kind, message, charge, .. } = error else { return None };
    let larger = match SIZES.iter().find(|size| **size > memory_mb) {
        Some(size) => format!("a larger function (executor.memory_mb={size})"),
        None => "less data or a smaller model (no larger function exists)".to_owned(),
    };
    if kind == TIMED_OUT {
        return Some(format!(
            "{error}; a call must read its data and train at least one epoch within the time limit of its function, \
             {} s. Use {larger}, fewer rows per epoch, or a longer time limit (executor.timeout_s, at most 900)",
            timeout.as_secs()
        ));
    }
    if message.contains("no space left in /tmp") {
        let text = "another attempt would need the same space. Use a smaller data set, or convert it to a store (eciton \
             convert)";
        return Some(format!("{error}: {text}"));
    }
    let full = charge.is_some_and(|charge| charge.used_mb >= charge.memory_mb && charge.memory_mb > 0);
    if kind == "Runtime.ExitError" && full {
        let text =
            format!("the function used all of its {memory_mb} MB, and another attempt would do the same");
        return Some(format!("{error}: {text}. Use {larger}"));
    }
    None
}

/// Writes an object to the store unless it exists. Checks the existence first, because a
/// conditional PUT request would upload all bytes.
pub(super) async fn store_once(store: &S3Store, key: &Key, bytes: Bytes) -> eciton_transport::Result<()> {
    match store.size(key).await {
        Ok(_) => Ok(()),
        Err(error) if error.may_be_absent() => store.put(key, bytes, Condition::IfAbsent).await.map(drop),
        Err(error) => Err(error),
    }
}

/// Makes one attempt at a call, and reads its answer. `advice` is the memory in MB and the time
/// limit of the function, for error messages.
pub(super) async fn make(
    invoker: &LambdaInvoker,
    store: &S3Store,
    call: Call,
    advice: (u32, Duration),
) -> Result<Answer, Fault> {
    let failed = |doing: String, error: &eciton_transport::Error| Fault {
        text: format!("cannot {doing}: {error}"),
        retryable: true,
        throttled: false,
        throttles: 0,
        charge: None,
    };
    for (key, bytes) in call.files {
        let stored = store_once(store, &key, bytes).await;
        stored.map_err(|error| failed(format!("store `{key}`"), &error))?;
    }
    let sent = Instant::now();
    let invoked = invoker.invoke(call.event).await.map_err(|error| refused(&error, advice))?;
    let reply_s = sent.elapsed().as_secs_f64();
    let (throttles, charge) = (invoked.throttled, invoked.charge);
    let reading = |key: &Key, error: eciton_transport::Error| Fault {
        throttles,
        charge,
        ..failed(format!("read the answer `{key}`"), &error)
    };
    let reply_bytes = invoked.payload.len() as u64;
    let (reply, carried) = without_answer(invoked.payload);
    let object = match carried {
        Some(object) => object,
        None => store.get(&call.answer, None).await.map_err(|error| reading(&call.answer, error))?,
    };
    let second = match &call.second {
        Some(key) => match store.get(key, None).await {
            Ok(second) => Some(second),
            Err(error) if error.may_be_absent() => None,
            Err(error) => return Err(reading(key, error)),
        },
        None => None,
    };
    Ok(Answer { reply, reply_bytes, reply_s, object, second, charge, throttled: throttles })
}

/// Converts the error of an invocation to a [`Fault`]. A call that reached a limit of its function
/// is not retryable.
pub(super) fn refused(error: &InvokeError, advice: (u32, Duration)) -> Fault {
    let (_, throttles) = error.requests();
    let throttled = matches!(error, InvokeError::Service { .. }) && throttles > 0;
    let charge = error.charge();
    match exhausted(error, advice) {
        Some(text) => Fault { text, retryable: false, throttled, throttles, charge },
        None => {
            Fault { text: error.to_string(), retryable: error.is_retryable(), throttled, throttles, charge }
        }
    }
}

/// Error type that Lambda reports for a function that reached its time limit.
pub(super) const TIMED_OUT: &str = "Sandbox.Timedout";

/// Splits a reply into the reply without its answer, and the answer. If the answer is damaged,
/// returns `None` for it, because the object store also contains it.
pub(super) fn without_answer(reply: Bytes) -> (Bytes, Option<Bytes>) {
    let Ok(mut fields) = serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(&reply) else {
        return (reply, None);
    };
    let Some(serde_json::Value::String(answer)) = fields.remove(ANSWER) else { return (reply, None) };
    match (STANDARD.decode(answer), serde_json::to_vec(&fields)) {
        (Ok(answer), Ok(rest)) => (rest.into(), Some(answer.into())),
        _ => (reply, None),
    }
}

/// Name of the field of a reply that contains the answer in Base64.
pub(super) const ANSWER: &str = "answer";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::emulated_account::EmulatedAccount;
    use eciton_recipe::{Emulator, Executor};

    fn function_error(kind: &str, message: &str, used_mb: u32) -> InvokeError {
        InvokeError::Function {
            function: "f".to_owned(),
            kind: kind.to_owned(),
            message: message.to_owned(),
            retryable: true,
            charge: Some(Charge { used_mb, memory_mb: 512, ..Charge::default() }),
            requests: 1,
            throttled: 0,
        }
    }

    #[test]
    fn a_limit_of_the_function_is_no_reason_for_another_attempt() {
        let second = Duration::from_secs(1);
        let timed_out = function_error("Sandbox.Timedout", "Task timed out after 3.00 seconds", 40);
        let said = exhausted(&timed_out, (512, second)).unwrap();
        assert!(said.contains("executor.timeout_s") && said.contains("executor.memory_mb=1024"), "{said}");
        let killed = "RequestId: 1 Error: Runtime exited with error: signal: killed";
        let full = exhausted(&function_error("Runtime.ExitError", killed, 512), (512, second)).unwrap();
        assert!(full.contains("all of its 512 MB") && full.contains("executor.memory_mb=1024"), "{full}");
        assert_eq!(
            exhausted(&function_error("Runtime.ExitError", killed, 40), (512, second)),
            None,
            "it crashed"
        );
        let most = exhausted(&function_error("Runtime.ExitError", killed, 512), (10_240, second)).unwrap();
        assert!(most.contains("no larger function exists"), "{most}");
    }

    #[test]
    fn the_answer_of_a_reply_is_taken_out_of_it() {
        let split = |reply: &str| without_answer(Bytes::from(reply.to_owned()));
        let (rest, answer) = split(r#"{"found":false,"answer":"UEsDBA==","seconds":1.5}"#);
        assert_eq!(answer.unwrap(), Bytes::from_static(b"PK\x03\x04"));
        let rest: serde_json::Value = serde_json::from_slice(&rest).unwrap();
        assert_eq!(rest, serde_json::json!({"found": false, "seconds": 1.5}));
        // The store has the answers to these calls.
        for reply in [r#"{"found":true}"#, r#"{"answer":"?"}"#, r#"{"answer":7}"#, "[]", "not JSON"] {
            assert_eq!(split(reply), (Bytes::from(reply.to_owned()), None), "{reply}");
        }
    }

    #[test]
    fn a_call_that_reached_its_time_limit_is_not_made_again() {
        let error = |kind: &str| InvokeError::Function {
            function: "f".to_owned(),
            kind: kind.to_owned(),
            message: "Task timed out after 3.00 seconds".to_owned(),
            retryable: true,
            charge: None,
            requests: 1,
            throttled: 0,
        };
        let timed_out = refused(&error(TIMED_OUT), (512, Duration::from_secs(3)));
        assert!(!timed_out.retryable);
        for word in
            ["time limit of its function, 3 s", "executor.memory_mb", "executor.timeout_s", "timed out after"]
        {
            assert!(timed_out.text.contains(word), "{}", timed_out.text);
        }
        assert!(refused(&error("Runtime.ExitError"), (512, Duration::from_secs(3))).retryable);
    }

    #[test]
    fn an_object_that_the_store_has_is_not_sent_again() {
        let (executor, emulator) = (Executor::default(), Emulator::default());
        // The function is never invoked.
        let stand = EmulatedAccount::start(("trainer", "/bin/true".into()), &executor, &emulator).unwrap();
        let key = Key::new("runs/files/object").unwrap();
        let mut sent = Vec::new();
        for _ in 0..2 {
            let stored = store_once(&stand.store, &key, Bytes::from(vec![7; 1000]));
            stand.runtime.block_on(stored).unwrap();
            sent.push(stand.store.counts().bytes_out);
        }
        assert_eq!(sent, [1000, 1000]);
        assert_eq!(stand.runtime.block_on(stand.store.get(&key, None)).unwrap(), vec![7; 1000]);
        assert_eq!((stand.cloud.bill().s3.puts, stand.cloud.bill().s3.heads), (1, 2));
    }
}

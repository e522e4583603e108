//! Tests of injected faults, from the view of the client and of the bill.

use crate::common::{alive, invoke, lambda, settings, soon, start, try_invoke};
use eciton_emulator::{Emulator, Faults, Settings};
use std::time::{Duration, Instant};

async fn with(faults: Faults) -> Emulator {
    start(Settings { faults, ..settings() }).await
}

#[tokio::test]
async fn a_crash_before_the_event() {
    let emulator = with(Faults { crash_before: 1.0, ..Faults::default() }).await;
    let answer = invoke(&lambda(&emulator), r#"{"do":"exit"}"#).await;
    assert_eq!(answer.error_type(), "Runtime.ExitError");
    assert!(
        answer.error_message().ends_with("Error: Runtime exited with error: signal: killed"),
        "{}",
        answer.error_message()
    );
    soon("nothing is left", || emulator.instances().is_empty()).await;
    assert_eq!((emulator.bill().crashes, emulator.bill().invocations), (1, 1));
}

#[tokio::test]
async fn a_crash_during_the_work() {
    let emulator = with(Faults { crash_during: 1.0, ..Faults::default() }).await;
    let client = lambda(&emulator);
    for event in [r#"{"do":"sleep","ms":10000}"#, "{}"] {
        let begun = Instant::now();
        let answer = invoke(&client, event).await;
        assert_eq!(
            (answer.error.as_deref(), answer.error_type().as_str()),
            (Some("Unhandled"), "Runtime.ExitError")
        );
        assert!(begun.elapsed() < Duration::from_secs(5));
    }
    assert_eq!((emulator.bill().crashes, emulator.bill().cold_starts), (2, 2));
}

#[tokio::test]
async fn a_crash_after_the_answer() {
    let emulator = with(Faults { crash_after: 1.0, ..Faults::default() }).await;
    let client = lambda(&emulator);
    for _ in 0..3 {
        let answer = invoke(&client, r#"{"do":"count"}"#).await;
        assert_eq!((answer.error.as_deref(), answer.text()), (None, "1"));
    }
    assert_eq!((emulator.bill().crashes, emulator.bill().cold_starts), (0, 3));
}

#[tokio::test]
async fn a_lost_answer() {
    let emulator = with(Faults { lose_answer: 1.0, ..Faults::default() }).await;
    let error = try_invoke(&lambda(&emulator), "{}").await.unwrap_err();
    assert!(matches!(error, aws_sdk_lambda::error::SdkError::DispatchFailure(_)), "{error:?}");
    let bill = emulator.bill();
    assert_eq!((bill.invocations, bill.lost_answers, bill.payload_bytes_out), (1, 1, 0));
    assert!(bill.billed_ms > 0);
}

#[tokio::test]
async fn a_corrupted_answer_has_one_other_byte() {
    let emulator = with(Faults { corrupt_answer: 1.0, ..Faults::default() }).await;
    let event = r#"{"some":"text that comes back"}"#;
    let answer = invoke(&lambda(&emulator), event).await;
    let changed = answer.text().bytes().zip(event.bytes()).filter(|(found, sent)| found != sent).count();
    assert_eq!((answer.error.as_deref(), answer.text().len(), changed), (None, event.len(), 1));
}

#[tokio::test]
async fn a_doubled_event_is_run_twice() {
    let emulator = with(Faults { double: 1.0, ..Faults::default() }).await;
    assert_eq!(invoke(&lambda(&emulator), "{}").await.text(), "{}");
    soon("the second run is over", || emulator.bill().invocations == 2).await;
    assert_eq!(emulator.bill().doubled, 1);
}

#[tokio::test]
async fn a_straggler_is_late_and_billed() {
    let emulator =
        with(Faults { straggle: 1.0, straggle_delay: Duration::from_millis(200), ..Faults::default() }).await;
    let begun = Instant::now();
    assert_eq!(invoke(&lambda(&emulator), "{}").await.text(), "{}");
    assert!(begun.elapsed() >= Duration::from_millis(200));
    assert!(emulator.bill().billed_ms >= 200);
}

#[tokio::test]
async fn a_straggler_may_run_into_the_timeout() {
    let faults = Faults { straggle: 1.0, straggle_delay: Duration::from_secs(60), ..Faults::default() };
    let mut settings = Settings { faults, ..settings() };
    settings.functions[0].timeout = Duration::from_millis(200);
    let emulator = start(settings).await;
    assert_eq!(invoke(&lambda(&emulator), "{}").await.error_type(), "Sandbox.Timedout");
}

#[tokio::test]
async fn throttling() {
    let emulator = with(Faults { throttle: 1.0, ..Faults::default() }).await;
    let error = try_invoke(&lambda(&emulator), "{}").await.unwrap_err();
    assert!(error.into_service_error().is_too_many_requests_exception());
    assert_eq!((emulator.bill().throttled, emulator.bill().invocations), (1, 0));
}

/// Sends 120 events in a given order, with a given number in flight, each until it is answered.
/// Returns the result of each.
async fn run(
    seed: u64,
    order: Vec<u32>,
    at_once: usize,
) -> (Vec<(u32, Vec<&'static str>)>, eciton_emulator::Bill) {
    let faults = Faults {
        seed,
        crash_before: 0.02,
        crash_during: 0.03,
        crash_after: 0.03,
        lose_answer: 0.05,
        double: 0.05,
        straggle: 0.10,
        straggle_delay: Duration::from_millis(20),
        throttle: 0.05,
        ..Faults::default()
    };
    let emulator = with(faults).await;
    let mut fates = Vec::new();
    for chunk in order.chunks(at_once) {
        let mut tasks = Vec::new();
        for event in chunk.iter().copied() {
            let client = lambda(&emulator);
            tasks.push(tokio::spawn(async move {
                let mut seen = Vec::new();
                loop {
                    match try_invoke(&client, format!("[{event}]")).await {
                        Ok(answer) if answer.error.is_none() => {
                            assert_eq!(answer.text(), format!("[{event}]"));
                            seen.push("answered");
                            return (event, seen);
                        }
                        Ok(answer) => {
                            assert_eq!(answer.error_type(), "Runtime.ExitError");
                            seen.push("crashed");
                        }
                        Err(aws_sdk_lambda::error::SdkError::DispatchFailure(_)) => seen.push("lost"),
                        Err(error) => {
                            assert!(error.into_service_error().is_too_many_requests_exception());
                            seen.push("throttled");
                        }
                    }
                }
            }));
        }
        for task in tasks {
            fates.push(task.await.unwrap());
        }
    }
    fates.sort();
    let pids: Vec<u32> = emulator.instances().iter().map(|instance| instance.pid).collect();
    let doubled = emulator.bill().doubled;
    let known: u64 =
        fates.iter().map(|(_, seen)| seen.iter().filter(|fate| **fate != "throttled").count() as u64).sum();
    soon("second runs are over", || emulator.bill().invocations == known + doubled).await;
    emulator.stop().await.unwrap();
    assert!(pids.iter().all(|pid| !alive(*pid)));
    (fates, emulator.bill())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_depend_on_the_events_alone() {
    let seed = 11;
    let (forward, bill) = run(seed, (0..120).collect(), 1).await;
    let (backward, other) = run(seed, (0..120).rev().collect(), 8).await;
    assert_eq!(forward, backward, "seed {seed}");
    let counts = |bill: &eciton_emulator::Bill| {
        (
            bill.invocations,
            bill.throttled,
            bill.crashes,
            bill.lost_answers,
            bill.doubled,
            bill.function_errors,
        )
    };
    assert_eq!(counts(&bill), counts(&other), "seed {seed}");
    for fate in ["answered", "crashed", "lost", "throttled"] {
        assert!(forward.iter().any(|(_, seen)| seen.contains(&fate)), "{fate}, seed {seed}");
    }
}

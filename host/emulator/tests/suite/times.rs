//! Tests of virtual time, and of the limits of memory and `/tmp`.

use crate::common::{Answer, lambda, settings, start};
use aws_sdk_lambda::primitives::Blob;
use aws_sdk_lambda::types::LogType;
use base64::Engine as _;
use eciton_emulator::{Advanced, Settings, Times, Tmp};
use std::sync::Arc;
use std::time::{Duration, Instant};

const MS: Duration = Duration::from_millis(1);

/// Returns the times of a cloud whose functions have this number of cores.
fn timed(cores: f64) -> Settings {
    let times =
        Times { invoke: 10 * MS, cold_start: 150 * MS, first_byte: 20 * MS, bytes_per_second: 75e6, cores };
    Settings { times: Some(times), ..settings() }
}

/// Invokes the echo worker, and returns its answer with the last log lines.
async fn invoke(client: &aws_sdk_lambda::Client, event: impl Into<Vec<u8>>) -> Answer {
    let call = client.invoke().function_name("echo").log_type(LogType::Tail);
    let output = call.payload(Blob::new(event.into())).send().await.unwrap();
    let log = base64::engine::general_purpose::STANDARD.decode(output.log_result().unwrap()).unwrap();
    Answer {
        error: output.function_error().map(str::to_owned),
        payload: output.payload().map(|blob| blob.as_ref().to_vec()).unwrap_or_default(),
        log: Some(String::from_utf8(log).unwrap()),
    }
}

/// Returns a value of a report line, for instance `Billed Duration`.
fn figure(answer: &Answer, name: &str) -> f64 {
    let log = answer.log.as_deref().unwrap();
    let line = log.lines().find(|line| line.starts_with("REPORT")).unwrap();
    let field = line.split('\t').find_map(|field| field.strip_prefix(name)?.strip_prefix(": ")).unwrap();
    field.split(' ').next().unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_come_in_the_order_of_virtual_time_and_cost_what_was_computed() {
    let emulator = start(timed(0.5)).await;
    let clock = emulator.clock().unwrap();
    let client = Arc::new(lambda(&emulator));
    let (done, mut order) = tokio::sync::mpsc::unbounded_channel();
    for rounds in [10_000, 100, 1000] {
        clock.announce();
        let (client, done) = (client.clone(), done.clone());
        tokio::spawn(async move {
            let answer = invoke(&client, format!(r#"{{"do":"compute","rounds":{rounds}}}"#)).await;
            let used_ms = answer.text().parse::<f64>().unwrap() / 1e6;
            let _ = done.send((rounds, used_ms, figure(&answer, "Billed Duration")));
        });
    }
    drop(done);
    for expected in [100, 1000, 10_000] {
        assert_eq!(clock.advance(None).await, Advanced::Answer);
        let (rounds, used, billed) = order.recv().await.unwrap();
        assert_eq!(rounds, expected);
        // Half a core takes twice the processor time. The reference product halves it at most, and
        // the process uses a little more than the loop that it times.
        assert!((used..2.0 * used + 20.0).contains(&billed), "{rounds}: {used} ms used, {billed} ms billed");
    }
    assert_eq!(clock.advance(None).await, Advanced::Idle);
    assert!(clock.now() > 160 * MS, "way and cold start: {:?}", clock.now());
    assert_eq!(emulator.bill().cold_starts, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_time_limit_is_one_of_virtual_time() {
    let mut settings = timed(0.001);
    settings.functions[0].timeout = Duration::from_secs(5);
    let emulator = start(settings).await;
    let (clock, client) = (emulator.clock().unwrap(), lambda(&emulator));
    let begun = Instant::now();
    clock.announce();
    let call = tokio::spawn(async move { invoke(&client, r#"{"do":"compute","rounds":100000000}"#).await });
    assert_eq!(clock.advance(None).await, Advanced::Answer);
    let answer = call.await.unwrap();
    assert_eq!(answer.error_type(), "Sandbox.Timedout");
    assert!(
        begun.elapsed() < Duration::from_secs(15),
        "5 s at a thousandth of a core: {:?}",
        begun.elapsed()
    );
    assert_eq!((emulator.bill().timeouts, figure(&answer, "Duration")), (1, 5000.0));
}

#[tokio::test]
async fn a_process_of_more_memory_than_its_function_has_is_killed() {
    let mut settings = settings();
    settings.functions[0].memory_mb = 128;
    let emulator = start(settings).await;
    let client = lambda(&emulator);
    let fits = invoke(&client, r#"{"do":"allocate","mb":64}"#).await;
    assert_eq!(fits.error, None);
    assert!((64.0..128.0).contains(&figure(&fits, "Max Memory Used")));
    let killed = invoke(&client, r#"{"do":"allocate","mb":200}"#).await;
    assert_eq!(killed.error_type(), "Runtime.ExitError");
    assert!(killed.error_message().ends_with("signal: killed"), "{}", killed.error_message());
    assert_eq!(figure(&killed, "Max Memory Used"), 128.0);
    assert_eq!(invoke(&client, r#"{"do":"count"}"#).await.text(), "1", "a new process");
}

#[tokio::test]
async fn a_process_that_fills_its_temporary_folder_is_killed() {
    let folder = std::env::temp_dir().join(format!("eciton-emulator-tmp-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut settings = settings();
    settings.functions[0].tmp = Some(Tmp { folder: folder.clone(), mb: 8 });
    let emulator = start(settings).await;
    let client = lambda(&emulator);
    assert_eq!(invoke(&client, r#"{"do":"write","mb":6}"#).await.error, None);
    let killed = invoke(&client, r#"{"do":"write","mb":10}"#).await;
    assert!(killed.error_message().contains("no space left in /tmp (8 MB)"), "{}", killed.error_message());
    emulator.stop().await.unwrap();
    let left = std::fs::read_dir(&folder).unwrap().count();
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(left, 0, "a process's folder is removed with it");
}

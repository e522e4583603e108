//! Tests of the Lambda API with AWS's own client and real worker processes.

use crate::common::{alive, invoke, lambda, lambda_signed_by, settings, soon, start, try_invoke};
use aws_sdk_lambda::operation::invoke::InvokeError;
use aws_sdk_lambda::primitives::Blob;
use aws_sdk_lambda::types::{InvocationType, LogType};
use eciton_emulator::{Emulator, Error, LogLine, LogSink, Settings};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

#[tokio::test]
async fn an_event_comes_back_and_the_process_is_used_again() {
    let emulator = start(settings()).await;
    let client = lambda(&emulator);
    assert!(emulator.instances().is_empty());
    let event = format!("{{\"text\":\"{}\"}}", "x".repeat(100_000));
    let answer = invoke(&client, event.clone()).await;
    assert_eq!((answer.error.as_deref(), answer.text()), (None, event.as_str()));
    let instances = emulator.instances();
    let [instance] = instances.as_slice() else { panic!("{instances:?}") };
    assert!(alive(instance.pid) && instance.pid != std::process::id());
    assert!(instance.cold_start.is_some() && !instance.busy && instance.peak_memory_bytes.unwrap() > 100_000);
    for expected in 2..12 {
        assert_eq!(invoke(&client, r#"{"do":"count"}"#).await.text(), expected.to_string());
    }
    let after = emulator.instances();
    assert_eq!((after.len(), after[0].pid, after[0].invocations), (1, instance.pid, 11));
    let bill = emulator.bill();
    assert_eq!((bill.invocations, bill.cold_starts, bill.function_errors), (11, 1, 0));
    assert!(bill.init_us > 0 && bill.billed_ms >= 11);
    assert_eq!(bill.billed_mb_ms, bill.billed_ms * 1769);
    assert_eq!(bill.payload_bytes_in, event.len() as u64 + 10 * 14);
    assert_eq!(bill.payload_bytes_out, event.len() as u64 + 8 + 2 * 2);
}

#[tokio::test]
async fn the_report_line_and_the_log_tail() {
    let lines = Arc::new(Mutex::new(Vec::<LogLine>::new()));
    let heard = lines.clone();
    let sink = LogSink(Arc::new(move |line: &LogLine| heard.lock().unwrap().push(line.clone())));
    let emulator = start(Settings { log_sink: Some(sink), ..settings() }).await;
    let client = lambda(&emulator);
    let mut logs = Vec::new();
    for _ in 0..2 {
        let event = Blob::new(r#"{"do":"log","lines":2}"#);
        let output = client
            .invoke()
            .function_name("echo")
            .log_type(LogType::Tail)
            .payload(event)
            .send()
            .await
            .unwrap();
        let log =
            base64::Engine::decode(&base64::engine::general_purpose::STANDARD, output.log_result().unwrap())
                .unwrap();
        logs.push(String::from_utf8(log).unwrap());
    }
    for (log, cold) in logs.iter().zip([true, false]) {
        assert!(log.starts_with("START RequestId: ") && log.contains("Version: $LATEST\n"), "{log}");
        assert!(log.contains("line 0 of ") && log.contains("line 1 of ") && log.contains("done\n"), "{log}");
        let report = log.lines().find(|line| line.starts_with("REPORT RequestId: ")).unwrap();
        for field in
            ["\tDuration: ", "\tBilled Duration: ", "\tMemory Size: 1769 MB\t", "\tMax Memory Used: "]
        {
            assert!(report.contains(field), "{report}");
        }
        assert_eq!(report.contains("\tInit Duration: "), cold, "{report}");
    }
    let heard = lines.lock().unwrap();
    assert_eq!(heard.iter().filter(|line| line.text == "done").count(), 2);
    assert_eq!(heard[0].pid, emulator.instances()[0].pid);
}

#[tokio::test]
async fn a_log_tail_has_its_limit() {
    let emulator = start(Settings { log_tail: 300, ..settings() }).await;
    let event = Blob::new(r#"{"do":"log","lines":1000}"#);
    let output = lambda(&emulator)
        .invoke()
        .function_name("echo")
        .log_type(LogType::Tail)
        .payload(event)
        .send()
        .await
        .unwrap();
    let log =
        base64::Engine::decode(&base64::engine::general_purpose::STANDARD, output.log_result().unwrap())
            .unwrap();
    assert_eq!(log.len(), 300);
    assert!(String::from_utf8(log).unwrap().contains("REPORT"));
}

#[tokio::test]
async fn the_other_kinds_of_invocation() {
    let emulator = start(settings()).await;
    let client = lambda(&emulator);
    let send = |kind, event: &'static str| {
        client.invoke().function_name("echo").invocation_type(kind).payload(Blob::new(event)).send()
    };
    assert_eq!(send(InvocationType::DryRun, "{}").await.unwrap().status_code(), 204);
    assert_eq!(emulator.bill().invocations, 0);
    assert_eq!(send(InvocationType::Event, r#"{"do":"sleep","ms":5}"#).await.unwrap().status_code(), 202);
    soon("the event runs", || emulator.bill().invocations == 1).await;
    let large: &'static str = Box::leak(
        format!("\"{}\"", "x".repeat(eciton_emulator::ASYNCHRONOUS_PAYLOAD_BYTES - 1)).into_boxed_str(),
    );
    let error = send(InvocationType::Event, large).await.unwrap_err().into_service_error();
    assert!(matches!(error, InvokeError::RequestTooLargeException(_)), "{error:?}");
}

#[tokio::test]
async fn errors_have_the_shapes_of_aws() {
    let emulator = start(settings()).await;
    let client = lambda(&emulator);
    let error = try_invoke(&client, "not json").await.unwrap_err().into_service_error();
    assert!(
        matches!(&error, InvokeError::InvalidRequestContentException(error) if error.message().unwrap().starts_with("Could not parse request body into json")),
        "{error:?}"
    );
    let error = client.invoke().function_name("other").send().await.unwrap_err().into_service_error();
    assert!(
        matches!(&error, InvokeError::ResourceNotFoundException(error) if error.message().unwrap().contains("function:other:$LATEST")),
        "{error:?}"
    );
    let error =
        client.invoke().function_name("echo").qualifier("7").send().await.unwrap_err().into_service_error();
    assert!(matches!(error, InvokeError::ResourceNotFoundException(_)), "{error:?}");
    for (key, secret, code) in [
        ("emulator", "wrong", "InvalidSignatureException"),
        ("other", "emulator-secret", "UnrecognizedClientException"),
    ] {
        let error = try_invoke(&lambda_signed_by(&emulator, key, secret), "{}").await.unwrap_err();
        assert_eq!(error.raw_response().unwrap().status().as_u16(), 403);
        assert_eq!(aws_sdk_lambda::error::ProvideErrorMetadata::code(&error), Some(code));
    }
    assert_eq!(emulator.bill().invocations, 0);
    let answer = invoke(&client, r#"{"do":"fail"}"#).await;
    assert_eq!((answer.error.as_deref(), answer.error_type().as_str()), (Some("Unhandled"), "Echo.Failed"));
    for name in
        ["echo:$LATEST", "000000000000:function:echo", "arn:aws:lambda:us-east-1:000000000000:function:echo"]
    {
        assert_eq!(
            client
                .invoke()
                .function_name(name)
                .payload(Blob::new("[1]"))
                .send()
                .await
                .unwrap()
                .payload()
                .unwrap()
                .as_ref(),
            b"[1]"
        );
    }
    // The worker survived its own error.
    assert_eq!(emulator.bill().cold_starts, 1);
    assert_eq!(emulator.bill().function_errors, 1);
}

#[tokio::test]
async fn payloads_at_their_limits() {
    let emulator = start(settings()).await;
    let client = lambda(&emulator);
    let event = |bytes: usize| format!("\"{}\"", "x".repeat(bytes - 2));
    let largest = eciton_emulator::SYNCHRONOUS_PAYLOAD_BYTES;
    let answer = invoke(&client, event(largest)).await;
    assert_eq!((answer.error, answer.payload.len()), (None, largest));
    let error = try_invoke(&client, event(largest + 1)).await.unwrap_err();
    assert_eq!(error.raw_response().unwrap().status().as_u16(), 413);
    assert!(matches!(error.into_service_error(), InvokeError::RequestTooLargeException(_)));
    let answer = invoke(&client, format!(r#"{{"do":"oversize","bytes":{largest}}}"#)).await;
    assert_eq!((answer.error.as_deref(), answer.payload.len()), (None, largest));
    let answer = invoke(&client, format!(r#"{{"do":"oversize","bytes":{}}}"#, largest + 1)).await;
    assert_eq!(
        (answer.error.as_deref(), answer.error_type().as_str()),
        (Some("Unhandled"), "Function.ResponseSizeTooLarge")
    );
    assert_eq!(invoke(&client, "{}").await.text(), "{}");
    assert_eq!(emulator.bill().cold_starts, 1);
}

#[tokio::test]
async fn a_process_that_ends_is_an_exit_error_and_the_next_start_is_cold() {
    let emulator = start(settings()).await;
    let client = lambda(&emulator);
    for (event, message) in [
        (r#"{"do":"exit","code":3}"#, "Runtime exited with error: exit status 3"),
        (r#"{"do":"abort"}"#, "Runtime exited with error: signal: aborted"),
        (r#"{"do":"exit","code":0}"#, "Runtime exited without providing a reason"),
    ] {
        let answer = invoke(&client, event).await;
        assert_eq!(
            (answer.error.as_deref(), answer.error_type().as_str()),
            (Some("Unhandled"), "Runtime.ExitError")
        );
        assert!(
            answer.error_message().starts_with("RequestId: ") && answer.error_message().ends_with(message),
            "{}",
            answer.error_message()
        );
        assert_eq!(invoke(&client, r#"{"do":"count"}"#).await.text(), "1");
    }
    let bill = emulator.bill();
    assert_eq!((bill.crashes, bill.cold_starts, bill.invocations), (3, 4, 6));
}

#[tokio::test]
async fn a_process_killed_by_pid_at_work() {
    let emulator = start(settings()).await;
    let client = lambda(&emulator);
    let call = tokio::spawn({
        let client = client.clone();
        async move { invoke(&client, r#"{"do":"sleep","ms":60000}"#).await }
    });
    soon("it works", || emulator.instances().first().is_some_and(|instance| instance.busy)).await;
    let pid = emulator.instances()[0].pid;
    assert!(emulator.kill(pid));
    let answer = call.await.unwrap();
    assert_eq!(answer.error_type(), "Runtime.ExitError");
    assert!(answer.error_message().ends_with("Error: Runtime exited with error: signal: killed"));
    assert!(!alive(pid) && !emulator.kill(pid));
}

#[tokio::test]
async fn a_process_killed_while_idle_is_not_noticed_by_the_next_call() {
    let emulator = start(settings()).await;
    let client = lambda(&emulator);
    for _ in 0..20 {
        assert_eq!(invoke(&client, r#"{"do":"count"}"#).await.text(), "1");
        // Kills all processes, because one that was killed before may still be listed first.
        for instance in emulator.instances() {
            emulator.kill(instance.pid);
        }
        // There is no wait, so the call may reach the instance while it is dying.
    }
    assert_eq!(invoke(&client, r#"{"do":"die-after"}"#).await.error, None);
    assert_eq!(invoke(&client, r#"{"do":"count"}"#).await.text(), "1");
    assert_eq!(emulator.bill().function_errors, 0);
}

#[tokio::test]
async fn a_timeout_kills_the_process() {
    let mut settings = settings();
    settings.functions[0].timeout = Duration::from_millis(300);
    let emulator = start(settings).await;
    let client = lambda(&emulator);
    invoke(&client, "{}").await;
    let pid = emulator.instances()[0].pid;
    let begun = Instant::now();
    let answer = invoke(&client, r#"{"do":"sleep","ms":60000}"#).await;
    assert!((Duration::from_millis(300)..Duration::from_secs(3)).contains(&begun.elapsed()));
    assert_eq!(
        (answer.error.as_deref(), answer.error_type().as_str()),
        (Some("Unhandled"), "Sandbox.Timedout")
    );
    assert!(
        answer.error_message().ends_with("Task timed out after 0.30 seconds"),
        "{}",
        answer.error_message()
    );
    soon("the process is gone", || !alive(pid)).await;
    assert_eq!(invoke(&client, r#"{"do":"count"}"#).await.text(), "1");
    let bill = emulator.bill();
    assert_eq!((bill.timeouts, bill.cold_starts), (1, 2));
    assert!(bill.billed_ms >= 300);
}

#[tokio::test]
async fn init_that_fails() {
    for (init, kind, message) in [
        ("exit", "Runtime.ExitError", "Runtime exited with error: exit status 7"),
        ("error", "Echo.Init", "as asked"),
        ("60000", "Sandbox.Timedout", "Task timed out after 0.20 seconds"),
    ] {
        let mut settings = Settings { init_timeout: Duration::from_millis(200), ..settings() };
        settings.functions[0].environment.insert("ECHO_INIT".into(), init.into());
        let emulator = start(settings).await;
        let answer = invoke(&lambda(&emulator), "{}").await;
        assert_eq!((answer.error.as_deref(), answer.error_type().as_str()), (Some("Unhandled"), kind));
        assert!(answer.error_message().ends_with(message), "{}", answer.error_message());
        soon("no process is left", || emulator.instances().is_empty()).await;
    }
}

#[tokio::test]
async fn beyond_the_concurrency_limit_calls_are_throttled() {
    let emulator = start(Settings { concurrency: 3, ..settings() }).await;
    let client = lambda(&emulator);
    let calls: Vec<_> = (0..3)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { invoke(&client, r#"{"do":"sleep","ms":400}"#).await })
        })
        .collect();
    soon("three work", || emulator.instances().iter().filter(|instance| instance.busy).count() == 3).await;
    let error = try_invoke(&client, "{}").await.unwrap_err();
    assert_eq!(error.raw_response().unwrap().status().as_u16(), 429);
    let error = error.into_service_error();
    let InvokeError::TooManyRequestsException(error) = error else { panic!("{error:?}") };
    assert_eq!(error.reason().unwrap().as_str(), "ConcurrentInvocationLimitExceeded");
    for call in calls {
        call.await.unwrap();
    }
    assert_eq!(invoke(&client, r#"{"do":"count"}"#).await.text(), "2");
    let bill = emulator.bill();
    assert_eq!((bill.throttled, bill.invocations, bill.cold_starts), (1, 4, 3));
}

#[tokio::test]
async fn one_after_the_other_needs_one_place() {
    // The slot is free before the answer is sent, so that a client can continue immediately.
    let emulator = start(Settings { concurrency: 1, ..settings() }).await;
    let client = lambda(&emulator);
    for expected in 1..=200 {
        assert_eq!(invoke(&client, r#"{"do":"count"}"#).await.text(), expected.to_string());
    }
}

#[tokio::test]
async fn an_idle_instance_of_another_function_makes_room() {
    let mut settings = Settings { concurrency: 1, ..settings() };
    settings.functions.push(eciton_emulator::Function::new("second", crate::common::ECHO));
    let emulator = start(settings).await;
    let client = lambda(&emulator);
    for _ in 0..3 {
        for name in ["echo", "second"] {
            let output = client
                .invoke()
                .function_name(name)
                .payload(Blob::new(r#"{"do":"count"}"#))
                .send()
                .await
                .unwrap();
            assert_eq!(output.payload().unwrap().as_ref(), b"1");
        }
    }
    soon("one is left", || emulator.instances().len() == 1).await;
}

#[tokio::test]
async fn cold_starts_can_be_slow_and_idle_instances_end() {
    let delay = Duration::from_millis(150);
    let emulator =
        start(Settings { cold_start_delay: delay, idle_timeout: Duration::from_millis(60), ..settings() })
            .await;
    let client = lambda(&emulator);
    let begun = Instant::now();
    invoke(&client, "{}").await;
    assert!(begun.elapsed() >= delay);
    assert!(emulator.bill().billed_ms < 150, "the delay is not billed");
    soon("it ended", || emulator.instances().is_empty()).await;
    assert_eq!(invoke(&client, r#"{"do":"count"}"#).await.text(), "1");
}

#[tokio::test]
async fn the_environment_is_clean_and_lambdas() {
    // A variable that cargo sets in this process, and that workers must not inherit.
    assert!(std::env::var("CARGO_MANIFEST_DIR").is_ok());
    let mut settings = settings();
    settings.functions[0].environment.insert("MINE".into(), "yes".into());
    settings.functions[0].environment.insert("AWS_REGION".into(), "mars-1".into());
    let emulator = start(settings).await;
    let variables = invoke(&lambda(&emulator), r#"{"do":"environment"}"#).await.json();
    assert_eq!(variables["MINE"], "yes");
    assert_eq!(variables["AWS_REGION"], "us-east-1");
    assert_eq!(variables["AWS_LAMBDA_FUNCTION_NAME"], "echo");
    assert_eq!(variables["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"], "1769");
    assert_eq!(
        variables["LAMBDA_TASK_ROOT"],
        std::path::Path::new(crate::common::ECHO).parent().unwrap().to_str().unwrap()
    );
    assert!(variables["AWS_ENDPOINT_URL_S3"].as_str().unwrap().starts_with("http://127.0.0.1:"));
    assert!(variables.get("CARGO_MANIFEST_DIR").is_none() && variables.get("HOME").is_none());
}

#[tokio::test]
async fn functions_and_account_describe_themselves() {
    let emulator = start(Settings { concurrency: 10, ..settings() }).await;
    let client = lambda(&emulator);
    let function = client.get_function().function_name("echo").send().await.unwrap();
    let configuration = function.configuration().unwrap();
    assert_eq!((configuration.memory_size(), configuration.timeout()), (Some(1769), Some(20)));
    let configuration = client.get_function_configuration().function_name("echo").send().await.unwrap();
    assert_eq!(configuration.function_arn(), Some("arn:aws:lambda:us-east-1:000000000000:function:echo"));
    assert!(
        client
            .get_function()
            .function_name("other")
            .send()
            .await
            .unwrap_err()
            .into_service_error()
            .is_resource_not_found_exception()
    );
    let account = client.get_account_settings().send().await.unwrap();
    assert_eq!(account.account_limit().unwrap().concurrent_executions(), 10);
}

#[tokio::test]
async fn stop_leaves_no_process_not_even_a_grandchild() {
    let emulator = start(settings()).await;
    let client = lambda(&emulator);
    let grandchild: u32 = invoke(&client, r#"{"do":"child"}"#).await.text().parse().unwrap();
    let busy = tokio::spawn({
        let client = client.clone();
        // The call is cut off or told that the process has ended, whichever is first.
        async move {
            let answer = try_invoke(&client, r#"{"do":"sleep","ms":60000}"#).await;
            answer.map_or(true, |answer| answer.error.is_some())
        }
    });
    soon("it works", || emulator.instances().iter().any(|instance| instance.busy)).await;
    let pids: Vec<u32> = emulator.instances().iter().map(|instance| instance.pid).collect();
    assert!(alive(grandchild));
    emulator.stop().await.unwrap();
    assert!(pids.iter().all(|pid| !alive(*pid)));
    soon("the grandchild is gone", || !alive(grandchild)).await;
    assert!(busy.await.unwrap(), "the open call ends");
    assert!(matches!(emulator.stop().await, Err(Error::Stopped)));
    assert!(try_invoke(&client, "{}").await.is_err());
    assert_eq!(emulator.bill().cold_starts, 1, "the bill stays readable");
}

#[tokio::test]
async fn dropping_kills_too() {
    let emulator = start(settings()).await;
    invoke(&lambda(&emulator), "{}").await;
    let pid = emulator.instances()[0].pid;
    drop(emulator);
    assert!(!alive(pid));
}

#[tokio::test]
async fn a_dead_worker_takes_its_grandchildren_along() {
    let emulator = start(settings()).await;
    let client = lambda(&emulator);
    let grandchild: u32 = invoke(&client, r#"{"do":"child"}"#).await.text().parse().unwrap();
    let answer = invoke(&client, r#"{"do":"exit","code":1}"#).await;
    assert_eq!(answer.error_type(), "Runtime.ExitError");
    soon("the grandchild is gone", || !alive(grandchild)).await;
}

/// Runs as a separate program for the following test.
#[tokio::test]
async fn helper_that_is_killed() {
    if std::env::var("EMULATOR_TEST_HELPER").is_err() {
        return;
    }
    let emulator = start(settings()).await;
    invoke(&lambda(&emulator), "{}").await;
    println!("worker {}", emulator.instances()[0].pid);
    tokio::time::sleep(Duration::from_secs(600)).await;
}

#[tokio::test]
async fn processes_die_with_a_parent_that_is_killed() {
    use std::io::BufRead;
    let mut parent = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "lambda::helper_that_is_killed", "--nocapture"])
        .env("EMULATOR_TEST_HELPER", "1")
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let lines = std::io::BufReader::new(parent.stdout.take().unwrap()).lines();
    let worker = lines
        .map(Result::unwrap)
        .find_map(|line| line.split("worker ").nth(1)?.trim().parse::<u32>().ok())
        .unwrap();
    assert!(alive(worker));
    parent.kill().unwrap();
    parent.wait().unwrap();
    soon("the worker is gone", || !alive(worker)).await;
}

#[tokio::test]
async fn settings_are_checked() {
    let wrong = |change: &dyn Fn(&mut Settings)| {
        let mut settings = settings();
        change(&mut settings);
        settings
    };
    let plain = std::env::temp_dir().join(format!("eciton-emulator-plain-{}", std::process::id()));
    std::fs::write(&plain, "").unwrap();
    for (settings, text) in [
        (wrong(&|settings| settings.functions[0].name = "a b".into()), "functions.name"),
        (wrong(&|settings| settings.functions[0].memory_mb = 64), "functions.memory_mb"),
        (wrong(&|settings| settings.functions[0].timeout = Duration::from_secs(901)), "functions.timeout"),
        (
            wrong(&|settings| settings.functions[0].bootstrap = "/nonexistent".into()),
            "build the worker first",
        ),
        (wrong(&|settings| settings.functions[0].bootstrap = plain.clone()), "not executable"),
        (wrong(&|settings| settings.functions[0].bootstrap = "/etc".into()), "not a file"),
        (wrong(&|settings| settings.functions.push(settings.functions[0].clone())), "twice"),
        (wrong(&|settings| settings.buckets = vec!["A".into()]), "buckets"),
        (wrong(&|settings| settings.concurrency = 0), "concurrency"),
        (wrong(&|settings| settings.faults.double = 1.5), "faults.double"),
        (wrong(&|settings| settings.faults.throttle = f64::NAN), "faults.throttle"),
        (wrong(&|settings| settings.bits_per_second = Some(0)), "bits_per_second"),
    ] {
        let error = Emulator::start(settings).await.unwrap_err();
        assert!(error.to_string().contains(text), "{error}");
    }
    std::fs::remove_file(&plain).unwrap();
}

//! Measurements of the emulator's own cost, and of the bandwidth of an instance's network. For
//! figures run `cargo test --release -p eciton-emulator --test suite speed -- --nocapture
//! --test-threads 1`.

use crate::common::raw::{address, connect, read_reply, signed};
use crate::common::{invoke, lambda, s3_at, settings, start};
use eciton_emulator::Settings;
use std::io::Write;
use std::time::{Duration, Instant};

/// Converts times to sorted milliseconds.
fn milliseconds(mut times: Vec<Duration>) -> Vec<f64> {
    times.sort();
    times.into_iter().map(|time| time.as_secs_f64() * 1000.0).collect()
}

/// Uses a plain socket, so that the time of a client library is not included. The minimum of many
/// calls is the time of the work. The rest is other load of the machine.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_warm_invocation_costs_less_than_half_a_millisecond() {
    let emulator = start(settings()).await;
    let at = address(&emulator.endpoint());
    for bytes in [2, 100_000, 1_000_000] {
        let times = tokio::task::spawn_blocking(move || {
            let event = format!("\"{}\"", "x".repeat(bytes - 2));
            let request =
                signed("lambda", "POST", "/2015-03-31/functions/echo/invocations", &[], event.as_bytes());
            let mut stream = connect(at, Duration::from_secs(10));
            let mut times = Vec::new();
            for _ in 0..500 {
                let begun = Instant::now();
                stream.write_all(&request).unwrap();
                let reply = read_reply(&mut stream).unwrap().unwrap();
                times.push(begun.elapsed());
                assert_eq!((reply.status, reply.body.len()), (200, bytes));
            }
            milliseconds(times)
        });
        let times = times.await.unwrap();
        println!(
            "speed: warm echo of {bytes} bytes: least {:.3} ms, median {:.3} ms, 99 % {:.3} ms",
            times[0], times[250], times[495]
        );
        if bytes == 2 {
            assert!(times[0] < 0.5, "{} ms", times[0]);
        }
    }
    let client = lambda(&emulator);
    let mut times = Vec::new();
    for _ in 0..300 {
        let begun = Instant::now();
        invoke(&client, "{}").await;
        times.push(begun.elapsed());
    }
    let times = milliseconds(times);
    println!(
        "speed: the same of 2 bytes by aws-sdk-lambda: least {:.3} ms, median {:.3} ms",
        times[0], times[150]
    );
    assert_eq!(emulator.bill().cold_starts, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cold_start_of_the_echo() {
    let emulator = start(settings()).await;
    let client = lambda(&emulator);
    invoke(&client, "{}").await;
    let (mut times, mut inits) = (Vec::new(), Vec::new());
    for _ in 0..20 {
        emulator.kill(emulator.instances()[0].pid);
        crate::common::soon("it is gone", || emulator.instances().is_empty()).await;
        let begun = Instant::now();
        invoke(&client, "{}").await;
        times.push(begun.elapsed());
        inits.push(emulator.instances()[0].cold_start.unwrap());
    }
    let (times, inits) = (milliseconds(times), milliseconds(inits));
    println!(
        "speed: cold start of the echo: least {:.2} ms, median {:.2} ms; init least {:.2} ms, median {:.2} ms",
        times[0], times[10], inits[0], inits[10]
    );
    assert!(times[0] < 60.0, "{times:?}");
}

/// Measures events and answers over the Runtime API, at 200 Mbit/s.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instances_network_has_its_rate_for_payloads() {
    let emulator = start(Settings { bits_per_second: Some(200_000_000), ..settings() }).await;
    let client = lambda(&emulator);
    invoke(&client, "{}").await;
    let bytes = 2_500_000;
    let event = format!("\"{}\"", "x".repeat(bytes - 2));
    let mut least = f64::MAX;
    for _ in 0..10 {
        let before = emulator.bill();
        assert_eq!(invoke(&client, event.clone()).await.payload.len(), bytes);
        let ms = emulator.bill().minus(&before).duration_us as f64 / 1000.0;
        // 100 ms for the event, and the same for the answer.
        assert!(ms >= 194.0, "{ms} ms is faster than the network");
        least = least.min(ms);
    }
    println!("speed: 2.5 MB in and out at 200 Mbit/s: least {least:.1} ms of 200");
    assert!(least < 210.0, "{least} ms");
}

/// Measures the S3 listener of an instance at 200 Mbit/s, over four connections together and in
/// each direction. The main endpoint has no limit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instances_network_has_its_rate_for_objects() {
    let emulator = start(Settings { bits_per_second: Some(200_000_000), ..settings() }).await;
    let variables = invoke(&lambda(&emulator), r#"{"do":"environment"}"#).await.json();
    let slow = s3_at(variables["AWS_ENDPOINT_URL_S3"].as_str().unwrap(), "emulator-secret");
    let fast = s3_at(&emulator.s3_endpoint(), "emulator-secret");
    let content = vec![7_u8; 10_000_000];
    let begun = Instant::now();
    fast.put_object().bucket("eciton").key("k").body(content.clone().into()).send().await.unwrap();
    println!("speed: 10 MB to the front door in {:.0} ms", begun.elapsed().as_secs_f64() * 1000.0);
    let (mut least_down, mut least_up) = (f64::MAX, f64::MAX);
    for _ in 0..3 {
        let begun = Instant::now();
        let parts: Vec<_> = (0..4)
            .map(|part| {
                let slow = slow.clone();
                tokio::spawn(async move {
                    let range = format!("bytes={}-{}", part * 2_500_000, (part + 1) * 2_500_000 - 1);
                    slow.get_object()
                        .bucket("eciton")
                        .key("k")
                        .range(range)
                        .send()
                        .await
                        .unwrap()
                        .body
                        .collect()
                        .await
                        .unwrap()
                        .to_vec()
                        .len()
                })
            })
            .collect();
        for part in parts {
            assert_eq!(part.await.unwrap(), 2_500_000);
        }
        let ms = begun.elapsed().as_secs_f64() * 1000.0;
        assert!(ms >= 388.0, "{ms} ms is faster than the network");
        least_down = least_down.min(ms);
        let begun = Instant::now();
        slow.put_object().bucket("eciton").key("up").body(content.clone().into()).send().await.unwrap();
        let ms = begun.elapsed().as_secs_f64() * 1000.0;
        assert!(ms >= 388.0, "{ms} ms is faster than the network");
        least_up = least_up.min(ms);
    }
    println!(
        "speed: 10 MB at 200 Mbit/s: down by four range reads {least_down:.0} ms of 400, up {least_up:.0} ms of 400"
    );
    // A busy machine is slower than the network, but not by a factor of this size.
    assert!(least_down < 600.0 && least_up < 600.0, "{least_down}, {least_up} ms");
}

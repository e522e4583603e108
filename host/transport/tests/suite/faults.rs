//! Tests of the client against a faulty service.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::script::{Act, Script, answer, error};
use crate::common::{content, key};
use bytes::Bytes;
use eciton_transport::{Condition, Error, S3Settings, S3Store, Store, Stored};

/// Returns settings with time limits that are short enough for a test.
fn settings(script: &Script) -> S3Settings {
    let mut settings = crate::common::settings(&script.endpoint);
    settings.max_attempts = 3;
    settings.connect_timeout = Duration::from_millis(500);
    settings.attempt_timeout = Duration::from_millis(600);
    settings.operation_timeout = Duration::from_secs(6);
    settings.idle_timeout = Duration::from_millis(400);
    settings.slowest_bytes_per_s = 1 << 20;
    settings
}

fn store(script: &Script) -> S3Store {
    S3Store::new(settings(script)).unwrap()
}

fn object(body: &[u8]) -> Vec<u8> {
    answer("200 OK", &[("etag", "\"e\"")], body)
}

/// Returns the requested range of an object, as a service does.
fn piece(object: &[u8], range: &str) -> Vec<u8> {
    let (first, last) = range.strip_prefix("bytes=").unwrap().split_once('-').unwrap();
    let (first, last): (usize, usize) = (first.parse().unwrap(), last.parse().unwrap());
    let last = last.min(object.len() - 1);
    let content_range = format!("bytes {first}-{last}/{}", object.len());
    answer(
        "206 Partial Content",
        &[("content-range", &content_range), ("etag", "\"e\"")],
        &object[first..=last],
    )
}

#[tokio::test]
async fn a_body_that_breaks_off_is_continued_where_it_broke() {
    let whole = content(1, 10_000);
    let sent = whole.clone();
    let script = Script::start(move |at, request| match at {
        0 => {
            let mut first = object(&sent);
            first.truncate(first.len() - 6000);
            vec![Act::Send(first), Act::Close]
        }
        // The connection ends in the middle, without an error.
        1 => {
            let mut second = piece(&sent, request.header("range").unwrap());
            second.truncate(second.len() - 1000);
            vec![Act::Send(second), Act::Pause(Duration::from_secs(60))]
        }
        _ => vec![Act::Send(piece(&sent, request.header("range").unwrap()))],
    })
    .await;
    let store = store(&script);
    assert_eq!(store.get(&key("a"), None).await.unwrap(), whole);
    let requests = script.requests();
    let ranges: Vec<_> = requests.iter().map(|request| request.header("range")).collect();
    assert_eq!(ranges, [None, Some("bytes=4000-9999"), Some("bytes=9000-9999")]);
    assert!(requests[1..].iter().all(|request| request.header("if-match") == Some("\"e\"")));
    let counts = store.counts();
    assert_eq!((counts.gets, counts.retries, counts.bytes_in), (3, 2, 10_000));
}

#[tokio::test]
async fn an_object_that_changed_meanwhile_is_not_mixed() {
    let script = Script::start(|at, _| match at {
        0 => {
            let mut first = object(&[1; 1000]);
            first.truncate(first.len() - 500);
            vec![Act::Send(first), Act::Close]
        }
        _ => vec![Act::Send(error("412 Precondition Failed", "PreconditionFailed"))],
    })
    .await;
    let changed = store(&script).get(&key("a"), None).await.unwrap_err();
    assert!(matches!(&changed, Error::Service { code, .. } if code == "PreconditionFailed"), "{changed:?}");
}

#[tokio::test]
async fn a_body_that_stops_each_time_is_a_timeout_after_the_allowed_tries() {
    let script = Script::start(|_, request| {
        let start: usize = request.header("range").map_or(0, |range| {
            range.strip_prefix("bytes=").unwrap().split_once('-').unwrap().0.parse().unwrap()
        });
        let mut head = match start {
            0 => object(&[7; 1000]),
            _ => piece(&[7; 1000], request.header("range").unwrap()),
        };
        head.truncate(head.len() - (1000 - start) + 1);
        vec![Act::Send(head), Act::Pause(Duration::from_secs(60))]
    })
    .await;
    let started = Instant::now();
    let stopped = store(&script).get(&key("a"), None).await.unwrap_err();
    assert!(matches!(stopped, Error::Timeout { .. }) && stopped.is_retryable(), "{stopped:?}");
    assert_eq!(script.requests().len(), 3);
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_slow_link_is_not_killed_but_an_endless_trickle_is() {
    // 30 pieces, one every 40 ms: 1.2 s in total, three times the idle limit.
    let slow = |pieces: usize, len: usize| {
        move |_: usize, _: &crate::common::script::Request| {
            let mut acts = vec![Act::Send(object(&vec![7; len])[..].to_vec())];
            let Act::Send(head) = &mut acts[0] else { panic!() };
            head.truncate(head.len() - len);
            for _ in 0..pieces {
                acts.push(Act::Pause(Duration::from_millis(40)));
                acts.push(Act::Send(vec![7; len / 30]));
            }
            acts
        }
    };
    let script = Script::start(slow(30, 3000)).await;
    let found = store(&script).get(&key("a"), None).await.unwrap();
    assert_eq!((found.len(), script.requests().len()), (3000, 1));

    let script = Script::start(slow(10_000, 30_000_000 / 1000)).await;
    let mut impatient = settings(&script);
    impatient.operation_timeout = Duration::from_millis(500);
    let started = Instant::now();
    let trickle = S3Store::new(impatient).unwrap().get(&key("a"), None).await.unwrap_err();
    assert!(matches!(trickle, Error::Timeout { .. }), "{trickle:?}");
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
}

#[tokio::test]
async fn throttling_is_tried_again_and_every_try_is_counted() {
    let busy = error("503 Slow Down", "SlowDown");
    let script = Script::answers(vec![busy.clone(), busy, object(b"there")]).await;
    let store = store(&script);
    let started = Instant::now();
    assert_eq!(store.get(&key("a"), None).await.unwrap(), "there");
    assert_eq!((store.counts().gets, store.counts().retries), (3, 2));
    // The adaptive mode of the SDK would wait for several seconds here.
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
}

#[tokio::test]
async fn tries_are_bounded_whatever_goes_wrong() {
    for (said, code) in [
        (error("503 Slow Down", "SlowDown"), "SlowDown"),
        (error("500 Internal Server Error", "InternalError"), "InternalError"),
        (answer("502 Bad Gateway", &[], b"<html>not XML of S3"), "Unknown"),
    ] {
        let script = Script::answers(vec![said]).await;
        let store = store(&script);
        let failed = store.get(&key("runs/a"), None).await.unwrap_err();
        let Error::Service { code: found, retryable, key, .. } = &failed else { panic!("{failed:?}") };
        assert!(found == code && *retryable && key == "runs/a", "{failed:?}");
        assert_eq!(script.requests().len(), 3, "{code}");
        assert_eq!(store.counts().gets, 3);
    }
    for (said, code) in [
        (error("403 Forbidden", "AccessDenied"), "AccessDenied"),
        (error("404 Not Found", "NoSuchBucket"), "NoSuchBucket"),
        (error("400 Bad Request", "InvalidArgument"), "InvalidArgument"),
    ] {
        let script = Script::answers(vec![said]).await;
        let failed = store(&script).get(&key("a"), None).await.unwrap_err();
        assert!(matches!(&failed, Error::Service { code: found, retryable: false, .. } if found == code));
        assert_eq!(failed.may_be_absent(), code == "AccessDenied");
        assert_eq!(script.requests().len(), 1, "{code} is not tried again");
    }
}

/// A function's role may not list the bucket, so S3 answers 403 for an absent object. The answer to
/// a HEAD request contains nothing else. If a trainer treated this as a failure, it could not run
/// any job on AWS.
#[tokio::test]
async fn a_head_that_is_forbidden_may_be_of_an_absent_object() {
    let script = Script::answers(vec![answer("403 Forbidden", &[], b"")]).await;
    let failed = store(&script).size(&key("runs/jobs/a")).await.unwrap_err();
    assert!(failed.may_be_absent() && !failed.is_not_found() && !failed.is_retryable(), "{failed:?}");
    assert_eq!(script.requests().len(), 1);
}

#[tokio::test]
async fn nobody_there_and_nobody_answering_end_in_time() {
    let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = closed.local_addr().unwrap();
    drop(closed);
    let silent = Script::start(|_, _| vec![Act::Pause(Duration::from_secs(60))]).await;
    let mut refused = settings(&silent);
    refused.endpoint = Some(format!("http://{address}"));
    let started = Instant::now();
    let failed = S3Store::new(refused).unwrap().get(&key("a"), None).await.unwrap_err();
    assert!(
        matches!(&failed, Error::Service { code, retryable: true, .. } if code == "Connection"),
        "{failed:?}"
    );
    assert!(failed.to_string().contains("Connection refused"), "{failed}");
    let failed = store(&silent).put(&key("a"), Bytes::new(), Condition::Always).await.unwrap_err();
    assert!(matches!(failed, Error::Timeout { .. }), "{failed:?}");
    assert_eq!(silent.requests().len(), 3);
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
}

#[tokio::test]
async fn answers_to_other_questions_are_refused() {
    let asked = 100..200_u64;
    let body = [7; 100];
    for (status, range, len) in [
        ("200 OK", None, 100),
        ("206 Partial Content", Some("bytes 0-99/1000"), 100),
        ("206 Partial Content", Some("bytes 100-199/1000"), 99),
        ("206 Partial Content", Some("bytes 100-150/1000"), 51),
        ("206 Partial Content", Some("bytes 100-299/1000"), 100),
        ("206 Partial Content", Some("bytes 199-100/1000"), 100),
        ("206 Partial Content", Some("bytes 100-199/*"), 100),
        ("206 Partial Content", Some("bytes 100-199/0"), 100),
        ("206 Partial Content", Some("18446744073709551616"), 100),
    ] {
        let headers: Vec<_> = range.map(|range| ("content-range", range)).into_iter().collect();
        let script = Script::answers(vec![answer(status, &headers, &body[..len])]).await;
        let refused = store(&script).get(&key("a"), Some(asked.clone())).await.unwrap_err();
        assert!(
            matches!(&refused, Error::Service { code, retryable: false, .. } if code == "OtherRange"),
            "{range:?}: {refused:?}"
        );
    }
    let huge = b"HTTP/1.1 200 OK\r\ncontent-length: 9223372036854775807\r\n\r\nabc".to_vec();
    let script = Script::answers(vec![huge]).await;
    let refused = store(&script).get(&key("a"), None).await.unwrap_err();
    assert!(matches!(refused, Error::TooLarge { .. }), "{refused:?}");
}

#[tokio::test]
async fn a_lost_race_is_an_object_that_exists_and_a_conflict_is_tried_again() {
    let script = Script::answers(vec![error("412 Precondition Failed", "PreconditionFailed")]).await;
    let put = |script: &Script, condition| {
        let store = store(script);
        async move { store.put(&key("a"), Bytes::from_static(b"1"), condition).await }
    };
    assert_eq!(put(&script, Condition::IfAbsent).await.unwrap(), Stored::Exists);
    assert_eq!(script.requests()[0].header("if-none-match"), Some("*"));
    assert!(put(&script, Condition::Always).await.is_err(), "nobody had asked for a condition");
    assert_eq!(script.requests()[1].header("if-none-match"), None);

    let conflict = error("409 Conflict", "ConditionalRequestConflict");
    let script = Script::answers(vec![conflict.clone(), answer("200 OK", &[], b"")]).await;
    assert_eq!(put(&script, Condition::IfAbsent).await.unwrap(), Stored::Written);
    let script = Script::answers(vec![conflict]).await;
    assert!(put(&script, Condition::IfAbsent).await.unwrap_err().is_retryable());
    assert_eq!(script.requests().len(), 5, "starts are bounded");
}

#[tokio::test]
async fn bodies_go_as_they_are() {
    let script = Script::answers(vec![answer("200 OK", &[], b"")]).await;
    let bytes = content(3, 100_000);
    store(&script).put(&key("a/b"), bytes.clone(), Condition::Always).await.unwrap();
    let request = &script.requests()[0];
    assert_eq!(request.line.split('?').next(), Some("PUT /eciton-test/a/b"));
    assert_eq!(request.body, bytes, "no chunks, no trailer");
    assert_eq!(request.header("content-encoding"), None);
    assert_eq!(request.header("x-amz-content-sha256"), Some("UNSIGNED-PAYLOAD"));
    assert!(request.header("x-amz-trailer").is_none() && request.header("x-amz-checksum-crc32").is_none());
    assert!(request.header("authorization").unwrap().starts_with("AWS4-HMAC-SHA256 "));
}

/// Returns a service for multipart uploads, with the given answers to the completion.
async fn uploads(complete: Vec<Vec<u8>>) -> Script {
    let completions = std::sync::atomic::AtomicUsize::new(0);
    Script::start(move |_, request| {
        let said = if request.line.starts_with("POST") && request.line.contains("?uploads") {
            let body =
                b"<InitiateMultipartUploadResult><UploadId>u1</UploadId></InitiateMultipartUploadResult>";
            answer("200 OK", &[], body)
        } else if request.line.starts_with("POST") {
            let at = completions.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            complete[at.min(complete.len() - 1)].clone()
        } else if request.line.starts_with("DELETE") {
            answer("204 No Content", &[], b"")
        } else {
            answer("200 OK", &[("etag", "\"p\"")], b"")
        };
        vec![Act::Send(said)]
    })
    .await
}

fn abandoned(script: &Script) -> usize {
    script.requests().iter().filter(|request| request.line.starts_with("DELETE")).count()
}

const DONE: &[u8] = b"<CompleteMultipartUploadResult><ETag>e</ETag></CompleteMultipartUploadResult>";

#[tokio::test]
async fn large_writes_ask_at_their_end_and_leave_nothing_behind() {
    let bytes = content(4, (10 << 20) + 5);
    let put = |script: &Script, condition| {
        let (store, bytes) = (store(script), bytes.clone());
        async move { store.put(&key("a"), bytes, condition).await }
    };
    let script = uploads(vec![answer("200 OK", &[], DONE)]).await;
    assert_eq!(put(&script, Condition::IfAbsent).await.unwrap(), Stored::Written);
    let requests = script.requests();
    assert_eq!((requests.len(), abandoned(&script)), (5, 0));
    let mut parts: Vec<_> = requests.iter().filter(|request| request.line.starts_with("PUT")).collect();
    parts.sort_by_key(|request| request.line.clone());
    assert_eq!(parts.iter().map(|part| part.body.len()).collect::<Vec<_>>(), [5 << 20, 5 << 20, 5]);
    assert!(bytes == parts.iter().flat_map(|part| part.body.clone()).collect::<Vec<_>>());
    let last = requests.last().unwrap();
    assert_eq!(last.header("if-none-match"), Some("*"));
    let order: Vec<_> = std::str::from_utf8(&last.body).unwrap().match_indices("<PartNumber>").collect();
    assert_eq!(order.len(), 3);

    let script = uploads(vec![error("412 Precondition Failed", "PreconditionFailed")]).await;
    assert_eq!(put(&script, Condition::IfAbsent).await.unwrap(), Stored::Exists);
    assert_eq!(abandoned(&script), 1);

    // The answer to the completion may be an error with HTTP status 200.
    let script = uploads(vec![error("200 OK", "InternalError"), answer("200 OK", &[], DONE)]).await;
    assert_eq!(put(&script, Condition::Always).await.unwrap(), Stored::Written);
    assert_eq!(abandoned(&script), 0);

    // The upload no longer exists: the first completion succeeded, or another client removed it.
    // The write starts again.
    let script = uploads(vec![error("404 Not Found", "NoSuchUpload"), answer("200 OK", &[], DONE)]).await;
    assert_eq!(put(&script, Condition::IfAbsent).await.unwrap(), Stored::Written);
    assert_eq!(script.requests().iter().filter(|request| request.line.contains("?uploads")).count(), 2);

    let script = uploads(vec![error("403 Forbidden", "AccessDenied")]).await;
    assert!(put(&script, Condition::Always).await.is_err());
    assert_eq!(abandoned(&script), 1);
}

#[tokio::test]
async fn a_large_write_that_is_dropped_is_abandoned() {
    let script = Script::start(|_, request| {
        let body = b"<InitiateMultipartUploadResult><UploadId>u1</UploadId></InitiateMultipartUploadResult>";
        match request.line.as_str() {
            line if line.starts_with("POST") => vec![Act::Send(answer("200 OK", &[], body))],
            line if line.starts_with("DELETE") => vec![Act::Send(answer("204 No Content", &[], b""))],
            _ => vec![Act::Pause(Duration::from_secs(60))],
        }
    })
    .await;
    let store = Arc::new(store(&script));
    let writing = tokio::spawn({
        let store = store.clone();
        async move { store.put(&key("a"), content(1, 6 << 20), Condition::Always).await }
    });
    let until = |what: fn(&Script) -> bool| {
        let script = &script;
        async move {
            let started = Instant::now();
            while !what(script) {
                assert!(started.elapsed() < Duration::from_secs(5));
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    };
    until(|script| script.requests().len() >= 2).await;
    writing.abort();
    until(|script| abandoned(script) == 1).await;
}

#[tokio::test]
async fn an_endless_listing_is_given_up() {
    let page = b"<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>again\
        </NextContinuationToken><Contents><Key>Not/Ours</Key><Size>1</Size></Contents></ListBucketResult>";
    let script = Script::answers(vec![answer("200 OK", &[], page)]).await;
    let mut patient = settings(&script);
    patient.operation_timeout = Duration::from_secs(60);
    let endless = S3Store::new(patient).unwrap().list("", 10).await.unwrap_err();
    assert!(matches!(&endless, Error::Service { code, .. } if code == "Endless"), "{endless:?}");
    assert_eq!(script.requests().len(), 1000);
}

/// Checks answers of random bytes, and valid ones with changed bytes. The client returns an error
/// or an answer in time, and never panics. `ECITON_FUZZ_SECONDS` sets the duration.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_from_the_service_ends_in_errors() {
    let seconds = std::env::var("ECITON_FUZZ_SECONDS").map_or(1, |text| text.parse().unwrap());
    let seed = crate::common::seed();
    eprintln!("ECITON_SEED={seed}");
    let good = [
        object(b"body"),
        answer("206 Partial Content", &[("content-range", "bytes 0-3/4")], b"body"),
        error("503 Slow Down", "SlowDown"),
        error("404 Not Found", "NoSuchKey"),
        answer(
            "200 OK",
            &[],
            b"<ListBucketResult><Contents><Key>a</Key><Size>1</Size></Contents></ListBucketResult>",
        ),
        answer("200 OK", &[], DONE),
    ];
    let script = Script::start(move |at, _| {
        let random = content(seed ^ at as u64, 64);
        let number = |at: usize| usize::from(random[at]) << 8 | usize::from(random[at + 1]);
        let mut said = good[number(0) % good.len()].clone();
        match number(2) % 4 {
            0 => said = content(seed + at as u64, number(4) % 300).to_vec(),
            1 => said.truncate(number(4) % said.len()),
            _ => {
                for change in 0..1 + number(4) % 4 {
                    let place = number(6 + 4 * change) % said.len();
                    said[place] = random[8 + 4 * change];
                }
            }
        }
        vec![Act::Send(said), Act::Close]
    })
    .await;
    let mut quick = settings(&script);
    quick.attempt_timeout = Duration::from_millis(50);
    quick.idle_timeout = Duration::from_millis(50);
    quick.operation_timeout = Duration::from_millis(300);
    quick.max_attempts = 2;
    let started = Instant::now();
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let quick = quick.clone();
        clients.spawn(async move {
            let mut rounds = 0;
            while started.elapsed() < Duration::from_secs(seconds) {
                ask_everything(quick.clone()).await;
                rounds += 1;
            }
            rounds
        });
    }
    let rounds: usize = clients.join_all().await.into_iter().sum();
    eprintln!("{rounds} rounds, {} requests", script.requests().len());
    assert!(rounds >= 16);
}

async fn ask_everything(settings: S3Settings) {
    // Each attempt needs a new store, because the retry budget of one is soon used up.
    let store = S3Store::new(settings).unwrap();
    let (a, b) = (key("a"), key("b"));
    let _ = store.get(&a, None).await;
    if let Ok(bytes) = store.get(&a, Some(0..4)).await {
        assert!(bytes.len() <= 4);
    }
    let _ = store.size(&a).await;
    if let Ok(found) = store.list("a", 5).await {
        assert!(found.len() <= 5 && found.iter().all(|(key, _)| key.as_str().starts_with('a')));
    }
    let _ = store.put(&a, Bytes::from_static(b"1"), Condition::IfAbsent).await;
    let _ = store.put(&a, content(1, 5 << 20), Condition::IfAbsent).await;
    let _ = store.delete(&[a, b]).await;
}

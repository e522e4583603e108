//! Workers whose answers are wrong in one way each: the run excludes them, with the reason, and has the
//! digest of a run without them.

use std::path::Path;
use std::process::Child;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use eciton_connect::{Message, Receiver, Sender, Token, dial};
use eciton_kernel::wire::{Answer, AnswerMeta, encode_failure};
use eciton_tensor::frame::{Decoded, Encoding, Frame, Writer};
use eciton_types::{TensorKey, Version};

use crate::common::{eciton, works};
use crate::liars::{hello, some_key, stand_between};
use crate::workers::{Cluster, DIGITS, ended, lost, summary, worker};

/// A fault of an answer.
#[derive(Debug, Clone, Copy)]
enum Fault {
    /// One column less in the first part.
    Shape,
    /// One part less.
    Count,
    /// A value that its checksum does not fit.
    Checksum,
    /// The request in place of the answer.
    Echo,
    /// The answer to the task before.
    Older,
    /// The answer to a task that does not exist.
    Unknown,
    /// The worker claims to lack all objects, whatever was sent.
    Missing,
    /// The worker claims to lack an object that no task names.
    Foreign,
    /// The worker claims that its kernel trapped.
    Trap,
    /// The worker claims, of each task, that another attempt may succeed.
    Passing,
    /// The kernel of each task has logged 50 lines.
    Log,
    /// Values of a parameter differ after an update.
    Digest,
}

const FAULTS: [(Fault, &str); 10] = [
    (Fault::Shape, "wrong answer"),
    (Fault::Count, "wrong answer"),
    (Fault::Checksum, "wrong answer"),
    (Fault::Echo, "wrong answer"),
    (Fault::Older, "wrong answer"),
    (Fault::Unknown, "wrong answer: the host has sent no task"),
    (Fault::Missing, "as missing after 3 transmissions"),
    (Fault::Foreign, "it reports weight 99 of update 0 as missing, but its task"),
    (Fault::Trap, "so another process repeats that task: kernel `linear` trapped in forward: a lie"),
    (Fault::Passing, "so another process repeats that task: a task: a lie"),
];

/// The number of the answer from which on a worker is faulty.
const FIRST: u64 = 5;

/// A frame with other parts: all but the last, or the first one with a column less.
fn changed(frame: &Bytes, fault: Fault) -> Bytes {
    let read = Frame::parse(frame).unwrap();
    let count = read.header().parts.len() as u32;
    let mut parts: Vec<_> = (0..count).map(|part| read.part(part).unwrap()).collect();
    if matches!(fault, Fault::Count) {
        parts.pop();
    }
    let mut writer = Writer::new(read.header().meta.to_vec());
    let narrow;
    for (at, part) in parts.iter().enumerate() {
        let Decoded::Matrix(matrix) = part else { panic!("an answer has matrices") };
        if at == 0 && matches!(fault, Fault::Shape) {
            let columns = matrix.columns() + 1;
            let values = vec![0.0; matrix.rows() * columns];
            let buffer = eciton_tensor::Buffer::from_rows(matrix.rows(), columns, &values).unwrap();
            narrow = buffer.read(0..matrix.rows()).unwrap().into();
            writer.matrix(&narrow, Encoding::F32).unwrap();
            break;
        }
        writer.matrix(matrix, Encoding::F32).unwrap();
    }
    writer.finish().unwrap().into()
}

/// Returns the answer of a task that failed, in place of its answer; `None` for the answer to a
/// request.
fn failed(frame: &Bytes, fault: Fault) -> Option<Bytes> {
    let key = Answer::parse(frame.to_vec()).ok()?.meta().key;
    let reason = "a lie".to_owned();
    let error = match fault {
        Fault::Trap => {
            eciton_kernel::Error::Trap { kernel: "linear".to_owned(), place: "forward".to_owned(), reason }
        }
        _ => eciton_kernel::Error::Host { place: "a task".to_owned(), reason },
    };
    Some(encode_failure(&AnswerMeta::new(key, &Err(error))).unwrap().into())
}

/// Returns the answer of a task, whose kernel has logged further lines; `None` for the answer to a
/// request.
fn logged(frame: &Bytes, answers: u64) -> Option<Bytes> {
    let mut meta = Answer::parse(frame.to_vec()).ok()?.meta().clone();
    meta.log.extend((0..50).map(|line| format!("info: line {line} of answer {answers}")));
    let read = Frame::parse(frame).unwrap();
    let mut writer = Writer::new(serde_json::to_vec(&meta).unwrap());
    for part in 0..read.header().parts.len() as u32 {
        let Decoded::Matrix(matrix) = read.part(part).unwrap() else { panic!("an answer has matrices") };
        writer.matrix(&matrix, Encoding::F32).unwrap();
    }
    Some(writer.finish().unwrap().into())
}

/// Returns the answer to an update with another digest; `None` for any other answer.
fn other_digest(frame: &Bytes) -> Option<Bytes> {
    let read = Frame::parse(frame).unwrap();
    let mut meta: serde_json::Value = serde_json::from_slice(&read.header().meta).ok()?;
    let digest = meta.get_mut("digests")?.get_mut(0)?;
    *digest = (digest.as_u64()? ^ 1).into();
    Some(Writer::new(serde_json::to_vec(&meta).unwrap()).finish().unwrap().into())
}

/// Messages between the run and the faulty worker.
#[derive(Default)]
struct Passed {
    answers: u64,
    /// The latest task or request: number, frame.
    asked: (u64, Bytes),
    /// The latest answer.
    answered: Bytes,
}

impl Passed {
    /// Returns a message in place of an answer.
    fn answer(&mut self, (number, frame, passed): (u64, Bytes, u64), fault: Fault) -> Message {
        self.answers += 1;
        let has_parts = Frame::parse(&frame).is_ok_and(|read| !read.header().parts.is_empty());
        let older = std::mem::replace(&mut self.answered, frame.clone());
        if self.answers < FIRST {
            return Message::Answer { number, frame, passed };
        }
        match fault {
            Fault::Shape | Fault::Count if has_parts => {
                Message::Answer { number, frame: changed(&frame, fault), passed }
            }
            Fault::Checksum if has_parts => {
                let mut bytes = frame.to_vec();
                let parts = Frame::parse(&frame).unwrap().bytes(0).unwrap().as_ptr() as usize;
                bytes[parts - frame.as_ptr() as usize] ^= 1;
                Message::Answer { number, frame: bytes.into(), passed }
            }
            Fault::Trap | Fault::Passing => {
                let frame = failed(&frame, fault).unwrap_or(frame);
                Message::Answer { number, frame, passed }
            }
            Fault::Digest => {
                let frame = other_digest(&frame).unwrap_or(frame);
                Message::Answer { number, frame, passed }
            }
            Fault::Log => {
                let frame = logged(&frame, self.answers).unwrap_or(frame);
                Message::Answer { number, frame, passed }
            }
            Fault::Echo => Message::Answer { number: self.asked.0, frame: self.asked.1.clone(), passed },
            Fault::Older => Message::Answer { number, frame: older, passed },
            Fault::Unknown => Message::Answer { number: u64::MAX, frame, passed },
            Fault::Foreign => Message::Missing { number, keys: vec![some_key(0)] },
            _ => Message::Answer { number, frame, passed },
        }
    }
}

fn is_of_third_generation(key: &TensorKey) -> bool {
    matches!(key, TensorKey::Weight { version: Version(3), .. })
}

async fn carry(mut from: Receiver, mut to: Sender, fault: Fault, passed: Arc<Mutex<Passed>>) {
    while let Ok((message, _)) = from.next().await {
        let message = {
            let mut passed = passed.lock().unwrap();
            match message {
                Message::Task { number, frame } => {
                    passed.asked = (number, frame.clone());
                    // A worker without its objects lacks them as often as it is asked.
                    Message::Task { number, frame }
                }
                Message::Instruction { number, frame } => {
                    passed.asked = (number, frame.clone());
                    Message::Instruction { number, frame }
                }
                Message::Object { key, bytes }
                    if matches!(fault, Fault::Missing) && is_of_third_generation(&key) =>
                {
                    Message::Object { key: some_key(0), bytes }
                }
                Message::Answer { number, frame, passed: values } => {
                    passed.answer((number, frame, values), fault)
                }
                other => other,
            }
        };
        if to.send(&message).await.is_err() {
            return;
        }
    }
    to.close().await;
}

/// Stands between the run and the worker that it starts.
async fn between(folder: &Path, address: &str, fault: Fault, started: std::sync::mpsc::Sender<Child>) {
    let between = stand_between(folder, address, started).await;
    let ((receiver, sender), (heard, told)) = (between.run, between.worker);
    let passed = Arc::<Mutex<Passed>>::default();
    tokio::join!(carry(receiver, told, fault, passed.clone()), carry(heard, sender, fault, passed));
}

const LANES: [&str; 4] = ["--epochs", "2", "--lanes", "2"];

#[test]
fn a_worker_with_a_wrong_answer_is_excluded_and_the_digest_is_the_same() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let place = tempfile::tempdir().unwrap();
    let alone = summary(&works(place.path(), &[&DIGITS[..], &LANES].concat()));
    let check = |fault: Fault, words: &str, owner: &str| {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().to_owned();
        let owner = format!("workers.owner={owner}");
        let line = [&LANES[..], &["--workers", "2", "--set", &owner]].concat();
        let (cluster, address) = Cluster::start(&folder, &line);
        let (started, child) = std::sync::mpsc::channel();
        let (folder_of, address_of) = (folder.clone(), address.clone());
        let proxy = runtime.spawn(async move { between(&folder_of, &address_of, fault, started).await });
        let honest = worker(&folder, &address, "worker-1.token", &[]);
        let (code, out, err) = cluster.end();
        let what = format!("{fault:?} {owner}");
        assert_eq!(code, Some(0), "{what}: {err}");
        let found = summary(&out);
        assert_eq!(found["seeds"], alone["seeds"], "{what}");
        assert_eq!(lost(&found), 1, "{what}: {err}");
        assert!(err.contains("worker 0 was removed from the run") && err.contains(words), "{what}: {err}");
        ended(child.recv().unwrap());
        assert_eq!(ended(honest).0, Some(0), "{what}");
        proxy.abort();
    };
    std::thread::scope(|scope| {
        for owner in ["host", "worker"] {
            let check = &check;
            scope.spawn(move || {
                for (fault, words) in FAULTS {
                    // Owners' workers get no weights from the host.
                    if owner == "host" || !matches!(fault, Fault::Missing | Fault::Foreign) {
                        check(fault, words, owner);
                    }
                }
            });
        }
    });
}

/// Trains with a kernel that traps in each task. Returns what the run prints on standard error.
fn trapped(workers: &str, settings: &[&str]) -> String {
    let place = tempfile::tempdir().unwrap();
    let kernel = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/kernels/prebuilt/trapping.wasm");
    let kernel = format!("linear={}", kernel.display());
    let line = ["--epochs", "2", "--workers", workers, "--kernel", &kernel];
    let (code, _, err) = eciton(place.path(), &[&DIGITS[..], &line, settings].concat());
    assert_eq!(code, Some(1), "{workers} {settings:?}: {err}");
    err
}

/// Owner and replica are compared after each update. The run goes back to the log's entry.
#[test]
fn a_replica_with_other_values_is_excluded() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let place = tempfile::tempdir().unwrap();
    let alone = summary(&works(place.path(), &[&DIGITS[..], &["--epochs", "4", "--lanes", "3"]].concat()));
    for replicas in ["workers.replicas=1", "workers.replicas=2"] {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().to_owned();
        let line = ["--epochs", "4", "--lanes", "3", "--workers", "3", "--set", "workers.owner=worker"];
        let (cluster, address) = Cluster::start(&folder, &[&line[..], &["--set", replicas]].concat());
        let (started, child) = std::sync::mpsc::channel();
        let (of, at) = (folder.clone(), address.clone());
        let proxy = runtime.spawn(async move { between(&of, &at, Fault::Digest, started).await });
        let honest = [1, 2].map(|at| worker(&folder, &address, &format!("worker-{at}.token"), &[]));
        let (code, out, err) = cluster.end();
        assert_eq!(code, Some(0), "{err}");
        let found = summary(&out);
        assert_eq!(found["seeds"], alone["seeds"], "{replicas}: {err}");
        assert!(err.contains("differ from those of") && lost(&found) >= 1, "{replicas}: {err}");
        if replicas.ends_with('2') {
            // Two of three agree.
            assert!(
                err.contains("worker 0 was removed from the run: the worker sent a wrong answer")
                    && lost(&found) == 1,
                "{err}"
            );
        }
        ended(child.recv().unwrap());
        for child in honest {
            assert_eq!(ended(child).0, Some(0), "{replicas}: {err}");
        }
        proxy.abort();
    }
}

#[test]
fn a_failure_that_is_reproduced_elsewhere_ends_the_run() {
    let two = ["--lanes", "2"];
    for settings in [&two[..], &[&two[..], &["--set", "workers.owner=worker"]].concat(), &[]] {
        let err = trapped("2", settings);
        let last = err.lines().last().unwrap();
        assert!(last.starts_with("error: ") && last.contains("kernel `linear` trapped in"), "{err}");
        // One worker was excluded; the other one, or the host, has reproduced the failure.
        let excluded = err.matches("it reports that").count();
        assert!((1..=2).contains(&excluded), "{settings:?}: {err}");
    }
    // Nobody else is there to compute the step.
    let err = trapped("1", &["--lanes", "1"]);
    assert!(
        !err.contains("was removed from the run") && err.contains("error: ") && err.contains("trapped in"),
        "{err}"
    );
}

/// Sends the run noise in the name of a worker, over connection after connection.
async fn pester(folder: &Path, address: &str) {
    let token = Token::read(&folder.join("tokens/worker-0.token")).unwrap();
    loop {
        let Ok(dialled) = dial(address, std::slice::from_ref(&token), hello(), Duration::ZERO, || {}).await
        else {
            tokio::time::sleep(Duration::from_millis(5)).await;
            continue;
        };
        let mut sender = dialled.sender;
        drop(sender.send(&Message::Bye { reason: "noise ".repeat(100), again: false }).await);
        sender.close().await;
    }
}

/// A worker that never answers is admitted, and warned of, a bounded number of times.
#[test]
fn failures_without_an_answer_close_an_index() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().to_owned();
    let line = ["--epochs", "60", "--lanes", "2"];
    let alone = summary(&works(&folder, &[&DIGITS[..], &line].concat()));
    let (mut cluster, address) = Cluster::start(&folder, &[&line[..], &["--workers", "2"]].concat());
    let honest = [0, 1].map(|at| worker(&folder, &address, &format!("worker-{at}.token"), &[]));
    cluster.wait_for_an_epoch();
    let [mut first, second] = honest;
    first.kill().unwrap();
    first.wait().unwrap();
    let (of, at) = (folder.clone(), address.clone());
    let noise = runtime.spawn(async move { pester(&of, &at).await });
    let (code, out, err) = cluster.end();
    noise.abort();
    assert_eq!(code, Some(0), "{err}");
    let found = summary(&out);
    assert_eq!(found["seeds"], alone["seeds"]);
    assert_eq!(lost(&found), 16, "{} bytes: {err}", err.len());
    assert!(err.len() < 20_000, "{}", err.len());
    assert_eq!(ended(second).0, Some(0));
}

/// Lines that a worker passes on in the name of a kernel are bounded as the kernel's own.
#[test]
fn a_kernel_prints_a_bounded_number_of_lines() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().to_owned();
    let alone = summary(&works(&folder, &[&DIGITS[..], &LANES].concat()));
    let (cluster, address) = Cluster::start(&folder, &[&LANES[..], &["--workers", "2"]].concat());
    let (started, child) = std::sync::mpsc::channel();
    let (of, at) = (folder.clone(), address.clone());
    let proxy = runtime.spawn(async move { between(&of, &at, Fault::Log, started).await });
    let honest = worker(&folder, &address, "worker-1.token", &[]);
    let (code, out, err) = cluster.end();
    assert_eq!(code, Some(0), "{err}");
    let found = summary(&out);
    assert_eq!((&found["seeds"], lost(&found)), (&alone["seeds"], 0), "{err}");
    let lines = err.lines().filter(|line| line.starts_with("kernel linear: ")).count();
    assert_eq!(lines, 1000, "{} bytes", err.len());
    let suppressed = err.lines().find(|line| line.contains("further lines of kernel linear are not shown"));
    println!("{} bytes; {suppressed:?}", err.len());
    let number = suppressed.unwrap().trim_start_matches("warning: ").split(' ').next().unwrap();
    assert!(number.parse::<u64>().unwrap() >= 250, "{suppressed:?}");
    assert_eq!([child.recv().unwrap(), honest].map(|worker| ended(worker).0), [Some(0); 2]);
    proxy.abort();
}

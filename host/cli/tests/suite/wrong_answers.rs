//! Workers whose answers are wrong in one way each: the run excludes them, with the reason, and has the
//! digest of a run without them.

use std::path::Path;
use std::process::Child;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use eciton_connect::{Certificate, Dialled, Joined, Listener, Message, Receiver, Sender, Token, dial};
use eciton_tensor::frame::{Decoded, Encoding, Frame, Writer};

use crate::common::works;
use crate::liars::hello;
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
}

const FAULTS: [(Fault, &str); 8] = [
    (Fault::Shape, "wrong answer"),
    (Fault::Count, "wrong answer"),
    (Fault::Checksum, "wrong answer"),
    (Fault::Echo, "wrong answer"),
    (Fault::Older, "wrong answer"),
    (Fault::Unknown, "wrong answer: task"),
    (Fault::Missing, "it still lacks"),
    (Fault::Foreign, "it lacks `nothing`, which its task does not name"),
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
            Fault::Echo => Message::Answer { number: self.asked.0, frame: self.asked.1.clone(), passed },
            Fault::Older => Message::Answer { number, frame: older, passed },
            Fault::Unknown => Message::Answer { number: u64::MAX, frame, passed },
            Fault::Foreign => Message::Missing { number, keys: vec!["nothing".to_owned()] },
            _ => Message::Answer { number, frame, passed },
        }
    }
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
                Message::Errand { number, frame } => {
                    passed.asked = (number, frame.clone());
                    Message::Errand { number, frame }
                }
                Message::Object { key, bytes }
                    if matches!(fault, Fault::Missing) && key.starts_with("weights/g3") =>
                {
                    Message::Object { key: format!("{key}-other"), bytes }
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
    let token = Token::read(&folder.join("tokens/worker-0.token")).unwrap();
    let dialled = dial(address, &token, hello(), Duration::ZERO).await;
    let Dialled { welcome, receiver, sender, .. } = dialled.unwrap();
    let certificate = Certificate::new().unwrap();
    let own = certificate.token(0).unwrap();
    own.write(&folder.join("tokens/between.token")).unwrap();
    let listener = Listener::bind("127.0.0.1:0", &certificate, vec![own], welcome).await;
    let mut listener = listener.unwrap();
    let at = listener.address.to_string();
    started.send(worker(folder, &at, "between.token", &[])).unwrap();
    let Joined { receiver: heard, sender: told, .. } = listener.next().await.unwrap();
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
        assert!(err.contains("the worker at place 0 is gone") && err.contains(words), "{what}: {err}");
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

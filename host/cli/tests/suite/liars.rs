//! Messages that are changed on their way between a run and a worker: both ends go on, or end in words, in time.
//!
//! Something with a token of each end stands between the two, and changes some of what they say: bytes, numbers,
//! keys, kinds. `ECITON_CAMPAIGN=N` tries N seeds, `ECITON_CAMPAIGN=18..19` those from 18 to 18.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use bytes::Bytes;
use eciton_connect::{
    Certificate, Dialled, Hello, Joined, Listener, Message, Receiver, Sender, Token, Welcome, dial,
};
use eciton_graph::random::SplitMix64;
use eciton_types::{IntervalId, Location, ParameterId, Round, SlotId, TensorKey, Version, Via};

use crate::common::works;
use crate::workers::{binary, summary, worker};

/// The time after which an end counts as stuck.
const PATIENCE: Duration = Duration::from_secs(60);

/// Changes some of the messages of one direction.
struct Spoiler {
    seed: u64,
    random: SplitMix64,
    /// Messages that pass first, and how many are changed then.
    first: u64,
    count: u64,
}

fn noise(random: &mut SplitMix64, most: u64) -> Bytes {
    (0..random.below(most)).map(|_| random.next_u64() as u8).collect::<Vec<u8>>().into()
}

impl Spoiler {
    /// `most`: messages that pass first, at most.
    fn new(seed: u64, most: u64) -> Self {
        let mut random = SplitMix64::new(seed);
        let (first, count) = (random.below(most), 1 + random.below(3));
        Self { seed, random, first, count }
    }

    /// Messages in place of one.
    fn change(&mut self, message: Message) -> Vec<Message> {
        if message == Message::Alive {
            return vec![message];
        }
        if self.first > 0 || self.count == 0 {
            self.first = self.first.saturating_sub(1);
            return vec![message];
        }
        self.count -= 1;
        let name = message.name();
        let said = match self.random.below(6) {
            0 => vec![message.clone(), message],
            1 => vec![self.other(), message],
            2 => vec![self.other()],
            _ => vec![self.changed(message)],
        };
        let names: Vec<String> = said.iter().map(Message::name).collect();
        println!("{}: in place of {name}: {}", self.seed, names.join(", "));
        said
    }

    fn bytes(&mut self, bytes: &Bytes) -> Bytes {
        let random = &mut self.random;
        let length = bytes.len() as u64;
        match random.below(4) {
            0 => noise(random, 300),
            1 => bytes.slice(..random.below(length.max(1)) as usize),
            _ => {
                let mut changed = bytes.to_vec();
                // The head of a frame, or anywhere.
                let within = if random.below(2) == 0 { length.min(600) } else { length };
                for _ in 0..1 + random.below(8) {
                    let at = random.below(within.max(1)) as usize;
                    changed.get_mut(at).into_iter().for_each(|byte| *byte = random.next_u64() as u8);
                }
                changed.into()
            }
        }
    }

    /// A message of its kind that says something else.
    fn changed(&mut self, message: Message) -> Message {
        match message {
            Message::Object { bytes, .. } if self.random.below(3) == 0 => {
                Message::Object { key: some_key(self.random.next_u64()), bytes }
            }
            Message::Object { key, bytes } => Message::Object { key, bytes: self.bytes(&bytes) },
            Message::Task { number, frame } => Message::Task { number, frame: self.bytes(&frame) },
            Message::Instruction { number, frame } => {
                Message::Instruction { number, frame: self.bytes(&frame) }
            }
            Message::Answer { number, frame, passed } => {
                Message::Answer { number, frame: self.bytes(&frame), passed }
            }
            Message::Missing { number, .. } => Message::Missing { number, keys: vec![some_key(0)] },
            Message::Peer { at, token, .. } => {
                let at = Location::worker(at.index() as u32 + 7);
                Message::Peer { at, address: "nowhere".to_owned(), token }
            }
            other => other,
        }
    }

    /// A message of another kind.
    fn other(&mut self) -> Message {
        let random = &mut self.random;
        let (number, frame) = (random.below(40), noise(random, 300));
        let text = String::from_utf8_lossy(&noise(random, 30)).into_owned();
        match random.below(12) {
            0 => Message::Drain,
            1 => Message::Bye { reason: text, again: false },
            2 => Message::Abandon,
            3 => Message::Forget(vec![some_key(number)]),
            4 => Message::Missing { number, keys: vec![some_key(number)] },
            5 => Message::Door { address: text, tokens: Vec::new() },
            6 => Message::Task { number, frame },
            7 => Message::Instruction { number, frame },
            8 => Message::Object { key: some_key(number), bytes: frame },
            9 => Message::Refused { reason: text, again: false },
            10 => Message::Answer { number: u64::MAX, frame, passed: u64::MAX },
            _ => Message::Hello(hello()),
        }
    }
}

/// Returns the key of a tensor that may or may not exist.
pub(crate) fn some_key(seed: u64) -> TensorKey {
    let (slot, round, interval) = (SlotId((seed % 5) as u16), Round(1), IntervalId(0));
    match seed % 3 {
        0 => TensorKey::Weight { parameter: ParameterId(99), version: Version(seed) },
        1 => TensorKey::Rows { pass: 0, slot, round, interval, via: Via::Host(0) },
        _ => TensorKey::Rows { pass: 0, slot, round, interval, via: Via::Peer },
    }
}

/// Connections to a run and to a worker, for something that stands between both.
pub(crate) struct Between {
    pub run: (Receiver, Sender),
    pub worker: (Receiver, Sender),
    welcome: Welcome,
    _listener: Listener,
}

/// Connects to a run as its worker 0, and starts a worker that connects to this process instead.
pub(crate) async fn stand_between(
    folder: &Path,
    address: &str,
    started: std::sync::mpsc::Sender<Child>,
) -> Between {
    let token = Token::read(&folder.join("tokens/worker-0.token")).unwrap();
    let dialled = dial(address, std::slice::from_ref(&token), hello(), Duration::ZERO, || {}).await;
    let Dialled { welcome, receiver, sender, .. } = dialled.unwrap();
    let certificate = Certificate::new().unwrap();
    let own = certificate.token(0).unwrap();
    own.write(&folder.join("tokens/between.token")).unwrap();
    let listener = Listener::bind("127.0.0.1:0", &certificate, (vec![own], 1), welcome.clone()).await;
    let mut listener = listener.unwrap();
    let at = listener.address.to_string();
    started.send(worker(folder, &at, "between.token", &[])).unwrap();
    let Joined { receiver: heard, sender: told, .. } = listener.next().await.unwrap();
    Between { run: (receiver, sender), worker: (heard, told), welcome, _listener: listener }
}

pub(crate) fn hello() -> Hello {
    let numeric_classes = vec![eciton_tensor::simd::numeric_class().to_owned()];
    Hello {
        version: 0,
        token: 0,
        has_others: false,
        proof: String::new(),
        numeric_classes,
        pid: 1,
        keeps_bytes: 1 << 30,
        memory_bytes: None,
    }
}

/// The messages that are changed, by seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// From the run to the worker.
    ToWorker,
    /// From the worker to the run.
    ToRun,
    /// From worker to worker, both ways.
    Peers,
}

impl Way {
    /// Workers send messages to each other if they own the weights.
    fn new(seed: u64, owner: &str) -> Self {
        match seed % 3 {
            0 => Self::ToWorker,
            1 if owner == "worker" => Self::Peers,
            _ => Self::ToRun,
        }
    }
}

/// Carries messages of one direction.
async fn carry(mut from: Receiver, mut to: Sender, mut spoiler: Option<Spoiler>) {
    while let Ok((message, _)) = from.next().await {
        if !pass(message, &mut to, &mut spoiler).await {
            return;
        }
    }
    to.close().await;
}

/// Sends a message, or others in its place. Returns whether the connection is alive.
async fn pass(message: Message, to: &mut Sender, spoiler: &mut Option<Spoiler>) -> bool {
    let said = match spoiler {
        Some(spoiler) => spoiler.change(message),
        None => vec![message],
    };
    for message in said {
        if to.send(&message).await.is_err() {
            return false;
        }
    }
    true
}

/// Carries messages as [`carry`], and leads connections between workers through this process.
async fn carry_and_lead(
    mut from: Receiver,
    mut to: Sender,
    mut spoiler: Option<Spoiler>,
    peers: Option<(u64, Welcome)>,
) {
    while let Ok((message, _)) = from.next().await {
        let message = match (&peers, message) {
            (Some(peers), Message::Door { address, tokens }) => {
                let (address, tokens) = stand_in(address, tokens, peers.clone()).await;
                Message::Door { address, tokens }
            }
            (Some(peers), Message::Peer { at, address, token }) => {
                let (address, tokens) = stand_in(address, vec![token], peers.clone()).await;
                Message::Peer { at, address, token: tokens[0].clone() }
            }
            (_, message) => message,
        };
        if !pass(message, &mut to, &mut spoiler).await {
            return;
        }
    }
    to.close().await;
}

/// Listens in place of a worker that other workers dial with `tokens`. Returns what they dial instead.
async fn stand_in(
    address: String,
    tokens: Vec<Token>,
    (seed, welcome): (u64, Welcome),
) -> (String, Vec<Token>) {
    let certificate = Certificate::new().unwrap();
    let own: Vec<Token> = tokens.iter().map(|token| certificate.token(token.number).unwrap()).collect();
    let places = (0..2).map(|place| certificate.token(place).unwrap());
    let listed: Vec<Token> = places
        .map(|token| own.iter().find(|own| own.number == token.number).cloned().unwrap_or(token))
        .collect();
    let places = (listed, 2);
    let mut listener = Listener::bind("127.0.0.1:0", &certificate, places, welcome).await.unwrap();
    let at = listener.address.to_string();
    tokio::spawn(async move {
        while let Some(Joined { seat, receiver, sender, .. }) = listener.next().await {
            let token = tokens.iter().find(|token| token.number == seat.token).unwrap();
            let Ok(dialled) =
                dial(&address, std::slice::from_ref(token), hello(), Duration::ZERO, || {}).await
            else {
                continue;
            };
            tokio::spawn(async move {
                let spoiler = |seed| Some(Spoiler::new(seed, 10));
                tokio::join!(
                    carry(receiver, dialled.sender, spoiler(seed)),
                    carry(dialled.receiver, sender, spoiler(seed + 1)),
                );
                drop(seat);
            });
        }
    });
    (at, own)
}

/// Stands between a run and the worker that it starts, to the end of both connections.
async fn between(
    folder: &Path,
    address: &str,
    (seed, way): (u64, Way),
    worker_at: std::sync::mpsc::Sender<Child>,
) {
    let Between { run: (receiver, sender), worker: (heard, told), welcome, _listener } =
        stand_between(folder, address, worker_at).await;
    let spoiler = |changed: Way| (way == changed).then(|| Spoiler::new(seed, 60));
    let peers = (way == Way::Peers).then_some((seed, Welcome { numeric_class: None, peers: 0, ..welcome }));
    tokio::join!(
        carry_and_lead(receiver, told, spoiler(Way::ToWorker), peers.clone()),
        carry_and_lead(heard, sender, spoiler(Way::ToRun), peers),
    );
}

/// Waits for an end; its code, and what it said.
fn end(mut child: Child, what: &str) -> (Option<i32>, String, String) {
    let read = |stream: Option<Box<dyn std::io::Read + Send>>| {
        std::thread::spawn(move || {
            let mut text = Vec::new();
            stream.into_iter().for_each(|mut stream| drop(stream.read_to_end(&mut text)));
            String::from_utf8_lossy(&text).into_owned()
        })
    };
    let out = read(child.stdout.take().map(|stream| Box::new(stream) as _));
    let err = read(child.stderr.take().map(|stream| Box::new(stream) as _));
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return (status.code(), out.join().unwrap(), err.join().unwrap());
        }
        if begun.elapsed() > PATIENCE {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{what} is stuck: {}", err.join().unwrap());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn whatever_is_said_both_ends_go_on_or_end_in_words() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let line = [
        "train", "digits", "--layers", "4", "--batch", "512", "--micro", "2", "--epochs", "1", "--json",
        "--no-out",
    ];
    let alone = summary(&works(dir.path(), &line));
    let campaign = std::env::var("ECITON_CAMPAIGN").unwrap_or_else(|_| "12".to_owned());
    let (from, to) = campaign.split_once("..").unwrap_or(("0", &campaign));
    let seeds: std::ops::Range<u64> = from.parse().unwrap()..to.parse().unwrap();
    let (mut same, mut other, mut refused) = (0, 0, 0);
    for seed in seeds {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path();
        let owner = ["host", "worker"][seed as usize / 2 % 2];
        let way = Way::new(seed, owner);
        let owner = format!("workers.owner={owner}");
        let settings = [
            "workers.listen=127.0.0.1:0",
            "workers.tokens=tokens",
            "workers.silence_ms=2000",
            "workers.answer_s=3",
            "workers.wait_s=3",
            &owner,
            ["workers.replicas=0", "workers.replicas=1"][usize::from(seed % 8 > 5)],
        ];
        let settings = settings.into_iter().flat_map(|setting| ["--set", setting]);
        let line: Vec<&str> =
            line.into_iter().chain(["--lanes", "2", "--workers", "2"]).chain(settings).collect();
        let mut run = binary(folder, &line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(run.stderr.take().unwrap());
        let mut told = String::new();
        while !told.contains("listens at ") {
            assert_ne!(lines.read_line(&mut told).unwrap(), 0, "{told}");
        }
        let address =
            told.split("listens at ").nth(1).unwrap().split([';', ' ', '\n']).next().unwrap().to_owned();
        let (at, spawned) = std::sync::mpsc::channel();
        let (folder_of, address_of) = (folder.to_owned(), address.clone());
        let proxy = runtime.spawn(async move { between(&folder_of, &address_of, (seed, way), at).await });
        let honest = worker(folder, &address, "worker-1.token", &[]);
        let rest = std::thread::spawn(move || {
            let mut rest = String::new();
            drop(lines.read_to_string(&mut rest));
            rest
        });
        let (code, out, _) = end(run, &format!("seed {seed}: the run"));
        let said = rest.join().unwrap();
        match code {
            Some(0) if summary(&out)["seeds"] == alone["seeds"] => same += 1,
            // Other values than were computed cannot be told from these.
            Some(0) => other += 1,
            Some(1) if said.contains("error: ") => {
                println!("seed {seed}: {}", said.split("error: ").nth(1).unwrap_or_default());
                refused += 1;
            }
            _ => panic!("seed {seed}: the run ended with {code:?}: {said}"),
        }
        assert!(!said.contains("panicked"), "seed {seed}: {said}");
        for (child, who) in [(spawned.recv().unwrap(), "worker 0"), (honest, "worker 1")] {
            let (code, out, err) = end(child, &format!("seed {seed}: {who}"));
            assert!(matches!(code, Some(0 | 1 | 69)), "seed {seed}: {who} ended with {code:?}: {out}{err}");
            assert!(!err.contains("panicked"), "seed {seed}: {who}: {err}");
        }
        proxy.abort();
    }
    println!("{same} runs with the same bits, {other} with others, {refused} ended in words");
    assert!(same > 0, "{same} {other} {refused}");
}

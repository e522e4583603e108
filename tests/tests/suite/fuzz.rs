//! Stored inputs, and changed ones, for every target of `eciton_tests::fuzz`: none may panic or hang.
//!
//! `ECITON_FUZZ_SECONDS` (2 for each target) is the time limit, and `ECITON_SEED` the random seed. A failure
//! prints the round and keeps the input, which belongs into `tests/fuzz/corpus/TARGET` once the defect is
//! fixed. `ECITON_FUZZ_STORE=FOLDER` writes changed inputs for a corpus into `FOLDER/TARGET`.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use eciton_tests::Numbers;
use eciton_tests::fuzz::{Target, target};

/// The longest that a target may take for an input of some kilobytes, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(10);
/// Number of accepted and of refused inputs that [`Store`] writes for a target.
const STORED: usize = 10;
/// Maximum length of an input that [`Store`] writes.
const MAX_STORED_BYTES: usize = 2048;
/// Bytes that parsers trip over.
const TOKENS: [&[u8]; 14] = [
    b"-1",
    b"0",
    b"4294967296",
    b"18446744073709551616",
    b"1e400",
    b"nan",
    b"\"",
    b"[[",
    b"{",
    b"\n",
    b"\0",
    b"\xff\xff\xff\xff",
    b"\xff\xff\xff\xff\xff\xff\xff\x7f",
    b"\xef\xbb\xbf",
];

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// One change of an input: a byte, a bit, a token, a piece that is cut, doubled or taken from another.
fn change(bytes: &mut Vec<u8>, other: &[u8], numbers: &mut Numbers) {
    let mut below = |most: usize| numbers.below(u32::try_from(most).unwrap().max(1)) as usize;
    let at = below(bytes.len() + 1);
    let end = (at + 1 + below(16)).min(bytes.len());
    match below(8) {
        0 if at < bytes.len() => bytes[at] = below(256) as u8,
        1 if at < bytes.len() => bytes[at] ^= 1 << below(8),
        2 => drop(bytes.drain(at.min(end)..end)),
        3 => bytes.truncate(at),
        4 | 5 => drop(bytes.splice(at..at, TOKENS[below(TOKENS.len())].iter().copied())),
        6 => {
            let piece = bytes[at.min(end)..end].repeat(1 + below(60));
            drop(bytes.splice(at..at, piece));
        }
        _ => {
            let from = below(other.len() + 1);
            let to = (from + below(40)).min(other.len());
            drop(bytes.splice(at..at, other[from..to].iter().copied()));
        }
    }
}

/// Returns the inputs that the repository stores for a target, in the order of their names.
fn stored(name: &str) -> Vec<Vec<u8>> {
    let folder = eciton_tests::root().join("tests/fuzz/corpus").join(name);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| std::fs::read(path).unwrap()).collect()
}

/// Writes changed inputs for a corpus, if `ECITON_FUZZ_STORE` names a folder: of each target the first
/// [`STORED`] that are accepted, and as many that are refused.
struct Store {
    folder: Option<PathBuf>,
    counts: [usize; 2],
}

impl Store {
    fn new(name: &str) -> Self {
        let folder = std::env::var_os("ECITON_FUZZ_STORE").map(|folder| Path::new(&folder).join(name));
        folder.iter().for_each(|folder| std::fs::create_dir_all(folder).unwrap());
        Self { folder, counts: [0; 2] }
    }

    fn add(&mut self, input: &[u8], accepted: bool) {
        let count = &mut self.counts[usize::from(accepted)];
        let Some(folder) = self.folder.as_ref().filter(|_| *count < STORED) else { return };
        if input.len() <= MAX_STORED_BYTES {
            let outcome = if accepted { "accepted" } else { "refused" };
            std::fs::write(folder.join(format!("{outcome}-{count:02}")), input).unwrap();
            *count += 1;
        }
    }
}

fn fuzz(name: &str) {
    let Target { run, seeds, .. } = target(name).unwrap();
    let (seconds, seed) = (number("ECITON_FUZZ_SECONDS", 2), number("ECITON_SEED", 1));
    println!("ECITON_SEED={seed}");
    let folder = tempfile::tempdir_in(if Path::new("/dev/shm").is_dir() { "/dev/shm" } else { "." }).unwrap();
    let seeds = seeds();
    assert!(seeds.len() > 1, "{name} has no seeds");
    for (at, seed) in seeds.iter().enumerate() {
        assert!(run(seed, folder.path()), "{name} refuses its seed {at}");
    }
    let stored = stored(name);
    assert!(!stored.is_empty(), "{name} has no stored inputs");
    for (at, input) in stored.iter().enumerate() {
        let started = Instant::now();
        let _ = run(input, folder.path());
        assert!(started.elapsed() < PATIENCE, "{name}, stored input {at}: {:?}", started.elapsed());
    }
    let mut store = Store::new(name);
    let inputs: Vec<&Vec<u8>> = seeds.iter().chain(&stored).collect();
    let (mut numbers, begun) = (Numbers(seed), Instant::now());
    let (mut rounds, mut accepted) = (0u64, 0u64);
    while begun.elapsed() < Duration::from_secs(seconds) {
        let mut pick = || inputs[numbers.below(inputs.len() as u32) as usize];
        let (mut input, other) = (pick().clone(), pick());
        for _ in 0..=numbers.below(4) * numbers.below(2) {
            change(&mut input, other, &mut numbers);
        }
        let started = Instant::now();
        match catch_unwind(AssertUnwindSafe(|| run(&input, folder.path()))) {
            Ok(taken) => {
                store.add(&input, taken);
                accepted += u64::from(taken);
            }
            Err(panic) => {
                let place = std::env::temp_dir().join(format!("eciton-fuzz-{name}-{seed}-{rounds}"));
                std::fs::write(&place, &input).unwrap();
                println!("{name}, round {rounds} of seed {seed}: kept at {}", place.display());
                resume_unwind(panic);
            }
        }
        assert!(started.elapsed() < PATIENCE, "{name}, round {rounds}: {:?}", started.elapsed());
        rounds += 1;
    }
    println!("{name}: {rounds} inputs, {accepted} of them accepted");
    assert!(accepted > 0 && accepted < rounds, "{name}: {accepted} of {rounds} accepted");
}

#[test]
fn readers() {
    fuzz("readers");
}

#[test]
fn frames() {
    fuzz("frames");
}

#[test]
fn recipes() {
    fuzz("recipes");
}

#[test]
fn models() {
    fuzz("models");
}

#[test]
fn messages() {
    fuzz("messages");
}

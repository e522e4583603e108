//! Hostile files and settings: whatever they hold, the program ends, soon, in little memory, with few
//! words and none that steer a terminal.
//!
//! Each input is given to a child process: 5 s, 1 GiB of addresses, 8 kB printed. The suite tries 250
//! files and 100 settings; `ECITON_CAMPAIGN=10000` tries so many of each, `ECITON_SEED` others.
#![cfg(target_os = "linux")]

use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::eciton;

const TIME: Duration = Duration::from_secs(20);
/// Of addresses, in KiB: a bound of the memory as well.
const MEMORY_KIB: u64 = 1 << 20;
const PRINTED: usize = 8 << 10;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, most: usize) -> usize {
        (self.next() % most.max(1) as u64) as usize
    }

    fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Runs `eciton` within the limits; what broke one, if anything did.
fn broken(folder: &Path, line: &[&str]) -> Option<String> {
    let mut child = Command::new("sh")
        .args(["-c", &format!("ulimit -v {MEMORY_KIB}; exec \"$@\""), "sh", env!("CARGO_BIN_EXE_eciton")])
        .args(line)
        .current_dir(folder)
        .env("ECITON_CACHE_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).join("cli-cache/kernels"))
        .stdin(Stdio::null())
        .stdout(std::fs::File::create(folder.join("../out.txt")).unwrap())
        .stderr(std::fs::File::create(folder.join("../err.txt")).unwrap())
        .spawn()
        .unwrap();
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if began.elapsed() > TIME {
            child.kill().unwrap();
            child.wait().unwrap();
            return Some(format!("no end in {TIME:?}"));
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    let read = |name: &str| std::fs::read(folder.join("..").join(name)).unwrap();
    let printed = [read("out.txt"), read("err.txt")].concat();
    if printed.len() > PRINTED {
        return Some(format!("{} bytes printed", printed.len()));
    }
    let text = match String::from_utf8(printed) {
        Ok(text) => text,
        Err(error) => return Some(format!("prints what is no UTF-8: {error}")),
    };
    let steers = |c: char| {
        (c.is_control() && c != '\n' && c != '\t')
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if text.contains(steers) {
        return Some(format!("prints what steers a terminal: {text:?}"));
    }
    let said = match status.code() {
        Some(0) => true,
        Some(1 | 2) => text.contains("error: "),
        _ => false,
    };
    let breaks = ["panicked", "memory allocation", "RUST_BACKTRACE"].iter().any(|word| text.contains(word));
    (!said || breaks).then(|| format!("{status}: {text:.500}"))
}

fn corpora() -> Vec<PathBuf> {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("../formats/tests/corpus");
    let mut found = Vec::new();
    for reader in std::fs::read_dir(all).unwrap() {
        for set in std::fs::read_dir(reader.unwrap().path()).unwrap() {
            found.push(set.unwrap().path());
        }
    }
    found.sort();
    found
}

fn files(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files(&path, into) } else { into.push(path) }
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let place = to.join(path.file_name().unwrap());
        if path.is_dir() { copy(&path, &place) } else { std::fs::copy(&path, &place).map(drop).unwrap() }
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

const WORDS: [&[u8]; 14] = [
    b"\x1b]0;owned\x07\x1b[2J",
    "\u{202e}\u{2066}\u{9b}2J".as_bytes(),
    b"18446744073709551615",
    b"99999999999999999999999999",
    b"-1",
    b"inf",
    b"nan",
    b"1e308",
    b"\"",
    b";",
    b"\r",
    b"\0",
    b"\xff\xfe",
    b"../../../etc/passwd",
];

/// Damages one file; what was done.
fn damage(path: &Path, random: &mut Random) -> String {
    let whole = std::fs::read(path).unwrap();
    let put = |bytes: &[u8]| std::fs::write(path, bytes).unwrap();
    let swap = |make: &dyn Fn()| {
        std::fs::remove_file(path).unwrap();
        make();
    };
    let lines = || String::from_utf8_lossy(&whole).into_owned();
    match random.below(16) {
        0 => swap(&|| assert!(Command::new("mkfifo").arg(path).status().unwrap().success())),
        1 => swap(&|| symlink("/dev/zero", path).unwrap()),
        2 => swap(&|| symlink("nowhere", path).unwrap()),
        3 => swap(&|| std::fs::create_dir(path).unwrap()),
        4 => put(b""),
        5 => put(&whole[..random.below(whole.len())]),
        6 | 7 => {
            let mut bytes = whole.clone();
            for _ in 0..=random.below(8) {
                let at = random.below(bytes.len());
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = random.next() as u8;
                }
            }
            put(&bytes);
        }
        8 | 9 => {
            let (mut bytes, word) = (whole.clone(), *random.of(&WORDS));
            let at = random.below(bytes.len() + 1);
            bytes.splice(at..at, word.iter().copied());
            put(&bytes);
        }
        10 => put(lines().replace('\n', "\r").as_bytes()),
        11 => put(lines().replace([',', ' ', '\t'], ";").as_bytes()),
        12 => put(&whole.repeat(1 + random.below(200))),
        13 => {
            // A line, or a record in quotes, that does not end.
            let mut bytes = whole.clone();
            bytes.extend_from_slice(if random.below(2) == 0 { b"\"" } else { b"1" });
            bytes.resize(bytes.len() + (1 << 24), if random.below(2) == 0 { b'1' } else { b'\n' });
            put(&bytes);
        }
        14 => put(&gzip(&whole.repeat(1 + (16 << 20) / whole.len().max(1)))),
        _ => {
            // A sparse file of eight gigabytes behind the first bytes.
            let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
            file.set_len(8 << 30).unwrap();
        }
    }
    let kind = std::fs::symlink_metadata(path).map(|found| (found.file_type(), found.len()));
    format!("{}: {kind:?}", path.display())
}

fn hostile_files(part: u64, parts: u64) {
    let (tries, seed) = (number("ECITON_CAMPAIGN", 250), number("ECITON_SEED", 23));
    println!("ECITON_SEED={seed} ECITON_CAMPAIGN={tries}");
    let corpora = corpora();
    let mut found = Vec::new();
    for attempt in (0..tries).filter(|attempt| attempt % parts == part) {
        let mut random = Random(seed ^ attempt.wrapping_mul(0x2545_f491_4f6c_dd1d));
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("set");
        let corpus = random.of(&corpora);
        copy(corpus, &folder);
        let mut all = Vec::new();
        files(&folder, &mut all);
        all.sort();
        let at = random.below(all.len());
        let done = damage(&all[at], &mut random);
        // Sets that are files, and folders as a whole.
        let single = all.len() == 1 && random.below(2) == 0;
        let path = if single { all[0].to_str().unwrap() } else { "." };
        if let Some(what) = broken(&folder, &["data", "stat", path]) {
            found.push(format!("attempt {attempt}, {}, {done}: {what}", corpus.display()));
        }
    }
    assert!(found.is_empty(), "{} of {tries}:\n{}", found.len(), found.join("\n"));
}

#[test]
fn files_of_all_formats_first_half() {
    hostile_files(0, 2);
}

#[test]
fn files_of_all_formats_second_half() {
    hostile_files(1, 2);
}

#[test]
fn settings() {
    let (tries, seed) = (number("ECITON_CAMPAIGN", 100), number("ECITON_SEED", 23));
    println!("ECITON_SEED={seed} ECITON_CAMPAIGN={tries}");
    let keys = [
        "run.epochs",
        "run.intervals",
        "run.threads",
        "run.seed",
        "optimiser.lr",
        "optimiser.kind",
        "optimiser.momentum",
        "model.hidden",
        "model.layers",
        "model.kind",
        "model.dropout",
        "model.heads",
        "data.source",
        "data.name",
        "data.task",
        "limits.task_ms",
        "limits.guest_memory_bytes",
        "kernels.linear",
        "executor.kind",
        "emulator.crash",
        "checkpoint.every",
        "nothing.here",
        "",
        "=",
        "run",
    ];
    let values = [
        "-1",
        "0",
        "1e308",
        "inf",
        "nan",
        "99999999999999999999",
        "\"\"",
        "\"x\"",
        "[1,2",
        "{}",
        "true",
        "\u{1b}[2J",
        "/dev/zero",
        "../../etc/passwd",
        "1",
        "0.5",
        "\"\u{202e}\"",
        "'''",
        "18446744073709551615",
        "1000000000",
    ];
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("here");
    std::fs::create_dir(&folder).unwrap();
    assert_eq!(eciton(&folder, &["plan"]).0, Some(0)); // The kernels are compiled now.
    let mut random = Random(seed);
    let mut found = Vec::new();
    for attempt in 0..tries {
        let mut value = (*random.of(&values)).to_owned();
        if random.below(10) == 0 {
            value = value.repeat(1 + random.below(3_000));
        }
        let set = format!("{}={value}", random.of(&keys));
        if let Some(what) =
            broken(&folder, &["data", "stat", "--name", &value, "cora"]).filter(|_| attempt % 20 == 0)
        {
            found.push(format!("attempt {attempt}, --name {value:.80}: {what}"));
        }
        // Planning holds a runtime's reserved addresses: time, words and the end are what counts.
        let (began, line) = (Instant::now(), ["plan", "--set", &set]);
        let (code, out, err) = eciton(&folder, &line);
        let long = began.elapsed() > TIME;
        let steers = |c: char| c.is_control() && c != '\n' && c != '\t';
        if long
            || !matches!(code, Some(0..=2))
            || out.len() + err.len() > PRINTED
            || err.contains(steers)
            || err.contains("panicked")
        {
            found.push(format!(
                "attempt {attempt}, --set {set:.80?}: {code:?}, {} bytes, {:?}: {err:.300}",
                out.len() + err.len(),
                began.elapsed()
            ));
        }
    }
    assert!(found.is_empty(), "{} of {tries}:\n{}", found.len(), found.join("\n"));
}

/// A component, a recipe, a cache and a run folder that are pipes do not hang (H1).
#[test]
fn a_pipe_hangs_nothing() {
    let home = tempfile::tempdir().unwrap();
    let here = home.path();
    let fifo = |name: &str| assert!(Command::new("mkfifo").arg(here.join(name)).status().unwrap().success());
    for name in ["g.txt", "x.npz", "x.mtx", "x.graph", "k.wasm", "r.toml", "p.json"] {
        fifo(name);
    }
    for name in ["store", "folder", "prepared", "run"] {
        std::fs::create_dir(here.join(name)).unwrap();
    }
    for name in [
        "store/store.json",
        "folder/edges.csv",
        "prepared/indptr.npy",
        "prepared/indices.npy",
        "run/run.json",
        "run/config.toml",
    ] {
        fifo(name);
    }
    for line in [
        &["data", "stat", "g.txt"][..],
        &["data", "stat", "x.npz"],
        &["data", "stat", "x.mtx"],
        &["data", "stat", "x.graph"],
        &["data", "stat", "store"],
        &["data", "stat", "folder"],
        &["data", "stat", "prepared"],
        &["train", "--no-out", "--kernel", "linear=k.wasm"],
        &["train", "--no-out", "--recipe", "./r.toml"],
        &["train", "--no-out", "g.txt"],
        &["kernel", "check", "k.wasm"],
        &["kernel", "inspect", "k.wasm"],
        &["eval", "run"],
        &["predict", "run"],
        &["resume", "run"],
        &["simulate", "--profile", "p.json"],
    ] {
        let began = Instant::now();
        let mut command = Command::new("timeout");
        command.arg("10").arg(env!("CARGO_BIN_EXE_eciton")).args(line).current_dir(here).stdin(Stdio::null());
        let output = command.output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(matches!(output.status.code(), Some(1 | 2)), "{line:?}: {:?} {err}", output.status);
        assert!(began.elapsed() < TIME && err.contains("error: "), "{line:?}: {err}");
    }
}

/// A link to a device was read until memory ended; a small archive took gigabytes (H3).
#[test]
fn a_budget_of_memory_holds() {
    let home = tempfile::tempdir().unwrap();
    let here = home.path();
    std::fs::write(here.join("g.txt"), "100000 200000\n".repeat(1 << 20)).unwrap();
    std::fs::create_dir(here.join("set")).unwrap();
    std::fs::write(here.join("set/edges.csv"), "100000,200000\n".repeat(1 << 20)).unwrap();
    let packed = gzip("100000 200000\n".repeat(1 << 20).as_bytes());
    std::fs::write(here.join("p.txt"), packed).unwrap();
    for path in ["set", "p.txt"] {
        let (code, _, err) = eciton(here, &["data", "stat", path, "--input-memory", "4MiB"]);
        assert_eq!(code, Some(1), "{err}");
        assert!(
            err.contains(
                "above the limit memory for reading of 4194304 bytes; raise the limit with --input-memory"
            ),
            "{err}"
        );
        let (code, _, err) = eciton(here, &["--input-memory", "100MiB", "data", "stat", path]);
        assert_eq!(code, Some(0), "{err}");
    }
}

/// Ids of a file set the terminal's title (M2).
#[test]
fn escape_sequences_reached_the_terminal() {
    let home = tempfile::tempdir().unwrap();
    let set = home.path().join("\u{1b}]0;owned\u{7}");
    std::fs::create_dir(&set).unwrap();
    std::fs::write(set.join("features.csv"), "id,x\na,1\nb,1\n").unwrap();
    std::fs::write(set.join("edges.csv"), "a,b\na,\u{1b}]0;owned\u{7}\u{1b}[2J\u{202e}\n").unwrap();
    let (code, out, err) = eciton(home.path(), &["data", "stat", set.to_str().unwrap()]);
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert!(err.contains(r"\u{1b}]0;owned\u{7}\u{1b}[2J\u{202e}"), "{err}");
    std::fs::write(set.join("edges.csv"), "a,b\nb,a\n").unwrap();
    let (code, out, _) = eciton(home.path(), &["data", "stat", set.to_str().unwrap()]);
    assert_eq!(code, Some(0));
    assert!(out.contains(r"\u{1b}]0;owned") && !out.contains('\u{1b}'), "{out}");
}

//! Every reader on damaged files: a typed error or a valid data set, never a panic, a hang or memory
//! that nothing in the file stands for.
//!
//! Files of `tests/corpus/READER/CASE/` are changed by a seeded generator: bytes, lines, numbers; also
//! inside gzip files and zip archives, which are packed again. One second a reader; for longer:
//!
//! ```text
//! ECITON_FUZZ_SECONDS=600 cargo test --release -p eciton-formats --test suite formats_fuzz -- --nocapture
//! ```
//!
//! `ECITON_FUZZ_SEED` is another seed. A failure prints seed and round and keeps the files.
use std::fs;
use std::io::{Cursor, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use eciton_formats::{metis, open, stream};
use eciton_graph::adjacency::{Graph, Options};
use eciton_graph::dataset::Dataset;
use eciton_graph::edge_rule::{EdgeRule, Zeros};
use eciton_graph::error::Error;
use eciton_graph::random::SplitMix64;
use eciton_graph::store::{self, DESCRIPTION};

/// Longest time that a reader may take for a file of some hundred bytes, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
/// Memory that the whole process may have used: packed files may unpack to 256 MiB each.
const MAX_PEAK_BYTES: u64 = 4 << 30;

type Files = Vec<(PathBuf, Vec<u8>)>;

/// A case of the corpus: its files by path within it.
struct Case {
    name: String,
    files: Files,
}

fn corpus(reader: &str) -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(reader);
    let mut cases: Vec<Case> = fs::read_dir(&folder)
        .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
        .map(|entry| {
            let entry = entry.unwrap();
            let mut files = Vec::new();
            collect(&entry.path(), &entry.path(), &mut files);
            files.sort();
            Case { name: entry.file_name().into_string().unwrap(), files }
        })
        .collect();
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    cases
}

fn collect(root: &Path, folder: &Path, files: &mut Files) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => collect(root, &path, files),
            false => files.push((path.strip_prefix(root).unwrap().to_owned(), fs::read(&path).unwrap())),
        }
    }
}

/// Texts that parsers trip over.
const TOKENS: [&str; 34] = [
    "-1",
    "0",
    "1",
    "2",
    "00",
    "4294967295",
    "4294967296",
    "4294967294",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "99999999999999999999999",
    "1e9",
    "1e400",
    "nan",
    "inf",
    "-inf",
    "0.5",
    "\"",
    ",",
    "\t",
    " ",
    "\r\n",
    "\n",
    "\n\n",
    "#",
    "%",
    "{",
    "[",
    "null",
    "\u{feff}",
    "\0",
    "111",
    "%%MatrixMarket",
];

fn mutate(bytes: &mut Vec<u8>, other: &[u8], random: &mut SplitMix64) {
    let below = |random: &mut SplitMix64, most: usize| random.below(most as u64) as usize;
    let at = below(random, bytes.len() + 1);
    let token = TOKENS[below(random, TOKENS.len())].as_bytes();
    match random.below(12) {
        0 if at < bytes.len() => bytes[at] = random.next_u64() as u8,
        1 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
        2 => {
            let end = (at + 1 + below(random, 8)).min(bytes.len());
            bytes.drain(at.min(end)..end);
        }
        3 | 4 => drop(bytes.splice(at..at, token.iter().copied())),
        5 => bytes.truncate(at),
        // A number becomes another one.
        6 | 7 => {
            let is_digit = |b: &u8| b.is_ascii_digit();
            let Some(from) = bytes.iter().skip(at).position(is_digit).map(|skipped| at + skipped) else {
                return;
            };
            let digits = bytes[from..].iter().take_while(|b| is_digit(b)).count();
            bytes.splice(from..from + digits, token.iter().copied());
        }
        // Lines are dropped, doubled, moved.
        8 | 9 => {
            let mut lines: Vec<Vec<u8>> =
                bytes.split_inclusive(|&b| b == b'\n').map(<[u8]>::to_vec).collect();
            if lines.is_empty() {
                return;
            }
            let (one, two) = (below(random, lines.len()), below(random, lines.len()));
            match random.below(3) {
                0 => drop(lines.remove(one)),
                1 => lines.insert(two, lines[one].clone()),
                _ => lines.swap(one, two),
            }
            *bytes = lines.concat();
        }
        10 => {
            let from = below(random, other.len() + 1);
            let end = (from + below(random, 40)).min(other.len());
            bytes.splice(at..at, other[from..end].iter().copied());
        }
        _ => {
            let end = (at + 1 + below(random, 16)).min(bytes.len());
            let piece = bytes[at.min(end)..end].repeat(1 + below(random, 200));
            bytes.splice(at..at, piece);
        }
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Changes a file, in what it packs more often than in its packing.
fn change(file: &[u8], other: &[u8], random: &mut SplitMix64) -> Vec<u8> {
    let mut bytes = file.to_vec();
    let inside = random.below(8) != 0;
    if inside && file.starts_with(&[0x1f, 0x8b]) {
        bytes.clear();
        flate2::read::MultiGzDecoder::new(file).read_to_end(&mut bytes).unwrap();
        return gzip(&change(&bytes, other, random));
    }
    if inside && file.starts_with(b"PK") {
        let mut archive = zip::ZipArchive::new(Cursor::new(file)).unwrap();
        let chosen = random.below(archive.len() as u64) as usize;
        let stored =
            zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
        let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
        for at in 0..archive.len() {
            let mut entry = archive.by_index(at).unwrap();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            if at == chosen {
                match random.below(10) {
                    0 => continue,
                    _ => bytes = change(&bytes, other, random),
                }
            }
            writer.start_file(entry.name().unwrap().into_owned(), stored).unwrap();
            writer.write_all(&bytes).unwrap();
        }
        return writer.finish().unwrap().into_inner();
    }
    // Mostly one change: more of them are mostly stopped at the first.
    for _ in 0..=random.below(4) * random.below(2) {
        mutate(&mut bytes, other, random);
    }
    bytes
}

fn peak_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? << 10)
}

/// Fuzzes one reader: `read` gets the folder of a case and says whether it could be read.
fn fuzz(reader: &str, read: impl Fn(&Path) -> Result<(), Error>) {
    fuzz_cases(reader, &corpus(reader), |_, _| (), read);
}

/// Fuzzes one reader on these cases; `repair` may mend what a change broke besides (checksums).
fn fuzz_cases(
    reader: &str,
    cases: &[Case],
    repair: impl Fn(&Path, &Path),
    read: impl Fn(&Path) -> Result<(), Error>,
) {
    let number = |name: &str, default: u64| match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is no whole number")),
        Err(_) => default,
    };
    let (seconds, seed) = (number("ECITON_FUZZ_SECONDS", 1), number("ECITON_FUZZ_SEED", 20_261_121));
    let mut random = SplitMix64::new(
        seed ^ reader.bytes().fold(0u64, |sum, b| sum.wrapping_mul(31).wrapping_add(b.into())),
    );
    // In memory where that can be had: a disk is what limits the rounds.
    let memory = Path::new("/dev/shm");
    let folder = match memory.is_dir().then(|| tempfile::tempdir_in(memory)) {
        Some(Ok(folder)) => folder,
        _ => tempfile::tempdir().unwrap(),
    };
    for case in cases {
        for (name, bytes) in &case.files {
            let path = folder.path().join(&case.name).join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
    }
    let start = Instant::now();
    let (mut rounds, mut good, mut slowest) = (0u64, 0u64, Duration::ZERO);
    while start.elapsed() < Duration::from_secs(seconds) {
        let case = &cases[random.below(cases.len() as u64) as usize];
        let (name, original) = &case.files[random.below(case.files.len() as u64) as usize];
        let other = &cases[random.below(cases.len() as u64) as usize].files;
        let other = &other[random.below(other.len() as u64) as usize].1;
        let here = folder.path().join(&case.name);
        fs::write(here.join(name), change(original, other, &mut random)).unwrap();
        if random.below(8) != 0 {
            repair(&here, name);
        }
        let began = Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(|| read(&here)));
        let took = began.elapsed();
        let place = format!("{reader}/{}/{} in round {rounds} of seed {seed}", case.name, name.display());
        match outcome {
            Ok(Ok(())) => good += 1,
            Ok(Err(error)) => assert!(!error.to_string().is_empty(), "{place}"),
            Err(panic) => {
                println!("{place}: kept at {}", folder.keep().display());
                resume_unwind(panic);
            }
        }
        slowest = slowest.max(took);
        if took > PATIENCE {
            panic!("{place}: {took:?}; kept at {}", folder.keep().display());
        }
        fs::write(here.join(name), original).unwrap();
        for (name, original) in case.files.iter().filter(|(name, _)| name.ends_with(DESCRIPTION)) {
            fs::write(here.join(name), original).unwrap();
        }
        rounds += 1;
    }
    let peak = peak_bytes().unwrap_or(0);
    println!(
        "{reader}: seed {seed}, {rounds} files in {seconds} s, {good} still read, slowest {:.1} ms, peak {} MB",
        slowest.as_secs_f64() * 1e3,
        peak >> 20
    );
    assert!(rounds > 0 && good > 0 && good < rounds, "{reader}: {good} of {rounds} read");
    assert!(peak < MAX_PEAK_BYTES, "{reader}: {peak} bytes");
}

fn valid(set: Dataset) {
    set.validate().unwrap();
    let vertices = set.vertices();
    assert!(set.graph.neighbours().iter().all(|&v| v < vertices));
}

fn folder(path: &Path) -> Result<(), Error> {
    open(path, None).map(valid)
}

/// A graph file alone: in memory, streamed and packed it is the same graph or the same refusal.
fn file(path: &Path, name: &str) -> Result<(), Error> {
    let found = [name.to_owned(), format!("{name}.gz")].map(|name| path.join(name));
    let path = found.iter().find(|path| path.is_file()).unwrap();
    let whole = open(path, None);
    // Unpacking is tried by itself, so that what is packed here is what is plain there.
    let bytes = fs::read(path).unwrap();
    let packed = bytes.starts_with(&[0x1f, 0x8b]);
    if !packed {
        let beside = path.with_file_name(format!("packed-{name}"));
        fs::write(&beside, gzip(&bytes)).unwrap();
        match (&whole, open(&beside, None)) {
            (Ok(whole), Ok(other)) => {
                assert_eq!(
                    (&whole.graph, &whole.ids, &whole.labels, &whole.edge_features),
                    (&other.graph, &other.ids, &other.labels, &other.edge_features)
                );
            }
            (Err(_), Err(_)) => {}
            (whole, other) => panic!("plain {:?}, packed {:?}", whole.as_ref().err(), other.err()),
        }
        fs::remove_file(beside).unwrap();
    }
    match (stream(path), &whole) {
        (Ok(Some(parts)), Ok(whole)) => {
            assert_eq!(parts.ids, whole.ids);
            let (mut edges, mut values) = (Vec::new(), Vec::new());
            for chunk in 0..parts.edges.chunks() {
                parts.edges.read_with_values(chunk, &mut edges, &mut values).unwrap();
            }
            let (vertices, columns) = (parts.edges.vertices(), parts.edges.columns());
            let zeros = if parts.edges.is_weight() { Zeros::NoEdges } else { Zeros::Kept };
            let rule = EdgeRule::new("edges", Options::default()).with_zeros(zeros);
            let (graph, placed) = match columns {
                0 => (rule.merged(&(vertices, &edges[..]), 1).unwrap().0, None),
                _ => {
                    let (graph, rows, _) = rule.valued(vertices, &edges, columns, &values, 1).unwrap();
                    (graph, Some(rows))
                }
            };
            assert_eq!((graph, placed), (whole.graph.clone(), whole.edge_features.clone()));
        }
        (Ok(None), _) | (Err(_), Err(_)) => {}
        // What lies beside may be at fault.
        (Ok(Some(parts)), Err(_)) => assert!(parts.attributes().is_err() || beside_fails(&parts)),
        (Err(error), Ok(_)) => panic!("only streaming says {error}"),
    }
    whole.map(valid)
}

/// Attributes that can be read but do not make a valid data set.
fn beside_fails(parts: &eciton_formats::Streamed) -> bool {
    let vertices = parts.edges.vertices();
    let graph = Graph::from_edges(vertices, std::iter::empty(), Options::default()).unwrap();
    let attributes = parts.attributes().unwrap();
    attributes.dataset("a".to_owned(), graph, None).is_err()
}

#[test]
fn matrix_market() {
    fuzz("matrix_market", |path| file(path, "a.mtx"));
}

#[test]
fn metis_graphs() {
    fuzz("metis", |path| file(path, "a.graph"));
}

#[test]
fn edge_lists() {
    fuzz("edge_list", |path| file(path, "a.txt"));
}

#[test]
fn partitions() {
    fuzz("partition", |path| {
        let parts = metis::partition(&path.join("a.part"), None)?;
        assert!(!parts.is_empty());
        Ok(())
    });
}

#[test]
fn ogb_folders() {
    fuzz("ogb", folder);
}

#[test]
fn bundles() {
    fuzz("bundle", folder);
}

#[test]
fn prepared_arrays() {
    fuzz("prepared", folder);
}

#[test]
fn musae() {
    fuzz("musae", folder);
}

#[test]
fn tu() {
    fuzz("tu", folder);
}

#[test]
fn plain_folders() {
    fuzz("folder", folder);
}

#[test]
fn planetoid() {
    fuzz("planetoid", folder);
}

/// Stores of the data sets of other corpora: with words and numbers as ids, dense and sparse.
#[test]
fn stores() {
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let made = tempfile::tempdir().unwrap();
    let cases: Vec<Case> = [
        "folder/words",
        "folder/several",
        "folder/weighted",
        "folder/graphs",
        "tu/plain",
        "edge_list/sparse/a.txt",
        "musae/tiny",
        "ogb/plain",
    ]
    .iter()
    .map(|source| {
        let name = source.replace('/', "-");
        let path = made.path().join(&name);
        store::write(&path, &open(&corpora.join(source), None).unwrap()).unwrap();
        let mut files = Vec::new();
        collect(&path, &path, &mut files);
        files.sort();
        Case { name, files }
    })
    .collect();
    fuzz_cases("store", &cases, repair_store, folder);
}

/// Gives a section the length and checksum that it has now.
fn repair_store(store: &Path, changed: &Path) {
    let (path, bytes) = (store.join(DESCRIPTION), fs::read(store.join(changed)).unwrap());
    let mut json: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap_or_default();
    let width = match changed.extension().and_then(|e| e.to_str()) {
        Some("u64") => 8,
        Some("u8") => 1,
        _ => 4,
    };
    let sections = json.get_mut("sections").and_then(|s| s.as_array_mut());
    for section in sections.into_iter().flatten() {
        if section["file"].as_str() == changed.to_str() {
            section["crc32"] = crc32fast::hash(&bytes).into();
            section["values"] = (bytes.len() as u64 / width).into();
            fs::write(&path, json.to_string()).unwrap();
            return;
        }
    }
}

//! What bytes of strangers are given to, one function a kind of input: none may panic or hang.
//!
//! The suite gives them the seeds and changed ones (`tests/tests/suite/fuzz.rs`); in `tests/fuzz`
//! libFuzzer looks for more. Readers of data sets of several files have a suite of their own,
//! `host/formats/tests/suite/formats_fuzz.rs`.

use std::path::{Path, PathBuf};

use eciton_connect::Message;
use eciton_program::Profile;
use eciton_recipe::{Cloud, Config, Sweep};
use eciton_tensor::View;
use eciton_tensor::frame::{Encoding, Frame, Writer};
use eciton_types::{IntervalId, Round, SlotId, TensorKey, Via};

/// A kind of input.
#[derive(Debug)]
pub struct Target {
    /// Its name, also of its folder below `tests/fuzz/corpus`.
    pub name: &'static str,
    /// Takes any bytes, and says whether they were accepted.
    pub run: fn(&[u8], &Path) -> bool,
    /// Inputs of the repository that it accepts.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All kinds.
pub const TARGETS: [Target; 5] = [
    Target { name: "readers", run: readers, seeds: reader_seeds },
    Target { name: "frames", run: frames, seeds: frame_seeds },
    Target { name: "recipes", run: recipes, seeds: recipe_seeds },
    Target { name: "models", run: models, seeds: model_seeds },
    Target { name: "messages", run: messages, seeds: message_seeds },
];

/// The kind of a name.
pub fn target(name: &str) -> Option<&'static Target> {
    static ALL: [Target; 5] = TARGETS;
    ALL.iter().find(|target| target.name == name)
}

/// Names by which a reader of one file is chosen.
const DATA: [&str; 5] = ["graph.mtx", "graph.metis", "edges.txt", "rows.csv", "arrays.npz"];

/// The first byte chooses the file's name, the others are the file.
fn readers(bytes: &[u8], folder: &Path) -> bool {
    let Some((which, file)) = bytes.split_first() else { return false };
    let path = folder.join(DATA[usize::from(*which) % DATA.len()]);
    std::fs::write(&path, file).is_ok_and(|()| eciton_formats::open(&path, None).is_ok())
}

fn reader_seeds() -> Vec<Vec<u8>> {
    let matrix = "%%MatrixMarket matrix coordinate real general\n3 3 3\n1 2 0.5\n2 3 1\n3 1 2\n";
    let texts =
        [matrix, "3 2\n2\n1 3\n2\n", "# a graph\n0 1\n1 2\n2 0\n", "x,y,label\n1,2,a\n3,4,b\n5,6,a\n"];
    let with = |(which, text): (u8, &&str)| [&[which], text.as_bytes()].concat();
    (0..).zip(&texts).map(with).collect()
}

/// Frames of tensors, and the answers and requests of kernels that are frames.
fn frames(bytes: &[u8], _: &Path) -> bool {
    let _ = eciton_kernel::wire::Answer::parse(bytes.to_vec());
    let Ok(frame) = Frame::parse(bytes) else { return false };
    let _ = eciton_kernel::wire::Request::parse(&frame.header().meta);
    // At most 2^32 parts.
    (0..frame.header().parts.len() as u32).all(|part| frame.part(part).is_ok())
}

fn frame_seeds() -> Vec<Vec<u8>> {
    let values = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    let frame = |encoding| {
        let mut writer = Writer::new(b"{}".to_vec());
        writer.view(View::new(&values, 3, 2), encoding).and_then(|_| writer.ids(vec![1, 2, 7]))?;
        writer.finish()
    };
    [Encoding::F32, Encoding::Bf16].into_iter().filter_map(|encoding| frame(encoding).ok()).collect()
}

/// Gives each text to the readers of recipes, sweeps, cloud files and profiles.
fn recipes(bytes: &[u8], _: &Path) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let config = Config::parse(text, "recipe").is_ok_and(|config| {
        // What is read can be written, and says the same.
        let written = config.to_toml().ok();
        let again = written.and_then(|text| Config::parse(&text, "again").ok());
        assert!(again.is_some_and(|again| again == config), "a recipe changes when it is written");
        config.check().is_ok()
    });
    let profile = serde_json::from_str::<Profile>(text).is_ok_and(|profile| profile.check().is_ok());
    config | profile | Sweep::parse(text).is_ok() | Cloud::parse(text).is_ok()
}

fn recipe_seeds() -> Vec<Vec<u8>> {
    files(&crate::root().join("docs/recipes"), "toml")
}

/// Files of a run folder, of which the first byte chooses the one that the others are.
const RUN: [&str; 5] = ["summary.json", "config.toml", "versions.json", "model.safetensors", "schema.json"];

fn stored_run() -> PathBuf {
    crate::root().join("tests/compatibility/runs/0.1.0/gcn")
}

fn models(bytes: &[u8], folder: &Path) -> bool {
    let Some((which, file)) = bytes.split_first() else { return false };
    for name in RUN {
        let _ = std::fs::copy(stored_run().join(name), folder.join(name));
    }
    let path = folder.join(RUN[usize::from(*which) % RUN.len()]);
    std::fs::write(&path, file).is_ok_and(|()| eciton_train::run_folder::Run::open(folder).is_ok())
}

fn model_seeds() -> Vec<Vec<u8>> {
    let seed = |(which, name): (u8, &&str)| {
        Some([&[which], &*std::fs::read(stored_run().join(name)).ok()?].concat())
    };
    (0..).zip(&RUN).filter_map(seed).collect()
}

/// Messages between a run and its workers, behind their length.
fn messages(bytes: &[u8], _: &Path) -> bool {
    Message::decode(bytes.to_vec().into()).is_ok()
}

fn message_seeds() -> Vec<Vec<u8>> {
    let frame = || frame_seeds().pop().unwrap_or_default().into();
    let (slot, round, interval) = (SlotId(1), Round(2), IntervalId(3));
    let key = TensorKey::Rows { pass: 4, slot, round, interval, via: Via::Host(5) };
    let messages = [
        Message::Drain,
        Message::Object { key, bytes: frame() },
        Message::Kernel { digest: "ab".to_owned(), bytes: frame() },
        Message::Forget(vec![key]),
        Message::Task { number: u64::MAX, frame: frame() },
        Message::Answer { number: 1, frame: frame(), passed: 9 },
        Message::Missing { number: 7, keys: vec![key] },
        Message::Alive,
        Message::Bye { reason: "done".to_owned(), again: false },
        Message::Instruction { number: 8, frame: frame() },
    ];
    let bytes = |message: &Message| {
        let (start, body) = message.encode().ok()?;
        Some([start.get(4..)?, &body].concat())
    };
    messages.iter().filter_map(bytes).collect()
}

/// The files of a folder and those below it that have an extension.
fn files(folder: &Path, extension: &str) -> Vec<Vec<u8>> {
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path()).collect();
    entries.sort();
    let read = |path: PathBuf| match path.is_dir() {
        true => files(&path, extension),
        false if path.extension().is_some_and(|e| e == extension) => {
            std::fs::read(path).into_iter().collect()
        }
        false => Vec::new(),
    };
    entries.into_iter().flat_map(read).collect()
}

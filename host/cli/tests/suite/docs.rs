//! Runs the commands of README.md and of the documents in docs/, so that none of them rots.
//!
//! * A ```` ```sh ```` block is run, line by line, in a folder that all blocks of one document share.
//!   Its lines start with `eciton` or `cargo run --release --`, are comments, or are blank.
//! * A block whose first line names a file (```` ```toml recipe.toml ````) writes that file first.
//! * Blocks of any other kind are not run.
//!
//! The folder holds the repository as `eciton/` and, where `../shared/data` is beside the repository,
//! that folder of published data sets as `downloads/`. A line
//! that needs what is not here is skipped with a reason, and the rest of its block too. Lines with
//! `kernel build` take minutes on a small machine: they are run where `ECITON_DOCS_BUILD` is set.
#![cfg(unix)]
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// The documents' name for a folder of published data sets.
const DOWNLOADS: &str = "downloads";

/// One fenced block: what follows the fence, its lines, and the line of the fence.
struct Block<'a> {
    info: &'a str,
    lines: Vec<&'a str>,
    at: usize,
}

fn blocks(text: &str) -> Vec<Block<'_>> {
    let mut found: Vec<Block<'_>> = Vec::new();
    let mut open = false;
    for (at, line) in (1..).zip(text.lines()) {
        match line.strip_prefix("```") {
            Some(info) if !open => found.push(Block { info, lines: Vec::new(), at }),
            None if open => found.last_mut().unwrap().lines.push(line),
            _ => {}
        }
        open ^= line.starts_with("```");
    }
    assert!(!open, "a block is not closed");
    found
}

/// The arguments of `eciton` in a line of a document, without quotes and comment.
fn arguments(line: &str) -> Option<Vec<String>> {
    let line = line.split(" # ").next().unwrap().trim();
    let rest = ["eciton ", "cargo run --release -- "].iter().find_map(|start| line.strip_prefix(start))?;
    let words = rest.split_whitespace().map(|word| word.replace(['\'', '"'], ""));
    Some(words.collect())
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// A place to run a document in: an empty folder with what stands beside it.
struct Place {
    whole: TempDir,
    folder: PathBuf,
}

impl Place {
    fn new() -> Self {
        let whole = tempfile::tempdir().unwrap();
        let folder = whole.path().join("here");
        std::fs::create_dir(&folder).unwrap();
        std::os::unix::fs::symlink(repository(), folder.join("eciton")).unwrap();
        let data = repository().join("../shared/data");
        if data.is_dir() {
            std::os::unix::fs::symlink(data, folder.join(DOWNLOADS)).unwrap();
        }
        Self { whole, folder }
    }

    /// Why a line cannot be run here.
    fn lacks(&self, arguments: &[String]) -> Option<String> {
        if arguments.starts_with(&["kernel".to_owned(), "build".to_owned()])
            && std::env::var_os("ECITON_DOCS_BUILD").is_none()
        {
            return Some("ECITON_DOCS_BUILD is not set".to_owned());
        }
        let data = arguments.iter().find(|a| a.starts_with(DOWNLOADS))?;
        (!self.folder.join(data).exists()).then(|| format!("there is no {data}"))
    }

    fn run(&self, arguments: &[String], place: &str) {
        let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cli-cache/kernels");
        let mut command = Command::new(env!("CARGO_BIN_EXE_eciton"));
        command.args(arguments).current_dir(&self.folder).stdin(Stdio::null()).env("ECITON_CACHE_DIR", cache);
        // The standard library of kernels is compiled once for all suites.
        command.env("ECITON_KERNEL_TARGET", Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernel-target"));
        // Documents fetch into a cache of their own.
        command.env("ECITON_DATA", self.whole.path().join("data")).env_remove("ECITON_MIRROR");
        let ran = command.output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
        assert!(ran.status.success(), "{place}: eciton {} failed\n{out}{err}", arguments.join(" "));
    }
}

/// Runs one document; the number of commands that were run.
fn check(document: &str) -> usize {
    let path = repository().join(document);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let place = Place::new();
    let mut count = 0;
    for block in blocks(&text) {
        let mut words = block.info.split_whitespace();
        let (kind, file) = (words.next(), words.next());
        if let Some(file) = file {
            let file = place.folder.join(file);
            assert!(file.starts_with(place.whole.path()) && !block.info.contains(".."), "{}", block.info);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, block.lines.join("\n") + "\n").unwrap();
        }
        if kind != Some("sh") {
            continue;
        }
        for (at, line) in (block.at + 1..).zip(&block.lines) {
            let shown = format!("{document}:{at}");
            if line.trim().is_empty() || line.trim_start().starts_with('#') {
                continue;
            }
            let Some(arguments) = arguments(line) else {
                panic!("{shown}: `{line}` is no command of eciton; put it into a block of kind text");
            };
            if let Some(reason) = place.lacks(&arguments) {
                println!("{shown}: skipped with the rest of its block: {reason}");
                break;
            }
            place.run(&arguments, &shown);
            count += 1;
        }
    }
    println!("{document}: {count} commands");
    count
}

#[test]
fn readme() {
    assert!(check("README.md") >= 8);
}

#[test]
fn data() {
    assert!(check("docs/how-to/prepare-data.md") >= 4);
}

#[test]
fn predicting() {
    assert!(check("docs/how-to/predict.md") >= 2);
}

#[test]
fn architecture() {
    check("docs/explanation/architecture.md");
}

#[test]
fn benchmarks() {
    check("docs/research/benchmarks.md");
}

#[test]
fn deep() {
    assert!(check("docs/how-to/deep-networks.md") >= 8);
}

#[test]
fn programs() {
    assert!(check("docs/explanation/networks-from-papers.md") >= 6);
}

#[test]
fn lines() {
    assert!(check("docs/explanation/lines-in-images.md") >= 5);
}

#[test]
fn receptive() {
    assert!(check("docs/explanation/image-strips.md") >= 3);
}

#[test]
fn spiking() {
    assert!(check("docs/explanation/spiking-networks.md") >= 3);
}

#[test]
fn binary() {
    assert!(check("docs/explanation/binary-networks.md") >= 2);
}

#[test]
fn pipelines() {
    assert!(check("docs/explanation/pipeline-schedules.md") >= 3);
    assert_eq!(check("docs/how-to/train-on-workers.md"), 6);
}

#[test]
fn deploy() {
    check("docs/how-to/deploy-to-aws.md");
}

#[test]
fn functions() {
    check("docs/how-to/run-on-functions.md");
}

#[test]
fn generate() {
    check("docs/how-to/generate-graphs.md");
}

#[test]
fn kernels() {
    check("docs/how-to/write-a-kernel.md");
}

#[test]
fn models() {
    check("docs/reference/models.md");
}

#[test]
fn pipeline() {
    check("docs/explanation/modes-and-staleness.md");
}

#[test]
fn simulation() {
    check("docs/explanation/simulation.md");
}

#[test]
fn sweeps() {
    assert!(check("docs/how-to/sweep-settings.md") >= 4);
}

#[test]
fn store() {
    check("docs/reference/store-format.md");
}

#[test]
fn testing() {
    check("docs/contributing/testing.md");
}

#[test]
fn training() {
    check("docs/how-to/train-and-resume.md");
}

#[test]
fn watching() {
    assert!(check("docs/how-to/monitor-runs.md") >= 11);
}

#[test]
fn batches() {
    check("docs/how-to/mini-batches.md");
}

#[test]
fn every_document_has_a_test() {
    let this = include_str!("docs.rs");
    let mut folders = vec![repository().join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "md") {
                let name = path.strip_prefix(repository()).unwrap().to_str().unwrap();
                assert!(this.contains(&format!("check(\"{name}\")")), "{name}");
            }
        }
    }
}

#[test]
fn recipes_train() {
    let place = Place::new();
    let run = |words: &[&str]| place.run(&words.iter().map(|&w| w.to_owned()).collect::<Vec<_>>(), words[1]);
    for set in std::fs::read_dir(repository().join("docs/recipes")).unwrap() {
        let set = set.unwrap();
        let name = set.file_name().into_string().unwrap();
        if name == "any" {
            let text = place.folder.join("text.txt");
            std::fs::write(&text, "What is learnt goes on and on. ".repeat(400)).unwrap();
            let data = ["data", "generate"];
            run(&[&data[..], &["linear", "branches", "--rows", "600", "--features", "2048"]].concat());
            run(&[&data[..], &["towers", "towers", "--rows", "600"]].concat());
            run(&[&data[..], &["block-model", "images", "--vertices", "300", "--features", "64"]].concat());
            run(&[&data[..], &["programs", "programs", "--programs", "400", "--each", "20"]].concat());
            run(&[&data[..], &["lines", "lines", "--images", "20"]].concat());
            for (set, recipe) in [
                ("lines", "lines"),
                ("programs/train", "ipa"),
                ("programs/train", "ipa-gru"),
                ("programs/train", "ipa-lines"),
                ("branches", "branches"),
                ("towers", "two-tower"),
                ("images", "cnn-graph"),
                ("text.txt", "char-lm"),
            ] {
                run(&["train", set, "--recipe", recipe, "--epochs", "1", "--no-out"]);
            }
            continue;
        }
        if !["cora", "digits"].contains(&&name[..]) {
            if !place.folder.join(DOWNLOADS).exists() {
                println!("{name}: skipped: there is no ../shared/data");
                continue;
            }
            run(&["data", "fetch", &name, "--from", DOWNLOADS]);
        }
        for recipe in std::fs::read_dir(set.path()).unwrap() {
            let file = recipe.unwrap().file_name().into_string().unwrap();
            let model = file.strip_suffix(".toml").unwrap();
            run(&["train", &name, "--recipe", model, "--epochs", "1", "--no-out"]);
        }
    }
}

#[test]
fn python_package() {
    assert!(check("docs/how-to/use-from-python.md") >= 1);
}

/// The lines of Python that need no package are those that CI runs on a run folder. Blocks with the package are run by
/// `tests/python/test_docs.py`.
#[test]
fn python() {
    let readme = std::fs::read_to_string(repository().join("README.md")).unwrap();
    let script = std::fs::read_to_string(repository().join("tests/python/read_run.py")).unwrap();
    let mut lines = 0;
    for block in blocks(&readme).iter().filter(|block| block.info == "python") {
        if block.lines.contains(&"import eciton") {
            continue;
        }
        for line in block.lines.iter().filter(|line| !line.trim().is_empty()) {
            let line = line.replace("\"runs/first/", "f\"{a.run}/");
            assert!(script.contains(line.trim()), "tests/python/read_run.py has no line `{line}`");
            lines += 1;
        }
    }
    assert!(lines >= 5);
}

#[test]
fn blocks_and_arguments_are_found() {
    let text = "a\n```sh\neciton data list # names\n```\n```toml x.toml\n[run]\n```\n";
    let found = blocks(text);
    assert_eq!((found.len(), found[0].at, found[1].info), (2, 2, "toml x.toml"));
    assert_eq!(arguments(found[0].lines[0]), Some(vec!["data".to_owned(), "list".to_owned()]));
    assert_eq!(arguments("cargo run --release -- train"), Some(vec!["train".to_owned()]));
    assert_eq!(arguments("cargo test"), None);
}

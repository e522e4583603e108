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

/// Runs one document, which has at least so many commands that run everywhere.
fn holds(document: &str, least: usize) {
    let count = check(document);
    assert!(count >= least, "{document}: {count} commands ran, at least {least} were expected");
}

/// Declares a test for each document, with its least number of commands.
macro_rules! documents {
    ($($test:ident: $document:literal, $least:literal;)+) => {
        $(
            #[test]
            fn $test() {
                holds($document, $least);
            }
        )+
        const DOCUMENTS: &[&str] = &[$($document),+];
    };
}

documents! {
    readme: "README.md", 9;
    index: "docs/index.md", 0;
    testing: "docs/contributing/testing.md", 2;
    architecture: "docs/explanation/architecture.md", 0;
    binary_networks: "docs/explanation/binary-networks.md", 3;
    image_strips: "docs/explanation/image-strips.md", 3;
    memory: "docs/explanation/memory.md", 2;
    modes_and_staleness: "docs/explanation/modes-and-staleness.md", 8;
    networks_from_papers: "docs/explanation/networks-from-papers.md", 14;
    pipeline_schedules: "docs/explanation/pipeline-schedules.md", 17;
    samplers: "docs/explanation/samplers.md", 2;
    simulation: "docs/explanation/simulation.md", 8;
    when_functions_pay: "docs/explanation/when-functions-pay.md", 1;
    deep_networks: "docs/how-to/deep-networks.md", 9;
    deploy_to_aws: "docs/how-to/deploy-to-aws.md", 2;
    generate_graphs: "docs/how-to/generate-graphs.md", 12;
    install: "docs/how-to/install.md", 3;
    mini_batches: "docs/how-to/mini-batches.md", 8;
    monitor_runs: "docs/how-to/monitor-runs.md", 12;
    predict: "docs/how-to/predict.md", 2;
    prepare_data: "docs/how-to/prepare-data.md", 26;
    prove_cost_at_aws: "docs/how-to/prove-cost-at-aws.md", 0;
    run_on_functions: "docs/how-to/run-on-functions.md", 7;
    sweep_settings: "docs/how-to/sweep-settings.md", 12;
    train_and_resume: "docs/how-to/train-and-resume.md", 10;
    train_on_several_machines: "docs/how-to/train-on-several-machines.md", 3;
    train_on_workers: "docs/how-to/train-on-workers.md", 6;
    use_from_python: "docs/how-to/use-from-python.md", 1;
    write_a_kernel: "docs/how-to/write-a-kernel.md", 5;
    write_a_recipe: "docs/how-to/write-a-recipe.md", 19;
    contract: "docs/reference/contract.md", 0;
    data_formats: "docs/reference/data-formats.md", 8;
    models: "docs/reference/models.md", 21;
    run_folder: "docs/reference/run-folder.md", 0;
    store_format: "docs/reference/store-format.md", 4;
    accuracy_against_papers: "docs/research/accuracy-against-papers.md", 0;
    benchmarks: "docs/research/benchmarks.md", 0;
    deep_network_speed: "docs/research/deep-network-speed.md", 0;
    kernel_costs: "docs/research/kernel-costs.md", 0;
    mini_batch_costs: "docs/research/mini-batch-costs.md", 0;
    model_accuracy: "docs/research/model-accuracy.md", 0;
    pipeline_speed: "docs/research/pipeline-speed.md", 0;
    published_systems: "docs/research/published-systems.md", 0;
    staleness_accuracy: "docs/research/staleness-accuracy.md", 0;
    sweeps_and_functions: "docs/research/sweeps-and-functions.md", 0;
    tutorials_index: "docs/tutorials/index.md", 0;
    choose_a_model: "docs/tutorials/choose-a-model.md", 14;
    first_layer: "docs/tutorials/first-layer.md", 2;
    from_dgl: "docs/tutorials/from-dgl.md", 2;
    from_pyg: "docs/tutorials/from-pyg.md", 4;
    functions_and_cost: "docs/tutorials/functions-and-cost.md", 10;
    several_workers: "docs/tutorials/several-workers.md", 9;
    table_and_edges: "docs/tutorials/table-and-edges.md", 6;
}

/// All documents below a folder, by their paths in the repository.
fn documents_in(folder: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![repository().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "md") {
                found.push(path.strip_prefix(repository()).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    found.sort();
    found
}

#[test]
fn every_document_has_a_test() {
    for document in documents_in("docs") {
        assert!(DOCUMENTS.contains(&&*document), "{document}: name it among the documents of this file");
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

/// The lines of Python that need no package are those that CI runs on a run folder. Blocks with the package are run by
/// `tests/python/test_docs.py`.
#[test]
fn python() {
    let pages = ["README.md", "docs/reference/run-folder.md"]
        .map(|page| std::fs::read_to_string(repository().join(page)).unwrap());
    let script = std::fs::read_to_string(repository().join("tests/python/read_run.py")).unwrap();
    let mut lines = 0;
    for block in pages.iter().flat_map(|page| blocks(page)).filter(|block| block.info == "python") {
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

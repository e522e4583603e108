//! `eciton kernel` on components: what one says of itself, and which may run.
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

fn run(folder: &Path, line: &[&str]) -> (Option<i32>, String, String) {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cli-cache/kernels");
    let mut command = Command::new(env!("CARGO_BIN_EXE_eciton"));
    command.args(line).current_dir(folder).stdin(Stdio::null()).env("ECITON_CACHE_DIR", cache);
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn inspect(folder: &Path, line: &[&str]) -> (Option<i32>, String, String) {
    run(folder, &[&["kernel", "inspect"], line].concat())
}

/// Runs what must work.
fn works(folder: &Path, line: &[&str]) -> String {
    let (code, out, err) = run(folder, line);
    assert_eq!((code, &*err), (Some(0), ""), "{line:?}\n{out}");
    out
}

/// Runs what must be refused before it says anything; gives the words.
fn refused(folder: &Path, line: &[&str]) -> String {
    let (code, out, err) = run(folder, line);
    assert_eq!((code, &*out), (Some(1), ""), "{line:?}\n{err}");
    assert!(err.starts_with("error: ") && !err.contains("panicked"), "{line:?}\n{err}");
    err
}

fn says(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "no {word:?} in:\n{text}");
    }
}

/// A component of the suites.
fn altered(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/kernels/prebuilt");
    std::fs::read(folder.join(format!("{name}.wasm"))).unwrap()
}

/// The built-in kernels, each in its file.
fn kernels() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for kernel in eciton_train::kernels::builtin() {
        std::fs::write(folder.path().join(format!("{}.wasm", kernel.name)), kernel.component).unwrap();
    }
    folder
}

fn object(folder: &Path, line: &[&str]) -> Value {
    let (code, out, err) = inspect(folder, &[line, &["--json"]].concat());
    assert_eq!((code, &*err), (Some(0), ""), "{line:?}");
    serde_json::from_str(&out).unwrap()
}

#[test]
fn a_kernel_says_what_it_is() {
    let folder = kernels();
    let found = object(folder.path(), &["linear.wasm"]);
    let component = std::fs::read(folder.path().join("linear.wasm")).unwrap();
    assert_eq!(found["bytes"], component.len());
    assert_eq!(found["digest"], eciton_author::component_digest(&component));
    assert_eq!((&found["contract"], &found["signature"]), (&json!(eciton_author::VERSION), &Value::Null));
    let interface = |side: &str, name: &str| {
        let all = found[side].as_array().unwrap();
        let name = format!("eciton:kernel/{name}@{}", eciton_author::VERSION);
        all.iter().find(|i| i["interface"] == name).unwrap_or_else(|| panic!("{name}: {all:?}"))["functions"]
            .clone()
    };
    assert!(!interface("imports", "linalg").as_array().unwrap().is_empty());
    let exported = interface("exports", "vertex");
    for function in ["attributes", "layer.open", "layer.signature", "layer.forward", "layer.backward"] {
        assert!(exported.as_array().unwrap().contains(&json!(function)), "{exported}");
    }
    let attributes = found["attributes"].as_array().unwrap();
    let out = attributes.iter().find(|a| a["name"] == "out-features").unwrap();
    assert_eq!(out["default"], Value::Null);
    assert!(attributes.iter().all(|a| a["meaning"].as_str().unwrap().len() > 5), "{attributes:?}");
    let (code, text, _) = inspect(folder.path(), &["linear.wasm"]);
    assert_eq!(code, Some(0));
    let contract = format!("eciton:kernel@{}", eciton_author::VERSION);
    for word in [&*contract, "linalg: ", "layer.open", "out-features", "required", "--inputs"] {
        assert!(text.contains(word), "no {word} in:\n{text}");
    }
}

/// One that was built for the first release.
#[test]
fn a_kernel_says_which_contract_it_speaks() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let old = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/compatibility/0.1.0/linear.wasm");
    std::fs::copy(old, folder.join("linear.wasm")).unwrap();
    assert_eq!(object(folder, &["linear.wasm"])["contract"], "0.1.0");
    says(&works(folder, &["kernel", "inspect", "linear.wasm"]), &["eciton:kernel@0.1.0"]);
    says(
        &works(folder, &["kernel", "check", "linear.wasm"]),
        &["linear.wasm: implements kernel contract 0.1.0, "],
    );
    let added = works(folder, &["kernel", "add", "linear.wasm", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&added).unwrap()["contract"], "0.1.0");
    works(folder, &TRAIN);
}

#[test]
fn a_layer_says_what_it_reads_writes_and_learns() {
    let folder = kernels();
    let line = ["linear.wasm", "--inputs", "16", "--set", "out-features=8"];
    let signature = object(folder.path(), &line)["signature"].clone();
    assert_eq!(signature["inputs"][0]["extents"], json!([16]));
    assert_eq!(signature["outputs"][0]["extents"], json!([8]));
    assert_eq!(signature["parameters"][0]["name"], "weight");
    assert_eq!(signature["parameters"][0]["shape"], json!([16, 8]));
    let (_, text, _) = inspect(folder.path(), &line);
    for word in ["weight [16, 8] (Glorot uniform)", "y [8] per row", "also reads inputs"] {
        assert!(text.contains(word), "no {word} in:\n{text}");
    }
    let two = object(folder.path(), &["sum.wasm", "--inputs", "4,4"])["signature"].clone();
    assert_eq!(two["inputs"].as_array().unwrap().len(), 2);
    let loss = object(folder.path(), &["head.wasm", "--inputs", "7"])["signature"].clone();
    assert_eq!(loss["loss"], "classes");
}

#[test]
fn what_cannot_be_inspected_is_said() {
    let folder = kernels();
    std::fs::write(folder.path().join("not.wasm"), "text").unwrap();
    let cases: [(&[&str], i32, &str); 7] = [
        (&["absent.wasm"], 1, "absent.wasm: cannot be read"),
        (&["not.wasm"], 1, "not.wasm: does not implement kernel contract 0.1.2, 1 difference"),
        (&["linear.wasm", "--set", "out-features=8"], 2, "--inputs"),
        (&["linear.wasm", "--inputs", "16"], 1, "attribute `out-features` must be given"),
        (
            &["linear.wasm", "--inputs", "16", "--set", "outfeatures=8"],
            1,
            "it has no attribute `outfeatures`",
        ),
        (&["linear.wasm", "--inputs", "16", "--set", "dropout=much"], 2, "expected a number for `dropout`"),
        (&["linear.wasm", "--inputs", "16,b"], 2, "expected extents such as 16 or 4x8"),
    ];
    for (line, code, words) in cases {
        let (found, out, err) = inspect(folder.path(), line);
        assert_eq!((found, &*out), (Some(code), ""), "{line:?}: {err}");
        assert!(err.contains(words), "{line:?}: {err}");
    }
}

fn check(file: &str) -> [&str; 7] {
    ["kernel", "check", file, "--inputs", "6", "--set", "out-features=4"]
}

#[test]
fn a_check_says_what_holds_and_what_does_not() {
    let folder = kernels();
    let folder = folder.path();
    let text = works(folder, &check("linear.wasm"));
    for word in [
        "fresh and warm instances",
        "rows that arrive in pieces",
        "parameter `weight`",
        "limits, 16,384 rows",
    ] {
        assert!(text.lines().any(|line| line.starts_with("  ok ") && line.contains(word)), "{word}:\n{text}");
    }
    says(&text, &["20 times", " of 256 MiB, scratch ", " of 4,096 handles, "]);
    for (name, words) in [
        ("impatient", "the same bits from rows that arrive in pieces: y, "),
        ("leaking", "limits, 16,384 rows, 40 times: the same calls use more "),
    ] {
        let file = format!("{name}.wasm");
        std::fs::write(folder.join(&file), altered(name)).unwrap();
        let (code, out, err) = run(folder, &check(&file));
        assert_eq!((code, out.matches("BROKEN").count()), (Some(1), 1), "{name}:\n{out}");
        says(&err, &[&file, "(seed 1)", words]);
    }
    let edges = works(folder, &["kernel", "check", "maximum.wasm", "--inputs", "5,5"]);
    assert!(
        !edges.contains("pieces") && edges.contains("limits"),
        "an edge kernel's rows are all there:\n{edges}"
    );
}

const TRAIN: [&str; 6] = ["train", "--epochs", "2", "--no-out", "--kernel", "linear=linear.wasm"];
const ADD: [&str; 3] = ["kernel", "add", "linear.wasm"];

#[test]
fn what_is_pinned_trains_and_nothing_else() {
    let folder = kernels();
    let folder = folder.path();
    let file = folder.join("linear.wasm");
    let first = std::fs::read(&file).unwrap();
    works(folder, &TRAIN);
    let digest = eciton_author::component_digest(&first);
    says(&works(folder, &ADD), &["linear.wasm  ", &digest, "  new"]);
    works(folder, &TRAIN);
    says(&works(folder, &ADD), &[&digest, "unchanged"]);

    // Another kernel, and the same with a section that means nothing.
    let section = [&[0, 5, 4][..], b"test"].concat();
    for other in [altered("doubled"), [&first[..], &section].concat()] {
        std::fs::write(&file, &other).unwrap();
        let changed = eciton_author::component_digest(&other);
        for line in [&TRAIN[..], &["plan", "--kernel", "linear=linear.wasm"]] {
            let words = ["linear.wasm: it is ", "eciton-kernels.lock", "eciton kernel add "];
            says(&refused(folder, line), &[&words[..], &[&digest, &changed]].concat());
        }
        says(&works(folder, &ADD), &[&changed, &format!("replaces {digest}")]);
        works(folder, &TRAIN);
        std::fs::write(&file, &first).unwrap();
        works(folder, &ADD);
    }
    let other = ["train", "--epochs", "2", "--no-out", "--kernel", "head=head.wasm"];
    says(&refused(folder, &other), &["head.wasm: sha256:", "is not in ", "eciton kernel add "]);
    let added = works(folder, &["kernel", "add", "head.wasm", "sum.wasm", "--json"]);
    let added: Vec<Value> = added.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&added[0]["path"], &added[1]["path"]), (&json!("head.wasm"), &json!("sum.wasm")));
    assert_eq!((&added[0]["contract"], &added[0]["former"]), (&json!(eciton_author::VERSION), &Value::Null));
    works(folder, &other);
}

#[test]
fn a_kernel_that_the_model_does_not_have_is_not_replaced_in_silence() {
    let folder = kernels();
    let folder = folder.path();
    let words = ["replaces the kernel `maximum`", "--kernel", "the model uses: head, linear"];
    for command in ["train", "plan"] {
        says(&refused(folder, &[command, "--epochs", "1", "--kernel", "maximum=maximum.wasm"]), &words);
    }
    // Links are judged without one.
    let links = ["--task", "link-prediction", "--kernel", "head=head.wasm"];
    let said = refused(folder, &[&["train", "--epochs", "1", "--no-out"][..], &links].concat());
    says(&said, &["replaces the kernel `head`", "the model uses: activate, linear"]);
}

#[test]
fn a_models_layers_and_a_runs_folder_go_by_the_lock() {
    let folder = kernels();
    let folder = folder.path();
    std::fs::create_dir_all(folder.join("a/b")).unwrap();
    let file = folder.join("a/b/mine.wasm");
    std::fs::copy(folder.join("linear.wasm"), &file).unwrap();
    let model = "hidden = 8\n[[layers]]\nkernel = \"gcn\"\n[[layers]]\nkernel = \"b/mine.wasm\"\n\
                 attributes = { out-features = 7 }\n";
    std::fs::write(folder.join("a/model.toml"), model).unwrap();
    works(folder, &["kernel", "add", "a/b/mine.wasm", "--lock", "a/eciton-kernels.lock"]);
    assert!(!folder.join("eciton-kernels.lock").exists());
    let train = ["train", "--model", "a/model.toml", "--epochs", "2", "--json"];
    works(folder, &[&train[..], &["--out", "run"]].concat());
    works(folder, &["eval", "run"]);
    std::fs::write(&file, altered("doubled")).unwrap();
    for line in [&[&train[..], &["--no-out"]].concat()[..], &["eval", "run"], &["predict", "run"]] {
        says(&refused(folder, line), &["mine.wasm: it is sha256:", "a/eciton-kernels.lock has sha256:"]);
    }
    works(folder, &["kernel", "add", "a/b/mine.wasm", "--lock", "a"]);
    works(folder, &[&train[..], &["--no-out"]].concat());
}

#[test]
fn what_cannot_be_pinned_is_said_and_changes_nothing() {
    let folder = kernels();
    let folder = folder.path();
    let lock = folder.join("eciton-kernels.lock");
    std::fs::write(folder.join("not.wasm"), "text").unwrap();
    let line = ["kernel", "add", "linear.wasm", "not.wasm"];
    says(&refused(folder, &line), &["not.wasm: does not implement kernel contract 0.1.2, 1 difference"]);
    says(&refused(folder, &["kernel", "add", "absent.wasm"]), &["absent.wasm: cannot be read"]);
    assert!(!lock.exists());
    let (code, _, err) = run(folder, &[&ADD[..], &["--lock", "mine.lock"]].concat());
    assert_eq!(code, Some(2));
    says(&err, &["--lock mine.lock: expected a file named eciton-kernels.lock"]);

    std::fs::create_dir(folder.join("other")).unwrap();
    let line = [&ADD[..], &["--lock", "other"]].concat();
    says(&refused(folder, &line), &["linear.wasm: ", "would not apply to it", "give --lock "]);

    works(folder, &ADD);
    let whole = std::fs::read_to_string(&lock).unwrap();
    for (damaged, words) in [
        (whole.replace("format = 1", "format = 2"), "format 2, this program knows 1"),
        (whole[..whole.len() - 30].to_owned(), "line "),
        ("{\"format\": 1}".to_owned(), "line 1"),
        ("version = 4\n".to_owned(), "no line `format = 1`"),
    ] {
        std::fs::write(&lock, &damaged).unwrap();
        for line in [&ADD[..], &TRAIN[..]] {
            says(&refused(folder, line), &["eciton-kernels.lock: ", words, "eciton kernel add FILE"]);
        }
        assert_eq!(std::fs::read_to_string(&lock).unwrap(), damaged, "what is not understood stays");
    }
}

#[cfg(unix)]
#[test]
fn a_cache_that_is_not_used_is_told_of_in_one_line() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("cache.key");
    let said = |line: &[&str], cache: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_eciton"));
        command.args(line).current_dir(folder.path()).env("ECITON_CACHE_DIR", folder.path().join(cache));
        let ran = command.output().unwrap();
        assert!(ran.status.success(), "{line:?}");
        (String::from_utf8(ran.stdout).unwrap(), String::from_utf8(ran.stderr).unwrap())
    };
    let train = ["train", "--epochs", "1", "--no-out", "--json"];
    assert_eq!(said(&train, "cache").1, "");
    let unused = |words: &str| {
        let warned = said(&train, "cache").1;
        assert_eq!(warned.lines().count(), 1, "{warned}");
        says(
            &warned,
            &["warning: kernel cache ", "cache.key", words, "kernels are compiled again at every start"],
        );
        says(&said(&["doctor"], "cache").0, &["cache.key: NOT used (", words]);
    };
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    unused("other users may access it (mode 644)");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(said(&train, "cache").1, "");
    std::fs::write(&key, [7; 31]).unwrap();
    unused("the key must have 32 bytes");
    // A place that is no folder, as where nothing may be made.
    std::fs::write(folder.path().join("file"), "").unwrap();
    says(&said(&train, "file/cache").1, &["warning: kernel cache ", "file/cache: Not a directory"]);
    says(&said(&["doctor"], "file/cache").0, &["NOT writable"]);
}

#[cfg(unix)]
#[test]
fn a_full_cache_is_told_of_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let script = "ECITON_CACHE_DIR=small/cache; export ECITON_CACHE_DIR; eciton train --epochs 1 --no-out --json > /dev/null; echo code $?;
        head -c 100000 /dev/zero > small/full; eciton doctor | grep 'kernel cache'";
    let Some(said) = super::stop::on_a_small_disk(folder.path(), 40, script) else { return };
    assert_eq!(said.matches("warning: kernel cache ").count(), 1, "{said}");
    says(&said, &["No space left on device", "compiled again", "code 0", "NOT writable"]);
}

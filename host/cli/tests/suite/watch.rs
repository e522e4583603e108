//! Watching a run: diagnostic messages, the list of runs, the report, event files; completions and manual pages.
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::common::{eciton, works};

/// A folder with three runs.
fn runs() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, more) in [("a", &["--seed", "1"][..]), ("b", &["--hidden", "8", "--seeds", "2"]), ("c", &[])] {
        let out = format!("runs/{name}");
        works(dir.path(), &[&["train", "--epochs", "5", "--out", &out], more].concat());
    }
    dir
}

fn says(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "no {word:?} in:\n{text}");
    }
}

#[test]
fn runs_are_listed_shown_and_compared() {
    let dir = runs();
    let list = works(dir.path(), &["runs", "list"]);
    let lines: Vec<&str> = list.lines().collect();
    assert_eq!(lines.len(), 4, "{list}");
    says(lines[0], &["run", "data", "model", "seeds", "test", "at best val", "metric", "time"]);
    assert!(lines[1].starts_with("a  ") && lines[2].starts_with("b  "), "{list}");
    says(lines[2], &["gcn 1433-8-7", " 2 ", "\u{b1}"]);
    let rows: Vec<Value> = works(dir.path(), &["runs", "list", "--json", "--sort", "time"])
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(rows.len(), 3);
    assert!(rows.windows(2).all(|two| two[0]["total_seconds"].as_f64() <= two[1]["total_seconds"].as_f64()));

    let shown = works(dir.path(), &["runs", "show", "b"]);
    says(
        &shown,
        &["test accuracy", "files          config.toml (", "kernels        head, linear", "hidden = 8"],
    );
    let compared = works(dir.path(), &["runs", "compare", "a", "runs/b", "c"]);
    says(
        &compared,
        &["[1] runs/a", "[3] runs/c", "model.hidden", "run.seed", "settings are equal in all runs"],
    );
    assert!(!compared.contains("run.epochs"), "{compared}");
    let first = works(dir.path(), &["runs", "compare", "a", "c", "--json"]);
    let first: Value = serde_json::from_str(first.lines().next().unwrap()).unwrap();
    assert_eq!(first["settings"], serde_json::json!({"run.seed": "1"}));
}

#[test]
fn the_list_of_runs_fits_into_100_columns_and_json_has_whole_names() {
    let dir = tempfile::tempdir().unwrap();
    let data = format!("{}.csv", "customers-of-the-northern-branch".repeat(2));
    let rows = (0..60).map(|row| format!("{},{},{}\n", row % 7, row % 5, ["low", "high"][row % 2]));
    std::fs::write(dir.path().join(&data), format!("a,b,class\n{}", rows.collect::<String>())).unwrap();
    let name = "a-run-with-a-long-name".repeat(3);
    let out = format!("runs/{name}");
    let line = ["train", &data, "--recipe", "mlp", "--epochs", "2", "--seeds", "2", "--out", &out];
    works(dir.path(), &[&line[..], &["--hidden", "64", "--set", "model.layers=8"]].concat());
    let list = works(dir.path(), &["runs", "list"]);
    assert!(list.lines().all(|line| line.chars().count() <= 100), "{list}");
    says(&list, &["a-run-", "name  ", "\u{2026}", " accuracy ", "time"]);
    let json = works(dir.path(), &["runs", "list", "--json"]);
    let row: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(row["run"], Value::from(out));
    assert!(
        row["dataset"].as_str().unwrap().len() > 60 && row["model"].as_str().unwrap().contains("64-64-64-64")
    );
}

/// A table with a class for each name, 12 rows each.
fn classes(folder: &Path, names: impl Iterator<Item = String> + Clone) {
    let mut text = "a,b,class\n".to_owned();
    for row in 0..12 {
        text.extend(
            names.clone().enumerate().map(|(at, name)| format!("{at}.{row},{},\"{name}\"\n", row % 3)),
        );
    }
    std::fs::write(folder.join("classes.csv"), text).unwrap();
}

#[test]
fn the_confusion_matrix_has_the_names_of_the_classes() {
    let dir = tempfile::tempdir().unwrap();
    let long = "customers <of> the northern branch";
    classes(dir.path(), ["low", "high", long].into_iter().map(str::to_owned));
    let train = ["train", "classes.csv", "--recipe", "mlp", "--epochs", "3"];
    let trained = works(dir.path(), &[&train[..], &["--out", "few"]].concat());
    let evaluated = works(dir.path(), &["eval", "few"]);
    for text in [&trained, &evaluated] {
        says(
            text,
            &["predicted class\n", "true class  ", "  high", "  low\n", "custom\u{2026}ranch", "\u{2026}"],
        );
    }
    let json: Value = serde_json::from_str(&works(dir.path(), &["eval", "few", "--json"])).unwrap();
    let names: Vec<&str> = json["quality"]["classes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|of| of["class"].as_str().unwrap())
        .collect();
    assert_eq!(names.len(), json["quality"]["confusion"].as_array().unwrap().len());
    assert!(names.contains(&long), "{names:?}");
    works(dir.path(), &["report", "few"]);
    let page = std::fs::read_to_string(dir.path().join("few/report.html")).unwrap();
    says(
        &page,
        &[
            "<th scope=\"col\" title=\"high\"><span>high</span></th>",
            "title=\"customers &lt;of&gt; the northern branch\">custome",
            "low predicted as high: ",
        ],
    );
    // Many classes are a picture with their names, and a list of errors.
    classes(dir.path(), (0..40).map(|at| format!("kind of thing number {at}")));
    let trained = works(dir.path(), &[&train[..], &["--out", "many"]].concat());
    says(
        &trained,
        &["most frequent errors\n", "kind of thing number ", " predicted as kind of thing number "],
    );
    works(dir.path(), &["report", "many"]);
    let page = std::fs::read_to_string(dir.path().join("many/report.html")).unwrap();
    says(&page, &["<svg class=\"matrix\"", "<title>kind of thing number 39</title>", "Most frequent errors"]);
}

#[test]
fn a_page_has_nothing_that_is_wider_than_a_narrow_window() {
    let dir = tempfile::tempdir().unwrap();
    works(dir.path(), &["train", "--epochs", "5", "--seeds", "2", "--out", "r", "--trace", "t.json"]);
    works(dir.path(), &["report", "r", "--trace", "t.json"]);
    let page = std::fs::read_to_string(dir.path().join("r/report.html")).unwrap();
    for table in page.split("<table").skip(1).map(|rest| rest.split("</table>").next().unwrap()) {
        // Tables of many columns are blocks in a narrow window.
        let columns = table.split("</tr>").next().unwrap().matches("</th>").count();
        let is_matrix = table.starts_with(" class=\"matrix\"");
        assert!(columns <= 5 || is_matrix || table.starts_with(" class=\"blocks\""), "{table}");
    }
    let wide = page.lines().find(|line| line.contains("min-width:") && !line.contains("@media"));
    assert!(wide.is_none_or(|line| line.contains("min-width: 0")), "{wide:?}");
    says(&page, &["white-space: pre-wrap", "the validation accuracy chose the best epoch"]);
}

#[test]
fn a_long_epoch_shows_how_far_it_is() {
    let dir = tempfile::tempdir().unwrap();
    works(dir.path(), &["data", "generate", "linear", "big", "--rows", "1000000", "--features", "2"]);
    // Both train at the same time, because the first message takes some seconds.
    let children = [&[][..], &["--json"]].map(|json| {
        let line = ["train", "big", "--model", "mlp", "--batch", "1", "--epochs", "3", "--no-out"];
        let mut command = Command::new(env!("CARGO_BIN_EXE_eciton"));
        command.args([&line[..], json].concat()).current_dir(dir.path());
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    });
    for mut child in children {
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let found = lines.find_map(|line| line.ok().filter(|line| line.starts_with("epoch 1: step ")));
        child.kill().unwrap();
        child.wait().unwrap();
        let found = found.unwrap();
        says(&found, &[" of ", " steps/s, ", " left in the epoch"]);
    }
}

#[test]
fn a_damaged_run_hides_no_other_and_a_folder_without_runs_says_so() {
    let dir = runs();
    std::fs::write(dir.path().join("runs/b/summary.json"), "{").unwrap();
    let (code, out, err) = eciton(dir.path(), &["runs", "list"]);
    assert_eq!((code, out.lines().count()), (Some(0), 3), "{err}");
    says(&err, &["skipped: ", "summary.json"]);
    std::fs::create_dir(dir.path().join("empty")).unwrap();
    says(
        &works(dir.path(), &["runs", "list", "empty"]),
        &["empty: no runs found; `eciton train` writes run folders to runs/"],
    );
    let (code, _, err) = eciton(dir.path(), &["runs", "list", "absent"]);
    assert_eq!(code, Some(1));
    says(&err, &["error: absent: ", "expected a folder that contains run folders"]);
}

#[test]
fn a_report_lies_in_the_run_folder_and_the_run_stays_one() {
    let dir = tempfile::tempdir().unwrap();
    works(dir.path(), &["train", "--epochs", "5", "--out", "r", "--trace", "t.json"]);
    let (code, out, err) = eciton(dir.path(), &["report", "r"]);
    assert_eq!(code, Some(0), "{err}");
    says(&err, &["not shown: timeline: no trace was given"]);
    says(&out, &["r/report.html: "]);
    let page = std::fs::read_to_string(dir.path().join("r/report.html")).unwrap();
    says(&page, &["<h2>Curves", "<h2>Confusion matrix", "epoch 5", "prefers-color-scheme"]);
    std::fs::rename(dir.path().join("t.json"), dir.path().join("r/trace.json")).unwrap();
    let (code, _, err) = eciton(dir.path(), &["report", "r", "--out", "p.html"]);
    assert_eq!((code, &*err), (Some(0), ""));
    let page = std::fs::read_to_string(dir.path().join("p.html")).unwrap();
    says(&page, &["<h2>Timeline", "<h2>Time by stage", "linear 0", "updates 3 to 5 of 5"]);
    says(&works(dir.path(), &["eval", "r"]), &["recorded       identical\n"]);
    let (code, _, err) = eciton(dir.path(), &["report", "r", "--without-data", "--out", "q.html"]);
    assert_eq!((code, err.lines().count()), (Some(0), 1), "{err}");
    let page = std::fs::read_to_string(dir.path().join("q.html")).unwrap();
    assert!(page.contains("<h2>Confusion") && !page.contains("planned before"), "{page}");
    std::fs::write(dir.path().join("r/trace.json"), "[{}").unwrap();
    let (code, _, err) = eciton(dir.path(), &["report", "r"]);
    assert_eq!(code, Some(1));
    says(&err, &["trace.json"]);
}

/// Runs the program with levels in the environment; standard error.
fn told(folder: &Path, line: &[&str], levels: &str) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_eciton"));
    command.args(line).current_dir(folder).stdin(Stdio::null()).env("RUST_LOG", levels);
    let output = command.output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn messages_are_as_many_as_are_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let line = ["train", "--epochs", "3", "--out", "r"];
    let with = |flags: &[&str]| {
        let out = flags.concat().replace('-', "r");
        told(dir.path(), &[&["train", "--epochs", "3", "--out", &out], flags].concat(), "").1
    };
    let quiet = told(dir.path(), &line, "").1;
    assert_eq!(quiet, "");
    let once = with(&["-v"]);
    says(
        &once,
        &[
            " INFO eciton_train::data::source: data set read source=\"cora\"",
            "kernel ready",
            "run folder written",
        ],
    );
    assert!(!once.contains("DEBUG"), "{once}");
    let twice = with(&["-vv"]);
    says(
        &twice,
        &["DEBUG eciton_train::driver::course: evaluated round=1", "DEBUG eciton_kernel", "memory purpose="],
    );
    let thrice = with(&["-vvv"]);
    says(&thrice, &["TRACE eciton_train::driver::pass: step committed"]);
    let (code, by_crate) = told(dir.path(), &["train", "--epochs", "1", "--no-out"], "eciton_kernel=debug");
    assert_eq!(code, Some(0));
    assert!(by_crate.contains("eciton_kernel") && !by_crate.contains("eciton_train"), "{by_crate}");
    let (code, refused) = told(dir.path(), &["doctor"], "eciton=loud");
    assert_eq!(code, Some(2));
    says(&refused, &["error: RUST_LOG=eciton=loud: ", "eciton_train=debug"]);
}

#[test]
fn shells_and_manuals_know_all_commands() {
    let dir = tempfile::tempdir().unwrap();
    for (shell, words) in [
        ("bash", &["_eciton()", "--class-weights", "compgen"][..]),
        ("zsh", &["#compdef eciton", "--class-weights"]),
        ("fish", &["complete -c eciton", "-l class-weights"]),
    ] {
        says(&works(dir.path(), &["completions", shell]), words);
    }
    let bash = works(dir.path(), &["completions", "bash"]);
    std::fs::write(dir.path().join("eciton.bash"), bash).unwrap();
    let script = "source ./eciton.bash; COMP_WORDS=(eciton kernel n); COMP_CWORD=2; _eciton eciton n kernel; echo ${COMPREPLY[@]}";
    let ran = Command::new("bash").args(["-c", script]).current_dir(dir.path()).output();
    if let Ok(ran) = ran {
        assert_eq!(String::from_utf8(ran.stdout).unwrap().trim(), "new", "{:?}", ran.stderr);
    }
    says(&works(dir.path(), &["man", "pages"]), &["pages: ", " manual pages written"]);
    let page = std::fs::read_to_string(dir.path().join("pages/eciton-train.1")).unwrap();
    says(&page, &[".TH eciton", "class\\-weights"]);
    for name in ["eciton.1", "eciton-kernel-new.1", "eciton-runs-compare.1", "eciton-man.1"] {
        assert!(dir.path().join("pages").join(name).is_file(), "{name}");
    }
}

#[test]
fn event_files_are_written_for_each_seed() {
    let dir = tempfile::tempdir().unwrap();
    works(dir.path(), &["train", "--epochs", "3", "--seeds", "2", "--no-out", "--tensorboard", "tb"]);
    for seed in ["seed-0", "seed-1"] {
        let files: Vec<_> = std::fs::read_dir(dir.path().join("tb").join(seed)).unwrap().collect();
        assert_eq!(files.len(), 1);
        let bytes = std::fs::read(files[0].as_ref().unwrap().path()).unwrap();
        let has = |text: &str| bytes.windows(text.len()).any(|part| part == text.as_bytes());
        assert!(has("brain.Event:2") && has("loss/train") && has("accuracy/validation"));
    }
}

#[test]
fn built_in_kernels_go_by_their_names() {
    let dir = tempfile::tempdir().unwrap();
    let list = works(dir.path(), &["kernel", "list"]);
    let count = eciton_author::BUILTIN.len();
    assert_eq!(list.lines().count(), count + 1, "{list}");
    assert!(list.lines().all(|line| line.chars().count() <= 100), "{list}");
    says(&list, &["linear         y = activation("]);
    says(&works(dir.path(), &["kernel", "list", "--digests"]), &["linear ", " bytes  sha256:"]);
    let shown =
        works(dir.path(), &["kernel", "inspect", "linear", "--inputs", "16", "--set", "out-features=8"]);
    says(&shown, &["built in     y = activation(", "out-features", "weight [16, 8]"]);
    let trials: [(&str, &[&str]); 8] = [
        ("linear", &["--inputs", "6", "--set", "out-features=4", "--set", "input-bias=true"]),
        ("normalise", &["--inputs", "6"]),
        ("normalise", &["--inputs", "6", "--set", "by=l2"]),
        ("normalise", &["--inputs", "6", "--set", "by=rms"]),
        ("head", &["--inputs", "5"]),
        ("gatv2", &["--inputs", "8,8", "--set", "heads=2", "--set", "features=4"]),
        ("maximum", &["--inputs", "5,5"]),
        ("activate", &["--inputs", "5", "--set", "activation=gelu-tanh"]),
    ];
    for (name, line) in trials {
        let (code, out, err) = eciton(dir.path(), &[&["kernel", "check", name], line].concat());
        assert_eq!(code, Some(0), "{name}: {err}\n{out}");
        says(&out, &["finite values for rows of zeros", "no NaN for large and tiny rows"]);
    }
}

fn component(name: &str) -> &'static [u8] {
    eciton_train::kernels::builtin().iter().find(|kernel| kernel.name == name).unwrap().component
}

#[test]
fn a_new_kernel_says_how_to_train_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let cases: [(&[&str], &[&str]); 4] = [
        (&["one"], &["eciton train --model one/model.toml", "eciton train --kernel linear=one/one.wasm"]),
        (&["two", "--derived"], &["derived gradients", "eciton train --model two/model.toml"]),
        (&["three", "--edge"], &["--inputs 16,16", "eciton train --model three/model.toml"]),
        (&["four", "--c"], &["in C", "eciton train --model four/model.toml"]),
    ];
    for (line, words) in cases {
        says(&works(dir.path(), &[&["kernel", "new"], line].concat()), words);
        assert!(dir.path().join(line[0]).join("model.toml").is_file(), "{line:?}");
    }
    // The models are right: with a component of the same signature in the place of what is not built yet.
    std::fs::write(dir.path().join("two/two.wasm"), component("linear")).unwrap();
    works(dir.path(), &["train", "--model", "two/model.toml", "--epochs", "1", "--no-out"]);
    std::fs::write(dir.path().join("three/three.wasm"), component("maximum")).unwrap();
    works(dir.path(), &["train", "--model", "three/model.toml", "--epochs", "1", "--no-out"]);
    let (code, _, err) = eciton(dir.path(), &["train", "--kernel", "linear=three/three.wasm", "--no-out"]);
    assert_eq!(code, Some(1));
    says(
        &err,
        &[
            "kernel `linear` computes on rows, but ",
            "three.wasm computes on edges",
            "--model",
            "on = \"edges\"",
        ],
    );
}

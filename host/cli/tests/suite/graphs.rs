//! Graph files without a layout of their own, through the commands: looked at, converted, trained on,
//! and everything said in the file's ids.
use std::path::Path;
use std::process::{Command, Stdio};

fn run(folder: &Path, line: &[&str]) -> (Option<i32>, String, String) {
    let kernels = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cli-cache/kernels");
    let mut command = Command::new(env!("CARGO_BIN_EXE_eciton"));
    command.args(line).current_dir(folder).stdin(Stdio::null()).env("ECITON_CACHE_DIR", kernels);
    let output = command.env("ECITON_DATA", folder.join("none")).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn works(folder: &Path, line: &[&str]) -> String {
    let (code, out, err) = run(folder, line);
    assert_eq!(code, Some(0), "{line:?}: {err}");
    out
}

/// A ring of six, as each kind of file has it; the edge list has ids of its own.
const FILES: [(&str, &str, [u64; 6]); 3] = [
    (
        "ring.mtx",
        "%%MatrixMarket matrix coordinate pattern symmetric\n6 6 6\n2 1\n3 2\n4 3\n5 4\n6 5\n6 1\n",
        [1, 2, 3, 4, 5, 6],
    ),
    ("ring.graph", "6 6\n2 6\n1 3\n2 4\n3 5\n4 6\n5 1\n", [1, 2, 3, 4, 5, 6]),
    (
        "ring.txt",
        "# ring\n7 40\n40 41\n41 1000\n1000 5000000000\n5000000000 9\n9 7\n",
        [7, 9, 40, 41, 1000, 5_000_000_000],
    ),
];

#[test]
fn a_data_set_is_divided_by_an_order_or_a_file() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    std::fs::write(folder.join("ring.txt"), FILES[2].1).unwrap();
    let divide = |out: &str, hosts: &str, by: &str| {
        run(folder, &["data", "partition", "ring.txt", out, "--hosts", hosts, "--by", by, "--json"])
    };
    let parts = |out: &str, by: &str| {
        let (code, line, err) = divide(out, "2", by);
        assert_eq!(code, Some(0), "{by}: {err}");
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        line["parts"].to_string()
    };
    let equal = r#"[{"edges":6,"ghosts":2,"rows":3},{"edges":6,"ghosts":2,"rows":3}]"#;
    assert_eq!(parts("order", "natural"), equal);
    // Each vertex of the ring has its neighbours in the other part.
    std::fs::write(folder.join("by.txt"), "1\n0\n1\n0\n1\n0\n").unwrap();
    let crossed = equal.replace("\"ghosts\":2", "\"ghosts\":3");
    assert_eq!(parts("file", "by.txt"), crossed);
    let stat = works(folder, &["data", "stat", "file"]);
    assert!(stat.contains("vertices") && stat.contains('6'), "{stat}");
    for (text, hosts, words) in [
        ("1\n0\n1\n0\n1\n", "2", "it has 5 lines, expected one for each of the 6 vertices"),
        ("1\n0\n1\nx\n1\n0\n", "2", "line 4: expected the number of a part, found \"x\""),
        ("1\n0\n1\n0\n1\n2\n", "2", "expected parts from 0 to 1, found part 2"),
        ("1\n0\n1\n0\n1\n0\n", "3", "none of part 2"),
    ] {
        std::fs::write(folder.join("by.txt"), text).unwrap();
        let (code, _, err) = divide("wrong", hosts, "by.txt");
        assert!(code == Some(1) && err.contains("by.txt") && err.contains(words), "{words}: {err}");
        assert!(!folder.join("wrong").exists());
    }
    let (code, _, err) = divide("wrong", "7", "natural");
    assert!(code == Some(1) && err.contains('6') && err.contains('7'), "{err}");
    let (code, _, err) = divide("order", "2", "natural");
    assert!(code == Some(1) && err.contains("order"), "{err}");
    let (code, _, err) = divide("wrong", "2", "other");
    assert!(code == Some(2) && err.contains("rabbit, or the path of a file"), "{err}");
}

#[test]
fn features_are_divided_by_their_sums_where_they_are_counts() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let generated = ["data", "generate", "rmat", "signed", "--vertices", "500", "--edges", "4000"];
    works(folder, &generated);
    // What was done is in the run's settings, and a model is looked at in the same way.
    for (source, set, done) in [
        ("signed", "auto", "none"),
        ("cora", "auto", "rows"),
        ("signed", "true", "rows"),
        ("cora", "false", "none"),
        ("signed", "columns", "columns"),
        ("cora", "columns", "columns"),
    ] {
        let out = format!("{source}-{set}");
        let set = format!("data.normalise_features={set}");
        works(folder, &["train", source, "--epochs", "2", "--set", &set, "--out", &out]);
        let config = std::fs::read_to_string(folder.join(&out).join("config.toml")).unwrap();
        assert!(config.contains(&format!("normalise_features = \"{done}\"")), "{source}, {set}: {config}");
        let eval = works(folder, &["eval", &out]);
        assert!(eval.contains("recorded       identical"), "{source}, {set}: {eval}");
        let schema = std::fs::read_to_string(folder.join(&out).join("schema.json")).unwrap();
        assert_eq!(schema.contains("\"deviation\""), done == "columns", "{source}, {set}");
    }
}

#[test]
fn other_data_has_the_scale_that_the_model_learnt() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let write = |name: &str, shift: f64| {
        std::fs::create_dir_all(folder.join(name)).unwrap();
        let (mut edges, mut features, mut labels) =
            ("source,target\n".to_owned(), "id,feet,share\n".to_owned(), "id,kind\n".to_owned());
        for v in 0..60 {
            let high = f64::from(v % 2) * 3000.0 + f64::from(v) + shift;
            edges += &format!("v{v},v{}\n", (v + 2) % 60);
            features += &format!("v{v},{high},{}\n", f64::from(v % 7) / 7.0);
            labels += &format!("v{v},{}\n", if v % 2 == 0 { "low" } else { "high" });
        }
        for (file, text) in [("edges", edges), ("features", features), ("labels", labels)] {
            std::fs::write(folder.join(name).join(format!("{file}.csv")), text).unwrap();
        }
    };
    write("here", 0.0);
    write("there", 100_000.0);
    let train =
        ["train", "here", "--epochs", "60", "--set", "data.normalise_features=columns", "--out", "run"];
    let text = works(folder, &train);
    assert!(
        text.contains("each column scaled to mean 0 and standard deviation 1") && text.contains("(set)"),
        "{text}"
    );
    let told = |data: &str| -> Vec<String> {
        let csv = works(folder, &["predict", "run", data]);
        csv.lines().skip(1).map(|line| line.split(',').nth(1).unwrap().to_owned()).collect()
    };
    assert_eq!(told("here").iter().filter(|class| *class == "low").count(), 30);
    // Of its own moments the other place would look the same; by the run's all of it lies high.
    assert!(told("there").iter().all(|class| class == "high"), "{:?}", told("there"));
    let schema = folder.join("run/schema.json");
    let damaged = std::fs::read_to_string(&schema).unwrap().replace("\"deviation\": ", "\"deviation\": -");
    std::fs::write(&schema, damaged).unwrap();
    let (code, _, err) = run(folder, &["predict", "run"]);
    assert!(code == Some(1) && err.contains("schema.json") && err.contains("has the digest"), "{err}");
}

#[test]
fn graph_files_are_converted_and_trained_on_in_their_ids() {
    for (name, text, ids) in FILES {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path();
        std::fs::write(folder.join(name), text).unwrap();
        let stat = works(folder, &["data", "stat", name, "--json"]);
        let stat: serde_json::Value = serde_json::from_str(&stat).unwrap();
        assert_eq!((&stat["vertices"], &stat["edges"], &stat["classes"]), (&6.into(), &12.into(), &0.into()));
        // Without labels: looked at and converted, but not trained on.
        works(folder, &["data", "convert", name, "bare"]);
        for source in [name, "bare"] {
            let (code, _, err) = run(folder, &["train", source, "--no-out"]);
            assert!(code == Some(1) && err.contains("labels.csv"), "{source}: {err}");
        }
        let labels: String = ids.iter().enumerate().map(|(at, id)| format!("{id},{}\n", at % 2)).collect();
        std::fs::write(folder.join("labels.csv"), labels).unwrap();
        works(folder, &["data", "convert", name, "store"]);
        for (source, run) in [(name, "r1"), ("store", "r2")] {
            works(folder, &["train", source, "--epochs", "2", "--hidden", "2", "--out", run]);
            works(folder, &["predict", run, "--out", &format!("{run}.csv")]);
        }
        let scores = std::fs::read_to_string(folder.join("r1.csv")).unwrap();
        let first: Vec<&str> = scores.lines().skip(1).map(|line| line.split(',').next().unwrap()).collect();
        assert_eq!(first, ids.map(|id| id.to_string()), "{name}");
        assert_eq!(std::fs::read_to_string(folder.join("r2.csv")).unwrap(), scores, "{name}");
    }
}

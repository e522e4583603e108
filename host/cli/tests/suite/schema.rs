//! Other data shown to a trained model: columns, classes and tokens are matched by name.

use std::path::{Path, PathBuf};

use eciton_graph::random::SplitMix64;

use crate::common::{eciton as run, works};

/// Returns the path of an input in `tests/cases`.
fn case(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases").join(name)
}

/// Copies a case's files into a folder, and trains the model `run` on `train.csv`.
fn trained(name: &str) -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(case(name)).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), place.path().join(file.file_name())).unwrap();
    }
    train(place.path(), "train.csv", "run");
    place
}

fn train(folder: &Path, data: &str, out: &str) {
    let flags = ["--hidden", "8", "--epochs", "60", "--dropout", "0", "--lr", "0.05", "--out", out];
    works(folder, &[&["train", data][..], &flags].concat());
}

/// Returns the predicted class of each row, in the order of the rows.
fn predicted(folder: &Path, data: &str) -> Vec<String> {
    let csv = works(folder, &["predict", "run", data]);
    csv.lines().skip(1).map(|line| line.split(',').nth(1).unwrap().to_owned()).collect()
}

fn evaluation(folder: &Path, data: &str) -> serde_json::Value {
    serde_json::from_str(&works(folder, &["eval", "run", data, "--json"])).unwrap()
}

#[test]
fn columns_of_a_table_are_matched_by_name() {
    let place = trained("predict-column-order");
    let found = evaluation(place.path(), "swapped.csv");
    for part in ["train_metric", "val_metric", "test_metric"] {
        assert_eq!(found[part], 1.0, "{found}");
    }
    let expected: Vec<&str> = std::iter::repeat_n("dog", 6).chain(std::iter::repeat_n("cat", 6)).collect();
    assert_eq!(predicted(place.path(), "swapped.csv"), expected);
}

#[test]
fn predictions_have_the_names_of_the_training_and_unknown_classes_are_named() {
    let place = trained("predict-class-names");
    let folder = place.path();
    let expected: Vec<&str> = std::iter::repeat_n("dog", 6).chain(std::iter::repeat_n("cat", 6)).collect();
    assert_eq!(predicted(folder, "other.csv"), expected);
    let (_, out, err) = run(folder, &["predict", "run", "other.csv"]);
    assert!(err.contains("was not trained on class `ape` (6 rows)") && err.contains("cat, dog"), "{err}");
    assert!(out.lines().nth(1).unwrap().starts_with("s0,dog,,"), "{out}");
    let (code, _, err) = run(folder, &["eval", "run", "other.csv"]);
    assert!(code == Some(1) && err.contains("was not trained on class `ape` (6 rows)"), "{err}");
}

#[test]
fn predictions_need_no_labels() {
    let place = trained("predict-unlabelled");
    for data in ["empty.csv", "none.csv", "one.csv", "subset.csv"] {
        assert_eq!(predicted(place.path(), data), ["dog", "dog", "cat", "cat"], "{data}");
    }
    let (code, _, err) = run(place.path(), &["eval", "run", "none.csv"]);
    assert!(code == Some(1) && err.contains("no labels") && err.contains("eciton predict"), "{err}");
}

#[test]
fn missing_columns_are_named_and_other_columns_are_left_out() {
    let place = trained("predict-unlabelled");
    let folder = place.path();
    std::fs::write(folder.join("few.csv"), "id,height,label\na,5,dog\nb,0,cat\n").unwrap();
    let (code, _, err) = run(folder, &["predict", "run", "few.csv"]);
    assert!(code == Some(1) && err.contains("weight"), "{err}");
    std::fs::write(folder.join("more.csv"), "id,colour,weight,height,label\na,9,0,5,dog\nb,9,5,0,cat\n")
        .unwrap();
    assert_eq!(predicted(folder, "more.csv"), ["dog", "cat"]);
    let (_, _, err) = run(folder, &["predict", "run", "more.csv"]);
    assert!(err.contains("colour"), "{err}");
}

/// Any order of the columns, any names of the rows and any classes among the rows give the same
/// predictions.
#[test]
fn permuted_tables_get_the_same_predictions() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let seed = 17;
    println!("seed {seed}");
    let mut random = SplitMix64::new(seed);
    let names = ["ash", "birch", "cedar", "date"];
    let rows: Vec<([i64; 4], usize)> = (0..60)
        .map(|_| {
            let values = [0; 4].map(|_: i64| random.below(9) as i64);
            let largest = (0..4).max_by_key(|&at| (values[at], 4 - at)).unwrap();
            (values, largest)
        })
        .collect();
    let table = |order: &[usize], label_first: bool, kept: &dyn Fn(usize) -> bool| {
        let mut text = String::new();
        let mut line = |label: &str, cells: Vec<String>| {
            let cells = cells.join(",");
            let parts = if label_first { [label, &cells] } else { [&cells[..], label] };
            text += &format!("{}\n", parts.join(","));
        };
        line("target", order.iter().map(|at| format!("f{at}")).collect());
        for (values, class) in &rows {
            let label = if kept(*class) { names[*class] } else { "" };
            line(label, order.iter().map(|&at| values[at].to_string()).collect());
        }
        text
    };
    std::fs::write(folder.join("train.csv"), table(&[0, 1, 2, 3], false, &|_| true)).unwrap();
    train(folder, "train.csv", "run");
    let expected = predicted(folder, "train.csv");
    for case in 0..6 {
        let mut order = [0, 1, 2, 3];
        for at in (1..4).rev() {
            order.swap(at, random.below(at as u64 + 1) as usize);
        }
        let (first, only) = (random.below(2) == 0, random.below(4) as usize);
        let text = table(&order, first, &|class| case % 2 == 0 || class == only);
        std::fs::write(folder.join("other.csv"), text).unwrap();
        assert_eq!(predicted(folder, "other.csv"), expected, "seed {seed}, case {case}, {order:?}");
    }
}

/// Writes a graph of two groups that differ in their features, as a folder.
fn graph(folder: &Path, name: &str, (vertices, prefix): (u64, &str), swapped: bool, labels: bool) {
    let place = folder.join(name);
    std::fs::create_dir_all(&place).unwrap();
    let (mut edges, mut features) = ("source,target\n".to_owned(), String::new());
    features += if swapped { "id,small,large\n" } else { "id,large,small\n" };
    let mut classes = "id,kind\n".to_owned();
    for v in 0..vertices {
        edges += &format!("{prefix}{v},{prefix}{}\n", (v + 2) % vertices);
        let (large, small) = if v % 2 == 0 { (4, 1) } else { (1, 4) };
        let pair = if swapped { (small, large) } else { (large, small) };
        features += &format!("{prefix}{v},{},{}\n", pair.0, pair.1);
        classes += &format!("{prefix}{v},{}\n", if v % 2 == 0 { "big" } else { "little" });
    }
    std::fs::write(place.join("edges.csv"), edges).unwrap();
    std::fs::write(place.join("features.csv"), features).unwrap();
    if labels {
        std::fs::write(place.join("labels.csv"), classes).unwrap();
    }
}

#[test]
fn a_new_graph_without_labels_is_predicted() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    graph(folder, "old", (40, "v"), false, true);
    graph(folder, "new", (14, "w"), true, false);
    works(folder, &["train", "old", "--model", "sage", "--hidden", "8", "--epochs", "60", "--out", "run"]);
    let csv = works(folder, &["predict", "run", "new"]);
    let found: Vec<(&str, &str)> = csv
        .lines()
        .skip(1)
        .map(|line| {
            let mut fields = line.split(',');
            (fields.next().unwrap(), fields.next().unwrap())
        })
        .collect();
    assert_eq!(found.len(), 14);
    for (id, kind) in found {
        let number: u64 = id.strip_prefix('w').unwrap().parse().unwrap();
        assert_eq!(kind, if number.is_multiple_of(2) { "big" } else { "little" }, "{id}");
    }
}

#[test]
fn a_model_without_features_knows_its_own_vertices_alone() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    for (name, prefix) in [("old", "v"), ("other", "w")] {
        graph(folder, name, (40, prefix), false, true);
        std::fs::remove_file(folder.join(name).join("features.csv")).unwrap();
    }
    works(folder, &["train", "old", "--hidden", "4", "--epochs", "3", "--out", "run"]);
    works(folder, &["predict", "run", "old"]);
    let (code, _, err) = run(folder, &["predict", "run", "other"]);
    assert!(code == Some(1) && err.contains("without feature columns"), "{err}");
}

#[test]
fn first_weights_are_matched_by_name_and_refused_for_other_classes() {
    let place = trained("predict-column-order");
    let folder = place.path();
    let init = |data: &str, flags: &[&str]| {
        let line = [
            "train",
            data,
            "--hidden",
            "8",
            "--epochs",
            "1",
            "--dropout",
            "0",
            "--lr",
            "1e-9",
            "--init",
            "run",
        ];
        run(folder, &[&line[..], &["--no-out", "--json"], flags].concat())
    };
    let swapped: String = std::iter::once("id,weight,height,label\n".to_owned())
        .chain(std::fs::read_to_string(folder.join("train.csv")).unwrap().lines().skip(1).map(|line| {
            let cells: Vec<&str> = line.split(',').collect();
            format!("{},{},{},{}\n", cells[0], cells[2], cells[1], cells[3])
        }))
        .collect();
    std::fs::write(folder.join("swapped-train.csv"), &swapped).unwrap();
    let digest = |out: &str| {
        let last: serde_json::Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
        last["model_digest"].as_str().unwrap().to_owned()
    };
    let (_, same, _) = init("train.csv", &[]);
    let (_, permuted, err) = init("swapped-train.csv", &[]);
    assert_eq!(digest(&same), digest(&permuted), "{err}");
    std::fs::write(folder.join("apes.csv"), swapped.replace("cat", "ape")).unwrap();
    let (code, _, err) = init("apes.csv", &[]);
    assert!(code == Some(1) && err.contains("cat, dog") && err.contains("ape, dog"), "{err}");
    let (code, _, err) = init("apes.csv", &["--init-fresh", "[1]"]);
    assert_eq!(code, Some(0), "{err}");
}

#[test]
fn another_text_has_the_tokens_of_the_training() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let write = |name: &str, line: &str| std::fs::write(folder.join(name), line.repeat(40)).unwrap();
    write("old.txt", "abcdefgh abcdefgh ");
    write("new.txt", "hgfe hgfe ");
    write("strange.txt", "abxy abcd ");
    let train = ["train", "old.txt", "--sequence", "8", "--epochs", "2", "--batch", "64", "--out", "run"];
    works(folder, &train);
    works(folder, &["eval", "run", "new.txt"]);
    let (code, _, err) = run(folder, &["eval", "run", "strange.txt"]);
    assert!(code == Some(1) && err.contains("'x'") && err.contains("that the model does not know"), "{err}");
    let init = |data: &str| {
        run(
            folder,
            &[
                "train",
                data,
                "--sequence",
                "8",
                "--epochs",
                "1",
                "--batch",
                "64",
                "--init",
                "run",
                "--no-out",
            ],
        )
    };
    let (code, _, err) = init("strange.txt");
    assert!(code == Some(1) && err.contains("'x'"), "{err}");
    let (code, _, err) = init("new.txt");
    assert_eq!(code, Some(0), "{err}");
}

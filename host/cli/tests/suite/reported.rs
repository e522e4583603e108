//! Reported numbers: what a loss, a metric or a setting stands for, and what is refused because it stands for nothing.
//! Inputs are in `tests/cases`.

use std::fs;
use std::path::Path;

use crate::common::{eciton, works};
use serde_json::Value;

/// Losses of the rows of `tests/cases/loss-of-rounds/d.csv` with the first weights of seed 0: as they are, with class
/// weights [0, 0, 0, 0, 1], and with [3, 1, 0, 2, 1].
const PLAIN_LOSS: f64 = 1.641_513_278_255_036;
const WEIGHTED_LOSS: f64 = 1.741_823_074_177_278;
const UNEVEN_LOSS: f64 = 1.644_941_812_763_516;

/// A folder with the files of a case.
fn case(name: &str) -> tempfile::TempDir {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases").join(name);
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        fs::write(folder.path().join(path.file_name().unwrap()), fs::read(&path).unwrap()).unwrap();
    }
    folder
}

/// The objects that a command prints, a line each.
fn objects(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn last(text: &str) -> Value {
    objects(text).pop().unwrap()
}

fn refused(folder: &Path, line: &[&str]) -> String {
    let (code, _, err) = eciton(folder, line);
    assert!(code.is_some_and(|code| code != 0), "{line:?} was not refused: {err}");
    err
}

#[test]
fn the_loss_of_an_epoch_does_not_depend_on_the_batch() {
    let folder = case("loss-of-rounds");
    let still = ["--set", "optimiser.kind=sgd", "--lr", "1e-45", "--set", "optimiser.weight_decay=0"];
    let plain = [
        "--model",
        "mlp",
        "--hidden",
        "16",
        "--dropout",
        "0",
        "--epochs",
        "1",
        "--json",
        "--set",
        "data.normalise_features=none",
    ];
    let trained = |more: &[&str]| {
        let line = [&["train", "d.csv"][..], &plain, &still, more].concat();
        let summary = last(&works(folder.path(), &line));
        summary["seeds"][0]["loss"].as_f64().unwrap()
    };
    // tests/oracle/epoch_loss.py of the run folder that `--out` gives.
    for (weights, expected) in
        [(None, PLAIN_LOSS), (Some("[0,0,0,0,1]"), WEIGHTED_LOSS), (Some("[3,1,0,2,1]"), UNEVEN_LOSS)]
    {
        let with = |batch: &'static str| -> Vec<&'static str> {
            let class_weights = weights.into_iter().flat_map(|weights| ["--class-weights", weights]);
            ["--batch", batch, "--no-out"].into_iter().chain(class_weights).collect()
        };
        for batch in ["70", "64", "50", "13", "4", "2"] {
            let loss = trained(&with(batch));
            assert!(
                (loss - expected).abs() < 2e-6,
                "{weights:?}, batch {batch}: {loss}, NumPy has {expected}"
            );
        }
        let micro = [&with("70")[..], &["--micro", "2"]].concat();
        let loss = trained(&micro);
        assert!((loss - expected).abs() < 2e-6, "{weights:?}, micro-batches: {loss}, NumPy has {expected}");
    }
}

#[test]
fn an_undefined_metric_decides_nothing() {
    let folder = case("undefined-validation");
    let train = ["train", "one.csv", "--metric", "roc-auc", "--epochs", "3", "--dropout", "0"];
    let reason = "all 10 validation rows are of class 1";
    for setting in [
        &["--patience", "5"][..],
        &["--set", "run.keep=best"],
        &["--patience", "5", "--set", "run.keep=best"],
        &["--until", "val=0.9"],
        &["--mode", "async", "--set", "pipeline.synchronous_at=0.5"],
    ] {
        let err = refused(folder.path(), &[&train[..], setting, &["--no-out"]].concat());
        assert!(
            err.contains("roc-auc") && err.contains("validation") && err.contains(reason),
            "{setting:?}: {err}"
        );
    }
    // Average precision as well, and no other metric.
    let by =
        |metric| ["train", "one.csv", "--metric", metric, "--epochs", "3", "--patience", "2", "--no-out"];
    assert!(refused(folder.path(), &by("average-precision")).contains(reason));
    for metric in ["accuracy", "f1-macro", "balanced-accuracy", "cross-entropy"] {
        works(folder.path(), &by(metric));
    }
    let (code, out, err) = eciton(folder.path(), &[&train[..], &["--out", "run", "--json"]].concat());
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(err.matches(reason).count(), 1, "one warning: {err}");
    let summary = last(&out);
    assert_eq!(summary["undefined_metrics"]["validation"], reason);
    assert_eq!(summary["seeds"][0]["best"], Value::Null);
}

#[test]
fn a_sweep_is_not_ranked_by_the_test_metric_unless_asked_for() {
    let folder = case("undefined-validation");
    let text = fs::read_to_string(folder.path().join("s.toml")).unwrap();
    let labels = |results: &Value| -> Vec<String> {
        let groups = results["groups"].as_array().unwrap().iter();
        groups.map(|group| group["choice"][0][1].as_str().unwrap().to_owned()).collect()
    };
    let results = last(&works(folder.path(), &["sweep", "s.toml", "--out", "sw", "--json"]));
    assert_eq!((&results["ranked_by"], labels(&results)), (&Value::Null, vec!["0.001".into(), "0.1".into()]));
    let why = results["unranked"].as_str().unwrap();
    assert!(why.contains("roc-auc") && why.contains("all 10 validation rows are of class 1"), "{why}");
    let table = works(folder.path(), &["sweep", "s.toml", "--out", "sw"]);
    assert!(table.contains("in the order of the sweep") && table.contains("rank_by"), "{table}");
    // The same trials by the test metric.
    fs::write(folder.path().join("t.toml"), format!("rank_by = \"test\"\n{text}")).unwrap();
    let results = last(&works(folder.path(), &["sweep", "t.toml", "--out", "sw", "--json"]));
    assert_eq!(results["ranked_by"], "test");
    let means: Vec<f64> = results["groups"]
        .as_array()
        .unwrap()
        .iter()
        .map(|group| group["test_metric"]["mean"].as_f64().unwrap())
        .collect();
    assert!(means[0] >= means[1], "{means:?}");
    // Halving decides by the metric: it is refused before the first epoch.
    fs::write(folder.path().join("h.toml"), format!("{text}\n[halving]\nepochs = 2\n")).unwrap();
    let err = refused(folder.path(), &["sweep", "h.toml", "--out", "halved"]);
    assert!(err.contains("[halving]") && err.contains("all 10 validation rows are of class 1"), "{err}");
    assert_eq!(fs::read_dir(folder.path().join("halved/trials")).unwrap().count(), 0, "no trial was trained");
    fs::write(folder.path().join("i.toml"), format!("rank_by = \"test\"\n{text}\n[halving]\nepochs = 2\n"))
        .unwrap();
    let results = last(&works(folder.path(), &["sweep", "i.toml", "--out", "by-test", "--json"]));
    assert_eq!((&results["ranked_by"], &results["failed"]), (&"test".into(), &0.into()));
}

#[test]
fn settings_that_every_layer_overrides_are_refused() {
    let folder = case("settings-without-effect");
    let train = ["train", "--model", "m.toml", "--epochs", "1", "--no-out"];
    works(folder.path(), &train);
    for (setting, key) in [
        (&["--hidden", "32"][..], "hidden"),
        (&["--hidden", "16"], "hidden"),
        (&["--set", "model.kind=sage"], "kind"),
        (&["--set", "model.heads=4"], "heads"),
        (&["--set", "model.activation_slope=0.3"], "activation_slope"),
    ] {
        let err = refused(folder.path(), &[&train[..], setting].concat());
        assert!(
            err.contains(&format!("`model.{key}`")) && err.contains("none of the model's layers reads"),
            "{setting:?}: {err}"
        );
    }
    for setting in [["--dropout", "0.1"], ["--set", "model.activation=tanh"], ["--set", "model.norm=layer"]] {
        works(folder.path(), &[&train[..], &setting].concat());
    }
    let plan = refused(folder.path(), &["plan", "--model", "m.toml", "--hidden", "32"]);
    assert!(plan.contains("`model.hidden` is 32"), "{plan}");
}

#[test]
fn recipes_have_no_key_that_nothing_reads() {
    use eciton_recipe::{Config, Model, TaskType};
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/recipes");
    let mut resolved = 0;
    for set in fs::read_dir(folder).unwrap() {
        for recipe in fs::read_dir(set.unwrap().path()).unwrap() {
            let path = recipe.unwrap().path();
            let config = Config::parse(&fs::read_to_string(&path).unwrap(), "recipe").unwrap();
            for (features, classes) in [(1433, 7), (64, 10), (1, 65)] {
                let task = TaskType::Classification;
                resolved += usize::from(Model::resolve(&config.model, features, classes, task).is_ok());
                let read = config.model.check_read(features, classes, task);
                assert!(read.is_ok(), "{}: {read:?}", path.display());
            }
        }
    }
    assert!(resolved > 100, "{resolved} models");
}

#[test]
fn leaky_relu_has_the_slope_of_pytorch_and_a_key() {
    let folder = case("leaky-relu");
    let rows: String = (0..30)
        .map(|row| {
            let value = |column: i32| f64::from((row * 37 + column * 101) % 41 - 20) / 10.0;
            format!("{},{},{},{},{}\n", value(0), value(1), value(2), value(3), row % 3)
        })
        .collect();
    fs::write(folder.path().join("d.csv"), format!("a,b,c,d,label\n{rows}")).unwrap();
    let train = |more: &[&str]| {
        let line = ["train", "d.csv", "--model", "m.toml", "--dropout", "0", "--epochs", "5", "--json"];
        last(&works(folder.path(), &[&line[..], more].concat()))["model_digest"].as_str().unwrap().to_owned()
    };
    let none = ["--no-out", "--set"];
    let usual = train(&["--no-out"]);
    let with = |slope: &str| train(&[&none[..], &[&format!("model.activation_slope={slope}")]].concat());
    assert_eq!(usual, with("0.01"), "the default is 0.01");
    assert_ne!(usual, with("0.2"));
    train(&["--out", "run"]);
    let config = fs::read_to_string(folder.path().join("run/config.toml")).unwrap();
    assert!(config.contains("activation_slope = 0.01"), "{config}");
    let again = works(folder.path(), &["train", "run/config.toml", "--no-out", "--json"]);
    assert_eq!(last(&again)["model_digest"], usual);
    let text = fs::read_to_string(folder.path().join("m.toml")).unwrap();
    let own =
        text.replace("activation = \"leaky-relu\"", "activation = \"leaky-relu\"\nactivation_slope = 0.2");
    fs::write(folder.path().join("own.toml"), own).unwrap();
    let line =
        ["train", "d.csv", "--model", "own.toml", "--dropout", "0", "--epochs", "5", "--json", "--no-out"];
    assert_eq!(last(&works(folder.path(), &line))["model_digest"], with("0.2"));
    let relu = text.replace("\"leaky-relu\"", "\"relu\"\nactivation_slope = 0.2");
    fs::write(folder.path().join("relu.toml"), relu).unwrap();
    let err = refused(folder.path(), &["train", "d.csv", "--model", "relu.toml", "--no-out"]);
    assert!(err.contains("activation_slope") && err.contains("only `leaky-relu` has a slope"), "{err}");
    assert!(
        refused(folder.path(), &["train", "d.csv", "--model", "m.toml", "--set", "model.activation_slope=1"])
            .contains("slope < 1")
    );
}

/// A file as Python's safetensors writes it: no metadata, tensors in the order of their names.
fn foreign(tensors: &[(&str, &[usize])], metadata: Option<&str>) -> Vec<u8> {
    let (mut header, mut body) = (Vec::new(), Vec::new());
    header.extend(metadata.map(|text| format!("\"__metadata__\":{text}")));
    for (name, shape) in tensors {
        let (start, count) = (body.len(), shape.iter().product::<usize>());
        body.extend((0..count).flat_map(|at| (at as f32 / 100.0).to_le_bytes()));
        header.push(format!(
            "\"{name}\":{{\"dtype\":\"F32\",\"shape\":{shape:?},\"data_offsets\":[{start},{}]}}",
            body.len()
        ));
    }
    let mut text = format!("{{{}}}", header.join(",")).into_bytes();
    text.resize(text.len().next_multiple_of(8), b' ');
    [&(text.len() as u64).to_le_bytes()[..], &text, &body].concat()
}

#[test]
fn first_weights_may_come_from_another_program() {
    let folder = case("loss-of-rounds");
    let fits: [(&str, &[usize]); 4] = [
        ("layers.0.bias", &[16]),
        ("layers.0.weight", &[4, 16]),
        ("layers.1.bias", &[5]),
        ("layers.1.weight", &[16, 5]),
    ];
    let train = ["train", "d.csv", "--model", "mlp", "--epochs", "2", "--init", "w.safetensors", "--json"];
    for metadata in [None, Some("{\"format\":\"pt\"}"), Some("{\"digest\":\"of another kind\"}")] {
        fs::write(folder.path().join("w.safetensors"), foreign(&fits, metadata)).unwrap();
        let (code, out, err) = eciton(folder.path(), &[&train[..], &["--no-out"]].concat());
        assert_eq!(code, Some(0), "{metadata:?}: {err}");
        assert!(err.contains("have no digest"), "{err}");
        assert_eq!(objects(&out).pop().unwrap()["event"], "summary");
    }
    // Names and extents are checked all the same: this is a weight of PyTorch's `Linear`.
    let turned: [(&str, &[usize]); 4] = [fits[0], ("layers.0.weight", &[16, 4]), fits[2], fits[3]];
    fs::write(folder.path().join("w.safetensors"), foreign(&turned, None)).unwrap();
    let err = refused(folder.path(), &[&train[..], &["--no-out"]].concat());
    assert!(err.contains("layers.0.weight: expected [4, 16], found [16, 4]"), "{err}");
    // A file of Eciton without its digest is damaged.
    fs::write(folder.path().join("w.safetensors"), foreign(&fits, Some("{\"eciton\":\"0.1.0\"}"))).unwrap();
    let err = refused(folder.path(), &[&train[..], &["--no-out"]].concat());
    assert!(err.contains("digest"), "{err}");
}

#[test]
fn a_norm_over_rows_on_lanes_needs_batches_and_threads() {
    let folder = case("loss-of-rounds");
    let line = ["train", "d.csv", "--model", "mlp", "--lanes", "2", "--set", "model.norm=batch", "--no-out"];
    let batch = ["--batch", "32", "--micro", "4"];
    let workers = ["--set", "executor.kind=workers", "--set", "workers.count=2"];
    for more in [&[][..], &[&batch[..], &workers].concat()] {
        let err = refused(folder.path(), &[&line[..], more].concat());
        for words in
            ["`model.norm` is \"batch\" in layer 0 (linear)", "if batch.rows is set", "norm = \"layer\""]
        {
            assert!(err.contains(words), "{words}: {err}");
        }
    }
    works(folder.path(), &[&line[..], &batch, &["--epochs", "2"]].concat());
}

#[test]
fn scores_after_a_batch_normalisation_do_not_depend_on_the_other_rows_of_a_file() {
    let folder = case("loss-of-rounds");
    let train = ["train", "d.csv", "--model", "mlp", "--set", "model.norm=batch", "--epochs", "4", "--out"];
    for (run, more) in [("whole", &[][..]), ("batches", &["--batch", "32", "--micro", "2"])] {
        works(folder.path(), &[&train[..], &[run], more].concat());
        let table = fs::read_to_string(folder.path().join("d.csv")).unwrap();
        let few: Vec<&str> = table.lines().take(4).collect();
        fs::write(folder.path().join("few.csv"), few.join("\n") + "\n").unwrap();
        // The part of a row follows from the number of rows of its file.
        let scores = |file: &str| -> Vec<Vec<String>> {
            let printed = works(folder.path(), &["predict", run, file]);
            let row = |line: &str| line.split(',').skip(4).map(str::to_owned).collect();
            printed.lines().skip(1).take(3).map(row).collect()
        };
        let found = scores("few.csv");
        assert!(found.len() == 3 && found[0].len() > 2, "{found:?}");
        assert_eq!(found, scores("d.csv"), "{run}");
    }
}

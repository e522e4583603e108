//! Writing a run folder, and reading back what was written.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod damage;
mod numpy;

use super::*;
use crate::decisions::Known;
use crate::report::{BestEpoch, Metrics, Ordered, SeedReport};
use eciton_recipe::{Metric, TaskType};
use tempfile::TempDir;

fn scratch() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn tensors(seed: u64) -> Vec<NamedTensor> {
    let tensor = |name: &str, shape: &[usize], first: f32| {
        let values = (0..shape.iter().product::<usize>()).map(|n| first + n as f32 / 8.0).collect();
        NamedTensor { name: name.to_owned(), shape: shape.to_vec(), values }
    };
    // The order is that of the program, which is not alphabetical.
    vec![
        tensor("layer1.weight", &[3, 2], seed as f32),
        tensor("layer0.weight", &[2, 3], -1.5),
        tensor("bias", &[2], 0.0),
    ]
}

fn epoch(seed: u64, epoch: u32, loss: f64) -> EpochReport {
    EpochReport {
        seed,
        epoch,
        step: epoch,
        loss,
        metrics: None,
        seconds: 0.25,
        rows_per_second: None,
        flops: 7,
        lr: 0.01,
        gradient_norm: None,
        bill: None,
    }
}

fn summary(seeds: &[u64]) -> Summary {
    let metrics = Metrics { train: Some(1.0), test: Some(0.8125), ..Metrics::default() };
    let report = |&seed: &u64| SeedReport {
        seed,
        epochs: 2,
        loss: 0.5,
        metrics,
        best: Some(BestEpoch { epoch: 1, step: 1, metrics }),
        kept_epoch: None,
        stopped_early: None,
        target: None,
        synchronised_after: None,
        model_digest: model_digest(&tensors(seed)),
        quality: None,
    };
    Summary {
        without_predictions: false,
        predictions_left_out: false,
        dataset: "tiny".to_owned(),
        model: "gcn 2-3-2".to_owned(),
        seeds: seeds.iter().map(report).collect(),
        metric: Metric::Accuracy,
        test_metric: Some(0.8125),
        test_metric_std: Some(0.0),
        test_metric_at_best_validation: None,
        undefined_metrics: std::collections::BTreeMap::new(),
        epoch_seconds_median: 0.25,
        total_seconds: 1.5,
        peak_memory_bytes: 1 << 40,
        settings: Vec::new(),
        model_digest: model_digest(&tensors(seeds[0])),
        numeric_class: "portable-1".to_owned(),
        intervals: 1,
        threads: 2,
        order: Some(Ordered { name: "rcm".to_owned(), seconds: 0.5 }),
        executor: "local".to_owned(),
        tasks: 12,
        rows_by_age: None,
        trial: None,
        helpers: None,
        attempts: None,
        workers: None,
        hosts: Vec::new(),
        batches: None,
        audit: None,
        bill: None,
        cost: None,
        stopped: false,
        provenance: None,
        run_dir: None,
    }
}

fn metadata(seed: u64) -> BTreeMap<String, String> {
    [("model", "gcn 2-3-2"), ("dataset", "tiny"), ("seed", &seed.to_string())]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into()
}

/// Labels of three rows, of which the last has none.
fn known() -> Known {
    let names = ["ant", "wasp"].map(str::to_owned).to_vec();
    Known { names, labels: vec![1.0, 0.0, f32::NAN], parts: vec![1, 3, 0], ends: None }
}

fn schema() -> Schema {
    let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    Schema {
        version: crate::schema::VERSION,
        task: TaskType::Classification,
        features: crate::schema::Columns { count: Some(2), ..Default::default() },
        edge_features: crate::schema::Columns::default(),
        outputs: crate::schema::Outputs { count: Some(2), names: names(&["ant", "wasp"]), columns: vec![] },
        tokens: None,
        data: None,
    }
}

/// Everything of a run of these seeds but the last step.
fn written(path: &Path, seeds: &[u64], ids: &VertexIds) -> RunFolder {
    let mut folder = RunFolder::create(path).unwrap();
    folder.check_ids(ids).unwrap();
    let mut config = Config::default();
    config.set("run.epochs=2").unwrap();
    folder.write_config(&config, &[]).unwrap();
    folder.write_schema(&schema()).unwrap();
    let versions = Versions::current(&[("linear".to_owned(), "ab".repeat(32))].into(), "portable-1");
    folder.write_versions(&versions).unwrap();
    for (at, &seed) in seeds.iter().enumerate() {
        folder.append_metrics(&epoch(seed, 1, 1.25)).unwrap();
        folder.append_metrics(&epoch(seed, 2, f64::NAN)).unwrap();
        let mut place = if at == 0 { folder.top() } else { folder.seed(seed).unwrap() };
        let digest = place.write_model(&tensors(seed), &metadata(seed), &BTreeSet::new()).unwrap();
        assert_eq!(digest, model_digest(&tensors(seed)));
        let scores = [0.5, -1.0, 2.0, f32::INFINITY, 1e-40, 3.0];
        let known = known();
        let known = Some((TaskType::Classification, &known));
        let embeddings = Some((1, &[7.0, 8.0, 9.0][..]));
        let arrays = Arrays { ids, vertices: 3, scores: Some(&scores), embeddings, known };
        place.write_predictions(&arrays).unwrap();
    }
    folder.write_summary(&summary(seeds)).unwrap();
    folder
}

/// Writes a finished run with these seeds, and returns its path.
fn finished(dir: &TempDir, seeds: &[u64]) -> PathBuf {
    let path = dir.path().join("run");
    written(&path, seeds, &VertexIds::Dense).finish().unwrap()
}

#[test]
fn a_run_reads_back() {
    let dir = scratch();
    let path = finished(&dir, &[4, 5]);
    assert_eq!(path, dir.path().join("run"));
    assert_eq!(names(dir.path()), ["run"]);
    let top = [CONFIG, METRICS, MODEL, PREDICTIONS, SCHEMA, "seed-5", SUMMARY, VERSIONS];
    assert_eq!(names(&path), top);
    assert_eq!(names(&path.join("seed-5")), [MODEL, PREDICTIONS]);

    let run = Run::open(&path).unwrap();
    assert_eq!(run.config.run.epochs, 2);
    assert_eq!(run.tensors, tensors(4));
    assert_eq!(run.model(4).unwrap().tensors, tensors(4));
    let second = run.model(5).unwrap();
    assert_eq!((second.tensors, &second.metadata["seed"]), (tensors(5), &"5".to_owned()));
    assert_eq!(run.metadata["eciton"], ECITON_VERSION);
    assert_eq!(run.metadata["digest"], run.summary.model_digest);
    assert_eq!(run.versions.contract, CONTRACT);
    assert_eq!(run.versions.kernels["linear"], "ab".repeat(32));
    assert_eq!(run.summary.run_dir.as_deref(), Some(path.as_path()));
    let expected = Summary { run_dir: Some(path.clone()), ..summary(&[4, 5]) };
    assert_eq!(format!("{:?}", run.summary), format!("{expected:?}"));
    let error = run.model(6).unwrap_err().to_string();
    assert!(error.contains("no seed 6; its seeds are 4, 5"), "{error}");

    let lines = fs::read_to_string(path.join(METRICS)).unwrap();
    let lines: Vec<serde_json::Value> = lines.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(lines.len(), 4);
    assert_eq!((lines[2]["seed"].as_u64(), lines[2]["loss"].as_f64()), (Some(5), Some(1.25)));
    assert!(lines[3]["loss"].is_null());
}

#[test]
fn equal_weights_are_equal_files() {
    let (one, two) = (scratch(), scratch());
    let (one, two) = (finished(&one, &[1]), finished(&two, &[1]));
    for file in [MODEL, PREDICTIONS, CONFIG, VERSIONS, METRICS] {
        assert_eq!(fs::read(one.join(file)).unwrap(), fs::read(two.join(file)).unwrap(), "{file}");
    }
}

#[test]
fn a_digest_covers_names_extents_and_bits() {
    let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    assert_eq!(model_digest(&[]), empty);
    type Change = fn(&mut Vec<NamedTensor>);
    let changes: [Change; 5] = [
        |t| t[0].name.push('x'),
        |t| t[0].shape.reverse(),
        |t| t[2].values[0] = -0.0,
        |t| t.swap(0, 1),
        |t| t.truncate(2),
    ];
    for change in changes {
        let mut changed = tensors(0);
        change(&mut changed);
        assert_ne!(model_digest(&changed), model_digest(&tensors(0)));
    }
}

#[test]
fn a_loss_that_is_no_number_reads_back() {
    let dir = scratch();
    let path = dir.path().join("run");
    let mut folder = written(&path, &[1], &VertexIds::Dense);
    let mut diverged = summary(&[1]);
    diverged.seeds[0].loss = f64::INFINITY;
    folder.write_summary(&diverged).unwrap();
    let run = Run::open(&folder.finish().unwrap()).unwrap();
    assert!(run.summary.seeds[0].loss.is_nan());
}

#[test]
fn nothing_stays_of_an_unfinished_run() {
    let dir = scratch();
    let path = dir.path().join("runs/today/first");
    let mut folder = RunFolder::create(&path).unwrap();
    folder.append_metrics(&epoch(0, 1, 1.0)).unwrap();
    let partial = names(&dir.path().join("runs/today"));
    assert!(partial.len() == 1 && partial[0].starts_with(".first.partial-"), "{partial:?}");
    drop(folder);
    assert!(names(dir.path()).is_empty());

    let error = RunFolder::create(&path).unwrap().finish().unwrap_err().to_string();
    assert!(error.contains("cannot be finished without config.toml"), "{error}");
    assert!(names(dir.path()).is_empty());

    // A folder that another process uses in the meantime stays.
    let folder = RunFolder::create(&path).unwrap();
    fs::write(dir.path().join("runs/notes"), "").unwrap();
    drop(folder);
    assert_eq!(names(&dir.path().join("runs")), ["notes"]);
}

#[test]
fn only_free_places_and_empty_folders_are_taken() {
    let dir = scratch();
    let place = |name: &str| dir.path().join(name);
    fs::create_dir(place("empty")).unwrap();
    assert!(written(&place("empty"), &[1], &VertexIds::Dense).finish().is_ok());
    let refused = |path: &Path, words: &[&str]| {
        let before = names(dir.path());
        let error = RunFolder::create(path).unwrap_err().to_string();
        for word in words.iter().copied().chain([path.to_str().unwrap()]) {
            assert!(error.contains(word), "{error:?} does not contain {word:?}");
        }
        assert_eq!(names(dir.path()), before);
    };
    refused(&place("empty"), &["must be new or empty", "a folder with", "choose another"]);
    fs::write(place("file"), "").unwrap();
    refused(&place("file"), &["this is a file"]);
    refused(&place("file").join("run"), &["cannot be written", "check the permissions"]);
    for path in ["", "/", ".", "..", "a/.."] {
        refused(Path::new(path), &["is not the name of a folder"]);
    }
    fs::create_dir(place("kept")).unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::symlink;
        symlink(place("nowhere"), place("dangling")).unwrap();
        refused(&place("dangling"), &["a link without a target"]);
        symlink(place("kept"), place("link")).unwrap();
        let path = written(&place("link"), &[1], &VertexIds::Dense).finish().unwrap();
        assert_eq!(path, place("link"));
        assert!(place("kept").join(SUMMARY).is_file() && place("link").is_symlink());
    }
}

#[cfg(unix)]
#[test]
fn a_folder_without_permission_is_an_error() {
    use std::os::unix::fs::PermissionsExt;
    let dir = scratch();
    let locked = dir.path().join("locked");
    fs::create_dir(&locked).unwrap();
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o555)).unwrap();
    if fs::write(locked.join("probe"), "").is_ok() {
        eprintln!("skipped: this user (root?) may write everywhere");
        return;
    }
    let error = RunFolder::create(&locked.join("run")).unwrap_err();
    assert!(matches!(error, Error::Write { .. }) && error.to_string().contains("Permission"), "{error}");
}

#[test]
fn a_long_name_is_no_obstacle() {
    let dir = scratch();
    let path = dir.path().join("n".repeat(255));
    assert!(Run::open(&written(&path, &[1], &VertexIds::Dense).finish().unwrap()).is_ok());
    let too_long = dir.path().join("n".repeat(256));
    assert!(matches!(RunFolder::create(&too_long), Err(Error::Write { .. })));
}

#[test]
fn a_finished_run_is_kept_if_its_place_was_taken() {
    let dir = scratch();
    let path = dir.path().join("run");
    let folder = written(&path, &[1], &VertexIds::Dense);
    fs::create_dir(&path).unwrap();
    fs::write(path.join("mine"), "").unwrap();
    let error = folder.finish().unwrap_err();
    let Error::Publish { kept, .. } = &error else { panic!("{error}") };
    assert!(error.to_string().contains("which is complete"), "{error}");
    assert!(Run::open(kept).is_ok());
    assert_eq!(names(&path), ["mine"]);
}

#[test]
fn arrays_that_do_not_fit_are_refused() {
    let dir = scratch();
    let mut folder = RunFolder::create(&dir.path().join("run")).unwrap();
    let mut place = folder.top();
    let two = VertexIds::Numbers(vec![1, 2]);
    let values = [0.0; 6];
    for (ids, scores, embeddings, word) in [
        (&two, &values[..], None, "ids must be 3, one for each row, found 2"),
        (&VertexIds::Dense, &values[..5], None, "scores must be one row for each of 3 rows, found 5 values"),
        (&VertexIds::Dense, &values, Some((4, &values[..])), "embeddings must be 3 rows of 4 values"),
        (&VertexIds::Dense, &values, Some((0, &[][..])), "embeddings must be 3 rows of 0 values"),
    ] {
        let error = place
            .write_predictions(&Arrays { ids, vertices: 3, scores: Some(scores), embeddings, known: None })
            .unwrap_err()
            .to_string();
        assert!(error.contains(word) && error.contains(PREDICTIONS), "{error}");
    }
    type Change = fn(&mut Vec<NamedTensor>);
    let changes: [(Change, &str); 6] = [
        (|t| t[0].name.clear(), "name must be unique and not empty"),
        (|t| t[0].name = "__metadata__".to_owned(), "name must be unique"),
        (|t| t[0].name = t[1].name.clone(), "name must be unique"),
        (|t| t[0].shape[0] = 4, "6 values for the shape [4, 2]"),
        (|t| t[0].shape = vec![usize::MAX, 2], "6 values for the shape"),
        (|t| *t = vec![t[0].clone(); MAX_TENSORS + 1], "4097 tensors, but the maximum is 4096"),
    ];
    for (change, word) in changes {
        let mut changed = tensors(0);
        change(&mut changed);
        let error = place.write_model(&changed, &metadata(0), &BTreeSet::new()).unwrap_err().to_string();
        assert!(error.contains(word) && error.contains(MODEL), "{error}");
    }
    let long = BTreeMap::from([("note".to_owned(), "x".repeat(MAX_HEADER_BYTES as usize))]);
    let error = place.write_model(&tensors(0), &long, &BTreeSet::new()).unwrap_err();
    assert!(matches!(error, Error::Limit { .. }), "{error}");
    // All ids take the space of the longest. With one of 1 MB, 300 ids take 1.2 GB.
    let mut words = vec![String::new(); 299];
    words.push("x".repeat(1_000_000));
    let error = folder.check_ids(&VertexIds::Words(words)).unwrap_err().to_string();
    assert!(error.contains("1200000000 bytes, but the maximum is 1073741824"), "{error}");
}

#[test]
fn saved_predictions_are_whole_or_not_there() {
    let dir = scratch();
    let path = dir.path().join("mine.npz");
    let save = |path: &Path, scores: Option<&[f32]>, embeddings| {
        let ids = &VertexIds::Dense;
        save_predictions(path, &Arrays { ids, vertices: 2, scores, embeddings, known: None })
    };
    save(&path, Some(&[1.0, 2.0]), None).unwrap();
    let first = fs::read(&path).unwrap();
    let error = save(&path, Some(&[1.0, 2.0, 3.0]), None).unwrap_err();
    assert!(matches!(error, Error::Values { .. }), "{error}");
    assert_eq!(fs::read(&path).unwrap(), first);
    save(&path, Some(&[1.0, 3.0]), None).unwrap();
    assert_ne!(fs::read(&path).unwrap(), first);
    // For link prediction, only embeddings are written.
    let has = |name: &str| {
        let archive = fs::read(&path).unwrap();
        archive.windows(name.len()).any(|bytes| bytes == name.as_bytes())
    };
    assert!(has("scores.npy") && !has("embeddings.npy"));
    save(&path, None, Some((2, &[1.0, 2.0, 3.0, 4.0]))).unwrap();
    assert!(!has("scores.npy") && has("embeddings.npy"));
    for bad in [dir.path().to_owned(), path.join("x")] {
        let error = save(&bad, Some(&[1.0, 2.0]), None).unwrap_err();
        assert!(matches!(error, Error::Write { .. }), "{error}");
    }
    assert_eq!(names(dir.path()), ["mine.npz"]);
    // The folder of the predictions is created.
    save(&dir.path().join("a/b/mine.npz"), Some(&[1.0, 2.0]), None).unwrap();
    assert_eq!(names(&dir.path().join("a/b")), ["mine.npz"]);
}

//! Tests with checkpoints that are damaged, missing, changed or of another run. Each case must be
//! reported, and none may be loaded.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod change;
mod damage;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use eciton_recipe::Config;
use eciton_runs::durable::Extent;
use eciton_runs::report::{EpochReport, Observer, Resumed, Silent, Summary};
use eciton_runs::run_folder::Error as FileError;
use eciton_tensor::SlabOwner;
use tempfile::TempDir;

use super::place::{Named, Place, folder};
use super::point::{self, Inside, Mark, Point};
use super::*;
use crate::driver::{Best, Trained};
use crate::error::{Error, Result};
use crate::options::Options;
use crate::weights::{Frozen, WeightState};

/// A small data set, and a run of two seeds with 6 epochs each. The run has left its checkpoints of
/// epochs 4 and 6.
struct Scene {
    dir: TempDir,
    summary: Summary,
    config: Config,
}

fn options(out: &Path) -> Options {
    Options { out: Some(out.to_owned()), seeds: 2, cache: crate::CachePolicy::Off, ..Options::default() }
}

fn write_data(folder: &Path, vertices: usize, first_feature: f32) {
    fs::create_dir_all(folder).unwrap();
    let write = |name: &str, head: &str, line: &dyn Fn(usize) -> String| {
        let lines: String = (0..vertices).map(line).collect();
        fs::write(folder.join(name), format!("{head}\n{lines}")).unwrap();
    };
    write("edges.csv", "source,target", &|v| format!("{v},{}\n", (v + 1) % vertices));
    write("features.csv", "id,a,b", &|v| {
        format!("{v},{},{}\n", if v == 0 { first_feature } else { (v % 2) as f32 }, (v + 1) % 2)
    });
    write("labels.csv", "id,class", &|v| format!("{v},{}\n", v % 2));
    write("split.csv", "id,split", &|v| format!("{v},{}\n", ["train", "val", "test"][v % 3]));
}

impl Scene {
    fn new() -> Self {
        Self::with(&[])
    }

    fn with(settings: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        write_data(&dir.path().join("data"), 12, 1.0);
        let mut config = Config::default();
        config.data.source = dir.path().join("data").display().to_string();
        for setting in ["run.epochs=6", "model.hidden=2", "run.keep=best", "checkpoint.every=2"] {
            config.set(setting).unwrap();
        }
        settings.iter().for_each(|setting| config.set(setting).unwrap());
        config.set("checkpoint.keep_after=true").unwrap();
        let out = dir.path().join("r");
        let summary = crate::train(&config, &options(&out), &mut Silent).unwrap();
        let scene = Self { dir, summary, config };
        // Simulates a process that was killed before the end of the run.
        fs::rename(&out, scene.dir.path().join("whole")).unwrap();
        scene
    }

    fn run(&self) -> PathBuf {
        self.dir.path().join("r")
    }

    fn place(&self) -> PathBuf {
        folder(&self.run())
    }

    fn find(&self) -> crate::Result<Found> {
        Found::open(&self.run(), Path::new("r"))
    }

    fn resume(&self, force: bool) -> crate::Result<(Summary, Resumed)> {
        struct Hears(Option<Resumed>);
        impl Observer for Hears {
            fn resumed(&mut self, resumed: &Resumed) {
                self.0 = Some(resumed.clone());
            }
        }
        let mut hears = Hears(None);
        let summary = crate::resume(&self.run(), force, &options(&self.run()), &mut hears)?;
        Ok((summary, hears.0.expect("a run that goes on says so")))
    }

    fn digests(summary: &Summary) -> Vec<&str> {
        summary.seeds.iter().map(|seed| seed.model_digest.as_str()).collect()
    }
}

fn names(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// Whole content of a checkpoint, for comparisons.
#[derive(Debug, Clone, PartialEq)]
struct Content {
    mark: Mark,
    weights: WeightState,
    best: Option<Best>,
    parameters: Vec<(String, Vec<usize>)>,
}

impl Content {
    fn write(&self, place: &Place, named: Named) -> Result<()> {
        let frozen = Frozen::for_test(&self.weights, &self.parameters);
        let entries = point::entries(&self.parameters, &frozen, self.best.as_ref());
        point::write(place.path(), named, &self.mark, &entries, &|_| {})
    }

    fn from_point(point: Point) -> Self {
        let (weights, best) = (point.state(), point.trained(Vec::new(), 1).best);
        Self { mark: point.mark, weights, best, parameters: point.parameters }
    }
}

struct Bytes(Vec<u8>);

impl SlabOwner for Bytes {
    fn bytes(&self) -> &[u8] {
        &self.0
    }
}

fn decode(bytes: &[u8], path: &Path) -> std::result::Result<Content, FileError> {
    Point::decode(Arc::new(Bytes(bytes.to_vec())), path).map(Content::from_point)
}

/// A checkpoint of two parameters.
fn point() -> Content {
    let values = |first: f32| vec![vec![first, -0.0, 1e-40, f32::MAX], vec![first]];
    let weights = WeightState {
        steps: 7,
        values: values(1.0),
        before: Some(values(5.0)),
        first: values(2.0),
        second: values(3.0),
    };
    let extent = || Extent { bytes: 0, sha256: eciton_runs::durable::sha256(b"") };
    Content {
        mark: Mark {
            format: FORMAT,
            eciton: "0.1.0".to_owned(),
            records: [0, 1, 2].map(|n| n.to_string()),
            seed: 3,
            epoch: 7,
            inside: Some(Inside::new(&Trained::default(), false)),
            finished: 0,
            steps: 7,
            best_epoch: Some(5),
            best_step: Some(5),
            metrics: extent(),
            seeds: extent(),
            seconds: 1.0 / 3.0,
            tasks: 1 << 53,
            bill: None,
        },
        weights,
        best: Some(Best { epoch: 5, step: 5, values: values(4.0).into() }),
        parameters: vec![("a/b".to_owned(), vec![2, 2]), ("bias".to_owned(), vec![1])],
    }
}

#[test]
fn a_checkpoint_reads_back() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("r");
    let place = Place::create(&run, &run).unwrap();
    let named = Named { seed: None, epoch: Some(7), step: None };
    for point in [point(), Content { best: None, mark: Mark { best_epoch: None, ..point().mark }, ..point() }]
    {
        point.write(&place, named).unwrap();
        let path = folder(&run).join("epoch-000007.safetensors");
        assert_eq!(Content::from_point(Point::read(&path).unwrap()), point);
    }
    assert_eq!(names(&folder(&run)), ["epoch-000007.safetensors", "lock"]);
}

#[test]
fn names_are_read_as_they_are_written() {
    for seed in [None, Some(0), Some(u64::MAX)] {
        for epoch in [None, Some(0), Some(999_999), Some(1_000_000), Some(u32::MAX)] {
            for step in [None, Some(1), Some(u32::MAX)] {
                let named = Named { seed, epoch, step: step.filter(|_| epoch.is_some()) };
                assert_eq!(Named::parse(&named.file()), Some(named));
            }
        }
    }
    for other in [
        "epoch-7.safetensors",
        "epoch-000007.safetensors.partial",
        "epoch-+00007.safetensors",
        "seed--epoch-000007.safetensors",
        "seed-01-final.safetensors",
        "seed-1.safetensors",
        "model.safetensors",
        ".safetensors",
        "seed-1-epoch-99999999999.safetensors",
        "epoch-000007-step-1.safetensors",
        "final-step-00000001.safetensors",
    ] {
        assert_eq!(Named::parse(other), None, "{other}");
    }
}

#[test]
fn the_newest_and_the_best_are_kept_and_it_goes_on() {
    let scene = Scene::new();
    let found = names(&scene.place());
    let seed = &scene.summary.seeds[1];
    let points: Vec<&String> = found.iter().filter(|name| name.contains("seed-1-epoch")).collect();
    assert!(points.len() >= 2 && points.iter().any(|name| name.contains("epoch-000006")), "{found:?}");
    assert!(points.iter().any(|name| name.contains("epoch-000004")), "{found:?}");
    assert!(
        found.contains(&"final.safetensors".to_owned()) && !found.contains(&"lock".to_owned()),
        "{found:?}"
    );
    let (summary, resumed) = scene.resume(false).unwrap();
    assert_eq!((resumed.seed, resumed.epoch, resumed.epochs_done), (1, 6, 12.0));
    assert_eq!(Scene::digests(&summary), Scene::digests(&scene.summary));
    assert_eq!(summary.seeds[1].metrics, seed.metrics);
    // No task is missing from the count. The models of both seeds are evaluated once more, in three
    // tasks each.
    assert_eq!(summary.tasks, scene.summary.tasks + 6);
    assert!(summary.total_seconds > 0.0 && summary.epoch_seconds_median > 0.0);
    // Every file equals that of the uninterrupted run, except for times.
    for file in
        ["config.toml", "versions.json", "model.safetensors", "predictions.npz", "seed-1/predictions.npz"]
    {
        let content = |folder: &str| fs::read(scene.dir.path().join(folder).join(file)).unwrap();
        assert_eq!(content("r"), content("whole"), "{file}");
    }
    // Resuming a finished run returns its summary again.
    let again = crate::resume(&scene.run(), false, &options(&scene.run()), &mut Silent).unwrap();
    assert_eq!(again.model_digest, summary.model_digest);
}

#[test]
fn every_optimiser_goes_on_to_the_same_bits() {
    let moving = ["optimiser.schedule=exponential", "optimiser.gamma=0.8", "optimiser.warmup=2"];
    for kind in [
        &["optimiser.kind=adamw", "run.intervals=1"][..],
        &["optimiser.kind=sgd", "optimiser.momentum=0.9", "optimiser.nesterov=true"],
        &["optimiser.kind=adam", "optimiser.clip_norm=0.1", "run.keep=last"],
    ] {
        let scene = Scene::with(&[&moving[..], kind].concat());
        fs::remove_file(scene.place().join("seed-1-epoch-000006.safetensors")).unwrap();
        let (summary, resumed) = scene.resume(false).unwrap();
        assert_eq!((resumed.seed, resumed.epoch), (1, 4), "{kind:?}");
        assert_eq!(Scene::digests(&summary), Scene::digests(&scene.summary), "{kind:?}");
    }
}

#[test]
fn a_run_that_had_stopped_early_does_not_go_on_training() {
    let patient = ["run.patience=3", "run.min_delta=0.9", "run.epochs=50", "checkpoint.every=1"];
    let scene = Scene::with(&patient);
    let stopped = |summary: &Summary| -> Vec<(u32, Option<u32>, Option<u32>)> {
        summary.seeds.iter().map(|s| (s.epochs, s.stopped_early, s.kept_epoch)).collect()
    };
    // No accuracy can improve by this difference more than once.
    assert!(
        scene.summary.seeds.iter().all(|s| s.epochs < 50 && s.stopped_early == Some(3)),
        "{:?}",
        scene.summary
    );
    for newest in [true, false] {
        if !newest {
            fs::remove_dir_all(scene.run()).unwrap();
            let last = Named { seed: Some(1), epoch: Some(scene.summary.seeds[1].epochs), step: None };
            fs::remove_file(scene.place().join(last.file())).unwrap();
        }
        let (summary, _) = scene.resume(false).unwrap();
        assert_eq!(stopped(&summary), stopped(&scene.summary));
        assert_eq!(Scene::digests(&summary), Scene::digests(&scene.summary));
        assert!(!summary.stopped);
    }
}

#[test]
fn only_the_last_ones_stay() {
    let scene = Scene::with(&["checkpoint.every=1", "checkpoint.keep=1", "run.eval_every=6"]);
    let found = names(&scene.place());
    let points: Vec<&String> = found.iter().filter(|name| name.contains("epoch-")).collect();
    // The only epoch that is evaluated is the last one, and so the best.
    assert_eq!(points, ["seed-1-epoch-000006.safetensors"]);
}

#[test]
fn without_checkpoints_there_is_no_folder() {
    let scene = Scene::with(&["checkpoint.every=0", "checkpoint.seconds=0"]);
    assert!(!scene.place().exists());
    // If the first checkpoint is due after the end, none is written.
    let late = Scene::with(&["checkpoint.every=100"]);
    assert!(!late.place().exists());
    let error = late.resume(false).unwrap_err();
    assert!(matches!(error, Error::NoCheckpoint { .. }), "{error}");
    assert!(
        error.to_string().contains("r.checkpoint") && error.to_string().contains("eciton train"),
        "{error}"
    );
}

#[test]
fn a_run_that_fails_leaves_its_checkpoints_and_no_other_rest() {
    let scene = Scene::new();
    fs::remove_dir_all(scene.place()).unwrap();
    let mut failing = scene.config.clone();
    // This learning rate makes weights overflow f32 after some epochs. Then the loss is NaN.
    for setting in ["optimiser.kind=sgd", "optimiser.lr=1e20", "run.epochs=60", "checkpoint.every=1"] {
        failing.set(setting).unwrap();
    }
    let error = crate::train(&failing, &options(&scene.run()), &mut Silent).unwrap_err();
    assert!(matches!(error, Error::NotFinite { .. }), "{error}");
    assert!(is_resumable(&scene.run()));
    assert_eq!(names(scene.dir.path()), ["data", "r.checkpoint", "whole"]);
    // If training fails before the first checkpoint, no file is left.
    fs::remove_dir_all(scene.place()).unwrap();
    failing.set("checkpoint.every=1000").unwrap();
    crate::train(&failing, &options(&scene.run()), &mut Silent).unwrap_err();
    assert_eq!(names(scene.dir.path()), ["data", "whole"]);
}

//! Tests of resuming after changes, with concurrent processes, and with files left by killed
//! processes.

use super::*;

fn refused(scene: &Scene) -> String {
    match scene.resume(false) {
        Err(error @ Error::Changed { forceable: true, .. }) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn other_data_is_refused_unless_forced() {
    let scene = Scene::new();
    let data = scene.dir.path().join("data");
    write_data(&data, 12, 0.5);
    let error = refused(&scene);
    assert!(error.contains("the digest of the data's features was") && error.contains("--force"), "{error}");
    write_data(&data, 15, 1.0);
    let error = refused(&scene);
    assert!(error.contains("had 12 vertices and now has 15"), "{error}");
    // The refused attempt has changed no file.
    write_data(&data, 12, 1.0);
    let (summary, _) = scene.resume(false).unwrap();
    assert_eq!(Scene::digests(&summary), Scene::digests(&scene.summary));
}

#[test]
fn forced_it_goes_on_with_what_there_is() {
    let scene = Scene::new();
    write_data(&scene.dir.path().join("data"), 12, 0.5);
    let (summary, resumed) = scene.resume(true).unwrap();
    assert_eq!((summary.seeds.len(), resumed.differences.len()), (2, 1));
}

#[test]
fn columns_are_matched_by_name_and_a_missing_one_is_refused_for_good() {
    let scene = Scene::new();
    let features = scene.dir.path().join("data/features.csv");
    let text = fs::read_to_string(&features).unwrap();
    let head = text.lines().next().unwrap();
    let last = head.rsplit(',').next().unwrap();
    fs::write(&features, text.replacen(last, "other", 1)).unwrap();
    for force in [false, true] {
        let error = scene.resume(force).unwrap_err().to_string();
        assert!(error.contains(last) && error.contains("other"), "{error}");
    }
    let wider: String = text
        .lines()
        .map(|line| format!("{line},{}\n", if line.starts_with("id") { "more" } else { "1" }))
        .collect();
    fs::write(&features, wider).unwrap();
    let (summary, _) = scene.resume(false).unwrap();
    assert_eq!(Scene::digests(&summary), Scene::digests(&scene.summary));
}

#[test]
fn data_that_is_gone_leaves_a_run_that_can_go_on() {
    let scene = Scene::new();
    fs::remove_dir_all(scene.dir.path().join("data")).unwrap();
    let error = scene.resume(true).unwrap_err().to_string();
    assert!(error.contains("data"), "{error}");
    assert!(is_resumable(&scene.run()), "what cannot go on now may later");
}

#[test]
fn other_settings_kernels_and_versions_are_named() {
    let scene = Scene::new();
    let change = |file: &str, from: &str, to: &str| {
        let path = scene.place().join(file);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{text}");
        fs::write(&path, text.replacen(from, to, 1)).unwrap();
    };
    change(CONFIG, "lr = 0.01", "lr = 0.02");
    let error = refused(&scene);
    assert!(error.contains("config.toml was changed") && !error.contains("versions.json"), "{error}");
    change(CONFIG, "lr = 0.02", "lr = 0.01");
    let class = eciton_tensor::simd::numeric_class();
    change(VERSIONS, class, "other-9");
    let error = refused(&scene);
    assert!(error.contains(&format!("the numeric class was other-9 and is now {class}")), "{error}");
    change(VERSIONS, "other-9", class);
    let found = scene.find().unwrap();
    let digest = found.versions.kernels["linear"].clone();
    drop(found);
    change(VERSIONS, &digest, &"0".repeat(64));
    let error = refused(&scene);
    assert!(error.contains("kernel linear was 000000000000 and is now"), "{error}");
    change(VERSIONS, &"0".repeat(64), &digest);
    // Fewer or other seeds or epochs than are done are refused. More are allowed with `force`.
    for seeds in ["1", "0"] {
        change(RUN, "\"seeds\": 2", &format!("\"seeds\": {seeds}"));
        let error = scene.resume(true).unwrap_err();
        assert!(matches!(error, Error::Changed { forceable: false, .. }), "{error}");
        assert!(error.to_string().contains("the run has 1 seeds from 0 on"), "{error}");
        change(RUN, &format!("\"seeds\": {seeds}"), "\"seeds\": 2");
    }
    change(CONFIG, "seed = 0", "seed = 1");
    assert!(matches!(scene.resume(true), Err(Error::NoCheckpoint { .. })));
    change(CONFIG, "seed = 1", "seed = 0");
    change(CONFIG, "epochs = 6", "epochs = 5");
    let error = scene.resume(true).unwrap_err();
    assert!(matches!(error, Error::Changed { forceable: false, .. }), "{error}");
    change(CONFIG, "epochs = 5", "epochs = 9");
    let (summary, resumed) = scene.resume(true).unwrap();
    assert_eq!(
        (summary.seeds[1].epochs, resumed.differences),
        (9, vec!["config.toml was changed".to_owned()])
    );
}

#[test]
fn one_process_at_a_time() {
    let scene = Scene::new();
    let held = scene.find().unwrap();
    let busy =
        |result: crate::Result<Summary>| assert!(matches!(result, Err(Error::Busy { .. })), "{result:?}");
    busy(scene.resume(false).map(|(summary, _)| summary));
    busy(crate::train(&scene.config, &options(&scene.run()), &mut Silent));
    drop(held);
    // The lock is released. The unfinished run must still be resumed or removed.
    let error = crate::train(&scene.config, &options(&scene.run()), &mut Silent).unwrap_err();
    assert!(matches!(error, Error::Unfinished { epoch: 6, .. }), "{error}");
    assert_eq!(names(scene.dir.path()), ["data", "r.checkpoint", "whole"]);
    scene.resume(false).unwrap();
}

#[test]
fn what_a_kill_left_is_removed() {
    let scene = Scene::new();
    let dir = |name: &str| scene.dir.path().join(name);
    let others =
        [".other.partial-BBBBBB", ".r.partial-CCCCCCC", ".r.partial-x.partial-DDDDDD", "r.partial-EEEEEE"];
    for folder in others.iter().chain(&[".r.partial-AAAAAA"]) {
        fs::create_dir(dir(folder)).unwrap();
        fs::write(dir(folder).join("f"), "x").unwrap();
    }
    // An incomplete checkpoint, as a process leaves it that is killed during a write.
    fs::write(scene.place().join("seed-1-epoch-000006.safetensors.partial"), "half").unwrap();
    scene.resume(false).unwrap();
    let left = [&others[..], &["data", "r", "r.checkpoint", "whole"]].concat();
    let (mut left, found) = (left, names(scene.dir.path()));
    left.sort_unstable();
    assert_eq!(found, left);
    // A new run, with or without checkpoints, also removes the files that a killed run left.
    for setting in ["checkpoint.every=1", "checkpoint.every=0"] {
        fs::remove_dir_all(scene.run()).unwrap();
        fs::remove_dir_all(scene.place()).ok();
        let mut config = scene.config.clone();
        for setting in [setting, "checkpoint.seconds=0"] {
            config.set(setting).unwrap();
        }
        fs::create_dir(scene.place()).unwrap();
        fs::write(scene.place().join("lock"), "").unwrap();
        fs::write(scene.place().join("config.toml"), "").unwrap();
        fs::create_dir(dir(".r.partial-AAAAAA")).unwrap();
        crate::train(&config, &options(&scene.run()), &mut Silent).unwrap();
        assert!(!dir(".r.partial-AAAAAA").exists());
        assert_eq!(scene.place().exists(), setting == "checkpoint.every=1", "keep_after");
    }
}

#[test]
fn a_kill_after_publishing_is_cleaned_up() {
    let scene = Scene::with(&[]);
    let config = scene.place().join(CONFIG);
    let kept = fs::read_to_string(&config).unwrap();
    // Simulates a run without `keep_after` whose process was killed right after the run folder was
    // published.
    fs::rename(scene.dir.path().join("whole"), scene.run()).unwrap();
    for file in [config.clone(), scene.run().join(CONFIG)] {
        fs::write(file, kept.replace("keep_after = true", "keep_after = false")).unwrap();
    }
    fs::write(&config, "[run]\nepochs = 3\n").unwrap();
    let error = crate::resume(&scene.run(), false, &options(&scene.run()), &mut Silent).unwrap_err();
    assert!(matches!(error, Error::Foreign { .. }), "{error}");
    fs::write(&config, kept.replace("keep_after = true", "keep_after = false")).unwrap();
    let summary = crate::resume(&scene.run(), false, &options(&scene.run()), &mut Silent).unwrap();
    assert_eq!(summary.model_digest, scene.summary.model_digest);
    assert_eq!(names(scene.dir.path()), ["data", "r"]);
}

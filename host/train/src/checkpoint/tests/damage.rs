//! Tests that every prefix of a checkpoint and every flipped bit gives an error or the original
//! content.

use super::*;
use eciton_graph::random::SplitMix64;

fn bytes_of(point: &Content) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("r");
    let place = Place::create(&run, &run).unwrap();
    let named = Named { seed: None, epoch: Some(7), step: None };
    point.write(&place, named).unwrap();
    fs::read(folder(&run).join(named.file())).unwrap()
}

#[test]
fn no_prefix_is_taken() {
    let bytes = bytes_of(&point());
    let path = Path::new("p.safetensors");
    assert_eq!(decode(&bytes, path).unwrap(), point());
    for length in 0..bytes.len() {
        let error = decode(&bytes[..length], path).unwrap_err().to_string();
        assert!(error.contains("p.safetensors"), "{length}: {error}");
    }
    let longer = [&bytes[..], &[0; 4]].concat();
    assert!(decode(&longer, path).is_err());
}

#[test]
fn no_flipped_bit_is_loaded() {
    let bytes = bytes_of(&point());
    let (mut refused, mut same) = (0, 0);
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << bit;
            match decode(&damaged, Path::new("p")) {
                Err(_) => refused += 1,
                // JSON ignores the changed white space.
                Ok(found) => {
                    assert_eq!(found, point(), "byte {at}, bit {bit}");
                    same += 1;
                }
            }
        }
    }
    assert!(refused > 20 * same, "{refused} refused, {same} the same");
}

#[test]
fn several_damages_at_once_are_errors_too() {
    let bytes = bytes_of(&point());
    for seed in 0..3000 {
        let mut random = SplitMix64::new(seed);
        let mut below = |n: usize| (random.next_u64() % n as u64) as usize;
        let mut damaged = bytes.clone();
        for _ in 0..1 + below(5) {
            let at = below(damaged.len());
            match below(4) {
                0 => damaged[at] = below(256) as u8,
                1 if damaged.len() > 1 => drop(damaged.remove(at)),
                2 => damaged.insert(at, below(256) as u8),
                _ => {
                    let (from, len) = (below(damaged.len()), below(64));
                    let piece: Vec<u8> = damaged.iter().skip(from).take(len).copied().collect();
                    damaged.splice(at..at, piece);
                }
            }
        }
        if let Ok(found) = decode(&damaged, Path::new("p")) {
            assert_eq!(found, point(), "seed {seed}");
        }
    }
}

/// Returns the seed and epoch at which a folder would be resumed, and the number of damaged
/// checkpoints.
fn goes_on_from(scene: &Scene) -> (u64, u32, usize) {
    let found = scene.find().unwrap();
    (found.point.mark.seed, found.point.mark.epoch, found.damaged.len())
}

#[test]
fn the_one_before_is_taken_and_the_end_is_the_same() {
    let scene = Scene::new();
    assert_eq!(goes_on_from(&scene), (1, 6, 0));
    let newest = scene.place().join("seed-1-epoch-000006.safetensors");
    let whole = fs::read(&newest).unwrap();
    for damaged in [&whole[..whole.len() / 2], &[], &[0xff; 100]] {
        fs::write(&newest, damaged).unwrap();
        assert_eq!(goes_on_from(&scene), (1, 4, 1));
    }
    // A checkpoint under the file name of another one is refused.
    fs::write(&newest, fs::read(scene.place().join("seed-1-epoch-000004.safetensors")).unwrap()).unwrap();
    assert_eq!(goes_on_from(&scene), (1, 4, 1));
    let (summary, resumed) = scene.resume(false).unwrap();
    assert!(resumed.damaged.len() == 1 && resumed.damaged[0].contains("seed-1-epoch-000006"), "{resumed:?}");
    assert_eq!(Scene::digests(&summary), Scene::digests(&scene.summary));
    let lines = |folder: &str| fs::read_to_string(scene.dir.path().join(folder).join(METRICS)).unwrap();
    let epochs = |text: String| -> Vec<(u64, u32, u64)> {
        let reports = text.lines().map(|line| serde_json::from_str::<EpochReport>(line).unwrap());
        reports.map(|e| (e.seed, e.epoch, e.loss.to_bits())).collect()
    };
    assert_eq!(epochs(lines("r")), epochs(lines("whole")));
}

#[test]
fn what_came_after_it_is_removed() {
    let scene = Scene::new();
    let newest = scene.place().join("seed-1-epoch-000006.safetensors");
    fs::write(&newest, "damaged").unwrap();
    let found = scene.find().unwrap();
    let (lines, metrics) = (found.metrics.clone(), scene.place().join(METRICS));
    assert!(fs::read(&metrics).unwrap().len() > lines.len());
    let beginning = Beginning {
        settings: scene.config.checkpoint.clone(),
        records: [CONFIG, VERSIONS, RUN].map(|file| fs::read(scene.place().join(file)).unwrap()),
        parameters: found.point.parameters.clone(),
        first_seed: 0,
        begun: std::time::Instant::now(),
    };
    let saver = found.saver(beginning).unwrap();
    assert!(!newest.exists() && saver.has_written());
    assert_eq!(fs::read(&metrics).unwrap(), lines);
}

#[test]
fn what_belongs_to_a_checkpoint_is_checked_too() {
    let scene = Scene::new();
    let journal = scene.place().join(METRICS);
    let whole = fs::read(&journal).unwrap();
    let text = String::from_utf8(whole.clone()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let until = |n: usize| lines[..n].iter().map(|line| line.len() + 1).sum::<usize>();
    // A line that only the newest checkpoint needs is damaged. The previous checkpoint is used.
    fs::write(&journal, &whole[..until(11)]).unwrap();
    assert_eq!(goes_on_from(&scene), (1, 4, 1));
    let mut flipped = whole.clone();
    flipped[until(10) + 20] ^= 1;
    fs::write(&journal, &flipped).unwrap();
    assert_eq!(goes_on_from(&scene), (1, 4, 1));
    // Additional lines belong to a checkpoint that was not completed, and are ignored.
    fs::write(&journal, [&whole[..], b"{\"seed\":"].concat()).unwrap();
    assert_eq!(goes_on_from(&scene), (1, 6, 0));
    // A line that all checkpoints need.
    flipped = whole.clone();
    flipped[20] ^= 1;
    fs::write(&journal, &flipped).unwrap();
    let error = scene.find().unwrap_err().to_string();
    assert!(
        error.contains("all checkpoints in r.checkpoint are damaged") && error.contains(METRICS),
        "{error}"
    );
    fs::remove_file(&journal).unwrap();
    assert!(matches!(scene.find(), Err(Error::NoCheckpoint { .. })));
    fs::write(&journal, &whole).unwrap();
    // The final model of a finished seed.
    let model = scene.place().join("final.safetensors");
    let bytes = fs::read(&model).unwrap();
    fs::write(&model, &bytes[..bytes.len() - 1]).unwrap();
    let error = scene.find().unwrap_err().to_string();
    assert!(error.contains("final.safetensors"), "{error}");
    fs::write(&model, &bytes).unwrap();
    assert_eq!(goes_on_from(&scene), (1, 6, 0));
}

#[test]
fn a_hostile_folder_is_an_error() {
    let scene = Scene::new();
    for file in [CONFIG, VERSIONS, RUN] {
        let path = scene.place().join(file);
        let whole = fs::read(&path).unwrap();
        for content in [&b""[..], b"[", &[0xff, 0xfe], b"{\"format\": 2}", b"x = 1", &[b'['; 100_000]] {
            if file == CONFIG && content.is_empty() {
                continue; // The default configuration, which is another one.
            }
            fs::write(&path, content).unwrap();
            let error = scene.find().unwrap_err().to_string();
            assert!(error.contains(file), "{file}: {error}");
        }
        fs::remove_file(&path).unwrap();
        assert!(scene.find().unwrap_err().to_string().contains(file));
        fs::create_dir(&path).unwrap();
        assert!(scene.find().unwrap_err().to_string().contains(file));
        fs::remove_dir(&path).unwrap();
        fs::write(&path, whole).unwrap();
    }
    let later =
        fs::read_to_string(scene.place().join(RUN)).unwrap().replace("\"format\": 2", "\"format\": 9");
    fs::write(scene.place().join(RUN), later).unwrap();
    let error = scene.find().unwrap_err().to_string();
    assert!(error.contains("format 9") && error.contains("reads format 2"), "{error}");
    fs::remove_dir_all(scene.place()).unwrap();
    fs::write(scene.place(), "a file").unwrap();
    assert!(matches!(scene.find(), Err(Error::NoCheckpoint { .. })));
    let error = crate::train(&scene.config, &options(&scene.run()), &mut Silent).unwrap_err().to_string();
    assert!(error.contains("r.checkpoint"), "{error}");
}

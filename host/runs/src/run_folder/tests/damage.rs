//! Missing, damaged and hostile files: each an error, none a panic.

use super::*;
use eciton_graph::random::SplitMix64;

fn refused(path: &Path) -> String {
    Run::open(path).unwrap_err().to_string()
}

#[test]
fn what_is_no_run_is_named() {
    let dir = scratch();
    let path = finished(&dir, &[1, 2]);
    let text = refused(&dir.path().join("none"));
    assert!(
        text.contains("not a run folder, because it does not exist") && text.contains("train --out"),
        "{text}"
    );
    assert!(refused(&path.join(CONFIG)).contains("not a run folder, because it is a file"));
    assert!(refused(dir.path()).contains("it has no summary.json"));
    for file in [CONFIG, VERSIONS, SUMMARY, MODEL] {
        let content = fs::read(path.join(file)).unwrap();
        fs::remove_file(path.join(file)).unwrap();
        let text = refused(&path);
        assert!(text.contains("missing from the run") && text.contains(file), "{text}");
        fs::create_dir(path.join(file)).unwrap();
        let text = refused(&path);
        assert!(text.contains("found a folder") && text.contains(file), "{text}");
        fs::remove_dir(path.join(file)).unwrap();
        fs::write(path.join(file), content).unwrap();
    }
    let run = Run::open(&path).unwrap();
    fs::remove_file(path.join("seed-2").join(MODEL)).unwrap();
    assert!(matches!(run.model(2), Err(Error::Missing { .. })));
}

#[cfg(unix)]
#[test]
fn a_pipe_does_not_hang() {
    let dir = scratch();
    let path = finished(&dir, &[1]);
    fs::remove_file(path.join(MODEL)).unwrap();
    let made = std::process::Command::new("mkfifo").arg(path.join(MODEL)).status();
    if !made.is_ok_and(|status| status.success()) {
        eprintln!("skipped: no mkfifo here");
        return;
    }
    assert!(refused(&path).contains("found a pipe or a device"));
}

#[test]
fn another_format_is_told_by_its_version() {
    let dir = scratch();
    let path = finished(&dir, &[1]);
    let text = fs::read_to_string(path.join(SUMMARY)).unwrap();
    let (format, eciton) = ("\"format\": 2", format!("\"eciton\": \"{ECITON_VERSION}\""));
    assert!(text.contains(format) && text.contains(&eciton), "{text}");
    let later = text.replace(format, "\"format\": 3").replace(&eciton, "\"eciton\": \"7.0.0\"");
    fs::write(path.join(SUMMARY), later).unwrap();
    let found = refused(&path);
    assert!(
        found.contains("format 3 (written by eciton 7.0.0)") && found.contains("reads format 2"),
        "{found}"
    );
    let cases = [
        ("{\"format\": 3}", "of unknown version"),
        ("{\"format\": \"1\"}", "a run's summary with a `format`"),
        ("[]", "a `format`"),
        ("", "expected JSON"),
        ("{\"format\": 1}", "missing field"),
        ("{\"format\": 1, \"seeds\": 5}", "expected a run's summary"),
        ("{\"format\": 1e999}", "number out of range"),
    ];
    for (content, word) in cases {
        fs::write(path.join(SUMMARY), content).unwrap();
        let found = refused(&path);
        assert!(found.contains(word) && found.contains(SUMMARY), "{content}: {found}");
    }
    for deep in ["[", "{\"a\":"] {
        fs::write(path.join(SUMMARY), deep.repeat(100_000)).unwrap();
        assert!(refused(&path).contains("recursion limit"));
    }
    let mut empty = summary(&[1]);
    empty.seeds.clear();
    fs::write(path.join(SUMMARY), record::summary_json(&empty, &path, &BTreeMap::new(), &path).unwrap())
        .unwrap();
    assert!(refused(&path).contains("at least one seed"));
}

#[test]
fn a_damaged_configuration_shows_its_line() {
    let dir = scratch();
    let path = finished(&dir, &[1]);
    fs::write(path.join(CONFIG), "[run]\nepoch = 3\n").unwrap();
    let text = refused(&path);
    assert!(text.contains("did you mean `run.epochs`?") && text.contains("config.toml:2:1"), "{text}");
    fs::write(path.join(CONFIG), [0xff]).unwrap();
    assert!(refused(&path).contains("UTF-8"));
}

#[test]
fn weights_of_another_run_are_refused() {
    let dir = scratch();
    let path = finished(&dir, &[1, 2]);
    let other = fs::read(path.join("seed-2").join(MODEL)).unwrap();
    fs::write(path.join(MODEL), other).unwrap();
    let text = refused(&path);
    assert!(text.contains("but summary.json records") && text.contains(MODEL), "{text}");
}

/// Returns a model file with this header and this number of bytes of values.
fn file(header: &str, bytes: usize) -> Vec<u8> {
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.resize(file.len() + bytes, 0);
    file
}

#[test]
fn hostile_model_files_are_errors() {
    let one = r#""w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}"#;
    let tensor = |dtype: &str, shape: &str, offsets: &str| {
        format!("{{\"w\":{{\"dtype\":\"{dtype}\",\"shape\":{shape},\"data_offsets\":{offsets}}}}}")
    };
    let huge = "[18446744073709551615,18446744073709551615]";
    let cases = [
        (vec![], "complete safetensors file"),
        (vec![1, 0, 0], "complete safetensors file"),
        (vec![255; 8], "18446744073709551615 bytes, but the maximum is 1048576"),
        ((1u64 << 40).to_le_bytes().to_vec(), "but the maximum is 1048576"),
        (100u64.to_le_bytes().to_vec(), "complete safetensors file"),
        (file("{", 0), "invalid JSON"),
        (file(&"[".repeat(100_000), 0), "invalid JSON"),
        (file(&format!("{{{one}}}"), 4), "`digest` in the metadata, found none"),
        (file(&format!("{{{one}}}"), 5), "complete safetensors file"),
        (file(&format!("{{{one}}}"), 3), "complete safetensors file"),
        (file(&format!("{{{one},{one}}}"), 4), "`digest`"),
        (file(&format!("{{\"__metadata__\":{{\"digest\":\"00\"}},{one}}}"), 4), "its own header records 00"),
        (file(&format!("{{\"__metadata__\":{{\"digest\":1}},{one}}}"), 4), "complete safetensors file"),
        (file(&tensor("F32", huge, "[0,4]"), 4), "overflow"),
        (file(&tensor("F32", "[0]", "[0,0]"), 0), "at least one value"),
        (file(&tensor("F64", "[1]", "[0,8]"), 8), "named tensors of F32"),
        (file(&tensor("F4", "[1]", "[0,1]"), 1), "complete safetensors file"),
        (file(&tensor("F99", "[1]", "[0,4]"), 4), "invalid JSON"),
        (file(&tensor("F32", "[1]", "[4,0]"), 4), "complete safetensors file"),
        (file(&tensor("F32", "[1]", "[0,18446744073709551615]"), 4), "complete safetensors file"),
        (file(&tensor("F32", "[-1]", "[0,4]"), 4), "invalid JSON"),
        (file(r#"{"":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#, 4), "named tensors"),
    ];
    for (bytes, word) in cases {
        let error = model::decode(&bytes, Path::new("m.safetensors")).unwrap_err().to_string();
        assert!(error.contains(word) && error.contains("m.safetensors"), "{error:?} has no {word:?}");
    }
    let many: Vec<String> = (0..=MAX_TENSORS)
        .map(|n| {
            format!("\"{n}\":{{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[{},{}]}}", 4 * n, 4 * n + 4)
        })
        .collect();
    let bytes = file(&format!("{{{}}}", many.join(",")), 4 * many.len());
    let error = model::decode(&bytes, Path::new("m")).unwrap_err().to_string();
    assert!(error.contains("4097 tensors, but the maximum is 4096"), "{error}");
}

#[test]
fn truncation_of_the_model_at_every_byte_is_an_error() {
    let dir = scratch();
    let whole = fs::read(finished(&dir, &[1]).join(MODEL)).unwrap();
    for end in 0..whole.len() {
        assert!(model::decode(&whole[..end], Path::new("m")).is_err(), "{end}");
    }
    assert_eq!(model::decode(&whole, Path::new("m")).unwrap().tensors, tensors(1));
}

/// Changes, cuts, repeats or inserts some bytes.
fn mutate(random: &mut SplitMix64, bytes: &mut Vec<u8>) {
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len() as u64) as usize;
        match random.below(8) {
            0..=3 => bytes[at] ^= 1 << random.below(8),
            4 => bytes[at] = b"\"{}[],:0189-e\\\n\0\xff"[random.below(17) as usize],
            5 => bytes.insert(at, random.next_u64() as u8),
            6 => {
                let end = (at + random.below(40) as usize).min(bytes.len());
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
            _ => {
                bytes.remove(at);
                if bytes.is_empty() {
                    bytes.push(0);
                }
            }
        }
    }
}

#[test]
fn mutated_files_never_panic_and_never_give_other_weights() {
    let dir = scratch();
    let path = finished(&dir, &[1]);
    for file in [MODEL, SUMMARY, VERSIONS, CONFIG] {
        let whole = fs::read(path.join(file)).unwrap();
        let mut passed = 0;
        for seed in 0..500 {
            let mut bytes = whole.clone();
            mutate(&mut SplitMix64::new(seed), &mut bytes);
            fs::write(path.join(file), &bytes).unwrap();
            match Run::open(&path) {
                Ok(run) => {
                    assert_eq!(run.tensors, tensors(1), "{file}, seed {seed}");
                    passed += 1;
                }
                Err(error) => assert!(error.to_string().contains(path.to_str().unwrap()), "{error}"),
            }
        }
        println!("{file}: seeds 0..500, {passed} left a run that opens");
        fs::write(path.join(file), &whole).unwrap();
    }
}

//! Weights of layers of signs in the run folder, and rows that travel as signs: by `train`, `predict` and `eval` alone.

use std::collections::BTreeMap;
use std::path::Path;

use crate::common::{eciton, killed_after, works};
use serde_json::Value;

const TRAIN: [&str; 7] = ["train", "cora", "--recipe", "binary", "--epochs", "6", "--json"];

/// Kind, extents and bytes of each tensor.
type Tensors = BTreeMap<String, (String, Vec<u64>, u64)>;

/// The tensors of a model file, and its metadata.
fn tensors(model: &Path) -> (Tensors, Value) {
    let bytes = std::fs::read(model).unwrap();
    let length = u64::from_le_bytes(*bytes.first_chunk::<8>().unwrap()) as usize;
    let mut header: BTreeMap<String, Value> = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    let metadata = header.remove("__metadata__").unwrap();
    let whole = |value: &Value| value.as_u64().unwrap();
    let of = |(name, info): (String, Value)| {
        let shape = info["shape"].as_array().unwrap().iter().map(whole).collect();
        let [start, end] = [0, 1].map(|at| whole(&info["data_offsets"][at]));
        (name, (info["dtype"].as_str().unwrap().to_owned(), shape, end - start))
    };
    (header.into_iter().map(of).collect(), metadata)
}

fn summary(out: &str) -> Value {
    serde_json::from_str(out.lines().last().unwrap()).unwrap()
}

#[test]
fn weights_of_signs_take_a_bit_and_predict_the_same_bits() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    let trained = summary(&works(folder, &[&TRAIN[..], &["--out", "run"]].concat()));
    let (found, metadata) = tensors(&folder.join("run/model.safetensors"));
    assert_eq!(found["layers.0.weight.signs"], ("U8".to_owned(), vec![1433, 8], 1433 * 8));
    assert_eq!(found["layers.0.weight.scales"], ("F32".to_owned(), vec![64], 64 * 4));
    assert_eq!(found["layers.2.weight.signs"], ("U8".to_owned(), vec![64, 1], 64));
    assert!(!found.contains_key("layers.0.weight"), "{found:?}");
    let packed: u64 =
        found.iter().filter(|(name, _)| name.contains(".weight.")).map(|(_, (.., bytes))| bytes).sum();
    let numbers = 4 * (1433 * 64 + 64 * 7);
    assert!(25 * packed <= numbers, "{packed} bytes of {numbers}");
    assert_eq!(metadata["digest"], trained["model_digest"], "the digest is of the weights that were trained");
    assert_ne!(metadata["unpacked_digest"], metadata["digest"]);

    // The run's own predictions were made by its f32 weights.
    works(folder, &["predict", "run", "--out", "anew.npz"]);
    let [own, anew] =
        ["run/predictions.npz", "anew.npz"].map(|file| std::fs::read(folder.join(file)).unwrap());
    assert!(own == anew, "scores are of other bits");
    let judged = summary(&works(folder, &["eval", "run", "--json"]));
    assert_eq!((&judged["reproduced"], &judged["model_digest"]), (&true.into(), &trained["model_digest"]));

    // A run may begin from them.
    let begun = ["--out", "further", "--set", "run.init=run"];
    let further = summary(&works(folder, &[&TRAIN[..], &begun].concat()));
    assert_ne!(further["model_digest"], trained["model_digest"]);
}

#[test]
fn a_killed_run_of_two_seeds_goes_on_to_the_same_files() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    let line = [&TRAIN[..], &["--seeds", "2", "--set", "checkpoint.every=1"]].concat();
    let whole = summary(&works(folder, &[&line[..], &["--out", "whole"]].concat()));
    // The first seed, and some of the second one's epochs.
    killed_after(folder, &[&line[..], &["--out", "broken"]].concat(), 10);
    let on = summary(&works(folder, &["resume", "broken", "--json"]));
    assert_eq!(on["model_digest"], whole["model_digest"]);
    for file in ["model.safetensors", "predictions.npz", "seed-1/model.safetensors", "seed-1/predictions.npz"]
    {
        let [a, b] = ["whole", "broken"].map(|run| std::fs::read(folder.join(run).join(file)).unwrap());
        assert!(a == b, "{file}");
    }
}

#[test]
fn damaged_signs_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    works(folder, &[&TRAIN[..], &["--out", "run"]].concat());
    let model = folder.join("run/model.safetensors");
    let whole = std::fs::read(&model).unwrap();
    let length = u64::from_le_bytes(*whole.first_chunk::<8>().unwrap()) as usize;
    let mut changed = whole.clone();
    changed[8 + length + 100] ^= 4;
    let renamed = String::from_utf8_lossy(&whole[..8 + length]).replace("weight.scales", "weight.scalez");
    let renamed = [renamed.as_bytes(), &whole[8 + length..]].concat();
    for (bytes, words) in [(changed, "digest"), (renamed, "signs followed by their scales")] {
        std::fs::write(&model, bytes).unwrap();
        let (code, _, err) = eciton(folder, &["predict", "run"]);
        assert!(code == Some(1) && err.contains(words), "{code:?}: {err}");
    }
}

#[test]
fn rows_as_bits_are_for_layers_of_signs() {
    let dir = tempfile::tempdir().unwrap();
    let bits = ["--no-out", "--executor", "emulated", "--rows", "bits"];
    let (code, _, err) = eciton(dir.path(), &[&["train", "cora", "--epochs", "1"], &bits[..]].concat());
    let words =
        ["executor.rows", "gcn 1433-16-7", "more than the signs and scales of rows", "linear", "binary"];
    assert!(code == Some(1) && words.iter().all(|word| err.contains(word)), "{code:?}: {err}");
    let (code, _, err) = eciton(dir.path(), &["train", "cora", "--set", "run.row_storage=bits"]);
    assert!(code == Some(2) && err.contains("run.row_storage"), "{code:?}: {err}");
    let there = summary(&works(dir.path(), &[&TRAIN[..], &bits].concat()));
    let here = summary(&works(dir.path(), &[&TRAIN[..], &["--no-out"]].concat()));
    assert_eq!(there["model_digest"], here["model_digest"]);
}

//! Parquet and Arrow files that pandas wrote (`tests/columnar/make.py`) next to the same data as text.

use std::path::{Path, PathBuf};

use eciton_formats::open;
use eciton_graph::dataset::Dataset;
use eciton_graph::random::SplitMix64;

fn path(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/columnar")).join(name)
}

fn rows(set: &Dataset) -> Vec<Vec<f32>> {
    let mut row = vec![0.0; set.features.columns() as usize];
    (0..set.features.rows())
        .map(|at| {
            set.features.copy_row(at, &mut row);
            row.clone()
        })
        .collect()
}

fn same(one: &Dataset, other: &Dataset) {
    assert_eq!(rows(one), rows(other));
    assert_eq!((&one.labels, &one.split, &one.ids), (&other.labels, &other.split, &other.ids));
    assert_eq!(one.names.features, other.names.features);
    assert_eq!(one.graph.incoming().neighbours(), other.graph.incoming().neighbours());
    let encoders = |set: &Dataset| set.encoded.as_ref().map(|encoded| encoded.encoders.clone());
    assert_eq!(encoders(one), encoders(other));
}

#[test]
fn columns_give_the_data_set_of_the_same_text() {
    let text = open(&path("table.csv"), None).unwrap();
    assert!(text.names.features.iter().any(|name| name == "note=comma, here"), "{:?}", text.names.features);
    for name in ["snappy.parquet", "zstd.parquet", "gzip.parquet", "lz4.parquet", "table.feather"] {
        same(&text, &open(&path(name), None).unwrap());
    }
    eciton_input::notes::take();
    let columns = open(&path("columns"), None).unwrap();
    let notes: Vec<String> = eciton_input::notes::take().iter().map(ToString::to_string).collect();
    assert!(notes.iter().any(|note| note.contains("__index_level_0__ was not read")), "{notes:?}");
    same(&open(&path("texts"), None).unwrap(), &columns);
}

#[test]
fn a_column_of_lists_is_refused_by_its_name() {
    let error = open(&path("nested.parquet"), None).unwrap_err().to_string();
    assert!(error.contains("one value per row in each column, found column x of the type List"), "{error}");
}

/// Damage is an error or other values, never a panic.
#[test]
fn damaged_files_are_errors() {
    let seed = 46_060;
    println!("seed {seed}");
    let mut random = SplitMix64::new(seed);
    let folder = tempfile::tempdir().unwrap();
    for name in ["snappy.parquet", "zstd.parquet", "lz4.parquet", "table.feather"] {
        let whole = std::fs::read(path(name)).unwrap();
        let damaged = folder.path().join(name);
        for end in (0..whole.len()).step_by(11) {
            std::fs::write(&damaged, &whole[..end]).unwrap();
            let error = open(&damaged, None).unwrap_err().to_string();
            assert!(error.contains(name), "{end}: {error}");
        }
        for _ in 0..600 {
            let mut bytes = whole.clone();
            for _ in 0..1 + random.below(3) {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] = random.next_u64() as u8;
            }
            std::fs::write(&damaged, bytes).unwrap();
            let _ = open(&damaged, None);
        }
    }
}

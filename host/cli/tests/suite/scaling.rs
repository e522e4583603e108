//! Columns of features that f32 cannot hold: scaled in f64 on every way in, or named in a warning.

use std::path::Path;

use crate::common::{eciton, works};
use serde_json::Value;

/// Unix time of each row of the case `time-stamps`, and 1 where the second, counted from 1,700,000,000 on, is
/// 30 or later.
fn rows() -> Vec<(i64, u8)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/time-stamps/t.csv");
    let text = std::fs::read_to_string(path).unwrap();
    let row = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        (fields[1].parse::<i64>().unwrap(), u8::from(fields[2] == "late"))
    };
    text.lines().skip(1).map(row).collect()
}

/// Arguments after the data set's name. With them a run has the same rows as NumPy.
const LINE: [&str; 12] = [
    "--model",
    "mlp",
    "--epochs",
    "300",
    "--lr",
    "0.1",
    "--dropout",
    "0",
    "--set",
    "data.normalise_features=columns",
    "--json",
    "--no-out",
];

/// Digest and test accuracy.
#[track_caller]
fn train(folder: &Path, data: &str) -> (String, f64) {
    let out = works(folder, &[&["train", data], &LINE[..]].concat());
    let summary: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    let metrics = &summary["seeds"][0]["metrics"];
    let accuracy = metrics["test"].as_f64().unwrap_or_else(|| panic!("{summary}"));
    (summary["model_digest"].as_str().unwrap().to_owned(), accuracy)
}

/// An array of two dimensions, or of one where `columns` is 0.
fn npy(path: &Path, element: &str, rows: usize, columns: usize, cells: &[[u8; 8]]) {
    let shape = if columns == 0 { format!("({rows},)") } else { format!("({rows}, {columns})") };
    let mut header = format!("{{'descr': '<{element}', 'fortran_order': False, 'shape': {shape}, }}");
    while (10 + header.len() + 1) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(cells.as_flattened());
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn time_stamps_are_learnt_from_every_way_in_with_one_digest() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let rows = rows();
    let table: String = rows.iter().map(|(time, class)| format!("{time},{class}\n")).collect();
    std::fs::write(folder.join("t.csv"), format!("t,y\n{table}")).unwrap();
    let (digest, accuracy) = train(folder, "t.csv");
    assert!(accuracy >= 0.95, "{accuracy}");

    // Written as pandas writes floats.
    let floats: String = rows.iter().map(|(time, class)| format!("{time}.0,{class}\n")).collect();
    std::fs::write(folder.join("floats.csv"), format!("t,y\n{floats}")).unwrap();
    assert_eq!(train(folder, "floats.csv").0, digest);

    let classes: Vec<[u8; 8]> = rows.iter().map(|(_, class)| i64::from(*class).to_le_bytes()).collect();
    for element in ["i8", "f8"] {
        let cells: Vec<[u8; 8]> = match element {
            "i8" => rows.iter().map(|(time, _)| time.to_le_bytes()).collect(),
            _ => rows.iter().map(|(time, _)| (*time as f64).to_le_bytes()).collect(),
        };
        let arrays = folder.join(element);
        std::fs::create_dir(&arrays).unwrap();
        npy(&arrays.join("x.npy"), element, rows.len(), 1, &cells);
        npy(&arrays.join("y.npy"), "i8", rows.len(), 0, &classes);
        assert_eq!(train(folder, element).0, digest, "{element}");
    }

    works(folder, &["data", "convert", "t.csv", "store"]);
    assert_eq!(train(folder, "store").0, digest);

    // A folder, whose rows are in another order than its ids.
    let tables = folder.join("tables");
    std::fs::create_dir(&tables).unwrap();
    let (mut features, mut labels) = ("id,t\n".to_owned(), "id,y\n".to_owned());
    for (row, (time, class)) in rows.iter().enumerate().rev() {
        features += &format!("{row},{time}\n");
        labels += &format!("{row},{class}\n");
    }
    std::fs::write(tables.join("features.csv"), features).unwrap();
    std::fs::write(tables.join("labels.csv"), labels).unwrap();
    assert_eq!(train(folder, "tables").0, digest);
}

#[test]
fn the_moments_of_time_stamps_are_those_of_f64() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let rows = rows();
    let table: String = rows.iter().map(|(time, class)| format!("{time},{class},train\n")).collect();
    std::fs::write(folder.join("t.csv"), format!("t,y,split\n{table}")).unwrap();
    let set = ["--set", "data.normalise_features=columns", "--epochs", "1", "--out", "run"];
    works(folder, &[&["train", "t.csv"][..], &set].concat());
    let text = std::fs::read_to_string(folder.join("run/schema.json")).unwrap();
    let schema: Value = serde_json::from_str(&text).unwrap();
    let number = |key: &str| schema["features"]["columns"][0][key].as_f64().unwrap();
    let count = rows.len() as f64;
    let mean = rows.iter().map(|(time, _)| *time as f64).sum::<f64>() / count;
    let square = |(time, _): &(i64, u8)| (*time as f64 - mean).powi(2);
    let deviation = (rows.iter().map(square).sum::<f64>() / count).sqrt();
    assert!((number("mean") - mean).abs() < 1e-6, "{text}");
    assert!((number("deviation") - deviation).abs() < 1e-6, "{text}");
    assert_eq!(((mean - 1.7e9) * 10.0).round(), 299.0);
    assert_eq!((deviation * 10.0).round(), 164.0);
}

#[test]
fn whole_numbers_that_f32_rounds_are_named_where_they_are_not_scaled() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    std::fs::write(folder.join("t.csv"), "t,u,y\n1700000029,1,0\n1700000001,2,1\n1700000040,3,0\n").unwrap();
    let plain = ["train", "t.csv", "--epochs", "1", "--no-out", "--set", "data.normalise_features=none"];
    let (code, _, told) = eciton(folder, &plain);
    assert_eq!(code, Some(0), "{told}");
    let wanted = "feature \"t\": 1700000029 (row 0) is stored as 1700000000";
    assert!(told.contains(wanted) && told.contains("--set data.normalise_features=columns"), "{told}");
    assert!(!told.contains("\"u\""), "{told}");
    let (_, out, told) = eciton(folder, &["data", "stat", "t.csv"]);
    assert!(out.contains(wanted) || told.contains(wanted), "{out}{told}");
    let scaled = ["train", "t.csv", "--epochs", "1", "--no-out", "--set", "data.normalise_features=columns"];
    let (_, _, told) = eciton(folder, &scaled);
    assert!(!told.contains("is stored as"), "{told}");

    std::fs::write(folder.join("u.csv"), "t,y\n16777216,0\n33554432,1\n5,0\n").unwrap();
    let (_, _, told) = eciton(folder, &["train", "u.csv", "--epochs", "1", "--no-out"]);
    assert!(!told.contains("is stored as"), "f32 holds these: {told}");
}

#[test]
fn edge_features_that_f32_rounds_are_named() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    std::fs::create_dir(folder.join("d")).unwrap();
    let edges = "source,target,w,time\n0,1,0.5,1700000029\n1,2,1.5,1700000031\n0,2,0.1,1700000030\n";
    std::fs::write(folder.join("d/edges.csv"), edges).unwrap();
    std::fs::write(folder.join("d/labels.csv"), "id,y\n0,0\n1,1\n2,0\n").unwrap();
    let (code, _, told) = eciton(folder, &["train", "d", "--epochs", "1", "--no-out"]);
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("edge feature \"time\"") && told.contains("above 2^24"), "{told}");
    assert!(!told.contains("edge feature \"w\""), "{told}");
}

//! What a script of `tests/oracle` is asked and answers, and how near to it a run has to come.

use std::path::Path;
use std::process::Command;

use eciton_graph::dataset::{Dataset, Features, SparseBuilder};
use eciton_plan::Config;
use eciton_train::inspect::{FirstEpoch, first_epoch};
use eciton_train::{CachePolicy, Options, Recording};
use serde_json::Value;

/// Trains `epochs` epochs; `what` is said of a failure.
pub(crate) fn trained(
    what: &str,
    config: &Config,
    dataset: &Dataset,
    epochs: u32,
    recording: Recording,
) -> FirstEpoch {
    let mut config = config.clone();
    config.run.epochs = epochs;
    let options = Options { cache: CachePolicy::Off, recording, ..Options::default() };
    first_epoch(&config, &options, dataset.clone()).unwrap_or_else(|e| panic!("{what}: {e}"))
}

/// What a script makes of a job.
pub(crate) fn ask(what: &str, python: &str, script: &str, job: &Value) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("in.json"), folder.path().join("out.json"));
    std::fs::write(&input, job.to_string()).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("oracle").join(script);
    let ran = Command::new(python).arg("-B").arg(script).args([&input, &output]).output().unwrap();
    assert!(ran.status.success(), "{what}: {}", String::from_utf8_lossy(&ran.stderr));
    serde_json::from_slice(&std::fs::read(&output).unwrap()).unwrap()
}

/// Whether the norm of the difference is at most `most` times that of what was expected.
pub(crate) fn assert_close(most: f64, what: &str, found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let norm = |v: &mut dyn Iterator<Item = f64>| v.map(|v| v * v).sum::<f64>().sqrt();
    let apart = norm(&mut found.iter().zip(expected).map(|(f, e)| f - e));
    let size = norm(&mut expected.iter().copied());
    assert!(apart <= most * size, "{what} differs by {apart:e} of {size:e}");
}

/// The same features, stored without zeros.
pub(crate) fn as_sparse(features: &Features) -> Features {
    let mut sparse = SparseBuilder::new(features.columns());
    let mut row = vec![0.0; features.columns() as usize];
    for at in 0..features.rows() {
        features.copy_row(at, &mut row);
        let stored = row.iter().enumerate().filter(|(_, v)| **v != 0.0).map(|(c, &v)| (c as u32, v));
        sparse.push_row(&mut stored.collect::<Vec<_>>());
    }
    Features::Sparse(sparse.finish())
}

/// The numbers of a JSON array, whatever its depth.
pub(crate) fn flat(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(all) => all.iter().flat_map(flat).collect(),
        one => vec![one.as_f64().unwrap()],
    }
}

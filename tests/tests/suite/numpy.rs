//! The scripts of `tests/oracle`: questions, answers, and how near to them a run has to come.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use eciton_graph::dataset::{Dataset, Features, SparseBuilder};
use eciton_recipe::Config;
use eciton_train::inspect::{FirstEpoch, first_epoch};
use eciton_train::{Options, Recording};
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
    let options = Options { cache: eciton_tests::cache(), recording, ..Options::default() };
    first_epoch(&config, &options, dataset.clone()).unwrap_or_else(|e| panic!("{what}: {e}"))
}

/// A script that answers jobs, a line each: Python and NumPy are loaded once a process.
struct Oracle {
    jobs: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Oracle {
    // It ends when its pipe closes, with this process.
    #[allow(clippy::zombie_processes)]
    fn start(python: &str, script: &str) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("oracle").join(script);
        let mut command = Command::new(python);
        command.arg("-B").arg(script).arg("--serve").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (jobs, answers) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { jobs, answers: BufReader::new(answers) }
    }
}

/// What a script makes of a job; what the script says on standard error is the test's.
pub(crate) fn ask(what: &str, python: &str, script: &str, job: &Value) -> Value {
    static ORACLES: Mutex<BTreeMap<String, Oracle>> = Mutex::new(BTreeMap::new());
    let mut oracles = ORACLES.lock().unwrap_or_else(PoisonError::into_inner);
    let oracle = oracles.entry(script.to_owned()).or_insert_with(|| Oracle::start(python, script));
    let mut answer = String::new();
    let told = writeln!(oracle.jobs, "{job}").and_then(|()| oracle.answers.read_line(&mut answer));
    if !told.is_ok_and(|bytes| bytes > 0) {
        oracles.remove(script);
        panic!("{what}: {script} ended without an answer");
    }
    serde_json::from_str(&answer).unwrap()
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

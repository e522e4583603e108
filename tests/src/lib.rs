//! What the integration suites share.
//!
//! Two variables steer them: `ECITON_KERNEL_DIR`, a folder of `NAME.wasm` that takes the place of the
//! kernels inside the library (CI runs every suite against the kernels that it just built), and
//! `ECITON_DATA`, the folder of published data sets; where that is missing, suites that want it say
//! so and go on.

use std::path::{Path, PathBuf};

use eciton_plan::Config;
use eciton_train::{CachePolicy, EpochReport, Observer, Options, Summary};

/// A folder that a variable names; none if it is unset or empty.
fn folder(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).filter(|v| !v.is_empty()).map(PathBuf::from)
}

/// The repository's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_owned).unwrap_or_default()
}

/// Options of every run in the suites: kernels from `ECITON_KERNEL_DIR` where it is set (a relative
/// one is taken from the repository's root, since cargo runs suites elsewhere), no cache, nothing
/// written.
pub fn options() -> Options {
    let kernel_folder = folder("ECITON_KERNEL_DIR").map(|f| root().join(f));
    Options { kernel_folder, cache: CachePolicy::Off, ..Options::default() }
}

/// The folder of data sets: `ECITON_DATA`, else `shared/data` beside the repository, if it exists.
pub fn data() -> Option<PathBuf> {
    let beside = || root().parent().map(|p| p.join("shared/data"));
    folder("ECITON_DATA").map(|f| root().join(f)).or_else(beside).filter(|f| f.is_dir())
}

/// A component of `tests/kernels/prebuilt`: `linear`, altered as its name says.
pub fn test_kernel(name: &str) -> PathBuf {
    root().join("tests/kernels/prebuilt").join(format!("{name}.wasm"))
}

/// Remembers every epoch's loss.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Losses(pub Vec<f64>);

impl Observer for Losses {
    fn epoch(&mut self, report: &EpochReport) {
        self.0.push(report.loss);
    }
}

/// Trains and gives the loss curve too.
///
/// # Errors
/// As [`eciton_train::train`].
pub fn train(config: &Config, options: &Options) -> eciton_train::Result<(Summary, Vec<f64>)> {
    let mut losses = Losses::default();
    let summary = eciton_train::train(config, options, &mut losses)?;
    Ok((summary, losses.0))
}

/// Trains and gives every epoch's report too.
///
/// # Errors
/// As [`eciton_train::train`].
pub fn train_reports(
    config: &Config,
    options: &Options,
) -> eciton_train::Result<(Summary, Vec<EpochReport>)> {
    struct Reports(Vec<EpochReport>);
    impl Observer for Reports {
        fn epoch(&mut self, report: &EpochReport) {
            self.0.push(report.clone());
        }
    }
    let mut reports = Reports(Vec::new());
    let summary = eciton_train::train(config, options, &mut reports)?;
    Ok((summary, reports.0))
}

/// The default model on Cora for `epochs` epochs, evaluated after the last only.
pub fn cora(epochs: u32) -> Config {
    let mut config = Config::default();
    config.run.epochs = epochs;
    config.run.eval_every = 0;
    config
}

//! What the integration suites share.
//!
//! Two variables steer them: `ECITON_KERNEL_DIR`, a folder of `NAME.wasm` that takes the place of the
//! kernels inside the library (CI runs every suite against the kernels that it just built), and
//! `ECITON_DATA`, the folder of published data sets; where that is missing, suites that want it say
//! so and go on.

pub mod fuzz;

use std::path::{Path, PathBuf};

use eciton_recipe::Config;
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
/// one is taken from the repository's root, since cargo runs suites elsewhere), nothing written.
pub fn options() -> Options {
    let kernel_folder = folder("ECITON_KERNEL_DIR").map(|f| root().join(f));
    Options { kernel_folder, cache: cache(), ..Options::default() }
}

/// Compiled kernels of all suites, in the target folder: a suite of many short runs would otherwise
/// compile kernels for most of its time.
pub fn cache() -> CachePolicy {
    let program = std::env::current_exe().unwrap_or_default();
    match program.ancestors().nth(3) {
        Some(target) => CachePolicy::Folder(target.join("tmp/suite-kernels")),
        None => CachePolicy::Off,
    }
}

/// A figure of this process in kB, by its name in `/proc/self/status`; 0 where there is none.
pub fn status_kb(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or_default()
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

/// A python3 with numpy: `ECITON_PYTHON`, else `python3`. Where there is none, none after saying on
/// standard error that suite `of` is skipped; with the variable `CI` set that is a failure instead.
///
/// # Panics
/// As said.
pub fn python(of: &str) -> Option<String> {
    let name = std::env::var("ECITON_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let found = std::process::Command::new(&name).args(["-c", "import numpy"]).output();
    if found.is_ok_and(|o| o.status.success()) {
        return Some(name);
    }
    let text = format!("`{name}` has no numpy; set ECITON_PYTHON to a python3 that has");
    assert!(std::env::var_os("CI").is_none_or(|v| v.is_empty()), "{text}");
    // Past the test harness, which swallows what `eprintln!` prints.
    let told =
        std::io::Write::write_all(&mut std::io::stderr(), format!("SKIPPED {of}: {text}\n").as_bytes());
    assert!(told.is_ok(), "{text}");
    None
}

/// SplitMix64.
#[derive(Debug)]
pub struct Numbers(pub u64);

impl Numbers {
    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `limit`.
    pub fn below(&mut self, limit: u32) -> u32 {
        (self.bits() % u64::from(limit)) as u32
    }

    /// In [-1, 1).
    pub fn value(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1u32 << 23) as f32 - 1.0
    }
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
    config.run.eval_every = 0.into();
    config
}

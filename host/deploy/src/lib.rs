//! Deployment of the project's AWS Lambda functions, and its reversal.
//!
//! [`build`] creates the package on this machine. It checks the [`Worker`], compiles the built-in
//! kernels for the functions' processor architecture, and signs them. [`deploy`] then creates the
//! stack with `sam`, and writes a [`Deployment`], the file that runs read. [`destroy`] deletes the
//! stack with all its resources, and checks that none is left. [`clean`] deletes the objects of one
//! run. The last three functions need the feature `aws`. Without it, they return an error, and the
//! rest of the crate works.
//!
//! The template is `infra/template.yaml`. It is embedded in the program, so that an installed
//! `eciton` needs no clone of the repository. The page docs/how-to/deploy-to-aws.md describes the
//! costs and the permissions.

mod account;
#[cfg(feature = "aws")]
mod cloud;
mod destroy;
mod error;
pub mod package;
mod sam;
mod stack;
#[cfg(not(feature = "aws"))]
mod without;
pub mod worker;

pub use account::{Account, Reserve};
#[cfg(feature = "aws")]
pub use cloud::{clean, deploy, destroy, locate};
pub use destroy::{Destroyed, Located, Target};
pub use error::{Error, Result};
pub use package::{Artefact, Component, Package};
pub use sam::{Sam, Watch};
pub use stack::{Choices, Facts, LOG_DAYS, MAX_TRAINERS, SIZES, Step, TIME_LIMITS, TRAINER_SIZES, policy};
#[cfg(not(feature = "aws"))]
pub use without::{clean, deploy, destroy, locate};
pub use worker::Worker;

use std::path::{Path, PathBuf};

use eciton_cloud::deployment::user_folder;
use eciton_cloud::programs::{find_for_package, find_trainer_for_package};
use eciton_cloud::{Architecture, Deployment};
use eciton_kernel::artefact::Signer;
use serde::Serialize;

/// Returns the default path of the user's signing key, `eciton/signing.key` in the user's state
/// folder.
///
/// # Errors
/// Returns an error if the user has no home folder and no state folder.
pub fn signing_key() -> Result<PathBuf> {
    let folder = user_folder("XDG_STATE_HOME", ".local/state");
    let folder =
        folder.ok_or_else(|| Error::Choice("HOME is not set: give the key's file with --key".to_owned()))?;
    Ok(folder.join("eciton/signing.key"))
}

/// Progress report that [`build`], [`deploy`] and [`destroy`](fn@destroy) pass to their callback.
#[derive(Debug, Clone, Copy)]
pub enum Progress<'a> {
    /// A step begins. The text describes the step.
    Step(&'a str),
    /// A tool, for instance `sam`, printed this line.
    Line(&'a str),
}

/// Result of [`build`]: the package, and the programs and keys that were used for it.
#[derive(Debug)]
pub struct Built {
    /// Package on disk, from which `sam build` has created the functions.
    pub package: Package,
    /// Keys of the built-in kernels in the package, for instance `kernels/DIGEST.BASELINE.cwasm`.
    /// Kernels in a bucket have the same keys.
    pub kernels: Vec<String>,
    /// Worker binary that the package contains.
    pub worker: Worker,
    /// Program that executes whole training runs. `None` if the stack has no function for them.
    pub trainer: Option<Worker>,
    /// Signing key of the deployer, with which the kernels were signed.
    pub signer: Signer,
    /// Path of the deployer's signing key file.
    pub key: PathBuf,
    /// Installed `sam` program that created the functions.
    pub sam: Sam,
}

/// Programs on this machine that were found and checked for a deployment.
struct Ready {
    worker: Worker,
    trainer: Option<Worker>,
    sam: Sam,
}

impl Ready {
    fn find(choices: &Choices) -> Result<Self> {
        choices.check()?;
        let path = find_for_package(choices.worker.as_deref(), choices.architecture)?;
        let worker = own_worker(&path, choices.architecture)?;
        let trainer = trainer(choices)?;
        let sam = Sam::find()?.shielded(choices.shielded);
        tools()?;
        Ok(Self { worker, trainer, sam })
    }

    fn build(
        self,
        choices: &Choices,
        builtin: &[Component],
        watch: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Built> {
        let Self { worker, trainer, sam } = self;
        let key = choices.key.clone().map_or_else(signing_key, Ok)?;
        let signer = Signer::open(&key)?;
        watch(Progress::Step("compiling and signing the built-in kernels"));
        let compile = |kernel| package::compile(kernel, &worker, &signer);
        let kernels = builtin.iter().map(compile).collect::<Result<Vec<_>>>()?;
        let folder = match &choices.folder {
            Some(folder) => folder.clone(),
            None => user_folder("XDG_CACHE_HOME", ".cache")
                .map(|cache| cache.join("eciton/deploy").join(&choices.stack))
                .ok_or_else(|| {
                    Error::Choice("HOME is not set: give a folder for the package with --folder".to_owned())
                })?,
        };
        let folder = std::path::absolute(&folder).map_err(Error::file(&folder, "found"))?;
        let package = Package::write(&folder, &worker, trainer.as_ref(), &kernels)?;
        watch(Progress::Step("making the functions' packages (sam build)"));
        let contents = package.contents();
        sam.run(&package.folder, &choices.build_line(), &[("PACKAGE", &contents)], &mut |line| {
            watch(Progress::Line(line));
        })?;
        let kernels = kernels.into_iter().map(|kernel| kernel.key).collect();
        Ok(Built { package, kernels, worker, trainer, signer, key, sam })
    }
}

/// Returns one message for each prerequisite of a deployment that this machine lacks.
#[must_use]
pub fn missing(choices: &Choices) -> Vec<String> {
    let mut found = Vec::new();
    let worker = find_for_package(choices.worker.as_deref(), choices.architecture).map_err(Error::from);
    match worker.and_then(|path| own_worker(&path, choices.architecture)) {
        Ok(_) => {}
        Err(error) => found.push(error.to_string()),
    }
    found.extend(trainer(choices).err().map(|error| error.to_string()));
    found.extend(Sam::find().err().map(|error| error.to_string()));
    found.extend(tools().err().map(|error| error.to_string()));
    found
}

/// Checks that `make` and `readelf` are installed. The build of a package needs them, and not all
/// systems have them.
fn tools() -> Result<()> {
    if sam::on_path("make").is_none() {
        return Err(Error::NoTool { tool: "make", remedy: "install it with the system's packages" });
    }
    if sam::on_path("readelf").is_none() {
        return Err(Error::NoTool { tool: "readelf", remedy: "install the package binutils" });
    }
    Ok(())
}

/// Returns the program that executes whole training runs, or `None` if the stack has no function
/// for them.
fn trainer(choices: &Choices) -> Result<Option<Worker>> {
    if choices.trainers().is_empty() {
        return Ok(None);
    }
    own_worker(&find_trainer_for_package(None, choices.architecture)?, choices.architecture).map(Some)
}

fn own_worker(path: &Path, architecture: Architecture) -> Result<Worker> {
    let worker = Worker::check(path)?;
    if worker.architecture == architecture {
        return Ok(worker);
    }
    let reason = format!(
        "made for {}, the functions are to be {architecture}: choose --arch {}, or name another worker",
        worker.architecture, worker.architecture
    );
    Err(Error::Worker { path: path.to_owned(), reason })
}

/// Creates the package, and runs `sam build` to create the functions from it. No request is sent to
/// AWS.
///
/// # Errors
/// Returns an error if an option is invalid, if a kernel cannot be compiled, or if a folder cannot
/// be written. Also returns an error if the worker, `sam`, `make` or `readelf` is missing.
pub fn build(choices: &Choices, builtin: &[Component], watch: &mut dyn FnMut(Progress<'_>)) -> Result<Built> {
    Ready::find(choices)?.build(choices, builtin, watch)
}

/// Result of [`deploy`]: the deployment, and the resources that were created.
#[derive(Debug, Clone, Serialize)]
pub struct Deployed {
    /// Description of the stack, which runs read from the deployment file.
    pub deployment: Deployment,
    /// Path of the deployment file that was written.
    pub file: PathBuf,
    /// AWS account that contains the stack.
    pub account: Account,
    /// Name of the S3 bucket that contains the stack's packages.
    pub packages: String,
    /// Pairs of a kernel's name and its key in the stack's bucket, one for each kernel of the user.
    pub kernels: Vec<(String, String)>,
    /// Size of a function's unpacked package, in bytes.
    pub package_bytes: u64,
}

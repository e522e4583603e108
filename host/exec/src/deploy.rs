//! Deployments: from a worker's binary to functions at AWS, and back to nothing.
//!
//! [`build`] makes the package on this machine: it checks the [`Worker`], compiles the built-in
//! kernels for the functions' processors and signs them. [`deploy`] then makes the stack with `sam`
//! and leaves a [`Deployment`], the file that a run starts from. [`destroy`] takes everything away
//! again and looks whether it is gone; [`clean`] removes one run's objects.
//!
//! The template is `infra/template.yaml`; it is part of the program, so that an installed `eciton`
//! needs no clone. What it costs and what it may do is said in docs/DEPLOY.md.

mod account;
pub mod aws;
mod bucket;
mod deployment;
mod destroy;
mod error;
pub mod package;
mod prices;
mod sam;
mod stack;
pub mod worker;

pub use account::{Account, Reserve};
pub use deployment::{DEFAULT_STACK, Deployment, Endpoints, Function, check_stack};
pub use destroy::{Destroyed, Target, clean, destroy};
pub use error::{Error, Result};
pub use package::{Artefact, Component, Package};
pub use prices::Prices;
pub use sam::{Sam, Watch};
pub use stack::{Choices, Facts, LOG_DAYS, SIZES, Step, TIME_LIMITS};
pub use worker::{Architecture, Worker};

use std::path::{Path, PathBuf};

use eciton_kernel::artefact::Signer;
use serde::Serialize;

use aws::wait;

/// A folder of the user's: the variable if it is set and absolute, else `rest` in the home.
fn user_folder(variable: &str, rest: &str) -> Option<PathBuf> {
    let value = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    value(variable).filter(|path| path.is_absolute()).or_else(|| value("HOME").map(|home| home.join(rest)))
}

/// The file of the user's signing key: `eciton/signing.key` in the state folder.
///
/// # Errors
/// No home.
pub fn signing_key() -> Result<PathBuf> {
    let folder = user_folder("XDG_STATE_HOME", ".local/state");
    let folder =
        folder.ok_or_else(|| Error::Choice("HOME is not set: give the key's file with --key".to_owned()))?;
    Ok(folder.join("eciton/signing.key"))
}

/// What a deployment tells of itself while it goes on.
#[derive(Debug, Clone, Copy)]
pub enum Progress<'a> {
    /// A step begins.
    Step(&'a str),
    /// A tool printed a line.
    Line(&'a str),
}

/// A package that was made, and what went into it.
#[derive(Debug)]
pub struct Built {
    /// The package.
    pub package: Package,
    /// The worker.
    pub worker: Worker,
    /// The key.
    pub signer: Signer,
    /// Its file.
    pub key: PathBuf,
    /// `sam`, as it was found.
    pub sam: Sam,
}

/// What is needed on this machine, found.
struct Ready {
    worker: Worker,
    sam: Sam,
}

impl Ready {
    fn find(choices: &Choices) -> Result<Self> {
        choices.check()?;
        let path = worker::find_for_package(choices.worker.as_deref())?;
        let worker = own_worker(&path, choices.architecture)?;
        let sam = Sam::find()?;
        tools()?;
        Ok(Self { worker, sam })
    }

    fn build(
        self,
        choices: &Choices,
        builtin: &[Component],
        watch: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Built> {
        let Self { worker, sam } = self;
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
        let package = Package::write(&folder, &worker, &kernels)?;
        watch(Progress::Step("making the functions' packages (sam build)"));
        let contents = package.contents();
        sam.run(&package.folder, &choices.build_line(), &[("PACKAGE", &contents)], &mut |line| {
            watch(Progress::Line(line));
        })?;
        Ok(Built { package, worker, signer, key, sam })
    }
}

/// What is missing on this machine for a deployment, one text each.
#[must_use]
pub fn missing(choices: &Choices) -> Vec<String> {
    let mut found = Vec::new();
    match worker::find_for_package(choices.worker.as_deref())
        .and_then(|path| own_worker(&path, choices.architecture))
    {
        Ok(_) => {}
        Err(error) => found.push(error.to_string()),
    }
    found.extend(Sam::find().err().map(|error| error.to_string()));
    found.extend(tools().err().map(|error| error.to_string()));
    found
}

/// What the Makefile calls, but for what every system has.
fn tools() -> Result<()> {
    if sam::on_path("make").is_none() {
        return Err(Error::NoTool { tool: "make", remedy: "install it with the system's packages" });
    }
    if sam::on_path("readelf").is_none() {
        return Err(Error::NoTool { tool: "readelf", remedy: "install the package binutils" });
    }
    Ok(())
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

/// Makes the package and lets `sam build` make the functions of it. Asks nothing of AWS.
///
/// # Errors
/// A choice that cannot be; no worker, `sam` or `make`; a kernel that cannot be compiled; a folder
/// that cannot be written.
pub fn build(choices: &Choices, builtin: &[Component], watch: &mut dyn FnMut(Progress<'_>)) -> Result<Built> {
    Ready::find(choices)?.build(choices, builtin, watch)
}

/// A finished deployment.
#[derive(Debug, Clone, Serialize)]
pub struct Deployed {
    /// What a run starts from.
    pub deployment: Deployment,
    /// Where that was written.
    pub file: PathBuf,
    /// The account.
    pub account: Account,
    /// The bucket of packages.
    pub packages: String,
    /// Where the user's kernels lie in the stack's bucket, by name.
    pub kernels: Vec<(String, String)>,
    /// The package's size as functions have it.
    pub package_bytes: u64,
}

/// Makes or changes a stack.
///
/// # Errors
/// As [`build`]; whatever AWS refuses. A stack that could not be made is removed again by
/// CloudFormation, one that could not be changed stays as it was.
pub fn deploy(
    choices: &Choices,
    builtin: &[Component],
    own: &[Component],
    watch: &mut dyn FnMut(Progress<'_>),
) -> Result<Deployed> {
    // What takes no time is looked at first, the account's answers too.
    let ready = Ready::find(choices)?;
    let functions = choices.functions();
    watch(Progress::Step("asking for the account and its limits"));
    let (config, account, reserved) = wait(async {
        let config = aws::sdk(choices.region.as_deref(), choices.profile.as_deref()).await?;
        let account = Account::read(&config, &stack::function_names(&choices.stack)).await?;
        let reserved = account.reservation(functions.len() as u32, choices.reserve)?;
        Ok((config, account, reserved))
    })?;
    let region = aws::region(&config);
    let place = choices.place(&region);

    let built = ready.build(choices, builtin, watch)?;
    // All kernels are compiled before anything is made: a kernel with a mistake stops here.
    let compile = |kernel| package::compile(kernel, &built.worker, &built.signer);
    let own = own.iter().map(compile).collect::<Result<Vec<_>>>()?;

    watch(Progress::Step("making the stack (sam deploy)"));
    let client = bucket::client(&config, None);
    let packages = bucket::packages(&choices.stack, &account.id, &region);
    wait(bucket::make(&client, &config, &packages))?;
    let verifying_key = built.signer.verifier().to_string();
    let line = choices.deploy_line(&region, &packages, &choices.parameters(&verifying_key, reserved));
    built.sam.run(&built.package.folder, &line, &[], &mut |line| watch(Progress::Line(line)))?;
    let outputs = built.sam.outputs(&choices.stack, &place)?.unwrap_or_default();
    let bucket = outputs.get("Bucket").cloned().ok_or_else(|| Error::Aws {
        operation: format!("sam list stack-outputs {}", choices.stack),
        message: "the stack has no output `Bucket`".to_owned(),
        hint: "; is it Eciton's? choose another --stack",
    })?;

    if !own.is_empty() {
        watch(Progress::Step("putting your kernels into the bucket"));
    }
    for kernel in &own {
        wait(bucket::put(&client, &bucket, &kernel.key, kernel.sealed.clone()))?;
    }
    let deployment = Deployment {
        version: deployment::VERSION,
        stack: choices.stack.clone(),
        region,
        profile: choices.profile.clone(),
        functions,
        timeout_s: choices.timeout_s,
        bucket,
        signing_key: std::path::absolute(&built.key).map_err(Error::file(&built.key, "found"))?,
        verifying_key,
        account_concurrency: account.concurrency,
        reserved_concurrency: Some(reserved).filter(|reserved| *reserved > 0),
        endpoints: Endpoints { lambda: endpoint("LAMBDA"), s3: endpoint("S3") },
    };
    let file = choices.out.clone().map_or_else(|| Deployment::path(&choices.stack), Ok)?;
    deployment.save(&file)?;
    let kernels = own.into_iter().map(|kernel| (kernel.name, kernel.key)).collect();
    Ok(Deployed { deployment, file, account, packages, kernels, package_bytes: built.package.bytes_len })
}

/// Where the environment has a service, if not at AWS.
fn endpoint(service: &str) -> Option<String> {
    let value = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
    value(&format!("AWS_ENDPOINT_URL_{service}")).or_else(|| value("AWS_ENDPOINT_URL"))
}

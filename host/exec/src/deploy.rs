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
mod error;
pub mod package;
mod prices;
mod sam;
mod stack;
pub mod worker;

pub use account::{Account, Reserve};
pub use deployment::{DEFAULT_STACK, Deployment, Endpoints, Function, check_stack};
pub use error::{Error, Result};
pub use package::{Artefact, Component, Package};
pub use prices::Prices;
pub use sam::{Sam, Watch};
pub use stack::{Choices, Facts, LOG_DAYS, SIZES, Step, TIME_LIMITS};
pub use worker::{Architecture, Worker};

use std::path::{Path, PathBuf};

use eciton_kernel::artefact::Signer;
use eciton_transport::keys::RunKeys;
use serde::{Deserialize, Serialize};

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
        let path = worker::find(choices.worker.as_deref())?;
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
                    Error::Choice(
                        "HOME is not set: give a folder for the package with --folder".to_owned(),
                    )
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
    match worker::find(choices.worker.as_deref()).and_then(|path| own_worker(&path, choices.architecture)) {
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
pub fn build(
    choices: &Choices,
    builtin: &[Component],
    watch: &mut dyn FnMut(Progress<'_>),
) -> Result<Built> {
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
    let built = build(choices, builtin, watch)?;
    // All kernels are compiled before anything is made: a kernel with a mistake stops here.
    let own = own
        .iter()
        .map(|kernel| package::compile(kernel, &built.worker, &built.signer))
        .collect::<Result<Vec<_>>>()?;
    let functions = choices.functions();
    let names: Vec<String> = functions.iter().map(|f| f.name.clone()).collect();
    let every: Vec<String> = SIZES.iter().map(|size| format!("{}-worker-{size}", choices.stack)).collect();

    watch(Progress::Step("asking for the account and its limits"));
    let (account, region, reserved, packages) = wait(async {
        let config = aws::sdk(choices.region.as_deref(), choices.profile.as_deref()).await?;
        let region = aws::region(&config);
        let account = Account::read(&config, &every).await?;
        let reserved = account.reservation(names.len() as u32, choices.reserve)?;
        let packages = bucket::packages(&choices.stack, &account.id, &region);
        bucket::make(&bucket::client(&config, None), &config, &packages).await?;
        Ok((account, region, reserved, packages))
    })?;

    watch(Progress::Step("making the stack (sam deploy)"));
    let verifying_key = built.signer.verifier().to_string();
    let parameters = choices.parameters(&verifying_key, reserved);
    let line = choices.deploy_line(&region, &packages, &parameters);
    built.sam.run(&built.package.folder, &line, &[], &mut |line| watch(Progress::Line(line)))?;
    let outputs = outputs(&built.sam, &built.package.folder, &choices.stack, &choices.place(&region))?;
    let bucket = outputs.iter().find(|output| output.key == "Bucket").map(|output| output.value.clone());
    let bucket = bucket.ok_or_else(|| Error::Aws {
        operation: format!("sam list stack-outputs {}", choices.stack),
        message: "the stack has no output `Bucket`".to_owned(),
        hint: "; is it Eciton's? choose another --stack",
    })?;

    if !own.is_empty() {
        watch(Progress::Step("putting your kernels into the bucket"));
        wait(async {
            let config = aws::sdk(Some(&region), choices.profile.as_deref()).await?;
            let client = bucket::client(&config, None);
            for kernel in &own {
                bucket::put(&client, &bucket, &kernel.key, kernel.sealed.clone()).await?;
            }
            Ok(())
        })?;
    }
    let endpoint = |service: &str| {
        let value = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
        value(&format!("AWS_ENDPOINT_URL_{service}")).or_else(|| value("AWS_ENDPOINT_URL"))
    };
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

/// One output of a stack.
#[derive(Debug, Deserialize)]
struct Output {
    #[serde(rename = "OutputKey")]
    key: String,
    #[serde(rename = "OutputValue")]
    value: String,
}

fn outputs(sam: &Sam, folder: &Path, stack: &str, place: &[String]) -> Result<Vec<Output>> {
    let mut line: Vec<String> =
        ["list", "stack-outputs", "--stack-name", stack, "--output", "json"].map(str::to_owned).to_vec();
    line.extend_from_slice(place);
    let text = sam.answer(folder, &line)?;
    serde_json::from_str(&text).map_err(|error| Error::Tool {
        command: sam::shown(&line),
        status: "no JSON came".to_owned(),
        hint: "",
        tail: format!("{error}: {}", text.chars().take(500).collect::<String>()),
    })
}

/// What is to be taken away.
#[derive(Debug, Clone)]
pub struct Target {
    /// The stack.
    pub stack: String,
    /// Where; `None`: as the deployment's file or AWS's own settings say.
    pub region: Option<String>,
    /// Whose credentials.
    pub profile: Option<String>,
    /// The deployment's file, if it is there: removed at the end.
    pub file: Option<PathBuf>,
    /// The bucket, where a file tells it: it is looked for afterwards even if the stack is gone.
    pub bucket: Option<String>,
}

impl Target {
    /// From the deployment of this name or path, or, without a file, from the name alone.
    ///
    /// # Errors
    /// A file that is damaged; a name that no stack has.
    pub fn find(name: &str, region: Option<String>, profile: Option<String>) -> Result<Self> {
        match Deployment::load(name) {
            Ok(found) => Ok(Self {
                stack: found.stack,
                region: region.or(Some(found.region)),
                profile: profile.or(found.profile),
                file: Some(Deployment::path(name)?),
                bucket: Some(found.bucket),
            }),
            Err(Error::NoDeployment { .. }) if check_stack(name).is_ok() => {
                Ok(Self { stack: name.to_owned(), region, profile, file: None, bucket: None })
            }
            Err(error) => Err(error),
        }
    }
}

/// What was taken away.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Destroyed {
    /// Whether there was a stack.
    pub stack: bool,
    /// Objects, versions and markers that were removed from the stack's bucket.
    pub objects: u64,
    /// The same of the packages' bucket.
    pub package_objects: u64,
    /// What was looked for afterwards and is gone.
    pub gone: Vec<String>,
}

/// Takes a stack away: its objects, itself, its packages; then looks whether anything is left.
///
/// # Errors
/// Whatever AWS refuses; something that is left, by name.
pub fn destroy(target: &Target, watch: &mut dyn FnMut(Progress<'_>)) -> Result<Destroyed> {
    check_stack(&target.stack)?;
    let sam = Sam::find()?;
    let folder = std::env::temp_dir();
    let mut done = Destroyed::default();
    watch(Progress::Step("asking for the account and the stack"));
    let config = wait(aws::sdk(target.region.as_deref(), target.profile.as_deref()))?;
    let region = aws::region(&config);
    let client = bucket::client(&config, None);
    let names: Vec<String> = SIZES.iter().map(|size| format!("{}-worker-{size}", target.stack)).collect();
    let account = wait(Account::read(&config, &[]))?;
    let packages = bucket::packages(&target.stack, &account.id, &region);
    let place = stack::place(&region, target.profile.as_deref());
    let found = match outputs(&sam, &folder, &target.stack, &place) {
        Ok(outputs) => Some(outputs),
        Err(Error::Tool { tail, .. }) if is_absent(&tail) => None,
        Err(error) => return Err(error),
    };
    let output =
        found.iter().flatten().find(|output| output.key == "Bucket").map(|output| output.value.clone());
    let buckets: Vec<String> = output.clone().into_iter().chain(target.bucket.clone()).collect();

    if found.is_some() {
        watch(Progress::Step("emptying the bucket"));
        if let Some(bucket) = &output {
            done.objects = wait(bucket::clear(&client, bucket, ""))?;
        }
        watch(Progress::Step("removing the stack (sam delete)"));
        let mut line: Vec<String> = [
            "delete",
            "--stack-name",
            &target.stack,
            "--no-prompts",
            "--s3-bucket",
            &packages,
            "--s3-prefix",
            &target.stack,
        ]
        .map(str::to_owned)
        .to_vec();
        line.extend(place.iter().cloned());
        sam.run(&folder, &line, &[], &mut |line| watch(Progress::Line(line)))?;
        done.stack = true;
    }
    watch(Progress::Step("removing the packages, and looking for what is left"));
    let left = wait(async {
        done.package_objects = bucket::clear(&client, &packages, "").await?;
        bucket::remove(&client, &packages).await?;
        let mut left = Vec::new();
        for bucket in buckets.iter().chain([&packages]) {
            let list = if bucket::exists(&client, bucket).await? { &mut left } else { &mut done.gone };
            list.push(format!("bucket {bucket}"));
        }
        let lambda = aws_sdk_lambda::Client::new(&config);
        for function in &names {
            let found = lambda.get_function_configuration().function_name(function).send().await;
            let name = format!("function {function}");
            match found {
                Ok(_) => left.push(name),
                Err(e) if e.as_service_error().is_some_and(|e| e.is_resource_not_found_exception()) => {
                    done.gone.push(name)
                }
                Err(e) => {
                    return Err(aws::refused(format!("Lambda GetFunctionConfiguration {function}"), &e));
                }
            }
        }
        Ok(left)
    })?;
    done.gone.sort();
    done.gone.dedup();
    match outputs(&sam, &folder, &target.stack, &place) {
        Ok(_) => return Err(remains(&target.stack, vec![format!("stack {}", target.stack)])),
        Err(Error::Tool { tail, .. }) if is_absent(&tail) => {
            done.gone.push(format!("stack {}", target.stack))
        }
        Err(error) => return Err(error),
    }
    if !left.is_empty() {
        return Err(remains(&target.stack, left));
    }
    if let Some(file) = &target.file {
        std::fs::remove_file(file).map_err(Error::file(file, "removed"))?;
    }
    Ok(done)
}

fn remains(stack: &str, left: Vec<String>) -> Error {
    Error::Aws {
        operation: format!("destroying {stack}"),
        message: format!("still there: {}", left.join(", ")),
        hint: "; run it again, and look at the stack's events in the CloudFormation console if it stays",
    }
}

/// Whether `sam` says that there is no such stack.
fn is_absent(said: &str) -> bool {
    said.contains("does not exist")
}

/// Removes what a run has left in the bucket of a deployment; how many objects.
///
/// # Errors
/// A name that no run has; whatever AWS refuses.
pub fn clean(deployment: &Deployment, run: &str) -> Result<u64> {
    let keys = RunKeys::new(run)?;
    wait(async {
        let config = aws::sdk(Some(&deployment.region), deployment.profile.as_deref()).await?;
        let client = bucket::client(&config, deployment.endpoints.s3.as_deref());
        bucket::clear(&client, &deployment.bucket, keys.prefix()).await
    })
}

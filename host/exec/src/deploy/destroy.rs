//! Taking away: a stack with all that belongs to it, or what one run has left.

use std::path::PathBuf;

use aws_config::SdkConfig;
use eciton_transport::keys::RunKeys;
use serde::Serialize;

use super::account::Account;
use super::aws::{refused, region, sdk, wait};
use super::deployment::{Deployment, check_stack};
use super::error::{Error, Result};
use super::sam::{Sam, nowhere};
use super::{Progress, bucket, stack};

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
    let mut done = Destroyed::default();
    watch(Progress::Step("asking for the account and the stack"));
    let config = wait(sdk(target.region.as_deref(), target.profile.as_deref()))?;
    let account = wait(Account::read(&config, &[]))?;
    let client = bucket::client(&config, None);
    let packages = bucket::packages(&target.stack, &account.id, &region(&config));
    let place = stack::place(&region(&config), target.profile.as_deref());
    let outputs = sam.outputs(&target.stack, &place)?;
    let output = outputs.as_ref().and_then(|outputs| outputs.get("Bucket").cloned());

    if outputs.is_some() {
        watch(Progress::Step("emptying the bucket"));
        if let Some(bucket) = &output {
            done.objects = wait(bucket::clear(&client, bucket, ""))?;
        }
        watch(Progress::Step("removing the stack (sam delete)"));
        let mut line: Vec<String> = ["delete", "--stack-name", &target.stack, "--no-prompts"]
            .into_iter()
            .chain(["--s3-bucket", &packages, "--s3-prefix", &target.stack])
            .map(str::to_owned)
            .collect();
        line.extend(place.iter().cloned());
        sam.run(nowhere()?.path(), &line, &[], &mut |line| watch(Progress::Line(line)))?;
        done.stack = true;
    }
    watch(Progress::Step("removing the packages, and looking for what is left"));
    done.package_objects = wait(bucket::clear(&client, &packages, ""))?;
    wait(bucket::remove(&client, &packages))?;
    let mut buckets: Vec<String> =
        [output, target.bucket.clone(), Some(packages)].into_iter().flatten().collect();
    buckets.sort();
    buckets.dedup();
    let mut left = wait(look(&config, &buckets, &target.stack, &mut done.gone))?;
    let name = format!("stack {}", target.stack);
    let list = if sam.outputs(&target.stack, &place)?.is_some() { &mut left } else { &mut done.gone };
    list.push(name);
    if !left.is_empty() {
        return Err(Error::Aws {
            operation: format!("destroying {}", target.stack),
            message: format!("still there: {}", left.join(", ")),
            hint: "; run it again, and look at the stack's events in the CloudFormation console if it stays",
        });
    }
    if let Some(file) = &target.file {
        std::fs::remove_file(file).map_err(Error::file(file, "removed"))?;
    }
    Ok(done)
}

/// Looks for buckets and functions; what is not there goes to `gone`, the rest is given back.
async fn look(
    config: &SdkConfig,
    buckets: &[String],
    stack: &str,
    gone: &mut Vec<String>,
) -> Result<Vec<String>> {
    let mut left = Vec::new();
    let client = bucket::client(config, None);
    for bucket in buckets {
        let list = if bucket::exists(&client, bucket).await? { &mut left } else { &mut *gone };
        list.push(format!("bucket {bucket}"));
    }
    let lambda = aws_sdk_lambda::Client::new(config);
    for function in stack::function_names(stack) {
        let name = format!("function {function}");
        match lambda.get_function_configuration().function_name(&function).send().await {
            Ok(_) => left.push(name),
            Err(e) if e.as_service_error().is_some_and(|e| e.is_resource_not_found_exception()) => {
                gone.push(name)
            }
            Err(e) => return Err(refused(format!("Lambda GetFunctionConfiguration {function}"), &e)),
        }
    }
    Ok(left)
}

/// Removes what a run has left in the bucket of a deployment; how many objects.
///
/// # Errors
/// A name that no run has; whatever AWS refuses.
pub fn clean(deployment: &Deployment, run: &str) -> Result<u64> {
    let keys = RunKeys::new(run)?;
    wait(async {
        let config = sdk(Some(&deployment.region), deployment.profile.as_deref()).await?;
        let client = bucket::client(&config, deployment.endpoints.s3.as_deref());
        bucket::clear(&client, &deployment.bucket, keys.prefix()).await
    })
}

//! Operations on AWS: creation and deletion of stacks, and queries about the account.

mod aws;
mod bucket;

use aws_config::SdkConfig;
use eciton_cloud::aws::{sdk, store};
use eciton_cloud::deployment::{self, Deployment, Endpoints, check_stack};
use eciton_transport::keys::RunKeys;
use eciton_transport::{Key, Store as _};

use super::account::Account;
use super::destroy::{Destroyed, Located, Target};
use super::error::{Error, Result};
use super::package::{self, Component};
use super::sam::{Sam, nowhere};
use super::stack::{self, Choices};
use super::{Deployed, Progress, Ready};
use aws::{refused, region, wait};

/// Creates or updates a stack, and writes its deployment file. Progress is reported to `watch`.
///
/// # Errors
/// Returns the errors of [`build`](crate::build), and errors of AWS. If the stack cannot be
/// created, CloudFormation deletes it again. If it cannot be updated, it remains unchanged.
pub fn deploy(
    choices: &Choices,
    builtin: &[Component],
    own: &[Component],
    watch: &mut dyn FnMut(Progress<'_>),
) -> Result<Deployed> {
    // Quick checks come first, including questions about the account.
    let ready = Ready::find(choices)?;
    let functions = choices.functions();
    watch(Progress::Step("asking for the account and its limits"));
    let (config, account, reserved) = wait(async {
        let config = sdk(choices.region.as_deref(), choices.profile.as_deref()).await?;
        let account = account(&config, &stack::function_names(&choices.stack)).await?;
        let reserved =
            account.reservation((functions.len() + choices.trainers().len()) as u32, choices.reserve)?;
        Ok((config, account, reserved))
    })?;
    let region = region(&config);
    let place = choices.place(&region);

    let built = ready.build(choices, builtin, watch)?;
    // All kernels are compiled before anything is created, so that a kernel with an error stops the
    // deployment here.
    let compile = |kernel| package::compile(kernel, &built.worker, &built.signer);
    let own = own.iter().map(compile).collect::<Result<Vec<_>>>()?;

    watch(Progress::Step("making the stack (sam deploy)"));
    let client = bucket::client(&config, None);
    let packages = stack::packages_bucket(&choices.stack, &account.id, &region);
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
        zone: None,
        profile: choices.profile.clone(),
        functions,
        trainers: choices.trainers(),
        timeout_s: choices.timeout_s,
        numeric_class: Some(choices.architecture.numeric_class().to_owned()),
        bucket,
        packaged: built.kernels.clone(),
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

/// Returns the endpoint URL that `AWS_ENDPOINT_URL_SERVICE` or `AWS_ENDPOINT_URL` sets for a
/// service, for instance `S3`. If neither variable is set, AWS's own endpoint is used.
fn endpoint(service: &str) -> Option<String> {
    let value = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
    value(&format!("AWS_ENDPOINT_URL_{service}")).or_else(|| value("AWS_ENDPOINT_URL"))
}
/// Queries the caller's identity and the concurrency limits of the account. `functions` are the
/// names of the stack's functions, which do not need to exist yet.
///
/// # Errors
/// Returns an error if credentials are missing or wrong, if a permission is missing, or if there is
/// no connection.
async fn account(config: &SdkConfig, functions: &[String]) -> Result<Account> {
    let identity = aws_sdk_sts::Client::new(config)
        .get_caller_identity()
        .send()
        .await
        .map_err(|e| refused("STS GetCallerIdentity", &e))?;
    let lambda = aws_sdk_lambda::Client::new(config);
    let settings =
        lambda.get_account_settings().send().await.map_err(|e| refused("Lambda GetAccountSettings", &e))?;
    let count = |value: i32| u32::try_from(value).unwrap_or(0);
    let limit = settings.account_limit();
    let concurrency = limit.map_or(0, |limit| count(limit.concurrent_executions()));
    let unreserved = limit.and_then(|limit| limit.unreserved_concurrent_executions());
    let mut own = 0;
    for function in functions {
        match lambda.get_function_concurrency().function_name(function).send().await {
            Ok(found) => own += found.reserved_concurrent_executions().map_or(0, count),
            Err(e) if e.as_service_error().is_some_and(|e| e.is_resource_not_found_exception()) => {}
            Err(e) => return Err(refused(format!("Lambda GetFunctionConcurrency {function}"), &e)),
        }
    }
    Ok(Account {
        id: identity.account().unwrap_or_default().to_owned(),
        caller: identity.arn().unwrap_or_default().to_owned(),
        concurrency,
        unreserved: unreserved.map_or(concurrency, count),
        own,
    })
}

/// Returns the region of a stack, and whether a stack with this name exists.
///
/// # Errors
/// Returns an error if `sam`, the region or the credentials are missing, and errors of AWS.
pub fn locate(target: &Target) -> Result<Located> {
    check_stack(&target.stack)?;
    let sam = Sam::find()?;
    let config = wait(async { Ok(sdk(target.region.as_deref(), target.profile.as_deref()).await?) })?;
    let region = region(&config);
    let place = stack::place(&region, target.profile.as_deref());
    let is_taken = sam.outputs(&target.stack, &place)?.is_some();
    Ok(Located { region, is_taken })
}

/// Deletes a stack with the objects in its bucket and with its packages, then checks that nothing
/// is left. Progress is reported to `watch`.
///
/// # Errors
/// Returns errors of AWS. Also returns an error that names the resources that still exist.
pub fn destroy(target: &Target, watch: &mut dyn FnMut(Progress<'_>)) -> Result<Destroyed> {
    check_stack(&target.stack)?;
    let sam = Sam::find()?.shielded(target.shielded);
    let mut done = Destroyed::default();
    watch(Progress::Step("asking for the account and the stack"));
    let config = wait(async { Ok(sdk(target.region.as_deref(), target.profile.as_deref()).await?) })?;
    let account = wait(account(&config, &[]))?;
    let client = bucket::client(&config, None);
    let packages = stack::packages_bucket(&target.stack, &account.id, &region(&config));
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
        let (_scratch, folder) = nowhere()?;
        sam.run(&folder, &line, &[], &mut |line| watch(Progress::Line(line)))?;
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

/// Checks which of a stack's buckets and functions still exist. Appends the names of deleted
/// resources to `gone`, and returns the names of the others.
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

/// Maximum number of objects that one request of [`clean`] lists and deletes.
const PAGE: usize = 1000;
const MAX_PAGES: usize = 10_000;

/// Deletes the objects of a run from the bucket of a deployment, and returns their number.
///
/// The bucket stores no object versions. The policy TrainerPolicy of the stack allows these
/// requests, because a run lists and deletes objects in the same way.
///
/// # Errors
/// Returns an error if the run name is not valid, and errors of AWS.
pub fn clean(deployment: &Deployment, run: &str) -> Result<u64> {
    let keys = RunKeys::new(run)?;
    wait(async {
        let config = sdk(Some(&deployment.region), deployment.profile.as_deref()).await?;
        let store = store(deployment, &config)?;
        let mut removed = 0;
        for _ in 0..MAX_PAGES {
            let found = store.list(keys.prefix(), PAGE).await?;
            let found: Vec<Key> = found.into_iter().map(|(key, _)| key).collect();
            if found.is_empty() {
                return Ok(removed);
            }
            store.delete(&found).await?;
            removed += found.len() as u64;
        }
        let reason = format!("{removed} objects of run {run} were removed and there are more: run it again");
        Err(Error::Choice(reason))
    })
}

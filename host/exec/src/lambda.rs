//! Start of the executor that computes tasks on the AWS Lambda functions of a deployment.

use std::sync::Arc;
use std::time::Duration;

use eciton_cloud::deployment::{DEFAULT_STACK, Deployment};
use eciton_cloud::error::{Error, at_store, system};
use eciton_cloud::kernel_keys::KernelKeys;
use eciton_cloud::lambda_invoker::{LambdaInvoker, LambdaSettings};
use eciton_cloud::{Host, aws, runtime};

use crate::functions::{Wanted, run_name};
use crate::remote::RemotePool;

/// Starts a remote pool that computes tasks on the AWS Lambda functions of a deployment. Compiles
/// and stores the kernels that are not yet in the deployment's bucket.
///
/// # Errors
/// Returns an [`Error`] if there is no deployment or there are no credentials. Also returns one if
/// the bucket cannot be written, or if a kernel cannot be compiled or signed.
pub fn start(wanted: Wanted) -> Result<RemotePool<LambdaInvoker>, Error> {
    let asked = &wanted.executor;
    let deployment = Deployment::load(asked.deployment.as_deref().unwrap_or(DEFAULT_STACK))?;
    let function = deployment.function(Some(asked.memory_mb))?;
    let runtime = runtime(2)?;
    let config =
        runtime.block_on(aws::sdk(Some(deployment.region.as_str()), deployment.profile.as_deref()))?;
    let store = aws::store(&deployment, &config).map_err(at_store("open the object store"))?;
    let keys = KernelKeys::from_deployment(&deployment)?;
    runtime.block_on(wanted.store_kernels(&store, function.architecture.baseline(), &keys))?;
    let settings = LambdaSettings {
        function: function.name.clone(),
        region: deployment.region.clone(),
        endpoint: deployment.endpoints.lambda.clone(),
        timeout: Duration::from_secs(u64::from(deployment.timeout_s)),
        memory_mb: function.memory_mb,
    };
    let host = Host::find(asked.host, Some(&deployment.region), deployment.zone.as_deref());
    let architecture = Some(function.architecture);
    let remote = wanted.settings(run_name(), architecture, &deployment.most(), Some(host));
    let invoker = LambdaInvoker::new(&config, settings);
    RemotePool::new(wanted.local, invoker, Some(Arc::new(store)), remote, runtime)
        .map_err(system("start the pool of functions"))
}

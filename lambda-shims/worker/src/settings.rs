//! Settings of a worker, which are part of its deployment.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use eciton_kernel::artefact::Verifier;
use eciton_transport::{S3Settings, S3Store, Store};

use crate::error::{Error, Result};

/// Minimum memory size of a function, in bytes.
const LEAST_MEMORY_BYTES: u64 = 128 << 20;

/// Settings of a [`Worker`](crate::Worker): the object store, the trusted key, and limits.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Object store for large frames, shared objects and the kernels of users. If `None`, the
    /// worker accepts only frames inside events.
    pub store: Option<Arc<dyn Store>>,
    /// Public key of the deployment. The worker runs only kernels that are signed with the
    /// corresponding private key.
    pub trusted: Verifier,
    /// Folder with the kernels of the functions' package, if any. File names are those of
    /// [`eciton_kernel::artefact::store_key`] without the folder.
    pub kernel_folder: Option<PathBuf>,
    /// Maximum total size of the shared objects that are cached between invocations, in bytes.
    pub cache_bytes: u64,
    /// Memory of the function, in bytes. It limits the decoded frames of an invocation and the
    /// linear memory of a kernel.
    pub memory_bytes: u64,
    /// Maximum time for one operation of the object store. One second per MiB is added to it.
    pub store_time: Duration,
    /// Start time of the process, for the measurement of its initialisation time.
    pub begun: Instant,
}

impl Settings {
    /// Creates settings for a function with 1 GiB of memory and the given key and object store.
    #[must_use]
    pub fn new(trusted: Verifier, store: Option<Arc<dyn Store>>) -> Self {
        Self {
            store,
            trusted,
            kernel_folder: None,
            cache_bytes: 256 << 20,
            memory_bytes: 1 << 30,
            store_time: Duration::from_secs(60),
            begun: Instant::now(),
        }
    }

    /// Reads the settings from Lambda's environment variables:
    /// * `ECITON_SIGNING_KEY` is the public key, 64 hex digits.
    /// * `ECITON_BUCKET` is the bucket, if there is one, in the region `AWS_REGION`. Credentials
    ///   are in `AWS_*`. `AWS_ENDPOINT_URL_S3` is set if the store is not AWS's.
    /// * `AWS_LAMBDA_FUNCTION_MEMORY_SIZE` is the memory in megabytes.
    /// * `LAMBDA_TASK_ROOT/kernels` is the folder of kernels.
    ///
    /// # Errors
    /// Returns [`Error::Settings`] with the name of the variable that is missing or not valid.
    pub fn from_env() -> Result<Self> {
        Self::from_variables(&|name| std::env::var(name).ok().filter(|v| !v.is_empty()))
    }

    fn from_variables(variable: &dyn Fn(&'static str) -> Option<String>) -> Result<Self> {
        let wrong = |variable, reason: String| Error::Settings { variable, reason };
        let key = variable("ECITON_SIGNING_KEY").ok_or_else(|| {
            wrong(
                "ECITON_SIGNING_KEY",
                "it is not set; its value must be the public key whose kernels may run (64 hex digits)"
                    .to_owned(),
            )
        })?;
        let trusted = Verifier::parse(&key).map_err(|e| wrong("ECITON_SIGNING_KEY", e.to_string()))?;
        let memory = variable("AWS_LAMBDA_FUNCTION_MEMORY_SIZE");
        let memory_bytes = match memory.as_deref().map(str::parse::<u32>) {
            None => 1 << 30,
            Some(Ok(megabytes)) => (u64::from(megabytes) << 20).max(LEAST_MEMORY_BYTES),
            Some(Err(_)) => {
                let reason = format!("`{}` is not a number of megabytes", memory.unwrap_or_default());
                return Err(wrong("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", reason));
            }
        };
        let store = match variable("ECITON_BUCKET") {
            None => None,
            Some(bucket) => Some(store(bucket, variable)?),
        };
        Ok(Self {
            kernel_folder: variable("LAMBDA_TASK_ROOT").map(|root| PathBuf::from(root).join("kernels")),
            memory_bytes,
            cache_bytes: memory_bytes / 4,
            ..Self::new(trusted, store)
        })
    }
}

/// Opens the bucket at AWS or at a compatible service. `variable` looks up an environment variable.
fn store(bucket: String, variable: &dyn Fn(&'static str) -> Option<String>) -> Result<Arc<dyn Store>> {
    let region = variable("AWS_REGION").unwrap_or_else(|| "us-east-1".to_owned());
    let mut settings = S3Settings::new(bucket, region);
    settings.endpoint = variable("AWS_ENDPOINT_URL_S3");
    match S3Store::new(settings) {
        Ok(store) => Ok(Arc::new(store)),
        Err(e) => Err(Error::Settings { variable: "ECITON_BUCKET", reason: e.to_string() }),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Valid public key for tests, which is the generator of the curve.
    const KEY: &str = "5866666666666666666666666666666666666666666666666666666666666666";

    fn from(given: &[(&str, &str)]) -> Result<Settings> {
        Settings::from_variables(&|name| given.iter().find(|g| g.0 == name).map(|g| g.1.to_owned()))
    }

    #[test]
    fn the_environment_is_read_and_faults_are_named() {
        let settings = from(&[
            ("ECITON_SIGNING_KEY", KEY),
            ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "512"),
            ("LAMBDA_TASK_ROOT", "/var/task"),
        ])
        .unwrap();
        assert_eq!((settings.memory_bytes, settings.cache_bytes), (512 << 20, 128 << 20));
        assert_eq!(settings.kernel_folder.unwrap(), PathBuf::from("/var/task/kernels"));
        assert!(settings.store.is_none());
        assert_eq!(from(&[("ECITON_SIGNING_KEY", KEY)]).unwrap().memory_bytes, 1 << 30);
        for (given, named) in [
            (vec![], "ECITON_SIGNING_KEY"),
            (vec![("ECITON_SIGNING_KEY", "x")], "ECITON_SIGNING_KEY"),
            (
                vec![("ECITON_SIGNING_KEY", KEY), ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "-1")],
                "AWS_LAMBDA_FUNCTION_MEMORY_SIZE",
            ),
            (vec![("ECITON_SIGNING_KEY", KEY), ("ECITON_BUCKET", "a/b")], "ECITON_BUCKET"),
        ] {
            let error = from(&given).unwrap_err();
            assert!(matches!(&error, Error::Settings { variable, .. } if *variable == named), "{error}");
            assert_eq!(error.name(), "Eciton.Settings");
        }
    }
}

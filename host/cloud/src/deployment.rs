//! Deployments: JSON files that `eciton deploy` writes and `eciton train --executor lambda` reads.
//!
//! A deployment names the functions, the bucket, the region, and the public key that signs the
//! kernels. It contains no secret. It has only the path of the signing key, and AWS tools manage
//! the credentials.
//!
//! The file of the deployment `NAME` is `eciton/deployments/NAME.json` in the user's configuration
//! folder. A path that contains a `/` or ends with `.json` can be given instead of the name.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::architecture::Architecture;
use crate::concurrency::ConcurrencyLimit;
use crate::error::{Error, Result};

/// Version of the file format that this program reads and writes.
pub const VERSION: u32 = 1;
/// Name of the CloudFormation stack if the user gives none.
pub const DEFAULT_STACK: &str = "eciton";
/// Maximum size of a deployment file, in bytes.
const MAX_BYTES: u64 = 64 << 10;
/// Maximum number of functions of a deployment.
const MAX_FUNCTIONS: usize = 64;
/// Maximum length of a stack name, in characters. Bucket names start with the stack name and may
/// have only 63 characters.
pub const MAX_STACK_CHARS: usize = 20;

/// A function of a deployed stack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Function {
    /// Name of the function, with which it is invoked.
    pub name: String,
    /// Memory of the function, in MiB. AWS assigns processor time in proportion to the memory, with
    /// one processor at 1,769 MiB.
    pub memory_mb: u32,
    /// Processor architecture of the function, for which kernels are compiled.
    pub architecture: Architecture,
}

/// URLs of services other than those of AWS, for tests and for compatible services.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Endpoints {
    /// URL of the Lambda API. If `None`, the URL of AWS is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lambda: Option<String>,
    /// URL of the S3 API. If `None`, the URL of AWS is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub s3: Option<String>,
}

/// A deployed stack of functions with their bucket. Each deployment is stored in a JSON file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deployment {
    /// Version of the file format, which is [`VERSION`].
    pub version: u32,
    /// Name of the CloudFormation stack.
    pub stack: String,
    /// AWS region, for instance `us-east-1`.
    pub region: String,
    /// Availability zone of the functions, for instance `us-east-1a`, if all are in one zone.
    /// `eciton deploy` does not set it. A user who attaches the functions to a subnet adds it to
    /// the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// AWS profile with which the stack was deployed, if one was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Functions that compute tasks, in ascending order of memory. There are 1 to 64 of them.
    pub functions: Vec<Function>,
    /// Functions that compute whole training runs, in ascending order of memory. May be empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trainers: Vec<Function>,
    /// Time limit of each function, in seconds.
    pub timeout_s: u32,
    /// Numeric class in which the functions compute. Machines of one numeric class compute results
    /// with the same bits. If `None`, each function uses the best class of its processor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numeric_class: Option<String>,
    /// Name of the bucket, which contains the objects of runs and the kernels of the user.
    pub bucket: String,
    /// Object keys of the kernels in the functions' package, in the form
    /// `kernels/DIGEST.BASELINE.cwasm`. These kernels need not be in the bucket.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packaged: Vec<String>,
    /// Path of the private key file that signs kernels. The file exists only on the machine that
    /// deployed the stack, and only new kernels need it.
    pub signing_key: PathBuf,
    /// Public key that belongs to `signing_key`, as 64 hexadecimal digits. The functions use it to
    /// verify kernels.
    pub verifying_key: String,
    /// Maximum number of functions that the account could run at the same time when the stack was
    /// deployed.
    pub account_concurrency: u32,
    /// Concurrency that is reserved for each function and also limits it. If `None`, no concurrency
    /// is reserved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_concurrency: Option<u32>,
    /// URLs of services that are not those of AWS.
    #[serde(default)]
    pub endpoints: Endpoints,
}

impl Deployment {
    /// Returns the user's folder of deployment files, `$XDG_CONFIG_HOME/eciton/deployments` or
    /// `~/.config/eciton/deployments`. Returns `None` if the user has no home folder.
    #[must_use]
    pub fn folder() -> Option<PathBuf> {
        user_folder("XDG_CONFIG_HOME", ".config").map(|folder| folder.join("eciton/deployments"))
    }

    /// Returns the path of a deployment file. `name` is the name of a stack or already a path.
    ///
    /// # Errors
    /// Returns an [`Error`] if `name` is not a valid stack name, or if the user has no home folder.
    pub fn path(name: &str) -> Result<PathBuf> {
        if name.contains('/') || name.ends_with(".json") {
            return Ok(PathBuf::from(name));
        }
        check_stack(name)?;
        let folder = Self::folder().ok_or_else(|| {
            Error::Choice("HOME is not set: specify the deployment by the path of its file".to_owned())
        })?;
        Ok(folder.join(format!("{name}.json")))
    }

    /// Reads a deployment from its file. `name` is the name of a stack or a path.
    ///
    /// # Errors
    /// Returns an [`Error`] if the file does not exist, is not valid, or has another format
    /// version.
    pub fn load(name: &str) -> Result<Self> {
        let path = Self::path(name)?;
        match std::fs::metadata(&path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                return Err(Error::NoDeployment { name: name.to_owned(), known: known(), path });
            }
            Ok(found) if found.len() > MAX_BYTES => {
                let reason = format!("the file has {} bytes, but the maximum is {MAX_BYTES}", found.len());
                return Err(Error::Content { path, reason });
            }
            _ => {}
        }
        let text = eciton_input::file::read(&path, MAX_BYTES).map_err(Error::file(&path, "read"))?;
        let wrong = |reason: String| Error::Content { path: path.clone(), reason };
        let found: Self = serde_json::from_slice(&text).map_err(|e| {
            wrong(format!("not a deployment: {e}; run `eciton deploy` to write the file again"))
        })?;
        found.check().map_err(wrong)?;
        Ok(found)
    }

    fn check(&self) -> std::result::Result<(), String> {
        if self.version != VERSION {
            return Err(format!(
                "the file has version {}, but this program reads version {VERSION}: run `eciton deploy` to write \
                 the file again",
                self.version
            ));
        }
        if self.functions.is_empty() || self.functions.len() > MAX_FUNCTIONS {
            return Err(format!(
                "the deployment has {} functions, but must have 1 to {MAX_FUNCTIONS}",
                self.functions.len()
            ));
        }
        Ok(())
    }

    /// Writes the deployment to `path` atomically. Creates the folder of the file if necessary.
    ///
    /// # Errors
    /// Returns an [`Error`] if the folder or the file cannot be written.
    pub fn save(&self, path: &Path) -> Result<()> {
        let mut text = serde_json::to_vec_pretty(self)
            .map_err(|e| Error::Content { path: path.to_owned(), reason: e.to_string() })?;
        text.push(b'\n');
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder).map_err(Error::file(folder, "made"))?;
        let beside = folder.join(format!(".deployment-{}.json", std::process::id()));
        let write = || -> std::io::Result<()> {
            let mut file = std::fs::File::create(&beside)?;
            file.write_all(&text)?;
            file.sync_all()?;
            std::fs::rename(&beside, path)
        };
        write().map_err(|e| {
            let _ = std::fs::remove_file(&beside);
            Error::file(path, "written")(e)
        })
    }

    /// Returns the function for tasks that has exactly `memory_mb` MiB of memory. If `None`,
    /// returns the function with the least memory.
    ///
    /// # Errors
    /// Returns an [`Error`] if no function has this memory.
    pub fn function(&self, memory_mb: Option<u32>) -> Result<&Function> {
        let found = match memory_mb {
            None => self.functions.iter().min_by_key(|f| f.memory_mb),
            Some(size) => self.functions.iter().find(|f| f.memory_mb == size),
        };
        found.ok_or_else(|| {
            let sizes: Vec<String> = self.functions.iter().map(|f| f.memory_mb.to_string()).collect();
            Error::Choice(format!(
                "deployment `{}` has no function of {} MB; it has {}; add others with `eciton deploy --memory`",
                self.stack,
                memory_mb.unwrap_or_default(),
                sizes.join(", ")
            ))
        })
    }
}

impl Deployment {
    /// Returns the smallest function for whole training runs that has at least `memory_mb` MiB of
    /// memory.
    ///
    /// # Errors
    /// Returns an [`Error`] if no function for whole training runs has that much memory.
    pub fn trainer(&self, memory_mb: u32) -> Result<&Function> {
        let fit = self.trainers.iter().filter(|function| function.memory_mb >= memory_mb);
        fit.min_by_key(|function| function.memory_mb).ok_or_else(|| {
            let sizes: Vec<String> = self.trainers.iter().map(|f| f.memory_mb.to_string()).collect();
            let has = if sizes.is_empty() { "none".to_owned() } else { sizes.join(", ") };
            Error::Choice(format!(
                "deployment `{}` has no function for whole runs of {memory_mb} MB or more; it has {has}; \
                 add them with `eciton deploy --trainer`",
                self.stack
            ))
        })
    }

    /// Returns the maximum number of functions that may run at the same time, with the origin of
    /// this limit.
    #[must_use]
    pub fn most(&self) -> ConcurrencyLimit {
        let stack = &self.stack;
        match self.reserved_concurrency {
            Some(count) => ConcurrencyLimit {
                count: count.max(1),
                limit: format!(
                    "stack `{stack}` reserves {count} for each function, which is also its limit; change it with \
                     `eciton deploy --reserve N`"
                ),
            },
            None => ConcurrencyLimit {
                count: self.account_concurrency.max(1),
                limit: format!(
                    "the account could run {} functions at once when stack `{stack}` was deployed; request a higher \
                     quota from AWS (Service Quotas, Lambda, concurrent executions), then run `eciton deploy` again",
                    self.account_concurrency
                ),
            },
        }
    }
}

/// Returns a folder of the user, such as the configuration folder. It is the value of the
/// environment variable `variable` if that is an absolute path. Otherwise it is `rest` in the home
/// folder.
#[must_use]
pub fn user_folder(variable: &str, rest: &str) -> Option<PathBuf> {
    let value = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    value(variable)
        .filter(|path| path.is_absolute())
        .or_else(|| value("HOME").filter(|home| home.is_absolute()).map(|home| home.join(rest)))
}

/// Returns the names of all deployments for an error message, in the form `; there are: a, b`.
/// Returns an empty text if there are none.
fn known() -> String {
    let entries = Deployment::folder().and_then(|folder| std::fs::read_dir(folder).ok());
    let files = entries.into_iter().flatten().flatten().map(|entry| entry.path());
    let json = files.filter(|path| path.extension().is_some_and(|e| e == "json"));
    let mut names: Vec<String> = json
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .filter(|n| !n.starts_with('.'))
        .collect();
    names.sort();
    if names.is_empty() { String::new() } else { format!("; existing deployments: {}", names.join(", ")) }
}

/// Checks that a stack name consists of lower-case letters, digits and hyphens, and starts with a
/// letter. Bucket names start with the stack name and allow no other characters.
///
/// Returns an [`Error`] that states the rule if the name is not valid.
pub fn check_stack(name: &str) -> Result<()> {
    let starts = name.starts_with(|c: char| c.is_ascii_lowercase());
    let plain = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    if starts && plain && !name.ends_with('-') && name.len() <= MAX_STACK_CHARS {
        return Ok(());
    }
    Err(Error::Choice(format!(
        "`{name}` is not a valid stack name: use at most {MAX_STACK_CHARS} lower-case letters, digits and hyphens, \
         with a letter first and no hyphen last"
    )))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn deployment() -> Deployment {
        let function = |memory_mb| Function {
            name: format!("eciton-worker-{memory_mb}"),
            memory_mb,
            architecture: Architecture::X86_64,
        };
        Deployment {
            version: VERSION,
            stack: "eciton".to_owned(),
            region: "us-east-1".to_owned(),
            zone: None,
            profile: None,
            functions: vec![function(1769), function(3538)],
            trainers: Vec::new(),
            timeout_s: 120,
            numeric_class: None,
            bucket: "eciton-bucket-1".to_owned(),
            packaged: Vec::new(),
            signing_key: "/k".into(),
            verifying_key: "00".repeat(32),
            account_concurrency: 10,
            reserved_concurrency: None,
            endpoints: Endpoints::default(),
        }
    }

    #[test]
    fn what_is_saved_is_loaded() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep/er/a.json");
        let saved = deployment();
        saved.save(&path).unwrap();
        assert_eq!(Deployment::load(path.to_str().unwrap()).unwrap(), saved);
        assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "nothing beside it");
    }

    #[test]
    fn other_files_are_refused_with_words() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.json");
        let name = path.to_str().unwrap();
        assert!(matches!(Deployment::load(name), Err(Error::NoDeployment { .. })));
        for (text, words) in [
            ("{".to_owned(), "not a deployment"),
            (" ".repeat(MAX_BYTES as usize + 1), "but the maximum is"),
            (serde_json::to_string(&Deployment { version: 2, ..deployment() }).unwrap(), "version 2"),
            (
                serde_json::to_string(&Deployment { functions: vec![], ..deployment() }).unwrap(),
                "0 functions",
            ),
        ] {
            std::fs::write(&path, text).unwrap();
            let said = Deployment::load(name).unwrap_err().to_string();
            assert!(said.contains(words) && said.contains("a.json"), "{said}");
        }
    }

    #[test]
    fn functions_are_chosen_by_memory() {
        let deployment = deployment();
        assert_eq!(deployment.function(None).unwrap().memory_mb, 1769);
        assert_eq!(deployment.function(Some(3538)).unwrap().memory_mb, 3538);
        assert!(deployment.function(Some(1)).unwrap_err().to_string().contains("1769, 3538"));
    }

    #[test]
    fn the_limit_that_holds_is_named() {
        let account = deployment().most();
        assert_eq!(account.count, 10);
        assert!(account.limit.contains("could run 10 functions") && account.limit.contains("Service Quotas"));
        let reserved = Deployment { reserved_concurrency: Some(5), ..deployment() }.most();
        assert_eq!(reserved.count, 5);
        assert!(reserved.limit.contains("stack `eciton` reserves 5") && reserved.limit.contains("--reserve"));
    }

    #[test]
    fn a_file_of_before_is_still_a_deployment() {
        let mut text = serde_json::to_value(deployment()).unwrap();
        let fields = text.as_object_mut().unwrap();
        assert!(!fields.contains_key("zone") && !fields.contains_key("packaged"), "{fields:?}");
        assert_eq!(serde_json::from_value::<Deployment>(text).unwrap(), deployment());
    }

    #[test]
    fn names_of_stacks() {
        for good in ["eciton", "a", "e-2", &"a".repeat(MAX_STACK_CHARS)] {
            check_stack(good).unwrap();
        }
        for bad in ["", "2a", "A", "a_b", "a-", "ä", "a/b", &"a".repeat(MAX_STACK_CHARS + 1)] {
            assert!(check_stack(bad).is_err(), "{bad}");
        }
        assert_eq!(Deployment::path("./x").unwrap(), Path::new("./x"));
        assert_eq!(Deployment::path("x.json").unwrap(), Path::new("x.json"));
    }
}

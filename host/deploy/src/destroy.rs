//! Deletion of stacks: the stack to delete, and the result.

use std::path::PathBuf;

use eciton_cloud::Error;
use eciton_cloud::deployment::{Deployment, check_stack};
use serde::Serialize;

use super::error::Result;

/// Stack that `eciton destroy` deletes, and the options for it.
#[derive(Debug, Clone)]
pub struct Target {
    /// Name of the CloudFormation stack.
    pub stack: String,
    /// Region of the stack. If `None`, the deployment file or AWS's settings determine it.
    pub region: Option<String>,
    /// AWS profile with the credentials. If `None`, AWS's settings determine it.
    pub profile: Option<String>,
    /// Deployment file, which is deleted at the end. `None` if there is none.
    pub file: Option<PathBuf>,
    /// Bucket that the deployment file names. Its deletion is checked even if the stack no longer
    /// exists.
    pub bucket: Option<String>,
    /// True if signals of the terminal must not reach `sam`.
    pub shielded: bool,
}

/// Result of a search for a stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located {
    /// Region of the stack, from the target, the credentials or AWS's settings.
    pub region: String,
    /// True if a stack with this name exists.
    pub is_taken: bool,
}

impl Target {
    /// Finds a deployment by name or path of its file. Without a file, `name` is the name of the
    /// stack.
    ///
    /// # Errors
    /// Returns an error if the file is damaged, or if the name is not valid for a stack.
    pub fn find(name: &str, region: Option<String>, profile: Option<String>) -> Result<Self> {
        match Deployment::load(name) {
            Ok(found) => Ok(Self {
                stack: found.stack,
                region: region.or(Some(found.region)),
                profile: profile.or(found.profile),
                file: Some(Deployment::path(name)?),
                bucket: Some(found.bucket),
                shielded: false,
            }),
            Err(Error::NoDeployment { .. }) if check_stack(name).is_ok() => Ok(Self {
                stack: name.to_owned(),
                region,
                profile,
                file: None,
                bucket: None,
                shielded: false,
            }),
            Err(error) => Err(error.into()),
        }
    }
}

/// Result of a deletion: the resources that were deleted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Destroyed {
    /// True if the stack existed and was deleted.
    pub stack: bool,
    /// Number of objects, versions and delete markers that were deleted from the stack's bucket.
    pub objects: u64,
    /// Number of objects, versions and delete markers that were deleted from the packages' bucket.
    pub package_objects: u64,
    /// Names of resources that were checked afterwards and no longer exist.
    pub gone: Vec<String>,
}

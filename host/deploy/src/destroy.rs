//! Input and result of the deletion of a stack.

use std::path::PathBuf;

use eciton_cloud::Error;
use eciton_cloud::deployment::{Deployment, check_stack};
use serde::Serialize;

use super::error::Result;

/// The stack that `eciton destroy` deletes, with the options of the deletion.
#[derive(Debug, Clone)]
pub struct Target {
    /// Name of the CloudFormation stack.
    pub stack: String,
    /// AWS region of the stack. If `None`, the AWS configuration of the user determines it.
    pub region: Option<String>,
    /// AWS profile with the credentials. If `None`, the AWS configuration of the user determines
    /// it.
    pub profile: Option<String>,
    /// Path of the deployment file, which is deleted after the stack. `None` if the stack has no
    /// deployment file.
    pub file: Option<PathBuf>,
    /// Name of the bucket in the deployment file. After the deletion, the bucket must not exist,
    /// even if the stack was already deleted before.
    pub bucket: Option<String>,
    /// True if signals of the terminal, for instance Ctrl-C, must not reach the `sam` process.
    pub shielded: bool,
}

/// Result of [`locate`](crate::locate), which looks for a stack at AWS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located {
    /// AWS region of the stack, from the [`Target`] or the user's AWS configuration.
    pub region: String,
    /// True if a stack with this name exists.
    pub is_taken: bool,
}

impl Target {
    /// Finds the stack to delete. `name` is the name or path of a deployment file, or the name of a
    /// stack if no such file exists.
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

/// Result of [`destroy`](fn@crate::destroy): the resources that were deleted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Destroyed {
    /// True if the stack existed and was deleted.
    pub stack: bool,
    /// Number of objects that were deleted from the stack's bucket. Each version and each delete
    /// marker counts as one object.
    pub objects: u64,
    /// Number of objects that were deleted from the bucket with the packages. Each version and each
    /// delete marker counts as one object.
    pub package_objects: u64,
    /// Names of the resources that were found deleted, for instance `bucket NAME` or `function
    /// NAME`.
    pub gone: Vec<String>,
}

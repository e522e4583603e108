//! Taking away: what is named, and what was found gone.

use std::path::PathBuf;

use eciton_exec::deployment::{Deployment, check_stack};
use eciton_exec::functions::Error;
use serde::Serialize;

use super::error::Result;

/// The stack to delete.
#[derive(Debug, Clone)]
pub struct Target {
    /// The stack.
    pub stack: String,
    /// Region. If `None`, it is that of the deployment's file or of AWS's settings.
    pub region: Option<String>,
    /// Whose credentials.
    pub profile: Option<String>,
    /// The deployment's file, if it is there: removed at the end.
    pub file: Option<PathBuf>,
    /// The bucket, where a file tells it: it is looked for afterwards even if the stack is gone.
    pub bucket: Option<String>,
    /// True if signals of the terminal do not reach `sam`.
    pub shielded: bool,
}

/// Result of a look for a stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located {
    /// The region, which credentials and settings of AWS may name.
    pub region: String,
    /// True if a stack of the name is there.
    pub is_taken: bool,
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

/// The resources that were deleted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Destroyed {
    /// True if there was a stack.
    pub stack: bool,
    /// Objects, versions and markers that were removed from the stack's bucket.
    pub objects: u64,
    /// The same of the packages' bucket.
    pub package_objects: u64,
    /// Resources that were looked for afterwards and do not exist any more.
    pub gone: Vec<String>,
}

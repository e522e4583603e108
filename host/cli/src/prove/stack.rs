//! Guard of the stack of AWS resources that exists only during a proof.

use eciton_deploy::{Choices, Deployed, Destroyed, Target};

use crate::deploy::{builtin, show};
use crate::failure::Failure;
use crate::output::tell;

/// Maximum number of attempts to remove a stack. The first attempt can fail, because a function
/// that is still running may write to the bucket.
const ATTEMPTS: u32 = 2;

/// Guard that removes a stack when it is dropped, unless [`Temporary::remove`] was called before.
pub(super) struct Temporary {
    target: Target,
    removed: bool,
}

impl Temporary {
    /// Creates the guard of a stack before the stack is deployed. The stack is removed even if its
    /// deployment fails.
    pub(super) fn new(target: Target) -> Self {
        Self { target, removed: false }
    }

    /// Creates the stack with its functions on AWS.
    pub(super) fn deploy(&mut self, choices: &Choices) -> Result<Deployed, Failure> {
        let deployed = eciton_deploy::deploy(choices, &builtin(), &[], &mut show)?;
        // The deployment file is removed together with the stack.
        self.target.file = Some(deployed.file.clone());
        self.target.bucket = Some(deployed.deployment.bucket.clone());
        Ok(deployed)
    }

    /// Returns the command line with which the user can remove the stack.
    pub(super) fn command(&self) -> String {
        let Target { stack, region, profile, .. } = &self.target;
        let flag = |name: &str, value: &Option<String>| {
            value.as_ref().map_or_else(String::new, |value| format!(" {name} {value}"))
        };
        format!(
            "eciton destroy --stack {stack}{}{} --yes",
            flag("--region", region),
            flag("--profile", profile)
        )
    }

    /// Removes the stack and all its resources. After a failure, the removal is repeated up to
    /// [`ATTEMPTS`] attempts in total.
    ///
    /// # Errors
    /// Returns a text with the reason, and with the command line that removes the stack.
    pub(super) fn remove(&mut self) -> Result<Destroyed, String> {
        let mut failed = String::new();
        for _ in 0..ATTEMPTS {
            match eciton_deploy::destroy(&self.target, &mut show) {
                Ok(done) => {
                    self.removed = true;
                    return Ok(done);
                }
                Err(error) => failed = Failure::text(&error),
            }
        }
        // The caller reports the failure. `drop` must not report it again.
        self.removed = true;
        Err(format!(
            "stack `{}` could not be removed and may cause costs: {failed}\nto remove it, run: {}",
            self.target.stack,
            self.command()
        ))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.removed
            && let Err(text) = self.remove()
        {
            tell(format_args!("error: {text}"));
        }
    }
}

//! A stack that exists for the time of a proof.

use eciton_deploy::{Choices, Deployed, Destroyed, Target};

use crate::deploy::{builtin, show};
use crate::failure::Failure;
use crate::output::tell;

/// Number of attempts to remove a stack: a function that still writes may keep its bucket from
/// being empty.
const ATTEMPTS: u32 = 2;

/// A stack that is removed at the latest when this value is dropped.
pub(super) struct Temporary {
    target: Target,
    removed: bool,
}

impl Temporary {
    /// Returns a stack to be. From now on it is removed in any case.
    pub(super) fn new(target: Target) -> Self {
        Self { target, removed: false }
    }

    pub(super) fn deploy(&mut self, choices: &Choices) -> Result<Deployed, Failure> {
        let deployed = eciton_deploy::deploy(choices, &builtin(), &[], &mut show)?;
        // The deployment's file is removed together with the stack.
        self.target.file = Some(deployed.file.clone());
        self.target.bucket = Some(deployed.deployment.bucket.clone());
        Ok(deployed)
    }

    /// Returns the command that removes the stack by hand.
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

    /// Removes the stack. The text of a failure names the command that removes it.
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
        // It was reported; a second report helps nobody.
        self.removed = true;
        Err(format!(
            "stack `{}` could not be removed, and may cost money: {failed}\nremove it with: {}",
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
